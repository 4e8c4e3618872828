/* Sending through the caller's connection to PostgreSQL. */
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "core/completion.h"
#include "core/message.h"
#include "lib/events.h"
#include "lib/lib.h"
#include "lib/unit.h"
#include "lib/worker.h"
#include "store/postgres/send.h"
#include "store/store.h"
#include "transport/handler_context.h"

PR_API int pr_send_pg_box(struct pg_conn *conn, const char *box, const struct pr_message *message, pr_id *ret_id,
                          struct pr_error *reterr)
{
    int answer;
    struct pr_message m;
    if (conn == NULL)
        return lib_missing("conn", reterr);
    int rc = lib_message(message, &m, reterr);
    if (rc < 0)
        return rc;
    rc = pg_send_many(conn, slice_from(box != NULL ? box : LIB_BOX_DEFAULT), &m, 1, &answer, reterr);
    if (rc < 0)
        return rc;
    if (ret_id != NULL)
        *ret_id = m.id;
    return answer;
}

PR_API int pr_send_pg(struct pg_conn *conn, const struct pr_message *message, pr_id *ret_id, struct pr_error *reterr)
{
    return pr_send_pg_box(conn, NULL, message, ret_id, reterr);
}

struct pr_pg_sender {
    struct pg_sender sender;
};

PR_API int pr_pg_sender_new(struct pg_conn *conn, const char *box, struct pr_pg_sender **ret_sender,
                            struct pr_error *reterr)
{
    if (conn == NULL || ret_sender == NULL)
        return lib_missing(conn == NULL ? "conn" : "ret_sender", reterr);
    pr_slice name = slice_from(box != NULL ? box : LIB_BOX_DEFAULT);
    if (name.size > 2 * BOX_NAME_MAX + 1)
        return error_set(reterr, PR_EINVAL, "\"%.*s\" is not a valid box name", SLICE_ARGS(name));
    struct pr_pg_sender *sender = malloc(sizeof(*sender));
    if (sender == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a sender");
    pg_sender_init(&sender->sender, conn, name);
    *ret_sender = sender;
    return PR_OK;
}

PR_API void pr_pg_sender_free(struct pr_pg_sender *sender)
{
    if (sender != NULL)
        pg_sender_fini(&sender->sender);
    free(sender);
}

static int store_one(void *sender, const struct pr_message *message, struct pr_error *reterr)
{
    struct pr_pg_sender *s = sender;
    return pg_sender_send(&s->sender, message, reterr);
}

PR_API int pr_pg_sender_send(struct pr_pg_sender *sender, const struct pr_message *message, pr_id *ret_id,
                             struct pr_error *reterr)
{
    return lib_send(store_one, sender, message, ret_id, reterr);
}

static int store_some(void *conn, pr_slice box, const struct pr_message *messages, size_t count,
                      struct pr_error *reterr)
{
    return pg_send_many(conn, box, messages, count, NULL, reterr);
}

PR_API int pr_unit_store_pg(struct pr_unit *unit, struct pg_conn *conn, struct pr_error *reterr)
{
    if (unit == NULL || conn == NULL)
        return lib_missing(unit == NULL ? "unit" : "conn", reterr);
    /* outside of a transaction they would be committed one by one */
    if (pr_unit_count(unit) > 0 && PQtransactionStatus(conn) == PQTRANS_IDLE)
        return error_set(reterr, PR_EINVAL, "no transaction is open: run BEGIN before storing a unit");
    return unit_store(unit, store_some, conn, reterr);
}

PR_API int pr_complete_pg(struct pr_context *context, struct pg_conn *conn, struct pr_error *reterr)
{
    struct completion completion;
    if (context == NULL || conn == NULL)
        return lib_missing(context == NULL ? "context" : "conn", reterr);
    int rc = context_completion(context, &completion, reterr);
    if (rc == PR_OK)
        rc = pg_complete(conn, store_url_schema(context->config->store_url), &completion, reterr);
    if (rc == PR_OK)
        lib_completed(context);
    return rc;
}

static int end_pg(void *conn, const char *url, const struct completion *completion, struct pr_error *reterr)
{
    return pg_complete(conn, store_url_schema(url), completion, reterr);
}

PR_API int pr_worker_complete_pg(struct pr_worker *worker, const struct pr_verdict *verdict, struct pg_conn *conn,
                                 struct pr_error *reterr)
{
    if (worker == NULL || verdict == NULL || conn == NULL)
        return lib_missing(worker == NULL ? "worker" : verdict == NULL ? "verdict" : "conn", reterr);
    return worker_complete(worker, verdict, end_pg, conn, reterr);
}

PR_API int pr_subscription_advance_pg(struct pr_subscription *s, struct pg_conn *conn, int64_t place,
                                      struct pr_error *reterr)
{
    int rc = subscription_check(s, place, reterr);
    if (rc == PR_OK && conn == NULL)
        rc = lib_missing("conn", reterr);
    return rc == PR_OK
               ? pg_advance(conn, slice_from(s->schema), slice_from(s->name), s->fence, s->position, place, reterr)
               : rc;
}
