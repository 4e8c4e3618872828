/* Batches over HTTP against a real receiver: what is split, what is not, and which messages fail. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "check.h"
#include "peer.h"
#include "world.h"

static struct world w;
static char headers[WORLD_MESSAGES_MAX][64];

static size_t add(const char *stream, const char *behaviour)
{
    size_t i = world_add(&w, stream, PR_STR("{}"), WISH_OK);
    if (behaviour != NULL) {
        snprintf(headers[i], sizeof(headers[i]), "{\"x-behave\":\"%s\"}", behaviour);
        w.messages[i].headers = slice_from(headers[i]);
    }
    return i;
}

static void open_batch(unsigned messages, size_t bytes, unsigned requests)
{
    world_prepare(&w, &harness_batch, requests);
    w.config.batch_messages = messages;
    w.config.batch_bytes = bytes;
    world_open(&w);
}

static void check_failed(size_t index, int reason, const char *code)
{
    CHECK_EQ(w.results[index].outcome, SEND_FAILED);
    CHECK_EQ(w.results[index].reason, reason);
    CHECK_STR(w.results[index].code, code);
    CHECK(w.results[index].error != NULL && strstr(w.results[index].error, code) != NULL);
}

TEST(a_batch_refused_as_a_whole_fails_only_the_guilty_one) /* B68 */
{
    static const struct {
        int status, reason;
    } table[] = {
        { 400, PR_REASON_VALIDATION_FAILURE },  { 403, PR_REASON_UNAUTHORIZED },
        { 404, PR_REASON_DESTINATION_MISSING }, { 409, PR_REASON_REJECTED },
        { 413, PR_REASON_MESSAGE_TOO_LARGE },   { 422, PR_REASON_VALIDATION_FAILURE },
        { 500, PR_REASON_DEPENDENCY_FAILURE },  { 501, PR_REASON_DEPENDENCY_FAILURE },
    };
    for (size_t k = 0; k < ARRAY_LENGTH(table); k++) {
        char behaviour[32];
        snprintf(behaviour, sizeof(behaviour), "/status/%d", table[k].status);
        open_batch(32, 0, 1);
        for (size_t i = 0; i < 32; i++)
            add("", i == 5 * k % 32 ? behaviour : NULL);
        world_run(&w);
        world_look(&w);
        for (size_t i = 0; i < 32; i++) {
            if (i == 5 * k % 32)
                check_failed(i, table[k].reason, behaviour + strlen("/status/"));
            else
                CHECK_EQ(w.results[i].outcome, SEND_OK);
            CHECK_EQ(world_arrived(&w, i), i == 5 * k % 32 ? 0 : 1);
        }
        CHECK_EQ(peer_count(harness_http_peer(&w)), 2 * 5 + 1); /* 32 are halved five times */
        world_fini(&w);
    }
}

TEST(a_batch_that_meets_an_outage_fails_as_a_whole_in_one_request) /* B68, B74 */
{
    static const struct {
        const char *behaviour;
        int reason;
        const char *code;
        int64_t after_us;
        bool disable;
    } table[] = {
        { "/status/401", PR_REASON_UNAUTHORIZED, "401", 0, false },
        { "/status/408", PR_REASON_TIMEOUT_EXCEEDED, "408", 0, false },
        { "/status/410", PR_REASON_DESTINATION_MISSING, "410", 0, true },
        { "/retry-after/7", PR_REASON_RATE_LIMITED, "429", PR_SECONDS(7), false },
        { "/status/503", PR_REASON_TRANSPORT_UNAVAILABLE, "503", 0, false },
    };
    for (size_t k = 0; k < ARRAY_LENGTH(table); k++) {
        open_batch(10, 0, 1);
        for (size_t i = 0; i < 10; i++)
            add("", i == 4 ? table[k].behaviour : NULL);
        world_run(&w);
        for (size_t i = 0; i < 10; i++) {
            check_failed(i, table[k].reason, table[k].code);
            CHECK_EQ(w.results[i].retry_after_us, table[k].after_us);
            CHECK_EQ(w.results[i].disable, table[k].disable);
        }
        CHECK_EQ(peer_count(harness_http_peer(&w)), 1);
        world_fini(&w);
    }
}

TEST(a_lost_answer_to_a_batch_is_unknown_for_each)
{
    open_batch(10, 0, 1);
    for (size_t i = 0; i < 10; i++)
        add("", i == 9 ? "/reset" : NULL);
    world_run(&w);
    for (size_t i = 0; i < 10; i++) {
        CHECK_EQ(w.results[i].outcome, SEND_UNKNOWN);
        CHECK_EQ(w.results[i].reason, PR_REASON_TRANSPORT_UNAVAILABLE);
    }
    CHECK_EQ(peer_count(harness_http_peer(&w)), 1);
    world_fini(&w);
}

/* B50, B68: whoever stands behind the guilty one of its stream is not sent after it. */
TEST(a_split_batch_keeps_the_order_of_its_streams)
{
    open_batch(8, 0, 1);
    size_t a1 = add("a", NULL), b1 = add("b", NULL), a2 = add("a", "/status/400"), loose = add("", NULL),
           a3 = add("a", NULL), b2 = add("b", NULL);
    world_run(&w);
    world_look(&w);
    check_failed(a2, PR_REASON_VALIDATION_FAILURE, "400");
    CHECK_EQ(w.results[a3].outcome, SEND_RETURNED);
    CHECK_EQ(world_arrived(&w, a3), 0);
    const size_t taken[] = { a1, b1, loose, b2 };
    CHECK_EQ(w.arrival_count, ARRAY_LENGTH(taken));
    for (size_t i = 0; i < ARRAY_LENGTH(taken); i++) {
        CHECK_EQ(w.results[taken[i]].outcome, SEND_OK);
        CHECK(pr_id_equal(w.arrivals[i].id, w.messages[taken[i]].id));
    }
    world_fini(&w);
}

TEST(a_batch_has_no_more_messages_and_bytes_than_it_may) /* B69 */
{
    static char large[5000];
    open_batch(4, 3000, 8);
    memset(large, 'x', sizeof(large));
    for (size_t i = 0; i < 9; i++)
        add("", NULL);
    w.messages[4].payload = PR_BYTES(large, sizeof(large)); /* more than a whole batch: it goes alone */
    world_run(&w);
    json_t *records = peer_records(harness_http_peer(&w)), *record;
    size_t n, with_large = 0;
    json_array_foreach(records, n, record)
    {
        json_int_t size = json_integer_value(json_object_get(record, "size"));
        with_large += size > (json_int_t)sizeof(large);
        CHECK(size < 8000); /* in base64 */
    }
    CHECK_EQ(with_large, 1);
    CHECK_EQ(json_array_size(records), 3); /* 4, the large one, 4 */
    json_decref(records);
    for (size_t i = 0; i < 9; i++)
        CHECK_EQ(w.results[i].outcome, SEND_OK);
    world_fini(&w);
}

TEST(a_batch_that_is_cancelled_while_it_is_split_returns_the_rest) /* P4 */
{
    int64_t end_us = world_now() + WORLD_WAIT_US;
    open_batch(8, 0, 1);
    for (size_t i = 0; i < 8; i++)
        add("", i == 7 ? "/status/422" : NULL);
    CHECK_EQ(world_submit(&w), 8);
    while (peer_count(harness_http_peer(&w)) < 1) { /* the whole; its refusal may be on its way */
        CHECK(world_now() < end_us);
        world_poll(&w, PR_MILLISECONDS(1));
    }
    world_cancel(&w);
    world_collect(&w);
    world_look(&w);
    size_t returned = 0;
    for (size_t i = 0; i < 8; i++) {
        CHECK_EQ(w.result_counts[i], 1);
        returned += w.results[i].outcome == SEND_RETURNED;
        CHECK_EQ(world_arrived(&w, i), w.results[i].outcome == SEND_OK ? 1 : 0);
    }
    CHECK(returned >= 1);
    world_fini(&w);
}

TEST(batches_are_refused_where_they_make_no_sense)
{
    struct endpoint_config config = { .name = "e", .envelope = "batch", .url = "https://example.org/{type}" };
    struct pr_error error;
    CHECK_EQ(transport_check(&config, &error), PR_ECONFIG);
    CHECK(strstr(error.text, "it cannot have placeholders") != NULL);
    config.url = "console:";
    CHECK_EQ(transport_check(&config, &error), PR_ECONFIG);
    CHECK(strstr(error.text, "envelope batch needs http or https") != NULL);
    config.url = "https://example.org/";
    CHECK_EQ(transport_check(&config, &error), PR_OK);
    CHECK_EQ(transport_capacity(&config), 400);
    config.concurrency = 1001;
    CHECK_EQ(transport_check(&config, &error), PR_ECONFIG);
    CHECK(strstr(error.text, "concurrency times batch.messages can be at most 100000") != NULL);
    config.concurrency = 1000;
    config.ca = "/nobody/has/this";
    CHECK_EQ(transport_check(&config, &error), PR_ECONFIG);
    CHECK(strstr(error.text, "ca: /nobody/has/this cannot be read") != NULL);
}
