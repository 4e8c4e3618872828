/* An ordered index: a treap of nodes that live inside the rows.  Its shape depends on the keys
 * only (priorities are hashes of them), so every run of a seed is the same. */
#ifndef STORE_MEMORY_MEMORY_TREE_H
#define STORE_MEMORY_MEMORY_TREE_H

#include <postrider.h>

struct tree_key {  /* compared in this order */
    pr_slice text; /* borrowed: must live as long as the node is in the tree */
    int64_t a, b;
    uint64_t c;
};

struct tree_node { /* zeroed: in no tree */
    struct tree_node *left, *right, *up;
    uint64_t priority; /* 0: in no tree */
    struct tree_key key;
};

struct tree { /* zeroed: empty */
    struct tree_node *root;
    size_t count;
};

int tree_key_cmp(const struct tree_key *a, const struct tree_key *b);

void tree_insert(struct tree *tree, struct tree_node *node, struct tree_key key); /* the key must be new */
void tree_remove(struct tree *tree, struct tree_node *node);
bool tree_is_linked(const struct tree_node *node);

/* NULL: none. */
struct tree_node *tree_first(const struct tree *tree);
struct tree_node *tree_last(const struct tree *tree);
struct tree_node *tree_next(const struct tree_node *node);
/* The first node above this key. */
struct tree_node *tree_above(const struct tree *tree, struct tree_key key);

#endif
