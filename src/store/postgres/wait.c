/* Wake-ups: somebody in this process says so, or a look at the server does.
 *
 * NOTIFY would take a lock of the whole database in every sender's commit.  Instead a waiting
 * session looks: often while something happens, and a few times a second when nothing does. */
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/util.h"
#include "store/postgres/postgres.h"

/* One look: the sequence, notices, who is there, and whether somebody who ran then has ended. */
static const char LOOK[] =
    "SELECT (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {box_seq}),"
    " EXISTS (SELECT FROM {schema}.control WHERE number > $2 AND box IN ('', $1)),"
    " (SELECT bit_xor(epoch # lanes) FROM {schema}.instance WHERE box = $1),"
    " EXISTS (SELECT FROM unnest($3) AS r(xid) WHERE pg_visible_in_snapshot(r.xid::text::xid8, pg_current_snapshot()))";

void pg_wait_open(struct pg_session *session)
{
    session->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); /* without one, looks have to do */
    session->wait_us = session->store->poll_min_us;
}

void pg_wait_close(struct pg_session *session)
{
    if (session->event_fd >= 0)
        close(session->event_fd);
    session->event_fd = -1;
}

void pg_wait_remember(struct cycle_run *run)
{
    struct pg_session        *session = run->session;
    const struct cycle_reply *reply = &session->reply;
    session->asked_fresh = run->cycle->fresh_rows > 0;
    session->seen_notice = reply->notice_last;
    session->seen_instances = run->epoch ^ (int64_t)run->lanes;
    for (size_t i = 0; i < run->peer_count; i++)
        session->seen_instances ^= run->peers[i].epoch ^ (int64_t)run->peers[i].lanes;
    if (reply->row_count > 0 || run->cycle->verdict_count > 0)
        session->wait_us = session->store->poll_min_us;
}

/* Is there anything new?  A fault is something new, too: the next cycle will say what it is. */
static bool look(struct pg_session *session)
{
    struct link  *link = session->link;
    struct array *running = &session->arrays[0];
    struct args   args = { .count = 0 };
    PGresult     *r = NULL;
    size_t        mark = link->result_count;

    array_begin(running, OID_INT8);
    for (size_t i = 0; i < session->running_count; i++)
        array_i64(running, (int64_t)session->running[i]);
    arg_text(&args, session->box);
    arg_i64(&args, session->seen_notice);
    arg_array(&args, running);
    if (!link_is_up(link) || link_do(link, LOOK, session->box, &args, &r, NULL) != PR_OK)
        return true;
    bool rows = session->asked_fresh && (field_i64(r, 0, 0) != session->seen_last || field_bool(r, 0, 3));
    bool news = rows || field_bool(r, 0, 1) || field_i64(r, 0, 2) != session->seen_instances;
    link_forget_after(link, mark);
    return news;
}

static int64_t real_us(void)
{
    return clock_mono_us(clock_system());
}

/* Until one of the descriptors is readable or so long. */
static bool doze(struct pg_session *session, int wake_fd, int64_t us)
{
    struct timespec span = { .tv_sec = us / PR_SECONDS(1), .tv_nsec = us % PR_SECONDS(1) * 1000 };
    struct pollfd   fds[] = { { .fd = session->event_fd, .events = POLLIN }, { .fd = wake_fd, .events = POLLIN } };
    eventfd_t       ignored;
    bool            woken = ppoll(fds, ARRAY_LENGTH(fds), &span, NULL) > 0;
    if (woken && (fds[0].revents & POLLIN))
        (void)eventfd_read(session->event_fd, &ignored);
    return woken;
}

/* How often to look when nothing happens: all sessions of the process together as often as one
 * should. */
static int64_t idle_us(struct postgres_store *store)
{
    int64_t count = 0;
    pthread_mutex_lock(&store->sessions_lock);
    list_foreach(node, &store->sessions)
        count++;
    pthread_mutex_unlock(&store->sessions_lock);
    return time_mul(store->poll_max_us, max64(count, 1));
}

int pg_wait(void *self, int wake_fd, int64_t timeout_us)
{
    struct pg_session *session = self;
    int64_t            start_us = real_us();
    if (doze(session, wake_fd, 0))
        return 1;
    while (link_is_up(session->link) && !look(session)) {
        int64_t left_us = timeout_us - (real_us() - start_us);
        if (left_us <= 0)
            return 0;
        if (doze(session, wake_fd, min64(left_us, session->wait_us)))
            return 1;
        session->wait_us = min64(session->wait_us + session->wait_us / 4 + 1, idle_us(session->store));
    }
    if (link_is_up(session->link)) {
        session->wait_us = session->store->poll_min_us;
        return 1;
    }
    /* Without a server there is nothing to look at; the cycle tries to connect. */
    (void)doze(session, wake_fd, min64(timeout_us, session->store->poll_max_us));
    return 1;
}
