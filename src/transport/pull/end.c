/* Verdicts of claimers: each ends its claim, and is answered when that is committed (U3). */
#include <stdlib.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/delivery.h"
#include "transport/pull/shelf.h"

/* A claimer that ended claims, and waits.  Freed by its last user. */
struct waiting {
    struct pull *pull;
    size_t refs, pending;
    struct pull_waiter {
        struct waiting *waiting;
        struct pull_verdict *verdict; /* NULL: the claimer does not wait any more */
    } waiters[];
};

static void waiting_leave(struct waiting *w)
{
    if (--w->refs == 0)
        free(w);
}

static enum pull_answer pull_answer_of(int answer)
{
    switch (answer) {
    case PR_OK: return PULL_OK;
    case PR_EINVAL:
    case PR_FAILED: return PULL_FAILED;
    case PR_ECONFLICT: return PULL_CONFLICT;
    default: return PULL_STALE;
    }
}

/* The engine reports the outcome of a verdict. */
static void on_settled(void *arg, int answer)
{
    struct pull_waiter *waiter = arg;
    struct waiting *w = waiter->waiting;
    struct pull *p = w->pull;
    pull_lock(p);
    if (waiter->verdict != NULL)
        waiter->verdict->answer = pull_answer_of(answer);
    w->pending--;
    if (w->pending == 0)
        pthread_cond_broadcast(&p->moved);
    waiting_leave(w);
    pull_unlock(p);
}

/* False: no memory. */
static bool add_effects(const struct open_claim *c, const struct pull_verdict *v, struct delivery_result *result)
{
    struct send_effect **end = &result->effects;
    for (size_t i = 0; i < v->effect_count; i++, end = &(*end)->next)
        if ((*end = effect_of(c->delivery->message, v->effects[i].box, &v->effects[i].message)) == NULL)
            return false;
    return true;
}

static bool end_one(struct pull *p, struct pull_verdict *v, struct pull_waiter *waiter)
{
    struct open_claim *c = claim_of(p, v->token, &v->answer);
    bool fits = c == NULL || add_effects(c, v, &v->result);
    if (c == NULL || !fits) {
        delivery_result_fini(&v->result);
        v->answer = fits ? v->answer : PULL_PENDING;
        return fits;
    }
    v->answer = PULL_PENDING;
    waiter->verdict = v;
    waiter->waiting->pending++;
    waiter->waiting->refs++;
    c->result = v->result;
    c->result.settled = on_settled;
    c->result.settled_arg = waiter;
    claim_end(c, &c->shelf->claimed);
    return true;
}

int pull_end(struct pull *p, struct pull_verdict *verdicts, size_t count, int64_t wait_us, struct pr_error *reterr)
{
    struct waiting *w = calloc(1, sizeof *w + count * sizeof w->waiters[0]);
    int64_t until_us = time_add(pull_now_us(), wait_us);
    bool fits = w != NULL;
    for (size_t i = 0; !fits && i < count; i++) {
        delivery_result_fini(&verdicts[i].result);
        verdicts[i].answer = PULL_PENDING;
    }
    if (!fits)
        return error_set(reterr, PR_ENOMEM, "out of memory for %zu claims", count);
    w->pull = p;
    w->refs = 1;
    pull_lock(p);
    for (size_t i = 0; i < count; i++) {
        w->waiters[i].waiting = w;
        fits = end_one(p, &verdicts[i], &w->waiters[i]) && fits;
    }
    while (w->pending > 0 && !p->stopping && pull_now_us() < until_us)
        pull_wait(p, until_us);
    for (size_t i = 0; i < count; i++)
        w->waiters[i].verdict = NULL;
    waiting_leave(w);
    pull_unlock(p);
    return fits ? PR_OK : error_set(reterr, PR_ENOMEM, "out of memory for the messages of %zu claims", count);
}
