/* From a failure to what follows: the breaker first, then the policy, then what its decision
 * asks for beside the verdict: a pause, a raised message, a call (B63 to B67).
 *
 * All actions of a step are taken, also when one of them fails. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "core/id.h"
#include "engine/internal.h"
#include "policy/raised.h"

/* The breaker has just opened: what failed in the same burst was the outage's fault, too. */
static void return_burst(struct engine *e, const struct endpoint_breaker *opened)
{
    list_foreach(node, &e->window.judged) {
        struct item *item = LIST_ENTRY(node, struct item, node);
        if (item->weighs_on == opened)
            item_return(e, item, true);
    }
}

/* Hand it back, also when it was never announced (too large to be sent). */
static void put_back(struct engine *e, struct item *item)
{
    if (item->place == PLACE_NONE || item->place == PLACE_WAITING)
        item_move(e, item, PLACE_JUDGED);
    item_return(e, item, true);
}

/* ---- New messages ------------------------------------------------------------------------- */

static pr_id new_id(struct engine *e, int64_t now_us)
{
    uint64_t bits[2] = { random_u64(&e->random), 0 };
    uint8_t bytes[10];
    pr_id id;

    bits[1] =
        hash_bytes(bits[0], &e->membership.instance, sizeof(e->membership.instance)); /* unlike any other engine's */
    memcpy(bytes, bits, sizeof(bytes));
    id_make(store_now(e, now_us) / 1000, bytes, &id);
    return id;
}

static struct raised raised_of(struct engine *e, const struct item *item, const struct failure *f, pr_slice rule,
                               int64_t now_us)
{
    return (struct raised){
        .failure = f,
        .rule = rule,
        .box = e->setting.box,
        .attempts = item->number,
        .at_us = store_now(e, now_us),
        .id = new_id(e, now_us),
    };
}

static void effects_append(struct send_effect **list, struct send_effect *more)
{
    while (*list != NULL)
        list = &(*list)->next;
    *list = more;
}

/* With the verdict of the item; where it has none, with the next cycle. */
void item_add_effects(struct engine *e, struct item *item, struct send_effect *effects)
{
    effects_append(item->place == PLACE_JUDGED ? &item->effects : &e->plan.effects, effects);
}

/* ---- Calls -------------------------------------------------------------------------------------- */

/* What the calls of one failure came to. */
struct called {
    const struct rule_step *asked[RULE_STEPS_MAX]; /* steps whose call did not decide */
    size_t asked_count;
    struct send_effect *effects; /* owned */
};

/* Did it decide?  Whatever it sent is kept when it did not fail. */
static bool call_function(struct engine *e, const struct failure *f, const struct decision *d, struct called *c,
                          struct call_answer *ret)
{
    int rc;

    *ret = (struct call_answer){ 0 };
    if (e->setting.call == NULL)
        return false;
    rc = e->setting.call(e->setting.call_arg, d->by->call, f, d->rule, ret);
    if (rc == PR_OK)
        effects_append(&c->effects, ret->effects);
    else
        effects_free(ret->effects);
    return rc == PR_OK && ret->decided;
}

static void take_answer(const struct failure *f, const struct call_answer *a, struct decision *d)
{
    bool again = a->step == STEP_RETRY || a->step == STEP_RETRY_NOW;

    d->step = again && f->reason == PR_REASON_POISON_MESSAGE ? STEP_DEAD_LETTER : a->step; /* B45 */
    d->delay_us = max64(a->step == STEP_RETRY ? a->delay_us : 0, f->retry_after_us);
    d->delay_us = min64(max64(d->delay_us, 0), RETRY_DELAY_MAX_US);
    d->cause = f->reason;
    d->limit = 0;
}

static void decide(struct engine *e, const struct policy *policy, const struct failure *f, struct called *c,
                   struct decision *d)
{
    double draw = random_double(&e->random);

    policy_decide(policy, f, draw, d);
    while (d->step == STEP_CALL) {
        struct call_answer answer;
        if (call_function(e, f, d, c, &answer)) {
            take_answer(f, &answer, d);
            return;
        }
        c->asked[c->asked_count++] = d->by;
        policy_decide_after(d, f, draw, d);
    }
}

/* ---- Beside the verdict ---------------------------------------------------------------------------- */

static void do_beside(struct engine *e, struct item *item, const struct failure *f, const struct decision *d,
                      const struct rule_step *s, int64_t now_us)
{
    struct pr_error by;

    if (s->pause_us > 0) {
        error_set(&by, 0, "rule %.*s", SLICE_ARGS(d->rule));
        endpoint_pause(e, item->endpoint, s->pause_us, pr_str(by.text), f->error, now_us);
    }
    if (s->raise != NULL && !message_was_raised(&item->m)) {
        struct raised a = raised_of(e, item, f, d->rule, now_us);
        item_add_effects(e, item, raised_raise(&a, s->raise));
    }
}

/* A call beside another action is told, and may send; it does not decide. */
static void call_beside(struct engine *e, const struct failure *f, const struct decision *d, struct called *c)
{
    struct call_answer answer;

    if (d->by != NULL && d->by->call.size > 0 && d->by->step != STEP_CALL)
        (void)call_function(e, f, d, c, &answer);
}

static void do_all_beside(struct engine *e, struct item *item, const struct failure *f, const struct decision *d,
                          struct called *c, int64_t now_us)
{
    call_beside(e, f, d, c);
    for (size_t i = 0; i < c->asked_count; i++)
        do_beside(e, item, f, d, c->asked[i], now_us);
    if (d->by != NULL)
        do_beside(e, item, f, d, d->by, now_us);
    item_add_effects(e, item, c->effects);
}

/* ---- The verdict -------------------------------------------------------------------------------------- */

/* To another endpoint: the message is stored for it in the transaction that takes it out here. */
static bool move_dead(struct engine *e, struct item *item, const struct failure *f, const struct decision *d,
                      int64_t now_us)
{
    struct raised a = raised_of(e, item, f, d->rule, now_us);
    struct send_effect *effect;

    if (d->by == NULL || d->by->step != STEP_DEAD_LETTER || d->by->to.size == 0 || message_was_moved(&item->m))
        return false;
    effect = raised_move(&a, d->by->to);
    if (effect == NULL)
        return false; /* no memory: the table does it, too */
    judge_step(e, item, VERDICT_DISCARD, f, d, 0, now_us);
    item->verdict.moved_to = d->by->to;
    item_add_effects(e, item, effect);
    return true;
}

static void follow_decision(struct engine *e, struct item *item, const struct failure *f, int bits,
                            const struct decision *d, int64_t now_us)
{
    switch (d->step) {
    case STEP_DEAD_LETTER:
        if (!move_dead(e, item, f, d, now_us))
            judge_dead(e, item, f->reason, d->cause, d->limit, d->rule, true, f->code, f->error, now_us);
        break;
    case STEP_DISCARD: judge_step(e, item, VERDICT_DISCARD, f, d, 0, now_us); break;
    case STEP_PARK: judge_step(e, item, VERDICT_PARK, f, d, PR_NEVER, now_us); break;
    case STEP_RETRY:
    case STEP_RETRY_NOW:
        judge_step(e, item, VERDICT_FAIL, f, d, store_now(e, now_us) + d->delay_us, now_us);
        item->verdict.delay_us = d->delay_us;
        break;
    case STEP_POSTPONE:
        judge_step(e, item, VERDICT_POSTPONE, f, d, store_now(e, now_us) + d->delay_us, now_us);
        item->verdict.delay_us = d->delay_us;
        break;
    case STEP_PAUSE: put_back(e, item); return;
    case STEP_CALL: ASSERT(!"decide() has asked it");
    }
    item->verdict.bits = bits;
}

static struct failure failure_of(const struct engine *e, const struct item *item, const struct delivery_result *result,
                                 int64_t now_us)
{
    return (struct failure){
        .message = &item->m,
        .endpoint = item->endpoint->setting->name,
        .reason = reason_is_known(result->reason) ? result->reason : PR_REASON_UNKNOWN,
        .code = pr_str(result->code),
        .error = pr_str(result->error),
        .failures = item->m.failures + 1,
        .retry_after_us = result->retry_after_us,
        .age_us = store_now(e, now_us) - item->m.created_us,
        .unsent = result->unsent,
        .proven = evidence_against(e, item, now_us),
        .since_us = item->m.failed_us > 0 ? max64(store_now(e, now_us) - item->m.failed_us, 0) : 0,
    };
}

/* What is counted plainly ends by its count, so one message alone opens no breaker.  Otherwise only what is the
 * message's own fault does not count: its content, or that others of its type are delivered. */
enum breaker_weight failure_weight(const struct policy *policy, const struct failure *f)
{
    enum fault fault = failure_fault(f);

    if (policy_counts_plainly(policy, f))
        return reason_class(f->reason) == CLASS_TRANSIENT ? WEIGHS_ONCE : WEIGHS_NOTHING;
    return fault == FAULT_CONTENT || (fault == FAULT_NOBODY && f->proven) ? WEIGHS_NOTHING : WEIGHS_ALWAYS;
}

/* true: the failure is the breaker's, and the message was handed back. */
static bool ask_breaker(struct engine *e, struct item *item, const struct failure *f, enum breaker_weight weight,
                        int64_t now_us)
{
    struct endpoint *ep = item->endpoint;
    bool opened, ours;

    if (f->unsent && weight == WEIGHS_NOTHING) {
        breakers_returned(ep, item); /* the endpoint was not asked: this says nothing about it */
        return false;
    }
    ours = breakers_failed(e, item, f, weight, now_us, &opened);
    if (opened)
        return_burst(e, breakers_blamed(ep, item, failure_fault(f)));
    if (!ours || policy_gives_up(&ep->setting->policy, f))
        return false;
    item_return(e, item, true);
    return true;
}

void judge_failure(struct engine *e, struct item *item, const struct delivery_result *result, int64_t now_us)
{
    struct endpoint *ep = item->endpoint;
    const struct policy *policy = &ep->setting->policy;
    struct failure failure = failure_of(e, item, result, now_us);
    enum fault fault = failure_fault(&failure);
    enum breaker_weight weight = failure_weight(policy, &failure);
    bool was_out = item->place == PLACE_OUT;
    struct decision decision;
    struct called called = { 0 };

    last_failure_set(&ep->last_failure, &failure);
    if (fault == FAULT_ENDPOINT)
        failure.postpone_us = setback_failed(&ep->setback, &ep->setting->breaker, now_us);
    else if (was_out && !result->unsent)
        ep->setback = (struct setback){ 0 };
    if (was_out && ask_breaker(e, item, &failure, weight, now_us))
        return;
    decide(e, policy, &failure, &called, &decision);
    /* It is gone for good: nothing more is sent there until a person has looked. */
    if (result->disable) {
        endpoint_pause(e, ep, PR_NEVER, PR_STR("endpoint"), failure.error, now_us);
        if (decision.matched == NULL)
            decision.step = STEP_PAUSE;
    }
    follow_decision(e, item, &failure, result->bits, &decision, now_us);
    do_all_beside(e, item, &failure, &decision, &called, now_us);
    if (item->place == PLACE_JUDGED && was_out && weight != WEIGHS_NOTHING && !decision.gave_up)
        item->weighs_on = breakers_blamed(ep, item, fault);
}

/* A rule about poison cannot bring it back, but may have something to say about it. */
void poison_beside(struct engine *e, struct item *item, pr_slice error, int64_t now_us)
{
    struct delivery_result result = { .reason = PR_REASON_POISON_MESSAGE };
    struct failure f = failure_of(e, item, &result, now_us);
    struct decision d;

    f.error = error;
    policy_decide(&item->endpoint->setting->policy, &f, 0, &d);
    if (d.by != NULL)
        do_beside(e, item, &f, &d, d.by, now_us);
}
