#include "handlers.h"

#include <stdio.h>
#include <string.h>

static int handle(struct pr_context *context, const struct pr_message *m, void *user)
{
    struct test_handler *d = user;
    d->calls++;
    d->thread = pthread_self();
    snprintf(d->headers, sizeof d->headers, "%.*s", (int)m->headers.size, m->headers.size > 0 ? m->headers.data : "");
    if (d->fail > 0) {
        d->fail--;
        pr_reached(context, d->reached);
        return pr_fail(context, d->reason, "the handler said no");
    }
    return PR_OK;
}

struct pr_engine *make(const struct place *p, const char *more, struct test_handler *orders,
                       struct test_handler *alerts)
{
    char config[2048];
    struct pr_error error;
    snprintf(config, sizeof config,
             "store: \"%s\"\n"
             "endpoints:\n"
             "  orders: {url: \"handler:orders\", %sretry: {base: 1h, jitter: 0}%s}\n"
             "  alerts: {url: \"handler:alerts\"}\n",
             p->url, strstr(more, "breaker:") == NULL ? "breaker: off, " : "", more);
    struct pr_engine *engine = pr_engine_new(config, &error);
    if (engine == NULL)
        check_fail(__FILE__, __LINE__, "%s", error.text);
    CHECK_EQ(pr_engine_handle_named(engine, "orders", handle, orders), PR_OK);
    CHECK_EQ(pr_engine_handle_named(engine, "alerts", handle, alerts), PR_OK);
    return engine;
}

void begin(struct pr_engine *engine)
{
    struct pr_error error;
    CHECK_OK(pr_engine_start(engine, &error), &error);
}

void add(struct pr_engine *engine, const char *endpoint, struct pr_rule *rule)
{
    struct pr_error error;
    CHECK_OK(pr_engine_rule(engine, endpoint, rule, &error), &error);
}

enum pr_sent send_message(struct pr_engine *engine, const char *to, const char *stream, int want)
{
    struct pr_message m = {
        .type = PR_STR("order.created"), .destination = pr_str(to), .stream = pr_str(stream), .payload = PR_STR("{}")
    };
    struct pr_error error;
    enum pr_sent sent;
    pr_id id;
    int rc = pr_engine_send(engine, NULL, &m, &id, &sent, &error);
    if (rc != want)
        check_fail(__FILE__, __LINE__, "pr_engine_send: %d %s", rc, rc < 0 ? error.text : "");
    return sent;
}

void drain(struct pr_engine *engine)
{
    struct pr_error error;
    CHECK_OK(pr_engine_drain(engine, WAIT_US, &error), &error);
}
