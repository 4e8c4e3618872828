#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/command/send.h"
#include "runtime/config/config_suggest.h"

/* Only an HTTP token is a name of a header that every transport can carry. */
static bool header_name_is_valid(pr_slice name)
{
    static const char others[] = "!#$%&'*+-.^_`|~";

    for (size_t i = 0; i < name.size; i++)
        if (!isalnum((unsigned char)name.data[i]) && strchr(others, name.data[i]) == NULL)
            return false;
    return name.size > 0;
}

static bool header_is_repeated(const struct cli *cli, size_t index, pr_slice name)
{
    for (size_t i = 0; i < index; i++)
        if (strlen(cli->flags.headers[i]) > name.size && cli->flags.headers[i][name.size] == '=' &&
            strncasecmp(cli->flags.headers[i], name.data, name.size) == 0)
            return true;
    return false;
}

int send_headers(struct cli *cli, pr_slice *ret)
{
    struct json_writer w;
    struct buf text;
    int code = EXIT_DONE;

    if (cli->flags.header_count == 0)
        return EXIT_DONE;
    buf_init(&text, OUTPUT_MAX);
    json_init(&w, &text);
    json_begin_object(&w);
    for (size_t i = 0; i < cli->flags.header_count && code == EXIT_DONE; i++) {
        const char *header = cli->flags.headers[i], *equals = strchr(header, '=');

        if (equals == NULL || equals == header) {
            code = cli_usage(cli, "--header \"%s\" is not NAME=VALUE", header);
            break;
        }
        pr_slice name = { header, (size_t)(equals - header) };
        if (!header_name_is_valid(name))
            code = cli_usage(cli, "--header \"%s\": a name consists of letters, digits, - . and _", header);
        else if (!utf8_valid(slice_from(equals + 1)))
            code = cli_usage(cli, "--header %.*s: the value is not UTF-8", SLICE_ARGS(name));
        else if (header_is_repeated(cli, i, name))
            code = cli_usage(cli, "--header %.*s was given twice", SLICE_ARGS(name));
        if (code != EXIT_DONE)
            break;
        json_key_slice(&w, name);
        json_cstr(&w, equals + 1);
    }
    if (code == EXIT_DONE) {
        json_end_object(&w);
        *ret = slice_dup(&cli->arena, buf_slice(&text));
        ASSERT(ret->data != NULL);
    }
    buf_fini(&text);
    return code;
}

/* Reads at most one byte more than the limit. */
static int read_all(struct cli *cli, FILE *f, const char *name, struct buf *ret)
{
    char chunk[65536];

    buf_init(ret, (size_t)cli->config->payload_max);
    for (size_t n; buf_failed(ret) == 0 && (n = fread(chunk, 1, sizeof(chunk), f)) > 0;)
        buf_add(ret, chunk, n);
    if (ferror(f)) {
        cli_say("cannot read %s: %s", name, strerror(errno));
        return EXIT_FAILED;
    }
    if (buf_failed(ret) != 0) {
        cli_say(
            "%s is larger than %lld bytes; raise limits.payload in the configuration, or send a reference to the data",
            name, (long long)cli->config->payload_max);
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}

int send_payload(struct cli *cli, const char *dash, struct buf *content, pr_slice *ret)
{
    const char *data = cli->flags.values[FLAG_DATA], *path = cli->flags.values[FLAG_FILE];
    int code = EXIT_DONE;

    if ((data != NULL) + (path != NULL) + (dash != NULL) > 1)
        return cli_usage(cli, "--data, --file and - cannot be combined");
    if (dash != NULL && strcmp(dash, "-") != 0)
        return cli_usage(cli, "unexpected argument \"%s\"; give the payload with --data, --file or -", dash);
    if (path != NULL) {
        FILE *f = fopen(path, "re");

        if (f == NULL) {
            cli_say("cannot read %s: %s", path, strerror(errno));
            return EXIT_FAILED;
        }
        code = read_all(cli, f, path, content);
        (void)fclose(f); /* it was only read */
        *ret = buf_slice(content);
    } else if (dash != NULL) {
        code = read_all(cli, stdin, "the input", content);
        *ret = buf_slice(content);
    } else {
        *ret = slice_from(data);
    }
    return code;
}

int send_to_is_known(struct cli *cli)
{
    const char *to = cli->flags.values[FLAG_TO];
    struct suggestion near = { 0 };

    if (to == NULL || !cli->config_from_file || config_find_endpoint(cli->config, slice_from(to)) != NULL)
        return EXIT_DONE;
    for (size_t i = 0; i < cli->config->endpoint_count; i++)
        suggest_try(&near, slice_from(to), cli->config->endpoints[i].name);
    if (near.best != NULL)
        cli_say("%s has no endpoint \"%s\"; did you mean %s?", cli->config->file, to, near.best);
    else
        cli_say("%s has no endpoint \"%s\"; add it under endpoints, or omit --to and let the routes decide",
                cli->config->file, to);
    return EXIT_NOT_FOUND;
}

static int check_names(struct cli *cli, pr_slice box)
{
    if (cli->flags.values[FLAG_TYPE] == NULL)
        return cli_usage(cli, "--type is missing");
    if (!name_is_valid(box))
        return cli_usage(cli, "--box: \"%.*s\" is not a valid box name", SLICE_ARGS(box));
    return send_to_is_known(cli);
}

static int times(struct cli *cli, struct pr_message *message)
{
    const char *due = cli->flags.values[FLAG_DUE], *expires = cli->flags.values[FLAG_EXPIRES];

    if (due != NULL && !cli_time(cli, due, 1, &message->due_us))
        return cli_usage(cli, "--due: \"%s\" is not a time; use 5m or 2024-01-31T12:00:00Z", due);
    if (expires != NULL && !cli_time(cli, expires, 1, &message->expires_us))
        return cli_usage(cli, "--expires: \"%s\" is not a time; use 1h or 2024-01-31T12:00:00Z", expires);
    return EXIT_DONE;
}

/* The version of an event, for --json; 0: not an event. */
static uint64_t version_of(struct cli *cli, const struct pr_message *message, const pr_id *id)
{
    const struct query query = { .kind = QUERY_EVENTS,
                                 .filter = { .state = -1, .stream = message->stream, .ids = id, .id_count = 1 } };
    struct query_reply reply;
    struct pr_error ignored;
    bool found = message->event && store_query(&cli->store, &query, &cli->arena, &reply, &ignored) == PR_OK;

    return found && reply.event_count > 0 ? reply.events[0].version : 0;
}

static void print_sent(struct cli *cli, const struct pr_message *message, pr_id id, bool duplicate)
{
    char text[PR_ID_TEXT_SIZE];
    uint64_t version = cli->json ? version_of(cli, message, &id) : 0;

    pr_id_format(id, text);
    if (cli->json && version > 0)
        printf("{\"id\":\"%s\",\"duplicate\":%s,\"version\":%" PRIu64 "}\n", text, duplicate ? "true" : "false",
               version);
    else if (cli->json)
        printf("{\"id\":\"%s\",\"duplicate\":%s}\n", text, duplicate ? "true" : "false");
    else
        printf("%s\n", text);
    if (duplicate)
        cli_say("duplicate: a message with this id is already stored; nothing changed");
}

static int send_message(struct cli *cli, pr_slice box, const struct pr_message *message)
{
    struct pr_error err;
    pr_id id;
    int answer = PR_OK;

    if (store_enqueue(&cli->store, box, message, 1, (size_t)cli->config->payload_max, &id, &answer, &err) != PR_OK) {
        /* The tables existed a moment ago. */
        int code = err.code == PR_ESCHEMA ? cli_box_must_be(cli, box) : EXIT_DONE;

        if (code == EXIT_DONE)
            code = cli_fault(&err);
        if (err.code == PR_EFULL)
            cli_say("Disk full: this message was not stored. Free some space and send it again; stored messages are "
                    "safe.");
        return code;
    }
    print_sent(cli, message, id, answer == PR_DUPLICATE);
    return EXIT_DONE;
}

static int expected_version(struct cli *cli, struct pr_message *message)
{
    const char *text = cli->flags.values[FLAG_EXPECT_VERSION];
    char *end;

    if (text == NULL)
        return EXIT_DONE;
    errno = 0;
    message->expects_version = true;
    message->expected_version = strtoll(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0)
        return cli_usage(cli, "--expect-version: \"%s\" is not a number of events", text);
    return message->event ? EXIT_DONE : cli_usage(cli, "--expect-version is only for events: add --event");
}

int run_send(struct cli *cli)
{
    const char *const *values = cli->flags.values;
    pr_slice box = slice_from(values[FLAG_BOX] != NULL ? values[FLAG_BOX] : "outbox");
    struct buf content = { 0 };
    struct pr_message message = {
        .type = slice_from(values[FLAG_TYPE]),
        .stream = slice_from(values[FLAG_STREAM]),
        .destination = slice_from(values[FLAG_TO]),
        .content_type = slice_from(values[FLAG_CONTENT_TYPE]),
        .source = slice_from(values[FLAG_SOURCE]),
        .subject = slice_from(values[FLAG_SUBJECT]),
        .correlation_id = slice_from(values[FLAG_CORRELATION_ID]),
        .event = flag_given(&cli->flags, FLAG_EVENT),
    };
    int code = cli_load_config(cli);

    if (code == EXIT_DONE)
        code = check_names(cli, box);
    if (code == EXIT_DONE && values[FLAG_ID] != NULL && pr_id_parse(slice_from(values[FLAG_ID]), &message.id) != PR_OK)
        code = cli_usage(cli, "--id: \"%s\" is not a UUID", values[FLAG_ID]);
    if (code == EXIT_DONE)
        code = expected_version(cli, &message);
    if (code == EXIT_DONE)
        code = send_headers(cli, &message.headers);
    if (code == EXIT_DONE)
        code = send_payload(cli, cli->arg_count == 1 ? cli->args[0] : NULL, &content, &message.payload);
    if (code == EXIT_DONE)
        code = cli_open_store(cli);
    if (code == EXIT_DONE)
        code = times(cli, &message);
    if (code == EXIT_DONE)
        code = send_message(cli, box, &message);
    buf_fini(&content);
    return code;
}
