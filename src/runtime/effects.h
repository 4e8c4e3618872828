/* effects.h - checks of a handler's effects before its verdict relies on them. */
#ifndef RUNTIME_EFFECTS_H
#define RUNTIME_EFFECTS_H

#include "core/delivery.h"
#include "runtime/config/config.h"
#include "store/store.h"

/* Does the store have this box?  Even a box that the configuration (may be NULL) does not name may exist. */
bool box_is_known(const struct config *config, struct store *store, pr_slice name);

/* An effect that cannot be stored is a failure of its handler: the result becomes one.  messages_only: no cycle stores
 * the effects, so only messages are possible. */
void effects_check(const struct config *config, struct store *store, bool messages_only,
                   struct delivery_result *result);

#endif
