#include "transport/handler_context.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/completion.h"
#include "transport/delivery.h"

void context_init(struct pr_context *context, const struct delivery *delivery, const struct endpoint_config *config,
                  const struct clock *clock, int64_t deadline_us, struct handler_stop *stop)
{
    *context = (struct pr_context){
        .delivery = delivery, .config = config, .clock = clock, .deadline_us = deadline_us, .stop = stop
    };
    context->effects_end = &context->effects;
    atomic_store(&stop->seen_cancel, false);
    atomic_store(&stop->seen_late, false);
}

/* ---- What a handler may call ---------------------------------------------------------- */

static int fail(struct pr_context *context, int reason, int64_t retry_after_us, const char *format, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0)
        text = NULL; /* no memory, or a wide character without a multibyte form: the reason is sufficient */
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

/* Room for one more effect, and is one allowed now? */
static int effect_may_come(const struct pr_context *context, struct pr_error *reterr)
{
    if (context->completed_us != 0)
        return error_set(reterr, PR_EINVAL, "the message is completed already: do this before pr_complete");
    if (context->effect_count >= HANDLER_EFFECTS_MAX)
        return error_set(reterr, PR_ETOOBIG, "a handler can send at most %d messages per call", HANDLER_EFFECTS_MAX);
    return PR_OK;
}

static int effect_add(struct pr_context *context, struct send_effect *effect, struct pr_error *reterr)
{
    if (effect == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for the handler's effects");
    *context->effects_end = effect;
    context->effects_end = &effect->next;
    context->effect_count++;
    return PR_OK;
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
    int rc = effect_may_come(context, reterr);
    if (rc == PR_OK)
        rc = message_check(message, PR_PAYLOAD_MAX, reterr);
    return rc == PR_OK ? effect_add(context, effect_of(context->delivery->message, box_name, message), reterr) : rc;
}

PR_API int pr_effect_append(struct pr_context *context, const struct pr_message *event, int64_t expected,
                            struct pr_error *reterr)
{
    if (context == NULL || event == NULL)
        return error_set(reterr, PR_EINVAL, "%s is NULL", context == NULL ? "context" : "event");
    int rc = effect_may_come(context, reterr);
    if (rc == PR_OK)
        rc = message_check(event, PR_PAYLOAD_MAX, reterr);
    if (rc == PR_OK && (event->stream.size == 0 || expected < PR_ANY_VERSION))
        rc = error_set(reterr, PR_EINVAL,
                       "an event needs a stream, and expected is a number of events or PR_ANY_VERSION");
    if (rc != PR_OK)
        return rc;
    struct send_effect *effect = effect_of(context->delivery->message, (pr_slice){ "", 0 }, event);
    if (effect != NULL)
        effect->effect = (struct effect){ .kind = EFFECT_EVENT,
                                          .takes_verdict = true,
                                          .expected = expected == PR_ANY_VERSION ? EFFECT_ANY : expected };
    return effect_add(context, effect, reterr);
}

static pr_slice put_text(char **at, pr_slice text)
{
    pr_slice put = { text.data != NULL ? *at : NULL, text.size };
    if (text.size > 0)
        memcpy(*at, text.data, text.size);
    *at += text.size;
    return put;
}

PR_API int pr_effect_set(struct pr_context *context, pr_slice scope, pr_slice name, pr_slice value,
                         struct pr_error *reterr)
{
    if (context == NULL)
        return error_set(reterr, PR_EINVAL, "context is NULL");
    int rc = effect_may_come(context, reterr);
    if (rc == PR_OK && (scope.size == 0 || scope.size > PR_NAME_MAX || name.size == 0 || name.size > PR_NAME_MAX))
        rc = error_set(reterr, PR_EINVAL, "scope and name must have 1 to %d bytes", PR_NAME_MAX);
    if (rc == PR_OK && value.size > PR_PAYLOAD_MAX)
        rc = error_set(reterr, PR_ETOOBIG, "a value can have at most %u bytes", PR_PAYLOAD_MAX);
    if (rc != PR_OK)
        return rc;
    struct send_effect *effect = malloc(sizeof(*effect) + scope.size + name.size + value.size);
    if (effect != NULL) {
        char *at = (char *)(effect + 1);
        *effect = (struct send_effect){ .effect = { .kind = EFFECT_STATE } };
        effect->effect.key = put_text(&at, scope);
        effect->effect.name = put_text(&at, name);
        effect->effect.value = put_text(&at, value);
    }
    return effect_add(context, effect, reterr);
}

PR_API void pr_release_followers(struct pr_context *context)
{
    context->release_followers = true;
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

/* ---- Completing it in a transaction of its own ------------------------------------------- */

int context_completion(struct pr_context *context, struct completion *ret, struct pr_error *reterr)
{
    const struct endpoint_config *config = context->config;
    const struct delivery *d = context->delivery;

    if (config == NULL || config->store_url == NULL || d->row == 0)
        return error_set(reterr, PR_EINVAL,
                         "only a handler can complete a message, and only one that is stored in a box");
    if (context->effect_lost)
        return error_set(reterr, PR_EINVAL, "a message that belongs to it could not be taken: %s",
                         context->error != NULL ? context->error : "out of memory");
    *ret = (struct completion){
        .box = slice_from(config->box),
        .endpoint = slice_from(config->name),
        .row = d->row,
        .id = d->message->id,
        .number = d->attempt,
        .bits = context->bits,
        .keep_us = config->keep_us,
        .dedupe_us = config->dedupe_us,
        .destination = d->message->destination,
        .effects = context->effects,
    };
    return PR_OK;
}

/* Did the handler say that its own transaction decides, or that its database could not do it? */
static bool is_about_transaction(const struct pr_context *context, int returned, struct delivery_result *ret)
{
    bool again = returned == PR_EBUSY || returned == PR_ECONFLICT;
    enum send_outcome outcome = returned == PR_SETTLED      ? SEND_SETTLED
                                : returned == PR_EUNCERTAIN ? SEND_UNCERTAIN
                                : returned == PR_STALE      ? SEND_STALE
                                : again                     ? SEND_POSTPONED
                                                            : SEND_FAILED;
    if (returned == PR_OK && context->completed_us != 0)
        outcome = SEND_SETTLED; /* its meaning is clear */
    if (outcome == SEND_FAILED || context->delivery->row == 0)
        return false;
    *ret = (struct delivery_result){ .token = context->delivery->token, .outcome = outcome };
    if (outcome == SEND_POSTPONED) {
        ret->error = strdup(context->error != NULL     ? context->error
                            : returned == PR_ECONFLICT ? "a stream has another version than the handler expected"
                                                       : "the handler's database was busy or out of reach");
        ret->retry_after_us = context->retry_after_us; /* error NULL: without a text */
        memcpy(ret->code, context->code, sizeof(ret->code));
    }
    return true;
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
        returned = PR_FAILED; /* otherwise it would be completed without the message that belongs to it */
    if (is_about_transaction(context, returned, ret)) {
        /* its errors and messages were part of the transaction */
    } else if (returned == PR_OK) {
        result_ok(ret, token);
        ret->effects = context->effects;
        context->effects = NULL;
        ret->output = context->output;
        ret->output_size = context->output_size;
        context->output = NULL;
    } else if (atomic_load(&context->stop->seen_cancel) && !atomic_load(&context->stop->seen_late)) {
        /* It gave up because it was asked to: a shutdown is not a failure (B38). */
        result_returned(ret, token);
    } else if (returned == PR_FAILED && context->reason != PR_REASON_NONE) {
        result_failed(ret, token, SEND_FAILED, context->reason, "", slice_from(context->error));
        ret->retry_after_us = context->retry_after_us;
        ret->category = context->category;
        ret->final = context->final;
        ret->blamed = context->blamed;
    } else {
        unexplained(context, returned, ret);
    }
    ret->bits |= context->bits;
    ret->release_followers = context->release_followers;
    ret->settled = context->settled;
    ret->settled_arg = context->settled_arg;
    ret->need = context->need;

    struct delivery_result rest = { .error = context->error, .effects = context->effects, .output = context->output };
    delivery_result_fini(&rest);
}
