/* Rules: from the tree to struct rule.  The keys are in the tables of config_options_rule.c. */
#include <limits.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/reason.h"
#include "runtime/config/config_notes.h"
#include "runtime/config/config_suggest.h"

static int no_memory(const struct config_reader *reader)
{
    return error_set(reader->reterr, PR_ENOMEM, "%s: out of memory", reader->source->name);
}

static const char *join(const struct config_reader *reader, const char *path, const char *name)
{
    return arena_printf(&reader->config->arena, "%s.%s", path, name).data;
}

/* ---- Values ---- */

static int read_text(const struct config_reader *reader, const struct node *node, const char *path, pr_slice *ret)
{
    if (node->kind != NODE_SCALAR || node->text[0] == '\0')
        return config_fail(reader, node, "%s: needs a text", path);
    *ret = slice_from(node->text);
    return PR_OK;
}

/* A single word is a list of one. */
static int read_texts(const struct config_reader *reader, const struct node *node, const char *path,
                      const pr_slice **ret, size_t *ret_count)
{
    const struct node *item = node->kind == NODE_LIST ? node->first : node;
    size_t count = node->kind == NODE_LIST ? node->count : 1;
    pr_slice *texts = arena_alloc_array(&reader->config->arena, count, sizeof(*texts));

    if (texts == NULL)
        return no_memory(reader);
    if (node->kind == NODE_MAP || count == 0 || count > MATCHER_LIST_MAX)
        return config_fail(reader, node, "%s: needs a text, or a list of 1 to %d", path, MATCHER_LIST_MAX);
    for (size_t i = 0; i < count; i++, item = item->next) {
        int r = read_text(reader, item, path, &texts[i]);
        if (r != PR_OK)
            return r;
        if (texts[i].size > MATCHER_TEXT_MAX)
            return config_fail(reader, item, "%s: at most %d bytes are allowed", path, MATCHER_TEXT_MAX);
    }
    *ret = texts;
    *ret_count = count;
    return PR_OK;
}

static int read_number(const struct config_reader *reader, const struct option *option, const struct node *node,
                       const char *path, int64_t *ret)
{
    struct pr_error why;
    int count = 0;

    if (node->kind != NODE_SCALAR)
        return config_fail(reader, node, "%s: needs a %s", path, option_kind_name(option->kind));
    if (option_parse(option, node->text, node->shown, option->kind == OPTION_COUNT ? (void *)&count : (void *)ret,
                     &why) != PR_OK)
        return config_fail(reader, node, "%s: %s", path, why.text);
    if (option->kind == OPTION_COUNT)
        *ret = count;
    return PR_OK;
}

/* {min: .., max: ..}; a single count means exactly that count. */
static int read_range(const struct config_reader *reader, const struct option *value, const struct node *node,
                      const char *path, struct matcher *ret)
{
    int r = PR_OK;

    ret->min = value->min;
    ret->max = value->max;
    if (node->kind == NODE_SCALAR && value->kind == OPTION_COUNT) {
        r = read_number(reader, value, node, path, &ret->min);
        ret->max = ret->min;
        return r;
    }
    if (node->kind != NODE_MAP || node->count == 0)
        return config_fail(reader, node, "%s: needs a map such as {min: 1, max: 3}", path);
    r = config_check_keys(reader, &option_range, node, path);
    for (const struct node *c = node->first; c != NULL && r == PR_OK; c = c->next) {
        const char *own = join(reader, path, c->key);
        r = own == NULL ? no_memory(reader)
                        : read_number(reader, value, c, own, strcmp(c->key, "min") == 0 ? &ret->min : &ret->max);
    }
    if (r == PR_OK && ret->min > ret->max)
        r = config_fail(reader, node, "%s: min is greater than max", path);
    return r;
}

/* ---- Matchers ---- */

/* The bit of one word, or 0. */
static uint32_t reason_bit(pr_slice word)
{
    int reason = reason_parse(word);
    return reason != PR_REASON_NONE ? matcher_reason_bit(reason) : 0;
}

static uint32_t class_bit(pr_slice word)
{
    for (enum reason_class c = CLASS_TRANSIENT; c <= CLASS_UNKNOWN; c++)
        if (slice_eq_cstr(word, reason_class_name(c)))
            return UINT32_C(1) << c;
    return 0;
}

static void suggest_word(struct suggestion *near, enum matcher_kind kind, pr_slice word)
{
    for (int i = 1; kind == MATCH_REASON && i <= PR_REASON_UNKNOWN; i++)
        if (reason_is_known(i))
            suggest_try(near, word, pr_reason_name(i));
    for (enum reason_class c = CLASS_TRANSIENT; kind == MATCH_CLASS && c <= CLASS_UNKNOWN; c++)
        suggest_try(near, word, reason_class_name(c));
}

static int unknown_word(const struct config_reader *reader, const struct node *item, const char *path,
                        enum matcher_kind kind, pr_slice word)
{
    struct suggestion near = { 0 };
    struct buf all;
    int r;

    suggest_word(&near, kind, word);
    if (near.best != NULL)
        return config_fail(reader, item, "%s: unknown value \"%s\"; did you mean %s?", path, item->shown, near.best);
    buf_init(&all, 1024);
    for (int i = 1; kind == MATCH_REASON && i <= PR_REASON_UNKNOWN; i++)
        if (reason_is_known(i))
            buf_addf(&all, "%s%s", i > 1 ? ", " : "", pr_reason_name(i));
    for (enum reason_class c = CLASS_TRANSIENT; kind == MATCH_CLASS && c <= CLASS_UNKNOWN; c++)
        buf_addf(&all, "%s%s", c > CLASS_TRANSIENT ? ", " : "", reason_class_name(c));
    r = config_fail(reader, item, "%s: unknown value \"%s\"; use one of %.*s", path, item->shown,
                    SLICE_ARGS(buf_slice(&all)));
    buf_fini(&all);
    return r;
}

static int read_words(const struct config_reader *reader, const struct node *node, const char *path,
                      struct matcher *ret)
{
    const struct node *item = node->kind == NODE_LIST ? node->first : node;
    const pr_slice *words;
    size_t count;
    int r = read_texts(reader, node, path, &words, &count);

    for (size_t i = 0; r == PR_OK && i < count; i++, item = item->next) {
        uint32_t bit = ret->kind == MATCH_REASON ? reason_bit(words[i]) : class_bit(words[i]);

        ret->mask |= bit;
        if (bit == 0)
            return unknown_word(reader, item, path, ret->kind, words[i]);
    }
    return r;
}

static int read_when(const struct config_reader *reader, const struct node *node, int depth, const char *path,
                     struct matcher *ret);

/* error: "text", or {contains: .., glob: ..} */
static int read_error(const struct config_reader *reader, const struct node *node, const char *path,
                      struct matcher *ret)
{
    struct matcher *parts;
    size_t n = 0;
    int r;

    if (node->kind != NODE_MAP) {
        ret->kind = MATCH_CONTAINS;
        return read_texts(reader, node, path, &ret->texts, &ret->text_count);
    }
    r = config_check_keys(reader, &option_match_error, node, path);
    parts = arena_alloc_array(&reader->config->arena, node->count, sizeof(*parts));
    if (r == PR_OK && parts == NULL)
        return no_memory(reader);
    for (const struct node *c = node->first; c != NULL && r == PR_OK; c = c->next, n++) {
        const char *own = join(reader, path, c->key);
        parts[n].kind = strcmp(c->key, "glob") == 0 ? MATCH_ERROR : MATCH_CONTAINS;
        r = own == NULL ? no_memory(reader) : read_texts(reader, c, own, &parts[n].texts, &parts[n].text_count);
    }
    *ret = (struct matcher){ .kind = MATCH_ALL, .parts = parts, .part_count = n };
    return r;
}

/* and, or: lists of matchers; not: one. */
static int read_group(const struct config_reader *reader, const struct node *node, enum matcher_kind kind, int depth,
                      const char *path, struct matcher *ret)
{
    size_t count = kind == MATCH_NOT ? 1 : node->count, n = 0;
    const struct node *part = kind == MATCH_NOT ? node : node->first;
    struct matcher *parts = arena_alloc_array(&reader->config->arena, count, sizeof(*parts));
    int r = PR_OK;

    if (parts == NULL)
        return no_memory(reader);
    if (depth >= MATCHER_DEPTH_MAX)
        return config_fail(reader, node, "%s: and, or, not can be nested at most %d deep", path, MATCHER_DEPTH_MAX);
    if (kind != MATCH_NOT && (node->kind != NODE_LIST || count == 0 || count > MATCHER_LIST_MAX))
        return config_fail(reader, node, "%s: needs a list of 1 to %d matchers", path, MATCHER_LIST_MAX);
    for (; r == PR_OK && n < count; n++, part = part->next) {
        const char *own = kind == MATCH_NOT ? path : arena_printf(&reader->config->arena, "%s[%zu]", path, n).data;
        r = own == NULL ? no_memory(reader) : read_when(reader, part, depth + 1, own, &parts[n]);
    }
    *ret = (struct matcher){ .kind = kind, .parts = parts, .part_count = count };
    return r;
}

static int read_leaf(const struct config_reader *reader, const struct option *option, const struct node *node,
                     int depth, const char *path, struct matcher *ret)
{
    static const struct option sizes = { .kind = OPTION_SIZE, .min = 0, .max = PR_PAYLOAD_MAX };
    static const struct option ages = { .kind = OPTION_DURATION, .min = 0, .max = INT64_MAX };
    static const struct option counts = { .kind = OPTION_COUNT, .min = 1, .max = INT_MAX };

    ret->kind = (enum matcher_kind)option->min;
    switch (ret->kind) {
    case MATCH_ALL:
    case MATCH_ANY:
    case MATCH_NOT: return read_group(reader, node, ret->kind, depth, path, ret);
    case MATCH_REASON:
    case MATCH_CLASS: return read_words(reader, node, path, ret);
    case MATCH_SIZE: return read_range(reader, &sizes, node, path, ret);
    case MATCH_AGE: return read_range(reader, &ages, node, path, ret);
    case MATCH_FAILURES: return read_range(reader, &counts, node, path, ret);
    case MATCH_ERROR: return read_error(reader, node, path, ret);
    default: return read_texts(reader, node, path, &ret->texts, &ret->text_count);
    }
}

/* All keys of the map must match. */
static int read_when(const struct config_reader *reader, const struct node *node, int depth, const char *path,
                     struct matcher *ret)
{
    struct matcher *parts;
    size_t n = 0;
    int r;

    if (node->kind != NODE_MAP || node->count == 0)
        return config_fail(reader, node, "%s: needs a map of matchers, such as {reason: rejected}", path);
    r = config_check_keys(reader, &option_when, node, path);
    parts = arena_alloc_array(&reader->config->arena, node->count, sizeof(*parts));
    if (parts == NULL)
        return no_memory(reader);
    for (const struct node *c = node->first; c != NULL && r == PR_OK; c = c->next, n++) {
        const char *own = join(reader, path, c->key);
        r = own == NULL ? no_memory(reader)
                        : read_leaf(reader, option_find(&option_when, c->key), c, depth, own, &parts[n]);
    }
    *ret = (struct matcher){ .kind = MATCH_ALL, .parts = parts, .part_count = n };
    return r;
}

/* ---- Steps ---- */

/* An endpoint of the file, whether it was read already or not. */
static int read_endpoint(const struct config_reader *reader, const struct node *node, const char *path, pr_slice *ret)
{
    const struct node *endpoints = node_find(reader->root, "endpoints");
    struct suggestion near = { 0 };
    int r = read_text(reader, node, path, ret);

    if (r != PR_OK)
        return r;
    for (const struct node *c = endpoints != NULL ? endpoints->first : NULL; c != NULL; c = c->next) {
        if (c->key != NULL && slice_eq_cstr(*ret, c->key))
            return PR_OK;
        if (c->key != NULL)
            suggest_try(&near, *ret, c->key);
    }
    return near.best != NULL
               ? config_fail(reader, node, "%s: unknown endpoint \"%s\"; did you mean %s?", path, node->shown,
                             near.best)
               : config_fail(reader, node, "%s: unknown endpoint \"%s\"; add it under endpoints", path, node->shown);
}

static int read_raise(const struct config_reader *reader, const struct node *node, const char *path,
                      struct rule_step *ret)
{
    struct raise *raise = arena_zalloc(&reader->config->arena, sizeof(*raise));
    int r;

    if (raise == NULL)
        return no_memory(reader);
    if (node->kind != NODE_MAP || node_find(node, "type") == NULL)
        return config_fail(reader, node, "%s: needs a map with a type, such as {type: sending.failed, to: alerts}",
                           path);
    r = config_check_keys(reader, &option_raise, node, path);
    for (const struct node *c = node->first; c != NULL && r == PR_OK; c = c->next) {
        const char *own = join(reader, path, c->key);
        if (own == NULL)
            return no_memory(reader);
        if (strcmp(c->key, "to") == 0)
            r = read_endpoint(reader, c, own, &raise->to);
        else
            r = read_text(reader, c, own,
                          strcmp(c->key, "type") == 0     ? &raise->type
                          : strcmp(c->key, "stream") == 0 ? &raise->stream
                                                          : &raise->payload);
    }
    ret->raise = raise;
    return r;
}

static int read_dead_letter(const struct config_reader *reader, const struct node *node, const char *path,
                            struct rule_step *ret)
{
    const struct node *to = node->kind == NODE_MAP ? node_find(node, "to") : NULL;
    const char *own = join(reader, path, "to");
    int r = PR_OK;

    if (own == NULL)
        return no_memory(reader);
    if (node->kind == NODE_LIST || (node->kind == NODE_SCALAR && !node_is_null(node)))
        return config_fail(reader, node, "%s: needs {} or {to: ENDPOINT}", path);
    if (node->kind == NODE_MAP)
        r = config_check_keys(reader, &option_dead_letter, node, path);
    return r == PR_OK && to != NULL ? read_endpoint(reader, to, own, &ret->to) : r;
}

static int read_step_retry(struct config_reader *reader, const struct node *node, const char *path,
                           struct rule_step *ret)
{
    static const char *const of_endpoints[] = { "blame", "give_up" };

    ret->retry = retry_default;
    ret->retry.blame = BLAME_ALWAYS; /* every failure counts for a rule */
    for (size_t i = 0; i < ARRAY_LENGTH(of_endpoints) && node->kind == NODE_MAP; i++)
        if (node_find(node, of_endpoints[i]) != NULL)
            return config_fail_at_key(reader, node_find(node, of_endpoints[i]),
                                      "%s.%s: a rule counts every failure; this is for the retry of an endpoint", path,
                                      of_endpoints[i]);
    if (node->kind == NODE_SCALAR && !node_is_null(node)) { /* retry: 5s */
        struct node *list = arena_dup(&reader->config->arena, node, sizeof(*node));
        if (list == NULL || (list->first = arena_dup(&reader->config->arena, node, sizeof(*node))) == NULL)
            return no_memory(reader);
        list->first->next = NULL;
        list->kind = NODE_LIST;
        list->count = 1;
        node = list;
    }
    return config_read_retry(reader, node, &ret->retry, path);
}

static int read_pause(const struct config_reader *reader, const struct node *node, const char *path,
                      struct rule_step *ret)
{
    static const char *const until_resumed[] = { "until_resumed", NULL }; /* 0 */
    static const struct option pause = {
        .kind = OPTION_DURATION, .min = 1, .max = RETRY_DELAY_MAX_US, .choices = until_resumed
    };
    int r = read_number(reader, &pause, node, path, &ret->pause_us);

    if (r == PR_OK && ret->pause_us == 0)
        ret->pause_us = PR_NEVER;
    return r;
}

/* discard and park have no options. */
static int read_nothing(const struct config_reader *reader, const struct node *node, const char *path)
{
    if (node_is_null(node) || (node->kind == NODE_MAP && node->count == 0))
        return PR_OK;
    return config_fail(reader, node, "%s: takes no value; use %s: {}", path, node->key);
}

static int read_action(struct config_reader *reader, enum step_key key, const struct node *node, const char *path,
                       struct rule_step *ret)
{
    static const struct option times = { .kind = OPTION_COUNT, .min = 1, .max = RETRY_NOW_MAX };
    int64_t n = 0;
    int r;

    switch (key) {
    case STEP_KEY_RETRY_NOW:
        r = read_number(reader, &times, node, path, &n);
        ret->times = (int)n;
        return r;
    case STEP_KEY_RETRY: return read_step_retry(reader, node, path, ret);
    case STEP_KEY_DEAD_LETTER: return read_dead_letter(reader, node, path, ret);
    case STEP_KEY_DISCARD:
    case STEP_KEY_PARK: return read_nothing(reader, node, path);
    case STEP_KEY_PAUSE: return read_pause(reader, node, path, ret);
    case STEP_KEY_RAISE: return read_raise(reader, node, path, ret);
    case STEP_KEY_CALL:
        ret->place =
            arena_printf(&reader->config->arena, "%s:%d:%d: %s", reader->source->name, node->line, node->column, path);
        return ret->place.data == NULL ? no_memory(reader) : read_text(reader, node, path, &ret->call);
    }
    return PR_OK;
}

/* A step has at most one of these; the others accompany it. */
static bool is_main(enum step_key key, enum step *ret)
{
    switch (key) {
    case STEP_KEY_RETRY_NOW: *ret = STEP_RETRY_NOW; return true;
    case STEP_KEY_RETRY: *ret = STEP_RETRY; return true;
    case STEP_KEY_DEAD_LETTER: *ret = STEP_DEAD_LETTER; return true;
    case STEP_KEY_DISCARD: *ret = STEP_DISCARD; return true;
    case STEP_KEY_PARK: *ret = STEP_PARK; return true;
    default: return false;
    }
}

static int read_step_map(struct config_reader *reader, const struct node *node, const char *path, struct rule_step *ret)
{
    const struct node *first = NULL;
    int r = config_check_keys(reader, &option_step, node, path);

    *ret = (struct rule_step){ .step = STEP_PAUSE };
    for (const struct node *c = node->first; c != NULL && r == PR_OK; c = c->next) {
        enum step_key key = (enum step_key)option_find(&option_step, c->key)->min;
        const char *own = join(reader, path, c->key);

        if (own == NULL)
            return no_memory(reader);
        if (is_main(key, &ret->step)) {
            if (first != NULL)
                return config_fail_at_key(reader, c, "%s: cannot be combined with %s; make a list of two steps", own,
                                          first->key);
            first = c;
        }
        r = read_action(reader, key, c, own, ret);
    }
    if (r != PR_OK || first != NULL)
        return r;
    if (ret->call.size > 0)
        ret->step = STEP_CALL;
    else if (ret->pause_us == 0)
        return config_fail(reader, node,
                           "%s: no action for the message; add retry, dead_letter, discard, park or pause", path);
    return PR_OK;
}

/* "dead_letter" alone is short for {dead_letter: {}}. */
static int read_step(struct config_reader *reader, const struct node *node, const char *path, struct rule_step *ret)
{
    static const char *const words[] = { "dead_letter", "discard", "park" };
    static const enum step steps[] = { STEP_DEAD_LETTER, STEP_DISCARD, STEP_PARK };
    struct suggestion near = { 0 };

    if (node->kind == NODE_MAP)
        return read_step_map(reader, node, path, ret);
    for (size_t i = 0; i < ARRAY_LENGTH(words) && node->kind == NODE_SCALAR; i++) {
        if (strcmp(node->text, words[i]) == 0) {
            *ret = (struct rule_step){ .step = steps[i] };
            return PR_OK;
        }
        suggest_try(&near, slice_from(node->text), words[i]);
    }
    if (near.best != NULL)
        return config_fail(reader, node, "%s: unknown step \"%s\"; did you mean %s?", path, node->shown, near.best);
    return node->kind == NODE_SCALAR
               ? config_fail(
                     reader, node,
                     "%s: unknown step \"%s\"; use dead_letter, discard, park, or a map such as {retry: [5s, 30s]}",
                     path, node->shown)
               : config_fail(reader, node, "%s: needs a step: a word, or a map such as {retry: [5s, 30s]}", path);
}

static int read_then(struct config_reader *reader, const struct node *node, const char *path, struct rule *ret)
{
    const struct node *item = node->kind == NODE_LIST ? node->first : node;
    size_t count = node->kind == NODE_LIST ? node->count : 1;
    struct rule_step *steps = arena_alloc_array(&reader->config->arena, count, sizeof(*steps));
    int r = PR_OK;

    if (steps == NULL)
        return no_memory(reader);
    if (count == 0 || count > RULE_STEPS_MAX)
        return config_fail(reader, node, "%s: needs 1 to %d steps", path, RULE_STEPS_MAX);
    for (size_t i = 0; r == PR_OK && i < count; i++, item = item->next) {
        const char *own =
            node->kind == NODE_LIST ? arena_printf(&reader->config->arena, "%s[%zu]", path, i).data : path;
        r = own == NULL ? no_memory(reader) : read_step(reader, item, own, &steps[i]);
    }
    ret->steps = steps;
    ret->step_count = count;
    return r;
}

/* ---- Rules ---- */

static int read_rule(struct config_reader *reader, const struct node *node, size_t index, const char *path,
                     struct rule *ret)
{
    const struct node *name = node_find(node, "name"), *when = node_find(node, "when"), *then = node_find(node, "then");
    const char *name_path = join(reader, path, "name"), *when_path = join(reader, path, "when");
    const char *then_path = join(reader, path, "then");
    struct pr_error why;
    int r;

    if (name_path == NULL || when_path == NULL || then_path == NULL)
        return no_memory(reader);
    if (node->kind != NODE_MAP)
        return config_fail(reader, node, "%s: needs a map with name, when and then", path);
    r = config_check_keys(reader, &option_rule, node, path);
    if (r == PR_OK && then == NULL)
        r = config_fail(reader, node, "%s: then is missing", path);
    ret->when = (struct matcher){ .kind = MATCH_ALL };
    ret->name = arena_printf(&reader->config->arena, "rule %zu", index + 1);
    if (r == PR_OK && ret->name.data == NULL)
        return no_memory(reader);
    if (r == PR_OK && name != NULL)
        r = read_text(reader, name, name_path, &ret->name);
    if (r == PR_OK && when != NULL)
        r = read_when(reader, when, 0, when_path, &ret->when);
    if (r == PR_OK && then != NULL) /* it is required */
        r = read_then(reader, then, then_path, ret);
    if (r == PR_OK && rule_check(ret, &why) != PR_OK)
        r = config_fail(reader, node, "%s: %s", path, why.text);
    return r;
}

int config_read_rules(struct config_reader *reader, const struct option *option, const struct node *list, void *target,
                      const char *path)
{
    struct rule *rules;
    size_t n = 0;
    int r = PR_OK;

    if (list == NULL || node_is_null(list))
        return PR_OK;
    if (list->kind != NODE_LIST)
        return config_fail(reader, list, "%s: needs a list of rules", path);
    if (list->count > RULES_MAX)
        return config_fail(reader, list, "%s: more than %d", path, RULES_MAX);
    rules = arena_alloc_array(&reader->config->arena, list->count, sizeof(*rules));
    if (rules == NULL)
        return no_memory(reader);
    reader->in_list = true; /* entries of lists have no variables */
    for (const struct node *c = list->first; c != NULL && r == PR_OK; c = c->next, n++) {
        const char *own = arena_printf(&reader->config->arena, "%s[%zu]", path, n).data;
        r = own == NULL ? no_memory(reader) : read_rule(reader, c, n, own, &rules[n]);
    }
    reader->in_list = false;
    memcpy((char *)target + option->offset, &rules, sizeof(rules));
    memcpy((char *)target + option->count_offset, &list->count, sizeof(list->count));
    return r == PR_OK &&
                   config_note_set(reader->config, (char *)target + option->offset, ORIGIN_FILE, list, NULL) != PR_OK
               ? no_memory(reader)
               : r;
}
