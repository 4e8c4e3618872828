/* config check, show, init, reference. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/command/policy.h"

/* "config check FILE" is the same as "config check -c FILE". */
static int load(struct cli *cli)
{
    if (cli->arg_count == 1 && flag_given(&cli->flags, FLAG_CONFIG))
        return cli_usage(cli, "the file was given twice");
    if (cli->arg_count == 1)
        cli->flags.values[FLAG_CONFIG] = cli->args[0];
    return cli_load_config(cli);
}

int run_config_check(struct cli *cli)
{
    int code = load(cli);

    if (code != EXIT_DONE)
        return code;
    const char *name = cli->config_from_file ? cli->config->file : "defaults";
    if (cli->json) {
        struct json_line line;

        struct json_writer *w = line_begin(&line);
        json_begin_object(w);
        json_put_cstr(w, "file", name);
        json_put_bool(w, "ok", true);
        json_put_uint(w, "endpoints", cli->config->endpoint_count);
        json_put_uint(w, "routes", cli->config->route_count);
        json_put_uint(w, "boxes", cli->config->box_count);
        json_end_object(w);
        line_end(&line);
        return EXIT_DONE;
    }
    const struct config *c = cli->config;
    printf("%s is valid: %zu %s, %zu %s, %zu %s\n", cli->config_from_file ? name : "the default configuration",
           c->endpoint_count, c->endpoint_count == 1 ? "endpoint" : "endpoints", c->route_count,
           c->route_count == 1 ? "route" : "routes", c->box_count, c->box_count == 1 ? "box" : "boxes");
    if (policy_print_findings(cli) > 0)
        cli_say("these rules are valid but have no effect as written; run postrider policy check");
    if (cli->config->open_secret_file[0] != '\0')
        cli_say("every user of this machine can read %s; run chmod 0600 on it", cli->config->open_secret_file);
    if (!cli->config_from_file)
        cli_say("%s does not exist here; create it with postrider config init", CONFIG_FILE_USUAL);
    return EXIT_DONE;
}

int run_config_show(struct cli *cli)
{
    struct buf text;
    int code = load(cli);

    if (code != EXIT_DONE)
        return code;
    struct pr_error error;

    buf_init(&text, OUTPUT_MAX);
    if (!cli->json) {
        config_show(cli->config, &text);
        (void)fwrite(buf_slice(&text).data, 1, text.size, stdout); /* cli_finish() checks for errors */
    } else if (config_show_json(cli->config, &text, &error) == PR_OK) {
        cli_print(&text);
    } else {
        code = cli_fault(&error);
    }
    buf_fini(&text);
    return code;
}

int run_config_reference(struct cli *cli)
{
    struct buf text;

    (void)cli;
    buf_init(&text, OUTPUT_MAX);
    config_reference(&text);
    (void)fwrite(buf_slice(&text).data, 1, text.size, stdout);
    buf_fini(&text);
    return EXIT_DONE;
}

int run_config_init(struct cli *cli)
{
    const char *path = cli->arg_count == 1 ? cli->args[0] : CONFIG_FILE_USUAL;
    int overwrite = flag_given(&cli->flags, FLAG_FORCE) ? O_TRUNC : O_EXCL;
    size_t size = strlen(config_example);

    if (strcmp(path, "-") == 0) {
        (void)fputs(config_example, stdout);
        return EXIT_DONE;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | overwrite, 0600); /* it may contain tokens and passwords */
    if (fd < 0 && errno == EEXIST) {
        cli_say("%s already exists; overwrite it with --force", path);
        return EXIT_FAILED;
    }
    bool written = fd >= 0 && write(fd, config_example, size) == (ssize_t)size;
    if (fd >= 0 && close(fd) != 0)
        written = false;
    if (!written) {
        cli_say("cannot write %s: %s", path, strerror(errno));
        return EXIT_FAILED;
    }
    printf("%s\n", path);
    cli_say("edit it, then run postrider config check %s", path);
    return EXIT_DONE;
}
