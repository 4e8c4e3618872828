/* A cycle's reports of deliveries, and the answers when it asks for them (B78). */
#include "suite.h"

#define PAIR(name, of_type) ((struct evidence){ .endpoint = PR_STR(name), .type = PR_STR(of_type) })

STORE_TEST(a_delivery_is_known_to_every_instance_with_its_time) /* B78 */
{
    struct worker *a = suite_join(s, "outbox"), *b = suite_join(s, "inbox");
    struct evidence pairs[] = { PAIR("e", "t"), PAIR("e", "u"), PAIR("f", "t") };

    CYCLE(a, .delivered = pairs, .delivered_count = 2);
    int64_t then_us = s->wall_us;
    suite_advance(s, PR_SECONDS(5));
    const struct cycle_reply *r = CYCLE(b, .evidence = pairs, .evidence_count = 3);
    CHECK_EQ(r->evidence[0], then_us);
    CHECK_EQ(r->evidence[1], then_us);
    CHECK_EQ(r->evidence[2], 0); /* never */
}

STORE_TEST(of_two_deliveries_the_later_counts_and_the_cycle_that_tells_may_ask) /* B78 */
{
    struct worker *w = suite_join(s, "outbox");
    struct evidence pair = PAIR("e", "t"), whole = PAIR("e", "");

    CYCLE(w, .delivered = &pair, .delivered_count = 1);
    suite_advance(s, PR_MINUTES(1));
    const struct cycle_reply *r =
        CYCLE(w, .delivered = &pair, .delivered_count = 1, .evidence = &pair, .evidence_count = 1);
    CHECK_EQ(r->evidence[0], s->wall_us);
    r = CYCLE(w, .evidence = &whole, .evidence_count = 1);
    CHECK_EQ(r->evidence[0], 0); /* '' is a type like any other here */
}

STORE_TEST(evidence_outlives_the_instance_that_told_of_it) /* B78 */
{
    struct worker *w = suite_join(s, "outbox");
    struct evidence pair = PAIR("e", "t");

    CYCLE(w, .delivered = &pair, .delivered_count = 1);
    int64_t then_us = s->wall_us;
    CYCLE(w, .leave = true);
    w = suite_join(s, "outbox");
    CHECK_EQ(CYCLE(w, .evidence = &pair, .evidence_count = 1)->evidence[0], then_us);
}
