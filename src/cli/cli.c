#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/units.h"
#include "base/url.h"
#include "base/util.h"
#include "cli/output/output.h"
#include "core/fingerprint.h"
#include "runtime/config/config_suggest.h"

void cli_say(const char *format, ...)
{
    va_list args;

    (void)fflush(stdout); /* so that data and messages appear in order */
    fputs("postrider: ", stderr);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

int cli_usage(const struct cli *cli, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    cli_say("%s", text);
    fprintf(stderr, "Help: postrider %s --help\n", cli->command->name);
    return EXIT_USAGE;
}

int cli_fault(const struct pr_error *error)
{
    cli_say("%s", error->text);
    switch (error->code) {
    case PR_EINVAL: return EXIT_USAGE;
    case PR_ECONFIG: return EXIT_CONFIG;
    case PR_ENOTFOUND: return EXIT_NOT_FOUND;
    case PR_ESTORE:
    case PR_EBUSY:
    case PR_EFULL:
    case PR_ECORRUPT:
    case PR_ESCHEMA: return EXIT_STORE;
    default: return EXIT_FAILED;
    }
}

int cli_load_config(struct cli *cli)
{
    struct pr_error err;
    const char *path = cli->flags.values[FLAG_CONFIG], *store = cli->flags.values[FLAG_STORE];
    int r;

    if (cli->config != NULL)
        return EXIT_DONE;
    if (store != NULL && url_has_password(store)) {
        cli_say("--store: other users of this machine can see a password on the command line. Put the URL into "
                "POSTRIDER_STORE or the configuration (${file:secret}), or the password into PGPASSWORD or PGPASSFILE");
        return EXIT_USAGE;
    }
    if (path == NULL && access(CONFIG_FILE_USUAL, F_OK) == 0)
        path = CONFIG_FILE_USUAL;
    r = path != NULL ? config_load_file(path, &cli->config, &err) : config_default(&cli->config, &err);
    if (r == PR_OK && store != NULL) {
        r = config_set_store(cli->config, store, &err);
        if (r == PR_ECONFIG) {
            cli_say("--%s", err.text); /* "--store: ..." */
            return EXIT_USAGE;
        }
    }
    cli->config_from_file = path != NULL;
    if (r == PR_OK) {
        cli->routing = config_routing(cli->config);
        return EXIT_DONE;
    }
    (void)cli_fault(&err); /* reported as an error of the configuration, whatever its code */
    return EXIT_CONFIG;
}

int cli_store_fault(const struct cli *cli, const struct pr_error *err)
{
    (void)cli_fault(err);
    if (err->code != PR_EINVAL)
        return EXIT_STORE;
    return flag_given(&cli->flags, FLAG_STORE) ? EXIT_USAGE : EXIT_CONFIG; /* its URL is wrong */
}

int cli_open_store(struct cli *cli)
{
    struct pr_error err;
    int code = cli_load_config(cli);

    if (code != EXIT_DONE || cli->store.ops != NULL)
        return code;
    struct store_options options = { .url = cli->config->store, .payload_max = (size_t)cli->config->payload_max };

    if (store_open(&options, &cli->store, &err) == PR_OK && store_check(&cli->store, &err) == PR_OK)
        return EXIT_DONE;
    return cli_store_fault(cli, &err);
}

void cli_forget_environment(void)
{
    static const char prefix[] = "POSTRIDER_";

    for (char **entry = environ; *entry != NULL;) {
        char name[1024];

        (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(*entry, "="), *entry);
        if (strncmp(name, prefix, sizeof(prefix) - 1) == 0 && unsetenv(name) == 0)
            entry = environ; /* environ has moved */
        else
            entry++;
    }
}

const char *cli_store_path(struct cli *cli)
{
    pr_slice rest = slice_from(cli->config->store);

    if (!slice_starts_with(rest, PR_STR("sqlite:")))
        return "";
    rest = (pr_slice){ rest.data + 7, strcspn(rest.data + 7, "?") };
    if (slice_starts_with(rest, PR_STR("///")))
        rest = (pr_slice){ rest.data + 2, rest.size - 2 };
    const char *path = slice_dup(&cli->arena, rest).data;
    ASSERT(path != NULL);
    return strcmp(path, ":memory:") == 0 ? "" : path;
}

bool cli_time(struct cli *cli, const char *text, int sign, int64_t *ret_us)
{
    int64_t span;

    if (duration_parse(slice_from(text), &span) == PR_OK) {
        int64_t now = cli->store.ops != NULL ? store_time(&cli->store) : clock_wall_us(clock_system());

        *ret_us = sign < 0 ? time_sub(now, span) : time_add(now, span);
        return true;
    }
    return time_parse_rfc3339(slice_from(text), ret_us) == PR_OK;
}

/* ---- Filters ---- */

/* An unknown word: suggests a similar one, or lists all of them. */
static int usage_word(struct cli *cli, const char *flag, const char *word, const char *const *words, size_t count)
{
    struct suggestion near = { 0 };
    struct buf all;

    buf_init(&all, 1024);
    for (size_t i = 0; i < count; i++) {
        suggest_try(&near, slice_from(word), words[i]);
        buf_addf(&all, "%s%s", i > 0 ? ", " : "", words[i]);
    }
    int code = near.best != NULL ? cli_usage(cli, "--%s: unknown value \"%s\"; did you mean %s?", flag, word, near.best)
                                 : cli_usage(cli, "--%s: unknown value \"%s\"; use one of %.*s", flag, word,
                                             SLICE_ARGS(buf_slice(&all)));
    buf_fini(&all);
    return code;
}

static int filter_state(struct cli *cli, struct filter *filter)
{
    const char *word = cli->flags.values[FLAG_STATE];
    const char *words[STATE_GONE];

    filter->state = -1;
    for (int i = 0; i < STATE_GONE; i++) {
        words[i] = state_name((enum state)i);
        if (word != NULL && strcmp(words[i], word) == 0)
            filter->state = i;
    }
    return word == NULL || filter->state >= 0 ? EXIT_DONE : usage_word(cli, "state", word, words, STATE_GONE);
}

static int filter_reason(struct cli *cli, struct filter *filter)
{
#define X(number, name, text, class) text,
    static const char *const words[] = { REASONS(X) };
#undef X
    const char *word = cli->flags.values[FLAG_REASON];

    filter->reason = word != NULL ? reason_parse(slice_from(word)) : PR_REASON_NONE;
    if (word == NULL || filter->reason != PR_REASON_NONE)
        return EXIT_DONE;
    return usage_word(cli, "reason", word, words, ARRAY_LENGTH(words));
}

int cli_number(struct cli *cli, enum flag flag, uint64_t max, uint64_t *ret)
{
    const char *text = cli->flags.values[flag];
    char *end;

    if (text == NULL)
        return EXIT_DONE;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || text[0] < '0' || text[0] > '9' || value > max)
        return cli_usage(cli, "--%s: \"%s\" is not a number from 0 to %llu", flag_infos[flag].word, text,
                         (unsigned long long)max);
    *ret = value;
    return EXIT_DONE;
}

/* An unset shell variable must not widen what is changed. */
static int filter_has_values(struct cli *cli)
{
    static const enum flag flags[] = { FLAG_BOX,   FLAG_ENDPOINT,    FLAG_TYPE,  FLAG_STREAM, FLAG_REASON,
                                       FLAG_ERROR, FLAG_FINGERPRINT, FLAG_STATE, FLAG_ROW,    FLAG_CORRELATION_ID };
    for (size_t i = 0; i < ARRAY_LENGTH(flags); i++) {
        const char *value = cli->flags.values[flags[i]];
        if (value != NULL && value[0] == '\0')
            return cli_usage(cli, "--%s is empty; give a value or omit it", flag_infos[flags[i]].word);
    }
    const char *row = cli->flags.values[FLAG_ROW];
    return row != NULL && strcmp(row, "0") == 0 ? cli_usage(cli, "--row: rows start at 1") : EXIT_DONE;
}

int cli_filter(struct cli *cli, struct filter *ret_filter)
{
    const char *const *values = cli->flags.values;
    struct filter filter = {
        .box = slice_from(values[FLAG_BOX]),
        .endpoint = slice_from(values[FLAG_ENDPOINT]),
        .type = slice_from(values[FLAG_TYPE]),
        .stream = slice_from(values[FLAG_STREAM]),
        .error = slice_from(values[FLAG_ERROR]),
        .fingerprint = slice_from(values[FLAG_FINGERPRINT]),
        .correlation_id = slice_from(values[FLAG_CORRELATION_ID]),
        .routing = cli->config != NULL ? &cli->routing.routing : NULL,
    };
    uint64_t limit = 0;
    int code = filter_has_values(cli);

    if (code == EXIT_DONE)
        code = filter_state(cli, &filter);
    if (code == EXIT_DONE)
        code = filter_reason(cli, &filter);
    if (code == EXIT_DONE)
        code = cli_number(cli, FLAG_LIMIT, 1000000, &limit);
    bool of_events = strncmp(cli->command->name, "events", 6) == 0;
    if (code == EXIT_DONE && values[FLAG_AFTER] != NULL &&
        (!filter_set_after(&filter, slice_from(values[FLAG_AFTER])) || (of_events && filter.after_box.size > 0)))
        code = of_events
                   ? cli_usage(cli, "--after: \"%s\" is not a place; with --stream it is a version", values[FLAG_AFTER])
                   : cli_usage(cli,
                               "--after: \"%s\" is not a page position; use a row or BOX:ROW, as the end of the "
                               "last page shows it",
                               values[FLAG_AFTER]);
    if (code == EXIT_DONE)
        code = cli_number(cli, FLAG_ROW, INT64_MAX, &filter.row);
    if (code != EXIT_DONE)
        return code;
    filter.limit = (size_t)limit;
    if (values[FLAG_SINCE] != NULL && !cli_time(cli, values[FLAG_SINCE], -1, &filter.since_us))
        return cli_usage(cli, "--since: \"%s\" is not a time; use 1h or 2024-01-31T12:00:00Z", values[FLAG_SINCE]);
    if (values[FLAG_UNTIL] != NULL && !cli_time(cli, values[FLAG_UNTIL], -1, &filter.until_us))
        return cli_usage(cli, "--until: \"%s\" is not a time; use 1h or 2024-01-31T12:00:00Z", values[FLAG_UNTIL]);
    bool in_one_order = strncmp(cli->command->name, "dead ", 5) == 0 || strcmp(cli->command->name, "audit") == 0 ||
                        of_events || filter.state == STATE_DEAD;
    if (filter.after != 0 && filter.box.size + filter.after_box.size == 0 && !in_one_order)
        return cli_usage(cli, "--after needs BOX:ROW, or --box: each box numbers its own rows");
    if (filter.after_box.size > 0 && strcmp(cli->command->name, "list") != 0)
        return cli_usage(cli, "--after: \"%s\": only messages are listed by box and row", values[FLAG_AFTER]);
    if (filter.after_box.size > 0 && filter.box.size > 0 && !slice_eq(filter.box, filter.after_box))
        return cli_usage(cli, "--after: \"%s\" is not a row of box %s", values[FLAG_AFTER], values[FLAG_BOX]);
    if (filter.box.size > 0 && !name_is_valid(filter.box))
        return cli_usage(cli, "--box: \"%s\" is not a valid box name", values[FLAG_BOX]);
    if (values[FLAG_FINGERPRINT] != NULL && !fingerprint_is_valid(filter.fingerprint))
        return cli_usage(cli,
                         "--fingerprint: \"%s\" is not a fingerprint; use 16 hex digits, as dead groups shows them",
                         values[FLAG_FINGERPRINT]);
    *ret_filter = filter;
    return EXIT_DONE;
}

int cli_open_filtered(struct cli *cli, struct filter *ret_filter)
{
    int code = cli_load_config(cli);

    if (code == EXIT_DONE)
        code = cli_filter(cli, ret_filter);
    if (code == EXIT_DONE)
        code = cli_open_store(cli);
    if (code == EXIT_DONE)
        code = cli_filter(cli, ret_filter); /* again: times are by the store's clock */
    return code == EXIT_DONE && ret_filter->box.size > 0 ? cli_box_must_be(cli, ret_filter->box) : code;
}

int cli_box_must_be(struct cli *cli, pr_slice box)
{
    struct query query = { .kind = QUERY_BOXES, .brief = true };
    struct query_reply reply;
    struct suggestion near = { 0 };
    struct pr_error err;

    if (store_query(&cli->store, &query, &cli->arena, &reply, &err) != PR_OK)
        return cli_fault(&err);
    for (size_t i = 0; i < reply.box_count; i++) {
        if (slice_eq(reply.boxes[i].name, box))
            return EXIT_DONE;
        pr_slice name = slice_dup(&cli->arena, reply.boxes[i].name);
        ASSERT(name.data != NULL);
        suggest_try(&near, box, name.data);
    }
    if (near.best != NULL)
        cli_say("unknown box \"%.*s\"; did you mean %s?", SLICE_ARGS(box), near.best);
    else
        cli_say("unknown box \"%.*s\"; postrider status lists the existing boxes, postrider init creates those under "
                "boxes: in the configuration",
                SLICE_ARGS(box));
    return EXIT_NOT_FOUND;
}

int cli_ask(struct cli *cli, struct query *query, struct query_reply *ret)
{
    struct pr_error err;
    int code = cli_open_filtered(cli, &query->filter);

    if (code == EXIT_DONE && store_query(&cli->store, query, &cli->arena, ret, &err) != PR_OK)
        code = cli_fault(&err);
    return code;
}

int cli_ids(struct cli *cli, int first, pr_id **ret_ids, size_t *ret_count)
{
    size_t count = (size_t)(cli->arg_count - first);
    pr_id *ids = arena_alloc_array(&cli->arena, count, sizeof(*ids));

    ASSERT(ids != NULL);
    for (size_t i = 0; i < count; i++) {
        const char *text = cli->args[first + (int)i];

        if (pr_id_parse(slice_from(text), &ids[i]) != PR_OK)
            return cli_usage(cli, "\"%s\" is not a message id; ids look like 0190163d-8694-739b-aea5-966c26f8ad91",
                             text);
    }
    *ret_ids = ids;
    *ret_count = count;
    return EXIT_DONE;
}

/* ---- Output ---- */

void cli_print(const struct buf *line)
{
    pr_slice text = buf_slice(line);

    if (buf_failed(line) != 0)
        cli_say("out of memory for a line of output");
    (void)fwrite(text.data, 1, text.size, stdout); /* cli_finish() checks for errors */
    (void)fputc('\n', stdout);
}

struct json_writer *line_begin(struct json_line *line)
{
    buf_init(&line->text, OUTPUT_MAX);
    json_init(&line->w, &line->text);
    return &line->w;
}

void line_end(struct json_line *line)
{
    cli_print(&line->text);
    buf_fini(&line->text);
}

int cli_finish(int code)
{
    int failure = output_end();

    if (failure == 0 || failure == EPIPE) /* the reader of a pipe, such as "| head", has seen enough */
        return code;
    cli_say("cannot write the output: %s", strerror(failure));
    return code == EXIT_DONE ? EXIT_FAILED : code;
}

pr_slice cli_user(struct cli *cli)
{
    const char *sudo = getenv("SUDO_USER");
    const struct passwd *user = getpwuid(getuid());
    char host[HOST_NAME_MAX + 1] = "localhost";

    if (flag_given(&cli->flags, FLAG_BY))
        return slice_from(cli->flags.values[FLAG_BY]);
    if (gethostname(host, sizeof(host) - 1) != 0)
        (void)snprintf(host, sizeof(host), "localhost");
    if (sudo != NULL && sudo[0] != '\0')
        return arena_printf(&cli->arena, "%s@%s", sudo, host);
    return user != NULL ? arena_printf(&cli->arena, "%s@%s", user->pw_name, host)
                        : arena_printf(&cli->arena, "uid %u@%s", (unsigned)getuid(), host);
}

int cli_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    return sigprocmask(SIG_BLOCK, &set, NULL) == 0 ? signalfd(-1, &set, SFD_CLOEXEC) : -1;
}
