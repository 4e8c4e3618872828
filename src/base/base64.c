#include "base/base64.h"

#include "base/buf.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(struct buf *b, pr_slice data)
{
    const unsigned char *bytes = (const unsigned char *)data.data;
    for (size_t i = 0; i < data.size; i += 3) {
        size_t have = data.size - i < 3 ? data.size - i : 3;
        uint32_t group = (uint32_t)bytes[i] << 16;
        group |= have > 1 ? (uint32_t)bytes[i + 1] << 8 : 0;
        group |= have > 2 ? bytes[i + 2] : 0;
        char text[4] = { alphabet[group >> 18], alphabet[group >> 12 & 63], have > 1 ? alphabet[group >> 6 & 63] : '=',
                         have > 2 ? alphabet[group & 63] : '=' };
        buf_add(b, text, sizeof(text));
    }
}

static int digit_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decode one group of four characters: returns the number of bytes, 0 when the group is invalid. */
static size_t decode_group(const char text[4], char ret_bytes[3])
{
    size_t digits = text[3] != '=' ? 4 : text[2] != '=' ? 3 : 2;
    uint32_t group = 0;
    for (size_t i = 0; i < 4; i++) {
        int value = i < digits ? digit_value(text[i]) : 0;
        if (value < 0)
            return 0;
        group = group << 6 | (uint32_t)value;
    }
    uint32_t unused = digits == 4 ? 0 : digits == 3 ? 0xff : 0xffff;
    if ((group & unused) != 0)
        return 0;
    ret_bytes[0] = (char)(group >> 16);
    ret_bytes[1] = (char)(group >> 8);
    ret_bytes[2] = (char)group;
    return digits - 1;
}

int base64_decode(struct buf *b, pr_slice text)
{
    if (text.size % 4 != 0)
        return PR_EINVAL;
    /* Two passes: the first only validates, so that nothing is added from a text that turns out invalid further on. */
    for (int adding = 0; adding <= 1; adding++) {
        for (size_t i = 0; i < text.size; i += 4) {
            char bytes[3];
            size_t size = decode_group(text.data + i, bytes);
            if (size == 0 || (size < 3 && i + 4 < text.size))
                return PR_EINVAL;
            if (adding == 1)
                buf_add(b, bytes, size);
        }
    }
    return PR_OK;
}
