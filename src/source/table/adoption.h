/* adoption.h - an outbox table of another product, used as it is.
 *
 * An adoption says where the parts of a message are in a foreign table, which of its rows are waiting, and what is done
 * to a row when it has become a message.  A preset is the adoption of one product's table.  The foreign table is never
 * altered: rows are read, and deleted or marked.
 *
 * The location of a part of a message is written as alternatives, of which the first that exists and is not empty
 * counts:
 *
 *     type                          a column
 *     header:event-type|=unknown    a member of the JSON headers, or else this text */
#ifndef SOURCE_TABLE_ADOPTION_H
#define SOURCE_TABLE_ADOPTION_H

#include "base/arena.h"

/* Parts of a message: name in C and in the configuration, kind, and description. */
#define ADOPT_FIELDS(X)                                                                                                \
    X(ID, "id", COLUMN,                                                                                                \
      "Column with the key. A UUID becomes the message's id, other keys are hashed with the table's name.")            \
    X(PAYLOAD, "payload", COLUMN, "Column with the payload: bytes, text or JSON, sent unchanged.")                     \
    X(TYPE, "type", TEXT, "Type of the message. Default: the table's name.")                                           \
    X(STREAM, "stream", TEXT, "Stream of the message: what stays in order.")                                           \
    X(DESTINATION, "destination", TEXT,                                                                                \
      "Endpoint of the message. If the configuration has no such endpoint, the routes decide.")                        \
    X(HEADERS, "headers", COLUMN, "Column with the headers, a JSON object.")                                           \
    X(SOURCE, "source", TEXT, "CloudEvents source.")                                                                   \
    X(SUBJECT, "subject", TEXT, "CloudEvents subject.")                                                                \
    X(CONTENT_TYPE, "content_type", TEXT, "Content type of the payload.")                                              \
    X(CORRELATION_ID, "correlation_id", TEXT, "Correlation id, kept with the message.")                                \
    X(CREATED, "created", TIME, "Time of creation: a timestamp, or milliseconds since 1970.")                          \
    X(DUE, "due", TIME, "Do not send before this time.")                                                               \
    X(EXPIRES, "expires", TIME, "Do not send after this time.")                                                        \
    X(ORDER, "order", COLUMN,                                                                                          \
      "Column that defines the order. Default: the order of transactions, as far as it is known.")

enum adopt_field {
#define X(name, key, kind, doc) ADOPT_##name,
    ADOPT_FIELDS(X)
#undef X
        ADOPT_FIELD_COUNT
};

enum adopt_field_kind {
    ADOPT_KIND_COLUMN, /* one column */
    ADOPT_KIND_TIME,   /* one column with a time in it */
    ADOPT_KIND_TEXT,   /* alternatives */
};

struct adopt_field_info {
    const char *name;
    enum adopt_field_kind kind;
};
extern const struct adopt_field_info adopt_fields[ADOPT_FIELD_COUNT];

#define ADOPT_VALUES_MAX 8 /* columns that are set, and values of waiting rows */
#define ADOPT_NOW "now()"  /* as a value: the time; "now()+24h" is later */

struct adopt_value {
    const char *column;
    const char *value; /* NULL: no value (SQL's NULL) */
};

struct adoption {
    const char *table; /* "name" or "schema.name" */
    const char *preset;
    const char *box;
    const char *fields[ADOPT_FIELD_COUNT]; /* "": none */
    const char *time_zone;                 /* for times without a zone */
    bool list_type;                        /* type is a list separated by ';': the first entry counts */

    /* Waiting rows: each of these columns has one of its values.  None: where `set` is used, all rows that do not look
     * done by its first entry; where rows are deleted, all rows. */
    const struct adopt_value *pending;
    size_t pending_count;
    /* Columns set when a row was taken.  None: it is deleted. */
    const struct adopt_value *set;
    size_t set_count;

    size_t batch;                 /* maximum number of rows in one transaction */
    const char *const *endpoints; /* known destinations */
    size_t endpoint_count;
};

/* "debezium", ..., ending with NULL. */
extern const char *const adopt_presets[];
/* Fills in what a preset defines: fields, pending, set, list_type.  false: unknown preset. */
bool adopt_preset(const char *name, struct adoption *adoption);

/* ---- Where a part is found ---- */

#define ADOPT_PARTS_MAX 4

enum adopt_part_kind { ADOPT_PART_COLUMN, ADOPT_PART_HEADER, ADOPT_PART_TEXT };

struct adopt_parts {
    size_t count;
    struct adopt_part {
        enum adopt_part_kind kind;
        pr_slice text; /* points into what was parsed */
    } list[ADOPT_PARTS_MAX];
};

/* Fault PR_EINVAL with what is wrong. */
PR_MUST_CHECK int adopt_parts_parse(enum adopt_field field, const char *text, struct adopt_parts *ret,
                                    struct pr_error *reterr);
/* "now()" and "now()+24h"; false: it is a plain value. */
bool adopt_value_is_time(const char *value, int64_t *ret_later_us);
/* Is it a valid name of a column or a table for a statement? */
bool adopt_table_split(const char *table, pr_slice *ret_schema, pr_slice *ret_name);

/* ---- What was found in the database ---- */

enum adopt_level { ADOPT_FINE, ADOPT_WARN, ADOPT_ERROR };

struct adopt_finding {
    const char *about; /* table, column, right, index, backlog */
    const char *name;  /* which */
    enum adopt_level level;
    const char *text; /* the finding, and advice */
};

#define ADOPT_FINDINGS_MAX 48

struct adopt_report {
    struct adopt_finding findings[ADOPT_FINDINGS_MAX];
    size_t count;
    int64_t backlog;  /* waiting rows, at most COUNT_EXACT_MAX + 1; -1: unknown */
    const char *lock; /* another session blocks the moving of its rows: which one, and advice; NULL: none */
};
/* Changes nothing.  PR_OK even when the report says that the table cannot be used; PR_EUNSUPPORTED: not in this
 * store. */
struct store;
PR_MUST_CHECK int adopt_check(struct store *store, const struct adoption *adoption, struct arena *arena,
                              struct adopt_report *ret, struct pr_error *reterr);
/* The first error; NULL: none. */
const struct adopt_finding *adopt_report_error(const struct adopt_report *report);

#endif
