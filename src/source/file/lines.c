#include "source/file/lines.h"

#include <string.h>

#include "base/error.h"
#include "base/util.h"

void lines_init(struct lines *l, size_t max, size_t line_max)
{
    *l = (struct lines){ .line_max = line_max };
    buf_init(&l->bytes, max);
}

void lines_fini(struct lines *l)
{
    buf_fini(&l->bytes);
}

void lines_reset(struct lines *l)
{
    buf_reset(&l->bytes);
    l->kept = l->used = l->searched = 0;
    l->cut = 0;
}

void lines_keep(struct lines *l)
{
    l->kept = l->used;
    if (l->cut_at <= l->used)
        l->cut = 0;
}

void lines_go_back(struct lines *l)
{
    l->used = l->searched = l->kept;
}

void lines_add(struct lines *l, const char *bytes, size_t size)
{
    size_t left = l->bytes.size - l->kept;
    if (l->kept > 0) {
        memmove(l->bytes.data, l->bytes.data + l->kept, left);
        buf_truncate(&l->bytes, left);
        l->searched -= l->kept;
        l->used -= l->kept;
        l->cut_at -= l->cut > 0 ? l->kept : 0;
        l->kept = 0;
    }
    const char *end = memchr(bytes, '\n', size);
    size_t of_line = end != NULL ? (size_t)(end - bytes) : size;
    size_t room = l->line_max - min_size(l->bytes.size - l->used, l->line_max);
    if (of_line > room) {
        ASSERT(l->cut == 0 || l->cut_at == l->bytes.size);
        buf_add(&l->bytes, bytes, room);
        l->cut += of_line - room;
        l->cut_at = l->bytes.size;
        bytes += of_line;
        size -= of_line;
    }
    buf_add(&l->bytes, bytes, size);
}

/* The one up to there. */
static struct line take_line(struct lines *l, size_t end)
{
    struct line line = { .text = { l->bytes.data + l->used, end - l->used } };
    line.missing = l->cut > 0 && l->cut_at == end ? l->cut : 0;
    line.size = line.text.size + line.missing;
    l->used = l->searched = end;
    return line;
}

bool lines_next(struct lines *l, struct line *ret)
{
    const char *from = l->bytes.data + l->searched;
    const char *end = l->bytes.size > l->searched ? memchr(from, '\n', l->bytes.size - l->searched) : NULL;
    if (end == NULL) {
        l->searched = l->bytes.size;
        return false;
    }
    *ret = take_line(l, (size_t)(end - l->bytes.data));
    l->searched = ++l->used;
    ret->size++;
    if (ret->missing == 0 && ret->text.size > 0 && ret->text.data[ret->text.size - 1] == '\r')
        ret->text.size--;
    return true;
}

struct line lines_take_rest(struct lines *l)
{
    return take_line(l, l->bytes.size);
}
