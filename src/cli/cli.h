/* cli.h - the program: what every command has in hand.
 *
 * A command is a line in the table of command.c and a function that gets a struct cli.  Data
 * goes to stdout, words go to stderr.  People get tables, programs get --json: one object per
 * line. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdio.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/slice.h"
#include "cli/flag.h"
#include "ops/endpoint.h"
#include "runtime/config/config.h"
#include "store/store.h"

enum exit_code {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_CONFIG = 3,
    EXIT_NOT_FOUND = 4,
    EXIT_STORE = 5, /* unreachable, or its tables are not ours */
    EXIT_SOME_FAILED = 6,
    EXIT_UNHEALTHY = 7,
};

#define CONFIG_FILE_USUAL "postrider.yaml" /* read without -c when it is there */
#define OUTPUT_MAX (SIZE_MAX / 4)          /* of one object: a payload, and what escapes make of it */

struct cli {
    const struct command *command;
    struct flags flags;
    const char **args; /* what is left of the command line */
    int arg_count;

    struct config *config;
    bool config_from_file;
    struct config_routing routing; /* of the configuration */
    struct store store;            /* zeroed until cli_open_store() */
    struct arena arena;            /* for the whole run */

    bool json;
    bool color; /* on stdout */
};

struct command {
    const char *name;      /* "dead list" */
    const char *arguments; /* "ID..." */
    const char *summary;
    const char *examples; /* lines, each with its newline */
    uint64_t flags;       /* FLAG_BIT()s beside those that every command takes */
    int args_min, args_max;
    int (*run)(struct cli *cli);
};

/* ---- The table (command.c) ---- */

extern const struct command commands[];
extern const size_t command_count;

/* The command that the first words name, and how many words that took.  NULL: none, and
 * *ret_words is 0, or 1 when the first word begins a command of two ("dead"). */
const struct command *command_find(const char *const *words, int count, int *ret_words);
/* What was meant by a word that is none; says so on stderr. */
void command_suggest(const char *const *words, int count, int known);
/* The word that a command of two would have had there, or NULL: "tset" in "endpoints tset". */
const char *command_second_word(const struct command *command, const char *word);
void command_help(const struct command *command, FILE *out);
/* All that begin with this word. */
void command_help_group(const char *first, FILE *out);
void command_help_all(FILE *out);

/* ---- What commands use (cli.c) ---- */

/* Words for the person: on stderr, with the program's name before them. */
void cli_say(const char *format, ...) PR_PRINTF(1, 2);
/* A usage fault: says it and where help is; returns EXIT_USAGE. */
int cli_usage(const struct cli *cli, const char *format, ...) PR_PRINTF(2, 3);
/* Says the text of a fault; returns the exit code for it. */
int cli_fault(const struct pr_error *error);

/* The configuration: -c, or postrider.yaml here, or defaults; then --store.  EXIT_DONE or says why not. */
int cli_load_config(struct cli *cli);
/* ... and the store, with its tables checked. */
int cli_open_store(struct cli *cli);
int cli_store_fault(const struct cli *cli, const struct pr_error *err); /* says it; the exit code */
/* For commands that bring their own configuration: POSTRIDER_STORE must not lead them to
 * somebody's real messages. */
void cli_forget_environment(void);
/* The path of an SQLite store ("" for others), in the arena; asks nobody. */
const char *cli_store_path(struct cli *cli);
/* What postrider init --grants prints. */
int cli_print_grants(struct cli *cli);

/* --box, --state, ... as a filter.  EXIT_DONE, or says what is wrong with them. */
int cli_filter(struct cli *cli, struct filter *ret_filter);
/* Opens the store, too; what is wrong with the command line is said first. */
int cli_open_filtered(struct cli *cli, struct filter *ret_filter);
/* EXIT_DONE, or says that the store has no such box. */
int cli_box_must_be(struct cli *cli, pr_slice box);
/* Opens the store and asks, with the filter that was given on the command line. */
int cli_ask(struct cli *cli, struct query *query, struct query_reply *ret);
/* --flag as a number from 0 to max; *ret is untouched when it was not given. */
int cli_number(struct cli *cli, enum flag flag, uint64_t max, uint64_t *ret);
/* Arguments as ids, in the arena.  EXIT_DONE, or says which one is none. */
int cli_ids(struct cli *cli, int first, pr_id **ret_ids, size_t *ret_count);

/* "5m" ago, "2024-01-01T00:00:00Z": a time; sign -1: durations go back, +1: forward. */
bool cli_time(struct cli *cli, const char *text, int sign, int64_t *ret_us);

/* One line (a JSON object) to stdout. */
void cli_print(const struct buf *line);
/* One object of --json. */
struct json_line {
    struct buf text;
    struct json_writer w;
};
struct json_writer *line_begin(struct json_line *line);
void line_end(struct json_line *line);
/* Did everything reach stdout?  code, or EXIT_FAILED. */
int cli_finish(int code);

/* Who says so: for the audit. */
pr_slice cli_user(struct cli *cli);

/* ---- The commands ---- */

#define COMMAND(name, arguments, summary, examples, flags, args_min, args_max, run) int run(struct cli *cli);
#include "cli/command_list.h"
#undef COMMAND

#endif
