/* A store that lost commits, by a failover or a crash: lost rows are not sent any more, and the rows that replace them
 * are. */
#include "stage.h"

#include "store/memory/memory.h"

#define AHEAD 200

static void send_many(struct stage *s, pr_id *ret)
{
    for (unsigned i = 0; i < AHEAD; i++)
        ret[i] = world_send(&s->w, STREAM(i % 50), "ok");
}

TEST(what_was_read_ahead_and_is_gone_is_not_sent_and_what_takes_its_places_is) /* B28 */
{
    struct stage s;
    pr_id gone[AHEAD], there[AHEAD];

    stage_set(&s);
    stage_open(&s);
    world_pause(&s.w, 0, PR_NEVER);
    stage_run(&s, PR_SECONDS(1));
    send_many(&s, gone);
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(memory_lose(&s.w.store, true, NULL, NULL), AHEAD);
    send_many(&s, there);
    CHECK_EQ(stage_look(&s, there[0]).row, 1);
    world_resume(&s.w, 0);
    stage_run(&s, PR_SECONDS(60));
    for (unsigned i = 0; i < AHEAD; i++) {
        CHECK_EQ(stage_sends(&s, gone[i]), 0);
        CHECK_EQ(stage_sends(&s, there[i]), 1);
        CHECK(stage_done(&s, there[i]));
    }
    stage_close(&s);
}

/* The place of one that is out is drawn again: the new row is known by its id. */
TEST(a_row_that_takes_the_place_of_one_that_is_out_is_delivered) /* B28 */
{
    struct stage s;

    stage_set(&s);
    stage_open(&s);
    stage_run(&s, PR_SECONDS(1));
    pr_id gone = world_send(&s.w, "", "slow:8000");
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(stage_sends(&s, gone), 1);
    CHECK_EQ(memory_lose(&s.w.store, true, NULL, NULL), 1);
    pr_id there = world_send(&s.w, "", "ok");
    CHECK_EQ(stage_look(&s, there).row, 1);
    stage_run(&s, PR_SECONDS(30));
    CHECK_EQ(stage_sends(&s, gone), 1);
    CHECK_EQ(stage_sends(&s, there), 1);
    CHECK(stage_done(&s, there));
    stage_close(&s);
}

/* What is out and still there is announced again, since its receipt may be lost: whoever takes over counts it. */
TEST(what_is_out_when_commits_were_lost_is_counted_when_its_instance_dies) /* B22, B28 */
{
    struct stage s;

    stage_set(&s);
    stage_open(&s);
    stage_run(&s, PR_SECONDS(1));
    pr_id out = world_send(&s.w, "", "slow:8000");
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(memory_lose(&s.w.store, false, NULL, NULL), 0);
    stage_run(&s, PR_SECONDS(6));
    instance_crash(&s.w, &s.w.instances[0]);
    stage_run(&s, PR_SECONDS(60));
    CHECK_EQ(stage_sends(&s, out), 2);
    CHECK_EQ(stage_send(&s, out, 2)->attempt, 2);
    stage_close(&s);
}

static pr_id plant(struct stage *s, int64_t due_us)
{
    struct parcel *p = world_parcel(&s->w);
    p->m.type = scenario_type(0);
    p->m.payload = PR_STR("ok");
    p->m.due_us = due_us;
    parcel_seal(&s->w, p);
    CHECK_EQ(memory_plant(&s->w.store, s->scenario.engine.box, &p->m, NULL), PR_OK);
    return p->m.id;
}

/* A row that a person repaired, or that somebody put there past all triggers: with the lease, at the latest.  So is one whose time
 * lies before that of a row which was read already. */
TEST(what_nobody_announces_is_found_when_the_lease_is_renewed) /* B19 */
{
    struct stage s;

    stage_set(&s);
    stage_open(&s);
    stage_run(&s, PR_SECONDS(1));
    pr_id later = plant(&s, world_wall_us(&s.w) + PR_SECONDS(30));
    stage_run(&s, PR_SECONDS(60));
    CHECK_EQ(stage_sends(&s, later), 1);
    pr_id fresh = plant(&s, 0), due = plant(&s, world_wall_us(&s.w) - PR_SECONDS(50));
    stage_run(&s, s.scenario.engine.lease_us);
    CHECK_EQ(stage_sends(&s, fresh), 1);
    CHECK_EQ(stage_sends(&s, due), 1);
    stage_close(&s);
}

TEST(a_row_that_is_repaired_while_it_waits_in_memory_goes_as_it_is_now) /* B19 */
{
    struct stage s;

    stage_set(&s);
    stage_open(&s);
    stage_run(&s, PR_SECONDS(1));
    world_pause(&s.w, 0, PR_NEVER);
    stage_run(&s, PR_SECONDS(1));
    pr_id id = world_send(&s.w, "", "fail");
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(memory_repair(&s.w.store, s.scenario.engine.box, id, PR_STR(""), PR_STR("ok")), PR_OK);
    world_resume(&s.w, 0);
    stage_run(&s, PR_SECONDS(60));
    CHECK_EQ(stage_sends(&s, id), 1);
    CHECK(stage_done(&s, id));
    stage_close(&s);
}

/* The attempt under way is left alone; the next one sends what the row says by then. */
TEST(a_row_that_is_repaired_while_it_is_out_is_tried_again_as_it_is_now) /* B19 */
{
    struct stage s;

    stage_set(&s);
    stage_open(&s);
    stage_run(&s, PR_SECONDS(1));
    pr_id id = world_send(&s.w, "", "late:3000");
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(stage_sends(&s, id), 1);
    CHECK_EQ(memory_repair(&s.w.store, s.scenario.engine.box, id, PR_STR(""), PR_STR("ok")), PR_OK);
    stage_run(&s, PR_SECONDS(120));
    CHECK_EQ(stage_sends(&s, id), 2);
    CHECK(stage_done(&s, id));
    stage_close(&s);
}
