/* From the tree to the structs, driven by the option tables. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "runtime/config/config_notes.h"
#include "runtime/config/config_suggest.h"
#include "runtime/config/config_variables.h"
#include "transport/http/egress_filter.h"

int config_fail(const struct config_reader *reader, const struct node *node, const char *format, ...)
{
    char text[PR_ERROR_TEXT_SIZE];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args); /* error_set() cuts at a character */
    va_end(args);
    if (node == NULL)
        return error_set(reader->reterr, PR_ECONFIG, "%s: %s", reader->source->name, text);
    if (node->variable != NULL)
        return error_set(reader->reterr, PR_ECONFIG, "environment variable %s: %s", node->variable, text);
    return error_set(reader->reterr, PR_ECONFIG, "%s:%d:%d: %s", reader->source->name, node->line, node->column, text);
}

int config_fail_at_key(const struct config_reader *reader, const struct node *node, const char *format, ...)
{
    char text[PR_ERROR_TEXT_SIZE];
    va_list args;
    struct node place = { .line = node->key_line, .column = node->key_column };

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return config_fail(reader, &place, "%s", text);
}

static int no_memory(const struct config_reader *reader)
{
    return error_set(reader->reterr, PR_ENOMEM, "%s: out of memory", reader->source->name);
}

static const char *kind_of(const struct node *node)
{
    return node->kind == NODE_MAP ? "a map" : node->kind == NODE_LIST ? "a list" : "a single value";
}

static const char *join(const struct config_reader *reader, const char *path, const char *name)
{
    return arena_printf(&reader->config->arena, "%s%s%s", path, path[0] != '\0' ? "." : "", name).data;
}

static int note(struct config_reader *reader, const void *field, enum origin origin, const struct node *node,
                const char *shown)
{
    return config_note_set(reader->config, field, origin, node, shown) == PR_OK ? PR_OK : no_memory(reader);
}

/* Notes that the value was set, in the file or in the environment. */
static int note_said(struct config_reader *reader, const void *field, const struct node *node, const char *shown)
{
    return note(reader, field, node->variable != NULL ? ORIGIN_ENVIRONMENT : ORIGIN_FILE, node, shown);
}

/* ---- Values of one piece ---- */

/* limits.payload -> POSTRIDER_LIMITS__PAYLOAD; false: the name would be too long. */
static bool variable_name(const char *path, char ret[VARIABLE_MAX])
{
    size_t n = sizeof(VARIABLE_PREFIX) - 1;

    memcpy(ret, VARIABLE_PREFIX, n);
    for (const char *c = path; *c != '\0'; c++) {
        if (n + 3 > VARIABLE_MAX)
            return false;
        if (*c == '.')
            ret[n++] = '_';
        if (*c >= 'a' && *c <= 'z')
            ret[n++] = (char)(*c - 'a' + 'A');
        else
            ret[n++] = (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ? *c : '_';
    }
    ret[n] = '\0';
    return true;
}

/* The environment is stronger than the file: the node to read instead, or NULL. */
static struct node *from_environment(struct config_reader *reader, const char *path)
{
    char name[VARIABLE_MAX];
    const char *value;

    if (reader->in_list || !variable_name(path, name) ||
        (value = config_variables_get(reader->source->variables, name)) == NULL)
        return NULL;
    struct node *node = arena_zalloc(&reader->config->arena, sizeof(*node));
    if (node != NULL) {
        node->kind = NODE_SCALAR;
        node->text = node->shown = slice_dup(&reader->config->arena, slice_from(value)).data;
        node->variable = slice_dup(&reader->config->arena, slice_from(name)).data;
    }
    return node;
}

/* The same for a list, separated by commas. */
static struct node *list_from_environment(struct config_reader *reader, const char *path)
{
    struct node *list = from_environment(reader, path);
    struct node **end = list != NULL ? &list->first : NULL;
    const char *text = list != NULL ? list->text : NULL;

    while (text != NULL && *text != '\0') {
        size_t size = strcspn(text, ",");
        struct node *item = arena_zalloc(&reader->config->arena, sizeof(*item));

        if (item == NULL)
            return NULL;
        item->text = item->shown = slice_dup(&reader->config->arena, slice_trim((pr_slice){ text, size })).data;
        item->variable = list->variable;
        *end = item;
        end = &item->next;
        list->count++;
        text += size + (text[size] == ',');
    }
    if (list != NULL)
        list->kind = NODE_LIST;
    return list;
}

static int read_default(struct config_reader *reader, const struct option *option, void *field)
{
    const char *text, *shown;
    int r;

    if (option->kind == OPTION_RATE) {
        *(struct rate_setting *)field = (struct rate_setting){ 0 };
        return PR_OK;
    }
    if (option->fallback[0] == '\0' && (option->kind == OPTION_WORD || option->kind == OPTION_PRESET)) {
        *(const char **)field = "";
        return PR_OK;
    }
    r = node_expand(slice_from(option->fallback), reader->source, &reader->config->arena, &text, &shown,
                    reader->reterr);
    return r != PR_OK ? r : option_parse(option, text, shown, field, reader->reterr);
}

static int apply_endpoint_preset(struct config_reader *reader, struct config_endpoint *endpoint)
{
    bool known = option_preset(endpoint->preset, &endpoint->retry, &endpoint->breaker);

    ASSERT(known); /* option_parse() has found it in the same table */
    for (size_t i = 0; i < option_retry.count; i++) {
        const struct option *option = &option_retry.options[i];

        if (note(reader, (char *)&endpoint->retry + option->offset, ORIGIN_PRESET, NULL, NULL) != PR_OK)
            return PR_ENOMEM;
    }
    return note(reader, &endpoint->breaker.enabled, ORIGIN_PRESET, NULL, NULL);
}

static int read_value(struct config_reader *reader, const struct option *option, const struct node *node, void *target,
                      const char *path)
{
    struct pr_error why;
    const struct node *variable = from_environment(reader, path);
    void *field = (char *)target + option->offset;

    if (variable != NULL)
        node = variable;
    if (node == NULL)
        return PR_OK;
    if (node->kind != NODE_SCALAR)
        return config_fail(reader, node, "%s: needs a %s, not %s", path, option_kind_name(option->kind), kind_of(node));
    if (node_is_null(node) && option->kind != OPTION_TEXT)
        return config_fail(reader, node, "%s: needs a %s, but is empty", path, option_kind_name(option->kind));
    if (option->never_empty && node->text[0] == '\0' && (node->expanded || node->variable != NULL))
        return config_fail(reader, node, "%s: is empty, so everybody would be let in; set it, or remove the key", path);
    if (option_parse(option, node->text, node->shown, field, &why) != PR_OK)
        return config_fail(reader, node, "%s: %s", path, why.text);
    int r = note_said(reader, field, node, node->shown);
    if (r == PR_OK && option->kind == OPTION_PRESET)
        r = option->choices == adopt_presets ? config_source_preset(reader, target)
                                             : apply_endpoint_preset(reader, target);
    return r;
}

/* ---- Lists of values ---- */

static size_t item_size(enum option_kind kind)
{
    return kind == OPTION_NAMES || kind == OPTION_SECRETS ? sizeof(char *)
           : kind == OPTION_NETWORKS                      ? sizeof(struct network)
                                                          : sizeof(int64_t);
}

static int read_item(struct config_reader *reader, const struct option *option, const struct node *item, void *ret,
                     const char *path)
{
    static const struct option delay = { .kind = OPTION_DURATION, .max = RETRY_DELAY_MAX_US };
    struct pr_error why;
    int r = PR_OK;

    if (item->kind != NODE_SCALAR || item->text[0] == '\0')
        return config_fail(reader, item, "%s: the list can only have single values", path);
    switch (option->kind) {
    case OPTION_NAMES:
    case OPTION_SECRETS: *(const char **)ret = item->text; break;
    case OPTION_NETWORKS: r = egress_parse(slice_from(item->text), ret, &why); break;
    default: r = option_parse(&delay, item->text, item->shown, ret, &why);
    }
    return r == PR_OK ? PR_OK : config_fail(reader, item, "%s: %s", path, why.text);
}

/* A single word is a list of one. */
static int read_values(struct config_reader *reader, const struct option *option, const struct node *node, void *target,
                       const char *path)
{
    const struct node *variable = list_from_environment(reader, path);
    size_t size = item_size(option->kind), i = 0;

    if (variable != NULL)
        node = variable;
    if (node == NULL)
        return PR_OK;
    if (node->kind == NODE_MAP || node_is_null(node))
        return config_fail(reader, node, "%s: needs a list", path);
    const struct node *first = node->kind == NODE_LIST ? node->first : node;
    size_t count = node->kind == NODE_LIST ? node->count : 1;

    if (count == 0 || count > (size_t)option->max)
        return config_fail(reader, node, "%s: needs 1 to %d entries, not %zu", path, (int)option->max, count);
    char *items = arena_alloc_array(&reader->config->arena, count, size);
    if (items == NULL)
        return no_memory(reader);
    for (const struct node *item = first; i < count; item = item->next, i++) {
        int r = read_item(reader, option, item, items + i * size, path);
        if (r != PR_OK)
            return r;
    }
    memcpy((char *)target + option->offset, &items, sizeof(items));
    memcpy((char *)target + option->count_offset, &count, sizeof(count));
    return note_said(reader, (char *)target + option->offset, node, NULL);
}

static int read_headers(struct config_reader *reader, const struct option *option, const struct node *map, void *target,
                        const char *path)
{
    const bool globs = !option->secret; /* of routes; those of endpoints are values */
    struct route_header *headers;
    size_t count = 0;

    _Static_assert(sizeof(struct route_header) == sizeof(struct endpoint_header), "both are a name and a text");
    if (map == NULL)
        return PR_OK;
    if (map->kind != NODE_MAP || map->count == 0 || map->count > (size_t)option->max)
        return config_fail(reader, map, "%s: needs a map of 1 to %d headers, such as {x-tenant: acme%s}", path,
                           (int)option->max, globs ? "*" : "");
    headers = arena_alloc_array(&reader->config->arena, map->count, sizeof(*headers));
    if (headers == NULL)
        return no_memory(reader);
    for (const struct node *c = map->first; c != NULL; c = c->next) {
        if (c->kind != NODE_SCALAR)
            return config_fail(reader, c, "%s.%s: needs a %s, not %s", path, c->key, globs ? "glob" : "text",
                               kind_of(c));
        headers[count++] = (struct route_header){ slice_from(c->key), slice_from(c->text) };
    }
    memcpy((char *)target + option->offset, &headers, sizeof(headers));
    memcpy((char *)target + option->count_offset, &count, sizeof(count));
    return note(reader, (char *)target + option->offset, ORIGIN_FILE, map, NULL);
}

/* ---- Retry and breaker: sections with a short form ---- */

/* A configuration that sets when a message is dead means it: unless it also sets blame, every failure counts then. */
static void settle_blame(const struct config_reader *reader, struct retry_setting *retry)
{
    const struct config *config = reader->config;

    if (config_note_find(config, &retry->blame) == NULL &&
        (retry->delay_count > 0 || config_note_find(config, &retry->failures) != NULL))
        retry->blame = BLAME_ALWAYS;
}

int config_read_retry(struct config_reader *reader, const struct node *node, struct retry_setting *retry,
                      const char *path)
{
    static const char *const formula[] = { "base", "factor", "cap", "failures" };
    const struct option *delays = option_find(&option_retry, "delays");
    const struct node *variable = list_from_environment(reader, path);

    if (variable != NULL)
        node = variable;
    if (node != NULL && node->kind == NODE_LIST) {
        int r = read_values(reader, delays, node, retry, path);
        retry->jitter = 0;
        settle_blame(reader, retry);
        return r != PR_OK ? r : note_said(reader, &retry->jitter, node, NULL);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(formula) && node != NULL && node->kind == NODE_MAP; i++) {
        const struct node *own = node_find(node, formula[i]), *table = node_find(node, "delays");

        if (own != NULL && table != NULL)
            return config_fail_at_key(reader, own, "%s.%s: cannot be combined with delays; use the list or the formula",
                                      path, formula[i]);
        if (own != NULL) { /* a formula next to a preset with a table */
            retry->delays = NULL;
            retry->delay_count = 0;
        }
    }
    int r = config_read_section(reader, &option_retry, node, retry, path);
    settle_blame(reader, retry);
    return r;
}

static int read_breaker(struct config_reader *reader, const struct option *option, const struct node *node,
                        struct breaker_setting *breaker, const char *path)
{
    const struct node *variable = from_environment(reader, path);

    if (variable != NULL)
        node = variable;
    if (node != NULL && node->kind == NODE_SCALAR && !node_is_null(node)) {
        bool on = strcmp(node->text, "on") == 0;

        if (!on && strcmp(node->text, "off") != 0)
            return config_fail(reader, node, "%s: unknown value \"%s\"; use off, or a map such as {after: 5, open: 5s}",
                               path, node->shown);
        breaker->enabled = on;
        return note_said(reader, &breaker->enabled, node, NULL);
    }
    if (node != NULL && node->kind == NODE_MAP) {
        breaker->enabled = true;
        if (note(reader, &breaker->enabled, ORIGIN_FILE, node, NULL) != PR_OK)
            return PR_ENOMEM;
    }
    int r = config_read_section(reader, option->section, node, breaker, path);
    if (r == PR_OK && breaker->open_us > breaker->cap_us)
        r = config_fail(reader, node, "%s: open is longer than cap", path);
    return r;
}

/* ---- Arrays of sections ---- */

static bool is_built_in(const struct option *option, const char *name)
{
    for (size_t i = 0; option->built_in != NULL && option->built_in[i] != NULL; i++)
        if (strcmp(option->built_in[i], name) == 0)
            return true;
    return false;
}

/* The boxes for incoming messages and for flows have these kinds by default; and incoming messages may arrive twice. */
static void settle_kind(const struct config_reader *reader, struct config_box *box)
{
    static const char *const named[] = {
        [BOX_INBOX] = "inbox", [BOX_TURNS] = "turns", [BOX_ACTIVITIES] = "activities"
    };

    for (size_t kind = BOX_INBOX; kind < ARRAY_LENGTH(named); kind++)
        if (strcmp(box->name, named[kind]) == 0 && config_note_find(reader->config, &box->kind) == NULL)
            box->kind = (enum box_kind)kind;
    if (config_note_find(reader->config, &box->dedupe_us) == NULL)
        box->dedupe_us = box->kind == BOX_INBOX ? DEDUPE_INBOX_US : 0;
}

/* item begins with its name. */
static int read_named_item(struct config_reader *reader, const struct option *option, const struct node *node,
                           const char *name, void *item, const char *path)
{
    const char *own_path = join(reader, path, name);

    if (own_path == NULL)
        return no_memory(reader);
    *(const char **)item = name;
    if (option->section == &option_endpoint)
        ((struct config_endpoint *)item)->breaker.enabled = true;
    int r = config_read_section(reader, option->section, node, item, own_path);
    if (option->section == &option_box)
        settle_kind(reader, item);
    return r;
}

static int read_named(struct config_reader *reader, const struct option *option, const struct node *map, void *target,
                      const char *path)
{
    size_t count = 0, n = 0;
    int r = PR_OK;

    if (map != NULL && node_is_null(map))
        map = NULL;
    if (map != NULL && map->kind != NODE_MAP)
        return config_fail(reader, map, "%s: needs a map of names, not %s", path, kind_of(map));
    while (option->built_in != NULL && option->built_in[count] != NULL)
        count++;
    for (const struct node *c = map != NULL ? map->first : NULL; c != NULL; c = c->next) {
        if (!option->is_name(slice_from(c->key)))
            return config_fail_at_key(reader, c, "%s: \"%s\" is not a valid name; use %s", path, c->key,
                                      option->name_rule);
        count += !is_built_in(option, c->key);
    }
    if (count > (size_t)option->max)
        return config_fail(reader, map, "%s: more than %d", path, (int)option->max);
    char *items = arena_alloc_array(&reader->config->arena, count, option->item_size);
    if (items == NULL)
        return no_memory(reader);
    for (; r == PR_OK && option->built_in != NULL && option->built_in[n] != NULL; n++)
        r = read_named_item(reader, option, node_find(map, option->built_in[n]), option->built_in[n],
                            items + n * option->item_size, path);
    for (const struct node *c = map != NULL ? map->first : NULL; r == PR_OK && c != NULL; c = c->next)
        if (!is_built_in(option, c->key))
            r = read_named_item(reader, option, c, c->key, items + n++ * option->item_size, path);
    memcpy((char *)target + option->offset, &items, sizeof(items));
    memcpy((char *)target + option->count_offset, &count, sizeof(count));
    return r;
}

static int read_list(struct config_reader *reader, const struct option *option, const struct node *list, void *target,
                     const char *path)
{
    size_t n = 0;

    if (list == NULL || node_is_null(list))
        return PR_OK;
    if (list->kind != NODE_LIST)
        return config_fail(reader, list, "%s: needs a list, not %s", path, kind_of(list));
    if (list->count > (size_t)option->max)
        return config_fail(reader, list, "%s: more than %d", path, (int)option->max);
    char *items = arena_alloc_array(&reader->config->arena, list->count, option->item_size);
    if (items == NULL)
        return no_memory(reader);
    reader->in_list = true;
    for (const struct node *c = list->first; c != NULL; c = c->next, n++) {
        const char *own_path = arena_printf(&reader->config->arena, "%s[%zu]", path, n).data;
        int r = own_path == NULL
                    ? no_memory(reader)
                    : config_read_section(reader, option->section, c, items + n * option->item_size, own_path);
        if (r != PR_OK)
            return r;
    }
    reader->in_list = false;
    memcpy((char *)target + option->offset, &items, sizeof(items));
    memcpy((char *)target + option->count_offset, &list->count, sizeof(list->count));
    return PR_OK;
}

/* ---- Sections ---- */

static int refuse_unknown(const struct config_reader *reader, const struct option_section *section,
                          const struct node *child, const char *path)
{
    struct suggestion near = { 0 };
    struct buf all;

    for (size_t i = 0; i < section->count; i++)
        suggest_try(&near, slice_from(child->key), section->options[i].name);
    if (near.best != NULL)
        return config_fail_at_key(reader, child, "%s: unknown key; did you mean %s?", path, near.best);
    buf_init(&all, PR_ERROR_TEXT_SIZE);
    for (size_t i = 0; i < section->count; i++)
        buf_addf(&all, "%s%s", i > 0 ? ", " : "", section->options[i].name);
    int r = config_fail_at_key(reader, child, "%s: unknown key; known are %.*s", path, SLICE_ARGS(buf_slice(&all)));
    buf_fini(&all);
    return r;
}

int config_check_keys(const struct config_reader *reader, const struct option_section *section, const struct node *map,
                      const char *path)
{
    for (const struct node *child = map->first; child != NULL; child = child->next) {
        const struct option *option = option_find(section, child->key);
        const char *own_path = join(reader, path, child->key);

        if (own_path == NULL)
            return no_memory(reader);
        if (option == NULL)
            return refuse_unknown(reader, section, child, own_path);
    }
    return PR_OK;
}

static int read_option(struct config_reader *reader, const struct option *option, const struct node *node, void *target,
                       const char *path)
{
    void *field = (char *)target + option->offset;

    switch (option->kind) {
    case OPTION_NAMES:
    case OPTION_SECRETS:
    case OPTION_NETWORKS:
    case OPTION_DELAYS: return read_values(reader, option, node, target, path);
    case OPTION_SECTION: return config_read_section(reader, option->section, node, field, path);
    case OPTION_RETRY: return config_read_retry(reader, node, field, path);
    case OPTION_BREAKER: return read_breaker(reader, option, node, field, path);
    case OPTION_NAMED: return read_named(reader, option, node, target, path);
    case OPTION_LIST: return read_list(reader, option, node, target, path);
    case OPTION_HEADERS: return read_headers(reader, option, node, target, path);
    case OPTION_RULES: return config_read_rules(reader, option, node, target, path);
    case OPTION_VALUES:
    case OPTION_DONE: return config_read_values(reader, option, node, target, path);
    case OPTION_MATCH:
    case OPTION_STEP: return PR_OK;
    default: return read_value(reader, option, node, target, path);
    }
}

/* Also the options of sections inside: a preset changes them before they are read. */
static int read_defaults(struct config_reader *reader, const struct option_section *section, void *target)
{
    int r = PR_OK;

    for (size_t i = 0; r == PR_OK && i < section->count; i++) {
        const struct option *option = &section->options[i];

        if (option->kind <= OPTION_LAST_VALUE)
            r = read_default(reader, option, (char *)target + option->offset);
        else if (option->kind == OPTION_RETRY || option->kind == OPTION_BREAKER)
            r = read_defaults(reader, option->section, (char *)target + option->offset);
    }
    return r;
}

int config_read_section(struct config_reader *reader, const struct option_section *section, const struct node *map,
                        void *target, const char *path)
{
    const struct node *place = map;
    bool inherits = section == &option_retry || section == &option_breaker;
    int r = inherits ? PR_OK : read_defaults(reader, section, target);

    if (map != NULL && node_is_null(map))
        map = NULL;
    if (r == PR_OK && map != NULL && map->kind != NODE_MAP)
        r = config_fail(reader, map, "%s%sneeds a map, not %s%s", path, path[0] != '\0' ? ": " : "", kind_of(map),
                        section == &option_retry ? "; or list the delays, such as [10s, 60s, 5m]" : "");
    if (r == PR_OK && map != NULL)
        r = config_check_keys(reader, section, map, path);
    for (size_t i = 0; r == PR_OK && i < section->count; i++) {
        const struct option *option = &section->options[i];
        const struct node *node = node_find(map, option->name);
        const char *own_path = join(reader, path, option->name);

        if (own_path == NULL)
            return no_memory(reader);
        r = read_option(reader, option, node, target, own_path);
        if (r == PR_OK && option->required && config_note_find(reader->config, (char *)target + option->offset) == NULL)
            r = config_fail(reader, place, "%s: %s is missing", path, option->name);
    }
    return r;
}
