/* A disk that is full, fails or loses power: after every fault nothing is half done, and the
 * next try works. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faulty_vfs.h"
#include "fixture.h"

#define STEPS_MAX 2000            /* a loop that is longer never ends */
#if defined(__SANITIZE_ADDRESS__) /* where every life takes ten times as long */
#define CYCLE_STEP 3
#define POWER_STEP 13
#define MIGRATION_STEP 25 /* odd: every other one is full */
#else
#define CYCLE_STEP 1
#define POWER_STEP 3
#define MIGRATION_STEP 5
#endif

static bool is_expected(int rc)
{
    return rc == PR_EFULL || rc == PR_EIO;
}

/* An INSERT keeps the old content of what it changes: beyond 64 KiB in a file, for those who have one. */
TEST(where_no_temporary_file_can_be_made_messages_are_stored_all_the_same)
{
    struct fixture *f = fixture_open("");
    faulty_install();
    sqlite3 *db = fixture_raw(f);
    raw_run(db, "CREATE TABLE large (n INTEGER, text TEXT)");
    raw_run(db, "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT 100)"
                " INSERT INTO large SELECT n, hex(zeroblob(1500)) FROM n");
    raw_run(db, "CREATE TRIGGER of_the_application AFTER INSERT ON outbox BEGIN UPDATE large SET n = n + 1; END");
    sqlite3_close(db);
    faulty_no_temporary_files();
    fixture_open_store(f);
    fixture_send(f, "p");
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM outbox, large WHERE large.n = 101"), 1);
    fixture_close(f);
    faulty_remove();
}

/* ---- Each change fails once --------------------------------------------------------------- */

/* Three messages, all or none. */
static int send_three(struct fixture *f)
{
    struct pr_message m[3];
    pr_id ids[3];
    for (int i = 0; i < 3; i++)
        m[i] = (struct pr_message){ .type = PR_STR("t"), .payload = PR_STR("payload") };
    return store_enqueue(&f->store, PR_STR("outbox"), m, 3, PAYLOAD_MAX, ids, NULL, &f->error);
}

static void enqueue_with_fault(int code)
{
    long hits;
    long n = 0;
    do {
        CHECK(++n < STEPS_MAX);
        struct fixture *f = fixture_open("");
        fixture_send(f, "before");
        faulty_fail(n, code, false);
        int rc = send_three(f);
        hits = faulty_hits();
        faulty_calm();
        CHECK(rc == PR_OK || (hits > 0 && is_expected(rc)));
        CHECK_EQ(fixture_int(f, "SELECT count(*) FROM outbox"), rc == PR_OK ? 4 : 1);
        if (rc != PR_OK)
            CHECK_OK(send_three(f), &f->error);
        CHECK_EQ(fixture_int(f, "SELECT count(*) FROM outbox"), 4);
        fixture_close(f);
    } while (hits > 0);
    CHECK(n > 3); /* the loop met something */
}

TEST(a_disk_that_is_full_at_any_write_of_a_send_stores_all_or_nothing)
{
    faulty_install();
    enqueue_with_fault(SQLITE_FULL);
    faulty_remove();
}

TEST(an_io_error_at_any_write_of_a_send_stores_all_or_nothing)
{
    faulty_install();
    enqueue_with_fault(SQLITE_IOERR);
    faulty_remove();
}

/* One message fails, one dies, one is done, one is started, one is sent: in one cycle. */
struct everything {
    struct verdict verdicts[3];
    struct receipt_entry entry;
    struct pr_message message;
    struct effect effect;
    struct tally tally;
    struct breaker_change breaker;
    struct cycle cycle;
};

static void everything_init(struct everything *e, const struct cycle_reply *r)
{
    *e = (struct everything){ .verdicts = {
                                  { .kind = VERDICT_COMPLETE },
                                  { .kind = VERDICT_FAIL, .number = 1, .reason = PR_REASON_REJECTED, .delay_us = 1 },
                                  { .kind = VERDICT_DEAD_LETTER, .number = 1, .cause = PR_REASON_REJECTED },
                              } };
    for (size_t i = 0; i < 3; i++) {
        e->verdicts[i].row = r->rows[i].row;
        e->verdicts[i].id = r->rows[i].m.id;
    }
    e->entry = (struct receipt_entry){ r->rows[3].row, 1 };
    e->message = (struct pr_message){ .type = PR_STR("effect") };
    pr_id_new(&e->message.id);
    e->effect = (struct effect){ .verdict = 0, .box = PR_STR("ledger"), .message = &e->message };
    e->tally = (struct tally){ .endpoint = PR_STR("e"), .sent = 1, .reason = PR_REASON_REJECTED };
    e->breaker = (struct breaker_change){ .endpoint = PR_STR("e"), .open = true, .for_us = PR_SECONDS(5) };
    e->cycle = (struct cycle){ .verdicts = e->verdicts,
                               .verdict_count = 3,
                               .receipt = &e->entry,
                               .receipt_count = 1,
                               .effects = &e->effect,
                               .effect_count = 1,
                               .tallies = &e->tally,
                               .tally_count = 1,
                               .breakers = &e->breaker,
                               .breaker_count = 1,
                               .fresh_rows = 10,
                               .fresh_bytes = SIZE_MAX };
}

/* 1: all of it is there, 0: none of it is. */
static int everything_is_done(struct fixture *f)
{
    static const char *const parts[] = {
        "SELECT count(*) = 4 FROM outbox",
        "SELECT count(*) = 1 FROM outbox WHERE failures = 1 AND attempts = 1 AND due_at IS NOT NULL",
        "SELECT count(*) = 1 FROM postrider_dead_letter",
        "SELECT count(*) = 1 FROM postrider_claim",
        "SELECT count(*) = 1 FROM ledger",
        "SELECT count(*) = 1 FROM postrider_endpoint WHERE sent = 1 AND last_failed_at > 0",
        "SELECT count(*) = 1 FROM postrider_breaker",
        "SELECT cycle = 3 FROM postrider_instance",
    };
    int64_t first = fixture_int(f, parts[0]);
    for (size_t i = 1; i < ARRAY_LENGTH(parts); i++)
        if (fixture_int(f, parts[i]) != first)
            check_fail(__FILE__, __LINE__, "half done: not so is %s", parts[i]);
    return (int)first;
}

static void cycle_with_fault(int code)
{
    long hits;
    long n = 1 - fixture_step(CYCLE_STEP);
    do {
        CHECK((n += fixture_step(CYCLE_STEP)) < STEPS_MAX);
        struct fixture *f = fixture_open("");
        struct worker w;
        struct everything e;
        CHECK_OK(send_three(f), &f->error);
        CHECK_OK(send_three(f), &f->error);
        worker_open(&w, &f->store);
        CYCLE(&w, );
        everything_init(&e, CYCLE(&w, .fresh_rows = 4));

        faulty_fail(n, code, false);
        int rc = worker_cycle(&w, &e.cycle);
        hits = faulty_hits();
        faulty_calm();
        CHECK(rc == PR_OK || (hits > 0 && is_expected(rc)));
        CHECK_EQ(everything_is_done(f), rc == PR_OK);
        if (rc != PR_OK) {
            CHECK_OK(worker_cycle(&w, &e.cycle), &w.error); /* the same cycle, again */
            CHECK(!w.reply->replayed);
            for (size_t i = 0; i < 3; i++)
                CHECK_EQ(w.reply->answers[i], PR_OK);
        }
        CHECK_EQ(w.reply->row_count, 2); /* and its scan is where it was */
        CHECK_EQ(everything_is_done(f), 1);
        worker_close(&w);
        fixture_close(f);
    } while (hits > 0);
    CHECK(n > 3);
}

TEST(a_disk_that_is_full_at_any_write_of_a_cycle_leaves_all_of_it_or_none) /* B6, T1 */
{
    faulty_install();
    cycle_with_fault(SQLITE_FULL);
    faulty_remove();
}

TEST(an_io_error_at_any_write_of_a_cycle_leaves_all_of_it_or_none) /* B6, T1 */
{
    faulty_install();
    cycle_with_fault(SQLITE_IOERR);
    faulty_remove();
}

TEST(a_fault_at_any_write_of_a_migration_leaves_all_of_it_or_none) /* I18 */
{
    faulty_install();
    long hits;
    long n = 1 - fixture_step(MIGRATION_STEP);
    do {
        CHECK((n += fixture_step(MIGRATION_STEP)) < STEPS_MAX);
        struct fixture *f = fixture_bare("");
        fixture_open_store(f);
        faulty_fail(n, n % 2 == 0 ? SQLITE_FULL : SQLITE_IOERR, false);
        int rc = fixture_migrate(f);
        hits = faulty_hits();
        faulty_calm();
        CHECK(rc == PR_OK || (hits > 0 && is_expected(rc)));
        if (rc != PR_OK) {
            CHECK(store_check(&f->store, &f->error) == PR_ESCHEMA);
            CHECK_OK(fixture_migrate(f), &f->error);
        }
        CHECK_OK(store_check(&f->store, &f->error), &f->error);
        CHECK_EQ(fixture_int(f, "SELECT count(*) FROM postrider_box"), 5);
        fixture_close(f);
    } while (hits > 0);
    CHECK(n > 3);
    faulty_remove();
}

TEST(a_disk_that_stays_full_is_told_each_time_until_it_is_freed)
{
    faulty_install();
    struct fixture *f = fixture_open("");
    struct worker w;
    pr_id id = fixture_send(f, "x");
    worker_open(&w, &f->store);
    CYCLE(&w, );
    uint64_t row = CYCLE(&w, .fresh_rows = 10)->rows[0].row;
    struct verdict v = { .kind = VERDICT_COMPLETE, .row = row, .id = id };
    faulty_fail(1, SQLITE_FULL, true);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(worker_cycle(&w, &(struct cycle){ .verdicts = &v, .verdict_count = 1 }), PR_EFULL);
        CHECK_EQ(send_three(f), PR_EFULL);
        CYCLE(&w, .fresh_rows = 10); /* reading needs no space */
    }
    faulty_calm();
    CHECK_EQ(CYCLE(&w, .verdicts = &v, .verdict_count = 1)->answers[0], PR_OK);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM outbox"), 0);
    worker_close(&w);
    fixture_close(f);
    faulty_remove();
}

static void count_taken(void *arg, const char *line, size_t size)
{
    *(int *)arg += memmem(line, size, "box_taken", strlen("box_taken")) != NULL;
}

TEST(who_cannot_take_a_box_since_the_disk_is_full_does_not_say_that_it_did)
{
    faulty_install();
    int said = 0;
    struct fixture *f = fixture_open("");
    struct log log = { .level = LOG_INFO, .write = count_taken, .arg = &said };
    struct store store;
    struct worker w;
    CHECK_OK(store_open(&(struct store_options){ .url = f->url, .log = &log, .payload_max = PAYLOAD_MAX }, &store,
                        &f->error),
             &f->error);
    worker_open(&w, &store);
    faulty_fail(1, SQLITE_FULL, true);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(worker_cycle(&w, &(struct cycle){ .fresh_rows = 1 }), PR_EFULL);
    CHECK_EQ(said, 0);
    faulty_calm();
    CYCLE(&w, );
    CYCLE(&w, );
    CHECK_EQ(said, 1);
    worker_close(&w);
    store_close(&store);
    fixture_close(f);
    faulty_remove();
}

/* ---- Power loss ------------------------------------------------------------------------------ */

#define LIVES 12 /* messages of one run */

/* What the child was told: 'b'egun, 's'ent, 'c'ompletion asked, 'd'one. */
struct life {
    struct fixture *f;
    int pipe_fd;
    long n;
    double luck;
};

static void tell(int fd, char what)
{
    if (write(fd, &what, 1) != 1)
        _exit(9);
}

static int live_until_power_loss(void *arg)
{
    struct life *life = arg;
    const struct store_options options = { .url = life->f->url, .payload_max = PAYLOAD_MAX };
    struct store store = { 0 };
    struct worker w = { .number = 1, .lease_us = LEASE_US };
    struct pr_error error;
    faulty_power_loss(life->n, life->luck, (unsigned long)life->n);
    pr_id_new(&w.id);
    if (store_open(&options, &store, &error) != PR_OK ||
        store_session_open(&store, PR_STR("outbox"), &w.session, &error) != PR_OK)
        return 1;
    struct cycle read = { .fresh_rows = 10, .fresh_bytes = SIZE_MAX };
    for (int i = 0; i < LIVES; i++) {
        struct pr_message m = { .type = PR_STR("t"), .payload = PR_STR("payload") };
        pr_id id;
        tell(life->pipe_fd, 'b');
        if (store_enqueue(&store, PR_STR("outbox"), &m, 1, PAYLOAD_MAX, &id, NULL, &error) != PR_OK)
            return 2;
        tell(life->pipe_fd, 's');
        if (worker_cycle(&w, &read) != PR_OK || w.reply->row_count != 1)
            return 3;
        struct verdict v = { .kind = VERDICT_COMPLETE, .row = w.reply->rows[0].row, .id = w.reply->rows[0].m.id };
        if (i % 2 == 1)
            continue; /* these stay */
        tell(life->pipe_fd, 'c');
        if (worker_cycle(&w, &(struct cycle){ .verdicts = &v, .verdict_count = 1 }) != PR_OK)
            return 4;
        tell(life->pipe_fd, 'd');
    }
    faulty_calm();
    store_session_close(&w.session);
    store_close(&store);
    return 0;
}

/* How many rows there may be, by what was acknowledged. */
static void check_after_loss(struct fixture *f, int fd)
{
    int64_t low = 0, high = 0;
    char what;
    while (read(fd, &what, 1) == 1) {
        if (what == 'b')
            high++;
        if (what == 's')
            low++;
        if (what == 'c')
            low--;
        if (what == 'd')
            high--;
    }
    fixture_open_store(f);
    CHECK_OK(store_check(&f->store, &f->error), &f->error);
    sqlite3 *db = fixture_raw(f);
    CHECK_EQ(raw_int(db, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"), 0);
    int64_t rows = raw_int(db, "SELECT count(*) FROM outbox");
    sqlite3_close(db);
    if (rows < low || rows > high)
        check_fail(__FILE__, __LINE__, "%lld rows are there, not %lld to %lld", (long long)rows, (long long)low,
                   (long long)high);
    fixture_send(f, "after"); /* and it works */
}

static void lose_power_everywhere(double luck)
{
    int code;
    long n = 0;
    faulty_install();
    do {
        CHECK((n += fixture_step(POWER_STEP)) < STEPS_MAX);
        struct fixture *f = fixture_open("");
        struct life life = { .f = f, .n = n, .luck = luck };
        int fds[2];
        store_close(&f->store); /* a fork must not share it */
        CHECK_EQ(pipe(fds), 0);
        life.pipe_fd = fds[1];
        pid_t pid = child_start(live_until_power_loss, &life);
        close(fds[1]);
        code = child_wait(pid);
        CHECK(code == 0 || code == POWER_LOSS_EXIT);
        check_after_loss(f, fds[0]);
        close(fds[0]);
        fixture_close(f);
    } while (code != 0);
    CHECK(n > LIVES);
    faulty_remove();
}

TEST(power_that_goes_at_any_write_undoes_nothing_that_was_acknowledged) /* 4.2.9 */
{
    lose_power_everywhere(0);
}

TEST(power_that_goes_with_half_of_the_unsynced_writes_on_the_disk_does_no_harm)
{
    lose_power_everywhere(0.5);
}
