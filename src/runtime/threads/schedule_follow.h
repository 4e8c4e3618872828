/* schedule_follow.h - the schedules of the configuration, stored once for each start.
 *
 * All instances of a store share one set of schedules, and of two configurations the one of the later start counts (B212).  So the
 * store has a record: when the process started that stored its set last, and what is in it.  Whoever stores a set
 * replaces the record that it has seen, in the same transaction, or nothing happens (store_take()).  So sets are stored one
 * behind the other, and an instance that comes late finds the record of the later start, and stores nothing.
 *
 * What is stored are wishes (core/schedule.h), which are taken up in their order.  One that was not taken up yet is expensive to find:
 * that is why the record has the names, and a hash of what each schedule says. */
#ifndef RUNTIME_THREADS_SCHEDULE_FOLLOW_H
#define RUNTIME_THREADS_SCHEDULE_FOLLOW_H

#include "base/log.h"
#include "runtime/config/config.h"
#include "store/store.h"

struct schedule_follow_row;

struct schedule_follow {
    struct store *store;
    const struct config_schedule *list; /* of the configuration */
    size_t count;
    int64_t started_us; /* this process, by the store's clock */
    size_t payload_max;
    struct log *log; /* may be NULL */

    /* What the last look has found: */
    struct arena arena;
    pr_slice record, own_record; /* as it is, and as it is to be */
    bool is_late;                /* a later start has stored its set: this one stores nothing */
    struct schedule_follow_row *rows;
    size_t row_count;
};

/* The struct's first part is set by the caller; the rest is zero. */
void schedule_follow_init(struct schedule_follow *f);
void schedule_follow_fini(struct schedule_follow *f);
/* Finds out what is to be stored. */
PR_MUST_CHECK int schedule_follow_look(struct schedule_follow *f, struct pr_error *reterr);
/* Stores it.  Outcome PR_STALE: another instance has stored its set since the look, which is to be done again. */
PR_MUST_CHECK int schedule_follow_store(struct schedule_follow *f, struct pr_error *reterr);
/* Both, until it is done. */
PR_MUST_CHECK int schedule_follow(struct schedule_follow *f, struct pr_error *reterr);

#endif
