/* What a verdict does to its row. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "core/story.h"
#include "store/memory/memory_model.h"

/* ---- Taking the memory -------------------------------------------------------------------- */

/* Does this verdict record a failure's reason, code and text? */
static bool verdict_has_failure(const struct verdict *v)
{
    return v->kind == VERDICT_FAIL || v->kind == VERDICT_POSTPONE ||
           ((v->kind == VERDICT_PARK || v->kind == VERDICT_DEAD_LETTER) && v->reason != 0);
}

static bool change_take_texts(const struct verdict *v, struct change *c)
{
    if (verdict_has_failure(v) && !(text_dup(v->code, &c->text[OWN_CODE]) && text_dup(v->error, &c->text[OWN_ERROR])))
        return false;
    if (v->kind == VERDICT_HOLD && !text_dup(v->held_by, &c->text[OWN_HELD_BY]))
        return false;
    return text_dup(v->story, &c->text[OWN_STORY]);
}

/* Who holds a part of a split; no data: no memory. */
static pr_slice part_holder(const struct verdict *v, size_t part, struct arena *arena)
{
    pr_slice destination = v->destinations[part];
    char *key;

    if (v->holders != NULL && v->holders[part].size > 0)
        return v->holders[part];
    key = arena_alloc(arena, destination.size + 1);
    if (key == NULL)
        return (pr_slice){ NULL, 0 };
    memcpy(key, destination.data, destination.size);
    key[destination.size] = '/';
    return (pr_slice){ key, destination.size + 1 };
}

/* One row per destination: the same message in another direction, with a new count. */
static bool change_take_split(const struct stored *row, const struct verdict *v, struct arena *arena, struct change *c)
{
    c->rows = arena_alloc_array(arena, v->destination_count, sizeof(c->rows[0]));
    if (c->rows == NULL)
        return false;
    struct pr_message m = sender_part(&row->m, row->m.created_us);
    m.seq = row->m.seq;
    m.due_us = 0;
    m.status = row->m.status;
    m.story = row->m.story;
    m.released = row->m.released;
    for (; c->row_count < v->destination_count; c->row_count++) {
        m.destination = v->destinations[c->row_count];
        m.held_by = part_holder(v, c->row_count, arena);
        if (m.held_by.data == NULL)
            return false;
        struct stored *part = c->rows[c->row_count] = row_new(row->box, &m);
        if (part == NULL)
            return false;
        part->xid = row->xid;
    }
    return true;
}

int change_prepare(struct box *box, const struct verdict *verdict, bool keep, struct arena *arena, struct change *ret)
{
    struct stored *row = row_find(box, verdict->row);
    if (row == NULL)
        return PR_OK; /* there will be nothing to change */
    if (!change_take_texts(verdict, ret))
        return PR_ENOMEM;
    if (verdict->kind == VERDICT_SPLIT && !change_take_split(row, verdict, arena, ret))
        return PR_ENOMEM;
    if (verdict->kind == VERDICT_DEAD_LETTER || (verdict->kind == VERDICT_COMPLETE && keep)) {
        pr_slice endpoint = verdict->endpoint.size > 0 ? verdict->endpoint : row->m.destination;
        ret->after = after_life_new(endpoint, verdict->rule, (pr_slice){ NULL, 0 });
        if (ret->after == NULL)
            return PR_ENOMEM;
    }
    return PR_OK;
}

void change_fini(struct change *change)
{
    for (int i = 0; i < OWN_COUNT; i++)
        free((char *)(uintptr_t)change->text[i].data);
    free(change->after);
    for (size_t i = 0; i < change->row_count; i++)
        row_free(change->rows[i]);
}

/* ---- Changing ----------------------------------------------------------------------------- */

static void change_use_text(struct stored *row, struct change *c, enum own which)
{
    row_own(row, which, c->text[which]);
    c->text[which] = (pr_slice){ NULL, 0 };
}

/* A due time is never 0: that would be a fresh row. */
static int64_t due_after(int64_t now_us, int64_t delay_us)
{
    return max64(1, time_add(now_us, delay_us));
}

static void row_set_failure(struct stored *row, const struct verdict *v, struct change *c, int64_t now_us)
{
    row->m.status |= PR_STATUS_FAILED;
    row->m.reason = v->reason != 0 ? v->reason : PR_REASON_UNKNOWN; /* D5 */
    row->m.failed_us = now_us;
    change_use_text(row, c, OWN_CODE);
    change_use_text(row, c, OWN_ERROR);
}

static void row_count(struct stored *row, int number, bool failed)
{
    if (number == 0)
        return; /* it was not handed out */
    row->m.attempts = number;
    row->m.failures += failed;
}

/* It comes back through the due index; one that was parked while it was out does not. */
static void row_come_back(struct stored *row, const struct verdict *v, int64_t due_us)
{
    row_own(row, OWN_HELD_BY, (pr_slice){ NULL, 0 });
    if (row->m.due_us != PR_NEVER || v->number == 0)
        row->m.due_us = due_us;
}

/* Verdicts after which the row is still in the box. */
static void row_change(struct stored *row, const struct verdict *v, struct change *c, int64_t now_us)
{
    row_unplace(row);
    switch (v->kind) {
    case VERDICT_FAIL:
        row_set_failure(row, v, c, now_us);
        row_count(row, v->number, true);
        row_come_back(row, v, due_after(now_us, v->delay_us));
        break;
    case VERDICT_POSTPONE:
        row_set_failure(row, v, c, now_us);
        row_come_back(row, v, due_after(now_us, v->delay_us));
        break;
    case VERDICT_ABANDON:
        row_count(row, v->number, false);
        row_come_back(row, v, due_after(now_us, v->delay_us));
        break;
    case VERDICT_RELEASE:
        row->m.released = true;
        row_come_back(row, v, due_after(now_us, 0));
        break;
    case VERDICT_PARK:
        if (v->reason != 0)
            row_set_failure(row, v, c, now_us);
        row_count(row, v->number, v->reason != 0);
        row_come_back(row, v, PR_NEVER);
        break;
    case VERDICT_HOLD: change_use_text(row, c, OWN_HELD_BY); break;
    default: ASSERT(!"a verdict that keeps the row");
    }
    if (v->kind != VERDICT_RELEASE)
        row->m.status |= v->bits;
    if (v->story.size > 0)
        change_use_text(row, c, OWN_STORY);
    row_place(row);
}

static void row_die(struct stored *row, const struct verdict *v, struct change *c, int64_t now_us)
{
    struct after_life *after = c->after;
    c->after = NULL;
    after->cause = v->cause;
    after->limit = v->limit;
    after->at_us = now_us;
    memcpy(after->fingerprint, v->fingerprint, sizeof(after->fingerprint));
    row_bury_dead(row, after);
    int64_t failed_us = row->m.failed_us;
    if (v->reason != 0)
        row_set_failure(row, v, c, now_us);
    row->m.failed_us = v->counted ? now_us : failed_us; /* D6: the real failure stays */
    row->m.status |= v->bits | PR_STATUS_FAILED;
    row_own(row, OWN_HELD_BY, (pr_slice){ NULL, 0 });
    if (v->number != 0)
        row->m.attempts = v->number;
    row->m.failures += v->counted;
    if (v->story.size > 0)
        change_use_text(row, c, OWN_STORY);
}

static void row_complete(struct stored *row, const struct verdict *v, struct change *c, int64_t now_us, int64_t keep_us)
{
    if (c->after == NULL) {
        row_unlink(row);
        row_free(row);
        return;
    }
    struct after_life *after = c->after;
    c->after = NULL;
    after->at_us = now_us;
    after->forget_us = time_add(now_us, keep_us);
    row_keep_done(row, after);
    row->m.status |= v->bits;
    if (v->number != 0)
        row->m.attempts = v->number;
    if (v->story.size > 0)
        change_use_text(row, c, OWN_STORY);
}

static void row_split(struct stored *row, struct change *c, uint64_t *split_rows)
{
    struct box *box = row->box;
    row_unlink(row);
    row_free(row);
    for (size_t i = 0; i < c->row_count; i++) {
        struct stored *part = c->rows[i];
        if (row_find_id(box, part->m.id, part->m.destination) != NULL ||
            dead_find_id(box, part->m.id, part->m.destination) != NULL)
            continue; /* it was sent there already */
        row_link(part);
        split_rows[i] = part->row;
        c->rows[i] = NULL;
    }
}

static bool verdict_is_stale(const struct stored *row, const struct instance *instance, const struct verdict *v)
{
    if (row->box->lanes[row->lane].owner != instance)
        return true;
    if (v->kind == VERDICT_HOLD)
        return row->m.released || row->m.due_us == PR_NEVER; /* by an operator, meanwhile */
    if (verdict_parks_unsent(v))
        return row->m.due_us == PR_NEVER;
    if (verdict_unparks(v))
        return row->m.due_us == PR_NEVER && !message_awaits_route(&row->m);
    return verdict_compares(v->kind) && v->number != 0 && row->m.attempts != v->number - 1;
}

int change_apply(struct box *box, const struct instance *instance, const struct verdict *verdict, struct change *change,
                 int64_t now_us, int64_t keep_us, uint64_t *split_rows)
{
    struct stored *row = row_find(box, verdict->row);
    if (row == NULL || !pr_id_equal(row->m.id, verdict->id))
        return PR_UNKNOWN;
    if (verdict_is_stale(row, instance, verdict))
        return PR_STALE;

    switch (verdict->kind) {
    case VERDICT_RETURN: break;
    case VERDICT_COMPLETE: row_complete(row, verdict, change, now_us, keep_us); break;
    case VERDICT_DISCARD:
    case VERDICT_EXPIRE:
        row_unlink(row);
        row_free(row);
        break;
    case VERDICT_DEAD_LETTER: row_die(row, verdict, change, now_us); break;
    case VERDICT_SPLIT: row_split(row, change, split_rows); break;
    case VERDICT_FAIL:
    case VERDICT_POSTPONE:
    case VERDICT_ABANDON:
    case VERDICT_RELEASE:
    case VERDICT_PARK:
    case VERDICT_HOLD: row_change(row, verdict, change, now_us); break;
    }
    return PR_OK;
}
