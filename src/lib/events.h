/* events.h - what the files of subscriptions share. */
#ifndef LIB_EVENTS_H
#define LIB_EVENTS_H

#include <postrider.h>

#include "base/arena.h"
#include "store/store.h"

#define HOLDER_NAME_MAX 127
#define HOLDER_ID_SIZE 8

struct pr_subscription {
    struct pr_events *events;
    struct arena scratch;
    char name[SUBSCRIPTION_NAME_MAX + 1];
    char schema[BOX_NAME_MAX + 1]; /* of PostgreSQL */
    char holder[HOLDER_NAME_MAX + 1 + HOLDER_ID_SIZE + 1];
    int64_t lease_us;
    uint64_t fence;
    int64_t position; /* as of the latest claim */
    int64_t given;    /* the place of the last event that was returned; 0: none */
    bool has_it;
};

/* May the subscription advance to this place? */
PR_MUST_CHECK int subscription_check(const struct pr_subscription *subscription, int64_t place,
                                     struct pr_error *reterr);

#endif
