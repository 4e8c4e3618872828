/* flow list, show, history, delete, prune: looking at flows, and cleaning up. */
#include "cli/command/flow.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/shell.h"
#include "base/slice.h"
#include "base/util.h"
#include "cli/output/table.h"
#include "ops/explain/words.h"
#include "runtime/config/config_suggest.h"

#define SHOWN_MAX 200 /* bytes of a value in a list */

int flow_not_found(struct cli *cli, pr_slice id)
{
    cli_say("unknown flow \"%s\"; postrider flow list shows the existing ones", text_clean_copy(&cli->arena, id));
    return EXIT_NOT_FOUND;
}

struct flow_teller flow_teller_of(struct cli *cli)
{
    return (struct flow_teller){ .store = &cli->store,
                                 .config = cli->config,
                                 .arena = &cli->arena,
                                 .by = cli_user(cli),
                                 .why = slice_from(cli->flags.values[FLAG_WHY]) };
}

static enum color state_color(int state)
{
    return state == FLOW_FAILED      ? COLOR_RED
           : state == FLOW_RUNNING   ? COLOR_BLUE
           : state == FLOW_COMPLETED ? COLOR_GREEN
                                     : COLOR_YELLOW;
}

static const char *shown(struct cli *cli, pr_slice text)
{
    return text_clean_copy(&cli->arena, (pr_slice){ text.data, min_size(text.size, SHOWN_MAX) });
}

static void print_row_json(const struct flow_row *row)
{
    struct json_line line;
    struct json_writer *w = line_begin(&line);
    json_begin_object(w);
    flow_row_json(w, row);
    json_end_object(w);
    line_end(&line);
}

/* ---- A list ---- */

static int list_state(struct cli *cli, int *ret)
{
    const char *word = cli->flags.values[FLAG_STATE];
    struct suggestion near = { 0 };
    *ret = word != NULL ? flow_state_parse(slice_from(word)) : 0;
    if (word == NULL || (*ret != 0 && *ret != FLOW_CONTINUED))
        return EXIT_DONE;
    for (int state = FLOW_RUNNING; state < FLOW_CONTINUED; state++)
        suggest_try(&near, slice_from(word), flow_state_name(state));
    if (near.best != NULL)
        return cli_usage(cli, "--state: unknown value \"%s\"; did you mean %s?", word, near.best);
    return cli_usage(cli, "--state: unknown value \"%s\"; use one of running, completed, failed, cancelled", word);
}

/* Parses "CREATED:ID", the end of a page. */
static int list_after(struct cli *cli, struct flow_filter *filter)
{
    const char *text = cli->flags.values[FLAG_AFTER];
    char *end;
    if (text == NULL)
        return EXIT_DONE;
    filter->after_us = strtoll(text, &end, 10);
    filter->after_id = slice_from(*end == ':' ? end + 1 : "");
    if (filter->after_us > 0 && filter->after_id.size > 0)
        return EXIT_DONE;
    return cli_usage(cli, "--after: \"%s\" is not a page position; use it as the end of the last page shows it", text);
}

static int list_times(struct cli *cli, struct filter *filter)
{
    const char *since = cli->flags.values[FLAG_SINCE], *until = cli->flags.values[FLAG_UNTIL];
    if (since != NULL && !cli_time(cli, since, -1, &filter->since_us))
        return cli_usage(cli, "--since: \"%s\" is not a time; use 1h or 2024-01-31T12:00:00Z", since);
    if (until != NULL && !cli_time(cli, until, -1, &filter->until_us))
        return cli_usage(cli, "--until: \"%s\" is not a time; use 1h or 2024-01-31T12:00:00Z", until);
    return EXIT_DONE;
}

static const char *flow_note(struct cli *cli, const struct flow_row *row)
{
    if (row->error.size > 0)
        return flow_error_words(&cli->arena, row->error);
    return shown(cli, row->custom_status.size > 0 ? row->custom_status : row->output);
}

static void print_flows(struct cli *cli, const struct query_reply *reply, int64_t now_us)
{
    struct table t;
    table_init(&t, &cli->arena, "ID|NAME|VERSION|STATE|>EVENTS|>AGE|>LAST TURN|STATUS, RESULT OR ERROR");
    for (size_t i = 0; i < reply->flow_count; i++) {
        const struct flow_row *r = &reply->flows[i];
        table_add(&t, COLOR_BOLD, r->id);
        table_add(&t, COLOR_NONE, r->name);
        table_add(&t, COLOR_DIM, r->version);
        table_add(&t, state_color(r->state), slice_from(flow_state_name(r->state)));
        table_addf(&t, COLOR_NONE, "%" PRId64, r->next);
        table_add(&t, COLOR_NONE, slice_from(span_short(&cli->arena, now_us - r->created_us)));
        table_add(&t, COLOR_NONE, slice_from(span_short(&cli->arena, now_us - r->updated_us)));
        table_add(&t, COLOR_DIM, slice_from(flow_note(cli, r)));
    }
    if (reply->flow_count > 0)
        table_print(&t, stdout, terminal_width(stdout), cli->color);
    else
        cli_say("no flow matches");
    if (reply->more) {
        const struct flow_row *last = &reply->flows[reply->flow_count - 1];
        cli_say("more exist: use --limit N, or --after %s",
                shell_argument(&cli->arena,
                               arena_printf(&cli->arena, "%" PRId64 ":%.*s", last->created_us, SLICE_ARGS(last->id))));
    }
}

int run_flow_list(struct cli *cli)
{
    const char *const *values = cli->flags.values;
    struct query query = { .kind = QUERY_FLOWS,
                           .flow = { .name = slice_from(cli->arg_count > 0 ? cli->args[0] : NULL),
                                     .version = slice_from(values[FLAG_VERSION]),
                                     .parent = slice_from(values[FLAG_PARENT]) },
                           .filter.state = -1 };
    struct query_reply reply;
    struct pr_error err;
    uint64_t limit = 0;
    int code = list_state(cli, &query.flow.state);
    if (code == EXIT_DONE)
        code = list_after(cli, &query.flow);
    if (code == EXIT_DONE)
        code = cli_number(cli, FLAG_LIMIT, 1000000, &limit);
    if (code == EXIT_DONE)
        code = cli_open_store(cli);
    if (code == EXIT_DONE)
        code = list_times(cli, &query.filter);
    if (code != EXIT_DONE)
        return code;
    query.filter.limit = (size_t)limit;
    if (store_query(&cli->store, &query, &cli->arena, &reply, &err) != PR_OK)
        return cli_fault(&err);
    if (!cli->json)
        print_flows(cli, &reply, store_time(&cli->store));
    for (size_t i = 0; cli->json && i < reply.flow_count; i++)
        print_row_json(&reply.flows[i]);
    return EXIT_DONE;
}

/* ---- One ---- */

static void print_field(struct cli *cli, const char *name, pr_slice value)
{
    if (value.size > 0)
        printf("%-10s %s\n", name, text_clean_copy(&cli->arena, value));
}

static void print_lines(const char *lines, const char *indent)
{
    while (*lines != '\0') {
        size_t size = strcspn(lines, "\n");
        printf("%s%.*s\n", indent, (int)size, lines);
        lines += size + (lines[size] == '\n');
    }
}

static void heading(const struct cli *cli, const char *text)
{
    printf("\n%s%s%s\n", color_on(COLOR_BOLD, cli->color), text, color_off(COLOR_BOLD, cli->color));
}

static void print_words(struct cli *cli, const struct flow_view *v)
{
    size_t width = 0;
    print_lines(v->now, "");
    heading(cli, "What comes next");
    print_lines(v->next, "  ");
    heading(cli, "What would change it");
    for (size_t i = 0; i < v->command_count; i++)
        width = max_size(width, strlen(v->commands[i].command));
    for (size_t i = 0; i < v->command_count; i++)
        printf("  %-*s  %s\n", (int)width, v->commands[i].command, v->commands[i].what);
}

static void print_row(struct cli *cli, const struct flow_view *v)
{
    const struct flow_row *r = v->row;
    char execution[PR_ID_TEXT_SIZE];
    print_field(cli, "id", v->id);
    if (r == NULL)
        return;
    pr_id_format(r->execution, execution);
    print_field(cli, "name", r->name);
    print_field(cli, "version", r->version);
    print_field(cli, "state", slice_from(flow_state_name(r->state)));
    print_field(cli, "execution", slice_from(execution));
    print_field(cli, "events", arena_printf(&cli->arena, "%" PRId64, r->next));
    print_field(cli, "parent", r->parent);
    print_field(cli, "created", slice_from(time_words(&cli->arena, r->created_us)));
    print_field(cli, "last turn", slice_from(time_words(&cli->arena, r->updated_us)));
    print_field(cli, "status", r->custom_status);
    print_field(cli, "input", slice_from(shown(cli, r->input)));
    print_field(cli, "output", slice_from(shown(cli, r->output)));
    print_field(cli, "error", r->error);
    for (size_t i = 0; i < v->value_count; i++)
        printf("%-10s %s = %s\n", i == 0 ? "values" : "", text_clean_copy(&cli->arena, v->values[i].key),
               shown(cli, v->values[i].value));
}

static int show(struct cli *cli, pr_slice id, bool fields)
{
    struct flow_view v = { .store = &cli->store, .config = cli->config, .arena = &cli->arena, .id = id };
    struct json_line line;
    struct pr_error err;
    int rc = flow_view_make(&v, &err);
    int code = rc == PR_OK ? EXIT_DONE : rc == PR_UNKNOWN ? EXIT_NOT_FOUND : cli_fault(&err);
    if (rc == PR_OK && cli->json) {
        flow_view_json(line_begin(&line), &v);
        line_end(&line);
    } else if (rc == PR_OK) {
        if (fields) {
            print_row(cli, &v);
            printf("\n");
        } else {
            printf("%s%s%s: flow%s%s, %s.\n", color_on(COLOR_BOLD, cli->color), text_clean_copy(&cli->arena, id),
                   color_off(COLOR_BOLD, cli->color), v.row != NULL ? " " : "",
                   v.row != NULL ? text_clean_copy(&cli->arena, v.row->name) : "",
                   v.row != NULL ? flow_state_name(v.row->state) : "not started");
        }
        print_words(cli, &v);
    }
    flow_view_fini(&v);
    return code;
}

int flow_why_print(struct cli *cli, pr_slice id)
{
    return show(cli, id, false);
}

int run_flow_show(struct cli *cli)
{
    const pr_slice id = slice_from(cli->args[0]);
    int code = cli_open_store(cli);
    if (code == EXIT_DONE && (code = show(cli, id, true)) == EXIT_NOT_FOUND)
        return flow_not_found(cli, id);
    return code;
}

/* ---- Its history ---- */

static void print_event(struct cli *cli, const struct flow_event *e, size_t number, int64_t first_us)
{
    const char *data =
        e->failed || e->kind == FLOW_EVENT_FAILED ? flow_error_words(&cli->arena, e->data) : shown(cli, e->data);
    printf("%5zu  +%-9s %s%s%s%s", number, span_words(&cli->arena, max64(e->at_us - first_us, 0)),
           flow_event_words(&cli->arena, e), e->failed ? " failed" : "", data[0] != '\0' ? ": " : "", data);
    if (e->kind == FLOW_EVENT_TIMER)
        printf(": due %s", time_words(&cli->arena, e->value));
    printf("\n");
}

static int print_history(struct cli *cli, const struct flow_view *v)
{
    const struct flow_history *h = &v->history;
    for (size_t i = 0; i < h->count; i++) {
        struct json_line line;
        if (cli->json) {
            flow_event_json(line_begin(&line), &h->events[i], i + 1);
            line_end(&line);
        } else {
            print_event(cli, &h->events[i], i + 1, h->events[0].at_us);
        }
    }
    if (v->damaged == NULL)
        return EXIT_DONE;
    cli_say("the history is damaged after event %zu: %s", h->count, v->damaged);
    return EXIT_FAILED;
}

/* As it is stored. */
static int print_stored(struct cli *cli, const struct flow_view *v)
{
    struct buf lines;
    (void)cli;
    buf_init(&lines, OUTPUT_MAX);
    flow_history_encode(&lines, v->history.events, v->history.count, 1);
    (void)fwrite(lines.data, 1, lines.size, stdout); /* cli_finish() checks for errors */
    buf_fini(&lines);
    return EXIT_DONE;
}

int run_flow_history(struct cli *cli)
{
    struct flow_view v = { .store = &cli->store, .arena = &cli->arena, .id = slice_from(cli->args[0]) };
    const char *execution = cli->arg_count > 1 ? cli->args[1] : NULL;
    struct pr_error err;
    if (execution != NULL && pr_id_parse(slice_from(execution), &v.execution) != PR_OK)
        return cli_usage(cli, "\"%s\" is not the id of an execution; see postrider flow show", execution);
    int code = cli_open_store(cli);
    if (code != EXIT_DONE)
        return code;
    v.config = cli->config;
    int rc = flow_view_read(&v, &err);
    if (rc != PR_OK)
        code = cli_fault(&err);
    else if (v.row == NULL)
        code = flow_not_found(cli, v.id);
    else if (execution != NULL && v.history.count == 0) {
        cli_say("flow \"%s\" has no execution %s, or it was pruned", text_clean_copy(&cli->arena, v.id), execution);
        code = EXIT_NOT_FOUND;
    } else if (strcmp(cli->command->name, "flow export") == 0)
        code = print_stored(cli, &v);
    else
        code = print_history(cli, &v);
    flow_view_fini(&v);
    return code;
}

/* ---- Clearing up ---- */

static void print_reply(const struct cli *cli, const char *action, const struct admin *admin,
                        const struct admin_reply *r, const char *one, const char *many)
{
    if (cli->json)
        printf("{\"action\":\"%s\",\"matched\":%" PRIu64 ",\"changed\":%" PRIu64 ",\"refused\":%" PRIu64
               ",\"missing\":%" PRIu64 ",\"dry_run\":%s}\n",
               action, r->matched, r->changed, r->refused, r->missing, admin->dry_run ? "true" : "false");
    else
        printf("%" PRIu64 " %s %sdeleted\n", r->changed, r->changed == 1 ? one : many,
               admin->dry_run ? "would be " : "");
}

int run_flow_delete(struct cli *cli)
{
    pr_slice *ids = arena_alloc_array(&cli->arena, (size_t)cli->arg_count, sizeof *ids);
    int code = cli_open_store(cli);
    ASSERT(ids != NULL);
    if (code != EXIT_DONE)
        return code;
    for (int i = 0; i < cli->arg_count; i++)
        ids[i] = slice_from(cli->args[i]);
    const struct flow_order order = { .flows = ids,
                                      .flow_count = (size_t)cli->arg_count,
                                      .force = flag_given(&cli->flags, FLAG_FORCE),
                                      .turns = flow_box(cli->config, BOX_TURNS),
                                      .activities = flow_box(cli->config, BOX_ACTIVITIES) };
    const struct admin admin = { .kind = ADMIN_FLOW_DELETE,
                                 .filter.state = -1,
                                 .by = cli_user(cli),
                                 .why = slice_from(cli->flags.values[FLAG_WHY]),
                                 .dry_run = flag_given(&cli->flags, FLAG_DRY_RUN),
                                 .flow = &order };
    struct admin_reply r = { 0 };
    struct pr_error err;
    if (store_admin(&cli->store, &admin, &r, &err) != PR_OK)
        return cli_fault(&err);
    print_reply(cli, "flow delete", &admin, &r, "flow", "flows");
    if (r.missing > 0)
        cli_say("%" PRIu64 " of the flows %s found", r.missing, r.missing == 1 ? "was not" : "were not");
    if (r.busy > 0)
        cli_say("%" PRIu64 " refused: a turn is being committed; try again", r.busy);
    if (r.refused > r.busy)
        cli_say("%" PRIu64 " refused: still running; cancel first, or add --force", r.refused - r.busy);
    if (r.missing + r.refused == 0)
        return EXIT_DONE;
    return r.changed > 0 ? EXIT_SOME_FAILED : r.missing > 0 ? EXIT_NOT_FOUND : EXIT_FAILED;
}

int run_flow_prune(struct cli *cli)
{
    const pr_slice id = slice_from(cli->arg_count > 0 ? cli->args[0] : NULL);
    const char *until = cli->flags.values[FLAG_UNTIL];
    struct flow_order order = { .flows = &id, .flow_count = id.size > 0, .keep = -1 };
    struct admin_reply r = { 0 };
    struct pr_error err;
    uint64_t keep = 0;
    int code = cli_number(cli, FLAG_KEEP, 1000000, &keep);
    if (code == EXIT_DONE && cli->flags.values[FLAG_KEEP] == NULL && until == NULL)
        return cli_usage(cli, "give --keep N, or --until TIME");
    if (code == EXIT_DONE)
        code = cli_open_store(cli);
    if (code == EXIT_DONE && until != NULL && !cli_time(cli, until, -1, &order.before_us))
        code = cli_usage(cli, "--until: \"%s\" is not a time; use 30d or 2024-01-31T12:00:00Z", until);
    if (code != EXIT_DONE)
        return code;
    if (cli->flags.values[FLAG_KEEP] != NULL)
        order.keep = (int64_t)keep;
    const struct admin admin = { .kind = ADMIN_FLOW_PRUNE,
                                 .filter.state = -1,
                                 .by = cli_user(cli),
                                 .why = slice_from(cli->flags.values[FLAG_WHY]),
                                 .dry_run = flag_given(&cli->flags, FLAG_DRY_RUN),
                                 .flow = &order };
    if (store_admin(&cli->store, &admin, &r, &err) != PR_OK)
        return cli_fault(&err);
    print_reply(cli, "flow prune", &admin, &r, "execution", "executions");
    return EXIT_DONE;
}
