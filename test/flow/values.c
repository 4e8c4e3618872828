/* Key-values in combination with everything else: races, fan-out, limits, many executions. */
#include "stand.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/slice.h"

static int number_of(pr_flow *f, const char *key)
{
    pr_slice value;
    return pr_state_get(f, slice_from(key), &value) == PR_OK ? atoi(stand_text(value)) : 0;
}

static int put_number(pr_flow *f, const char *key, int number)
{
    return pr_state_set(f, slice_from(key), pr_flow_printf(f, "%d", number));
}

static int winner_is_kept(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_task tasks[2] = { pr_event(f, "yes"), pr_timer(f, PR_SECONDS(5)) };
    (void)input;
    int first = pr_any(f, 2, tasks);
    if (first < 0)
        return first;
    int rc = pr_state_set(f, PR_STR("answer"), first == 0 ? PR_STR("yes") : PR_STR("none"));
    if (rc != PR_OK || (rc = pr_call(f, "after", PR_STR(""), NULL)) != PR_OK)
        return rc;
    rc = pr_state_get(f, PR_STR("answer"), ret_output);
    return rc;
}

TEST(what_the_winner_of_a_race_sets_stays_set_when_the_loser_ends) /* B105, B109 */
{
    struct stand *s = stand_new(winner_is_kept);
    stand_start(s, "");
    stand_fire(s, 2);
    CHECK_STR(stand_value(s, "answer"), "none");
    stand_event(s, "yes", "");
    CHECK_STR(stand_value(s, "answer"), "none");
    stand_result(s, 3, "");
    CHECK_SLICE(s->row.output, "none");
    stand_free(s);
}

static int sums_up(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_task tasks[5];
    pr_slice part;
    for (int i = 0; i < 5; i++)
        tasks[i] = pr_activity(f, "part", input);
    int rc = put_number(f, "asked", 5);
    if (rc == PR_OK)
        rc = pr_all(f, 5, tasks);
    for (int i = 0; i < 5 && rc == PR_OK; i++) {
        if ((rc = pr_result(f, tasks[i], &part, NULL)) == PR_OK)
            rc = put_number(f, "sum", number_of(f, "sum") + atoi(stand_text(part)));
    }
    *ret_output = pr_flow_printf(f, "%d of %d", number_of(f, "sum"), number_of(f, "asked"));
    return rc;
}

TEST(values_add_up_what_a_fan_out_gave_once_in_any_order) /* B105, B109 */
{
    struct stand *s = stand_new(sums_up);
    static const struct {
        int64_t task;
        const char *output;
    } results[] = { { 4, "8" }, { 1, "1" }, { 5, "16" }, { 2, "2" }, { 3, "4" } };
    stand_start(s, "");
    for (size_t i = 0; i < 5; i++) {
        CHECK_STR(stand_value(s, "asked"), "5");
        CHECK_STR(stand_value(s, "sum"), NULL);
        stand_result(s, results[i].task, results[i].output);
    }
    CHECK_SLICE(s->row.output, "31 of 5");
    CHECK_STR(stand_value(s, "sum"), "31");
    stand_free(s);
}

static int fills_twice(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    char key[32];
    int rc = PR_OK;
    (void)input;
    for (int round = 0; round < 2 && rc == PR_OK; round++) {
        pr_state_clear_all(f);
        for (int i = 0; i < PR_STATE_KEYS_MAX && rc == PR_OK; i++) {
            snprintf(key, sizeof key, "%d-%d", round, i);
            rc = put_number(f, key, i);
        }
    }
    *ret_output = pr_flow_printf(f, "%zu", pr_state_count(f));
    return rc;
}

TEST(values_that_are_cleared_make_room_for_as_many_others) /* B109 */
{
    struct stand *s = stand_new(fills_twice);
    stand_start(s, "");
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    CHECK_SLICE(s->row.output, "1024");
    CHECK_EQ(s->state_count, PR_STATE_KEYS_MAX);
    CHECK_STR(stand_value(s, "0-7"), NULL);
    CHECK_STR(stand_value(s, "1-7"), "7");
    stand_free(s);
}

/* ---- Executions --------------------------------------------------------------------------------------- */

static int clears_and_goes_on(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    int rc = PR_OK;
    if (slice_eq_cstr(input, "1")) {
        pr_slice seen;
        if (pr_state_count(f) != 0 || pr_state_get(f, PR_STR("a"), &seen) != PR_UNKNOWN)
            return pr_flow_fail(f, "it begins with values");
        if ((rc = put_number(f, "a", 1)) != PR_OK || (rc = put_number(f, "b", 2)) != PR_OK ||
            (rc = pr_call(f, "wait", input, NULL)) != PR_OK)
            return rc;
        pr_state_clear(f, PR_STR("a"));
        return pr_continue_as_new(f, PR_STR("2"), NULL);
    }
    if (slice_eq_cstr(input, "2")) {
        if (pr_state_count(f) != 1 || number_of(f, "a") != 0 || number_of(f, "b") != 2)
            return pr_flow_fail(f, "the second has wrong values");
        pr_state_clear_all(f);
        if (pr_state_count(f) != 0 || (rc = pr_call(f, "wait", input, NULL)) != PR_OK)
            return rc;
        return pr_continue_as_new(f, PR_STR("3"), NULL);
    }
    *ret_output = pr_flow_printf(f, "%zu", pr_state_count(f));
    return PR_OK;
}

TEST(what_one_execution_cleared_is_not_there_for_the_next) /* B104, B109 */
{
    struct stand *s = stand_new(clears_and_goes_on);
    stand_start(s, "1");
    CHECK_EQ(s->state_count, 2);
    stand_result(s, 1, "");
    CHECK_STR(stand_value(s, "a"), NULL);
    CHECK_STR(stand_value(s, "b"), "2");
    stand_run(s);
    CHECK_EQ(s->state_count, 0); /* what an earlier execution had set, too */
    stand_result(s, 1, "");
    stand_run(s);
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    CHECK_SLICE(s->row.output, "0");
    stand_free(s);
}

#define ROUNDS 500

static int counts_rounds(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    int round = number_of(f, "round") + 1, rc = put_number(f, "round", round);
    *ret_output = pr_flow_printf(f, "%d", round);
    return rc != PR_OK || round == ROUNDS ? rc : pr_continue_as_new(f, input, NULL);
}

TEST(a_value_counts_hundreds_of_executions) /* B104, B109 */
{
    struct stand *s = stand_new(counts_rounds);
    stand_start(s, "");
    for (int i = 1; i < ROUNDS; i++) {
        CHECK_EQ(s->row.state, FLOW_RUNNING);
        stand_run(s);
    }
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    CHECK_SLICE(s->row.output, "500");
    stand_free(s);
}
