/* New messages, committed together when several threads send (store/senders.h).  They share one
 * connection: one statement holds all messages of a call, all calls travel in one batch, and what was
 * sent before the connection was lost without a COMMIT is sent again. */
#include "base/error.h"
#include "base/failpoint.h"
#include "store/postgres/postgres.h"

_Static_assert(2 * SENDERS_TOGETHER_MAX + 3 <= LINK_STEPS_MAX, "a statement may have to be prepared first");

static void add_request(struct postgres_store *store, const struct sending *request, PGresult **ret)
{
    struct args args;
    batch_begin(&store->batch);
    for (size_t i = 0; i < request->count; i++)
        batch_add(&store->batch, &request->messages[i]);
    batch_args(&store->batch, pg_store_wall_us(store), &args);
    link_add(store->sender, PG_MESSAGE_INSERT, request->box, &args, ret);
}

static int commit_once(struct postgres_store *store, struct sending *const *requests, size_t count,
                       struct pr_error *reterr)
{
    struct link *link = store->sender;
    PGresult    *results[SENDERS_TOGETHER_MAX] = { NULL };
    int          rc = link_ensure(link, reterr);
    if (rc != PR_OK)
        return rc;
    link_add_begin(link);
    for (size_t i = 0; i < count; i++)
        add_request(store, requests[i], &results[i]);
    FAILPOINT("store.enqueue.before_commit");
    link_add_commit(link);
    rc = link_run(link, reterr);
    FAILPOINT("store.enqueue.after_commit");
    for (size_t i = 0; i < count && rc == PR_OK; i++)
        if (requests[i]->answers != NULL)
            batch_answers(results[i], requests[i]->messages, requests[i]->count, requests[i]->answers);
    link_rollback(link);
    link_forget(link);
    return rc;
}

static int pg_commit(void *self, struct sending *const *requests, size_t count, struct pr_error *reterr)
{
    struct postgres_store *store = self;
    int                    rc = commit_once(store, requests, count, reterr);
    bool lost = rc != PR_OK && !link_is_up(store->sender) && store->sender->retry_wait_us == 0;
    if (rc != PR_OK && link_is_uncertain(store->sender))
        rc = error_set(reterr, PR_EUNCERTAIN, "the connection was lost during the commit: the messages may be stored;"
                                              " send them again with the same ids");
    else if (lost || (rc != PR_OK && link_should_retry(store->sender)))
        rc = commit_once(store, requests, count, reterr);
    if (rc == PR_OK)
        pg_store_wake(store);
    return rc;
}

int pg_enqueue(void *self, pr_slice box, const struct pr_message *messages, size_t count, int *answers,
               struct pr_error *reterr)
{
    struct postgres_store *store = self;
    return senders_enqueue(&store->senders, pg_commit, store, box, messages, count, answers, reterr);
}
