/* Sending through the caller's connection to PostgreSQL. */
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "core/message.h"
#include "lib/lib.h"
#include "lib/unit.h"
#include "store/postgres/send.h"

PR_API int pr_send_pg_box(struct pg_conn *conn, const char *box, const struct pr_message *message, pr_id *ret_id,
                          struct pr_error *reterr)
{
    int answer;
    if (conn == NULL || message == NULL)
        return lib_missing(conn == NULL ? "conn" : "message", reterr);
    int rc = message_check(message, LIB_PAYLOAD_MAX, reterr);
    if (rc < 0)
        return rc;
    struct pr_message m = *message;
    if (pr_id_is_zero(m.id))
        pr_id_new(&m.id);
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

static int store_some(void *conn, pr_slice box, const struct pr_message *messages, size_t count,
                      struct pr_error *reterr)
{
    return pg_send_many(conn, box, messages, count, NULL, reterr);
}

PR_API int pr_unit_store_pg(struct pr_unit *unit, struct pg_conn *conn, struct pr_error *reterr)
{
    if (unit == NULL || conn == NULL)
        return lib_missing(unit == NULL ? "unit" : "conn", reterr);
    if (pr_unit_count(unit) > 0 && PQtransactionStatus(conn) == PQTRANS_IDLE) /* they would be committed bit by bit */
        return error_set(reterr, PR_EINVAL, "no transaction is open: run BEGIN before storing a unit");
    return unit_store(unit, store_some, conn, reterr);
}
