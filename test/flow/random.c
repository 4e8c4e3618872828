/* Flows that are made of random steps, and random events: in whatever order messages come, often twice, each turn
 * passes the checks of the stand (I11), and every flow ends. */
#include "stand.h"

#include <stdio.h>

#include "base/hash.h"
#include "base/random.h"
#include "random_flow.h"

#define SEEDS 1000
#define TURNS_MAX 120

/* Something that may happen to the flow now; how many messages that is. */
static size_t queue_something(struct stand *s, struct random *r)
{
    const char *const names[] = { "x", "y", "z" };
    char text[16];
    snprintf(text, sizeof text, "%d", (int)random_below(r, 5));
    struct turn_message m =
        stand_named(s, random_chance(r, 0.5) ? TURN_EVENT : TURN_MAIL, names[random_below(r, 3)], text);
    if (random_chance(r, 0.03))
        m = stand_named(s, TURN_CANCEL, NULL, "");
    else if (s->history.task_count > 0 && pr_id_equal(s->history.execution, s->row.execution) &&
             random_chance(r, 0.7)) {
        size_t task = random_below(r, s->history.task_count);
        int kind = s->history.tasks[task].kind;
        if (kind == FLOW_EVENT_WAIT || kind == FLOW_EVENT_WAIT_MAIL || kind == FLOW_EVENT_DETACHED)
            return 0;
        m = stand_result_of(s, (int64_t)task + 1, text);
        m.kind = kind == FLOW_EVENT_TIMER ? TURN_TIMER : kind == FLOW_EVENT_CHILD ? TURN_CHILD : TURN_RESULT;
        m.failed = random_chance(r, 0.2);
        if (random_chance(r, 0.1))
            m.execution.bytes[9] ^= 1;
    }
    size_t count = random_chance(r, 0.2) ? 2 : 1;
    for (size_t i = 0; i < count; i++)
        stand_queue(s, &m);
    return count;
}

TEST(random_flows_do_the_same_from_every_beginning_of_their_history_and_end) /* I11, B161, B163 */
{
    size_t ended = 0, events = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct stand *s = stand_new(random_flow_run);
        struct random_flow program = { .seed = hash_u64(seed),
                                       .generations = 1,
                                       .children = { "kid", "kid", "kid", "kid" },
                                       .activities = { "a", "b" } };
        struct random r;
        size_t told = 0;
        s->code.user = &program;
        random_init(&r, seed);
        stand_start(s, "in");
        for (int turn = 0; turn < TURNS_MAX && s->row.state == FLOW_RUNNING; turn++) {
            for (int64_t i = random_between(&r, 1, 4); i > 0; i--)
                told += queue_something(s, &r);
            stand_run(s);
        }
        ended += s->row.state != FLOW_RUNNING;
        events += s->history.count;
        CHECK(s->history.count <=
              2 + 3 * RANDOM_FLOW_STEPS + told); /* start and end, what the code did, what it was told */
        if (s->row.state == FLOW_FAILED)
            check_fail(__FILE__, __LINE__, "seed %d: %s", (int)seed, stand_error(s));
        if (s->row.state != FLOW_RUNNING)
            CHECK(s->activity_count <= 2 * RANDOM_FLOW_STEPS); /* of both generations */
        stand_free(s);
    }
    CHECK_EQ(ended, SEEDS);
    CHECK(events > SEEDS * 10);
}
