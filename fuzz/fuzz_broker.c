/* The bytes of a broker, through the whole transport and the client library behind it.  The first line is the number of
 * a url, the rest is sent in pieces (wire.c).  Built once for each broker, with its urls in FUZZ_URLS. */
#include "base/time.h"
#include "base/utf8.h"
#include "base/util.h"
#include "core/reason.h"
#include "transport/transport.h"

#include "fuzz.h"
#include "wire.h"

#define MESSAGES 3
#define PATIENCE_US PR_SECONDS(20) /* far more than any input needs: who needs more is in a loop */

static const char *const urls[] = { FUZZ_URLS };

static struct pr_message messages[MESSAGES];
static struct delivery deliveries[MESSAGES];

static void make_deliveries(void)
{
    int64_t now_us = clock_mono_us(clock_system());
    for (size_t i = 0; i < MESSAGES; i++) {
        messages[i] = (struct pr_message){ .type = PR_STR("t"),
                                           .payload = PR_STR("{\"a\":1}"),
                                           .headers = PR_STR("{\"k\":\"v\"}") };
        messages[i].id.bytes[15] = (uint8_t)(i + 1); /* the same each time, so that an input can name it */
        deliveries[i] = (struct delivery){ .message = &messages[i],
                                           .token = i,
                                           .attempt = 1,
                                           .deadline_us = now_us + PR_SECONDS(60),
                                           .start_before_us = now_us + PR_SECONDS(60) };
    }
}

static void check_result(const struct delivery_result *r)
{
    bool failed = r->outcome == SEND_FAILED || r->outcome == SEND_UNKNOWN;
    FUZZ_CHECK(r->token < MESSAGES);
    FUZZ_CHECK(failed == (r->reason != PR_REASON_NONE));
    FUZZ_CHECK(!failed || reason_is_known(r->reason));
    FUZZ_CHECK(r->error == NULL || utf8_valid((pr_slice){ r->error, strlen(r->error) }));
    FUZZ_CHECK(memchr(r->code, '\0', sizeof(r->code)) != NULL);
}

/* P1: each gets one result. */
static void carry_all(struct transport *t)
{
    const struct delivery *list[MESSAGES];
    unsigned results[MESSAGES] = { 0 };
    size_t given = 0, answered = 0;
    for (size_t i = 0; i < MESSAGES; i++)
        list[i] = &deliveries[i];
    while (answered < MESSAGES) {
        struct delivery_result r[2];
        given += transport_submit(t, list + given, given == 0 ? 2 : MESSAGES - given);
        size_t count = transport_poll(t, r, 2, clock_mono_us(clock_system()) + PATIENCE_US);
        FUZZ_CHECK(count > 0);
        for (size_t i = 0; i < count; i++) {
            check_result(&r[i]);
            FUZZ_CHECK(results[r[i].token]++ == 0);
            delivery_result_fini(&r[i]);
        }
        answered += count;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = input_from(data, size);
    int64_t number = input_number(&in);
    struct endpoint_config config = { .name = "x",
                                      .url = urls[(uint64_t)number % ARRAY_LENGTH(urls)],
                                      .timeout_us = PR_SECONDS(60),
                                      .concurrency = MESSAGES + 1,
                                      .wake_fd = -1 };
    struct transport transport = { 0 };
    struct pr_error error = { 0 };
    fuzz_wire_feed(input_rest(&in));
    make_deliveries();
    FUZZ_CHECK(transport_open(&config, &transport, &error) == PR_OK);
    carry_all(&transport);
    transport_close(&transport);
    return 0;
}
