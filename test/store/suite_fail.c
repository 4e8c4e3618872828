/* Failing, abandoning, returning, parking: what is written and what is counted. */
#include "suite.h"

#include <string.h>

STORE_TEST(a_failure_writes_all_its_fields) /* B30 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    struct claim c = worker_claim(w, id);
    suite_advance(s, PR_SECONDS(3));
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_FAIL, .reason = PR_REASON_DEPENDENCY_FAILURE, .code = PR_STR("E42"),
                     .error = PR_STR("no such customer"), .delay_us = PR_SECONDS(7), .bits = PR_STATUS_EVENT_STORED,
                     .story = PR_STR("[{\"step\":\"retry\"}]")),
             PR_OK);
    const struct listed *l = suite_get(s, id);
    CHECK_EQ(l->state, STATE_RETRYING);
    CHECK_EQ(l->m.status, PR_STATUS_STORED | PR_STATUS_EVENT_STORED | PR_STATUS_FAILED);
    CHECK_EQ(l->m.attempts, 1);
    CHECK_EQ(l->m.failures, 1);
    CHECK_EQ(l->m.reason, PR_REASON_DEPENDENCY_FAILURE);
    CHECK_SLICE(l->m.code, "E42");
    CHECK_SLICE(l->m.error, "no such customer");
    CHECK_EQ(l->m.failed_us, s->wall_us);
    CHECK_EQ(l->m.due_us, s->wall_us + PR_SECONDS(7));
    CHECK_SLICE(l->m.story, "[{\"step\":\"retry\"}]");
}

STORE_TEST(the_latest_failure_replaces_the_one_before_and_an_empty_story_keeps_the_old) /* B30 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    CHECK_EQ(VERDICT(w, worker_claim(w, id), .kind = VERDICT_FAIL, .reason = PR_REASON_REJECTED, .code = PR_STR("1"),
                     .error = PR_STR("one"), .story = PR_STR("[1]")),
             PR_OK);
    struct claim c = worker_claim(w, id);
    CHECK_EQ(c.number, 2);
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_FAIL, .reason = PR_REASON_TIMEOUT_EXCEEDED, .error = PR_STR("two")), PR_OK);
    const struct listed *l = suite_get(s, id);
    CHECK_EQ(l->m.attempts, 2);
    CHECK_EQ(l->m.failures, 2);
    CHECK_EQ(l->m.reason, PR_REASON_TIMEOUT_EXCEEDED);
    CHECK_SLICE(l->m.code, "");
    CHECK_SLICE(l->m.error, "two");
    CHECK_SLICE(l->m.story, "[1]");
}

STORE_TEST(a_failure_without_a_reason_is_unknown) /* D5 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    CHECK_EQ(VERDICT(w, worker_claim(w, id), .kind = VERDICT_FAIL), PR_OK);
    CHECK_EQ(suite_get(s, id)->m.reason, PR_REASON_UNKNOWN);
}

STORE_TEST(any_text_is_stored_without_damage_to_anything) /* B31 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox"), other = SEND(s, "outbox");
    static const char nasty[] = "it's \"quoted\" \\ and\nnew\r\n\ttab; DROP TABLE outbox;-- \xef\xbf\xbd "
                                "\xf0\x9f\x90\x8e %s $1 ?1 {box}";
    pr_slice text = PR_BYTES(nasty, sizeof(nasty) - 1);
    CHECK_EQ(VERDICT(w, worker_claim(w, id), .kind = VERDICT_FAIL, .reason = PR_REASON_UNKNOWN, .code = text,
                     .error = text, .story = PR_STR("[{\"error\":\"it's \\\"quoted\\\"\"}]")),
             PR_OK);
    CHECK_SLICE(suite_get(s, id)->m.error, text);
    CHECK_SLICE(suite_get(s, id)->m.code, text);
    CHECK_SLICE(suite_get(s, id)->m.story, "[{\"error\":\"it's \\\"quoted\\\"\"}]");
    CHECK_EQ(suite_get(s, other)->state, STATE_READY);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.error = text)), 1);
    CHECK_EQ(VERDICT(w, worker_claim(w, id), .kind = VERDICT_DEAD_LETTER, .reason = PR_REASON_UNKNOWN,
                     .cause = PR_REASON_POISON_MESSAGE, .error = text, .code = text, .rule = text),
             PR_OK);
    CHECK_SLICE(suite_get(s, id)->m.error, text);
    CHECK_SLICE(suite_get(s, id)->rule, text);
}

STORE_TEST(the_longest_failure_text_is_stored_whole) /* B30 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    char *text = arena_alloc(&s->arena, (size_t)PR_ERROR_MAX * 4);
    CHECK(text != NULL);
    for (size_t i = 0; i < PR_ERROR_MAX; i++)
        memcpy(text + i * 4, "\xf0\x9f\x90\x8e", 4);
    pr_slice error = PR_BYTES(text, (size_t)PR_ERROR_MAX * 4);
    CHECK_EQ(VERDICT(w, worker_claim(w, id), .kind = VERDICT_FAIL, .reason = PR_REASON_UNKNOWN, .error = error), PR_OK);
    CHECK_SLICE(suite_get(s, id)->m.error, error);
}

STORE_TEST(a_failed_row_comes_at_its_time_and_not_before) /* B32 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    CYCLE(w, .fresh_rows = 10);
    worker_fail(w, id, PR_SECONDS(5));
    suite_advance(s, PR_SECONDS(5) - 1);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10, .due.rows = 10, .restart_lanes = LANES_ALL)->row_count, 0);
    CHECK_EQ(w->reply->next_due_us, s->wall_us + 1);
    suite_advance(s, 1);
    CHECK(reply_find(CYCLE(w, .due.rows = 10), id) != NULL);
    CHECK_EQ(w->reply->rows[0].m.attempts, 1);
}

STORE_TEST(a_failed_row_does_not_come_early_to_another_instance) /* B32 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    worker_fail(w, id, PR_SECONDS(50));
    CYCLE(w, .leave = true);
    struct worker *b = suite_join(s, "outbox");
    CHECK_EQ(CYCLE(b, .fresh_rows = 10, .due.rows = 10)->row_count, 0);
    suite_advance(s, PR_SECONDS(50));
    worker_renew_identity(b); /* its lease is long over */
    CYCLE(b);
    CHECK_EQ(CYCLE(b, .fresh_rows = 10, .due.rows = 10)->row_count, 1);
}

STORE_TEST(a_failure_and_its_time_survive_a_reopen) /* B32 */
{
    suite_needs(s, STORE_CAN_LAST);
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    worker_fail(w, id, PR_SECONDS(5));
    CYCLE(w, .leave = true);
    suite_reopen(s);
    CHECK_EQ(suite_get(s, id)->m.failures, 1);
    w = suite_join(s, "outbox");
    CHECK_EQ(CYCLE(w, .fresh_rows = 10, .due.rows = 10)->row_count, 0);
    suite_advance(s, PR_SECONDS(5));
    CHECK_EQ(CYCLE(w, .fresh_rows = 10, .due.rows = 10)->row_count, 1);
}

STORE_TEST(a_failure_with_no_delay_is_due_at_once)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    worker_fail(w, id, 0);
    CHECK(reply_find(CYCLE(w, .due.rows = 10), id) != NULL);
}

STORE_TEST(a_failure_with_an_endless_delay_parks) /* D4 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    worker_fail(w, id, PR_NEVER);
    CHECK_EQ(suite_get(s, id)->m.due_us, PR_NEVER);
    CHECK_EQ(suite_get(s, id)->state, STATE_PARKED);
}

STORE_TEST(bits_are_only_ever_added) /* B37 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    CHECK_EQ(VERDICT(w, worker_claim(w, id), .kind = VERDICT_FAIL, .reason = PR_REASON_UNKNOWN,
                     .bits = PR_STATUS_EVENT_STORED),
             PR_OK);
    CHECK_EQ(VERDICT(w, worker_claim(w, id), .kind = VERDICT_FAIL, .reason = PR_REASON_UNKNOWN, .bits = 0), PR_OK);
    CHECK_EQ(suite_get(s, id)->m.status, PR_STATUS_STORED | PR_STATUS_EVENT_STORED | PR_STATUS_FAILED);
    CHECK_EQ(VERDICT(w, worker_claim(w, id), .kind = VERDICT_ABANDON, .bits = PR_STATUS_PUBLISHED), PR_OK);
    CHECK((suite_get(s, id)->m.status & PR_STATUS_EVENT_STORED) != 0);
    ADMIN_ID(s, ADMIN_RETRY, id);
    int status = suite_get(s, id)->m.status;
    CHECK((status & PR_STATUS_EVENT_STORED) != 0 && (status & PR_STATUS_FAILED) != 0);
    CHECK_EQ(VERDICT(w, worker_claim(w, id), .kind = VERDICT_DEAD_LETTER, .cause = PR_REASON_REJECTED), PR_OK);
    CHECK_EQ(suite_get(s, id)->m.status & status, status);
    ADMIN_ID(s, ADMIN_DEAD_REPLAY, id);
    CHECK_EQ(suite_get(s, id)->m.status & status, status);
}

STORE_TEST(a_return_counts_nothing_and_writes_nothing) /* B44 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox"), failed = SEND(s, "outbox");
    worker_fail(w, failed, 5);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(VERDICT(w, worker_claim(w, id), .kind = VERDICT_RETURN), PR_OK);
        CHECK_EQ(VERDICT(w, worker_claim(w, failed), .kind = VERDICT_RETURN), PR_OK);
    }
    const struct listed *l = suite_get(s, id);
    CHECK_EQ(l->m.attempts, 0);
    CHECK_EQ(l->m.due_us, 0);
    CHECK_EQ(l->state, STATE_READY);
    CHECK_EQ(suite_get(s, failed)->m.attempts, 1);
    CHECK_EQ(suite_get(s, failed)->m.due_us, s->wall_us + 5);
}

STORE_TEST(an_abandon_counts_an_attempt_and_no_failure) /* B44 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    for (int i = 1; i <= 3; i++) {
        CHECK_EQ(VERDICT(w, worker_claim(w, id), .kind = VERDICT_ABANDON, .delay_us = PR_SECONDS(i)), PR_OK);
        const struct listed *l = suite_get(s, id);
        CHECK_EQ(l->m.attempts, i);
        CHECK_EQ(l->m.failures, 0);
        CHECK_EQ(l->m.due_us, s->wall_us + PR_SECONDS(i));
        CHECK_EQ(l->m.status, PR_STATUS_STORED);
        CHECK_EQ(l->m.reason, 0);
        CHECK(message_blocks_stream(&l->m)); /* it came back */
    }
}

STORE_TEST(an_abandon_that_was_not_handed_out_brings_back_what_was_parked_for_want_of_an_endpoint) /* B18 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    CHECK_EQ(VERDICT(w, suite_seen(s, id), .kind = VERDICT_PARK, .reason = PR_REASON_DESTINATION_MISSING,
                     .story = PR_STR("[{\"attempt\":0,\"reason\":\"destination_missing\"}]")),
             PR_OK);
    CHECK_EQ(VERDICT(w, suite_seen(s, id), .kind = VERDICT_ABANDON), PR_OK);
    const struct listed *l = suite_get(s, id);
    CHECK_EQ(l->m.due_us, s->wall_us);
    CHECK_EQ(l->m.attempts, 0);
    CHECK_EQ(l->m.failures, 0);
}

STORE_TEST(a_postponed_row_keeps_its_counters_and_says_why_it_waits) /* D12 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .stream = PR_STR("s"));
    worker_fail(w, id, 0);
    struct claim c = worker_claim(w, id);
    CHECK_EQ(c.number, 2);
    suite_advance(s, PR_SECONDS(3));
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_POSTPONE, .reason = PR_REASON_DEPENDENCY_FAILURE,
                     .code = PR_STR("ECONNREFUSED"), .error = PR_STR("nobody listens"), .delay_us = PR_SECONDS(7),
                     .story = PR_STR("[{\"step\":\"postpone\"}]")),
             PR_OK);
    const struct listed *l = suite_get(s, id);
    CHECK_EQ(l->state, STATE_RETRYING);
    CHECK_EQ(l->m.attempts, 1);
    CHECK_EQ(l->m.failures, 1);
    CHECK_EQ(l->m.reason, PR_REASON_DEPENDENCY_FAILURE);
    CHECK_SLICE(l->m.code, "ECONNREFUSED");
    CHECK_SLICE(l->m.error, "nobody listens");
    CHECK_EQ(l->m.failed_us, s->wall_us);
    CHECK_EQ(l->m.due_us, s->wall_us + PR_SECONDS(7));
    CHECK_SLICE(l->m.story, "[{\"step\":\"postpone\"}]");
    suite_advance(s, PR_SECONDS(7));
    CHECK(reply_find(CYCLE(w, .due.rows = 10), id) != NULL);
}

STORE_TEST(the_stream_of_a_postponed_row_waits_behind_it_on_any_instance) /* B51 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .stream = PR_STR("s"));
    CHECK_EQ(VERDICT(w, worker_claim(w, id), .kind = VERDICT_POSTPONE, .delay_us = PR_SECONDS(7)), PR_OK);
    const struct listed *l = suite_get(s, id);
    CHECK_EQ(l->m.attempts, 0);
    CHECK_EQ(l->m.failures, 0);
    CHECK_EQ(l->m.reason, PR_REASON_UNKNOWN);
    CHECK(message_blocks_stream(&l->m));
    CHECK(reply_find(CYCLE(w, .heads.rows = 10, .heads.lanes = LANES_ALL), id) != NULL);
}

STORE_TEST(a_postponement_of_a_hand_out_that_was_judged_meanwhile_is_stale)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    struct claim c = worker_claim(w, id);
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_FAIL, .reason = PR_REASON_REJECTED, .delay_us = 5), PR_OK);
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_POSTPONE, .reason = PR_REASON_TIMEOUT_EXCEEDED, .delay_us = 9), PR_STALE);
    CHECK_EQ(suite_get(s, id)->m.reason, PR_REASON_REJECTED);
}

STORE_TEST(a_row_that_a_person_parked_while_it_was_out_stays_parked_when_it_is_postponed)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    struct claim c = worker_claim(w, id);
    CHECK_EQ(ADMIN_ID(s, ADMIN_PARK, id).changed, 1);
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_POSTPONE, .reason = PR_REASON_TIMEOUT_EXCEEDED, .delay_us = 9), PR_OK);
    CHECK_EQ(suite_get(s, id)->m.due_us, PR_NEVER);
    CHECK_EQ(suite_get(s, id)->m.reason, PR_REASON_TIMEOUT_EXCEEDED);
}

STORE_TEST(what_comes_back_with_a_time_is_held_no_more)
{
    struct worker *w = suite_join(s, "outbox");
    static const enum verdict_kind kinds[] = { VERDICT_FAIL, VERDICT_ABANDON, VERDICT_PARK, VERDICT_RELEASE,
                                               VERDICT_POSTPONE };
    for (unsigned i = 0; i < ARRAY_LENGTH(kinds); i++) {
        pr_id id = SEND(s, "outbox", .id = suite_id(i + 1));
        CHECK_EQ(VERDICT(w, suite_seen(s, id), .kind = VERDICT_HOLD, .held_by = PR_STR("k")), PR_OK);
        CHECK_EQ(VERDICT(w, worker_claim(w, id), .kind = kinds[i], .reason = PR_REASON_UNKNOWN), PR_OK);
        CHECK_SLICE(suite_get(s, id)->m.held_by, "");
    }
}

STORE_TEST(a_park_with_a_reason_is_a_failure_that_waits_for_a_person)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    CHECK_EQ(VERDICT(w, worker_claim(w, id), .kind = VERDICT_PARK, .reason = PR_REASON_UNAUTHORIZED,
                     .code = PR_STR("401"), .error = PR_STR("who?"), .bits = PR_STATUS_EVENT_STORED,
                     .story = PR_STR("[7]")),
             PR_OK);
    const struct listed *l = suite_get(s, id);
    CHECK_EQ(l->state, STATE_PARKED);
    CHECK_EQ(l->m.due_us, PR_NEVER);
    CHECK_EQ(l->m.attempts, 1);
    CHECK_EQ(l->m.failures, 1);
    CHECK_EQ(l->m.reason, PR_REASON_UNAUTHORIZED);
    CHECK_EQ(l->m.failed_us, s->wall_us);
    CHECK_SLICE(l->m.code, "401");
    CHECK_SLICE(l->m.error, "who?");
    CHECK_SLICE(l->m.story, "[7]");
    CHECK_EQ(l->m.status, PR_STATUS_STORED | PR_STATUS_EVENT_STORED | PR_STATUS_FAILED);
}

STORE_TEST(a_park_of_a_row_that_was_merely_read_counts_nothing) /* B18 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox"), silent = SEND(s, "outbox");
    CHECK_EQ(VERDICT(w, suite_seen(s, id), .kind = VERDICT_PARK, .reason = PR_REASON_DESTINATION_MISSING,
                     .error = PR_STR("no route")),
             PR_OK);
    const struct listed *l = suite_get(s, id);
    CHECK_EQ(l->m.due_us, PR_NEVER);
    CHECK_EQ(l->m.attempts, 0);
    CHECK_EQ(l->m.failures, 0);
    CHECK_EQ(l->m.reason, PR_REASON_DESTINATION_MISSING);
    CHECK_SLICE(l->m.error, "no route");
    CHECK_EQ(suite_box(s, "outbox")->parked, 1);

    CHECK_EQ(VERDICT(w, suite_seen(s, silent), .kind = VERDICT_PARK), PR_OK);
    l = suite_get(s, silent);
    CHECK_EQ(l->m.due_us, PR_NEVER);
    CHECK_EQ(l->m.reason, 0);
    CHECK_EQ(l->m.status, PR_STATUS_STORED);
}

STORE_TEST(a_failing_row_costs_its_neighbours_nothing) /* B35 */
{
    struct worker *w = suite_join(s, "outbox");
    struct verdict v[10];
    struct receipt_entry entries[10];
    for (unsigned i = 0; i < 10; i++) {
        pr_id id = SEND(s, "outbox", .id = suite_id(i + 1));
        entries[i] = (struct receipt_entry){ suite_get(s, id)->row, 1 };
        v[i] = (struct verdict){ .kind = i == 4 ? VERDICT_FAIL : VERDICT_COMPLETE,
                                 .row = entries[i].row,
                                 .id = id,
                                 .number = 1,
                                 .reason = PR_REASON_REJECTED };
    }
    CYCLE(w, .receipt = entries, .receipt_count = 10);
    CYCLE(w, .verdicts = v, .verdict_count = 10);
    for (size_t i = 0; i < 10; i++)
        CHECK_EQ(w->reply->answers[i], PR_OK);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER()), 1);
    CHECK_EQ(suite_get(s, suite_id(5))->m.failures, 1);
}
