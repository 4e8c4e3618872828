/* Receivers that ask for messages of some types only, and what happens to the other types.
 *
 * Types that the same asks accept form one sort.  Each sort has a queue of its own in memory and a share of the window,
 * so that sorts whose workers are slow, or gone, take nothing from the others.  Rows above the share stay in the store,
 * and so do the rows behind them in their streams (left.c); when a sort has few rows left in memory, it is read from
 * the place where rows were left.  Each sort has its own such place, and reading stops when the sort has enough rows
 * again: however the types are mixed, a backlog is looked through once for each sort, and not once for each claim.
 *
 * Of a stream only rows of one sort are in memory: those of another sort would take a share and could not go. */
#include <stdlib.h>
#include <string.h>

#include "engine/internal.h"

/* ---- Which sort is it? ------------------------------------------------------------------------------- */

static unsigned ask_bit(size_t ask)
{
    return 1u << ask;
}

static struct sort *sort_new(struct sorting *g, unsigned takers)
{
    struct sort **grown = realloc(g->list, (g->count + 1) * sizeof(struct sort *));
    struct sort *s = grown != NULL ? calloc(1, sizeof *s) : NULL;

    g->list = grown != NULL ? grown : g->list;
    if (s == NULL)
        return NULL;
    s->takers = takers;
    list_init(&s->loose);
    list_init(&s->streams);
    g->list[g->count++] = s;
    return s;
}

static unsigned takers_of(const struct sorting *g, pr_slice type)
{
    unsigned takers = ask_bit(0);

    for (size_t i = 1; i < ASKS_MAX; i++)
        if (g->types[i] != NULL && ask_takes(slice_from(g->types[i]), type))
            takers |= ask_bit(i);
    return takers;
}

/* Without memory the type gets the first sort, which only asks for all types accept. */
static struct sort *sort_find(struct sorting *g, unsigned takers)
{
    for (size_t i = 0; i < g->count; i++)
        if (g->list[i]->takers == takers)
            return g->list[i];
    struct sort *s = sort_new(g, takers);
    return s != NULL ? s : g->list[0];
}

struct sort *sort_of(struct endpoint *ep, pr_slice type)
{
    struct sorting *g = &ep->sorting;

    if (!g->on)
        return NULL;
    struct sort_of_type *known = &g->by_type[hash_slice(0, type) % SORT_TYPES];
    if (known->sort != NULL && slice_eq((pr_slice){ known->type, known->size }, type))
        return known->sort;
    unsigned takers = takers_of(g, type);
    struct sort *s = sort_find(g, takers);
    if (type.size > sizeof known->type || s->takers != takers)
        return s;
    known->sort = s;
    known->size = (uint8_t)type.size;
    if (type.size > 0)
        memcpy(known->type, type.data, type.size);
    return s;
}

void sorts_enter(struct endpoint *ep, struct item *item)
{
    item->sort = sort_of(ep, item->m.type);
    if (item->sort == NULL)
        return;
    item->sort->count++;
    item->sort->bytes += item->bytes;
}

void sorts_leave(struct item *item)
{
    if (item->sort == NULL)
        return;
    item->sort->count--;
    item->sort->bytes -= item->bytes;
    item->sort = NULL;
}

/* ---- How much of it is here? ------------------------------------------------------------------------- */

static bool is_wanted(const struct sorting *g, const struct sort *s)
{
    for (size_t i = 0; i < ASKS_MAX; i++)
        if (g->present[i] && (s->takers & ask_bit(i)) != 0)
            return true;
    return false;
}

/* All shares together stay below what the endpoint can have (endpoint_room()): otherwise the first sorts would leave no
 * room to the others. */
static size_t sort_share(const struct engine *e, const struct endpoint *ep, const struct sort *s)
{
    const struct sorting *g = &ep->sorting;
    size_t most = (window_free(e) + ep->count) / 2 / g->count;
    size_t share = is_wanted(g, s) ? window_limit(e) / (STREAM_SHARE_DIVISOR * g->count) : 0;

    return max_size(1, min_size(most, max_size(CLOSED_SHARE, share)));
}

/* At least `divisor` times this must be free. */
static bool has_less_than(const struct engine *e, const struct endpoint *ep, const struct sort *s, size_t divisor)
{
    size_t bytes = limits_window_bytes(e->limits, e->window.bytes) / (STREAM_SHARE_DIVISOR * ep->sorting.count);

    return s->count < max_size(1, sort_share(e, ep, s) / divisor) && s->bytes < bytes / divisor;
}

bool sort_is_full(const struct engine *e, const struct endpoint *ep, const struct sort *s)
{
    return s->count > 0 && !has_less_than(e, ep, s, 1);
}

size_t sorts_stream_share(const struct engine *e, const struct endpoint *ep, const struct sort *s)
{
    return max_size(1, sort_share(e, ep, s) / STREAM_SHARE_DIVISOR);
}

static bool wants_rows(const struct engine *e, const struct endpoint *ep, const struct sort *s)
{
    return is_wanted(&ep->sorting, s) && (s->count == 0 || has_less_than(e, ep, s, 2));
}

bool sorts_refuse(const struct engine *e, struct endpoint *ep, pr_slice type)
{
    struct sort *s = sort_of(ep, type);

    if (s == NULL || !sort_is_full(e, ep, s))
        return false;
    s->refused = true;
    return true;
}

/* Is there an ask that none of the known types matches? */
static bool ask_is_without(const struct sorting *g, size_t ask)
{
    for (size_t i = 0; i < g->count; i++)
        if ((g->list[i]->takers & ask_bit(ask)) != 0)
            return false;
    return true;
}

bool sorts_want_rows(const struct engine *e, const struct endpoint *ep)
{
    const struct sorting *g = &ep->sorting;

    for (size_t i = 0; i < g->count; i++)
        if (wants_rows(e, ep, g->list[i]))
            return true;
    for (size_t i = 0; i < ASKS_MAX && g->on; i++)
        if (g->present[i] && ask_is_without(g, i))
            return true;
    return false;
}

/* ---- Leaving rows behind ------------------------------------------------------------------------------- */

/* The sort that requires leaving the row in the store; NULL: it may come in. */
static struct sort *sort_that_leaves(const struct engine *e, struct endpoint *ep, const struct row *row, bool ordered)
{
    const struct sorting *g = &ep->sorting;

    for (size_t i = 0; i < g->count && ordered; i++)
        if (left_has_before(&g->list[i]->left, row->m.stream, row->m.seq))
            return g->list[i];
    return sorts_refuse(e, ep, row->m.type) ? sort_of(ep, row->m.type) : NULL;
}

/* Without memory for the stream filter the row is treated like any other that finds no room. */
static struct left *left_for(const struct engine *e, struct endpoint *ep, const struct row *row)
{
    bool ordered = stream_is_ordered(ep, row->m.stream) && !row->m.released;
    struct sort *s = ep->sorting.on ? sort_that_leaves(e, ep, row, ordered) : NULL;

    return s != NULL && (!ordered || left_add_stream(&s->left, row->m.stream, row->m.seq)) ? &s->left : NULL;
}

bool sorts_pass_over(struct engine *e, struct endpoint *ep, const struct row *row)
{
    struct left *l = left_for(e, ep, row);

    if (l != NULL)
        left_fresh(l, row);
    return l != NULL;
}

bool sorts_take_part(struct engine *e, struct endpoint *ep, const struct row *row)
{
    struct left *l = left_for(e, ep, row);

    if (l != NULL)
        left_held(l, row);
    return l != NULL;
}

bool sorts_hide(const struct endpoint *ep, pr_slice stream, int64_t seq)
{
    for (size_t i = 0; i < ep->sorting.count; i++)
        if (left_hides(&ep->sorting.list[i]->left, ep, stream, seq))
            return true;
    return false;
}

bool sorts_differ(const struct stream *s, const struct pr_message *m)
{
    const struct list_node *first = list_first(&s->items);
    const struct item *item = first != NULL ? LIST_ENTRY(first, struct item, node) : NULL;
    const struct sort *sort = m->released ? NULL : sort_of(s->endpoint, m->type);

    if (sort == NULL)
        return false;
    if (item != NULL && item->m.seq < m->seq)
        return item->sort != sort;
    return s->busy > 0 && s->busy_sort != NULL && s->busy_sort != sort;
}

/* ---- Reading on ---------------------------------------------------------------------------------------- */

void sorts_joined(struct endpoint *ep, enum gap_source source, int64_t seq)
{
    ep->sorting.joined[source] = min64(ep->sorting.joined[source], seq);
}

void sorts_read_all(struct endpoint *ep)
{
    ep->sorting.reading = NULL;
    stream_set_fini(&ep->sorting.before);
}

/* The sort's streams are remembered until all is read: later rows of them may be left again. */
static void read_for(struct engine *e, struct endpoint *ep, struct sort *s)
{
    struct sorting *g = &ep->sorting;

    left_reopen(e, ep, &s->left);
    g->reading = s;
    g->before = s->left.streams;
    s->left.streams = (struct stream_set){ .count = 0 };
    left_forget(&s->left);
    for (enum gap_source source = 0; source < GAP_SOURCES; source++)
        g->joined[source] = INT64_MAX;
}

/* The gaps have no row before this place. */
static int64_t reading_from(const struct endpoint *ep)
{
    int64_t from_seq = INT64_MAX;

    for (enum gap_source source = 0; source < GAP_SOURCES; source++)
        if (ep->gaps[source].active)
            from_seq = min64(from_seq, ep->gaps[source].from_seq);
    return from_seq;
}

/* Of the rest of the gaps, only the rows that joined meanwhile belong to the endpoint. */
static void leave_rest(struct engine *e, struct endpoint *ep, struct sort *s, enum gap_source source)
{
    struct gap *g = &ep->gaps[source];
    int64_t joined = ep->sorting.joined[source];

    if (!g->active)
        return;
    gap_widen(&s->left.gaps[source], g->from_seq, g->after_row, g->to_seq);
    if (joined == INT64_MAX) {
        gap_close(e, ep, source);
    } else if (joined > g->from_seq) {
        g->from_seq = joined;
        g->after_row = 0;
    }
}

void sorts_have_read(struct engine *e, struct endpoint *ep)
{
    struct sorting *g = &ep->sorting;
    struct sort *s = g->reading;

    if (s == NULL || !sort_is_full(e, ep, s) || !stream_set_join(&s->left.streams, &g->before, reading_from(ep)))
        return; /* without memory the rest is read now */
    s->refused = true;
    for (enum gap_source source = 0; source < GAP_SOURCES; source++)
        leave_rest(e, ep, s, source);
    sorts_read_all(ep);
}

static void renew_endpoint(struct engine *e, struct endpoint *ep)
{
    struct sorting *g = &ep->sorting;
    bool woken = false;

    for (size_t i = 0; i < g->count; i++) {
        struct sort *s = g->list[(g->next + i) % g->count];
        bool open = left_is_open(&s->left);
        if (!s->refused || !wants_rows(e, ep, s) || (open && endpoint_has_gap(ep)))
            continue;
        s->refused = false;
        woken = true;
        if (open)
            read_for(e, ep, s);
    }
    if (woken)
        streams_wake_dozing(e, ep);
}

void sorts_renew(struct engine *e)
{
    for (size_t i = 0; i < e->endpoint_count; i++)
        if (e->endpoints[i].sorting.on)
            renew_endpoint(e, &e->endpoints[i]);
}

void sorts_forget_endpoint(struct endpoint *ep)
{
    for (size_t i = 0; i < ep->sorting.count; i++)
        left_forget(&ep->sorting.list[i]->left);
    sorts_read_all(ep);
}

void sorts_forget(struct engine *e)
{
    for (size_t i = 0; i < e->endpoint_count; i++)
        sorts_forget_endpoint(&e->endpoints[i]);
}

/* ---- Who gets what --------------------------------------------------------------------------------------- */

static bool has_room(const struct sorting *g, const struct sort *s, size_t ask)
{
    return g->present[ask] && (s->takers & ask_bit(ask)) != 0 && g->out[ask] < g->room[ask];
}

/* Asks for few types come first: an ask for all types can have another message. */
static size_t asker_of(const struct sorting *g, const struct sort *s)
{
    for (size_t i = ASKS_MAX; i > 0; i--)
        if (has_room(g, s, i - 1))
            return i - 1;
    return ASKS_MAX;
}

void sorts_took(struct endpoint *ep)
{
    ep->sorting.next = ep->sorting.turn + 1;
}

unsigned sorts_asker(const struct endpoint *ep, const struct item *item)
{
    size_t ask = item->sort != NULL ? asker_of(&ep->sorting, item->sort) : 0;
    return ask < ASKS_MAX ? (unsigned)ask : 0; /* a message that ends without being handed out has no ask */
}

static void queue_loose(struct endpoint *ep)
{
    for (struct list_node *node = list_first(&ep->loose); node != NULL; node = list_first(&ep->loose)) {
        struct item *item = LIST_ENTRY(node, struct item, node);
        if (item->place != PLACE_WAITING)
            return;
        struct list *queue = &item->sort->loose;
        struct list_node *first = list_first(queue);
        list_remove(node);
        if (first != NULL && LIST_ENTRY(first, struct item, node)->m.seq > item->m.seq)
            list_push_front(queue, node); /* it came back */
        else
            list_push_back(queue, node);
    }
}

static void queue_streams(struct engine *e, struct endpoint *ep)
{
    for (struct list_node *node = list_first(&ep->ready_streams); node != NULL; node = list_first(&ep->ready_streams)) {
        struct stream *s = LIST_ENTRY(node, struct stream, ready);
        stream_hold_type(e, s);
        list_remove(&s->ready);
        list_push_back(&LIST_ENTRY(list_first(&s->items), struct item, node)->sort->streams, &s->ready);
        s->shelved = true;
    }
}

static struct item *first_loose(const struct sort *s)
{
    struct list_node *node = list_first(&s->loose);
    return node != NULL ? LIST_ENTRY(node, struct item, node) : NULL;
}

static struct item *first_ordered(const struct sort *s)
{
    struct list_node *node = list_first(&s->streams);
    return node != NULL ? LIST_ENTRY(list_first(&LIST_ENTRY(node, struct stream, ready)->items), struct item, node)
                        : NULL;
}

/* Without room only messages that end without being handed out: these need not wait for an ask. */
static struct item *first_of(struct engine *e, struct endpoint *ep, const struct sort *s, int64_t now_us)
{
    bool room = asker_of(&ep->sorting, s) < ASKS_MAX;
    struct item *loose = first_loose(s), *ordered = first_ordered(s);

    while (room && loose != NULL && !breakers_allow_or_shelve(e, ep, loose, now_us))
        loose = first_loose(s);
    while (room && ordered != NULL && !breakers_allow_or_shelve(e, ep, ordered, now_us))
        ordered = first_ordered(s);
    if (!room) {
        loose = loose != NULL && is_unsendable(e, loose, now_us) ? loose : NULL;
        ordered = ordered != NULL && is_unsendable(e, ordered, now_us) ? ordered : NULL;
    }
    return choose_turn(e, ep, loose, ordered, now_us);
}

struct item *sorts_candidate(struct engine *e, struct endpoint *ep, int64_t now_us)
{
    struct sorting *g = &ep->sorting;

    queue_loose(ep);
    queue_streams(e, ep);
    for (size_t i = 0; i < g->count; i++) {
        size_t at = (g->next + i) % g->count;
        struct item *item = first_of(e, ep, g->list[at], now_us);
        if (item == NULL)
            continue;
        g->turn = at; /* the same sort until its item is taken: other engines may be let through first */
        return item;
    }
    return NULL;
}

/* ---- Other asks ------------------------------------------------------------------------------------------- */

static void sort_end(struct engine *e, struct endpoint *ep, struct sort *s)
{
    for (struct list_node *n = list_pop_front(&s->loose); n != NULL; n = list_pop_front(&s->loose))
        list_push_back(&ep->loose, n);
    for (struct list_node *n = list_pop_front(&s->streams); n != NULL; n = list_pop_front(&s->streams)) {
        LIST_ENTRY(n, struct stream, ready)->shelved = false;
        list_push_back(&ep->ready_streams, n);
    }
    left_reopen(e, ep, &s->left);
}

static void sorts_free(struct sorting *g)
{
    for (size_t i = 0; i < g->count; i++) {
        left_forget(&g->list[i]->left);
        free(g->list[i]);
    }
    free(g->list);
    free(g->by_type);
    g->list = NULL;
    g->by_type = NULL;
    g->count = g->next = 0;
    g->on = false;
}

void sorts_fini(struct endpoint *ep)
{
    sorts_free(&ep->sorting);
    sorts_read_all(ep);
    for (size_t i = 0; i < ASKS_MAX; i++)
        free(ep->sorting.types[i]);
}

/* Is it where leave_item() records it?  Not if it is held under the key of another endpoint. */
static bool can_be_found(const struct endpoint *ep, const struct item *item)
{
    pr_slice by = item->m.held_by;

    return slice_is_empty(by) || slice_eq_cstr(by, ep->key) ||
           (item->stream != NULL && slice_eq(by, item->stream->key));
}

/* Was it only read, so that reading it again restores it? */
static bool can_be_left(const struct engine *e, const struct endpoint *ep, const struct item *item)
{
    return item->place == PLACE_WAITING && item->number == 0 && !item->from_due && !item->m.released &&
           sort_is_full(e, ep, item->sort) && can_be_found(ep, item);
}

/* false: no memory; it stays in memory. */
static bool leave_item(struct engine *e, const struct endpoint *ep, struct item *item)
{
    struct left *l = &item->sort->left;
    const struct row row = { .row = item->row, .m = item->m };

    if (item->stream != NULL && slice_eq(item->m.held_by, item->stream->key))
        stream_is_held(item->stream, item->m.seq);
    else if (item->stream != NULL && !left_add_stream(l, item->m.stream, item->m.seq))
        return false;
    else if (slice_eq_cstr(item->m.held_by, ep->key))
        left_held(l, &row);
    else
        left_fresh(l, &row);
    item->sort->refused = true;
    item_free(e, item);
    return true;
}

/* Rows that came in before there were asks by type may exceed the share of their sort.  Of a stream the last rows go
 * first. */
static void leave_what_is_too_much(struct engine *e, struct endpoint *ep)
{
    for (size_t i = 0; i < e->window.slot_count; i++) {
        struct item *item = e->window.slots[i];
        if (item != NULL && item->endpoint == ep && item->stream == NULL && can_be_left(e, ep, item))
            (void)!leave_item(e, ep, item);
    }
    map_foreach(node, &e->window.streams) {
        struct stream *s = MAP_ENTRY(node, struct stream, node);
        struct list_node *last;
        if (s->endpoint != ep)
            continue;
        while ((last = list_last(&s->items)) != NULL) {
            struct item *item = LIST_ENTRY(last, struct item, node);
            if (!can_be_left(e, ep, item) || !leave_item(e, ep, item))
                break;
        }
        stream_update(e, s);
    }
}

/* Assigns all items in memory to sorts again, or to none; rows that were left become the endpoint's to read. */
static void sort_anew(struct engine *e, struct endpoint *ep)
{
    struct sorting *g = &ep->sorting;
    bool typed = false;

    for (size_t i = 0; i < g->count; i++)
        sort_end(e, ep, g->list[i]);
    sorts_read_all(ep);
    for (size_t i = 0; i < e->window.slot_count; i++)
        if (e->window.slots[i] != NULL && e->window.slots[i]->endpoint == ep)
            sorts_leave(e->window.slots[i]);
    sorts_free(g);
    for (size_t i = 1; i < ASKS_MAX; i++)
        typed = typed || g->types[i] != NULL;
    g->by_type = typed ? calloc(SORT_TYPES, sizeof *g->by_type) : NULL;
    g->on = g->by_type != NULL && sort_new(g, ask_bit(0)) != NULL;
    for (size_t i = 0; i < e->window.slot_count && g->on; i++)
        if (e->window.slots[i] != NULL && e->window.slots[i]->endpoint == ep)
            sorts_enter(ep, e->window.slots[i]);
    map_foreach(node, &e->window.streams) {
        struct stream *s = MAP_ENTRY(node, struct stream, node);
        if (s->endpoint == ep)
            s->busy_sort = NULL;
        if (s->endpoint != ep || !(s->mixed || s->dozing))
            continue;
        s->mixed = s->dozing = false;
        stream_update(e, s);
    }
    if (g->on)
        leave_what_is_too_much(e, ep);
}

static bool has_types(const struct sorting *g, size_t ask, pr_slice types)
{
    return g->types[ask] != NULL ? slice_eq_cstr(types, g->types[ask]) : types.size == 0;
}

/* false: no memory, or not now; nothing has changed. */
static bool set_types(struct engine *e, struct endpoint *ep, const struct ask *asks)
{
    struct sorting *g = &ep->sorting;
    char *types[ASKS_MAX] = { NULL };
    bool same = true, fits = true;

    for (size_t i = 1; i < ASKS_MAX; i++)
        same = same && has_types(g, i, asks[i].types);
    if (same || e->plan.asked) /* the rows being read would be taken for those of another gap */
        return same;
    for (size_t i = 1; i < ASKS_MAX; i++)
        if (asks[i].types.size > 0)
            fits = (types[i] = strndup(asks[i].types.data, asks[i].types.size)) != NULL && fits;
    for (size_t i = 1; i < ASKS_MAX; i++) {
        free(fits ? g->types[i] : types[i]);
        g->types[i] = fits ? types[i] : g->types[i];
    }
    if (fits)
        sort_anew(e, ep);
    return fits;
}

void sorts_set_asks(struct engine *e, struct endpoint *ep, const struct ask *asks, size_t count)
{
    struct sorting *g = &ep->sorting;
    struct ask all[ASKS_MAX] = { { .room = 0 } };

    for (size_t i = 0; i < count; i++)
        if (asks[i].present)
            all[i] = asks[i];
    set_types(e, ep, all);
    ep->room = count == 0 ? SIZE_MAX : 0;
    for (size_t i = 0; i < ASKS_MAX; i++) {
        g->present[i] = all[i].present && (i == 0 || has_types(g, i, all[i].types));
        g->room[i] = g->present[i] ? all[i].room : 0;
        ep->room += min_size(all[i].room, SIZE_MAX - ep->room);
    }
}

void sorts_check(const struct endpoint *ep)
{
    const struct sorting *g = &ep->sorting;
    size_t count = 0, bytes = 0, out = 0;

    for (size_t i = 0; i < g->count; i++) {
        count += g->list[i]->count;
        bytes += g->list[i]->bytes;
    }
    for (size_t i = 0; i < ASKS_MAX; i++)
        out += g->out[i];
    ASSERT(!g->on || (count == ep->count && bytes == ep->bytes));
    ASSERT(out == ep->out);
    ASSERT(g->reading == NULL || endpoint_has_gap(ep));
    for (size_t i = 0; i < g->count; i++)
        ASSERT(!left_is_open(&g->list[i]->left) || g->list[i]->refused); /* it will be read again */
}
