/* A failed flow continues from before its failure. */
#include "stand.h"

#include <string.h>

#include "base/slice.h"
#include "flow/activity.h"
#include "flow/flow_id.h"

/* Paid, then shipped, with a timer, a child and a detached flow beside it. */
static int order(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    const struct pr_activity_options twice = { .retry = { .tries = 2, .backoff = PR_BACKOFF_FIXED, .first_us = 7 } };
    pr_slice paid;
    int rc = pr_call(f, "charge", input, &paid);
    if (rc != PR_OK)
        return rc;
    pr_flow_log(f, "paid");
    if ((rc = pr_set_status(f, PR_STR("paid"))) != PR_OK || (rc = pr_state_set(f, PR_STR("receipt"), paid)) != PR_OK ||
        (rc = pr_detach(f, "mail", paid, &(struct pr_child_options){ .id = "m" })) != PR_OK)
        return rc;
    pr_task child = pr_child_with(f, "pack", input, &(struct pr_child_options){ .id = "p" });
    (void)pr_timer(f, PR_SECONDS(60));
    pr_task ship = pr_activity_with(f, "ship", paid, &twice);
    rc = pr_result(f, ship, ret_output, NULL);
    if (rc != PR_OK) {
        (void)pr_now(f); /* a recorded value of the failure */
        return rc;
    }
    rc = pr_result(f, child, NULL, NULL);
    return rc;
}

static size_t others_of(const struct stand *s, const char *type, const char *stream)
{
    size_t count = 0;
    for (size_t i = 0; i < s->other_count; i++)
        count += slice_eq_cstr(s->others[i].type, type) && slice_eq_cstr(s->others[i].stream, stream);
    return count;
}

TEST(a_flow_that_failed_goes_on_from_before_its_failure) /* B146 */
{
    struct stand *s = stand_new(order);
    struct pr_error error;
    stand_start(s, "order 7");
    stand_result(s, 1, "receipt 9");
    stand_fail(s, 5, "{\"category\":\"application\",\"message\":\"no truck\"}");
    CHECK_EQ(s->row.state, FLOW_FAILED);
    CHECK_STR(stand_error(s), "no truck");
    pr_id failed = s->row.execution;
    int64_t status_number = s->row.status_number;
    s->activity_count = s->timer_count = s->other_count = 0;
    stand_resume(s);
    CHECK_EQ(s->row.state, FLOW_RUNNING);
    CHECK(!pr_id_equal(s->row.execution, failed)); /* an execution is never used again */
    CHECK_STR(stand_events(s, 1),
              "started test, activity charge, result, detached mail, child pack, timer, activity ship");
    CHECK_EQ(s->activity_count, 1); /* what was paid is paid */
    struct activity_message a;
    CHECK_OK(activity_message_read(&s->activities[0], &s->kept, &a, &error), &error);
    CHECK_SLICE(a.name, "ship");
    CHECK_SLICE(a.input, "receipt 9");
    CHECK_EQ(a.retry.tries, 2); /* by the code, not by the history */
    CHECK(pr_id_equal(s->activities[0].id, flow_task_id(s->row.execution, 5)));
    CHECK_EQ(s->timer_count, 1);
    CHECK_EQ(others_of(s, "start", "p"), 1); /* its end had cancelled the child */
    CHECK_EQ(others_of(s, "start", "m"), 0); /* what goes its own way is not begun twice */
    CHECK(strstr(stand_text(s->others[0].headers), "\"resume\":true") != NULL);
    CHECK_STR(s->log, "paid\n"); /* B167 */
    CHECK_STR(stand_value(s, "receipt"), "receipt 9");
    CHECK_SLICE(s->row.custom_status, "paid");
    CHECK(s->row.status_number > status_number);
    stand_result(s, 5, "shipped");
    stand_child(s, 3, "packed");
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    CHECK_SLICE(s->row.output, "shipped");
    stand_free(s);
}

static int patient(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    int rc = pr_call(f, "charge", input, ret_output);
    return rc != PR_OK ? rc : pr_result(f, pr_event(f, "go"), ret_output, NULL);
}

TEST(a_poisoned_flow_goes_on_with_what_it_had_and_again_when_that_is_poison_too) /* B144, B146 */
{
    struct stand *s = stand_new(patient);
    stand_start(s, "x");
    stand_result(s, 1, "paid");
    for (int i = 0; i < 2; i++) {
        s->dead = (struct flow_dead){ .category = PR_CATEGORY_POISON, .count = 6, .limit = 5 };
        if (i == 0)
            stand_event(s, "go", "now");
        else
            stand_resume(s);
        s->dead = (struct flow_dead){ .category = PR_CATEGORY_NONE };
        CHECK_EQ(s->row.state, FLOW_FAILED);
        CHECK_EQ(stand_category(s), PR_CATEGORY_POISON);
        CHECK_STR(stand_events(s, 1), i == 0 ? "started test, activity charge, result, wait go, failed"
                                             : "started test, activity charge, result, wait go, failed");
    }
    s->activity_count = 0;
    struct turn_message again = stand_named(s, TURN_START, "test", "x"), go = stand_named(s, TURN_EVENT, "go", "now");
    again.resume = true;
    stand_queue(s, &again);
    stand_queue(s, &go);
    stand_run(s);
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    CHECK_SLICE(s->row.output, "now");
    CHECK_EQ(s->activity_count, 0);
    stand_free(s);
}

TEST(only_a_flow_that_failed_is_resumed) /* B112 */
{
    struct stand *s = stand_new(patient);
    stand_start(s, "x");
    pr_id execution = s->row.execution;
    stand_resume(s); /* it runs */
    CHECK(pr_id_equal(s->row.execution, execution) && s->row.state == FLOW_RUNNING);
    stand_result(s, 1, "paid");
    stand_event(s, "go", "now");
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    stand_resume(s);
    CHECK(pr_id_equal(s->row.execution, execution) && s->row.state == FLOW_COMPLETED);
    stand_free(s);
}

static struct turn_message begun_by_mother(const struct stand *s)
{
    struct turn_message start = stand_named(s, TURN_START, "test", "x");
    start.parent = PR_STR("mother");
    start.parent_execution.bytes[0] = 1;
    start.parent_task = 3;
    return start;
}

/* Its second execution begins with what the first one has left. */
static int twice(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    int rc = pr_state_set(f, slice_eq_cstr(input, "2") ? PR_STR("other") : PR_STR("key"), input);
    if (rc != PR_OK || slice_eq_cstr(input, "2")) {
        rc = rc != PR_OK ? rc : pr_call(f, "work", input, ret_output);
        if (rc != PR_FAILED)
            return rc;
        rc = pr_state_set(f, PR_STR("key"), PR_STR("spoilt"));
        return rc != PR_OK ? rc : PR_FAILED;
    }
    rc = pr_set_status(f, PR_STR("half"));
    return rc != PR_OK ? rc : pr_continue_as_new(f, PR_STR("2"), NULL);
}

TEST(a_flow_goes_on_with_the_status_and_the_values_that_its_execution_has_begun_with) /* B104, B146 */
{
    struct stand *s = stand_new(twice);
    stand_start(s, "1");
    stand_run(s);
    stand_fail(s, 1, "no truck");
    CHECK_EQ(s->row.state, FLOW_FAILED);
    CHECK_STR(stand_value(s, "key"), "spoilt");
    stand_resume(s);
    CHECK_EQ(s->row.state, FLOW_RUNNING);
    CHECK_SLICE(s->row.custom_status, "half");
    CHECK_STR(stand_value(s, "key"), "1");
    CHECK_STR(stand_value(s, "other"), "2");
    stand_result(s, 1, "done");
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    stand_free(s);
}

/* What a parent that goes on sends to a child of it that was open. */
static struct turn_message begun_again(const struct stand *s, const char *parent, int64_t task)
{
    struct turn_message again = stand_named(s, TURN_START, "test", "x");
    again.restart = again.resume = true;
    again.parent = slice_from(parent);
    again.parent_execution.bytes[0] = 9;
    again.parent_task = task;
    return again;
}

TEST(a_parent_that_goes_on_begins_its_own_children_again_and_no_flow_of_somebody_else) /* B103, B146 */
{
    struct stand *s = stand_new(patient);
    struct turn_message start = begun_by_mother(s);
    stand_queue(s, &start);
    stand_run(s);
    stand_result(s, 1, "paid");
    stand_event(s, "go", "now");
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    struct turn_message others = begun_again(s, "father", 3), another = begun_again(s, "mother", 4);
    s->other_count = 0;
    stand_queue(s, &others);
    stand_queue(s, &another);
    stand_run(s);
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    CHECK_EQ(others_of(s, "child", "father"), 1); /* they are told that they cannot have it */
    CHECK_EQ(others_of(s, "child", "mother"), 1);
    struct turn_message own = begun_again(s, "mother", 3);
    stand_queue(s, &own);
    stand_run(s);
    CHECK_EQ(s->row.state, FLOW_RUNNING);
    stand_free(s);
}

TEST(a_flow_that_goes_on_stays_on_its_version) /* B110, B146 */
{
    struct stand *s = stand_new(patient);
    struct pr_message made;
    const struct pr_message *run[] = { &made };
    pr_slice name, version;
    struct turn_message start = begun_by_mother(s), again = begun_again(s, "mother", 3);
    stand_queue(s, &start);
    stand_run(s);
    stand_fail(s, 1, "{\"category\":\"configuration\",\"message\":\"no such card\"}");
    CHECK_EQ(s->row.state, FLOW_FAILED);
    CHECK_EQ(turn_message_make(&again, flow_start_id(again.flow), &s->kept, &made), PR_OK);
    CHECK_EQ(flow_turn_code(&s->row, run, 1, &s->kept, &name, &version), PR_OK);
    CHECK_SLICE(name, "test");
    CHECK_SLICE(version, "1");   /* its parent named none, and there may be a higher one by now */
    again.version = PR_STR("2"); /* it has continued on another version since its parent began it */
    CHECK_EQ(turn_message_make(&again, flow_start_id(again.flow), &s->kept, &made), PR_OK);
    CHECK_EQ(flow_turn_code(&s->row, run, 1, &s->kept, &name, &version), PR_OK);
    CHECK_SLICE(version, "1");
    stand_free(s);
}
