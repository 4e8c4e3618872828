#include "store/order.h"

#include "base/error.h"
#include "base/util.h"

struct row_order order_of_admin(const struct admin *admin)
{
    return (struct row_order){
        .kind = admin->kind,
        .by = admin->by,
        .why = admin->why,
        .due_us = admin->until_us,
        .cause = admin->cause,
        .verdict = admin->verdict,
        .edit = admin->edit,
        .made = admin->made,
    };
}

bool order_is_by_stream(const struct admin *admin)
{
    return admin->kind == ADMIN_RELEASE && !order_is_by_id(admin) && admin->filter.stream.size > 0;
}

enum order_takes order_takes(const struct admin *admin, const struct pr_message *m, pr_id edited_as)
{
    bool edited = !pr_id_is_zero(edited_as); /* replaced by an edited message */
    bool refused = false;
    switch (admin->kind) {
    case ADMIN_RELEASE: /* not the failed head itself, which the others wait behind */
        refused = !order_is_by_stream(admin) && !message_may_overtake(m);
        break;
    case ADMIN_DEAD_REPLAY: refused = edited; break;
    case ADMIN_DEAD_EDIT: return edited ? ORDER_REFUSES : ORDER_TAKES;
    default: break;
    }
    if (!refused)
        return ORDER_TAKES;
    return order_is_by_id(admin) ? ORDER_REFUSES : ORDER_SKIPS; /* skipped silently when a filter found it */
}

int order_check_matched(const struct admin *admin, uint64_t matched, struct pr_error *reterr)
{
    if (admin->kind == ADMIN_DEAD_EDIT && matched > 1)
        return error_set(reterr, PR_EINVAL, "the message died at several endpoints: name the endpoint, too");
    return PR_OK;
}

/* Of two pauses the later end applies; an expired pause does not count. */
int64_t order_pause_us(const struct admin *admin, int64_t current_us, int64_t now_us)
{
    int64_t wanted_us = admin->until_us != 0 ? admin->until_us : PR_NEVER;
    if (admin->kind == ADMIN_RESUME)
        return current_us > now_us ? 0 : -1;
    return wanted_us > max64(current_us, now_us) ? wanted_us : -1;
}

/* By id, or a single row: each gets a notice of its own. */
bool order_notices_each(const struct admin *admin, size_t changed)
{
    return changed <= 1 || (order_is_by_id(admin) && changed <= NOTICES_EACH_MAX);
}
