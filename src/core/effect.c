#include "core/effect.h"

#include "base/hash.h"
#include "base/slice.h"
#include "core/cycle.h"

static pr_slice guard_key(const struct effect *e)
{
    return e->kind == EFFECT_EVENT ? e->message->stream : e->key;
}

bool effect_same_guard(const struct effect *a, const struct effect *b)
{
    return a->kind == b->kind && slice_eq(guard_key(a), guard_key(b)) &&
           (a->kind != EFFECT_SEEN || (pr_id_equal(a->id, b->id) && slice_eq(a->box, b->box)));
}

uint64_t effect_guard_hash(const struct effect *e)
{
    pr_slice key = guard_key(e);
    uint64_t hash = hash_bytes((uint64_t)e->kind, key.data, key.size);
    return e->kind == EFFECT_SEEN ? hash_bytes(hash, e->id.bytes, sizeof(e->id.bytes)) : hash;
}

/* A table of the first effect of each guard. */
static void find_first(struct effect_guards *g, const struct effect *effects, size_t count, uint32_t *table,
                       size_t room)
{
    for (size_t i = 0; i < count; i++) {
        g->first[i] = SIZE_MAX;
        if (!effect_has_guard(&effects[i]))
            continue;
        size_t at = effect_guard_hash(&effects[i]) & (room - 1);
        while (table[at] != 0 && !effect_same_guard(&effects[table[at] - 1], &effects[i]))
            at = (at + 1) & (room - 1);
        if (table[at] == 0)
            table[at] = (uint32_t)i + 1;
        g->first[i] = table[at] - 1;
        g->any = true;
        if (effects[g->first[i]].verdict != effects[i].verdict)
            g->answers[i] = ANSWER_BUSY;
    }
}

int effect_guards_init(struct effect_guards *g, const struct effect *effects, size_t count, size_t verdict_count,
                       struct arena *arena)
{
    size_t room = 16;
    while (room < 2 * count)
        room *= 2;
    uint32_t *table = arena_alloc_array(arena, room, sizeof(table[0]));
    g->first = arena_alloc_array(arena, count, sizeof(g->first[0]));
    g->answers = arena_alloc_array(arena, count, sizeof(g->answers[0]));
    g->verdicts = arena_alloc_array(arena, verdict_count, sizeof(g->verdicts[0]));
    g->any = false;
    if (table == NULL || g->first == NULL || g->answers == NULL || g->verdicts == NULL)
        return PR_ENOMEM;
    find_first(g, effects, count, table, room);
    return PR_OK;
}

void effect_guards_settle(struct effect_guards *g, const struct effect *effects, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (g->first[i] != SIZE_MAX && g->first[i] != i && g->answers[i] == PR_OK &&
            g->answers[g->first[i]] != PR_DUPLICATE)
            g->answers[i] = g->answers[g->first[i]]; /* it goes with the first */
        bool busy = g->answers[i] == ANSWER_BUSY, refused = g->answers[i] == PR_STALE && effects[i].takes_verdict;
        if (effects[i].verdict == EFFECT_ALWAYS || (!busy && !refused))
            continue;
        int *verdict = &g->verdicts[effects[i].verdict];
        if (refused && effects[i].kind == EFFECT_SEEN)
            *verdict = ANSWER_HANDLED;
        else if (*verdict != ANSWER_HANDLED && *verdict != ANSWER_REFUSED)
            *verdict = refused ? ANSWER_REFUSED : ANSWER_BUSY;
    }
}

int effect_guard_answer(const struct effect *e, int64_t found)
{
    bool holds = e->kind == EFFECT_SEEN ? found == 0 : e->expected == EFFECT_ANY || e->expected == found;
    return holds ? PR_OK : PR_STALE;
}
