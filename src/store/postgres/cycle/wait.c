/* Wake-ups: by a thread of this process, by a look at the server, or by a sender's NOTIFY.
 *
 * While few messages come, senders ring (NOTIFY), and each message is read at once.  NOTIFY takes a lock of the whole
 * database in a sender's commit; so where many messages come, or there is a backlog anyway, nobody rings: a waiting
 * session looks, often while something happens, and a few times a second when nothing does.
 *
 * A session that wants to be rung holds the advisory lock of the box (one session is enough: all of them listen), also
 * during its cycles; a sender that finds it taken rings, and otherwise shares it until it has committed (the trigger in
 * 077_insert_box.sql).  So a session that gets the lock and then looks has missed no message, and one that does not get
 * it keeps looking.  All other changes that a look would find ring, too (048_ring_box.sql): the holder of the lock
 * looks rarely.  Behind a pooler there are only looks, as where the server allows two-phase commit
 * (max_prepared_transactions), since a transaction that has rung cannot be prepared.  Where the server's log is a
 * source, nobody has to ring: the log wakes the session. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/util.h"
#include "store/postgres/postgres.h"

/* interval of looks after which nothing has happened for a while, so that the session can sleep */
#define ASLEEP_AFTER_US PR_MILLISECONDS(10)
/* Messages per second: above this, NOTIFY costs senders more than looks cost this session. */
#define RING_PER_S_MAX 1000
#define RATE_SPAN_US PR_MILLISECONDS(100) /* the time over which a rate is measured */
/* while the server's log wakes the session: for changes that the log does not show */
#define LOG_POLL_US PR_SECONDS(1)
/* while others ring: for changes that nobody rings for.  Leases are renewed more often */
#define ASLEEP_LOOK_US PR_SECONDS(6)
#define NOTIFIED_AGAIN_US PR_MILLISECONDS(2)

static const char LOOK[] = "SELECT " PG_LOOK;

static int64_t real_us(void)
{
    return clock_mono_us(clock_system());
}

void pg_wait_open(struct pg_session *session)
{
    session->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); /* without one, looks are used */
    session->wait_us = session->store->poll_min_us;
}

void pg_wait_close(struct pg_session *session)
{
    if (session->event_fd >= 0)
        close(session->event_fd);
    session->event_fd = -1;
}

/* ---- The channel ------------------------------------------------------------------------------ */

#define SLEEP_LOCK "(hashtextextended('postrider ' || $1, 0))"
#define CHANNEL_SIZE (2 * BOX_NAME_MAX + 2)

/* The channel on which senders NOTIFY, as 077_insert_box.sql has it. */
static pr_slice channel_name(const struct pg_session *session, char ret[CHANNEL_SIZE])
{
    int size = snprintf(ret, CHANNEL_SIZE, "%s.%s", session->link->conninfo->schema, session->box_name);
    return (pr_slice){ ret, (size_t)size };
}

static bool is_listening(const struct pg_session *session)
{
    return link_is_up(session->link) && session->listens == session->link->generation;
}

static bool holds_sleep_lock(const struct pg_session *session)
{
    return link_is_up(session->link) && session->sleep_lock == session->link->generation;
}

static bool sleep_lock_do(struct pg_session *session, const char *sql)
{
    char name[CHANNEL_SIZE];
    struct args args = { .count = 0 };
    PGresult *r = NULL;
    size_t mark = session->link->result_count;
    arg_text(&args, channel_name(session, name));
    bool done = link_do(session->link, sql, NO_BOX, &args, &r, NULL) == PR_OK && field_bool(r, 0, 0);
    link_forget_after(session->link, mark);
    return done;
}

/* From now on senders ring, if no other session sleeps (then they ring anyway) and no transaction that has sent
 * something is open (then looks are used). */
static void sleep_lock_take(struct pg_session *session)
{
    struct link *link = session->link;
    if (!link_is_up(link) || link->pooled || !link->rings || session->fresh_reported || holds_sleep_lock(session))
        return; /* new rows were reported already: more notifications would be useless */
    if (session->listens != link->generation && link_script(link, "LISTEN postrider", NULL) == PR_OK)
        session->listens = link->generation;
    if (is_listening(session) && sleep_lock_do(session, "SELECT pg_try_advisory_lock" SLEEP_LOCK)) {
        session->sleep_lock = link->generation;
        session->looked_us = 0; /* senders before that did not ring */
    }
}

/* Awake: nobody needs to ring.  When the connection is gone, so is the lock. */
static void sleep_lock_leave(struct pg_session *session)
{
    if (holds_sleep_lock(session))
        (void)sleep_lock_do(session, "SELECT pg_advisory_unlock" SLEEP_LOCK);
    session->sleep_lock = 0;
}

/* Message rate, from the seqs drawn since the last time. */
static void rate_remember(struct pg_session *session)
{
    int64_t now_us = real_us(), span_us = now_us - session->rate_us;
    if (span_us < RATE_SPAN_US)
        return;
    session->many_come =
        session->rate_us != 0 && (session->seen_last - session->rate_last) * PR_SECONDS(1) / span_us > RING_PER_S_MAX;
    session->rate_us = now_us;
    session->rate_last = session->seen_last;
}

void pg_wait_after_cycle(struct pg_session *session)
{
    rate_remember(session);
    if (session->fresh_reported || session->many_come)
        sleep_lock_leave(session);
}

/* For this box, or for all of them? */
static bool rings_for(const struct pg_session *session, const char *name, const char *channel)
{
    size_t schema = strlen(session->link->conninfo->schema) + 1;
    return strcmp(channel, name) == 0 || (strncmp(channel, name, schema) == 0 && channel[schema] == '\0');
}

/* Was it a session of another box in this store?  Its owner knows what it has stored here (see store.h). */
static bool is_known(struct pg_session *session, int backend)
{
    bool known = false;
    pthread_mutex_lock(&session->store->sessions_lock);
    list_foreach(node, &session->store->sessions) {
        struct pg_session *other = LIST_ENTRY(node, struct pg_session, node);
        known |= atomic_load(&other->backend) == backend && !slice_eq(other->box, session->box);
    }
    pthread_mutex_unlock(&session->store->sessions_lock);
    return known;
}

/* Did it ring for this box since the engine looked for rows?  Notifications for other boxes are consumed, too. */
static bool channel_rang(struct pg_session *session)
{
    char name[CHANNEL_SIZE];
    bool rang = false;
    PGnotify *notify;
    if (!is_listening(session))
        return false;
    channel_name(session, name);
    if (!PQconsumeInput(session->link->pg))
        return true; /* the next look finds out what it is */
    while ((notify = PQnotifies(session->link->pg)) != NULL) {
        bool for_us = rings_for(session, name, notify->extra);
        bool known = for_us && strcmp(notify->extra, name) == 0 && is_known(session, notify->be_pid);
        rang = rang || (for_us && !known);
        PQfreemem(notify);
    }
    rang = rang && !session->fresh_reported;
    session->fresh_reported |= rang;
    return rang;
}

/* ---- Looks ------------------------------------------------------------------------------------- */

void pg_wait_remember(struct cycle_run *run)
{
    struct pg_session *session = run->session;
    const struct cycle_reply *reply = &session->reply;
    if (run->cycle->fresh_rows > 0) /* cycles for other purposes (renewing a lease) have not looked for rows */
        session->fresh_reported = !reply->fresh_end;
    session->seen_notice = reply->notice_last;
    session->seen_instances = run->epoch ^ (int64_t)run->lanes;
    for (size_t i = 0; i < run->peer_count; i++)
        session->seen_instances ^= run->peers[i].epoch ^ (int64_t)run->peers[i].lanes;
    if (run->cycle->fresh_rows > 0)
        session->looked_us = real_us();
    if (reply->row_count > 0 || run->cycle->verdict_count > 0)
        session->wait_us = session->store->poll_min_us;
}

void pg_look_args(struct pg_session *session, struct args *args)
{
    struct array *running = &session->arrays[0];
    array_begin(running, OID_INT8);
    for (size_t i = 0; i < session->running_count; i++)
        array_i64(running, (int64_t)session->running[i]);
    arg_text(args, session->box);
    arg_i64(args, session->seen_notice);
    arg_array(args, running);
    arg_i64(args, session->repaired);
}

static bool finds_rows(const struct pg_session *session, const PGresult *r)
{
    return field_i64(r, 0, 0) != session->seen_last || field_bool(r, 0, 3) || field_i64(r, 0, 4) != session->seen_file;
}

static bool finds_others(const struct pg_session *session, const PGresult *r)
{
    return field_bool(r, 0, 1) || field_i64(r, 0, 2) != session->seen_instances;
}

bool pg_look_finds(const struct pg_session *session, const PGresult *r)
{
    return finds_rows(session, r) || finds_others(session, r);
}

/* Is there anything new?  A fault counts, too: the next cycle will report it. */
static bool look(struct pg_session *session)
{
    struct link *link = session->link;
    struct args args = { .count = 0 };
    PGresult *r = NULL;
    size_t mark = link->result_count;

    pg_look_args(session, &args);
    if (!link_is_up(link) || link_do(link, LOOK, session->box, &args, &r, NULL) != PR_OK)
        return true;
    bool rows = !session->fresh_reported && finds_rows(session, r);
    session->fresh_reported |= rows;
    bool changed = rows || finds_others(session, r);
    link_forget_after(link, mark);
    return changed;
}

/* Waits until one of the descriptors is readable or the time is over: an enum wait_outcome. */
static int doze(struct pg_session *session, int wake_fd, int64_t us)
{
    struct timespec span = { .tv_sec = us / PR_SECONDS(1), .tv_nsec = us % PR_SECONDS(1) * 1000 };
    int channel_fd = is_listening(session) ? PQsocket(session->link->pg) : -1;
    struct pollfd fds[] = { { .fd = session->event_fd, .events = POLLIN },
                            { .fd = wake_fd, .events = POLLIN },
                            { .fd = channel_fd, .events = POLLIN } };
    eventfd_t ignored;
    if (us > 0 && channel_rang(session)) /* it came with the answer to the look */
        return WAIT_LOOK_AGAIN;
    if (ppoll(fds, ARRAY_LENGTH(fds), &span, NULL) <= 0)
        return WAIT_TIMEOUT;
    if (fds[0].revents & POLLIN) {
        (void)eventfd_read(session->event_fd, &ignored);
        /* The log reports a commit a moment before its rows become visible: look again soon. */
        session->wait_us = min64(session->store->poll_min_us, NOTIFIED_AGAIN_US);
    }
    if (fds[0].revents != 0 || channel_rang(session))
        return WAIT_LOOK_AGAIN;
    return fds[1].revents != 0 ? WAIT_WOKEN : WAIT_TIMEOUT;
}

/* How often to look when nothing happens and nobody rings: the more boxes, the less often each, so that an idle process
 * asks fewer than five questions a second, including those that renew its leases. */
static int64_t idle_us(struct postgres_store *store)
{
    int64_t count = 0;
    pthread_mutex_lock(&store->sessions_lock);
    list_foreach(node, &store->sessions)
        count++;
    pthread_mutex_unlock(&store->sessions_lock);
    int64_t each_us =
        atomic_load(&store->log_readers) > 0 ? max64(store->poll_max_us, LOG_POLL_US) : store->poll_max_us;
    return time_mul(each_us, 2 * count + 1);
}

/* A session that is rung looks rarely; but as often as usual while a transaction runs that began before. */
static int64_t asleep_us(const struct pg_session *session)
{
    int64_t every_us = max64(session->wait_us, idle_us(session->store));
    return session->running_count > 0 ? every_us : max64(every_us, ASLEEP_LOOK_US);
}

/* How long until the next look?  Not each wait begins with one: the cycle before it has just looked. */
static int64_t look_in_us(const struct pg_session *session)
{
    int64_t every_us = holds_sleep_lock(session) ? asleep_us(session) : session->wait_us;
    return max64(0, session->looked_us + every_us - real_us());
}

/* Is it time to look, and is something new? */
static bool has_changed(struct pg_session *session)
{
    if (look_in_us(session) > 0)
        return false;
    session->looked_us = real_us();
    if (look(session)) {
        session->wait_us = session->store->poll_min_us;
        return true;
    }
    session->wait_us = min64(session->wait_us + session->wait_us / 4 + 1, idle_us(session->store));
    return false;
}

/* Where nobody rings, an owner that is woken again and again must still look when it is time. */
static int woken_outcome(const struct pg_session *session, int outcome)
{
    return outcome == WAIT_WOKEN && look_in_us(session) <= 0 ? WAIT_LOOK_AGAIN : outcome;
}

static int wait_for_change(struct pg_session *session, int wake_fd, int64_t timeout_us)
{
    int64_t start_us = real_us();
    int outcome = doze(session, wake_fd, 0);
    if (outcome != WAIT_TIMEOUT)
        return woken_outcome(session, outcome);
    pg_purge_while_waiting(session);
    for (;;) {
        if ((session->wait_us >= ASLEEP_AFTER_US || !session->many_come) &&
            atomic_load(&session->store->log_readers) == 0)
            sleep_lock_take(session); /* then look */
        if (!link_is_up(session->link) || has_changed(session))
            break;
        int64_t left_us = timeout_us - (real_us() - start_us);
        if (left_us <= 0)
            return WAIT_TIMEOUT;
        outcome = doze(session, wake_fd, min64(left_us, look_in_us(session)));
        if (outcome != WAIT_TIMEOUT)
            return woken_outcome(session, outcome);
    }
    if (link_is_up(session->link))
        return WAIT_LOOK_AGAIN;
    /* Without a server there is nothing to look at; the cycle tries to connect. */
    (void)doze(session, wake_fd, min64(timeout_us, session->store->poll_max_us));
    return WAIT_LOOK_AGAIN;
}

/* A session that slept undisturbed will sleep again soon, so it keeps the lock.  So does one that was woken while few
 * messages come: the next one rings, too. */
int pg_wait(void *self, int wake_fd, int64_t timeout_us)
{
    struct pg_session *session = self;
    bool purges = session->purge_more && timeout_us > PURGE_AGAIN_US; /* the piece does not end this sleep */
    int rc = wait_for_change(session, wake_fd, purges ? PURGE_AGAIN_US : timeout_us);
    if (purges)
        rc = WAIT_LOOK_AGAIN;
    if (rc == WAIT_LOOK_AGAIN && session->many_come)
        sleep_lock_leave(session);
    return rc;
}
