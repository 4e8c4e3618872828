#include "store/sqlite/message.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

#include "base/error.h"
#include "core/id.h"

/* A duplicate gives a NULL id, which OR IGNORE passes over: as it does what the unique key does
 * not take, and a check of the box: message_check() has seen to it before, and send.c asks again.  One statement, so that it is
 * right also for callers without a transaction; VALUES and not SELECT, because an INSERT that
 * SELECTs from its own table goes through a temporary one.  All text is less than any blob: ids
 * as text are looked for only where there are some.  split_seq is there because only boxes have
 * it: OR IGNORE must not pass over a row for a table that is none. */
#define INSERT_BODY                                                                                                    \
    " INTO \"{box}\" (id, destination, type, stream, source, subject, content_type, headers,"                          \
    " correlation_id, causation_id, traceparent, tracestate, event, created_at, due_at, expires_at, payload,"          \
    " split_seq) VALUES (iif(EXISTS"                                                                                   \
    "   (SELECT 1 FROM postrider_dead_letter WHERE id = ?1 AND destination = ?2 AND box = '{box}')"                    \
    "   OR (EXISTS (SELECT 1 FROM \"{box}\" WHERE id < x'') AND"                                                       \
    "       (EXISTS (SELECT 1 FROM \"{box}\" WHERE id = ?18 AND destination = ?2) OR"                                  \
    "        EXISTS (SELECT 1 FROM \"{box}\" WHERE id = ?19 AND destination = ?2)))"                                   \
    "   OR (EXISTS (SELECT 1 FROM postrider_dead_letter WHERE id < x'') AND"                                           \
    "       (EXISTS (SELECT 1 FROM postrider_dead_letter WHERE id = ?18 AND destination = ?2 AND box = '{box}') OR"    \
    "        EXISTS (SELECT 1 FROM postrider_dead_letter WHERE id = ?19 AND destination = ?2 AND box = '{box}'))), "   \
    "NULL, "                                                                                                           \
    "?1),"                                                                                                             \
    " ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, NULL)"

const char MESSAGE_INSERT[] = "INSERT OR IGNORE" INSERT_BODY;
const char MESSAGE_INSERT_STRICTLY[] = "INSERT" INSERT_BODY;

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
    const struct value values[MESSAGE_VALUE_COUNT] = {
        V_ID(forms->id),
        V_TEXT(m->destination),
        V_TEXT(m->type),
        V_TEXT_OR_NULL(m->stream),
        V_TEXT_OR_NULL(m->source),
        V_TEXT_OR_NULL(m->subject),
        V_TEXT_OR_NULL(m->content_type),
        V_TEXT_OR_NULL(m->headers),
        V_TEXT_OR_NULL(m->correlation_id),
        V_TEXT_OR_NULL(m->causation_id),
        V_TEXT_OR_NULL(m->traceparent),
        V_TEXT_OR_NULL(m->tracestate),
        V_INT(m->event),
        V_INT(now_us),
        m->due_us != 0 ? V_INT(m->due_us) : V_NULL,
        m->expires_us != 0 ? V_INT(m->expires_us) : V_NULL,
        V_BLOB(m->payload),
        V_ID_LOWER(*forms),
        V_ID_UPPER(*forms),
    };
    memcpy(ret, values, sizeof(values));
}

int message_insert(struct conn *conn, pr_slice box, const struct pr_message *message, int64_t now_us,
                   struct pr_error *reterr)
{
    struct id_forms forms;
    struct value values[MESSAGE_VALUE_COUNT];
    int changed;

    id_forms_init(&forms, message->id);
    message_values(message, &forms, now_us, values);
    int rc = conn_do(conn, MESSAGE_INSERT, box, values, MESSAGE_VALUE_COUNT, &changed, reterr);
    if (rc != PR_OK)
        return rc;
    return changed > 0 ? PR_OK : PR_DUPLICATE;
}

/* ---- Reading ------------------------------------------------------------------------ */

/* Columns whose bytes are copied, and where they go. */
static const struct {
    int column;
    size_t offset;
} texts[] = {
    { 3, offsetof(struct pr_message, destination) },   { 4, offsetof(struct pr_message, stream) },
    { 5, offsetof(struct pr_message, type) },          { 6, offsetof(struct pr_message, source) },
    { 7, offsetof(struct pr_message, subject) },       { 8, offsetof(struct pr_message, content_type) },
    { 9, offsetof(struct pr_message, headers) },       { 10, offsetof(struct pr_message, correlation_id) },
    { 11, offsetof(struct pr_message, causation_id) }, { 12, offsetof(struct pr_message, traceparent) },
    { 13, offsetof(struct pr_message, tracestate) },   { 22, offsetof(struct pr_message, code) },
    { 23, offsetof(struct pr_message, error) },        { 25, offsetof(struct pr_message, story) },
    { 26, offsetof(struct pr_message, held_by) },      { 28, offsetof(struct pr_message, payload) },
};

static int column_small(sqlite3_stmt *s, int column)
{
    int64_t n = sqlite3_column_int64(s, column);
    return n > INT_MAX ? INT_MAX : n < INT_MIN ? INT_MIN : (int)n;
}

static void decode_numbers(sqlite3_stmt *s, struct pr_message *m)
{
    m->seq = sqlite3_column_int64(s, 1);
    m->event = sqlite3_column_int(s, 14) != 0;
    m->created_us = sqlite3_column_int64(s, 15);
    m->due_us = sqlite3_column_int64(s, 16); /* NULL is 0 */
    m->expires_us = sqlite3_column_int64(s, 17);
    m->status = column_small(s, 18);
    m->attempts = column_small(s, 19);
    m->failures = column_small(s, 20);
    m->reason = column_small(s, 21);
    m->failed_us = sqlite3_column_int64(s, 24);
    m->released = sqlite3_column_int(s, 27) != 0;
}

/* A plain INSERT can put words into a column of numbers: '2030-01-01' would be read as the year
 * 1970, and the message would be over before it began. */
static bool is_number_or_null(sqlite3_stmt *s, int column)
{
    int type = sqlite3_column_type(s, column);
    return type == SQLITE_INTEGER || type == SQLITE_NULL;
}

static const char *times_defect(sqlite3_stmt *s)
{
    if (!is_number_or_null(s, 15))
        return "created_at is not a number of microseconds";
    return is_number_or_null(s, 17) ? NULL : "expires_at is not a number of microseconds";
}

/* As column_slice(), but most columns of most messages are NULL: its size alone is asked with half the work. */
static pr_slice column_text(sqlite3_stmt *s, int column)
{
    int size = sqlite3_column_bytes(s, column); /* converts what is no text as sqlite3_column_blob() does */
    return size > 0 ? (pr_slice){ sqlite3_column_blob(s, column), (size_t)size } : (pr_slice){ NULL, 0 };
}

/* PAYLOAD_UP_TO gives the size of what it leaves in the table, below zero. */
static size_t payload_over(sqlite3_stmt *s, size_t payload_max)
{
    int type = sqlite3_column_type(s, MESSAGE_COLUMN_COUNT - 1);
    if (type == SQLITE_INTEGER && sqlite3_column_int64(s, MESSAGE_COLUMN_COUNT - 1) < 0) {
        uint64_t size = (uint64_t)-sqlite3_column_int64(s, MESSAGE_COLUMN_COUNT - 1);
        return size > payload_max ? (size_t)size : 0;
    }
    int size = type == SQLITE_TEXT || type == SQLITE_BLOB ? sqlite3_column_bytes(s, MESSAGE_COLUMN_COUNT - 1) : 0;
    return size > 0 && (size_t)size > payload_max ? (size_t)size : 0;
}

int message_decode(sqlite3_stmt *statement, struct arena *arena, size_t payload_max, struct pr_message *ret,
                   uint64_t *ret_row, size_t *ret_over, const char **ret_bad, struct pr_error *reterr)
{
    struct pr_message *m = ret;
    const char *bad = times_defect(statement); /* before anything is converted */
    *m = (struct pr_message){ .seq = 0 };
    decode_numbers(statement, m);
    *ret_row = (uint64_t)sqlite3_column_int64(statement, 0);
    size_t over = ret_over != NULL ? payload_over(statement, payload_max) : 0; /* before a number becomes text */

    pr_slice id = column_slice(statement, 2);
    if (id.size == 0 || id_from_stored(id, &m->id) != PR_OK)
        bad = "the id is not a UUID";

    /* The bytes where SQLite has them, then one block of ours. */
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
        return error_set(reterr, PR_ENOMEM, "no memory for a row");
    struct pr_message borrowed = *m;
    message_copy(&borrowed, block, m);
    *ret_bad = bad;
    return PR_OK;
}
