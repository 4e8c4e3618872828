/* lease.c - who works the box.
 *
 * At most one instance of a box has lanes: all of them.  Others stand by and look, in each of
 * their cycles, whether they may take over:
 *   - nobody works the box, and it was not passed to another one that lives; or
 *   - the owner's lease is over, or was given before the machine was restarted (unless somebody's long transaction kept
 *     it from renewing: then it has a moment to do so); or
 *   - the owner held the lock file, and we can have it now: its process is gone.
 * Who takes over buries the owner in the same transaction: its row is deleted, so whatever it
 * still wants to change is refused (T3), and what it had in hand is counted (T6).
 *
 * An owner that sleeps keeps its lock file.  Then the lease alone decides, and its successor
 * says in its own row (locked = 0) that the lock file tells nothing about it. */
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
#define KEPT_OUT_DIVISOR 8            /* a wait for the write lock of this part of the lease is a long one */
#define OWNER_CHANCE_US PR_SECONDS(2) /* longer than an engine waits before it asks a busy store again */
#define LOST_ARENA_BYTES 4096
#define PEERS_MAX 64 /* more do not stand by */

static pr_slice boot_id(const struct sqlite_cycle *run)
{
    return slice_from(run->session->store->boot_id);
}

/* ---- The lock file --------------------------------------------------------------------- */

/* PATH-BOX.lock; without one (no rights to make it) leases decide alone. */
void lease_open_lock(struct sqlite_session *session)
{
    const struct sqlite_location *location = &session->store->location;
    char *path = NULL;

    session->lock_fd = -1;
    if (location->memory || asprintf(&path, "%s-%s.lock", location->path, session->box_name) < 0)
        return;
    struct stat database; /* its locks may be held by those who may write it, and by nobody else */
    mode_t mode = stat(location->path, &database) == 0 ? database.st_mode & 0660 : 0600;
    session->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode);
    if (session->lock_fd < 0)
        log_emit(session->store->log, LOG_WARN, "no_lock_file", LOG_STR("path", path));
    free(path);
}

/* In memory everybody is in this process: the list of sessions is the lock file. */
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

/* Somebody tidied up: who opens the path now gets another file, and a lock on ours tells nothing. */
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
    bool over;   /* its lease */
    bool locked; /* it had the lock file */
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

/* Is the box, which nobody works, to be another one's who lives? */
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

/* Somebody's long transaction keeps everybody from writing, also an owner that lives and would renew.  When it ends, who
 * stands by must not be quicker than the owner: one that holds the lock file has a moment more, from when the lease was seen
 * to be over by somebody who could write. */
static bool has_had_its_chance(struct sqlite_cycle *run, const struct owner *owner)
{
    struct sqlite_session *session = run->session;
    int64_t now_us = store_mono_us(session->store), lease_us = run->cycle->lease_us;
    bool kept_out = session->kept_out_us != 0 && now_us - session->kept_out_us < lease_us;
    if (!owner->locked || !kept_out || !run->write) /* who only reads comes again to write */
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
        lease_unlock(session); /* having the lock said nothing, and the owner may want it */
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

/* Before any is changed.  In the arena. */
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

/* T6: what was handed out and has no verdict counts as an attempt. */
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

/* Those who stood by and died without a word. */
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
    memset(run->position, 0, sizeof(run->position)); /* everything is new to us */
    return PR_OK;
}

/* Also the mark that this cycle was written (T2). */
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

/* What is still on an open receipt was started and never judged: it is counted as after a crash. */
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
