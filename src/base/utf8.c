/* Invalid text is replaced piece by piece as Unicode recommends ("maximal subparts"): a piece is the beginning of a
 * well-formed character, or else one byte. */
#include "base/utf8.h"

#include <string.h>

#include "base/buf.h"
#include "base/error.h"

/* What may follow a lead byte: the number of bytes, the range of the first of them, and the mask of the bits in the
 * lead byte itself.  The ranges exclude overlong forms, surrogates and code points over U+10FFFF. */
struct lead {
    unsigned char low, high, follow, second_low, second_high, mask;
};

static const struct lead leads[] = {
    { 0x00, 0x7f, 0, 0x00, 0x00, 0x7f }, { 0xc2, 0xdf, 1, 0x80, 0xbf, 0x1f },
    { 0xe0, 0xe0, 2, 0xa0, 0xbf, 0x0f }, { 0xe1, 0xec, 2, 0x80, 0xbf, 0x0f },
    { 0xed, 0xed, 2, 0x80, 0x9f, 0x0f }, { 0xee, 0xef, 2, 0x80, 0xbf, 0x0f },
    { 0xf0, 0xf0, 3, 0x90, 0xbf, 0x07 }, { 0xf1, 0xf3, 3, 0x80, 0xbf, 0x07 },
    { 0xf4, 0xf4, 3, 0x80, 0x8f, 0x07 }, { 0, 0, 0, 0, 0, 0 },
};

static const struct lead *lead_find(unsigned char byte)
{
    for (const struct lead *l = leads; l->mask != 0; l++)
        if (byte >= l->low && byte <= l->high)
            return l;
    return NULL;
}

size_t utf8_next(pr_slice text, int32_t *ret_codepoint)
{
    ASSERT(text.size > 0);
    const unsigned char *bytes = (const unsigned char *)text.data;
    const struct lead *lead = lead_find(bytes[0]);

    *ret_codepoint = -1;
    if (lead == NULL)
        return 1;
    int32_t codepoint = bytes[0] & lead->mask;
    for (size_t i = 1; i <= lead->follow; i++) {
        unsigned char low = i == 1 ? lead->second_low : 0x80;
        unsigned char high = i == 1 ? lead->second_high : 0xbf;
        if (i >= text.size || bytes[i] < low || bytes[i] > high)
            return i;
        codepoint = (int32_t)((uint32_t)codepoint << 6 | (bytes[i] & 0x3f));
    }
    *ret_codepoint = codepoint;
    return (size_t)lead->follow + 1;
}

bool utf8_is_control(int32_t c)
{
    return (c >= 0 && c < 0x20) || (c >= 0x7f && c < 0xa0) || c == 0x061c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

static pr_slice skip(pr_slice text, size_t size)
{
    return PR_BYTES(text.data + size, text.size - size);
}

/* The number of ASCII bytes at the front, rounded down: it checks eight at a time. */
static size_t ascii_size(pr_slice text)
{
    size_t size = 0;
    uint64_t word;
    for (; text.size - size >= sizeof(word); size += sizeof(word)) {
        memcpy(&word, text.data + size, sizeof(word));
        if ((word & UINT64_C(0x8080808080808080)) != 0)
            break;
    }
    return size;
}

bool utf8_valid(pr_slice text)
{
    while (text.size > 0) {
        text = skip(text, ascii_size(text));
        if (text.size == 0)
            return true;
        int32_t codepoint;
        text = skip(text, utf8_next(text, &codepoint));
        if (codepoint < 0)
            return false;
    }
    return true;
}

pr_slice utf8_cut(pr_slice text, size_t max_chars)
{
    pr_slice rest = text;
    while (rest.size > 0 && max_chars-- > 0) {
        int32_t codepoint;
        rest = skip(rest, utf8_next(rest, &codepoint));
    }
    return PR_BYTES(text.data, text.size - rest.size);
}

/* Go back to the last lead byte, at most three bytes; a character that is incomplete at the very end of text is
 * removed, too. */
pr_slice utf8_cut_bytes(pr_slice text, size_t max_bytes)
{
    size_t size = text.size < max_bytes ? text.size : max_bytes;
    for (size_t back = 1; back <= 3 && back <= size; back++) {
        unsigned char byte = (unsigned char)text.data[size - back];
        if ((byte & 0xc0) == 0x80)
            continue;
        const struct lead *lead = lead_find(byte);
        if (lead != NULL && (size_t)lead->follow + 1 > back)
            size -= back;
        break;
    }
    return PR_BYTES(text.data, size);
}

void utf8_clean(struct buf *b, pr_slice text)
{
    while (text.size > 0) {
        int32_t codepoint;
        size_t size = utf8_next(text, &codepoint);
        if (codepoint <= 0)
            buf_add_slice(b, PR_STR("\xef\xbf\xbd"));
        else
            buf_add(b, text.data, size);
        text = skip(text, size);
    }
}
