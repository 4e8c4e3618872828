/* inside.h - the parts of runtime.h that its files share: the runtime, and everything that belongs to one
 * configuration. */
#ifndef RUNTIME_INSIDE_H
#define RUNTIME_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"
#include "runtime/program.h"
#include "runtime/relay/relay.h"
#include "runtime/runtime.h"
#include "store/store.h"

/* A relay that was stopped while a part of it had not ended: freed when that part has ended, without anybody
 * waiting. */
struct leftover {
    struct leftover *next;
    struct relay *relay;
    struct store *store; /* NULL: it is still in use */
    struct config *config;
};

enum runtime_state { RUNTIME_NEW, RUNTIME_RUNNING, RUNTIME_STOPPED };

struct runtime {
    struct runtime_options options;
    struct program program;

    atomic_bool stops;

    /* start, reload and stop run one at a time, under this lock; ... */
    pthread_mutex_t change_lock;
    /* ... the following members also change under this lock, and are read under it. */
    pthread_rwlock_t lock;
    enum runtime_state state;
    struct config *config;
    struct store *store;
    struct relay *relay;
    void *front;
    struct feed *feed;
    struct pull *pull;
    struct pr_engine_counts past; /* of earlier relays */
    struct leftover *leftovers;   /* under change_lock */

    pthread_mutex_t fault_lock;
    struct pr_error fault;
    int fault_fd;
};

/* Everything that belongs to one configuration. */
struct works {
    struct config *config;
    struct store *store;
    struct relay *relay;
    void *front;
};

static inline void read_lock(struct runtime *rt)
{
    ASSERT(pthread_rwlock_rdlock(&rt->lock) == 0);
}

static inline void read_unlock(struct runtime *rt)
{
    ASSERT(pthread_rwlock_unlock(&rt->lock) == 0);
}

void runtime_on_fault(void *arg, const struct pr_error *fault); /* arg: the runtime; the first fault is kept */

/* ---- Works (works.c) ---- */

/* Creates what does not exist yet; only the front is started. */
PR_MUST_CHECK int works_prepare(struct runtime *rt, struct works *w, struct pr_error *reterr);
/* Makes these current; returns the previous ones. */
struct works works_swap(struct runtime *rt, struct works works, enum runtime_state state);
void works_log_started(const struct runtime *rt, const struct works *w);
bool front_is_same(const struct config *a, const struct config *b);
void front_stop(const struct runtime *rt, void *front); /* NULL is allowed */
void store_free(struct store *store);                   /* NULL is allowed */
/* Keeps what has been stopped and may still be running. */
void leftover_add(struct runtime *rt, struct relay *relay, struct store *store, struct config *config);
void leftovers_free(struct runtime *rt, bool wait); /* frees those that have ended, or, waiting for them, all */

/* With the change lock held, while it runs (reload.c). */
PR_MUST_CHECK int reload(struct runtime *rt, struct config *config, struct pr_error *reterr);

#endif
