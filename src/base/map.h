/* map.h - an intrusive hash map.
 *
 * The nodes are members of the caller's structs.  The map stores hashes, not keys: iterate over the nodes with the hash
 * and compare their keys.
 *
 *     for (struct map_node *n = map_first(&map, hash); n != NULL; n = map_next_same(n))
 *         if (slice_eq(CONTAINER_OF(n, struct thing, node)->name, name)) ...
 *
 * The order of iteration depends only on hashes and the sequence of operations, so it is the same in every run. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <postrider.h>

#include "base/util.h"

struct map_node {
    struct map_node *next;
    uint64_t hash;
};

struct map {
    struct map_node **buckets;
    size_t bucket_count; /* 0 or a power of two */
    size_t count;
};

#define MAP_ENTRY(node, type, member) CONTAINER_OF(node, type, member)

void map_init(struct map *map); /* allocates nothing yet */
void map_fini(struct map *map); /* does not free the nodes: the caller owns them */

/* Does not check for duplicates.  Fault PR_ENOMEM: nothing changed.  This is only possible while the map is empty: when
 * the table cannot grow later, the map only becomes slower. */
PR_MUST_CHECK int map_insert(struct map *map, struct map_node *node, uint64_t hash);
void map_remove(struct map *map, struct map_node *node); /* must be in this map */
size_t map_count(const struct map *map);

struct map_node *map_first(const struct map *map, uint64_t hash);
struct map_node *map_next_same(const struct map_node *node);

/* Iterate over all nodes; NULL at the end. */
struct map_node *map_begin(const struct map *map);
struct map_node *map_next(const struct map *map, const struct map_node *node);

/* Declares node; the body may remove (and free) node, but no other, and must not insert. */
#define map_foreach(node, map)                                                                                         \
    for (struct map_node *node = map_begin(map), *node##_next = node != NULL ? map_next((map), node) : NULL;           \
         node != NULL; node = node##_next, node##_next = node != NULL ? map_next((map), node) : NULL)

#endif
