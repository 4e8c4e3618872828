/* The reads of a cycle, except new rows; all of them, and the commit, in one batch. */
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "store/postgres/postgres.h"

#define IN_LANES(mask) "(" mask "::bigint >> b.lane) & 1 = 1"

/* ---- Rows of the reply ------------------------------------------------------------------------ */

bool pg_reply_reserve(struct pg_session *session, size_t more)
{
    struct cycle_reply *reply = &session->reply;
    if (reply->row_count + more <= session->row_capacity)
        return true;
    size_t capacity = max_size(max_size(2 * session->row_capacity, 64), reply->row_count + more);
    struct row *rows = arena_alloc(&session->arena, capacity * sizeof(rows[0]));
    if (rows == NULL)
        return false;
    if (reply->row_count > 0)
        memcpy(rows, reply->rows, reply->row_count * sizeof(rows[0]));
    reply->rows = rows;
    session->row_capacity = capacity;
    return true;
}

static struct row *reply_room(struct pg_session *session)
{
    return pg_reply_reserve(session, 1) ? &session->reply.rows[session->reply.row_count] : NULL;
}

/* A payload of this size was left on the server. */
static size_t over_limit(const struct cycle_run *run, const PGresult *result, int row)
{
    size_t size = pg_message_size(result, row, 1);
    return size > run->cycle->payload_max ? size : 0;
}

/* Columns: row_id, and the columns of a new message. */
int pg_reply_new_row(struct cycle_run *run, const PGresult *result, int row)
{
    struct row *r = reply_room(run->session);
    if (r == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for the rows of a reply");
    *r = (struct row){ .from = ROW_FRESH };
    pg_message_decode_new(result, row, 1, run->link->checks, &r->m, &r->lane, &r->bad);
    r->over = over_limit(run, result, row);
    int64_t place = field_is_null(result, row, 0) ? r->m.seq : field_i64(result, row, 0);
    r->row = (uint64_t)place << HANDLE_LANE_BITS | r->lane;
    run->session->reply.row_count++;
    return PR_OK;
}

int pg_reply_row(struct cycle_run *run, const PGresult *result, int row, enum row_from from)
{
    struct row *r = reply_room(run->session);
    if (r == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for the rows of a reply");
    *r = (struct row){ .row = (uint64_t)field_i64(result, row, 0), .from = from };
    pg_message_decode(result, row, 1, SIZE_MAX, &r->m, &r->lane, &r->bad);
    r->over = over_limit(run, result, row);
    run->session->reply.row_count++;
    return PR_OK;
}

static size_t count_rows(const PGresult *result)
{
    return result != NULL ? (size_t)PQntuples(result) : 0;
}

/* Up to `most` of the first `count` rows; *ret_end: there were no more. */
static int take_rows(struct cycle_run *run, const PGresult *result, size_t count, enum row_from from, size_t most,
                     bool *ret_end)
{
    int rc = PR_OK;
    *ret_end = count <= most;
    for (size_t i = 0; i < min_size(count, most) && rc == PR_OK; i++)
        rc = pg_reply_row(run, result, (int)i, from);
    return rc;
}

static int64_t one_more(size_t rows)
{
    return rows < INT32_MAX ? (int64_t)rows + 1 : INT32_MAX;
}

/* ---- The questions ---------------------------------------------------------------------------- */

#define SELECT_ROW "SELECT " HANDLE " AS handle, "
#define WITH_PAYLOAD MESSAGE_COLUMNS(MESSAGE_PAYLOAD("$1::bigint"))
#define WITHOUT_PAYLOAD MESSAGE_COLUMNS(MESSAGE_NO_PAYLOAD)

/* Due rows, and after them, with the handle 0, the first that will be due. */
static const char DUE[] =
    "(" SELECT_ROW WITH_PAYLOAD " FROM {box} b"
    " WHERE b.due_at <= " NOW(
        "$2") " AND b.held_by IS NULL"
              " AND (b.due_at, b.seq, coalesce(b.row_id, b.seq)) > (coalesce($3::timestamptz, "
              "'-infinity'), $4::bigint, $5::bigint)"
              " AND " IN_LANES("$6") " ORDER BY b.due_at, b.seq, coalesce(b.row_id, b.seq) LIMIT $7::bigint)"
                                     " UNION ALL (SELECT 0, " WITHOUT_PAYLOAD " FROM {box} b WHERE b.due_at > " NOW(
                                         "$2") " AND b.due_at < 'infinity' AND b.held_by IS NULL "
                                               "AND " IN_LANES("$6") " ORDER BY b.due_at LIMIT 1)";

/* Each lane by its own keys, then merged in the order of places. */
/* The first rows of all lanes can all be in one lane, so the limit applies to each: up to 64 times as many as are
 * returned.  So only the nearest places are looked at first ($7), and all of them only if those have none. */
#define REREAD_UPTO(upto)                                                                                              \
    "SELECT f.* FROM unnest($2::smallint[]) AS l(lane) CROSS JOIN LATERAL (" SELECT_ROW WITH_PAYLOAD                   \
    " FROM {box} b WHERE b.lane = l.lane AND b.seq >= $3::bigint AND b.seq < " upto                                    \
    "::bigint AND b.due_at IS NULL AND b.held_by IS NULL AND (b.seq > $3::bigint OR " HANDLE " > $5::bigint)"          \
    " ORDER BY b.seq LIMIT $6::bigint) f"
#define REREAD_ORDER " ORDER BY f.seq, f.handle LIMIT $6::bigint"
static const char REREAD[] = "WITH near AS MATERIALIZED (" REREAD_UPTO("$7") REREAD_ORDER
    ") SELECT * FROM near UNION ALL"
    " (" REREAD_UPTO("$4") " WHERE NOT EXISTS (SELECT FROM near)" REREAD_ORDER ")";
#define NEAR_TIMES 4     /* places for each requested row, */
#define NEAR_PLACES 1000 /* ... plus this number */

static const char HEADS[] = SELECT_ROW WITHOUT_PAYLOAD " FROM {box} b WHERE " MESSAGE_IS_HEAD
                                                       " AND coalesce(b.row_id, b.seq) > $1::bigint AND " IN_LANES(
                                                           "$2") " ORDER BY coalesce(b.row_id, b.seq) LIMIT $3::bigint";

static const char DEAD_HEADS[] =
    "SELECT b.row_id AS handle, " WITHOUT_PAYLOAD " FROM {schema}.dead_letter b"
    " WHERE b.box = $4 AND b.row_id > $1::bigint AND b.stream <> '' AND b.edited_as IS NULL AND " IN_LANES(
        "$2") " ORDER BY b.row_id LIMIT $3::bigint";

static const char HELD_KEYS[] =
    "WITH RECURSIVE k(key) AS ("
    "(SELECT b.held_by FROM {box} b WHERE b.held_by > $1 AND " IN_LANES(
        "$2") " ORDER BY b.held_by LIMIT 1)"
              " UNION ALL SELECT (SELECT b.held_by FROM {box} b WHERE b.held_by > k.key AND " IN_LANES(
                  "$2") " ORDER BY b.held_by LIMIT 1) FROM k WHERE k.key IS NOT NULL)"
                        " SELECT key FROM k WHERE key IS NOT NULL LIMIT $3::bigint";

static const char HELD[] =
    SELECT_ROW WITH_PAYLOAD " FROM {box} b WHERE b.held_by = $2"
                            " AND (b.seq, coalesce(b.row_id, b.seq)) > ($3::bigint, $4::bigint) AND " IN_LANES(
                                "$5") " ORDER BY b.seq, coalesce(b.row_id, b.seq) LIMIT $6::bigint";

#define COLUMN_DUE (1 + MESSAGE_COLUMN_DUE) /* after the handle */
#define HELD_AT_ONCE 64                     /* statements in one batch */

struct reads {
    PGresult *due, *reread, *heads, *held_keys, *endpoints, *sweep, *evidence, *marks, *gone;
    PGresult **held;
};

static uint64_t place_of(uint64_t handle)
{
    return handle >> HANDLE_LANE_BITS;
}

static void add_due(struct cycle_run *run, struct reads *reads)
{
    const struct cycle *c = run->cycle;
    const struct pg_session *s = run->session;
    struct args args = { .count = 0 };
    arg_i64(&args, (int64_t)min_size(c->payload_max, INT64_MAX));
    arg_time(&args, pg_store_wall_us(s->store));
    arg_time(&args, c->due.after_due_us);
    arg_i64(&args, c->due.after_seq);
    arg_i64(&args, (int64_t)place_of(c->due.after_row));
    arg_i64(&args, (int64_t)run->lanes);
    arg_i64(&args, c->due.rows > 0 ? one_more(c->due.rows) : 0);
    link_add(run->link, DUE, s->box, &args, &reads->due);
}

static int64_t near_end(const struct cycle *c)
{
    int64_t places = NEAR_PLACES + NEAR_TIMES * (int64_t)min_size(c->reread.rows, INT32_MAX);
    return min64(c->reread.to_seq, time_add(c->reread.from_seq, places));
}

/* If something was found nearby, more may follow. */
static void judge_reread(const struct cycle *c, size_t found, struct cycle_reply *reply)
{
    if (found > 0 && near_end(c) < c->reread.to_seq)
        reply->reread_end = false;
}

static void add_reread(struct cycle_run *run, struct reads *reads)
{
    const struct cycle *c = run->cycle;
    struct array *lanes = &run->session->arrays[0];
    struct args args = { .count = 0 };
    array_begin(lanes, OID_INT2);
    for (unsigned i = 0; i < LANE_COUNT; i++)
        if (run->lanes & lane_bit(i))
            array_i16(lanes, (int)i);
    arg_i64(&args, (int64_t)min_size(c->payload_max, INT64_MAX));
    arg_array(&args, lanes);
    arg_i64(&args, c->reread.from_seq);
    arg_i64(&args, c->reread.to_seq);
    arg_i64(&args, (int64_t)c->reread.after_row);
    arg_i64(&args, one_more(c->reread.rows));
    arg_i64(&args, near_end(c));
    link_add(run->link, REREAD, run->session->box, &args, &reads->reread);
}

static void add_heads(struct cycle_run *run, struct reads *reads)
{
    const struct cycle *c = run->cycle;
    struct args args = { .count = 0 };
    arg_i64(&args, (int64_t)(c->heads_dead ? c->heads.after_row : place_of(c->heads.after_row)));
    arg_i64(&args, (int64_t)(run->lanes & c->heads.lanes));
    arg_i64(&args, one_more(c->heads.rows));
    if (c->heads_dead)
        arg_text(&args, run->session->box);
    link_add(run->link, c->heads_dead ? DEAD_HEADS : HEADS, run->session->box, &args, &reads->heads);
}

static void add_held_keys(struct cycle_run *run, struct reads *reads)
{
    const struct cycle *c = run->cycle;
    struct args args = { .count = 0 };
    arg_text(&args, c->held_keys.after);
    arg_i64(&args, (int64_t)(run->lanes & c->held_keys.lanes));
    arg_i64(&args, one_more(c->held_keys.rows));
    link_add(run->link, HELD_KEYS, run->session->box, &args, &reads->held_keys);
}

static void add_held(struct cycle_run *run, const struct held_read *held, PGresult **ret)
{
    struct args args = { .count = 0 };
    arg_i64(&args, (int64_t)min_size(run->cycle->payload_max, INT64_MAX));
    arg_text(&args, held->key);
    arg_i64(&args, held->after_seq);
    arg_i64(&args, (int64_t)place_of(held->after_row));
    arg_i64(&args, (int64_t)run->lanes);
    arg_i64(&args, one_more(held->rows));
    link_add(run->link, HELD, run->session->box, &args, ret);
}

static int reads_add(struct cycle_run *run, struct reads *reads)
{
    const struct cycle *c = run->cycle;
    struct arena *arena = &run->session->arena;
    reads->held = arena_alloc_array(arena, c->held_count, sizeof(reads->held[0]));
    run->session->reply.held_end = arena_alloc_array(arena, c->held_count, sizeof(bool));
    run->fresh = pg_fresh_add(run);
    if (reads->held == NULL || run->session->reply.held_end == NULL || run->fresh == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for the reads of a cycle");
    if (run->lanes != 0) {
        add_due(run, reads);
        pg_sweep_add(run, &reads->sweep);
        if (c->reread.rows > 0)
            add_reread(run, reads);
        if (c->heads.rows > 0)
            add_heads(run, reads);
        if (c->held_keys.rows > 0)
            add_held_keys(run, reads);
    }
    if (run->session->reply.endpoints_known)
        link_add(run->link, PG_ENDPOINTS, NO_BOX, NULL, &reads->endpoints);
    if (c->evidence_count > 0)
        pg_evidence_ask(run, &reads->evidence);
    if (c->mark_count > 0)
        pg_marks_ask(run, &reads->marks);
    if (c->alive_count > 0)
        pg_gone_ask(run, &reads->gone);
    int rc = PR_OK;
    for (size_t i = 0; i < c->held_count && run->lanes != 0 && rc == PR_OK; i++) {
        add_held(run, &c->held[i], &reads->held[i]);
        if ((i + 1) % HELD_AT_ONCE == 0)
            rc = link_run(run->link, run->reterr);
    }
    return rc;
}

/* ---- The answers ------------------------------------------------------------------------------ */

static int take_due(struct cycle_run *run, const PGresult *result)
{
    struct cycle_reply *reply = &run->session->reply;
    int count = result != NULL ? PQntuples(result) : 0;
    if (count > 0 && field_i64(result, count - 1, 0) == 0)
        reply->next_due_us = field_time(result, --count, COLUMN_DUE);
    return take_rows(run, result, (size_t)count, ROW_DUE, run->cycle->due.rows, &reply->due_end);
}

static int take_heads(struct cycle_run *run, const PGresult *result)
{
    struct cycle_reply *reply = &run->session->reply;
    size_t first = reply->row_count;
    int rc = take_rows(run, result, count_rows(result), ROW_HEAD, run->cycle->heads.rows, &reply->heads_end);
    for (size_t i = first; i < reply->row_count; i++)
        reply->rows[i].dead = run->cycle->heads_dead;
    return rc;
}

static int take_held_keys(struct cycle_run *run, const PGresult *result)
{
    struct cycle_reply *reply = &run->session->reply;
    size_t count = count_rows(result);
    reply->held_keys_end = count <= run->cycle->held_keys.rows;
    reply->held_key_count = min_size(count, run->cycle->held_keys.rows);
    reply->held_keys = arena_alloc_array(&run->session->arena, reply->held_key_count, sizeof(reply->held_keys[0]));
    if (reply->held_keys == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for keys");
    for (size_t i = 0; i < reply->held_key_count; i++)
        reply->held_keys[i] = field_slice(result, (int)i, 0);
    return PR_OK;
}

static int reads_take(struct cycle_run *run, struct reads *reads)
{
    const struct cycle *c = run->cycle;
    struct cycle_reply *reply = &run->session->reply;
    int rc = c->fresh_rows > 0 ? pg_fresh_take(run->fresh) : PR_OK;
    if (rc == PR_OK && reads->sweep != NULL)
        rc = pg_sweep_take(run, reads->sweep);
    if (rc == PR_OK)
        rc = take_due(run, reads->due);
    if (rc == PR_OK && c->reread.rows > 0)
        rc = take_rows(run, reads->reread, count_rows(reads->reread), ROW_REREAD, c->reread.rows, &reply->reread_end);
    if (rc == PR_OK && c->reread.rows > 0)
        judge_reread(c, count_rows(reads->reread), reply);
    if (rc == PR_OK && c->heads.rows > 0)
        rc = take_heads(run, reads->heads);
    if (rc == PR_OK && c->held_keys.rows > 0)
        rc = take_held_keys(run, reads->held_keys);
    for (size_t i = 0; i < c->held_count && rc == PR_OK; i++)
        rc = take_rows(run, reads->held[i], count_rows(reads->held[i]), ROW_HELD, c->held[i].rows, &reply->held_end[i]);
    if (rc == PR_OK && reads->endpoints != NULL)
        rc = pg_endpoints_take(reads->endpoints, &run->session->arena, &reply->endpoints, &reply->endpoint_count,
                               run->reterr);
    if (rc == PR_OK && reads->evidence != NULL)
        rc = pg_evidence_take(run, reads->evidence);
    if (rc == PR_OK && reads->marks != NULL)
        rc = pg_marks_take(run, reads->marks);
    if (rc == PR_OK && reads->gone != NULL)
        rc = pg_gone_take(run, reads->gone);
    return rc;
}

/* Sends everything; rows that have arrived are put into the reply while the server works. */
static int reads_commit(struct cycle_run *run)
{
    link_add_commit(run->link);
    int rc = link_send(run->link, run->reterr);
    if (rc != PR_OK)
        return rc;
    pg_fresh_prepare(run->fresh);
    return link_take(run->link, run->reterr);
}

int pg_reads_run(struct cycle_run *run)
{
    struct reads reads = { .due = NULL };
    int rc = reads_add(run, &reads);
    if (rc == PR_OK)
        rc = reads_commit(run);
    if (rc == PR_OK && run->written != NULL && PQntuples(run->written) == 0)
        rc = error_set(run->reterr, PR_ELEASE,
                       "the lease of this instance is over and its lanes were taken: join again");
    if (rc == PR_OK) {
        rc = run->one_batch ? pg_cycle_take_one_batch(run) : PR_OK;
        if (rc == PR_OK)
            rc = reads_take(run, &reads);
        if (rc == PR_OK)
            rc = pg_loads_read(run);
        pg_wait_remember(run);
        if (rc != PR_OK) { /* the changes are made; when asked again, it only reads */
            run->session->uncertain = run->cycle->number;
            rc = error_set(run->reterr, PR_EUNCERTAIN, "the cycle was committed, but its answer was lost");
        }
    }
    return rc;
}
