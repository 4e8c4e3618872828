/* The changes of an order (store/people/order.c): many rows in one round trip. */
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "store/postgres/cycle/change.h"
#include "store/postgres/postgres.h"

#define AT_ONCE 40 /* statements in one batch */

static void arg_json(struct args *args, pr_slice json)
{
    arg_text_or_null(args, json);
    args->types[args->count - 1] = OID_JSON;
}

/* ---- Dead letters ---------------------------------------------------------------------------- */

/* Back to its place: a new row with the old seq; B2: not if its id was sent again.  With a new id ($4) it is a
 * corrected copy, and the original is kept and records the new id. */
#define NEW_status "d.status | 32768"
#define NEW_failures "0"
#define NEW_failure_reason "d.failure_reason"
#define NEW_failed_at "d.failed_at"
#define NEW_code "d.code"
#define NEW_error "d.error"
#define NEW_story "coalesce($3::json, d.story)"
/* clang-format off */
static const char BACK_ROW[] =
    "WITH made AS (INSERT INTO {box} (xid, row_id, due_at" OUTCOME_COLUMNS(FATE_NAME) ", seq, id,"
    " causation_id, released, destination, headers, payload, payload_bytes, stream, type, event, created_at,"
    " expires_at" SENDER_TEXTS_COPIED(COLUMN_NAME) ") OVERRIDING SYSTEM VALUE"
    " SELECT d.xid, nextval('{box_seq}'), $2" OUTCOME_COLUMNS(FATE_NEW) ", d.seq, coalesce($4, d.id), CASE WHEN $4 IS NULL THEN d.causation_id ELSE d.id::text END,"
    " d.released AND $4 IS NULL, CASE WHEN $5 THEN $6 ELSE d.destination END,"
    " CASE WHEN $7 THEN $8::json ELSE d.headers END, CASE WHEN $9 THEN $10 ELSE d.payload END,"
    " CASE WHEN $9 THEN $11 ELSE d.payload_bytes END, d.stream, CASE WHEN $12 THEN $13 ELSE d.type END, d.event, d.created_at,"
    " d.expires_at" SENDER_TEXTS_COPIED(COLUMN_OF_D)
    " FROM {schema}.dead_letter d WHERE d.row_id = $1 AND d.edited_as IS NULL" UNLESS_IN_BOX " RETURNING row_id, lane),"
    " gone AS (DELETE FROM {schema}.dead_letter d USING made WHERE d.row_id = $1 AND $4 IS NULL),"
    " marked AS (UPDATE {schema}.dead_letter d SET edited_as = $4 FROM made WHERE d.row_id = $1 AND $4 IS NOT NULL)"
    " SELECT row_id << 6 | lane FROM made";
/* clang-format on */
static const char NOTE_ROW[] = "UPDATE {schema}.dead_letter d SET note = right(CASE WHEN d.note <> '' THEN d.note || "
                               "chr(10) ELSE '' END || $2, $3),"
                               " story = $4::json WHERE d.row_id = $1 RETURNING 0::bigint";

static void add_back(struct link *link, const struct sql_changes *w, size_t i, PGresult **ret)
{
    static const pr_slice none;
    static const struct dead_edit as_it_was;
    const struct change *c = &w->list[i];
    bool copied = c->fate == FATE_COPIED;
    const struct dead_edit *e = copied ? w->order->edit : &as_it_was;
    struct args args = { .count = 0 };
    arg_i64(&args, (int64_t)c->row);
    arg_time(&args, w->now_us);
    arg_json(&args, c->story);
    if (copied)
        arg_id(&args, w->order->made);
    else
        arg_null(&args, OID_UUID);
    arg_bool(&args, e->destination != NULL);
    arg_text(&args, e->destination != NULL ? *e->destination : none);
    arg_bool(&args, e->headers != NULL);
    arg_json(&args, e->headers != NULL ? *e->headers : none);
    arg_bool(&args, e->payload != NULL);
    arg_payload(&args, e->payload != NULL ? *e->payload : none, link->pg);
    arg_bool(&args, e->type != NULL);
    arg_text(&args, e->type != NULL ? *e->type : none);
    link_add(link, BACK_ROW, w->boxes[i], &args, ret);
}

/* Returns a row if it was changed: with the row that it became. */
static void add_dead(struct link *link, const struct sql_changes *w, size_t i, PGresult **ret)
{
    const struct change *c = &w->list[i];
    struct args args = { .count = 0 };
    arg_i64(&args, (int64_t)c->row);
    switch (c->fate) {
    case FATE_GONE:
        link_add(link, "DELETE FROM {schema}.dead_letter WHERE row_id = $1 RETURNING 0::bigint", NO_BOX, &args, ret);
        break;
    case FATE_STAYS:
        arg_text(&args, c->note);
        arg_i32(&args, NOTE_KEPT_MAX);
        arg_json(&args, c->story);
        link_add(link, NOTE_ROW, NO_BOX, &args, ret);
        break;
    default: add_back(link, w, i, ret); break;
    }
}

static int dead_apply(struct sql *sql, const struct sql_changes *w)
{
    struct link *link = sql->connection;
    int rc = PR_OK;
    for (size_t first = 0, count; first < w->count && rc == PR_OK; first += count) {
        PGresult *results[AT_ONCE] = { NULL };
        size_t mark = link->result_count;
        count = min_size(w->count - first, AT_ONCE);
        for (size_t i = 0; i < count; i++)
            add_dead(link, w, first + i, &results[i]);
        rc = link_run(link, sql->reterr);
        for (size_t i = 0; i < count && rc == PR_OK; i++) {
            bool done = PQntuples(results[i]) > 0;
            w->answers[first + i] = done ? PR_OK : PR_STALE;
            w->rows[first + i] = done ? (uint64_t)field_i64(results[i], 0, 0) : 0;
        }
        link_forget_after(link, mark);
    }
    return rc;
}

/* ---- Rows of a box ----------------------------------------------------------------------------- */

static int box_apply(struct sql *sql, const struct sql_changes *w)
{
    struct link *link = sql->connection;
    struct array arrays[CHANGE_ARRAYS];
    size_t mark = link->result_count;
    struct pg_changes changes = {
        .link = link,
        .box = w->boxes[0],
        .list = w->list,
        .count = w->count,
        .lanes = LANES_ALL,
        .wall_us = w->now_us,
        .arena = w->arena,
        .arrays = arrays,
    };
    for (size_t i = 0; i < CHANGE_ARRAYS; i++)
        array_init(&arrays[i]);
    int rc = pg_changes_apply(&changes, sql->reterr);
    if (rc == PR_OK)
        memcpy(w->answers, changes.answers, w->count * sizeof(w->answers[0]));
    for (size_t i = 0; i < CHANGE_ARRAYS; i++)
        array_fini(&arrays[i]);
    link_forget_after(link, mark);
    return rc;
}

int pg_sql_apply(struct sql *sql, const struct sql_changes *changes)
{
    return changes->dead ? dead_apply(sql, changes) : box_apply(sql, changes);
}

/* The next batch contains it: it takes no round trip of its own. */
int pg_sql_ended(struct sql *sql, const struct ended *list, size_t count, pr_slice by, int64_t now_us,
                 struct arena *arena)
{
    struct array arrays[ENDED_ARRAYS];
    for (size_t i = 0; i < ENDED_ARRAYS; i++)
        array_init(&arrays[i]);
    int rc = pg_ended_insert(sql->connection, list, count, by, now_us, arrays, arena);
    for (size_t i = 0; i < ENDED_ARRAYS; i++)
        array_fini(&arrays[i]);
    return rc == PR_OK ? PR_OK : error_set(sql->reterr, rc, "out of memory for the ledger of %zu messages", count);
}
