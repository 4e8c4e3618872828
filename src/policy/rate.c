#include "policy/rate.h"

#include "base/util.h"

static int64_t depth(const struct rate_setting *s)
{
    return max64(s->period_us, s->count * RATE_BURST_US);
}

/* A clock that goes back adds no tokens; a caller that asks late finds a full bucket. */
static int64_t missing_at(const struct rate *r, const struct rate_setting *s, int64_t now_us)
{
    int64_t passed_us = now_us > r->at_us ? now_us - r->at_us : 0;
    return passed_us > r->missing / s->count ? 0 : r->missing - passed_us * s->count;
}

bool rate_allows(const struct rate *r, const struct rate_setting *s, size_t pledged, int64_t now_us)
{
    return s->count == 0 || missing_at(r, s, now_us) + ((int64_t)pledged + 1) * s->period_us <= depth(s);
}

uint32_t rate_take(struct rate *r, const struct rate_setting *s, int64_t now_us)
{
    if (s->count == 0)
        return 0;
    int64_t missing = missing_at(r, s, now_us);
    r->fills += missing == 0;
    r->missing = missing + s->period_us;
    r->at_us = max64(r->at_us, now_us);
    return r->fills;
}

void rate_give_back(struct rate *r, const struct rate_setting *s, uint32_t taken)
{
    if (taken == r->fills)
        r->missing = max64(r->missing - s->period_us, 0);
}

void rate_retune(struct rate *r, const struct rate_setting *from, const struct rate_setting *to)
{
    r->missing = (int64_t)((double)r->missing / (double)from->period_us * (double)to->period_us);
}

int64_t rate_next_us(const struct rate *r, const struct rate_setting *s, size_t pledged)
{
    if (s->count == 0)
        return r->at_us;
    int64_t over = r->missing + ((int64_t)pledged + 1) * s->period_us - depth(s);
    return over <= 0 ? r->at_us : r->at_us + (over + s->count - 1) / s->count;
}
