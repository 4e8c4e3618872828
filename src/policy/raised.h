/* Messages that a decision makes: one that is raised about a failure, and a dead letter that goes to another endpoint
 * instead of into the table.
 *
 * Both carry a mark in their headers.  A raised message never raises another, and a dead letter that was moved is not
 * moved a second time: it goes into the table.  So no rule can make messages endlessly.
 *
 * Templates (stream and payload of a raise): {id} {type} {stream} {endpoint} {box} {reason} {code} {error} {failures}
 * {attempts} {rule} {at} stand for values of the failed message; other braces are literal.  In a payload they are
 * escaped as inside a JSON string. */
#ifndef POLICY_RAISED_H
#define POLICY_RAISED_H

#include "core/delivery.h"
#include "policy/policy.h"

#define HEADER_RAISED "postrider-raised"   /* the rule's name */
#define HEADER_DEAD_ID "postrider-dead-id" /* the dead message's id; further headers begin with postrider-dead- */

struct raised {
    const struct failure *failure;
    pr_slice rule;
    pr_slice box;  /* of the new message: the box of the failed one */
    int attempts;  /* including this one */
    int64_t at_us; /* Unix time */
    pr_id id;      /* of the new message */
};

bool message_was_raised(const struct pr_message *message);
bool message_was_moved(const struct pr_message *message);

/* One block, free() it; NULL: no memory. */
struct send_effect *raised_raise(const struct raised *a, const struct raise *raise);
/* The same message for another endpoint, with the diagnostic headers. */
struct send_effect *raised_move(const struct raised *a, pr_slice to);

/* The payload of a raise, for `policy explain` and tests. */
struct buf;
void raised_payload(const struct raised *a, const struct raise *raise, struct buf *ret);

#endif
