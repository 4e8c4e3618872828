/* The functions for PostgreSQL in a library that was built without libpq. */
#include "base/error.h"
#include "lib/lib.h"

static int not_built_in(struct pr_error *reterr)
{
    return error_set(reterr, PR_EUNSUPPORTED, "this library was built without PostgreSQL support (libpq)");
}

PR_API int pr_send_pg_box(struct pg_conn *conn, const char *box, const struct pr_message *message, pr_id *ret_id,
                          struct pr_error *reterr)
{
    (void)conn;
    (void)box;
    (void)message;
    (void)ret_id;
    return not_built_in(reterr);
}

PR_API int pr_send_pg(struct pg_conn *conn, const struct pr_message *message, pr_id *ret_id, struct pr_error *reterr)
{
    return pr_send_pg_box(conn, NULL, message, ret_id, reterr);
}

PR_API int pr_unit_store_pg(struct pr_unit *unit, struct pg_conn *conn, struct pr_error *reterr)
{
    (void)unit;
    (void)conn;
    return not_built_in(reterr);
}

PR_API int pr_pg_sender_new(struct pg_conn *conn, const char *box, struct pr_pg_sender **ret_sender,
                            struct pr_error *reterr)
{
    (void)conn;
    (void)box;
    (void)ret_sender;
    return not_built_in(reterr);
}

PR_API void pr_pg_sender_free(struct pr_pg_sender *sender)
{
    (void)sender; /* there is none */
}

PR_API int pr_pg_sender_send(struct pr_pg_sender *sender, const struct pr_message *message, pr_id *ret_id,
                             struct pr_error *reterr)
{
    (void)sender;
    (void)message;
    (void)ret_id;
    return not_built_in(reterr);
}

PR_API int pr_complete_pg(struct pr_context *context, struct pg_conn *conn, struct pr_error *reterr)
{
    (void)context;
    (void)conn;
    return not_built_in(reterr);
}

PR_API int pr_worker_complete_pg(struct pr_worker *worker, const struct pr_verdict *verdict, struct pg_conn *conn,
                                 struct pr_error *reterr)
{
    (void)worker;
    (void)verdict;
    (void)conn;
    return not_built_in(reterr);
}

PR_API int pr_subscription_advance_pg(struct pr_subscription *subscription, struct pg_conn *conn, int64_t place,
                                      struct pr_error *reterr)
{
    (void)subscription;
    (void)conn;
    (void)place;
    return not_built_in(reterr);
}
