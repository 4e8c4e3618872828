#include "policy/rule.h"

#include <limits.h>

#include "base/error.h"
#include "base/glob.h"
#include "base/slice.h"
#include "base/utf8.h"

const char *step_name(enum step step)
{
    static const char *const names[] = {
        [STEP_RETRY] = "retry", [STEP_DEAD_LETTER] = "dead_letter", [STEP_DISCARD] = "discard",
        [STEP_PARK] = "park",   [STEP_RETRY_NOW] = "retry_now",     [STEP_PAUSE] = "pause",
        [STEP_CALL] = "call",   [STEP_POSTPONE] = "postpone",
    };
    return names[step];
}

bool step_is_end(enum step step)
{
    return step == STEP_DEAD_LETTER || step == STEP_DISCARD || step == STEP_PARK;
}

int rule_step_width(const struct rule_step *s)
{
    switch (s->step) {
    case STEP_RETRY_NOW: return s->times;
    case STEP_CALL: return 0;
    case STEP_RETRY:
        if (s->retry.delays != NULL)
            return (int)s->retry.delay_count;
        return s->retry.failures > 0 ? s->retry.failures - 1 : INT_MAX;
    default: return INT_MAX;
    }
}

int rule_check_delay(int64_t us, struct pr_error *reterr)
{
    if (us < 0)
        return error_set(reterr, PR_EINVAL, "a delay must not be negative");
    if (us > RETRY_DELAY_MAX_US)
        return error_set(reterr, PR_EINVAL, "a delay must not be longer than a year");
    return PR_OK;
}

static int check_retry(const struct retry_setting *r, struct pr_error *reterr)
{
    int rc = rule_check_delay(r->base_us, reterr);

    if (rc == PR_OK)
        rc = rule_check_delay(r->cap_us, reterr);
    if (r->delay_count > RETRY_DELAYS_MAX)
        return error_set(reterr, PR_EINVAL, "a list can have at most %d delays", RETRY_DELAYS_MAX);
    for (size_t i = 0; rc == PR_OK && i < r->delay_count; i++)
        rc = rule_check_delay(r->delays[i], reterr);
    if (rc == PR_OK && r->delays == NULL && !(r->factor >= 1 && r->factor <= 100))
        return error_set(reterr, PR_EINVAL, "a factor must be between 1 and 100");
    if (rc == PR_OK && !(r->jitter >= 0 && r->jitter <= 1))
        return error_set(reterr, PR_EINVAL, "a jitter must be between 0 and 1");
    if (rc == PR_OK && r->failures < 0)
        return error_set(reterr, PR_EINVAL, "failures must not be negative");
    return rc;
}

static int check_raise(const struct raise *raise, struct pr_error *reterr)
{
    if (raise->type.size == 0 || raise->type.size > PR_TYPE_MAX || !utf8_valid(raise->type))
        return error_set(reterr, PR_EINVAL, "raise needs a type of 1 to %d bytes", PR_TYPE_MAX);
    if (raise->to.size > PR_NAME_MAX || raise->stream.size > PR_NAME_MAX)
        return error_set(reterr, PR_EINVAL, "to and stream of raise can have at most %d bytes", PR_NAME_MAX);
    if (raise->payload.size > RAISE_PAYLOAD_MAX)
        return error_set(reterr, PR_EINVAL, "the payload of raise can have at most %d bytes", RAISE_PAYLOAD_MAX);
    return PR_OK;
}

static int check_step(const struct rule_step *s, struct pr_error *reterr)
{
    int rc = s->step == STEP_RETRY ? check_retry(&s->retry, reterr) : PR_OK;

    if (rc == PR_OK && s->step == STEP_RETRY_NOW && (s->times < 1 || s->times > RETRY_NOW_MAX))
        return error_set(reterr, PR_EINVAL, "retry_now must be 1 to %d", RETRY_NOW_MAX);
    if (rc == PR_OK && s->pause_us != PR_NEVER)
        rc = rule_check_delay(s->pause_us, reterr);
    if (rc == PR_OK && s->step == STEP_PAUSE && s->pause_us == 0)
        return error_set(reterr, PR_EINVAL,
                         "a step needs an action: retry_now, retry, dead_letter, discard, park, pause or call");
    if (rc == PR_OK && s->step == STEP_CALL && s->call.size == 0)
        return error_set(reterr, PR_EINVAL, "call needs the name of a function");
    if (rc == PR_OK && s->call.size > PR_NAME_MAX)
        return error_set(reterr, PR_EINVAL, "the name of a function can have at most %d bytes", PR_NAME_MAX);
    return rc == PR_OK && s->raise != NULL ? check_raise(s->raise, reterr) : rc;
}

static int check_matcher(const struct matcher *m, int depth, struct pr_error *reterr)
{
    int rc = PR_OK;

    if (depth > MATCHER_DEPTH_MAX)
        return error_set(reterr, PR_EINVAL, "and, or, not can be nested at most %d deep", MATCHER_DEPTH_MAX);
    if (m->part_count > MATCHER_LIST_MAX || m->text_count > MATCHER_LIST_MAX)
        return error_set(reterr, PR_EINVAL, "a list in a matcher can have at most %d entries", MATCHER_LIST_MAX);
    if (m->kind == MATCH_NOT && m->part_count != 1)
        return error_set(reterr, PR_EINVAL, "not needs exactly one matcher");
    for (size_t i = 0; rc == PR_OK && i < m->text_count; i++) {
        if (m->kind != MATCH_CONTAINS)
            rc = glob_check(m->texts[i], reterr);
        else if (m->texts[i].size > MATCHER_TEXT_MAX)
            rc = error_set(reterr, PR_EINVAL, "a text to search for can have at most %d bytes", MATCHER_TEXT_MAX);
    }
    for (size_t i = 0; rc == PR_OK && i < m->part_count; i++)
        rc = check_matcher(&m->parts[i], depth + 1, reterr);
    return rc;
}

int rule_check(const struct rule *rule, struct pr_error *reterr)
{
    int rc = PR_OK;

    if (rule->name.size == 0 || rule->name.size > RULE_NAME_MAX || !utf8_valid(rule->name))
        return error_set(reterr, PR_EINVAL, "a rule needs a name of 1 to %d bytes", RULE_NAME_MAX);
    if (rule->step_count == 0 || rule->step_count > RULE_STEPS_MAX)
        return error_set(reterr, PR_EINVAL, "a rule needs 1 to %d steps", RULE_STEPS_MAX);
    for (size_t i = 0; rc == PR_OK && i < rule->step_count; i++)
        rc = check_step(&rule->steps[i], reterr);
    return rc == PR_OK ? check_matcher(&rule->when, 0, reterr) : rc;
}
