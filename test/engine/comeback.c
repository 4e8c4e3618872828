/* Many messages come back into the same streams: replayed, retried, or after a pause.  They have their old places, but
 * come in the order of their new times, which differs when two people replay at once. */
#include "stage.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/slice.h"
#include "base/util.h"

#define STREAMS 10
#define EACH 200
#define ALL (STREAMS * EACH)
#define WINDOW 1000
#define BATCH 100
#define STEP 100 /* of a replay in steps */

struct crowd {
    struct stage s;
    pr_id ids[ALL]; /* in the order of their places; number n is of stream n % STREAMS */
    uint64_t cycles, read;
    int64_t begun_us;
};

static void act(struct crowd *c, enum admin_kind kind, struct filter filter)
{
    struct admin admin = { .kind = kind, .filter = filter, .by = PR_STR("test") };
    struct admin_reply reply;

    admin.filter.box = PR_STR("outbox");
    admin.filter.state = -1;
    CHECK_EQ(store_admin(&c->s.w.store, &admin, &reply, NULL), PR_OK);
    CHECK(reply.changed > 0);
    world_announce(&c->s.w);
}

/* Of each stream every other one. */
static struct filter half(unsigned which)
{
    return (struct filter){ .type = scenario_type(which) };
}

/* They wait, and their endpoint is paused.  first: the payload of the first of each stream. */
static struct crowd *crowd_open(enum ordering ordering, const char *first)
{
    struct crowd *c = malloc(sizeof(*c));

    stage_set(&c->s);
    c->s.scenario.engine.window_count = WINDOW;
    c->s.scenario.engine.batch = BATCH;
    c->s.scenario.endpoints[0].ordering = ordering;
    c->s.scenario.check = false;
    stage_open(&c->s);
    c->s.w.quiet = true;
    world_pause(&c->s.w, 0, PR_NEVER);
    stage_run(&c->s, PR_SECONDS(1));
    for (size_t i = 0; i < ALL; i++) {
        struct parcel *p = world_parcel(&c->s.w);
        p->m.type = scenario_type((unsigned)(i / STREAMS % 2));
        p->m.stream = slice_dup(&c->s.w.arena, pr_str(STREAM(i % STREAMS)));
        p->m.payload = i < STREAMS ? pr_str(first) : PR_STR("ok");
        parcel_seal(&c->s.w, p);
        CHECK_EQ(world_store(&c->s.w, &p, 1), PR_OK);
        c->ids[i] = p->m.id;
    }
    return c;
}

/* They are dead, and nothing else is to be done. */
static struct crowd *crowd_open_dead(enum ordering ordering, const char *first)
{
    struct crowd *c = crowd_open(ordering, first);

    act(c, ADMIN_DEAD_ADD, (struct filter){ 0 });
    world_resume(&c->s.w, 0);
    stage_run(&c->s, PR_SECONDS(5));
    CHECK_EQ(c->s.count, 0);
    return c;
}

static void crowd_begin(struct crowd *c)
{
    c->cycles = c->s.w.cycles;
    c->read = c->s.w.rows_read;
    c->begun_us = c->s.w.mono_us;
}

static bool is_in_order(const struct crowd *c)
{
    size_t next[STREAMS] = { 0 };

    for (size_t i = 0; i < c->s.count; i++) {
        size_t stream = (size_t)(c->s.diary[i].stream.data[3] - '0');
        if (!pr_id_equal(c->s.diary[i].id, c->ids[next[stream]++ * STREAMS + stream]))
            return false;
    }
    return true;
}

/* A stream goes at one message per commit and answer (1 ms): so long it takes at least, and no cycles and reads but a
 * few are made for other things. */
static void check_drains(struct crowd *c)
{
    while (c->s.count < ALL && c->s.w.mono_us - c->begun_us < PR_SECONDS(20))
        stage_run(&c->s, PR_MILLISECONDS(1));
    CHECK_EQ(c->s.count, ALL);
    CHECK(c->s.diary[ALL - 1].at_us - c->begun_us < PR_MILLISECONDS(EACH + EACH / 4));
    CHECK(c->s.w.cycles - c->cycles < 3 * EACH);
    CHECK(c->s.w.rows_read - c->read < 5 * ALL);
    CHECK(c->s.w.instances[0].window_count <= WINDOW);
}

static void crowd_close(struct crowd *c)
{
    stage_close(&c->s);
    free(c);
}

TEST(two_replays_into_the_same_streams_go_in_order_and_as_fast_as_one) /* B16, B50, B59, B83 */
{
    static const enum ordering orderings[] = { ORDERING_FIFO, ORDERING_STRICT };

    for (size_t i = 0; i < ARRAY_LENGTH(orderings); i++) {
        struct crowd *c = crowd_open_dead(orderings[i], "ok");
        crowd_begin(c);
        act(c, ADMIN_DEAD_REPLAY, half(1));
        act(c, ADMIN_DEAD_REPLAY, half(0));
        check_drains(c);
        CHECK(is_in_order(c));
        crowd_close(c);
    }
}

/* Each step is told by itself, while the ones before are on their way: all of those in memory have to make way. */
TEST(a_replay_from_the_last_to_the_first_is_as_fast_as_one_in_order) /* B16, B83 */
{
    struct crowd *c = crowd_open_dead(ORDERING_FIFO, "ok");

    crowd_begin(c);
    for (size_t i = ALL; i > 0; i -= STEP) {
        act(c, ADMIN_DEAD_REPLAY, (struct filter){ .ids = c->ids + i - STEP, .id_count = STEP });
        stage_run(&c->s, 10);
    }
    check_drains(c);
    crowd_close(c);
}

TEST(what_was_replayed_in_a_pause_goes_in_order_and_fast_when_it_is_over) /* B16, B59, B63 */
{
    struct crowd *c = crowd_open_dead(ORDERING_FIFO, "ok");

    world_pause(&c->s.w, 0, PR_NEVER);
    for (unsigned i = 0; i < 2; i++) {
        act(c, ADMIN_DEAD_REPLAY, half(1 - i));
        stage_run(&c->s, PR_SECONDS(60));
    }
    crowd_begin(c);
    world_resume(&c->s.w, 0);
    check_drains(c);
    CHECK(is_in_order(c));
    crowd_close(c);
}

/* The first of each stream fails again: the others wait behind it in the store, and cost nothing. */
TEST(replays_behind_one_that_fails_again_are_not_read_again_and_again) /* B51, B57, B59 */
{
    struct crowd *c = crowd_open_dead(ORDERING_FIFO, "fail:1");

    c->s.scenario.endpoints[0].policy.retry =
        (struct retry_setting){ .base_us = PR_MINUTES(1), .factor = 1, .cap_us = PR_MINUTES(1), .failures = 5 };
    crowd_begin(c);
    act(c, ADMIN_DEAD_REPLAY, half(1));
    act(c, ADMIN_DEAD_REPLAY, half(0));
    stage_run(&c->s, PR_SECONDS(55));
    CHECK_EQ(c->s.count, STREAMS);
    CHECK(c->s.w.rows_read - c->read < 5 * ALL);
    c->s.count = 0;
    stage_run(&c->s, PR_SECONDS(5));
    crowd_begin(c);
    check_drains(c);
    CHECK(is_in_order(c));
    crowd_close(c);
}

TEST(parked_ones_that_are_retried_by_halves_are_as_fast_as_at_once) /* B16, B53 */
{
    struct crowd *c = crowd_open(ORDERING_STRICT, "ok");

    act(c, ADMIN_PARK, (struct filter){ 0 });
    world_resume(&c->s.w, 0);
    stage_run(&c->s, PR_SECONDS(5));
    crowd_begin(c);
    act(c, ADMIN_RETRY, half(1));
    act(c, ADMIN_RETRY, half(0));
    check_drains(c);
    crowd_close(c);
}

/* Of many streams at once, in no order: a stream that only waits in the store is none that is remembered. */
TEST(what_is_due_in_many_streams_takes_no_more_memory_than_the_window) /* B16 */
{
    enum { MANY = 5000, CROWD = 4 * MANY };
    struct stage s;
    char name[16];

    stage_set(&s);
    s.scenario.engine.window_count = WINDOW / 2;
    s.scenario.engine.batch = BATCH;
    s.scenario.check = false;
    stage_open(&s);
    s.w.quiet = true;
    for (uint32_t i = 0; i < CROWD; i++) {
        struct parcel *p = world_parcel(&s.w);
        p->m.type = scenario_type(0);
        snprintf(name, sizeof(name), "s%d", (int)(hash_u64(i) % MANY));
        p->m.stream = slice_dup(&s.w.arena, pr_str(name));
        p->m.payload = PR_STR("ok");
        p->m.due_us = world_wall_us(&s.w) + PR_MINUTES(1);
        p->delayed = true;
        parcel_seal(&s.w, p);
        CHECK_EQ(world_store(&s.w, &p, 1), PR_OK);
    }
    stage_run(&s, PR_MINUTES(10));
    CHECK_EQ(s.count, CROWD);
    CHECK(s.w.instances[0].places <= WINDOW / 2);
    CHECK(s.w.instances[0].places > 0);
    stage_close(&s);
}
