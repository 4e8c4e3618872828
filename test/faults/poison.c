/* Messages that kill the process that handles them, under a supervisor that starts it again. */
#include <string.h>

#include "crew.h"

#define MAX_ATTEMPTS 5
#define RESTARTS_MAX 60

static const struct crew_setting setting = { .root = "lease: 1s\nboxes: {outbox: {keep: 1h}}\n",
                                             .endpoint = "timeout: 60s, retry: [5ms, 5ms], max_attempts: 5" };

/* Start the worker whenever it has died, until nothing waits.  How often it died. */
static int supervise(struct crew *c)
{
    pid_t worker = crew_work(c);
    int deaths = 0, status;
    int64_t deadline_us = test_now_us() + PR_SECONDS(60);
    while (place_int(&c->place, "SELECT count(*) FROM outbox") > 0) {
        if (test_now_us() > deadline_us)
            check_fail(__FILE__, __LINE__, "%lld still wait",
                       (long long)place_int(&c->place, "SELECT count(*) FROM outbox"));
        if (crew_reap(c, PR_MILLISECONDS(20), &status) == 0)
            continue;
        CHECK(++deaths <= RESTARTS_MAX);
        worker = crew_work(c);
    }
    crew_end(c, worker);
    return deaths;
}

/* The one that kills: all its hand-outs happened, and it died of the sixth. */
static void check_guilty(const struct crew *c, const char *type)
{
    char sql[512];
    snprintf(
        sql, sizeof sql,
        "SELECT count(*) FROM postrider_dead_letter WHERE type = '%s' AND cause = 7 AND attempts = 6 AND failures = 0"
        " AND limit_reached = 5 AND CAST(payload AS TEXT) = '1' AND (SELECT count(*) FROM json_each(story)"
        " WHERE json_extract(value, '$.step') = 'lost' AND json_extract(value, '$.instance') <> ''"
        " AND json_extract(value, '$.attempt') = key + 1) = 5",
        type); /* B41, B47 */
    CHECK_EQ(place_int(&c->place, sql), 1);
    CHECK_EQ(place_int(&c->place, "SELECT count(*) FROM postrider_dead_letter"), 1);
}

/* Hand-outs that reached the handler and never came back, of one stream. */
static int begun(const struct crew *c, const char *stream)
{
    char word[64];
    snprintf(word, sizeof word, " %s ", stream);
    return crew_lines(c, "history", "S ", word);
}

TEST(segfault_among_a_thousand_kills_only_its_own_message) /* B40, B41, B42 */
{
    struct crew c;
    crew_init(&c, &setting);
    place_send(&c.place, NULL, "ok", NULL, 400);
    place_send(&c.place, NULL, "crash", "guilty", 1);
    place_send(&c.place, NULL, "ok", NULL, 599);
    int deaths = supervise(&c);

    CHECK_EQ(begun(&c, "guilty"), MAX_ATTEMPTS); /* processed at the 5th, not at the 6th */
    CHECK_EQ(deaths, MAX_ATTEMPTS);
    check_guilty(&c, "crash");
    CHECK_EQ(place_int(&c.place, "SELECT count(DISTINCT id) FROM postrider_done"), 999);
    int ends = crew_lines(&c, "history", "E ", " ok ");
    CHECK(ends >= 999);
    printf("# 999 innocent messages ended %d times in %d processes\n", ends, deaths + 1);
    crew_fini(&c);
}

TEST(segfault_in_a_stream_lets_its_followers_go_on) /* B42, B52 */
{
    struct crew c;
    crew_init(&c, &setting);
    for (int i = 0; i < 20; i++) {
        char stream[16];
        snprintf(stream, sizeof stream, "s%d", i);
        place_send(&c.place, NULL, "ok", stream, 5);
        if (i == 7)
            place_send(&c.place, NULL, "crash", stream, 1);
        place_send(&c.place, NULL, "ok", stream, 5);
    }
    CHECK_EQ(supervise(&c), MAX_ATTEMPTS);
    check_guilty(&c, "crash");
    CHECK_EQ(place_int(&c.place, "SELECT count(*) FROM postrider_dead_letter WHERE stream = 's7' AND seq > 0"), 1);
    CHECK_EQ(place_int(&c.place, "SELECT count(DISTINCT id) FROM postrider_done"), 200);
    crew_fini(&c);
}

/* Two of them: each reaches its own limit. */
TEST(two_that_kill_are_both_found) /* B42 */
{
    struct crew c;
    crew_init(&c, &setting);
    place_send(&c.place, NULL, "ok", NULL, 50);
    place_send(&c.place, NULL, "crash", "first", 1);
    place_send(&c.place, NULL, "ok", NULL, 50);
    place_send(&c.place, NULL, "crash", "second", 1);
    place_send(&c.place, NULL, "ok", NULL, 50);
    CHECK(supervise(&c) <= 2 * MAX_ATTEMPTS);
    CHECK(begun(&c, "first") <= MAX_ATTEMPTS);
    CHECK(begun(&c, "second") <= MAX_ATTEMPTS);
    CHECK_EQ(
        place_int(&c.place,
                  "SELECT count(*) FROM postrider_dead_letter WHERE type = 'crash' AND cause = 7 AND attempts = 6"),
        2);
    CHECK_EQ(place_int(&c.place, "SELECT count(*) FROM postrider_dead_letter"), 2);
    CHECK_EQ(place_int(&c.place, "SELECT count(DISTINCT id) FROM postrider_done"), 150);
    crew_fini(&c);
}

TEST(endless_loop_ends_the_process_and_counts) /* B40, B41 */
{
    struct crew c;
    crew_init(&c, &(struct crew_setting){ .root = "lease: 1s\nboxes: {outbox: {keep: 1h}}\n",
                                          .endpoint = "timeout: 20ms, retry: [5ms, 5ms], max_attempts: 2" });
    place_send(&c.place, NULL, "ok", NULL, 30);
    place_send(&c.place, NULL, "loop", "guilty", 1);
    place_send(&c.place, NULL, "ok", NULL, 30);
    CHECK_EQ(supervise(&c), 2);
    CHECK_EQ(begun(&c, "guilty"), 2);
    CHECK_EQ(crew_lines(&c, "log", "handler_overran", "type=loop"), 2);
    CHECK_EQ(place_int(&c.place, "SELECT count(*) FROM postrider_dead_letter WHERE type = 'loop' AND cause = 7 AND "
                                 "attempts = 3 AND failures = 0"
                                 " AND limit_reached = 2"),
             1);
    CHECK_EQ(place_int(&c.place, "SELECT count(*) FROM postrider_dead_letter"), 1);
    CHECK_EQ(place_int(&c.place, "SELECT count(DISTINCT id) FROM postrider_done"), 60);
    crew_fini(&c);
}
