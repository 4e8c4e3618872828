/* schedules list, show, add, run, pause, resume, cancel, reschedule. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/command/send.h"
#include "cli/output/table.h"
#include "ops/explain/words.h"
#include "ops/schedule.h"

/* Schedules of this name, in the arena; empty: all. */
static int find(struct cli *cli, pr_slice name, struct schedule_info **ret, size_t *ret_count)
{
    struct pr_error err;
    int code = cli_load_config(cli);
    if (code == EXIT_DONE)
        code = cli_open_store(cli);
    if (code != EXIT_DONE)
        return code;
    if (schedules_find(&cli->store, name, &cli->arena, ret, ret_count, &err) < 0)
        return cli_fault(&err);
    if (name.size > 0 && *ret_count == 0) {
        cli_say("unknown schedule \"%s\"; see postrider schedules", text_clean_copy(&cli->arena, name));
        return EXIT_NOT_FOUND;
    }
    return EXIT_DONE;
}

static void print_json(struct cli *cli, const struct schedule_info *info)
{
    struct json_line line;
    schedule_json(line_begin(&line), info, store_time(&cli->store));
    line_end(&line);
}

static const char *clean(struct cli *cli, pr_slice text)
{
    return text_clean_copy(&cli->arena, text);
}

static const char *zone_words(struct cli *cli, const struct schedule_info *info)
{
    return info->s.zone_name.size > 0 ? clean(cli, info->s.zone_name) : "UTC";
}

/* ---- Looking ---------------------------------------------------------------------------------- */

static void print_table(struct cli *cli, const struct schedule_info *list, size_t count)
{
    struct table t;
    table_init(&t, &cli->arena, "NAME|STATE|CRON|ZONE|NEXT (LOCAL)|TYPE|ERROR");
    for (size_t i = 0; i < count; i++) {
        const struct schedule_info *info = &list[i];
        bool wrong = info->state == SCHEDULE_FAILING || info->state == SCHEDULE_DEAD;
        table_add(&t, COLOR_BOLD, slice_from(clean(cli, info->s.name)));
        table_add(&t, wrong ? COLOR_RED : COLOR_NONE, slice_from(schedule_state_name(info->state)));
        table_add(&t, COLOR_NONE, slice_from(clean(cli, info->s.cron_text)));
        table_add(&t, COLOR_NONE, slice_from(zone_words(cli, info)));
        table_add(&t, COLOR_NONE, slice_from(info->next_us != 0 ? time_words(&cli->arena, info->next_us) : "-"));
        table_add(&t, COLOR_NONE, slice_from(clean(cli, info->s.message.type)));
        table_add(&t, COLOR_DIM, slice_from(clean(cli, info->error)));
    }
    if (count > 0)
        table_print(&t, stdout, terminal_width(stdout), cli->color);
    else
        cli_say("no schedules; add one with postrider schedules add, or under schedules: in the configuration");
}

int run_schedules_list(struct cli *cli)
{
    struct schedule_info *list;
    size_t count;
    int code = find(cli, (pr_slice){ NULL, 0 }, &list, &count);
    if (code != EXIT_DONE)
        return code;
    if (!cli->json)
        print_table(cli, list, count);
    for (size_t i = 0; cli->json && i < count; i++)
        print_json(cli, &list[i]);
    return EXIT_DONE;
}

static void print_schedule(struct cli *cli, const struct schedule_info *info)
{
    int64_t times[SCHEDULE_TIMES_SHOWN];
    size_t count = schedule_next_times(info, store_time(&cli->store), times);
    char id[PR_ID_TEXT_SIZE], grace[DURATION_TEXT_SIZE];
    pr_id_format(info->row->m.id, id);
    duration_format(info->s.grace_us, grace);
    printf("schedule  %s\nstate     %s%s\ncron      %s, %s\nmissed    %s, if more than %s late\nsends     %s\nid       "
           " %s\n",
           clean(cli, info->s.name), schedule_state_name(info->state),
           info->state == SCHEDULE_NEW ? ": no running instance has read it yet" : "", clean(cli, info->s.cron_text),
           zone_words(cli, info), schedule_missed_name(info->s.missed), grace, clean(cli, info->s.message.type), id);
    if (info->s.config.size > 0)
        printf("origin    the configuration\n");
    if (info->error.size > 0)
        printf("error     %s\n", clean(cli, info->error));
    for (size_t i = 0; i < count; i++)
        printf("%s%s%s\n", i == 0 ? "next      " : "          ", time_words(&cli->arena, times[i]),
               i == 0 ? " (local time)" : "");
    printf("\nwhat happened: postrider why %s\n", id);
}

int run_schedules_show(struct cli *cli)
{
    struct schedule_info *list;
    size_t count;
    int code = find(cli, slice_from(cli->args[0]), &list, &count);
    for (size_t i = 0; i < count && code == EXIT_DONE; i++) {
        if (cli->json)
            print_json(cli, &list[i]);
        else
            print_schedule(cli, &list[i]);
    }
    return code;
}

/* ---- Changing ---------------------------------------------------------------------------------- */

static int record(struct cli *cli, enum admin_kind kind, pr_slice name)
{
    const struct admin_reply outcome = { .matched = 1, .changed = 1 };
    struct admin_reply reply;
    struct pr_error err;
    pr_id id;
    schedule_id(name, &id);
    const struct admin admin = { .kind = kind,
                                 .filter = { .ids = &id, .id_count = 1, .state = -1 },
                                 .by = cli_user(cli),
                                 .why = slice_from(cli->flags.values[FLAG_WHY]),
                                 .outcome = &outcome };
    return store_admin(&cli->store, &admin, &reply, &err) >= 0 ? EXIT_DONE : cli_fault(&err);
}

static int take_missed(struct cli *cli, struct schedule *s)
{
    const char *word = cli->flags.values[FLAG_MISSED];
    const char *grace = word != NULL ? strchr(word, ':') : NULL;
    if (grace != NULL && (duration_parse(slice_from(grace + 1), &s->grace_us) != PR_OK || s->grace_us < PR_SECONDS(1)))
        return cli_usage(cli, "--missed \"%s\": the part after the colon must be a duration of at least 1s, such as 5m",
                         word);
    pr_slice policy = grace != NULL ? PR_BYTES(word, (size_t)(grace - word)) : slice_from(word);
    for (enum schedule_missed m = MISSED_ONCE; m <= MISSED_ALL; m++)
        if (word == NULL || slice_eq(policy, slice_from(schedule_missed_name(m)))) {
            s->missed = m;
            return EXIT_DONE;
        }
    return cli_usage(cli, "--missed \"%s\": use once, skip or all", word);
}

static int take_schedule(struct cli *cli, struct buf *content, struct schedule *s)
{
    const char *const *values = cli->flags.values;
    struct pr_error err;
    *s = (struct schedule){ .name = slice_from(cli->args[0]),
                            .cron_text = slice_from(values[FLAG_CRON]),
                            .zone_name = slice_from(values[FLAG_ZONE]),
                            .grace_us = SCHEDULE_GRACE_US,
                            .box = slice_from(values[FLAG_BOX]),
                            .message = { .type = slice_from(values[FLAG_TYPE]),
                                         .stream = slice_from(values[FLAG_STREAM]),
                                         .destination = slice_from(values[FLAG_TO]),
                                         .source = slice_from(values[FLAG_SOURCE]),
                                         .subject = slice_from(values[FLAG_SUBJECT]),
                                         .content_type = slice_from(values[FLAG_CONTENT_TYPE]),
                                         .event = flag_given(&cli->flags, FLAG_EVENT) } };
    if (values[FLAG_CRON] == NULL || values[FLAG_TYPE] == NULL)
        return cli_usage(cli, "schedules add needs --cron TIMES and --type TYPE");
    if (!schedule_name_is_valid(s->name))
        return cli_usage(cli, "\"%s\" is not a name; use letters, digits and _ - ., at most %d", cli->args[0],
                         SCHEDULE_NAME_MAX);
    if (cron_parse(s->cron_text, &s->cron, &err) != PR_OK)
        return cli_usage(cli, "--cron: %s", err.text);
    if (s->message.event && s->message.stream.size == 0)
        return cli_usage(cli, "--event needs --stream: an event belongs to what it is about, such as order-7");
    int code = take_missed(cli, s);
    if (code == EXIT_DONE)
        code = send_headers(cli, &s->message.headers);
    if (code == EXIT_DONE)
        code = send_payload(cli, NULL, content, &s->message.payload);
    return code;
}

int run_schedules_add(struct cli *cli)
{
    struct buf content = { 0 };
    struct pr_error err;
    struct schedule s;
    int code = cli_load_config(cli);
    if (code == EXIT_DONE)
        code = take_schedule(cli, &content, &s);
    if (code == EXIT_DONE)
        code = cli_open_store(cli);
    if (code == EXIT_DONE)
        code = send_to_is_known(cli);
    if (code == EXIT_DONE && s.box.size > 0)
        code = cli_box_must_be(cli, s.box);
    if (code == EXIT_DONE &&
        schedule_put(&cli->store, PR_STR("outbox"), &s, true, (size_t)cli->config->payload_max, &err) < 0)
        code = cli_fault(&err);
    if (code == EXIT_DONE)
        code = record(cli, ADMIN_SCHEDULE_ADD, s.name);
    if (code == EXIT_DONE)
        printf("%.*s\n", SLICE_ARGS(s.name));
    buf_fini(&content);
    return code;
}

int run_schedules_run(struct cli *cli)
{
    struct schedule_info *list;
    struct pr_error err;
    size_t count;
    pr_id id;
    char text[PR_ID_TEXT_SIZE];
    int code = find(cli, slice_from(cli->args[0]), &list, &count);
    if (code != EXIT_DONE)
        return code;
    if (schedule_run_now(&cli->store, &list[0], (size_t)cli->config->payload_max, &id, &err) < 0)
        return cli_fault(&err);
    code = record(cli, ADMIN_SCHEDULE_RUN, list[0].s.name);
    pr_id_format(id, text);
    printf("%s\n", text);
    return code;
}

int run_schedules_change(struct cli *cli)
{
    static const struct {
        const char *command, *done;
        enum schedule_order order;
    } orders[] = { { "schedules pause", "paused", SCHEDULE_PAUSE },
                   { "schedules resume", "resumed", SCHEDULE_RESUME },
                   { "schedules cancel", "cancelled", SCHEDULE_CANCEL },
                   { "schedules reschedule", "rescheduled", SCHEDULE_MOVE } };
    struct schedule_info *list;
    struct pr_error err;
    size_t i = 0, count;
    int64_t to_us = 0;
    while (strcmp(orders[i].command, cli->command->name) != 0)
        i++;
    if (orders[i].order == SCHEDULE_MOVE && !flag_given(&cli->flags, FLAG_DUE))
        return cli_usage(cli, "schedules reschedule needs --due TIME");
    int code = find(cli, slice_from(cli->args[0]), &list, &count);
    if (code != EXIT_DONE)
        return code;
    if (orders[i].order == SCHEDULE_MOVE && !cli_time(cli, cli->flags.values[FLAG_DUE], 1, &to_us))
        return cli_usage(cli, "--due \"%s\" is not a time; use 5m or 2024-01-31T12:00:00Z",
                         cli->flags.values[FLAG_DUE]);
    if (schedule_order(&cli->store, slice_from(cli->args[0]), orders[i].order, to_us, cli_user(cli),
                       slice_from(cli->flags.values[FLAG_WHY]), &err) < 0)
        return cli_fault(&err);
    printf("%s %s\n", cli->args[0], orders[i].done);
    if (orders[i].order == SCHEDULE_CANCEL && schedules_have_config(list, count))
        cli_say(SCHEDULE_COMES_BACK);
    return EXIT_DONE;
}
