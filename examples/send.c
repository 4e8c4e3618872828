/* Send a message in your own transaction: the order and its message are stored together, or
 * neither is.
 *
 *     cc send.c $(pkg-config --cflags --libs postrider sqlite3) -o send
 *     ./send shop.db
 */
#include <postrider.h>
#include <sqlite3.h>
#include <stdio.h>

static int fail(sqlite3 *db, const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    sqlite3_close(db);
    return 1;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "shop.db";
    struct pr_error error;
    sqlite3 *db;
    char url[4096];

    /* Once, or with "postrider init": Postrider's tables live beside your own. */
    snprintf(url, sizeof url, "sqlite:%s", path);
    if (pr_store_init(url, &error) < 0) {
        fprintf(stderr, "init: %s\n", error.text);
        return 1;
    }
    if (sqlite3_open(path, &db) != SQLITE_OK)
        return fail(db, path, sqlite3_errmsg(db));
    sqlite3_busy_timeout(db, 5000);
    if (sqlite3_exec(db, "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, total INTEGER)", NULL, NULL,
                     NULL) != SQLITE_OK)
        return fail(db, "create table", sqlite3_errmsg(db));

    /* Your transaction ... */
    if (sqlite3_exec(db, "BEGIN IMMEDIATE; INSERT INTO orders (total) VALUES (4200)", NULL, NULL, NULL) != SQLITE_OK)
        return fail(db, "insert", sqlite3_errmsg(db));

    /* ... with a message in it. */
    char payload[64], stream[64], id_text[PR_ID_TEXT_SIZE];
    snprintf(payload, sizeof payload, "{\"order\":%lld,\"total\":4200}", (long long)sqlite3_last_insert_rowid(db));
    snprintf(stream, sizeof stream, "order-%lld", (long long)sqlite3_last_insert_rowid(db));
    struct pr_message message = {
        .type = PR_STR("order.placed"),
        .stream = pr_str(stream), /* messages of one order are delivered in order */
        .payload = pr_str(payload),
    };
    pr_id id;
    if (pr_send_sqlite(db, &message, &id, &error) < 0)
        return fail(db, "send", error.text); /* closing rolls back */

    /* From here on it will be delivered, whatever happens to this process. */
    if (sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        return fail(db, "commit", sqlite3_errmsg(db));
    pr_id_format(id, id_text);
    printf("stored %s\n", id_text);
    sqlite3_close(db);
    return 0;
}
