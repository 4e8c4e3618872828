#include "place.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../store/sqlite_template.h"

#define WAIT_US PR_SECONDS(90)

int64_t test_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

void test_pause(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
}

void place_init_empty(struct place *p)
{
    snprintf(p->dir, sizeof p->dir, "/tmp/postrider-test-XXXXXX");
    CHECK(mkdtemp(p->dir) != NULL);
    snprintf(p->path, sizeof p->path, "%s/store.db", p->dir);
    snprintf(p->url, sizeof p->url, "sqlite:%s", p->path);
}

void place_init(struct place *p)
{
    struct pr_error error;
    place_init_empty(p);
    if (sqlite_template_copy(p->path))
        return;
    CHECK_OK(pr_store_init(p->url, &error), &error);
    sqlite_template_keep(p->path);
}

void place_fini(struct place *p)
{
    char path[512];
    struct dirent *entry;
    DIR *dir = opendir(p->dir);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", p->dir, entry->d_name);
        if (entry->d_name[0] != '.')
            unlink(path);
    }
    if (dir != NULL)
        closedir(dir);
    rmdir(p->dir);
}

sqlite3 *place_open(const struct place *p)
{
    sqlite3 *db;
    CHECK_EQ(sqlite3_open(p->path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 20000);
    return db;
}

void place_do(const struct place *p, const char *sql)
{
    sqlite3 *db = place_open(p);
    char *text = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &text) != SQLITE_OK)
        check_fail(__FILE__, __LINE__, "%s: %s", sql, text);
    sqlite3_close(db);
}

int64_t place_int(const struct place *p, const char *sql)
{
    sqlite3 *db = place_open(p);
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
        check_fail(__FILE__, __LINE__, "%s: %s", sql, sqlite3_errmsg(db));
    CHECK_EQ(sqlite3_step(statement), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return number;
}

void sender_send(struct pr_sender *sender, const char *box, const char *type, const char *stream, int count)
{
    struct pr_error error;
    for (int i = 1; i <= count; i++) {
        char payload[16];
        snprintf(payload, sizeof payload, "%d", i);
        struct pr_message m = { .type = pr_str(type), .stream = pr_str(stream), .payload = pr_str(payload) };
        CHECK_OK(pr_sender_send(sender, box, &m, NULL, &error), &error);
    }
}

void place_send(const struct place *p, const char *box, const char *type, const char *stream, int count)
{
    struct pr_error error;
    struct pr_sender *sender;
    CHECK_OK(pr_sender_open(p->url, &sender, &error), &error);
    sender_send(sender, box, type, stream, count);
    pr_sender_close(sender);
}

void place_wait(const struct place *p, const char *sql, int64_t wanted)
{
    int64_t deadline_us = test_now_us() + WAIT_US, got;
    while ((got = place_int(p, sql)) != wanted) {
        if (test_now_us() > deadline_us)
            check_fail(__FILE__, __LINE__, "%s is %lld after 90 s, not %lld", sql, (long long)got, (long long)wanted);
        test_pause();
    }
}
