/* The store: where messages live, and the one call between it and the engine.
 *
 * A store keeps boxes of rows.  A row is one delivery: one message to one destination.  A row exists as long as there
 * is work to do; a row that is gone is done.  Rows are processed by instances, which lease lanes.  Everything an
 * instance changes goes through cycle(), in one transaction, fenced by its lease and epoch.
 *
 * Invariants, each held by the conformance suite (test/store) over every store:
 *   T1  A cycle lands whole or not at all.
 *   T2  (instance, number) identifies a cycle: the same number again changes nothing.
 *   T3  An instance whose lease was taken changes nothing: cycle() returns PR_ELEASE.
 *   T4  A lane has at most one owner, and changes hands only when its owner gave it or died.
 *   T5  A receipt is on disk before cycle() returns: so is every row on it.
 *   T6  Burying an instance counts the hand-outs on its open receipts, once: attempts = number, where
 *       attempts are number - 1 (otherwise the row has a verdict, or an operator reset its counters); and frees
 *       its lanes.  The story of such a row says when it was handed out and to which instance
 *       (STORY_LOST).
 *   T7  While an instance owns a lane, every row that is visible in it, fresh and not held, is
 *       read exactly once by the fresh scan after it was started or restarted, or left out because
 *       cycle.skips names it, and then it is within reply.skipped.  (A store may read
 *       such rows again, minutes later or when its connection was lost, to find any that were
 *       overlooked.)
 *   T8  No row is lost by a read: reading changes nothing.
 *   T9  People see a breaker as it was last reported by an instance that is alive and has lanes; it
 *       disappears when it closes, and with its instance.
 *
 * Time: now_us is the store's own clock and the only one that decides about due times and leases (leases by a clock
 * that does not jump).
 *
 * Threads: cycle() and wait() of one struct store_session come from one thread at a time; everything else may be called
 * from any thread. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/arena.h"
#include "base/log.h"
#include "base/time.h"
#include "core/cycle.h"
#include "core/ended.h"
#include "core/flow_row.h"
#include "core/lane.h"
#include "core/message.h"
#include "core/order.h"
#include "core/reason.h"
#include "core/state.h"

/* ---- People's questions -------------------------------------------------------------- */

/* Where messages without a destination go, which only the owner of the routes knows. */
struct routing {
    /* The n-th endpoint of the message in this box; empty: there are no more. */
    pr_slice (*route)(const struct routing *routing, pr_slice box, const struct pr_message *m, size_t n);
    /* Do streams wait behind parked messages at this endpoint? */
    bool (*is_strict)(const struct routing *routing, pr_slice endpoint);
};

struct filter {
    pr_slice correlation_id; /* empty: any; not for DEAD_GROUPS */
    /* empty: any; type is a glob; error: a part of the text, or of the note of a dead letter */
    pr_slice box, endpoint, type, stream, error, fingerprint;
    int reason;     /* 0: any */
    int state;      /* enum state, or -1: any */
    bool not_fresh; /* MESSAGES: of boxes only rows with a due time or held ones: few, even where many rows wait */
    int64_t since_us, until_us; /* created (dead letters: died) in [since, until); 0: no bound */
    const pr_id *ids;           /* empty: any */
    size_t id_count;
    uint64_t row;        /* dead letters: only this one, even if its id is damaged; 0: any */
    uint64_t newest_row; /* dead letters: none later than this row; 0: any */
    size_t limit;        /* 0: 100 */
    /* MESSAGES, DEAD: look at no more than about this many rows of a table; when matches may remain behind them,
     * reply.cut is set.  0: look at all */
    size_t look_max;
    /* keyset: `row` of the last one seen, 0: from the start.  Rows of boxes are counted in each box (so box or
     * after_box must be set), dead letters have one order */
    uint64_t after;
    pr_slice after_box; /* MESSAGES: the box of that row; earlier boxes have been listed already */
    /* For endpoint, state (paused), fingerprint, heads of streams and DEAD_ADD; NULL: routes are unknown. */
    const struct routing *routing;
};

/* ---- Filters (filter.c) ---- */
/* Does the filter match everything? */
bool filter_is_empty(const struct filter *filter);
/* Does the filter restrict nothing but the time? */
bool filter_is_time(const struct filter *filter);
/* The only endpoint that a message in a box goes to; empty: unknown, or several.  A NULL filter has no routing. */
pr_slice filter_endpoint_of(const struct filter *filter, pr_slice box, const struct pr_message *m);
/* Is a message in a box on its way to the filter's endpoint, possibly among others? */
bool filter_fits_endpoint(const struct filter *filter, pr_slice box, const struct pr_message *m);
/* The filter for this box (boxes come in the order of their names); false: the box is not part of the question. */
bool filter_of_box(const struct filter *filter, pr_slice box, struct filter *ret);
/* Parses "ROW" or "BOX:ROW", the end of a page, into after and after_box; false: it is neither.  The box is borrowed
 * from the text. */
bool filter_set_after(struct filter *filter, pr_slice text);

struct listed {
    struct pr_message m;
    uint64_t row;
    pr_slice box;
    enum state state;
    pr_slice endpoint; /* where the message goes, if known */
    /* Dead letters (state DEAD): */
    int cause, limit;
    pr_slice rule, fingerprint, note;
    int64_t died_us; /* for DONE: when it was done */
    /* The id of the corrected message that replaced it.  It is not replayed any more, and no stream waits for it; zero:
     * none did. */
    pr_id edited_as;
    unsigned lane; /* where instances share lanes; else 0 */
    /* In flight: */
    pr_slice instance; /* its name */
    /* Ended (state DONE or GONE), as recorded in the ledger: died_us is when, m.attempts at which attempt, and instance
     * is the one that ended it, or, with ENDED_BY_PERSON, the person.  Nothing else of the message remains.  0: not
     * from the ledger. */
    int ended;       /* enum ended_as */
    const char *bad; /* why it cannot be decoded; it is listed all the same (B87) */
};

/* A record that a handler has ended a message (core/mark.h). */
struct mark_info {
    pr_slice box, handler;
    int outcome; /* enum ended_as */
    int64_t at_us;
};

/* A message that arrived again in a box with dedupe and was not stored: a row, a dead letter or a mark had its id. */
struct again_info {
    pr_slice box, destination; /* as in the repeated message */
    uint64_t times;
    int64_t at_us; /* the latest time */
};

/* Rows that a listing looks at before it answers: a fifth of a second, which is as long as people should wait. */
#define LOOK_MAX 25000
#define ENDED_LOOK_US PR_SECONDS(2) /* time that a person waits for a search of the ledger */
#define COUNT_EXACT_MAX 10000       /* larger counts are given as COUNT_EXACT_MAX + 1: "10,000+" */

/* As an entry of a listing, where only its mark remains; slices are borrowed. */
struct listed listed_marked(const struct mark_info *mark, pr_id id);
/* As an entry of a listing; slices are borrowed. */
struct listed listed_ended(const struct ended *ended, int64_t at_us, pr_slice by);

struct box_counts {
    pr_slice name;
    pr_slice table; /* in the database; empty: the store is not a database */
    uint64_t ready, in_flight, delayed, retrying, held, parked, paused, dead, done;
    /* Since when the ready row that waits longest has been ready, see message_ready_since(); 0: none. */
    int64_t oldest_us;
    /* Rows ever inserted: splits by the routes and replays count again, and so do rolled-back inserts where numbers are
     * drawn before the commit. */
    uint64_t stored;
    /* Not all rows were looked at: of the states ready to paused, counts below "10,000+" are lower bounds; the others
     * are exact. */
    bool partial;
};
/* Are these counts exact? */
bool box_counts_exact(const struct box_counts *counts);

struct instance_info {
    pr_slice name, box, version;
    pr_id id;
    int64_t epoch, lease_left_us, started_us;
    int lanes;
    uint64_t in_flight;
    pr_slice sources; /* errors of the sources of its process, one line each; empty: none */
};

/* A breaker that is not closed, reported by a live instance. */
struct breaker_info {
    pr_slice endpoint, type; /* type empty: the breaker of the whole endpoint */
    pr_slice box, instance;  /* names of the instance that reported it and of its box */
    pr_id instance_id;
    uint64_t lanes;             /* of the instance: messages in other lanes do not wait for it */
    int64_t since_us, until_us; /* a probe may go from until_us on: the breaker is half-open then */
    int probes;
    int reason;
    pr_slice code, error;
};

/* Failures in a box: of at most COUNT_EXACT_MAX rows, and as many dead letters. */
#define FAILING_BUCKETS 5 /* 1, 2, 3 to 5, 6 to 10, more failures */
struct box_failing {
    pr_slice name;
    uint64_t rows; /* failed, handed out without an outcome, or parked */
    uint64_t by_failures[FAILING_BUCKETS];
    uint64_t near_limit; /* handed out query.near times or more without an outcome */
    int64_t next_us,
        last_us; /* the first and the last planned attempt (possibly past) of rows that are not held; 0: none */
    uint64_t dead[REASON_COUNT]; /* dead letters by reason_index(): of the last failure; without a failure, by cause */
    bool more;                   /* there are more rows than were counted */
};

/* Dead letters with one fingerprint: endpoint, type, reason and normalised text are the same. */
struct dead_group {
    pr_slice fingerprint;
    uint64_t count;            /* at most COUNT_EXACT_MAX + 1 */
    bool partial;              /* count is a lower bound: not all letters were looked at, see GROUP_LOOK_MAX */
    int64_t first_us, last_us; /* when the first and the last of them died */
    /* Of the latest letter: */
    pr_slice box, endpoint, type, error;
    int cause, reason;
    pr_id sample;
};
/* With more than LOOK_MAX dead letters and a filter by text (which no index of groups has), this many letters of each
 * group are looked at. */
#define GROUP_LOOK_MAX 25
/* With a filter by reason, which may be rare in a large group: letters looked at, of each group and in all. */
#define GROUP_LOOK_REASON COUNT_EXACT_MAX
#define GROUPS_LOOK_REASON 150000
/* With a filter by stream, which has an index: the first letters of the stream that are looked at. */
#define GROUP_LOOK_STREAM COUNT_EXACT_MAX
#define GROUPS_LOOKED_MAX 1000 /* fingerprints that one question looks at; `more` is set beyond */

/* A stream whose head failed or is parked, or (strict) is a dead letter that others wait behind.  A failed head blocks
 * the others; a parked or dead one only in a strict stream.  In a strict stream the first of them all is the head;
 * otherwise a parked one is the head only if nothing has failed. */
struct stream_info {
    pr_slice box, stream, endpoint; /* endpoint '': not routed yet */
    pr_id head;
    enum state head_state;
    int64_t head_seq;
    uint64_t head_row;        /* in its box, where the store needs it */
    bool head_yields;         /* parked, while the others go on */
    bool head_held;           /* it came back, and is itself held by its stream */
    bool is_listed_elsewhere; /* the head is listed with the endpoint for which its followers are held */
    int attempts, failures, reason;
    pr_slice code, error;
    int64_t since_us; /* when the head was parked, failed last, or died; otherwise when it was created */
    int64_t due_us;   /* the head's next attempt; 0: now, PR_NEVER: none is planned */
    uint64_t waiting; /* rows held behind it (without itself), at most COUNT_EXACT_MAX + 1 */
};
/* The end of a page of streams: the next page begins with those that rank behind it.  All zero: the first page. */
struct stream_mark {
    uint64_t waiting;
    int64_t since_us;
    uint64_t place; /* stands for box, endpoint and stream */
};
struct stream_mark stream_mark_of(const struct stream_info *stream);
#define DEAD_HEADS_MAX 500       /* streams on a page whose head is looked for among the dead letters */
#define STREAMS_LOOKED_MAX 10000 /* heads, and held streams, that one question looks at in a box */

/* An action of a person. */
struct audit_entry {
    uint64_t number; /* ascending in time, possibly with gaps */
    int64_t at_us;
    pr_slice who, action; /* action: admin_name() */
    pr_slice target;      /* JSON object: the filter, or {"ids":[...]}, see audit.h */
    pr_slice why;
    uint64_t matched, changed, refused;
};

#define EVENTS_BYTES ((size_t)8 << 20) /* an answer ends when its payloads and headers reach this size */

/* An event: a message that was appended to the events of its stream. */
struct stored_event {
    uint64_t place; /* among all events; 0: not requested */
    pr_slice stream;
    uint64_t version; /* in its stream, starting at 1 */
    pr_id id;
    pr_slice type, content_type, headers, payload;
    int64_t created_us;
};
/* The bytes that count towards EVENTS_BYTES. */
static inline size_t event_bytes(const struct stored_event *e)
{
    return e->headers.size + e->payload.size;
}

/* A named reader of all events, see store_subscription(). */
struct subscription_info {
    pr_slice name;
    uint64_t position; /* the place of the last event that was processed; 0: none */
    /* incremented whenever another instance takes the subscription over, and when a person moves it */
    uint64_t fence;
    pr_slice holder;  /* the instance that holds it; empty: none */
    int64_t until_us; /* the end of the holder's lease; 0: no holder */
    uint64_t last;    /* the place of the latest event */
    uint64_t lag;     /* number of events behind `position` */
};

/* The events of one turn, in the history of an execution. */
struct flow_turn_row {
    int64_t first, count; /* number of events before them, and of these */
    pr_slice events;      /* JSON lines */
};
struct flow_key_value {
    pr_slice key, value;
};
/* Selects flows for a question. */
struct flow_filter {
    pr_slice id;      /* FLOW, FLOW_EXECUTIONS */
    pr_id execution;  /* FLOW: read the history of this execution; zero: of the current one */
    pr_slice name;    /* FLOWS: empty: any ... */
    pr_slice version; /* ... and the same */
    pr_slice parent;  /* ... children of this flow */
    int state;        /* ... enum flow_state; 0: any */
    /* ... created before this flow: created_us and id of the last one seen; 0: start with the newest */
    int64_t after_us;
    pr_slice after_id;
};

#define FACTS_LOCKED_US PR_SECONDS(2)
struct store_facts { /* for doctor and status */
    int schema_version, schema_wanted;
    pr_slice software;    /* "SQLite 3.40.1" */
    pr_slice warnings[8]; /* problems that an operator should know, each with advice */
    size_t warning_count;
    pr_slice horizon; /* one of them: a transaction or slot keeps the store from cleaning up; empty: none does */
    /* nothing can be written, since another process has locked the store for longer than FACTS_LOCKED_US; empty: not
     * locked */
    pr_slice locked;
    int64_t disk_free_bytes; /* -1: unknown */
    int64_t bytes;
};

enum query_kind {
    QUERY_MESSAGES,
    QUERY_DEAD,
    /* filter.ids[0]: in all boxes, dead letters and done; with `ended` also in the ledger and among the marks */
    QUERY_ID,
    QUERY_BOXES,
    QUERY_ENDPOINTS,
    QUERY_INSTANCES,
    QUERY_FACTS,
    QUERY_DEAD_GROUPS, /* groups of the dead letters that match the filter (without ids), the largest first */
    QUERY_DEAD_COUNT,  /* number of dead letters that match the filter: total */
    QUERY_STREAMS,     /* filter: box, endpoint, stream; those with the most waiting rows first */
    QUERY_AUDIT,       /* the latest first; filter: since, until, limit, after (entries with lower numbers) */
    QUERY_FAILING,     /* each box; near */
    /* filter: stream: its events by version; without: all events by place; limit, after (a version, or a place),
     * EVENTS_BYTES; stream with ids: only the event ids[0] */
    QUERY_EVENTS,
    QUERY_SUBSCRIPTIONS, /* by name */
    /* flow: its row (flows; empty if it does not exist), the history of an execution (turns), its key-values and its
     * mail; brief: only the row */
    QUERY_FLOW,
    /* flow: name, version, parent, state, after; filter: since, until (created), limit; the newest first; and the
     * number of flows in each state, whatever the filter */
    QUERY_FLOWS,
    /* flow: its executions, the current one first, with the columns that differ; filter: limit */
    QUERY_FLOW_EXECUTIONS,
    QUERY_ROWS, /* number of rows of filter.box in any state: total, at most filter.limit + 1 */
};

struct query {
    enum query_kind kind;
    struct filter filter;
    /* MESSAGES, DEAD: without payloads; EVENTS: only the last version or place: total; BOXES: only names; STREAMS, with
     * blocked: only which streams are held back, and at least how many rows; nothing of the heads */
    bool brief;
    /* ID: also ended messages, the latest first.  If the id contains no time, only ENDED_LOOK_US or filter.look_max
     * rows of the ledger are searched; reply.ended_from_us says how far */
    bool ended;
    struct flow_filter flow;         /* FLOW, FLOWS, FLOW_EXECUTIONS */
    bool replayable;                 /* DEAD_COUNT: only those that can be replayed, without edited ones */
    bool blocked;                    /* STREAMS: only those with waiting rows */
    struct stream_mark after_stream; /* STREAMS: only those that rank behind it */
    int near; /* FAILING: count rows with this number of hand-outs without an outcome; 0: do not count them */
};

struct query_reply { /* everything is allocated in the arena of the call */
    struct listed *listed;
    size_t listed_count;
    bool more;
    uint64_t next;     /* more, of MESSAGES and DEAD: the next page begins after this row ... */
    pr_slice next_box; /* ... of this box */
    bool cut;          /* ... since filter.look_max was reached, not the limit */
    /* cut, of DEAD_GROUPS: the maximum number of letters looked at in each group; with a stream, in all */
    uint64_t looked;
    struct box_counts *boxes;
    size_t box_count;
    struct endpoint_state *endpoints;
    size_t endpoint_count;
    struct breaker_info *breakers;
    size_t breaker_count; /* ENDPOINTS, MESSAGES, ID: ordered by endpoint, type, box */
    struct instance_info *instances;
    size_t instance_count;
    struct dead_group *groups;
    size_t group_count;
    struct stream_info *streams;
    size_t stream_count;
    struct audit_entry *audit;
    size_t audit_count;
    struct box_failing *failing;
    size_t failing_count;
    struct stored_event *events;
    size_t event_count;
    struct subscription_info *subscriptions;
    size_t subscription_count;
    /* Of FLOW_EXECUTIONS, executions before the current one have updated_us, when they ended, and no created_us. */
    struct flow_row *flows;
    size_t flow_count;
    uint64_t flow_states[FLOW_CONTINUED]; /* FLOWS: by enum flow_state, at most COUNT_EXACT_MAX + 1 each */
    struct flow_turn_row *turns;          /* FLOW: in order */
    size_t turn_count;
    struct flow_key_value *values; /* FLOW: by key */
    size_t value_count;
    struct pr_message *mail; /* FLOW: in order of arrival */
    size_t mail_count;
    struct mark_info *marks; /* ID, with ended: by box and time */
    size_t mark_count;
    struct again_info *again; /* ID, with ended: by box and destination */
    size_t again_count;
    uint64_t total;        /* at most COUNT_EXACT_MAX + 1, unless the question sets a higher limit */
    int64_t ended_from_us; /* ID: the ledger was searched from then on only; 0: all of it */
    struct store_facts facts;
    int64_t now_us;
};

/* The action's name in the audit, such as "dead_replay". */
const char *admin_name(enum admin_kind kind);

/* FLOW_DELETE and FLOW_PRUNE: which flows. */
struct flow_order {
    const pr_slice *flows; /* PRUNE: none given: all */
    size_t flow_count;
    bool force;                 /* DELETE: also running flows */
    pr_slice turns, activities; /* DELETE: their boxes; empty: `turns` and `activities` */
    int64_t keep;               /* PRUNE: number of executions before the current one to keep; negative: all */
    int64_t before_us;          /* PRUNE: only executions that ended before this; 0: all */
};

struct admin {
    enum admin_kind kind;
    /* ids, or the other members; empty filters are refused (PR_EINVAL).  When the limit is reached, last_row says where
     * to continue (after) */
    struct filter filter;
    pr_slice by, why;      /* the author and reason, for the audit */
    int64_t until_us;      /* PAUSE; RESCHEDULE: the new due time */
    pr_slice subscription; /* SUBSCRIPTION_RESET, SUBSCRIPTION_REMOVE */
    uint64_t position;     /* SUBSCRIPTION_RESET: continue after this place */
    int cause;             /* DEAD_ADD: enum pr_reason; 0: see there */
    /* DEAD_ADD: the verdict of a rule, of which the audit has no entry; its row has everything but cause, limit and rule.
     * NULL: a person's order */
    const struct verdict *verdict;
    bool dry_run; /* only count; nothing is changed or recorded */
    bool
        from_source; /* DEAD_IMPORT: letters that a source could not decode; no person acted, so the audit has no entry */
    bool again; /* DEAD_REPLAY, DEAD_IMPORT: also messages that were handled (core/mark.h); their marks are removed */
    const struct dead_edit *edit;  /* DEAD_EDIT */
    pr_id made;                    /* DEAD_EDIT: the id of the new message; zero: store_admin() generates one */
    const struct flow_order *flow; /* FLOW_DELETE, FLOW_PRUNE */
    /* DISCARD, DEAD_ADD, DEAD_REPLAY: the box that gets results of activities for their flows; empty: `turns` */
    pr_slice turns;
    const struct listed *letters; /* DEAD_IMPORT, at most IMPORT_MAX */
    size_t letter_count;
    /* DEAD_IMPORT, per letter; may be NULL: PR_OK, PR_DUPLICATE, PR_STALE (handled), PR_UNKNOWN (no such box) */
    int *answers;
    const struct admin_reply
        *outcome; /* the action was done elsewhere, or had nothing to do: only record it, with these counts */
};
#define IMPORT_MAX 1000 /* letters in one transaction */

struct admin_reply {
    uint64_t matched; /* rows that the filter or the ids found */
    uint64_t changed; /* rows changed (with dry_run: that would be) */
    uint64_t refused; /* for example the replay of an id that was sent again */
    /* ... of these, because the message has been handled, or its flow has continued without it: see `again` */
    uint64_t handled;
    int64_t handled_us; /* when the first of them was handled; 0: none */
    uint64_t missing;   /* ids that do not exist */
    uint64_t busy;      /* rows that other transactions had locked: they count as matched and refused */
    uint64_t last_row;  /* the last matched row in the order of the listing; 0: none */
    bool more;          /* the limit was reached, and there may be more rows after last_row */
    /* Of dead letters: the highest row at that time.  Pass it on in the filter of the next step, so that letters that
     * die meanwhile are not met, whatever their clock says. */
    uint64_t newest_row;
    pr_id made; /* DEAD_EDIT: the new message */
};

/* ---- The contract --------------------------------------------------------------------- */

struct store_options {
    const char *url;           /* "sqlite:path?option=..", "postgres://..", "memory:" */
    const struct clock *clock; /* how often wait() looks when nothing wakes it; 0: 2 ms, 200 ms */
    struct log *log;           /* may be NULL */
    size_t payload_max;
    int64_t poll_min_us, poll_max_us; /* how often wait() looks where nothing wakes it; 0: 2 ms, 200 ms */
};

/* A box that must exist.  The store remembers the table of a box, so that it can be found by name alone. */
struct store_box {
    const char *name;
    /* In a database; NULL or "": keep the existing table, or, for a new box, a table named like the box. */
    const char *table;
};

/* Warnings of watchdogs. */
struct warnings {
    const pr_slice *names;
    size_t count;
    pr_slice box;                      /* the box that gets messages about them */
    const struct pr_message *messages; /* one for each, with its id; NULL: no messages */
};

/* The position up to which a source has read, in the source's own format, where Postrider stores it.  Other modules
 * keep such a text that moves with messages, too (runtime/threads/schedule_follow.h). */
struct position_move {
    pr_slice source;
    pr_slice from; /* the expected position; empty: it has none yet */
    pr_slice to;
};

/* What a reader of all events does with its position (people/subscription.c). */
enum subscription_step {
    /* Takes or renews the subscription for lease_us: the holder keeps its fence; another one gets it when it has no
     * holder.  It is created, at position 0, when it does not exist.  PR_STALE: another instance holds it */
    SUBSCRIPTION_CLAIM,
    /* With the fence, to a place that exists: forwards only, from `from` (or SUBSCRIPTION_ANYWHERE: then also to the
     * same place, without messages), and the lease lasts lease_us from now.  PR_STALE: the fence or the position
     * differs */
    SUBSCRIPTION_ADVANCE,
    SUBSCRIPTION_RELEASE, /* With the fence: gives the subscription up.  PR_STALE: the fence differs */
};
#define SUBSCRIPTION_ANYWHERE UINT64_MAX
#define SUBSCRIPTION_NAME_MAX 63

struct subscription_call {
    enum subscription_step step;
    pr_slice name, holder;
    uint64_t fence, from, to;
    int64_t lease_us;
    /* ADVANCE: messages stored in this box in the same transaction; their ids are set. */
    pr_slice box;
    const struct pr_message *messages;
    size_t message_count;
};

enum store_can {
    STORE_CAN_SHARE_LANES = 1, /* several instances serve one box at once */
    STORE_CAN_COMMIT_LATE = 2, /* transactions can commit in another order than their seqs */
    STORE_CAN_LAST = 4,        /* survives close and open */
    STORE_CAN_PROCESSES = 8,   /* several processes can open it at once */
};

/* The result of a wait: should the caller look? */
enum wait_outcome {
    WAIT_TIMEOUT = 0,
    WAIT_LOOK_AGAIN = 1,
    WAIT_WOKEN = 2 /* wake_fd is readable, and nothing is known of a change; only where a look costs a round trip */
};

struct store; /* opaque: each kind has its own struct */

struct store_ops {
    const char *scheme; /* "sqlite" serves sqlite:... */
    unsigned can;

    /* Opens the store, without creating tables.  PR_OK or a fault; *ret only on success. */
    int (*open)(const struct store_options *options, void **ret_self, struct pr_error *reterr);
    void (*close)(void *self);

    /* Creates or upgrades tables, and ensures that the named boxes (in addition to outbox and inbox) exist.  Safe to
     * run twice and concurrently.  PR_ESCHEMA when the schema is from a newer program; PR_EINVAL: a name cannot be
     * used; PR_ECONFIG: an existing box has another table than the one given here. */
    int (*migrate)(void *self, const struct store_box *boxes, size_t box_count, struct pr_error *reterr);
    /* PR_OK when the schema is exactly that of this program; PR_ESCHEMA with advice otherwise. */
    int (*check)(void *self, struct pr_error *reterr);

    /* Stores new messages, all or none, committed on return.  Ids are set by the caller and messages are checked.  If
     * the first message has failed already (see status), it is stored with its status, counters, failure and story, and
     * instances get a notice where other messages may have to wait for it (NOTICE_FAILED; parked: NOTICE_PARKED).
     * answers (may be NULL): PR_OK or PR_DUPLICATE each. */
    int (*enqueue)(void *self, pr_slice box, const struct pr_message *messages, size_t count, int *answers,
                   struct pr_error *reterr);

    /* The heart.  PR_OK; or, with nothing changed: PR_ELEASE, PR_EBUSY, PR_EFULL, PR_ESTORE, ...; PR_EINVAL: the
     * database refuses for good what one of its effects stores (a CHECK, a trigger), for the reason in the text; or
     * PR_EUNCERTAIN: call again with the same cycle to find out.  The reply is borrowed until the next cycle() of this
     * session. */
    int (*session_open)(void *self, pr_slice box, void **ret_session, struct pr_error *reterr);
    void (*session_close)(void *session); /* releases memory and file locks; the lease remains until it ends */
    int (*cycle)(void *session, const struct cycle *cycle, const struct cycle_reply **ret_reply,
                 struct pr_error *reterr);
    /* Waits until something may have changed in the store, wake_fd is readable (it is not read here), or the timeout is
     * over (in real time).  Returns enum wait_outcome.  May return early without a reason.  It need not return for what a
     * session of another box, of the same store, has stored in this box: the owner of that session knows. */
    int (*wait)(void *session, int wake_fd, int64_t timeout_us);
    /* Between cycles, often: takes what has arrived of rows requested in advance, without waiting.  NULL: there are none. */
    void (*tend)(void *session);

    /* For stores without SQL: answers questions and carries out orders. */
    int (*query)(void *self, const struct query *query, struct arena *arena, struct query_reply *ret_reply,
                 struct pr_error *reterr);
    int (*admin)(void *self, const struct admin *admin, struct admin_reply *ret_reply, struct pr_error *reterr);
    int (*subscription)(void *self, const struct subscription_call *call, struct arena *arena,
                        struct subscription_info *ret, struct pr_error *reterr);
    int (*take)(void *self, pr_slice box, const struct pr_message *messages, size_t count,
                const struct position_move *move, int *answers, struct pr_error *reterr);
    int (*position)(void *self, pr_slice source, struct arena *arena, pr_slice *ret, struct pr_error *reterr);
    int64_t (*time)(void *self);

    const struct sql_ops
        *sql; /* people's questions and orders go through it (sql.h); NULL: through query() and admin() */
};

/* The dispatcher (store.c), the only caller of the methods above. */
struct store {
    const struct store_ops *ops;
    void *self;
    uint64_t inbox_duplicates; /* met by store_enqueue(), from any thread */
};
struct store_session {
    const struct store_ops *ops;
    void *self;
};

/* Is the store of this URL's scheme part of this build? */
bool store_is_built_in(const char *url);
/* The value of schema= in the URL of a PostgreSQL store, or the default; borrowed from the URL. */
pr_slice store_url_schema(const char *url);
int store_open(const struct store_options *options, struct store *ret_store, struct pr_error *reterr);
void store_close(struct store *store); /* safe on a zeroed store */
int store_migrate(struct store *store, const struct store_box *boxes, size_t box_count, struct pr_error *reterr);
int store_check(struct store *store, struct pr_error *reterr);
/* The same, and checks that existing boxes have the tables given here. */
int store_check_boxes(struct store *store, const struct store_box *boxes, size_t box_count, struct pr_error *reterr);
/* Checks every message, fills in missing ids into ret_ids (room for count) and stores them. */
int store_enqueue(struct store *store, pr_slice box, const struct pr_message *messages, size_t count,
                  size_t payload_max, pr_id *ret_ids, int *answers, struct pr_error *reterr);
/* The same, but the first message failed before it was stored, and keeps: status, attempts, failures, reason, code and
 * error (clean, as in a verdict), failed_us, story. */
int store_enqueue_failed(struct store *store, pr_slice box, const struct pr_message *messages, size_t count,
                         size_t payload_max, pr_id *ret_ids, int *answers, struct pr_error *reterr);
/* Stores messages that have ids, and moves the position of their source, in one transaction.  count may be 0.  answers:
 * room for count.  PR_STALE: the position differs, and nothing was stored: another program has moved it, or an earlier
 * call did without the caller getting its answer. */
int store_take(struct store *store, pr_slice box, const struct pr_message *messages, size_t count, size_t payload_max,
               const struct position_move *move, int *answers, struct pr_error *reterr);
/* *ret lives in the arena; empty: it has no position. */
int store_position(struct store *store, pr_slice source, struct arena *arena, pr_slice *ret, struct pr_error *reterr);
int store_session_open(struct store *store, pr_slice box, struct store_session *ret, struct pr_error *reterr);
void store_session_close(struct store_session *session);
int store_cycle(struct store_session *session, const struct cycle *cycle, const struct cycle_reply **ret_reply,
                struct pr_error *reterr);
int store_wait(struct store_session *session, int wake_fd, int64_t timeout_us);
void store_tend(struct store_session *session);
int store_query(struct store *store, const struct query *query, struct arena *arena, struct query_reply *ret_reply,
                struct pr_error *reterr);
int store_admin(struct store *store, const struct admin *admin, struct admin_reply *ret_reply, struct pr_error *reterr);
int64_t store_time(struct store *store);
/* A name of a subscription: letters, digits, '_', '-' and '.'. */
bool subscription_name_is_valid(pr_slice name);
/* One step of a subscription, in one transaction; *ret: its state afterwards (also after PR_STALE), with texts in the
 * arena.  PR_OK, PR_STALE, PR_UNKNOWN (no subscription of that name), or a fault. */
PR_MUST_CHECK int store_subscription(struct store *store, const struct subscription_call *call, struct arena *arena,
                                     struct subscription_info *ret, struct pr_error *reterr);
/* Assigns places to events that have none yet, where the store does that on demand.  PR_OK, or PR_STALE: there were
 * none. */
PR_MUST_CHECK int store_place_events(struct store *store, struct pr_error *reterr);
/* Stores a snapshot of the first `version` events of a stream; only the latest one is kept.  PR_STALE: there is a later
 * one.  PR_EUNSUPPORTED where the store is not a database. */
PR_MUST_CHECK int store_snapshot_save(struct store *store, pr_slice stream, int64_t version, pr_slice data,
                                      struct pr_error *reterr);
/* PR_UNKNOWN: there is none. */
PR_MUST_CHECK int store_snapshot_load(struct store *store, pr_slice stream, struct arena *arena, int64_t *ret_version,
                                      pr_slice *ret_data, struct pr_error *reterr);
/* A session of activities. */
struct session_info {
    pr_slice holder,
        instance; /* runs its activities: the holder, which gets a new name with each start of a program, and its instance */
    int64_t since_us;
    pr_slice moved_from; /* the previous instance; empty: none */
};
/* From now on the holder runs the activities of this session.  *ret_from, in the arena: the instance that ran the
 * previous one; data NULL: none, or the same holder.  PR_EUNSUPPORTED where the store is not a database. */
PR_MUST_CHECK int store_session_hold(struct store *store, pr_slice session, pr_slice holder, pr_slice instance,
                                     struct arena *arena, pr_slice *ret_from, struct pr_error *reterr);
/* PR_UNKNOWN: none of its activities has run, or not for a week. */
PR_MUST_CHECK int store_session_look(struct store *store, pr_slice session, struct arena *arena,
                                     struct session_info *ret, struct pr_error *reterr);
#define WARNINGS_MAX 64      /* at once; nobody reads more */
#define WARNING_NAME_MAX 127 /* bytes */
/* Which of the current warnings (each name once) are new?  They are remembered for all instances; a warning that did
 * not hold for calm_us is forgotten.  The messages about new ones are checked, and stored in the same transaction: each
 * warning is raised exactly once, whenever the process dies.  ret_new: room for count.  PR_EUNSUPPORTED where the store
 * is not a database. */
int store_warn(struct store *store, const struct warnings *warnings, int64_t calm_us, size_t payload_max, bool *ret_new,
               struct pr_error *reterr);

/* Stores the errors of the sources of the process whose instances have this name, for struct instance_info.  No-op
 * where the store is not a database. */
PR_MUST_CHECK int store_note_sources(struct store *store, pr_slice instance, pr_slice lines, struct pr_error *reterr);

extern const struct store_ops store_memory;
extern const struct store_ops store_sqlite;
extern const struct store_ops store_postgres; /* where libpq was found */

#endif
