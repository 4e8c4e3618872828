/* send.h - storing messages through the caller's connection, inside its transaction. */
#ifndef STORE_POSTGRES_SEND_H
#define STORE_POSTGRES_SEND_H

#include <postrider.h>

#include "core/completion.h"
#include "core/message.h"

struct pg_conn; /* libpq's PGconn */

/* Stores checked messages (message_check(), ids set) in one statement; box: "outbox" or "schema.outbox".  answers (may
 * be NULL): PR_OK or PR_DUPLICATE each.  Fault PR_EINVAL, PR_ECONFLICT (the transaction can go on), PR_ESCHEMA,
 * PR_EBUSY, PR_EFULL, PR_ESTORE. */
PR_MUST_CHECK int pg_send_many(struct pg_conn *pg, pr_slice box, const struct pr_message *messages, size_t count,
                               int *answers, struct pr_error *reterr);

/* One box on a connection, with its prepared statement.  The fields are private. */
#define PG_SENDER_NAME_SIZE 40
struct pg_sender {
    struct pg_conn *pg;
    char box[2 * BOX_NAME_MAX + 2]; /* "outbox" or "schema.outbox" */
    char statement[PG_SENDER_NAME_SIZE];
    int prepared_by; /* server process that has the statement; 0: none */
};

/* box is copied; its name is checked when something is sent. */
void pg_sender_init(struct pg_sender *s, struct pg_conn *pg, pr_slice box);
void pg_sender_fini(struct pg_sender *s);
/* As pg_send_many() of one: PR_OK, PR_DUPLICATE or a fault. */
PR_MUST_CHECK int pg_sender_send(struct pg_sender *s, const struct pr_message *message, struct pr_error *reterr);

/* May this event be appended in the open transaction, given the version that it expects (if any), and its id?  The
 * stream stays locked until the transaction ends.  Outcome PR_DUPLICATE; fault PR_ECONFLICT: the transaction goes
 * on. */
PR_MUST_CHECK int pg_expect_version(struct pg_conn *pg, pr_slice schema, const struct pr_message *message,
                                    struct pr_error *reterr);

/* Completes a message inside the open transaction of this connection, and stores its effects: messages with the rights
 * of that connection.  Outcome PR_STALE: the row no longer exists as it was handed out.  Fault PR_EINVAL (no
 * transaction is open), PR_ECONFLICT (a stream has another version than an event expects), PR_EBUSY (also a lost
 * connection, a deadlock, a conflict of serializable transactions: not the message's fault), PR_ESCHEMA, PR_ESTORE. */
PR_MUST_CHECK int pg_complete(struct pg_conn *pg, pr_slice schema, const struct completion *completion,
                              struct pr_error *reterr);

/* Moves a subscription inside the open transaction of this connection.  Outcome PR_STALE: the caller does not hold it
 * any more.  Faults as pg_complete(). */
PR_MUST_CHECK int pg_advance(struct pg_conn *pg, pr_slice schema, pr_slice name, uint64_t fence, int64_t from,
                             int64_t to, struct pr_error *reterr);

/* The table of a box, from the server or from the connection's cache. */
PR_MUST_CHECK int pg_send_table(struct pg_conn *pg, pr_slice schema, pr_slice box, char ret_table[BOX_NAME_MAX + 1],
                                struct pr_error *reterr);

#endif
