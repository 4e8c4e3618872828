/* Opening a store by its URL. */
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/error.h"
#include "store/postgres/postgres.h"

#define POLL_MIN_US PR_MILLISECONDS(2) /* default of the options */
#define POLL_MAX_US PR_MILLISECONDS(200)

static void pg_close(void *self)
{
    struct postgres_store *store = self;
    ASSERT(list_is_empty(&store->sessions));
    link_free(store->people);
    link_free(store->sender);
    batch_fini(&store->batch);
    pthread_mutex_destroy(&store->people_lock);
    senders_fini(&store->senders);
    pthread_mutex_destroy(&store->sessions_lock);
    pg_conninfo_fini(&store->conninfo);
    free(store);
}

static void store_init(struct postgres_store *store, const struct store_options *options)
{
    store->clock = options->clock;
    store->log = options->log;
    store->poll_min_us = options->poll_min_us > 0 ? options->poll_min_us : POLL_MIN_US;
    store->poll_max_us = options->poll_max_us > 0 ? options->poll_max_us : POLL_MAX_US;
    store->payload_max = options->payload_max > 0 ? options->payload_max : PR_PAYLOAD_MAX;
    pthread_mutex_init(&store->people_lock, NULL);
    senders_init(&store->senders);
    pthread_mutex_init(&store->sessions_lock, NULL);
    list_init(&store->sessions);
    batch_init(&store->batch);
}

static int pg_open(const struct store_options *options, void **ret_self, struct pr_error *reterr)
{
    struct postgres_store *store = calloc(1, sizeof(*store));
    if (store == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a store");
    store_init(store, options);
    int rc = pg_conninfo_parse(options->url, &store->conninfo, reterr);
    if (rc == PR_OK) {
        store->people = link_new(&store->conninfo, LINK_PEOPLE, store->log);
        store->sender = link_new(&store->conninfo, LINK_SENDER, store->log);
        if (store->people == NULL || store->sender == NULL)
            rc = error_set(reterr, PR_ENOMEM, "out of memory for a store");
    }
    if (rc == PR_OK)
        rc = link_ensure(store->people, reterr);
    if (rc != PR_OK) {
        pg_close(store);
        return rc;
    }
    *ret_self = store;
    return PR_OK;
}

int64_t pg_store_wall_us(const struct postgres_store *store)
{
    return store->clock != NULL ? clock_wall_us(store->clock) : 0;
}

int64_t pg_store_mono_us(const struct postgres_store *store)
{
    return store->clock != NULL ? clock_mono_us(store->clock) : 0;
}

void pg_store_wake(struct postgres_store *store)
{
    pthread_mutex_lock(&store->sessions_lock);
    list_foreach(node, &store->sessions) {
        const struct pg_session *session = LIST_ENTRY(node, struct pg_session, node);
        if (session->event_fd >= 0)
            (void)eventfd_write(session->event_fd, 1); /* when it is full, it wakes anyway */
    }
    pthread_mutex_unlock(&store->sessions_lock);
}

/* The server's clock; this machine's if the server does not answer. */
static int64_t pg_time(void *self)
{
    struct postgres_store *store = self;
    int64_t now_us = pg_store_wall_us(store);
    if (now_us != 0)
        return now_us;
    PGresult *result = NULL;
    pthread_mutex_lock(&store->people_lock);
    if (link_ensure(store->people, NULL) == PR_OK &&
        link_do(store->people, "SELECT clock_timestamp()", NO_BOX, NULL, &result, NULL) == PR_OK)
        now_us = field_time(result, 0, 0);
    link_forget(store->people);
    pthread_mutex_unlock(&store->people_lock);
    return now_us != 0 ? now_us : clock_wall_us(clock_system());
}

const struct store_ops store_postgres = {
    .scheme = "postgres",
    .can = STORE_CAN_SHARE_LANES | STORE_CAN_COMMIT_LATE | STORE_CAN_LAST | STORE_CAN_PROCESSES,
    .open = pg_open,
    .close = pg_close,
    .migrate = pg_migrate,
    .check = pg_check,
    .enqueue = pg_enqueue,
    .session_open = pg_session_open,
    .session_close = pg_session_close,
    .cycle = pg_cycle,
    .wait = pg_wait,
    .tend = pg_prefetch_tend,
    .time = pg_time,
    .sql = &postgres_sql,
};
