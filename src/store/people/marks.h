/* Marks (core/mark.h) in people's orders: discarding a message leaves one, and a message that has one is not replayed
 * unless the order insists. */
#ifndef STORE_PEOPLE_MARKS_H
#define STORE_PEOPLE_MARKS_H

#include "store/people/listing_context.h"
#include "store/sql.h"

struct marks {
    struct sql *sql;
    const struct listing_context *s;
    int64_t *dedupe_us; /* one for each box of s; -1: not read yet */
};

/* Results are kept in the arena.  Fault PR_ENOMEM. */
PR_MUST_CHECK int marks_init(struct marks *m, struct sql *sql, const struct listing_context *s, struct arena *arena);
/* When this handler ended the message; 0: it has not.  Marks count even when the box no longer makes them: dedupe may
 * be enabled again before the replayed message is handled. */
PR_MUST_CHECK int marks_find(struct marks *m, pr_slice box, pr_id id, pr_slice handler, int64_t *ret_at_us);
/* A person has ended a row with this destination.  No-op where the box has no marks. */
PR_MUST_CHECK int marks_add(struct marks *m, const struct ended *ended, pr_slice destination, int64_t now_us);
PR_MUST_CHECK int marks_drop(struct marks *m, pr_slice box, pr_id id, pr_slice handler);

#endif
