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

/* A statement on a connection that is not ours. */
static int send_prepare(sqlite3 *db, pr_slice box, sqlite3_stmt **ret, struct pr_error *reterr)
{
    if (db == NULL)
        return error_set(reterr, PR_EINVAL, "there is no database connection");
    if (!name_is_valid(box))
        return error_set(reterr, PR_EINVAL, "\"%.*s\" is not the name of a box", SLICE_ARGS(box));
    struct buf sql;
    buf_init(&sql, SQL_MAX);
    sql_expand(&sql, MESSAGE_INSERT, box);
    int rc = buf_failed(&sql);
    if (rc != PR_OK) {
        error_set(reterr, rc, "no memory for a statement");
    } else {
        rc = sqlite3_prepare_v2(db, sql.data, (int)sql.size, ret, NULL);
        rc = rc == SQLITE_OK ? PR_OK : sqlite_fault(db, rc, path_of(db), reterr);
    }
    buf_fini(&sql);
    return rc;
}

/* Outcome PR_DUPLICATE. */
static int send_one(sqlite3 *db, sqlite3_stmt *statement, const struct pr_message *message, int64_t now_us,
                    struct pr_error *reterr)
{
    struct id_forms forms;
    struct value values[MESSAGE_VALUE_COUNT];
    int rc = SQLITE_OK;

    id_forms_init(&forms, message->id);
    message_values(message, &forms, now_us, values);
    for (int i = 0; i < MESSAGE_VALUE_COUNT && rc == SQLITE_OK; i++)
        rc = value_bind(statement, i + 1, &values[i]);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    if (rc != SQLITE_DONE)
        rc = sqlite_fault(db, rc, path_of(db), reterr);
    else
        rc = sqlite3_changes(db) > 0 ? PR_OK : PR_DUPLICATE;
    sqlite3_reset(statement);
    return rc;
}

int sqlite_send_many(sqlite3 *db, pr_slice box, const struct pr_message *messages, size_t count, int *answers,
                     struct pr_error *reterr)
{
    sqlite3_stmt *statement = NULL;
    int64_t now_us = clock_wall_us(clock_system());
    int rc = send_prepare(db, box, &statement, reterr);

    for (size_t i = 0; i < count && rc >= PR_OK; i++) {
        rc = send_one(db, statement, &messages[i], now_us, reterr);
        if (rc >= PR_OK && answers != NULL)
            answers[i] = rc;
    }
    sqlite3_finalize(statement);
    return rc < 0 ? rc : PR_OK;
}

int sqlite_send(sqlite3 *db, pr_slice box, const struct pr_message *message, struct pr_error *reterr)
{
    int answer;
    int rc = sqlite_send_many(db, box, message, 1, &answer, reterr);
    return rc == PR_OK ? answer : rc;
}
