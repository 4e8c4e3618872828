/* A change of a row: first its memory is allocated, then it is made, which cannot fail. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/util.h"
#include "store/memory/memory_model.h"

#define NOTES_BYTES_MAX (8u * NOTE_KEPT_MAX)

/* ---- Taking the memory -------------------------------------------------------------------- */

static bool take_text(const struct change *c, unsigned set, pr_slice text, pr_slice *ret)
{
    return (c->sets & set) == 0 || text_dup(text, ret);
}

static bool take_texts(const struct change *c, struct change_memory *m)
{
    return take_text(c, SET_REASON, c->code, &m->text[OWN_CODE]) &&
           take_text(c, SET_ERROR, c->error, &m->text[OWN_ERROR]) &&
           take_text(c, SET_HELD, c->held_by, &m->text[OWN_HELD_BY]) &&
           take_text(c, SET_STORY, c->story, &m->text[OWN_STORY]);
}

/* What holds a part of a split; no data: no memory. */
static struct part_holder part_holder(const struct change *c, size_t part, struct arena *arena)
{
    struct part_holder holder = change_part_holder(c, part);
    if (holder.key.size == 0)
        holder.key = arena_printf(arena, "%.*s/", SLICE_ARGS(c->destinations[part]));
    return holder;
}

/* One row per destination: the same message for another destination, with new counters. */
static bool take_split(const struct stored_row *row, const struct change *c, struct arena *arena,
                       struct change_memory *ret)
{
    ret->rows = arena_alloc_array(arena, c->destination_count, sizeof(ret->rows[0]));
    if (ret->rows == NULL)
        return false;
    struct pr_message m = sender_part(&row->m, row->m.created_us);
    m.seq = row->m.seq;
    m.due_us = 0;
    m.status = row->m.status;
    m.story = row->m.story;
    m.released = row->m.released;
    for (; ret->row_count < c->destination_count; ret->row_count++) {
        m.destination = c->destinations[ret->row_count];
        const struct part_holder holder = part_holder(c, ret->row_count, arena);
        if (holder.key.data == NULL)
            return false;
        m.held_by = holder.key;
        m.held_for = holder.held_for;
        struct stored_row *part = ret->rows[ret->row_count] = row_new(row->box, &m);
        if (part == NULL)
            return false;
        part->xid = row->xid;
    }
    return true;
}

/* The notes of a dead letter with one more. */
static bool take_note(const struct stored_row *row, const struct change *c, struct change_memory *ret)
{
    struct buf note;
    buf_init(&note, NOTES_BYTES_MAX);
    if (row->after->note.size > 0) {
        buf_add_slice(&note, row->after->note);
        buf_add_char(&note, '\n');
    }
    buf_add_slice(&note, c->note);
    if (buf_failed(&note) == PR_OK)
        ret->after = after_life_copy(row->after, note_kept(buf_slice(&note)));
    buf_fini(&note);
    return ret->after != NULL;
}

static bool take_after_life(const struct stored_row *row, const struct change *c, struct change_memory *ret)
{
    if (c->fate == FATE_STAYS && (c->sets & SET_NOTE) != 0)
        return take_note(row, c, ret);
    if (c->fate != FATE_DONE && c->fate != FATE_DEAD)
        return true;
    ret->after = after_life_new(c->endpoint.size > 0 ? c->endpoint : row->m.destination, c->rule, c->note);
    return ret->after != NULL;
}

int change_take(const struct stored_row *row, const struct change *c, struct arena *arena, struct change_memory *ret)
{
    bool taken =
        take_texts(c, ret) && take_after_life(row, c, ret) && (c->fate != FATE_SPLIT || take_split(row, c, arena, ret));
    return taken ? PR_OK : PR_ENOMEM;
}

void change_memory_fini(struct change_memory *m)
{
    for (int i = 0; i < OWN_COUNT; i++)
        free((char *)(uintptr_t)m->text[i].data);
    free(m->after);
    for (size_t i = 0; i < m->row_count; i++)
        row_free(m->rows[i]);
}

/* ---- Changing ----------------------------------------------------------------------------- */

static void use_text(struct stored_row *row, struct change_memory *m, enum own which)
{
    row_own(row, which, m->text[which]);
    m->text[which] = (pr_slice){ NULL, 0 };
}

/* Earlier hand-outs of the row count no more. */
static void receipts_forget(const struct stored_row *row)
{
    list_foreach(instance_node, &row->box->instances)
        list_foreach(node, &LIST_ENTRY(instance_node, struct stored_instance, node)->receipts) {
            struct stored_receipt *receipt = LIST_ENTRY(node, struct stored_receipt, node);
            for (size_t i = 0; i < receipt->count; i++)
                if (receipt->entries[i].row == row->row)
                    receipt->entries[i].row = 0; /* names no row */
        }
}

/* Of a row that is in no index. */
static void write_values(struct stored_row *row, const struct change *c, struct change_memory *m, int64_t now_us)
{
    static const struct {
        unsigned set;
        enum own text;
    } texts[] = {
        { SET_REASON, OWN_CODE }, { SET_ERROR, OWN_ERROR }, { SET_HELD, OWN_HELD_BY }, { SET_STORY, OWN_STORY }
    };
    change_write(c, &row->m, now_us);
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
        if ((c->sets & texts[i].set) != 0)
            use_text(row, m, texts[i].text);
}

static void row_stay(struct stored_row *row, const struct change *c, struct change_memory *m, int64_t now_us)
{
    bool dead = row->after != NULL;
    if (m->after != NULL) {
        free(row->after);
        row->after = m->after;
        m->after = NULL;
    }
    if (!dead)
        row_unplace(row);
    write_values(row, c, m, now_us);
    if (!dead)
        row_place(row);
    if ((c->sets & SET_NEW_COUNT) != 0)
        receipts_forget(row);
}

static void row_go(struct stored_row *row)
{
    if (row->after != NULL)
        dead_unlink(row);
    else
        row_unlink(row);
    row_free(row);
}

static void row_end(struct stored_row *row, const struct change *c, struct change_memory *m, int64_t now_us,
                    int64_t keep_us)
{
    struct after_life *after = m->after;
    m->after = NULL;
    after->cause = c->cause;
    after->limit = c->limit;
    after->at_us = now_us;
    after->forget_us = c->fate == FATE_DONE ? time_add(now_us, keep_us) : 0;
    memcpy(after->fingerprint, c->fingerprint, sizeof(after->fingerprint));
    if (c->fate == FATE_DEAD)
        row_bury_dead(row, after);
    else
        row_keep_done(row, after);
    row_own(row, OWN_HELD_BY, (pr_slice){ NULL, 0 }); /* a row that has ended is not held */
    write_values(row, c, m, now_us);
    row->m.held_for = row->m.parked_by = 0;
}

static void row_split(struct stored_row *row, struct change_memory *m, uint64_t *split_rows)
{
    struct box *box = row->box;
    row_unlink(row);
    row_free(row);
    for (size_t i = 0; i < m->row_count; i++) {
        struct stored_row *part = m->rows[i];
        if (row_find_id(box, part->m.id, part->m.destination) != NULL ||
            dead_find_id(box, part->m.id, part->m.destination) != NULL)
            continue; /* the destination has it already */
        row_link(part);
        split_rows[i] = part->row;
        m->rows[i] = NULL;
    }
}

static void row_go_back(struct stored_row *row, const struct change *c, struct change_memory *m, int64_t now_us)
{
    dead_unlink(row);
    free(row->after);
    row->after = NULL;
    write_values(row, c, m, now_us);
    row_link(row);
}

void change_apply(struct stored_row *row, const struct change *c, struct change_memory *m, int64_t now_us,
                  int64_t keep_us, uint64_t *split_rows)
{
    switch (c->fate) {
    case FATE_STAYS: row_stay(row, c, m, now_us); break;
    case FATE_GONE: row_go(row); break;
    case FATE_DONE:
    case FATE_DEAD: row_end(row, c, m, now_us, keep_us); break;
    case FATE_SPLIT: row_split(row, m, split_rows); break;
    case FATE_BACK: row_go_back(row, c, m, now_us); break;
    case FATE_COPIED: /* the copy is the caller's */ break;
    }
}
