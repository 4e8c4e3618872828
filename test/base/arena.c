#include "base/arena.h"

#include <string.h>

#include "base/util.h"
#include "check.h"

TEST(arena_aligns_everything_and_nothing_overlaps)
{
    struct arena a;
    arena_init(&a, 1024);
    unsigned char *pieces[200];
    for (size_t i = 0; i < ARRAY_LENGTH(pieces); i++) {
        pieces[i] = arena_alloc(&a, i);
        CHECK(pieces[i] != NULL);
        CHECK_EQ((uintptr_t)pieces[i] % ARENA_ALIGN, 0);
        memset(pieces[i], (int)i, i);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(pieces); i++)
        for (size_t j = 0; j < i; j++)
            CHECK_EQ(pieces[i][j], i);
    arena_fini(&a);
}

TEST(arena_gives_different_pointers_for_nothing)
{
    struct arena a;
    arena_init(&a, 0);
    void *first = arena_alloc(&a, 0);
    void *second = arena_alloc(&a, 0);
    CHECK(first != NULL && second != NULL && first != second);
    arena_fini(&a);
}

TEST(arena_serves_requests_larger_than_its_blocks)
{
    struct arena a;
    arena_init(&a, 256);
    char *small = arena_alloc(&a, 16);
    char *large = arena_alloc(&a, 1 << 20);
    char *next = arena_alloc(&a, 16);
    CHECK(large != NULL);
    memset(large, 1, 1 << 20);
    CHECK(next == small + 16); /* the current block goes on being used */
    arena_fini(&a);
}

TEST(arena_reset_keeps_ordinary_blocks_and_reuses_them)
{
    struct arena a;
    arena_init(&a, 256);
    void *first = arena_alloc(&a, 10);
    CHECK(arena_alloc(&a, 100000) != NULL);
    arena_reset(&a);
    CHECK_EQ(arena_used(&a), 0);
    CHECK(a.spare != NULL);
    CHECK(arena_alloc(&a, 10) == first);
    for (int round = 0; round < 10; round++) {
        arena_reset(&a);
        for (int i = 0; i < 100; i++)
            CHECK(arena_alloc(&a, 64) != NULL);
    }
    arena_reset(&a);
    arena_reset(&a);
    arena_fini(&a);
}

TEST(arena_reset_keeps_no_more_than_its_limit)
{
    struct arena a;
    void *first[ARENA_SPARE_MAX / 65536 * 2];
    size_t count = sizeof(first) / sizeof(first[0]), known = 0;
    arena_init(&a, 65536);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < count; i++)
            CHECK((first[i] = arena_alloc(&a, 65536)) != NULL);
        arena_reset(&a);
        CHECK(a.blocks == NULL);
    }
    for (size_t i = 0; i < count / 2; i++) {
        void *again = arena_alloc(&a, 65536);
        for (size_t k = 0; k < count; k++)
            known += first[k] == again;
    }
    CHECK_EQ(known, count / 2);
    CHECK(a.spare == NULL);
    arena_fini(&a);
}

TEST(arena_reset_does_not_keep_a_huge_block)
{
    struct arena a;
    arena_init(&a, 256);
    CHECK(arena_alloc(&a, 1 << 20) != NULL);
    arena_reset(&a);
    CHECK(a.blocks == NULL && a.spare == NULL);
    arena_fini(&a);
    arena_fini(&a);
}

TEST(arena_counts_what_was_used)
{
    struct arena a;
    arena_init(&a, 256);
    CHECK_EQ(arena_used(&a), 0);
    CHECK(arena_alloc(&a, 1) != NULL);
    CHECK_EQ(arena_used(&a), 16);
    CHECK(arena_alloc(&a, 17) != NULL);
    CHECK_EQ(arena_used(&a), 48);
    arena_fini(&a);
}

TEST(arena_says_no_to_impossible_sizes)
{
    struct arena a;
    arena_init(&a, 256);
    CHECK(arena_alloc(&a, SIZE_MAX) == NULL);
    CHECK(arena_alloc(&a, SIZE_MAX - 16) == NULL);
    CHECK(arena_alloc(&a, SIZE_MAX - 64) == NULL);
    CHECK(arena_alloc_array(&a, SIZE_MAX / 2, 3) == NULL);
    CHECK_EQ(arena_used(&a), 0);
    CHECK(arena_alloc(&a, 16) != NULL); /* and still works */
    arena_fini(&a);
}

TEST(arena_zeroes_when_asked)
{
    struct arena a;
    arena_init(&a, 256);
    memset(arena_alloc(&a, 200), 0xff, 200);
    arena_reset(&a);
    char *zeroed = arena_zalloc(&a, 200);
    for (int i = 0; i < 200; i++)
        CHECK_EQ(zeroed[i], 0);
    int *array = arena_alloc_array(&a, 100, sizeof(int));
    for (int i = 0; i < 100; i++)
        CHECK_EQ(array[i], 0);
    arena_fini(&a);
}

TEST(arena_copies_and_prints)
{
    struct arena a;
    arena_init(&a, 256);
    CHECK(memcmp(arena_dup(&a, "a\0b", 3), "a\0b", 3) == 0);
    CHECK(arena_dup(&a, NULL, 0) != NULL);
    pr_slice text = arena_printf(&a, "%s-%05d", "x", 42);
    CHECK_SLICE(text, "x-00042");
    CHECK_EQ(text.data[text.size], '\0');
    CHECK_SLICE(arena_printf(&a, "%s", ""), "");
    CHECK_EQ(arena_printf(&a, "%5000d", 1).size, 5000);
    arena_fini(&a);
}

TEST(arena_says_what_its_blocks_take_used_or_not)
{
    struct arena a;
    arena_init(&a, 1024);
    CHECK_EQ(arena_reserved(&a), 0);
    CHECK(arena_alloc(&a, 10) != NULL);
    size_t one = arena_reserved(&a);
    CHECK(one >= 1024 && arena_used(&a) == 16);
    CHECK(arena_alloc(&a, 5000) != NULL); /* a block of its own, which is not kept */
    CHECK(arena_reserved(&a) >= one + 5000);
    arena_reset(&a);
    CHECK_EQ(arena_reserved(&a), one);
    arena_fini(&a);
    CHECK_EQ(arena_reserved(&a), 0);
}
