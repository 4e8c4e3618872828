/* Endpoints with `mode: inline`: a sender sends its message itself, and stores it only if that failed, with the failure
 * (runtime/inline.c).  One engine gets the result, for its breakers and totals.  A message that arrives like this is
 * not judged here; one that does not is a message of the box like any other, at its second attempt. */
#include "world.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "base/util.h"

/* Reports to one engine of the sender's process, if there is one. */
static void tell_engine(struct world *w, const struct parcel *p, unsigned endpoint, int reason)
{
    const struct endpoint_setting *s = &w->scenario->endpoints[endpoint];
    const struct failure failure = { .message = &p->m, .reason = reason, .endpoint = s->name };
    const struct engine_inline_result result = { .endpoint = endpoint,
                                                 .type = p->m.type,
                                                 .at_us = world_wall_us(w),
                                                 .message = hash_bytes(0, &p->m.id, sizeof(p->m.id)) | 1,
                                                 .failed = 1,
                                                 .asked = true,
                                                 .fault = failure_fault(&failure),
                                                 .weight = failure_weight(&s->policy, &failure),
                                                 .reason = reason };
    struct instance *in = &w->instances[random_below(&w->dice[DIE_INLINE], w->scenario->instances)];
    if (in->state == INSTANCE_UP && !instance_is_frozen(in)) {
        engine_inline_result_absorb(in->engine, instance_now(in), &result);
        instance_wake(in, w->mono_us);
    }
}

/* Only failures that the retry setting retries are stored with the message. */
static bool is_tried_again(const struct world *w, const struct parcel *p, unsigned endpoint, int reason,
                           int64_t *ret_delay_us)
{
    struct sim_expectation x;
    rules_expect(w->scenario, endpoint, &p->m, reason, 1, &x);
    *ret_delay_us = x.delay_us;
    return x.step == STEP_RETRY && x.by == NULL && w->scenario->endpoints[endpoint].policy.retry.blame == BLAME_ALWAYS;
}

bool inline_send_fails(struct world *w, struct parcel *p)
{
    struct random *r = &w->dice[DIE_INLINE];
    unsigned targets[SIM_ENDPOINTS_MAX];
    int64_t delay_us;
    int reason = random_chance(r, 0.5) ? PR_REASON_TRANSPORT_UNAVAILABLE : PR_REASON_DEPENDENCY_FAILURE, answer;
    if (w->scenario->inlined == 0 || !random_chance(r, w->scenario->inlined) ||
        scenario_targets(w->scenario, &p->m, targets) != 1 || p->m.due_us != 0 || p->m.expires_us != 0 ||
        p->undecodable || p->m.stream.size > 0 || p->m.destination.size == 0 || p->copy != NULL ||
        !is_tried_again(w, p, targets[0], reason, &delay_us))
        return false;
    struct pr_message m = p->m;
    pr_id id;
    m.status = PR_STATUS_FAILED;
    m.attempts = m.failures = 1;
    m.reason = reason;
    m.code = PR_STR("sim");
    m.error = PR_STR("the dice said no");
    m.failed_us = world_wall_us(w);
    m.due_us = world_wall_us(w) + delay_us + random_between(r, 0, PR_SECONDS(5));
    int rc = store_enqueue_failed(&w->store, w->scenario->engine.box, &m, 1, w->scenario->engine.payload_max, &id,
                                  &answer, NULL);
    if (rc != PR_OK || answer != PR_OK)
        w->broken = "a sender could not store what it could not send";
    p->inline_endpoint = 1 + (int)targets[0];
    p->m.due_us = m.due_us;
    tell_engine(w, p, targets[0], reason);
    parcel_stored(w, p);
    world_announce(w);
    return true;
}
