#include "drain.h"

#include <stdio.h>
#include <time.h>

#include "base/error.h"
#include "base/slice.h"

#define DRAIN_TIMEOUT_US PR_MINUTES(10)
#define STOP_TIMEOUT_US PR_MINUTES(1) /* a commit can take long while the disk catches up */
#define GLANCE_US 2000                /* between two looks at the counters, which take time from those at work */

/* The endpoint "poison" never takes anything. */
static int refuse(struct pr_context *context, const struct pr_message *message, void *user)
{
    (void)message;
    (void)user;
    return pr_fail(context, PR_REASON_HANDLER_EXCEPTION, "this message is poison");
}

/* Takes what is flaky at its second attempt. */
static int refuse_once(struct pr_context *context, const struct pr_message *message, void *user)
{
    (void)user;
    if (message->failures > 0 || !slice_eq(message->type, PR_STR("bench.flaky")))
        return PR_OK;
    return pr_fail(context, PR_REASON_DEPENDENCY_FAILURE, "this message fails once");
}

static const char *ended;

void drain_set_ended(const char *span)
{
    ended = span;
}

struct pr_engine *drain_start(const char *url)
{
    return drain_start_at(url, "{url: \"null:\"}");
}

struct pr_engine *drain_start_at(const char *url, const char *sink)
{
    char config[2048];
    struct pr_error error;
    snprintf(config, sizeof config,
             "store: \"%s\"\n"
             "endpoints:\n"
             "  sink: %s\n"
             "  poison: {url: \"handler:poison\", retry: [20ms, 20ms, 20ms, 20ms]}\n"
             "routes: [{to: sink}]\n"
             "log: {level: error}\n"
             "%s%s\n",
             url, sink, ended != NULL ? "ended: " : "", ended != NULL ? ended : "");
    struct pr_engine *engine = pr_engine_new(config, &error);
    if (engine == NULL || pr_engine_handle_named(engine, "poison", refuse, NULL) < 0 ||
        pr_engine_handle_named(engine, "flaky", refuse_once, NULL) < 0 || pr_engine_start(engine, &error) < 0)
        die("%s", error.text);
    return engine;
}

void drain_stop(struct pr_engine *engine)
{
    if (pr_engine_stop(engine, STOP_TIMEOUT_US) != PR_OK)
        die("the engine did not stop");
    pr_engine_free(engine);
}

void drain_wait(struct pr_engine *engine)
{
    struct pr_error error;
    int rc = pr_engine_drain(engine, DRAIN_TIMEOUT_US, &error);
    if (rc != PR_OK)
        die("draining: %s", rc < 0 ? error.text : "timeout");
}

double drain_seconds(const char *url)
{
    double begin = seconds_now();
    struct pr_engine *engine = drain_start(url);
    drain_wait(engine);
    double seconds = seconds_now() - begin;
    drain_stop(engine);
    return seconds;
}

uint64_t drain_sent(struct pr_engine *engine)
{
    struct pr_engine_counts counts;
    pr_engine_counts(engine, &counts);
    return counts.sent;
}

uint64_t drain_sent_at(struct pr_engine *engine, uint64_t at_least, double *ret_seconds)
{
    double deadline = seconds_now() + DRAIN_TIMEOUT_US / 1e6;
    uint64_t sent;
    do {
        nanosleep(&(struct timespec){ .tv_nsec = GLANCE_US * 1000 }, NULL);
        sent = drain_sent(engine);
        *ret_seconds = seconds_now();
        if (*ret_seconds > deadline)
            die("draining: timeout");
    } while (sent < at_least);
    return sent;
}

double drain_next_rate(struct pr_engine *engine, uint64_t sent, size_t count)
{
    double begin, end;
    uint64_t first = drain_sent_at(engine, sent + 1, &begin);
    uint64_t last = drain_sent_at(engine, sent + count, &end);
    return (double)(last - first) / (end - begin);
}

double drain_part_rate(const char *url, size_t count)
{
    struct pr_engine *engine = drain_start(url);
    double rate = drain_next_rate(engine, 0, count);
    drain_stop(engine);
    return rate;
}
