/* handlers.h - an engine with two endpoints, orders and alerts, whose handlers fail a given number of times. */
#ifndef TEST_LIB_HANDLERS_H
#define TEST_LIB_HANDLERS_H

#include <pthread.h>
#include <stdatomic.h>

#include "place.h"

#define WAIT_US PR_SECONDS(90)

struct test_handler {
    atomic_int calls, fail;
    enum pr_reason reason;
    int reached;      /* before it fails */
    pthread_t thread; /* that called it last */
    char headers[512];
};

/* more: options of the endpoint orders, each with a comma before it. */
struct pr_engine *make(const struct place *p, const char *more, struct test_handler *orders,
                       struct test_handler *alerts);
void begin(struct pr_engine *engine);
void add(struct pr_engine *engine, const char *endpoint, struct pr_rule *rule);
enum pr_sent send_message(struct pr_engine *engine, const char *to, const char *stream, int want);
void drain(struct pr_engine *engine);

#endif
