/* Hand-outs and results: what a transport takes, and what it later reports. */
#include "base/time.h"
#include "engine/internal.h"

#define POSTPONED_US PR_MILLISECONDS(200) /* until a message is handed out again whose receiver's database was busy */
#define LEASE_MARGIN_DIVISOR 10           /* nothing is started in the last tenth of the lease */

static void delivery_begin(struct engine *e, struct item *item, int64_t last_start, int64_t now_us)
{
    item->given = true;
    item->delivery = (struct delivery){
        .message = &item->m,
        .token = item_token(item),
        .attempt = item->number,
        .row = item->row,
        .ask = item->ask,
        .deadline_us = now_us + item->endpoint->setting->timeout_us,
        .start_before_us = last_start,
        .run_next = item->run_next != NULL ? &item->run_next->delivery : NULL,
        .dead = item->dead != NULL ? &item->dead->d : NULL,
    };
    if (item->number == 1 && item->m.due_us == 0)
        histogram_add(&e->counts.commit_to_send, store_now(e, now_us) - item->m.created_us);
}

size_t engine_take(struct engine *e, int64_t now_us, unsigned endpoint, const struct delivery **ret, size_t max)
{
    struct endpoint *ep = &e->endpoints[endpoint];
    int64_t last_start = e->membership.lease_end_us - e->setting.lease_us / LEASE_MARGIN_DIVISOR;
    size_t count = 0;

    ASSERT(endpoint < e->endpoint_count);
    if (now_us >= last_start || e->membership.stopping)
        return 0;
    breakers_sync(e, ep);
    while (count < max) {
        struct list_node *node = list_first(&ep->ready);
        struct item *item;
        if (node == NULL)
            break;
        item = LIST_ENTRY(node, struct item, node);
        if (endpoint_has_pause(e, ep, now_us) || breakers_hold_back(ep, item)) {
            item_return(e, item, false); /* announced before the endpoint was closed: not started */
            continue;
        }
        for (struct item *one = item; one != NULL; one = one->run_next)
            delivery_begin(e, one, last_start, now_us);
        choose_begin(item, now_us);
        item_move(e, item, PLACE_OUT);
        ret[count++] = &item->delivery;
    }
    return count;
}

bool engine_wants_back(struct engine *e, int64_t now_us, unsigned endpoint)
{
    struct endpoint *ep = &e->endpoints[endpoint];
    bool was_shut = ep->shut, tripped = ep->tripped;

    ASSERT(endpoint < e->endpoint_count);
    breakers_sync(e, ep);
    ep->shut = endpoint_has_pause(e, ep, now_us) || ep->gate.seen.state == BREAKER_OPEN;
    ep->tripped = false;
    return ((ep->shut && !was_shut) || tripped) && ep->setting->ahead &&
           (ep->out > 0 || !list_is_empty(&e->window.zombies));
}

void endpoints_call_back(struct engine *e)
{
    for (size_t i = 0; i < e->endpoint_count; i++)
        e->endpoints[i].tripped = true;
}

const struct pr_message *engine_message(const struct engine *e, uint64_t token)
{
    const struct item *item = item_find_token(e, token);

    return item != NULL && item->place == PLACE_OUT ? &item->m : NULL;
}

void engine_set_asks(struct engine *e, unsigned endpoint, const struct ask *asks, size_t count)
{
    ASSERT(endpoint < e->endpoint_count && count <= ASKS_MAX);
    sorts_set_asks(e, &e->endpoints[endpoint], asks, count);
}

/* ---- Results ---- */

struct item *item_find_out(struct engine *e, uint64_t token)
{
    struct item *item = item_find_token(e, token);

    if (item != NULL && item->place == PLACE_ZOMBIE) {
        for (struct item *next; item != NULL; item = next) {
            next = item->run_next;
            item_free(e, item);
        }
        return NULL;
    }
    return item != NULL && item->place == PLACE_OUT ? item : NULL;
}

void judge_success(struct engine *e, struct item *item, int bits, int64_t now_us)
{
    breakers_succeeded(e, item, now_us);
    if (item->dead != NULL)
        run_bury(e, item, now_us);
    else
        judge_complete(e, item, bits);
}

/* Handed back by its receiver, which says nothing about the endpoint. */
static void hand_back_counted(struct engine *e, struct item *item, enum verdict_kind kind,
                              const struct delivery_result *result, int64_t now_us)
{
    breakers_returned(e, item->endpoint, item);
    judge_simple(e, item, kind, PR_REASON_NONE, PR_STR("receiver"), pr_str(result->error), now_us);
}

/* Its receiver cannot handle it now, for a reason that is not the message's. */
static void judge_postponed(struct engine *e, struct item *item, const struct delivery_result *result, int64_t now_us)
{
    struct verdict postponed = {
        .kind = VERDICT_POSTPONE,
        .reason = PR_REASON_DEPENDENCY_FAILURE,
        .code = pr_str(result->code),
        .error = pr_str(result->error),
        .rule = PR_STR("receiver"),
        .delay_us = result->retry_after_us > 0 ? result->retry_after_us : POSTPONED_US,
    };

    int64_t passed_us = peers_pass(e, item, pr_str(result->need), now_us);

    if (passed_us >= 0)
        postponed.delay_us = passed_us;
    breakers_returned(e, item->endpoint, item);
    judge(e, item, &postponed, verdict_traits(VERDICT_POSTPONE)->name, 0, now_us);
}

/* It failed, and its receiver has a retry policy of its own and said when it comes again. */
static void judge_again(struct engine *e, struct item *item, const struct delivery_result *result, int64_t now_us)
{
    const struct verdict again = {
        .kind = VERDICT_FAIL,
        .bits = result->bits,
        .reason = result->reason,
        .code = pr_str(result->code),
        .error = pr_str(result->error),
        .rule = PR_STR("retry"),
        .delay_us = result->retry_after_us,
    };

    breakers_succeeded(e, item, now_us); /* it has answered, so the receiver works */
    judge(e, item, &again, "retry", time_add(store_now(e, now_us), again.delay_us), now_us);
}

/* Its receiver has handled it, and these effects must be stored with the verdict. */
static void settle_with_effects(struct engine *e, struct item *item, const struct delivery_result *result,
                                int64_t now_us)
{
    struct send_effect *effects;

    if (effects_copy(result->effects, &effects) != PR_OK) {
        item_return(e, item, true); /* no memory for the effects: as if it had not been handled */
        return;
    }
    /* When the others of its run could stay without it, its stream waits for the answer, too. */
    item->refusable = effects_can_refuse(effects) || (item->run_next != NULL && effects != NULL);
    struct item *rest = run_detach(item);
    judge_success(e, item, result->bits, now_us);
    item->effects = effects;
    run_follow(e, item, rest, now_us);
}

/* Every other outcome: the item is judged, or comes back, and so do the others of its run. */
static void settle_otherwise(struct engine *e, struct item *item, const struct delivery_result *result, int64_t now_us)
{
    struct item *rest = run_detach(item);

    switch (result->outcome) {
    case SEND_ABANDONED: hand_back_counted(e, item, VERDICT_ABANDON, result, now_us); break;
    case SEND_RELEASED: hand_back_counted(e, item, VERDICT_RELEASE, result, now_us); break;
    case SEND_POSTPONED: judge_postponed(e, item, result, now_us); break;
    case SEND_AGAIN: judge_again(e, item, result, now_us); break;
    case SEND_SETTLED:
    case SEND_UNCERTAIN:
    case SEND_STALE:
        breakers_succeeded(e, item, now_us); /* the receiver works, whatever becomes of the message */
        judge_asking(e, item, result, now_us);
        break;
    default:
        if (item->dead != NULL)
            run_postpone_dead(e, item, result, now_us);
        else
            judge_failure(e, item, result, now_us);
        break;
    }
    run_follow(e, item, rest, now_us);
}

void engine_result(struct engine *e, int64_t now_us, const struct delivery_result *result)
{
    struct item *item = item_find_out(e, result->token);

    if (item == NULL) {
        e->counts.stale++;
        if (result->settled != NULL)
            result->settled(result->settled_arg, PR_STALE);
        return;
    }
    item->settled = result->settled;
    item->settled_arg = result->settled_arg;
    item->settled_as = result->settled_as;
    if (result->outcome != SEND_RETURNED) {
        int64_t took_us = now_us - (item->delivery.deadline_us - item->endpoint->setting->timeout_us);
        choose_ended(e, item->endpoint, took_us, now_us);
        histogram_add(&item->endpoint->durations, took_us);
    }
    if (result->outcome != SEND_POSTPONED && result->outcome != SEND_RETURNED)
        peers_did(e, item, pr_str(result->need), now_us);
    if (result->outcome == SEND_FAILED && result->blamed != 0)
        run_blame(e, item, result);
    else if (result->outcome == SEND_OK)
        settle_with_effects(e, item, result, now_us);
    else if (result->outcome == SEND_RETURNED)
        item_return_unsent(e, item);
    else
        settle_otherwise(e, item, result, now_us);
}
