/* Effects that the database refuses for good, as with a CHECK or a trigger of the application. */
#include "stage.h"

#include "base/slice.h"

static bool is_bad(const struct effect *e)
{
    return e->kind == EFFECT_MESSAGE && slice_starts_with(e->message->payload, PR_STR("bad"));
}

static int refuse_bad(struct world *w, struct instance *in, const struct cycle *cycle)
{
    (void)w, (void)in;
    for (size_t i = 0; i < cycle->effect_count; i++)
        if (is_bad(&cycle->effects[i]))
            return PR_EINVAL;
    return PR_OK;
}

static void stage_set_local(struct stage *s, enum ordering ordering)
{
    stage_set(s);
    s->scenario.endpoints[0].into_box = PR_STR("inbox");
    s->scenario.endpoints[0].ordering = ordering;
    s->scenario.endpoints[0].policy.retry =
        (struct retry_setting){ .base_us = PR_SECONDS(1), .factor = 1, .cap_us = PR_SECONDS(1), .failures = 2 };
    stage_open(s);
    s->w.disturb = refuse_bad;
}

static uint64_t rows_in(struct stage *s, const char *box)
{
    struct query query = { .kind = QUERY_MESSAGES, .filter = { .box = pr_str(box), .state = -1, .limit = 1000 } };
    struct query_reply reply;
    struct arena arena;
    arena_init(&arena, 4096);
    CHECK_EQ(store_query(&s->w.store, &query, &arena, &reply, NULL), PR_OK);
    uint64_t total = reply.listed_count;
    arena_fini(&arena);
    return total;
}

TEST(what_another_box_refuses_is_a_dead_letter_and_holds_up_nobody) /* B93 */
{
    enum { COUNT = 60 };
    struct stage s;
    pr_id ids[COUNT];
    stage_set_local(&s, ORDERING_FIFO);
    for (int i = 0; i < COUNT; i++)
        ids[i] = world_send(&s.w, "", i % 20 == 7 ? "bad" : "ok");
    stage_run(&s, PR_SECONDS(1)); /* those that are good do not wait for the retries of those that are not */
    CHECK_EQ(rows_in(&s, "inbox"), COUNT - 3);
    stage_run(&s, PR_SECONDS(60));
    CHECK_EQ(rows_in(&s, "outbox"), 0);
    for (int i = 7; i < COUNT; i += 20) {
        struct listed letter = stage_look(&s, ids[i]);
        CHECK_EQ(letter.state, STATE_DEAD);
        CHECK_SLICE(letter.m.code, "effect_refused");
        CHECK_SLICE(letter.m.error, "the table refuses it");
        CHECK_EQ(letter.m.failures, 2);
    }
    stage_close(&s);
}

TEST(a_stream_waits_behind_what_another_box_refuses_until_it_is_dead) /* B2, B93 */
{
    struct stage s;
    stage_set_local(&s, ORDERING_FIFO);
    world_send(&s.w, "a", "ok");
    pr_id bad = world_send(&s.w, "a", "bad");
    pr_id behind = world_send(&s.w, "a", "ok");
    world_send(&s.w, "b", "ok");
    stage_run(&s, PR_MILLISECONDS(500));
    CHECK_EQ(rows_in(&s, "inbox"), 2);
    CHECK(stage_look(&s, behind).state != STATE_GONE);
    stage_run(&s, PR_SECONDS(30));
    CHECK_EQ(stage_look(&s, bad).state, STATE_DEAD);
    CHECK_EQ(rows_in(&s, "inbox"), 3);
    stage_close(&s);
}

/* Nothing of it can be left out: it is asked again, as after any other fault. */
static int refuse_all(struct world *w, struct instance *in, const struct cycle *cycle)
{
    int *left = w->user;
    (void)in;
    return cycle->verdict_count + cycle->receipt_count > 0 && --*left >= 0 ? PR_EINVAL : PR_OK;
}

TEST(a_cycle_that_is_refused_without_effects_is_asked_again)
{
    struct stage s;
    int left = 3;
    stage_set(&s);
    stage_open(&s);
    pr_id id = world_send(&s.w, "a", "ok");
    s.w.judge = NULL;
    s.w.user = &left;
    s.w.disturb = refuse_all;
    world_run_for(&s.w, PR_SECONDS(10));
    CHECK(left < 0);
    CHECK_EQ(world_deliveries(&s.w, id), 1);
    s.w.user = &s;
    stage_close(&s);
}
