/* See check_events.h. */
#include "check_events.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void event_checker_init(struct event_checker *c, struct breach *ret)
{
    *c = (struct event_checker){ .breach = ret };
    *ret = (struct breach){ 0 };
}

/* The first breach is kept. */
void event_breach(struct event_checker *c, const char *invariant, const char *format, ...)
{
    va_list args;
    if (c->broken)
        return;
    c->broken = true;
    c->breach->invariant = invariant;
    va_start(args, format);
    (void)vsnprintf(c->breach->text, sizeof(c->breach->text), format, args);
    va_end(args);
}

/* The version of the stream's last event before this place, where all of them are known; else UINT64_MAX. */
static uint64_t version_before(const struct event_checker *c, uint64_t place, unsigned stream)
{
    uint64_t version = 0;
    for (uint64_t p = 1; p < place; p++) {
        if (pr_id_is_zero(c->told[p].id))
            return UINT64_MAX;
        if (c->told[p].stream == stream)
            version = c->told[p].version;
    }
    return version;
}

void event_told(struct event_checker *c, uint64_t place, unsigned stream, uint64_t version, pr_id id)
{
    if (place == 0 || place >= EVENT_PLACES_MAX || stream >= EVENT_STREAMS) {
        event_breach(c, "I42", "place %" PRIu64 " of stream %u", place, stream);
        return;
    }
    struct told *t = &c->told[place];
    if (!pr_id_is_zero(t->id) && (!pr_id_equal(t->id, id) || t->stream != stream || t->version != version))
        event_breach(c, "I42",
                     "place %" PRIu64 " was version %" PRIu64 " of stream %u, and is version %" PRIu64 " of stream %u",
                     place, t->version, t->stream, version, stream);
    if (place > c->last + 1 && c->last > 0 && pr_id_is_zero(c->told[c->last].id))
        event_breach(c, "I42", "place %" PRIu64 " is missing", c->last);
    *t = (struct told){ .id = id, .stream = stream, .version = version };
    c->last = place > c->last ? place : c->last;
    uint64_t before = version_before(c, place, stream);
    if (before != UINT64_MAX && version != before + 1)
        event_breach(c, "I41", "version %" PRIu64 " of stream %u comes behind %" PRIu64, version, stream, before);
    for (uint64_t p = 1; p <= c->last; p++)
        if (p != place && pr_id_equal(c->told[p].id, id) && c->told[p].stream == stream)
            event_breach(c, "I41", "the event at place %" PRIu64 " is at place %" PRIu64 ", too", place, p);
}

void event_got(struct event_checker *c, pr_id id, int64_t expected, uint64_t version)
{
    char text[PR_ID_TEXT_SIZE];
    pr_id_format(id, text);
    if ((int64_t)version != expected + 1)
        event_breach(c, "I43", "event %s expected %" PRId64 " events and got version %" PRIu64, text, expected,
                     version);
}

void event_projected(struct event_checker *c, uint64_t from, uint64_t to)
{
    if (from != c->position)
        event_breach(c, "I44", "writes from place %" PRIu64 " on were committed, though it had come to %" PRIu64, from,
                     c->position);
    for (uint64_t p = from + 1; p <= to && p < EVENT_PLACES_MAX; p++)
        c->written[p]++;
    c->position = to;
}

void event_reset(struct event_checker *c, uint64_t position)
{
    c->position = position;
}

void event_written(struct event_checker *c, uint64_t place, unsigned count)
{
    unsigned wanted = place < EVENT_PLACES_MAX ? c->written[place] : 0;
    if (count != wanted)
        event_breach(c, "I44", "the event at place %" PRIu64 " is in the writes %u times, not %u", place, count,
                     wanted);
}
