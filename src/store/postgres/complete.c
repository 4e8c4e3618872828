/* Completing a message on somebody else's connection; see send.h.  The row goes by a function of its owner
 * (035_complete.sql); what the handler sends is stored as the application itself would store it. */
#include <stdio.h>

#include "base/error.h"
#include "base/slice.h"
#include "store/postgres/link/link.h"
#include "store/postgres/send.h"

static int check(PGconn *pg, const struct completion *c, struct pr_error *reterr)
{
    if (PQstatus(pg) != CONNECTION_OK)
        return error_set(reterr, PR_EBUSY, "the connection is lost: connect anew, and return PR_EBUSY");
    if (PQpipelineStatus(pg) != PQ_PIPELINE_OFF || PQtransactionStatus(pg) != PQTRANS_INTRANS)
        return error_set(reterr, PR_EINVAL,
                         "no transaction is open, or a statement is running: BEGIN, write what belongs to the message, "
                         "complete it, COMMIT");
    for (const struct send_effect *f = c->effects; f != NULL; f = f->next)
        if (f->effect.kind != EFFECT_MESSAGE)
            return error_set(reterr, PR_EUNSUPPORTED,
                             "only messages can be stored together with pr_complete_pg(): return PR_OK instead");
    return PR_OK;
}

/* The fence.  Outcome PR_STALE. */
static int end_row(PGconn *pg, pr_slice schema, const struct completion *c, struct pr_error *reterr)
{
    char sql[128], state[SQL_STATE_SIZE];
    struct args args = { .count = 0 };
    int rc = PR_OK;
    snprintf(sql, sizeof(sql), "SELECT \"%.*s\".complete($1, $2, $3, $4, $5, $6, $7, $8, $9)", SLICE_ARGS(schema));
    arg_text(&args, c->box);
    arg_i64(&args, (int64_t)c->row);
    arg_id(&args, c->id);
    arg_i32(&args, c->number - 1);
    arg_i32(&args, c->bits | PR_STATUS_HANDLED);
    arg_text(&args, c->endpoint);
    arg_i64(&args, c->keep_us);
    arg_i64(&args, c->dedupe_us);
    arg_bool(&args, c->destination.size == 0);
    PGresult *result = PQexecParams(pg, sql, args.count, args.types, args.values, args.lengths, args.formats, 1);
    if (PQresultStatus(result) == PGRES_TUPLES_OK)
        rc = PQntuples(result) == 1 && field_bool(result, 0, 0) ? PR_OK : PR_STALE;
    else if (PQstatus(pg) == CONNECTION_OK)
        rc = fault_of_result(result, NULL, state, reterr);
    else
        rc = error_set(reterr, PR_EBUSY, "the connection was lost: connect anew, and return PR_EBUSY");
    PQclear(result);
    return rc;
}

int pg_complete(struct pg_conn *pg, pr_slice schema, const struct completion *c, struct pr_error *reterr)
{
    int rc = check(pg, c, reterr);
    if (rc == PR_OK)
        rc = end_row(pg, schema, c, reterr);
    for (const struct send_effect *f = c->effects; f != NULL && rc == PR_OK; f = f->next) {
        char box[2 * BOX_NAME_MAX + 2];
        snprintf(box, sizeof(box), "%.*s.%.*s", SLICE_ARGS(schema), SLICE_ARGS(f->box));
        rc = pg_send_many(pg, slice_from(box), &f->message, 1, NULL, reterr);
        if (rc < 0 && PQstatus(pg) != CONNECTION_OK)
            rc = error_set(reterr, PR_EBUSY, "the connection was lost: connect anew, and return PR_EBUSY");
    }
    return rc;
}
