/* lease.c - which instance serves the box.
 *
 * At most one instance of a box has lanes: all of them.  Others stand by and check, in each of their cycles, whether
 * they may take over:
 *   - no instance serves the box, and it was not passed to another live one; or
 *   - the owner's lease is over, or dates from before the machine was restarted (if a long transaction of another
 *   program kept
 *     the owner from renewing, it first gets a moment to do so); or
 *   - the owner held the lock file, and this instance gets the lock: the owner's process is gone.
 * The instance that takes over buries the owner in the same transaction: the owner's row is deleted, so any later
 * change of it is refused (T3), and its open hand-outs are counted (T6).
 *
 * An owner that sleeps keeps its lock file.  Then only the lease decides, and its successor notes in its own row
 * (locked = 0) that it does not hold the lock file. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/buf.h"
#include "base/slice.h"
#include "core/story.h"
#include "store/sqlite/sqlite.h"

#define LANES_NONE 0
#define KEPT_OUT_DIVISOR 8            /* waiting longer for the write lock than this part of the lease counts as long */
#define OWNER_CHANCE_US PR_SECONDS(2) /* longer than an engine waits before it tries a busy store again */
#define LOST_ARENA_BYTES 4096
#define PEERS_MAX 64 /* standby instances listed; further ones are left out */

static pr_slice boot_id(const struct sqlite_cycle *run)
{
    return slice_from(run->session->store->boot_id);
}

/* ---- The lock file --------------------------------------------------------------------- */

/* PATH-BOX.lock; without it (no permission to create it) only leases decide. */
void lease_open_lock(struct sqlite_session *session)
{
    const struct sqlite_location *location = &session->store->location;
    char *path = NULL;

    session->lock_fd = -1;
    if (location->memory || asprintf(&path, "%s-%s.lock", location->path, session->box_name) < 0)
        return;
    struct stat database; /* only users that may write the database may hold its lock */
    mode_t mode = stat(location->path, &database) == 0 ? database.st_mode & 0660 : 0600;
    session->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode);
    if (session->lock_fd < 0)
        log_emit(session->store->log, LOG_WARN, "no_lock_file", LOG_STR("path", path));
    free(path);
}

/* In memory all sessions are in this process: their list replaces the lock file. */
static bool try_lock_memory(struct sqlite_session *session)
{
    bool free_now = true;
    pthread_mutex_lock(&session->store->lock);
    list_foreach(node, &session->store->sessions) {
        struct sqlite_session *other = LIST_ENTRY(node, struct sqlite_session, node);
        if (other != session && other->locked && slice_eq(other->box, session->box))
            free_now = false;
    }
    session->locked = free_now;
    pthread_mutex_unlock(&session->store->lock);
    return free_now;
}

/* The lock file was deleted: programs that open the path now get another file, and a lock on this one proves
 * nothing. */
static bool lock_was_removed(const struct sqlite_session *session)
{
    struct stat state;
    return session->lock_fd >= 0 && (fstat(session->lock_fd, &state) != 0 || state.st_nlink == 0);
}

bool lease_try_lock(struct sqlite_session *session)
{
    if (!session->store->location.memory && lock_was_removed(session)) {
        close(session->lock_fd);
        session->locked = false;
        lease_open_lock(session);
    }
    if (session->locked)
        return true;
    if (session->store->location.memory)
        return try_lock_memory(session);
    session->locked = session->lock_fd >= 0 && flock(session->lock_fd, LOCK_EX | LOCK_NB) == 0;
    return session->locked;
}

void lease_unlock(struct sqlite_session *session)
{
    if (!session->locked)
        return;
    if (session->store->location.memory) {
        pthread_mutex_lock(&session->store->lock);
        session->locked = false;
        pthread_mutex_unlock(&session->store->lock);
        return;
    }
    flock(session->lock_fd, LOCK_UN);
    session->locked = false;
}

/* ---- Reading ----------------------------------------------------------------------------- */

int lease_read(struct sqlite_cycle *run, struct instance_row *ret)
{
    sqlite3_stmt *statement;
    int rc = conn_bind(
        run->conn, "SELECT epoch, cycle, lease_end, lanes FROM postrider_instance WHERE id = ?1 AND box = ?2",
        run->session->box, VALUES(V_ID(run->cycle->instance), V_TEXT(run->session->box)), &statement, run->reterr);
    if (rc != PR_OK)
        return rc;
    *ret = (struct instance_row){ .known = false };
    rc = conn_step(run->conn, statement, run->reterr);
    if (rc <= 0)
        return rc;
    *ret = (struct instance_row){
        .known = true,
        .epoch = sqlite3_column_int64(statement, 0),
        .cycle = (uint64_t)sqlite3_column_int64(statement, 1),
        .lease_end_us = sqlite3_column_int64(statement, 2),
        .owner = sqlite3_column_int(statement, 3) != LANES_NONE,
    };
    sqlite3_reset(statement);
    return PR_OK;
}

struct owner {
    bool there;
    pr_id id;
    bool over;   /* its lease is over */
    bool locked; /* it holds the lock file */
};

static int owner_read(struct sqlite_cycle *run, struct owner *ret)
{
    sqlite3_stmt *statement;
    int rc = conn_bind(
        run->conn,
        "SELECT id, lease_end <= ?2 OR boot_id <> ?3, locked FROM postrider_instance WHERE box = ?1 AND lanes > 0",
        run->session->box, VALUES(V_TEXT(run->session->box), V_INT(run->mono_us), V_TEXT(boot_id(run))), &statement,
        run->reterr);
    if (rc != PR_OK)
        return rc;
    *ret = (struct owner){ .there = false };
    rc = conn_step(run->conn, statement, run->reterr);
    if (rc <= 0)
        return rc;
    pr_slice id = column_slice(statement, 0);
    ret->there = true;
    if (id.size == sizeof(ret->id.bytes))
        memcpy(ret->id.bytes, id.data, id.size);
    ret->over = sqlite3_column_int(statement, 1) != 0;
    ret->locked = sqlite3_column_int(statement, 2) != 0;
    sqlite3_reset(statement);
    return PR_OK;
}

void lease_note_wait(struct sqlite_cycle *run)
{
    int64_t now_us = store_mono_us(run->session->store);
    if (now_us - run->mono_us >= run->cycle->lease_us / KEPT_OUT_DIVISOR)
        run->session->kept_out_us = now_us;
}

/* Is the box, which no instance serves, reserved for another live instance? */
static int is_passed_on(struct sqlite_cycle *run, bool *ret)
{
    int64_t found;
    int rc = conn_int(
        run->conn,
        "SELECT 1 FROM postrider_box b JOIN postrider_instance i ON i.box = b.name AND i.epoch = b.passed_to"
        " WHERE b.name = ?1 AND i.id <> ?2 AND i.lease_end > ?3 AND i.boot_id = ?4",
        run->session->box,
        VALUES(V_TEXT(run->session->box), V_ID(run->cycle->instance), V_INT(run->mono_us), V_TEXT(boot_id(run))),
        &found, run->reterr);
    *ret = rc == PR_OK;
    return rc == PR_UNKNOWN ? PR_OK : rc;
}

int lease_pass(struct sqlite_cycle *run, int64_t epoch)
{
    return conn_do(run->conn, "UPDATE postrider_box SET passed_to = ?2 WHERE name = ?1 AND passed_to <> ?2",
                   run->session->box, VALUES(V_TEXT(run->session->box), V_INT(epoch)), NULL, run->reterr);
}

/* A long transaction of another program blocks all writers, including a live owner that would renew its lease.  When it
 * ends, a standby instance must not be faster than the owner: an owner that holds the lock file gets some more time,
 * counted from when an instance that could write saw the lease to be over. */
static bool has_had_its_chance(struct sqlite_cycle *run, const struct owner *owner)
{
    struct sqlite_session *session = run->session;
    int64_t now_us = store_mono_us(session->store), lease_us = run->cycle->lease_us;
    bool kept_out = session->kept_out_us != 0 && now_us - session->kept_out_us < lease_us;
    if (!owner->locked || !kept_out || !run->write) /* a read transaction is repeated as a write */
        return true;
    if (session->over_since_us == 0)
        session->over_since_us = now_us;
    return now_us - session->over_since_us >= min64(OWNER_CHANCE_US, lease_us / 2);
}

int lease_can_take(struct sqlite_cycle *run, bool *ret)
{
    struct sqlite_session *session = run->session;
    struct owner owner;
    bool passed_on = false;
    int rc = owner_read(run, &owner);
    if (rc == PR_OK && !owner.there)
        rc = is_passed_on(run, &passed_on);
    if (rc != PR_OK)
        return rc;
    session->probe_lock = owner.there && owner.locked;
    *ret = (!owner.there && !passed_on) || (owner.locked && lease_try_lock(session)) ||
           (owner.over && has_had_its_chance(run, &owner));
    if (!owner.there || !owner.over)
        session->over_since_us = 0;
    if (!*ret)
        lease_unlock(session); /* the lock proved nothing, and the owner may need it */
    return PR_OK;
}

/* ---- Burying ------------------------------------------------------------------------------ */

struct lost { /* a hand-out without a verdict */
    struct lost *next;
    int64_t row, at_us;
    int attempt;
    pr_slice destination, instance, story;
};

static const char LOST[] = "SELECT b.row_id, b.attempts + 1, max(c.at), b.destination, (SELECT name FROM "
                           "postrider_instance WHERE id = ?1), b.story"
                           " FROM postrider_claim c, json_each(c.entries) e, \"{box}\" b WHERE c.instance = ?1"
                           " AND b.row_id = CAST(e.key AS INTEGER) AND b.attempts = e.value - 1 GROUP BY b.row_id";

/* Reads them before any is changed.  In the arena. */
static int lost_read(struct sqlite_cycle *run, pr_id id, struct arena *arena, struct lost **ret)
{
    sqlite3_stmt *statement;
    int rc = conn_bind(run->conn, LOST, run->session->box, VALUES(V_ID(id)), &statement, run->reterr);
    if (rc != PR_OK)
        return rc;
    while ((rc = conn_step(run->conn, statement, run->reterr)) > 0) {
        struct lost *lost = arena_alloc(arena, sizeof(*lost));
        if (lost != NULL)
            *lost = (struct lost){ .next = *ret,
                                   .row = sqlite3_column_int64(statement, 0),
                                   .attempt = sqlite3_column_int(statement, 1),
                                   .at_us = sqlite3_column_int64(statement, 2),
                                   .destination = slice_dup(arena, column_slice(statement, 3)),
                                   .instance = slice_dup(arena, column_slice(statement, 4)),
                                   .story = slice_dup(arena, column_slice(statement, 5)) };
        if (lost == NULL || lost->destination.data == NULL || lost->instance.data == NULL || lost->story.data == NULL) {
            sqlite3_reset(statement);
            return error_set(run->reterr, PR_ENOMEM, "out of memory for what an instance had in flight");
        }
        *ret = lost;
    }
    return rc;
}

static int lost_count(struct sqlite_cycle *run, const struct lost *lost)
{
    struct buf story;
    buf_init(&story, STORY_BYTES_MAX);
    story_append_lost(lost->story, lost->at_us, lost->attempt, lost->destination, lost->instance, &story);
    int rc =
        buf_failed(&story) == PR_OK
            ? conn_do(run->conn, "UPDATE \"{box}\" SET attempts = ?2, story = ?3 WHERE row_id = ?1", run->session->box,
                      VALUES(V_INT(lost->row), V_INT(lost->attempt), V_TEXT(buf_slice(&story))), NULL, run->reterr)
            : error_set(run->reterr, PR_ENOMEM, "out of memory for the story of a message");
    buf_fini(&story);
    return rc;
}

/* T6: hand-outs without a verdict count as attempts. */
static int bury(struct sqlite_cycle *run, pr_id id)
{
    struct arena arena;
    struct lost *lost = NULL;
    arena_init(&arena, LOST_ARENA_BYTES);
    int rc = lost_read(run, id, &arena, &lost);
    for (; lost != NULL && rc == PR_OK; lost = lost->next)
        rc = lost_count(run, lost);
    arena_fini(&arena);
    FAILPOINT("store.bury.counted");
    if (rc == PR_OK)
        rc = conn_do(run->conn, "DELETE FROM postrider_claim WHERE instance = ?1", run->session->box, VALUES(V_ID(id)),
                     NULL, run->reterr);
    if (rc == PR_OK)
        rc = breakers_forget(run, id);
    if (rc == PR_OK)
        rc = conn_do(run->conn, "DELETE FROM postrider_instance WHERE id = ?1", run->session->box, VALUES(V_ID(id)),
                     NULL, run->reterr);
    FAILPOINT("store.bury.done");
    return rc;
}

/* Standby instances that died without leaving. */
int lease_bury_dead(struct sqlite_cycle *run)
{
    for (;;) {
        sqlite3_stmt *statement;
        pr_id id;
        int rc = conn_bind(
            run->conn,
            "SELECT id FROM postrider_instance WHERE box = ?1 AND id <> ?2 AND (lease_end <= ?3 OR boot_id <> ?4)",
            run->session->box,
            VALUES(V_TEXT(run->session->box), V_ID(run->cycle->instance), V_INT(run->mono_us), V_TEXT(boot_id(run))),
            &statement, run->reterr);
        if (rc == PR_OK)
            rc = conn_step(run->conn, statement, run->reterr);
        if (rc <= 0)
            return rc;
        pr_slice stored = column_slice(statement, 0);
        memset(&id, 0, sizeof(id));
        memcpy(id.bytes, stored.data, min_size(stored.size, sizeof(id.bytes)));
        sqlite3_reset(statement);
        rc = bury(run, id);
        if (rc != PR_OK)
            return rc;
    }
}

/* ---- Changing ------------------------------------------------------------------------------ */

int lease_join(struct sqlite_cycle *run, struct instance_row *ret)
{
    const struct cycle *cycle = run->cycle;
    int64_t epoch;
    int rc = conn_int(run->conn, "UPDATE postrider_meta SET value = value + 1 WHERE key = 'epoch' RETURNING value",
                      run->session->box, NULL, 0, &epoch, run->reterr);
    if (rc == PR_UNKNOWN)
        rc = error_set(run->reterr, PR_ESCHEMA, "the table postrider_meta has no epoch: run postrider init");
    if (rc == PR_OK)
        rc = conn_do(run->conn,
                     "INSERT INTO postrider_instance (id, box, name, version, epoch, cycle, lanes, locked, lease_end, "
                     "boot_id, started_at, lease_wall, offer)"
                     " VALUES (?1, ?2, ?3, ?4, ?5, 0, 0, 0, ?6, ?7, ?8, ?9, ?10)",
                     run->session->box,
                     VALUES(V_ID(cycle->instance), V_TEXT(run->session->box), V_TEXT(cycle->name),
                            V_TEXT(slice_from(POSTRIDER_VERSION)), V_INT(epoch),
                            V_INT(time_add(run->mono_us, cycle->lease_us)), V_TEXT(boot_id(run)), V_INT(run->now_us),
                            V_INT(time_add(run->now_us, cycle->lease_us)),
                            V_TEXT(cycle->offer.data != NULL ? cycle->offer : PR_STR(""))),
                     NULL, run->reterr);
    if (rc == PR_OK)
        rc = marks_tell_time(run);
    if (rc == PR_OK)
        *ret = (struct instance_row){ .known = true, .epoch = epoch };
    return rc;
}

int lease_take(struct sqlite_cycle *run)
{
    struct owner owner;
    int rc = owner_read(run, &owner);
    if (rc == PR_OK && owner.there)
        rc = bury(run, owner.id);
    if (rc == PR_OK)
        rc = lease_pass(run, 0);
    if (rc != PR_OK)
        return rc;
    run->owner = run->took = true;
    run->buried = owner.there;
    memset(run->position, 0, sizeof(run->position)); /* all rows are new to this owner */
    return PR_OK;
}

/* Also records that this cycle was written (T2). */
int lease_renew(struct sqlite_cycle *run)
{
    const struct cycle *cycle = run->cycle;
    bool locked = run->owner && lease_try_lock(run->session);
    FAILPOINT("store.renew.before");
    int rc = conn_do(
        run->conn,
        "UPDATE postrider_instance SET lease_end = ?2, cycle = max(cycle, ?3), lanes = ?4, locked = ?5, lease_wall = ?6"
        " WHERE id = ?1",
        run->session->box,
        VALUES(V_ID(cycle->instance), V_INT(time_add(run->mono_us, cycle->lease_us)), V_INT(cycle->number),
               V_INT(run->owner ? LANE_COUNT : LANES_NONE), V_INT(locked),
               V_INT(time_add(run->now_us, cycle->lease_us))),
        NULL, run->reterr);
    FAILPOINT("store.renew.after");
    return rc;
}

/* Messages on an open receipt were started and have no verdict: they are counted as after a crash. */
int lease_leave(struct sqlite_cycle *run)
{
    run->owner = false;
    return bury(run, run->cycle->instance);
}

/* ---- Those who stand by ---------------------------------------------------------------------- */

int peers_read(struct sqlite_cycle *run)
{
    struct cycle_reply *reply = &run->session->reply;
    struct arena *arena = &run->session->arena;
    struct peer_offer *peers = arena_alloc_array(arena, PEERS_MAX, sizeof(*peers));
    sqlite3_stmt *statement;
    int rc = peers != NULL ? conn_bind(run->conn,
                                       "SELECT epoch, offer FROM postrider_instance WHERE box = ?1 AND id <> ?2 AND"
                                       " lease_end > ?3 AND boot_id = ?4 ORDER BY epoch LIMIT ?5",
                                       run->session->box,
                                       VALUES(V_TEXT(run->session->box), V_ID(run->cycle->instance),
                                              V_INT(run->mono_us), V_TEXT(boot_id(run)), V_INT(PEERS_MAX)),
                                       &statement, run->reterr)
                           : error_set(run->reterr, PR_ENOMEM, "out of memory for %d instances", PEERS_MAX);
    if (rc != PR_OK)
        return rc;
    reply->peers = peers;
    while ((rc = conn_step(run->conn, statement, run->reterr)) > 0) {
        pr_slice offer = slice_dup(arena, column_slice(statement, 1));
        if (offer.data != NULL)
            peers[reply->peer_count++] = (struct peer_offer){ sqlite3_column_int64(statement, 0), offer };
    }
    return rc;
}
