/* Which rows go out next.
 *
 * Endpoints take turns, and so do the streams of an endpoint.  Messages that were in flight when an instance died are
 * suspects: any of them may have killed it, so they go out in ever smaller groups until the guilty one is alone. */
#include "engine/internal.h"

#define PACE_AHEAD 2                       /* cycles that the pace covers: one may take longer than the last */
#define PACE_DECAY 8                       /* the fraction of the pace that is forgotten in a slower cycle */
#define PACE_QUICK_US PR_MILLISECONDS(100) /* sends that take longer than this do not wait for the engine ... */
#define PACE_QUICK_COMMITS 4               /* ... nor do sends that take longer than this number of commits */

unsigned suspicion(const struct pr_message *m)
{
    int unexplained = message_unexplained(m);
    return unexplained < SUSPICION_MAX ? (unsigned)unexplained : SUSPICION_MAX;
}

/* Other engines must let a suspect of this engine go first, or need not any more. */
static void set_suspect_waits(struct engine *e, bool waits)
{
    limits_suspect_waits(e->limits, &e->member, waits);
}

/* Messages that an endpoint can finish while a cycle commits must be there before, or it would stand still meanwhile.
 * A slow endpoint gets few of them: messages that wait at a transport are on a receipt, and suspects when the process
 * dies.  Slow sends do not count for the pace: they would spend their timeout waiting there, and their results begin a
 * cycle anyway. */
void choose_pace(struct engine *e)
{
    for (size_t i = 0; i < e->endpoint_count; i++) {
        struct endpoint *ep = &e->endpoints[i];
        ep->pace = max_size(ep->ended, ep->pace - (ep->pace + PACE_DECAY - 1) / PACE_DECAY);
        ep->ended = 0;
    }
}

/* Messages at the transport that wait there until earlier ones end. */
static size_t endpoint_ahead(const struct endpoint *ep)
{
    size_t taken = ep->out - ep->pledged, at_once = ep->setting->concurrency;
    return at_once > 0 && taken > at_once ? taken - at_once : 0;
}

/* Items that are chosen and, as far as this engine knows, not begun. */
static size_t endpoint_pledged(const struct endpoint *ep)
{
    return ep->pledged + endpoint_ahead(ep);
}

/* Usually only items that were taken and begun have changed, and the shared limits need not be locked. */
void choose_settle(struct endpoint *ep)
{
    size_t pledged = endpoint_pledged(ep);

    if (ep->use.slots <= ep->out && ep->use.pledged == pledged)
        return;
    limits_lock(ep->limits);
    limits_settle(ep->limits, &ep->use, ep->out, pledged);
    limits_unlock(ep->limits);
}

static uint32_t take_token(struct endpoint *ep, int64_t now_us)
{
    uint32_t taken;

    limits_lock(ep->limits);
    taken = limits_begin(ep->limits, &ep->use, ep->setting, now_us);
    limits_unlock(ep->limits);
    return taken;
}

void choose_begin(struct item *item, int64_t now_us)
{
    struct endpoint *ep = item->endpoint;
    size_t at_once = ep->setting->concurrency;
    bool begins = at_once == 0 || ep->out - ep->pledged < at_once;

    item->rate_taken = begins ? take_token(ep, now_us) : 0;
}

void choose_ended(struct engine *e, struct endpoint *ep, int64_t took_us, int64_t now_us)
{
    if (took_us <= max64(PACE_QUICK_US, PACE_QUICK_COMMITS * e->plan.commit_us))
        ep->ended++;
    if (endpoint_ahead(ep) > 0)
        (void)take_token(ep, now_us); /* for the next message that begins */
}

/* Its slot is free for another message. */
void choose_unsent(struct item *item)
{
    struct endpoint *ep = item->endpoint;

    if (endpoint_ahead(ep) > 0)
        return;
    limits_lock(ep->limits);
    limits_unsent(ep->limits, ep->setting, item->rate_taken);
    limits_unlock(ep->limits);
}

size_t endpoint_limit(const struct engine *e, const struct endpoint *ep)
{
    size_t ahead = ep->setting->ahead ? PACE_AHEAD * min_size(ep->pace, e->setting.batch) : 0;
    return ep->setting->concurrency + ahead;
}

/* Called for an item that could go: an engine that is refused is in line afterwards. */
static bool endpoint_may_take(struct endpoint *ep, int64_t now_us)
{
    bool may;

    limits_lock(ep->limits);
    may = limits_may_take(ep->limits, &ep->use, ep->setting, now_us);
    limits_unlock(ep->limits);
    return may;
}

/* No item could go: other engines need not leave room for this one. */
static void endpoint_leave_line(struct endpoint *ep)
{
    if (!ep->use.waits)
        return;
    limits_lock(ep->limits);
    limits_wait_over(ep->limits, &ep->use);
    limits_unlock(ep->limits);
}

static bool endpoint_can_send(struct engine *e, struct endpoint *ep, int64_t now_us)
{
    if (ep->count == ep->out || ep->setting->gone || endpoint_has_pause(e, ep, now_us))
        return false;
    return (ep->setting->concurrency == 0 || ep->out < endpoint_limit(e, ep)) && breakers_allow(ep, now_us);
}

static struct item *first_loose(struct engine *e, struct endpoint *ep, int64_t now_us)
{
    struct item *item;

    do {
        struct list_node *node = list_first(&ep->loose);
        item = node != NULL ? LIST_ENTRY(node, struct item, node) : NULL;
        if (item == NULL || item->place != PLACE_WAITING)
            return NULL;
    } while (!breakers_allow_or_shelve(e, ep, item, now_us));
    return item;
}

static struct item *first_in_stream(struct engine *e, struct endpoint *ep, int64_t now_us)
{
    struct item *item;

    do {
        struct list_node *node = list_first(&ep->ready_streams);
        if (node == NULL)
            return NULL;
        item = LIST_ENTRY(list_first(&LIST_ENTRY(node, struct stream, ready)->items), struct item, node);
        stream_hold_type(e, item->stream);
    } while (!breakers_allow_or_shelve(e, ep, item, now_us));
    return item;
}

static bool is_poison(const struct item *item)
{
    return item->m.attempts + 1 - item->m.failures > item->endpoint->setting->max_attempts;
}

static bool is_over_limit(const struct engine *e, const struct item *item)
{
    return item->over > e->setting.payload_max;
}

bool is_too_large(const struct engine *e, const struct item *item)
{
    size_t max = item->endpoint->setting->payload_max;
    return is_over_limit(e, item) || (max > 0 && item_payload_size(item) > max);
}

/* The expiry of an activity is the time until it is first begun: later tries do not expire. */
bool is_expired(const struct engine *e, const struct item *item, int64_t now_us)
{
    bool begun = e->setting.kind == BOX_ACTIVITIES && item->m.attempts > 0;
    return !begun && message_is_expired(&item->m, store_now(e, now_us));
}

bool is_unsendable(const struct engine *e, const struct item *item, int64_t now_us)
{
    if (item->dead != NULL)
        return false; /* the receiver handles expired messages itself */
    return is_poison(item) || is_too_large(e, item) || is_expired(e, item, now_us);
}

/* Does its verdict need the payload?  It does when the message goes into another box, or when a rule for large messages
 * moves it elsewhere. */
static bool must_be_loaded(const struct engine *e, const struct item *item, int64_t now_us)
{
    return item_is_late(item) && !is_over_limit(e, item) && !is_poison(item) && !is_expired(e, item, now_us);
}

bool is_judged_here(const struct engine *e, const struct item *item, int64_t now_us)
{
    return (endpoint_is_local(item->endpoint) || is_unsendable(e, item, now_us)) && !must_be_loaded(e, item, now_us);
}

struct item *choose_turn(struct engine *e, const struct endpoint *ep, struct item *loose, struct item *ordered,
                         int64_t now_us)
{
    bool loose_first = ordered == NULL || (loose != NULL && ep->loose_next);
    struct item *first = loose_first ? loose : ordered, *second = loose_first ? ordered : loose;

    if (first != NULL && load_is_possible(e, first, now_us))
        return first;
    return second != NULL && load_is_possible(e, second, now_us) ? second : NULL;
}

/* The first candidate, whatever its type. */
static struct item *first_of_all(struct engine *e, struct endpoint *ep, int64_t now_us)
{
    struct item *loose = first_loose(e, ep, now_us), *ordered = first_in_stream(e, ep, now_us);

    /* No receiver asks; only messages that end without being handed out need not wait for that. */
    if (ep->out >= ep->room) {
        loose = loose != NULL && is_unsendable(e, loose, now_us) ? loose : NULL;
        ordered = ordered != NULL && is_unsendable(e, ordered, now_us) ? ordered : NULL;
    }
    return choose_turn(e, ep, loose, ordered, now_us);
}

/* The next item of an endpoint: streams and loose items alternate.  NULL: nothing can go there now. */
static struct item *candidate(struct engine *e, struct endpoint *ep, int64_t now_us)
{
    struct item *first = NULL;

    if (endpoint_can_send(e, ep, now_us)) {
        breakers_unshelve(e, ep, now_us);
        first = ep->sorting.on ? sorts_candidate(e, ep, now_us) : first_of_all(e, ep, now_us);
    }
    if (first == NULL) {
        endpoint_leave_line(ep);
        return NULL;
    }
    return endpoint_may_take(ep, now_us) ? first : NULL;
}

static void judge_poison(struct engine *e, struct item *item, int64_t now_us)
{
    int limit = item->endpoint->setting->max_attempts;
    int reason = item->m.reason != PR_REASON_NONE ? item->m.reason : PR_REASON_POISON_MESSAGE;
    struct pr_error text;

    error_set(&text, 0, "%d attempts without an outcome (limit %d)", item->m.attempts - item->m.failures, limit);
    judge_dead(e, item, reason, PR_REASON_POISON_MESSAGE, limit, PR_STR("poison"), false, (pr_slice){ NULL, 0 },
               pr_str(text.text), now_us);
    poison_beside(e, item, pr_str(text.text), now_us);
    e->counts.poison += !hands_out_runs(e);
}

void judge_too_large(struct engine *e, struct item *item, int64_t now_us)
{
    struct delivery_result too_large = { .outcome = SEND_FAILED, .reason = PR_REASON_MESSAGE_TOO_LARGE };
    struct pr_error text;

    if (is_over_limit(e, item))
        error_set(&text, 0, "not sent: the payload has %zu bytes, limits.payload is %zu", item->over,
                  e->setting.payload_max);
    else
        error_set(&text, 0, "not sent: the payload has %zu bytes, max_payload of the endpoint is %zu",
                  item_payload_size(item), item->endpoint->setting->payload_max);
    too_large.error = text.text;
    judge_failure(e, item, &too_large, now_us);
}

static void judge_unsendable(struct engine *e, struct item *item, int64_t now_us)
{
    if (is_expired(e, item, now_us)) {
        item->number = 0;
        judge_simple(e, item, VERDICT_EXPIRE, PR_REASON_EXPIRED, PR_STR("expires"),
                     PR_STR("expired before it was sent"), now_us);
    } else if (is_poison(item)) {
        judge_poison(e, item, now_us);
    } else {
        judge_too_large(e, item, now_us);
    }
}

/* Takes the candidate out of its queue, and announces or judges it.  False: it must wait until other suspects have
 * finished, and so must all items behind it. */
static bool choose_one(struct engine *e, struct endpoint *ep, struct item *item, int64_t now_us)
{
    struct stream *s = item->stream;
    bool here = is_judged_here(e, item, now_us);

    if (item->outdated) {
        open_lanes(e, lane_bit(item->lane)); /* it came back, and its row has changed meanwhile */
        return true;
    }
    if (twin_is_on_its_way(e, item)) {
        twin_await(e, item);
        return true;
    }
    if (!here && !(limits_suspect_may_enter(e->limits, &e->member, suspicion(&item->m), now_us) &&
                   suspect_limit_enter(&e->limits->suspects, suspicion(&item->m)))) {
        set_suspect_waits(e, suspicion(&item->m) >= 2);
        return false;
    }
    if (!here && !breakers_start(e, ep, item, now_us)) {
        limits_suspect_leave(e->limits, suspicion(&item->m)); /* another engine was faster */
        return true;
    }
    if (!here && !load_take_room(e, item, now_us)) {
        limits_suspect_leave(e->limits, suspicion(&item->m)); /* likewise */
        breakers_returned(e, ep, item);
        return true;
    }
    ep->loose_next = s != NULL;
    sorts_took(ep);
    item->number = item->m.attempts + 1;
    item->ask = here ? 0 : sorts_asker(ep, item);
    if (s != NULL) {
        s->busy++;
        s->busy_sort = item->sort;
        item_move(e, item, PLACE_NONE);
        if (!here && !is_unsendable(e, item, now_us))
            run_gather(e, item, now_us);
        stream_update(e, s);
    }
    if (!here) {
        item->seat = 1 + suspicion(&item->m);
        item_move(e, item, PLACE_CHOSEN);
    } else if (is_unsendable(e, item, now_us)) {
        judge_unsendable(e, item, now_us);
    } else {
        judge_local(e, item, now_us);
    }
    return true;
}

static bool is_first_in_turn(const struct item *item)
{
    const struct stream *s = item->stream;

    return s == NULL || (list_is_linked(&s->ready) && list_first(&s->items) == &item->node);
}

void choose_this(struct engine *e, struct item *item, int64_t now_us)
{
    struct endpoint *ep = item->endpoint;

    if (item->place != PLACE_WAITING || !is_first_in_turn(item) || ep->out >= ep->room ||
        !endpoint_can_send(e, ep, now_us) || !breakers_allow_or_shelve(e, ep, item, now_us) ||
        !load_is_possible(e, item, now_us) || !endpoint_may_take(ep, now_us))
        return;
    (void)choose_one(e, ep, item, now_us);
}

void choose(struct engine *e, int64_t now_us)
{
    size_t chosen = 0, idle = 0;

    set_suspect_waits(e, false);
    while (chosen < e->setting.batch && idle < e->endpoint_count) {
        struct endpoint *ep = &e->endpoints[e->window.next_endpoint];
        struct item *item = candidate(e, ep, now_us);

        if (item == NULL) {
            idle++;
        } else {
            if (!choose_one(e, ep, item, now_us))
                return; /* stay with this endpoint: its suspect is the first to go */
            idle = 0;
            chosen++;
        }
        e->window.next_endpoint = (e->window.next_endpoint + 1) % e->endpoint_count;
    }
}

bool choose_possible(struct engine *e, int64_t now_us)
{
    for (size_t i = 0; i < e->endpoint_count; i++) {
        struct endpoint *ep = &e->endpoints[(e->window.next_endpoint + i) % e->endpoint_count];
        struct item *item = candidate(e, ep, now_us);
        if (item == NULL)
            continue;
        if (is_judged_here(e, item, now_us))
            return true;
        if (limits_suspect_may_enter(e->limits, &e->member, suspicion(&item->m), now_us))
            return true;
        set_suspect_waits(e, suspicion(&item->m) >= 2);
        return false;
    }
    set_suspect_waits(e, false);
    return false;
}

/* ---- Seats among suspects ------------------------------------------------------------------------------------
 *
 * Who is chosen takes a seat.  One above suspicion leaves it with its verdict.  A suspect keeps it until the verdict is
 * committed: if the process died of another message in between, it would be suspected once more, and be poison in the
 * end by no fault of its own. */

static unsigned seat_level(const struct item *item)
{
    return item->seat - 1;
}

static bool is_judged(enum place place)
{
    return place == PLACE_JUDGED || place == PLACE_PLANNED;
}

static void leave_seat(struct engine *e, struct item *item)
{
    unsigned level = seat_level(item);
    bool at_risk = e->plan.seats_at_risk && (item->place == PLACE_CHOSEN || is_judged(item->place));

    item->seat = 0;
    if (is_judged(item->place))
        e->plan.judged_seats -= suspect_limit_seat(level);
    if (!at_risk || limits_seat_kept(&e->member, level))
        limits_suspect_leave(e->limits, level);
}

/* Its verdict waits for a cycle, but the seat is kept for a limited time: the cycle under way may take long. */
static void keep_seat(struct engine *e, struct item *item)
{
    bool is_counted = !e->plan.seats_at_risk || item->place == PLACE_CHOSEN ||
                      limits_seat_at_risk(e->limits, &e->member, seat_level(item));

    if (is_counted)
        e->plan.judged_seats += suspect_limit_seat(seat_level(item));
    else
        leave_seat(e, item);
}

/* Another transaction has locked the row of the verdict: other suspects need not wait for the end of that
 * transaction. */
void choose_verdict_busy(struct engine *e, struct item *item)
{
    if (item->seat != 0)
        leave_seat(e, item);
}

void choose_seat(struct engine *e, struct item *item, enum place next)
{
    if (place_is_going(next))
        return;
    if (!is_judged(next) || seat_level(item) < 2)
        leave_seat(e, item);
    else if (!is_judged(item->place))
        keep_seat(e, item);
}

/* A cycle goes to the store, which may not answer: other engines wait for the suspects that are chosen or judged only
 * for a limited time. */
void choose_asked(struct engine *e, int64_t now_us)
{
    uint64_t seats = e->plan.judged_seats;

    list_foreach(node, &e->window.chosen)
        seats += suspect_limit_seat(seat_level(LIST_ENTRY(node, struct item, node)));
    e->plan.seats_at_risk = limits_are_shared(e->limits);
    limits_seats_at_risk(e->limits, &e->member, seats, now_us);
}

static void lose_seats(struct list *items)
{
    list_foreach(node, items)
        LIST_ENTRY(node, struct item, node)->seat = 0;
}

/* The cycle has ended.  Items whose seats were taken must not go. */
void choose_answered(struct engine *e)
{
    if (!e->plan.seats_at_risk)
        return;
    e->plan.seats_at_risk = false;
    if (limits_seats_kept(e->limits, &e->member))
        return;
    e->plan.judged_seats = 0;
    lose_seats(&e->window.judged);
    lose_seats(&e->window.planned);
    list_foreach(node, &e->window.chosen) {
        struct item *item = LIST_ENTRY(node, struct item, node);
        if (!suspect_limit_enter(&e->limits->suspects, seat_level(item)))
            item->seat = 0;
    }
}

void choose_held_up(struct engine *e)
{
    set_suspect_waits(e, false);
}

void choose_over(struct engine *e)
{
    set_suspect_waits(e, false);
    for (size_t i = 0; i < e->endpoint_count; i++)
        endpoint_leave_line(&e->endpoints[i]);
}
