/* An inbox inside your own program: what arrives is stored once, and what its handler writes into your own tables is
 * committed together with the end of the message, so it is written exactly once, however often the program is killed.
 *
 *     cc inbox.c $(pkg-config --cflags --libs postrider sqlite3) -pthread -o inbox
 *     ./inbox bank.db              deliver three payments, then end; a second time it changes nothing
 *     ./inbox bank.db --serve      work off what arrives, until it is stopped
 */
#include <postrider.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

static const char tables[] = "CREATE TABLE IF NOT EXISTS payment (id TEXT NOT NULL, amount INTEGER NOT NULL);"
                             "CREATE TABLE IF NOT EXISTS account (name TEXT PRIMARY KEY, balance INTEGER NOT NULL);";

static sqlite3 *open_bank(const char *path)
{
    sqlite3 *db = NULL;
    if (sqlite3_open(path, &db) != SQLITE_OK)
        return NULL;
    sqlite3_busy_timeout(db, 10000);
    return db;
}

/* What belongs to the message: a line for the payment, and the new balance. */
static int book(sqlite3 *db, const struct pr_message *message)
{
    char id[PR_ID_TEXT_SIZE], *sql;
    pr_id_format(message->id, id);
    sql = sqlite3_mprintf("INSERT INTO payment VALUES (%Q, CAST(%.*Q AS INTEGER));"
                          "INSERT INTO account VALUES (%.*Q, CAST(%.*Q AS INTEGER))"
                          " ON CONFLICT (name) DO UPDATE SET balance = balance + excluded.balance;",
                          id, (int)message->payload.size, message->payload.data, (int)message->stream.size,
                          message->stream.data, (int)message->payload.size, message->payload.data);
    int rc = sql != NULL ? sqlite3_exec(db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    return rc;
}

static int on_payment(struct pr_context *context, const struct pr_message *message, void *user)
{
    struct pr_error error = { 0 };
    sqlite3 *db = open_bank(user); /* a real program keeps one for each thread */
    int rc = PR_EBUSY;             /* nothing of this is the message's fault: it comes again */

    if (db == NULL || sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK ||
        book(db, message) != SQLITE_OK)
        fprintf(stderr, "inbox: %s\n", db != NULL ? sqlite3_errmsg(db) : "no memory");
    else
        rc = pr_complete_sqlite(context, db, &error);
    if (rc == PR_OK)
        rc = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK ? PR_SETTLED : PR_EUNCERTAIN;
    sqlite3_close(db); /* rolls back what is not committed */
    return rc;
}

/* As a partner's messages arrive, with the partner's ids: the same id again is a duplicate for a day after it was handled. */
static int receive(const char *url, struct pr_error *error)
{
    static const char *const ids[] = { "0192d3a0-0000-7000-8000-000000000001", "0192d3a0-0000-7000-8000-000000000002",
                                       "0192d3a0-0000-7000-8000-000000000003" };
    struct pr_sender *sender;
    int rc = pr_sender_open(url, &sender, error);
    struct pr_message payments[] = {
        { .type = PR_STR("payment.received"), .stream = PR_STR("alice"), .payload = PR_STR("100") },
        { .type = PR_STR("payment.received"), .stream = PR_STR("bob"), .payload = PR_STR("7") },
        { .type = PR_STR("payment.received"), .stream = PR_STR("alice"), .payload = PR_STR("-30") },
    };
    if (rc < 0)
        return rc;
    for (int i = 0; i < 3 && rc == PR_OK; i++)
        rc = pr_id_parse(pr_str(ids[i]), &payments[i].id);
    if (rc == PR_OK)
        rc = pr_sender_send_many(sender, "inbox", payments, 3, NULL, NULL, error);
    pr_sender_close(sender);
    return rc;
}

static int show(void *unused, int count, char **values, char **names)
{
    (void)unused, (void)count, (void)names;
    printf("%s has %s\n", values[0], values[1]);
    return 0;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "bank.db";
    bool serve = argc > 2 && strcmp(argv[2], "--serve") == 0;
    struct pr_error error = { 0 };
    char url[4096], config[8192];
    sigset_t stop;
    int signal_number;

    sigemptyset(&stop); /* before there are threads: all of them leave these to sigwait() */
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    snprintf(url, sizeof url, "sqlite:%s", path);
    snprintf(config, sizeof config, "store: \"%s\"\nlease: 2s\n", url);
    sqlite3 *db = open_bank(path);
    if (db == NULL || sqlite3_exec(db, tables, NULL, NULL, NULL) != SQLITE_OK) {
        fprintf(stderr, "inbox: cannot open %s\n", path);
        return 1;
    }

    struct pr_engine *engine = pr_engine_new(config, &error);
    if (engine == NULL || pr_engine_handle_box(engine, "inbox", "payment.*", on_payment, (void *)(uintptr_t)path) < 0 ||
        pr_engine_start(engine, &error) < 0 || (!serve && receive(url, &error) < 0)) {
        fprintf(stderr, "inbox: %s\n", error.text);
        pr_engine_free(engine);
        return 1;
    }
    if (serve)
        sigwait(&stop, &signal_number);
    else if (pr_engine_drain(engine, PR_SECONDS(20), &error) != PR_OK)
        fprintf(stderr, "drain: %s\n", error.text);
    pr_engine_stop(engine, PR_SECONDS(10));
    pr_engine_free(engine);
    sqlite3_exec(db, "SELECT name, balance FROM account ORDER BY name", show, NULL, NULL);
    sqlite3_close(db);
    return 0;
}
