/* message.h - a message as columns: reading it, writing it, moving it between tables. */
#ifndef STORE_POSTGRES_MESSAGE_H
#define STORE_POSTGRES_MESSAGE_H

#include "core/columns.h"
#include "store/postgres/link/link.h"

/* The handle of a row: its place and its lane.  So a receipt says where to find the row. */
#define HANDLE_LANE_BITS 6
#define HANDLE "(coalesce(b.row_id, b.seq) << 6 | b.lane)"

/* The columns that pg_message_decode() reads, in order, of a table called b: the sender's columns and the counters, the
 * payload unless it is over a limit, and then the fate of the message.  New rows are read without the fate, which is
 * empty for nearly all of them: every column of a row costs the server as much as ten NULLs.  For those that have a
 * fate (somebody cleared the due time of a row that had failed) attempts is not NULL, and the fate is read
 * separately. */
#define MESSAGE_SAID                                                                                                   \
    "b.lane, b.seq, b.id, b.destination, b.stream, b.type, b.headers" SENDER_TEXTS(                                    \
        COLUMN_OF_B) ", NULLIF(b.event, false) AS event, b.created_at, b.expires_at,"                                  \
                     " CASE WHEN b.attempts <> 0 OR b.status <> 1 THEN b.attempts END AS attempts"
#define MESSAGE_SIZE "coalesce(octet_length(b.payload), octet_length(b.payload_bytes))"
#define MESSAGE_PAYLOAD(limit)                                                                                         \
    ", CASE WHEN octet_length(b.payload) <= " limit " THEN b.payload END,"                                             \
    " CASE WHEN octet_length(b.payload_bytes) <= " limit " THEN b.payload_bytes END,"                                  \
    " CASE WHEN " MESSAGE_SIZE " > " limit " THEN " MESSAGE_SIZE " END"
#define MESSAGE_NO_PAYLOAD ", NULL::text, NULL::bytea, " MESSAGE_SIZE
#define MESSAGE_FATE ", b.due_at" FATE_COLUMNS(FATE_OF_B)
#define MESSAGE_COLUMNS(payload) MESSAGE_SAID payload MESSAGE_FATE
#define MESSAGE_NEW_COUNT (14 + SENDER_TEXT_COUNT) /* without its fate */
#define MESSAGE_COLUMN_DUE MESSAGE_NEW_COUNT
#define MESSAGE_COLUMN_COUNT (MESSAGE_COLUMN_DUE + 1 + FATE_COLUMN_COUNT)

/* A row that failed, was handed out or is parked, exactly as in the definition of the partial index {box}_heads; and of
 * those, one that blocks its stream (message_blocks_stream()) or is parked. */
#define MESSAGE_IS_BACK "b.due_at IS NOT NULL AND (b.due_at = 'infinity' OR (b.status & 32768) <> 0 OR b.attempts > 0)"
#define MESSAGE_IS_HEAD MESSAGE_IS_BACK " AND (b.due_at = 'infinity' OR NOT b.released)"

/* The columns that move unchanged with a row between tables; of: COLUMN_OF_G for t "g.", and so on. */
#define MESSAGE_MOVED(t, of) MESSAGE_BACK(t, of) ", " t "lane, " t "destination, " t "due_at, " t "released"
/* ... and into a box, where a trigger sets the lane and a due time is given. */
#define MESSAGE_BACK(t, of)                                                                                            \
    t "seq, " t "id, " t "stream, " t "type, " t "headers, " t "event, " t "created_at, " t "expires_at, " t           \
      "payload, " t "payload_bytes" SENDER_TEXTS(of)

/* The condition of every statement that inserts a row into a box: existing messages stay unchanged.  v: has the id and
 * the destination; dead letters count as existing, too. */
#define MESSAGE_IS_NOT_DEAD(v)                                                                                         \
    " NOT EXISTS (SELECT FROM {schema}.dead_letter d WHERE d.id = " v ".id AND d.destination = " v                     \
    ".destination AND d.box = {box_name})"
/* ... and so do marks, where the box has any (core/mark.h).  Asked row by row, through the key: EXISTS, planned while
 * there are few marks, would become a scan of all of them. */
#define MESSAGE_IS_NOT_HANDLED(v)                                                                                      \
    " NOT (coalesce((SELECT x.dedupe_us > 0 FROM {schema}.box x WHERE x.name = {box_name}), false) AND coalesce("      \
    "(SELECT true FROM {schema}.seen s WHERE s.box = {box_name} AND s.id = " v ".id AND (s.handler = " v               \
    ".destination OR (s.alone AND " v ".destination = '')) LIMIT 1), false))"
#define UNLESS_IN_BOX " ON CONFLICT (id, destination) DO NOTHING"

/* Columns from `first` on.  Slices point into the result.  *ret_bad says why it cannot be handled, or is NULL. */
void pg_message_decode(const PGresult *result, int row, int first, size_t payload_max, struct pr_message *ret,
                       unsigned *ret_lane, const char **ret_bad);
/* The same of a new row, without its fate.  checked: its payload, if it is text, is UTF-8. */
void pg_message_decode_new(const PGresult *result, int row, int first, bool checked, struct pr_message *ret,
                           unsigned *ret_lane, const char **ret_bad);
bool pg_message_has_fate(const PGresult *result, int row, int first);
/* Columns from `first` on are MESSAGE_FATE. */
void pg_message_decode_fate(const PGresult *result, int row, int first, struct pr_message *ret);
/* The size of its payload, even if that was left on the server. */
size_t pg_message_size(const PGresult *result, int row, int first);

/* ---- Payloads --------------------------------------------------------------------------- */

/* Where payloads stored by Postrider go (doc/adr/0051): into the column payload, which people can read, if the server
 * stores them there unchanged; otherwise into payload_bytes. */
bool pg_payload_is_text(pr_slice payload, bool utf8);
/* Does UTF-8 text pass through this connection into its database unchanged? */
bool pg_stores_utf8(const PGconn *pg);
/* Two parameters: payload and payload_bytes, one of them NULL. */
void arg_payload(struct args *args, pr_slice payload, const PGconn *pg);

/* ---- New messages ----------------------------------------------------------------------- */

/* Columns of a new message, each an array over the batch; the texts of SENDER_TEXTS follow in this order. */
#define BATCH_COLUMNS(t, of) BATCH_ROW(t) ", " t "payload, " t "payload_bytes" SENDER_TEXTS(of)
#define BATCH_ROW(t)                                                                                                   \
    t "id, " t "destination, " t "type, " t "stream, " t "headers, " t "event, " t "due_at, " t "expires_at"
#define BATCH_UNNEST "unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11" SENDER_TEXTS(COLUMN_NEXT)
#define BATCH_ARRAYS (10 + SENDER_TEXT_COUNT)

struct batch {
    struct array arrays[BATCH_ARRAYS];
    bool utf8; /* the server stores UTF-8 unchanged */
};
void batch_init(struct batch *batch);
void batch_fini(struct batch *batch);
void batch_begin(struct batch *batch, const PGconn *pg); /* for this connection */
void batch_add(struct batch *batch, const struct pr_message *message);
/* The arguments of PG_MESSAGE_INSERT: $1 is the time (now_us 0: the server's clock), then the arrays. */
void batch_args(struct batch *batch, int64_t now_us, struct args *ret);

/* How a batch becomes rows of a box, for senders and for effects: v is the batch.  The values of these columns come in
 * between. */
#define MESSAGE_NEW_INTO "INSERT INTO {box} (" BATCH_COLUMNS("", COLUMN_NAME) ", created_at) SELECT "
#define MESSAGE_NEW_END " WHERE" MESSAGE_IS_NOT_DEAD("v") " AND" MESSAGE_IS_NOT_HANDLED("v") MESSAGE_NEW_RETURNED
#define MESSAGE_NEW_RETURNED " ORDER BY v.ord" UNLESS_IN_BOX " RETURNING id, destination"

/* Stores new messages, in the order of the batch, and returns their (id, destination).  A message whose id exists for
 * its destination, in the box or among the dead letters, is left out. */
extern const char PG_MESSAGE_INSERT[];
/* The same for applications, which may not read marks: a handled message is recognised when its turn comes. */
extern const char PG_MESSAGE_SEND[];

/* Which of the messages did the statement store?  PR_OK or PR_DUPLICATE each. */
void batch_answers(const PGresult *result, const struct pr_message *messages, size_t count, int *answers);

#endif
