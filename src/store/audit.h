/* audit.h - what the audit records about a person's action, the same for every store. */
#ifndef STORE_AUDIT_H
#define STORE_AUDIT_H

#include "base/buf.h"
#include "store/store.h"

#define AUDIT_BYTES_MAX 65536
#define AUDIT_IDS_MAX 1000 /* of an order with more ids, the first ones are kept and "id_count" has their number */

/* The target: a JSON object with the members of the filter that were given, "ids", and for an edit the changed parts.
 * It contains no payload. */
void audit_write_target(struct buf *b, const struct admin *admin);

#endif
