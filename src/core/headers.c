#include "core/headers.h"

#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/json.h"
#include "core/message.h"

#define ARENA_BLOCK 256

struct set {
    const struct header *ours;
    size_t count;
    struct arena arena;
    struct buf *ret;
};

static int keep_other(void *arg, pr_slice quoted, pr_slice value)
{
    struct set *s = arg;
    pr_slice key;
    if (json_string_read(quoted, &s->arena, &key) != PR_OK)
        key = quoted;
    for (size_t i = 0; i < s->count; i++)
        if (key.size == strlen(s->ours[i].name) && strncasecmp(key.data, s->ours[i].name, key.size) == 0)
            return PR_OK;
    buf_add_char(s->ret, ',');
    buf_add_slice(s->ret, quoted);
    buf_add_char(s->ret, ':');
    buf_add_slice(s->ret, value);
    return PR_OK;
}

void headers_set(pr_slice headers, const struct header *ours, size_t count, struct buf *ret)
{
    struct set s = { .ours = ours, .count = count, .ret = ret };
    struct json_writer w;
    json_init(&w, ret);
    json_begin_object(&w);
    for (size_t i = 0; i < count; i++)
        json_put_slice(&w, ours[i].name, ours[i].value);
    arena_init(&s.arena, ARENA_BLOCK);
    int rc = headers.size > 0 ? json_object_walk(headers, keep_other, &s) : PR_OK;
    (void)rc; /* headers that are no object were refused on arrival */
    arena_fini(&s.arena);
    json_end_object(&w);
}
