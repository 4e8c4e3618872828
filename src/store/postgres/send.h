/* send.h - storing messages through somebody else's connection, inside its transaction. */
#ifndef STORE_POSTGRES_SEND_H
#define STORE_POSTGRES_SEND_H

#include <postrider.h>

#include "core/message.h"

struct pg_conn; /* libpq's PGconn */

/* Store checked messages (message_check(), ids set) in one statement; box: "outbox" or
 * "schema.outbox".  answers (may be NULL): PR_OK or PR_DUPLICATE each.
 * Fault PR_EINVAL, PR_ESCHEMA, PR_EBUSY, PR_EFULL, PR_ESTORE. */
PR_MUST_CHECK int pg_send_many(struct pg_conn *pg, pr_slice box, const struct pr_message *messages, size_t count,
                               int *answers, struct pr_error *reterr);

/* The table of a box, from the server or as it said before. */
PR_MUST_CHECK int pg_send_table(struct pg_conn *pg, pr_slice schema, pr_slice box, char ret_table[BOX_NAME_MAX + 1],
                                struct pr_error *reterr);

#endif
