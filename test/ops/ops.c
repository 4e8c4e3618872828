/* The deciding parts of the API: authorisation, routing, parsing of requests, events for listeners. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/slice.h"
#include "check.h"
#include "ops/change.h"
#include "ops/explain/ended_words.h"
#include "source/decode.h"
#include "ops/api/events.h"
#include "ops/api/authz.h"
#include "ops/replay/pace.h"
#include "ops/api/query.h"
#include "ops/replay/replay.h"
#include "ops/api/route.h"
#include "ops/watch/watch.h"
#include "store/sql.h"

static const char *const hosts[] = { "relay.example" };

TEST(authz_knows_addresses_localhost_and_its_names)
{
    const struct authz authz = { "", "", hosts, 1, false };
    static const char *const good[] = { "localhost", "LocalHost:80",      "127.0.0.1:1",   "192.0.2.1",
                                        "[::1]",     "[2001:db8::1]:443", "relay.example", "RELAY.example:8026" };
    static const char *const bad[] = { "",
                                       ":80",
                                       "evil.example",
                                       "relay.example.evil",
                                       "localhost.",
                                       "localhost:80x",
                                       "127.0.0.1.x",
                                       "[::1",
                                       "::1",
                                       "a@localhost",
                                       "[]" };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        CHECK(authz_host_is_known(&authz, good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(!authz_host_is_known(&authz, bad[i]));
    CHECK(authz_host_is_known(&authz, NULL));
    CHECK(authz_host_is_known(&(struct authz){ "", "", NULL, 0, true }, NULL));
}

TEST(authz_refuses_what_a_page_of_another_origin_makes_a_browser_ask) /* B206 */
{
    CHECK(!authz_is_cross_site(NULL, NULL, "localhost:80"));
    CHECK(!authz_is_cross_site(NULL, NULL, NULL));
    CHECK(!authz_is_cross_site("none", NULL, "localhost:80"));
    CHECK(!authz_is_cross_site("same-origin", "http://localhost:80", "LOCALHOST:80"));
    static const char *const sites[] = { "cross-site", "same-site", "", "anything" };
    for (size_t i = 0; i < sizeof sites / sizeof sites[0]; i++)
        CHECK(authz_is_cross_site(sites[i], NULL, "localhost:80"));
    static const char *const origins[] = {
        "null", "", "http://localhost:81", "http://localhost", "http://evil.example", "localhost:80"
    };
    for (size_t i = 0; i < sizeof origins / sizeof origins[0]; i++)
        CHECK(authz_is_cross_site(NULL, origins[i], "localhost:80"));
    CHECK(authz_is_cross_site(NULL, "http://localhost:80", NULL));
}

TEST(authz_gives_the_role_of_the_token_and_nothing_for_another)
{
    const struct authz both = { "operator-token-0123", "viewer-token-012345", NULL, 0, false };
    const struct authz viewers = { "", "viewer-token-012345", NULL, 0, false };
    CHECK_EQ(authz_role(&both, "Bearer operator-token-0123"), ROLE_OPERATOR);
    CHECK_EQ(authz_role(&both, "bearer  viewer-token-012345 "), ROLE_VIEWER);
    CHECK_EQ(authz_role(&both, "Bearer operator-token-012"), ROLE_NONE);
    CHECK_EQ(authz_role(&both, "Bearer operator-token-01234"), ROLE_NONE);
    CHECK_EQ(authz_role(&both, "Bearer "), ROLE_NONE);
    CHECK_EQ(authz_role(&both, "Basic operator-token-0123"), ROLE_NONE);
    CHECK_EQ(authz_role(&both, NULL), ROLE_NONE);
    CHECK_EQ(authz_role(&viewers, "Bearer "), ROLE_NONE); /* an empty token is none */
    CHECK_EQ(authz_role(&viewers, NULL), ROLE_NONE);
    CHECK_EQ(authz_role(&(struct authz){ "", "", NULL, 0, false }, NULL), ROLE_OPERATOR);
}

TEST(routes_are_found_whole)
{
    const struct api_route *route = NULL;
    const char *allow = "";
    pr_slice part;
    CHECK_EQ(route_find("GET", PR_STR("/v1/messages/x%2Fy"), &route, &part, &allow), ROUTE_FOUND);
    CHECK_STR(route->path, "/v1/messages/{id}");
    CHECK(slice_eq_cstr(part, "x%2Fy"));
    CHECK_EQ(route_find("POST", PR_STR("/v1/messages/x/retry"), &route, &part, &allow), ROUTE_FOUND);
    CHECK(slice_eq_cstr(part, "x"));
    CHECK_EQ(route_find("HEAD", PR_STR("/metrics"), &route, &part, &allow), ROUTE_FOUND);
    CHECK_EQ(route_find("POST", PR_STR("/metrics"), &route, &part, &allow), ROUTE_NO_METHOD);
    CHECK_STR(allow, "GET, HEAD");
    static const char *const nowhere[] = {
        "", "/", "/v1", "/v1/messages/", "/v1/messages//retry", "/v1/messages/x/retry/", "/metricsx", "metrics"
    };
    for (size_t i = 0; i < sizeof nowhere / sizeof nowhere[0]; i++)
        CHECK_EQ(route_find("GET", slice_from(nowhere[i]), &route, &part, &allow), ROUTE_NO_PATH);
}

TEST(every_change_needs_the_operator_and_is_a_post_or_a_delete)
{
    for (size_t i = 0; i < route_count; i++) {
        CHECK((strcmp(routes[i].method, "GET") != 0) == (routes[i].role == ROLE_OPERATOR));
        CHECK((strcmp(routes[i].method, "POST") == 0) == (routes[i].body != BODY_NONE));
        CHECK(routes[i].role != ROLE_NONE || strncmp(routes[i].path, "/health/", 8) == 0);
    }
}

TEST(parameters_are_decoded)
{
    struct arena arena;
    struct params params;
    struct pr_error error;
    arena_init(&arena, 1024);
    CHECK_EQ(params_parse(PR_STR("a=1+2&b=%41%c3%a4&&c&d="), &arena, &params, &error), PR_OK);
    CHECK_EQ(params.count, 4);
    CHECK(slice_eq_cstr(params_get(&params, "a"), "1 2"));
    CHECK(slice_eq_cstr(params_get(&params, "b"), "A\xc3\xa4"));
    CHECK_EQ(params_get(&params, "c").size, 0);
    static const char *const wrong[] = { "a=%", "a=%4", "a=%zz", "a=%00", "a=%ff", "a=1&a=2" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK_EQ(params_parse(slice_from(wrong[i]), &arena, &params, &error), PR_EINVAL);
    arena_fini(&arena);
}

TEST(the_same_event_gets_the_same_id)
{
    struct arena arena;
    struct pr_message *one, *two;
    struct pr_error error;
    size_t count;
    struct decode_input in = { .content_type = PR_STR("application/cloudevents+json"),
                               .body =
                                   PR_STR("{\"specversion\":\"1.0\",\"id\":\"7\",\"type\":\"t\",\"source\":\"s\"}") };
    arena_init(&arena, 1024);
    CHECK_OK(decode_messages(&in, &arena, &one, &count, &error), &error);
    CHECK_OK(decode_messages(&in, &arena, &two, &count, &error), &error);
    CHECK(pr_id_equal(one->id, two->id) && !pr_id_is_zero(one->id));
    in.body = PR_STR("{\"specversion\":\"1.0\",\"id\":\"7\",\"type\":\"t\",\"source\":\"other\"}");
    CHECK_OK(decode_messages(&in, &arena, &two, &count, &error), &error);
    CHECK(!pr_id_equal(one->id, two->id));
    arena_fini(&arena);
}

static void put(struct feed *feed, enum happening_kind kind, const char *endpoint)
{
    struct happening h = { .kind = kind, .at_us = 1 };
    happening_text(h.endpoint, sizeof h.endpoint, slice_from(endpoint));
    feed_put(feed, &h);
}

/* Everything up to the end or a slice of silence. */
static size_t read_all(struct events *e, char *ret, size_t size, const char *until)
{
    size_t got = 0;
    ssize_t n;
    int64_t end_us = clock_mono_us(clock_system()) + PR_SECONDS(20);
    ret[0] = '\0';
    while (clock_mono_us(clock_system()) < end_us && strstr(ret, until) == NULL &&
           (n = events_read(e, ret + got, size - 1 - got)) > 0) {
        got += (size_t)n;
        ret[got] = '\0';
    }
    return got;
}

TEST(listeners_hear_what_they_asked_for_and_the_slow_are_sent_away)
{
    struct feed *feed = feed_new();
    struct params params = { .list = { { PR_STR("kind"), PR_STR("failed,dead") } }, .count = 1 };
    struct events *e;
    struct pr_error error;
    atomic_bool stop = false;
    char text[8192], small[1];
    CHECK(feed != NULL && !feed_is_heard(feed));
    CHECK_OK(events_new(feed, &params, &stop, &e, &error), &error);
    CHECK(feed_is_heard(feed));
    put(feed, HAPPENING_SENT, "a");
    put(feed, HAPPENING_DEAD, "b");
    read_all(e, text, sizeof text, "}\n\n");
    CHECK(strncmp(text, ": listening\n\nid: 2\nevent: dead\ndata: {", 38) == 0);
    CHECK(strstr(text, "\"endpoint\":\"b\"") != NULL);

    for (int i = 0; i < FEED_MAX; i++)
        put(feed, HAPPENING_SENT, "a"); /* just as many as it holds: nothing is missed */
    put(feed, HAPPENING_FAILED, "c");
    for (int i = 0; i < FEED_MAX; i++)
        put(feed, HAPPENING_FAILED, "a");
    read_all(e, text, sizeof text, ": dropped:");
    CHECK(strstr(text, ": dropped:") != NULL);
    while (events_read(e, small, sizeof small) > 0)
        ;
    CHECK_EQ(events_read(e, small, sizeof small), EVENTS_END);
    events_free(e);
    CHECK(!feed_is_heard(feed));
    params.list[0].value = PR_STR("failed,odd");
    CHECK_EQ(events_new(feed, &params, &stop, &e, &error), PR_EINVAL);
    feed_free(feed);
}

/* ---- Replays ---- */

struct graveyard {
    struct store store;
    struct clock clock;
    int64_t wall_us;
    struct pr_error error;
    pr_id ids[8];
    size_t late; /* of ids, those that died while something was done */
};

static int64_t graveyard_wall(void *arg)
{
    return ((struct graveyard *)arg)->wall_us;
}

/* As many dead letters of type t, for an endpoint that nobody serves. */
static void graveyard_open(struct graveyard *g, size_t count)
{
    struct admin_reply reply;
    struct pr_message list[8];
    g->wall_us = PR_SECONDS(1000000);
    g->late = 0;
    g->clock = (struct clock){ .wall_us = graveyard_wall, .mono_us = graveyard_wall, .arg = g };
    const struct store_options options = { .url = "sqlite::memory:", .payload_max = 1000, .clock = &g->clock };
    CHECK_OK(store_open(&options, &g->store, &g->error), &g->error);
    CHECK_OK(store_migrate(&g->store, NULL, 0, &g->error), &g->error);
    for (size_t i = 0; i < count; i++)
        list[i] = (struct pr_message){ .type = PR_STR("t"), .destination = PR_STR("x") };
    CHECK_OK(store_enqueue(&g->store, PR_STR("outbox"), list, count, 1000, g->ids, NULL, &g->error), &g->error);
    const struct admin kill = { .kind = ADMIN_DEAD_ADD,
                                .filter = { .state = -1, .ids = g->ids, .id_count = count },
                                .why = PR_STR("w") };
    CHECK_OK(store_admin(&g->store, &kill, &reply, &g->error), &g->error);
    CHECK_EQ(reply.changed, count);
}

/* Orders in the audit. */
static size_t recorded(struct graveyard *g)
{
    const struct query query = { .kind = QUERY_AUDIT, .filter.state = -1 };
    struct query_reply reply;
    struct arena arena;
    arena_init(&arena, 4096);
    CHECK_OK(store_query(&g->store, &query, &arena, &reply, &g->error), &g->error);
    arena_fini(&arena);
    return reply.audit_count;
}

static struct replay replay_of(uint64_t rate, size_t canary)
{
    struct replay r = {
        .order = { .kind = ADMIN_DEAD_REPLAY, .filter = { .state = -1, .type = PR_STR("t") }, .by = PR_STR("ann") },
        .rate = rate,
        .canary = canary,
        .canary_wait_us = PR_SECONDS(60)
    };
    replay_begin(&r);
    return r;
}

static int64_t step(struct replay *r, struct graveyard *g, int64_t now_us)
{
    int64_t next_us;
    CHECK_OK(replay_step(r, &g->store, now_us, &next_us, &g->error), &g->error);
    return next_us;
}

static void change(struct graveyard *g, enum admin_kind kind, pr_id id)
{
    struct admin_reply reply;
    const struct admin order = { .kind = kind,
                                 .filter = { .state = -1, .ids = &id, .id_count = 1 },
                                 .why = PR_STR("w") };
    CHECK_OK(store_admin(&g->store, &order, &reply, &g->error), &g->error);
    CHECK_EQ(reply.changed, 1);
}

TEST(a_replay_keeps_to_its_rate_and_goes_on_where_it_stopped) /* B83 */
{
    struct graveyard g;
    graveyard_open(&g, 7);
    struct replay r = replay_of(2, 0);
    CHECK_EQ(step(&r, &g, PR_SECONDS(100)), PR_SECONDS(101));
    CHECK_EQ(r.sum.changed, 2);
    change(&g, ADMIN_DEAD_ADD, g.ids[0]); /* it dies again: not taken a second time */
    CHECK_EQ(step(&r, &g, PR_SECONDS(101)), PR_SECONDS(102));
    CHECK_EQ(r.sum.changed, 4);
    /* An hour later: what was missed meanwhile is not made up for. */
    CHECK_EQ(step(&r, &g, PR_SECONDS(3700)), PR_SECONDS(3701));
    CHECK_EQ(r.sum.changed, 6);
    step(&r, &g, PR_SECONDS(3701));
    CHECK(replay_has_ended(&r) && r.state == REPLAY_DONE);
    CHECK_EQ(r.sum.changed, 7);
    replay_fini(&r);
    store_close(&g.store);
}

TEST(the_others_wait_for_the_canary) /* B83 */
{
    struct graveyard g;
    graveyard_open(&g, 4);
    struct replay r = replay_of(0, 1);
    step(&r, &g, PR_SECONDS(100));
    CHECK(r.state == REPLAY_WATCH && r.sum.changed == 1);
    CHECK(step(&r, &g, PR_SECONDS(100)) > PR_SECONDS(100));
    CHECK_EQ(r.state, REPLAY_WATCH);
    step(&r, &g, PR_SECONDS(160));
    CHECK_EQ(r.state, REPLAY_FAILED); /* nobody delivers it */
    CHECK(strstr(r.why, "was not delivered within 1m") != NULL);

    replay_again(&r); /* another one goes first */
    step(&r, &g, PR_SECONDS(200));
    CHECK_EQ(r.sum.changed, 2);
    change(&g, ADMIN_DEAD_ADD, g.ids[1]);
    step(&r, &g, PR_SECONDS(200));
    CHECK_EQ(r.state, REPLAY_FAILED);
    CHECK(strstr(r.why, "failed again") != NULL);

    replay_again(&r);
    step(&r, &g, PR_SECONDS(300));
    change(&g, ADMIN_DISCARD, g.ids[2]); /* gone as one that was delivered is */
    step(&r, &g, PR_SECONDS(300));
    CHECK_EQ(r.state, REPLAY_REST);
    step(&r, &g, PR_SECONDS(300));
    CHECK_EQ(r.sum.changed, 4); /* the second one died again while it ran */
    CHECK_EQ(r.state, REPLAY_FAILED);
    CHECK(strstr(r.why, "has not been delivered yet, and no other dead letter is left") != NULL);

    change(&g, ADMIN_DISCARD, g.ids[0]); /* the first one arrives late */
    replay_again(&r);
    step(&r, &g, PR_SECONDS(400));
    CHECK_EQ(r.state, REPLAY_FAILED);
    CHECK(strstr(r.why, "failed again, and no other dead letter is left") != NULL);

    change(&g, ADMIN_DEAD_REPLAY, g.ids[1]);
    change(&g, ADMIN_DISCARD, g.ids[1]);
    replay_again(&r);
    step(&r, &g, PR_SECONDS(500));
    CHECK_EQ(r.state, REPLAY_DONE);
    CHECK_EQ(r.sum.changed, 4);
    replay_fini(&r);
    store_close(&g.store);
}

/* The clock went back since they died, and goes back again before the canary dies anew. */
TEST(a_replay_does_not_go_by_clocks) /* B83 */
{
    struct graveyard g;
    graveyard_open(&g, 3);
    g.wall_us -= PR_SECONDS(3600);
    struct replay r = replay_of(0, 1);
    step(&r, &g, PR_SECONDS(100));
    CHECK_EQ(r.state, REPLAY_WATCH);
    g.wall_us -= PR_SECONDS(3600);
    change(&g, ADMIN_DEAD_ADD, g.ids[0]);
    step(&r, &g, PR_SECONDS(100));
    CHECK_EQ(r.state, REPLAY_FAILED);
    r.state = REPLAY_REST;
    step(&r, &g, PR_SECONDS(100));
    CHECK_EQ(r.state, REPLAY_FAILED); /* the canary is dead */
    CHECK_EQ(r.sum.changed, 3);       /* and does not go again */
    replay_fini(&r);
    store_close(&g.store);
}

TEST(a_filter_discards_letters_of_the_future_too) /* B86 */
{
    struct graveyard g;
    struct admin_reply reply;
    graveyard_open(&g, 3);
    g.wall_us -= PR_SECONDS(3600);
    const struct admin discard = { .kind = ADMIN_DEAD_DISCARD, .filter = { .state = -1, .type = PR_STR("t") } };
    CHECK_OK(change_run(&g.store, &discard, &reply, &g.error), &g.error);
    CHECK_EQ(reply.changed, 3);
    store_close(&g.store);
}

/* A store on which a letter dies whenever an order has been carried out. */
static struct graveyard *deadly;
static struct sql_ops deadly_sql;
static bool deadly_order;

static int begin_deadly(void *self, enum sql_purpose purpose, struct sql *sql)
{
    int rc = store_sqlite.sql->begin(self, purpose, sql);
    sql->ops = &deadly_sql;
    deadly_order = purpose == SQL_WRITE;
    return rc;
}

static void end_and_then_one_dies(struct sql *sql)
{
    static const struct pr_message late = { .type = { "t", 1 }, .destination = { "x", 1 } };
    struct store store = { .ops = &store_sqlite, .self = sql->store };
    struct pr_error error;
    struct admin_reply reply;
    pr_id id;
    store_sqlite.sql->end(sql);
    if (!deadly_order)
        return;
    CHECK_OK(store_enqueue(&store, PR_STR("outbox"), &late, 1, 1000, &id, NULL, &error), &error);
    const struct admin kill = { .kind = ADMIN_DEAD_ADD,
                                .filter = { .state = -1, .ids = &id, .id_count = 1 },
                                .why = PR_STR("w") };
    CHECK_OK(store_admin(&store, &kill, &reply, &error), &error);
    CHECK_EQ(reply.changed, 1);
    deadly->ids[deadly->late++] = id;
}

TEST(a_filter_discards_in_steps_and_not_what_dies_meanwhile) /* B86 */
{
    enum { LETTERS = 10001, STEP = 1000 }; /* one more than a step takes */
    static struct pr_message list[STEP];
    struct graveyard g;
    struct admin_reply reply;
    graveyard_open(&g, 1);
    for (size_t i = 0; i < STEP; i++)
        list[i] = (struct pr_message){ .type = PR_STR("t"), .destination = PR_STR("x") };
    for (size_t i = 0; i < LETTERS - 1; i += STEP)
        CHECK_OK(store_enqueue(&g.store, PR_STR("outbox"), list, STEP, 1000, NULL, NULL, &g.error), &g.error);
    const struct admin kill = { .kind = ADMIN_DEAD_ADD,
                                .filter = { .state = -1, .type = PR_STR("t") },
                                .why = PR_STR("w") };
    CHECK_OK(store_admin(&g.store, &kill, &reply, &g.error), &g.error);
    CHECK_EQ(reply.changed, LETTERS - 1);

    struct store_ops ops = store_sqlite;
    deadly_sql = *ops.sql;
    deadly_sql.begin = begin_deadly;
    deadly_sql.end = end_and_then_one_dies;
    ops.sql = &deadly_sql;
    struct store store = { .ops = &ops, .self = g.store.self };
    deadly = &g;
    const struct admin discard = { .kind = ADMIN_DEAD_DISCARD, .filter = { .state = -1, .type = PR_STR("t") } };
    CHECK_OK(change_run(&store, &discard, &reply, &g.error), &g.error);
    CHECK_EQ(reply.changed, LETTERS);
    CHECK_EQ(g.late, 2);
    for (size_t i = 0; i < g.late; i++)
        change(&g, ADMIN_DEAD_DISCARD, g.ids[i]); /* they are still there */
    store_close(&g.store);
}

TEST(the_canary_is_the_first_that_really_goes) /* B83, B84 */
{
    static const pr_slice text = { "mended", 6 };
    static const struct dead_edit edit = { .payload = &text };
    struct graveyard g;
    graveyard_open(&g, 5);
    for (size_t i = 0; i < 3; i++) { /* those that it meets first stay where they are */
        struct admin_reply reply;
        const struct admin mend = { .kind = ADMIN_DEAD_EDIT,
                                    .filter = { .state = -1, .ids = &g.ids[i], .id_count = 1 },
                                    .edit = &edit };
        CHECK_OK(store_admin(&g.store, &mend, &reply, &g.error), &g.error);
    }
    struct replay r = replay_of(0, 1);
    step(&r, &g, PR_SECONDS(100));
    CHECK_EQ(r.state, REPLAY_WATCH);
    CHECK_EQ(r.sum.changed, 1);
    CHECK(pr_id_equal(r.canaries[0], g.ids[3]));
    replay_fini(&r);
    store_close(&g.store);
}

TEST(where_there_is_no_canary_nothing_goes) /* B83, B202 */
{
    struct graveyard g;
    graveyard_open(&g, 1);
    struct replay r = replay_of(0, 2);
    r.order.filter.type = PR_STR("none");
    step(&r, &g, PR_SECONDS(100));
    CHECK_EQ(r.state, REPLAY_DONE);
    CHECK_EQ(r.sum.changed, 0);
    CHECK_EQ(recorded(&g), 2); /* it is recorded all the same */
    replay_fini(&r);
    store_close(&g.store);
}

TEST(rates_are_numbers_in_a_second)
{
    uint64_t rate;
    CHECK(replay_rate_parse(PR_STR("100/s"), &rate) && rate == 100);
    CHECK(replay_rate_parse(PR_STR("1000000"), &rate) && rate == REPLAY_RATE_MAX);
    static const char *const wrong[] = { "", "/s", "0", "-1", "1/m", "1000001", "99999999999999999999", "5 /s", "x" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK(!replay_rate_parse(slice_from(wrong[i]), &rate));
}

/* ---- Paces and marks ---- */

TEST(the_pace_of_an_endpoint_is_that_since_an_earlier_look)
{
    struct paces *paces = paces_new();
    struct endpoint_state list[] = { { .name = PR_STR("a"), .sent = 100 },
                                     { .name = PR_STR("b"), .sent = 7, .failed = 10 } };
    struct query_reply reply = { .endpoints = list, .endpoint_count = 1, .now_us = PR_SECONDS(1000) };
    struct pace pace[2];
    CHECK(paces != NULL);
    paces_look(paces, &reply, pace);
    CHECK_EQ(pace[0].over_us, 0); /* there was none before */

    reply.endpoint_count = 2;
    reply.now_us += PR_SECONDS(5);
    list[0].sent += 50;
    paces_look(paces, &reply, pace);
    CHECK(pace[0].over_us == PR_SECONDS(5) && pace[0].sent == 10 && pace[0].failed == 0);
    CHECK(pace[1].failed == 2); /* it had nothing when it was not known */

    for (int i = 0; i < 10; i++) { /* asked often: of the last 10 to 20 seconds */
        reply.now_us += PR_SECONDS(3);
        list[0].sent += 3;
        paces_look(paces, &reply, pace);
    }
    CHECK(pace[0].sent == 1 && pace[0].over_us >= PACE_SPAN_US && pace[0].over_us <= 2 * PACE_SPAN_US);
    reply.now_us -= PR_SECONDS(500); /* the clock was set back */
    paces_look(paces, &reply, pace);
    CHECK_EQ(pace[0].over_us, 0);
    paces_free(paces);
}

TEST(a_mark_of_a_stream_comes_back_from_its_text)
{
    const struct stream_info stream = {
        .box = PR_STR("outbox"), .stream = PR_STR("s"), .waiting = 12, .since_us = 345
    };
    const struct stream_mark mark = stream_mark_of(&stream);
    struct stream_mark back;
    char text[STREAM_MARK_SIZE];
    stream_mark_format(&stream, text);
    CHECK(stream_mark_parse(slice_from(text), &back));
    CHECK(back.waiting == mark.waiting && back.since_us == mark.since_us && back.place == mark.place);
    static const char *const wrong[] = { "",
                                         "1",
                                         "1-2",
                                         "1-2-",
                                         "1-2-0123456789abcde",
                                         "1-2-0123456789abcdef0",
                                         "x-2-0123456789abcdef",
                                         "1--0123456789abcdef",
                                         "1-2-0123456789abcdeg" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK(!stream_mark_parse(slice_from(wrong[i]), &back));
}

/* ---- Watchdogs ---- */

struct watched {
    struct config config;
    struct config_endpoint endpoint;
    struct endpoint_state state;
    struct box_counts box;
    struct instance_info instance;
    struct arena arena;
    struct watch_past past;
    struct status s;
};

/* An instance has the lease, a message is ready, and nothing is in flight. */
static void watched_init(struct watched *w, int64_t now_us)
{
    *w = (struct watched){ .state = { .name = PR_STR("e"), .sent = 7 } };
    w->endpoint.name = "e";
    w->config.endpoints = &w->endpoint;
    w->config.endpoint_count = 1;
    w->config.watch.stuck_us = PR_SECONDS(60);
    w->box = (struct box_counts){ .name = PR_STR("outbox"), .ready = 1, .oldest_us = PR_SECONDS(1000) };
    w->instance = (struct instance_info){
        .name = PR_STR("i"), .box = PR_STR("outbox"), .lanes = 64, .lease_left_us = 1, .started_us = PR_SECONDS(900)
    };
    arena_init(&w->arena, 4096);
    w->s = (struct status){
        .config = &w->config,
        .boxes = { .boxes = &w->box, .box_count = 1, .now_us = now_us },
        .endpoints = { .endpoints = &w->state, .endpoint_count = 1, .now_us = now_us },
        .instances = { .instances = &w->instance, .instance_count = 1, .now_us = now_us },
        .checks.arena = &w->arena,
    };
}

static bool is_stuck(struct watched *w, int64_t now_us)
{
    w->s.boxes.now_us = w->s.endpoints.now_us = w->s.instances.now_us = now_us;
    w->s.checks.count = 0;
    watch_progress(&w->s);
    return w->s.checks.count == 1 && strcmp(w->s.checks.items[0].name, "progress") == 0;
}

TEST(who_has_the_lease_and_sends_nothing_is_told)
{
    struct watched w;
    watched_init(&w, 0);
    CHECK(!is_stuck(&w, PR_SECONDS(1060)));
    CHECK(is_stuck(&w, PR_SECONDS(1061)));
    w.instance.in_flight = 1;
    CHECK(!is_stuck(&w, PR_SECONDS(1061)));
    w.instance.in_flight = 0;
    w.state.paused_until_us = PR_NEVER;
    CHECK(!is_stuck(&w, PR_SECONDS(1061)));
    w.state.paused_until_us = 0;
    w.instance.started_us = PR_SECONDS(1001); /* it has just come */
    CHECK(!is_stuck(&w, PR_SECONDS(1061)));
    w.instance.started_us = PR_SECONDS(900);
    w.box.ready = 0;
    CHECK(!is_stuck(&w, PR_SECONDS(1061)));
    arena_fini(&w.arena);
}

TEST(with_a_rate_it_is_told_when_nothing_moved_for_longer_than_the_rate_explains)
{
    struct watched w;
    watched_init(&w, 0);
    w.endpoint.rate = (struct rate_setting){ .count = 2, .period_us = PR_SECONDS(200) }; /* one in 100 s */
    CHECK(!is_stuck(&w, PR_SECONDS(5000)));                                              /* a single look cannot tell */
    w.s.past = &w.past;
    w.s.endpoints.now_us = PR_SECONDS(5000);
    watch_see(&w.past, &w.s);
    CHECK(!is_stuck(&w, PR_SECONDS(5200)));
    CHECK(is_stuck(&w, PR_SECONDS(5201)));
    watch_see(&w.past, &w.s); /* the totals are the same: it is since then */
    CHECK(is_stuck(&w, PR_SECONDS(5201)));
    w.state.sent++;
    watch_see(&w.past, &w.s);
    CHECK(!is_stuck(&w, PR_SECONDS(5400)));
    CHECK(is_stuck(&w, PR_SECONDS(5402)));
    w.endpoint.rate = (struct rate_setting){ .count = 1000, .period_us = PR_SECONDS(1) };
    CHECK(!is_stuck(&w, PR_SECONDS(5261))); /* never sooner than without one */
    CHECK(is_stuck(&w, PR_SECONDS(5262)));
    arena_fini(&w.arena);
}

static bool is_still(struct watched *w, const struct subscription_info *n, int64_t now_us, const char *advice)
{
    w->s.subscriptions.now_us = now_us;
    w->s.checks.count = 0;
    watch_subscription(&w->s, n, PR_SECONDS(1000));
    return w->s.checks.count == 1 && strcmp(w->s.checks.items[0].name, "subscription") == 0 &&
           strstr(w->s.checks.items[0].text, advice) != NULL;
}

TEST(a_subscription_that_does_not_move_is_told) /* B205 */
{
    struct watched w;
    struct subscription_info n = { .name = PR_STR("view"), .position = 3, .last = 5, .lag = 2, .holder = PR_STR("") };
    const char *nobody = "postrider events subscriptions remove view", *stuck = "postrider events list --after 3";
    watched_init(&w, 0);
    CHECK(!is_still(&w, &n, PR_SECONDS(1060), ""));
    CHECK(is_still(&w, &n, PR_SECONDS(1061), nobody));
    n.holder = PR_STR("host/1");
    n.until_us = PR_SECONDS(1061);
    CHECK(is_still(&w, &n, PR_SECONDS(1061), nobody)); /* its lease is over */
    n.until_us = PR_NEVER;
    CHECK(!is_still(&w, &n, PR_SECONDS(5000), "")); /* a single look cannot tell */
    w.s.past = &w.past;
    CHECK(!is_still(&w, &n, PR_SECONDS(5000), ""));
    CHECK(!is_still(&w, &n, PR_SECONDS(5060), ""));
    CHECK(is_still(&w, &n, PR_SECONDS(5061), stuck));
    n.position = 4;
    CHECK(!is_still(&w, &n, PR_SECONDS(5062), "")); /* it has moved */
    CHECK(!is_still(&w, &n, PR_SECONDS(5122), ""));
    CHECK(is_still(&w, &n, PR_SECONDS(5123), "postrider events list --after 4"));
    n.lag = 0;
    CHECK(!is_still(&w, &n, PR_SECONDS(9000), ""));
    for (int i = 0; i < 2 * WATCH_SUBSCRIPTIONS_MAX; i++) { /* too many to remember: nothing is said of the others */
        char name[16];
        snprintf(name, sizeof name, "s%d", i);
        n = (struct subscription_info){
            .name = slice_from(name), .lag = 1, .holder = PR_STR("h"), .until_us = PR_NEVER
        };
        CHECK(!is_still(&w, &n, PR_SECONDS(9000), ""));
        CHECK_EQ(is_still(&w, &n, PR_SECONDS(9100), "postrider"), i < WATCH_SUBSCRIPTIONS_MAX - 1);
    }
    arena_fini(&w.arena);
}

TEST(a_message_that_nobody_reads_is_told_though_another_endpoint_is_paused) /* T7 */
{
    struct watched w;
    struct endpoint_state states[] = { { .name = PR_STR("e") }, { .name = PR_STR("p"), .paused_until_us = PR_NEVER } };
    size_t in_flight[2] = { 0, 0 };
    struct listed l = {
        .m.created_us = PR_SECONDS(1000), .box = PR_STR("outbox"), .endpoint = PR_STR("e"), .state = STATE_READY
    };
    watched_init(&w, PR_SECONDS(1061));
    w.s.endpoints.endpoints = states;
    w.s.endpoints.endpoint_count = 2;
    w.s.in_flight = in_flight;
    CHECK(!is_stuck(&w, PR_SECONDS(1061))); /* of the whole box nothing can be said */
    watch_unread(&w.s, &l);
    CHECK_EQ(w.s.checks.count, 1);
    CHECK_STR(w.s.checks.items[0].name, "unread");
    CHECK(strstr(w.s.checks.items[0].text, "postrider why 00000000-") != NULL);
    w.s.checks.count = 0;
    l.endpoint = PR_STR("p");
    watch_unread(&w.s, &l);
    l.endpoint = PR_STR("e");
    in_flight[0] = 1; /* it is busy */
    watch_unread(&w.s, &l);
    in_flight[0] = 0;
    l.m.created_us = PR_SECONDS(1001);
    watch_unread(&w.s, &l);
    l.m.created_us = PR_SECONDS(1000);
    w.instance.lease_left_us = 0; /* told elsewhere: nobody works */
    watch_unread(&w.s, &l);
    CHECK_EQ(w.s.checks.count, 0);
    arena_fini(&w.arena);
}

TEST(a_full_disk_and_a_lock_that_somebody_keeps_are_told)
{
    struct watched w;
    struct store_facts facts = { .disk_free_bytes = -1 };
    watched_init(&w, PR_SECONDS(1000));
    watch_facts(&w.s, &facts);
    facts.disk_free_bytes = INT64_C(2) << 30;
    watch_facts(&w.s, &facts);
    CHECK_EQ(w.s.checks.count, 0);
    facts.disk_free_bytes = INT64_C(1) << 20;
    facts.locked = PR_STR("fuser f.db");
    watch_facts(&w.s, &facts);
    CHECK_EQ(w.s.checks.count, 2);
    CHECK_STR(w.s.checks.items[0].name, "locked");
    CHECK(strstr(w.s.checks.items[0].text, "fuser f.db") != NULL);
    CHECK_STR(w.s.checks.items[1].name, "disk");
    CHECK_EQ(w.s.checks.items[1].state, CHECK_ERROR);
    arena_fini(&w.arena);
}

TEST(a_head_that_fails_for_ten_minutes_and_holds_up_others_is_told_with_what_frees_them) /* B78 B205 */
{
    struct watched w;
    struct stream_info stream = { .endpoint = PR_STR("e"),
                                  .stream = PR_STR("s"),
                                  .head_state = STATE_RETRYING,
                                  .failures = 9, /* its eight delays are 8 min 30 s */
                                  .since_us = PR_SECONDS(1000),
                                  .waiting = 3 };
    watched_init(&w, PR_SECONDS(1000) + PR_SECONDS(89));
    w.endpoint.retry = retry_default;
    watch_streams(&w.s, &stream, 1);
    CHECK_EQ(w.s.checks.count, 0);
    w.s.boxes.now_us = PR_SECONDS(1000) + PR_SECONDS(90);
    watch_streams(&w.s, &stream, 1);
    CHECK_EQ(w.s.checks.count, 1);
    CHECK_STR(w.s.checks.items[0].name, "blocked");
    CHECK(strstr(w.s.checks.items[0].text, "holds up 3 messages in stream \"s\" of endpoint") != NULL);
    CHECK(strstr(w.s.checks.items[0].text, "postrider park 00000000-") != NULL);
    stream.waiting = 0; /* nobody waits */
    watch_streams(&w.s, &stream, 1);
    stream.waiting = 3;
    stream.head_state = STATE_PARKED;
    stream.head_yields = true; /* they go on without it */
    watch_streams(&w.s, &stream, 1);
    CHECK_EQ(w.s.checks.count, 1);
    stream.head_yields = false;
    watch_streams(&w.s, &stream, 1);
    CHECK(strstr(w.s.checks.items[1].text, "3 messages wait in stream \"s\"") != NULL);
    CHECK(strstr(w.s.checks.items[1].text, "postrider retry 00000000-") != NULL);
    stream.head_state = STATE_DEAD;
    watch_streams(&w.s, &stream, 1);
    CHECK(strstr(w.s.checks.items[2].text, "behind the dead letter 00000000-") != NULL);
    CHECK(strstr(w.s.checks.items[2].text, "postrider dead replay 00000000-") != NULL);
    CHECK_EQ(w.s.checks.count, 3);
    arena_fini(&w.arena);
}

TEST(attempts_are_numbered_as_people_do) /* B200 */
{
    static const struct {
        int n;
        const char *words;
    } numbers[] = { { 1, "1st" },   { 2, "2nd" },   { 3, "3rd" },   { 4, "4th" },
                    { 11, "11th" }, { 12, "12th" }, { 21, "21st" }, { 113, "113th" } };
    struct arena arena;

    arena_init(&arena, 4096);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        CHECK_STR(ordinal_words(&arena, numbers[i].n), numbers[i].words);
    arena_fini(&arena);
}
