/* counts.c - how many rows of a box are in which state.  However many there are, a bounded number of them is looked
 * at.  What is not fresh is told by its indexes (its rows lie far apart, each on a page of its own), and so is where
 * fresh rows are: between those. */
#include "base/error.h"
#include "base/slice.h"
#include "store/sqlite/overview.h"

#define NO_BOX ((pr_slice){ NULL, 0 })
#define WALK_MAX ((size_t)LOOK_MAX) /* rows of one sort that are looked at */
#define GAPS_MAX LOOK_MAX           /* places where fresh rows may be; those that are gone leave gaps, too */
#define PASSED_MAX (20 * LOOK_MAX)  /* rows that are passed over in search of fresh ones */
#define NEWEST_MAX COUNT_EXACT_MAX  /* rows that are looked at when there were more to pass over */

struct counting {
    const struct overview *o;
    struct box_counts *counts;
    const uint64_t *full; /* enough when this cannot grow; NULL: go on */
    size_t left;          /* rows that may be looked at */
};

static void count_one(struct box_counts *counts, enum state state)
{
    uint64_t *const places[STATE_COUNT] = {
        [STATE_READY] = &counts->ready, [STATE_DELAYED] = &counts->delayed, [STATE_RETRYING] = &counts->retrying,
        [STATE_HELD] = &counts->held,   [STATE_PARKED] = &counts->parked,   [STATE_PAUSED] = &counts->paused,
    };
    ASSERT(places[state] != NULL);
    if (*places[state] <= COUNT_EXACT_MAX)
        ++*places[state];
}

static void count_row(const struct counting *c, sqlite3_stmt *statement)
{
    struct box_counts *counts = c->counts;
    struct pr_message m = {
        .due_us = sqlite3_column_int64(statement, 1),
        .held_by = column_slice(statement, 2),
        .status = sqlite3_column_int(statement, 3),
        .attempts = sqlite3_column_int(statement, 4),
        .destination = column_slice(statement, 5),
        .created_us = sqlite3_column_int64(statement, 6),
    };
    enum state state =
        surroundings_state(c->o->s, counts->name, (uint64_t)sqlite3_column_int64(statement, 0), &m, m.destination);
    if (state != STATE_IN_FLIGHT)
        count_one(counts, state);
    if (state == STATE_READY && (counts->oldest_us == 0 || message_ready_since(&m) < counts->oldest_us))
        counts->oldest_us = message_ready_since(&m);
}

/* Outcome > 0: enough. */
static int count_rows(struct counting *c, const char *sql, const struct value *values, size_t value_count)
{
    sqlite3_stmt *statement;
    int rc = conn_bind(c->o->conn, sql, c->counts->name, values, value_count, &statement, c->o->reterr);
    if (rc != PR_OK)
        return rc;
    while ((rc = conn_step(c->o->conn, statement, c->o->reterr)) > 0) {
        if (c->left == 0) {
            c->counts->partial = true;
            break;
        }
        c->left--;
        count_row(c, statement);
        if (c->full != NULL && *c->full > COUNT_EXACT_MAX)
            break;
    }
    sqlite3_reset(statement);
    return rc;
}

#define COUNTED "SELECT row_id, due_at, held_by, status, attempts, destination, created_at"

/* ---- Fresh ones ----------------------------------------------------------------------- */

static int count_gap(struct counting *c, int64_t after, int64_t before)
{
    return count_rows(c,
                      COUNTED " FROM \"{box}\" WHERE row_id > ?1 AND row_id < ?2 AND due_at IS NULL AND held_by IS"
                              " NULL ORDER BY row_id LIMIT ?3",
                      VALUES(V_INT(after), V_INT(before), V_INT(c->left + 1)));
}

/* Behind very many that are not fresh: among the newest is what was sent just now. */
static int count_newest(struct counting *c, int64_t after)
{
    c->counts->partial = true;
    return count_rows(c,
                      COUNTED " FROM (" COUNTED " FROM \"{box}\" WHERE row_id > ?1 ORDER BY row_id DESC LIMIT ?2)"
                              " WHERE due_at IS NULL AND held_by IS NULL",
                      VALUES(V_INT(after), V_INT(NEWEST_MAX)));
}

static int count_fresh(const struct overview *o, struct box_counts *counts)
{
    /* A paused endpoint's rows may stand behind all others: then walk on. */
    struct counting c = {
        .o = o, .counts = counts, .full = o->s->paused_count == 0 ? &counts->ready : NULL, .left = WALK_MAX
    };
    sqlite3_stmt *back;
    int64_t after = 0, next = 0;
    size_t gaps = 0;
    int rc = conn_bind(o->conn,
                       "SELECT row_id FROM \"{box}\" INDEXED BY \"postrider_{box}_back\" WHERE due_at IS NOT NULL OR"
                       " held_by IS NOT NULL ORDER BY row_id LIMIT ?1",
                       counts->name, VALUES(V_INT(PASSED_MAX + 1)), &back, o->reterr);
    for (size_t passed = 0; rc == PR_OK && next != INT64_MAX; passed++, after = next) {
        rc = conn_step(o->conn, back, o->reterr);
        if (rc < 0)
            break;
        next = rc > 0 ? sqlite3_column_int64(back, 0) : INT64_MAX;
        if (passed == PASSED_MAX || gaps == GAPS_MAX) {
            rc = count_newest(&c, after);
            break;
        }
        gaps += next > after + 1;
        rc = next > after + 1 ? count_gap(&c, after, next) : PR_OK;
    }
    sqlite3_reset(back);
    return rc < 0 ? rc : PR_OK;
}

/* ---- The others ------------------------------------------------------------------------- */

/* Not a row is read: the index has it all. */
#define COUNTED_DUE                                                                                                    \
    "SELECT row_id, due_at, NULL, status, attempts, destination, created_at FROM \"{box}\""                            \
    " INDEXED BY \"postrider_{box}_due\" WHERE held_by IS NULL AND "

static int count_sort(const struct overview *o, struct box_counts *counts, const char *sql, const uint64_t *full)
{
    struct counting c = { .o = o, .counts = counts, .full = full, .left = WALK_MAX };
    int rc = count_rows(&c, sql, VALUES(V_INT(WALK_MAX + 1)));
    return rc < 0 ? rc : PR_OK;
}

static int count_table(const struct overview *o, const char *sql, pr_slice box, uint64_t *ret)
{
    int64_t count = 0;
    int rc = conn_int(o->conn, sql, NO_BOX, VALUES(V_TEXT(box), V_INT(COUNT_EXACT_MAX + 1), V_INT(o->s->now_us)),
                      &count, o->reterr);
    *ret = (uint64_t)count;
    return rc;
}

uint64_t flights_count(struct conn *conn, const struct surroundings *s, pr_slice box, const pr_id *instance)
{
    uint64_t count = 0;
    for (size_t i = 0; i < s->flight_count; i++) {
        const struct flight *f = &s->flights[i];
        int64_t there;
        if ((instance != NULL ? pr_id_equal(f->instance_id, *instance) : slice_eq(f->box, box)) &&
            conn_int(conn, "SELECT 1 FROM \"{box}\" WHERE row_id = ?1 AND attempts < ?2", f->box,
                     VALUES(V_INT(f->row), V_INT(f->number)), &there, NULL) == PR_OK)
            count++;
    }
    return count;
}

static int count_box(const struct overview *o, struct box_counts *counts)
{
    int rc = count_fresh(o, counts);
    if (rc == PR_OK)
        rc = count_sort(o, counts, COUNTED_DUE "due_at < 9223372036854775807 ORDER BY due_at LIMIT ?1", NULL);
    if (rc == PR_OK)
        rc = count_sort(o, counts, COUNTED_DUE "due_at = 9223372036854775807 LIMIT ?1", &counts->parked);
    if (rc == PR_OK)
        rc = count_sort(o, counts, COUNTED " FROM \"{box}\" WHERE held_by IS NOT NULL ORDER BY held_by LIMIT ?1",
                        &counts->held);
    if (rc == PR_OK)
        rc = count_table(
            o, "SELECT count(*) FROM (SELECT 1 FROM postrider_dead_letter WHERE box = ?1 AND ?3 IS NOT NULL LIMIT ?2)",
            counts->name, &counts->dead);
    if (rc == PR_OK)
        rc = count_table(
            o, "SELECT count(*) FROM (SELECT 1 FROM postrider_done WHERE box = ?1 AND keep_until > ?3 LIMIT ?2)",
            counts->name, &counts->done);
    counts->in_flight = flights_count(o->conn, o->s, counts->name, NULL);
    int64_t stored = 0;
    if (rc == PR_OK) /* no row: nothing was stored yet */
        rc = conn_int(o->conn, "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?1", NO_BOX,
                      VALUES(V_TEXT(counts->name)), &stored, o->reterr);
    counts->stored = (uint64_t)stored;
    return rc;
}

int overview_boxes(const struct overview *o)
{
    struct query_reply *reply = o->reply;
    reply->boxes = arena_alloc_array(o->arena, o->s->box_count, sizeof(*reply->boxes));
    if (reply->boxes == NULL)
        return error_set(o->reterr, PR_ENOMEM, "no memory for the answer");
    int rc = PR_OK;
    for (size_t i = 0; i < o->s->box_count && rc == PR_OK; i++) {
        struct box_counts *counts = &reply->boxes[reply->box_count++];
        counts->name = o->s->boxes[i];
        rc = count_box(o, counts);
    }
    return rc;
}
