/* The SQLite store under test: on a file of its own, and in memory. */
#include "suite.h"

#include <ftw.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char directory[64];

static void sqlite_prepare(struct suite *s)
{
    /* In memory where possible: what a disk does to it is tested elsewhere. */
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(directory, sizeof(directory), "%s/suite-XXXXXX", base);
    CHECK(mkdtemp(directory) != NULL);
    snprintf(s->url, sizeof(s->url), "sqlite:%s/store.db", directory);
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info;
    (void)type;
    (void)place;
    return remove(path);
}

static void sqlite_destroy(struct suite *s)
{
    (void)s;
    /* Whatever the store has put beside its file goes, too. */
    nftw(directory, remove_entry, 4, FTW_DEPTH | FTW_PHYS);
}

static sqlite3 *sqlite_raw(struct suite *s)
{
    sqlite3 *db = NULL;
    CHECK_EQ(sqlite3_open(s->url + strlen("sqlite:"), &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    return db;
}

static void bind_text_or(sqlite3_stmt *statement, int column, const char *text, const char *otherwise)
{
    if (text == NULL)
        text = otherwise;
    if (text == NULL)
        sqlite3_bind_null(statement, column);
    else
        sqlite3_bind_text(statement, column, text, -1, SQLITE_STATIC);
}

/* As an application does that knows nothing of us: a plain INSERT. */
static void sqlite_plant(struct suite *s, const char *box, const struct plant *plant)
{
    sqlite3      *db = sqlite_raw(s);
    sqlite3_stmt *statement = NULL;
    char          sql[256];
    snprintf(sql, sizeof(sql),
             "INSERT INTO \"%s\" (id, type, destination, stream, headers, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
             box);
    CHECK_EQ(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    pr_id made;
    pr_id_new(&made);
    pr_slice id = plant->id.size > 0 ? plant->id : PR_BYTES((const char *)made.bytes, sizeof(made.bytes));
    sqlite3_bind_blob(statement, 1, id.data, (int)id.size, SQLITE_STATIC);
    bind_text_or(statement, 2, plant->type, NULL);
    bind_text_or(statement, 3, plant->destination, "");
    bind_text_or(statement, 4, plant->stream, NULL);
    bind_text_or(statement, 5, plant->headers, NULL);
    if (plant->payload != NULL)
        sqlite3_bind_blob(statement, 6, plant->payload, (int)strlen(plant->payload), SQLITE_STATIC);
    int rc = sqlite3_step(statement);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    CHECK_EQ(rc, SQLITE_DONE);
}

static void sqlite_memory_prepare(struct suite *s)
{
    snprintf(s->url, sizeof(s->url), "sqlite::memory:");
}

const struct suite_kind suite_sqlite = {
    .name = "sqlite",
    .ops = &store_sqlite,
    .prepare = sqlite_prepare,
    .destroy = sqlite_destroy,
    .plant = sqlite_plant,
};

const struct suite_kind suite_sqlite_memory = {
    .name = "sqlite-memory",
    .ops = &store_sqlite,
    .lacks = STORE_CAN_LAST | STORE_CAN_PROCESSES,
    .prepare = sqlite_memory_prepare,
};
