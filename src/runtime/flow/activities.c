/* One activity: its function is called, or an endpoint runs it; the result goes to its flow, or it is tried again, by
 * the policy in its row.  When its row has been deleted the activity was cancelled: its function is notified, and its
 * result is dropped. */
#include <stdlib.h>

#include "base/error.h"
#include "base/random.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "base/util.h"
#include "core/message.h"
#include "core/offer.h"
#include "flow/registry.h"
#include "runtime/flow/internal.h"

#define ACTIVITY_BLOCK ((size_t)4 << 10)
#define AGAIN_US PR_SECONDS(1) /* retry without memory */

/* A function that is being called. */
struct running_activity {
    struct list_node node;
    uint64_t token;
    atomic_bool gone; /* its row was deleted: the activity was cancelled */
    struct pr_context *context;
};

int64_t flow_activity_timeout(const struct pr_message *message)
{
    struct activity_message a;
    struct pr_error ignored;
    struct arena arena;

    arena_init(&arena, ACTIVITY_BLOCK);
    int64_t timeout_us = activity_message_read(message, &arena, &a, &ignored) == PR_OK ? a.timeout_us : 0;
    arena_fini(&arena);
    return timeout_us;
}

/* ---- Cancellation -------------------------------------------------------------------------------------- */

static bool is_cancelled(void *arg)
{
    struct running_activity *r = arg;
    return atomic_load(&r->gone);
}

static bool should_stop(void *arg)
{
    struct running_activity *r = arg;
    return pr_should_stop(r->context) || atomic_load(&r->gone);
}

void flows_gone(struct flows *f, const uint64_t *tokens, size_t count)
{
    ASSERT(pthread_mutex_lock(&f->lock) == 0);
    list_foreach(node, &f->running) {
        struct running_activity *r = LIST_ENTRY(node, struct running_activity, node);
        for (size_t i = 0; i < count; i++)
            if (r->token == tokens[i])
                atomic_store(&r->gone, true);
    }
    ASSERT(pthread_mutex_unlock(&f->lock) == 0);
}

static void running_begin(struct flows *f, struct running_activity *r, struct pr_context *context)
{
    *r = (struct running_activity){ .token = context->delivery->token, .context = context };
    ASSERT(pthread_mutex_lock(&f->lock) == 0);
    list_push_back(&f->running, &r->node);
    ASSERT(pthread_mutex_unlock(&f->lock) == 0);
}

static void running_end(struct flows *f, struct running_activity *r)
{
    ASSERT(pthread_mutex_lock(&f->lock) == 0);
    list_remove(&r->node);
    ASSERT(pthread_mutex_unlock(&f->lock) == 0);
}

/* ---- Its function ----------------------------------------------------------------------------------------- */

/* Fault: it is unknown whether another program has state of its session. */
static int join_session(struct flows *f, const struct activity_message *a, struct arena *arena,
                        struct pr_activity_info *info, struct pr_error *reterr)
{
    pr_slice from = { NULL, 0 };
    int rc = a->session.size > 0 ? flows_hold_session(f, a->session, arena, &from, reterr) : PR_OK;

    info->session_moved = rc == PR_OK && from.data != NULL;
    info->session_from = from;
    if (info->session_moved)
        log_emit(f->options.log, LOG_WARN, "session_moved", LOG_SLICE("session", a->session), LOG_SLICE("from", from),
                 LOG_SLICE("flow", a->flow), LOG_SLICE("activity", a->name),
                 LOG_STR("next", "its activities go on here; what its instance kept in memory is lost"));
    return rc;
}

/* Converts what the function returned into a result like that of any other way to run an activity;
 * flow_activity_ended() decides what follows. */
static int call(struct flows *f, const struct activity_entry *entry, struct pr_context *context,
                const struct activity_message *a, struct arena *arena)
{
    struct running_activity running;
    struct pr_activity_context c;
    struct flow_error error;
    struct pr_error why = { 0 };
    pr_slice output = { "", 0 };

    activity_context_init(&c, a, context->delivery->attempt, arena);
    if (join_session(f, a, arena, &c.info, &why) != PR_OK)
        return flow_postpone(context, AGAIN_US, "its session could not be looked up: %s", why.text);
    running_begin(f, &running, context);
    c.is_cancelled = is_cancelled;
    c.should_stop = should_stop;
    c.arg = &running;
    int returned = entry->function(&c, a->input, &output, entry->user);
    running_end(f, &running);
    if (returned == PR_OK) {
        context->output = output_copy(output);
        context->output_size = output.size;
        return context->output != NULL ? PR_OK : flow_postpone(context, AGAIN_US, "out of memory for an output");
    }
    if (atomic_load(&context->stop->seen_cancel) && !atomic_load(&context->stop->seen_late))
        return PR_FAILED; /* it gave up since the engine stops: handed back */
    activity_failure(&c, returned, &error);
    context->category = error.category;
    context->final = !error.retryable;
    return pr_fail(context, PR_REASON_HANDLER_EXCEPTION, "%.*s", SLICE_ARGS(error.message));
}

/* It waits for an instance that can run it, however long that takes. */
static int64_t unknown_delay_us(struct flows *f, struct pr_context *context, const struct activity_message *a)
{
    context->need = need_of_activity(a->name, a->tag);
    return flow_unknown_delay_us(flow_unknown_us(f, context), PR_NEVER);
}

int flow_run_activity(struct pr_context *context, const struct pr_message *message, void *user)
{
    struct flows *f = user;
    struct activity_message a;
    struct pr_error error;
    struct arena arena;
    int rc;

    arena_init(&arena, ACTIVITY_BLOCK);
    if (activity_message_read(message, &arena, &a, &error) != PR_OK) {
        rc = pr_fail(context, PR_REASON_POISON_MESSAGE, "not an activity: %s", error.text);
    } else {
        const struct activity_entry *entry = program_find_activity(f->options.program, a.name);
        if (entry == NULL)
            rc = flow_postpone(context, unknown_delay_us(f, context, &a), "this instance does not know activity %.*s",
                               SLICE_ARGS(a.name));
        else if (!program_offers(f->options.program, a.tag))
            rc = flow_postpone(context, unknown_delay_us(f, context, &a),
                               "activity %.*s needs %.*s, which this instance does not offer", SLICE_ARGS(a.name),
                               SLICE_ARGS(a.tag));
        else
            rc = call(f, entry, context, &a, &arena);
        if (context->need == NULL && atomic_load(&f->activities_mixed))
            context->need = need_of_activity(a.name, a.tag);
    }
    arena_fini(&arena);
    return rc;
}

/* ---- The consequences of its end ------------------------------------------------------------- */

static double draw(struct flows *f)
{
    struct random r;
    random_init(&r, flows_random(f));
    return random_double(&r);
}

/* The text is kept for people; outputs and effects are dropped. */
static void become(struct delivery_result *r, enum send_outcome outcome, int64_t after_us)
{
    effects_free(r->effects);
    r->effects = NULL;
    free(r->output);
    r->output = NULL;
    r->outcome = outcome;
    r->retry_after_us = after_us;
}

/* error NULL: success. */
static void tell_flow(struct flows *f, const struct activity_message *a, const struct flow_error *error,
                      struct arena *arena, struct delivery_result *r)
{
    struct send_effect *effect = NULL;
    struct pr_message result;
    pr_slice output = { r->output != NULL ? r->output : "", r->output != NULL ? r->output_size : 0 };

    if (flow_activity_result(a, output, error, arena, &result) == PR_OK)
        effect = send_effect_copy(&(struct send_effect){ .box = f->turns_box, .message = result });
    if (effect == NULL) {
        become(r, SEND_POSTPONED, AGAIN_US);
        r->settled_as = PR_EINVAL;
        return;
    }
    if (error != NULL) {
        flows_count_failure(f, false, error->category);
        effects_free(r->effects);
        r->effects = NULL;
        r->outcome = SEND_OK;
    }
    effects_append(&r->effects, effect);
}

/* The result says nothing about the activity: its endpoint could not be reached or refuses work now, and the endpoint's
 * rules decide. */
static bool is_of_endpoint(const struct delivery_result *r)
{
    static const int reasons[] = { PR_REASON_TRANSPORT_UNAVAILABLE, PR_REASON_RATE_LIMITED, PR_REASON_UNAUTHORIZED,
                                   PR_REASON_DESTINATION_MISSING };
    bool is = r->unsent;

    for (size_t i = 0; i < ARRAY_LENGTH(reasons); i++)
        is |= r->reason == reasons[i];
    return is;
}

/* The connection broke while the activity ran, perhaps because of it: this counts like a crash. */
static bool is_lost(const struct delivery_result *r)
{
    bool is_status = r->code[0] >= '0' && r->code[0] <= '9';

    return r->outcome == SEND_UNKNOWN && r->reason == PR_REASON_TRANSPORT_UNAVAILABLE && !is_status;
}

/* The error of a result, if it has a text: as JSON of an error, or as plain text. */
static void error_of(const struct delivery_result *r, struct arena *arena, struct flow_error *ret)
{
    pr_slice words = { r->output, r->output != NULL ? r->output_size : 0 };
    bool retryable = !r->final && reason_class(r->reason) != CLASS_PERMANENT;

    *ret = (struct flow_error){ .category = r->category != 0 ? (enum pr_category)r->category : PR_CATEGORY_APPLICATION,
                                .retryable = retryable,
                                .message = r->error != NULL ? slice_from(r->error) : PR_STR("the activity failed") };
    struct flow_error own;
    struct pr_error ignored;
    if (words.size > 0 && flow_error_decode(words, arena, &own, &ignored) == PR_OK &&
        own.category != PR_CATEGORY_POISON)
        *ret = own;
    else if (words.size > 0 && words.size <= PR_ERROR_MAX && utf8_valid(words))
        ret->message = words;
}

static void failed(struct flows *f, const struct pr_message *m, const struct activity_message *a,
                   const struct flow_error *error, struct arena *arena, struct delivery_result *r)
{
    int64_t after_us = flow_activity_retry(&a->retry, m->failures + 1, error, draw(f));

    if (after_us < 0)
        tell_flow(f, a, error, arena, r);
    else
        become(r, SEND_AGAIN, max64(after_us, r->retry_after_us));
}

static void ended(struct flows *f, const struct pr_message *m, struct arena *arena, struct delivery_result *r)
{
    struct activity_message a;
    struct flow_error error;
    struct pr_error why;
    size_t payload_max = (size_t)f->options.config->payload_max;

    if (activity_message_read(m, arena, &a, &why) != PR_OK)
        return; /* no flow waits for it */
    if (r->outcome == SEND_OK && r->output != NULL && r->output_size > payload_max) {
        error = (struct flow_error){ .category = PR_CATEGORY_APPLICATION,
                                     .message = arena_printf(arena, "its output of %zu bytes exceeds limits.payload",
                                                             r->output_size) };
        tell_flow(f, &a, &error, arena, r);
    } else if (r->outcome == SEND_OK) {
        tell_flow(f, &a, NULL, arena, r);
    } else if (is_lost(r)) {
        become(r, SEND_ABANDONED, 0);
    } else if (!is_of_endpoint(r)) {
        error_of(r, arena, &error);
        failed(f, m, &a, &error, arena, r);
    }
}

void flow_activity_ended(struct flows *f, const struct pr_message *message, struct delivery_result *result)
{
    struct arena arena;

    if (result->outcome != SEND_OK && result->outcome != SEND_FAILED && result->outcome != SEND_UNKNOWN)
        return;
    if (result->outcome != SEND_OK && result->reason == PR_REASON_POISON_MESSAGE)
        return;
    arena_init(&arena, ACTIVITY_BLOCK);
    ended(f, message, &arena, result);
    arena_fini(&arena);
}

/* ---- The dead ---------------------------------------------------------------------------------------------- */

static struct activity_dead end_of(const struct pr_message *m, const struct verdict *why)
{
    struct activity_dead dead = { .end = ACTIVITY_FAILED, .error = why->error };

    if (why->kind == VERDICT_EXPIRE) {
        dead.end = ACTIVITY_EXPIRED;
    } else if (why->kind == VERDICT_DISCARD) {
        dead.end = ACTIVITY_DISCARDED;
    } else if (slice_eq(why->rule, PR_STR("poison"))) {
        dead.end = ACTIVITY_POISONED;
        dead.count = message_unexplained(m) + 1;
        dead.limit = why->limit;
    }
    return dead;
}

struct send_effect *flow_on_dead(void *arg, const struct pr_message *message, const struct verdict *why)
{
    struct flows *f = arg;
    const struct activity_dead dead = end_of(message, why);
    struct send_effect *effect = NULL;
    struct pr_message result;
    struct pr_error error;
    struct arena arena;

    arena_init(&arena, ACTIVITY_BLOCK);
    if (flow_on_activity_dead(message, &dead, &arena, &result, &error) == PR_OK) {
        effect = send_effect_copy(&(struct send_effect){ .box = f->turns_box, .message = result });
        flows_count_failure(f, false, dead.end == ACTIVITY_POISONED ? PR_CATEGORY_POISON : PR_CATEGORY_APPLICATION);
    }
    arena_fini(&arena);
    return effect;
}
