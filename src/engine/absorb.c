/* The store's reply: what was committed, what operators did, what was read.
 *
 * The order matters.  Operators' notices come first: a row that was discarded in the same
 * moment must not be sent.  Then verdicts, then what was announced, then reads: held ones
 * before fresh ones, since they are earlier in their streams. */
#include <stdlib.h>
#include <string.h>

#include "engine/internal.h"

/* ---- Lanes -------------------------------------------------------------------------------------- */

/* Read these lanes from the beginning: first what failed and what is held, then the rest. */
void open_lanes(struct engine *e, uint64_t lanes)
{
    lanes &= e->lanes;
    if (lanes == 0)
        return;
    window_drop_lanes(e, lanes, false);
    map_foreach(node, &e->streams) {
        struct stream *s = MAP_ENTRY(node, struct stream, node);
        if ((lanes & lane_bit(s->lane)) == 0)
            continue;
        s->head_count = 0;
        s->held       = false;
        if (s->holds > 0)
            stream_is_held(s, 0);
        stream_update(e, s);
    }
    e->open &= ~lanes;
    e->scanned &= ~lanes;
    for (unsigned lane = 0; lane < LANE_COUNT; lane++)
        if ((lanes & lane_bit(lane)) != 0)
            e->scan_seq[lane] = INT64_MIN;
    e->opening_lanes |= lanes;
    e->opening     = OPEN_HEADS;
    e->opening_row = 0;
    e->opening_serial++;
    e->opening_key = (pr_slice){ e->opening_key_bytes, 0 };
}

static void opening_done(struct engine *e, int64_t now_us)
{
    e->opening = OPEN_DONE;
    e->open |= e->opening_lanes;
    e->restart_lanes |= e->opening_lanes;
    e->opening_lanes  = 0;
    e->fresh_wanted   = true;
    e->due_wanted     = true;
    e->due_restart_us = now_us;
}

/* Somebody else should have these lanes: nothing new is begun in them, and what waits is dropped.  One
 * that is not to be given after all is read anew, since what we knew of it is gone. */
static void absorb_asked(struct engine *e, uint64_t asked)
{
    uint64_t more = asked & ~e->giving, kept = e->giving & e->lanes & ~asked;

    e->giving = asked;
    if (more != 0)
        window_drop_lanes(e, more, false);
    if (more != 0 || kept != 0)
        map_foreach(node, &e->streams)
            stream_update(e, MAP_ENTRY(node, struct stream, node));
    open_lanes(e, kept);
}

static void absorb_lanes(struct engine *e, const struct cycle_reply *r)
{
    uint64_t lost   = e->lanes & ~r->lanes_owned;
    uint64_t gained = r->lanes_owned & ~e->lanes;

    if (lost != 0)
        window_drop_lanes(e, lost, true);
    e->lanes = r->lanes_owned;
    e->open &= e->lanes;
    e->opening_lanes &= e->lanes;
    e->restart_lanes &= e->lanes;
    open_lanes(e, gained);
    absorb_asked(e, r->lanes_asked & e->lanes);
}

/* ---- Notices ------------------------------------------------------------------------------------- */

/* The row is not what we have in memory any more. */
static void forget_row(struct engine *e, uint64_t row)
{
    struct item   *item = row != 0 ? item_find_row(e, row) : NULL;
    struct stream *s;

    if (item == NULL)
        return;
    if (item->place == PLACE_CHOSEN)
        item_return(e, item, false);
    if (item->place != PLACE_WAITING)
        return; /* it is out, or judged: the store will tell that it came too late */
    s = item->stream;
    item_free(e, item);
    if (s != NULL)
        stream_update(e, s);
}

/* A row left its place by an operator's hand.  The store knows the row's destination, which may
 * be empty: then it can have gone to any endpoint. */
static void forget_head(struct engine *e, const struct notice *n)
{
    for (size_t i = 0; i < e->endpoint_count && n->stream.size > 0; i++) {
        struct endpoint *ep = &e->endpoints[i];
        struct stream   *s;
        if (n->endpoint.size > 0 && !slice_eq(n->endpoint, ep->setting->name))
            continue;
        s = stream_find(e, ep, n->stream);
        if (s == NULL)
            continue;
        stream_remove_head(s, n->seq);
        stream_update(e, s);
    }
}

static void absorb_notice(struct engine *e, const struct notice *n, int64_t now_us)
{
    switch (n->kind) {
    case NOTICE_GONE:
    case NOTICE_PARKED:
        forget_row(e, n->row);
        forget_head(e, n);
        if (n->kind == NOTICE_PARKED && e->any_strict && n->stream.size > 0) /* whose head is it now? */
            open_lanes(e, lane_bit(lane_of(n->stream, (pr_id){ { 0 } })));
        break;
    case NOTICE_DUE:
        forget_row(e, n->row);
        e->due_restart_us = now_us;
        break;
    case NOTICE_RELOAD:
        list_foreach(node, &e->chosen)
            item_return(e, LIST_ENTRY(node, struct item, node), false);
        open_lanes(e, e->lanes);
        break;
    case NOTICE_ENDPOINT:
        break; /* the endpoints are in the reply */
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

/* ---- Verdicts and receipts ------------------------------------------------------------------------- */

/* A retry without delay, or after the store's clock went back, is due before the place that the
 * due pass has reached: it would never be met there. */
static void look_behind_cursor(struct engine *e, const struct cycle_reply *r, const struct verdict *v, int64_t now_us)
{
    bool comes_back = v->kind == VERDICT_FAIL || v->kind == VERDICT_ABANDON || v->kind == VERDICT_RELEASE;
    if (comes_back && (r->replayed || v->delay_us <= e->due_after_us - r->now_us))
        e->due_restart_us = now_us;
}

static void absorb_verdicts(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    size_t i = 0, split = 0;
    bool   reload = false;

    list_foreach(node, &e->planned) {
        struct item *item   = LIST_ENTRY(node, struct item, node);
        size_t       splits = item->verdict.kind == VERDICT_SPLIT ? item->child_count : 0;
        int          answer = r->replayed ? PR_OK : r->answers[i];

        /* An answer that was lost: the rows of a split are there, but nobody knows their names. */
        reload = reload || (r->replayed && splits > 0);
        if (r->replayed && splits > 0)
            answer = PR_STALE;
        look_behind_cursor(e, r, &item->verdict, now_us);
        settle_committed(e, item, answer, r->replayed ? NULL : r->split_rows + split, now_us);
        split += splits;
        i++;
    }
    for (size_t k = 0; k < e->planned_hold_count; k++) {
        struct stream *s = e->planned_holds[k].stream;
        s->holds--;
        stream_update(e, s);
    }
    e->planned_hold_count = 0;
    if (reload)
        open_lanes(e, e->lanes);
}

/* The receipt is committed: now they may go out. (E1) */
static void absorb_receipt(struct engine *e)
{
    list_foreach(node, &e->chosen)
        item_move(e, LIST_ENTRY(node, struct item, node), PLACE_READY);
}

/* ---- Opening ------------------------------------------------------------------------------------------ */

/* Its endpoint was missing and is there now: bring the parked row back. */
static void unpark(struct engine *e, const struct row *row, int64_t now_us)
{
    struct item *item = item_find_row(e, row->row) == NULL ? item_new(e, row, NULL) : NULL;

    if (item == NULL)
        return;
    judge_simple(e, item, VERDICT_ABANDON, PR_REASON_NONE, PR_STR("routes"), PR_STR("the endpoint is known again"), now_us);
    item->verdict.reason = PR_REASON_NONE;
}

static void absorb_head(struct engine *e, const struct row *row, int64_t now_us)
{
    unsigned         target;
    size_t           targets = route_message(e, &row->m, &target, 1);
    bool             parked  = !row->dead && row->m.due_us == PR_NEVER;
    struct endpoint *ep;
    struct stream   *s;

    if (row->bad != NULL || targets == 0)
        return;
    if (parked && row->m.reason == PR_REASON_DESTINATION_MISSING) {
        unpark(e, row, now_us);
        return;
    }
    ep = &e->endpoints[target];
    if (!stream_is_ordered(ep, row->m.stream))
        return;
    if ((parked || row->dead) ? ep->setting->ordering != ORDERING_STRICT : !keeps_back(ep, &row->m))
        return;
    s = stream_get(e, ep, row->m.stream, row->lane);
    if (s == NULL || !stream_add_head(e, s, row->m.seq, row->dead))
        e->opening_row = 0; /* no memory: begin the pass again */
    if (s != NULL)
        stream_update(e, s);
}

static void add_orphan(struct engine *e, pr_slice key)
{
    char **grown;

    for (size_t i = 0; i < e->orphan_count; i++)
        if (slice_eq_cstr(key, e->orphans[i]))
            return;
    grown = realloc(e->orphans, (e->orphan_count + 1) * sizeof(*grown));
    if (grown == NULL)
        return; /* found again at the next opening */
    e->orphans                  = grown;
    e->orphans[e->orphan_count] = strndup(key.data, key.size);
    if (e->orphans[e->orphan_count] != NULL)
        e->orphan_count++;
}

/* "endpoint/stream": whose followers are these? */
static void absorb_held_key(struct engine *e, pr_slice key)
{
    pr_slice         name;
    struct endpoint *ep = stream_split_key(e, key, &name);
    struct stream   *s;

    if (ep == NULL || !stream_is_ordered(ep, name)) {
        add_orphan(e, key);
        return;
    }
    s = stream_get(e, ep, name, lane_of(name, (pr_id){ { 0 } }));
    if (s == NULL)
        return;
    stream_is_held(s, 0);
    stream_update(e, s);
}

static void absorb_opening(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    const struct cycle *c = &e->cycle;

    if (e->planned_serial != e->opening_serial)
        return; /* it began anew meanwhile */
    if (c->heads.rows > 0) {
        for (size_t i = 0; i < r->row_count; i++) {
            if (r->rows[i].from != ROW_HEAD)
                continue;
            e->opening_row = r->rows[i].row;
            absorb_head(e, &r->rows[i], now_us);
        }
        if (r->heads_end) {
            e->opening     = c->heads_dead || !e->any_strict ? OPEN_HELD : OPEN_DEAD;
            e->opening_row = 0;
        }
    }
    if (c->held_keys.rows > 0) {
        for (size_t i = 0; i < r->held_key_count; i++)
            absorb_held_key(e, r->held_keys[i]);
        if (r->held_key_count > 0) {
            pr_slice last = r->held_keys[r->held_key_count - 1];
            e->opening_key.size = min_size(last.size, sizeof(e->opening_key_bytes));
            memcpy(e->opening_key_bytes, last.data, e->opening_key.size);
        }
        if (r->held_keys_end)
            opening_done(e, now_us);
    }
}

/* ---- Rows ----------------------------------------------------------------------------------------------- */

enum admitted { TAKEN, NO_ROOM };

/* A row without its heavy parts, for verdicts that need none of them. */
static struct row light(const struct row *row)
{
    struct row r = *row;
    r.m.payload = r.m.headers = (pr_slice){ NULL, 0 };
    return r;
}

static void admit_bad(struct engine *e, const struct row *row, int64_t now_us)
{
    struct row   r    = light(row);
    struct item *item = item_new(e, &r, NULL);

    if (item == NULL)
        return;
    item->number = counter_is_valid(row->m.attempts) ? row->m.attempts + 1 : 1; /* the store keeps the larger one */
    judge_dead(e, item, PR_REASON_SERIALIZATION_ERROR, PR_REASON_SERIALIZATION_ERROR, 0, PR_STR("undecodable"), true,
               (pr_slice){ NULL, 0 }, pr_str(row->bad), now_us);
}

static void admit_unroutable(struct engine *e, const struct row *row, int64_t now_us)
{
    struct row      r    = light(row);
    struct item    *item = item_new(e, &r, NULL);
    struct pr_error text;

    if (item == NULL)
        return;
    if (row->m.destination.size > 0)
        error_set(&text, 0, "there is no endpoint %.*s: add it to the config, or discard the message",
                  (int)min_size(row->m.destination.size, 200), row->m.destination.data);
    else
        error_set(&text, 0, "no route matches type %.*s: add a route to the config, or discard the message",
                  (int)min_size(row->m.type.size, 200), row->m.type.data);
    judge_simple(e, item, VERDICT_PARK, PR_REASON_DESTINATION_MISSING, PR_STR("routes"), pr_str(text.text), now_us);
}

/* A child of a split takes its place in its stream at once, so that later messages stay behind it. */
static struct item *admit_child(struct engine *e, const struct row *row, struct endpoint *ep, int64_t now_us)
{
    struct row     r = *row;
    struct item   *child;
    struct stream *s = NULL;

    if (ep->pass.active || endpoint_room(e, ep, now_us) == 0)
        return NULL;
    if (stream_is_ordered(ep, row->m.stream)) {
        s = stream_get(e, ep, row->m.stream, row->lane);
        if (s == NULL || s->held || stream_blocks(s, &row->m)) {
            if (s != NULL)
                stream_update(e, s);
            return NULL;
        }
    }
    r.row           = 0;
    r.m.destination = ep->setting->name;
    child           = item_new(e, &r, ep);
    if (child != NULL) {
        child->stream = s;
        item_wait(e, child, true);
    }
    if (s != NULL)
        stream_update(e, s);
    return child;
}

static enum admitted admit_split(struct engine *e, const struct row *row, const unsigned *targets, size_t count,
                                 int64_t now_us)
{
    struct row   r      = light(row);
    struct item *parent = item_new(e, &r, NULL);

    if (parent == NULL)
        return NO_ROOM;
    item_drop_verdict(parent);
    parent->children     = calloc(count, sizeof(*parent->children));
    parent->destinations = calloc(count, sizeof(*parent->destinations));
    if (parent->children == NULL || parent->destinations == NULL) {
        item_free(e, parent);
        return NO_ROOM;
    }
    parent->child_count = count;
    for (size_t i = 0; i < count; i++) {
        parent->destinations[i] = e->endpoints[targets[i]].setting->name;
        parent->children[i]     = admit_child(e, row, &e->endpoints[targets[i]], now_us);
    }
    parent->verdict = (struct verdict){
        .kind              = VERDICT_SPLIT,
        .row               = row->row,
        .id                = row->m.id,
        .destinations      = parent->destinations,
        .destination_count = count,
    };
    item_move(e, parent, PLACE_JUDGED);
    return TAKEN;
}

/* Fresh rows behind a failed head, or more of one stream than it may have in memory, wait in the
 * store: they are held. */
static bool must_hold(const struct engine *e, const struct stream *s, const struct row *row)
{
    if (row->from == ROW_HELD || row->m.released)
        return false;
    if (row->from == ROW_DUE)
        return stream_blocks(s, &row->m);
    return stream_blocks(s, &row->m) || s->held ||
           s->item_count >= max_size(16, e->setting.window_count / STREAM_SHARE_DIVISOR);
}

static enum admitted admit_one(struct engine *e, const struct row *row, struct endpoint *ep, int64_t now_us)
{
    struct stream *s = NULL;
    struct item   *item;
    bool           head   = false;
    enum admitted  result = NO_ROOM;

    if (stream_is_ordered(ep, row->m.stream)) {
        s = stream_get(e, ep, row->m.stream, row->lane);
        if (s == NULL)
            return NO_ROOM;
        head = row->from == ROW_DUE && keeps_back(ep, &row->m);
        if (head && (!stream_add_head(e, s, row->m.seq, false) || stream_misses_head(s, row->m.seq))) {
            stream_update(e, s);
            return NO_ROOM; /* an earlier head goes first; a head is never held: it comes again when due */
        }
        if (!head && must_hold(e, s, row)) {
            bool held = stream_hold_row(e, s, row->row, row->m.id, row->m.seq);
            e->counts.held += held;
            stream_update(e, s);
            return held ? TAKEN : NO_ROOM;
        }
    }
    if (endpoint_room(e, ep, now_us) > 0) {
        item = item_new(e, row, ep);
        if (item != NULL) {
            item->stream = s;
            item_wait(e, item, true);
            if (head)
                stream_set_here(s, row->m.seq, true);
            result = TAKEN;
        }
    }
    if (s != NULL)
        stream_update(e, s);
    return result;
}

/* Where a row goes, found once. */
struct target {
    unsigned endpoints[TARGETS_MAX];
    size_t   count;
};

static struct endpoint *find_target(struct engine *e, const struct row *row, struct target *ret)
{
    ret->count = row->bad == NULL ? route_message(e, &row->m, ret->endpoints, TARGETS_MAX) : 0;
    return ret->count == 1 ? &e->endpoints[ret->endpoints[0]] : NULL;
}

static enum admitted admit(struct engine *e, const struct row *row, const struct target *target, int64_t now_us)
{
    if (target->count == 1)
        return admit_one(e, row, &e->endpoints[target->endpoints[0]], now_us);
    if (target->count > 1)
        return admit_split(e, row, target->endpoints, target->count, now_us);
    if (row->bad != NULL)
        admit_bad(e, row, now_us);
    else
        admit_unroutable(e, row, now_us);
    return TAKEN;
}

/* The lane was opened anew and its fresh scan has not reached this place yet: earlier ones of its
 * stream may stand before it. */
static bool scan_will_come(const struct engine *e, const struct row *row)
{
    return !scan_has_passed(e, row->lane, row->m.seq);
}

static bool row_is_ours(const struct engine *e, const struct row *row)
{
    return (e->open & ~e->giving & lane_bit(row->lane)) != 0 && item_find_row(e, row->row) == NULL;
}

static void absorb_fresh_row(struct engine *e, const struct row *row, int64_t now_us)
{
    struct target    target;
    struct endpoint *ep;

    if (!row_is_ours(e, row))
        return;
    ep = find_target(e, row, &target);
    /* While a pass is active, earlier ones of its stream may have been passed over. */
    if (ep != NULL && (ep->pass.active || admit(e, row, &target, now_us) == NO_ROOM))
        pass_over(e, ep, row);
    else if (ep == NULL && admit(e, row, &target, now_us) == NO_ROOM)
        e->restart_lanes |= lane_bit(row->lane); /* no memory for a split: read it again */
}

static void absorb_fresh(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    uint64_t unscanned = e->open & ~e->scanned;

    e->restart_lanes &= ~e->cycle.restart_lanes;
    if (e->cycle.fresh_rows == 0)
        return;
    e->fresh_wanted = !r->fresh_end;
    for (size_t i = 0; i < r->row_count; i++) {
        const struct row *row = &r->rows[i];
        if (row->from != ROW_FRESH)
            continue;
        if ((e->open & ~e->restart_lanes & lane_bit(row->lane)) != 0)
            e->scan_seq[row->lane] = max64(e->scan_seq[row->lane], row->m.seq);
        absorb_fresh_row(e, row, now_us);
    }
    if (unscanned == 0)
        return;
    if (r->fresh_end)
        e->scanned |= e->open & ~e->restart_lanes;
    map_foreach(node, &e->streams) { /* whose held rows had to wait for the scan? */
        struct stream *s = MAP_ENTRY(node, struct stream, node);
        if (s->held && (unscanned & lane_bit(s->lane)) != 0)
            stream_update(e, s);
    }
}

static void absorb_reread(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    struct endpoint *wanted = &e->endpoints[e->reread_endpoint];
    struct pass     *p      = &wanted->pass;
    int64_t          to_seq = e->cycle.reread.to_seq;

    if (e->cycle.reread.rows == 0)
        return;
    for (size_t i = 0; i < r->row_count; i++) {
        const struct row *row = &r->rows[i];
        struct target     target;
        if (row->from != ROW_REREAD)
            continue;
        if (row_is_ours(e, row) && !scan_will_come(e, row) && find_target(e, row, &target) == wanted &&
            admit(e, row, &target, now_us) == NO_ROOM)
            return; /* go on from here when there is room again */
        p->from_seq  = row->m.seq;
        p->after_row = row->row;
    }
    if (!r->reread_end)
        return;
    p->from_seq  = to_seq;
    p->after_row = 0;
    if (p->to_seq <= to_seq)
        pass_end(e, wanted);
}

/* A part of a split comes by the due index.  It must not overtake what was passed over before it, nor
 * what the fresh scan of a lane that is new to us has not reached yet. */
static bool due_is_early(const struct engine *e, const struct endpoint *ep, const struct row *row)
{
    if (ep == NULL || (row->m.status & PR_STATUS_FAILED) != 0 || !message_blocks_stream(&row->m))
        return false;
    if (ep->pass.active && row->m.seq >= ep->pass.from_seq)
        return true;
    return stream_is_ordered(ep, row->m.stream) && scan_will_come(e, row);
}

static void absorb_due(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    if (e->cycle.due.rows == 0) {
        e->due_wanted = e->due_wanted || e->cycle.verdict_count > 0; /* they may have set due times */
        return;
    }
    e->due_wanted = !r->due_end;
    for (size_t i = 0; i < r->row_count; i++) {
        const struct row *row = &r->rows[i];
        struct target     target;
        if (row->from != ROW_DUE)
            continue;
        if (!window_has_room(e)) {
            e->due_wanted = true;
            break;
        }
        e->due_after_us  = row->m.due_us;
        e->due_after_seq = row->m.seq;
        e->due_after_row = row->row;
        if (!row_is_ours(e, row))
            continue;
        if (due_is_early(e, find_target(e, row, &target), row) || admit(e, row, &target, now_us) == NO_ROOM)
            e->due_dropped++;
    }
    e->next_due_us = r->next_due_us;
    if (!e->due_wanted && e->due_dropped > 0)
        e->due_restart_us =
            min64(e->due_restart_us, now_us + max64(e->setting.poll_us, (int64_t)e->due_dropped * SWEEP_ROW_US));
}

static struct stream *stream_of_key(struct engine *e, pr_slice key)
{
    pr_slice         name;
    struct endpoint *ep = stream_split_key(e, key, &name);
    return ep != NULL ? stream_find(e, ep, name) : NULL;
}

static void absorb_held_row(struct engine *e, const struct row *row, int64_t now_us)
{
    struct stream *s = stream_of_key(e, row->m.held_by);
    struct target  target;

    bool           waits = false;

    if (s != NULL && s->held_stop)
        return;
    find_target(e, row, &target);
    if (row_is_ours(e, row))
        waits = (s != NULL && (stream_blocks(s, &row->m) || scan_will_come(e, row))) ||
                admit(e, row, &target, now_us) == NO_ROOM;
    if (s != NULL) {
        s->held_stop = waits; /* go on from here when the head is gone, or when there is room */
        s->held_from = waits ? row->m.seq : row->m.seq + 1;
    }
}

static void drop_orphan(struct engine *e)
{
    free(e->orphans[0]);
    e->orphans[0] = e->orphans[--e->orphan_count];
}

static void absorb_held(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    size_t orphan_rows = 0;

    /* A verdict of this cycle sent earlier ones back: what was read comes behind them, later. */
    for (size_t i = 0; i < e->cycle.held_count; i++) {
        struct stream *s = stream_of_key(e, e->cycle.held[i].key);
        if (s != NULL && s->held && s->held_from <= e->cycle.held[i].after_seq)
            s->held_stop = true;
    }
    for (size_t i = 0; i < r->row_count; i++) {
        if (r->rows[i].from != ROW_HELD)
            continue;
        orphan_rows += e->orphan_count > 0 && slice_eq_cstr(r->rows[i].m.held_by, e->orphans[0]);
        absorb_held_row(e, &r->rows[i], now_us);
    }
    for (size_t i = 0; i < e->cycle.held_count; i++) {
        struct stream *s = stream_of_key(e, e->cycle.held[i].key);
        if (s != NULL) {
            if (r->held_end[i] && !s->held_stop && s->holds == 0)
                s->held = false;
            s->held_stop = false;
            stream_update(e, s);
        } else if (e->orphan_count > 0 && orphan_rows == 0 && slice_eq_cstr(e->cycle.held[i].key, e->orphans[0])) {
            drop_orphan(e);
        }
    }
}

/* ---- All of it --------------------------------------------------------------------------------------------- */

void engine_forget(struct engine *e)
{
    e->planned_hold_count = 0;
    window_drop_lanes(e, LANES_ALL, true);
    receipt_free_all(e);
    for (size_t i = 0; i < e->endpoint_count; i++)
        pass_end(e, &e->endpoints[i]);
    for (size_t i = 0; i < e->orphan_count; i++)
        free(e->orphans[i]);
    pauses_drop(e);
    effects_free(e->effects);
    effects_free(e->planned_effects);
    e->effects = e->planned_effects = NULL;
    e->orphan_count       = 0;
    e->hold_count         = 0;
    e->planned_cycle      = false;
    e->epoch              = 0;
    e->number             = 0;
    e->lanes = e->giving = e->open = e->opening_lanes = e->restart_lanes = 0;
    e->opening      = OPEN_DONE;
    e->notice_after = 0;
}

static void absorb_reads(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    absorb_opening(e, r, now_us);
    absorb_held(e, r, now_us);
    absorb_reread(e, r, now_us);
    absorb_fresh(e, r, now_us);
    absorb_due(e, r, now_us);
}

void engine_absorb(struct engine *e, int64_t asked_us, int64_t now_us, const struct cycle_reply *r)
{
    bool joined = e->epoch == 0;

    ASSERT(e->planned_cycle);
    e->planned_cycle   = false;
    e->retry_at_us     = 0;
    e->retry_delay_us  = 0;
    e->cycled_us       = now_us;
    e->number          = e->cycle.number;
    e->epoch           = r->epoch;
    e->lease_end_us    = asked_us + r->lease_left_us;
    e->store_offset_us = r->now_us - now_us;
    e->counts.cycles++;
    absorb_endpoints(e, r);
    pauses_committed(e, r->endpoints_known);
    effects_free(e->planned_effects);
    e->planned_effects = NULL;
    for (size_t i = 0; i < r->notice_count && !joined; i++)
        absorb_notice(e, &r->notices[i], now_us);
    e->notice_after = r->notice_last;
    absorb_verdicts(e, r, now_us);
    if (e->cycle.leave) {
        engine_forget(e);
        e->left = true;
        return;
    }
    absorb_receipt(e);
    absorb_lanes(e, r);
    absorb_reads(e, r, now_us);
}

void engine_cycle_failed(struct engine *e, int64_t now_us, int fault)
{
    ASSERT(e->planned_cycle && fault < 0);
    if (fault == PR_ELEASE) {
        engine_forget(e);
        engine_new_instance(e);
        e->counts.leases_lost++;
        e->left        = e->stopping;
        e->retry_at_us = now_us;
        return;
    }
    e->retry_delay_us = e->retry_delay_us == 0 ? RETRY_MIN_US : min64(e->retry_delay_us * 2, RETRY_MAX_US);
    e->retry_at_us    = fault == PR_EUNCERTAIN && e->retry_delay_us == RETRY_MIN_US ? now_us : now_us + e->retry_delay_us;
}
