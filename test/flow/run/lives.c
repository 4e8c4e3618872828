/* Whole lives of flows in an engine: orders that end well and not, versions that come and go, sessions, tries, deletion. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crowd.h"

#define WAIT_US PR_SECONDS(60)

static int echo(struct pr_activity_context *context, pr_slice input, pr_slice *ret_output, void *user)
{
    (void)context;
    (void)user;
    *ret_output = input;
    return PR_OK;
}

/* ---- An order ------------------------------------------------------------------------------------------ */

/* Fails when its input says its name. */
static int may_fail(struct pr_activity_context *context, pr_slice input, pr_slice *ret_output, void *user)
{
    const char *name = crowd_text(pr_activity_info(context)->name);
    (void)user;
    *ret_output = input;
    if (strcmp(crowd_text(input), name) == 0)
        return pr_activity_fail(context, PR_CATEGORY_APPLICATION, true, "%s is impossible", name);
    return PR_OK;
}

static int order(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    struct pr_error why;
    int rc = pr_call(f, "debit", input, NULL);
    if (rc != PR_OK)
        return rc;
    rc = pr_result(f, pr_activity(f, "ship", input), NULL, &why);
    if (rc == PR_FAILED) {
        rc = pr_call(f, "refund", input, NULL);
        *ret_output = pr_flow_printf(f, "paid back: %s", why.text);
        return rc;
    }
    *ret_output = PR_STR("shipped");
    return rc;
}

TEST(an_order_is_shipped_or_paid_back_or_fails_and_what_comes_later_changes_nothing) /* B100, B132, B165 */
{
    struct crowd c;
    struct pr_error error;
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "order", order);
    crowd_activity(&c, "debit", may_fail);
    crowd_activity(&c, "ship", may_fail);
    crowd_activity(&c, "refund", may_fail);
    crowd_start(&c);
    crowd_begin(&c, "order", "good", "x");
    crowd_begin(&c, "order", "unshipped", "ship");
    crowd_begin(&c, "order", "poor", "debit");
    CHECK_STR(crowd_end(&c, "good", PR_FLOW_COMPLETED), "shipped");
    CHECK_STR(crowd_end(&c, "unshipped", PR_FLOW_COMPLETED), "paid back: ship is impossible");
    CHECK_STR(crowd_events(&c, "unshipped"),
              "started, activity debit, result, activity ship, result, activity refund, result, completed");
    CHECK_STR(crowd_end(&c, "poor", PR_FLOW_FAILED), "debit is impossible");
    CHECK_STR(crowd_events(&c, "poor"), "started, activity debit, result, failed");
    CHECK_OK(pr_flow_raise(c.client, "good", "late", PR_STR("event"), &error), &error);
    stand_wait(&c.stand, "SELECT count(*) FROM turns", 0);
    CHECK_STR(crowd_events(&c, "good"), "started, activity debit, result, activity ship, result, completed");
    crowd_fini(&c);
}

/* ---- Versions ------------------------------------------------------------------------------------------- */

static int tells_version(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    *ret_output = pr_flow_version(f);
    return pr_call(f, "echo", input, NULL);
}

/* A child of the highest version, one of version 1, and the same detached, each time that somebody says so. */
static int begets(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_slice text = input;
    for (int i = 0; i < 2; i++) {
        const struct pr_child_options pinned = { .version = "1" };
        const char *id = i == 0 ? "free-0" : "free-1", *pinned_id = i == 0 ? "free-pinned-0" : "free-pinned-1";
        pr_slice a, b;
        pr_task high = pr_child(f, "kid", input), low = pr_child_with(f, "kid", input, &pinned);
        int rc = pr_detach(f, "kid", input, &(struct pr_child_options){ .id = id });
        if (rc == PR_OK)
            rc = pr_detach(f, "kid", input, &(struct pr_child_options){ .id = pinned_id, .version = "1" });
        if (rc != PR_OK || (rc = pr_result(f, high, &a, NULL)) != PR_OK || (rc = pr_result(f, low, &b, NULL)) != PR_OK)
            return rc;
        text = pr_flow_printf(f, "%.*s%.*s%.*s ", (int)text.size, text.data, (int)a.size, a.data, (int)b.size, b.data);
        if (i == 0 && (rc = pr_result(f, pr_event(f, "go"), NULL, NULL)) != PR_OK)
            return rc;
    }
    *ret_output = text;
    return PR_OK;
}

static void begets_engine(struct crowd *c, bool second)
{
    crowd_engine(c, "");
    CHECK_EQ(pr_engine_flow(c->engine, "kid", "1", tells_version, NULL), PR_OK);
    if (second)
        CHECK_EQ(pr_engine_flow(c->engine, "kid", "2", tells_version, NULL), PR_OK);
    crowd_flow(c, "begets", begets);
    crowd_activity(c, "echo", echo);
    crowd_start(c);
}

TEST(children_have_the_highest_version_that_exists_when_they_begin_or_the_one_that_is_named) /* B103, B110 */
{
    struct crowd c;
    struct pr_error error;
    crowd_init(&c);
    begets_engine(&c, false);
    crowd_begin(&c, "begets", "b-1", "");
    CHECK_STR(crowd_end(&c, "free-0", PR_FLOW_COMPLETED), "1");
    CHECK_STR(crowd_end(&c, "free-pinned-0", PR_FLOW_COMPLETED), "1");
    stand_wait(&c.stand, "SELECT count(*) FROM turns", 0); /* the others have told their parent */
    stand_wait(&c.stand, "SELECT count(*) FROM activities", 0);
    crowd_stop(&c);
    begets_engine(&c, true);
    CHECK_OK(pr_flow_raise(c.client, "b-1", "go", PR_STR(""), &error), &error);
    CHECK_STR(crowd_end(&c, "b-1", PR_FLOW_COMPLETED), "11 21 ");
    CHECK_STR(crowd_end(&c, "free-1", PR_FLOW_COMPLETED), "2");
    CHECK_STR(crowd_end(&c, "free-pinned-1", PR_FLOW_COMPLETED), "1");
    crowd_fini(&c);
}

static int goes_too_far(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    int rc = pr_call(f, "echo", input, ret_output);
    return rc != PR_OK ? rc : pr_continue_as_new(f, input, "9");
}

TEST(a_flow_that_continues_as_a_version_that_nobody_has_fails_in_the_end_and_can_be_deleted) /* B110, B133 */
{
    struct crowd c;
    struct pr_error error;
    struct pr_flow_status status;
    crowd_init(&c);
    crowd_engine(&c, "flows: {unknown: 1s}\n");
    crowd_flow(&c, "far", goes_too_far);
    crowd_activity(&c, "echo", echo);
    crowd_start(&c);
    crowd_begin(&c, "far", "f-1", "x");
    CHECK_STR(crowd_end(&c, "f-1", PR_FLOW_FAILED), "no instance knows flow far version 9");
    CHECK_EQ(pr_flow_status(c.client, "f-1", &status, &error), PR_OK);
    CHECK_SLICE(status.version, "9");
    CHECK_EQ(status.category, PR_CATEGORY_CONFIGURATION);
    pr_flow_status_free(&status);
    CHECK_EQ(pr_flow_delete(c.client, "f-1", false, &error), PR_OK);
    CHECK_EQ(pr_flow_status(c.client, "f-1", &status, &error), PR_UNKNOWN);
    crowd_fini(&c);
}

/* ---- Sessions --------------------------------------------------------------------------------------------- */

static atomic_int kinds_begun, session_calls[2], plain_calls, moved;

/* Goes on when one of each session and a plain one have begun: they do not wait for each other. */
static int side_by_side(struct pr_activity_context *context, pr_slice input, pr_slice *ret_output, void *user)
{
    const struct pr_activity_info *info = pr_activity_info(context);
    const char *session = crowd_text(info->session);
    int kind = session[0] == 'a' ? 0 : session[0] == 'b' ? 1 : 2;
    int64_t until_us = test_now_us() + WAIT_US;
    (void)user;
    moved += info->session_moved;
    if (kind < 2)
        session_calls[kind]++;
    else
        plain_calls++;
    kinds_begun |= 1 << kind;
    while (kinds_begun != 7 && test_now_us() < until_us)
        test_pause();
    *ret_output = input;
    return kinds_begun == 7 ? PR_OK : pr_activity_fail(context, PR_CATEGORY_APPLICATION, false, "alone");
}

static int mixed(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    const struct pr_activity_options a = { .session = "a" }, b = { .session = "b" };
    pr_task tasks[6];
    for (int i = 0; i < 6; i++)
        tasks[i] = pr_activity_with(f, "side", input, i % 3 == 0 ? &a : i % 3 == 1 ? &b : NULL);
    int rc = pr_all(f, 6, tasks);
    for (int i = 0; i < 6 && rc == PR_OK; i++)
        rc = pr_result(f, tasks[i], ret_output, NULL);
    if (rc != PR_OK || strcmp(crowd_text(input), "2") == 0)
        return rc;
    return pr_continue_as_new(f, PR_STR("2"), NULL);
}

TEST(sessions_run_beside_each_other_and_plain_activities_and_outlive_executions) /* B104, B114 */
{
    struct crowd c;
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "mixed", mixed);
    crowd_activity(&c, "side", side_by_side);
    kinds_begun = session_calls[0] = session_calls[1] = plain_calls = moved = 0;
    crowd_start(&c);
    crowd_begin(&c, "mixed", "m-1", "1");
    CHECK_STR(crowd_end(&c, "m-1", PR_FLOW_COMPLETED), "2");
    CHECK(session_calls[0] == 4 && session_calls[1] == 4 && plain_calls == 4);
    CHECK_EQ(moved, 0); /* it is the same session, at the same instance */
    CHECK_EQ(stand_int(&c.stand, "SELECT count(*) FROM {session}"), 2);
    crowd_fini(&c);
}

static atomic_int trail_size;
static char trail[64];

static int leaves_trail(struct pr_activity_context *context, pr_slice input, pr_slice *ret_output, void *user)
{
    const struct pr_activity_info *info = pr_activity_info(context);
    (void)user;
    trail[trail_size++] = strcmp(crowd_text(info->session), "s") == 0 ? input.data[0] : '?';
    *ret_output = input;
    bool fails = input.data[0] == 'b' || (input.data[0] == 'a' && info->attempt == 1);
    return fails ? pr_activity_fail(context, PR_CATEGORY_APPLICATION, true, "try %d", info->attempt) : PR_OK;
}

static int retries_in_session(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    const struct pr_activity_options options = {
        .session = "s", .retry = { .tries = 2, .backoff = PR_BACKOFF_FIXED, .first_us = PR_MILLISECONDS(5) }
    };
    pr_slice a, c;
    struct pr_error why;
    (void)input;
    pr_task tasks[3];
    for (int i = 0; i < 3; i++)
        tasks[i] = pr_activity_with(f, "trail", pr_flow_printf(f, "%c", 'a' + i), &options);
    int rc = pr_all(f, 3, tasks);
    if (rc != PR_OK || (rc = pr_result(f, tasks[0], &a, NULL)) != PR_OK ||
        (rc = pr_result(f, tasks[2], &c, NULL)) != PR_OK)
        return rc;
    if ((rc = pr_result(f, tasks[1], NULL, &why)) != PR_FAILED)
        return rc < 0 ? rc : pr_flow_fail(f, "it must fail");
    *ret_output = pr_flow_printf(f, "%.*s %s %.*s", (int)a.size, a.data, why.text, (int)c.size, c.data);
    return PR_OK;
}

TEST(an_activity_of_a_session_has_all_its_tries_before_the_next_one_begins) /* B106, B114 */
{
    struct crowd c;
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "retries", retries_in_session);
    crowd_activity(&c, "trail", leaves_trail);
    trail_size = 0;
    crowd_start(&c);
    crowd_begin(&c, "retries", "r-1", "");
    CHECK_STR(crowd_end(&c, "r-1", PR_FLOW_COMPLETED), "a try 2 c");
    CHECK_EQ(trail_size, 5);
    CHECK_EQ(memcmp(trail, "aabbc", 5), 0);
    crowd_fini(&c);
}

/* ---- Tries -------------------------------------------------------------------------------------------------- */

#define FAILURES 12

static int late_at_first(struct pr_activity_context *context, pr_slice input, pr_slice *ret_output, void *user)
{
    int attempt = pr_activity_info(context)->attempt;
    (void)user;
    while (attempt == 1 && !pr_activity_should_stop(context))
        test_pause();
    *ret_output = input;
    return attempt == 1 ? pr_activity_fail(context, PR_CATEGORY_APPLICATION, true, "too slow") : PR_OK;
}

static int fails_often(struct pr_activity_context *context, pr_slice input, pr_slice *ret_output, void *user)
{
    int attempt = pr_activity_info(context)->attempt;
    char *text = pr_activity_alloc(context, 16);
    (void)user;
    (void)input;
    *ret_output = PR_BYTES(text, (size_t)snprintf(text, 16, "%d", attempt));
    return attempt <= FAILURES ? pr_activity_fail(context, PR_CATEGORY_APPLICATION, true, "not yet") : PR_OK;
}

/* "late": its first try is out of time at once; "often": each try has more time than it needs; "once": no second try. */
static int limited(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    const char *how = crowd_text(input);
    struct pr_activity_options options = { .timeout_us = PR_SECONDS(30), .retry = { .tries = 2 } };
    if (strcmp(how, "late") == 0)
        options.timeout_us = 1;
    if (strcmp(how, "once") == 0)
        options = (struct pr_activity_options){ .timeout_us = PR_MILLISECONDS(1) };
    return pr_result(f, pr_activity_with(f, strcmp(how, "often") == 0 ? "often" : "late", input, &options), ret_output,
                     NULL);
}

static int tries_often(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    const struct pr_activity_options options = { .retry = { .tries = 1000 } };
    return pr_result(f, pr_activity_with(f, "often", input, &options), ret_output, NULL);
}

TEST(a_try_that_is_out_of_time_is_a_try_as_another_that_fails) /* B106 */
{
    struct crowd c;
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "limited", limited);
    crowd_activity(&c, "late", late_at_first);
    crowd_activity(&c, "often", fails_often);
    crowd_start(&c);
    crowd_begin(&c, "limited", "t-1", "late");
    crowd_begin(&c, "limited", "t-2", "often");
    crowd_begin(&c, "limited", "t-3", "once");
    CHECK_STR(crowd_end(&c, "t-1", PR_FLOW_COMPLETED), "late");
    CHECK_STR(crowd_events(&c, "t-1"), "started, activity late, result, completed");
    CHECK_STR(crowd_end(&c, "t-2", PR_FLOW_FAILED), "not yet"); /* by its tries, not by its time */
    CHECK_STR(crowd_end(&c, "t-3", PR_FLOW_FAILED), "too slow");
    crowd_fini(&c);
}

TEST(many_flows_try_again_and_again_each_for_itself) /* B106 */
{
    struct crowd c;
    char id[32];
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "often", tries_often);
    crowd_activity(&c, "often", fails_often);
    crowd_start(&c);
    for (int i = 0; i < 20; i++) {
        snprintf(id, sizeof id, "o-%d", i);
        crowd_begin(&c, "often", id, "");
    }
    for (int i = 0; i < 20; i++) {
        snprintf(id, sizeof id, "o-%d", i);
        CHECK_STR(crowd_end(&c, id, PR_FLOW_COMPLETED), "13"); /* more than the limit of poison: each had an outcome */
    }
    CHECK_EQ(stand_int(&c.stand, "SELECT count(*) FROM {dead}"), 0);
    crowd_fini(&c);
}

/* ---- Longer than a lease -------------------------------------------------------------------------------------- */

#define LEASE_US PR_SECONDS(2)

static atomic_int long_calls, long_turns;
static int64_t long_until_us;

static void take_long(void)
{
    while (test_now_us() < long_until_us)
        test_pause();
}

static int long_activity(struct pr_activity_context *context, pr_slice input, pr_slice *ret_output, void *user)
{
    (void)user;
    long_calls += pr_activity_info(context)->attempt;
    take_long();
    *ret_output = input;
    return PR_OK;
}

static int long_flow(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    if (strcmp(crowd_text(input), "turn") == 0) {
        long_turns++;
        take_long();
        *ret_output = input;
        return PR_OK;
    }
    return pr_call(f, "long", input, ret_output);
}

TEST(turns_and_activities_that_take_longer_than_the_lease_are_done_once_beside_another_instance) /* B5, B120 */
{
    struct crowd c;
    struct pr_engine *engines[2];
    char id[32];
    crowd_init(&c);
    for (int i = 0; i < 2; i++) {
        engines[i] = stand_engine(&c.stand, "lease: 2s\n");
        CHECK_EQ(pr_engine_flow(engines[i], "long", NULL, long_flow, NULL), PR_OK);
        CHECK_EQ(pr_engine_activity(engines[i], "long", long_activity, NULL), PR_OK);
    }
    long_calls = long_turns = 0;
    long_until_us = test_now_us() + 3 * LEASE_US;
    for (int i = 0; i < 2; i++)
        stand_start(engines[i]);
    for (int i = 0; i < 4; i++) {
        snprintf(id, sizeof id, "l-%d", i);
        crowd_begin(&c, "long", id, i == 0 ? "turn" : "activity");
    }
    for (int i = 0; i < 4; i++) {
        snprintf(id, sizeof id, "l-%d", i);
        CHECK_STR(crowd_end(&c, id, PR_FLOW_COMPLETED), i == 0 ? "turn" : "activity");
    }
    CHECK_EQ(long_turns, 1);
    CHECK_EQ(long_calls, 3);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pr_engine_stop(engines[i], PR_SECONDS(5)), PR_OK);
        pr_engine_free(engines[i]);
    }
    crowd_fini(&c);
}

/* ---- Values, deletion, pruning ---------------------------------------------------------------------------------- */

/* Sets its own value step by step; the parent has a child that does the same. */
static int keeps_values(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    int rc = PR_OK;
    (void)ret_output;
    for (int i = 1; i <= 5 && rc == PR_OK; i++) {
        rc = pr_state_set(f, PR_STR("n"), pr_flow_printf(f, "%.*s %d", (int)input.size, input.data, i));
        if (rc == PR_OK)
            rc = pr_call(f, "echo", input, NULL);
    }
    if (rc != PR_OK || strcmp(crowd_text(input), "parent") != 0)
        return rc;
    return pr_result(f, pr_child_with(f, "keeps", PR_STR("child"), &(struct pr_child_options){ .id = "kid" }), NULL,
                     NULL);
}

static void check_value(struct crowd *c, const char *id, const char *wanted)
{
    struct pr_error error;
    char *value = NULL;
    size_t size;
    int rc = pr_flow_value(c->client, id, PR_STR("n"), &value, &size, &error);
    CHECK_EQ(rc, wanted != NULL ? PR_OK : PR_UNKNOWN);
    if (rc == PR_OK)
        CHECK_STR(value, wanted);
    free(value);
}

TEST(values_of_parent_child_and_many_others_are_their_own_and_go_with_the_family) /* B109, B133 */
{
    struct crowd c;
    struct pr_error error;
    char id[32], wanted[64];
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "keeps", keeps_values);
    crowd_activity(&c, "echo", echo);
    crowd_start(&c);
    crowd_begin(&c, "keeps", "above", "parent");
    for (int i = 0; i < 40; i++) {
        snprintf(id, sizeof id, "v-%d", i);
        crowd_begin(&c, "keeps", id, id);
    }
    for (int i = 0; i < 40; i++) {
        snprintf(id, sizeof id, "v-%d", i);
        crowd_end(&c, id, PR_FLOW_COMPLETED);
        snprintf(wanted, sizeof wanted, "v-%d 5", i);
        check_value(&c, id, wanted);
    }
    crowd_end(&c, "above", PR_FLOW_COMPLETED);
    check_value(&c, "above", "parent 5");
    check_value(&c, "kid", "child 5");
    CHECK_EQ(pr_flow_delete(c.client, "above", false, &error), PR_OK);
    check_value(&c, "above", NULL);
    check_value(&c, "kid", NULL);
    check_value(&c, "v-7", "v-7 5");
    crowd_fini(&c);
}

struct deleter {
    struct crowd *crowd;
    int deleted, unknown;
};

#define DELETED 20

static void *delete_all(void *arg)
{
    struct deleter *d = arg;
    struct pr_flow_client *client;
    struct pr_error error;
    char id[32];
    if (pr_flow_client_open(d->crowd->stand.url, &client, &error) != PR_OK)
        return NULL;
    for (int i = 0; i < DELETED; i++) {
        snprintf(id, sizeof id, "d-%d", i);
        int rc = PR_EBUSY;
        for (int64_t until_us = test_now_us() + WAIT_US; rc == PR_EBUSY && test_now_us() < until_us; test_pause())
            rc = pr_flow_delete(client, id, true, &error); /* busy: a turn of it is being committed */
        d->deleted += rc == PR_OK;
        d->unknown += rc == PR_UNKNOWN;
    }
    pr_flow_client_close(client);
    return NULL;
}

static int rests(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    (void)pr_timer(f, PR_SECONDS(3600));
    int rc = pr_result(f, pr_event(f, "go"), ret_output, NULL);
    return rc == PR_OK ? pr_call(f, "echo", input, ret_output) : rc;
}

TEST(flows_that_two_delete_at_once_while_they_run_are_deleted_once_and_for_all) /* B133 */
{
    struct crowd c;
    struct deleter deleters[2] = { { .crowd = &c }, { .crowd = &c } };
    pthread_t threads[2];
    struct pr_error error;
    struct pr_flow_status status;
    char id[32];
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "rests", rests);
    crowd_activity(&c, "echo", echo);
    crowd_start(&c);
    for (int i = 0; i < DELETED; i++) {
        snprintf(id, sizeof id, "d-%d", i);
        crowd_begin(&c, "rests", id, "");
    }
    stand_wait(&c.stand, "SELECT count(*) FROM turns WHERE type = 'timer'", DELETED);
    for (int i = 0; i < DELETED; i++) { /* work is on its way */
        snprintf(id, sizeof id, "d-%d", i);
        CHECK_OK(pr_flow_raise(c.client, id, "go", PR_STR(""), &error), &error);
    }
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, delete_all, &deleters[i]), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_EQ(deleters[0].deleted + deleters[1].deleted, DELETED);
    CHECK_EQ(deleters[0].unknown + deleters[1].unknown, DELETED); /* the other one came too late */
    stand_wait(&c.stand, "SELECT count(*) FROM turns", 0);
    stand_wait(&c.stand, "SELECT count(*) FROM activities", 0);
    for (int i = 0; i < DELETED; i++) {
        snprintf(id, sizeof id, "d-%d", i);
        CHECK_EQ(pr_flow_status(c.client, id, &status, &error), PR_UNKNOWN);
    }
    crowd_fini(&c);
}

static int many_rounds(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    int left = atoi(crowd_text(input)), rc = pr_call(f, "echo", input, ret_output);
    return rc != PR_OK || left == 0 ? rc : pr_continue_as_new(f, pr_flow_printf(f, "%d", left - 1), NULL);
}

TEST(executions_are_pruned_while_their_flow_goes_on_and_it_does_not_mind) /* B104, B134 */
{
    struct crowd c;
    struct pr_error error;
    struct pr_flow_status status = { .state = PR_FLOW_RUNNING };
    uint64_t pruned = 0, more;
    int64_t until_us = test_now_us() + WAIT_US;
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "rounds", many_rounds);
    crowd_activity(&c, "echo", echo);
    crowd_start(&c);
    crowd_begin(&c, "rounds", "r-1", "100");
    while (status.state == PR_FLOW_RUNNING && test_now_us() < until_us) {
        CHECK_OK(pr_flow_prune(c.client, NULL, 0, 0, &more, &error), &error); /* of all flows, those that run, too */
        pruned += more;
        if (pr_flow_status(c.client, "r-1", &status, &error) == PR_OK) {
            enum pr_flow_state state = status.state;
            pr_flow_status_free(&status);
            status.state = state;
        }
    }
    CHECK_STR(crowd_end(&c, "r-1", PR_FLOW_COMPLETED), "0");
    CHECK_OK(pr_flow_prune(c.client, NULL, 0, 0, &more, &error), &error);
    CHECK_EQ(pruned + more, 100);
    CHECK_STR(crowd_events(&c, "r-1"), "started, activity echo, result, completed");
    crowd_fini(&c);
}
