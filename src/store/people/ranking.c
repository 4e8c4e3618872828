#include "store/people/ranking.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/story.h"

#define LIMIT_DEFAULT 100

static size_t limit_of(const struct query *query)
{
    return query->filter.limit > 0 ? query->filter.limit : LIMIT_DEFAULT;
}

static int compare_numbers(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* ---- Groups --------------------------------------------------------------------------------- */

static int compare_groups(const void *a, const void *b)
{
    const struct dead_group *x = a, *y = b;
    int order = compare_numbers(y->count, x->count);
    if (order == 0)
        order = compare_numbers((uint64_t)y->last_us, (uint64_t)x->last_us);
    return order != 0 ? order : slice_cmp(x->fingerprint, y->fingerprint);
}

static struct dead_group *group_find(const struct query_reply *reply, pr_slice print)
{
    for (size_t i = 0; i < reply->group_count; i++)
        if (slice_eq(reply->groups[i].fingerprint, print))
            return &reply->groups[i];
    return NULL;
}

/* Of the latest letter: what people see of the group. */
static int group_show(struct dead_group *g, const struct listed *l, struct arena *arena)
{
    g->last_us = l->died_us;
    g->cause = l->cause;
    g->reason = l->m.reason;
    g->sample = l->m.id;
    g->box = slice_dup(arena, l->box);
    g->endpoint = slice_dup(arena, l->endpoint);
    g->type = slice_dup(arena, l->m.type);
    g->error = slice_dup(arena, l->m.error);
    return g->box.data != NULL && g->endpoint.data != NULL && g->type.data != NULL && g->error.data != NULL ? PR_OK
                                                                                                            : PR_ENOMEM;
}

int groups_take(struct query_reply *reply, const struct listed *l, struct arena *arena)
{
    if (reply->groups == NULL)
        reply->groups = arena_alloc_array(arena, GROUPS_LOOKED_MAX, sizeof(reply->groups[0]));
    if (reply->groups == NULL)
        return PR_ENOMEM;
    struct dead_group *g = group_find(reply, l->fingerprint);
    if (g == NULL && reply->group_count == GROUPS_LOOKED_MAX) {
        reply->more = true;
        return PR_OK;
    }
    if (g == NULL) {
        g = &reply->groups[reply->group_count++];
        *g = (struct dead_group){ .fingerprint = slice_dup(arena, l->fingerprint), .first_us = l->died_us };
        if (g->fingerprint.data == NULL)
            return PR_ENOMEM;
    }
    g->count += g->count <= COUNT_EXACT_MAX;
    g->first_us = min64(g->first_us, l->died_us);
    return l->died_us >= g->last_us ? group_show(g, l, arena) : PR_OK;
}

int64_t groups_look_of_reason(int64_t groups)
{
    return min64(GROUP_LOOK_REASON, GROUPS_LOOK_REASON / max64(groups, 1));
}

void groups_are_cut(struct query_reply *reply, size_t looked)
{
    reply->cut = true;
    reply->looked = looked;
    for (size_t i = 0; i < reply->group_count; i++)
        reply->groups[i].partial = true;
}

void groups_rank(const struct query *query, struct query_reply *reply)
{
    if (reply->group_count > 0)
        qsort(reply->groups, reply->group_count, sizeof(reply->groups[0]), compare_groups);
    if (reply->group_count > limit_of(query)) {
        reply->group_count = limit_of(query);
        reply->more = true;
    }
}

struct letter_grouping {
    struct query_reply *reply;
    struct arena *arena;
};

static int letter_group(void *arg, const struct listed *letter, struct pr_error *reterr)
{
    const struct letter_grouping *g = arg;
    return groups_take(g->reply, letter, g->arena) == PR_OK
               ? PR_OK
               : error_set(reterr, PR_ENOMEM, "out of memory for groups of dead letters");
}

static int letter_note(void *arg, const struct listed *letter, struct pr_error *reterr)
{
    (void)letter, (void)reterr;
    *(bool *)arg = true;
    return PR_OK;
}

int groups_of_stream(const struct query *query, struct query_reply *reply, struct arena *arena, letters_find find,
                     const void *store)
{
    struct letter_grouping grouping = { reply, arena };
    struct filter filter = query->filter;
    uint64_t last = 0;
    bool more = false;
    filter.look_max = GROUP_LOOK_STREAM;
    int rc = find(store, &filter, letter_group, &grouping, &last);
    const struct filter behind = { .state = -1, .stream = filter.stream, .after = last, .look_max = 1 };
    if (rc == PR_OK && last > 0) /* the bound was reached: are there others? */
        rc = find(store, &behind, letter_note, &more, NULL);
    if (more)
        groups_are_cut(reply, GROUP_LOOK_STREAM);
    groups_rank(query, reply);
    return rc;
}

/* ---- Streams -------------------------------------------------------------------------------- */

static int compare_places(const void *a, const void *b)
{
    const struct stream_info *x = a, *y = b;
    int order = slice_cmp(x->box, y->box);
    if (order == 0)
        order = slice_cmp(x->endpoint, y->endpoint);
    return order != 0 ? order : slice_cmp(x->stream, y->stream);
}

static int compare_heads(const void *a, const void *b)
{
    const struct stream_info *x = a, *y = b;
    int order = compare_places(a, b);
    if (order == 0)
        order = x->head_yields - y->head_yields;
    return order != 0 ? order : compare_numbers((uint64_t)x->head_seq, (uint64_t)y->head_seq);
}

struct stream_mark stream_mark_of(const struct stream_info *stream)
{
    uint64_t place = hash_slice(hash_slice(hash_slice(0, stream->box), stream->endpoint), stream->stream);
    return (struct stream_mark){ stream->waiting, stream->since_us, place };
}

static int compare_marks(const struct stream_mark *x, const struct stream_mark *y)
{
    int order = compare_numbers(y->waiting, x->waiting);
    if (order == 0)
        order = compare_numbers((uint64_t)x->since_us, (uint64_t)y->since_us);
    return order != 0 ? order : compare_numbers(x->place, y->place);
}

struct ranked {
    struct stream_mark mark; /* made once: its place is a hash of texts */
    const struct stream_info *stream;
};

static int compare_ranks(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return compare_marks(&x->mark, &y->mark);
}

struct stream_info *streams_add(struct stream_list *s, const struct stream_info *stream)
{
    if (s->count == s->capacity) {
        size_t capacity = s->capacity > 0 ? 2 * s->capacity : 16;
        struct stream_info *list = arena_alloc_array(s->arena, capacity, sizeof(list[0]));
        if (list == NULL)
            return NULL;
        if (s->count > 0)
            memcpy(list, s->list, s->count * sizeof(list[0]));
        s->list = list;
        s->capacity = capacity;
    }
    struct stream_info *added = &s->list[s->count];
    *added = *stream;
    pr_slice *const texts[] = { &added->box, &added->stream, &added->endpoint, &added->code, &added->error };
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        *texts[i] = slice_dup(s->arena, *texts[i]);
        if (texts[i]->data == NULL)
            return NULL;
    }
    s->count++;
    return added;
}

int64_t stream_since(int64_t failed_us, int64_t created_us, int64_t due_us, pr_slice story)
{
    int64_t parked_us = due_us == PR_NEVER ? story_parked_us(story) : 0;
    return parked_us != 0 ? parked_us : failed_us != 0 ? failed_us : created_us;
}

struct stream_info stream_of_row(pr_slice box, const struct pr_message *m, enum state state, int64_t now_us)
{
    return (struct stream_info){
        .box = box,
        .stream = m->stream,
        .endpoint = m->destination.size > 0 ? m->destination : story_endpoint(m->story),
        .head = m->id,
        .head_state = state,
        .head_seq = m->seq,
        .head_held = m->held_by.size > 0 && !message_awaits_endpoint(m),
        .attempts = m->attempts,
        .failures = m->failures,
        .reason = m->reason,
        .code = m->code,
        .error = m->error,
        .since_us = stream_since(m->failed_us, m->created_us, m->due_us, m->story),
        .due_us = m->due_us > now_us ? m->due_us : 0,
    };
}

static int head_add(struct stream_list *s, const struct stream_info *head)
{
    const struct routing *routing = s->filter->routing;
    bool asked = stream_is_asked(s->filter, head);
    struct stream_info there = *head;
    if (head->endpoint.size == 0)
        there.endpoint = s->filter->endpoint; /* it may be found for this endpoint */
    if (!stream_is_asked(s->filter, &there))
        return PR_OK;
    struct stream_info *added = streams_add(s, head);
    if (added == NULL)
        return PR_ENOMEM;
    added->is_listed_elsewhere = !asked;
    added->head_yields = head->due_us == PR_NEVER && (routing == NULL || !routing->is_strict(routing, head->endpoint));
    return PR_OK;
}

int streams_add_head(struct stream_list *s, const struct stream_info *head, const struct pr_message *m)
{
    const struct routing *routing = s->filter->routing;
    struct stream_info routed = *head;
    int rc = PR_OK;
    if (head->endpoint.size > 0 || routing == NULL || routing->route(routing, head->box, m, 0).size == 0)
        return head_add(s, head);
    for (size_t n = 0; rc == PR_OK; n++) {
        routed.endpoint = routing->route(routing, head->box, m, n);
        if (routed.endpoint.size == 0)
            break;
        rc = head_add(s, &routed);
    }
    return rc;
}

void streams_settle(struct stream_list *s)
{
    size_t kept = 0;
    if (s->count > 0)
        qsort(s->list, s->count, sizeof(s->list[0]), compare_heads);
    for (size_t i = 0; i < s->count; i++)
        if (kept == 0 || compare_places(&s->list[kept - 1], &s->list[i]) != 0)
            s->list[kept++] = s->list[i];
    s->count = s->known = kept;
}

static struct stream_info *find(const struct stream_list *s, const struct stream_info *place)
{
    return s->known > 0 ? bsearch(place, s->list, s->known, sizeof(*place), compare_places) : NULL;
}

int streams_find(struct stream_list *s, const struct stream_info *held, struct stream_info **ret_head)
{
    struct stream_info anywhere = *held;
    anywhere.endpoint = (pr_slice){ NULL, 0 };
    *ret_head = find(s, held);
    struct stream_info *unlisted = *ret_head == NULL ? find(s, &anywhere) : NULL;
    if (unlisted == NULL)
        return PR_OK;
    struct stream_info head = *unlisted;
    head.endpoint = held->endpoint;
    head.is_listed_elsewhere = false;
    unlisted->is_listed_elsewhere = true;
    *ret_head = streams_add(s, &head);
    return *ret_head != NULL ? PR_OK : PR_ENOMEM;
}

bool stream_waits_for_letter(const struct stream_list *s, const struct stream_info *held, pr_slice endpoint,
                             const struct pr_message *letter)
{
    const struct routing *routing = s->filter->routing;
    if (endpoint.size > 0)
        return slice_eq(endpoint, held->endpoint);
    if (routing == NULL || routing->route(routing, held->box, letter, 0).size == 0)
        return true;
    const struct filter same = { .endpoint = held->endpoint, .routing = routing };
    return filter_fits_endpoint(&same, held->box, letter);
}

bool stream_may_wait_for_dead(const struct stream_list *s, const struct stream_info *head)
{
    const struct routing *routing = s->filter->routing;
    if (head == NULL)
        return true;
    return routing != NULL ? routing->is_strict(routing, head->endpoint) : head->due_us == PR_NEVER;
}

bool stream_is_alone(const struct stream_info *head)
{
    return head != NULL && head->head_held;
}

void stream_set_waiting(struct stream_info *head, uint64_t held)
{
    bool exact = held <= COUNT_EXACT_MAX;
    head->waiting = held - (exact && held > 0 && head->head_held);
}

int streams_put(struct stream_list *s, struct stream_info *head, const struct stream_info *dead)
{
    size_t place = head != NULL ? (size_t)(head - s->list) : s->count; /* the list may move */
    struct stream_info *added = streams_add(s, dead);
    if (added == NULL)
        return PR_ENOMEM;
    if (head != NULL) {
        s->list[place] = *added;
        s->count--;
    }
    return PR_OK;
}

int streams_rank(const struct stream_list *s, const struct query *query, struct query_reply *reply)
{
    const struct stream_mark *after = &query->after_stream;
    bool all = after->waiting == 0 && after->since_us == 0 && after->place == 0;
    struct ranked *ranks = arena_alloc_array(s->arena, s->count, sizeof(ranks[0]));
    size_t kept = 0;
    if (ranks == NULL)
        return PR_ENOMEM;
    for (size_t i = 0; i < s->count; i++) {
        const struct ranked r = { stream_mark_of(&s->list[i]), &s->list[i] };
        if (!s->list[i].is_listed_elsewhere && (!query->blocked || r.mark.waiting > 0) &&
            (all || compare_marks(after, &r.mark) < 0))
            ranks[kept++] = r;
    }
    if (kept > 0)
        qsort(ranks, kept, sizeof(ranks[0]), compare_ranks);
    reply->more |= kept > limit_of(query);
    kept = min_size(kept, limit_of(query));
    reply->streams = arena_alloc_array(s->arena, kept, sizeof(reply->streams[0]));
    if (reply->streams == NULL)
        return PR_ENOMEM;
    for (size_t i = 0; i < kept; i++)
        reply->streams[i] = *ranks[i].stream;
    reply->stream_count = kept;
    return PR_OK;
}

pr_slice stream_key(struct arena *arena, const struct stream_info *stream)
{
    return arena_printf(arena, "%.*s/%.*s", SLICE_ARGS(stream->endpoint), SLICE_ARGS(stream->stream));
}

void stream_key_split(pr_slice key, pr_slice *ret_endpoint, pr_slice *ret_stream)
{
    *ret_endpoint = held_endpoint(key);
    /* A key without a slash belongs to no stream. */
    const size_t name = ret_endpoint->size > 0 ? ret_endpoint->size + 1 : key.size;
    *ret_stream = (pr_slice){ key.data + name, key.size - name };
}

bool stream_is_asked(const struct filter *f, const struct stream_info *stream)
{
    return stream->stream.size > 0 && (f->endpoint.size == 0 || slice_eq(f->endpoint, stream->endpoint)) &&
           (f->stream.size == 0 || slice_eq(f->stream, stream->stream));
}

bool stream_is_one(const struct filter *f)
{
    return f->stream.size > 0 && f->endpoint.size > 0;
}

/* ---- Listings ------------------------------------------------------------------------------- */

void reply_is_full(struct query_reply *reply)
{
    const struct listed *last = &reply->listed[reply->listed_count - 1];
    if (reply->cut)
        return; /* the rows left out come before */
    reply->more = true;
    reply->next = last->row;
    reply->next_box = last->box;
}

void reply_is_cut(struct query_reply *reply, pr_slice box, uint64_t row)
{
    if (row == 0 || reply->more)
        return;
    reply->more = reply->cut = true;
    reply->next = row;
    reply->next_box = box;
}
