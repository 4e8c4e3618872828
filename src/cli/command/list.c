/* list, show, dead list, dead show. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "cli/command/endpoint.h"
#include "cli/command/message.h"
#include "base/util.h"
#include "ops/endpoint.h"

static enum color state_color(enum state state)
{
    switch (state) {
    case STATE_DEAD: return COLOR_RED;
    case STATE_RETRYING:
    case STATE_PARKED:
    case STATE_HELD:
    case STATE_PAUSED: return COLOR_YELLOW;
    case STATE_IN_FLIGHT:
    case STATE_DONE: return COLOR_GREEN;
    default: return COLOR_NONE;
    }
}

/* What happens next, for a column. */
static const char *next_words(struct cli *cli, const struct listed *l, const struct breaker_info *b, int64_t now_us)
{
    if (l->state == STATE_PARKED || l->state == STATE_DEAD || l->state == STATE_DONE)
        return "";
    if (l->m.due_us > now_us)
        return arena_printf(&cli->arena, "in %s", span_words(&cli->arena, l->m.due_us - now_us)).data;
    if (b != NULL && b->until_us > now_us && b->until_us != PR_NEVER)
        return arena_printf(&cli->arena, "probe %s", span_short(&cli->arena, b->until_us - now_us)).data;
    return b != NULL ? "probe" : l->state == STATE_READY ? "now" : "";
}

static pr_slice why_words(struct cli *cli, const struct listed *l, const struct breaker_info *b, int64_t now_us)
{
    if (b != NULL)
        return arena_printf(&cli->arena, "endpoint %s: %s", breaker_state_word(b, now_us),
                            breaker_words(&cli->arena, b));
    if (l->state == STATE_PARKED && message_awaits_route(&l->m) && l->m.destination.size == 0 && l->endpoint.size > 0)
        return PR_STR("a route matches now: " ROUTE_MATCHES_NOW);
    return arena_printf(&cli->arena, "%s%s%.*s", message_reason(l),
                        message_reason(l)[0] != '\0' && l->m.error.size > 0 ? ": " : "",
                        (int)min_size(l->m.error.size, 500), l->m.error.size > 0 ? l->m.error.data : "");
}

static void table_of_messages(struct cli *cli, const struct query_reply *reply)
{
    struct table table;

    table_init(&table, &cli->arena, "ID|STATE|TYPE|STREAM|ENDPOINT|>AGE|>NEXT|>FAILED|WHY");
    for (size_t i = 0; i < reply->listed_count; i++) {
        const struct listed *l = &reply->listed[i];
        const struct breaker_info *b = message_breaker(cli->config, reply, l);
        char id[PR_ID_TEXT_SIZE];

        pr_id_format(l->m.id, id);
        if (pr_id_is_zero(l->m.id) && l->state == STATE_DEAD) /* damaged: it cannot be found by its id */
            table_addf(&table, COLOR_YELLOW, "--row %" PRIu64, l->row);
        else
            table_add(&table, COLOR_NONE, slice_from(id));
        table_add(&table, state_color(l->state), slice_from(state_name(l->state)));
        table_add(&table, COLOR_NONE, l->m.type);
        table_add(&table, COLOR_NONE, l->m.stream);
        table_add(&table, COLOR_NONE, message_endpoint(l));
        table_add(&table, COLOR_NONE, slice_from(span_short(&cli->arena, reply->now_us - l->m.created_us)));
        table_add(&table, COLOR_NONE, slice_from(next_words(cli, l, b, reply->now_us)));
        table_addf(&table, COLOR_NONE, "%d", l->m.failures);
        table_add(&table, COLOR_DIM, why_words(cli, l, b, reply->now_us));
    }
    table_print(&table, stdout, terminal_width(stdout), cli->color);
}

static void print_json(const struct cli *cli, const struct query_reply *reply, const struct listed *l)
{
    struct json_line line;
    struct json_writer *w = line_begin(&line);

    message_json(w, cli->config, reply, l);
    line_end(&line);
}

static int print_list(struct cli *cli, const struct query_reply *reply, bool in_boxes, const char *nothing)
{
    for (size_t i = 0; i < reply->listed_count && cli->json; i++)
        print_json(cli, reply, &reply->listed[i]);
    if (!cli->json && reply->listed_count > 0)
        table_of_messages(cli, reply);
    pr_slice next = in_boxes ? arena_printf(&cli->arena, "%.*s:%" PRIu64, SLICE_ARGS(reply->next_box), reply->next)
                             : arena_printf(&cli->arena, "%" PRIu64, reply->next);
    ASSERT(next.data != NULL);
    if (reply->cut) { /* also with --json: otherwise it looks like the end */
        cli_say(
            "%s in the first rows, but more may exist: --limit N searches all of them, --after %s continues from here",
            reply->listed_count > 0 ? "only these were found" : nothing, next.data);
        return EXIT_DONE;
    }
    if (!cli->json && reply->listed_count == 0)
        cli_say("%s", nothing);
    if (!cli->json && reply->more)
        cli_say("more exist: use --limit N, or --after %s", next.data);
    return EXIT_DONE;
}

/* The total; the page shows a part. */
static int say_total(struct cli *cli, const struct filter *filter, size_t shown)
{
    struct query query = { .kind = QUERY_DEAD_COUNT, .filter = *filter };
    struct query_reply reply;
    struct pr_error err;

    query.filter.after = 0;
    if (store_query(&cli->store, &query, &cli->arena, &reply, &err) != PR_OK)
        return cli_fault(&err);
    if (reply.total > shown)
        cli_say("%zu of %s", shown, count_words(&cli->arena, reply.total, "dead letter", "dead letters"));
    else
        cli_say("%s", count_words(&cli->arena, reply.total, "dead letter", "dead letters"));
    return EXIT_DONE;
}

static int list(struct cli *cli, enum query_kind kind, const char *nothing)
{
    struct query query = { .kind = kind };
    struct query_reply reply;
    struct pr_error err;
    int code = cli_open_filtered(cli, &query.filter);

    if (code != EXIT_DONE)
        return code;
    if (kind == QUERY_MESSAGES && query.filter.state == STATE_DEAD)
        query.kind = QUERY_DEAD; /* the state is shown like any other, so it can be a filter */
    if (query.kind == QUERY_DEAD)
        query.filter.state = -1;
    if (query.filter.limit == 0) /* with --limit the search goes on until the limit is reached, however long it takes */
        query.filter.look_max = LOOK_MAX;
    if (store_query(&cli->store, &query, &cli->arena, &reply, &err) != PR_OK)
        return cli_fault(&err);
    messages_see_routes(cli->config, &reply);
    if (code == EXIT_DONE)
        code = print_list(cli, &reply, query.kind == QUERY_MESSAGES, nothing);
    if (code == EXIT_DONE && query.kind == QUERY_DEAD && reply.listed_count > 0 && !cli->json)
        code = say_total(cli, &query.filter, reply.listed_count);
    return code;
}

int run_list(struct cli *cli)
{
    return list(cli, QUERY_MESSAGES, "no messages");
}

int run_dead_list(struct cli *cli)
{
    return list(cli, QUERY_DEAD, "no dead letters");
}

static int show(struct cli *cli, bool dead_only)
{
    struct query_reply reply;
    struct letter_name name;
    size_t shown = 0;
    int code = dead_only ? message_letter(cli, &name) : EXIT_DONE;

    if (code == EXIT_DONE)
        code = dead_only ? message_find_letter(cli, &name, &reply) : message_find(cli, false, &reply);
    if (code != EXIT_DONE)
        return code;
    for (size_t i = 0; i < reply.listed_count; i++) {
        if (dead_only && reply.listed[i].state != STATE_DEAD)
            continue;
        if (cli->json)
            print_json(cli, &reply, &reply.listed[i]);
        else {
            if (shown > 0)
                printf("\n");
            message_print(cli, &reply, &reply.listed[i]);
        }
        shown++;
    }
    if (shown > 0)
        return EXIT_DONE;
    cli_say("%s is not dead: it is %s", cli->args[0], state_name(reply.listed[0].state));
    return EXIT_NOT_FOUND;
}

int run_show(struct cli *cli)
{
    return show(cli, false);
}

int run_dead_show(struct cli *cli)
{
    return show(cli, true);
}
