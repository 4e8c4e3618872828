/* box: the destination is another box of the same store.  The engine delivers in the cycle that completes the message
 * (engine/local.c), so there is nothing to open; this file only makes the configuration known. */
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "transport/delivery.h"

#define BOX_CONCURRENCY 1000 /* not used: its messages are never out */

static int box_check(const struct endpoint_config *config, struct pr_error *reterr)
{
    pr_slice name = transport_box(config->url);
    if (!name_is_valid(name))
        return error_set(reterr, PR_ECONFIG,
                         "endpoint %s: \"%s\" does not name a box; write box:NAME, with a name under boxes",
                         config->name, config->url);
    return PR_OK;
}

static int box_open(void *self, const struct endpoint_config *config, struct pr_error *reterr)
{
    (void)self;
    return error_set(
        reterr, PR_EUNSUPPORTED,
        "endpoint %s: its messages go into another box with the commit that completes them; nothing can be "
        "sent there directly",
        config->name);
}

static void box_close(void *self)
{
    (void)self;
}

static size_t box_submit(void *self, const struct delivery *const *list, size_t count)
{
    (void)self, (void)list, (void)count;
    return 0;
}

static size_t box_poll(void *self, struct delivery_result *ret, size_t max, int64_t deadline_us)
{
    (void)self, (void)ret, (void)max, (void)deadline_us;
    return 0;
}

const struct transport_ops transport_local_box = {
    .scheme = "box",
    .size = 1,
    .promises = TRANSPORT_LOCAL,
    .concurrency = BOX_CONCURRENCY,
    .check = box_check,
    .open = box_open,
    .close = box_close,
    .submit = box_submit,
    .poll = box_poll,
    .cancel = box_close,
};
