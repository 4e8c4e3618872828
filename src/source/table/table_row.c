/* From a row of a foreign table to a message; see table.h. */
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "core/id.h"
#include "source/table/table.h"

#include <jansson.h> /* after message.h: both have a json_is_object */

/* Ids that are not UUIDs become UUIDv5 of "schema.table/id" in this namespace. */
static const pr_id NAMESPACE = { { 0x6f, 0x0c, 0x5a, 0x0e, 0x3c, 0x0b, 0x5d, 0x1e, 0x9b, 0x61, 0x70, 0x6f, 0x73, 0x74,
                                   0x72, 0x64 } };

void adopt_mapping_init(struct adopt_mapping *mapping, const struct adoption *adoption)
{
    mapping->adoption = adoption;
    for (size_t i = 0; i < ADOPT_FIELD_COUNT; i++) {
        int rc = adopt_parts_parse((enum adopt_field)i, adoption->fields[i], &mapping->parts[i], NULL);
        ASSERT(rc == PR_OK); /* adopt_sql_make() has parsed the same text */
    }
}

struct row_reading {
    const struct adopt_mapping *mapping;
    const struct adopt_sql *sql;
    const PGresult *result;
    int row;
    struct arena *arena;
    json_t *headers; /* NULL: there are none */
    bool no_memory;
};

/* The result column for a part of a field; -1: it is not a column. */
static int column_of(const struct row_reading *r, enum adopt_field field, size_t part)
{
    for (size_t i = 0; i < r->sql->output_count; i++)
        if (r->sql->outputs[i].field == field && r->sql->outputs[i].part == part)
            return SELECT_FIXED + (int)i;
    return -1;
}

static pr_slice member_of(struct row_reading *r, pr_slice name)
{
    const json_t *value = NULL;
    pr_slice key = slice_dup(r->arena, name), text = { NULL, 0 };
    r->no_memory |= key.data == NULL;
    if (r->headers != NULL && key.data != NULL)
        value = json_object_get(r->headers, key.data);
    if (json_is_string(value))
        text = slice_dup(r->arena, (pr_slice){ json_string_value(value), json_string_length(value) });
    else if (json_is_integer(value))
        text = arena_printf(r->arena, "%lld", (long long)json_integer_value(value));
    else
        return text;
    r->no_memory |= text.data == NULL;
    return text;
}

/* The first alternative that exists. */
static pr_slice text_of(struct row_reading *r, enum adopt_field field)
{
    const struct adopt_parts *parts = &r->mapping->parts[field];
    for (size_t i = 0; i < parts->count; i++) {
        pr_slice text = parts->list[i].text;
        if (parts->list[i].kind == ADOPT_PART_COLUMN)
            text = field_slice(r->result, r->row, column_of(r, field, i));
        else if (parts->list[i].kind == ADOPT_PART_HEADER)
            text = member_of(r, text);
        if (text.size > 0)
            return text;
    }
    return (pr_slice){ NULL, 0 };
}

/* 0: none.  Numbers are milliseconds. */
static int64_t time_of(const struct row_reading *r, enum adopt_field field)
{
    int column = column_of(r, field, 0);
    if (column < 0 || field_is_null(r->result, r->row, column))
        return 0;
    if (PQftype(r->result, column) != OID_INT8)
        return field_time(r->result, r->row, column);
    int64_t ms = field_i64(r->result, r->row, column);
    return ms > 0 ? time_mul(ms, 1000) : 0;
}

static pr_slice destination_of(struct row_reading *r)
{
    const struct adoption *adoption = r->mapping->adoption;
    pr_slice name = text_of(r, ADOPT_DESTINATION);
    for (size_t i = 0; i < adoption->endpoint_count; i++)
        if (slice_eq_cstr(name, adoption->endpoints[i]))
            return name;
    return (pr_slice){ NULL, 0 };
}

static pr_slice type_of(struct row_reading *r)
{
    const struct adoption *adoption = r->mapping->adoption;
    pr_slice schema, table, type = text_of(r, ADOPT_TYPE);
    if (r->mapping->parts[ADOPT_TYPE].count == 0) {
        bool valid = adopt_table_split(adoption->table, &schema, &table);
        ASSERT(valid);
        return table;
    }
    const char *end = adoption->list_type && type.size > 0 ? memchr(type.data, ';', type.size) : NULL;
    return end != NULL ? (pr_slice){ type.data, (size_t)(end - type.data) } : type;
}

static void id_of(struct row_reading *r, struct adopt_row *ret)
{
    pr_slice schema, table;
    bool valid = adopt_table_split(r->mapping->adoption->table, &schema, &table);
    ASSERT(valid);
    ret->foreign_id = field_slice(r->result, r->row, column_of(r, ADOPT_ID, 0));
    if (ret->foreign_id.size == 0) {
        pr_id_new(&ret->m.id);
        ret->bad = "the id is missing";
        return;
    }
    if (pr_id_parse(ret->foreign_id, &ret->m.id) == PR_OK && !pr_id_is_zero(ret->m.id))
        return;
    pr_slice name =
        arena_printf(r->arena, "%.*s.%.*s/%.*s", SLICE_ARGS(schema), SLICE_ARGS(table), SLICE_ARGS(ret->foreign_id));
    r->no_memory |= name.data == NULL;
    if (name.data != NULL)
        id_from_name(NAMESPACE, name, &ret->m.id);
}

/* Headers that are not a JSON object cannot be stored: they are kept as a note.  So are headers over the limit, of
 * which only the beginning was read. */
static void headers_of(struct row_reading *r, struct adopt_row *ret)
{
    pr_slice text = text_of(r, ADOPT_HEADERS);
    bool too_large = text.size > PR_HEADERS_MAX;
    if (too_large || !slice_is_json_object(text)) {
        ret->bad = too_large ? "the headers are over the limit of 65536 bytes" : "the headers are not a JSON object";
        ret->note = text;
        return;
    }
    ret->m.headers = text;
    r->headers = text.size > 0 ? json_loadb(text.data, text.size, JSON_ALLOW_NUL, NULL) : NULL;
}

static void times_of(const struct row_reading *r, struct adopt_row *ret)
{
    int64_t now_us = field_time(r->result, r->row, 3), created_us = time_of(r, ADOPT_CREATED),
            due_us = time_of(r, ADOPT_DUE);
    ret->m.created_us = created_us > 0 && created_us < now_us ? created_us : now_us;
    ret->m.due_us = due_us > now_us ? due_us : 0; /* a delayed message that is due is a fresh one */
    ret->m.expires_us = time_of(r, ADOPT_EXPIRES);
}

int adopt_row_read(const struct adopt_mapping *mapping, const struct adopt_sql *sql, const PGresult *result, int row,
                   struct arena *arena, struct adopt_row *ret, struct pr_error *reterr)
{
    struct row_reading r = { .mapping = mapping, .sql = sql, .result = result, .row = row, .arena = arena };
    struct pr_error why;
    *ret = (struct adopt_row){ .table = field_i64(result, row, 0), .place = field_slice(result, row, 1) };
    if (field_bool(result, row, 2))
        ret->bad = "the payload is NULL";
    headers_of(&r, ret);
    id_of(&r, ret);
    times_of(&r, ret);
    ret->m.type = type_of(&r);
    ret->m.stream = text_of(&r, ADOPT_STREAM);
    ret->m.destination = destination_of(&r);
    ret->m.source = text_of(&r, ADOPT_SOURCE);
    ret->m.subject = text_of(&r, ADOPT_SUBJECT);
    ret->m.content_type = text_of(&r, ADOPT_CONTENT_TYPE);
    ret->m.correlation_id = text_of(&r, ADOPT_CORRELATION_ID);
    json_decref(r.headers);
    if (ret->bad == NULL && message_check(&ret->m, SIZE_MAX, &why) != PR_OK) {
        ret->bad = slice_dup(arena, slice_from(why.text)).data;
        r.no_memory |= ret->bad == NULL;
    }
    return r.no_memory ? error_set(reterr, PR_ENOMEM, "out of memory for a row of %s", mapping->adoption->table)
                       : PR_OK;
}
