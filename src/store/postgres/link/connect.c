/* Making a connection, and making it again after a fault: what is checked and set first, and how long to wait before
 * the next attempt. */
#include <poll.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "store/postgres/link/link.h"

#define SQL_MAX 8192
#define NO_RIGHT "42501"
#define RETRY_FIRST_US PR_MILLISECONDS(50)
#define RETRY_LAST_US PR_SECONDS(5)
#define SERVER_VERSION_MIN 140000
#define LAST_WORDS_MAX 8 /* final messages that a server sends before it hangs up */

#define RELAY (1u << LINK_RELAY)
#define SENDER (1u << LINK_SENDER)
#define ALL (RELAY | SENDER | 1u << LINK_PEOPLE)

static const struct {
    const char *name, *value;
    unsigned uses; /* of connections that have it */
} settings[] = {
    { "search_path", "pg_catalog", ALL },
    { "client_min_messages", "warning", ALL },
    { "jit", "off", ALL },
    { "idle_in_transaction_session_timeout", "30s", ALL }, /* a stopped process must not keep locks */
    /* ... even outside of a transaction; a waiting session looks more often */
    { "idle_session_timeout", "60s", RELAY },
    /* Rows are found by exact keys.  A plan that was made while a table was empty, or that scans a table full of dead
     * rows, must be impossible. */
    { "plan_cache_mode", "force_generic_plan", RELAY | SENDER },
    { "enable_seqscan", "off", RELAY | SENDER },
    { "enable_bitmapscan", "off", ALL }, /* listings merge indexes in their order */
    { "enable_hashjoin", "off", RELAY | SENDER },
    { "enable_mergejoin", "off", RELAY | SENDER },
    { "enable_sort", "off", RELAY }, /* due rows come in the order of their index */
    { "enable_incremental_sort", "off", RELAY },
    { "max_parallel_workers_per_gather", "0", ALL }, /* no statement is worth starting processes */
};

/* Relays commit durably, whatever the role's default is (a receipt on disk implies that the rows on it are on disk,
 * too). */
void link_settings(const struct link *link, bool local, struct buf *sql)
{
    const char *scope = local ? "true" : "false";
    buf_addf(sql,
             "SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')"
             " WHEN 'off' THEN 'on' WHEN 'local' THEN 'on' ELSE current_setting('synchronous_commit') END, %s),"
             " set_config('lock_timeout', '%lldms', %s)",
             scope, (long long)(link->lock_timeout_us / 1000), scope);
    for (size_t i = 0; i < ARRAY_LENGTH(settings); i++)
        if ((settings[i].uses & 1u << link->use) != 0)
            buf_addf(sql, ", set_config('%s', '%s', %s)", settings[i].name, settings[i].value, scope);
}

static int settings_apply(struct link *link, struct pr_error *reterr)
{
    struct buf sql;
    buf_init(&sql, SQL_MAX);
    link_settings(link, false, &sql);
    int rc = buf_failed(&sql) == PR_OK ? link_script(link, sql.data, reterr)
                                       : error_set(reterr, PR_ENOMEM, "out of memory for a connection");
    buf_fini(&sql);
    return rc;
}

int link_lock_timeout(struct link *link, int64_t timeout_us, struct pr_error *reterr)
{
    timeout_us = max64(LOCK_TIMEOUT_MIN_US, min64(timeout_us, LOCK_TIMEOUT_MAX_US));
    bool changes = link->lock_timeout_us != timeout_us && link_is_up(link) && !link->pooled;
    link->lock_timeout_us = timeout_us;
    return changes ? settings_apply(link, reterr) : PR_OK;
}

/* Notices of the server, which libpq would print. */
static void notice_log(void *arg, const char *text)
{
    const struct link *link = arg;
    log_emit(link->log, LOG_DEBUG, "postgres_notice", LOG_SLICE("text", slice_trim(slice_from(text))));
}

/* A pooler invents the process id that it reports at the start.  A sender that rings cannot be prepared
 * (077_insert_box.sql). */
static int greet(struct link *link, struct pr_error *reterr)
{
    PGresult *result = PQexecParams(link->pg,
                                    "SELECT pg_catalog.pg_backend_pid(), pg_catalog.pg_is_in_recovery(),"
                                    " pg_catalog.current_setting('max_prepared_transactions') = '0'",
                                    0, NULL, NULL, NULL, NULL, 1);
    int rc = PR_OK;
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        rc = fault_of_result(result, link->conninfo, link->state, reterr);
    } else if (field_bool(result, 0, 1)) {
        rc = error_set(reterr, PR_ESTORE,
                       "the server is a read-only standby: connect to the primary,"
                       " or name all servers and target_session_attrs=read-write in the URL");
    } else {
        link->rings = field_bool(result, 0, 2);
        link->pooled = field_int(result, 0, 0) != PQbackendPID(link->pg) || !link->conninfo->prepare;
    }
    PQclear(result);
    return rc;
}

/* A database in SQL_ASCII does not know the encoding of its texts.  With client encoding UTF-8 it would refuse a whole
 * result because of one row; so the bytes are read as they are and checked here (pg_message_decode). */
static int encoding_choose(struct link *link, struct pr_error *reterr)
{
    const char *server = PQparameterStatus(link->pg, "server_encoding");
    link->checks = server != NULL && strcmp(server, "SQL_ASCII") != 0;
    if (server == NULL || strcmp(server, "SQL_ASCII") != 0 || PQsetClientEncoding(link->pg, server) == 0)
        return PR_OK;
    return fault_of_connection(link->pg, link->conninfo, reterr);
}

static int link_connect(struct link *link, struct pr_error *reterr)
{
    link->pg = PQconnectdbParams((const char *const *)link->conninfo->keywords,
                                 (const char *const *)link->conninfo->values, 0);
    if (link->pg == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a connection");
    if (PQstatus(link->pg) != CONNECTION_OK)
        return fault_of_connection(link->pg, link->conninfo, reterr);
    if (PQserverVersion(link->pg) < SERVER_VERSION_MIN)
        return error_set(reterr, PR_EUNSUPPORTED, "the server is PostgreSQL %d: Postrider needs %d or newer",
                         PQserverVersion(link->pg) / 10000, SERVER_VERSION_MIN / 10000);
    PQsetNoticeProcessor(link->pg, notice_log, link);
    link->generation++;
    int rc = greet(link, reterr);
    if (rc == PR_OK)
        rc = encoding_choose(link, reterr);
    if (rc == PR_OK && !link->pooled)
        rc = settings_apply(link, reterr);
    if (rc != PR_OK || (rc = link_learn(link, reterr)) == PR_OK)
        return rc;
    return strcmp(link->state, NO_RIGHT) == 0 ? PR_OK : rc; /* the statement that needs it reports what is missing */
}

/* Has the server ended the connection while it was unused?  Its last messages come before the end. */
static bool is_alive(PGconn *pg)
{
    struct pollfd socket = { .fd = PQsocket(pg), .events = POLLIN };
    for (int i = 0; i < LAST_WORDS_MAX && PQstatus(pg) == CONNECTION_OK; i++) {
        if (poll(&socket, 1, 0) == 0)
            return true;
        if (!PQconsumeInput(pg))
            return false;
        PGnotify *notify = PQnotifies(pg); /* consumes what arrived */
        PQfreemem(notify);
    }
    return PQstatus(pg) == CONNECTION_OK;
}

int link_ensure(struct link *link, struct pr_error *reterr)
{
    int64_t now_us = clock_mono_us(clock_system());
    link->committing = false;
    if (link->pg != NULL && is_alive(link->pg)) {
        link_rollback(link);
        if (link_is_up(link))
            return PR_OK;
    }
    link_down(link);
    link->state[0] = '\0';
    if (now_us < link->retry_at_us)
        return error_set(reterr, link->refusal.code, "%s; the next attempt is in %lld ms", link->refusal.text,
                         (long long)(link->retry_at_us - now_us) / 1000 + 1);
    int rc = link_connect(link, &link->refusal);
    if (rc == PR_OK) {
        link->retry_wait_us = 0;
        return PR_OK;
    }
    link_down(link);
    link->retry_wait_us = link->retry_wait_us == 0 ? RETRY_FIRST_US : min64(2 * link->retry_wait_us, RETRY_LAST_US);
    link->retry_at_us = clock_mono_us(clock_system()) + link->retry_wait_us;
    return error_set(reterr, rc, "%s", link->refusal.text);
}
