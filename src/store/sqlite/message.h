/* message.h - a message as columns: reading it, writing it, moving it between tables. */
#ifndef STORE_SQLITE_MESSAGE_H
#define STORE_SQLITE_MESSAGE_H

#include "base/arena.h"
#include "core/columns.h"
#include "store/sqlite/conn.h"

/* The columns that message_decode() reads, in this order; the payload is last and can be omitted. */
#define MESSAGE_COLUMNS                                                                                                \
    "row_id, seq, id, stream, event, created_at, due_at, expires_at, attempts, destination, type, "                    \
    "headers" SENDER_TEXTS(COLUMN_NAME) FATE_COLUMNS(FATE_NAME)
#define MESSAGE_COLUMN_ID 2
#define MESSAGE_COLUMN_STREAM 3
#define MESSAGE_COLUMN_COUNT (13 + SENDER_TEXT_COUNT + FATE_COLUMN_COUNT) /* followed by the payload */

/* The columns that move unchanged with a row between tables. */
#define MESSAGE_MOVED "id, stream, type, headers, event, created_at, expires_at, payload" SENDER_TEXTS(COLUMN_NAME)

/* A row that failed, was handed out or is parked, exactly as in the definition of the partial index {box}_heads; and of
 * those, one that blocks its stream (message_blocks_stream()) or is parked. */
#define MESSAGE_IS_BACK "due_at IS NOT NULL AND (due_at = 9223372036854775807 OR (status & 32768) <> 0 OR attempts > 0)"
#define MESSAGE_IS_HEAD MESSAGE_IS_BACK " AND (due_at = 9223372036854775807 OR released = 0)"

/* Decodes the current row, which begins with MESSAGE_COLUMNS and payload (or NULL).  Slices are copied into the arena.
 * *ret_bad says why it cannot be handled, or is NULL.  *ret_over: the size of a payload above the limit, which is not
 * copied, or 0; if ret_over is NULL, such a row is bad.  Fault PR_ENOMEM. */
PR_MUST_CHECK int message_decode(sqlite3_stmt *statement, struct arena *arena, size_t payload_max,
                                 struct pr_message *ret, uint64_t *ret_row, size_t *ret_over, const char **ret_bad,
                                 struct pr_error *reterr);
/* The payload, unless it is a larger blob: then its negative size, and SQLite does not read it. */
#define PAYLOAD_UP_TO(max)                                                                                             \
    "CASE WHEN typeof(payload) = 'blob' AND length(payload) > " max " THEN -length(payload) ELSE payload END"

/* The three forms in which other programs store an id. */
struct id_forms {
    pr_id id;
    char lower[PR_ID_TEXT_SIZE], upper[PR_ID_TEXT_SIZE];
};
void id_forms_init(struct id_forms *forms, pr_id id);
#define V_ID_LOWER(forms) V_TEXT(PR_BYTES((forms).lower, PR_ID_TEXT_SIZE - 1))
#define V_ID_UPPER(forms) V_TEXT(PR_BYTES((forms).upper, PR_ID_TEXT_SIZE - 1))

/* INSERT of a new message; a no-op when its id exists for its destination, in the box or among the dead letters.
 * message_values() fills in the values. */
extern const char MESSAGE_INSERT[];
/* The same, but errors instead of a no-op. */
extern const char MESSAGE_INSERT_STRICTLY[];
/* The same without looking for ids that are stored as text, and for marks.  MESSAGE_CAN_BE_BRIEF selects whether there are
 * none: the answer holds until the transaction ends, unless an INSERT changed more than its row (a trigger of the
 * application can store anything). */
extern const char MESSAGE_INSERT_BRIEF[];
extern const char MESSAGE_CAN_BE_BRIEF[];
#define MESSAGE_BRIEF_FROM 4 /* messages, from which asking is worth it */
#define MESSAGE_VALUE_COUNT (12 + SENDER_TEXT_COUNT)
void message_values(const struct pr_message *message, const struct id_forms *forms, int64_t now_us,
                    struct value ret[MESSAGE_VALUE_COUNT]);

/* For an event that expects a version: is its id (?2, in lower case) in its stream (?1), and the stream's version. */
#define EVENT_EXPECTED                                                                                                 \
    "SELECT EXISTS (SELECT 1 FROM postrider_event WHERE stream = ?1 AND id = ?2),"                                     \
    " coalesce((SELECT version FROM postrider_event_stream WHERE stream = ?1), 0)"

/* mark.c: in a box with dedupe the message arrived again and was not stored. */
PR_MUST_CHECK int note_again(struct conn *conn, pr_slice box, const struct pr_message *message, int64_t now_us,
                             struct pr_error *reterr);
PR_MUST_CHECK int message_can_be_brief(struct conn *conn, pr_slice box, bool *ret, struct pr_error *reterr);
/* Outcome PR_DUPLICATE. */
PR_MUST_CHECK int message_insert(struct conn *conn, pr_slice box, const struct pr_message *message, int64_t now_us,
                                 struct pr_error *reterr);
/* The same, one of many.  *brief: as message_can_be_brief() said in this transaction; false when that no longer holds. */
PR_MUST_CHECK int message_insert_next(struct conn *conn, pr_slice box, const struct pr_message *message, int64_t now_us,
                                      bool *brief, struct pr_error *reterr);

#endif
