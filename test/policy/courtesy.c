/* A relay beside those who send, in virtual time. */
#include <postrider.h>

#include "check.h"
#include "policy/courtesy.h"

#define CYCLE_US 10000
#define LOOK_EVERY 9 /* cycles: the others do not look */

struct guest {
    struct courtesy courtesy;
    int64_t now_us, drawn, rested_us;
    int cycles;
};

/* A box that others send to at this rate, and cycles that end so many each, for a second. */
static void guest_work(struct guest *g, int64_t sent_a_second, int64_t ended, bool backlog)
{
    int64_t begin_us = g->now_us, drawn = g->drawn;

    for (g->rested_us = 0; g->now_us - begin_us < PR_SECONDS(1);) {
        g->now_us += CYCLE_US;
        g->drawn = drawn + sent_a_second * (g->now_us - begin_us) / PR_SECONDS(1);
        struct courtesy_cycle cycle = { .took_us = CYCLE_US, .ended = ended, .backlog = backlog };
        cycle.drawn = g->cycles++ % LOOK_EVERY == 0 ? g->drawn : 0;
        int64_t rest_us = courtesy_rest(&g->courtesy, g->now_us, &cycle);
        CHECK(rest_us >= 0);
        g->now_us += rest_us;
        g->rested_us += rest_us;
    }
}

static struct guest guest(void)
{
    return (struct guest){ .now_us = PR_SECONDS(1000), .drawn = 1000000 };
}

TEST(while_others_send_a_relay_rests_longer_than_it_works)
{
    struct guest g = guest();
    guest_work(&g, 2500, 1000, true);
    guest_work(&g, 2500, 1000, true);
    CHECK(g.rested_us >= PR_MILLISECONDS(730)); /* three quarters of a second, give or take a cycle */
    CHECK(g.rested_us <= PR_MILLISECONDS(770));
}

TEST(a_backlog_with_nobody_sending_is_drained_without_rest)
{
    struct guest g = guest();
    guest_work(&g, 0, 1000, true);
    CHECK_EQ(g.rested_us, 0);
    guest_work(&g, COURTESY_SENT_MIN / 2, 1000, true); /* and with next to nobody */
    CHECK_EQ(g.rested_us, 0);
}

TEST(rest_ends_when_others_have_stopped_to_send)
{
    struct guest g = guest();
    guest_work(&g, 2500, 1000, true);
    guest_work(&g, 0, 1000, true); /* it looks for the first time, with some from before */
    guest_work(&g, 0, 1000, true);
    CHECK_EQ(g.rested_us, 0);
}

TEST(without_a_backlog_there_is_no_rest)
{
    struct guest g = guest();
    guest_work(&g, 2500, 25, false);
    guest_work(&g, 2500, 25, false);
    CHECK_EQ(g.rested_us, 0);
}

/* 100,000 a second without rest: three quarters of the time are for those who send, then less, then nothing. */
TEST(a_backlog_shrinks_several_times_as_fast_as_others_send)
{
    static const int64_t rates[] = { 8000, 12000, 15000, 20000, 24000, 25000, 30000, 200000 };
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        struct guest g = guest();
        guest_work(&g, rates[i], 1000, true);
        int cycles = g.cycles;
        guest_work(&g, rates[i], 1000, true);
        int64_t ended = (g.cycles - cycles) * INT64_C(1000);
        CHECK(ended * 100 >= rates[i] * (COURTESY_FASTER * 100 - 20) || g.rested_us == 0); /* a cycle more or less */
        CHECK_EQ(g.rested_us > 0, rates[i] < 25000);
    }
}

TEST(no_rest_is_long_and_what_was_never_told_leads_to_none)
{
    struct courtesy c = { .share = COURTESY_SHARE_MAX };
    struct courtesy_cycle cycle = { .took_us = PR_SECONDS(10), .ended = 1000, .backlog = true };
    CHECK_EQ(courtesy_rest(&c, PR_SECONDS(1), &cycle), COURTESY_REST_MAX_US);

    c = (struct courtesy){ 0 };
    for (int i = 1; i < 100; i++) /* a store that does not tell */
        CHECK_EQ(courtesy_rest(&c, PR_SECONDS(i), &cycle), 0);
}

/* A box that was restored has drawn fewer; one that was idle for long, or grew at once, is measured anew. */
TEST(a_look_that_makes_no_sense_leads_to_no_rest)
{
    struct courtesy c = { 0 };
    struct courtesy_cycle cycle = { .took_us = CYCLE_US, .drawn = 1000000, .ended = 1000, .backlog = true };
    CHECK_EQ(courtesy_rest(&c, PR_SECONDS(1), &cycle), 0);
    cycle.drawn = 5;
    CHECK_EQ(courtesy_rest(&c, PR_SECONDS(2), &cycle), 0);
    cycle.drawn = 5000000; /* in one transaction */
    CHECK_EQ(courtesy_rest(&c, PR_SECONDS(3), &cycle), 0);
    CHECK_EQ(courtesy_rest(&c, PR_SECONDS(4), &cycle), 0); /* and nothing since */
}
