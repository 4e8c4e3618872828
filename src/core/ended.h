/* The ledger of ended messages: it says when, where, by whom and at which attempt a message was delivered, discarded or
 * expired after its row is gone (B89).
 *
 * It is written in the transaction of the verdicts.  To keep its cost low, it has no row per message: messages that
 * ended in one cycle in the same way share one entry, with their ids concatenated.  Entries are found by the minute in
 * which the ids were made, which is part of a UUIDv7; other ids have a bucket of their own. */
#ifndef CORE_ENDED_H
#define CORE_ENDED_H

#include "base/arena.h"
#include "core/cycle.h"

/* Stored values. */
enum ended_as {
    ENDED_DELIVERED = 1,
    ENDED_DISCARDED = 2, /* by a rule or a handler */
    ENDED_EXPIRED = 3,
    ENDED_DUPLICATE = 5, /* the handler had another row of this id, ended one before, or has a dead letter of it */
    ENDED_BY_PERSON = 4, /* discarded by a person, who stands in the entry in place of the instance */
};

/* "delivered", "discarded", "expired", "duplicate"; NULL for an unknown number. */
const char *ended_name(int as);
/* 0 for an unknown word. */
int ended_parse(pr_slice name);

#define ENDED_BUCKET_NONE (-1)
/* The minute in which the id was made; ENDED_BUCKET_NONE: the id does not say. */
int64_t ended_bucket(pr_id id);

struct ended {
    pr_id id;
    pr_slice box, endpoint;
    enum ended_as as;
    int attempt; /* hand-outs including the one that ended it; 0: never handed out */
};

/* Does the verdict end its message when it is applied?  Not when `keeps` is set and the message was delivered, because
 * `done` records that; and not when it moves to another endpoint.  The caller fills in the box. */
bool ended_of_verdict(const struct verdict *verdict, bool keeps, struct ended *ret);
/* Does this answer to the verdict mean that the message has ended? (A message that its receiver completed itself is
 * gone when the store is asked.) */
bool ended_is_so(const struct verdict *verdict, int answer);

/* The messages that ended in a cycle, for verdicts that were applied; in the arena.  Parts that a split left out,
 * because their destinations have the message already, end as duplicates: split_rows is 0 for them (NULL is allowed
 * where there are no splits).  NULL: out of memory. */
struct ended *ended_of_cycle(const struct cycle *cycle, const int *answers, const uint64_t *split_rows,
                             struct arena *arena, size_t *ret_count);
size_t verdict_part_count(const struct verdict *v); /* of a split; 0 for others */
/* The number of parts of all its splits, whatever became of them. */
size_t ended_part_count(const struct cycle *cycle);
/* Tallies of the endpoints whose parts were left out by splits; in the arena.  NULL: out of memory. */
struct tally *ended_tallies(const struct cycle *cycle, const int *answers, const uint64_t *split_rows,
                            struct arena *arena, size_t *ret_count);

struct ended_entry {
    int64_t bucket;
    pr_slice box, endpoint;
    enum ended_as as;
    int attempt;
    pr_slice ids; /* 16 bytes each */
};

/* One entry per (bucket, box, endpoint, as, attempt), in the order of their first occurrence; in the arena.  NULL: out
 * of memory. */
struct ended_entry *ended_group(const struct ended *list, size_t count, struct arena *arena, size_t *ret_count);

/* Is id one of these ids?  A match of bytes that crosses the border of two ids does not count. */
bool ended_holds(pr_slice ids, pr_id id);

#endif
