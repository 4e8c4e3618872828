#include "story.h"

#include <string.h>

void story_begin(struct story *s, enum ordering ordering)
{
    scenario_calm(&s->scenario);
    s->scenario.instances = 0;
    s->scenario.endpoints[0].ordering = ordering;
    s->scenario.faults.crash_every_us = 1; /* not a perfect world: duplicates can have causes */
    world_init_with(&s->w, &s->scenario);
    s->first = world_find(&s->w, world_send(&s->w, "s", "one"))->index;
    s->second = world_find(&s->w, world_send(&s->w, "s", "two"))->index;
    s->w.sessions = 3;
}

void tell(struct story *s, struct event event)
{
    world_note(&s->w, event);
    s->w.mono_us += 1000;
}

static uint16_t destination_of(struct story *s, uint32_t message)
{
    return world_destination(&s->w, s->w.parcels[message]->m.destination);
}

void joins(struct story *s, uint16_t session)
{
    tell(s, (struct event){
                .kind = EVENT_JOIN, .instance = (uint8_t)session, .session = session, .message = MESSAGE_NONE });
}

void cycle(struct story *s, uint16_t session, int number, uint64_t lanes)
{
    tell(s, (struct event){ .kind = EVENT_CYCLE,
                            .instance = (uint8_t)session,
                            .session = session,
                            .message = MESSAGE_NONE,
                            .number = number,
                            .extra = lanes,
                            .value = PR_SECONDS(15) });
}

void handed_out(struct story *s, uint16_t session, uint32_t message, int number, int receipt)
{
    tell(s, (struct event){ .kind = EVENT_HANDOUT,
                            .instance = (uint8_t)session,
                            .session = session,
                            .message = message,
                            .destination = destination_of(s, message),
                            .number = number,
                            .value = receipt });
}

void started(struct story *s, uint16_t session, uint32_t message, int number)
{
    tell(s, (struct event){ .kind = EVENT_START,
                            .instance = (uint8_t)session,
                            .session = session,
                            .message = message,
                            .destination = destination_of(s, message),
                            .number = number });
}

void arrived(struct story *s, uint16_t session, uint32_t message, int number)
{
    tell(s, (struct event){ .kind = EVENT_ARRIVE,
                            .instance = (uint8_t)session,
                            .session = session,
                            .message = message,
                            .destination = destination_of(s, message),
                            .number = number,
                            .extra = s->w.parcels[message]->digest });
}

void answered(struct story *s, uint16_t session, uint32_t message, int number, enum send_outcome outcome)
{
    tell(s, (struct event){ .kind = EVENT_RESULT,
                            .instance = (uint8_t)session,
                            .session = session,
                            .message = message,
                            .destination = destination_of(s, message),
                            .number = number,
                            .what = (uint16_t)outcome });
}

void judged(struct story *s, uint16_t session, uint32_t message, int number, enum verdict_kind kind, int64_t delay_us)
{
    tell(s, (struct event){ .kind = EVENT_VERDICT,
                            .instance = (uint8_t)session,
                            .session = session,
                            .message = message,
                            .destination = destination_of(s, message),
                            .number = number,
                            .what = (uint16_t)kind,
                            .value = delay_us });
}

/* Its story tells of so many hand-outs without an outcome. */
void read_with(struct story *s, uint16_t session, uint32_t message, int attempts, int failures, int lost)
{
    tell(s, (struct event){ .kind = EVENT_READ,
                            .instance = (uint8_t)session,
                            .session = session,
                            .message = message,
                            .number = attempts,
                            .value = failures,
                            .answer = (int16_t)STORY_KEPT(lost, lost),
                            .extra = message + 1 });
}

void crashed(struct story *s, uint16_t session)
{
    tell(s, (struct event){
                .kind = EVENT_CRASH, .instance = (uint8_t)session, .session = session, .message = MESSAGE_NONE });
}

void closed(struct story *s, uint16_t session, int receipt)
{
    tell(s, (struct event){ .kind = EVENT_CLOSE,
                            .instance = (uint8_t)session,
                            .session = session,
                            .message = MESSAGE_NONE,
                            .value = receipt });
}

/* All that happens to a message when nothing goes wrong; its receipt is that of cycle number. */
void delivered(struct story *s, uint16_t session, uint32_t message, int number)
{
    handed_out(s, session, message, 1, number);
    cycle(s, session, number, LANES_ALL);
    started(s, session, message, 1);
    arrived(s, session, message, 1);
    answered(s, session, message, 1, SEND_OK);
    judged(s, session, message, 1, VERDICT_COMPLETE, 0);
    cycle(s, session, number + 1, LANES_ALL);
}

void story_ends(struct story *s, const char *invariant, const char *text)
{
    struct breach breach;
    bool good = check_world(&s->w, &breach);
    world_fini(&s->w);
    CHECK_STR(breach.invariant, invariant);
    CHECK_EQ(good, invariant == NULL);
    CHECK(text == NULL || strstr(breach.text, text) != NULL);
}

void the_end(struct story *s)
{
    tell(s, (struct event){ .kind = EVENT_END, NOBODY, .message = MESSAGE_NONE });
}
