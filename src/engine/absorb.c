/* The store's reply: what was committed, what operators did, what was read.
 *
 * The order matters.  Operators' notices come first: a row that was discarded in the same moment must not be sent.
 * Then verdicts, then the receipt, then lanes and reads. */
#include <stdlib.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "core/verdict.h"
#include "engine/internal.h"

/* ---- Notices ------------------------------------------------------------------------------------- */

static void forget_item(struct engine *e, struct item *item)
{
    struct stream *s;

    struct item *first = item->run_first != NULL ? item->run_first : item;

    if (first->place == PLACE_CHOSEN || first->place == PLACE_READY)
        item_return(e, first, false); /* announced, but not begun */
    if (item->place == PLACE_TWIN)
        twin_return(e, item);
    if (item->place != PLACE_WAITING) {
        item->outdated = true; /* out, or judged: the store will answer that the verdict came too late */
        return;
    }
    s = item->stream;
    item_free(e, item);
    if (s != NULL)
        stream_update(e, s);
}

/* The row has changed in the store; forget what is in memory. */
static void forget_row(struct engine *e, uint64_t row)
{
    struct item *item = row != 0 ? item_find_row(e, row, NULL) : NULL;

    while (item != NULL) {
        struct item *next = item_find_row(e, row, item);
        forget_item(e, item);
        item = next;
    }
}

/* An operator moved a row that may be a head.  The notice has the row's destination, which may be empty: then it can
 * have been routed to any endpoint. */
static void forget_head(struct engine *e, const struct notice *n)
{
    for (size_t i = 0; i < e->endpoint_count && n->stream.size > 0; i++) {
        struct endpoint *ep = &e->endpoints[i];
        struct stream *s;
        if (n->endpoint.size > 0 && !slice_eq(n->endpoint, ep->setting->name))
            continue;
        s = stream_find(e, ep, n->stream);
        if (s == NULL)
            continue;
        stream_remove_head(e, s, n->seq);
        stream_update(e, s);
    }
}

static struct endpoint *find_endpoint(struct engine *e, pr_slice name)
{
    for (size_t i = 0; i < e->endpoint_count; i++)
        if (slice_eq(e->endpoints[i].setting->name, name))
            return &e->endpoints[i];
    return NULL;
}

/* Hands back the followers that are announced but not begun. */
static void return_followers(struct engine *e, const struct stream *s, int64_t seq)
{
    list_foreach(node, &e->window.chosen) {
        struct item *item = LIST_ENTRY(node, struct item, node);
        if (item->stream == s && item->m.seq > seq)
            item_return(e, item, false);
    }
    list_foreach(node, &s->endpoint->ready) {
        struct item *item = LIST_ENTRY(node, struct item, node);
        if (item->stream == s && item->m.seq > seq)
            item_return(e, item, false);
    }
}

/* A failed row that this engine has not read: its followers must not pass it. */
static void add_failed_head(struct engine *e, const struct notice *n)
{
    struct endpoint *ep = find_endpoint(e, n->endpoint);
    unsigned lane = lane_of(n->stream, (pr_id){ { 0 } });
    struct stream *s = NULL;

    if ((e->membership.lanes & lane_bit(lane)) == 0)
        return;
    if (ep != NULL && (!stream_is_ordered(ep, n->stream) || ep->setting->ordering == ORDERING_AVAILABLE))
        return;
    if (ep != NULL && (e->membership.open & lane_bit(lane)) != 0 && e->setting.override_count == 0)
        s = stream_get(e, ep, n->stream, lane);
    if (s == NULL || !stream_add_head(e, s, n->seq, 0, false)) {
        open_lanes(e, lane_bit(lane)); /* it is being read, goes elsewhere, or there is no memory */
        return;
    }
    return_followers(e, s, n->seq);
    stream_hold_followers(e, s);
    stream_update(e, s);
}

/* Forgets all rows until they are read again.  A message that is out will be found as a new item. */
void read_all_anew(struct engine *e)
{
    list_foreach(node, &e->window.chosen)
        item_return(e, LIST_ENTRY(node, struct item, node), false);
    for (size_t i = 0; i < e->endpoint_count; i++)
        endpoint_return_ready(e, &e->endpoints[i]);
    open_lanes(e, e->membership.lanes);
    for (size_t i = 0; i < e->window.slot_count; i++)
        if (e->window.slots[i] != NULL)
            e->window.slots[i]->outdated = true;
}

/* The store may have lost commits (B28): rows that were handed out and have not started must be read again before they
 * go.  Receipts may be lost, too, so messages that are out are announced again. */
static void absorb_history(struct engine *e)
{
    read_all_anew(e);
    endpoints_call_back(e);
    list_foreach(node, &e->window.receipts)
        LIST_ENTRY(node, struct receipt, node)->dirty = true;
}

static void absorb_notice(struct engine *e, const struct notice *n, int64_t now_us)
{
    switch (n->kind) {
    case NOTICE_GONE:
    case NOTICE_PARKED:
        forget_row(e, n->row);
        forget_head(e, n);
        /* Whose head was or is the row?  An override may send it elsewhere than its destination says. */
        if (n->stream.size > 0 && ((n->kind == NOTICE_PARKED && e->any_strict) || e->setting.override_count > 0))
            open_lanes(e, lane_bit(lane_of(n->stream, (pr_id){ { 0 } })));
        break;
    case NOTICE_DUE:
        forget_row(e, n->row);
        e->reading.due_restart_us = now_us;
        break;
    case NOTICE_RELOAD: read_all_anew(e); break;
    case NOTICE_REPAIRED:
        read_all_anew(e);
        endpoints_call_back(e);
        break;
    case NOTICE_ENDPOINT: break; /* the reply contains the endpoints */
    case NOTICE_FAILED: add_failed_head(e, n); break;
    }
}

static void absorb_endpoints(struct engine *e, const struct cycle_reply *r)
{
    if (!r->endpoints_known)
        return;
    for (size_t i = 0; i < e->endpoint_count; i++)
        e->endpoints[i].paused_until_us = 0;
    for (size_t k = 0; k < r->endpoint_count; k++)
        for (size_t i = 0; i < e->endpoint_count; i++)
            if (slice_eq(e->endpoints[i].setting->name, r->endpoints[k].name))
                e->endpoints[i].paused_until_us = r->endpoints[k].paused_until_us;
}

#define REFUSED_PAUSE_US PR_SECONDS(1) /* pause before a handler whose effects were refused gets the message again */

/* ---- Verdicts and receipts ------------------------------------------------------------------------- */

/* A retry without delay, or one after the store's clock went back, may be due before the place that the due pass has
 * reached, and would not be found. */
static void look_behind_cursor(struct engine *e, const struct cycle_reply *r, const struct verdict *v, int64_t now_us)
{
    bool comes_back = verdict_traits(v->kind)->comes_back;
    int64_t delay_us = v->kind == VERDICT_RESCHEDULE ? time_sub(v->due_us, r->now_us) : v->delay_us;

    if (comes_back && (r->replayed || delay_us <= e->reading.due_after_us - r->now_us))
        e->reading.due_restart_us = now_us;
}

/* Describes what the effects expected.  The store does not say which of them it refused. */
static void describe_refusal(const struct item *item, struct pr_error *ret)
{
    error_set(ret, 0, "its effects conflict with what is stored now");
    for (const struct send_effect *s = item->effects; s != NULL; s = s->next) {
        if (!s->message.expects_version)
            continue;
        error_set(ret, 0, "its effects conflict with what is stored now: stream \"%.*s\" is not at version %lld",
                  SLICE_ARGS(s->message.stream), (long long)s->message.expected_version);
        return;
    }
}

/* The verdict was refused and nothing was stored: its sender gets that answer, and a handler gets the message again. */
static void judge_conflict(struct engine *e, struct item *item, int64_t now_us)
{
    struct pr_error text;
    describe_refusal(item, &text);
    if (item->answer != NULL)
        *item->answer = PR_ECONFLICT;
    item->answer = NULL;
    item_report_answer(item, PR_ECONFLICT);
    item->refusable = false;
    item_drop_verdict(item);
    judge_simple(e, item, VERDICT_POSTPONE, PR_REASON_UNKNOWN, PR_STR("effects"), pr_str(text.text), now_us);
    item->verdict.delay_us = REFUSED_PAUSE_US;
}

/* The verdict waits for the next cycle: it is sent again, or, when effects refused it, its handler gets the message
 * again.  goes_with: the verdict that it is joined to waits, too. */
static void judge_again(struct engine *e, struct item *item, int answer, bool goes_with, int64_t now_us)
{
    verdict_tally(e, item, -1);
    e->plan.retry_at_us = now_us + BUSY_PAUSE_US;
    if (answer == ANSWER_REFUSED) {
        judge_conflict(e, item, now_us);
    } else {
        item->verdict.joined = item->verdict.joined && goes_with;
        choose_verdict_busy(e, item);
        item_move(e, item, PLACE_JUDGED);
    }
}

/* Another row of the message ended first: nothing of this verdict was stored, and its sender gets that answer. */
static void end_as_duplicate(struct engine *e, struct item *item, int64_t now_us)
{
    verdict_tally(e, item, -1);
    if (item->answer != NULL)
        *item->answer = PR_DUPLICATE;
    item->answer = NULL;
    item_report_answer(item, PR_DUPLICATE);
    item->refusable = false;
    judge_duplicate(e, item, now_us);
}

/* For a cycle that is asked again the store knows which verdicts were busy or refused; the others have landed. */
static int answer_of(const struct cycle_reply *r, size_t i)
{
    return r->answers != NULL ? r->answers[i] : PR_OK;
}

/* An open transaction has locked rows that are to be held.  So the held rows that this cycle read are incomplete; rows
 * behind the gap must not go, and the held rows are read again. */
static void hold_is_busy(struct endpoint *ep, struct stream *s)
{
    if (s != NULL)
        s->held_stop = true;
    else
        ep->gap_lacks_rows = true;
}

/* The same for parts of a split that are to be held and are not stored yet. */
static void split_is_busy(struct engine *e, const struct item *parent)
{
    for (size_t i = 0; i < parent->child_count; i++) {
        struct endpoint *ep = find_endpoint(e, parent->destinations[i]);
        if (parent->children[i] != NULL || ep == NULL)
            continue;
        bool for_stream = parent->holders[i].held_for == PR_HELD_FOR_STREAM;
        hold_is_busy(ep, for_stream ? stream_find(e, ep, parent->m.stream) : NULL);
    }
}

static void absorb_verdicts(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    size_t i = 0, split = 0;
    uint64_t lanes = 0; /* to be read again */
    bool goes_with = false, leader_is_refused = false;

    list_foreach(node, &e->window.planned) {
        struct item *item = LIST_ENTRY(node, struct item, node);
        size_t splits = item->verdict.kind == VERDICT_SPLIT ? item->child_count : 0;
        if (!item->verdict.joined)
            leader_is_refused = item->refused;
        if (item->deferred) {
            settle_deferred(e, item, leader_is_refused, now_us);
            continue;
        }
        int answer = answer_of(r, i++);

        if (!item->verdict.joined)
            goes_with = answer == ANSWER_BUSY;
        look_behind_cursor(e, r, &item->verdict, now_us);
        if (answer == ANSWER_HANDLED) {
            end_as_duplicate(e, item, now_us);
            continue;
        }
        if (item->verdict.kind == VERDICT_ASK && !settle_asked(e, item, &answer, r->replayed, now_us))
            continue;
        if (answer == ANSWER_BUSY && item->outdated && item->number == 0) {
            lanes |= lane_bit(item->lane); /* decided by what was read before, maybe by other routes: read it again */
            answer = PR_STALE;
        }
        if (answer == ANSWER_BUSY || answer == ANSWER_REFUSED) {
            if (splits > 0)
                split_is_busy(e, item);
            judge_again(e, item, answer, goes_with, now_us);
            split += splits;
            continue;
        }
        /* The reply was lost: the rows of the split are stored, but their numbers are not known. */
        if (r->replayed && splits > 0) {
            lanes = LANES_ALL;
            answer = PR_STALE;
        }
        /* Nor is it known whether the row still existed: its receiver may have completed it, which no notice
         * reports. */
        item->outdated = item->outdated || r->replayed;
        settle_committed(e, item, answer, r->replayed ? NULL : r->split_rows + split, now_us);
        split += splits;
    }
    for (size_t k = 0; k < e->plan.planned_hold_count; k++) {
        struct stream *s = e->plan.planned_holds[k].stream;
        if (answer_of(r, i + k) == ANSWER_BUSY) {
            hold_is_busy(e->plan.planned_holds[k].endpoint, s);
            e->plan.retry_at_us = now_us + BUSY_PAUSE_US;
            if (hold_add(e, e->plan.planned_holds[k]))
                continue;
            lanes = LANES_ALL;
        }
        if (s == NULL)
            continue;
        s->holds--;
        stream_update(e, s);
    }
    e->plan.planned_hold_count = 0;
    open_lanes(e, lanes);
}

static bool is_marked(const struct item *item, const struct cycle_reply *r)
{
    return item->mark > 0 && r->marked != NULL && r->marked[item->mark - 1];
}

/* The receipt is committed: its messages may go out now. (E1)  An endpoint that was paused while the cycle was under
 * way starts none of them.  Messages that were handled before end here. */
static void absorb_receipt(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    list_foreach(node, &e->window.chosen) {
        struct item *item = LIST_ENTRY(node, struct item, node);
        bool marked = is_marked(item, r), loaded = load_absorb(item, r);

        item->mark = 0;
        if (!loaded && !marked)
            item->outdated = true; /* read the row again, if it still exists */
        bool paused = endpoint_is_local(item->endpoint) && endpoint_has_pause(e, item->endpoint, now_us);
        if (e->membership.stopping || item->seat == 0 || (!loaded && !marked) || (paused && !marked)) {
            item_return(e, item, false); /* paused: the owner hands back those already taken */
        } else if (marked) {
            breakers_returned(e, item->endpoint, item);
            judge_duplicate(e, item, now_us);
        } else if (item->dead == NULL && is_too_large(e, item)) {
            /* The rules for large messages have the payload now. */
            breakers_returned(e, item->endpoint, item);
            judge_too_large(e, item, now_us);
        } else if (endpoint_is_local(item->endpoint) && is_expired(e, item, now_us)) {
            item_return(e, item, false);                /* while its payload was loaded: the next cycle ends it */
        } else if (endpoint_is_local(item->endpoint)) { /* it was chosen only to load its payload */
            breakers_returned(e, item->endpoint, item);
            judge_local(e, item, now_us);
        } else {
            item_move(e, item, PLACE_READY);
        }
    }
}

/* ---- All of it --------------------------------------------------------------------------------------------- */

void engine_forget(struct engine *e)
{
    choose_answered(e);
    endpoints_call_back(e);
    e->plan.planned_hold_count = 0;
    window_drop_lanes(e, LANES_ALL, true);
    receipt_free_all(e);
    gaps_forget(e);
    held_types_forget(e);
    sorts_forget(e);
    orphans_forget(e);
    pauses_drop(e);
    reports_anew(e);
    evidence_store_again(e);
    effects_free(e->plan.effects);
    effects_free(e->plan.planned_effects);
    e->plan.effects = e->plan.planned_effects = NULL;
    e->plan.hold_count = 0;
    e->plan.asked = false;
    e->membership.epoch = 0;
    e->membership.number = 0;
    e->membership.lanes = e->membership.asked = e->membership.giving = e->membership.open =
        e->membership.opening_lanes = e->reading.restart_lanes = 0;
    peers_forget(e);
    e->membership.opening = OPEN_DONE;
    e->reading.notice_after = 0;
}

void engine_absorb(struct engine *e, int64_t asked_us, int64_t now_us, const struct cycle_reply *r)
{
    bool joined = e->membership.epoch == 0;

    ASSERT(e->plan.asked);
    e->plan.asked = false;
    e->plan.stores_in_box = cycle_stores_in_box(&e->plan.cycle); /* its effects are freed with their verdicts */
    choose_answered(e);
    e->plan.retry_at_us = 0;
    e->plan.retry_delay_us = 0;
    e->plan.cycled_us = now_us;
    if (e->reading.pass_until_us == 0) { /* the cycle did more than look */
        e->plan.commit_us = now_us - asked_us;
        e->reading.pass_until_us = now_us + min64(PASS_TURN_COMMITS * e->plan.commit_us, PASS_TURN_MAX_US);
    }
    e->membership.number = e->plan.cycle.number;
    e->membership.epoch = r->epoch;
    e->membership.lease_end_us = asked_us + r->lease_left_us;
    e->membership.store_offset_us = r->now_us - now_us;
    e->counts.cycles++;
    if (joined && e->setting.dedupe_us == DEDUPE_OF_BOX)
        e->membership.dedupe_us = r->dedupe_us;
    absorb_endpoints(e, r);
    pauses_committed(e, r->endpoints_known);
    reports_committed(e);
    evidence_absorb(e, r);
    gone_absorb(e, r);
    effects_free(e->plan.planned_effects);
    e->plan.planned_effects = NULL;
    if (r->history_changed && !joined)
        absorb_history(e);
    for (size_t i = 0; i < r->notice_count && !joined; i++)
        absorb_notice(e, &r->notices[i], now_us);
    e->reading.notice_after = r->notice_last;
    absorb_verdicts(e, r, now_us);
    if (e->plan.cycle.leave) {
        engine_forget(e);
        e->membership.left = true;
        return;
    }
    absorb_receipt(e, r, now_us);
    absorb_lanes(e, r, now_us);
    absorb_reads(e, r, now_us);
    gone_heads(e, now_us);
    start_absorb(e, r, now_us);
}

void engine_cycle_failed(struct engine *e, int64_t now_us, int fault)
{
    ASSERT(e->plan.asked && fault < 0);
    choose_held_up(e);
    if (fault == PR_ELEASE) {
        engine_forget(e);
        engine_new_instance(e);
        e->counts.leases_lost++;
        e->membership.left = e->membership.stopping;
        e->plan.retry_at_us = now_us;
        return;
    }
    e->plan.retry_delay_us =
        e->plan.retry_delay_us == 0 ? RETRY_MIN_US : min64(e->plan.retry_delay_us * 2, RETRY_MAX_US);
    e->plan.retry_at_us =
        fault == PR_EUNCERTAIN && e->plan.retry_delay_us == RETRY_MIN_US ? now_us : now_us + e->plan.retry_delay_us;
}
