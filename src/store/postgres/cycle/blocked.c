/* Effects that another open transaction blocks: it makes the same mark, begins the same stream, sets the same value, or
 * stores a message with the same id.  Storing such an effect means waiting for the end of that transaction, and this
 * cannot be checked before, since uncommitted rows are invisible.
 *
 * So an ordinary cycle just stores its effects, under a lock_timeout of 100 ms.  When that expires the cycle starts
 * over, and tries its effects before anything is written: in statements for several effects of one kind, which are
 * always undone (link.h), and where one of these runs into a lock, in one statement for each effect.  Blocked effects
 * are answered ANSWER_BUSY and their keys remembered; all others go on.  As long as keys are remembered, effects with
 * these keys are busy without being tried, and tried again after a while: this takes about a tenth of the time, or more
 * where there is nothing else to do. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "store/postgres/postgres.h"

#define LOCK_NOT_AVAILABLE "55P03"
#define TRIED_TOGETHER 32                /* effects of one kind in one statement */
#define TRIALS_AT_ONCE 64                /* ... in one round trip */
#define TRY_AGAIN_US PR_MILLISECONDS(50) /* ... but at least TRY_AGAIN_TIMES the duration of the trial */
#define TRY_AGAIN_TIMES 10
#define TRY_LEASE_PART 6         /* a pass takes no longer than this fraction of the lease, */
#define TRY_MAX_US PR_SECONDS(1) /* ... and no longer than this */
#define TRIED_AT_ONCE_MAX 8      /* keys that are tried whenever there is nothing else to do */
_Static_assert(TRIALS_AT_ONCE *TRIAL_STEPS + 8 <= LINK_STEPS_MAX, "TRIALS_AT_ONCE");

/* An effect that another transaction may block. */
struct birth {
    uint64_t group; /* effects of the same group can be stored by one statement */
    uint64_t key;   /* hash of what it makes or changes */
    size_t effect;
    bool tried, blocked; /* ... and the result */
};

struct births {
    struct birth *list;
    size_t count;
};

static int64_t now_us(void)
{
    return clock_mono_us(clock_system());
}

/* For a sent event: its stream, although only its id may be blocked. */
static uint64_t key_of(const struct effect *e)
{
    if (effect_has_guard(e) || (e->kind == EFFECT_MESSAGE && e->message->event))
        return effect_guard_hash(e);
    if (e->kind == EFFECT_MESSAGE)
        return hash_bytes(hash_slice(EFFECT_MESSAGE, e->box), e->message->id.bytes, sizeof(e->message->id.bytes));
    return hash_slice(hash_slice((uint64_t)e->kind, e->key), e->name);
}

/* Rows of existing streams and flows are locked by their guards, users never store mail and executions, and locked rows
 * that should be deleted are skipped.  Later effects of a guard share the fate of the first. */
static bool may_be_blocked(const struct cycle_run *run, size_t i)
{
    const struct effect *e = &run->cycle->effects[i];
    bool held = (e->kind == EFFECT_EVENT || e->kind == EFFECT_FLOW) && run->effect_numbers[i] > 0;
    bool later = run->guards.first[i] != SIZE_MAX && run->guards.first[i] != i && e->kind != EFFECT_MESSAGE;
    return run->guards.answers[i] == PR_OK && e->verdict != EFFECT_ALWAYS && e->kind != EFFECT_DELETE &&
           e->kind != EFFECT_MAIL && e->kind != EFFECT_EXECUTION && !held && !later;
}

/* ---- What is known ----------------------------------------------------------------------------- */

static bool is_known(const struct blocked_keys *b, uint64_t key)
{
    for (size_t i = 0; i < b->count; i++)
        if (b->keys[i] == key)
            return true;
    return false;
}

/* When there is no room for a key, the cycle runs into the lock again. */
static void remember(struct blocked_keys *b, uint64_t key)
{
    if (b->count < BLOCKED_KEYS_MAX && !is_known(b, key))
        b->keys[b->count++] = key;
}

/* Is there a verdict that no known key blocks? */
static bool others_go_on(const struct cycle_run *run)
{
    const struct cycle *c = run->cycle;
    size_t waiting = 0;
    for (size_t i = 0, last = SIZE_MAX; i < c->effect_count; i++) {
        const struct effect *e = &c->effects[i];
        if (e->verdict == last || e->verdict == EFFECT_ALWAYS || !is_known(&run->session->blocked, key_of(e)))
            continue;
        last = e->verdict;
        waiting++;
    }
    return c->verdict_count > waiting;
}

/* ---- Trials ------------------------------------------------------------------------------------ */

struct trial {
    size_t from, count; /* of the births */
    size_t keys;        /* number of different keys */
    char state[SQL_STATE_SIZE];
};

static int compare_births(const void *a, const void *b)
{
    const struct birth *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->effect < y->effect ? -1 : 1;
}

/* Is it blocked together with the one before it?  Messages also have ids of their own. */
static bool goes_with(const struct cycle_run *run, const struct births *b, size_t i)
{
    const struct birth *x = &b->list[i], *before = x - 1;
    return i > 0 && before->group == x->group && before->key == x->key &&
           run->cycle->effects[x->effect].kind != EFFECT_MESSAGE;
}

/* The next births that can be tried together. */
static struct trial next_trial(const struct cycle_run *run, const struct births *b, size_t from, size_t together)
{
    struct trial t = { .from = from };
    for (size_t i = from; i < b->count && !b->list[i].tried && b->list[i].group == b->list[from].group; i++) {
        bool new_key = i == from || !goes_with(run, b, i);
        if (new_key && t.keys == together)
            break;
        t.keys += new_key;
        t.count++;
    }
    return t;
}

static void add_trial(struct cycle_run *run, const struct births *b, struct trial *t, bool *tried)
{
    size_t first = SIZE_MAX;
    for (size_t i = t->from; i < t->from + t->count; i++) {
        if (i > t->from && goes_with(run, b, i))
            continue;
        tried[b->list[i].effect] = true;
        first = b->list[i].effect < first ? b->list[i].effect : first;
    }
    run->tried = tried;
    link_trial_begin(run->link, t->state);
    pg_effects_add_tried(run, first);
    link_trial_end(run->link);
    run->tried = NULL;
    for (size_t i = t->from; i < t->from + t->count; i++)
        tried[b->list[i].effect] = false;
}

/* If a trial with several keys ran into a lock, each is tried alone later. */
static void take_trial(struct births *b, const struct trial *t)
{
    bool blocked = strcmp(t->state, LOCK_NOT_AVAILABLE) == 0;
    for (size_t i = t->from; i < t->from + t->count; i++) {
        b->list[i].tried = !blocked || t->keys == 1;
        b->list[i].blocked = blocked;
    }
}

static int run_trials(struct cycle_run *run, struct births *b, struct trial *list, size_t count, bool *tried)
{
    int rc = link_run(run->link, run->reterr); /* a batch has a limited number of steps, and these need all of it */
    if (rc != PR_OK)
        return rc;
    link_trials_begin(run->link);
    for (size_t i = 0; i < count; i++)
        add_trial(run, b, &list[i], tried);
    link_trials_end(run->link);
    rc = link_run(run->link, run->reterr);
    for (size_t i = 0; i < count && rc == PR_OK; i++)
        take_trial(b, &list[i]);
    return rc;
}

/* Tries all that were not tried, some at a time.  Births that remain when the time is over count as blocked this
 * once. */
static int try_births(struct cycle_run *run, struct births *b, size_t together, bool *tried, int64_t until_us)
{
    struct trial list[TRIALS_AT_ONCE];
    size_t count = 0;
    int rc = PR_OK;
    for (size_t at = 0; at < b->count && rc == PR_OK;) {
        if (b->list[at].tried) {
            at++;
        } else if (now_us() > until_us) {
            b->list[at++].blocked = true;
        } else {
            list[count] = next_trial(run, b, at, together);
            at += list[count++].count;
        }
        if (count == TRIALS_AT_ONCE || (at == b->count && count > 0)) {
            rc = run_trials(run, b, list, count, tried);
            count = 0;
        }
    }
    return rc;
}

/* ---- All of it --------------------------------------------------------------------------------- */

/* The births to be tried; known keys that are not due for another trial are busy. */
static void collect(struct cycle_run *run, bool again, struct births *b)
{
    const struct blocked_keys *known = &run->session->blocked;
    for (size_t i = 0; i < run->cycle->effect_count; i++) {
        const struct effect *e = &run->cycle->effects[i];
        uint64_t key = key_of(e);
        if (!may_be_blocked(run, i) || (!known->look && !is_known(known, key)))
            continue;
        if (known->look || again)
            b->list[b->count++] = (struct birth){
                .group = e->kind == EFFECT_MESSAGE ? hash_slice(EFFECT_MESSAGE, e->box) : (uint64_t)e->kind,
                .key = key,
                .effect = i,
            };
        else
            run->guards.answers[i] = ANSWER_BUSY;
    }
    qsort(b->list, b->count, sizeof(b->list[0]), compare_births);
}

/* Remembers the results until the next trial. */
static void conclude(struct cycle_run *run, const struct births *b, int64_t began_us)
{
    struct blocked_keys *known = &run->session->blocked;
    known->count = 0;
    for (size_t i = 0; i < b->count; i++) {
        if (!b->list[i].blocked)
            continue;
        run->guards.answers[b->list[i].effect] = ANSWER_BUSY;
        if (b->list[i].tried)
            remember(known, b->list[i].key);
    }
    known->try_at_us = now_us() + TRY_AGAIN_US + TRY_AGAIN_TIMES * (now_us() - began_us);
}

int pg_blocked_find(struct cycle_run *run)
{
    struct blocked_keys *known = &run->session->blocked;
    const struct cycle *c = run->cycle;
    int64_t began_us = now_us(), until_us = began_us + min64(c->lease_us / TRY_LEASE_PART, TRY_MAX_US);
    if (c->effect_count == 0 || (!known->look && known->count == 0))
        return PR_OK;
    bool again = began_us >= known->try_at_us || (known->count <= TRIED_AT_ONCE_MAX && !others_go_on(run));
    struct births b = { .list = arena_alloc_array(&run->session->arena, c->effect_count, sizeof(b.list[0])) };
    bool *tried = arena_alloc_array(&run->session->arena, c->effect_count, sizeof(tried[0]));
    if (b.list == NULL || tried == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for %zu effects", c->effect_count);
    collect(run, again, &b);
    run->guards.any = true; /* busy verdicts are noted for the case that the cycle is asked again */
    if (!known->look && !again)
        return PR_OK;
    int rc = known->look ? try_births(run, &b, TRIED_TOGETHER, tried, until_us) : PR_OK;
    if (rc == PR_OK)
        rc = try_births(run, &b, 1, tried, until_us);
    if (rc == PR_OK)
        conclude(run, &b, began_us);
    return rc;
}
