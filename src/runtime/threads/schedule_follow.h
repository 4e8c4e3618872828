/* schedule_follow.h - the schedules of the configuration, stored once for each start.
 *
 * All instances of a store share one set of schedules, and of two configurations the one of the later start applies
 * (B212).  So the store has a record: the start time of the process that stored its set last, and what is in the set.
 * Storing a set replaces the record that was read, in the same transaction, or does nothing (store_take()).  So sets
 * are stored one after the other, and an instance that comes late finds the record of a later start, and stores
 * nothing.
 *
 * What is stored are wishes (core/schedule.h), which are taken up in order.  A wish that was not taken up yet is
 * expensive to find: that is why the record has the names, and a hash of each schedule. */
#ifndef RUNTIME_THREADS_SCHEDULE_FOLLOW_H
#define RUNTIME_THREADS_SCHEDULE_FOLLOW_H

#include "base/log.h"
#include "runtime/config/config.h"
#include "store/store.h"

struct schedule_follow_row;

struct schedule_follow {
    struct store *store;
    const struct config_schedule *list; /* from the configuration */
    size_t count;
    int64_t started_us; /* start of this process, by the store's clock */
    size_t payload_max;
    struct log *log; /* may be NULL */

    /* Results of the last look: */
    struct arena arena;
    pr_slice record, own_record; /* the current one, and the new one */
    bool is_late;                /* a process that started later has stored its set: this one stores nothing */
    struct schedule_follow_row *rows;
    size_t row_count;
};

/* The caller sets the first members; the rest is zero. */
void schedule_follow_init(struct schedule_follow *f);
void schedule_follow_fini(struct schedule_follow *f);
/* Finds out what to store. */
PR_MUST_CHECK int schedule_follow_look(struct schedule_follow *f, struct pr_error *reterr);
/* Stores it.  Outcome PR_STALE: another instance has stored its set since the look, which must be repeated. */
PR_MUST_CHECK int schedule_follow_store(struct schedule_follow *f, struct pr_error *reterr);
/* Both, until done. */
PR_MUST_CHECK int schedule_follow(struct schedule_follow *f, struct pr_error *reterr);

#endif
