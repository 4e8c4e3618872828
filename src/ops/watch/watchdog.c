#include "ops/watch/watchdog.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/util.h"
#include "ops/status.h"
#include "ops/watch/watch.h"
#include "policy/raised.h"
#include "runtime/threads/thread.h"

#define ARENA_BYTES 65536
#define PAYLOAD_MAX 8192
#define LOOKS_MISSED 3 /* looks without a warning, at least, until it is over */

struct watchdog {
    struct runtime *rt;
    struct log *log;
    pthread_t thread;
    struct monitor monitor;
    bool stops; /* under the monitor's lock */
    struct watch_past past;
};

/* ---- One look -------------------------------------------------------------------------------------- */

static void payload_write(struct buf *b, const struct config *config, const struct check *check, int64_t now_us)
{
    struct json_writer w;
    json_init(&w, b);
    json_begin_object(&w);
    json_put_cstr(&w, "check", check->name);
    json_put_cstr(&w, "about", check->about);
    json_put_cstr(&w, "advice", check->text);
    json_put_cstr(&w, "instance", config->instance);
    json_put_time(&w, "at", now_us);
    json_end_object(&w);
}

/* The message about a warning; its payload is in the arena. */
static int message_about(const struct runtime_inside *in, struct arena *arena, const struct check *check,
                         int64_t now_us, struct pr_message *ret, struct pr_error *reterr)
{
    struct buf payload;
    buf_init(&payload, PAYLOAD_MAX);
    payload_write(&payload, in->config, check, now_us);
    *ret = (struct pr_message){
        .type = slice_from(in->config->watch.raise_type),
        .destination = slice_from(in->config->watch.raise_to),
        .content_type = PR_STR("application/json"),
        .headers = PR_STR("{\"" HEADER_RAISED "\":\"watch\"}"),
        .payload = slice_dup(arena, buf_slice(&payload)),
    };
    pr_id_new(&ret->id);
    bool failed = buf_failed(&payload) != PR_OK || ret->payload.data == NULL;
    buf_fini(&payload);
    return failed ? error_set(reterr, PR_ENOMEM, "out of memory for a warning") : PR_OK;
}

/* Those of watchdogs, and by what name the store remembers them. */
static size_t warnings_of(struct status *s, const struct check *ret[WARNINGS_MAX], pr_slice names[WARNINGS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < s->checks.count && count < WARNINGS_MAX; i++) {
        const struct check *check = &s->checks.items[i];
        if (check->about == NULL)
            continue;
        names[count] = arena_printf(s->checks.arena, "%s/%.100s", check->name, check->about);
        if (names[count].data != NULL)
            ret[count++] = check;
    }
    return count;
}

/* Remembered and raised in one transaction: a process that dies has done both, or neither. */
static int raise_new(const struct runtime_inside *in, struct status *s, struct pr_error *reterr)
{
    const struct check *checks[WARNINGS_MAX];
    pr_slice names[WARNINGS_MAX];
    struct pr_message messages[WARNINGS_MAX];
    bool is_new[WARNINGS_MAX];
    int rc = PR_OK, raised = 0;
    const struct warnings warnings = {
        .names = names, .count = warnings_of(s, checks, names), .box = PR_STR("outbox"), .messages = messages
    };
    for (size_t i = 0; i < warnings.count && rc == PR_OK; i++)
        rc = message_about(in, s->checks.arena, checks[i], s->boxes.now_us, &messages[i], reterr);
    if (rc != PR_OK || warnings.count == 0)
        return rc;
    /* What holds at every look is not over in between. */
    int64_t calm_us = max64(in->config->watch.calm_us, LOOKS_MISSED * in->config->watch.every_us);
    rc = store_warn(in->store, &warnings, calm_us, (size_t)in->config->payload_max, is_new, reterr);
    for (size_t i = 0; i < warnings.count && rc == PR_OK; i++)
        raised += is_new[i];
    return rc < 0 ? rc : raised;
}

int watchdog_look(const struct runtime_inside *in, struct watch_past *past, struct pr_error *reterr)
{
    struct arena arena;
    arena_init(&arena, ARENA_BYTES);
    struct status *s = arena_zalloc(&arena, sizeof *s);
    int rc = s != NULL ? PR_OK : error_set(reterr, PR_ENOMEM, "out of memory for the watchdog");
    if (rc == PR_OK) {
        *s = (struct status){ .config = in->config, .store = in->store, .past = past, .checks.arena = &arena };
        rc = status_collect(s, reterr);
    }
    if (rc == PR_OK)
        rc = raise_new(in, s, reterr);
    arena_fini(&arena);
    return rc;
}

/* ---- The thread -------------------------------------------------------------------------------------- */

/* How long to wait until the next look. */
static int64_t look(struct watchdog *s)
{
    struct runtime_inside in;
    struct pr_error error;
    if (runtime_enter(s->rt, &in, &error) < 0)
        return PR_SECONDS(1); /* it does not run yet, or no more */
    int64_t every_us = in.config->watch.every_us;
    int rc = watchdog_look(&in, &s->past, &error);
    runtime_leave(s->rt);
    if (rc < 0) /* the store: the threads that use it report that */
        log_emit(s->log, LOG_DEBUG, "watch_failed", LOG_STR("error", error.text));
    if (rc > 0)
        log_emit(s->log, LOG_WARN, "warnings_raised", LOG_INT("count", rc));
    return every_us;
}

static void *watchdog_main(void *arg)
{
    struct watchdog *s = arg;
    monitor_lock(&s->monitor);
    while (!s->stops) {
        monitor_unlock(&s->monitor);
        int64_t until_us = clock_mono_us(clock_system()) + look(s);
        monitor_lock(&s->monitor);
        int64_t left_us;
        while (!s->stops && (left_us = until_us - clock_mono_us(clock_system())) > 0)
            monitor_wait(&s->monitor, left_us);
    }
    monitor_unlock(&s->monitor);
    return NULL;
}

int watchdog_start(struct runtime *rt, struct log *log, struct watchdog **ret, struct pr_error *reterr)
{
    struct watchdog *s = calloc(1, sizeof *s);
    if (s == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for the watchdog");
    s->rt = rt;
    s->log = log;
    int rc = monitor_init(&s->monitor, reterr);
    if (rc < 0) {
        free(s);
        return rc;
    }
    rc = thread_start(&s->thread, THREAD_STACK_LOOP, "watch", watchdog_main, s, reterr);
    if (rc < 0) {
        monitor_fini(&s->monitor);
        free(s);
        return rc;
    }
    *ret = s;
    return PR_OK;
}

void watchdog_stop(struct watchdog *s)
{
    if (s == NULL)
        return;
    monitor_lock(&s->monitor);
    s->stops = true;
    monitor_notify(&s->monitor);
    monitor_unlock(&s->monitor);
    pthread_join(s->thread, NULL);
    monitor_fini(&s->monitor);
    free(s);
}
