/* flows.h - the flows of one relay: running their turns and activities, and what is known about them.
 *
 * Boxes of turns and of activities are served by box loops like all others; their endpoints are internal handlers
 * (flow_run_turn(), flow_run_activity()), so threads, deadlines and stopping are those of handlers.
 *
 *   turns.c       one turn: the flow is found or read, its code runs, the effects go with the verdict
 *   activities.c  one activity: its function, its retries, its cancellation; the end of dead ones
 *   hot.c         cache of flows that ran recently
 *   sessions.c    sessions of activities that are here
 *   watch.c       waiters for a flow in this process
 *
 * Threads: any. */
#ifndef RUNTIME_FLOW_FLOWS_H
#define RUNTIME_FLOW_FLOWS_H

#include "base/random.h"
#include "base/time.h"
#include "core/cycle.h"
#include "core/delivery.h"
#include "runtime/config/config.h"
#include "runtime/program.h"
#include "store/store.h"

/* Endpoints that no configuration can name. */
#define FLOW_TURNS_ENDPOINT "flow:turns"
#define FLOW_ACTIVITIES_ENDPOINT "flow:activities"

struct flows_options { /* everything is borrowed until free */
    const struct config *config;
    const struct program *program;
    struct store *store;
    struct log *log;           /* may be NULL */
    const struct clock *clock; /* the simulator's; NULL: the system's */
    struct random *random;     /* the same; NULL: the operating system's, from any thread */
};

struct flows;
PR_MUST_CHECK int flows_open(const struct flows_options *options, struct flows **ret, struct pr_error *reterr);
void flows_close(struct flows *f); /* when nothing runs any more; NULL is allowed */

/* Handlers; user is the struct flows. */
int flow_run_turn(struct pr_context *context, const struct pr_message *message, void *user);
int flow_run_activity(struct pr_context *context, const struct pr_message *message, void *user);
/* An activity has ended, run by a function, an endpoint or a claimer: the result becomes what that means for its
 * message, with the message for its flow. */
void flow_activity_ended(struct flows *f, const struct pr_message *message, struct delivery_result *result);
/* The timeout of the activity in this message; 0: it has none. */
int64_t flow_activity_timeout(const struct pr_message *message);

/* Since when the message has been put back, because no instance that it met has the code for it; 0: it was not. */
int64_t flow_unknown_since_us(const struct pr_message *message);

/* For engine_setting.on_dead of a box of activities; arg is the struct flows. */
struct send_effect *flow_on_dead(void *arg, const struct pr_message *message, const struct verdict *why);

/* Reports from box loops: the store's clock as of the latest cycle; lanes that another instance may serve now;
 * activities whose rows were deleted. */
void flows_clock(struct flows *f, int64_t store_now_us);
void flows_lost_lanes(struct flows *f, uint64_t lanes);    /* of turns */
void flows_lost_sessions(struct flows *f, uint64_t lanes); /* of activities */
void flows_gone(struct flows *f, const uint64_t *tokens, size_t count);
/* ... and the offers of other instances of its box; mixed: some instance offers something else than this one. */
void flows_peers(struct flows *f, enum box_kind kind, const pr_slice *offers, size_t count, bool mixed);

/* For engine_setting.offer: what this program can run in boxes of this kind.  Borrowed until close. */
pr_slice flows_offer(const struct flows *f, enum box_kind kind);

/* Counts since the start. */
struct flow_counts {
    uint64_t turns;
    uint64_t flow_failures[PR_CATEGORY_POISON + 1]; /* by enum pr_category */
    uint64_t activity_failures[PR_CATEGORY_POISON + 1];
    uint64_t poison_flows, poison_activities;
};
void flows_counts(const struct flows *f, struct flow_counts *ret);

#endif
