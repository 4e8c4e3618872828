/* What may happen to a row, event by event: I1, I2, I4, I5, I7, I8, I9, I12. */
#include "checkers.h"

#include "base/slice.h"
#include "base/util.h"

/* The row of an event; NULL after a breach. */
static struct shadow_row *row_of(struct checker *c, const struct event *e)
{
    struct shadow_message *m = &c->messages[e->message];
    struct shadow_row *row = shadow_find(c, e->message, e->destination);
    if (m->lost)
        breach_set(c, "I24", "the commit of m%u was lost, and it came to light afterwards", e->message);
    else if (m->rolled_back)
        breach_set(c, "I2", "m%u was rolled back and came to light", e->message);
    else if (row == NULL)
        breach_set(c, "I2", "m%u came to light before it was committed", e->message);
    return c->breach->invariant == NULL ? row : NULL;
}

/* The instance that sees the row now owns its lane: a hand-out by another one is history. */
static void bury_former(const struct event *e, struct shadow_row *row)
{
    if (row->open && row->session != e->session)
        shadow_bury(row);
}

/* B47: each hand-out without an outcome is in the story, unless the oldest lines were dropped. */
static void check_story(struct checker *c, const struct event *e, struct shadow_row *row)
{
    int lines = e->answer >> 8, lost = e->answer & 0xff;
    bool whole = lines < STORY_LINES_MAX;
    if (lost > row->lost + row->lost_perhaps || (lost < row->lost && whole))
        breach_set(c, "I4", "the story of m%u tells of %d hand-outs without an outcome; its history has %d", e->message,
                   lost, row->lost);
    if (whole) {
        row->lost = lost;
        row->lost_perhaps = 0;
    }
}

void check_read(struct checker *c, const struct event *e)
{
    struct shadow_row *row = row_of(c, e);
    if (row == NULL)
        return;
    struct shadow_message *m = &c->messages[e->message];
    if (m->seq != 0 && m->seq != (int64_t)e->extra)
        breach_set(c, "I5", "m%u changed its place from %lld to %lld", e->message, (long long)m->seq,
                   (long long)e->extra);
    m->seq = (int64_t)e->extra;
    if (shadow_is_over(row)) {
        breach_set(c, "I5", "m%u is %s and was read from the box", e->message, state_name(row->state));
        return;
    }
    bury_former(e, row);
    if (e->number != row->attempts || e->value != row->failures)
        breach_set(c, "I4", "m%u is stored with %d attempts and %d failures; its history has %d and %d", e->message,
                   e->number, (int)e->value, row->attempts, row->failures);
    else
        check_story(c, e, row);
}

/* ---- Handing out ----------------------------------------------------------------------------- */

/* Between its cycles an engine can only estimate the store's clock.  This is the maximum error of the best estimate:
 * the clock drifts by one in a hundred at most, and may have jumped. */
static int64_t latest_guess_us(const struct checker *c, const struct event *e)
{
    const struct shadow_session *s = &c->sessions[e->session];
    int64_t passed_us = e->at_us - c->w->history.events[s->last_cycle].at_us;
    return max64(e->wall_us, s->last_wall_us + passed_us) + passed_us / 50;
}

static void check_pause(struct checker *c, const struct event *e, const struct shadow_row *row)
{
    int endpoint = shadow_endpoint(c, row, shadow_config(c, e, row));
    if (endpoint < 0)
        return;
    const struct shadow_endpoint *p = &c->endpoints[endpoint];
    const struct shadow_session *s = &c->sessions[e->session];
    /* It had a cycle since the pause began: so it knows. */
    if (p->paused_at != 0 && s->last_cycle > p->paused_at && p->until_us > latest_guess_us(c, e))
        breach_set(c, "I4", "m%u was handed out to a paused endpoint", e->message);
}

static void check_times(struct checker *c, const struct event *e, const struct shadow_message *m,
                        const struct shadow_row *row)
{
    int64_t expires_us = m->parcel->m.expires_us, known_us = c->sessions[e->session].last_wall_us;
    if (!shadow_due_is_reached(row, e->wall_us))
        breach_set(c, "I12", "m%u was handed out %lld us too early", e->message, (long long)(row->due_us - e->wall_us));
    if (expires_us != 0 && known_us != 0 && expires_us <= known_us && expires_us <= e->wall_us)
        breach_set(c, "I5", "m%u was handed out when its time was over", e->message);
}

void check_may_go(struct checker *c, const struct event *e, const struct shadow_message *m,
                  const struct shadow_row *row)
{
    check_times(c, e, m, row);
    check_pause(c, e, row);
}

static void check_announced(struct checker *c, const struct event *e, const struct shadow_message *m,
                            const struct shadow_row *row)
{
    if (shadow_endpoint(c, row, row->config) < 0)
        breach_set(c, "I5", "m%u has nowhere to go and was handed out", e->message);
    check_times(c, e, m, row);
    /* One that is still on an open receipt may be carried over by a cycle that was planned before its failure. */
    if (!(row->open && row->session == e->session && row->number == e->number))
        check_pause(c, e, row);
}

void check_handout(struct checker *c, const struct event *e)
{
    struct shadow_message *m = &c->messages[e->message];
    struct shadow_row *row = row_of(c, e);
    check_acts(c, e);
    if (row == NULL)
        return;
    if (row->settled && row->open && row->session == e->session)
        row->receipt = e->value; /* its handler was faster: it is carried over until that is known */
    if (shadow_is_over(row))     /* an operator was faster: the store has a receipt without a row */
        return;
    if (row->open && row->session == e->session && row->number == e->number) {
        /* Carried over; or, after an answer that was no yes, handed out again: a cycle that was asked
         * before the answer and one that was planned after it look the same from here. */
        row->receipt = e->value;
        row->by_store = false; /* whether it may go was decided before */
        row->config = e->flag != 0 ? row->config : c->configs[e->instance].now;
        row->forgotten = false;
        row->again = row->started && row->result != RESULT_NONE && row->result != SEND_OK;
        return;
    }
    bury_former(e, row);
    /* (An operator may have changed the counters since the instance had its last cycle.) */
    if (e->number != row->attempts + 1 && row->reset_at <= c->sessions[e->session].last_cycle)
        breach_set(c, "I4", "hand-out %d of m%u, which was handed out %d times", e->number, e->message, row->attempts);
    row->config = c->configs[e->instance].now;
    if (e->flag != HANDOUT_BY_STORE) /* which does not know whether it may go: the engine starts it or hands it back */
        check_announced(c, e, m, row);
    row->open = true;
    if (!row->in_open_rows) {
        row->in_open_rows = true;
        row->open_next = c->open_rows;
        c->open_rows = row;
    }
    row->session = e->session;
    row->number = e->number;
    row->unexplained = e->number - row->failures;
    row->handed_out = true;
    row->by_store = e->flag == HANDOUT_BY_STORE;
    row->ahead = row->ahead || row->excused;
    row->receipt = e->value;
    row->started = row->again = row->forgotten = row->busy = false;
    if (find_judged(row, e) != NULL)
        find_judged(row, e)->number = 0;
    row->result = RESULT_NONE;
    /* A row that was parked a moment ago can still be on a receipt: the reply will tell. */
    if (row->state != STATE_IN_FLIGHT && row->state != STATE_PARKED)
        shadow_move(c, row, STATE_IN_FLIGHT);
}

/* For a verdict answered busy: does it come again?  A breaker that opens meanwhile takes failures back. */
static bool is_judged_again(const struct checker *c, const struct shadow_row *row)
{
    if (row->result == RESULT_NONE || row->result == SEND_OK)
        return true;
    for (size_t i = c->at + 1; i < c->w->history.count; i++) {
        const struct event *e = &c->w->history.events[i];
        if (e->session != row->session || e->message != row->message || e->destination != row->destination)
            continue;
        if (e->kind == EVENT_VERDICT || e->kind == EVENT_HANDOUT)
            return e->kind == EVENT_VERDICT && e->number == row->number;
    }
    return false;
}

/* Handed back without being counted: only what was not started, or what failed. */
static void close_row(struct checker *c, struct shadow_row *row)
{
    /* Its hand-out is counted no more if its instance dies before its verdict comes again. */
    if (row->busy && is_judged_again(c, row)) {
        row->forgotten = true;
        return;
    }
    if (row->started && (row->result == RESULT_NONE || row->result == SEND_OK))
        breach_set(c, "I4", "receipt %lld was closed without a verdict on m%u", (long long)row->receipt, row->message);
    shadow_come_back(row);
}

/* Receipts close with nearly every cycle, so only rows that are out are looked at. */
void check_close(struct checker *c, const struct event *e)
{
    check_acts(c, e);
    for (struct shadow_row **link = &c->open_rows; *link != NULL;) {
        struct shadow_row *row = *link;
        if (row->open && row->session == e->session && row->receipt == e->value)
            close_row(c, row);
        if (row->open) {
            link = &row->open_next;
        } else {
            *link = row->open_next;
            row->in_open_rows = false;
        }
    }
}

/* ---- Verdicts ------------------------------------------------------------------------------------ */

/* The endpoint of a row; its settings determine what follows failures. */
static const struct endpoint_setting *setting_of(struct checker *c, const struct event *e)
{
    const struct shadow_row *row = shadow_find(c, e->message, e->destination);
    int endpoint = shadow_endpoint(c, row, shadow_config(c, e, row));
    return endpoint < 0 ? NULL : &c->s->endpoints[endpoint];
}

/* What must follow the n-th failure of this row. */
static struct sim_expectation expect(struct checker *c, const struct event *e, const struct endpoint_setting *s,
                                     int failures)
{
    struct sim_expectation x;
    rules_expect(c->s, (unsigned)(s - c->s->endpoints), &c->messages[e->message].parcel->m, (int)e->extra, failures,
                 &x);
    return x;
}

static bool is_moved(const struct pr_message *m)
{
    return slice_contains(m->headers, PR_STR("\"postrider-dead-id\""));
}

static bool goes_elsewhere(struct checker *c, const struct event *e, const struct sim_expectation *x)
{
    return x->step == STEP_DEAD_LETTER && x->by != NULL && x->by->to != SIM_NOBODY &&
           !is_moved(&c->messages[e->message].parcel->m);
}

/* Found before it was sent. */
static void take_unsent(const struct event *e, struct shadow_row *row)
{
    if (row->state != STATE_IN_FLIGHT && e->extra == PR_REASON_MESSAGE_TOO_LARGE)
        row->state = STATE_IN_FLIGHT;
}

static void on_complete(struct checker *c, const struct event *e, struct shadow_row *row)
{
    const struct endpoint_setting *s = setting_of(c, e);
    if (is_local(s))
        check_local(c, e, (unsigned)(s - c->s->endpoints), row);
    else if (!row->open || row->session != e->session || !row->started || row->result != SEND_OK)
        breach_set(c, "I1", "m%u was completed, but its receiver never said yes to this hand-out", e->message);
    if (s != NULL && !is_local(s))
        inbox_effect(c, e, (unsigned)(s - c->s->endpoints));
    if (s != NULL)
        blame_delivered(c, e, s);
    if (!is_local(s))
        check_handled(c, e);
    check_ends_once(c, e);
    mark_ended(c, e, e->destination);
    row->forget_us = time_add(max64(c->wall_max_us, e->wall_us), c->s->engine.keep_us);
    shadow_move(c, row, STATE_DONE);
}

/* It waits, and people can see why. */
static void note_failure(struct checker *c, const struct event *e, struct shadow_row *row)
{
    row->failed = true;
    row->delayed = row->excused = row->parked = false;
    row->due_us = row->wait_until_us = e->wall_us + e->value;
    row->due_reached = false;
    row->failed_event = c->at;
    row->failed_wall_us = e->wall_us;
}

static void on_postpone(struct checker *c, const struct event *e, struct shadow_row *row)
{
    const struct endpoint_setting *s = setting_of(c, e);
    bool stays = row->parked; /* by hand, while it was out */
    struct sim_expectation x = { .step = STEP_DEAD_LETTER };
    if (s != NULL)
        x = expect(c, e, s, row->failures + 1);
    if (!row->refused && !row->unsettled && (s == NULL || !blame_applies(s, &x) || !blame_postpones(e, row)))
        breach_set(c, "I4", "m%u was postponed, and it is not its endpoint's fault", e->message);
    row->refused = row->unsettled = false;
    note_failure(c, e, row);
    shadow_move(c, row, stays ? STATE_PARKED : STATE_RETRYING);
}

static void on_fail(struct checker *c, const struct event *e, struct shadow_row *row)
{
    const struct endpoint_setting *s = setting_of(c, e);
    bool stays = row->parked; /* by hand, while it was out */
    row->attempts = e->number;
    row->failures++;
    struct sim_expectation x = { .step = STEP_DEAD_LETTER };
    if (s != NULL)
        x = expect(c, e, s, row->failures);
    if (s != NULL && blame_applies(s, &x)) {
        blame_check_failure(c, e, s, row, row->failures);
        x.step = STEP_RETRY;
    }
    check_ruled(c, e, &x, false);
    note_failure(c, e, row);
    if (x.step != STEP_RETRY && x.step != STEP_RETRY_NOW)
        breach_set(c, "I4", "m%u has failed %d times and is to be tried again", e->message, row->failures);
    else if (e->value < x.delay_us - 1)
        breach_set(c, "I12", "failure %d of m%u waits %lld us", row->failures, e->message, (long long)e->value);
    take_unsent(e, row);
    shadow_move(c, row, stays ? STATE_PARKED : STATE_RETRYING);
}

static void on_dead(struct checker *c, const struct event *e, struct shadow_row *row)
{
    const struct endpoint_setting *s = setting_of(c, e);
    bool undecodable = c->messages[e->message].parcel->undecodable;
    bool counted = (e->flag & VERDICT_IS_COUNTED) != 0;
    int failures = row->failures + counted;
    struct sim_expectation x = { 0 };
    if (s != NULL && counted)
        x = expect(c, e, s, failures);
    bool blames = s != NULL && counted && !undecodable && blame_applies(s, &x);
    if (blames)
        blame_check_death(c, e, s, row, failures);
    bool over = blames || (s != NULL && counted && x.step == STEP_DEAD_LETTER && !goes_elsewhere(c, e, &x));
    bool poison = s != NULL && !counted && e->number - failures > s->max_attempts;
    if (over && !undecodable)
        check_ruled(c, e, &x, false);
    if (!undecodable && !over && !poison)
        breach_set(c, "I4", "m%u is dead after %d attempts and %d failures: too early", e->message, e->number,
                   failures);
    row->attempts = max64(row->attempts, e->number);
    row->failures = failures;
    shadow_handler(c, e->message, e->destination)->was_dead = true;
    shadow_move(c, row, STATE_DEAD);
}

/* A failure whose rule discards the message, or moves it to another endpoint. */
static void on_discard(struct checker *c, const struct event *e, struct shadow_row *row)
{
    const struct endpoint_setting *s = setting_of(c, e);
    bool moved = (e->flag & VERDICT_IS_MOVED) != 0;
    struct sim_expectation x = { 0 };
    if (s != NULL)
        x = expect(c, e, s, row->failures + 1);
    if (moved ? !goes_elsewhere(c, e, &x) : x.step != STEP_DISCARD)
        breach_set(c, "I1", "m%u was %s, and no rule said so", e->message, moved ? "moved" : "discarded");
    check_ruled(c, e, &x, moved);
    take_unsent(e, row);
    mark_ended(c, e, e->destination);
    shadow_move(c, row, STATE_GONE);
}

static void on_park(struct checker *c, const struct event *e, struct shadow_row *row)
{
    const struct endpoint_setting *s = setting_of(c, e);
    struct sim_expectation x = { .step = STEP_PARK };
    if (s != NULL)
        x = expect(c, e, s, row->failures + 1);
    row->unrouted = s == NULL;
    if (x.step != STEP_PARK)
        breach_set(c, "I5", "m%u was parked and has somewhere to go", e->message);
    check_ruled(c, e, &x, false);
    row->failed = true;
    row->failed_event = c->at;
    row->failed_wall_us = e->wall_us;
    if (e->number > 0) { /* it was handed out */
        row->failures++;
        row->attempts = e->number;
    }
    take_unsent(e, row);
    shadow_move(c, row, STATE_PARKED);
}

static void on_expire(struct checker *c, const struct event *e, struct shadow_row *row)
{
    int64_t expires_us = c->messages[e->message].parcel->m.expires_us;
    if (expires_us == 0 || expires_us > max64(latest_guess_us(c, e), c->wall_max_us))
        breach_set(c, "I1", "m%u ended as expired, and is not", e->message);
    mark_ended(c, e, e->destination);
    shadow_move(c, row, STATE_GONE);
}

static void on_abandon(struct checker *c, const struct event *e, struct shadow_row *row)
{
    bool returns = !row->open && e->number == 0 && row->state == STATE_PARKED;
    bool stays = row->parked && !returns; /* by hand, while it was out */
    if (e->number > 0) {
        row->attempts = e->number;
        row->excused = false;
    }
    if (returns && (!row->unrouted || setting_of(c, e) == NULL))
        breach_set(c, "I5", "m%u is not parked any more, and %s", e->message,
                   row->unrouted ? "still has nowhere to go" : "nobody said so");
    row->excused = row->excused || returns; /* its followers may be ahead already */
    row->unrouted = false;
    if (row->open && row->result != SEND_ABANDONED && !c->sessions[e->session].gave_up)
        breach_set(c, "I4", "m%u was abandoned, and nobody gave up on it", e->message);
    row->due_us = row->wait_until_us = e->wall_us + e->value;
    row->due_reached = row->parked = false;
    shadow_move(c, row, stays ? STATE_PARKED : STATE_READY);
}

/* A worker hands it back, and lets it overtake. */
static void on_release(struct checker *c, const struct event *e, struct shadow_row *row)
{
    bool stays = row->parked;
    if (row->result != SEND_RELEASED)
        breach_set(c, "I4", "m%u was released, and no worker said so", e->message);
    row->released = row->due_reached = true;
    row->due_us = row->wait_until_us = e->wall_us;
    shadow_move(c, row, stays ? STATE_PARKED : STATE_READY);
}

/* Does the cycle of this verdict close the receipt of the row, without carrying it over?  A cycle is one transaction;
 * its receipts follow its verdicts in the history. */
static bool is_handed_back(const struct checker *c, const struct event *e, const struct shadow_row *row)
{
    bool closed = false;
    for (size_t i = c->at + 1; i < c->w->history.count && c->w->history.events[i].kind != EVENT_CYCLE; i++) {
        const struct event *next = &c->w->history.events[i];
        if (next->kind == EVENT_HANDOUT && next->message == e->message && next->destination == e->destination)
            return false;
        closed = closed || (next->kind == EVENT_CLOSE && next->session == e->session && next->value == row->receipt);
    }
    return closed;
}

static void on_hold(struct checker *c, const struct event *e, struct shadow_row *row)
{
    if (row->open && row->session == e->session && is_handed_back(c, e, row))
        close_row(c, row);
    if (row->state != STATE_HELD) /* twice is no harm */
        shadow_move(c, row, STATE_HELD);
    row->held = c->configs[e->instance].now;
}

static void apply_verdict(struct checker *c, const struct event *e, struct shadow_row *row)
{
    struct shadow_message *m = &c->messages[e->message];
    switch ((enum verdict_kind)e->what) {
    case VERDICT_COMPLETE: on_complete(c, e, row); break;
    case VERDICT_FAIL: on_fail(c, e, row); break;
    case VERDICT_ABANDON: on_abandon(c, e, row); break;
    case VERDICT_RELEASE: on_release(c, e, row); break;
    case VERDICT_POSTPONE: on_postpone(c, e, row); break;
    case VERDICT_DEAD_LETTER: on_dead(c, e, row); break;
    case VERDICT_EXPIRE: on_expire(c, e, row); break;
    case VERDICT_PARK: on_park(c, e, row); break;
    case VERDICT_DISCARD: on_discard(c, e, row); break;
    case VERDICT_DUPLICATE:
        check_duplicate_end(c, e, true);
        shadow_move(c, row, STATE_GONE);
        break;
    case VERDICT_HOLD: on_hold(c, e, row); break;
    case VERDICT_SPLIT:
        m->split = true;
        check_split(c, e);
        shadow_move(c, row, STATE_GONE);
        break;
    case VERDICT_RETURN: shadow_move(c, row, STATE_READY); break;
    default: breach_set(c, "I5", "m%u: nobody asked for this verdict", e->message); break;
    }
}

/* Verdicts that end a hand-out by its counters. */
static bool compares(enum verdict_kind kind)
{
    return kind == VERDICT_FAIL || kind == VERDICT_POSTPONE || kind == VERDICT_ABANDON || kind == VERDICT_PARK ||
           kind == VERDICT_DISCARD || kind == VERDICT_DEAD_LETTER;
}

void check_verdict(struct checker *c, const struct event *e)
{
    if (c->messages[e->message].lost && e->answer != PR_OK) {
        totals_verdict(c, e); /* it was on its way when the commit was lost */
        return;
    }
    struct shadow_row *row = row_of(c, e);
    check_acts(c, e);
    if (row == NULL)
        return;
    totals_verdict(c, e);
    if (e->what == VERDICT_ASK) {
        check_asked(c, e, (unsigned)(setting_of(c, e) - c->s->endpoints), row);
        ended_verdict(c, e);
        return; /* another verdict comes, or it is over */
    }
    if (e->answer == ANSWER_REFUSED) { /* its handler is asked again */
        row->ok = false;
        row->refused = true;
    }
    if (e->answer == ANSWER_HANDLED) { /* it will end as a duplicate */
        if (!row->settled)             /* by its own handler */
            check_duplicate_end(c, e, false);
        row->ok = false;
        row->handled = true;
        row->busy = row->open && row->session == e->session; /* until then it is on its receipt */
        return;
    }
    if (e->answer == ANSWER_BUSY || e->answer == ANSWER_REFUSED) { /* another verdict comes */
        /* Number 0: it is not about a hand-out.  An operator's retry is read again while its receipt is still open. */
        row->busy = e->answer == ANSWER_BUSY && e->number > 0 && row->open && row->session == e->session;
        return;
    }
    bool ours = row->open && row->session == e->session;
    if (e->answer == PR_OK) {
        if (shadow_is_over(row))
            breach_set(c, "I5", "m%u is %s and was judged again", e->message, state_name(row->state));
        if (compares((enum verdict_kind)e->what) && e->number > 0 && row->attempts != e->number - 1)
            breach_set(c, "I6", "a stale verdict on hand-out %d of m%u (%d attempts) was applied", e->number,
                       e->message, row->attempts);
        apply_verdict(c, e, row);
        ended_verdict(c, e);
        note_judged(c, e, row);
    }
    if (ours)
        shadow_come_back(row);
}

void check_born(struct checker *c, const struct event *e)
{
    struct shadow_row *parent = shadow_find(c, e->message, DESTINATION_NONE);
    if (shadow_find(c, e->message, e->destination) != NULL || parent == NULL || parent->state != STATE_GONE) {
        breach_set(c, "I5", "m%u was split twice", e->message);
        return;
    }
    struct shadow_row *row = shadow_make(c, e->message, e->destination);
    row->delayed = parent->delayed;
    row->lost = parent->lost; /* its story is theirs */
    row->lost_perhaps = parent->lost_perhaps;
    row->released = parent->released;
    row->set_aside = parent->set_aside; /* its Failed bit is theirs */
    row->excused = parent->excused;
    row->lost =
        parent->lost; /* its story is theirs, too: a store may have announced it before anybody knew where it goes */
    row->lost_perhaps = parent->lost_perhaps;
    row->due_us = parent->due_us;
    row->wait_until_us = parent->wait_until_us;
    row->due_reached = parent->due_reached;
    row->state = parent->delayed ? STATE_DELAYED : STATE_READY;
}

/* ---- Sending ------------------------------------------------------------------------------------- */

static void check_duplicate(struct checker *c, const struct event *e, const struct shadow_row *row)
{
    const struct shadow_session *s = &c->sessions[row->ok_session];
    if (!row->ok)
        return; /* nobody knew that it had arrived, or it had not */
    if (row->ok_session == e->session)
        breach_set(c, "I9", "m%u was sent again by the engine that knew it had arrived", e->message);
    else if (!s->crashed && !s->buried && !s->gave_up)
        breach_set(c, "I9", "m%u was sent again after session %u ended in good order", e->message, row->ok_session);
}

void check_start(struct checker *c, const struct event *e)
{
    struct shadow_message *m = &c->messages[e->message];
    struct shadow_row *row = row_of(c, e);
    if (row == NULL)
        return;
    row->start_knows = c->sessions[e->session].absorbed;
    if (shadow_endpoint(c, row, row->config) != e->what)
        breach_set(c, "I5", "m%u was sent to e%u, where it does not belong", e->message, e->what);
    if (m->parcel->undecodable)
        breach_set(c, "I5", "m%u cannot be decoded and was sent", e->message);
    if (shadow_is_over(row) || !row->open || row->session != e->session) {
        /* An operator or a lost lease took it away in mid-air; whatever it is, it was announced. */
        if (row->number != e->number && !row->excused && !shadow_is_over(row))
            breach_set(c, "I4", "m%u was sent without a receipt", e->message);
        return;
    }
    if (row->number != e->number || (row->started && !row->again))
        breach_set(c, "I4", "m%u was sent as hand-out %d; its receipt says %d%s", e->message, e->number, row->number,
                   row->started ? ", and was used" : "");
    if (row->unexplained > c->s->endpoints[e->what].max_attempts)
        breach_set(c, "I4", "m%u was sent after %d hand-outs without a verdict: it is poison", e->message,
                   row->unexplained - 1);
    if (row->by_store &&
        c->sessions[e->session].cycle_number == row->receipt) /* it decided by the reply of that cycle */
        check_may_go(c, e, m, row);
    check_duplicate(c, e, row);
    wait_start(c, e, row);
    check_start_order(c, e, m, row);
    check_rate_start(c, e);
    row->started = true;
    row->again = false;
    row->result = RESULT_NONE;
    row->sent = true;
}

void check_arrive(struct checker *c, const struct event *e)
{
    struct shadow_row *row = row_of(c, e);
    if (row == NULL)
        return;
    if (e->extra != c->messages[e->message].parcel->digest)
        breach_set(c, "I8", "m%u arrived changed", e->message);
    row->arrivals++;
}

void check_result(struct checker *c, const struct event *e)
{
    struct shadow_row *row = row_of(c, e);
    if (row == NULL)
        return;
    wait_result(c, e);
    if (!row->open || row->session != e->session || row->number != e->number)
        return;
    row->result = e->what;
    row->away = e->flag != 0;
    if (e->what == SEND_OK) {
        row->ok = true;
        row->ok_session = e->session;
    }
}
