/* table.h - internals of moving rows of a foreign table into a box.
 *
 * The mark of a taken row (it is gone, or its columns are set) is the cursor: nothing else is remembered, so rows that
 * are committed late are found, and a row is taken once because it is marked in the transaction that stores its
 * message.
 *
 *   table_catalog.c  what the database says about the table
 *   table_check.c    whether the table can be used, with advice
 *   table_sql.c      the statements
 *   table_row.c      from a row to a message
 *   table.c          the transaction, and when to look again
 *
 * One mover at a time works on a table (an advisory lock for the transaction), so that two do not bring a stream out of
 * order.  Any role that may connect can take that lock, too; its holder is reported by name.  Rows that other
 * transactions have locked are left for the next look. */
#ifndef SOURCE_TABLE_TABLE_H
#define SOURCE_TABLE_TABLE_H

#include "source/bury.h"
#include "source/source.h"
#include "store/postgres/postgres.h"

/* Types that matter here, by their oids in pg_type. */
enum foreign_type {
    TYPE_JSON = 114,
    TYPE_XML = 142,
    TYPE_BPCHAR = 1042,
    TYPE_VARCHAR = 1043,
    TYPE_DATE = 1082,
    TYPE_TIMESTAMP = 1114,
    TYPE_NUMERIC = 1700,
    TYPE_JSONB = 3802,
};

/* ---- The catalog (table_catalog.c) ---- */

struct foreign_column {
    const char *name, *type_name;
    int64_t type; /* of a domain: its base type */
    bool may_update, generated;
};

struct foreign_index {
    const char *name, *columns[2]; /* the first two; "" : an expression, or none */
};

struct foreign_table {
    bool found;
    const char *other; /* not found: a table that differs only in case, or NULL */
    int64_t oid;
    char kind; /* pg_class.relkind */
    bool row_security;
    bool may_use_schema, may_select, may_delete, may_update_any;
    const char *role;
    struct foreign_column *columns;
    size_t column_count;
    struct foreign_index *indexes;
    size_t index_count;
};

/* Fault of the connection only; a missing table is reported as not found. */
PR_MUST_CHECK int foreign_load(struct link *link, const struct adoption *adoption, struct arena *arena,
                               struct foreign_table *ret, struct pr_error *reterr);
const struct foreign_column *foreign_find(const struct foreign_table *table, pr_slice name); /* NULL: none */

/* ---- Checking (table_check.c) ---- */

/* own_schema: of Postrider's tables, which cannot be adopted. */
void foreign_judge(const struct adoption *adoption, const struct foreign_table *table, const char *own_schema,
                   struct arena *arena, struct adopt_report *ret);

/* ---- Statements (table_sql.c) ---- */

#define SELECT_FIXED 4                     /* tableoid, ctid, is the payload NULL, now */
#define TEXT_READ_MAX (PR_HEADERS_MAX + 1) /* characters of a column: the limit of headers */
#define OUTPUTS_MAX (ADOPT_FIELD_COUNT * ADOPT_PARTS_MAX)

/* The meaning of the SELECT's columns after the fixed ones. */
struct output {
    enum adopt_field field;
    size_t part;
};

struct adopt_sql {
    char *select, *insert, *done, *count, *holder, *bury;
    struct output outputs[OUTPUTS_MAX];
    size_t output_count;
};

/* Fault PR_ENOMEM.  The table must have passed the check. */
/* table, process, role, program, process */
#define ADOPT_LOCK_HELD                                                                                                \
    "the lock of %s is held by process %d of role %.*s (%.*s), so its rows do not move: end it with"                   \
    " SELECT pg_terminate_backend(%d)"
PR_MUST_CHECK int adopt_sql_make(const struct adoption *adoption, const struct foreign_table *table,
                                 const struct link *link, struct adopt_sql *ret, struct pr_error *reterr);
void adopt_sql_fini(struct adopt_sql *sql);
/* Their parameters; those of insert and bury are a batch followed by table.c's own. */
void adopt_select_args(const struct adoption *adoption, struct array *skipped, int64_t limit, struct args *ret);
void adopt_count_args(const struct adoption *adoption, struct args *ret);
void adopt_done_args(const struct adoption *adoption, struct array *tables, struct array *places, struct args *ret);

/* ---- Rows (table_row.c) ---- */

struct adopt_row {
    int64_t table;       /* tableoid */
    pr_slice place;      /* ctid */
    struct pr_message m; /* without its payload */
    pr_slice foreign_id;
    const char *bad; /* why it is not a message, or NULL */
    pr_slice note;   /* bad: content that the columns of a dead letter cannot hold */
};

/* The alternatives of all fields, parsed. */
struct adopt_mapping {
    const struct adoption *adoption;
    struct adopt_parts parts[ADOPT_FIELD_COUNT];
};
void adopt_mapping_init(struct adopt_mapping *mapping, const struct adoption *adoption);

/* Data outside of the result lives in the arena.  Fault PR_ENOMEM. */
PR_MUST_CHECK int adopt_row_read(const struct adopt_mapping *mapping, const struct adopt_sql *sql,
                                 const PGresult *result, int row, struct arena *arena, struct adopt_row *ret,
                                 struct pr_error *reterr);

#endif
