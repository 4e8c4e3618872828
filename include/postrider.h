/* postrider.h - deliver messages that must not be lost.
 *
 * The whole public interface, readable top to bottom:
 *
 *   Values        slices, ids, errors, times
 *   Messages      what is sent
 *   Sending       inside your own SQLite transaction, in a unit, or through a connection of the library's own
 *   Events        read the event store, follow it, keep snapshots of streams
 *   Handling      what a handler may report about a message
 *   Rules         what follows a failure
 *   Engine        deliver in this process
 *   Worker        drive the work yourself, one cycle at a time
 *
 * Results: 0 is done; a positive value is an outcome that the caller must handle; a negative one is a fault, with its
 * text in struct pr_error.  Nothing here writes to the terminal, exits, or aborts on input. */
#ifndef POSTRIDER_H
#define POSTRIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PR_API __attribute__((visibility("default")))
#define PR_MUST_CHECK __attribute__((warn_unused_result))
#define PR_PRINTF(f, a) __attribute__((format(printf, f, a)))

struct sqlite3; /* <sqlite3.h>, only needed by callers of pr_send_sqlite() */
struct pg_conn; /* PGconn of <libpq-fe.h>, only needed by callers of pr_send_pg() */

/* ---- Values ---------------------------------------------------------------- */

/* Borrowed bytes.  {NULL, 0} is empty. */
typedef struct {
    const char *data;
    size_t size;
} pr_slice;

/* Designated, because a macro that forgets a field is worse than a long one. */
#define PR_STR(literal) ((pr_slice){ .data = ("" literal), .size = sizeof("" literal) - 1 })
#define PR_BYTES(pointer, count) ((pr_slice){ .data = (pointer), .size = (count) })

/* The bytes of a C string; NULL gives the empty slice. */
PR_API pr_slice pr_str(const char *text);

typedef struct {
    uint8_t bytes[16];
} pr_id; /* a UUID; a struct, so it cannot be mixed up */

#define PR_ID_TEXT_SIZE 37 /* 36 characters and the NUL */

PR_API void pr_id_new(pr_id *ret_id);                               /* a fresh UUIDv7 */
PR_API void pr_id_format(pr_id id, char ret_text[PR_ID_TEXT_SIZE]); /* lower case, with dashes */
PR_API PR_MUST_CHECK int pr_id_parse(pr_slice text, pr_id *ret_id); /* PR_EINVAL: not a UUID */
PR_API bool pr_id_is_zero(pr_id id);
PR_API bool pr_id_equal(pr_id a, pr_id b);

/* Times are Unix microseconds in UTC; durations are microseconds. */
#define PR_MILLISECONDS(n) ((int64_t)(n)*1000)
#define PR_SECONDS(n) ((int64_t)(n)*1000000)
#define PR_MINUTES(n) ((int64_t)(n)*60000000)
#define PR_NEVER INT64_MAX /* as a due time: parked until a person retries it */

enum pr_result {
    PR_OK = 0,

    /* Outcomes. */
    PR_DUPLICATE = 1, /* this id is stored already; nothing changed */
    PR_STALE = 2,     /* the message belongs to another instance, or has a verdict already; nothing changed */
    PR_UNKNOWN = 3,   /* no such message; nothing changed */
    PR_TIMEOUT = 4,   /* the time was not sufficient */
    PR_FAILED = 5,    /* a handler's failure, see pr_fail() */
    PR_SETTLED = 6,   /* returned by a handler: it has completed its message in its own transaction */

    /* Faults. */
    PR_EINVAL = -1, /* an argument is invalid; the text names it */
    PR_ENOMEM = -2,
    PR_ETOOBIG = -3,       /* above a limit; the text names it */
    PR_ESTORE = -4,        /* the store failed */
    PR_EBUSY = -5,         /* another program has locked the store; try again later */
    PR_EFULL = -6,         /* no space left */
    PR_ECORRUPT = -7,      /* the store is damaged */
    PR_ESCHEMA = -8,       /* tables are missing, or from a newer program */
    PR_ECONFIG = -9,       /* the configuration is invalid; the text names file, line, key */
    PR_ENOTFOUND = -10,    /* no such thing */
    PR_EIO = -11,          /* a file or socket failed */
    PR_EUNSUPPORTED = -12, /* not built in, or not possible with this store */
    PR_ELEASE = -13,       /* this instance lost its lease */
    PR_EUNCERTAIN = -14,   /* it may have happened; repeat with the same key */
    PR_ECONFLICT = -15,    /* an event's stream has another version than expected; nothing changed */
};

#define PR_ERROR_TEXT_SIZE 512

/* The text of a fault: what went wrong, and what to do about it.  Set after faults only. */
struct pr_error {
    int code; /* enum pr_result */
    char text[PR_ERROR_TEXT_SIZE];
    int64_t expected_version, version; /* PR_ECONFLICT: how many events were expected, and how many the stream has */
};

PR_API const char *pr_version(void);

/* ---- Messages -------------------------------------------------------------- */

enum pr_status {
    PR_STATUS_STORED = 1,
    PR_STATUS_EVENT_STORED = 2,
    PR_STATUS_PUBLISHED = 4, /* outbox; in an inbox the same bit means handled */
    PR_STATUS_HANDLED = 4,
    PR_STATUS_FAILED = 32768, /* bits are only ever added */
};

enum pr_reason {
    PR_REASON_NONE = 0,
    PR_REASON_TRANSPORT_UNAVAILABLE = 1,
    PR_REASON_HANDLER_EXCEPTION = 2,
    PR_REASON_VALIDATION_FAILURE = 3,
    PR_REASON_TIMEOUT_EXCEEDED = 4,
    PR_REASON_SERIALIZATION_ERROR = 5,
    PR_REASON_DEPENDENCY_FAILURE = 6,
    PR_REASON_POISON_MESSAGE = 7,
    PR_REASON_MESSAGE_TOO_LARGE = 8,
    PR_REASON_DESTINATION_MISSING = 9,
    PR_REASON_REJECTED = 10,
    PR_REASON_UNAUTHORIZED = 11,
    PR_REASON_RATE_LIMITED = 12,
    PR_REASON_EXPIRED = 13,
    PR_REASON_UNKNOWN = 99,
};

#define PR_TYPE_MAX 255 /* bytes of a type */
#define PR_NAME_MAX 255 /* bytes of a stream, destination, source, subject, content type, correlation or causation id */
#define PR_TRACE_MAX 512          /* bytes of traceparent and of tracestate */
#define PR_HEADERS_MAX 65536      /* bytes of the JSON object of headers */
#define PR_PAYLOAD_MAX (1u << 30) /* bytes; the configured limit is lower */
#define PR_ERROR_MAX 2000         /* characters of a stored failure text */

/* What a held message waits for. */
enum pr_held_for {
    PR_HELD_FOR_STREAM = 1,   /* earlier messages of its stream */
    PR_HELD_FOR_ENDPOINT = 2, /* room at its endpoint */
};

/* Who parked a message; 0: its sender did. */
enum pr_parked_by {
    PR_PARKED_BY_ROUTE = 1,  /* it has no endpoint; it continues when the configuration has one */
    PR_PARKED_BY_RULE = 2,   /* a rule, or a worker */
    PR_PARKED_BY_PERSON = 3, /* an operator */
};

/* One message; as stored: its delivery to one destination. */
struct pr_message {
    /* The sender's part. */
    pr_id id;             /* zero: generated; the same id again is a duplicate */
    pr_slice type;        /* required, 1..PR_TYPE_MAX bytes */
    pr_slice stream;      /* same stream: delivered in order; empty: no order */
    pr_slice destination; /* an endpoint; empty: the routes decide */
    pr_slice source;      /* CloudEvents source */
    pr_slice subject;
    pr_slice content_type; /* empty: application/json */
    pr_slice headers;      /* a JSON object, or empty */
    pr_slice payload;      /* opaque */
    pr_slice correlation_id;
    pr_slice causation_id;
    pr_slice traceparent; /* W3C; passed on, never overwritten */
    pr_slice tracestate;
    int64_t due_us;     /* earliest delivery; 0: now; PR_NEVER: parked */
    int64_t expires_us; /* not sent after this time; 0: never expires */
    bool event;         /* also store it as an event */
    /* An event, with expects_version: its stream must have expected_version events (0: none yet), else PR_ECONFLICT.
     * Its id is checked first: an event that is stored already is a duplicate, not a conflict. */
    bool expects_version;
    int64_t expected_version;

    /* Postrider's part; ignored when sending. */
    int64_t created_us;
    int64_t seq;    /* its place in the box */
    int status;     /* enum pr_status */
    int attempts;   /* hand-outs */
    int failures;   /* failure verdicts */
    int reason;     /* the latest failure: enum pr_reason */
    pr_slice code;  /* ... the broker's own code */
    pr_slice error; /* ... as text */
    int64_t failed_us;
    pr_slice story;   /* JSON array: the last 16 things that happened to it */
    pr_slice held_by; /* the key that it waits under: earlier messages of its stream, or room at its endpoint */
    bool released;    /* may overtake a failed head of its stream */
    int held_for;     /* enum pr_held_for, of held_by */
    int parked_by;    /* enum pr_parked_by, of a message that is parked */
};

/* "timeout_exceeded" and so on; "unknown" for a number that is not a reason. */
PR_API const char *pr_reason_name(int reason);

/* ---- Sending ----------------------------------------------------------------
 *
 * A message joins the caller's own database transaction: it will be delivered
 * if and only if that transaction commits.  Nothing here talks to a broker.
 *
 * Memory:  every pointer passed in is borrowed for the length of the call.
 * Threads: as the connection that is passed in.
 */

/* Store one message through the caller's connection, in the box "outbox".
 *
 * Outcome  PR_DUPLICATE  this id is stored (or dead) already; nothing changed.
 * Fault    PR_EINVAL, PR_ETOOBIG, PR_ECONFLICT, PR_EBUSY, PR_EFULL, PR_ESCHEMA, PR_ESTORE;
 *          *ret_id is unchanged, *reterr has the reason.  The caller's transaction is unchanged.
 *
 * Each call prepares its statement.  For many sends keep a pr_sqlite_sender, or a pr_unit for each transaction: both
 * are ten times as fast. */
PR_API PR_MUST_CHECK int pr_send_sqlite(struct sqlite3 *db, const struct pr_message *message, pr_id *ret_id,
                                        struct pr_error *reterr);
/* The same in another box; NULL is "outbox". */
PR_API PR_MUST_CHECK int pr_send_sqlite_box(struct sqlite3 *db, const char *box, const struct pr_message *message,
                                            pr_id *ret_id, struct pr_error *reterr);

/* The same through a connection to PostgreSQL, in the schema postrider.  The payload is stored in the column payload if it is
 * text that the database keeps byte for byte, else in payload_bytes.  As after any statement that
 * fails, the caller's transaction must be rolled back after a fault of the server.
 * Fault PR_EUNSUPPORTED: this library was built without libpq. */
PR_API PR_MUST_CHECK int pr_send_pg(struct pg_conn *conn, const struct pr_message *message, pr_id *ret_id,
                                    struct pr_error *reterr);
/* The same in another box; "shop.outbox" is the one in the schema shop. */
PR_API PR_MUST_CHECK int pr_send_pg_box(struct pg_conn *conn, const char *box, const struct pr_message *message,
                                        pr_id *ret_id, struct pr_error *reterr);

/* A handle for many sends through one connection of the caller: its statement stays prepared.  It borrows the
 * connection, and must be freed before that is closed.  box is as for pr_send_sqlite_box(); sending is as by
 * pr_send_sqlite(), in the open transaction.  Threads: as the connection. */
struct pr_sqlite_sender;

PR_API PR_MUST_CHECK int pr_sqlite_sender_new(struct sqlite3 *db, const char *box, struct pr_sqlite_sender **ret_sender,
                                              struct pr_error *reterr);
PR_API void pr_sqlite_sender_free(struct pr_sqlite_sender *sender); /* NULL is allowed */
PR_API PR_MUST_CHECK int pr_sqlite_sender_send(struct pr_sqlite_sender *sender, const struct pr_message *message,
                                               pr_id *ret_id, struct pr_error *reterr);

/* The same for PostgreSQL; the box is looked up when the first message is sent.  The statement is prepared again after
 * PQreset().  After DISCARD ALL the next send fails with its transaction, and the one after it works.  Behind a pooler
 * that changes the server connection with each transaction use pr_send_pg(). */
struct pr_pg_sender;

PR_API PR_MUST_CHECK int pr_pg_sender_new(struct pg_conn *conn, const char *box, struct pr_pg_sender **ret_sender,
                                          struct pr_error *reterr);
PR_API void pr_pg_sender_free(struct pr_pg_sender *sender); /* NULL is allowed */
PR_API PR_MUST_CHECK int pr_pg_sender_send(struct pr_pg_sender *sender, const struct pr_message *message, pr_id *ret_id,
                                           struct pr_error *reterr);

/* A unit collects messages while the work is being done and stores them all when it
 * commits.  Messages are copied.  Not thread-safe; one unit per transaction. */
struct pr_unit;

PR_API struct pr_unit *pr_unit_new(void); /* NULL: no memory */
PR_API void pr_unit_free(struct pr_unit *unit);

/* Checks and copies; a zero id is filled in and returned.  box is as for pr_send_pg_box(); SQLite has no
 * schemas, and refuses one when the unit is stored. */
PR_API PR_MUST_CHECK int pr_unit_add(struct pr_unit *unit, const char *box, const struct pr_message *message,
                                     pr_id *ret_id, struct pr_error *reterr);
PR_API size_t pr_unit_count(const struct pr_unit *unit);

/* Store all of them through the caller's connection, inside its open transaction, and
 * empty the unit.  On a fault the caller rolls back; the unit keeps its messages. */
PR_API PR_MUST_CHECK int pr_unit_store_sqlite(struct pr_unit *unit, struct sqlite3 *db, struct pr_error *reterr);
PR_API PR_MUST_CHECK int pr_unit_store_pg(struct pr_unit *unit, struct pg_conn *conn, struct pr_error *reterr);

/* A message that is sent again and again, at the times of a cron expression: see doc/schedules.md.  Stored through the
 * caller's connection, in its transaction, in the box "outbox"; a running relay takes it up within a cycle, replacing
 * an earlier one of the same name. */
enum pr_missed {
    PR_MISSED_ONCE, /* after a gap one message, for the latest of the missed times */
    PR_MISSED_SKIP, /* none */
    PR_MISSED_ALL,  /* one for each, at most 1,000 */
};
struct pr_schedule {
    const char *name; /* letters, digits, '_', '-' and '.' */
    const char *cron; /* "0 3 * * *", "@daily"; NULL: cancel the schedule of this name */
    const char *zone; /* "Europe/Berlin"; NULL: UTC */
    enum pr_missed missed;
    int64_t grace_us; /* a time counts as missed when it is later than this, at least a second; 0: a minute */
    bool paused;
    const char *box; /* of its messages; NULL: "outbox"; pr_schedule_pg(): "shop.outbox" is in the schema shop */
    struct pr_message message; /* the message to send; its id and times are ignored */
};
PR_API PR_MUST_CHECK int pr_schedule_sqlite(struct sqlite3 *db, const struct pr_schedule *schedule,
                                            struct pr_error *reterr);
PR_API PR_MUST_CHECK int pr_schedule_pg(struct pg_conn *conn, const struct pr_schedule *schedule,
                                        struct pr_error *reterr);

/* A sender has a connection of its own; calls from many threads are committed together. */
struct pr_sender;

PR_API PR_MUST_CHECK int pr_sender_open(const char *store_url, struct pr_sender **ret_sender, struct pr_error *reterr);
PR_API void pr_sender_close(struct pr_sender *sender);

/* Committed when it returns: PR_OK, PR_DUPLICATE, or a fault. */
PR_API PR_MUST_CHECK int pr_sender_send(struct pr_sender *sender, const char *box, const struct pr_message *message,
                                        pr_id *ret_id, struct pr_error *reterr);

/* Many messages in one transaction: all or none.  ret_ids has room for count, or is NULL; *ret_stored (may be NULL)
 * counts those that were not duplicates. */
PR_API PR_MUST_CHECK int pr_sender_send_many(struct pr_sender *sender, const char *box,
                                             const struct pr_message *messages, size_t count, pr_id *ret_ids,
                                             size_t *ret_stored, struct pr_error *reterr);

/* A request is a message whose handler replies (pr_reply()): see doc/requests.md.  It is stored, and waiting for its
 * reply means asking the store for it by the request's id: so waiting can continue after a restart, in any process.  A
 * reply is stored once, and kept for a day.
 *
 * reply_to: NULL where the handler uses the same store; else an endpoint of the handler's configuration that leads to a
 * source of this program. */
struct pr_reply {
    struct pr_message message;
};

/* Store it and wait.  Outcome PR_TIMEOUT: there is no reply yet; continue with pr_request_resume() and *ret_id.  A
 * request with the id of an earlier one is not sent again.  Fault PR_ENOTFOUND: there will be no reply, the request is
 * dead or gone. */
PR_API PR_MUST_CHECK int pr_request(struct pr_sender *sender, const char *box, const struct pr_message *message,
                                    const char *reply_to, int64_t timeout_us, pr_id *ret_id,
                                    struct pr_reply **ret_reply, struct pr_error *reterr);
PR_API PR_MUST_CHECK int pr_request_resume(struct pr_sender *sender, pr_id id, int64_t timeout_us,
                                           struct pr_reply **ret_reply, struct pr_error *reterr);
PR_API void pr_reply_free(struct pr_reply *reply); /* NULL is allowed */
/* Only store it, in the caller's transaction; wait with pr_request_resume() after the commit. */
PR_API PR_MUST_CHECK int pr_request_sqlite(struct sqlite3 *db, const char *box, const struct pr_message *message,
                                           const char *reply_to, pr_id *ret_id, struct pr_error *reterr);
PR_API PR_MUST_CHECK int pr_request_pg(struct pg_conn *conn, const char *box, const struct pr_message *message,
                                       const char *reply_to, pr_id *ret_id, struct pr_error *reterr);

/* Create or upgrade the tables of a store; safe to run twice. */
PR_API PR_MUST_CHECK int pr_store_init(const char *store_url, struct pr_error *reterr);

/* ---- Events -----------------------------------------------------------------
 *
 * Messages with `event` are also events of their stream: see doc/events.md.
 *
 * A reader has a connection of its own; one thread at a time.  What it returns is borrowed until the next call with that
 * reader.
 */
struct pr_event {
    int64_t place; /* among all events, starting at 1; 0 when a single stream was read */
    pr_slice stream;
    int64_t version; /* in its stream, starting at 1 */
    pr_id id;
    pr_slice type, content_type, headers, payload;
    int64_t created_us;
};

struct pr_events;

PR_API PR_MUST_CHECK int pr_events_open(const char *store_url, struct pr_events **ret_events, struct pr_error *reterr);
PR_API void pr_events_close(struct pr_events *events); /* NULL is allowed */

/* The events of a stream from a version on (1: from the start), at most max, and no more when their payloads and
 * headers have reached 8 MiB.  None: there are no more. */
PR_API PR_MUST_CHECK int pr_events_read(struct pr_events *events, pr_slice stream, int64_t from_version, size_t max,
                                        const struct pr_event **ret_list, size_t *ret_count, struct pr_error *reterr);
/* All events after a place (0: from the start) in order, with the same limits.  If there are none it waits for
 * wait_us. */
PR_API PR_MUST_CHECK int pr_events_read_all(struct pr_events *events, int64_t after_place, size_t max, int64_t wait_us,
                                            const struct pr_event **ret_list, size_t *ret_count,
                                            struct pr_error *reterr);

/* A summary of the first `version` events of a stream, so that a later reader need not read them all.  Each stream has
 * one snapshot, the latest: PR_STALE means that a later one exists, which stays. */
PR_API PR_MUST_CHECK int pr_snapshot_save(struct pr_events *events, pr_slice stream, int64_t version, pr_slice data,
                                          struct pr_error *reterr);
/* PR_UNKNOWN: there is none; read from version 1.  Else continue with version + 1. */
PR_API PR_MUST_CHECK int pr_snapshot_load(struct pr_events *events, pr_slice stream, int64_t *ret_version,
                                          pr_slice *ret_data, struct pr_error *reterr);

/* A subscription follows all events under a name.  Its position is in the store: the place of the last event that it
 * has processed.  Of several instances one at a time holds it, as long as its lease lasts.
 *
 *     rc = pr_subscription_next(s, 1000, PR_SECONDS(5), &events, &count, &error);
 *     BEGIN; write what follows from the events;
 *     rc = pr_subscription_advance_sqlite(s, db, events[count - 1].place, &error);
 *     if (rc != PR_OK) ROLLBACK; else COMMIT;
 *
 * Position and writes are one transaction, so each event is in the writes exactly once, even after crashes. */
struct pr_subscription;

struct pr_subscription_options {
    const char *store_url;
    const char *name;     /* letters, digits, '_', '-' and '.' */
    const char *instance; /* shown to people; NULL: the name of the host */
    int64_t lease_us;     /* 0: 30 s.  Ask for the next events more often than this */
};

PR_API PR_MUST_CHECK int pr_subscription_open(const struct pr_subscription_options *options,
                                              struct pr_subscription **ret_subscription, struct pr_error *reterr);
/* Another instance may take it over at once. */
PR_API void pr_subscription_close(struct pr_subscription *subscription); /* NULL is allowed */
/* The events after the position, with the limits of pr_events_read().  None: none came within wait_us, or another
 * instance holds the subscription. */
PR_API PR_MUST_CHECK int pr_subscription_next(struct pr_subscription *subscription, size_t max, int64_t wait_us,
                                              const struct pr_event **ret_list, size_t *ret_count,
                                              struct pr_error *reterr);
/* Everything up to this place, one of those that pr_subscription_next() returned last, is processed: in the open
 * transaction of the caller's connection to the store's database.
 *
 * Outcome  PR_STALE   another instance has taken over, or a person has reset the position: roll back, ask for the next.
 * Fault    PR_EINVAL  no transaction is open, or the place is not one of those.
 *
 * PostgreSQL: the connection's role needs the right to execute advance_subscription(). */
PR_API PR_MUST_CHECK int pr_subscription_advance_sqlite(struct pr_subscription *subscription, struct sqlite3 *db,
                                                        int64_t place, struct pr_error *reterr);
PR_API PR_MUST_CHECK int pr_subscription_advance_pg(struct pr_subscription *subscription, struct pg_conn *conn,
                                                    int64_t place, struct pr_error *reterr);
/* The same in a transaction of its own, for work that is done elsewhere: after a crash events may come again. */
PR_API PR_MUST_CHECK int pr_subscription_advance(struct pr_subscription *subscription, int64_t place,
                                                 struct pr_error *reterr);

/* ---- Handling ---------------------------------------------------------------
 *
 * A handler is called on a thread of the engine, one message of a stream at a time.
 * It returns PR_OK, what pr_fail() returned, or PR_SETTLED (see pr_complete_sqlite()).  It may be called again for the same
 * message: look at message->attempts, and at message->status for what was reached before.
 *
 * A handler that has not returned half a timeout after its deadline ends the process, because
 * a thread cannot be ended safely; the hand-out counts, so it ends as poison.
 */
struct pr_context;

typedef int (*pr_handler)(struct pr_context *context, const struct pr_message *message, void *user);

/* This delivery failed.  Returns PR_FAILED, for "return pr_fail(...)". */
PR_API int pr_fail(struct pr_context *context, enum pr_reason reason, const char *format, ...) PR_PRINTF(3, 4);
/* The same, with the delay that the dependency asked for. */
PR_API int pr_fail_retry_after(struct pr_context *context, enum pr_reason reason, int64_t retry_after_us,
                               const char *format, ...) PR_PRINTF(4, 5);
/* Status bits reached so far: kept even when the handler fails later, and visible to the retry. */
PR_API void pr_reached(struct pr_context *context, int status_bits);
/* A message to be stored in the outbox, in the transaction that completes this one; copied.  After a fault (it is
 * invalid, there are too many) this delivery fails, whatever the handler returns.  An event whose expected_version does
 * not hold then is treated as with pr_effect_append(). */
PR_API int pr_effect_send(struct pr_context *context, const struct pr_message *message);
/* The same in another box; NULL is "outbox".  The handler decides about a fault. */
PR_API PR_MUST_CHECK int pr_effect_send_box(struct pr_context *context, const char *box,
                                            const struct pr_message *message, struct pr_error *reterr);
/* An event at the end of its stream (message->stream), in the transaction that completes this message.  expected: the
 * number of events that the stream must have (0: none yet), or PR_ANY_VERSION; if it has another number, nothing of
 * this delivery is stored, and the message comes again in a second, uncounted.  An event whose id is in the stream
 * already is left out.  Copied. */
#define PR_ANY_VERSION (-1)
PR_API PR_MUST_CHECK int pr_effect_append(struct pr_context *context, const struct pr_message *event, int64_t expected,
                                          struct pr_error *reterr);
/* A value under a name in a scope, in the same transaction; data NULL: it is removed.  Copied. */
PR_API PR_MUST_CHECK int pr_effect_set(struct pr_context *context, pr_slice scope, pr_slice name, pr_slice value,
                                       struct pr_error *reterr);
/* The reply to this message, in the transaction that completes it; copied.  Fault PR_EINVAL: no reply was requested. */
PR_API PR_MUST_CHECK int pr_reply(struct pr_context *context, const struct pr_message *message,
                                  struct pr_error *reterr);
/* When this delivery fails and is retried, the messages behind it in its stream need not wait: they overtake it. */
PR_API void pr_release_followers(struct pr_context *context);
/* Complete this message inside your own transaction, together with your own writes: both happen, or neither does, so
 * that a handler's writes are made exactly once, however often it is called.
 *
 *     sqlite3_exec(db, "BEGIN IMMEDIATE", ...);       in the handler, on a connection to the store's own database
 *     ... write what belongs to the message ...
 *     rc = pr_complete_sqlite(context, db, &error);
 *     if (rc != PR_OK) { ROLLBACK; return rc; }
 *     COMMIT;
 *     return PR_SETTLED;
 *
 * Earlier effects (pr_effect_send(), pr_effect_append(), pr_effect_set()) are stored in the same transaction.  The
 * store is asked whether the transaction was committed: when a handler returns PR_SETTLED and the message still exists,
 * that is a failure (handler_exception).
 *
 * Outcome  PR_STALE      the message has another verdict meanwhile: roll back, and return it.
 * Fault    PR_EBUSY      a lock, a deadlock, a conflict of serializable transactions, a lost connection: roll back, and
 *                        return it.  It is not the message's fault: it comes again soon, and nothing is counted.
 *          PR_ECONFLICT  a stream has another version than an event expects: the same.
 *          PR_EINVAL     no transaction is open.
 *          PR_ESTORE and others: roll back, and return it or pr_fail().
 * A handler whose COMMIT got no answer returns PR_EUNCERTAIN: the message is done if the commit happened; otherwise it
 * comes again, uncounted.
 *
 * SQLite has one writer: while such a transaction is open no other connection can write, so commit soon.  The lease is
 * not lost meanwhile; after a third of it there is a warning in the log. */
PR_API PR_MUST_CHECK int pr_complete_sqlite(struct pr_context *context, struct sqlite3 *db, struct pr_error *reterr);
/* The same through a connection to PostgreSQL.  Begin the transaction inside the handler: one in REPEATABLE READ or
 * SERIALIZABLE that began before does not see the message, which looks like PR_STALE.  The connection's role needs the
 * right to execute complete(), complete_append() and complete_set(), and to insert the messages that the handler sends:
 * postrider init --grants prints them. */
PR_API PR_MUST_CHECK int pr_complete_pg(struct pr_context *context, struct pg_conn *conn, struct pr_error *reterr);
/* True when the deadline has passed or the engine stops: finish soon. */
PR_API bool pr_should_stop(const struct pr_context *context);

/* ---- Rules ------------------------------------------------------------------
 *
 * What a failure leads to: when (matchers) and then (steps), as under `rules` in the config.
 * The endpoint's rules are asked before the global ones, the config's before these; the first
 * that matches decides.  When none does, the endpoint's retry setting decides.
 *
 *     struct pr_rule *rule = pr_rule_new("broker says no");
 *     pr_rule_when_reason(rule, PR_REASON_REJECTED);
 *     pr_rule_retry_now(rule, 3);
 *     pr_rule_retry(rule, (int64_t[]){ PR_SECONDS(5), PR_SECONDS(30) }, 2);
 *     pr_rule_dead_letter(rule, NULL);
 *     pr_rule_pause(rule, PR_MINUTES(5));                 beside the dead letter
 *     rc = pr_engine_rule(engine, "orders", rule, &err);
 *
 * Mistakes are remembered: pr_engine_rule() reports the first one.  Texts are copied.
 */
struct pr_rule;

PR_API struct pr_rule *pr_rule_new(const char *name); /* NULL: no memory */
PR_API void pr_rule_free(struct pr_rule *rule);       /* only a rule that no engine has taken; NULL is allowed */

/* All of these must match; without any, every failure does.  Globs are over the whole text. */
PR_API void pr_rule_when_reason(struct pr_rule *rule, enum pr_reason reason);
PR_API void pr_rule_when_class(struct pr_rule *rule, const char *name); /* transient, permanent, unknown */
PR_API void pr_rule_when_code(struct pr_rule *rule, const char *glob);
PR_API void pr_rule_when_error(struct pr_rule *rule, const char *contains);
PR_API void pr_rule_when_error_glob(struct pr_rule *rule, const char *glob);
PR_API void pr_rule_when_type(struct pr_rule *rule, const char *glob);
PR_API void pr_rule_when_endpoint(struct pr_rule *rule, const char *glob);
PR_API void pr_rule_when_stream(struct pr_rule *rule, const char *glob);
/* Ranges include both ends. */
PR_API void pr_rule_when_size(struct pr_rule *rule, int64_t min_bytes, int64_t max_bytes);
PR_API void pr_rule_when_age(struct pr_rule *rule, int64_t min_us, int64_t max_us);
PR_API void pr_rule_when_failures(struct pr_rule *rule, int min, int max);
/* Matchers up to pr_rule_end() are a group: all of them, one of them, or not all of them. */
PR_API void pr_rule_and(struct pr_rule *rule);
PR_API void pr_rule_or(struct pr_rule *rule);
PR_API void pr_rule_not(struct pr_rule *rule);
PR_API void pr_rule_end(struct pr_rule *rule);

/* Steps, in this order, by how often the message has failed. */
PR_API void pr_rule_retry_now(struct pr_rule *rule, int times);
PR_API void pr_rule_retry(struct pr_rule *rule, const int64_t *delays_us, size_t count);
PR_API void pr_rule_backoff(struct pr_rule *rule, int64_t base_us, double factor, int64_t cap_us, int failures,
                            double jitter);
PR_API void pr_rule_dead_letter(struct pr_rule *rule, const char *to); /* NULL: the table; or an endpoint */
PR_API void pr_rule_discard(struct pr_rule *rule);
PR_API void pr_rule_park(struct pr_rule *rule);
/* Begins a new step: what follows stands alone. */
PR_API void pr_rule_then(struct pr_rule *rule);

/* In addition to the action of the current step; alone after pr_rule_then() or as the first. */
PR_API void pr_rule_pause(struct pr_rule *rule, int64_t for_us); /* PR_NEVER: until resumed */
struct pr_raise {
    const char *type;
    const char *to;      /* NULL: the routes decide */
    const char *stream;  /* a template, see doc/configuration.md; may be NULL */
    const char *payload; /* a template; NULL: a JSON object that describes the failure */
};
PR_API void pr_rule_raise(struct pr_rule *rule, const struct pr_raise *raise);
PR_API void pr_rule_call(struct pr_rule *rule, const char *name); /* see pr_engine_call() */

/* A failure, as a called function sees it. */
struct pr_failure {
    const struct pr_message *message;
    pr_slice endpoint;
    enum pr_reason reason;
    pr_slice code, error;
    int failures; /* including this one */
    int64_t age_us, retry_after_us;
    pr_slice rule;
};

enum pr_step { PR_STEP_RETRY, PR_STEP_RETRY_NOW, PR_STEP_DEAD_LETTER, PR_STEP_DISCARD, PR_STEP_PARK };

/* Runs in the engine's own thread, so it must be quick.  Returns PR_OK, or the result of pr_fail(); then it counts as
 * not called, and the log says so.  It may pr_effect_send(). */
typedef int (*pr_rule_function)(struct pr_context *context, const struct pr_failure *failure, void *user);
/* The decision about the message, when the call stands alone in its step.  delay_us: PR_STEP_RETRY. */
PR_API void pr_decide(struct pr_context *context, enum pr_step step, int64_t delay_us);

/* ---- Engine -----------------------------------------------------------------
 *
 * new -> handle* -> start -> (drain) -> stop -> free.  Thread-safe after start.
 */
struct pr_engine;

/* config is YAML text (not a file name); see doc/configuration.md. */
PR_API struct pr_engine *pr_engine_new(const char *config, struct pr_error *reterr);
PR_API struct pr_engine *pr_engine_new_file(const char *path, struct pr_error *reterr);
/* Stops the engine if it runs, and waits for handlers that are still running. */
PR_API void pr_engine_free(struct pr_engine *engine);

/* Messages whose type matches the glob go to this function instead of to an endpoint's transport, in every box of the
 * kind `outbox`; the first registered match decides.  An endpoint with the url "handler:GLOB" in the configuration
 * gives it other settings than the defaults.  A glob has at most 255 bytes and 16 stars.  Only before start. */
PR_API PR_MUST_CHECK int pr_engine_handle(struct pr_engine *engine, const char *type_glob, pr_handler handler,
                                          void *user);
/* The same for the messages of one box, of any kind; NULL is every outbox.  Its endpoint is "handler:BOX/GLOB". */
PR_API PR_MUST_CHECK int pr_engine_handle_box(struct pr_engine *engine, const char *box, const char *type_glob,
                                              pr_handler handler, void *user);
/* Several functions for one message: all whose glob matches the type of a message of this box (NULL: of every outbox)
 * without a destination get it, each as a delivery of its own, in addition to its routes.  They succeed, fail, are
 * retried and die independently.  Their endpoint is "handler:NAME"; one with that url in the configuration gives it
 * other settings than the defaults.  A name has letters, digits, '_', '-' and '.'.  Only before start. */
PR_API PR_MUST_CHECK int pr_engine_subscribe(struct pr_engine *engine, const char *box, const char *name,
                                             const char *type_glob, pr_handler handler, void *user);
/* A function for the endpoints whose url is "handler:NAME".  Only before start. */
PR_API PR_MUST_CHECK int pr_engine_handle_named(struct pr_engine *engine, const char *name, pr_handler handler,
                                                void *user);

/* A rule for an endpoint, NULL: for all.  Takes the rule over on success.  Only before start.  Fault PR_EINVAL: what is
 * wrong with it. */
PR_API PR_MUST_CHECK int pr_engine_rule(struct pr_engine *engine, const char *endpoint, struct pr_rule *rule,
                                        struct pr_error *reterr);
/* A function that rules call by this name.  Only before start. */
PR_API PR_MUST_CHECK int pr_engine_call(struct pr_engine *engine, const char *name, pr_rule_function function,
                                        void *user);

/* Creates what is missing: the tables, and a SQLite file too (`postrider run` refuses that, since the path may be
 * mistyped).  Tables of an older version are upgraded. */
PR_API PR_MUST_CHECK int pr_engine_start(struct pr_engine *engine, struct pr_error *reterr);
/* Wait until nothing is left to do right now (messages that are not due do not count): PR_OK, PR_TIMEOUT, or the fault
 * that stopped the engine. */
PR_API PR_MUST_CHECK int pr_engine_drain(struct pr_engine *engine, int64_t timeout_us, struct pr_error *reterr);
/* Finish or hand back everything in flight; PR_TIMEOUT when something had to be left. */
PR_API int pr_engine_stop(struct pr_engine *engine, int64_t timeout_us);

/* Send nothing to an endpoint for this time (PR_NEVER: until resumed), in every process that uses this store; of two
 * pauses the later end applies.  Deliveries in flight end normally; nothing is counted meanwhile. */
PR_API PR_MUST_CHECK int pr_engine_pause(struct pr_engine *engine, const char *endpoint, int64_t for_us,
                                         const char *why, struct pr_error *reterr);
PR_API PR_MUST_CHECK int pr_engine_resume(struct pr_engine *engine, const char *endpoint, struct pr_error *reterr);

/* Operations on schedules in the store of a running engine.  Fault PR_ENOTFOUND: no schedule of this name. */
PR_API PR_MUST_CHECK int pr_engine_schedule(struct pr_engine *engine, const struct pr_schedule *schedule,
                                            struct pr_error *reterr);
PR_API PR_MUST_CHECK int pr_engine_schedule_pause(struct pr_engine *engine, const char *name, struct pr_error *reterr);
PR_API PR_MUST_CHECK int pr_engine_schedule_resume(struct pr_engine *engine, const char *name, struct pr_error *reterr);
PR_API PR_MUST_CHECK int pr_engine_schedule_cancel(struct pr_engine *engine, const char *name, struct pr_error *reterr);
/* Set its next time, due_us: at most a period and a day ahead, and no longer ago than its grace time.  Fault PR_EINVAL:
 * it is outside of these limits, or the schedule is paused. */
PR_API PR_MUST_CHECK int pr_engine_schedule_move(struct pr_engine *engine, const char *name, int64_t due_us,
                                                 struct pr_error *reterr);
/* Send its message now; its times do not change. */
PR_API PR_MUST_CHECK int pr_engine_schedule_run(struct pr_engine *engine, const char *name, pr_id *ret_id,
                                                struct pr_error *reterr);

enum pr_schedule_state {
    PR_SCHEDULE_ACTIVE,
    PR_SCHEDULE_PAUSED,
    PR_SCHEDULE_NEW,     /* stored, and not taken up by a running relay yet */
    PR_SCHEDULE_FAILING, /* its time zone is unknown where it should run: see error */
    PR_SCHEDULE_DEAD,    /* it cannot be decoded, and is among the dead letters: see error */
};
struct pr_schedule_info {
    pr_slice name, cron, zone; /* zone empty: UTC */
    enum pr_missed missed;
    int64_t grace_us;
    enum pr_schedule_state state;
    int64_t next_us; /* 0: none */
    bool in_config;  /* it comes from a configuration, and was not created at run time */
    pr_slice box;    /* of its messages */
    struct pr_message message;
    pr_slice error; /* empty: no error */
};
struct pr_schedule_list {
    const struct pr_schedule_info *entries;
    size_t count;
};
/* All schedules of the store, or those of one name (name NULL: all).  An empty list is PR_OK.  Free the list. */
PR_API PR_MUST_CHECK int pr_engine_schedules(struct pr_engine *engine, const char *name,
                                             struct pr_schedule_list **ret_list, struct pr_error *reterr);
PR_API void pr_schedule_list_free(struct pr_schedule_list *list); /* NULL is allowed */

/* How pr_engine_send() ended. */
enum pr_sent {
    PR_SENT_STORED,    /* it is in the box and will be delivered */
    PR_SENT_DELIVERED, /* it was sent in this call */
    PR_SENT_DEAD,      /* a rule made it a dead letter */
    PR_SENT_DISCARDED, /* a rule discarded it */
};

/* Send through a running engine.  A message for one endpoint with `mode: inline` is sent now, in the caller's thread,
 * by the same rules; a message that cannot be sent is stored (and so is one for other endpoints, one that must wait
 * behind others of its stream, and one for an endpoint that is paused or failing).  It counts for the endpoint's
 * breaker and totals like any other send.  See examples/rules.c.  PR_OK, PR_DUPLICATE, or a fault: then nothing was
 * sent or stored. */
PR_API PR_MUST_CHECK int pr_engine_send(struct pr_engine *engine, const char *box, const struct pr_message *message,
                                        pr_id *ret_id, enum pr_sent *ret_sent, struct pr_error *reterr);

struct pr_engine_counts {
    uint64_t sent, failed, dead, discarded, expired, returned, stale, poison;
    uint64_t waiting_in_memory, in_flight, cycles;
    uint64_t duplicates; /* rows of messages that their handlers had ended before: not handed out, or refused */
};
PR_API void pr_engine_counts(struct pr_engine *engine, struct pr_engine_counts *ret_counts);

/* ---- Worker -----------------------------------------------------------------
 *
 * For programs that do the work themselves: one call hands verdicts in and gets claimed
 * messages out, in one transaction.  Streams, due times, retries, poison and leases are
 * those of the engine.  One thread at a time per worker.
 */
struct pr_worker;

enum pr_verdict_kind {
    PR_VERDICT_COMPLETE, /* done; bits are added, the message leaves the box */
    PR_VERDICT_FAIL,     /* counted; retried or dead by policy */
    PR_VERDICT_RETURN,   /* handed back, not counted */
    PR_VERDICT_ABANDON,  /* handed back, counted as an attempt */
    PR_VERDICT_RELEASE,  /* status 0: handed back, may overtake the failed head of its stream */
    PR_VERDICT_DISCARD,  /* deleted, counted */
    PR_VERDICT_DEAD_LETTER,
    PR_VERDICT_PARK, /* parked until a person retries it */
    /* pr_worker_complete_*() has completed it, and that transaction was committed.  The answer: PR_OK: confirmed;
     * PR_FAILED: the message still exists, which counts as a failure of it */
    PR_VERDICT_SETTLED,
};

struct pr_verdict {
    uint64_t claim; /* from the claimed message */
    enum pr_verdict_kind kind;
    int status;            /* bits reached */
    enum pr_reason reason; /* of a failure */
    pr_slice code, error;
    int64_t retry_after_us;           /* 0: the retry setting decides */
    const struct pr_message *effects; /* messages stored in the same transaction */
    size_t effect_count;
    const char *effect_box; /* NULL: "outbox" */
    bool release_followers; /* FAIL: when it is retried, the messages behind it in its stream overtake it */
};

struct pr_claimed {
    uint64_t claim;
    const struct pr_message *message; /* borrowed until its verdict was passed in */
    int attempt;                      /* 1 at the first hand-out */
};

struct pr_worker_options {
    const char *store_url;
    const char *box;      /* NULL: "outbox" */
    const char *name;     /* shown to people */
    int64_t lease_us;     /* 0: 15 s */
    int max_attempts;     /* 0: 5 */
    const char *ordering; /* NULL: "fifo" */
    /* Both or neither: YAML text as for pr_engine_new(), and the name of an endpoint in it, whose retry, preset, rules,
     * rate, ordering and max_attempts (unless given above) apply to this worker, with the global rules; and the keep of
     * its box. */
    const char *config, *endpoint;
};

PR_API PR_MUST_CHECK int pr_worker_open(const struct pr_worker_options *options, struct pr_worker **ret_worker,
                                        struct pr_error *reterr);
/* Hands back the claims that it still has, uncounted. */
PR_API void pr_worker_close(struct pr_worker *worker);

/* One step: verdicts in, up to max claimed messages out.  answers (may be NULL) has room for verdict_count, for each:
 * PR_OK; PR_STALE: the claim has ended (it had its verdict before, the lease was lost, or an operator was faster);
 * PR_UNKNOWN: this worker never handed out such a claim, or its message is gone from the store; PR_ECONFLICT: an event
 * among its effects expects another version than its stream has, and the message comes again, uncounted.  After the
 * last three nothing has changed.  Call it at least twice per lease: it renews the lease even without verdicts and
 * messages.  Fault PR_ELEASE: the claims no longer belong to this worker; drop them and call again.  Fault PR_EBUSY and
 * others: nothing was claimed; call again with the same verdicts. */
PR_API PR_MUST_CHECK int pr_worker_cycle(struct pr_worker *worker, const struct pr_verdict *verdicts,
                                         size_t verdict_count, int *answers, struct pr_claimed *ret_claimed, size_t max,
                                         size_t *ret_count, struct pr_error *reterr);
/* Like pr_complete_sqlite() and pr_complete_pg(), for a claim: verdict is a PR_VERDICT_COMPLETE.  After the commit,
 * pass a PR_VERDICT_SETTLED for the claim. */
PR_API PR_MUST_CHECK int pr_worker_complete_sqlite(struct pr_worker *worker, const struct pr_verdict *verdict,
                                                   struct sqlite3 *db, struct pr_error *reterr);
PR_API PR_MUST_CHECK int pr_worker_complete_pg(struct pr_worker *worker, const struct pr_verdict *verdict,
                                               struct pg_conn *conn, struct pr_error *reterr);
/* Wait until there may be something to claim, or the timeout. */
PR_API void pr_worker_wait(struct pr_worker *worker, int64_t timeout_us);

#ifdef __cplusplus
}
#endif
#endif
