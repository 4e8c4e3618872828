/* Children, and cancelling: what ends with a flow and what a flow does before its end. */
#include "stand.h"

#include <string.h>

#include "base/slice.h"
#include "flow/flow_id.h"

static int greet(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    return pr_call(f, "greet", input, ret_output);
}

/* ---- Children ----------------------------------------------------------------------------------------------------- */

static int parent(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    int rc = pr_detach(f, "audit", input, &(struct pr_child_options){ .id = "audit-1", .version = "2" });
    if (rc != PR_OK)
        return rc;
    pr_slice a, b;
    pr_task own = pr_child(f, "kid", input),
            given = pr_child_with(f, "kid", input, &(struct pr_child_options){ "k", NULL });
    if ((rc = pr_result(f, own, &a, NULL)) != PR_OK || (rc = pr_result(f, given, &b, NULL)) != PR_OK)
        return rc;
    *ret_output = pr_flow_printf(f, "%.*s%.*s", SLICE_ARGS(a), SLICE_ARGS(b));
    return PR_OK;
}

TEST(children_have_their_own_or_a_given_id_and_know_their_parent) /* B103 */
{
    struct stand *s = stand_new(parent);
    struct turn_message m;
    struct pr_error error;
    char id[PR_ID_TEXT_SIZE];
    stand_start(s, "x");
    CHECK_EQ(s->other_count, 3);
    CHECK_OK(turn_message_read(&s->others[0], &s->turn, &m, &error), &error);
    CHECK(m.kind == TURN_START && m.parent.size == 0);
    CHECK_SLICE(m.flow, "audit-1");
    CHECK_SLICE(m.version, "2");
    CHECK_OK(turn_message_read(&s->others[1], &s->turn, &m, &error), &error);
    pr_id_format(flow_task_id(s->row.execution, 2), id);
    CHECK_SLICE(m.flow, id);
    CHECK_SLICE(m.parent, "f");
    CHECK(m.parent_task == 2 && pr_id_equal(m.parent_execution, s->row.execution));
    CHECK_OK(turn_message_read(&s->others[2], &s->turn, &m, &error), &error);
    CHECK_SLICE(m.flow, "k");
    stand_child(s, 3, "b");
    stand_child(s, 2, "a");
    CHECK_SLICE(s->row.output, "ab");
    stand_free(s);
}

TEST(a_child_tells_its_parent_how_it_ended) /* B103 */
{
    struct stand *s = stand_new(greet);
    struct turn_message m = stand_named(s, TURN_START, "test", "x");
    struct pr_error error;
    m.parent = PR_STR("p");
    m.parent_execution = (pr_id){ { 9 } };
    m.parent_task = 4;
    stand_queue(s, &m);
    stand_run(s);
    stand_result(s, 1, "hi");
    CHECK_EQ(s->other_count, 1);
    CHECK_OK(turn_message_read(&s->others[0], &s->turn, &m, &error), &error);
    CHECK(m.kind == TURN_CHILD && m.task == 4 && !m.failed && m.execution.bytes[0] == 9);
    CHECK_SLICE(m.flow, "p");
    CHECK_SLICE(m.data, "hi");
    stand_free(s);
}

TEST(the_start_of_a_child_that_comes_again_after_its_end_is_not_refused) /* B103, B161 */
{
    struct stand *s = stand_new(greet);
    struct turn_message m = stand_named(s, TURN_START, "test", "x");
    m.parent = PR_STR("p");
    m.parent_execution = (pr_id){ { 9 } };
    m.parent_task = 4;
    stand_queue(s, &m);
    stand_run(s);
    stand_queue(s, &m);
    stand_run(s);
    CHECK_EQ(s->other_count, 0);
    stand_result(s, 1, "hi");
    stand_queue(s, &m);
    stand_run(s);
    CHECK_EQ(s->other_count, 1); /* what it told when it ended */
    m.parent_task = 5;
    stand_queue(s, &m);
    stand_run(s);
    CHECK_EQ(s->other_count, 2); /* another task has no child here */
    stand_free(s);
}

TEST(a_child_whose_id_is_taken_fails_for_its_parent_instead_of_never_ending) /* B103 */
{
    struct stand *s = stand_new(greet);
    struct turn_message m = stand_named(s, TURN_START, "test", "x");
    struct pr_error error;
    stand_start(s, "mine");
    m.parent = PR_STR("p");
    m.parent_execution = (pr_id){ { 9 } };
    m.parent_task = 4;
    stand_queue(s, &m);
    stand_run(s);
    CHECK_EQ(s->out.kind, FLOW_TURN_NOTHING);
    CHECK_EQ(s->other_count, 1);
    CHECK_OK(turn_message_read(&s->others[0], &s->turn, &m, &error), &error);
    CHECK(m.failed && m.kind == TURN_CHILD);
    CHECK(strstr(stand_text(m.data), "a flow with the id f already exists") != NULL);
    m = stand_named(s, TURN_CANCEL, NULL, ""); /* and that parent cannot cancel what is not its child */
    m.parent_execution = (pr_id){ { 9 } };
    m.parent_task = 4;
    stand_queue(s, &m);
    stand_run(s);
    CHECK_EQ(s->out.kind, FLOW_TURN_NOTHING);
    stand_free(s);
}

/* ---- Cancelling ------------------------------------------------------------------------------------------------------ */

static int cleans_up(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    int rc = pr_call(f, "work", input, ret_output);
    if (rc == PR_ECANCELLED) {
        int cleaned = pr_call(f, "clean", input, NULL);
        return cleaned == PR_OK ? PR_ECANCELLED : cleaned;
    }
    return rc;
}

TEST(a_cancel_is_seen_at_the_next_wait_and_the_code_may_clean_up) /* B111 */
{
    struct stand *s = stand_new(cleans_up);
    stand_start(s, "x");
    stand_cancel(s);
    CHECK_EQ(s->row.state, FLOW_RUNNING);
    CHECK_SLICE(s->activities[1].type, "clean");
    stand_cancel(s);
    CHECK_EQ(s->out.kind, FLOW_TURN_NOTHING); /* twice is harmless */
    stand_result(s, 1, "too late");
    CHECK_EQ(s->row.state, FLOW_RUNNING);
    stand_result(s, 2, "");
    CHECK_EQ(s->row.state, FLOW_CANCELLED);
    CHECK_STR(stand_error(s), "the flow was cancelled");
    stand_cancel(s);
    CHECK_EQ(s->out.kind, FLOW_TURN_NOTHING);
    stand_free(s);
}

TEST(what_ended_before_the_cancel_counts_and_the_wait_behind_it_sees_the_cancel) /* B111 */
{
    struct stand *s = stand_new(cleans_up);
    stand_start(s, "x");
    struct turn_message result = stand_result_of(s, 1, "done"), cancel = stand_named(s, TURN_CANCEL, NULL, "");
    stand_queue(s, &result);
    stand_queue(s, &cancel);
    stand_run(s);
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    stand_free(s);
    s = stand_new(cleans_up);
    stand_start(s, "x");
    result = stand_result_of(s, 1, "done");
    stand_queue(s, &cancel);
    stand_queue(s, &result);
    stand_run(s);
    CHECK_STR(stand_events(s, 3), "cancel, result, activity clean");
    stand_free(s);
}

TEST(a_flow_that_is_cancelled_before_its_first_turn_sees_it) /* B111 */
{
    struct stand *s = stand_new(cleans_up);
    struct turn_message cancel = stand_named(s, TURN_CANCEL, NULL, ""), start = stand_named(s, TURN_START, "test", "");
    stand_queue(s, &cancel);
    stand_queue(s, &start);
    stand_run(s);
    CHECK_STR(stand_events(s, 1), "started test, cancel, activity work, activity clean");
    stand_free(s);
}

TEST(a_cancel_for_a_flow_that_is_not_there_does_nothing) /* B111, B132 */
{
    struct stand *s = stand_new(cleans_up);
    stand_cancel(s);
    CHECK_EQ(s->out.kind, FLOW_TURN_NOTHING);
    CHECK_EQ(s->out.effect_count, 0);
    CHECK(!s->has_row);
    stand_free(s);
}
