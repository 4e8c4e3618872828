/* bury.h - rows of a PostgreSQL source that are not messages (undecodable.h) become dead letters in the source's own
 * transaction.  One statement for all sources; the part for the payload is the source's own. */
#ifndef SOURCE_BURY_H
#define SOURCE_BURY_H

#include "source/undecodable.h"
#include "store/postgres/message.h"
#include "store/postgres/postgres.h"

/* Parameters for each letter: the arrays of a batch of messages, then these. */
enum { BURY_CREATED, BURY_ERROR, BURY_NOTE, BURY_STORY, BURY_PRINT, BURY_ARRAYS };

struct bury {
    struct batch batch;
    struct array arrays[BURY_ARRAYS];
    size_t count;
};
void bury_init(struct bury *bury);
void bury_fini(struct bury *bury);
void bury_begin(struct bury *bury, const PGconn *pg);
/* m: what could be read.  error: for people; why: the part of it that groups are made by; note: may be empty.  Fault
 * PR_ENOMEM. */
PR_MUST_CHECK int bury_add(struct bury *bury, const struct pr_message *m, pr_slice error, pr_slice why, pr_slice note,
                           int64_t now_us);
/* The arguments: $1 is the time (0: the server's), then the arrays; a source may append its own. */
void bury_args(struct bury *bury, int64_t now_us, struct args *ret);

/* The text: BURY_WITH, then payload and payload_bytes of a row v, then BURY_REST, then joins, then BURY_END.  arrays:
 * of the source's own, `", {?}"` each; names: theirs.  It returns how many letters are new. */
/* clang-format off */
#define BURY_WITH(arrays, names)                                                                                       \
    "WITH v AS MATERIALIZED (SELECT * FROM " BATCH_UNNEST ", {?}, {?}, {?}, {?}, {?}" arrays ") WITH ORDINALITY AS v("  \
    BATCH_COLUMNS("", COLUMN_NAME) ", created_at, error, note, story, fingerprint" names ", ord)),"                     \
    " dead AS (INSERT INTO {schema}.dead_letter (box, xid, seq, lane, " BATCH_COLUMNS("", COLUMN_NAME) ", created_at,"   \
    " status, attempts, failures, failure_reason, error, failed_at, story, released, endpoint, cause, limit_reached,"   \
    " rule, fingerprint, note, died_at) SELECT {box_name}, pg_current_xact_id(), nextval('{box_seq}'),"                  \
    " (CASE WHEN v.stream <> '' THEN hashtext(v.stream) ELSE uuid_hash(v.id) END & 63)::smallint, " BATCH_ROW("v.") ", "
#define BURY_REASON "5"
#define BURY_REST                                                                                                      \
    SENDER_TEXTS(COLUMN_OF_V) ", coalesce(v.created_at, " NOW("$1") "), 32769, 0, 1, " BURY_REASON ", v.error, "         \
    NOW("$1") ", v.story, false, v.destination, " BURY_REASON ", 0, '" UNDECODABLE_RULE "', v.fingerprint, v.note, " NOW("$1")    \
    " FROM v"
#define BURY_END                                                                                                       \
    " WHERE" MESSAGE_IS_NOT_DEAD("v") " AND NOT EXISTS (SELECT FROM {box} b WHERE b.id = v.id AND b.destination ="       \
    " v.destination) AND NOT EXISTS (SELECT FROM v w WHERE w.id = v.id AND w.destination = v.destination AND"            \
    " w.ord < v.ord) ORDER BY v.ord RETURNING id),"                                                                     \
    " told AS (INSERT INTO {schema}.tally (endpoint, sent, failed, dead, discarded, expired)"                           \
    " SELECT '', 0, count(*), count(*), 0, 0 FROM dead HAVING count(*) > 0) SELECT count(*) FROM dead"
/* clang-format on */

#endif
