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
 *       says otherwise.  In a box of turns: at most one run of the stream, in seq order within the run.
 *   E3  Every item is in exactly one place: waiting, chosen, in a run behind its leader, out, judged.  With dedupe,
 *       of the rows of one message for one endpoint at most one is chosen, out or judged.
 *   E4  The window never exceeds its count and bytes (together with the windows of other engines
 *       that share its limits), nor an endpoint its share while other endpoints wait.
 *   E5  After a failure the followers go on only when the verdict of the failure is committed.
 *   E6  A receipt is closed only when each of its messages has a committed verdict or was
 *       carried over to a later receipt.
 *   E7  At an endpoint whose receivers ask by type, a message goes out only for an ask that accepts its type and has
 *       room for it. */
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
    int max_attempts; /* hand-outs without an outcome; one more makes the message poison */
    struct policy policy;
    struct breaker_setting breaker;
    int64_t timeout_us;       /* from the start of a send to its deadline */
    unsigned concurrency;     /* messages out at once; 0: unlimited */
    bool concurrency_shared;  /* ... counted over all engines; otherwise per engine, as a transport's own capacity */
    bool ahead;               /* ... and a few more are handed out in advance, to wait at the transport: see choose.c */
    bool asked;               /* its receivers ask for messages: the owner reports how many (engine_set_asks) */
    struct rate_setting rate; /* messages above the rate wait; waiting is not counted as an attempt */
    size_t payload_max;       /* larger messages fail as MESSAGE_TOO_LARGE without being sent; 0: not known */
    pr_slice into_box;        /* its messages go into this box (core/local_delivery.h); empty: a transport sends them */
    bool overrides_only;      /* no message can name it as its destination: it would reach it from any box */
    bool gone;                /* removed by a reload: only its number remains, and what was out at that time */
};

/* A condition of a route: the message has a header with this name (in any case) whose value matches. */
struct route_header {
    pr_slice name, glob;
};
bool route_headers_match(const struct route_header *headers, size_t count, const struct pr_message *m);

/* For messages without a destination, which go to all matching routes.  Empty globs match everything. */
struct route {
    pr_slice box;                       /* empty: every outbox */
    pr_slice type, source, stream;      /* globs */
    const struct route_header *headers; /* all of them must match */
    size_t header_count;
    bool untagged;      /* only messages without the header `tag`: see B113 */
    const unsigned *to; /* indexes of endpoints */
    size_t to_count;
};

#define LATE_BYTES ((size_t)4 << 20) /* payloads larger than this are not read with their rows: see load.c */

/* zone_find() of base/zone.h, which the engine cannot call itself, since it reads files. */
typedef int (*zone_finder)(pr_slice name, const struct zone **ret, struct pr_error *reterr);

struct engine_setting { /* everything is borrowed until engine_free */
    pr_slice box, name;
    enum box_kind kind;
    pr_id instance; /* fresh for each start of an engine */
    int64_t lease_us;
    size_t batch;        /* maximum number of messages per cycle */
    size_t window_count; /* limits.in_flight; ignored where limits are shared */
    size_t window_bytes;
    int64_t keep_us;
    /* > 0: each endpoint handles a message once, and that is remembered for this long (core/mark.h); DEDUPE_OF_BOX: the
     * setting that the box has when the engine joins it */
    int64_t dedupe_us;
    struct retention retention;
    size_t payload_max;
    size_t late_bytes;     /* larger payloads are read only before they are sent (load.c); 0: LATE_BYTES */
    int64_t poll_us;       /* how often to look for rows that no notification announced (poll.max) */
    uint64_t seed;         /* seed for jitter */
    zone_finder find_zone; /* for schedules; NULL: only UTC is known */
    /* does the store have this box, which a schedule names?  NULL: every box exists */
    bool (*knows_box)(void *arg, pr_slice box);
    void *knows_box_arg;
    rule_call call; /* for rules that call functions; NULL: no function is registered */
    void *call_arg;
    /* Boxes of activities: the effects of a message that ends without being done (dead, expired or discarded), which
     * inform the waiting flow.  Malloc'ed, as in a result; NULL: none.  on_dead may be NULL. */
    struct send_effect *(*on_dead)(void *arg, const struct pr_message *message, const struct verdict *why);
    void *on_dead_arg;
    pr_slice offer;        /* boxes of flows: what this instance can run (core/offer.h) */
    struct limits *limits; /* shared by the engines of a process; NULL: the engine has its own */
    /* another engine made room: call engine_plan() soon.  Called from any thread; may be NULL */
    void (*wake)(void *arg);
    void *wake_arg;
    const struct endpoint_setting *endpoints;
    size_t endpoint_count;
    const struct route *routes;
    size_t route_count;
    const struct route *overrides; /* the first match decides, before destination and routes */
    size_t override_count;
};

/* Does a route or handler that names the box `named` (empty: none) apply to messages of this box? */
bool route_takes_box(pr_slice named, pr_slice box, enum box_kind kind);
/* The endpoints of a message by these settings, as indexes; returns how many there are, writes at most max. */
size_t engine_route(const struct engine_setting *setting, const struct pr_message *m, unsigned *ret, size_t max);

struct engine;

struct engine *engine_new(const struct engine_setting *setting, struct pr_error *reterr);
void engine_free(struct engine *e); /* deliveries that are still out must not be used afterwards */

/* Switch to another setting: changed options of endpoints, added endpoints, endpoints removed or restored, other
 * routes, another batch size and retention.  Existing endpoints keep their numbers, names and orderings; everything
 * else stays as it was.  Both `setting` and the previous setting are borrowed until engine_free.  states: of endpoints,
 * for the pauses of added ones; reread: rows that were read may have other destinations now.  Not while a cycle is to
 * be asked again.  Fault PR_ENOMEM: nothing has changed. */
PR_MUST_CHECK int engine_retune(struct engine *e, const struct engine_setting *setting,
                                const struct endpoint_state *states, size_t state_count, bool reread);

/* The next cycle, when one should be made now.  It is borrowed until engine_absorb or engine_cycle_failed; until then a
 * second call gives the same cycle.  changed: the owner knows of new messages. */
bool engine_plan(struct engine *e, int64_t now_us, bool changed, const struct cycle **ret_cycle);
/* asked_us: taken before the store was called; the lease counts from that time. */
void engine_absorb(struct engine *e, int64_t asked_us, int64_t now_us, const struct cycle_reply *reply);
/* PR_ELEASE: the engine drops everything and joins again.  PR_EUNCERTAIN: it asks the same cycle again.  After other
 * faults nothing has happened, and it asks again after a short wait. */
void engine_cycle_failed(struct engine *e, int64_t now_us, int fault);
/* PR_EINVAL: the store refuses an effect of this cycle, for the reason in `text`.  The engine asks at once for a cycle
 * without some of the effects, until the refused one is found: its message fails, the others go on.  false: the cycle
 * has no effect that could be blamed, and has failed like any other. */
bool engine_cycle_refused(struct engine *e, int64_t now_us, const char *text);

/* Up to max deliveries for an endpoint that may go out now; each must get one result.  In a box of turns a delivery is
 * a run (delivery.run_next), which counts as one and has one result. */
size_t engine_take(struct engine *e, int64_t now_us, unsigned endpoint, const struct delivery **ret, size_t max);
/* true when the endpoint was paused, one of its breakers opened, the lease was lost, the store may have lost commits,
 * or rows were changed by hand since the last call.  The owner must then RETURN everything that it took and has not
 * started, including messages of types that may still go: they come again with the next cycle. */
bool engine_wants_back(struct engine *e, int64_t now_us, unsigned endpoint);
/* How many messages of this endpoint its receivers ask for; it limits what is handed out, in addition to the
 * concurrency.  The first ask is for all types; count 0, as at the start: no such limit.  An ask must keep its index as
 * long as it is present.  A changed list of types costs one look through the rows that this endpoint left in the
 * store. */
void engine_set_asks(struct engine *e, unsigned endpoint, const struct ask *asks, size_t count);
/* Copies what it keeps, and takes over `settled`; the caller frees the rest of the result. */
void engine_result(struct engine *e, int64_t now_us, const struct delivery_result *result);
/* The message of a delivery that is out, borrowed until its result; NULL: it is not out. */
const struct pr_message *engine_message(const struct engine *e, uint64_t token);
/* A verdict from the owner on a delivery of engine_take, instead of a result (work coordinator). */
int engine_judge(struct engine *e, int64_t now_us, const struct pr_verdict *verdict, int *ret_answer);

/* Sends to an endpoint that did not go through the engine. */
struct engine_inline_result {
    unsigned endpoint;
    pr_slice type;                          /* of the message */
    int64_t at_us;                          /* the store's time */
    uint64_t message;                       /* identifies the message; not 0 */
    uint64_t sent, failed, dead, discarded; /* for the stored totals */
    /* the endpoint was contacted, or could not be reached: breakers and evidence learn from it */
    bool asked;
    enum fault fault;           /* when it failed: whose fault, */
    enum breaker_weight weight; /* ... its weight for a breaker, see failure_weight(), */
    int reason;                 /* ... and the reason */
    int64_t retry_after_us;
};
enum breaker_weight failure_weight(const struct policy *policy, const struct failure *f);
void engine_inline_result_absorb(struct engine *e, int64_t now_us, const struct engine_inline_result *result);

/* Tokens of deliveries that are out although somebody has deleted their rows (cancelled activities), each reported
 * once; returns how many, writes at most max.  In boxes of activities only; found when the lease is renewed, for
 * deliveries that have been out for more than a second. */
size_t engine_gone(struct engine *e, uint64_t *ret_tokens, size_t max);

/* Boxes of flows: what the other live instances offer (core/offer.h); returns how many, writes at most max; borrowed
 * until the next engine_absorb.  The serial changes whenever the offers do; mixed: some instance offers something else
 * than this one. */
size_t engine_peers(const struct engine *e, pr_slice *ret, size_t max);
uint64_t engine_peers_serial(const struct engine *e);
bool engine_is_mixed(const struct engine *e);

/* When to call engine_plan or engine_take again if nothing else happens. */
int64_t engine_next_us(struct engine *e, int64_t now_us);

/* Start nothing new, hand back what waits, and leave the store when nothing is out any more. */
void engine_stop(struct engine *e, int64_t now_us);
/* Hand back everything that is out as abandoned, and ignore its late results. */
void engine_give_up(struct engine *e, int64_t now_us);
bool engine_stopped(const struct engine *e); /* the engine has left the store */

/* Nothing waits in memory, nothing is out, and the last look at the store found nothing to do now. */
bool engine_idle(struct engine *e, int64_t now_us);

/* How long marks are kept (core/mark.h), as set or as stored for the box; 0: the box has no dedupe, or is not joined
 * yet. */
int64_t engine_dedupe_us(const struct engine *e);

struct engine_counts {
    uint64_t sent, failed, dead, poison, discarded, expired, duplicates, parked, returned, stale, split, held;
    uint64_t cycles, leases_lost;
    size_t window_count, window_bytes, out;
    /* from the creation of a message to its first hand-out; without messages that had a due time */
    struct histogram commit_to_send;
    size_t streams, heads; /* streams with something in memory, failed or held; and their failed heads */
};
void engine_counts(const struct engine *e, struct engine_counts *ret);

struct endpoint_view {
    enum breaker_state breaker;
    int64_t paused_until_us; /* store time; 0: not paused */
    size_t waiting, out;
    uint64_t sent, failed;
    uint64_t failed_in_row;         /* failures since the latest delivery */
    uint64_t reasons[REASON_COUNT]; /* failures by reason_index() */
    struct histogram durations;     /* from hand-out to result */
};
void engine_endpoint(const struct engine *e, unsigned endpoint, struct endpoint_view *ret);
/* The breakers that are not closed; returns how many, writes at most max.  The texts are borrowed until the next call
 * to the engine. */
struct breaker_view {
    unsigned endpoint;
    pr_slice type;            /* empty: the breaker of the whole endpoint */
    int probes;               /* probes that failed since it opened */
    int reason;               /* of the failure that opened it, or of its latest probe; 0: not known */
    const char *code, *error; /* of the same failure; NULL: none */
};
size_t engine_breakers(const struct engine *e, struct breaker_view *ret, size_t max);
/* Does the store know all changes of breakers, or are they in the cycle under way? */
bool engine_breakers_are_stored(const struct engine *e);
uint64_t engine_lanes(const struct engine *e);
/* The instance as the store knows it now (a new one after each lost lease). */
pr_id engine_instance(const struct engine *e);

/* Walk everything and ASSERT the invariants, for tests and the simulator. */
void engine_check(const struct engine *e);

#endif
