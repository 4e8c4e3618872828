#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/output/output.h"

#define CLI_ARENA_BLOCK 65536

static bool is_set(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0';
}

static bool wants_color(void)
{
    const char *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && !is_set("NO_COLOR") && (term == NULL || strcmp(term, "dumb") != 0);
}

/* The positions of the command's words: flags may come before them. */
static int words_of(const char *const *argv, int argc, const char **words)
{
    int count = 0;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0)
            break;
        if (argv[i][0] == '-' && argv[i][1] != '\0')
            i += flag_takes_next(argv[i]);
        else
            words[count++] = argv[i];
    }
    return count;
}

static bool asks_for(const char *const *argv, int argc, const char *a, const char *b)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], a) == 0 || strcmp(argv[i], b) == 0)
            return true;
    return false;
}

static int no_command(const char *const *argv, int argc, const char *const *words, int count, int known)
{
    if (count == 0 && asks_for(argv, argc, "--version", "-V")) {
        printf("postrider %s\n", pr_version());
        return EXIT_DONE;
    }
    if (count == 0 && asks_for(argv, argc, "--help", "-h")) {
        command_help_all(stdout);
        return EXIT_DONE;
    }
    if (count == 0) {
        command_help_all(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(words[0], "help") == 0) {
        const struct command *command = command_find(words + 1, count - 1, &known);

        if (command != NULL)
            command_help(command, stdout);
        else if (known == 1)
            command_help_group(words[1], stdout);
        else
            command_help_all(stdout);
        return EXIT_DONE;
    }
    if (count == 1 && known == 1 && asks_for(argv, argc, "--help", "-h")) {
        command_help_group(words[0], stdout);
        return EXIT_DONE;
    }
    command_suggest(words, count, known);
    fprintf(stderr, "Help: postrider %s%s--help\n", known > 0 ? words[0] : "", known > 0 ? " " : "");
    return EXIT_USAGE;
}

/* Names the first argument that is missing: of "NAME [ID]" it is NAME, also of "[ID] NAME". */
static int missing_argument(struct cli *cli)
{
    const char *word = cli->command->arguments;
    int given = cli->arg_count;
    while (*word == '[' || given > 0) {
        const char *end = word + strcspn(word, " ");
        if (*end == '\0')
            break;
        given -= *word != '[';
        word = end + 1;
    }
    return cli_usage(cli, "missing argument %.*s", (int)strcspn(word, " "), word);
}

static int run_command(struct cli *cli, const char *const *argv, int argc, int words)
{
    if (asks_for(argv, argc, "--help", "-h")) {
        command_help(cli->command, stdout);
        return EXIT_DONE;
    }
    if (!flags_parse(argv + 1, argc - 1, FLAGS_ALWAYS | cli->command->flags, &cli->flags, cli->args, &cli->arg_count)) {
        fprintf(stderr, "Help: postrider %s --help\n", cli->command->name);
        return EXIT_USAGE;
    }
    cli->args += words;
    cli->arg_count -= words;
    cli->json = flag_given(&cli->flags, FLAG_JSON);
    cli->color = wants_color() && !cli->json;
    if (cli->arg_count < cli->command->args_min)
        return missing_argument(cli);
    if (cli->arg_count > cli->command->args_max && cli->command->args_max == 0) {
        const char *meant = command_second_word(cli->command, cli->args[0]);

        if (meant != NULL)
            return cli_usage(cli, "unknown command \"%s %s\"; did you mean %s %s?", cli->command->name, cli->args[0],
                             cli->command->name, meant);
    }
    if (cli->arg_count > cli->command->args_max)
        return cli_usage(cli, "%s: unexpected argument \"%s\"", cli->command->name, cli->args[cli->command->args_max]);
    return cli->command->run(cli);
}

/* If the process was started without standard input, output or error, a file or socket would get that number, and
 * receive what is printed.  /dev/null takes the place; open() uses the lowest free number. */
static bool fill_standard_descriptors(void)
{
    int fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO)
        fd = open("/dev/null", O_RDWR);
    return fd > STDERR_FILENO && close(fd) == 0;
}

int main(int argc, char **argv)
{
    if (!fill_standard_descriptors())
        return EXIT_FAILED;
    const char *const *arguments = (const char *const *)argv;
    const char **words = calloc((size_t)argc + 1, sizeof(*words)), **args = calloc((size_t)argc + 1, sizeof(*args));
    struct cli cli = { 0 };
    int used = 0, code = EXIT_FAILED;

    if (words != NULL && args != NULL) {
        int count = words_of(arguments, argc, words);

        (void)signal(SIGPIPE, SIG_IGN);
        output_open();
        arena_init(&cli.arena, CLI_ARENA_BLOCK);
        cli.args = args;
        cli.command = command_find(words, count, &used);
        code = cli.command != NULL ? run_command(&cli, arguments, argc, used)
                                   : no_command(arguments, argc, words, count, used);
        store_close(&cli.store);
        config_free(cli.config);
        arena_fini(&cli.arena);
    }
    free(words);
    free(args);
    return cli_finish(code);
}
