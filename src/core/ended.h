/* The ledger of what has ended: of a message that is no more it tells when, where, by whom and at which attempt it was
 * delivered, discarded or expired (B89).
 *
 * It is written with the verdicts, in their transaction.  So that it costs next to nothing, it has no row per message: those
 * that ended in one cycle in the same way are one entry with their ids behind each other.  An entry is found by the minute
 * in which its ids were made, which a UUIDv7 says itself; ids that say nothing are in a bucket of their own. */
#ifndef CORE_ENDED_H
#define CORE_ENDED_H

#include "base/arena.h"
#include "core/cycle.h"

/* As stored. */
enum ended_as {
    ENDED_DELIVERED = 1,
    ENDED_DISCARDED = 2, /* by a rule or a handler */
    ENDED_EXPIRED = 3,
    ENDED_DUPLICATE = 5, /* its handler had another row of this id, had ended one before, or has a dead letter of it */
    ENDED_BY_PERSON = 4, /* discarded, by whom the entry names in the place of an instance */
};

/* "delivered", "discarded", "expired", "duplicate"; NULL for what is none. */
const char *ended_name(int as);
/* 0 for a word that is none. */
int ended_parse(pr_slice name);

#define ENDED_BUCKET_NONE (-1)
/* The minute in which the id was made; ENDED_BUCKET_NONE: it does not say. */
int64_t ended_bucket(pr_id id);

struct ended {
    pr_id id;
    pr_slice box, endpoint;
    enum ended_as as;
    int attempt; /* hand-outs so far, with the one that ended it; 0: it was never handed out */
};

/* Does the verdict, when it is applied, end its message?  keeps: what is delivered stays readable in done, which says it
 * already.  What moves to another endpoint has not ended.  The box is the caller's to fill in. */
bool ended_of_verdict(const struct verdict *verdict, bool keeps, struct ended *ret);
/* Does this answer to it mean that it has?  (What a receiver completed itself is gone when it is asked for.) */
bool ended_is_so(const struct verdict *verdict, int answer);

/* Those of a cycle whose verdicts were applied; in the arena.  Parts that a split left out, since their destinations have the
 * message already, end as duplicates: split_rows is 0 for them (may be NULL, where there are no splits).  NULL: no memory. */
struct ended *ended_of_cycle(const struct cycle *cycle, const int *answers, const uint64_t *split_rows,
                             struct arena *arena, size_t *ret_count);
/* Parts of splits in it, whatever became of them. */
size_t ended_part_count(const struct cycle *cycle);
/* The parts that its splits left out, as counts of their endpoints; in the arena.  NULL: no memory. */
struct tally *ended_tallies(const struct cycle *cycle, const int *answers, const uint64_t *split_rows,
                            struct arena *arena, size_t *ret_count);

struct ended_entry {
    int64_t bucket;
    pr_slice box, endpoint;
    enum ended_as as;
    int attempt;
    pr_slice ids; /* 16 bytes each */
};

/* One entry for each (bucket, box, endpoint, as, attempt), in the order in which they appear; in the arena.  NULL: no memory. */
struct ended_entry *ended_group(const struct ended *list, size_t count, struct arena *arena, size_t *ret_count);

/* Is it one of these ids?  Where their bytes are merely found across the border of two it is not. */
bool ended_holds(pr_slice ids, pr_id id);

#endif
