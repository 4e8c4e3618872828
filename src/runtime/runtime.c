#include "runtime/runtime.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/glob.h"
#include "base/slice.h"
#include "base/util.h"
#include "runtime/relay.h"
#include "runtime/config/setting.h"
#include "runtime/threads/thread.h"
#include "store/store.h"
#include "transport/process/launcher.h"
#include "transport/pull/pull.h"

#define MALLOC_ARENAS 2
#define LEFTOVER_WAIT_US PR_MILLISECONDS(500) /* threads need a moment to end when nothing keeps them */
#define LEFTOVER_LOOK_US PR_MILLISECONDS(5)

/* A relay that was stopped while something of it would not end: it is freed when that has ended, and nobody waits. */
struct leftover {
    struct leftover *next;
    struct relay *relay;
    struct store *store; /* NULL: it was kept */
    struct config *config;
};

enum runtime_state { RUNTIME_NEW, RUNTIME_RUNNING, RUNTIME_STOPPED };

struct runtime {
    struct runtime_options options;
    struct program program;
    struct arena texts; /* of what is registered */

    atomic_bool stops;

    /* start, reload and stop go one at a time, under this lock; ... */
    pthread_mutex_t change_lock;
    /* ... what follows they change under this one, too, and everybody else reads it so. */
    pthread_rwlock_t lock;
    enum runtime_state state;
    struct config *config;
    struct store *store;
    struct relay *relay;
    void *front;
    struct feed *feed;
    struct pull *pull;
    struct pr_engine_counts past; /* of the relays before this one */
    struct leftover *leftovers;   /* under change_lock */

    pthread_mutex_t fault_lock;
    struct pr_error fault;
    int fault_fd;
};

void runtime_tune_process(void)
{
    mallopt(M_ARENA_MAX, MALLOC_ARENAS);
}

/* ---- New and free --------------------------------------------------------------------------- */

static void free_store(struct store *store)
{
    if (store == NULL)
        return;
    store_close(store);
    free(store);
}

/* Those that are over, or, waiting for them, all. */
static void free_leftovers(struct runtime *rt, bool wait)
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
        free_store(one->store);
        config_free(one->config);
        free(one);
    }
}

/* It has been stopped. */
static void free_later(struct runtime *rt, struct relay *relay, struct store *store, struct config *config)
{
    struct leftover *one = malloc(sizeof *one);
    if (one == NULL) {
        relay_free(relay); /* then somebody waits */
        free_store(store);
        config_free(config);
        return;
    }
    *one = (struct leftover){ rt->leftovers, relay, store, config };
    rt->leftovers = one;
    int64_t until_us = time_add(clock_mono_us(clock_system()), LEFTOVER_WAIT_US);
    for (free_leftovers(rt, false);
         rt->leftovers != NULL && clock_mono_us(clock_system()) < until_us && !atomic_load(&rt->stops);
         free_leftovers(rt, false))
        wake_wait(-1, LEFTOVER_LOOK_US);
}

struct runtime *runtime_new(struct config *config, const struct runtime_options *options, struct pr_error *reterr)
{
    struct runtime *rt = calloc(1, sizeof *rt);
    if (rt == NULL) {
        error_set(reterr, PR_ENOMEM, "out of memory for the runtime");
        return NULL;
    }
    rt->feed = feed_new();
    if (rt->feed == NULL) {
        free(rt);
        error_set(reterr, PR_ENOMEM, "out of memory for the runtime");
        return NULL;
    }
    int rc = pull_new(&rt->pull, reterr);
    if (rc == PR_OK)
        rc = wake_open(&rt->fault_fd, reterr);
    if (rc < 0) {
        pull_free(rt->pull);
        feed_free(rt->feed);
        free(rt);
        return NULL;
    }
    rt->options = *options;
    arena_init(&rt->texts, ARENA_BLOCK_MIN);
    flow_registry_init(&rt->program.flows);
    ASSERT(pthread_mutex_init(&rt->change_lock, NULL) == 0);
    ASSERT(pthread_rwlock_init(&rt->lock, NULL) == 0);
    ASSERT(pthread_mutex_init(&rt->fault_lock, NULL) == 0);
    rt->config = config;
    return rt;
}

void runtime_free(struct runtime *rt)
{
    if (rt == NULL)
        return;
    runtime_stop(rt, rt->config->stop_timeout_us);
    free_leftovers(rt, true);
    relay_free(rt->relay);
    launcher_free(rt->program.launcher);
    free_store(rt->store);
    feed_free(rt->feed);
    pull_free(rt->pull); /* after the relay, which may have something to answer */
    config_free(rt->config);
    arena_fini(&rt->texts);
    flow_registry_fini(&rt->program.flows);
    wake_close(rt->fault_fd);
    pthread_mutex_destroy(&rt->change_lock);
    pthread_rwlock_destroy(&rt->lock);
    pthread_mutex_destroy(&rt->fault_lock);
    free(rt);
}

/* ---- Handlers --------------------------------------------------------------------------------- */

/* Can a handler of this name, or for this glob, still be added? */
static bool can_handle(const struct runtime *rt, pr_slice text, pr_handler handler)
{
    return rt->state == RUNTIME_NEW && handler != NULL && text.size > 0 && text.size <= PR_TYPE_MAX &&
           memchr(text.data, '\0', text.size) == NULL && rt->program.handler_count < HANDLERS_MAX;
}

/* Or by a glob, which is its name, too? */
static bool is_by_name(const struct handler_entry *entry)
{
    return entry->type == NULL || entry->beside;
}

static int add_handler(struct runtime *rt, const struct handler_entry *entry)
{
    struct program *p = &rt->program;

    if (entry->name == NULL)
        return PR_ENOMEM;
    for (size_t i = 0; i < p->handler_count; i++)
        if ((is_by_name(&p->handlers[i]) == is_by_name(entry)) && strcmp(p->handlers[i].name, entry->name) == 0)
            return PR_EINVAL;
    p->handlers[p->handler_count++] = *entry;
    return PR_OK;
}

int runtime_handle(struct runtime *rt, pr_slice box, pr_slice type_glob, pr_handler handler, void *user)
{
    if (!can_handle(rt, type_glob, handler) || glob_check(type_glob, NULL) != PR_OK ||
        (box.size > 0 && !name_is_valid(box)))
        return PR_EINVAL;
    const pr_slice name =
        arena_printf(&rt->texts, "%.*s%s%.*s", SLICE_ARGS(box), box.size > 0 ? "/" : "", SLICE_ARGS(type_glob));
    const pr_slice own_box = slice_dup(&rt->texts, box);
    if (name.data == NULL || own_box.data == NULL)
        return PR_ENOMEM;
    return add_handler(rt, &(struct handler_entry){ .name = name.data,
                                                    .type = name.data + (name.size - type_glob.size),
                                                    .box = own_box.data,
                                                    .handler = handler,
                                                    .user = user });
}

/* It is a part of an endpoint's name, and that is followed by a slash in keys. */
static bool is_plain_name(pr_slice name)
{
    for (size_t i = 0; i < name.size; i++)
        if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.", name.data[i]) == NULL)
            return false;
    return name.size > 0 && name.size <= CONFIG_NAME_MAX;
}

int runtime_subscribe(struct runtime *rt, pr_slice box, pr_slice name, pr_slice type_glob, pr_handler handler,
                      void *user)
{
    if (!can_handle(rt, type_glob, handler) || glob_check(type_glob, NULL) != PR_OK || !is_plain_name(name) ||
        (box.size > 0 && !name_is_valid(box)))
        return PR_EINVAL;
    const struct handler_entry entry = { .name = slice_dup(&rt->texts, name).data,
                                         .type = slice_dup(&rt->texts, type_glob).data,
                                         .box = slice_dup(&rt->texts, box).data,
                                         .beside = true,
                                         .handler = handler,
                                         .user = user };
    return entry.type != NULL && entry.box != NULL ? add_handler(rt, &entry) : PR_ENOMEM;
}

int runtime_handle_named(struct runtime *rt, pr_slice name, pr_handler handler, void *user)
{
    if (!can_handle(rt, name, handler))
        return PR_EINVAL;
    return add_handler(
        rt, &(struct handler_entry){ .name = slice_dup(&rt->texts, name).data, .handler = handler, .user = user });
}

int runtime_call(struct runtime *rt, pr_slice name, pr_rule_function function, void *user)
{
    struct program *p = &rt->program;

    if (rt->state != RUNTIME_NEW || function == NULL || name.size == 0 || name.size > PR_NAME_MAX ||
        p->call_count == PROGRAM_CALLS_MAX || program_find_call(p, name) != NULL)
        return PR_EINVAL;
    pr_slice copy = slice_dup(&rt->texts, name);
    if (copy.data == NULL)
        return PR_ENOMEM;
    p->calls[p->call_count++] = (struct call_entry){ .name = copy.data, .function = function, .user = user };
    return PR_OK;
}

/* ---- Flows ----------------------------------------------------------------------------------------- */

static bool is_registered_name(pr_slice name)
{
    return name.size > 0 && name.size <= PR_TYPE_MAX && memchr(name.data, '\0', name.size) == NULL;
}

int runtime_flow(struct runtime *rt, const char *name, const char *version, pr_flow_function function, void *user)
{
    struct pr_error ignored;
    return rt->state == RUNTIME_NEW ? flow_registry_add(&rt->program.flows, name, version, function, user, &ignored)
                                    : PR_EINVAL;
}

int runtime_activity(struct runtime *rt, pr_slice name, pr_activity_function function, void *user)
{
    struct program *p = &rt->program;

    if (rt->state != RUNTIME_NEW || function == NULL || !is_registered_name(name) ||
        p->activity_count == PROGRAM_ACTIVITIES_MAX || program_find_activity(p, name) != NULL)
        return PR_EINVAL;
    const struct activity_entry entry = { slice_dup(&rt->texts, name), function, user };
    if (entry.name.data == NULL)
        return PR_ENOMEM;
    p->activities[p->activity_count++] = entry;
    return PR_OK;
}

int runtime_offer(struct runtime *rt, pr_slice tag)
{
    struct program *p = &rt->program;

    if (rt->state != RUNTIME_NEW || !is_registered_name(tag) || p->tag_count == PROGRAM_TAGS_MAX)
        return PR_EINVAL;
    const pr_slice copy = slice_dup(&rt->texts, tag);
    if (copy.data == NULL)
        return PR_ENOMEM;
    p->tags[p->tag_count++] = copy;
    return PR_OK;
}

int runtime_rule(struct runtime *rt, pr_slice endpoint, const struct rule *rule, struct pr_error *reterr)
{
    struct program *p = &rt->program;
    int rc = rule_check(rule, reterr);

    if (rc != PR_OK)
        return rc;
    if (rt->state != RUNTIME_NEW)
        return error_set(reterr, PR_EINVAL, "rules must be added before the start");
    if (p->rule_count == PROGRAM_RULES_MAX)
        return error_set(reterr, PR_EINVAL, "at most %d rules are allowed", PROGRAM_RULES_MAX);
    pr_slice copy = endpoint.size > 0 ? slice_dup(&rt->texts, endpoint) : (pr_slice){ NULL, 0 };
    if (endpoint.size > 0 && copy.data == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a rule");
    p->rules[p->rule_count++] = (struct rule_entry){ .endpoint = copy.data, .rule = rule };
    return PR_OK;
}

/* ---- Start, stop, reload ------------------------------------------------------------------------ */

static void on_fault(void *arg, const struct pr_error *fault)
{
    struct runtime *rt = arg;
    ASSERT(pthread_mutex_lock(&rt->fault_lock) == 0);
    bool first = rt->fault.code == PR_OK;
    if (first)
        rt->fault = *fault;
    ASSERT(pthread_mutex_unlock(&rt->fault_lock) == 0);
    if (!first)
        return;
    log_emit(rt->options.log, LOG_ERROR, "stopped_by_fault", LOG_STR("error", fault->text));
    wake_send(rt->fault_fd);
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

/* See that the tables are there, or make them. */
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
                                           .on_fault = on_fault,
                                           .on_fault_arg = rt };
    return relay_new(&options, ret_relay, reterr);
}

/* The layer above has something to do: HTTP, or watchdogs that raise messages. */
static bool wants_front(const struct config *config)
{
    return config->http_listen[0] != '\0' || config->watch.raise_type[0] != '\0';
}

static bool is_same_front(const struct config *a, const struct config *b)
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

static void stop_front(const struct runtime *rt, void *front)
{
    if (front != NULL)
        rt->options.front->stop(front);
}

/* Everything that belongs to one configuration. */
struct works {
    struct config *config;
    struct store *store;
    struct relay *relay;
    void *front;
};

static struct works swap_works(struct runtime *rt, struct works works, enum runtime_state state)
{
    ASSERT(pthread_rwlock_wrlock(&rt->lock) == 0);
    struct works old = { rt->config, rt->store, rt->relay, rt->front };
    if (old.relay != NULL && old.relay != works.relay) { /* it has stopped: its counts go on counting */
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

/* Make what is not there yet; nothing is started but the front. */
static int prepare(struct runtime *rt, struct works *w, struct pr_error *reterr)
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

static void log_started(const struct runtime *rt, const struct works *w)
{
    log_emit(rt->options.log, LOG_INFO, "started", LOG_STR("instance", w->config->instance),
             LOG_INT("boxes", w->config->box_count), LOG_INT("endpoints", relay_endpoint_count(w->relay)));
}

/* Before there are threads: see launcher.h. */
static int start_launcher(struct runtime *rt, struct pr_error *reterr)
{
    bool is_needed = false;
    for (size_t i = 0; i < rt->config->endpoint_count; i++)
        is_needed |= rt->config->endpoints[i].isolation;
    return is_needed && rt->program.launcher == NULL ? launcher_start(&rt->program.launcher, reterr) : PR_OK;
}

int runtime_start(struct runtime *rt, struct pr_error *reterr)
{
    struct works w = { .config = rt->config };
    ASSERT(pthread_mutex_lock(&rt->change_lock) == 0);
    int rc = rt->state == RUNTIME_NEW ? start_launcher(rt, reterr)
                                      : error_set(reterr, PR_EINVAL, "it was already started once: create a new one");
    if (rc == PR_OK)
        rc = prepare(rt, &w, reterr);
    if (rc == PR_OK)
        rc = relay_start(w.relay, reterr);
    if (rc == PR_OK) {
        swap_works(rt, w, RUNTIME_RUNNING);
        log_started(rt, &w);
    } else {
        stop_front(rt, w.front);
        relay_free(w.relay);
        free_store(w.store);
    }
    ASSERT(pthread_mutex_unlock(&rt->change_lock) == 0);
    return rc;
}

int runtime_stop(struct runtime *rt, int64_t timeout_us)
{
    int rc = PR_OK;
    atomic_store(&rt->stops, true); /* a reload that is under way ends with the old relay's stop */
    ASSERT(pthread_mutex_lock(&rt->change_lock) == 0);
    if (rt->state == RUNTIME_RUNNING) {
        rc = relay_stop(rt->relay, timeout_us);
        pull_interrupt(rt->pull);
        struct works w = { rt->config, rt->store, rt->relay, NULL };
        struct works old = swap_works(rt, w, RUNTIME_STOPPED);
        stop_front(rt, old.front);
        free_leftovers(rt, false);
        if (rt->leftovers != NULL) /* given up in a reload, and still running */
            rc = PR_TIMEOUT;
    }
    ASSERT(pthread_mutex_unlock(&rt->change_lock) == 0);
    return rc;
}

/* The old relay has stopped: let the new one work.  A reader that waits for the old one (a
 * drain) is told by its end. */
static void replace(struct runtime *rt, struct works w, bool keep_store, bool keep_front, bool keep_config)
{
    struct works old = swap_works(rt, w, RUNTIME_RUNNING);
    if (!keep_front)
        stop_front(rt, old.front);
    free_later(rt, old.relay, keep_store ? NULL : old.store, keep_config ? NULL : old.config);
}

/* The new one would not start after all: the old configuration goes on. */
static void fall_back(struct runtime *rt, struct works w)
{
    struct pr_error error;
    struct works old = { rt->config, rt->store, NULL, rt->front };
    int rc = prepare(rt, &old, &error);
    if (rc == PR_OK)
        rc = relay_start(old.relay, &error);
    if (rc == PR_OK)
        replace(rt, old, true, true, true);
    else {
        relay_free(old.relay);
        on_fault(rt, &error);
    }
    relay_free(w.relay);
    if (w.front != rt->front)
        stop_front(rt, w.front);
    else if (w.front != NULL && rt->options.front->retune(w.front, rt->config, &error) < 0)
        on_fault(rt, &error);
    if (w.store != rt->store)
        free_store(w.store);
}

/* Then it is kept: what is in memory would be lost otherwise. */
static bool is_same_store(const struct config *a, const struct config *b)
{
    return strcmp(a->store, b->store) == 0 && a->payload_max == b->payload_max && a->poll_min_us == b->poll_min_us &&
           a->poll_max_us == b->poll_max_us;
}

/* A route can make somebody work a box that nobody did before. */
static bool are_same_boxes(const struct config *a, const struct config *b)
{
    for (size_t i = 0; i < a->box_count && a->box_count == b->box_count; i++)
        if (strcmp(a->boxes[i].name, b->boxes[i].name) != 0 || a->boxes[i].used != b->boxes[i].used)
            return false;
    return a->box_count == b->box_count;
}

/* Only what a running relay can follow is other: nothing need stop. */
static int reload_softly(struct runtime *rt, struct config *config, struct pr_error *reterr)
{
    if (!is_same_store(config, rt->config) || !is_same_front(config, rt->config) ||
        config->rest_digest != rt->config->rest_digest || !are_same_boxes(config, rt->config))
        return PR_STALE;
    int rc = relay_retune(rt->relay, config, reterr);
    if (rc != PR_OK)
        return rc;
    FAILPOINT("runtime.retune");
    ASSERT(pthread_rwlock_wrlock(&rt->lock) == 0);
    relay_follow(rt->relay, rt->config, config);
    rt->config = config;
    ASSERT(pthread_rwlock_unlock(&rt->lock) == 0);
    relay_let_go(rt->relay);
    struct pr_error error;
    if (rt->front != NULL && rt->options.front->retune(rt->front, config, &error) < 0)
        on_fault(rt, &error); /* it has taken the same before */
    return PR_OK;
}

static int reload(struct runtime *rt, struct config *config, struct pr_error *reterr)
{
    int soft = reload_softly(rt, config, reterr);
    if (soft <= PR_OK)
        return soft;

    const struct config *old = rt->config;
    bool keep_store = is_same_store(config, old);
    bool keep_front = is_same_front(config, old);
    struct works w = { .config = config,
                       .store = keep_store ? rt->store : NULL,
                       .front = keep_front ? rt->front : NULL };
    int rc = prepare(rt, &w, reterr);
    if (rc == PR_OK && keep_front && w.front != NULL)
        rc = rt->options.front->retune(w.front, config, reterr);
    if (rc < 0) {
        relay_free(w.relay);
        if (!keep_front)
            stop_front(rt, w.front);
        if (!keep_store)
            free_store(w.store);
        return rc;
    }
    FAILPOINT("runtime.reload");
    relay_stop(rt->relay, old->stop_timeout_us); /* what it had to leave the new one finds */
    if (atomic_load(&rt->stops)) {               /* nothing is to be started any more */
        relay_free(w.relay);
        if (!keep_front)
            stop_front(rt, w.front);
        if (!keep_store)
            free_store(w.store);
        return error_set(reterr, PR_EINVAL, "it is stopping");
    }
    rc = relay_start(w.relay, reterr);
    if (rc < 0) {
        fall_back(rt, w);
        return rc;
    }
    replace(rt, w, keep_store, keep_front, false);
    log_started(rt, &w);
    return PR_OK;
}

int runtime_reload(struct runtime *rt, struct config *config, struct pr_error *reterr)
{
    ASSERT(pthread_mutex_lock(&rt->change_lock) == 0);
    int rc =
        rt->state == RUNTIME_RUNNING ? reload(rt, config, reterr) : error_set(reterr, PR_EINVAL, "it is not running");
    ASSERT(pthread_mutex_unlock(&rt->change_lock) == 0);
    return rc;
}

/* ---- By the program's hand -------------------------------------------------------------------- */

static int on_endpoint(struct runtime *rt, enum admin_kind kind, pr_slice endpoint, int64_t for_us, pr_slice why,
                       struct pr_error *reterr)
{
    struct admin_reply reply;
    int rc = PR_OK;
    ASSERT(pthread_rwlock_rdlock(&rt->lock) == 0);
    if (rt->state != RUNTIME_RUNNING)
        rc = error_set(reterr, PR_EINVAL, "it is not running");
    else if (!relay_has_endpoint(rt->relay, endpoint))
        rc = error_set(reterr, PR_ENOTFOUND, "unknown endpoint \"%.*s\"", SLICE_ARGS(endpoint));
    if (rc == PR_OK) {
        struct admin admin = { .kind = kind,
                               .filter = { .endpoint = endpoint, .state = -1 },
                               .by = slice_from(rt->config->instance),
                               .why = why,
                               .until_us = for_us == PR_NEVER ? PR_NEVER : time_add(store_time(rt->store), for_us) };
        rc = store_admin(rt->store, &admin, &reply, reterr);
    }
    ASSERT(pthread_rwlock_unlock(&rt->lock) == 0);
    return rc;
}

int runtime_pause(struct runtime *rt, pr_slice endpoint, int64_t for_us, pr_slice why, struct pr_error *reterr)
{
    return on_endpoint(rt, ADMIN_PAUSE, endpoint, for_us, why, reterr);
}

int runtime_resume(struct runtime *rt, pr_slice endpoint, struct pr_error *reterr)
{
    return on_endpoint(rt, ADMIN_RESUME, endpoint, 0, (pr_slice){ NULL, 0 }, reterr);
}

int runtime_send(struct runtime *rt, pr_slice box, const struct pr_message *message, pr_id *ret_id,
                 enum pr_sent *ret_sent, struct pr_error *reterr)
{
    int rc = PR_OK;
    ASSERT(pthread_rwlock_rdlock(&rt->lock) == 0);
    if (rt->state != RUNTIME_RUNNING)
        rc = error_set(reterr, PR_EINVAL, "it is not running");
    else if (!relay_has_box(rt->relay, box))
        rc = error_set(reterr, PR_ENOTFOUND, "unknown box \"%.*s\"", SLICE_ARGS(box));
    else
        rc = inliner_send(relay_inliner(rt->relay), box, message, ret_id, ret_sent, reterr);
    ASSERT(pthread_rwlock_unlock(&rt->lock) == 0);
    return rc;
}

const struct config *runtime_config(const struct runtime *rt)
{
    return rt->config;
}

int runtime_enter(struct runtime *rt, struct runtime_inside *ret, struct pr_error *reterr)
{
    ASSERT(pthread_rwlock_rdlock(&rt->lock) == 0);
    if (rt->state == RUNTIME_RUNNING) {
        *ret = (struct runtime_inside){ rt->config, rt->store, rt->relay };
        return PR_OK;
    }
    ASSERT(pthread_rwlock_unlock(&rt->lock) == 0);
    return error_set(reterr, PR_EINVAL, "it is not running");
}

void runtime_leave(struct runtime *rt)
{
    ASSERT(pthread_rwlock_unlock(&rt->lock) == 0);
}

bool runtime_is_claimable(struct runtime *rt)
{
    ASSERT(pthread_rwlock_rdlock(&rt->lock) == 0);
    bool claimable = rt->state == RUNTIME_RUNNING && relay_is_claimable(rt->relay);
    ASSERT(pthread_rwlock_unlock(&rt->lock) == 0);
    return claimable;
}

struct feed *runtime_feed(struct runtime *rt)
{
    return rt->feed;
}

struct pull *runtime_pull(struct runtime *rt)
{
    return rt->pull;
}

/* ---- Questions ----------------------------------------------------------------------------------- */

static void read_lock(struct runtime *rt)
{
    ASSERT(pthread_rwlock_rdlock(&rt->lock) == 0);
}

static void read_unlock(struct runtime *rt)
{
    ASSERT(pthread_rwlock_unlock(&rt->lock) == 0);
}

int runtime_drain(struct runtime *rt, int64_t timeout_us, struct pr_error *reterr)
{
    int64_t deadline_us = time_add(clock_mono_us(clock_system()), max64(timeout_us, 0));
    for (;;) {
        read_lock(rt);
        int rc = rt->state == RUNTIME_RUNNING
                     ? relay_drain(rt->relay, time_sub(deadline_us, clock_mono_us(clock_system())))
                     : error_set(reterr, PR_EINVAL, "it is not running");
        read_unlock(rt);
        int fault = runtime_fault(rt, reterr);
        if (fault != PR_OK)
            return fault;
        if (rc != PR_STALE)
            return rc;
        /* It ended under us: wait for whoever stops or reloads, then look again. */
        ASSERT(pthread_mutex_lock(&rt->change_lock) == 0);
        ASSERT(pthread_mutex_unlock(&rt->change_lock) == 0);
    }
}

int runtime_fault_fd(const struct runtime *rt)
{
    return rt->fault_fd;
}

int runtime_fault(struct runtime *rt, struct pr_error *reterr)
{
    ASSERT(pthread_mutex_lock(&rt->fault_lock) == 0);
    int rc = rt->fault.code;
    if (rc != PR_OK && reterr != NULL)
        *reterr = rt->fault;
    ASSERT(pthread_mutex_unlock(&rt->fault_lock) == 0);
    return rc;
}

unsigned runtime_http_port(struct runtime *rt)
{
    read_lock(rt);
    unsigned port = rt->front != NULL ? rt->options.front->port(rt->front) : 0;
    read_unlock(rt);
    return port;
}

int runtime_is_live(struct runtime *rt, struct pr_error *reterr)
{
    read_lock(rt);
    int rc = rt->state == RUNTIME_RUNNING ? relay_is_live(rt->relay, reterr)
                                          : error_set(reterr, PR_EINVAL, "it is not running");
    read_unlock(rt);
    return rc;
}

bool runtime_source(struct runtime *rt, size_t index, struct source_status *ret)
{
    read_lock(rt);
    bool found = rt->state == RUNTIME_RUNNING && index < relay_source_count(rt->relay);
    if (found)
        relay_source(rt->relay, index, ret);
    read_unlock(rt);
    return found;
}

int runtime_is_ready(struct runtime *rt, struct pr_error *reterr)
{
    read_lock(rt);
    int rc = rt->state == RUNTIME_RUNNING ? relay_is_ready(rt->relay, reterr)
                                          : error_set(reterr, PR_EINVAL, "it is not running");
    if (rc == PR_OK)
        rc = store_check(rt->store, reterr);
    if (rc == PR_OK && reterr != NULL) {
        error_clear(reterr);
        (void)relay_note(rt->relay, reterr);
    }
    read_unlock(rt);
    return rc;
}

void runtime_counts(struct runtime *rt, struct pr_engine_counts *ret_counts)
{
    read_lock(rt);
    *ret_counts = rt->past;
    if (rt->relay != NULL)
        relay_counts(rt->relay, ret_counts);
    read_unlock(rt);
}

static int status_endpoints(struct relay *relay, struct arena *arena, struct runtime_status *ret)
{
    ret->endpoint_count = relay_endpoint_count(relay);
    ret->endpoints = arena_alloc_array(arena, ret->endpoint_count, sizeof ret->endpoints[0]);
    if (ret->endpoints == NULL)
        return PR_ENOMEM;
    for (size_t i = 0; i < ret->endpoint_count; i++) {
        struct endpoint_view v;
        pr_slice name = slice_dup(arena, relay_endpoint_name(relay, i));
        if (name.data == NULL)
            return PR_ENOMEM;
        relay_endpoint(relay, i, &v);
        ret->endpoints[i] = (struct runtime_endpoint){ .name = name.data,
                                                       .breaker = v.breaker,
                                                       .paused_until_us = v.paused_until_us,
                                                       .waiting = v.waiting,
                                                       .out = v.out,
                                                       .sent = v.sent,
                                                       .failed = v.failed };
    }
    return PR_OK;
}

static int status_incidents(struct relay *relay, struct arena *arena, struct runtime_status *ret)
{
    ret->failures = arena_alloc_array(arena, INCIDENTS_MAX, sizeof ret->failures[0]);
    ret->deaths = arena_alloc_array(arena, INCIDENTS_MAX, sizeof ret->deaths[0]);
    if (ret->failures == NULL || ret->deaths == NULL)
        return PR_ENOMEM;
    ret->failure_count = relay_incidents(relay, false, ret->failures, INCIDENTS_MAX);
    ret->death_count = relay_incidents(relay, true, ret->deaths, INCIDENTS_MAX);
    return PR_OK;
}

int runtime_status(struct runtime *rt, struct arena *arena, struct runtime_status *ret)
{
    struct pr_error error = { 0 };
    *ret = (struct runtime_status){ 0 };
    runtime_counts(rt, &ret->counts);
    read_lock(rt);
    int rc = PR_OK;
    if (rt->relay != NULL) {
        ret->ready = relay_is_ready(rt->relay, &error) == PR_OK;
        rc = status_endpoints(rt->relay, arena, ret);
        if (rc == PR_OK)
            rc = status_incidents(rt->relay, arena, ret);
    }
    read_unlock(rt);
    memcpy(ret->trouble, error.text, sizeof ret->trouble);
    return rc;
}
