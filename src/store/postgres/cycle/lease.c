/* Lanes and leases: joining, fair shares, and burying the dead.
 *
 * Leases use the server's clock, which may jump (B25).  So an instance counts as dead when its row has not changed for
 * the duration of its lease, by the observer's own monotonic clock: a live instance renews it long before.  An instance
 * that has just joined and sees a lease that is over by the server's clock believes it, unless the other is still
 * connected: then it holds an advisory lock of its id.
 *
 * Lanes move only under a lock of the box's row.  A cycle that changes something holds a shared lock of its own
 * instance row; an instance that buries another one needs that row exclusively, so either the cycle has finished or it
 * finds that it is buried.  A locked row belongs to a live instance, so it is skipped and nobody waits.  Lanes that are
 * passed to an instance are recorded in the box's row until it has taken them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/story.h"
#include "store/postgres/postgres.h"

#define PULSE(id) "hashtextextended('postrider instance ' || " id "::text, 0)"
#define OWN "SELECT epoch, lanes, lease_end, box FROM {schema}.instance WHERE id = $1"

/* In a cycle of one batch the own row is not read before the commit: when it differs from what the session knows, or is
 * gone, this statement fails, and with it all that follow. */
static const char OWN_OR_STOP[] =
    "WITH own AS MATERIALIZED (" OWN " FOR SHARE) SELECT own.*, CASE WHEN own.epoch = $2 AND own.lanes = $3 THEN 1"
    " ELSE ('postrider begins this cycle anew: epoch ' || coalesce(own.epoch, 0))::int END"
    " FROM (SELECT) AS one LEFT JOIN own ON true";

/* ---- Reading -------------------------------------------------------------------------------- */

void pg_lease_add_others(struct cycle_run *run)
{
    struct args args = { .count = 0 };
    arg_text(&args, run->session->box);
    arg_id(&args, run->cycle->instance);
    arg_i64(&args, run->cycle->peers ? run->session->offers_until : INT64_MAX);
    link_add(run->link,
             "SELECT id, epoch, lanes, lease_end, lease_us, CASE WHEN epoch > $3 THEN offer END,"
             " (SELECT passed FROM {schema}.box WHERE name = $1) FROM {schema}.instance WHERE box = $1 AND id <> $2"
             " ORDER BY epoch",
             NO_BOX, &args, &run->others);
}

static void add_box_lock(struct cycle_run *run)
{
    struct args args = { .count = 0 };
    arg_text(&args, run->session->box);
    link_add(run->link, "SELECT FROM {schema}.box WHERE name = $1 FOR UPDATE", NO_BOX, &args, NULL);
}

/* Takes the lock that shows that this instance is connected, once for each connection and each join. */
static void add_pulse(struct cycle_run *run)
{
    struct args args = { .count = 0 };
    if (run->link->pooled || (run->cycle->epoch != 0 && run->session->pulse == run->link->generation))
        return;
    if (run->cycle->epoch == 0)
        link_add(run->link, "SELECT pg_advisory_unlock_all()", NO_BOX, NULL, NULL);
    arg_id(&args, run->cycle->instance);
    link_add(run->link, "SELECT pg_try_advisory_lock(" PULSE("$1") ")", NO_BOX, &args, &run->pulse);
}

void pg_lease_add_one_batch(struct cycle_run *run)
{
    struct args args = { .count = 0 };
    arg_id(&args, run->cycle->instance);
    arg_i64(&args, run->epoch);
    arg_i64(&args, (int64_t)run->lanes);
    link_add(run->link, OWN_OR_STOP, NO_BOX, &args, &run->own);
    pg_lease_add_others(run);
}

void pg_lease_add_reads(struct cycle_run *run, bool changes)
{
    struct args args = { .count = 0 };
    bool alone = run->cycle->epoch == 0 || run->session->uncertain == run->cycle->number;
    arg_id(&args, run->cycle->instance);
    add_pulse(run);
    if (run->cycle->epoch == 0)
        add_box_lock(run);
    link_add(run->link, alone ? OWN " FOR UPDATE" : changes ? OWN " FOR SHARE" : OWN, NO_BOX, &args, &run->own);
    if (alone)
        link_add(run->link, "SELECT max(cycle) FROM {schema}.claim WHERE instance = $1", NO_BOX, &args, &run->claims);
    pg_lease_add_others(run);
}

static void take_pulse(struct cycle_run *run)
{
    if (run->pulse != NULL)
        run->session->pulse = field_bool(run->pulse, 0, 0) ? run->link->generation : 0;
}

void pg_watched_free(struct pg_session *session)
{
    for (size_t i = 0; i < session->watched_count; i++)
        free(session->watched[i].offer);
    free(session->watched);
    session->watched = NULL;
    session->watched_count = 0;
}

/* What earlier cycles found out about the peer: since when its row has not changed, and what it offers. */
static void watch_on(struct pg_session *session, const struct peer *peer, struct watched *now)
{
    for (size_t k = 0; k < session->watched_count; k++) {
        struct watched *before = &session->watched[k];
        if (!pr_id_equal(before->id, peer->id) || before->epoch != peer->epoch)
            continue;
        if (before->lease_end_us == peer->lease_end_us)
            now->since_us = before->since_us;
        now->offer = before->offer;
        before->offer = NULL;
    }
}

/* Epochs of a box are committed in order, under its lock: what is known up to one epoch includes all before it.  false:
 * its offer is unknown. */
static bool watch_offer(struct cycle_run *run, int row, struct watched *now)
{
    if (now->offer != NULL || !run->cycle->peers)
        return true;
    if (field_is_null(run->others, row, 5))
        return false; /* possibly another server: what is known is about other instances */
    pr_slice offer = field_slice(run->others, row, 5);
    now->offer = strndup(offer.size > 0 ? offer.data : "", offer.size);
    if (now->offer != NULL && now->epoch > run->session->offers_until)
        run->session->offers_until = now->epoch;
    return now->offer != NULL;
}

/* How long has each row stayed unchanged?  Instances that are gone are forgotten. */
static int watch_others(struct cycle_run *run)
{
    struct pg_session *session = run->session;
    int64_t now_us = clock_mono_us(clock_system());
    struct watched *now = calloc(run->peer_count + 1, sizeof(now[0]));
    bool all = true;
    for (size_t i = 0; now != NULL && i < run->peer_count; i++) {
        struct peer *peer = &run->peers[i];
        now[i] = (struct watched){
            .id = peer->id, .epoch = peer->epoch, .lease_end_us = peer->lease_end_us, .since_us = now_us
        };
        watch_on(session, peer, &now[i]);
        all &= watch_offer(run, (int)i, &now[i]);
        peer->silent_us = now_us - now[i].since_us;
    }
    pg_watched_free(session);
    session->watched = now;
    session->watched_count = now != NULL ? run->peer_count : 0;
    if (!all)
        session->offers_until = 0; /* the next reply contains them again */
    return now != NULL ? PR_OK : error_set(run->reterr, PR_ENOMEM, "out of memory for %zu instances", run->peer_count);
}

/* Parses "LANE:EPOCH,...": the instances that lanes were passed to. */
static void take_passed(struct cycle_run *run)
{
    memset(run->passed, 0, sizeof(run->passed));
    run->any_passed = false;
    if (PQntuples(run->others) == 0 || field_is_null(run->others, 0, 6))
        return;
    for (pr_slice rest = field_slice(run->others, 0, 6), one; rest.size > 0;) {
        const char *comma = memchr(rest.data, ',', rest.size);
        one = (pr_slice){ rest.data, comma != NULL ? (size_t)(comma - rest.data) : rest.size };
        rest = (pr_slice){ one.data + one.size, rest.size - one.size };
        if (comma != NULL)
            rest = (pr_slice){ rest.data + 1, rest.size - 1 };
        char text[48];
        unsigned lane;
        long long epoch;
        snprintf(text, sizeof(text), "%.*s", SLICE_ARGS(one));
        if (sscanf(text, "%u:%lld", &lane, &epoch) == 2 && lane < LANE_COUNT && epoch > 0) {
            run->passed[lane] = epoch;
            run->any_passed = true;
        }
    }
}

int pg_lease_take_others(struct cycle_run *run)
{
    int count = PQntuples(run->others);
    run->peer_count = 0;
    run->peers = arena_alloc_array(&run->session->arena, (size_t)count, sizeof(run->peers[0]));
    if (run->peers == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for %d instances", count);
    for (int i = 0; i < count; i++)
        run->peers[run->peer_count++] = (struct peer){
            .id = field_id(run->others, i, 0),
            .epoch = field_i64(run->others, i, 1),
            .lanes = (uint64_t)field_i64(run->others, i, 2),
            .lease_end_us = field_time(run->others, i, 3),
            .lease_us = field_i64(run->others, i, 4),
            .lease_left_us = field_time(run->others, i, 3) - run->mono_us,
        };
    take_passed(run);
    return watch_others(run);
}

static void take_own(struct cycle_run *run)
{
    run->epoch = field_i64(run->own, 0, 0);
    run->before = (uint64_t)field_i64(run->own, 0, 1);
    run->lease_left_us = field_time(run->own, 0, 2) - run->mono_us;
    if (run->lease_left_us > run->cycle->lease_us)
        run->lease_left_us = 0; /* the clock has gone back: write the lease again */
}

int pg_lease_take_reads(struct cycle_run *run)
{
    pg_clock_take(run);
    take_pulse(run);
    if (PQntuples(run->own) == 0 || field_i64(run->own, 0, 0) != run->cycle->epoch)
        return error_set(run->reterr, PR_ELEASE,
                         "the lease of this instance is over and its lanes were taken: join again");
    take_own(run);
    int rc = pg_lease_take_others(run);
    if (rc != PR_OK)
        return rc;
    if (run->claims != NULL && !field_is_null(run->claims, 0, 0) &&
        (uint64_t)field_i64(run->claims, 0, 0) >= run->cycle->number)
        run->replayed = true;
    if (run->before == run->lanes)
        return PR_OK;
    run->session->lanes = run->before; /* verdicts were decided by other lanes than the instance has */
    run->session->epoch = run->epoch;
    return CYCLE_ANEW;
}

/* ---- Burying -------------------------------------------------------------------------------- */

/* From the receipts to the rows, each through its index: given the choice, a server without statistics of a box that
 * was just filled goes through the box, and for each of its rows through all receipts. */
#define OPEN_RECEIPTS(place)                                                                                           \
    "SELECT r.ctid, r.story, e.number, e.at, r.destination, (SELECT name FROM {schema}.instance WHERE id = $1) FROM"   \
    " (SELECT u.handle, u.number, max(c.at) AS at FROM {schema}.claim c,"                                              \
    " unnest(c.rows, c.numbers) AS u(handle, number) WHERE c.instance = $1 GROUP BY u.handle, u.number) e"             \
    " CROSS JOIN LATERAL (SELECT b.ctid, b.story, b.destination FROM {box} b WHERE b.lane = (e.handle & 63)::smallint" \
    " AND b.attempts = e.number - 1 AND " place " OFFSET 0 FOR UPDATE SKIP LOCKED) r"

static const char LOST_FRESH[] =
    OPEN_RECEIPTS("b.seq = e.handle >> 6 AND b.row_id IS NULL AND b.due_at IS NULL AND b.held_by IS NULL");
static const char LOST_BACK[] =
    OPEN_RECEIPTS("coalesce(b.row_id, b.seq) = e.handle >> 6 AND (b.due_at IS NOT NULL OR b.held_by IS NOT NULL)");
/* The rows have been locked since they were read, so each is where it was. */
static const char LOST_COUNT[] = "UPDATE {box} b SET attempts = b.attempts + 1, story = v.story"
                                 " FROM unnest($1, $2) AS v(place, story) WHERE b.ctid = v.place";

static int lost_tell(const PGresult *lost, struct array *places, struct array *stories)
{
    struct buf story;
    buf_init(&story, STORY_BYTES_MAX);
    for (int i = 0; i < PQntuples(lost) && buf_failed(&story) == PR_OK; i++) {
        buf_reset(&story);
        story_append_lost(field_slice(lost, i, 1), field_time(lost, i, 3), field_int(lost, i, 2),
                          field_slice(lost, i, 4), field_slice(lost, i, 5), &story);
        array_tid(places, field_tid(lost, i, 0));
        array_text(stories, buf_slice(&story));
    }
    int rc = buf_failed(&story);
    buf_fini(&story);
    return rc;
}

/* T6: hand-outs without a verdict count as attempts, unless an operator has reset the counters since, or another open
 * transaction holds the row: nobody waits for that one while the box is locked. */
static int lost_count(struct cycle_run *run, pr_id id)
{
    PGresult *lost[2];
    struct array places, stories;
    struct args args = { .count = 0 }, told = { .count = 0 };
    arg_id(&args, id);
    link_add(run->link, LOST_FRESH, run->session->box, &args, &lost[0]);
    link_add(run->link, LOST_BACK, run->session->box, &args, &lost[1]);
    int rc = link_run(run->link, run->reterr);
    if (rc != PR_OK || PQntuples(lost[0]) + PQntuples(lost[1]) == 0)
        return rc;
    array_init(&places);
    array_init(&stories);
    array_begin(&places, OID_TID);
    array_begin(&stories, OID_JSON);
    for (size_t i = 0; i < ARRAY_LENGTH(lost) && rc == PR_OK; i++)
        rc = lost_tell(lost[i], &places, &stories);
    arg_array(&told, &places);
    arg_array(&told, &stories);
    rc = rc == PR_OK ? link_do(run->link, LOST_COUNT, run->session->box, &told, NULL, run->reterr)
                     : error_set(run->reterr, rc, "out of memory for the story of a message");
    array_fini(&places);
    array_fini(&stories);
    return rc;
}

static int instance_bury(struct cycle_run *run, pr_id id)
{
    struct args args = { .count = 0 };
    arg_id(&args, id);
    int rc = lost_count(run, id);
    if (rc != PR_OK)
        return rc;
    link_add(run->link, "DELETE FROM {schema}.claim WHERE instance = $1", NO_BOX, &args, NULL);
    pg_breakers_add_forget(run, id);
    link_add(run->link, "DELETE FROM {schema}.instance WHERE id = $1", NO_BOX, &args, NULL);
    return link_run(run->link, run->reterr);
}

/* A clock that does not jump (that of a test) is trusted. */
static bool is_silent(const struct cycle_run *run, const struct peer *peer)
{
    return run->session->store->clock == NULL && peer->silent_us >= peer->lease_us;
}

static bool is_expired(const struct cycle_run *run, const struct peer *peer)
{
    return peer->lease_left_us <= 0 || is_silent(run, peer);
}

/* Only a peer that has not written since, is not in a cycle, and is silent or gone. */
static int peer_bury(struct cycle_run *run, struct peer *peer)
{
    PGresult *found;
    struct args args = { .count = 0 };
    arg_id(&args, peer->id);
    arg_time(&args, peer->lease_end_us);
    arg_bool(&args, is_silent(run, peer) || run->session->store->clock != NULL);
    int rc = link_do(run->link,
                     "SELECT FROM {schema}.instance WHERE id = $1 AND lease_end = $2"
                     " AND ($3 OR pg_try_advisory_xact_lock(" PULSE("$1") ")) FOR UPDATE SKIP LOCKED",
                     NO_BOX, &args, &found, run->reterr);
    if (rc != PR_OK || PQntuples(found) == 0)
        return rc;
    rc = instance_bury(run, peer->id);
    *peer = run->peers[--run->peer_count];
    return rc;
}

static int bury_expired(struct cycle_run *run)
{
    int rc = PR_OK;
    for (size_t i = run->peer_count; i > 0 && rc == PR_OK; i--)
        if (is_expired(run, &run->peers[i - 1]))
            rc = peer_bury(run, &run->peers[i - 1]);
    return rc;
}

/* ---- Joining -------------------------------------------------------------------------------- */

static int version_refuse(struct cycle_run *run)
{
    int version = 0, rc = pg_schema_version(run->link, &version, run->reterr);
    return rc == PR_OK ? pg_schema_too_new(version, run->reterr) : rc;
}

/* An instance that began before an upgrade of the tables must not continue after it.  The statement waits for an
 * upgrade that is under way (instances_stop() in migrate.c), and then sees its result. */
static int instance_insert(struct cycle_run *run)
{
    PGresult *result;
    struct args args = { .count = 0 };
    arg_id(&args, run->cycle->instance);
    arg_text(&args, run->session->box);
    arg_text(&args, run->cycle->name);
    arg_text(&args, PR_STR(POSTRIDER_VERSION));
    arg_time(&args, time_add(run->mono_us, run->cycle->lease_us));
    arg_time(&args, run->now_us);
    arg_i64(&args, run->cycle->lease_us);
    arg_i32(&args, pg_schema_wanted());
    arg_text(&args, run->cycle->offer.data != NULL ? run->cycle->offer : PR_STR(""));
    int rc =
        link_do(run->link,
                "INSERT INTO {schema}.instance (id, box, name, version, epoch, lanes, lease_end, started_at, lease_us,"
                " schema_version, offer) SELECT $1, $2, $3, $4, nextval('{schema}.epoch'), 0, $5, $6, $7, $8, $9"
                " FROM {schema}.meta WHERE key = 'schema_version' AND value = $8::text RETURNING epoch",
                NO_BOX, &args, &result, run->reterr);
    if (rc == PR_OK && PQntuples(result) == 0)
        return version_refuse(run);
    if (rc == PR_OK)
        run->epoch = field_i64(result, 0, 0);
    if (rc == PR_OK)
        rc = pg_marks_tell_time(run);
    run->lanes = run->before = 0;
    run->lease_left_us = run->cycle->lease_us;
    run->joins = true;
    return rc;
}

/* The same join again, or a new one; the box is locked. */
int pg_lease_join(struct cycle_run *run)
{
    const struct pg_session *session = run->session;
    bool known = PQntuples(run->own) > 0;
    bool went_on = (uint64_t)field_i64(run->claims, 0, 0) > run->cycle->number ||
                   (pr_id_equal(session->instance, run->cycle->instance) && session->number > run->cycle->number);
    pg_clock_take(run);
    take_pulse(run);
    int rc = pg_lease_take_others(run);
    if (rc != PR_OK)
        return rc;
    run->locked = true;
    if (known && !went_on) {
        take_own(run);
        run->lanes = run->before;
        run->replayed = true;
        return PR_OK;
    }
    run->replayed = false;
    rc = known ? instance_bury(run, run->cycle->instance) : PR_OK;
    return rc == PR_OK ? instance_insert(run) : rc;
}

/* ---- Lanes ---------------------------------------------------------------------------------- */

static unsigned share_of(const struct cycle_run *run)
{
    size_t older = 0;
    for (size_t i = 0; i < run->peer_count; i++)
        older += run->peers[i].epoch < run->epoch;
    return lanes_share(run->peer_count + 1, older);
}

static bool peer_lives(const struct cycle_run *run, int64_t epoch)
{
    for (size_t i = 0; i < run->peer_count; i++)
        if (run->peers[i].epoch == epoch)
            return true;
    return false;
}

/* Free lanes that this instance may take: passed to it, or free for all. */
static void lanes_free(const struct cycle_run *run, uint64_t *ret_ours, uint64_t *ret_anybodys)
{
    uint64_t owned = run->lanes, ours = 0, others = 0;
    for (size_t i = 0; i < run->peer_count; i++)
        owned |= run->peers[i].lanes;
    for (unsigned i = 0; run->any_passed && i < LANE_COUNT; i++) {
        ours |= run->passed[i] == run->epoch ? lane_bit(i) : 0;
        others |= run->passed[i] != 0 && peer_lives(run, run->passed[i]) ? lane_bit(i) : 0;
    }
    owned |= run->cycle->lanes_give;
    *ret_ours = ours & ~owned;
    *ret_anybodys = ~(owned | ours | others);
}

/* Takes lanes that were passed to this instance, and others up to the fair share; no lane is taken from an owner
 * (T4). */
static void lanes_take(struct cycle_run *run)
{
    unsigned share = share_of(run);
    uint64_t ours, anybodys;
    lanes_free(run, &ours, &anybodys);
    run->lanes |= ours;
    for (unsigned i = 0; i < LANE_COUNT && lanes_count(run->lanes) < share; i++)
        run->lanes |= anybodys & lane_bit(i);
}

/* Lanes that were given and passed to a live instance now, and those passed earlier that were not taken yet. */
static void passed_renew(struct cycle_run *run)
{
    const struct cycle *cycle = run->cycle;
    bool gives = cycle->lanes_to != NULL && !run->replayed;
    uint64_t owned = run->lanes;
    for (size_t i = 0; i < run->peer_count; i++)
        owned |= run->peers[i].lanes;
    for (unsigned i = 0; i < LANE_COUNT; i++) {
        if (gives && (run->before & cycle->lanes_give & lane_bit(i)) != 0)
            run->passed[i] = cycle->lanes_to[i];
        if ((owned & lane_bit(i)) != 0 || !peer_lives(run, run->passed[i]))
            run->passed[i] = 0;
    }
}

/* The box is locked. */
static int passed_write(struct cycle_run *run)
{
    struct args args = { .count = 0 };
    struct buf text;
    passed_renew(run);
    buf_init(&text, LANE_COUNT * 32);
    for (unsigned i = 0; i < LANE_COUNT; i++)
        if (run->passed[i] != 0)
            buf_addf(&text, "%s%u:%lld", buf_slice(&text).size > 0 ? "," : "", i, (long long)run->passed[i]);
    int rc = buf_failed(&text);
    arg_text(&args, run->session->box);
    arg_text(&args, buf_slice(&text).data != NULL ? buf_slice(&text) : PR_STR(""));
    rc = rc == PR_OK ? link_do(run->link, "UPDATE {schema}.box SET passed = $2 WHERE name = $1 AND passed <> $2",
                               NO_BOX, &args, NULL, run->reterr)
                     : error_set(run->reterr, rc, "out of memory for lanes");
    buf_fini(&text);
    return rc;
}

bool pg_lease_moves_lanes(const struct cycle_run *run)
{
    uint64_t ours, anybodys;
    if (run->joins || run->cycle->leave || (run->cycle->lanes_to != NULL && !run->replayed))
        return true;
    for (size_t i = 0; i < run->peer_count; i++)
        if (is_expired(run, &run->peers[i]))
            return true;
    lanes_free(run, &ours, &anybodys);
    return ours != 0 || (anybodys != 0 && lanes_count(run->lanes) < share_of(run));
}

/* Locks the box, and reads the other instances again. */
static int lanes_lock(struct cycle_run *run)
{
    if (run->locked)
        return PR_OK;
    add_box_lock(run);
    pg_lease_add_others(run);
    int rc = link_run(run->link, run->reterr);
    if (rc == PR_OK)
        rc = pg_lease_take_others(run);
    run->locked = true;
    return rc;
}

/* Written with the reads; if nothing was written, the row no longer belongs to this instance. */
static void add_own_row(struct cycle_run *run, bool renews)
{
    struct args args = { .count = 0 };
    if (renews)
        run->lease_left_us = run->cycle->lease_us;
    arg_id(&args, run->cycle->instance);
    arg_i64(&args, run->epoch);
    arg_i64(&args, (int64_t)run->lanes);
    arg_time(&args, time_add(run->mono_us, run->lease_left_us));
    arg_i64(&args, run->cycle->lease_us);
    link_add(run->link,
             "UPDATE {schema}.instance SET lanes = $3, lease_end = $4, lease_us = $5 WHERE id = $1 AND epoch = $2 "
             "RETURNING 1",
             NO_BOX, &args, &run->written);
}

static bool lease_renews(const struct cycle_run *run)
{
    return run->joins || run->cycle->force_write || run->lease_left_us < run->cycle->lease_us / 3 * 2;
}

bool pg_lease_is_calm(const struct cycle_run *run)
{
    return !lease_renews(run) && !pg_lease_moves_lanes(run);
}

static int tell_peers(struct cycle_run *run)
{
    struct pg_session *session = run->session;
    struct peer_offer *peers = arena_alloc_array(&session->arena, session->watched_count, sizeof(*peers));
    if (peers == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for %zu instances", session->watched_count);
    for (size_t i = 0; i < session->watched_count; i++)
        peers[i] = (struct peer_offer){ session->watched[i].epoch, slice_from(session->watched[i].offer) };
    session->reply.peers = peers;
    session->reply.peer_count = session->watched_count;
    return PR_OK;
}

int pg_lease_tell(struct cycle_run *run)
{
    struct cycle_reply *reply = &run->session->reply;
    reply->epoch = run->epoch;
    reply->replayed = run->replayed;
    reply->lease_left_us = run->lease_left_us;
    reply->lanes_owned = run->lanes;
    reply->lanes_asked = lanes_above(run->lanes, run->cycle->lanes_keep, share_of(run));
    return run->cycle->peers ? tell_peers(run) : PR_OK;
}

int pg_lease_work(struct cycle_run *run)
{
    const struct cycle *cycle = run->cycle;
    int rc = PR_OK;
    bool renews = lease_renews(run);

    if (cycle->lanes_give != 0 && !run->replayed)
        run->lanes &= ~cycle->lanes_give;
    if (pg_lease_moves_lanes(run)) {
        rc = lanes_lock(run);
        if (rc == PR_OK)
            rc = bury_expired(run);
        if (rc == PR_OK && !cycle->leave)
            lanes_take(run);
        if (rc == PR_OK && (run->lanes != run->before || cycle->lanes_to != NULL))
            rc = passed_write(run);
    }
    if (cycle->leave)
        run->lanes = 0;
    if (rc == PR_OK && !cycle->leave && (renews || run->lanes != run->before))
        add_own_row(run, renews);
    if (rc == PR_OK)
        rc = pg_lease_tell(run);
    return rc == PR_OK && cycle->leave ? instance_bury(run, cycle->instance) : rc;
}
