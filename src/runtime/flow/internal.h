/* internal.h - what the files of this directory share. */
#ifndef RUNTIME_FLOW_INTERNAL_H
#define RUNTIME_FLOW_INTERNAL_H

#include <stdatomic.h>

#include "flow/activity.h"
#include "runtime/flow/flows.h"
#include "runtime/flow/hot.h"
#include "transport/handler_context.h"

/* What this instance lacks.  When it lacks more than that, the oldest are forgotten, and their time begins anew. */
#define UNKNOWN_MAX 256
struct unknown_flow {
    uint64_t hash; /* of name and version */
    int64_t since_us;
};

struct flows {
    struct flows_options options;
    const struct config_flows *setting;
    pr_slice turns_box, activities_box;
    struct hot hot;
    atomic_int_fast64_t clock_offset_us; /* the store's clock less the monotonic one */

    pthread_mutex_t lock; /* guards: */
    struct list running;  /* struct running_activity */
    struct flow_counts counts;
    struct unknown_flow unknown[UNKNOWN_MAX];
    size_t unknown_count; /* ever; the latest UNKNOWN_MAX of them are kept */
};

int64_t flows_now_us(const struct flows *f); /* the store's */

/* For handlers: it comes again after this time, uncounted.  error is copied. */
PR_MUST_CHECK int flow_postpone(struct pr_context *context, int64_t after_us, const char *format, ...) PR_PRINTF(3, 4);
/* For how long has this instance met flows of this name and version, and not known them? */
int64_t flows_unknown_us(struct flows *f, pr_slice name, pr_slice version);
/* An effect of the verdict; its slices are copied.  False: no memory. */
PR_MUST_CHECK bool flow_add_effect(struct pr_context *context, const struct effect *effect);

void flows_count_failure(struct flows *f, bool of_flow, enum pr_category category);

#endif
