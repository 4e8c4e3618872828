/* An incoming message is stored once and handled once.
 *
 *   I10  a handler's writes in the transaction that ends a message happen once for each message and handler within the
 *        box's dedupe time, however often it arrives; and a handler is refused only when it came too late
 *   I33  a message for another box is stored there, unchanged, by the transaction that ends it here, once, and in
 *        the order of its stream
 *   I34  a source gets the answer "duplicate" only if the box has the message, or had it; a repeated message is stored
 *        again
 *        only where the first one was split, and its parts decide then
 *   I35  a worker's verdict is answered as committed exactly when it is, and as stale when it came too late */
#include "base/error.h"
#include "base/util.h"
#include "checkers.h"

/* ---- Handlers ------------------------------------------------------------------------------ */

static struct shadow_message *by_id(struct checker *c, uint32_t message)
{
    const struct parcel *p = c->messages[message].parcel;
    return p->original != NULL ? &c->messages[p->original->index] : &c->messages[message];
}

void inbox_effect(struct checker *c, const struct event *e, unsigned endpoint)
{
    struct shadow_message *m = by_id(c, e->message);
    int64_t before_us = m->effect_wall_us[endpoint];
    if (c->s->engine.dedupe_us > 0 && before_us != 0 && e->wall_us < time_add(before_us, c->s->engine.dedupe_us))
        breach_set(c, "I10", "what the handler of e%u writes for m%u was written before", endpoint, e->message);
    m->effect_wall_us[endpoint] = e->wall_us;
}

/* Is there a reason to refuse it: may another instance have the row, or have ended its message? */
static bool may_be_refused(struct checker *c, const struct event *e, const struct shadow_row *row)
{
    const struct shadow_message *m = by_id(c, e->message);
    return shadow_is_over(row) || !row->open || row->session != e->session || row->number != e->number ||
           row->attempts != e->number - 1 || session_may_be_buried(&c->sessions[e->session], e) ||
           m->effect_wall_us[e->what] != 0 || any_has_ended(c, e);
}

void check_settled(struct checker *c, const struct event *e)
{
    struct shadow_row *row = shadow_find(c, e->message, e->destination);
    if (row == NULL || e->answer == PR_FAILED)
        return; /* nothing was committed */
    if (e->answer != PR_OK) {
        if (!may_be_refused(c, e, row))
            breach_set(c, "I10", "the handler of m%u was refused, and nobody was faster", e->message);
        return;
    }
    if (shadow_is_over(row) || row->attempts != e->number - 1)
        breach_set(c, "I6", "hand-out %d of m%u (%s, %d attempts) was completed by its handler", e->number, e->message,
                   state_name(row->state), row->attempts);
    inbox_effect(c, e, e->what);
    check_ends_once(c, e);
    mark_ended(c, e, e->destination);
    row->settled = true;
    row->forget_us = time_add(max64(c->wall_max_us, e->wall_us), c->s->engine.keep_us);
    if (!shadow_is_over(row))
        shadow_move(c, row, STATE_DONE);
}

/* The engine asks whether its handler's report is true: PR_OK means that the row still exists. */
void check_asked(struct checker *c, const struct event *e, unsigned endpoint, struct shadow_row *row)
{
    if (e->answer == PR_OK && row->settled)
        breach_set(c, "I10", "m%u was completed by its handler, and its row is still there", e->message);
    if (e->answer == PR_UNKNOWN && !shadow_is_over(row))
        breach_set(c, "I1", "m%u is gone, and nobody has completed it", e->message);
    row->unsettled = e->answer == PR_OK;
    if (e->answer == PR_UNKNOWN && (e->flag & VERDICT_IS_FENCED) != 0)
        blame_delivered(c, e, &c->s->endpoints[endpoint]);
    if (e->answer == PR_UNKNOWN && row->session == e->session)
        shadow_come_back(row); /* it is out no more */
}

struct shadow_judged *find_judged(const struct shadow_row *row, const struct event *e)
{
    struct shadow_judged *j = row->judged;
    while (j != NULL && (j->session != e->session || j->number != e->number))
        j = j->next;
    return j;
}

void note_judged(struct checker *c, const struct event *e, struct shadow_row *row)
{
    if (e->number == 0)
        return; /* it was not handed out */
    struct shadow_judged *j = arena_zalloc(&c->arena, sizeof(*j));
    ASSERT(j != NULL);
    *j = (struct shadow_judged){ .next = row->judged, .session = e->session, .number = e->number };
    row->judged = j;
}

/* For a cycle that was asked again it is unknown which verdicts were stale. */
void check_answered(struct checker *c, const struct event *e)
{
    const struct shadow_row *row = shadow_find(c, e->message, e->destination);
    const struct event *cycle = &c->w->history.events[c->sessions[e->session].last_cycle];
    bool landed = row != NULL && find_judged(row, e) != NULL;
    if (e->what == PR_VERDICT_SETTLED) { /* that was not its verdict: is it true? */
        if (row != NULL && (e->answer == PR_OK || e->answer == PR_FAILED) && row->settled != (e->answer == PR_OK))
            breach_set(c, "I35", "a worker was told that m%u is %s its own transaction, and it is not so", e->message,
                       e->answer == PR_OK ? "completed by" : "still there behind");
        return;
    }
    if (e->answer == PR_OK && !landed && !(cycle->kind == EVENT_CYCLE && cycle->flag != 0))
        breach_set(c, "I35", "a worker was told that its verdict on hand-out %d of m%u is committed, and it is not",
                   e->number, e->message);
    if (e->answer != PR_OK && landed)
        breach_set(c, "I35",
                   "a worker was told that its verdict on hand-out %d of m%u came too late, and it is committed",
                   e->number, e->message);
}

/* ---- Another box ---------------------------------------------------------------------------- */

bool is_local(const struct endpoint_setting *s)
{
    return s != NULL && s->into_box.size > 0;
}

static const struct event *find_into(const struct checker *c, const struct event *e)
{
    for (size_t i = c->at + 1; i < c->w->history.count; i++) {
        const struct event *next = &c->w->history.events[i];
        if (next->kind == EVENT_VERDICT || next->kind == EVENT_CYCLE)
            return NULL;
        if (next->kind == EVENT_INTO && next->message == e->message)
            return next;
    }
    return NULL;
}

void check_local(struct checker *c, const struct event *e, unsigned endpoint, struct shadow_row *row)
{
    struct shadow_message *m = &c->messages[e->message], *same = by_id(c, e->message);
    const struct event *into = find_into(c, e);
    struct event start = *e;
    start.what = (uint16_t)endpoint;
    if (into == NULL || (into->answer != PR_OK && into->answer != PR_DUPLICATE))
        breach_set(c, "I33", "m%u ended here, and did not go into the other box", e->message);
    else if ((into->answer == PR_DUPLICATE) != (same->into > 0))
        breach_set(c, "I33", "m%u %s the other box, which %s", e->message,
                   into->answer == PR_OK ? "was put into" : "was refused by",
                   same->into > 0 ? "has had it before" : "has never had it");
    else if (into->answer == PR_OK && into->extra != m->parcel->digest)
        breach_set(c, "I8", "m%u went into the other box changed", e->message);
    same->into++;
    check_may_go(c, e, m, row);
    check_start_order(c, &start, m, row);
    wait_local(c, &start, row);
    row->sent = true;
    if (row->state == STATE_PARKED && row->set_aside)
        row->state = STATE_IN_FLIGHT; /* by hand, a moment ago: the reply will tell */
    if (row->state != STATE_IN_FLIGHT)
        shadow_move(c, row, STATE_IN_FLIGHT);
}

/* ---- Sources ----------------------------------------------------------------------------------- */

void check_brought_again(struct checker *c, const struct event *e)
{
    const struct shadow_message *m = &c->messages[e->message];
    if (e->answer == PR_OK && !m->split)
        breach_set(c, "I34", "m%u was brought again, and stored again", e->message);
    else if (m->committed == 0)
        breach_set(c, "I34", "m%u was refused as a duplicate, and the box has never had it", e->message);
}
