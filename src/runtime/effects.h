/* effects.h - what a handler wants stored with its verdict, looked at before anybody counts on it. */
#ifndef RUNTIME_EFFECTS_H
#define RUNTIME_EFFECTS_H

#include "core/delivery.h"
#include "runtime/config/config.h"
#include "store/store.h"

/* Has the store this box?  A box that the configuration (may be NULL) does not name may be in the store all the same. */
bool box_is_known(const struct config *config, struct store *store, pr_slice name);

/* An effect that cannot be stored is its handler's failure: the result is one afterwards.  messages_only: no cycle
 * stores them, so nothing but messages can be. */
void effects_check(const struct config *config, struct store *store, bool messages_only,
                   struct delivery_result *result);

#endif
