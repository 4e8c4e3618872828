#include "policy/explain.h"

#include "base/time.h"
#include "base/util.h"

/* A message that fails again and again. */
struct course {
    const struct policy *policy;
    const struct breaker_setting *breaker;
    struct failure f;
    struct setback setback;
    int64_t at_us;
};

static void decide(struct course *c, struct decision *ret)
{
    if (failure_fault(&c->f) == FAULT_ENDPOINT)
        c->f.postpone_us = setback_failed(&c->setback, c->breaker, c->at_us);
    policy_decide(c->policy, &c->f, 0, ret);
}

static int64_t wait_us(const struct failure *f, const struct decision *d)
{
    int64_t pause_us = d->by != NULL && d->by->pause_us != PR_NEVER ? d->by->pause_us : 0;

    return max64(max64(d->delay_us, pause_us), f->retry_after_us);
}

/* A call may decide anything; the explanation assumes that it does not decide. */
static struct decision after_calls(const struct course *c, struct decision d)
{
    while (d.step == STEP_CALL)
        policy_decide_after(&d, &c->f, 0, &d);
    return d;
}

static void go_on(struct course *c, const struct decision *d)
{
    int64_t us = wait_us(&c->f, d);

    c->at_us = time_add(c->at_us, us);
    c->f.age_us = time_add(c->f.age_us, us);
    c->f.since_us = us;
    if (d->step != STEP_POSTPONE)
        c->f.failures++;
}

/* Postponed without end, with a delay that no longer grows. */
static bool repeats(const struct explanation *x, const struct decision *d)
{
    return d->step == STEP_POSTPONE && x->line_count >= 2 &&
           x->lines[x->line_count - 2].decision.delay_us == d->delay_us;
}

/* Assumes that no other message is delivered. */
static void explain_without_evidence(struct course *c, struct explanation *ret)
{
    struct decision d;

    c->f.proven = false;
    decide(c, &d);
    if (step_is_end(d.step) && !d.gave_up)
        return;
    ret->needs_evidence = true;
    ret->unproven = d;
    for (int i = 0; i < EXPLAIN_TRIES_MAX && !step_is_end(d.step); i++) {
        go_on(c, &d);
        decide(c, &d);
        d = after_calls(c, d);
    }
    ret->gives_up = d.gave_up;
    ret->given_up = c->f.failures;
    ret->given_up_us = c->at_us;
}

void policy_explain(const struct policy *policy, const struct breaker_setting *breaker, const struct failure *failure,
                    struct explanation *ret)
{
    struct course c = { .policy = policy, .breaker = breaker, .f = *failure };

    c.f.proven = true;
    *ret = (struct explanation){ 0 };
    while (ret->line_count < EXPLAIN_LINES_MAX) {
        struct explain_line *line = &ret->lines[ret->line_count++];
        struct decision next;

        *line = (struct explain_line){ .failure = c.f.failures, .at_us = c.at_us };
        decide(&c, &line->decision);
        next = after_calls(&c, line->decision);
        if (step_is_end(next.step)) {
            if (next.matched == NULL)
                explain_without_evidence(&c, ret);
            return;
        }
        ret->endless = next.step == STEP_PAUSE || repeats(ret, &next);
        if (ret->endless)
            break;
        go_on(&c, &next);
    }
    ret->goes_on = true;
}
