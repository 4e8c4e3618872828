/* own_headers.h - the headers that a message brings itself, as texts. */
#ifndef TRANSPORT_OWN_HEADERS_H
#define TRANSPORT_OWN_HEADERS_H

#include "base/arena.h"
#include "core/message.h"

struct own_header {
    pr_slice name, value; /* both end with a NUL */
};

/* Strings, numbers, true and false, in the order of the JSON object; what is nested is left out.
 * PR_OK, PR_ENOMEM, or PR_EINVAL: they are not a JSON object. */
PR_MUST_CHECK int own_headers_read(const struct pr_message *message, struct arena *arena, struct own_header **ret,
                                   size_t *ret_count, struct pr_error *reterr);

#endif
