/* schedule_keeper.h - a thread that keeps the schedules of the store in step with the configuration, and with the
 * clock.
 *
 * When it starts it stores those of the configuration: see schedule_follow.h.
 *
 * It also corrects next times that a wrong clock has set too far in the future: when it starts, and when it sees the
 * clock of the store go back.  And it assigns places to events, for roles that may only read them, and stores errors of
 * the sources of this process, for people who ask the store. */
#ifndef RUNTIME_THREADS_SCHEDULE_KEEPER_H
#define RUNTIME_THREADS_SCHEDULE_KEEPER_H

#include "base/buf.h"
#include "base/log.h"
#include "runtime/config/config.h"
#include "store/store.h"

struct schedule_keeper;

/* describe: see source_threads_describe(); called from the keeper's thread. */
PR_MUST_CHECK int schedule_keeper_new(const struct config *config, struct store *store, struct log *log,
                                      void (*describe)(void *arg, struct buf *ret), void *describe_arg,
                                      struct schedule_keeper **ret, struct pr_error *reterr);
PR_MUST_CHECK int schedule_keeper_start(struct schedule_keeper *k, struct pr_error *reterr);
/* Switches to this configuration, as one that starts now; it is borrowed until free.  Does not wait. */
void schedule_keeper_retune(struct schedule_keeper *k, const struct config *config);
void schedule_keeper_stop(struct schedule_keeper *k); /* does not wait for its end: a store may not answer */
void schedule_keeper_join(struct schedule_keeper *k); /* no-op when it does not run */
void schedule_keeper_free(struct schedule_keeper *k); /* waits for its end; NULL is allowed */

#endif
