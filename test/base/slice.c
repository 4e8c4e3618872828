#include "base/slice.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "check.h"

static bool glob(const char *pattern, const char *text)
{
    return slice_glob(slice_from(pattern), slice_from(text));
}

TEST(slice_treats_null_and_empty_alike)
{
    CHECK(slice_is_empty(slice_from(NULL)));
    CHECK(slice_eq((pr_slice){ NULL, 0 }, PR_STR("")));
    CHECK(slice_eq_cstr((pr_slice){ NULL, 0 }, NULL));
    CHECK_EQ(slice_cmp((pr_slice){ NULL, 0 }, PR_STR("")), 0);
    CHECK(slice_starts_with((pr_slice){ NULL, 0 }, PR_STR("")));
    CHECK(slice_ends_with((pr_slice){ NULL, 0 }, PR_STR("")));
    CHECK(slice_contains((pr_slice){ NULL, 0 }, (pr_slice){ NULL, 0 }));
}

TEST(slice_compares_bytes_and_not_strings)
{
    CHECK(!slice_eq(PR_STR("a\0b"), PR_STR("a\0c")));
    CHECK(!slice_eq_cstr(PR_STR("a\0b"), "a"));
    CHECK(slice_cmp(PR_STR("\xff"), PR_STR("a")) > 0);
    CHECK(slice_cmp(PR_STR("ab"), PR_STR("abc")) < 0);
    CHECK(slice_cmp(PR_STR("abc"), PR_STR("ab")) > 0);
    CHECK(slice_cmp(PR_STR("b"), PR_STR("abc")) > 0);
    CHECK_EQ(slice_cmp(PR_STR("abc"), PR_STR("abc")), 0);
}

TEST(slice_finds_prefixes_suffixes_and_parts)
{
    CHECK(slice_starts_with(PR_STR("orders.new"), PR_STR("orders")));
    CHECK(!slice_starts_with(PR_STR("ord"), PR_STR("orders")));
    CHECK(slice_ends_with(PR_STR("orders.new"), PR_STR(".new")));
    CHECK(!slice_ends_with(PR_STR("new"), PR_STR("s.new")));
    CHECK(slice_contains(PR_STR("orders.new"), PR_STR("s.n")));
    CHECK(slice_contains(PR_STR("x"), PR_STR("")));
    CHECK(!slice_contains(PR_STR("orders"), PR_STR("orders.")));
    CHECK(slice_contains(PR_STR("a\0b"), PR_STR("\0b")));
}

TEST(slice_trim_takes_white_space_off_both_ends_only)
{
    CHECK_SLICE(slice_trim(PR_STR(" \t\r\n a b \n")), "a b");
    CHECK_SLICE(slice_trim(PR_STR(" \n ")), "");
    CHECK_SLICE(slice_trim((pr_slice){ NULL, 0 }), "");
}

TEST(slice_dup_ends_with_a_nul_and_keeps_inner_ones)
{
    struct arena a;
    arena_init(&a, 0);
    pr_slice copy = slice_dup(&a, PR_BYTES("a\0bXX", 3));
    CHECK_SLICE(copy, PR_BYTES("a\0b", 3));
    CHECK_EQ(copy.data[3], '\0');
    pr_slice empty = slice_dup(&a, (pr_slice){ NULL, 0 });
    CHECK(empty.data != NULL);
    CHECK_EQ(empty.size, 0);
    CHECK(slice_dup(&a, PR_BYTES("", SIZE_MAX)).data == NULL);
    arena_fini(&a);
}

TEST(slice_glob_knows_star_and_question_mark)
{
    CHECK(glob("", ""));
    CHECK(!glob("", "a"));
    CHECK(glob("*", ""));
    CHECK(glob("***", ""));
    CHECK(glob("*", "anything"));
    CHECK(!glob("?", ""));
    CHECK(glob("?", "a"));
    CHECK(!glob("?", "ab"));
    CHECK(glob("orders.*", "orders.new"));
    CHECK(!glob("orders.*", "order.new"));
    CHECK(glob("*.new", "orders.new.new"));
    CHECK(glob("a*b*c", "axxbyybzzc"));
    CHECK(!glob("a*b*c", "axxbyybzz"));
    CHECK(glob("a?c*", "abc"));
    CHECK(glob("*a", "aaaa"));
    CHECK(!glob("abc", "abcd"));
    CHECK(!glob("abcd", "abc"));
}

TEST(slice_glob_takes_other_special_characters_literally)
{
    CHECK(glob("[a-z]", "[a-z]"));
    CHECK(!glob("[a-z]", "b"));
    CHECK(glob("\\*", "\\x"));
    CHECK(glob("{a,b}", "{a,b}"));
    CHECK(slice_glob(PR_STR("a?b"), PR_STR("a\0b")));
}

/* What every textbook writes: right, but exponential. */
static bool glob_slowly(const char *pattern, const char *text)
{
    if (*pattern == '\0')
        return *text == '\0';
    if (*pattern == '*')
        return glob_slowly(pattern + 1, text) || (*text != '\0' && glob_slowly(pattern, text + 1));
    return *text != '\0' && (*pattern == '?' || *pattern == *text) && glob_slowly(pattern + 1, text + 1);
}

TEST(slice_glob_agrees_with_the_recursive_definition)
{
    /* All patterns of 5 over "ab*?" against all texts of up to 5 over "ab". */
    for (int p = 0; p < 4 * 4 * 4 * 4 * 4; p++) {
        char pattern[6] = { 0 };
        for (int i = 0, rest = p; i < 5; i++, rest /= 4)
            pattern[i] = "ab*?"[rest % 4];
        for (int t = 1; t < 64; t++) { /* the highest bit says how long */
            char text[8] = { 0 };
            for (int rest = t, i = 0; rest > 1; rest /= 2)
                text[i++] = "ab"[rest % 2];
            if (glob(pattern, text) != glob_slowly(pattern, text))
                CHECK_STR(pattern, text);
        }
    }
}

TEST(slice_glob_is_fast_on_patterns_that_hang_others)
{
    enum { SIZE = 20000 };
    char *text = malloc(SIZE);
    CHECK(text != NULL);
    memset(text, 'a', SIZE);
    CHECK(!slice_glob(PR_STR("a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b"), PR_BYTES(text, SIZE)));
    free(text);
}
