/* What a filter means, where SQL cannot say it. */
#include "base/slice.h"
#include "store/store.h"

bool filter_is_empty(const struct filter *f)
{
    return f->id_count == 0 && f->row == 0 && f->state < 0 && f->reason == 0 && f->since_us == 0 && f->until_us == 0 &&
           f->box.size == 0 && f->endpoint.size == 0 && f->stream.size == 0 && f->type.size == 0 &&
           f->error.size == 0 && f->fingerprint.size == 0;
}

bool filter_is_time(const struct filter *f)
{
    struct filter rest = *f;
    rest.since_us = rest.until_us = 0;
    return f->since_us != 0 && f->after == 0 && filter_is_empty(&rest);
}

static pr_slice route(const struct filter *f, const struct pr_message *m, size_t n)
{
    return f != NULL && f->routing != NULL ? f->routing->route(f->routing, m, n) : (pr_slice){ NULL, 0 };
}

pr_slice filter_endpoint_of(const struct filter *f, const struct pr_message *m)
{
    if (m->destination.size > 0)
        return m->destination;
    return route(f, m, 1).size == 0 ? route(f, m, 0) : (pr_slice){ NULL, 0 };
}

bool filter_fits_endpoint(const struct filter *f, const struct pr_message *m)
{
    if (f->endpoint.size == 0 || slice_eq(f->endpoint, m->destination))
        return true;
    for (size_t n = 0; m->destination.size == 0 && route(f, m, n).size > 0; n++)
        if (slice_eq(f->endpoint, route(f, m, n)))
            return true;
    return false;
}
