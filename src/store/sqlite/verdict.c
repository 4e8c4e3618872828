/* verdict.c - what a cycle changes: verdicts (as changes, see change.c), effects, receipts, tallies.  Verdicts that
 * only delete their row are carried out together. */
#include <limits.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "core/ended.h"
#include "core/id.h"
#include "store/sqlite/change.h"
#include "store/sqlite/message.h"
#include "store/sqlite/sqlite.h"

#define EDGE_BYTES 1800               /* between a third and a half of a page */
#define ROW_EXTRA_BYTES 60            /* per row, besides its texts and payload */
#define RECEIPT_BYTES_MAX (16u << 20) /* about 500,000 entries */
/* average length of runs of consecutive rows from which each run has a statement */
#define RUN_LEAST 8
#define NOT_ANSWERED INT_MIN

/* Called a thousand times in a cycle: printf would show in a profile. */
static void buf_add_number(struct buf *b, uint64_t number)
{
    char text[20];
    char *at = text + sizeof(text);
    do
        *--at = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    buf_add(b, at, (size_t)(text + sizeof(text) - at));
}

/* ---- The usual end, for all that end so ---------------------------------------------------- */

/* Most verdicts delete their row.  One statement for all of them opens the table and its indexes only once. */
struct row_end {
    uint64_t row;
    size_t verdict; /* index */
};

static int row_end_compare(const void *a, const void *b)
{
    const struct row_end *x = a, *y = b;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return x->verdict < y->verdict ? -1 : x->verdict > y->verdict;
}

static bool is_ending(const struct change *c)
{
    return c->fate == FATE_GONE && c->guards == 0;
}

/* Verdicts that end a row which has no other verdict in this cycle, by row; joined ones, or the others. */
static int endings_collect(struct sqlite_cycle *run, bool joined, struct row_end **ret, size_t *ret_count)
{
    const struct cycle *c = run->cycle;
    struct row_end *all = arena_alloc_array(&run->session->arena, c->verdict_count, sizeof(*all));
    size_t count = 0;
    if (all == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for %zu verdicts", c->verdict_count);
    bool sorted = true; /* most endpoints answer in order */
    for (size_t i = 0; i < c->verdict_count; i++) {
        all[i] = (struct row_end){ .row = c->verdicts[i].row, .verdict = i };
        sorted = sorted && (i == 0 || all[i - 1].row <= all[i].row);
    }
    if (!sorted)
        qsort(all, c->verdict_count, sizeof(*all), row_end_compare);
    for (size_t i = 0, next; i < c->verdict_count; i = next) {
        for (next = i + 1; next < c->verdict_count && all[next].row == all[i].row;)
            next++;
        const struct change change = change_of_verdict(&c->verdicts[all[i].verdict], c->keep_us > 0);
        if (next == i + 1 && is_ending(&change) && c->verdicts[all[i].verdict].joined == joined &&
            run->session->reply.answers[all[i].verdict] == NOT_ANSWERED)
            all[count++] = all[i];
    }
    *ret = all;
    *ret_count = count;
    return PR_OK;
}

/* [12,13,...] */
static void endings_rows(struct buf *b, const struct row_end *endings, size_t count)
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

/* The end of a run of consecutive rows. */
static size_t endings_run_end(const struct row_end *endings, size_t from, size_t count)
{
    size_t end = from + 1;
    while (end < count && endings[end].row == endings[end - 1].row + 1)
        end++;
    return end;
}

/* Are there only a few such runs?  Then each has a statement of its own, which walks along the table: a list goes
 * through a temporary table, and each of its rows is looked up from the root. */
static bool endings_are_runs(const struct row_end *endings, size_t count)
{
    size_t runs = 0;
    for (size_t at = 0; at < count; at = endings_run_end(endings, at, count))
        runs++;
    return runs <= 1 + count / RUN_LEAST;
}

/* Does the row exist with this id?  Existing ones are moved to the front, *ret_count of them. */
static void ending_found(struct sqlite_cycle *run, struct row_end *endings, size_t at, pr_slice stored,
                         size_t *ret_count)
{
    pr_id id = { { 0 } };
    if (stored.size > 0)
        (void)id_from_stored(stored, &id);
    if (!pr_id_equal(id, run->cycle->verdicts[endings[at].verdict].id))
        return;
    run->session->reply.answers[endings[at].verdict] = PR_OK;
    endings[(*ret_count)++] = endings[at]; /* never after `at` */
}

static int endings_find_run(struct sqlite_cycle *run, struct row_end *endings, size_t from, size_t end,
                            size_t *ret_count)
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

static int endings_find_list(struct sqlite_cycle *run, struct row_end *endings, struct buf *rows, size_t count,
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

static int endings_find(struct sqlite_cycle *run, struct row_end *endings, struct buf *rows, size_t count,
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

static int endings_delete_list(struct sqlite_cycle *run, struct buf *rows, const struct row_end *endings, size_t count)
{
    endings_rows(rows, endings, count);
    int rc = buf_failed(rows);
    if (rc != PR_OK)
        return error_set(run->reterr, rc, "%zu verdicts are too many for one cycle", count);
    return conn_do(run->conn, "DELETE FROM \"{box}\" WHERE row_id IN (SELECT value FROM json_each(?1))",
                   run->session->box, VALUES(V_TEXT(buf_slice(rows))), NULL, run->reterr);
}

static int endings_delete(struct sqlite_cycle *run, struct buf *rows, const struct row_end *endings, size_t count)
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

/* How many of the first rows are deleted last.  SQLite fills up a page that is less than one third full from its two
 * neighbours.  When all three fit into two pages, the third is freed without being written; otherwise all three are
 * written, and so every page of the table goes through the log.  They fit when the left one is about half empty, so it
 * is kept so until the end.  This saves a tenth of the log for messages of 500 bytes; for large ones it makes no
 * difference. */
static size_t endings_edge(const struct sqlite_session *session)
{
    size_t row_bytes = session->row_bytes + ROW_EXTRA_BYTES;
    return (EDGE_BYTES + row_bytes / 2) / row_bytes;
}

static int endings_apply(struct sqlite_cycle *run, struct row_end *endings, size_t count)
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

static int endings_run(struct sqlite_cycle *run, bool joined)
{
    int *answers = run->session->reply.answers;
    struct row_end *endings = NULL;
    size_t count = 0;
    int rc = endings_collect(run, joined, &endings, &count);
    for (size_t i = 0; rc == PR_OK && i < count; i++)
        answers[endings[i].verdict] = PR_UNKNOWN; /* until it is found */
    return rc == PR_OK && count > 0 ? endings_apply(run, endings, count) : rc;
}

/* One by one; joined ones after all that they can be joined to. */
static int changes_run(struct sqlite_cycle *run, bool joined)
{
    const struct cycle *c = run->cycle;
    const struct changing w = { run->conn, run->session->box, run->now_us, c->keep_us, run->reterr };
    struct cycle_reply *reply = &run->session->reply;
    uint64_t *rows = reply->split_rows;
    int rc = PR_OK;
    for (size_t i = 0; i < c->verdict_count && rc == PR_OK; i++) {
        if (reply->answers[i] == NOT_ANSWERED && c->verdicts[i].joined == joined) {
            const struct change change = change_of_verdict(&c->verdicts[i], c->keep_us > 0);
            int answer = box_change(&w, &change, rows);
            reply->answers[i] = answer;
            rc = answer < 0 ? answer : PR_OK;
        }
        rows += verdict_part_count(&c->verdicts[i]);
    }
    return rc;
}

/* Joined verdicts are applied with those that they are joined to, which all have answers by now, or not at all. */
static int joined_run(struct sqlite_cycle *run)
{
    const struct cycle *c = run->cycle;
    int *answers = run->session->reply.answers, leader = PR_OK;
    for (size_t i = 0; i < c->verdict_count; i++) {
        leader = c->verdicts[i].joined ? leader : answers[i];
        if (c->verdicts[i].joined && joined_answer(leader) != PR_OK)
            answers[i] = run->guards.verdicts[i] = joined_answer(leader);
    }
    int rc = endings_run(run, true);
    return rc == PR_OK ? changes_run(run, true) : rc;
}

int verdicts_apply(struct sqlite_cycle *run)
{
    const struct cycle *c = run->cycle;
    struct cycle_reply *reply = &run->session->reply;

    reply->answers = arena_alloc_array(&run->session->arena, c->verdict_count, sizeof(*reply->answers));
    reply->split_rows = arena_alloc_array(&run->session->arena, ended_part_count(c), sizeof(*reply->split_rows));
    if (reply->answers == NULL || reply->split_rows == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for a reply");

    int rc = guards_compare(run);
    for (size_t i = 0; i < c->verdict_count && rc == PR_OK; i++)
        reply->answers[i] = run->guards.verdicts[i] != PR_OK ? run->guards.verdicts[i] : NOT_ANSWERED;
    if (rc == PR_OK)
        rc = endings_run(run, false);
    if (rc == PR_OK)
        rc = changes_run(run, false);
    if (rc == PR_OK && cycle_has_joined(c))
        rc = joined_run(run);
    return rc == PR_OK ? effects_apply(run) : rc;
}

/* ---- Receipts and tallies --------------------------------------------------------------- */

/* {"row":number,...}: readable by people and by json_each(). */
static int receipt_insert(struct sqlite_cycle *run)
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

int receipts_write(struct sqlite_cycle *run)
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

static int failure_set(struct sqlite_cycle *run, const struct tally *t)
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

static int tally_add(struct sqlite_cycle *run, const struct tally *t)
{
    int rc = conn_do(run->conn,
                     "INSERT INTO postrider_endpoint (name, sent, failed, dead, discarded, expired, duplicates,"
                     " failed_in_row) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, CASE WHEN ?2 > 0 THEN 0 ELSE max(0, ?3) END)"
                     " ON CONFLICT (name) DO UPDATE SET sent = sent + ?2, failed = failed + ?3, dead = dead + ?4,"
                     " discarded = discarded + ?5, expired = expired + ?6, duplicates = duplicates + ?7,"
                     " failed_in_row = CASE WHEN ?2 > 0 THEN 0"
                     " ELSE max(0, failed_in_row + ?3) END",
                     run->session->box,
                     VALUES(V_TEXT(t->endpoint), V_INT(t->sent), V_INT(t->failed), V_INT(t->dead), V_INT(t->discarded),
                            V_INT(t->expired), V_INT(t->duplicates)),
                     NULL, run->reterr);
    return rc == PR_OK && t->reason != 0 ? failure_set(run, t) : rc;
}

int tallies_add(struct sqlite_cycle *run)
{
    const struct cycle *c = run->cycle;
    const struct cycle_reply *reply = &run->session->reply;
    size_t left_out = 0;
    int rc = PR_OK;
    for (size_t i = 0; i < c->tally_count && rc == PR_OK; i++)
        rc = tally_add(run, &c->tallies[i]);
    if (rc != PR_OK || ended_part_count(c) == 0)
        return rc;
    const struct tally *tallies = ended_tallies(c, reply->answers, reply->split_rows, &run->session->arena, &left_out);
    if (tallies == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for %zu verdicts", c->verdict_count);
    for (size_t i = 0; i < left_out && rc == PR_OK; i++)
        rc = tally_add(run, &tallies[i]);
    return rc;
}
