/* flow start, raise, send, cancel, retry, wait: messages to flows. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/shell.h"
#include "base/slice.h"
#include "base/units.h"
#include "cli/command/flow.h"
#include "cli/command/send.h"
#include "ops/explain/words.h"
#include "ops/reply.h"

#define WAIT_BLOCK 4096

static void print_tell_result(struct cli *cli, const struct flow_tell_result *result)
{
    struct json_line line;
    if (!cli->json) {
        printf("%s\n", text_clean_copy(&cli->arena, result->flow));
        return;
    }
    struct json_writer *w = line_begin(&line);
    json_begin_object(w);
    reply_write(w, REPLY_TOLD, result);
    json_end_object(w);
    line_end(&line);
}

/* Reads the payload, and opens the store.  The caller frees content. */
static int prepare(struct cli *cli, struct buf *content, pr_slice *ret_data)
{
    int code = cli_load_config(cli);
    if (code == EXIT_DONE)
        code = send_payload(cli, NULL, content, ret_data);
    return code == EXIT_DONE ? cli_open_store(cli) : code;
}

int run_flow_start(struct cli *cli)
{
    const char *due = cli->flags.values[FLAG_DUE];
    struct turn_message start = { .kind = TURN_START,
                                  .name = slice_from(cli->args[0]),
                                  .flow = slice_from(cli->arg_count > 1 ? cli->args[1] : NULL),
                                  .version = slice_from(cli->flags.values[FLAG_VERSION]),
                                  .restart = flag_given(&cli->flags, FLAG_RESTART) };
    struct buf content = { 0 };
    struct flow_tell_result result;
    struct pr_error err;
    if (cli->arg_count > 1 && start.flow.size == 0)
        return cli_usage(cli, "the flow id is empty; give one or omit it");
    int code = prepare(cli, &content, &start.data);
    if (code == EXIT_DONE && due != NULL && !cli_time(cli, due, 1, &start.due_us))
        code = cli_usage(cli, "--due: \"%s\" is not a time; use 5m or 2024-01-31T12:00:00Z", due);
    if (code == EXIT_DONE) {
        const struct flow_teller t = flow_teller_of(cli);
        if (flow_tell(&t, &start, (pr_id){ { 0 } }, &result, &err) != PR_OK)
            code = cli_fault(&err);
    }
    if (code == EXIT_DONE) {
        print_tell_result(cli, &result);
        if (result.duplicate)
            cli_say("duplicate: a flow with this id already exists; nothing changed%s",
                    start.restart ? "" : " (--restart restarts one that has ended)");
    }
    buf_fini(&content);
    return code;
}

/* A message for a flow that has ended, or does not exist, is no error: it may be restarted, or begin soon. */
static void say_if_nobody_reads(struct cli *cli, pr_slice flow)
{
    const struct flow_row *row;
    struct pr_error err;
    const char *id = text_clean_copy(&cli->arena, flow);
    if (flow_read_row(&cli->store, flow, &cli->arena, &row, &err) != PR_OK)
        return;
    if (row == NULL)
        cli_say("flow \"%s\" has not begun: this is kept for it for a time (flows.keep_mail)", id);
    else if (flow_has_ended(row))
        cli_say("flow \"%s\" has already ended: nothing reads this", id);
}

/* raise and send */
int run_flow_tell(struct cli *cli)
{
    const bool event = strcmp(cli->command->name, "flow raise") == 0;
    struct turn_message message = { .kind = event ? TURN_EVENT : TURN_MAIL,
                                    .flow = slice_from(cli->args[0]),
                                    .name = slice_from(cli->args[1]) };
    const char *text = cli->flags.values[FLAG_ID];
    struct buf content = { 0 };
    struct flow_tell_result result;
    struct pr_error err;
    pr_id id = { { 0 } };
    if (text != NULL && pr_id_parse(slice_from(text), &id) != PR_OK)
        return cli_usage(cli, "--id: \"%s\" is not a UUID", text);
    int code = prepare(cli, &content, &message.data);
    if (code == EXIT_DONE) {
        const struct flow_teller t = flow_teller_of(cli);
        say_if_nobody_reads(cli, message.flow); /* before: the flow may end by it */
        if (flow_tell(&t, &message, id, &result, &err) != PR_OK)
            code = cli_fault(&err);
    }
    if (code == EXIT_DONE) {
        result.flow = message.flow;
        if (cli->json)
            print_tell_result(cli, &result);
        else
            printf("%s %s\n",
                   result.duplicate ? "duplicate:"
                   : event          ? "raised"
                                    : "sent",
                   result.duplicate ? "nothing changed" : text_clean_copy(&cli->arena, message.name));
    }
    buf_fini(&content);
    return code;
}

int run_flow_cancel(struct cli *cli)
{
    int code = cli_open_store(cli);
    int failed = 0, missing = 0;
    if (code != EXIT_DONE)
        return code;
    const struct flow_teller t = flow_teller_of(cli);
    for (int i = 0; i < cli->arg_count; i++) {
        struct pr_error err;
        const char *id = text_clean_copy(&cli->arena, slice_from(cli->args[i]));
        int rc = flow_cancel(&t, slice_from(cli->args[i]), &err);
        if (rc < 0)
            return cli_fault(&err);
        missing += rc == PR_UNKNOWN;
        failed += rc != PR_OK;
        if (rc == PR_UNKNOWN)
            (void)flow_not_found(cli, slice_from(cli->args[i]));
        else if (rc == PR_STALE)
            cli_say("flow \"%s\" has already ended", id);
        else if (!cli->json)
            printf("%s: cancellation requested\n", id);
    }
    if (cli->json)
        printf("{\"action\":\"flow cancel\",\"matched\":%d,\"changed\":%d,\"refused\":%d,\"missing\":%d}\n",
               cli->arg_count - missing, cli->arg_count - failed, failed - missing, missing);
    if (failed == 0)
        return EXIT_DONE;
    return failed < cli->arg_count ? EXIT_SOME_FAILED : missing > 0 ? EXIT_NOT_FOUND : EXIT_FAILED;
}

static int restart(struct cli *cli, pr_slice id)
{
    const struct flow_teller t = flow_teller_of(cli);
    struct pr_error err;
    const char *name = text_clean_copy(&cli->arena, id);
    if (flag_given(&cli->flags, FLAG_DRY_RUN))
        return cli_usage(cli, "--restart and --dry-run cannot be combined");
    int rc = flow_restart(&t, id, slice_from(cli->flags.values[FLAG_VERSION]), &err);
    if (rc < 0)
        return cli_fault(&err);
    if (rc == PR_UNKNOWN)
        return flow_not_found(cli, id);
    if (rc == PR_STALE) {
        cli_say("flow \"%s\" is running; cancel it first", name);
        return EXIT_FAILED;
    }
    if (cli->json)
        printf("{\"action\":\"flow retry\",\"restarted\":1}\n");
    else
        printf("%s: restarted\n", name);
    return EXIT_DONE;
}

int run_flow_retry(struct cli *cli)
{
    const pr_slice id = slice_from(cli->args[0]);
    bool dry_run = flag_given(&cli->flags, FLAG_DRY_RUN);
    struct flow_retried r;
    struct pr_error err;
    int code = cli_open_store(cli);
    if (code != EXIT_DONE)
        return code;
    if (flag_given(&cli->flags, FLAG_RESTART))
        return restart(cli, id);
    const struct flow_teller t = flow_teller_of(cli);
    int rc = flow_retry(&t, id, dry_run, &r, &err);
    if (rc < 0)
        return cli_fault(&err);
    if (rc == PR_UNKNOWN)
        return flow_not_found(cli, id);
    if (rc == PR_STALE) {
        cli_say("flow \"%s\" has ended and did not fail; --restart starts it from the beginning",
                text_clean_copy(&cli->arena, id));
        return EXIT_FAILED;
    }
    if (cli->json)
        printf("{\"action\":\"flow retry\",\"resumed\":%s,\"replayed\":%" PRIu64 ",\"hastened\":%" PRIu64
               ",\"dry_run\":%s}\n",
               r.resumed ? "true" : "false", r.replayed, r.hastened, dry_run ? "true" : "false");
    else if (r.resumed)
        printf("%s: %sresumed from before its failure\n", text_clean_copy(&cli->arena, id), dry_run ? "would be " : "");
    else
        printf("%" PRIu64 " dead %s %sreplayed, %" PRIu64 " %stried now\n", r.replayed,
               r.replayed == 1 ? "letter" : "letters", dry_run ? "would be " : "", r.hastened,
               dry_run ? "would be " : "");
    if (r.replayed + r.hastened == 0 && !r.resumed && !cli->json)
        cli_say("nothing to retry: no dead letters, no pending retries; --restart restarts a flow that has ended");
    return EXIT_DONE;
}

/* ---- Waiting ---- */

static int look(void *arg, struct arena *arena, const struct flow_row **ret, struct pr_error *reterr)
{
    struct cli *cli = arg;
    return flow_read_row(&cli->store, slice_from(cli->args[0]), arena, ret, reterr);
}

static int print_end(struct cli *cli, const struct flow_row *row, bool timeout)
{
    struct json_line line;
    if (cli->json) {
        struct json_writer *w = line_begin(&line);
        json_begin_object(w);
        flow_row_json(w, row);
        json_put_bool(w, "timeout", timeout);
        json_end_object(w);
        line_end(&line);
    } else if (row->state == FLOW_COMPLETED) {
        (void)fwrite(row->output.data, 1, row->output.size, stdout);
        printf("%s", row->output.size > 0 ? "\n" : "");
    }
    if (timeout)
        cli_say("flow \"%s\" is still running; postrider why %s", cli->args[0],
                shell_argument(&cli->arena, slice_from(cli->args[0])));
    else if (row->state == FLOW_FAILED || row->state == FLOW_CANCELLED)
        cli_say("flow \"%s\" %s%s%s", cli->args[0], row->state == FLOW_FAILED ? "failed" : "was cancelled",
                row->error.size > 0 ? ": " : "", row->error.size > 0 ? flow_error_words(&cli->arena, row->error) : "");
    return row->state == FLOW_COMPLETED ? EXIT_DONE : EXIT_FAILED;
}

/* Its start may wait for a program that runs it.  PR_UNKNOWN: there is no start. */
static int find_start(struct cli *cli, pr_slice flow, struct pr_error *reterr)
{
    struct flow_view v = { .store = &cli->store, .config = cli->config, .arena = &cli->arena, .id = flow };
    int rc = flow_view_make(&v, reterr);
    flow_view_fini(&v);
    return rc;
}

/* Says what is waited for, since the name may be mistyped. */
static int say_what_is_waited_for(struct cli *cli, struct arena *arena, pr_slice flow, struct pr_error *reterr)
{
    const struct flow_row *row = NULL;
    int rc = look(cli, arena, &row, reterr);
    if (rc < 0 || row != NULL)
        return (int)min64(rc, PR_OK);
    rc = find_start(cli, flow, reterr);
    if (rc >= 0)
        cli_say(rc == PR_UNKNOWN ? "there is no flow \"%s\" yet; waiting until somebody starts it and it ends"
                                 : "flow \"%s\" has not started yet; waiting until it ends",
                text_clean_copy(&cli->arena, flow));
    return (int)min64(rc, PR_OK);
}

/* The flow did not begin in time. */
static int print_unbegun(struct cli *cli, pr_slice flow)
{
    struct pr_error err;
    int rc = find_start(cli, flow, &err);
    if (rc == PR_UNKNOWN)
        return flow_not_found(cli, flow);
    if (rc != PR_OK)
        return cli_fault(&err);
    cli_say("flow \"%s\" has not started; postrider why %s", text_clean_copy(&cli->arena, flow),
            shell_argument(&cli->arena, flow));
    return EXIT_FAILED;
}

int run_flow_wait(struct cli *cli)
{
    const char *span = cli->flags.values[FLAG_FOR];
    struct arena arena;
    struct flow_waiter w = { .flow = slice_from(cli->args[0]),
                             .after_number = -1,
                             .timeout_us = PR_NEVER,
                             .look = look,
                             .arg = cli,
                             .arena = &arena };
    const struct flow_row *row = NULL;
    struct pr_error err;
    if (span != NULL && (duration_parse(slice_from(span), &w.timeout_us) != PR_OK || w.timeout_us < 0))
        return cli_usage(cli, "--for: \"%s\" is not a duration; use 30s or 5m", span);
    int code = cli_open_store(cli);
    if (code != EXIT_DONE)
        return code;
    arena_init(&arena, WAIT_BLOCK);
    int rc = w.timeout_us > 0 ? say_what_is_waited_for(cli, &arena, w.flow, &err) : PR_OK;
    if (rc == PR_OK)
        rc = flow_wait_for(&w, &row, &err);
    if (rc < 0)
        code = cli_fault(&err);
    else if (rc == PR_UNKNOWN)
        code = print_unbegun(cli, w.flow);
    else
        code = print_end(cli, row, rc == PR_TIMEOUT);
    arena_fini(&arena);
    return code;
}
