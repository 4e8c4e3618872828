#include "base/heap.h"

#include "base/random.h"
#include "base/util.h"
#include "check.h"

struct item {
    int number;
    struct heap_node node;
};

TEST(heap_gives_the_smallest_first)
{
    struct heap heap;
    struct item items[6] = { 0 };
    int64_t keys[] = { 5, INT64_MAX, -3, 0, INT64_MIN, 5 };
    int64_t sorted[] = { INT64_MIN, -3, 0, 5, 5, INT64_MAX };
    heap_init(&heap);
    CHECK(heap_min(&heap) == NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(keys); i++)
        CHECK_EQ(heap_insert(&heap, &items[i].node, keys[i]), PR_OK);
    CHECK_EQ(heap_count(&heap), 6);
    for (size_t i = 0; i < ARRAY_LENGTH(sorted); i++) {
        struct heap_node *min = heap_min(&heap);
        CHECK_EQ(min->key, sorted[i]);
        heap_remove(&heap, min);
        CHECK(!heap_is_linked(min));
    }
    CHECK(heap_min(&heap) == NULL);
    heap_fini(&heap);
}

static void check_invariants(const struct heap *heap)
{
    for (size_t i = 0; i < heap->count; i++) {
        CHECK_EQ(heap->nodes[i]->index, i + 1);
        CHECK(heap->nodes[(i == 0 ? 0 : i - 1) / 2]->key <= heap->nodes[i]->key);
    }
}

TEST(heap_survives_a_long_random_life)
{
    enum { COUNT = 200 };
    struct heap heap;
    struct random random;
    struct item items[COUNT] = { 0 };
    heap_init(&heap);
    random_init(&random, 1);
    for (int step = 0; step < 20000; step++) {
        struct heap_node *node = &items[random_below(&random, COUNT)].node;
        int64_t key = random_between(&random, -50, 50);
        if (!heap_is_linked(node))
            CHECK_EQ(heap_insert(&heap, node, key), PR_OK);
        else if (random_chance(&random, 0.5))
            heap_update(&heap, node, key);
        else
            heap_remove(&heap, node);
        if (step % 16 == 0)
            check_invariants(&heap);
    }
    size_t linked = 0;
    for (int i = 0; i < COUNT; i++)
        linked += heap_is_linked(&items[i].node);
    CHECK_EQ(linked, heap_count(&heap));
    int64_t last = INT64_MIN;
    while (heap_count(&heap) > 0) {
        CHECK(heap_min(&heap)->key >= last);
        last = heap_min(&heap)->key;
        heap_remove(&heap, heap_min(&heap));
    }
    heap_fini(&heap);
}

TEST(heap_update_moves_both_ways)
{
    struct heap heap;
    struct item items[3] = { 0 };
    heap_init(&heap);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(heap_insert(&heap, &items[i].node, i), PR_OK);
    heap_update(&heap, &items[2].node, -1);
    CHECK(heap_min(&heap) == &items[2].node);
    heap_update(&heap, &items[2].node, 9);
    CHECK(heap_min(&heap) == &items[0].node);
    heap_update(&heap, &items[0].node, 0);
    CHECK(heap_min(&heap) == &items[0].node);
    heap_fini(&heap);
}

TEST(heap_reserve_makes_room_once)
{
    struct heap heap;
    heap_init(&heap);
    CHECK_EQ(heap_reserve(&heap, 1000), PR_OK);
    size_t capacity = heap.capacity;
    struct item items[1000] = { 0 };
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(heap_insert(&heap, &items[i].node, -i), PR_OK);
    CHECK_EQ(heap.capacity, capacity);
    CHECK_EQ(heap_reserve(&heap, SIZE_MAX / 4), PR_ENOMEM);
    CHECK_EQ(heap_min(&heap)->key, -999);
    heap_fini(&heap);
}

static void remove_twice(void *arg)
{
    (void)arg;
    struct heap heap;
    struct item a = { 0 };
    heap_init(&heap);
    if (heap_insert(&heap, &a.node, 1) != PR_OK)
        return;
    heap_remove(&heap, &a.node);
    heap_remove(&heap, &a.node);
}

TEST(heap_stops_the_program_when_a_node_is_removed_twice)
{
    CHECK(check_aborts(remove_twice, NULL));
}
