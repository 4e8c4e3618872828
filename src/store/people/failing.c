#include "store/people/failing.h"

#include "base/util.h"

static size_t bucket_of(int failures)
{
    return failures <= 2 ? (size_t)failures - 1 : failures <= 5 ? 2 : failures <= 10 ? 3 : 4;
}

bool failing_add(struct box_failing *f, const struct query *query, int attempts, int failures)
{
    if (f->rows == COUNT_EXACT_MAX) {
        f->more = true;
        return false;
    }
    f->rows++;
    if (failures > 0)
        f->by_failures[bucket_of(failures)]++;
    f->near_limit += query->near > 0 && attempts - failures >= query->near;
    return true;
}

void failing_add_due(struct box_failing *f, int64_t due_us)
{
    if (due_us == PR_NEVER || due_us == 0)
        return;
    f->next_us = f->next_us == 0 ? due_us : min64(f->next_us, due_us);
    f->last_us = max64(f->last_us, due_us);
}

void failing_add_dead(struct box_failing *f, int reason, int cause, uint64_t count)
{
    f->dead[reason_index(reason != PR_REASON_NONE ? reason : cause)] += count;
}
