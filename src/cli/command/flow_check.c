/* flow check: new code, as a shared object, against stored histories. */
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "cli/command/flow.h"
#include "cli/output/table.h"
#include "lib/flow_set.h"
#include "ops/flow/flow_check.h"

#define REGISTER "pr_flow_register"
#define HISTORY_MAX ((size_t)1 << 30)

struct checking {
    struct cli *cli;
    uint64_t counts[FLOW_CHECK_DAMAGED + 1];
};

static void print_checked_json(const struct flow_checked *c)
{
    struct json_line line;
    char execution[PR_ID_TEXT_SIZE];
    struct json_writer *w = line_begin(&line);
    const struct {
        const char *key;
        pr_slice text;
    } texts[] = { { "id", c->flow },           { "name", c->name },   { "version", c->version },
                  { "expected", c->expected }, { "found", c->found }, { "why", c->why } };
    pr_id_format(c->execution, execution);
    json_begin_object(w);
    json_put_cstr(w, "outcome", flow_check_name(c->outcome));
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        json_key(w, texts[i].key);
        if (texts[i].text.size > 0)
            json_slice(w, texts[i].text);
        else
            json_cstr(w, NULL);
    }
    json_put_cstr(w, "execution", pr_id_is_zero(c->execution) ? NULL : execution);
    json_put_int(w, "event", c->event);
    json_end_object(w);
    line_end(&line);
}

static int tell(void *arg, const struct flow_checked *c)
{
    struct checking *check = arg;
    struct cli *cli = check->cli;
    check->counts[c->outcome]++;
    if (cli->json) {
        print_checked_json(c);
    } else if (c->outcome != FLOW_CHECK_FITS) {
        printf("%s%s%s (%s %s) ", color_on(COLOR_RED, cli->color),
               c->flow.size > 0 ? text_clean_copy(&cli->arena, c->flow) : "the history",
               color_off(COLOR_RED, cli->color), text_clean_copy(&cli->arena, c->name),
               text_clean_copy(&cli->arena, c->version));
        if (c->outcome == FLOW_CHECK_DIVERGES)
            printf("would diverge at event %" PRId64 ": the history has %s, the code did %s\n", c->event,
                   text_clean_copy(&cli->arena, c->expected), text_clean_copy(&cli->arena, c->found));
        else
            printf("%s: %s\n", c->outcome == FLOW_CHECK_LACKS ? "would wait" : "is damaged",
                   text_clean_copy(&cli->arena, c->why));
    }
    return PR_OK;
}

/* EXIT_DONE, or prints why the code cannot be used.  It stays loaded. */
static int load(struct cli *cli, const char *path, struct pr_flow_set *set)
{
    int (*enroll)(struct pr_flow_set *);
    const char *with_folder = strchr(path, '/') != NULL ? path : arena_printf(&cli->arena, "./%s", path).data;
    void *code = dlopen(with_folder, RTLD_NOW | RTLD_LOCAL);
    if (code == NULL) {
        cli_say("cannot load %s: %s", path, dlerror());
        return EXIT_FAILED;
    }
    *(void **)&enroll = dlsym(code, REGISTER);
    if (enroll == NULL) {
        cli_say("%s has no function " REGISTER "(), which adds its flows; see doc/flows.md", path);
        return EXIT_FAILED;
    }
    if (enroll(set) != PR_OK || set->registry.count == 0) {
        cli_say("%s: " REGISTER "() failed, or added no flow", path);
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}

static int read_file(const char *path, struct buf *ret)
{
    char chunk[65536];
    FILE *f = fopen(path, "re");
    if (f == NULL) {
        cli_say("cannot read %s: %s", path, strerror(errno));
        return EXIT_FAILED;
    }
    for (size_t n; buf_failed(ret) == 0 && (n = fread(chunk, 1, sizeof chunk, f)) > 0;)
        buf_add(ret, chunk, n);
    bool failed = ferror(f) || buf_failed(ret) != 0;
    (void)fclose(f);
    if (failed)
        cli_say("cannot read %s", path);
    return failed ? EXIT_FAILED : EXIT_DONE;
}

static int check_file(struct checking *check, const struct pr_flow_set *set, const char *path)
{
    struct buf lines;
    struct pr_error err;
    buf_init(&lines, HISTORY_MAX);
    int code = read_file(path, &lines);
    if (code == EXIT_DONE && flow_check_lines(&set->registry, buf_slice(&lines), tell, check, &err) != PR_OK)
        code = cli_fault(&err);
    buf_fini(&lines);
    return code;
}

static int check_store(struct checking *check, const struct pr_flow_set *set)
{
    struct cli *cli = check->cli;
    struct pr_error err;
    int code = cli_open_store(cli), rc = PR_OK;
    if (code == EXIT_DONE && cli->arg_count == 1)
        rc = flow_check_stored(&cli->store, &set->registry, (pr_slice){ NULL, 0 }, tell, check, &err);
    for (int i = 1; code == EXIT_DONE && rc == PR_OK && i < cli->arg_count; i++) {
        rc = flow_check_stored(&cli->store, &set->registry, slice_from(cli->args[i]), tell, check, &err);
        if (rc == PR_UNKNOWN)
            return flow_not_found(cli, slice_from(cli->args[i]));
    }
    return rc < 0 ? cli_fault(&err) : code;
}

int run_flow_check(struct cli *cli)
{
    const char *file = cli->flags.values[FLAG_FILE];
    struct checking check = { .cli = cli };
    struct pr_flow_set *set = pr_flow_set_new();
    ASSERT(set != NULL);
    int code = file != NULL && cli->arg_count > 1 ? cli_usage(cli, "--file and flows cannot be combined") : EXIT_DONE;
    if (code == EXIT_DONE)
        code = load(cli, cli->args[0], set);
    if (code == EXIT_DONE)
        code = file != NULL ? check_file(&check, set, file) : check_store(&check, set);
    pr_flow_set_free(set);
    if (code != EXIT_DONE)
        return code;
    const uint64_t *n = check.counts, bad = n[FLOW_CHECK_DIVERGES] + n[FLOW_CHECK_LACKS] + n[FLOW_CHECK_DAMAGED];
    if (!cli->json)
        printf("%" PRIu64 " fit, %" PRIu64 " would diverge, %" PRIu64 " would wait for their version, %" PRIu64
               " damaged\n",
               n[FLOW_CHECK_FITS], n[FLOW_CHECK_DIVERGES], n[FLOW_CHECK_LACKS], n[FLOW_CHECK_DAMAGED]);
    return bad > 0 ? EXIT_SOME_FAILED : EXIT_DONE;
}
