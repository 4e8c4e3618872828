/* What operators do to messages: retry, release, park, reschedule, discard, dead replay|discard|add.
 *
 * Ids are explicit.  A filter may match more than its author thinks, so it needs --yes, or a confirmation after showing
 * the number. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/util.h"
#include "cli/command/replay.h"
#include "ops/change.h"
#include "ops/flow/flow_tell.h"

struct change_command {
    const char *command;
    enum admin_kind kind;
    const char *question, *done; /* "Retry %s?", "retried" */
};

static const struct change_command changes[] = {
    { "retry", ADMIN_RETRY, "Retry", "retried" },
    { "release", ADMIN_RELEASE, "Release", "released" },
    { "park", ADMIN_PARK, "Park", "parked" },
    { "reschedule", ADMIN_RESCHEDULE, "Reschedule", "rescheduled" },
    { "discard", ADMIN_DISCARD, "Discard", "discarded" },
    { "dead replay", ADMIN_DEAD_REPLAY, "Replay", "replayed" },
    { "dead discard", ADMIN_DEAD_DISCARD, "Discard for good", "discarded" },
    { "dead add", ADMIN_DEAD_ADD, "Make dead", "dead" },
};

static const struct change_command *find_change(const struct command *command)
{
    for (size_t i = 0; i < ARRAY_LENGTH(changes); i++)
        if (strcmp(changes[i].command, command->name) == 0)
            return &changes[i];
    ASSERT(!"every command that changes is in the table");
    return NULL;
}

/* Which messages: ids, or for release a stream, or a filter. */
static int target(struct cli *cli, const struct change_command *change, struct filter *ret_filter)
{
    struct filter filter;
    pr_id *ids;
    int code = cli_filter(cli, &filter);

    if (code != EXIT_DONE)
        return code;
    if (change->kind == ADMIN_DEAD_ADD)
        filter.reason = 0; /* --reason is the cause here, see run_change() */
    bool by_filter = !filter_is_empty(&filter);
    pr_id one;

    if (cli->arg_count == 0 && !by_filter)
        return cli_usage(cli, "%s needs %s or a filter such as --endpoint NAME", cli->command->name,
                         cli->command->arguments);
    if (change->kind == ADMIN_RESCHEDULE && !flag_given(&cli->flags, FLAG_DUE))
        return cli_usage(cli, "reschedule needs --due TIME");
    struct filter others = filter;
    others.endpoint = (pr_slice){ NULL, 0 }; /* a message to several endpoints has one id, so both may be needed */
    if (cli->arg_count > 0 && !filter_is_empty(&others))
        return cli_usage(cli, "ids and filters cannot be combined, except with --endpoint");
    if (change->kind == ADMIN_DEAD_ADD && !flag_given(&cli->flags, FLAG_WHY))
        return cli_usage(cli, "dead add needs --why TEXT");
    if (change->kind == ADMIN_RELEASE && cli->arg_count == 1 && pr_id_parse(slice_from(cli->args[0]), &one) != PR_OK)
        filter.stream = slice_from(cli->args[0]);
    else if (cli->arg_count > 0) {
        code = cli_ids(cli, 0, &ids, &filter.id_count);
        filter.ids = ids;
    }
    *ret_filter = filter;
    return code;
}

static int count(struct cli *cli, const struct admin *admin, uint64_t *ret_count)
{
    struct admin question = *admin;
    struct admin_reply reply;
    struct pr_error err;

    question.dry_run = true;
    if (store_admin(&cli->store, &question, &reply, &err) != PR_OK)
        return cli_fault(&err);
    *ret_count = reply.changed;
    return EXIT_DONE;
}

/* EXIT_DONE: confirmed. */
static int confirm(struct cli *cli, const struct change_command *change, const struct admin *admin)
{
    char answer[16];
    uint64_t n = 0;

    if (flag_given(&cli->flags, FLAG_YES) || admin->dry_run || cli->arg_count > 0)
        return EXIT_DONE;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
        if (admin->filter.row != 0)
            return cli_usage(cli, "this changes dead letter row %" PRIu64 ": check it with --dry-run, then add --yes",
                             admin->filter.row);
        return cli_usage(cli, "this changes every message that matches: check with --dry-run, then add --yes");
    }
    int code = count(cli, admin, &n);
    if (code != EXIT_DONE || n == 0)
        return code;
    fprintf(stderr, "%s %" PRIu64 " %s? [y/N] ", change->question, n, n == 1 ? "message" : "messages");
    if (fgets(answer, sizeof(answer), stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y'))
        return EXIT_DONE;
    cli_say("nothing was changed");
    return EXIT_FAILED;
}

/* Handled, according to the mark of the endpoint that it would go to (core/mark.h). */
static void say_handled(const struct admin_reply *r)
{
    char when[TIME_TEXT_SIZE] = "";
    bool one = r->handled == 1;

    if (r->handled_us == 0) {
        cli_say("%" PRIu64 " refused: %s; to run %s all the same, add --again", r->handled,
                one ? "its flow continued or ended without it" : "their flows continued or ended without them",
                one ? "it" : "them");
        return;
    }
    time_format_rfc3339(r->handled_us, when);
    cli_say("%" PRIu64 " refused: %s handled%s%s; to handle %s again, add --again", r->handled,
            one ? "its message was" : "their messages were", one ? " at " : ", the first at ", when,
            one ? "it" : "them");
}

static int report(const struct cli *cli, const struct change_command *change, const struct admin *admin,
                  const struct admin_reply *r)
{
    if (cli->json)
        printf("{\"action\":\"%s\",\"matched\":%" PRIu64 ",\"changed\":%" PRIu64 ",\"refused\":%" PRIu64
               ",\"handled\":%" PRIu64 ",\"missing\":%" PRIu64 ",\"dry_run\":%s}\n",
               change->command, r->matched, r->changed, r->refused, r->handled, r->missing,
               admin->dry_run ? "true" : "false");
    else
        printf("%" PRIu64 " %s%s\n", r->changed, admin->dry_run ? "would be " : "", change->done);
    if (r->missing > 0)
        cli_say("%" PRIu64 " of the ids %s found%s", r->missing, r->missing == 1 ? "was not" : "were not",
                admin->kind >= ADMIN_DEAD_REPLAY && admin->kind <= ADMIN_DEAD_DISCARD ? " among the dead letters" : "");
    if (r->handled > 0)
        say_handled(r);
    if (r->refused > r->handled && admin->kind == ADMIN_DEAD_REPLAY)
        cli_say("%" PRIu64 " refused: the box has a newer message with the same id, or the dead letter was edited",
                r->refused - r->handled);
    else if (r->refused > r->handled)
        cli_say("%" PRIu64 " refused: the state of the message does not allow it", r->refused);
    if (r->missing + r->refused == 0)
        return EXIT_DONE;
    if (r->changed > 0)
        return EXIT_SOME_FAILED;
    return r->missing > 0 ? EXIT_NOT_FOUND : EXIT_FAILED;
}

int run_change(struct cli *cli)
{
    const struct change_command *change = find_change(cli->command);
    struct admin admin = { .kind = change->kind,
                           .dry_run = flag_given(&cli->flags, FLAG_DRY_RUN),
                           .again = flag_given(&cli->flags, FLAG_AGAIN) };
    struct admin_reply reply = { 0 };
    struct pr_error err;
    bool replays = change->kind == ADMIN_DEAD_REPLAY && cli->arg_count == 0; /* by filter: in steps */
    int code = cli_load_config(cli);

    if (code == EXIT_DONE)
        code = target(cli, change, &admin.filter); /* errors of the filter are reported before the store is asked */
    if (code == EXIT_DONE && replays)
        code = replay_check(cli);
    else if (code == EXIT_DONE && (flag_given(&cli->flags, FLAG_RATE) || flag_given(&cli->flags, FLAG_CANARY)))
        code = cli_usage(cli, "--rate and --canary need a filter, not ids");
    if (code == EXIT_DONE)
        code = cli_open_store(cli);
    if (code == EXIT_DONE)
        code = target(cli, change, &admin.filter); /* again: times are by the store's clock */
    if (code != EXIT_DONE)
        return code;
    if (change->kind == ADMIN_DEAD_ADD && flag_given(&cli->flags, FLAG_REASON))
        admin.cause = reason_parse(slice_from(cli->flags.values[FLAG_REASON]));
    if (change->kind == ADMIN_RESCHEDULE && !cli_time(cli, cli->flags.values[FLAG_DUE], 1, &admin.until_us))
        return cli_usage(cli, "--due \"%s\" is not a time; use 5m or 2024-01-31T12:00:00Z",
                         cli->flags.values[FLAG_DUE]);
    admin.turns = flow_box(cli->config, BOX_TURNS);
    admin.by = cli_user(cli);
    admin.why = slice_from(cli->flags.values[FLAG_WHY]);
    code = confirm(cli, change, &admin);
    if (code != EXIT_DONE)
        return code;
    if (replays && !admin.dry_run) {
        code = replay_run(cli, &admin, &reply);
        int reported = report(cli, change, &admin, &reply);
        return code != EXIT_DONE ? code : reported;
    }
    if (admin.filter.box.size > 0 && (code = cli_box_must_be(cli, admin.filter.box)) != EXIT_DONE)
        return code;
    int rc = change_run(&cli->store, &admin, &reply, &err);
    if (rc != PR_OK && reply.changed > 0)
        (void)report(cli, change, &admin, &reply); /* for the changes before the fault */
    if (rc != PR_OK)
        return cli_fault(&err);
    return report(cli, change, &admin, &reply);
}
