/* The ledger of ended messages (core/ended.h): one entry for each message, since a memory store is never as large as a
 * database. */
#include "core/ended.h"

#include <stdlib.h>
#include <string.h>

#include "store/memory/memory_model.h"

static pr_slice text_put(char **at, pr_slice text)
{
    char *copy = *at;
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    *at += text.size;
    return (pr_slice){ copy, text.size };
}

struct stored_ended *stored_ended_new(const struct ended *e, pr_slice by, int64_t now_us)
{
    struct stored_ended *entry = calloc(1, sizeof(*entry) + e->box.size + e->endpoint.size + by.size + 1);
    if (entry == NULL)
        return NULL;
    char *at = entry->text;
    entry->at_us = now_us;
    entry->e = *e;
    entry->e.box = text_put(&at, e->box);
    entry->e.endpoint = text_put(&at, e->endpoint);
    entry->by = text_put(&at, by);
    return entry;
}

static void forget_oldest(struct memory *memory)
{
    free(LIST_ENTRY(list_pop_front(&memory->ended), struct stored_ended, node));
    memory->ended_count--;
}

void stored_ended_add(struct memory *memory, struct stored_ended *entry)
{
    list_push_back(&memory->ended, &entry->node);
    if (++memory->ended_count > ENDED_KEPT)
        forget_oldest(memory);
}

void ended_purge(struct memory *memory, int64_t before_us, size_t max)
{
    while (max-- > 0 && memory->ended_count > 0 &&
           LIST_ENTRY(list_first(&memory->ended), struct stored_ended, node)->at_us < before_us)
        forget_oldest(memory);
}

void ended_forget(struct memory *memory)
{
    while (memory->ended_count > 0)
        forget_oldest(memory);
}
