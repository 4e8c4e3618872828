/* A worker: an engine whose messages go to a caller, and whose verdicts come from there, as in pr_worker_cycle().  Each
 * verdict must be answered when it is committed, and only then. */
#include "world.h"

#include <string.h>

#include "base/error.h"
#include "base/slice.h"

#define ANSWER_PENDING (-1000)

/* A verdict that the engine has and the store possibly not yet. */
struct worker_verdict {
    struct worker_verdict *next;
    struct event event;
    int answer;
};

enum send_outcome worker_draw(struct world *w, enum send_outcome outcome)
{
    struct random *r = &w->dice[DIE_WORKERS];
    if (outcome != SEND_FAILED || w->healed)
        return outcome;
    return random_chance(r, 0.2) ? SEND_ABANDONED : random_chance(r, 0.1) ? SEND_RELEASED : outcome;
}

static enum pr_verdict_kind kind_of(enum send_outcome outcome)
{
    switch (outcome) {
    case SEND_OK: return PR_VERDICT_COMPLETE;
    case SEND_RETURNED: return PR_VERDICT_RETURN;
    case SEND_ABANDONED: return PR_VERDICT_ABANDON;
    case SEND_RELEASED: return PR_VERDICT_RELEASE;
    case SEND_SETTLED:
    case SEND_UNCERTAIN: return PR_VERDICT_SETTLED;
    default: return PR_VERDICT_FAIL;
    }
}

void worker_judge(struct world *w, struct instance *in, const struct delivery_result *result,
                  const struct parcel *effect, struct event event)
{
    struct worker_verdict *v = arena_zalloc(&w->arena, sizeof(*v));
    const struct pr_verdict verdict = { .claim = result->token,
                                        .kind = kind_of(result->outcome),
                                        .status = result->outcome == SEND_RELEASED ? 0 : result->bits,
                                        .reason = (enum pr_reason)result->reason,
                                        .code = slice_from(result->code),
                                        .error = slice_from(result->error),
                                        .retry_after_us = result->retry_after_us,
                                        .effects = effect != NULL ? &effect->m : NULL,
                                        .effect_count = effect != NULL };
    ASSERT(v != NULL);
    event.kind = EVENT_ANSWERED;
    event.what = (uint16_t)verdict.kind;
    *v = (struct worker_verdict){ .event = event };
    int rc = engine_judge(in->engine, instance_now(in), &verdict, &v->answer);
    ASSERT(rc == PR_OK);
    if (v->answer != PR_OK || verdict.kind == PR_VERDICT_RETURN)
        return; /* the lease was lost; or it needs no commit */
    v->answer = ANSWER_PENDING;
    v->next = in->verdicts;
    in->verdicts = v;
}

void worker_hear(struct world *w, struct instance *in)
{
    for (struct worker_verdict **link = &in->verdicts; *link != NULL;) {
        struct worker_verdict *v = *link;
        if (v->answer == ANSWER_PENDING) {
            link = &v->next;
            continue;
        }
        v->event.answer = (int16_t)v->answer;
        world_note(w, v->event);
        *link = v->next;
    }
}
