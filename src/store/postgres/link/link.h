/* link.h - one connection to PostgreSQL.
 *
 * Statements are templates: {schema} and {box} are replaced by quoted names, {box} by that of the box's table.  They
 * are prepared once and run by name, or, behind a pooler that changes the server connection for each transaction, run
 * unnamed.  Parameters and results are binary.
 *
 * Several statements go out in one round trip:
 *
 *     link_add(link, SQL_ONE, box, &args, &one);     any number of them
 *     link_add(link, SQL_TWO, box, &args2, &two);
 *     rc = link_run(link, reterr);                   one, two are set when it is PR_OK
 *
 * Results belong to the link until link_forget().  A statement that fails ends the others of its batch, and the
 * transaction must be rolled back.
 *
 * A batch can be left, so that the server works on it while the caller does something else:
 *
 *     link_add(link, SQL_THREE, box, &args3, &three);
 *     rc = link_leave(link, reterr);
 *     link_settle(link);                             three is set, and the caller's; or it is unchanged
 *
 * The next use of the link settles it first; except for a batch that is queued behind it (link_queue_next).
 *
 * Inside a transaction a statement can be tried: it is undone in any case, and the rest goes on:
 *
 *     link_trials_begin(link);
 *     link_trial_begin(link, state);                 any number of trials
 *     link_add(link, SQL_FOUR, box, &args4, NULL);
 *     link_trial_end(link);
 *     link_trials_end(link);
 *     rc = link_run(link, reterr);                   state is "", or the SQL state of its failure;
 *                                                    the result of a trial is not returned
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
#define LOCK_TIMEOUT_MAX_US PR_SECONDS(10) /* after this time a person would ask what is going on */

/* The server's address and options, from the store's URL. */
struct conninfo {
    char *schema;
    char **keywords, **values; /* for PQconnectdbParams() */
    bool prepare;              /* false: the URL says prepare=off */
};
PR_MUST_CHECK int pg_conninfo_parse(const char *url, struct conninfo *ret, struct pr_error *reterr);
void pg_conninfo_fini(struct conninfo *conninfo);

/* What the connection is for. */
enum link_use {
    LINK_RELAY,  /* cycles: exact keys only, whatever the statistics are */
    LINK_SENDER, /* few statements, each executed often: they are planned once */
    LINK_PEOPLE, /* everything else */
};

#define LINK_TEXTS 32

struct link_statement;

/* A box by its name, and its table, which never changes. */
struct link_box {
    char name[BOX_NAME_MAX + 1], table[BOX_NAME_MAX + 1];
};

struct link {
    const struct conninfo *conninfo;
    struct log *log;
    enum link_use use;
    PGconn *pg;  /* NULL: not connected */
    bool pooled; /* behind a pooler: nothing survives a transaction */
    bool rings;  /* senders can ring (wait.c) */
    bool checks; /* the database has checked its texts: they are UTF-8 */
    bool in_tx;
    bool committing;            /* COMMIT was sent, and its answer has not arrived */
    char state[SQL_STATE_SIZE]; /* of the latest fault; "": it did not come from the server */
    uint64_t generation;        /* counts connections, starting at 1 */
    int64_t lock_timeout_us;
    int64_t retry_at_us, retry_wait_us; /* by this machine's monotonic clock */
    struct pr_error refusal;            /* why the latest attempt failed */

    /* The server could be asked; otherwise (an old schema, or none) tables have the names of their boxes. */
    bool knows_boxes;
    struct link_box *boxes; /* as of the latest link_learn() */
    size_t box_count;
    char missing_box[BOX_NAME_MAX + 1]; /* the box that add_failed is about */

    struct link_statement **statements; /* one for each template and box */
    size_t statement_count, statement_room;
    struct link_statement *texts[LINK_TEXTS]; /* composed texts; the oldest is dropped first */
    size_t text_next;
    unsigned text_count; /* number of texts ever made */
    struct step {
        struct link_statement *prepares; /* NULL: the step runs a statement */
        PGresult **ret;
        bool commits;
        char *trial; /* gets the fault of a trial; NULL: a fault fails the batch */
        bool left;   /* the batch was left */
        bool syncs;  /* the last step of its batch */
    } steps[LINK_STEPS_MAX];
    size_t step_count, steps_sent, steps_taken;
    size_t batch_at, batch_end; /* the steps that link_take() takes; equal: none */
    bool queues_next, waits;    /* waits: a batch was sent, and link_take() will be called */
    size_t gathered;            /* bytes of a left batch that were taken early */
    char *trial;                /* steps added now belong to this trial; NULL: to none */
    int add_failed;             /* a fault of link_add(), returned by link_run() */
    PGresult **results;         /* kept until link_forget() */
    size_t result_count, result_room;
};

struct link *link_new(const struct conninfo *conninfo, enum link_use use, struct log *log); /* NULL: no memory */
void link_free(struct link *link);

/* connect.c: connected, or a fault.  After a failure it waits a little longer each time before it tries again, and
 * returns the fault until then. */
PR_MUST_CHECK int link_ensure(struct link *link, struct pr_error *reterr);
bool link_is_up(const struct link *link);
void link_down(struct link *link); /* closes the connection; results stay valid */
/* The statement that makes the required settings, for the session or for the transaction. */
void link_settings(const struct link *link, bool local, struct buf *sql);
/* How long a statement waits for another transaction's lock (within limits); not inside a transaction. */
PR_MUST_CHECK int link_lock_timeout(struct link *link, int64_t timeout_us, struct pr_error *reterr);

/* Adds a statement.  args are borrowed until link_run(); NULL: none.  ret may be NULL. */
void link_add(struct link *link, const char *sql, pr_slice box, const struct args *args, PGresult **ret);
/* The same for a composed text. */
void link_add_text(struct link *link, const char *text, const struct args *args, PGresult **ret);
PR_MUST_CHECK int link_run(struct link *link, struct pr_error *reterr);
/* link_run() in two steps.  After a fault of link_send() there is nothing to take. */
PR_MUST_CHECK int link_send(struct link *link, struct pr_error *reterr);
PR_MUST_CHECK int link_take(struct link *link, struct pr_error *reterr);
PR_MUST_CHECK int link_leave(struct link *link, struct pr_error *reterr);
/* takes the answers of a left batch; but not those of a batch that was sent behind it */
void link_settle(struct link *link);
bool link_is_left(const struct link *link); /* is a left batch on its way? */
/* Makes room in the socket for more of a left batch, without waiting. */
void link_gather(struct link *link);
/* A trial waits at most `TRIAL_LOCK_TIMEOUT` for a lock. */
#define TRIAL_LOCK_TIMEOUT "1ms"
#define TRIAL_STEPS 4 /* steps in the batch for a trial of one statement, with its preparation */
void link_trials_begin(struct link *link);
void link_trials_end(struct link *link);
void link_trial_begin(struct link *link, char ret_state[SQL_STATE_SIZE]);
void link_trial_end(struct link *link);
/* Until the next link_take(), adding statements does not settle a left batch. */
void link_queue_next(struct link *link);
/* The link takes over a result.  Fault PR_ENOMEM: it was cleared. */
PR_MUST_CHECK int link_keep(struct link *link, PGresult *result, struct pr_error *reterr);
/* Replaces {schema}, {box} (its table), {box_seq} by quoted names and {box_name} by a text; ?1 by $1, and the marks of
 * store/sql.h; malloc'ed, NULL: no memory. */
char *pg_sql_expand(const char *sql, pr_slice schema, pr_slice box, pr_slice table);

/* Reads the boxes and their tables, for each new connection.  A statement about an unknown box fails; and so that a box
 * is found that was created since, the connection is made again (link_should_retry). */
PR_MUST_CHECK int link_learn(struct link *link, struct pr_error *reterr);
/* Is the text about a box that the link does not know?  Then the next link_run() fails. */
bool link_lacks_box(struct link *link, const char *sql, pr_slice box);
/* The table of a box; empty: unknown. */
pr_slice link_table(const struct link *link, pr_slice box);

/* Runs one statement in one round trip. */
PR_MUST_CHECK int link_do(struct link *link, const char *sql, pr_slice box, const struct args *args, PGresult **ret,
                          struct pr_error *reterr);
/* Runs a script of several statements without parameters, with the simple protocol. */
PR_MUST_CHECK int link_script(struct link *link, const char *sql, struct pr_error *reterr);
void link_forget(struct link *link);
void link_forget_after(struct link *link, size_t mark); /* forgets results since result_count was mark */

void link_add_begin(struct link *link);
void link_add_begin_look(struct link *link); /* read only: all its statements see the same snapshot */
void link_add_commit(struct link *link);
void link_rollback(struct link *link); /* no-op without a transaction; faults are ignored */

/* After a fault: may the whole transaction simply be tried again? */
bool link_should_retry(const struct link *link);
/* After a fault: did the server refuse the data (values, constraints, errors of triggers, limits)?  Another try would
 * end the same way. */
bool link_is_refusal(const struct link *link);
/* After a fault: is it unknown whether the transaction was committed? */
bool link_is_uncertain(const struct link *link);

/* fault.c: the meaning of a failed result, as a code and a text with advice. */
int fault_of_result(const PGresult *result, const struct conninfo *conninfo, char ret_state[SQL_STATE_SIZE],
                    struct pr_error *reterr);
int fault_of_connection(PGconn *pg, const struct conninfo *conninfo, struct pr_error *reterr);

#endif
