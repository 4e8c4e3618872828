/* I25, I26: endpoints that blame by evidence.
 *
 *   I25  No message is dead without proof of its guilt, and failures of the endpoint as a whole are never counted: an
 *        outage, a wrong login, or a broken type kills no message.
 *   I26  A message that is proven guilty is not retried: a bad message among good ones is dead when its tries are used
 *        up.
 *
 * Proof is a delivery to the same endpoint, of the same type, since the message's previous failure that counts.  For
 * I26 it must be of the same session, whose cycle was answered before the send began: the engine must know it.  Times
 * are the store's, so a world whose wall clock has jumped is not judged. */
#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "base/util.h"
#include "checkers.h"

struct shadow_proof {
    struct map_node node;
    unsigned endpoint;
    pr_slice type;
    uint16_t session; /* 0: of anybody */
    size_t event;     /* the latest */
    int64_t wall_us;
};

static struct shadow_proof *proof_find(struct checker *c, unsigned endpoint, pr_slice type, uint16_t session)
{
    uint64_t hash = hash_slice(((uint64_t)endpoint << 16) + session, type);
    for (struct map_node *n = map_first(&c->proofs, hash); n != NULL; n = map_next_same(n)) {
        struct shadow_proof *p = MAP_ENTRY(n, struct shadow_proof, node);
        if (p->endpoint == endpoint && p->session == session && slice_eq(p->type, type))
            return p;
    }
    return NULL;
}

static void proof_set(struct checker *c, unsigned endpoint, pr_slice type, uint16_t session, int64_t wall_us)
{
    struct shadow_proof *p = proof_find(c, endpoint, type, session);
    if (p == NULL) {
        p = arena_zalloc(&c->arena, sizeof(*p));
        ASSERT(p != NULL);
        *p = (struct shadow_proof){ .endpoint = endpoint, .type = type, .session = session };
        int rc = map_insert(&c->proofs, &p->node, hash_slice(((uint64_t)endpoint << 16) + session, type));
        ASSERT(rc == PR_OK);
    }
    p->event = c->at;
    p->wall_us = wall_us;
}

void blame_delivered(struct checker *c, const struct event *e, const struct endpoint_setting *s)
{
    unsigned endpoint = (unsigned)(s - c->s->endpoints);
    pr_slice type = c->messages[e->message].parcel->m.type;
    proof_set(c, endpoint, type, 0, e->wall_us);
    /* Of a cycle that was asked more than once its engine knows only that it came after the one before. */
    proof_set(c, endpoint, type, e->session, c->sessions[e->session].last_wall_us);
}

static bool is_proven(struct checker *c, const struct event *e, const struct endpoint_setting *s,
                      const struct shadow_row *row, int failures, uint16_t session, size_t before)
{
    const struct shadow_proof *p =
        proof_find(c, (unsigned)(s - c->s->endpoints), c->messages[e->message].parcel->m.type, session);
    return p != NULL && failures > 1 && row->failed_event > 0 && p->event > row->failed_event && p->event < before &&
           p->wall_us > row->failed_wall_us;
}

static enum fault fault_of(const struct event *e, const struct shadow_row *row)
{
    bool content = e->extra == PR_REASON_VALIDATION_FAILURE || e->extra == PR_REASON_SERIALIZATION_ERROR ||
                   e->extra == PR_REASON_MESSAGE_TOO_LARGE;
    return content ? FAULT_CONTENT : row->away ? FAULT_ENDPOINT : FAULT_NOBODY;
}

static bool is_used_up(const struct retry_setting *r, enum fault fault, int failures)
{
    int limit = r->delays != NULL ? (int)r->delay_count + 1 : r->failures;
    if (fault == FAULT_CONTENT)
        limit = limit == 0 || limit > 3 ? 3 : limit;
    return limit > 0 && failures >= limit;
}

bool blame_applies(const struct endpoint_setting *s, const struct sim_expectation *x)
{
    return !x->ruled && s->policy.retry.blame == BLAME_EVIDENCE;
}

bool blame_postpones(const struct event *e, const struct shadow_row *row)
{
    return fault_of(e, row) == FAULT_ENDPOINT;
}

void blame_check_failure(struct checker *c, const struct event *e, const struct endpoint_setting *s,
                         const struct shadow_row *row, int failures)
{
    enum fault fault = fault_of(e, row);
    if (fault == FAULT_ENDPOINT)
        breach_set(c, "I25", "failure %d of m%u was counted, and it is the endpoint's fault", failures, e->message);
    if (!is_used_up(&s->policy.retry, fault, failures))
        return;
    if (fault == FAULT_CONTENT)
        breach_set(c, "I26", "m%u was refused %d times for its content, and is tried on", e->message, failures);
    else if (!c->jumped && is_proven(c, e, s, row, failures, e->session, row->start_knows))
        breach_set(c, "I26", "m%u failed %d times beside others of its type that arrived, and is tried on", e->message,
                   failures);
}

void blame_check_death(struct checker *c, const struct event *e, const struct endpoint_setting *s,
                       const struct shadow_row *row, int failures)
{
    enum fault fault = fault_of(e, row);
    if (fault == FAULT_ENDPOINT || !is_used_up(&s->policy.retry, fault, failures))
        breach_set(c, "I25", "m%u is dead at failure %d, and it has tries left", e->message, failures);
    else if (fault == FAULT_NOBODY && !c->jumped && !is_proven(c, e, s, row, failures, 0, c->at))
        breach_set(c, "I25", "m%u is dead at failure %d, and no other of its type arrived since the one before",
                   e->message, failures);
}
