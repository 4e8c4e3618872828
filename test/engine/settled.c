/* Receivers that complete messages in their own transactions, seen by the engine: the row disappears without a
 * notice. */
#include "stage.h"

#include "base/slice.h"
#include "core/completion.h"
#include "store/memory/memory.h"

/* The handler of "done" completes it, and says that it failed. */
static void complete_and_fail(struct world *w, const struct delivery *d, unsigned endpoint, struct fate *f)
{
    const struct completion c = { .box = w->scenario->engine.box,
                                  .endpoint = w->scenario->endpoints[endpoint].name,
                                  .row = d->row,
                                  .id = d->message->id,
                                  .number = d->attempt };
    f->answer_us = PR_MILLISECONDS(1);
    if (!slice_eq_cstr(d->message->payload, "done"))
        return;
    CHECK_EQ(memory_complete(&w->store, &c), PR_OK);
    *f = (struct fate){ .outcome = SEND_FAILED, .reason = PR_REASON_HANDLER_EXCEPTION, .answer_us = 1000 };
}

/* The cycle with the failure lands, and its answer is lost: what is asked again tells nothing of single verdicts. */
static void lose_the_answer(struct world *w, struct instance *in, const struct cycle *cycle,
                            const struct cycle_reply *reply)
{
    bool *lost = w->user;
    (void)in;
    w->faults.commit_unknown = !reply->replayed && cycle->verdict_count > 0 && !*lost ? 2 : 0;
    *lost = *lost || w->faults.commit_unknown > 0;
}

static int no_fault_before(struct world *w, struct instance *in, const struct cycle *cycle)
{
    (void)w, (void)in, (void)cycle;
    return PR_OK;
}

TEST(a_stream_goes_on_behind_a_head_that_its_handler_completed_though_the_answer_to_its_failure_was_lost) /* B52, B93 */
{
    static const enum ordering orderings[] = { ORDERING_STRICT, ORDERING_FIFO };
    for (size_t i = 0; i < 2; i++) {
        struct stage s;
        bool lost = false;
        stage_set(&s);
        s.scenario.endpoints[0].ordering = orderings[i];
        stage_open(&s);
        s.w.judge = complete_and_fail;
        s.w.watch = lose_the_answer;
        s.w.disturb = no_fault_before;
        s.w.user = &lost;
        pr_id first = world_send(&s.w, "a", "done");
        world_run_for(&s.w, PR_MILLISECONDS(500));
        CHECK(lost);
        pr_id second = world_send(&s.w, "a", "ok");
        world_run_for(&s.w, PR_SECONDS(5)); /* nobody comes and reads the lane anew */
        CHECK_EQ(world_state(&s.w, first, PR_STR("")), STATE_GONE);
        CHECK_EQ(world_deliveries(&s.w, second), 1);
        s.w.user = &s;
        stage_close(&s);
    }
}

/* It says that it has completed it, and has not. */
static void only_say_so(struct world *w, const struct delivery *d, unsigned endpoint, struct fate *f)
{
    (void)w, (void)d, (void)endpoint;
    *f = (struct fate){ .outcome = SEND_SETTLED, .answer_us = PR_MILLISECONDS(100) };
}

TEST(an_engine_that_stops_stores_the_failure_of_a_handler_that_only_said_that_it_had_completed_it) /* B14 */
{
    struct stage s;
    stage_set(&s);
    stage_open(&s);
    s.w.judge = only_say_so;
    pr_id id = world_send(&s.w, "a", "x");
    world_run_for(&s.w, PR_MILLISECONDS(50));
    stage_stop(&s); /* the store is asked by the last verdict, and its answer is that it failed */
    struct listed row = stage_look(&s, id);
    CHECK_EQ(row.m.attempts, 1);
    CHECK_EQ(row.m.failures, 1);
    CHECK_EQ(row.m.reason, PR_REASON_HANDLER_EXCEPTION);
    stage_close(&s);
}
