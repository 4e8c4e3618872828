/* Senders: enqueue, and transactions of tests that commit in any order. */
#include <stdlib.h>

#include "store/memory/memory_model.h"

struct memory_tx *memory_tx_begin(struct store *store)
{
    struct memory_tx *tx = calloc(1, sizeof(*tx));
    if (tx == NULL)
        return NULL;
    tx->memory = store->self;
    list_init(&tx->rows);
    pthread_mutex_lock(&tx->memory->mutex);
    list_push_back(&tx->memory->open, &tx->node);
    pthread_mutex_unlock(&tx->memory->mutex);
    return tx;
}

/* Open transactions are listed in the order of their xids. */
static void tx_draw_xid(struct memory_tx *tx)
{
    if (tx->xid != 0)
        return;
    tx->xid = tx->memory->next_xid++;
    list_remove(&tx->node);
    list_push_back(&tx->memory->open, &tx->node);
}

static bool tx_has(const struct memory_tx *tx, const struct box *box, pr_id id, pr_slice destination)
{
    list_foreach(node, &tx->rows) {
        const struct stored_row *row = LIST_ENTRY(node, struct stored_row, order);
        if (row->box == box && pr_id_equal(row->m.id, id) && slice_eq(row->m.destination, destination))
            return true;
    }
    return false;
}

static int tx_insert(struct memory_tx *tx, pr_slice box_name, const struct pr_message *message, const char *bad)
{
    struct memory *memory = tx->memory;
    struct box *box = box_find(memory, box_name);
    if (box == NULL)
        return PR_ENOTFOUND;
    if (row_find_id(box, message->id, message->destination) != NULL ||
        tx_has(tx, box, message->id, message->destination))
        return PR_DUPLICATE;
    struct pr_message m = sender_part(message, memory_now(memory));
    struct stored_row *row = row_new_sent(box, &m);
    if (row == NULL)
        return PR_ENOMEM;
    tx_draw_xid(tx); /* S1: before the seq */
    row->xid = tx->xid;
    row->m.seq = ++box->last_seq;
    row->bad = bad != NULL ? bad : row->bad;
    list_push_back(&tx->rows, &row->order);
    return PR_OK;
}

int memory_tx_insert(struct memory_tx *tx, pr_slice box, const struct pr_message *message)
{
    pthread_mutex_lock(&tx->memory->mutex);
    int rc = tx_insert(tx, box, message, NULL);
    pthread_mutex_unlock(&tx->memory->mutex);
    return rc;
}

static void tx_end(struct memory_tx *tx, bool commit)
{
    list_foreach(node, &tx->rows) {
        struct stored_row *row = LIST_ENTRY(node, struct stored_row, order);
        list_remove(node);
        if (!commit || row_find_id(row->box, row->m.id, row->m.destination) != NULL) {
            row_free(row);
            continue;
        }
        row_link(row);
        row_append_event(row);
        box_touch(row->box);
    }
    list_remove(&tx->node);
}

static void tx_end_locked(struct memory_tx *tx, bool commit)
{
    struct memory *memory = tx->memory;
    pthread_mutex_lock(&memory->mutex);
    tx_end(tx, commit);
    pthread_mutex_unlock(&memory->mutex);
    free(tx);
}

void memory_tx_commit(struct memory_tx *tx)
{
    tx_end_locked(tx, true);
}

void memory_tx_rollback(struct memory_tx *tx)
{
    tx_end_locked(tx, false);
}

int memory_plant(struct store *store, pr_slice box, const struct pr_message *message, const char *bad)
{
    struct memory_tx *tx = memory_tx_begin(store);
    if (tx == NULL)
        return PR_ENOMEM;
    pthread_mutex_lock(&tx->memory->mutex);
    int rc = tx_insert(tx, box, message, bad);
    pthread_mutex_unlock(&tx->memory->mutex);
    tx_end_locked(tx, true);
    return rc;
}

void memory_hold_rows(struct store *store, memory_row_is_held *is_held, void *arg)
{
    struct memory *memory = store->self;
    pthread_mutex_lock(&memory->mutex);
    memory->is_held = is_held;
    memory->is_held_arg = arg;
    pthread_mutex_unlock(&memory->mutex);
}

int memory_repair(struct store *store, pr_slice box_name, pr_id id, pr_slice destination, pr_slice payload)
{
    struct memory *memory = store->self;
    struct stored_notice *notice = NULL;
    pr_slice text = { NULL, 0 };
    int rc = PR_ENOTFOUND;
    pthread_mutex_lock(&memory->mutex);
    struct box *box = box_find(memory, box_name);
    struct stored_row *row = box != NULL ? row_find_id(box, id, destination) : NULL;
    if (row != NULL) {
        notice = notice_new(box, NOTICE_REPAIRED, NULL, (pr_slice){ NULL, 0 });
        rc = notice != NULL && text_dup(payload, &text) ? PR_OK : PR_ENOMEM;
    }
    if (rc == PR_OK) {
        row_own(row, OWN_PAYLOAD, text);
        notice_add(memory, notice);
        box_touch(box);
    } else {
        free(notice);
    }
    pthread_mutex_unlock(&memory->mutex);
    return rc;
}

/* ---- The contract --------------------------------------------------------------------------- */

static bool is_duplicate(struct box *box, const struct pr_message *m)
{
    return row_find_id(box, m->id, m->destination) != NULL || dead_find_id(box, m->id, m->destination) != NULL ||
           mark_has_handled(box, m->id, m->destination);
}

static void take_failure(struct pr_message *m, const struct pr_message *failed)
{
    m->status |= failed->status;
    m->attempts = failed->attempts;
    m->failures = failed->failures;
    m->reason = failed->reason;
    m->code = failed->code;
    m->error = failed->error;
    m->failed_us = failed->failed_us;
    m->story = failed->story;
    m->parked_by = failed->parked_by;
}

/* PR_OK, PR_DUPLICATE, PR_ECONFLICT: may message i be appended, after the earlier ones of this call? */
static int expectation(struct memory *memory, const struct pr_message *messages, size_t i, struct stored_row **rows,
                       struct pr_error *reterr)
{
    const struct pr_message *m = &messages[i];
    bool known;
    if (!m->expects_version)
        return PR_OK;
    int64_t version = events_count(memory, m->stream, m->id, &known);
    for (size_t k = 0; k < i; k++) {
        bool counts = rows[k] != NULL && messages[k].event && slice_eq(messages[k].stream, m->stream);
        version += counts;
        known |= counts && pr_id_equal(messages[k].id, m->id);
    }
    return message_expectation(m, known, version, reterr);
}

/* The rows are made first, and linked when there is memory for all of them. */
static int enqueue_take(struct box *box, const struct pr_message *messages, size_t count, struct stored_row **rows,
                        int64_t now_us, struct pr_error *reterr)
{
    for (size_t i = 0; i < count; i++) {
        if (is_duplicate(box, &messages[i]))
            continue;
        struct pr_message m = sender_part(&messages[i], now_us);
        if (message_has_failed(&messages[i]))
            take_failure(&m, &messages[i]);
        rows[i] = row_new_sent(box, &m);
        if (rows[i] == NULL)
            return PR_ENOMEM;
        int rc = expectation(box->memory, messages, i, rows, reterr);
        if (rc < 0)
            return rc;
        if (rc == PR_DUPLICATE) {
            row_free(rows[i]);
            rows[i] = NULL;
        }
    }
    return PR_OK;
}

/* Others of its stream wait behind it, or (strict) behind a parked one.  Without memory for the notice, instances learn
 * of it when they read the lane again. */
static void tell_failure(const struct stored_row *row)
{
    struct stored_notice *notice = NULL;
    if (message_has_failed(&row->m) && row->m.stream.size > 0 && row->m.due_us != 0)
        notice =
            notice_new(row->box, row->m.due_us == PR_NEVER ? NOTICE_PARKED : NOTICE_FAILED, row, row->m.destination);
    if (notice != NULL)
        notice_add(row->box->memory, notice);
}

static void enqueue_link(struct box *box, const struct pr_message *messages, size_t count, struct stored_row **rows,
                         int *answers)
{
    uint64_t xid = box->memory->next_xid++;
    for (size_t i = 0; i < count; i++) {
        struct stored_row *row = rows[i];
        bool stored = row != NULL && !is_duplicate(box, &row->m); /* twice in one call */
        if (answers != NULL)
            answers[i] = stored ? PR_OK : PR_DUPLICATE;
        if (!stored) {
            again_note(box, &messages[i], memory_now(box->memory));
            continue;
        }
        rows[i] = NULL;
        row->xid = xid;
        row->m.seq = ++box->last_seq;
        row_link(row);
        row_append_event(row);
        tell_failure(row);
    }
    box_touch(box);
}

int memory_enqueue_locked(struct memory *memory, pr_slice box_name, const struct pr_message *messages, size_t count,
                          int *answers, struct pr_error *reterr)
{
    struct box *box = box_find(memory, box_name);
    if (box == NULL)
        return error_set(reterr, PR_ENOTFOUND, "unknown box \"%.*s\"", SLICE_ARGS(box_name));
    struct stored_row **rows = calloc(count, sizeof(rows[0]));
    int rc = rows != NULL ? enqueue_take(box, messages, count, rows, memory_now(memory), reterr) : PR_ENOMEM;
    if (rc == PR_OK)
        enqueue_link(box, messages, count, rows, answers);
    for (size_t i = 0; rows != NULL && i < count; i++)
        row_free(rows[i]);
    free(rows);
    return rc == PR_ENOMEM ? error_set(reterr, rc, "out of memory for %zu messages", count) : rc;
}

int memory_enqueue(void *self, pr_slice box, const struct pr_message *messages, size_t count, int *answers,
                   struct pr_error *reterr)
{
    struct memory *memory = self;
    if (count == 0)
        return PR_OK;
    pthread_mutex_lock(&memory->mutex);
    int rc = memory_enqueue_locked(memory, box, messages, count, answers, reterr);
    pthread_mutex_unlock(&memory->mutex);
    return rc;
}
