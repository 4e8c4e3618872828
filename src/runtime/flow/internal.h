/* internal.h - what the files of this directory share. */
#ifndef RUNTIME_FLOW_INTERNAL_H
#define RUNTIME_FLOW_INTERNAL_H

#include <stdatomic.h>

#include "flow/activity.h"
#include "runtime/flow/flows.h"
#include "runtime/flow/hot.h"
#include "transport/handler_context.h"

/* Sessions whose activities run here, as the store knows: it need not be asked again. */
#define SESSIONS_MAX 1024
struct held_session {
    uint64_t hash;
    unsigned lane;
    int64_t at_us; /* when it was stored; 0: never */
};

struct flows {
    struct flows_options options;
    const struct config_flows *setting;
    pr_slice turns_box, activities_box;
    char holder[PR_ID_TEXT_SIZE]; /* identifies this start of the program, for sessions */
    struct hot hot;
    atomic_int_fast64_t clock_offset_us; /* the store's clock minus the monotonic one */
    struct buf turns_offer, activities_offer;
    atomic_bool turns_mixed, activities_mixed; /* other instances offer something else */

    pthread_mutex_t lock; /* guards: */
    struct list running;  /* struct running_activity */
    struct flow_counts counts;
    struct held_session sessions[SESSIONS_MAX]; /* by hash */
    char **peers;                               /* offers of other instances that run turns, owned */
    size_t peer_count;
};

int64_t flows_now_us(const struct flows *f); /* the store's */
uint64_t flows_random(struct flows *f);
pr_id flows_new_id(struct flows *f); /* a UUIDv7 */

/* For handlers: the message comes again after this time, uncounted.  error is copied. */
PR_MUST_CHECK int flow_postpone(struct pr_context *context, int64_t after_us, const char *format, ...) PR_PRINTF(3, 4);
/* This instance lacks what the message (or its run) needs: how long has the message waited for an instance that has it?
 * The first instance that puts it back records that in its row. */
int64_t flow_unknown_us(struct flows *f, struct pr_context *context);
/* Does another live instance have what this turn needs? */
bool flows_others_have(struct flows *f, const char *need);
/* This program runs an activity of the session now.  *ret_from, in the arena: the instance that ran the previous one;
 * data NULL: none, or this one.  Fault: the store's. */
PR_MUST_CHECK int flows_hold_session(struct flows *f, pr_slice session, struct arena *arena, pr_slice *ret_from,
                                     struct pr_error *reterr);
/* Adds an effect to the verdict; its slices are copied.  False: no memory. */
PR_MUST_CHECK bool flow_add_effect(struct pr_context *context, const struct effect *effect);

void flows_count_failure(struct flows *f, bool of_flow, enum pr_category category);

#endif
