#include "cli/command/message.h"

#include <inttypes.h>
#include <string.h>

#include "base/base64.h"
#include "base/utf8.h"
#include "cli/command/endpoint.h"
#include "core/story.h"
#include "ops/explain/ended_words.h"

#include <jansson.h>

int message_letter(struct cli *cli, struct letter_name *ret)
{
    struct filter filter;
    int texts = cli->command->args_max - 1; /* arguments after the id */
    *ret = (struct letter_name){ .text = cli->args[0] };
    int code = cli_load_config(cli);

    if (code == EXIT_DONE)
        code = cli_filter(cli, &filter);
    if (code != EXIT_DONE)
        return code;
    if (filter.row != 0 && cli->arg_count > texts)
        return cli_usage(cli, "ID and --row cannot be combined");
    if (filter.row == 0 && cli->arg_count <= texts)
        return cli_usage(cli, "%s needs an ID, or --row N where the id is damaged", cli->command->name);
    if (filter.row == 0)
        return pr_id_parse(slice_from(cli->args[0]), &ret->id) == PR_OK
                   ? EXIT_DONE
                   : cli_usage(cli, "\"%s\" is not a message id", cli->args[0]);
    ret->row = filter.row;
    ret->text = arena_printf(&cli->arena, "row %" PRIu64, filter.row).data;
    return EXIT_DONE;
}

void message_letter_filter(const struct letter_name *name, struct filter *f)
{
    f->row = name->row;
    f->ids = name->row == 0 ? &name->id : NULL;
    f->id_count = name->row == 0;
}

int message_find_letter(struct cli *cli, const struct letter_name *name, struct query_reply *ret_reply)
{
    struct pr_error err;
    struct query query = { .kind = QUERY_DEAD, .filter = { .state = -1, .routing = &cli->routing.routing } };

    if (name->row == 0)
        return message_find(cli, false, ret_reply);
    message_letter_filter(name, &query.filter);
    int code = cli_open_store(cli);
    if (code != EXIT_DONE)
        return code;
    if (store_query(&cli->store, &query, &cli->arena, ret_reply, &err) != PR_OK)
        return cli_fault(&err);
    messages_see_routes(cli->config, ret_reply);
    if (ret_reply->listed_count > 0)
        return EXIT_DONE;
    cli_say("no dead letter has %s", name->text);
    return EXIT_NOT_FOUND;
}

int message_find(struct cli *cli, bool ended, struct query_reply *ret_reply)
{
    struct pr_error err;
    pr_id *ids;
    size_t count;
    int code = cli_ids(cli, 0, &ids, &count);

    if (code == EXIT_DONE)
        code = cli_open_store(cli);
    if (code != EXIT_DONE)
        return code;
    struct query query = { .kind = QUERY_ID,
                           .ended = ended,
                           .filter = { .state = -1, .ids = ids, .id_count = 1, .routing = &cli->routing.routing } };

    if (store_query(&cli->store, &query, &cli->arena, ret_reply, &err) != PR_OK)
        return cli_fault(&err);
    messages_see_routes(cli->config, ret_reply);
    if (ret_reply->listed_count > 0)
        return EXIT_DONE;
    if (ended)
        cli_say("no message %s: %s", cli->args[0], ended_missing_words(&cli->arena, ret_reply));
    else
        cli_say("no message %s: it has ended or was never stored; postrider why shows which", cli->args[0]);
    return EXIT_NOT_FOUND;
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
        text = PR_STR("never, until you retry it");
    else if (us > now_us)
        text =
            arena_printf(&cli->arena, "%s (in %s)", time_words(&cli->arena, us), span_words(&cli->arena, us - now_us));
    else
        text =
            arena_printf(&cli->arena, "%s (%s ago)", time_words(&cli->arena, us), span_words(&cli->arena, now_us - us));
    print_field(cli, name, text);
}

/* Text as it is; other bytes as base64. */
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
                             breaker_state_word(b, now_us), breaker_words(&cli->arena, b)));
    print_time(cli, "failing since", b->since_us, now_us);
    print_time(cli, "next probe", b->until_us, now_us);
}

/* A hand-out without an outcome, since its instance died (B47). */
static void print_lost(struct cli *cli, const json_t *line)
{
    const char *instance = json_string_value(json_object_get(line, "instance"));
    int64_t at_us = 0;

    if (time_parse_rfc3339(slice_from(json_string_value(json_object_get(line, "at"))), &at_us) != PR_OK)
        return;
    print_field(cli, "no outcome",
                arena_printf(&cli->arena, "attempt %lld by %s, started %s",
                             (long long)json_integer_value(json_object_get(line, "attempt")),
                             instance != NULL ? instance : "an unknown instance", time_words(&cli->arena, at_us)));
}

/* Notes that are not the letter's come from an earlier death of a message that was replayed: they are shown in its
 * story. */
static void print_story(struct cli *cli, pr_slice text, pr_slice said)
{
    json_t *story = text.size > 0 ? json_loadb(text.data, text.size, 0, NULL) : NULL, *line;
    size_t i;

    json_array_foreach(story, i, line)
    {
        const char *step = json_string_value(json_object_get(line, "step"));
        const char *who = json_string_value(json_object_get(line, "rule"));
        const char *note = json_string_value(json_object_get(line, "error"));

        if (step != NULL && strcmp(step, STORY_LOST) == 0)
            print_lost(cli, line);
        if (step != NULL && note != NULL && strcmp(step, STORY_NOTE) == 0 && !slice_contains(said, slice_from(note)))
            print_field(cli, "noted",
                        arena_printf(&cli->arena, "%s%s%s", who != NULL ? who : "", who != NULL ? ": " : "", note));
    }
    json_decref(story);
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
    print_wait(cli, message_breaker(cli->config, reply, l), now_us);
    print_field(cli, "source", m->source);
    print_field(cli, "subject", m->subject);
    print_field(cli, "content type", m->content_type);
    print_field(cli, "headers", m->headers);
    print_field(cli, "seq", arena_printf(&cli->arena, "%" PRId64, m->seq));
    print_time(cli, "stored", m->created_us, now_us);
    if (l->state != STATE_DEAD) /* nothing is due any more */
        print_time(cli, "due", m->due_us, now_us);
    print_time(cli, "expires", m->expires_us, now_us);
    print_field(cli, "attempts", arena_printf(&cli->arena, "%d started, %d failed", m->attempts, m->failures));
    print_field(cli, "reason", slice_from(m->reason != PR_REASON_NONE ? pr_reason_name(m->reason) : NULL));
    print_field(cli, "code", m->code);
    print_field(cli, "error", m->error);
    print_time(cli, "failed", m->failed_us, now_us);
    print_time(cli, l->state == STATE_DONE ? "done" : "died", l->died_us, now_us);
    if (l->state == STATE_DEAD)
        print_field(cli, "cause", slice_from(message_cause_words(l)));
    print_field(cli, "rule", l->rule);
    print_field(cli, "fingerprint", l->fingerprint);
    print_field(cli, "note", l->note);
    print_story(cli, m->story, l->note);
    if (!pr_id_is_zero(l->edited_as)) {
        char edited[PR_ID_TEXT_SIZE];

        pr_id_format(l->edited_as, edited);
        print_field(cli, "edited as", slice_from(edited));
    }
    print_field(cli, "instance", l->instance);
    print_field(cli, "held by", m->held_by);
    print_field(cli, "parked by", slice_from(m->due_us == PR_NEVER ? parked_by_name(m->parked_by) : NULL));
    print_field(cli, "damaged", slice_from(l->bad));
    print_field(cli, "payload", arena_printf(&cli->arena, "%zu bytes", m->payload.size));
    print_payload(m->payload);
}
