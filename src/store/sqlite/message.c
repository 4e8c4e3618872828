#include "store/sqlite/message.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

#include "base/error.h"
#include "core/id.h"

/* A duplicate (in the box, among the dead letters, or by a mark, where the box has any) gives a NULL id, which OR
 * IGNORE skips.  OR IGNORE also skips rows that a UNIQUE or CHECK of the table refuses: message_check() has checked
 * before, and send.c checks again.  It is a single statement, so that it is also correct for callers without a
 * transaction; VALUES and not SELECT, because an INSERT that SELECTs from its own table goes through a temporary one.
 * Any text is less than any blob: ids as text are looked for only if there are some.  split_seq is included because
 * only boxes have it: OR IGNORE must fail for a table that is not a box. */
#define IS_DEAD "EXISTS (SELECT 1 FROM postrider_dead_letter WHERE id = ?1 AND destination = ?2 AND box = '{box}')"
#define HAS_TEXT_IDS "EXISTS (SELECT 1 FROM \"{box}\" WHERE id < x'')"
#define DEAD_HAVE_TEXT_IDS "EXISTS (SELECT 1 FROM postrider_dead_letter WHERE id < x'')"
#define HAS_DEDUPE "EXISTS (SELECT 1 FROM postrider_box WHERE name = '{box}' AND dedupe_us > 0)"
#define IS_THERE_OTHERWISE                                                                                             \
    " OR (" HAS_TEXT_IDS " AND (EXISTS (SELECT 1 FROM \"{box}\" WHERE id = ?10 AND destination = ?2) OR"               \
    "     EXISTS (SELECT 1 FROM \"{box}\" WHERE id = ?11 AND destination = ?2)))"                                      \
    " OR (" DEAD_HAVE_TEXT_IDS " AND"                                                                                  \
    "     (EXISTS (SELECT 1 FROM postrider_dead_letter WHERE id = ?10 AND destination = ?2 AND box = '{box}') OR"      \
    "      EXISTS (SELECT 1 FROM postrider_dead_letter WHERE id = ?11 AND destination = ?2 AND box = '{box}')))"       \
    " OR (" HAS_DEDUPE " AND EXISTS (SELECT 1 FROM postrider_seen WHERE box = '{box}' AND id = ?1 AND"                 \
    "     (handler = ?2 OR (?2 = '' AND alone))))"
#define INSERT_BODY(is_there)                                                                                          \
    " INTO \"{box}\" (id, destination, type, stream, headers, event, created_at, due_at, expires_at, payload,"         \
    " split_seq" SENDER_TEXTS(COLUMN_NAME) ") VALUES (iif(" is_there ", NULL, ?1), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,"    \
                                           " ?12, NULL" SENDER_TEXTS(COLUMN_NEXT) ")"

const char MESSAGE_INSERT[] = "INSERT OR IGNORE" INSERT_BODY(IS_DEAD IS_THERE_OTHERWISE);
const char MESSAGE_INSERT_BRIEF[] = "INSERT OR IGNORE" INSERT_BODY(IS_DEAD);
const char MESSAGE_INSERT_STRICTLY[] = "INSERT" INSERT_BODY(IS_DEAD IS_THERE_OTHERWISE);
const char MESSAGE_CAN_BE_BRIEF[] = "SELECT NOT (" HAS_TEXT_IDS " OR " DEAD_HAVE_TEXT_IDS " OR " HAS_DEDUPE ")";

void id_forms_init(struct id_forms *forms, pr_id id)
{
    forms->id = id;
    pr_id_format(id, forms->lower);
    for (size_t i = 0; i < PR_ID_TEXT_SIZE; i++)
        forms->upper[i] = (char)toupper((unsigned char)forms->lower[i]);
}

void message_values(const struct pr_message *m, const struct id_forms *forms, int64_t now_us,
                    struct value ret[MESSAGE_VALUE_COUNT])
{
    const struct value values[MESSAGE_VALUE_COUNT] = { V_ID(forms->id),
                                                       V_TEXT(m->destination),
                                                       V_TEXT(m->type),
                                                       V_TEXT_OR_NULL(m->stream),
                                                       V_TEXT_OR_NULL(m->headers),
                                                       V_INT(m->event),
                                                       V_INT(now_us),
                                                       m->due_us != 0 ? V_INT(m->due_us) : V_NULL,
                                                       m->expires_us != 0 ? V_INT(m->expires_us) : V_NULL,
                                                       V_ID_LOWER(*forms),
                                                       V_ID_UPPER(*forms),
                                                       V_BLOB(m->payload),
#define X(column, ...) V_TEXT_OR_NULL(m->column),
                                                       SENDER_TEXTS(X)
#undef X
    };
    memcpy(ret, values, sizeof(values));
}

int message_can_be_brief(struct conn *conn, pr_slice box, bool *ret, struct pr_error *reterr)
{
    int64_t brief = 0;
    int rc = conn_int(conn, MESSAGE_CAN_BE_BRIEF, box, NULL, 0, &brief, reterr);
    *ret = brief != 0;
    return rc;
}

int message_insert_next(struct conn *conn, pr_slice box, const struct pr_message *message, int64_t now_us, bool *brief,
                        struct pr_error *reterr)
{
    struct id_forms forms;
    struct value values[MESSAGE_VALUE_COUNT];
    int changed = 0, before = sqlite3_total_changes(conn->db);

    id_forms_init(&forms, message->id);
    message_values(message, &forms, now_us, values);
    int rc = conn_do(conn, *brief ? MESSAGE_INSERT_BRIEF : MESSAGE_INSERT, box, values, MESSAGE_VALUE_COUNT, &changed,
                     reterr);
    *brief = *brief && sqlite3_total_changes(conn->db) == before + changed;
    if (rc != PR_OK || changed > 0)
        return rc;
    rc = note_again(conn, box, message, now_us, reterr);
    return rc == PR_OK ? PR_DUPLICATE : rc;
}

int message_insert(struct conn *conn, pr_slice box, const struct pr_message *message, int64_t now_us,
                   struct pr_error *reterr)
{
    bool brief = false;
    return message_insert_next(conn, box, message, now_us, &brief, reterr);
}

/* ---- Reading ------------------------------------------------------------------------ */

enum {
    COLUMN_ROW,
    COLUMN_SEQ,
    COLUMN_ID,
    COLUMN_stream,
    COLUMN_EVENT,
    COLUMN_CREATED,
    COLUMN_DUE,
    COLUMN_EXPIRES,
    COLUMN_ATTEMPTS,
    COLUMN_destination,
    COLUMN_type,
    COLUMN_headers,
#define X(column, ...) COLUMN_##column,
    SENDER_TEXTS(X)
#undef X
#define X(kind, column, member) COLUMN_##column,
        FATE_COLUMNS(X)
#undef X
            COLUMN_payload,
    COLUMN_COUNT
};
_Static_assert(COLUMN_COUNT == MESSAGE_COLUMN_COUNT && COLUMN_ID == MESSAGE_COLUMN_ID &&
                   COLUMN_stream == MESSAGE_COLUMN_STREAM,
               "the columns of a message");

/* Columns whose bytes are copied, and the members that get them. */
static const struct {
    int column;
    size_t offset;
} texts[] = {
#define TEXT(column, ...) { COLUMN_##column, offsetof(struct pr_message, column) },
#define FATE_TEXT(kind, column, member) { COLUMN_##column, offsetof(struct pr_message, member) },
    /* clang-format off */
    TEXT(destination)
    TEXT(stream)
    TEXT(type)
    TEXT(headers)
    SENDER_TEXTS(TEXT)
    FATE_TEXTS(FATE_TEXT)
    TEXT(payload)
    /* clang-format on */
};

static int column_small(sqlite3_stmt *s, int column)
{
    int64_t n = sqlite3_column_int64(s, column);
    return n > INT_MAX ? INT_MAX : n < INT_MIN ? INT_MIN : (int)n;
}

static void decode_numbers(sqlite3_stmt *s, struct pr_message *m)
{
    m->seq = sqlite3_column_int64(s, COLUMN_SEQ);
    m->event = sqlite3_column_int(s, COLUMN_EVENT) != 0;
    m->created_us = sqlite3_column_int64(s, COLUMN_CREATED);
    m->due_us = sqlite3_column_int64(s, COLUMN_DUE); /* NULL is 0 */
    m->expires_us = sqlite3_column_int64(s, COLUMN_EXPIRES);
    m->attempts = column_small(s, COLUMN_ATTEMPTS);
#define FATE_INT(column, member) m->member = column_small(s, COLUMN_##column);
#define FATE_TIME(column, member) m->member = sqlite3_column_int64(s, COLUMN_##column);
#define FATE_BOOL(column, member) m->member = sqlite3_column_int(s, COLUMN_##column) != 0;
#define X(kind, column, member) FATE_##kind(column, member)
    FATE_NUMBERS(X)
#undef X
    m->status |= message_status_bits(m);
}

/* A plain INSERT can put text into a column of numbers: '2030-01-01' would be read as the year 1970, and the message
 * would expire at once. */
static bool is_number_or_null(sqlite3_stmt *s, int column)
{
    int type = sqlite3_column_type(s, column);
    return type == SQLITE_INTEGER || type == SQLITE_NULL;
}

static const char *times_defect(sqlite3_stmt *s)
{
    if (!is_number_or_null(s, COLUMN_CREATED))
        return "created_at is not a number of microseconds";
    return is_number_or_null(s, COLUMN_EXPIRES) ? NULL : "expires_at is not a number of microseconds";
}

/* Like column_slice(), but most columns of most messages are NULL: asking for the size alone is half the work. */
static pr_slice column_text(sqlite3_stmt *s, int column)
{
    int size = sqlite3_column_bytes(s, column); /* converts other types to text as sqlite3_column_blob() does */
    return size > 0 ? (pr_slice){ sqlite3_column_blob(s, column), (size_t)size } : (pr_slice){ NULL, 0 };
}

/* PAYLOAD_UP_TO gives the negative size of a payload that it leaves in the table. */
static size_t payload_over(sqlite3_stmt *s, size_t payload_max)
{
    int type = sqlite3_column_type(s, COLUMN_payload);
    if (type == SQLITE_INTEGER && sqlite3_column_int64(s, COLUMN_payload) < 0) {
        uint64_t size = (uint64_t)-sqlite3_column_int64(s, COLUMN_payload);
        return size > payload_max ? (size_t)size : 0;
    }
    int size = type == SQLITE_TEXT || type == SQLITE_BLOB ? sqlite3_column_bytes(s, COLUMN_payload) : 0;
    return size > 0 && (size_t)size > payload_max ? (size_t)size : 0;
}

int message_decode(sqlite3_stmt *statement, struct arena *arena, size_t payload_max, struct pr_message *ret,
                   uint64_t *ret_row, size_t *ret_over, const char **ret_bad, struct pr_error *reterr)
{
    struct pr_message *m = ret;
    const char *bad = times_defect(statement); /* before anything is converted */
    *m = (struct pr_message){ .seq = 0 };
    decode_numbers(statement, m);
    *ret_row = (uint64_t)sqlite3_column_int64(statement, COLUMN_ROW);
    /* before a number is converted to text */
    size_t over = ret_over != NULL ? payload_over(statement, payload_max) : 0;

    pr_slice id = column_slice(statement, COLUMN_ID);
    if (id.size == 0 || id_from_stored(id, &m->id) != PR_OK)
        bad = "the id is not a UUID";

    /* The bytes as SQLite has them, then one copied block. */
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
        *(pr_slice *)(void *)((char *)m + texts[i].offset) = column_text(statement, texts[i].column);
    if (bad == NULL)
        bad = message_defect(m, ret_over != NULL ? SIZE_MAX : payload_max);
    if (m->payload.size > payload_max || over > 0)
        m->payload = (pr_slice){ NULL, 0 }; /* it stays in the table */
    if (ret_over != NULL)
        *ret_over = over;
    char *block = arena_alloc(arena, message_bytes(m));
    if (block == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a row");
    struct pr_message borrowed = *m;
    message_copy(&borrowed, block, m);
    *ret_bad = bad;
    return PR_OK;
}
