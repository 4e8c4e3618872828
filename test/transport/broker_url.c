/* Urls, templates and headers as the broker transports read them. */
#include "check.h"

#include <string.h>

#include "base/slice.h"
#include "transport/broker/broker_url.h"
#include "transport/own_headers.h"
#include "transport/broker/reconnect.h"
#include "transport/template.h"

static const char *const known[] = { "exchange", "key", "tls", "max", NULL };

static int parse(const char *text, struct arena *arena, struct broker_url *url, struct pr_error *error)
{
    struct endpoint_config config = { .name = "orders", .url = text };
    arena_reset(arena);
    return broker_url_parse(&config, 5672, known, arena, url, error);
}

TEST(a_url_is_taken_apart_and_decoded)
{
    struct arena arena;
    struct broker_url url;
    struct pr_error error;
    arena_init(&arena, 1024);
    CHECK_OK(parse("amqp://gu%65st:p%40ss:w@broker.example:5673/a%2Fb?exchange=or%26ders&key={type}.x", &arena, &url,
                   &error),
             &error);
    CHECK_SLICE(url.scheme, "amqp");
    CHECK_SLICE(url.user, "guest");
    CHECK_SLICE(url.password, "p@ss:w");
    CHECK_SLICE(url.host, "broker.example");
    CHECK_EQ(url.port, 5673);
    CHECK(url.has_path);
    CHECK_SLICE(url.path, "a/b");
    CHECK_SLICE(broker_url_param(&url, "exchange", "none"), "or&ders");
    CHECK_SLICE(broker_url_param(&url, "key", ""), "{type}.x");
    CHECK_SLICE(broker_url_param(&url, "tls", "fallback"), "fallback");

    CHECK_OK(parse("amqp://localhost", &arena, &url, &error), &error);
    CHECK_EQ(url.port, 5672);
    CHECK(!url.has_path);
    CHECK_EQ(url.user.size, 0);
    CHECK_OK(parse("amqp://me@[::1]:7/", &arena, &url, &error), &error);
    CHECK_SLICE(url.host, "::1");
    CHECK_SLICE(url.user, "me");
    CHECK_EQ(url.port, 7);
    CHECK(url.has_path);
    CHECK_EQ(url.path.size, 0);
    arena_fini(&arena);
}

TEST(a_url_may_have_several_hosts_where_that_is_allowed)
{
    struct arena arena;
    struct broker_url url;
    struct pr_error error;
    struct endpoint_config config = { .name = "orders", .url = "kafka://me:pw@127.0.0.1:1,[::1],far.example:3/t" };
    arena_init(&arena, 1024);
    CHECK_OK(broker_url_parse_hosts(&config, 9092, known, &arena, &url, &error), &error);
    CHECK_EQ(url.host_count, 3);
    CHECK_SLICE(url.host, "127.0.0.1");
    CHECK_EQ(url.port, 1);
    CHECK_SLICE(url.hosts[1].name, "::1");
    CHECK_EQ(url.hosts[1].port, 9092);
    CHECK_SLICE(url.hosts[2].name, "far.example");
    CHECK_EQ(url.hosts[2].port, 3);
    CHECK_EQ(broker_url_check_wire(&config, &url, false, &error), PR_ECONFIG); /* each of them counts */
    CHECK(strstr(error.text, "far.example is another machine") != NULL);
    config.url = "kafka://a,,b/t";
    CHECK_EQ(broker_url_parse_hosts(&config, 9092, known, &arena, &url, &error), PR_ECONFIG);
    config.url = "kafka://a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a/t";
    CHECK_EQ(broker_url_parse_hosts(&config, 9092, known, &arena, &url, &error), PR_ECONFIG);
    CHECK_EQ(parse("amqp://a,b/t", &arena, &url, &error), PR_ECONFIG);
    arena_fini(&arena);
}

TEST(a_wrong_url_is_refused_by_what_is_wrong_and_never_repeated) /* B204 */
{
    static const struct {
        const char *url, *text;
    } cases[] = {
        { "amqp:localhost", "use amqp://host" },
        { "amqp://", "no host" },
        { "amqp://:secret@", "no host" },
        { "amqp://h:0", "port" },
        { "amqp://h:65536", "port" },
        { "amqp://h:99999999999999999999", "port" },
        { "amqp://h:secret", "port" },
        { "amqp://[::1", "[ has no ]" },
        { "amqp://[::1]7", "can follow ]" },
        { "amqp://{type}", "after the host" },
        { "amqp://h/%", "two digits" },
        { "amqp://h/%2", "two digits" },
        { "amqp://h/%zz", "two digits" },
        { "amqp://h/%00", "NUL" },
        { "amqp://h/#secret", "%23" },
        { "amqp://h/?exchnge=secret", "unknown parameter exchnge in the url; known are: exchange, key, tls, max" },
        { "amqp://h/?key=secret&key=b", "key twice" },
    };
    struct arena arena;
    struct broker_url url;
    arena_init(&arena, 1024);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pr_error error = { 0 };
        CHECK_EQ(parse(cases[i].url, &arena, &url, &error), PR_ECONFIG);
        CHECK(strstr(error.text, "endpoint orders: ") == error.text);
        CHECK(strstr(error.text, cases[i].text) != NULL);
        CHECK(strstr(error.text, "secret") == NULL); /* B204 */
    }
    arena_fini(&arena);
}

TEST(parameters_are_words_and_numbers_within_bounds)
{
    struct endpoint_config config = { .name = "orders", .url = "amqp://h?tls=true&max=120" };
    struct arena arena;
    struct broker_url url;
    struct pr_error error;
    bool on;
    int64_t number;
    arena_init(&arena, 1024);
    CHECK_OK(broker_url_parse(&config, 1, known, &arena, &url, &error), &error);
    CHECK_OK(broker_url_bool(&config, &url, "tls", false, &on, &error), &error);
    CHECK(on);
    CHECK_OK(broker_url_bool(&config, &url, "key", false, &on, &error), &error);
    CHECK(!on);
    CHECK_EQ(broker_url_bool(&config, &url, "max", false, &on, &error), PR_ECONFIG);
    CHECK_OK(broker_url_number(&config, &url, "max", 7, 1, 120, &number, &error), &error);
    CHECK_EQ(number, 120);
    CHECK_OK(broker_url_number(&config, &url, "key", 7, 1, 120, &number, &error), &error);
    CHECK_EQ(number, 7);
    CHECK_EQ(broker_url_number(&config, &url, "max", 7, 1, 119, &number, &error), PR_ECONFIG);
    CHECK_EQ(broker_url_number(&config, &url, "tls", 7, 1, 119, &number, &error), PR_ECONFIG);
    arena_fini(&arena);
}

TEST(a_template_is_filled_from_the_message)
{
    const struct pr_message m = { .type = PR_STR("order.created"), .stream = PR_STR("o-1"), .source = PR_STR("shop") };
    struct pr_error error;
    struct buf b;
    buf_init(&b, 1024);
    CHECK_OK(template_check("orders", "key", PR_STR("{source}.{type}/{stream}{subject}{destination}"), &error), &error);
    template_fill(&b, PR_STR("{source}.{type}/{stream}{subject}!"), &m);
    CHECK_SLICE(buf_slice(&b), "shop.order.created/o-1!");
    buf_fini(&b);
    CHECK(template_is_fixed(PR_STR("orders")));
    CHECK(!template_is_fixed(PR_STR("orders.{id}")));
    CHECK_EQ(template_check("orders", "key", PR_STR("{typ}"), &error), PR_ECONFIG);
    CHECK_EQ(template_check("orders", "key", PR_STR("{type"), &error), PR_ECONFIG);
    CHECK_EQ(template_check("orders", "key", PR_STR("type}"), &error), PR_ECONFIG);
    CHECK_OK(template_check("orders", "key", PR_STR("{id}{id}{id}{id}"), &error), &error);
}

TEST(own_headers_are_texts)
{
    const struct pr_message m = { .headers = PR_STR("{\"a\":\"b\",\"n\":1.5,\"t\":true,\"z\":null,\"e\":\"\"}") };
    const struct pr_message bad = { .headers = PR_STR("[1]") }, nested = { .headers = PR_STR("{\"o\":{}}") },
                            none = { 0 };
    struct own_header *headers;
    struct pr_error error;
    struct arena arena;
    size_t count;
    arena_init(&arena, 1024);
    CHECK_OK(own_headers_read(&m, &arena, &headers, &count, &error), &error);
    CHECK_EQ(count, 4);
    CHECK_SLICE(headers[0].name, "a");
    CHECK_SLICE(headers[0].value, "b");
    CHECK_SLICE(headers[1].value, "1.5");
    CHECK_SLICE(headers[2].value, "true");
    CHECK_SLICE(headers[3].name, "e");
    CHECK_EQ(headers[3].value.size, 0);
    CHECK_OK(own_headers_read(&none, &arena, &headers, &count, &error), &error);
    CHECK_EQ(count, 0);
    CHECK_EQ(own_headers_read(&bad, &arena, &headers, &count, &error), PR_EINVAL);
    CHECK_EQ(own_headers_read(&nested, &arena, &headers, &count, &error), PR_EINVAL);
    CHECK(strstr(error.text, "\"o\"") != NULL);
    arena_fini(&arena);
}

TEST(the_first_reconnect_is_at_once_then_at_most_one_a_second)
{
    struct reconnect r = { 0 };
    int64_t now_us = PR_SECONDS(100);
    CHECK(reconnect_may(&r, now_us));
    reconnect_tried(&r, now_us);
    CHECK(!reconnect_may(&r, now_us));
    CHECK(!reconnect_may(&r, now_us + PR_SECONDS(1) - 1));
    CHECK(reconnect_may(&r, now_us + PR_SECONDS(1)));
    reconnect_worked(&r); /* and was lost right afterwards */
    CHECK(reconnect_may(&r, now_us));
}
