/* The store: where messages live, and the one call between it and the engine.
 *
 * A store keeps boxes of rows.  A row is one delivery: one message to one destination.  A row
 * that is there has work to do; a row that is gone is done.  Rows are worked by instances,
 * which lease lanes.  Everything an instance changes goes through cycle(), in one
 * transaction, fenced by its lease and epoch.
 *
 * Invariants, each held by the conformance suite (test/store) over every store:
 *   T1  A cycle lands whole or not at all.
 *   T2  (instance, number) names a cycle: the same number again changes nothing.
 *   T3  An instance whose lease was taken changes nothing: cycle() says PR_ELEASE.
 *   T4  A lane has at most one owner, and changes hands only when its owner gave it or died.
 *   T5  A receipt is on disk before cycle() returns: so is every row it names.
 *   T6  Burying an instance counts the hand-outs on its open receipts: attempts = number, where
 *       it is number - 1 (else it was judged, or an operator began to count again from 0), once; and frees
 *       its lanes.  The story of such a row says when it was handed out and to which instance
 *       (STORY_LOST).
 *   T7  While an instance owns a lane, every row that is visible in it, fresh and not held, is
 *       read exactly once by the fresh scan after it was started or restarted, or left out since
 *       cycle.skips has it, and then it is within reply.skipped.  (A store may read
 *       such rows again, minutes later or when its connection was lost, to see whether any was
 *       overlooked.)
 *   T8  No row is lost by a read: reading changes nothing.
 *   T9  A breaker is shown to people as it was reported last by an instance that is alive and has lanes; it
 *       is gone when it closes, and with its instance.
 *
 * Time: now_us is the store's own clock and the only one that decides about due times and
 * leases (leases by a clock that does not jump).
 *
 * Threads: cycle() and wait() of one struct store_session come from one thread at a time;
 * everything else may be called from any thread. */
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

/* Where messages without a destination go: the store does not know the routes. */
struct routing {
    /* The n-th endpoint of the message in this box; empty: there are no more. */
    pr_slice (*route)(const struct routing *routing, pr_slice box, const struct pr_message *m, size_t n);
    /* Do streams wait behind what is parked? */
    bool (*is_strict)(const struct routing *routing, pr_slice endpoint);
};

struct filter {
    pr_slice correlation_id;                                  /* empty: any; not for DEAD_GROUPS */
    pr_slice box, endpoint, type, stream, error, fingerprint; /* empty: any; type is a glob;
                                                               * error: contained in the text, or in the note of a dead letter */
    int reason;                                               /* 0: any */
    int state;                                                /* enum state, or -1: any */
    bool not_fresh; /* MESSAGES: of boxes only rows that have a due time, or are held: few where many wait */
    int64_t since_us, until_us; /* created (dead letters: died) in [since, until); 0: open */
    const pr_id *ids;           /* empty: any */
    size_t id_count;
    uint64_t row;        /* dead letters: this one, whatever its id is (it may be damaged); 0: any */
    uint64_t newest_row; /* dead letters: none that came after this row; 0: any */
    size_t limit;        /* 0: 100 */
    size_t look_max;     /* MESSAGES, DEAD: look at no more rows of a table than about this; what no index finds may be
                               * behind them, and reply.cut says so.  0: look at all */
    uint64_t after;      /* keyset: `row` of the last one seen, 0: from the start.  Rows of boxes are
                               * counted in each (so box or after_box must be set), dead letters are in one order */
    pr_slice after_box;  /* MESSAGES: the box of that row; what is in boxes before it was seen, too */
    const struct routing *
        routing; /* for endpoint, state (paused), fingerprint, heads of streams and DEAD_ADD; NULL: nobody knows any routes */
};

/* ---- Filters (filter.c) ---- */
/* Does it mean everything? */
bool filter_is_empty(const struct filter *filter);
/* Does it mean a time, and nothing else? */
bool filter_is_time(const struct filter *filter);
/* The one endpoint that a message in a box goes to; empty: none is known, or there are several.  A NULL filter has no routing. */
pr_slice filter_endpoint_of(const struct filter *filter, pr_slice box, const struct pr_message *m);
/* Is a message in a box on its way to the filter's endpoint, maybe among others? */
bool filter_fits_endpoint(const struct filter *filter, pr_slice box, const struct pr_message *m);
/* What is asked of this box (they come in the order of their names); false: nothing. */
bool filter_of_box(const struct filter *filter, pr_slice box, struct filter *ret);
/* "ROW" or "BOX:ROW", as a page ended: after and after_box; false: it is neither.  The box stays in the text. */
bool filter_set_after(struct filter *filter, pr_slice text);

struct listed {
    struct pr_message m;
    uint64_t row;
    pr_slice box;
    enum state state;
    pr_slice endpoint; /* where it is going, where known */
    /* Dead letters (state DEAD): */
    int cause, limit;
    pr_slice rule, fingerprint, note;
    int64_t died_us; /* for DONE: when it was done */
    pr_id edited_as; /* a corrected message took its place: its id.  It is not replayed any more, and no
                               * stream waits for it; zero: none did */
    unsigned lane;   /* where lanes are shared; else 0 */
    /* In flight: */
    pr_slice instance; /* its name */
    /* Ended (state DONE or GONE), as the ledger has it: died_us is when, m.attempts at which attempt, and instance is the one that
     * ended it, or, with ENDED_BY_PERSON, the person.  All else of the message is gone.  0: it is not from the ledger. */
    int ended;       /* enum ended_as */
    const char *bad; /* cannot be decoded; listed all the same (B87) */
};

/* A handler has ended a message (core/mark.h). */
struct mark_info {
    pr_slice box, handler;
    int outcome; /* enum ended_as */
    int64_t at_us;
};

/* A message of a box with dedupe arrived again and was not stored: a row, a dead letter or a mark had its id. */
struct again_info {
    pr_slice box, destination; /* as it arrived */
    uint64_t times;
    int64_t at_us; /* the last time */
};

#define LOOK_MAX                                                                                                       \
    25000 /* rows that a listing looks at before it answers: people wait for a fifth of a second, not more */
#define ENDED_LOOK_US PR_SECONDS(2) /* that a person waits for the ledger */
#define COUNT_EXACT_MAX 10000       /* a larger count is COUNT_EXACT_MAX + 1: "10,000+" */

/* As a listing tells it, where nothing but its mark is left of it; slices are borrowed. */
struct listed listed_marked(const struct mark_info *mark, pr_id id);
/* As a listing tells it; slices are borrowed. */
struct listed listed_ended(const struct ended *ended, int64_t at_us, pr_slice by);

struct box_counts {
    pr_slice name;
    pr_slice table; /* in the database; empty: the store is none */
    uint64_t ready, in_flight, delayed, retrying, held, parked, paused, dead, done;
    int64_t oldest_us; /* since when the ready row waits that waits for longest, see message_ready_since(); 0: none */
    uint64_t stored;   /* rows that were ever put in: what is split by the routes or replayed counts again, and where
                               * numbers are drawn before a commit, what was rolled back */
    bool partial;      /* not all rows were looked at: of ready to paused, what is not "10,000+" is a lower bound;
                               * the others are exact */
};
/* Are these counts exact? */
bool box_counts_exact(const struct box_counts *counts);

struct instance_info {
    pr_slice name, box, version;
    pr_id id;
    int64_t epoch, lease_left_us, started_us;
    int lanes;
    uint64_t in_flight;
    pr_slice sources; /* what is wrong with those of its process, a line each; empty: nothing */
};

/* A breaker that is not closed, in an instance that works. */
struct breaker_info {
    pr_slice endpoint, type; /* type empty: of the whole endpoint */
    pr_slice box, instance;  /* whose it is: their names */
    pr_id instance_id;
    uint64_t lanes;             /* of the instance: messages in others do not wait for it */
    int64_t since_us, until_us; /* from then on a probe may go: it is half-open */
    int probes;
    int reason;
    pr_slice code, error;
};

/* What fails in a box: of COUNT_EXACT_MAX rows, and as many dead letters, at most. */
#define FAILING_BUCKETS 5 /* 1, 2, 3 to 5, 6 to 10, more failures */
struct box_failing {
    pr_slice name;
    uint64_t rows; /* failed, handed out without an outcome, or parked */
    uint64_t by_failures[FAILING_BUCKETS];
    uint64_t near_limit; /* handed out query.near times or more without an outcome */
    int64_t next_us,
        last_us; /* the first and the last attempt that is planned (it may be over) of what is not held; 0: none */
    uint64_t dead[REASON_COUNT]; /* dead letters by reason_index(): of the last failure; where none was, why it died */
    bool more;                   /* there are more rows than were looked at */
};

/* Dead letters with one fingerprint: endpoint, type, reason and normalised text are the same. */
struct dead_group {
    pr_slice fingerprint;
    uint64_t count;            /* at most COUNT_EXACT_MAX + 1 */
    bool partial;              /* count is a lower bound: not all letters were looked at, see GROUP_LOOK_MAX */
    int64_t first_us, last_us; /* died */
    /* Of the latest: */
    pr_slice box, endpoint, type, error;
    int cause, reason;
    pr_id sample;
};
/* Where there are more than LOOK_MAX dead letters, and a text is asked for (which no index of groups has), this many of each
 * group are looked at. */
#define GROUP_LOOK_MAX 25
/* Where one reason is asked for, of which there may be few in a large group: letters that are looked at of each group, and of all. */
#define GROUP_LOOK_REASON COUNT_EXACT_MAX
#define GROUPS_LOOK_REASON 150000
#define GROUP_LOOK_STREAM COUNT_EXACT_MAX /* dead letters of one stream, the first of them: it has an index */
#define GROUPS_LOOKED_MAX 1000            /* fingerprints that one question looks at; beyond it `more` says so */

/* A stream whose head failed or is parked, or (strict) is a dead letter that others wait behind.  What failed holds up the
 * others, what is parked or dead does so in a strict stream alone, where the first of them all is the head: else a parked
 * one is it only where nothing has failed. */
struct stream_info {
    pr_slice box, stream, endpoint; /* endpoint '': the routes have not decided */
    pr_id head;
    enum state head_state;
    int64_t head_seq;
    uint64_t head_row;        /* in its box, where the store has use for it */
    bool head_yields;         /* parked, and the others go on without it */
    bool head_held;           /* it came back, and is held in its stream itself */
    bool is_listed_elsewhere; /* with the endpoint of those that are held behind it */
    int attempts, failures, reason;
    pr_slice code, error;
    int64_t since_us; /* the head was parked; its latest failure; died; or, where nothing failed, created */
    int64_t due_us;   /* the head's next attempt; 0: now, PR_NEVER: nothing by itself */
    uint64_t waiting; /* rows held behind it (not itself), at most COUNT_EXACT_MAX + 1 */
};
/* Where a page of streams ended: those that rank behind it come next.  All zero: from the start. */
struct stream_mark {
    uint64_t waiting;
    int64_t since_us;
    uint64_t place; /* stands for box, endpoint and stream */
};
struct stream_mark stream_mark_of(const struct stream_info *stream);
#define DEAD_HEADS_MAX 500       /* of them: those whose head is looked for among the dead letters */
#define STREAMS_LOOKED_MAX 10000 /* heads, and held streams, that one question looks at in a box */

/* What a person did. */
struct audit_entry {
    uint64_t number; /* ascending in time; gaps mean nothing */
    int64_t at_us;
    pr_slice who, action; /* action: admin_name() */
    pr_slice target;      /* JSON object: the filter, or {"ids":[...]}, see audit.h */
    pr_slice why;
    uint64_t matched, changed, refused;
};

#define EVENTS_BYTES ((size_t)8 << 20) /* payloads and headers of one answer; it stops when they are reached */

/* A message that was appended to the events of its stream. */
struct stored_event {
    uint64_t place; /* among all events; 0: not asked for */
    pr_slice stream;
    uint64_t version; /* in its stream, from 1 on */
    pr_id id;
    pr_slice type, content_type, headers, payload;
    int64_t created_us;
};
/* What EVENTS_BYTES counts. */
static inline size_t event_bytes(const struct stored_event *e)
{
    return e->headers.size + e->payload.size;
}

/* A named reader of all events, see store_subscription(). */
struct subscription_info {
    pr_slice name;
    uint64_t position; /* the place of the last event that it has worked off; 0: none */
    uint64_t fence;    /* raised whenever another instance gets it, and when a person moves it */
    pr_slice holder;   /* the instance that has it; empty: none */
    int64_t until_us;  /* its lease; 0: none has it */
    uint64_t last;     /* the place of the last event of all */
    uint64_t lag;      /* events behind its position */
};

/* The events of one turn, in the history of an execution. */
struct flow_turn_row {
    int64_t first, count; /* how many events are before them, and how many these are */
    pr_slice events;      /* JSON lines */
};
struct flow_key_value {
    pr_slice key, value;
};
/* Which flows a question is about. */
struct flow_filter {
    pr_slice id;      /* FLOW, FLOW_EXECUTIONS */
    pr_id execution;  /* FLOW: the history of this one; zero: of the current one */
    pr_slice name;    /* FLOWS: empty: any ... */
    pr_slice version; /* ... and the same */
    pr_slice parent;  /* ... children of this flow */
    int state;        /* ... enum flow_state; 0: any */
    int64_t after_us; /* ... created before this one: created_us and id of the last one seen; 0: from the newest on */
    pr_slice after_id;
};

#define FACTS_LOCKED_US PR_SECONDS(2)
struct store_facts { /* for doctor and status */
    int schema_version, schema_wanted;
    pr_slice software;    /* "SQLite 3.40.1" */
    pr_slice warnings[8]; /* what an operator should know, each with advice */
    size_t warning_count;
    pr_slice horizon; /* one of them: somebody keeps the store from cleaning up behind itself; empty: nobody */
    pr_slice locked;  /* nobody can write since somebody else does, for longer than FACTS_LOCKED_US; empty: not so */
    int64_t disk_free_bytes; /* where the store knows its disk; -1: it does not */
    int64_t bytes;
};

enum query_kind {
    QUERY_MESSAGES,
    QUERY_DEAD,
    QUERY_ID, /* filter.ids[0]: in all boxes, dead letters and done; and in the ledger and among the marks, if ended */
    QUERY_BOXES,
    QUERY_ENDPOINTS,
    QUERY_INSTANCES,
    QUERY_FACTS,
    QUERY_DEAD_GROUPS, /* of the dead letters that the filter finds (not by ids); the largest first */
    QUERY_DEAD_COUNT,  /* how many dead letters the filter finds: total */
    QUERY_STREAMS,     /* filter: box, endpoint, stream; those that most wait behind first */
    QUERY_AUDIT,       /* the latest first; filter: since, until, limit, after (a number: what is before it) */
    QUERY_FAILING,     /* each box; near */
    QUERY_EVENTS, /* filter: stream: in the order of its versions; without: all, in the order of their places; limit, after
                        * (a version, or a place), EVENTS_BYTES; stream with ids: the one event of ids[0] */
    QUERY_SUBSCRIPTIONS, /* by name */
    QUERY_FLOW, /* flow: its row (flows, none when there is no such flow), the history of an execution (turns), its key-values and
                        * its mail; brief: the row alone */
    QUERY_FLOWS, /* flow: name, version, parent, state, after; filter: since, until (created), limit: the newest first; and
                        * how many flows are in each state, whatever is asked for */
    QUERY_FLOW_EXECUTIONS, /* flow: its executions, the current one first, with what differs between them; filter: limit */
    QUERY_ROWS,            /* how many rows filter.box has, of whatever state: total, at most filter.limit + 1 */
};

struct query {
    enum query_kind kind;
    struct filter filter;
    bool
        brief; /* MESSAGES, DEAD: without payloads; EVENTS: only the last version or place: total; BOXES: their names alone; STREAMS, with blocked: of whom others are held
                               * back, and how many at least; nothing of the heads */
    bool
        ended; /* ID: what has ended, too, the latest first.  Where its id tells no time, for ENDED_LOOK_US or filter.look_max
                               * rows of the ledger; reply.ended_from_us tells how far that was */
    struct flow_filter flow;         /* FLOW, FLOWS, FLOW_EXECUTIONS */
    bool replayable;                 /* DEAD_COUNT: only what a replay would take: what was edited stays */
    bool blocked;                    /* STREAMS: only those that somebody waits behind */
    struct stream_mark after_stream; /* STREAMS: only those behind it */
    int near; /* FAILING: this number of hand-outs without an outcome is near a limit; 0: do not count them */
};

struct query_reply { /* everything lives in the arena that the caller passed */
    struct listed *listed;
    size_t listed_count;
    bool more;
    uint64_t next;     /* more, of MESSAGES and DEAD: go on after this row ... */
    pr_slice next_box; /* ... of this box */
    bool cut;          /* ... since filter.look_max was used up, not the limit */
    uint64_t looked;   /* cut, of DEAD_GROUPS: letters of each group that were looked at, at most; of a stream in all */
    struct box_counts *boxes;
    size_t box_count;
    struct endpoint_state *endpoints;
    size_t endpoint_count;
    struct breaker_info *breakers;
    size_t breaker_count; /* ENDPOINTS, MESSAGES, ID: by endpoint, type, box */
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
    struct flow_row *
        flows; /* of FLOW_EXECUTIONS those before the current one have updated_us, when they ended, and no created_us */
    size_t flow_count;
    uint64_t flow_states[FLOW_CONTINUED]; /* FLOWS: by enum flow_state, at most COUNT_EXACT_MAX + 1 each */
    struct flow_turn_row *turns;          /* FLOW: in their order */
    size_t turn_count;
    struct flow_key_value *values; /* FLOW: by key */
    size_t value_count;
    struct pr_message *mail; /* FLOW: in the order of its arrival */
    size_t mail_count;
    struct mark_info *marks; /* ID, with ended: by box and time */
    size_t mark_count;
    struct again_info *again; /* ID, with ended: by box and destination */
    size_t again_count;
    uint64_t total;        /* at most COUNT_EXACT_MAX + 1, where nobody asked for more */
    int64_t ended_from_us; /* ID: the ledger was looked at from then on only; 0: all of it */
    struct store_facts facts;
    int64_t now_us;
};

/* "dead_replay": as it stands in the audit. */
const char *admin_name(enum admin_kind kind);

/* FLOW_DELETE and FLOW_PRUNE: what is meant by them. */
struct flow_order {
    const pr_slice *flows; /* PRUNE: none: all */
    size_t flow_count;
    bool force;                 /* DELETE: also those that run */
    pr_slice turns, activities; /* DELETE: boxes; empty: `turns` and `activities` */
    int64_t keep;               /* PRUNE: how many executions before the current one stay; negative: all */
    int64_t before_us;          /* PRUNE: those that ended before it go; 0: whenever they ended */
};

struct admin {
    enum admin_kind kind;
    struct filter filter;  /* ids, or the rest; empty filters are refused (PR_EINVAL).  With a limit it stops
                               * there, and last_row tells where to go on (after) */
    pr_slice by, why;      /* who says so; kept in the audit */
    int64_t until_us;      /* PAUSE; RESCHEDULE: the new due time */
    pr_slice subscription; /* SUBSCRIPTION_RESET, SUBSCRIPTION_REMOVE */
    uint64_t position;     /* SUBSCRIPTION_RESET: goes on behind this place */
    int cause;             /* DEAD_ADD: enum pr_reason; 0: see there */
    const struct verdict
        *verdict; /* DEAD_ADD: by this one, not by hand; NULL: by hand.  Its row has all but cause, limit
                               * and rule */
    bool dry_run; /* count only; nothing is recorded */
    bool is_nobodys; /* DEAD_IMPORT: what a source cannot decode; the audit is of what people do */
    bool again;   /* DEAD_REPLAY, DEAD_IMPORT: also what has been handled (core/mark.h); its mark goes */
    const struct dead_edit *edit;  /* DEAD_EDIT */
    pr_id made;                    /* DEAD_EDIT: the id of the new message; zero: store_admin() makes one */
    const struct flow_order *flow; /* FLOW_DELETE, FLOW_PRUNE */
    pr_slice
        turns; /* DISCARD, DEAD_ADD, DEAD_REPLAY: the box in which flows hear of their activities; empty: `turns` */
    const struct listed *letters; /* DEAD_IMPORT, at most IMPORT_MAX */
    size_t letter_count;
    int *
        answers; /* DEAD_IMPORT, per letter; may be NULL: PR_OK, PR_DUPLICATE, PR_STALE (handled), PR_UNKNOWN (its box) */
    const struct admin_reply
        *outcome; /* it was done elsewhere, or found nothing to do: only write it down, with these counts */
};
#define IMPORT_MAX 1000 /* letters in one transaction */

struct admin_reply {
    uint64_t matched; /* rows that the filter or the ids found */
    uint64_t changed; /* what happened (or, dry_run, would have) */
    uint64_t refused; /* for example the replay of an id that was sent again */
    uint64_t
        handled; /* ... of these, since the message has been handled, or its flow has gone on without it: see again */
    int64_t handled_us;  /* when the first of them was handled; 0: none */
    uint64_t missing;    /* ids that are nowhere */
    uint64_t busy;       /* rows that somebody holds in an open transaction: they are matched and refused */
    uint64_t last_row;   /* of what was matched, the last in its order; 0: nothing was */
    bool more;           /* the limit was reached, and there may be more behind last_row */
    uint64_t newest_row; /* of dead letters: none that was there before had a higher row.  Who goes on in
                          * steps passes it on in the filter: what dies meanwhile is not met, whatever its clock says */
    pr_id made;          /* DEAD_EDIT: the new message */
};

/* ---- The contract --------------------------------------------------------------------- */

struct store_options {
    const char *url;           /* "sqlite:path?option=..", "postgres://..", "memory:" */
    const struct clock *clock; /* NULL: the system's */
    struct log *log;           /* may be NULL */
    size_t payload_max;
    int64_t poll_min_us, poll_max_us; /* how often wait() looks where nothing wakes it; 0: 2 ms, 200 ms */
};

/* A box that has to be there.  Which table a box has is in the store itself: who only knows its name finds it. */
struct store_box {
    const char *name;
    const char *table; /* of a database; NULL or "": the one that it has, and a new box one of its own name */
};

/* What watchdogs found. */
struct warnings {
    const pr_slice *names;
    size_t count;
    pr_slice box;                      /* where messages about them go */
    const struct pr_message *messages; /* one for each, with its id; NULL: none are wanted */
};

/* Where a source has read up to, in its own words, where that is ours to keep.  Others keep a text by it that moves with
 * messages, too (runtime/threads/schedule_follow.h). */
struct position_move {
    pr_slice source;
    pr_slice from; /* where it must stand; empty: it has none yet */
    pr_slice to;
};

/* What a reader of all events does with its position (people/subscription.c). */
enum subscription_step {
    SUBSCRIPTION_CLAIM, /* for the holder, for lease_us: it goes on with its fence, or gets it when nobody has it.  Made, at
                           * position 0, when it is not there.  PR_STALE: another one has it */
    SUBSCRIPTION_ADVANCE, /* to a place that exists, with the fence: forwards only, from `from` (or SUBSCRIPTION_ANYWHERE: then also to
                           * where it stands, without messages), and the lease lasts lease_us from now.  PR_STALE: the fence is another one, or the position is */
    SUBSCRIPTION_RELEASE, /* with the fence: nobody has it.  PR_STALE */
};
#define SUBSCRIPTION_ANYWHERE UINT64_MAX
#define SUBSCRIPTION_NAME_MAX 63

struct subscription_call {
    enum subscription_step step;
    pr_slice name, holder;
    uint64_t fence, from, to;
    int64_t lease_us;
    /* ADVANCE: messages that are stored in a box in the same transaction; their ids are set. */
    pr_slice box;
    const struct pr_message *messages;
    size_t message_count;
};

enum store_can {
    STORE_CAN_SHARE_LANES = 1, /* several instances work one box at once */
    STORE_CAN_COMMIT_LATE = 2, /* transactions can commit in another order than their seqs */
    STORE_CAN_LAST = 4,        /* survives close and open */
    STORE_CAN_PROCESSES = 8,   /* several processes can open it */
};

/* Of a wait: is there something to look at? */
enum wait_outcome { WAIT_TIMEOUT = 0, WAIT_LOOK_AGAIN = 1 };

struct store; /* embeds nothing: each kind has its own struct behind it */

struct store_ops {
    const char *scheme; /* "sqlite" serves sqlite:... */
    unsigned can;

    /* Open (not create tables).  PR_OK or a fault; *ret only on success. */
    int (*open)(const struct store_options *options, void **ret_self, struct pr_error *reterr);
    void (*close)(void *self);

    /* Make or upgrade tables, and make sure that the named boxes (beside outbox and inbox) exist.
     * Safe to run twice and by two at once.  PR_ESCHEMA when the schema is from a newer program; PR_EINVAL: a name
     * cannot be used; PR_ECONFIG: a box that is there has another table than it is given here. */
    int (*migrate)(void *self, const struct store_box *boxes, size_t box_count, struct pr_error *reterr);
    /* PR_OK when the schema is exactly ours; PR_ESCHEMA with what to do otherwise. */
    int (*check)(void *self, struct pr_error *reterr);

    /* Store new messages, all or none, committed on return.  Ids are set by the caller and
     * messages are checked.  One that has failed already (status, the first of them at most) is stored
     * with its status, counters, failure and story, and instances hear of it where others may have to wait for it
     * (NOTICE_FAILED; parked: NOTICE_PARKED).  answers (may be NULL): PR_OK or PR_DUPLICATE each. */
    int (*enqueue)(void *self, pr_slice box, const struct pr_message *messages, size_t count, int *answers,
                   struct pr_error *reterr);

    /* The heart.  PR_OK; or, with nothing changed: PR_ELEASE, PR_EBUSY, PR_EFULL, PR_ESTORE, ...; PR_EINVAL: it will never be
     * taken, since the database refuses what one of its effects stores (a CHECK, a trigger), and the text says how;
     * or PR_EUNCERTAIN: call again with the same cycle to find out.  The reply is borrowed until
     * the next cycle() of this session. */
    int (*session_open)(void *self, pr_slice box, void **ret_session, struct pr_error *reterr);
    void (*session_close)(void *session); /* releases memory and file locks; leaves no lease behind by itself */
    int (*cycle)(void *session, const struct cycle *cycle, const struct cycle_reply **ret_reply,
                 struct pr_error *reterr);
    /* Until something may have changed in the store, wake_fd is readable (it is not read here), or the
     * timeout is over (by real time).  Returns enum wait_outcome.  May wake for nothing. */
    int (*wait)(void *session, int wake_fd, int64_t timeout_us);

    /* Where the store is no database (sql): the questions that it answers, and the orders that it carries out. */
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

/* The dispatcher (store.c): the only caller of the methods above. */
struct store {
    const struct store_ops *ops;
    void *self;
    uint64_t inbox_duplicates; /* that store_enqueue() met; from any thread */
};
struct store_session {
    const struct store_ops *ops;
    void *self;
};

/* Does a store of this build serve the URL? */
bool store_is_built_in(const char *url);
/* The value of schema= in the URL of a PostgreSQL store, or the default; borrowed from the URL. */
pr_slice store_url_schema(const char *url);
int store_open(const struct store_options *options, struct store *ret_store, struct pr_error *reterr);
void store_close(struct store *store); /* safe on a zeroed store */
int store_migrate(struct store *store, const struct store_box *boxes, size_t box_count, struct pr_error *reterr);
int store_check(struct store *store, struct pr_error *reterr);
/* The same, and that boxes which are there have the tables that they are given here. */
int store_check_boxes(struct store *store, const struct store_box *boxes, size_t box_count, struct pr_error *reterr);
/* Checks every message, fills in missing ids into ret_ids (room for count) and stores them. */
int store_enqueue(struct store *store, pr_slice box, const struct pr_message *messages, size_t count,
                  size_t payload_max, pr_id *ret_ids, int *answers, struct pr_error *reterr);
/* The same; the first of them has failed before it was stored, and what it says of that is kept: status, attempts,
 * failures, reason, code and error (clean, as in a verdict), failed_us, story. */
int store_enqueue_failed(struct store *store, pr_slice box, const struct pr_message *messages, size_t count,
                         size_t payload_max, pr_id *ret_ids, int *answers, struct pr_error *reterr);
/* Stores messages that have ids, and moves the position of their source, in one transaction.  No messages at all are fine.
 * answers: room for count.  PR_STALE: the position is another, and nothing was stored: somebody else has moved it, or we
 * have, and did not hear of it. */
int store_take(struct store *store, pr_slice box, const struct pr_message *messages, size_t count, size_t payload_max,
               const struct position_move *move, int *answers, struct pr_error *reterr);
/* *ret lives in the arena; empty: it has none. */
int store_position(struct store *store, pr_slice source, struct arena *arena, pr_slice *ret, struct pr_error *reterr);
int store_session_open(struct store *store, pr_slice box, struct store_session *ret, struct pr_error *reterr);
void store_session_close(struct store_session *session);
int store_cycle(struct store_session *session, const struct cycle *cycle, const struct cycle_reply **ret_reply,
                struct pr_error *reterr);
int store_wait(struct store_session *session, int wake_fd, int64_t timeout_us);
int store_query(struct store *store, const struct query *query, struct arena *arena, struct query_reply *ret_reply,
                struct pr_error *reterr);
int store_admin(struct store *store, const struct admin *admin, struct admin_reply *ret_reply, struct pr_error *reterr);
int64_t store_time(struct store *store);
/* A name of a subscription: letters, digits, '_', '-' and '.'. */
bool subscription_name_is_valid(pr_slice name);
/* One step of a subscription, in one transaction; *ret: how it stands then (also after PR_STALE), with texts in the arena.
 * PR_OK, PR_STALE, PR_UNKNOWN (there is none of that name), or a fault. */
PR_MUST_CHECK int store_subscription(struct store *store, const struct subscription_call *call, struct arena *arena,
                                     struct subscription_info *ret, struct pr_error *reterr);
/* Gives places to the events that have none yet, where the store does that when it is asked for them.  PR_OK, or PR_STALE: there
 * were none. */
PR_MUST_CHECK int store_place_events(struct store *store, struct pr_error *reterr);
/* What somebody made of the first `version` events of a stream; the latest counts.  PR_STALE: there is a later one.
 * PR_EUNSUPPORTED where the store is no database. */
PR_MUST_CHECK int store_snapshot_save(struct store *store, pr_slice stream, int64_t version, pr_slice data,
                                      struct pr_error *reterr);
/* PR_UNKNOWN: there is none. */
PR_MUST_CHECK int store_snapshot_load(struct store *store, pr_slice stream, struct arena *arena, int64_t *ret_version,
                                      pr_slice *ret_data, struct pr_error *reterr);
/* Of a session of activities. */
struct session_info {
    pr_slice holder,
        instance; /* who does its activities: a name of its own for each start of a program, and its instance */
    int64_t since_us;
    pr_slice moved_from; /* the instance before it; empty: there was none */
};
/* The holder does activities of this session from now on.  *ret_from, in the arena: the instance that did the one before; data NULL:
 * there was none, or it was the same holder.  PR_EUNSUPPORTED where the store is no database. */
PR_MUST_CHECK int store_session_hold(struct store *store, pr_slice session, pr_slice holder, pr_slice instance,
                                     struct arena *arena, pr_slice *ret_from, struct pr_error *reterr);
/* PR_UNKNOWN: none of its activities was ever begun, or not for a week. */
PR_MUST_CHECK int store_session_look(struct store *store, pr_slice session, struct arena *arena,
                                     struct session_info *ret, struct pr_error *reterr);
#define WARNINGS_MAX 64      /* at once; more are not read by anybody */
#define WARNING_NAME_MAX 127 /* bytes */
/* Of the warnings that hold now (each name once), which are new?  Remembered for all instances; one that did not hold for
 * calm_us is forgotten.  The messages about new ones are checked, and stored in the same transaction: each warning is raised
 * exactly once, whenever the process dies.  ret_new: room for count.  PR_EUNSUPPORTED where the store is no database. */
int store_warn(struct store *store, const struct warnings *warnings, int64_t calm_us, size_t payload_max, bool *ret_new,
               struct pr_error *reterr);

/* What is wrong with the sources of the process whose instances have this name: for struct instance_info.  Nothing where the
 * store is no database. */
PR_MUST_CHECK int store_note_sources(struct store *store, pr_slice instance, pr_slice lines, struct pr_error *reterr);

extern const struct store_ops store_memory;
extern const struct store_ops store_sqlite;
extern const struct store_ops store_postgres; /* where libpq was found */

#endif
