/* headers.h - headers of ours among those of a sender. */
#ifndef CORE_HEADERS_H
#define CORE_HEADERS_H

#include <postrider.h>

#include "base/buf.h"

struct header {
    const char *name;
    pr_slice value;
};

/* These (one at least), then those of the sender, a JSON object, that have other names: nobody can forge ours, not with
 * escapes or capitals either.  It is added to ret, whose buf_failed() says whether there was room. */
void headers_set(pr_slice headers, const struct header *ours, size_t count, struct buf *ret);

#endif
