/* Flows, in the shapes that are used to measure other products: a fan-out of five empty activities and one activity, 20
 * flows at a time, each started and waited for by a client; and a chain of activities, one after the other, by the
 * length of its history. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <postrider_flow.h>

#include "bench.h"
#include "report.h"
#include "sleeping.h"

#define CLIENTS 20 /* flows at a time */
#define FAN_OUT 5
#define CHAIN 5000 /* steps: two events each, so the history has 10,000 */
#define CHAIN_PARTS 5
#define FLOW_WAIT_US PR_SECONDS(60)
#define PAGE_CACHE_MB                                                                                                  \
    20 /* 16 MiB of pages: the first look through the box fills it, if there are so many rows, and no more */

static int empty(struct pr_activity_context *context, pr_slice input, pr_slice *ret_output, void *user)
{
    (void)context;
    (void)user;
    *ret_output = input;
    return PR_OK;
}

static int fan_out(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_task tasks[FAN_OUT];
    for (size_t i = 0; i < FAN_OUT; i++)
        tasks[i] = pr_activity(f, "empty", input);
    *ret_output = input;
    return pr_all(f, FAN_OUT, tasks);
}

static int one(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    return pr_call(f, "empty", input, ret_output);
}

static _Atomic double chain_at[CHAIN_PARTS + 1]; /* when so many parts of it were done */

static int chain(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    chain_at[0] = chain_at[0] > 0 ? chain_at[0] : seconds_now();
    for (size_t i = 1; i <= CHAIN; i++) {
        int rc = pr_call(f, "empty", input, ret_output);
        if (rc != PR_OK)
            return rc;
        size_t part = i / (CHAIN / CHAIN_PARTS);
        if (i % (CHAIN / CHAIN_PARTS) == 0 && !(chain_at[part] > 0))
            chain_at[part] = seconds_now();
    }
    return PR_OK;
}

/* ---- Clients ---------------------------------------------------------------------------------------- */

struct load {
    struct pr_flow_client *client;
    const char *flow;
    double until;
    atomic_size_t done;
};

static void run_one(struct load *load)
{
    struct pr_error error;
    struct pr_flow_status status;
    char id[PR_FLOW_ID_SIZE];
    const struct pr_flow_start start = { .name = load->flow, .input = PR_STR("input") };
    if (pr_flow_start(load->client, &start, id, &error) != PR_OK)
        die("a flow cannot be started: %s", error.text);
    int rc = pr_flow_wait(load->client, id, -1, FLOW_WAIT_US, &status, &error);
    if (rc != PR_OK || status.state != PR_FLOW_COMPLETED)
        die("flow %s has not completed: %d", id, rc);
    pr_flow_status_free(&status);
}

static void *client_main(void *arg)
{
    struct load *load = arg;
    while (seconds_now() < load->until) {
        run_one(load);
        atomic_fetch_add(&load->done, 1);
    }
    return NULL;
}

/* Flows per second. */
static double measure_load(struct pr_flow_client *client, const char *flow, double seconds)
{
    struct load load = { .client = client, .flow = flow };
    pthread_t threads[CLIENTS];
    double begun = seconds_now();
    load.until = begun + seconds;
    for (size_t i = 0; i < CLIENTS; i++)
        if (pthread_create(&threads[i], NULL, client_main, &load) != 0)
            die("cannot start a thread");
    for (size_t i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    return (double)load.done / (seconds_now() - begun);
}

/* ---- A store ------------------------------------------------------------------------------------------ */

struct goals {
    const char *name;
    double fan_out, one; /* flows per second, at least; 0: none */
    double step_ms;      /* at most; 0: none */
};

static struct pr_engine *start_engine(const char *url)
{
    char config[2048];
    struct pr_error error;
    snprintf(config, sizeof config, "store: \"%s\"\n", url);
    struct pr_engine *engine = pr_engine_new(config, &error);
    if (engine == NULL)
        die("%s", error.text);
    if (pr_engine_flow(engine, "fan_out", NULL, fan_out, NULL) != PR_OK ||
        pr_engine_flow(engine, "one", NULL, one, NULL) != PR_OK ||
        pr_engine_flow(engine, "chain", NULL, chain, NULL) != PR_OK ||
        pr_engine_activity(engine, "empty", empty, NULL) != PR_OK)
        die("flows cannot be registered");
    if (pr_engine_start(engine, &error) != PR_OK)
        die("%s", error.text);
    return engine;
}

/* The report keeps the names until the end. */
static const char *name_of(const char *format, const char *store, const char *shape, size_t events)
{
    char *name = NULL;
    if (asprintf(&name, format, store, shape, events) < 0)
        die("out of memory");
    return name;
}

static void report_rate(const char *store, const char *shape, double rate, double goal)
{
    report_value(name_of("flow_%s_%s", store, shape, 0), rate, "flows/s", goal > 0 ? BOUND_AT_LEAST : BOUND_NONE, goal);
}

static void measure_chain(struct pr_flow_client *client, const struct goals *goals)
{
    struct load load = { .client = client, .flow = "chain" };
    for (size_t i = 0; i <= CHAIN_PARTS; i++)
        chain_at[i] = 0;
    run_one(&load);
    for (size_t i = 1; i <= CHAIN_PARTS; i++) {
        size_t steps = CHAIN / CHAIN_PARTS;
        report_value(name_of("flow_%s_%s_at_%zu_events", goals->name, "step", 2 * steps * i),
                     (chain_at[i] - chain_at[i - 1]) / (double)steps * 1e3, "ms",
                     goals->step_ms > 0 ? BOUND_AT_MOST : BOUND_NONE, goals->step_ms);
    }
}

static bool is_wanted(const struct bench *b, const char *part)
{
    return b->only == NULL || strcmp(b->only, part) == 0;
}

static void measure_store(const struct bench *b, const char *url, const struct goals *goals)
{
    struct pr_error error;
    struct pr_flow_client *client;
    double seconds = b->quick ? 2 : 10;
    progress(b, "flows on %s", goals->name);
    struct pr_engine *engine = start_engine(url);
    if (pr_flow_client_open(url, &client, &error) != PR_OK)
        die("%s", error.text);
    (void)measure_load(client, "one", 0.5); /* warm */
    if (is_wanted(b, "fan_out"))
        report_rate(goals->name, "fan_out_5", measure_load(client, "fan_out", seconds), goals->fan_out);
    if (is_wanted(b, "one"))
        report_rate(goals->name, "one_activity", measure_load(client, "one", seconds), goals->one);
    if (is_wanted(b, "chain"))
        measure_chain(client, goals);
    pr_flow_client_close(client);
    pr_engine_stop(engine, PR_SECONDS(5));
    pr_engine_free(engine);
}

static void measure_sleeping(const struct bench *b, const char *store)
{
    char url[1024];
    snprintf(url, sizeof url, "sqlite:%s?synchronous=normal", bench_path(b, "sleeping.db"));
    if (store == NULL || strcmp(store, "normal") == 0)
        sleeping_measure(b,
                         &(struct sleeping_place){ .name = "sqlite", .url = url, .memory_at_most_mb = PAGE_CACHE_MB });
    if (getenv("POSTRIDER_TEST_PG") != NULL && (store == NULL || strcmp(store, "postgres") == 0))
        sleeping_postgres(b);
}

void bench_flow(const struct bench *b)
{
    static const struct goals normal = { "sqlite_normal", 3000, 0, 1 }, full = { "sqlite_full", 1000, 0, 0 },
                              postgres = { "postgres", 1000, 3000, 3 };
    const char *server = getenv("POSTRIDER_TEST_PG"), *store = getenv("FLOW_STORE");
    char url[1024];
    if (is_wanted(b, "sleeping")) /* first, while this process is small: the others begin as it is */
        measure_sleeping(b, store);
    if (b->only != NULL && strcmp(b->only, "sleeping") == 0)
        return;
    if (store == NULL || strcmp(store, "normal") == 0) {
        snprintf(url, sizeof url, "sqlite:%s?synchronous=normal", bench_path(b, "normal.db"));
        measure_store(b, url, &normal);
    }
    if (store == NULL || strcmp(store, "full") == 0) {
        snprintf(url, sizeof url, "sqlite:%s", bench_path(b, "full.db"));
        measure_store(b, url, &full);
    }
    if (server != NULL && (store == NULL || strcmp(store, "postgres") == 0)) {
        snprintf(url, sizeof url, "%s%cschema=bench_flow", server, strchr(server, '?') != NULL ? '&' : '?');
        measure_store(b, url, &postgres);
    }
}
