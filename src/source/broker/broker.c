#include "source/broker/broker.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/transport.h"

#define TROUBLE_FIRST_US PR_MILLISECONDS(100)
#define TROUBLE_LAST_US PR_SECONDS(5)
#define KEEP_BATCH_US PR_SECONDS(10)  /* shorter than brokers wait for an acknowledgement */
#define LOOK_AGAIN_US PR_SECONDS(1)   /* while the box is full, and after it may have become full */
#define LOOK_LATEST_US PR_SECONDS(10) /* other programs may fill it, too */

/* ---- The url ------------------------------------------------------------------------------------------ */

/* "redis:orders" */
static const char *name_of(const struct broker_ops *ops, const struct broker_url *url, struct arena *arena)
{
    pr_slice address = ops->address(url);
    return arena_printf(arena, "%s:%.*s", ops->kind, SLICE_ARGS(address)).data;
}

int broker_check(const struct broker_ops *ops, const struct source_config *source, struct arena *arena,
                 const char **ret_name, struct pr_error *reterr)
{
    struct endpoint_config config = {
        .name = ops->kind, .role = "source", .url = source->urls[source->kind], .wake_fd = -1
    };
    struct broker_url *parsed = arena_alloc(arena, sizeof(*parsed));
    if (parsed == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for the url of a source");
    int rc = ops->parse(&config, arena, parsed, reterr);
    if (rc == PR_OK && ops->check != NULL)
        rc = ops->check(source, parsed, arena, reterr);
    if (rc == PR_OK && (*ret_name = name_of(ops, parsed, arena)) == NULL)
        rc = error_set(reterr, PR_ENOMEM, "out of memory for the url of a source");
    return rc;
}

int broker_check_start(const struct endpoint_config *config, const struct broker_url *url, struct pr_error *reterr)
{
    pr_slice start = broker_url_param(url, "start", "first");
    return slice_eq_cstr(start, "first") || slice_eq_cstr(start, "new")
               ? PR_OK
               : error_set(reterr, PR_ECONFIG, "%s: start in the url must be first or new",
                           endpoint_title(config).text);
}

size_t broker_message_max(const struct broker *b)
{
    return 2 * b->source->payload_max + 4 * (size_t)PR_HEADERS_MAX;
}

bool broker_starts_at_first(const struct broker_url *url)
{
    return slice_eq_cstr(broker_url_param(url, "start", "first"), "first");
}

int broker_open(struct source *source, const struct broker_ops *ops, void **ret_self, struct pr_error *reterr)
{
    struct broker *b = calloc(1, sizeof(*b));
    void *self = calloc(1, ops->size);
    if (b == NULL || self == NULL) {
        free(b);
        free(self);
        return error_set(reterr, PR_ENOMEM, "source %s: out of memory", source->config->name);
    }
    b->ops = ops;
    b->self = self;
    b->source = source;
    b->config = (struct endpoint_config){ .name = source->config->name,
                                          .role = "source",
                                          .url = source->config->urls[source->config->kind],
                                          .log = source->log,
                                          .wake_fd = -1 };
    arena_init(&b->arena, 1024);
    int rc = ops->parse(&b->config, &b->arena, &b->url, reterr);
    if (rc == PR_OK)
        rc = intake_init(&b->intake, source, reterr);
    if (rc == PR_OK)
        rc = ops->open(self, b, reterr);
    if (rc == PR_OK)
        *ret_self = b;
    else
        broker_close(b);
    return rc;
}

void broker_close(void *self)
{
    struct broker *b = self;
    b->ops->close(b->self);
    free(b->self);
    intake_fini(&b->intake);
    arena_fini(&b->arena);
    free(b);
}

/* ---- Back-pressure --------------------------------------------------------------------------------------- */

/* Counting is expensive: it is done when the known room may be used up, and from time to time. */
static int look(struct broker *b, int64_t now_us, struct pr_error *reterr)
{
    struct arena arena;
    struct query_reply reply = { 0 };
    struct query query = {
        .kind = QUERY_ROWS,
        .filter = { .box = slice_from(b->source->config->box), .state = -1, .limit = (size_t)b->source->waiting_max }
    };
    arena_init(&arena, 1024);
    int rc = store_query(b->source->store, &query, &arena, &reply, reterr);
    arena_fini(&arena);
    if (rc == PR_EUNSUPPORTED) { /* a store for simulations: sources never wait there */
        reply.total = 0;
        rc = PR_OK;
    }
    if (rc != PR_OK)
        return rc;
    b->looked_us = now_us;
    b->room = (int64_t)b->source->waiting_max - (int64_t)reply.total;
    return PR_OK;
}

/* PR_OK: `room` is current, or nearly so. */
static int know_room(struct broker *b, struct pr_error *reterr)
{
    int64_t now_us = clock_mono_us(clock_system()), since_us = now_us - b->looked_us;
    if (b->looked_us != 0 && since_us < (b->room > 0 ? LOOK_LATEST_US : LOOK_AGAIN_US))
        return PR_OK;
    return look(b, now_us, reterr);
}

static void tell_held(struct broker *b, bool is_held)
{
    if (source_hold(b->source, is_held))
        log_emit(b->source->log, is_held ? LOG_WARN : LOG_INFO, is_held ? "source_held" : "source_goes_on",
                 LOG_STR("source", b->source->config->name), LOG_STR("box", b->source->config->box),
                 LOG_INT("limit", b->source->waiting_max));
}

/* ---- The loop ----------------------------------------------------------------------------------------------- */

static void tell_trouble(struct broker *b, const struct pr_error *error)
{
    if (source_trouble(b->source, error))
        log_emit(b->source->log, LOG_ERROR, "source_failing", LOG_STR("source", b->source->config->name),
                 LOG_STR("error", error->text));
}

/* It starts over, after a growing pause. */
static int64_t trouble(struct broker *b, int wake_fd, int64_t pause_us, const struct pr_error *error)
{
    b->ops->drop(b->self);
    if (source_rest(wake_fd, 0)) /* a wake-up was the reason */
        return 0;
    tell_trouble(b, error);
    return min64(max64(2 * pause_us, TROUBLE_FIRST_US), TROUBLE_LAST_US);
}

/* S4.  For a while the batch is kept and tried again, so that a short outage of the store causes no redelivery, which
 * would be late at some brokers and possibly out of order. */
static int store_batch(struct broker *b, int wake_fd, struct source_counts *counts, struct pr_error *reterr)
{
    int64_t until_us = clock_mono_us(clock_system()) + KEEP_BATCH_US, pause_us = TROUBLE_FIRST_US;
    int rc;
    while ((rc = intake_store(&b->intake, counts, reterr)) != PR_OK) {
        if (rc == PR_STALE)
            return rc;
        tell_trouble(b, reterr);
        if (clock_mono_us(clock_system()) >= until_us || source_rest(wake_fd, pause_us))
            return rc;
        pause_us = min64(2 * pause_us, TROUBLE_LAST_US);
    }
    return PR_OK;
}

/* S1: in this order. */
static int pass_on(struct broker *b, int wake_fd, struct pr_error *reterr)
{
    struct source_counts counts;
    int rc = store_batch(b, wake_fd, &counts, reterr);
    if (rc != PR_OK)
        return rc;
    FAILPOINT("source.after_commit");
    source_moved(b->source, &counts);
    b->room -= (int64_t)counts.stored;
    log_emit(b->source->log, LOG_DEBUG, "received", LOG_STR("source", b->source->config->name),
             LOG_INT("stored", counts.stored), LOG_INT("duplicates", counts.duplicates), LOG_INT("dead", counts.dead));
    return b->ops->acknowledge(b->self, reterr);
}

/* Moves one batch; returns how long to wait before the next. */
static int64_t step(struct broker *b, int wake_fd, int64_t pause_us)
{
    struct pr_error error = { 0 };
    int rc = know_room(b, &error);
    if (rc == PR_OK && b->room <= 0) {
        tell_held(b, true);
        b->ops->drop(b->self);
        return LOOK_AGAIN_US;
    }
    if (rc == PR_OK) {
        tell_held(b, false);
        intake_begin(&b->intake);
        rc = b->ops->receive(b->self, &b->intake, wake_fd, &error);
    }
    if (rc == PR_OK)
        rc = intake_size(&b->intake) > 0 ? pass_on(b, wake_fd, &error) : b->ops->acknowledge(b->self, &error);
    if (rc == PR_STALE) { /* another instance has moved its position, or a commit whose answer was lost */
        b->ops->drop(b->self);
        return 0;
    }
    if (rc != PR_OK)
        return trouble(b, wake_fd, pause_us, &error);
    if (source_fine(b->source))
        log_emit(b->source->log, LOG_INFO, "source_recovered", LOG_STR("source", b->source->config->name));
    return 0;
}

void broker_run(void *self, int wake_fd)
{
    struct broker *b = self;
    for (int64_t pause_us = 0; !source_rest(wake_fd, pause_us);)
        pause_us = step(b, wake_fd, pause_us);
    b->ops->drop(b->self);
}
