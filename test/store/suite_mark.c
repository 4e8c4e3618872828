/* Marks (core/mark.h): in a box with dedupe a message is ended once by each handler, whatever rows of it there are. */
#include <string.h>

#include "core/mark.h"
#include "suite.h"

#define HOUR_US PR_SECONDS(3600)

static struct worker *join_once(struct suite *s, const char *box)
{
    s->dedupe_us = HOUR_US;
    return suite_join(s, box);
}

/* The answer of a cycle that ends this hand-out with its mark, as an engine would. */
static int end_with_mark(struct worker *w, struct claim c, struct verdict v, bool alone)
{
    struct effect mark;
    v.row = c.row;
    v.id = c.id;
    v.number = c.number;
    CHECK(mark_of_verdict(&v, w->box, alone ? (pr_slice){ NULL, 0 } : v.endpoint, HOUR_US, &mark));
    return CYCLE(w, .verdicts = &v, .verdict_count = 1, .effects = &mark, .effect_count = 1, .closed = &c.cycle,
                 .closed_count = c.cycle != 0)
        ->answers[0];
}

#define END(w, claim, ...) end_with_mark((w), (claim), (struct verdict){ __VA_ARGS__ }, false)
#define END_ALONE(w, claim, ...) end_with_mark((w), (claim), (struct verdict){ __VA_ARGS__ }, true)
#define COMPLETE .kind = VERDICT_COMPLETE, .endpoint = PR_STR("billing")

static bool is_marked(struct worker *w, pr_id id, const char *handler)
{
    const struct mark_key key = { id, pr_str(handler) };
    const struct cycle_reply *r = CYCLE(w, .marks = &key, .mark_count = 1);
    return r->marked != NULL && r->marked[0];
}

STORE_TEST(of_two_rows_of_one_message_for_one_handler_the_second_is_refused_with_its_effects) /* B90 */
{
    struct worker *w = join_once(s, "outbox");
    const pr_id id = suite_id(5);
    SEND(s, "outbox", .id = id);
    SEND(s, "outbox", .id = id, .destination = PR_STR("billing")); /* both are there, and for the same handler */
    struct claim first = worker_claim_to(w, id, ""), second = worker_claim_to(w, id, "billing");
    CHECK_EQ(END(w, first, COMPLETE), PR_OK);

    const struct pr_message sent = { .id = suite_id(6), .type = PR_STR("t") };
    const struct verdict v = VERDICT_OF(second, COMPLETE);
    struct effect e[2] = { { .kind = EFFECT_MESSAGE, .box = PR_STR("ledger"), .message = &sent } };
    CHECK(mark_of_verdict(&v, w->box, PR_STR("billing"), HOUR_US, &e[1]));
    CYCLE(w, .verdicts = &v, .verdict_count = 1, .effects = e, .effect_count = 2);
    CHECK_EQ(w->reply->answers[0], ANSWER_HANDLED);
    CHECK_EQ(w->reply->effect_answers[0], PR_UNKNOWN);
    CHECK(suite_find(s, sent.id) == NULL);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.ids = &id, .id_count = 1)), 1);

    CHECK_EQ(VERDICT(w, second, .kind = VERDICT_DUPLICATE, .endpoint = PR_STR("billing")), PR_OK);
    CHECK(suite_find(s, id) == NULL);
}

STORE_TEST(two_handlers_of_one_message_have_a_mark_each) /* B92 */
{
    struct worker *w = join_once(s, "outbox");
    const pr_id id = suite_id(5);
    SEND(s, "outbox", .id = id, .destination = PR_STR("billing"));
    SEND(s, "outbox", .id = id, .destination = PR_STR("mail"));
    CHECK_EQ(END(w, worker_claim_to(w, id, "billing"), COMPLETE), PR_OK);
    CHECK(!is_marked(w, id, "mail"));
    CHECK_EQ(END(w, worker_claim_to(w, id, "mail"), .kind = VERDICT_COMPLETE, .endpoint = PR_STR("mail")), PR_OK);
    CHECK(is_marked(w, id, "mail"));
    CHECK(is_marked(w, id, "billing"));
}

/* Rows of one message in two streams are in two lanes, and these can have two owners. */
STORE_TEST(of_two_instances_that_end_one_message_the_second_is_told_that_it_was_handled) /* B90 */
{
    suite_needs(s, STORE_CAN_SHARE_LANES);
    struct worker *a = join_once(s, "outbox"), *b = suite_join(s, "outbox");
    suite_settle_lanes(s);
    unsigned lanes[2] = { (unsigned)__builtin_ctzll(a->lanes), (unsigned)__builtin_ctzll(b->lanes) };
    const pr_id id = suite_id(5);
    SEND(s, "outbox", .id = id, .stream = suite_stream_in_lane(s, lanes[0]));
    SEND(s, "outbox", .id = id, .stream = suite_stream_in_lane(s, lanes[1]), .destination = PR_STR("billing"));
    struct claim first = worker_claim_to(a, id, ""), second = worker_claim_to(b, id, "billing");
    CHECK_EQ(END(b, second, COMPLETE), PR_OK);
    CHECK_EQ(END(a, first, COMPLETE), ANSWER_HANDLED);
    CHECK(is_marked(a, id, "billing"));
}

STORE_TEST(of_two_rows_that_end_in_one_cycle_one_is_busy_and_a_duplicate_the_next_time) /* B90 */
{
    struct worker *w = join_once(s, "outbox");
    const pr_id id = suite_id(5);
    SEND(s, "outbox", .id = id);
    SEND(s, "outbox", .id = id, .destination = PR_STR("billing"));
    struct claim a = worker_claim_to(w, id, ""), b = worker_claim_to(w, id, "billing");
    const struct verdict v[] = { VERDICT_OF(a, COMPLETE), VERDICT_OF(b, COMPLETE) };
    struct effect e[2];
    for (size_t i = 0; i < 2; i++) {
        CHECK(mark_of_verdict(&v[i], w->box, PR_STR("billing"), HOUR_US, &e[i]));
        e[i].verdict = i;
    }
    CYCLE(w, .verdicts = v, .verdict_count = 2, .effects = e, .effect_count = 2);
    CHECK_EQ(w->reply->answers[0], PR_OK);
    CHECK_EQ(w->reply->answers[1], ANSWER_BUSY);
    CHECK_EQ(END(w, b, COMPLETE), ANSWER_HANDLED);
}

STORE_TEST(a_cycle_that_is_asked_again_says_who_had_been_handled) /* B7 */
{
    struct worker *w = join_once(s, "outbox");
    const pr_id id = suite_id(5);
    SEND(s, "outbox", .id = id);
    SEND(s, "outbox", .id = id, .destination = PR_STR("billing"));
    struct claim a = worker_claim_to(w, id, ""), b = worker_claim_to(w, id, "billing");
    CHECK_EQ(END(w, a, COMPLETE), PR_OK);
    CHECK_EQ(END(w, b, COMPLETE), ANSWER_HANDLED);
    w->number--;
    CHECK_EQ(END(w, b, COMPLETE), ANSWER_HANDLED);
    CHECK(w->reply->replayed);
}

STORE_TEST(what_expires_moves_or_is_discarded_is_marked_and_what_dies_or_is_a_duplicate_is_not) /* B90 */
{
    struct worker *w = join_once(s, "outbox");
    pr_id expired = SEND(s, "outbox"), moved = SEND(s, "outbox"), discarded = SEND(s, "outbox"),
          dead = SEND(s, "outbox");
    CHECK_EQ(END(w, worker_claim(w, discarded), .kind = VERDICT_DISCARD, .endpoint = PR_STR("billing")), PR_OK);
    CHECK_EQ(END(w, suite_seen(s, expired), .kind = VERDICT_EXPIRE, .endpoint = PR_STR("billing")), PR_OK);
    worker_kill(w, dead);
    CHECK_EQ(END(w, worker_claim(w, moved), .kind = VERDICT_DISCARD, .endpoint = PR_STR("billing"),
                 .moved_to = PR_STR("dlq")),
             PR_OK);
    CHECK(is_marked(w, moved, "billing"));
    CHECK(is_marked(w, expired, "billing"));
    CHECK(is_marked(w, discarded, "billing"));
    struct effect none;
    static const struct verdict others[] = {
        { .kind = VERDICT_DEAD_LETTER, .id = { { 1 } } },
        { .kind = VERDICT_DUPLICATE, .id = { { 1 } } },
        { .kind = VERDICT_COMPLETE }, /* of a row whose id is damaged */
    };
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
        CHECK(!mark_of_verdict(&others[i], w->box, PR_STR("billing"), HOUR_US, &none));
    CHECK(!mark_of_verdict(&(struct verdict){ .kind = VERDICT_COMPLETE, .id = { { 1 } } }, w->box, PR_STR("billing"), 0,
                           &none));
}

/* It has no mark: somebody may still replay it. */
STORE_TEST(a_dead_letter_answers_for_its_message_without_a_mark) /* B90 */
{
    struct worker *w = join_once(s, "outbox");
    const pr_id id = suite_id(5);
    SEND(s, "outbox", .id = id, .destination = PR_STR("billing"));
    struct claim c = worker_claim_to(w, id, "billing");
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_DEAD_LETTER, .cause = PR_REASON_REJECTED, .endpoint = PR_STR("billing")),
             PR_OK);
    CHECK(is_marked(w, id, "billing"));
    CHECK(!is_marked(w, id, "mail"));
    CHECK_EQ(ADMIN_ID(s, ADMIN_DEAD_REPLAY, id).changed, 1);
    CHECK(!is_marked(w, id, "billing"));
}

/* An override has sent one for mail to billing. */
STORE_TEST(a_dead_letter_answers_for_its_own_destination_wherever_it_died) /* B92 */
{
    struct worker *w = join_once(s, "outbox");
    const pr_id id = suite_id(5);
    SEND(s, "outbox", .id = id, .destination = PR_STR("mail"));
    SEND(s, "outbox", .id = id, .destination = PR_STR("billing"));
    struct claim dies = worker_claim_to(w, id, "mail"), other = worker_claim_to(w, id, "billing");
    CHECK_EQ(VERDICT(w, dies, .kind = VERDICT_DEAD_LETTER, .cause = PR_REASON_REJECTED, .endpoint = PR_STR("billing")),
             PR_OK);
    CHECK(is_marked(w, id, "mail"));
    CHECK(!is_marked(w, id, "billing"));
    CHECK_EQ(END(w, other, COMPLETE), PR_OK);
    CHECK_EQ(ADMIN_ID(s, ADMIN_DEAD_DISCARD, id).changed, 1); /* its mark is its own, too */
    CHECK_EQ(OFFER(s, "outbox", .id = id, .destination = PR_STR("mail")), PR_DUPLICATE);
}

/* ---- Arrival ------------------------------------------------------------------------------------ */

STORE_TEST(what_was_handled_and_arrives_again_is_a_duplicate) /* B90 */
{
    struct worker *w = join_once(s, "inbox");
    pr_id named = SEND(s, "inbox", .destination = PR_STR("billing")), routed = SEND(s, "inbox");
    CHECK_EQ(END(w, worker_claim(w, named), COMPLETE), PR_OK);
    CHECK_EQ(END_ALONE(w, worker_claim(w, routed), COMPLETE), PR_OK);
    CHECK_EQ(OFFER(s, "inbox", .id = named, .destination = PR_STR("billing")), PR_DUPLICATE);
    CHECK_EQ(OFFER(s, "inbox", .id = routed), PR_DUPLICATE);
    CHECK_EQ(OFFER(s, "inbox", .id = routed, .destination = PR_STR("billing")), PR_DUPLICATE);
    CHECK_EQ(OFFER(s, "inbox", .id = routed, .destination = PR_STR("mail")), PR_OK); /* another handler */
    CHECK_EQ(OFFER(s, "inbox", .id = named), PR_OK); /* who handles it the routes decide, and maybe somebody else */
    CHECK_EQ(OFFER(s, "ledger", .id = routed), PR_OK);
    CHECK_EQ(s->store.inbox_duplicates, 3);
}

/* What a person is told of a message that arrived again: how often, for whom; 0: nothing. */
static uint64_t told_again(struct suite *s, pr_id id, const char *destination, int64_t *ret_at_us)
{
    const struct query query = { .kind = QUERY_ID, .filter = FILTER(.ids = &id, .id_count = 1), .ended = true };
    struct query_reply *r = arena_zalloc(&s->arena, sizeof(*r));
    CHECK(r != NULL);
    CHECK_OK(store_query(&s->store, &query, &s->arena, r, &s->error), &s->error);
    for (size_t i = 0; i < r->again_count; i++) {
        if (!slice_eq_cstr(r->again[i].destination, destination))
            continue;
        if (ret_at_us != NULL)
            *ret_at_us = r->again[i].at_us;
        return r->again[i].times;
    }
    return 0;
}

STORE_TEST(what_arrives_again_while_it_waits_is_dead_or_was_handled_is_counted_with_its_last_time) /* B90, B66 */
{
    struct worker *w = join_once(s, "inbox");
    const struct pr_message again = { .id = suite_id(5), .type = PR_STR("t"), .destination = PR_STR("billing") };
    const pr_id id = again.id;
    int64_t first_us = 0, last_us = 0;
    SEND(s, "inbox", .id = id, .destination = PR_STR("billing"));
    CHECK_EQ(told_again(s, id, "billing", NULL), 0);
    CHECK_EQ(OFFER(s, "inbox", .id = id, .destination = PR_STR("billing")), PR_DUPLICATE); /* it is ready */
    CHECK_EQ(told_again(s, id, "billing", &first_us), 1);
    struct claim c = worker_claim_to(w, id, "billing");
    suite_advance(s, PR_SECONDS(5));
    CHECK_EQ(OFFER(s, "inbox", .id = id, .destination = PR_STR("billing")), PR_DUPLICATE); /* it is handed out */
    CHECK_EQ(told_again(s, id, "billing", &last_us), 2);
    CHECK(last_us > first_us);
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_DEAD_LETTER, .cause = PR_REASON_REJECTED, .endpoint = PR_STR("billing")),
             PR_OK);
    int answers[2];
    const struct pr_message twice[] = { again, again };
    CHECK_EQ(store_enqueue(&s->store, PR_STR("inbox"), twice, 2, SUITE_PAYLOAD_MAX, NULL, answers, &s->error), PR_OK);
    CHECK_EQ(told_again(s, id, "billing", NULL), 4);
    CHECK_EQ(told_again(s, id, "", NULL), 0);
    CHECK_EQ(ADMIN_ID(s, ADMIN_DEAD_REPLAY, id).changed, 1);
    CHECK_EQ(END(w, worker_claim_to(w, id, "billing"), COMPLETE), PR_OK);
    CHECK_EQ(OFFER(s, "inbox", .id = id, .destination = PR_STR("billing")), PR_DUPLICATE);
    CHECK_EQ(told_again(s, id, "billing", NULL), 5); /* also when it was handled */
}

STORE_TEST(a_box_without_dedupe_notes_nothing_of_what_arrives_again) /* B2 */
{
    suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .destination = PR_STR("billing"));
    CHECK_EQ(OFFER(s, "outbox", .id = id, .destination = PR_STR("billing")), PR_DUPLICATE);
    CHECK_EQ(told_again(s, id, "billing", NULL), 0);
}

STORE_TEST(a_message_of_a_handler_that_was_handled_where_it_goes_is_a_duplicate) /* B90 */
{
    struct worker *w = join_once(s, "inbox");
    pr_id id = SEND(s, "inbox", .destination = PR_STR("billing"));
    CHECK_EQ(END(w, worker_claim(w, id), COMPLETE), PR_OK);
    const struct pr_message again = { .id = id, .type = PR_STR("t"), .destination = PR_STR("billing") };
    const struct effect e = {
        .kind = EFFECT_MESSAGE, .verdict = EFFECT_ALWAYS, .box = PR_STR("inbox"), .message = &again
    };
    CYCLE(w, .effects = &e, .effect_count = 1);
    CHECK(suite_find(s, id) == NULL);
}

STORE_TEST(a_box_without_dedupe_takes_what_it_had_before) /* B2 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .destination = PR_STR("billing"));
    CHECK_EQ(VERDICT(w, worker_claim(w, id), COMPLETE), PR_OK);
    CHECK_EQ(OFFER(s, "outbox", .id = id, .destination = PR_STR("billing")), PR_OK);
}

STORE_TEST(marks_of_a_box_whose_dedupe_was_turned_off_hold_nobody_up) /* B94 */
{
    struct worker *w = join_once(s, "outbox");
    pr_id id = SEND(s, "outbox", .destination = PR_STR("billing"));
    CHECK_EQ(END(w, worker_claim(w, id), COMPLETE), PR_OK);
    s->dedupe_us = 0;
    worker_renew_identity(w);
    CYCLE(w);
    CHECK_EQ(OFFER(s, "outbox", .id = id, .destination = PR_STR("billing")), PR_OK);
}

/* As a worker does that has no configuration. */
STORE_TEST(who_joins_without_a_time_of_its_own_leaves_the_box_its_time_and_is_told_it) /* B90 */
{
    struct worker *w = join_once(s, "outbox");
    pr_id id = SEND(s, "outbox", .destination = PR_STR("billing"));
    CHECK_EQ(END(w, worker_claim(w, id), COMPLETE), PR_OK);
    s->dedupe_us = DEDUPE_OF_BOX;
    worker_renew_identity(w);
    CHECK_EQ(CYCLE(w)->dedupe_us, HOUR_US);
    w->epoch = 0; /* that answer is lost: it joins again, and is told again */
    w->number--;
    CHECK_EQ(CYCLE(w)->dedupe_us, HOUR_US);
    CHECK_EQ(OFFER(s, "outbox", .id = id, .destination = PR_STR("billing")), PR_DUPLICATE);
}

/* ---- Forgetting ---------------------------------------------------------------------------------- */

/* Until the purge has come by. */
static void pass(struct worker *w, int64_t us)
{
    suite_advance(w->suite, us);
    for (int i = 0; i < 4; i++) {
        if (CYCLE_TRY(w, .force_write = true) != PR_OK) {
            worker_renew_identity(w);
            CYCLE(w);
        }
        suite_advance(w->suite, PR_SECONDS(11));
    }
}

STORE_TEST(a_mark_goes_when_its_time_is_over) /* B94 */
{
    struct worker *w = join_once(s, "outbox");
    pr_id id = SEND(s, "outbox", .destination = PR_STR("billing"));
    CHECK_EQ(END(w, worker_claim(w, id), COMPLETE), PR_OK);
    pass(w, HOUR_US - PR_SECONDS(60));
    CHECK(is_marked(w, id, "billing"));
    pass(w, PR_SECONDS(60));
    CHECK(!is_marked(w, id, "billing"));
    CHECK_EFFECTS(s, "");
}

STORE_TEST(a_mark_stays_over_its_time_while_a_row_of_its_message_waits) /* B90, B94 */
{
    struct worker *w = join_once(s, "outbox");
    const pr_id id = suite_id(5);
    SEND(s, "outbox", .id = id);
    SEND(s, "outbox", .id = id, .destination = PR_STR("billing"));
    struct claim paused = worker_claim_to(w, id, "billing");
    CHECK_EQ(END(w, worker_claim_to(w, id, ""), COMPLETE), PR_OK);
    CHECK_EQ(VERDICT(w, paused, .kind = VERDICT_PARK), PR_OK); /* its endpoint is paused for days */
    pass(w, 3 * HOUR_US);
    CHECK(is_marked(w, id, "billing"));
    CHECK_EQ(VERDICT(w, suite_seen(s, id), .kind = VERDICT_DUPLICATE, .endpoint = PR_STR("billing")), PR_OK);
    pass(w, 2 * HOUR_US);
    CHECK_EFFECTS(s, "");
}

STORE_TEST(a_mark_stays_over_its_time_while_a_dead_letter_has_its_id) /* B90, B94 */
{
    struct worker *w = join_once(s, "outbox");
    const pr_id id = suite_id(5);
    SEND(s, "outbox", .id = id);
    SEND(s, "outbox", .id = id, .destination = PR_STR("mail"));
    struct claim dies = worker_claim_to(w, id, "mail");
    CHECK_EQ(END(w, worker_claim_to(w, id, ""), COMPLETE), PR_OK);
    CHECK_EQ(VERDICT(w, dies, .kind = VERDICT_DEAD_LETTER, .cause = PR_REASON_REJECTED, .endpoint = PR_STR("mail")),
             PR_OK);
    pass(w, 3 * HOUR_US);
    CHECK(is_marked(w, id, "billing"));
    CHECK_EQ(ADMIN_ID(s, ADMIN_DEAD_DISCARD, id).changed, 1);
    pass(w, 3 * HOUR_US);
    CHECK_EFFECTS(s, "");
}

STORE_TEST(what_arrived_again_is_known_as_long_as_its_message_its_dead_letter_or_its_mark) /* B94 */
{
    struct worker *w = join_once(s, "outbox");
    pr_id id = SEND(s, "outbox", .destination = PR_STR("billing"));
    CHECK_EQ(OFFER(s, "outbox", .id = id, .destination = PR_STR("billing")), PR_DUPLICATE);
    CHECK_EQ(VERDICT(w, worker_claim(w, id), .kind = VERDICT_PARK), PR_OK);
    pass(w, 3 * HOUR_US);
    CHECK_EQ(told_again(s, id, "billing", NULL), 1);
    CHECK_EQ(END(w, suite_seen(s, id), .kind = VERDICT_DISCARD, .endpoint = PR_STR("billing")), PR_OK);
    pass(w, HOUR_US / 2);
    CHECK_EQ(told_again(s, id, "billing", NULL), 1);
    pass(w, 4 * HOUR_US);
    CHECK(!is_marked(w, id, "billing"));
    CHECK_EQ(told_again(s, id, "billing", NULL), 0);
}

STORE_TEST(many_marks_go_in_pieces_and_those_that_are_needed_hold_up_no_others) /* B94 */
{
    enum { COUNT = 2500 };
    static struct verdict verdicts[COUNT];
    static struct effect marks[COUNT];
    struct worker *w = join_once(s, "outbox");
    for (unsigned i = 0; i < COUNT; i++) {
        SEND(s, "outbox", .id = suite_id(100 + i), .destination = PR_STR("billing"));
        if (i < 1200) /* parked below: the first piece is nothing but these */
            SEND(s, "outbox", .id = suite_id(100 + i), .destination = PR_STR("mail"));
    }
    const struct cycle_reply *r = CYCLE(w, .fresh_rows = 5000, .fresh_bytes = 1u << 30);
    size_t count = 0;
    for (size_t i = 0; i < r->row_count; i++) {
        if (!slice_eq_cstr(r->rows[i].m.destination, "billing"))
            continue;
        verdicts[count] = (struct verdict){ .row = r->rows[i].row, .id = r->rows[i].m.id, COMPLETE };
        CHECK(mark_of_verdict(&verdicts[count], w->box, PR_STR("billing"), HOUR_US, &marks[count]));
        marks[count].verdict = count;
        count++;
    }
    CHECK_EQ(count, COUNT);
    CYCLE(w, .verdicts = verdicts, .verdict_count = count, .effects = marks, .effect_count = count);
    suite_advance(s, HOUR_US);
    for (int i = 0; i < 40; i++) {
        if (CYCLE_TRY(w, .force_write = true) != PR_OK) {
            worker_renew_identity(w);
            CYCLE(w);
        }
        suite_advance(s, PR_SECONDS(1));
    }
    CHECK(is_marked(w, suite_id(100), "billing"));
    CHECK(is_marked(w, suite_id(100 + 1199), "billing"));
    CHECK(!is_marked(w, suite_id(100 + 1200), "billing"));
    CHECK(!is_marked(w, suite_id(100 + COUNT - 1), "billing"));
}

/* A person's order ends them all at once, so that their marks go at one time, too. */
STORE_TEST(marks_of_one_time_go_in_pieces) /* B94 */
{
    enum { COUNT = 3000, PIECES = 2 * 1000 };
    static struct mark_key keys[COUNT];
    struct worker *w = join_once(s, "inbox");
    size_t left = 0;
    for (unsigned i = 0; i < COUNT; i++)
        keys[i] = (struct mark_key){ SEND(s, "inbox", .id = suite_id(100 + i), .destination = PR_STR("billing")),
                                     PR_STR("billing") };
    CHECK_EQ(ADMIN(s, ADMIN_DISCARD, FILTER(.box = PR_STR("inbox"))).changed, COUNT);
    suite_advance(s, HOUR_US + PR_SECONDS(1));
    worker_renew_identity(w);
    CYCLE(w);
    const struct cycle_reply *r = CYCLE(w, .force_write = true, .marks = keys, .mark_count = COUNT);
    for (size_t i = 0; i < COUNT && r->marked != NULL; i++)
        left += r->marked[i];
    CHECK(left >= COUNT - PIECES);
    for (int i = 0; i < 8; i++)
        pass(w, PR_SECONDS(1));
    CHECK_EFFECTS(s, "");
    suite_join(s, "outbox"); /* the suite's time is for all boxes */
}

/* ---- People ---------------------------------------------------------------------------------------- */

STORE_TEST(a_duplicate_is_counted_and_in_the_ledger) /* B89, B90 */
{
    s->ended_us = PR_SECONDS(86400);
    struct worker *w = join_once(s, "outbox");
    pr_id id = SEND(s, "outbox", .destination = PR_STR("billing"));
    struct claim c = worker_claim(w, id);
    const struct verdict v = VERDICT_OF(c, .kind = VERDICT_DUPLICATE, .endpoint = PR_STR("billing"));
    const struct tally t = { .endpoint = PR_STR("billing"), .duplicates = 1 };
    CYCLE(w, .verdicts = &v, .verdict_count = 1, .tallies = &t, .tally_count = 1);
    CHECK_EQ(w->reply->answers[0], PR_OK);
    CHECK_EQ(suite_endpoint(s, "billing")->duplicates, 1);
    struct query_reply reply = { .listed_count = 0 };
    const struct query query = { .kind = QUERY_ID, .filter = FILTER(.ids = &id, .id_count = 1), .ended = true };
    CHECK_OK(store_query(&s->store, &query, &s->arena, &reply, &s->error), &s->error);
    CHECK_EQ(reply.listed_count, 1);
    CHECK_EQ(reply.listed[0].ended, ENDED_DUPLICATE);
}

STORE_TEST(what_a_person_discards_is_marked_where_the_box_has_marks) /* B90 */
{
    struct worker *w = join_once(s, "inbox");
    pr_id row = SEND(s, "inbox", .destination = PR_STR("billing")),
          letter = SEND(s, "inbox", .destination = PR_STR("m"));
    CHECK_EQ(ADMIN_ID(s, ADMIN_DISCARD, row).changed, 1);
    CHECK_EQ(VERDICT(w, worker_claim(w, letter), .kind = VERDICT_DEAD_LETTER, .cause = PR_REASON_REJECTED,
                     .endpoint = PR_STR("m")),
             PR_OK);
    CHECK_EQ(ADMIN_ID(s, ADMIN_DEAD_DISCARD, letter).changed, 1);
    CHECK_EQ(OFFER(s, "inbox", .id = row, .destination = PR_STR("billing")), PR_DUPLICATE);
    CHECK_EQ(OFFER(s, "inbox", .id = letter, .destination = PR_STR("m")), PR_DUPLICATE);
    suite_join(s, "outbox"); /* the suite's time is for all boxes */
}

STORE_TEST(what_a_person_discards_elsewhere_leaves_no_mark) /* B2 */
{
    suite_join(s, "outbox");
    pr_id row = SEND(s, "outbox", .destination = PR_STR("billing"));
    CHECK_EQ(ADMIN_ID(s, ADMIN_DISCARD, row).changed, 1);
    CHECK_EFFECTS(s, "");
    CHECK_EQ(OFFER(s, "outbox", .id = row, .destination = PR_STR("billing")), PR_OK);
}

/* A dead letter of a message that was handled meanwhile: by another row of it. */
static pr_id dead_and_handled(struct suite *s, struct worker *w)
{
    const pr_id id = suite_id(5);
    SEND(s, "inbox", .id = id);
    SEND(s, "inbox", .id = id, .destination = PR_STR("billing"));
    struct claim handled = worker_claim_to(w, id, "");
    CHECK_EQ(VERDICT(w, worker_claim_to(w, id, "billing"), .kind = VERDICT_DEAD_LETTER, .cause = PR_REASON_REJECTED,
                     .endpoint = PR_STR("billing")),
             PR_OK);
    CHECK_EQ(END(w, handled, COMPLETE), PR_OK);
    return id;
}

STORE_TEST(a_dead_letter_whose_message_was_handled_is_replayed_only_when_a_person_insists) /* B90 */
{
    struct worker *w = join_once(s, "inbox");
    pr_id id = dead_and_handled(s, w);
    int64_t handled_us = s->wall_us;
    suite_advance(s, PR_SECONDS(5));
    struct admin_reply r = ADMIN_ID(s, ADMIN_DEAD_REPLAY, id, .dry_run = true);
    CHECK_EQ(r.changed, 0);
    CHECK_EQ(r.handled, 1);
    r = ADMIN_ID(s, ADMIN_DEAD_REPLAY, id);
    CHECK_EQ(r.changed, 0);
    CHECK_EQ(r.refused, 1);
    CHECK_EQ(r.handled, 1);
    CHECK_EQ(r.handled_us, handled_us);
    CHECK_EQ(suite_get(s, id)->state, STATE_DEAD);
    r = ADMIN_ID(s, ADMIN_DEAD_REPLAY, id, .again = true);
    CHECK_EQ(r.changed, 1);
    CHECK_EQ(r.handled, 0);
    CHECK_EQ(END(w, worker_claim(w, id), COMPLETE), PR_OK); /* its mark is gone: it is handled again, once */
    CHECK(is_marked(w, id, "billing"));
}

/* What is over here can be handled at once when dedupe is switched on again: nothing is to be left. */
STORE_TEST(a_person_who_insists_is_obeyed_where_dedupe_was_turned_off) /* B90 */
{
    struct worker *w = join_once(s, "inbox");
    pr_id id = dead_and_handled(s, w);
    s->dedupe_us = 0;
    worker_renew_identity(w);
    CYCLE(w);
    CHECK_EQ(ADMIN_ID(s, ADMIN_DEAD_REPLAY, id).handled, 1);
    CHECK_EQ(ADMIN_ID(s, ADMIN_DEAD_REPLAY, id, .again = true).changed, 1);
    CHECK(!is_marked(w, id, "billing"));
}

#define RUN_STEP 10

/* What a cycle hands out, and the next one ends. */
struct run_step {
    struct receipt_entry receipt[RUN_STEP];
    struct verdict verdicts[RUN_STEP];
    struct effect marks[RUN_STEP];
    size_t count;
    uint64_t cycle;
};

static void take_step(struct worker *w, struct run_step *step)
{
    step->count = w->reply->row_count;
    for (size_t i = 0; i < step->count; i++) {
        const struct row *row = &w->reply->rows[i];
        step->receipt[i] = (struct receipt_entry){ .row = row->row, .number = 1 };
        step->verdicts[i] = (struct verdict){ .row = row->row, .id = row->m.id, .number = 1, COMPLETE };
        CHECK(mark_of_verdict(&step->verdicts[i], w->box, PR_STR("billing"), HOUR_US, &step->marks[i]));
        step->marks[i].verdict = i;
    }
}

/* Cycle after cycle ends what the one before handed out, and reads on: PostgreSQL does that in one batch, and a mark that is there
 * already ends the batch. */
STORE_TEST(in_a_long_run_what_somebody_else_has_handled_meanwhile_is_told_and_nothing_else_is_lost) /* B90 */
{
    enum { ROWS = 12 * RUN_STEP, FOREIGN = 57 };
    struct run_step next = { .count = 0 }, out;
    struct worker *w = join_once(s, "outbox"), *other = join_once(s, "inbox");
    size_t ended = 0, handled = 0;
    for (unsigned i = 0; i < ROWS; i++)
        SEND(s, "outbox", .id = suite_id(100 + i));
    const struct effect foreign = { .kind = EFFECT_SEEN,
                                    .verdict = EFFECT_ALWAYS,
                                    .box = PR_STR("outbox"),
                                    .id = suite_id(100 + FOREIGN),
                                    .key = PR_STR("billing"),
                                    .outcome = ENDED_DELIVERED,
                                    .keep_us = HOUR_US };
    out.count = out.cycle = 0;
    for (unsigned round = 0; ended < ROWS; round++) {
        CHECK(round < ROWS);
        if (round == 4)
            CYCLE(other, .effects = &foreign, .effect_count = 1);
        next.cycle = w->number;
        CYCLE(w, .verdicts = out.verdicts, .verdict_count = out.count, .effects = out.marks, .effect_count = out.count,
              .receipt = next.receipt, .receipt_count = next.count, .closed = &out.cycle, .closed_count = out.count > 0,
              .fresh_rows = RUN_STEP, .fresh_bytes = 1 << 20);
        for (size_t i = 0; i < out.count; i++) {
            bool was_foreign = pr_id_equal(out.verdicts[i].id, foreign.id);
            CHECK_EQ(w->reply->answers[i], was_foreign ? ANSWER_HANDLED : PR_OK);
            handled += was_foreign;
        }
        ended += out.count;
        out = next;
        take_step(w, &next);
    }
    CHECK_EQ(handled, 1);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.box = PR_STR("outbox"))), 1);
    for (unsigned i = 0; i < ROWS; i++)
        CHECK(is_marked(w, suite_id(100 + i), "billing"));
}
