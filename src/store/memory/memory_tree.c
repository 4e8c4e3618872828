#include "store/memory/memory_tree.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"

int tree_key_cmp(const struct tree_key *a, const struct tree_key *b)
{
    if (a->text.size + b->text.size > 0) {
        int order = slice_cmp(a->text, b->text);
        if (order != 0)
            return order;
    }
    if (a->a != b->a)
        return a->a < b->a ? -1 : 1;
    if (a->b != b->b)
        return a->b < b->b ? -1 : 1;
    return a->c == b->c ? 0 : a->c < b->c ? -1 : 1;
}

static struct tree_node **tree_place(struct tree *tree, const struct tree_node *node)
{
    if (node->up == NULL)
        return &tree->root;
    return node->up->left == node ? &node->up->left : &node->up->right;
}

/* Put child, which is below node, into node's place, and node below it. */
static void tree_rotate_up(struct tree *tree, struct tree_node *child)
{
    struct tree_node *node = child->up;
    *tree_place(tree, node) = child;
    child->up = node->up;
    struct tree_node *middle;
    if (node->left == child) {
        middle = child->right;
        child->right = node;
        node->left = middle;
    } else {
        middle = child->left;
        child->left = node;
        node->right = middle;
    }
    if (middle != NULL)
        middle->up = node;
    node->up = child;
}

void tree_insert(struct tree *tree, struct tree_node *node, struct tree_key key)
{
    ASSERT(!tree_is_linked(node));
    uint64_t mix = hash_u64((uint64_t)key.a ^ hash_u64((uint64_t)key.b ^ hash_u64(key.c)));
    *node = (struct tree_node){ .key = key, .priority = mix | 1 };

    struct tree_node **place = &tree->root;
    while (*place != NULL) {
        int order = tree_key_cmp(&key, &(*place)->key);
        ASSERT(order != 0);
        node->up = *place;
        place = order < 0 ? &(*place)->left : &(*place)->right;
    }
    *place = node;
    while (node->up != NULL && node->up->priority < node->priority)
        tree_rotate_up(tree, node);
    tree->count++;
}

void tree_remove(struct tree *tree, struct tree_node *node)
{
    ASSERT(tree_is_linked(node));
    while (node->left != NULL && node->right != NULL)
        tree_rotate_up(tree, node->left->priority > node->right->priority ? node->left : node->right);
    struct tree_node *child = node->left != NULL ? node->left : node->right;
    *tree_place(tree, node) = child;
    if (child != NULL)
        child->up = node->up;
    *node = (struct tree_node){ 0 };
    tree->count--;
}

bool tree_is_linked(const struct tree_node *node)
{
    return node->priority != 0;
}

struct tree_node *tree_first(const struct tree *tree)
{
    struct tree_node *node = tree->root;
    while (node != NULL && node->left != NULL)
        node = node->left;
    return node;
}

struct tree_node *tree_last(const struct tree *tree)
{
    struct tree_node *node = tree->root;
    while (node != NULL && node->right != NULL)
        node = node->right;
    return node;
}

struct tree_node *tree_next(const struct tree_node *node)
{
    if (node->right != NULL) {
        struct tree_node *next = node->right;
        while (next->left != NULL)
            next = next->left;
        return next;
    }
    while (node->up != NULL && node->up->right == node)
        node = node->up;
    return node->up;
}

struct tree_node *tree_above(const struct tree *tree, struct tree_key key)
{
    struct tree_node *found = NULL;
    for (struct tree_node *node = tree->root; node != NULL;) {
        if (tree_key_cmp(&node->key, &key) > 0) {
            found = node;
            node = node->left;
        } else {
            node = node->right;
        }
    }
    return found;
}
