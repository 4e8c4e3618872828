/* verdict.c - what a cycle changes: verdicts, effects, receipts, tallies.
 *
 * Every verdict finds its row first, by row and id, to tell "gone" from "judged meanwhile".
 * Those that end their row are done all together. */
#include <limits.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/slice.h"
#include "core/id.h"
#include "core/story.h"
#include "store/sqlite/message.h"
#include "store/sqlite/sqlite.h"

#define EDGE_BYTES 1800               /* between a third and a half of a page */
#define ROW_EXTRA_BYTES 60            /* of a row beside its texts and payload */
#define RECEIPT_BYTES_MAX (16u << 20) /* about 500,000 entries */
#define RUN_LEAST 8                   /* rows that follow on each other, on average, to be deleted so */
#define NOT_ANSWERED INT_MIN

/* A thousand of them in a cycle: printf would show in a profile. */
static void buf_add_number(struct buf *b, uint64_t number)
{
    char text[20];
    char *at = text + sizeof(text);
    do
        *--at = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    buf_add(b, at, (size_t)(text + sizeof(text) - at));
}

/* ---- One row ----------------------------------------------------------------------- */

struct found {
    int attempts;
    bool released, parked;
    bool is_own_destination; /* one of the verdict's destinations is the row's own */
};

static bool is_among(pr_slice destination, const struct verdict *v)
{
    for (size_t i = 0; i < v->destination_count; i++)
        if (slice_eq(destination, v->destinations[i]))
            return true;
    return false;
}

/* Outcome PR_UNKNOWN: no such row with this id.  The id of a damaged row is zero. */
static int row_find(struct cycle_run *run, const struct verdict *v, struct found *ret)
{
    sqlite3_stmt *statement;
    int rc = conn_bind(run->conn, "SELECT id, attempts, released, destination, due_at FROM \"{box}\" WHERE row_id = ?1",
                       run->session->box, VALUES(V_INT(v->row)), &statement, run->reterr);
    if (rc == PR_OK)
        rc = conn_step(run->conn, statement, run->reterr);
    if (rc <= 0)
        return rc < 0 ? rc : PR_UNKNOWN;

    pr_slice stored = column_slice(statement, 0);
    pr_id id = { { 0 } };
    if (stored.size > 0)
        (void)id_from_stored(stored, &id);
    bool same = pr_id_equal(id, v->id);
    ret->attempts = sqlite3_column_int(statement, 1);
    ret->released = sqlite3_column_int(statement, 2) != 0;
    ret->parked = sqlite3_column_int64(statement, 4) == PR_NEVER;
    ret->is_own_destination = is_among(column_slice(statement, 3), v);
    sqlite3_reset(statement);
    return same ? PR_OK : PR_UNKNOWN;
}

static int row_delete(struct cycle_run *run, uint64_t row)
{
    return conn_do(run->conn, "DELETE FROM \"{box}\" WHERE row_id = ?1", run->session->box, VALUES(V_INT(row)), NULL,
                   run->reterr);
}

/* ---- Verdicts ------------------------------------------------------------------------ */

static int keep_done(struct cycle_run *run, const struct verdict *v)
{
    return conn_do(run->conn,
                   "INSERT INTO postrider_done (box, destination, seq, due_at, status, attempts, failures, "
                   "failure_reason, code, error,"
                   " failed_at, story, held_by, released, endpoint, done_at, keep_until, " MESSAGE_MOVED ")"
                   " SELECT '{box}', destination, seq, due_at, status | ?2, max(attempts, ?3), failures, "
                   "failure_reason, code,"
                   " error, failed_at, coalesce(?4, story), NULL, released, iif(?5 = '', destination, ?5), ?6, "
                   "?7, " MESSAGE_MOVED " FROM \"{box}\" WHERE row_id = ?1",
                   run->session->box,
                   VALUES(V_INT(v->row), V_INT(v->bits), V_INT(v->number), V_TEXT_OR_NULL(v->story),
                          V_TEXT(v->endpoint), V_INT(run->now_us), V_INT(time_add(run->now_us, run->cycle->keep_us))),
                   NULL, run->reterr);
}

static int end_row(struct cycle_run *run, const struct verdict *v)
{
    bool keep = v->kind == VERDICT_COMPLETE && run->cycle->keep_us > 0;
    int rc = keep ? keep_done(run, v) : PR_OK;
    return rc == PR_OK ? row_delete(run, v->row) : rc;
}

/* What was parked while it was out stays so. */
#define DUE(number, due) "iif(due_at = 9223372036854775807 AND " number " > 0, due_at, " due ")"

/* FAIL, POSTPONE, PARK with a reason: it comes back, and it was a failure; counted when it was handed out, and not postponed. */
static int write_failure(struct cycle_run *run, const struct verdict *v, int64_t due_us)
{
    int reason = v->reason != PR_REASON_NONE ? v->reason : PR_REASON_UNKNOWN; /* D5 */
    return conn_do(run->conn,
                   "UPDATE \"{box}\" SET attempts = max(attempts, ?10), failures = failures + (?10 > 0), status "
                   "= status | ?3 | 32768,"
                   " failure_reason = ?4, code = ?5, error = ?6, failed_at = ?7, due_at = " DUE(
                       "?2", "?8") ", held_by = NULL,"
                                   " story = coalesce(?9, story) WHERE row_id = ?1",
                   run->session->box,
                   VALUES(V_INT(v->row), V_INT(v->number), V_INT(v->bits), V_INT(reason), V_TEXT_OR_NULL(v->code),
                          V_TEXT_OR_NULL(v->error), V_INT(run->now_us), V_INT(due_us), V_TEXT_OR_NULL(v->story),
                          V_INT(v->kind == VERDICT_POSTPONE ? 0 : v->number)),
                   NULL, run->reterr);
}

/* ABANDON, PARK without a reason: it comes back, and nobody failed. */
static int write_comeback(struct cycle_run *run, const struct verdict *v, int64_t due_us)
{
    return conn_do(run->conn,
                   "UPDATE \"{box}\" SET attempts = max(attempts, ?2), status = status | ?3, due_at = " DUE(
                       "?2", "?4") ", held_by = NULL,"
                                   " story = coalesce(?5, story) WHERE row_id = ?1",
                   run->session->box,
                   VALUES(V_INT(v->row), V_INT(v->number), V_INT(v->bits), V_INT(due_us), V_TEXT_OR_NULL(v->story)),
                   NULL, run->reterr);
}

static int write_release(struct cycle_run *run, const struct verdict *v)
{
    return conn_do(run->conn,
                   "UPDATE \"{box}\" SET released = 1, held_by = NULL, due_at = " DUE(
                       "?4", "?2") ", story = coalesce(?3, story) WHERE row_id = ?1",
                   run->session->box,
                   VALUES(V_INT(v->row), V_INT(run->now_us), V_TEXT_OR_NULL(v->story), V_INT(v->number)), NULL,
                   run->reterr);
}

static int write_hold(struct cycle_run *run, const struct verdict *v)
{
    return conn_do(run->conn, "UPDATE \"{box}\" SET held_by = ?2, status = status | ?3 WHERE row_id = ?1",
                   run->session->box, VALUES(V_INT(v->row), V_TEXT(v->held_by), V_INT(v->bits)), NULL, run->reterr);
}

static int move_dead(struct cycle_run *run, const struct verdict *v)
{
    bool real = v->reason != PR_REASON_NONE; /* the latest real failure stays (D6) */
    int rc = conn_do(
        run->conn,
        "INSERT INTO postrider_dead_letter (box, destination, seq, due_at, status, attempts, failures, failure_reason,"
        " code, error, failed_at, story, held_by, released, endpoint, cause, limit_reached, rule,"
        " fingerprint, died_at, " MESSAGE_MOVED ")"
        " SELECT '{box}', destination, seq, due_at, status | ?2 | 32768, max(attempts, ?3), failures + ?4,"
        " iif(?5, ?6, failure_reason), iif(?5, ?7, code), iif(?5, ?8, error), iif(?4, ?9, failed_at),"
        " coalesce(?10, story), NULL, released, iif(?11 = '', destination, ?11), ?12, ?13, ?14, ?15, "
        "?9, " MESSAGE_MOVED " FROM \"{box}\" WHERE row_id = ?1",
        run->session->box,
        VALUES(V_INT(v->row), V_INT(v->bits), V_INT(v->number), V_INT(v->counted), V_INT(real), V_INT(v->reason),
               V_TEXT_OR_NULL(v->code), V_TEXT_OR_NULL(v->error), V_INT(run->now_us), V_TEXT_OR_NULL(v->story),
               V_TEXT(v->endpoint), V_INT(v->cause), V_INT(v->limit), V_TEXT(v->rule),
               V_TEXT(slice_from(v->fingerprint))),
        NULL, run->reterr);
    FAILPOINT("store.dead_letter.copied");
    return rc == PR_OK ? row_delete(run, v->row) : rc;
}

/* The row as it is, whatever its columns hold; the caller resets the statement. */
static int split_read(struct cycle_run *run, const struct verdict *v, sqlite3_stmt **ret)
{
    int rc =
        conn_bind(run->conn, "SELECT seq, status, story, released, " MESSAGE_MOVED " FROM \"{box}\" WHERE row_id = ?1",
                  run->session->box, VALUES(V_INT(v->row)), ret, run->reterr);
    if (rc == PR_OK)
        rc = conn_step(run->conn, *ret, run->reterr);
    ASSERT(rc != 0); /* it was found */
    return rc < 0 ? rc : PR_OK;
}

/* A copy for one destination; one that has this id already, or had it and lost it to the dead
 * letters, keeps what it has (0). */
static int split_insert(struct cycle_run *run, sqlite3_stmt *row, pr_slice destination, pr_slice holder,
                        uint64_t *ret_row)
{
    sqlite3_stmt *insert;
    int64_t dead = 0;
    const int id_column = 4;
    pr_slice id = column_slice(row, id_column);
    bool text = sqlite3_column_type(row, id_column) == SQLITE_TEXT;
    int rc = conn_int(
        run->conn,
        "SELECT 1 FROM postrider_dead_letter INDEXED BY postrider_dead_letter_id WHERE id = ?1 AND destination = ?2"
        " AND box = '{box}'",
        run->session->box, VALUES(text ? V_TEXT(id) : V_BLOB(id), V_TEXT(destination)), &dead, run->reterr);
    *ret_row = 0;
    if (rc != PR_UNKNOWN)
        return rc;
    /* Not INSERT ... SELECT: reading its own table it would go through a temporary one. */
    rc = conn_bind(
        run->conn,
        "INSERT INTO \"{box}\" (destination, held_by, split_seq, status, story, released, " MESSAGE_MOVED ") VALUES"
        " (?1, coalesce(?2, ?1 || '/'), ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,"
        " ?19, ?20, ?21) ON CONFLICT (id, destination) DO NOTHING",
        run->session->box, VALUES(V_TEXT(destination), V_TEXT_OR_NULL(holder)), &insert, run->reterr);
    for (int i = 0; rc == PR_OK && i < sqlite3_column_count(row); i++)
        if (sqlite3_bind_value(insert, i + 3, sqlite3_column_value(row, i)) != SQLITE_OK)
            rc = error_set(run->reterr, PR_ENOMEM, "no memory for a row");
    if (rc == PR_OK)
        rc = conn_step(run->conn, insert, run->reterr);
    if (rc == PR_OK && sqlite3_changes(run->conn->db) > 0)
        *ret_row = (uint64_t)sqlite3_last_insert_rowid(run->conn->db);
    return rc;
}

/* One row per destination, then the row itself goes. */
static int split_rows(struct cycle_run *run, const struct verdict *v, const struct found *found, uint64_t *ret_rows)
{
    sqlite3_stmt *row = NULL;
    int rc = PR_OK;
    if (found->is_own_destination) /* out of the way of its own successor */
        rc = conn_do(run->conn, "UPDATE \"{box}\" SET destination = char(0) || row_id WHERE row_id = ?1",
                     run->session->box, VALUES(V_INT(v->row)), NULL, run->reterr);
    if (rc == PR_OK)
        rc = split_read(run, v, &row);
    for (size_t i = 0; i < v->destination_count && rc == PR_OK; i++)
        rc = split_insert(run, row, v->destinations[i], v->holders != NULL ? v->holders[i] : (pr_slice){ NULL, 0 },
                          &ret_rows[i]);
    sqlite3_reset(row);
    return rc == PR_OK ? row_delete(run, v->row) : rc;
}

/* A parked row.  PR_OK: for want of an endpoint; PR_STALE: it waits for a person. */
static int row_awaits_route(struct cycle_run *run, uint64_t row)
{
    sqlite3_stmt *statement;
    int rc = conn_bind(run->conn, "SELECT failure_reason, story FROM \"{box}\" WHERE row_id = ?1", run->session->box,
                       VALUES(V_INT(row)), &statement, run->reterr);
    if (rc == PR_OK)
        rc = conn_step(run->conn, statement, run->reterr);
    if (rc <= 0)
        return rc < 0 ? rc : PR_UNKNOWN;
    const struct pr_message m = { .due_us = PR_NEVER,
                                  .reason = sqlite3_column_int(statement, 0),
                                  .story = column_slice(statement, 1) };
    rc = message_awaits_route(&m) ? PR_OK : PR_STALE;
    sqlite3_reset(statement);
    return rc;
}

/* PR_OK, PR_UNKNOWN, PR_STALE: the answer; or a fault. */
static int verdict_apply(struct cycle_run *run, const struct verdict *v, uint64_t *ret_rows)
{
    struct found found;
    int64_t due_us = max64(1, time_add(run->now_us, v->delay_us)); /* 0 would be fresh */

    int rc = row_find(run, v, &found);
    if (rc != PR_OK)
        return rc;
    if (verdict_compares(v->kind) && v->number > 0 && found.attempts != v->number - 1)
        return PR_STALE;
    if (found.parked && verdict_parks_unsent(v)) /* by an operator, meanwhile */
        return PR_STALE;
    if (found.parked && verdict_unparks(v))
        rc = row_awaits_route(run, v->row);
    if (rc != PR_OK)
        return rc;
    switch (v->kind) {
    case VERDICT_COMPLETE:
    case VERDICT_DISCARD:
    case VERDICT_EXPIRE: return end_row(run, v);
    case VERDICT_FAIL:
    case VERDICT_POSTPONE: return write_failure(run, v, due_us);
    case VERDICT_ABANDON: return write_comeback(run, v, due_us);
    case VERDICT_PARK:
        return v->reason != PR_REASON_NONE ? write_failure(run, v, PR_NEVER) : write_comeback(run, v, PR_NEVER);
    case VERDICT_RETURN: return PR_OK;
    case VERDICT_RELEASE: return write_release(run, v);
    case VERDICT_HOLD: /* an operator may have released or parked it meanwhile */
        return found.released || found.parked ? PR_STALE : write_hold(run, v);
    case VERDICT_DEAD_LETTER: return move_dead(run, v);
    case VERDICT_SPLIT: return split_rows(run, v, &found, ret_rows);
    }
    return error_set(run->reterr, PR_EINVAL, "there is no verdict of kind %d", (int)v->kind);
}

static int effects_apply(struct cycle_run *run)
{
    const struct cycle *c = run->cycle;
    for (size_t i = 0; i < c->effect_count; i++) {
        const struct effect *e = &c->effects[i];
        if (e->verdict != EFFECT_ALWAYS && run->session->reply.answers[e->verdict] != PR_OK)
            continue;
        if (!name_is_valid(e->box))
            return error_set(run->reterr, PR_EINVAL, "\"%.*s\" is not the name of a box", SLICE_ARGS(e->box));
        int rc = message_insert(run->conn, e->box, e->message, run->now_us, run->reterr);
        if (rc < 0)
            return rc;
    }
    return PR_OK;
}

/* ---- The usual end, for all that end so ---------------------------------------------------- */

/* Most verdicts delete their row.  One statement for all of them opens the table and its indexes
 * once, and not once for each. */
struct ending {
    uint64_t row;
    size_t verdict; /* index */
};

static int ending_compare(const void *a, const void *b)
{
    const struct ending *x = a, *y = b;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return x->verdict < y->verdict ? -1 : x->verdict > y->verdict;
}

static bool is_ending(const struct cycle *c, const struct verdict *v)
{
    return (v->kind == VERDICT_DISCARD && v->number == 0) || v->kind == VERDICT_EXPIRE ||
           (v->kind == VERDICT_COMPLETE && c->keep_us <= 0);
}

/* Those that end a row which has no other verdict in this cycle, by row. */
static int endings_collect(struct cycle_run *run, struct ending **ret, size_t *ret_count)
{
    const struct cycle *c = run->cycle;
    struct ending *all = arena_alloc_array(&run->session->arena, c->verdict_count, sizeof(*all));
    size_t count = 0;
    if (all == NULL)
        return error_set(run->reterr, PR_ENOMEM, "no memory for %zu verdicts", c->verdict_count);
    bool sorted = true; /* most endpoints answer in order */
    for (size_t i = 0; i < c->verdict_count; i++) {
        all[i] = (struct ending){ .row = c->verdicts[i].row, .verdict = i };
        sorted = sorted && (i == 0 || all[i - 1].row <= all[i].row);
    }
    if (!sorted)
        qsort(all, c->verdict_count, sizeof(*all), ending_compare);
    for (size_t i = 0, next; i < c->verdict_count; i = next) {
        for (next = i + 1; next < c->verdict_count && all[next].row == all[i].row;)
            next++;
        if (next == i + 1 && is_ending(c, &c->verdicts[all[i].verdict]))
            all[count++] = all[i];
    }
    *ret = all;
    *ret_count = count;
    return PR_OK;
}

/* [12,13,...] */
static void endings_rows(struct buf *b, const struct ending *endings, size_t count)
{
    buf_reset(b);
    buf_add_char(b, '[');
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_add_char(b, ',');
        buf_add_number(b, endings[i].row);
    }
    buf_add_char(b, ']');
}

/* Behind the last of those that follow on each other without a gap. */
static size_t endings_run_end(const struct ending *endings, size_t from, size_t count)
{
    size_t end = from + 1;
    while (end < count && endings[end].row == endings[end - 1].row + 1)
        end++;
    return end;
}

/* Are there few such runs?  Then each has a statement of its own, which walks along the table: a list goes through a
 * temporary table, and each of its rows is looked for from the root. */
static bool endings_are_runs(const struct ending *endings, size_t count)
{
    size_t runs = 0;
    for (size_t at = 0; at < count; at = endings_run_end(endings, at, count))
        runs++;
    return runs <= 1 + count / RUN_LEAST;
}

/* Is it there with the right id?  Those that are come first, *ret_count of them. */
static void ending_found(struct cycle_run *run, struct ending *endings, size_t at, pr_slice stored, size_t *ret_count)
{
    pr_id id = { { 0 } };
    if (stored.size > 0)
        (void)id_from_stored(stored, &id);
    if (!pr_id_equal(id, run->cycle->verdicts[endings[at].verdict].id))
        return;
    run->session->reply.answers[endings[at].verdict] = PR_OK;
    endings[(*ret_count)++] = endings[at]; /* never behind `at` */
}

static int endings_find_run(struct cycle_run *run, struct ending *endings, size_t from, size_t end, size_t *ret_count)
{
    const uint64_t first = endings[from].row, last = endings[end - 1].row;
    sqlite3_stmt *statement;
    int rc = conn_bind(run->conn, "SELECT row_id, id FROM \"{box}\" WHERE row_id BETWEEN ?1 AND ?2", run->session->box,
                       VALUES(V_INT(first), V_INT(last)), &statement, run->reterr);
    while (rc >= 0 && (rc = conn_step(run->conn, statement, run->reterr)) > 0)
        ending_found(run, endings, from + ((uint64_t)sqlite3_column_int64(statement, 0) - first),
                     column_slice(statement, 1), ret_count);
    return rc;
}

static int endings_find_list(struct cycle_run *run, struct ending *endings, struct buf *rows, size_t count,
                             size_t *ret_count)
{
    sqlite3_stmt *statement;
    endings_rows(rows, endings, count);
    int rc = buf_failed(rows);
    if (rc != PR_OK)
        return error_set(run->reterr, rc, "%zu verdicts are too many for one cycle", count);
    rc = conn_bind(run->conn, "SELECT j.key, b.id FROM json_each(?1) j CROSS JOIN \"{box}\" b ON b.row_id = j.value",
                   run->session->box, VALUES(V_TEXT(buf_slice(rows))), &statement, run->reterr);
    while (rc >= 0 && (rc = conn_step(run->conn, statement, run->reterr)) > 0)
        ending_found(run, endings, (size_t)sqlite3_column_int64(statement, 0), column_slice(statement, 1), ret_count);
    return rc;
}

static int endings_find(struct cycle_run *run, struct ending *endings, struct buf *rows, size_t count,
                        size_t *ret_count)
{
    int rc = PR_OK;
    *ret_count = 0;
    if (!endings_are_runs(endings, count))
        return endings_find_list(run, endings, rows, count, ret_count);
    for (size_t at = 0, end; at < count && rc == PR_OK; at = end) {
        end = endings_run_end(endings, at, count);
        rc = endings_find_run(run, endings, at, end, ret_count);
    }
    return rc;
}

static int endings_delete_list(struct cycle_run *run, struct buf *rows, const struct ending *endings, size_t count)
{
    endings_rows(rows, endings, count);
    int rc = buf_failed(rows);
    if (rc != PR_OK)
        return error_set(run->reterr, rc, "%zu verdicts are too many for one cycle", count);
    return conn_do(run->conn, "DELETE FROM \"{box}\" WHERE row_id IN (SELECT value FROM json_each(?1))",
                   run->session->box, VALUES(V_TEXT(buf_slice(rows))), NULL, run->reterr);
}

static int endings_delete(struct cycle_run *run, struct buf *rows, const struct ending *endings, size_t count)
{
    int rc = PR_OK;
    if (!endings_are_runs(endings, count))
        return endings_delete_list(run, rows, endings, count);
    for (size_t at = 0, end; at < count && rc == PR_OK; at = end) {
        end = endings_run_end(endings, at, count);
        rc = conn_do(run->conn, "DELETE FROM \"{box}\" WHERE row_id BETWEEN ?1 AND ?2", run->session->box,
                     VALUES(V_INT(endings[at].row), V_INT(endings[end - 1].row)), NULL, run->reterr);
    }
    return rc;
}

/* How many of the first rows are to be deleted last.  A page of which less than a third is used
 * SQLite fills up from its two neighbours.  When all three fit into two pages, the third is freed
 * untouched; otherwise all three are written, and so every page of the table goes through the
 * log.  They fit when the left one is about half empty: so we keep it there until the end.  That
 * is a tenth of the log for messages of 500 bytes; for large ones it makes no difference. */
static size_t endings_edge(const struct session *session)
{
    size_t row_bytes = session->row_bytes + ROW_EXTRA_BYTES;
    return (EDGE_BYTES + row_bytes / 2) / row_bytes;
}

static int endings_apply(struct cycle_run *run, struct ending *endings, size_t count)
{
    struct buf rows;
    size_t there = 0;

    buf_init(&rows, RECEIPT_BYTES_MAX);
    int rc = endings_find(run, endings, &rows, count, &there);
    size_t edge = min_size(there, endings_edge(run->session));
    if (rc == PR_OK)
        rc = endings_delete(run, &rows, endings + edge, there - edge);
    if (rc == PR_OK)
        rc = endings_delete(run, &rows, endings, edge);
    buf_fini(&rows);
    return rc;
}

static int endings_run(struct cycle_run *run)
{
    int *answers = run->session->reply.answers;
    struct ending *endings = NULL;
    size_t count = 0;
    int rc = endings_collect(run, &endings, &count);
    for (size_t i = 0; rc == PR_OK && i < count; i++)
        answers[endings[i].verdict] = PR_UNKNOWN; /* unless it is found */
    return rc == PR_OK && count > 0 ? endings_apply(run, endings, count) : rc;
}

int verdicts_apply(struct cycle_run *run)
{
    const struct cycle *c = run->cycle;
    struct cycle_reply *reply = &run->session->reply;
    size_t split_count = 0;

    for (size_t i = 0; i < c->verdict_count; i++)
        split_count += c->verdicts[i].kind == VERDICT_SPLIT ? c->verdicts[i].destination_count : 0;
    reply->answers = arena_alloc_array(&run->session->arena, c->verdict_count, sizeof(*reply->answers));
    reply->split_rows = arena_alloc_array(&run->session->arena, split_count, sizeof(*reply->split_rows));
    if (reply->answers == NULL || reply->split_rows == NULL)
        return error_set(run->reterr, PR_ENOMEM, "no memory for a reply");

    for (size_t i = 0; i < c->verdict_count; i++)
        reply->answers[i] = NOT_ANSWERED;
    int rc = endings_run(run);
    uint64_t *rows = reply->split_rows;
    for (size_t i = 0; i < c->verdict_count && rc == PR_OK; i++) {
        const struct verdict *v = &c->verdicts[i];
        if (reply->answers[i] == NOT_ANSWERED) {
            int answer = verdict_apply(run, v, rows);
            reply->answers[i] = answer;
            rc = answer < 0 ? answer : PR_OK;
        }
        rows += v->kind == VERDICT_SPLIT ? v->destination_count : 0;
    }
    return rc == PR_OK ? effects_apply(run) : rc;
}

/* ---- Receipts and tallies --------------------------------------------------------------- */

/* {"row":number,...}: people and json_each() can read it. */
static int receipt_insert(struct cycle_run *run)
{
    const struct cycle *c = run->cycle;
    struct buf entries;

    buf_init(&entries, RECEIPT_BYTES_MAX);
    for (size_t i = 0; i < c->receipt_count; i++) {
        buf_add(&entries, i == 0 ? "{\"" : ",\"", 2);
        buf_add_number(&entries, c->receipt[i].row);
        buf_add(&entries, "\":", 2);
        buf_add_number(&entries, (uint64_t)max64(0, c->receipt[i].number));
    }
    buf_add_char(&entries, '}');
    int rc = buf_failed(&entries);
    if (rc != PR_OK)
        error_set(run->reterr, rc, "a receipt of %zu entries is too large", c->receipt_count);
    else
        rc = conn_do(run->conn,
                     "INSERT INTO postrider_claim (instance, cycle, box, at, entries) VALUES (?1, ?2, ?3, ?4, ?5)",
                     run->session->box,
                     VALUES(V_ID(c->instance), V_INT(c->number), V_TEXT(run->session->box), V_INT(run->now_us),
                            V_TEXT(buf_slice(&entries))),
                     NULL, run->reterr);
    buf_fini(&entries);
    return rc;
}

int receipts_write(struct cycle_run *run)
{
    const struct cycle *c = run->cycle;
    int rc = PR_OK;
    for (size_t i = 0; i < c->closed_count && rc == PR_OK; i++)
        rc = conn_do(run->conn, "DELETE FROM postrider_claim WHERE instance = ?1 AND cycle = ?2", run->session->box,
                     VALUES(V_ID(c->instance), V_INT(c->closed[i])), NULL, run->reterr);
    if (rc == PR_OK && c->receipt_count > 0)
        rc = receipt_insert(run);
    return rc;
}

static int failure_set(struct cycle_run *run, const struct tally *t)
{
    return conn_do(
        run->conn,
        "UPDATE postrider_endpoint SET last_failed_at = ?2, last_reason = ?3, last_code = ?4, last_error = ?5"
        " WHERE name = ?1",
        run->session->box,
        VALUES(V_TEXT(t->endpoint), V_INT(run->now_us), V_INT(t->reason), V_TEXT_OR_NULL(t->code),
               V_TEXT_OR_NULL(t->error)),
        NULL, run->reterr);
}

int tallies_add(struct cycle_run *run)
{
    int rc = PR_OK;
    for (size_t i = 0; i < run->cycle->tally_count && rc == PR_OK; i++) {
        const struct tally *t = &run->cycle->tallies[i];
        rc = conn_do(
            run->conn,
            "INSERT INTO postrider_endpoint (name, sent, failed, dead, discarded, expired) VALUES (?1, ?2, ?3, ?4, ?5, "
            "?6)"
            " ON CONFLICT (name) DO UPDATE SET sent = sent + ?2, failed = failed + ?3, dead = dead + ?4,"
            " discarded = discarded + ?5, expired = expired + ?6",
            run->session->box,
            VALUES(V_TEXT(t->endpoint), V_INT(t->sent), V_INT(t->failed), V_INT(t->dead), V_INT(t->discarded),
                   V_INT(t->expired)),
            NULL, run->reterr);
        if (rc == PR_OK && t->reason != 0)
            rc = failure_set(run, t);
    }
    return rc;
}
