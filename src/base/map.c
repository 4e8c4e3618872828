/* Chained buckets; their number is a power of two, with at most one node per bucket on average. */
#include "base/map.h"

#include <stdlib.h>

#include "base/error.h"

#define MAP_BUCKETS_MIN 16

void map_init(struct map *map)
{
    *map = (struct map){ 0 };
}

void map_fini(struct map *map)
{
    free(map->buckets);
    map_init(map);
}

static struct map_node **map_bucket(const struct map *map, uint64_t hash)
{
    /* Callers' hashes may vary in their high bits only: fold these into the low bits, which choose the bucket. */
    return &map->buckets[(hash ^ (hash >> 32)) & (map->bucket_count - 1)];
}

/* Append, so that nodes with equal hashes keep their order of insertion. */
static void map_link(struct map *map, struct map_node *node)
{
    struct map_node **link = map_bucket(map, node->hash);
    while (*link != NULL)
        link = &(*link)->next;
    node->next = NULL;
    *link = node;
}

static bool map_grow(struct map *map)
{
    if (map->bucket_count > SIZE_MAX / 2)
        return false;
    struct map grown = { .count = map->count,
                         .bucket_count = map->bucket_count == 0 ? MAP_BUCKETS_MIN : map->bucket_count * 2 };
    grown.buckets = calloc(grown.bucket_count, sizeof(*grown.buckets));
    if (grown.buckets == NULL)
        return false;
    for (size_t i = 0; i < map->bucket_count; i++) {
        struct map_node *next;
        for (struct map_node *node = map->buckets[i]; node != NULL; node = next) {
            next = node->next;
            map_link(&grown, node);
        }
    }
    free(map->buckets);
    *map = grown;
    return true;
}

int map_insert(struct map *map, struct map_node *node, uint64_t hash)
{
    if (map->count >= map->bucket_count && !map_grow(map) && map->bucket_count == 0)
        return PR_ENOMEM;
    node->hash = hash;
    map_link(map, node);
    map->count++;
    return PR_OK;
}

void map_remove(struct map *map, struct map_node *node)
{
    ASSERT(map->count > 0);
    struct map_node **link = map_bucket(map, node->hash);
    while (*link != node) {
        ASSERT(*link != NULL); /* the node must be in this map */
        link = &(*link)->next;
    }
    *link = node->next;
    node->next = NULL;
    map->count--;
}

size_t map_count(const struct map *map)
{
    return map->count;
}

static struct map_node *map_same(struct map_node *node, uint64_t hash)
{
    while (node != NULL && node->hash != hash)
        node = node->next;
    return node;
}

struct map_node *map_first(const struct map *map, uint64_t hash)
{
    return map->bucket_count == 0 ? NULL : map_same(*map_bucket(map, hash), hash);
}

struct map_node *map_next_same(const struct map_node *node)
{
    return map_same(node->next, node->hash);
}

static struct map_node *map_from_bucket(const struct map *map, size_t index)
{
    for (; index < map->bucket_count; index++)
        if (map->buckets[index] != NULL)
            return map->buckets[index];
    return NULL;
}

struct map_node *map_begin(const struct map *map)
{
    return map_from_bucket(map, 0);
}

struct map_node *map_next(const struct map *map, const struct map_node *node)
{
    if (node->next != NULL)
        return node->next;
    return map_from_bucket(map, (size_t)(map_bucket(map, node->hash) - map->buckets) + 1);
}
