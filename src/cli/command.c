/* The commands: help comes from this table. */
#include <string.h>

#include "base/util.h"
#include "cli/cli.h"
#include "cli/top/top.h"
#include "runtime/config/config_suggest.h"

#define FLAGS_SEND                                                                                                     \
    (FLAG_BIT(TYPE) | FLAG_BIT(EVENT) | FLAG_BIT(EXPECT_VERSION) | FLAG_BIT(STREAM) | FLAG_BIT(TO) | FLAG_BIT(DATA) |  \
     FLAG_BIT(FILE) | FLAG_BIT(DUE) | FLAG_BIT(EXPIRES) | FLAG_BIT(ID) | FLAG_BIT(BOX) | FLAG_BIT(HEADER) |            \
     FLAG_BIT(CONTENT_TYPE) | FLAG_BIT(SOURCE) | FLAG_BIT(SUBJECT) | FLAG_BIT(CORRELATION_ID))

#define ANY_NUMBER 100000 /* an unlimited number of arguments */

const struct command commands[] = {
#define COMMAND(...) { __VA_ARGS__ },
#include "cli/command_list.h"
#undef COMMAND
};
const size_t command_count = ARRAY_LENGTH(commands);

/* Help texts in addition to the options. */
static const struct {
    const char *command, *text;
} manuals[] = { { "top", top_help } };

/* The first word of a name with two words, otherwise the whole name. */
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

static void print_line(const struct command *command)
{
    fprintf(stderr, "  postrider %s%s%s\n", command->name, command->arguments[0] != '\0' ? " " : "",
            command->arguments);
}

static bool is_second_word(const struct command *command, const char *word)
{
    const char *second = command->name + first_word(command).size;

    return *second == ' ' && strcmp(second + 1, word) == 0;
}

/* "replay" alone: the commands of this name that need another word before it. */
static bool suggest_whole(const char *word)
{
    bool found = false;

    for (size_t i = 0; i < command_count; i++) {
        if (!is_second_word(&commands[i], word))
            continue;
        if (!found)
            cli_say("unknown command \"%s\"; did you mean:", word);
        found = true;
        print_line(&commands[i]);
    }
    return found;
}

void command_suggest(const char *const *words, int count, int known)
{
    struct suggestion near = { 0 };
    const char *word = known < count ? words[known] : NULL;

    if (known == 0 && word != NULL && suggest_whole(word))
        return;

    for (size_t i = 0; i < command_count && word != NULL; i++) {
        pr_slice first = first_word(&commands[i]);

        if (known == 0)
            suggest_try(&near, slice_from(word), commands[i].name);
        else if (slice_eq_cstr(first, words[0]))
            suggest_try(&near, slice_from(word), commands[i].name + first.size + 1);
        /* "daed list": only the first word is similar */
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
            print_line(&commands[i]);
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

/* Options that have a narrower meaning in one command than their common text in flag.h. */
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
    { "events tail", FLAG_AFTER, "start after this place; with --stream: after this version (default: now)" },
    { "events subscriptions", FLAG_AFTER, "with reset: continue after this place; 0: from the first event" },
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

static void help_commands(const char *first, FILE *out)
{
    fprintf(out, "\nCommands:\n");
    for (size_t i = 0; i < command_count; i++)
        if (slice_eq_cstr(first_word(&commands[i]), first))
            help_line(&commands[i], out);
    fprintf(out, "\nEach command has its own --help.\n");
}

/* Is it both a command and the first word of others, like events? */
static bool has_others(const struct command *command)
{
    for (size_t i = 0; i < command_count; i++)
        if (&commands[i] != command && slice_eq_cstr(first_word(&commands[i]), command->name))
            return true;
    return false;
}

void command_help_group(const char *first, FILE *out)
{
    fprintf(out, "Examples:\n");
    for (size_t i = 0; i < command_count; i++)
        if (slice_eq_cstr(first_word(&commands[i]), first))
            fprintf(out, "  %.*s\n", (int)strcspn(commands[i].examples, "\n"), commands[i].examples);
    help_commands(first, out);
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
    if (has_others(command))
        help_commands(command->name, out);
    for (size_t i = 0; i < ARRAY_LENGTH(manuals); i++)
        if (strcmp(manuals[i].command, command->name) == 0)
            fprintf(out, "\n%s", manuals[i].text);
}

void command_help_all(FILE *out)
{
    fprintf(out, "Postrider delivers messages that must not be lost: outbox, inbox, events, schedules, flows.\n"
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
