/* Why a flow, an activity or a child failed: as a value, as JSON (lossless in both directions), and as a text for
 * people.
 *
 *     {"category":"application","message":"no such card","retryable":false}
 *     {"category":"poison","message":"poison: activity charge#3 exceeded 6 attempts (max 5)","kind":"activity",
 *      "count":6,"limit":5,"flow":"order-7","execution":"...","name":"charge","number":3,"content":{...}} */
#ifndef FLOW_FLOW_ERROR_H
#define FLOW_FLOW_ERROR_H

#include <postrider_flow.h>

#include "base/arena.h"

/* For poison: what was handed out too often. */
enum flow_poison_kind { FLOW_POISON_NONE, FLOW_POISON_FLOW, FLOW_POISON_ACTIVITY, FLOW_POISON_UNDECODABLE };

struct flow_error {
    enum pr_category category;
    bool retryable; /* always false for poison and configuration */
    pr_slice message;
    /* Poison. */
    enum flow_poison_kind kind;
    int64_t count, limit;
    pr_slice flow;
    pr_id execution;
    pr_slice name;    /* ACTIVITY */
    int64_t number;   /* ACTIVITY */
    pr_slice content; /* the whole message, as a JSON object */
    /* Nondeterminism: the event of the history at which the code did something else. */
    int64_t event; /* 0: not a nondeterminism */
    pr_slice expected, found;
};

/* As JSON, in the arena; data is NULL when there is no memory. */
pr_slice flow_error_encode(const struct flow_error *e, struct arena *arena);
/* Fault PR_EINVAL: the text says what is wrong; PR_ENOMEM. */
PR_MUST_CHECK int flow_error_decode(pr_slice json, struct arena *arena, struct flow_error *ret,
                                    struct pr_error *reterr);
/* The same for a text of another program: anything but such JSON becomes the message of an application error. */
PR_MUST_CHECK int flow_error_read(pr_slice data, struct arena *arena, struct flow_error *ret);

/* The text of poison, from its other members; in the arena. */
pr_slice flow_poison_message(const struct flow_error *e, struct arena *arena);
/* A whole message as a JSON object in the arena. */
pr_slice flow_message_json(const struct pr_message *m, struct arena *arena);

/* Fills in message and content of a poison error; count is the largest of the messages'.  Fault PR_ENOMEM. */
PR_MUST_CHECK int flow_poison(struct flow_error *e, const struct pr_message *m, struct arena *arena);

bool flow_category_is_final(enum pr_category category); /* it ends the flow that waits for the task */

#endif
