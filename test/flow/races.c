/* Several things at once, long chains, and ends in the first turn. */
#include "stand.h"

#include <stdio.h>
#include <string.h>

#include "base/slice.h"

static int race(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    (void)input;
    pr_task tasks[3] = { pr_event(f, "red"), pr_event(f, "blue"), pr_timer(f, PR_SECONDS(9)) };
    int first = pr_any(f, 3, tasks);
    if (first < 0)
        return first;
    *ret_output = pr_flow_printf(f, "%d", first);
    int rc = pr_call(f, "after", *ret_output, NULL); /* something is begun behind the winner */
    return rc == PR_OK && first != 0 ? pr_result(f, pr_event(f, "red"), NULL, NULL) : rc;
}

TEST(of_two_events_in_one_turn_the_one_that_came_first_wins) /* B105 */
{
    const char *const names[] = { "red", "blue" };
    for (size_t i = 0; i < 2; i++) {
        struct stand *s = stand_new(race);
        stand_start(s, "");
        for (size_t k = 0; k < 2; k++) {
            struct turn_message m = stand_named(s, TURN_EVENT, names[(i + k) % 2], "");
            stand_queue(s, &m);
        }
        stand_run(s);
        CHECK_SLICE(s->activities[0].payload, i == 0 ? "0" : "1");
        stand_fire(s, 3); /* losers end, and change nothing */
        stand_result(s, 4, "");
        CHECK_EQ(s->row.state, i == 0 ? FLOW_COMPLETED : FLOW_RUNNING); /* the first wait for red has that event */
        stand_free(s);
    }
}

TEST(a_timer_wins_when_it_fires_before_the_event) /* B105 */
{
    struct stand *s = stand_new(race);
    stand_start(s, "");
    struct turn_message fired = stand_fired(s, 3), red = stand_named(s, TURN_EVENT, "red", "");
    stand_queue(s, &fired);
    stand_queue(s, &red);
    stand_run(s);
    CHECK_SLICE(s->activities[0].payload, "2");
    stand_free(s);
}

static int looks_late(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_task tasks[2] = { pr_activity(f, "a", input), pr_activity(f, "b", input) };
    int rc = pr_call(f, "something else", input, NULL);
    int first = rc == PR_OK ? pr_any(f, 2, tasks) : rc;
    if (first < 0)
        return first;
    *ret_output = pr_flow_printf(f, "%d", first);
    return PR_OK;
}

TEST(any_of_what_has_ended_long_ago_is_the_one_that_ended_first) /* B105 */
{
    struct stand *s = stand_new(looks_late);
    stand_start(s, "");
    stand_result(s, 2, "b");
    stand_result(s, 1, "a");
    stand_result(s, 3, "");
    CHECK_SLICE(s->row.output, "1");
    stand_free(s);
}

static int with_failures(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_task tasks[2] = { pr_activity(f, "a", input), pr_activity(f, "b", input) };
    struct pr_error why;
    int rc = pr_all(f, 2, tasks);
    if (rc != PR_OK)
        return rc;
    if (pr_result(f, tasks[0], NULL, &why) != PR_FAILED || pr_result(f, tasks[1], ret_output, NULL) != PR_OK)
        return pr_flow_fail(f, "wrong results");
    if (strcmp(why.text, "no") != 0 || why.code != PR_FAILED)
        return pr_flow_fail(f, "wrong reason: %s", why.text);
    return PR_OK;
}

TEST(all_waits_for_what_fails_too_and_gives_each_its_own_result) /* B105 */
{
    struct stand *s = stand_new(with_failures);
    stand_start(s, "");
    stand_fail(s, 1, "no");
    CHECK_EQ(s->row.state, FLOW_RUNNING);
    stand_result(s, 2, "yes");
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    CHECK_SLICE(s->row.output, "yes");
    stand_free(s);
}

static int cancels_a_loser(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    (void)ret_output;
    pr_task slow = pr_activity(f, "slow", input),
            kid = pr_child_with(f, "kid", input, &(struct pr_child_options){ "k", NULL });
    int rc = pr_call(f, "quick", input, NULL);
    if (rc != PR_OK)
        return rc;
    pr_cancel(f, slow);
    pr_cancel(f, kid);
    struct pr_error why;
    if (pr_result(f, slow, NULL, &why) != PR_FAILED || strcmp(why.text, "the task was cancelled") != 0)
        return pr_flow_fail(f, "wrong result");
    if (pr_any(f, 2, (pr_task[]){ slow, kid }) != PR_EINVAL)
        return pr_flow_fail(f, "any without an open task must be refused");
    return pr_result(f, pr_event(f, "end"), NULL, NULL);
}

TEST(a_cancelled_task_is_taken_back_once_and_its_late_end_is_harmless) /* B128 */
{
    struct stand *s = stand_new(cancels_a_loser);
    stand_start(s, "");
    stand_result(s, 3, "");
    CHECK_EQ(stand_effects(s, EFFECT_DELETE), 1);
    CHECK_SLICE(s->others[1].type, "cancel");
    size_t told = s->other_count;
    stand_result(s, 1, "late");
    CHECK_EQ(s->out.kind, FLOW_TURN_NOTHING);
    stand_child(s, 2, "late");
    CHECK_EQ(s->out.kind, FLOW_TURN_NOTHING);
    stand_mail(s, "unrelated", "");
    CHECK_EQ(stand_effects(s, EFFECT_DELETE), 0); /* a replay takes nothing back again */
    stand_event(s, "end", "");
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    CHECK_EQ(stand_effects(s, EFFECT_DELETE), 0);
    CHECK_EQ(s->other_count, told);
    stand_free(s);
}

static int with_child(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    int rc = pr_result(f, pr_child(f, "kid", input), ret_output, NULL);
    return rc == PR_FAILED ? pr_call(f, "compensate", input, ret_output) : rc;
}

TEST(a_child_that_fails_is_an_outcome_unless_no_code_can_repair_it) /* B103, B165 */
{
    static const struct {
        const char *error;
        int state;
    } cases[] = { { "{\"category\":\"application\",\"message\":\"m\"}", FLOW_RUNNING },
                  { "{\"category\":\"poison\",\"message\":\"m\",\"kind\":\"flow\"}", FLOW_RUNNING },
                  { "{\"category\":\"infrastructure\",\"message\":\"m\"}", FLOW_FAILED },
                  { "{\"category\":\"configuration\",\"message\":\"m\"}", FLOW_FAILED } };
    for (size_t i = 0; i < 4; i++) {
        struct stand *s = stand_new(with_child);
        stand_start(s, "x");
        struct turn_message m = stand_result_of(s, 1, cases[i].error);
        m.kind = TURN_CHILD;
        m.failed = true;
        stand_queue(s, &m);
        stand_run(s);
        CHECK_EQ(s->row.state, cases[i].state);
        stand_free(s);
    }
}

/* ---- Chains ------------------------------------------------------------------------------------------- */

static int calls;
static int chain(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_slice last = input;
    calls++;
    for (int i = 0; i < 200; i++) {
        int rc = pr_call(f, "step", last, &last); /* the same name and often the same input */
        if (rc != PR_OK)
            return rc;
    }
    *ret_output = last;
    return PR_OK;
}

TEST(a_long_chain_of_equal_activities_gets_each_its_own_result_and_one_call_per_turn) /* B100, B163 */
{
    struct stand *s = stand_new(chain);
    char text[16];
    s->unchecked = true; /* the checker calls the function, too */
    calls = 0;
    stand_start(s, "0");
    for (int i = 1; i <= 200; i++) {
        CHECK_EQ(s->activity_count, 1);
        s->activity_count = 0;
        snprintf(text, sizeof text, "%d", i / 2);
        stand_result(s, i, text);
        CHECK_EQ(calls, i + 1);
    }
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    CHECK_SLICE(s->row.output, "100");
    CHECK_EQ(s->row.next, 402);
    stand_free(s);
}

/* ---- Ends in the first turn -------------------------------------------------------------------------------- */

static int at_once(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    if (input.size == 0)
        return pr_flow_fail(f, "nothing to do for %.*s", SLICE_ARGS(pr_flow_id(f)));
    if (slice_eq_cstr(input, "fault"))
        return PR_EIO;
    (void)pr_activity(f, "begun and left", input);
    *ret_output = input;
    return PR_OK;
}

TEST(a_flow_may_end_in_its_first_turn_well_or_not) /* B100 */
{
    struct stand *s = stand_new(at_once);
    stand_start(s, "x");
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    CHECK_SLICE(s->row.output, "x");
    CHECK_EQ(s->activity_count, 0);
    stand_free(s);
    s = stand_new(at_once);
    stand_start(s, "");
    CHECK_EQ(s->row.state, FLOW_FAILED);
    CHECK_STR(stand_error(s), "nothing to do for f");
    stand_free(s);
    s = stand_new(at_once);
    stand_start(s, "fault");
    CHECK_STR(stand_error(s), "the flow function returned -11");
    stand_free(s);
}

static int kid_then_new(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    (void)ret_output;
    if (slice_eq_cstr(input, "2"))
        return pr_result(f, pr_event(f, "go"), NULL, NULL);
    (void)pr_child_with(f, "kid", input, &(struct pr_child_options){ "k", NULL });
    int rc = pr_result(f, pr_event(f, "go"), NULL, NULL);
    return rc == PR_OK ? pr_continue_as_new(f, PR_STR("2"), NULL) : rc;
}

TEST(children_and_events_do_not_go_over_to_the_next_execution) /* B104, B105 */
{
    struct stand *s = stand_new(kid_then_new);
    stand_start(s, "1");
    struct turn_message m = stand_named(s, TURN_EVENT, "go", "");
    stand_queue(s, &m);
    stand_queue(s, &m); /* the second one belongs to this execution, too */
    stand_run(s);
    CHECK_SLICE(s->others[1].type, "cancel");
    stand_run(s);
    CHECK_EQ(s->row.state, FLOW_RUNNING);
    stand_event(s, "go", ""); /* an event reaches the latest execution */
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    stand_free(s);
}

/* ---- Mail among other things --------------------------------------------------------------------------------- */

static int two_boxes(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_slice text = input, next;
    const char *const names[] = { "a", "b", "a", "b" };
    for (int i = 0; i < 4; i++) {
        int rc = pr_result(f, pr_mail(f, names[i]), &next, NULL);
        if (rc != PR_OK)
            return rc;
        text = pr_flow_printf(f, "%.*s%.*s", SLICE_ARGS(text), SLICE_ARGS(next));
    }
    *ret_output = text;
    return PR_OK;
}

TEST(mailboxes_are_independent_of_each_other) /* B102 */
{
    struct stand *s = stand_new(two_boxes);
    stand_start(s, "");
    stand_mail(s, "b", "3");
    stand_mail(s, "b", "4");
    stand_mail(s, "a", "1");
    CHECK_EQ(s->row.state, FLOW_RUNNING);
    stand_mail(s, "a", "2");
    CHECK_SLICE(s->row.output, "1324");
    stand_free(s);
}

static int several_cancelled(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    (void)input;
    pr_task waits[3];
    for (int i = 0; i < 3; i++)
        waits[i] = pr_event(f, "e");
    pr_cancel(f, waits[0]);
    pr_cancel(f, waits[2]);
    return pr_result(f, waits[1], ret_output, NULL);
}

TEST(a_cancelled_wait_does_not_steal_an_event) /* B102, B105 */
{
    struct stand *s = stand_new(several_cancelled);
    stand_start(s, "");
    stand_event(s, "e", "mine");
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    CHECK_SLICE(s->row.output, "mine");
    stand_free(s);
}

static int cancelled_while_recording(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    int64_t now_us = pr_now(f);
    int rc = pr_call(f, "a", input, ret_output);
    (void)pr_uuid(f);
    return now_us > 0 ? rc : PR_EINVAL;
}

TEST(recorded_values_do_not_mind_a_cancel) /* B107, B111 */
{
    struct stand *s = stand_new(cancelled_while_recording);
    stand_start(s, "");
    stand_cancel(s);
    CHECK_EQ(s->row.state, FLOW_CANCELLED);
    CHECK_STR(stand_events(s, 2), "now, activity a, cancel, uuid, cancelled");
    stand_free(s);
}
