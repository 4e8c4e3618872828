#include "ops/sentry.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/util.h"
#include "ops/status.h"
#include "policy/aftermath.h"
#include "runtime/thread.h"

#define ARENA_BYTES 65536
#define PAYLOAD_MAX 8192
#define LOOKS_MISSED 3 /* so many without a warning at least, until it is over */

struct sentry {
    struct runtime *rt;
    struct log *log;
    pthread_t thread;
    struct bell bell;
    bool stops; /* under the bell's lock */
};

/* ---- One look -------------------------------------------------------------------------------------- */

static void payload_write(struct buf *b, const struct config *config, const struct check *check, int64_t now_us)
{
    struct json_writer w;
    json_init(&w, b);
    json_begin_object(&w);
    json_key(&w, "check");
    json_cstr(&w, check->name);
    json_key(&w, "about");
    json_cstr(&w, check->about);
    json_key(&w, "advice");
    json_cstr(&w, check->text);
    json_key(&w, "instance");
    json_cstr(&w, config->instance);
    json_key(&w, "at");
    json_time(&w, now_us);
    json_end_object(&w);
}

static int raise_about(const struct runtime_inside *in, const struct check *check, int64_t now_us,
                       struct pr_error *reterr)
{
    struct buf payload;
    pr_id id;
    buf_init(&payload, PAYLOAD_MAX);
    payload_write(&payload, in->config, check, now_us);
    int rc = buf_failed(&payload);
    if (rc != PR_OK)
        rc = error_set(reterr, rc, "no memory for a warning");
    const struct pr_message m = {
        .type = slice_from(in->config->watch.raise_type),
        .destination = slice_from(in->config->watch.raise_to),
        .content_type = PR_STR("application/json"),
        .headers = PR_STR("{\"" HEADER_RAISED "\":\"watch\"}"),
        .payload = buf_slice(&payload),
    };
    if (rc == PR_OK)
        rc = store_enqueue(in->store, PR_STR("outbox"), &m, 1, (size_t)in->config->payload_max, &id, NULL,
                           reterr);
    buf_fini(&payload);
    return rc;
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

int sentry_look(const struct runtime_inside *in, struct pr_error *reterr)
{
    const struct check *checks[WARNINGS_MAX];
    pr_slice names[WARNINGS_MAX];
    bool is_new[WARNINGS_MAX];
    struct arena arena;
    int raised = 0;
    arena_init(&arena, ARENA_BYTES);
    struct status *s = arena_zalloc(&arena, sizeof *s);
    int rc = s != NULL ? PR_OK : error_set(reterr, PR_ENOMEM, "no memory for the watchdogs");
    if (rc == PR_OK) {
        *s = (struct status){ .config = in->config, .store = in->store, .checks.arena = &arena };
        rc = status_collect(s, reterr);
    }
    size_t count = rc == PR_OK ? warnings_of(s, checks, names) : 0;
    if (count > 0) /* what holds at every look is not over in between */
        rc = store_warn(in->store, names, count,
                        max64(in->config->watch.calm_us, LOOKS_MISSED * in->config->watch.every_us), is_new,
                        reterr);
    for (size_t i = 0; i < count && rc == PR_OK; i++) {
        if (is_new[i])
            rc = raise_about(in, checks[i], s->boxes.now_us, reterr);
        raised += is_new[i] && rc == PR_OK;
    }
    arena_fini(&arena);
    return rc < 0 ? rc : raised;
}

/* ---- The thread -------------------------------------------------------------------------------------- */

/* How long to wait until the next look. */
static int64_t look(struct sentry *s)
{
    struct runtime_inside in;
    struct pr_error error;
    if (runtime_enter(s->rt, &in, &error) < 0)
        return PR_SECONDS(1); /* it does not run yet, or no more */
    int64_t every_us = in.config->watch.every_us;
    int rc = sentry_look(&in, &error);
    runtime_leave(s->rt);
    if (rc < 0) /* the store: whoever works with it tells of that */
        log_emit(s->log, LOG_DEBUG, "watch_failed", LOG_STR("error", error.text));
    if (rc > 0)
        log_emit(s->log, LOG_WARN, "warnings_raised", LOG_INT("count", rc));
    return every_us;
}

static void *sentry_main(void *arg)
{
    struct sentry *s = arg;
    bell_lock(&s->bell);
    while (!s->stops) {
        bell_unlock(&s->bell);
        int64_t until_us = clock_mono_us(clock_system()) + look(s);
        bell_lock(&s->bell);
        int64_t left_us;
        while (!s->stops && (left_us = until_us - clock_mono_us(clock_system())) > 0)
            bell_wait(&s->bell, left_us);
    }
    bell_unlock(&s->bell);
    return NULL;
}

int sentry_start(struct runtime *rt, struct log *log, struct sentry **ret, struct pr_error *reterr)
{
    struct sentry *s = calloc(1, sizeof *s);
    if (s == NULL)
        return error_set(reterr, PR_ENOMEM, "no memory for the watchdogs");
    s->rt = rt;
    s->log = log;
    int rc = bell_init(&s->bell, reterr);
    if (rc < 0) {
        free(s);
        return rc;
    }
    rc = thread_start(&s->thread, THREAD_STACK_LOOP, "watch", sentry_main, s, reterr);
    if (rc < 0) {
        bell_fini(&s->bell);
        free(s);
        return rc;
    }
    *ret = s;
    return PR_OK;
}

void sentry_stop(struct sentry *s)
{
    if (s == NULL)
        return;
    bell_lock(&s->bell);
    s->stops = true;
    bell_ring(&s->bell);
    bell_unlock(&s->bell);
    pthread_join(s->thread, NULL);
    bell_fini(&s->bell);
    free(s);
}
