/* An arbitrary message in a box of flows: it is read or refused with a reason, and a turn with it ends in effects that
 * can be stored (B132).  Lines as in input_message(). */
#include "fuzz.h"

#include <postrider_flow.h>

#include "flow/activity.h"
#include "flow/turn.h"

static int some_flow(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_task tasks[] = { pr_activity(f, "a", input), pr_timer(f, PR_SECONDS(1)), pr_event(f, "e"), pr_mail(f, "m"),
                        pr_child(f, "c", input) };
    int first = pr_any(f, 5, tasks);
    return first < 0 ? first : pr_result(f, tasks[first], ret_output, NULL);
}

static void read_activity(const struct pr_message *m, struct arena *arena)
{
    struct activity_message a, again;
    struct pr_message made;
    struct pr_error error = { .code = 0 };
    struct activity_dead dead = { .end = ACTIVITY_POISONED, .count = 6, .limit = 5 };
    int rc = activity_message_read(m, arena, &a, &error);
    FUZZ_CHECK(rc == PR_OK || (rc == PR_EINVAL && error.text[0] != '\0'));
    FUZZ_CHECK(flow_on_activity_dead(m, &dead, arena, &made, &error) == rc);
    if (rc == PR_OK && activity_message_make(&a, arena, &made) == PR_OK)
        FUZZ_CHECK(activity_message_read(&made, arena, &again, &error) == PR_OK && again.task == a.task &&
                   again.retry.tries == a.retry.tries);
}

/* A turn with this message, after what there was before it. */
static void take_turn(struct flow_turn_in *in, const struct pr_message *m, struct flow_turn_out *out)
{
    const struct pr_message *run[] = { m, m };
    struct pr_error error = { .code = 0 };
    in->messages = run;
    in->count = 2;
    FUZZ_CHECK(flow_turn(in, out, &error) == PR_OK);
    FUZZ_CHECK(out->kind != FLOW_TURN_DONE || out->effects[0].kind == EFFECT_FLOW);
    FUZZ_CHECK(out->bad_count == 0 || out->bad_count == 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = input_from(data, size);
    const struct flow_code code = { .name = PR_STR("f"), .version = PR_STR("1"), .function = some_flow };
    const struct pr_message start = {
        .id = { { 1 } }, .type = PR_STR("start"), .stream = PR_STR("x"), .headers = PR_STR("{\"name\":\"f\"}")
    };
    struct pr_message m;
    struct flow_history h;
    struct flow_turn_out out;
    struct pr_error error;
    struct arena arena;
    arena_init(&arena, 4096);
    input_message(&in, &m);
    read_activity(&m, &arena);

    struct flow_turn_in turn = { .code = &code,
                                 .flow = PR_STR("x"),
                                 .now_us = INT64_C(1700000000000000),
                                 .new_execution = { { 0x01, 0x89, 0x0a, 0x5d, 0xac, 0x96, 0x77 } },
                                 .next_execution = { { 2 } },
                                 .turns_box = PR_STR("turns"),
                                 .activities_box = PR_STR("activities"),
                                 .arena = &arena };
    take_turn(&turn, &m, &out); /* no such flow */
    take_turn(&turn, &start, &out);
    FUZZ_CHECK(out.kind == FLOW_TURN_DONE);
    flow_history_init(&h, out.execution);
    FUZZ_CHECK(flow_history_append(&h, out.events, out.event_count, &error) == PR_OK);
    turn.row = out.row;
    turn.history = &h;
    take_turn(&turn, &m, &out); /* a flow that waits for everything */
    if (out.kind == FLOW_TURN_DONE)
        FUZZ_CHECK(flow_history_append(&h, out.events, out.event_count, &error) == PR_OK);
    flow_history_fini(&h);
    arena_fini(&arena);
    return 0;
}
