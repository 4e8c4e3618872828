/* why ID: where it is, what it waits for, since when, what happened, which rule decided, what comes next, and which
 * command would change it (B200).  Everything but the story comes from ops/explain/message_why.h. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/util.h"
#include "cli/command/endpoint.h"
#include "cli/command/flow.h"
#include "cli/command/message.h"
#include "cli/command/why.h"
#include "core/story.h"
#include "ops/explain/message_why.h"

#include <jansson.h>

struct why {
    struct cli *cli;
    FILE *out;
    struct arena *arena;
    const struct listed *l;
    int64_t now_us;
};

static void heading(const struct why *y, const char *text)
{
    fprintf(y->out, "\n%s%s%s\n", color_on(COLOR_BOLD, y->cli->color), text, color_off(COLOR_BOLD, y->cli->color));
}

/* Texts from messages, safe for the terminal. */
static const char *clean(const struct why *y, pr_slice text)
{
    return text_clean_copy(y->arena, text);
}

/* ---- What happened ---- */

static int64_t time_of(const json_t *line, const char *key)
{
    const char *text = json_string_value(json_object_get(line, key));
    int64_t us;

    return text != NULL && time_parse_rfc3339(slice_from(text), &us) == PR_OK ? us : 0;
}

static const char *text_of(const struct why *y, const json_t *line, const char *key)
{
    const json_t *value = json_object_get(line, key);

    return json_is_string(value) ? clean(y, (pr_slice){ json_string_value(value), json_string_length(value) }) : "";
}

/* The step in the past tense. */
static const char *step_words(const char *step)
{
    static const char *const words[][2] = {
        { "retry", "to be retried" },     { "retry_now", "to be retried at once" },
        { "dead_letter", "dead" },        { "park", "parked" },
        { "discard", "discarded" },       { "replay", "replayed" },
        { STORY_NOTE, "noted" },          { "edit", "corrected; the new message replaces the dead letter" },
        { "release", "released" },        { "reschedule", "rescheduled" },
        { "missed", "runs were missed" },
    };

    for (size_t i = 0; i < ARRAY_LENGTH(words); i++)
        if (strcmp(words[i][0], step) == 0)
            return words[i][1];
    return step;
}

static void say_line(const struct why *y, const json_t *line)
{
    const char *endpoint = text_of(y, line, "endpoint"), *reason = text_of(y, line, "reason"),
               *error = text_of(y, line, "error");
    const char *code = text_of(y, line, "code"), *rule = text_of(y, line, "rule"), *step = text_of(y, line, "step");
    int64_t at = time_of(line, "at"), next = time_of(line, "next");
    json_int_t attempt = json_integer_value(json_object_get(line, "attempt"));

    fprintf(y->out, "  +%-9s", span_words(y->arena, at - y->l->m.created_us));
    if (strcmp(rule, "poison") == 0)
        fprintf(y->out, " not attempted again");
    else if (reason[0] != '\0' && attempt == 0)
        fprintf(y->out, " not sent");
    else if (strcmp(step, STORY_LOST) == 0)
        fprintf(y->out, " attempt %" JSON_INTEGER_FORMAT "%s%s by %s had no outcome (a crash, a kill)", attempt,
                endpoint[0] != '\0' ? " to " : "", endpoint, text_of(y, line, "instance"));
    else if (reason[0] == '\0' && step[0] != '\0')
        fprintf(y->out, " %s", step_words(step));
    else if (attempt > 0)
        fprintf(y->out, " attempt %" JSON_INTEGER_FORMAT "%s%s", attempt, endpoint[0] != '\0' ? " to " : "", endpoint);
    if (reason[0] != '\0') {
        fprintf(y->out, "%s: %s", attempt > 0 && strcmp(rule, "poison") != 0 ? " failed" : "", reason);
        if (code[0] != '\0')
            fprintf(y->out, " (%s)", code);
        if (error[0] != '\0')
            fprintf(y->out, ": %s", error);
        if (step[0] != '\0')
            fprintf(y->out, "; %s", step_words(step));
    } else if (error[0] != '\0') {
        fprintf(y->out, ": %s", error);
    }
    if (next > at && next != PR_NEVER)
        fprintf(y->out, " after %s", span_words(y->arena, next - at));
    if (rule[0] != '\0')
        fprintf(y->out, " [by %s]", rule);
    fprintf(y->out, "\n");
}

static json_t *load_story(const struct pr_message *m)
{
    return m->story.size > 0 ? json_loadb(m->story.data, m->story.size, 0, NULL) : NULL;
}

/* Since when it has been in this state, if known: for parked messages the story says so. */
static int64_t since(const struct listed *l)
{
    int64_t us = l->died_us != 0 ? l->died_us : l->m.failed_us != 0 ? l->m.failed_us : l->m.created_us;
    json_t *story = l->state == STATE_PARKED ? load_story(&l->m) : NULL;
    const json_t *line;
    size_t i;

    json_array_foreach(story, i, line)
    {
        const char *step = json_string_value(json_object_get(line, "step"));

        if (step != NULL && strcmp(step, "park") == 0)
            us = max64(us, time_of(line, "at"));
    }
    json_decref(story);
    return us;
}

static void say_story(const struct why *y)
{
    const struct pr_message *m = &y->l->m;
    json_t *story = load_story(m);
    const json_t *line;
    size_t i;

    heading(y, "What happened");
    fprintf(y->out, "  %-10s stored in %s, %s\n", time_words(y->arena, m->created_us) + 11, clean(y, y->l->box),
            arena_printf(y->arena, "%s ago (%s)", span_words(y->arena, y->now_us - m->created_us),
                         time_words(y->arena, m->created_us))
                .data);
    json_array_foreach(story, i, line) say_line(y, line);
    if (json_array_size(story) >= STORY_LINES_MAX)
        fprintf(y->out, "  (only the last %d events are kept)\n", STORY_LINES_MAX);
    if (json_array_size(story) == 0 && m->attempts > 0)
        fprintf(y->out, "  attempted %d %s, %d failed\n", m->attempts, m->attempts == 1 ? "time" : "times",
                m->failures);
    json_decref(story);
}

/* ---- All of it ---- */

static void print_lines(const struct why *y, const char *lines, const char *indent)
{
    while (*lines != '\0') {
        size_t size = strcspn(lines, "\n");

        fprintf(y->out, "%s%.*s\n", indent, (int)size, lines);
        lines += size + (lines[size] == '\n');
    }
}

static void print_commands(const struct why *y, const struct message_why *o)
{
    size_t width = 0;

    if (o->command_count > 0)
        heading(y, "What would change it");
    for (size_t i = 0; i < o->command_count; i++)
        width = max_size(width, strlen(o->commands[i].command));
    for (size_t i = 0; i < o->command_count; i++)
        fprintf(y->out, "  %-*s  %s\n", (int)width, o->commands[i].command, o->commands[i].what);
}

/* Only the ledger knows the message. */
static void print_ended(const struct why *y, const struct message_why *o)
{
    fprintf(y->out, ", was in %s", clean(y, y->l->box));
    if (o->endpoint.size > 0)
        fprintf(y->out, ", for %s", clean(y, o->endpoint));
    fprintf(y->out, ".\n");
    print_lines(y, o->now, "");
    heading(y, "What comes next");
    print_lines(y, o->next, "  ");
}

static void print_people(struct cli *cli, const struct message_why *o, FILE *out)
{
    const struct listed *l = o->listed;
    const struct why y = { .cli = cli, .out = out, .arena = &cli->arena, .l = l, .now_us = o->reply->now_us };
    char id[PR_ID_TEXT_SIZE];

    pr_id_format(l->m.id, id);
    fprintf(out, "%s%s%s: %s", color_on(COLOR_BOLD, cli->color), id, color_off(COLOR_BOLD, cli->color),
            l->ended != 0         ? ended_name(l->ended)
            : l->m.type.size == 0 ? "no type"
                                  : clean(&y, l->m.type));
    if (l->ended != 0) {
        print_ended(&y, o);
        return;
    }
    if (l->m.stream.size > 0)
        fprintf(out, ", stream %s", clean(&y, l->m.stream));
    fprintf(out, ", %s %s", l->state == STATE_DEAD ? "was in" : "in", clean(&y, l->box));
    if (o->endpoint.size > 0)
        fprintf(out, ", for %s", clean(&y, o->endpoint));
    fprintf(out, ", %s for %s.\n", state_name(l->state), span_words(y.arena, y.now_us - since(l)));
    print_lines(&y, o->now, "");
    say_story(&y);
    heading(&y, "What comes next");
    print_lines(&y, o->next, "  ");
    print_commands(&y, o);
}

/* The same facts for programs: the message, what it waits for, what comes next, the commands. */
static void print_json(struct cli *cli, const struct message_why *o)
{
    struct json_line line;
    struct json_writer *w = line_begin(&line);

    json_begin_object(w);
    json_key(w, "message");
    message_json(w, cli->config, o->reply, o->listed);
    message_why_json(w, o);
    json_end_object(w);
    line_end(&line);
}

static struct message_why message_why_for(struct cli *cli, const struct query_reply *reply, const struct listed *l)
{
    return (struct message_why){
        .store = &cli->store, .config = cli->config, .arena = &cli->arena, .reply = reply, .listed = l
    };
}

int why_print(struct cli *cli, const struct query_reply *reply, const struct listed *listed, FILE *out,
              struct pr_error *reterr)
{
    struct message_why o = message_why_for(cli, reply, listed);
    int rc = message_why_make(&o, reterr);

    if (rc == PR_OK)
        print_people(cli, &o, out);
    return rc;
}

int run_why(struct cli *cli)
{
    struct query_reply reply;
    struct pr_error err;
    int code = cli_open_store(cli);

    if (code == EXIT_DONE)
        code = flow_why_print(cli, slice_from(cli->args[0]));
    if (code != EXIT_NOT_FOUND) /* it is a flow, or the store cannot be reached */
        return code;
    code = message_find(cli, true, &reply);

    for (size_t i = 0; code == EXIT_DONE && i < reply.listed_count; i++) {
        struct message_why o = message_why_for(cli, &reply, &reply.listed[i]);

        if (message_why_make(&o, &err) != PR_OK)
            return cli_fault(&err);
        if (cli->json) {
            print_json(cli, &o);
            continue;
        }
        if (i > 0)
            printf("\n");
        print_people(cli, &o, stdout);
    }
    return code;
}
