#include "cli/message.h"

#include <inttypes.h>
#include <string.h>

#include "base/base64.h"
#include "base/utf8.h"
#include "cli/endpoint.h"
#include "core/story.h"

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

bool message_was_poison(const struct listed *listed)
{
    return listed->state == STATE_DEAD && slice_eq_cstr(listed->rule, "poison") &&
           message_unexplained(&listed->m) > 0;
}

int message_find(struct cli *cli, struct query_reply *ret_reply)
{
    struct pr_error err;
    pr_id *ids;
    size_t count;
    int code = cli_ids(cli, 0, &ids, &count);

    if (code == EXIT_DONE)
        code = cli_open_store(cli);
    if (code != EXIT_DONE)
        return code;
    struct query query = { .kind = QUERY_ID, .filter = { .state = -1, .ids = ids, .id_count = 1 } };

    if (store_query(&cli->store, &query, &cli->arena, ret_reply, &err) != PR_OK)
        return cli_fault(&err);
    if (ret_reply->listed_count > 0)
        return EXIT_DONE;
    cli_say("there is no message %s: it was delivered and not kept, discarded, or never stored", cli->args[0]);
    return EXIT_NOT_FOUND;
}

/* ---- For programs ---- */

static void json_text(struct json_writer *w, const char *key, pr_slice value)
{
    json_key(w, key);
    if (value.size > 0)
        json_slice(w, value);
    else
        json_cstr(w, NULL);
}

static void json_moment(struct json_writer *w, const char *key, int64_t us)
{
    json_key(w, key);
    if (us != 0)
        json_time(w, us);
    else
        json_cstr(w, NULL);
}

static void json_payload(struct json_writer *w, pr_slice payload)
{
    struct buf text;

    if (utf8_valid(payload)) {
        json_key(w, "payload");
        json_slice(w, payload);
        return;
    }
    buf_init(&text, OUTPUT_MAX);
    base64_encode(&text, payload);
    json_key(w, "payload_base64");
    json_slice(w, buf_slice(&text));
    buf_fini(&text);
}

/* JSON that is stored; what is broken is shown as the text that it is. */
static void json_stored(struct json_writer *w, const char *key, pr_slice json, bool is_right,
                        const char *when_empty)
{
    json_key(w, key);
    if (json.size == 0)
        json_raw(w, slice_from(when_empty));
    else if (is_right)
        json_raw(w, json);
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
        json_text(w, "rule", l->rule);
        json_text(w, "fingerprint", l->fingerprint);
        json_text(w, "note", l->note);
        json_moment(w, "died_at", l->died_us);
        json_key(w, "edited_as");
        if (!pr_id_is_zero(l->edited_as))
            pr_id_format(l->edited_as, edited);
        json_cstr(w, pr_id_is_zero(l->edited_as) ? NULL : edited);
    }
    if (l->state == STATE_DONE)
        json_moment(w, "done_at", l->died_us);
    if (l->state == STATE_IN_FLIGHT)
        json_text(w, "instance", l->instance);
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
    json_moment(w, "next_probe_at", b != NULL && b->until_us != PR_NEVER ? b->until_us : 0);
}

void message_json(struct json_writer *w, const struct cli *cli, const struct query_reply *reply,
                  const struct listed *l)
{
    const struct pr_message *m = &l->m;
    char id[PR_ID_TEXT_SIZE];

    pr_id_format(m->id, id);
    json_begin_object(w);
    json_key(w, "id");
    json_cstr(w, id);
    json_text(w, "box", l->box);
    json_key(w, "seq");
    json_int(w, m->seq);
    json_key(w, "row");
    json_uint(w, l->row);
    json_key(w, "state");
    json_cstr(w, state_name(l->state));
    json_text(w, "type", m->type);
    json_text(w, "stream", m->stream);
    json_text(w, "destination", m->destination);
    json_text(w, "endpoint", message_endpoint(l));
    json_wait(w, message_breaker(cli, reply, l), reply->now_us);
    json_text(w, "source", m->source);
    json_text(w, "subject", m->subject);
    json_text(w, "content_type", m->content_type);
    json_stored(w, "headers", m->headers, slice_is_json_object(m->headers), "{}");
    json_payload(w, m->payload);
    json_text(w, "correlation_id", m->correlation_id);
    json_text(w, "causation_id", m->causation_id);
    json_moment(w, "created_at", m->created_us);
    json_moment(w, "due_at", m->due_us);
    json_moment(w, "expires_at", m->expires_us);
    json_key(w, "status");
    json_int(w, m->status);
    json_key(w, "attempts");
    json_int(w, m->attempts);
    json_key(w, "failures");
    json_int(w, m->failures);
    json_key(w, "reason");
    json_cstr(w, m->reason != PR_REASON_NONE ? pr_reason_name(m->reason) : NULL);
    json_text(w, "code", m->code);
    json_text(w, "error", m->error);
    json_moment(w, "failed_at", m->failed_us);
    json_state_facts(w, l);
    json_text(w, "held_by", m->held_by);
    json_stored(w, "story", m->story, is_array(m->story), "[]");
    json_end_object(w);
}

/* ---- For people ---- */

static void print_field(const struct cli *cli, const char *name, pr_slice value)
{
    struct buf clean;

    if (value.size == 0)
        return;
    buf_init(&clean, OUTPUT_MAX);
    text_clean(&clean, value, false);
    printf("%s%-13s%s%.*s\n", color_on(COLOR_DIM, cli->color), name, color_off(COLOR_DIM, cli->color),
           SLICE_ARGS(buf_slice(&clean)));
    buf_fini(&clean);
}

static void print_time(struct cli *cli, const char *name, int64_t us, int64_t now_us)
{
    pr_slice text;

    if (us == 0)
        return;
    if (us == PR_NEVER)
        text = PR_STR("never, until a person says so");
    else if (us > now_us)
        text = arena_printf(&cli->arena, "%s (in %s)", time_words(&cli->arena, us),
                            span_words(&cli->arena, us - now_us));
    else
        text = arena_printf(&cli->arena, "%s (%s ago)", time_words(&cli->arena, us),
                            span_words(&cli->arena, now_us - us));
    print_field(cli, name, text);
}

/* Text as it is; bytes that are no text as base64. */
static void print_payload(pr_slice payload)
{
    struct buf text;

    if (payload.size == 0)
        return;
    buf_init(&text, OUTPUT_MAX);
    if (utf8_valid(payload)) {
        text_clean(&text, payload, true);
    } else {
        buf_add_cstr(&text, "(base64) ");
        base64_encode(&text, payload);
    }
    printf("\n%.*s\n", SLICE_ARGS(buf_slice(&text)));
    buf_fini(&text);
}

static void print_wait(struct cli *cli, const struct breaker_info *b, int64_t now_us)
{
    if (b == NULL)
        return;
    print_field(cli, "waits for",
                arena_printf(&cli->arena, "endpoint %.*s, which is %s: %s", SLICE_ARGS(b->endpoint),
                             breaker_state_now(b, now_us), breaker_words(&cli->arena, b)));
    print_time(cli, "open since", b->since_us, now_us);
    print_time(cli, "next probe", b->until_us, now_us);
}

void message_print(struct cli *cli, const struct query_reply *reply, const struct listed *l)
{
    int64_t now_us = reply->now_us;
    const struct pr_message *m = &l->m;
    char id[PR_ID_TEXT_SIZE];

    pr_id_format(m->id, id);
    print_field(cli, "id", slice_from(id));
    print_field(cli, "box", l->box);
    print_field(cli, "state", slice_from(state_name(l->state)));
    print_field(cli, "type", m->type);
    print_field(cli, "stream", m->stream);
    print_field(cli, "endpoint", message_endpoint(l));
    print_wait(cli, message_breaker(cli, reply, l), now_us);
    print_field(cli, "source", m->source);
    print_field(cli, "subject", m->subject);
    print_field(cli, "content type", m->content_type);
    print_field(cli, "headers", m->headers);
    print_field(cli, "seq", arena_printf(&cli->arena, "%" PRId64, m->seq));
    print_time(cli, "stored", m->created_us, now_us);
    print_time(cli, "due", m->due_us, now_us);
    print_time(cli, "expires", m->expires_us, now_us);
    print_field(cli, "attempts",
                arena_printf(&cli->arena, "%d handed out, %d failed", m->attempts, m->failures));
    print_field(cli, "reason", slice_from(m->reason != PR_REASON_NONE ? pr_reason_name(m->reason) : NULL));
    print_field(cli, "code", m->code);
    print_field(cli, "error", m->error);
    print_time(cli, "failed", m->failed_us, now_us);
    print_time(cli, l->state == STATE_DONE ? "done" : "died", l->died_us, now_us);
    if (l->state == STATE_DEAD)
        print_field(cli, "cause", slice_from(pr_reason_name(l->cause)));
    print_field(cli, "rule", l->rule);
    print_field(cli, "fingerprint", l->fingerprint);
    print_field(cli, "note", l->note);
    if (!pr_id_is_zero(l->edited_as)) {
        char edited[PR_ID_TEXT_SIZE];

        pr_id_format(l->edited_as, edited);
        print_field(cli, "edited as", slice_from(edited));
    }
    print_field(cli, "instance", l->instance);
    print_field(cli, "held by", m->held_by);
    print_field(cli, "damaged", slice_from(l->bad));
    print_field(cli, "payload", arena_printf(&cli->arena, "%zu bytes", m->payload.size));
    print_payload(m->payload);
}
