/* wait.c - waiting until another connection has committed.
 *
 * Inside this process an eventfd signals it; a commit of another process writes to the log file (-wal), which inotify
 * reports at once and at no cost while it is quiet.  The session's own commits write there, too, so PRAGMA
 * data_version, which counts only the commits of others, has the last word.  The log is written before it is synced,
 * and the commit becomes visible only after that, so the session looks repeatedly for a while after a write: most
 * often when the write came while it waited and others commit for this box.  Without inotify it polls: often after
 * activity, less and less often in silence. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/slice.h"
#include "store/sqlite/sqlite.h"

#define POLL_CALM_US PR_SECONDS(2) /* full attention for this time after activity */
#define STIRRED_MIN_US 250       /* the log was written to: its commit will be visible soon, or was the session's own */
#define STIRRED_NOW_US 40        /* the same for a write that came while the session waited, ... */
#define STIRRED_NOW_LONG_US 1500 /* ... for this time: a sync that takes longer is slow, and the looks become rarer */
#define PROBE_US PR_MILLISECONDS(50)    /* standing by: how often to try the lock file */
#define FRUITLESS_MANY 8                /* consecutive looks that found nothing: the commits are not for this box ... */
#define FRUITLESS_US PR_MILLISECONDS(2) /* ... and those within this time are looked at together */

/* The watch fires once and is then removed: a commit writes hundreds of times, this session's as well as those of
 * others. */
static void watch_arm(struct sqlite_session *session)
{
    if (session->inotify_fd >= 0 && !session->watching)
        session->watching = inotify_add_watch(session->inotify_fd, session->log_path, IN_MODIFY | IN_ONESHOT) >= 0;
}

static void watch_hear(struct sqlite_session *session, bool waiting)
{
    char events[4096];
    while (session->inotify_fd >= 0 && read(session->inotify_fd, events, sizeof(events)) > 0) {
        session->watching = false;
        session->stirred_us = clock_mono_us(clock_system());
        session->stirred_by_others = waiting;
    }
}

void wait_open(struct sqlite_session *session)
{
    const struct sqlite_location *location = &session->store->location;

    session->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    session->inotify_fd = -1;
    if (location->memory || asprintf(&session->log_path, "%s-wal", location->path) < 0) {
        session->log_path = NULL; /* asprintf leaves it undefined */
        return;
    }
    session->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
}

void wait_close(struct sqlite_session *session)
{
    if (session->event_fd >= 0)
        close(session->event_fd);
    if (session->inotify_fd >= 0)
        close(session->inotify_fd);
    if (session->lock_fd >= 0)
        close(session->lock_fd);
    free(session->log_path);
}

void store_wake(struct sqlite_store *store)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&store->lock);
    list_foreach(node, &store->sessions) {
        struct sqlite_session *session = LIST_ENTRY(node, struct sqlite_session, node);
        /* A full counter is readable as well. */
        if (session->event_fd >= 0 && write(session->event_fd, &one, sizeof(one)) < 0)
            continue;
    }
    pthread_mutex_unlock(&store->lock);
}

/* Before a cycle reads: the cycle will see everything that happened until now. */
void wait_drain(struct sqlite_session *session)
{
    uint64_t count;
    if (session->event_fd >= 0 && read(session->event_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
        return;
}

/* Has another connection committed since this session's latest cycle, or before it and after the latest cycle that
 * looked for new rows? */
static bool others_committed(struct sqlite_session *session)
{
    int64_t version = session->data_version;
    conn_lock(session->conn);
    int rc = conn_int(session->conn, "PRAGMA data_version", session->box, NULL, 0, &version, NULL);
    conn_unlock(session->conn);
    bool unseen = !session->fresh_reported && session->fresh_version != session->data_version;
    session->fresh_reported |= unseen;
    return rc != PR_OK || version != session->data_version || unseen; /* in doubt, look */
}

/* A standby session need not look at each commit of the owner: only whether the owner is still there. */
static bool something_happened(struct sqlite_session *session)
{
    if (!session->owner)
        return session->probe_lock && lease_try_lock(session);
    return others_committed(session) || conn_is_replaced(session->conn);
}

static int64_t next_look_us(const struct sqlite_session *session, int64_t now_us, int64_t until_us)
{
    const struct sqlite_store *store = session->store;
    int64_t pause_us = PROBE_US, stirred_us = now_us - session->stirred_us;
    if (session->owner && session->watching && session->stirred_by_others && session->fruitless < FRUITLESS_MANY &&
        stirred_us < STIRRED_NOW_LONG_US)
        pause_us = max64(STIRRED_NOW_US, stirred_us / 8);
    else if (session->owner && session->watching) /* a commit becomes visible only some time after its last write */
        pause_us = max64(STIRRED_MIN_US, min64(store->poll_max_us, stirred_us / 2));
    else if (session->owner)
        pause_us =
            max64(store->poll_min_us, min64(store->poll_max_us, (now_us - session->active_us - POLL_CALM_US) / 16));
    return min64(time_add(now_us, pause_us), until_us);
}

/* Just after a write to the log, further writes say nothing new. */
static bool may_listen(const struct sqlite_session *session, int64_t now_us)
{
    return session->owner && now_us - session->stirred_us >= STIRRED_MIN_US;
}

/* True: woken by an event. */
static bool wait_fds(struct sqlite_session *session, int wake_fd, bool listen, int64_t now_us, int64_t until_us)
{
    int64_t us = max64(0, until_us - now_us);
    struct pollfd fds[3] = { { .fd = wake_fd, .events = POLLIN },
                             { .fd = session->event_fd, .events = POLLIN },
                             { .fd = listen ? session->inotify_fd : -1, .events = POLLIN } };
    struct timespec timeout = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };
    int ready = ppoll(fds, ARRAY_LENGTH(fds), &timeout, NULL);
    return ready > 0 && (fds[0].revents != 0 || fds[1].revents != 0);
}

/* An idle box in the same file as a busy one would wake up for each of its commits.  Senders in this process wake the
 * session at once all the same.  True: woken by an event. */
static bool rest_after_fruitless(struct sqlite_session *session, int wake_fd, int64_t now_us, int64_t until_us)
{
    int64_t look_us = session->fruitless < FRUITLESS_MANY ? now_us : session->looked_us + FRUITLESS_US;
    bool woken = false;
    if (look_us > now_us)
        woken = wait_fds(session, wake_fd, false, now_us, min64(look_us, until_us));
    session->looked_us = clock_mono_us(clock_system());
    return woken;
}

static int wait_for_change(struct sqlite_session *session, int wake_fd, int64_t timeout_us)
{
    int64_t now_us = clock_mono_us(clock_system());
    int64_t until_us = time_add(now_us, timeout_us);

    session_checkpoint(session);
    if (rest_after_fruitless(session, wake_fd, now_us, until_us)) {
        session->active_us = now_us;
        return WAIT_LOOK_AGAIN;
    }
    for (bool waiting = false;; waiting = true) {
        watch_hear(session, waiting);
        watch_arm(session); /* before the look: later writes wake the session again */
        if (something_happened(session)) {
            session->active_us = clock_mono_us(clock_system());
            return WAIT_LOOK_AGAIN;
        }
        now_us = clock_mono_us(clock_system());
        if (wait_fds(session, wake_fd, may_listen(session, now_us), now_us, next_look_us(session, now_us, until_us))) {
            session->active_us = now_us;
            return WAIT_LOOK_AGAIN;
        }
        if (clock_mono_us(clock_system()) >= until_us)
            return WAIT_TIMEOUT;
    }
}

int sqlite_wait(void *arg, int wake_fd, int64_t timeout_us)
{
    struct sqlite_session *session = arg;
    bool purges = session->purge_more && timeout_us > PURGE_AGAIN_US;
    int rc = wait_for_change(session, wake_fd, purges ? PURGE_AGAIN_US : timeout_us);
    return purges ? WAIT_LOOK_AGAIN : rc;
}
