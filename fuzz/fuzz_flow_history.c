/* The text of a damaged history: it is refused with a reason, or it can be written again, waited for and replayed
 * (B162).  The whole input is the text. */
#include "fuzz.h"

#include <postrider_flow.h>

#include "base/buf.h"
#include "base/slice.h"
#include "flow/replay.h"

/* Asks for a bit of everything, so that some of it fits. */
static int some_flow(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_task tasks[] = { pr_activity(f, "a", input), pr_timer(f, PR_SECONDS(1)), pr_event(f, "e"), pr_mail(f, "m"),
                        pr_child(f, "c", input) };
    int first = pr_any(f, 5, tasks);
    if (first < 0)
        return first;
    pr_cancel(f, tasks[(first + 2) % 5]);
    (void)pr_now(f);
    (void)pr_uuid(f);
    pr_task again = pr_mail(f, "m");
    int rc = pr_all(f, 5, tasks);
    if (rc == PR_ECANCELLED)
        rc = pr_call(f, "clean", pr_get_status(f), ret_output);
    if (rc != PR_OK || (rc = pr_result(f, again, ret_output, NULL)) != PR_OK)
        return rc;
    return pr_state_count(f) > 1 ? pr_continue_as_new(f, input, NULL) : pr_result(f, tasks[first], ret_output, NULL);
}

static void check_written_again(const struct flow_history *h)
{
    struct flow_history again;
    struct pr_error error;
    struct buf first, second;
    buf_init(&first, SIZE_MAX / 2);
    buf_init(&second, SIZE_MAX / 2);
    flow_history_init(&again, h->execution);
    flow_history_encode(&first, h->events, h->count, 1);
    FUZZ_CHECK(flow_history_decode(&again, buf_slice(&first), &error) == PR_OK);
    flow_history_encode(&second, again.events, again.count, 1);
    FUZZ_CHECK(slice_eq(buf_slice(&first), buf_slice(&second)));
    FUZZ_CHECK(again.task_count == h->task_count && again.cancelled == h->cancelled);
    flow_history_fini(&again);
    buf_fini(&first);
    buf_fini(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const pr_id execution = { { 1 } };
    const struct flow_code code = { .name = PR_STR("f"), .version = PR_STR("1"), .function = some_flow };
    struct flow_history h;
    struct pr_error error = { .code = 0 };
    struct arena arena;
    arena_init(&arena, 4096);
    flow_history_init(&h, execution);
    int rc = flow_history_decode(&h, (pr_slice){ (const char *)data, size }, &error);
    FUZZ_CHECK(rc == PR_OK || (rc == PR_ECORRUPT && error.text[0] != '\0'));
    check_written_again(&h); /* also of what was good before the damage */
    const struct flow_wait *waits;
    size_t count;
    FUZZ_CHECK(flow_waits(&h, &arena, &waits, &count) == PR_OK);
    FUZZ_CHECK(count <= h.task_count);
    struct flow_replayed replayed;
    rc = flow_replay(&h, &code, &arena, &replayed, &error);
    FUZZ_CHECK(h.count == 0 ? rc == PR_EINVAL : rc == PR_OK);
    if (rc == PR_OK && !replayed.diverged && h.count < 40)
        FUZZ_CHECK(flow_check_prefixes(&h, &code, &arena, &error) == PR_OK);
    flow_history_fini(&h);
    arena_fini(&arena);
    return 0;
}
