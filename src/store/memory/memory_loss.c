/* Lost commits, as with senders that do not wait for the disk (synchronous_commit = off) and a server that crashes.
 *
 * A durable commit makes all earlier commits durable.  Cycles that change something and operators' orders are durable;
 * senders' commits are not, here.  So lost rows were read at most, and nothing was written about them. */
#include "store/memory/memory_model.h"

void memory_flush(struct memory *memory)
{
    memory->durable_row = memory->next_row;
    list_foreach(node, &memory->boxes) {
        struct box *box = LIST_ENTRY(node, struct box, node);
        box->durable_seq = box->last_seq;
    }
}

/* The seqs of open transactions are not drawn again. */
static int64_t seq_of_open(const struct memory *memory, const struct box *box)
{
    int64_t last = 0;
    list_foreach(node, &memory->open) {
        const struct memory_tx *tx = LIST_ENTRY(node, struct memory_tx, node);
        list_foreach(row_node, &tx->rows) {
            const struct stored_row *row = LIST_ENTRY(row_node, struct stored_row, order);
            if (row->box == box)
                last = max64(last, row->m.seq);
        }
    }
    return last;
}

static size_t box_lose(struct memory *memory, struct box *box, void (*lost)(void *arg, const struct pr_message *m),
                       void *arg)
{
    size_t count = 0;
    list_foreach(node, &box->rows) {
        struct stored_row *row = LIST_ENTRY(node, struct stored_row, order);
        if (row->row <= memory->durable_row)
            continue;
        if (lost != NULL)
            lost(arg, &row->m);
        row_unlink(row);
        row_free(row);
        count++;
    }
    box->last_seq = max64(box->durable_seq, seq_of_open(memory, box));
    box_touch(box);
    return count;
}

static void flush_is_lost(struct memory *memory)
{
    memory->durable_row = 0;
    list_foreach(node, &memory->boxes)
        LIST_ENTRY(node, struct box, node)->durable_seq = 0;
}

size_t memory_lose(struct store *store, bool all, void (*lost)(void *arg, const struct pr_message *m), void *arg)
{
    struct memory *memory = store->self;
    size_t count = 0;
    pthread_mutex_lock(&memory->mutex);
    if (all)
        flush_is_lost(memory);
    list_foreach(node, &memory->boxes)
        count += box_lose(memory, LIST_ENTRY(node, struct box, node), lost, arg);
    events_lose(memory);
    memory->next_row = memory->durable_row;
    memory->history++;
    pthread_mutex_unlock(&memory->mutex);
    return count;
}
