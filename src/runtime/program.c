#include "runtime/program.h"

#include <string.h>

#include "base/error.h"
#include "base/glob.h"
#include "base/slice.h"
#include "core/message.h"
#include "runtime/config/config_options.h"
#include "transport/handler_context.h"

void program_init(struct program *p)
{
    arena_init(&p->texts, ARENA_BLOCK_MIN);
    flow_registry_init(&p->flows);
}

void program_fini(struct program *p)
{
    arena_fini(&p->texts);
    flow_registry_fini(&p->flows);
}

/* ---- What it brings along ---- */

/* Can a handler of this name, or for this glob, still be added? */
static bool can_handle(const struct program *p, pr_slice text, pr_handler handler)
{
    return p != NULL && handler != NULL && text.size > 0 && text.size <= PR_TYPE_MAX &&
           memchr(text.data, '\0', text.size) == NULL && p->handler_count < HANDLERS_MAX;
}

/* Or by a glob, which is its name, too? */
static bool is_by_name(const struct handler_entry *entry)
{
    return entry->type == NULL || entry->beside;
}

static int add_entry(struct program *p, const struct handler_entry *entry)
{
    if (entry->name == NULL)
        return PR_ENOMEM;
    for (size_t i = 0; i < p->handler_count; i++)
        if ((is_by_name(&p->handlers[i]) == is_by_name(entry)) && strcmp(p->handlers[i].name, entry->name) == 0)
            return PR_EINVAL;
    p->handlers[p->handler_count++] = *entry;
    return PR_OK;
}

int program_add_handler(struct program *p, pr_slice box, pr_slice type_glob, pr_handler handler, void *user)
{
    if (!can_handle(p, type_glob, handler) || glob_check(type_glob, NULL) != PR_OK ||
        (box.size > 0 && !name_is_valid(box)))
        return PR_EINVAL;
    const pr_slice name =
        arena_printf(&p->texts, "%.*s%s%.*s", SLICE_ARGS(box), box.size > 0 ? "/" : "", SLICE_ARGS(type_glob));
    const pr_slice own_box = slice_dup(&p->texts, box);
    if (name.data == NULL || own_box.data == NULL)
        return PR_ENOMEM;
    return add_entry(p, &(struct handler_entry){ .name = name.data,
                                                 .type = name.data + (name.size - type_glob.size),
                                                 .box = own_box.data,
                                                 .handler = handler,
                                                 .user = user });
}

int program_add_subscriber(struct program *p, pr_slice box, pr_slice name, pr_slice type_glob, pr_handler handler,
                           void *user)
{
    if (!can_handle(p, type_glob, handler) || glob_check(type_glob, NULL) != PR_OK || !option_is_endpoint_name(name) ||
        (box.size > 0 && !name_is_valid(box)))
        return PR_EINVAL;
    const struct handler_entry entry = { .name = slice_dup(&p->texts, name).data,
                                         .type = slice_dup(&p->texts, type_glob).data,
                                         .box = slice_dup(&p->texts, box).data,
                                         .beside = true,
                                         .handler = handler,
                                         .user = user };
    return entry.type != NULL && entry.box != NULL ? add_entry(p, &entry) : PR_ENOMEM;
}

int program_add_named_handler(struct program *p, pr_slice name, pr_handler handler, void *user)
{
    if (!can_handle(p, name, handler))
        return PR_EINVAL;
    return add_entry(
        p, &(struct handler_entry){ .name = slice_dup(&p->texts, name).data, .handler = handler, .user = user });
}

int program_add_call(struct program *p, pr_slice name, pr_rule_function function, void *user)
{
    if (p == NULL || function == NULL || name.size == 0 || name.size > PR_NAME_MAX ||
        p->call_count == PROGRAM_CALLS_MAX || program_find_call(p, name) != NULL)
        return PR_EINVAL;
    pr_slice copy = slice_dup(&p->texts, name);
    if (copy.data == NULL)
        return PR_ENOMEM;
    p->calls[p->call_count++] = (struct call_entry){ .name = copy.data, .function = function, .user = user };
    return PR_OK;
}

static bool is_registered_name(pr_slice name)
{
    return name.size > 0 && name.size <= PR_TYPE_MAX && memchr(name.data, '\0', name.size) == NULL;
}

int program_add_flow(struct program *p, const char *name, const char *version, pr_flow_function function, void *user)
{
    struct pr_error ignored;
    return p != NULL ? flow_registry_add(&p->flows, name, version, function, user, &ignored) : PR_EINVAL;
}

int program_add_activity(struct program *p, pr_slice name, pr_activity_function function, void *user)
{
    if (p == NULL || function == NULL || !is_registered_name(name) || p->activity_count == PROGRAM_ACTIVITIES_MAX ||
        program_find_activity(p, name) != NULL)
        return PR_EINVAL;
    const struct activity_entry entry = { slice_dup(&p->texts, name), function, user };
    if (entry.name.data == NULL)
        return PR_ENOMEM;
    p->activities[p->activity_count++] = entry;
    return PR_OK;
}

int program_add_tag(struct program *p, pr_slice tag)
{
    if (p == NULL || !is_registered_name(tag) || p->tag_count == PROGRAM_TAGS_MAX)
        return PR_EINVAL;
    const pr_slice copy = slice_dup(&p->texts, tag);
    if (copy.data == NULL)
        return PR_ENOMEM;
    p->tags[p->tag_count++] = copy;
    return PR_OK;
}

int program_add_rule(struct program *p, pr_slice endpoint, const struct rule *rule, struct pr_error *reterr)
{
    int rc = rule_check(rule, reterr);

    if (rc != PR_OK)
        return rc;
    if (p == NULL)
        return error_set(reterr, PR_EINVAL, "rules must be added before the start");
    if (p->rule_count == PROGRAM_RULES_MAX)
        return error_set(reterr, PR_EINVAL, "at most %d rules are allowed", PROGRAM_RULES_MAX);
    pr_slice copy = endpoint.size > 0 ? slice_dup(&p->texts, endpoint) : (pr_slice){ NULL, 0 };
    if (endpoint.size > 0 && copy.data == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a rule");
    p->rules[p->rule_count++] = (struct rule_entry){ .endpoint = copy.data, .rule = rule };
    return PR_OK;
}

/* ---- Who finds it ---- */
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

/* ---- Functions that rules call ---- */

static enum step step_of(enum pr_step step)
{
    switch (step) {
    case PR_STEP_RETRY: return STEP_RETRY;
    case PR_STEP_RETRY_NOW: return STEP_RETRY_NOW;
    case PR_STEP_DEAD_LETTER: return STEP_DEAD_LETTER;
    case PR_STEP_DISCARD: return STEP_DISCARD;
    case PR_STEP_PARK: return STEP_PARK;
    }
    return STEP_DEAD_LETTER; /* an invalid number: nothing may be lost */
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

    ASSERT(entry != NULL); /* setting_init() has checked that */
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
