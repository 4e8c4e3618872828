/* When a message of a type was delivered to an endpoint last, by any instance. */
#include <stdlib.h>
#include <string.h>

#include "store/memory/memory_model.h"

struct stored_evidence {
    struct list_node node; /* memory->evidence */
    pr_slice endpoint, type;
    int64_t delivered_us;
    char text[];
};

static struct stored_evidence *evidence_find(const struct memory *memory, const struct evidence *pair)
{
    list_foreach(node, &memory->evidence) {
        struct stored_evidence *e = LIST_ENTRY(node, struct stored_evidence, node);
        if (slice_eq(e->endpoint, pair->endpoint) && slice_eq(e->type, pair->type))
            return e;
    }
    return NULL;
}

/* An entry for each pair, so that writing cannot fail: an entry without a delivery means nothing. */
int evidence_prepare(struct memory *memory, const struct cycle *cycle)
{
    for (size_t i = 0; i < cycle->delivered_count; i++) {
        const struct evidence *pair = &cycle->delivered[i];
        if (evidence_find(memory, pair) != NULL)
            continue;
        struct stored_evidence *e = calloc(1, sizeof(*e) + pair->endpoint.size + pair->type.size + 1);
        if (e == NULL)
            return PR_ENOMEM;
        memcpy(e->text, pair->endpoint.data, pair->endpoint.size);
        if (pair->type.size > 0)
            memcpy(e->text + pair->endpoint.size, pair->type.data, pair->type.size);
        e->endpoint = (pr_slice){ e->text, pair->endpoint.size };
        e->type = (pr_slice){ e->text + pair->endpoint.size, pair->type.size };
        list_push_back(&memory->evidence, &e->node);
    }
    return PR_OK;
}

void evidence_apply(struct memory *memory, const struct cycle *cycle, int64_t now_us)
{
    for (size_t i = 0; i < cycle->delivered_count; i++) {
        struct stored_evidence *e = evidence_find(memory, &cycle->delivered[i]);
        e->delivered_us = now_us;
    }
}

int evidence_answer(struct memory_session *session, const struct cycle *cycle)
{
    int64_t *answers = arena_alloc_array(&session->arena, cycle->evidence_count, sizeof(*answers));
    if (answers == NULL)
        return PR_ENOMEM;
    for (size_t i = 0; i < cycle->evidence_count; i++) {
        const struct stored_evidence *e = evidence_find(session->box->memory, &cycle->evidence[i]);
        answers[i] = e != NULL ? e->delivered_us : 0;
    }
    session->reply.evidence = answers;
    return PR_OK;
}

void evidence_forget(struct memory *memory)
{
    for (struct list_node *node = list_pop_front(&memory->evidence); node != NULL;
         node = list_pop_front(&memory->evidence))
        free(LIST_ENTRY(node, struct stored_evidence, node));
}
