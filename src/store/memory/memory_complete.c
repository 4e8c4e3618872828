/* A message that its receiver completes in its own transaction, as pr_complete_sqlite() does in SQLite: the row is the
 * fence.  For the simulator, so the receiver's other writes are left out. */
#include <stdlib.h>

#include "core/mark.h"
#include "store/memory/memory_model.h"

static int complete_row(struct stored_row *row, const struct verdict *v, const struct completion *c,
                        struct stored_mark *mark, int64_t now_us)
{
    const struct change change = change_of_verdict(v, c->keep_us > 0);
    struct change_memory memory = { 0 };
    if (!pr_id_equal(row->m.id, c->id) || !change_holds(&change, &row->m))
        return PR_STALE;
    int rc = change_take(row, &change, NULL, &memory);
    if (rc == PR_OK) {
        struct box *box = row->box;
        change_apply(row, &change, &memory, now_us, c->keep_us, NULL);
        if (mark != NULL)
            mark_link(box, mark);
        box_touch(box);
    }
    change_memory_fini(&memory);
    return rc;
}

static int complete_locked(struct memory *memory, const struct completion *c)
{
    const struct verdict v = { .kind = VERDICT_COMPLETE,
                               .row = c->row,
                               .id = c->id,
                               .number = c->number,
                               .attempts = c->number - 1,
                               .bits = c->bits | PR_STATUS_HANDLED,
                               .endpoint = c->endpoint,
                               .fenced = true };
    struct box *box = box_find(memory, c->box);
    struct stored_row *row = box != NULL ? row_find(box, c->row) : NULL;
    struct stored_mark *mark = NULL;
    struct effect seen;
    int64_t now_us = memory_now(memory);

    if (row == NULL)
        return PR_STALE;
    if (mark_of_verdict(&v, c->box, c->destination, c->dedupe_us, &seen)) {
        if (mark_find(box, seen.id, seen.key) != NULL)
            return PR_STALE;
        mark = mark_new(&seen, now_us);
        if (mark == NULL)
            return PR_ENOMEM;
    }
    int rc = complete_row(row, &v, c, mark, now_us);
    if (rc != PR_OK)
        free(mark);
    return rc;
}

int memory_complete(struct store *store, const struct completion *completion)
{
    struct memory *memory = store->self;
    pthread_mutex_lock(&memory->mutex);
    int rc = complete_locked(memory, completion);
    if (rc == PR_OK)
        memory_flush(memory);
    pthread_mutex_unlock(&memory->mutex);
    return rc;
}
