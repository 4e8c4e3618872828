#include "flow/activity.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "flow/flow_id.h"
#include "policy/retry.h"

/* ---- What the function sees ----------------------------------------------------------------------------- */

void activity_context_init(struct pr_activity_context *c, const struct activity_message *a, int attempt,
                           struct arena *arena)
{
    *c = (struct pr_activity_context){ .info = { .flow = a->flow,
                                                 .execution = a->execution,
                                                 .number = a->task,
                                                 .name = a->name,
                                                 .tag = a->tag,
                                                 .session = a->session,
                                                 .attempt = attempt },
                                       .arena = arena };
}

PR_API const struct pr_activity_info *pr_activity_info(const struct pr_activity_context *c)
{
    return &c->info;
}

PR_API bool pr_activity_is_cancelled(const struct pr_activity_context *c)
{
    return c->is_cancelled != NULL && c->is_cancelled(c->arg);
}

PR_API bool pr_activity_should_stop(const struct pr_activity_context *c)
{
    return c->should_stop != NULL && c->should_stop(c->arg);
}

PR_API void *pr_activity_alloc(struct pr_activity_context *c, size_t size)
{
    return arena_zalloc(c->arena, size);
}

PR_API int pr_activity_fail(struct pr_activity_context *c, enum pr_category category, bool retryable,
                            const char *format, ...)
{
    char text[PR_ERROR_MAX + 1];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    pr_slice message = slice_dup(c->arena, slice_from(text));
    bool known = category == PR_CATEGORY_INFRASTRUCTURE || category == PR_CATEGORY_CONFIGURATION;
    c->error = (struct flow_error){ .category = known ? category : PR_CATEGORY_APPLICATION,
                                    .retryable = retryable && category != PR_CATEGORY_CONFIGURATION,
                                    .message = message.data != NULL ? message : PR_STR("out of memory") };
    return PR_FAILED;
}

void activity_failure(const struct pr_activity_context *c, int returned, struct flow_error *ret)
{
    *ret = c->error;
    if (ret->category != PR_CATEGORY_NONE)
        return;
    pr_slice message =
        arena_printf(c->arena, "the function of activity %.*s returned %d", SLICE_ARGS(c->info.name), returned);
    *ret = (struct flow_error){ .category = PR_CATEGORY_APPLICATION,
                                .retryable = true,
                                .message = message.data != NULL ? message : PR_STR("out of memory") };
}

/* ---- Again? ---------------------------------------------------------------------------------------------- */

int64_t flow_activity_retry(const struct pr_retry *retry, int failures, const struct flow_error *error, double draw)
{
    if (!error->retryable || failures < 1 || failures >= retry->tries)
        return -1;
    struct retry_setting s = {
        .base_us = retry->first_us, .factor = 1, .cap_us = retry->max_us, .jitter = retry->jitter
    };
    switch (retry->backoff) {
    case PR_BACKOFF_NONE: return 0;
    case PR_BACKOFF_FIXED: break;
    case PR_BACKOFF_LINEAR: s.base_us = time_mul(retry->first_us, failures); break;
    case PR_BACKOFF_EXPONENTIAL: s.factor = retry->factor > 0 ? retry->factor : 2; break;
    }
    return retry_again_us(&s, failures - 1, draw);
}

/* ---- The message for the flow --------------------------------------------------------------------------------- */

int flow_activity_result(const struct activity_message *a, pr_slice output, const struct flow_error *error,
                         struct arena *arena, struct pr_message *ret)
{
    struct turn_message t = { .kind = TURN_RESULT,
                              .flow = a->flow,
                              .execution = a->execution,
                              .task = a->task,
                              .failed = error != NULL,
                              .data = error != NULL ? flow_error_encode(error, arena) : output };
    if (error != NULL && t.data.data == NULL)
        return PR_ENOMEM;
    return turn_message_make(&t, flow_result_id(a->execution, a->task), arena, ret);
}

static pr_slice ended_by_hand(const char *how, const struct activity_message *a, const struct activity_dead *dead,
                              struct arena *arena)
{
    return arena_printf(arena, "activity %.*s was %s%s%.*s%s%.*s", SLICE_ARGS(a->name), how,
                        dead->by.size > 0 ? " by " : "", SLICE_ARGS(dead->by), dead->why.size > 0 ? ": " : "",
                        SLICE_ARGS(dead->why));
}

static int dead_error(const struct pr_message *m, const struct activity_message *a, const struct activity_dead *dead,
                      struct arena *arena, struct flow_error *ret)
{
    *ret = (struct flow_error){ .category = PR_CATEGORY_APPLICATION };
    switch (dead->end) {
    case ACTIVITY_POISONED:
        *ret = (struct flow_error){ .kind = FLOW_POISON_ACTIVITY,
                                    .count = dead->count,
                                    .limit = dead->limit,
                                    .flow = a->flow,
                                    .execution = a->execution,
                                    .name = a->name,
                                    .number = a->task };
        return flow_poison(ret, m, arena);
    case ACTIVITY_FAILED:
        ret->message = dead->error.size > 0 ? dead->error : PR_STR("the activity failed");
        return PR_OK;
    case ACTIVITY_EXPIRED:
        ret->message = arena_printf(arena, "activity %.*s was not started in time", SLICE_ARGS(a->name));
        break;
    case ACTIVITY_DISCARDED: ret->message = ended_by_hand("discarded", a, dead, arena); break;
    case ACTIVITY_BURIED: ret->message = ended_by_hand("made a dead letter", a, dead, arena); break;
    }
    return ret->message.data != NULL ? PR_OK : PR_ENOMEM;
}

int flow_on_activity_dead(const struct pr_message *m, const struct activity_dead *dead, struct arena *arena,
                          struct pr_message *ret, struct pr_error *reterr)
{
    struct activity_message a;
    struct flow_error error;
    int rc = activity_message_read(m, arena, &a, reterr);
    if (rc != PR_OK)
        return rc;
    rc = dead_error(m, &a, dead, arena, &error);
    if (rc == PR_OK)
        rc = flow_activity_result(&a, (pr_slice){ "", 0 }, &error, arena, ret);
    return rc == PR_OK ? rc : error_set(reterr, rc, "out of memory for a message of a flow");
}
