/* Flows that are made of random steps, and random things that happen to them: whatever comes in whatever order, often twice,
 * each turn holds to what the stand checks (I11), and every flow ends. */
#include "stand.h"

#include <stdio.h>

#include "base/hash.h"
#include "base/random.h"
#include "base/slice.h"

#define SEEDS 1000
#define STEPS 20
#define TURNS_MAX 120

static uint64_t program;

static pr_task begin(pr_flow *f, unsigned kind, pr_slice input)
{
    switch (kind % 6) {
    case 0:
    case 1: return pr_activity(f, kind % 4 < 2 ? "a" : "b", input);
    case 2: return pr_timer(f, PR_SECONDS(kind % 50));
    case 3: return pr_event(f, kind % 8 < 4 ? "x" : "y");
    case 4: return pr_mail(f, kind % 8 < 4 ? "x" : "y");
    default: return pr_child(f, "kid", input);
    }
}

/* One step: what it does depends on the program and on all that it has seen so far. */
static int step(pr_flow *f, struct random *r, pr_task *tasks, size_t *count, uint64_t *seen)
{
    pr_slice output = { "", 0 }, input = pr_flow_printf(f, "%llu", (unsigned long long)*seen);
    int rc = PR_OK;
    unsigned choice = (unsigned)(random_u64(r) ^ *seen) % 16;
    if (*count == 0 || choice < 6) {
        tasks[(*count)++] = begin(f, (unsigned)(random_u64(r) % 48), input);
    } else if (choice < 9) {
        size_t at = random_below(r, *count);
        rc = pr_result(f, tasks[at], &output, NULL);
        *seen = hash_slice(*seen + (unsigned)rc, output);
        rc = rc == PR_FAILED ? PR_OK : rc;
    } else if (choice < 11) {
        rc = pr_any(f, *count, tasks);
        *seen += rc > 0 ? (unsigned)rc : 0;
        rc = rc > 0 || rc == PR_EINVAL ? PR_OK : rc; /* all of them may be cancelled */
    } else if (choice < 13) {
        pr_cancel(f, tasks[random_below(r, *count)]);
    } else if (choice == 13) {
        *seen = hash_u64(*seen ^ pr_random(f) ^ (uint64_t)pr_now(f));
    } else if (choice == 14) {
        rc = pr_state_set(f, PR_STR("seen"), input);
    } else {
        rc = pr_set_status(f, input);
    }
    return rc;
}

static int random_flow(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    struct random r;
    pr_task tasks[STEPS];
    size_t count = 0;
    uint64_t seen = hash_slice(program, input);
    random_init(&r, program);
    for (int i = 0; i < STEPS; i++) {
        int rc = step(f, &r, tasks, &count, &seen);
        if (rc == PR_ECANCELLED)
            seen++; /* it was told, and goes on as if to clean up */
        else if (rc != PR_OK)
            return rc;
    }
    *ret_output = pr_flow_printf(f, "%llu", (unsigned long long)seen);
    return pr_is_cancelled(f) ? PR_ECANCELLED : PR_OK;
}

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
    else if (s->history.task_count > 0 && random_chance(r, 0.7)) {
        size_t task = random_below(r, s->history.task_count);
        int kind = s->history.tasks[task].kind;
        if (kind == FLOW_EVENT_WAIT || kind == FLOW_EVENT_WAIT_MAIL)
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
        struct stand *s = stand_new(random_flow);
        struct random r;
        size_t told = 0;
        program = hash_u64(seed);
        random_init(&r, seed);
        stand_start(s, "in");
        for (int turn = 0; turn < TURNS_MAX && s->row.state == FLOW_RUNNING; turn++) {
            for (int64_t i = random_between(&r, 1, 4); i > 0; i--)
                told += queue_something(s, &r);
            stand_run(s);
        }
        ended += s->row.state != FLOW_RUNNING;
        events += s->history.count;
        CHECK(s->history.count <= 2 + 2 * STEPS + told); /* start and end, what the code did, what it was told */
        if (s->row.state == FLOW_FAILED)
            check_fail(__FILE__, __LINE__, "seed %d: %s", (int)seed, stand_error(s));
        if (s->row.state != FLOW_RUNNING)
            CHECK_EQ(s->activity_count <= s->history.task_count, true);
        stand_free(s);
    }
    CHECK_EQ(ended, SEEDS);
    CHECK(events > SEEDS * 10);
}
