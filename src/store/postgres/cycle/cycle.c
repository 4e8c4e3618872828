/* The cycle: identify the instance, change, read, commit.
 *
 *     first batch     BEGIN, sequence, snapshot, the instance's own row (locked when something changes),
 *                     the other instances, notices, verdicts, receipt, tallies
 *     if needed       effects; burying, lanes
 *     second batch    reads, renewal, COMMIT
 *
 * When no answer must be known before the commit, there is one batch, unless new rows are requested and the latest
 * snapshot has none left:
 *
 *     one batch       BEGIN, own row or failure, the other instances, notices, receipt, tallies, verdicts or failure,
 *                     reads of what the latest snapshot has left, COMMIT
 *     behind it       the rows after those of this reply, for the next cycle (fresh.c)
 *
 * The claim row is the key: (instance, number) can be inserted once.  A cycle whose COMMIT got no answer is asked again
 * with the same number; it then waits for the lock that the lost transaction may still hold, and looks for the row. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/slice.h"
#include "base/util.h"
#include "store/postgres/postgres.h"

#define REPLY_BLOCK_BYTES 65536
#define TRIES_MAX 5     /* of a transaction that collided with another */
#define ONE_BATCH_MAX 8 /* consecutive cycles: then a new snapshot is taken, and the lease may be renewed */
#define STOPPED "22P02" /* a cycle in one batch was stopped, since one of its assumptions does not hold */

bool pg_cycle_changes(const struct cycle *c)
{
    return c->verdict_count > 0 || c->effect_count > 0 || c->receipt_count > 0 || c->closed_count > 0 ||
           c->tally_count > 0 || c->pause_count > 0 || c->breaker_count > 0 || c->delivered_count > 0 ||
           c->lanes_give != 0 || c->leave;
}

/* Has this session answered that number already? */
static bool cycle_was_answered(const struct pg_session *s, const struct cycle *c)
{
    return pr_id_equal(s->instance, c->instance) && (c->epoch == 0 || c->epoch == s->epoch) && c->number <= s->number &&
           (c->epoch != 0 || s->number == c->number);
}

/* ---- One try -------------------------------------------------------------------------------- */

/* Everything up to and including the verdicts. */
static int run_first_batch(struct cycle_run *run, bool changes, bool snapshot_first)
{
    struct pg_session *session = run->session;
    bool must_look = run->cycle->epoch == 0 || session->uncertain == run->cycle->number;

    link_add_begin(run->link);
    if (snapshot_first)
        pg_snapshot_add(run); /* before anything assigns a transaction id */
    pg_lease_add_reads(run, changes);
    pg_notices_add(run);
    int rc = PR_OK;
    if (must_look) {
        rc = link_run(run->link, run->reterr);
        if (rc == PR_OK)
            rc = run->cycle->epoch == 0 ? pg_lease_join(run) : pg_lease_take_reads(run);
        if (rc == PR_OK)
            rc = pg_marks_ask_time(run);
        changes = changes && !run->replayed;
    }
    if (rc == PR_OK && changes) {
        pg_receipts_add(run);
        rc = pg_guards_compare(run);
        if (rc == PR_OK)
            rc = pg_verdicts_apply(run);
    } else if (rc == PR_OK) {
        rc = link_run(run->link, run->reterr);
    }
    if (rc == PR_OK && !must_look)
        rc = pg_lease_take_reads(run);
    return rc;
}

static void session_remember(struct pg_session *session, const struct cycle_run *run)
{
    const struct cycle *cycle = run->cycle;
    bool wrote = pg_cycle_changes(cycle) && !run->replayed;
    if (!pr_id_equal(session->instance, cycle->instance))
        session->idle_claim = 0; /* it was deleted with its instance */
    session->instance = cycle->instance;
    session->epoch = run->epoch;
    session->lanes = run->lanes;
    session->number = cycle->number;
    session->uncertain = 0;
    if (wrote)
        session->idle_claim = cycle->receipt_count == 0 && session->reply.started == STARTED_NONE ? cycle->number : 0;
}

static int run_inside(struct cycle_run *run)
{
    const struct cycle *cycle = run->cycle;
    bool changes = pg_cycle_changes(cycle) && (!run->replayed || cycle->epoch == 0);
    bool wants_snapshot = cycle->fresh_rows > 0;

    run->comes_back = wants_snapshot && changes && !run->replayed && cycle_stores_in_box(cycle);
    int rc = run_first_batch(run, changes, wants_snapshot && !run->comes_back);
    if (rc == PR_OK && run->comes_back && run->replayed) {
        session_remember(run->session,
                         run); /* it was committed: start over as a cycle that only reads, with the snapshot first */
        return CYCLE_ANEW;
    }
    if (rc == PR_OK && changes && !run->replayed)
        rc = pg_effects_store(run);
    if (rc == PR_OK && changes && !run->replayed && (run->any_busy || run->guards.any))
        rc = pg_answers_note(run);
    if (rc == PR_OK && run->replayed && cycle->verdict_count > 0)
        rc = pg_answers_read(run);
    if (rc == PR_OK && wants_snapshot)
        rc = pg_snapshot_take(run);
    if (rc == PR_OK)
        rc = pg_notices_take(run);
    if (rc == PR_OK)
        rc = pg_lease_work(run);
    run->session->calm = rc == PR_OK;
    FAILPOINT("store.cycle.before_commit");
    if (rc == PR_OK)
        rc = pg_reads_run(run);
    FAILPOINT("store.cycle.after_commit");
    return rc;
}

/* ---- All in one ------------------------------------------------------------------------------- */

/* Is the instance's own state known for certain? */
static bool cycle_goes_on(const struct cycle_run *run)
{
    const struct pg_session *session = run->session;
    const struct cycle *c = run->cycle;
    return session->uncertain == 0 && !run->replayed && c->epoch != 0 && c->epoch == session->epoch &&
           pr_id_equal(session->instance, c->instance) && session->pulse == run->link->generation;
}

/* Can the server check all of its assumptions in the batch that commits? */
static bool cycle_fits_one_batch(struct cycle_run *run)
{
    const struct pg_session *session = run->session;
    const struct cycle *c = run->cycle;
    return cycle_goes_on(run) && c->restart_lanes == 0 && (c->effect_count == 0 || session->blocked.count == 0) &&
           pg_effects_fit_one_batch(c) && c->pause_count == 0 && c->lanes_give == 0 && !c->leave && !c->force_write &&
           pg_verdicts_fit_one_batch(run);
}

/* ... and does it read more of the same snapshot? */
static bool cycle_is_plain(struct cycle_run *run)
{
    const struct cycle *c = run->cycle;
    return run->session->scanned_by == run->link->generation && c->fresh_rows > 0 && c->verdict_count > 0 &&
           cycle_fits_one_batch(run);
}

/* New rows need a snapshot, which takes a query of its own; without them the server itself checks all assumptions.
 * Lanes and leases are handled by the next cycle that changes nothing, or when the latest cycle saw that they need
 * it. */
static bool cycle_reads_nothing_new(struct cycle_run *run)
{
    return run->session->calm && run->cycle->fresh_rows == 0 && pg_cycle_changes(run->cycle) &&
           cycle_fits_one_batch(run);
}

static int run_one_batch(struct cycle_run *run)
{
    run->one_batch = true;
    run->has_snapshot = run->cycle->fresh_rows > 0;
    run->session->one_batch_left -= run->has_snapshot;
    /* A cycle that asks for nothing new (the window is full, or the engine stops) has no room for prefetched rows. */
    run->uses_prefetch = run->has_snapshot && pg_prefetch_fits(run);
    if (!run->uses_prefetch)
        pg_prefetch_drop(run->session);
    else if (!run->link->pooled)
        link_queue_next(run->link); /* so that the server is never idle */
    link_add_begin(run->link);
    pg_lease_add_one_batch(run);
    pg_notices_add(run);
    pg_receipts_add(run);
    int rc = pg_verdicts_add_one_batch(run);
    if (rc == PR_OK)
        rc = pg_effects_add_one_batch(run);
    FAILPOINT("store.cycle.before_commit");
    if (rc == PR_OK)
        rc = pg_reads_run(run);
    FAILPOINT("store.cycle.after_commit");
    return rc;
}

int pg_cycle_take_one_batch(struct cycle_run *run)
{
    struct cycle_reply *reply = &run->session->reply;
    PGresult *endpoints = NULL;
    int rc = pg_lease_take_reads(run);
    if (rc == PR_OK)
        rc = pg_notices_take(run);
    if (rc == PR_OK && reply->endpoints_known)
        rc = link_do(run->link, PG_ENDPOINTS, NO_BOX, NULL, &endpoints, run->reterr);
    if (rc == PR_OK && reply->endpoints_known)
        rc = pg_endpoints_take(endpoints, &run->session->arena, &reply->endpoints, &reply->endpoint_count, run->reterr);
    if (rc == PR_OK)
        rc = pg_lease_tell(run);
    run->session->calm = rc == PR_OK && pg_lease_is_calm(run);
    if (!run->session->calm)
        run->session->one_batch_left = 0;
    return rc;
}

/* How many cycles in one batch may follow? */
static void one_batch_count(struct cycle_run *run)
{
    struct pg_session *session = run->session;
    bool more = session->reply.row_count > 0 && !session->reply.fresh_end;
    if (!more)
        session->one_batch_left = 0;
    else if (!run->one_batch)
        session->one_batch_left = ONE_BATCH_MAX;
    session->had_more = more;
}

/* ----------------------------------------------------------------------------------------------- */

static int run_it(struct cycle_run *run)
{
    struct pg_session *session = run->session;
    bool plain = cycle_is_plain(run);
    session->plain_cycles = plain ? session->plain_cycles + 1 : 0;
    if ((plain && session->one_batch_left > 0) || cycle_reads_nothing_new(run))
        return run_one_batch(run);
    pg_prefetch_drop(session);
    bool idle = cycle_goes_on(run) && !pg_cycle_changes(run->cycle) && pg_idle_fits(run);
    int rc = idle ? pg_idle_run(run) : CYCLE_ANEW;
    return rc == CYCLE_ANEW ? run_inside(run) : rc;
}

/* Commits may have been lost before a new connection, by a failover or a crash: rows that were read before must not be
 * started (B28).  Behind a pooler the server's start time shows that it is another server. */
static void run_begin_anew(struct cycle_run *run, struct cycle *cycle)
{
    run->anew = run->session->reply_link != 0 && run->session->reply_link != run->link->generation;
    if (run->anew)
        cycle->receipt_count = cycle->receipt_carried;
}

/* The contents of the lost reply are unknown. */
static void tell_started(struct cycle_run *run)
{
    if (run->replayed && run->cycle->start_fresh > 0)
        run->session->reply.started = STARTED_UNKNOWN;
}

static void tell_history(struct cycle_run *run)
{
    struct pg_session *session = run->session;
    bool other = session->reply_link != 0 && session->reply_server_start != run->server_start;
    session->reply.history_changed = run->anew || other;
    if (session->reply.history_changed)
        log_emit(session->store->log, LOG_INFO, "history_changed", LOG_SLICE("box", session->box),
                 LOG_BOOL("other_server", other));
    session->reply_link = run->link->generation;
    session->reply_server_start = run->server_start;
}

/* ret_one_batch: it was, or was tried, in one batch. */
static int cycle_once(struct pg_session *session, const struct cycle *asked, bool *ret_one_batch,
                      struct pr_error *reterr)
{
    struct cycle cycle = *asked;
    struct cycle_run run = {
        .session = session,
        .cycle = &cycle,
        .link = session->link,
        .epoch = cycle.epoch,
        .lanes = session->lanes,
        .replayed = cycle_was_answered(session, &cycle),
        .reterr = reterr,
    };
    cycle_reply_free_loaded(&session->reply);
    arena_reset(&session->arena);
    link_forget(session->link);
    session->reply = (struct cycle_reply){ .next_due_us = PR_NEVER };
    session->row_capacity = 0;
    session->stores_effects = false;
    int rc = link_ensure(session->link, reterr);
    if (rc == PR_OK) /* so that an urgent lease can still be renewed */
        rc = link_lock_timeout(session->link, cycle.lease_us / 3, reterr);
    if (rc == PR_OK) {
        atomic_store(&session->backend, PQbackendPID(session->link->pg));
        run_begin_anew(&run, &cycle);
        pg_repairs_tell(session);
        pg_purge_before_cycle(session, &cycle);
        rc = run_it(&run);
    }
    *ret_one_batch = run.one_batch;
    if (rc == PR_OK) {
        session_remember(session, &run);
        tell_history(&run);
        tell_started(&run);
        pg_wait_after_cycle(session);
        session->wary = run.any_busy;
        session->blocked.look = session->histories_asked = false;
        one_batch_count(&run);
        if (pg_prefetch_start(&run) != PR_OK)
            session->one_batch_left = 0; /* the connection is lost: the next cycle will report it */
    } else {
        session->one_batch_left = 0;
        session->calm = false;
    }
    return rc;
}

/* A cycle in one batch is tried again with all queries, and with keys. */
static bool is_stopped(const struct link *link)
{
    return strcmp(link->state, STOPPED) == 0;
}

/* Another transaction holds a row that the cycle would delete, or makes what an effect would. */
static bool is_locked_out(const struct link *link)
{
    return strcmp(link->state, "55P03") == 0;
}

/* From now on, rows that other transactions hold are skipped, and blocked effects are left out: the cycle met one or
 * the other, or, in one batch, either.  false: that has been tried already. */
static bool be_wary(struct pg_session *session, bool one_batch)
{
    bool rows = !session->wary && (one_batch || !session->stores_effects);
    bool effects = !session->blocked.look && session->stores_effects;
    session->wary = session->wary || rows;
    session->blocked.look = session->blocked.look || effects;
    return rows || effects;
}

/* Its claim row exists already: the next try will find that it is replayed. */
static bool is_key_conflict(const struct link *link)
{
    return strcmp(link->state, "23505") == 0;
}

/* A CHECK, a trigger or an index of the application refuses what an effect stores, and would do so each time. */
static int effect_refused(int rc, struct pr_error *reterr)
{
    struct pr_error said = reterr != NULL ? *reterr : (struct pr_error){ .code = rc };
    return error_set(reterr, PR_EINVAL, "a table refuses what a handler or route stores there: %s", said.text);
}

int pg_cycle(void *self, const struct cycle *cycle, const struct cycle_reply **ret_reply, struct pr_error *reterr)
{
    struct pg_session *session = self;
    int rc = CYCLE_ANEW;
    pg_fresh_settle(session, cycle);
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        bool one_batch;
        rc = cycle_once(session, cycle, &one_batch, reterr);
        if (rc == PR_OK) {
            *ret_reply = &session->reply;
            return PR_OK;
        }
        bool again = rc == CYCLE_ANEW || link_should_retry(session->link) || is_key_conflict(session->link) ||
                     is_stopped(session->link) || (is_locked_out(session->link) && be_wary(session, one_batch));
        if (is_stopped(session->link))
            pg_ctid_cache_forget(&session->ctid_cache);
        if (is_key_conflict(session->link))
            session->uncertain = cycle->number;
        if (link_is_uncertain(session->link)) {
            session->uncertain = cycle->number;
            return error_set(reterr, PR_EUNCERTAIN,
                             "the connection was lost during the commit: the cycle may"
                             " have been committed; the next one checks");
        }
        bool refused = cycle->effect_count > 0 && link_is_refusal(session->link);
        link_rollback(session->link);
        if (!again || (refused && tries + 1 == TRIES_MAX))
            return refused ? effect_refused(rc, reterr) : rc;
    }
    return rc == CYCLE_ANEW ? error_set(reterr, PR_EBUSY, "lanes change hands too fast: try again") : rc;
}

/* ---- Sessions --------------------------------------------------------------------------------- */

void pg_session_close(void *self)
{
    struct pg_session *session = self;
    pthread_mutex_lock(&session->store->sessions_lock);
    if (list_is_linked(&session->node))
        list_remove(&session->node);
    pthread_mutex_unlock(&session->store->sessions_lock);
    pg_wait_close(session);
    link_free(session->link);
    scan_free(session->scan);
    pg_prefetch_free(session);
    for (size_t i = 0; i < SESSION_ARRAYS; i++)
        array_fini(&session->arrays[i]);
    batch_fini(&session->batch);
    free(session->running);
    pg_watched_free(session);
    pg_ctid_cache_forget(&session->ctid_cache);
    buf_fini(&session->ctid_cache.latest.text);
    cycle_reply_free_loaded(&session->reply);
    arena_fini(&session->arena);
    free(session);
}

static int box_look(struct pg_session *session, struct pr_error *reterr)
{
    PGresult *result = NULL;
    struct args args = { .count = 0 };
    arg_text(&args, session->box);
    int rc = link_ensure(session->link, reterr);
    if (rc == PR_OK)
        rc = link_do(session->link, "SELECT FROM {schema}.box WHERE name = $1", NO_BOX, &args, &result, reterr);
    if (rc == PR_OK && PQntuples(result) == 0)
        rc = error_set(reterr, PR_ENOTFOUND, "unknown box \"%.*s\"", SLICE_ARGS(session->box));
    link_forget(session->link);
    return rc;
}

int pg_session_open(void *self, pr_slice box, void **ret_session, struct pr_error *reterr)
{
    struct postgres_store *store = self;
    if (!name_is_valid(box))
        return error_set(reterr, PR_EINVAL, "\"%.*s\" is not a valid box name", SLICE_ARGS(box));
    struct pg_session *session = calloc(1, sizeof(*session));
    if (session == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a session");
    session->store = store;
    memcpy(session->box_name, box.data, box.size);
    session->box = (pr_slice){ session->box_name, box.size };
    session->event_fd = -1;
    session->marks_left = true;
    arena_init(&session->arena, REPLY_BLOCK_BYTES);
    for (size_t i = 0; i < SESSION_ARRAYS; i++)
        array_init(&session->arrays[i]);
    batch_init(&session->batch);
    buf_init(&session->ctid_cache.latest.text, SNAPSHOTS_BYTES_MAX);
    session->link = link_new(&store->conninfo, LINK_RELAY, store->log);
    session->scan = scan_new(NULL);
    int rc = session->link != NULL && session->scan != NULL
                 ? box_look(session, reterr)
                 : error_set(reterr, PR_ENOMEM, "out of memory for a session");
    if (rc != PR_OK) {
        pg_session_close(session);
        return rc;
    }
    pg_wait_open(session);
    pthread_mutex_lock(&store->sessions_lock);
    list_push_back(&store->sessions, &session->node);
    pthread_mutex_unlock(&store->sessions_lock);
    *ret_session = session;
    return PR_OK;
}
