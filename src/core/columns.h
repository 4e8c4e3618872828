/* columns.h - the columns of a message that are all treated alike, listed once.
 *
 * These lists generate what both stores select, insert and move between the tables of boxes, dead letters and done; the
 * limits of a message; the JSON of listings, of export and import and of --remote; the attributes of CloudEvents; and
 * the rights of senders.  ARCHITECTURE.md says how to add one. */
#ifndef CORE_COLUMNS_H
#define CORE_COLUMNS_H

/* Texts that a sender may give: a member of struct pr_message, a nullable column, a key of a plain JSON message.
 *
 *     column          CloudEvents         ... is its        limit
 *
 * An EXTENSION attribute is sent unchanged; each CORE attribute has rules of its own (transport/cloudevents.c). */
#define SENDER_TEXTS(X)                                                                                                \
    SENDER_TEXTS_COPIED(X)                                                                                             \
    X(causation_id, "causationid", EXTENSION, PR_NAME_MAX)

/* Those of them that a corrected copy of a dead letter inherits.  Its causation_id is the dead letter itself. */
#define SENDER_TEXTS_COPIED(X)                                                                                         \
    X(source, "source", CORE, PR_NAME_MAX)                                                                             \
    X(subject, "subject", CORE, PR_NAME_MAX)                                                                           \
    X(content_type, "datacontenttype", CORE, PR_NAME_MAX)                                                              \
    X(correlation_id, "correlationid", EXTENSION, PR_NAME_MAX)                                                         \
    X(traceparent, "traceparent", EXTENSION, PR_TRACE_MAX)                                                             \
    X(tracestate, "tracestate", EXTENSION, PR_TRACE_MAX)

/* What became of a row since it was stored, apart from its due time and its attempts: kind, column, member. */
#define FATE_COLUMNS(X)                                                                                                \
    FATE_NUMBERS(X)                                                                                                    \
    FATE_TEXTS(X)
#define FATE_NUMBERS(X)                                                                                                \
    OUTCOME_NUMBERS(X)                                                                                                 \
    X(BOOL, released, released)                                                                                        \
    X(INT, held_for, held_for)                                                                                         \
    X(INT, parked_by, parked_by)
#define FATE_TEXTS(X)                                                                                                  \
    OUTCOME_TEXTS(X)                                                                                                   \
    X(TEXT, held_by, held_by)

/* Those of them that describe its attempts: they are kept when a row ends, or comes back from the dead letters. */
#define OUTCOME_COLUMNS(X)                                                                                             \
    OUTCOME_NUMBERS(X)                                                                                                 \
    OUTCOME_TEXTS(X)
#define OUTCOME_NUMBERS(X)                                                                                             \
    X(INT, status, status)                                                                                             \
    X(INT, failures, failures)                                                                                         \
    X(INT, failure_reason, reason)                                                                                     \
    X(TIME, failed_at, failed_us)
#define OUTCOME_TEXTS(X)                                                                                               \
    X(TEXT, code, code)                                                                                                \
    X(TEXT, error, error)                                                                                              \
    X(JSON, story, story)

/* ---- For both lists ---- */

#define COLUMN_ONE(...) +1
#define SENDER_TEXT_COUNT (0 SENDER_TEXTS(COLUMN_ONE))
#define FATE_COLUMN_COUNT (0 FATE_COLUMNS(COLUMN_ONE))

/* Lists for a statement, each element preceded by a comma: `, source, subject`; `, b.source, b.subject`; or a parameter
 * for each. */
#define COLUMN_NAME(column, ...) ", " #column
#define COLUMN_OF_B(column, ...) ", b." #column
#define COLUMN_OF_D(column, ...) ", d." #column
#define COLUMN_OF_G(column, ...) ", g." #column
#define COLUMN_OF_P(column, ...) ", p." #column
#define COLUMN_OF_V(column, ...) ", v." #column
#define COLUMN_NEXT(...) ", {?}"
#define FATE_NAME(kind, column, ...) ", " #column
#define FATE_NEW(kind, column, ...) ", " NEW_##column /* the includer's expression for the new value */
#define FATE_SET(kind, column, ...) ", " #column " = " NEW_##column
#define FATE_OF_B(kind, column, ...) ", b." #column
#define FATE_NEXT(...) ", {?}"
#define FATE_NEXT_CAST(kind, ...) ", {?}" FATE_CAST_##kind /* for a database where a text must be cast to JSON */
#define FATE_CAST_INT
#define FATE_CAST_TEXT
#define FATE_CAST_JSON "::json"
#define FATE_CAST_TIME
#define FATE_CAST_BOOL

#endif
