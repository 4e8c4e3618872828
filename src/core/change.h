/* A change as data: which row, what must still be true of it, what is written, and what becomes of it.
 *
 * What a verdict or a person's order means for its row is decided here, once.  A store finds the row, compares the
 * guards, writes, and answers; it knows neither verdicts nor operators. */
#ifndef CORE_CHANGE_H
#define CORE_CHANGE_H

#include "core/cycle.h"
#include "core/fingerprint.h"
#include "core/order.h"

/* Conditions that must still hold; otherwise the answer is PR_STALE and nothing changes. */
enum change_guard {
    GUARD_ATTEMPTS = 1, /* attempts == attempts_are: no verdict came since, and no person reset the counters */
    GUARD_NOT_PARKED = 2,
    GUARD_NOT_RELEASED = 4,
    GUARD_DUE = 16,       /* due_at == due_is_us */
    GUARD_MAY_UNPARK = 8, /* if the row is parked, then for want of a route, and not by a person or a rule */
};

/* Which values are written; bits are always OR-ed into status. */
enum change_set {
    SET_ATTEMPTS = 1,
    ADD_FAILURE = 2,    /* failures + 1 */
    SET_NEW_COUNT = 4,  /* attempts = failures = 0, and open receipts forget the row */
    SET_REASON = 8,     /* reason and code */
    SET_FAILED_AT = 16, /* to the store's now */
    SET_DUE = 32,       /* to the store's now + delay_us; PR_NEVER: the row is parked, by parked_by */
    KEEP_PARKED = 64,   /* with SET_DUE: a parked row stays parked */
    SET_HELD = 128,     /* held_by and held_for; empty: not held */
    SET_RELEASED = 256,
    SET_STORY = 512,
    SET_ERROR = 1024,
    SET_DUE_AT = 4096, /* to the time due_us */
    SET_NOTE = 2048,   /* of a dead letter: appended to its existing note */
};

/* What becomes of a row of a box ... */
enum fate {
    FATE_STAYS,
    FATE_GONE,
    FATE_DONE,  /* moves to `done`, for the cycle's keep_us */
    FATE_DEAD,  /* moves to the dead letters */
    FATE_SPLIT, /* is replaced by one row per destination */
    /* ... and of a dead letter. */
    FATE_BACK,   /* moves back into its box, unless that has its id and destination already */
    FATE_COPIED, /* stays, and a corrected copy goes into the box: message_edited() */
};

struct change {
    uint64_t row;
    pr_id id;
    unsigned guards; /* enum change_guard */
    unsigned sets;   /* enum change_set */
    enum fate fate;

    int attempts_are;
    int attempts, bits, reason;
    int held_for, parked_by;
    int64_t delay_us, due_us, due_is_us;
    pr_slice code, error, held_by, story, note;

    /* FATE_DONE and FATE_DEAD: */
    pr_slice endpoint; /* empty: the row's destination */
    pr_slice rule;
    int cause, limit;
    char fingerprint[FINGERPRINT_SIZE];

    /* FATE_SPLIT: */
    const pr_slice *destinations;
    const struct part_holder *holders; /* NULL: all parts wait for room at their endpoints */
    size_t destination_count;
};

/* keeps: the box keeps completed rows in `done`. The slices are borrowed from the verdict. */
struct change change_of_verdict(const struct verdict *verdict, bool keeps);

/* Memory for the texts of an order's change, which are valid until the next change is made with it. */
struct order_texts {
    struct buf story, note;
};
void order_texts_init(struct order_texts *texts);
void order_texts_fini(struct order_texts *texts);

/* What the order does to this row (of a box, or a dead letter). row: the store's name for it. endpoint: where it was
 * going, as far as known.  Fault PR_ENOMEM. */
PR_MUST_CHECK int change_of_order(const struct row_order *order, const struct pr_message *m, uint64_t row,
                                  pr_slice endpoint, int64_t now_us, struct order_texts *texts, struct change *ret);

/* Do the guards hold for this row? */
bool change_holds(const struct change *change, const struct pr_message *m);

/* The value of parked_by that is written. */
int change_parked_by(const struct change *change, const struct pr_message *m);

/* Apply the change to the numbers of a row that stays, ends or comes back.  Its texts are up to the caller. */
void change_write(const struct change *change, struct pr_message *m, int64_t now_us);

/* What this part of a split waits for. */
struct part_holder change_part_holder(const struct change *change, size_t part);

/* The due time that is written; never 0, which marks a fresh row. */
int64_t change_due_us(const struct change *change, const struct pr_message *m, int64_t now_us);

#endif
