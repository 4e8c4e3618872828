/* Rows that are held for an endpoint that no longer exists, or is no longer ordered: no stream waits for them, so they
 * are read here and go where the configuration sends them now (mostly they are parked).  There can be many keys: they
 * are walked a page at a time, and many are read at once. */
#include <stdlib.h>
#include <string.h>

#include "engine/internal.h"

static void set_after(struct orphans *o, pr_slice key)
{
    o->after_size = min_size(key.size, sizeof(o->after));
    if (o->after_size > 0)
        memcpy(o->after, key.data, o->after_size);
}

/* The opening has met such a key behind this one. */
void orphans_found(struct engine *e, pr_slice after)
{
    struct orphans *o = &e->reading.orphans;

    if (!o->wanted || slice_cmp(after, (pr_slice){ o->after, o->after_size }) < 0)
        set_after(o, after);
    o->wanted = true;
}

bool orphans_can_read(const struct engine *e, int64_t now_us)
{
    return e->reading.orphans.wanted && now_us >= e->reading.orphans.at_us && window_has_room(e);
}

void orphans_plan(struct engine *e, struct held_read *reads, size_t *count)
{
    struct orphans *o = &e->reading.orphans;
    size_t first = *count, most = min_size(o->count, ORPHAN_READS_MAX);

    for (size_t i = 0; i < most; i++)
        if (!plan_held_read(e, pr_str(o->keys[i]), 0, max_size(HELD_ROWS, e->setting.batch / most), reads, count))
            break;
    o->reading = *count - first;
    o->walking = o->count == 0;
    if (!o->walking)
        return;
    e->plan.cycle.held_keys.rows = OPENING_ROWS;
    e->plan.cycle.held_keys.lanes = e->membership.open;
    e->plan.cycle.held_keys.after = slice_dup(&e->plan.arena, (pr_slice){ o->after, o->after_size });
}

static bool add_key(struct orphans *o, pr_slice key)
{
    char **grown = realloc(o->keys, (o->count + 1) * sizeof(*grown));

    if (grown == NULL)
        return false;
    o->keys = grown;
    o->keys[o->count] = strndup(key.data, key.size);
    if (o->keys[o->count] == NULL)
        return false;
    o->count++;
    return true;
}

static void absorb_page(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    struct orphans *o = &e->reading.orphans;

    for (size_t i = 0; i < r->held_key_count; i++) {
        if (held_key_is_orphan(e, r->held_keys[i]) && !add_key(o, r->held_keys[i])) {
            o->at_us = now_us + e->setting.poll_us; /* no memory: continue from here later */
            return;
        }
        set_after(o, r->held_keys[i]);
    }
    o->wanted = !r->held_keys_end || o->count > 0;
}

/* Did all rows that were read of this key come in? */
static bool take_rows(struct engine *e, const struct cycle_reply *r, pr_slice key, size_t *ret_taken, int64_t now_us)
{
    for (size_t i = 0; i < r->row_count; i++) {
        const struct row *row = &r->rows[i];
        struct target target;
        if (row->from != ROW_HELD || !slice_eq(row->m.held_by, key) || !row_is_ours(e, row))
            continue;
        find_target(e, row, &target);
        if (!window_has_room(e) || scan_will_come(e, row) || admit(e, row, &target, now_us) == NO_ROOM)
            return false;
        ++*ret_taken;
    }
    return true;
}

static void absorb_keys(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    struct orphans *o = &e->reading.orphans;
    size_t first = e->plan.cycle.held_count - o->reading, kept = 0;
    bool moving = false;

    for (size_t i = 0; i < o->count; i++) {
        size_t taken = 0;
        bool all = i < o->reading && take_rows(e, r, pr_str(o->keys[i]), &taken, now_us);

        moving = moving || taken > 0;
        if (all && r->held_end[first + i]) {
            free(o->keys[i]);
            moving = true;
        } else {
            o->keys[kept++] = o->keys[i];
        }
    }
    o->count = kept;
    if (!moving)
        o->at_us = now_us + e->setting.poll_us;
}

void orphans_absorb(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    struct orphans *o = &e->reading.orphans;

    if (e->membership.opening != OPEN_DONE)
        return; /* the opening reports them again */
    if (o->walking)
        absorb_page(e, r, now_us);
    else if (o->reading > 0)
        absorb_keys(e, r, now_us);
}

void orphans_forget(struct engine *e)
{
    for (size_t i = 0; i < e->reading.orphans.count; i++)
        free(e->reading.orphans.keys[i]);
    free(e->reading.orphans.keys);
    e->reading.orphans = (struct orphans){ 0 };
}
