/* events list, show, tail. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/json.h"
#include "base/shell.h"
#include "base/slice.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/output/table.h"
#include "ops/explain/words.h"
#include "ops/message.h"

#define TAIL_EVERY_MS 500
#define TAIL_PAGE 1000
#define TAIL_BLOCK_BYTES 65536
#define SHOWN_MAX 200 /* bytes of a payload in a list */

static int ask(struct cli *cli, const struct query *query, struct arena *arena, struct query_reply *ret)
{
    struct pr_error err;
    return store_query(&cli->store, query, arena, ret, &err) == PR_OK ? EXIT_DONE : cli_fault(&err);
}

/* The value for --after: a version if one stream is listed. */
static uint64_t position_of(const struct query *query, const struct stored_event *e)
{
    return query->filter.stream.size > 0 ? e->version : e->place;
}

static void print_json(const struct stored_event *e)
{
    struct json_line line;
    event_json(line_begin(&line), e);
    line_end(&line);
}

static pr_slice payload_words(struct arena *arena, const struct stored_event *e)
{
    pr_slice shown = { e->payload.data, min_size(e->payload.size, SHOWN_MAX) };
    return slice_from(text_clean_copy(arena, shown));
}

/* ---- A list ---- */

static void say_none(const struct filter *filter)
{
    if (filter->after > 0)
        cli_say("no events after %" PRIu64, filter->after);
    else if (filter->stream.size > 0)
        cli_say("stream \"%.*s\" has no events; to see all: postrider events", SLICE_ARGS(filter->stream));
    else
        cli_say("no event is stored yet: add --event and --stream to postrider send");
}

static void print_table(struct cli *cli, const struct query *query, const struct query_reply *reply)
{
    struct table t;
    bool places = query->filter.stream.size == 0;
    table_init(&t, &cli->arena,
               places ? ">PLACE|STREAM|>VERSION|TYPE|WHEN|PAYLOAD" : "STREAM|>VERSION|TYPE|WHEN|PAYLOAD");
    for (size_t i = 0; i < reply->event_count; i++) {
        const struct stored_event *e = &reply->events[i];
        if (places)
            table_addf(&t, COLOR_NONE, "%" PRIu64, e->place);
        table_add(&t, COLOR_BOLD, e->stream);
        table_addf(&t, COLOR_NONE, "%" PRIu64, e->version);
        table_add(&t, COLOR_NONE, e->type);
        table_add(&t, COLOR_NONE, slice_from(time_words(&cli->arena, e->created_us)));
        table_add(&t, COLOR_DIM, payload_words(&cli->arena, e));
    }
    if (reply->event_count > 0)
        table_print(&t, stdout, terminal_width(stdout), cli->color);
    else
        say_none(&query->filter);
    if (reply->more)
        cli_say("more exist: use --limit N, or --after %" PRIu64,
                position_of(query, &reply->events[reply->event_count - 1]));
}

int run_events_list(struct cli *cli)
{
    struct query query = { .kind = QUERY_EVENTS };
    struct query_reply reply;
    int code = cli_ask(cli, &query, &reply);
    if (code != EXIT_DONE)
        return code;
    if (!cli->json)
        print_table(cli, &query, &reply);
    for (size_t i = 0; cli->json && i < reply.event_count; i++)
        print_json(&reply.events[i]);
    return EXIT_DONE;
}

/* ---- One ---- */

static void print_event(struct cli *cli, const struct stored_event *e)
{
    char id[PR_ID_TEXT_SIZE];
    pr_id_format(e->id, id);
    printf("stream   %s\nversion  %" PRIu64 "\nid       %s\ntype     %s\nstored   %s\n",
           text_clean_copy(&cli->arena, e->stream), e->version, id, text_clean_copy(&cli->arena, e->type),
           time_words(&cli->arena, e->created_us));
    if (e->headers.size > 0)
        printf("headers  %s\n", text_clean_copy(&cli->arena, e->headers));
    printf("payload  %zu bytes\n\n%s\n", e->payload.size, text_clean_copy(&cli->arena, e->payload));
}

int run_events_show(struct cli *cli)
{
    struct query query = { .kind = QUERY_EVENTS };
    struct query_reply reply;
    char *end;
    int code = cli_open_filtered(cli, &query.filter);
    if (code != EXIT_DONE)
        return code;
    unsigned long long version = strtoull(cli->args[1], &end, 10);
    if (*end != '\0' || version == 0)
        return cli_usage(cli, "\"%s\" is not a version; versions of a stream count from 1", cli->args[1]);
    query.filter.stream = slice_from(cli->args[0]);
    query.filter.after = version - 1;
    query.filter.limit = 1;
    code = ask(cli, &query, &cli->arena, &reply);
    if (code != EXIT_DONE)
        return code;
    if (reply.event_count == 0 || reply.events[0].version != version) {
        cli_say("stream \"%s\" has no event %llu; see postrider events list --stream %s",
                text_clean_copy(&cli->arena, query.filter.stream), version,
                shell_quote(&cli->arena, query.filter.stream));
        return EXIT_NOT_FOUND;
    }
    if (cli->json)
        print_json(&reply.events[0]);
    else
        print_event(cli, &reply.events[0]);
    return EXIT_DONE;
}

/* ---- As they come ---- */

static void print_line(struct arena *arena, const struct stored_event *e)
{
    pr_slice payload = payload_words(arena, e);
    printf("%s %s %" PRIu64 " %s %.*s\n", time_words(arena, e->created_us), text_clean_copy(arena, e->stream),
           e->version, text_clean_copy(arena, e->type), SLICE_ARGS(payload));
}

/* Prints a page, and continues after it. */
static int tail_page(struct cli *cli, struct query *query, struct arena *arena, bool *ret_more)
{
    struct query_reply reply;
    int code = ask(cli, query, arena, &reply);
    *ret_more = code == EXIT_DONE && reply.more;
    for (size_t i = 0; code == EXIT_DONE && i < reply.event_count; i++) {
        if (cli->json)
            print_json(&reply.events[i]);
        else
            print_line(arena, &reply.events[i]);
        query->filter.after = position_of(query, &reply.events[i]);
    }
    arena_reset(arena);
    return code;
}

/* Skips the events stored before now. */
static int skip_to_end(struct cli *cli, struct query *query)
{
    struct query_reply reply;
    query->brief = true;
    int code = ask(cli, query, &cli->arena, &reply);
    query->brief = false;
    if (code == EXIT_DONE)
        query->filter.after = reply.total;
    return code;
}

int run_events_tail(struct cli *cli)
{
    struct query query = { .kind = QUERY_EVENTS };
    struct arena page;
    bool more;
    int code = cli_open_filtered(cli, &query.filter);
    query.filter.limit = TAIL_PAGE;
    if (code == EXIT_DONE && cli->flags.values[FLAG_AFTER] == NULL)
        code = skip_to_end(cli, &query);
    arena_init(&page, TAIL_BLOCK_BYTES);
    while (code == EXIT_DONE && fflush(stdout) == 0) { /* until the reader is gone */
        code = tail_page(cli, &query, &page, &more);
        if (code == EXIT_DONE && !more)
            (void)poll(NULL, 0, TAIL_EVERY_MS);
    }
    arena_fini(&page);
    return code;
}
