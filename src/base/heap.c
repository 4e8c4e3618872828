/* Invariant 1: nodes[i]->index == i + 1.
 * Invariant 2: no node has a smaller key than its parent. */
#include "base/heap.h"

#include <stdlib.h>

#include "base/error.h"

#define HEAP_CAPACITY_MIN 16

void heap_init(struct heap *heap)
{
    *heap = (struct heap){ 0 };
}

void heap_fini(struct heap *heap)
{
    free(heap->nodes);
    heap_init(heap);
}

int heap_reserve(struct heap *heap, size_t count)
{
    if (count <= heap->capacity)
        return PR_OK;
    size_t capacity = max_size(count, HEAP_CAPACITY_MIN);
    if (heap->capacity <= SIZE_MAX / 2)
        capacity = max_size(capacity, heap->capacity * 2);
    struct heap_node **nodes = reallocarray(heap->nodes, capacity, sizeof(*nodes));
    if (nodes == NULL)
        return PR_ENOMEM;
    heap->nodes = nodes;
    heap->capacity = capacity;
    return PR_OK;
}

/* The only place that writes nodes[] and index. */
static void heap_place(struct heap *heap, size_t i, struct heap_node *node)
{
    heap->nodes[i] = node;
    node->index = i + 1;
}

static void heap_sift_up(struct heap *heap, size_t i, struct heap_node *node)
{
    while (i > 0) {
        size_t parent = (i - 1) / 2;
        if (heap->nodes[parent]->key <= node->key)
            break;
        heap_place(heap, i, heap->nodes[parent]);
        i = parent;
    }
    heap_place(heap, i, node);
}

static void heap_sift_down(struct heap *heap, size_t i, struct heap_node *node)
{
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && heap->nodes[child + 1]->key < heap->nodes[child]->key)
            child++;
        if (node->key <= heap->nodes[child]->key)
            break;
        heap_place(heap, i, heap->nodes[child]);
        i = child;
    }
    heap_place(heap, i, node);
}

/* Place node at the free position i, or move it up or down from there. */
static void heap_settle(struct heap *heap, size_t i, struct heap_node *node)
{
    if (i > 0 && node->key < heap->nodes[(i - 1) / 2]->key)
        heap_sift_up(heap, i, node);
    else
        heap_sift_down(heap, i, node);
}

int heap_insert(struct heap *heap, struct heap_node *node, int64_t key)
{
    ASSERT(!heap_is_linked(node));
    int rc = heap_reserve(heap, heap->count + 1);
    if (rc != PR_OK)
        return rc;
    node->key = key;
    heap_sift_up(heap, heap->count++, node);
    return PR_OK;
}

static size_t heap_index(const struct heap *heap, const struct heap_node *node)
{
    ASSERT(node->index > 0 && node->index <= heap->count);
    ASSERT(heap->nodes[node->index - 1] == node); /* Invariant 1 */
    return node->index - 1;
}

void heap_remove(struct heap *heap, struct heap_node *node)
{
    size_t i = heap_index(heap, node);
    struct heap_node *last = heap->nodes[--heap->count];
    node->index = 0;
    if (last != node)
        heap_settle(heap, i, last);
}

void heap_update(struct heap *heap, struct heap_node *node, int64_t key)
{
    size_t i = heap_index(heap, node);
    node->key = key;
    heap_settle(heap, i, node);
}

struct heap_node *heap_min(const struct heap *heap)
{
    return heap->count == 0 ? NULL : heap->nodes[0];
}

size_t heap_count(const struct heap *heap)
{
    return heap->count;
}

bool heap_is_linked(const struct heap_node *node)
{
    return node->index != 0;
}
