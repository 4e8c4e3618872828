/* The embedded engine, end to end on SQLite. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "place.h"

#define CALLS_MAX 4096
#define WAIT_US PR_SECONDS(90)

/* What the handlers saw. */
struct record {
    pthread_mutex_t lock;
    int count;
    struct call {
        char stream[32];
        int payload, attempt, status;
        bool bad; /* more than one of its stream at once */
    } calls[CALLS_MAX];
    int running[64];  /* by the number in the stream's name */
    atomic_int block; /* handlers wait until it is 0 */
    atomic_int inside;
    atomic_int asked_to_stop;
};

static void record_init(struct record *r)
{
    memset(r, 0, sizeof *r);
    pthread_mutex_init(&r->lock, NULL);
}

static int number_in(pr_slice text)
{
    char copy[32] = "";
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] >= '0' && text.data[i] <= '9')
            strncat(copy, text.data + i, 1);
    return atoi(copy);
}

static struct call *record_call(struct record *r, const struct pr_message *m)
{
    pthread_mutex_lock(&r->lock);
    struct call *c = &r->calls[r->count++ % CALLS_MAX];
    snprintf(c->stream, sizeof c->stream, "%.*s", (int)m->stream.size, m->stream.data != NULL ? m->stream.data : "");
    c->payload = number_in(m->payload);
    c->attempt = m->attempts;
    c->status = m->status;
    c->bad = m->stream.size > 0 && r->running[number_in(m->stream) % 64]++ > 0;
    pthread_mutex_unlock(&r->lock);
    return c;
}

static void record_end(struct record *r, const struct pr_message *m)
{
    pthread_mutex_lock(&r->lock);
    if (m->stream.size > 0)
        r->running[number_in(m->stream) % 64]--;
    pthread_mutex_unlock(&r->lock);
}

static int record_count(struct record *r)
{
    pthread_mutex_lock(&r->lock);
    int count = r->count;
    pthread_mutex_unlock(&r->lock);
    return count;
}

static int handle(struct pr_context *context, const struct pr_message *m, void *user)
{
    struct record *r = user;
    record_call(r, m);
    r->inside++;
    while (r->block > 0 && !pr_should_stop(context))
        test_pause();
    if (pr_should_stop(context))
        r->asked_to_stop++;
    r->inside--;
    record_end(r, m);
    return r->block > 0 ? pr_fail(context, PR_REASON_UNKNOWN, "stopped") : PR_OK;
}

static struct pr_engine *engine_make(const struct place *p, const char *more)
{
    char config[2048];
    struct pr_error error;
    snprintf(config, sizeof config, "store: \"%s\"\n%s", p->url, more);
    struct pr_engine *engine = pr_engine_new(config, &error);
    if (engine == NULL)
        check_fail(__FILE__, __LINE__, "%s", error.text);
    return engine;
}

static void engine_begin(struct pr_engine *engine)
{
    struct pr_error error;
    CHECK_OK(pr_engine_start(engine, &error), &error);
}

static void drain(struct pr_engine *engine)
{
    struct pr_error error;
    CHECK_OK(pr_engine_drain(engine, WAIT_US, &error), &error);
}

static void wait_for(struct record *r, int calls)
{
    int64_t deadline_us = test_now_us() + WAIT_US;
    while (record_count(r) < calls && test_now_us() < deadline_us)
        test_pause();
    CHECK(record_count(r) >= calls);
}

/* ---- Delivering ---------------------------------------------------------------------------- */

TEST(engine_delivers_in_order_per_stream) /* B50 */
{
    struct place p;
    struct record r;
    place_init(&p);
    record_init(&r);
    for (int i = 0; i < 5; i++) {
        char stream[16];
        snprintf(stream, sizeof stream, "s%d", i);
        place_send(&p, NULL, "t", stream, 20);
    }
    struct pr_engine *engine = engine_make(&p, "");
    CHECK_EQ(pr_engine_handle(engine, "*", handle, &r), PR_OK);
    engine_begin(engine);
    drain(engine);

    int next[5] = { 1, 1, 1, 1, 1 };
    CHECK_EQ(r.count, 100);
    for (int i = 0; i < r.count; i++) {
        int stream = r.calls[i].stream[1] - '0';
        CHECK_EQ(r.calls[i].payload, next[stream]++);
        CHECK(!r.calls[i].bad);
    }
    struct pr_engine_counts counts;
    pr_engine_counts(engine, &counts);
    CHECK_EQ(counts.sent, 100);
    CHECK_EQ(counts.in_flight, 0);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox"), 0);
    CHECK_EQ(pr_engine_stop(engine, PR_SECONDS(10)), PR_OK);
    pr_engine_free(engine);
    place_fini(&p);
}

/* Four threads end four messages in a moment; with no more than these on a receipt there would be 500 cycles. */
TEST(a_quick_handler_is_handed_many_messages_with_each_cycle)
{
    struct place p;
    struct record r;
    struct pr_engine_counts counts;
    place_init(&p);
    record_init(&r);
    place_send(&p, NULL, "t", NULL, 4000);
    struct pr_engine *engine = engine_make(&p, "");
    CHECK_EQ(pr_engine_handle(engine, "*", handle, &r), PR_OK);
    engine_begin(engine);
    drain(engine);
    pr_engine_counts(engine, &counts);
    CHECK_EQ(r.count, 4000);
    CHECK(counts.cycles < 250);
    CHECK_EQ(pr_engine_stop(engine, PR_SECONDS(10)), PR_OK);
    pr_engine_free(engine);
    place_fini(&p);
}

TEST(engine_makes_its_tables_itself_and_sees_what_comes_later)
{
    struct place p;
    struct record r;
    place_init_empty(&p);
    record_init(&r);
    struct pr_engine *engine = engine_make(&p, "boxes: {ledger: {}}\n");
    CHECK_EQ(pr_engine_handle(engine, "*", handle, &r), PR_OK);
    CHECK_EQ(pr_engine_handle_box(engine, "inbox", "*", handle, &r), PR_OK);
    engine_begin(engine);
    place_send(&p, "ledger", "t", NULL, 3);
    place_send(&p, "inbox", "t", NULL, 3);
    wait_for(&r, 6);
    drain(engine);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM ledger"), 0);
    pr_engine_free(engine); /* stops it */
    place_fini(&p);
}

/* What came in from elsewhere must not go out again by a handler that was written for what goes out. */
TEST(a_handler_takes_messages_of_its_box_only)
{
    struct place p;
    struct record out, in, inbox;
    place_init(&p);
    record_init(&out);
    record_init(&in);
    record_init(&inbox);
    struct pr_engine *engine = engine_make(&p, "boxes: {ledger: {}, partners: {kind: inbox}}\n");
    CHECK_EQ(pr_engine_handle(engine, "t", handle, &out), PR_OK);
    CHECK_EQ(pr_engine_handle_box(engine, "partners", "t", handle, &in), PR_OK);
    CHECK_EQ(pr_engine_handle_box(engine, "inbox", "t", handle, &inbox), PR_OK);
    CHECK_EQ(pr_engine_handle_box(engine, "inbox", "t", handle, &inbox), PR_EINVAL); /* once per box and glob */
    CHECK_EQ(pr_engine_handle_box(engine, "no name", "t", handle, &inbox), PR_EINVAL);
    place_send(&p, NULL, "t", NULL, 1);
    engine_begin(engine);
    place_send(&p, "ledger", "t", NULL, 2);
    place_send(&p, "partners", "t", NULL, 3);
    place_send(&p, "inbox", "t", NULL, 4);
    wait_for(&out, 3);
    wait_for(&in, 3);
    wait_for(&inbox, 4);
    drain(engine);
    CHECK_EQ(out.count, 3);
    CHECK_EQ(in.count, 3);
    CHECK_EQ(inbox.count, 4);
    pr_engine_free(engine);
    place_fini(&p);
}

TEST(engine_finds_handlers_by_type_and_by_name)
{
    struct place p;
    struct record by_type, by_name;
    place_init(&p);
    record_init(&by_type);
    record_init(&by_name);
    place_send(&p, NULL, "order.placed", NULL, 2);
    place_send(&p, NULL, "mail.wanted", NULL, 3);
    struct pr_engine *engine = engine_make(&p, "endpoints: {rest: {url: \"handler:rest\"}}\n"
                                               "routes: [{to: rest}]\n");
    CHECK_EQ(pr_engine_handle(engine, "order.*", handle, &by_type), PR_OK);
    CHECK_EQ(pr_engine_handle_named(engine, "rest", handle, &by_name), PR_OK);
    engine_begin(engine);
    drain(engine);
    CHECK_EQ(by_type.count, 2);
    CHECK_EQ(by_name.count, 3);
    pr_engine_free(engine);
    place_fini(&p);
}

/* ---- Failing -------------------------------------------------------------------------------- */

static int fail_twice(struct pr_context *context, const struct pr_message *m, void *user)
{
    record_call(user, m);
    record_end(user, m);
    if (m->attempts == 1)
        pr_reached(context, PR_STATUS_EVENT_STORED);
    return m->attempts < 3 ? pr_fail(context, PR_REASON_DEPENDENCY_FAILURE, "not \"yet\"\n\xff") : PR_OK;
}

TEST(engine_retries_and_remembers_what_was_reached) /* B30, B37 */
{
    struct place p;
    struct record r;
    place_init(&p);
    record_init(&r);
    place_send(&p, NULL, "t", "s1", 2);
    struct pr_engine *engine = engine_make(&p, "endpoints: {e: {url: \"handler:*\", retry: [20ms, 20ms]}}\n");
    CHECK_EQ(pr_engine_handle(engine, "*", fail_twice, &r), PR_OK);
    engine_begin(engine);
    place_wait(&p, "SELECT count(*) FROM outbox", 0);

    CHECK_EQ(r.count, 6);
    for (int i = 0; i < 6; i++) {
        CHECK_EQ(r.calls[i].payload, i / 3 + 1); /* the follower waits for its head (B51) */
        CHECK_EQ(r.calls[i].attempt, i % 3 + 1);
        bool reached = (r.calls[i].status & PR_STATUS_EVENT_STORED) != 0;
        CHECK_EQ(reached, i % 3 > 0);
    }
    drain(engine);
    struct pr_engine_counts counts;
    pr_engine_counts(engine, &counts);
    CHECK_EQ(counts.failed, 4);
    CHECK_EQ(counts.sent, 2);
    CHECK_EQ(counts.dead, 0);
    pr_engine_free(engine);
    place_fini(&p);
}

static int fail_always(struct pr_context *context, const struct pr_message *m, void *user)
{
    record_call(user, m);
    record_end(user, m);
    return pr_fail(context, PR_REASON_VALIDATION_FAILURE, "never");
}

TEST(engine_buries_what_fails_too_often) /* B81 */
{
    struct place p;
    struct record r;
    place_init(&p);
    record_init(&r);
    place_send(&p, NULL, "t", NULL, 1);
    struct pr_engine *engine = engine_make(&p, "endpoints: {e: {url: \"handler:*\", retry: [5ms, 5ms]}}\n");
    CHECK_EQ(pr_engine_handle(engine, "*", fail_always, &r), PR_OK);
    engine_begin(engine);
    place_wait(&p, "SELECT count(*) FROM postrider_dead_letter", 1);

    CHECK_EQ(r.count, 3);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox"), 0);
    CHECK_EQ(place_int(&p, "SELECT failures FROM postrider_dead_letter"), 3);
    CHECK_EQ(place_int(&p, "SELECT failure_reason FROM postrider_dead_letter"), PR_REASON_VALIDATION_FAILURE);
    CHECK_EQ(
        place_int(&p,
                  "SELECT count(*) FROM postrider_dead_letter WHERE error = 'never' AND CAST(payload AS TEXT) = '1'"),
        1);
    pr_engine_free(engine);
    place_fini(&p);
}

static int send_effects(struct pr_context *context, const struct pr_message *m, void *user)
{
    struct pr_error error;
    struct pr_message effect = { .type = PR_STR("effect"), .payload = m->payload };
    record_call(user, m);
    record_end(user, m);
    if (pr_effect_send_box(context, "inbox", &effect, &error) < 0)
        return pr_fail(context, PR_REASON_UNKNOWN, "%s", error.text);
    return m->attempts == 1 ? pr_fail(context, PR_REASON_UNKNOWN, "after sending") : PR_OK;
}

TEST(effects_are_stored_with_the_verdict_only) /* B93 */
{
    struct place p;
    struct record sent, received;
    place_init(&p);
    record_init(&sent);
    record_init(&received);
    place_send(&p, NULL, "cause", NULL, 10);
    struct pr_engine *engine = engine_make(&p, "endpoints: {e: {url: \"handler:cause\", retry: [1ms]}}\n");
    CHECK_EQ(pr_engine_handle(engine, "cause", send_effects, &sent), PR_OK);
    CHECK_EQ(pr_engine_handle_box(engine, "inbox", "effect", handle, &received), PR_OK);
    engine_begin(engine);
    place_wait(&p, "SELECT count(*) FROM outbox", 0);
    drain(engine); /* the other box, too */

    CHECK_EQ(sent.count, 20);
    CHECK_EQ(received.count, 10); /* a failed attempt sent nothing */
    pr_engine_free(engine);
    place_fini(&p);
}

static int send_astray(struct pr_context *context, const struct pr_message *m, void *user)
{
    struct pr_error error;
    struct pr_message effect = { .type = PR_STR("effect") };
    (void)user;
    CHECK_EQ(pr_effect_send_box(context, NULL, NULL, &error), PR_EINVAL);
    CHECK_EQ(pr_effect_send_box(NULL, NULL, &effect, &error), PR_EINVAL);
    CHECK_EQ(pr_effect_send_box(context, m->payload.data[0] == '1' ? "nowhere" : "later", &effect, &error), PR_OK);
    return PR_OK;
}

/* It would end the whole engine, and its neighbours would pay for it. */
TEST(an_effect_for_a_box_that_is_not_there_is_its_handler_s_failure) /* B35 */
{
    struct place p;
    place_init(&p);
    struct pr_engine *other = engine_make(&p, "boxes: {later: {}}\n"); /* in the store, not in our config */
    engine_begin(other);
    pr_engine_free(other);
    place_send(&p, NULL, "cause", NULL, 2);
    struct pr_engine *engine = engine_make(&p, "endpoints: {e: {url: \"handler:cause\", retry: [1ms]}}\n");
    CHECK_EQ(pr_engine_handle(engine, "cause", send_astray, NULL), PR_OK);
    engine_begin(engine);
    place_wait(
        &p, "SELECT count(*) FROM postrider_dead_letter WHERE code = 'box_unknown' AND error LIKE '%box nowhere%'", 1);
    place_wait(&p, "SELECT count(*) FROM outbox", 0);
    drain(engine);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM later"), 1);
    pr_engine_free(engine);
    place_fini(&p);
}

TEST(message_without_a_route_is_parked) /* B18 */
{
    struct place p;
    struct pr_engine *engine;
    place_init(&p);
    place_send(&p, NULL, "t", NULL, 1);
    engine = engine_make(&p, "");
    engine_begin(engine);
    place_wait(&p, "SELECT count(*) FROM outbox WHERE due_at = 9223372036854775807 AND failure_reason = 9", 1);
    drain(engine);
    pr_engine_free(engine);
    place_fini(&p);
}

/* ---- Stopping --------------------------------------------------------------------------------- */

TEST(stop_hands_back_what_has_not_started) /* B14, B44 */
{
    struct place p;
    struct record r;
    place_init(&p);
    record_init(&r);
    r.block = 1;
    place_send(&p, NULL, "t", NULL, 30);
    struct pr_engine *engine = engine_make(&p, "endpoints: {e: {url: \"handler:*\", concurrency: 2, timeout: 60s}}\n");
    CHECK_EQ(pr_engine_handle(engine, "*", handle, &r), PR_OK);
    engine_begin(engine);
    wait_for(&r, 2);

    int64_t begun_us = test_now_us();
    CHECK_EQ(pr_engine_stop(engine, PR_SECONDS(10)), PR_OK); /* the handlers listen to pr_should_stop() */
    CHECK(test_now_us() - begun_us < PR_SECONDS(10));
    CHECK_EQ(r.asked_to_stop, r.count);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox"), 30);
    CHECK_EQ(place_int(&p, "SELECT sum(attempts + failures) FROM outbox"), 0);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM postrider_instance"), 0); /* it has left */
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM postrider_claim"), 0);
    CHECK_EQ(pr_engine_stop(engine, PR_SECONDS(10)), PR_OK); /* twice is fine */
    pr_engine_free(engine);
    place_fini(&p);
}

static int deaf(struct pr_context *context, const struct pr_message *m, void *user)
{
    (void)context;
    struct record *r = user;
    record_call(r, m);
    while (r->block > 0)
        test_pause();
    record_end(r, m);
    return PR_OK;
}

TEST(stop_ends_within_its_limit_whatever_handlers_do) /* B14, I16 */
{
    struct place p;
    struct record r;
    place_init(&p);
    record_init(&r);
    r.block = 1;
    place_send(&p, NULL, "t", NULL, 1);
    struct pr_engine *engine = engine_make(&p, "endpoints: {e: {url: \"handler:*\", timeout: 60s}}\n");
    CHECK_EQ(pr_engine_handle(engine, "*", deaf, &r), PR_OK);
    engine_begin(engine);
    wait_for(&r, 1);

    int64_t begun_us = test_now_us();
    CHECK_EQ(pr_engine_stop(engine, PR_SECONDS(1)), PR_TIMEOUT);
    CHECK(test_now_us() - begun_us < WAIT_US);                 /* the handler would have had a minute */
    CHECK_EQ(place_int(&p, "SELECT attempts FROM outbox"), 1); /* it was started: it counts */
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM postrider_instance"), 0);
    r.block = 0; /* free waits for the handler */
    pr_engine_free(engine);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox"), 1); /* its late success changed nothing */
    place_fini(&p);
}

TEST(restart_goes_on_and_keeps_waiting_times) /* B32 */
{
    struct place p;
    struct record first, second;
    struct pr_error error;
    place_init(&p);
    record_init(&first);
    record_init(&second);
    place_send(&p, NULL, "bad", "s1", 1);
    place_send(&p, NULL, "good", NULL, 1);
    const char *config = "endpoints: {e: {url: \"handler:bad\", retry: [1h]}}\n";
    struct pr_engine *engine = engine_make(&p, config);
    CHECK_EQ(pr_engine_handle(engine, "bad", fail_always, &first), PR_OK);
    CHECK_EQ(pr_engine_handle(engine, "good", handle, &first), PR_OK);
    engine_begin(engine);
    drain(engine); /* the retry in an hour does not count */
    CHECK_EQ(first.count, 2);
    CHECK_EQ(pr_engine_stop(engine, PR_SECONDS(10)), PR_OK);
    CHECK_EQ(pr_engine_drain(engine, PR_SECONDS(1), &error), PR_EINVAL);
    CHECK_EQ(pr_engine_start(engine, &error), PR_EINVAL); /* one life each */
    pr_engine_free(engine);

    place_send(&p, NULL, "good", NULL, 2);
    engine = engine_make(&p, config);
    CHECK_EQ(pr_engine_handle(engine, "bad", handle, &second), PR_OK);
    CHECK_EQ(pr_engine_handle(engine, "good", handle, &second), PR_OK);
    engine_begin(engine);
    drain(engine);
    CHECK_EQ(second.count, 2);
    CHECK_EQ(place_int(&p, "SELECT failures FROM outbox WHERE type = 'bad'"), 1);
    pr_engine_free(engine);
    place_fini(&p);
}

TEST(drain_says_when_time_is_over)
{
    struct place p;
    struct record r;
    struct pr_error error;
    place_init(&p);
    record_init(&r);
    r.block = 1;
    place_send(&p, NULL, "t", NULL, 1);
    struct pr_engine *engine = engine_make(&p, "");
    CHECK_EQ(pr_engine_handle(engine, "*", handle, &r), PR_OK);
    CHECK_EQ(pr_engine_drain(engine, 0, &error), PR_EINVAL); /* not started */
    engine_begin(engine);
    wait_for(&r, 1);
    CHECK_EQ(pr_engine_drain(engine, PR_MILLISECONDS(50), &error), PR_TIMEOUT);
    r.block = 0;
    drain(engine);
    pr_engine_free(engine);
    place_fini(&p);
}

/* ---- Wrong arguments --------------------------------------------------------------------------- */

TEST(engine_refuses_wrong_config_and_arguments) /* B203 */
{
    struct place p;
    struct pr_error error;
    struct record r;
    struct pr_engine *engine;
    place_init(&p);
    record_init(&r);
    CHECK(pr_engine_new("stor: x", &error) == NULL);
    CHECK_EQ(error.code, PR_ECONFIG);
    CHECK(strstr(error.text, "stor") != NULL);
    CHECK(pr_engine_new_file("/no/such/file.yaml", &error) == NULL);
    CHECK_EQ(error.code, PR_EIO);
    CHECK(pr_engine_new_file(NULL, &error) == NULL);

    engine = engine_make(&p, "endpoints: {e: {url: \"handler:missing\"}}\n");
    CHECK_EQ(pr_engine_start(engine, &error), PR_ECONFIG); /* nobody registered it */
    CHECK(strstr(error.text, "missing") != NULL);
    CHECK_EQ(pr_engine_handle(engine, "", handle, &r), PR_EINVAL);
    CHECK_EQ(pr_engine_handle(engine, NULL, handle, &r), PR_EINVAL);
    CHECK_EQ(pr_engine_handle(engine, "*", NULL, &r), PR_EINVAL);
    CHECK_EQ(pr_engine_handle_named(engine, "missing", handle, &r), PR_OK);
    CHECK_EQ(pr_engine_handle_named(engine, "missing", handle, &r), PR_EINVAL); /* twice */
    engine_begin(engine);                                                       /* now it can start */
    CHECK_EQ(pr_engine_handle(engine, "late", handle, &r), PR_EINVAL);
    pr_engine_free(engine);
    pr_engine_free(NULL);

    CHECK_EQ(pr_engine_handle(NULL, "*", handle, &r), PR_EINVAL);
    CHECK_EQ(pr_engine_start(NULL, &error), PR_EINVAL);
    CHECK_EQ(pr_engine_drain(NULL, 0, &error), PR_EINVAL);
    CHECK_EQ(pr_engine_stop(NULL, 0), PR_EINVAL);
    place_fini(&p);
}

TEST(engine_reads_its_config_from_a_file)
{
    struct place p;
    struct record r;
    char path[128];
    struct pr_error error;
    place_init(&p);
    record_init(&r);
    snprintf(path, sizeof path, "%s/postrider.yaml", p.dir);
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    fprintf(f, "store: \"%s\"\n", p.url);
    fclose(f);
    struct pr_engine *engine = pr_engine_new_file(path, &error);
    CHECK(engine != NULL);
    CHECK_EQ(pr_engine_handle(engine, "*", handle, &r), PR_OK);
    place_send(&p, NULL, "t", NULL, 5);
    engine_begin(engine);
    drain(engine);
    CHECK_EQ(r.count, 5);
    pr_engine_free(engine);
    place_fini(&p);
}
