/* An outbox table of another product: whether it can be used, and the lines for the configuration.  Changes nothing. */
#include <string.h>

#include "base/error.h"
#include "base/util.h"
#include "cli/command/check.h"
#include "runtime/config/config_suggest.h"

/* ---- What was found, as checks ---- */

static void add_findings(struct checks *checks, const struct adopt_report *report)
{
    static const enum check_state states[] = {
        [ADOPT_FINE] = CHECK_FINE, [ADOPT_WARN] = CHECK_WARN, [ADOPT_ERROR] = CHECK_ERROR
    };

    for (size_t i = 0; i < report->count; i++) {
        const struct adopt_finding *f = &report->findings[i];
        bool named = f->level == ADOPT_FINE && f->name[0] != '\0'; /* the other findings contain the name */

        checks_add(checks, f->about, states[f->level], "%s%s%s", named ? f->name : "", named ? ": " : "", f->text);
    }
}

static bool is_worked(struct cli *cli, const char *box)
{
    struct query query = { .kind = QUERY_INSTANCES, .filter.state = -1 };
    struct query_reply reply;
    struct pr_error err;

    if (store_query(&cli->store, &query, &cli->arena, &reply, &err) != PR_OK)
        return true; /* the store's own check reports that */
    for (size_t i = 0; i < reply.instance_count; i++)
        if (slice_eq(reply.instances[i].box, slice_from(box)) && reply.instances[i].lease_left_us > 0)
            return true;
    return false;
}

void checks_add_sources(struct checks *checks, struct cli *cli, enum check_state worst)
{
    for (size_t i = 0; i < cli->config->source_count && cli->store.ops != NULL; i++) {
        const struct adoption *adoption = &cli->config->sources[i].table;
        const struct adopt_finding *error = NULL;
        struct adopt_report report;
        struct pr_error err;

        if (cli->config->sources[i].kind != SOURCE_TABLE)
            continue;
        int r = adopt_check(&cli->store, adoption, &cli->arena, &report, &err);
        if (r == PR_OK)
            error = adopt_report_error(&report);
        if (r != PR_OK || error != NULL)
            checks_add(checks, "source", worst, "%s", error != NULL ? error->text : err.text);
        else if (report.lock != NULL)
            checks_add(checks, "source", CHECK_WARN, "%s", report.lock);
        else if (report.backlog > 0 && !is_worked(cli, adoption->box))
            checks_add(checks, "source", CHECK_WARN,
                       "%s: %lld%s waiting rows, and no instance moves them: start postrider run", adoption->table,
                       (long long)min64(report.backlog, COUNT_EXACT_MAX), report.backlog > COUNT_EXACT_MAX ? "+" : "");
        else
            checks_add(checks, "source", CHECK_FINE, "%s: %lld%s waiting rows", adoption->table,
                       (long long)min64(report.backlog, COUNT_EXACT_MAX), report.backlog > COUNT_EXACT_MAX ? "+" : "");
    }
}

/* ---- Which table, and how ---- */

static const struct source_config *configured(const struct cli *cli, const char *table)
{
    for (size_t i = 0; i < cli->config->source_count; i++)
        if (strcmp(cli->config->sources[i].table.table, table) == 0)
            return &cli->config->sources[i];
    return NULL;
}

static int unknown_preset(const struct cli *cli, const char *preset)
{
    struct suggestion near = { 0 };

    for (size_t i = 0; adopt_presets[i] != NULL; i++)
        suggest_try(&near, slice_from(preset), adopt_presets[i]);
    return near.best != NULL
               ? cli_usage(cli, "unknown preset %s; did you mean %s?", preset, near.best)
               : cli_usage(cli,
                           "unknown preset %s; use one of debezium, cap, masstransit, eventuate, finitech, generic",
                           preset);
}

/* The adoption from the flags, or, without --preset, from the configuration for this table. */
static int find_adoption(struct cli *cli, struct adoption *ret)
{
    const char *preset = cli->flags.values[FLAG_PRESET], *table = cli->flags.values[FLAG_TABLE],
               *box = cli->flags.values[FLAG_BOX];
    pr_slice schema, name;

    if (table == NULL)
        return cli_usage(cli, "adopt needs --table SCHEMA.NAME");
    if (!adopt_table_split(table, &schema, &name))
        return cli_usage(cli, "--table: \"%s\" is not a table name; use NAME or SCHEMA.NAME with letters, digits and _",
                         table);
    const struct source_config *source = configured(cli, table);
    if (preset == NULL && source == NULL)
        return cli_usage(
            cli,
            "adopt needs --preset, or, for a table of your own, a source such as {table: %s, id: COLUMN, payload: "
            "COLUMN} in the configuration",
            table);
    *ret = preset == NULL ? source->table : (struct adoption){ .table = table, .box = "outbox", .time_zone = "UTC" };
    if (preset != NULL && !adopt_preset(preset, ret))
        return unknown_preset(cli, preset);
    if (box != NULL && config_find_box(cli->config, slice_from(box)) == NULL)
        return cli_usage(cli, "--box: unknown box %s", box);
    if (box != NULL)
        ret->box = box;
    return EXIT_DONE;
}

/* ---- Printing ---- */

static const char *config_line(struct cli *cli, const struct adoption *a)
{
    bool mapped = strcmp(a->preset, "generic") == 0;
    pr_slice text =
        arena_printf(&cli->arena, "{table: %s, preset: %s%s%s%s}", a->table, a->preset,
                     mapped ? ", id: COLUMN, payload: COLUMN" : "", strcmp(a->box, "outbox") != 0 ? ", box: " : "",
                     strcmp(a->box, "outbox") != 0 ? a->box : "");

    ASSERT(text.data != NULL);
    return text.data;
}

static void print_json(struct cli *cli, const struct adoption *a, const struct adopt_report *report,
                       const struct checks *checks)
{
    struct json_line line;
    struct json_writer *w = line_begin(&line);

    json_begin_object(w);
    json_put_cstr(w, "table", a->table);
    json_put_cstr(w, "preset", a->preset);
    json_put_cstr(w, "health", check_state_name(checks_health(checks)));
    if (report->backlog >= 0)
        json_put_int(w, "backlog", report->backlog);
    checks_json(checks, w);
    if (configured(cli, a->table) == NULL && checks_health(checks) != CHECK_ERROR)
        json_put_cstr(w, "source", config_line(cli, a));
    json_end_object(w);
    line_end(&line);
}

/* With --check the findings are the output; otherwise the lines are, and problems go to stderr. */
static void print(struct cli *cli, const struct adoption *a, const struct checks *checks)
{
    bool check = flag_given(&cli->flags, FLAG_CHECK);

    if (check)
        checks_print(checks, false, cli->color);
    for (size_t i = 0; !check && i < checks->count; i++)
        if (checks->items[i].state != CHECK_FINE)
            cli_say("%s", checks->items[i].text);
    if (configured(cli, a->table) == NULL && checks_health(checks) != CHECK_ERROR) /* it would not work */
        printf("%ssources:\n  - %s\n",
               check ? "\n"
                       "To adopt it, add this to the configuration:\n"
                       "\n"
                     : "",
               config_line(cli, a));
}

int run_adopt(struct cli *cli)
{
    struct checks checks = { .arena = &cli->arena };
    struct adopt_report report;
    struct adoption adoption = { .table = NULL };
    struct pr_error err;
    int code = cli_load_config(cli);

    if (code == EXIT_DONE)
        code = find_adoption(cli, &adoption);
    if (code != EXIT_DONE)
        return code;
    struct store_options options = { .url = cli->config->store };
    if (store_open(&options, &cli->store, &err) != PR_OK) {
        (void)cli_fault(&err);
        return EXIT_STORE;
    }
    if (adopt_check(&cli->store, &adoption, &cli->arena, &report, &err) != PR_OK)
        return cli_fault(&err);
    add_findings(&checks, &report);
    if (cli->json)
        print_json(cli, &adoption, &report, &checks);
    else
        print(cli, &adoption, &checks);
    if (checks_health(&checks) != CHECK_ERROR)
        return EXIT_DONE;
    return strcmp(adopt_report_error(&report)->about, "table") == 0 ? EXIT_NOT_FOUND : EXIT_UNHEALTHY;
}
