/* The runtime as the program uses it: start, health, trouble, reload, stop. */
#include "runtime/program.h"
#include "runtime/runtime.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../lib/place.h"
#include "base/util.h"
#include "ops/api/http_front.h"
#include "base/address.h"

#define WAIT_US PR_SECONDS(90)

static struct config *load(const struct place *p, const char *options, const char *more)
{
    char text[2048];
    struct config *config;
    struct pr_error error;
    snprintf(text, sizeof text, "store: \"%s%s\"\n%s", p->url, options, more);
    CHECK_OK(config_load_text(pr_str(text), "test", &config, &error), &error);
    return config;
}

static struct runtime *make(const struct place *p, const char *options, const char *more)
{
    struct pr_error error;
    struct runtime *rt =
        runtime_new(load(p, options, more), &(struct runtime_options){ .front = &ops_http_front }, &error);
    CHECK(rt != NULL);
    return rt;
}

static void start(struct runtime *rt)
{
    struct pr_error error;
    CHECK_OK(runtime_start(rt, &error), &error);
}

static void drain(struct runtime *rt)
{
    struct pr_error error;
    CHECK_OK(runtime_drain(rt, WAIT_US, &error), &error);
}

static void wait_ready(struct runtime *rt, bool wanted)
{
    struct pr_error error;
    int64_t deadline_us = test_now_us() + WAIT_US;
    while ((runtime_is_ready(rt, &error) == PR_OK) != wanted) {
        if (test_now_us() > deadline_us)
            check_fail(__FILE__, __LINE__, "not %s after 90 s: %s", wanted ? "ready" : "in trouble", error.text);
        test_pause();
    }
}

#define EVERY_OUTBOX                                                                                                   \
    (pr_slice)                                                                                                         \
    {                                                                                                                  \
        NULL, 0                                                                                                        \
    }
#define TO_NULL "endpoints: {e: {url: \"null:\"}}\nroutes: [{to: e}]\n"

/* ---- Start ---------------------------------------------------------------------------------- */

TEST(start_without_tables_says_what_to_do)
{
    struct place p;
    struct pr_error error;
    place_init_empty(&p);
    struct runtime *rt = make(&p, "", TO_NULL);
    CHECK_EQ(runtime_start(rt, &error), PR_ESCHEMA);
    CHECK(strstr(error.text, "init") != NULL);
    runtime_free(rt);
    place_fini(&p);
}

TEST(start_refuses_a_schema_of_the_future)
{
    struct place p;
    struct pr_error error;
    place_init(&p);
    place_do(&p, "UPDATE postrider_meta SET value = 9999 WHERE key = 'schema_version'");
    struct runtime *rt = make(&p, "", TO_NULL);
    CHECK_EQ(runtime_start(rt, &error), PR_ESCHEMA);
    runtime_free(rt);
    place_fini(&p);
}

TEST(a_box_that_nobody_uses_has_no_session)
{
    static const struct {
        const char *config;
        int sessions;
    } table[] = {
        { TO_NULL, 1 },
        { TO_NULL "boxes: {inbox: {}}\n", 2 },
        { "endpoints: {e: {url: \"null:\"}}\nroutes: [{to: e}, {box: inbox, to: e}]\n", 2 },
    };
    for (size_t i = 0; i < ARRAY_LENGTH(table); i++) {
        struct place p;
        place_init(&p);
        struct runtime *rt = make(&p, "", table[i].config);
        start(rt);
        drain(rt); /* all have joined */
        CHECK_EQ(place_int(&p, "SELECT count(*) FROM postrider_instance"), table[i].sessions);
        CHECK_EQ(place_int(&p, "SELECT count(*) FROM postrider_instance WHERE box = 'outbox'"), 1);
        CHECK_EQ(runtime_stop(rt, PR_SECONDS(10)), PR_OK);
        runtime_free(rt);
        place_fini(&p);
    }
}

TEST(runtime_works_all_boxes_and_counts)
{
    struct place p;
    struct pr_engine_counts counts;
    place_init(&p);
    place_send(&p, NULL, "t", NULL, 50);
    place_send(&p, "inbox", "t", NULL, 50);
    struct runtime *rt = make(&p, "", "endpoints: {e: {url: \"null:\"}}\nroutes: [{to: e}, {box: inbox, to: e}]\n");
    start(rt);
    drain(rt);
    runtime_counts(rt, &counts);
    CHECK_EQ(counts.sent, 100);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox"), 0);
    CHECK_EQ(runtime_stop(rt, PR_SECONDS(10)), PR_OK);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM postrider_instance"), 0);
    runtime_free(rt);
    place_fini(&p);
}

static atomic_int shaky_calls;

static int shaky(struct pr_context *context, const struct pr_message *message, void *user)
{
    (void)message, (void)user;
    shaky_calls++;
    return pr_fail(context, PR_REASON_REJECTED, "no thanks");
}

TEST(status_shows_endpoints_failures_and_deaths)
{
    struct place p;
    struct arena arena;
    struct runtime_status status;
    place_init(&p);
    place_send(&p, NULL, "bad", NULL, 1);
    place_send(&p, NULL, "good", NULL, 2);
    struct runtime *rt = make(&p, "",
                              "endpoints:\n"
                              "  e: {url: \"null:\"}\n"
                              "  shaky: {url: \"handler:bad\", retry: [1ms]}\n"
                              "routes: [{to: e}]\n");
    CHECK_EQ(program_add_handler(runtime_program(rt), EVERY_OUTBOX, PR_STR("bad"), shaky, NULL), PR_OK);
    start(rt);
    place_wait(&p, "SELECT count(*) FROM postrider_dead_letter", 1);
    drain(rt);

    arena_init(&arena, 4096);
    CHECK_EQ(runtime_status(rt, &arena, &status), PR_OK);
    CHECK(status.ready);
    CHECK_STR(status.trouble, "");
    CHECK_EQ(status.endpoint_count, 2);
    CHECK_STR(status.endpoints[0].name, "e");
    CHECK_EQ(status.endpoints[0].sent, 2);
    CHECK_STR(status.endpoints[1].name, "shaky");
    CHECK_EQ(status.endpoints[1].failed, 2);
    CHECK_EQ(status.failure_count, 2);
    CHECK_EQ(status.death_count, 1);
    CHECK_STR(status.failures[1].step, "retry");
    CHECK(status.failures[1].next_us > 0);
    CHECK_STR(status.deaths[0].step, "dead_letter");
    CHECK_STR(status.deaths[0].error, "no thanks");
    CHECK_STR(status.deaths[0].endpoint, "shaky");
    CHECK_EQ(status.counts.dead, 1);
    arena_fini(&arena);
    runtime_free(rt);
    place_fini(&p);
}

static atomic_int busy_now, busy_most, busy_calls;

/* It is ill at first, so that its breaker opens and is probed, and slow enough that calls overlap. */
static int busy(struct pr_context *context, const struct pr_message *message, void *user)
{
    int now = atomic_fetch_add(&busy_now, 1) + 1, most = atomic_load(&busy_most);
    (void)message, (void)user;
    while (now > most && !atomic_compare_exchange_weak(&busy_most, &most, now))
        ;
    bool ill = atomic_fetch_add(&busy_calls, 1) < 6;
    usleep(500);
    atomic_fetch_sub(&busy_now, 1);
    return ill ? pr_fail(context, PR_REASON_TRANSPORT_UNAVAILABLE, "not yet") : PR_OK;
}

/* Two box loops, each with a transport of its own, meet at the limits of one endpoint (ADR 63): the sanitizer for threads
 * looks on in ./dev test full. */
TEST(two_boxes_share_rate_concurrency_and_breaker_of_an_endpoint)
{
    struct place p;
    struct pr_engine_counts counts;
    place_init(&p);
    place_send(&p, NULL, "t", NULL, 300);
    place_send(&p, "inbox", "t", NULL, 300);
    struct runtime *rt = make(&p, "",
                              "endpoints:\n"
                              "  e: {url: \"handler:t\", concurrency: 3, rate: 2000/s, retry: [10ms, 10ms],\n"
                              "      breaker: {after: 2, open: 20ms, cap: 20ms}}\n"
                              "routes: [{to: e}, {box: inbox, to: e}]\n");
    busy_now = busy_most = busy_calls = 0;
    CHECK_EQ(program_add_handler(runtime_program(rt), EVERY_OUTBOX, PR_STR("t"), busy, NULL), PR_OK);
    start(rt);
    place_wait(&p, "SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM inbox)",
               0); /* also those that are due later */
    runtime_counts(rt, &counts);
    CHECK_EQ(counts.sent, 600);
    CHECK(busy_most > 1 && busy_most <= 3);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM postrider_dead_letter"), 0);
    CHECK_EQ(runtime_stop(rt, PR_SECONDS(10)), PR_OK);
    runtime_free(rt);
    place_fini(&p);
}

/* ---- Trouble ----------------------------------------------------------------------------------- */

TEST(locked_store_is_told_and_waited_for)
{
    struct place p;
    struct pr_error error;
    struct pr_engine_counts counts;
    place_init(&p);
    struct runtime *rt = make(&p, "?busy=20ms", TO_NULL);
    start(rt);
    wait_ready(rt, true);
    place_send(&p, NULL, "t", NULL, 1);
    drain(rt);

    sqlite3 *db = place_open(&p);
    CHECK_EQ(sqlite3_exec(db, "BEGIN IMMEDIATE; INSERT INTO outbox (type) VALUES ('t')", NULL, NULL, NULL), SQLITE_OK);
    place_wait(&p, "SELECT count(*) FROM outbox", 0); /* not committed yet */
    CHECK_EQ(sqlite3_exec(db, "COMMIT; BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    wait_ready(rt, false); /* it wants to write a receipt */
    CHECK_EQ(runtime_is_live(rt, &error), PR_OK);
    CHECK_EQ(runtime_is_ready(rt, &error), PR_EBUSY);
    CHECK_EQ(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    wait_ready(rt, true);
    drain(rt);
    runtime_counts(rt, &counts);
    CHECK_EQ(counts.sent, 2);
    sqlite3_close(db);
    runtime_free(rt);
    place_fini(&p);
}

TEST(store_that_is_not_ours_any_more_stops_the_runtime)
{
    struct place p;
    struct pr_error error;
    place_init(&p);
    struct runtime *rt = make(&p, "", TO_NULL);
    start(rt);
    wait_ready(rt, true);
    CHECK_EQ(runtime_fault(rt, &error), PR_OK);
    place_do(
        &p, "DROP VIEW IF EXISTS message; DROP TABLE inbox; DROP TABLE postrider_claim; DROP TABLE postrider_instance; "
            "INSERT INTO outbox (type) VALUES ('t')");

    struct pollfd fd = { .fd = runtime_fault_fd(rt), .events = POLLIN };
    CHECK_EQ(poll(&fd, 1, 20000), 1);
    CHECK(runtime_fault(rt, &error) < 0);
    CHECK(error.text[0] != '\0');
    CHECK(runtime_drain(rt, PR_SECONDS(5), &error) < 0);
    CHECK(runtime_is_ready(rt, &error) < 0);
    runtime_stop(rt, PR_SECONDS(5));
    runtime_free(rt);
    place_fini(&p);
}

/* ---- Reload -------------------------------------------------------------------------------------- */

TEST(reload_works_by_the_new_config) /* B18: what was parked goes on when the config knows it */
{
    struct place p;
    struct pr_error error;
    struct pr_engine_counts counts;
    place_init(&p);
    place_send(&p, NULL, "t", NULL, 3);
    struct runtime *rt = make(&p, "", "endpoints: {e: {url: \"null:\"}}\n");
    start(rt);
    place_wait(&p, "SELECT count(*) FROM outbox WHERE failure_reason = 9", 3);

    CHECK_OK(runtime_reload(rt, load(&p, "", TO_NULL), &error), &error);
    place_wait(&p, "SELECT count(*) FROM outbox", 0);
    drain(rt);
    runtime_counts(rt, &counts);
    CHECK_EQ(counts.sent, 3);
    CHECK_EQ(runtime_config(rt)->route_count, 1);
    runtime_free(rt);
    place_fini(&p);
}

TEST(reload_with_a_wrong_config_keeps_the_old_one) /* B203 */
{
    struct place p;
    struct pr_error error;
    place_init(&p);
    struct runtime *rt = make(&p, "", TO_NULL);
    start(rt);
    struct runtime *other = make(&p, "", "http: {listen: \"127.0.0.1:0\"}\n");
    char taken[128];
    start(other);
    snprintf(taken, sizeof taken, TO_NULL "http: {listen: \"127.0.0.1:%u\"}\n", runtime_http_port(other));
    struct config *wrong[] = { load(&p, "", "endpoints: {e: {url: \"handler:nobody\"}}\n"), load(&p, "", taken),
                               load(&p, ".missing", TO_NULL) };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK(runtime_reload(rt, wrong[i], &error) < 0);
        config_free(wrong[i]); /* still ours */
    }
    runtime_free(other);
    place_send(&p, NULL, "t", NULL, 3);
    drain(rt);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox"), 0);
    runtime_free(rt);
    place_fini(&p);
}

TEST(reload_under_load_loses_nothing)
{
    struct place p;
    struct pr_error error;
    struct pr_engine_counts counts;
    place_init(&p);
    place_send(&p, NULL, "t", "a", 200);
    struct runtime *rt = make(&p, "", TO_NULL);
    start(rt);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(runtime_reload(rt, load(&p, "", i % 2 == 0 ? TO_NULL "batch: 7\n" : TO_NULL), &error), &error);
        place_send(&p, NULL, "t", "a", 50);
    }
    drain(rt);
    runtime_counts(rt, &counts);
    CHECK_EQ(counts.sent, 350); /* over all of them, none twice */
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox"), 0);
    runtime_free(rt);
    place_fini(&p);
}

TEST(reload_keeps_what_is_in_memory_and_makes_new_boxes)
{
    struct pr_error error;
    struct pr_sender *sender;
    struct config *config;
    const struct pr_message m = { .type = PR_STR("t"), .due_us = PR_NEVER };
    CHECK_OK(config_load_text(PR_STR("store: \"memory:reload\"\n" TO_NULL), "test", &config, &error), &error);
    struct runtime *rt = runtime_new(config, &(struct runtime_options){ .migrate = true }, &error);
    CHECK(rt != NULL);
    start(rt);
    CHECK_OK(pr_sender_open("memory:reload", &sender, &error), &error);
    CHECK_OK(pr_sender_send(sender, NULL, &m, NULL, &error), &error);
    CHECK(pr_sender_send(sender, "ledger", &m, NULL, &error) < 0);
    CHECK_OK(
        config_load_text(PR_STR("store: \"memory:reload\"\nboxes: {ledger: {}}\n" TO_NULL), "test", &config, &error),
        &error);
    CHECK_OK(runtime_reload(rt, config, &error), &error);
    struct pr_message again = m;
    CHECK_OK(pr_sender_send(sender, "ledger", &again, NULL, &error), &error);
    drain(rt);
    pr_sender_close(sender);
    runtime_free(rt);
}

/* ---- A lost lease ------------------------------------------------------------------------------------ */

struct hold {
    atomic_int block, calls, stopped;
    bool deaf; /* it does not stop when it is told to */
};

static int hold(struct pr_context *context, const struct pr_message *message, void *user)
{
    (void)message;
    struct hold *h = user;
    h->calls++;
    while (h->block > 0 && (h->deaf || !pr_should_stop(context)))
        test_pause();
    if (h->deaf || !pr_should_stop(context))
        return PR_OK;
    h->block = 0;
    h->stopped++;
    return pr_fail(context, PR_REASON_UNKNOWN, "asked to stop");
}

#define SLOW_AND_FAST(fast, more)                                                                                      \
    "endpoints:\n  slow: {url: \"handler:slow\"}\n  fast: {" fast "}\n" more                                           \
    "routes: [{type: s, to: slow}, {type: f, to: fast}]\n"

TEST(reload_leaves_alone_what_has_not_changed) /* B203 */
{
    struct place p;
    struct hold h = { .block = 1 };
    struct pr_error error;
    struct pr_engine_counts counts;
    place_init(&p);
    struct runtime *rt = make(&p, "", SLOW_AND_FAST("url: \"null:\"", ""));
    CHECK_OK(program_add_named_handler(runtime_program(rt), PR_STR("slow"), hold, &h), &error);
    start(rt);
    place_send(&p, NULL, "s", "a", 2);
    place_wait(&p, "SELECT count(*) FROM postrider_in_flight", 1);
    CHECK_OK(runtime_reload(rt, load(&p, "", SLOW_AND_FAST("url: \"null:\"", "")), &error), &error);
    CHECK_OK(runtime_reload(rt, load(&p, "", SLOW_AND_FAST("url: \"null:\", timeout: 7s", "")), &error), &error);
    place_send(&p, NULL, "f", NULL, 3);
    place_wait(&p, "SELECT count(*) FROM outbox WHERE type = 'f'", 0);
    /* One that is new comes before the others. */
    CHECK_OK(runtime_reload(rt,
                            load(&p, "",
                                 "endpoints: {new: {url: \"null:\"}, fast: {url: \"null:\"}, slow: {url: "
                                 "\"handler:slow\"}}\nroutes: [{type: n, to: new}, {type: s, to: slow}]\n"),
                            &error),
             &error);
    place_send(&p, NULL, "n", NULL, 3);
    place_wait(&p, "SELECT count(*) FROM outbox WHERE type = 'n'", 0);
    CHECK_EQ(h.calls, 1);
    CHECK_EQ(h.stopped, 0);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM postrider_in_flight"), 1);
    h.block = 0;
    drain(rt);
    CHECK_EQ(h.calls, 2);
    runtime_counts(rt, &counts);
    CHECK_EQ(counts.sent, 8);
    CHECK_EQ(counts.failed, 0);
    CHECK_EQ(runtime_config(rt)->endpoint_count, 3);
    runtime_free(rt);
    place_fini(&p);
}

TEST(reload_does_not_send_to_a_new_endpoint_that_is_paused)
{
    struct place p;
    struct pr_error error;
    place_init(&p);
    place_do(&p, "INSERT INTO postrider_endpoint (name, paused_until) VALUES ('new', 9223372036854775807)");
    struct runtime *rt = make(&p, "", TO_NULL);
    start(rt);
    place_send(&p, NULL, "t", NULL, 1);
    drain(rt);
    CHECK_OK(runtime_reload(rt,
                            load(&p, "",
                                 "endpoints: {e: {url: \"null:\"}, new: {url: \"null:\"}}\n"
                                 "routes: [{type: n, to: new}, {type: t, to: e}]\n"),
                            &error),
             &error);
    place_send(&p, NULL, "n", NULL, 2);
    place_send(&p, NULL, "t", NULL, 2);
    place_wait(&p, "SELECT count(*) FROM outbox WHERE type = 't'", 0);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox"), 2);
    CHECK_OK(runtime_resume(rt, PR_STR("new"), &error), &error);
    place_wait(&p, "SELECT count(*) FROM outbox", 0);
    runtime_free(rt);
    place_fini(&p);
}

TEST(reload_by_which_an_endpoint_goes_parks_its_messages)
{
    struct place p;
    struct pr_error error;
    place_init(&p);
    struct runtime *rt = make(&p, "", SLOW_AND_FAST("url: \"null:\"", ""));
    struct hold h = { .block = 0 };
    CHECK_OK(program_add_named_handler(runtime_program(rt), PR_STR("slow"), hold, &h), &error);
    start(rt);
    CHECK_OK(runtime_reload(rt, load(&p, "", TO_NULL), &error), &error);
    place_do(&p, "INSERT INTO outbox (type, destination) VALUES ('s', 'slow')");
    place_wait(&p, "SELECT count(*) FROM outbox WHERE failure_reason = 9", 1);
    runtime_free(rt);
    place_fini(&p);
}

/* What a running relay follows without a stop: a request that is under way stays, and others go out meanwhile. */
TEST(reload_follows_rules_batch_retention_and_endpoints_that_go) /* B203 */
{
    static const char *const more[] = { "rules: [{when: {reason: timeout_exceeded}, then: [dead_letter]}]\n",
                                        "batch: 7\n",
                                        "retention: {dead: 30d}\n",
                                        "log: {level: debug}\n",
                                        "watch: {stuck: 7m}\n",
                                        "stop_timeout: 7s\n" };
    struct place p;
    struct hold h = { .block = 1 };
    struct pr_error error;
    char text[1024];
    place_init(&p);
    struct runtime *rt = make(&p, "", SLOW_AND_FAST("url: \"null:\"", "  other: {url: \"null:\"}\n"));
    CHECK_OK(program_add_named_handler(runtime_program(rt), PR_STR("slow"), hold, &h), &error);
    start(rt);
    place_send(&p, NULL, "s", "a", 1);
    place_wait(&p, "SELECT count(*) FROM postrider_in_flight", 1);
    for (size_t i = 0; i < ARRAY_LENGTH(more); i++) { /* `other` goes with the first, and is back with the last */
        snprintf(text, sizeof text, SLOW_AND_FAST("url: \"null:\"", "%s") "%s",
                 i + 1 == ARRAY_LENGTH(more) ? "  other: {url: \"null:\"}\n" : "", more[i]);
        int64_t asked = clock_mono_us(clock_system());
        CHECK_OK(runtime_reload(rt, load(&p, "", text), &error), &error);
        place_send(&p, NULL, "f", NULL, 2);
        place_wait(&p, "SELECT count(*) FROM outbox WHERE type = 'f'", 0);
        CHECK(clock_mono_us(clock_system()) - asked < PR_SECONDS(5)); /* a stop takes ten */
        CHECK_EQ(h.stopped, 0);
        CHECK_EQ(place_int(&p, "SELECT count(*) FROM postrider_in_flight"), 1);
    }
    h.block = 0;
    drain(rt);
    CHECK_EQ(h.calls, 1);
    runtime_free(rt);
    place_fini(&p);
}

static size_t shown_endpoints(struct runtime *rt)
{
    struct runtime_status status;
    struct arena arena;
    arena_init(&arena, 1024);
    CHECK_EQ(runtime_status(rt, &arena, &status), PR_OK);
    size_t count = status.endpoint_count;
    arena_fini(&arena);
    return count;
}

TEST(reload_takes_endpoints_away_and_brings_them_back_under_load) /* B18 */
{
    static const char with[] = "endpoints: {a: {url: \"null:\"}, b: {url: \"null:\"}, c: {url: \"null:\"}}\n"
                               "routes: [{type: a, to: a}, {type: b, to: b}, {type: c, to: c}]\n";
    static const char without[] = "endpoints: {c: {url: \"null:\"}, a: {url: \"null:\"}}\n"
                                  "routes: [{type: a, to: a}, {type: c, to: c}]\n";
    struct place p;
    struct pr_error error;
    place_init(&p);
    struct runtime *rt = make(&p, "", with);
    struct pr_sender *sender;
    CHECK_OK(pr_sender_open(p.url, &sender, &error), &error);
    start(rt);
    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < 10; k++) {
            sender_send(sender, NULL, "a", "s", 3);
            place_do(&p, "INSERT INTO outbox (type, stream, destination) VALUES ('x', 's', 'b')");
            sender_send(sender, NULL, "c", NULL, 3);
        }
        CHECK_OK(runtime_reload(rt, load(&p, "", i % 2 == 0 ? without : with), &error), &error);
        CHECK_EQ(shown_endpoints(rt), i % 2 == 0 ? 2 : 3);
        CHECK(runtime_pause(rt, PR_STR("b"), 0, PR_STR(""), &error) == (i % 2 == 0 ? PR_ENOTFOUND : PR_OK));
    }
    place_wait(&p, "SELECT count(*) FROM outbox", 0);
    CHECK_OK(runtime_reload(rt, load(&p, "", without), &error), &error);
    place_do(&p, "INSERT INTO outbox (type, destination) VALUES ('x', 'b')");
    place_wait(&p, "SELECT count(*) FROM outbox WHERE failure_reason = 9", 1);
    struct pr_engine_counts counts;
    runtime_counts(rt, &counts);
    CHECK_EQ(counts.sent, 20 * 10 * 7);
    CHECK_EQ(counts.failed, 0);
    pr_sender_close(sender);
    runtime_free(rt);
    place_fini(&p);
}

/* A reload that needs a stop gives up what does not end; nobody waits for it afterwards. */
TEST(stop_behind_a_reload_does_not_wait_for_what_that_gave_up)
{
    struct place p;
    struct hold h = { .block = 1, .deaf = true };
    struct pr_error error;
    place_init(&p);
    struct runtime *rt = make(&p, "", SLOW_AND_FAST("url: \"null:\"", "") "stop_timeout: 300ms\n");
    CHECK_OK(program_add_named_handler(runtime_program(rt), PR_STR("slow"), hold, &h), &error);
    start(rt);
    place_send(&p, NULL, "s", "a", 1);
    place_wait(&p, "SELECT count(*) FROM postrider_in_flight", 1);
    int64_t asked = clock_mono_us(clock_system());
    CHECK_OK(runtime_reload(rt, load(&p, "", SLOW_AND_FAST("url: \"null:\"", "") "stop_timeout: 300ms\nlease: 31s\n"),
                            &error),
             &error);
    place_send(&p, NULL, "f", NULL, 2);
    place_wait(&p, "SELECT count(*) FROM outbox WHERE type = 'f'", 0);
    CHECK_EQ(runtime_stop(rt, PR_MILLISECONDS(300)), PR_TIMEOUT);
    CHECK(clock_mono_us(clock_system()) - asked < PR_SECONDS(8));
    h.block = 0;
    runtime_free(rt);
    place_fini(&p);
}

TEST(reload_with_many_new_endpoints_and_many_times)
{
    struct place p;
    struct pr_error error;
    char text[2048];
    place_init(&p);
    struct runtime *rt = make(&p, "", TO_NULL);
    start(rt);
    for (int i = 0; i < 110; i++) {
        int n = i < 3 ? 1 : 40; /* more than can be added, and then no fewer */
        size_t at = (size_t)snprintf(text, sizeof text, "routes: [{type: t%d, to: n%d}]\nendpoints:\n", i, n - 1);
        for (int k = 0; k < n; k++)
            at += (size_t)snprintf(text + at, sizeof text - at, "  n%d: {url: \"null:\"}\n", k);
        snprintf(text + at, sizeof text - at, "  e: {url: \"null:\", timeout: %ds}\n", i % 3 + 1);
        CHECK_OK(runtime_reload(rt, load(&p, "", text), &error), &error);
        snprintf(text, sizeof text, "t%d", i);
        if (i % 10 == 0)
            place_send(&p, NULL, text, NULL, 1);
    }
    place_wait(&p, "SELECT count(*) FROM outbox WHERE failure_reason IS NOT 9", 0);
    runtime_free(rt);
    place_fini(&p);
}

TEST(lost_lease_recalls_everything_and_joins_again) /* B23 */
{
    struct place p;
    struct hold h = { .block = 1 };
    struct pr_engine_counts counts;
    place_init(&p);
    place_send(&p, NULL, "t", NULL, 20);
    struct runtime *rt =
        make(&p, "", "lease: 3s\nendpoints: {e: {url: \"handler:t\", concurrency: 1, timeout: 10m}}\n");
    CHECK_EQ(program_add_handler(runtime_program(rt), EVERY_OUTBOX, PR_STR("t"), hold, &h), PR_OK);
    start(rt);
    int64_t deadline_us = test_now_us() + WAIT_US;
    while (h.calls == 0 && test_now_us() < deadline_us)
        test_pause();
    place_do(&p, "DELETE FROM postrider_instance; DELETE FROM postrider_claim"); /* buried by somebody else */
    place_wait(&p, "SELECT count(*) FROM outbox", 0);
    drain(rt);
    CHECK_EQ(h.stopped, 1); /* the one that was out was told, and its verdict changed nothing */
    CHECK_EQ(h.calls, 21);
    runtime_counts(rt, &counts);
    CHECK_EQ(counts.failed, 0);
    runtime_free(rt);
    place_fini(&p);
}

/* ---- Health over HTTP ------------------------------------------------------------------------------ */

/* The status code of a request, the body in reply. */
static int request(unsigned port, const char *line, char *reply, size_t size)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM, 0), status = 0;
    CHECK(fd >= 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    CHECK(dprintf(fd, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", line) > 0);
    size_t got = 0;
    ssize_t n;
    while (got + 1 < size && (n = read(fd, reply + got, size - 1 - got)) > 0)
        got += (size_t)n;
    reply[got] = '\0';
    close(fd);
    CHECK_EQ(sscanf(reply, "HTTP/1.1 %d", &status), 1);
    return status;
}

TEST(health_pages_tell_live_and_ready)
{
    struct place p;
    char reply[4096];
    place_init(&p);
    struct runtime *rt = make(&p, "", TO_NULL "http: {listen: \"127.0.0.1:0\"}\n");
    CHECK_EQ(runtime_http_port(rt), 0);
    start(rt);
    wait_ready(rt, true);
    unsigned port = runtime_http_port(rt);
    CHECK(port > 0);

    CHECK_EQ(request(port, "GET /health/live", reply, sizeof reply), 200);
    CHECK(strstr(reply, "\r\n\r\n{\"status\":\"ok\"}") != NULL);
    CHECK_EQ(request(port, "GET /health/ready", reply, sizeof reply), 200);
    CHECK_EQ(request(port, "HEAD /health/ready", reply, sizeof reply), 200);
    CHECK_EQ(request(port, "POST /health/ready", reply, sizeof reply), 405);
    CHECK_EQ(request(port, "GET /", reply, sizeof reply), 404);
    place_do(&p, "UPDATE postrider_meta SET value = 9999 WHERE key = 'schema_version'");
    CHECK_EQ(request(port, "GET /health/ready", reply, sizeof reply), 503);
    CHECK(strstr(reply, "\"status\":\"error\"") != NULL);
    CHECK_EQ(request(port, "GET /health/live", reply, sizeof reply), 200);
    runtime_stop(rt, PR_SECONDS(10));
    CHECK_EQ(runtime_http_port(rt), 0);
    runtime_free(rt);
    place_fini(&p);
}

TEST(addresses_are_read_and_known_as_local_or_not)
{
    struct pr_error error;
    struct address address;
    static const char *const local[] = { "127.0.0.1:8026", "localhost:0", "127.9.9.9:65535", "[::1]:8026",
                                         "unix:/tmp/x" };
    static const char *const others[] = { "0.0.0.0:80", "192.0.2.1:80", "[::]:80", "[2001:db8::1]:80" };
    static const char *const wrong[] = { "example.org:80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536",
                                         "127.0.0.1:+1",   ":80",       "[::1:80",    "",
                                         "unix:" };
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++)
        CHECK(address_parse("http.listen", local[i], &address, &error) == PR_OK && address.local);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        CHECK(address_parse("http.listen", others[i], &address, &error) == PR_OK && !address.local);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK_EQ(address_parse("http.listen", wrong[i], &address, &error), PR_ECONFIG);
        CHECK(strstr(error.text, "http.listen") != NULL);
    }
}
