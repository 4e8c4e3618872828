/* enqueue.c - new messages in group commits (store/senders.h). */
#include "base/error.h"
#include "base/failpoint.h"
#include "store/sqlite/message.h"
#include "store/sqlite/sqlite.h"

#define CHECKPOINT_PAGES 16384 /* 64 MiB: if no session serves the boxes, no other connection does it */

/* The message failed before it was stored. */
static int keep_failure(struct conn *conn, pr_slice box, const struct pr_message *m, int64_t mono_us,
                        struct pr_error *reterr)
{
    int64_t row = sqlite3_last_insert_rowid(conn->db);
    int rc = conn_do(
        conn,
        "UPDATE \"{box}\" SET status = status | ?1, attempts = ?2, failures = ?3, failure_reason = ?4, code = ?5,"
        " error = ?6, failed_at = ?7, story = ?8, parked_by = ?10 WHERE row_id = ?9",
        box,
        VALUES(V_INT(m->status), V_INT(m->attempts), V_INT(m->failures), V_INT(m->reason), V_TEXT_OR_NULL(m->code),
               V_TEXT_OR_NULL(m->error), V_INT(m->failed_us), V_TEXT_OR_NULL(m->story), V_INT(row),
               V_INT(m->parked_by)),
        NULL, reterr);
    if (rc != PR_OK || m->stream.size == 0 || m->due_us == 0)
        return rc;
    return conn_do(conn,
                   "INSERT INTO postrider_control (mono_at, box, kind, row, seq, stream, endpoint) VALUES (?1, "
                   "'{box}', ?2, ?3, ?3, ?4, ?5)",
                   box,
                   VALUES(V_INT(mono_us), V_INT(m->due_us == PR_NEVER ? NOTICE_PARKED : NOTICE_FAILED), V_INT(row),
                          V_TEXT(m->stream), V_TEXT(m->destination)),
                   NULL, reterr);
}

/* PR_OK, PR_DUPLICATE, PR_ECONFLICT: may an event be appended, given the version that it expects? */
static int expectation(struct conn *conn, const struct pr_message *m, struct pr_error *reterr)
{
    struct id_forms forms;
    sqlite3_stmt *s;
    if (!m->expects_version)
        return PR_OK;
    id_forms_init(&forms, m->id);
    int rc = conn_bind(conn, EVENT_EXPECTED, (pr_slice){ NULL, 0 }, VALUES(V_TEXT(m->stream), V_ID_LOWER(forms)), &s,
                       reterr);
    if (rc == PR_OK)
        rc = conn_step(conn, s, reterr);
    if (rc <= 0)
        return rc;
    rc = message_expectation(m, sqlite3_column_int(s, 0) != 0, sqlite3_column_int64(s, 1), reterr);
    sqlite3_reset(s);
    return rc;
}

static int request_store(struct conn *conn, const struct sending *request, int64_t now_us, int64_t mono_us,
                         struct pr_error *reterr)
{
    bool brief = false;
    if (request->count >= MESSAGE_BRIEF_FROM) {
        int rc = message_can_be_brief(conn, request->box, &brief, reterr);
        if (rc != PR_OK)
            return rc;
    }
    for (size_t i = 0; i < request->count; i++) {
        int rc = expectation(conn, &request->messages[i], reterr);
        if (rc == PR_OK)
            rc = message_insert_next(conn, request->box, &request->messages[i], now_us, &brief, reterr);
        if (request->answers != NULL && rc >= 0)
            request->answers[i] = rc;
        if (rc == PR_OK && message_has_failed(&request->messages[i]))
            rc = keep_failure(conn, request->box, &request->messages[i], mono_us, reterr);
        if (rc < 0)
            return rc;
    }
    return PR_OK;
}

static int requests_store(struct conn *conn, struct sending *const *requests, size_t count, int64_t now_us,
                          int64_t mono_us, struct pr_error *reterr)
{
    int rc = conn_begin(conn, true, reterr);
    for (size_t i = 0; i < count && rc == PR_OK; i++)
        rc = request_store(conn, requests[i], now_us, mono_us, reterr);
    FAILPOINT("store.enqueue.before_commit");
    if (rc == PR_OK)
        rc = conn_commit(conn, reterr);
    FAILPOINT("store.enqueue.after_commit");
    conn_rollback(conn);
    return rc;
}

static int sqlite_commit(void *self, struct sending *const *requests, size_t count, struct pr_error *reterr)
{
    struct sqlite_store *store = self;
    struct conn *conn;
    int64_t now_us = store_wall_us(store);
    int rc = store_sender(store, &conn, reterr);
    if (rc != PR_OK)
        return rc;
    conn_lock(conn);
    rc = requests_store(conn, requests, count, now_us, store_mono_us(store), reterr);
    conn_checkpoint(conn, CHECKPOINT_PAGES);
    conn_unlock(conn);
    store_wake(store);
    return rc;
}

int sqlite_enqueue(void *self, pr_slice box, const struct pr_message *messages, size_t count, int *answers,
                   struct pr_error *reterr)
{
    struct sqlite_store *store = self;
    return senders_enqueue(&store->senders, sqlite_commit, store, box, messages, count, answers, reterr);
}
