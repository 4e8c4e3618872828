#include "core/effect.h"

#include "base/hash.h"
#include "base/slice.h"
#include "core/cycle.h"
#include "core/message.h"

/* Messages that are events have the guard of an event, too: they are appended to their stream. */
static enum effect_kind guard_kind(const struct effect *e)
{
    return e->kind == EFFECT_MESSAGE ? EFFECT_EVENT : e->kind;
}

pr_slice effect_guard_key(const struct effect *e)
{
    if (e->kind == EFFECT_FLOW)
        return e->flow->id;
    return guard_kind(e) == EFFECT_EVENT ? e->message->stream : e->key;
}

bool effect_same_guard(const struct effect *a, const struct effect *b)
{
    return guard_kind(a) == guard_kind(b) && slice_eq(effect_guard_key(a), effect_guard_key(b)) &&
           (a->kind != EFFECT_SEEN || (pr_id_equal(a->id, b->id) && slice_eq(a->box, b->box)));
}

uint64_t effect_guard_hash(const struct effect *e)
{
    pr_slice key = effect_guard_key(e);
    uint64_t hash = hash_bytes((uint64_t)guard_kind(e), key.data, key.size);
    return e->kind == EFFECT_SEEN ? hash_bytes(hash, e->id.bytes, sizeof(e->id.bytes)) : hash;
}

/* The index in the table of this effect's guard: its entry, or the free place for it. */
static size_t guard_place(const struct effect *effects, const struct effect *e, const uint32_t *table, size_t room)
{
    size_t at = effect_guard_hash(e) & (room - 1);
    while (table[at] != 0 && !effect_same_guard(&effects[table[at] - 1], e))
        at = (at + 1) & (room - 1);
    return at;
}

/* Fill the table: the first effect of each guard. */
static void find_first(struct effect_guards *g, const struct effect *effects, size_t count, uint32_t *table,
                       size_t room)
{
    for (size_t i = 0; i < count; i++) {
        g->first[i] = SIZE_MAX;
        if (!effect_has_guard(&effects[i]))
            continue;
        size_t at = guard_place(effects, &effects[i], table, room);
        if (table[at] == 0)
            table[at] = (uint32_t)i + 1;
        g->first[i] = table[at] - 1;
        g->any = true;
        if (effects[g->first[i]].verdict != effects[i].verdict)
            g->answers[i] = ANSWER_BUSY;
    }
}

/* Messages that are events without a guard, in a stream whose guard another verdict uses. */
static void find_between(struct effect_guards *g, const struct effect *effects, size_t count, const uint32_t *table,
                         size_t room)
{
    for (size_t i = 0; i < count; i++) {
        const struct effect *e = &effects[i];
        if (e->kind != EFFECT_MESSAGE || !e->message->event || g->first[i] != SIZE_MAX || e->verdict == EFFECT_ALWAYS)
            continue;
        uint32_t first = table[guard_place(effects, e, table, room)];
        if (first != 0 && effects[first - 1].verdict != e->verdict)
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
    if (g->any)
        find_between(g, effects, count, table, room);
    return PR_OK;
}

static bool takes_verdict(const struct effect *e)
{
    return e->takes_verdict || e->kind == EFFECT_MESSAGE;
}

void effect_guards_settle(struct effect_guards *g, const struct effect *effects, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (g->first[i] != SIZE_MAX && g->first[i] != i && g->answers[i] == PR_OK &&
            g->answers[g->first[i]] != PR_DUPLICATE)
            g->answers[i] = g->answers[g->first[i]]; /* the same answer as the first effect with this guard */
        bool busy = g->answers[i] == ANSWER_BUSY, refused = g->answers[i] == PR_STALE && takes_verdict(&effects[i]);
        if (effects[i].verdict == EFFECT_ALWAYS || (!busy && !refused))
            continue;
        int *verdict = &g->verdicts[effects[i].verdict];
        if (refused && effects[i].kind == EFFECT_SEEN)
            *verdict = ANSWER_HANDLED;
        else if (*verdict != ANSWER_HANDLED && *verdict != ANSWER_REFUSED)
            *verdict = refused ? ANSWER_REFUSED : ANSWER_BUSY;
    }
}

static int64_t expected_of(const struct effect *e)
{
    return e->kind == EFFECT_MESSAGE ? e->message->expected_version : e->expected;
}

int effect_version_conflict(const struct effect *e, int64_t found, struct pr_error *reterr)
{
    struct pr_message m = *e->message;
    m.expects_version = expected_of(e) != EFFECT_ANY;
    m.expected_version = expected_of(e);
    return message_expectation(&m, false, found, reterr);
}

int effect_guard_answer(const struct effect *e, int64_t found)
{
    int64_t expected = expected_of(e);
    bool holds = e->kind == EFFECT_SEEN ? found == 0 : expected == EFFECT_ANY || expected == found;
    return holds ? PR_OK : PR_STALE;
}

int effect_flow_answer(const struct effect *e, const struct flow_row *found)
{
    if (pr_id_is_zero(e->id))
        return found == NULL || (e->flow->restarts && flow_has_ended(found)) ? PR_OK : PR_STALE;
    return found != NULL && pr_id_equal(found->execution, e->id) && found->next == e->expected ? PR_OK : PR_STALE;
}

int joined_answer(int leader)
{
    return leader == PR_OK || leader == ANSWER_BUSY ? leader : ANSWER_REFUSED;
}
