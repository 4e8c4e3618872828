#include "base/base64.h"

#include "base/buf.h"
#include "base/slice.h"
#include "base/util.h"
#include "check.h"

/* RFC 4648, section 10. */
TEST(base64_knows_the_examples_of_the_rfc)
{
    static const char *const pairs[][2] = { { "", "" },
                                            { "f", "Zg==" },
                                            { "fo", "Zm8=" },
                                            { "foo", "Zm9v" },
                                            { "foob", "Zm9vYg==" },
                                            { "fooba", "Zm9vYmE=" },
                                            { "foobar", "Zm9vYmFy" } };
    struct buf b;
    buf_init(&b, 100);
    for (size_t i = 0; i < ARRAY_LENGTH(pairs); i++) {
        buf_reset(&b);
        base64_encode(&b, slice_from(pairs[i][0]));
        CHECK_SLICE(buf_slice(&b), pairs[i][1]);
        buf_reset(&b);
        CHECK_EQ(base64_decode(&b, slice_from(pairs[i][1])), PR_OK);
        CHECK_SLICE(buf_slice(&b), pairs[i][0]);
    }
    buf_fini(&b);
}

TEST(base64_brings_every_byte_back_at_every_length)
{
    char bytes[512];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 31);
    struct buf text, back;
    buf_init(&text, 1000);
    buf_init(&back, 1000);
    for (size_t size = 0; size <= sizeof(bytes); size++) {
        buf_reset(&text);
        buf_reset(&back);
        base64_encode(&text, PR_BYTES(bytes, size));
        CHECK_EQ(text.size, (size + 2) / 3 * 4);
        CHECK_EQ(base64_decode(&back, buf_slice(&text)), PR_OK);
        CHECK_SLICE(buf_slice(&back), PR_BYTES(bytes, size));
    }
    buf_fini(&text);
    buf_fini(&back);
}

TEST(base64_is_strict_and_adds_nothing_when_wrong)
{
    static const char *const wrong[] = { "Z",      "Zg",   "Zg=",  "Zg===", "=",          "====",
                                         "Z===",   "Zg=g", "=Zg=", "Zh==",  "Zm9=",       "Zm8=Zm9v",
                                         "Zm9v\n", "Zm 9", "Zm9-", "Zm9_",  "Zm9vZg=\xff" };
    struct buf b;
    buf_init(&b, 100);
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        CHECK_EQ(base64_decode(&b, slice_from(wrong[i])), PR_EINVAL);
        CHECK_SLICE(buf_slice(&b), "");
    }
    buf_fini(&b);
}

TEST(base64_accepts_exactly_its_64_digits)
{
    struct buf b;
    buf_init(&b, 1000);
    int accepted = 0;
    for (int c = 0; c < 256; c++) {
        char text[4] = { 'A', (char)c, 'A', 'A' };
        accepted += base64_decode(&b, PR_BYTES(text, 4)) == PR_OK;
    }
    CHECK_EQ(accepted, 64);
    buf_fini(&b);
}
