/* The event store: messages with `event` get the next version of their stream with their sender's commit, and all events have
 * one order that never changes. */
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

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
    suite_needs_database(s);
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
    suite_needs_database(s);
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

STORE_TEST(what_is_no_event_is_not_in_the_event_store) /* B96 */
{
    suite_needs_database(s);
    SEND(s, "outbox", .stream = PR_STR("a"));
    CHECK_STR(events_words(s, FILTER(.stream = PR_STR("a"))), "");
    CHECK_STR(events_words(s, FILTER(.after = 0)), "");
}

STORE_TEST(the_same_event_again_is_a_duplicate_and_stored_once) /* B95, B2 */
{
    suite_needs_database(s);
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
    suite_needs_database(s);
    struct worker *w = suite_join(s, "outbox");
    pr_id id = EVENT(s, "a", .payload = PR_STR("x"));
    struct claim c = worker_claim(w, id);
    const pr_slice to[] = { PR_STR("e"), PR_STR("f") };
    const struct verdict v = VERDICT_OF(c, .kind = VERDICT_SPLIT, .destinations = to, .destination_count = 2);
    CHECK_EQ(CYCLE(w, .verdicts = &v, .verdict_count = 1)->answers[0], PR_OK);
    CHECK_EQ(suite_query(s, QUERY_ID, FILTER(.ids = &id, .id_count = 1))->listed_count, 2);
    CHECK_STR(events_words(s, FILTER(.after = 0)), "1 a 1 x;");
}

STORE_TEST(an_event_without_a_stream_is_refused)
{
    CHECK_EQ(suite_offer(s, "outbox", (struct pr_message){ .event = true }), PR_EINVAL);
    CHECK(strstr(s->error.text, "needs a stream") != NULL);
}

/* Whoever has read up to a place never finds an event before it. */
STORE_TEST(what_commits_late_gets_a_later_place_and_places_never_change)
{
    suite_needs_database(s);
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
    suite_needs_database(s);
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
