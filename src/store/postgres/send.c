/* Storing messages through the caller's connection; see send.h. */
#include "store/postgres/send.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "core/message.h"
#include "store/postgres/message.h"

#define SCHEMA_DEFAULT "postrider"
#define NO_SUCH_STATEMENT "26000"
#define SENDER_NAME_BYTES 8 /* the last bytes of an id are random */

/* "box" or "schema.box". */
static int names_split(pr_slice box, pr_slice *ret_schema, pr_slice *ret_box, struct pr_error *reterr)
{
    const char *dot = box.size > 0 ? memchr(box.data, '.', box.size) : NULL;
    *ret_schema = dot != NULL ? (pr_slice){ box.data, (size_t)(dot - box.data) } : PR_STR(SCHEMA_DEFAULT);
    *ret_box = dot != NULL ? (pr_slice){ dot + 1, box.size - ret_schema->size - 1 } : box;
    if (!name_is_valid(*ret_schema) || !name_is_valid(*ret_box))
        return error_set(reterr, PR_EINVAL, "\"%.*s\" is not a valid box name", SLICE_ARGS(box));
    return PR_OK;
}

static int send_fault(PGconn *pg, const PGresult *result, char state[SQL_STATE_SIZE], struct pr_error *reterr)
{
    return PQstatus(pg) == CONNECTION_OK ? fault_of_result(result, NULL, state, reterr)
                                         : fault_of_connection(pg, NULL, reterr);
}

static int connection_check(const PGconn *pg, struct pr_error *reterr)
{
    if (PQpipelineStatus(pg) != PQ_PIPELINE_OFF || PQtransactionStatus(pg) == PQTRANS_ACTIVE)
        return error_set(reterr, PR_EINVAL,
                         "the connection is busy: finish the pipeline or the running statement first");
    if (PQtransactionStatus(pg) == PQTRANS_INERROR)
        return error_set(reterr, PR_EINVAL, "the transaction has already failed: roll it back");
    return PR_OK;
}

/* The INSERT for a box; malloc'ed.  NULL: see *ret_fault. */
static char *insert_text(PGconn *pg, pr_slice name, int *ret_fault, struct pr_error *reterr)
{
    pr_slice schema, box;
    char table[BOX_NAME_MAX + 1];
    int rc = names_split(name, &schema, &box, reterr);
    if (rc == PR_OK)
        rc = pg_send_table(pg, schema, box, table, reterr);
    char *sql = rc == PR_OK ? pg_sql_expand(PG_MESSAGE_SEND, schema, box, slice_from(table)) : NULL;
    if (rc == PR_OK && sql == NULL)
        rc = error_set(reterr, PR_ENOMEM, "out of memory for a statement");
    *ret_fault = rc;
    return sql;
}

/* Prepares the statement for the types of these arguments, unless the same server process has it already. */
static int sender_prepare(struct pg_sender *s, const struct args *a, struct pr_error *reterr)
{
    char state[SQL_STATE_SIZE];
    int rc;
    if (s->prepared_by == PQbackendPID(s->pg))
        return PR_OK;
    char *sql = insert_text(s->pg, slice_from(s->box), &rc, reterr);
    if (sql == NULL)
        return rc;
    PGresult *result = PQprepare(s->pg, s->statement, sql, a->count, a->types);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        rc = send_fault(s->pg, result, state, reterr);
    else
        s->prepared_by = PQbackendPID(s->pg);
    PQclear(result);
    free(sql);
    return rc;
}

/* With a sender its prepared statement, otherwise the text. */
static int send_run(PGconn *pg, struct pg_sender *s, const char *sql, const struct args *a,
                    const struct pr_message *messages, size_t count, int *answers, struct pr_error *reterr)
{
    char state[SQL_STATE_SIZE] = "";
    int rc = PR_OK;
    PGresult *result = s != NULL ? PQexecPrepared(pg, s->statement, a->count, a->values, a->lengths, a->formats, 1)
                                 : PQexecParams(pg, sql, a->count, a->types, a->values, a->lengths, a->formats, 1);
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        rc = send_fault(pg, result, state, reterr);
        if (s != NULL && strcmp(state, NO_SUCH_STATEMENT) == 0)
            s->prepared_by = 0; /* somebody ran DISCARD ALL: the next call prepares it again */
    } else if (answers != NULL) {
        batch_answers(result, messages, count, answers);
    }
    PQclear(result);
    return rc;
}

static int send_batch(PGconn *pg, struct pg_sender *s, const char *sql, const struct pr_message *messages, size_t count,
                      int *answers, struct pr_error *reterr)
{
    struct batch batch;
    struct args args;
    batch_init(&batch);
    batch_begin(&batch, pg);
    for (size_t i = 0; i < count; i++)
        batch_add(&batch, &messages[i]);
    batch_args(&batch, 0, &args);
    int rc = args.failed == PR_OK
                 ? PR_OK
                 : error_set(reterr, args.failed, "%zu messages are more than PostgreSQL accepts at once", count);
    if (rc == PR_OK && s != NULL)
        rc = sender_prepare(s, &args, reterr);
    if (rc == PR_OK)
        rc = send_run(pg, s, sql, &args, messages, count, answers, reterr);
    batch_fini(&batch);
    return rc;
}

int pg_expect_version(struct pg_conn *pg, pr_slice schema, const struct pr_message *m, struct pr_error *reterr)
{
    char sql[BOX_NAME_MAX + 64], state[SQL_STATE_SIZE];
    struct args args = { .count = 0 };
    snprintf(sql, sizeof(sql), "SELECT \"%.*s\".expect_version($1, $2)", SLICE_ARGS(schema));
    arg_text(&args, m->stream);
    arg_id(&args, m->id);
    PGresult *result = PQexecParams(pg, sql, args.count, args.types, args.values, args.lengths, args.formats, 1);
    int rc = PQresultStatus(result) != PGRES_TUPLES_OK
                 ? send_fault(pg, result, state, reterr)
                 : message_expectation(m, field_is_null(result, 0, 0),
                                       field_is_null(result, 0, 0) ? 0 : field_i64(result, 0, 0), reterr);
    PQclear(result);
    return rc;
}

static int expect_version(PGconn *pg, pr_slice name, const struct pr_message *m, struct pr_error *reterr)
{
    pr_slice schema, box;
    int rc = names_split(name, &schema, &box, reterr);
    if (rc == PR_OK && PQtransactionStatus(pg) == PQTRANS_IDLE)
        rc = error_set(reterr, PR_EINVAL, "no transaction is open: BEGIN before sending with an expected version");
    return rc == PR_OK ? pg_expect_version(pg, schema, m, reterr) : rc;
}

/* In order: events that expect a version one by one, all others in one statement. */
static int send_pieces(PGconn *pg, struct pg_sender *s, pr_slice name, const char *sql,
                       const struct pr_message *messages, size_t count, int *answers, struct pr_error *reterr)
{
    int rc = PR_OK;
    for (size_t at = 0, n; at < count && rc >= PR_OK; at += n) {
        for (n = 0; at + n < count && !messages[at + n].expects_version;)
            n++;
        rc = n > 0 ? PR_OK : expect_version(pg, name, &messages[at], reterr);
        n = n > 0 ? n : 1;
        if (rc == PR_DUPLICATE && answers != NULL)
            answers[at] = rc;
        if (rc == PR_OK)
            rc = send_batch(pg, s, sql, &messages[at], n, answers != NULL ? answers + at : NULL, reterr);
    }
    return rc < 0 ? rc : PR_OK;
}

int pg_send_many(struct pg_conn *pg, pr_slice name, const struct pr_message *messages, size_t count, int *answers,
                 struct pr_error *reterr)
{
    int rc = connection_check(pg, reterr);
    char *sql = rc == PR_OK ? insert_text(pg, name, &rc, reterr) : NULL;
    if (rc == PR_OK)
        rc = send_pieces(pg, NULL, name, sql, messages, count, answers, reterr);
    free(sql);
    return rc;
}

void pg_sender_init(struct pg_sender *s, struct pg_conn *pg, pr_slice box)
{
    pr_id name; /* unique: behind a pooler another process's statement must not be mistaken for this one */
    *s = (struct pg_sender){ .pg = pg };
    pr_id_new(&name);
    snprintf(s->box, sizeof(s->box), "%.*s", SLICE_ARGS(box));
    snprintf(s->statement, sizeof(s->statement), "postrider_sender_");
    for (size_t i = sizeof(name.bytes) - SENDER_NAME_BYTES; i < sizeof(name.bytes); i++)
        snprintf(s->statement + strlen(s->statement), 3, "%02x", name.bytes[i]);
}

/* In a failed transaction the server accepts no statement; the prepared one goes with the connection. */
void pg_sender_fini(struct pg_sender *s)
{
    char sql[PG_SENDER_NAME_SIZE + 20];
    PGTransactionStatusType status = PQtransactionStatus(s->pg);
    if (s->prepared_by != PQbackendPID(s->pg) || PQpipelineStatus(s->pg) != PQ_PIPELINE_OFF ||
        (status != PQTRANS_IDLE && status != PQTRANS_INTRANS))
        return;
    snprintf(sql, sizeof(sql), "DEALLOCATE %s", s->statement);
    PQclear(PQexec(s->pg, sql));
}

int pg_sender_send(struct pg_sender *s, const struct pr_message *message, struct pr_error *reterr)
{
    int answer, rc = connection_check(s->pg, reterr);
    if (rc == PR_OK)
        rc = send_pieces(s->pg, s, slice_from(s->box), NULL, message, 1, &answer, reterr);
    return rc == PR_OK ? answer : rc;
}
