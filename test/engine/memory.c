/* Memory that runs out while the engine takes in what a cycle has read. */
#include "stage.h"

#include "fault.h"

#define MESSAGES 72

static long nth_fails; /* of the allocations while cycles are absorbed; 0: none */

/* What the linker makes of calls to engine_absorb. */
void __real_engine_absorb(struct engine *e, int64_t asked_us, int64_t now_us, const struct cycle_reply *r);
void __wrap_engine_absorb(struct engine *e, int64_t asked_us, int64_t now_us, const struct cycle_reply *r);

void __wrap_engine_absorb(struct engine *e, int64_t asked_us, int64_t now_us, const struct cycle_reply *r)
{
    fault_after(nth_fails);
    __real_engine_absorb(e, asked_us, now_us, r);
    nth_fails = fault_left();
    fault_after(0);
}

static size_t first_place(const struct stage *s, pr_id id, unsigned endpoint)
{
    size_t i = 0;
    while (i < s->count && (s->diary[i].endpoint != endpoint || !pr_id_equal(s->diary[i].id, id)))
        i++;
    return i;
}

/* Each stream has every third message; to e0, to both, to e1, and so on. */
static void check_order(const struct stage *s, const pr_id *ids, int count)
{
    for (unsigned endpoint = 0; endpoint < 2; endpoint++)
        for (int i = 0; i < count; i++)
            for (int k = i + 3; k < count; k += 3)
                if (first_place(s, ids[k], endpoint) < s->count)
                    CHECK(first_place(s, ids[i], endpoint) < first_place(s, ids[k], endpoint) ||
                          (unsigned)i / 3 % 3 == 2 - 2 * endpoint); /* it does not go there */
}

/* Messages of three streams, to one endpoint and to both.  false: nothing failed. */
static bool without_memory_once(long nth)
{
    struct stage s;
    pr_id ids[MESSAGES];
    stage_set(&s);
    stage_endpoint(&s, ORDERING_FIFO);
    s.scenario.routes[0].to_count = 2;
    s.scenario.route_to[0][0] = 0;
    s.scenario.route_to[0][1] = 1;
    s.scenario.endpoints[0].policy.retry = (struct retry_setting){
        .base_us = PR_MILLISECONDS(50), .factor = 1, .cap_us = PR_MILLISECONDS(50), .failures = 5
    };
    stage_open(&s);
    stage_run(&s, PR_SECONDS(1));
    nth_fails = nth;
    for (int i = 0; i < MESSAGES; i++) {
        const char *to = i / 3 % 3 == 0 ? "e0" : i / 3 % 3 == 1 ? "" : "e1";
        ids[i] = world_send_to(&s.w, to, STREAM(i % 3), i == 9 ? "fail:2" : "ok");
        if (i == MESSAGES / 2)
            stage_run(&s, PR_MILLISECONDS(20));
    }
    stage_run(&s, PR_MINUTES(5));
    CHECK_EQ(s.count, MESSAGES + MESSAGES / 3 + 2);
    check_order(&s, ids, MESSAGES);
    bool failed = nth > 0 && nth_fails == 0;
    nth_fails = 0;
    stage_close(&s);
    return failed;
}

TEST(without_memory_for_what_was_read_no_message_is_lost_and_none_overtakes_another_of_its_stream) /* B1, B50 */
{
    long nth = 1;
    CHECK(!without_memory_once(0));
    while (without_memory_once(nth) && nth < 5000)
        nth++;
    CHECK(nth > 100 && nth < 5000);
}
