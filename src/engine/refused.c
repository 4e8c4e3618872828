/* Effects that the database refuses for good: a CHECK, a trigger or an index of their table rejects them.
 *
 * One transaction has the verdicts of many messages, and is refused as a whole; asked again, it would be refused
 * forever, and the box would stand still.  So the cycle is asked again with half of the verdicts that have effects,
 * until one is left: that one has failed, by its handler's fault.  The others come with the next cycle, as if their
 * rows had been locked.
 *
 * Messages that go into another box keep their order meanwhile (engine/local.c).  Those behind a message whose handler
 * sends something may overtake it when it fails. */
#include <stdlib.h>
#include <string.h>

#include "engine/internal.h"

#define REFUSAL_TEXT_MAX 1000

static bool is_suspect(const struct item *item)
{
    return item->effects != NULL && !item->deferred;
}

static size_t count_suspects(const struct engine *e)
{
    size_t count = 0;
    list_foreach(node, &e->window.planned)
        count += is_suspect(LIST_ENTRY(node, struct item, node));
    return count;
}

/* Defers all but the first `first` verdicts to the next cycle, each with those that are joined to it. */
static void defer_behind(struct engine *e, size_t first)
{
    bool with_leader = false;
    list_foreach(node, &e->window.planned) {
        struct item *item = LIST_ENTRY(node, struct item, node);
        if (is_suspect(item) && first > 0)
            first--;
        else if (is_suspect(item) || (item->verdict.joined && with_leader))
            item->deferred = true;
        with_leader = item->verdict.joined ? with_leader : item->deferred;
    }
}

/* Effects without a verdict come with the next cycle, where they are alone in the end; then the first is dropped if it
 * is refused. */
static void defer_loose(struct engine *e, bool alone)
{
    struct send_effect *first = e->plan.planned_effects, *rest = first;
    if (alone && first->next == NULL) {
        effects_free(first);
        e->plan.planned_effects = NULL;
        return;
    }
    if (alone) { /* drop the first effect, and try the others behind it */
        rest = first->next;
        first->next = NULL;
    } else {
        e->plan.planned_effects = NULL;
    }
    effects_append(&rest, e->plan.effects);
    e->plan.effects = rest;
}

/* No memory for the text: it fails without one. */
static void keep_refusal(struct item *item, const char *text)
{
    item->refused = true;
    item->refusal = strndup(text, REFUSAL_TEXT_MAX);
}

bool engine_cycle_refused(struct engine *e, int64_t now_us, const char *text)
{
    size_t suspects = count_suspects(e);
    ASSERT(e->plan.asked);
    if (e->plan.planned_effects != NULL) {
        defer_loose(e, suspects == 0);
    } else if (suspects > 0) {
        list_foreach(node, &e->window.planned)
            if (suspects == 1 && is_suspect(LIST_ENTRY(node, struct item, node)))
                keep_refusal(LIST_ENTRY(node, struct item, node), text);
        defer_behind(e, suspects / 2);
    } else {
        engine_cycle_failed(e, now_us, PR_EINVAL); /* the fault is none of these */
        return false;
    }
    plan_verdicts_again(e);
    e->plan.retry_at_us = now_us;
    return true;
}

/* The message has failed: its handler gets the reason, and its rules decide. */
static void judge_refused(struct engine *e, struct item *item, char *text, int64_t now_us)
{
    struct delivery_result failed = {
        .outcome = SEND_FAILED, .reason = PR_REASON_HANDLER_EXCEPTION, .code = "effect_refused", .error = text
    };
    item->refusable = false;
    if (item->answer != NULL)
        *item->answer = PR_FAILED;
    item->answer = NULL;
    item_report_answer(item, PR_FAILED);
    item_drop_verdict(item);
    judge_failure(e, item, &failed, now_us);
}

/* It is joined to a refused verdict: that message has failed, and this one is as before. */
static void return_joined(struct engine *e, struct item *item)
{
    verdict_tally(e, item, -1);
    item->deferred = item->refusable = false;
    item_move(e, item, PLACE_JUDGED);
    item_return(e, item, true);
}

void settle_deferred(struct engine *e, struct item *item, bool leader_is_refused, int64_t now_us)
{
    if (item->verdict.joined && leader_is_refused) {
        return_joined(e, item);
        return;
    }

    bool refused = item->refused, completes = item->verdict.kind == VERDICT_COMPLETE;
    bool moves = item->verdict.kind == VERDICT_DISCARD && item->verdict.moved_to.size > 0;
    char *text = item->refusal;

    verdict_tally(e, item, -1);
    item->deferred = item->refused = false;
    item->refusal = NULL;
    item_move(e, item, PLACE_JUDGED);
    if (refused && completes) {
        judge_refused(e, item, text, now_us);
    } else if (refused && moves) { /* it cannot go where its rule sends it */
        item_drop_verdict(item);
        judge_dead(e, item, PR_REASON_REJECTED, PR_REASON_REJECTED, 0, PR_STR("effect_refused"), true,
                   PR_STR("effect_refused"), text != NULL ? pr_str(text) : PR_STR(""), now_us);
    } else if (refused) { /* the rule's side actions are refused; the message's own fate is decided */
        effects_free(item->effects);
        item->effects = NULL;
    }
    free(text);
}
