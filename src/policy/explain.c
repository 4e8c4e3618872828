#include "policy/explain.h"

#include "base/util.h"

/* A call may decide anything; what can be told is what follows when it does not. */
static void decide(const struct policy *policy, const struct failure *f, struct decision *ret)
{
    policy_decide(policy, f, 0, ret);
}

static int64_t wait_us(const struct failure *f, const struct decision *d)
{
    int64_t pause_us = d->by != NULL && d->by->pause_us != PR_NEVER ? d->by->pause_us : 0;

    return max64(max64(d->delay_us, pause_us), f->retry_after_us);
}

void policy_explain(const struct policy *policy, const struct failure *failure, struct explanation *ret)
{
    struct failure f = *failure;
    int64_t at_us = 0;

    ret->line_count = 0;
    ret->goes_on = ret->endless = false;
    while (ret->line_count < EXPLAIN_LINES_MAX) {
        struct explain_line *line = &ret->lines[ret->line_count++];
        struct decision next;

        *line = (struct explain_line){ .failure = f.failures, .at_us = at_us };
        decide(policy, &f, &line->decision);
        next = line->decision;
        while (next.step == STEP_CALL)
            policy_decide_after(&next, &f, 0, &next);
        if (step_is_end(next.step))
            return;
        ret->endless = next.step == STEP_PAUSE;
        if (ret->endless)
            break;
        at_us += wait_us(&f, &next);
        f.age_us += wait_us(&f, &next);
        f.failures++;
    }
    ret->goes_on = true;
}
