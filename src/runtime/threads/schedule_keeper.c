#include "runtime/threads/schedule_keeper.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "base/util.h"
#include "runtime/threads/thread.h"
#include "store/schedules.h"

#define LOOK_US PR_SECONDS(10)      /* at the clock */
#define PLACE_MIN_US PR_SECONDS(1)  /* between two looks for events without places, as long as there are some ... */
#define PLACE_MAX_US PR_SECONDS(16) /* ... and when nothing happens, for each costs four statements */
#define AGAIN_US PR_SECONDS(1)      /* after the store said no */
#define BACK_US PR_MINUTES(10)      /* that the clock goes back before somebody looks at the schedules */
#define HASH_SIZE 17
#define BY_CONFIG "config"
#define ARENA_BLOCK 4096

struct schedule_keeper {
    const struct config *config;
    struct store *store;
    struct log *log;
    pthread_t thread;
    bool runs;
    atomic_bool stops;
    int wake_fd;
    bool followed;    /* the configuration is stored */
    bool taken_back;  /* ... and wrong times are taken back, since the clock last went back */
    bool places;      /* the last try to give events their places was fine */
    int64_t place_us; /* until the next one */
    int64_t started_us;
    int64_t ahead_us; /* of the store's clock before ours that does not jump */
};

/* ---- The configuration ------------------------------------------------------------------------- */

struct follower {
    struct store *store;
    const struct config_schedule *list;
    size_t count;
    int64_t started_us;
    size_t payload_max;
    struct log *log;
    struct pr_error *reterr;
};

static int hash_meaning(const struct schedule *s, char ret[HASH_SIZE], struct pr_error *reterr)
{
    struct buf text;
    buf_init(&text, PR_PAYLOAD_MAX);
    schedule_encode_meaning(s, &text);
    int rc = buf_failed(&text);
    if (rc == PR_OK)
        snprintf(ret, HASH_SIZE, "%016" PRIx64, hash_slice(1, buf_slice(&text)));
    buf_fini(&text);
    return rc == PR_OK ? PR_OK : error_set(reterr, rc, "out of memory for a schedule");
}

/* Was it stored by a process that started after us?  A time that has not come is from a wrong clock. */
static bool is_newer(const struct follower *f, const struct schedule_info *info)
{
    return info->s.started_us > f->started_us && info->s.started_us <= store_time(f->store);
}

static const struct schedule_info *info_of(const struct schedule_info *list, size_t count, pr_slice name)
{
    const struct schedule_info *found = NULL;
    for (size_t i = 0; i < count; i++)
        if (slice_eq(list[i].s.name, name) && list[i].state != SCHEDULE_DEAD && (found == NULL || list[i].wish))
            found = &list[i]; /* the latest wish is what will be */
    return found;
}

static void say(const struct follower *f, enum log_level level, const char *event, pr_slice name, const char *text)
{
    log_emit(f->log, level, event, LOG_SLICE("schedule", name), LOG_STR("next", text));
}

static int follow_one(const struct follower *f, const struct config_schedule *c, const struct schedule_info *there)
{
    struct schedule s = c->meaning;
    char hash[HASH_SIZE];
    int rc = hash_meaning(&s, hash, f->reterr);
    if (rc != PR_OK || (there != NULL && slice_eq_cstr(there->s.config, hash)))
        return rc;
    if (there != NULL && is_newer(f, there)) {
        say(f, LOG_INFO, "schedule_kept", s.name,
            "an instance that started later has another configuration; its version is kept");
        return PR_OK;
    }
    s.config = slice_from(hash);
    s.started_us = f->started_us;
    s.paused = there != NULL ? there->state == SCHEDULE_PAUSED : s.paused;
    rc = schedule_put(f->store, PR_STR("outbox"), &s, there != NULL, f->payload_max, f->reterr);
    if (rc == PR_OK)
        say(f, LOG_INFO, there != NULL ? "schedule_changed" : "schedule_added", s.name,
            there != NULL ? "replaced by the configuration of this instance, which started later"
                          : "postrider schedules shows its next times");
    return rc < 0 ? rc : PR_OK; /* a duplicate: another instance was quicker, and the next look tells whose it is */
}

static bool is_in_config(const struct follower *f, pr_slice name)
{
    for (size_t i = 0; i < f->count; i++)
        if (slice_eq_cstr(name, f->list[i].name))
            return true;
    return false;
}

static int cancel_missing(const struct follower *f, const struct schedule_info *info)
{
    if (info->s.config.size == 0 || info->state == SCHEDULE_DEAD || is_in_config(f, info->s.name))
        return PR_OK;
    if (is_newer(f, info)) {
        say(f, LOG_INFO, "schedule_kept", info->s.name,
            "not in this configuration, but in that of an instance that started later");
        return PR_OK;
    }
    int rc = schedule_order(f->store, info->s.name, SCHEDULE_CANCEL, 0, PR_STR(BY_CONFIG),
                            PR_STR("it is no longer in the configuration"), f->reterr);
    if (rc == PR_OK)
        say(f, LOG_INFO, "schedule_cancelled", info->s.name, "it is no longer in the configuration");
    return rc == PR_ENOTFOUND ? PR_OK : rc;
}

int schedules_follow_config(struct store *store, const struct config_schedule *list, size_t count, int64_t started_us,
                            size_t payload_max, struct log *log, struct pr_error *reterr)
{
    const struct follower f = { store, list, count, started_us, payload_max, log, reterr };
    struct schedule_info *there;
    struct arena arena;
    size_t there_count;
    arena_init(&arena, ARENA_BLOCK);
    int rc = schedules_find_known(store, &arena, &there, &there_count, reterr);
    for (size_t i = 0; i < count && rc == PR_OK; i++)
        rc = follow_one(&f, &list[i], info_of(there, there_count, slice_from(list[i].name)));
    for (size_t i = 0; i < there_count && rc == PR_OK; i++)
        rc = cancel_missing(&f, &there[i]);
    arena_fini(&arena);
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

/* True: all is done. */
static bool keep(struct schedule_keeper *k)
{
    struct pr_error error = { 0 };
    size_t count = 0;
    int rc = PR_OK;
    look_at_clock(k);
    if (!k->followed)
        rc = schedules_follow_config(k->store, k->config->schedules, k->config->schedule_count, k->started_us,
                                     (size_t)k->config->payload_max, k->log, &error);
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

/* For roles that may only read: whoever gives places keeps all others from it until he commits, so they may not. */
static void place_events(struct schedule_keeper *k)
{
    struct pr_error error;
    int rc = store_place_events(k->store, &error);
    if (rc < 0 && k->places)
        log_emit(k->log, LOG_WARN, "events_not_placed", LOG_STR("error", error.text));
    k->places = rc >= 0;
    k->place_us = rc == PR_OK ? PLACE_MIN_US : min64(2 * k->place_us, PLACE_MAX_US);
}

static void *run(void *arg)
{
    struct schedule_keeper *k = arg;
    int64_t look_us = 0, place_us = 0;
    k->started_us = store_time(k->store);
    k->ahead_us = k->started_us - clock_mono_us(clock_system());
    while (!atomic_load(&k->stops)) {
        int64_t now_us = clock_mono_us(clock_system());
        if (now_us >= look_us)
            look_us = time_add(now_us, keep(k) ? LOOK_US : AGAIN_US);
        if (now_us >= place_us) {
            place_events(k);
            place_us = time_add(now_us, k->place_us);
        }
        wake_wait(k->wake_fd, min64(look_us, place_us) - now_us);
    }
    return NULL;
}

int schedule_keeper_new(const struct config *config, struct store *store, struct log *log, struct schedule_keeper **ret,
                        struct pr_error *reterr)
{
    struct schedule_keeper *k = calloc(1, sizeof(*k));
    if (k == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for schedules");
    *k = (struct schedule_keeper){
        .config = config, .store = store, .log = log, .places = true, .place_us = PLACE_MIN_US
    };
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
