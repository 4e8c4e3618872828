/* Effects of every kind (core/effect.h): what is stored with a verdict, what refuses it, and the answers of a repeated
 * cycle. */
#include "suite.h"

#include <string.h>

static const struct pr_message placed = {
    .id = { { 7 } }, .type = { "placed", 6 }, .stream = { "order-1", 7 }, .payload = { "one", 3 }
};

/* The answers of a cycle with one completed message and these effects. */
struct outcome {
    int verdict;
    int effects[4];
};

static struct outcome complete_with(struct worker *w, pr_id id, const struct effect *effects, size_t count)
{
    struct claim c = worker_claim(w, id);
    const struct verdict v = VERDICT_OF(c, .kind = VERDICT_COMPLETE);
    const struct cycle_reply *r =
        CYCLE(w, .verdicts = &v, .verdict_count = 1, .effects = effects, .effect_count = count);
    struct outcome o = { .verdict = r->answers[0] };
    memcpy(o.effects, r->effect_answers, count * sizeof(o.effects[0]));
    return o;
}

STORE_TEST(events_are_appended_to_their_stream_with_the_verdict)
{
    struct worker *w = suite_join(s, "outbox");
    struct pr_message second = placed;
    second.id = suite_id(8);
    second.type = PR_STR("paid");
    const struct effect e[] = {
        { .kind = EFFECT_EVENT, .message = &placed, .expected = 0, .takes_verdict = true },
        { .kind = EFFECT_EVENT, .message = &second, .expected = EFFECT_ANY },
    };
    struct outcome o = complete_with(w, SEND(s, "outbox"), e, 2);
    CHECK_EQ(o.verdict, PR_OK);
    CHECK_EQ(o.effects[0], PR_OK);
    CHECK_EQ(o.effects[1], PR_OK);
    CHECK_EFFECTS(s, "event order-1 1 placed one\nevent order-1 2 paid one\n");
    struct pr_message third = placed;
    third.id = suite_id(9);
    const struct effect later = { .kind = EFFECT_EVENT, .message = &third, .expected = 2, .takes_verdict = true };
    CHECK_EQ(complete_with(w, SEND(s, "outbox"), &later, 1).effects[0], PR_OK);
    CHECK_EFFECTS(s, "event order-1 1 placed one\nevent order-1 2 paid one\nevent order-1 3 placed one\n");
}

STORE_TEST(an_event_at_another_version_is_refused_and_takes_its_verdict_with_it)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id refused = SEND(s, "outbox"), other = SEND(s, "outbox");
    struct pr_message sent = { .id = suite_id(50), .type = PR_STR("t") };
    const struct effect e[] = {
        { .kind = EFFECT_EVENT, .message = &placed, .expected = 3, .takes_verdict = true },
        { .kind = EFFECT_MESSAGE, .box = PR_STR("ledger"), .message = &sent },
        { .kind = EFFECT_STATE, .verdict = 1, .key = PR_STR("f"), .name = PR_STR("k"), .value = PR_STR("v") },
    };
    struct claim a = worker_claim(w, refused), b = worker_claim(w, other);
    const struct verdict v[] = { VERDICT_OF(a, .kind = VERDICT_COMPLETE), VERDICT_OF(b, .kind = VERDICT_COMPLETE) };
    const struct cycle_reply *r = CYCLE(w, .verdicts = v, .verdict_count = 2, .effects = e, .effect_count = 3);
    CHECK_EQ(r->answers[0], ANSWER_REFUSED);
    CHECK_EQ(r->answers[1], PR_OK); /* the rest of the cycle lands */
    CHECK_EQ(r->effect_answers[0], PR_UNKNOWN);
    CHECK_EQ(r->effect_answers[1], PR_UNKNOWN);
    CHECK_EQ(r->effect_answers[2], PR_OK);
    CHECK(suite_find(s, refused) != NULL);
    CHECK(suite_find(s, other) == NULL);
    CHECK(suite_find(s, sent.id) == NULL);
    CHECK_EFFECTS(s, "state f k v\n");
}

STORE_TEST(a_refused_effect_alone_leaves_its_verdict_as_it_is)
{
    struct worker *w = suite_join(s, "outbox");
    const struct effect e = { .kind = EFFECT_EVENT, .message = &placed, .expected = 3 };
    struct outcome o = complete_with(w, SEND(s, "outbox"), &e, 1);
    CHECK_EQ(o.verdict, PR_OK);
    CHECK_EQ(o.effects[0], PR_STALE);
    CHECK_EFFECTS(s, "");
}

STORE_TEST(an_event_that_is_in_its_stream_already_is_a_duplicate_and_no_conflict)
{
    struct worker *w = suite_join(s, "outbox");
    const struct effect e = { .kind = EFFECT_EVENT, .message = &placed, .expected = 0, .takes_verdict = true };
    CHECK_EQ(complete_with(w, SEND(s, "outbox"), &e, 1).effects[0], PR_OK);
    struct outcome again = complete_with(w, SEND(s, "outbox"), &e, 1);
    CHECK_EQ(again.verdict, PR_OK);
    CHECK_EQ(again.effects[0], PR_DUPLICATE);
    CHECK_EFFECTS(s, "event order-1 1 placed one\n");
}

STORE_TEST(history_is_appended_at_the_number_that_is_expected_and_at_no_other)
{
    struct worker *w = suite_join(s, "outbox");
    struct effect e = {
        .kind = EFFECT_HISTORY, .key = PR_STR("x1"), .value = PR_STR("{}"), .count = 3, .takes_verdict = true
    };
    CHECK_EQ(complete_with(w, SEND(s, "outbox"), &e, 1).verdict, PR_OK);
    pr_id twice = SEND(s, "outbox");
    CHECK_EQ(complete_with(w, twice, &e, 1).verdict, ANSWER_REFUSED);
    e.expected = 2;
    CHECK_EQ(complete_with(w, twice, &e, 1).verdict, ANSWER_REFUSED);
    e.expected = 3;
    e.count = 1;
    CHECK_EQ(complete_with(w, twice, &e, 1).verdict, PR_OK);
    e.key = PR_STR("x2"); /* an execution that does not exist does not come to life in its middle */
    CHECK_EQ(complete_with(w, SEND(s, "outbox"), &e, 1).verdict, ANSWER_REFUSED);
    CHECK_EFFECTS(s, "history x1 0 3 {}\nhistory x1 3 1 {}\n");
}

STORE_TEST(a_state_is_set_overwritten_and_removed)
{
    struct worker *w = suite_join(s, "outbox");
    struct effect e[] = {
        { .kind = EFFECT_STATE, .key = PR_STR("f"), .name = PR_STR("a"), .value = PR_STR("1") },
        { .kind = EFFECT_STATE, .key = PR_STR("f"), .name = PR_STR("b"), .value = PR_STR("2") },
        { .kind = EFFECT_STATE, .key = PR_STR("f"), .name = PR_STR("a"), .value = PR_STR("3") },
    };
    complete_with(w, SEND(s, "outbox"), e, 3);
    CHECK_EFFECTS(s, "state f a 3\nstate f b 2\n");
    e[0].value = (pr_slice){ NULL, 0 };
    CHECK_EQ(complete_with(w, SEND(s, "outbox"), e, 1).effects[0], PR_OK);
    CHECK_EFFECTS(s, "state f b 2\n");
}

STORE_TEST(a_row_of_another_box_is_deleted_with_the_verdict)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "ledger");
    const struct effect e = { .kind = EFFECT_DELETE, .box = PR_STR("ledger"), .id = id };
    CHECK_EQ(complete_with(w, SEND(s, "outbox"), &e, 1).effects[0], PR_OK);
    CHECK(suite_find(s, id) == NULL);
    struct outcome o = complete_with(w, SEND(s, "outbox"), &e, 1);
    CHECK_EQ(o.verdict, PR_OK); /* it was gone: no harm */
    CHECK_EQ(o.effects[0], PR_UNKNOWN);
}

STORE_TEST(a_mark_is_made_once_and_its_key_refuses_the_second)
{
    struct worker *w = suite_join(s, "outbox");
    struct effect e = { .kind = EFFECT_SEEN,
                        .box = PR_STR("outbox"),
                        .id = suite_id(77),
                        .key = PR_STR("billing"),
                        .takes_verdict = true };
    CHECK_EQ(complete_with(w, SEND(s, "outbox"), &e, 1).verdict, PR_OK);
    pr_id twice = SEND(s, "outbox");
    CHECK_EQ(complete_with(w, twice, &e, 1).verdict, ANSWER_HANDLED);
    CHECK(suite_find(s, twice) != NULL);
    e.key = PR_STR("mail"); /* another handler has a mark of its own */
    CHECK_EQ(complete_with(w, twice, &e, 1).verdict, PR_OK);
    CHECK_EFFECTS(s, "seen outbox billing\nseen outbox mail\n");
}

STORE_TEST(of_two_verdicts_with_one_guard_the_later_one_is_busy_and_goes_next_time)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id ids[] = { SEND(s, "outbox"), SEND(s, "outbox") };
    struct pr_message other = placed;
    other.id = suite_id(8);
    struct effect e[] = {
        { .kind = EFFECT_EVENT, .message = &placed, .expected = EFFECT_ANY },
        { .kind = EFFECT_EVENT, .message = &other, .expected = EFFECT_ANY, .verdict = 1 },
    };
    struct claim a = worker_claim(w, ids[0]), b = worker_claim(w, ids[1]);
    const struct verdict v[] = { VERDICT_OF(a, .kind = VERDICT_COMPLETE), VERDICT_OF(b, .kind = VERDICT_COMPLETE) };
    CYCLE(w, .verdicts = v, .verdict_count = 2, .effects = e, .effect_count = 2);
    CHECK_EQ(w->reply->answers[0], PR_OK);
    CHECK_EQ(w->reply->answers[1], ANSWER_BUSY);
    e[1].verdict = 0;
    CYCLE(w, .verdicts = &v[1], .verdict_count = 1, .effects = &e[1], .effect_count = 1);
    CHECK_EQ(w->reply->answers[0], PR_OK);
    CHECK_EFFECTS(s, "event order-1 1 placed one\nevent order-1 2 placed one\n");
}

STORE_TEST(effects_of_a_stale_verdict_leave_nothing_behind)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    struct claim c = worker_claim(w, id);
    const struct effect e[] = {
        { .kind = EFFECT_EVENT, .message = &placed, .takes_verdict = true },
        { .kind = EFFECT_HISTORY, .key = PR_STR("x"), .value = PR_STR("[]"), .count = 1, .takes_verdict = true },
        { .kind = EFFECT_SEEN, .box = PR_STR("outbox"), .id = id, .key = PR_STR("h"), .takes_verdict = true },
        { .kind = EFFECT_STATE, .key = PR_STR("f"), .name = PR_STR("a"), .value = PR_STR("1") },
    };
    CHECK_EQ(ADMIN_ID(s, ADMIN_RETRY, id).changed, 1);
    struct claim anew = worker_claim(w, id);
    CHECK_EQ(VERDICT(w, anew, .kind = VERDICT_FAIL), PR_OK);
    const struct verdict v = VERDICT_OF(c, .kind = VERDICT_DISCARD);
    CYCLE(w, .verdicts = &v, .verdict_count = 1, .effects = e, .effect_count = 4);
    CHECK_EQ(w->reply->answers[0], PR_STALE);
    CHECK_EQ(w->reply->effect_answers[0], PR_UNKNOWN);
    CHECK_EFFECTS(s, "");
}

STORE_TEST(effects_without_a_verdict_are_applied_and_refused_on_their_own)
{
    struct worker *w = suite_join(s, "outbox");
    const struct effect e[] = {
        { .kind = EFFECT_EVENT, .verdict = EFFECT_ALWAYS, .message = &placed, .expected = 1, .takes_verdict = true },
        { .kind = EFFECT_STATE,
          .verdict = EFFECT_ALWAYS,
          .key = PR_STR("f"),
          .name = PR_STR("a"),
          .value = PR_STR("1") },
    };
    CYCLE(w, .effects = e, .effect_count = 2);
    CHECK_EQ(w->reply->effect_answers[0], PR_STALE);
    CHECK_EQ(w->reply->effect_answers[1], PR_OK);
    CHECK_EFFECTS(s, "state f a 1\n");
}

STORE_TEST(a_cycle_that_is_asked_again_says_who_was_refused_and_does_nothing_twice) /* B7 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id ids[] = { SEND(s, "outbox"), SEND(s, "outbox") };
    struct claim a = worker_claim(w, ids[0]), b = worker_claim(w, ids[1]);
    const struct verdict v[] = { VERDICT_OF(a, .kind = VERDICT_COMPLETE), VERDICT_OF(b, .kind = VERDICT_COMPLETE) };
    const struct effect e[] = {
        { .kind = EFFECT_EVENT, .message = &placed, .expected = 4, .takes_verdict = true },
        { .kind = EFFECT_HISTORY,
          .verdict = 1,
          .key = PR_STR("x"),
          .value = PR_STR("[]"),
          .count = 1,
          .takes_verdict = true },
    };
    CYCLE(w, .verdicts = v, .verdict_count = 2, .effects = e, .effect_count = 2);
    CHECK_EQ(w->reply->answers[0], ANSWER_REFUSED);
    CHECK_EQ(w->reply->answers[1], PR_OK);
    w->number--;
    CYCLE(w, .verdicts = v, .verdict_count = 2, .effects = e, .effect_count = 2);
    CHECK(w->reply->replayed);
    CHECK(w->reply->answers != NULL);
    CHECK_EQ(w->reply->answers[0], ANSWER_REFUSED);
    CHECK_EQ(w->reply->answers[1], PR_OK);
    CHECK(suite_find(s, ids[0]) != NULL);
    CHECK_EFFECTS(s, "history x 0 1 []\n");
}

/* ---- Rescheduling ----------------------------------------------------------------------------- */

STORE_TEST(a_row_is_rescheduled_with_its_effects_as_long_as_its_time_is_the_same) /* B99 */
{
    struct worker *w = suite_join(s, "outbox");
    int64_t at = s->wall_us + PR_SECONDS(1);
    pr_id id = SEND(s, "outbox", .due_us = at);
    suite_advance(s, PR_SECONDS(2));
    struct claim c = suite_seen(s, id); /* it is not handed out */
    const struct pr_message made = { .id = suite_id(60), .type = PR_STR("tick") };
    const struct effect e = { .box = PR_STR("ledger"), .message = &made };
    const struct verdict v = VERDICT_OF(c, .kind = VERDICT_RESCHEDULE, .due_is_us = at, .due_us = at + PR_SECONDS(60));
    CYCLE(w, .verdicts = &v, .verdict_count = 1, .effects = &e, .effect_count = 1);
    CHECK_EQ(w->reply->answers[0], PR_OK);
    const struct listed *l = suite_get(s, id);
    CHECK_EQ(l->m.due_us, at + PR_SECONDS(60));
    CHECK_EQ(l->m.attempts, 0);
    CHECK_EQ(l->m.status, PR_STATUS_STORED);
    CHECK(suite_find(s, made.id) != NULL);
    CYCLE(w, .verdicts = &v, .verdict_count = 1); /* somebody else did it */
    CHECK_EQ(w->reply->answers[0], PR_STALE);
    CHECK_EQ(suite_get(s, id)->m.due_us, at + PR_SECONDS(60));
}

/* A box may refuse such a time of a sender, and a cycle must not fail for it: a flow that waits for a thousand years, say. */
STORE_TEST(whatever_time_an_effect_or_a_verdict_names_is_stored)
{
    struct worker *w = suite_join(s, "outbox");
    const int64_t late = s->wall_us + PR_SECONDS(86400) * 365250;
    pr_id id = SEND(s, "outbox", .due_us = s->wall_us + 1);
    const struct pr_message made = { .id = suite_id(61), .type = PR_STR("timer"), .due_us = late, .expires_us = late };
    const struct effect e = { .box = PR_STR("ledger"), .message = &made };
    struct claim c = suite_seen(s, id);
    const struct verdict v = VERDICT_OF(c, .kind = VERDICT_RESCHEDULE, .due_is_us = s->wall_us + 1, .due_us = late);
    CYCLE(w, .verdicts = &v, .verdict_count = 1, .effects = &e, .effect_count = 1);
    CHECK_EQ(w->reply->answers[0], PR_OK);
    CHECK(suite_get(s, id)->m.due_us >= TIME_MAX_US && suite_get(s, id)->m.due_us != PR_NEVER);
    CHECK(suite_find(s, made.id) != NULL);
}

STORE_TEST(a_schedule_that_a_person_paused_is_not_rescheduled) /* B99 */
{
    struct worker *w = suite_join(s, "outbox");
    int64_t at = s->wall_us + PR_SECONDS(1);
    pr_id id = SEND(s, "outbox", .due_us = at);
    struct claim c = suite_seen(s, id);
    CHECK_EQ(ADMIN_ID(s, ADMIN_PARK, id).changed, 1);
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_RESCHEDULE, .due_is_us = at, .due_us = at + 5), PR_STALE);
    CHECK_EQ(suite_get(s, id)->m.due_us, PR_NEVER);
}
