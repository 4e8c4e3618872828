/* enqueue.c - new messages, committed together (store/senders.h). */
#include "base/error.h"
#include "base/failpoint.h"
#include "store/sqlite/message.h"
#include "store/sqlite/sqlite.h"

#define CHECKPOINT_PAGES 16384 /* 64 MiB: nobody works the boxes, so we must do it */

static int request_store(struct conn *conn, const struct sending *request, int64_t now_us, struct pr_error *reterr)
{
    for (size_t i = 0; i < request->count; i++) {
        int rc = message_insert(conn, request->box, &request->messages[i], now_us, reterr);
        if (rc < 0)
            return rc;
        if (request->answers != NULL)
            request->answers[i] = rc;
    }
    return PR_OK;
}

static int requests_store(struct conn *conn, struct sending *const *requests, size_t count, int64_t now_us,
                          struct pr_error *reterr)
{
    int rc = conn_begin(conn, true, reterr);
    for (size_t i = 0; i < count && rc == PR_OK; i++)
        rc = request_store(conn, requests[i], now_us, reterr);
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
    rc = requests_store(conn, requests, count, now_us, reterr);
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
