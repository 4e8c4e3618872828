/* Effects: allocating their memory, comparing their guards, and applying them, which cannot fail. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "store/memory/memory_model.h"

static pr_slice text_put(char **at, pr_slice text)
{
    pr_slice put = { *at, text.size };
    if (text.size > 0)
        memcpy(*at, text.data, text.size);
    *at += text.size;
    return text.data != NULL ? put : (pr_slice){ NULL, 0 };
}

struct list *kept_list(struct memory *memory, enum effect_kind kind, pr_slice key)
{
    return &memory->kept[hash_bytes((uint64_t)kind, key.data, key.size) % KEPT_LISTS];
}

/* ---- Taking the memory -------------------------------------------------------------------- */

static struct kept_effect *kept_new(const struct effect *e)
{
    struct kept_effect *kept = calloc(1, sizeof(*kept) + e->box.size + e->key.size + e->name.size + e->value.size);
    if (kept == NULL)
        return NULL;
    char *at = kept->text;
    kept->kind = e->kind;
    kept->id = e->id;
    kept->count = e->count;
    kept->box = text_put(&at, e->box);
    kept->key = text_put(&at, e->key);
    kept->name = text_put(&at, e->name);
    kept->value = text_put(&at, e->value);
    return kept;
}

int effect_take(struct memory *memory, const struct effect *e, int64_t now_us, struct effect_memory *ret,
                struct pr_error *reterr)
{
    bool in_box = e->kind == EFFECT_MESSAGE || e->kind == EFFECT_DELETE || e->kind == EFFECT_SEEN;
    ret->box = in_box ? box_find(memory, e->box) : NULL;
    if (in_box && ret->box == NULL)
        return error_set(reterr, PR_ENOTFOUND, "unknown box \"%.*s\" for a message of a handler", SLICE_ARGS(e->box));
    if (e->kind == EFFECT_MESSAGE) {
        struct pr_message m = sender_part(e->message, now_us);
        ret->row = row_new_sent(ret->box, &m);
        return ret->row != NULL ? PR_OK : PR_ENOMEM;
    }
    if (e->kind == EFFECT_EVENT) {
        ret->kept = event_new(e->message, now_us);
        return ret->kept != NULL ? PR_OK : PR_ENOMEM;
    }
    if (e->kind == EFFECT_DELETE)
        return PR_OK;
    if (e->kind == EFFECT_FLOW || e->kind == EFFECT_EXECUTION || e->kind == EFFECT_MAIL)
        return flow_take(memory, e, now_us, ret);
    if (e->kind == EFFECT_SEEN) {
        ret->mark = mark_new(e, now_us);
        return ret->mark != NULL ? PR_OK : PR_ENOMEM;
    }
    ret->kept = kept_new(e);
    return ret->kept != NULL ? PR_OK : PR_ENOMEM;
}

void effect_memory_fini(struct effect_memory *m)
{
    row_free(m->row);
    free(m->mark);
    free(m->kept);
    flow_memory_fini(m);
}

/* ---- Guards --------------------------------------------------------------------------------- */

/* How many there are; *ret_twice: an event with this id is among them. */
static int64_t guard_number(struct memory *memory, const struct effect *e, bool *ret_twice)
{
    int64_t number = 0;
    *ret_twice = false;
    if (e->kind == EFFECT_SEEN)
        return mark_find(box_find(memory, e->box), e->id, e->key) != NULL;
    if (effect_guards_stream(e))
        return events_count(memory, e->message->stream, e->message->id, ret_twice);
    list_foreach(node, kept_list(memory, e->kind, e->key)) {
        const struct kept_effect *kept = LIST_ENTRY(node, struct kept_effect, node);
        if (kept->kind == e->kind && slice_eq(kept->key, e->key))
            number = max64(number, kept->number + kept->count);
    }
    return number;
}

void effects_compare(struct memory *memory, const struct effect *effects, size_t count, struct effect_guards *g)
{
    for (size_t i = 0; i < count; i++) {
        bool twice = false;
        if (g->first[i] == SIZE_MAX || g->answers[i] != PR_OK)
            continue;
        if (effects[i].kind == EFFECT_FLOW) {
            const struct stored_flow *flow = flow_find(memory, effects[i].flow->id);
            g->answers[i] = effect_flow_answer(&effects[i], flow != NULL ? flow->row : NULL);
            continue;
        }
        int64_t number = guard_number(memory, &effects[i], &twice);
        g->answers[i] = twice ? PR_DUPLICATE : g->first[i] == i ? effect_guard_answer(&effects[i], number) : PR_OK;
    }
    effect_guards_settle(g, effects, count);
}

/* ---- Changing ------------------------------------------------------------------------------- */

static int message_apply(struct memory *memory, struct effect_memory *m)
{
    struct stored_row *row = m->row;
    if (row_find_id(row->box, row->m.id, row->m.destination) != NULL ||
        dead_find_id(row->box, row->m.id, row->m.destination) != NULL ||
        mark_has_handled(row->box, row->m.id, row->m.destination)) {
        again_note(row->box, &row->m, memory_now(memory));
        return PR_DUPLICATE;
    }
    m->row = NULL;
    row->xid = memory->next_xid++;
    row->m.seq = ++row->box->last_seq;
    row_link(row);
    row_append_event(row);
    box_touch(row->box);
    return PR_OK;
}

static int delete_apply(struct box *box, pr_id id)
{
    int answer = PR_UNKNOWN;
    list_foreach(node, &box->rows) {
        struct stored_row *row = LIST_ENTRY(node, struct stored_row, order);
        if (!pr_id_equal(row->m.id, id))
            continue;
        row_unlink(row);
        row_free(row);
        answer = PR_OK;
    }
    return answer;
}

static void state_forget(struct memory *memory, const struct effect *e)
{
    list_foreach(node, kept_list(memory, EFFECT_STATE, e->key)) {
        struct kept_effect *kept = LIST_ENTRY(node, struct kept_effect, node);
        if (kept->kind != EFFECT_STATE || !slice_eq(kept->key, e->key) || !slice_eq(kept->name, e->name))
            continue;
        list_remove(node);
        free(kept);
        return;
    }
}

int effect_apply(struct memory *memory, const struct effect *e, struct effect_memory *m)
{
    bool ignored;
    if (e->kind == EFFECT_MESSAGE)
        return message_apply(memory, m);
    if (e->kind == EFFECT_DELETE)
        return delete_apply(m->box, e->id);
    if (e->kind == EFFECT_FLOW || e->kind == EFFECT_EXECUTION || e->kind == EFFECT_MAIL)
        return flow_apply(memory, e, m);
    if (e->kind == EFFECT_SEEN) {
        mark_link(m->box, m->mark);
        m->mark = NULL;
        return PR_OK;
    }
    if (e->kind == EFFECT_EVENT) {
        event_append(memory, m->kept, memory->next_row);
        m->kept = NULL;
        return PR_OK;
    }
    if (e->kind == EFFECT_STATE)
        state_forget(memory, e);
    if (e->kind == EFFECT_STATE && e->value.data == NULL)
        return PR_OK;
    m->kept->number = effect_has_guard(e) ? guard_number(memory, e, &ignored) : 0;
    list_push_back(kept_list(memory, e->kind, m->kept->key), &m->kept->node);
    m->kept = NULL;
    return PR_OK;
}

void kept_free_all(struct memory *memory)
{
    for (size_t i = 0; i < KEPT_LISTS; i++)
        list_foreach(node, &memory->kept[i]) {
            struct kept_effect *kept = LIST_ENTRY(node, struct kept_effect, node);
            list_remove(node);
            free(kept);
        }
}

/* ---- For tests -------------------------------------------------------------------------------- */

/* One line for each: kind, key, number or name, value. */
static void kept_write(const struct kept_effect *k, struct buf *ret)
{
    if (k->kind == EFFECT_EVENT)
        buf_addf(ret, "event %.*s %lld %.*s %.*s\n", SLICE_ARGS(k->key), (long long)k->number + 1, SLICE_ARGS(k->name),
                 SLICE_ARGS(k->value));
    else if (k->kind == EFFECT_HISTORY)
        buf_addf(ret, "history %.*s %lld %lld %.*s\n", SLICE_ARGS(k->key), (long long)k->number, (long long)k->count,
                 SLICE_ARGS(k->value));
    else
        buf_addf(ret, "state %.*s %.*s %.*s\n", SLICE_ARGS(k->key), SLICE_ARGS(k->name), SLICE_ARGS(k->value));
}

void memory_effects_write(struct store *store, struct buf *ret)
{
    struct memory *memory = store->self;
    pthread_mutex_lock(&memory->mutex);
    for (size_t i = 0; i < KEPT_LISTS; i++)
        list_foreach(node, &memory->kept[i])
            kept_write(LIST_ENTRY(node, struct kept_effect, node), ret);
    list_foreach(box_node, &memory->boxes) {
        struct box *box = LIST_ENTRY(box_node, struct box, node);
        list_foreach(node, &box->mark_order)
            buf_addf(ret, "seen %.*s %.*s\n", SLICE_ARGS(box_name(box)),
                     SLICE_ARGS(LIST_ENTRY(node, struct stored_mark, order)->handler));
    }
    pthread_mutex_unlock(&memory->mutex);
}
