/* Several processes on one file: standing by, taking over, blocking each other. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "asleep.h"
#include "fixture.h"

/* A child that works the outbox until it is ended; it tells through a pipe what it did. */
struct owner {
    char url[160];
    int pipe_fd;
    int64_t lease_us;
    bool claim; /* put one message on a receipt */
    bool go_on; /* cycle for ever, and tell of PR_ELEASE */
};

static void tell(int fd, char what)
{
    if (write(fd, &what, 1) != 1)
        _exit(9);
}

static void pause_ms(long ms)
{
    struct timespec t = { .tv_nsec = ms * 1000000 };
    nanosleep(&t, NULL);
}

static int owner_run(void *arg)
{
    struct owner *o = arg;
    const struct store_options options = { .url = o->url, .payload_max = PAYLOAD_MAX };
    struct store store = { 0 };
    struct worker w = { .number = 1, .lease_us = o->lease_us };
    struct cycle cycle = { .fresh_rows = 10, .fresh_bytes = SIZE_MAX };
    pr_id_new(&w.id);
    if (store_open(&options, &store, &w.error) != PR_OK ||
        store_session_open(&store, PR_STR("outbox"), &w.session, &w.error) != PR_OK ||
        worker_cycle(&w, &cycle) != PR_OK)
        return 1;
    if (o->claim) {
        struct receipt_entry entry = { w.reply->rows[0].row, w.reply->rows[0].m.attempts + 1 };
        cycle = (struct cycle){ .receipt = &entry, .receipt_count = 1 };
        if (worker_cycle(&w, &cycle) != PR_OK)
            return 2;
    }
    tell(o->pipe_fd, w.reply->lanes_owned == LANES_ALL ? 'o' : 's');
    for (;;) {
        int rc = o->go_on ? worker_cycle(&w, &(struct cycle){ .force_write = true }) : PR_OK;
        if (rc == PR_ELEASE)
            tell(o->pipe_fd, 'e');
        if (rc != PR_OK)
            return 0;
        pause_ms(20);
    }
}

static char listen_to(int fd)
{
    char what = '?';
    struct pollfd p = { .fd = fd, .events = POLLIN };
    CHECK_EQ(poll(&p, 1, (int)(SOON_US / 1000)), 1);
    CHECK_EQ(read(fd, &what, 1), 1);
    return what;
}

static pid_t owner_start(struct fixture *f, struct owner *o, int *ret_fd)
{
    int fds[2];
    CHECK_EQ(pipe(fds), 0);
    snprintf(o->url, sizeof(o->url), "%s", f->url);
    o->pipe_fd = fds[1];
    pid_t pid = child_start(owner_run, o);
    close(fds[1]);
    *ret_fd = fds[0];
    CHECK_EQ(listen_to(fds[0]), 'o');
    return pid;
}

/* A long lease, so that only the lock file can tell. */
TEST(who_stands_by_takes_over_at_once_when_the_owners_process_is_killed) /* B22, B24 */
{
    struct fixture *f = fixture_open("");
    fixture_send(f, "x");
    store_close(&f->store);
    struct owner o = { .lease_us = PR_MINUTES(60), .claim = true };
    int fd;
    pid_t pid = owner_start(f, &o, &fd);

    fixture_open_store(f);
    struct worker w;
    worker_open(&w, &f->store);
    CHECK_EQ(CYCLE(&w, .fresh_rows = 10)->lanes_owned, 0);
    CHECK_EQ(store_wait(&w.session, -1, PR_MILLISECONDS(120)), 0); /* it lives */
    CHECK_EQ(CYCLE(&w, )->lanes_owned, 0);

    kill(pid, SIGKILL);
    int64_t start = real_us();
    CHECK_EQ(store_wait(&w.session, -1, SOON_US), 1);
    CHECK(real_us() - start < SOON_US / 2);
    CHECK_EQ(CYCLE(&w, .fresh_rows = 10)->lanes_owned, LANES_ALL);
    CHECK_EQ(w.reply->row_count, 1);
    CHECK_EQ(w.reply->rows[0].m.attempts, 1); /* it was counted */
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM postrider_claim"), 0);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM postrider_instance"), 1);
    child_wait(pid);
    close(fd);
    worker_close(&w);
    fixture_close(f);
}

TEST(a_sleeping_owner_is_taken_over_when_its_lease_ends_and_notices) /* B23 */
{
    struct fixture *f = fixture_open("");
    fixture_send(f, "x");
    store_close(&f->store);
    struct owner o = { .lease_us = PR_SECONDS(3), .claim = true, .go_on = true };
    int fd;
    pid_t pid = owner_start(f, &o, &fd);
    fixture_open_store(f);
    struct worker w;
    worker_open(&w, &f->store);
    CHECK_EQ(CYCLE(&w, )->lanes_owned, 0);

    sqlite3 *db = fixture_raw(f);
    put_to_sleep(pid, db);
    sqlite3_close(db);
    int64_t start = real_us();
    while (CYCLE(&w, )->lanes_owned == 0 && real_us() - start < SOON_US)
        store_wait(&w.session, -1, PR_MILLISECONDS(20));
    CHECK_EQ(w.reply->lanes_owned, LANES_ALL);
    CHECK_EQ(fixture_int(f, "SELECT locked FROM postrider_instance"), 0); /* the sleeper has the lock file */
    CHECK_EQ(fixture_int(f, "SELECT attempts FROM outbox"), 1);

    /* A third one that gets the lock file must not believe that the second is dead. */
    struct worker third;
    worker_open(&third, &f->store);
    kill(pid, SIGCONT);
    CHECK_EQ(listen_to(fd), 'e');
    CHECK_EQ(child_wait(pid), 0);
    CHECK_EQ(CYCLE(&third, )->lanes_owned, 0);
    CHECK_EQ(CYCLE(&w, .force_write = true)->lanes_owned, LANES_ALL);
    CHECK_EQ(fixture_int(f, "SELECT locked FROM postrider_instance WHERE lanes > 0"), 1); /* now it has it */
    CHECK_EQ(CYCLE(&third, )->lanes_owned, 0);
    close(fd);
    worker_close(&third);
    worker_close(&w);
    fixture_close(f);
}

/* Somebody tidies up.  Who opens the box then has another lock file than the owner. */
TEST(a_lock_file_that_was_removed_does_not_make_two_owners_take_turns) /* B24 */
{
    struct fixture *f = fixture_open("");
    char lock_path[128];
    struct worker owner, other;
    snprintf(lock_path, sizeof(lock_path), "%s-outbox.lock", f->path);
    worker_open(&owner, &f->store);
    CHECK_EQ(CYCLE(&owner, )->lanes_owned, LANES_ALL);
    CHECK_EQ(unlink(lock_path), 0);
    CHECK_EQ(CYCLE(&owner, .force_write = true)->lanes_owned, LANES_ALL); /* it makes a new one */
    worker_open(&other, &f->store);
    CHECK_EQ(CYCLE(&other, )->lanes_owned, 0);

    CHECK_EQ(unlink(lock_path), 0);
    worker_close(&other);
    worker_open(&other, &f->store); /* before the owner has seen it: then it may take over, but once only */
    bool taken = CYCLE(&other, )->lanes_owned != 0;
    struct worker *winner = taken ? &other : &owner, *loser = taken ? &owner : &other;
    if (taken) {
        CHECK_EQ(worker_cycle(loser, &(struct cycle){ .force_write = true }), PR_ELEASE);
        loser->epoch = 0; /* it joins anew, with the lock file that it has */
        loser->number = 1;
        pr_id_new(&loser->id);
    }
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(CYCLE(loser, )->lanes_owned, 0);
        CHECK_EQ(CYCLE(winner, .force_write = true)->lanes_owned, LANES_ALL);
    }
    worker_close(&other);
    worker_close(&owner);
    fixture_close(f);
}

TEST(a_lease_from_before_the_machine_was_started_is_over)
{
    struct fixture *f = fixture_open("");
    fixture_send(f, "x");
    struct worker a, b;
    worker_open(&a, &f->store);
    CYCLE(&a, .fresh_rows = 1);
    struct receipt_entry entry = { a.reply->rows[0].row, 1 };
    CYCLE(&a, .receipt = &entry, .receipt_count = 1);
    sqlite3 *db = fixture_raw(f);
    raw_run(db, "UPDATE postrider_instance SET boot_id = 'another', locked = 0, lease_end = 9000000000000000000");
    sqlite3_close(db);
    worker_open(&b, &f->store);
    CHECK_EQ(CYCLE(&b, )->lanes_owned, LANES_ALL);
    CHECK_EQ(fixture_int(f, "SELECT attempts FROM outbox"), 1);
    worker_close(&a);
    worker_close(&b);
    fixture_close(f);
}

/* ---- The write lock --------------------------------------------------------------------- */

TEST(a_write_lock_that_is_held_for_too_long_is_told_and_nothing_changes)
{
    struct fixture *f = fixture_open("?busy=50ms");
    struct worker w;
    worker_open(&w, &f->store);
    pr_id id = fixture_send(f, "x");
    CYCLE(&w, );
    CYCLE(&w, .fresh_rows = 10);
    uint64_t row = w.reply->rows[0].row;

    sqlite3 *db = fixture_raw(f);
    raw_run(db, "BEGIN IMMEDIATE; INSERT INTO ledger (type) VALUES ('t')");
    struct verdict v = { .kind = VERDICT_COMPLETE, .row = row, .id = id };
    int64_t start = real_us();
    CHECK_EQ(worker_cycle(&w, &(struct cycle){ .verdicts = &v, .verdict_count = 1 }), PR_EBUSY);
    CHECK(real_us() - start >= PR_MILLISECONDS(45));
    CHECK(strstr(w.error.text, "busy=") != NULL);
    struct pr_message m = { .type = PR_STR("t") };
    pr_id sent;
    CHECK_EQ(store_enqueue(&f->store, PR_STR("outbox"), &m, 1, PAYLOAD_MAX, &sent, NULL, &f->error), PR_EBUSY);
    CYCLE(&w, .fresh_rows = 10); /* reading goes on */
    raw_run(db, "COMMIT");
    sqlite3_close(db);

    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM outbox"), 1);
    CHECK_EQ(CYCLE(&w, .verdicts = &v, .verdict_count = 1)->answers[0], PR_OK);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM outbox"), 0);
    worker_close(&w);
    fixture_close(f);
}

struct holder {
    const char *path;
    int pipe_fd;
};

static int hold_for_a_while(void *arg)
{
    struct holder *h = arg;
    sqlite3 *db = NULL;
    if (sqlite3_open(h->path, &db) != SQLITE_OK)
        return 1;
    sqlite3_busy_timeout(db, 10000);
    if (sqlite3_exec(db, "BEGIN IMMEDIATE; INSERT INTO ledger (type) VALUES ('t')", NULL, NULL, NULL) != SQLITE_OK)
        return 2;
    tell(h->pipe_fd, 'h');
    pause_ms(200);
    return sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK ? 0 : 3;
}

TEST(a_write_lock_that_is_held_for_a_moment_is_waited_for)
{
    struct fixture *f = fixture_open("?busy=20s");
    struct holder h = { .path = f->path };
    int fds[2];
    CHECK_EQ(pipe(fds), 0);
    h.pipe_fd = fds[1];
    pid_t pid = child_start(hold_for_a_while, &h);
    CHECK_EQ(listen_to(fds[0]), 'h');
    fixture_send(f, "x");                                       /* must succeed */
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM ledger"), 1); /* the other came first */
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM outbox"), 1);
    CHECK_EQ(child_wait(pid), 0);
    close(fds[0]);
    close(fds[1]);
    fixture_close(f);
}

/* ---- Wake-ups ------------------------------------------------------------------------------ */

TEST(a_commit_of_another_connection_wakes_and_our_own_does_not)
{
    struct fixture *f = fixture_open("");
    sqlite3 *db = fixture_raw(f);
    struct worker w;
    worker_open(&w, &f->store);
    CYCLE(&w, );
    CYCLE(&w, .force_write = true, .fresh_rows = 10);
    CHECK_EQ(store_wait(&w.session, -1, PR_MILLISECONDS(50)), 0);
    for (int i = 0; i < 20; i++) {
        raw_run(db, "INSERT INTO outbox (type) VALUES ('t')");
        CHECK_EQ(store_wait(&w.session, -1, SOON_US), 1);
        CHECK_EQ(CYCLE(&w, .fresh_rows = 10)->row_count, 1);
    }
    CHECK_EQ(store_wait(&w.session, -1, PR_MILLISECONDS(50)), 0);
    sqlite3_close(db);
    worker_close(&w);
    fixture_close(f);
}

TEST(the_log_does_not_grow_without_end_while_a_box_is_worked) /* I14 */
{
    struct fixture *f = fixture_open("?synchronous=normal");
    static char payload[60000];
    struct worker w;
    memset(payload, 'x', sizeof(payload) - 1);
    worker_open(&w, &f->store);
    CYCLE(&w, );
    for (int i = 0; i < 1000; i++) {
        fixture_send(f, payload);
        const struct cycle_reply *r = CYCLE(&w, .fresh_rows = 1);
        struct verdict v = { .kind = VERDICT_COMPLETE, .row = r->rows[0].row, .id = r->rows[0].m.id };
        CYCLE(&w, .verdicts = &v, .verdict_count = 1);
    }
    char log[128];
    FILE *file;
    snprintf(log, sizeof(log), "%s-wal", f->path);
    CHECK((file = fopen(log, "r")) != NULL);
    fseek(file, 0, SEEK_END);
    long bytes = ftell(file);
    fclose(file);
    CHECK(bytes < 32L << 20); /* 60 MB went through it */
    worker_close(&w);
    fixture_close(f);
}

/* An idle box beside a busy one looks less often at what others commit, but it does look: after eight looks in vain two
 * milliseconds are between two of them. */
TEST(a_box_is_still_woken_after_many_commits_that_were_not_for_it)
{
    struct fixture *f = fixture_open("");
    sqlite3 *db = fixture_raw(f);
    struct worker w;
    worker_open(&w, &f->store);
    CYCLE(&w, );
    raw_run(db, "PRAGMA synchronous = OFF"); /* commits come faster than it looks */
    int64_t begin_us = clock_mono_us(clock_system());
    for (int i = 0; i < 100; i++) {
        raw_run(db, "INSERT INTO inbox (type) VALUES ('t')");
        CHECK_EQ(store_wait(&w.session, -1, SOON_US), 1);
        CHECK_EQ(CYCLE(&w, .fresh_rows = 10)->row_count, 0);
    }
    CHECK(clock_mono_us(clock_system()) - begin_us >= 90 * PR_MILLISECONDS(2));
    CHECK_EQ(store_wait(&w.session, -1, PR_MILLISECONDS(5)), 0);
    raw_run(db, "INSERT INTO outbox (type) VALUES ('t')");
    CHECK_EQ(store_wait(&w.session, -1, SOON_US), 1);
    CHECK_EQ(CYCLE(&w, .fresh_rows = 10)->row_count, 1);
    fixture_send(f, "x");
    CHECK_EQ(store_wait(&w.session, -1, SOON_US), 1);
    CHECK_EQ(CYCLE(&w, .fresh_rows = 10)->row_count, 1);
    sqlite3_close(db);
    worker_close(&w);
    fixture_close(f);
}
