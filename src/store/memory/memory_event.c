/* Events: each gets its version with the commit that stores it, and its place when all events are first read.  A reader
 * may rely on a place that it got, so events with a place are durable. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/util.h"
#include "store/memory/memory_model.h"

static pr_slice text_put(char **at, pr_slice text)
{
    pr_slice put = { *at, text.size };
    if (text.size > 0)
        memcpy(*at, text.data, text.size);
    *at += text.size;
    return put;
}

static struct list *events_of(struct memory *memory, pr_slice stream)
{
    return &memory->kept[hash_bytes(EFFECT_EVENT, stream.data, stream.size) % KEPT_LISTS];
}

struct kept_effect *event_new(const struct pr_message *m, int64_t now_us)
{
    struct kept_effect *e = calloc(1, sizeof(*e) + m->stream.size + m->type.size + m->payload.size + m->headers.size +
                                          m->content_type.size);
    if (e == NULL)
        return NULL;
    char *at = e->text;
    e->kind = EFFECT_EVENT;
    e->id = m->id;
    e->count = 1;
    e->at_us = now_us;
    e->key = text_put(&at, m->stream);
    e->name = text_put(&at, m->type);
    e->value = text_put(&at, m->payload);
    e->headers = text_put(&at, m->headers);
    e->content_type = text_put(&at, m->content_type);
    return e;
}

int64_t events_count(struct memory *memory, pr_slice stream, pr_id id, bool *ret_known)
{
    int64_t count = 0;
    *ret_known = false;
    list_foreach(node, events_of(memory, stream)) {
        const struct kept_effect *e = LIST_ENTRY(node, struct kept_effect, node);
        if (e->kind != EFFECT_EVENT || !slice_eq(e->key, stream))
            continue;
        count++;
        *ret_known = *ret_known || pr_id_equal(e->id, id);
    }
    return count;
}

void event_append(struct memory *memory, struct kept_effect *event, uint64_t row)
{
    bool known;
    event->number = events_count(memory, event->key, event->id, &known);
    event->row = row;
    if (known) {
        free(event);
        return;
    }
    list_push_back(events_of(memory, event->key), &event->node);
    list_push_back(&memory->events, &event->all);
}

void row_append_event(struct stored_row *row)
{
    if (row->event != NULL)
        event_append(row->box->memory, row->event, row->row);
    row->event = NULL;
}

void events_lose(struct memory *memory)
{
    memory->event_places = 0; /* the remaining ones were reported before */
    list_foreach(node, &memory->events) {
        struct kept_effect *e = LIST_ENTRY(node, struct kept_effect, all);
        if (e->row <= memory->durable_row) {
            memory->event_places = e->place > memory->event_places ? e->place : memory->event_places;
            continue;
        }
        list_remove(&e->all);
        list_remove(&e->node);
        free(e);
    }
}

static void events_place(struct memory *memory)
{
    list_foreach(node, &memory->events) {
        struct kept_effect *e = LIST_ENTRY(node, struct kept_effect, all);
        if (e->place == 0)
            e->place = ++memory->event_places;
    }
    memory_flush(memory);
}

static bool event_copy(const struct kept_effect *e, bool in_order, struct arena *arena, struct stored_event *ret)
{
    *ret = (struct stored_event){
        .place = in_order ? e->place : 0,
        .stream = slice_dup(arena, e->key),
        .version = (uint64_t)e->number + 1,
        .id = e->id,
        .type = slice_dup(arena, e->name),
        .content_type = slice_dup(arena, e->content_type),
        .headers = slice_dup(arena, e->headers),
        .payload = slice_dup(arena, e->value),
        .created_us = e->at_us,
    };
    return ret->stream.data != NULL && ret->type.data != NULL && ret->content_type.data != NULL &&
           ret->headers.data != NULL && ret->payload.data != NULL;
}

int events_copy(struct memory *memory, const struct query *query, size_t limit, struct arena *arena,
                struct query_reply *reply)
{
    const struct filter *f = &query->filter;
    bool in_order = f->stream.size == 0, known;
    size_t bytes = 0;
    if (in_order)
        events_place(memory);
    if (query->brief) {
        reply->total =
            in_order ? memory->event_places : (uint64_t)events_count(memory, f->stream, (pr_id){ { 0 } }, &known);
        return PR_OK;
    }
    reply->events = arena_alloc_array(arena, limit, sizeof(reply->events[0]));
    if (reply->events == NULL)
        return PR_ENOMEM;
    list_foreach(node, &memory->events) {
        const struct kept_effect *e = LIST_ENTRY(node, struct kept_effect, all);
        bool asked = in_order ? e->place > f->after : slice_eq(e->key, f->stream) && (uint64_t)e->number >= f->after;
        if (!asked || (f->id_count > 0 && !pr_id_equal(f->ids[0], e->id)))
            continue;
        reply->more = reply->event_count == limit || bytes >= EVENTS_BYTES;
        if (reply->more)
            return PR_OK;
        struct stored_event *copy = &reply->events[reply->event_count++];
        if (!event_copy(e, in_order, arena, copy))
            return PR_ENOMEM;
        bytes += event_bytes(copy);
    }
    return PR_OK;
}
