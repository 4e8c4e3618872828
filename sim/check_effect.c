/* I31: effects of every kind are stored once and with their verdict, or not at all; a guard refuses exactly what it
 * must. */
#include "checkers.h"

/* Does the guard of an event or of history hold? */
static bool guard_holds(const struct shadow_effects *s, const struct event *e)
{
    return e->number == s->numbers[e->what][e->destination];
}

static void check_applied(struct checker *c, const struct event *e)
{
    struct shadow_effects *s = &c->effects;
    struct shadow_message *m = &c->messages[e->message];
    bool guarded = e->what == EFFECT_EVENT || e->what == EFFECT_HISTORY;
    bool twice = e->what == EFFECT_EVENT && m->event_stored;
    if (twice != (e->answer == PR_DUPLICATE))
        breach_set(c, "I31", "the event of m%u was answered %d, and was stored %d times before", e->message, e->answer,
                   twice);
    if (guarded && !twice && !guard_holds(s, e))
        breach_set(c, "I31", "an effect of m%u expected %d and was applied at %lld", e->message, e->number,
                   (long long)s->numbers[e->what][e->destination]);
    if (e->what == EFFECT_SEEN && m->marked != (e->answer == PR_STALE))
        breach_set(c, "I31", "the mark of m%u was answered %d", e->message, e->answer);
    if (e->answer != PR_OK)
        return;
    s->numbers[e->what][e->destination] += e->value;
    m->event_stored = m->event_stored || e->what == EFFECT_EVENT;
    m->marked = m->marked || e->what == EFFECT_SEEN;
}

/* The effects of a verdict come one after the other; DELETE is the last. */
static void check_refused(struct checker *c, const struct event *e)
{
    struct shadow_effects *s = &c->effects;
    bool guarded = e->what == EFFECT_EVENT || e->what == EFFECT_HISTORY;
    bool known = e->what == EFFECT_EVENT && c->messages[e->message].event_stored;
    s->mismatch = s->mismatch || (guarded && !known && !guard_holds(s, e));
    if (e->what != EFFECT_DELETE)
        return;
    if (!s->mismatch)
        breach_set(c, "I31", "m%u was refused, and every guard of its effects holds", e->message);
    s->mismatch = false;
}

void check_effect(struct checker *c, const struct event *e)
{
    int verdict = (int)e->extra;
    if (verdict == PR_OK)
        check_applied(c, e);
    else if (e->answer != PR_UNKNOWN)
        breach_set(c, "I31", "an effect of m%u was applied without its verdict", e->message);
    if (verdict == ANSWER_REFUSED)
        check_refused(c, e);
}

/* The effects in the store at the end. */
void check_kept(struct checker *c, const struct event *e)
{
    if (e->value != c->effects.numbers[e->what][e->destination])
        breach_set(c, "I31", "%lld of kind %u are stored under key %u, and %lld were", (long long)e->value, e->what,
                   e->destination, (long long)c->effects.numbers[e->what][e->destination]);
}
