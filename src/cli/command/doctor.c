/* What an operator should know about this installation. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/units.h"
#include "base/util.h"
#include "cli/command/endpoint.h"

static const char *directory_of(struct cli *cli, const char *path)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL)
        return ".";
    pr_slice directory = { path, slash == path ? 1 : (size_t)(slash - path) };
    const char *copy = slice_dup(&cli->arena, directory).data;
    ASSERT(copy != NULL);
    return copy;
}

static void check_disk(struct checks *c, const char *directory)
{
    struct statvfs disk;
    char text[DURATION_TEXT_SIZE];

    if (statvfs(directory, &disk) != 0) {
        checks_add(c, "disk", CHECK_WARN, "cannot check %s: %s", directory, strerror(errno));
        return;
    }
    uint64_t free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
    int64_t mib = (int64_t)(free_bytes >> 20);

    size_format(mib << 20, text);
    if (free_bytes < DISK_EMPTY_BYTES)
        checks_add(c, "disk", CHECK_ERROR, "%s free: make room now, or no message can be stored soon", text);
    else if (free_bytes < DISK_LOW_BYTES)
        checks_add(c, "disk", CHECK_WARN, "%s free: running low", text);
    else
        checks_add(c, "disk", CHECK_FINE, "%.1f GiB free", (double)free_bytes / (1 << 30));
}

static void check_files(struct cli *cli, struct checks *c)
{
    const char *path = cli_store_path(cli), *directory = directory_of(cli, path);
    struct stat file;

    if (path[0] == '\0')
        return;
    if (stat(path, &file) != 0) {
        checks_add(c, "file", errno == ENOENT ? CHECK_WARN : CHECK_ERROR, "%s: %s", path,
                   errno == ENOENT ? "does not exist yet; create it with postrider init" : strerror(errno));
    } else if (access(path, R_OK | W_OK) != 0) {
        checks_add(c, "file", CHECK_ERROR, "%s is not writable; give it to the user that runs Postrider", path);
    } else if ((file.st_mode & S_IRWXO) != 0) {
        checks_add(c, "file", CHECK_WARN,
                   "%s can be read%s by every user (mode %04o), and it contains payloads; use chmod 660 or 600", path,
                   (file.st_mode & S_IWOTH) != 0 ? " and changed" : "", (unsigned)(file.st_mode & 07777));
    } else {
        checks_add(c, "file", CHECK_FINE, "%s, mode %04o", path, (unsigned)(file.st_mode & 07777));
    }
    if (access(directory, W_OK) != 0)
        checks_add(c, "directory", CHECK_ERROR, "%s is not writable; SQLite keeps its log next to the file", directory);
    check_disk(c, directory);
}

static void check_schema(struct cli *cli, struct checks *c, const struct store_facts *facts)
{
    struct pr_error err;

    if (store_check(&cli->store, &err) == PR_OK)
        checks_add(c, "schema", CHECK_FINE, "version %d", facts->schema_version);
    else
        checks_add(c, "schema", CHECK_ERROR, "%s", err.text);
}

static void check_store(struct cli *cli, struct checks *c)
{
    struct store_options options = { .url = cli->config->store, .payload_max = (size_t)cli->config->payload_max };
    struct query query = { .kind = QUERY_FACTS };
    struct query_reply reply = { 0 };
    struct pr_error err;

    if (store_open(&options, &cli->store, &err) != PR_OK) {
        checks_add(c, "store", CHECK_ERROR, "%s", err.text);
        return;
    }
    if (store_query(&cli->store, &query, &cli->arena, &reply, &err) == PR_OK) {
        checks_add(c, "store", CHECK_FINE, "%.*s, %.1f MiB", SLICE_ARGS(reply.facts.software),
                   (double)reply.facts.bytes / (1 << 20));
        for (size_t i = 0; i < reply.facts.warning_count; i++)
            checks_add(c, "store", CHECK_WARN, "%.*s", SLICE_ARGS(reply.facts.warnings[i]));
        check_schema(cli, c, &reply.facts);
    } else {
        checks_add(c, "store", CHECK_ERROR, "%s", err.text);
    }
}

static void check_instances(struct cli *cli, struct checks *c)
{
    struct query query = { .kind = QUERY_INSTANCES };
    struct query_reply reply;
    struct pr_error err;
    size_t alive = 0;

    if (cli->store.ops == NULL || store_query(&cli->store, &query, &cli->arena, &reply, &err) != PR_OK)
        return; /* reported already */
    for (size_t i = 0; i < reply.instance_count; i++)
        alive += reply.instances[i].lease_left_us > 0;
    if (alive > 0)
        checks_add(c, "instances", CHECK_FINE, "%zu running", alive);
    else
        checks_add(c, "instances", CHECK_FINE, "none: nothing is delivered until you start postrider run");
}

static void check_endpoints(struct cli *cli, struct checks *c)
{
    struct query query = { .kind = QUERY_ENDPOINTS };
    struct query_reply reply;
    struct pr_error err;

    if (cli->store.ops == NULL || store_query(&cli->store, &query, &cli->arena, &reply, &err) != PR_OK)
        return; /* reported already */
    if (endpoints_check(c, &reply) == 0 && reply.endpoint_count > 0)
        checks_add(c, "endpoints", CHECK_FINE, "none is paused or failing");
}

static void check_config(struct cli *cli, struct checks *c)
{
    const struct config *config = cli->config;

    if (!cli->config_from_file)
        checks_add(c, "config", CHECK_FINE, "defaults: %s does not exist here", CONFIG_FILE_USUAL);
    else if (config->endpoint_count == 0)
        checks_add(c, "config", CHECK_WARN, "%s has no endpoints: nothing can be delivered", config->file);
    else
        checks_add(c, "config", CHECK_FINE, "%s, %s", config->file,
                   count_words(&cli->arena, config->endpoint_count, "endpoint", "endpoints"));
}

static void print(const struct cli *cli, const struct checks *c)
{
    struct json_line line;

    if (!cli->json) {
        checks_print(c, false, cli->color);
        return;
    }
    struct json_writer *w = line_begin(&line);
    json_begin_object(w);
    json_put_cstr(w, "health", check_state_name(checks_health(c)));
    json_put_cstr(w, "version", pr_version());
    checks_json(c, w);
    json_end_object(w);
    line_end(&line);
}

int run_doctor(struct cli *cli)
{
    struct checks checks = { .arena = &cli->arena };
    int code = cli_load_config(cli);

    if (code != EXIT_DONE)
        return code;
    checks_add(&checks, "version", CHECK_FINE, "postrider %s", pr_version());
    check_config(cli, &checks);
    check_files(cli, &checks);
    check_store(cli, &checks);
    checks_add_wal(&checks, cli->config, &cli->store, NULL, NULL);
    check_instances(cli, &checks);
    check_endpoints(cli, &checks);
    checks_add_sources(&checks, cli, CHECK_ERROR);
    print(cli, &checks);
    return checks_health(&checks) == CHECK_ERROR ? EXIT_UNHEALTHY : EXIT_DONE;
}
