/* postgres.h - internals of the PostgreSQL store.
 *
 * One schema of one database, any number of instances on any number of machines.  New rows are found by the scan
 * (engine/scan.h), lanes are shared, leases use the server's clock.
 *
 *   conninfo.c    the URL                              connect.c  making a connection
 *   link.c     statements on it, in batches         param.c    binary parameters and results
 *   fault.c    what errors mean                     views.c    what people SELECT from
 *   boxes.c    boxes and their tables
 *   open.c     the store and its connections        migrate.c  tables and views
 *   message.c  a message as columns                 enqueue.c  new messages
 *   cycle.c    the heart: order of things           lease.c    lanes and leases
 *   verdict.c  what verdicts change                 effect.c   ... and what goes with them
 *   snapshot.c    which transactions have ended        fresh.c    new rows, and prefetching
 *   ctid_cache.c     where rows were seen              sweep.c    rows that were overlooked
 *   read.c     all other rows
 *   notice.c   operators' notices, endpoints        wait.c     wake-ups
 *   repaired.c rows that were changed by plain SQL  purge.c    removing what is too old
 *   sql.c      the port for people's side
 *   order.c    the changes of their orders          send.c     through the caller's connection
 *   breaker.c  breakers that are not closed         ended.c    the ledger of ended messages
 *
 * A cycle is one transaction in two round trips: the first brings the changes and reads the instance's own row, the
 * sequence and the snapshot; if all is as expected, the second reads and commits.  While there is a backlog most cycles
 * only report sent and failed messages and read what the latest snapshot has left: these take one round trip, and the server itself
 * checks the assumptions.  So nothing is committed on an assumption.  After such a commit the server reads ahead, while
 * the engine works. */
#ifndef STORE_POSTGRES_POSTGRES_H
#define STORE_POSTGRES_POSTGRES_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"
#include "engine/scan.h"
#include "store/senders.h"
#include "store/postgres/link/link.h"
#include "store/postgres/message.h"
#include "store/sql.h"
#include "store/store.h"

#define PG_BOX_NAME_MAX 55 /* so that the names of its indexes and its sequence are short enough */

/* The store's clock, for a parameter that is NULL unless a test has its own clock. */
#define NOW(parameter) "coalesce(" parameter ", now())"

/* ---- The store -------------------------------------------------------------------------- */

struct postgres_store {
    struct conninfo conninfo;
    const struct clock *clock; /* NULL: the server's */
    struct log *log;
    int64_t poll_min_us, poll_max_us;
    size_t payload_max;

    pthread_mutex_t people_lock; /* guards `people`: queries, admin, migrate */
    struct link *people;
    struct senders senders; /* group commit; its leader owns these two: */
    struct link *sender;
    struct batch batch;
    bool sees_no_marks; /* the role may not read marks */
    pthread_mutex_t sessions_lock;
    struct list sessions;   /* struct pg_session, to be woken */
    atomic_int log_readers; /* sources that read inserts from the server's log (source/wal) and wake the sessions */
};

/* 0: use the server's clock. */
int64_t pg_store_wall_us(const struct postgres_store *store);
int64_t pg_store_mono_us(const struct postgres_store *store);
void pg_store_wake(struct postgres_store *store);

/* ---- A session -------------------------------------------------------------------------- */

#define SESSION_ARRAYS 24

struct ctid_cache { /* ctid_cache.c; zeroed: empty */
    struct ctid_slot {
        int64_t handle; /* 0: none */
        pr_id id;
        uint64_t snapshot; /* number of one that sees the transaction which wrote the row there; 0: unknown */
        struct tid tid;
    } * slots;
    /* The latest snapshot, and the table's file when it was taken.  Number 0: there is none.  It means nothing to another
     * connection, which may be one to a server that was restored, where other transactions have the same numbers. */
    struct {
        uint64_t number, connection;
        struct buf text;
        int64_t file;
        bool is_counted; /* the server counts deleted rows (track_counts), says how many, and all are of this one table */
    } latest;
};

struct fresh; /* fresh.c */

/* Keys of effects that another open transaction blocked before (blocked.c). */
#define BLOCKED_KEYS_MAX 1024
struct blocked_keys {
    bool look;         /* an effect was blocked: find out which */
    int64_t try_at_us; /* when known keys are tried again, by this machine's monotonic clock */
    size_t count;
    uint64_t keys[BLOCKED_KEYS_MAX]; /* hashes */
};

struct pg_session {
    struct postgres_store *store;
    struct list_node node;
    struct link *link;
    char box_name[BOX_NAME_MAX + 1];
    pr_slice box;

    /* Memory of the reply, until the next cycle; its slices point into results of the link. */
    struct arena arena;
    struct cycle_reply reply;
    size_t row_capacity;
    struct array arrays[SESSION_ARRAYS]; /* arguments of statements on their way */
    struct batch batch;

    /* This instance, as of the latest cycle. */
    pr_id instance;
    int64_t epoch;
    uint64_t lanes;
    uint64_t number;     /* the latest cycle with a reply */
    uint64_t reply_link; /* connection (link.generation) and server of the latest reply; 0: none */
    int64_t reply_server_start;
    uint64_t uncertain;   /* a cycle whose commit may have happened; 0: none */
    bool wary;            /* another transaction held a row: lock all with SKIP LOCKED (change.c) */
    bool histories_asked; /* a key of a history was violated: histories are compared, too, see guard.c */
    bool stores_effects;  /* the latest cycle was storing effects, or was in one batch: it may have met a lock there */
    struct blocked_keys blocked;
    uint64_t idle_claim;        /* a claim row that is only needed as a key, and deleted by the next one; 0: none */
    int64_t purge_at_us;        /* when the next piece is purged (purge.c) ... */
    bool purge_more;            /* ... the latest piece was full, so there is more */
    bool purge_found;           /* the latest one removed something */
    bool purge_wrote;           /* a cycle has written since the latest piece */
    bool purge_rests;           /* the latest piece found nothing, and nothing was written: the next one is far away */
    bool marks_left;            /* the box may have marks */
    struct retention retention; /* as in the latest cycle */
    int64_t dedupe_us;
    int64_t repaired;        /* lines about rows that were changed by hand, as of the last reply (repaired.c) ... */
    uint64_t repaired_cycle; /* ... by the reply to this cycle; 0: by joining */

    /* The fresh scan. */
    struct scan *scan;
    struct scan_pending pending[LANE_COUNT];
    uint64_t pending_number;
    size_t lane_rows[LANE_COUNT]; /* how many rows to request from a lane */
    size_t skip_rows[LANE_COUNT]; /* ... and how many to look at where most are skipped; 0: as many as from all */
    unsigned first_lane;          /* the lane that comes first */
    size_t row_bytes;             /* average size of the latest rows; 0: unknown */
    unsigned one_batch_left;      /* cycles that may continue with the latest snapshot (cycle.c) */
    unsigned plain_cycles;        /* consecutive cycles that could be one batch */
    uint64_t snapshot_number;     /* number of the latest snapshot */
    struct fresh *prefetch;       /* rows requested in advance (fresh.c); NULL: never used */
    bool had_more;                /* the previous snapshot left some rows */
    bool calm;                    /* the latest cycle had nothing to do about leases and lanes */
    int64_t server_start;         /* start time of the server that the scan knows */
    int64_t seq_file;             /* ... and file of the sequence, which changes when its numbers are restarted */
    uint64_t scanned_by;          /* the connection (link.generation) by which it knows them */
    int64_t sweep_at_us;          /* when the next page of the sweep is due, after this place: */
    bool sweep_found;             /* rows that the scan had not handed out recently */
    unsigned sweep_lane;
    int64_t sweep_seq;
    struct ctid_cache ctid_cache;

    /* What the latest cycle saw, for wait(). */
    int64_t seen_last, seen_file, seen_notice, seen_instances;
    uint64_t *running; /* transactions that were running */
    size_t running_count;
    bool fresh_reported; /* new rows were reported once, and not looked for since */
    int64_t wait_us;     /* pause between looks */
    int64_t looked_us;   /* of the latest look or cycle that looked for new rows */
    int64_t rate_us;     /* when the message rate was measured last ... */
    int64_t rate_last;   /* ... and seen_last at that time */
    bool many_come;      /* the rate is high, so senders should not ring */
    int event_fd;        /* -1: none */
    atomic_int backend;  /* the server process of the connection; 0: not known yet */
    /* The connection (link.generation) that LISTENs, and the one that holds the sleepers' lock. */
    uint64_t listens, sleep_lock;

    /* Other instances of the same box, as long as their rows stay unchanged (lease.c). */
    struct watched {
        pr_id id;
        int64_t epoch, lease_end_us;
        int64_t since_us; /* by the local monotonic clock */
        char *offer;      /* owned; NULL: unknown */
    } * watched;
    size_t watched_count;
    int64_t offers_until; /* offers of instances up to this epoch are known */
    uint64_t pulse;       /* the connection that holds the lock which shows that this instance is connected */
};

/* An instance of the same box, as in the table. */
struct peer {
    pr_id id;
    int64_t epoch;
    uint64_t lanes;
    int64_t lease_end_us, lease_us, lease_left_us;
    int64_t silent_us; /* how long its row has stayed unchanged */
};

/* An outcome of a part of a cycle: roll back and start over. */
enum { CYCLE_ANEW = 1 };

/* One cycle on its way. */
struct cycle_run {
    struct pg_session *session;
    const struct cycle *cycle;
    const struct change *changes; /* of its verdicts: in the arena, made when first needed */
    struct effect_guards guards;  /* of its effects */
    int64_t *effect_numbers;      /* the stored number of each effect's guard */
    bool *tried;                  /* effects that are being tried (blocked.c); NULL: none */
    bool any_busy;                /* another transaction holds a row of one of them */
    struct link *link;
    bool joins;              /* this cycle creates the instance */
    bool replayed;           /* its number landed before: it only reads */
    bool locked;             /* the box's row is locked: lanes may be moved */
    bool anew;               /* commits may have been lost since the last reply: see history_changed */
    int64_t now_us, mono_us; /* the store's clocks, for due times and for leases */
    int64_t server_start;
    int64_t epoch;
    uint64_t lanes, before; /* lanes owned now, and as in the row */
    int64_t lease_left_us;
    struct peer *peers; /* without this instance; in the arena */
    size_t peer_count;
    bool any_passed;
    int64_t passed[LANE_COUNT]; /* the instance that a lane was passed to, by epoch; 0: none */
    /* effects go into this box: the snapshot is taken after them, so that it includes them */
    bool comes_back;
    bool has_snapshot;
    bool claimed;        /* its claim row is written, or on its way */
    bool one_batch;      /* everything in one batch */
    bool uses_prefetch;  /* ... and its new rows were requested in advance */
    struct fresh *fresh; /* in the arena */
    PGresult *own, *pulse, *claims, *others, *last, *snapshot, *mark, *control; /* of the first batch */
    PGresult *written; /* the own row after an update; no row: it no longer belongs to this instance */
    struct pr_error *reterr;
};

/* lease.c */
void pg_lease_add_reads(struct cycle_run *run, bool changes);
void pg_lease_add_one_batch(struct cycle_run *run); /* fails in the batch unless the own row is as expected */
PR_MUST_CHECK int
pg_lease_take_reads(struct cycle_run *run); /* Fault PR_ELEASE; outcome CYCLE_ANEW: the instance's lanes changed */
PR_MUST_CHECK int pg_lease_join(struct cycle_run *run);
PR_MUST_CHECK int pg_lease_work(struct cycle_run *run); /* buries, leaves, gives, takes, renews, as needed */
bool pg_lease_is_calm(const struct cycle_run *run);     /* nothing needs to be done */
bool pg_lease_moves_lanes(const struct cycle_run *run); /* ... except possibly renewing the lease */
void pg_lease_add_others(struct cycle_run *run);
PR_MUST_CHECK int pg_lease_take_others(struct cycle_run *run);
PR_MUST_CHECK int pg_lease_tell(struct cycle_run *run); /* into the reply */
void pg_watched_free(struct pg_session *session);

/* verdict.c, effect.c */
PR_MUST_CHECK int pg_verdicts_apply(struct cycle_run *run); /* also runs what is in the batch; outcome CYCLE_ANEW */
bool pg_verdicts_fit_one_batch(struct cycle_run *run);      /* no answer must be known before the commit */
PR_MUST_CHECK int pg_verdicts_add_one_batch(struct cycle_run *run); /* fails in the batch unless all rows are there */
bool pg_effects_fit_one_batch(const struct cycle *cycle);           /* none, or marks of verdicts */
PR_MUST_CHECK int pg_effects_add_one_batch(struct cycle_run *run);  /* fails in the batch if a mark exists */
PR_MUST_CHECK int pg_guards_compare(struct cycle_run *run);         /* of effects; before the verdicts */
PR_MUST_CHECK int pg_effects_store(struct cycle_run *run);          /* outcome CYCLE_ANEW */
/* one statement: the effects in run->tried, of one kind and box */
void pg_effects_add_tried(struct cycle_run *run, size_t first);
PR_MUST_CHECK int pg_answers_note(struct cycle_run *run); /* refused and busy verdicts, in the claim row */
PR_MUST_CHECK int pg_answers_read(struct cycle_run *run); /* for a cycle that is asked again */
void pg_receipts_add(struct cycle_run *run);

/* blocked.c: which effects cannot be stored now?  Their answers become ANSWER_BUSY. */
PR_MUST_CHECK int pg_blocked_find(struct cycle_run *run);

/* ended.c: adds to the batch, after the verdicts. */
#define ENDED_ARRAYS 6
struct ended;                                          /* core/ended.h */
PR_MUST_CHECK int pg_ended_add(struct cycle_run *run); /* for verdicts that were answered PR_OK */
void pg_tallies_add(struct cycle_run *run, const struct tally *tallies, size_t count);
/* by: an instance, or a person.  wall 0: the server's clock.  The arena is scratch memory.  Fault PR_ENOMEM. */
PR_MUST_CHECK int pg_ended_insert(struct link *link, const struct ended *list, size_t count, pr_slice by,
                                  int64_t wall_us, struct array arrays[ENDED_ARRAYS], struct arena *arena);

/* breaker.c */
void pg_breakers_add(struct cycle_run *run);
void pg_breakers_add_forget(struct cycle_run *run, pr_id instance);

/* evidence.c */
void pg_evidence_add(struct cycle_run *run);
/* cycle/mark.c */
/* A joining instance sets how long marks of this box are kept. */
PR_MUST_CHECK int pg_marks_tell_time(struct cycle_run *run);
PR_MUST_CHECK int pg_marks_ask_time(struct cycle_run *run); /* ... and cycles that do not know it read it */
void pg_marks_ask(struct cycle_run *run, PGresult **ret);
/* Records those of its messages that were duplicates, where the box has dedupe. */
void pg_marks_note_again(struct link *link, const struct sending *request, int64_t wall_us);
PR_MUST_CHECK int pg_marks_take(struct cycle_run *run, const PGresult *result);

/* cycle/flow.c */
extern const char PG_FLOW_GUARDS[], PG_FLOW_ROWS[], PG_EXECUTION_ROWS[];
#define PG_FLOW_TYPES                                                                                                  \
    OID_INT4, OID_TEXT, OID_TEXT, OID_TEXT, OID_TEXT, OID_INT8, OID_INT2, OID_BYTEA, OID_INT8, OID_BYTEA, OID_BYTEA,   \
        OID_TEXT, OID_TEXT, OID_TEXT, OID_INT8, OID_INT8, OID_BOOL, OID_BOOL
#define PG_EXECUTION_TYPES                                                                                             \
    OID_INT4, OID_TEXT, OID_TEXT, OID_TEXT, OID_TEXT, OID_INT8, OID_INT2, OID_BYTEA, OID_BYTEA, OID_TEXT
void pg_flow_guards_take(struct cycle_run *run, const PGresult *result);
void pg_flow_put(struct cycle_run *run, struct array *a, size_t i); /* effect i, into the arrays of PG_FLOW_TYPES */
void pg_execution_put(struct array *a, const struct flow_row *row); /* ... of PG_EXECUTION_TYPES, except the first */
/* For verdicts that others are joined to: do their rows exist? */
void pg_leaders_add(struct cycle_run *run, bool joined, PGresult **ret);
PR_MUST_CHECK int pg_leaders_take(struct cycle_run *run, const PGresult *result);
void pg_mail_change(struct cycle_run *run, PGresult *ret[2]);
void pg_mail_take(struct cycle_run *run, PGresult *const results[2]);
void pg_gone_ask(struct cycle_run *run, PGresult **ret);
PR_MUST_CHECK int pg_loads_read(struct cycle_run *run); /* after the commit */
PR_MUST_CHECK int pg_gone_take(struct cycle_run *run, const PGresult *result);
bool pg_effect_holds(const struct cycle_run *run, size_t i); /* effect.c: is effect i to be applied? */
void pg_evidence_ask(struct cycle_run *run, PGresult **ret);
PR_MUST_CHECK int pg_evidence_take(struct cycle_run *run, const PGresult *result);

/* ctid_cache.c */
void pg_ctid_cache_note(struct ctid_cache *seen, const struct ctid_slot *slot);
const struct ctid_slot *pg_ctid_cache_find(const struct ctid_cache *seen, int64_t handle); /* NULL: not known */
void pg_ctid_cache_forget_row(struct ctid_cache *seen, int64_t handle);
void pg_ctid_cache_forget(struct ctid_cache *seen);

/* snapshot.c, fresh.c, sweep.c, read.c */
#define SNAPSHOTS_BYTES_MAX (16u << 20)                                 /* as texts */
void pg_snapshot_print(struct buf *b, const struct snapshot *snapshot); /* as pg_snapshot */
void pg_snapshot_add(struct cycle_run *run);
PR_MUST_CHECK int pg_snapshot_take(struct cycle_run *run); /* outcome CYCLE_ANEW */
void pg_fresh_settle(struct pg_session *session, const struct cycle *cycle);
struct fresh *pg_fresh_add(struct cycle_run *run); /* NULL: no memory */
void pg_fresh_prepare(struct fresh *fresh);        /* while the server is at work */
PR_MUST_CHECK int pg_fresh_take(struct fresh *fresh);
/* requests the rows after run->fresh, once and if worthwhile */
PR_MUST_CHECK int pg_prefetch_start(struct cycle_run *run);
bool pg_prefetch_fits(const struct cycle_run *run); /* is it what this cycle would request? */
void pg_prefetch_drop(struct pg_session *session);
void pg_prefetch_tend(void *session);
void pg_prefetch_free(struct pg_session *session);
void pg_sweep_start(struct pg_session *session); /* the first page is due some time from now */
bool pg_sweep_is_due(const struct pg_session *session);
void pg_sweep_add(struct cycle_run *run, PGresult **ret); /* *ret is unchanged when it is not due yet */
PR_MUST_CHECK int pg_sweep_take(struct cycle_run *run, const PGresult *result);
PR_MUST_CHECK int pg_reads_run(struct cycle_run *run);          /* all other reads, and the commit */
bool pg_reply_reserve(struct pg_session *session, size_t more); /* false: no memory for so many rows */
PR_MUST_CHECK int pg_reply_new_row(struct cycle_run *run, const PGresult *result, int row);
PR_MUST_CHECK int pg_reply_row(struct cycle_run *run, const PGresult *result, int row, enum row_from from);

/* repaired.c.  REPAIRED(): the existing lines as one number; 0: none. */
#define REPAIRED(box)                                                                                                  \
    "(SELECT coalesce(bit_xor(hashint8extended(xid::text::bigint, 0)), 0) FROM {schema}.repaired WHERE box = " box ")"
PR_MUST_CHECK int pg_repairs_take(struct cycle_run *run, int64_t lines); /* with the notices, in their array */
void pg_repairs_tell(struct pg_session *session);

/* idle.c: outcome CYCLE_ANEW: something has happened, a full cycle must follow. */
bool pg_idle_fits(const struct cycle_run *run);
PR_MUST_CHECK int pg_idle_run(struct cycle_run *run);

/* purge.c */
#define PURGE_AGAIN_US PR_MILLISECONDS(100)              /* after a full piece */
void pg_purge_while_waiting(struct pg_session *session); /* if it is due */
void pg_purge_before_cycle(struct pg_session *session,
                           const struct cycle *cycle); /* ... and the session has not waited for long */

/* notice.c, wait.c */
void pg_notices_add(struct cycle_run *run);
void pg_clock_take(struct cycle_run *run); /* comes with the notices */
PR_MUST_CHECK int pg_notices_take(struct cycle_run *run);
PR_MUST_CHECK int pg_endpoints_take(const PGresult *result, struct arena *arena, struct endpoint_state **ret,
                                    size_t *ret_count, struct pr_error *reterr);
extern const char PG_ENDPOINTS[];
void pg_wait_open(struct pg_session *session);
void pg_wait_close(struct pg_session *session);
void pg_wait_remember(struct cycle_run *run);
/* One look: the sequence, notices and repairs, the instances, and whether a transaction that ran then has ended.  $1 to
 * $4 are pg_look_args(). */
#define PG_LOOK                                                                                                        \
    "(SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {box_seq}),"                                          \
    " EXISTS (SELECT FROM {schema}.control WHERE number > $2 AND box IN ('', $1)) OR " REPAIRED(                       \
        "$1") " NOT IN (0, $4),"                                                                                       \
              " (SELECT bit_xor(epoch # lanes) FROM {schema}.instance WHERE box = $1),"                                \
              " EXISTS (SELECT FROM unnest($3) AS r(xid) WHERE "                                                       \
              "pg_visible_in_snapshot(r.xid::text::xid8, pg_current_snapshot())),"                                     \
              " (SELECT pg_relation_filenode(tableoid)::bigint FROM {box_seq})"
#define PG_LOOK_COLUMNS 5
void pg_look_args(struct pg_session *session, struct args *args); /* in the first of its arrays */
bool pg_look_finds(const struct pg_session *session, const PGresult *look);
void pg_wait_after_cycle(struct pg_session *session);
int pg_wait(void *session, int wake_fd, int64_t timeout_us);

/* cycle.c */
bool pg_cycle_changes(const struct cycle *c);
int pg_session_open(void *self, pr_slice box, void **ret_session, struct pr_error *reterr);
void pg_session_close(void *session);
PR_MUST_CHECK int pg_cycle_take_one_batch(struct cycle_run *run); /* everything but rows, of a cycle in one batch */
int pg_cycle(void *session, const struct cycle *cycle, const struct cycle_reply **ret_reply, struct pr_error *reterr);

/* sql.c: people's side */
extern const struct sql_ops postgres_sql;
/* Uses the port inside a transaction of a connection that the caller has begun and will end. */
void pg_sql_use(struct sql *sql, struct postgres_store *store, struct link *link);

/* migrate.c */
int pg_migrate(void *self, const struct store_box *boxes, size_t box_count, struct pr_error *reterr);
int pg_check(void *self, struct pr_error *reterr);
PR_MUST_CHECK int pg_schema_version(struct link *link, int *ret_version, struct pr_error *reterr); /* 0: no tables */
int pg_schema_wanted(void);
PR_MUST_CHECK int pg_schema_too_new(int version, struct pr_error *reterr);

/* enqueue.c, order.c */
int pg_enqueue(void *self, pr_slice box, const struct pr_message *messages, size_t count, int *answers,
               struct pr_error *reterr);
int pg_sql_apply(struct sql *sql, const struct sql_changes *changes);
int pg_sql_ended(struct sql *sql, const struct ended *list, size_t count, pr_slice by, int64_t now_us,
                 struct arena *arena);

static inline int64_t handle_of(int64_t place, unsigned lane)
{
    return place << HANDLE_LANE_BITS | lane;
}

#endif
