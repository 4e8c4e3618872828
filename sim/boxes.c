/* Two boxes of one store: an outbox as in the world of one box, one of whose endpoints is the inbox, and an inbox with
 * dedupe, into which sources also bring messages, more than once, and whose handlers complete some of them in their own
 * transactions.  Each box is judged like a world of one box; check_inbox.c judges what goes between them. */
#include "life.h"

#include "base/hash.h"
#include "base/slice.h"
#include "base/util.h"

#define DEDUPE_FOR_EVER_US (PR_SECONDS(86400) * 36500)

/* One of its endpoints, but not the one that is always down, is the other box. */
static void draw_outbox(struct scenario *s, const struct life *life)
{
    struct random r;
    die_init(&r, life->seed, "local endpoint");
    scenario_draw(s, life->seed, life->sqlite, life->messages, life->safety_us);
    s->other.drawn = false;
    s->copied = 0;      /* one that the inbox has split would go into it again, and I33 counts each once */
    s->inlined = 0;     /* nothing can be sent into a box directly */
    s->faults.lost = 0; /* who has what then, the boxes tell in other words */
    unsigned local = (unsigned)random_below(&r, s->engine.endpoint_count);
    if (local + 1 == s->blackout)
        local = (local + 1) % (unsigned)s->engine.endpoint_count;
    if (s->worker)
        return; /* it takes everything itself */
    s->endpoints[local].into_box = PR_STR("inbox");
    s->endpoints[local].breaker.enabled = false;
}

static void draw_inbox(struct scenario *s, const struct scenario *outbox, const struct life *life)
{
    struct random r;
    die_init(&r, life->seed, "inbox");
    scenario_draw(s, hash_u64(life->seed + 1), life->sqlite, life->messages, outbox->safety_us);
    s->other.drawn = false;
    scenario_move_into(s, PR_STR("inbox"), BOX_INBOX);
    s->faults.drift = outbox->faults.drift;
    s->faults.lost = s->faults.undecodable = 0;
    s->faults.operator_every_us = s->faults.edit_every_us = s->faults.export_every_us = s->faults.share_every_us = 0;
    s->faults.step_every_us = 0; /* the first one's clock is everybody's */
    s->with_effect = s->to_nowhere = s->inlined = 0;
    s->engine.dedupe_us = DEDUPE_FOR_EVER_US;
    s->copied = random_chance(&r, 0.5) ? 0 : 0.4;
    s->settled = random_chance(&r, 0.2) ? 0 : 0.2 + 0.8 * random_double(&r);
    s->faults.handler = random_chance(&r, 0.3) ? 0 : 0.2 * random_double(&r);
    if (s->sqlite)
        s->engine.keep_us = 0; /* a handler's own connection knows nothing of this world's clock */
    s->sourced = (unsigned)random_between(&r, 1, 60);
    s->brought_again = random_double(&r) * 0.8;
    s->messages = s->messages / 2;
}

bool boxes_life(const struct life *life, struct life_counts *counts, struct breach *ret)
{
    static struct scenario scenarios[2];
    struct world outbox, inbox;

    draw_outbox(&scenarios[0], life);
    draw_inbox(&scenarios[1], &scenarios[0], life);
    scenarios[0].check = scenarios[1].check = life->check;
    world_init_with(&outbox, &scenarios[0]);
    world_init_beside(&inbox, &scenarios[1], &outbox);
    outbox.history.name = "outbox";
    inbox.history.name = "inbox";
    outbox.history.trace = inbox.history.trace = life->trace;
    world_live(&outbox);
    bool good = check_world(&outbox, ret);
    if (!good)
        life_show_breach(&outbox, ret);
    if (good && !(good = check_world(&inbox, ret)))
        life_show_breach(&inbox, ret);
    life_count(counts, &outbox);
    life_count(counts, &inbox);
    world_fini(&inbox);
    world_fini(&outbox);
    return good;
}
