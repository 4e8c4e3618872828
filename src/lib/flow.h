/* flow.h - messages for flows, as the public functions make them. */
#ifndef LIB_FLOW_H
#define LIB_FLOW_H

#include <postrider_flow.h>

#include "base/arena.h"

#define LIB_TURNS_DEFAULT "turns"

/* The message that notifies a flow, checked; its slices are in the arena or the caller's.  Fault PR_EINVAL, PR_ETOOBIG,
 * PR_ENOMEM. */
PR_MUST_CHECK int lib_flow_tell(const struct pr_flow_tell *tell, struct arena *arena, struct pr_message *ret,
                                struct pr_error *reterr);

struct store;
struct store *lib_flow_store_of(struct pr_flow_client *client);

/* Stores one message: through the caller's connection, or in a store. */
typedef int lib_flow_store(void *where, const char *box, const struct pr_message *message, struct pr_error *reterr);
/* A start whose flow has no id gets one.  commits_alone: `store` commits it, so nobody has this id before. */
PR_MUST_CHECK int lib_flow_start_by(lib_flow_store *store, void *where, const char *box,
                                    const struct pr_flow_start *start, bool commits_alone, char *ret_id,
                                    struct pr_error *reterr);
PR_MUST_CHECK int lib_flow_tell_by(lib_flow_store *store, void *where, const char *box, const struct pr_flow_tell *tell,
                                   struct pr_error *reterr);

#endif
