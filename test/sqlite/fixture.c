#include "fixture.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../store/sqlite_template.h"

static struct fixture the_fixture;

int64_t real_us(void)
{
    return clock_mono_us(clock_system());
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info;
    (void)type;
    (void)place;
    return remove(path);
}

void fixture_close(struct fixture *f)
{
    store_close(&f->store);
    if (f->directory[0] != '\0')
        nftw(f->directory, remove_entry, 4, FTW_DEPTH | FTW_PHYS);
    memset(f, 0, sizeof(*f));
}

struct fixture *fixture_bare(const char *options)
{
    struct fixture *f = &the_fixture;
    const char *base = getenv("TMPDIR");

    if (base == NULL) /* without a disk the loops over every write are ten times as fast */
        base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    memset(&f->store, 0, sizeof(f->store)); /* sessions of a failed test may still use it */
    fixture_close(f);
    snprintf(f->directory, sizeof(f->directory), "%.40s/sqlite-XXXXXX", base);
    CHECK(mkdtemp(f->directory) != NULL);
    snprintf(f->path, sizeof(f->path), "%.63s/store.db", f->directory);
    snprintf(f->url, sizeof(f->url), "sqlite:%.95s%.40s", f->path, options);
    return f;
}

void fixture_open_store(struct fixture *f)
{
    const struct store_options options = { .url = f->url, .payload_max = PAYLOAD_MAX };
    store_close(&f->store);
    CHECK_OK(store_open(&options, &f->store, &f->error), &f->error);
}

int fixture_migrate(struct fixture *f)
{
    static const struct store_box boxes[] = { { "ledger", NULL } };
    return store_migrate(&f->store, boxes, ARRAY_LENGTH(boxes), &f->error);
}

struct fixture *fixture_open(const char *options)
{
    struct fixture *f = fixture_bare(options);
    if (!sqlite_template_copy(f->path)) {
        fixture_open_store(f);
        CHECK_OK(fixture_migrate(f), &f->error);
        store_close(&f->store);
        sqlite_template_keep(f->path);
    }
    fixture_open_store(f);
    return f;
}

long fixture_step(long step)
{
    return getenv("EVERY_STEP") != NULL ? 1 : step;
}

/* ---- Raw -------------------------------------------------------------------------- */

sqlite3 *fixture_raw(struct fixture *f)
{
    sqlite3 *db = NULL;
    CHECK_EQ(sqlite3_open(f->path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 20000);
    return db;
}

int raw_try(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

void raw_run(sqlite3 *db, const char *sql)
{
    if (raw_try(db, sql) != SQLITE_OK)
        check_fail(__FILE__, __LINE__, "%s: %s", sql, sqlite3_errmsg(db));
}

int64_t raw_int(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK || sqlite3_step(statement) != SQLITE_ROW)
        check_fail(__FILE__, __LINE__, "%s: %s", sql, sqlite3_errmsg(db));
    int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

void raw_text(sqlite3 *db, const char *sql, char *ret, size_t size)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK || sqlite3_step(statement) != SQLITE_ROW)
        check_fail(__FILE__, __LINE__, "%s: %s", sql, sqlite3_errmsg(db));
    snprintf(ret, size, "%s", (const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
}

int64_t fixture_int(struct fixture *f, const char *sql)
{
    sqlite3 *db = fixture_raw(f);
    int64_t value = raw_int(db, sql);
    sqlite3_close(db);
    return value;
}

pr_id fixture_send(struct fixture *f, const char *payload)
{
    struct pr_message m = { .type = PR_STR("t"), .payload = pr_str(payload) };
    pr_id id;
    CHECK_OK(store_enqueue(&f->store, PR_STR("outbox"), &m, 1, PAYLOAD_MAX, &id, NULL, &f->error), &f->error);
    return id;
}

/* ---- Workers ---------------------------------------------------------------------- */

void worker_open(struct worker *w, struct store *store)
{
    *w = (struct worker){ .number = 1, .lease_us = LEASE_US };
    pr_id_new(&w->id);
    CHECK_OK(store_session_open(store, PR_STR("outbox"), &w->session, &w->error), &w->error);
}

void worker_close(struct worker *w)
{
    store_session_close(&w->session);
}

int worker_cycle(struct worker *w, const struct cycle *cycle)
{
    struct cycle whole = *cycle;
    whole.box = PR_STR("outbox");
    whole.instance = w->id;
    whole.epoch = w->epoch;
    whole.number = w->number;
    whole.lease_us = w->lease_us;
    whole.name = PR_STR("worker");
    whole.notice_after = w->notice;
    whole.payload_max = PAYLOAD_MAX;
    int rc = store_cycle(&w->session, &whole, &w->reply, &w->error);
    if (rc != PR_OK)
        return rc;
    w->epoch = w->reply->epoch;
    w->notice = w->reply->notice_last;
    w->number++;
    return PR_OK;
}

const struct cycle_reply *worker_must(struct worker *w, const struct cycle *cycle)
{
    CHECK_OK(worker_cycle(w, cycle), &w->error);
    return w->reply;
}

/* ---- Processes -------------------------------------------------------------------- */

pid_t child_start(int (*f)(void *arg), void *arg)
{
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        _exit(f(arg));
    return pid;
}

int child_wait(pid_t pid)
{
    int status = 0;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
