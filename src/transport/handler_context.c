#include "transport/handler_context.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/delivery.h"

void context_init(struct pr_context *context, const struct delivery *delivery, const struct clock *clock,
                  int64_t deadline_us, struct handler_stop *stop)
{
    *context = (struct pr_context){ .delivery = delivery, .clock = clock, .deadline_us = deadline_us, .stop = stop };
    context->effects_end = &context->effects;
    atomic_store(&stop->seen_cancel, false);
    atomic_store(&stop->seen_late, false);
}

/* ---- What a handler may call ---------------------------------------------------------- */

static int fail(struct pr_context *context, int reason, int64_t retry_after_us, const char *format, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0)
        text = NULL; /* no memory, or a wide character that has no bytes: the reason must do */
    free(context->error);
    context->error = text;
    context->reason = reason_is_known(reason) ? reason : PR_REASON_UNKNOWN;
    context->retry_after_us = max64(retry_after_us, 0);
    return PR_FAILED;
}

PR_API int pr_fail(struct pr_context *context, enum pr_reason reason, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int rc = fail(context, reason, 0, format, args);
    va_end(args);
    return rc;
}

PR_API int pr_fail_retry_after(struct pr_context *context, enum pr_reason reason, int64_t retry_after_us,
                               const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int rc = fail(context, reason, retry_after_us, format, args);
    va_end(args);
    return rc;
}

PR_API void pr_reached(struct pr_context *context, int status_bits)
{
    context->bits |= status_bits & ~PR_STATUS_FAILED;
}

PR_API int pr_effect_send_box(struct pr_context *context, const char *box, const struct pr_message *message,
                              struct pr_error *reterr)
{
    if (context == NULL || message == NULL)
        return error_set(reterr, PR_EINVAL, "%s is NULL", context == NULL ? "context" : "message");
    pr_slice box_name = slice_from(box != NULL ? box : "outbox");
    if (!name_is_valid(box_name))
        return error_set(reterr, PR_EINVAL, "\"%s\" is not a valid box name: use letters, digits and _, at most %d",
                         box, BOX_NAME_MAX);
    int rc = message_check(message, PR_PAYLOAD_MAX, reterr);
    if (rc < 0)
        return rc;
    if (context->effect_count >= HANDLER_EFFECTS_MAX)
        return error_set(reterr, PR_ETOOBIG, "a handler can send at most %d messages per call", HANDLER_EFFECTS_MAX);

    struct send_effect *effect = effect_of(context->delivery->message, box_name, message);
    if (effect == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a message of %zu bytes", message_bytes(message));
    *context->effects_end = effect;
    context->effects_end = &effect->next;
    context->effect_count++;
    return PR_OK;
}

PR_API int pr_effect_send(struct pr_context *context, const struct pr_message *message)
{
    struct pr_error error;
    int rc = pr_effect_send_box(context, NULL, message, &error);
    if (rc < 0 && context != NULL) {
        (void)pr_fail(context, PR_REASON_HANDLER_EXCEPTION, "pr_effect_send: %s", error.text);
        context->effect_lost = true;
    }
    return rc;
}

PR_API void pr_decide(struct pr_context *context, enum pr_step step, int64_t delay_us)
{
    context->decided = true;
    context->step = step;
    context->delay_us = max64(delay_us, 0);
}

PR_API bool pr_should_stop(const struct pr_context *context)
{
    bool cancelled = atomic_load(&context->stop->cancelled);
    bool late = clock_mono_us(context->clock) >= context->deadline_us;
    if (cancelled)
        atomic_store(&context->stop->seen_cancel, true);
    if (late)
        atomic_store(&context->stop->seen_late, true);
    return cancelled || late;
}

/* ---- The verdict ------------------------------------------------------------------------ */

/* pr_fail() was not called: only the number is known. */
static void unexplained(const struct pr_context *context, int returned, struct delivery_result *ret)
{
    char code[16], text[96];
    int reason = atomic_load(&context->stop->seen_late) ? PR_REASON_TIMEOUT_EXCEEDED : PR_REASON_HANDLER_EXCEPTION;
    snprintf(code, sizeof(code), "%d", returned);
    snprintf(text, sizeof(text), "the handler returned %d%s", returned,
             reason == PR_REASON_TIMEOUT_EXCEEDED ? " when it was asked to stop at its deadline" : "");
    result_failed(ret, context->delivery->token, SEND_FAILED, reason, code, slice_from(text));
}

void context_finish(struct pr_context *context, int returned, struct delivery_result *ret)
{
    uint64_t token = context->delivery->token;
    if (returned == PR_OK && context->effect_lost)
        returned = PR_FAILED; /* else it would be done, and the message that belongs to it never sent */
    if (returned == PR_OK) {
        result_ok(ret, token);
        ret->effects = context->effects;
        context->effects = NULL;
    } else if (atomic_load(&context->stop->seen_cancel) && !atomic_load(&context->stop->seen_late)) {
        /* It gave up because we asked it to: a shutdown is not a failure (B38). */
        result_returned(ret, token);
    } else if (returned == PR_FAILED && context->reason != PR_REASON_NONE) {
        result_failed(ret, token, SEND_FAILED, context->reason, "", slice_from(context->error));
        ret->retry_after_us = context->retry_after_us;
    } else {
        unexplained(context, returned, ret);
    }
    ret->bits |= context->bits;

    struct delivery_result rest = { .error = context->error, .effects = context->effects };
    delivery_result_fini(&rest);
}
