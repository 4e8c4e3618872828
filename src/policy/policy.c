#include "policy/policy.h"

#include <limits.h>

#include "base/error.h"
#include "base/time.h"
#include "base/util.h"

/* The delay that the other side requested is honoured, whatever decides (B74). */
static int64_t at_least_asked_us(const struct failure *failure, int64_t delay_us)
{
    return max64(delay_us, min64(failure->retry_after_us, RETRY_DELAY_MAX_US));
}

enum fault failure_fault(const struct failure *failure)
{
    return reason_fault(failure->reason, failure->code, failure->unsent);
}

/* The dead letter says that the retries ran out; the reason of the real failure is kept. */
static void end_retries(int limit, struct decision *ret)
{
    ret->step = STEP_DEAD_LETTER;
    ret->cause = PR_REASON_POISON_MESSAGE;
    ret->limit = limit;
}

static int retry_limit(const struct retry_setting *retry)
{
    return retry->delays != NULL ? (int)retry->delay_count + 1 : retry->failures;
}

static void decide_by_count(const struct retry_setting *retry, const struct failure *failure, double draw,
                            struct decision *ret)
{
    int64_t delay = failure->reason != PR_REASON_POISON_MESSAGE ? retry_delay_us(retry, failure->failures, draw) : -1;

    if (delay < 0) {
        end_retries(retry_limit(retry), ret);
        return;
    }
    ret->step = STEP_RETRY;
    ret->delay_us = at_least_asked_us(failure, delay);
}

/* How often the message may fail like this before it can be blamed; 0: no limit. */
static int patience(const struct retry_setting *retry, enum fault fault)
{
    int limit = retry_limit(retry);

    return fault == FAULT_CONTENT && (limit == 0 || limit > RETRY_CONTENT_FAILURES) ? RETRY_CONTENT_FAILURES : limit;
}

/* The sum of its earlier delays, and the time since its previous failure, which may be longer than its delay, since a
 * breaker counts no failed probes.  The sum never exceeds the time since the first failure. */
static bool is_over(const struct retry_setting *retry, const struct failure *failure)
{
    return retry->give_up_us > 0 && failure->failures >= 2 && failure_fault(failure) == FAULT_NOBODY &&
           time_add(retry_spent_us(retry, failure->failures - 2), failure->since_us) >= retry->give_up_us;
}

static void decide_by_blame(const struct retry_setting *retry, const struct failure *failure, double draw,
                            struct decision *ret)
{
    enum fault fault = failure_fault(failure);
    int limit = patience(retry, fault);
    bool used_up = limit > 0 && failure->failures >= limit;

    if (fault == FAULT_ENDPOINT) {
        ret->step = STEP_POSTPONE;
        ret->delay_us = at_least_asked_us(failure, failure->postpone_us);
    } else if (used_up && (fault == FAULT_CONTENT || failure->proven)) {
        end_retries(limit, ret);
    } else if (is_over(retry, failure)) {
        end_retries(0, ret);
        ret->gave_up = true;
    } else {
        int64_t delay_us = retry_again_us(retry, failure->failures, draw);
        ret->step = STEP_RETRY;
        ret->delay_us = at_least_asked_us(failure, used_up ? max64(delay_us, RETRY_UNPROVEN_US) : delay_us);
    }
}

static void decide_by_retry(const struct retry_setting *retry, const struct failure *failure, double draw,
                            struct decision *ret)
{
    *ret = (struct decision){ .rule = PR_STR("retry") };
    if (retry->blame == BLAME_EVIDENCE && failure->reason != PR_REASON_POISON_MESSAGE)
        decide_by_blame(retry, failure, draw, ret);
    else
        decide_by_count(retry, failure, draw, ret);
}

static void take_step(const struct rule_step *s, size_t index, struct decision *ret)
{
    ret->step = s->step;
    ret->by = s;
    ret->index = index;
}

/* `left` failures belong to this step.  false: it does not decide, and the next one is asked. */
static bool ask_step(const struct rule_step *s, const struct failure *failure, int left, double draw,
                     int64_t *ret_delay_us)
{
    int64_t delay = 0;

    if (s->step == STEP_RETRY)
        delay = retry_delay_us(&s->retry, left, draw);
    else if (s->step == STEP_RETRY_NOW && left > s->times)
        delay = -1;
    *ret_delay_us = at_least_asked_us(failure, delay);
    return delay >= 0;
}

/* calls_from: calls before this step were made already. */
static void decide_by_rule(const struct rule *rule, const struct failure *failure, size_t calls_from, double draw,
                           struct decision *ret)
{
    int left = failure->failures;

    *ret = (struct decision){ .rule = rule->name, .matched = rule };
    for (size_t i = 0; i < rule->step_count; i++) {
        const struct rule_step *s = &rule->steps[i];
        bool skip = s->step == STEP_CALL && i < calls_from;

        if (!skip && ask_step(s, failure, left, draw, &ret->delay_us)) {
            take_step(s, i, ret);
            break;
        }
        left -= rule_step_width(s);
    }
    if (ret->by != NULL && ret->step != STEP_DEAD_LETTER)
        return;
    ret->step = STEP_DEAD_LETTER;
    ret->delay_us = 0;
    ret->index = ret->by != NULL ? ret->index : rule->step_count;
    /* At the first failure it dies for its reason, later because its retries ran out (D6). */
    ret->cause = ret->by != NULL && left == failure->failures ? failure->reason : PR_REASON_POISON_MESSAGE;
    ret->limit = ret->cause == failure->reason ? 0 : failure->failures - left + 1;
}

/* No rule brings poison back. */
static void never_retry_poison(const struct failure *failure, struct decision *d)
{
    if (failure->reason != PR_REASON_POISON_MESSAGE || step_is_end(d->step))
        return;
    d->step = STEP_DEAD_LETTER;
    d->delay_us = 0;
    d->cause = PR_REASON_POISON_MESSAGE;
    d->by = NULL;
}

static const struct rule *find_rule(const struct rule *rules, size_t count, const struct failure *failure)
{
    for (size_t i = 0; i < count; i++)
        if (matcher_matches(&rules[i].when, failure))
            return &rules[i];
    return NULL;
}

/* The endpoint's own rules first. */
static const struct rule *matching_rule(const struct policy *policy, const struct failure *failure)
{
    const struct rule *rule = find_rule(policy->own, policy->own_count, failure);

    return rule != NULL ? rule : find_rule(policy->global, policy->global_count, failure);
}

bool policy_counts_plainly(const struct policy *policy, const struct failure *failure)
{
    return policy->retry.blame == BLAME_ALWAYS || matching_rule(policy, failure) != NULL;
}

bool policy_gives_up(const struct policy *policy, const struct failure *failure)
{
    return !policy_counts_plainly(policy, failure) && is_over(&policy->retry, failure);
}

void policy_decide(const struct policy *policy, const struct failure *failure, double draw, struct decision *ret)
{
    const struct rule *rule = matching_rule(policy, failure);

    ASSERT(failure->failures >= 1);
    if (rule == NULL) {
        decide_by_retry(&policy->retry, failure, draw, ret);
        return;
    }
    decide_by_rule(rule, failure, 0, draw, ret);
    never_retry_poison(failure, ret);
}

void policy_decide_after(const struct decision *before, const struct failure *failure, double draw,
                         struct decision *ret)
{
    struct decision asked = *before;

    ASSERT(asked.step == STEP_CALL);
    decide_by_rule(asked.matched, failure, asked.index + 1, draw, ret);
    never_retry_poison(failure, ret);
}
