/* Positions of sources, and messages that are stored together with them. */
#include <stdlib.h>
#include <string.h>

#include "store/memory/memory_model.h"

static struct stored_position *find(struct memory *memory, pr_slice source)
{
    list_foreach(node, &memory->positions) {
        struct stored_position *p = LIST_ENTRY(node, struct stored_position, node);
        if (slice_eq(p->source, source))
            return p;
    }
    return NULL;
}

static struct stored_position *position_new(const struct position_move *move)
{
    struct stored_position *p = calloc(1, sizeof(*p) + move->source.size + move->to.size);
    if (p == NULL)
        return NULL;
    memcpy(p->text, move->source.data, move->source.size);
    memcpy(p->text + move->source.size, move->to.data, move->to.size);
    p->source = (pr_slice){ p->text, move->source.size };
    p->position = (pr_slice){ p->text + move->source.size, move->to.size };
    return p;
}

static int take(struct memory *memory, pr_slice box, const struct pr_message *messages, size_t count,
                const struct position_move *move, int *answers, struct pr_error *reterr)
{
    struct stored_position *old = find(memory, move->source);
    if (!slice_eq(old != NULL ? old->position : PR_STR(""), move->from))
        return PR_STALE;
    struct stored_position *new = position_new(move);
    if (new == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a position");
    int rc = count > 0 ? memory_enqueue_locked(memory, box, messages, count, answers, reterr) : PR_OK;
    if (rc != PR_OK) {
        free(new);
        return rc;
    }
    if (old != NULL)
        list_remove(&old->node);
    free(old);
    list_push_back(&memory->positions, &new->node);
    memory_flush(memory);
    return PR_OK;
}

int memory_take(void *self, pr_slice box, const struct pr_message *messages, size_t count,
                const struct position_move *move, int *answers, struct pr_error *reterr)
{
    struct memory *memory = self;
    pthread_mutex_lock(&memory->mutex);
    int rc = take(memory, box, messages, count, move, answers, reterr);
    pthread_mutex_unlock(&memory->mutex);
    return rc;
}

int memory_position(void *self, pr_slice source, struct arena *arena, pr_slice *ret, struct pr_error *reterr)
{
    struct memory *memory = self;
    pthread_mutex_lock(&memory->mutex);
    const struct stored_position *p = find(memory, source);
    *ret = slice_dup(arena, p != NULL ? p->position : PR_STR(""));
    pthread_mutex_unlock(&memory->mutex);
    return ret->data != NULL ? PR_OK : error_set(reterr, PR_ENOMEM, "out of memory for a position");
}

void positions_free(struct memory *memory)
{
    list_foreach(node, &memory->positions)
        free(LIST_ENTRY(node, struct stored_position, node));
}
