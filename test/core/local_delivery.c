/* The change of a message that goes into another box. */
#include "core/local_delivery.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"

static void goes(const char *file, int line, const char *headers, const char *want)
{
    struct pr_message m = { .type = PR_STR("t"), .headers = pr_str(headers), .destination = PR_STR("ledger") };
    struct send_effect *e;
    CHECK_EQ(local_effect(&m, PR_STR("outbox"), PR_STR("ledger"), &e), PR_OK);
    check_slice(file, line, headers, e->message.headers, pr_str(want));
    CHECK_SLICE(e->box, "ledger");
    CHECK_EQ(e->message.destination.size, 0);
    effects_free(e);
}

#define GOES(headers, want) goes(__FILE__, __LINE__, (headers), (want))

TEST(a_message_says_through_which_boxes_it_came)
{
    GOES("", "{\"postrider-from\":\"outbox\"}");
    GOES(" {} ", "{\"postrider-from\":\"outbox\"}");
    GOES("{ }", "{\"postrider-from\":\"outbox\"}");
    GOES("{\"a\":{\"b\":[1]}}", "{\"postrider-from\":\"outbox\",\"a\":{\"b\":[1]}}");
    GOES("{\"postrider-from\" : \"shop\" , \"a\":1}", "{\"postrider-from\" : \"shop,outbox\" , \"a\":1}");
    GOES("{\"postrider-from\":7}", "{\"postrider-from\":\"outbox\"}");
    GOES("{\"a\":\"postrider-from\"}", "{\"postrider-from\":\"outbox\",\"a\":\"postrider-from\"}");
}

/* Else it could go round for ever. */
TEST(headers_without_room_are_refused)
{
    struct pr_message m = { .type = PR_STR("t") };
    char *headers = malloc(PR_HEADERS_MAX);
    memset(headers, 'x', PR_HEADERS_MAX);
    memcpy(headers, "{\"a\":\"", 6);
    memcpy(headers + PR_HEADERS_MAX - 2, "\"}", 2);
    m.headers = (pr_slice){ headers, PR_HEADERS_MAX };
    struct send_effect *e;
    CHECK_EQ(local_effect(&m, PR_STR("outbox"), PR_STR("ledger"), &e), PR_ETOOBIG);
    free(headers);
}

/* It was stored when such events were not refused. */
TEST(an_event_without_a_stream_goes_on_as_a_message)
{
    const struct pr_message m = { .type = PR_STR("t"), .event = true };
    struct send_effect *e;
    CHECK_EQ(local_effect(&m, PR_STR("outbox"), PR_STR("ledger"), &e), PR_OK);
    CHECK(!e->message.event);
    effects_free(e);
}

TEST(a_message_does_not_come_back_to_a_box)
{
    struct pr_message m = { .headers = PR_STR("{\"postrider-from\":\"shop,out\"}") };
    CHECK(local_is_loop(&m, PR_STR("outbox"), PR_STR("outbox")));
    CHECK(local_is_loop(&m, PR_STR("outbox"), PR_STR("shop")));
    CHECK(local_is_loop(&m, PR_STR("outbox"), PR_STR("out")));
    CHECK(!local_is_loop(&m, PR_STR("outbox"), PR_STR("sho")));
    CHECK(!local_is_loop(&m, PR_STR("outbox"), PR_STR("ledger")));
    m.headers = PR_STR("{\"other\":\"ledger\"}");
    CHECK(!local_is_loop(&m, PR_STR("outbox"), PR_STR("ledger")));
}
