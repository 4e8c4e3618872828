/* Group commit; see senders.h. */
#include "store/senders.h"

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/message.h"

void senders_init(struct senders *senders)
{
    pthread_mutex_init(&senders->lock, NULL);
    list_init(&senders->waiting);
}

void senders_fini(struct senders *senders)
{
    ASSERT(list_is_empty(&senders->waiting));
    pthread_mutex_destroy(&senders->lock);
}

/* ---- The leader ------------------------------------------------------------------------------- */

struct chosen {
    struct sending *requests[SENDERS_TOGETHER_MAX];
    size_t count;
};

static void choose(struct senders *senders, struct chosen *ret)
{
    size_t messages = 0;
    ret->count = 0;
    while (!list_is_empty(&senders->waiting) && messages < SENDERS_MESSAGES_MAX && ret->count < SENDERS_TOGETHER_MAX) {
        struct sending *request = LIST_ENTRY(list_pop_front(&senders->waiting), struct sending, node);
        messages += request->count;
        ret->requests[ret->count++] = request;
    }
}

/* Busy would be busy again for each request in turn; and a request that may be stored must not be stored again. */
static bool is_for_all(int rc)
{
    return rc == PR_OK || rc == PR_EBUSY || rc == PR_EUNCERTAIN;
}

static void commit_chosen(const struct chosen *c, senders_commit *commit, void *store)
{
    struct pr_error error = { .code = PR_OK };
    int rc = commit(store, c->requests, c->count, &error);
    for (size_t i = 0; i < c->count; i++) {
        struct sending *request = c->requests[i];
        request->rc = rc;
        request->error = error;
        if (c->count > 1 && !is_for_all(rc))
            request->rc = commit(store, &c->requests[i], 1, &request->error);
    }
}

/* Commits for all waiting threads, possibly including this one, and wakes them and the next leader: nobody else has
 * anything to do.  Called with the lock held. */
static void lead(struct senders *senders, senders_commit *commit, void *store)
{
    struct chosen chosen;
    senders->leading = true;
    choose(senders, &chosen);
    pthread_mutex_unlock(&senders->lock);
    commit_chosen(&chosen, commit, store);
    pthread_mutex_lock(&senders->lock);
    senders->leading = false;
    for (size_t i = 0; i < chosen.count; i++) {
        chosen.requests[i]->done = true;
        pthread_cond_signal(&chosen.requests[i]->woken);
    }
    if (!list_is_empty(&senders->waiting))
        pthread_cond_signal(&LIST_ENTRY(list_first(&senders->waiting), struct sending, node)->woken);
}

int senders_enqueue(struct senders *senders, senders_commit *commit, void *store, pr_slice box,
                    const struct pr_message *messages, size_t count, int *answers, struct pr_error *reterr)
{
    struct sending request = { .box = box, .messages = messages, .count = count, .answers = answers };
    if (!name_is_valid(box))
        return error_set(reterr, PR_EINVAL, "\"%.*s\" is not a valid box name", SLICE_ARGS(box));
    pthread_cond_init(&request.woken, NULL);
    pthread_mutex_lock(&senders->lock);
    list_push_back(&senders->waiting, &request.node);
    while (!request.done) {
        if (senders->leading)
            pthread_cond_wait(&request.woken, &senders->lock);
        else
            lead(senders, commit, store);
    }
    pthread_mutex_unlock(&senders->lock);
    pthread_cond_destroy(&request.woken);
    if (request.rc != PR_OK && reterr != NULL) {
        *reterr = request.error;
        reterr->code = request.rc;
    }
    return request.rc;
}
