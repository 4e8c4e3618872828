/* I23: no message waits longer than its schedule allows.
 *
 * A message may wait for its due time, for those before it in its stream, for its endpoint (a pause, a breaker, its
 * rate, its concurrency), for a receiver that asks for its type, and for its engine: to get the lane, to learn of new
 * messages, to make progress with the store.  All of these are events.  When the last event that can have delayed it is
 * longer ago than an engine needs to look (poll), to renew its lease, and a little more, then it should have gone.
 *
 * This is checked when a message goes, and for all that wait when an instance dies or the faults stop: what was
 * forgotten is found again then.  Of these only messages without others before them are judged, at endpoints with
 * nothing out. */
#include <string.h>

#include "base/slice.h"
#include "base/util.h"
#include "checkers.h"

#define SLACK_US PR_SECONDS(3) /* retries of cycles, endpoints that take turns */

/* By the store's clock, which may be a hundredth slow: when it shows the end, if it does not jump. */
static int64_t when(int64_t from_us, int64_t from_wall_us, int64_t wall_us)
{
    int64_t left_us = wall_us - from_wall_us;
    if (wall_us == PR_NEVER)
        return PR_NEVER;
    return left_us <= 0 ? from_us : time_add(from_us, left_us + left_us / 50);
}

void wait_touched(struct shadow_row *row, const struct event *e)
{
    row->touched_us = e->at_us;
    row->touched_wall_us = e->wall_us;
}

static int64_t own_time(const struct checker *c, const struct shadow_row *row)
{
    int64_t from_us = max64(row->touched_us, c->jumped_us);
    if (row->wait_until_us == 0)
        return from_us;
    return when(from_us, from_us == row->touched_us ? row->touched_wall_us : c->jumped_wall_us, row->wait_until_us);
}

/* Do engines compete at this endpoint for a slot, a token, a probe? */
static bool takes_turns(const struct checker *c, size_t endpoint)
{
    const struct endpoint_setting *s = &c->s->endpoints[endpoint];
    return s->concurrency_shared || s->rate.count > 0 || s->breaker.enabled;
}

/* What delays the messages of an instance: where limits are shared, also the activity of the others.  Messages that
 * they chose keep their room while their store does not answer, or while they stand still. */
static struct shadow_instance what_keeps_back(const struct checker *c, uint8_t instance)
{
    struct shadow_instance all = c->instances[instance];
    for (size_t i = 0; c->s->limits_shared && i < c->s->instances; i++) {
        const struct shadow_instance *in = &c->instances[i];
        all.ended_us = max64(all.ended_us, max64(in->ended_us, in->changed_us));
        for (size_t k = 0; k < SIM_ENDPOINTS_MAX; k++) {
            all.busy_us[k] = max64(all.busy_us[k], in->busy_us[k]);
            if (takes_turns(c, k))
                all.busy_us[k] = max64(all.busy_us[k], in->changed_us);
            all.failed_us[k] = max64(all.failed_us[k], in->failed_us[k]);
            all.out[k] += i != instance ? in->out[k] : 0;
        }
    }
    return all;
}

static int64_t endpoint_time(const struct checker *c, const struct shadow_instance *in, unsigned endpoint)
{
    const struct endpoint_setting *s = &c->s->endpoints[endpoint];
    const struct shadow_endpoint *p = &c->endpoints[endpoint];
    int64_t at_us = max64(p->changed_us, in->busy_us[endpoint]);
    if (p->paused_at != 0)
        at_us = max64(at_us, when(max64(p->changed_us, c->jumped_us),
                                  p->changed_us >= c->jumped_us ? p->changed_wall_us : c->jumped_wall_us, p->until_us));
    if (in->failed_us[endpoint] != 0 && s->breaker.enabled && in->out[endpoint] > 0)
        return PR_NEVER; /* that may be a probe, and all others wait for it */
    if (in->failed_us[endpoint] != 0 && s->breaker.enabled)
        at_us = max64(at_us, in->failed_us[endpoint] + max64(s->breaker.cap_us, PR_SECONDS(60)));
    return s->rate.count > 0 ? time_add(at_us, 2 * s->rate.period_us / s->rate.count) : at_us;
}

/* The last event of its stream at this endpoint; *ret_alone: no other message of it is left. */
static int64_t stream_time(struct checker *c, uint8_t instance, const struct shadow_message *m, unsigned endpoint,
                           bool *ret_alone)
{
    int64_t at_us = 0;
    *ret_alone = true;
    if (slice_is_empty(m->parcel->m.stream) || c->s->endpoints[endpoint].ordering == ORDERING_NONE)
        return 0;
    for (const struct shadow_message *a = first_of_stream(c, m->parcel->m.stream); a != NULL; a = a->next_in_stream) {
        const struct shadow_row *leg = a == m ? NULL : shadow_leg(c, instance, a, endpoint);
        if (leg == NULL)
            continue;
        at_us = max64(at_us, leg->touched_us);
        if (!shadow_is_over(leg))
            at_us = max64(at_us, own_time(c, leg));
        *ret_alone = *ret_alone && (leg->state == STATE_GONE || leg->state == STATE_DONE);
    }
    return at_us;
}

/* Messages that were out when an instance died go alone: all others wait for them, and they for all that is out. */
static bool somebody_is_suspect(const struct checker *c)
{
    for (uint32_t i = 0; i < c->message_count; i++)
        for (const struct shadow_row *row = c->messages[i].rows; row != NULL; row = row->next)
            if (!shadow_is_over(row) && row->attempts > row->failures)
                return true;
    return false;
}

static bool has_something_out(const struct shadow_instance *in)
{
    for (size_t i = 0; i < SIM_ENDPOINTS_MAX; i++)
        if (in->out[i] > 0)
            return true;
    return false;
}

static bool is_asked_for(const struct shadow_instance *in, unsigned endpoint, const struct shadow_message *m)
{
    for (unsigned type = 0; type < SIM_TYPES; type++)
        if (slice_eq(m->parcel->m.type, scenario_type(type)))
            return (in->asks[endpoint].types >> type & 1) != 0;
    return false;
}

/* Since when a receiver asks for it.  A message that goes was asked for; for others it is only known while nothing is
 * out. */
static int64_t asks_time(const struct shadow_instance *in, const struct shadow_message *m, unsigned endpoint,
                         bool leaves)
{
    if (endpoint >= SIM_ASKED_MAX || !in->asks[endpoint].known)
        return 0;
    return leaves || is_asked_for(in, endpoint, m) ? in->asks[endpoint].changed_us : PR_NEVER;
}

/* Has it waited too long when it goes at this time?  leaves: it does go; otherwise it is unknown whether it could. */
static void check_wait(struct checker *c, struct shadow_row *row, unsigned endpoint, uint8_t instance, int64_t at_us,
                       bool leaves)
{
    struct shadow_message *m = &c->messages[row->message];
    const struct shadow_instance in = what_keeps_back(c, instance);
    const struct engine_setting *s = &c->s->engine;
    int64_t limit_us = s->poll_us + s->lease_us + SLACK_US;
    int64_t since_us = max64(max64(own_time(c, row), in.changed_us), c->lane_since_us[shadow_lane(m)]);
    bool alone;

    if (at_us - since_us <= limit_us)
        return;
    since_us = max64(since_us, max64(endpoint_time(c, &in, endpoint), asks_time(&in, m, endpoint, leaves)));
    if (at_us - since_us <= limit_us)
        return;
    since_us = max64(since_us, stream_time(c, instance, m, endpoint, &alone));
    if (at_us - since_us <= limit_us || (!leaves && !alone))
        return;
    if (somebody_is_suspect(c))
        since_us = max64(since_us, !leaves && has_something_out(&in) ? at_us : in.ended_us);
    if (at_us - since_us > limit_us)
        breach_set(c, "I23", "m%u waited %lld us for e%u, and for nothing since %lld us", row->message,
                   (long long)(at_us - own_time(c, row)), endpoint, (long long)(at_us - since_us));
}

void wait_start(struct checker *c, const struct event *e, struct shadow_row *row)
{
    struct shadow_instance *in = &c->instances[e->instance];
    if (row->open && row->session == e->session && !row->started)
        check_wait(c, row, e->what, e->instance, e->value, true);
    in->busy_us[e->what] = e->at_us;
    in->out[e->what]++;
}

/* It goes to another box: its turn had come. */
void wait_local(struct checker *c, const struct event *e, struct shadow_row *row)
{
    check_wait(c, row, e->what, e->instance, e->at_us, true);
    c->instances[e->instance].busy_us[e->what] = e->at_us;
}

void wait_result(struct checker *c, const struct event *e)
{
    struct shadow_instance *in = &c->instances[e->instance];
    size_t endpoint = e->extra;
    in->ended_us = in->busy_us[endpoint] = e->at_us;
    in->out[endpoint] -= e->what != SEND_RETURNED && in->out[endpoint] > 0;
    if (e->what == SEND_FAILED || e->what == SEND_UNKNOWN)
        in->failed_us[endpoint] = e->at_us;
}

/* The session that has it, if it can go; NULL: it cannot. */
static const struct shadow_session *can_go(const struct checker *c, const struct shadow_message *m,
                                           const struct shadow_row *row)
{
    if (m->lost || m->parcel->undecodable || row->parked || row->state == STATE_PARKED || shadow_is_over(row) ||
        c->owners[shadow_lane(m)] == 0)
        return NULL;
    const struct shadow_session *s = &c->sessions[c->owners[shadow_lane(m)]];
    return shadow_is_whole(c, row, c->configs[s->instance].now) ? s : NULL;
}

/* All that wait for live engines. */
void wait_all(struct checker *c, const struct event *e)
{
    for (uint32_t i = 0; i < c->message_count; i++) {
        struct shadow_message *m = &c->messages[i];
        for (struct shadow_row *row = m->rows; row != NULL; row = row->next) {
            const struct shadow_session *s = can_go(c, m, row);
            if (s == NULL || (row->open && row->started))
                continue;
            unsigned endpoint = (unsigned)shadow_endpoint(c, row, c->configs[s->instance].now);
            if (!s->ended && !s->buried && e->at_us < s->lease_end_us &&
                what_keeps_back(c, s->instance).out[endpoint] == 0)
                check_wait(c, row, endpoint, s->instance, e->at_us, false);
        }
    }
}

/* A new engine; shared limits keep what they have seen, and what it had out is no longer out. */
void wait_up(struct checker *c, const struct event *e)
{
    struct shadow_instance *in = &c->instances[e->instance];
    if (!c->s->limits_shared)
        *in = (struct shadow_instance){ 0 };
    in->changed_us = e->at_us;
    memset(in->out, 0, sizeof(in->out));
    memset(in->asks, 0, sizeof(in->asks));
}

/* It died or left: where limits are shared the others get its room. */
void wait_gone(struct checker *c, const struct event *e)
{
    struct shadow_instance *in = &c->instances[e->instance];
    if (e->kind == EVENT_CRASH)
        wait_all(c, e);
    for (size_t i = 0; i < SIM_ENDPOINTS_MAX; i++)
        if (in->out[i] > 0)
            in->busy_us[i] = in->ended_us = e->at_us;
    in->changed_us = e->at_us;
    memset(in->out, 0, sizeof(in->out));
}

void wait_instance(struct checker *c, const struct event *e)
{
    c->instances[e->instance].changed_us = e->kind == EVENT_FREEZE ? PR_NEVER : e->at_us;
}

void wait_asks(struct checker *c, const struct event *e)
{
    struct shadow_instance *in = &c->instances[e->instance];
    in->asks[e->what].changed_us = e->at_us;
    in->asks[e->what].types = e->extra;
    in->asks[e->what].known = true;
}
