#include "policy/decide.h"

#include <stdio.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "core/fingerprint.h"
#include "core/story.h"
#include "policy/raised.h"

struct failure failure_of(const struct pr_message *m, pr_slice endpoint, const struct delivery_result *result,
                          int64_t now_us)
{
    return (struct failure){
        .message = m,
        .endpoint = endpoint,
        .reason = reason_is_known(result->reason) ? result->reason : PR_REASON_UNKNOWN,
        .code = pr_str(result->code),
        .error = pr_str(result->error),
        .failures = m->failures + 1,
        .retry_after_us = result->retry_after_us,
        .age_us = now_us - m->created_us,
        .unsent = result->unsent,
        .since_us = m->failed_us > 0 ? max64(now_us - m->failed_us, 0) : 0,
    };
}

void consequences_fini(struct consequences *c)
{
    effects_free(c->effects);
    c->effects = NULL;
}

/* ---- Calls -------------------------------------------------------------------------------------- */

/* The result of the calls for one failure. */
struct called {
    const struct rule_step *asked[RULE_STEPS_MAX]; /* steps whose call did not decide */
    size_t asked_count;
    struct send_effect *effects; /* owned */
};

/* Did the function decide?  Its effects are kept unless it failed. */
static bool call_function(const struct failure_case *c, const struct decision *d, struct called *called,
                          struct call_answer *ret)
{
    *ret = (struct call_answer){ 0 };
    if (c->call == NULL)
        return false;
    int rc = c->call(c->call_arg, d->by->call, &c->failure, d->rule, ret);
    if (rc == PR_OK)
        effects_append(&called->effects, ret->effects);
    else
        effects_free(ret->effects);
    return rc == PR_OK && ret->decided;
}

static void take_answer(const struct failure *f, const struct call_answer *a, struct decision *d)
{
    ASSERT(f->reason != PR_REASON_POISON_MESSAGE); /* B45: no rule decides about poison */
    d->step = a->step;
    d->delay_us = max64(a->step == STEP_RETRY ? a->delay_us : 0, f->retry_after_us);
    d->delay_us = min64(max64(d->delay_us, 0), RETRY_DELAY_MAX_US);
    d->cause = f->reason;
    d->limit = 0;
}

static void decide(const struct failure_case *c, struct called *called, struct decision *d)
{
    policy_decide(c->policy, &c->failure, c->draw, d);
    while (d->step == STEP_CALL) {
        struct call_answer answer;
        if (call_function(c, d, called, &answer)) {
            take_answer(&c->failure, &answer, d);
            return;
        }
        called->asked[called->asked_count++] = d->by;
        policy_decide_after(d, &c->failure, c->draw, d);
    }
    /* A call beside another action is informed, and may send; it does not decide. */
    if (d->by != NULL && d->by->call.size > 0) {
        struct call_answer answer;
        (void)call_function(c, d, called, &answer);
    }
}

/* ---- Beside the verdict ---------------------------------------------------------------------------- */

static struct raised raised_of(const struct failure_case *c, pr_slice rule)
{
    return (struct raised){
        .failure = &c->failure,
        .rule = rule,
        .box = c->box,
        .attempts = c->attempts,
        .at_us = c->now_us,
        .id = c->new_id(c->id_arg),
    };
}

static void add_pause(struct consequences *ret, int64_t for_us, pr_slice by)
{
    ASSERT(ret->pause_count < ARRAY_LENGTH(ret->pauses));
    ret->pauses[ret->pause_count].for_us = for_us;
    ret->pauses[ret->pause_count++].by = by;
}

static void add_side_action(const struct failure_case *c, const struct rule_step *s, struct consequences *ret)
{
    pr_slice rule = ret->decision.rule;

    if (s->pause_us > 0) {
        (void)snprintf(ret->rule_text, sizeof(ret->rule_text), "rule %.*s", SLICE_ARGS(rule));
        add_pause(ret, s->pause_us, pr_str(ret->rule_text));
    }
    if (s->raise != NULL && !message_was_raised(c->failure.message)) {
        struct raised a = raised_of(c, rule);
        effects_append(&ret->effects, raised_raise(&a, s->raise));
    }
}

/* To another endpoint: the message is stored for it in the transaction that removes it here.  A message without its
 * payload is better kept in the table, which stores the row as it is. */
static void move_dead(const struct failure_case *c, struct consequences *ret)
{
    const struct decision *d = &ret->decision;

    if (d->step != STEP_DEAD_LETTER || d->by == NULL || d->by->step != STEP_DEAD_LETTER || d->by->to.size == 0 ||
        c->failure.unread > 0 || message_was_moved(c->failure.message))
        return;
    struct raised a = raised_of(c, d->rule);
    ret->effects = raised_move(&a, d->by->to);
    if (ret->effects != NULL) /* no memory: it goes into the table */
        ret->moved_to = d->by->to;
}

void failure_decide(const struct failure_case *c, struct consequences *ret)
{
    struct called called = { 0 };
    struct decision *d = &ret->decision;

    *ret = (struct consequences){ 0 };
    decide(c, &called, d);
    if (c->disable) { /* nothing more is sent there until a person has looked */
        add_pause(ret, PR_NEVER, PR_STR("endpoint"));
        if (d->matched == NULL)
            d->step = STEP_PAUSE;
    }
    move_dead(c, ret);
    for (size_t i = 0; i < called.asked_count; i++)
        add_side_action(c, called.asked[i], ret);
    if (d->by != NULL)
        add_side_action(c, d->by, ret);
    effects_append(&ret->effects, called.effects);
}

void poison_decide(const struct failure_case *c, struct consequences *ret)
{
    *ret = (struct consequences){ 0 };
    policy_decide(c->policy, &c->failure, c->draw, &ret->decision);
    if (ret->decision.by != NULL)
        add_side_action(c, ret->decision.by, ret);
}

/* ---- The verdict -------------------------------------------------------------------------------------- */

static enum verdict_kind kind_of(const struct consequences *follows)
{
    switch (follows->decision.step) {
    case STEP_DEAD_LETTER: return follows->moved_to.size > 0 ? VERDICT_DISCARD : VERDICT_DEAD_LETTER;
    case STEP_DISCARD: return VERDICT_DISCARD;
    case STEP_PARK: return VERDICT_PARK;
    case STEP_RETRY:
    case STEP_RETRY_NOW: return VERDICT_FAIL;
    case STEP_POSTPONE: return VERDICT_POSTPONE;
    case STEP_PAUSE: return VERDICT_RETURN;
    case STEP_CALL: ASSERT(!"decide() has asked it");
    }
    return VERDICT_RETURN;
}

static bool comes_back(enum verdict_kind kind)
{
    return kind == VERDICT_FAIL || kind == VERDICT_POSTPONE;
}

struct verdict failure_verdict(const struct failure_case *c, const struct consequences *follows, int bits)
{
    const struct failure *f = &c->failure;
    const struct decision *d = &follows->decision;
    enum verdict_kind kind = kind_of(follows);
    struct verdict v = {
        .kind = kind,
        .bits = bits,
        .reason = f->reason,
        .code = f->code,
        .error = f->error,
        .rule = d->rule,
        .endpoint = f->endpoint,
        .counted = kind != VERDICT_FAIL,
        .delay_us = comes_back(kind) ? d->delay_us : 0,
        .moved_to = follows->moved_to,
    };
    if (kind == VERDICT_DEAD_LETTER) {
        v.cause = d->cause;
        v.limit = d->limit;
        fingerprint(f->endpoint, f->message->type, f->reason, f->error, v.fingerprint);
    }
    return v;
}

int64_t failure_next_us(const struct failure_case *c, const struct consequences *follows)
{
    enum verdict_kind kind = kind_of(follows);

    if (comes_back(kind))
        return time_add(c->now_us, follows->decision.delay_us);
    return kind == VERDICT_PARK ? PR_NEVER : 0;
}
