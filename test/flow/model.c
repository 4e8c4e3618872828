/* The programming model: activities, timers, events, mail, children, all and any, cancelling, ends. */
#include "stand.h"

#include <stdio.h>
#include <string.h>

#include "base/slice.h"
#include "flow/flow_id.h"

/* ---- Activities ------------------------------------------------------------------------------------- */

static int greet(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    return pr_call(f, "greet", input, ret_output);
}

TEST(an_activity_is_asked_for_once_and_its_result_is_the_output) /* B100 */
{
    struct stand *s = stand_new(greet);
    stand_start(s, "you");
    CHECK_EQ(s->out.kind, FLOW_TURN_DONE);
    CHECK_EQ(s->row.state, FLOW_RUNNING);
    CHECK_EQ(s->activity_count, 1);
    CHECK_SLICE(s->activities[0].type, "greet");
    CHECK_SLICE(s->activities[0].payload, "you");
    CHECK(pr_id_equal(s->activities[0].id, flow_task_id(s->row.execution, 1)));
    stand_result(s, 1, "hello you");
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    CHECK_SLICE(s->row.output, "hello you");
    CHECK_EQ(stand_effects(s, EFFECT_MESSAGE), 0);
    CHECK_STR(stand_events(s, 1), "started test, activity greet, result, completed");
    stand_free(s);
}

static int checkout(pr_flow *f, pr_slice order, pr_slice *ret_output)
{
    pr_task pay = pr_activity(f, "charge", order);
    pr_task late = pr_timer(f, PR_SECONDS(30));
    int first = pr_any(f, 2, (pr_task[]){ pay, late });
    if (first < 0)
        return first;
    if (first == 1)
        return pr_flow_fail(f, "payment timed out");
    struct pr_error why;
    int rc = pr_result(f, pay, ret_output, &why);
    if (rc == PR_FAILED)
        return pr_call(f, "refund", order, ret_output);
    return rc;
}

TEST(a_failed_activity_is_an_outcome_and_the_code_may_compensate) /* B100, B165 */
{
    struct stand *s = stand_new(checkout);
    stand_start(s, "7");
    stand_fail(s, 1, "{\"category\":\"application\",\"message\":\"no such card\"}");
    CHECK_EQ(s->row.state, FLOW_RUNNING);
    CHECK_STR(stand_events(s, 5), "activity refund");
    stand_result(s, 3, "refunded");
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    CHECK_SLICE(s->row.output, "refunded");
    stand_free(s);
}

TEST(a_failure_that_the_code_passes_on_is_the_flows_error) /* B165 */
{
    struct stand *s = stand_new(greet);
    stand_start(s, "you");
    stand_fail(s, 1, "{\"category\":\"application\",\"message\":\"no voice\"}");
    CHECK_EQ(s->row.state, FLOW_FAILED);
    CHECK_STR(stand_error(s), "no voice");
    CHECK_EQ(stand_category(s), PR_CATEGORY_APPLICATION);
    stand_free(s);
}

TEST(infrastructure_and_configuration_errors_end_the_flow_and_the_code_does_not_see_them) /* B165 */
{
    const char *const categories[] = { "infrastructure", "configuration" };
    for (size_t i = 0; i < 2; i++) {
        struct stand *s = stand_new(checkout);
        char error[128];
        snprintf(error, sizeof error, "{\"category\":\"%s\",\"message\":\"broken\"}", categories[i]);
        stand_start(s, "7");
        stand_fail(s, 1, error);
        CHECK_EQ(s->row.state, FLOW_FAILED);
        CHECK_STR(stand_error(s), "broken");
        CHECK_STR(pr_category_name(stand_category(s)), categories[i]);
        CHECK_EQ(s->timer_count, 0);
        stand_free(s);
    }
}

static int with_options(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    struct pr_activity_options options = {
        .retry = { .tries = 5, .backoff = PR_BACKOFF_EXPONENTIAL, .first_us = 100, .factor = 1.5, .jitter = 0.25 },
        .timeout_us = PR_SECONDS(3),
        .schedule_to_start_us = PR_SECONDS(10),
        .tag = "gpu",
        .session = "s1"
    };
    (void)pr_activity(f, "plain", input);
    return pr_result(f, pr_activity_with(f, "render", input, &options), ret_output, NULL);
}

TEST(options_of_an_activity_are_in_its_message) /* B106 */
{
    struct stand *s = stand_new(with_options);
    struct activity_message a;
    struct pr_error error;
    stand_start(s, "x");
    CHECK_EQ(s->activity_count, 2);
    CHECK_OK(activity_message_read(&s->activities[0], &s->turn, &a, &error), &error);
    CHECK(a.retry.tries == 0 && a.tag.size == 0 && a.expires_us == 0);
    CHECK_OK(activity_message_read(&s->activities[1], &s->turn, &a, &error), &error);
    CHECK_SLICE(a.flow, "f");
    CHECK_SLICE(a.tag, "gpu");
    CHECK_SLICE(a.session, "s1");
    CHECK_SLICE(s->activities[1].stream, "s1");
    CHECK_EQ(a.task, 2);
    CHECK_EQ(a.timeout_us, PR_SECONDS(3));
    CHECK_EQ(a.expires_us, s->now_us + PR_SECONDS(10));
    CHECK(a.retry.tries == 5 && a.retry.backoff == PR_BACKOFF_EXPONENTIAL && a.retry.first_us == 100);
    CHECK(a.retry.factor == 1.5 && a.retry.jitter == 0.25);
    stand_free(s);
}

/* ---- Timers ---------------------------------------------------------------------------------------------- */

static int sleeper(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    (void)input, (void)ret_output;
    int rc = pr_result(f, pr_timer(f, PR_SECONDS(10)), NULL, NULL);
    return rc == PR_OK ? pr_result(f, pr_timer(f, 0), NULL, NULL) : rc;
}

TEST(a_timer_is_a_message_that_is_due_and_its_time_is_recorded_once) /* B101 */
{
    struct stand *s = stand_new(sleeper);
    stand_start(s, "");
    int64_t due_us = s->now_us + PR_SECONDS(10);
    CHECK_EQ(s->timer_count, 1);
    CHECK_EQ(s->timers[0].due_us, due_us);
    CHECK_EQ(s->history.events[1].value, due_us);
    stand_event(s, "something", "else");
    CHECK_EQ(stand_effects(s, EFFECT_MESSAGE), 0);
    CHECK_EQ(s->history.events[1].value, due_us);
    s->timer_count = 0;
    stand_fire(s, 1);
    CHECK_EQ(s->timer_count, 1); /* the one of no time at all */
    CHECK_EQ(s->timers[0].due_us, s->now_us);
    stand_fire(s, 2);
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    stand_free(s);
}

TEST(a_timer_fires_once) /* B163 */
{
    struct stand *s = stand_new(sleeper);
    stand_start(s, "");
    struct turn_message twice = stand_fired(s, 1);
    stand_queue(s, &twice);
    stand_queue(s, &twice);
    stand_run(s);
    stand_queue(s, &twice);
    stand_run(s);
    CHECK_EQ(s->out.kind, FLOW_TURN_NOTHING);
    CHECK_STR(stand_events(s, 1), "started test, timer, fired, timer");
    stand_free(s);
}

/* ---- Events and mail ----------------------------------------------------------------------------------------- */

static int two_events(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_slice a, b;
    (void)input;
    pr_task first = pr_event(f, "go"), second = pr_event(f, "go");
    int rc = pr_all(f, 2, (pr_task[]){ second, first });
    if (rc != PR_OK || (rc = pr_result(f, first, &a, NULL)) != PR_OK || (rc = pr_result(f, second, &b, NULL)) != PR_OK)
        return rc;
    *ret_output = pr_flow_printf(f, "%.*s %.*s", SLICE_ARGS(a), SLICE_ARGS(b));
    return PR_OK;
}

TEST(events_go_to_waits_by_name_and_position) /* B102 */
{
    struct stand *s = stand_new(two_events);
    stand_start(s, "");
    stand_event(s, "stop", "other");
    stand_event(s, "go", "one");
    CHECK_EQ(s->row.state, FLOW_RUNNING);
    stand_event(s, "go", "two");
    CHECK_SLICE(s->row.output, "one two");
    stand_free(s);
}

TEST(equal_events_are_two_events) /* B102 */
{
    struct stand *s = stand_new(two_events);
    stand_start(s, "");
    struct turn_message m = stand_named(s, TURN_EVENT, "go", "same");
    stand_queue(s, &m);
    stand_queue(s, &m);
    stand_run(s);
    CHECK_SLICE(s->row.output, "same same");
    stand_free(s);
}

static int late_waits(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_slice event, mail;
    int rc = pr_call(f, "first", input, NULL);
    if (rc != PR_OK || (rc = pr_result(f, pr_event(f, "x"), &event, NULL)) != PR_OK ||
        (rc = pr_result(f, pr_mail(f, "x"), &mail, NULL)) != PR_OK)
        return rc;
    *ret_output = pr_flow_printf(f, "%.*s %.*s", SLICE_ARGS(event), SLICE_ARGS(mail));
    return PR_OK;
}

TEST(events_and_mail_that_come_before_anybody_waits_are_kept_and_are_two_things) /* B102 */
{
    struct stand *s = stand_new(late_waits);
    stand_start(s, "");
    stand_mail(s, "x", "letter");
    stand_event(s, "x", "bell");
    CHECK_EQ(s->row.state, FLOW_RUNNING);
    stand_result(s, 1, "");
    CHECK_SLICE(s->row.output, "bell letter");
    stand_free(s);
}

TEST(events_and_mail_for_a_flow_that_is_not_there_are_kept_for_it) /* B102, B126 */
{
    struct stand *s = stand_new(late_waits);
    stand_event(s, "x", "early");
    CHECK_EQ(s->out.kind, FLOW_TURN_NOTHING);
    CHECK(!s->has_row);
    CHECK_EQ(s->out.effects[0].keep_us, PR_MINUTES(5));
    stand_mail(s, "x", "bird");
    CHECK_EQ(s->mail_count, 2);
    stand_start(s, "");
    CHECK_EQ(s->mail_count, 0);
    stand_result(s, 1, "");
    CHECK_SLICE(s->row.output, "early bird");
    stand_free(s);
}

static int three_mails(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_slice text = input, next;
    for (int i = 0; i < 3; i++) {
        int rc = pr_result(f, pr_mail(f, "in"), &next, NULL);
        if (rc != PR_OK)
            return rc;
        text = pr_flow_printf(f, "%.*s%.*s", SLICE_ARGS(text), SLICE_ARGS(next));
    }
    *ret_output = text;
    return PR_OK;
}

TEST(a_mailbox_is_first_in_first_out) /* B102 */
{
    struct stand *s = stand_new(three_mails);
    stand_start(s, ">");
    const char *const texts[] = { "a", "b", "c", "d" };
    for (size_t i = 0; i < 4; i++) {
        struct turn_message m = stand_named(s, TURN_MAIL, "in", texts[i]);
        stand_queue(s, &m);
    }
    stand_run(s);
    CHECK_SLICE(s->row.output, ">abc");
    stand_free(s);
}

static int cancelled_mail(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    (void)input;
    pr_task mail = pr_mail(f, "in"), late = pr_timer(f, PR_SECONDS(1));
    int first = pr_any(f, 2, (pr_task[]){ mail, late });
    if (first < 0)
        return first;
    if (first == 0)
        return pr_flow_fail(f, "the timer was first");
    pr_cancel(f, mail);
    return pr_result(f, pr_mail(f, "in"), ret_output, NULL);
}

TEST(what_a_cancelled_wait_got_and_nobody_saw_goes_to_the_next_one) /* B102, B105 */
{
    for (int together = 0; together < 2; together++) {
        struct stand *s = stand_new(cancelled_mail);
        stand_start(s, "");
        struct turn_message fired = stand_fired(s, 2), mail = stand_named(s, TURN_MAIL, "in", "saved");
        stand_queue(s, &fired);
        if (!together)
            stand_run(s);
        stand_queue(s, &mail);
        stand_run(s);
        CHECK_EQ(s->row.state, FLOW_COMPLETED);
        CHECK_SLICE(s->row.output, "saved");
        stand_free(s);
    }
}

static int shifted(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    (void)input;
    pr_task one = pr_mail(f, "in"), two = pr_mail(f, "in"), late = pr_timer(f, PR_SECONDS(1));
    int rc = pr_result(f, late, NULL, NULL);
    if (rc != PR_OK)
        return rc;
    pr_cancel(f, one);
    rc = pr_result(f, two, ret_output, NULL);
    return rc;
}

TEST(mail_moves_up_when_the_wait_before_it_is_cancelled) /* B102 */
{
    struct stand *s = stand_new(shifted);
    stand_start(s, "");
    struct turn_message a = stand_named(s, TURN_MAIL, "in", "a"), b = stand_named(s, TURN_MAIL, "in", "b"),
                        fired = stand_fired(s, 3);
    stand_queue(s, &a);
    stand_queue(s, &fired);
    stand_queue(s, &b);
    stand_run(s);
    CHECK_SLICE(s->row.output, "a");
    stand_free(s);
}

/* ---- All and any ------------------------------------------------------------------------------------------------- */

static int fan_out(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_task tasks[3];
    pr_slice text = input, next;
    for (int i = 0; i < 3; i++)
        tasks[i] = pr_activity(f, "part", pr_flow_printf(f, "%d", i));
    int rc = pr_all(f, 3, tasks);
    for (int i = 0; i < 3 && rc == PR_OK; i++) {
        rc = pr_result(f, tasks[i], &next, NULL);
        text = rc == PR_OK ? pr_flow_printf(f, "%.*s%.*s", SLICE_ARGS(text), SLICE_ARGS(next)) : text;
    }
    *ret_output = text;
    return rc;
}

TEST(all_gives_results_in_the_order_in_which_they_were_asked_for) /* B105 */
{
    struct stand *s = stand_new(fan_out);
    stand_start(s, "=");
    CHECK_EQ(s->activity_count, 3);
    stand_result(s, 3, "c");
    stand_result(s, 1, "a");
    CHECK_EQ(s->row.state, FLOW_RUNNING);
    stand_result(s, 2, "b");
    CHECK_SLICE(s->row.output, "=abc");
    stand_free(s);
}

static int race(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_task tasks[3] = { pr_activity(f, "a", input), pr_activity(f, "b", input), pr_timer(f, PR_SECONDS(9)) };
    int first = pr_any(f, 3, tasks);
    if (first < 0)
        return first;
    for (int i = 0; i < 3 && input.size > 0; i++) {
        if (i != first)
            pr_cancel(f, tasks[i]);
    }
    int rc = pr_call(f, "after", PR_STR(""), NULL);
    *ret_output = pr_flow_printf(f, "%d", first);
    return rc;
}

TEST(any_is_won_by_what_ended_first_also_when_others_have_ended_since) /* B105 */
{
    struct stand *s = stand_new(race);
    stand_start(s, "");
    struct turn_message b = stand_result_of(s, 2, "b"), a = stand_result_of(s, 1, "a");
    stand_queue(s, &b);
    stand_queue(s, &a);
    stand_run(s);
    CHECK_EQ(stand_effects(s, EFFECT_DELETE), 0); /* losers go on */
    stand_fire(s, 3);
    stand_result(s, 4, "");
    CHECK_SLICE(s->row.output, "1");
    stand_free(s);
}

TEST(losers_that_are_cancelled_are_deleted_by_their_computed_id) /* B105, B128 */
{
    struct stand *s = stand_new(race);
    stand_start(s, "cancel");
    stand_result(s, 2, "b");
    CHECK_EQ(stand_effects(s, EFFECT_DELETE), 2);
    CHECK_EQ(s->activity_count, 2); /* b, which is about to be completed, and after */
    CHECK_EQ(s->timer_count, 0);
    stand_result(s, 1, "late");
    CHECK_EQ(s->out.kind, FLOW_TURN_NOTHING);
    stand_result(s, 4, "");
    CHECK_SLICE(s->row.output, "1");
    stand_free(s);
}

static int changes_its_mind(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_task unwanted = pr_activity(f, "unwanted", input), child = pr_child(f, "kid", input),
            timer = pr_timer(f, PR_SECONDS(1));
    pr_cancel(f, unwanted);
    pr_cancel(f, child);
    pr_cancel(f, timer);
    pr_cancel(f, timer);
    return pr_call(f, "wanted", input, ret_output);
}

TEST(what_is_begun_and_cancelled_in_one_turn_is_never_queued) /* B128 */
{
    struct stand *s = stand_new(changes_its_mind);
    stand_start(s, "");
    CHECK_EQ(s->activity_count, 1);
    CHECK_SLICE(s->activities[0].type, "wanted");
    CHECK_EQ(s->timer_count + s->other_count + stand_effects(s, EFFECT_DELETE), 0);
    stand_result(s, 4, "done");
    CHECK_SLICE(s->row.output, "done");
    stand_free(s);
}

static int leaves_open(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    (void)pr_activity(f, "never awaited", input);
    (void)pr_timer(f, PR_SECONDS(1));
    (void)pr_child_with(f, "kid", input, &(struct pr_child_options){ .id = "kid-1" });
    return pr_result(f, pr_event(f, "go"), ret_output, NULL);
}

TEST(what_is_open_when_the_function_returns_is_cancelled) /* B105, B111 */
{
    struct stand *s = stand_new(leaves_open);
    stand_start(s, "");
    CHECK_EQ(s->other_count, 1);
    stand_event(s, "go", "on");
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    CHECK_EQ(s->activity_count, 0);
    CHECK_EQ(s->timer_count, 0);
    CHECK_EQ(s->other_count, 2);
    CHECK_SLICE(s->others[1].type, "cancel");
    CHECK_SLICE(s->others[1].stream, "kid-1");
    stand_free(s);
}

static int too_many(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_task last = { 0 };
    (void)ret_output;
    for (int i = 0; i <= PR_FLOW_TASKS_MAX; i++)
        last = pr_activity(f, "part", input);
    return pr_result(f, last, NULL, NULL);
}

TEST(more_than_ten_thousand_open_tasks_are_an_error_to_the_code) /* B105 */
{
    struct stand *s = stand_new(too_many);
    stand_start(s, "");
    CHECK_EQ(s->row.state, FLOW_FAILED);
    CHECK_STR(stand_error(s), "the flow has 10000 open tasks; end some before you start more");
    CHECK_EQ(s->activity_count, 0);
    stand_free(s);
}
