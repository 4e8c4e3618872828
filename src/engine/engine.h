/* The engine of one box: a state machine without clock, threads, sockets or SQL.
 *
 * Its owner (the runtime with threads, the simulator with a virtual clock) runs this loop:
 *
 *     if (engine_plan(e, now, &cycle))                 what should the store do?
 *         rc = store_cycle(&cycle, &reply)             the owner's I/O
 *         rc == 0 ? engine_absorb(e, before, now, reply)
 *                 : engine_cycle_failed(e, now, rc)
 *     while (n = engine_take(e, now, endpoint, list))  what should be sent?
 *         ... transport_submit(list)                   the owner's I/O
 *     engine_result(e, now, &result)                   what became of it
 *     wait until engine_next_us(e, now), a result, or a change in the store
 *
 * Times are the owner's monotonic microseconds; the store's time is learnt from its replies.
 *
 * Invariants (checked by engine_check, held by the simulator):
 *   E1  Nothing is sent that is not on a committed receipt of this epoch.
 *   E2  At most one message of a stream is out at once, and in seq order, unless `ordering`
 *       says otherwise.  In a box of turns: at most one run of them, and in a run in seq order.
 *   E3  Every item is in exactly one place: waiting, chosen, with another of its run, out, judged.  With dedupe, of the rows of one message for one
 *       endpoint at most one is chosen, out or judged.
 *   E4  The window never holds more than its count and bytes (with the windows of other engines
 *       that share its limits), and an endpoint no more than its share while others wait.
 *   E5  After a failure the followers go on only when its verdict is committed.
 *   E7  What was asked for by type goes out for an ask that takes its type and has room for it.
 *   E6  A receipt is closed only when each of its messages has a committed verdict or was
 *       carried over to a later receipt. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "base/zone.h"
#include "core/ask.h"
#include "core/box.h"
#include "core/cycle.h"
#include "core/delivery.h"
#include "core/histogram.h"
#include "core/reason.h"
#include "engine/limits.h"
#include "policy/breaker.h"
#include "policy/decide.h"
#include "policy/rate.h"

#define ENDPOINTS_MAX 1024
#define ENDPOINTS_SPARE 32 /* endpoints that engine_retune() may add */

enum ordering { ORDERING_FIFO, ORDERING_STRICT, ORDERING_AVAILABLE, ORDERING_NONE };

struct endpoint_setting {
    pr_slice name;
    enum ordering ordering;
    int max_attempts; /* hand-outs without a verdict; one more is poison */
    struct policy policy;
    struct breaker_setting breaker;
    int64_t timeout_us;       /* from start to deadline */
    unsigned concurrency;     /* out at once at most; 0: no limit of its own */
    bool concurrency_shared;  /* ... over all engines; else each has as many: a transport's own capacity */
    bool ahead;               /* ... and some more wait for their turn there: see choose.c */
    bool asked;               /* its receivers ask for messages: the owner says how many (engine_set_room) */
    struct rate_setting rate; /* what is over it waits, uncounted */
    size_t payload_max;       /* larger ones are MESSAGE_TOO_LARGE unsent; 0: not known */
    pr_slice into_box;        /* its messages go into this box (core/local_delivery.h); empty: a transport has them */
    bool gone;                /* a reload took it away: only its number is left, and what was out when it went */
};

/* A message has a header of this name (case does not matter) whose text fits. */
struct route_header {
    pr_slice name, glob;
};
bool route_headers_match(const struct route_header *headers, size_t count, const struct pr_message *m);

/* For messages without a destination: all routes that match.  Empty globs match all. */
struct route {
    pr_slice box;                       /* empty: every outbox */
    pr_slice type, source, stream;      /* globs */
    const struct route_header *headers; /* all of them must match */
    size_t header_count;
    bool untagged;      /* only messages without the header `tag`: see B113 */
    const unsigned *to; /* indexes of endpoints */
    size_t to_count;
};

/* As zone_find() of base/zone.h, which reads files. */
#define LATE_BYTES ((size_t)4 << 20) /* larger payloads are not in the window: see load.c */

typedef int (*zone_finder)(pr_slice name, const struct zone **ret, struct pr_error *reterr);

struct engine_setting { /* everything is borrowed until engine_free */
    pr_slice box, name;
    enum box_kind kind;
    pr_id instance; /* fresh for each start of an engine */
    int64_t lease_us;
    size_t batch;        /* messages per cycle at most */
    size_t window_count; /* limits.in_flight; not looked at where limits are shared */
    size_t window_bytes;
    int64_t keep_us;
    int64_t dedupe_us; /* > 0: a message is handled once by each endpoint, and remembered for so long (core/mark.h);
                        * DEDUPE_OF_BOX: as the box has it when it is joined */
    struct retention retention;
    size_t payload_max;
    size_t late_bytes;     /* larger payloads are read when they are about to be sent (load.c); 0: LATE_BYTES */
    int64_t poll_us;       /* how often to look for what came unannounced (poll.max) */
    uint64_t seed;         /* jitter */
    zone_finder find_zone; /* for schedules; NULL: only UTC is known */
    bool (*knows_box)(void *arg, pr_slice box); /* has the store this box, which a schedule names?  NULL: all of them */
    void *knows_box_arg;
    rule_call call; /* for rules; NULL: no function is registered */
    void *call_arg;
    /* Boxes of activities: what a message that ends without being done (dead, expired, discarded) leaves behind: the flow that
     * waits for it is told.  Malloc'ed, as in a result; NULL: nothing.  on_dead may be NULL. */
    struct send_effect *(*on_dead)(void *arg, const struct pr_message *message, const struct verdict *why);
    void *on_dead_arg;
    pr_slice offer;          /* boxes of flows: what this instance can do (core/offer.h) */
    struct limits *limits;   /* shared by the engines of a process; NULL: alone in it */
    void (*wake)(void *arg); /* another engine made room: call engine_plan() soon.  From any thread, may be NULL */
    void *wake_arg;
    const struct endpoint_setting *endpoints;
    size_t endpoint_count;
    const struct route *routes;
    size_t route_count;
    const struct route *overrides; /* first match wins, before destination and routes */
    size_t override_count;
};

/* Does a route or handler that names this box (empty: none) take messages of this one? */
bool route_takes_box(pr_slice named, pr_slice box, enum box_kind kind);
/* Where a message goes by these settings: indexes of endpoints; returns how many, writes at most max. */
size_t engine_route(const struct engine_setting *setting, const struct pr_message *m, unsigned *ret, size_t max);

struct engine;

struct engine *engine_new(const struct engine_setting *setting, struct pr_error *reterr);
void engine_free(struct engine *e); /* deliveries that are still out must not be used afterwards */

/* Go on by another setting: endpoints with other options, new ones behind them, some of them gone or back, other routes,
 * batch and retention.  Those that are there keep their numbers, names and orderings; all else stays as it was.  setting is borrowed until engine_free, and so is the one
 * before.  states: of endpoints, for the pauses of new ones; reread: what was read may go elsewhere now.  Not while a cycle
 * is to be asked again.  Fault PR_ENOMEM: nothing has changed. */
PR_MUST_CHECK int engine_retune(struct engine *e, const struct engine_setting *setting,
                                const struct endpoint_state *states, size_t state_count, bool reread);

/* The next cycle, when one should be made now.  It is borrowed until absorb or failed; until
 * then a second call gives the same cycle.  changed: the owner knows of new messages. */
bool engine_plan(struct engine *e, int64_t now_us, bool changed, const struct cycle **ret_cycle);
/* asked_us: taken before the store was called; the lease counts from there. */
void engine_absorb(struct engine *e, int64_t asked_us, int64_t now_us, const struct cycle_reply *reply);
/* PR_ELEASE: everything is dropped and the engine joins anew.  PR_EUNCERTAIN: the same cycle
 * is asked again.  Other faults: nothing happened; it is asked again after a short wait. */
void engine_cycle_failed(struct engine *e, int64_t now_us, int fault);
/* PR_EINVAL: the store refuses what a verdict of this cycle brings along, in these words.  Another cycle is asked at once, without
 * some of them, until the one is found: it fails, and the rest goes on.  false: there is none; the cycle has failed as any other. */
bool engine_cycle_refused(struct engine *e, int64_t now_us, const char *text);

/* Up to max deliveries for an endpoint that may go out now; each must get one result.  In a box of turns a delivery is a run
 * (delivery.run_next), which counts as one and has one result. */
size_t engine_take(struct engine *e, int64_t now_us, unsigned endpoint, const struct delivery **ret, size_t max);
/* The endpoint was paused, a breaker of it opened, the lease was lost, the store may have lost commits or rows were changed by
 * hand since this was asked last: what was taken and has not started is to be RETURNED, also of types that may go: they come again with the next cycle. */
bool engine_wants_back(struct engine *e, int64_t now_us, unsigned endpoint);
/* How many messages of this endpoint may be out from now on, beside its concurrency: its receivers ask for messages, and what nobody
 * asked for is not handed out.  The first ask is for all types; count 0, as at the start: no such limit.  An ask keeps its place
 * as long as it is present; another list of types costs one look through what is passed over here. */
void engine_set_asks(struct engine *e, unsigned endpoint, const struct ask *asks, size_t count);
/* Copies what it keeps, and takes over `settled`; the caller frees the rest of the result. */
void engine_result(struct engine *e, int64_t now_us, const struct delivery_result *result);
/* The message of a delivery that is out; borrowed until its result.  NULL: it is not out. */
const struct pr_message *engine_message(const struct engine *e, uint64_t token);
/* A verdict of the owner's own on what engine_take gave, instead of a result (work coordinator). */
int engine_judge(struct engine *e, int64_t now_us, const struct pr_verdict *verdict, int *ret_answer);

/* What somebody else sent to an endpoint, beside the engine. */
struct engine_inline_result {
    unsigned endpoint;
    pr_slice type;                          /* of the message */
    int64_t at_us;                          /* the store's time */
    uint64_t message;                       /* tells different ones apart; not 0 */
    uint64_t sent, failed, dead, discarded; /* for the stored totals */
    bool asked;                 /* it says something of the endpoint: it was asked, or could not be reached */
    enum fault fault;           /* when it failed: whose, */
    enum breaker_weight weight; /* ... what it is to a breaker, see failure_weight() */
    int reason;                 /* ... and why */
    int64_t retry_after_us;
};
enum breaker_weight failure_weight(const struct policy *policy, const struct failure *f);
void engine_inline_result_absorb(struct engine *e, int64_t now_us, const struct engine_inline_result *result);

/* Deliveries that are out whose rows others have deleted (a cancelled activity): their tokens, each told once; returns how many,
 * writes at most max.  In boxes of activities; learnt when the lease is renewed, of what is out for more than a second. */
size_t engine_gone(struct engine *e, uint64_t *ret_tokens, size_t max);

/* Boxes of flows: what the other instances that live offer (core/offer.h); returns how many, writes at most max; borrowed until the next
 * engine_absorb.  The serial is another one whenever they have changed; mixed: some offer something else than this one. */
size_t engine_peers(const struct engine *e, pr_slice *ret, size_t max);
uint64_t engine_peers_serial(const struct engine *e);
bool engine_is_mixed(const struct engine *e);

/* When to call engine_plan or engine_take again, with nothing else happening. */
int64_t engine_next_us(struct engine *e, int64_t now_us);

/* Start nothing new, hand back what waits; leave the store when nothing is out any more. */
void engine_stop(struct engine *e, int64_t now_us);
/* Give up on what is out: hand it back as abandoned; late results are ignored. */
void engine_give_up(struct engine *e, int64_t now_us);
bool engine_stopped(const struct engine *e); /* it has left the store */

/* Nothing waits in memory, nothing is out, and the last look found nothing to do now. */
bool engine_idle(struct engine *e, int64_t now_us);

/* How long marks are kept (core/mark.h), as set or as the box has it; 0: it has none, or is not joined yet. */
int64_t engine_dedupe_us(const struct engine *e);

struct engine_counts {
    uint64_t sent, failed, dead, poison, discarded, expired, duplicates, parked, returned, stale, split, held;
    uint64_t cycles, leases_lost;
    size_t window_count, window_bytes, out;
    struct histogram commit_to_send; /* from the creation of a message to its first hand-out, when it had no due time */
    size_t streams,
        heads; /* what is known of streams: those that have something here, failed or held; the failed ones */
};
void engine_counts(const struct engine *e, struct engine_counts *ret);

struct endpoint_view {
    enum breaker_state breaker;
    int64_t paused_until_us; /* store time; 0: not paused */
    size_t waiting, out;
    uint64_t sent, failed;
    uint64_t failed_in_row;         /* since the latest delivery */
    uint64_t reasons[REASON_COUNT]; /* of failed, by reason_index() */
    struct histogram durations;     /* of sends, from hand-out to result */
};
void engine_endpoint(const struct engine *e, unsigned endpoint, struct endpoint_view *ret);
/* The breakers that are not closed; returns how many, writes at most max.  The texts are borrowed until
 * the next call to the engine. */
struct breaker_view {
    unsigned endpoint;
    pr_slice type;            /* empty: of the whole endpoint */
    int probes;               /* that failed since it opened */
    int reason;               /* of the failure that opened it, or of its latest probe; 0: not known */
    const char *code, *error; /* of the same failure; NULL: none */
};
size_t engine_breakers(const struct engine *e, struct breaker_view *ret, size_t max);
/* Has the store been told of all changes of breakers (or is it being told)? */
bool engine_breakers_are_stored(const struct engine *e);
uint64_t engine_lanes(const struct engine *e);
/* The instance as it is known to the store now (a new one after each lost lease). */
pr_id engine_instance(const struct engine *e);

/* Walk everything and ASSERT the invariants: for tests and the simulator. */
void engine_check(const struct engine *e);

#endif
