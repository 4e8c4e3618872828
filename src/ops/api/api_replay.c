/* Replays that run in the daemon. */
#include "base/error.h"
#include "base/slice.h"
#include "base/units.h"
#include "ops/api/api.h"
#include "ops/replay/replays.h"

bool api_replay_is_long(const struct api *x)
{
    return json_object_get(x->json, "rate") != NULL || json_object_get(x->json, "canary") != NULL;
}

static void replay_json(struct api *x, pr_id id)
{
    if (replays_write(x->replays, id, &x->w) != PR_OK)
        api_error(x, 404, "not_found", "GET /v1/replays lists the replays since the last restart", "no such replay");
}

/* "rate": "100/s" or 100, "canary": 5, "canary_wait": "5m". */
static int take_options(struct api *x, struct replay *r, struct pr_error *reterr)
{
    const json_t *rate = json_object_get(x->json, "rate"), *canary = json_object_get(x->json, "canary");
    const char *wait = body_text(x, "canary_wait");
    json_int_t first = canary != NULL ? json_integer_value(canary) : 1;
    if (json_is_integer(rate) && json_integer_value(rate) > 0 && json_integer_value(rate) <= REPLAY_RATE_MAX)
        r->rate = (uint64_t)json_integer_value(rate);
    else if (rate != NULL && !replay_rate_parse(slice_from(json_string_value(rate)), &r->rate))
        return error_set(reterr, PR_EINVAL, "rate: use a value such as 100/s, at most %d", REPLAY_RATE_MAX);
    if (first < 1 || first > REPLAY_CANARY_MAX)
        return error_set(reterr, PR_EINVAL, "canary: must be a number from 1 to %d; omit it for none",
                         REPLAY_CANARY_MAX);
    r->canary = canary != NULL ? (size_t)first : 0;
    if (wait != NULL && (duration_parse(slice_from(wait), &r->canary_wait_us) != PR_OK || r->canary_wait_us <= 0))
        return error_set(reterr, PR_EINVAL, "canary_wait: \"%.60s\" is not a duration; use 30s or 5m", wait);
    return PR_OK;
}

void api_replay_start(struct api *x, const struct admin *admin)
{
    struct replay replay = { .order = *admin, .canary_wait_us = REPLAY_CANARY_WAIT_US };
    struct pr_error error;
    pr_id id;
    int rc = take_options(x, &replay, &error);
    if (rc == PR_OK && admin->filter.id_count > 0)
        rc = error_set(&error, PR_EINVAL, "rate and canary need a filter, not ids");
    if (rc == PR_OK && admin->filter.limit > 0)
        rc = error_set(&error, PR_EINVAL, "limit cannot be combined with rate or canary");
    if (rc == PR_OK)
        rc = replays_start(x->replays, &replay, x->in.store, &id, &error);
    if (rc < 0) {
        error.code = rc;
        api_fault(x, &error);
        return;
    }
    x->status = 202;
    replay_json(x, id);
}

void api_replays(struct api *x)
{
    json_begin_object(&x->w);
    json_key(&x->w, "replays");
    replays_write_all(x->replays, &x->w);
    json_end_object(&x->w);
}

void api_replay(struct api *x)
{
    pr_id id;
    if (api_id(x, &id))
        replay_json(x, id);
}

/* Each step of a replay is in the audit; so are stopping and resuming it. */
static bool record(struct api *x, enum admin_kind kind, pr_id replay)
{
    const struct admin_reply outcome = { .matched = 1, .changed = 1 };
    const struct admin admin = { .kind = kind,
                                 .filter = { .state = -1, .ids = &replay, .id_count = 1 },
                                 .by = x->who,
                                 .why = slice_from(body_text(x, "why")),
                                 .outcome = &outcome };
    return api_record(x, &admin);
}

void api_replay_change(struct api *x)
{
    bool stop = slice_ends_with(slice_from(x->route->path), PR_STR("/stop"));
    pr_id id;
    if (!api_id(x, &id))
        return;
    int rc = stop ? replays_stop(x->replays, id, api_now(x)) : replays_resume(x->replays, id);
    if (rc == PR_STALE)
        api_error(x, 409, "refused", "GET /v1/replays/ID shows its progress",
                  stop ? "it has already ended" : "it is running, or it is complete");
    else if (rc != PR_OK || record(x, stop ? ADMIN_REPLAY_STOP : ADMIN_REPLAY_RESUME, id))
        replay_json(x, id);
}
