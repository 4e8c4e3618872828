#include "store/people/listing_context.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"

#define LIST_FIRST 16

void *list_room(struct arena *arena, void *list, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return list;
    *capacity = *capacity > 0 ? 2 * *capacity : LIST_FIRST;
    void *grown = arena_alloc_array(arena, *capacity, size);
    if (grown != NULL && count > 0)
        memcpy(grown, list, count * size);
    return grown;
}

static int hand_out_compare(const void *a, const void *b)
{
    const struct hand_out *x = a, *y = b;
    int order = slice_cmp(x->box, y->box);
    return order != 0 ? order : x->row < y->row ? -1 : x->row > y->row;
}

struct context_reading {
    struct arena *arena;
    struct listing_context *s;
    size_t hand_outs_room, paused_room, boxes_room, tables_room;
};

static int hand_out_take(struct context_reading *r, const struct rows *rows)
{
    struct listing_context *s = r->s;
    s->hand_outs = list_room(r->arena, s->hand_outs, s->hand_out_count, &r->hand_outs_room, sizeof(s->hand_outs[0]));
    if (s->hand_outs == NULL)
        return PR_ENOMEM;
    const struct hand_out f = {
        .box = slice_dup(r->arena, row_text(rows, 1)),
        .instance = slice_dup(r->arena, row_text(rows, 2)),
        .row = (uint64_t)row_number(rows, 3),
        .number = (int)row_number(rows, 4),
    };
    s->hand_outs[s->hand_out_count++] = f;
    return f.box.data != NULL && f.instance.data != NULL ? PR_OK : PR_ENOMEM;
}

static int name_take(struct context_reading *r, pr_slice name, pr_slice **list, size_t *count, size_t *capacity)
{
    *list = list_room(r->arena, *list, *count, capacity, sizeof(**list));
    if (*list == NULL)
        return PR_ENOMEM;
    (*list)[*count] = slice_dup(r->arena, name);
    return (*list)[(*count)++].data != NULL ? PR_OK : PR_ENOMEM;
}

static int box_take(struct context_reading *r, const struct rows *rows)
{
    struct listing_context *s = r->s;
    size_t tables = s->box_count;
    int rc = name_take(r, row_text(rows, 1), &s->boxes, &s->box_count, &r->boxes_room);
    return rc == PR_OK ? name_take(r, row_text(rows, 2), &s->tables, &tables, &r->tables_room) : rc;
}

/* The first column is the kind of the row, see the statement. */
static int row_take(struct context_reading *r, const struct rows *rows)
{
    struct listing_context *s = r->s;
    switch (row_number(rows, 0)) {
    case 0:
        s->now_us = row_time(rows, 5);
        s->mono_us = row_time(rows, 6);
        return PR_OK;
    case 1: return box_take(r, rows);
    case 2: return name_take(r, row_text(rows, 1), &s->paused, &s->paused_count, &r->paused_room);
    default: return hand_out_take(r, rows);
    }
}

int listing_context_read(struct sql *sql, struct arena *arena, struct listing_context *ret)
{
    struct context_reading reading = { .arena = arena, .s = ret };
    struct rows rows;
    *ret = (struct listing_context){ .now_us = 0 };
    int rc = sql_run(sql, SQL_listing_context, NO_BOX,
                     VALUES(V_TIME(sql->wall_us), V_TIME(sql->mono_us), V_TEXT(sql->boot)), &rows);
    while (rc == PR_OK && (rc = rows_step(&rows)) > 0)
        rc = row_take(&reading, &rows) == PR_OK ? PR_OK
                                                : error_set(sql->reterr, PR_ENOMEM, "out of memory for the answer");
    rows_end(&rows);
    if (rc == PR_OK && ret->hand_out_count > 0)
        qsort(ret->hand_outs, ret->hand_out_count, sizeof(ret->hand_outs[0]), hand_out_compare);
    return rc;
}

const struct hand_out *listing_context_hand_out(const struct listing_context *s, pr_slice box, uint64_t row,
                                                int attempts)
{
    const struct hand_out key = { .box = box, .row = row };
    const struct hand_out *f =
        s->hand_out_count > 0 ? bsearch(&key, s->hand_outs, s->hand_out_count, sizeof(key), hand_out_compare) : NULL;
    return f != NULL && f->number > attempts ? f : NULL; /* otherwise it has a verdict since */
}

static bool is_paused(const struct listing_context *s, pr_slice endpoint)
{
    for (size_t i = 0; i < s->paused_count; i++)
        if (slice_eq(s->paused[i], endpoint))
            return true;
    return false;
}

enum state listing_context_state(const struct listing_context *s, pr_slice box, uint64_t row,
                                 const struct pr_message *m, pr_slice endpoint)
{
    if (listing_context_hand_out(s, box, row, m->attempts) != NULL)
        return STATE_IN_FLIGHT;
    enum state state = state_of_row(m, s->now_us);
    bool may_wait = state == STATE_READY || state == STATE_RETRYING;
    return may_wait && is_paused(s, endpoint) ? STATE_PAUSED : state;
}
