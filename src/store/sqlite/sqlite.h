/* sqlite.h - internals of the SQLite store.
 *
 * One file, any number of processes.  Writers are serial in SQLite, so row_id order is commit order, and the fresh scan
 * is a walk upwards.  One instance serves a box and owns all of its lanes; others stand by.
 *
 *   open.c     URL, the store, its connections          conn.c     one connection
 *   migrate.c  tables and views                         message.c  a message as columns
 *   cycle.c    the heart: order of things in a cycle    lease.c    which instance serves the box
 *   verdict.c  what a cycle changes                     read.c     what a cycle reads
 *   notice.c   operators' notices and endpoints         wait.c     wake-ups
 *   enqueue.c  new messages, committed in groups        send.c     ... on the caller's connection
 *   sql.c      the port for people's side               breaker.c  breakers that are not closed
 *   change.c   a change of a row                        purge.c    removing what is too old
 *   boxes.c    boxes and their tables                   ended.c    the ledger of ended messages
 *   complete.c a message's end on the caller's connection
 *   writers.c  those that write, in their order */
#ifndef STORE_SQLITE_SQLITE_H
#define STORE_SQLITE_SQLITE_H

#include <pthread.h>

#include "base/list.h"
#include "store/senders.h"
#include "store/sqlite/conn.h"
#include "store/store.h"

#define BOOT_ID_SIZE 40
#define POLL_MIN_US PR_MILLISECONDS(2) /* default of the options */
#define POLL_MAX_US PR_MILLISECONDS(200)
#define BOXES_MAX 256 /* tables of one database; a view names all of them */

/* ---- The store ----------------------------------------------------------------------- */

struct sqlite_store {
    struct sqlite_location location;
    const struct clock *clock;
    struct log *log;
    int64_t poll_min_us, poll_max_us;
    size_t payload_max;
    char boot_id[BOOT_ID_SIZE]; /* leases are valid only within the boot of the machine in which they were given */

    pthread_mutex_t lock; /* guards the rest */
    struct conn *people;  /* connection for queries, admin, migrate; opened when first needed */
    struct conn *sender;  /* connection for enqueue */
    struct list sessions; /* struct sqlite_session, to be woken */
    struct senders senders;
};

/* The connection, opened when first needed; it remains the store's. */
PR_MUST_CHECK int store_people(struct sqlite_store *store, bool create, struct conn **ret, struct pr_error *reterr);
PR_MUST_CHECK int store_sender(struct sqlite_store *store, struct conn **ret, struct pr_error *reterr);
/* Something changed: the sessions of this process should look. */
void store_wake(struct sqlite_store *store);

int64_t store_wall_us(const struct sqlite_store *store);
int64_t store_mono_us(const struct sqlite_store *store);

/* ---- A session --------------------------------------------------------------------------- */

struct sqlite_session {
    struct sqlite_store *store;
    struct list_node node;
    struct conn *conn;
    char box_name[BOX_NAME_MAX + 1];
    pr_slice box;

    /* Memory of the reply, until the next cycle. */
    struct arena arena;
    struct cycle_reply reply;
    struct row *rows;
    size_t row_capacity;

    /* This instance, as of the latest cycle. */
    pr_id instance;
    uint64_t number;     /* the latest cycle with a reply */
    bool owner;          /* this instance serves the box */
    bool probe_lock;     /* standing by: getting the lock file means that the owner died */
    int64_t kept_out_us; /* when another writer blocked this one for long; 0: never */
    /* standing by: since when the lease of an owner that holds the lock file is over; 0: it is not */
    int64_t over_since_us;
    int lock_fd;             /* -1: no lock file */
    bool locked;             /* this instance holds the lock file */
    int64_t purge_next_us;   /* when the next piece is purged (purge.c) ... */
    bool purge_more;         /* ... the last piece was full, so there is more */
    uint64_t generation;     /* conn.generation as of the last reply */
    int64_t repaired;        /* how often rows were changed by hand, as of the last reply ... */
    uint64_t repaired_cycle; /* ... by the reply to this cycle; 0: by joining */

    /* The fresh scan: rows up to here were read, by lane; and the positions before the latest cycle, in case it is
     * asked again. */
    int64_t position[LANE_COUNT], position_before[LANE_COUNT];
    size_t row_bytes; /* average size of the fresh rows read recently */

    /* Wake-ups. */
    int event_fd, inotify_fd; /* -1: none */
    char *log_path;           /* the -wal file; NULL in memory */
    bool watching;            /* a write to it will wake the session */
    int64_t data_version;     /* as seen by the latest cycle */
    int64_t fresh_version;    /* ... and by the latest one that looked for new rows */
    bool fresh_reported;      /* new rows were reported once, and not looked for since */
    int64_t active_us;        /* when something last changed, real time */
    int64_t looked_us;        /* when the session last checked whether other connections have committed */
    unsigned fruitless;       /* consecutive looks that found no new rows for this box */
    int64_t stirred_us;       /* when the log file was last written to */
    bool stirred_by_others;   /* this session was waiting then */
};

/* One cycle on its way. */
struct sqlite_cycle {
    struct sqlite_session *session;
    const struct cycle *cycle;
    struct conn *conn;
    int64_t now_us, mono_us;
    bool write;
    bool owner;
    bool took, buried; /* this cycle took the box over; after burying another instance */
    bool replayed;
    int64_t repaired;                    /* becomes the session's when the cycle lands */
    int64_t position[LANE_COUNT];        /* becomes the session's when the cycle lands */
    int64_t position_before[LANE_COUNT]; /* the same, before anything was read */
    struct effect_guards guards;         /* of the cycle's effects */
    struct pr_error *reterr;
};

/* lease.c */
struct instance_row {
    bool known; /* the row of this instance exists */
    int64_t epoch;
    uint64_t cycle; /* the latest that was written */
    int64_t lease_end_us;
    bool owner;
};
PR_MUST_CHECK int lease_read(struct sqlite_cycle *run, struct instance_row *ret);
PR_MUST_CHECK int lease_can_take(struct sqlite_cycle *run, bool *ret); /* may this instance take over the box? */
PR_MUST_CHECK int lease_join(struct sqlite_cycle *run, struct instance_row *ret);
PR_MUST_CHECK int lease_take(struct sqlite_cycle *run); /* after lease_can_take() */
/* The instance that the box is reserved for; 0: any. */
PR_MUST_CHECK int lease_pass(struct sqlite_cycle *run, int64_t epoch);
PR_MUST_CHECK int peers_read(struct sqlite_cycle *run); /* the other instances, into the reply */
PR_MUST_CHECK int lease_renew(struct sqlite_cycle *run);
PR_MUST_CHECK int lease_leave(struct sqlite_cycle *run);
PR_MUST_CHECK int lease_bury_dead(struct sqlite_cycle *run);
void lease_note_wait(struct sqlite_cycle *run); /* remembers a long wait for the write lock */
void lease_open_lock(struct sqlite_session *session);
bool lease_try_lock(struct sqlite_session *session);
void lease_unlock(struct sqlite_session *session);

/* effect.c */
/* The number that it compares. */
PR_MUST_CHECK int guard_read(struct sqlite_cycle *run, const struct effect *e, int64_t *ret);
PR_MUST_CHECK int guards_compare(struct sqlite_cycle *run);
PR_MUST_CHECK int effects_apply(struct sqlite_cycle *run); /* those whose verdict was applied */
PR_MUST_CHECK int answers_read(struct sqlite_cycle *run);  /* for a cycle that is asked again */

/* verdict.c, read.c, notice.c, wait.c */
PR_MUST_CHECK int verdicts_apply(struct sqlite_cycle *run);
PR_MUST_CHECK int receipts_write(struct sqlite_cycle *run);
PR_MUST_CHECK int tallies_add(struct sqlite_cycle *run);
PR_MUST_CHECK int pauses_set(struct sqlite_cycle *run);
PR_MUST_CHECK int rows_read(struct sqlite_cycle *run);
PR_MUST_CHECK int notices_read(struct sqlite_cycle *run, bool joined);
PR_MUST_CHECK int endpoints_read(struct conn *conn, struct arena *arena, struct endpoint_state **ret, size_t *ret_count,
                                 struct pr_error *reterr);
/* breaker.c */
PR_MUST_CHECK int breakers_set(struct sqlite_cycle *run);
PR_MUST_CHECK int breakers_forget(struct sqlite_cycle *run, pr_id instance);
/* ended.c */
struct ended;                                            /* core/ended.h */
PR_MUST_CHECK int ended_write(struct sqlite_cycle *run); /* for the verdicts that were applied */
/* by: an instance, or a person.  The arena is scratch memory. */
PR_MUST_CHECK int ended_insert(struct conn *conn, const struct ended *list, size_t count, pr_slice by, int64_t now_us,
                               struct arena *arena, struct pr_error *reterr);

/* mark.c */
PR_MUST_CHECK int mark_insert(struct conn *conn, const struct effect *mark, int64_t now_us, struct pr_error *reterr);
/* A joining instance sets how long marks of this box are kept. */
PR_MUST_CHECK int marks_tell_time(struct sqlite_cycle *run);
PR_MUST_CHECK int marks_ask_time(struct sqlite_cycle *run); /* ... and cycles that do not know it read it */
PR_MUST_CHECK int marks_read(struct sqlite_cycle *run);
PR_MUST_CHECK int marks_forget(struct sqlite_cycle *run, bool *ret_more); /* of this box */

/* flow.c */
PR_MUST_CHECK int flow_guard_answer(struct sqlite_cycle *run, const struct effect *e, int *ret_answer);
PR_MUST_CHECK int flow_put(struct sqlite_cycle *run, const struct effect *e);
PR_MUST_CHECK int execution_insert(struct sqlite_cycle *run, const struct effect *e);
PR_MUST_CHECK int mail_change(struct sqlite_cycle *run, const struct effect *e); /* the answer, or a fault */
PR_MUST_CHECK int mail_forget(struct sqlite_cycle *run, size_t piece, int *ret_changed);
PR_MUST_CHECK int gone_read(struct sqlite_cycle *run);
PR_MUST_CHECK int loads_read(struct sqlite_cycle *run);

/* evidence.c */
PR_MUST_CHECK int evidence_write(struct sqlite_cycle *run);
PR_MUST_CHECK int evidence_read(struct sqlite_cycle *run);
/* purge.c */
#define PURGE_AGAIN_US PR_MILLISECONDS(50) /* after a full piece */
bool purge_is_due(const struct sqlite_cycle *run);
PR_MUST_CHECK int purge_run(struct sqlite_cycle *run);
void wait_open(struct sqlite_session *session);
void wait_close(struct sqlite_session *session);
void wait_drain(struct sqlite_session *session);
int sqlite_wait(void *session, int wake_fd, int64_t timeout_us);

/* cycle.c */
/* When the log has become long: after a reply, while the caller works on its rows. */
void session_checkpoint(struct sqlite_session *session);
int sqlite_session_open(void *self, pr_slice box, void **ret_session, struct pr_error *reterr);
void sqlite_session_close(void *session);
int sqlite_cycle(void *session, const struct cycle *cycle, const struct cycle_reply **ret_reply,
                 struct pr_error *reterr);

/* sql.c: people's side */
extern const struct sql_ops sqlite_sql;
/* Uses the port inside a transaction of a connection that the caller has begun and will end. */
void sqlite_sql_use(struct sql *sql, struct sqlite_store *store, struct conn *conn);

/* migrate.c */
int sqlite_migrate(void *self, const struct store_box *boxes, size_t box_count, struct pr_error *reterr);
int sqlite_check(void *self, struct pr_error *reterr);
int schema_version(struct conn *conn, int64_t *ret_version, struct pr_error *reterr); /* 0: no tables */
int schema_wanted(void);

/* enqueue.c */
int sqlite_enqueue(void *self, pr_slice box, const struct pr_message *messages, size_t count, int *answers,
                   struct pr_error *reterr);

#endif
