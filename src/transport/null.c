/* null: everything is delivered at once, to nowhere.  For measuring the cost of everything else. */
#include "transport/delivery.h"

#define NULL_CONCURRENCY 4096 /* taken and not yet polled */

struct null {
    const struct endpoint_config *config;
    struct delivery_queue waiting;
};

static int null_open(void *self, const struct endpoint_config *config, struct pr_error *reterr)
{
    struct null *n = self;
    n->config = config;
    return delivery_queue_init(&n->waiting, config->concurrency != 0 ? config->concurrency : NULL_CONCURRENCY, reterr);
}

static void null_close(void *self)
{
    struct null *n = self;
    delivery_queue_fini(&n->waiting);
}

static size_t null_submit(void *self, const struct delivery *const *list, size_t count)
{
    struct null *n = self;
    return delivery_queue_push(&n->waiting, list, count);
}

static size_t null_poll(void *self, struct delivery_result *ret, size_t max, int64_t deadline_us)
{
    struct null *n = self;
    const struct delivery *d;
    bool may_start;
    size_t count = 0;

    if (n->waiting.count == 0)
        wait_until(-1, 0, n->config->wake_fd, config_clock(n->config), deadline_us);
    int64_t now_us = clock_mono_us(config_clock(n->config));
    while (count < max && (d = delivery_queue_peek(&n->waiting, now_us, &may_start)) != NULL) {
        if (may_start)
            result_ok(&ret[count++], d->token);
        else
            result_returned(&ret[count++], d->token);
        delivery_queue_drop(&n->waiting);
    }
    return count;
}

static void null_cancel(void *self)
{
    struct null *n = self;
    delivery_queue_cancel(&n->waiting);
}

const struct transport_ops transport_null = {
    .scheme = "null",
    .size = sizeof(struct null),
    .promises = TRANSPORT_ORDERED | TRANSPORT_LOSSY,
    .concurrency = NULL_CONCURRENCY,
    .open = null_open,
    .close = null_close,
    .submit = null_submit,
    .poll = null_poll,
    .cancel = null_cancel,
};
