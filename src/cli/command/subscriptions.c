/* events subscriptions: readers of all events and their progress; and moving or removing one. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/slice.h"
#include "cli/cli.h"
#include "cli/output/table.h"
#include "ops/reply.h"

static int list(struct cli *cli)
{
    struct query query = { .kind = QUERY_SUBSCRIPTIONS, .filter.state = -1 };
    struct query_reply reply;
    struct pr_error err;
    struct table t;
    struct json_line line;

    if (store_query(&cli->store, &query, &cli->arena, &reply, &err) != PR_OK)
        return cli_fault(&err);
    table_init(&t, &cli->arena, "SUBSCRIPTION|>POSITION|>LAST|>LAG|HELD BY|>LEASE");
    for (size_t i = 0; i < reply.subscription_count; i++) {
        const struct subscription_info *s = &reply.subscriptions[i];

        if (cli->json) {
            reply_row_json(line_begin(&line), QUERY_SUBSCRIPTIONS, s);
            line_end(&line);
            continue;
        }
        table_add(&t, COLOR_BOLD, s->name);
        table_addf(&t, COLOR_NONE, "%" PRIu64, s->position);
        table_addf(&t, COLOR_NONE, "%" PRIu64, s->last);
        table_addf(&t, s->lag > 0 ? COLOR_YELLOW : COLOR_DIM, "%" PRIu64, s->lag);
        table_add(&t, COLOR_NONE, s->holder.size > 0 ? s->holder : PR_STR("nobody"));
        table_add(&t, COLOR_DIM,
                  slice_from(s->until_us > 0 ? span_short(&cli->arena, s->until_us - reply.now_us) : ""));
    }
    if (cli->json)
        return EXIT_DONE;
    if (reply.subscription_count > 0)
        table_print(&t, stdout, terminal_width(stdout), cli->color);
    else
        cli_say("%s", reply_none(QUERY_SUBSCRIPTIONS));
    return EXIT_DONE;
}

static int change(struct cli *cli, enum admin_kind kind, uint64_t position)
{
    const struct admin admin = { .kind = kind,
                                 .filter = { .state = -1 },
                                 .subscription = slice_from(cli->args[1]),
                                 .position = position,
                                 .by = cli_user(cli),
                                 .why = slice_from(cli->flags.values[FLAG_WHY]),
                                 .dry_run = flag_given(&cli->flags, FLAG_DRY_RUN) };
    struct admin_reply reply = { 0 };
    struct pr_error err;

    if (store_admin(&cli->store, &admin, &reply, &err) != PR_OK)
        return cli_fault(&err);
    if (reply.missing > 0) {
        cli_say("unknown subscription \"%s\"; see postrider events subscriptions", cli->args[1]);
        return EXIT_NOT_FOUND;
    }
    if (kind == ADMIN_SUBSCRIPTION_REMOVE)
        cli_say("%s %s", cli->args[1], admin.dry_run ? "would be removed" : "is removed");
    else
        cli_say("%s %s after place %" PRIu64, cli->args[1], admin.dry_run ? "would continue" : "continues", position);
    return EXIT_DONE;
}

int run_events_subscriptions(struct cli *cli)
{
    const char *after = cli->flags.values[FLAG_AFTER];
    bool resets = cli->arg_count == 2 && strcmp(cli->args[0], "reset") == 0;
    bool removes = cli->arg_count == 2 && strcmp(cli->args[0], "remove") == 0;
    unsigned long long position = 0;
    char *end = NULL;

    if (cli->arg_count > 0 && !resets && !removes)
        return cli_usage(cli, "use postrider events subscriptions reset NAME --after PLACE, or remove NAME");
    if (resets != (after != NULL))
        return cli_usage(cli, resets ? "--after is missing: the place to continue after; 0 reads everything again"
                                     : "--after is only for reset");
    errno = 0;
    if (after != NULL)
        position = strtoull(after, &end, 10);
    if (after != NULL && (*after < '0' || *after > '9' || *end != '\0' || errno != 0))
        return cli_usage(cli, "--after: \"%s\" is not a place", after);
    int code = cli_open_store(cli);

    if (code != EXIT_DONE || (!resets && !removes))
        return code == EXIT_DONE ? list(cli) : code;
    return change(cli, resets ? ADMIN_SUBSCRIPTION_RESET : ADMIN_SUBSCRIPTION_REMOVE, position);
}
