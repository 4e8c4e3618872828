/* subscription.h - how a step changes a subscription, the same in every store. */
#ifndef STORE_PEOPLE_SUBSCRIPTION_H
#define STORE_PEOPLE_SUBSCRIPTION_H

#include "store/store.h"

/* PR_OK: *s is its new state; PR_STALE: unchanged. */
PR_MUST_CHECK int subscription_change(const struct subscription_call *call, int64_t now_us,
                                      struct subscription_info *s);
/* Fault PR_EINVAL: the place is after the last event. */
PR_MUST_CHECK int subscription_place_check(uint64_t place, uint64_t last, struct pr_error *reterr);

#endif
