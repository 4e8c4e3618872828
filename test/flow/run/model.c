/* The programming model on a real store: the calls of flow functions, and their effects. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "crowd.h"

static int upper(struct pr_activity_context *context, pr_slice input, pr_slice *ret_output, void *user)
{
    char *text = pr_activity_alloc(context, input.size + 1);
    (void)user;
    for (size_t i = 0; i < input.size; i++)
        text[i] = (char)(input.data[i] >= 'a' && input.data[i] <= 'z' ? input.data[i] - 32 : input.data[i]);
    *ret_output = PR_BYTES(text, input.size);
    return PR_OK;
}

static int call_and_sleep(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    int rc = pr_call(f, "upper", input, ret_output);
    if (rc != PR_OK)
        return rc;
    return pr_result(f, pr_timer(f, PR_MILLISECONDS(20)), NULL, NULL);
}

TEST(an_activity_and_a_timer) /* B100, B101, B112 */
{
    struct crowd c;
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "shout", call_and_sleep);
    crowd_activity(&c, "upper", upper);
    crowd_start(&c);
    crowd_begin(&c, "shout", "s-1", "hello");
    CHECK_STR(crowd_end(&c, "s-1", PR_FLOW_COMPLETED), "HELLO");
    CHECK_STR(crowd_events(&c, "s-1"), "started, activity upper, result, timer, fired, completed");
    CHECK_EQ(stand_int(&c.stand, "SELECT count(*) FROM activities"), 0);
    CHECK_EQ(stand_int(&c.stand, "SELECT count(*) FROM turns"), 0);
    crowd_fini(&c);
}

/* ---- Events and mail ------------------------------------------------------------------------------- */

static int two_events(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_slice first, second, letter;
    (void)input;
    int rc = pr_result(f, pr_event(f, "go"), &first, NULL);
    if (rc == PR_OK)
        rc = pr_result(f, pr_event(f, "go"), &second, NULL);
    if (rc == PR_OK)
        rc = pr_result(f, pr_mail(f, "post"), &letter, NULL);
    if (rc != PR_OK)
        return rc;
    *ret_output = pr_flow_printf(f, "%.*s %.*s %.*s", (int)first.size, first.data, (int)second.size, second.data,
                                 (int)letter.size, letter.data);
    return PR_OK;
}

TEST(events_and_mail_come_in_their_order_also_before_the_flow_exists) /* B102 */
{
    struct crowd c;
    struct pr_error error;
    crowd_init(&c);
    CHECK_OK(pr_flow_raise(c.client, "e-1", "go", PR_STR("a"), &error), &error);
    CHECK_OK(pr_flow_send(c.client, "e-1", "post", PR_STR("letter"), &error), &error);
    crowd_engine(&c, "");
    crowd_flow(&c, "wait", two_events);
    crowd_start(&c);
    stand_wait(&c.stand, "SELECT count(*) FROM turns", 0); /* kept apart until the flow begins */
    crowd_begin(&c, "wait", "e-1", "");
    CHECK_OK(pr_flow_raise(c.client, "e-1", "other", PR_STR("x"), &error), &error);
    CHECK_OK(pr_flow_raise(c.client, "e-1", "go", PR_STR("b"), &error), &error);
    CHECK_STR(crowd_end(&c, "e-1", PR_FLOW_COMPLETED), "a b letter");
    crowd_fini(&c);
}

static void begin_later(struct crowd *c, char id[PR_FLOW_ID_SIZE])
{
    struct pr_error error;
    const struct pr_flow_start start = { .name = "wait", .due_us = ((int64_t)time(NULL) + 3) * 1000000 };
    CHECK_OK(pr_flow_start(c->client, &start, id, &error), &error);
}

static void tell_two(struct crowd *c, const char *id, int64_t turns)
{
    struct pr_error error;
    CHECK_OK(pr_flow_raise(c->client, id, "go", PR_STR("a"), &error), &error);
    CHECK_OK(pr_flow_send(c->client, id, "post", PR_STR("letter"), &error), &error);
    stand_wait(&c->stand, "SELECT count(*) FROM turns", turns);
}

/* Whoever starts a flow may pass its generated id on before it begins: before its time, or before the transaction ends. */
TEST(events_and_mail_also_wait_for_a_flow_with_a_generated_id) /* B102 */
{
    struct crowd c;
    struct pr_error error;
    char box[128], id[PR_FLOW_ID_SIZE];
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "wait", two_events);
    crowd_start(&c);
    begin_later(&c, id);
    tell_two(&c, id, 1);
    CHECK_OK(pr_flow_raise(c.client, id, "go", PR_STR("b"), &error), &error);
    CHECK_STR(crowd_end(&c, id, PR_FLOW_COMPLETED), "a b letter");
    if (c.stand.pg != NULL) {
        PGconn *pg = stand_pg(&c.stand);
        snprintf(box, sizeof box, "%s.turns", c.stand.schema);
        PQclear(PQexec(pg, "BEGIN"));
        CHECK_OK(pr_flow_start_pg(pg, box, &(struct pr_flow_start){ .name = "wait" }, id, &error), &error);
        tell_two(&c, id, 0);
        PQclear(PQexec(pg, "COMMIT"));
        PQfinish(pg);
        CHECK_OK(pr_flow_raise(c.client, id, "go", PR_STR("b"), &error), &error);
        CHECK_STR(crowd_end(&c, id, PR_FLOW_COMPLETED), "a b letter");
        crowd_stop(&c);
        CHECK_OK(pr_flow_start(c.client, &(struct pr_flow_start){ .name = "wait" }, id, &error), &error);
        stand_do(&c.stand, "UPDATE turns SET due_at = now() + interval '3 s'"); /* by a person */
        crowd_engine(&c, "");
        crowd_flow(&c, "wait", two_events);
        crowd_start(&c);
        tell_two(&c, id, 1);
        CHECK_OK(pr_flow_raise(c.client, id, "go", PR_STR("b"), &error), &error);
        CHECK_STR(crowd_end(&c, id, PR_FLOW_COMPLETED), "a b letter");
    }
    crowd_fini(&c);
}

/* ---- Children, continue as new ------------------------------------------------------------------------ */

static int parent(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    const struct pr_child_options named = { .id = "the-child" };
    pr_slice one, other;
    (void)input;
    int rc = pr_detach(f, "shout", PR_STR("alone"), &(struct pr_child_options){ .id = "detached" });
    if (rc != PR_OK)
        return rc;
    pr_task a = pr_child(f, "shout", PR_STR("own")), b = pr_child_with(f, "shout", PR_STR("named"), &named);
    rc = pr_all(f, 2, (pr_task[]){ a, b });
    if (rc == PR_OK)
        rc = pr_result(f, a, &one, NULL);
    if (rc == PR_OK)
        rc = pr_result(f, b, &other, NULL);
    if (rc != PR_OK)
        return rc;
    *ret_output = pr_flow_printf(f, "%.*s %.*s", (int)one.size, one.data, (int)other.size, other.data);
    return PR_OK;
}

TEST(children_with_ids_of_their_own_or_given_ones_and_detached_flows) /* B103 */
{
    struct crowd c;
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "shout", call_and_sleep);
    crowd_flow(&c, "parent", parent);
    crowd_activity(&c, "upper", upper);
    crowd_start(&c);
    crowd_begin(&c, "parent", "p-1", "");
    CHECK_STR(crowd_end(&c, "p-1", PR_FLOW_COMPLETED), "OWN NAMED");
    CHECK_STR(crowd_end(&c, "the-child", PR_FLOW_COMPLETED), "NAMED");
    CHECK_STR(crowd_end(&c, "detached", PR_FLOW_COMPLETED), "ALONE");
    CHECK_EQ(stand_int(&c.stand, c.stand.pg != NULL ? "SELECT count(*) FROM flow WHERE parent = 'p-1'"
                                                    : "SELECT count(*) FROM postrider_flow WHERE parent = 'p-1'"),
             2);
    crowd_fini(&c);
}

static int countdown(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    int left = atoi(crowd_text(input));
    pr_slice letter;
    int rc = pr_call(f, "upper", PR_STR("x"), NULL);
    if (rc == PR_OK && left == 3)
        rc = pr_set_status(f, PR_STR("counting"));
    if (rc != PR_OK)
        return rc;
    if (left > 0)
        return pr_continue_as_new(f, pr_flow_printf(f, "%d", left - 1), NULL);
    rc = pr_result(f, pr_mail(f, "post"), &letter, NULL);
    *ret_output = letter;
    return rc;
}

static int count_flow(void *arg, const struct pr_flow_status *flow)
{
    int *count = arg;
    count[0]++;
    count[1] += flow->state == PR_FLOW_CONTINUED;
    return PR_OK;
}

TEST(continue_as_new_begins_an_execution_and_keeps_status_and_mail) /* B104, B127, B134 */
{
    struct crowd c;
    struct pr_error error;
    struct pr_flow_status status;
    int counts[2] = { 0 };
    uint64_t pruned = 0;
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "countdown", countdown);
    crowd_activity(&c, "upper", upper);
    crowd_begin(&c, "countdown", "n-1", "3");
    CHECK_OK(pr_flow_send(c.client, "n-1", "post", PR_STR("kept"), &error), &error);
    crowd_start(&c);
    CHECK_STR(crowd_end(&c, "n-1", PR_FLOW_COMPLETED), "kept");
    CHECK_STR(crowd_events(&c, "n-1"), "started, mail post, activity upper, result, wait_mail post, completed");
    CHECK_EQ(pr_flow_status(c.client, "n-1", &status, &error), PR_OK);
    CHECK_SLICE(status.custom_status, "counting");
    pr_flow_status_free(&status);
    CHECK_OK(pr_flow_executions(c.client, "n-1", count_flow, counts, &error), &error);
    CHECK_EQ(counts[0], 4);
    CHECK_EQ(counts[1], 3);
    CHECK_OK(pr_flow_prune(c.client, "n-1", 1, 0, &pruned, &error), &error);
    CHECK_EQ(pruned, 2);
    counts[0] = 0;
    CHECK_OK(pr_flow_executions(c.client, "n-1", count_flow, counts, &error), &error);
    CHECK_EQ(counts[0], 2);
    crowd_fini(&c);
}

/* ---- All, any, cancel ---------------------------------------------------------------------------------- */

static int fan_out(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_task tasks[100];
    int count = atoi(crowd_text(input));
    pr_slice all = { "", 0 }, one;
    for (int i = 0; i < count; i++)
        tasks[i] = pr_activity(f, "upper", pr_flow_printf(f, "%c", 'a' + i % 26));
    int rc = pr_all(f, (size_t)count, tasks);
    for (int i = 0; rc == PR_OK && i < count; i++) {
        rc = pr_result(f, tasks[i], &one, NULL);
        if (rc == PR_OK)
            all = pr_flow_printf(f, "%.*s%.*s", (int)all.size, all.data, (int)one.size, one.data);
    }
    *ret_output = all;
    return rc;
}

static int race(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_task quick = pr_activity(f, "upper", input), late = pr_timer(f, PR_SECONDS(3600));
    int first = pr_any(f, 2, (pr_task[]){ quick, late });
    if (first < 0)
        return first;
    pr_cancel(f, late);
    *ret_output = pr_flow_printf(f, "%d", first);
    return PR_OK;
}

TEST(all_gives_results_in_schedule_order_and_any_the_first) /* B105 */
{
    struct crowd c;
    char wanted[101];
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "fan", fan_out);
    crowd_flow(&c, "race", race);
    crowd_activity(&c, "upper", upper);
    crowd_start(&c);
    crowd_begin(&c, "fan", "f-1", "100");
    crowd_begin(&c, "race", "r-1", "x");
    for (int i = 0; i < 100; i++)
        wanted[i] = (char)('A' + i % 26);
    wanted[100] = '\0';
    CHECK_STR(crowd_end(&c, "f-1", PR_FLOW_COMPLETED), wanted);
    CHECK_STR(crowd_end(&c, "r-1", PR_FLOW_COMPLETED), "0");
    stand_wait(&c.stand, "SELECT count(*) FROM turns", 0); /* the timer went with the flow */
    crowd_fini(&c);
}

/* ---- Retries ------------------------------------------------------------------------------------------- */

static atomic_int tries;

static int fails_twice(struct pr_activity_context *context, pr_slice input, pr_slice *ret_output, void *user)
{
    (void)user;
    int attempt = ++tries;
    *ret_output = input;
    CHECK_EQ(pr_activity_info(context)->attempt, attempt);
    return attempt <= 2 ? pr_activity_fail(context, PR_CATEGORY_APPLICATION, true, "try %d", attempt) : PR_OK;
}

static int retrying(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    const struct pr_activity_options options = {
        .retry = { .tries = atoi(crowd_text(input)), .backoff = PR_BACKOFF_FIXED, .first_us = PR_MILLISECONDS(5) }
    };
    struct pr_error why;
    int rc = pr_result(f, pr_activity_with(f, "flaky", PR_STR("done"), &options), ret_output, &why);
    if (rc == PR_FAILED)
        return pr_flow_fail(f, "gave up: %s", why.text);
    return rc;
}

TEST(an_activity_is_tried_again_by_its_policy_without_a_word_in_the_history) /* B106 */
{
    struct crowd c;
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "retrying", retrying);
    crowd_activity(&c, "flaky", fails_twice);
    crowd_start(&c);
    tries = 0;
    crowd_begin(&c, "retrying", "t-3", "3");
    CHECK_STR(crowd_end(&c, "t-3", PR_FLOW_COMPLETED), "done");
    CHECK_EQ(tries, 3);
    CHECK_STR(crowd_events(&c, "t-3"), "started, activity flaky, result, completed");
    tries = 0;
    crowd_begin(&c, "retrying", "t-2", "2");
    CHECK_STR(crowd_end(&c, "t-2", PR_FLOW_FAILED), "gave up: try 2");
    CHECK_EQ(tries, 2);
    CHECK_EQ(stand_int(&c.stand, "SELECT count(*) FROM {dead}"), 0); /* it is the flow's, not people's */
    crowd_fini(&c);
}

static int sleepy(struct pr_activity_context *context, pr_slice input, pr_slice *ret_output, void *user)
{
    (void)input;
    (void)user;
    (void)ret_output;
    while (!pr_activity_should_stop(context))
        test_pause();
    CHECK(!pr_activity_is_cancelled(context));
    return pr_activity_fail(context, PR_CATEGORY_APPLICATION, true, "told to stop");
}

static int impatient(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    const struct pr_activity_options options = { .timeout_us = PR_MILLISECONDS(100) };
    (void)input;
    return pr_result(f, pr_activity_with(f, "sleepy", PR_STR(""), &options), ret_output, NULL);
}

static int slow_retry(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    const struct pr_activity_options options = {
        .schedule_to_start_us = PR_MILLISECONDS(500),
        .retry = { .tries = 3, .backoff = PR_BACKOFF_FIXED, .first_us = PR_MILLISECONDS(400) },
    };
    (void)input;
    return pr_result(f, pr_activity_with(f, "flaky", PR_STR("done"), &options), ret_output, NULL);
}

static int unstarted(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    const struct pr_activity_options options = { .schedule_to_start_us = PR_MILLISECONDS(50) };
    (void)input;
    return pr_result(f, pr_activity_with(f, "nobody", PR_STR(""), &options), ret_output, NULL);
}

TEST(an_activity_has_a_time_for_a_try_and_one_to_be_begun) /* B106 */
{
    struct crowd c;
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "impatient", impatient);
    crowd_flow(&c, "unstarted", unstarted);
    crowd_flow(&c, "slow_retry", slow_retry);
    crowd_activity(&c, "sleepy", sleepy);
    crowd_activity(&c, "flaky", fails_twice);
    tries = 0;
    crowd_start(&c);
    crowd_begin(&c, "slow_retry", "l-1", "");
    crowd_begin(&c, "impatient", "i-1", "");
    crowd_begin(&c, "unstarted", "u-1", "");
    CHECK_STR(crowd_end(&c, "i-1", PR_FLOW_FAILED), "told to stop");
    CHECK_STR(crowd_end(&c, "u-1", PR_FLOW_FAILED), "activity nobody was not started in time");
    CHECK_STR(crowd_end(&c, "l-1", PR_FLOW_COMPLETED), "done"); /* begun in time, and tried again after it */
    crowd_fini(&c);
}

/* ---- Recorded, visible ------------------------------------------------------------------------------------ */

static int recorded(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    char id[PR_ID_TEXT_SIZE];
    int64_t now = pr_now(f);
    uint64_t number = pr_random(f);
    (void)input;
    pr_id_format(pr_uuid(f), id);
    pr_slice before = pr_flow_printf(f, "%lld %llu %s", (long long)now, (unsigned long long)number, id), got;
    int rc = pr_call(f, "upper", before, &got);
    if (rc != PR_OK)
        return rc;
    pr_slice after = pr_flow_printf(f, "%lld %llu %s", (long long)now, (unsigned long long)number, id);
    *ret_output =
        after.size == got.size && strncasecmp(after.data, got.data, got.size) == 0 ? PR_STR("same") : PR_STR("others");
    return PR_OK;
}

TEST(time_ids_and_random_numbers_are_recorded_once) /* B107 */
{
    struct crowd c;
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "recorded", recorded);
    crowd_activity(&c, "upper", upper);
    crowd_start(&c);
    crowd_begin(&c, "recorded", "w-1", "");
    CHECK_STR(crowd_end(&c, "w-1", PR_FLOW_COMPLETED), "same");
    CHECK_STR(crowd_events(&c, "w-1"), "started, now, random, uuid, activity upper, result, completed");
    crowd_fini(&c);
}

static int visible(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_slice value;
    (void)input;
    int rc = pr_set_status(f, PR_STR("waiting for go"));
    if (rc == PR_OK)
        rc = pr_state_set(f, PR_STR("colour"), PR_STR("red"));
    if (rc == PR_OK)
        rc = pr_state_set(f, PR_STR("gone"), PR_STR("soon"));
    if (rc == PR_OK)
        rc = pr_result(f, pr_event(f, "go"), NULL, NULL);
    if (rc != PR_OK)
        return rc;
    pr_state_clear(f, PR_STR("gone"));
    if (pr_state_get(f, PR_STR("colour"), &value) != PR_OK)
        return pr_flow_fail(f, "the value is gone");
    *ret_output = value;
    return PR_OK;
}

TEST(status_can_be_waited_for_and_values_read_from_outside) /* B108, B109 */
{
    struct crowd c;
    struct pr_error error;
    struct pr_flow_status status;
    char *value;
    size_t size;
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "visible", visible);
    crowd_start(&c);
    crowd_begin(&c, "visible", "v-1", "");
    CHECK_EQ(pr_flow_wait(c.client, "v-1", 0, PR_SECONDS(20), &status, &error), PR_OK);
    CHECK_SLICE(status.custom_status, "waiting for go");
    CHECK_EQ(status.status_number, 1);
    CHECK_EQ(status.state, PR_FLOW_RUNNING);
    pr_flow_status_free(&status);
    CHECK_EQ(pr_flow_wait(c.client, "v-1", 1, PR_MILLISECONDS(20), &status, &error), PR_TIMEOUT);
    pr_flow_status_free(&status);
    CHECK_OK(pr_flow_value(c.client, "v-1", PR_STR("gone"), &value, &size, &error), &error);
    CHECK_STR(value, "soon");
    free(value);
    CHECK_OK(pr_flow_raise(c.client, "v-1", "go", PR_STR(""), &error), &error);
    CHECK_STR(crowd_end(&c, "v-1", PR_FLOW_COMPLETED), "red");
    CHECK_EQ(pr_flow_value(c.client, "v-1", PR_STR("gone"), &value, &size, &error), PR_UNKNOWN);
    CHECK_EQ(pr_flow_wait(c.client, "nobody", -1, PR_MILLISECONDS(20), &status, &error), PR_UNKNOWN);
    crowd_fini(&c);
}

/* ---- Cancel ------------------------------------------------------------------------------------------------- */

static int cleans_up(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    const struct pr_child_options named = { .id = "below" };
    (void)ret_output;
    pr_task child = input.size > 0 ? pr_event(f, "never") : pr_child_with(f, "cleans", PR_STR("child"), &named);
    int rc = pr_result(f, child, NULL, NULL);
    if (rc == PR_ECANCELLED) {
        int cleaned = pr_call(f, "upper", PR_STR("clean"), NULL);
        if (cleaned != PR_OK)
            return cleaned;
    }
    return rc;
}

TEST(a_cancelled_flow_may_clean_up_and_takes_its_children_with_it) /* B111 */
{
    struct crowd c;
    struct pr_error error;
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "cleans", cleans_up);
    crowd_activity(&c, "upper", upper);
    crowd_start(&c);
    crowd_begin(&c, "cleans", "c-1", "");
    struct pr_flow_status status;
    while (pr_flow_status(c.client, "below", &status, &error) != PR_OK)
        test_pause();
    pr_flow_status_free(&status);
    CHECK_OK(pr_flow_cancel(c.client, "c-1", "no need", &error), &error);
    CHECK_OK(pr_flow_cancel(c.client, "c-1", "twice", &error), &error);
    crowd_end(&c, "c-1", PR_FLOW_CANCELLED);
    crowd_end(&c, "below", PR_FLOW_CANCELLED);
    CHECK(strstr(crowd_events(&c, "below"), "activity upper, result") != NULL);
    crowd_fini(&c);
}

/* ---- Client ---------------------------------------------------------------------------------------------------- */

static int stop_at_first(void *arg, const struct pr_flow_status *flow)
{
    snprintf(arg, 64, "%s", crowd_text(flow->id));
    return PR_FAILED;
}

TEST(a_flow_starts_once_by_its_id_and_again_when_it_has_ended) /* B112, B126 */
{
    struct crowd c;
    struct pr_error error;
    char made[PR_FLOW_ID_SIZE], listed[64];
    int counts[2] = { 0 };
    const struct pr_flow_start again = { .name = "shout", .id = "s-1", .input = PR_STR("again") };
    struct pr_flow_start restart = again;
    restart.restart = true;
    crowd_init(&c);
    crowd_begin(&c, "shout", "s-1", "first");
    CHECK_EQ(pr_flow_start(c.client, &again, made, &error), PR_DUPLICATE); /* the message is there */
    CHECK_STR(made, "s-1");
    struct pr_flow_status status;
    CHECK_EQ(pr_flow_status(c.client, "s-1", &status, &error), PR_UNKNOWN); /* only its first turn creates it */
    crowd_engine(&c, "");
    crowd_flow(&c, "shout", call_and_sleep);
    crowd_activity(&c, "upper", upper);
    crowd_start(&c);
    CHECK_STR(crowd_end(&c, "s-1", PR_FLOW_COMPLETED), "FIRST");
    CHECK_EQ(pr_flow_start(c.client, &again, made, &error), PR_DUPLICATE); /* the flow is there */
    CHECK_OK(pr_flow_start(c.client, &restart, made, &error), &error);
    while (strcmp(crowd_end(&c, "s-1", PR_FLOW_COMPLETED), "AGAIN") != 0)
        test_pause();
    const struct pr_flow_start unnamed = { .name = "shout", .input = PR_STR("x") };
    CHECK_OK(pr_flow_start(c.client, &unnamed, made, &error), &error);
    CHECK_EQ(strlen(made), PR_ID_TEXT_SIZE - 1);
    CHECK_STR(crowd_end(&c, made, PR_FLOW_COMPLETED), "X");
    CHECK_OK(pr_flow_list(c.client, &(struct pr_flow_query){ .name = "shout" }, count_flow, counts, &error), &error);
    CHECK_EQ(counts[0], 2);
    CHECK_EQ(pr_flow_list(c.client, &(struct pr_flow_query){ .max = 1 }, stop_at_first, listed, &error), PR_FAILED);
    CHECK_STR(listed, made);
    CHECK_EQ(pr_flow_delete(c.client, "nobody", false, &error), PR_UNKNOWN);
    CHECK_EQ(pr_flow_delete(c.client, "s-1", false, &error), PR_OK);
    CHECK_EQ(pr_flow_status(c.client, "s-1", &status, &error), PR_UNKNOWN);
    CHECK_EQ(pr_flow_start(c.client, &(struct pr_flow_start){ .name = "" }, made, &error), PR_EINVAL);
    CHECK_STR(error.text, "the name of the flow is empty");
    crowd_fini(&c);
}

/* Start and events in the transaction of the application: both happen with it, or neither does. */
static void in_transaction(struct crowd *c, const char *id, bool commit)
{
    struct pr_error error;
    char box[128];
    snprintf(box, sizeof box, "%s.turns", c->stand.schema);
    const struct pr_flow_start start = { .name = "wait", .id = id };
    const struct pr_flow_tell tells[] = { { .id = id, .kind = PR_FLOW_EVENT, .name = "go", .data = PR_STR("1") },
                                          { .id = id, .kind = PR_FLOW_EVENT, .name = "go", .data = PR_STR("2") },
                                          { .id = id, .kind = PR_FLOW_MAIL, .name = "post", .data = PR_STR("3") } };
    if (c->stand.pg != NULL) {
        PGconn *pg = stand_pg(&c->stand);
        PQclear(PQexec(pg, "BEGIN"));
        CHECK_OK(pr_flow_start_pg(pg, box, &start, NULL, &error), &error);
        for (size_t i = 0; i < 3; i++)
            CHECK_OK(pr_flow_tell_pg(pg, box, &tells[i], &error), &error);
        PQclear(PQexec(pg, commit ? "COMMIT" : "ROLLBACK"));
        PQfinish(pg);
        return;
    }
    sqlite3 *db = stand_sqlite(&c->stand);
    sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    CHECK_OK(pr_flow_start_sqlite(db, NULL, &start, NULL, &error), &error);
    for (size_t i = 0; i < 3; i++)
        CHECK_OK(pr_flow_tell_sqlite(db, NULL, &tells[i], &error), &error);
    sqlite3_exec(db, commit ? "COMMIT" : "ROLLBACK", NULL, NULL, NULL);
    sqlite3_close(db);
}

TEST(a_flow_begins_with_the_transaction_of_the_application) /* B112 */
{
    struct crowd c;
    struct pr_error error;
    struct pr_flow_status status;
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "wait", two_events);
    crowd_start(&c);
    in_transaction(&c, "not", false);
    in_transaction(&c, "yes", true);
    CHECK_STR(crowd_end(&c, "yes", PR_FLOW_COMPLETED), "1 2 3");
    CHECK_EQ(pr_flow_status(c.client, "not", &status, &error), PR_UNKNOWN);
    crowd_fini(&c);
}

TEST(a_flow_begins_by_a_function_of_the_database) /* B112 */
{
    struct crowd c;
    struct pr_error error;
    char sql[256];
    const struct pr_flow_start again = { .name = "shout", .id = "sql-1" };
    crowd_init(&c);
    if (c.stand.pg != NULL) {
        snprintf(sql, sizeof sql, "SELECT %s.flow_start('shout', 'sql-1', 'plain')", c.stand.schema);
        CHECK_STR(stand_text(&c.stand, sql), "sql-1");
        CHECK_STR(stand_text(&c.stand, sql), "sql-1");
        CHECK_EQ(pr_flow_start(c.client, &again, NULL, &error), PR_DUPLICATE); /* the same message */
        snprintf(sql, sizeof sql, "SELECT %s.flow_start('shout', 'sql-2', '', version => '1')", c.stand.schema);
        stand_do(&c.stand, sql);
        snprintf(sql, sizeof sql, "SELECT length(%s.flow_start('shout'))", c.stand.schema);
        CHECK_EQ(stand_int(&c.stand, sql), PR_ID_TEXT_SIZE - 1);
        crowd_engine(&c, "");
        crowd_flow(&c, "shout", call_and_sleep);
        crowd_activity(&c, "upper", upper);
        crowd_start(&c);
        CHECK_STR(crowd_end(&c, "sql-1", PR_FLOW_COMPLETED), "PLAIN");
        CHECK_STR(crowd_end(&c, "sql-2", PR_FLOW_COMPLETED), "");
    }
    crowd_fini(&c);
}
