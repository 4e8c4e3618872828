/* cli.h - the program: what every command uses.
 *
 * A command is a line in the table of command.c and a function that gets a struct cli.  Data goes to stdout, messages
 * go to stderr.  People get tables, programs get --json: one object per line. */
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
    EXIT_STORE = 5, /* unreachable, or its tables are missing or of another version */
    EXIT_SOME_FAILED = 6,
    EXIT_UNHEALTHY = 7,
};

#define CONFIG_FILE_USUAL "postrider.yaml" /* read without -c if it exists */
#define OUTPUT_MAX (SIZE_MAX / 4)          /* bytes of one object: an escaped payload */

struct cli {
    const struct command *command;
    struct flags flags;
    const char **args; /* the rest of the command line */
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
    uint64_t flags;       /* FLAG_BIT()s in addition to those of every command */
    int args_min, args_max;
    int (*run)(struct cli *cli);
};

/* ---- The table (command.c) ---- */

extern const struct command commands[];
extern const size_t command_count;

/* The command that the first words name, and how many words that took.  NULL: none, and *ret_words is 0, or 1 when the
 * first word begins a command of two words ("dead"). */
const struct command *command_find(const char *const *words, int count, int *ret_words);
/* Suggests a command for an unknown word, on stderr. */
void command_suggest(const char *const *words, int count, int known);
/* The second word of a command with two words, or NULL: "tset" in "endpoints tset". */
const char *command_second_word(const struct command *command, const char *word);
void command_help(const struct command *command, FILE *out);
/* Help for all commands that begin with this word. */
void command_help_group(const char *first, FILE *out);
void command_help_all(FILE *out);

/* ---- What commands use (cli.c) ---- */

/* A message for the person: on stderr, with the program's name in front. */
void cli_say(const char *format, ...) PR_PRINTF(1, 2);
/* A usage error: prints it, and where help is; returns EXIT_USAGE. */
int cli_usage(const struct cli *cli, const char *format, ...) PR_PRINTF(2, 3);
/* Prints the text of a fault; returns its exit code. */
int cli_fault(const struct pr_error *error);

/* The configuration: -c, or postrider.yaml in this directory, or defaults; then --store.  EXIT_DONE or prints the
 * error. */
int cli_load_config(struct cli *cli);
/* ... and the store, with its tables checked. */
int cli_open_store(struct cli *cli);
int cli_store_fault(const struct cli *cli, const struct pr_error *err); /* prints it; returns the exit code */
/* For commands with a configuration of their own: POSTRIDER_STORE must not direct them to real messages. */
void cli_forget_environment(void);
/* The path of an SQLite store ("" for others), in the arena; needs no connection. */
const char *cli_store_path(struct cli *cli);
/* What postrider init --grants prints. */
int cli_print_grants(struct cli *cli);

/* --box, --state, ... as a filter.  EXIT_DONE, or prints what is wrong with them. */
int cli_filter(struct cli *cli, struct filter *ret_filter);
/* Also opens the store; errors of the command line are reported first. */
int cli_open_filtered(struct cli *cli, struct filter *ret_filter);
/* EXIT_DONE, or prints that the store has no such box. */
int cli_box_must_be(struct cli *cli, pr_slice box);
/* Opens the store and asks, with the filter of the command line. */
int cli_ask(struct cli *cli, struct query *query, struct query_reply *ret);
/* --flag as a number from 0 to max; *ret is unchanged if it was not given. */
int cli_number(struct cli *cli, enum flag flag, uint64_t max, uint64_t *ret);
/* Arguments as ids, in the arena.  EXIT_DONE, or prints which one is invalid. */
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
/* Blocks SIGTERM, SIGINT and SIGHUP; they are read from this descriptor.  -1: errno says why. */
int cli_signals(void);
/* Was everything written to stdout?  Returns code, or EXIT_FAILED. */
int cli_finish(int code);

/* The author for the audit. */
pr_slice cli_user(struct cli *cli);

/* ---- The commands ---- */

#define COMMAND(name, arguments, summary, examples, flags, args_min, args_max, run) int run(struct cli *cli);
#include "cli/command_list.h"
#undef COMMAND

#endif
