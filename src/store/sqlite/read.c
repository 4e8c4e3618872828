/* read.c - the reads of a cycle.
 *
 * Fresh rows (due_at NULL, not held) are found by walking row_id upwards from each lane's position: writers are serial,
 * so nothing can appear behind it.  Rows that became due or held are passed over once and not again, until a lane is
 * restarted.  Everything else is found by a small partial index.  Every read fetches one row more than requested, to
 * detect its end. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/slice.h"
#include "core/id.h"
#include "core/request.h"
#include "store/sqlite/message.h"
#include "store/sqlite/sqlite.h"

#define WALK_STEP 20000 /* row_ids passed over at a time */
#define WALK_MAX 200000 /* ... in one cycle: a lease must not end meanwhile */
#define ROWS_FIRST 64
#define SKIPS_BYTES_MAX ((size_t)1 << 20)

static const char SELECT_FRESH[] =
    "SELECT " MESSAGE_COLUMNS ", " PAYLOAD_UP_TO("?3") " FROM \"{box}\" WHERE row_id > ?1 AND row_id <= ?2"
                                                       " AND due_at IS NULL AND held_by IS NULL ORDER BY row_id";
/* The condition of struct fresh_skip: the types are ?4, the destinations ?5. */
#define IS_SKIPPED                                                                                                     \
    "CASE destination WHEN '' THEN type IN (SELECT value FROM json_each(?4)) AND"                                      \
    " instr(coalesce(headers, ''), '" HEADER_REPLY "') = 0 ELSE destination IN (SELECT value FROM json_each(?5)) END"
static const char SELECT_FRESH_OTHERS[] =
    "SELECT " MESSAGE_COLUMNS ", " PAYLOAD_UP_TO("?3") " FROM \"{box}\" WHERE row_id > ?1 AND row_id <= ?2"
                                                       " AND due_at IS NULL AND held_by IS NULL AND NOT " IS_SKIPPED
                                                       " ORDER BY row_id";
static const char SELECT_SKIPPED[] =
    "SELECT min(row_id), max(row_id) FROM \"{box}\" WHERE row_id > ?1 AND row_id <= ?2 AND ?3 IS NOT NULL"
    " AND due_at IS NULL AND held_by IS NULL AND " IS_SKIPPED;
static const char SELECT_DUE[] = "SELECT " MESSAGE_COLUMNS ", " PAYLOAD_UP_TO(
    "?6") " FROM \"{box}\" WHERE due_at IS NOT NULL AND held_by IS NULL"
          " AND due_at <= ?1 AND (due_at, seq, row_id) > (?2, ?3, ?4) ORDER BY due_at, seq, row_id LIMIT ?5";
static const char SELECT_HELD[] =
    "SELECT " MESSAGE_COLUMNS ", " PAYLOAD_UP_TO("?5") " FROM \"{box}\" WHERE held_by = ?1 AND (seq, row_id) > (?2, ?3)"
                                                       " ORDER BY seq, row_id LIMIT ?4";
static const char SELECT_HEADS[] =
    "SELECT " MESSAGE_COLUMNS ", NULL FROM \"{box}\" INDEXED BY \"postrider_{box}_heads\" WHERE row_id > ?1"
    " AND " MESSAGE_IS_HEAD " ORDER BY row_id";
static const char SELECT_DEAD_HEADS[] =
    "SELECT " MESSAGE_COLUMNS ", NULL FROM postrider_dead_letter WHERE row_id > ?1 AND box = '{box}'"
    " AND stream IS NOT NULL AND stream <> '' AND edited_as IS NULL ORDER BY row_id";

static struct value limit_of(const struct sqlite_cycle *run)
{
    return V_INT((int64_t)min_size(run->cycle->payload_max, INT64_MAX));
}

/* ---- Rows into the reply ------------------------------------------------------------ */

static int rows_grow(struct sqlite_session *session, struct pr_error *reterr)
{
    size_t capacity = session->row_capacity > 0 ? session->row_capacity * 2 : ROWS_FIRST;
    struct row *rows = realloc(session->rows, capacity * sizeof(*rows));
    if (rows == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for %zu rows", capacity);
    session->rows = rows;
    session->row_capacity = capacity;
    return PR_OK;
}

/* Computed before the row is copied. */
static unsigned row_lane(sqlite3_stmt *statement)
{
    pr_slice stored = column_slice(statement, MESSAGE_COLUMN_ID);
    pr_id id = { { 0 } };
    if (stored.size > 0)
        (void)id_from_stored(stored, &id);
    return lane_of(column_slice(statement, MESSAGE_COLUMN_STREAM), id);
}

/* Decodes the statement's row and appends it. */
static int row_take(struct sqlite_cycle *run, sqlite3_stmt *statement, enum row_from from, struct row **ret)
{
    struct sqlite_session *session = run->session;
    if (session->reply.row_count == session->row_capacity) {
        int rc = rows_grow(session, run->reterr);
        if (rc != PR_OK)
            return rc;
    }
    struct row *row = &session->rows[session->reply.row_count];
    *row = (struct row){ .from = from };
    int rc = message_decode(statement, &session->arena, run->cycle->payload_max, &row->m, &row->row, &row->over,
                            &row->bad, run->reterr);
    if (rc != PR_OK)
        return rc;
    row->lane = lane_of(row->m.stream, row->m.id);
    session->reply.row_count++;
    *ret = row;
    return PR_OK;
}

/* Up to max rows of a bound statement; *ret_end: there are no more. */
static int rows_take(struct sqlite_cycle *run, sqlite3_stmt *statement, enum row_from from, uint64_t lanes, bool dead,
                     size_t max, bool *ret_end)
{
    size_t count = 0;
    int rc;
    struct row *row;

    *ret_end = true;
    while ((rc = conn_step(run->conn, statement, run->reterr)) > 0) {
        if (lanes != LANES_ALL && (lane_bit(row_lane(statement)) & lanes) == 0)
            continue;
        if (count++ == max) {
            *ret_end = false;
            break;
        }
        rc = row_take(run, statement, from, &row);
        if (rc != PR_OK)
            break;
        row->dead = dead;
    }
    sqlite3_reset(statement);
    return rc < 0 ? rc : PR_OK;
}

/* ---- Fresh -------------------------------------------------------------------------- */

struct fresh_walk {
    size_t rows, bytes; /* what may still be read */
    int64_t at;         /* all rows up to here were seen */
    bool uneven;        /* lanes that were not restarted are further than others */
    bool full;
    struct buf types, destinations; /* of cycle.skips, as arrays */
};

static int64_t lanes_lowest(const struct sqlite_cycle *run)
{
    int64_t low = run->position[0];
    for (unsigned i = 1; i < LANE_COUNT; i++)
        low = min64(low, run->position[i]);
    return low;
}

static bool lanes_uneven(const struct sqlite_cycle *run)
{
    for (unsigned i = 1; i < LANE_COUNT; i++)
        if (run->position[i] != run->position[0])
            return true;
    return false;
}

static void lanes_advance(struct sqlite_cycle *run, int64_t at)
{
    for (unsigned i = 0; i < LANE_COUNT; i++)
        run->position[i] = max64(run->position[i], at);
}

/* An array of the types of skipped rows without a destination, or of the skipped destinations. */
static void write_skips(const struct cycle *c, bool destinations, struct buf *ret)
{
    struct json_writer w;
    json_init(&w, ret);
    json_begin_array(&w);
    for (size_t i = 0; i < c->skip_count; i++)
        if ((c->skips[i].destination.size > 0) == destinations)
            json_slice(&w, destinations ? c->skips[i].destination : c->skips[i].type);
    json_end_array(&w);
}

/* Finds the range of rows of (from, to] that were left out. */
static int note_skipped(struct sqlite_cycle *run, const struct fresh_walk *walk, int64_t from, int64_t to)
{
    struct cycle_reply *reply = &run->session->reply;
    sqlite3_stmt *statement;
    int rc = conn_bind(run->conn, SELECT_SKIPPED, run->session->box,
                       VALUES(V_INT(from), V_INT(to), limit_of(run), V_TEXT(buf_slice(&walk->types)),
                              V_TEXT(buf_slice(&walk->destinations))),
                       &statement, run->reterr);
    if (rc == PR_OK)
        rc = conn_step(run->conn, statement, run->reterr);
    if (rc <= 0)
        return rc;
    if (sqlite3_column_type(statement, 0) != SQLITE_NULL) {
        bool first = reply->skipped.from_seq == reply->skipped.to_seq;
        reply->skipped.from_seq = first ? sqlite3_column_int64(statement, 0) : reply->skipped.from_seq;
        reply->skipped.to_seq = sqlite3_column_int64(statement, 1) + 1;
    }
    sqlite3_reset(statement);
    return PR_OK;
}

/* Reads the fresh rows of (walk->at, to]. */
static int walk_step(struct sqlite_cycle *run, struct fresh_walk *walk, int64_t to)
{
    bool skips = run->cycle->skip_count > 0;
    int64_t from = walk->at;
    sqlite3_stmt *statement;
    struct row *row;
    int rc = skips ? conn_bind(run->conn, SELECT_FRESH_OTHERS, run->session->box,
                               VALUES(V_INT(from), V_INT(to), limit_of(run), V_TEXT(buf_slice(&walk->types)),
                                      V_TEXT(buf_slice(&walk->destinations))),
                               &statement, run->reterr)
                   : conn_bind(run->conn, SELECT_FRESH, run->session->box,
                               VALUES(V_INT(from), V_INT(to), limit_of(run)), &statement, run->reterr);
    if (rc != PR_OK)
        return rc;
    walk->at = to;
    while ((rc = conn_step(run->conn, statement, run->reterr)) > 0) {
        if (walk->uneven && sqlite3_column_int64(statement, 0) <= run->position[row_lane(statement)])
            continue;
        rc = row_take(run, statement, ROW_FRESH, &row);
        if (rc != PR_OK)
            break;
        size_t bytes = message_bytes(&row->m);
        run->session->row_bytes = (run->session->row_bytes * 7 + bytes) / 8;
        walk->rows--;
        walk->bytes -= min_size(bytes, walk->bytes);
        if (walk->rows == 0 || walk->bytes == 0) {
            walk->at = (int64_t)row->row;
            walk->full = true;
            break;
        }
    }
    sqlite3_reset(statement);
    return rc >= 0 && skips ? note_skipped(run, walk, from, walk->at) : rc < 0 ? rc : PR_OK;
}

static int reply_passed(struct sqlite_cycle *run, int64_t at)
{
    int64_t *passed = arena_alloc_array(&run->session->arena, LANE_COUNT, sizeof(passed[0]));
    if (passed == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for a reply");
    for (unsigned i = 0; i < LANE_COUNT; i++)
        passed[i] = at;
    run->session->reply.passed = passed;
    return PR_OK;
}

static int walk_all(struct sqlite_cycle *run, struct fresh_walk *walk)
{
    int64_t last = 0, first = 0, walked = 0;
    int rc = conn_int(run->conn, "SELECT max(row_id) FROM \"{box}\"", run->session->box, NULL, 0, &last, run->reterr);

    while (rc == PR_OK && walk->at < last && !walk->full && walked < WALK_MAX) {
        /* Skips the gap that deleted rows have left. */
        rc = conn_int(run->conn, "SELECT row_id FROM \"{box}\" WHERE row_id > ?1 ORDER BY row_id LIMIT 1",
                      run->session->box, VALUES(V_INT(walk->at)), &first, run->reterr);
        if (rc != PR_OK)
            break;
        walk->at = first - 1;
        rc = walk_step(run, walk, min64(last, walk->at + WALK_STEP));
        walked += WALK_STEP;
    }
    if (rc < 0)
        return rc;
    lanes_advance(run, walk->at);
    run->session->reply.fresh_end = walk->at >= last;
    return run->cycle->skip_count > 0 ? reply_passed(run, walk->at) : PR_OK;
}

static int read_fresh(struct sqlite_cycle *run)
{
    const struct cycle *c = run->cycle;
    struct fresh_walk walk = {
        .rows = c->fresh_rows,
        .bytes = max_size(c->fresh_bytes, 1),
        .at = lanes_lowest(run),
        .uneven = lanes_uneven(run),
    };
    buf_init(&walk.types, SKIPS_BYTES_MAX);
    buf_init(&walk.destinations, SKIPS_BYTES_MAX);
    write_skips(c, false, &walk.types);
    write_skips(c, true, &walk.destinations);
    int rc = buf_failed(&walk.types) != PR_OK || buf_failed(&walk.destinations) != PR_OK
                 ? error_set(run->reterr, PR_ENOMEM, "out of memory for a reply")
                 : walk_all(run, &walk);
    buf_fini(&walk.types);
    buf_fini(&walk.destinations);
    return rc;
}

/* ---- What came back -------------------------------------------------------------------- */

static int read_due(struct sqlite_cycle *run)
{
    const struct cycle *c = run->cycle;
    sqlite3_stmt *statement;
    int rc = conn_bind(run->conn, SELECT_DUE, run->session->box,
                       VALUES(V_INT(run->now_us), V_INT(c->due.after_due_us), V_INT(c->due.after_seq),
                              V_INT(c->due.after_row), V_INT(c->due.rows + 1), limit_of(run)),
                       &statement, run->reterr);
    return rc == PR_OK ? rows_take(run, statement, ROW_DUE, LANES_ALL, false, c->due.rows, &run->session->reply.due_end)
                       : rc;
}

static int read_next_due(struct sqlite_cycle *run)
{
    int rc = conn_int(run->conn,
                      "SELECT due_at FROM \"{box}\" WHERE due_at IS NOT NULL AND held_by IS NULL AND due_at > ?1"
                      " ORDER BY due_at LIMIT 1",
                      run->session->box, VALUES(V_INT(run->now_us)), &run->session->reply.next_due_us, run->reterr);
    return rc < 0 ? rc : PR_OK;
}

/* Fresh rows have seq = row_id. */
static int read_again(struct sqlite_cycle *run)
{
    const struct cycle *c = run->cycle;
    int64_t after = c->reread.from_seq - 1;
    sqlite3_stmt *statement;

    if ((int64_t)c->reread.after_row >= c->reread.from_seq)
        after = c->reread.from_seq; /* the row at from_seq itself was seen */
    int rc = conn_bind(run->conn, SELECT_FRESH, run->session->box,
                       VALUES(V_INT(after), V_INT(c->reread.to_seq - 1), limit_of(run)), &statement, run->reterr);
    return rc == PR_OK ? rows_take(run, statement, ROW_REREAD, LANES_ALL, false, c->reread.rows,
                                   &run->session->reply.reread_end)
                       : rc;
}

static int read_heads(struct sqlite_cycle *run)
{
    const struct cycle *c = run->cycle;
    sqlite3_stmt *statement;
    int rc = conn_bind(run->conn, c->heads_dead ? SELECT_DEAD_HEADS : SELECT_HEADS, run->session->box,
                       VALUES(V_INT(c->heads.after_row)), &statement, run->reterr);
    return rc == PR_OK ? rows_take(run, statement, ROW_HEAD, c->heads.lanes, c->heads_dead, c->heads.rows,
                                   &run->session->reply.heads_end)
                       : rc;
}

/* ---- Held ------------------------------------------------------------------------------ */

/* The next key after this one.  Outcome PR_UNKNOWN: there is none.  *ret_lanes: the lanes of its rows: one for a
 * stream's key, any for an endpoint's. */
static int held_key_next(struct sqlite_cycle *run, pr_slice after, pr_slice *ret_key, uint64_t *ret_lanes)
{
    sqlite3_stmt *statement;
    int rc = conn_bind(run->conn,
                       "SELECT held_by, stream, id, held_for FROM \"{box}\" WHERE held_by IS NOT NULL AND held_by > ?1"
                       " ORDER BY held_by LIMIT 1",
                       run->session->box, VALUES(V_TEXT(after)), &statement, run->reterr);
    if (rc == PR_OK)
        rc = conn_step(run->conn, statement, run->reterr);
    if (rc <= 0)
        return rc < 0 ? rc : PR_UNKNOWN;
    pr_slice key = column_slice(statement, 0), stored = column_slice(statement, 2);
    pr_id id = { { 0 } };
    if (stored.size > 0)
        (void)id_from_stored(stored, &id);
    bool is_endpoints = sqlite3_column_int(statement, 3) == PR_HELD_FOR_ENDPOINT;
    *ret_lanes = is_endpoints ? LANES_ALL : lane_bit(lane_of(column_slice(statement, 1), id));
    *ret_key = slice_dup(&run->session->arena, key);
    sqlite3_reset(statement);
    return ret_key->data != NULL ? PR_OK : error_set(run->reterr, PR_ENOMEM, "out of memory for a key");
}

static int read_held_keys(struct sqlite_cycle *run)
{
    const struct cycle *c = run->cycle;
    struct cycle_reply *reply = &run->session->reply;
    pr_slice key = c->held_keys.after;
    uint64_t lanes;
    int rc;

    reply->held_keys = arena_alloc_array(&run->session->arena, c->held_keys.rows, sizeof(*reply->held_keys));
    if (reply->held_keys == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for %zu keys", c->held_keys.rows);
    while ((rc = held_key_next(run, key, &key, &lanes)) == PR_OK) {
        if ((lanes & c->held_keys.lanes) == 0)
            continue;
        if (reply->held_key_count == c->held_keys.rows)
            break;
        reply->held_keys[reply->held_key_count++] = key;
    }
    reply->held_keys_end = rc == PR_UNKNOWN;
    return rc < 0 ? rc : PR_OK;
}

static int read_held(struct sqlite_cycle *run)
{
    const struct cycle *c = run->cycle;
    for (size_t i = 0; i < c->held_count; i++) {
        const struct held_read *read = &c->held[i];
        sqlite3_stmt *statement;
        int rc = conn_bind(run->conn, SELECT_HELD, run->session->box,
                           VALUES(V_TEXT(read->key), V_INT(read->after_seq), V_INT(read->after_row),
                                  V_INT(read->rows + 1), limit_of(run)),
                           &statement, run->reterr);
        if (rc == PR_OK)
            rc = rows_take(run, statement, ROW_HELD, LANES_ALL, false, read->rows, &run->session->reply.held_end[i]);
        if (rc != PR_OK)
            return rc;
    }
    return PR_OK;
}

/* ---- Everything asked for --------------------------------------------------------------- */

static int reads_prepare(struct sqlite_cycle *run)
{
    const struct cycle *c = run->cycle;
    struct cycle_reply *reply = &run->session->reply;

    reply->held_end = arena_alloc_array(&run->session->arena, c->held_count, sizeof(*reply->held_end));
    if (reply->held_end == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for a reply");
    /* An instance without lanes has reached the end of everything. */
    reply->fresh_end = reply->due_end = reply->reread_end = reply->heads_end = reply->held_keys_end = true;
    for (size_t i = 0; i < c->held_count; i++)
        reply->held_end[i] = true;
    for (unsigned i = 0; i < LANE_COUNT; i++)
        if ((c->restart_lanes & lane_bit(i)) != 0)
            run->position[i] = 0;
    memcpy(run->position_before, run->position, sizeof(run->position_before));
    return PR_OK;
}

int rows_read(struct sqlite_cycle *run)
{
    const struct cycle *c = run->cycle;
    int rc = reads_prepare(run);

    if (rc == PR_OK && run->owner) {
        if (c->fresh_rows > 0)
            rc = read_fresh(run);
        if (rc == PR_OK && c->due.rows > 0)
            rc = read_due(run);
        if (rc == PR_OK && c->reread.rows > 0)
            rc = read_again(run);
        if (rc == PR_OK && c->heads.rows > 0)
            rc = read_heads(run);
        if (rc == PR_OK && c->held_keys.rows > 0)
            rc = read_held_keys(run);
        if (rc == PR_OK)
            rc = read_held(run);
        if (rc == PR_OK)
            rc = read_next_due(run);
    }
    run->session->reply.rows = run->session->rows;
    return rc;
}
