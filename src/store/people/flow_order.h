/* flow_order.h - orders about flows, in the transaction that order.c has begun. */
#ifndef STORE_PEOPLE_FLOW_ORDER_H
#define STORE_PEOPLE_FLOW_ORDER_H

#include "store/sql.h"
#include "store/store.h"

/* FLOW_DELETE and FLOW_PRUNE.  The arena is for what it takes. */
PR_MUST_CHECK int flow_order_run(struct sql *sql, const struct admin *admin, struct arena *arena,
                                 struct admin_reply *reply);

/* The messages to the flow of an activity that a person ends with DISCARD or DEAD_ADD; *ret and its texts are in the arena.
 * Outcome PR_UNKNOWN: it is another order, or no activity.  Fault PR_ENOMEM. */
PR_MUST_CHECK int flow_order_result(const struct admin *admin, const struct pr_message *m, struct arena *arena,
                                    struct pr_message *ret);

/* What replaying a dead letter of the boxes of flows means. */
enum flow_letter_kind {
    FLOW_LETTER_PLAIN, /* the same as of any other: it goes back into its box */
    FLOW_LETTER_RESUMES, /* its flow failed by it, and goes on from before that: the letter is used up by these messages */
    FLOW_LETTER_LATE,    /* its flow went on without it, ended otherwise, or is gone */
};
struct flow_letter {
    enum flow_letter_kind kind;
    struct pr_message messages[2]; /* RESUMES, in their order, for the box of turns; in the arena */
    size_t count;
};
/* Fault PR_ENOMEM, and those of the store. */
PR_MUST_CHECK int flow_order_letter(struct sql *sql, const struct admin *admin, pr_slice box,
                                    const struct pr_message *m, struct arena *arena, struct flow_letter *ret);

/* The box of turns, where messages to flows go. */
pr_slice flow_order_turns(const struct admin *admin);

#endif
