#include "ops/api/http_front.h"

#include <stdlib.h>

#include "base/error.h"
#include "ops/watch/watchdog.h"
#include "ops/api/server.h"

struct http_front {
    struct server *server;     /* NULL: no API */
    struct watchdog *watchdog; /* NULL: no messages are raised */
};

static void http_front_stop(void *self)
{
    struct http_front *f = self;
    if (f == NULL)
        return;
    watchdog_stop(f->watchdog);
    if (f->server != NULL)
        http_server_stop(f->server);
    free(f);
}

static int http_front_start(struct runtime *rt, const struct config *config, struct log *log, void **ret_self,
                            struct pr_error *reterr)
{
    struct http_front *f = calloc(1, sizeof *f);
    int rc = f != NULL ? PR_OK : error_set(reterr, PR_ENOMEM, "out of memory for http");
    if (rc == PR_OK && config->http_listen[0] != '\0')
        rc = http_server_start(rt, config, log, &f->server, reterr);
    if (rc == PR_OK && config->watch.raise_type[0] != '\0')
        rc = watchdog_start(rt, log, &f->watchdog, reterr);
    if (rc == PR_OK)
        *ret_self = f;
    else
        http_front_stop(f);
    return rc;
}

/* The watchdog reads the configuration each time. */
static int http_front_retune(void *self, const struct config *config, struct pr_error *reterr)
{
    struct http_front *f = self;
    return f->server != NULL ? server_retune(f->server, config, reterr) : PR_OK;
}

static unsigned http_front_port(const void *self)
{
    const struct http_front *f = self;
    return f->server != NULL ? server_port(f->server) : 0;
}

const struct runtime_front ops_http_front = {
    .start = http_front_start,
    .retune = http_front_retune,
    .stop = http_front_stop,
    .port = http_front_port,
};
