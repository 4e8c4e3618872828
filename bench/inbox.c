/* Handling the messages of a box, on SQLite and, with a server, on PostgreSQL: by a C function, with dedupe, over HTTP
 * to a receiver (push) and to workers that claim (pull).  The reference is the same backlog drained to nowhere. */
#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "bare.h"
#include "base/buf.h"
#include "carrier.h"
#include "drain.h"
#include "report.h"
#ifdef BENCH_POSTGRES
#include "pgbare.h"
#endif

#define HANDLE_AT_LEAST 0.5
#define DEDUPE_AT_LEAST 0.4
#define PUSH_AT_LEAST 3000.0
#define PULL_AT_LEAST 10000.0
#define PUSH_MESSAGES 20000
#define PULL_MESSAGES 50000
#define PULL_WORKERS 4
#define PULL_BATCH 200

/* ---- The two stores ------------------------------------------------------------------------------- */

struct ground {
    const char *name;
    void (*fill)(const struct bench *b, size_t count);
    const char *(*fresh)(const struct bench *b); /* the url of a copy */
    void (*remove)(const struct bench *b);
};

static void sqlite_fill(const struct bench *b, size_t count)
{
    bare_fill(bench_path(b, "backlog.db"), &(struct stock){ .count = count });
}

static const char *sqlite_fresh(const struct bench *b)
{
    bare_copy(bench_path(b, "backlog.db"), bench_path(b, "run.db"));
    return bare_url(bench_path(b, "run.db"));
}

static void sqlite_remove(const struct bench *b)
{
    bare_remove(bench_path(b, "backlog.db"));
    bare_remove(bench_path(b, "run.db"));
}

#ifdef BENCH_POSTGRES
static void postgres_fill(const struct bench *b, size_t count)
{
    (void)b;
    pgbare_fill("backlog", count);
}

static const char *postgres_fresh(const struct bench *b)
{
    (void)b;
    pgbare_copy("backlog", "run");
    return pgbare_url("run");
}

static void postgres_remove(const struct bench *b)
{
    (void)b;
    pgbare_remove("backlog");
    pgbare_remove("run");
}
#endif

static const struct ground grounds[] = {
    { "sqlite", sqlite_fill, sqlite_fresh, sqlite_remove },
#ifdef BENCH_POSTGRES
    { "postgres", postgres_fill, postgres_fresh, postgres_remove },
#endif
};

/* ---- Engines ----------------------------------------------------------------------------------------- */

static int take(struct pr_context *context, const struct pr_message *message, void *user)
{
    (void)context, (void)message, (void)user;
    return PR_OK;
}

static struct pr_engine *start(const char *url, const char *sink, const char *dedupe, unsigned port)
{
    char config[2048], listen[64] = "";
    struct pr_error error;
    if (port != 0)
        snprintf(listen, sizeof listen, "http: {listen: \"127.0.0.1:%u\"}\n", port);
    snprintf(config, sizeof config,
             "store: \"%s\"\nboxes: {outbox: {dedupe: %s}}\nendpoints:\n  sink: %s\nroutes: [{to: sink}]\n"
             "log: {level: error}\n%s",
             url, dedupe, sink, listen);
    struct pr_engine *engine = pr_engine_new(config, &error);
    if (engine == NULL || pr_engine_handle_named(engine, "take", take, NULL) < 0 || pr_engine_start(engine, &error) < 0)
        die("%s", error.text);
    return engine;
}

static double drain_rate(const struct bench *b, const struct ground *g, const char *sink, const char *dedupe)
{
    const char *url = g->fresh(b);
    double begin = seconds_now();
    struct pr_engine *engine = start(url, sink, dedupe, 0);
    drain_wait(engine);
    double rate = (double)b->messages / (seconds_now() - begin);
    drain_stop(engine);
    return rate;
}

/* Of a measurement: it lives as long as the report. */
static const char *name_of(const char *what, const struct ground *g)
{
    char *name = NULL;
    if (asprintf(&name, "inbox_%s_%s", what, g->name) < 0)
        die("no memory for a name");
    return name;
}

static void measure_handling(const struct bench *b, const struct ground *g)
{
    double nowhere[BENCH_ROUNDS_MAX], handler[BENCH_ROUNDS_MAX], dedupe[BENCH_ROUNDS_MAX], marks[BENCH_ROUNDS_MAX];
    for (size_t i = 0; i < b->rounds; i++) {
        nowhere[i] = drain_rate(b, g, "{url: \"null:\"}", "none");
        handler[i] = drain_rate(b, g, "{url: \"handler:take\"}", "none");
        dedupe[i] = drain_rate(b, g, "{url: \"handler:take\"}", "24h");
        marks[i] = drain_rate(b, g, "{url: \"null:\"}", "24h");
        progress(b, "%s %zu/%zu: drained %.0f/s, handled %.0f/s, with dedupe %.0f/s (drained %.0f/s)", g->name, i + 1,
                 b->rounds, nowhere[i], handler[i], dedupe[i], marks[i]);
    }
    report_turns(name_of("handle", g), handler, nowhere, b->rounds, "messages/s", BOUND_AT_LEAST, HANDLE_AT_LEAST);
    report_turns(name_of("dedupe", g), dedupe, nowhere, b->rounds, "messages/s", BOUND_AT_LEAST, DEDUPE_AT_LEAST);
    report_turns(name_of("drain_dedupe", g), marks, nowhere, b->rounds, "messages/s", BOUND_NONE, 0);
}

/* ---- Push ----------------------------------------------------------------------------------------------- */

static void measure_push(const struct bench *b, const struct ground *g)
{
    struct site site = { .bench = b };
    const char *why = carrier_http.open(&site);
    if (why != NULL) {
        progress(b, "push is left out: %s", why);
        return;
    }
    struct pr_engine *engine = start(g->fresh(b), site.sink, "24h", 0);
    double rate = drain_next_rate(engine, 0, PUSH_MESSAGES);
    drain_stop(engine);
    carrier_http.close(&site);
    progress(b, "%s: pushed %.0f/s", g->name, rate);
    report_value(name_of("push", g), rate, "messages/s", BOUND_AT_LEAST, PUSH_AT_LEAST);
}

/* ---- Pull ------------------------------------------------------------------------------------------------ */

struct pull {
    unsigned port;
    atomic_size_t done;
};

static size_t keep(char *data, size_t one, size_t size, void *arg)
{
    buf_add(arg, data, one * size);
    return one * size;
}

static void ask(CURL *curl, const struct pull *p, const char *path, const char *body, struct buf *ret)
{
    char url[128];
    long status = 0;
    snprintf(url, sizeof url, "http://127.0.0.1:%u%s", p->port, path);
    buf_reset(ret);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)strlen(body));
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, keep);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, ret);
    CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK || status != 200)
        die("%s: %s, status %ld: %.*s", path, curl_easy_strerror(code), status, (int)ret->size, ret->data);
}

/* The tokens of an answer, as the body that completes them; how many there are. */
static size_t write_completion(const struct buf *claims, struct buf *ret)
{
    size_t i;
    json_t *answer = json_loadb(claims->data, claims->size, 0, NULL), *claim;
    json_t *list = json_object_get(answer, "claims");
    buf_reset(ret);
    buf_add_cstr(ret, "{\"claims\":[");
    json_array_foreach(list, i, claim)
        buf_addf(ret, "%s{\"token\":\"%s\"}", i > 0 ? "," : "", json_string_value(json_object_get(claim, "token")));
    buf_add_cstr(ret, "]}");
    size_t count = json_array_size(list);
    json_decref(answer);
    return count;
}

static void *pull_some(void *arg)
{
    struct pull *p = arg;
    struct buf claims, body;
    CURL *curl = curl_easy_init();
    char wish[128];
    struct curl_slist *headers = curl_slist_append(NULL, "X-Postrider: 1");
    headers = curl_slist_append(headers, "Content-Type: application/json");
    headers = curl_slist_append(headers, "Expect:");
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    buf_init(&claims, 64 << 20);
    buf_init(&body, 1 << 20);
    snprintf(wish, sizeof wish, "{\"box\":\"outbox\",\"max\":%d,\"wait\":\"5s\"}", PULL_BATCH);
    while (atomic_load(&p->done) < PULL_MESSAGES) {
        ask(curl, p, "/v1/claims", wish, &claims);
        size_t count = write_completion(&claims, &body);
        if (count > 0)
            ask(curl, p, "/v1/claims/complete", body.data, &claims);
        atomic_fetch_add(&p->done, count);
    }
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    buf_fini(&claims);
    buf_fini(&body);
    return NULL;
}

static void measure_pull(const struct bench *b, const struct ground *g)
{
    struct pull p = { .port = server_free_port() };
    pthread_t workers[PULL_WORKERS];
    struct pr_engine *engine = start(g->fresh(b), "{url: \"pull:\", timeout: 30s}", "24h", p.port);
    double begin = seconds_now();
    for (size_t i = 0; i < PULL_WORKERS; i++)
        if (pthread_create(&workers[i], NULL, pull_some, &p) != 0)
            die("cannot make a thread");
    for (size_t i = 0; i < PULL_WORKERS; i++)
        pthread_join(workers[i], NULL);
    double rate = (double)atomic_load(&p.done) / (seconds_now() - begin);
    drain_stop(engine);
    progress(b, "%s: pulled %.0f/s", g->name, rate);
    report_value(name_of("pull", g), rate, "messages/s", BOUND_AT_LEAST, PULL_AT_LEAST);
}

void bench_inbox(const struct bench *b)
{
    const struct {
        const char *name;
        void (*measure)(const struct bench *b, const struct ground *g);
    } parts[] = { { "handle", measure_handling }, { "push", measure_push }, { "pull", measure_pull } };
    curl_global_init(CURL_GLOBAL_ALL);
    for (size_t i = 0; i < ARRAY_LENGTH(grounds); i++) {
        const struct ground *g = &grounds[i];
        if (strcmp(g->name, "postgres") == 0 && getenv("POSTRIDER_TEST_PG") == NULL)
            continue;
        progress(b, "making a backlog of %zu messages on %s", b->messages, g->name);
        g->fill(b, b->messages);
        for (size_t k = 0; k < ARRAY_LENGTH(parts); k++)
            if (b->only == NULL || strcmp(b->only, parts[k].name) == 0)
                parts[k].measure(b, g);
        g->remove(b);
    }
}
