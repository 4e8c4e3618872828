/* The statements over a foreign table.  Names are quoted, values are parameters; see table.h. */
#include <stdlib.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/units.h"
#include "base/util.h"
#include "source/table/table.h"

#define SQL_MAX 65536
#define LOCK_CLASS 0x70726164 /* class of Postrider's advisory locks: the other half of the key is the table */

static void add_name(struct buf *b, const char *alias, pr_slice name)
{
    buf_addf(b, "%s\"%.*s\"", alias, SLICE_ARGS(name));
}

static void add_table(struct buf *b, const struct adoption *adoption)
{
    pr_slice schema, name;
    bool valid = adopt_table_split(adoption->table, &schema, &name);
    ASSERT(valid); /* foreign_load() has checked */
    buf_addf(b, "\"%.*s\".\"%.*s\"", SLICE_ARGS(schema), SLICE_ARGS(name));
}

/* ---- Which rows wait -------------------------------------------------------------------------- */

/* All consecutive entries with the column of list[first]. */
static size_t add_alternatives(struct buf *b, const struct adoption *adoption, size_t first, int *parameter)
{
    pr_slice column = slice_from(adoption->pending[first].column);
    size_t at = first, values = 0;
    bool none = false; /* NULL is a value, too */
    buf_add_cstr(b, " AND (");
    for (; at < adoption->pending_count && slice_eq_cstr(column, adoption->pending[at].column); at++) {
        none |= adoption->pending[at].value == NULL;
        if (adoption->pending[at].value == NULL)
            continue;
        if (values == 0)
            add_name(b, "f.", column);
        buf_addf(b, values == 0 ? " IN ($%d" : ", $%d", ++*parameter);
        values++;
    }
    buf_add_cstr(b, values > 0 ? ")" : "");
    if (none) {
        add_name(b, values > 0 ? " OR f." : "f.", column);
        buf_add_cstr(b, " IS NULL");
    }
    buf_add_char(b, ')');
    return at;
}

/* By default the waiting rows are those that do not look done. */
static void add_not_done(struct buf *b, const struct adoption *adoption, int *parameter)
{
    int64_t later_us;
    buf_add_cstr(b, " AND ");
    add_name(b, "f.", slice_from(adoption->set[0].column));
    if (adoption->set[0].value == NULL)
        buf_add_cstr(b, " IS NOT NULL");
    else if (adopt_value_is_time(adoption->set[0].value, &later_us))
        buf_add_cstr(b, " IS NULL");
    else
        buf_addf(b, " IS DISTINCT FROM $%d", ++*parameter);
}

static void add_pending(struct buf *b, const struct adoption *adoption, int *parameter)
{
    for (size_t i = 0; i < adoption->pending_count;)
        i = add_alternatives(b, adoption, i, parameter);
    if (adoption->pending_count == 0 && adoption->set_count > 0)
        add_not_done(b, adoption, parameter);
}

static void pending_args(const struct adoption *adoption, struct args *ret)
{
    int64_t later_us;
    for (size_t i = 0; i < adoption->pending_count; i++)
        if (adoption->pending[i].value != NULL)
            arg_literal(ret, adoption->pending[i].value);
    if (adoption->pending_count == 0 && adoption->set_count > 0 && adoption->set[0].value != NULL &&
        !adopt_value_is_time(adoption->set[0].value, &later_us))
        arg_literal(ret, adoption->set[0].value);
}

/* ---- Reading ---------------------------------------------------------------------------------- */

static void add_output(struct buf *b, const struct foreign_table *table, enum adopt_field field, pr_slice name)
{
    const struct foreign_column *column = foreign_find(table, name);
    ASSERT(column != NULL); /* foreign_judge() has checked */
    if (adopt_fields[field].kind != ADOPT_KIND_TIME) {
        buf_add_cstr(b, ", left((");
        add_name(b, "f.", name);
        buf_addf(b, ")::text, %d)", TEXT_READ_MAX);
        return;
    }
    buf_add_cstr(b, ", (");
    add_name(b, "f.", name);
    if (column->type == OID_INT2 || column->type == OID_INT4 || column->type == OID_INT8)
        buf_add_cstr(b, ")::int8");
    else if (column->type == OID_TIME)
        buf_add_cstr(b, ")::timestamptz");
    else /* a timestamp or a date without a zone */
        buf_add_cstr(b, "::timestamp AT TIME ZONE $1)");
}

static int add_outputs(struct buf *b, const struct adoption *adoption, const struct foreign_table *table,
                       struct adopt_sql *sql, struct pr_error *reterr)
{
    sql->output_count = 0;
    for (size_t field = 0; field < ADOPT_FIELD_COUNT; field++) {
        struct adopt_parts parts;
        int rc = adopt_parts_parse((enum adopt_field)field, adoption->fields[field], &parts, reterr);
        if (rc != PR_OK)
            return rc;
        if (field == ADOPT_PAYLOAD || field == ADOPT_ORDER)
            continue; /* payloads stay on the server */
        for (size_t i = 0; i < parts.count; i++) {
            if (parts.list[i].kind != ADOPT_PART_COLUMN)
                continue;
            sql->outputs[sql->output_count++] = (struct output){ (enum adopt_field)field, i };
            add_output(b, table, (enum adopt_field)field, parts.list[i].text);
        }
    }
    return PR_OK;
}

/* Rows without an order of their own come in the order of their transactions' numbers; age() is the distance to now,
 * even after a wrap-around. */
static void add_order(struct buf *b, const struct adoption *adoption)
{
    buf_add_cstr(b, " ORDER BY ");
    if (adoption->fields[ADOPT_ORDER][0] != '\0') {
        add_name(b, "f.", slice_from(adoption->fields[ADOPT_ORDER]));
        buf_add_cstr(b, ", ");
    }
    buf_add_cstr(b, "age(f.xmin) DESC, f.ctid");
}

static int make_select(const struct adoption *adoption, const struct foreign_table *table, struct adopt_sql *sql,
                       struct buf *b, struct pr_error *reterr)
{
    int parameter = 1; /* the time zone */
    buf_add_cstr(b, "SELECT f.tableoid::int8, f.ctid::text, ");
    add_name(b, "f.", slice_from(adoption->fields[ADOPT_PAYLOAD]));
    buf_add_cstr(b, " IS NULL, now()");
    int rc = add_outputs(b, adoption, table, sql, reterr);
    buf_add_cstr(b, " FROM ");
    add_table(b, adoption);
    buf_addf(b, " f WHERE (SELECT pg_try_advisory_xact_lock(%d, '", LOCK_CLASS);
    add_table(b, adoption);
    buf_add_cstr(b, "'::regclass::oid::int4))");
    add_pending(b, adoption, &parameter);
    buf_addf(b, " AND f.ctid <> ALL ($%d::text[]::tid[])", parameter + 1);
    add_order(b, adoption);
    buf_addf(b, " LIMIT $%d FOR UPDATE OF f SKIP LOCKED", parameter + 2);
    return rc;
}

static void make_count(const struct adoption *adoption, struct buf *b)
{
    int parameter = 0;
    buf_add_cstr(b, "SELECT count(*) FROM (SELECT FROM ");
    add_table(b, adoption);
    buf_add_cstr(b, " f WHERE true");
    add_pending(b, adoption, &parameter);
    buf_addf(b, " LIMIT %d) x", COUNT_EXACT_MAX + 1);
}

/* The other holder of the lock: process, role, program, whether the role differs, a name of its transaction, and
 * whether it has held the lock for longer than moving rows takes. */
static void make_holder(const struct adoption *adoption, struct buf *b)
{
    buf_addf(
        b,
        "SELECT l.pid, coalesce(a.usename::text, '?'), coalesce(nullif(a.application_name, ''), 'no name'),"
        " a.usename IS DISTINCT FROM current_user, coalesce(l.virtualtransaction, ''),"
        " coalesce(CASE a.state WHEN 'idle' THEN a.state_change ELSE a.xact_start END < now() - interval '10 s', false)"
        " FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid"
        " WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.classid = %d::oid AND l.objid = '",
        LOCK_CLASS);
    add_table(b, adoption);
    buf_add_cstr(
        b, "'::regclass::oid AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())"
           " AND l.pid <> pg_backend_pid() LIMIT 1");
}

void adopt_count_args(const struct adoption *adoption, struct args *ret)
{
    *ret = (struct args){ .count = 0 };
    pending_args(adoption, ret);
}

void adopt_select_args(const struct adoption *adoption, struct array *skipped, int64_t limit, struct args *ret)
{
    *ret = (struct args){ .count = 0 };
    arg_text(ret, slice_from(adoption->time_zone));
    pending_args(adoption, ret);
    arg_array(ret, skipped);
    arg_i64(ret, limit);
}

/* Rows by their places, which are valid while they are locked.  A place alone is ambiguous in a table with several
 * partitions. */
#define AT_PLACES " f.ctid = v.place::tid AND f.tableoid = v.part::oid"

/* ---- Storing ---------------------------------------------------------------------------------- */

/* The first parameters are those of a batch of messages (message.h), with an empty payload, and $1 is not used; then
 * the time of creation, and the place of the row, which has the payload. */
/* clang-format off */
static const char INSERT_HEAD[] = MESSAGE_NEW_INTO BATCH_ROW("v.") ", ";
static const char INSERT_FROM[] =
    SENDER_TEXTS(COLUMN_OF_V) ", v.created_at FROM " BATCH_UNNEST ", {?}, {?}, {?}) WITH ORDINALITY AS v("
    BATCH_COLUMNS("", COLUMN_NAME) ", created_at, part, place, ord)";
/* clang-format on */

/* A text is stored as text, unless it looks like printed bytes. */
static void add_text(struct buf *b, pr_slice column, const char *relation, const char *end)
{
    buf_add_cstr(b, "CASE WHEN left((");
    add_name(b, "f.", column);
    buf_addf(b, ")::text, 2) %s E'\\\\x' THEN %s(", relation, relation[0] == '=' ? "textsend(" : "");
    add_name(b, "f.", column);
    buf_add_cstr(b, end);
}

static void add_payload(const struct adoption *adoption, const struct foreign_table *table, struct buf *b)
{
    pr_slice payload = slice_from(adoption->fields[ADOPT_PAYLOAD]);
    if (foreign_find(table, payload)->type == OID_BYTEA) {
        buf_add_cstr(b, "NULL, ");
        add_name(b, "f.", payload);
    } else {
        add_text(b, payload, "<>", ")::text END, ");
        add_text(b, payload, "=", ")::text) END");
    }
}

static void add_rows(const struct adoption *adoption, struct buf *b)
{
    buf_add_cstr(b, " JOIN ");
    add_table(b, adoption);
    buf_add_cstr(b, " f ON" AT_PLACES);
}

static void make_insert(const struct adoption *adoption, const struct foreign_table *table, struct buf *b)
{
    buf_add_cstr(b, INSERT_HEAD);
    add_payload(adoption, table, b);
    buf_add_cstr(b, INSERT_FROM);
    add_rows(adoption, b);
    buf_add_cstr(b, MESSAGE_NEW_END);
}

/* Rows that are not messages; their places follow the other arrays. */
static void make_bury(const struct adoption *adoption, const struct foreign_table *table, struct buf *b)
{
    buf_add_cstr(b, BURY_WITH(", {?}, {?}", ", part, place"));
    add_payload(adoption, table, b);
    buf_add_cstr(b, BURY_REST);
    add_rows(adoption, b);
    buf_add_cstr(b, BURY_END);
}

/* ---- Marking ---------------------------------------------------------------------------------- */

static void add_set(struct buf *b, const struct foreign_table *table, const struct adopt_value *value, int *parameter)
{
    const struct foreign_column *column = foreign_find(table, slice_from(value->column));
    int64_t later_us;
    add_name(b, "", slice_from(value->column));
    if (!adopt_value_is_time(value->value, &later_us)) {
        buf_addf(b, value->value != NULL ? " = $%d" : " = NULL", value->value != NULL ? ++*parameter : 0);
        return;
    }
    buf_addf(b, " = (now() + %lld * interval '1 microsecond')", (long long)later_us);
    if (column->type == TYPE_TIMESTAMP || column->type == TYPE_DATE)
        buf_add_cstr(b, " AT TIME ZONE $3");
}

static void make_done(const struct adoption *adoption, const struct foreign_table *table, struct buf *b)
{
    int parameter = 3; /* two arrays and the time zone */
    buf_add_cstr(b, adoption->set_count > 0 ? "UPDATE " : "DELETE FROM ");
    add_table(b, adoption);
    buf_add_cstr(b, adoption->set_count > 0 ? " f SET " : " f USING ");
    for (size_t i = 0; i < adoption->set_count; i++) {
        buf_add_cstr(b, i > 0 ? ", " : "");
        add_set(b, table, &adoption->set[i], &parameter);
    }
    buf_add_cstr(b, adoption->set_count > 0 ? " FROM " : "");
    buf_add_cstr(b, "unnest($1, $2) AS v(part, place) WHERE" AT_PLACES);
}

void adopt_done_args(const struct adoption *adoption, struct array *tables, struct array *places, struct args *ret)
{
    int64_t later_us;
    *ret = (struct args){ .count = 0 };
    arg_array(ret, tables);
    arg_array(ret, places);
    arg_text(ret, slice_from(adoption->time_zone));
    for (size_t i = 0; i < adoption->set_count; i++)
        if (adoption->set[i].value != NULL && !adopt_value_is_time(adoption->set[i].value, &later_us))
            arg_literal(ret, adoption->set[i].value);
}

/* ---- All of them ------------------------------------------------------------------------------ */

int adopt_sql_make(const struct adoption *adoption, const struct foreign_table *table, const struct link *link,
                   struct adopt_sql *ret, struct pr_error *reterr)
{
    char **results[] = { &ret->select, &ret->insert, &ret->done, &ret->count, &ret->holder, &ret->bury };
    struct buf texts[ARRAY_LENGTH(results)];
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
        buf_init(&texts[i], SQL_MAX);
    adopt_sql_fini(ret);
    int rc = make_select(adoption, table, ret, &texts[0], reterr);
    make_insert(adoption, table, &texts[1]);
    make_done(adoption, table, &texts[2]);
    make_count(adoption, &texts[3]);
    make_holder(adoption, &texts[4]);
    make_bury(adoption, table, &texts[5]);
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        if (rc == PR_OK && buf_failed(&texts[i]) == PR_OK)
            *results[i] = pg_sql_expand(texts[i].data, slice_from(link->conninfo->schema), slice_from(adoption->box),
                                        link_table(link, slice_from(adoption->box)));
        if (rc == PR_OK && *results[i] == NULL)
            rc = error_set(reterr, PR_ENOMEM, "out of memory for a statement");
        buf_fini(&texts[i]);
    }
    return rc;
}

void adopt_sql_fini(struct adopt_sql *sql)
{
    free(sql->select);
    free(sql->insert);
    free(sql->done);
    free(sql->count);
    free(sql->holder);
    free(sql->bury);
    *sql = (struct adopt_sql){ .select = NULL };
}
