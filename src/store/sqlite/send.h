/* send.h - storing messages through the caller's connection, inside its transaction. */
#ifndef STORE_SQLITE_SEND_H
#define STORE_SQLITE_SEND_H

#include <postrider.h>
#include <sqlite3.h>

#include "core/completion.h"
#include "core/message.h"

/* Stores one checked message (message_check(), id set).  The connection's settings and its transaction are not changed.
 * Outcome PR_DUPLICATE.  Fault PR_ESCHEMA (no such box), PR_EBUSY, PR_EFULL, PR_ESTORE. */
PR_MUST_CHECK int sqlite_send(sqlite3 *db, pr_slice box, const struct pr_message *message, struct pr_error *reterr);

/* One box on a connection, with its prepared statement.  The fields are private. */
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

/* The same for several messages, with one prepared statement; answers (may be NULL): PR_OK or PR_DUPLICATE each.  After
 * a fault some may be stored: the caller must roll back. */
PR_MUST_CHECK int sqlite_send_many(sqlite3 *db, pr_slice box, const struct pr_message *messages, size_t count,
                                   int *answers, struct pr_error *reterr);

/* Moves a subscription inside the open transaction of this connection.  Outcome PR_STALE: the caller does not hold it
 * any more; nothing has changed.  Fault PR_EINVAL (no transaction is open), PR_ESCHEMA, PR_EBUSY, PR_EFULL,
 * PR_ESTORE. */
PR_MUST_CHECK int sqlite_advance(sqlite3 *db, pr_slice name, uint64_t fence, int64_t from, int64_t to,
                                 struct pr_error *reterr);

/* Completes a message inside the open transaction of this connection, with its effects, as a cycle would.  Outcome
 * PR_STALE: the row no longer exists as it was handed out, or a guard of an effect does not hold; nothing has changed.
 * Faults as for sqlite_advance(); nothing has changed. */
PR_MUST_CHECK int sqlite_complete(sqlite3 *db, const struct completion *completion, struct pr_error *reterr);

#endif
