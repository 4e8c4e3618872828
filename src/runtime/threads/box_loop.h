/* box_loop.h - the thread that serves one box: its engine, its session with the store, its transport threads.
 *
 * The loop: take results, let the engine plan a cycle, make it, hand out what may go, rest until something happens.
 * Only this thread touches the engine; other threads read a copy of its state, struct box_loop_view, under the relay's
 * monitor. */
#ifndef RUNTIME_THREADS_BOX_LOOP_H
#define RUNTIME_THREADS_BOX_LOOP_H

#include "engine/engine.h"
#include "runtime/feed.h"
#include "runtime/flow/flows.h"
#include "runtime/incident.h"
#include "runtime/config/setting.h"
#include "runtime/threads/thread.h"
#include "store/store.h"

struct box_loop_options { /* everything is borrowed until free */
    const struct config *config;
    const struct config_box *box;
    const struct setting *setting;
    struct store *store;
    struct log *log;                         /* may be NULL */
    struct monitor *monitor;                 /* notified when the view has changed */
    struct limits *limits;                   /* of all boxes; NULL: there is one box */
    struct caller *caller;                   /* for rules */
    struct flows *flows;                     /* for boxes of turns and of activities */
    void (*stored)(void *arg, pr_slice box); /* a message for another box was committed; may be NULL */
    void *stored_arg;
    struct feed *feed; /* may be NULL */
    struct pull *pull; /* where claimers get messages; may be NULL */
    /* Called once, from the box's thread, when a fault has ended it. */
    void (*on_fault)(void *arg, const struct pr_error *fault);
    void *on_fault_arg;
};

/* The published state of a box loop. */
struct box_loop_view {
    struct engine_counts counts;
    struct endpoint_view *endpoints; /* as many as in the setting */
    struct histogram cycles;         /* durations of cycles */
    int lanes;                       /* owned */
    struct incident_ring failures, deaths;
    uint64_t looked;               /* the last number of box_loop_look() that was answered ... */
    bool idle;                     /* ... and there was nothing to do then */
    const struct setting *setting; /* the current one */
    int64_t tick_us;               /* when the loop last made a round (monotonic) */
    bool joined;                   /* the store has answered at least once */
    /* Its endpoints for claimers can be found: not before it begins, nor while it ends. */
    bool claimable;
    bool standby;            /* it has had no lanes for STANDBY_US: another instance serves the box */
    struct pr_error trouble; /* code 0: the store works */
    bool ended, left_behind; /* the thread has ended; it could not finish everything */
};

struct box_loop;

/* Checks and prepares; nothing runs yet. */
PR_MUST_CHECK int box_loop_new(const struct box_loop_options *options, struct box_loop **ret_box_loop,
                               struct pr_error *reterr);
PR_MUST_CHECK int box_loop_start(struct box_loop *d, struct pr_error *reterr);
/* Waits for the thread and for the transport threads: stop it first. */
void box_loop_free(struct box_loop *d);
/* After a stop: nothing of it runs any more, so free does not wait. */
bool box_loop_is_over(struct box_loop *d);

/* Orders; they return at once. */
void box_loop_look(struct box_loop *d, uint64_t number);     /* looks into the store now, and reports it */
void box_loop_stop(struct box_loop *d, int64_t deadline_us); /* finishes or hands back everything before the deadline */

/* Switches to a setting that follows the current one (setting_follow); both are borrowed until free.  Deliveries at
 * unchanged endpoints are not touched, and those at others may finish.  The view shows when it is done. */
void box_loop_retune(struct box_loop *d, const struct setting *setting);

/* A thread of this process has stored something in the box. */
void box_loop_changed(struct box_loop *d);

/* Reports the result of an inline send, from any thread. */
void box_loop_add_inline_result(struct box_loop *d, const struct engine_inline_result *result);

/* The monitor must be held. */
const struct box_loop_view *box_loop_view(const struct box_loop *d);
const char *box_loop_name(const struct box_loop *d);
enum box_kind box_loop_kind(const struct box_loop *d);

#endif
