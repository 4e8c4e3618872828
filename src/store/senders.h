/* New messages of several threads, committed together.
 *
 * A commit costs a sync of the disk, whatever is in it.  So of the threads that come while one is
 * committing, the next becomes the leader and commits for all that wait.  A duplicate is no error; a
 * real error is met again alone: when a group fails, each of its requests is tried in a
 * transaction of its own, so that one caller's trouble is not another's. */
#ifndef STORE_SENDERS_H
#define STORE_SENDERS_H

#include <postrider.h>

#include <pthread.h>

#include "base/list.h"

#define SENDERS_MESSAGES_MAX 10000 /* locks should be held for a moment only */
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
};

/* Store all requests in one transaction and set their answers, or store nothing.  One thread at a
 * time. */
typedef int senders_commit(void *store, struct sending *const *requests, size_t count, struct pr_error *reterr);

struct senders {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct list waiting; /* struct sending */
    bool leading;        /* somebody commits for the others */
};

void senders_init(struct senders *senders);
void senders_fini(struct senders *senders);

/* As store_ops.enqueue. */
PR_MUST_CHECK int senders_enqueue(struct senders *senders, senders_commit *commit, void *store, pr_slice box,
                                  const struct pr_message *messages, size_t count, int *answers,
                                  struct pr_error *reterr);

#endif
