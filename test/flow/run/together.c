/* Several instances on one store at once with different abilities: rolling upgrades, tags, programs of different
 * kinds. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crowd.h"

#define FLOWS 40

static atomic_int running[FLOWS]; /* turns of each flow that are just run: one at most, wherever */

static int echo(struct pr_activity_context *context, pr_slice input, pr_slice *ret_output, void *user)
{
    (void)context;
    (void)user;
    *ret_output = input;
    return PR_OK;
}

/* Its input is its number. */
static void turn_begins(pr_slice input)
{
    int n = atoi(crowd_text(input));
    CHECK_EQ(++running[n], 1);
    test_pause();
    running[n]--;
}

static int version_1(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    turn_begins(input);
    *ret_output = PR_STR("1");
    return pr_call(f, "echo", input, NULL);
}

static int version_2(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    turn_begins(input);
    *ret_output = PR_STR("2");
    return pr_call(f, "echo", input, NULL);
}

/* Three steps of an activity, and one more of a tag, if user says so. */
struct steps {
    const char *activity, *tag;
};

static int steps(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    const struct steps *s = pr_flow_user(f);
    const struct pr_activity_options options = { .tag = s->tag };
    int rc = PR_OK;
    for (int i = 0; i < 3 && rc == PR_OK; i++)
        rc = pr_result(f, pr_activity_with(f, s->activity, input, &options), ret_output, NULL);
    return rc;
}

/* An engine beside that of the crowd. */
static struct pr_engine *other_engine(struct crowd *c)
{
    return stand_engine(&c->stand, "");
}

static void other_stop(struct pr_engine *engine)
{
    CHECK_EQ(pr_engine_stop(engine, PR_SECONDS(5)), PR_OK);
    pr_engine_free(engine);
}

static void begin(struct crowd *c, const char *name, const char *version, int n)
{
    struct pr_error error;
    char id[64], input[16];
    snprintf(id, sizeof id, "%s-%s-%d", name, version != NULL ? version : "", n);
    snprintf(input, sizeof input, "%d", n);
    const struct pr_flow_start start = { .name = name, .version = version, .id = id, .input = pr_str(input) };
    CHECK_OK(pr_flow_start(c->client, &start, NULL, &error), &error);
}

static void check_end(struct crowd *c, const char *name, const char *version, int n, const char *output)
{
    char id[64];
    snprintf(id, sizeof id, "%s-%s-%d", name, version != NULL ? version : "", n);
    CHECK_STR(crowd_end(c, id, PR_FLOW_COMPLETED), output);
}

/* The older instance has lanes (on SQLite: the box) when the newer one comes. */
static void start_after_another(struct crowd *c, struct pr_engine *newer)
{
    crowd_start(c);
    stand_wait(&c->stand, "SELECT count(*) FROM {instance} WHERE box = 'turns' AND lanes <> 0", 1);
    stand_start(newer);
    stand_wait(&c->stand, "SELECT count(*) FROM {instance} WHERE box = 'turns'", 2);
}

TEST(a_version_that_one_instance_lacks_runs_on_the_other_while_both_live) /* B110, B120 */
{
    struct crowd c;
    crowd_init(&c);
    crowd_engine(&c, "");
    CHECK_EQ(pr_engine_flow(c.engine, "f", "1", version_1, NULL), PR_OK);
    crowd_activity(&c, "echo", echo);
    struct pr_engine *newer = other_engine(&c);
    CHECK_EQ(pr_engine_flow(newer, "f", "1", version_1, NULL), PR_OK);
    CHECK_EQ(pr_engine_flow(newer, "f", "2", version_2, NULL), PR_OK);
    CHECK_EQ(pr_engine_activity(newer, "echo", echo, NULL), PR_OK);
    start_after_another(&c, newer);
    for (int i = 0; i < FLOWS; i++)
        begin(&c, "f", i % 2 == 0 ? "1" : "2", i);
    for (int i = 0; i < FLOWS; i++)
        check_end(&c, "f", i % 2 == 0 ? "1" : "2", i, i % 2 == 0 ? "1" : "2");
    other_stop(newer);
    crowd_fini(&c);
}

TEST(an_activity_or_tag_that_one_instance_lacks_is_done_by_the_other) /* B113 */
{
    static const struct steps plain = { .activity = "render" }, tagged = { .activity = "echo", .tag = "gpu" };
    struct crowd c;
    crowd_init(&c);
    crowd_engine(&c, "");
    struct pr_engine *newer = other_engine(&c);
    for (int i = 0; i < 2; i++) {
        struct pr_engine *engine = i == 0 ? c.engine : newer;
        CHECK_EQ(pr_engine_flow(engine, "plain", NULL, steps, (void *)(uintptr_t)&plain), PR_OK);
        CHECK_EQ(pr_engine_flow(engine, "tagged", NULL, steps, (void *)(uintptr_t)&tagged), PR_OK);
        CHECK_EQ(pr_engine_activity(engine, "echo", echo, NULL), PR_OK);
    }
    CHECK_EQ(pr_engine_activity(newer, "render", echo, NULL), PR_OK);
    CHECK_EQ(pr_engine_offer(newer, "gpu"), PR_OK);
    start_after_another(&c, newer);
    for (int i = 0; i < 10; i++) {
        begin(&c, "plain", NULL, i);
        begin(&c, "tagged", NULL, i);
    }
    for (int i = 0; i < 10; i++) {
        char output[16];
        snprintf(output, sizeof output, "%d", i);
        check_end(&c, "plain", NULL, i, output);
        check_end(&c, "tagged", NULL, i, output);
    }
    other_stop(newer);
    crowd_fini(&c);
}

TEST(two_programs_with_different_flows_both_go_on) /* B110 */
{
    static const struct steps first = { .activity = "one" }, second = { .activity = "two" };
    struct crowd c;
    crowd_init(&c);
    crowd_engine(&c, "");
    CHECK_EQ(pr_engine_flow(c.engine, "first", NULL, steps, (void *)(uintptr_t)&first), PR_OK);
    crowd_activity(&c, "one", echo);
    struct pr_engine *other = other_engine(&c);
    CHECK_EQ(pr_engine_flow(other, "second", NULL, steps, (void *)(uintptr_t)&second), PR_OK);
    CHECK_EQ(pr_engine_activity(other, "two", echo, NULL), PR_OK);
    start_after_another(&c, other);
    for (int i = 0; i < FLOWS; i++)
        begin(&c, i % 2 == 0 ? "first" : "second", NULL, i);
    for (int i = 0; i < FLOWS; i++) {
        char output[16];
        snprintf(output, sizeof output, "%d", i);
        check_end(&c, i % 2 == 0 ? "first" : "second", NULL, i, output);
    }
    other_stop(other);
    crowd_fini(&c);
}

/* Waits for a word, and tells its version. */
static int patient_version(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    (void)input;
    *ret_output = pr_flow_version(f);
    return pr_result(f, pr_event(f, "go"), NULL, NULL);
}

static struct pr_engine *node(struct crowd *c, bool newer)
{
    struct pr_engine *engine = other_engine(c);
    CHECK_EQ(pr_engine_flow(engine, "patient", "1", patient_version, NULL), PR_OK);
    if (newer)
        CHECK_EQ(pr_engine_flow(engine, "patient", "2", patient_version, NULL), PR_OK);
    stand_start(engine);
    return engine;
}

static void raise_go(struct crowd *c, const char *name, const char *version, int n)
{
    struct pr_error error;
    char id[64];
    snprintf(id, sizeof id, "%s-%s-%d", name, version != NULL ? version : "", n);
    CHECK_OK(pr_flow_raise(c->client, id, "go", PR_STR(""), &error), &error);
}

TEST(three_instances_are_upgraded_one_after_the_other_and_every_flow_ends_in_its_version) /* B110 */
{
    struct crowd c;
    struct pr_engine *nodes[3];
    crowd_init(&c);
    for (int i = 0; i < 3; i++)
        nodes[i] = node(&c, false);
    for (int i = 0; i < 12; i++)
        begin(&c, "patient", "1", i);
    for (int i = 0; i < 3; i++) {
        other_stop(nodes[i]);
        nodes[i] = node(&c, true);
        for (int n = 4 * i; n < 4 * i + 4; n++) { /* old ones go on, new ones begin, whoever is there */
            begin(&c, "patient", "2", n);
            raise_go(&c, "patient", "1", n);
            raise_go(&c, "patient", "2", n);
        }
    }
    for (int i = 0; i < 12; i++) {
        check_end(&c, "patient", "1", i, "1");
        check_end(&c, "patient", "2", i, "2");
    }
    for (int i = 0; i < 3; i++)
        other_stop(nodes[i]);
    crowd_fini(&c);
}

/* ---- Sessions ------------------------------------------------------------------------------------- */

#define SESSIONS 16

static struct {
    const void *by; /* the engine that did the latest activity */
    int done, moved;
    char from[64];
} sessions[SESSIONS];

static int in_session(struct pr_activity_context *context, pr_slice input, pr_slice *ret_output, void *user)
{
    const struct pr_activity_info *info = pr_activity_info(context);
    int n = atoi(crowd_text(input));
    sessions[n].by = user;
    sessions[n].moved += info->session_moved;
    if (info->session_moved)
        snprintf(sessions[n].from, sizeof sessions[n].from, "%s", crowd_text(info->session_from));
    sessions[n].done++;
    *ret_output = input;
    return PR_OK;
}

/* Two activities at once, again and again, whenever somebody says so. */
static int keeps_session(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    const struct pr_activity_options options = { .session = pr_flow_printf(f, "s-%s", crowd_text(input)).data };
    int rc = PR_OK;
    for (int i = 0; i < 3 && rc == PR_OK; i++) {
        pr_task tasks[] = { pr_activity_with(f, "in_session", input, &options),
                            pr_activity_with(f, "in_session", input, &options) };
        rc = pr_all(f, 2, tasks);
        if (rc == PR_OK && i < 2)
            rc = pr_result(f, pr_event(f, "go"), NULL, NULL);
    }
    *ret_output = input;
    return rc;
}

static void session_engine(struct pr_engine *engine)
{
    CHECK_EQ(pr_engine_flow(engine, "keeps", NULL, keeps_session, NULL), PR_OK);
    CHECK_EQ(pr_engine_activity(engine, "in_session", in_session, engine), PR_OK);
}

static void wait_sessions(int done)
{
    for (int64_t until_us = test_now_us() + PR_SECONDS(90); test_now_us() < until_us; test_pause()) {
        int least = done;
        for (int i = 0; i < SESSIONS; i++)
            least = sessions[i].done < least ? sessions[i].done : least;
        if (least == done)
            return;
    }
    check_fail(__FILE__, __LINE__, "a session has not done %d activities", done);
}

static void all_go(struct crowd *c)
{
    char id[64];
    struct pr_error error;
    for (int i = 0; i < SESSIONS; i++) {
        snprintf(id, sizeof id, "keeps--%d", i);
        CHECK_OK(pr_flow_raise(c->client, id, "go", PR_STR(""), &error), &error);
    }
}

TEST(a_session_stays_when_another_instance_joins_and_says_so_when_its_own_is_gone) /* B114 */
{
    struct crowd c;
    memset(sessions, 0, sizeof sessions);
    crowd_init(&c);
    crowd_engine(&c, "instance: older\n");
    session_engine(c.engine);
    struct pr_engine *first = c.engine, *newer = stand_engine(&c.stand, "instance: newer\n");
    session_engine(newer);
    crowd_start(&c);
    for (int i = 0; i < SESSIONS; i++)
        begin(&c, "keeps", NULL, i);
    wait_sessions(2);
    stand_start(newer);
    stand_wait(&c.stand, "SELECT count(*) FROM {instance} WHERE box = 'activities'", 2);
    if (c.stand.pg != NULL) /* others than those of sessions move */
        stand_wait(&c.stand, "SELECT count(*) FROM {instance} WHERE box = 'activities' AND lanes <> 0", 2);
    all_go(&c);
    wait_sessions(4);
    for (int i = 0; i < SESSIONS; i++)
        CHECK(sessions[i].by == first && sessions[i].moved == 0);
    crowd_stop(&c);
    all_go(&c);
    wait_sessions(6);
    for (int i = 0; i < SESSIONS; i++) {
        CHECK(sessions[i].by == newer);
        CHECK_EQ(sessions[i].moved, 1); /* the first of the two is told */
        CHECK_STR(sessions[i].from, "older");
        char output[16];
        snprintf(output, sizeof output, "%d", i);
        check_end(&c, "keeps", NULL, i, output);
    }
    CHECK_EQ(stand_int(&c.stand, "SELECT count(*) FROM {session} WHERE instance = 'newer' AND moved_from = 'older'"),
             SESSIONS);
    other_stop(newer);
    crowd_fini(&c);
}
