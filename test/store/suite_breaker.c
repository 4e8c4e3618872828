/* A cycle's reports of an instance's breakers, and of an endpoint's latest failure. */
#include "suite.h"

#define OPEN(name, of_type)                                                                                            \
    ((struct breaker_change){ .endpoint = PR_STR(name),                                                                \
                              .type = PR_STR(of_type),                                                                 \
                              .open = true,                                                                            \
                              .age_us = PR_SECONDS(2),                                                                 \
                              .for_us = PR_SECONDS(5),                                                                 \
                              .probes = 1,                                                                             \
                              .reason = PR_REASON_TRANSPORT_UNAVAILABLE,                                               \
                              .code = PR_STR("503"),                                                                   \
                              .error = PR_STR("not now") })
#define CLOSED(name, of_type) ((struct breaker_change){ .endpoint = PR_STR(name), .type = PR_STR(of_type) })

#define TELL(w, change) CYCLE((w), .breakers = &(change), .breaker_count = 1)

static const struct query_reply *look(struct suite *s)
{
    return suite_query(s, QUERY_ENDPOINTS, FILTER());
}

STORE_TEST(an_open_breaker_is_told_to_people_with_all_that_is_known_of_it) /* B73, B200, T9 */
{
    struct worker *w = suite_join(s, "outbox");
    struct breaker_change c = OPEN("e", "");

    CHECK_EQ(look(s)->breaker_count, 0);
    TELL(w, c);
    const struct query_reply *r = look(s);
    CHECK_EQ(r->breaker_count, 1);
    const struct breaker_info *b = &r->breakers[0];
    CHECK_SLICE(b->endpoint, "e");
    CHECK_SLICE(b->type, "");
    CHECK_SLICE(b->box, "outbox");
    CHECK_SLICE(b->instance, w->name);
    CHECK(pr_id_equal(b->instance_id, w->id));
    CHECK_EQ(b->lanes, w->lanes);
    CHECK_EQ(b->since_us, s->wall_us - PR_SECONDS(2));
    CHECK_EQ(b->until_us, s->wall_us + PR_SECONDS(5));
    CHECK_EQ(b->probes, 1);
    CHECK_EQ(b->reason, PR_REASON_TRANSPORT_UNAVAILABLE);
    CHECK_SLICE(b->code, "503");
    CHECK_SLICE(b->error, "not now");
}

STORE_TEST(breakers_are_told_with_messages_too) /* B200 */
{
    struct worker *w = suite_join(s, "outbox");
    struct breaker_change c = OPEN("e", "");
    pr_id id = SEND(s, "outbox", .destination = PR_STR("e"));

    TELL(w, c);
    CHECK_EQ(suite_query(s, QUERY_MESSAGES, FILTER(.box = PR_STR("outbox")))->breaker_count, 1);
    const struct query_reply *r = suite_query(s, QUERY_ID, FILTER(.ids = &id, .id_count = 1));
    CHECK_EQ(r->breaker_count, 1);
    CHECK(r->breakers[0].lanes & lane_bit(r->listed[0].lane));
    CHECK_EQ(r->listed[0].state, STATE_READY);
}

STORE_TEST(a_breaker_that_opens_again_is_one_and_one_that_closes_is_none) /* B73 */
{
    struct worker *w = suite_join(s, "outbox");
    struct breaker_change c = OPEN("e", "");

    TELL(w, c);
    suite_advance(s, PR_SECONDS(5));
    c.age_us = PR_SECONDS(7);
    c.for_us = PR_NEVER;
    c.probes = 2;
    c.code = c.error = (pr_slice){ NULL, 0 };
    TELL(w, c);
    const struct query_reply *r = look(s);
    CHECK_EQ(r->breaker_count, 1);
    CHECK_EQ(r->breakers[0].since_us, s->wall_us - PR_SECONDS(7));
    CHECK_EQ(r->breakers[0].until_us, PR_NEVER);
    CHECK_EQ(r->breakers[0].probes, 2);
    CHECK_SLICE(r->breakers[0].error, "");
    c = CLOSED("e", "");
    TELL(w, c);
    CHECK_EQ(look(s)->breaker_count, 0);
    TELL(w, c); /* and once more: nothing */
    CHECK_EQ(look(s)->breaker_count, 0);
}

STORE_TEST(breakers_of_types_and_of_other_boxes_are_apart) /* B73 */
{
    struct worker *w = suite_join(s, "outbox"), *other = suite_join(s, "ledger");
    struct breaker_change many[] = { OPEN("f", ""), OPEN("e", "b"), OPEN("e", "a") };
    struct breaker_change e = OPEN("e", "a"), end = CLOSED("e", "a");

    CYCLE(w, .breakers = many, .breaker_count = 3);
    TELL(other, e);
    const struct query_reply *r = look(s);
    CHECK_EQ(r->breaker_count, 4);
    CHECK_SLICE(r->breakers[0].type, "a");
    CHECK_SLICE(r->breakers[0].box, "ledger");
    CHECK_SLICE(r->breakers[1].box, "outbox");
    CHECK_SLICE(r->breakers[2].type, "b");
    CHECK_SLICE(r->breakers[3].endpoint, "f");
    TELL(w, end);
    r = look(s);
    CHECK_EQ(r->breaker_count, 3);
    CHECK_SLICE(r->breakers[0].box, "ledger");
}

STORE_TEST(a_cycle_with_breakers_that_is_sent_again_changes_nothing) /* B7, T2 */
{
    struct worker *w = suite_join(s, "outbox");
    struct breaker_change c = OPEN("e", ""), end = CLOSED("e", "");
    int64_t until = s->wall_us + PR_SECONDS(5);

    TELL(w, c);
    suite_advance(s, PR_SECONDS(1));
    w->number--;
    CHECK(TELL(w, c)->replayed);
    CHECK_EQ(look(s)->breakers[0].until_us, until);
    TELL(w, end);
    w->number--;
    CHECK(TELL(w, c)->replayed); /* an old word after a new one */
    CHECK_EQ(look(s)->breaker_count, 0);
}

STORE_TEST(the_breakers_of_an_instance_that_leaves_go_with_it) /* T9 */
{
    struct worker *w = suite_join(s, "outbox");
    struct breaker_change c = OPEN("e", "");

    TELL(w, c);
    CYCLE(w, .leave = true);
    CHECK_EQ(look(s)->breaker_count, 0);
    worker_renew_identity(w);
    CYCLE(w);
    CHECK_EQ(look(s)->breaker_count, 0);
}

STORE_TEST(the_breakers_of_an_instance_whose_lease_is_over_are_not_shown_and_then_buried) /* B72, T3, T9 */
{
    struct worker *w = suite_join(s, "outbox");
    struct breaker_change c = OPEN("e", "");

    TELL(w, c);
    suite_advance(s, SUITE_LEASE_US);
    CHECK_EQ(look(s)->breaker_count, 0); /* nobody has buried it yet */
    struct worker *heir = suite_join(s, "outbox");
    CHECK_EQ(heir->lanes, LANES_ALL);
    CHECK_EQ(look(s)->breaker_count, 0);
    CHECK_EQ(CYCLE_TRY(w, .breakers = &c, .breaker_count = 1), PR_ELEASE); /* its word counts no more */
    CHECK_EQ(look(s)->breaker_count, 0);
    CYCLE(heir, .breakers = &c, .breaker_count = 1);
    CHECK_EQ(look(s)->breaker_count, 1);
}

STORE_TEST(the_breaker_of_an_instance_without_lanes_is_of_no_consequence) /* T9 */
{
    struct worker *w = suite_join(s, "outbox"), *idle = suite_join(s, "outbox");
    struct breaker_change c = OPEN("e", "");

    CYCLE(idle, .lanes_give = idle->lanes, .breakers = &c, .breaker_count = 1);
    CHECK_EQ(look(s)->breaker_count, idle->lanes != 0);
    CYCLE(w);
    CHECK_EQ(look(s)->breaker_count, idle->lanes != 0);
}

STORE_TEST(breakers_survive_a_reopen_while_the_lease_lasts)
{
    suite_needs(s, STORE_CAN_LAST);
    struct breaker_change c = OPEN("e", "");

    TELL(suite_join(s, "outbox"), c);
    suite_reopen(s);
    CHECK_EQ(look(s)->breaker_count, 1);
    suite_advance(s, SUITE_LEASE_US);
    CHECK_EQ(look(s)->breaker_count, 0);
}

/* ---- The latest failure ------------------------------------------------------------------------ */

STORE_TEST(the_latest_failure_of_an_endpoint_is_kept) /* B200 */
{
    struct worker *w = suite_join(s, "outbox"), *other = suite_join(s, "ledger");
    struct tally t = { .endpoint = PR_STR("e"),
                       .failed = 1,
                       .reason = PR_REASON_TIMEOUT_EXCEEDED,
                       .code = PR_STR("408"),
                       .error = PR_STR("too slow") };
    struct tally sent = { .endpoint = PR_STR("e"), .sent = 1 };

    CYCLE(w, .tallies = &sent, .tally_count = 1);
    CHECK_EQ(suite_endpoint(s, "e")->last_failed_us, 0);
    CYCLE(w, .tallies = &t, .tally_count = 1);
    int64_t at = s->wall_us;
    suite_advance(s, PR_SECONDS(1));
    CYCLE(w, .tallies = &sent, .tally_count = 1);
    const struct endpoint_state *e = suite_endpoint(s, "e");
    CHECK_EQ(e->last_failed_us, at);
    CHECK_EQ(e->last_reason, PR_REASON_TIMEOUT_EXCEEDED);
    CHECK_SLICE(e->last_code, "408");
    CHECK_SLICE(e->last_error, "too slow");
    CHECK_EQ(e->sent, 2);
    t.reason = PR_REASON_REJECTED;
    t.failed = 0; /* it counted for nobody */
    t.code = (pr_slice){ NULL, 0 };
    CYCLE(other, .tallies = &t, .tally_count = 1);
    e = suite_endpoint(s, "e");
    CHECK_EQ(e->last_failed_us, s->wall_us);
    CHECK_EQ(e->last_reason, PR_REASON_REJECTED);
    CHECK_SLICE(e->last_code, "");
    CHECK_EQ(e->failed, 1);
}

STORE_TEST(an_endpoint_knows_how_many_attempts_failed_since_its_latest_delivery)
{
    struct worker *w = suite_join(s, "outbox");
    struct tally failed = { .endpoint = PR_STR("e"), .failed = 2, .reason = PR_REASON_REJECTED },
                 sent = { .endpoint = PR_STR("e"), .sent = 1 },
                 both = { .endpoint = PR_STR("e"), .sent = 1, .failed = 1, .reason = PR_REASON_REJECTED };

    CYCLE(w, .tallies = &failed, .tally_count = 1);
    suite_advance(s, PR_SECONDS(20)); /* meanwhile a store may have added up what it has */
    CYCLE(w, .tallies = &failed, .tally_count = 1);
    CHECK_EQ(suite_endpoint(s, "e")->failed_in_row, 4);
    suite_advance(s, PR_SECONDS(1));
    CYCLE(w, .tallies = &sent, .tally_count = 1);
    CHECK_EQ(suite_endpoint(s, "e")->failed_in_row, 0);
    CHECK_EQ(suite_endpoint(s, "e")->failed, 4);
    suite_advance(s, PR_SECONDS(1));
    CYCLE(w, .tallies = &failed, .tally_count = 1);
    suite_advance(s, PR_SECONDS(20));
    CYCLE(w);
    CHECK_EQ(suite_endpoint(s, "e")->failed_in_row, 2);
    CYCLE(w, .tallies = &both, .tally_count = 1); /* one of them got through */
    CHECK_EQ(suite_endpoint(s, "e")->failed_in_row, 0);
}
