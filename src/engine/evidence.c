/* Evidence that an endpoint works: when a message of this type was last delivered there.  A message that fails again
 * and again is blamed for it only when there is evidence since its previous failure.
 *
 * Deliveries of this instance are known here.  They are stored once a minute for each pair of endpoint and type, in the
 * transaction that completes the message.  Deliveries of other instances are asked for when a message that has failed
 * goes out again and nothing newer is known here: with its receipt, so that the answer is there before its result.
 * Types beyond EVIDENCE_TYPES_MAX share the evidence of type ''. */
#include <stdlib.h>
#include <string.h>

#include "engine/internal.h"

#define EVIDENCE_TYPES_MAX 1024 /* per endpoint */
#define EVIDENCE_STORED_US PR_MINUTES(1)
#define EVIDENCE_QUESTIONS_MAX 64 /* in one cycle; a message without an answer is tried once more */
#define EVIDENCE_STORED_MAX 256   /* in one cycle; other evidence is stored with the next message of its type */

struct proof {
    struct map_node node; /* endpoint->proofs */
    pr_slice type;        /* stored behind the struct; empty: all types without an entry of their own */
    int64_t delivered_us; /* store time; 0: no delivery is known */
    int64_t stored_us;    /* local time when it was stored; 0: never */
    bool asked;           /* requested in the cycle being made */
    bool from_outside;    /* delivered by another engine of this process, and not stored */
};

static struct proof *proof_find(const struct endpoint *ep, pr_slice type)
{
    for (struct map_node *n = map_first(&ep->proofs, hash_slice(0, type)); n != NULL; n = map_next_same(n)) {
        struct proof *p = MAP_ENTRY(n, struct proof, node);
        if (slice_eq(p->type, type))
            return p;
    }
    return NULL;
}

static struct proof *proof_new(struct endpoint *ep, pr_slice type)
{
    struct proof *p = calloc(1, sizeof(*p) + type.size);

    if (p == NULL)
        return NULL;
    if (type.size > 0)
        memcpy(p + 1, type.data, type.size);
    p->type = (pr_slice){ (const char *)(p + 1), type.size };
    if (map_insert(&ep->proofs, &p->node, hash_slice(0, type)) == PR_OK)
        return p;
    free(p);
    return NULL;
}

static struct proof *proof_find_or_new(struct endpoint *ep, pr_slice type)
{
    struct proof *p = proof_find(ep, type);

    if (p != NULL)
        return p;
    if (map_count(&ep->proofs) < EVIDENCE_TYPES_MAX)
        return proof_new(ep, type);
    p = proof_find(ep, (pr_slice){ NULL, 0 });
    return p != NULL ? p : proof_new(ep, (pr_slice){ NULL, 0 });
}

/* Messages that follow on each other are mostly of one type.  NULL: no memory. */
static struct proof *proof_get(struct endpoint *ep, pr_slice type)
{
    if (ep->latest_proof == NULL || !slice_eq(ep->latest_proof->type, type))
        ep->latest_proof = proof_find_or_new(ep, type);
    return ep->latest_proof;
}

void evidence_fini(struct endpoint *ep)
{
    map_foreach(node, &ep->proofs) {
        map_remove(&ep->proofs, node);
        free(MAP_ENTRY(node, struct proof, node));
    }
    map_fini(&ep->proofs);
    ep->latest_proof = NULL;
}

static bool blames_by_evidence(const struct endpoint *ep)
{
    return ep != NULL && ep->setting->policy.retry.blame == BLAME_EVIDENCE;
}

/* Is there evidence since its previous failure that counts?  A message whose counters an operator reset has no such
 * failure, though its row still has the time of one.  A delivery in the future happened before the store's clock went
 * back, at an unknown time, and does not count. */
bool evidence_against(const struct engine *e, const struct item *item, int64_t now_us)
{
    bool failed = item->m.failures > 0 && item->m.failed_us > 0;
    const struct proof *p = failed ? proof_get(item->endpoint, item->m.type) : NULL;

    return p != NULL && p->delivered_us > item->m.failed_us && p->delivered_us <= store_now(e, now_us);
}

void evidence_delivered(struct engine *e, const struct item *item, int64_t now_us)
{
    struct proof *p = blames_by_evidence(item->endpoint) ? proof_get(item->endpoint, item->m.type) : NULL;

    if (p == NULL)
        return;
    p->delivered_us = store_now(e, now_us);
    if (e->plan.repeated_from_us != 0) /* that time was a guess, and may be ahead of the store's clock */
        p->delivered_us = min64(p->delivered_us, e->plan.repeated_from_us);
}

static bool was_stored_lately(const struct proof *p, int64_t now_us)
{
    return p->stored_us != 0 && now_us - p->stored_us < EVIDENCE_STORED_US;
}

/* true: the evidence should be stored at once, while its time is exact. */
bool evidence_from_outside(struct endpoint *ep, pr_slice type, int64_t at_us, int64_t now_us)
{
    struct proof *p = blames_by_evidence(ep) ? proof_get(ep, type) : NULL;

    if (p == NULL)
        return false;
    p->delivered_us = max64(p->delivered_us, at_us);
    if (was_stored_lately(p, now_us))
        return false;
    p->from_outside = ep->has_outside_evidence = true;
    return true;
}

/* ---- With a cycle ----------------------------------------------------------------------------- */

static struct evidence evidence_of(struct engine *e, const struct endpoint *ep, const struct proof *p)
{
    return (struct evidence){ ep->setting->name, slice_dup(&e->plan.arena, p->type) };
}

/* Evidence that one cycle stores. */
struct evidence_batch {
    struct evidence *list; /* EVIDENCE_STORED_MAX entries; NULL: none yet */
    size_t count;
};

/* false: the list is full. */
static bool add_proof(struct engine *e, const struct endpoint *ep, struct proof *p, struct evidence_batch *t,
                      int64_t now_us)
{
    if (t->list == NULL)
        t->list = arena_alloc(&e->plan.arena, EVIDENCE_STORED_MAX * sizeof(t->list[0]));
    if (t->list == NULL || t->count == EVIDENCE_STORED_MAX)
        return false;
    p->stored_us = now_us;
    p->from_outside = false;
    t->list[t->count++] = evidence_of(e, ep, p);
    return true;
}

static void add_outside_proofs(struct engine *e, struct endpoint *ep, struct evidence_batch *t, int64_t now_us)
{
    if (!ep->has_outside_evidence)
        return;
    ep->has_outside_evidence = false;
    map_foreach(node, &ep->proofs) {
        struct proof *p = MAP_ENTRY(node, struct proof, node);
        if (p->from_outside && !add_proof(e, ep, p, t, now_us)) {
            ep->has_outside_evidence = true;
            return;
        }
    }
}

static void plan_evidence_to_store(struct engine *e, int64_t now_us)
{
    struct evidence_batch t = { 0 };

    list_foreach(node, &e->window.planned) {
        struct item *item = LIST_ENTRY(node, struct item, node);
        bool done = item->verdict.kind == VERDICT_COMPLETE && blames_by_evidence(item->endpoint);
        struct proof *p = done ? proof_get(item->endpoint, item->m.type) : NULL;

        if (p != NULL && !was_stored_lately(p, now_us) && !add_proof(e, item->endpoint, p, &t, now_us))
            break;
    }
    for (size_t i = 0; i < e->endpoint_count; i++)
        add_outside_proofs(e, &e->endpoints[i], &t, now_us);
    e->plan.cycle.delivered = t.list;
    e->plan.cycle.delivered_count = t.count;
}

static bool needs_evidence(const struct engine *e, const struct item *item, int64_t now_us)
{
    return item->m.failures > 0 && blames_by_evidence(item->endpoint) && !evidence_against(e, item, now_us);
}

static void plan_evidence_to_read(struct engine *e, int64_t now_us)
{
    struct evidence *asked = NULL;
    size_t count = 0;

    list_foreach(node, &e->window.chosen) {
        struct item *item = LIST_ENTRY(node, struct item, node);
        struct proof *p = needs_evidence(e, item, now_us) ? proof_get(item->endpoint, item->m.type) : NULL;

        if (p == NULL || p->asked)
            continue;
        if (asked == NULL) {
            asked = arena_alloc(&e->plan.arena, EVIDENCE_QUESTIONS_MAX * sizeof(*asked));
            e->plan.planned_proofs = arena_alloc(&e->plan.arena, EVIDENCE_QUESTIONS_MAX * sizeof(struct proof *));
        }
        if (asked == NULL || e->plan.planned_proofs == NULL || count == EVIDENCE_QUESTIONS_MAX)
            break;
        p->asked = true;
        e->plan.planned_proofs[count] = p;
        asked[count++] = evidence_of(e, item->endpoint, p);
    }
    e->plan.cycle.evidence = asked;
    e->plan.cycle.evidence_count = count;
}

void evidence_plan(struct engine *e, int64_t now_us)
{
    plan_evidence_to_store(e, now_us);
    plan_evidence_to_read(e, now_us);
}

void evidence_absorb(struct engine *e, const struct cycle_reply *r)
{
    for (size_t i = 0; i < e->plan.cycle.evidence_count; i++) {
        struct proof *p = e->plan.planned_proofs[i];

        p->asked = false;
        if (p->delivered_us > r->now_us || r->evidence[i] > p->delivered_us)
            p->delivered_us = r->evidence[i];
    }
}

/* Evidence in the lost cycles may not have been stored. */
void evidence_store_again(struct engine *e)
{
    for (size_t i = 0; i < e->endpoint_count; i++)
        map_foreach(node, &e->endpoints[i].proofs) {
            struct proof *p = MAP_ENTRY(node, struct proof, node);

            p->asked = false;
            p->stored_us = 0;
        }
}
