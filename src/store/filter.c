/* The parts of a filter that SQL cannot express. */
#include <string.h>

#include "base/slice.h"
#include "store/store.h"

bool filter_is_empty(const struct filter *f)
{
    return f->id_count == 0 && f->row == 0 && f->state < 0 && f->reason == 0 && f->since_us == 0 && f->until_us == 0 &&
           f->box.size == 0 && f->endpoint.size == 0 && f->stream.size == 0 && f->type.size == 0 &&
           f->error.size == 0 && f->fingerprint.size == 0 && f->correlation_id.size == 0;
}

bool filter_is_time(const struct filter *f)
{
    struct filter rest = *f;
    rest.since_us = rest.until_us = 0;
    return f->since_us != 0 && f->after == 0 && f->newest_row == 0 && filter_is_empty(&rest);
}

static pr_slice route(const struct filter *f, pr_slice box, const struct pr_message *m, size_t n)
{
    return f != NULL && f->routing != NULL ? f->routing->route(f->routing, box, m, n) : (pr_slice){ NULL, 0 };
}

pr_slice filter_endpoint_of(const struct filter *f, pr_slice box, const struct pr_message *m)
{
    if (m->destination.size > 0)
        return m->destination;
    return route(f, box, m, 1).size == 0 ? route(f, box, m, 0) : (pr_slice){ NULL, 0 };
}

bool filter_fits_endpoint(const struct filter *f, pr_slice box, const struct pr_message *m)
{
    if (f->endpoint.size == 0 || slice_eq(f->endpoint, m->destination))
        return true;
    for (size_t n = 0; m->destination.size == 0 && route(f, box, m, n).size > 0; n++)
        if (slice_eq(f->endpoint, route(f, box, m, n)))
            return true;
    return false;
}

bool filter_of_box(const struct filter *f, pr_slice box, struct filter *ret)
{
    *ret = *f;
    if (f->box.size > 0 && !slice_eq(f->box, box))
        return false;
    int order = f->after_box.size > 0 ? slice_cmp(box, f->after_box) : 0;
    if (order > 0)
        ret->after = 0;
    return order >= 0;
}

bool filter_set_after(struct filter *f, pr_slice text)
{
    const char *colon = text.size > 0 ? memchr(text.data, ':', text.size) : NULL;
    size_t box = colon != NULL ? (size_t)(colon - text.data) : 0, i = colon != NULL ? box + 1 : 0;
    uint64_t row = 0;
    if (i == text.size || (colon != NULL && !name_is_valid((pr_slice){ text.data, box })))
        return false;
    for (; i < text.size; i++) {
        unsigned digit = (unsigned char)text.data[i] - (unsigned)'0';
        if (digit > 9 || row > ((uint64_t)INT64_MAX - digit) / 10)
            return false;
        row = row * 10 + digit;
    }
    f->after = row;
    f->after_box = (pr_slice){ text.data, box };
    return true;
}
