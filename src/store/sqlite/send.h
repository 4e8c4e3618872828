/* send.h - storing messages through somebody else's connection, inside its transaction. */
#ifndef STORE_SQLITE_SEND_H
#define STORE_SQLITE_SEND_H

#include <postrider.h>
#include <sqlite3.h>

/* Store one checked message (message_check(), id set).  The connection's settings and its
 * transaction are left as they are.
 * Outcome PR_DUPLICATE.  Fault PR_ESCHEMA (no such box), PR_EBUSY, PR_EFULL, PR_ESTORE. */
PR_MUST_CHECK int sqlite_send(sqlite3 *db, pr_slice box, const struct pr_message *message, struct pr_error *reterr);

/* The same for many, with one prepared statement; answers (may be NULL): PR_OK or PR_DUPLICATE
 * each.  After a fault some may be stored: the caller rolls back. */
PR_MUST_CHECK int sqlite_send_many(sqlite3 *db, pr_slice box, const struct pr_message *messages, size_t count,
                                   int *answers, struct pr_error *reterr);

#endif
