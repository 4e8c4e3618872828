/* letter.h - a message written as one JSON object, where there are no columns.
 *
 * There are two forms.  The plain one uses the names of the columns:
 *
 *     {"type": "order.created", "stream": "order-7", "payload": {"amount": 5}}
 *
 * The other one is a CloudEvent in structured mode, recognised by its specversion.  A payload that is a JSON value is
 * kept as written; a JSON string stands for its bytes (in a CloudEvent only when its content type is not JSON).
 * Extension attributes of a CloudEvent become headers; postriderheaders, which the file endpoint writes, has the text
 * of all headers. */
#ifndef CORE_LETTER_H
#define CORE_LETTER_H

#include "core/message.h"

/* The slices of the message point into text and into the arena; its id is zero when none is given.  A CloudEvent's id
 * that is not a UUID is hashed together with the source, and kept in the header ce-id.  Fault PR_EINVAL: the text names
 * the key; PR_ENOMEM.  Limits on what may be sent are checked by message_check(), not here. */
PR_MUST_CHECK int letter_read(pr_slice text, struct arena *arena, struct pr_message *ret, struct pr_error *reterr);

#endif
