/* The table of sources, and the state of each; see source.h. */
#include "source/source.h"

#include <poll.h>
#include <string.h>

#include "base/error.h"
#include "base/util.h"
#include "source/broker/broker.h"

#define REPEAT_US PR_SECONDS(60) /* persistent trouble is logged again after this time */

const char *const source_kind_names[SOURCE_KIND_COUNT] = {
#define X(name, key) [SOURCE_##name] = (key),
    SOURCE_KINDS(X)
#undef X
};

static const struct source_ops *const kinds[SOURCE_KIND_COUNT] = {
#ifdef POSTRIDER_POSTGRES
    [SOURCE_TABLE] = &source_table,   [SOURCE_WAL] = &source_wal,
#endif
#ifdef POSTRIDER_REDIS
    [SOURCE_REDIS] = &source_redis,
#endif
#ifdef POSTRIDER_NATS
    [SOURCE_NATS] = &source_nats,
#endif
#ifdef POSTRIDER_MQTT
    [SOURCE_MQTT] = &source_mqtt,
#endif
#ifdef POSTRIDER_AMQP
    [SOURCE_AMQP] = &source_amqp,
#endif
#ifdef POSTRIDER_AMQP1
    [SOURCE_AMQP1] = &source_amqp1,
#endif
#ifdef POSTRIDER_KAFKA
    [SOURCE_KAFKA] = &source_kafka,
#endif
    [SOURCE_EVENTS] = &source_events, [SOURCE_HTTP] = &source_http, [SOURCE_FILE] = &source_file,
};

int source_needs_postgres(enum source_kind kind, const struct store *store, struct pr_error *reterr)
{
    static const char *const why[] = {
        [SOURCE_TABLE] = "tables are adopted in PostgreSQL only, in the store's own database; this store is",
        [SOURCE_WAL] = "only PostgreSQL has a log that can be a source: the store is"
    };
#ifdef POSTRIDER_POSTGRES
    if (store->ops == &store_postgres)
        return PR_OK;
#endif
    return error_set(reterr, PR_EUNSUPPORTED, "%s %s", why[kind], store->ops->scheme);
}

int source_check_url(const struct source_config *config, struct arena *arena, const char **ret_name,
                     struct pr_error *reterr)
{
    enum source_kind kind = config->kind;
    ASSERT(kind >= SOURCE_FIRST_WITH_URL && kind < SOURCE_KIND_COUNT);
    if (kinds[kind] == NULL)
        return error_set(reterr, PR_ECONFIG, "source %s: not built in; build with the option %s",
                         source_kind_names[kind], source_kind_names[kind]);
    return broker_check(kinds[kind]->broker, config, arena, ret_name, reterr);
}

int source_open(struct source *s, struct pr_error *reterr)
{
    enum source_kind kind = s->config->kind;
    int rc = kind < SOURCE_EVENTS ? source_needs_postgres(kind, s->store, reterr) : PR_OK;
    if (rc != PR_OK)
        return rc;
    const struct source_ops *ops = kinds[kind];
    ASSERT(ops != NULL); /* source_check_url() */
    ASSERT(pthread_mutex_init(&s->lock, NULL) == 0);
    s->status = (struct source_status){ .name = s->config->name,
                                        .kind = source_kind_names[kind],
                                        .box = s->config->box,
                                        .at_broker = kind >= SOURCE_FIRST_WITH_URL && kind != SOURCE_HTTP &&
                                                     kind != SOURCE_FILE };
    rc = ops->open(s, &s->self, reterr);
    if (rc == PR_OK)
        s->ops = ops;
    else
        pthread_mutex_destroy(&s->lock);
    return rc;
}

static void enter(struct source *s, enum source_state state)
{
    ASSERT(pthread_mutex_lock(&s->lock) == 0);
    s->status.state = state;
    ASSERT(pthread_mutex_unlock(&s->lock) == 0);
}

void source_run(struct source *s, int wake_fd)
{
    enter(s, SOURCE_RUNNING);
    s->ops->run(s->self, wake_fd);
    enter(s, SOURCE_STOPPED);
}

void source_close(struct source *s)
{
    if (s->ops == NULL)
        return;
    s->ops->close(s->self);
    s->ops = NULL;
    pthread_mutex_destroy(&s->lock);
}

void source_status_get(struct source *s, struct source_status *ret_status)
{
    ASSERT(pthread_mutex_lock(&s->lock) == 0);
    *ret_status = s->status;
    ASSERT(pthread_mutex_unlock(&s->lock) == 0);
}

/* ---- What methods call -------------------------------------------------------------------------- */

void source_moved(struct source *s, const struct source_counts *more)
{
    ASSERT(pthread_mutex_lock(&s->lock) == 0);
    s->status.progress_us = clock_mono_us(clock_system());
    s->status.counts.stored += more->stored;
    s->status.counts.duplicates += more->duplicates;
    s->status.counts.dead += more->dead;
    ASSERT(pthread_mutex_unlock(&s->lock) == 0);
}

bool source_trouble(struct source *s, const struct pr_error *trouble)
{
    int64_t now_us = clock_mono_us(clock_system());
    ASSERT(pthread_mutex_lock(&s->lock) == 0);
    const struct pr_error *before = &s->status.trouble;
    /* Most texts contain a row or a process that changes; errors of the configuration do not. */
    bool has_changed = before->code != trouble->code ||
                       (trouble->code == PR_ECONFIG && strcmp(before->text, trouble->text) != 0) ||
                       now_us - s->logged_us >= REPEAT_US;
    if (has_changed)
        s->logged_us = now_us;
    if (before->code == PR_OK)
        s->status.trouble_us = now_us;
    s->status.trouble = *trouble;
    s->status.state = SOURCE_FAILING;
    ASSERT(pthread_mutex_unlock(&s->lock) == 0);
    return has_changed;
}

bool source_fine(struct source *s)
{
    ASSERT(pthread_mutex_lock(&s->lock) == 0);
    bool was_failing = s->status.state == SOURCE_FAILING;
    s->status.trouble = (struct pr_error){ .code = PR_OK };
    s->status.state = SOURCE_RUNNING;
    ASSERT(pthread_mutex_unlock(&s->lock) == 0);
    return was_failing;
}

bool source_hold(struct source *s, bool is_held)
{
    ASSERT(pthread_mutex_lock(&s->lock) == 0);
    bool has_changed = s->status.is_held != is_held;
    s->status.is_held = is_held;
    ASSERT(pthread_mutex_unlock(&s->lock) == 0);
    return has_changed;
}

bool source_rest(int wake_fd, int64_t us)
{
    struct pollfd fd = { .fd = wake_fd, .events = POLLIN };
    struct timespec span = { .tv_sec = us / PR_SECONDS(1), .tv_nsec = us % PR_SECONDS(1) * 1000 };
    return ppoll(&fd, 1, &span, NULL) > 0;
}
