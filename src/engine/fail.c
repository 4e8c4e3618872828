/* From a failure to what follows: the breaker first, then the decision (policy/decide.h), which is carried out here. */
#include <string.h>

#include "base/util.h"
#include "core/id.h"
#include "engine/internal.h"

/* The breaker has just opened: the messages that failed in the same outage are not at fault either. */
void return_burst(struct engine *e, struct endpoint_breaker *opened)
{
    opened->burst = false;
    list_foreach(node, &e->window.judged) {
        struct item *item = LIST_ENTRY(node, struct item, node);
        if (item->weighs_on == opened)
            item_return(e, item, true);
    }
}

/* Hands it back, also when it was never announced (too large to be sent). */
void put_back(struct engine *e, struct item *item)
{
    if (item->place == PLACE_NONE || item->place == PLACE_WAITING)
        item_move(e, item, PLACE_JUDGED);
    item_return(e, item, true);
}

/* ---- The case ----------------------------------------------------------------------------- */

struct id_source {
    struct engine *e;
    int64_t now_us;
};

static pr_id new_id(void *arg)
{
    const struct id_source *from = arg;
    struct engine *e = from->e;
    uint64_t bits[2] = { random_u64(&e->random), 0 };
    uint8_t bytes[10];
    pr_id id;

    /* different from any other engine's */
    bits[1] = hash_bytes(bits[0], &e->membership.instance, sizeof(e->membership.instance));
    memcpy(bytes, bits, sizeof(bytes));
    id_make(store_now(e, from->now_us) / 1000, bytes, &id);
    return id;
}

static struct failure_case case_of(struct engine *e, const struct item *item, const struct delivery_result *result,
                                   struct id_source *ids)
{
    const struct endpoint_setting *setting = item->endpoint->setting;
    struct failure_case c = {
        .policy = &setting->policy,
        .failure = failure_of(&item->m, setting->name, result, store_now(e, ids->now_us)),
        .attempts = item->number,
        .disable = result->disable,
        .box = e->setting.box,
        .now_us = store_now(e, ids->now_us),
        .call = e->setting.call,
        .call_arg = e->setting.call_arg,
        .new_id = new_id,
        .id_arg = ids,
    };

    c.failure.unread = item_payload_size(item) - item->m.payload.size;
    c.failure.proven = evidence_against(e, item, ids->now_us);
    return c;
}

/* ---- What follows ------------------------------------------------------------------------- */

/* The effects go with the item's verdict, or, when it has none, with the next cycle. */
void item_add_effects(struct engine *e, struct item *item, struct send_effect *effects)
{
    effects_append(item->place == PLACE_JUDGED ? &item->effects : &e->plan.effects, effects);
}

static void do_side_actions(struct engine *e, struct item *item, const struct failure_case *c,
                            struct consequences *follows, int64_t now_us)
{
    for (size_t i = 0; i < follows->pause_count; i++)
        endpoint_pause(e, item->endpoint, follows->pauses[i].for_us, follows->pauses[i].by, c->failure.error, now_us);
    item_add_effects(e, item, follows->effects);
    follows->effects = NULL;
}

static void follow(struct engine *e, struct item *item, const struct failure_case *c, struct consequences *follows,
                   const struct delivery_result *result, int64_t now_us)
{
    struct verdict v = failure_verdict(c, follows, result->bits);

    v.passable = result->release_followers && (v.kind == VERDICT_FAIL || v.kind == VERDICT_POSTPONE);

    if (v.kind == VERDICT_RETURN)
        put_back(e, item);
    else
        judge(e, item, &v, step_name(follows->decision.step), failure_next_us(c, follows), now_us);
    do_side_actions(e, item, c, follows, now_us);
}

/* A failure that is simply counted ends by its count, so one message alone cannot open a breaker.  Of the others, only
 * failures by the message's own fault do not count for a breaker: by its content, or since other messages of its type
 * are delivered. */
enum breaker_weight failure_weight(const struct policy *policy, const struct failure *f)
{
    enum fault fault = failure_fault(f);

    if (policy_counts_plainly(policy, f))
        return reason_class(f->reason) == CLASS_TRANSIENT ? WEIGHS_ONCE : WEIGHS_NOTHING;
    return fault == FAULT_CONTENT || (fault == FAULT_NOBODY && f->proven) ? WEIGHS_NOTHING : WEIGHS_ALWAYS;
}

/* true: the failure belongs to the breaker, and the message was handed back. */
static bool ask_breaker(struct engine *e, struct item *item, const struct failure *f, enum breaker_weight weight,
                        int64_t now_us)
{
    struct endpoint *ep = item->endpoint;
    if (f->unsent && weight == WEIGHS_NOTHING) {
        breakers_returned(e, ep, item); /* the endpoint was not contacted: the result says nothing about it */
        return false;
    }
    if (!breakers_failed(e, item, f, weight, now_us) || policy_gives_up(&ep->setting->policy, f))
        return false;
    item_return(e, item, true);
    return true;
}

void judge_failure(struct engine *e, struct item *item, const struct delivery_result *result, int64_t now_us)
{
    struct endpoint *ep = item->endpoint;
    struct id_source ids = { e, now_us };
    struct failure_case c = case_of(e, item, result, &ids);
    enum fault fault = failure_fault(&c.failure);
    enum breaker_weight weight = failure_weight(c.policy, &c.failure);
    bool was_out = item->place == PLACE_OUT;
    struct consequences follows;

    last_failure_set(&ep->last_failure, &c.failure);
    if (fault == FAULT_ENDPOINT)
        c.failure.postpone_us = breakers_set_back(ep, now_us);
    else if (was_out && !result->unsent)
        breakers_end_setback(ep);
    if (was_out && ask_breaker(e, item, &c.failure, weight, now_us))
        return;
    c.draw = random_double(&e->random);
    failure_decide(&c, &follows);
    follow(e, item, &c, &follows, result, now_us);
    if (item->place == PLACE_JUDGED && was_out && weight != WEIGHS_NOTHING && !follows.decision.gave_up)
        item->weighs_on = breakers_blamed(ep, item, fault);
}

/* The side actions of rules about poison: they cannot bring the message back. */
void poison_beside(struct engine *e, struct item *item, pr_slice error, int64_t now_us)
{
    struct delivery_result result = { .reason = PR_REASON_POISON_MESSAGE };
    struct id_source ids = { e, now_us };
    struct failure_case c = case_of(e, item, &result, &ids);
    struct consequences follows;

    c.failure.error = error;
    poison_decide(&c, &follows);
    do_side_actions(e, item, &c, &follows, now_us);
}
