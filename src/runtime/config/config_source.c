/* `sources`: the values of presets, of `pending` and `done`, and the checks. */
#include <string.h>

#include "base/error.h"
#include "base/glob.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/message.h"
#include "runtime/config/config_notes.h"
#include "runtime/config/config_suggest.h"

static int no_memory(const struct config_reader *reader)
{
    return error_set(reader->reterr, PR_ENOMEM, "%s: out of memory", reader->source->name);
}

/* ---- Presets ------------------------------------------------------------------------------ */

int config_source_preset(struct config_reader *reader, struct source_config *source)
{
    bool known = adopt_preset(source->preset, &source->table);

    ASSERT(known); /* option_parse() has found it in the same table */
    for (size_t i = 0; i < ADOPT_FIELD_COUNT; i++)
        if (config_note_set(reader->config, &source->table.fields[i], ORIGIN_PRESET, NULL, NULL) != PR_OK)
            return no_memory(reader);
    if (config_note_set(reader->config, &source->table.pending, ORIGIN_PRESET, NULL, NULL) != PR_OK ||
        config_note_set(reader->config, &source->table.set, ORIGIN_PRESET, NULL, NULL) != PR_OK)
        return no_memory(reader);
    return PR_OK;
}

/* ---- Columns and their values -------------------------------------------------------------- */

struct adopt_values {
    struct adopt_value *list;
    size_t count, max;
};

static int add_value(const struct config_reader *reader, const struct node *column, const struct node *value,
                     const char *path, struct adopt_values *values)
{
    if (value->kind != NODE_SCALAR)
        return config_fail(reader, value, "%s.%s: needs a single value", path, column->key);
    if (values->count == values->max)
        return config_fail(reader, value, "%s: more than %zu values", path, values->max);
    values->list[values->count++] =
        (struct adopt_value){ column->key, node_is_null(value) && value->plain ? NULL : value->text };
    return PR_OK;
}

/* lists: a column may have several values. */
static int read_map(struct config_reader *reader, const struct option *option, const struct node *map, bool lists,
                    void *target, const char *path)
{
    struct adopt_values values = { .max = (size_t)option->max };
    int r = PR_OK;

    if (map->kind != NODE_MAP || map->count == 0)
        return config_fail(reader, map, "%s: needs a map from columns to values, such as {Status: Completed}", path);
    values.list = arena_alloc_array(&reader->config->arena, values.max, sizeof(*values.list));
    if (values.list == NULL)
        return no_memory(reader);
    for (const struct node *c = map->first; c != NULL && r == PR_OK; c = c->next) {
        if (!name_is_valid(slice_from(c->key)))
            return config_fail_at_key(
                reader, c,
                "%s: \"%s\" is not a column name; use letters, digits and _, at most 63, not starting with a digit",
                path, c->key);
        bool list = lists && c->kind == NODE_LIST;
        for (const struct node *v = list ? c->first : c; v != NULL && r == PR_OK; v = list ? v->next : NULL)
            r = add_value(reader, c, v, path, &values);
    }
    memcpy((char *)target + option->offset, &values.list, sizeof(values.list));
    memcpy((char *)target + option->count_offset, &values.count, sizeof(values.count));
    return r;
}

int config_read_values(struct config_reader *reader, const struct option *option, const struct node *node, void *target,
                       const char *path)
{
    static const size_t none;
    const struct node *map = node;

    if (node == NULL)
        return PR_OK;
    if (config_note_set(reader->config, (char *)target + option->offset, ORIGIN_FILE, node, NULL) != PR_OK)
        return no_memory(reader);
    if (option->kind == OPTION_DONE && node->kind == NODE_SCALAR && node->text != NULL &&
        strcmp(node->text, "delete") == 0) {
        memcpy((char *)target + option->count_offset, &none, sizeof(none));
        return PR_OK;
    }
    if (option->kind == OPTION_DONE) {
        map = node->kind == NODE_MAP && node->count == 1 ? node_find(node, "set") : NULL;
        if (map == NULL)
            return config_fail(reader, node, "%s: use delete, or a map such as {set: {Status: Completed}}", path);
    }
    return read_map(reader, option, map, option->kind == OPTION_VALUES, target, path);
}

static void format_value(const struct adopt_value *value, struct buf *ret)
{
    if (value->value == NULL)
        buf_add_cstr(ret, "null");
    else
        json_quote(ret, slice_from(value->value));
}

void config_values_format(const struct option *option, const struct source_config *source, struct buf *ret)
{
    bool done = option->kind == OPTION_DONE;
    const struct adopt_value *list = done ? source->table.set : source->table.pending;
    size_t count = done ? source->table.set_count : source->table.pending_count;

    if (count == 0) {
        buf_add_cstr(ret, "delete");
        return;
    }
    buf_add_cstr(ret, done ? "{set: {" : "{");
    for (size_t i = 0; i < count; i++) {
        bool again = i > 0 && strcmp(list[i].column, list[i - 1].column) == 0;
        bool more = i + 1 < count && strcmp(list[i].column, list[i + 1].column) == 0;

        buf_add_cstr(ret, i > 0 ? ", " : "");
        if (!again)
            buf_addf(ret, "%s: %s", list[i].column, more ? "[" : "");
        format_value(&list[i], ret);
        buf_add_cstr(ret, again && !more ? "]" : "");
    }
    buf_add_cstr(ret, done ? "}}" : "}");
}

/* ---- Checks --------------------------------------------------------------------------------- */

static const struct node *place_of(const struct config *config, const void *field, const struct node *otherwise)
{
    const struct config_note *note = config_note_find(config, field);

    return note != NULL && note->node != NULL ? note->node : otherwise;
}

static int check_fields(const struct config_reader *reader, size_t number, const struct source_config *source,
                        const struct node *entry)
{
    static const enum adopt_field required[] = { ADOPT_ID, ADOPT_PAYLOAD };

    for (size_t i = 0; i < ADOPT_FIELD_COUNT; i++) {
        const char *const *field = &source->table.fields[i];
        struct adopt_parts parts;
        struct pr_error why;

        if (adopt_parts_parse((enum adopt_field)i, *field, &parts, &why) != PR_OK)
            return config_fail(reader, place_of(reader->config, field, entry), "sources[%zu].%s: %s", number,
                               adopt_fields[i].name, why.text);
        for (size_t k = 0; k < parts.count; k++)
            if (parts.list[k].kind == ADOPT_PART_HEADER && source->table.fields[ADOPT_HEADERS][0] == '\0')
                return config_fail(reader, place_of(reader->config, field, entry),
                                   "sources[%zu].%s: uses header:, but headers names no column", number,
                                   adopt_fields[i].name);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(required); i++)
        if (source->table.fields[required[i]][0] == '\0')
            return config_fail(reader, entry, "sources[%zu]: %s is missing; name its column, or use a preset", number,
                               adopt_fields[required[i]].name);
    return PR_OK;
}

static int check_table(const struct config_reader *reader, size_t number, struct source_config *source,
                       const struct node *entry)
{
    const struct node *node = place_of(reader->config, &source->table.table, entry);
    pr_slice schema, name;

    if (!adopt_table_split(source->table.table, &schema, &name))
        return config_fail(
            reader, node,
            "sources[%zu].table: \"%s\" is not a table name; use NAME or SCHEMA.NAME with letters, digits and _",
            number, source->table.table);
    /* Without store in the configuration, --store may still name one; otherwise the start fails. */
    if (config_note_find(reader->config, &reader->config->store) != NULL &&
        !slice_starts_with(slice_from(reader->config->store), PR_STR("postgres")))
        return config_fail(reader, node,
                           "sources[%zu].table: needs a PostgreSQL store; the table must be in the store's database",
                           number);
    source->name = source->table.table;
    source->table.box = source->box;
    source->table.preset = source->preset;
    source->table.batch = (size_t)reader->config->batch;
    int r = config_check_box(reader, &source->box, "sources", number);
    return r != PR_OK ? r : check_fields(reader, number, source, entry);
}

/* ---- The log ------------------------------------------------------------------------------------ */

static bool has_url(const struct source_config *source)
{
    return source->kind >= SOURCE_FIRST_WITH_URL;
}

/* Sets the kind by the key that is present; check_keys() reports several such keys. */
static void find_kind(struct source_config *source)
{
    source->kind = source->wal.prefix[0] != '\0'    ? SOURCE_WAL
                   : source->events.name[0] != '\0' ? SOURCE_EVENTS
                                                    : SOURCE_TABLE;
    for (int kind = SOURCE_FIRST_WITH_URL; kind < SOURCE_KIND_COUNT; kind++)
        if (source->urls[kind][0] != '\0')
            source->kind = (enum source_kind)kind;
}

bool config_source_has(const struct source_config *source, const char *option)
{
    static const char *const wal[] = { "wal", "slot", "publication", "max_lag", "messages" };
    static const char *const http[] = { "token", "secrets", "tolerance" };
    static const char *const events[] = { "events", "to", "types" };
    bool is_for_wal = false, is_for_http = false, is_for_events = false;

    if (strcmp(option, "box") == 0)
        return true;
    for (size_t i = 0; i < ARRAY_LENGTH(events); i++)
        is_for_events |= strcmp(option, events[i]) == 0;
    if (is_for_events || source->kind == SOURCE_EVENTS)
        return source->kind == SOURCE_EVENTS && (is_for_events || strcmp(option, "poll") == 0);
    for (size_t i = 0; i < ARRAY_LENGTH(http); i++)
        is_for_http |= strcmp(option, http[i]) == 0;
    if (is_for_http)
        return source->kind == SOURCE_HTTP;
    if (strcmp(option, "name") == 0)
        return has_url(source);
    if (has_url(source))
        return strcmp(option, source_kind_names[source->kind]) == 0;
    for (int kind = SOURCE_FIRST_WITH_URL; kind < SOURCE_KIND_COUNT; kind++)
        if (strcmp(option, source_kind_names[kind]) == 0)
            return false;
    for (size_t i = 0; i < ARRAY_LENGTH(wal); i++)
        is_for_wal |= strcmp(option, wal[i]) == 0;
    return is_for_wal == (source->wal.prefix[0] != '\0');
}

/* One prefix without a colon: after a colon comes the name of a box. */
static int check_wal(const struct config_reader *reader, size_t number, struct source_config *source,
                     const struct node *entry)
{
    struct config *config = reader->config;
    const struct node *node = place_of(config, &source->wal.prefix, entry);
    const char **boxes = arena_alloc_array(&config->arena, config->box_count, sizeof(*boxes));

    if (boxes == NULL)
        return no_memory(reader);
    if (strchr(source->wal.prefix, ':') != NULL)
        return config_fail(reader, node,
                           "sources[%zu].wal: \"%s\" contains a colon, which separates the prefix from a box", number,
                           source->wal.prefix);
    if (!slice_starts_with(slice_from(config->store), PR_STR("postgres")))
        return config_fail(reader, node, "sources[%zu].wal: needs a PostgreSQL store", number);
    for (size_t i = 0; i < config->box_count; i++)
        boxes[i] = config->boxes[i].name;
    source->name = source->wal.prefix;
    source->wal.box = source->box;
    source->wal.boxes = boxes;
    source->wal.box_count = config->box_count;
    return config_check_box(reader, &source->box, "sources", number);
}

/* ---- The event store ---------------------------------------------------------------------------- */

static int check_events(const struct config_reader *reader, size_t number, struct source_config *source,
                        const struct node *entry)
{
    struct config *config = reader->config;
    const struct events_setting *events = &source->events;
    const struct node *node = place_of(config, &events->name, entry);
    struct pr_error why;

    if (!subscription_name_is_valid(slice_from(events->name)))
        return config_fail(reader, node, "sources[%zu].events: \"%s\" is not a name; use letters, digits, _ - and .",
                           number, events->name);
    if (events->to[0] == '\0')
        return config_fail(reader, entry, "sources[%zu]: to is missing; name the endpoint for these events", number);
    if (config_find_endpoint(config, slice_from(events->to)) == NULL)
        return config_fail(reader, place_of(config, &events->to, entry), "sources[%zu].to: unknown endpoint \"%s\"",
                           number, events->to);
    if (glob_check(slice_from(events->types), &why) != PR_OK)
        return config_fail(reader, place_of(config, &events->types, entry), "sources[%zu].types: %s", number, why.text);
    for (size_t i = 0; i < number; i++)
        if (config->sources[i].kind == SOURCE_EVENTS && strcmp(config->sources[i].events.name, events->name) == 0)
            return config_fail(reader, node, "sources[%zu].events: %s is listed twice", number, events->name);
    source->name = events->name;
    return config_check_box(reader, &source->box, "sources", number);
}

/* ---- Brokers and files ---------------------------------------------------------------------------- */

#define SOURCE_NAME_MAX 128 /* it is in every log line and metric of the source */

static bool source_name_is_valid(pr_slice name)
{
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_letter && !(c >= '0' && c <= '9') && strchr("_-.:/", c) == NULL)
            return false;
    }
    return name.size > 0 && name.size <= SOURCE_NAME_MAX;
}

static int check_name(const struct config_reader *reader, size_t number, struct source_config *source,
                      const struct node *entry)
{
    const struct config *config = reader->config;

    if (node_find(entry, "name") != NULL) {
        if (!source_name_is_valid(slice_from(source->given_name)))
            return config_fail(
                reader, place_of(config, &source->given_name, entry),
                "sources[%zu].name: \"%s\" is not a name; use letters, digits, _ - . : and /, at most %d", number,
                source->given_name, SOURCE_NAME_MAX);
        source->name = source->given_name;
    }
    for (size_t i = 0; i < number; i++)
        if (strcmp(config->sources[i].name, source->name) == 0)
            return config_fail(reader, place_of(config, &source->urls[source->kind], entry),
                               "sources[%zu].%s: %s is listed twice; if these are different brokers, give one of them "
                               "a name:",
                               number, source_kind_names[source->kind], source->name);
    return PR_OK;
}

static int check_url(const struct config_reader *reader, size_t number, struct source_config *source,
                     const struct node *entry)
{
    struct config *config = reader->config;
    const struct node *node = place_of(config, &source->urls[source->kind], entry);
    struct pr_error why;
    int r = source_check_url(source, &config->arena, &source->name, &why);

    if (r == PR_ENOMEM)
        return no_memory(reader);
    if (r != PR_OK)
        return config_fail(reader, node, "sources[%zu]: %s", number, why.text);
    if (node_find(entry, "box") == NULL)
        source->box = "inbox";
    r = check_name(reader, number, source, entry);
    return r == PR_OK ? config_check_box(reader, &source->box, "sources", number) : r;
}

const struct wal_setting *config_wal(const struct config *config)
{
    for (size_t i = 0; i < config->source_count; i++)
        if (config->sources[i].kind == SOURCE_WAL)
            return &config->sources[i].wal;
    return NULL;
}

/* ---- All of them -------------------------------------------------------------------------------- */

/* All keys must be valid for a source of its kind. */
static int check_keys(const struct config_reader *reader, size_t number, const struct source_config *source,
                      const struct node *entry)
{
    const char *kind = source_kind_names[source->kind];

    if (source->kind == SOURCE_TABLE && source->table.table[0] == '\0')
        return config_fail(reader, entry, "sources[%zu]: needs table, wal, http, file or a broker such as redis",
                           number);
    for (const struct node *c = entry->first; c != NULL; c = c->next)
        if (!config_source_has(source, c->key))
            return config_fail_at_key(reader, c, "sources[%zu].%s: unknown key in a source of kind %s", number, c->key,
                                      kind);
    return PR_OK;
}

static int check_twice(const struct config_reader *reader, size_t number, const struct node *entry)
{
    const struct source_config *own = &reader->config->sources[number];

    for (size_t i = 0; i < number; i++) {
        const struct source_config *other = &reader->config->sources[i];

        if (own->table.table[0] != '\0' && strcmp(own->table.table, other->table.table) == 0)
            return config_fail(reader, entry, "sources[%zu].table: %s is listed twice", number, own->table.table);
        if (own->wal.prefix[0] != '\0' && other->wal.prefix[0] != '\0')
            return config_fail(reader, entry,
                               "sources[%zu].wal: only one wal source is possible; 'PREFIX:BOX' reaches every box",
                               number);
    }
    return PR_OK;
}

/* Passes the known destinations on. */
static int share_endpoints(const struct config_reader *reader)
{
    struct config *config = reader->config;
    const char **names = arena_alloc_array(&config->arena, config->endpoint_count, sizeof(*names));

    if (names == NULL)
        return no_memory(reader);
    for (size_t i = 0; i < config->endpoint_count; i++)
        names[i] = config->endpoints[i].name;
    for (size_t i = 0; i < config->source_count; i++) {
        config->sources[i].table.endpoints = names;
        config->sources[i].table.endpoint_count = config->endpoint_count;
    }
    return PR_OK;
}

int config_check_sources(const struct config_reader *reader)
{
    struct config *config = reader->config;
    const struct node *list = node_find(reader->root, "sources");
    const struct node *entry = list != NULL ? list->first : NULL;

    for (size_t i = 0; i < config->source_count; i++, entry = entry->next) {
        struct source_config *source = &config->sources[i];
        find_kind(source);
        int r = check_keys(reader, i, source, entry);
        if (r == PR_OK)
            r = check_twice(reader, i, entry);
        if (r == PR_OK)
            r = has_url(source)                 ? check_url(reader, i, source, entry)
                : source->kind == SOURCE_WAL    ? check_wal(reader, i, source, entry)
                : source->kind == SOURCE_EVENTS ? check_events(reader, i, source, entry)
                                                : check_table(reader, i, source, entry);
        if (r != PR_OK)
            return r;
    }
    return share_endpoints(reader);
}
