/* headers.h - adds Postrider's headers to those of a sender. */
#ifndef CORE_HEADERS_H
#define CORE_HEADERS_H

#include <postrider.h>

#include "base/buf.h"

struct header {
    const char *name;
    pr_slice value;
};

/* Append to ret: our headers (at least one), then those of the sender, a JSON object, whose names differ from ours.  So
 * nobody can forge our headers, not even with escapes or capitals. buf_failed() says whether there was room. */
void headers_set(pr_slice headers, const struct header *ours, size_t count, struct buf *ret);

#endif
