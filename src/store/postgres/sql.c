/* The port for people's side (store/sql.h) over PostgreSQL. */
#include "store/sql.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "store/postgres/postgres.h"

#define OLD_TRANSACTION_S 600

/* ---- The transaction --------------------------------------------------------------------------- */

/* BEGIN goes out with the first statement.  A question has several statements: a message that is split, moved or
 * delivered between two of them would be missing in both. */
static int pg_sql_begin(void *self, enum sql_purpose purpose, struct sql *sql)
{
    struct postgres_store *store = self;
    pthread_mutex_lock(&store->people_lock);
    int rc = link_ensure(store->people, sql->reterr);
    if (rc != PR_OK) {
        pthread_mutex_unlock(&store->people_lock);
        return rc;
    }
    /* Behind a pooler a single statement needs a transaction, too: the settings of the link are set in it. */
    if (purpose == SQL_LOOK || (purpose == SQL_GLANCE && store->people->pooled))
        link_add_begin_look(store->people);
    else if (purpose != SQL_GLANCE)
        link_add_begin(store->people);
    pg_sql_use(sql, store, store->people);
    return PR_OK;
}

void pg_sql_use(struct sql *sql, struct postgres_store *store, struct link *link)
{
    sql->ops = &postgres_sql;
    sql->store = store;
    sql->connection = link;
    sql->payload_max = store->payload_max;
    sql->wall_us = pg_store_wall_us(store);
    sql->mono_us = pg_store_mono_us(store);
}

static int pg_sql_commit(struct sql *sql)
{
    link_add_commit(sql->connection);
    int rc = link_run(sql->connection, sql->reterr);
    if (rc == PR_OK)
        pg_store_wake(sql->store);
    else if (link_is_uncertain(sql->connection))
        rc = error_set(sql->reterr, PR_EUNCERTAIN,
                       "the connection was lost during the commit: check whether the change was made");
    return rc;
}

static void pg_sql_end(struct sql *sql)
{
    struct postgres_store *store = sql->store;
    link_rollback(sql->connection);
    link_forget(sql->connection);
    pthread_mutex_unlock(&store->people_lock);
}

/* The server was restarted meanwhile, or two transactions collided. */
static bool pg_sql_may_retry(struct sql *sql)
{
    return link_should_retry(sql->connection) || !link_is_up(sql->connection);
}

/* ---- Statements ---------------------------------------------------------------------------------- */

static void array_fill(struct array *array, const struct value *v)
{
    array_init(array);
    array_begin(array, v->type == VALUE_INTS ? OID_INT8 : v->type == VALUE_TEXTS ? OID_TEXT : OID_UUID);
    for (int64_t i = 0; i < v->number; i++)
        if (v->type == VALUE_INTS)
            array_i64(array, ((const int64_t *)v->list)[i]);
        else if (v->type == VALUE_TEXTS)
            array_text(array, ((const pr_slice *)v->list)[i]);
        else
            array_id(array, ((const pr_id *)v->list)[i]);
}

static void arg_of_value(struct args *args, struct array *array, const struct value *v, const PGconn *pg)
{
    pr_id id;
    switch (v->type) {
    case VALUE_NULL: arg_null(args, OID_INFERRED); break;
    case VALUE_INT: arg_i64(args, v->number); break;
    case VALUE_BOOL: arg_bool(args, v->number != 0); break;
    case VALUE_TIME: arg_time(args, v->number); break;
    case VALUE_TEXT: arg_text(args, v->bytes); break;
    case VALUE_PAYLOAD: arg_payload(args, v->bytes, pg); break;
    case VALUE_BLOB: arg_bytes(args, v->bytes); break;
    case VALUE_ID:
        memcpy(id.bytes, v->bytes.data, sizeof(id.bytes));
        arg_id(args, id);
        break;
    case VALUE_INTS:
    case VALUE_TEXTS:
    case VALUE_IDS:
        array_fill(array, v);
        arg_array(args, array);
        break;
    }
}

static bool is_array(const struct value *v)
{
    return v->type == VALUE_INTS || v->type == VALUE_TEXTS || v->type == VALUE_IDS;
}

static int pg_sql_run(struct sql *sql, const char *text, bool made, pr_slice box, const struct value *values,
                      size_t count, struct rows *ret)
{
    struct link *link = sql->connection;
    struct array arrays[ARGS_MAX];
    struct args args = { .count = 0 };
    PGresult *result = NULL;
    *ret = (struct rows){ .sql = sql, .at = -1, .mark = link->result_count };
    for (size_t i = 0; i < count; i++)
        arg_of_value(&args, &arrays[i], &values[i], link->pg);
    char *expanded = made ? pg_sql_expand(text, slice_from(link->conninfo->schema), box, link_table(link, box)) : NULL;
    if (made && link_lacks_box(link, text, box))
        ; /* link_run() reports it */
    else if (made && expanded == NULL)
        link->add_failed = PR_ENOMEM;
    else if (made)
        link_add_text(link, expanded, &args, &result);
    else
        link_add(link, text, box, &args, &result);
    int rc = link_run(link, sql->reterr);
    free(expanded);
    for (size_t i = 0; i < count; i++)
        if (is_array(&values[i]))
            array_fini(&arrays[i]);
    if (rc == PR_OK) {
        ret->statement = result;
        ret->count = PQntuples(result);
    }
    return rc;
}

static int pg_sql_step(struct rows *rows)
{
    return ++rows->at < rows->count ? STEP_ROW : STEP_DONE;
}

static void pg_sql_rows_end(struct rows *rows)
{
    link_forget_after(rows->sql->connection, rows->mark);
}

static bool pg_sql_is_null(const struct rows *rows, int column)
{
    return field_is_null(rows->statement, rows->at, column);
}

static int64_t pg_sql_number(const struct rows *rows, int column)
{
    const PGresult *r = rows->statement;
    switch (PQgetlength(r, rows->at, column)) {
    case 0: return 0;
    case 1: return field_bool(r, rows->at, column);
    case 8: return field_i64(r, rows->at, column);
    default: return field_int(r, rows->at, column);
    }
}

static int64_t pg_sql_time(const struct rows *rows, int column)
{
    return field_time(rows->statement, rows->at, column);
}

static pr_slice pg_sql_text(const struct rows *rows, int column)
{
    return field_slice(rows->statement, rows->at, column);
}

static pr_id pg_sql_id(const struct rows *rows, int column)
{
    return pg_sql_is_null(rows, column) ? (pr_id){ { 0 } } : field_id(rows->statement, rows->at, column);
}

static int pg_sql_message(struct rows *rows, struct pr_message *ret, unsigned *ret_lane, const char **ret_bad)
{
    pg_message_decode(rows->statement, rows->at, 0, rows->sql->payload_max, ret, ret_lane, ret_bad);
    return PR_OK;
}

/* ---- Beside statements --------------------------------------------------------------------------- */

static int pg_sql_insert(struct sql *sql, pr_slice box, const struct pr_message *messages, size_t count, int64_t now_us,
                         int *answers)
{
    struct link *link = sql->connection;
    PGresult *result = NULL;
    struct batch batch;
    struct args args;
    (void)now_us; /* the server's clock, unless a test has its own */
    batch_init(&batch);
    batch_begin(&batch, link->pg);
    for (size_t i = 0; i < count; i++)
        batch_add(&batch, &messages[i]);
    batch_args(&batch, sql->wall_us, &args);
    link_add(link, PG_MESSAGE_INSERT, box, &args, &result);
    int rc = link_run(link, sql->reterr);
    if (rc == PR_OK)
        batch_answers(result, messages, count, answers);
    batch_fini(&batch);
    return rc;
}

static int pg_sql_endpoints(struct sql *sql, struct arena *arena, struct endpoint_state **ret, size_t *ret_count)
{
    PGresult *r;
    int rc = link_do(sql->connection, PG_ENDPOINTS, NO_BOX, NULL, &r, sql->reterr);
    return rc == PR_OK ? pg_endpoints_take(r, arena, ret, ret_count, sql->reterr) : rc;
}

static void facts_warn(struct store_facts *facts, pr_slice text)
{
    if (facts->warning_count < ARRAY_LENGTH(facts->warnings) && text.data != NULL)
        facts->warnings[facts->warning_count++] = text;
}

static const char FACTS[] = "SELECT current_setting('server_version'), " NOW(
    "$2") ","
          " CASE WHEN $3 THEN 0 ELSE (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c"
          " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r') END,"
          " (SELECT extract(epoch FROM max(now() - xact_start))::bigint FROM pg_stat_activity WHERE datname = "
          "current_database()),"
          " (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database() AND prepared < now() - "
          "interval '10 minutes'),"
          " current_setting('autovacuum') = 'off', current_setting('fsync') = 'off',"
          " (SELECT format('%I.%I', n.nspname, c.relname) FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid"
          " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname LIKE '%\\_seq\\_seq'"
          " AND s.seqcache > 1 ORDER BY 1 LIMIT 1), current_setting('default_transaction_read_only')::bool";

/* The transaction that keeps writers of one of Postrider's tables out by a lock of the whole table: it has been open
 * for longer than $2, or another one has waited for it.  (Not every role may see when a transaction of another role
 * began; waiting is visible.)  A vacuum takes its lock for a moment at its end. */
static const char LOCKED[] =
    "SELECT l.pid, coalesce(a.usename::text, '?'), coalesce(nullif(a.application_name, ''), 'no name'), l.mode,"
    " format('%I.%I', n.nspname, c.relname), w.waiting,"
    " coalesce(extract(epoch FROM clock_timestamp() - least(a.xact_start, w.since))::bigint, 0) AS seconds"
    " FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace"
    " LEFT JOIN pg_stat_activity a ON a.pid = l.pid CROSS JOIN LATERAL (SELECT count(*) AS waiting, min(w.waitstart) "
    "AS since"
    " FROM pg_locks w WHERE w.locktype = 'relation' AND NOT w.granted AND w.relation = l.relation"
    " AND w.database = l.database) w"
    " WHERE n.nspname = $1 AND c.relkind = 'r' AND l.locktype = 'relation' AND l.granted"
    " AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())"
    " AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')"
    " AND l.pid IS DISTINCT FROM pg_backend_pid() AND a.backend_type IS DISTINCT FROM 'autovacuum worker'"
    " AND least(a.xact_start, w.since) < clock_timestamp() - $2::bigint * interval '1 microsecond'"
    " ORDER BY seconds DESC LIMIT 1";

/* Empty: none. */
static int facts_locked(struct sql *sql, struct arena *arena, pr_slice *ret)
{
    const struct postgres_store *store = sql->store;
    PGresult *r;
    struct args args = { .count = 0 };
    arg_text(&args, slice_from(store->conninfo.schema));
    arg_i64(&args, FACTS_LOCKED_US);
    int rc = link_do(sql->connection, LOCKED, NO_BOX, &args, &r, sql->reterr);
    if (rc != PR_OK || PQntuples(r) == 0)
        return rc;
    const long long seconds = field_i64(r, 0, 6), waiting = field_i64(r, 0, 5);
    if (field_is_null(r, 0, 0))
        *ret = arena_printf(
            arena,
            "a prepared transaction has locked %.*s (%.*s) for %lld s, %lld waiting: COMMIT or ROLLBACK it, "
            "see pg_prepared_xacts",
            SLICE_ARGS(field_slice(r, 0, 4)), SLICE_ARGS(field_slice(r, 0, 3)), seconds, waiting);
    else
        *ret = arena_printf(
            arena,
            "process %d of role %.*s (%.*s) has locked %.*s (%.*s) for %lld s, %lld waiting: wait for it, or "
            "end it with SELECT pg_terminate_backend(%d)",
            field_int(r, 0, 0), SLICE_ARGS(field_slice(r, 0, 1)), SLICE_ARGS(field_slice(r, 0, 2)),
            SLICE_ARGS(field_slice(r, 0, 4)), SLICE_ARGS(field_slice(r, 0, 3)), seconds, waiting, field_int(r, 0, 0));
    return PR_OK;
}

static void facts_of_server(const PGresult *r, struct arena *arena, struct store_facts *facts)
{
    const long long open_s = field_i64(r, 0, 3), prepared = field_i64(r, 0, 4);
    facts->bytes = field_i64(r, 0, 2);
    if (open_s > OLD_TRANSACTION_S)
        facts_warn(facts, arena_printf(arena,
                                       "a transaction has been open for %lld minutes: its own messages wait for it,"
                                       " and nothing newer can be cleaned up; see pg_stat_activity",
                                       open_s / 60));
    if (prepared > 0)
        facts_warn(facts,
                   arena_printf(arena, "%lld prepared transactions are older than 10 minutes: see pg_prepared_xacts",
                                prepared));
    if (facts->warning_count > 0)
        facts->horizon = facts->warnings[0];
    if (field_bool(r, 0, 5))
        facts_warn(facts, PR_STR("autovacuum is off: switch it on, or the tables grow forever"));
    if (field_bool(r, 0, 6))
        facts_warn(facts, PR_STR("fsync is off: a crash of the server can lose or damage messages"));
    if (!field_is_null(r, 0, 7))
        facts_warn(facts, arena_printf(arena,
                                       "a box's sequence has a CACHE: messages may be found minutes late; run ALTER"
                                       " SEQUENCE %.*s CACHE 1",
                                       SLICE_ARGS(field_slice(r, 0, 7))));
}

static int pg_sql_facts(struct sql *sql, struct arena *arena, struct store_facts *facts, int64_t *ret_now_us)
{
    const struct postgres_store *store = sql->store;
    struct link *link = sql->connection;
    PGresult *r;
    struct args args = { .count = 0 };
    int rc = facts_locked(sql, arena, &facts->locked);
    if (rc == PR_OK)
        rc = pg_schema_version(link, &facts->schema_version, sql->reterr);
    arg_text(&args, slice_from(store->conninfo.schema));
    arg_time(&args, sql->wall_us);
    arg_bool(&args, facts->locked.size > 0); /* the size of a locked table cannot be read */
    if (rc == PR_OK)
        rc = link_do(link, FACTS, NO_BOX, &args, &r, sql->reterr);
    if (rc != PR_OK)
        return rc;
    facts->schema_wanted = pg_schema_wanted();
    facts->disk_free_bytes = -1;
    facts->software = arena_printf(arena, "PostgreSQL %.*s", SLICE_ARGS(field_slice(r, 0, 0)));
    if (facts->software.data == NULL)
        return error_set(sql->reterr, PR_ENOMEM, "out of memory for the answer");
    *ret_now_us = field_time(r, 0, 1);
    facts_of_server(r, arena, facts);
    if (facts->locked.size == 0 && field_bool(r, 0, 8))
        facts->locked = PR_STR("default_transaction_read_only is on, so applications cannot send: set it to off"
                               " (ALTER SYSTEM, ALTER DATABASE or ALTER ROLE, wherever it was set)");
    facts_warn(facts, facts->locked);
    if (link->pooled)
        facts_warn(facts, PR_STR("a pooler is in between: statements cannot be prepared, which costs some speed"));
    return PR_OK;
}

const struct sql_ops postgres_sql = {
    .dialect = DIALECT_POSTGRES,
    .message_columns = MESSAGE_COLUMN_COUNT,
    .finds_by_lane = true,
    .locks_rows = true,
    .begin = pg_sql_begin,
    .commit = pg_sql_commit,
    .end = pg_sql_end,
    .may_retry = pg_sql_may_retry,
    .run = pg_sql_run,
    .step = pg_sql_step,
    .rows_end = pg_sql_rows_end,
    .is_null = pg_sql_is_null,
    .number = pg_sql_number,
    .time = pg_sql_time,
    .text = pg_sql_text,
    .id = pg_sql_id,
    .message = pg_sql_message,
    .apply = pg_sql_apply,
    .ended = pg_sql_ended,
    .insert = pg_sql_insert,
    .endpoints = pg_sql_endpoints,
    .facts = pg_sql_facts,
};
