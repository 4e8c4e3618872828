#include "base/utf8.h"

#include <string.h>

#include "base/buf.h"
#include "base/slice.h"
#include "base/util.h"
#include "check.h"

#define BAD "\xef\xbf\xbd"

/* The definition, from the other side: encode a code point. */
static size_t encode(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t follow = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    for (size_t i = follow; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    static const unsigned char marks[] = { 0, 0xc0, 0xe0, 0xf0 };
    out[0] = (char)(marks[follow] | c);
    return follow + 1;
}

TEST(utf8_knows_every_code_point_and_no_surrogate)
{
    for (uint32_t c = 0; c < 0x120000; c++) {
        char text[4];
        size_t size = encode(c, text);
        bool good = c <= 0x10ffff && !(c >= 0xd800 && c <= 0xdfff);
        int32_t codepoint;
        size_t length = utf8_next(PR_BYTES(text, size), &codepoint);
        if ((codepoint == (int32_t)c && length == size) != good)
            CHECK_EQ(codepoint, c);
        if (utf8_valid(PR_BYTES(text, size)) != good)
            CHECK_EQ(c, -1);
    }
}

TEST(utf8_refuses_overlong_and_broken_forms)
{
    static const char *const wrong[] = {
        "\x80",
        "\xbf",
        "\xc0\x80",
        "\xc1\xbf",
        "\xe0\x80\x80",
        "\xe0\x9f\xbf",
        "\xf0\x80\x80\x80",
        "\xf0\x8f\xbf\xbf",
        "\xed\xa0\x80",
        "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80",
        "\xff",
        "\xfe",
        "\xc2",
        "\xe2\x82",
        "\xf0\x9f\x98",
        "\xc2"
        "a",
        "a\xe2\x82"
        "b",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++)
        CHECK(!utf8_valid(slice_from(wrong[i])));
    for (size_t i = 0; i < 24; i++) { /* also where eight are looked at together */
        char text[24];
        memset(text, 'a', sizeof(text));
        text[i] = '\x80';
        CHECK(!utf8_valid(PR_BYTES(text, sizeof(text))));
    }
    CHECK(utf8_valid(PR_STR("")));
    CHECK(utf8_valid((pr_slice){ NULL, 0 }));
    CHECK(utf8_valid(PR_STR("a\0\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80")));
}

TEST(utf8_cut_counts_characters)
{
    pr_slice text = PR_STR("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z");
    size_t sizes[] = { 0, 1, 3, 6, 10, 11, 11 };
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++)
        CHECK_EQ(utf8_cut(text, i).size, sizes[i]);
    CHECK_EQ(utf8_cut(text, SIZE_MAX).size, 11);
    CHECK_EQ(utf8_cut(PR_STR("\xff\xff\xff"), 2).size, 2);
    CHECK_EQ(utf8_cut((pr_slice){ NULL, 0 }, 5).size, 0);
}

TEST(utf8_cut_bytes_never_ends_inside_a_character)
{
    pr_slice text = PR_STR("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z");
    size_t sizes[] = { 0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11 };
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++)
        CHECK_EQ(utf8_cut_bytes(text, i).size, sizes[i]);
    CHECK_EQ(utf8_cut_bytes(PR_STR("\x80\x80\x80\x80\x80"), 4).size, 4); /* no character to save */
    CHECK_EQ(utf8_cut_bytes(PR_STR("ab\xe2\x82"), 4).size, 2);
}

static void check_clean(pr_slice text, const char *expected)
{
    struct buf b;
    buf_init(&b, 1000);
    utf8_clean(&b, text);
    CHECK_SLICE(buf_slice(&b), expected);
    buf_fini(&b);
}

TEST(utf8_clean_replaces_each_broken_piece_once)
{
    check_clean(PR_STR("plain \xc3\xa4"), "plain \xc3\xa4");
    check_clean(PR_STR("a\0b"), "a" BAD "b");
    check_clean(PR_STR("a\xff\xfe"
                       "b"),
                "a" BAD BAD "b");
    check_clean(PR_STR("\xf0\x9f\x98"
                       "b"),
                BAD "b"); /* the beginning of a character: one piece */
    check_clean(PR_STR("\xed\xa0\x80"), BAD BAD BAD);
    check_clean(PR_STR("\xe2\x82"), BAD);
    /* The example of the Unicode standard, table 3-8. */
    check_clean(PR_STR("\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64"),
                "a" BAD BAD BAD "b" BAD "c" BAD BAD "d");
}

TEST(utf8_clean_makes_every_pair_of_bytes_valid)
{
    struct buf b;
    buf_init(&b, 100);
    for (int i = 0; i < 65536; i++) {
        char pair[2] = { (char)(i >> 8), (char)i };
        buf_reset(&b);
        utf8_clean(&b, PR_BYTES(pair, 2));
        CHECK(utf8_valid(buf_slice(&b)));
        CHECK(memchr(b.data, '\0', b.size) == NULL);
    }
    buf_fini(&b);
}
