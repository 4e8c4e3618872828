/* streams, instances, and lists whose columns are their members. */
#include <inttypes.h>

#include "base/error.h"
#include "base/json.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/output/table.h"
#include "ops/reply.h"
#include "ops/api/query.h"

/* ---- Streams ---- */

/* With its mark for --after, if it is the last on a page. */
static void print_stream(const struct stream_info *s)
{
    struct json_line line;
    char mark[STREAM_MARK_SIZE];
    struct json_writer *w = line_begin(&line);

    stream_mark_format(s, mark);
    json_begin_object(w);
    reply_write(w, REPLY_STREAM, s);
    json_put_cstr(w, "after", mark);
    json_end_object(w);
    line_end(&line);
}

static void stream_add(struct cli *cli, struct table *t, const struct stream_info *s, int64_t now_us)
{
    char id[PR_ID_TEXT_SIZE];
    const char *next = s->due_us == PR_NEVER ? "never"
                       : s->due_us > now_us  ? span_short(&cli->arena, s->due_us - now_us)
                                             : "now";

    pr_id_format(s->head, id);
    table_add(t, COLOR_NONE, s->stream);
    table_add(t, COLOR_NONE, s->endpoint);
    table_add(t, COLOR_NONE, slice_from(id));
    table_add(t, s->head_state == STATE_DEAD ? COLOR_RED : COLOR_YELLOW, slice_from(state_name(s->head_state)));
    table_add(t, COLOR_NONE, slice_from(span_short(&cli->arena, now_us - s->since_us)));
    table_add(t, COLOR_NONE, slice_from(next));
    table_add(t, s->waiting > 0 ? COLOR_BOLD : COLOR_DIM, slice_from(count_words(&cli->arena, s->waiting, "", "")));
    table_add(t, COLOR_DIM,
              arena_printf(&cli->arena, "%s%s%.*s", s->reason != PR_REASON_NONE ? pr_reason_name(s->reason) : "",
                           s->error.size > 0 ? ": " : "", (int)min_size(s->error.size, 500), s->error.data));
}

int run_streams(struct cli *cli)
{
    struct query query = { .kind = QUERY_STREAMS, .blocked = flag_given(&cli->flags, FLAG_BLOCKED) };
    struct query_reply reply;
    struct table t;
    const char *after = cli->flags.values[FLAG_AFTER];
    char next[STREAM_MARK_SIZE];

    if (after != NULL && !stream_mark_parse(slice_from(after), &query.after_stream))
        return cli_usage(cli, "--after: \"%s\" is not the end of a page", after);
    cli->flags.values[FLAG_AFTER] = NULL; /* here it is not a row */
    int code = cli_ask(cli, &query, &reply);

    if (code != EXIT_DONE)
        return code;
    table_init(&t, &cli->arena, "STREAM|ENDPOINT|HEAD|STATE|>SINCE|>NEXT|>WAITING|WHY");
    for (size_t i = 0; i < reply.stream_count; i++) {
        if (cli->json)
            print_stream(&reply.streams[i]);
        else
            stream_add(cli, &t, &reply.streams[i], reply.now_us);
    }
    if (cli->json)
        return EXIT_DONE;
    if (reply.stream_count > 0)
        table_print(&t, stdout, terminal_width(stdout), cli->color);
    else
        cli_say("no stream is blocked");
    if (reply.stream_count > 0)
        cli_say("postrider why HEAD explains more; retry HEAD (if dead: dead replay HEAD) tries it now, release STREAM "
                "lets the others overtake it");
    if (reply.more && reply.stream_count > 0) {
        stream_mark_format(&reply.streams[reply.stream_count - 1], next);
        cli_say("more exist: use --limit N, or --after %s", next);
    }
    return EXIT_DONE;
}

/* ---- Instances ---- */

int run_instances(struct cli *cli)
{
    struct query query = { .kind = QUERY_INSTANCES, .filter.state = -1 };
    struct query_reply reply;
    struct pr_error err;
    struct json_line line;
    struct table t;
    int code = cli_open_store(cli);

    if (code != EXIT_DONE)
        return code;
    if (store_query(&cli->store, &query, &cli->arena, &reply, &err) != PR_OK)
        return cli_fault(&err);
    table_init(&t, &cli->arena, "INSTANCE|BOX|>LANES|>IN-FLIGHT|>LEASE|>UP|VERSION");
    for (size_t n = 0; n < reply.instance_count; n++) {
        const struct instance_info *i = &reply.instances[n];

        if (cli->json) {
            instance_json(line_begin(&line), i);
            line_end(&line);
            continue;
        }
        table_add(&t, COLOR_NONE, i->name);
        table_add(&t, COLOR_NONE, i->box);
        table_addf(&t, i->lanes > 0 ? COLOR_NONE : COLOR_DIM, i->lanes > 0 ? "%d" : "standby", i->lanes);
        table_addf(&t, COLOR_NONE, "%" PRIu64, i->in_flight);
        table_add(&t, i->lease_left_us > 0 ? COLOR_GREEN : COLOR_RED,
                  slice_from(i->lease_left_us > 0 ? span_short(&cli->arena, i->lease_left_us) : "over"));
        table_add(&t, COLOR_NONE, slice_from(span_short(&cli->arena, reply.now_us - i->started_us)));
        table_add(&t, COLOR_DIM, i->version);
    }
    if (!cli->json && reply.instance_count > 0)
        table_print(&t, stdout, terminal_width(stdout), cli->color);
    if (!cli->json && reply.instance_count == 0)
        cli_say("no instance is running: start postrider run");
    return EXIT_DONE;
}

/* ---- Lists that need no words of their own ---- */

/* The command is named like its list: the columns are the members that --json shows. */
int run_rows(struct cli *cli)
{
    struct query query = { 0 };
    struct query_reply reply;
    struct json_line line;
    struct table t;
    const char *rows;
    size_t row_size;
    bool found = reply_list_find(slice_from(cli->command->name), &query.kind);

    ASSERT(found);
    int code = cli_ask(cli, &query, &reply);
    if (code != EXIT_DONE)
        return code;
    size_t count = reply_rows(query.kind, &reply, &rows, &row_size);
    table_init(&t, &cli->arena, reply_heads(query.kind, &cli->arena));
    for (size_t i = 0; i < count; i++) {
        const char *row = rows + i * row_size;
        if (cli->json) {
            reply_row_json(line_begin(&line), query.kind, row);
            line_end(&line);
        }
        for (size_t k = 0; !cli->json && k < t.column_count; k++)
            table_add(&t, COLOR_NONE, reply_cell(query.kind, row, k, &cli->arena));
    }
    if (cli->json)
        return EXIT_DONE;
    if (count > 0)
        table_print(&t, stdout, terminal_width(stdout), cli->color);
    else
        cli_say("%s%s", reply_none(query.kind), query.filter.since_us != 0 ? " in this time" : "");
    if (reply.more && count > 0) /* pages continue after the first column */
        cli_say("more exist: use --limit N, or --after %s",
                reply_cell(query.kind, rows + (count - 1) * row_size, 0, &cli->arena).data);
    return EXIT_DONE;
}
