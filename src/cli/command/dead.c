/* dead groups, dead edit, dead note. */
#include <inttypes.h>

#include "base/error.h"
#include "base/shell.h"
#include "base/util.h"
#include "cli/command/message.h"
#include "cli/command/send.h"
#include "cli/output/table.h"
#include "cli/top/view.h"
#include "ops/change.h"
#include "ops/message.h"
#include "ops/reply.h"

#include <jansson.h>

/* ---- Groups ---- */

static void group_add(struct cli *cli, struct table *t, const struct dead_group *g, int64_t now_us)
{
    const char *reason = pr_reason_name(g->reason != PR_REASON_NONE ? g->reason : g->cause);

    table_add(t, COLOR_BOLD,
              g->partial && g->count < COUNT_EXACT_MAX
                  ? arena_printf(&cli->arena, "%" PRIu64 "+", g->count)
                  : slice_from(count_words(&cli->arena, g->count + g->partial, "", "")));
    table_add(t, COLOR_NONE, g->fingerprint);
    table_add(t, COLOR_NONE, g->endpoint);
    table_add(t, COLOR_NONE, g->type);
    table_add(t, COLOR_NONE,
              arena_printf(&cli->arena, "%s%s", span_short(&cli->arena, now_us - g->first_us), g->partial ? "+" : ""));
    table_add(t, COLOR_NONE, slice_from(span_short(&cli->arena, now_us - g->last_us)));
    table_add(t, COLOR_DIM,
              arena_printf(&cli->arena, "%s%s%.*s", reason, g->error.size > 0 ? ": " : "",
                           (int)min_size(g->error.size, 500), g->error.data));
}

/* The flags of the filter as shell words. */
static const char *filter_flags(struct cli *cli)
{
    static const enum flag flags[] = { FLAG_BOX,   FLAG_ENDPOINT,    FLAG_TYPE,  FLAG_STREAM, FLAG_REASON,
                                       FLAG_ERROR, FLAG_FINGERPRINT, FLAG_SINCE, FLAG_UNTIL };
    struct buf b;
    buf_init(&b, OUTPUT_MAX);
    for (size_t i = 0; i < ARRAY_LENGTH(flags); i++) {
        const char *value = cli->flags.values[flags[i]];
        if (value == NULL)
            continue;
        buf_addf(&b, " --%s %s", flag_infos[flags[i]].word, shell_quote(&cli->arena, slice_from(value)));
    }
    pr_slice text = slice_dup(&cli->arena, buf_slice(&b));
    buf_fini(&b);
    return text.data != NULL ? text.data : "";
}

static void say_cut(struct cli *cli, const struct filter *f, uint64_t looked)
{
    const char *which = f->stream.size > 0 ? "the first" : "the latest",
               *where = f->stream.size > 0 ? "stream" : "group";
    cli_say(
        "only %s %s letters of each %s were searched; others may match. To search all of them: postrider dead export%s",
        which, count_grouped(&cli->arena, looked), where, filter_flags(cli));
}

int run_dead_groups(struct cli *cli)
{
    struct query query = { .kind = QUERY_DEAD_GROUPS };
    struct query_reply reply;
    struct json_line line;
    struct table t;
    int code = cli_ask(cli, &query, &reply);

    if (code != EXIT_DONE)
        return code;
    table_init(&t, &cli->arena, ">COUNT|FINGERPRINT|ENDPOINT|TYPE|>FIRST|>LAST|WHY");
    for (size_t i = 0; i < reply.group_count; i++) {
        if (cli->json) {
            group_json(line_begin(&line), &reply.groups[i]);
            line_end(&line);
        } else {
            group_add(cli, &t, &reply.groups[i], reply.now_us);
        }
    }
    if (!cli->json && reply.group_count > 0)
        table_print(&t, stdout, terminal_width(stdout), cli->color);
    if (!cli->json && reply.group_count == 0)
        cli_say(reply.cut ? "none found" : "no dead letters");
    if (reply.cut) /* also with --json: otherwise it looks complete */
        say_cut(cli, &query.filter, reply.looked);
    if (!cli->json && reply.more)
        cli_say("more groups exist: use --limit N or a filter");
    return EXIT_DONE;
}

/* ---- Edit ---- */

/* Its headers, overlaid with those of the command line. */
static int merged_headers(struct cli *cli, pr_slice old, pr_slice changed, pr_slice *ret)
{
    json_t *all = old.size > 0 ? json_loadb(old.data, old.size, 0, NULL) : json_object();
    json_t *some = json_loadb(changed.data, changed.size, 0, NULL);
    char *text = NULL;

    if (!json_is_object(all)) { /* damaged: start with an empty object */
        json_decref(all);
        all = json_object();
    }
    if (json_object_update(all, some) == 0)
        text = json_dumps(all, JSON_COMPACT);
    *ret = text != NULL ? slice_dup(&cli->arena, slice_from(text)) : (pr_slice){ NULL, 0 };
    free(text);
    json_decref(all);
    json_decref(some);
    if (ret->data != NULL)
        return EXIT_DONE;
    cli_say("out of memory for the headers");
    return EXIT_FAILED;
}

/* Finds the dead letter that the command means.  EXIT_DONE, or prints why there is none, or which ones there are. */
static int find_dead(struct cli *cli, const struct letter_name *name, const struct query_reply *reply,
                     const struct listed **ret)
{
    pr_slice endpoint = slice_from(cli->flags.values[FLAG_ENDPOINT]);
    size_t count = message_count_dead(reply, endpoint, ret);

    if (count == 1)
        return EXIT_DONE;
    if (count > 1)
        return cli_usage(cli, "%s died at several endpoints: add --endpoint NAME, one of %s", name->text,
                         message_dead_endpoints(&cli->arena, reply));
    if (message_count_dead(reply, (pr_slice){ NULL, 0 }, ret) == 0)
        cli_say("%s is not dead: it is %s", name->text, state_name(reply->listed[0].state));
    else
        cli_say("%s did not die at %s but at %s", name->text, cli->flags.values[FLAG_ENDPOINT],
                message_dead_endpoints(&cli->arena, reply));
    return EXIT_NOT_FOUND;
}

static int edit_parts(struct cli *cli, const struct listed *dead, struct buf *content, pr_slice parts[4],
                      struct dead_edit *ret)
{
    pr_slice given = { NULL, 0 };
    int code = EXIT_DONE;

    if (flag_given(&cli->flags, FLAG_DATA) || flag_given(&cli->flags, FLAG_FILE)) {
        code = send_payload(cli, NULL, content, &parts[0]);
        ret->payload = &parts[0];
    }
    if (code == EXIT_DONE)
        code = send_headers(cli, &given);
    if (code == EXIT_DONE && given.size > 0) {
        code = merged_headers(cli, dead->m.headers, given, &parts[1]);
        ret->headers = &parts[1];
    }
    if (flag_given(&cli->flags, FLAG_TO)) {
        parts[2] = slice_from(cli->flags.values[FLAG_TO]);
        ret->destination = &parts[2];
    }
    if (flag_given(&cli->flags, FLAG_TYPE)) {
        parts[3] = slice_from(cli->flags.values[FLAG_TYPE]);
        ret->type = &parts[3];
    }
    if (code == EXIT_DONE && ret->payload == NULL && ret->headers == NULL && ret->destination == NULL &&
        ret->type == NULL)
        code = cli_usage(cli, "nothing to change: give --data, --file, --header, --to or --type");
    struct pr_error err;
    if (code == EXIT_DONE && change_check_edit(ret, (size_t)cli->config->payload_max, &err) != PR_OK)
        code = cli_fault(&err);
    return code;
}

static int edit_report(const struct cli *cli, const struct letter_name *name, const struct admin_reply *r, bool dry_run)
{
    char made[PR_ID_TEXT_SIZE];

    pr_id_format(r->made, made);
    if (r->refused > 0)
        cli_say("%s was already edited; see postrider dead show", name->text);
    else if (r->changed == 0)
        cli_say("%s is not a dead letter", name->text);
    else if (dry_run)
        cli_say("the corrected message would be sent");
    else if (cli->json && name->row != 0)
        printf("{\"action\":\"dead edit\",\"id\":\"%s\",\"row\":%" PRIu64 "}\n", made, name->row);
    else if (cli->json)
        printf("{\"action\":\"dead edit\",\"id\":\"%s\",\"original\":\"%s\"}\n", made, name->text);
    else
        printf("%s\n", made);
    return r->refused > 0 ? EXIT_FAILED : r->changed == 0 ? EXIT_NOT_FOUND : EXIT_DONE;
}

int run_dead_edit(struct cli *cli)
{
    struct query_reply found;
    struct dead_edit edit = { 0 };
    struct admin_reply reply;
    struct pr_error err;
    struct buf content = { 0 };
    struct letter_name name;
    pr_slice parts[4];
    int code = message_letter(cli, &name);

    if (code == EXIT_DONE)
        code = message_find_letter(cli, &name, &found);
    if (code != EXIT_DONE)
        return code;
    const struct listed *dead;
    code = find_dead(cli, &name, &found, &dead);
    if (code != EXIT_DONE)
        return code;
    code = send_to_is_known(cli);
    if (code == EXIT_DONE)
        code = edit_parts(cli, dead, &content, parts, &edit);
    struct admin admin = {
        .kind = ADMIN_DEAD_EDIT,
        .filter = { .state = -1, .endpoint = slice_from(cli->flags.values[FLAG_ENDPOINT]) },
        .by = cli_user(cli),
        .why = slice_from(cli->flags.values[FLAG_WHY]),
        .dry_run = flag_given(&cli->flags, FLAG_DRY_RUN),
        .edit = &edit,
    };
    message_letter_filter(&name, &admin.filter);
    if (code == EXIT_DONE)
        code = store_admin(&cli->store, &admin, &reply, &err) == PR_OK ? edit_report(cli, &name, &reply, admin.dry_run)
                                                                       : cli_fault(&err);
    buf_fini(&content);
    return code;
}

/* ---- Note ---- */

int run_dead_note(struct cli *cli)
{
    struct admin_reply reply;
    struct pr_error err;
    struct admin admin = { .kind = ADMIN_DEAD_NOTE, .why = slice_from(cli->args[cli->arg_count - 1]) };
    struct letter_name name;
    int code = message_letter(cli, &name);

    if (code == EXIT_DONE)
        code = cli_open_filtered(cli, &admin.filter);
    if (code != EXIT_DONE)
        return code;
    message_letter_filter(&name, &admin.filter);
    admin.by = cli_user(cli);
    if (store_admin(&cli->store, &admin, &reply, &err) != PR_OK)
        return cli_fault(&err);
    if (reply.changed > 0) {
        printf(cli->json ? "{\"action\":\"dead note\",\"changed\":%" PRIu64 "}\n" : "%" PRIu64 " noted\n",
               reply.changed);
        return EXIT_DONE;
    }
    cli_say("%s is not a dead letter%s%.*s", name.text, admin.filter.endpoint.size > 0 ? " of " : "",
            SLICE_ARGS(admin.filter.endpoint));
    return EXIT_NOT_FOUND;
}
