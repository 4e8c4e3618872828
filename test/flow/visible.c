/* What is visible of a flow and what moves to the next execution: status, key-values, recorded values, continue-as-new,
 * versions, waits. */
#include "stand.h"

#include <stdio.h>
#include <string.h>

#include "base/slice.h"
#include "core/id.h"
#include "flow/flow_id.h"

/* ---- Recorded values ---------------------------------------------------------------------------------- */

static int recorder(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    char id[PR_ID_TEXT_SIZE];
    (void)input;
    int64_t now_us = pr_now(f);
    uint64_t number = pr_random(f);
    pr_id_format(pr_uuid(f), id);
    pr_slice text = pr_flow_printf(f, "%lld %llu %s", (long long)now_us, (unsigned long long)number, id);
    int rc = pr_call(f, "use", text, NULL);
    *ret_output = text;
    return rc;
}

TEST(now_uuid_and_random_are_recorded_once_without_a_round_trip) /* B107 */
{
    struct stand *s = stand_new(recorder);
    stand_start(s, "");
    CHECK_STR(stand_events(s, 1), "started test, now, random, uuid, activity use");
    const char *first = stand_text(s->activities[0].payload);
    CHECK(s->history.events[1].value == s->now_us);
    s->now_us += PR_MINUTES(60);
    stand_event(s, "x", "");
    stand_result(s, 1, "");
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    CHECK_SLICE(s->row.output, first);
    stand_free(s);
}

static int two_of_each(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    (void)input, (void)ret_output;
    pr_id a = pr_uuid(f), b = pr_uuid(f);
    return !pr_id_equal(a, b) && pr_random(f) != pr_random(f) ? PR_OK : pr_flow_fail(f, "the same twice");
}

TEST(two_uuids_and_two_random_numbers_are_different) /* B107 */
{
    struct stand *s = stand_new(two_of_each);
    stand_start(s, "");
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    stand_free(s);
}

/* ---- Custom status --------------------------------------------------------------------------------------- */

static int teller(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    int rc = pr_set_status(f, PR_STR("one"));
    if (rc != PR_OK || (rc = pr_call(f, "a", input, NULL)) != PR_OK)
        return rc;
    if (!slice_eq_cstr(pr_get_status(f), "one"))
        return pr_flow_fail(f, "the status is lost");
    if ((rc = pr_set_status(f, PR_STR("two"))) != PR_OK || (rc = pr_set_status(f, PR_STR("three"))) != PR_OK)
        return rc;
    if ((rc = pr_call(f, "b", input, NULL)) != PR_OK || (rc = pr_clear_status(f)) != PR_OK)
        return rc;
    *ret_output = pr_get_status(f);
    return pr_flow_fail(f, "done");
}

TEST(the_custom_status_is_in_the_row_and_each_change_has_a_number) /* B108 */
{
    struct stand *s = stand_new(teller);
    stand_start(s, "");
    CHECK_SLICE(s->row.custom_status, "one");
    CHECK_EQ(s->row.status_number, 1);
    stand_event(s, "x", "");
    CHECK_EQ(s->row.status_number, 1); /* a replay changes nothing */
    CHECK_SLICE(s->row.custom_status, "one");
    stand_result(s, 1, "");
    CHECK_SLICE(s->row.custom_status, "three");
    CHECK_EQ(s->row.status_number, 3);
    stand_result(s, 2, "");
    CHECK_EQ(s->row.state, FLOW_FAILED);
    CHECK_SLICE(s->row.custom_status, "");
    CHECK_EQ(s->row.status_number, 4);
    stand_free(s);
}

static size_t status_size;
static int large_status(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    static char text[PR_CUSTOM_STATUS_MAX + 1];
    (void)input, (void)ret_output;
    memset(text, 'x', sizeof text);
    return pr_set_status(f, PR_BYTES(text, status_size));
}

TEST(a_custom_status_has_at_most_256_kib) /* B108 */
{
    struct stand *s = stand_new(large_status);
    status_size = PR_CUSTOM_STATUS_MAX;
    stand_start(s, "");
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    CHECK_EQ(s->row.custom_status.size, 262144);
    stand_free(s);
    s = stand_new(large_status);
    status_size++;
    stand_start(s, "");
    CHECK_EQ(s->row.state, FLOW_FAILED);
    CHECK_STR(stand_error(s), "a custom status can have at most 262144 bytes, this one has 262145");
    CHECK_EQ(s->row.status_number, 0);
    stand_free(s);
}

/* ---- Key-values --------------------------------------------------------------------------------------------- */

static int counter_of(pr_flow *f, const char *key)
{
    pr_slice value;
    return pr_state_get(f, slice_from(key), &value) == PR_OK && value.size == 1 ? value.data[0] - '0' : 0;
}

static int add_one(pr_flow *f, const char *key)
{
    return pr_state_set(f, slice_from(key), pr_flow_printf(f, "%d", counter_of(f, key) + 1));
}

/* Reads, adds and waits, again and again: what is stored is never what a replay begins with. */
static int adds_every_turn(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    for (int i = 0; i < 4; i++) {
        int rc = add_one(f, "count");
        if (rc != PR_OK || (rc = pr_call(f, "step", input, NULL)) != PR_OK)
            return rc;
    }
    *ret_output = pr_flow_printf(f, "%d", counter_of(f, "count"));
    return PR_OK;
}

TEST(a_value_that_is_read_and_written_every_turn_counts_right_on_replay) /* B109 */
{
    struct stand *s = stand_new(adds_every_turn);
    stand_start(s, "");
    CHECK_STR(stand_value(s, "count"), "1");
    for (int i = 1; i <= 4; i++) {
        CHECK_EQ(stand_effects(s, EFFECT_STATE), 1);
        stand_result(s, i, "");
    }
    CHECK_STR(stand_value(s, "count"), "4");
    CHECK_SLICE(s->row.output, "4");
    stand_free(s);
}

static int keeper(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_slice key, value;
    int rc = pr_state_set(f, PR_STR("b"), PR_STR("2"));
    if (rc != PR_OK || (rc = pr_state_set(f, PR_STR("a"), PR_STR("1"))) != PR_OK ||
        (rc = pr_state_set(f, PR_STR("c"), PR_STR(""))) != PR_OK ||
        (rc = pr_state_set(f, PR_STR("a"), PR_STR("9"))) != PR_OK)
        return rc;
    if (pr_state_count(f) != 3 || pr_state_get(f, PR_STR("d"), &value) != PR_UNKNOWN)
        return pr_flow_fail(f, "wrong keys");
    pr_state_at(f, 0, &key, &value);
    if (!slice_eq_cstr(key, "a") || !slice_eq_cstr(value, "9"))
        return pr_flow_fail(f, "not sorted");
    pr_state_clear(f, PR_STR("b"));
    pr_state_clear(f, PR_STR("nothing"));
    if ((rc = pr_call(f, "wait", input, NULL)) != PR_OK)
        return rc;
    pr_state_clear_all(f);
    if ((rc = pr_state_set(f, PR_STR("c"), PR_STR("new"))) != PR_OK)
        return rc;
    *ret_output = pr_flow_printf(f, "%zu", pr_state_count(f));
    return PR_OK;
}

TEST(key_values_are_sorted_and_each_key_is_stored_once_per_turn) /* B109 */
{
    struct stand *s = stand_new(keeper);
    stand_start(s, "");
    CHECK_EQ(s->state_count, 2);
    CHECK_STR(stand_value(s, "a"), "9");
    CHECK_STR(stand_value(s, "c"), "");
    CHECK_EQ(stand_effects(s, EFFECT_STATE), 3); /* a, b (removed), c */
    stand_result(s, 1, "");
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    CHECK_SLICE(s->row.output, "1");
    CHECK_EQ(s->state_count, 1);
    CHECK_STR(stand_value(s, "c"), "new");
    stand_free(s);
}

static int limits(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    static char large[PR_STATE_VALUE_MAX + 1];
    char key[32];
    int rc = PR_OK;
    (void)ret_output;
    if (slice_eq_cstr(input, "value"))
        return pr_state_set(f, PR_STR("k"), PR_BYTES(large, sizeof large));
    if (slice_eq_cstr(input, "key"))
        return pr_state_set(f, PR_STR(""), PR_STR("x"));
    size_t size = slice_eq_cstr(input, "all") ? PR_STATE_VALUE_MAX : 1;
    size_t more = slice_eq_cstr(input, "keys") ? 1 : 0;
    for (size_t i = 0; i < PR_STATE_KEYS_MAX + more && rc == PR_OK; i++) {
        snprintf(key, sizeof key, "%zu", i);
        rc = pr_state_set(f, slice_from(key), PR_BYTES(large, size));
    }
    return rc;
}

TEST(key_values_have_limits_and_what_is_over_them_says_so) /* B109 */
{
    static const struct {
        const char *input, *error;
    } cases[] = { { "value", "a value can have at most 65536 bytes, this one has 65537" },
                  { "key", "a key must have 1 to 255 bytes of text" },
                  { "keys", "a flow can have at most 1024 keys" },
                  { "all", "keys and values of a flow can have at most 1048576 bytes together" },
                  { "fits", NULL } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct stand *s = stand_new(limits);
        stand_start(s, cases[i].input);
        CHECK_EQ(s->row.state, cases[i].error != NULL ? FLOW_FAILED : FLOW_COMPLETED);
        if (cases[i].error != NULL)
            CHECK_STR(stand_error(s), cases[i].error);
        else
            CHECK_EQ(s->state_count, PR_STATE_KEYS_MAX);
        stand_free(s);
    }
}

/* ---- Continue as new -------------------------------------------------------------------------------------------- */

static int eternal(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_slice mail;
    int rc = add_one(f, "rounds");
    if (rc != PR_OK)
        return rc;
    if (slice_eq_cstr(input, "2")) {
        pr_slice status = pr_get_status(f);
        rc = pr_result(f, pr_mail(f, "in"), &mail, NULL);
        *ret_output = pr_flow_printf(f, "%.*s %.*s %d %.*s", SLICE_ARGS(status), SLICE_ARGS(mail),
                                     counter_of(f, "rounds"), SLICE_ARGS(pr_flow_version(f)));
        return rc;
    }
    pr_task unneeded = pr_activity(f, "unneeded", input);
    (void)unneeded;
    if ((rc = pr_set_status(f, PR_STR("busy"))) != PR_OK ||
        (rc = pr_result(f, pr_event(f, "again"), NULL, NULL)) != PR_OK)
        return rc;
    return pr_continue_as_new(f, PR_STR("2"), "2");
}

TEST(continue_as_new_is_a_new_execution_with_status_values_and_mail) /* B104, B110 */
{
    struct stand *s = stand_new(eternal);
    stand_start(s, "1");
    pr_id first = s->row.execution;
    stand_mail(s, "in", "letter 1");
    stand_mail(s, "in", "letter 2");
    stand_event(s, "left over", "gone");
    stand_event(s, "again", "");
    CHECK(!pr_id_equal(s->row.execution, first));
    CHECK_EQ(s->row.next, 0);
    CHECK_EQ(s->row.state, FLOW_RUNNING);
    CHECK_SLICE(s->row.version, "2");
    CHECK_SLICE(s->row.input, "2");
    CHECK_EQ(s->activity_count, 0); /* what was open is cancelled */
    CHECK_EQ(s->mail_count, 2);
    CHECK_EQ(s->queued, 1); /* the message that makes it go on */
    CHECK_STR(stand_events(s, 7), "event again, continued");
    struct turn_message late = stand_result_of(s, 1, "of the old execution");
    late.execution = first;
    stand_queue(s, &late);
    s->code.version = PR_STR("2");
    stand_run(s);
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    CHECK_SLICE(s->row.output, "busy letter 1 2 2");
    CHECK_STR(stand_events(s, 1), "started test, mail in, mail in, wait_mail in, completed");
    CHECK_EQ(s->row.status_number, 1);
    stand_free(s);
}

TEST(a_message_that_comes_before_the_one_that_continues_begins_the_execution_and_that_one_is_harmless) /* B104 */
{
    struct stand *s = stand_new(eternal);
    stand_start(s, "1");
    stand_event(s, "again", "");
    struct pr_message go_on = s->queue[0];
    s->queued = 0;
    s->code.version = PR_STR("2");
    stand_event(s, "other", "");
    CHECK_EQ(s->row.next, 3); /* started, event, wait_mail */
    stand_queue_raw(s, &go_on);
    stand_run(s);
    CHECK_EQ(s->out.kind, FLOW_TURN_NOTHING);
    stand_mail(s, "in", "x");
    CHECK_SLICE(s->row.output, "busy x 2 2");
    stand_free(s);
}

static int without_a_wait(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    int rc = add_one(f, "rounds");
    (void)ret_output;
    return rc != PR_OK ? rc : counter_of(f, "rounds") < 5 ? pr_continue_as_new(f, input, NULL) : PR_OK;
}

TEST(a_flow_may_continue_without_ever_waiting_one_turn_for_each_execution) /* B104 */
{
    struct stand *s = stand_new(without_a_wait);
    stand_start(s, "");
    CHECK_EQ(stand_effects(s, EFFECT_EXECUTION), 1); /* it never had a row */
    CHECK_EQ(s->out.effects[1].kind, EFFECT_EXECUTION);
    CHECK(pr_id_equal(s->out.effects[1].flow->execution, s->out.execution));
    CHECK_EQ(s->out.effects[1].flow->next, 2);
    CHECK_EQ(s->out.effects[1].flow->state, FLOW_CONTINUED);
    for (int i = 2; i <= 5; i++) {
        CHECK_EQ(s->row.state, FLOW_RUNNING);
        stand_run(s);
        CHECK_EQ(stand_effects(s, EFFECT_EXECUTION), 0);
    }
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    CHECK_STR(stand_value(s, "rounds"), "5");
    stand_free(s);
}

/* ---- Starts ---------------------------------------------------------------------------------------------------------- */

TEST(the_first_turn_makes_the_flow_and_a_second_start_changes_nothing) /* B126 */
{
    struct stand *s = stand_new(keeper);
    stand_start(s, "x");
    CHECK(s->has_row);
    CHECK_SLICE(s->row.name, "test");
    CHECK_SLICE(s->row.version, "1"); /* that of the code, when the start names none */
    CHECK_EQ(s->row.created_us, 0);
    pr_id execution = s->row.execution;
    stand_start(s, "y");
    CHECK_EQ(s->out.kind, FLOW_TURN_NOTHING);
    CHECK(pr_id_equal(s->row.execution, execution));
    stand_free(s);
}

TEST(a_flow_that_has_ended_begins_anew_only_with_restart_and_without_what_it_had) /* B112, B126 */
{
    struct stand *s = stand_new(keeper);
    stand_start(s, "x");
    stand_result(s, 1, "");
    CHECK_STR(stand_value(s, "c"), "new");
    pr_id execution = s->row.execution;
    struct turn_message m = stand_named(s, TURN_START, "test", "again");
    m.restart = true;
    stand_queue(s, &m);
    stand_run(s);
    CHECK_EQ(s->row.state, FLOW_RUNNING);
    CHECK(!pr_id_equal(s->row.execution, execution));
    CHECK_EQ(s->row.next, 2);
    CHECK_STR(stand_value(s, "a"), "9");
    CHECK_STR(stand_value(s, "c"), "");
    stand_free(s);
}

TEST(a_flow_that_this_program_does_not_have_is_not_run_and_nothing_changes) /* B110 */
{
    struct stand *s = stand_new(keeper);
    s->no_code = true;
    stand_start(s, "x");
    CHECK_EQ(s->out.kind, FLOW_TURN_UNKNOWN);
    CHECK_EQ(s->out.effect_count, 0);
    CHECK(!s->has_row);
    s->no_code = false;
    stand_start(s, "x");
    s->no_code = true;
    stand_result(s, 1, "");
    CHECK_EQ(s->out.kind, FLOW_TURN_UNKNOWN);
    CHECK_EQ(s->out.effect_count, 0);
    stand_free(s);
}

TEST(a_running_flow_needs_its_own_version_and_one_that_begins_what_its_start_names) /* B110 */
{
    struct stand *s = stand_new(keeper);
    struct turn_message m = stand_named(s, TURN_START, "order", "x");
    pr_slice name, version;
    m.version = PR_STR("3");
    stand_queue(s, &m);
    const struct pr_message *run[] = { &s->queue[0] };
    CHECK_EQ(flow_turn_code(NULL, run, 1, &s->turn, &name, &version), PR_OK);
    CHECK_SLICE(name, "order");
    CHECK_SLICE(version, "3");
    struct flow_row row = { .name = PR_STR("order"), .version = PR_STR("1"), .state = FLOW_RUNNING };
    CHECK_EQ(flow_turn_code(&row, run, 1, &s->turn, &name, &version), PR_OK);
    CHECK_SLICE(version, "1");
    row.state = FLOW_COMPLETED;
    CHECK_EQ(flow_turn_code(&row, run, 1, &s->turn, &name, &version), PR_UNKNOWN);
    stand_free(s);
}

/* ---- Waits ------------------------------------------------------------------------------------------------------------- */

static int waits_for_all(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    (void)ret_output;
    pr_task tasks[] = { pr_activity_with(f, "a", input, &(struct pr_activity_options){ .tag = "gpu" }),
                        pr_timer(f, PR_SECONDS(60)),
                        pr_event(f, "e"),
                        pr_mail(f, "m"),
                        pr_child_with(f, "kid", input, &(struct pr_child_options){ .id = "k" }),
                        pr_event(f, "e") };
    return pr_all(f, 6, tasks);
}

static void check_waits(const struct stand *s, const struct flow_wait *w, size_t count)
{
    CHECK_EQ(count, 5);
    CHECK(w[0].kind == FLOW_EVENT_ACTIVITY && w[0].task == 1 &&
          pr_id_equal(w[0].id, flow_task_id(s->row.execution, 1)));
    CHECK_SLICE(w[0].name, "a");
    CHECK_SLICE(w[0].tag, "gpu");
    CHECK_EQ(w[1].due_us, w[1].since_us + PR_SECONDS(60));
    CHECK(w[2].kind == FLOW_EVENT_WAIT_MAIL && w[3].kind == FLOW_EVENT_CHILD);
    CHECK_SLICE(w[3].child, "k");
    CHECK(w[4].kind == FLOW_EVENT_WAIT && w[4].task == 6);
    CHECK_SLICE(w[4].name, "e");
}

TEST(what_a_flow_waits_for_is_told_from_its_history) /* B112 */
{
    struct stand *s = stand_new(waits_for_all);
    const struct flow_wait *waits;
    size_t count;
    stand_start(s, "");
    CHECK_EQ(flow_waits(&s->history, &s->kept, &waits, &count), PR_OK);
    CHECK_EQ(count, 6);
    stand_event(s, "e", "");
    CHECK_EQ(flow_waits(&s->history, &s->kept, &waits, &count), PR_OK);
    check_waits(s, waits, count);
    stand_cancel(s);
    CHECK_EQ(s->row.state, FLOW_CANCELLED);
    CHECK_EQ(flow_waits(&s->history, &s->kept, &waits, &count), PR_OK);
    CHECK_EQ(count, 0);
    stand_free(s);
}
