/* Which version runs: the one that a start, a parent or an execution names, or the highest. */
#include "stand.h"

#include "base/slice.h"
#include "flow/activity.h"
#include "flow/registry.h"

static int nothing(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    (void)f, (void)input, (void)ret_output;
    return PR_OK;
}

static void three_versions(struct flow_registry *r)
{
    const char *const versions[] = { "2", "1", "3" };
    struct pr_error error;
    flow_registry_init(r);
    for (size_t i = 0; i < 3; i++)
        CHECK_OK(flow_registry_add(r, "kid", versions[i], nothing, NULL, &error), &error);
}

/* The version that a program which has 1, 2 and 3 runs for this message. */
static const char *version_for(struct stand *s, const struct flow_registry *r, const struct flow_row *row,
                               const struct pr_message *m)
{
    pr_slice name, version;
    if (flow_turn_code(row, &m, 1, &s->kept, &name, &version) != PR_OK)
        return "none";
    const struct flow_code *code = flow_registry_find(r, name, version);
    return code != NULL ? stand_text(code->version) : "unknown";
}

static int family(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    const struct pr_child_options pinned = { .id = "pinned", .version = "1" }, highest = { .id = "highest" },
                                  gone = { .id = "gone", .version = "9" };
    (void)ret_output;
    int rc = pr_detach(f, "kid", input, &(struct pr_child_options){ .id = "free", .version = "2" });
    if (rc == PR_OK)
        rc = pr_detach(f, "kid", input, &(struct pr_child_options){ .id = "free highest" });
    if (rc != PR_OK)
        return rc;
    pr_task tasks[3] = { pr_child_with(f, "kid", input, &pinned), pr_child_with(f, "kid", input, &highest),
                         pr_child_with(f, "kid", input, &gone) };
    return pr_all(f, 3, tasks);
}

TEST(children_and_detached_flows_run_in_the_version_that_is_named_or_the_highest) /* B103, B110 */
{
    static const char *const wanted[] = { "2", "3", "1", "3", "unknown" };
    struct stand *s = stand_new(family);
    struct flow_registry r;
    three_versions(&r);
    stand_start(s, "x");
    CHECK_EQ(s->other_count, 5);
    for (size_t i = 0; i < 5; i++)
        CHECK_STR(version_for(s, &r, NULL, &s->others[i]), wanted[i]);
    flow_registry_fini(&r);
    stand_free(s);
}

/* ---- Continue as new ------------------------------------------------------------------------------------ */

static int upgrades(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    const struct pr_activity_options options = { .session = "talk" };
    int rc = pr_result(f, pr_activity_with(f, "say", input, &options), ret_output, NULL);
    if (rc != PR_OK || slice_eq_cstr(input, "second"))
        return rc;
    return pr_continue_as_new(f, PR_STR("second"), "2");
}

TEST(an_execution_stays_on_its_version_its_input_and_its_session_when_only_results_come) /* B104, B110, B114 */
{
    struct stand *s = stand_new(upgrades);
    struct flow_registry r;
    struct activity_message a;
    struct pr_error error;
    three_versions(&r);
    s->code.name = PR_STR("kid");
    struct turn_message start = stand_named(s, TURN_START, "kid", "first");
    start.version = PR_STR("1");
    stand_queue(s, &start);
    CHECK_STR(version_for(s, &r, NULL, &s->queue[0]), "1");
    stand_run(s);
    s->activity_count = 0;
    stand_result(s, 1, "");
    CHECK_SLICE(s->row.version, "2");
    s->code.version = PR_STR("2");
    CHECK_STR(version_for(s, &r, &s->row, &s->queue[0]), "2"); /* what makes it go on */
    stand_run(s);
    CHECK_OK(activity_message_read(&s->activities[0], &s->turn, &a, &error), &error);
    CHECK_SLICE(a.session, "talk");
    CHECK_SLICE(a.input, "second");
    struct turn_message result = stand_result_of(s, 1, "done");
    stand_queue(s, &result);
    CHECK_STR(version_for(s, &r, &s->row, &s->queue[0]), "2"); /* not the highest */
    stand_run(s);
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    CHECK_SLICE(s->row.output, "done");
    flow_registry_fini(&r);
    stand_free(s);
}
