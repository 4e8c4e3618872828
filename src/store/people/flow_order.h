/* flow_order.h - orders about flows, in the transaction that order.c has begun. */
#ifndef STORE_PEOPLE_FLOW_ORDER_H
#define STORE_PEOPLE_FLOW_ORDER_H

#include "store/sql.h"
#include "store/store.h"

/* FLOW_DELETE and FLOW_PRUNE.  The arena is scratch memory. */
PR_MUST_CHECK int flow_order_run(struct sql *sql, const struct admin *admin, struct arena *arena,
                                 struct admin_reply *reply);

/* The messages to the flow of an activity that a person ends with DISCARD or DEAD_ADD; *ret and its texts are in the
 * arena.  Outcome PR_UNKNOWN: another kind of order, or not an activity.  Fault PR_ENOMEM. */
PR_MUST_CHECK int flow_order_result(const struct admin *admin, const struct pr_message *m, struct arena *arena,
                                    struct pr_message *ret);

/* What it means to replay a dead letter of the boxes of flows. */
enum flow_letter_kind {
    FLOW_LETTER_PLAIN, /* the same as for any other: it goes back into its box */
    /* Its flow failed because of it, and continues from before that: these messages replace the letter. */
    FLOW_LETTER_RESUMES,
    FLOW_LETTER_LATE, /* its flow has continued without it, ended otherwise, or is gone */
};
struct flow_letter {
    enum flow_letter_kind kind;
    struct pr_message messages[2]; /* RESUMES: for the box of turns, in order; in the arena */
    size_t count;
};
/* Fault PR_ENOMEM, or of the store. */
PR_MUST_CHECK int flow_order_letter(struct sql *sql, const struct admin *admin, pr_slice box,
                                    const struct pr_message *m, struct arena *arena, struct flow_letter *ret);

/* The box of turns, where messages to flows go. */
pr_slice flow_order_turns(const struct admin *admin);

#endif
