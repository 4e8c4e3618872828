/* message.h - a message as columns: reading it, writing it, moving it between tables. */
#ifndef STORE_POSTGRES_MESSAGE_H
#define STORE_POSTGRES_MESSAGE_H

#include "core/columns.h"
#include "store/postgres/link/link.h"

/* A row's name: its place and its lane.  So a receipt tells where to find the row. */
#define HANDLE_LANE_BITS 6
#define HANDLE "(coalesce(b.row_id, b.seq) << 6 | b.lane)"

/* What pg_message_decode() reads, in its order, of a table called b: what the sender said and how often it was
 * tried, the payload unless it is over a limit, and what became of it since: its fate.  New rows are read without
 * the last part, which says nothing of nearly all of them: every column of a row costs the server as much as
 * ten NULLs.  Of those that have a fate (somebody cleared the due time of one that had failed) attempts is not
 * NULL, and it is read by itself. */
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

/* A row that failed, was handed out or is parked: as the partial index {box}_heads says it, word for word; and of
 * those one that its stream waits behind (message_blocks_stream()), or that is parked. */
#define MESSAGE_IS_BACK "b.due_at IS NOT NULL AND (b.due_at = 'infinity' OR (b.status & 32768) <> 0 OR b.attempts > 0)"
#define MESSAGE_IS_HEAD MESSAGE_IS_BACK " AND (b.due_at = 'infinity' OR NOT b.released)"

/* The columns that move unchanged with a row from table to table; of: COLUMN_OF_G for t "g.", and so on. */
#define MESSAGE_MOVED(t, of) MESSAGE_BACK(t, of) ", " t "lane, " t "destination, " t "due_at, " t "released"
/* ... and into a box, where a trigger sets the lane and a due time is given. */
#define MESSAGE_BACK(t, of)                                                                                            \
    t "seq, " t "id, " t "stream, " t "type, " t "headers, " t "event, " t "created_at, " t "expires_at, " t           \
      "payload, " t "payload_bytes" SENDER_TEXTS(of)

/* Every statement that makes a row of a box ends like this: what is there already stays as it is.  v: where the id and the
 * destination are; they are looked for among the dead letters, too. */
#define MESSAGE_IS_NOT_DEAD(v)                                                                                         \
    " NOT EXISTS (SELECT FROM {schema}.dead_letter d WHERE d.id = " v ".id AND d.destination = " v                     \
    ".destination AND d.box = {box_name})"
/* ... and among the marks, where its box has any (core/mark.h).  Asked row by row, through the key: EXISTS, planned while there
 * are few marks, would be a scan of all of them from then on. */
#define MESSAGE_IS_NOT_HANDLED(v)                                                                                      \
    " NOT (coalesce((SELECT x.dedupe_us > 0 FROM {schema}.box x WHERE x.name = {box_name}), false) AND coalesce("      \
    "(SELECT true FROM {schema}.seen s WHERE s.box = {box_name} AND s.id = " v ".id AND (s.handler = " v               \
    ".destination OR (s.alone AND " v ".destination = '')) LIMIT 1), false))"
#define UNLESS_IN_BOX " ON CONFLICT (id, destination) DO NOTHING"

/* Columns from `first` on.  Slices point into the result.  *ret_bad says why it cannot be
 * handled, or is NULL. */
void pg_message_decode(const PGresult *result, int row, int first, size_t payload_max, struct pr_message *ret,
                       unsigned *ret_lane, const char **ret_bad);
/* The same of a new row, without its fate. */
void pg_message_decode_new(const PGresult *result, int row, int first, size_t payload_max, struct pr_message *ret,
                           unsigned *ret_lane, const char **ret_bad);
bool pg_message_has_fate(const PGresult *result, int row, int first);
/* Columns from `first` on are MESSAGE_FATE. */
void pg_message_decode_fate(const PGresult *result, int row, int first, struct pr_message *ret);
/* Its payload's, also when that was left on the server. */
size_t pg_message_size(const PGresult *result, int row, int first);

/* ---- Payloads --------------------------------------------------------------------------- */

/* Where bytes that come from us are stored (doc/adr/0051): in the column payload, where people read it, if the server
 * stores them there as they are; else in payload_bytes. */
bool pg_payload_is_text(pr_slice payload, bool utf8);
/* Does text in UTF-8 go through this connection and into its database unchanged? */
bool pg_stores_utf8(const PGconn *pg);
/* Two parameters: payload and payload_bytes, one of them NULL. */
void arg_payload(struct args *args, pr_slice payload, const PGconn *pg);

/* ---- New messages ----------------------------------------------------------------------- */

/* Columns of a new message, each an array of its batch; in this order the texts of SENDER_TEXTS come behind them. */
#define BATCH_COLUMNS(t, of) BATCH_ROW(t) ", " t "payload, " t "payload_bytes" SENDER_TEXTS(of)
#define BATCH_ROW(t)                                                                                                   \
    t "id, " t "destination, " t "type, " t "stream, " t "headers, " t "event, " t "due_at, " t "expires_at"
#define BATCH_UNNEST "unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11" SENDER_TEXTS(COLUMN_NEXT)
#define BATCH_ARRAYS (10 + SENDER_TEXT_COUNT)

struct batch {
    struct array arrays[BATCH_ARRAYS];
    bool utf8; /* the server stores UTF-8 as it is */
};
void batch_init(struct batch *batch);
void batch_fini(struct batch *batch);
void batch_begin(struct batch *batch, const PGconn *pg); /* that it will go through */
void batch_add(struct batch *batch, const struct pr_message *message);
/* As arguments of PG_MESSAGE_INSERT: $1 is the time (now_us 0: the server's clock), then the arrays. */
void batch_args(struct batch *batch, int64_t now_us, struct args *ret);

/* How a batch becomes rows of a box, for senders and for effects: v is the batch.  Between them come the values of these columns. */
#define MESSAGE_NEW_INTO "INSERT INTO {box} (" BATCH_COLUMNS("", COLUMN_NAME) ", created_at) SELECT "
#define MESSAGE_NEW_END " WHERE" MESSAGE_IS_NOT_DEAD("v") " AND" MESSAGE_IS_NOT_HANDLED("v") MESSAGE_NEW_RETURNED
#define MESSAGE_NEW_RETURNED " ORDER BY v.ord" UNLESS_IN_BOX " RETURNING id, destination"

/* Stores what is new, in the order of the batch, and returns (id, destination) of it.  An id that
 * is there for its destination, in the box or among the dead letters, is left out. */
extern const char PG_MESSAGE_INSERT[];
/* The same for applications, which may not read marks: what was handled is found out when its turn comes. */
extern const char PG_MESSAGE_SEND[];

/* Which of the messages did the statement store?  PR_OK or PR_DUPLICATE each. */
void batch_answers(const PGresult *result, const struct pr_message *messages, size_t count, int *answers);

#endif
