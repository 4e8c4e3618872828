/* Streams: what keeps the messages of one stream at one endpoint in order.
 *
 * The queue holds what waits in memory, by seq.  Failed heads wait in the store until they are due; here they are seqs
 * that followers may not pass.  Followers that are met while a head is missing are held in the store and come back in
 * order when it is gone. */
#include <stdlib.h>
#include <string.h>

#include "engine/internal.h"

static uint64_t stream_hash(const struct endpoint *ep, pr_slice name)
{
    return hash_slice(hash_u64(ep->index + 1), name);
}

bool stream_is_ordered(const struct endpoint *ep, pr_slice stream)
{
    return stream.size > 0 && ep->setting->ordering != ORDERING_NONE;
}

struct stream *stream_find(const struct engine *e, const struct endpoint *ep, pr_slice name)
{
    for (struct map_node *n = map_first(&e->window.streams, stream_hash(ep, name)); n != NULL; n = map_next_same(n)) {
        struct stream *s = MAP_ENTRY(n, struct stream, node);
        if (s->endpoint == ep && slice_eq(s->name, name))
            return s;
    }
    return NULL;
}

struct endpoint *stream_split_key(struct engine *e, pr_slice key, pr_slice *ret_name)
{
    for (size_t i = 0; i < e->endpoint_count; i++) {
        pr_slice name = e->endpoints[i].setting->name;
        if (e->endpoints[i].setting->gone || !slice_starts_with(key, name) || key.size <= name.size ||
            key.data[name.size] != '/')
            continue;
        *ret_name = (pr_slice){ key.data + name.size + 1, key.size - name.size - 1 };
        return &e->endpoints[i];
    }
    return NULL;
}

struct stream *stream_get(struct engine *e, struct endpoint *ep, pr_slice name, unsigned lane)
{
    struct stream *s = stream_find(e, ep, name);
    pr_slice endpoint = ep->setting->name;
    char *bytes;

    if (s != NULL)
        return s;
    s = calloc(1, sizeof(*s) + endpoint.size + 1 + name.size);
    if (s == NULL)
        return NULL;
    bytes = (char *)(s + 1); /* "endpoint/stream": the name is the tail of the key */
    memcpy(bytes, endpoint.data, endpoint.size);
    bytes[endpoint.size] = '/';
    memcpy(bytes + endpoint.size + 1, name.data, name.size);
    s->key = (pr_slice){ bytes, endpoint.size + 1 + name.size };
    s->name = (pr_slice){ bytes + endpoint.size + 1, name.size };
    s->endpoint = ep;
    s->lane = lane;
    list_init(&s->items);
    if (map_insert(&e->window.streams, &s->node, stream_hash(ep, name)) != PR_OK) {
        free(s);
        return NULL;
    }
    return s;
}

void stream_insert(struct engine *e, struct stream *s, struct item *item)
{
    struct list_node *after = list_last(&s->items);

    (void)e;
    /* it nearly always belongs at the end */
    while (after != NULL && LIST_ENTRY(after, struct item, node)->m.seq > item->m.seq)
        after = list_prev(&s->items, after);
    if (after == NULL) {
        list_push_front(&s->items, &item->node);
    } else {
        struct list_node *next = list_next(&s->items, after);
        if (next == NULL)
            list_push_back(&s->items, &item->node);
        else
            list_insert_before(next, &item->node);
    }
    s->item_count++;
}

bool stream_ends_before(const struct stream *s, int64_t seq)
{
    struct list_node *last = list_last(&s->items);
    return last == NULL || LIST_ENTRY(last, struct item, node)->m.seq < seq;
}

/* ---- Heads ----------------------------------------------------------------------------- */

bool stream_blocks(const struct stream *s, const struct pr_message *m)
{
    return s->head_count > 0 && s->heads[0].seq < m->seq && !m->released;
}

/* Index of the first head that is not before seq. */
static size_t head_place(const struct stream *s, int64_t seq)
{
    size_t low = 0, high = s->head_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->heads[middle].seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_head_at(const struct stream *s, size_t at, int64_t seq)
{
    return at < s->head_count && s->heads[at].seq == seq;
}

/* Heads are added at the end and removed at the front: the free space before the first is used again when it is at
 * least half. */
static bool heads_make_room(struct stream *s)
{
    size_t before = (size_t)(s->heads - s->head_block);
    size_t capacity;
    struct head *grown;

    if (before + s->head_count < s->head_capacity)
        return true;
    if (before > 0 && before >= s->head_capacity / 2) {
        memmove(s->head_block, s->heads, s->head_count * sizeof(*s->heads));
        s->heads = s->head_block;
        return true;
    }
    capacity = s->head_capacity == 0 ? 1 : s->head_capacity * 2;
    grown = realloc(s->head_block, capacity * sizeof(*grown));
    if (grown == NULL)
        return false;
    s->head_block = grown;
    s->heads = grown + before;
    s->head_capacity = capacity;
    return true;
}

bool stream_add_head(struct engine *e, struct stream *s, int64_t seq, int64_t due_us, bool dead)
{
    size_t at = head_place(s, seq);

    if (is_head_at(s, at, seq)) {
        s->heads[at].due_us = due_us;
        s->heads[at].dead = dead;
        return true;
    }
    if (!heads_make_room(s))
        return false;
    memmove(s->heads + at + 1, s->heads + at, (s->head_count - at) * sizeof(*s->heads));
    s->heads[at] = (struct head){ .seq = seq, .due_us = due_us, .dead = dead };
    s->heads_here = min_size(s->heads_here, at);
    s->head_count++;
    e->window.head_count++;
    return true;
}

static void heads_count_here(struct stream *s)
{
    while (s->heads_here < s->head_count && s->heads[s->heads_here].here)
        s->heads_here++;
}

void stream_set_here(struct stream *s, int64_t seq, bool here)
{
    size_t at = head_place(s, seq);
    if (!is_head_at(s, at, seq))
        return;
    s->heads[at].here = here;
    if (!here)
        s->heads_here = min_size(s->heads_here, at);
    heads_count_here(s);
}

bool stream_misses_head(const struct stream *s, int64_t seq)
{
    return s->heads_here < s->head_count && s->heads[s->heads_here].seq < seq;
}

void stream_remove_head(struct engine *e, struct stream *s, int64_t seq)
{
    size_t at = head_place(s, seq);
    if (!is_head_at(s, at, seq))
        return;
    s->head_count--;
    e->window.head_count--;
    if (at == 0)
        s->heads++;
    else
        memmove(s->heads + at, s->heads + at + 1, (s->head_count - at) * sizeof(*s->heads));
    s->heads_here -= at < s->heads_here;
    heads_count_here(s);
}

/* ---- Holding --------------------------------------------------------------------------- */

void stream_is_held(struct stream *s, int64_t from_seq)
{
    if (!s->held || from_seq < s->held_from)
        s->dozing = s->mixed = false; /* its first held row may be another one now */
    s->held_from = s->held ? min64(s->held_from, from_seq) : from_seq;
    s->held = true;
}

bool hold_add(struct engine *e, struct hold hold)
{
    if (e->plan.hold_count == e->plan.hold_capacity) {
        size_t capacity = e->plan.hold_capacity == 0 ? 64 : e->plan.hold_capacity * 2;
        struct hold *grown = realloc(e->plan.holds, capacity * sizeof(*grown));
        if (grown == NULL)
            return false;
        e->plan.holds = grown;
        e->plan.hold_capacity = capacity;
    }
    e->plan.holds[e->plan.hold_count++] = hold;
    e->counts.held++;
    return true;
}

bool stream_hold_row(struct engine *e, struct stream *s, uint64_t row, pr_id id, int64_t seq)
{
    if (!hold_add(e, (struct hold){ row, id, s->lane, s, s->endpoint }))
        return false;
    s->holds++;
    stream_is_held(s, seq);
    return true;
}

/* A head has failed, or an earlier row is held: the rows behind it go to the store.  They would take memory, maybe for
 * long, and maybe the room that the earlier rows need. */
void stream_hold_followers(struct engine *e, struct stream *s)
{
    list_foreach(node, &s->items) {
        struct item *item = LIST_ENTRY(node, struct item, node);
        bool waits = stream_misses_head(s, item->m.seq) || (s->held && s->held_from <= item->m.seq);
        if (item->place != PLACE_WAITING || item->m.released || !waits)
            continue;
        if (message_blocks_stream(&item->m) && !stream_add_head(e, s, item->m.seq, item->m.due_us, false))
            return; /* no memory: it stays in memory */
        if (slice_eq(item->m.held_by, s->key))
            stream_is_held(s, item->m.seq); /* it is held in the store already: just forget it */
        else if (!stream_hold_row(e, s, item->row, item->m.id, item->m.seq))
            return;
        item_free(e, item);
    }
}

static bool begins_before(const struct stream *s, int64_t seq)
{
    const struct list_node *first = list_first(&s->items);
    return first != NULL && LIST_ENTRY(first, struct item, node)->m.seq < seq;
}

/* Is there a row before this place that waits in memory for the breaker of its type? */
bool stream_has_held_type_at(const struct stream *s, int64_t seq)
{
    const struct list_node *first = list_first(&s->items);
    const struct item *item = first != NULL ? LIST_ENTRY(first, struct item, node) : NULL;

    return item != NULL && item->gate != NULL && item->gate->holds_type && item->m.seq < seq;
}

/* Its first row waits for the breaker of its type, maybe for long: the rows behind it go to the store, too, since they
 * would take the room of other types. */
void stream_hold_type(struct engine *e, struct stream *s)
{
    bool changed = false;

    list_foreach(node, &s->items) {
        struct item *item = LIST_ENTRY(node, struct item, node);
        bool can = item->place == PLACE_WAITING && !item->m.released && !item->from_due &&
                   item->number == 0; /* never announced: it is on no receipt */
        if (!can || !(stream_has_held_type_at(s, item->m.seq) || sorts_differ(s, &item->m)))
            continue;
        if (slice_eq(item->m.held_by, s->key))
            stream_is_held(s, item->m.seq);
        else if (!stream_hold_row(e, s, item->row, item->m.id, item->m.seq))
            break; /* no memory: it stays in memory */
        item_free(e, item);
        changed = true;
    }
    if (changed)
        stream_update(e, s);
}

/* ---- Ready or not ---------------------------------------------------------------------- */

/* May there be held rows before the first one in memory?  They are read first. */
static bool held_goes_first(const struct stream *s)
{
    struct item *item = LIST_ENTRY(list_first(&s->items), struct item, node);
    return s->held && s->held_from <= item->m.seq && !item->m.released;
}

static bool stream_is_ready(const struct engine *e, const struct stream *s)
{
    struct list_node *first = list_first(&s->items);
    struct item *item;

    if (first == NULL || s->busy > 0 || (e->membership.giving & lane_bit(s->lane)) != 0)
        return false;
    item = LIST_ENTRY(first, struct item, node);
    return !held_goes_first(s) && item->place == PLACE_WAITING && !stream_blocks(s, &item->m);
}

/* Puts the node into the list or takes it out; returns the change in the list's length. */
static int link_if(struct list *list, struct list_node *node, bool wanted)
{
    if (wanted == list_is_linked(node))
        return 0;
    if (wanted)
        list_push_back(list, node);
    else
        list_remove(node);
    return wanted ? 1 : -1;
}

void stream_free(struct engine *e, struct stream *s)
{
    link_if(NULL, &s->ready, false);
    e->reading.waking_count += (size_t)link_if(NULL, &s->waking, false);
    link_if(NULL, &s->unscanned, false);
    peers_stream_ends(e, s);
    map_remove(&e->window.streams, &s->node);
    e->window.head_count -= s->head_count;
    free(s->head_block);
    free(s);
}

/* Is it time to read the first held rows?  Not while a head is before them: if it failed again they would have been
 * read in vain.  But when the head is in memory and is not the last one, the next head may be among them. */
static bool held_may_come(const struct stream *s)
{
    const struct head *next = s->heads_here < s->head_count ? &s->heads[s->heads_here] : NULL;

    return s->head_count == 0 || s->held_from <= s->heads[0].seq ||
           (next != NULL && !next->dead && s->held_from <= next->seq);
}

/* Are so few of its rows in memory that held ones are read? */
static bool has_few(const struct engine *e, const struct stream *s)
{
    const struct list_node *first = list_first(&s->items);
    const struct item *item = first != NULL ? LIST_ENTRY(first, struct item, node) : NULL;
    size_t share = item != NULL && item->sort != NULL ? sorts_stream_share(e, s->endpoint, item->sort) : HELD_ROWS;

    return s->item_count < max_size(1, min_size(HELD_ROWS, share) / 2);
}

void stream_update(struct engine *e, struct stream *s)
{
    s->mixed = s->mixed && (s->busy > 0 || begins_before(s, s->held_from));

    bool wake = s->held && held_may_come(s) && (has_few(e, s) || held_goes_first(s)) &&
                (e->membership.giving & lane_bit(s->lane)) == 0 && scan_has_passed(e, s->lane, s->held_from) &&
                !s->dozing && !s->mixed && !stream_has_held_type_at(s, s->held_from);

    if (s->item_count == 0 && s->busy == 0 && s->head_count == 0 && !s->held && s->holds == 0) {
        stream_free(e, s);
        return;
    }
    if (s->shelved) { /* its first message may be another one now: look again */
        s->shelved = false;
        list_remove(&s->ready);
    }
    link_if(&s->endpoint->ready_streams, &s->ready, stream_is_ready(e, s));
    e->reading.waking_count += (size_t)link_if(&s->endpoint->waking, &s->waking, wake);
    link_if(&e->reading.unscanned, &s->unscanned, s->held && !scan_has_passed(e, s->lane, s->held_from));
}
