/* From a failure to everything that follows: the policy, the functions that its rule calls, and the actions besides the
 * verdict (B63 to B67).  Both the engine and inline sends use it, so that a message has the same fate whichever of them
 * sent it.
 *
 * Nothing is carried out here: pauses are returned, and messages are made to be stored with the verdict. */
#ifndef POLICY_DECIDE_H
#define POLICY_DECIDE_H

#include "core/cycle.h"
#include "core/delivery.h"
#include "policy/policy.h"

/* What a called function decided about a failure. */
struct call_answer {
    bool decided;   /* false: the next step of the rule decides */
    enum step step; /* not STEP_PAUSE, not STEP_CALL */
    int64_t delay_us;
    struct send_effect *effects; /* messages to be stored with the verdict; one block each, the caller frees them */
};

/* Calls the function of this name.  PR_OK, or it failed (the owner has logged why): then its answer and the messages
 * that it would send do not count. */
typedef int (*rule_call)(void *arg, pr_slice name, const struct failure *failure, pr_slice rule,
                         struct call_answer *ret);

/* A failure, and what is needed to decide about it. */
struct failure_case {
    const struct policy *policy;
    struct failure failure;
    int attempts;   /* including this one */
    bool disable;   /* the endpoint reports that it is gone for good: see delivery_result */
    pr_slice box;   /* box of the message, and of messages that are raised about it */
    int64_t now_us; /* store time */
    double draw;    /* in [0, 1): jitter */
    rule_call call; /* for rules; NULL: no function is registered */
    void *call_arg;
    pr_id (*new_id)(void *arg); /* for new messages */
    void *id_arg;
};

/* What a result says about the message; without evidence from other messages, and without the wait for its endpoint. */
struct failure failure_of(const struct pr_message *m, pr_slice endpoint, const struct delivery_result *result,
                          int64_t now_us);

/* The consequences of a failure.  It contains pointers into itself: pass it by address. */
struct consequences {
    struct decision decision;
    pr_slice moved_to;           /* one effect is the same message for this endpoint; empty: none */
    struct send_effect *effects; /* owned */
    struct {
        int64_t for_us; /* PR_NEVER: until resumed */
        pr_slice by;
    } pauses[RULE_STEPS_MAX + 2]; /* of the endpoint */
    size_t pause_count;
    char rule_text[RULE_NAME_MAX + sizeof("rule ")];
};
void consequences_fini(struct consequences *c);

/* Decides, and calls the functions of the rule.  All actions of a step are taken, even when one of them fails. */
void failure_decide(const struct failure_case *c, struct consequences *ret);
/* A message is dead as poison, whatever its rule says: only the side actions of the rule.  No function is called. */
void poison_decide(const struct failure_case *c, struct consequences *ret);

/* The resulting verdict, without row and number; VERDICT_RETURN: the message is put back, uncounted.  Texts are
 * borrowed from the case and not clean yet: see verdict_write_texts(). */
struct verdict failure_verdict(const struct failure_case *c, const struct consequences *follows, int bits);
/* When the message is tried again, for its story; PR_NEVER: not by itself, 0: it has ended. */
int64_t failure_next_us(const struct failure_case *c, const struct consequences *follows);

#endif
