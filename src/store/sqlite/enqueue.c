/* enqueue.c - new messages, committed together.
 *
 * A commit costs a sync of the disk, whatever is in it.  So of the threads that come while one
 * is committing, the next becomes the leader and commits for all that wait.  A duplicate is no
 * error; a real error is met again alone: when a group fails, each of its requests is tried in
 * a transaction of its own, so that one caller's trouble is not another's. */
#include "base/error.h"
#include "base/failpoint.h"
#include "base/slice.h"
#include "store/sqlite/message.h"
#include "store/sqlite/sqlite.h"

#define GROUP_MESSAGES_MAX 10000 /* the write lock should be held for a moment only */
#define CHECKPOINT_PAGES 16384   /* 64 MiB: nobody works the boxes, so we must do it */

struct enqueue_request {
    struct list_node node;
    pr_slice box;
    const struct pr_message *messages;
    size_t count;
    int *answers; /* may be NULL */
    int rc;
    struct pr_error error;
    bool done;
};

void enqueue_init(struct enqueue_queue *queue)
{
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, NULL);
    list_init(&queue->waiting);
}

void enqueue_fini(struct enqueue_queue *queue)
{
    ASSERT(list_is_empty(&queue->waiting));
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
}

static int request_store(struct conn *conn, struct enqueue_request *request, int64_t now_us)
{
    for (size_t i = 0; i < request->count; i++) {
        int rc = message_insert(conn, request->box, &request->messages[i], now_us, &request->error);
        if (rc < 0)
            return rc;
        if (request->answers != NULL)
            request->answers[i] = rc;
    }
    return PR_OK;
}

/* All of the list in one transaction; a fault is that of the first that failed. */
static int group_store(struct conn *conn, struct list *group, int64_t now_us, struct pr_error *reterr)
{
    int rc = conn_begin(conn, true, reterr);
    list_foreach (node, group) {
        struct enqueue_request *request = LIST_ENTRY(node, struct enqueue_request, node);
        if (rc == PR_OK && (rc = request_store(conn, request, now_us)) != PR_OK)
            *reterr = request->error;
    }
    FAILPOINT("store.enqueue.before_commit");
    if (rc == PR_OK)
        rc = conn_commit(conn, reterr);
    FAILPOINT("store.enqueue.after_commit");
    conn_rollback(conn);
    return rc;
}

static void group_finish(struct list *group, struct list *ret_done, int rc, const struct pr_error *error)
{
    while (!list_is_empty(group)) {
        struct list_node *node = list_pop_front(group);
        struct enqueue_request *request = LIST_ENTRY(node, struct enqueue_request, node);
        request->rc = rc;
        if (rc != PR_OK)
            request->error = *error;
        list_push_back(ret_done, node);
    }
}

static void group_run(struct sqlite_store *store, struct list *group, struct list *ret_done)
{
    struct conn *conn;
    struct pr_error error = { .code = PR_OK };
    int64_t now_us = store_wall_us(store);
    int rc = store_sender(store, &conn, &error);
    if (rc != PR_OK) {
        group_finish(group, ret_done, rc, &error);
        return;
    }
    conn_lock(conn);
    rc = group_store(conn, group, now_us, &error);
    bool single = list_first(group) == list_last(group);
    if (rc == PR_OK || single || rc == PR_EBUSY) /* busy would be busy for each, one after the other */
        group_finish(group, ret_done, rc, &error);
    while (!list_is_empty(group)) {
        struct list one;
        list_init(&one);
        list_push_back(&one, list_pop_front(group));
        rc = group_store(conn, &one, now_us, &error);
        group_finish(&one, ret_done, rc, &error);
    }
    conn_checkpoint(conn, CHECKPOINT_PAGES);
    conn_unlock(conn);
    store_wake(store);
}

static void group_choose(struct enqueue_queue *queue, struct list *ret_group)
{
    size_t messages = 0;
    list_init(ret_group);
    while (!list_is_empty(&queue->waiting) && messages < GROUP_MESSAGES_MAX) {
        struct list_node *node = list_pop_front(&queue->waiting);
        messages += LIST_ENTRY(node, struct enqueue_request, node)->count;
        list_push_back(ret_group, node);
    }
}

/* Commit for those who wait, ourselves among them.  The queue is locked. */
static void lead(struct sqlite_store *store)
{
    struct enqueue_queue *queue = &store->queue;
    struct list group, done;

    list_init(&done);
    queue->leading = true;
    group_choose(queue, &group);
    pthread_mutex_unlock(&queue->lock);
    group_run(store, &group, &done);
    pthread_mutex_lock(&queue->lock);
    queue->leading = false;
    while (!list_is_empty(&done))
        LIST_ENTRY(list_pop_front(&done), struct enqueue_request, node)->done = true;
    pthread_cond_broadcast(&queue->changed);
}

int sqlite_enqueue(void *self, pr_slice box, const struct pr_message *messages, size_t count, int *answers,
                   struct pr_error *reterr)
{
    struct sqlite_store *store = self;
    struct enqueue_queue *queue = &store->queue;
    struct enqueue_request request = { .box = box, .messages = messages, .count = count, .answers = answers };

    if (!name_is_valid(box))
        return error_set(reterr, PR_EINVAL, "\"%.*s\" is not the name of a box", SLICE_ARGS(box));
    pthread_mutex_lock(&queue->lock);
    list_push_back(&queue->waiting, &request.node);
    while (!request.done) {
        if (queue->leading)
            pthread_cond_wait(&queue->changed, &queue->lock);
        else
            lead(store);
    }
    pthread_mutex_unlock(&queue->lock);
    if (request.rc != PR_OK)
        return error_set(reterr, request.rc, "%s", request.error.text);
    return PR_OK;
}
