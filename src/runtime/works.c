/* Everything that belongs to one configuration: its store, its relay and its front; and leftovers of earlier ones. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/util.h"
#include "runtime/inside.h"
#include "runtime/threads/thread.h"

#define LEFTOVER_WAIT_US PR_MILLISECONDS(500) /* threads need a moment to end when nothing holds them up */
#define LEFTOVER_LOOK_US PR_MILLISECONDS(5)

void store_free(struct store *store)
{
    if (store == NULL)
        return;
    store_close(store);
    free(store);
}

void leftovers_free(struct runtime *rt, bool wait)
{
    struct leftover **at = &rt->leftovers;
    while (*at != NULL) {
        struct leftover *one = *at;
        if (!wait && !relay_is_over(one->relay)) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        relay_free(one->relay);
        store_free(one->store);
        config_free(one->config);
        free(one);
    }
}

void leftover_add(struct runtime *rt, struct relay *relay, struct store *store, struct config *config)
{
    struct leftover *one = malloc(sizeof *one);
    if (one == NULL) {
        relay_free(relay); /* then the caller waits */
        store_free(store);
        config_free(config);
        return;
    }
    *one = (struct leftover){ rt->leftovers, relay, store, config };
    rt->leftovers = one;
    int64_t until_us = time_add(clock_mono_us(clock_system()), LEFTOVER_WAIT_US);
    for (leftovers_free(rt, false);
         rt->leftovers != NULL && clock_mono_us(clock_system()) < until_us && !atomic_load(&rt->stops);
         leftovers_free(rt, false))
        wake_wait(-1, LEFTOVER_LOOK_US);
}

static int open_store(const struct runtime *rt, const struct config *config, struct store **ret_store,
                      struct pr_error *reterr)
{
    const struct store_options options = { .url = config->store,
                                           .log = rt->options.log,
                                           .payload_max = (size_t)config->payload_max,
                                           .poll_min_us = config->poll_min_us,
                                           .poll_max_us = config->poll_max_us };
    struct store *store = calloc(1, sizeof *store);
    if (store == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for the store");
    int rc = store_open(&options, store, reterr);
    if (rc < 0)
        free(store);
    else
        *ret_store = store;
    return rc;
}

/* Checks that the tables exist, or creates them. */
static int check_store(const struct runtime *rt, const struct config *config, struct store *store,
                       struct pr_error *reterr)
{
    struct store_box *boxes = calloc(config->box_count, sizeof boxes[0]);
    if (boxes == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for %zu boxes", config->box_count);
    for (size_t i = 0; i < config->box_count; i++)
        boxes[i] = (struct store_box){ config->boxes[i].name, config->boxes[i].table };
    int rc = rt->options.migrate ? store_migrate(store, boxes, config->box_count, reterr)
                                 : store_check_boxes(store, boxes, config->box_count, reterr);
    free(boxes);
    return rc;
}

static int make_relay(struct runtime *rt, const struct config *config, struct store *store, struct relay **ret_relay,
                      struct pr_error *reterr)
{
    const struct relay_options options = { .config = config,
                                           .program = &rt->program,
                                           .store = store,
                                           .log = rt->options.log,
                                           .feed = rt->feed,
                                           .pull = rt->pull,
                                           .stops = &rt->stops,
                                           .on_fault = runtime_on_fault,
                                           .on_fault_arg = rt };
    return relay_new(&options, ret_relay, reterr);
}

/* Does the layer above have something to do: HTTP, or watchdogs that raise messages? */
static bool wants_front(const struct config *config)
{
    return config->http_listen[0] != '\0' || config->watch.raise_type[0] != '\0';
}

bool front_is_same(const struct config *a, const struct config *b)
{
    return strcmp(a->http_listen, b->http_listen) == 0 &&
           (a->watch.raise_type[0] == '\0') == (b->watch.raise_type[0] == '\0');
}

static int start_front(struct runtime *rt, const struct config *config, void **ret_front, struct pr_error *reterr)
{
    const struct runtime_front *front = rt->options.front;
    if (front == NULL || !wants_front(config)) {
        *ret_front = NULL;
        return PR_OK;
    }
    return front->start(rt, config, rt->options.log, ret_front, reterr);
}

void front_stop(const struct runtime *rt, void *front)
{
    if (front != NULL)
        rt->options.front->stop(front);
}

struct works works_swap(struct runtime *rt, struct works works, enum runtime_state state)
{
    ASSERT(pthread_rwlock_wrlock(&rt->lock) == 0);
    struct works old = { rt->config, rt->store, rt->relay, rt->front };
    if (old.relay != NULL && old.relay != works.relay) { /* it has stopped: its counts are added to the past ones */
        relay_counts(old.relay, &rt->past);
        rt->past.waiting_in_memory = 0;
        rt->past.in_flight = 0;
    }
    rt->config = works.config;
    rt->store = works.store;
    rt->relay = works.relay;
    rt->front = works.front;
    rt->state = state;
    ASSERT(pthread_rwlock_unlock(&rt->lock) == 0);
    return old;
}

int works_prepare(struct runtime *rt, struct works *w, struct pr_error *reterr)
{
    int rc = w->store == NULL ? open_store(rt, w->config, &w->store, reterr) : PR_OK;
    if (rc == PR_OK)
        rc = check_store(rt, w->config, w->store, reterr);
    if (rc == PR_OK)
        rc = make_relay(rt, w->config, w->store, &w->relay, reterr);
    if (rc == PR_OK && w->front == NULL)
        rc = start_front(rt, w->config, &w->front, reterr);
    return rc;
}

void works_log_started(const struct runtime *rt, const struct works *w)
{
    log_emit(rt->options.log, LOG_INFO, "started", LOG_STR("instance", w->config->instance),
             LOG_INT("boxes", w->config->box_count), LOG_INT("endpoints", relay_endpoint_count(w->relay)));
}
