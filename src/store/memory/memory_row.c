/* Rows: their memory, their indexes, and how they leave the box. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "store/memory/memory_model.h"

static uint64_t id_hash(pr_id id)
{
    return hash_bytes(0, id.bytes, sizeof(id.bytes));
}

struct pr_message sender_part(const struct pr_message *message, int64_t now_us)
{
    struct pr_message m = *message;
    m.created_us = now_us;
    m.seq = 0;
    m.status = PR_STATUS_STORED | message_status_bits(message);
    m.attempts = m.failures = m.reason = m.held_for = m.parked_by = 0;
    m.code = m.error = m.story = m.held_by = (pr_slice){ NULL, 0 };
    m.failed_us = 0;
    m.released = false;
    return m;
}

struct stored_row *row_new(struct box *box, const struct pr_message *message)
{
    struct stored_row *row = malloc(sizeof(*row) + message_bytes(message));
    if (row == NULL)
        return NULL;
    memset(row, 0, sizeof(*row));
    message_copy(message, row->block, &row->m);
    row->box = box;
    row->lane = lane_of(row->m.stream, row->m.id);
    row->bad = message_defect(&row->m, SIZE_MAX);
    return row;
}

struct stored_row *row_new_sent(struct box *box, const struct pr_message *message)
{
    struct stored_row *row = row_new(box, message);
    if (row == NULL || !message->event)
        return row;
    row->event = event_new(message, message->created_us);
    if (row->event != NULL)
        return row;
    row_free(row);
    return NULL;
}

void row_free(struct stored_row *row)
{
    if (row == NULL)
        return;
    for (int i = 0; i < OWN_COUNT; i++)
        free(row->own[i]);
    free(row->after);
    free(row->event);
    free(row);
}

struct stored_row *row_find(const struct box *box, uint64_t number)
{
    for (struct map_node *n = map_first(&box->by_row, hash_u64(number)); n != NULL; n = map_next_same(n)) {
        if (n == &box->anchors[0])
            continue;
        struct stored_row *row = MAP_ENTRY(n, struct stored_row, by_row);
        if (row->row == number)
            return row;
    }
    return NULL;
}

static struct stored_row *find_id(const struct map *map, const struct map_node *anchor, pr_id id, pr_slice destination)
{
    for (struct map_node *n = map_first(map, id_hash(id)); n != NULL; n = map_next_same(n)) {
        if (n == anchor)
            continue;
        struct stored_row *row = MAP_ENTRY(n, struct stored_row, by_id);
        if (pr_id_equal(row->m.id, id) && slice_eq(row->m.destination, destination))
            return row;
    }
    return NULL;
}

struct stored_row *row_find_id(const struct box *box, pr_id id, pr_slice destination)
{
    return find_id(&box->by_id, &box->anchors[1], id, destination);
}

struct stored_row *dead_find_id(const struct box *box, pr_id id, pr_slice destination)
{
    return find_id(&box->dead_by_id, &box->anchors[2], id, destination);
}

struct stored_row *row_next_of_id(const struct box *box, bool dead, pr_id id, uint64_t after_row)
{
    const struct map_node *anchor = &box->anchors[dead ? 2 : 1];
    struct stored_row *next = NULL;
    for (struct map_node *n = map_first(dead ? &box->dead_by_id : &box->by_id, id_hash(id)); n != NULL;
         n = map_next_same(n)) {
        struct stored_row *row = n != anchor ? MAP_ENTRY(n, struct stored_row, by_id) : NULL;
        if (row != NULL && pr_id_equal(row->m.id, id) && row->row > after_row && (next == NULL || row->row < next->row))
            next = row;
    }
    return next;
}

/* The maps have an anchor in them (so that inserting cannot fail). */
static void map_put(struct map *map, struct map_node *node, uint64_t hash)
{
    int rc = map_insert(map, node, hash);
    ASSERT(rc == PR_OK);
}

/* ---- Indexes ------------------------------------------------------------------------------ */

static struct tree *row_tree(struct stored_row *row, struct tree_key *ret_key)
{
    struct lane *lane = &row->box->lanes[row->lane];
    if (row->m.held_by.size > 0) {
        *ret_key = (struct tree_key){ .text = row->m.held_by, .a = row->m.seq, .c = row->row };
        return &row->box->held;
    }
    if (row->m.due_us != 0) {
        *ret_key = (struct tree_key){ .a = row->m.due_us, .b = row->m.seq, .c = row->row };
        return &lane->due;
    }
    *ret_key = (struct tree_key){ .a = row->m.seq, .c = row->row };
    return &lane->fresh;
}

void row_place(struct stored_row *row)
{
    struct tree_key key;
    struct tree *tree = row_tree(row, &key);
    tree_insert(tree, &row->place, key);
    if (message_blocks_stream(&row->m) || row->m.due_us == PR_NEVER)
        tree_insert(&row->box->lanes[row->lane].heads, &row->head, (struct tree_key){ .c = row->row });
}

void row_unplace(struct stored_row *row)
{
    struct tree_key key;
    tree_remove(row_tree(row, &key), &row->place);
    if (tree_is_linked(&row->head))
        tree_remove(&row->box->lanes[row->lane].heads, &row->head);
}

void row_link(struct stored_row *row)
{
    struct box *box = row->box;
    row->row = ++box->memory->next_row;
    map_put(&box->by_row, &row->by_row, hash_u64(row->row));
    map_put(&box->by_id, &row->by_id, id_hash(row->m.id));
    list_push_back(&box->rows, &row->order);
    row_place(row);
}

void row_unlink(struct stored_row *row)
{
    row_unplace(row);
    list_remove(&row->order);
    map_remove(&row->box->by_id, &row->by_id);
    map_remove(&row->box->by_row, &row->by_row);
}

/* ---- Texts -------------------------------------------------------------------------------- */

bool text_dup(pr_slice text, pr_slice *ret)
{
    *ret = (pr_slice){ NULL, 0 };
    if (text.size == 0)
        return true;
    char *copy = malloc(text.size);
    if (copy == NULL)
        return false;
    memcpy(copy, text.data, text.size);
    ret->data = copy;
    ret->size = text.size;
    return true;
}

void row_own(struct stored_row *row, enum own which, pr_slice text)
{
    pr_slice *const fields[OWN_COUNT] = {
        [OWN_CODE] = &row->m.code,       [OWN_ERROR] = &row->m.error,     [OWN_STORY] = &row->m.story,
        [OWN_HELD_BY] = &row->m.held_by, [OWN_PAYLOAD] = &row->m.payload,
    };
    free(row->own[which]);
    row->own[which] = (char *)(uintptr_t)text.data; /* malloc'ed by this store, so it may be freed */
    *fields[which] = text;
}

/* ---- Ways out ----------------------------------------------------------------------------- */

static pr_slice text_put(char **at, pr_slice text)
{
    pr_slice put = { *at, text.size };
    if (text.size > 0)
        memcpy(*at, text.data, text.size);
    *at += text.size;
    return put;
}

struct after_life *after_life_new(pr_slice endpoint, pr_slice rule, pr_slice note)
{
    struct after_life *after = malloc(sizeof(*after) + endpoint.size + rule.size + note.size);
    if (after == NULL)
        return NULL;
    memset(after, 0, sizeof(*after));
    char *at = after->text;
    after->endpoint = text_put(&at, endpoint);
    after->rule = text_put(&at, rule);
    after->note = text_put(&at, note);
    return after;
}

struct after_life *after_life_copy(const struct after_life *old, pr_slice note)
{
    struct after_life *after = after_life_new(old->endpoint, old->rule, note);
    if (after == NULL)
        return NULL;
    after->cause = old->cause;
    after->limit = old->limit;
    after->at_us = old->at_us;
    after->forget_us = old->forget_us;
    after->edited_as = old->edited_as;
    memcpy(after->fingerprint, old->fingerprint, sizeof(after->fingerprint));
    return after;
}

/* Moves it to the dead letters or done, with a new number, so that these lists are in order, too. */
static void row_enter(struct stored_row *row, struct after_life *after, struct list *to)
{
    row->after = after;
    row->row = ++row->box->memory->next_row;
    list_push_back(to, &row->order);
}

void dead_link(struct stored_row *row, struct after_life *after)
{
    struct box *box = row->box;
    row_enter(row, after, &box->dead);
    map_put(&box->dead_by_id, &row->by_id, id_hash(row->m.id));
    if (row->m.stream.size > 0 && pr_id_is_zero(after->edited_as))
        tree_insert(&box->dead_heads, &row->place, (struct tree_key){ .c = row->row });
}

void row_bury_dead(struct stored_row *row, struct after_life *after)
{
    row_unlink(row);
    dead_link(row, after);
}

void dead_set_edited(struct stored_row *row, pr_id by)
{
    row->after->edited_as = by;
    if (tree_is_linked(&row->place))
        tree_remove(&row->box->dead_heads, &row->place);
}

void dead_unlink(struct stored_row *row)
{
    struct box *box = row->box;
    list_remove(&row->order);
    map_remove(&box->dead_by_id, &row->by_id);
    if (tree_is_linked(&row->place))
        tree_remove(&box->dead_heads, &row->place);
}

void row_keep_done(struct stored_row *row, struct after_life *after)
{
    row_unlink(row);
    row_enter(row, after, &row->box->done);
}

void done_purge(struct box *box, int64_t now_us, size_t max)
{
    list_foreach(node, &box->done) {
        struct stored_row *row = LIST_ENTRY(node, struct stored_row, order);
        if (max-- == 0 || row->after->forget_us > now_us)
            return;
        list_remove(node);
        row_free(row);
    }
}
