/* A message that comes alone is read and announced in one cycle. */
#include "stage.h"

static unsigned started, receipts;

static void watch_starts(struct world *w, struct instance *in, const struct cycle *cycle,
                         const struct cycle_reply *reply)
{
    (void)w;
    (void)in;
    started += reply->started == STARTED_ALL;
    receipts += cycle->receipt_count > 0;
}

static void start_watching(struct stage *s)
{
    stage_run(s, PR_SECONDS(1));
    started = receipts = 0;
    s->w.watch = watch_starts;
}

TEST(a_message_that_comes_alone_goes_out_with_the_cycle_that_reads_it) /* B11 */
{
    struct stage s;
    stage_set(&s);
    stage_open(&s);
    start_watching(&s);
    for (int i = 0; i < 3; i++) {
        pr_id id = world_send(&s.w, "a", "ok");
        stage_run(&s, PR_SECONDS(1));
        CHECK(stage_done(&s, id));
        CHECK_EQ(stage_send(&s, id, 1)->attempt, 1);
    }
    CHECK_EQ(started, 3);
    CHECK_EQ(receipts, 0);
    stage_close(&s);
}

/* What is out is on its receipt, so others take a receipt of their own. */
TEST(who_has_something_out_announces_what_comes_as_ever) /* B11 */
{
    struct stage s;
    stage_set(&s);
    stage_open(&s);
    start_watching(&s);
    pr_id slow = world_send(&s.w, "", "slow:5000");
    stage_run(&s, PR_SECONDS(1));
    pr_id next = world_send(&s.w, "", "ok");
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(started, 1);
    CHECK_EQ(receipts, 1);
    CHECK(stage_done(&s, next));
    stage_run(&s, PR_SECONDS(10));
    CHECK(stage_done(&s, slow));
    stage_close(&s);
}

/* Its handler takes the process down: it was announced before, so it is counted, and it is poison in the end. */
TEST(a_message_that_is_started_at_once_and_kills_its_sender_is_counted) /* B22 */
{
    struct stage s;
    stage_set(&s);
    stage_open(&s);
    start_watching(&s);
    pr_id id = world_send(&s.w, "", "crash");
    stage_run(&s, PR_SECONDS(600));
    CHECK_EQ(started, 1);
    CHECK_EQ(stage_sends(&s, id), s.scenario.endpoints[0].max_attempts);
    CHECK_EQ(stage_look(&s, id).state, STATE_DEAD);
    stage_close(&s);
}

/* It is too large, and fails without being sent; the store, which does not know that, has announced it all the same. */
TEST(what_is_not_started_is_on_no_receipt_any_more) /* B22 */
{
    struct stage s;
    stage_set(&s);
    s.scenario.endpoints[0].payload_max = 1;
    stage_open(&s);
    start_watching(&s);
    pr_id id = world_send(&s.w, "", "ok");
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(started, 1);
    CHECK_EQ(stage_sends(&s, id), 0);
    CHECK(stage_look(&s, id).state != STATE_IN_FLIGHT);
    stage_close(&s);
}

/* The rows are started by a cycle whose answer is lost: they are read again, announced anew, and sent once. */
static int lose_answers;

static int no_fault_before(struct world *w, struct instance *in, const struct cycle *cycle)
{
    (void)w;
    (void)in;
    (void)cycle;
    return 0;
}

static void lose_an_answer(struct world *w, struct instance *in, const struct cycle *cycle,
                           const struct cycle_reply *reply)
{
    watch_starts(w, in, cycle, reply);
    w->faults.commit_unknown =
        lose_answers > 0 && reply->started == STARTED_ALL ? 2 : 0; /* half of them after it landed */
    lose_answers -= w->faults.commit_unknown > 0;
}

TEST(a_lost_answer_of_a_cycle_that_started_something_costs_no_attempt) /* B7, B22 */
{
    struct stage s;
    stage_set(&s);
    stage_open(&s);
    start_watching(&s);
    lose_answers = 1;
    s.w.disturb = no_fault_before;
    s.w.watch = lose_an_answer;
    pr_id id = world_send(&s.w, "", "ok");
    stage_run(&s, PR_SECONDS(5));
    CHECK_EQ(lose_answers, 0);
    CHECK_EQ(receipts, 1);
    CHECK_EQ(stage_sends(&s, id), 1);
    CHECK_EQ(stage_send(&s, id, 1)->attempt, 1);
    CHECK(stage_done(&s, id));
    stage_close(&s);
}
