#include "policy/policy.h"

#include "base/util.h"

const char *step_name(enum step step)
{
    static const char *const names[] = { "retry", "dead_letter", "discard", "park" };
    return names[step];
}

/* Rules will be asked first, in order; this is what follows when none matches. */
static void decide_by_retry(const struct retry_setting *retry, const struct failure *failure, double draw,
                            struct decision *ret)
{
    int64_t delay = retry_delay_us(retry, failure->failures, draw);

    *ret = (struct decision){ .rule = PR_STR("retry") };
    if (delay < 0) {
        /* The dead letter says that the retries ran out; the real failure stays beside it. */
        ret->step  = STEP_DEAD_LETTER;
        ret->cause = PR_REASON_POISON_MESSAGE;
        ret->limit = retry->delays != NULL ? (int)retry->delay_count + 1 : retry->failures;
        return;
    }
    ret->step     = STEP_RETRY;
    ret->delay_us = max64(delay, min64(failure->retry_after_us, RETRY_DELAY_MAX_US));
}

void policy_decide(const struct policy *policy, const struct failure *failure, double draw,
                   struct decision *ret)
{
    decide_by_retry(&policy->retry, failure, draw, ret);
}
