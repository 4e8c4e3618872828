/* Can a foreign table be used?  What exists, what is missing, and advice; see table.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "source/table/table.h"

#define TEXT_MAX 512

struct judge {
    const struct adoption *adoption;
    const struct foreign_table *table;
    struct arena *arena;
    struct adopt_report *report;
};

PR_PRINTF(5, 6)
static void say(struct judge *j, const char *about, const char *name, enum adopt_level level, const char *format, ...)
{
    char text[TEXT_MAX];
    va_list args;
    if (j->report->count == ADOPT_FINDINGS_MAX)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    const char *copy = slice_dup(j->arena, slice_from(text)).data, *own = slice_dup(j->arena, slice_from(name)).data;
    j->report->findings[j->report->count++] =
        (struct adopt_finding){ about, own != NULL ? own : "", level, copy != NULL ? copy : "out of memory" };
}

static const char *quoted(struct judge *j)
{
    pr_slice schema, name;
    bool valid = adopt_table_split(j->adoption->table, &schema, &name);
    ASSERT(valid); /* foreign_load() has looked */
    const char *text = arena_printf(j->arena, "\"%.*s\".\"%.*s\"", SLICE_ARGS(schema), SLICE_ARGS(name)).data;
    return text != NULL ? text : j->adoption->table;
}

/* ---- Columns ---------------------------------------------------------------------------------- */

static bool is_one_of(int64_t type, const int64_t *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == type)
            return true;
    return false;
}

/* The type that a column needs to hold this part; NULL: it has such a type. */
static const char *type_wanted(enum adopt_field field, int64_t type)
{
    static const int64_t keys[] = { OID_UUID, OID_TEXT, TYPE_VARCHAR, TYPE_BPCHAR,
                                    OID_INT2, OID_INT4, OID_INT8,     TYPE_NUMERIC };
    static const int64_t bodies[] = { OID_BYTEA, OID_TEXT, TYPE_VARCHAR, TYPE_BPCHAR, TYPE_JSON, TYPE_JSONB, TYPE_XML };
    static const int64_t objects[] = { OID_TEXT, TYPE_VARCHAR, TYPE_JSON, TYPE_JSONB };
    static const int64_t times[] = { OID_TIME, TYPE_TIMESTAMP, TYPE_DATE, OID_INT2, OID_INT4, OID_INT8 };
    static const int64_t unordered[] = { TYPE_JSON, TYPE_XML };
    if (adopt_fields[field].kind == ADOPT_KIND_TIME)
        return is_one_of(type, times, ARRAY_LENGTH(times)) ? NULL
                                                           : "a timestamp, or an integer with milliseconds since 1970";
    switch (field) {
    case ADOPT_ID: return is_one_of(type, keys, ARRAY_LENGTH(keys)) ? NULL : "uuid, text or a number";
    case ADOPT_PAYLOAD: return is_one_of(type, bodies, ARRAY_LENGTH(bodies)) ? NULL : "bytea, text, json or jsonb";
    case ADOPT_HEADERS: return is_one_of(type, objects, ARRAY_LENGTH(objects)) ? NULL : "json, jsonb or text";
    case ADOPT_ORDER: return is_one_of(type, unordered, ARRAY_LENGTH(unordered)) ? "a type that can be sorted" : NULL;
    default: return type == OID_BYTEA ? "text" : NULL;
    }
}

static void judge_column(struct judge *j, enum adopt_field field, pr_slice name)
{
    const struct foreign_column *column = foreign_find(j->table, name);
    const char *key = adopt_fields[field].name, *wanted;
    char text[64];
    snprintf(text, sizeof(text), "%.*s", SLICE_ARGS(name));
    if (column == NULL) {
        say(j, "column", text, ADOPT_ERROR,
            "%s has no column \"%s\" for %s: name the right one in the configuration (%s: COLUMN)", j->adoption->table,
            text, key, key);
        return;
    }
    wanted = type_wanted(field, column->type);
    if (wanted != NULL)
        say(j, "column", text, ADOPT_ERROR, "column \"%s\" of %s has the type %s; for %s it must be %s", text,
            j->adoption->table, column->type_name, key, wanted);
    else
        say(j, "column", text, ADOPT_FINE, "%s, %s", key, column->type_name);
}

static void judge_columns(struct judge *j)
{
    for (size_t field = 0; field < ADOPT_FIELD_COUNT; field++) {
        struct adopt_parts parts;
        struct pr_error why;
        if (adopt_parts_parse((enum adopt_field)field, j->adoption->fields[field], &parts, &why) != PR_OK) {
            say(j, "column", adopt_fields[field].name, ADOPT_ERROR, "%s: %s", adopt_fields[field].name, why.text);
            continue;
        }
        if (parts.count == 0 && (field == ADOPT_ID || field == ADOPT_PAYLOAD))
            say(j, "column", adopt_fields[field].name, ADOPT_ERROR,
                "%s: which column is the %s? Name it in the configuration (%s: COLUMN)", j->adoption->table,
                adopt_fields[field].name, adopt_fields[field].name);
        for (size_t i = 0; i < parts.count; i++)
            if (parts.list[i].kind == ADOPT_PART_COLUMN)
                judge_column(j, (enum adopt_field)field, parts.list[i].text);
    }
}

/* pending, and the columns set when a row is done. */
static void judge_values(struct judge *j, const struct adopt_value *list, size_t count, bool set)
{
    for (size_t i = 0; i < count; i++) {
        const struct foreign_column *column = foreign_find(j->table, slice_from(list[i].column));
        const char *key = set ? "done" : "pending";
        int64_t later_us;
        if (i > 0 && strcmp(list[i].column, list[i - 1].column) == 0)
            continue;
        if (column == NULL)
            say(j, "column", list[i].column, ADOPT_ERROR,
                "%s has no column \"%s\" for %s: name the right one in the configuration", j->adoption->table,
                list[i].column, key);
        else if (set && column->generated)
            say(j, "column", list[i].column, ADOPT_ERROR,
                "column \"%s\" of %s is generated and cannot be set when a row is done", list[i].column,
                j->adoption->table);
        else if (set && adopt_value_is_time(list[i].value, &later_us) && column->type != OID_TIME &&
                 column->type != TYPE_TIMESTAMP && column->type != TYPE_DATE)
            say(j, "column", list[i].column, ADOPT_ERROR,
                "column \"%s\" of %s has the type %s; %s needs a timestamp there", list[i].column, j->adoption->table,
                column->type_name, list[i].value);
        else
            say(j, "column", list[i].column, ADOPT_FINE, "%s, %s", key, column->type_name);
    }
}

/* ---- Rights ----------------------------------------------------------------------------------- */

static void judge_right(struct judge *j, const char *right, bool has, const char *column, const char *why)
{
    const struct adoption *a = j->adoption;
    if (has)
        say(j, "right", right, ADOPT_FINE, "%s has this right", j->table->role);
    else if (column != NULL)
        say(j, "right", right, ADOPT_ERROR,
            "role %s lacks %s on column \"%s\" of %s, %s: GRANT %s (\"%s\") ON %s TO \"%s\"", j->table->role, right,
            column, a->table, why, right, column, quoted(j), j->table->role);
    else
        say(j, "right", right, ADOPT_ERROR, "role %s lacks %s on %s, %s: GRANT %s ON %s TO \"%s\"", j->table->role,
            right, a->table, why, right, quoted(j), j->table->role);
}

static void judge_rights(struct judge *j)
{
    const struct foreign_table *t = j->table;
    const struct adoption *a = j->adoption;
    pr_slice schema, name;
    bool valid = adopt_table_split(a->table, &schema, &name);
    ASSERT(valid);
    if (!t->may_use_schema)
        say(j, "right", "USAGE", ADOPT_ERROR,
            "role %s lacks USAGE on schema %.*s: GRANT USAGE ON SCHEMA \"%.*s\" TO \"%s\"", t->role, SLICE_ARGS(schema),
            SLICE_ARGS(schema), t->role);
    judge_right(j, "SELECT", t->may_select, NULL, "to read its rows");
    if (a->set_count == 0) {
        judge_right(j, "DELETE", t->may_delete, NULL, "to delete rows that were taken");
        judge_right(j, "UPDATE", t->may_update_any, NULL, "to lock rows while they are taken; one column is enough");
        return;
    }
    for (size_t i = 0; i < a->set_count; i++) {
        const struct foreign_column *column = foreign_find(t, slice_from(a->set[i].column));
        if (column != NULL)
            judge_right(j, "UPDATE", column->may_update, column->name, "to mark rows that were taken");
    }
}

/* ---- Indexes ---------------------------------------------------------------------------------- */

/* Where rows stay, an index must separate waiting rows from done ones; where they are deleted, an index in their order
 * saves sorting a backlog. */
static void judge_index(struct judge *j)
{
    const struct adoption *a = j->adoption;
    const char *order = a->fields[ADOPT_ORDER];
    const char *first = a->set_count == 0 ? order : a->pending_count > 0 ? a->pending[0].column : a->set[0].column;
    if (first[0] == '\0') {
        say(j, "index", "", ADOPT_FINE,
            "a table that is emptied needs none; if a backlog can grow, an indexed column for the order (order: "
            "COLUMN) saves sorting it");
        return;
    }
    for (size_t i = 0; i < j->table->index_count; i++) {
        if (strcmp(j->table->indexes[i].columns[0], first) == 0) {
            say(j, "index", j->table->indexes[i].name, ADOPT_FINE, "finds the waiting rows");
            return;
        }
    }
    say(j, "index", first, ADOPT_WARN,
        "no index of %s begins with \"%s\"%s; you can add one: CREATE INDEX ON %s (\"%s\"%s%s%s)", a->table, first,
        a->set_count > 0 ? ", so each poll reads the whole table" : ", so each poll sorts the backlog", quoted(j),
        first, a->set_count > 0 && order[0] != '\0' ? ", \"" : "", a->set_count > 0 ? order : "",
        a->set_count > 0 && order[0] != '\0' ? "\"" : "");
}

/* ---- All of it -------------------------------------------------------------------------------- */

static bool judge_kind(struct judge *j, const char *own_schema)
{
    const struct foreign_table *t = j->table;
    const char *name = j->adoption->table;
    pr_slice schema, own;
    bool valid = adopt_table_split(name, &schema, &own);
    ASSERT(valid);
    if (t->found && slice_eq_cstr(schema, own_schema)) {
        say(j, "table", name, ADOPT_ERROR, "%s is in Postrider's own schema and needs no adopting", name);
        return false;
    }
    if (!t->found && t->other != NULL)
        say(j, "table", name, ADOPT_ERROR, "no table %s in this database, but %s exists: upper and lower case matter",
            name, t->other);
    else if (!t->found)
        say(j, "table", name, ADOPT_ERROR, "no table %s in this database; it must be in the database of the store",
            name);
    else if (t->kind != 'r' && t->kind != 'p')
        say(j, "table", name, ADOPT_ERROR, "%s is not a table: a view or a foreign table cannot be adopted", name);
    else if (t->row_security)
        say(j, "table", name, ADOPT_WARN,
            "%s has row-level security: rows that its policies hide from role %s are not moved", name, t->role);
    else
        say(j, "table", name, ADOPT_FINE, "it exists");
    return t->found && (t->kind == 'r' || t->kind == 'p');
}

void foreign_judge(const struct adoption *adoption, const struct foreign_table *table, const char *own_schema,
                   struct arena *arena, struct adopt_report *ret)
{
    struct judge j = { adoption, table, arena, ret };
    if (!judge_kind(&j, own_schema))
        return;
    judge_columns(&j);
    judge_values(&j, adoption->pending, adoption->pending_count, false);
    judge_values(&j, adoption->set, adoption->set_count, true);
    judge_rights(&j);
    judge_index(&j);
}

/* ---- The server's own opinion ------------------------------------------------------------------ */

/* Do the values fit their columns?  A plan is made and not run. */
static void judge_plan(struct judge *j, struct link *link, const char *sql, const struct args *args, const char *what)
{
    struct pr_error why;
    PGresult *plan = NULL;
    const char *text = arena_printf(j->arena, "EXPLAIN %s", sql).data;
    if (text == NULL)
        return;
    link_add_text(link, text, args, &plan);
    if (link_run(link, &why) != PR_OK)
        say(j, what, j->adoption->table, ADOPT_ERROR, "%s cannot be used like this: %s", what, why.text);
}

static void judge_zone(struct judge *j, struct link *link)
{
    struct pr_error why;
    struct args args = { .count = 0 };
    PGresult *result = NULL;
    arg_text(&args, slice_from(j->adoption->time_zone));
    if (link_do(link, "SELECT now() AT TIME ZONE $1", NO_BOX, &args, &result, &why) != PR_OK)
        say(j, "time_zone", j->adoption->time_zone, ADOPT_ERROR, "time_zone: %s", why.text);
}

static void judge_backlog(struct judge *j, struct link *link, const struct adopt_sql *sql)
{
    struct args args;
    struct pr_error why;
    PGresult *count = NULL;
    adopt_count_args(j->adoption, &args);
    link_add_text(link, sql->count, &args, &count);
    if (link_run(link, &why) != PR_OK) {
        say(j, "backlog", j->adoption->table, ADOPT_WARN, "the waiting rows of %s could not be counted: %s",
            j->adoption->table, why.text);
        return;
    }
    j->report->backlog = field_i64(count, 0, 0);
    say(j, "backlog", j->adoption->table, ADOPT_FINE, "%lld%s waiting rows",
        (long long)min64(j->report->backlog, COUNT_EXACT_MAX), j->report->backlog > COUNT_EXACT_MAX ? "+" : "");
}

/* A holder with the same role is at work, unless it takes too long; another role should never hold the lock. */
static void judge_lock(struct judge *j, struct link *link, const struct adopt_sql *sql)
{
    const struct args none = { .count = 0 };
    struct pr_error why;
    PGresult *r = NULL;
    link_add_text(link, sql->holder, &none, &r);
    if (link_run(link, &why) != PR_OK || PQntuples(r) == 0 || !(field_bool(r, 0, 3) || field_bool(r, 0, 5)) ||
        j->report->count == ADOPT_FINDINGS_MAX)
        return;
    say(j, "lock", j->adoption->table, ADOPT_WARN, ADOPT_LOCK_HELD, j->adoption->table, field_int(r, 0, 0),
        SLICE_ARGS(field_slice(r, 0, 1)), SLICE_ARGS(field_slice(r, 0, 2)), field_int(r, 0, 0));
    j->report->lock = j->report->findings[j->report->count - 1].text;
}

static int judge_statements(struct judge *j, struct link *link, struct pr_error *reterr)
{
    struct adopt_sql sql = { .select = NULL };
    struct args args;
    struct array none[2];
    int rc = adopt_sql_make(j->adoption, j->table, link, &sql, reterr);
    for (size_t i = 0; i < ARRAY_LENGTH(none); i++)
        array_init(&none[i]);
    if (rc == PR_OK) {
        array_begin(&none[0], OID_TEXT);
        adopt_select_args(j->adoption, &none[0], 1, &args);
        judge_plan(j, link, sql.select, &args, "pending");
        array_begin(&none[0], OID_INT8);
        array_begin(&none[1], OID_TEXT);
        adopt_done_args(j->adoption, &none[0], &none[1], &args);
        judge_plan(j, link, sql.done, &args, "done");
        judge_zone(j, link);
    }
    if (rc == PR_OK && adopt_report_error(j->report) == NULL)
        judge_backlog(j, link, &sql);
    if (rc == PR_OK && adopt_report_error(j->report) == NULL)
        judge_lock(j, link, &sql);
    for (size_t i = 0; i < ARRAY_LENGTH(none); i++)
        array_fini(&none[i]);
    adopt_sql_fini(&sql);
    return rc;
}

int adopt_check(struct store *any, const struct adoption *adoption, struct arena *arena, struct adopt_report *ret,
                struct pr_error *reterr)
{
    struct postgres_store *store = any->self;
    struct foreign_table table;
    struct judge j = { adoption, &table, arena, ret };
    int rc = source_needs_postgres(SOURCE_TABLE, any, reterr);
    if (rc != PR_OK)
        return rc;
    *ret = (struct adopt_report){ .backlog = -1 };
    pthread_mutex_lock(&store->people_lock);
    rc = link_ensure(store->people, reterr);
    if (rc == PR_OK)
        rc = foreign_load(store->people, adoption, arena, &table, reterr);
    if (rc == PR_OK) {
        foreign_judge(adoption, &table, store->conninfo.schema, arena, ret);
        if (adopt_report_error(ret) == NULL)
            rc = judge_statements(&j, store->people, reterr);
    }
    link_forget(store->people);
    pthread_mutex_unlock(&store->people_lock);
    return rc;
}
