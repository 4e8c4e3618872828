/* Reports of breakers and failures to the store: each change once, whatever happens to answers and leases. */
#include "stage.h"

#include <string.h>

#include "base/slice.h"
#include "base/util.h"

static const struct breaker_setting usual = {
    .enabled = true, .after = 3, .open_us = PR_SECONDS(5), .cap_us = PR_MINUTES(5)
};

static struct {
    bool down;
    unsigned opened, closed, cycles, empty; /* what landed: changes told; cycles with and without any */
    bool lost;                              /* an answer to a cycle with a change */
} seen;

static void judge(struct world *w, const struct delivery *d, unsigned endpoint, struct fate *f)
{
    (void)w;
    (void)d;
    (void)endpoint;
    *f = (struct fate){ .outcome = SEND_OK, .arrives = true, .answer_us = PR_MILLISECONDS(1) };
    if (seen.down)
        *f = (struct fate){ .outcome = SEND_FAILED,
                            .reason = PR_REASON_TRANSPORT_UNAVAILABLE,
                            .answer_us = PR_MILLISECONDS(1) };
}

static void watch(struct world *w, struct instance *in, const struct cycle *cycle, const struct cycle_reply *reply)
{
    (void)w;
    (void)in;
    for (size_t i = 0; i < cycle->breaker_count && !reply->replayed; i++) {
        seen.opened += cycle->breakers[i].open;
        seen.closed += !cycle->breakers[i].open;
    }
    seen.cycles += cycle->breaker_count > 0;
    seen.empty += cycle->breaker_count == 0;
}

static void begin(struct stage *s, bool per_type)
{
    memset(&seen, 0, sizeof(seen));
    stage_set(s);
    s->scenario.endpoints[0].breaker = usual;
    s->scenario.endpoints[0].breaker.per_type = per_type;
    stage_open(s);
    s->w.judge = judge;
    s->w.watch = watch;
}

static void send_many(struct stage *s, unsigned type, int count)
{
    for (int i = 0; i < count; i++) {
        struct parcel *p = world_parcel(&s->w);
        p->m.type = scenario_type(type);
        p->m.payload = PR_STR("x");
        parcel_seal(&s->w, p);
        CHECK_EQ(world_store(&s->w, &p, 1), PR_OK);
    }
}

static struct query_reply look(struct stage *s)
{
    struct query query = { .kind = QUERY_ENDPOINTS, .filter.state = -1 };
    struct query_reply reply;
    CHECK_EQ(store_query(&s->w.store, &query, &s->w.arena, &reply, NULL), PR_OK);
    return reply;
}

TEST(a_breaker_is_told_when_it_opens_when_a_probe_fails_and_when_it_closes) /* B73, B200 */
{
    struct stage s;
    begin(&s, false);
    seen.down = true;
    send_many(&s, 0, 10);
    stage_run(&s, PR_SECONDS(4));
    struct query_reply r = look(&s);
    CHECK_EQ(r.breaker_count, 1);
    CHECK_EQ(r.breakers[0].probes, 0);
    CHECK_EQ(r.breakers[0].reason, PR_REASON_TRANSPORT_UNAVAILABLE);
    CHECK(r.breakers[0].until_us - r.breakers[0].since_us <= PR_SECONDS(5));
    CHECK(r.breakers[0].until_us > r.now_us && r.breakers[0].since_us < r.now_us);
    CHECK_EQ(seen.opened, 1);
    int64_t since_us = r.breakers[0].since_us;
    stage_run(&s, PR_SECONDS(4)); /* one probe has failed: it is open for twice as long */
    r = look(&s);
    CHECK_EQ(r.breakers[0].probes, 1);
    CHECK_EQ(r.breakers[0].since_us, since_us);
    CHECK(r.breakers[0].until_us - r.now_us > PR_SECONDS(5));
    CHECK_EQ(seen.opened, 2);
    seen.down = false;
    stage_run(&s, PR_SECONDS(20));
    CHECK_EQ(look(&s).breaker_count, 0);
    CHECK_EQ(seen.opened, 2);
    CHECK_EQ(seen.closed, 1);
    CHECK_EQ(seen.cycles, 3);
    CHECK(seen.empty > 3); /* nothing is said where nothing changed */
    stage_close(&s);
}

TEST(failures_that_count_for_no_message_are_the_endpoints_latest) /* B72, B200 */
{
    struct stage s;
    begin(&s, false);
    seen.down = true;
    send_many(&s, 0, 10);
    stage_run(&s, PR_MINUTES(1)); /* only probes failed for long */
    struct query_reply r = look(&s);
    CHECK_EQ(r.endpoint_count, 1);
    CHECK_EQ(r.endpoints[0].last_reason, PR_REASON_TRANSPORT_UNAVAILABLE);
    CHECK(r.endpoints[0].last_failed_us > r.now_us - PR_SECONDS(45));
    CHECK(r.endpoints[0].last_failed_us > r.breakers[0].since_us + PR_SECONDS(10));
    stage_close(&s);
}

TEST(breakers_of_types_are_told_apart_and_forgotten_when_they_close) /* B73 */
{
    struct stage s;
    begin(&s, true);
    seen.down = true;
    send_many(&s, 1, 5);
    send_many(&s, 2, 5);
    stage_run(&s, PR_SECONDS(3));
    struct query_reply r = look(&s);
    CHECK_EQ(r.breaker_count, 2);
    CHECK(slice_eq(r.breakers[0].type, scenario_type(1)) || slice_eq(r.breakers[0].type, scenario_type(2)));
    CHECK(!slice_eq(r.breakers[0].type, r.breakers[1].type));
    seen.down = false;
    stage_run(&s, PR_MINUTES(1));
    CHECK_EQ(look(&s).breaker_count, 0);
    CHECK_EQ(seen.closed, 2);
    stage_close(&s);
}

/* The commit happened, its answer did not come: the same cycle is asked again. */
static void watch_and_lose(struct world *w, struct instance *in, const struct cycle *cycle,
                           const struct cycle_reply *reply)
{
    watch(w, in, cycle, reply);
    w->faults.commit_unknown = cycle->breaker_count > 0 && !reply->replayed ? 2 : 0;
    seen.lost = seen.lost || w->faults.commit_unknown > 0;
}

static int no_fault_before(struct world *w, struct instance *in, const struct cycle *cycle)
{
    (void)w;
    (void)in;
    (void)cycle;
    return 0;
}

TEST(a_change_whose_answer_was_lost_is_told_once) /* B7, B73 */
{
    struct stage s;
    begin(&s, false);
    s.w.watch = watch_and_lose;
    s.w.disturb = no_fault_before;
    seen.down = true;
    send_many(&s, 0, 10);
    stage_run(&s, PR_SECONDS(4));
    CHECK(seen.lost);
    CHECK_EQ(seen.opened, 1);
    CHECK_EQ(seen.cycles, 2); /* the same one, twice */
    CHECK_EQ(look(&s).breaker_count, 1);
    CHECK_EQ(look(&s).breakers[0].probes, 0);
    seen.down = false;
    stage_run(&s, PR_SECONDS(20));
    CHECK_EQ(seen.closed, 1);
    CHECK_EQ(look(&s).breaker_count, 0);
    stage_close(&s);
}

TEST(a_new_instance_tells_what_is_still_open) /* B73 */
{
    struct stage s;
    begin(&s, false);
    s.scenario.endpoints[0].breaker.open_us = s.scenario.endpoints[0].breaker.cap_us = PR_MINUTES(60); /* no probe */
    seen.down = true;
    send_many(&s, 0, 10);
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(look(&s).breaker_count, 1);
    pr_id before = look(&s).breakers[0].instance_id;
    int64_t since_us = look(&s).breakers[0].since_us;
    instance_freeze(&s.w, &s.w.instances[0], 2 * s.scenario.engine.lease_us);
    stage_run(&s, s.scenario.engine.lease_us + PR_SECONDS(1));
    CHECK_EQ(look(&s).breaker_count, 0);     /* nobody knows whether it is alive */
    instance_start(&s.w, &s.w.instances[1]); /* somebody else takes over, and leaves */
    stage_run(&s, s.scenario.engine.lease_us / 2);
    CHECK_EQ(look(&s).breaker_count, 1); /* its own: it met the outage, too */
    instance_stop(&s.w, &s.w.instances[1], PR_SECONDS(10));
    stage_run(&s, s.scenario.engine.lease_us);
    struct query_reply r = look(&s);
    CHECK_EQ(r.breaker_count, 1);
    CHECK(!pr_id_equal(r.breakers[0].instance_id, before));
    CHECK_EQ(r.breakers[0].since_us, since_us); /* the same one as before the freeze */
    stage_stop(&s);
    CHECK_EQ(look(&s).breaker_count, 0);
    stage_close(&s);
}
