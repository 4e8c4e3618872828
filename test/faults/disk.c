/* A store that cannot be written for a while: locked by another program, full, or failing.  Nothing is lost, errors are
 * reported in plain words, and work continues by itself. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crew.h"

#define FILL_BYTES 65536

/* A backlog, a worker, and half of it delivered: now it may happen. */
static pid_t start_in_the_middle(struct crew *c, bool failing_disk)
{
    place_send(&c->place, NULL, "ok", "one", 20);
    pid_t worker = crew_start(c, &(struct crew_order){ .role = "work", .failing_disk = failing_disk });
    crew_wait_lines(c, "history", "E ", "", 20);
    place_send(&c->place, NULL, "gate", "two", 1); /* in flight while the store is away */
    crew_wait_lines(c, "history", "S ", "", 21);
    return worker;
}

/* Everything was delivered once, and the worker said that it is well again. */
static void check_recovery(struct crew *c, pid_t worker, int messages)
{
    place_wait(&c->place, "SELECT count(*) FROM outbox", 0);
    crew_wait_lines(c, "log", "store_recovered", "", 1);
    CHECK_EQ(crew_lines(c, "history", "S ", ""), messages);
    CHECK_EQ(place_int(&c->place, "SELECT count(*) FROM postrider_dead_letter"), 0);
    CHECK_EQ(place_int(&c->place, "SELECT sum(failed) FROM postrider_endpoint"), 0); /* not the message's fault (B38) */
    crew_end(c, worker);
    CHECK_EQ(place_int(&c->place, "SELECT sum(sent) FROM postrider_endpoint"), messages);
}

/* ---- Locked ------------------------------------------------------------------------------------ */

static void check_lock(const char *options, int64_t held_us)
{
    struct crew c;
    crew_init(&c, &(struct crew_setting){ .options = options, .root = "lease: 1s\n", .endpoint = "timeout: 60s" });
    pid_t worker = start_in_the_middle(&c, false);
    sqlite3 *db = place_open(&c.place);
    CHECK_EQ(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    int64_t until_us = test_now_us() + held_us;
    crew_touch(&c, "open-1"); /* it ends now, and its verdict cannot be written */
    crew_wait_lines(&c, "log", "store_trouble", "write lock", 1);
    while (test_now_us() < until_us)
        test_pause();
    CHECK_EQ(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    place_send(&c.place, NULL, "ok", "one", 20);
    check_recovery(&c, worker, 41);
    crew_fini(&c);
}

TEST(lock_held_by_another_process_delays_only) /* B38 */
{
    if (getenv("FAULTS_LOCK_SECONDS") != NULL)
        check_lock("busy=5s", PR_SECONDS(atoi(getenv("FAULTS_LOCK_SECONDS"))));
    else
        check_lock("busy=200ms", PR_SECONDS(3));
}

/* An open read transaction keeps the log from being reset; work goes on. */
TEST(long_reader_delays_nobody)
{
    struct crew c;
    sqlite3_stmt *statement;
    crew_init(&c, &(struct crew_setting){ .root = "lease: 1s\n", .endpoint = "timeout: 60s" });
    place_send(&c.place, NULL, "ok", NULL, 10);
    sqlite3 *db = place_open(&c.place);
    CHECK_EQ(sqlite3_exec(db, "BEGIN", NULL, NULL, NULL), SQLITE_OK);
    CHECK_EQ(sqlite3_prepare_v2(db, "SELECT count(*) FROM outbox", -1, &statement, NULL), SQLITE_OK);
    CHECK_EQ(sqlite3_step(statement), SQLITE_ROW);
    pid_t worker = crew_work(&c);
    place_send(&c.place, NULL, "ok", NULL, 300);
    place_wait(&c.place, "SELECT count(*) FROM outbox", 0);
    CHECK_EQ(sqlite3_column_int(statement, 0), 10);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    crew_end(&c, worker);
    CHECK_EQ(crew_lines(&c, "log", "store_trouble", ""), 0);
    crew_fini(&c);
}

/* ---- Failing ------------------------------------------------------------------------------------- */

static void check_failing_disk(const char *fault, const char *said)
{
    struct crew c;
    crew_init(&c, &(struct crew_setting){ .root = "lease: 1s\n", .endpoint = "timeout: 60s" });
    pid_t worker = start_in_the_middle(&c, true);
    crew_touch(&c, fault);
    crew_touch(&c, "open-1"); /* it ends now, and its verdict cannot be written */
    crew_wait_lines(&c, "log", "store_trouble", said, 1);
    place_send(&c.place, NULL, "ok", "one", 20);       /* this process's disk is fine */
    CHECK_EQ(crew_lines(&c, "history", "S ", ""), 21); /* nothing is started that cannot be written down */
    crew_remove(&c, fault);
    check_recovery(&c, worker, 41);
    crew_fini(&c);
}

TEST(input_output_errors_delay_only) /* B38 */
{
    check_failing_disk("io-error", "input/output error");
}

TEST(writes_without_space_delay_only)
{
    check_failing_disk("disk-full", "disk full");
}

TEST(disk_that_fails_at_the_start_is_said)
{
    struct crew c;
    crew_init(&c, &(struct crew_setting){ .root = "lease: 1s\n", .endpoint = "timeout: 60s" });
    crew_touch(&c, "io-error");
    pid_t worker = crew_start(&c, &(struct crew_order){ .role = "work", .failing_disk = true });
    CHECK_EQ(WEXITSTATUS(crew_wait(&c, worker, PR_SECONDS(10))), 3);
    CHECK_EQ(crew_lines(&c, "log", "worker_failed", "error"), 1);
    crew_fini(&c);
}

/* ---- Full ---------------------------------------------------------------------------------------- */

/* Put the store, and nothing else, on a filesystem of its own.  In a mount namespace of our own,
 * so that it goes away with us whatever happens. */
static bool mount_small(struct crew *c, char ret_dir[96])
{
    snprintf(ret_dir, 96, "%s/small", c->place.dir);
    snprintf(c->place.path, sizeof c->place.path, "%.70s/store.db", ret_dir);
    snprintf(c->place.url, sizeof c->place.url, "sqlite:%s", c->place.path);
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mkdir(ret_dir, 0700) == 0 && mount("tmpfs", ret_dir, "tmpfs", MS_NOSUID | MS_NODEV, "size=4m") == 0;
}

static void fill(const char *path)
{
    static char block[FILL_BYTES];
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    size_t size = sizeof block;
    CHECK(fd >= 0);
    while (size > 0) {
        if (write(fd, block, size) >= 0)
            continue;
        CHECK_EQ(errno, ENOSPC);
        size /= 2;
    }
    close(fd);
}

/* Some space may be left in the log file: use it up.  How many went in. */
static int send_until_full(const struct crew *c)
{
    struct pr_sender *sender;
    struct pr_error error;
    struct pr_message m = { .type = PR_STR("ok"), .stream = PR_STR("one"), .payload = PR_STR("x") };
    int rc = PR_OK, sent = 0;
    CHECK_OK(pr_sender_open(c->place.url, &sender, &error), &error);
    while (sent < 10000 && (rc = pr_sender_send(sender, NULL, &m, NULL, &error)) == PR_OK)
        sent++;
    CHECK_EQ(rc, PR_EFULL);
    CHECK(strstr(error.text, "disk full") != NULL);
    pr_sender_close(sender);
    return sent;
}

TEST(full_filesystem_is_said_and_survived)
{
    const struct crew_setting setting = { .root = "lease: 1s\n", .endpoint = "timeout: 60s" };
    struct crew c;
    struct pr_error error;
    char small[96], filler[128];
    crew_init_empty(&c, &setting);
    if (!mount_small(&c, small)) {
        rmdir(small);
        crew_fini(&c);
        SKIP("a small filesystem cannot be mounted here");
    }
    crew_configure(&c, &setting);
    CHECK_OK(pr_store_init(c.place.url, &error), &error);
    pid_t worker = start_in_the_middle(&c, false);
    snprintf(filler, sizeof filler, "%s/filler", small);
    fill(filler);
    crew_touch(&c, "open-1"); /* it ends now, and its verdict may be the first that finds no space */
    int sent = send_until_full(&c);
    crew_wait_lines(&c, "log", "store_trouble", "disk full", 1);
    CHECK_EQ(unlink(filler), 0);
    check_recovery(&c, worker, 21 + sent);
    CHECK_EQ(umount(small), 0);
    CHECK_EQ(rmdir(small), 0);
    crew_fini(&c);
}
