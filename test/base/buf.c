#include "base/buf.h"

#include <string.h>

#include "check.h"

TEST(buf_starts_empty_and_readable)
{
    struct buf b;
    buf_init(&b, 10);
    CHECK(buf_slice(&b).data != NULL);
    CHECK_SLICE(buf_slice(&b), "");
    CHECK_EQ(buf_failed(&b), 0);
    buf_fini(&b);
}

TEST(buf_collects_all_kinds_of_additions)
{
    struct buf b;
    buf_init(&b, 100);
    buf_add(&b, "ab", 2);
    buf_add_char(&b, '\0');
    buf_add_slice(&b, PR_STR("c"));
    buf_add_slice(&b, (pr_slice){ NULL, 0 });
    buf_add_cstr(&b, "d");
    buf_addf(&b, "%d%s", 42, "!");
    CHECK_SLICE(buf_slice(&b), PR_STR("ab\0cd42!"));
    CHECK_EQ(b.data[b.size], '\0');
    buf_fini(&b);
}

TEST(buf_is_exactly_as_large_as_its_limit)
{
    struct buf b;
    buf_init(&b, 3);
    buf_add_cstr(&b, "abc");
    CHECK_EQ(buf_failed(&b), 0);
    buf_add_char(&b, 'd');
    CHECK_EQ(buf_failed(&b), PR_ETOOBIG);
    CHECK_SLICE(buf_slice(&b), "abc");
    buf_fini(&b);
}

TEST(buf_adds_all_or_nothing_and_stays_failed)
{
    struct buf b;
    buf_init(&b, 5);
    buf_add_cstr(&b, "abc");
    buf_addf(&b, "%s", "defgh");
    CHECK_EQ(buf_failed(&b), PR_ETOOBIG);
    buf_add_char(&b, 'x'); /* would fit, but what it belongs to is lost */
    buf_add(&b, NULL, 0);
    CHECK_SLICE(buf_slice(&b), "abc");
    CHECK_STR(buf_slice(&b).data, "abc");
    CHECK_EQ(buf_failed(&b), PR_ETOOBIG);
    buf_fini(&b);
}

TEST(buf_reset_forgets_content_and_error_but_not_the_limit)
{
    struct buf b;
    buf_init(&b, 2);
    buf_add_cstr(&b, "abc");
    buf_reset(&b);
    CHECK_EQ(buf_failed(&b), 0);
    buf_add_cstr(&b, "ab");
    CHECK_SLICE(buf_slice(&b), "ab");
    buf_reset(&b);
    CHECK_SLICE(buf_slice(&b), "");
    buf_add_cstr(&b, "abc");
    CHECK_EQ(buf_failed(&b), PR_ETOOBIG);
    buf_fini(&b);
}

TEST(buf_grows_byte_by_byte_without_losing_any)
{
    struct buf b;
    buf_init(&b, 100000);
    for (int i = 0; i < 100000; i++)
        buf_add_char(&b, (char)(i * 7));
    CHECK_EQ(buf_failed(&b), 0);
    CHECK_EQ(b.size, 100000);
    CHECK(b.capacity <= 100001);
    for (int i = 0; i < 100000; i++)
        CHECK_EQ(b.data[i], (char)(i * 7));
    buf_fini(&b);
}

TEST(buf_says_no_to_sizes_that_overflow)
{
    struct buf b;
    buf_init(&b, SIZE_MAX);
    buf_add_cstr(&b, "abc");
    buf_add(&b, "", SIZE_MAX - 1);
    CHECK_EQ(buf_failed(&b), PR_ETOOBIG);
    buf_reset(&b);
    buf_add(&b, "", SIZE_MAX / 2);
    CHECK_EQ(buf_failed(&b), PR_ENOMEM);
    CHECK_SLICE(buf_slice(&b), "");
    buf_fini(&b);
}

TEST(buf_with_limit_zero_takes_nothing)
{
    struct buf b;
    buf_init(&b, 0);
    buf_add(&b, NULL, 0);
    CHECK_EQ(buf_failed(&b), 0);
    buf_add_char(&b, 'x');
    CHECK_EQ(buf_failed(&b), PR_ETOOBIG);
    buf_fini(&b);
}
