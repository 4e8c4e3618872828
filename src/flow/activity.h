/* Activities for those who run them: what the function is given, what its end means for its message, and the message
 * with its result for the flow. */
#ifndef FLOW_ACTIVITY_H
#define FLOW_ACTIVITY_H

#include <postrider_flow.h>

#include "flow/flow_error.h"
#include "flow/turn_message.h"

/* What pr_activity_info() and related functions read; the caller of the activity's function fills it. */
struct pr_activity_context {
    struct pr_activity_info info;
    bool (*is_cancelled)(void *arg); /* NULL: never */
    bool (*should_stop)(void *arg);  /* NULL: never */
    void *arg;
    struct arena *arena;
    struct flow_error error; /* set by pr_activity_fail(); category NONE: it was not called */
};

/* The context of a message that is handed out for the attempt-th time. */
void activity_context_init(struct pr_activity_context *c, const struct activity_message *a, int attempt,
                           struct arena *arena);

/* Why the function failed that returned this: never of category NONE. */
void activity_failure(const struct pr_activity_context *c, int returned, struct flow_error *ret);

/* The activity has failed this many times, now with this error: returns after which time it is tried again, or -1: it
 * is not, and its flow gets the error.  draw is in [0, 1): the share of the jitter. */
int64_t flow_activity_retry(const struct pr_retry *retry, int failures, const struct flow_error *error, double draw);

/* The message for the box of turns, with the output or the error.  Fault PR_ENOMEM. */
PR_MUST_CHECK int flow_activity_result(const struct activity_message *a, pr_slice output,
                                       const struct flow_error *error, struct arena *arena, struct pr_message *ret);

/* Why an activity ends without a result of its own. */
enum activity_end {
    ACTIVITY_POISONED,  /* handed out too often without an outcome */
    ACTIVITY_FAILED,    /* its retries are used up */
    ACTIVITY_EXPIRED,   /* not begun in time */
    ACTIVITY_DISCARDED, /* discarded by a person or a rule */
    ACTIVITY_BURIED,    /* made a dead letter by a person */
};
struct activity_dead {
    enum activity_end end;
    int64_t count, limit; /* POISONED */
    pr_slice error;       /* of the latest failure, in words; may be empty */
    pr_slice by, why;     /* DISCARDED, BURIED: the person and the reason; may be empty */
};
/* The message for its flow.  Fault PR_EINVAL: the message is not an activity, so no flow gets one; PR_ENOMEM. */
PR_MUST_CHECK int flow_on_activity_dead(const struct pr_message *m, const struct activity_dead *dead,
                                        struct arena *arena, struct pr_message *ret, struct pr_error *reterr);

#endif
