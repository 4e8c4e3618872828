/* list.h - an intrusive doubly linked list.
 *
 * The nodes are members of the caller's structs; the list never allocates.  A node that is zeroed or was removed is in
 * no list. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/util.h"

struct list_node {
    struct list_node *prev, *next;
};

struct list {
    struct list_node head; /* a ring: head.next is the first, head.prev the last */
};

#define LIST_ENTRY(node, type, member) CONTAINER_OF(node, type, member)

void list_init(struct list *list);
bool list_is_empty(const struct list *list);
bool list_is_linked(const struct list_node *node);

/* The node must be in no list. */
void list_push_back(struct list *list, struct list_node *node);
void list_push_front(struct list *list, struct list_node *node);
void list_insert_before(struct list_node *position, struct list_node *node);

void list_remove(struct list_node *node); /* the node must be in a list */

/* NULL at the end. */
struct list_node *list_first(const struct list *list);
struct list_node *list_last(const struct list *list);
struct list_node *list_next(const struct list *list, const struct list_node *node);
struct list_node *list_prev(const struct list *list, const struct list_node *node);

/* Unlink and return the first; NULL when empty. */
struct list_node *list_pop_front(struct list *list);

/* Declares node; the body may remove (and free) node, but no other. */
#define list_foreach(node, list)                                                                                       \
    for (struct list_node *node = list_first(list), *node##_next = node != NULL ? list_next((list), node) : NULL;      \
         node != NULL; node = node##_next, node##_next = node != NULL ? list_next((list), node) : NULL)

#endif
