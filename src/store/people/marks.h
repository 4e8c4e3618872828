/* Marks (core/mark.h) as people's orders meet them: what a person discards leaves one, and what has one is not replayed
 * unless he insists. */
#ifndef STORE_PEOPLE_MARKS_H
#define STORE_PEOPLE_MARKS_H

#include "store/people/listing_context.h"
#include "store/sql.h"

struct marks {
    struct sql *sql;
    const struct listing_context *s;
    int64_t *dedupe_us; /* of each box of s; -1: not asked yet */
};

/* The arena keeps what is asked.  Fault PR_ENOMEM. */
PR_MUST_CHECK int marks_init(struct marks *m, struct sql *sql, const struct listing_context *s, struct arena *arena);
/* Since when has this handler ended it?  0: it has not.  Marks that the box makes no
 * more count, too: dedupe may be switched on again before what is replayed is handled. */
PR_MUST_CHECK int marks_find(struct marks *m, pr_slice box, pr_id id, pr_slice handler, int64_t *ret_at_us);
/* A person has ended a row with this destination.  Nothing where the box has no marks. */
PR_MUST_CHECK int marks_add(struct marks *m, const struct ended *ended, pr_slice destination, int64_t now_us);
PR_MUST_CHECK int marks_drop(struct marks *m, pr_slice box, pr_id id, pr_slice handler);

#endif
