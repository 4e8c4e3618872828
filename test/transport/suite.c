/* suite.c - the promises of every transport, one sentence each; every sentence is checked for every transport.  What a
 * transport cannot do by its nature is skipped, visibly. */
#include <stdio.h>
#include <unistd.h>

#include "base/slice.h"
#include "base/utf8.h"
#include "check.h"
#include "world.h"

static bool can(const struct harness *h, enum wish wish)
{
    return (h->wishes & (1u << wish)) != 0;
}

/* Why a sentence says nothing about this transport: "http: cannot ...". */
static const char *skip_reason(const struct harness *h, const char *why)
{
    static char text[128];
    snprintf(text, sizeof(text), "%s: %s", h->name, why);
    return text;
}

/* ---- The sentences ------------------------------------------------------------------------------ */

static struct world w; /* it is big */

/* Those that need a server have a test program of their own. */
#ifdef SUITE_ONLY
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#ifdef SUITE_ALSO
#define ALSO(name)                                                                                                     \
    TEST(also_##name)                                                                                                  \
    {                                                                                                                  \
        name(&JOIN(harness_, SUITE_ALSO));                                                                             \
    }
#else
#define ALSO(name)
#endif
#define SENTENCE(name)                                                                                                 \
    static void name(const struct harness *h);                                                                         \
    TEST(suite_##name)                                                                                                 \
    {                                                                                                                  \
        name(&JOIN(harness_, SUITE_ONLY));                                                                             \
    }                                                                                                                  \
    ALSO(name)                                                                                                         \
    static void name(const struct harness *h)
#else
#define SENTENCE(name)                                                                                                 \
    static void name(const struct harness *h);                                                                         \
    TEST(null_##name)                                                                                                  \
    {                                                                                                                  \
        name(&harness_null);                                                                                           \
    }                                                                                                                  \
    TEST(console_##name)                                                                                               \
    {                                                                                                                  \
        name(&harness_console);                                                                                        \
    }                                                                                                                  \
    TEST(handler_##name)                                                                                               \
    {                                                                                                                  \
        name(&harness_handler);                                                                                        \
    }                                                                                                                  \
    TEST(http_##name)                                                                                                  \
    {                                                                                                                  \
        name(&harness_http);                                                                                           \
    }                                                                                                                  \
    TEST(batch_##name)                                                                                                 \
    {                                                                                                                  \
        name(&harness_batch);                                                                                          \
    }                                                                                                                  \
    TEST(exec_##name)                                                                                                  \
    {                                                                                                                  \
        name(&harness_exec);                                                                                           \
    }                                                                                                                  \
    TEST(lines_##name)                                                                                                 \
    {                                                                                                                  \
        name(&harness_lines);                                                                                          \
    }                                                                                                                  \
    TEST(file_##name)                                                                                                  \
    {                                                                                                                  \
        name(&harness_file);                                                                                           \
    }                                                                                                                  \
    static void name(const struct harness *h)
#endif

/* P1 */
SENTENCE(answers_each_delivery_exactly_once)
{
    world_init(&w, h, 0);
    for (size_t i = 0; i < 300; i++) {
        enum wish wish = (enum wish)(i % 3);
        world_add(&w, "", PR_STR("{}"), can(h, wish) ? wish : WISH_OK);
    }
    world_run(&w);
    for (size_t i = 0; i < w.message_count; i++)
        CHECK_EQ(w.result_counts[i], 1);
    CHECK_EQ(world_poll(&w, 0), 0);
    world_fini(&w);
}

SENTENCE(says_what_became_of_it)
{
    static const enum send_outcome outcomes[] = { [WISH_OK] = SEND_OK, [WISH_FAIL] = SEND_FAILED };
    world_init(&w, h, 0);
    for (size_t i = 0; i < 20; i++)
        world_add(&w, "", PR_STR("{}"), i % 2 && can(h, WISH_FAIL) ? WISH_FAIL : WISH_OK);
    world_run(&w);
    for (size_t i = 0; i < w.message_count; i++) {
        const struct delivery_result *r = &w.results[i];
        CHECK_EQ(r->outcome, outcomes[i % 2 && can(h, WISH_FAIL) ? WISH_FAIL : WISH_OK]);
        CHECK_EQ(r->reason != PR_REASON_NONE, r->outcome != SEND_OK);
        CHECK_EQ((r->bits & PR_STATUS_PUBLISHED) != 0, r->outcome == SEND_OK);
        CHECK(r->outcome == SEND_OK || reason_is_known(r->reason));
        CHECK(r->outcome == SEND_OK ? r->error == NULL : utf8_valid(slice_from(r->error)));
    }
    world_fini(&w);
}

/* P2 */
SENTENCE(keeps_the_order_of_a_stream_when_it_says_so)
{
    world_init(&w, h, 0);
    bool ordered = w.transport.ops->promises & TRANSPORT_ORDERED;
    if (h->arrivals == NULL || !ordered) {
        world_fini(&w);
        SKIP(skip_reason(h, ordered ? "the test cannot see what this transport delivered"
                                    : "this transport does not promise order"));
    }
    for (size_t i = 0; i < 200; i++)
        world_add(&w, i % 2 ? "odd" : "even", PR_STR("{}"), WISH_OK);
    world_run(&w);
    world_look(&w);
    CHECK_EQ(w.arrival_count, 200);
    for (size_t i = 0; i < 200; i++)
        CHECK(pr_id_equal(w.arrivals[i].id, w.messages[i].id));
    world_fini(&w);
}

/* P3, B4 */
SENTENCE(carries_every_payload_byte_for_byte)
{
    static char all[256], large[1 << 20];
    if (!h->exact)
        SKIP(skip_reason(h, "the test cannot see the exact payload that this transport delivered"));
    for (size_t i = 0; i < sizeof(large); i++)
        large[i] = (char)(i * 2654435761u >> 13);
    for (size_t i = 0; i < sizeof(all); i++)
        all[i] = (char)i;
    world_init(&w, h, 0);
    world_add(&w, "", PR_BYTES(all, sizeof(all)), WISH_OK);
    world_add(&w, "", PR_BYTES(NULL, 0), WISH_OK);
    world_add(&w, "", PR_BYTES(large, sizeof(large)), WISH_OK);
    for (size_t i = 0; i < sizeof(all); i++)
        world_add(&w, "", PR_BYTES(&all[i], 1), WISH_OK);
    world_run(&w);
    world_look(&w);
    CHECK_EQ(w.arrival_count, w.message_count);
    for (size_t i = 0; i < w.arrival_count; i++)
        for (size_t m = 0; m < w.message_count; m++)
            if (pr_id_equal(w.arrivals[i].id, w.messages[m].id))
                CHECK_SLICE(PR_BYTES(w.arrivals[i].payload, w.arrivals[i].size), w.messages[m].payload);
    for (size_t m = 0; m < w.message_count; m++)
        CHECK_EQ(world_arrived(&w, m), 1);
    world_fini(&w);
}

/* P4 */
SENTENCE(sends_nothing_more_after_cancel)
{
    world_init(&w, h, 2);
    for (size_t i = 0; i < 10; i++)
        world_add(&w, "", PR_STR("{}"), h->starts_early ? WISH_HANG : WISH_OK);
    CHECK(world_submit(&w) > 0);
    world_cancel(&w);
    world_collect(&w);
    for (size_t i = 0; i < w.taken; i++)
        CHECK_EQ(w.results[i].outcome, SEND_RETURNED);
    if (h->arrivals != NULL) {
        world_look(&w);
        CHECK(h->starts_early ? w.arrival_count <= 2 && w.arrival_count < w.taken : w.arrival_count == 0);
    }
    world_fini(&w);
}

SENTENCE(works_on_after_cancel)
{
    world_init(&w, h, 2);
    world_add(&w, "", PR_STR("{}"), WISH_OK);
    world_submit(&w);
    world_cancel(&w);
    world_cancel(&w);
    world_collect(&w);
    world_add(&w, "", PR_STR("{}"), WISH_OK);
    world_run(&w);
    CHECK_EQ(w.results[1].outcome, SEND_OK);
    world_fini(&w);
}

/* P5 */
SENTENCE(says_unknown_when_the_answer_is_lost)
{
    if (!can(h, WISH_LOSE_ANSWER))
        SKIP(skip_reason(h, "this transport has no answers that can get lost"));
    world_init(&w, h, 0);
    world_add(&w, "", PR_STR("{}"), WISH_LOSE_ANSWER);
    world_run(&w);
    CHECK_EQ(w.results[0].outcome, SEND_UNKNOWN);
    world_look(&w);
    CHECK(world_arrived(&w, 0) >= 1);
    world_fini(&w);
}

/* P6, B35 */
SENTENCE(lets_neighbours_of_a_failure_pass)
{
    if (!can(h, WISH_FAIL))
        SKIP(skip_reason(h, "this transport cannot be made to fail"));
    world_init(&w, h, 0);
    for (size_t i = 0; i < 60; i++)
        world_add(&w, "", PR_STR("{}"), i % 3 == 0 ? WISH_FAIL : WISH_OK);
    world_run(&w);
    world_look(&w);
    for (size_t i = 0; i < w.message_count; i++) {
        CHECK_EQ(w.results[i].outcome, i % 3 == 0 ? SEND_FAILED : SEND_OK);
        CHECK(i % 3 == 0 || world_arrived(&w, i) == 1);
    }
    world_fini(&w);
}

SENTENCE(gives_up_at_the_deadline_and_spares_the_others)
{
    if (!can(h, WISH_HANG))
        SKIP(skip_reason(h, "this transport cannot hang"));
    world_init(&w, h, 4);
    size_t hung = world_add(&w, "", PR_STR("{}"), WISH_HANG);
    for (size_t i = 0; i < 20; i++)
        world_add(&w, "", PR_STR("{}"), WISH_OK);
    int64_t begin_us = world_now();
    w.deliveries[hung].deadline_us = begin_us + WORLD_SOON_US;
    world_run(&w);
    CHECK(world_now() >= begin_us + WORLD_SOON_US - PR_MILLISECONDS(10)); /* and in less than WORLD_WAIT_US */
    CHECK_EQ(w.results[hung].reason, PR_REASON_TIMEOUT_EXCEEDED);
    for (size_t i = 1; i < w.message_count; i++)
        CHECK_EQ(w.results[i].outcome, SEND_OK);
    world_fini(&w);
}

SENTENCE(returns_what_may_not_start_any_more)
{
    world_init(&w, h, 0);
    size_t first = world_add(&w, "", PR_STR("{}"), WISH_OK);
    size_t lease = world_add(&w, "", PR_STR("{}"), WISH_OK);
    size_t deadline = world_add(&w, "", PR_STR("{}"), WISH_OK);
    size_t good = world_add(&w, "", PR_STR("{}"), WISH_OK);
    w.deliveries[lease].start_before_us = world_now();
    w.deliveries[first].deadline_us = world_now();
    w.deliveries[deadline].deadline_us = world_now();
    world_run(&w);
    CHECK_EQ(w.results[first].outcome, SEND_RETURNED);
    CHECK_EQ(w.results[lease].outcome, SEND_RETURNED);
    CHECK_EQ(w.results[deadline].outcome, SEND_RETURNED);
    CHECK_EQ(w.results[good].outcome, SEND_OK);
    if (h->arrivals != NULL) {
        world_look(&w);
        CHECK_EQ(w.arrival_count, 1);
    }
    world_fini(&w);
}

/* The lease ran out between submit and the moment when it would have gone out. */
SENTENCE(starts_nothing_late_that_it_took_in_time)
{
    if (h->starts_early)
        SKIP(skip_reason(h, "this transport starts deliveries at once"));
    world_init(&w, h, 0);
    size_t late = world_add(&w, "", PR_STR("{}"), WISH_OK);
    w.deliveries[late].start_before_us = world_now() + PR_MILLISECONDS(20);
    CHECK_EQ(world_submit(&w), 1);
    while (world_now() < w.deliveries[late].start_before_us)
        usleep(1000);
    world_collect(&w);
    CHECK_EQ(w.results[late].outcome, SEND_RETURNED);
    if (h->arrivals != NULL) {
        world_look(&w);
        CHECK_EQ(w.arrival_count, 0);
    }
    world_fini(&w);
}

SENTENCE(takes_only_what_there_is_room_for)
{
    world_init(&w, h, 3);
    for (size_t i = 0; i < 50; i++)
        world_add(&w, "", PR_STR("{}"), WISH_OK);
    size_t taken = world_submit(&w);
    CHECK(taken >= 3);
    CHECK(taken < 50);
    CHECK_EQ(w.transport.out, taken);
    world_collect(&w);
    for (size_t i = 0; i < 50; i++)
        CHECK_EQ(w.result_counts[i], i < taken ? 1 : 0); /* from the front */
    world_run(&w);
    world_fini(&w);
}

SENTENCE(waits_in_poll_until_its_time)
{
    world_init(&w, h, 0);
    int64_t begin_us = world_now();
    CHECK_EQ(world_poll(&w, PR_MILLISECONDS(30)), 0);
    CHECK(world_now() - begin_us >= PR_MILLISECONDS(29));
    world_fini(&w);
}

SENTENCE(comes_back_from_poll_when_it_is_woken)
{
    uint64_t one = 1;
    world_init(&w, h, 0);
    CHECK_EQ(write(w.wake_fd, &one, sizeof(one)), sizeof(one));
    int64_t begin_us = world_now();
    CHECK_EQ(world_poll(&w, WORLD_WAIT_US), 0);
    CHECK(world_now() - begin_us < WORLD_WAIT_US / 2);
    /* And hands out what there is while the descriptor stays readable. */
    world_add(&w, "", PR_STR("{}"), WISH_OK);
    world_run(&w);
    CHECK_EQ(w.results[0].outcome, SEND_OK);
    world_fini(&w);
}

SENTENCE(can_be_closed_with_deliveries_out)
{
    world_init(&w, h, 4);
    for (size_t i = 0; i < 8; i++)
        world_add(&w, "", PR_STR("{}"), can(h, WISH_FAIL) && i % 2 ? WISH_FAIL : WISH_OK);
    world_submit(&w);
    world_poll(&w, PR_SECONDS(1));
    world_fini(&w);
}

SENTENCE(can_be_opened_and_closed_without_use)
{
    world_init(&w, h, 0);
    world_fini(&w);
}
