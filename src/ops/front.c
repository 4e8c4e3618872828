#include "ops/front.h"

#include <stdlib.h>

#include "base/error.h"
#include "ops/sentry.h"
#include "ops/server.h"

struct front {
    struct server *server; /* NULL: nobody listens */
    struct sentry *sentry; /* NULL: nothing is raised */
};

static void front_stop(void *self)
{
    struct front *f = self;
    if (f == NULL)
        return;
    sentry_stop(f->sentry);
    if (f->server != NULL)
        http_server_stop(f->server);
    free(f);
}

static int front_start(struct runtime *rt, const struct config *config, struct log *log, void **ret_self,
                       struct pr_error *reterr)
{
    struct front *f = calloc(1, sizeof *f);
    int rc = f != NULL ? PR_OK : error_set(reterr, PR_ENOMEM, "no memory for http");
    if (rc == PR_OK && config->http_listen[0] != '\0')
        rc = http_server_start(rt, config, log, &f->server, reterr);
    if (rc == PR_OK && config->watch.raise_type[0] != '\0')
        rc = sentry_start(rt, log, &f->sentry, reterr);
    if (rc == PR_OK)
        *ret_self = f;
    else
        front_stop(f);
    return rc;
}

/* The sentry asks for the configuration each time. */
static int front_retune(void *self, const struct config *config, struct pr_error *reterr)
{
    struct front *f = self;
    return f->server != NULL ? server_retune(f->server, config, reterr) : PR_OK;
}

static unsigned front_port(const void *self)
{
    const struct front *f = self;
    return f->server != NULL ? server_port(f->server) : 0;
}

const struct runtime_front ops_front = {
    .start = front_start,
    .retune = front_retune,
    .stop = front_stop,
    .port = front_port,
};
