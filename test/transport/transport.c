/* The table of transports, and its dispatcher. */
#include "transport/transport.h"

#include <stdlib.h>
#include <string.h>

#include "base/slice.h"
#include "base/utf8.h"
#include "check.h"
#include "transport/delivery.h"

static int never(struct pr_context *context, const struct pr_message *m, void *user)
{
    (void)context;
    (void)m;
    (void)user;
    return PR_OK;
}

static int check_url(const char *url, struct pr_error *reterr)
{
    const struct endpoint_config config = { .name = "orders", .url = url, .wake_fd = -1, .handler = never };
    *reterr = (struct pr_error){ 0 };
    return transport_check(&config, reterr);
}

TEST(transport_finds_what_is_built_in)
{
    CHECK(transport_find(PR_STR("http")) == &transport_http);
    CHECK(transport_find(PR_STR("https")) == &transport_https);
    CHECK(transport_find(PR_STR("HTTPS")) == &transport_https);
    CHECK(transport_find(PR_STR("handler")) == &transport_handler);
    CHECK(transport_find(PR_STR("console")) == &transport_console);
    CHECK(transport_find(PR_STR("null")) == &transport_null);
    CHECK(transport_find(PR_STR("htt")) == NULL);
    CHECK(transport_find(PR_STR("httpss")) == NULL);
    CHECK(transport_find(PR_STR("")) == NULL);
    CHECK(transport_find(PR_STR("exec")) == &transport_exec);
    CHECK(transport_find(PR_STR("gopher")) == NULL);
}

TEST(transport_knows_names_that_are_not_built_in)
{
    static const char *const names[] = { "kafka", "amqp",  "amqps", "nats", "redis", "rediss", "mqtt",
                                         "mqtts", "amqp1", "exec",  "file", "http",  "null" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        CHECK(transport_is_known_scheme(slice_from(names[i])));
    CHECK(!transport_is_known_scheme(PR_STR("ftp")));
    CHECK(!transport_is_known_scheme(PR_STR("")));
}

TEST(transport_reads_the_scheme_of_a_url)
{
    CHECK_SLICE(transport_scheme("https://host/path:7"), "https");
    CHECK_SLICE(transport_scheme("null:"), "null");
    CHECK_SLICE(transport_scheme("host"), "");
    CHECK_SLICE(transport_scheme(":x"), "");
    CHECK_SLICE(transport_scheme(NULL), "");
}

TEST(transport_check_says_what_is_wrong_with_the_scheme)
{
    struct pr_error error;
    if (transport_find(PR_STR("kafka")) == NULL) { /* a build without its library */
        CHECK_EQ(check_url("kafka://guest:secret@host/", &error), PR_ECONFIG);
        CHECK_STR(error.text, "endpoint orders: this build does not support kafka");
    }
    CHECK_EQ(check_url("htps://host/", &error), PR_ECONFIG);
    CHECK_STR(error.text, "endpoint orders: unknown scheme htps; did you mean https?");
    CHECK_EQ(check_url("handlr:x", &error), PR_ECONFIG);
    CHECK(strstr(error.text, "did you mean handler?") != NULL);
    CHECK_EQ(check_url("gopher://host/", &error), PR_ECONFIG);
    CHECK_STR(error.text, "endpoint orders: unknown scheme gopher");
    CHECK_EQ(check_url("a-very-long-scheme-of-somebody://host/", &error), PR_ECONFIG);
    CHECK_EQ(check_url("host/path", &error), PR_ECONFIG);
    CHECK(strstr(error.text, "no scheme") != NULL);
    CHECK_EQ(check_url("null:", &error), PR_OK);
    CHECK_EQ(check_url("console:", &error), PR_OK);
    CHECK_EQ(check_url("handler:x", &error), PR_OK);
}

TEST(transport_open_refuses_what_check_refuses)
{
    const struct endpoint_config config = { .name = "orders", .url = "nats://host", .wake_fd = -1 };
    struct transport transport = { 0 };
    struct pr_error error;
    CHECK_EQ(transport_open(&config, &transport, &error), PR_ECONFIG);
    CHECK(transport.ops == NULL);
    transport_close(&transport); /* safe on a zeroed one */
}

/* A transport that answers twice must be found out at once (P1). */
static size_t answer_twice(void *self, struct delivery_result *ret, size_t max, int64_t deadline_us)
{
    (void)self;
    (void)max;
    (void)deadline_us;
    result_ok(&ret[0], 1);
    result_ok(&ret[1], 1);
    return 2;
}

static void poll_liar(void *arg)
{
    struct delivery_result results[4];
    const struct transport_ops liar = { .poll = answer_twice };
    struct transport transport = { .ops = &liar, .out = 1 };
    (void)arg;
    transport_poll(&transport, results, 4, 0);
}

TEST(transport_poll_asserts_that_results_are_not_too_many)
{
    CHECK(check_aborts(poll_liar, NULL));
}

/* What a program answers may be longer than a code is, in any characters. */
TEST(transport_result_code_never_ends_inside_a_character) /* B30 */
{
    struct delivery_result r;
    char code[2 * RESULT_CODE_SIZE + 3] = "a";
    for (size_t i = 1; i + 2 < sizeof(code); i += 2)
        memcpy(code + i, "\xc3\xa4", 3);
    for (int from = 0; from < 2; from++) {
        result_failed(&r, 7, SEND_FAILED, PR_REASON_REJECTED, code + from, PR_STR(""));
        CHECK(utf8_valid(slice_from(r.code)));
        CHECK(strlen(r.code) >= RESULT_CODE_SIZE - 2);
    }
    result_failed(&r, 7, SEND_FAILED, PR_REASON_REJECTED, "x\xff", PR_STR(""));
    CHECK_STR(r.code, "x\xef\xbf\xbd");
}

/* B31 */
TEST(transport_result_text_is_clean_and_short)
{
    struct delivery_result r;
    static char dirty[20000];
    memset(dirty, 'x', sizeof(dirty));
    memcpy(dirty, "a\0b\xff\"\\\n\xc3", 8);
    result_failed(&r, 7, SEND_FAILED, PR_REASON_REJECTED, "code", PR_BYTES(dirty, sizeof(dirty)));
    CHECK_EQ(r.token, 7);
    CHECK_STR(r.code, "code");
    CHECK(utf8_valid(slice_from(r.error)));
    CHECK(strncmp(r.error,
                  "a\xef\xbf\xbd"
                  "b\xef\xbf\xbd\"\\\n\xef\xbf\xbdx",
                  14) == 0);
    CHECK_SLICE(utf8_cut(slice_from(r.error), PR_ERROR_MAX), slice_from(r.error));
    CHECK_EQ(strlen(r.error), PR_ERROR_MAX + 3 * 2);
    delivery_result_fini(&r);
    CHECK(r.error == NULL);
    delivery_result_fini(&r);
}
