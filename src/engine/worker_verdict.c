/* Verdicts that a worker in C gives itself (pr_worker): no rule decides, except about a failure. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "engine/internal.h"

static int copy_worker_effects(const struct pr_verdict *v, struct send_effect **ret)
{
    struct send_effect **tail = ret;

    *ret = NULL;
    for (size_t i = 0; i < v->effect_count; i++) {
        struct send_effect one = { .box = v->effect_box != NULL ? pr_str(v->effect_box) : PR_STR("outbox"),
                                   .message = v->effects[i] };
        int rc = effects_copy(&one, tail);
        if (rc != PR_OK) {
            effects_free(*ret);
            *ret = NULL;
            return rc;
        }
        tail = &(*tail)->next;
    }
    return PR_OK;
}

/* With a reason it is a failure that waits for a person. */
static void park_by_worker(struct engine *e, struct item *item, const struct pr_verdict *v, int64_t now_us)
{
    const struct verdict parked = {
        .kind = VERDICT_PARK,
        .reason = (int)v->reason,
        .code = v->reason != PR_REASON_NONE ? v->code : (pr_slice){ NULL, 0 },
        .error = v->error,
        .rule = PR_STR("worker"),
        .counted = v->reason != PR_REASON_NONE,
    };

    judge(e, item, &parked, "park", PR_NEVER, now_us);
}

static void judge_by_worker(struct engine *e, struct item *item, const struct pr_verdict *v, int64_t now_us)
{
    int reason = v->reason != PR_REASON_NONE ? (int)v->reason : PR_REASON_UNKNOWN;

    if (v->kind != PR_VERDICT_COMPLETE)
        breakers_returned(e, item->endpoint, item); /* the result says nothing about the endpoint */
    switch (v->kind) {
    case PR_VERDICT_COMPLETE: judge_success(e, item, v->status, now_us); break;
    case PR_VERDICT_RETURN: item_return_unsent(e, item); break;
    case PR_VERDICT_ABANDON:
        judge_simple(e, item, VERDICT_ABANDON, PR_REASON_NONE, PR_STR("worker"), v->error, now_us);
        break;
    case PR_VERDICT_RELEASE:
        judge_simple(e, item, VERDICT_RELEASE, PR_REASON_NONE, PR_STR("worker"), v->error, now_us);
        break;
    case PR_VERDICT_DISCARD:
        judge_simple(e, item, VERDICT_DISCARD, v->reason, PR_STR("worker"), v->error, now_us);
        break;
    case PR_VERDICT_PARK: park_by_worker(e, item, v, now_us); break;
    case PR_VERDICT_DEAD_LETTER:
        judge_dead(e, item, reason, reason, 0, PR_STR("worker"), true, v->code, v->error, now_us);
        break;
    case PR_VERDICT_FAIL: break; /* by policy, see engine_judge() */
    case PR_VERDICT_SETTLED:
        judge_asking(e, item, &(struct delivery_result){ .outcome = SEND_SETTLED }, now_us);
        return;
    }
    if (item->place == PLACE_JUDGED && v->kind != PR_VERDICT_RELEASE)
        item->verdict.bits |= v->status; /* the status that was reached stays, however it ended (B37) */
}

static void fail_by_worker(struct engine *e, struct item *item, const struct pr_verdict *v, int64_t now_us)
{
    struct delivery_result result = {
        .outcome = SEND_FAILED,
        .reason = v->reason != PR_REASON_NONE ? (int)v->reason : PR_REASON_UNKNOWN,
        .bits = v->status,
        .retry_after_us = v->retry_after_us,
        .release_followers = v->release_followers,
    };
    pr_slice code = utf8_cut_bytes(v->code, sizeof(result.code) - 1);

    if (code.size > 0)
        memcpy(result.code, code.data, code.size);
    result.error = strndup(v->error.data != NULL ? v->error.data : "", v->error.size);
    judge_failure(e, item, &result, now_us);
    free(result.error);
}

int engine_judge(struct engine *e, int64_t now_us, const struct pr_verdict *verdict, int *ret_answer)
{
    struct item *item = item_find_out(e, verdict->claim);
    struct send_effect *effects;
    int rc;

    if (item == NULL) {
        if (ret_answer != NULL)
            *ret_answer = PR_STALE;
        e->counts.stale++;
        return PR_OK;
    }
    rc = copy_worker_effects(verdict, &effects);
    if (rc != PR_OK)
        return rc;
    if (ret_answer != NULL)
        *ret_answer = PR_OK;
    struct item *rest = run_detach(item);
    item->refusable = rest != NULL && effects != NULL;
    if (verdict->kind == PR_VERDICT_FAIL)
        fail_by_worker(e, item, verdict, now_us);
    else
        judge_by_worker(e, item, verdict, now_us);
    if (item->place == PLACE_JUDGED) {
        item->answer = ret_answer;
        item_add_effects(e, item, effects);
    } else {
        effects_free(effects); /* handed back: the effects did not happen */
    }
    run_follow(e, item, rest, now_us);
    return PR_OK;
}
