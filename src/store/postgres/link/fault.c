/* PostgreSQL's errors as Postrider's codes, with advice. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "store/postgres/link/link.h"

#define PASSWORD_MIN 4 /* shorter passwords would be found in any text */

/* The first state (or class, if two characters) that matches. */
static const struct {
    const char *state;
    int code;
    const char *advice;
} faults[] = {
    { "40001", PR_EBUSY, "try again" },
    { "40P01", PR_EBUSY, "try again" },
    { "55P03", PR_EBUSY, "another transaction has held a lock for too long: find it in pg_stat_activity" },
    { "57014", PR_EBUSY, "the statement was cancelled or took too long: try again" },
    { "53300", PR_EBUSY, "raise max_connections, or put a pooler in between" },
    { "53100", PR_EFULL, "the server's disk is full: make room" },
    { "54", PR_ETOOBIG, NULL },
    { "42501", PR_ESTORE, "the role lacks a right: postrider init --grants prints what it needs" },
    { "25006", PR_ESTORE, "the server is a read-only standby: connect to the primary" },
    { "3F000", PR_ESCHEMA, "run postrider init" },
    { "42P01", PR_ESCHEMA, "run postrider init" },
    { "42703", PR_ESCHEMA,
      "a table with the name of one of Postrider's has other columns: restore it, or name another schema in"
      " the URL (schema=NAME)" },
    { "42P07", PR_ESCHEMA, "it does not belong to Postrider: name another schema in the URL (schema=NAME)" },
    { "42883", PR_ESCHEMA, "run postrider init" },
    { "42704", PR_ESCHEMA, "run postrider init" },
    { "XX001", PR_ECORRUPT, "restore a backup" },
    { "XX002", PR_ECORRUPT, "rebuild the index: REINDEX" },
    { "28", PR_ESTORE, "check the user and the password" },
};

/* The first line, without its end. */
static pr_slice first_line(const char *text)
{
    return slice_trim((pr_slice){ text, strcspn(text, "\n") });
}

int fault_of_result(const PGresult *result, const struct conninfo *conninfo, char ret_state[SQL_STATE_SIZE],
                    struct pr_error *reterr)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    pr_slice text = first_line(primary != NULL ? primary : PQresultErrorMessage(result));

    (void)conninfo;
    snprintf(ret_state, SQL_STATE_SIZE, "%s", state != NULL ? state : "");
    if (text.size == 0)
        text = PR_STR("the server gave no answer");
    for (size_t i = 0; state != NULL && i < ARRAY_LENGTH(faults); i++) {
        if (strncmp(state, faults[i].state, strlen(faults[i].state)) != 0)
            continue;
        return faults[i].advice != NULL
                   ? error_set(reterr, faults[i].code, "PostgreSQL: %.*s: %s", SLICE_ARGS(text), faults[i].advice)
                   : error_set(reterr, faults[i].code, "PostgreSQL: %.*s", SLICE_ARGS(text));
    }
    return error_set(reterr, PR_ESTORE, "PostgreSQL: %.*s%s%s%s", SLICE_ARGS(text), state != NULL ? " (" : "",
                     state != NULL ? state : "", state != NULL ? ")" : "");
}

/* A failed connection has no state, only a text. */
static const struct {
    const char *words;
    int code;
    const char *advice;
} refusals[] = {
    { "password authentication failed", PR_ESTORE, "check the user and the password" },
    { "no password supplied", PR_ESTORE, "put the password into PGPASSWORD or a password file" },
    { "no pg_hba.conf entry", PR_ESTORE, "the server does not let this user in from here: see its pg_hba.conf" },
    { "could not translate host name", PR_ESTORE, "the host does not exist: check the URL" },
    { "Connection refused", PR_ESTORE, "is the server running, and is the port right?" },
    { "No such file or directory", PR_ESTORE, "is the server running, and is its socket directory right?" },
    { "too many connections", PR_EBUSY, "raise the limit of the role or the database, or put a pooler in between" },
    { "too many clients", PR_EBUSY, "raise max_connections, or put a pooler in between" },
    { "remaining connection slots", PR_EBUSY, "raise max_connections, or put a pooler in between" },
    { "starting up", PR_EBUSY, "wait a moment" },
    { "shutting down", PR_EBUSY, "wait until it is back" },
    { "root certificate file", PR_ESTORE, "name the certificate with sslrootcert=FILE, or set sslmode=require" },
    { "does not support SSL", PR_ESTORE, "to send unencrypted to another host, set sslmode=disable" },
    { "role \"", PR_ESTORE, "create the role, or name another user in the URL" },
    { "database \"", PR_ESTORE, "create the database, or name another one in the URL" },
};

/* libpq and the server are not known to repeat a password; if they do, it is replaced by ***. */
static pr_slice without_password(PGconn *pg, pr_slice text, char ret[PR_ERROR_TEXT_SIZE])
{
    const char *password = pg != NULL ? PQpass(pg) : NULL;
    size_t size = password != NULL ? strlen(password) : 0, used = 0;
    if (size < PASSWORD_MIN || memmem(text.data, text.size, password, size) == NULL)
        return text;
    for (size_t i = 0; i < text.size && used + 4 < PR_ERROR_TEXT_SIZE;) {
        if (text.size - i >= size && memcmp(text.data + i, password, size) == 0) {
            memcpy(ret + used, "***", 3);
            used += 3;
            i += size;
        } else {
            ret[used++] = text.data[i++];
        }
    }
    return PR_BYTES(ret, used);
}

int fault_of_connection(PGconn *pg, const struct conninfo *conninfo, struct pr_error *reterr)
{
    (void)conninfo;
    char clean[PR_ERROR_TEXT_SIZE];
    pr_slice text = without_password(pg, first_line(pg != NULL ? PQerrorMessage(pg) : ""), clean);
    if (text.size == 0)
        text = PR_STR("the connection to the server was lost");
    for (size_t i = 0; i < ARRAY_LENGTH(refusals); i++)
        if (slice_contains(text, slice_from(refusals[i].words)))
            return error_set(reterr, refusals[i].code, "PostgreSQL: %.*s: %s", SLICE_ARGS(text), refusals[i].advice);
    return error_set(reterr, PR_ESTORE, "PostgreSQL: %.*s", SLICE_ARGS(text));
}
