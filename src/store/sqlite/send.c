#include "store/sqlite/send.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "store/sqlite/message.h"

#define SQL_MAX 8192

static const char *path_of(sqlite3 *db)
{
    const char *path = sqlite3_db_filename(db, "main");
    return path != NULL && path[0] != '\0' ? path : ":memory:";
}

/* Statements on a connection that is not ours; finalized by sender_fini(). */
struct sender {
    sqlite3         *db;
    sqlite3_stmt    *is_known, *insert;
    int64_t          now_us;
    struct pr_error *reterr;
};

static int sender_fault(struct sender *s, int rc)
{
    return sqlite_fault(s->db, rc, path_of(s->db), s->reterr);
}

static int sender_prepare(struct sender *s, const char *text, pr_slice box, sqlite3_stmt **ret)
{
    struct buf sql;
    buf_init(&sql, SQL_MAX);
    sql_expand(&sql, text, box);
    int rc = buf_failed(&sql);
    if (rc != PR_OK) {
        error_set(s->reterr, rc, "no memory for a statement");
    } else {
        rc = sqlite3_prepare_v2(s->db, sql.data, (int)sql.size, ret, NULL);
        rc = rc == SQLITE_OK ? PR_OK : sender_fault(s, rc);
    }
    buf_fini(&sql);
    return rc;
}

static int sender_init(struct sender *s, pr_slice box)
{
    if (s->db == NULL)
        return error_set(s->reterr, PR_EINVAL, "there is no database connection");
    if (!name_is_valid(box))
        return error_set(s->reterr, PR_EINVAL, "\"%.*s\" is not the name of a box", SLICE_ARGS(box));
    int rc = sender_prepare(s, MESSAGE_IS_KNOWN, box, &s->is_known);
    return rc == PR_OK ? sender_prepare(s, MESSAGE_INSERT, box, &s->insert) : rc;
}

static void sender_fini(struct sender *s)
{
    sqlite3_finalize(s->is_known);
    sqlite3_finalize(s->insert);
}

/* The result of SQLite; the statement is to be reset. */
static int sender_step(sqlite3_stmt *statement, const struct value *values, size_t count)
{
    int rc = SQLITE_OK;
    for (size_t i = 0; i < count && rc == SQLITE_OK; i++)
        rc = value_bind(statement, (int)i + 1, &values[i]);
    return rc == SQLITE_OK ? sqlite3_step(statement) : rc;
}

static int sender_is_known(struct sender *s, const struct id_forms *forms, pr_slice destination, bool *ret)
{
    int rc = sender_step(s->is_known, VALUES(MESSAGE_IS_KNOWN_VALUES(*forms, destination)));
    *ret = rc == SQLITE_ROW && sqlite3_column_int(s->is_known, 0) != 0;
    rc = rc == SQLITE_ROW ? PR_OK : sender_fault(s, rc);
    sqlite3_reset(s->is_known);
    return rc;
}

static int sender_insert(struct sender *s, const struct pr_message *message)
{
    struct id_forms forms;
    struct value    values[MESSAGE_VALUE_COUNT];
    bool            known;

    id_forms_init(&forms, message->id);
    int rc = sender_is_known(s, &forms, message->destination, &known);
    if (rc != PR_OK || known)
        return rc != PR_OK ? rc : PR_DUPLICATE;
    message_values(message, &forms, s->now_us, values);
    rc = sender_step(s->insert, values, MESSAGE_VALUE_COUNT);
    rc = rc == SQLITE_DONE ? PR_OK : sender_fault(s, rc);
    if (rc == PR_OK && sqlite3_changes(s->db) == 0)
        rc = PR_DUPLICATE;
    sqlite3_reset(s->insert);
    return rc;
}

int sqlite_send_many(sqlite3 *db, pr_slice box, const struct pr_message *messages, size_t count, int *answers,
                     struct pr_error *reterr)
{
    struct sender sender = { .db = db, .now_us = clock_wall_us(clock_system()), .reterr = reterr };
    int           rc = sender_init(&sender, box);

    for (size_t i = 0; i < count && rc >= PR_OK; i++) {
        rc = sender_insert(&sender, &messages[i]);
        if (rc >= PR_OK && answers != NULL)
            answers[i] = rc;
    }
    sender_fini(&sender);
    return rc < 0 ? rc : PR_OK;
}

int sqlite_send(sqlite3 *db, pr_slice box, const struct pr_message *message, struct pr_error *reterr)
{
    int answer;
    int rc = sqlite_send_many(db, box, message, 1, &answer, reterr);
    return rc == PR_OK ? answer : rc;
}
