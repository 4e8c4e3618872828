#include "store/sqlite/send.h"

#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "store/sqlite/message.h"

#define SQL_MAX 8192

static const char *path_of(sqlite3 *db)
{
    const char *path = sqlite3_db_filename(db, "main");
    return path != NULL && path[0] != '\0' ? path : ":memory:";
}

/* The table of the box, as the store records it. */
static int send_table(sqlite3 *db, pr_slice box, char ret_table[BOX_NAME_MAX + 1], struct pr_error *reterr)
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(db, SQL_BOX_TABLE, -1, &statement, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text64(statement, 1, box.data, box.size, SQLITE_STATIC, SQLITE_UTF8);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    pr_slice table = rc == SQLITE_ROW ? column_slice(statement, 0) : (pr_slice){ NULL, 0 };
    if (name_is_valid(table)) {
        memcpy(ret_table, table.data, table.size);
        ret_table[table.size] = '\0';
        rc = PR_OK;
    } else {
        rc = rc == SQLITE_ROW || rc == SQLITE_DONE ? box_fault(path_of(db), box, reterr)
                                                   : sqlite_fault(db, rc, path_of(db), reterr);
    }
    sqlite3_finalize(statement);
    return rc;
}

/* A statement on the caller's connection. */
static int send_prepare(sqlite3 *db, const char *insert, pr_slice box, sqlite3_stmt **ret, struct pr_error *reterr)
{
    char table[BOX_NAME_MAX + 1];
    if (db == NULL)
        return error_set(reterr, PR_EINVAL, "no database connection");
    if (!name_is_valid(box))
        return error_set(reterr, PR_EINVAL, "\"%.*s\" is not a valid box name", SLICE_ARGS(box));
    int rc = send_table(db, box, table, reterr);
    if (rc != PR_OK)
        return rc;
    struct buf sql;
    buf_init(&sql, SQL_MAX);
    sql_expand(&sql, insert, (struct box_names){ .box = box, .table = slice_from(table) });
    rc = buf_failed(&sql);
    if (rc != PR_OK) {
        error_set(reterr, rc, "out of memory for a statement");
    } else {
        rc = sqlite3_prepare_v2(db, sql.data, (int)sql.size, ret, NULL);
        rc = rc == SQLITE_OK ? PR_OK : sqlite_fault(db, rc, path_of(db), reterr);
    }
    buf_fini(&sql);
    return rc;
}

/* Binds and steps; returns SQLite's code. */
static int send_step(sqlite3_stmt *statement, const struct pr_message *message, int64_t now_us)
{
    struct id_forms forms;
    struct value values[MESSAGE_VALUE_COUNT];
    int rc = SQLITE_OK;

    id_forms_init(&forms, message->id);
    message_values(message, &forms, now_us, values);
    for (int i = 0; i < MESSAGE_VALUE_COUNT && rc == SQLITE_OK; i++)
        rc = value_bind(statement, i + 1, &values[i]);
    return rc == SQLITE_OK ? sqlite3_step(statement) : rc;
}

/* The row was not inserted: was it a duplicate, or did a check of the box refuse it?  A statement that reports errors
 * decides. */
static int send_passed_over(sqlite3 *db, pr_slice box, const struct pr_message *message, int64_t now_us,
                            struct pr_error *reterr)
{
    sqlite3_stmt *statement = NULL;
    int rc = send_prepare(db, MESSAGE_INSERT_STRICTLY, box, &statement, reterr);
    if (rc != PR_OK)
        return rc;
    int code = send_step(statement, message, now_us);
    if (code == SQLITE_DONE)
        rc = PR_OK; /* the other row existed a moment ago */
    else if (sqlite3_extended_errcode(db) == SQLITE_CONSTRAINT_CHECK)
        rc = error_set(reterr, PR_EINVAL, "%s", sqlite3_errmsg(db));
    else
        rc = (code & 0xff) == SQLITE_CONSTRAINT ? PR_DUPLICATE : sqlite_fault(db, code, path_of(db), reterr);
    sqlite3_finalize(statement);
    return rc;
}

static int sender_prepare(struct sqlite_sender *s, const char *insert, sqlite3 *db, pr_slice box,
                          struct pr_error *reterr)
{
    *s = (struct sqlite_sender){ .db = db };
    int rc = send_prepare(db, insert, box, &s->insert, reterr);
    if (rc == PR_OK)
        memcpy(s->box, box.data, box.size); /* checked before */
    return rc;
}

int sqlite_sender_init(struct sqlite_sender *s, sqlite3 *db, pr_slice box, struct pr_error *reterr)
{
    return sender_prepare(s, MESSAGE_INSERT, db, box, reterr);
}

void sqlite_sender_fini(struct sqlite_sender *s)
{
    sqlite3_finalize(s->insert);
    *s = (struct sqlite_sender){ 0 };
}

static int send_one(struct sqlite_sender *s, const struct pr_message *message, struct pr_error *reterr)
{
    /* On a machine without the time, the box's check would refuse the message. */
    int64_t now_us = max64(clock_wall_us(clock_system()), TIME_MIN_US);
    int rc = send_step(s->insert, message, now_us);
    if (rc != SQLITE_DONE)
        rc = sqlite_fault(s->db, rc, path_of(s->db), reterr);
    else
        rc = sqlite3_changes(s->db) > 0 ? PR_OK : send_passed_over(s->db, slice_from(s->box), message, now_us, reterr);
    sqlite3_reset(s->insert);
    return rc;
}

/* May an event that expects a version be appended?  Outcome PR_DUPLICATE, fault PR_ECONFLICT. */
static int expectation(sqlite3 *db, const struct pr_message *m, struct pr_error *reterr)
{
    struct id_forms forms;
    sqlite3_stmt *statement = NULL;
    id_forms_init(&forms, m->id);
    const struct value values[] = { V_TEXT(m->stream), V_ID_LOWER(forms) };
    int rc = sqlite3_prepare_v2(db, EVENT_EXPECTED, -1, &statement, NULL);
    for (int i = 0; i < 2 && rc == SQLITE_OK; i++)
        rc = value_bind(statement, i + 1, &values[i]);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW)
        rc = message_expectation(m, sqlite3_column_int(statement, 0) != 0, sqlite3_column_int64(statement, 1), reterr);
    else
        rc = sqlite_fault(db, rc, path_of(db), reterr);
    sqlite3_finalize(statement);
    return rc;
}

static int run_text(sqlite3 *db, const char *sql, struct pr_error *reterr)
{
    int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? PR_OK : sqlite_fault(db, rc, path_of(db), reterr);
}

/* A transaction whose first statement reads cannot write any more when another one has written meanwhile, and waiting
 * does not help.  So where the caller's transaction has just begun, its first statement is an empty write. */
static int write_first(sqlite3 *db, struct pr_error *reterr)
{
    if (db == NULL || sqlite3_get_autocommit(db) || sqlite3_txn_state(db, "main") != SQLITE_TXN_NONE)
        return PR_OK;
    int rc = sqlite3_exec(db, "DELETE FROM postrider_meta WHERE 0", NULL, NULL, NULL);
    return (rc & 0xff) == SQLITE_BUSY ? sqlite_fault(db, rc, path_of(db), reterr)
                                      : PR_OK; /* the following statements report other faults */
}

/* The version that it found must still hold when the event is inserted: without a transaction of the caller, send
 * begins one. */
static int send_expecting(struct sqlite_sender *s, const struct pr_message *message, struct pr_error *reterr)
{
    bool alone = sqlite3_get_autocommit(s->db);
    int rc = alone ? run_text(s->db, "BEGIN IMMEDIATE", reterr) : write_first(s->db, reterr);
    if (rc != PR_OK)
        return rc;
    rc = expectation(s->db, message, reterr);
    if (rc == PR_OK)
        rc = send_one(s, message, reterr);
    if (alone && rc == PR_OK)
        rc = run_text(s->db, "COMMIT", reterr);
    if (alone && !sqlite3_get_autocommit(s->db))
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

int sqlite_sender_send(struct sqlite_sender *s, const struct pr_message *message, struct pr_error *reterr)
{
    return message->expects_version ? send_expecting(s, message, reterr) : send_one(s, message, reterr);
}

/* May these messages be inserted with MESSAGE_INSERT_BRIEF?  Only inside a transaction the answer holds. */
static int can_be_brief(sqlite3 *db, pr_slice box, size_t count, bool *ret, struct pr_error *reterr)
{
    sqlite3_stmt *statement = NULL;
    *ret = false;
    if (count < MESSAGE_BRIEF_FROM || db == NULL || sqlite3_get_autocommit(db))
        return PR_OK;
    int rc = send_prepare(db, MESSAGE_CAN_BE_BRIEF, box, &statement, reterr);
    if (rc != PR_OK)
        return rc;
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        *ret = sqlite3_column_int(statement, 0) != 0;
    else
        rc = sqlite_fault(db, code, path_of(db), reterr);
    sqlite3_finalize(statement);
    return rc;
}

/* The messages from *at on with one statement: all of them; with the brief one, until it may not be used any more. */
static int send_some(sqlite3 *db, pr_slice box, bool brief, const struct pr_message *messages, size_t count, size_t *at,
                     int *answers, struct pr_error *reterr)
{
    struct sqlite_sender sender;
    int rc = sender_prepare(&sender, brief ? MESSAGE_INSERT_BRIEF : MESSAGE_INSERT, db, box, reterr);
    for (bool more = true; *at < count && more && rc >= PR_OK; (*at)++) {
        int before = sqlite3_total_changes(db);
        rc = sqlite_sender_send(&sender, &messages[*at], reterr);
        if (rc >= PR_OK && answers != NULL)
            answers[*at] = rc;
        more = !brief || sqlite3_total_changes(db) == before + (rc == PR_OK);
    }
    sqlite_sender_fini(&sender);
    return rc < 0 ? rc : PR_OK;
}

int sqlite_send_many(sqlite3 *db, pr_slice box, const struct pr_message *messages, size_t count, int *answers,
                     struct pr_error *reterr)
{
    bool brief = false;
    size_t at = 0;
    int rc = write_first(db, reterr);
    if (rc == PR_OK)
        rc = can_be_brief(db, box, count, &brief, reterr);
    if (rc == PR_OK && brief)
        rc = send_some(db, box, true, messages, count, &at, answers, reterr);
    if (rc == PR_OK && (at < count || count == 0))
        rc = send_some(db, box, false, messages, count, &at, answers, reterr);
    return rc;
}

int sqlite_send(sqlite3 *db, pr_slice box, const struct pr_message *message, struct pr_error *reterr)
{
    int answer;
    int rc = sqlite_send_many(db, box, message, 1, &answer, reterr);
    return rc == PR_OK ? answer : rc;
}

int sqlite_advance(sqlite3 *db, pr_slice name, uint64_t fence, int64_t from, int64_t to, struct pr_error *reterr)
{
    sqlite3_stmt *statement = NULL;
    const struct value values[] = { V_TEXT(name), V_INT(fence), V_INT(from), V_INT(to) };
    if (sqlite3_get_autocommit(db))
        return error_set(reterr, PR_EINVAL,
                         "no transaction is open: BEGIN, write what follows from the events, advance, COMMIT");
    int rc = sqlite3_prepare_v2(db,
                                "UPDATE postrider_subscription SET position = ?4"
                                " WHERE name = ?1 AND fence = ?2 AND position = ?3 AND ?4 > position",
                                -1, &statement, NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(values) && rc == SQLITE_OK; i++)
        rc = value_bind(statement, (int)i + 1, &values[i]);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    if (rc == SQLITE_DONE)
        rc = sqlite3_changes(db) == 1 ? PR_OK : PR_STALE;
    else
        rc = sqlite_fault(db, rc, path_of(db), reterr);
    sqlite3_finalize(statement);
    return rc;
}
