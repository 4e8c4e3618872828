/* Messages that decisions make. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/slice.h"
#include "core/message.h"
#include "policy/raised.h"

static struct pr_message failed = { .type = PR_STR("t"),
                                    .stream = PR_STR("s"),
                                    .payload = PR_STR("body"),
                                    .headers = PR_STR(" {\"k\": \"v\"} "),
                                    .correlation_id = PR_STR("c"),
                                    .event = true,
                                    .expires_us = 5 };

static struct raised about(struct failure *f)
{
    *f = (struct failure){ .message = &failed,
                           .endpoint = PR_STR("e"),
                           .reason = PR_REASON_REJECTED,
                           .code = PR_STR("550"),
                           .error = PR_STR("say \"no\"\n\xff"),
                           .failures = 3 };
    return (struct raised){ .failure = f,
                            .rule = PR_STR("r"),
                            .box = PR_STR("outbox"),
                            .attempts = 4,
                            .at_us = PR_SECONDS(1),
                            .id = { .bytes = { 1 } } };
}

TEST(a_raise_without_a_payload_tells_everything)
{
    struct failure f;
    struct raised a = about(&f);
    struct raise raise = { .type = PR_STR("alarm"), .to = PR_STR("x") };
    struct send_effect *effect = raised_raise(&a, &raise);
    CHECK(effect != NULL);
    CHECK_SLICE(effect->box, "outbox");
    CHECK_SLICE(effect->message.payload, "{\"id\":\"00000000-0000-0000-0000-000000000000\",\"type\":\"t\",\"stream\":"
                                         "\"s\",\"endpoint\":\"e\",\"box\":\"outbox\","
                                         "\"reason\":\"rejected\",\"code\":\"550\",\"error\":\"say "
                                         "\\\"no\\\"\\n\xef\xbf\xbd\",\"failures\":3,\"attempts\":4,\"rule\":\"r\","
                                         "\"at\":\"1970-01-01T00:00:01.000000Z\"}");
    CHECK_SLICE(effect->message.correlation_id, "c");
    CHECK(message_was_raised(&effect->message) && !message_was_moved(&effect->message));
    CHECK(message_check(&effect->message, 1 << 20, NULL) == PR_OK);
    free(effect);
}

TEST(templates_are_filled_in_and_other_braces_stay) /* B64 */
{
    struct failure f;
    struct raised a = about(&f);
    struct raise raise = { .type = PR_STR("alarm"),
                           .payload = PR_STR("{\"a\":{\"e\":\"{error}\"},\"n\":{failures},\"x\":\"{nothing}\"}{") };
    struct buf b;
    buf_init(&b, 1000);
    raised_payload(&a, &raise, &b);
    CHECK_SLICE(buf_slice(&b), "{\"a\":{\"e\":\"say \\\"no\\\"\\n\xef\xbf\xbd\"},\"n\":3,\"x\":\"{nothing}\"}{");
    buf_fini(&b);
}

TEST(a_payload_that_would_grow_too_large_is_an_empty_object)
{
    static char text[RAISE_PAYLOAD_MAX];
    struct failure f;
    struct raised a = about(&f);
    for (size_t i = 0; i + 7 <= sizeof(text); i += 7)
        memcpy(text + i, "{error}", 7);
    struct raise raise = { .type = PR_STR("alarm"), .payload = { text, sizeof(text) } };
    static char long_error[1000];
    memset(long_error, 'x', sizeof(long_error));
    f.error = (pr_slice){ long_error, sizeof(long_error) };
    struct send_effect *effect = raised_raise(&a, &raise);
    CHECK(effect != NULL);
    CHECK_SLICE(effect->message.payload, "{}");
    free(effect);
}

TEST(a_moved_message_is_the_same_with_its_diagnosis)
{
    struct failure f;
    struct raised a = about(&f);
    struct send_effect *effect = raised_move(&a, PR_STR("other"));
    CHECK(effect != NULL);
    CHECK_SLICE(effect->message.payload, "body");
    CHECK_SLICE(effect->message.destination, "other");
    CHECK_SLICE(effect->message.headers,
                "{\"postrider-dead-id\":\"00000000-0000-0000-0000-000000000000\",\"postrider-dead-endpoint\":\"e\","
                "\"postrider-dead-reason\":\"rejected\",\"postrider-dead-code\":\"550\",\"postrider-dead-error\":\"say "
                "\\\"no\\\"\\n\xef\xbf\xbd\","
                "\"postrider-dead-rule\":\"r\",\"postrider-dead-failures\":\"3\",\"postrider-dead-attempts\":\"4\","
                "\"postrider-dead-at\":\"1970-01-01T00:00:01.000000Z\",\"k\": \"v\"}");
    CHECK(slice_is_json_object(effect->message.headers));
    CHECK(!effect->message.event && effect->message.expires_us == 0);
    CHECK(message_was_moved(&effect->message) && !message_was_raised(&effect->message));
    free(effect);
}

TEST(headers_that_leave_no_room_give_way_to_the_diagnosis)
{
    static char big[PR_HEADERS_MAX];
    struct failure f;
    struct raised a = about(&f);
    struct pr_message m = failed;
    size_t n = 0;
    n += (size_t)snprintf(big, sizeof(big), "{\"k\":\"");
    memset(big + n, 'x', sizeof(big) - n - 2);
    memcpy(big + sizeof(big) - 2, "\"}", 2);
    m.headers = (pr_slice){ big, sizeof(big) };
    f.message = &m;
    struct send_effect *effect = raised_move(&a, PR_STR("other"));
    CHECK(effect != NULL);
    CHECK(effect->message.headers.size < 2000 && slice_is_json_object(effect->message.headers));
    free(effect);
}
