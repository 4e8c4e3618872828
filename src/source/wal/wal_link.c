/* A replication connection: nothing here blocks without watching wake_fd, so that a stop never waits for a server that
 * does not answer. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "source/wal/wal_inside.h"

#define CONNECT_US PR_SECONDS(20)
#define KEYWORDS_MAX 80 /* libpq knows about 45 */
#define CANCEL_TEXT_SIZE 256

static int64_t now_us(void)
{
    return clock_mono_us(clock_system());
}

/* Errors of servers without replication for this user; %s is the user. */
static const struct {
    const char *words, *advice;
} refusals[] = {
    { "max_wal_senders", "all WAL senders are in use: ALTER SYSTEM SET max_wal_senders = 20; then restart the server" },
    { "replication slots are in use", "ALTER SYSTEM SET max_replication_slots = 20; then restart the server, "
                                      "or drop a slot that nobody needs" },
    { "wal_level", "ALTER SYSTEM SET wal_level = logical; then restart the server" },
    { "replication role", "ALTER ROLE \"%s\" REPLICATION; as a superuser" },
    { "to start WAL sender", "ALTER ROLE \"%s\" REPLICATION; as a superuser" },
    { "unsupported startup parameter",
      "a pooler is in between, which does not support replication: name the server itself in"
      " the store's URL" },
    { "unsupported replication", "a pooler is in between: name the server itself in the store's URL" },
    { "publication \"", "it was created after the slot, or dropped: postrider init --drop-slot, then postrider init" },
};

/* The fault of a connection or a result, with advice if known. */
static int advise(const struct wal_link *link, int rc, struct pr_error *reterr)
{
    char advice[PR_ERROR_TEXT_SIZE];
    const char *user = PQuser(link->pg);
    for (size_t i = 0; reterr != NULL && i < ARRAY_LENGTH(refusals); i++) {
        if (!slice_contains(slice_from(reterr->text), slice_from(refusals[i].words)))
            continue;
        snprintf(advice, sizeof(advice), refusals[i].advice, user != NULL ? user : "NAME");
        return error_set(reterr, rc, "%s: %s", reterr->text, advice);
    }
    return rc;
}

static int connection_fault(const struct wal_link *link, struct pr_error *reterr)
{
    return advise(link, fault_of_connection(link->pg, link->conninfo, reterr), reterr);
}

static int result_fault(struct wal_link *link, const PGresult *result, struct pr_error *reterr)
{
    return advise(link, fault_of_result(result, link->conninfo, link->state, reterr), reterr);
}

/* ---- Waiting --------------------------------------------------------------------------------------- */

/* Outcome WAL_WOKEN; 0: the socket is ready, or the time is over. */
static int socket_wait(const struct wal_link *link, short events, int64_t timeout_us)
{
    struct pollfd fds[] = { { .fd = link->wake_fd, .events = POLLIN }, { .fd = PQsocket(link->pg), .events = events } };
    struct timespec span = { .tv_sec = timeout_us / PR_SECONDS(1), .tv_nsec = timeout_us % PR_SECONDS(1) * 1000 };
    if (timeout_us < 0)
        span = (struct timespec){ 0 };
    return ppoll(fds, ARRAY_LENGTH(fds), &span, NULL) > 0 && fds[0].revents != 0 ? WAL_WOKEN : 0;
}

int wal_link_wait(struct wal_link *link, int64_t timeout_us)
{
    return socket_wait(link, POLLIN, timeout_us);
}

/* ---- Open and close ------------------------------------------------------------------------------------ */

static void ignore_notice(void *arg, const char *text)
{
    (void)arg, (void)text;
}

/* The store's own parameters, in replication mode. */
static PGconn *connect_start(const struct conninfo *conninfo)
{
    const char *keywords[KEYWORDS_MAX], *values[KEYWORDS_MAX];
    size_t count = 0;
    for (; conninfo->keywords[count] != NULL; count++) {
        ASSERT(count < KEYWORDS_MAX - 2);
        keywords[count] = conninfo->keywords[count];
        values[count] = conninfo->values[count];
    }
    keywords[count] = "replication";
    values[count++] = "database";
    keywords[count] = values[count] = NULL;
    return PQconnectStartParams(keywords, values, 0);
}

int wal_link_open(struct wal_link *link, struct pr_error *reterr)
{
    int64_t deadline_us = now_us() + CONNECT_US;
    wal_link_close(link);
    link->pg = connect_start(link->conninfo);
    if (link->pg == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a connection");
    PQsetNoticeProcessor(link->pg, ignore_notice, NULL);
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;
    while (next != PGRES_POLLING_OK) {
        if (next == PGRES_POLLING_FAILED || PQstatus(link->pg) == CONNECTION_BAD)
            return connection_fault(link, reterr);
        if (now_us() >= deadline_us)
            return error_set(reterr, PR_ESTORE, "PostgreSQL: no answer to a replication connection within %d s",
                             (int)(CONNECT_US / PR_SECONDS(1)));
        if (socket_wait(link, next == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline_us - now_us()) == WAL_WOKEN)
            return WAL_WOKEN;
        next = PQconnectPoll(link->pg);
    }
    return PR_OK;
}

void wal_link_close(struct wal_link *link)
{
    if (link->copy != NULL)
        PQfreemem(link->copy);
    link->copy = NULL;
    if (link->pg != NULL)
        PQfinish(link->pg);
    link->pg = NULL;
}

/* ---- Statements ------------------------------------------------------------------------------------------ */

/* Cancels a statement that nothing waits for any more. */
static void cancel(struct wal_link *link)
{
    char text[CANCEL_TEXT_SIZE];
    PGcancel *request = PQgetCancel(link->pg);
    if (request != NULL)
        (void)PQcancel(request, text, sizeof(text)); /* closing the connection has the same effect, a little later */
    PQfreeCancel(request);
    wal_link_close(link);
}

static int answer_wait(struct wal_link *link, int64_t timeout_us, struct pr_error *reterr)
{
    int64_t deadline_us = time_add(now_us(), timeout_us);
    while (PQisBusy(link->pg)) {
        int64_t left_us = deadline_us - now_us();
        if (left_us <= 0) {
            cancel(link);
            return error_set(reterr, PR_EBUSY,
                             "the server did not finish within %d s: transactions that were open before"
                             " keep it waiting; see pg_stat_activity and pg_prepared_xacts",
                             (int)(timeout_us / PR_SECONDS(1)));
        }
        if (socket_wait(link, POLLIN, left_us) == WAL_WOKEN) {
            cancel(link);
            return WAL_WOKEN;
        }
        if (!PQconsumeInput(link->pg))
            return connection_fault(link, reterr);
    }
    return PR_OK;
}

int wal_link_do(struct wal_link *link, const char *sql, int64_t timeout_us, PGresult **ret, struct pr_error *reterr)
{
    PGresult *result = NULL, *next;
    link->state[0] = '\0';
    int rc = PQsendQuery(link->pg, sql) ? answer_wait(link, timeout_us, reterr) : connection_fault(link, reterr);
    while (rc == PR_OK && PQresultStatus(result) != PGRES_COPY_BOTH && (next = PQgetResult(link->pg)) != NULL) {
        PQclear(result);
        result = next;
        rc = answer_wait(link, timeout_us, reterr);
    }
    ExecStatusType status = PQresultStatus(result);
    if (rc == PR_OK && result == NULL)
        rc = connection_fault(link, reterr);
    else if (rc == PR_OK && status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK && status != PGRES_COPY_BOTH)
        rc = result_fault(link, result, reterr);
    if (rc == PR_OK && ret != NULL)
        *ret = result;
    else
        PQclear(result);
    return rc;
}

int wal_link_start(struct wal_link *link, const char *slot, const char *publication, wal_place from,
                   struct pr_error *reterr)
{
    char sql[512], place[WAL_PLACE_TEXT_SIZE];
    PGresult *result;
    wal_place_format(from, place);
    snprintf(sql, sizeof(sql),
             "START_REPLICATION SLOT \"%s\" LOGICAL %s (proto_version '1', publication_names '\"%s\"', "
             "messages 'true')",
             slot, place, publication);
    int rc = wal_link_do(link, sql, CONNECT_US, &result, reterr);
    if (rc != PR_OK)
        return rc;
    if (PQresultStatus(result) != PGRES_COPY_BOTH)
        rc = error_set(reterr, PR_ESTORE, "PostgreSQL: the server does not send its log");
    PQclear(result);
    return rc;
}

/* ---- The log ------------------------------------------------------------------------------------------------- */

/* Copy mode ended: finds out why. */
static int log_ended(struct wal_link *link, struct pr_error *reterr)
{
    PGresult *result = PQgetResult(link->pg);
    int rc = PQresultStatus(result) == PGRES_FATAL_ERROR
                 ? result_fault(link, result, reterr)
                 : error_set(reterr, PR_ESTORE, "PostgreSQL: the server has ended its log");
    PQclear(result);
    return rc;
}

int wal_link_next(struct wal_link *link, pr_slice *ret, struct pr_error *reterr)
{
    if (link->copy != NULL)
        PQfreemem(link->copy);
    link->copy = NULL;
    for (int tries = 0;; tries++) {
        int size = PQgetCopyData(link->pg, &link->copy, 1);
        if (size > 0) {
            *ret = (pr_slice){ link->copy, (size_t)size };
            return PR_OK;
        }
        if (size == -1)
            return log_ended(link, reterr);
        if (size == -2)
            return connection_fault(link, reterr);
        if (tries > 0)
            return PR_UNKNOWN;
        if (!PQconsumeInput(link->pg))
            return connection_fault(link, reterr);
    }
}

int wal_link_tell(struct wal_link *link, wal_place place, bool asks, struct pr_error *reterr)
{
    char status[WAL_STATUS_BYTES];
    wal_status_write(place, clock_wall_us(clock_system()), asks, status);
    if (PQputCopyData(link->pg, status, sizeof(status)) != 1 || PQflush(link->pg) < 0)
        return connection_fault(link, reterr);
    return PR_OK;
}
