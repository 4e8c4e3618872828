/* The event store: messages with `event` get the next version of their stream with their sender's commit, and all events have
 * one order that never changes. */
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/slice.h"

#define EVENT(s, name, ...)                                                                                            \
    SEND(s, "outbox", .event = true, .stream = PR_STR(name), .type = PR_STR("placed"), ##__VA_ARGS__)

/* "place stream version payload;" of each; place only where all were asked for. */
static const char *events_words(struct suite *s, struct filter filter)
{
    static char text[2000];
    const struct query_reply *r = suite_query(s, QUERY_EVENTS, filter);
    size_t size = 0;
    text[0] = '\0';
    for (size_t i = 0; i < r->event_count; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size, "%llu %.*s %llu %.*s;",
                                 (unsigned long long)r->events[i].place, SLICE_ARGS(r->events[i].stream),
                                 (unsigned long long)r->events[i].version, SLICE_ARGS(r->events[i].payload));
    return text;
}

STORE_TEST(an_event_gets_the_next_version_of_its_stream_one_first) /* B95 */
{
    EVENT(s, "a", .payload = PR_STR("1"));
    EVENT(s, "b", .payload = PR_STR("2"));
    EVENT(s, "a", .payload = PR_STR("3"));
    CHECK_STR(events_words(s, FILTER(.stream = PR_STR("a"))), "0 a 1 1;0 a 2 3;");
    CHECK_STR(events_words(s, FILTER(.stream = PR_STR("b"))), "0 b 1 2;");
    CHECK_STR(events_words(s, FILTER(.stream = PR_STR("a"), .after = 1)), "0 a 2 3;");
    CHECK_STR(events_words(s, FILTER(.after = 0)), "1 a 1 1;2 b 1 2;3 a 2 3;");
    CHECK_STR(events_words(s, FILTER(.after = 1, .limit = 1)), "2 b 1 2;");
    CHECK(suite_query(s, QUERY_EVENTS, FILTER(.after = 1, .limit = 1))->more);
}

STORE_TEST(an_event_has_what_its_message_had) /* B95 */
{
    pr_id id = EVENT(s, "a", .payload = PR_BYTES("\0\xff", 2), .headers = PR_STR("{\"k\":\"v\"}"),
                     .content_type = PR_STR("x/y"));
    const struct query_reply *r = suite_query(s, QUERY_EVENTS, FILTER(.stream = PR_STR("a")));
    CHECK_EQ(r->event_count, 1);
    const struct stored_event *e = &r->events[0];
    CHECK(pr_id_equal(e->id, id));
    CHECK_SLICE(e->type, "placed");
    CHECK_SLICE(e->headers, "{\"k\":\"v\"}");
    CHECK_SLICE(e->content_type, "x/y");
    CHECK_EQ(e->payload.size, 2);
    CHECK(memcmp(e->payload.data, "\0\xff", 2) == 0);
    CHECK_EQ(e->created_us, s->wall_us);
}

STORE_TEST(an_answer_of_events_has_a_limit_of_bytes_and_at_least_one) /* B95 */
{
    static char payload[EVENTS_BYTES / 2 + 1];
    const struct pr_message large = {
        .type = PR_STR("t"), .stream = PR_STR("a"), .event = true, .payload = PR_BYTES(payload, sizeof(payload))
    };
    for (int i = 0; i < 4; i++)
        CHECK_OK(store_enqueue(&s->store, PR_STR("outbox"), &large, 1, PR_PAYLOAD_MAX, NULL, NULL, &s->error),
                 &s->error);
    const struct filter filters[] = { FILTER(.stream = PR_STR("a")), FILTER(.after = 0) };
    for (size_t i = 0; i < 2; i++) {
        struct filter f = filters[i];
        const struct query_reply *r = suite_query(s, QUERY_EVENTS, f);
        CHECK_EQ(r->event_count, 2);
        CHECK(r->more);
        CHECK_EQ(r->events[1].payload.size, sizeof(payload));
        f.after = 2;
        r = suite_query(s, QUERY_EVENTS, f);
        CHECK_EQ(r->event_count, 2);
        CHECK(!r->more);
        f.limit = 1;
        CHECK_EQ(suite_query(s, QUERY_EVENTS, f)->event_count, 1);
    }
    EVENT(s, "b", .headers = PR_STR("{}"));
    CHECK_EQ(suite_query(s, QUERY_EVENTS, FILTER(.after = 3))->event_count, 2);
}

STORE_TEST(what_is_no_event_is_not_in_the_event_store) /* B96 */
{
    SEND(s, "outbox", .stream = PR_STR("a"));
    CHECK_STR(events_words(s, FILTER(.stream = PR_STR("a"))), "");
    CHECK_STR(events_words(s, FILTER(.after = 0)), "");
}

STORE_TEST(the_same_event_again_is_a_duplicate_and_stored_once) /* B95, B2 */
{
    struct pr_message m = { .id = suite_id(7), .event = true, .stream = PR_STR("a"), .payload = PR_STR("x") };
    CHECK_EQ(suite_offer(s, "outbox", m), PR_OK);
    CHECK_EQ(suite_offer(s, "outbox", m), PR_DUPLICATE);
    CHECK_EQ(suite_offer(s, "inbox", m), PR_OK); /* in another box it is another message, but no other event */
    CHECK_STR(events_words(s, FILTER(.stream = PR_STR("a"))), "0 a 1 x;");
    EVENT(s, "a", .payload = PR_STR("y"));
    CHECK_STR(events_words(s, FILTER(.stream = PR_STR("a"))), "0 a 1 x;0 a 2 y;");
}

STORE_TEST(retries_parts_and_replays_of_an_event_store_nothing_more) /* B37, B95 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = EVENT(s, "a", .payload = PR_STR("x"));
    struct claim c = worker_claim(w, id);
    const pr_slice to[] = { PR_STR("e"), PR_STR("f") };
    const struct verdict v = VERDICT_OF(c, .kind = VERDICT_SPLIT, .destinations = to, .destination_count = 2);
    CHECK_EQ(CYCLE(w, .verdicts = &v, .verdict_count = 1)->answers[0], PR_OK);
    CHECK_EQ(suite_query(s, QUERY_ID, FILTER(.ids = &id, .id_count = 1))->listed_count, 2);
    CHECK_STR(events_words(s, FILTER(.after = 0)), "1 a 1 x;");
}

STORE_TEST(the_status_of_an_event_says_that_it_is_stored) /* B37, B95, B96 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id event = EVENT(s, "a"), other = SEND(s, "outbox", .stream = PR_STR("b"));
    CHECK_EQ(suite_get(s, event)->m.status, PR_STATUS_STORED | PR_STATUS_EVENT_STORED);
    CHECK_EQ(suite_get(s, other)->m.status, PR_STATUS_STORED);
    struct claim c = worker_claim(w, event);
    const struct verdict v = VERDICT_OF(c, .kind = VERDICT_FAIL, .reason = PR_REASON_TIMEOUT_EXCEEDED, .delay_us = 1,
                                        .bits = PR_STATUS_FAILED);
    CHECK_EQ(CYCLE(w, .verdicts = &v, .verdict_count = 1)->answers[0], PR_OK);
    CHECK_EQ(suite_get(s, event)->m.status, PR_STATUS_STORED | PR_STATUS_EVENT_STORED | PR_STATUS_FAILED);
    CHECK_STR(events_words(s, FILTER(.after = 0)), "1 a 1 ;");
}

/* ---- Expected versions ---- */

#define EXPECT(name, n, version)                                                                                       \
    (struct pr_message)                                                                                                \
    {                                                                                                                  \
        .id = suite_id(n), .type = PR_STR("t"), .stream = PR_STR(name), .event = true, .expects_version = true,        \
        .expected_version = (version)                                                                                  \
    }

STORE_TEST(an_expected_version_refuses_with_both_numbers) /* B95 */
{
    CHECK_EQ(suite_offer(s, "outbox", EXPECT("a", 1, 1)), PR_ECONFLICT);
    CHECK_EQ(s->error.expected_version, 1);
    CHECK_EQ(s->error.version, 0);
    CHECK_EQ(suite_offer(s, "outbox", EXPECT("a", 2, 0)), PR_OK);
    CHECK_EQ(suite_offer(s, "outbox", EXPECT("a", 3, 0)), PR_ECONFLICT);
    CHECK_STR(s->error.text, "stream \"a\" is at version 1, not 0: read it again before you retry");
    CHECK_EQ(suite_offer(s, "outbox", EXPECT("a", 4, 1)), PR_OK);
    CHECK_EQ(s->error.version, 1);
    EVENT(s, "a");
    CHECK_EQ(suite_offer(s, "outbox", EXPECT("a", 5, 2)), PR_ECONFLICT);
    CHECK_EQ(suite_offer(s, "outbox", EXPECT("a", 5, 3)), PR_OK);
    CHECK_EQ(suite_query(s, QUERY_EVENTS, FILTER(.stream = PR_STR("a")))->event_count, 4);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.box = PR_STR("outbox"))), 4); /* what was refused is not sent */
}

STORE_TEST(the_same_send_again_is_a_duplicate_and_no_conflict) /* B95, B2 */
{
    CHECK_EQ(suite_offer(s, "outbox", EXPECT("a", 1, 0)), PR_OK);
    CHECK_EQ(suite_offer(s, "outbox", EXPECT("a", 1, 0)), PR_DUPLICATE);
    struct worker *w = suite_join(s, "outbox");
    struct claim c = worker_claim(w, suite_id(1));
    const struct verdict v = VERDICT_OF(c, .kind = VERDICT_COMPLETE);
    CHECK_EQ(CYCLE(w, .verdicts = &v, .verdict_count = 1)->answers[0], PR_OK);
    CHECK_EQ(suite_offer(s, "outbox", EXPECT("a", 1, 0)), PR_DUPLICATE); /* also when it has been delivered */
    CHECK_EQ(suite_offer(s, "outbox", EXPECT("a", 1, 9)), PR_DUPLICATE);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.box = PR_STR("outbox"))), 0);
    CHECK_STR(events_words(s, FILTER(.stream = PR_STR("a"))), "0 a 1 ;");
}

STORE_TEST(many_with_expected_versions_are_all_or_none_and_count_each_other) /* B95 */
{
    const struct pr_message good[] = { EXPECT("a", 1, 0), EXPECT("b", 2, 0), EXPECT("a", 3, 1) };
    const struct pr_message bad[] = { EXPECT("c", 4, 0), EXPECT("a", 5, 1) };
    int answers[3];
    CHECK_OK(store_enqueue(&s->store, PR_STR("outbox"), good, 3, PR_PAYLOAD_MAX, NULL, answers, &s->error), &s->error);
    CHECK_EQ(answers[0] + answers[1] + answers[2], PR_OK);
    CHECK_EQ(store_enqueue(&s->store, PR_STR("outbox"), bad, 2, PR_PAYLOAD_MAX, NULL, answers, &s->error),
             PR_ECONFLICT);
    CHECK_EQ(s->error.version, 2);
    CHECK_STR(events_words(s, FILTER(.after = 0)), "1 a 1 ;2 b 1 ;3 a 2 ;");
}

STORE_TEST(an_expected_version_is_for_events_only)
{
    CHECK_EQ(suite_offer(s, "outbox", (struct pr_message){ .expects_version = true }), PR_EINVAL);
    CHECK_EQ(suite_offer(s, "outbox", EXPECT("a", 1, -1)), PR_EINVAL);
}

/* A handler sends an event that expects a version: nothing of its delivery is stored when the stream has another one. */
STORE_TEST(an_event_of_a_handler_that_expects_another_version_takes_its_verdict) /* B95 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id first = SEND(s, "outbox"), second = SEND(s, "outbox"), third = SEND(s, "outbox");
    struct claim a = worker_claim(w, first), b = worker_claim(w, second), c = worker_claim(w, third);
    struct pr_message wrong = EXPECT("a", 1, 5), right = EXPECT("b", 2, 0), again = EXPECT("b", 3, 1);
    const struct verdict verdicts[] = { VERDICT_OF(a, .kind = VERDICT_COMPLETE),
                                        VERDICT_OF(b, .kind = VERDICT_COMPLETE) };
    const struct effect effects[] = {
        { .kind = EFFECT_MESSAGE, .box = PR_STR("ledger"), .message = &wrong, .verdict = 0 },
        { .kind = EFFECT_MESSAGE, .box = PR_STR("ledger"), .message = &right, .verdict = 1 },
    };
    const struct cycle_reply *r =
        CYCLE(w, .verdicts = verdicts, .verdict_count = 2, .effects = effects, .effect_count = 2);
    CHECK_EQ(r->answers[0], ANSWER_REFUSED);
    CHECK_EQ(r->answers[1], PR_OK);
    CHECK_STR(events_words(s, FILTER(.after = 0)), "1 b 1 ;");
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.box = PR_STR("ledger"))), 1);
    const struct verdict v = VERDICT_OF(c, .kind = VERDICT_COMPLETE);
    const struct effect e = { .kind = EFFECT_MESSAGE, .box = PR_STR("ledger"), .message = &again };
    CHECK_EQ(CYCLE(w, .verdicts = &v, .verdict_count = 1, .effects = &e, .effect_count = 1)->answers[0], PR_OK);
    CHECK_STR(events_words(s, FILTER(.stream = PR_STR("b"))), "0 b 1 ;0 b 2 ;");
}

/* Two handlers in one cycle append to one stream, one of them by what it has seen: the other one must not come in between. */
STORE_TEST(nobody_comes_between_what_a_handler_saw_and_what_it_appends) /* B95 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id first = SEND(s, "outbox"), second = SEND(s, "outbox"), third = SEND(s, "outbox");
    struct claim a = worker_claim(w, first), b = worker_claim(w, second), c = worker_claim(w, third);
    struct pr_message plain = { .id = suite_id(1), .type = PR_STR("t"), .stream = PR_STR("a"), .event = true };
    struct pr_message seen = EXPECT("a", 2, 0), other = EXPECT("b", 3, 0);
    const struct verdict verdicts[] = { VERDICT_OF(a, .kind = VERDICT_COMPLETE),
                                        VERDICT_OF(b, .kind = VERDICT_COMPLETE),
                                        VERDICT_OF(c, .kind = VERDICT_COMPLETE) };
    const struct effect effects[] = {
        { .kind = EFFECT_MESSAGE, .box = PR_STR("ledger"), .message = &plain, .verdict = 0 },
        { .kind = EFFECT_MESSAGE, .box = PR_STR("ledger"), .message = &seen, .verdict = 1 },
        { .kind = EFFECT_EVENT, .message = &other, .expected = EFFECT_ANY, .verdict = 2 },
    };
    const struct cycle_reply *r =
        CYCLE(w, .verdicts = verdicts, .verdict_count = 3, .effects = effects, .effect_count = 3);
    CHECK_EQ(r->answers[0], ANSWER_BUSY);
    CHECK_EQ(r->answers[1], PR_OK);
    CHECK_EQ(r->answers[2], PR_OK);
    CHECK_EQ(CYCLE(w, .verdicts = verdicts, .verdict_count = 1, .effects = effects, .effect_count = 1)->answers[0],
             PR_OK);
    const struct query_reply *q = suite_query(s, QUERY_EVENTS, FILTER(.stream = PR_STR("a")));
    CHECK_EQ(q->event_count, 2);
    CHECK(pr_id_equal(q->events[0].id, seen.id));
}

/* Messages that are events, and appended events of one stream, by one verdict: each gets a version of its own. */
STORE_TEST(a_handler_sends_and_appends_to_one_stream) /* B95 */
{
    struct worker *w = suite_join(s, "outbox");
    struct claim c = worker_claim(w, SEND(s, "outbox"));
    struct pr_message sent = { .id = suite_id(1), .type = PR_STR("t"), .stream = PR_STR("a"), .event = true };
    struct pr_message appended = { .id = suite_id(2), .type = PR_STR("t"), .stream = PR_STR("a") };
    const struct verdict v = VERDICT_OF(c, .kind = VERDICT_COMPLETE);
    const struct effect effects[] = {
        { .kind = EFFECT_MESSAGE, .box = PR_STR("ledger"), .message = &sent },
        { .kind = EFFECT_EVENT, .message = &appended, .expected = EFFECT_ANY },
    };
    CHECK_EQ(CYCLE(w, .verdicts = &v, .verdict_count = 1, .effects = effects, .effect_count = 2)->answers[0], PR_OK);
    CHECK_STR(events_words(s, FILTER(.stream = PR_STR("a"))), "0 a 1 ;0 a 2 ;");
}

/* ---- Subscriptions ---- */

static int step(struct suite *s, struct subscription_call call, struct subscription_info *ret)
{
    struct subscription_info ignored;
    call.name = call.name.size > 0 ? call.name : PR_STR("view");
    call.lease_us = call.lease_us > 0 ? call.lease_us : PR_SECONDS(30);
    return store_subscription(&s->store, &call, &s->arena, ret != NULL ? ret : &ignored, &s->error);
}
#define CLAIM_BY(who, ...)                                                                                             \
    (struct subscription_call)                                                                                         \
    {                                                                                                                  \
        .step = SUBSCRIPTION_CLAIM, .holder = PR_STR(who), ##__VA_ARGS__                                               \
    }
#define ADVANCE(with, f, t)                                                                                            \
    (struct subscription_call)                                                                                         \
    {                                                                                                                  \
        .step = SUBSCRIPTION_ADVANCE, .fence = (with), .from = (f), .to = (t)                                          \
    }

STORE_TEST(a_subscription_moves_forwards_only_and_by_its_fence) /* B95 */
{
    struct subscription_info i;
    for (int n = 0; n < 3; n++)
        EVENT(s, "a");
    CHECK_EQ(suite_query(s, QUERY_EVENTS, FILTER(.after = 0))->event_count, 3);
    CHECK_EQ(step(s, CLAIM_BY("one"), &i), PR_OK);
    CHECK_EQ(i.position, 0);
    CHECK_EQ(i.last, 3);
    CHECK_SLICE(i.holder, "one");
    CHECK_EQ(step(s, ADVANCE(i.fence, 0, 2), &i), PR_OK);
    CHECK_EQ(i.position, 2);
    CHECK_EQ(step(s, ADVANCE(i.fence, 0, 3), NULL), PR_STALE); /* it is not where it was thought to be */
    CHECK_EQ(step(s, ADVANCE(i.fence, SUBSCRIPTION_ANYWHERE, 1), NULL), PR_STALE);
    CHECK_EQ(step(s, ADVANCE(i.fence, SUBSCRIPTION_ANYWHERE, 2), NULL), PR_OK); /* said again, for want of an answer */
    CHECK_EQ(step(s, ADVANCE(i.fence + 1, SUBSCRIPTION_ANYWHERE, 2), NULL), PR_STALE);
    CHECK_EQ(step(s, ADVANCE(i.fence + 1, 2, 3), NULL), PR_STALE);
    CHECK_EQ(step(s, ADVANCE(i.fence, 2, 4), NULL), PR_EINVAL); /* there is no such event */
    CHECK_EQ(step(s, ADVANCE(i.fence, 2, 3), &i), PR_OK);
    CHECK_EQ(i.position, 3);
    CHECK_EQ(step(s, (struct subscription_call){ .step = SUBSCRIPTION_ADVANCE, .name = PR_STR("no") }, NULL),
             PR_UNKNOWN);
    CHECK_EQ(step(s, CLAIM_BY("one", .name = PR_STR("not a name")), NULL), PR_EINVAL);
}

STORE_TEST(one_instance_at_a_time_has_a_subscription_and_a_zombie_moves_nothing)
{
    struct subscription_info one, two;
    EVENT(s, "a");
    EVENT(s, "a");
    CHECK_EQ(suite_query(s, QUERY_EVENTS, FILTER(.after = 0))->event_count, 2);
    CHECK_EQ(step(s, CLAIM_BY("one"), &one), PR_OK);
    CHECK_EQ(step(s, CLAIM_BY("two"), &two), PR_STALE);
    CHECK_SLICE(two.holder, "one");
    CHECK_EQ(step(s, CLAIM_BY("one", .fence = one.fence), &two), PR_OK); /* it goes on */
    CHECK_EQ(two.fence, one.fence);
    suite_advance(s, PR_SECONDS(31));
    CHECK_EQ(step(s, CLAIM_BY("two"), &two), PR_OK);
    CHECK(two.fence > one.fence);
    CHECK_EQ(step(s, ADVANCE(one.fence, 0, 1), NULL), PR_STALE); /* it slept */
    CHECK_EQ(step(s, CLAIM_BY("one", .fence = one.fence), NULL), PR_STALE);
    CHECK_EQ(step(s, ADVANCE(two.fence, 0, 1), NULL), PR_OK);
    CHECK_EQ(step(s, (struct subscription_call){ .step = SUBSCRIPTION_RELEASE, .fence = one.fence }, NULL), PR_STALE);
    CHECK_EQ(step(s, (struct subscription_call){ .step = SUBSCRIPTION_RELEASE, .fence = two.fence }, NULL), PR_OK);
    CHECK_EQ(step(s, CLAIM_BY("one"), &one), PR_OK);
    CHECK_EQ(one.position, 1);
    CHECK(one.fence > two.fence);
}

STORE_TEST(messages_are_stored_with_the_position_or_neither_is)
{
    struct subscription_info i;
    struct pr_message m = { .id = suite_id(1), .type = PR_STR("t"), .destination = PR_STR("e") };
    EVENT(s, "a");
    CHECK_EQ(suite_query(s, QUERY_EVENTS, FILTER(.after = 0))->event_count, 1);
    CHECK_EQ(step(s, CLAIM_BY("one"), &i), PR_OK);
    struct subscription_call call = ADVANCE(i.fence + 1, 0, 1);
    call.box = PR_STR("ledger");
    call.messages = &m;
    call.message_count = 1;
    CHECK_EQ(step(s, call, NULL), PR_STALE);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.box = PR_STR("ledger"))), 0);
    call.fence = i.fence;
    CHECK_EQ(step(s, call, NULL), PR_OK);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.box = PR_STR("ledger"))), 1);
}

static struct admin_reply order(struct suite *s, enum admin_kind kind, uint64_t position, bool dry_run)
{
    struct admin_reply reply = { 0 };
    const struct admin admin = { .kind = kind,
                                 .dry_run = dry_run,
                                 .subscription = PR_STR("view"),
                                 .position = position,
                                 .by = PR_STR("me"),
                                 .filter = { .state = -1 } };
    CHECK_OK(store_admin(&s->store, &admin, &reply, &s->error), &s->error);
    return reply;
}

STORE_TEST(a_person_resets_and_removes_a_subscription) /* B202 */
{
    suite_needs_database(s);
    struct subscription_info i;
    EVENT(s, "a");
    EVENT(s, "a");
    CHECK_EQ(order(s, ADMIN_SUBSCRIPTION_RESET, 0, false).missing, 1);
    CHECK_EQ(suite_query(s, QUERY_EVENTS, FILTER(.after = 0))->event_count, 2);
    CHECK_EQ(step(s, CLAIM_BY("one"), &i), PR_OK);
    CHECK_EQ(step(s, ADVANCE(i.fence, 0, 2), NULL), PR_OK);
    const struct query_reply *r = suite_query(s, QUERY_SUBSCRIPTIONS, FILTER(.after = 0));
    CHECK_EQ(r->subscription_count, 1);
    CHECK_EQ(r->subscriptions[0].position, 2);
    CHECK_SLICE(r->subscriptions[0].holder, "one");
    CHECK_EQ(order(s, ADMIN_SUBSCRIPTION_RESET, 1, true).changed, 1);
    CHECK_EQ(order(s, ADMIN_SUBSCRIPTION_REMOVE, 0, true).changed, 1);
    CHECK_EQ(suite_query(s, QUERY_SUBSCRIPTIONS, FILTER(.after = 0))->subscriptions[0].position, 2);
    CHECK_EQ(order(s, ADMIN_SUBSCRIPTION_RESET, 1, false).changed, 1);
    CHECK_EQ(step(s, ADVANCE(i.fence, 1, 2), NULL), PR_STALE); /* who has worked on meanwhile moves nothing */
    CHECK_EQ(step(s, CLAIM_BY("two"), &i), PR_OK);
    CHECK_EQ(i.position, 1);
    CHECK_EQ(suite_query(s, QUERY_AUDIT, FILTER(.limit = 1))->audit_count, 1);
    CHECK_SLICE(suite_query(s, QUERY_AUDIT, FILTER(.limit = 1))->audit[0].action, "subscription_reset");
    CHECK_SLICE(suite_query(s, QUERY_AUDIT, FILTER(.limit = 1))->audit[0].target,
                "{\"subscription\":\"view\",\"position\":1}");
    CHECK_EQ(order(s, ADMIN_SUBSCRIPTION_REMOVE, 0, false).changed, 1);
    CHECK_EQ(suite_query(s, QUERY_SUBSCRIPTIONS, FILTER(.after = 0))->subscription_count, 0);
}

STORE_TEST(who_had_a_subscription_that_was_removed_moves_nothing_of_the_new_one)
{
    suite_needs_database(s);
    struct subscription_info old, new;
    EVENT(s, "a");
    CHECK_EQ(suite_query(s, QUERY_EVENTS, FILTER(.after = 0))->event_count, 1);
    CHECK_EQ(step(s, CLAIM_BY("one"), &old), PR_OK);
    CHECK_EQ(order(s, ADMIN_SUBSCRIPTION_REMOVE, 0, false).changed, 1);
    suite_advance(s, PR_SECONDS(1));
    CHECK_EQ(step(s, CLAIM_BY("two"), &new), PR_OK);
    CHECK_EQ(new.position, 0);
    CHECK_EQ(step(s, ADVANCE(old.fence, SUBSCRIPTION_ANYWHERE, 1), NULL), PR_STALE);
    CHECK_EQ(step(s, (struct subscription_call){ .step = SUBSCRIPTION_RELEASE, .fence = old.fence }, NULL), PR_STALE);
    CHECK_EQ(step(s, ADVANCE(new.fence, 0, 1), NULL), PR_OK);
}

/* ---- Snapshots ---- */

STORE_TEST(a_stream_has_its_latest_snapshot)
{
    suite_needs_database(s);
    int64_t version = 0;
    pr_slice data = { NULL, 0 };
    EVENT(s, "a");
    EVENT(s, "a");
    CHECK_EQ(store_snapshot_load(&s->store, PR_STR("a"), &s->arena, &version, &data, &s->error), PR_UNKNOWN);
    CHECK_EQ(store_snapshot_save(&s->store, PR_STR("a"), 3, PR_STR("x"), &s->error), PR_EINVAL); /* it has two events */
    CHECK_EQ(store_snapshot_save(&s->store, PR_STR("a"), 2, PR_BYTES("\0two", 4), &s->error), PR_OK);
    CHECK_EQ(store_snapshot_save(&s->store, PR_STR("a"), 1, PR_STR("one"), &s->error), PR_STALE);
    CHECK_EQ(store_snapshot_load(&s->store, PR_STR("a"), &s->arena, &version, &data, &s->error), PR_OK);
    CHECK_EQ(version, 2);
    CHECK_EQ(data.size, 4);
    CHECK(memcmp(data.data, "\0two", 4) == 0);
    EVENT(s, "a");
    CHECK_EQ(store_snapshot_save(&s->store, PR_STR("a"), 3, PR_STR(""), &s->error), PR_OK);
    CHECK_EQ(store_snapshot_load(&s->store, PR_STR("a"), &s->arena, &version, &data, &s->error), PR_OK);
    CHECK_EQ(version, 3);
    CHECK_EQ(data.size, 0);
}

STORE_TEST(an_event_without_a_stream_is_refused)
{
    CHECK_EQ(suite_offer(s, "outbox", (struct pr_message){ .event = true }), PR_EINVAL);
    CHECK(strstr(s->error.text, "needs a stream") != NULL);
}

/* Whoever has read up to a place never finds an event before it. */
STORE_TEST(what_commits_late_gets_a_later_place_and_places_never_change)
{
    suite_needs(s, STORE_CAN_COMMIT_LATE);
    struct pr_message slow = { .id = suite_id(1), .event = true, .stream = PR_STR("slow"), .type = PR_STR("t") };
    void *tx = suite_tx_begin(s);
    s->kind->tx_add(s, tx, "outbox", &slow);
    EVENT(s, "a");
    CHECK_STR(events_words(s, FILTER(.after = 0)), "1 a 1 ;");
    EVENT(s, "b");
    s->kind->tx_end(s, tx, true);
    CHECK_EQ(suite_query(s, QUERY_EVENTS, FILTER(.after = 1))->event_count, 2);
    char *before = strdup(events_words(s, FILTER(.after = 0)));
    CHECK(strncmp(before, "1 a 1 ;2 ", 9) == 0);
    EVENT(s, "c");
    CHECK(strncmp(events_words(s, FILTER(.after = 0)), before, strlen(before)) == 0);
    free(before);
}

STORE_TEST(what_was_rolled_back_leaves_no_gap) /* B95 */
{
    struct pr_message gone = { .id = suite_id(1), .event = true, .stream = PR_STR("a"), .type = PR_STR("t") };
    EVENT(s, "a", .payload = PR_STR("1"));
    void *tx = suite_tx_begin(s);
    s->kind->tx_add(s, tx, "outbox", &gone);
    s->kind->tx_end(s, tx, false);
    EVENT(s, "a", .payload = PR_STR("2"));
    CHECK_STR(events_words(s, FILTER(.after = 0)), "1 a 1 1;2 a 2 2;");
}

/* A handler sends an event of a stream that somebody's open transaction appends to: the cycle goes on without it. */
STORE_TEST(an_event_of_a_handler_waits_for_its_stream_and_holds_up_nobody)
{
    suite_needs_database(s);
    suite_needs(s, STORE_CAN_COMMIT_LATE);
    struct worker *w = suite_join(s, "outbox");
    pr_id first = SEND(s, "outbox"), second = SEND(s, "outbox");
    struct pr_message open = { .id = suite_id(1), .event = true, .stream = PR_STR("a"), .type = PR_STR("t") };
    struct pr_message sent = { .id = suite_id(2), .event = true, .stream = PR_STR("a"), .type = PR_STR("t") };
    void *tx = suite_tx_begin(s);
    s->kind->tx_add(s, tx, "outbox", &open);
    struct claim a = worker_claim(w, first), b = worker_claim(w, second);
    const struct verdict verdicts[] = { VERDICT_OF(a, .kind = VERDICT_COMPLETE),
                                        VERDICT_OF(b, .kind = VERDICT_COMPLETE) };
    const struct effect e = { .kind = EFFECT_MESSAGE, .box = PR_STR("ledger"), .message = &sent };
    const struct cycle_reply *r = CYCLE(w, .verdicts = verdicts, .verdict_count = 2, .effects = &e, .effect_count = 1);
    CHECK_EQ(r->answers[0], ANSWER_BUSY);
    CHECK_EQ(r->answers[1], PR_OK);
    s->kind->tx_end(s, tx, true);
    CHECK_EQ(CYCLE(w, .verdicts = verdicts, .verdict_count = 1, .effects = &e, .effect_count = 1)->answers[0], PR_OK);
    CHECK_EQ(suite_query(s, QUERY_EVENTS, FILTER(.stream = PR_STR("a")))->event_count, 2);
}
