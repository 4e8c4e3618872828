#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/util.h"

#define BUF_CAPACITY_MIN 64

void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){ .max = min_size(max, SIZE_MAX - 1) }; /* room for the NUL */
}

void buf_fini(struct buf *b)
{
    free(b->data);
    buf_init(b, b->max);
}

void buf_reset(struct buf *b)
{
    b->size = 0;
    b->error = 0;
    if (b->data != NULL)
        b->data[0] = '\0';
}

void buf_truncate(struct buf *b, size_t size)
{
    ASSERT(size <= b->size);
    b->size = size;
    b->error = 0;
    if (b->data != NULL)
        b->data[size] = '\0';
}

/* Make room for size more bytes and the NUL; false, with the error set, when that is not possible. */
static bool buf_grow(struct buf *b, size_t size)
{
    ASSERT(b->size <= b->max);
    if (b->error != 0)
        return false;
    if (size > b->max - b->size) {
        b->error = PR_ETOOBIG;
        return false;
    }
    size_t needed = b->size + size + 1;
    if (needed <= b->capacity)
        return true;

    size_t doubled = b->capacity <= SIZE_MAX / 2 ? b->capacity * 2 : SIZE_MAX;
    size_t capacity = max_size(max_size(needed, BUF_CAPACITY_MIN), min_size(doubled, b->max + 1));
    char *data = realloc(b->data, capacity);
    if (data == NULL) {
        b->error = PR_ENOMEM;
        return false;
    }
    b->data = data;
    b->capacity = capacity;
    return true;
}

void buf_add(struct buf *b, const void *data, size_t size)
{
    if (!buf_grow(b, size))
        return;
    if (size > 0)
        memcpy(b->data + b->size, data, size);
    b->size += size;
    b->data[b->size] = '\0';
}

void buf_add_slice(struct buf *b, pr_slice s)
{
    buf_add(b, s.data, s.size);
}

void buf_add_cstr(struct buf *b, const char *text)
{
    buf_add(b, text, strlen(text));
}

void buf_add_char(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_addf(struct buf *b, const char *format, ...)
{
    va_list args, again;
    size_t room = b->error == 0 ? b->capacity - b->size : 0; /* it mostly fits, and is then formatted once only */
    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(room > 0 ? b->data + b->size : NULL, room, format, args);
    va_end(args);

    if (size < 0)
        b->error = b->error != 0 ? b->error : PR_ETOOBIG; /* over INT_MAX */
    else if (buf_grow(b, (size_t)size)) {
        if ((size_t)size >= room)
            vsnprintf(b->data + b->size, (size_t)size + 1, format, again);
        b->size += (size_t)size;
    }
    va_end(again);
    if (b->data != NULL)
        b->data[b->size] = '\0';
}

int buf_failed(const struct buf *b)
{
    return b->error;
}

pr_slice buf_slice(const struct buf *b)
{
    return b->data == NULL ? PR_STR("") : PR_BYTES(b->data, b->size);
}
