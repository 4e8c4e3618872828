/* A source brings messages into a box other than by INSERT: from a table of another product, from the server's log,
 * from a broker or a file.
 *
 * A source has one thread, which runs it until it is woken.  It reads a batch, maps each message to a row, stores the
 * batch in one commit, and acknowledges it to its origin.
 *
 * What every source promises:
 *   S1  Nothing is acknowledged before it is committed.  A position that Postrider keeps (a mark in the table,
 *       a place in the log, an offset) is committed in the transaction of the rows before it.
 *   S2  A message that is read again has the same id, which comes from the message or from its position.
 *   S3  Anything that is not a message becomes a dead letter with its bytes, and is acknowledged.
 *   S4  A batch that the store refuses is not acknowledged; it is tried or read again after a pause.
 *   S5  At most a batch is in memory: a source that cannot store does not read on.
 *   S6  Trouble is reported, not returned, and retried at a bounded rate; it does not affect other sources. */
#ifndef SOURCE_SOURCE_H
#define SOURCE_SOURCE_H

#include <pthread.h>

#include "base/log.h"
#include "source/table/adoption.h"
#include "source/wal/wal.h"
#include "store/store.h"

/* kind    key of the configuration, which is also the kind for people */
#define SOURCE_KINDS(X)                                                                                                \
    X(TABLE, "table")   /* an outbox table of another product */                                                       \
    X(WAL, "wal")       /* the log of the store's server */                                                            \
    X(EVENTS, "events") /* the event store: a subscription that is pushed */                                           \
    X(REDIS, "redis")   /* all kinds from here on have a url */                                                        \
    X(NATS, "nats")                                                                                                    \
    X(MQTT, "mqtt")                                                                                                    \
    X(AMQP, "amqp")                                                                                                    \
    X(AMQP1, "amqp1")                                                                                                  \
    X(KAFKA, "kafka")                                                                                                  \
    X(HTTP, "http")                                                                                                    \
    X(FILE, "file")

enum source_kind {
#define X(name, key) SOURCE_##name,
    SOURCE_KINDS(X)
#undef X
        SOURCE_KIND_COUNT
};
#define SOURCE_FIRST_WITH_URL SOURCE_REDIS
extern const char *const source_kind_names[SOURCE_KIND_COUNT];

/* Authentication for an http source. */
struct source_http {
    const char *token; /* "": none */
    const char *const *secrets;
    size_t secret_count;
    int64_t tolerance_us;
};

/* A subscription whose events become messages to an endpoint. */
struct events_setting {
    const char *name, *to;
    const char *types; /* a glob; "": all */
};

/* The configuration of a source.  Borrowed until close. */
struct source_config {
    enum source_kind kind;
    const char *name; /* its name in ids, positions and metrics: the table, the prefix, given_name or "redis:orders" */
    const char *given_name; /* those with a url: ""; default: the kind and what it reads */
    const char *box;
    const char *urls[SOURCE_KIND_COUNT]; /* the url of its kind; the others are empty */
    const char *preset;
    int64_t poll_us;              /* the longest pause between two looks */
    struct adoption table;        /* TABLE */
    struct wal_setting wal;       /* WAL */
    struct source_http http;      /* HTTP */
    struct events_setting events; /* EVENTS */
    uint64_t digest;              /* of all its settings: with the same digest it need not be restarted */
};

enum source_state {
    SOURCE_OPENED,  /* it has not begun yet */
    SOURCE_RUNNING, /* it reads, or waits for something to read */
    SOURCE_FAILING, /* see trouble; it tries again */
    SOURCE_STOPPED,
};

/* The state of a source of any kind; names are borrowed until close. */
struct source_status {
    const char *name, *kind, *box; /* "public.outboxevent", "table", "outbox" */
    enum source_state state;
    int64_t progress_us;     /* when it last committed, by the monotonic clock; 0: never */
    struct pr_error trouble; /* code PR_OK: none */
    int64_t trouble_us;      /* since when, by the monotonic clock */
    bool at_broker;          /* ... which must run, and accept the credentials */
    bool is_held;            /* it does not read, since its box is full */
    struct source_counts {
        uint64_t stored, duplicates, dead; /* messages; ids that the box had already; dead letters */
    } counts;
};

struct source;

struct broker_ops;

struct source_ops {
    const struct broker_ops *broker; /* for those with a url (broker/broker.h), else NULL */

    /* Checks whether it can work, as far as that is possible without reading.  Fault PR_ECONFIG: it cannot; the text
     * has the reason and advice.  `source` must not move until close; *ret_self only on success. */
    int (*open)(struct source *source, void **ret_self, struct pr_error *reterr);
    /* Works until wake_fd is readable (it is not read here): then it finishes the current transaction and returns. */
    void (*run)(void *self, int wake_fd);
    /* After run has returned, or instead of it.  Unacknowledged messages come again. */
    void (*close)(void *self);
};

/* The only caller of the methods.  Its owner sets the first members; the methods read them. */
struct source {
    const struct source_config *config;
    struct store *store;
    struct log *log;
    int64_t poll_min_us; /* the shortest pause between two looks */
    /* Those with a url: */
    const char *instance; /* name of the reader, for brokers that need one */
    size_t batch;         /* messages in one transaction at most */
    size_t payload_max;
    _Atomic uint64_t waiting_max; /* a box with more rows than this gets no more of them; a reload changes it */

    const struct source_ops *ops; /* NULL: it is not open */
    void *self;
    pthread_mutex_t lock; /* guards the following: */
    struct source_status status;
    int64_t logged_us; /* when the trouble was logged */
};

/* Is the configuration of a source with a url valid?  Its name for people is in the arena.  Fault PR_ECONFIG: the text
 * says what is wrong, and never repeats the url; PR_ENOMEM. */
PR_MUST_CHECK int source_check_url(const struct source_config *config, struct arena *arena, const char **ret_name,
                                   struct pr_error *reterr);
PR_MUST_CHECK int source_open(struct source *source, struct pr_error *reterr);
void source_run(struct source *source, int wake_fd);
void source_close(struct source *source);                                        /* safe on one that is not open */
void source_status_get(struct source *source, struct source_status *ret_status); /* from any thread */

/* ---- What methods call -------------------------------------------------------------------------- */

/* A batch was committed. */
void source_moved(struct source *source, const struct source_counts *more);
/* true: it should be logged, since it is new, has changed, or has lasted for a while. */
bool source_trouble(struct source *source, const struct pr_error *trouble);
bool source_fine(struct source *source); /* true: the trouble has just ended */
/* Its box is full, or no longer; true: that is a change. */
bool source_hold(struct source *source, bool is_held);
/* true: woken. */
bool source_rest(int wake_fd, int64_t us);
/* Fault PR_EUNSUPPORTED: this kind needs another store. */
PR_MUST_CHECK int source_needs_postgres(enum source_kind kind, const struct store *store, struct pr_error *reterr);

/* The built-in sources. */
extern const struct source_ops source_table, source_wal, source_events;
extern const struct source_ops source_redis, source_nats, source_mqtt, source_amqp, source_amqp1, source_kafka,
    source_http, source_file;

#endif
