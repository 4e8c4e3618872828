/* New messages, committed when it returns.  Many callers share one connection: one statement
 * holds all messages of a call, and what was sent before the connection was lost without a
 * COMMIT is sent again. */
#include "base/error.h"
#include "base/failpoint.h"
#include "base/slice.h"
#include "store/postgres/postgres.h"

static int enqueue_once(struct postgres_store *store, pr_slice box, const struct pr_message *messages, size_t count,
                        int *answers, struct pr_error *reterr)
{
    struct link *link = store->sender;
    PGresult    *result = NULL;
    struct args  args;
    int          rc = link_ensure(link, reterr);
    if (rc != PR_OK)
        return rc;
    batch_begin(&store->batch);
    for (size_t i = 0; i < count; i++)
        batch_add(&store->batch, &messages[i]);
    batch_args(&store->batch, pg_store_wall_us(store), &args);
    link_add_begin(link);
    link_add(link, PG_MESSAGE_INSERT, box, &args, &result);
    FAILPOINT("store.enqueue.before_commit");
    link_add_commit(link);
    rc = link_run(link, reterr);
    FAILPOINT("store.enqueue.after_commit");
    if (rc == PR_OK && answers != NULL)
        batch_answers(result, messages, count, answers);
    link_rollback(link);
    link_forget(link);
    return rc;
}

int pg_enqueue(void *self, pr_slice box, const struct pr_message *messages, size_t count, int *answers,
               struct pr_error *reterr)
{
    struct postgres_store *store = self;
    if (!name_is_valid(box))
        return error_set(reterr, PR_EINVAL, "\"%.*s\" is not the name of a box", SLICE_ARGS(box));
    pthread_mutex_lock(&store->sender_lock);
    int rc = enqueue_once(store, box, messages, count, answers, reterr);
    bool lost = rc != PR_OK && !link_is_up(store->sender) && store->sender->retry_wait_us == 0;
    if (rc != PR_OK && link_is_uncertain(store->sender))
        rc = error_set(reterr, PR_EUNCERTAIN, "the connection was lost during the commit: the messages may be stored;"
                                              " send them again with the same ids");
    else if (lost || (rc != PR_OK && link_should_retry(store->sender)))
        rc = enqueue_once(store, box, messages, count, answers, reterr);
    pthread_mutex_unlock(&store->sender_lock);
    if (rc == PR_OK)
        pg_store_wake(store);
    return rc;
}
