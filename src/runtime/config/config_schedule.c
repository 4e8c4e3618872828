/* An error about a schedule has the place of its key. */
#include "base/error.h"
#include "base/slice.h"
#include "core/message.h"
#include "runtime/config/config_notes.h"

static const struct node *place_of(const struct config_reader *reader, const void *field)
{
    const struct config_note *note = config_note_find(reader->config, field);
    return note != NULL ? note->node : NULL;
}

static int fail(const struct config_reader *reader, const struct config_schedule *c, const void *field, const char *key,
                const char *what)
{
    return config_fail(reader, place_of(reader, field), "schedules.%s.%s: %s", c->name, key, what);
}

static int check_targets(const struct config_reader *reader, const struct config_schedule *c)
{
    const struct config *config = reader->config;
    if (config_find_box(config, slice_from(c->box)) == NULL)
        return fail(reader, c, &c->box, "box", "unknown box; add it under boxes");
    if (c->to[0] != '\0' && config_find_endpoint(config, slice_from(c->to)) == NULL)
        return fail(reader, c, &c->to, "to", "unknown endpoint; add it under endpoints");
    return PR_OK;
}

static int check_one(const struct config_reader *reader, struct config_schedule *c)
{
    struct pr_error why;
    const struct zone *zone;
    c->meaning = (struct schedule){ .name = slice_from(c->name),
                                    .cron_text = slice_from(c->cron),
                                    .zone_name = slice_eq_cstr(slice_from(c->zone), "UTC") ? (pr_slice){ NULL, 0 }
                                                                                           : slice_from(c->zone),
                                    .missed = (enum schedule_missed)c->missed,
                                    .grace_us = c->grace_us,
                                    .paused = c->paused,
                                    .box = slice_from(c->box),
                                    .message = { .type = slice_from(c->type),
                                                 .stream = slice_from(c->stream),
                                                 .destination = slice_from(c->to),
                                                 .source = slice_from(c->source),
                                                 .subject = slice_from(c->subject),
                                                 .content_type = slice_from(c->content_type),
                                                 .event = c->event,
                                                 .headers = slice_from(c->headers),
                                                 .payload = slice_from(c->payload) } };
    if (cron_parse(c->meaning.cron_text, &c->meaning.cron, &why) != PR_OK)
        return fail(reader, c, &c->cron, "cron", why.text);
    if (zone_find(c->meaning.zone_name, &zone, &why) != PR_OK)
        return fail(reader, c, &c->zone, "zone", why.text);
    if (c->headers[0] != '\0' && !slice_is_json_object(c->meaning.message.headers))
        return fail(reader, c, &c->headers, "headers", "must be a JSON object");
    if (c->event && c->stream[0] == '\0')
        return fail(reader, c, &c->event, "event", "an event needs a stream: set stream to what it is about");
    if (message_check(&c->meaning.message, (size_t)reader->config->payload_max, &why) < 0)
        return fail(reader, c, &c->type, "message", why.text);
    return check_targets(reader, c);
}

int config_check_schedules(const struct config_reader *reader)
{
    struct config *config = reader->config;
    int r = PR_OK;
    for (size_t i = 0; i < config->schedule_count && r == PR_OK; i++)
        r = check_one(reader, &config->schedules[i]);
    return r;
}
