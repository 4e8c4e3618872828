/* I30: an endpoint's rate over all engines that share it is not exceeded, except for the burst of a tenth of a second.
 *
 * The time of a send is when the transport took it: neither a cycle that stood still nor waiting for a receipt allows
 * more of them at once. */
#include "base/util.h"
#include "checkers.h"

#define BURST_US PR_MILLISECONDS(100)

/* A new engine knows nothing of earlier sends, unless the others do. */
void check_rate_up(struct checker *c, const struct event *e)
{
    if (c->s->limits_shared)
        return;
    for (size_t i = 0; i < SIM_ENDPOINTS_MAX; i++)
        c->paces[e->instance][i].count = 0;
}

void check_rate_start(struct checker *c, const struct event *e)
{
    const struct rate_setting *rate = &c->s->endpoints[e->what].rate;
    struct shadow_pace *pace = &c->paces[c->s->limits_shared ? 0 : e->instance][e->what];
    int64_t since_us = INT64_MAX, until_us = 0;

    if (rate->count == 0)
        return;
    pace->taken_us[pace->count++ % SHADOW_SENDS] = e->value;
    size_t most = min_size(pace->count, SHADOW_SENDS);
    for (size_t n = 1; n <= most; n++) {
        int64_t at_us = pace->taken_us[(pace->count - n) % SHADOW_SENDS];
        since_us = min64(since_us, at_us);
        until_us = max64(until_us, at_us);
        double allowed = (double)max64(rate->period_us, rate->count * BURST_US) / (double)rate->period_us +
                         (double)(until_us - since_us) * (double)rate->count / (double)rate->period_us;
        if ((double)n > allowed + 1e-6) {
            breach_set(c, "I30", "%zu messages went to e%u within %lld us; its rate is %lld in %lld us", n, e->what,
                       (long long)(until_us - since_us), (long long)rate->count, (long long)rate->period_us);
            return;
        }
    }
}
