/* The commands: help comes from this table. */
#include <string.h>

#include "base/util.h"
#include "cli/cli.h"
#include "cli/top/top.h"
#include "runtime/config/config_suggest.h"

#define FLAGS_SEND                                                                                                     \
    (FLAG_BIT(TYPE) | FLAG_BIT(EVENT) | FLAG_BIT(STREAM) | FLAG_BIT(TO) | FLAG_BIT(DATA) | FLAG_BIT(FILE) |            \
     FLAG_BIT(DUE) | FLAG_BIT(EXPIRES) | FLAG_BIT(ID) | FLAG_BIT(BOX) | FLAG_BIT(HEADER) | FLAG_BIT(CONTENT_TYPE) |    \
     FLAG_BIT(SOURCE) | FLAG_BIT(SUBJECT) | FLAG_BIT(CORRELATION_ID))

#define ANY_NUMBER 100000 /* of arguments */

const struct command commands[] = {
    { "init", "", "create or upgrade the tables",
      "postrider init\n"
      "postrider init --store sqlite:shop.db\n"
      "postrider init --store postgres://shop@db.example/shop\n"
      "postrider init --grants --store postgres://shop@db.example/shop | psql shop\n"
      "postrider init --drop-slot             # when the server's log is no longer a source\n",
      FLAG_BIT(GRANTS) | FLAG_BIT(DROP_SLOT), 0, 0, run_init },
    { "run", "", "deliver messages until SIGTERM",
      "postrider run\n"
      "postrider run -c shop.yaml\n"
      "kill -HUP PID                          # reload the configuration\n",
      0, 0, 0, run_run },
    { "demo", "", "try it: sample traffic, failures and a crash",
      "postrider demo\n"
      "postrider demo --store sqlite:/tmp/demo.db\n",
      FLAG_BIT(RELAY), 0, 0, run_demo },
    { "send", "[-]", "store a message and print its id",
      "postrider send --type order.created --stream order-7 --data '{\"total\":5}'\n"
      "postrider send --type report --to audit --file report.pdf --due 5m\n"
      "date | postrider send --type tick -\n",
      FLAGS_SEND, 0, 1, run_send },
    { "status", "", "health, boxes, endpoints and instances on one screen",
      "postrider status\n"
      "postrider status --json | jq .health\n",
      0, 0, 0, run_status },
    { "top", "", "live view of rates, backlog, endpoints, failures and blocked streams",
      "postrider top\n"
      "postrider top --url http://127.0.0.1:8026    # a running daemon, through its API\n"
      "postrider top --url https://relay.example --token-file token --every 5s\n"
      "postrider top --once                         # one screen, also: postrider top | cat\n"
      "postrider top --json | jq .sent_per_second\n",
      FLAG_BIT(URL) | FLAG_BIT(TOKEN_FILE) | FLAG_BIT(EVERY) | FLAG_BIT(ONCE) | FLAG_BIT(BY), 0, 0, run_top },
    { "list", "", "list messages, oldest first",
      "postrider list\n"
      "postrider list --state retrying --endpoint billing\n"
      "postrider list --type 'order.*' --since 1h --json\n",
      FLAGS_FILTER | FLAGS_PAGE, 0, 0, run_list },
    { "show", "ID", "show everything about a message",
      "postrider show 0190163d-8694-739b-aea5-966c26f8ad91\n"
      "postrider show 0190163d-8694-739b-aea5-966c26f8ad91 --json\n",
      0, 1, 1, run_show },
    { "why", "ID", "explain a message: what happened, what it waits for, what comes next",
      "postrider why 0190163d-8694-739b-aea5-966c26f8ad91\n", 0, 1, 1, run_why },
    { "retry", "[ID...]", "try now with counters reset; also for parked messages",
      "postrider retry 0190163d-8694-739b-aea5-966c26f8ad91\n"
      "postrider retry --endpoint billing --reason timeout_exceeded --dry-run\n"
      "postrider retry --state parked --yes\n",
      FLAGS_FILTER | FLAGS_CHANGE, 0, ANY_NUMBER, run_change },
    { "release", "[STREAM | ID...]", "let followers overtake the failed head of their stream",
      "postrider release order-7\n"
      "postrider release 0190163d-8694-739b-aea5-966c26f8ad91\n",
      FLAGS_FILTER | FLAGS_CHANGE, 0, ANY_NUMBER, run_change },
    { "park", "[ID...]", "set messages aside until you retry them",
      "postrider park 0190163d-8694-739b-aea5-966c26f8ad91 --why 'asked the customer'\n", FLAGS_FILTER | FLAGS_CHANGE,
      0, ANY_NUMBER, run_change },
    { "discard", "[ID...]", "delete messages without delivering them",
      "postrider discard 0190163d-8694-739b-aea5-966c26f8ad91 --why 'sent by mistake'\n"
      "postrider discard --type 'test.*' --dry-run\n",
      FLAGS_FILTER | FLAGS_CHANGE, 0, ANY_NUMBER, run_change },
    { "dead list", "", "list dead letters",
      "postrider dead list\n"
      "postrider dead list --endpoint billing --since 24h --json\n",
      FLAGS_DEAD | FLAGS_PAGE, 0, 0, run_dead_list },
    { "dead show", "[ID]", "show everything about a dead letter",
      "postrider dead show 0190163d-8694-739b-aea5-966c26f8ad91\n"
      "postrider dead show --row 12   # for a damaged id\n",
      FLAG_BIT(ROW), 0, 1, run_dead_show },
    { "dead replay", "[ID...]", "return dead letters to their place in the box, with counters reset",
      "postrider dead replay 0190163d-8694-739b-aea5-966c26f8ad91\n"
      "postrider dead replay 0190163d-8694-739b-aea5-966c26f8ad91 --endpoint billing   # it died at other endpoints, "
      "too\n"
      "postrider dead replay --endpoint billing --error 'no route' --dry-run\n"
      "postrider dead replay --endpoint billing --since 24h --yes\n"
      "postrider dead replay --fingerprint 5f1c2ab09d3e7746 --canary 5 --rate 100/s --yes\n",
      FLAGS_DEAD | FLAGS_CHANGE | FLAG_BIT(RATE) | FLAG_BIT(CANARY) | FLAG_BIT(FOR), 0, ANY_NUMBER, run_change },
    { "dead discard", "[ID...]", "delete dead letters permanently",
      "postrider dead discard 0190163d-8694-739b-aea5-966c26f8ad91\n"
      "postrider dead discard --until 30d --yes\n"
      "postrider dead discard --row 12 --yes   # for a damaged id\n",
      FLAGS_DEAD | FLAGS_CHANGE, 0, ANY_NUMBER, run_change },
    { "dead add", "ID...", "move a message to the dead letters by hand",
      "postrider dead add 0190163d-8694-739b-aea5-966c26f8ad91 --why 'wrong amount'\n",
      FLAG_BIT(WHY) | FLAG_BIT(BY) | FLAG_BIT(DRY_RUN) | FLAG_BIT(REASON) | FLAG_BIT(ENDPOINT), 1, ANY_NUMBER,
      run_change },
    { "dead groups", "", "group dead letters by cause: ten thousand failures as three problems",
      "postrider dead groups\n"
      "postrider dead groups --endpoint billing --since 24h --json\n"
      "postrider dead list --fingerprint 5f1c2ab09d3e7746      # one group\n",
      (FLAGS_FILTER & ~(FLAG_BIT(STATE) | FLAG_BIT(CORRELATION_ID))) | FLAG_BIT(LIMIT), 0, 0, run_dead_groups },
    { "dead edit", "[ID]", "correct a dead letter and send it; the original is kept",
      "postrider dead edit 0190163d-8694-739b-aea5-966c26f8ad91 --data '{\"amount\":5}'\n"
      "postrider dead edit 0190163d-8694-739b-aea5-966c26f8ad91 --header tenant=7 --to billing2 --why 'moved'\n",
      FLAG_BIT(DATA) | FLAG_BIT(FILE) | FLAG_BIT(HEADER) | FLAG_BIT(TO) | FLAG_BIT(ENDPOINT) | FLAG_BIT(WHY) |
          FLAG_BIT(BY) | FLAG_BIT(DRY_RUN) | FLAG_BIT(ROW),
      0, 1, run_dead_edit },
    { "dead note", "[ID] TEXT", "add a note to a dead letter",
      "postrider dead note 0190163d-8694-739b-aea5-966c26f8ad91 'asked the customer'\n"
      "postrider dead note 0190163d-8694-739b-aea5-966c26f8ad91 'asked them' --endpoint billing   # it died at others, "
      "too\n",
      FLAG_BIT(ENDPOINT) | FLAG_BIT(BY) | FLAG_BIT(ROW), 1, 2, run_dead_note },
    { "dead export", "", "export dead letters as JSON lines, byte for byte",
      "postrider dead export > dead.jsonl\n"
      "postrider dead export --endpoint billing --until 30d > old.jsonl\n",
      FLAGS_DEAD, 0, 0, run_dead_export },
    { "dead import", "FILE", "import an export; skips dead letters that already exist",
      "postrider dead import dead.jsonl\n"
      "postrider dead import dead.jsonl --dry-run\n",
      FLAG_BIT(WHY) | FLAG_BIT(BY) | FLAG_BIT(DRY_RUN), 1, 1, run_dead_import },
    { "streams", "", "list streams whose head failed: since when, why, and how many wait",
      "postrider streams --blocked\n"
      "postrider streams --endpoint billing --json\n",
      FLAG_BIT(BLOCKED) | FLAG_BIT(BOX) | FLAG_BIT(ENDPOINT) | FLAG_BIT(STREAM) | FLAGS_PAGE, 0, 0, run_streams },
    { "instances", "", "list the running instances: lanes, leases, in flight, versions",
      "postrider instances\n"
      "postrider instances --json\n",
      0, 0, 0, run_instances },
    { "audit", "", "list what operators did, latest first",
      "postrider audit\n"
      "postrider audit --since 24h --json\n",
      FLAG_BIT(SINCE) | FLAG_BIT(UNTIL) | FLAGS_PAGE, 0, 0, run_audit },
    { "events list", "", "list the event store: one stream by version, or all events in one order",
      "postrider events\n"
      "postrider events list --stream order-7\n"
      "postrider events list --after 1200 --limit 1000 --json     # all behind place 1200\n",
      FLAG_BIT(STREAM) | FLAGS_PAGE, 0, 0, run_events_list },
    { "events show", "STREAM VERSION", "show one event with its payload",
      "postrider events show order-7 3\n"
      "postrider events show order-7 3 --json\n",
      0, 2, 2, run_events_show },
    { "events tail", "", "print events as they are stored, until you stop it",
      "postrider events tail\n"
      "postrider events tail --after 0 --json          # from the first one on\n"
      "postrider events tail --stream order-7\n",
      FLAG_BIT(STREAM) | FLAG_BIT(AFTER), 0, 0, run_events_tail },
    { "events", "", "the same as events list", "postrider events\n", FLAG_BIT(STREAM) | FLAGS_PAGE, 0, 0,
      run_events_list },
    { "endpoints list", "", "list endpoints: state, sent and failed messages",
      "postrider endpoints\n"
      "postrider endpoints --for 5s           # measure rates for 5 seconds\n"
      "postrider endpoints list --json\n",
      FLAG_BIT(FOR), 0, 0, run_endpoints },
    { "endpoints test", "ENDPOINT", "send a test message directly, without storing it",
      "postrider endpoints test billing\n"
      "postrider endpoints test billing --json\n",
      FLAG_BIT(WHY) | FLAG_BIT(BY), 1, 1, run_endpoints_test },
    { "endpoints", "", "the same as endpoints list", "postrider endpoints\n", FLAG_BIT(FOR), 0, 0, run_endpoints },
    { "pause", "ENDPOINT", "stop sending to an endpoint; no failures are counted meanwhile",
      "postrider pause billing --for 5m --why 'they migrate'\n"
      "postrider pause billing               # until resumed\n",
      FLAG_BIT(FOR) | FLAG_BIT(WHY) | FLAG_BIT(BY), 1, 1, run_pause },
    { "resume", "ENDPOINT", "start sending to an endpoint again, now", "postrider resume billing\n",
      FLAG_BIT(WHY) | FLAG_BIT(BY), 1, 1, run_pause },
    { "policy check", "[FILE]", "find rules that never match, are never reached or never end",
      "postrider policy check\n"
      "postrider policy check new.yaml\n",
      0, 0, 1, run_policy_check },
    { "policy explain", "", "show which rule decides about a failure, and what follows",
      "postrider policy explain --endpoint billing --reason timeout_exceeded\n"
      "postrider policy explain --endpoint billing --reason transport_unavailable --unsent\n"
      "postrider policy explain --endpoint billing --reason rejected --error 'no such customer' --failures 3\n",
      FLAG_BIT(ENDPOINT) | FLAG_BIT(REASON) | FLAG_BIT(ERROR) | FLAG_BIT(FAILURES) | FLAG_BIT(CODE) | FLAG_BIT(TYPE) |
          FLAG_BIT(STREAM) | FLAG_BIT(SIZE) | FLAG_BIT(AGE) | FLAG_BIT(RETRY_AFTER) | FLAG_BIT(UNSENT),
      0, 0, run_policy_explain },
    { "policy replay", "", "show what a policy would have done to past failures",
      "postrider policy replay --since 24h -c new.yaml\n"
      "postrider policy replay --since 1h --endpoint billing -c new.yaml --json\n",
      FLAGS_FILTER, 0, 0, run_policy_replay },
    { "config check", "[FILE]", "validate the configuration",
      "postrider config check\n"
      "postrider config check shop.yaml\n",
      0, 0, 1, run_config_check },
    { "config show", "[FILE]", "show the effective configuration and the origin of each value",
      "postrider config show\n"
      "POSTRIDER_LIMITS__PAYLOAD=2MiB postrider config show\n",
      0, 0, 1, run_config_show },
    { "config init", "[FILE]", "write a commented configuration to start from",
      "postrider config init\n"
      "postrider config init -               # print it\n",
      FLAG_BIT(FORCE), 0, 1, run_config_init },
    { "config reference", "", "print every option as Markdown", "postrider config reference > doc/configuration.md\n",
      0, 0, 0, run_config_reference },
    { "adopt", "", "adopt another product's outbox table: check it, print the configuration",
      "postrider adopt --preset debezium --table public.outboxevent --check\n"
      "postrider adopt --preset masstransit --table public.OutboxMessage >> postrider.yaml\n"
      "postrider adopt --table app.events --check      # a source in the configuration\n",
      FLAG_BIT(PRESET) | FLAG_BIT(TABLE) | FLAG_BIT(CHECK) | FLAG_BIT(BOX), 0, 0, run_adopt },
    { "doctor", "", "check the installation: store, schema, files, disk, configuration", "postrider doctor\n", 0, 0, 0,
      run_doctor },
    { "bench", "", "measure the speed here, in a temporary store",
      "postrider bench\n"
      "postrider bench --count 100000 --json\n",
      FLAG_BIT(COUNT), 0, 0, run_bench },
};
const size_t command_count = ARRAY_LENGTH(commands);

/* What some have to tell beside their options. */
static const struct {
    const char *command, *text;
} manuals[] = { { "top", top_help } };

/* The first word of a name of two, else all of it. */
static pr_slice first_word(const struct command *command)
{
    return (pr_slice){ command->name, strcspn(command->name, " ") };
}

const struct command *command_find(const char *const *words, int count, int *ret_words)
{
    *ret_words = 0;
    for (size_t i = 0; i < command_count && count > 0; i++) {
        pr_slice first = first_word(&commands[i]);
        const char *second = commands[i].name + first.size;

        if (!slice_eq_cstr(first, words[0]))
            continue;
        *ret_words = 1;
        if (*second == '\0')
            return &commands[i];
        if (count > 1 && strcmp(second + 1, words[1]) == 0) {
            *ret_words = 2;
            return &commands[i];
        }
    }
    return NULL;
}

void command_suggest(const char *const *words, int count, int known)
{
    struct suggestion near = { 0 };
    const char *word = known < count ? words[known] : NULL;

    for (size_t i = 0; i < command_count && word != NULL; i++) {
        pr_slice first = first_word(&commands[i]);

        if (known == 0)
            suggest_try(&near, slice_from(word), commands[i].name);
        else if (slice_eq_cstr(first, words[0]))
            suggest_try(&near, slice_from(word), commands[i].name + first.size + 1);
        /* "daed list": the first word alone is near */
        if (known == 0 && first.size < strlen(commands[i].name) && suggest_distance(slice_from(word), first) <= 1)
            near = (struct suggestion){ commands[i].name, 0 };
    }
    if (word == NULL)
        cli_say("%s: missing subcommand; one of:", words[0]);
    else if (near.best == NULL)
        cli_say("unknown command \"%s%s%s\"", known > 0 ? words[0] : "", known > 0 ? " " : "", word);
    else
        cli_say("unknown command \"%s%s%s\"; did you mean %s%s%s?", known > 0 ? words[0] : "", known > 0 ? " " : "",
                word, known > 0 ? words[0] : "", known > 0 ? " " : "", near.best);
    for (size_t i = 0; i < command_count && known > 0 && near.best == NULL; i++)
        if (slice_eq_cstr(first_word(&commands[i]), words[0]))
            fprintf(stderr, "  postrider %s%s%s\n", commands[i].name, commands[i].arguments[0] != '\0' ? " " : "",
                    commands[i].arguments);
}

const char *command_second_word(const struct command *command, const char *word)
{
    struct suggestion near = { 0 };

    for (size_t i = 0; i < command_count; i++) {
        pr_slice first = first_word(&commands[i]);

        if (slice_eq_cstr(first, command->name) && commands[i].name[first.size] != '\0')
            suggest_try(&near, slice_from(word), commands[i].name + first.size + 1);
    }
    return near.best;
}

/* Where an option of one command has a narrower meaning than its common text in flag.h. */
static const struct {
    const char *command;
    enum flag flag;
    const char *doc;
} own_meanings[] = {
    { "send", FLAG_TYPE, "message type, for example order.created" },
    { "send", FLAG_CORRELATION_ID, "correlation id of the message" },
    { "send", FLAG_BOX, "store the message in this box (default outbox)" },
    { "dead add", FLAG_REASON, "reason to record" },
    { "dead replay", FLAG_FOR, "wait this long for the canaries" },
    { "endpoints", FLAG_FOR, "measure the rates for this long" },
    { "endpoints list", FLAG_FOR, "measure the rates for this long" },
    { "policy explain", FLAG_ENDPOINT, "the endpoint at which the message failed" },
    { "policy explain", FLAG_REASON, "reason of the failure, for example timeout_exceeded" },
    { "policy explain", FLAG_ERROR, "text of the failure" },
    { "policy explain", FLAG_TYPE, "message type" },
    { "dead list", FLAG_AFTER, "continue after this row (see the end of the last page)" },
    { "dead export", FLAG_AFTER, "continue after this row" },
    { "streams", FLAG_AFTER, "continue after this stream (see the end of the last page)" },
    { "audit", FLAG_AFTER, "continue after this entry (see the end of the last page)" },
    { "events", FLAG_AFTER, "continue after this place; with --stream: after this version" },
    { "events list", FLAG_AFTER, "continue after this place; with --stream: after this version" },
    { "events tail", FLAG_AFTER, "begin after this place; with --stream: after this version (default: now)" },
    { "adopt", FLAG_BOX, "move its rows into this box" },
};

static const char *flag_meaning(const char *command, int flag)
{
    for (size_t i = 0; i < ARRAY_LENGTH(own_meanings); i++)
        if ((int)own_meanings[i].flag == flag && strcmp(own_meanings[i].command, command) == 0)
            return own_meanings[i].doc;
    return flag_infos[flag].doc;
}

static void help_flags(const char *command, uint64_t flags, FILE *out)
{
    for (int i = 0; i < FLAG_TOTAL; i++) {
        const struct flag_info *f = &flag_infos[i];
        char left[64];

        if ((flags >> i & 1) == 0 || f->doc == NULL)
            continue;
        (void)snprintf(left, sizeof(left), "%c%c%s --%s %s", f->letter != 0 ? '-' : ' ',
                       f->letter != 0 ? f->letter : ' ', f->letter != 0 ? "," : " ", f->word,
                       f->value != NULL ? f->value : "");
        fprintf(out, "  %-26s %s\n", left, flag_meaning(command, i));
    }
}

static void help_line(const struct command *command, FILE *out)
{
    char left[64];

    (void)snprintf(left, sizeof(left), "%s %s", command->name, command->arguments);
    fprintf(out, "  %-26s %s\n", left, command->summary);
}

void command_help_group(const char *first, FILE *out)
{
    fprintf(out, "Examples:\n");
    for (size_t i = 0; i < command_count; i++)
        if (slice_eq_cstr(first_word(&commands[i]), first))
            fprintf(out, "  %.*s\n", (int)strcspn(commands[i].examples, "\n"), commands[i].examples);
    fprintf(out, "\nCommands:\n");
    for (size_t i = 0; i < command_count; i++)
        if (slice_eq_cstr(first_word(&commands[i]), first))
            help_line(&commands[i], out);
    fprintf(out, "\n"
                 "Each command has its own --help.\n");
}

void command_help(const struct command *command, FILE *out)
{
    for (const char *line = command->examples; *line != '\0';) {
        size_t size = strcspn(line, "\n");

        fprintf(out, "%s%.*s\n", line == command->examples ? "Examples:\n  " : "  ", (int)size, line);
        line += size + 1;
    }
    fprintf(out, "\npostrider %s%s%s: %s\n", command->name, command->arguments[0] != '\0' ? " " : "",
            command->arguments, command->summary);
    if ((command->flags & FLAGS_FOR_PEOPLE) != 0) {
        fprintf(out, "\n");
        help_flags(command->name, command->flags, out);
    }
    fprintf(out, "\n");
    help_flags(command->name, FLAGS_ALWAYS, out);
    for (size_t i = 0; i < ARRAY_LENGTH(manuals); i++)
        if (strcmp(manuals[i].command, command->name) == 0)
            fprintf(out, "\n%s", manuals[i].text);
}

void command_help_all(FILE *out)
{
    fprintf(out, "Postrider delivers messages reliably from an outbox table.\n"
                 "\n"
                 "Examples:\n"
                 "  postrider demo                                    try it\n"
                 "  postrider init                                    create the tables, in ./postrider.db\n"
                 "  postrider config init                             write a configuration to start from\n"
                 "  postrider send --type hello --data '{\"n\":1}'      store a message\n"
                 "  postrider run                                     deliver messages\n"
                 "  postrider why ID                                  explain what happened to a message\n"
                 "\n"
                 "Commands:\n");
    for (size_t i = 0; i < command_count; i++)
        help_line(&commands[i], out);
    fprintf(out, "\n"
                 "All commands:\n");
    help_flags("", FLAGS_ALWAYS, out);
    fprintf(
        out,
        "\nExit codes: 0 done, 1 failed, 2 usage error, 3 invalid configuration, 4 not found, 5 store unreachable,\n"
        "6 some items failed, 7 unhealthy.\n");
}
