/* I28: the ledger has the correct end of every message, once for each end and with the attempt that ended it; and
 * nothing else.  It is read when the run is over. */
#include "base/error.h"
#include "checkers.h"

static const char *as_words(int as)
{
    return as == ENDED_BY_PERSON ? "discarded by a person" : ended_name(as);
}

static void expect(struct checker *c, uint32_t message, enum ended_as as, int attempt)
{
    const struct parcel *p = c->messages[message].parcel;
    struct shadow_message *m =
        p->original != NULL ? &c->messages[p->original->index] : &c->messages[message]; /* by id */
    struct shadow_end *end = arena_zalloc(&c->arena, sizeof(*end));
    ASSERT(end != NULL);
    *end = (struct shadow_end){
        .next = m->ends, .as = as, .attempt = attempt, .at_us = c->w->history.events[c->at].at_us
    };
    m->ends = end;
}

/* With a verdict that was applied. */
void ended_verdict(struct checker *c, const struct event *e)
{
    bool moved = (e->flag & VERDICT_IS_MOVED) != 0;
    bool asked = e->what == VERDICT_ASK && e->answer == PR_UNKNOWN && (e->flag & VERDICT_IS_FENCED) != 0;
    if ((e->what == VERDICT_COMPLETE || asked) && c->s->engine.keep_us == 0)
        expect(c, e->message, ENDED_DELIVERED, e->number);
    else if (e->what == VERDICT_DISCARD && !moved)
        expect(c, e->message, ENDED_DISCARDED, e->number);
    else if (e->what == VERDICT_EXPIRE)
        expect(c, e->message, ENDED_EXPIRED, e->number);
    else if (e->what == VERDICT_DUPLICATE)
        expect(c, e->message, ENDED_DUPLICATE, e->number);
}

void ended_left_out(struct checker *c, uint32_t message)
{
    expect(c, message, ENDED_DUPLICATE, 0);
}

void ended_by_person(struct checker *c, uint32_t message)
{
    expect(c, message, ENDED_BY_PERSON, 0);
}

/* The ledger knows ids, and several messages may have this one. */
static struct shadow_end *find_reported(struct checker *c, const struct event *e, int attempt)
{
    const struct parcel *p = c->messages[e->message].parcel;
    for (const struct parcel *twin = parcel_next_of_id(p, NULL); twin != NULL; twin = parcel_next_of_id(p, twin))
        for (struct shadow_end *end = c->messages[twin->index].ends; end != NULL; end = end->next)
            if (!end->reported && (int)end->as == e->what && end->attempt == attempt)
                return end;
    return NULL;
}

/* Without a hand-out (0) the ledger has the attempts before it, which operators may have reset. */
static void check_reported(struct checker *c, const struct event *e)
{
    struct shadow_end *end = find_reported(c, e, e->number);
    if (end == NULL)
        end = find_reported(c, e, 0);
    if (end == NULL)
        breach_set(c, "I28", "the ledger says that m%u was %s at attempt %d, and it was not", e->message,
                   as_words(e->what), e->number);
    else
        end->reported = true;
}

/* Two rows of one id that ended in the same way at the same moment may be one line. */
static bool is_told_of_twin(struct checker *c, const struct shadow_message *m, const struct shadow_end *end)
{
    for (const struct parcel *twin = parcel_next_of_id(m->parcel, NULL); twin != NULL;
         twin = parcel_next_of_id(m->parcel, twin))
        for (const struct shadow_end *other = c->messages[twin->index].ends; other != NULL; other = other->next)
            if (other != end && other->reported && other->as == end->as && other->at_us == end->at_us)
                return true;
    return false;
}

void check_ended(struct checker *c, const struct event *e)
{
    if (e->message != MESSAGE_NONE) {
        check_reported(c, e);
        return;
    }
    for (uint32_t i = 0; i < c->message_count; i++) /* all of it was told */
        for (const struct shadow_end *end = c->messages[i].ends; end != NULL; end = end->next)
            if (!end->reported && !is_told_of_twin(c, &c->messages[i], end))
                breach_set(c, "I28", "m%u was %s, and the ledger does not say so", i, as_words((int)end->as));
}
