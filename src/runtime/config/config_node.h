/* config_node.h - a YAML file as a tree that remembers the position of everything.
 *
 * Only what a configuration needs: maps with text keys, lists, scalars; one document; no anchors, aliases or tags (so a
 * small file cannot become a large tree). */
#ifndef RUNTIME_CONFIG_CONFIG_NODE_H
#define RUNTIME_CONFIG_CONFIG_NODE_H

#include "base/arena.h"

enum node_kind { NODE_SCALAR, NODE_MAP, NODE_LIST };

struct node {
    enum node_kind kind;
    int line, column;          /* starting at 1 */
    bool plain;                /* SCALAR: not quoted */
    bool expanded;             /* SCALAR: it was written with ${...} */
    const char *text;          /* SCALAR: expanded */
    const char *shown;         /* SCALAR: the same with *** in place of content from ${file:} */
    const char *variable;      /* SCALAR: the environment variable that it comes from, or NULL */
    struct node *first, *next; /* MAP, LIST: children; siblings */
    size_t count;
    const char *key; /* of a child of a map */
    int key_line, key_column;
};

/* The origin of the text: for messages, and for ${file:path}. */
struct node_source {
    const char *name;                   /* the file */
    pr_slice directory;                 /* of the file, empty: the current one */
    struct config_variables *variables; /* borrowed */
};

/* *ret is NULL for an empty document.  Fault PR_ECONFIG with file:line:column. */
PR_MUST_CHECK int node_parse(pr_slice text, const struct node_source *source, struct arena *arena, struct node **ret,
                             struct pr_error *reterr);

/* Is the value missing: "key:" or "key: ~"? */
bool node_is_null(const struct node *node);

/* NULL when the map has no such key. */
const struct node *node_find(const struct node *map, const char *key);

/* Expands ${NAME} ${NAME:-default} ${NAME:?message} ${file:path}; $${ is a plain ${.  On a fault (PR_ECONFIG) reterr
 * says what is wrong, without a position. */
PR_MUST_CHECK int node_expand(pr_slice text, const struct node_source *source, struct arena *arena,
                              const char **ret_text, const char **ret_shown, struct pr_error *reterr);

#endif
