/* send.h - storing messages through somebody else's connection, inside its transaction. */
#ifndef STORE_SQLITE_SEND_H
#define STORE_SQLITE_SEND_H

#include <postrider.h>
#include <sqlite3.h>

#include "core/completion.h"
#include "core/message.h"

/* Store one checked message (message_check(), id set).  The connection's settings and its
 * transaction are left as they are.
 * Outcome PR_DUPLICATE.  Fault PR_ESCHEMA (no such box), PR_EBUSY, PR_EFULL, PR_ESTORE. */
PR_MUST_CHECK int sqlite_send(sqlite3 *db, pr_slice box, const struct pr_message *message, struct pr_error *reterr);

/* One box on a connection, with its statement prepared; nothing else is kept.  The fields are its own. */
struct sqlite_sender {
    sqlite3 *db;
    char box[BOX_NAME_MAX + 1];
    sqlite3_stmt *insert;
};

/* Fault as sqlite_send(); then there is nothing to end. */
PR_MUST_CHECK int sqlite_sender_init(struct sqlite_sender *s, sqlite3 *db, pr_slice box, struct pr_error *reterr);
void sqlite_sender_fini(struct sqlite_sender *s);
/* As sqlite_send(). */
PR_MUST_CHECK int sqlite_sender_send(struct sqlite_sender *s, const struct pr_message *message,
                                     struct pr_error *reterr);

/* The same for many, with one prepared statement; answers (may be NULL): PR_OK or PR_DUPLICATE
 * each.  After a fault some may be stored: the caller rolls back. */
PR_MUST_CHECK int sqlite_send_many(sqlite3 *db, pr_slice box, const struct pr_message *messages, size_t count,
                                   int *answers, struct pr_error *reterr);

/* Move a subscription inside the transaction that is open on this connection.  Outcome PR_STALE: it is not the caller's any more;
 * nothing has changed.  Fault PR_EINVAL (no transaction is open), PR_ESCHEMA, PR_EBUSY, PR_EFULL, PR_ESTORE. */
PR_MUST_CHECK int sqlite_advance(sqlite3 *db, pr_slice name, uint64_t fence, int64_t from, int64_t to,
                                 struct pr_error *reterr);

/* Complete a message inside the transaction that is open on this connection, with its effects, as a cycle would.
 * Outcome PR_STALE: the row is not there any more as it was handed out, or a guard of an effect does not hold; nothing has
 * changed.  Fault PR_EINVAL (no transaction is open), PR_ESCHEMA, PR_EBUSY, PR_EFULL, PR_ESTORE: the same. */
PR_MUST_CHECK int sqlite_complete(sqlite3 *db, const struct completion *completion, struct pr_error *reterr);

#endif
