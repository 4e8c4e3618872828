/* I22: no more than its rate goes to an endpoint, from one engine.
 *
 * An engine counts a message when it chooses it, and the message goes out when its receipt is stored and the transport
 * has room: so late that several may go at once.  What went out in a while was chosen in that while or before it; in so
 * much time no more may have been chosen than the rate allows, and the tenth of a second that comes as a burst. */
#include "base/util.h"
#include "checkers.h"

#define BURST_US PR_MILLISECONDS(100)

/* A new engine knows nothing of the sends before. */
void check_rate_up(struct checker *c, const struct event *e)
{
    for (size_t i = 0; i < SIM_ENDPOINTS_MAX; i++)
        c->paces[e->instance][i].count = 0;
}

void check_rate_start(struct checker *c, const struct event *e, const struct shadow_row *row)
{
    const struct rate_setting *rate = &c->s->endpoints[e->what].rate;
    struct shadow_pace        *pace = &c->paces[e->instance][e->what];
    int64_t                    since_us = INT64_MAX;

    if (rate->count == 0)
        return;
    pace->sends[pace->count % SHADOW_SENDS].at_us = e->at_us;
    pace->sends[pace->count++ % SHADOW_SENDS].chosen_us = row->chosen_us;
    size_t most = min_size(pace->count, SHADOW_SENDS);
    for (size_t n = 1; n <= most; n++) {
        since_us = min64(since_us, pace->sends[(pace->count - n) % SHADOW_SENDS].chosen_us);
        double allowed = (double)max64(rate->period_us, rate->count * BURST_US) / (double)rate->period_us +
                         (double)(e->at_us - since_us) * (double)rate->count / (double)rate->period_us;
        if ((double)n > allowed + 1e-6) {
            breach_set(c, "I22", "%zu messages went to e%u within %lld us; its rate is %lld in %lld us", n, e->what,
                       (long long)(e->at_us - since_us), (long long)rate->count, (long long)rate->period_us);
            return;
        }
    }
}
