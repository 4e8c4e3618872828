#include "base/list.h"

#include "base/error.h"

void list_init(struct list *list)
{
    list->head.prev = &list->head;
    list->head.next = &list->head;
}

bool list_is_empty(const struct list *list)
{
    return list->head.next == &list->head;
}

bool list_is_linked(const struct list_node *node)
{
    return node->next != NULL;
}

void list_insert_before(struct list_node *position, struct list_node *node)
{
    ASSERT(list_is_linked(position) && !list_is_linked(node));
    node->prev = position->prev;
    node->next = position;
    position->prev->next = node;
    position->prev = node;
}

void list_push_back(struct list *list, struct list_node *node)
{
    list_insert_before(&list->head, node);
}

void list_push_front(struct list *list, struct list_node *node)
{
    list_insert_before(list->head.next, node);
}

void list_remove(struct list_node *node)
{
    ASSERT(list_is_linked(node));
    ASSERT(node->prev->next == node && node->next->prev == node);
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->prev = NULL;
    node->next = NULL;
}

static struct list_node *list_unless_head(const struct list *list, struct list_node *node)
{
    return node == &list->head ? NULL : node;
}

struct list_node *list_first(const struct list *list)
{
    return list_unless_head(list, list->head.next);
}

struct list_node *list_last(const struct list *list)
{
    return list_unless_head(list, list->head.prev);
}

struct list_node *list_next(const struct list *list, const struct list_node *node)
{
    return list_unless_head(list, node->next);
}

struct list_node *list_prev(const struct list *list, const struct list_node *node)
{
    return list_unless_head(list, node->prev);
}

struct list_node *list_pop_front(struct list *list)
{
    struct list_node *node = list_first(list);
    if (node != NULL)
        list_remove(node);
    return node;
}
