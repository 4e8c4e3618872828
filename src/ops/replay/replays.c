#include "ops/replay/replays.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "ops/member.h"
#include "runtime/threads/thread.h"
#include "store/audit.h"

#define AGAIN_AFTER_US PR_SECONDS(1) /* pause after a fault of the store */
#define IDLE_US PR_SECONDS(60)

/* The state of a replay after its last step. */
struct seen {
    enum replay_state state;
    struct admin_reply sum;
    char why[PR_ERROR_TEXT_SIZE]; /* why it failed; while it runs: the current fault */
};

struct replay_job {
    pr_id id;
    struct arena arena;   /* memory of its order */
    struct replay replay; /* the thread's, once it was started */
    uint64_t total;
    pr_slice target; /* for people: JSON */
    /* Guarded by the monitor: */
    struct seen seen;
    bool busy; /* the thread runs a step of it */
    bool stopped;
    bool failed;                /* a permanent fault */
    bool again;                 /* it was resumed */
    int64_t begun_us, ended_us; /* store time */
    int64_t next_us;            /* monotonic */
};

struct replays {
    struct runtime *rt;
    struct monitor monitor;               /* guards everything below; notified when there is work */
    struct replay_job *jobs[REPLAYS_MAX]; /* oldest first */
    size_t count;
    bool has_thread, leaving;
    pthread_t thread;
};

struct replays *replays_new(struct runtime *rt)
{
    struct pr_error error;
    struct replays *all = calloc(1, sizeof *all);
    if (all != NULL && monitor_init(&all->monitor, &error) != PR_OK) {
        free(all);
        return NULL;
    }
    if (all != NULL)
        all->rt = rt;
    return all;
}

static void job_free(struct replay_job *job)
{
    if (job == NULL)
        return;
    replay_fini(&job->replay);
    arena_fini(&job->arena);
    free(job);
}

void replays_free(struct replays *all)
{
    if (all == NULL)
        return;
    monitor_lock(&all->monitor);
    all->leaving = true;
    monitor_notify(&all->monitor);
    monitor_unlock(&all->monitor);
    if (all->has_thread)
        ASSERT(pthread_join(all->thread, NULL) == 0);
    for (size_t i = 0; i < all->count; i++)
        job_free(all->jobs[i]);
    monitor_fini(&all->monitor);
    free(all);
}

static bool is_under_way(const struct replay_job *job)
{
    return !job->stopped && !job->failed && job->seen.state != REPLAY_DONE && job->seen.state != REPLAY_FAILED;
}

/* ---- The thread ------------------------------------------------------------------------------- */

static void tell(struct replays *all, const struct replay_job *job, uint64_t changed, int64_t now_us)
{
    struct happening what = { .kind = HAPPENING_CHANGED, .at_us = now_us };
    char text[sizeof what.error];
    (void)snprintf(text, sizeof text, "dead_replay: %llu changed, by %.*s", (unsigned long long)changed,
                   SLICE_ARGS(job->replay.order.by));
    happening_text(what.endpoint, sizeof what.endpoint, job->replay.order.filter.endpoint);
    happening_text(what.box, sizeof what.box, job->replay.order.filter.box);
    happening_text(what.error, sizeof what.error, slice_from(text));
    feed_put(runtime_feed(all->rt), &what);
}

/* Without the lock.  *ret_now_us: store time, 0 if unknown. */
static int job_step(struct replays *all, struct replay_job *job, int64_t *ret_next_us, int64_t *ret_now_us,
                    struct pr_error *reterr)
{
    struct runtime_inside in;
    uint64_t before = job->replay.sum.changed;
    int64_t mono_us = clock_mono_us(clock_system());
    *ret_next_us = time_add(mono_us, AGAIN_AFTER_US);
    *ret_now_us = 0;
    int rc = runtime_enter(all->rt, &in, reterr);
    if (rc != PR_OK)
        return PR_EBUSY; /* a reload, or the end */
    rc = replay_step(&job->replay, in.store, mono_us, ret_next_us, reterr);
    *ret_now_us = store_time(in.store);
    if (rc < 0)
        *ret_next_us = time_add(mono_us, AGAIN_AFTER_US);
    else if (job->replay.sum.changed > before)
        tell(all, job, job->replay.sum.changed - before, *ret_now_us);
    runtime_leave(all->rt);
    return rc;
}

static bool goes_away(int rc)
{
    return rc == PR_EBUSY || rc == PR_ESTORE || rc == PR_EFULL || rc == PR_ENOMEM;
}

/* Locked when called and on return. */
static void job_run(struct replays *all, struct replay_job *job)
{
    struct pr_error error = { 0 };
    int64_t next_us, now_us;
    if (job->again)
        replay_again(&job->replay);
    job->again = false;
    job->busy = true;
    monitor_unlock(&all->monitor);
    int rc = job_step(all, job, &next_us, &now_us, &error);
    monitor_lock(&all->monitor);
    job->busy = false;
    job->seen.state = job->replay.state;
    job->seen.sum = job->replay.sum;
    memcpy(job->seen.why, rc < 0 ? error.text : job->replay.why, sizeof job->seen.why);
    job->failed = rc < 0 && !goes_away(rc);
    job->next_us = next_us;
    if (!is_under_way(job) && job->ended_us == 0)
        job->ended_us = now_us;
}

static struct replay_job *next_job(const struct replays *all)
{
    struct replay_job *next = NULL;
    for (size_t i = 0; i < all->count; i++)
        if (is_under_way(all->jobs[i]) && (next == NULL || all->jobs[i]->next_us < next->next_us))
            next = all->jobs[i];
    return next;
}

static void *replays_run(void *arg)
{
    struct replays *all = arg;
    monitor_lock(&all->monitor);
    while (!all->leaving) {
        struct replay_job *job = next_job(all);
        int64_t now_us = clock_mono_us(clock_system());
        if (job != NULL && job->next_us <= now_us)
            job_run(all, job);
        else
            monitor_wait(&all->monitor, job != NULL ? job->next_us - now_us : IDLE_US);
    }
    monitor_unlock(&all->monitor);
    return NULL;
}

/* ---- Start, stop, resume ---------------------------------------------------------------------- */

/* Copies everything that the order points to into the job's memory. */
static int order_copy(struct replay_job *job, struct pr_error *reterr)
{
    struct admin *o = &job->replay.order;
    pr_slice *const texts[] = { &o->by,          &o->why,           &o->filter.box,   &o->filter.endpoint,
                                &o->filter.type, &o->filter.stream, &o->filter.error, &o->filter.fingerprint };
    struct buf target;
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        *texts[i] = slice_dup(&job->arena, *texts[i]);
        if (texts[i]->data == NULL)
            return error_set(reterr, PR_ENOMEM, "out of memory for a replay");
    }
    buf_init(&target, AUDIT_BYTES_MAX);
    audit_write_target(&target, o);
    job->target = slice_dup(&job->arena, buf_slice(&target));
    buf_fini(&target);
    return job->target.data != NULL ? PR_OK : error_set(reterr, PR_ENOMEM, "out of memory for a replay");
}

static int job_new(const struct replay *replay, struct store *store, struct replay_job **ret, struct pr_error *reterr)
{
    struct replay_job *job = calloc(1, sizeof *job);
    if (job == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a replay");
    arena_init(&job->arena, 1024);
    pr_id_new(&job->id);
    job->replay = (struct replay){
        .order = replay->order, .rate = replay->rate, .canary = replay->canary, .canary_wait_us = replay->canary_wait_us
    };
    job->begun_us = store_time(store);
    replay_begin(&job->replay);
    job->seen.state = job->replay.state;
    job->next_us = clock_mono_us(clock_system());
    struct query count = { .kind = QUERY_DEAD_COUNT, .filter = job->replay.order.filter, .replayable = true };
    struct query_reply counted = { 0 };
    int rc = order_copy(job, reterr);
    if (rc == PR_OK)
        rc = store_query(store, &count, &job->arena, &counted, reterr);
    job->total = counted.total;
    if (rc == PR_OK)
        *ret = job;
    else
        job_free(job);
    return rc;
}

/* Makes room for one more; locked. */
static bool make_room(struct replays *all)
{
    for (size_t i = 0; i < all->count && all->count == REPLAYS_MAX; i++) {
        struct replay_job *job = all->jobs[i];
        if (is_under_way(job) || job->busy)
            continue;
        all->count--;
        memmove(&all->jobs[i], &all->jobs[i + 1], (all->count - i) * sizeof all->jobs[0]);
        job_free(job);
    }
    return all->count < REPLAYS_MAX;
}

int replays_start(struct replays *all, const struct replay *replay, struct store *store, pr_id *ret_id,
                  struct pr_error *reterr)
{
    struct replay_job *job = NULL;
    int rc = job_new(replay, store, &job, reterr);
    if (rc < 0)
        return rc;
    monitor_lock(&all->monitor);
    if (!make_room(all))
        rc = error_set(reterr, PR_EBUSY, "%d replays are running", REPLAYS_MAX);
    if (rc == PR_OK && !all->has_thread) {
        rc = thread_start(&all->thread, THREAD_STACK_LOOP, "replays", replays_run, all, reterr);
        all->has_thread = rc == PR_OK;
    }
    if (rc == PR_OK) {
        all->jobs[all->count++] = job;
        *ret_id = job->id;
        monitor_notify(&all->monitor);
    }
    monitor_unlock(&all->monitor);
    if (rc < 0)
        job_free(job);
    return rc;
}

static struct replay_job *job_find(const struct replays *all, pr_id id)
{
    for (size_t i = 0; i < all->count; i++)
        if (pr_id_equal(all->jobs[i]->id, id))
            return all->jobs[i];
    return NULL;
}

int replays_stop(struct replays *all, pr_id id, int64_t now_us)
{
    monitor_lock(&all->monitor);
    struct replay_job *job = job_find(all, id);
    int rc = job == NULL ? PR_UNKNOWN : !is_under_way(job) ? PR_STALE : PR_OK;
    if (rc == PR_OK) {
        job->stopped = true;
        job->ended_us = now_us;
    }
    monitor_unlock(&all->monitor);
    return rc;
}

/* Also while the thread is still in the last step of a replay that was just stopped. */
int replays_resume(struct replays *all, pr_id id)
{
    monitor_lock(&all->monitor);
    struct replay_job *job = job_find(all, id);
    int rc = job == NULL ? PR_UNKNOWN : is_under_way(job) || job->seen.state == REPLAY_DONE ? PR_STALE : PR_OK;
    if (rc == PR_OK) {
        job->stopped = job->failed = false;
        job->again = true;
        job->ended_us = 0;
        job->seen.why[0] = '\0';
        if (job->seen.state == REPLAY_FAILED)
            job->seen.state = REPLAY_CANARY;
        monitor_notify(&all->monitor);
    }
    monitor_unlock(&all->monitor);
    return rc;
}

/* ---- For people ------------------------------------------------------------------------------- */

static const char *state_word(const struct replay_job *job)
{
    return job->seen.state == REPLAY_DONE                    ? "done"
           : job->failed || job->seen.state == REPLAY_FAILED ? "failed"
           : job->stopped                                    ? "stopped"
           : job->seen.state == REPLAY_REST                  ? "running"
                                                             : "canary";
}

struct replay_reply {
    pr_id id;
    const char *state;
    pr_slice filter, by, why, error;
    uint64_t rate, canary, total, replayed, refused;
    int64_t begun_us, ended_us;
};

static const struct member replay_members[] = {
    /* clang-format off */
    MEMBER(replay_reply, "id", ID, id)
    MEMBER(replay_reply, "state", CSTR, state)
    MEMBER(replay_reply, "filter", OBJECT, filter)
    MEMBER(replay_reply, "rate", COUNT, rate)
    MEMBER(replay_reply, "canary", COUNT, canary)
    MEMBER(replay_reply, "by", TEXT, by)
    MEMBER(replay_reply, "why", TEXT, why)
    MEMBER(replay_reply, "total", BOUNDED, total)
    MEMBER(replay_reply, "replayed", COUNT, replayed)
    MEMBER(replay_reply, "refused", COUNT, refused)
    MEMBER(replay_reply, "begun_at", TIME, begun_us)
    MEMBER(replay_reply, "ended_at", TIME, ended_us)
    MEMBER(replay_reply, "error", TEXT, error)
    /* clang-format on */
};

static void job_write(const struct replay_job *job, struct json_writer *w)
{
    static const struct members table = MEMBERS(replay_members);
    const struct replay_reply r = { .id = job->id,
                                    .state = state_word(job),
                                    .filter = job->target,
                                    .by = job->replay.order.by,
                                    .why = job->replay.order.why,
                                    .error = slice_from(job->seen.why),
                                    .rate = job->replay.rate,
                                    .canary = job->replay.canary,
                                    .total = job->total,
                                    .replayed = job->seen.sum.changed,
                                    .refused = job->seen.sum.refused,
                                    .begun_us = job->begun_us,
                                    .ended_us = job->ended_us };
    members_object(w, &table, &r);
}

int replays_write(struct replays *all, pr_id id, struct json_writer *w)
{
    monitor_lock(&all->monitor);
    const struct replay_job *job = job_find(all, id);
    if (job != NULL)
        job_write(job, w);
    monitor_unlock(&all->monitor);
    return job != NULL ? PR_OK : PR_UNKNOWN;
}

void replays_write_all(struct replays *all, struct json_writer *w)
{
    monitor_lock(&all->monitor);
    json_begin_array(w);
    for (size_t i = all->count; i > 0; i--)
        job_write(all->jobs[i - 1], w);
    json_end_array(w);
    monitor_unlock(&all->monitor);
}
