#include "source/broker/redis_value.h"

#include "base/error.h"
#include "base/slice.h"
#include "transport/broker/inbox.h"

#define TEXT_MAX ((int64_t)512 << 20) /* bytes: no string of Redis is longer */
#define COUNT_MAX ((int64_t)1 << 20)  /* elements of a list: more are never requested */

/* The first line of a value, and its meaning. */
struct value_head {
    enum redis_shape shape;
    pr_slice line;
    int64_t size; /* bytes of a text, elements of a list; -1: null */
    bool is_sized;
};

/* Size of the line with its end; 0: incomplete. */
static ssize_t read_head(pr_slice bytes, struct value_head *ret, struct pr_error *reterr)
{
    pr_slice line = { NULL, 0 };
    if (bytes.size == 0)
        return 0;
    static const char kinds[] = "+:-$*";
    static const enum redis_shape shapes[] = { REDIS_TEXT, REDIS_NUMBER, REDIS_ERROR, REDIS_TEXT, REDIS_LIST };
    const char *kind = memchr(kinds, bytes.data[0], sizeof(kinds) - 1);
    if (kind == NULL)
        return error_set(reterr, PR_EINVAL, "it does not answer as Redis does: the first byte is %d",
                         (unsigned char)bytes.data[0]);
    /* Searches no further than a line may be long: megabytes of entries can follow it. */
    size_t size = inbox_line((pr_slice){ bytes.data, min_size(bytes.size, INBOX_SIZE) }, &line);
    if (size == 0)
        return bytes.size < INBOX_SIZE ? 0 : error_set(reterr, PR_EINVAL, "a line of more than %d bytes", INBOX_SIZE);
    *ret = (struct value_head){ .shape = shapes[kind - kinds], .line = { line.data + 1, line.size - 1 } };
    ret->is_sized = *kind == '$' || *kind == '*';
    if (!ret->is_sized)
        return (ssize_t)size;
    bool is_nothing = slice_eq_cstr(ret->line, "-1");
    ret->size = is_nothing ? -1 : inbox_number(ret->line, *kind == '$' ? TEXT_MAX : COUNT_MAX);
    if (ret->size < 0 && !is_nothing)
        return error_set(reterr, PR_EINVAL, "an answer with the size \"%.*s\"", (int)min_size(ret->line.size, 20),
                         ret->line.data);
    return (ssize_t)size;
}

/* Is it complete?  Needs no memory, so that a long value is not parsed again with every piece that arrives. */
static ssize_t measure(pr_slice bytes, unsigned depth, struct pr_error *reterr)
{
    struct value_head head;
    ssize_t used = read_head(bytes, &head, reterr);
    if (used <= 0 || !head.is_sized || head.size < 0)
        return used;
    if (head.shape == REDIS_TEXT) {
        size_t whole = (size_t)used + (size_t)head.size + 2;
        if (bytes.size < whole)
            return 0;
        return memcmp(bytes.data + whole - 2, "\r\n", 2) == 0
                   ? (ssize_t)whole
                   : error_set(reterr, PR_EINVAL, "an answer does not end where it should");
    }
    if (depth == REDIS_DEPTH_MAX)
        return error_set(reterr, PR_EINVAL, "an answer with too many nested lists");
    for (int64_t i = 0; i < head.size; i++) {
        ssize_t size = measure((pr_slice){ bytes.data + used, bytes.size - (size_t)used }, depth + 1, reterr);
        if (size <= 0)
            return size;
        used += size;
    }
    return used;
}

/* Nested lists are consecutive heads, too. */
bool redis_value_part(pr_slice bytes, struct redis_part *ret)
{
    struct value_head head;
    size_t at = 0;
    for (;;) {
        ssize_t used = read_head((pr_slice){ bytes.data + at, bytes.size - at }, &head, NULL);
        if (used <= 0)
            return false;
        bool is_text = head.is_sized && head.shape == REDIS_TEXT && head.size >= 0;
        *ret = (struct redis_part){ at + 1, at + (size_t)used, is_text ? (size_t)head.size : 0 };
        at = ret->text + (is_text ? ret->size + 2 : 0);
        if (at > bytes.size)
            return true;
    }
}

/* The value is complete and well-formed; out of memory: PR_ENOMEM. */
static ssize_t build(pr_slice bytes, struct arena *arena, struct redis_value *ret)
{
    struct value_head head;
    ssize_t used = read_head(bytes, &head, NULL);
    *ret = (struct redis_value){ .shape = head.shape, .text = head.line };
    if (!head.is_sized)
        return used;
    if (head.size < 0) {
        ret->shape = REDIS_NOTHING;
        return used;
    }
    if (head.shape == REDIS_TEXT) {
        ret->text = (pr_slice){ bytes.data + used, (size_t)head.size };
        return used + (ssize_t)head.size + 2;
    }
    ret->count = (size_t)head.size;
    ret->list = arena_alloc_array(arena, ret->count, sizeof(*ret->list));
    for (size_t i = 0; i < ret->count && ret->list != NULL; i++) {
        ssize_t size = build((pr_slice){ bytes.data + used, bytes.size - (size_t)used }, arena, &ret->list[i]);
        if (size < 0)
            return size;
        used += size;
    }
    return ret->list != NULL ? used : PR_ENOMEM;
}

ssize_t redis_value_read(pr_slice bytes, struct arena *arena, struct redis_value *ret, struct pr_error *reterr)
{
    ssize_t size = measure(bytes, 0, reterr);
    if (size <= 0)
        return size;
    size = build(bytes, arena, ret);
    return size > 0 ? size : error_set(reterr, PR_ENOMEM, "out of memory for an answer");
}
