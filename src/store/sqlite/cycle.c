/* cycle.c - one cycle: fence, changes, reads, in one transaction.
 *
 * A cycle that has nothing to write and whose lease has time left is a read transaction, as most cycles of an idle
 * engine are.  What a session remembers (the position of its scan, its instance) changes only when the cycle has
 * landed, so a cycle can be asked again after any fault. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/slice.h"
#include "store/sqlite/sqlite.h"

#define ARENA_BYTES (256u << 10)
#define CHECKPOINT_PAGES 2000 /* 8 MiB of log: few syncs, and it stays in the page cache */

/* ---- Sessions ------------------------------------------------------------------------- */

static int session_check_box(struct sqlite_session *session, struct pr_error *reterr)
{
    int64_t found;
    int rc = conn_int(session->conn, "SELECT 1 FROM postrider_box WHERE name = ?1", session->box,
                      VALUES(V_TEXT(session->box)), &found, reterr);
    if (rc == PR_UNKNOWN)
        return error_set(reterr, PR_ENOTFOUND, "no box %s in %s: add it under boxes: and run postrider init",
                         session->box_name, session->store->location.path);
    return rc;
}

static int session_connect(struct sqlite_session *session, struct pr_error *reterr)
{
    struct sqlite_store *store = session->store;
    int rc;
    if (store->location.memory) {
        session->conn = conn_share(store->people);
        rc = PR_OK;
    } else {
        rc = conn_open(&store->location, false, &session->conn, reterr);
    }
    if (rc != PR_OK)
        return rc;
    conn_lock(session->conn);
    session->generation = session->conn->generation;
    rc = session_check_box(session, reterr);
    conn_unlock(session->conn);
    return rc;
}

int sqlite_session_open(void *self, pr_slice box, void **ret_session, struct pr_error *reterr)
{
    if (!name_is_valid(box))
        return error_set(reterr, PR_EINVAL, "\"%.*s\" is not a valid box name", SLICE_ARGS(box));
    struct sqlite_session *session = calloc(1, sizeof(*session));
    if (session == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a session");
    session->store = self;
    memcpy(session->box_name, box.data, box.size);
    session->box = PR_BYTES(session->box_name, box.size);
    session->lock_fd = session->event_fd = session->inotify_fd = -1;
    arena_init(&session->arena, ARENA_BYTES);

    int rc = session_connect(session, reterr);
    if (rc != PR_OK) {
        sqlite_session_close(session);
        return rc;
    }
    lease_open_lock(session);
    wait_open(session);
    pthread_mutex_lock(&session->store->lock);
    list_push_back(&session->store->sessions, &session->node);
    pthread_mutex_unlock(&session->store->lock);
    *ret_session = session;
    return PR_OK;
}

void sqlite_session_close(void *arg)
{
    struct sqlite_session *session = arg;
    pthread_mutex_lock(&session->store->lock);
    if (list_is_linked(&session->node))
        list_remove(&session->node);
    pthread_mutex_unlock(&session->store->lock);
    wait_close(session); /* and the lock file with it */
    conn_close(session->conn);
    cycle_reply_free_loaded(&session->reply);
    arena_fini(&session->arena);
    free(session->rows);
    free(session);
}

/* ---- The cycle -------------------------------------------------------------------------- */

static bool cycle_changes(const struct cycle *c)
{
    return c->epoch == 0 || c->leave || c->force_write || c->verdict_count > 0 || c->effect_count > 0 ||
           c->receipt_count > 0 || c->closed_count > 0 || c->tally_count > 0 || c->pause_count > 0 ||
           c->breaker_count > 0 || c->delivered_count > 0 || c->lanes_give == LANES_ALL;
}

static bool cycle_was_answered(const struct sqlite_cycle *run)
{
    const struct sqlite_session *s = run->session;
    return pr_id_equal(s->instance, run->cycle->instance) && run->cycle->number <= s->number;
}

/* The instance's own row is the fence: an instance that took the lanes has deleted it. */
static int cycle_fence(struct sqlite_cycle *run, struct instance_row *stored)
{
    const struct cycle *c = run->cycle;
    int rc = lease_read(run, stored);
    if (rc != PR_OK)
        return rc;
    if (c->epoch != 0 && (!stored->known || stored->epoch != c->epoch)) {
        log_emit(run->session->store->log, LOG_WARN, "lease_lost", LOG_SLICE("box", run->session->box));
        return error_set(
            run->reterr, PR_ELEASE,
            "this instance of box %s lost its lease: it did not respond for longer than lease:, or it has left",
            run->session->box_name);
    }
    run->owner = stored->owner;
    return PR_OK;
}

/* A read-only cycle may turn out to need the write lock. */
static int cycle_must_write(struct sqlite_cycle *run, const struct instance_row *stored, bool *ret)
{
    *ret = stored->lease_end_us - run->mono_us < run->cycle->lease_us / 3 * 2 ||
           (run->owner && run->session->purge_more && purge_is_due(run));
    if (*ret || run->owner)
        return PR_OK;
    return lease_can_take(run, ret);
}

static int cycle_change(struct sqlite_cycle *run)
{
    const struct cycle *c = run->cycle;
    int rc = PR_OK;

    if ((c->verdict_count > 0 || c->receipt_count > 0) && !run->owner)
        return error_set(run->reterr, PR_ELEASE, "this instance does not serve box %s: another one does",
                         run->session->box_name);
    FAILPOINT("store.cycle.before_verdicts");
    if (!run->replayed)
        rc = verdicts_apply(run);
    if (rc == PR_OK && !run->replayed)
        rc = ended_write(run);
    FAILPOINT("store.cycle.before_receipt");
    if (rc == PR_OK && !run->replayed)
        rc = receipts_write(run);
    FAILPOINT("store.cycle.after_receipt");
    if (rc == PR_OK && !run->replayed)
        rc = tallies_add(run);
    if (rc == PR_OK && !run->replayed)
        rc = pauses_set(run);
    if (rc == PR_OK && !run->replayed)
        rc = breakers_set(run);
    if (rc == PR_OK && !run->replayed)
        rc = evidence_write(run);
    if (rc == PR_OK && run->owner)
        rc = purge_run(run);
    return rc;
}

static int cycle_write(struct sqlite_cycle *run, struct instance_row *stored)
{
    const struct cycle *c = run->cycle;
    bool take = false;
    int rc = PR_OK;

    if (!stored->known)
        rc = lease_join(run, stored);
    if (rc == PR_OK && !run->owner)
        rc = lease_can_take(run, &take);
    if (rc == PR_OK && take)
        rc = lease_take(run);
    if (rc == PR_OK && run->owner)
        rc = lease_bury_dead(run);
    if (rc == PR_OK)
        rc = cycle_change(run);
    if (rc != PR_OK)
        return rc;
    if (c->lanes_give == LANES_ALL && !run->replayed) { /* all or nothing: lanes cannot be shared here */
        rc = run->owner && c->lanes_to != NULL ? lease_pass(run, c->lanes_to[0]) : PR_OK;
        run->owner = false;
    }
    if (rc != PR_OK)
        return rc;
    return c->leave ? lease_leave(run) : lease_renew(run);
}

static int cycle_data_version(struct sqlite_cycle *run, int64_t *ret)
{
    int rc = conn_int(run->conn, "PRAGMA data_version", run->session->box, NULL, 0, ret, run->reterr);
    return rc == PR_UNKNOWN ? PR_OK : rc;
}

/* Runs inside the transaction, which the caller ends.  PR_STALE: start over, with the write lock. */
static int cycle_inside(struct sqlite_cycle *run, int64_t *ret_data_version)
{
    struct sqlite_session *session = run->session;
    struct instance_row stored;
    bool joined = run->cycle->epoch == 0, must_write = false;
    int rc = cycle_fence(run, &stored);
    if (rc == PR_OK)
        rc = cycle_data_version(run, ret_data_version);
    if (rc != PR_OK)
        return rc;

    run->replayed = cycle_was_answered(run) || (stored.known && run->cycle->number <= stored.cycle);
    if (cycle_was_answered(run)) /* the reply to it was lost, with the rows that it had read */
        memcpy(run->position, session->position_before, sizeof(run->position));
    if (!run->write)
        rc = cycle_must_write(run, &stored, &must_write);
    if (rc == PR_OK && must_write)
        return PR_STALE;
    if (rc == PR_OK && run->write)
        rc = cycle_write(run, &stored);

    session->reply.now_us = run->now_us;
    session->reply.epoch = stored.epoch;
    session->reply.lease_left_us = run->write ? run->cycle->lease_us : stored.lease_end_us - run->mono_us;
    session->reply.replayed = run->replayed;
    session->reply.lanes_owned = run->owner ? LANES_ALL : 0;
    session->reply.lanes_together = true;
    if (rc == PR_OK && run->replayed && run->cycle->effect_count > 0)
        rc = answers_read(run);
    if (rc == PR_OK)
        rc = rows_read(run);
    if (rc == PR_OK)
        rc = evidence_read(run);
    if (rc == PR_OK)
        rc = marks_read(run);
    if (rc == PR_OK)
        rc = gone_read(run);
    if (rc == PR_OK)
        rc = loads_read(run);
    if (rc == PR_OK)
        rc = marks_ask_time(run);
    if (rc == PR_OK && run->cycle->peers)
        rc = peers_read(run);
    if (rc == PR_OK)
        rc = notices_read(run, joined);
    return rc;
}

/* The next join of this session is a new instance. */
static void session_forget(struct sqlite_session *session)
{
    session->owner = false;
    session->number = 0;
    memset(&session->instance, 0, sizeof(session->instance));
}

/* What the session remembers; only after the cycle has landed. */
static void cycle_landed(struct sqlite_cycle *run, int64_t data_version)
{
    struct sqlite_session *session = run->session;
    const struct cycle *c = run->cycle;
    bool known = pr_id_equal(session->instance, c->instance);

    session->instance = c->instance;
    session->number = known && session->number > c->number ? session->number : c->number;
    session->owner = run->owner;
    session->data_version = data_version;
    if (c->fresh_rows > 0) { /* cycles for other purposes (renewing a lease) have not looked for rows */
        session->fresh_version = data_version;
        session->fresh_reported = false;
        bool found = session->reply.row_count > 0 || session->reply.notice_count > 0;
        session->fruitless = found ? 0 : session->fruitless + 1;
    }
    if (run->repaired != session->repaired)
        session->repaired_cycle = c->epoch == 0 ? 0 : c->number;
    session->repaired = run->repaired;
    memcpy(session->position_before, run->position_before, sizeof(session->position_before));
    memcpy(session->position, run->position, sizeof(session->position));
    if (run->took) /* only now: on a full disk every try would log it */
        log_emit(session->store->log, LOG_INFO, "box_taken", LOG_SLICE("box", session->box),
                 LOG_BOOL("from_dead_instance", run->buried));
    if (c->leave)
        session_forget(session);
    if (!run->owner)
        lease_unlock(session);
}

/* Another file has taken the name of the database: rows that were read may not be in it, and it does not know this
 * instance in its current state (B28).  The instance joins again. */
static int cycle_check_file(struct sqlite_cycle *run)
{
    struct sqlite_session *session = run->session;
    int64_t version = 0;
    if (session->generation == run->conn->generation)
        return PR_OK;
    int rc = schema_version(run->conn, &version, run->reterr);
    if (rc == PR_OK && version != schema_wanted())
        return error_set(run->reterr, PR_ESCHEMA, "%s was replaced by a file with %s: run postrider init",
                         run->conn->location->path,
                         version == 0 ? "no tables of Postrider" : "tables of another version of Postrider");
    if (rc == PR_OK)
        rc = session_check_box(session, run->reterr);
    if (rc != PR_OK)
        return rc;
    session->generation = run->conn->generation;
    memset(session->position, 0, sizeof(session->position));
    memset(run->position, 0, sizeof(run->position));
    log_emit(session->store->log, LOG_WARN, "store_replaced", LOG_STR("path", run->conn->location->path),
             LOG_SLICE("box", session->box));
    return run->cycle->epoch == 0
               ? PR_OK
               : error_set(run->reterr, PR_ELEASE, "%s was replaced by another file: everything is read again",
                           run->conn->location->path);
}

static int cycle_transact(struct sqlite_cycle *run)
{
    struct sqlite_session *session = run->session;
    int64_t data_version = 0;

    cycle_reply_free_loaded(&session->reply);
    arena_reset(&session->arena);
    session->reply = (struct cycle_reply){ .next_due_us = PR_NEVER };
    memcpy(run->position, session->position, sizeof(run->position));
    run->took = false;
    run->now_us = store_wall_us(session->store);
    run->mono_us = store_mono_us(session->store);

    FAILPOINT("store.cycle.begin");
    int rc = conn_begin(run->conn, run->write, run->reterr);
    if (run->write)
        lease_note_wait(run);
    if (rc == PR_OK)
        rc = cycle_check_file(run);
    if (rc == PR_OK)
        rc = cycle_inside(run, &data_version);
    if (rc == PR_OK) {
        FAILPOINT("store.cycle.before_commit");
        rc = conn_commit(run->conn, run->reterr);
        FAILPOINT("store.cycle.after_commit");
    }
    if (rc != PR_OK)
        conn_rollback(run->conn);
    else
        cycle_landed(run, data_version);
    return rc;
}

void session_checkpoint(struct sqlite_session *session)
{
    conn_lock(session->conn);
    if (session->owner)
        conn_checkpoint(session->conn, CHECKPOINT_PAGES);
    conn_unlock(session->conn);
}

int sqlite_cycle(void *arg, const struct cycle *cycle, const struct cycle_reply **ret_reply, struct pr_error *reterr)
{
    struct sqlite_session *session = arg;
    struct sqlite_cycle run = { .session = session, .cycle = cycle, .conn = session->conn, .reterr = reterr };

    if (!slice_eq(cycle->box, session->box))
        return error_set(reterr, PR_EINVAL, "this session is for box %s", session->box_name);
    if (cycle->epoch == 0 && cycle->number != 1)
        return error_set(reterr, PR_EINVAL, "the first cycle of an instance has the number 1");

    wait_drain(session);
    session_checkpoint(session);
    conn_lock(session->conn);
    run.write = cycle_changes(cycle);
    int rc = cycle_transact(&run);
    if (rc == PR_STALE) {
        run.write = true;
        rc = cycle_transact(&run);
    }
    conn_unlock(session->conn);
    if (rc == PR_ELEASE) {
        session_forget(session);
        lease_unlock(session);
    }
    if (rc == PR_OK)
        *ret_reply = &session->reply;
    return rc;
}
