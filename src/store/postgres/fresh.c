/* New rows, through the scan (engine/scan.h).
 *
 * S1 wants a snapshot whose xmax is above the xid of everybody who had one when it was taken.
 * PostgreSQL's is not: its xmax is one above the last transaction that has ended, so those that
 * were begun later and still run are at or above it.  So we ask for the next xid, too, after the
 * snapshot was taken, and count those in between as running: none of them had ended by then.
 * age() tells the next xid without using one up, in a transaction that has none itself.  When
 * effects have come back into our own box, we do have one: then a row that is written in a
 * subtransaction right after the snapshot tells it (its xmin is a new xid).
 *
 * And S1 wants a last value that is not above what was drawn.  The column last_value of a sequence may be:
 * while nextval() writes its log record, the row holds the value that the log is told, 32 numbers
 * ahead, and a SELECT reads it without the lock.  pg_sequence_last_value() takes the lock. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "store/postgres/postgres.h"

#define LANE_ROWS_MORE 4
#define ROW_BYTES 200    /* beside the payload; as FRESH_LARGE has it */
#define LARGE_BYTES 4096 /* rows of this size on average are looked at more closely */
#define SNAPSHOTS_BYTES_MAX (16u << 20)
#define RANGES_MAX (LANE_COUNT * SCAN_RANGES_MAX)
#define XIDS_BETWEEN_MAX (1u << 16) /* more are subtransactions of somebody: see round_shorten() */

/* ---- The round -------------------------------------------------------------------------------- */

static const char LAST[] = "SELECT coalesce(pg_sequence_last_value(tableoid), 0) FROM {box_seq}"; /* NULL: none was drawn */

static const char ROUND[] =
    "SELECT pg_current_snapshot()::text, age(pg_snapshot_xmax(pg_current_snapshot())::xid),"
    " pg_postmaster_start_time(), pg_current_xact_id_if_assigned()::text";

void pg_round_add(struct cycle_run *run)
{
    link_add(run->link, LAST, run->session->box, NULL, &run->last);
    link_add(run->link, ROUND, NO_BOX, NULL, &run->round);
}

/* "xmin:xmax:xid,xid", and the xids between xmax and next; without own.  Outcome 1: these are too
 * many. */
static int snapshot_read(struct cycle_run *run, uint64_t own, struct snapshot *ret)
{
    pr_slice text = field_slice(run->round, 0, 0);
    char    *at = arena_alloc(&run->session->arena, text.size + 1);
    size_t   room = 0;
    if (at == NULL)
        return PR_ENOMEM;
    memcpy(at, text.data, text.size);
    at[text.size] = '\0';
    for (size_t i = 0; i < text.size; i++)
        room += at[i] == ',' || at[i] == ':';
    uint64_t xmin = strtoull(at, &at, 10);
    uint64_t xmax = strtoull(at + 1, &at, 10);
    uint64_t next = xmax + (uint64_t)field_int(run->round, 0, 1);
    if (own != 0) /* the mark's 32 bits, above our own */
        next = own + (uint32_t)((uint32_t)field_i64(run->mark, 0, 0) - (uint32_t)own);
    if (next < xmax || next - xmax > XIDS_BETWEEN_MAX)
        return 1;
    uint64_t *xip = arena_alloc_array(&run->session->arena, room + (size_t)(next - xmax), sizeof(xip[0]));
    if (xip == NULL)
        return PR_ENOMEM;
    *ret = (struct snapshot){ .xmin = xmin, .xmax = next, .xip = xip };
    while (*at != '\0' && at[1] != '\0') {
        uint64_t xid = strtoull(at + 1, &at, 10);
        if (xid != own)
            xip[ret->xip_count++] = xid;
    }
    for (uint64_t xid = xmax; xid < next; xid++)
        if (xid != own)
            xip[ret->xip_count++] = xid;
    return PR_OK;
}

/* What wait() looks at: did somebody who ran then end? */
static int running_remember(struct pg_session *session, const struct snapshot *now)
{
    uint64_t *running = realloc(session->running, (now->xip_count + 1) * sizeof(running[0]));
    if (running == NULL)
        return PR_ENOMEM;
    if (now->xip_count > 0)
        memcpy(running, now->xip, now->xip_count * sizeof(running[0]));
    session->running = running;
    session->running_count = now->xip_count;
    return PR_OK;
}

/* Somebody has used up many xids in one transaction, and nobody has ended since.  So end one: then
 * xmax is above them all.  The cycle begins anew. */
static int round_shorten(struct cycle_run *run)
{
    link_rollback(run->link);
    int rc = link_is_up(run->link) ? link_script(run->link, "SELECT pg_catalog.pg_current_xact_id()", run->reterr)
                                   : error_set(run->reterr, PR_ESTORE, "the connection to the server was lost");
    return rc == PR_OK ? 1 : rc;
}

int pg_round_take(struct cycle_run *run)
{
    struct pg_session *session = run->session;
    struct snapshot    now;
    int64_t            last = field_i64(run->last, 0, 0);
    int64_t            start = field_time(run->round, 0, 2);
    pr_slice           own_text = field_slice(run->round, 0, 3);
    uint64_t           own = own_text.size > 0 ? strtoull(own_text.data, NULL, 10) : 0;

    ASSERT(own == 0 || run->mark != NULL); /* age() would tell our own */
    if (session->server_start != start || session->scanned_by != run->link->generation)
        scan_forget(session->scan); /* S5; and a crash under the same postmaster ends all connections */
    session->server_start = start;
    session->scanned_by = run->link->generation;
    int rc = snapshot_read(run, own, &now);
    if (rc > 0)
        return round_shorten(run);
    if (rc == PR_OK)
        rc = running_remember(session, &now);
    if (rc == PR_OK)
        rc = scan_round(session->scan, last, &now);
    if (rc == PR_ENOMEM)
        return error_set(run->reterr, rc, "no memory for a snapshot");
    session->seen_last = last;
    session->reply.drawn = last;
    run->has_round = rc == PR_OK;
    return rc;
}

/* ---- Settling --------------------------------------------------------------------------------- */

/* The scan runs in the lanes that are owned, and in no others. */
static void fresh_start(struct pg_session *session, uint64_t owned, uint64_t restart)
{
    for (unsigned i = 0; i < LANE_COUNT; i++) {
        bool is_owned = (owned & lane_bit(i)) != 0;
        if (!is_owned)
            scan_stop(session->scan, i);
        else if ((restart & lane_bit(i)) || !scan_is_started(session->scan, i))
            scan_start(session->scan, i);
    }
}

/* The next cycle has another number: so the reply to the last one arrived.  The same number
 * means that it was lost, and the scan goes over the same ground again. */
void pg_fresh_settle(struct pg_session *session, const struct cycle *cycle)
{
    bool arrived = session->pending_number != 0 && cycle->number != session->pending_number;
    for (unsigned i = 0; i < LANE_COUNT; i++) {
        struct pending *pending = &session->pending[i];
        if (pending->set && arrived && scan_is_started(session->scan, i))
            scan_done(session->scan, i, pending->whole, pending->last_seq);
        pending->set = false;
    }
    session->pending_number = 0;
    if (cycle->epoch == 0) { /* a new life: nothing was read, and what was taken for committed may not be */
        fresh_start(session, 0, 0);
        scan_forget(session->scan);
        pg_sweep_start(session);
    }
}

/* ---- Asking ----------------------------------------------------------------------------------- */

/* A row is read when its transaction had ended.  By S1 none whose place was drawn before the sequence
 * was read has an xid from xmax on: if one has, it was restored from another server, where it was
 * committed, and its xid means nothing here.  The snapshots are chosen for each range, and not for each
 * row. */
#define FRESH_ROWS(more)                                                                              \
    " FROM (SELECT u.*, ($8::pg_snapshot[])[u.seen_at] AS seen, ($8::pg_snapshot[])[u.unseen_at] AS unseen" \
    " FROM unnest($1, $2, $3, $4, $5, $6, $7) WITH ORDINALITY AS u(lane, low, high, kind, seen_at, unseen_at, most, ord)" \
    " OFFSET 0) r"                                                                                    \
    " CROSS JOIN LATERAL (SELECT b.row_id, " MESSAGE_SAID MESSAGE_PAYLOAD("$9::bigint") ", b.ctid,"     \
    " NULLIF(r.kind, 2::smallint)" more " FROM {box} b"                                               \
    " WHERE b.lane = r.lane AND b.seq >= r.low AND b.seq < r.high AND b.due_at IS NULL AND b.held_by IS NULL" \
    " AND (pg_visible_in_snapshot(b.xid, r.seen)"                                                     \
    " OR (r.unseen_at = 0 AND b.seq <= $11::bigint AND b.xid >= pg_snapshot_xmax(r.seen)))"           \
    " AND (r.unseen_at = 0 OR NOT pg_visible_in_snapshot(b.xid, r.unseen))"                           \
    " ORDER BY b.seq LIMIT r.most) f"

_Static_assert(SCAN_NEW == 2, "the kind in FRESH_ROWS");

/* In the order of the ranges: the inner query depends on the range, so there is no other way to
 * run it, and to sort its rows would cost as much as to read them.  fresh_count() checks it. */
static const char FRESH[] = "SELECT f.*" FRESH_ROWS("") " LIMIT $10::bigint";

/* When the rows are large: no more of them than the cycle has room for leave the server. */
static const char FRESH_LARGE[] =
    "SELECT * FROM (SELECT f.*, r.ord, sum(f.bytes) OVER (ORDER BY r.ord, f.seq ROWS UNBOUNDED PRECEDING) AS upto"
    FRESH_ROWS(", coalesce(octet_length(b.payload), 0) + 200 AS bytes") ") g WHERE g.upto - g.bytes < $12::bigint ORDER BY g.ord, g.seq LIMIT $10::bigint";

#define COLUMN_TID (1 + MESSAGE_NEW_COUNT)
#define COLUMN_KIND (COLUMN_TID + 1)

/* What one lane was asked, and what came. */
struct fresh_lane {
    struct scan_range ranges[SCAN_RANGES_MAX];
    size_t            count;
    size_t            rows[SCAN_RANGES_MAX];
    int64_t           last_seq[SCAN_RANGES_MAX];
    size_t            whole; /* ranges that came to their ends */
    unsigned          turn;  /* lanes are asked in turns, so that each is first some time */
};

struct fresh {
    struct cycle_run      *run;
    struct fresh_lane      lanes[LANE_COUNT];
    const struct snapshot *snapshots[RANGES_MAX];
    size_t                 snapshot_count;
    struct buf             text; /* of the snapshots, as an array */
    PGresult              *result;
    int                    rows; /* of the result that count */
    bool                   large; /* rows may be more than there is room for */
    bool                   cut;   /* by the limits of the cycle, behind the last row that counts */
    unsigned               cut_lane;
    size_t                 cut_range;
};

/* Its number in the array, from 1 on; they are few and mostly the same. */
static int snapshot_index(struct fresh *f, const struct snapshot *s)
{
    for (size_t i = f->snapshot_count; i > 0; i--)
        if (f->snapshots[i - 1] == s)
            return (int)i;
    buf_addf(&f->text, "%s\"%llu:%llu:", f->snapshot_count > 0 ? "," : "{", (unsigned long long)s->xmin,
             (unsigned long long)s->xmax);
    for (size_t i = 0; i < s->xip_count; i++)
        buf_addf(&f->text, "%s%llu", i > 0 ? "," : "", (unsigned long long)s->xip[i]);
    buf_add_char(&f->text, '"');
    f->snapshots[f->snapshot_count++] = s;
    return (int)f->snapshot_count;
}

static void lane_ask(struct fresh *f, unsigned lane)
{
    struct pg_session *session = f->run->session;
    struct fresh_lane *l = &f->lanes[lane];
    struct array      *a = session->arrays;
    l->count = scan_ranges(session->scan, lane, l->ranges);
    for (size_t i = 0; i < l->count; i++) {
        const struct scan_range *r = &l->ranges[i];
        array_i16(&a[0], (int)lane);
        array_i64(&a[1], r->from);
        array_i64(&a[2], r->to);
        array_i16(&a[3], (int)r->kind);
        array_i32(&a[4], snapshot_index(f, r->upto));
        array_i32(&a[5], r->unseen != NULL ? snapshot_index(f, r->unseen) : 0);
        array_i64(&a[6], (int64_t)session->lane_rows[lane]);
    }
}

static int64_t size_to_i64(size_t size)
{
    return size > INT64_MAX ? INT64_MAX : (int64_t)size;
}

static void fresh_ask(struct fresh *f)
{
    static const enum oid types[] = { OID_INT2, OID_INT8, OID_INT8, OID_INT2, OID_INT4, OID_INT4, OID_INT8 };
    struct pg_session    *session = f->run->session;
    const struct cycle   *c = f->run->cycle;
    struct args           args = { .count = 0 };
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
        array_begin(&session->arrays[i], types[i]);
    for (unsigned turn = 0; turn < LANE_COUNT; turn++) {
        unsigned lane = (session->first_lane + turn) % LANE_COUNT;
        f->lanes[lane].turn = turn;
        if (f->run->lanes & lane_bit(lane))
            lane_ask(f, lane);
    }
    buf_add_char(&f->text, '}');
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
        arg_array(&args, &session->arrays[i]);
    args.failed = args.failed != PR_OK ? args.failed : buf_failed(&f->text);
    arg_literal(&args, args.failed == PR_OK ? f->text.data : "");
    arg_i64(&args, size_to_i64(c->payload_max));
    arg_i64(&args, size_to_i64(c->fresh_rows) + (c->fresh_rows < INT64_MAX));
    arg_i64(&args, session->seen_last);
    if (f->large)
        arg_i64(&args, size_to_i64(c->fresh_bytes));
    link_add(f->run->link, f->large ? FRESH_LARGE : FRESH, session->box, &args, &f->result);
}

/* ---- Taking ------------------------------------------------------------------------------------ */

/* Which of its lane's ranges is a row of?  Of new ones, nearly all, the kind is NULL. */
static size_t row_range(const struct fresh *f, int row)
{
    const struct fresh_lane *l = &f->lanes[field_int(f->result, row, 1)];
    int    kind = field_is_null(f->result, row, COLUMN_KIND) ? SCAN_NEW : field_int(f->result, row, COLUMN_KIND);
    size_t i = 0;
    while (i + 1 < l->count && (int)l->ranges[i].kind != kind)
        i++;
    return i;
}

static void fresh_reset(struct fresh *f)
{
    for (unsigned lane = 0; lane < LANE_COUNT; lane++) {
        memset(f->lanes[lane].rows, 0, sizeof(f->lanes[lane].rows));
        for (size_t i = 0; i < SCAN_RANGES_MAX; i++)
            f->lanes[lane].last_seq[i] = SCAN_BEGIN;
    }
    f->cut = false;
    f->cut_lane = 0;
    f->cut_range = 0;
}

/* One more row of this lane and range, or false: it is out of turn. */
static bool fresh_count_row(struct fresh *f, unsigned lane, size_t range, int64_t seq)
{
    struct fresh_lane *l = &f->lanes[lane];
    bool same = f->rows > 0 && lane == f->cut_lane;
    if (f->rows > 0 && (l->turn < f->lanes[f->cut_lane].turn || (same && range < f->cut_range) || seq <= l->last_seq[range]))
        return false;
    l->rows[range]++;
    l->last_seq[range] = seq;
    f->cut_lane = lane;
    f->cut_range = range;
    return true;
}

static int fresh_count(struct fresh *f)
{
    const struct cycle *c = f->run->cycle;
    int                 rows = PQntuples(f->result);
    size_t              bytes = 0;
    fresh_reset(f);
    for (f->rows = 0; f->rows < rows && (size_t)f->rows < c->fresh_rows && (f->rows == 0 || bytes < c->fresh_bytes); f->rows++) {
        int      i = f->rows;
        unsigned lane = (unsigned)field_int(f->result, i, 1);
        if (!fresh_count_row(f, lane, row_range(f, i), field_i64(f->result, i, 2)))
            return error_set(f->run->reterr, PR_ESTORE, "the server returns rows in another order than it was asked for");
        bytes += pg_message_size(f->result, i, 1) + ROW_BYTES;
    }
    f->cut = f->rows < rows || bytes >= c->fresh_bytes;
    if (f->rows > 0)
        f->run->session->row_bytes = bytes / (size_t)f->rows;
    return PR_OK;
}

/* Is this range of the lane behind the row at which the limits cut, or the one it is in? */
static bool is_behind_cut(const struct fresh *f, const struct fresh_lane *l, size_t range)
{
    unsigned cut_turn = f->lanes[f->cut_lane].turn;
    return f->cut && (l->turn > cut_turn || (l->turn == cut_turn && range >= f->cut_range));
}

/* How far each lane came.  Ranges behind one that is not whole are read another time. */
static bool fresh_judge(struct fresh *f)
{
    bool short_lane = false;
    for (unsigned lane = 0; lane < LANE_COUNT; lane++) {
        struct fresh_lane *l = &f->lanes[lane];
        size_t             most = f->run->session->lane_rows[lane];
        l->whole = 0;
        while (l->whole < l->count && l->rows[l->whole] < most && !is_behind_cut(f, l, l->whole))
            l->whole++;
        short_lane |= l->whole < l->count && l->rows[l->whole] >= most;
    }
    return short_lane;
}

static size_t lane_share(const struct cycle_run *run)
{
    size_t share = run->cycle->fresh_rows / (size_t)__builtin_popcountll(run->lanes);
    return share + share / 4 + LANE_ROWS_MORE;
}

/* Next time the lane at which the limits cut is first; and a lane that had much and has no more is
 * asked for less. */
static void fresh_adapt(struct fresh *f)
{
    struct pg_session *session = f->run->session;
    session->first_lane = f->cut ? f->cut_lane : session->first_lane;
    for (unsigned lane = 0; lane < LANE_COUNT; lane++) {
        const struct fresh_lane *l = &f->lanes[lane];
        if (l->count > 0 && l->whole == l->count)
            session->lane_rows[lane] = max_size(lane_share(f->run), session->lane_rows[lane] / 2);
    }
}

struct placed {
    int64_t seq;
    int     row;
};

static int placed_compare(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* By the key; one that is not fresh any more will be met again. */
static const char FATES[] =
    "SELECT v.place" MESSAGE_FATE " FROM unnest($1, $2, $3) AS v(place, handle, id) JOIN {box} b"
    " ON b.id = v.id AND " HANDLE " = v.handle WHERE b.due_at IS NULL AND b.held_by IS NULL";

/* What became of those that are not as new as they look: they were counted as handed out, or somebody made
 * them fresh by hand.  The transaction is over; nobody else hands them out. */
static int fresh_reply_fates(struct fresh *f, const size_t *rows, size_t count)
{
    struct pg_session *session = f->run->session;
    struct array      *a = session->arrays;
    struct row        *reply = session->reply.rows;
    struct args        args = { .count = 0 };
    PGresult          *result = NULL;
    if (count == 0)
        return PR_OK;
    array_begin(&a[0], OID_INT8);
    array_begin(&a[1], OID_INT8);
    array_begin(&a[2], OID_UUID);
    for (size_t i = 0; i < count; i++) {
        array_i64(&a[0], (int64_t)rows[i]);
        array_i64(&a[1], (int64_t)reply[rows[i]].row);
        array_id(&a[2], reply[rows[i]].m.id);
    }
    for (int i = 0; i < 3; i++)
        arg_array(&args, &a[i]);
    int rc = link_do(f->run->link, FATES, session->box, &args, &result, f->run->reterr);
    for (int i = 0; rc == PR_OK && i < PQntuples(result); i++)
        pg_message_decode_fate(result, i, 1, &reply[field_i64(result, i, 0)].m);
    return rc;
}

/* The oldest first: that is what people expect, though only the order within a lane is promised. */
static int fresh_reply_rows(struct fresh *f)
{
    struct cycle_reply *reply = &f->run->session->reply;
    struct placed      *order = arena_alloc_array(&f->run->session->arena, (size_t)f->rows, sizeof(order[0]));
    size_t             *fated = arena_alloc_array(&f->run->session->arena, (size_t)f->rows, sizeof(fated[0]));
    size_t              count = 0, fated_count = 0;
    if (order == NULL || fated == NULL)
        return error_set(f->run->reterr, PR_ENOMEM, "no memory for the rows of a reply");
    for (int i = 0; i < f->rows; i++) {
        if (row_range(f, i) <= f->lanes[field_int(f->result, i, 1)].whole)
            order[count++] = (struct placed){ .seq = field_i64(f->result, i, 2), .row = i };
    }
    qsort(order, count, sizeof(order[0]), placed_compare);
    int rc = PR_OK;
    for (size_t i = 0; i < count && rc == PR_OK; i++) {
        rc = pg_reply_new_row(f->run, f->result, order[i].row);
        if (rc != PR_OK)
            break;
        pg_seen_note(&f->run->session->seen, (int64_t)reply->rows[reply->row_count - 1].row,
                     field_tid(f->result, order[i].row, COLUMN_TID));
        if (pg_message_has_fate(f->result, order[i].row, 1))
            fated[fated_count++] = reply->row_count - 1;
    }
    return rc == PR_OK ? fresh_reply_fates(f, fated, fated_count) : rc;
}

static int fresh_reply(struct fresh *f)
{
    struct pg_session *session = f->run->session;
    int                rc = fresh_reply_rows(f);
    if (rc != PR_OK)
        return rc;
    for (unsigned lane = 0; lane < LANE_COUNT; lane++) {
        const struct fresh_lane *l = &f->lanes[lane];
        if (l->count == 0)
            continue;
        size_t last = min_size(l->whole, l->count - 1);
        session->pending[lane] = (struct pending){ .set = true, .whole = l->whole, .last_seq = l->last_seq[last] };
    }
    session->pending_number = f->run->cycle->number;
    return PR_OK;
}

/* A lane that has more than it was asked for while there is room: ask again for all of it.  The
 * transaction is over by now; the snapshots make it the same question. */
static int fresh_ask_again(struct fresh *f)
{
    struct pg_session *session = f->run->session;
    for (unsigned lane = 0; lane < LANE_COUNT; lane++)
        if (f->lanes[lane].whole < f->lanes[lane].count)
            session->lane_rows[lane] = f->run->cycle->fresh_rows;
    f->snapshot_count = 0;
    buf_reset(&f->text);
    fresh_ask(f);
    return link_run(f->run->link, f->run->reterr);
}

struct fresh *pg_fresh_add(struct cycle_run *run)
{
    struct pg_session *session = run->session;
    struct fresh      *f = arena_zalloc(&session->arena, sizeof(*f));
    fresh_start(session, run->lanes, run->cycle->restart_lanes);
    if (f == NULL)
        return NULL;
    f->run = run;
    buf_init(&f->text, SNAPSHOTS_BYTES_MAX);
    if (!run->has_round || run->lanes == 0)
        return f;
    f->large = session->row_bytes == 0 || session->row_bytes >= LARGE_BYTES ||
               run->cycle->fresh_bytes / LARGE_BYTES < run->cycle->fresh_rows;
    for (unsigned lane = 0; lane < LANE_COUNT; lane++)
        session->lane_rows[lane] = max_size(session->lane_rows[lane], lane_share(run));
    fresh_ask(f);
    return f;
}

void pg_fresh_drop(struct fresh *f)
{
    buf_fini(&f->text);
}

int pg_fresh_take(struct fresh *f)
{
    int rc = PR_OK;
    f->run->session->reply.fresh_end = true;
    if (f->result == NULL) {
        buf_fini(&f->text);
        return PR_OK;
    }
    rc = fresh_count(f);
    bool short_lane = fresh_judge(f);
    if (rc == PR_OK && short_lane && !f->cut) {
        rc = fresh_ask_again(f);
        if (rc == PR_OK)
            rc = fresh_count(f);
        short_lane = fresh_judge(f);
    }
    if (rc == PR_OK) {
        fresh_adapt(f);
        f->run->session->reply.fresh_end = !f->cut && !short_lane;
        rc = fresh_reply(f);
    }
    buf_fini(&f->text);
    return rc;
}
