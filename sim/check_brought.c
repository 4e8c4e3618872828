/* I21: all effects of a verdict are stored: every part of a split, the message that a handler sent with its result, the
 * one that a rule raised, and the letter that went to another endpoint.  A cycle is one transaction: they follow their
 * verdict directly in the history. */
#include "base/slice.h"
#include "checkers.h"

static bool is_next_verdict(const struct event *e)
{
    return e->kind == EVENT_VERDICT || e->kind == EVENT_CYCLE;
}

static size_t messages_behind(const struct checker *c)
{
    size_t count = 0;
    for (size_t i = c->at + 1; i < c->w->history.count && !is_next_verdict(&c->w->history.events[i]); i++)
        count += c->w->history.events[i].kind == EVENT_COMMIT;
    return count;
}

static bool is_born(struct checker *c, uint32_t message, unsigned endpoint)
{
    if (shadow_find(c, message, (uint16_t)(endpoint + 1)) != NULL)
        return true;
    for (size_t i = c->at + 1; i < c->w->history.count && !is_next_verdict(&c->w->history.events[i]); i++) {
        const struct event *e = &c->w->history.events[i];
        bool is_told = e->kind == EVENT_BORN || e->kind == EVENT_LEFT_OUT; /* check_left_out() */
        if (is_told && e->message == message && e->destination == endpoint + 1)
            return true;
    }
    return false;
}

void check_split(struct checker *c, const struct event *e)
{
    const struct shadow_targets *t = &c->messages[e->message].targets[c->configs[e->instance].now];
    for (size_t i = 0; i < t->count; i++)
        if (!is_born(c, e->message, t->list[i]))
            breach_set(c, "I21", "m%u was split, and its part for e%u is missing", e->message, t->list[i]);
}

void check_handled(struct checker *c, const struct event *e)
{
    const struct parcel *sent = c->messages[e->message].parcel->effect;
    if (sent != NULL && c->messages[sent->index].committed == 0 && messages_behind(c) == 0)
        breach_set(c, "I21", "m%u was handled, and m%u, which its handler sent with it, is missing", e->message,
                   sent->index);
}

void check_ruled(struct checker *c, const struct event *e, const struct sim_expectation *x, bool moved)
{
    const struct pr_message *m = &c->messages[e->message].parcel->m;
    bool raises = x->by != NULL && x->by->raise && !slice_contains(m->headers, PR_STR("\"postrider-raised\""));
    size_t wanted = (size_t)raises + (size_t)moved, found = messages_behind(c);
    if (found < wanted)
        breach_set(c, "I21", "%zu messages came with the verdict of m%u, and its rule %s", found, e->message,
                   raises && moved ? "moves it and raises one"
                   : moved         ? "moves it"
                                   : "raises one");
}
