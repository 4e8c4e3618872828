/* The changes of verdicts and orders: each decided once, here. */
#include "core/change.h"

#include <string.h>

#include "base/slice.h"
#include "check.h"
#include "core/message.h"
#include "core/verdict.h"

static const pr_id an_id = { { 1, 2, 3 } };

#define NUMBER 3
#define VERDICT(...) (&(const struct verdict){ .row = 7, .id = an_id, .number = NUMBER, ##__VA_ARGS__ })
#define READ(...) (&(const struct verdict){ .row = 7, .id = an_id, ##__VA_ARGS__ }) /* not handed out */

static void check_hand_out(const struct change *c)
{
    CHECK_EQ(c->row, 7);
    CHECK(pr_id_equal(c->id, an_id));
    CHECK_EQ(c->guards, GUARD_ATTEMPTS);
    CHECK_EQ(c->attempts_are, NUMBER - 1);
}

TEST(a_failure_counts_the_hand_out_and_the_failure_and_comes_back) /* B30 */
{
    struct change c = change_of_verdict(VERDICT(.kind = VERDICT_FAIL, .reason = PR_REASON_REJECTED, .code = PR_STR("4"),
                                                .error = PR_STR("no"), .delay_us = 5, .bits = PR_STATUS_EVENT_STORED,
                                                .story = PR_STR("[]")),
                                        false);
    check_hand_out(&c);
    CHECK_EQ(c.sets, SET_ATTEMPTS | ADD_FAILURE | SET_REASON | SET_ERROR | SET_FAILED_AT | SET_DUE | KEEP_PARKED |
                         SET_HELD | SET_STORY);
    CHECK_EQ(c.attempts, NUMBER);
    CHECK_EQ(c.delay_us, 5);
    CHECK_EQ(c.reason, PR_REASON_REJECTED);
    CHECK_SLICE(c.code, "4");
    CHECK_SLICE(c.error, "no");
    CHECK_EQ(c.bits, PR_STATUS_EVENT_STORED | PR_STATUS_FAILED);
    CHECK_EQ(c.held_by.size, 0);
    CHECK_EQ(c.fate, FATE_STAYS);
}

TEST(a_failure_without_a_reason_is_unknown) /* D5 */
{
    CHECK_EQ(change_of_verdict(VERDICT(.kind = VERDICT_FAIL), false).reason, PR_REASON_UNKNOWN);
    CHECK_EQ(change_of_verdict(VERDICT(.kind = VERDICT_POSTPONE), false).reason, PR_REASON_UNKNOWN);
}

TEST(a_postponement_writes_why_and_counts_nothing) /* D12 */
{
    struct change c = change_of_verdict(VERDICT(.kind = VERDICT_POSTPONE, .reason = PR_REASON_TIMEOUT_EXCEEDED,
                                                .delay_us = 9, .bits = PR_STATUS_EVENT_STORED),
                                        false);
    check_hand_out(&c);
    CHECK_EQ(c.sets, SET_REASON | SET_ERROR | SET_FAILED_AT | SET_DUE | KEEP_PARKED | SET_HELD);
    CHECK_EQ(c.bits, PR_STATUS_FAILED); /* its stream waits behind it */
}

TEST(what_was_merely_read_is_counted_by_nobody) /* B44 */
{
    struct change c = change_of_verdict(READ(.kind = VERDICT_FAIL, .delay_us = 5), false);
    CHECK_EQ(c.guards, 0);
    CHECK_EQ(c.sets & (SET_ATTEMPTS | ADD_FAILURE | KEEP_PARKED), 0);
    c = change_of_verdict(READ(.kind = VERDICT_PARK, .reason = PR_REASON_DESTINATION_MISSING), false);
    CHECK_EQ(c.guards, GUARD_NOT_PARKED);
    CHECK_EQ(c.delay_us, PR_NEVER);
    c = change_of_verdict(READ(.kind = VERDICT_ABANDON), false);
    CHECK_EQ(c.guards, GUARD_MAY_UNPARK);
    c = change_of_verdict(READ(.kind = VERDICT_ABANDON, .delay_us = PR_NEVER), false);
    CHECK_EQ(c.guards, GUARD_NOT_PARKED);
}

TEST(a_hand_back_changes_nothing_and_compares_nothing) /* B44 */
{
    struct change c = change_of_verdict(VERDICT(.kind = VERDICT_RETURN, .bits = 4, .story = PR_STR("[]")), true);
    CHECK_EQ(c.guards, 0);
    CHECK_EQ(c.sets, 0);
    CHECK_EQ(c.bits, 0);
    CHECK_EQ(c.fate, FATE_STAYS);
}

TEST(a_park_is_a_failure_when_it_has_a_reason)
{
    struct change c = change_of_verdict(VERDICT(.kind = VERDICT_PARK, .reason = PR_REASON_UNAUTHORIZED), false);
    check_hand_out(&c);
    CHECK_EQ(c.sets,
             SET_ATTEMPTS | ADD_FAILURE | SET_REASON | SET_ERROR | SET_FAILED_AT | SET_DUE | KEEP_PARKED | SET_HELD);
    CHECK_EQ(c.delay_us, PR_NEVER);
    c = change_of_verdict(VERDICT(.kind = VERDICT_PARK), false);
    CHECK_EQ(c.sets, SET_ATTEMPTS | SET_DUE | KEEP_PARKED | SET_HELD);
    CHECK_EQ(c.bits, 0);
}

TEST(what_ends_goes_where_it_belongs)
{
    CHECK_EQ(change_of_verdict(VERDICT(.kind = VERDICT_COMPLETE), false).fate, FATE_GONE);
    struct change c = change_of_verdict(VERDICT(.kind = VERDICT_COMPLETE, .endpoint = PR_STR("e")), true);
    CHECK_EQ(c.fate, FATE_DONE);
    CHECK_EQ(c.guards, 0); /* what was sent was sent, whoever counted anew */
    CHECK_EQ(c.attempts, NUMBER);
    CHECK_SLICE(c.endpoint, "e");
    c = change_of_verdict(VERDICT(.kind = VERDICT_DISCARD), true);
    check_hand_out(&c);
    CHECK_EQ(c.fate, FATE_GONE);
    c = change_of_verdict(VERDICT(.kind = VERDICT_EXPIRE), true);
    CHECK_EQ(c.guards, 0);
    CHECK_EQ(c.fate, FATE_GONE);
}

TEST(a_dead_letter_keeps_its_last_real_failure) /* D6 */
{
    struct change c = change_of_verdict(VERDICT(.kind = VERDICT_DEAD_LETTER, .cause = PR_REASON_POISON_MESSAGE,
                                                .limit = 5, .rule = PR_STR("r"), .fingerprint = "0123456789abcdef"),
                                        false);
    check_hand_out(&c);
    CHECK_EQ(c.fate, FATE_DEAD);
    CHECK_EQ(c.sets, SET_ATTEMPTS);
    CHECK_EQ(c.bits, PR_STATUS_FAILED);
    CHECK_EQ(c.cause, PR_REASON_POISON_MESSAGE);
    CHECK_EQ(c.limit, 5);
    CHECK_SLICE(c.rule, "r");
    CHECK(strcmp(c.fingerprint, "0123456789abcdef") == 0);
    c = change_of_verdict(VERDICT(.kind = VERDICT_DEAD_LETTER, .reason = PR_REASON_REJECTED, .counted = true), false);
    CHECK_EQ(c.sets, SET_ATTEMPTS | ADD_FAILURE | SET_REASON | SET_ERROR | SET_FAILED_AT);
    c = change_of_verdict(VERDICT(.kind = VERDICT_DEAD_LETTER, .reason = PR_REASON_REJECTED), false);
    CHECK_EQ(c.sets, SET_ATTEMPTS | SET_REASON | SET_ERROR);
}

TEST(a_hold_yields_to_what_a_person_did_meanwhile)
{
    struct change c = change_of_verdict(READ(.kind = VERDICT_HOLD, .held_by = PR_STR("e/s")), false);
    CHECK_EQ(c.guards, GUARD_NOT_PARKED | GUARD_NOT_RELEASED);
    CHECK_EQ(c.sets, SET_HELD);
    CHECK_SLICE(c.held_by, "e/s");
}

/* ---- Orders --------------------------------------------------------------------------------------- */

static struct change order(struct order_texts *texts, enum admin_kind kind, const struct pr_message *m)
{
    const struct row_order o = { .kind = kind, .by = PR_STR("ann"), .why = PR_STR("fixed") };
    struct change c;
    CHECK_EQ(change_of_order(&o, m, 7, PR_STR("e"), 1000, texts, &c), PR_OK);
    CHECK_EQ(c.row, 7);
    CHECK_EQ(c.guards, 0);
    return c;
}

TEST(an_order_about_a_row_is_a_change)
{
    const struct pr_message m = { .id = an_id, .attempts = 2, .failures = 1, .type = PR_STR("t") };
    struct order_texts t;
    order_texts_init(&t);
    struct change c = order(&t, ADMIN_RETRY, &m);
    CHECK_EQ(c.sets, SET_NEW_COUNT | SET_DUE | SET_HELD | SET_STORY);
    CHECK_EQ(c.delay_us, 0);
    CHECK(slice_contains(c.story, PR_STR("\"step\":\"retry\"")));
    CHECK(slice_contains(c.story, PR_STR("\"next\"")));
    c = order(&t, ADMIN_RELEASE, &m);
    CHECK_EQ(c.sets, SET_RELEASED | SET_DUE | SET_HELD | SET_STORY);
    c = order(&t, ADMIN_PARK, &m);
    CHECK_EQ(c.sets, SET_DUE | SET_HELD | SET_STORY);
    CHECK_EQ(c.delay_us, PR_NEVER);
    c = order(&t, ADMIN_DISCARD, &m);
    CHECK_EQ(c.sets, 0);
    CHECK_EQ(c.fate, FATE_GONE);
    order_texts_fini(&t);
}

TEST(what_is_made_dead_by_hand_has_an_error_a_cause_and_a_note)
{
    struct pr_message m = { .id = an_id, .type = PR_STR("t") };
    struct order_texts t;
    order_texts_init(&t);
    struct change c = order(&t, ADMIN_DEAD_ADD, &m);
    CHECK_EQ(c.fate, FATE_DEAD);
    CHECK_EQ(c.sets, SET_ERROR | SET_NOTE | SET_STORY);
    CHECK_EQ(c.cause, PR_REASON_REJECTED);
    CHECK_SLICE(c.error, "fixed");
    CHECK_SLICE(c.note, "ann: fixed");
    CHECK_SLICE(c.rule, "ann");
    CHECK_SLICE(c.endpoint, "e");
    CHECK(fingerprint_is_valid(slice_from(c.fingerprint)));
    m.reason = PR_REASON_UNAUTHORIZED;
    m.error = PR_STR("401");
    c = order(&t, ADMIN_DEAD_ADD, &m);
    CHECK_EQ(c.cause, PR_REASON_UNAUTHORIZED);
    CHECK_SLICE(c.error, "401");
    order_texts_fini(&t);
}

TEST(a_dead_letter_goes_back_with_a_new_count_and_before_its_followers) /* B59 */
{
    const struct pr_message m = { .id = an_id, .type = PR_STR("t"), .status = PR_STATUS_FAILED };
    struct order_texts t;
    order_texts_init(&t);
    struct change c = order(&t, ADMIN_DEAD_REPLAY, &m);
    CHECK_EQ(c.fate, FATE_BACK);
    CHECK_EQ(c.sets, SET_NEW_COUNT | SET_DUE | SET_HELD | SET_STORY);
    CHECK_EQ(c.bits, PR_STATUS_FAILED);
    CHECK_EQ(order(&t, ADMIN_DEAD_EDIT, &m).fate, FATE_COPIED);
    CHECK_EQ(order(&t, ADMIN_DEAD_DISCARD, &m).fate, FATE_GONE);
    c = order(&t, ADMIN_DEAD_NOTE, &m);
    CHECK_EQ(c.fate, FATE_STAYS);
    CHECK_EQ(c.sets, SET_NOTE | SET_STORY);
    order_texts_fini(&t);
}

TEST(an_edited_message_is_new_and_names_the_old_one)
{
    const pr_slice payload = PR_STR("right");
    const struct dead_edit edit = { .payload = &payload };
    const struct row_order o = { .kind = ADMIN_DEAD_EDIT, .edit = &edit, .made = { { 9 } } };
    const struct pr_message dead = { .id = an_id,
                                     .payload = PR_STR("wrong"),
                                     .destination = PR_STR("e"),
                                     .attempts = 4,
                                     .failures = 3,
                                     .released = true,
                                     .held_by = PR_STR("k") };
    char cause[PR_ID_TEXT_SIZE], old[PR_ID_TEXT_SIZE];
    struct pr_message m = message_edited(&dead, &o, cause);
    pr_id_format(an_id, old);
    CHECK(pr_id_equal(m.id, o.made));
    CHECK_SLICE(m.causation_id, old);
    CHECK_SLICE(m.payload, "right");
    CHECK_SLICE(m.destination, "e");
    CHECK_EQ(m.attempts, 0);
    CHECK_EQ(m.failures, 0);
    CHECK(!m.released);
    CHECK_EQ(m.held_by.size, 0);
}

/* ---- Guards --------------------------------------------------------------------------------------- */

static int parked_by(struct verdict v)
{
    const struct change c = change_of_verdict(&v, false);
    return change_parked_by(&c, &(struct pr_message){ .due_us = 7 });
}

TEST(only_what_the_routes_parked_goes_on_by_itself) /* B18 */
{
    const int missing = PR_REASON_DESTINATION_MISSING;
    struct pr_message m = { .due_us = PR_NEVER };
    struct order_texts texts;
    struct change by_hand;

    CHECK_EQ(parked_by((struct verdict){ .kind = VERDICT_PARK, .reason = missing }), PR_PARKED_BY_ROUTE);
    /* Its endpoint refused it for the same reason. */
    CHECK_EQ(parked_by((struct verdict){ .kind = VERDICT_PARK, .reason = missing, .number = 1 }), PR_PARKED_BY_RULE);
    CHECK_EQ(parked_by((struct verdict){ .kind = VERDICT_FAIL, .reason = missing, .delay_us = PR_NEVER }),
             PR_PARKED_BY_RULE);
    CHECK_EQ(parked_by((struct verdict){ .kind = VERDICT_FAIL, .reason = missing, .delay_us = 5 }), 0);
    order_texts_init(&texts);
    CHECK_EQ(change_of_order(&(struct row_order){ .kind = ADMIN_PARK }, &m, 1, PR_STR(""), 1, &texts, &by_hand), PR_OK);
    order_texts_fini(&texts);
    CHECK_EQ(change_parked_by(&by_hand, &m), PR_PARKED_BY_PERSON);

    CHECK(!message_awaits_route(&m));
    m.parked_by = PR_PARKED_BY_PERSON;
    CHECK(!message_awaits_route(&m));
    m.parked_by = PR_PARKED_BY_ROUTE;
    CHECK(message_awaits_route(&m));
    m.due_us = 1;
    CHECK(!message_awaits_route(&m));
}

TEST(who_parked_a_row_stays_while_it_stays_parked)
{
    const struct change late = { .sets = SET_DUE | KEEP_PARKED, .delay_us = 5 };
    const struct pr_message parked = { .due_us = PR_NEVER, .parked_by = PR_PARKED_BY_PERSON };
    CHECK_EQ(change_parked_by(&late, &parked), PR_PARKED_BY_PERSON);
    const struct change other = { .sets = SET_STORY };
    CHECK_EQ(change_parked_by(&other, &parked), PR_PARKED_BY_PERSON);
    const struct change retry = { .sets = SET_DUE };
    CHECK_EQ(change_parked_by(&retry, &parked), 0);
    const struct change moved = { .sets = SET_DUE_AT | KEEP_PARKED, .due_us = 5 };
    CHECK_EQ(change_parked_by(&moved, &parked), 0);
}

TEST(a_part_waits_for_its_endpoint_unless_its_stream_holds_it)
{
    const struct part_holder holders[] = { { .held_for = PR_HELD_FOR_STREAM },
                                           { PR_STR("a/s"), PR_HELD_FOR_STREAM },
                                           { PR_STR("a/"), PR_HELD_FOR_ENDPOINT } };
    struct change c = { .destination_count = 3, .holders = holders };
    CHECK_EQ(change_part_holder(&c, 0).held_for, PR_HELD_FOR_ENDPOINT);
    CHECK_EQ(change_part_holder(&c, 0).key.size, 0);
    CHECK_SLICE(change_part_holder(&c, 1).key, "a/s");
    CHECK_EQ(change_part_holder(&c, 1).held_for, PR_HELD_FOR_STREAM);
    CHECK_SLICE(change_part_holder(&c, 2).key, "a/");
    c.holders = NULL;
    CHECK_EQ(change_part_holder(&c, 1).held_for, PR_HELD_FOR_ENDPOINT);
    CHECK_EQ(change_part_holder(&c, 1).key.size, 0);
}

TEST(guards_hold_as_long_as_the_row_is_as_it_was)
{
    const struct change c = { .guards = GUARD_ATTEMPTS, .attempts_are = 2 };
    CHECK(change_holds(&c, &(struct pr_message){ .attempts = 2, .due_us = PR_NEVER, .released = true }));
    CHECK(!change_holds(&c, &(struct pr_message){ .attempts = 3 }));
    const struct change hold = { .guards = GUARD_NOT_PARKED | GUARD_NOT_RELEASED };
    CHECK(change_holds(&hold, &(struct pr_message){ .due_us = 5 }));
    CHECK(!change_holds(&hold, &(struct pr_message){ .due_us = PR_NEVER }));
    CHECK(!change_holds(&hold, &(struct pr_message){ .released = true }));
    const struct change unpark = { .guards = GUARD_MAY_UNPARK };
    CHECK(change_holds(&unpark, &(struct pr_message){ .due_us = 5 }));
    CHECK(!change_holds(&unpark, &(struct pr_message){ .due_us = PR_NEVER })); /* it waits for a person */
    CHECK(change_holds(&unpark, &(struct pr_message){ .due_us = PR_NEVER, .parked_by = PR_PARKED_BY_ROUTE }));
}

TEST(a_due_time_is_never_that_of_a_fresh_row_and_what_is_parked_may_stay_so)
{
    const struct change c = { .sets = SET_DUE | KEEP_PARKED, .delay_us = 0 };
    CHECK_EQ(change_due_us(&c, &(struct pr_message){ .due_us = 0 }, 0), 1);
    CHECK_EQ(change_due_us(&c, &(struct pr_message){ .due_us = 7 }, 9), 9);
    CHECK_EQ(change_due_us(&c, &(struct pr_message){ .due_us = PR_NEVER }, 9), PR_NEVER);
    const struct change far = { .sets = SET_DUE, .delay_us = PR_NEVER - 1 };
    CHECK_EQ(change_due_us(&far, &(struct pr_message){ .due_us = PR_NEVER }, 9), PR_NEVER);
    const struct change none = { .delay_us = 5 };
    CHECK_EQ(change_due_us(&none, &(struct pr_message){ .due_us = 7 }, 9), 7);
}

TEST(what_comes_back_at_its_due_time_is_what_the_change_makes_due)
{
    for (enum verdict_kind kind = VERDICT_COMPLETE; kind <= VERDICT_SPLIT; kind++) {
        CHECK(verdict_traits(kind)->name != NULL);
        if (kind == VERDICT_RETURN) /* nothing is written */
            continue;
        struct change c =
            change_of_verdict(VERDICT(.kind = kind, .delay_us = 5, .held_by = PR_STR("x/y"), .cause = 1), false);
        bool due = c.fate == FATE_STAYS && (c.sets & (SET_DUE | SET_DUE_AT)) != 0 && c.delay_us != PR_NEVER;
        CHECK_EQ(verdict_traits(kind)->comes_back, due);
    }
}

TEST(an_order_is_found_by_its_name)
{
    enum admin_kind found = ADMIN_RETRY;
    for (enum admin_kind kind = ADMIN_RETRY; kind <= ADMIN_REPLAY_RESUME; kind++) {
        CHECK(action_find(slice_from(action_of(kind)->name), &found));
        CHECK_EQ(found, kind);
    }
    CHECK(!action_find(PR_STR("hurry"), &found));
}
