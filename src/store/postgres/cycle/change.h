/* change.h - applying changes (core/change.h) to rows of one box: one statement for each sort, whatever their number. */
#ifndef STORE_POSTGRES_CYCLE_CHANGE_H
#define STORE_POSTGRES_CYCLE_CHANGE_H

#include "core/change.h"
#include "core/lane.h"
#include "store/postgres/link/link.h"

#define CHANGE_ARRAYS 24

struct ctid_cache;

/* A list of changes in the order of their application. */
struct pg_changes {
    struct link *link;
    pr_slice box;
    const struct change *list;
    size_t count;
    uint64_t lanes;           /* only rows in these lanes may be changed */
    int64_t wall_us, keep_us; /* wall 0: the server's clock */
    struct arena *arena;
    struct array *arrays;     /* CHANGE_ARRAYS of them */
    struct ctid_cache *ctids; /* where rows were seen; NULL: unknown */
    bool wary;                /* other transactions hold rows: lock all with SKIP LOCKED, also those to be deleted */

    const int *blocked; /* per change: an answer other than PR_OK instead of its application; may be NULL */
    int *answers;       /* PR_OK, PR_UNKNOWN, PR_STALE, ANSWER_BUSY */
    uint64_t *split_rows;
    bool any_busy; /* among rows; not because of `blocked` */
};

/* Also runs what is in the batch.  Outcome CYCLE_ANEW: a row is not where it was seen. */
PR_MUST_CHECK int pg_changes_apply(struct pg_changes *changes, struct pr_error *reterr);

/* Can all of them be made in the batch that also commits?  Then there are no answers: a statement that does not change all
 * of its rows fails, and with it everything after it. */
bool pg_changes_fit_one_batch(const struct pg_changes *changes);
/* Only adds them to the batch.  PR_ENOMEM: nothing was added. */
PR_MUST_CHECK int pg_changes_add_one_batch(struct pg_changes *changes);

#endif
