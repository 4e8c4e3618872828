/* Measures the speed on this machine: stores a backlog, delivers it to nowhere. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/util.h"
#include "cli/cli.h"
#include "runtime/runtime.h"

#define BENCH_COUNT 50000
#define BENCH_COUNT_MAX 100000000
#define BENCH_BATCH 1000
#define BENCH_PAYLOAD 512
#define BENCH_TIMEOUT_US PR_MINUTES(30)

static double seconds_since(int64_t start_us)
{
    return (double)max64(clock_mono_us(clock_system()) - start_us, 1) / 1e6;
}

static void result(const struct cli *cli, const char *what, uint64_t count, double seconds)
{
    if (cli->json)
        printf("{\"bench\":\"%s\",\"messages\":%" PRIu64 ",\"seconds\":%.3f,\"per_second\":%.0f}\n", what, count,
               seconds, (double)count / seconds);
    else
        printf("%-8s %" PRIu64 " messages of %d bytes in %.2f s: %.0f per second\n", what, count, BENCH_PAYLOAD,
               seconds, (double)count / seconds);
    (void)fflush(stdout);
}

static int fill(struct cli *cli, uint64_t count)
{
    static char payload[BENCH_PAYLOAD];
    struct pr_message messages[BENCH_BATCH];
    pr_id ids[BENCH_BATCH];
    struct pr_error err;
    int64_t start = clock_mono_us(clock_system());

    memset(payload, 'x', sizeof(payload));
    for (size_t i = 0; i < BENCH_BATCH; i++)
        messages[i] = (struct pr_message){ .type = PR_STR("bench"),
                                           .destination = PR_STR("nowhere"),
                                           .payload = { payload, sizeof(payload) } };
    for (uint64_t sent = 0; sent < count;) {
        size_t n = min_size(BENCH_BATCH, count - sent);

        if (store_enqueue(&cli->store, PR_STR("outbox"), messages, n, sizeof(payload), ids, NULL, &err) != PR_OK)
            return cli_fault(&err);
        sent += n;
    }
    result(cli, "send", count, seconds_since(start));
    return EXIT_DONE;
}

static int drain(struct cli *cli, uint64_t count)
{
    struct pr_error err;
    struct runtime *rt = runtime_new(cli->config, &(struct runtime_options){ 0 }, &err);

    if (rt == NULL)
        return cli_fault(&err);
    cli->config = NULL; /* owned by the runtime now */
    int64_t start = clock_mono_us(clock_system());
    int code = EXIT_DONE, r = runtime_start(rt, &err);

    if (r == PR_OK)
        r = runtime_drain(rt, BENCH_TIMEOUT_US, &err);
    if (r == PR_OK)
        result(cli, "deliver", count, seconds_since(start));
    else if (r == PR_TIMEOUT) {
        cli_say("gave up after half an hour");
        code = EXIT_FAILED;
    } else
        code = cli_fault(&err);
    runtime_free(rt);
    return code;
}

static int bench(struct cli *cli, const char *directory, uint64_t count)
{
    struct pr_error err;
    pr_slice text = arena_printf(
        &cli->arena, "store: sqlite:%s/bench.db\nendpoints: {nowhere: {url: 'null:'}}\nlog: {level: none}\n",
        directory);
    int r = config_load_text(text, "bench", &cli->config, &err);

    if (r == PR_OK)
        r = store_open(&(struct store_options){ .url = cli->config->store, .payload_max = BENCH_PAYLOAD }, &cli->store,
                       &err);
    if (r == PR_OK)
        r = store_migrate(&cli->store, NULL, 0, &err);
    if (r != PR_OK)
        return cli_fault(&err);
    int code = fill(cli, count);
    return code != EXIT_DONE ? code : drain(cli, count);
}

/* The directory was created here: everything in it is removed. */
static void remove_files(const char *directory)
{
    DIR *list = opendir(directory);

    for (const struct dirent *entry; list != NULL && (entry = readdir(list)) != NULL;)
        if (entry->d_name[0] != '.')
            (void)unlinkat(dirfd(list), entry->d_name, 0); /* if a file stays, rmdir() fails; it is temporary anyway */
    if (list != NULL)
        (void)closedir(list);
    (void)rmdir(directory);
}

int run_bench(struct cli *cli)
{
    const char *tmp = getenv("TMPDIR"), *text = cli->flags.values[FLAG_COUNT];
    char directory[4096], *end = NULL;
    uint64_t count = text != NULL ? strtoull(text, &end, 10) : BENCH_COUNT;

    if ((end != NULL && *end != '\0') || count == 0 || count > BENCH_COUNT_MAX)
        return cli_usage(cli, "--count: \"%s\" is not a number from 1 to %d", text, BENCH_COUNT_MAX);
    (void)snprintf(directory, sizeof(directory), "%s/postrider-bench-XXXXXX",
                   tmp != NULL && tmp[0] == '/' ? tmp : "/tmp");
    if (mkdtemp(directory) == NULL) {
        cli_say("cannot create %s: %s", directory, strerror(errno));
        return EXIT_FAILED;
    }
    cli_forget_environment();
    runtime_tune_process();
    int code = bench(cli, directory, count);
    store_close(&cli->store);
    remove_files(directory);
    return code;
}
