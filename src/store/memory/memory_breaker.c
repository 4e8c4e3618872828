/* Breakers that are not closed: stored with the instance that reported them. */
#include <stdlib.h>
#include <string.h>

#include "store/memory/memory_model.h"

static void text_add(char **at, pr_slice text, pr_slice *ret)
{
    if (text.size > 0)
        memcpy(*at, text.data, text.size);
    *ret = (pr_slice){ *at, text.size };
    *at += text.size;
}

struct stored_breaker *breaker_new(const struct breaker_change *change, int64_t now_us)
{
    size_t bytes = change->endpoint.size + change->type.size + change->code.size + change->error.size;
    struct stored_breaker *breaker = calloc(1, sizeof(*breaker) + bytes);
    if (breaker == NULL)
        return NULL;
    char *at = breaker->text;
    text_add(&at, change->endpoint, &breaker->endpoint);
    text_add(&at, change->type, &breaker->type);
    text_add(&at, change->code, &breaker->code);
    text_add(&at, change->error, &breaker->error);
    breaker->since_us = time_sub(now_us, change->age_us);
    breaker->until_us = change->for_us == PR_NEVER ? PR_NEVER : time_add(now_us, change->for_us);
    breaker->probes = change->probes;
    breaker->reason = change->reason;
    return breaker;
}

static void breaker_forget(struct stored_instance *instance, pr_slice endpoint, pr_slice type)
{
    list_foreach(node, &instance->breakers) {
        struct stored_breaker *breaker = LIST_ENTRY(node, struct stored_breaker, node);
        if (!slice_eq(breaker->endpoint, endpoint) || !slice_eq(breaker->type, type))
            continue;
        list_remove(node);
        free(breaker);
        return;
    }
}

void breaker_apply(struct stored_instance *instance, const struct breaker_change *change, struct stored_breaker **open)
{
    breaker_forget(instance, change->endpoint, change->type);
    if (*open != NULL)
        list_push_back(&instance->breakers, &(*open)->node);
    *open = NULL;
}

void instance_forget_breakers(struct stored_instance *instance)
{
    for (struct list_node *node = list_pop_front(&instance->breakers); node != NULL;
         node = list_pop_front(&instance->breakers))
        free(LIST_ENTRY(node, struct stored_breaker, node));
}

/* ---- For people ------------------------------------------------------------------------------ */

static size_t breakers_count(const struct stored_instance *instance)
{
    size_t count = 0;
    list_foreach(node, &instance->breakers)
        count++;
    return count;
}

/* An instance without lanes sends nothing, and nobody waits for its breakers. */
static bool instance_works(const struct box *box, const struct stored_instance *instance)
{
    return instance->lanes != 0 && instance->lease_end > clock_mono_us(box->memory->clock);
}

static int breakers_copy_of(const struct box *box, const struct stored_instance *instance, struct arena *arena,
                            struct breaker_info **at)
{
    list_foreach(node, &instance->breakers) {
        const struct stored_breaker *b = LIST_ENTRY(node, struct stored_breaker, node);
        struct breaker_info *info = (*at)++;
        *info = (struct breaker_info){
            .endpoint = slice_dup(arena, b->endpoint),
            .type = slice_dup(arena, b->type),
            .box = slice_dup(arena, box_name(box)),
            .instance = slice_dup(arena, instance->name),
            .code = slice_dup(arena, b->code),
            .error = slice_dup(arena, b->error),
            .instance_id = instance->id,
            .lanes = instance->lanes,
            .since_us = b->since_us,
            .until_us = b->until_us,
            .probes = b->probes,
            .reason = b->reason,
        };
        if (info->endpoint.data == NULL || info->type.data == NULL || info->box.data == NULL ||
            info->instance.data == NULL || info->code.data == NULL || info->error.data == NULL)
            return PR_ENOMEM;
    }
    return PR_OK;
}

static int info_compare(const void *a, const void *b)
{
    const struct breaker_info *x = a, *y = b;
    int order = slice_cmp(x->endpoint, y->endpoint);
    if (order == 0)
        order = slice_cmp(x->type, y->type);
    return order != 0 ? order : slice_cmp(x->box, y->box);
}

int breakers_copy(const struct memory *memory, struct arena *arena, struct breaker_info **ret, size_t *ret_count)
{
    size_t count = 0;
    list_foreach(box_node, &memory->boxes)
        list_foreach(node, &LIST_ENTRY(box_node, struct box, node)->instances)
            count += breakers_count(LIST_ENTRY(node, struct stored_instance, node));
    struct breaker_info *list = arena_alloc_array(arena, count, sizeof(list[0])), *at = list;
    if (list == NULL)
        return PR_ENOMEM;
    list_foreach(box_node, &memory->boxes) {
        const struct box *box = LIST_ENTRY(box_node, struct box, node);
        list_foreach(node, &box->instances) {
            const struct stored_instance *instance = LIST_ENTRY(node, struct stored_instance, node);
            if (instance_works(box, instance) && breakers_copy_of(box, instance, arena, &at) != PR_OK)
                return PR_ENOMEM;
        }
    }
    *ret = list;
    *ret_count = (size_t)(at - list);
    qsort(list, *ret_count, sizeof(list[0]), info_compare);
    return PR_OK;
}
