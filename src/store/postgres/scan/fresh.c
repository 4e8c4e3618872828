/* New rows, through the scan (engine/scan.h): what to request, and how to read the answers.
 *
 * While cycles of one batch follow each other (cycle.c), the request of the next one is known as soon as this one knows
 * the rows of its reply: those after them, as of the same snapshot.  So they are requested in advance, and the server
 * reads them while the engine works on the rows of the last reply.  The session keeps them as one struct fresh.  Its
 * users ensure that the request is the same, that the instance's row is unchanged, and that there is no notice: then no
 * row can have changed since it was read.  (doc/adr/0049) */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/request.h"
#include "store/postgres/postgres.h"

#define LANE_ROWS_MORE 4
#define PLAIN_MIN 2      /* consecutive cycles that could be one batch: the next one probably can, too */
#define ROW_BYTES 200    /* of a row, besides the payload; as in FRESH_LARGE */
#define LARGE_BYTES 4096 /* rows of this average size are limited by their bytes */
#define RANGES_MAX (LANE_COUNT * SCAN_RANGES_MAX)

/* ---- Settling --------------------------------------------------------------------------------- */

/* The scan runs exactly in the lanes that are owned. */
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

/* The next cycle has another number: so the reply to the last one arrived.  The same number means that it was lost, and
 * the scan reads the same ranges again. */
void pg_fresh_settle(struct pg_session *session, const struct cycle *cycle)
{
    bool arrived = session->pending_number != 0 && cycle->number != session->pending_number;
    for (unsigned i = 0; i < LANE_COUNT; i++) {
        struct scan_pending *pending = &session->pending[i];
        if (pending->set && arrived && scan_is_started(session->scan, i))
            scan_done(session->scan, i, pending->whole, pending->last_seq);
        pending->set = false;
    }
    session->pending_number = 0;
    if (cycle->epoch == 0) { /* a new instance: nothing was read, and assumptions about commits may be wrong */
        fresh_start(session, 0, 0);
        scan_forget(session->scan);
        pg_sweep_start(session);
    }
}

/* ---- Asking ----------------------------------------------------------------------------------- */

/* A row is read when its transaction had ended.  By S1 no row whose place was drawn before the sequence was read has an
 * xid from xmax on: a row that has was restored from another server, where it was committed, and its xid means nothing
 * here.  The snapshots are chosen for each range, and not for each row. */
#define RANGES                                                                                                         \
    " FROM (SELECT u.*, ($8::pg_snapshot[])[u.seen_at] AS seen, ($8::pg_snapshot[])[u.unseen_at] AS unseen,"           \
    " NULLIF(u.kind, 2::smallint) AS told_kind"                                                                        \
    " FROM unnest($1, $2, $3, $4, $5, $6, $7) WITH ORDINALITY AS u(lane, low, high, kind, seen_at, unseen_at, most, "  \
    "ord)"                                                                                                             \
    " OFFSET 0) r"
#define ROWS_OF_RANGE                                                                                                  \
    " FROM {box} b WHERE b.lane = r.lane AND b.seq >= r.low AND b.seq < r.high AND b.due_at IS NULL AND "              \
    "b.held_by IS NULL AND (pg_visible_in_snapshot(b.xid, r.seen)"                                                     \
    " OR (r.unseen_at = 0 AND b.seq <= $11::bigint AND b.xid >= pg_snapshot_xmax(r.seen)))"                            \
    " AND (r.unseen_at = 0 OR NOT pg_visible_in_snapshot(b.xid, r.unseen)) ORDER BY b.seq LIMIT r.most"
/* The kind is NULL for nearly all rows: those of a new range that still lie where the transaction named in their `xid` wrote
 * them.  A row that was updated since, or stored after a savepoint, has another xmin: see DELETE_WHERE_WRITTEN in
 * change.c. */
#define ROW_AND_KIND(tid, xmin)                                                                                        \
    "SELECT b.row_id, " MESSAGE_SAID MESSAGE_PAYLOAD("$9::bigint") ", b." tid ", CASE WHEN b." xmin                    \
                                                                   " = b.xid::xid THEN r.told_kind ELSE r.kind END"
#define FRESH_ROWS(more) RANGES " CROSS JOIN LATERAL (" ROW_AND_KIND("ctid", "xmin") more ROWS_OF_RANGE ") f"

_Static_assert(SCAN_NEW == 2, "the kind in RANGES");

/* In the order of the ranges: the inner query depends on the range, so there is no other way to run it, and sorting its
 * rows would cost as much as reading them.  fresh_count() checks it. */
static const char FRESH[] = "SELECT f.*" FRESH_ROWS("") " LIMIT $10::bigint";

/* When rows are large: no more of them leave the server than the cycle has room for. */
static const char FRESH_LARGE[] =
    "SELECT * FROM (SELECT f.*, r.ord, sum(f.bytes) OVER (ORDER BY r.ord, f.seq ROWS UNBOUNDED PRECEDING) AS "
    "upto" FRESH_ROWS(
        ", coalesce(" MESSAGE_SIZE
        ", 0) + 200 AS bytes") ") g WHERE g.upto - g.bytes < $12::bigint ORDER BY g.ord, g.seq LIMIT $10::bigint";

/* The same, and all rows are put on the receipt of the cycle (cycle.start_fresh), unless they are too many, one of them
 * was handed out before, two are of one stream, one is of an excluded stream, or there are notices that the reply does not
 * contain, which may concern messages that block these rows.  The instance's row is locked as in any change; if it is not
 * as expected, there is no receipt, and the next cycle finds out why. */
#define FRESH_AND(receipt)                                                                                             \
    "WITH found AS MATERIALIZED (SELECT f.*" FRESH_ROWS(                                                               \
        ", " HANDLE " AS handle") " LIMIT $10::bigint),"                                                               \
                                  " own AS MATERIALIZED (SELECT FROM {schema}.instance WHERE id = $12 AND epoch = $13" \
                                  " AND lanes = $14 AND EXISTS (SELECT FROM found) AND NOT EXISTS (SELECT FROM"        \
                                  " {schema}.control WHERE number > $18 AND box IN ('', {box_name})) FOR SHARE),"      \
                                  " started AS (SELECT array_agg(handle) AS rows, array_agg(1) AS numbers FROM found"  \
                                  " HAVING count(*) BETWEEN 1 AND $17::bigint AND count(attempts) = 0 AND"             \
                                  " ($19::bool OR count(DISTINCT nullif(stream, '')) = count(nullif(stream, '')))"     \
                                  " AND count(*) FILTER (WHERE stream = ANY ($20::text[])) = 0"                        \
                                  " AND EXISTS (SELECT FROM own)), receipt AS (" receipt                               \
                                  " RETURNING 1) SELECT found.*, EXISTS (SELECT FROM receipt) FROM found"
static const char FRESH_START[] =
    FRESH_AND("INSERT INTO {schema}.claim (instance, cycle, box, at, rows, numbers) SELECT $12, $15, {box_name}, " NOW(
        "$16") ", s.rows, s.numbers FROM started s");
/* A cycle that changes something has a claim row already. */
static const char FRESH_START_MORE[] = FRESH_AND("UPDATE {schema}.claim c SET at = " NOW(
    "$16") ", rows = s.rows, numbers = s.numbers FROM started s WHERE c.instance = $12 AND c.cycle = $15");

/* Without rows of cycle.skips; the types of skipped rows without a destination are $12, the skipped destinations $13.
 * `most` is how many rows are looked at, and the last row of each range is always returned: it says how many these
 * were, and which of them are left out. */
static const char FRESH_OTHERS[] = "SELECT f.*" RANGES " CROSS JOIN LATERAL (" ROW_AND_KIND(
    "tid",
    "writer") ", b.skip, b.looked, b.skipped_from, b.skipped_to"
              " FROM (SELECT l.*, count(*) OVER w AS looked, max(l.seq) OVER w AS last, min(l.seq) FILTER (WHERE "
              "l.skip) "
              "OVER w AS"
              " skipped_from, max(l.seq) FILTER (WHERE l.skip) OVER w AS skipped_to FROM (SELECT b.*, b.ctid AS tid, "
              "b.xmin AS writer,"
              " CASE b.destination WHEN '' THEN b.type = ANY ($12::text[]) AND strpos(coalesce(b.headers::text, ''), "
              "'" HEADER_REPLY "') = 0 ELSE b.destination = ANY ($13::text[]) END AS skip" ROWS_OF_RANGE
              ") l WINDOW w AS ()) b"
              " WHERE NOT b.skip OR b.seq = b.last ORDER BY b.seq) f LIMIT $10::bigint";

#define SKIP_ROWS 50000 /* rows looked at by one such query */

#define COLUMN_TID (1 + MESSAGE_NEW_COUNT)
#define COLUMN_KIND (COLUMN_TID + 1)
#define COLUMN_STARTED (COLUMN_KIND + 2) /* after the handle */
#define COLUMN_SKIP (COLUMN_KIND + 1)
#define COLUMN_LOOKED (COLUMN_SKIP + 1)
#define COLUMN_SKIPPED_FROM (COLUMN_LOOKED + 1)
#define COLUMN_SKIPPED_TO (COLUMN_SKIPPED_FROM + 1)

/* The request and the result of one lane. */
struct fresh_lane {
    struct scan_range ranges[SCAN_RANGES_MAX];
    size_t count;
    size_t rows[SCAN_RANGES_MAX];
    int64_t last_seq[SCAN_RANGES_MAX];
    size_t most;   /* rows requested for each range */
    size_t whole;  /* ranges that were read to their ends */
    unsigned turn; /* lanes take turns, so that each is first sometimes */
};

struct fresh {
    struct cycle_run *run;
    struct fresh_lane lanes[LANE_COUNT];
    const struct snapshot *snapshots[RANGES_MAX];
    size_t snapshot_count;
    struct buf text; /* of the snapshots, as an array */
    PGresult *result;
    int rows; /* rows of the result that count */
    size_t rows_max, bytes_max;
    bool large;                      /* the rows may be larger than the available room */
    bool starts;                     /* rows found are put on the receipt */
    bool skips;                      /* rows of cycle.skips are left out */
    bool prefetched;                 /* requested in advance: */
    int failed;                      /* of adding its rows to the reply */
    uint64_t snapshot_number, owned; /* the state for which it is valid */
    size_t payload_max;
    size_t *fated; /* indexes in the reply of rows that have a fate */
    size_t fated_count;
    bool more; /* there is more than the reply contains */
    bool cut;  /* by the limits of the cycle, after the last row that counts */
    unsigned cut_lane;
    size_t cut_range;
};

/* Its index in the array, starting at 1; snapshots are few and mostly the same. */
static int snapshot_index(struct fresh *f, const struct snapshot *s)
{
    for (size_t i = f->snapshot_count; i > 0; i--)
        if (f->snapshots[i - 1] == s)
            return (int)i;
    buf_add_cstr(&f->text, f->snapshot_count > 0 ? ",\"" : "{\"");
    pg_snapshot_print(&f->text, s);
    buf_add_char(&f->text, '"');
    f->snapshots[f->snapshot_count++] = s;
    return (int)f->snapshot_count;
}

static void lane_ask(struct fresh *f, unsigned lane)
{
    struct pg_session *session = f->run->session;
    struct fresh_lane *l = &f->lanes[lane];
    struct array *a = session->arrays;
    l->most = f->skips ? max_size(session->skip_rows[lane], SKIP_ROWS / LANE_COUNT) : session->lane_rows[lane];
    for (size_t i = 0; i < l->count; i++) {
        const struct scan_range *r = &l->ranges[i];
        array_i16(&a[0], (int)lane);
        array_i64(&a[1], r->from);
        array_i64(&a[2], r->to);
        array_i16(&a[3], (int)r->kind);
        array_i32(&a[4], snapshot_index(f, r->upto));
        array_i32(&a[5], r->unseen != NULL ? snapshot_index(f, r->unseen) : 0);
        array_i64(&a[6], (int64_t)l->most);
    }
}

static int64_t size_to_i64(size_t size)
{
    return size > INT64_MAX ? INT64_MAX : (int64_t)size;
}

/* Takes the ranges from the scan. */
static void fresh_look(struct fresh *f)
{
    for (unsigned lane = 0; lane < LANE_COUNT; lane++)
        if (f->run->lanes & lane_bit(lane))
            f->lanes[lane].count = scan_ranges(f->run->session->scan, lane, f->lanes[lane].ranges);
}

/* Uses two arrays of the session that the ranges do not need. */
static void skip_args(const struct fresh *f, struct args *args)
{
    struct array *types = &f->run->session->arrays[7], *destinations = &f->run->session->arrays[8];
    const struct cycle *c = f->run->cycle;
    array_begin(types, OID_TEXT);
    array_begin(destinations, OID_TEXT);
    for (size_t i = 0; i < c->skip_count; i++)
        if (c->skips[i].destination.size > 0)
            array_text(destinations, c->skips[i].destination);
        else
            array_text(types, c->skips[i].type);
    arg_array(args, types);
    arg_array(args, destinations);
}

/* Uses the array after those of the ranges. */
static void start_args(const struct fresh *f, struct args *args)
{
    struct array *excluded = &f->run->session->arrays[7];
    const struct cycle *c = f->run->cycle;
    arg_id(args, c->instance);
    arg_i64(args, f->run->epoch);
    arg_i64(args, (int64_t)f->run->lanes);
    arg_i64(args, (int64_t)c->number);
    arg_time(args, pg_store_wall_us(f->run->session->store));
    arg_i64(args, size_to_i64(c->start_fresh));
    arg_i64(args, f->run->session->reply.notice_last);
    arg_bool(args, c->start_runs);
    array_begin(excluded, OID_TEXT);
    for (size_t i = 0; i < c->start_not_count; i++)
        array_text(excluded, c->start_not[i]);
    arg_array(args, excluded);
}

static void fresh_ask(struct fresh *f)
{
    static const enum oid types[] = { OID_INT2, OID_INT8, OID_INT8, OID_INT2, OID_INT4, OID_INT4, OID_INT8 };
    struct pg_session *session = f->run->session;
    const struct cycle *c = f->run->cycle;
    struct args args = { .count = 0 };
    f->rows_max = c->fresh_rows;
    f->bytes_max = c->fresh_bytes;
    f->snapshot_count = 0;
    buf_init(&f->text, SNAPSHOTS_BYTES_MAX);
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
    /* One row more, to detect more rows; and one for each range, which only says where the range ends. */
    arg_i64(&args, size_to_i64(min_size(c->fresh_rows, INT64_MAX / 2)) + (f->skips ? 1 + RANGES_MAX : 1));
    arg_i64(&args, session->seen_last);
    if (f->large)
        arg_i64(&args, size_to_i64(c->fresh_bytes));
    else if (f->skips)
        skip_args(f, &args);
    else if (f->starts)
        start_args(f, &args);
    link_add(f->run->link,
             f->large          ? FRESH_LARGE
             : f->skips        ? FRESH_OTHERS
             : !f->starts      ? FRESH
             : f->run->claimed ? FRESH_START_MORE
                               : FRESH_START,
             session->box, &args, &f->result);
    buf_fini(&f->text); /* it was copied into the batch */
}

/* ---- Taking ------------------------------------------------------------------------------------ */

/* Which of its lane's ranges does a row belong to?  For new rows, nearly all, the kind is NULL. */
static size_t row_range(const struct fresh *f, int row)
{
    const struct fresh_lane *l = &f->lanes[field_int(f->result, row, 1)];
    int kind = field_is_null(f->result, row, COLUMN_KIND) ? SCAN_NEW : field_int(f->result, row, COLUMN_KIND);
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

/* Counts a row of this lane and range; false: it is out of order. */
static bool fresh_count_row(struct fresh *f, unsigned lane, size_t range, int64_t seq)
{
    struct fresh_lane *l = &f->lanes[lane];
    bool same = f->rows > 0 && lane == f->cut_lane;
    if (f->rows > 0 &&
        (l->turn < f->lanes[f->cut_lane].turn || (same && range < f->cut_range) || seq <= l->last_seq[range]))
        return false;
    l->rows[range]++;
    l->last_seq[range] = seq;
    f->cut_lane = lane;
    f->cut_range = range;
    return true;
}

/* Does it only say how far its range was looked through? */
static bool is_left_out(const struct fresh *f, int row)
{
    return f->skips && field_bool(f->result, row, COLUMN_SKIP);
}

static void note_skipped(struct fresh *f, struct fresh_lane *l, size_t range, int row)
{
    struct cycle_reply *reply = &f->run->session->reply;
    l->rows[range] = (size_t)field_i64(f->result, row, COLUMN_LOOKED);
    if (field_is_null(f->result, row, COLUMN_SKIPPED_FROM))
        return;
    int64_t from = field_i64(f->result, row, COLUMN_SKIPPED_FROM),
            to = field_i64(f->result, row, COLUMN_SKIPPED_TO) + 1;
    bool first = reply->skipped.from_seq == reply->skipped.to_seq;
    reply->skipped.from_seq = first ? from : min64(reply->skipped.from_seq, from);
    reply->skipped.to_seq = first ? to : max64(reply->skipped.to_seq, to);
}

static int fresh_count(struct fresh *f)
{
    int rows = PQntuples(f->result);
    size_t bytes = 0, told = 0;
    fresh_reset(f);
    for (f->rows = 0; f->rows < rows && told < f->rows_max && (told == 0 || bytes < f->bytes_max); f->rows++) {
        int i = f->rows;
        unsigned lane = (unsigned)field_int(f->result, i, 1);
        if (!fresh_count_row(f, lane, row_range(f, i), field_i64(f->result, i, 2)))
            return error_set(f->run->reterr, PR_ESTORE,
                             "the server returns rows in another order than it was asked for");
        if (f->skips)
            note_skipped(f, &f->lanes[lane], row_range(f, i), i);
        if (is_left_out(f, i))
            continue;
        told++;
        bytes += pg_message_size(f->result, i, 1) + ROW_BYTES;
    }
    f->cut = f->rows < rows || bytes >= f->bytes_max;
    if (told > 0)
        f->run->session->row_bytes = bytes / told;
    return PR_OK;
}

/* Is this range of the lane after the row at which the limits cut, or the one that contains it? */
static bool is_behind_cut(const struct fresh *f, const struct fresh_lane *l, size_t range)
{
    unsigned cut_turn = f->lanes[f->cut_lane].turn;
    return f->cut && (l->turn > cut_turn || (l->turn == cut_turn && range >= f->cut_range));
}

/* How far each lane came.  Ranges after one that was cut are read another time. */
static bool fresh_judge(struct fresh *f)
{
    bool short_lane = false;
    for (unsigned lane = 0; lane < LANE_COUNT; lane++) {
        struct fresh_lane *l = &f->lanes[lane];
        l->whole = 0;
        while (l->whole < l->count && l->rows[l->whole] < l->most && !is_behind_cut(f, l, l->whole))
            l->whole++;
        short_lane |= l->whole < l->count && l->rows[l->whole] >= l->most;
    }
    f->more = f->cut || short_lane;
    return short_lane;
}

static size_t lane_share(const struct cycle_run *run)
{
    size_t share = run->cycle->fresh_rows / (size_t)__builtin_popcountll(run->lanes);
    return share + share / 4 + LANE_ROWS_MORE;
}

/* The rest may be in few lanes: these share the limit of one query. */
static void skips_adapt(const struct fresh *f)
{
    size_t short_lanes = 0;
    for (unsigned lane = 0; lane < LANE_COUNT; lane++)
        short_lanes += f->lanes[lane].whole < f->lanes[lane].count;
    for (unsigned lane = 0; lane < LANE_COUNT; lane++)
        f->run->session->skip_rows[lane] = f->lanes[lane].whole < f->lanes[lane].count ? SKIP_ROWS / short_lanes : 0;
}

/* Next time the lane at which the limits cut comes first; and less is requested from a lane that had much and has no
 * more. */
static void fresh_adapt(struct fresh *f)
{
    struct pg_session *session = f->run->session;
    session->first_lane = f->cut ? f->cut_lane : session->first_lane;
    if (f->skips) {
        skips_adapt(f);
        return;
    }
    for (unsigned lane = 0; lane < LANE_COUNT; lane++) {
        const struct fresh_lane *l = &f->lanes[lane];
        if (l->count > 0 && l->whole == l->count)
            session->lane_rows[lane] = max_size(lane_share(f->run), session->lane_rows[lane] / 2);
    }
}

struct placed {
    int64_t seq;
    int row;
};

static int placed_compare(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* Through the key, and not from the fresh rows to these (see OPEN_RECEIPTS in lease.c); a row that is no longer fresh
 * will be met again. */
static const char FATES[] =
    "SELECT v.place" MESSAGE_FATE
    " FROM unnest($1, $2, $3) AS v(place, handle, id) CROSS JOIN LATERAL (SELECT b.* FROM {box} b"
    " WHERE b.id = v.id AND " HANDLE " = v.handle OFFSET 0) b WHERE b.due_at IS NULL AND b.held_by IS NULL";

/* Reads the fate of rows that have one: they were counted as handed out, or made fresh by hand.  The transaction is
 * over; no other instance hands them out. */
static int fresh_reply_fates(struct fresh *f)
{
    struct pg_session *session = f->run->session;
    struct array *a = session->arrays;
    struct row *reply = session->reply.rows;
    struct args args = { .count = 0 };
    PGresult *result = NULL;
    if (f->fated_count == 0)
        return PR_OK;
    array_begin(&a[0], OID_INT8);
    array_begin(&a[1], OID_INT8);
    array_begin(&a[2], OID_UUID);
    for (size_t i = 0; i < f->fated_count; i++) {
        array_i64(&a[0], (int64_t)f->fated[i]);
        array_i64(&a[1], (int64_t)reply[f->fated[i]].row);
        array_id(&a[2], reply[f->fated[i]].m.id);
    }
    for (int i = 0; i < 3; i++)
        arg_array(&args, &a[i]);
    int rc = link_do(f->run->link, FATES, session->box, &args, &result, f->run->reterr);
    for (int i = 0; rc == PR_OK && i < PQntuples(result); i++)
        pg_message_decode_fate(result, i, 1, &reply[field_i64(result, i, 0)].m);
    return rc;
}

static void note_place(const struct fresh *f, int row, const struct row *r)
{
    struct pg_session *session = f->run->session;
    bool as_written = field_is_null(f->result, row, COLUMN_KIND);
    pg_ctid_cache_note(&session->ctid_cache, &(struct ctid_slot){ .handle = (int64_t)r->row,
                                                                  .id = r->m.id,
                                                                  .snapshot = as_written ? session->snapshot_number : 0,
                                                                  .tid = field_tid(f->result, row, COLUMN_TID) });
}

/* Oldest first, as people expect, although only the order within a lane is promised. */
static int fresh_reply_rows(struct fresh *f)
{
    struct cycle_reply *reply = &f->run->session->reply;
    struct placed *order = arena_alloc_array(&f->run->session->arena, (size_t)f->rows, sizeof(order[0]));
    size_t count = 0;
    f->fated = arena_alloc_array(&f->run->session->arena, (size_t)f->rows, sizeof(f->fated[0]));
    f->fated_count = 0;
    if (order == NULL || f->fated == NULL || !pg_reply_reserve(f->run->session, (size_t)f->rows))
        return error_set(f->run->reterr, PR_ENOMEM, "out of memory for the rows of a reply");
    for (int i = 0; i < f->rows; i++) {
        if (!is_left_out(f, i) && row_range(f, i) <= f->lanes[field_int(f->result, i, 1)].whole)
            order[count++] = (struct placed){ .seq = field_i64(f->result, i, 2), .row = i };
    }
    qsort(order, count, sizeof(order[0]), placed_compare);
    int rc = PR_OK;
    for (size_t i = 0; i < count && rc == PR_OK; i++) {
        rc = pg_reply_new_row(f->run, f->result, order[i].row);
        if (rc != PR_OK)
            break;
        note_place(f, order[i].row, &reply->rows[reply->row_count - 1]);
        if (pg_message_has_fate(f->result, order[i].row, 1))
            f->fated[f->fated_count++] = reply->row_count - 1;
    }
    return rc;
}

static int reply_passed(struct fresh *f)
{
    struct pg_session *session = f->run->session;
    int64_t *passed = arena_alloc_array(&session->arena, LANE_COUNT, sizeof(passed[0]));
    if (passed == NULL)
        return error_set(f->run->reterr, PR_ENOMEM, "out of memory for a reply");
    for (unsigned lane = 0; lane < LANE_COUNT; lane++) {
        const struct fresh_lane *l = &f->lanes[lane];
        size_t last = l->count > 0 ? min_size(l->whole, l->count - 1) : 0;
        bool is_new = l->count > 0 && l->ranges[last].kind == SCAN_NEW;
        passed[lane] = is_new ? l->last_seq[last] : INT64_MIN; /* INT64_MIN is SCAN_BEGIN: no row came */
    }
    session->reply.passed = passed;
    return PR_OK;
}

/* The rest of the reply; and how far each lane came, for when the reply has arrived. */
static int fresh_reply_end(struct fresh *f)
{
    struct pg_session *session = f->run->session;
    int rc = fresh_reply_fates(f);
    if (rc != PR_OK)
        return rc;
    for (unsigned lane = 0; lane < LANE_COUNT; lane++) {
        const struct fresh_lane *l = &f->lanes[lane];
        if (l->count == 0)
            continue;
        size_t last = min_size(l->whole, l->count - 1);
        session->pending[lane] = (struct scan_pending){ .set = true, .whole = l->whole, .last_seq = l->last_seq[last] };
    }
    session->pending_number = f->run->cycle->number;
    return f->skips ? reply_passed(f) : PR_OK;
}

/* Lanes that have more than was requested: request everything next time. */
static void fresh_widen(struct fresh *f)
{
    for (unsigned lane = 0; lane < LANE_COUNT; lane++)
        if (f->lanes[lane].whole < f->lanes[lane].count)
            f->run->session->lane_rows[lane] = f->run->cycle->fresh_rows;
}

/* The transaction is over by now; the snapshots make it the same query.  Nothing more is started. */
static int fresh_ask_again(struct fresh *f)
{
    f->starts = false;
    fresh_ask(f);
    int rc = link_run(f->run->link, f->run->reterr);
    return rc == PR_OK ? fresh_count(f) : rc;
}

/* ---- In advance ---------------------------------------------------------------------------------- */

void pg_prefetch_drop(struct pg_session *session)
{
    if (session->prefetch == NULL || !session->prefetch->prefetched)
        return;
    link_settle(session->link);
    PQclear(session->prefetch->result);
    session->prefetch->result = NULL;
    session->prefetch->prefetched = false;
}

void pg_prefetch_free(struct pg_session *session)
{
    if (session->prefetch != NULL)
        PQclear(session->prefetch->result);
    free(session->prefetch);
}

/* Where the scan will be in this lane when the rows of f have arrived, as scan_done() computes it.  False: not above
 * all late rows. */
static bool prefetch_lane(const struct fresh *f, unsigned lane, struct fresh_lane *ret)
{
    const struct fresh_lane *l = &f->lanes[lane];
    size_t last = l->count - 1;
    int64_t seq = l->last_seq[last];
    if (l->whole < last)
        return false;
    *ret = (struct fresh_lane){ .ranges = { l->ranges[last] }, .count = 1 };
    if (l->whole == l->count)
        seq = max64(seq, f->run->session->seen_last);
    ret->ranges[0].from = max64(l->ranges[last].from, seq != SCAN_BEGIN ? seq + 1 : SCAN_BEGIN);
    return true;
}

/* Requests the rows after those of f. */
static bool prefetch_plan(const struct fresh *f)
{
    struct pg_session *session = f->run->session;
    if (session->prefetch == NULL)
        session->prefetch = calloc(1, sizeof(*session->prefetch));
    struct fresh *next = session->prefetch;
    if (next == NULL)
        return false;
    ASSERT(next->result == NULL);
    *next = (struct fresh){ .run = f->run,
                            .snapshot_number = session->snapshot_number,
                            .owned = f->run->lanes,
                            .large = f->large,
                            .payload_max = f->run->cycle->payload_max };
    for (unsigned lane = 0; lane < LANE_COUNT; lane++)
        if ((next->owned & lane_bit(lane)) && !prefetch_lane(f, lane, &next->lanes[lane]))
            return false;
    next->prefetched = true;
    return true;
}

/* Are there rows after those of f, and will the next cycle need them? */
static bool prefetch_pays(const struct fresh *f)
{
    const struct pg_session *session = f->run->session;
    return session->plain_cycles >= PLAIN_MIN && session->one_batch_left > 0 && f->more && f->rows > 0;
}

int pg_prefetch_start(struct cycle_run *run)
{
    struct link *link = run->link;
    bool asked = run->session->prefetch != NULL && run->session->prefetch->prefetched; /* it may have arrived already */
    if (run->fresh == NULL || asked || !link_is_up(link) || !prefetch_pays(run->fresh) || !prefetch_plan(run->fresh))
        return PR_OK;
    if (link->pooled)
        link_add_begin(link); /* with the session's settings */
    fresh_ask(run->session->prefetch);
    if (link->pooled)
        link_add_commit(link);
    return link_leave(link, NULL);
}

/* The server stops reading when the socket is full, so this takes what has arrived. */
void pg_prefetch_tend(void *self)
{
    struct pg_session *session = self;
    if (session->prefetch != NULL && session->prefetch->prefetched && !session->prefetch->large)
        link_gather(session->link);
}

/* A cycle that needs many more rows asks itself. */
bool pg_prefetch_fits(const struct cycle_run *run)
{
    const struct pg_session *session = run->session;
    const struct fresh *next = session->prefetch;
    const struct cycle *c = run->cycle;
    struct scan_range ranges[SCAN_RANGES_MAX];
    if (next == NULL || !next->prefetched || next->snapshot_number != session->snapshot_number ||
        next->owned != run->lanes || next->payload_max != c->payload_max || c->notice_after == 0 ||
        c->fresh_rows / 2 > next->rows_max || c->fresh_bytes / 2 > next->bytes_max)
        return false;
    for (unsigned lane = 0; lane < LANE_COUNT; lane++)
        if ((run->lanes & lane_bit(lane)) &&
            (scan_ranges(session->scan, lane, ranges) != 1 || ranges[0].from != next->lanes[lane].ranges[0].from))
            return false;
    return true;
}

/* The rows have arrived, or will any moment; the session's own struct fresh is free for the next. */
static int prefetch_take(struct fresh *f)
{
    struct pg_session *session = f->run->session;
    link_settle(f->run->link);
    f->result = session->prefetch->result;
    session->prefetch->result = NULL;
    session->prefetch->prefetched = false;
    if (f->result == NULL || link_keep(f->run->link, f->result, NULL) != PR_OK)
        return PR_ESTORE;
    int rc = fresh_count(f);
    if (rc == PR_OK && fresh_judge(f) && !f->cut)
        fresh_widen(f);
    if (rc == PR_OK)
        fresh_adapt(f);
    return rc;
}

/* ---- From beginning to end ------------------------------------------------------------------------ */

struct fresh *pg_fresh_add(struct cycle_run *run)
{
    struct pg_session *session = run->session;
    struct fresh *f = arena_zalloc(&session->arena, sizeof(*f));
    fresh_start(session, run->lanes, run->cycle->restart_lanes);
    if (f == NULL)
        return NULL;
    if (run->uses_prefetch)
        *f = *session->prefetch;
    f->run = run;
    if (!run->has_snapshot || run->lanes == 0)
        return f;
    fresh_look(f);
    if (f->prefetched) {
        f->rows_max = min_size(f->rows_max, run->cycle->fresh_rows);
        f->bytes_max = min_size(f->bytes_max, run->cycle->fresh_bytes);
        return f;
    }
    f->large = session->row_bytes == 0 || session->row_bytes >= LARGE_BYTES ||
               run->cycle->fresh_bytes / LARGE_BYTES < run->cycle->fresh_rows;
    for (unsigned lane = 0; lane < LANE_COUNT; lane++)
        session->lane_rows[lane] = max_size(session->lane_rows[lane], lane_share(run));
    f->skips = run->cycle->skip_count > 0 && !f->large;
    f->starts = run->cycle->start_fresh > 0 && !f->large && !f->skips && !run->replayed && !run->anew &&
                !run->one_batch && pg_lease_is_calm(run) && run->lanes == run->before;
    fresh_ask(f);
    return f;
}

static size_t count_rows(const struct fresh *f)
{
    return (size_t)PQntuples(f->result);
}

/* Was there a receipt for the rows? */
static bool fresh_has_started(const struct fresh *f)
{
    return f->starts && count_rows(f) > 0 && field_bool(f->result, 0, COLUMN_STARTED);
}

void pg_fresh_prepare(struct fresh *f)
{
    if (!f->prefetched)
        return;
    f->failed = prefetch_take(f);
    if (f->failed == PR_OK && !f->run->link->pooled)
        f->failed = pg_prefetch_start(f->run);
    if (f->failed == PR_OK)
        f->failed = fresh_reply_rows(f);
}

/* Did it arrive, and has no person changed anything since it was read?  Queries made now would see such changes. */
static int prefetch_confirm(struct fresh *f)
{
    struct cycle_reply *reply = &f->run->session->reply;
    if (f->failed == PR_OK && reply->notice_last == f->run->cycle->notice_after && reply->notice_count == 0)
        return PR_OK;
    reply->row_count = 0;
    f->prefetched = false;
    pg_prefetch_drop(f->run->session);
    return fresh_ask_again(f);
}

int pg_fresh_take(struct fresh *f)
{
    int rc = PR_OK;
    struct cycle_reply *reply = &f->run->session->reply;
    reply->fresh_end = true;
    if (f->result == NULL && !f->prefetched)
        return PR_OK;
    bool started = fresh_has_started(f);
    rc = f->prefetched ? prefetch_confirm(f) : fresh_count(f);
    if (rc == PR_OK && !f->prefetched && fresh_judge(f) && !f->cut &&
        !f->skips) { /* there is room for more than was requested */
        fresh_widen(f);
        rc = fresh_ask_again(f);
    }
    if (rc == PR_OK && !f->prefetched) {
        (void)fresh_judge(f);
        fresh_adapt(f);
        rc = fresh_reply_rows(f);
    }
    reply->fresh_end = !f->more;
    if (started)
        reply->started = f->starts && reply->row_count == count_rows(f) ? STARTED_ALL : STARTED_UNKNOWN;
    return rc == PR_OK ? fresh_reply_end(f) : rc;
}
