/* Which instance serves the box when processes die, sleep and stop. */
#include <string.h>
#include <unistd.h>

#include "crew.h"
#include "sqlite/asleep.h"

/* Short enough to wait for its end, and long enough for a busy machine: an owner that is kept from renewing it loses
 * it against the test's will. */
static const struct crew_setting short_lease = { .root = "lease: 3s\nboxes: {outbox: {keep: 1h}}\n",
                                                 .endpoint = "timeout: 60s" };
static const struct crew_setting long_lease = { .root = "lease: 1h\nstop_timeout: 1m\nboxes: {outbox: {keep: 1h}}\n",
                                                .endpoint = "timeout: 60s" };
static const struct crew_setting short_stop = { .root = "lease: 1h\nstop_timeout: 3s\nboxes: {outbox: {keep: 1h}}\n",
                                                .endpoint = "timeout: 60s" };

static void word_of(pid_t pid, char ret[32])
{
    snprintf(ret, 32, " %d\n", (int)pid); /* as the history has it */
}

/* The worker that owns the box; another one stands by. */
static void start_pair(struct crew *c, pid_t *ret_owner, pid_t *ret_standby)
{
    *ret_owner = crew_work(c);
    place_wait(&c->place, "SELECT count(*) FROM postrider_instance WHERE box = 'outbox' AND lanes > 0", 1);
    *ret_standby = crew_work(c);
    place_wait(&c->place, "SELECT count(*) FROM postrider_instance WHERE box = 'outbox'", 2);
}

/* ---- kill -9 ----------------------------------------------------------------------------------- */

/* The lease would last an hour: only the lock file can tell. */
TEST(standby_goes_on_at_once_after_a_kill) /* B22, B24, B46 */
{
    struct crew c;
    pid_t owner, standby;
    char word[32];
    crew_init(&c, &long_lease);
    start_pair(&c, &owner, &standby);
    place_send(&c.place, NULL, "gate", "one", 1);
    place_send(&c.place, NULL, "ok", "one", 20); /* behind it */
    crew_wait_lines(&c, "history", "S ", "", 1);

    crew_kill(&c, owner);
    word_of(standby, word);
    crew_wait_lines(&c, "history", "S ", word, 1);

    CHECK_EQ(place_int(&c.place, "SELECT attempts FROM outbox WHERE type = 'gate'"), 1);    /* the lost one counts */
    CHECK_EQ(place_int(&c.place, "SELECT sum(attempts) FROM outbox WHERE type = 'ok'"), 0); /* B46 */
    crew_touch(&c, "open-2");
    place_wait(&c.place, "SELECT count(*) FROM outbox", 0);
    CHECK_EQ(crew_lines(&c, "history", "S ", ""), 22); /* one duplicate: what was in flight */
    CHECK_EQ(place_int(&c.place, "SELECT count(*) FROM postrider_done"), 21);
    crew_end(&c, standby);
    crew_fini(&c);
}

/* Nobody stood by: the next one to start goes on at once, too. */
TEST(restart_goes_on_at_once_after_a_kill) /* B24 */
{
    struct crew c;
    crew_init(&c, &long_lease);
    for (int i = 1; i <= 3; i++) {
        place_send(&c.place, NULL, "ok", "one", 10);
        pid_t worker = crew_work(&c);
        place_wait(&c.place, "SELECT count(*) FROM outbox", 0);
        crew_kill(&c, worker);
    }
    CHECK_EQ(crew_lines(&c, "history", "S ", ""), 30);
    crew_fini(&c);
}

/* ---- SIGSTOP ------------------------------------------------------------------------------------- */

static void fall_asleep(const struct crew *c, pid_t worker)
{
    sqlite3 *db = place_open(&c->place);
    put_to_sleep(worker, db);
    sqlite3_close(db);
}

static void check_sleeper(const char *type)
{
    struct crew c;
    pid_t owner, standby;
    char word[32];
    crew_init(&c, &short_lease);
    start_pair(&c, &owner, &standby);
    place_send(&c.place, NULL, type, "one", 1);
    crew_wait_lines(&c, "history", "S ", "", 1);

    fall_asleep(&c, owner);
    place_send(&c.place, NULL, "ok", "one", 20);
    crew_touch(&c, "open-2"); /* the sleeper waits for open-1, whoever comes after it does not wait */
    place_wait(&c.place, "SELECT count(*) FROM outbox", 0); /* well before the timeout of what the sleeper has begun */

    crew_touch(&c, "open-1");
    kill(owner, SIGCONT);
    word_of(owner, word);
    crew_wait_lines(&c, "history", "E ", word, 1); /* its handler came to an end, late */
    crew_wait_lines(&c, "log", "lease_lost", "outbox", 1);
    place_wait(&c.place, "SELECT count(*) FROM postrider_instance WHERE box = 'outbox' AND lanes = 0",
               1); /* joined again */
    CHECK_EQ(place_int(&c.place, "SELECT count(*) FROM postrider_done"), 21);
    CHECK_EQ(place_int(&c.place, "SELECT sum(failures) FROM postrider_done"), 0);
    CHECK_EQ(place_int(&c.place, "SELECT count(*) FROM postrider_dead_letter"), 0);
    CHECK(place_int(&c.place, "SELECT sum(sent) FROM postrider_endpoint") <= 21);

    /* And it is of use again. */
    crew_end(&c, standby);
    place_send(&c.place, NULL, "ok", "one", 5);
    place_wait(&c.place, "SELECT count(*) FROM postrider_done", 26);
    CHECK_EQ(crew_lines(&c, "history", "S ", word), 6);
    crew_end(&c, owner);
    crew_fini(&c);
}

TEST(sleeper_changes_nothing_and_joins_again) /* B23 */
{
    check_sleeper("gate");
}

TEST(failure_of_a_sleeper_is_not_counted) /* B23, B8 */
{
    check_sleeper("gate-fail");
}

/* Before the lease is over nobody may take the lanes from somebody who sleeps. */
TEST(sleeper_keeps_its_lanes_while_its_lease_lasts) /* B26 */
{
    struct crew c;
    pid_t owner, standby;
    crew_init(&c, &(struct crew_setting){ .root = "lease: 30s\n", .endpoint = "timeout: 60s" });
    start_pair(&c, &owner, &standby);
    fall_asleep(&c, owner);
    place_send(&c.place, NULL, "ok", "one", 5);
    int64_t until_us = test_now_us() + PR_SECONDS(1); /* leases are renewed after a third of their time */
    while (test_now_us() < until_us) {
        CHECK_EQ(crew_lines(&c, "history", "S ", ""), 0);
        test_pause();
    }
    kill(owner, SIGCONT);
    place_wait(&c.place, "SELECT count(*) FROM outbox", 0);
    CHECK_EQ(crew_lines(&c, "history", "S ", ""), 5);
    crew_end(&c, standby);
    crew_end(&c, owner);
    crew_fini(&c);
}

/* ---- SIGTERM ---------------------------------------------------------------------------------------- */

TEST(stop_hands_back_and_counts_nothing) /* B14, B38, I16 */
{
    struct crew c;
    crew_init(&c, &long_lease);
    place_send(&c.place, NULL, "gate", NULL, 100); /* handlers that give up when they are asked to */
    pid_t worker = crew_work(&c);
    crew_wait_lines(&c, "history", "S ", "", 4);
    crew_end(&c, worker);

    CHECK_EQ(place_int(&c.place, "SELECT count(*) FROM outbox"), 100);
    CHECK_EQ(place_int(&c.place, "SELECT sum(attempts) + sum(failures) + sum(status <> 1) FROM outbox"), 0);
    CHECK_EQ(place_int(&c.place, "SELECT count(*) FROM postrider_claim"), 0);
    CHECK_EQ(place_int(&c.place, "SELECT count(*) FROM postrider_instance"), 0);

    crew_touch(&c, "open-1"); /* so the next one has hand-out 1 again */
    worker = crew_work(&c);
    place_wait(&c.place, "SELECT count(*) FROM outbox", 0);
    crew_end(&c, worker);
    crew_fini(&c);
}

TEST(stop_lets_what_has_begun_finish) /* B14 */
{
    struct crew c;
    int status;
    crew_init(&c, &long_lease);
    place_send(&c.place, NULL, "deaf", NULL, 20);
    pid_t worker = crew_work(&c);
    crew_wait_lines(&c, "history", "S ", "", 4);
    kill(worker, SIGTERM);
    CHECK_EQ(crew_reap(&c, PR_MILLISECONDS(50), &status), 0); /* it waits for its handlers */
    crew_touch(&c, "open-deaf");
    CHECK_EQ(crew_wait(&c, worker, PR_SECONDS(10)), 0);

    int began = crew_lines(&c, "history", "S ", "");
    CHECK(began < 20);
    CHECK_EQ(place_int(&c.place, "SELECT count(*) FROM postrider_done"), began);
    CHECK_EQ(place_int(&c.place, "SELECT count(*) FROM outbox WHERE attempts = 0"), 20 - began);
    crew_fini(&c);
}

TEST(stop_ends_in_time_though_a_handler_does_not) /* B14, I16 */
{
    struct crew c;
    crew_init(&c, &short_stop);
    place_send(&c.place, NULL, "loop", NULL, 1);
    pid_t worker = crew_work(&c);
    crew_wait_lines(&c, "history", "S ", "", 1);
    place_send(&c.place, NULL, "gate", NULL, 50);
    crew_wait_lines(&c, "history", "S ", "", 4);
    kill(worker, SIGTERM);
    int status = crew_wait(&c, worker, PR_SECONDS(10));

    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 4); /* it says that something was left */
    CHECK_EQ(place_int(&c.place, "SELECT attempts FROM outbox WHERE type = 'loop'"), 1); /* what ran on counts ... */
    CHECK_EQ(place_int(&c.place, "SELECT sum(attempts) FROM outbox WHERE type = 'gate'"),
             0); /* ... nothing else does */
    CHECK_EQ(place_int(&c.place, "SELECT count(*) FROM postrider_claim"), 0);
    crew_fini(&c);
}

/* The stand-by need not wait for the end of a lease after a stop. */
TEST(standby_goes_on_at_once_after_a_stop) /* B14, B24 */
{
    struct crew c;
    pid_t owner, standby;
    crew_init(&c, &long_lease);
    start_pair(&c, &owner, &standby);
    crew_end(&c, owner);
    place_send(&c.place, NULL, "ok", "one", 10);
    place_wait(&c.place, "SELECT count(*) FROM outbox", 0);
    crew_end(&c, standby);
    crew_fini(&c);
}
