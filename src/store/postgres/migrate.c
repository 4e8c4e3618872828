/* Creating tables, boxes and views, in one transaction.
 *
 * Files run in the order of their numbers, once each; those named *_box once for each box: for existing boxes when the
 * file is new, and all of them for a new box.  Views name all boxes, so they are created again each time.  Concurrent
 * migrations wait for each other. */
#include "store/postgres/migrate.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/slice.h"
#include "store/box_table.h"
#include "store/postgres/postgres.h"
#include "store/postgres/views.h"

#define SCRIPT_MAX (1u << 20)
#define UNDEFINED_COLUMN "42703"
#define NO_RIGHT "42501"
#define HASH_SAMPLE "a stream of bytes that is long"

int pg_schema_wanted(void)
{
    return postgres_migrations[postgres_migrations_count - 1].number;
}

static bool is_for_boxes(const struct migration *m)
{
    return slice_ends_with(slice_from(m->name), PR_STR("_box"));
}

/* ---- Files ---------------------------------------------------------------------------------- */

/* {columns}: adds those of core/columns.h that a box, dead_letter and done lack.  All have a type. */
#define ADD(column, type) ", ADD COLUMN IF NOT EXISTS " #column " " type
#define ADD_TEXT(column, ...) ADD(column, "text")
#define ADD_FATE(kind, column, ...) ADD(column, TYPE_##kind)
#define TYPE_INT "integer"
#define TYPE_BOOL "boolean"
#define TYPE_TIME "timestamptz"
#define TYPE_TEXT "text"
#define TYPE_JSON "json"
#define ADDED " ADD COLUMN IF NOT EXISTS type text" SENDER_TEXTS(ADD_TEXT) FATE_COLUMNS(ADD_FATE) ";"
static const char COLUMNS[] = "ALTER TABLE \"{schema}\".\"{box}\"" ADDED "ALTER TABLE \"{schema}\".dead_letter" ADDED
                              "ALTER TABLE \"{schema}\".done" ADDED;

void pg_script_expand(struct buf *b, const char *sql, pr_slice schema, struct pg_box box)
{
    for (const char *at = sql; *at != '\0';) {
        if (strncmp(at, "{schema}", 8) == 0) {
            buf_add_slice(b, schema);
            at += 8;
        } else if (strncmp(at, "{box}", 5) == 0) {
            buf_add_slice(b, at > sql && at[-1] == '"' ? box.table : box.name);
            at += 5;
        } else if (strncmp(at, "{columns}", 9) == 0) {
            pg_script_expand(b, COLUMNS, schema, box);
            at += 9;
        } else {
            buf_add_char(b, *at++);
        }
    }
}

static int script_run(struct link *link, struct buf *script, struct pr_error *reterr)
{
    int rc = buf_failed(script);
    FAILPOINT("store.migrate.statement");
    rc = rc == PR_OK ? link_script(link, script->data, reterr) : error_set(reterr, rc, "out of memory for a migration");
    buf_fini(script);
    return rc;
}

static int migration_run(struct link *link, const struct migration *m, struct pg_box box, struct pr_error *reterr)
{
    struct buf script;
    buf_init(&script, SCRIPT_MAX);
    pg_script_expand(&script, m->sql, slice_from(link->conninfo->schema), box);
    return script_run(link, &script, reterr);
}

/* ---- Boxes ---------------------------------------------------------------------------------- */

/* Through a JSON object this also works for a schema before 029_table.sql, which has no such column. */
static const char BOXES[] =
    "SELECT b.name, coalesce(to_jsonb(b) ->> 'table_name', b.name) FROM {schema}.box b ORDER BY b.name";

static int boxes_read(struct link *link, PGresult **ret, struct pr_error *reterr)
{
    return link_do(link, BOXES, NO_BOX, NULL, ret, reterr);
}

/* Names that a box uses besides its table's. */
static const char TAKEN[] =
    "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $2"
    " AND c.relname IN ($1, $1 || '_seq_seq', $1 || '_pkey', $1 || '_fresh', $1 || '_due', $1 || '_held',"
    " $1 || '_heads', $1 || '_back') ORDER BY length(c.relname) LIMIT 1";

/* Can this become the table of a new box? */
static int table_check(struct link *link, pr_slice box, pr_slice table, struct pr_error *reterr)
{
    PGresult *taken;
    char where[BOX_NAME_MAX + 16];
    struct args args = { .count = 0 };
    if (!name_is_valid(table) || table.size > PG_BOX_NAME_MAX)
        return error_set(
            reterr, PR_EINVAL,
            "\"%.*s\" cannot be the table of a box: use letters, digits and _, at most %d; boxes.%.*s.table names "
            "another",
            SLICE_ARGS(table), PG_BOX_NAME_MAX, SLICE_ARGS(box));
    arg_text(&args, table);
    arg_text(&args, slice_from(link->conninfo->schema));
    int rc = link_do(link, TAKEN, NO_BOX, &args, &taken, reterr);
    if (rc != PR_OK || PQntuples(taken) == 0)
        return rc;
    snprintf(where, sizeof(where), "the schema %s", link->conninfo->schema);
    return box_table_is_taken(box, where, field_slice(taken, 0, 0), ", or another schema in the URL (schema=NAME)",
                              reterr);
}

/* Outcome PR_UNKNOWN: no such box, and the table is free. */
static int box_find(struct link *link, pr_slice box, pr_slice table, struct pr_error *reterr)
{
    PGresult *boxes;
    int rc = boxes_read(link, &boxes, reterr);
    for (int i = 0; rc == PR_OK && i < PQntuples(boxes); i++)
        if (slice_eq(field_slice(boxes, i, 0), box))
            return box_keeps_table(box, field_slice(boxes, i, 1), table, reterr);
    for (int i = 0; rc == PR_OK && i < PQntuples(boxes); i++)
        if (slice_eq(field_slice(boxes, i, 1), table.size > 0 ? table : box))
            return box_shares_table(box, field_slice(boxes, i, 1), field_slice(boxes, i, 0), reterr);
    return rc == PR_OK ? PR_UNKNOWN : rc;
}

/* table empty: the existing one, or one of the box's name. */
static int box_make(struct link *link, pr_slice box, pr_slice table, bool *made, struct pr_error *reterr)
{
    struct args args = { .count = 0 };
    if (!name_is_valid(box))
        return error_set(reterr, PR_EINVAL, "\"%.*s\" is not a valid box name: use letters, digits and _, at most %d",
                         SLICE_ARGS(box), PG_BOX_NAME_MAX);
    int rc = box_find(link, box, table, reterr);
    if (rc != PR_UNKNOWN)
        return rc;
    struct pg_box new = { box, table.size > 0 ? table : box };
    rc = table_check(link, box, new.table, reterr);
    *made |= rc == PR_OK;
    for (size_t i = 0; i < postgres_migrations_count && rc == PR_OK; i++)
        if (is_for_boxes(&postgres_migrations[i]))
            rc = migration_run(link, &postgres_migrations[i], new, reterr);
    arg_text(&args, box);
    arg_text(&args, new.table);
    if (rc == PR_OK && !slice_eq(new.table, box))
        rc = link_do(link, "UPDATE {schema}.box SET table_name = $2 WHERE name = $1", NO_BOX, &args, NULL, reterr);
    return rc;
}

static int views_make(struct link *link, struct pr_error *reterr)
{
    struct buf script;
    PGresult *boxes;
    int rc = boxes_read(link, &boxes, reterr);
    if (rc != PR_OK)
        return rc;
    buf_init(&script, SCRIPT_MAX);
    pg_views_write(&script, slice_from(link->conninfo->schema), boxes);
    return script_run(link, &script, reterr);
}

/* ---- Rights ----------------------------------------------------------------------------------- */

/* The rights to call send() and to read views, as statements.  Both are dropped and created again, and an application
 * must not stop because the tables were upgraded. */
static int rights_read(struct link *link, struct buf *ret, struct pr_error *reterr)
{
    PGresult *result;
    struct args args = { .count = 0 };
    arg_text(&args, slice_from(link->conninfo->schema));
    int rc = link_do(link,
                     "WITH f AS (SELECT p.proname, p.proowner, a.grantee FROM pg_proc p, aclexplode(p.proacl) a"
                     " WHERE p.pronamespace = to_regnamespace(quote_ident($1)) AND a.grantee <> p.proowner)"
                     " SELECT DISTINCT format('GRANT %s ON %s TO %s%s;', a.privilege_type, o.name,"
                     " CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END,"
                     " CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)"
                     " FROM (SELECT format('%I.%I', $1::text, relname) AS name, relacl AS acl, relowner AS owner"
                     " FROM pg_class WHERE relnamespace = to_regnamespace(quote_ident($1)) AND relkind = 'v'"
                     " UNION ALL SELECT format('ALL FUNCTIONS IN SCHEMA %I', $1::text), proacl, proowner"
                     " FROM pg_proc WHERE pronamespace = to_regnamespace(quote_ident($1)) AND proname = 'send') o,"
                     " aclexplode(o.acl) a WHERE a.grantee <> o.owner AND pg_has_role(o.owner, 'USAGE')"
                     " UNION SELECT format('REVOKE EXECUTE ON FUNCTION %I.%I FROM %s;', $1::text, other,"
                     " CASE f.grantee WHEN 0 THEN 'PUBLIC' ELSE f.grantee::regrole::text END) FROM f,"
                     " (VALUES ('complete', 'complete'), ('complete_append', 'complete'),"
                     " ('complete_set', 'complete'), ('advance_subscription', 'advance_subscription'),"
                     " ('place_events', 'place_events'), ('schedule', 'schedule'),"
                     " ('unschedule', 'unschedule'), ('run_schedule', 'schedule'), ('pause_schedule', 'schedule'),"
                     " ('resume_schedule', 'schedule'), ('reschedule', 'schedule')) o(other, goes_with)"
                     " WHERE f.proname = 'send' AND pg_has_role(f.proowner, 'USAGE')"
                     " AND NOT EXISTS (SELECT FROM f c WHERE c.proname = goes_with AND c.grantee = f.grantee)"
                     " ORDER BY 1", /* grants first */
                     NO_BOX, &args, &result, reterr);
    for (int i = 0; rc == PR_OK && i < PQntuples(result); i++)
        buf_add_slice(ret, field_slice(result, i, 0));
    return rc;
}

/* ---- The whole ------------------------------------------------------------------------------- */

int pg_schema_version(struct link *link, int *ret_version, struct pr_error *reterr)
{
    PGresult *result;
    struct args args = { .count = 0 };
    arg_text(&args, slice_from(link->conninfo->schema));
    int rc = link_do(link,
                     "SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
                     " WHERE n.nspname = $1 AND c.relname = 'meta' AND c.relkind = 'r')",
                     NO_BOX, &args, &result, reterr);
    *ret_version = 0;
    if (rc != PR_OK || !field_bool(result, 0, 0))
        return rc;
    rc = link_do(link, "SELECT value::int FROM {schema}.meta WHERE key = 'schema_version'", NO_BOX, NULL, &result,
                 reterr);
    if (strcmp(link->state, UNDEFINED_COLUMN) == 0)
        return error_set(reterr, PR_ESCHEMA,
                         "the schema %s has a table \"meta\" that Postrider did not create: use another schema in the "
                         "URL (schema=NAME)",
                         link->conninfo->schema);
    if (rc == PR_OK && PQntuples(result) == 1)
        *ret_version = field_int(result, 0, 0);
    return rc;
}

static int schema_make(struct link *link, struct pr_error *reterr)
{
    PGresult *there;
    struct args args = { .count = 0 };
    arg_text(&args, slice_from(link->conninfo->schema));
    int rc = link_do(link, "SELECT FROM pg_namespace WHERE nspname = $1", NO_BOX, &args, &there, reterr);
    if (rc != PR_OK || PQntuples(there) > 0)
        return rc;
    rc = link_do(link, "CREATE SCHEMA {schema}", NO_BOX, NULL, NULL, reterr);
    if (strcmp(link->state, NO_RIGHT) == 0)
        return error_set(reterr, PR_ESTORE,
                         "this role cannot create the schema %s: GRANT CREATE ON DATABASE %s to it, or run postrider "
                         "init as another role",
                         link->conninfo->schema, PQdb(link->pg));
    return rc;
}

int pg_schema_too_new(int version, struct pr_error *reterr)
{
    return error_set(reterr, PR_ESCHEMA, "the schema has version %d, this program knows version %d: upgrade Postrider",
                     version, pg_schema_wanted());
}

/* No instance joins meanwhile (instance_insert() in lease.c compares the version), and cycles under way finish first:
 * cycles lock in this order, too. */
static int instances_stop(struct link *link, int version, struct pr_error *reterr)
{
    if (version == 0 || version == pg_schema_wanted())
        return PR_OK;
    return link_do(link, "LOCK TABLE {schema}.instance IN ACCESS EXCLUSIVE MODE", NO_BOX, NULL, NULL, reterr);
}

static int files_run(struct link *link, int version, struct pr_error *reterr)
{
    PGresult *boxes = NULL;
    int rc = instances_stop(link, version, reterr);
    if (rc == PR_OK && version > 0)
        rc = boxes_read(link, &boxes, reterr);
    for (size_t i = 0; i < postgres_migrations_count && rc == PR_OK; i++) {
        const struct migration *m = &postgres_migrations[i];
        if (m->number <= version)
            continue;
        if (!is_for_boxes(m))
            rc = migration_run(link, m, (struct pg_box){ NO_BOX, NO_BOX }, reterr);
        for (int k = 0; is_for_boxes(m) && boxes != NULL && k < PQntuples(boxes) && rc == PR_OK; k++)
            rc = migration_run(link, m, (struct pg_box){ field_slice(boxes, k, 0), field_slice(boxes, k, 1) }, reterr);
    }
    struct args args = { .count = 0 };
    arg_i32(&args, pg_schema_wanted());
    if (rc == PR_OK && version < pg_schema_wanted())
        rc = link_do(link, "UPDATE {schema}.meta SET value = $1::text WHERE key = 'schema_version'", NO_BOX, &args,
                     NULL, reterr);
    return rc;
}

/* The server computes the lane; and stored text is UTF-8, or taken for it (SQL_ASCII). */
static int server_check(struct link *link, struct pr_error *reterr)
{
    PGresult *result;
    int rc = link_do(
        link, "SELECT hashtext('" HASH_SAMPLE "') & 63, current_setting('server_encoding') IN ('UTF8', 'SQL_ASCII')",
        NO_BOX, NULL, &result, reterr);
    if (rc != PR_OK)
        return rc;
    if (!field_bool(result, 0, 1))
        return error_set(reterr, PR_EUNSUPPORTED,
                         "the database is not encoded in UTF-8: create one with ENCODING 'UTF8'");
    if ((unsigned)field_int(result, 0, 0) != lane_of(PR_STR(HASH_SAMPLE), (pr_id){ { 0 } }))
        return error_set(reterr, PR_EUNSUPPORTED,
                         "this server computes hashes in a way that Postrider does not support");
    return PR_OK;
}

/* Files, boxes, and (if any were new) the views and functions that depend on them. */
static int schema_grow(struct link *link, int version, const struct store_box *boxes, size_t box_count,
                       struct pr_error *reterr)
{
    static const char *const always[] = { "outbox", "inbox", "turns", "activities" };
    struct buf rights;
    bool changed = version < pg_schema_wanted();
    buf_init(&rights, SCRIPT_MAX);
    int rc = rights_read(link, &rights, reterr);
    if (rc == PR_OK)
        rc = files_run(link, version, reterr);
    for (size_t i = 0; i < box_count && rc == PR_OK; i++)
        rc = box_make(link, slice_from(boxes[i].name), box_table(&boxes[i]), &changed, reterr);
    for (size_t i = 0; i < ARRAY_LENGTH(always) && rc == PR_OK; i++) /* unless they were in the list */
        rc = box_make(link, slice_from(always[i]), NO_BOX, &changed, reterr);
    if (rc == PR_OK && changed)
        rc = views_make(link, reterr);
    if (rc == PR_OK && changed && rights.size > 0)
        return script_run(link, &rights, reterr);
    buf_fini(&rights);
    return rc;
}

static int migrate_inside(struct link *link, const struct store_box *boxes, size_t box_count, struct pr_error *reterr)
{
    int version = 0;
    struct args args = { .count = 0 };
    arg_text(&args, slice_from(link->conninfo->schema));
    int rc = link_do(link, "SELECT pg_advisory_xact_lock(hashtextextended('postrider ' || $1, 0))", NO_BOX, &args, NULL,
                     reterr);
    if (rc == PR_OK)
        rc = pg_schema_version(link, &version, reterr);
    if (rc == PR_OK && version > pg_schema_wanted())
        return pg_schema_too_new(version, reterr);
    if (rc == PR_OK && version == 0)
        rc = schema_make(link, reterr);
    if (rc == PR_OK)
        rc = schema_grow(link, version, boxes, box_count, reterr);
    return rc;
}

static int migrate_once(struct link *link, const struct store_box *boxes, size_t box_count, struct pr_error *reterr)
{
    int rc = link_ensure(link, reterr);
    if (rc == PR_OK)
        rc = server_check(link, reterr);
    if (rc != PR_OK)
        return rc;
    link_add_begin(link);
    rc = link_run(link, reterr);
    if (rc == PR_OK)
        rc = migrate_inside(link, boxes, box_count, reterr);
    FAILPOINT("store.migrate.before_commit");
    if (rc == PR_OK) {
        link_add_commit(link);
        rc = link_run(link, reterr);
    }
    FAILPOINT("store.migrate.after_commit");
    link_rollback(link);
    link_forget(link);
    if (rc == PR_OK)
        rc = link_learn(link, reterr);
    return rc;
}

int pg_migrate(void *self, const struct store_box *boxes, size_t box_count, struct pr_error *reterr)
{
    struct postgres_store *store = self;
    pthread_mutex_lock(&store->people_lock);
    int rc = migrate_once(store->people, boxes, box_count, reterr);
    if (rc != PR_OK && link_should_retry(store->people))
        rc = migrate_once(store->people, boxes, box_count, reterr);
    pthread_mutex_unlock(&store->people_lock);
    return rc;
}

int pg_check(void *self, struct pr_error *reterr)
{
    struct postgres_store *store = self;
    int version = 0;
    pthread_mutex_lock(&store->people_lock);
    int rc = link_ensure(store->people, reterr);
    if (rc == PR_OK)
        rc = server_check(store->people, reterr);
    if (rc == PR_OK)
        rc = pg_schema_version(store->people, &version, reterr);
    link_forget(store->people);
    pthread_mutex_unlock(&store->people_lock);
    if (rc != PR_OK)
        return rc;
    if (version > pg_schema_wanted())
        return pg_schema_too_new(version, reterr);
    if (version == 0)
        return error_set(reterr, PR_ESCHEMA, "the schema %s has no Postrider tables: run postrider init",
                         store->conninfo.schema);
    if (version < pg_schema_wanted())
        return error_set(reterr, PR_ESCHEMA,
                         "the schema has version %d, this program needs version %d: run postrider init", version,
                         pg_schema_wanted());
    return PR_OK;
}
