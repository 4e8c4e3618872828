#include "base/map.h"

#include <stdlib.h>

#include "base/hash.h"
#include "check.h"

struct item {
    uint64_t key;
    bool seen;
    struct map_node node;
};

static struct item *find(const struct map *map, uint64_t hash, uint64_t key)
{
    for (struct map_node *n = map_first(map, hash); n != NULL; n = map_next_same(n))
        if (MAP_ENTRY(n, struct item, node)->key == key)
            return MAP_ENTRY(n, struct item, node);
    return NULL;
}

TEST(map_that_is_empty_answers_everything)
{
    struct map map;
    map_init(&map);
    CHECK_EQ(map_count(&map), 0);
    CHECK(map_first(&map, 0) == NULL);
    CHECK(map_begin(&map) == NULL);
    map_fini(&map);
    map_fini(&map);
}

TEST(map_grows_and_finds_everything_again)
{
    enum { COUNT = 10000 };
    struct map map;
    struct item *items = calloc(COUNT, sizeof(*items));
    CHECK(items != NULL);
    map_init(&map);
    for (uint64_t i = 0; i < COUNT; i++) {
        items[i].key = i;
        CHECK_EQ(map_insert(&map, &items[i].node, hash_u64(i)), PR_OK);
    }
    CHECK_EQ(map_count(&map), COUNT);
    CHECK(map.bucket_count >= COUNT);
    for (uint64_t i = 0; i < COUNT; i++)
        CHECK(find(&map, hash_u64(i), i) == &items[i]);
    CHECK(find(&map, hash_u64(COUNT), COUNT) == NULL);

    for (uint64_t i = 0; i < COUNT; i += 2)
        map_remove(&map, &items[i].node);
    CHECK_EQ(map_count(&map), COUNT / 2);
    for (uint64_t i = 0; i < COUNT; i++)
        CHECK((find(&map, hash_u64(i), i) != NULL) == (i % 2 == 1));
    map_fini(&map);
    free(items);
}

TEST(map_keeps_equal_hashes_apart_and_in_order)
{
    struct map map;
    struct item items[100] = { 0 };
    map_init(&map);
    for (uint64_t i = 0; i < 100; i++) {
        items[i].key = i;
        CHECK_EQ(map_insert(&map, &items[i].node, i % 3), PR_OK); /* also across growth */
    }
    uint64_t expected = 1;
    for (struct map_node *n = map_first(&map, 1); n != NULL; n = map_next_same(n)) {
        CHECK_EQ(MAP_ENTRY(n, struct item, node)->key, expected);
        expected += 3;
    }
    CHECK_EQ(expected, 100);
    map_remove(&map, &items[1].node);
    map_remove(&map, &items[50 - 50 % 3 + 1].node);
    CHECK_EQ(MAP_ENTRY(map_first(&map, 1), struct item, node)->key, 4);
    CHECK(map_first(&map, 3) == NULL);
    map_fini(&map);
}

TEST(map_visits_each_node_once_and_allows_removing_it)
{
    struct map map;
    struct item items[1000] = { 0 };
    map_init(&map);
    for (uint64_t i = 0; i < 1000; i++)
        CHECK_EQ(map_insert(&map, &items[i].node, i * 64), PR_OK); /* low bits all zero */
    map_foreach(node, &map) {
        struct item *item = MAP_ENTRY(node, struct item, node);
        CHECK(!item->seen);
        item->seen = true;
        map_remove(&map, node);
    }
    for (int i = 0; i < 1000; i++)
        CHECK(items[i].seen);
    CHECK_EQ(map_count(&map), 0);
    map_fini(&map);
}

static void remove_stranger(void *arg)
{
    (void)arg;
    struct map map;
    struct item a = { .key = 1 }, stranger = { .key = 2 };
    map_init(&map);
    if (map_insert(&map, &a.node, 1) != PR_OK)
        return;
    stranger.node.hash = 1;
    map_remove(&map, &stranger.node);
}

TEST(map_stops_the_program_when_a_stranger_is_removed)
{
    CHECK(check_aborts(remove_stranger, NULL));
}
