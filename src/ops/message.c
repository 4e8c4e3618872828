#include "ops/message.h"

#include <string.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "core/story.h"
#include "ops/endpoint.h"
#include "ops/member.h"
#include "ops/reply.h"
#include "ops/explain/words.h"

#define TEXT_MAX (SIZE_MAX / 4) /* of one payload as base64: it is in memory already */

pr_slice message_endpoint(const struct listed *listed)
{
    if (listed->endpoint.size > 0)
        return listed->endpoint;
    return listed->m.destination.size > 0 ? listed->m.destination : story_endpoint(listed->m.story);
}

const char *message_reason(const struct listed *listed)
{
    int reason = listed->m.reason != PR_REASON_NONE ? listed->m.reason : listed->cause;

    return reason == PR_REASON_NONE ? "" : pr_reason_name(reason);
}

const char *message_cause_words(const struct listed *listed)
{
    if (listed->cause == PR_REASON_POISON_MESSAGE && !message_was_poison(listed))
        return "retries used up";
    return pr_reason_name(listed->cause);
}

bool message_was_poison(const struct listed *listed)
{
    return listed->state == STATE_DEAD && slice_eq_cstr(listed->rule, "poison") && message_unexplained(&listed->m) > 0;
}

size_t message_count_dead(const struct query_reply *reply, pr_slice endpoint, const struct listed **ret)
{
    size_t count = 0;

    for (size_t i = 0; i < reply->listed_count; i++) {
        const struct listed *l = &reply->listed[i];

        if (l->state != STATE_DEAD || (endpoint.size > 0 && !slice_eq(message_endpoint(l), endpoint)))
            continue;
        *ret = l;
        count++;
    }
    return count;
}

const char *message_dead_endpoints(struct arena *arena, const struct query_reply *reply)
{
    const char *names = "";

    for (size_t i = 0; i < reply->listed_count && names != NULL; i++)
        if (reply->listed[i].state == STATE_DEAD)
            names = arena_printf(arena, "%s%s%s", names, names[0] != '\0' ? ", " : "",
                                 text_clean_copy(arena, message_endpoint(&reply->listed[i])))
                        .data;
    return names != NULL ? names : "";
}

/* ---- For programs ---- */

void payload_json(struct json_writer *w, pr_slice payload)
{
    struct buf text;

    if (utf8_valid(payload)) {
        json_put_slice(w, "payload", payload);
        return;
    }
    buf_init(&text, TEXT_MAX);
    base64_encode(&text, payload);
    json_put_slice(w, "payload_base64", buf_slice(&text));
    buf_fini(&text);
}

/* Stored JSON; invalid JSON is shown as a string. */
static void json_stored(struct json_writer *w, const char *key, pr_slice json, bool is_right, const char *when_empty)
{
    json_key(w, key);
    if (json.size == 0)
        json_raw(w, slice_from(when_empty));
    else if (is_right)
        json_raw_shown(w, json);
    else
        json_slice(w, json);
}

void event_json(struct json_writer *w, const struct stored_event *event)
{
    json_begin_object(w);
    reply_write(w, REPLY_EVENT, event);
    if (event->place > 0)
        json_put_uint(w, "place", event->place);
    json_stored(w, "headers", event->headers, slice_is_json_object(event->headers), "{}");
    payload_json(w, event->payload);
    json_end_object(w);
}

static bool is_array(pr_slice text)
{
    return text.size >= 2 && text.data[0] == '[' && text.data[text.size - 1] == ']' && utf8_valid(text);
}

/* From the ledger, where one member has either an instance, or the person who discarded it. */
static void json_end(struct json_writer *w, const struct listed *l)
{
    const bool by_person = l->ended == ENDED_BY_PERSON;
    const struct end_reply end = { .outcome = l->ended,
                                   .ended_us = l->died_us,
                                   .instance = by_person ? (pr_slice){ NULL, 0 } : l->instance,
                                   .by = by_person ? l->instance : (pr_slice){ NULL, 0 } };
    reply_write(w, REPLY_END, &end);
}

/* Members that only messages in one state have. */
static void json_state_facts(struct json_writer *w, const struct listed *l)
{
    if (l->state == STATE_DEAD)
        reply_write(w, REPLY_DEAD, l);
    if (l->ended != 0)
        json_end(w, l);
    if (l->state == STATE_DONE)
        member_time(w, "done_at", l->died_us);
    if (l->state == STATE_IN_FLIGHT)
        member_text(w, "instance", l->instance);
    if (l->bad != NULL)
        json_put_cstr(w, "bad", l->bad);
}

/* The message waits for an open breaker of its endpoint, whatever its own state is. */
static void json_wait(struct json_writer *w, const struct breaker_info *b, int64_t now_us)
{
    json_put_cstr(w, "endpoint_state", b != NULL ? breaker_state_now(b, now_us) : NULL);
    member_time(w, "next_probe_at", b != NULL ? b->until_us : 0);
}

void message_claimed_json(struct json_writer *w, const struct listed *l)
{
    json_begin_object(w);
    reply_write(w, REPLY_MESSAGE, l);
    json_stored(w, "headers", l->m.headers, slice_is_json_object(l->m.headers), "{}");
    payload_json(w, l->m.payload);
    json_end_object(w);
}

void message_json(struct json_writer *w, const struct config *config, const struct query_reply *reply,
                  const struct listed *l)
{
    const struct pr_message *m = &l->m;
    struct listed shown = *l;

    shown.endpoint = message_endpoint(l);
    shown.m.held_for = m->held_by.size > 0 ? m->held_for : 0;
    shown.m.parked_by = m->due_us == PR_NEVER ? m->parked_by : 0;
    json_begin_object(w);
    reply_write(w, REPLY_MESSAGE, &shown);
    json_wait(w, message_breaker(config, reply, l), reply->now_us);
    json_stored(w, "headers", m->headers, slice_is_json_object(m->headers), "{}");
    payload_json(w, m->payload);
    json_state_facts(w, l);
    json_stored(w, "story", m->story, is_array(m->story), "[]");
    json_end_object(w);
}
