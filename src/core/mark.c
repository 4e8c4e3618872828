#include "core/mark.h"

#include "core/ended.h"
#include "core/id.h"

/* A message that moves to another endpoint continues under a new id: in the ledger it has not ended, but this handler
 * is done with it. */
static int outcome_of(const struct verdict *v)
{
    struct ended e;
    if (v->kind == VERDICT_DISCARD)
        return ENDED_DISCARDED;
    return v->kind != VERDICT_DUPLICATE && v->kind != VERDICT_ASK && ended_of_verdict(v, false, &e) ? (int)e.as : 0;
}

bool mark_of_verdict(const struct verdict *v, pr_slice box, pr_slice destination, int64_t keep_us, struct effect *ret)
{
    int outcome = outcome_of(v);
    if (keep_us == 0 || !mark_is_made_for(destination) || pr_id_is_zero(v->id) || outcome == 0)
        return false;
    *ret = (struct effect){
        .kind = EFFECT_SEEN,
        .box = box,
        .id = v->id,
        .key = mark_handler(destination, v->endpoint),
        .takes_verdict = true,
        .outcome = outcome,
        .alone = destination.size == 0,
        .keep_us = keep_us,
    };
    return true;
}
