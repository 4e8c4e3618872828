/* The second line behind the scan: rows that it should have found and did not, for whatever reason (they were inserted
 * below its position: a restored table, a repaired index, a sequence with a CACHE, logical replication).
 *
 * From time to time all fresh rows at or below the scan's position are read again, a small page at a time; the engine
 * knows which rows it has, and takes the others.  An idle engine asks for new rows when it renews its lease, so an idle
 * box is swept, too. */
#include "base/error.h"
#include "base/util.h"
#include "store/postgres/postgres.h"

#define SWEEP_EVERY_US PR_SECONDS(300)
#define SWEEP_SOON_US PR_SECONDS(5) /* ... when the previous page found some: more will follow */
#define SWEEP_PAGE_US PR_SECONDS(1)
#define SWEEP_ROWS 64
#define SWEEP_BYTES 262144

/* Above the scan's position, where it has come to the end: rows with an xid that this server has not assigned yet.
 * Logical replication brings such rows: the scan takes them for transactions of the future. */
static const char SWEEP[] =
    "SELECT * FROM (SELECT f.*, r.ord, sum(f.bytes) OVER (ORDER BY r.ord, f.seq ROWS UNBOUNDED PRECEDING) AS upto"
    " FROM unnest($1, $2, $3, $4) WITH ORDINALITY AS r(lane, above, upto, bound, ord)"
    " CROSS JOIN LATERAL (SELECT " HANDLE " AS handle, " MESSAGE_COLUMNS(
        MESSAGE_PAYLOAD("$5::bigint")) ", b.ctid,"
                                       " coalesce(" MESSAGE_SIZE ", 0) + 200 AS bytes FROM {box} b"
                                       " WHERE b.lane = r.lane AND b.seq > r.above AND b.seq <= r.bound AND b.due_at "
                                       "IS NULL AND b.held_by IS NULL"
                                       " AND (b.seq <= r.upto OR (b.xid >= pg_snapshot_xmax(pg_current_snapshot())"
                                       " AND b.xid IS DISTINCT FROM pg_current_xact_id_if_assigned()))"
                                       " ORDER BY b.seq LIMIT $6::bigint) f) g WHERE g.upto - g.bytes < $7::bigint "
                                       "ORDER BY g.ord, g.seq LIMIT $6::bigint";

#define COLUMN_TID (1 + MESSAGE_COLUMN_COUNT)

static int64_t mono_us(const struct pg_session *session)
{
    int64_t now_us = pg_store_mono_us(session->store);
    return now_us != 0 ? now_us : clock_mono_us(clock_system());
}

static size_t page_rows(const struct cycle *c)
{
    return min_size(SWEEP_ROWS, c->fresh_rows / 2);
}

void pg_sweep_start(struct pg_session *session)
{
    session->sweep_lane = 0;
    session->sweep_seq = SCAN_BEGIN;
    session->sweep_at_us = mono_us(session) + (session->sweep_found ? SWEEP_SOON_US : SWEEP_EVERY_US);
    session->sweep_found = false;
}

bool pg_sweep_is_due(const struct pg_session *session)
{
    return mono_us(session) >= session->sweep_at_us;
}

void pg_sweep_add(struct cycle_run *run, PGresult **ret)
{
    struct pg_session *session = run->session;
    struct array *a = session->arrays;
    struct args args = { .count = 0 };
    if (!run->has_snapshot || page_rows(run->cycle) == 0 || !pg_sweep_is_due(session))
        return;
    array_begin(&a[0], OID_INT2);
    array_begin(&a[1], OID_INT8);
    array_begin(&a[2], OID_INT8);
    array_begin(&a[3], OID_INT8);
    for (unsigned lane = session->sweep_lane; lane < LANE_COUNT; lane++) {
        if (!(run->lanes & lane_bit(lane)))
            continue;
        array_i16(&a[0], (int)lane);
        array_i64(&a[1], lane == session->sweep_lane ? session->sweep_seq : SCAN_BEGIN);
        array_i64(&a[2], scan_passed(session->scan, lane));
        array_i64(&a[3], session->had_more ? scan_passed(session->scan, lane) : INT64_MAX);
    }
    for (int i = 0; i < 4; i++)
        arg_array(&args, &a[i]);
    arg_i64(&args, (int64_t)min_size(run->cycle->payload_max, INT64_MAX));
    arg_i64(&args, (int64_t)page_rows(run->cycle));
    arg_i64(&args, (int64_t)min_size(SWEEP_BYTES, run->cycle->fresh_bytes / 2));
    link_add(run->link, SWEEP, session->box, &args, ret);
}

/* When the scan itself has brought many rows, there is no room for these: they are requested again. */
int pg_sweep_take(struct cycle_run *run, const PGresult *result)
{
    struct pg_session *session = run->session;
    int count = PQntuples(result), rc = PR_OK;
    session->sweep_at_us = mono_us(session) + SWEEP_PAGE_US;
    if (session->reply.row_count > run->cycle->fresh_rows / 2)
        return PR_OK;
    for (int i = 0; i < count && rc == PR_OK; i++) {
        int64_t handle = field_i64(result, i, 0);
        bool is_known = pg_ctid_cache_find(&session->ctid_cache, handle) != NULL;
        session->sweep_found |= !is_known;
        rc = pg_reply_row(run, result, i, ROW_FRESH);
        if (rc == PR_OK && !is_known)
            pg_ctid_cache_note(&session->ctid_cache,
                               &(struct ctid_slot){ .handle = handle,
                                                    .id = session->reply.rows[session->reply.row_count - 1].m.id,
                                                    .tid = field_tid(result, i, COLUMN_TID) });
    }
    if (count == 0) {
        pg_sweep_start(session);
    } else {
        session->sweep_lane = (unsigned)field_int(result, count - 1, 1);
        session->sweep_seq = field_i64(result, count - 1, 2);
    }
    return rc;
}
