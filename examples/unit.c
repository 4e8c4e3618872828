/* Collect messages while the work is being done, and store them all when it commits: the way
 * for domain events, which arise deep in the code that knows nothing of databases.
 *
 *     cc unit.c $(pkg-config --cflags --libs postrider sqlite3) -o unit
 *     ./unit shop.db
 */
#include <postrider.h>
#include <sqlite3.h>
#include <stdio.h>

/* Business code: it only says what happened. */
static int place_order(struct pr_unit *unit, int order, struct pr_error *error)
{
    char payload[64], stream[32];
    snprintf(payload, sizeof payload, "{\"order\":%d}", order);
    snprintf(stream, sizeof stream, "order-%d", order);
    struct pr_message placed = { .type = PR_STR("order.placed"), .stream = pr_str(stream), .payload = pr_str(payload) };
    struct pr_message mail = { .type = PR_STR("mail.wanted"), .stream = pr_str(stream), .payload = pr_str(payload) };

    int rc = pr_unit_add(unit, NULL, &placed, NULL, error);
    return rc < 0 ? rc : pr_unit_add(unit, NULL, &mail, NULL, error);
}

/* The edge: one transaction for the data and for everything that was said. */
static int commit(struct pr_unit *unit, sqlite3 *db, struct pr_error *error)
{
    int rc = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK ? PR_OK : PR_ESTORE;
    if (rc == PR_OK)
        rc = pr_unit_store_sqlite(unit, db, error);
    if (rc == PR_OK && sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        rc = PR_ESTORE;
    if (rc < 0) {
        if (rc == PR_ESTORE)
            snprintf(error->text, sizeof error->text, "%s", sqlite3_errmsg(db));
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    }
    return rc;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "shop.db";
    struct pr_error error = { 0 };
    sqlite3 *db = NULL;
    char url[4096];
    struct pr_unit *unit = pr_unit_new();
    if (unit == NULL)
        return 1;

    snprintf(url, sizeof url, "sqlite:%s", path);
    int rc = pr_store_init(url, &error);
    if (rc == PR_OK && sqlite3_open(path, &db) != SQLITE_OK)
        rc = PR_ESTORE;
    for (int order = 1; order <= 3 && rc == PR_OK; order++)
        rc = place_order(unit, order, &error);
    size_t count = pr_unit_count(unit);
    if (rc == PR_OK) {
        sqlite3_busy_timeout(db, 5000);
        rc = commit(unit, db, &error);
    }
    if (rc < 0)
        fprintf(stderr, "unit: %s\n", error.text);
    else
        printf("stored %zu messages in one transaction\n", count);
    pr_unit_free(unit);
    sqlite3_close(db);
    return rc < 0 ? 1 : 0;
}
