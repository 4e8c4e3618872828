/* link.h - one connection to PostgreSQL.
 *
 * Statements are templates: {schema} and {box} are replaced by quoted names, {box} by that of the box's table.  They are prepared
 * once and run by name, or, behind a pooler that hands out another server connection for each
 * transaction, run unnamed.  Parameters and results are binary.
 *
 * Several statements go out in one round trip:
 *
 *     link_add(link, SQL_ONE, box, &args, &one);     any number of them
 *     link_add(link, SQL_TWO, box, &args2, &two);
 *     rc = link_run(link, reterr);                   one, two are set when it is PR_OK
 *
 * Results belong to the link until link_forget().  A statement that fails ends the
 * others of its batch, and the transaction must be rolled back.
 *
 * What nobody waits for is left on its way, and the server works on it while we do something else:
 *
 *     link_add(link, SQL_THREE, box, &args3, &three);
 *     rc = link_leave(link, reterr);
 *     link_settle(link);                             three is set, and the caller's; or it stays as it was
 *
 * Whatever uses the link next settles it first; except a batch that goes behind it (link_queue_next).
 *
 * Inside a transaction a statement can be tried: whether it fails or not, it is undone, and the rest goes on:
 *
 *     link_trials_begin(link);
 *     link_trial_begin(link, state);                 any number of trials
 *     link_add(link, SQL_FOUR, box, &args4, NULL);
 *     link_trial_end(link);
 *     link_trials_end(link);
 *     rc = link_run(link, reterr);                   state is "", or the server's word for why it failed;
 *                                                    the result of what is tried is not told
 *
 * Threads: one at a time. */
#ifndef STORE_POSTGRES_LINK_LINK_H
#define STORE_POSTGRES_LINK_LINK_H

#include <libpq-fe.h>

#include "base/log.h"
#include "core/message.h"
#include "store/postgres/link/param.h"

#define LINK_STEPS_MAX 300 /* statements and preparations in one batch */
#define SQL_STATE_SIZE 6
#define LOCK_TIMEOUT_MIN_US PR_MILLISECONDS(50)
#define LOCK_TIMEOUT_MAX_US PR_SECONDS(10) /* a person would ask by then what is going on */

/* Where the server is: from the store's URL. */
struct conninfo {
    char *schema;
    char **keywords, **values; /* as PQconnectdbParams() wants them */
    bool prepare;              /* unless the URL says prepare=off */
};
PR_MUST_CHECK int pg_conninfo_parse(const char *url, struct conninfo *ret, struct pr_error *reterr);
void pg_conninfo_fini(struct conninfo *conninfo);

/* What the connection is for. */
enum link_use {
    LINK_RELAY,  /* cycles: exact keys only, whatever the statistics say */
    LINK_PEOPLE, /* everything else */
};

#define LINK_TEXTS 32

struct link_statement;

/* A box by its name, and the table that it has: it never changes. */
struct link_box {
    char name[BOX_NAME_MAX + 1], table[BOX_NAME_MAX + 1];
};

struct link {
    const struct conninfo *conninfo;
    struct log *log;
    enum link_use use;
    PGconn *pg;  /* NULL: not connected */
    bool pooled; /* a pooler is in between: nothing survives a transaction */
    bool rings;  /* senders can ring (wait.c) */
    bool in_tx;
    bool committing;            /* COMMIT was sent, and its answer has not come */
    char state[SQL_STATE_SIZE]; /* of the latest fault; "": it did not come from the server */
    uint64_t generation;        /* counts connections, from 1 on */
    int64_t lock_timeout_us;
    int64_t retry_at_us, retry_wait_us; /* by the monotonic clock of this machine */
    struct pr_error refusal;            /* why the latest attempt failed */

    bool knows_boxes;       /* the server could be asked: else (tables of before, or none) they have their own names */
    struct link_box *boxes; /* as of the latest link_learn() */
    size_t box_count;
    char missing_box[BOX_NAME_MAX + 1]; /* that add_failed is about */

    struct link_statement **statements; /* one for each template and box */
    size_t statement_count, statement_room;
    struct link_statement *texts[LINK_TEXTS]; /* those that were made of parts; the oldest goes first */
    size_t text_next;
    unsigned text_count; /* that there ever were */
    struct step {
        struct link_statement *prepares; /* NULL: it runs */
        PGresult **ret;
        bool commits;
        char *trial; /* where its fault goes; NULL: to the batch */
        bool left;   /* nobody waits for it */
        bool syncs;  /* the last of its batch */
    } steps[LINK_STEPS_MAX];
    size_t step_count, steps_sent, steps_taken;
    size_t batch_at, batch_end; /* what link_take() takes; the same: nothing */
    bool queues_next, waits;    /* waits: a batch was sent, and link_take() will be called */
    char *trial;                /* what is added now is tried; NULL: it is not */
    int add_failed;             /* a fault of link_add(), returned by link_run() */
    PGresult **results;         /* kept until link_forget() */
    size_t result_count, result_room;
};

struct link *link_new(const struct conninfo *conninfo, enum link_use use, struct log *log); /* NULL: no memory */
void link_free(struct link *link);

/* connect.c: connected, or a fault.  After a failure it waits a little longer each time before it tries
 * again, and says so until then. */
PR_MUST_CHECK int link_ensure(struct link *link, struct pr_error *reterr);
bool link_is_up(const struct link *link);
void link_down(struct link *link); /* gone; results stay */
/* A statement that sets what we rely on, for the session or for the transaction. */
void link_settings(const struct link *link, bool local, struct buf *sql);
/* How long a statement waits for somebody else's lock (within the limits); not in a transaction. */
PR_MUST_CHECK int link_lock_timeout(struct link *link, int64_t timeout_us, struct pr_error *reterr);

/* Add a statement.  args are borrowed until link_run(); NULL: none.  ret may be NULL. */
void link_add(struct link *link, const char *sql, pr_slice box, const struct args *args, PGresult **ret);
/* The same for a text that was made of parts. */
void link_add_text(struct link *link, const char *text, const struct args *args, PGresult **ret);
PR_MUST_CHECK int link_run(struct link *link, struct pr_error *reterr);
/* The same in two steps.  After a fault of link_send() there is nothing to take. */
PR_MUST_CHECK int link_send(struct link *link, struct pr_error *reterr);
PR_MUST_CHECK int link_take(struct link *link, struct pr_error *reterr);
PR_MUST_CHECK int link_leave(struct link *link, struct pr_error *reterr);
void link_settle(struct link *link);        /* takes what was left; but not what is behind a batch that was sent */
bool link_is_left(const struct link *link); /* something is on its way that nobody waits for */
/* What is tried between these two waits at most `TRIAL_LOCK_TIMEOUT` for a lock. */
#define TRIAL_LOCK_TIMEOUT "1ms"
#define TRIAL_STEPS 4 /* of the batch that a trial of one statement takes, with its preparation */
void link_trials_begin(struct link *link);
void link_trials_end(struct link *link);
void link_trial_begin(struct link *link, char ret_state[SQL_STATE_SIZE]);
void link_trial_end(struct link *link);
void link_queue_next(struct link *link); /* until the next link_take() nothing that is added settles */
/* A result is the link's from now on.  Fault PR_ENOMEM: it was cleared. */
PR_MUST_CHECK int link_keep(struct link *link, PGresult *result, struct pr_error *reterr);
/* {schema}, {box} (its table), {box_seq} as quoted names and {box_name} as a text; ?1 as $1, and what store/sql.h says;
 * malloc'ed, NULL: no memory. */
char *pg_sql_expand(const char *sql, pr_slice schema, pr_slice box, pr_slice table);

/* Which boxes there are, and their tables: asked by each new connection.  A statement about a box that is not among them
 * fails, and so that one is found that was made since, its connection is made again (link_should_retry). */
PR_MUST_CHECK int link_learn(struct link *link, struct pr_error *reterr);
/* Is the text about a box that the link does not know?  Then the next link_run() says so. */
bool link_lacks_box(struct link *link, const char *sql, pr_slice box);
/* The table of a box; empty: there is none. */
pr_slice link_table(const struct link *link, pr_slice box);

/* One statement, one round trip. */
PR_MUST_CHECK int link_do(struct link *link, const char *sql, pr_slice box, const struct args *args, PGresult **ret,
                          struct pr_error *reterr);
/* A script of several statements without parameters: simple protocol. */
PR_MUST_CHECK int link_script(struct link *link, const char *sql, struct pr_error *reterr);
void link_forget(struct link *link);
void link_forget_after(struct link *link, size_t mark); /* what came since result_count was mark */

void link_add_begin(struct link *link);
void link_add_begin_look(struct link *link); /* to read only: all its statements see the same moment */
void link_add_commit(struct link *link);
void link_rollback(struct link *link); /* when there is a transaction; its faults do not matter */

/* After a fault: may the whole transaction simply be tried again? */
bool link_should_retry(const struct link *link);
/* After a fault: does the server say no to the data (values, constraints, triggers' own words, limits)?  Another try
 * would end the same way. */
bool link_is_refusal(const struct link *link);
/* After a fault: nobody knows whether the transaction was committed. */
bool link_is_uncertain(const struct link *link);

/* fault.c: what a failed result means, as a code and a text that says what to do. */
int fault_of_result(const PGresult *result, const struct conninfo *conninfo, char ret_state[SQL_STATE_SIZE],
                    struct pr_error *reterr);
int fault_of_connection(PGconn *pg, const struct conninfo *conninfo, struct pr_error *reterr);

#endif
