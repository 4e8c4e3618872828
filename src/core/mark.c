#include "core/mark.h"

#include "core/ended.h"
#include "core/id.h"

bool mark_of_verdict(const struct verdict *v, pr_slice box, pr_slice destination, int64_t keep_us, struct effect *ret)
{
    struct ended e;
    if (keep_us == 0 || v->kind == VERDICT_DUPLICATE || v->kind == VERDICT_ASK || pr_id_is_zero(v->id) ||
        !ended_of_verdict(v, false, &e))
        return false;
    *ret = (struct effect){
        .kind = EFFECT_SEEN,
        .box = box,
        .id = v->id,
        .key = mark_handler(destination, v->endpoint),
        .takes_verdict = true,
        .outcome = (int)e.as,
        .alone = destination.size == 0,
        .keep_us = keep_us,
    };
    return true;
}
