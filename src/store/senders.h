/* Group commit of new messages from several threads.
 *
 * A commit costs a sync of the disk, whatever its size.  So of the threads that arrive while another is committing, the
 * next becomes the leader and commits for all that wait.  A duplicate is no error.  When a group fails, each of its
 * requests is tried again in a transaction of its own, so that one caller's error does not affect the others. */
#ifndef STORE_SENDERS_H
#define STORE_SENDERS_H

#include <postrider.h>

#include <pthread.h>

#include "base/list.h"

#define SENDERS_MESSAGES_MAX 10000 /* locks should be held only briefly */
#define SENDERS_TOGETHER_MAX 48    /* statements in one batch */

struct sending {
    struct list_node node;
    pr_slice box;
    const struct pr_message *messages;
    size_t count;
    int *answers; /* may be NULL */
    int rc;
    struct pr_error error;
    bool done;
    pthread_cond_t woken; /* it is done, or it may lead */
};

/* Stores all requests in one transaction and sets their answers, or stores nothing.  Called by one thread at a time. */
typedef int senders_commit(void *store, struct sending *const *requests, size_t count, struct pr_error *reterr);

struct senders {
    pthread_mutex_t lock;
    struct list waiting; /* struct sending */
    bool leading;        /* a thread commits for the others */
};

void senders_init(struct senders *senders);
void senders_fini(struct senders *senders);

/* Like store_ops.enqueue. */
PR_MUST_CHECK int senders_enqueue(struct senders *senders, senders_commit *commit, void *store, pr_slice box,
                                  const struct pr_message *messages, size_t count, int *answers,
                                  struct pr_error *reterr);

#endif
