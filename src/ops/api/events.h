/* events.h - what happens, as server-sent events for one client.
 *
 * A client that falls behind by more than the feed holds gets a comment line that says so and is disconnected: it has
 * missed something, and should read the state again. */
#ifndef OPS_API_EVENTS_H
#define OPS_API_EVENTS_H

#include <stdatomic.h>
#include <sys/types.h>

#include "ops/api/query.h"
#include "runtime/feed.h"

#define EVENTS_END (-1)

struct events;

/* params: kind (names, separated by commas), box, endpoint.  *stop is checked while it waits.  Fault PR_EINVAL,
 * PR_ENOMEM. */
PR_MUST_CHECK int events_new(struct feed *feed, const struct params *params, const atomic_bool *stop,
                             struct events **ret, struct pr_error *reterr);
void events_free(struct events *e);

/* The next bytes, at least one; waits for them.  EVENTS_END: the end. */
ssize_t events_read(struct events *e, char *ret, size_t max);

/* A happening as text, for clients whose filter matches; errors stick in the buf. */
struct buf;
void events_write(struct buf *b, const struct happening *h);

#endif
