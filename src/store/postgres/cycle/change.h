/* change.h - applying changes (core/change.h) to rows of one box: one statement for each sort, whatever their number. */
#ifndef STORE_POSTGRES_CYCLE_CHANGE_H
#define STORE_POSTGRES_CYCLE_CHANGE_H

#include "core/change.h"
#include "core/lane.h"
#include "store/postgres/link/link.h"

#define CHANGE_ARRAYS 24

struct ctid_cache;

/* Changes on their way, in their order. */
struct pg_changes {
    struct link *link;
    pr_slice box;
    const struct change *list;
    size_t count;
    uint64_t lanes;           /* only rows in these are ours to change */
    int64_t wall_us, keep_us; /* wall 0: the server's clock */
    struct arena *arena;
    struct array *arrays;     /* CHANGE_ARRAYS of them */
    struct ctid_cache *ctids; /* where rows were seen; NULL: not known */
    bool wary;                /* somebody holds rows: take all of them by SKIP LOCKED, also those that are deleted */

    const int *blocked; /* of each: not to be applied, with this answer; NULL or PR_OK: it goes */
    int *answers;       /* PR_OK, PR_UNKNOWN, PR_STALE, ANSWER_BUSY */
    uint64_t *split_rows;
    bool any_busy; /* rows; not what is blocked */
};

/* Runs what is in the batch, too.  Outcome CYCLE_ANEW: a row is not where it was seen. */
PR_MUST_CHECK int pg_changes_apply(struct pg_changes *changes, struct pr_error *reterr);

/* Do all of them only delete rows where they were seen? */
bool pg_changes_delete_by_ctid(const struct pg_changes *changes);
/* Then: these are $1 to $3 of a statement.  The number of rows. */
size_t pg_changes_put_ctids(const struct pg_changes *changes, struct args *args);

#endif
