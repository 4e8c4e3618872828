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

/* Do all changes only delete rows where they were seen? */
bool pg_changes_delete_by_ctid(const struct pg_changes *changes);
/* If so: puts $1 to $3 of a statement; returns the number of rows. */
size_t pg_changes_put_ctids(const struct pg_changes *changes, struct args *args);

#endif
