/* Publication and slot: creating them where the rights allow, and reporting exactly what is missing where they do not.
 *
 * The publication contains only inserts, and one column where the server can (15 or newer): the doorbell needs to know
 * that there is something, not what.  It is created before the slot, since the server reads the log with the catalog as
 * it was then. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "source/wal/wal_inside.h"

#define SERVER_WITH_COLUMN_LISTS 150000
#define SQL_MAX 65536
#define SQL_DUPLICATE "42710"
#define TEMPORARY_PREFIX_MAX 50 /* of the slot's name: a process id follows */
#define STATEMENT_US PR_SECONDS(20)

/* ---- Names -------------------------------------------------------------------------------------------- */

static bool is_slot_name(const char *name)
{
    size_t size = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return size > 0 && size <= WAL_NAME_MAX && name[size] == '\0';
}

static void slot_name_derive(const struct link *sql, char ret[WAL_NAME_SIZE])
{
    snprintf(ret, WAL_NAME_SIZE, "%.30s_%.30s", sql->conninfo->schema, PQdb(sql->pg));
    for (char *c = ret; *c != '\0'; c++) {
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c - 'A' + 'a');
        else if (!((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9')))
            *c = '_';
    }
}

int wal_names_make(const struct link *sql, const struct wal_setting *setting, struct wal_names *ret,
                   struct pr_error *reterr)
{
    slot_name_derive(sql, ret->slot);
    if (setting->slot[0] != '\0') {
        if (!is_slot_name(setting->slot))
            return error_set(reterr, PR_ECONFIG,
                             "\"%s\" is not a valid slot name: use small letters, digits and _, at most %d",
                             setting->slot, WAL_NAME_MAX);
        snprintf(ret->slot, sizeof(ret->slot), "%s", setting->slot);
    }
    memcpy(ret->publication, ret->slot, sizeof(ret->publication));
    if (setting->publication[0] == '\0')
        return PR_OK;
    if (!name_is_valid(slice_from(setting->publication)))
        return error_set(reterr, PR_ECONFIG,
                         "\"%s\" is not a valid publication name: use letters, digits and _, at most %d",
                         setting->publication, WAL_NAME_MAX);
    snprintf(ret->publication, sizeof(ret->publication), "%s", setting->publication);
    return PR_OK;
}

/* ---- The server ----------------------------------------------------------------------------------------- */

int wal_server_check(struct link *sql, struct pr_error *reterr)
{
    PGresult *r;
    int rc = link_do(sql, "SELECT current_setting('wal_level')", NO_BOX, NULL, &r, reterr);
    if (rc != PR_OK || slice_eq_cstr(field_slice(r, 0, 0), "logical"))
        return rc;
    return error_set(reterr, PR_EUNSUPPORTED,
                     "the server's wal_level is %.*s, but must be logical:"
                     " ALTER SYSTEM SET wal_level = logical; then restart the server",
                     SLICE_ARGS(field_slice(r, 0, 0)));
}

/* ---- The publication ---------------------------------------------------------------------------------------- */

/* Also published: operators' notices, and joining instances. */
static const struct {
    const char *table, *column;
} others[] = { { "control", "number" }, { "instance", "id" } };

static const char MISSING[] =
    "SELECT (SELECT pubinsert FROM pg_publication WHERE pubname = $1),"
    " (SELECT string_agg(t.name, ',' ORDER BY t.name) FROM unnest($3) AS t(name) WHERE NOT EXISTS"
    " (SELECT FROM pg_publication_tables p WHERE p.pubname = $1 AND p.schemaname = $2 AND p.tablename = "
    "t.name))";

static const char *column_of(pr_slice table)
{
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
        if (slice_eq_cstr(table, others[i].table))
            return others[i].column;
    return "seq";
}

static void write_publication(const struct link *sql, const struct wal_names *names, bool is_there, pr_slice tables,
                              struct buf *ret)
{
    buf_addf(ret, is_there ? "ALTER PUBLICATION \"%s\" ADD TABLE " : "CREATE PUBLICATION \"%s\" FOR TABLE ",
             names->publication);
    for (bool first = true; tables.size > 0; first = false) {
        const char *comma = memchr(tables.data, ',', tables.size);
        pr_slice table = { tables.data, comma != NULL ? (size_t)(comma - tables.data) : tables.size };
        size_t used = table.size + (comma != NULL);
        tables = (pr_slice){ tables.data + used, tables.size - used };
        buf_addf(ret, "%s\"%s\".\"%.*s\"", first ? "" : ", ", sql->conninfo->schema, SLICE_ARGS(table));
        if (PQserverVersion(sql->pg) >= SERVER_WITH_COLUMN_LISTS)
            buf_addf(ret, " (%s)", column_of(table));
    }
    buf_add_cstr(ret, is_there ? "" : " WITH (publish = 'insert')");
}

static int publication_read(struct link *sql, const struct wal_setting *setting, const struct wal_names *names,
                            PGresult **ret, struct pr_error *reterr)
{
    struct array tables;
    struct args args = { .count = 0 };
    array_init(&tables);
    array_begin(&tables, OID_TEXT);
    for (size_t i = 0; i < setting->box_count; i++) {
        pr_slice box = slice_from(setting->boxes[i]), table = link_table(sql, box);
        array_text(&tables, table.size > 0 ? table : box); /* the server will report that it is missing */
    }
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
        array_text(&tables, slice_from(others[i].table));
    arg_text(&args, slice_from(names->publication));
    arg_text(&args, slice_from(sql->conninfo->schema));
    arg_array(&args, &tables);
    int rc = link_do(sql, MISSING, NO_BOX, &args, ret, reterr);
    array_fini(&tables);
    return rc;
}

static int publication_inside(struct link *sql, const struct wal_setting *setting, const struct wal_names *names,
                              struct pr_error *reterr)
{
    PGresult *r;
    struct buf line;
    int rc = publication_read(sql, setting, names, &r, reterr);
    if (rc != PR_OK)
        return rc;
    bool is_there = !field_is_null(r, 0, 0);
    if (is_there && !field_bool(r, 0, 0))
        return error_set(reterr, PR_ESTORE,
                         "the publication %s does not publish inserts:"
                         " ALTER PUBLICATION \"%s\" SET (publish = 'insert')",
                         names->publication, names->publication);
    if (field_is_null(r, 0, 1))
        return PR_OK;
    buf_init(&line, SQL_MAX);
    write_publication(sql, names, is_there, field_slice(r, 0, 1), &line);
    rc = buf_failed(&line) == PR_OK ? link_script(sql, line.data, reterr)
                                    : error_set(reterr, PR_ENOMEM, "out of memory for a publication");
    if (rc != PR_OK && strcmp(sql->state, "42501") == 0)
        error_set(reterr, rc,
                  "this role cannot create the publication: run postrider init as the owner of the schema with"
                  " CREATE on the database, or run: %s",
                  line.data);
    buf_fini(&line);
    return rc;
}

static int remember(struct link *sql, const struct wal_names *names, struct pr_error *reterr)
{
    struct args args = { .count = 0 };
    arg_text(&args, slice_from(names->slot));
    arg_text(&args, slice_from(names->publication));
    return link_do(sql,
                   "INSERT INTO {schema}.wal_slot (slot, publication, begins_at) VALUES ($1, $2, '0/0')"
                   " ON CONFLICT (slot) DO UPDATE SET publication = excluded.publication"
                   " WHERE wal_slot.publication <> excluded.publication",
                   NO_BOX, &args, NULL, reterr);
}

/* Concurrent starts create it one after the other. */
int wal_publication_make(struct link *sql, const struct wal_setting *setting, const struct wal_names *names,
                         struct pr_error *reterr)
{
    struct args args = { .count = 0 };
    arg_text(&args, slice_from(names->publication));
    link_add_begin(sql);
    link_add(sql, "SELECT pg_advisory_xact_lock(hashtextextended('postrider publication ' || $1, 0))", NO_BOX, &args,
             NULL);
    int rc = link_run(sql, reterr);
    if (rc == PR_OK)
        rc = publication_inside(sql, setting, names, reterr);
    if (rc == PR_OK)
        rc = remember(sql, names, reterr);
    if (rc == PR_OK) {
        link_add_commit(sql);
        rc = link_run(sql, reterr);
    }
    link_rollback(sql);
    link_forget(sql);
    return rc;
}

/* ---- The slot ------------------------------------------------------------------------------------------------- */

int wal_slot_look(struct link *sql, const char *slot, struct wal_slot_state *ret, struct pr_error *reterr)
{
    PGresult *r;
    struct args args = { .count = 0 };
    arg_text(&args, slice_from(slot));
    int rc = link_do(sql,
                     "SELECT active, coalesce(wal_status = 'lost', false),"
                     " coalesce(plugin = 'pgoutput' AND database = current_database(), false),"
                     " pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint,"
                     " pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::bigint"
                     " FROM pg_replication_slots WHERE slot_name = $1::text::name",
                     NO_BOX, &args, &r, reterr);
    if (rc != PR_OK)
        return rc;
    *ret = (struct wal_slot_state){ .there = PQntuples(r) > 0 };
    if (ret->there) {
        ret->active = field_bool(r, 0, 0);
        ret->lost = field_bool(r, 0, 1);
        ret->ours = field_bool(r, 0, 2);
        ret->lag = field_i64(r, 0, 3);
        ret->unread = field_i64(r, 0, 4);
    }
    return PR_OK;
}

/* The slot existed before and is gone, or has lost its log: records since when messages may have been missed. */
static int note_loss(struct link *sql, const char *slot, struct log *log, struct pr_error *reterr)
{
    PGresult *r;
    struct args args = { .count = 0 };
    arg_text(&args, slice_from(slot));
    int rc = link_do(sql,
                     "UPDATE {schema}.wal_slot s SET lost_after = coalesce(s.lost_after, greatest(s.begins_at, (SELECT "
                     "max(p.place)"
                     " FROM {schema}.wal_place p WHERE p.slot = s.slot AND p.system = (SELECT system_identifier FROM"
                     " pg_control_system())))) WHERE s.slot = $1 AND s.begins_at <> '0/0' RETURNING s.lost_after::text",
                     NO_BOX, &args, &r, reterr);
    if (rc == PR_OK && PQntuples(r) > 0)
        log_emit(log, LOG_ERROR, "wal_slot_gone", LOG_STR("slot", slot), LOG_SLICE("after", field_slice(r, 0, 0)),
                 LOG_STR("next", "it is created again; messages emitted meanwhile were not read"));
    return rc;
}

static int slot_create(struct wal_link *link, const char *slot, int64_t timeout_us, struct pr_error *reterr)
{
    char sql[256];
    snprintf(sql, sizeof(sql), "SELECT lsn FROM pg_catalog.pg_create_logical_replication_slot('%s', 'pgoutput')", slot);
    int rc = wal_link_do(link, sql, timeout_us, NULL, reterr);
    return rc < 0 && strcmp(link->state, SQL_DUPLICATE) == 0 ? PR_OK : rc; /* another instance was faster */
}

static int note_begin(struct link *sql, const char *slot, struct pr_error *reterr)
{
    struct args args = { .count = 0 };
    arg_text(&args, slice_from(slot));
    return link_do(sql,
                   "UPDATE {schema}.wal_slot w SET made_at = now(), begins_at = s.confirmed_flush_lsn"
                   " FROM pg_replication_slots s WHERE s.slot_name = w.slot AND w.slot = $1"
                   " AND (w.begins_at = '0/0' OR w.lost_after >= w.begins_at)",
                   NO_BOX, &args, NULL, reterr);
}

static int drop_lost(struct link *sql, const char *slot, struct pr_error *reterr)
{
    struct args args = { .count = 0 };
    arg_text(&args, slice_from(slot));
    return link_do(sql,
                   "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
                   " WHERE slot_name = $1::text::name AND wal_status = 'lost' AND NOT active",
                   NO_BOX, &args, NULL, reterr);
}

int wal_slot_make(struct link *sql, struct wal_link *link, const struct wal_names *names, int64_t timeout_us,
                  struct log *log, struct pr_error *reterr)
{
    struct wal_slot_state slot;
    int rc = wal_slot_look(sql, names->slot, &slot, reterr);
    if (rc == PR_OK && slot.there && !slot.ours)
        rc = error_set(
            reterr, PR_ESTORE,
            "the slot %s belongs to another database or another program: name another one with slot:", names->slot);
    if (rc == PR_OK && (!slot.there || slot.lost))
        rc = note_loss(sql, names->slot, log, reterr);
    if (rc == PR_OK && slot.there && slot.lost)
        rc = drop_lost(sql, names->slot, reterr);
    if (rc == PR_OK && (!slot.there || slot.lost))
        rc = slot_create(link, names->slot, timeout_us, reterr);
    if (rc == PR_OK)
        rc = note_begin(sql, names->slot, reterr);
    link_forget(sql);
    return rc;
}

int wal_slot_make_temporary(struct wal_link *link, const struct wal_names *names, char *ret_name,
                            struct pr_error *reterr)
{
    char sql[256];
    PGresult *r;
    snprintf(sql, sizeof(sql),
             "SELECT slot_name FROM pg_catalog.pg_create_logical_replication_slot("
             "'%.*s_' || pg_catalog.pg_backend_pid(), 'pgoutput', true)",
             TEMPORARY_PREFIX_MAX, names->slot);
    int rc = wal_link_do(link, sql, PR_NEVER, &r, reterr);
    if (rc != PR_OK)
        return rc;
    snprintf(ret_name, WAL_NAME_SIZE, "%s", PQgetvalue(r, 0, 0));
    PQclear(r);
    return PR_OK;
}
