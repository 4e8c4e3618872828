/* Storing messages through somebody else's connection; see send.h. */
#include "store/postgres/send.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "core/message.h"
#include "store/postgres/message.h"

#define SCHEMA_DEFAULT "postrider"

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

static int send_run(PGconn *pg, const char *sql, const struct args *a, const struct pr_message *messages, size_t count,
                    int *answers, struct pr_error *reterr)
{
    char state[SQL_STATE_SIZE];
    int rc = PR_OK;
    PGresult *result = PQexecParams(pg, sql, a->count, a->types, a->values, a->lengths, a->formats, 1);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        rc = PQstatus(pg) == CONNECTION_OK ? fault_of_result(result, NULL, state, reterr)
                                           : fault_of_connection(pg, NULL, reterr);
    else if (answers != NULL)
        batch_answers(result, messages, count, answers);
    PQclear(result);
    return rc;
}

int pg_send_many(struct pg_conn *pg, pr_slice name, const struct pr_message *messages, size_t count, int *answers,
                 struct pr_error *reterr)
{
    pr_slice schema, box;
    struct batch batch;
    struct args args;
    if (PQpipelineStatus(pg) != PQ_PIPELINE_OFF || PQtransactionStatus(pg) == PQTRANS_ACTIVE)
        return error_set(reterr, PR_EINVAL,
                         "the connection is busy: finish the pipeline or the running statement first");
    if (PQtransactionStatus(pg) == PQTRANS_INERROR)
        return error_set(reterr, PR_EINVAL, "the transaction has already failed: roll it back");
    int rc = names_split(name, &schema, &box, reterr);
    if (rc != PR_OK)
        return rc;
    char table[BOX_NAME_MAX + 1];
    rc = pg_send_table(pg, schema, box, table, reterr);
    if (rc != PR_OK)
        return rc;
    char *sql = pg_sql_expand(PG_MESSAGE_INSERT, schema, box, slice_from(table));
    if (sql == NULL)
        return error_set(reterr, PR_ENOMEM, "no memory for a statement");
    batch_init(&batch);
    batch_begin(&batch, pg);
    for (size_t i = 0; i < count; i++)
        batch_add(&batch, &messages[i]);
    batch_args(&batch, 0, &args);
    rc = args.failed == PR_OK
             ? send_run(pg, sql, &args, messages, count, answers, reterr)
             : error_set(reterr, args.failed, "%zu messages are more than PostgreSQL accepts at once", count);
    batch_fini(&batch);
    free(sql);
    return rc;
}
