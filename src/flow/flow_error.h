/* Why a flow, an activity or a child failed: as a value, as JSON (it survives the way there and back), and as a text for people.
 *
 *     {"category":"application","message":"no such card","retryable":false}
 *     {"category":"poison","message":"poison: activity charge#3 exceeded 6 attempts (max 5)","kind":"activity",
 *      "count":6,"limit":5,"flow":"order-7","execution":"...","name":"charge","number":3,"content":{...}}
 */
#ifndef FLOW_FLOW_ERROR_H
#define FLOW_FLOW_ERROR_H

#include <postrider_flow.h>

#include "base/arena.h"

/* Of poison: what was handed out too often. */
enum flow_poison_kind { FLOW_POISON_NONE, FLOW_POISON_FLOW, FLOW_POISON_ACTIVITY, FLOW_POISON_UNDECODABLE };

struct flow_error {
    enum pr_category category;
    bool retryable; /* poison and configuration never are */
    pr_slice message;
    /* Poison. */
    enum flow_poison_kind kind;
    int64_t count, limit;
    pr_slice flow;
    pr_id execution;
    pr_slice name;    /* ACTIVITY */
    int64_t number;   /* ACTIVITY */
    pr_slice content; /* the whole message, as a JSON object */
    /* Nondeterminism: what the history has at this event, and what the code did. */
    int64_t event; /* 0: this is none */
    pr_slice expected, found;
};

/* As JSON, in the arena; data is NULL when there is no memory. */
pr_slice flow_error_encode(const struct flow_error *e, struct arena *arena);
/* Fault PR_EINVAL: the text says what is wrong; PR_ENOMEM. */
PR_MUST_CHECK int flow_error_decode(pr_slice json, struct arena *arena, struct flow_error *ret,
                                    struct pr_error *reterr);
/* The same of a text that somebody else wrote: what is no such JSON is an application's message. */
PR_MUST_CHECK int flow_error_read(pr_slice data, struct arena *arena, struct flow_error *ret);

/* The text of poison, from its other members; in the arena. */
pr_slice flow_poison_message(const struct flow_error *e, struct arena *arena);
/* A message, all of it, as a JSON object in the arena. */
pr_slice flow_message_json(const struct pr_message *m, struct arena *arena);

/* Poison whose message and content are filled in; count is the largest of the messages'.  Fault PR_ENOMEM. */
PR_MUST_CHECK int flow_poison(struct flow_error *e, const struct pr_message *m, struct arena *arena);

bool flow_category_is_final(enum pr_category category); /* it ends the flow that waits for it */

#endif
