/* change.c - writing a change.
 *
 * The row is found first, by row and id, to distinguish a deleted row from a stale verdict.  There is one statement for
 * each fate, which writes only the columns that the change sets. */
#include "store/sqlite/change.h"

#include "base/error.h"
#include "base/failpoint.h"
#include "base/slice.h"
#include "base/time.h"
#include "core/id.h"
#include "store/sqlite/message.h"

static int changing_do(const struct changing *w, const char *sql, const struct value *values, size_t count)
{
    return conn_do(w->conn, sql, w->box, values, count, NULL, w->reterr);
}

/* ---- Finding the row ------------------------------------------------------------------ */

static bool is_among(pr_slice destination, const struct change *c)
{
    for (size_t i = 0; i < c->destination_count; i++)
        if (slice_eq(destination, c->destinations[i]))
            return true;
    return false;
}

/* A row before it is changed. */
struct found {
    int64_t due_us; /* these are written */
    int parked_by;
    bool is_own_destination; /* one of the change's destinations is the row's own */
};

/* Outcome PR_UNKNOWN: no such row with this id (the id of a damaged row is zero); PR_STALE: a guard does not hold. */
static int row_find(const struct changing *w, const struct change *c, struct found *ret)
{
    sqlite3_stmt *s;
    int rc = conn_bind(w->conn,
                       "SELECT id, attempts, released, destination, due_at, parked_by FROM \"{box}\""
                       " WHERE row_id = ?1",
                       w->box, VALUES(V_INT(c->row)), &s, w->reterr);
    if (rc == PR_OK)
        rc = conn_step(w->conn, s, w->reterr);
    if (rc <= 0)
        return rc < 0 ? rc : PR_UNKNOWN;

    pr_slice stored = column_slice(s, 0);
    struct pr_message m = { .attempts = sqlite3_column_int(s, 1),
                            .released = sqlite3_column_int(s, 2) != 0,
                            .due_us = sqlite3_column_int64(s, 4),
                            .parked_by = sqlite3_column_int(s, 5) };
    if (stored.size > 0)
        (void)id_from_stored(stored, &m.id);
    rc = !pr_id_equal(m.id, c->id) ? PR_UNKNOWN : change_holds(c, &m) ? PR_OK : PR_STALE;
    ret->due_us = change_due_us(c, &m, w->now_us);
    ret->parked_by = change_parked_by(c, &m);
    ret->is_own_destination = is_among(column_slice(s, 3), c);
    sqlite3_reset(s);
    return rc;
}

static int row_delete(const struct changing *w, const struct change *c)
{
    return changing_do(w, "DELETE FROM \"{box}\" WHERE row_id = ?1", VALUES(V_INT(c->row)));
}

/* ---- Writing the values ----------------------------------------------------------------- */

_Static_assert(SET_ATTEMPTS == 1 && ADD_FAILURE == 2 && SET_NEW_COUNT == 4 && SET_REASON == 8 && SET_FAILED_AT == 16 &&
                   SET_HELD == 128 && SET_RELEASED == 256 && SET_STORY == 512 && SET_ERROR == 1024,
               "the statements below say so, too");
/* Expressions over the first parameters of a statement: value_sets() binds them. */
#define NEW_attempts "iif(?2 & 4, 0, iif(?2 & 1, ?3, attempts))"
#define NEW_failures "iif(?2 & 4, 0, failures + ((?2 & 2) <> 0))"
#define NEW_status "status | ?4"
#define NEW_failure_reason "iif(?2 & 8, ?5, failure_reason)"
#define NEW_code "iif(?2 & 8, ?6, code)"
#define NEW_error "iif(?2 & 1024, ?7, error)"
#define NEW_failed_at "iif(?2 & 16, ?8, failed_at)"
#define NEW_story "iif(?2 & 512, ?9, story)"
#define SETS_COUNT 9
#define VALUE_SETS(w, c)                                                                                               \
    V_INT((c)->row), V_INT((c)->sets), V_INT((c)->attempts), V_INT((c)->bits), V_INT((c)->reason),                     \
        V_TEXT_OR_NULL((c)->code), V_TEXT_OR_NULL((c)->error), V_INT((w)->now_us), V_TEXT_OR_NULL((c)->story)

/* Thousands of rows are held at once when an endpoint stops, so only the indexes on held_by and status are touched. */
static int row_hold(const struct changing *w, const struct change *c)
{
    return changing_do(w, "UPDATE \"{box}\" SET held_by = ?2, status = status | ?3, held_for = ?4 WHERE row_id = ?1",
                       VALUES(V_INT(c->row), V_TEXT_OR_NULL(c->held_by), V_INT(c->bits), V_INT(c->held_for)));
}

static int row_update(const struct changing *w, const struct change *c, const struct found *found)
{
    if (c->sets == SET_HELD)
        return row_hold(w, c);
    if (c->sets == 0 && c->bits == 0)
        return PR_OK;
    return changing_do(
        w,
        "UPDATE \"{box}\" SET attempts = " NEW_attempts OUTCOME_COLUMNS(
            FATE_SET) ", due_at = iif(?10 = 0, due_at, ?10), held_by = iif(?2 & 128, ?11, held_by),"
                      " released = iif(?2 & 256, 1, released), held_for = iif(?2 & 128, ?12, held_for), parked_by = ?13"
                      " WHERE row_id = ?1",
        VALUES(VALUE_SETS(w, c), V_INT(found->due_us), V_TEXT_OR_NULL(c->held_by), V_INT(c->held_for),
               V_INT(found->parked_by)));
}

/* ---- Ends --------------------------------------------------------------------------------- */

#define ENDED_COLUMNS                                                                                                  \
    "box, destination, seq, due_at, attempts" OUTCOME_COLUMNS(FATE_NAME) ", released, endpoint, " MESSAGE_MOVED
#define ENDED_VALUES                                                                                                   \
    "'{box}', destination, seq, due_at, " NEW_attempts OUTCOME_COLUMNS(                                                \
        FATE_NEW) ", released, iif(?10 = '', destination, ?10), " MESSAGE_MOVED

static int row_keep_done(const struct changing *w, const struct change *c)
{
    int rc = changing_do(w,
                         "INSERT INTO postrider_done (" ENDED_COLUMNS ", done_at, keep_until) SELECT " ENDED_VALUES
                         ", ?8, ?11 FROM \"{box}\" WHERE row_id = ?1",
                         VALUES(VALUE_SETS(w, c), V_TEXT(c->endpoint), V_INT(time_add(w->now_us, w->keep_us))));
    return rc == PR_OK ? row_delete(w, c) : rc;
}

static int row_die(const struct changing *w, const struct change *c)
{
    int rc = changing_do(w,
                         "INSERT INTO postrider_dead_letter (" ENDED_COLUMNS ", died_at, cause, limit_reached, rule,"
                         " fingerprint, note) SELECT " ENDED_VALUES
                         ", ?8, ?11, ?12, ?13, ?14, ?15 FROM \"{box}\" WHERE row_id = ?1",
                         VALUES(VALUE_SETS(w, c), V_TEXT(c->endpoint), V_INT(c->cause), V_INT(c->limit),
                                V_TEXT(c->rule), V_TEXT(slice_from(c->fingerprint)), V_TEXT_OR_NULL(c->note)));
    FAILPOINT("store.dead_letter.copied");
    return rc == PR_OK ? row_delete(w, c) : rc;
}

/* ---- Splits --------------------------------------------------------------------------------- */

/* Reads the row as it is stored; the caller resets the statement. */
static int split_read(const struct changing *w, const struct change *c, sqlite3_stmt **ret)
{
    int rc =
        conn_bind(w->conn, "SELECT seq, status, story, released, " MESSAGE_MOVED " FROM \"{box}\" WHERE row_id = ?1",
                  w->box, VALUES(V_INT(c->row)), ret, w->reterr);
    if (rc == PR_OK)
        rc = conn_step(w->conn, *ret, w->reterr);
    ASSERT(rc != 0); /* it was found */
    return rc < 0 ? rc : PR_OK;
}

/* Inserts a copy for one destination.  A destination that has this id already, or had it as a dead letter, keeps that
 * row, and *ret_row is 0. */
static int split_insert(const struct changing *w, sqlite3_stmt *row, pr_slice destination, struct part_holder holder,
                        uint64_t *ret_row)
{
    sqlite3_stmt *insert;
    int64_t dead = 0;
    const int id_column = 4;
    pr_slice id = column_slice(row, id_column);
    bool text = sqlite3_column_type(row, id_column) == SQLITE_TEXT;
    int rc = conn_int(w->conn,
                      "SELECT 1 FROM postrider_dead_letter INDEXED BY postrider_dead_letter_id WHERE id = ?1 AND"
                      " destination = ?2 AND box = '{box}'",
                      w->box, VALUES(text ? V_TEXT(id) : V_BLOB(id), V_TEXT(destination)), &dead, w->reterr);
    *ret_row = 0;
    if (rc != PR_UNKNOWN)
        return rc;
    /* Not INSERT ... SELECT: reading its own table would take a temporary one. */
    rc = conn_bind(
        w->conn,
        "INSERT INTO \"{box}\" (destination, held_by, held_for, split_seq, status, story, released, " MESSAGE_MOVED
        ") VALUES"
        " (?1, coalesce(?2, ?1 || '/'), ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15" SENDER_TEXTS(
            COLUMN_NEXT) ") ON CONFLICT (id, destination) DO NOTHING",
        w->box, VALUES(V_TEXT(destination), V_TEXT_OR_NULL(holder.key), V_INT(holder.held_for)), &insert, w->reterr);
    for (int i = 0; rc == PR_OK && i < sqlite3_column_count(row); i++)
        if (sqlite3_bind_value(insert, i + 4, sqlite3_column_value(row, i)) != SQLITE_OK)
            rc = error_set(w->reterr, PR_ENOMEM, "out of memory for a row");
    if (rc == PR_OK)
        rc = conn_step(w->conn, insert, w->reterr);
    if (rc == PR_OK && sqlite3_changes(w->conn->db) > 0)
        *ret_row = (uint64_t)sqlite3_last_insert_rowid(w->conn->db);
    return rc;
}

/* One row per destination; then the row itself is deleted. */
static int row_split(const struct changing *w, const struct change *c, const struct found *found, uint64_t *ret_rows)
{
    sqlite3_stmt *row = NULL;
    int rc = PR_OK;
    if (found->is_own_destination) /* so that the part for it can be inserted */
        rc = changing_do(w, "UPDATE \"{box}\" SET destination = char(0) || row_id WHERE row_id = ?1",
                         VALUES(V_INT(c->row)));
    if (rc == PR_OK)
        rc = split_read(w, c, &row);
    for (size_t i = 0; i < c->destination_count && rc == PR_OK; i++)
        rc = split_insert(w, row, c->destinations[i], change_part_holder(c, i), &ret_rows[i]);
    sqlite3_reset(row);
    return rc == PR_OK ? row_delete(w, c) : rc;
}

int box_change(const struct changing *w, const struct change *c, uint64_t *split_rows)
{
    struct found found;
    int rc = row_find(w, c, &found);
    if (rc != PR_OK)
        return rc;
    switch (c->fate) {
    case FATE_STAYS: return row_update(w, c, &found);
    case FATE_GONE: return row_delete(w, c);
    case FATE_DONE: return row_keep_done(w, c);
    case FATE_DEAD: return row_die(w, c);
    case FATE_SPLIT: return row_split(w, c, &found, split_rows);
    case FATE_BACK:
    case FATE_COPIED: break;
    }
    return error_set(w->reterr, PR_EINVAL, "a row of a box cannot have the fate %d", (int)c->fate);
}

/* ---- Dead letters ----------------------------------------------------------------------------- */

static int dead_delete(const struct changing *w, const struct change *c)
{
    return changing_do(w, "DELETE FROM postrider_dead_letter WHERE row_id = ?1", VALUES(V_INT(c->row)));
}

/* Moves the letter back to its place: a new row with the old seq.  Nothing is inserted if its id was sent again.  With
 * a new id (?11) it is a corrected copy. */
/* clang-format off */
static const char BACK_ROW[] =
    "INSERT INTO \"{box}\" (split_seq, attempts" OUTCOME_COLUMNS(FATE_NAME) ", due_at, id,"
    " causation_id, released, destination, headers, payload, stream, type, event, created_at,"
    " expires_at" SENDER_TEXTS_COPIED(COLUMN_NAME) ")"
    " SELECT seq, " NEW_attempts OUTCOME_COLUMNS(FATE_NEW) ", ?10,"
    " coalesce(?11, id), iif(?11 IS NULL, causation_id, ?12), iif(?11 IS NULL, released, 0), iif(?13, ?14, destination),"
    " iif(?15, ?16, headers), iif(?17, ?18, payload), stream, iif(?19, ?20, type), event, created_at,"
    " expires_at" SENDER_TEXTS_COPIED(COLUMN_NAME)
    " FROM postrider_dead_letter WHERE row_id = ?1 ON CONFLICT (id, destination) DO NOTHING";
/* clang-format on */

static int dead_back(const struct changing *w, const struct change *c, const struct row_order *o, uint64_t *ret_row)
{
    static const struct dead_edit as_it_was;
    bool copied = c->fate == FATE_COPIED;
    const struct dead_edit *e = copied ? o->edit : &as_it_was;
    char id[PR_ID_TEXT_SIZE];
    int made = 0;
    pr_id_format(c->id, id);
    int rc = conn_do(w->conn, BACK_ROW, w->box,
                     VALUES(VALUE_SETS(w, c), V_INT(max64(1, time_add(w->now_us, c->delay_us))),
                            copied ? V_ID(o->made) : V_NULL, V_TEXT(slice_from(id)), V_INT(e->destination != NULL),
                            e->destination != NULL ? V_TEXT(*e->destination) : V_NULL, V_INT(e->headers != NULL),
                            e->headers != NULL ? V_TEXT_OR_NULL(*e->headers) : V_NULL, V_INT(e->payload != NULL),
                            e->payload != NULL ? V_BLOB(*e->payload) : V_NULL, V_INT(e->type != NULL),
                            e->type != NULL ? V_TEXT(*e->type) : V_NULL),
                     &made, w->reterr);
    if (rc != PR_OK || made == 0)
        return rc != PR_OK ? rc : PR_STALE;
    *ret_row = (uint64_t)sqlite3_last_insert_rowid(w->conn->db);
    if (!copied)
        return dead_delete(w, c);
    return changing_do(w, "UPDATE postrider_dead_letter SET edited_as = ?2 WHERE row_id = ?1",
                       VALUES(V_INT(c->row), V_ID(o->made)));
}

static int dead_note(const struct changing *w, const struct change *c)
{
    return changing_do(
        w,
        "UPDATE postrider_dead_letter SET note = substr(CASE WHEN note <> '' THEN note || char(10) ELSE ''"
        " END || ?2, ?3), story = ?4 WHERE row_id = ?1",
        VALUES(V_INT(c->row), V_TEXT(c->note), V_INT(-NOTE_KEPT_MAX), V_TEXT(c->story)));
}

int dead_change(const struct changing *w, const struct change *c, const struct row_order *order, uint64_t *ret_row)
{
    *ret_row = 0;
    switch (c->fate) {
    case FATE_STAYS: return dead_note(w, c);
    case FATE_GONE: return dead_delete(w, c);
    case FATE_BACK:
    case FATE_COPIED: return dead_back(w, c, order, ret_row);
    case FATE_DONE:
    case FATE_DEAD:
    case FATE_SPLIT: break;
    }
    return error_set(w->reterr, PR_EINVAL, "a dead letter cannot have the fate %d", (int)c->fate);
}
