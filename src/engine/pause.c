/* Pauses that begin in this engine: by a rule, or because the endpoint answered that it is gone.
 *
 * A pause holds at once in this engine, and is stored with the next cycle, so that it survives restarts and holds in
 * all other instances.  Messages that are announced and not started are handed back; those that are out end as
 * usual. */
#include <stdlib.h>

#include "engine/internal.h"

#define WHY_CHARS 200

int64_t endpoint_paused_until(const struct endpoint *ep)
{
    return max64(ep->paused_until_us, ep->pause.until_us);
}

bool endpoint_has_pause(const struct engine *e, const struct endpoint *ep, int64_t now_us)
{
    return endpoint_paused_until(ep) > store_now(e, now_us);
}

void endpoint_return_ready(struct engine *e, struct endpoint *ep)
{
    list_foreach(node, &ep->ready)
        item_return(e, LIST_ENTRY(node, struct item, node), false);
}

static void pause_drop(struct engine *e, struct endpoint *ep)
{
    if (ep->pause.until_us == 0)
        return;
    free(ep->pause.by);
    free(ep->pause.why);
    ep->pause = (struct local_pause){ 0 };
    e->plan.pause_count--;
}

void endpoint_pause(struct engine *e, struct endpoint *ep, int64_t for_us, pr_slice by, pr_slice why, int64_t now_us)
{
    int64_t now = store_now(e, now_us), until_us = for_us >= PR_NEVER - now ? PR_NEVER : now + for_us;

    if (until_us <= endpoint_paused_until(ep))
        return; /* the later end applies */
    e->plan.pause_count += ep->pause.until_us == 0;
    free(ep->pause.by);
    free(ep->pause.why);
    ep->pause =
        (struct local_pause){ .until_us = until_us, .by = text_copy(by, WHY_CHARS), .why = text_copy(why, WHY_CHARS) };
    endpoint_return_ready(e, ep);
}

void pauses_plan(struct engine *e, int64_t now_us)
{
    struct pause *pauses =
        e->plan.pause_count > 0 ? arena_alloc(&e->plan.arena, e->plan.pause_count * sizeof(*pauses)) : NULL;
    size_t count = 0;

    for (size_t i = 0; i < e->endpoint_count && pauses != NULL; i++) {
        struct endpoint *ep = &e->endpoints[i];
        if (ep->pause.until_us == 0)
            continue;
        ep->pause.planned = true;
        pauses[count++] = (struct pause){
            .endpoint = ep->setting->name,
            .for_us = ep->pause.until_us == PR_NEVER ? PR_NEVER : max64(ep->pause.until_us - store_now(e, now_us), 0),
            .by = slice_dup(&e->plan.arena, pr_str(ep->pause.by)),
            .why = slice_dup(&e->plan.arena, pr_str(ep->pause.why)),
        };
    }
    e->plan.cycle.pauses = pauses;
    e->plan.cycle.pause_count = count;
}

/* The pause is stored; from now on what the store says counts, if this reply says it. */
void pauses_committed(struct engine *e, bool endpoints_known)
{
    for (size_t i = 0; i < e->endpoint_count && e->plan.cycle.pause_count > 0; i++) {
        struct endpoint *ep = &e->endpoints[i];
        if (!ep->pause.planned)
            continue;
        if (!endpoints_known)
            ep->paused_until_us = endpoint_paused_until(ep);
        pause_drop(e, ep);
    }
}

void pauses_drop(struct engine *e)
{
    for (size_t i = 0; i < e->endpoint_count; i++)
        pause_drop(e, &e->endpoints[i]);
}
