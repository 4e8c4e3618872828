/* I22: the stored totals of an endpoint match what happened, and expired data is purged.
 *
 * An engine counts a verdict in the cycle that stores it, before it knows the answer, and takes a count back in the
 * next one when the verdict was not applied.  So a total may be too high by what an engine could not take back: it died
 * or lost its lease before, or the answers of its cycle were lost (those of a cycle that is asked again no longer show
 * stale verdicts).  It is never too low. */
#include "base/util.h"
#include "checkers.h"

/* Where a verdict is counted: 0 is nowhere, endpoint e is e + 1. */
static size_t counted_at(struct checker *c, const struct event *e)
{
    const struct shadow_message *m = &c->messages[e->message];
    const struct shadow_row *row = shadow_find(c, e->message, e->destination);
    unsigned config = shadow_config(c, e, row);
    if (row == NULL || m->parcel->undecodable || !shadow_is_whole(c, row, config))
        return 0;
    return (size_t)shadow_endpoint(c, row, config) + 1;
}

static void count(const struct event *e, struct shadow_total *t)
{
    bool moved = e->what == VERDICT_DISCARD && (e->flag & VERDICT_IS_MOVED) != 0;
    t->counts[TOTAL_SENT] += e->what == VERDICT_COMPLETE;
    t->counts[TOTAL_FAILED] += e->what == VERDICT_FAIL || (e->flag & VERDICT_IS_COUNTED) != 0;
    t->counts[TOTAL_DEAD] += e->what == VERDICT_DEAD_LETTER || moved;
    t->counts[TOTAL_DISCARDED] += e->what == VERDICT_DISCARD && !moved;
    t->counts[TOTAL_EXPIRED] += e->what == VERDICT_EXPIRE;
    t->counts[TOTAL_DUPLICATES] += e->what == VERDICT_DUPLICATE;
}

static void move_all(struct shadow_total *from, struct shadow_total *to)
{
    for (size_t i = 0; i <= SIM_ENDPOINTS_MAX; i++)
        for (size_t k = 0; k < TOTAL_KINDS; k++) {
            to[i].counts[k] += from[i].counts[k];
            from[i].counts[k] = 0;
        }
}

static void drop_all(struct shadow_total *totals)
{
    for (size_t i = 0; i <= SIM_ENDPOINTS_MAX; i++)
        totals[i] = (struct shadow_total){ 0 };
}

void totals_verdict(struct checker *c, const struct event *e)
{
    struct shadow_takeback *t = &c->takebacks[e->instance];
    size_t at = counted_at(c, e);
    if (e->what == VERDICT_ASK) /* counted with the next cycle, if there is one */
        c->too_many[at].counts[TOTAL_SENT] += (e->flag & VERDICT_IS_FENCED) != 0 && e->answer == PR_UNKNOWN;
    else if (e->answer == PR_OK)
        count(e, &c->happened[at]);
    else
        count(e, e->answer == ANSWER_BUSY || e->answer == ANSWER_REFUSED || e->answer == ANSWER_HANDLED
                     ? &t->again[at]
                     : &t->stale[at]);
}

void totals_cycle(struct checker *c, const struct event *e)
{
    struct shadow_takeback *t = &c->takebacks[e->instance];
    if (e->flag != 0) { /* asked again: nobody tells which of its verdicts were stale */
        move_all(t->known, c->too_many);
        return;
    }
    if (e->answer) /* it only looked, and has taken nothing back */
        return;
    drop_all(t->known);
    drop_all(t->known_again);
    move_all(t->stale, t->known);
    move_all(t->again, t->known_again);
}

void totals_end(struct checker *c, uint8_t instance)
{
    struct shadow_takeback *t = &c->takebacks[instance];
    move_all(t->known, c->too_many);
    move_all(t->known_again, c->too_many);
}

void check_total(struct checker *c, const struct event *e)
{
    static const char *const words[TOTAL_KINDS] = { "sent", "failed", "dead", "discarded", "expired", "duplicates" };
    for (uint8_t i = 0; i < SIM_INSTANCES_MAX; i++)
        totals_end(c, i);
    int64_t happened = c->happened[e->destination].counts[e->what];
    int64_t too_many = c->too_many[e->destination].counts[e->what];
    if (e->value < happened || e->value > happened + too_many)
        breach_set(c, "I22", "e%d has a total of %lld %s; %lld were, and %lld could not be taken back",
                   e->destination - 1, (long long)e->value, words[e->what], (long long)happened, (long long)too_many);
}

void check_purge(struct checker *c, const struct event *e)
{
    c->purged_us = (int64_t)e->extra;
    if (e->value > 0)
        breach_set(c, "I22", "%lld messages are kept that should be forgotten", (long long)e->value);
}

/* Found at the end of the world, when there was time to purge. */
void check_purged(struct checker *c, const struct event *e, const struct shadow_row *row)
{
    if (row->state == STATE_DONE && e->what == STATE_DONE && row->forget_us < c->purged_us)
        breach_set(c, "I22", "m%u was to be kept until %lld us ago, and is still there", e->message,
                   (long long)(e->wall_us - row->forget_us));
}
