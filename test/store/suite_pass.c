/* What instances offer, and lanes that are passed to one of them. */
#include "suite.h"

/* The lanes that are passed in these sentences: one, or all where they change hands together. */
static uint64_t lanes_to_pass(const struct worker *w)
{
    return w->reply->lanes_together ? w->lanes : w->lanes & (~w->lanes + 1);
}

static const struct cycle_reply *pass(struct worker *w, uint64_t lanes, const struct worker *to)
{
    int64_t epochs[LANE_COUNT] = { 0 };
    for (unsigned i = 0; i < LANE_COUNT; i++)
        epochs[i] = (lanes & lane_bit(i)) != 0 ? to->epoch : 0;
    return CYCLE(w, .lanes_give = lanes, .lanes_to = epochs);
}

/* Three of them with their shares; on a store where one works the box that is the first. */
static void join_three(struct suite *s, struct worker *ret[3])
{
    for (size_t i = 0; i < 3; i++)
        ret[i] = suite_join(s, "activities");
    if (!ret[0]->reply->lanes_together)
        suite_settle_lanes(s);
}

STORE_TEST(instances_are_told_of_each_other_and_what_they_offer) /* B110 */
{
    struct worker *a = suite_worker(s, "turns"), *b = suite_worker(s, "turns"), *other = suite_worker(s, "outbox");
    CYCLE(a, .offer = PR_STR("flow\tf\t1\n"), .peers = true);
    CHECK_EQ(a->reply->peer_count, 0);
    CYCLE(b, .offer = PR_STR("flow\tf\t1\nflow\tf\t2\n"), .peers = true);
    CYCLE(other, .offer = PR_STR("nothing of theirs"));
    CHECK_EQ(b->reply->peer_count, 1);
    CHECK_EQ(b->reply->peers[0].epoch, a->epoch);
    CHECK_SLICE(b->reply->peers[0].offer, "flow\tf\t1\n");
    for (int i = 0; i < 3; i++) { /* also when it is asked again */
        CYCLE(a, .peers = true);
        CHECK_EQ(a->reply->peer_count, 1);
        CHECK_EQ(a->reply->peers[0].epoch, b->epoch);
        CHECK_SLICE(a->reply->peers[0].offer, "flow\tf\t1\nflow\tf\t2\n");
        CHECK(CYCLE(a)->peers == NULL); /* nobody asked */
    }
    struct worker *c = suite_join(s, "turns"); /* it offers nothing */
    CYCLE(a, .peers = true);
    CHECK_EQ(a->reply->peer_count, 2);
    CHECK_EQ(a->reply->peers[1].epoch, c->epoch);
    CHECK_SLICE(a->reply->peers[1].offer, "");
    CYCLE(b, .leave = true);
    CYCLE(a, .peers = true);
    CHECK_EQ(a->reply->peer_count, 1);
    CHECK_EQ(a->reply->peers[0].epoch, c->epoch);
}

STORE_TEST(a_lane_that_is_passed_is_taken_by_that_instance_alone_whatever_its_share) /* B110, T4 */
{
    struct worker *w[3];
    join_three(s, w);
    uint64_t lanes = lanes_to_pass(w[0]), of_c = w[2]->lanes;
    CHECK_EQ(pass(w[0], lanes, w[2])->lanes_owned & lanes, 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(CYCLE(w[0], .force_write = true)->lanes_owned & lanes, 0);
        CHECK_EQ(CYCLE(w[1], .force_write = true)->lanes_owned & lanes, 0);
    }
    CHECK_EQ(suite_join(s, "activities")->lanes & lanes, 0); /* nor by somebody new */
    CHECK_EQ(CYCLE(w[2])->lanes_owned & (of_c | lanes), of_c | lanes);
}

STORE_TEST(what_was_passed_once_is_anybodys_when_it_is_given_again) /* T4 */
{
    struct worker *w[3];
    join_three(s, w);
    uint64_t lanes = lanes_to_pass(w[0]);
    pass(w[0], lanes, w[2]);
    CHECK_EQ(CYCLE(w[2])->lanes_owned & lanes, lanes);
    CHECK_EQ(CYCLE(w[2], .lanes_give = lanes)->lanes_owned & lanes, 0);
    CHECK_EQ(CYCLE(w[0], .force_write = true)->lanes_owned & lanes,
             lanes); /* it has one too few, or is the first to look */
}

STORE_TEST(what_was_passed_to_one_that_is_gone_is_anybodys) /* B22, T4 */
{
    struct worker *w[3];
    join_three(s, w);
    uint64_t lanes = lanes_to_pass(w[0]);
    pass(w[0], lanes, w[2]);
    CYCLE(w[2], .leave = true);
    CYCLE(w[1], .force_write = true);
    CYCLE(w[0], .force_write = true);
    CHECK_EQ((w[0]->lanes | w[1]->lanes) & lanes, lanes);

    uint64_t again = lanes_to_pass(w[0]->lanes != 0 ? w[0] : w[1]);
    struct worker *giver = w[0]->lanes != 0 ? w[0] : w[1], *taker = w[0]->lanes != 0 ? w[1] : w[0];
    pass(giver, again, taker);
    worker_vanish(taker); /* without a word */
    CHECK_EQ(CYCLE(giver, .force_write = true)->lanes_owned & again, 0);
    suite_advance(s, SUITE_LEASE_US + PR_MILLISECONDS(1));
    CYCLE(giver, .force_write = true);
    CHECK_EQ(CYCLE(giver, .force_write = true)->lanes_owned & again, again);
}

STORE_TEST(a_pass_that_is_asked_again_passes_nothing_more) /* T2 */
{
    struct worker *w[3];
    join_three(s, w);
    uint64_t lanes = lanes_to_pass(w[0]);
    struct worker before = *w[0];
    pass(w[0], lanes, w[2]);
    CHECK_EQ(CYCLE(w[2])->lanes_owned & lanes, lanes);
    w[0]->number = before.number;
    CHECK(pass(w[0], lanes, w[1])->replayed);
    CHECK_EQ(CYCLE(w[2], .lanes_give = lanes)->lanes_owned & lanes, 0);
    CHECK_EQ(CYCLE(w[0], .force_write = true)->lanes_owned & lanes, lanes); /* it is not the second one's */
}

STORE_TEST(lanes_of_others_cannot_be_passed) /* T4 */
{
    struct worker *w[3];
    join_three(s, w);
    uint64_t of_a = w[0]->lanes;
    pass(w[1], of_a, w[2]);
    CHECK_EQ(CYCLE(w[2], .force_write = true)->lanes_owned & of_a, 0);
    CHECK_EQ(CYCLE(w[0])->lanes_owned, of_a);
}

STORE_TEST(lanes_that_are_kept_are_not_asked_for) /* B114 */
{
    suite_needs(s, STORE_CAN_SHARE_LANES);
    struct worker *a = suite_join(s, "activities");
    suite_join(s, "activities");
    CHECK_EQ(CYCLE(a, .lanes_keep = LANES_ALL)->lanes_asked, 0);
    uint64_t kept = LANES_ALL << 3; /* the highest would go first */
    CHECK_EQ(CYCLE(a, .lanes_keep = kept)->lanes_asked, ~kept);
    CHECK_EQ(CYCLE(a, .lanes_keep = LANES_ALL << 60)->lanes_asked, LANES_ALL << 28 & ~(LANES_ALL << 60));
}

STORE_TEST(a_session_tells_who_did_it_before) /* B114 */
{
    struct session_info info;
    pr_slice from = { NULL, 0 };
    suite_needs_database(s);
    CHECK_EQ(store_session_look(&s->store, PR_STR("s"), &s->arena, &info, &s->error), PR_UNKNOWN);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(store_session_hold(&s->store, PR_STR("s"), PR_STR("1"), PR_STR("a"), &s->arena, &from, &s->error),
                 &s->error);
        CHECK(from.data == NULL); /* nobody, or the same one */
    }
    CHECK_OK(store_session_hold(&s->store, PR_STR("other"), PR_STR("2"), PR_STR("b"), &s->arena, &from, &s->error),
             &s->error);
    CHECK(from.data == NULL);
    suite_advance(s, PR_SECONDS(5));
    CHECK_OK(store_session_hold(&s->store, PR_STR("s"), PR_STR("2"), PR_STR("b"), &s->arena, &from, &s->error),
             &s->error);
    CHECK_SLICE(from, "a");
    CHECK_OK(store_session_hold(&s->store, PR_STR("s"), PR_STR("2"), PR_STR("b"), &s->arena, &from, &s->error),
             &s->error);
    CHECK(from.data == NULL);
    CHECK_OK(store_session_look(&s->store, PR_STR("s"), &s->arena, &info, &s->error), &s->error);
    CHECK_SLICE(info.instance, "b");
    CHECK_SLICE(info.holder, "2");
    CHECK_SLICE(info.moved_from, "a");
    CHECK_OK(store_session_hold(&s->store, PR_STR("s"), PR_STR("3"), PR_STR("b"), &s->arena, &from, &s->error),
             &s->error);
    CHECK_SLICE(from, "b"); /* the same instance after a restart: what it kept is gone */
}

/* By an activity of that session which is begun at a; who had it before that. */
static pr_slice hold_session(struct suite *s, const char *session)
{
    pr_slice from;
    CHECK_OK(store_session_hold(&s->store, slice_from(session), PR_STR("1"), PR_STR("a"), &s->arena, &from, &s->error),
             &s->error);
    return from;
}

STORE_TEST(a_session_that_nobody_uses_for_a_week_is_forgotten) /* B114 */
{
    struct session_info info;
    suite_needs_database(s);
    hold_session(s, "old");
    hold_session(s, "used");
    suite_advance(s, PR_SECONDS(86400) * 4);
    hold_session(s, "used"); /* who does its activities says so once a day */
    suite_advance(s, PR_SECONDS(86400) * 3 + PR_SECONDS(1));
    hold_session(s, "new");
    CHECK_EQ(store_session_look(&s->store, PR_STR("old"), &s->arena, &info, &s->error), PR_UNKNOWN);
    CHECK_EQ(store_session_look(&s->store, PR_STR("used"), &s->arena, &info, &s->error), PR_OK);
    CHECK_EQ(store_session_look(&s->store, PR_STR("new"), &s->arena, &info, &s->error), PR_OK);
    CHECK(hold_session(s, "old").data == NULL); /* it begins anew */
    CHECK_EQ(store_session_look(&s->store, PR_STR("old"), &s->arena, &info, &s->error), PR_OK);
}
