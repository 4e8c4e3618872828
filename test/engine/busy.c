/* Rows that another open transaction has locked: their verdicts are answered busy, and come again until they can be
 * stored.  Meanwhile no message may go that would have to wait for them. */
#include "stage.h"

#include "base/slice.h"
#include "store/memory/memory.h"

/* Somebody holds the rows of one message for a while. */
struct holder {
    struct world *w;
    pr_id id;
    int64_t until_us;
};

static bool holds(void *arg, uint64_t row)
{
    const struct holder *h = arg;
    uint32_t message;
    uint16_t destination;
    return h->w->mono_us < h->until_us && world_find_row(h->w, row, &message, &destination) &&
           pr_id_equal(h->w->parcels[message]->m.id, h->id);
}

static struct holder hold(struct stage *s, pr_id id, int64_t us)
{
    return (struct holder){ .w = &s->w, .id = id, .until_us = s->w.mono_us + us };
}

TEST(what_is_held_behind_a_row_that_cannot_be_held_yet_does_not_overtake_it) /* B51, B14 */
{
    struct stage s;
    stage_set(&s);
    stage_open(&s);
    pr_id ids[4] = { world_send(&s.w, "a", "fail:1") };
    for (int i = 1; i < 4; i++)
        ids[i] = world_send(&s.w, "a", "ok");
    struct holder holder = hold(&s, ids[1], PR_SECONDS(10));
    memory_hold_rows(&s.w.store, holds, &holder);
    stage_run(&s, PR_SECONDS(8)); /* the first one comes back after 2 s */
    CHECK(stage_done(&s, ids[0]));
    CHECK_EQ(stage_sends(&s, ids[2]) + stage_sends(&s, ids[3]), 0);
    stage_run(&s, PR_SECONDS(5));
    for (int i = 1; i < 4; i++)
        CHECK(stage_done(&s, ids[i]) && stage_first_us(&s, ids[i - 1]) <= stage_first_us(&s, ids[i]));
    memory_hold_rows(&s.w.store, NULL, NULL);
    stage_close(&s);
}

TEST(a_part_does_not_overtake_one_whose_message_cannot_be_divided_yet) /* B17, B51, B14 */
{
    struct stage s;
    stage_set(&s);
    stage_endpoint(&s, ORDERING_FIFO);
    s.scenario.routes[0].to_count = 2;
    s.scenario.route_to[0][0] = 0;
    s.scenario.route_to[0][1] = 1;
    stage_open(&s);
    stage_run(&s, PR_SECONDS(1));
    world_pause(&s.w, 0, world_wall_us(&s.w) + PR_MINUTES(5)); /* its parts wait in the store */
    for (int i = 0; i < 100; i++) /* more than are kept in memory for an endpoint that is paused */
        world_send_to(&s.w, "e0", NULL, "ok");
    stage_run(&s, PR_SECONDS(1));
    pr_id first = world_send(&s.w, "a", "ok"), second = world_send(&s.w, "a", "ok");
    struct holder holder = hold(&s, first, PR_SECONDS(10));
    memory_hold_rows(&s.w.store, holds, &holder);
    stage_run(&s, PR_SECONDS(2));
    world_resume(&s.w, 0);
    stage_run(&s, PR_SECONDS(6));
    CHECK_EQ(stage_sends(&s, first) + stage_sends(&s, second), 0);
    stage_run(&s, PR_SECONDS(5));
    CHECK_EQ(stage_sends(&s, first), 2);
    CHECK_EQ(stage_sends(&s, second), 2);
    for (unsigned n = 1; n <= 2; n++)
        CHECK(stage_send(&s, first, n)->at_us <= stage_send(&s, second, n)->at_us);
    memory_hold_rows(&s.w.store, NULL, NULL);
    stage_close(&s);
}

/* Its failure could not be stored yet when the breaker opens, which takes it back: then it is on no receipt any more, and whoever
 * takes over counts nothing. */
TEST(what_a_breaker_takes_back_while_its_row_is_held_is_not_counted_when_its_instance_dies) /* B14, B72 */
{
    struct stage s;
    stage_set(&s);
    s.scenario.endpoints[0].breaker =
        (struct breaker_setting){ .enabled = true, .after = 2, .open_us = PR_MINUTES(5), .cap_us = PR_MINUTES(5) };
    stage_open(&s);
    stage_run(&s, PR_SECONDS(1));
    pr_id slow = world_send(&s.w, "", "slow:18000"), failed = world_send(&s.w, "", "down:9");
    struct holder holder = hold(&s, failed, PR_SECONDS(3));
    memory_hold_rows(&s.w.store, holds, &holder);
    stage_run(&s, PR_SECONDS(1));
    world_send(&s.w, "", "down:9");
    stage_run(&s, PR_SECONDS(4));
    CHECK_EQ(stage_sends(&s, failed), 1);
    memory_hold_rows(&s.w.store, NULL, NULL);
    instance_crash(&s.w, &s.w.instances[0]);
    stage_run(&s, PR_SECONDS(20));
    CHECK_EQ(stage_send(&s, slow, 2)->attempt, 2);
    CHECK_EQ(stage_look(&s, failed).m.attempts, 0);
    stage_close(&s);
}
