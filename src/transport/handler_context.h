/* handler_context.h - what a handler reports about its message while it runs. */
#ifndef TRANSPORT_HANDLER_CONTEXT_H
#define TRANSPORT_HANDLER_CONTEXT_H

#include <stdatomic.h>

#include "transport/transport.h"

#define HANDLER_EFFECTS_MAX 10000 /* messages that one handler call may send: they are kept in memory */

/* Why a handler should stop, and whether it has noticed. */
struct handler_stop {
    atomic_bool cancelled;   /* the engine stops */
    atomic_bool seen_cancel; /* the handler saw that; and */
    atomic_bool seen_late;   /* that its deadline has passed */
};

/* Belongs to the thread that runs the handler, except `stop`. */
struct pr_context {
    const struct delivery *delivery;
    const struct endpoint_config *config; /* NULL: of a function that a rule calls */
    const struct clock *clock;
    struct handler_stop *stop;
    int64_t deadline_us;

    int bits;
    int reason; /* PR_REASON_NONE: pr_fail() was not called */
    int64_t retry_after_us;
    char *error; /* owned */
    struct send_effect *effects, **effects_end;
    size_t effect_count;
    bool release_followers;
    bool effect_lost;     /* a message of pr_effect_send() was not accepted */
    int64_t completed_us; /* monotonic time of the first pr_complete_*(); 0: none */

    /* For the runtime's functions that run flows: see struct delivery_result. */
    void (*settled)(void *arg, int answer);
    void *settled_arg;
    uint64_t blamed;
    char *output; /* owned */
    size_t output_size;
    int category;
    bool final;
    char code[RESULT_CODE_SIZE]; /* code that goes with the text of flow_postpone() */
    char *need;                  /* owned */

    /* For a function that a rule calls. */
    bool decided;
    enum pr_step step;
    int64_t delay_us;
};

void context_init(struct pr_context *context, const struct delivery *delivery, const struct endpoint_config *config,
                  const struct clock *clock, int64_t deadline_us, struct handler_stop *stop);
/* What pr_complete_*() completes.  Fault PR_EINVAL: the message is not in a box. */
struct completion;
PR_MUST_CHECK int context_completion(struct pr_context *context, struct completion *ret, struct pr_error *reterr);

/* The result, from the handler's return value and its earlier reports.  Frees what does not become part of the
 * result. */
void context_finish(struct pr_context *context, int returned, struct delivery_result *ret);

#endif
