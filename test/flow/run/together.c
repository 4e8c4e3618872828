/* Several instances on one store at once that cannot all do the same: rolling upgrades, tags, programs of different kinds. */
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
