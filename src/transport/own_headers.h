/* own_headers.h - a message's own headers, as texts. */
#ifndef TRANSPORT_OWN_HEADERS_H
#define TRANSPORT_OWN_HEADERS_H

#include "base/arena.h"
#include "core/message.h"
#include "transport/cloudevents.h"

struct own_header {
    pr_slice name, value; /* both end with a NUL */
};

/* Strings, numbers, true and false, in the order of the JSON object; null means that the header is absent.  PR_OK,
 * PR_ENOMEM, or PR_EINVAL: they are not a JSON object, or a value is nested. */
PR_MUST_CHECK int own_headers_read(const struct pr_message *message, struct arena *arena, struct own_header **ret,
                                   size_t *ret_count, struct pr_error *reterr);

/* Which headers of a message a carrier can transport, and which it writes itself. */
struct own_header_rules {
    const char *carrier;            /* "over HTTP", for people */
    const char *prefix;             /* prefix of the attributes that it writes, in any case; NULL: it writes none */
    const struct cloudevent *event; /* ... and these attributes */
    pr_slice content_type;          /* written as a header of that name; empty: none */
    bool (*can_carry)(pr_slice name);
};

/* PR_OK, and whether the header is sent: not if the carrier writes the same one, nor the id that a message had before
 * it was received (PREFIXid).  Fault PR_EINVAL: it would be lost; the text says which, and why. */
PR_MUST_CHECK int own_header_judge(const struct own_header *header, const struct own_header_rules *rules,
                                   bool *ret_is_sent, struct pr_error *reterr);

#endif
