#include "policy/matcher.h"

#include "base/error.h"
#include "base/slice.h"
#include "core/reason.h"
#include "policy/policy.h"

#define REASON_BIT_UNKNOWN 31

/* Reasons are numbered 1, 2, ... and 99. */
uint32_t matcher_reason_bit(int reason)
{
    ASSERT(reason == PR_REASON_UNKNOWN || (reason >= 0 && reason < REASON_BIT_UNKNOWN));
    return UINT32_C(1) << (reason == PR_REASON_UNKNOWN ? REASON_BIT_UNKNOWN : reason);
}

static enum maybe maybe_not(enum maybe value)
{
    return value == MAYBE ? MAYBE : value == MAYBE_NO ? MAYBE_YES : MAYBE_NO;
}

enum maybe matcher_walk(const struct matcher *m, matcher_leaf leaf, const void *arg)
{
    enum maybe result = m->kind == MATCH_ANY ? MAYBE_NO : MAYBE_YES;

    if (m->kind == MATCH_NOT)
        return maybe_not(matcher_walk(&m->parts[0], leaf, arg));
    if (m->kind != MATCH_ALL && m->kind != MATCH_ANY)
        return leaf(m, arg);
    for (size_t i = 0; i < m->part_count; i++) {
        enum maybe part = matcher_walk(&m->parts[i], leaf, arg);
        if (m->kind == MATCH_ANY ? part > result : part < result)
            result = part;
    }
    return result;
}

static bool one_matches(const struct matcher *m, pr_slice text)
{
    for (size_t i = 0; i < m->text_count; i++)
        if (m->kind == MATCH_CONTAINS ? slice_contains(text, m->texts[i]) : slice_glob(m->texts[i], text))
            return true;
    return false;
}

static bool in_range(const struct matcher *m, int64_t value)
{
    return value >= m->min && value <= m->max;
}

static bool leaf_matches(const struct matcher *m, const struct failure *f)
{
    switch (m->kind) {
    case MATCH_REASON: return (m->mask & matcher_reason_bit(f->reason)) != 0;
    case MATCH_CLASS: return (m->mask & (UINT32_C(1) << reason_class(f->reason))) != 0;
    case MATCH_CODE: return one_matches(m, f->code);
    case MATCH_TYPE: return one_matches(m, f->message->type);
    case MATCH_ENDPOINT: return one_matches(m, f->endpoint);
    case MATCH_STREAM: return one_matches(m, f->message->stream);
    case MATCH_ERROR:
    case MATCH_CONTAINS: return one_matches(m, f->error);
    case MATCH_SIZE: return in_range(m, (int64_t)(f->message->payload.size + f->unread));
    case MATCH_AGE: return in_range(m, f->age_us);
    case MATCH_FAILURES: return in_range(m, f->failures);
    case MATCH_ALL:
    case MATCH_ANY:
    case MATCH_NOT: break;
    }
    ASSERT(!"a leaf");
    return false;
}

static enum maybe leaf_of_failure(const struct matcher *m, const void *arg)
{
    return leaf_matches(m, arg) ? MAYBE_YES : MAYBE_NO;
}

bool matcher_matches(const struct matcher *matcher, const struct failure *failure)
{
    return matcher_walk(matcher, leaf_of_failure, failure) == MAYBE_YES;
}
