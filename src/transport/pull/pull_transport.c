/* pull: receivers claim the messages, see pull.h.  `timeout` is the duration of a claim. */
#include "base/error.h"
#include "base/slice.h"
#include "transport/delivery.h"
#include "transport/pull/pull.h"

#include <poll.h>
#include <string.h>

/* Messages that are not asked for are not handed out: the box's own limits apply first. */
#define PULL_CONCURRENCY 10000

struct puller {
    const struct endpoint_config *config;
    struct pull_shelf *shelf;
};

static int puller_check(const struct endpoint_config *config, struct pr_error *reterr)
{
    if (strcmp(config->url, "pull:") != 0)
        return error_set(reterr, PR_ECONFIG, "endpoint %s: url must be \"pull:\", with nothing after it", config->name);
    return PR_OK;
}

static int puller_open(void *self, const struct endpoint_config *config, struct pr_error *reterr)
{
    struct puller *t = self;
    t->config = config;
    if (config->pull != NULL && config->box != NULL)
        t->shelf = pull_shelf_find(config->pull, slice_from(config->name), slice_from(config->box));
    if (t->shelf == NULL)
        return error_set(reterr, PR_EUNSUPPORTED,
                         "endpoint %s: its messages are claimed over HTTP from a running daemon; nothing can be sent "
                         "there directly",
                         config->name);
    return PR_OK;
}

static void puller_close(void *self)
{
    struct puller *t = self;
    if (t->shelf != NULL)
        pull_shelf_cancel(t->shelf, t);
}

static size_t puller_submit(void *self, const struct delivery *const *list, size_t count)
{
    struct puller *t = self;
    return pull_shelf_offer(t->shelf, t->config, t, list, count);
}

static size_t puller_poll(void *self, struct delivery_result *ret, size_t max, int64_t deadline_us)
{
    struct puller *t = self;
    int64_t next_us;
    size_t count = pull_shelf_collect(t->shelf, t, ret, max, &next_us);
    if (count > 0)
        return count;
    wait_until(pull_shelf_fd(t->shelf), POLLIN, t->config->wake_fd, config_clock(t->config),
               min64(deadline_us, next_us));
    return pull_shelf_collect(t->shelf, t, ret, max, &next_us);
}

static void puller_cancel(void *self)
{
    struct puller *t = self;
    pull_shelf_cancel(t->shelf, t);
}

const struct transport_ops transport_pull = {
    .scheme = "pull",
    .size = sizeof(struct puller),
    .promises = TRANSPORT_ASKED,
    .concurrency = PULL_CONCURRENCY,
    .check = puller_check,
    .open = puller_open,
    .close = puller_close,
    .submit = puller_submit,
    .poll = puller_poll,
    .cancel = puller_cancel,
};
