/* Timers: several at once, one behind the other, beside other work; and recorded values around them. */
#include "stand.h"

#include <string.h>

#include "base/slice.h"
#include "core/id.h"

static int three_timers(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_slice order = input;
    pr_task tasks[3] = { pr_timer(f, PR_SECONDS(30)), pr_timer(f, PR_SECONDS(10)), pr_timer(f, PR_SECONDS(20)) };
    bool ended[3] = { false };
    for (int left = 3; left > 0; left--) {
        pr_task open[3];
        int which[3], count = 0;
        for (int i = 0; i < 3; i++)
            if (!ended[i]) {
                which[count] = i;
                open[count++] = tasks[i];
            }
        int first = pr_any(f, (size_t)count, open);
        if (first < 0)
            return first;
        ended[which[first]] = true;
        order = pr_flow_printf(f, "%.*s%d", SLICE_ARGS(order), which[first]);
    }
    *ret_output = order;
    return PR_OK;
}

TEST(timers_that_run_at_once_are_due_each_at_its_time_and_end_in_that_order) /* B101, B105 */
{
    struct stand *s = stand_new(three_timers);
    stand_start(s, "");
    CHECK_EQ(s->timer_count, 3);
    CHECK_EQ(s->timers[0].due_us, s->now_us + PR_SECONDS(30));
    CHECK_EQ(s->timers[1].due_us, s->now_us + PR_SECONDS(10));
    CHECK_EQ(s->timers[2].due_us, s->now_us + PR_SECONDS(20));
    stand_fire(s, 2);
    stand_fire(s, 3);
    CHECK_EQ(s->row.state, FLOW_RUNNING);
    stand_fire(s, 1);
    CHECK_SLICE(s->row.output, "120");
    CHECK_STR(stand_events(s, 2), "timer, timer, timer, fired, fired, fired, completed");
    stand_free(s);
}

static int one_behind_the_other(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    int rc = pr_result(f, pr_timer(f, PR_SECONDS(10)), NULL, NULL);
    if (rc == PR_OK)
        rc = pr_call(f, "work", input, ret_output);
    return rc == PR_OK ? pr_result(f, pr_timer(f, PR_SECONDS(10)), NULL, NULL) : rc;
}

TEST(a_timer_behind_another_counts_from_the_turn_in_which_it_is_begun) /* B101 */
{
    struct stand *s = stand_new(one_behind_the_other);
    stand_start(s, "x");
    int64_t first_us = s->timers[0].due_us;
    s->now_us += PR_MINUTES(60); /* nobody was there when it was due */
    stand_fire(s, 1);
    stand_result(s, 2, "done");
    CHECK_EQ(s->timer_count, 2);
    CHECK_EQ(s->timers[1].due_us, s->now_us + PR_SECONDS(10));
    CHECK(s->timers[1].due_us > first_us + PR_MINUTES(60));
    stand_fire(s, 3);
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    CHECK_SLICE(s->row.output, "done");
    stand_free(s);
}

/* ---- Recorded values around a race ---------------------------------------------------------------------- */

static int recorded_race(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    char before[PR_ID_TEXT_SIZE], after[PR_ID_TEXT_SIZE];
    int64_t begun_us = pr_now(f);
    pr_id_format(pr_uuid(f), before);
    pr_task tasks[2];
    tasks[0] = pr_activity(f, "work", slice_from(before));
    tasks[1] = pr_timer_at(f, begun_us + (int64_t)(pr_random(f) % 1000));
    int first = pr_any(f, 2, tasks);
    if (first < 0)
        return first;
    int64_t won_us = pr_now(f);
    pr_id_format(pr_uuid(f), after);
    pr_cancel(f, tasks[1 - first]);
    int rc = pr_call(f, "report", pr_flow_printf(f, "%d %s", first, after), NULL);
    *ret_output = pr_flow_printf(f, "%d %s", first, won_us > begun_us && strcmp(before, after) != 0 ? "later" : "?");
    (void)input;
    return rc;
}

TEST(values_that_are_recorded_around_a_race_are_the_same_on_replay_whoever_wins) /* B105, B107 */
{
    for (int timer = 0; timer < 2; timer++) {
        struct stand *s = stand_new(recorded_race);
        stand_start(s, "");
        const char *before = stand_text(s->activities[0].payload);
        stand_event(s, "between", ""); /* a turn that replays and changes nothing */
        CHECK_SLICE(s->activities[0].payload, before);
        CHECK_STR(stand_events(s, 2), "now, uuid, activity work, random, timer, event between");
        if (timer)
            stand_fire(s, 2);
        else
            stand_result(s, 1, "");
        CHECK_STR(stand_events(s, 9), "now, uuid, cancel_task, activity report");
        s->now_us += PR_MINUTES(60);
        stand_result(s, 3, "");
        CHECK_SLICE(s->row.output, timer ? "1 later" : "0 later");
        stand_free(s);
    }
}
