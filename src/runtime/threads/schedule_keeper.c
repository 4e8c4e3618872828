#include "runtime/threads/schedule_keeper.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/util.h"
#include "runtime/threads/schedule_follow.h"
#include "runtime/threads/source_thread.h"
#include "runtime/threads/thread.h"
#include "store/schedules.h"

#define LOOK_US PR_SECONDS(10)      /* interval of looks at the clock */
#define PLACE_MIN_US PR_SECONDS(1)  /* between two looks for events without places, as long as there are some ... */
#define PLACE_MAX_US PR_SECONDS(16) /* ... and when nothing happens, since each costs four statements */
#define SOURCES_US PR_SECONDS(3)    /* between two looks at the sources of this process */
#define TOLD_US PR_SECONDS(30)      /* errors are stored again: an instance that joined again has lost them */
#define AGAIN_US PR_SECONDS(1)      /* pause after a fault of the store */
#define BACK_US PR_MINUTES(10)      /* a clock that goes back further requires a look at the schedules */

struct schedule_keeper {
    const struct config *config;
    _Atomic(const struct config *) next; /* NULL: unchanged */
    struct store *store;
    struct log *log;
    pthread_t thread;
    bool runs;
    atomic_bool stops;
    int wake_fd;
    bool followed;    /* the schedules of the configuration are stored */
    bool taken_back;  /* ... and wrong times are corrected, since the clock last went back */
    bool places;      /* the last try to assign places succeeded */
    int64_t place_us; /* when the next try is due */
    int64_t started_us;
    void (*describe)(void *arg, struct buf *ret);
    void *describe_arg;
    uint64_t described; /* hash of what was stored last; 0: no errors */
    int64_t described_us;
    int64_t ahead_us; /* difference of the store's clock to the local monotonic one */
};

/* ---- The configuration ------------------------------------------------------------------------- */

static int follow_config(struct schedule_keeper *k, struct pr_error *reterr)
{
    struct schedule_follow f = { .store = k->store,
                                 .list = k->config->schedules,
                                 .count = k->config->schedule_count,
                                 .started_us = k->started_us,
                                 .payload_max = (size_t)k->config->payload_max,
                                 .log = k->log };
    schedule_follow_init(&f);
    int rc = schedule_follow(&f, reterr);
    schedule_follow_fini(&f);
    return rc;
}

/* ---- The thread ----------------------------------------------------------------------------------- */

static void look_at_clock(struct schedule_keeper *k)
{
    int64_t ahead_us = store_time(k->store) - clock_mono_us(clock_system());
    if (ahead_us < k->ahead_us - BACK_US)
        k->taken_back = false;
    k->ahead_us = ahead_us;
}

/* True: everything is done. */
static bool keep(struct schedule_keeper *k)
{
    struct pr_error error = { 0 };
    size_t count = 0;
    int rc = PR_OK;
    look_at_clock(k);
    if (!k->followed)
        rc = follow_config(k, &error);
    k->followed = k->followed || rc == PR_OK;
    if (rc == PR_OK && !k->taken_back)
        rc = schedules_take_back(k->store, &count, &error);
    k->taken_back = k->taken_back || rc == PR_OK;
    if (count > 0)
        log_emit(k->log, LOG_WARN, "schedules_taken_back", LOG_INT("schedules", count),
                 LOG_STR("next", "their next runs were too far in the future: a clock was wrong"));
    if (rc != PR_OK)
        log_emit(k->log, LOG_WARN, "schedules_not_looked_at", LOG_STR("error", error.text));
    return rc == PR_OK;
}

/* For roles that may only read: they must not assign places, since assigning keeps others from it until the commit. */
static void place_events(struct schedule_keeper *k)
{
    struct pr_error error;
    int rc = store_place_events(k->store, &error);
    if (rc < 0 && k->places)
        log_emit(k->log, LOG_WARN, "events_not_placed", LOG_STR("error", error.text));
    k->places = rc >= 0;
    k->place_us = rc == PR_OK ? PLACE_MIN_US : min64(2 * k->place_us, PLACE_MAX_US);
}

/* Stored when it has changed, so that healthy sources cost the store nothing. */
static void note_sources(struct schedule_keeper *k, int64_t now_us)
{
    struct pr_error error;
    struct buf lines;
    buf_init(&lines, SOURCES_TEXT_MAX);
    k->describe(k->describe_arg, &lines);
    uint64_t hash = lines.size > 0 ? hash_slice(1, buf_slice(&lines)) : 0;
    bool is_news = hash != k->described || (hash != 0 && now_us - k->described_us >= TOLD_US);
    if (is_news && buf_failed(&lines) == PR_OK &&
        store_note_sources(k->store, slice_from(k->config->instance), buf_slice(&lines), &error) == PR_OK) {
        k->described = hash;
        k->described_us = now_us;
    }
    buf_fini(&lines);
}

/* True: another configuration applies from now on. */
static bool take_config(struct schedule_keeper *k)
{
    const struct config *next = atomic_exchange(&k->next, NULL);
    if (next == NULL)
        return false;
    k->config = next;
    k->followed = false;
    k->started_us = store_time(k->store);
    return true;
}

static void *run(void *arg)
{
    struct schedule_keeper *k = arg;
    int64_t look_us = 0, place_us = 0, sources_us = 0;
    k->started_us = store_time(k->store);
    k->ahead_us = k->started_us - clock_mono_us(clock_system());
    while (!atomic_load(&k->stops)) {
        int64_t now_us = clock_mono_us(clock_system());
        if (take_config(k))
            look_us = 0;
        if (now_us >= look_us)
            look_us = time_add(now_us, keep(k) ? LOOK_US : AGAIN_US);
        if (now_us >= place_us) {
            place_events(k);
            place_us = time_add(now_us, k->place_us);
        }
        if (now_us >= sources_us) {
            note_sources(k, now_us);
            sources_us = time_add(now_us, SOURCES_US);
        }
        wake_wait(k->wake_fd, min64(sources_us, min64(look_us, place_us)) - now_us);
        wake_clear(k->wake_fd); /* before it checks why it was woken */
    }
    return NULL;
}

int schedule_keeper_new(const struct config *config, struct store *store, struct log *log,
                        void (*describe)(void *arg, struct buf *ret), void *describe_arg, struct schedule_keeper **ret,
                        struct pr_error *reterr)
{
    struct schedule_keeper *k = calloc(1, sizeof(*k));
    if (k == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for schedules");
    *k = (struct schedule_keeper){ .config = config,
                                   .store = store,
                                   .log = log,
                                   .places = true,
                                   .place_us = PLACE_MIN_US,
                                   .describe = describe,
                                   .describe_arg = describe_arg };
    int rc = wake_open(&k->wake_fd, reterr);
    if (rc == PR_OK)
        *ret = k;
    else
        free(k);
    return rc;
}

int schedule_keeper_start(struct schedule_keeper *k, struct pr_error *reterr)
{
    int rc = thread_start(&k->thread, THREAD_STACK_SEND, "schedules", run, k, reterr);
    k->runs = rc == PR_OK;
    return rc;
}

void schedule_keeper_retune(struct schedule_keeper *k, const struct config *config)
{
    atomic_store(&k->next, config);
    wake_send(k->wake_fd);
}

void schedule_keeper_stop(struct schedule_keeper *k)
{
    atomic_store(&k->stops, true);
    wake_send(k->wake_fd);
}

void schedule_keeper_join(struct schedule_keeper *k)
{
    if (k->runs)
        ASSERT(pthread_join(k->thread, NULL) == 0);
    k->runs = false;
}

void schedule_keeper_free(struct schedule_keeper *k)
{
    if (k == NULL)
        return;
    schedule_keeper_stop(k);
    schedule_keeper_join(k);
    wake_close(k->wake_fd);
    free(k);
}
