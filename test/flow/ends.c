/* How the ends of flows affect others: cancelled children and parents, poison of children, open tasks of a failed
 * flow. */
#include "stand.h"

#include "base/slice.h"
#include "flow/activity.h"

static int calls_work(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    return pr_call(f, "work", input, ret_output);
}

/* A flow that another one's task 1 has begun. */
static struct stand *stand_child_of(const struct stand *parent, pr_flow_function function)
{
    struct stand *s = stand_new(function);
    struct turn_message m = stand_named(s, TURN_START, "test", "x");
    m.parent = PR_STR("p");
    m.parent_execution = parent->row.execution;
    m.parent_task = 1;
    stand_queue(s, &m);
    stand_run(s);
    return s;
}

/* What the child told when it ended, as the parent gets it. */
static void tell_parent(struct stand *parent, const struct stand *child)
{
    struct pr_message m = child->others[child->other_count - 1];
    CHECK_SLICE(m.type, "child");
    CHECK_SLICE(m.stream, "p");
    m.stream = PR_STR("f");
    stand_queue_raw(parent, &m);
    stand_run(parent);
}

static int has_child(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    struct pr_error why;
    int rc = pr_result(f, pr_child(f, "kid", input), ret_output, &why);
    if (rc == PR_FAILED && slice_eq_cstr(input, "repair"))
        return pr_call(f, "repair", pr_flow_printf(f, "%s", why.text), ret_output);
    return rc;
}

TEST(a_child_that_is_cancelled_tells_its_parent_which_may_go_on) /* B103, B111 */
{
    static const char *const inputs[] = { "repair", "pass on" };
    for (size_t i = 0; i < 2; i++) {
        struct stand *parent = stand_new(has_child);
        stand_start(parent, inputs[i]);
        struct stand *child = stand_child_of(parent, calls_work);
        stand_cancel(child);
        CHECK_EQ(child->row.state, FLOW_CANCELLED);
        tell_parent(parent, child);
        CHECK_EQ(parent->row.state, i == 0 ? FLOW_RUNNING : FLOW_FAILED);
        if (i == 0)
            CHECK_SLICE(parent->activities[0].payload, "the flow was cancelled");
        else
            CHECK_STR(stand_error(parent), "the flow was cancelled");
        stand_free(child);
        stand_free(parent);
    }
}

TEST(poison_of_an_activity_goes_up_through_child_and_parent_as_poison) /* B143, B145, B165 */
{
    struct stand *parent = stand_new(has_child);
    struct pr_message m;
    struct pr_error error;
    const struct activity_dead dead = { .end = ACTIVITY_POISONED, .count = 6, .limit = 5 };
    stand_start(parent, "pass on");
    struct stand *child = stand_child_of(parent, calls_work);
    CHECK_OK(flow_on_activity_dead(&child->activities[0], &dead, &child->kept, &m, &error), &error);
    stand_queue_raw(child, &m);
    stand_run(child);
    CHECK_EQ(child->row.state, FLOW_FAILED);
    CHECK_EQ(stand_category(child), PR_CATEGORY_POISON);
    tell_parent(parent, child);
    CHECK_EQ(parent->row.state, FLOW_FAILED);
    CHECK_EQ(stand_category(parent), PR_CATEGORY_POISON);
    CHECK_STR(stand_error(parent), "poison: activity work#1 exceeded 6 attempts (max 5)");
    stand_free(child);
    stand_free(parent);
}

/* ---- Cancelling ------------------------------------------------------------------------------------------ */

static int three_children(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    const char *const ids[] = { "a", "b", "c" };
    pr_task tasks[3];
    (void)ret_output;
    for (int i = 0; i < 3; i++)
        tasks[i] = pr_child_with(f, "kid", input, &(struct pr_child_options){ .id = ids[i] });
    int rc = pr_all(f, 3, tasks);
    if (rc == PR_ECANCELLED && slice_eq_cstr(input, "twice"))
        pr_cancel(f, tasks[0]); /* the code says what happens anyway */
    return rc;
}

TEST(a_cancelled_flow_cancels_each_of_its_children_once) /* B111 */
{
    static const char *const inputs[] = { "once", "twice" }, *const ids[] = { "a", "b", "c" };
    for (size_t i = 0; i < 2; i++) {
        struct stand *s = stand_new(three_children);
        size_t told[3] = { 0 };
        stand_start(s, inputs[i]);
        stand_cancel(s);
        CHECK_EQ(s->row.state, FLOW_CANCELLED);
        CHECK_EQ(s->other_count, 6); /* three starts, three cancels */
        for (size_t k = 3; k < 6; k++) {
            CHECK_SLICE(s->others[k].type, "cancel");
            for (size_t n = 0; n < 3; n++)
                told[n] += slice_eq_cstr(s->others[k].stream, ids[n]);
        }
        CHECK(told[0] == 1 && told[1] == 1 && told[2] == 1);
        stand_free(s);
    }
}

static int second_waits(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    int rc = pr_call(f, "work", input, ret_output);
    if (rc != PR_OK || slice_eq_cstr(input, "2"))
        return rc;
    return pr_continue_as_new(f, PR_STR("2"), NULL);
}

TEST(a_cancel_reaches_the_execution_that_runs) /* B104, B111 */
{
    struct stand *s = stand_new(second_waits);
    stand_start(s, "1");
    pr_id first = s->row.execution;
    stand_result(s, 1, "");
    stand_run(s);
    CHECK(!pr_id_equal(s->row.execution, first));
    s->activity_count = 0;
    stand_cancel(s);
    CHECK_EQ(s->row.state, FLOW_CANCELLED);
    CHECK_EQ(stand_effects(s, EFFECT_DELETE), 1);
    stand_free(s);
}

TEST(a_cancel_that_nobody_has_seen_goes_over_to_the_next_execution) /* B104, B111 */
{
    struct stand *s = stand_new(second_waits);
    stand_start(s, "1");
    struct turn_message result = stand_result_of(s, 1, ""), cancel = stand_named(s, TURN_CANCEL, NULL, "enough");
    stand_queue(s, &result);
    stand_queue(s, &cancel); /* the wait is satisfied, and there is no other one behind it */
    stand_run(s);
    stand_run(s);
    CHECK_EQ(s->row.state, FLOW_CANCELLED);
    CHECK_STR(stand_events(s, 1), "started test, cancel, activity work, cancelled");
    CHECK_SLICE(s->history.events[1].data, "enough");
    stand_free(s);
}

static int fails_in_between(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    (void)ret_output;
    (void)pr_activity(f, "slow", input);
    (void)pr_timer(f, PR_SECONDS(60));
    int rc = pr_call(f, "quick", input, NULL);
    return rc == PR_OK ? pr_flow_fail(f, "no more") : rc;
}

TEST(what_is_open_when_a_flow_fails_is_taken_back_and_its_late_result_is_harmless) /* B105, B111, B128 */
{
    struct stand *s = stand_new(fails_in_between);
    stand_start(s, "x");
    CHECK_EQ(s->activity_count, 2);
    stand_result(s, 3, "");
    CHECK_EQ(s->row.state, FLOW_FAILED);
    CHECK_STR(stand_error(s), "no more");
    CHECK_EQ(stand_effects(s, EFFECT_DELETE), 2); /* slow, and the timer */
    CHECK_EQ(s->timer_count, 0);
    stand_result(s, 1, "late");
    CHECK_EQ(s->out.kind, FLOW_TURN_NOTHING);
    stand_free(s);
}
