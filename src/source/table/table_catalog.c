/* The catalog's description of a foreign table; see table.h. */
#include "base/error.h"
#include "base/slice.h"
#include "source/table/table.h"

static const char TABLE_SQL[] =
    "SELECT c.oid::int8, c.relkind::text, c.relrowsecurity, has_schema_privilege(n.oid, 'USAGE'),"
    " has_table_privilege(c.oid, 'SELECT'), has_table_privilege(c.oid, 'DELETE'),"
    " has_any_column_privilege(c.oid, 'UPDATE'), current_user::text"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2";
/* For a person who did not expect case to matter. */
static const char OTHER_SQL[] =
    "SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE lower(c.relname) = lower($2) AND c.relkind IN ('r', 'p')"
    " ORDER BY lower(n.nspname) <> lower($1), 1 LIMIT 1";
static const char COLUMNS_SQL[] =
    "SELECT a.attname::text, format_type(a.atttypid, a.atttypmod),"
    " coalesce(nullif(t.typbasetype, 0), t.oid)::int8, has_column_privilege($1::oid, a.attnum, 'UPDATE'),"
    " a.attgenerated <> '' OR a.attidentity = 'a' FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid"
    " WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";
static const char INDEXES_SQL[] =
    "SELECT c.relname::text, coalesce(a.attname::text, ''), coalesce(b.attname::text, '') FROM pg_index i"
    " JOIN pg_class c ON c.oid = i.indexrelid"
    " LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] AND i.indkey[0] <> 0"
    " LEFT JOIN pg_attribute b ON b.attrelid = i.indrelid AND b.attnum = i.indkey[1] AND i.indkey[1] <> 0"
    " WHERE i.indrelid = $1::oid AND i.indisvalid ORDER BY 1";

static const char *text_of(struct arena *arena, const PGresult *result, int row, int column)
{
    return slice_dup(arena, field_slice(result, row, column)).data;
}

static bool take_table(const PGresult *result, struct arena *arena, struct foreign_table *ret)
{
    ret->found = true;
    ret->oid = field_i64(result, 0, 0);
    ret->kind = field_slice(result, 0, 1).data[0];
    ret->row_security = field_bool(result, 0, 2);
    ret->may_use_schema = field_bool(result, 0, 3);
    ret->may_select = field_bool(result, 0, 4);
    ret->may_delete = field_bool(result, 0, 5);
    ret->may_update_any = field_bool(result, 0, 6);
    ret->role = text_of(arena, result, 0, 7);
    return ret->role != NULL;
}

static bool take_columns(const PGresult *result, struct arena *arena, struct foreign_table *ret)
{
    bool ok = true;
    ret->column_count = (size_t)PQntuples(result);
    ret->columns = arena_alloc_array(arena, ret->column_count, sizeof(ret->columns[0]));
    for (size_t i = 0; ret->columns != NULL && i < ret->column_count; i++) {
        struct foreign_column *c = &ret->columns[i];
        c->name = text_of(arena, result, (int)i, 0);
        c->type_name = text_of(arena, result, (int)i, 1);
        c->type = field_i64(result, (int)i, 2);
        c->may_update = field_bool(result, (int)i, 3);
        c->generated = field_bool(result, (int)i, 4);
        ok = ok && c->name != NULL && c->type_name != NULL;
    }
    return ok && ret->columns != NULL;
}

static bool take_indexes(const PGresult *result, struct arena *arena, struct foreign_table *ret)
{
    bool ok = true;
    ret->index_count = (size_t)PQntuples(result);
    ret->indexes = arena_alloc_array(arena, ret->index_count, sizeof(ret->indexes[0]));
    for (size_t i = 0; ret->indexes != NULL && i < ret->index_count; i++) {
        struct foreign_index *x = &ret->indexes[i];
        x->name = text_of(arena, result, (int)i, 0);
        x->columns[0] = text_of(arena, result, (int)i, 1);
        x->columns[1] = text_of(arena, result, (int)i, 2);
        ok = ok && x->name != NULL && x->columns[0] != NULL && x->columns[1] != NULL;
    }
    return ok && ret->indexes != NULL;
}

static int load_parts(struct link *link, struct arena *arena, struct foreign_table *ret, struct pr_error *reterr)
{
    PGresult *columns = NULL, *indexes = NULL;
    struct args args = { .count = 0 };
    arg_i64(&args, ret->oid);
    link_add(link, COLUMNS_SQL, NO_BOX, &args, &columns);
    link_add(link, INDEXES_SQL, NO_BOX, &args, &indexes);
    int rc = link_run(link, reterr);
    if (rc == PR_OK && !(take_columns(columns, arena, ret) && take_indexes(indexes, arena, ret)))
        rc = error_set(reterr, PR_ENOMEM, "out of memory for a table's description");
    return rc;
}

int foreign_load(struct link *link, const struct adoption *adoption, struct arena *arena, struct foreign_table *ret,
                 struct pr_error *reterr)
{
    PGresult *table = NULL, *other = NULL;
    pr_slice schema, name;
    struct args args = { .count = 0 };
    *ret = (struct foreign_table){ .found = false };
    if (!adopt_table_split(adoption->table, &schema, &name))
        return error_set(reterr, PR_EINVAL, "\"%s\" is not a table name: use NAME or SCHEMA.NAME", adoption->table);
    arg_text(&args, schema);
    arg_text(&args, name);
    link_add(link, TABLE_SQL, NO_BOX, &args, &table);
    link_add(link, OTHER_SQL, NO_BOX, &args, &other);
    int rc = link_run(link, reterr);
    if (rc != PR_OK)
        return rc;
    if (PQntuples(table) == 0) {
        ret->other = PQntuples(other) > 0 ? text_of(arena, other, 0, 0) : NULL;
        return PR_OK;
    }
    return take_table(table, arena, ret) ? load_parts(link, arena, ret, reterr)
                                         : error_set(reterr, PR_ENOMEM, "out of memory for a table's description");
}

const struct foreign_column *foreign_find(const struct foreign_table *table, pr_slice name)
{
    for (size_t i = 0; i < table->column_count; i++)
        if (slice_eq_cstr(name, table->columns[i].name))
            return &table->columns[i];
    return NULL;
}
