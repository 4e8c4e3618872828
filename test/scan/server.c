#include "server.h"

#include <string.h>

#include "base/error.h"

void server_init(struct server *s, uint64_t seed)
{
    memset(s, 0, sizeof(*s));
    random_init(&s->random, seed);
    s->next_xid = 100;
}

struct server_tx *server_begin(struct server *s)
{
    for (size_t i = 0; i < SERVER_TX_MAX; i++) {
        if (!s->tx[i].open) {
            s->tx[i] = (struct server_tx){ .open = true };
            return &s->tx[i];
        }
    }
    return NULL;
}

void server_draw_xid(struct server *s, struct server_tx *tx)
{
    if (tx->xid == 0)
        tx->xid = s->next_xid++;
}

void server_insert(struct server *s, struct server_tx *tx, unsigned lane)
{
    ASSERT(tx->xid != 0 && s->last < SERVER_ROWS_MAX);
    s->rows[s->last++] = (struct server_row){ .state = ROW_OPEN, .xid = tx->xid, .lane = lane };
}

void server_end(struct server *s, struct server_tx *tx, bool commit)
{
    for (int64_t i = 0; i < s->last && tx->xid != 0; i++)
        if (s->rows[i].xid == tx->xid)
            s->rows[i].state = commit ? ROW_COMMITTED : ROW_ROLLED_BACK;
    if (tx->xid > s->last_ended)
        s->last_ended = tx->xid;
    tx->open = false;
}

void server_end_all(struct server *s)
{
    for (size_t i = 0; i < SERVER_TX_MAX; i++)
        if (s->tx[i].open)
            server_end(s, &s->tx[i], random_chance(&s->random, 0.8));
}

static void server_step(struct server *s)
{
    struct server_tx *tx = &s->tx[random_below(&s->random, SERVER_TX_MAX)];
    if (!tx->open) {
        tx = server_begin(s);
        tx->stays = random_chance(&s->random, 0.1);
    } else if (tx->xid == 0) {
        server_draw_xid(s, tx);
    } else if (random_chance(&s->random, tx->stays ? 0.02 : 0.4)) {
        server_end(s, tx, random_chance(&s->random, 0.8));
    } else {
        server_insert(s, tx, (unsigned)random_below(&s->random, SERVER_LANES));
    }
}

void server_busy(struct server *s, unsigned steps)
{
    for (unsigned i = 0; i < steps; i++)
        server_step(s);
}

struct snapshot server_snapshot(const struct server *s, uint64_t *xip)
{
    struct snapshot snapshot = { .xmin = s->next_xid, .xmax = s->next_xid, .xip = xip };
    for (size_t i = 0; i < SERVER_TX_MAX; i++) {
        if (!s->tx[i].open || s->tx[i].xid == 0)
            continue;
        size_t at = snapshot.xip_count++;
        for (; at > 0 && xip[at - 1] > s->tx[i].xid; at--)
            xip[at] = xip[at - 1];
        xip[at] = s->tx[i].xid;
    }
    if (snapshot.xip_count > 0)
        snapshot.xmin = xip[0];
    return snapshot;
}

/* ---- The reader ------------------------------------------------------------------------- */

void reader_init(struct reader *r, struct server *s, const struct scan_limits *limits)
{
    *r = (struct reader){ .server = s, .scan = scan_new(limits) };
    ASSERT(r->scan != NULL);
    for (unsigned lane = 0; lane < SERVER_LANES; lane++)
        scan_start(r->scan, lane);
}

void reader_fini(struct reader *r)
{
    scan_free(r->scan);
}

/* What PostgreSQL's own snapshot knows: nobody above the last that has ended, or above `known`. */
static void snapshot_cut(struct snapshot *snapshot, uint64_t last_ended, uint64_t known)
{
    snapshot->xmax = last_ended + 1 > known ? last_ended + 1 : known;
    while (snapshot->xip_count > 0 && snapshot->xip[snapshot->xip_count - 1] >= snapshot->xmax)
        snapshot->xip_count--;
    if (snapshot->xmin > snapshot->xmax)
        snapshot->xmin = snapshot->xmax;
}

/* Rows of one range, in seq order.  True: it was read to its end. */
static bool reader_range(struct reader *r, unsigned lane, const struct scan_range *range, size_t *limit,
                         int64_t *last_seq, struct server_row **taken, size_t *taken_count)
{
    struct server *s = r->server;
    for (int64_t seq = range->from > 1 ? range->from : 1; seq < range->to && seq <= s->last; seq++) {
        struct server_row *row = &s->rows[seq - 1];
        if (row->lane != lane || row->state != ROW_COMMITTED || row->deleted)
            continue;
        r->looked_at++;
        if (!scan_visible(range->upto, row->xid) || (range->unseen != NULL && scan_visible(range->unseen, row->xid)))
            continue;
        if (*limit == 0)
            return false;
        --*limit;
        *last_seq = seq;
        taken[(*taken_count)++] = row;
    }
    return true;
}

static void reader_lane(struct reader *r, unsigned lane, size_t limit, double lose)
{
    static struct server_row *taken[SERVER_ROWS_MAX];
    struct server *s = r->server;
    struct scan_range ranges[SCAN_RANGES_MAX];
    size_t count = scan_ranges(r->scan, lane, ranges);
    size_t whole = 0, taken_count = 0;
    int64_t last_seq = SCAN_BEGIN;

    while (whole < count) {
        last_seq = SCAN_BEGIN;
        if (!reader_range(r, lane, &ranges[whole], &limit, &last_seq, taken, &taken_count))
            break;
        whole++;
    }
    if (random_chance(&s->random, lose))
        return;
    for (size_t i = 0; i < taken_count; i++) {
        r->twice += taken[i]->reads++ > 0;
        taken[i]->deleted = random_chance(&s->random, 0.3);
    }
    scan_done(r->scan, lane, whole, last_seq);
}

void reader_round(struct reader *r, size_t limit, unsigned steps, double lose)
{
    struct server *s = r->server;
    uint64_t xip[SERVER_TX_MAX];
    struct snapshot snapshot;
    int64_t last;

    if (r->mistake == MISTAKE_SNAPSHOT_FIRST) {
        snapshot = server_snapshot(s, xip);
        server_busy(s, steps);
        last = s->last;
    } else {
        last = s->last;
        uint64_t next_xid = s->next_xid;
        server_busy(s, steps);
        snapshot = server_snapshot(s, xip);
        if (r->mistake == MISTAKE_XMAX_FIRST)
            snapshot_cut(&snapshot, s->last_ended, next_xid);
    }
    ASSERT(scan_snapshot(r->scan, r->mistake == MISTAKE_LAST_TOO_HIGH ? last + 1 : last, &snapshot) == PR_OK);
    server_busy(s, steps);
    for (unsigned lane = 0; lane < SERVER_LANES; lane++)
        reader_lane(r, lane, limit, lose);
    if (limit < SERVER_ROWS_MAX || lose > 0)
        return;
    for (int64_t i = 0; i < s->last; i++)
        if (s->rows[i].state == ROW_COMMITTED && scan_visible(&snapshot, s->rows[i].xid))
            r->late += s->rows[i].reads == 0;
}

uint64_t reader_missing(const struct reader *r)
{
    uint64_t missing = 0;
    for (int64_t i = 0; i < r->server->last; i++)
        missing += r->server->rows[i].state == ROW_COMMITTED && r->server->rows[i].reads == 0;
    return missing;
}

void server_lose(struct server *s, uint64_t next_xid, int64_t last)
{
    for (size_t i = 0; i < SERVER_TX_MAX; i++)
        if (s->tx[i].open)
            server_end(s, &s->tx[i], false);
    for (int64_t i = last; i < s->last; i++)
        s->rows[i] = (struct server_row){ .state = ROW_OPEN };
    s->last = last;
    s->next_xid = next_xid;
    s->last_ended = next_xid - 1;
}
