/* Marks (core/mark.h): found by their ids, forgotten in the order of their times. */
#include "core/mark.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/time.h"
#include "store/memory/memory_model.h"

#define ANCHOR 3 /* of box->marks among box->anchors */

static uint64_t mark_hash(pr_id id)
{
    return hash_bytes(0, id.bytes, sizeof(id.bytes));
}

struct stored_mark *mark_new(const struct effect *e, int64_t now_us)
{
    struct stored_mark *mark = calloc(1, sizeof(*mark) + e->key.size);
    if (mark == NULL)
        return NULL;
    mark->id = e->id;
    mark->at_us = now_us;
    mark->until_us = e->keep_us > 0 ? time_add(now_us, e->keep_us) : PR_NEVER;
    mark->outcome = e->outcome;
    mark->alone = e->alone;
    if (e->key.size > 0)
        memcpy(mark->text, e->key.data, e->key.size);
    mark->handler = (pr_slice){ mark->text, e->key.size };
    return mark;
}

struct stored_mark *mark_next_of_id(const struct box *box, pr_id id, const struct stored_mark *after)
{
    struct map_node *n = after != NULL ? map_next_same(&after->by_id) : map_first(&box->marks, mark_hash(id));
    for (; n != NULL; n = map_next_same(n))
        if (n != &box->anchors[ANCHOR] && pr_id_equal(MAP_ENTRY(n, struct stored_mark, by_id)->id, id))
            return MAP_ENTRY(n, struct stored_mark, by_id);
    return NULL;
}

struct stored_mark *mark_find(const struct box *box, pr_id id, pr_slice handler)
{
    struct stored_mark *mark = mark_next_of_id(box, id, NULL);
    while (mark != NULL && !slice_eq(mark->handler, handler))
        mark = mark_next_of_id(box, id, mark);
    return mark;
}

bool mark_has_handled(const struct box *box, pr_id id, pr_slice destination)
{
    const struct stored_mark *mark = box->dedupe_us > 0 ? mark_next_of_id(box, id, NULL) : NULL;
    while (mark != NULL && !slice_eq(mark->handler, destination) && !(destination.size == 0 && mark->alone))
        mark = mark_next_of_id(box, id, mark);
    return mark != NULL;
}

/* ---- What arrives again ----------------------------------------------------------------------- */

struct stored_again *again_next_of_id(const struct box *box, pr_id id, const struct stored_again *after)
{
    struct map_node *n = after != NULL ? map_next_same(&after->by_id) : map_first(&box->again, mark_hash(id));
    while (n != NULL && !pr_id_equal(MAP_ENTRY(n, struct stored_again, by_id)->id, id))
        n = map_next_same(n);
    return n != NULL ? MAP_ENTRY(n, struct stored_again, by_id) : NULL;
}

static struct stored_again *again_new(struct box *box, const struct pr_message *m)
{
    struct stored_again *a = calloc(1, sizeof(*a) + m->destination.size);
    if (a == NULL || map_insert(&box->again, &a->by_id, mark_hash(m->id)) != PR_OK) {
        free(a);
        return NULL;
    }
    a->id = m->id;
    if (m->destination.size > 0)
        memcpy(a->text, m->destination.data, m->destination.size);
    a->destination = (pr_slice){ a->text, m->destination.size };
    list_push_back(&box->again_order, &a->order);
    return a;
}

void again_note(struct box *box, const struct pr_message *m, int64_t now_us)
{
    if (box->dedupe_us <= 0)
        return;
    struct stored_again *a = again_next_of_id(box, m->id, NULL);
    while (a != NULL && !slice_eq(a->destination, m->destination))
        a = again_next_of_id(box, m->id, a);
    if (a == NULL && (a = again_new(box, m)) == NULL)
        return;
    a->times++;
    a->at_us = now_us;
    a->until_us = time_add(now_us, box->dedupe_us);
    list_remove(&a->order);
    list_push_back(&box->again_order, &a->order);
}

static void again_drop(struct box *box, struct stored_again *a)
{
    map_remove(&box->again, &a->by_id);
    list_remove(&a->order);
    free(a);
}

static void again_purge(struct box *box, int64_t now_us, int64_t dedupe_us, size_t max)
{
    while (max-- > 0 && !list_is_empty(&box->again_order)) {
        struct stored_again *a = LIST_ENTRY(list_first(&box->again_order), struct stored_again, order);
        if (a->until_us > now_us)
            return;
        if (row_next_of_id(box, false, a->id, 0) == NULL && row_next_of_id(box, true, a->id, 0) == NULL &&
            mark_next_of_id(box, a->id, NULL) == NULL) {
            again_drop(box, a);
            continue;
        }
        a->until_us = time_add(now_us, mark_look_again_us(dedupe_us));
        list_remove(&a->order);
        list_push_back(&box->again_order, &a->order);
    }
}

/* ---- Making and forgetting marks ---------------------------------------------------------------- */

/* By time; all marks of a box are kept for the same time, so that the place is nearly always at the end. */
static void mark_line_up(struct box *box, struct stored_mark *mark)
{
    struct list_node *before = list_last(&box->mark_order);
    while (before != NULL && LIST_ENTRY(before, struct stored_mark, order)->until_us > mark->until_us)
        before = list_prev(&box->mark_order, before);
    struct list_node *next = before != NULL ? list_next(&box->mark_order, before) : list_first(&box->mark_order);
    if (next != NULL)
        list_insert_before(next, &mark->order);
    else
        list_push_back(&box->mark_order, &mark->order);
}

void mark_link(struct box *box, struct stored_mark *mark)
{
    int rc = map_insert(&box->marks, &mark->by_id, mark_hash(mark->id));
    ASSERT(rc == PR_OK); /* there is an anchor in it */
    mark_line_up(box, mark);
}

void mark_drop(struct box *box, struct stored_mark *mark)
{
    map_remove(&box->marks, &mark->by_id);
    list_remove(&mark->order);
    free(mark);
}

static void marks_purge_over(struct box *box, int64_t now_us, int64_t dedupe_us, size_t max)
{
    while (max-- > 0 && !list_is_empty(&box->mark_order)) {
        struct stored_mark *mark = LIST_ENTRY(list_first(&box->mark_order), struct stored_mark, order);
        if (mark->until_us > now_us)
            return;
        if (row_next_of_id(box, false, mark->id, 0) == NULL && row_next_of_id(box, true, mark->id, 0) == NULL) {
            mark_drop(box, mark);
            continue;
        }
        list_remove(&mark->order);
        mark->until_us = time_add(now_us, mark_look_again_us(dedupe_us));
        mark_line_up(box, mark);
    }
}

void marks_purge(struct box *box, int64_t now_us, int64_t dedupe_us, size_t max)
{
    marks_purge_over(box, now_us, dedupe_us, max);
    again_purge(box, now_us, dedupe_us, max);
}

void marks_free(struct box *box)
{
    list_foreach(again, &box->again_order)
        again_drop(box, LIST_ENTRY(again, struct stored_again, order));
    map_fini(&box->again);
    list_foreach(node, &box->mark_order)
        mark_drop(box, LIST_ENTRY(node, struct stored_mark, order));
    map_fini(&box->marks);
}

/* ---- What a cycle asks ------------------------------------------------------------------------ */

static bool has_letter(const struct box *box, const struct mark_key *key)
{
    const struct stored_row *letter = row_next_of_id(box, true, key->id, 0);
    while (letter != NULL && !slice_eq(mark_handler(letter->m.destination, letter->after->endpoint), key->handler))
        letter = row_next_of_id(box, true, key->id, letter->row);
    return letter != NULL;
}

int marks_answer(struct memory_session *session, const struct cycle *cycle)
{
    const struct box *box = session->box;
    if (cycle->mark_count == 0)
        return PR_OK;
    bool *marked = arena_alloc_array(&session->arena, cycle->mark_count, sizeof(marked[0]));
    for (size_t i = 0; marked != NULL && i < cycle->mark_count; i++)
        marked[i] =
            mark_find(box, cycle->marks[i].id, cycle->marks[i].handler) != NULL || has_letter(box, &cycle->marks[i]);
    session->reply.marked = marked;
    return marked != NULL ? PR_OK : PR_ENOMEM;
}

int loads_answer(struct memory_session *session, const struct cycle *cycle)
{
    struct cycle_reply *reply = &session->reply;
    if (cycle->load_count == 0)
        return PR_OK;
    reply->loaded = arena_alloc_array(&session->arena, cycle->load_count, sizeof(reply->loaded[0]));
    if (reply->loaded == NULL)
        return PR_ENOMEM;
    reply->loaded_count = cycle->load_count;
    for (size_t i = 0; i < cycle->load_count; i++) {
        const struct stored_row *row = row_find(session->box, cycle->loads[i].row);
        if (row == NULL || !pr_id_equal(row->m.id, cycle->loads[i].id))
            continue;
        char *bytes = malloc(row->m.payload.size + 1);
        if (bytes == NULL)
            return PR_ENOMEM;
        if (row->m.payload.size > 0)
            memcpy(bytes, row->m.payload.data, row->m.payload.size);
        reply->loaded[i] = (pr_slice){ bytes, row->m.payload.size };
    }
    return PR_OK;
}

int gone_answer(struct memory_session *session, const struct cycle *cycle)
{
    if (cycle->alive_count == 0)
        return PR_OK;
    bool *gone = arena_alloc_array(&session->arena, cycle->alive_count, sizeof(gone[0]));
    for (size_t i = 0; gone != NULL && i < cycle->alive_count; i++) {
        const struct stored_row *row = row_find(session->box, cycle->alive[i].row);
        gone[i] = row == NULL || !pr_id_equal(row->m.id, cycle->alive[i].id);
    }
    session->reply.gone = gone;
    return gone != NULL ? PR_OK : PR_ENOMEM;
}
