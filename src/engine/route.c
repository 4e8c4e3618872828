/* Where a row goes: an override, its own destination, or all routes that match. */
#include "engine/internal.h"

static bool route_matches(const struct route *r, const struct pr_message *m)
{
    return (r->type.size == 0 || slice_glob(r->type, m->type)) &&
           (r->source.size == 0 || slice_glob(r->source, m->source)) &&
           (r->stream.size == 0 || slice_glob(r->stream, m->stream));
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
        if (route_matches(&s->overrides[i], m))
            return add_endpoint(s->overrides[i].to[0], ret, 0, max);
    if (m->destination.size > 0) {
        for (size_t i = 0; i < s->endpoint_count; i++)
            if (slice_eq(s->endpoints[i].name, m->destination))
                return add_endpoint((unsigned)i, ret, 0, max);
        return 0;
    }
    for (size_t i = 0; i < s->route_count; i++)
        if (route_matches(&s->routes[i], m))
            for (size_t k = 0; k < s->routes[i].to_count; k++)
                count = add_endpoint(s->routes[i].to[k], ret, count, max);
    return count;
}

size_t route_message(const struct engine *e, const struct pr_message *m, unsigned *ret, size_t max)
{
    return engine_route(&e->setting, m, ret, max);
}
