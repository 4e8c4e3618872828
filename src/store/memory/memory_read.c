/* The reads of a cycle.  Each lane has its own indexes; rows of several lanes are merged, so that a page is in the
 * order of its index, however many lanes the reader owns. */
#include <string.h>

#include "base/util.h"
#include "store/memory/memory_model.h"

/* ---- Merging lanes ------------------------------------------------------------------------ */

struct merge_lane {
    struct tree_node *node;
    unsigned lane;
};

struct merge { /* a heap: the lane with the lowest key first */
    size_t count;
    struct merge_lane top[LANE_COUNT];
};

static bool merge_before(const struct merge *m, size_t a, size_t b)
{
    return tree_key_cmp(&m->top[a].node->key, &m->top[b].node->key) < 0;
}

static void merge_swap(struct merge *m, size_t a, size_t b)
{
    struct merge_lane one = m->top[a];
    m->top[a] = m->top[b];
    m->top[b] = one;
}

static void merge_sink(struct merge *m, size_t at)
{
    for (;;) {
        size_t least = at, child = 2 * at + 1;
        if (child < m->count && merge_before(m, child, least))
            least = child;
        if (child + 1 < m->count && merge_before(m, child + 1, least))
            least = child + 1;
        if (least == at)
            return;
        merge_swap(m, at, least);
        at = least;
    }
}

/* NULL: the lane has nothing. */
static void merge_add(struct merge *m, unsigned lane, struct tree_node *node)
{
    if (node == NULL)
        return;
    size_t at = m->count++;
    m->top[at] = (struct merge_lane){ .node = node, .lane = lane };
    for (; at > 0 && merge_before(m, at, (at - 1) / 2); at = (at - 1) / 2)
        merge_swap(m, at, (at - 1) / 2);
}

/* The first lane continues with this node; NULL: it has ended. */
static void merge_advance(struct merge *m, struct tree_node *node)
{
    if (node != NULL)
        m->top[0].node = node;
    else
        m->top[0] = m->top[--m->count];
    merge_sink(m, 0);
}

/* ---- Rows of the reply ---------------------------------------------------------------------- */

static struct row *reply_room(struct memory_session *session)
{
    struct cycle_reply *reply = &session->reply;
    if (reply->row_count == session->row_capacity) {
        size_t capacity = session->row_capacity > 0 ? 2 * session->row_capacity : 32;
        struct row *rows = arena_alloc(&session->arena, capacity * sizeof(rows[0]));
        if (rows == NULL)
            return NULL;
        if (reply->row_count > 0)
            memcpy(rows, reply->rows, reply->row_count * sizeof(rows[0]));
        reply->rows = rows;
        session->row_capacity = capacity;
    }
    return &reply->rows[reply->row_count];
}

static int reply_add(struct memory_session *session, const struct stored_row *stored, enum row_from from,
                     size_t payload_max)
{
    struct row *row = reply_room(session);
    if (row == NULL)
        return PR_ENOMEM;
    bool too_large = stored->m.payload.size > payload_max;
    struct pr_message m = stored->m;
    if (from == ROW_HEAD || too_large)
        m.payload = (pr_slice){ NULL, 0 };
    char *block = arena_alloc(&session->arena, message_bytes(&m));
    if (block == NULL)
        return PR_ENOMEM;
    message_copy(&m, block, &row->m);
    row->row = stored->row;
    row->lane = stored->lane;
    row->from = from;
    row->dead = stored->after != NULL;
    row->bad = stored->bad;
    row->over = too_large ? stored->m.payload.size : 0;
    session->reply.row_count++;
    return PR_OK;
}

static struct stored_row *placed(struct tree_node *node)
{
    return CONTAINER_OF(node, struct stored_row, place);
}

/* ---- Fresh rows ----------------------------------------------------------------------------- */

#define SKIP_LOOKS 4 /* as many rows are looked at as may be returned, times this */

/* A lane on its way through the ranges that the scan gave. */
struct lane_walk {
    struct scan_range ranges[SCAN_RANGES_MAX];
    size_t count, at;
    int64_t last_seq; /* taken of range `at` */
};

/* The first row from this node on that is in the range. */
static struct tree_node *range_find(const struct scan_range *range, struct tree_node *node)
{
    for (; node != NULL && node->key.a < range->to; node = tree_next(node)) {
        uint64_t xid = placed(node)->xid;
        if (scan_visible(range->upto, xid) && (range->unseen == NULL || !scan_visible(range->unseen, xid)))
            return node;
    }
    return NULL;
}

static struct tree_node *range_first(const struct lane *lane, const struct scan_range *range)
{
    const struct tree_node *last = tree_last(&lane->fresh);
    if (last == NULL || last->key.a < range->from)
        return NULL;
    struct tree_key before = { .a = range->from - 1, .b = INT64_MAX, .c = UINT64_MAX };
    return range_find(range, tree_above(&lane->fresh, before));
}

/* node, or when it is NULL the first of the ranges that follow. */
static struct tree_node *fresh_settle(struct lane_walk *f, const struct lane *lane, struct tree_node *node)
{
    while (node == NULL && f->at + 1 < f->count) {
        f->at++;
        f->last_seq = SCAN_BEGIN;
        node = range_first(lane, &f->ranges[f->at]);
    }
    return node;
}

/* The scan runs exactly in the lanes that are owned. */
static void fresh_start(struct memory_session *session, uint64_t owned, uint64_t restart)
{
    for (unsigned i = 0; i < LANE_COUNT; i++) {
        bool is_owned = (owned & lane_bit(i)) != 0;
        if (!is_owned)
            scan_stop(session->scan, i);
        else if ((restart & lane_bit(i)) || !scan_is_started(session->scan, i))
            scan_start(session->scan, i);
    }
}

static int fresh_snapshot(struct memory_session *session)
{
    struct memory *memory = session->box->memory;
    size_t open = 0, count = 0;
    list_foreach(node, &memory->open)
        open += LIST_ENTRY(node, struct memory_tx, node)->xid != 0;
    uint64_t *xip = arena_alloc_array(&session->arena, open, sizeof(xip[0]));
    if (xip == NULL)
        return PR_ENOMEM;
    list_foreach(node, &memory->open) { /* in the order of their xids */
        const struct memory_tx *tx = LIST_ENTRY(node, struct memory_tx, node);
        if (tx->xid != 0)
            xip[count++] = tx->xid;
    }
    int64_t last = session->box->last_seq; /* under one mutex nothing happens between the two (S1) */
    struct snapshot now = {
        .xmin = count > 0 ? xip[0] : memory->next_xid, .xmax = memory->next_xid, .xip = xip, .xip_count = count
    };
    return scan_snapshot(session->scan, last, &now);
}

static void note_skipped(struct cycle_reply *reply, int64_t seq)
{
    bool first = reply->skipped.from_seq == reply->skipped.to_seq;
    reply->skipped.from_seq = first ? seq : min64(reply->skipped.from_seq, seq);
    reply->skipped.to_seq = first ? seq + 1 : max64(reply->skipped.to_seq, seq + 1);
}

static int reply_passed(struct memory_session *session, const struct lane_walk *lanes, uint64_t owned)
{
    int64_t *passed = arena_alloc_array(&session->arena, LANE_COUNT, sizeof(passed[0]));
    if (passed == NULL)
        return PR_ENOMEM;
    for (unsigned i = 0; i < LANE_COUNT; i++) {
        bool is_new = (owned & lane_bit(i)) != 0 && lanes[i].ranges[lanes[i].at].kind == SCAN_NEW;
        passed[i] = is_new ? lanes[i].last_seq : INT64_MIN;
    }
    session->reply.passed = passed;
    return PR_OK;
}

static int read_fresh(struct memory_session *session, const struct cycle *cycle, uint64_t owned)
{
    struct lane_walk lanes[LANE_COUNT];
    struct merge merge;
    merge.count = 0;
    struct box *box = session->box;

    int rc = fresh_snapshot(session);
    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < LANE_COUNT; i++) {
        if (!(owned & lane_bit(i)))
            continue;
        struct lane_walk *f = &lanes[i];
        f->count = scan_ranges(session->scan, i, f->ranges);
        f->at = 0;
        f->last_seq = SCAN_BEGIN;
        merge_add(&merge, i, fresh_settle(f, &box->lanes[i], range_first(&box->lanes[i], &f->ranges[0])));
    }

    size_t rows = 0, bytes = 0, looked = 0;
    while (merge.count > 0 && rows < cycle->fresh_rows && (rows == 0 || bytes < cycle->fresh_bytes) &&
           looked < SKIP_LOOKS * cycle->fresh_rows) {
        unsigned lane = merge.top[0].lane;
        struct lane_walk *f = &lanes[lane];
        struct tree_node *node = merge.top[0].node;
        looked++;
        f->last_seq = node->key.a;
        if (fresh_is_skipped(cycle->skips, cycle->skip_count, &placed(node)->m)) {
            note_skipped(&session->reply, node->key.a);
        } else {
            rc = reply_add(session, placed(node), ROW_FRESH, cycle->payload_max);
            if (rc < 0)
                return rc;
            rows++;
            bytes += message_bytes(&placed(node)->m);
        }
        merge_advance(&merge, fresh_settle(f, &box->lanes[lane], range_find(&f->ranges[f->at], tree_next(node))));
    }
    session->reply.fresh_end = merge.count == 0;

    uint64_t unfinished = 0;
    for (size_t i = 0; i < merge.count; i++)
        unfinished |= lane_bit(merge.top[i].lane);
    for (unsigned i = 0; i < LANE_COUNT; i++)
        if (owned & lane_bit(i))
            session->pending[i] =
                (struct scan_pending){ .set = true,
                                       .last_seq = lanes[i].last_seq,
                                       .whole = unfinished & lane_bit(i) ? lanes[i].at : lanes[i].count };
    session->pending_number = cycle->number;
    return cycle->skip_count > 0 ? reply_passed(session, lanes, owned) : PR_OK;
}

/* The next cycle has another number: so the reply to the last one arrived.  The same number means that it was lost, and
 * the scan reads the same ranges again. */
void scan_settle(struct memory_session *session, const struct cycle *cycle)
{
    bool arrived = session->pending_number != 0 && cycle->number != session->pending_number;
    for (unsigned i = 0; i < LANE_COUNT; i++) {
        struct scan_pending *pending = &session->pending[i];
        if (pending->set && arrived && scan_is_started(session->scan, i))
            scan_done(session->scan, i, pending->whole, pending->last_seq);
        pending->set = false;
    }
    session->pending_number = 0;
    if (cycle->epoch == 0)
        fresh_start(session, 0, 0); /* a new instance: nothing was read */
}

/* ---- What comes back ------------------------------------------------------------------------ */

static int read_due(struct memory_session *session, const struct cycle *cycle, uint64_t owned, int64_t now_us)
{
    struct merge merge;
    merge.count = 0;
    struct tree_key after = { .a = cycle->due.after_due_us, .b = cycle->due.after_seq, .c = cycle->due.after_row };
    for (unsigned i = 0; i < LANE_COUNT; i++)
        if (owned & lane_bit(i))
            merge_add(&merge, i, tree_above(&session->box->lanes[i].due, after));
    for (size_t rows = 0; merge.count > 0 && merge.top[0].node->key.a <= now_us; rows++) {
        if (rows == cycle->due.rows)
            return PR_OK;
        struct tree_node *node = merge.top[0].node;
        int rc = reply_add(session, placed(node), ROW_DUE, cycle->payload_max);
        if (rc < 0)
            return rc;
        merge_advance(&merge, tree_next(node));
    }
    session->reply.due_end = true;
    return PR_OK;
}

static int64_t next_due(const struct box *box, uint64_t owned, int64_t now_us)
{
    int64_t next_us = PR_NEVER;
    struct tree_key now = { .a = now_us, .b = INT64_MAX, .c = UINT64_MAX };
    for (unsigned i = 0; i < LANE_COUNT; i++) {
        if (!(owned & lane_bit(i)) || box->lanes[i].due.count == 0)
            continue;
        const struct tree_node *node = tree_above(&box->lanes[i].due, now);
        next_us = node != NULL ? min64(next_us, node->key.a) : next_us;
    }
    return next_us;
}

static int read_again(struct memory_session *session, const struct cycle *cycle, uint64_t owned)
{
    struct merge merge;
    merge.count = 0;
    struct tree_key after = { .a = cycle->reread.from_seq, .c = cycle->reread.after_row };
    for (unsigned i = 0; i < LANE_COUNT; i++)
        if (owned & lane_bit(i))
            merge_add(&merge, i, tree_above(&session->box->lanes[i].fresh, after));
    for (size_t rows = 0; merge.count > 0 && merge.top[0].node->key.a < cycle->reread.to_seq; rows++) {
        if (rows == cycle->reread.rows)
            return PR_OK;
        struct tree_node *node = merge.top[0].node;
        int rc = reply_add(session, placed(node), ROW_REREAD, cycle->payload_max);
        if (rc < 0)
            return rc;
        merge_advance(&merge, tree_next(node));
    }
    session->reply.reread_end = true;
    return PR_OK;
}

/* ---- Streams -------------------------------------------------------------------------------- */

static int read_heads(struct memory_session *session, const struct cycle *cycle, uint64_t owned)
{
    struct merge merge;
    merge.count = 0;
    struct tree_key after = { .c = cycle->heads.after_row };
    for (unsigned i = 0; i < LANE_COUNT; i++)
        if (owned & cycle->heads.lanes & lane_bit(i))
            merge_add(&merge, i, tree_above(&session->box->lanes[i].heads, after));
    for (size_t rows = 0; merge.count > 0; rows++) {
        if (rows == cycle->heads.rows)
            return PR_OK;
        struct tree_node *node = merge.top[0].node;
        int rc = reply_add(session, CONTAINER_OF(node, struct stored_row, head), ROW_HEAD, cycle->payload_max);
        if (rc < 0)
            return rc;
        merge_advance(&merge, tree_next(node));
    }
    session->reply.heads_end = true;
    return PR_OK;
}

static int read_dead_heads(struct memory_session *session, const struct cycle *cycle, uint64_t owned)
{
    struct tree_node *node = tree_above(&session->box->dead_heads, (struct tree_key){ .c = cycle->heads.after_row });
    for (size_t rows = 0; node != NULL; node = tree_next(node)) {
        if (!(owned & cycle->heads.lanes & lane_bit(placed(node)->lane)))
            continue;
        if (rows++ == cycle->heads.rows)
            return PR_OK;
        int rc = reply_add(session, placed(node), ROW_HEAD, cycle->payload_max);
        if (rc < 0)
            return rc;
    }
    session->reply.heads_end = true;
    return PR_OK;
}

static int read_held(struct memory_session *session, const struct cycle *cycle, uint64_t owned, size_t which)
{
    const struct held_read *held = &cycle->held[which];
    struct tree_key after = { .text = held->key, .a = held->after_seq, .c = held->after_row };
    struct tree_node *node = tree_above(&session->box->held, after);
    for (size_t rows = 0; node != NULL && slice_eq(node->key.text, held->key); node = tree_next(node)) {
        if (!(owned & lane_bit(placed(node)->lane)))
            continue;
        if (rows++ == held->rows)
            return PR_OK;
        int rc = reply_add(session, placed(node), ROW_HELD, cycle->payload_max);
        if (rc < 0)
            return rc;
    }
    session->reply.held_end[which] = true;
    return PR_OK;
}

/* The first row of the first key above `after` that has one in these lanes. */
static struct tree_node *held_key_above(const struct box *box, pr_slice after, uint64_t lanes)
{
    struct tree_key end = { .text = after, .a = INT64_MAX, .b = INT64_MAX, .c = UINT64_MAX };
    struct tree_node *node = tree_above(&box->held, end);
    while (node != NULL && !(lanes & lane_bit(placed(node)->lane)))
        node = tree_next(node);
    return node;
}

static int read_held_keys(struct memory_session *session, const struct cycle *cycle, uint64_t owned)
{
    struct cycle_reply *reply = &session->reply;
    uint64_t lanes = owned & cycle->held_keys.lanes;
    size_t room = min_size(cycle->held_keys.rows, session->box->held.count);
    reply->held_keys = arena_alloc_array(&session->arena, room, sizeof(reply->held_keys[0]));
    if (reply->held_keys == NULL)
        return PR_ENOMEM;
    struct tree_node *node = held_key_above(session->box, cycle->held_keys.after, lanes);
    while (node != NULL && reply->held_key_count < room) {
        pr_slice key = slice_dup(&session->arena, node->key.text);
        if (key.data == NULL)
            return PR_ENOMEM;
        reply->held_keys[reply->held_key_count++] = key;
        node = held_key_above(session->box, key, lanes);
    }
    reply->held_keys_end = node == NULL;
    return PR_OK;
}

/* ---- All of it ------------------------------------------------------------------------------ */

int reply_read(struct memory_session *session, const struct cycle *cycle, uint64_t owned, int64_t now_us)
{
    struct cycle_reply *reply = &session->reply;
    int rc = PR_OK;

    fresh_start(session, owned, cycle->restart_lanes);
    reply->held_end = arena_alloc_array(&session->arena, cycle->held_count, sizeof(reply->held_end[0]));
    if (reply->held_end == NULL)
        return PR_ENOMEM;
    if (cycle->fresh_rows > 0)
        rc = read_fresh(session, cycle, owned);
    if (rc == PR_OK && cycle->due.rows > 0)
        rc = read_due(session, cycle, owned, now_us);
    if (rc == PR_OK && cycle->reread.rows > 0)
        rc = read_again(session, cycle, owned);
    if (rc == PR_OK && cycle->heads.rows > 0)
        rc = cycle->heads_dead ? read_dead_heads(session, cycle, owned) : read_heads(session, cycle, owned);
    if (rc == PR_OK && cycle->held_keys.rows > 0)
        rc = read_held_keys(session, cycle, owned);
    for (size_t i = 0; i < cycle->held_count && rc == PR_OK; i++)
        rc = read_held(session, cycle, owned, i);
    if (rc == PR_OK)
        rc = evidence_answer(session, cycle);
    if (rc == PR_OK)
        rc = marks_answer(session, cycle);
    if (rc == PR_OK)
        rc = gone_answer(session, cycle);
    if (rc == PR_OK)
        rc = loads_answer(session, cycle);
    reply->next_due_us = next_due(session->box, owned, now_us);
    return rc;
}
