#include "base/list.h"

#include "check.h"

struct item {
    int number;
    struct list_node node;
};

static int number_of(const struct list_node *node)
{
    return node == NULL ? -1 : LIST_ENTRY(node, struct item, node)->number;
}

TEST(list_keeps_the_order_of_insertion)
{
    struct list list;
    struct item items[4] = { { .number = 0 }, { .number = 1 }, { .number = 2 }, { .number = 3 } };
    list_init(&list);
    CHECK(list_is_empty(&list));
    list_push_back(&list, &items[1].node);
    list_push_back(&list, &items[3].node);
    list_push_front(&list, &items[0].node);
    list_insert_before(&items[3].node, &items[2].node);

    int expected = 0;
    list_foreach(node, &list)
        CHECK_EQ(number_of(node), expected++);
    CHECK_EQ(expected, 4);
    for (struct list_node *node = list_last(&list); node != NULL; node = list_prev(&list, node))
        CHECK_EQ(number_of(node), --expected);
    CHECK_EQ(expected, 0);
}

TEST(list_is_left_cleanly)
{
    struct list list;
    struct item a = { .number = 1 }, b = { .number = 2 };
    list_init(&list);
    CHECK(!list_is_linked(&a.node));
    list_push_back(&list, &a.node);
    list_push_back(&list, &b.node);
    CHECK(list_is_linked(&a.node));
    list_remove(&a.node);
    CHECK(!list_is_linked(&a.node));
    CHECK_EQ(number_of(list_first(&list)), 2);
    list_push_back(&list, &a.node); /* a removed node may come back */
    CHECK_EQ(number_of(list_last(&list)), 1);
    CHECK_EQ(number_of(list_pop_front(&list)), 2);
    CHECK_EQ(number_of(list_pop_front(&list)), 1);
    CHECK(list_pop_front(&list) == NULL);
    CHECK(list_first(&list) == NULL);
    CHECK(list_last(&list) == NULL);
}

TEST(list_foreach_allows_removing_the_current_node)
{
    struct list list;
    struct item items[10];
    list_init(&list);
    for (int i = 0; i < 10; i++) {
        items[i] = (struct item){ .number = i };
        list_push_back(&list, &items[i].node);
    }
    list_foreach(node, &list) {
        if (number_of(node) % 2 == 0)
            list_remove(node);
    }
    int expected = 1;
    list_foreach(node, &list) {
        CHECK_EQ(number_of(node), expected);
        expected += 2;
        list_remove(node);
    }
    CHECK(list_is_empty(&list));
}

static void remove_twice(void *arg)
{
    (void)arg;
    struct list list;
    struct item a = { .number = 1 };
    list_init(&list);
    list_push_back(&list, &a.node);
    list_remove(&a.node);
    list_remove(&a.node);
}

static void insert_twice(void *arg)
{
    (void)arg;
    struct list list;
    struct item a = { .number = 1 };
    list_init(&list);
    list_push_back(&list, &a.node);
    list_push_back(&list, &a.node);
}

TEST(list_stops_the_program_when_a_node_is_used_twice)
{
    CHECK(check_aborts(remove_twice, NULL));
    CHECK(check_aborts(insert_twice, NULL));
}
