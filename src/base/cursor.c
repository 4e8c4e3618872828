#include "base/cursor.h"

#include "base/slice.h"

pr_slice cursor_take(struct cursor *c, uint64_t size)
{
    if (c->bad || size > c->rest.size) {
        c->bad = true;
        return PR_STR("");
    }
    pr_slice taken = { c->rest.data, (size_t)size };
    c->rest = (pr_slice){ c->rest.data + size, c->rest.size - (size_t)size };
    return taken;
}

uint64_t cursor_number(struct cursor *c, unsigned bytes)
{
    pr_slice raw = cursor_take(c, bytes);
    uint64_t number = 0;
    for (size_t i = 0; i < raw.size; i++)
        number = number << 8 | (uint8_t)raw.data[i];
    return number;
}
