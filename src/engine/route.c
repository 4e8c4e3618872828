/* Where a row goes: an override, its own destination, or all routes that match. */
#include <strings.h>

#include "engine/internal.h"

#define HEADER_ARENA_BLOCK 1024

struct header_search {
    const struct route_header *wanted;
    struct arena *arena; /* memory for names and values with escapes */
    bool found;
};

/* A string as it is meant; numbers, true and false as they are written.  Nested values match nothing. */
static int look_at_header(void *arg, pr_slice key, pr_slice value)
{
    struct header_search *s = arg;
    pr_slice name, text = value;
    bool nested = value.data[0] == '{' || value.data[0] == '[';

    if (json_string_read(key, s->arena, &name) != PR_OK || name.size != s->wanted->name.size ||
        strncasecmp(name.data, s->wanted->name.data, name.size) != 0)
        return PR_OK;
    if (nested || (value.data[0] == '"' && json_string_read(value, s->arena, &text) != PR_OK))
        return PR_OK;
    s->found |= slice_glob(s->wanted->glob, text);
    return PR_OK;
}

bool route_headers_match(const struct route_header *headers, size_t count, const struct pr_message *m)
{
    struct arena arena;
    bool all = true;

    if (count == 0 || m->headers.size == 0)
        return count == 0;
    arena_init(&arena, HEADER_ARENA_BLOCK);
    for (size_t i = 0; all && i < count; i++) {
        struct header_search search = { .wanted = &headers[i], .arena = &arena };
        all = json_object_walk(m->headers, look_at_header, &search) == PR_OK && search.found;
    }
    arena_fini(&arena);
    return all;
}

static bool is_tagged(const struct pr_message *m)
{
    static const struct route_header tag = { { "tag", 3 }, { "?*", 2 } };

    return route_headers_match(&tag, 1, m);
}

bool route_takes_box(pr_slice named, pr_slice box, enum box_kind kind)
{
    return named.size > 0 ? slice_eq(named, box) : kind == BOX_OUTBOX;
}

static bool may_match(const struct engine_setting *s, const struct route *r, pr_slice type)
{
    return route_takes_box(r->box, s->box, s->kind) && (r->type.size == 0 || slice_glob(r->type, type));
}

static bool route_matches(const struct engine_setting *s, const struct route *r, const struct pr_message *m)
{
    return may_match(s, r, m->type) && (r->source.size == 0 || slice_glob(r->source, m->source)) &&
           (r->stream.size == 0 || slice_glob(r->stream, m->stream)) &&
           route_headers_match(r->headers, r->header_count, m) && !(r->untagged && is_tagged(m));
}

static size_t add_endpoint(unsigned endpoint, unsigned *ret, size_t count, size_t max)
{
    for (size_t i = 0; i < count; i++)
        if (ret[i] == endpoint)
            return count;
    if (count < max)
        ret[count++] = endpoint;
    return count;
}

size_t engine_route(const struct engine_setting *s, const struct pr_message *m, unsigned *ret, size_t max)
{
    size_t count = 0;

    for (size_t i = 0; i < s->override_count; i++)
        if (route_matches(s, &s->overrides[i], m))
            return add_endpoint(s->overrides[i].to[0], ret, 0, max);
    if (m->destination.size > 0) {
        for (size_t i = 0; i < s->endpoint_count; i++)
            if (!s->endpoints[i].gone && !s->endpoints[i].overrides_only &&
                slice_eq(s->endpoints[i].name, m->destination))
                return add_endpoint((unsigned)i, ret, 0, max);
        return 0;
    }
    for (size_t i = 0; i < s->route_count; i++)
        if (route_matches(s, &s->routes[i], m))
            for (size_t k = 0; k < s->routes[i].to_count; k++)
                count = add_endpoint(s->routes[i].to[k], ret, count, max);
    return count;
}

bool route_is_by_type(const struct engine_setting *s, pr_slice type, unsigned endpoint)
{
    bool goes = false;

    for (size_t i = 0; i < s->override_count; i++)
        if (may_match(s, &s->overrides[i], type))
            return false;
    for (size_t i = 0; i < s->route_count; i++) {
        const struct route *r = &s->routes[i];
        if (!may_match(s, r, type))
            continue;
        if (r->source.size > 0 || r->stream.size > 0 || r->header_count > 0 || r->untagged)
            return false;
        for (size_t k = 0; k < r->to_count; k++)
            if (r->to[k] != endpoint)
                return false;
        goes = goes || r->to_count > 0;
    }
    return goes;
}

size_t route_message(const struct engine *e, const struct pr_message *m, unsigned *ret, size_t max)
{
    return engine_route(&e->setting, m, ret, max);
}
