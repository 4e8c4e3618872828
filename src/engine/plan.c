/* The next cycle: what to report to the store, and what to ask of it. */
#include <stdlib.h>
#include <string.h>

#include "core/mark.h"
#include "engine/internal.h"

/* ---- What is there to read? ---------------------------------------------------------------- */

/* Has an endpoint that can send had nothing to do while others kept the scan from reading on? */
static bool somebody_starves(const struct engine *e, int64_t now_us)
{
    if (e->reading.scan_held_since_us == 0 || now_us - e->reading.scan_held_since_us < PASS_OVER_AFTER_US)
        return false;
    for (size_t i = 0; i < e->endpoint_count; i++)
        if (e->endpoints[i].count == 0 && !endpoint_is_closed(e, &e->endpoints[i], now_us))
            return true;
    return false;
}

/* How many fresh rows can come in.  A full endpoint stops the scan for a moment, since it will have room soon; when it
 * has none for too long the scan reads on past its rows.  An endpoint that always has a little room (its messages fail
 * at once, and come back) would slow the scan down to its own pace for the whole backlog: when that leaves another
 * endpoint without work, its rows are passed over, too. */
static size_t fresh_rows(struct engine *e, int64_t now_us)
{
    size_t rows = e->setting.batch;
    bool read_past;

    if (!e->reading.fresh_wanted || e->membership.opening != OPEN_DONE || !window_has_room(e))
        return 0;
    read_past = somebody_starves(e, now_us);
    for (size_t i = 0; i < e->endpoint_count; i++) {
        struct endpoint *ep = &e->endpoints[i];
        size_t room = endpoint_room(e, ep, now_us);
        bool full = room == 0 || endpoint_has_gap(ep);

        if (!full)
            ep->full_since_us = 0;
        else if (ep->full_since_us == 0)
            ep->full_since_us = now_us;
        if ((full || room < e->setting.batch) && e->reading.scan_held_since_us == 0)
            e->reading.scan_held_since_us = now_us;
        if (!full && (room >= e->setting.batch || !read_past)) {
            rows = min_size(rows, room);
            continue;
        }
        ep->slow = ep->slow || read_past || now_us - ep->full_since_us >= PASS_OVER_AFTER_US ||
                   endpoint_is_closed(e, ep, now_us);
        if (!ep->slow)
            return 0;
    }
    return min_size(rows, window_free(e));
}

static bool due_possible(const struct engine *e, int64_t now_us)
{
    return window_has_room(e) && (e->reading.due_wanted || e->reading.next_due_us <= store_now(e, now_us) ||
                                  now_us >= e->reading.due_restart_us);
}

/* Is one of the endpoint's first held streams free of earlier rows that must be read first? */
static bool has_wakeable(const struct endpoint *ep)
{
    size_t looked = 0;

    list_foreach(node, &ep->waking) {
        const struct stream *s = LIST_ENTRY(node, struct stream, waking);
        if (!endpoint_hides(ep, s->name, s->held_from))
            return true;
        if (++looked == HELD_READS_MAX)
            return false; /* the endpoint's gaps are read first, and then the streams can wake up */
    }
    return false;
}

static bool can_wake(const struct engine *e, int64_t now_us)
{
    for (size_t i = 0; i < e->endpoint_count && e->reading.waking_count > 0; i++)
        if (endpoint_room(e, &e->endpoints[i], now_us) > 0 && has_wakeable(&e->endpoints[i]))
            return true;
    return orphans_can_read(e, now_us);
}

static bool wants_read(struct engine *e, int64_t now_us)
{
    if (e->membership.stopping || e->membership.lanes == 0)
        return false;
    if (e->membership.opening != OPEN_DONE)
        return true;
    window_await_room(e);
    return fresh_rows(e, now_us) > 0 || due_possible(e, now_us) || can_wake(e, now_us) || gaps_can_read(e, now_us);
}

static uint64_t lanes_to_give(const struct engine *e)
{
    uint64_t lanes = 0;
    if (e->membership.giving == 0)
        return 0;
    for (unsigned lane = 0; lane < LANE_COUNT; lane++)
        if ((e->membership.giving & lane_bit(lane)) != 0 && e->membership.lane_busy[lane] == 0)
            lanes |= lane_bit(lane);
    return peers_ready(e, lanes);
}

/* An empty receipt is useless, and the next cycle closes it.  In a box of turns every verdict leaves one behind, since
 * the store's answer frees it: there it is not worth a cycle of its own. */
static bool has_dirty_receipt(const struct engine *e)
{
    list_foreach(node, &e->window.receipts) {
        struct receipt *r = LIST_ENTRY(node, struct receipt, node);
        if (r->dirty || (list_is_empty(&r->items) && !hands_out_runs(e)))
            return true;
    }
    return false;
}

int64_t renew_at_us(const struct engine *e)
{
    return e->membership.lease_end_us - e->setting.lease_us + e->setting.lease_us / 3;
}

/* An instance without lanes looks from time to time whether it can get some. */
int64_t look_at_us(const struct engine *e)
{
    return e->membership.lanes == 0 && !e->membership.stopping ? e->plan.cycled_us + e->setting.poll_us : PR_NEVER;
}

bool wants_cycle(struct engine *e, int64_t now_us)
{
    held_types_renew(e);
    sorts_renew(e);
    if (e->membership.epoch == 0)
        return !e->membership.stopping;
    if (now_us >= e->plan.inline_results_at_us || e->window.judged_count > 0 || e->plan.hold_count > 0 ||
        e->plan.pause_count > 0 || !list_is_empty(&e->plan.reports) || e->plan.effects != NULL ||
        now_us >= min64(renew_at_us(e), look_at_us(e)) || lanes_to_give(e) != 0)
        return true;
    if (e->membership.stopping)
        return e->window.out_count == 0 || has_dirty_receipt(e);
    return choose_possible(e, now_us) || e->plan.hold_count > 0 || has_dirty_receipt(e) || wants_read(e, now_us);
}

/* ---- Reads ------------------------------------------------------------------------------------ */

static void plan_opening(struct engine *e)
{
    struct cycle *c = &e->plan.cycle;

    e->membership.planned_serial = e->membership.opening_serial;
    if (e->membership.opening == OPEN_HELD) {
        c->held_keys.rows = OPENING_ROWS;
        c->held_keys.lanes = e->membership.opening_lanes;
        c->held_keys.after = e->membership.opening_key;
        return;
    }
    c->heads.rows = OPENING_ROWS;
    c->heads.lanes = e->membership.opening_lanes;
    c->heads.after_row = e->membership.opening_row;
    c->heads_dead = e->membership.opening == OPEN_DEAD;
}

/* The key is copied: its stream may be gone when the reply arrives.  false: no memory. */
bool plan_held_read(struct engine *e, pr_slice key, int64_t after_seq, size_t rows, struct held_read *reads,
                    size_t *count)
{
    struct held_read read = { slice_dup(&e->plan.arena, key), after_seq, INT64_MAX, rows };

    if (read.key.data == NULL)
        return false;
    reads[(*count)++] = read;
    return true;
}

/* A few streams of each endpoint that has room; they go to the back, so that all have their turn.  No more rows are
 * read than can come in: the others would be read again and again. */
static void plan_waking(struct engine *e, struct endpoint *ep, struct held_read *reads, size_t *count, size_t max,
                        size_t room)
{
    size_t share = min_size(max_size(room / e->reading.waking_count, HELD_ROWS_MIN), HELD_ROWS);
    struct list turned;

    list_init(&turned);
    for (size_t looked = 0; *count < max && looked < HELD_READS_MAX && room > 0; looked++) {
        struct list_node *node = list_pop_front(&ep->waking);
        struct stream *s;
        if (node == NULL)
            break;
        s = LIST_ENTRY(node, struct stream, waking);
        list_push_back(&turned, node);
        if (endpoint_hides(ep, s->name, s->held_from))
            continue;
        share = min_size(share, room);
        if (!plan_held_read(e, s->key, s->held_from - 1, share, reads, count))
            break; /* no memory: later */
        room -= share;
    }
    for (struct list_node *node = list_pop_front(&turned); node != NULL; node = list_pop_front(&turned))
        list_push_back(&ep->waking, node);
}

static void plan_held(struct engine *e, int64_t now_us)
{
    struct held_read *reads = arena_alloc(&e->plan.arena, (1 + HELD_READS_MAX + ORPHAN_READS_MAX) * sizeof(*reads));
    size_t count = 0;

    if (reads == NULL || !window_has_room(e))
        return;
    gaps_plan(e, reads, &count, now_us);
    for (size_t i = 0; i < e->endpoint_count && e->reading.waking_count > 0; i++) {
        struct endpoint *ep = &e->endpoints[(e->reading.next_waking + i) % e->endpoint_count];
        if (!list_is_empty(&ep->waking))
            plan_waking(e, ep, reads, &count, 1 + HELD_READS_MAX, endpoint_room(e, ep, now_us));
    }
    e->reading.next_waking++;
    if (orphans_can_read(e, now_us))
        orphans_plan(e, reads, &count);
    e->plan.cycle.held = reads;
    e->plan.cycle.held_count = count;
}

static void plan_due(struct engine *e, int64_t now_us)
{
    if (now_us >= e->reading.due_restart_us) {
        e->reading.due_after_us = 0;
        e->reading.due_after_seq = 0;
        e->reading.due_after_row = 0;
        e->reading.due_restart_us = PR_NEVER;
        e->reading.due_restarted_us = now_us;
        e->reading.due_dropped = 0;
    }
    e->plan.cycle.due.rows = min_size(e->setting.batch, window_free(e));
    e->plan.cycle.due.after_due_us = e->reading.due_after_us;
    e->plan.cycle.due.after_seq = e->reading.due_after_seq;
    e->plan.cycle.due.after_row = e->reading.due_after_row;
}

/* Rows that this cycle completes will have made room when the rows arrive that it reads.  Otherwise a full window would
 * need two cycles for each batch: one to empty it, one to fill it. */
static void count_leaving(struct engine *e)
{
    list_foreach(node, &e->window.planned) {
        const struct item *item = LIST_ENTRY(node, struct item, node);
        if (item->verdict.kind != VERDICT_COMPLETE && item->verdict.kind != VERDICT_DUPLICATE)
            continue;
        e->window.leaving++;
        e->window.leaving_bytes += item->bytes;
        if (item->endpoint == NULL)
            continue;
        item->endpoint->leaving++;
        item->endpoint->leaving_bytes += item->bytes;
    }
}

static void forget_leaving(struct engine *e)
{
    e->window.leaving = e->window.leaving_bytes = 0;
    for (size_t i = 0; i < e->endpoint_count; i++)
        e->endpoints[i].leaving = e->endpoints[i].leaving_bytes = 0;
}

/* Rows that are read exist twice until they are in the window, and once more in the database's library: large messages
 * come one at a time. */
#define READ_BYTES_MAX ((size_t)16 << 20)

static void plan_fresh(struct engine *e, size_t rows, int64_t now_us)
{
    struct cycle *c = &e->plan.cycle;

    c->restart_lanes = e->reading.restart_lanes;
    c->fresh_rows = rows;
    if (rows > 0)
        skips_plan(e);
    c->fresh_bytes = max_size(1, min_size(window_bytes_free(e) / 2, READ_BYTES_MAX));
    if (rows > 0)
        e->reading.fresh_at_us = now_us;
}

/* Each batch of a backlog that is passed over, since its endpoint has no room, takes a look; with a commit in each of
 * these cycles the rows behind it would wait for hundreds of commits.  So for twice as long as the latest commit took,
 * the engine only looks on, until it meets a row that can go out. */
static bool passes_on(struct engine *e, int64_t now_us)
{
    return e->reading.fresh_passed && e->reading.fresh_wanted && now_us < e->reading.pass_until_us &&
           !e->membership.stopping && e->membership.opening == OPEN_DONE && e->membership.lanes != 0 &&
           e->reading.restart_lanes == 0 && now_us < renew_at_us(e) && lanes_to_give(e) == 0 &&
           fresh_rows(e, now_us) >= e->setting.batch;
}

static void plan_reads(struct engine *e, int64_t now_us)
{
    if (e->membership.stopping || e->membership.lanes == 0)
        return;
    if (e->membership.opening != OPEN_DONE) {
        plan_opening(e);
        return;
    }
    count_leaving(e);
    /* so that fresh rows are noticed while there is always other work */
    if (now_us - e->reading.fresh_at_us >= FRESH_LOOK_US)
        e->reading.fresh_wanted = true;
    plan_fresh(e, fresh_rows(e, now_us), now_us);
    if (window_has_room(e))
        plan_due(e, now_us);
    plan_held(e, now_us);
    forget_leaving(e);
}

/* ---- Changes ----------------------------------------------------------------------------------- */

/* Effects that do not fit into the cycle being made come with the next one.  A verdict with more than this is in a
 * cycle of its own. */
#define EFFECT_ROWS_MAX 5000
#define EFFECT_BYTES_MAX ((size_t)8 << 20)

struct effect_sum {
    size_t rows, bytes;
    bool full;
};

/* Do the effects of this verdict still fit?  Those of a joined verdict do when its leader's did. */
static bool effects_fit(struct effect_sum *sum, const struct item *item)
{
    size_t rows = 0, bytes = 0;

    if (item->verdict.joined)
        return !sum->full;
    if (item->effects == NULL || !item->refusable)
        return true; /* the cycle completes it, so the next message of its stream may be announced in the same cycle */
    if (sum->full)
        return false;
    for (const struct send_effect *f = item->effects; f != NULL; f = f->next, rows++)
        bytes += f->effect.value.size + f->message.payload.size + f->message.headers.size +
                 (f->effect.flow != NULL ? flow_row_bytes(f->effect.flow) : 0);
    sum->full = sum->rows > 0 && (sum->rows + rows > EFFECT_ROWS_MAX || sum->bytes + bytes > EFFECT_BYTES_MAX);
    sum->rows += sum->full ? 0 : rows;
    sum->bytes += sum->full ? 0 : bytes;
    return !sum->full;
}

static size_t count_effects(const struct engine *e)
{
    size_t count = e->membership.dedupe_us > 0 ? e->window.judged_count : 0;
    list_foreach(node, &e->window.judged)
        for (struct send_effect *f = LIST_ENTRY(node, struct item, node)->effects; f != NULL; f = f->next)
            count++;
    for (struct send_effect *f = e->plan.effects; f != NULL; f = f->next)
        count++;
    return count;
}

static size_t plan_effects(const struct send_effect *effects, size_t verdict, struct effect *ret)
{
    size_t count = 0;
    for (const struct send_effect *f = effects; f != NULL; f = f->next) {
        ret[count] = f->effect;
        ret[count].verdict = verdict;
        ret[count].box = f->box;
        ret[count++].message = f->effect.kind == EFFECT_MAIL && pr_id_is_zero(f->message.id) ? NULL : &f->message;
    }
    return count;
}

/* A verdict that ends a message in a box with dedupe gets the mark as an effect. */
static size_t plan_mark(const struct engine *e, const struct item *item, size_t verdict, struct effect *ret)
{
    if (!mark_of_verdict(&item->verdict, e->setting.box, item->m.destination, e->membership.dedupe_us, ret))
        return 0;
    ret->verdict = verdict;
    return 1;
}

static void swap_holds(struct engine *e)
{
    struct hold *holds = e->plan.planned_holds;
    size_t capacity = e->plan.planned_hold_capacity;

    e->plan.planned_holds = e->plan.holds;
    e->plan.planned_hold_count = e->plan.hold_count;
    e->plan.planned_hold_capacity = e->plan.hold_capacity;
    e->plan.holds = holds;
    e->plan.hold_count = 0;
    e->plan.hold_capacity = capacity;
}

/* Writes the planned verdicts that are not deferred. */
static void write_verdicts(struct engine *e, struct verdict *verdicts, struct effect *effects)
{
    size_t count = 0, effect_count = 0;
    list_foreach(node, &e->window.planned) {
        const struct item *item = LIST_ENTRY(node, struct item, node);
        if (item->deferred)
            continue;
        effect_count += plan_effects(item->effects, count, effects + effect_count);
        effect_count += plan_mark(e, item, count, effects + effect_count);
        verdicts[count++] = item->verdict;
    }
    for (size_t i = 0; i < e->plan.planned_hold_count; i++) {
        const struct hold *h = &e->plan.planned_holds[i];
        verdicts[count++] = (struct verdict){
            .kind = VERDICT_HOLD,
            .row = h->row,
            .id = h->id,
            .held_by = h->stream != NULL ? h->stream->key : pr_str(h->endpoint->key),
            .held_for = h->stream != NULL ? PR_HELD_FOR_STREAM : PR_HELD_FOR_ENDPOINT,
        };
    }
    effect_count += plan_effects(e->plan.planned_effects, EFFECT_ALWAYS, effects + effect_count);
    e->plan.cycle.verdicts = verdicts;
    e->plan.cycle.verdict_count = count;
    e->plan.cycle.effects = effects;
    e->plan.cycle.effect_count = effect_count;
}

/* Reuses the same arrays: there are not more verdicts than before. */
void plan_verdicts_again(struct engine *e)
{
    write_verdicts(e, (struct verdict *)(uintptr_t)e->plan.cycle.verdicts,
                   (struct effect *)(uintptr_t)e->plan.cycle.effects);
}

/* Like a message that was handed back, it must not be found on a receipt by the instance that takes over. */
static bool counts_nothing(enum verdict_kind kind)
{
    return kind == VERDICT_POSTPONE || kind == VERDICT_RELEASE;
}

/* PR_ENOMEM: nothing changed. */
static int plan_verdicts(struct engine *e)
{
    size_t verdict_max = e->window.judged_count + e->plan.hold_count, effect_max = count_effects(e);
    struct verdict *verdicts = arena_alloc(&e->plan.arena, (verdict_max + 1) * sizeof(*verdicts));
    struct effect *effects = arena_alloc(&e->plan.arena, (effect_max + 1) * sizeof(*effects));

    struct effect_sum sum = { 0 };

    if (verdicts == NULL || effects == NULL)
        return PR_ENOMEM;
    list_foreach(node, &e->window.judged) {
        struct item *item = LIST_ENTRY(node, struct item, node);
        if (!effects_fit(&sum, item))
            continue;
        verdict_tally(e, item, +1);
        if (!item->refusable) /* otherwise it may come back: it stays on its receipt until it is answered */
            receipt_leave(item, counts_nothing(item->verdict.kind));
        item_move(e, item, PLACE_PLANNED);
    }
    swap_holds(e);
    e->plan.planned_effects = e->plan.effects;
    e->plan.effects = NULL;
    write_verdicts(e, verdicts, effects);
    return PR_OK;
}

static void plan_tally(struct engine *e, struct tally *t, pr_slice endpoint, struct last_failure *m,
                       struct tally *tallies, size_t *count)
{
    static const struct tally none;

    if (memcmp(t, &none, sizeof(none)) == 0 && (m == NULL || m->reason == 0))
        return;
    tallies[*count] = *t;
    tallies[*count].endpoint = endpoint;
    if (m != NULL && m->reason != 0) {
        tallies[*count].reason = m->reason;
        tallies[*count].code = slice_dup(&e->plan.arena, pr_str(m->code));
        tallies[*count].error = slice_dup(&e->plan.arena, pr_str(m->error));
        last_failure_fini(m);
    }
    ++*count;
    memset(t, 0, sizeof(*t));
}

static void plan_tallies(struct engine *e)
{
    struct tally *tallies = arena_alloc(&e->plan.arena, (e->endpoint_count + 1) * sizeof(*tallies));
    size_t count = 0;

    if (tallies == NULL)
        return; /* they stay for the next cycle */
    for (size_t i = 0; i < e->endpoint_count; i++) {
        struct endpoint *ep = &e->endpoints[i];
        plan_tally(e, &ep->tally, ep->setting->name, &ep->last_failure, tallies, &count);
    }
    plan_tally(e, &e->plan.nowhere, (pr_slice){ NULL, 0 }, NULL, tallies, &count);
    e->plan.cycle.tallies = tallies;
    e->plan.cycle.tally_count = count;
    e->plan.inline_results_at_us = PR_NEVER;
}

static void unchoose(struct engine *e)
{
    list_foreach(node, &e->window.chosen)
        item_return(e, LIST_ENTRY(node, struct item, node), false);
}

static void begin_cycle(struct engine *e)
{
    arena_reset(&e->plan.arena);
    e->reading.catching = NULL;
    e->reading.reads_held = false;
    e->reading.orphans.reading = 0;
    e->reading.orphans.walking = false;
    e->plan.cycle = (struct cycle){
        .box = e->setting.box,
        .instance = e->membership.instance,
        .epoch = e->membership.epoch,
        .number = e->membership.number + 1,
        .lease_us = e->setting.lease_us,
        .name = e->setting.name,
        .keep_us = e->setting.keep_us,
        .dedupe_us = e->setting.dedupe_us,
        .retention = e->setting.retention,
        .notice_after = e->reading.notice_after,
        .payload_max = min_size(e->setting.payload_max, late_bytes(e)),
        .offer = e->setting.offer,
    };
}

/* false: no memory, and nothing changed. */
static bool plan_changes(struct engine *e, int64_t now_us)
{
    choose_pace(e);
    if (!e->membership.stopping)
        choose(e, now_us);
    if (plan_verdicts(e) != PR_OK) {
        unchoose(e);
        return false;
    }
    if (receipt_plan_marks(e, &e->plan.arena) != PR_OK || loads_plan(e, &e->plan.arena) != PR_OK ||
        receipt_plan(e, &e->plan.arena) != PR_OK)
        unchoose(e); /* no memory: apply verdicts, start nothing */
    choose_asked(e, now_us);
    plan_tallies(e);
    pauses_plan(e, now_us);
    reports_plan(e, now_us);
    evidence_plan(e, now_us);
    e->plan.cycle.lanes_give = lanes_to_give(e);
    peers_plan(e, now_us);
    e->plan.cycle.force_write = now_us >= renew_at_us(e);
    /* Not in a cycle with verdicts: one that is answered BUSY, or whose receiver's commit turns out not to have
     * happened, would be lost and count as a hand-out without an outcome. */
    e->plan.cycle.leave = e->membership.stopping && e->window.out_count == 0 && e->plan.cycle.verdict_count == 0;
    gone_plan(e, now_us);
    return true;
}

void due_look_again(struct engine *e, int64_t now_us)
{
    e->reading.due_restart_us =
        min64(e->reading.due_restart_us, max64(now_us, e->reading.due_restarted_us + e->setting.poll_us));
}

/* Looks for fresh rows in the cycle that renews the lease: finds rows that nothing announced, such as one that a person
 * repaired by SQL (B19), and lets the store sweep an idle box. */
static void look_unasked(struct engine *e, int64_t now_us)
{
    if (e->plan.asked || e->membership.epoch == 0 || now_us < renew_at_us(e))
        return;
    e->reading.fresh_wanted = true;
    due_look_again(e, now_us);
}

bool engine_plan(struct engine *e, int64_t now_us, bool changed, const struct cycle **ret_cycle)
{
    if (e->membership.left)
        return false;
    breakers_sync_all(e);
    if (changed) {
        e->reading.fresh_wanted = true;
        due_look_again(e, now_us);
    }
    if (now_us < e->plan.retry_at_us)
        return false;
    look_unasked(e, now_us);
    if (!e->plan.asked) {
        lanes_give_up(e, now_us);
        if (!wants_cycle(e, now_us))
            return false;
        begin_cycle(e);
        if (e->membership.epoch != 0 && passes_on(e, now_us)) {
            plan_fresh(e, PASS_BATCHES * e->setting.batch, now_us);
        } else if (e->membership.epoch != 0) {
            if (!plan_changes(e, now_us))
                return false;
            plan_reads(e, now_us);
            start_plan(e, now_us);
            e->reading.pass_until_us = 0;
        }
        e->plan.asked = true;
        e->plan.repeated_from_us = 0;
        e->plan.planned_us = store_now(e, now_us);
    } else {
        e->plan.repeated_from_us = e->plan.planned_us;
    }
    *ret_cycle = &e->plan.cycle;
    return true;
}
