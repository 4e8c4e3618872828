/* letter.h - a message written as one JSON object: where there are no columns to put it into.
 *
 * Two forms.  Plain, with the names of the columns:
 *
 *     {"type": "order.created", "stream": "order-7", "payload": {"amount": 5}}
 *
 * and a CloudEvent in structured mode, known by its specversion.  A payload that is a JSON value is
 * kept as it was written; a text is its bytes (in a CloudEvent: when its content type is not JSON).
 * Extension attributes of a CloudEvent become headers; or postriderheaders is the text of all of them, as the file
 * endpoint writes it. */
#ifndef CORE_LETTER_H
#define CORE_LETTER_H

#include "core/message.h"

/* The message's slices point into text and into the arena; its id is zero when none is given.  An id
 * of a CloudEvent that is no UUID is hashed together with the source, and kept in the header
 * ce-id.  Fault PR_EINVAL: the text names the key; PR_ENOMEM.  What a sender may send is
 * message_check()'s affair. */
PR_MUST_CHECK int letter_read(pr_slice text, struct arena *arena, struct pr_message *ret, struct pr_error *reterr);

#endif
