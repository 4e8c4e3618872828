#include "policy/courtesy.h"

#include "base/util.h"

/* Of the time that our cycles take, how much can be rested in addition? */
static double share_of(const struct courtesy *c, double sent, double elapsed_us)
{
    double busy_us = elapsed_us - (double)c->rested_us;
    if (sent * 1e6 < COURTESY_SENT_MIN * elapsed_us || busy_us <= 0)
        return 0;
    double faster = ((double)c->ended / busy_us) / (sent / elapsed_us); /* than they send, without any rest */
    double share = faster / COURTESY_FASTER - 1;
    return share <= 0 ? 0 : share >= COURTESY_SHARE_MAX ? COURTESY_SHARE_MAX : share;
}

static void courtesy_look(struct courtesy *c, int64_t now_us, int64_t drawn)
{
    if (c->drawn > 0) /* a box that was restored may have fewer: nobody has sent */
        c->share = share_of(c, (double)max64(drawn - c->drawn, 0), (double)(now_us - c->looked_us));
    c->drawn = drawn;
    c->looked_us = now_us;
    c->ended = 0;
    c->rested_us = 0;
}

int64_t courtesy_rest(struct courtesy *c, int64_t now_us, const struct courtesy_cycle *cycle)
{
    c->ended += cycle->ended;
    if (cycle->drawn > 0 && (c->drawn == 0 || now_us - c->looked_us >= COURTESY_LOOK_US))
        courtesy_look(c, now_us, cycle->drawn);
    if (!cycle->backlog)
        return 0;
    int64_t rest_us = min64((int64_t)((double)cycle->took_us * c->share), COURTESY_REST_MAX_US);
    c->rested_us += rest_us;
    return rest_us;
}
