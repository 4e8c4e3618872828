/* Rules in C: they become the same struct rule as those of the configuration, in one arena each.
 *
 * The first mistake is kept and reported when the engine takes the rule, so that the author of a rule need not check
 * every call. */
#include "lib/rule.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"
#include "core/reason.h"
#include "lib/lib.h"

#define ARENA_BLOCK 1024

/* A matcher under construction: its parts are still a list. */
struct part {
    struct matcher m;
    struct part *parent, *next, *first, **end;
};

struct pr_rule {
    struct pr_rule *next; /* of the engine that has taken it */
    struct arena arena;
    struct rule rule;
    struct part when, *open; /* where the next matcher is added */
    struct rule_step steps[RULE_STEPS_MAX];
    bool bare;             /* the last step has no action of its own yet */
    struct pr_error error; /* the first mistake */
};

static void mistake(struct pr_rule *rule, int code, const char *text)
{
    if (rule->error.code == PR_OK)
        error_set(&rule->error, code, "%s", text);
}

static pr_slice copy(struct pr_rule *rule, const char *text)
{
    pr_slice s = slice_dup(&rule->arena, slice_from(text));

    if (s.data == NULL)
        mistake(rule, PR_ENOMEM, "out of memory for a rule");
    return s;
}

PR_API struct pr_rule *pr_rule_new(const char *name)
{
    struct pr_rule *rule = calloc(1, sizeof *rule);

    if (rule == NULL)
        return NULL;
    arena_init(&rule->arena, ARENA_BLOCK);
    rule->rule.name = copy(rule, name);
    rule->when.m.kind = MATCH_ALL;
    rule->when.end = &rule->when.first;
    rule->open = &rule->when;
    return rule;
}

PR_API void pr_rule_free(struct pr_rule *rule)
{
    if (rule == NULL)
        return;
    arena_fini(&rule->arena);
    free(rule);
}

void rules_free(struct pr_rule *rule)
{
    while (rule != NULL) {
        struct pr_rule *next = rule->next;
        pr_rule_free(rule);
        rule = next;
    }
}

/* ---- When -------------------------------------------------------------------------------- */

static struct part *add_part(struct pr_rule *rule, struct matcher m)
{
    struct part *part = arena_zalloc(&rule->arena, sizeof *part);

    if (part == NULL) {
        mistake(rule, PR_ENOMEM, "out of memory for a rule");
        return NULL;
    }
    part->m = m;
    part->parent = rule->open;
    part->end = &part->first;
    *rule->open->end = part;
    rule->open->end = &part->next;
    rule->open->m.part_count++;
    return part;
}

static void add_text(struct pr_rule *rule, enum matcher_kind kind, const char *text)
{
    pr_slice *texts = arena_alloc(&rule->arena, sizeof *texts);

    if (text == NULL) {
        mistake(rule, PR_EINVAL, "a matcher needs a text");
        return;
    }
    if (texts == NULL) {
        mistake(rule, PR_ENOMEM, "out of memory for a rule");
        return;
    }
    *texts = copy(rule, text);
    add_part(rule, (struct matcher){ .kind = kind, .texts = texts, .text_count = 1 });
}

static void add_range(struct pr_rule *rule, enum matcher_kind kind, int64_t min, int64_t max)
{
    if (min > max)
        mistake(rule, PR_EINVAL, "min is greater than max");
    add_part(rule, (struct matcher){ .kind = kind, .min = min, .max = max });
}

PR_API void pr_rule_when_reason(struct pr_rule *rule, enum pr_reason reason)
{
    if (!reason_is_known((int)reason)) {
        mistake(rule, PR_EINVAL, "unknown reason");
        return;
    }
    add_part(rule, (struct matcher){ .kind = MATCH_REASON, .mask = matcher_reason_bit((int)reason) });
}

PR_API void pr_rule_when_class(struct pr_rule *rule, const char *name)
{
    for (enum reason_class c = CLASS_TRANSIENT; c <= CLASS_UNKNOWN; c++) {
        if (name != NULL && strcmp(name, reason_class_name(c)) == 0) {
            add_part(rule, (struct matcher){ .kind = MATCH_CLASS, .mask = UINT32_C(1) << c });
            return;
        }
    }
    mistake(rule, PR_EINVAL, "a class must be transient, permanent or unknown");
}

PR_API void pr_rule_when_code(struct pr_rule *rule, const char *glob)
{
    add_text(rule, MATCH_CODE, glob);
}

PR_API void pr_rule_when_error(struct pr_rule *rule, const char *contains)
{
    add_text(rule, MATCH_CONTAINS, contains);
}

PR_API void pr_rule_when_error_glob(struct pr_rule *rule, const char *glob)
{
    add_text(rule, MATCH_ERROR, glob);
}

PR_API void pr_rule_when_type(struct pr_rule *rule, const char *glob)
{
    add_text(rule, MATCH_TYPE, glob);
}

PR_API void pr_rule_when_endpoint(struct pr_rule *rule, const char *glob)
{
    add_text(rule, MATCH_ENDPOINT, glob);
}

PR_API void pr_rule_when_stream(struct pr_rule *rule, const char *glob)
{
    add_text(rule, MATCH_STREAM, glob);
}

PR_API void pr_rule_when_size(struct pr_rule *rule, int64_t min_bytes, int64_t max_bytes)
{
    add_range(rule, MATCH_SIZE, min_bytes, max_bytes);
}

PR_API void pr_rule_when_age(struct pr_rule *rule, int64_t min_us, int64_t max_us)
{
    add_range(rule, MATCH_AGE, min_us, max_us);
}

PR_API void pr_rule_when_failures(struct pr_rule *rule, int min, int max)
{
    add_range(rule, MATCH_FAILURES, min, max);
}

static void begin_group(struct pr_rule *rule, enum matcher_kind kind)
{
    struct part *part = add_part(rule, (struct matcher){ .kind = kind });

    if (part != NULL)
        rule->open = part;
}

PR_API void pr_rule_and(struct pr_rule *rule)
{
    begin_group(rule, MATCH_ALL);
}

PR_API void pr_rule_or(struct pr_rule *rule)
{
    begin_group(rule, MATCH_ANY);
}

/* Not of a single matcher: its content is an "and" of its own. */
PR_API void pr_rule_not(struct pr_rule *rule)
{
    begin_group(rule, MATCH_NOT);
    begin_group(rule, MATCH_ALL);
}

PR_API void pr_rule_end(struct pr_rule *rule)
{
    if (rule->open->parent == NULL) {
        mistake(rule, PR_EINVAL, "pr_rule_end() without a preceding and, or, not");
        return;
    }
    rule->open = rule->open->parent;
    if (rule->open->m.kind == MATCH_NOT)
        rule->open = rule->open->parent;
}

/* ---- Then -------------------------------------------------------------------------------- */

/* The current step; a new one when it already has an action, or when `new` requests it. */
static struct rule_step *step(struct pr_rule *rule, bool new)
{
    static struct rule_step none; /* receives values after a mistake, and is never read */

    if ((new && !rule->bare) || rule->rule.step_count == 0) {
        if (rule->rule.step_count == RULE_STEPS_MAX) {
            mistake(rule, PR_EINVAL, "a rule has too many steps");
            return &none;
        }
        rule->steps[rule->rule.step_count++] = (struct rule_step){ .step = STEP_PAUSE };
        rule->bare = true;
    }
    return &rule->steps[rule->rule.step_count - 1];
}

static struct rule_step *action(struct pr_rule *rule, enum step kind)
{
    struct rule_step *s = step(rule, true);

    s->step = kind;
    rule->bare = false;
    return s;
}

PR_API void pr_rule_retry_now(struct pr_rule *rule, int times)
{
    action(rule, STEP_RETRY_NOW)->times = times;
}

PR_API void pr_rule_retry(struct pr_rule *rule, const int64_t *delays_us, size_t count)
{
    struct rule_step *s = action(rule, STEP_RETRY);
    int64_t *delays;

    if (delays_us == NULL || count == 0 || count > RETRY_DELAYS_MAX) {
        mistake(rule, PR_EINVAL, "pr_rule_retry() needs 1 to 64 delays");
        return;
    }
    delays = arena_dup(&rule->arena, delays_us, count * sizeof *delays);
    if (delays == NULL) {
        mistake(rule, PR_ENOMEM, "out of memory for a rule");
        return;
    }
    s->retry = (struct retry_setting){ .delays = delays, .delay_count = count };
}

PR_API void pr_rule_backoff(struct pr_rule *rule, int64_t base_us, double factor, int64_t cap_us, int failures,
                            double jitter)
{
    action(rule, STEP_RETRY)->retry = (struct retry_setting){
        .base_us = base_us, .factor = factor, .cap_us = cap_us, .failures = failures, .jitter = jitter
    };
}

PR_API void pr_rule_dead_letter(struct pr_rule *rule, const char *to)
{
    struct rule_step *s = action(rule, STEP_DEAD_LETTER);

    if (to != NULL)
        s->to = copy(rule, to);
}

PR_API void pr_rule_discard(struct pr_rule *rule)
{
    action(rule, STEP_DISCARD);
}

PR_API void pr_rule_park(struct pr_rule *rule)
{
    action(rule, STEP_PARK);
}

PR_API void pr_rule_then(struct pr_rule *rule)
{
    rule->bare = false;
    step(rule, true);
}

PR_API void pr_rule_pause(struct pr_rule *rule, int64_t for_us)
{
    if (for_us <= 0)
        mistake(rule, PR_EINVAL, "a pause must be longer than 0");
    step(rule, false)->pause_us = for_us;
}

PR_API void pr_rule_raise(struct pr_rule *rule, const struct pr_raise *raise)
{
    struct raise *own = arena_zalloc(&rule->arena, sizeof *own);

    if (own == NULL) {
        mistake(rule, PR_ENOMEM, "out of memory for a rule");
        return;
    }
    own->type = copy(rule, raise->type);
    own->to = copy(rule, raise->to);
    own->stream = copy(rule, raise->stream);
    own->payload = copy(rule, raise->payload);
    step(rule, false)->raise = own;
}

PR_API void pr_rule_call(struct pr_rule *rule, const char *name)
{
    step(rule, false)->call = copy(rule, name);
}

/* ---- The rule ------------------------------------------------------------------------------ */

/* Lists become arrays. */
static bool close_part(struct pr_rule *rule, const struct part *part, struct matcher *ret)
{
    struct matcher *parts = arena_alloc_array(&rule->arena, part->m.part_count, sizeof *parts);
    size_t n = 0;

    if (parts == NULL)
        return false;
    *ret = part->m;
    ret->parts = parts;
    for (const struct part *p = part->first; p != NULL; p = p->next)
        if (!close_part(rule, p, &parts[n++]))
            return false;
    return true;
}

/* A step without an action of its own is its call, or its pause. */
static void close_steps(struct pr_rule *rule)
{
    for (size_t i = 0; i < rule->rule.step_count; i++)
        if (rule->steps[i].step == STEP_PAUSE && rule->steps[i].call.size > 0)
            rule->steps[i].step = STEP_CALL;
    rule->rule.steps = rule->steps;
}

int rule_finish(struct pr_rule *rule, const struct rule **ret, struct pr_error *reterr)
{
    if (rule->error.code == PR_OK && rule->open != &rule->when)
        mistake(rule, PR_EINVAL, "and, or, not need a pr_rule_end()");
    if (rule->error.code == PR_OK && !close_part(rule, &rule->when, &rule->rule.when))
        mistake(rule, PR_ENOMEM, "out of memory for a rule");
    if (rule->error.code != PR_OK)
        return error_set(reterr, rule->error.code, "rule %.*s: %s", SLICE_ARGS(rule->rule.name), rule->error.text);
    close_steps(rule);
    *ret = &rule->rule;
    return PR_OK;
}

void rule_keep(struct pr_rule **list, struct pr_rule *rule)
{
    rule->next = *list;
    *list = rule;
}
