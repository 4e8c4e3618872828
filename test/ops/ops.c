/* The parts of the API that decide: who may come in, where a request goes, what is in it, what is told to listeners. */
#include <stdatomic.h>
#include <string.h>

#include "base/buf.h"
#include "base/slice.h"
#include "check.h"
#include "ops/decode.h"
#include "ops/events.h"
#include "ops/guard.h"
#include "ops/query.h"
#include "ops/route.h"

static const char *const hosts[] = { "relay.example" };

TEST(guard_knows_addresses_localhost_and_its_names)
{
    const struct guard guard = { "", "", hosts, 1, false };
    static const char *const good[] = {
        "localhost", "LocalHost:80",      "127.0.0.1:1",   "192.0.2.1",
        "[::1]",     "[2001:db8::1]:443", "relay.example", "RELAY.example:8026"
    };
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
        CHECK(guard_host_is_known(&guard, good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(!guard_host_is_known(&guard, bad[i]));
    CHECK(guard_host_is_known(&guard, NULL));
    CHECK(guard_host_is_known(&(struct guard){ "", "", NULL, 0, true }, NULL));
}

TEST(guard_gives_the_role_of_the_token_and_nothing_for_another)
{
    const struct guard both = { "operator-token-0123", "viewer-token-012345", NULL, 0, false };
    const struct guard viewers = { "", "viewer-token-012345", NULL, 0, false };
    CHECK_EQ(guard_role(&both, "Bearer operator-token-0123"), ROLE_OPERATOR);
    CHECK_EQ(guard_role(&both, "bearer  viewer-token-012345 "), ROLE_VIEWER);
    CHECK_EQ(guard_role(&both, "Bearer operator-token-012"), ROLE_NONE);
    CHECK_EQ(guard_role(&both, "Bearer operator-token-01234"), ROLE_NONE);
    CHECK_EQ(guard_role(&both, "Bearer "), ROLE_NONE);
    CHECK_EQ(guard_role(&both, "Basic operator-token-0123"), ROLE_NONE);
    CHECK_EQ(guard_role(&both, NULL), ROLE_NONE);
    CHECK_EQ(guard_role(&viewers, "Bearer "), ROLE_NONE); /* an empty token is none */
    CHECK_EQ(guard_role(&viewers, NULL), ROLE_NONE);
    CHECK_EQ(guard_role(&(struct guard){ "", "", NULL, 0, false }, NULL), ROLE_OPERATOR);
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

TEST(every_change_needs_the_operator_and_is_a_post)
{
    for (size_t i = 0; i < route_count; i++) {
        CHECK((strcmp(routes[i].method, "POST") == 0) == (routes[i].role == ROLE_OPERATOR));
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
                               .body = PR_STR(
                                   "{\"specversion\":\"1.0\",\"id\":\"7\",\"type\":\"t\",\"source\":\"s\"}") };
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
    ret[0] = '\0';
    while (strstr(ret, until) == NULL && (n = events_read(e, ret + got, size - 1 - got)) > 0) {
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
