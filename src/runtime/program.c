#include "runtime/program.h"

#include "base/error.h"
#include "base/slice.h"
#include "transport/handler_context.h"

const struct call_entry *program_find_call(const struct program *program, pr_slice name)
{
    for (size_t i = 0; i < program->call_count; i++)
        if (slice_eq_cstr(name, program->calls[i].name))
            return &program->calls[i];
    return NULL;
}

const struct activity_entry *program_find_activity(const struct program *program, pr_slice name)
{
    for (size_t i = 0; i < program->activity_count; i++)
        if (slice_eq(name, program->activities[i].name))
            return &program->activities[i];
    return NULL;
}

bool program_offers(const struct program *program, pr_slice tag)
{
    bool offered = tag.size == 0;

    for (size_t i = 0; i < program->tag_count; i++)
        offered |= slice_eq(tag, program->tags[i]);
    return offered;
}

static enum step step_of(enum pr_step step)
{
    switch (step) {
    case PR_STEP_RETRY: return STEP_RETRY;
    case PR_STEP_RETRY_NOW: return STEP_RETRY_NOW;
    case PR_STEP_DEAD_LETTER: return STEP_DEAD_LETTER;
    case PR_STEP_DISCARD: return STEP_DISCARD;
    case PR_STEP_PARK: return STEP_PARK;
    }
    return STEP_DEAD_LETTER; /* a number that is none: nothing may be lost */
}

static void log_failed(const struct caller *c, pr_slice name, const struct failure *f, pr_slice rule,
                       const struct delivery_result *result)
{
    char id[PR_ID_TEXT_SIZE];

    pr_id_format(f->message->id, id);
    log_emit(c->log, LOG_WARN, "call_failed", LOG_SLICE("call", name), LOG_SLICE("rule", rule), LOG_STR("id", id),
             LOG_SLICE("endpoint", f->endpoint), LOG_STR("reason", pr_reason_name(result->reason)),
             LOG_SLICE("error", pr_str(result->error)));
}

int program_call(void *arg, pr_slice name, const struct failure *f, pr_slice rule, struct call_answer *ret)
{
    const struct caller *c = arg;
    const struct call_entry *entry = program_find_call(c->program, name);
    struct handler_stop stop = { 0 };
    struct pr_context context;
    struct delivery_result result = { 0 };
    const struct delivery delivery = { .message = f->message, .deadline_us = PR_NEVER };
    const struct pr_failure failure = {
        .message = f->message,
        .endpoint = f->endpoint,
        .reason = (enum pr_reason)f->reason,
        .code = f->code,
        .error = f->error,
        .failures = f->failures,
        .age_us = f->age_us,
        .retry_after_us = f->retry_after_us,
        .rule = rule,
    };

    ASSERT(entry != NULL); /* setting_init() has looked */
    context_init(&context, &delivery, NULL, clock_system(), PR_NEVER, &stop);
    int returned = entry->function(&context, &failure, entry->user);
    bool decided = context.decided;
    enum step step = step_of(context.step);
    int64_t delay_us = context.delay_us;
    context_finish(&context, returned, &result);
    if (result.outcome == SEND_OK) {
        *ret =
            (struct call_answer){ .decided = decided, .step = step, .delay_us = delay_us, .effects = result.effects };
        result.effects = NULL;
    } else {
        log_failed(c, name, f, rule, &result);
    }
    int rc = result.outcome == SEND_OK ? PR_OK : PR_FAILED;
    delivery_result_fini(&result);
    return rc;
}
