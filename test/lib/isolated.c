/* isolation: process: a handler that crashes, hangs or exits costs its message an attempt, and affects no other. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdatomic.h>

#include "place.h"

#define WAIT_US PR_SECONDS(90)
#define SHORT ", timeout: 2s"
#define LONG ", timeout: 60s" /* nothing hangs, and a machine may be slow: a sanitizer looks for leaks in what exits */

/* Memory that the helpers have, too: what they did. */
struct seen {
    atomic_int calls, pid, parent, stops;
    atomic_int found;    /* descriptors of `other_path` */
    atomic_bool is_calm; /* nobody misbehaves any more */
};

static struct seen *seen_new(void)
{
    struct seen *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(s != MAP_FAILED);
    return s;
}

static const char *database; /* of the handler that completes by itself */

static char other_path[300]; /* of the store of another engine */

/* Descriptors of this process that are open on it. */
static int count_others(void)
{
    int count = 0;
    for (int fd = 0; fd < 1000; fd++) {
        char name[32], path[4096];
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        ssize_t size = readlink(name, path, sizeof path - 1);
        path[size > 0 ? size : 0] = '\0';
        count += strstr(path, other_path) != NULL;
    }
    return count;
}

static int complete(struct pr_context *context, const struct pr_message *m)
{
    struct pr_error error = { 0 };
    sqlite3 *db;
    if (sqlite3_open(database, &db) != SQLITE_OK || sqlite3_busy_timeout(db, 10000) != SQLITE_OK ||
        sqlite3_exec(db, "CREATE TABLE IF NOT EXISTS mine (x); BEGIN IMMEDIATE; INSERT INTO mine VALUES (1)", NULL,
                     NULL, NULL) != SQLITE_OK)
        return pr_fail(context, PR_REASON_UNKNOWN, "%s", sqlite3_errmsg(db));
    int rc = pr_complete_sqlite(context, db, &error);
    if (rc == PR_OK)
        rc = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK ? PR_SETTLED : PR_EUNCERTAIN;
    else
        rc = pr_fail(context, PR_REASON_UNKNOWN, "%s", error.text);
    sqlite3_close(db);
    (void)m;
    return rc;
}

/* A descriptor that was closed and is used all the same: what is written there comes to the program. */
static void write_anywhere(void)
{
    for (int fd = 3; fd < 1000; fd++)
        (void)!send(fd, "this is no result\n", 18, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Its payload says what it does. */
static int handle(struct pr_context *context, const struct pr_message *m, void *user)
{
    struct seen *s = user;
    char what[32];
    snprintf(what, sizeof what, "%.*s", (int)m->payload.size, m->payload.data);
    s->calls++;
    s->pid = (int)getpid();
    s->parent = (int)getppid();
    if (other_path[0] != '\0')
        s->found = count_others();
    if (strcmp(what, "\"complete\"") == 0)
        return complete(context, m);
    while (strcmp(what, "\"wait\"") == 0 && !s->is_calm)
        usleep(1000);
    if (s->is_calm)
        return PR_OK;
    if (strcmp(what, "\"crash\"") == 0)
        raise(SIGSEGV);
    if (strcmp(what, "\"exit\"") == 0)
        exit(3);
    if (strcmp(what, "\"garbage\"") == 0)
        write_anywhere();
    if (strcmp(what, "\"fail\"") == 0) {
        pr_release_followers(context);
        return pr_fail_retry_after(context, PR_REASON_RATE_LIMITED, PR_SECONDS(3600), "slow down, %s", "please");
    }
    if (strcmp(what, "\"stop\"") == 0) {
        while (!pr_should_stop(context))
            usleep(1000);
        s->stops++;
        return PR_FAILED;
    }
    if (strcmp(what, "\"hang\"") == 0)
        for (;;)
            pause();
    struct pr_message more = { .type = PR_STR("more"),
                               .payload = PR_BYTES("\0\1\2", 3),
                               .headers = PR_STR("{\"a\":1}") };
    struct pr_message event = { .type = PR_STR("counted"), .stream = PR_STR("s-1"), .payload = PR_STR("1") };
    struct pr_error error;
    if (pr_effect_send(context, &more) != PR_OK || pr_effect_append(context, &event, PR_ANY_VERSION, &error) != PR_OK ||
        pr_effect_set(context, PR_STR("scope"), PR_STR("name"), PR_STR("value"), &error) != PR_OK)
        return PR_FAILED;
    pr_reached(context, 1 << 9);
    return PR_OK;
}

static struct pr_engine *begin(const struct place *p, struct seen *s, const char *more)
{
    char config[1024];
    struct pr_error error = { 0 };
    snprintf(config, sizeof config,
             "store: \"%s\"\nendpoints:\n  work: {url: \"handler:work\", isolation: process, retry: {delays: "
             "[1h]}%s}\n",
             p->url, more);
    struct pr_engine *engine = pr_engine_new(config, &error);
    if (engine == NULL)
        check_fail(__FILE__, __LINE__, "%s", error.text);
    CHECK_EQ(pr_engine_handle_named(engine, "work", handle, s), PR_OK);
    CHECK_OK(pr_engine_start(engine, &error), &error);
    return engine;
}

static void send_one(const struct place *p, const char *what, const char *stream)
{
    char sql[300];
    snprintf(sql, sizeof sql,
             "INSERT INTO outbox (type, destination, stream, payload) VALUES ('t', 'work', nullif('%s', ''), '\"%s\"')",
             stream, what);
    place_do(p, sql);
}

static void end(struct pr_engine *engine, struct place *p, struct seen *s)
{
    pr_engine_free(engine);
    munmap(s, sizeof *s);
    place_fini(p);
}

TEST(isolated_handlers_run_elsewhere_and_their_effects_are_stored_here) /* B93 */
{
    struct place p;
    struct seen *s = seen_new();
    place_init(&p);
    struct pr_engine *engine = begin(&p, s, LONG);
    send_one(&p, "good", "");
    place_wait(&p, "SELECT count(*) FROM outbox WHERE type = 'more' AND payload = x'000102' AND headers = '{\"a\":1}'",
               1);
    place_wait(&p, "SELECT count(*) FROM outbox WHERE type = 't'", 0);
    CHECK(s->pid != 0 && s->pid != (int)getpid());
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM postrider_event WHERE stream = 's-1' AND version = 1"), 1);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM postrider_flow_state WHERE key = 'name'"), 1);
    int first = s->pid;
    send_one(&p, "good", "");
    place_wait(&p, "SELECT count(*) FROM outbox WHERE type = 'more'", 2);
    CHECK_EQ(s->pid, first); /* it is kept */
    end(engine, &p, s);
}

TEST(isolated_failures_say_what_the_handler_said)
{
    struct place p;
    struct seen *s = seen_new();
    place_init(&p);
    struct pr_engine *engine = begin(&p, s, LONG);
    send_one(&p, "fail", "a");
    place_wait(&p, "SELECT count(*) FROM outbox WHERE error = 'slow down, please' AND failures = 1", 1);
    send_one(&p, "good", "a"); /* its followers were released, and come themselves */
    place_wait(&p, "SELECT count(*) FROM outbox WHERE type = 'more'", 1);
    end(engine, &p, s);
}

TEST(isolated_crash_is_a_failure_of_its_message_and_the_next_one_has_a_new_process)
{
    struct place p;
    struct seen *s = seen_new();
    place_init(&p);
    struct pr_engine *engine = begin(&p, s, LONG);
    send_one(&p, "crash", "");
    place_wait(&p,
               "SELECT count(*) FROM outbox WHERE code = 'signal 11' AND failures = 1 AND failure_reason = (SELECT "
               "failure_reason FROM outbox WHERE error LIKE 'the handler''s process was killed by signal 11%')",
               1);
    int first = s->pid;
    send_one(&p, "exit", "");
    place_wait(&p, "SELECT count(*) FROM outbox WHERE code = 'exit 3' AND failures = 1", 1);
    CHECK(s->pid != first);
    send_one(&p, "good", "");
    place_wait(&p, "SELECT count(*) FROM outbox WHERE type = 'more'", 1);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox WHERE type = 't'"), 2);
    end(engine, &p, s);
}

TEST(isolated_crashes_in_a_row_are_started_again_after_a_pause_that_grows)
{
    struct place p;
    struct seen *s = seen_new();
    place_init(&p);
    struct pr_engine *engine = begin(&p, s, LONG);
    int64_t begin_us = test_now_us();
    for (int i = 0; i < 5; i++)
        send_one(&p, "crash", "");
    place_wait(&p, "SELECT count(*) FROM outbox WHERE failures = 1", 5);
    CHECK(test_now_us() - begin_us >= PR_MILLISECONDS(100 + 200 + 400 + 800));
    CHECK_EQ(s->calls, 5);
    end(engine, &p, s);
}

/* The thread whose process crashed has waited longer, and must not be the only one to hear of a message. */
TEST(isolated_message_does_not_wait_for_a_process_that_pauses_while_another_is_idle) /* B93 */
{
    enum { CRASHES = 6 }; /* the pause is 3.2 s then */
    struct place p;
    struct seen *s = seen_new();
    place_init(&p);
    struct pr_engine *engine = begin(&p, s, LONG ", concurrency: 2");
    send_one(&p, "wait", "");
    for (int64_t until_us = test_now_us() + WAIT_US; s->pid == 0; test_pause())
        CHECK(test_now_us() < until_us);
    int first = s->pid;
    for (int i = 1; i <= CRASHES; i++) {
        send_one(&p, "crash", "");
        place_wait(&p, "SELECT count(*) FROM outbox WHERE failures = 1", i);
    }
    CHECK(s->pid != first);
    s->is_calm = true;
    place_wait(&p, "SELECT count(*) FROM outbox", CRASHES);
    send_one(&p, "good", "");
    place_wait(&p, "SELECT count(*) FROM outbox", CRASHES);
    CHECK_EQ(s->calls, CRASHES + 2);
    CHECK_EQ(s->pid, first);
    end(engine, &p, s);
}

TEST(isolated_process_that_dies_without_a_message_costs_none_an_attempt)
{
    struct place p;
    struct seen *s = seen_new();
    place_init(&p);
    struct pr_engine *engine = begin(&p, s, LONG);
    for (int i = 1; i <= 3; i++) {
        send_one(&p, "good", "");
        place_wait(&p, "SELECT count(*) FROM outbox WHERE type = 'more'", i);
        CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox WHERE failures > 0"), 0);
        place_wait(&p, "SELECT count(*) FROM outbox WHERE type = 't'", 0);
        CHECK_EQ(kill(s->pid, SIGKILL), 0);
        usleep(100000);
    }
    CHECK_EQ(s->calls, 3);
    end(engine, &p, s);
}

TEST(isolated_handler_that_writes_where_it_should_not_fails_its_message_only) /* B206 */
{
    struct place p;
    struct seen *s = seen_new();
    place_init(&p);
    struct pr_engine *engine = begin(&p, s, SHORT);
    send_one(&p, "garbage", "");
    place_wait(&p, "SELECT count(*) FROM outbox WHERE type = 't' AND failures = 1", 1);
    send_one(&p, "good", "");
    place_wait(&p, "SELECT count(*) FROM outbox WHERE type = 'more'", 1);
    end(engine, &p, s);
}

TEST(isolated_engines_of_one_program_end_in_any_order)
{
    struct place p, q;
    struct seen *s = seen_new(), *t = seen_new();
    place_init(&p);
    place_init(&q);
    struct pr_engine *first = begin(&p, s, LONG), *second = begin(&q, t, LONG);
    send_one(&p, "good", "");
    place_wait(&p, "SELECT count(*) FROM outbox WHERE type = 'more'", 1);
    end(first, &p, s);
    send_one(&q, "good", "");
    place_wait(&q, "SELECT count(*) FROM outbox WHERE type = 'more'", 1);
    end(second, &q, t);
}

static bool is_alive(int pid)
{
    return kill(pid, 0) == 0;
}

static void wait_until_gone(int pid)
{
    for (int64_t until_us = test_now_us() + PR_SECONDS(60); is_alive(pid); test_pause())
        CHECK(test_now_us() < until_us);
}

TEST(isolated_processes_that_make_helpers_are_replaced_when_they_die) /* B93 */
{
    struct place p;
    struct seen *s = seen_new();
    place_init(&p);
    struct pr_engine *engine = begin(&p, s, ", timeout: 60s");
    int failed = 0, made = 0, parents[8];
    for (int i = 0; i < 8; i++) {
        bool is_busy = i % 2 == 1;
        int calls = s->calls;
        send_one(&p, is_busy ? "hang" : "good", "");
        for (int64_t until_us = test_now_us() + PR_SECONDS(60); s->calls == calls; test_pause())
            CHECK(test_now_us() < until_us);
        made += !is_busy;
        place_wait(&p, "SELECT count(*) FROM outbox WHERE type = 'more'", made);
        parents[i] = s->parent;
        CHECK(parents[i] != (int)getpid() && (i == 0 || parents[i] != parents[i - 1]));
        int helper = s->pid;
        CHECK_EQ(kill(parents[i], SIGKILL), 0);
        wait_until_gone(helper); /* with its parent */
        failed += is_busy;       /* what was in it counts; others do not */
        place_wait(&p, "SELECT count(*) FROM outbox WHERE code = 'gone' AND failures = 1", failed);
        CHECK_EQ(place_int(&p, "SELECT sum(failures) FROM outbox"), failed);
    }
    send_one(&p, "good", "");
    place_wait(&p, "SELECT count(*) FROM outbox WHERE type = 'more'", made + 1);
    int last = s->parent, helper = s->pid;
    end(engine, &p, s);
    wait_until_gone(last);
    wait_until_gone(helper);
}

TEST(isolated_handlers_of_a_second_engine_have_no_descriptor_of_the_first)
{
    struct place p, q;
    struct seen *s = seen_new(), *t = seen_new();
    place_init(&p);
    place_init(&q);
    struct pr_engine *first = begin(&p, s, LONG);
    send_one(&p, "good", "");
    place_wait(&p, "SELECT count(*) FROM outbox WHERE type = 'more'", 1);
    snprintf(other_path, sizeof other_path, "%s", p.path);
    CHECK(count_others() > 0); /* the program has them */
    t->found = -1;
    struct pr_engine *second = begin(&q, t, LONG);
    send_one(&q, "good", "");
    place_wait(&q, "SELECT count(*) FROM outbox WHERE type = 'more'", 1);
    CHECK_EQ(t->found, 0);
    other_path[0] = '\0';
    end(second, &q, t);
    end(first, &p, s);
}

TEST(isolated_handler_that_does_not_stop_is_killed_and_the_program_lives)
{
    struct place p;
    struct seen *s = seen_new();
    place_init(&p);
    struct pr_engine *engine = begin(&p, s, SHORT);
    send_one(&p, "hang", "");
    place_wait(&p, "SELECT count(*) FROM outbox WHERE code = 'killed' AND failures = 1", 1);
    int hung = s->pid;
    CHECK_EQ(kill(hung, 0), -1); /* it is gone */
    send_one(&p, "stop", "");    /* this one looks, and returns in time */
    place_wait(&p, "SELECT count(*) FROM outbox WHERE failures = 1 AND coalesce(code, '') <> 'killed'", 1);
    CHECK_EQ(s->stops, 1);
    send_one(&p, "good", "");
    place_wait(&p, "SELECT count(*) FROM outbox WHERE type = 'more'", 1);
    end(engine, &p, s);
}

TEST(isolated_handlers_that_run_when_the_engine_stops_are_asked_to_and_nothing_is_counted) /* B38 */
{
    struct place p;
    struct seen *s = seen_new();
    place_init(&p);
    struct pr_engine *engine = begin(&p, s, SHORT ", concurrency: 2");
    CHECK_EQ(pr_engine_stop(engine, WAIT_US), PR_OK);
    pr_engine_free(engine);
    engine = begin(&p, s, ", concurrency: 2, timeout: 60s");
    send_one(&p, "stop", "");
    send_one(&p, "stop", "");
    for (int64_t until_us = test_now_us() + WAIT_US; s->calls < 2; test_pause())
        CHECK(test_now_us() < until_us);
    CHECK_EQ(pr_engine_stop(engine, WAIT_US), PR_OK);
    CHECK_EQ(s->stops, 2);
    CHECK_EQ(place_int(&p, "SELECT sum(failures) FROM outbox"), 0);
    end(engine, &p, s);
}

TEST(isolated_handlers_complete_their_messages_in_their_own_transaction) /* B93 */
{
    struct place p;
    struct seen *s = seen_new();
    place_init(&p);
    database = p.path;
    struct pr_engine *engine = begin(&p, s, ", timeout: 20s");
    for (int i = 0; i < 5; i++)
        send_one(&p, "complete", "");
    place_wait(&p, "SELECT count(*) FROM outbox", 0);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM mine"), 5);
    end(engine, &p, s);
}

TEST(isolation_needs_a_handler_and_is_refused_elsewhere)
{
    struct pr_error error = { 0 };
    struct place p;
    char config[512];
    place_init(&p);
    snprintf(config, sizeof config, "store: \"%s\"\nendpoints:\n  a: {url: \"null:\", isolation: process}\n", p.url);
    struct pr_engine *engine = pr_engine_new(config, &error);
    CHECK(engine != NULL);
    CHECK_EQ(pr_engine_start(engine, &error), PR_ECONFIG);
    CHECK_STR(error.text, "endpoint a: isolation: process needs a url handler:NAME, and mode durable");
    pr_engine_free(engine);
    place_fini(&p);
}
