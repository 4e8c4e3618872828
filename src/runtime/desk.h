/* desk.h - the thread that works one box: its engine, its session with the store, its couriers.
 *
 * The loop: hear results, let the engine plan a cycle, make it, hand out what may go, rest
 * until something happens.  Only this thread touches the engine; what others want to know is
 * published as a struct desk_view under the relay's bell. */
#ifndef RUNTIME_DESK_H
#define RUNTIME_DESK_H

#include "engine/engine.h"
#include "runtime/feed.h"
#include "runtime/incident.h"
#include "runtime/setting.h"
#include "runtime/thread.h"
#include "store/store.h"

struct desk_options { /* everything is borrowed until free */
    const struct config     *config;
    const struct config_box *box;
    const struct setting    *setting;
    struct store            *store;
    struct log              *log;  /* may be NULL */
    struct bell             *bell; /* rung when the view has changed */
    struct company          *company; /* of all boxes: they share one process, and one death */
    struct caller           *caller;  /* for rules */
    struct feed             *feed;    /* may be NULL */
    /* Called once, from the box's thread, when a fault has ended it. */
    void (*on_fault)(void *arg, const struct pr_error *fault);
    void *on_fault_arg;
};

/* What the box told last. */
struct desk_view {
    struct engine_counts  counts;
    struct endpoint_view *endpoints;  /* as many as in the setting */
    struct histogram      cycles;     /* how long the store took */
    int                   lanes;      /* owned */
    struct incident_ring  failures, deaths;
    uint64_t              looked;     /* the last number of desk_look() that was answered ... */
    bool                  idle;       /* ... and then there was nothing to do */
    int64_t               tick_us;    /* when the loop last went round (monotonic) */
    bool                  joined;     /* the store has answered at least once */
    struct pr_error       trouble;    /* code 0: the store is fine */
    bool                  ended, left_behind; /* the thread is gone; it could not finish everything */
};

struct desk;

/* Checks and prepares; nothing runs yet. */
PR_MUST_CHECK int desk_new(const struct desk_options *options, struct desk **ret_desk, struct pr_error *reterr);
PR_MUST_CHECK int desk_start(struct desk *d, struct pr_error *reterr);
/* Waits for the thread and for the couriers: stop it first. */
void desk_free(struct desk *d);

/* Orders; they return at once. */
void desk_look(struct desk *d, uint64_t number);           /* look into the store now, and say so */
void desk_stop(struct desk *d, int64_t deadline_us);       /* finish or hand back; gone by then */

/* What was sent inline to an endpoint, from any thread. */
void desk_tell(struct desk *d, const struct engine_news *news);

/* The bell must be held. */
const struct desk_view *desk_view(const struct desk *d);
const char *desk_name(const struct desk *d);

#endif
