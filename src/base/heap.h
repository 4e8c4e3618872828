/* heap.h - an intrusive binary min-heap, for "what is due next".
 *
 * The nodes are members of the caller's structs.  A zeroed node is in no heap.  The order of equal keys depends only on
 * the sequence of operations. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <postrider.h>

#include "base/util.h"

struct heap_node {
    int64_t key;  /* read it freely; change it with heap_update() */
    size_t index; /* 1 is the root; 0: in no heap */
};

struct heap {
    struct heap_node **nodes;
    size_t count;
    size_t capacity;
};

#define HEAP_ENTRY(node, type, member) CONTAINER_OF(node, type, member)

void heap_init(struct heap *heap); /* allocates nothing yet */
void heap_fini(struct heap *heap); /* does not free the nodes: the caller owns them */

/* Make room for this many nodes in all: inserting up to that number cannot fail. */
PR_MUST_CHECK int heap_reserve(struct heap *heap, size_t count);

PR_MUST_CHECK int heap_insert(struct heap *heap, struct heap_node *node, int64_t key);
void heap_remove(struct heap *heap, struct heap_node *node); /* must be in this heap */
void heap_update(struct heap *heap, struct heap_node *node, int64_t key);

struct heap_node *heap_min(const struct heap *heap); /* NULL when empty */
size_t heap_count(const struct heap *heap);
bool heap_is_linked(const struct heap_node *node);

#endif
