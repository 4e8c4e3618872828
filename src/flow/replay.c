#include "flow/replay.h"

#include "base/error.h"
#include "base/slice.h"
#include "flow/machine.h"

int flow_replay_beginning(pr_flow *f, const struct flow_history *history, size_t base, const struct flow_code *code,
                          struct arena *arena, struct pr_error *reterr)
{
    if (base == 0)
        return error_set(reterr, PR_EINVAL, "the history is empty");
    *f = (pr_flow){ .id = PR_STR("replay"),
                    .name = code->name,
                    .version = code->version,
                    .execution = history->execution,
                    .user = code->user,
                    .now_us = history->events[base - 1].at_us,
                    .script = history,
                    .script_at = base };
    const struct flow_more *start = history->events[0].more;
    if (start != NULL && start->version.size > 0)
        f->version = start->version;
    random_init(&f->random, base);
    int rc = machine_init(f, history, base, NULL, 0, arena);
    if (rc == PR_OK)
        machine_run(f, code->function);
    machine_fini(f);
    if (rc == PR_OK && f->out_of_memory)
        rc = PR_ENOMEM;
    return rc == PR_OK ? rc : error_set(reterr, rc, "out of memory for a replay");
}

int flow_replay(const struct flow_history *history, const struct flow_code *code, struct arena *arena,
                struct flow_replayed *ret, struct pr_error *reterr)
{
    pr_flow f;
    int rc = flow_replay_beginning(&f, history, history->count, code, arena, reterr);
    if (rc != PR_OK)
        return rc;
    *ret =
        (struct flow_replayed){ .diverged = f.diverged, .ended = f.outcome != FLOW_SUSPENDED, .added = f.fresh_count };
    if (ret->diverged)
        ret->error = f.error;
    return PR_OK;
}

static bool same(const struct flow_event *a, const struct flow_event *b)
{
    return a->kind == b->kind && a->task == b->task && slice_eq(a->name, b->name) && slice_eq(a->data, b->data);
}

/* The commands after a prefix must be those that follow in the whole history; their number may differ, since it depends
 * on facts after the prefix. */
static int check_prefix(const struct flow_history *h, size_t base, const pr_flow *f, struct pr_error *reterr)
{
    size_t at = base;
    if (f->diverged)
        return error_set(reterr, PR_FAILED, "with %zu of %zu events: %.*s", base, h->count,
                         SLICE_ARGS(f->error.message));
    for (size_t i = 0; i < f->fresh_count; i++) {
        while (at < h->count && !flow_event_is_command(&h->events[at]))
            at++;
        if (at == h->count)
            return PR_OK; /* the turn that makes them has not run */
        if (!same(&f->fresh[i], &h->events[at]))
            return error_set(reterr, PR_FAILED,
                             "with %zu of %zu events command %zu is %s %.*s, and in the history %s %.*s", base,
                             h->count, i + 1, flow_event_kind_name(f->fresh[i].kind), SLICE_ARGS(f->fresh[i].name),
                             flow_event_kind_name(h->events[at].kind), SLICE_ARGS(h->events[at].name));
        at++;
    }
    while (at < h->count && !flow_event_is_command(&h->events[at]))
        at++;
    bool ended = f->outcome != FLOW_SUSPENDED;
    if (ended && at < h->count && !flow_event_is_end(&h->events[at]))
        return error_set(reterr, PR_FAILED, "with %zu of %zu events the flow ends, and in the history it goes on", base,
                         h->count);
    return PR_OK;
}

int flow_check_prefixes(const struct flow_history *history, const struct flow_code *code, struct arena *arena,
                        struct pr_error *reterr)
{
    int rc = PR_OK;
    for (size_t base = 1; base <= history->count && rc == PR_OK; base++) {
        pr_flow f;
        rc = flow_replay_beginning(&f, history, base, code, arena, reterr);
        if (rc == PR_OK)
            rc = check_prefix(history, base, &f, reterr);
    }
    return rc;
}
