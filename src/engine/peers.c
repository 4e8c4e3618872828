/* The other instances that serve the box, what they can run, and the lanes that one of them should have for it.
 *
 * When this instance meets a message that it cannot run, but another live instance can, the lane is to move there:
 * nothing new is begun in it, and when none of its messages is out it is given to that instance.  So that two programs
 * which each run a part of a lane's messages do not exchange it without running anything, it stays for a while with
 * each of them; and a lane that does not become empty in time (some message takes long) stays longer before the move is
 * tried again.  Lanes that recently ran something that not all instances can run are not given away to even out shares;
 * nor are those with live sessions (streams of activities) that began here: one of their activities is out or waits, or
 * ended a moment ago.  A lane that has to move waits for sessions, too, but only for a limited time.
 *
 * Where lanes change hands all at once (lanes_together) they act as one lane: the first of `moves` stands for all of
 * them. */
#include <stdlib.h>
#include <string.h>

#include "core/offer.h"
#include "engine/internal.h"

#define STAY_US PR_MILLISECONDS(250) /* a lane stays at least this long after it came */
/* nothing new is begun in a lane that is to move, for at most this long ... */
#define DRAIN_US PR_SECONDS(1)
#define DRAIN_AGAIN_US PR_SECONDS(5)   /* ... and after that it runs messages for this long before the next try */
#define KEEP_US PR_SECONDS(30)         /* how long a lane is kept after such a run */
#define SESSION_GAP_US PR_SECONDS(2)   /* between two activities of a live session */
#define SESSION_WAIT_US PR_SECONDS(10) /* a lane that has to move waits for sessions at most this long */
/* A message that waits for its lane to move is not handed out here again meanwhile. */
#define PASSED_DELAY_US PR_MILLISECONDS(1)

static struct lane_move *move_of(struct engine *e, unsigned lane)
{
    return &e->peers.moves[e->peers.together ? 0 : lane];
}

static uint64_t lanes_of_move(const struct engine *e, unsigned slot)
{
    return e->peers.together ? (slot == 0 ? e->membership.lanes : 0) : e->membership.lanes & lane_bit(slot);
}

/* ---- What is known of them ------------------------------------------------------------------------ */

void peers_forget(struct engine *e)
{
    for (size_t i = 0; i < e->peers.count; i++)
        free(e->peers.list[i].offer);
    free(e->peers.list);
    e->peers.list = NULL;
    e->peers.count = 0;
    e->peers.mixed = false;
    e->peers.serial++;
    memset(e->peers.moves, 0, sizeof(e->peers.moves)); /* sessions end with their streams */
}

static bool are_known(const struct engine *e, const struct cycle_reply *r)
{
    if (r->peer_count != e->peers.count)
        return false;
    for (size_t i = 0; i < r->peer_count; i++)
        if (r->peers[i].epoch != e->peers.list[i].epoch)
            return false;
    return true;
}

/* Without memory they are asked for again. */
static void learn(struct engine *e, const struct cycle_reply *r)
{
    struct known_peer *list = calloc(r->peer_count + 1, sizeof(*list));
    size_t count = 0;
    bool mixed = false;

    for (; list != NULL && count < r->peer_count; count++) {
        pr_slice offer = r->peers[count].offer;
        list[count] =
            (struct known_peer){ r->peers[count].epoch, strndup(offer.size > 0 ? offer.data : "", offer.size) };
        if (list[count].offer == NULL)
            break;
        mixed |= !slice_eq(offer, e->setting.offer);
    }
    for (size_t i = 0; i < e->peers.count; i++)
        free(e->peers.list[i].offer);
    free(e->peers.list);
    e->peers.list = list;
    e->peers.count = list != NULL ? count : 0;
    e->peers.mixed = mixed;
    e->peers.serial++;
}

void peers_absorb(struct engine *e, const struct cycle_reply *r)
{
    e->peers.together = r->lanes_together;
    if (r->peers != NULL && !are_known(e, r))
        learn(e, r);
}

void peers_gained(struct engine *e, uint64_t lanes, int64_t now_us)
{
    for (unsigned lane = 0; lane < LANE_COUNT; lane++)
        if ((lanes & lane_bit(lane)) != 0)
            *move_of(e, lane) = (struct lane_move){ .stay_until_us = now_us + STAY_US };
}

/* ---- What is met ---------------------------------------------------------------------------------- */

/* When several instances can run it, different lanes prefer different ones. */
static const struct known_peer *peer_for(const struct engine *e, pr_slice need, unsigned lane)
{
    for (size_t i = 0; i < e->peers.count; i++) {
        const struct known_peer *peer = &e->peers.list[(i + lane) % e->peers.count];
        if (offer_has(pr_str(peer->offer), need))
            return peer;
    }
    return NULL;
}

static bool all_have(const struct engine *e, pr_slice need)
{
    for (size_t i = 0; i < e->peers.count; i++)
        if (!offer_has(pr_str(e->peers.list[i].offer), need))
            return false;
    return true;
}

/* A session that other instances could continue is here now.  (One that they could not continue comes back by
 * itself.) */
static void session_did(struct engine *e, const struct item *item, pr_slice need, int64_t now_us)
{
    bool only_here = e->peers.count > 0 && need.size > 0 && peer_for(e, need, 0) == NULL;

    if (e->setting.kind != BOX_ACTIVITIES || item->stream == NULL || only_here)
        return;
    e->peers.sessions[item->lane] += !item->stream->begun;
    item->stream->begun = true;
    move_of(e, item->lane)->session_until_us = now_us + SESSION_GAP_US;
    move_of(e, item->lane)->keep_until_us = now_us + KEEP_US;
}

void peers_did(struct engine *e, const struct item *item, pr_slice need, int64_t now_us)
{
    session_did(e, item, need, now_us); /* another instance may join soon */
    if (need.size > 0 && e->peers.mixed && !all_have(e, need))
        move_of(e, item->lane)->keep_until_us = now_us + KEEP_US;
}

void peers_stream_ends(struct engine *e, const struct stream *s)
{
    e->peers.sessions[s->lane] -= s->begun;
}

static bool has_session(const struct engine *e, uint64_t lanes)
{
    for (unsigned lane = 0; lane < LANE_COUNT; lane++)
        if ((lanes & lane_bit(lane)) != 0 && e->peers.sessions[lane] > 0)
            return true;
    return false;
}

/* When the lane may move. */
static int64_t move_from_us(const struct engine *e, const struct lane_move *m, uint64_t lanes, int64_t now_us)
{
    bool has = m->session_until_us > now_us || has_session(e, lanes);

    return has ? max64(m->stay_until_us, m->since_us + SESSION_WAIT_US) : m->stay_until_us;
}

int64_t peers_pass(struct engine *e, const struct item *item, pr_slice need, int64_t now_us)
{
    const struct known_peer *peer = need.size > 0 && e->peers.count > 0 ? peer_for(e, need, item->lane) : NULL;
    struct lane_move *move = move_of(e, item->lane);

    if (peer == NULL)
        return -1;
    if (move->to == 0)
        move->since_us = now_us;
    move->to = peer->epoch;
    uint64_t lanes = e->peers.together ? e->membership.lanes : lane_bit(item->lane);
    return max64(min64(move_from_us(e, move, lanes, now_us) - now_us, STAY_US), PASSED_DELAY_US);
}

/* ---- What goes ------------------------------------------------------------------------------------ */

static bool peer_lives(const struct engine *e, int64_t epoch)
{
    for (size_t i = 0; i < e->peers.count; i++)
        if (e->peers.list[i].epoch == epoch)
            return true;
    return false;
}

static bool is_busy_in(const struct engine *e, uint64_t lanes)
{
    for (unsigned lane = 0; lane < LANE_COUNT; lane++)
        if ((lanes & lane_bit(lane)) != 0 && e->membership.lane_busy[lane] > 0)
            return true;
    return false;
}

/* Is the lane being given now? */
static bool move_goes(struct engine *e, struct lane_move *m, uint64_t lanes, int64_t now_us)
{
    if (m->to == 0 || lanes == 0)
        return false;
    if (!peer_lives(e, m->to)) {
        m->to = m->until_us = 0;
        return false;
    }
    if (m->until_us == 0 && now_us >= move_from_us(e, m, lanes, now_us))
        m->until_us = now_us + DRAIN_US;
    if (m->until_us != 0 && now_us >= m->until_us && is_busy_in(e, lanes)) {
        m->until_us = 0;
        m->stay_until_us = now_us + DRAIN_AGAIN_US;
    }
    return m->until_us != 0;
}

uint64_t peers_passing(struct engine *e, int64_t now_us)
{
    uint64_t lanes = 0;

    for (unsigned slot = 0; e->peers.count > 0 && slot < LANE_COUNT; slot++)
        if (move_goes(e, &e->peers.moves[slot], lanes_of_move(e, slot), now_us))
            lanes |= lanes_of_move(e, slot);
    return lanes;
}

int64_t peers_next_us(const struct engine *e, int64_t now_us)
{
    int64_t next_us = PR_NEVER;

    for (unsigned slot = 0; e->peers.count > 0 && slot < LANE_COUNT; slot++) {
        const struct lane_move *m = &e->peers.moves[slot];
        if (m->to != 0 && lanes_of_move(e, slot) != 0)
            next_us =
                min64(next_us, m->until_us != 0 ? m->until_us : move_from_us(e, m, lanes_of_move(e, slot), now_us));
    }
    return next_us;
}

/* Lanes that change hands together wait for each other. */
uint64_t peers_ready(const struct engine *e, uint64_t idle)
{
    return !e->peers.together || (e->membership.lanes & ~idle) == 0 ? idle : 0;
}

uint64_t peers_kept(struct engine *e, int64_t now_us)
{
    uint64_t lanes = 0;

    for (unsigned lane = 0; e->peers.count > 0 && lane < LANE_COUNT; lane++) {
        const struct lane_move *m = move_of(e, lane);
        if (max64(m->keep_until_us, m->stay_until_us) > now_us || e->peers.sessions[lane] > 0)
            lanes |= lane_bit(lane);
    }
    return lanes & e->membership.lanes;
}

void peers_plan(struct engine *e, int64_t now_us)
{
    struct cycle *c = &e->plan.cycle;
    int64_t *to = NULL;

    c->peers = box_is_of_flows(e->setting.kind);
    c->lanes_keep = c->peers ? peers_kept(e, now_us) : 0;
    for (unsigned lane = 0; c->peers && lane < LANE_COUNT; lane++) {
        const struct lane_move *m = move_of(e, lane);
        if ((c->lanes_give & lane_bit(lane)) == 0 || m->until_us == 0)
            continue;
        if (to == NULL)
            to = arena_alloc_array(&e->plan.arena, LANE_COUNT, sizeof(*to));
        if (to != NULL)
            to[lane] = m->to;
    }
    c->lanes_to = to;
}

/* ---- Looking in ----------------------------------------------------------------------------------- */

uint64_t engine_peers_serial(const struct engine *e)
{
    return e->peers.serial;
}

size_t engine_peers(const struct engine *e, pr_slice *ret, size_t max)
{
    for (size_t i = 0; i < e->peers.count && i < max; i++)
        ret[i] = pr_str(e->peers.list[i].offer);
    return e->peers.count;
}

bool engine_is_mixed(const struct engine *e)
{
    return e->peers.mixed;
}
