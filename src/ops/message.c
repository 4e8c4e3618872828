#include "ops/message.h"

#include <string.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "core/columns.h"
#include "core/story.h"
#include "ops/endpoint.h"
#include "ops/member.h"
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

static void json_payload(struct json_writer *w, pr_slice payload)
{
    struct buf text;

    if (utf8_valid(payload)) {
        json_key(w, "payload");
        json_slice(w, payload);
        return;
    }
    buf_init(&text, TEXT_MAX);
    base64_encode(&text, payload);
    json_key(w, "payload_base64");
    json_slice(w, buf_slice(&text));
    buf_fini(&text);
}

/* JSON that is stored; what is broken is shown as the text that it is. */
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

static bool is_array(pr_slice text)
{
    return text.size >= 2 && text.data[0] == '[' && text.data[text.size - 1] == ']' && utf8_valid(text);
}

/* What only messages of one state have. */
static void json_state_facts(struct json_writer *w, const struct listed *l)
{
    char edited[PR_ID_TEXT_SIZE];

    if (l->state == STATE_DEAD) {
        json_key(w, "cause");
        json_cstr(w, l->cause != PR_REASON_NONE ? pr_reason_name(l->cause) : NULL);
        json_key(w, "limit");
        json_int(w, l->limit);
        member_text(w, "rule", l->rule);
        member_text(w, "fingerprint", l->fingerprint);
        member_text(w, "note", l->note);
        member_time(w, "died_at", l->died_us);
        json_key(w, "edited_as");
        if (!pr_id_is_zero(l->edited_as))
            pr_id_format(l->edited_as, edited);
        json_cstr(w, pr_id_is_zero(l->edited_as) ? NULL : edited);
    }
    if (l->state == STATE_DONE)
        member_time(w, "done_at", l->died_us);
    if (l->state == STATE_IN_FLIGHT)
        member_text(w, "instance", l->instance);
    if (l->bad != NULL) {
        json_key(w, "bad");
        json_cstr(w, l->bad);
    }
}

/* An endpoint whose breaker is open: it waits for that, whatever its own state is. */
static void json_wait(struct json_writer *w, const struct breaker_info *b, int64_t now_us)
{
    json_key(w, "endpoint_state");
    json_cstr(w, b != NULL ? breaker_state_now(b, now_us) : NULL);
    member_time(w, "next_probe_at", b != NULL ? b->until_us : 0);
}

void message_json(struct json_writer *w, const struct config *config, const struct query_reply *reply,
                  const struct listed *l)
{
    const struct pr_message *m = &l->m;
    char id[PR_ID_TEXT_SIZE];

    pr_id_format(m->id, id);
    json_begin_object(w);
    json_key(w, "id");
    json_cstr(w, id);
    member_text(w, "box", l->box);
    json_key(w, "seq");
    json_int(w, m->seq);
    json_key(w, "row");
    json_uint(w, l->row);
    json_key(w, "state");
    json_cstr(w, state_name(l->state));
    member_text(w, "type", m->type);
    member_text(w, "stream", m->stream);
    member_text(w, "destination", m->destination);
    member_text(w, "endpoint", message_endpoint(l));
    json_wait(w, message_breaker(config, reply, l), reply->now_us);
#define X(column, ...) member_text(w, #column, m->column);
    SENDER_TEXTS(X)
#undef X
    json_stored(w, "headers", m->headers, slice_is_json_object(m->headers), "{}");
    json_payload(w, m->payload);
    member_time(w, "created_at", m->created_us);
    member_time(w, "due_at", m->due_us);
    member_time(w, "expires_at", m->expires_us);
    json_key(w, "status");
    json_int(w, m->status);
    json_key(w, "attempts");
    json_int(w, m->attempts);
    json_key(w, "failures");
    json_int(w, m->failures);
    json_key(w, "reason");
    json_cstr(w, m->reason != PR_REASON_NONE ? pr_reason_name(m->reason) : NULL);
    member_text(w, "code", m->code);
    member_text(w, "error", m->error);
    member_time(w, "failed_at", m->failed_us);
    json_state_facts(w, l);
    member_text(w, "held_by", m->held_by);
    json_key(w, "held_for");
    json_cstr(w, m->held_by.size > 0 ? held_for_name(m->held_for) : NULL);
    json_key(w, "parked_by");
    json_cstr(w, m->due_us == PR_NEVER ? parked_by_name(m->parked_by) : NULL);
    json_stored(w, "story", m->story, is_array(m->story), "[]");
    json_end_object(w);
}
