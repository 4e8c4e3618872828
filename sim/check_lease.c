/* I6: no lane has two owners, and an instance that lost its lease changes nothing any more. */
#include "checkers.h"

static struct shadow_session *session_of(struct checker *c, const struct event *e)
{
    return &c->sessions[e->session];
}

void check_join(struct checker *c, const struct event *e)
{
    *session_of(c, e) = (struct shadow_session){ .instance = e->instance, .joined = true, .lease_end_us = e->at_us };
}

void check_acts(struct checker *c, const struct event *e)
{
    const struct shadow_session *s = session_of(c, e);
    if (s->buried)
        breach_set(c, "I6", "session %u changed something after its lanes were taken", e->session);
    else if (!s->joined)
        breach_set(c, "I6", "session %u changed something and never joined", e->session);
}

/* May its lanes be taken now? */
bool session_may_be_buried(const struct shadow_session *s, const struct event *e)
{
    /* It left, or its process is gone (some stores notice that at once), or its time is over. */
    return s->ended || e->at_us >= s->lease_end_us;
}

static void take_lane(struct checker *c, const struct event *e, unsigned lane)
{
    struct shadow_session *old = &c->sessions[c->owners[lane]];
    if (c->owners[lane] != 0 && (old->lanes & lane_bit(lane)) != 0) {
        if (!session_may_be_buried(old, e))
            breach_set(c, "I6", "lane %u has two owners: sessions %u and %u", lane, c->owners[lane], e->session);
        old->buried = true;
    }
    c->owners[lane] = e->session;
    c->lane_since_us[lane] = e->at_us;
}

void check_cycle(struct checker *c, const struct event *e)
{
    struct shadow_session *s = session_of(c, e);
    check_acts(c, e);
    if (e->flag == 0 && e->number <= s->cycle_number)
        breach_set(c, "I6", "cycle %d of session %u landed twice", e->number, e->session);
    if (e->flag == 0) {
        s->absorbed = s->landed;
        s->landed = c->at;
    }
    s->cycle_number = e->number;
    uint64_t lost = s->lanes & ~e->extra;
    for (unsigned lane = 0; lane < LANE_COUNT; lane++) {
        if ((e->extra & lane_bit(lane)) != 0 && c->owners[lane] != e->session)
            take_lane(c, e, lane);
        else if ((lost & lane_bit(lane)) != 0 && c->owners[lane] == e->session)
            c->owners[lane] = 0;
    }
    s->lanes = e->extra;
    s->lease_end_us = e->at_us + e->value;
    s->last_cycle = c->at;
    s->last_wall_us = e->wall_us;
}

void check_session_end(struct checker *c, const struct event *e)
{
    struct shadow_session *s = session_of(c, e);
    if (e->kind != EVENT_GIVE_UP)
        totals_end(c, e->instance);
    if (e->session == 0)
        return; /* it had not joined yet */
    switch (e->kind) {
    case EVENT_GIVE_UP: s->gave_up = true; return;
    case EVENT_CRASH:
    case EVENT_LOST: s->crashed = s->ended = true; return;
    default: break;
    }
    s->ended = true; /* LEAVE: its lanes are free, its receipts must be closed */
    for (unsigned lane = 0; lane < LANE_COUNT; lane++)
        if (c->owners[lane] == e->session)
            c->owners[lane] = 0;
    s->lanes = 0;
    for (uint32_t i = 0; i < c->message_count; i++)
        for (struct shadow_row *row = c->messages[i].rows; row != NULL; row = row->next)
            if (row->open && row->session == e->session) {
                if (row->started && (row->result == RESULT_NONE || row->result == SEND_OK))
                    breach_set(c, "I4", "session %u left and forgot m%u", e->session, i);
                shadow_come_back(row);
            }
}
