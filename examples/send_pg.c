/* Send a message in your own transaction on PostgreSQL: the order and its message are stored
 * together, or neither is.
 *
 *     cc send_pg.c $(pkg-config --cflags --libs postrider libpq) -o send_pg
 *     ./send_pg postgres:///shop
 */
#include <libpq-fe.h>
#include <postrider.h>
#include <stdio.h>

static int fail(PGconn *conn, const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    PQfinish(conn); /* rolls back */
    return 1;
}

/* Run it; what it returns, or 0. */
static int run(PGconn *conn, const char *sql, long long *ret_number)
{
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);
    int done = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
    if (done && ret_number != NULL && sscanf(PQgetvalue(result, 0, 0), "%lld", ret_number) != 1)
        done = 0;
    PQclear(result);
    return done;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "postgres:///shop";
    struct pr_error error;

    /* Once, or with "postrider init": Postrider's tables live in a schema beside your own. */
    if (pr_store_init(url, &error) < 0) {
        fprintf(stderr, "init: %s\n", error.text);
        return 1;
    }
    PGconn *conn = PQconnectdb(url);
    if (PQstatus(conn) != CONNECTION_OK || !run(conn, "SET client_min_messages = warning", NULL) ||
        !run(conn, "CREATE TABLE IF NOT EXISTS orders (id bigserial PRIMARY KEY, total int)", NULL))
        return fail(conn, url, PQerrorMessage(conn));

    /* Your transaction ... */
    long long order;
    if (!run(conn, "BEGIN", NULL) || !run(conn, "INSERT INTO orders (total) VALUES (4200) RETURNING id", &order))
        return fail(conn, "insert", PQerrorMessage(conn));

    /* ... with a message in it. */
    char payload[64], stream[64], id_text[PR_ID_TEXT_SIZE];
    snprintf(payload, sizeof payload, "{\"order\":%lld,\"total\":4200}", order);
    snprintf(stream, sizeof stream, "order-%lld", order);
    struct pr_message message = {
        .type = PR_STR("order.placed"),
        .stream = pr_str(stream), /* messages of one order are delivered in order */
        .payload = pr_str(payload),
    };
    pr_id id;
    if (pr_send_pg(conn, &message, &id, &error) < 0)
        return fail(conn, "send", error.text);

    /* From here on it will be delivered, whatever happens to this process. */
    if (!run(conn, "COMMIT", NULL))
        return fail(conn, "commit", PQerrorMessage(conn));
    pr_id_format(id, id_text);
    printf("stored %s\n", id_text);
    PQfinish(conn);
    return 0;
}
