/* How many rows of a box are in which state.  A bounded number of rows is looked at, however many there are.  Rows that
 * are not fresh are counted in their indexes (the rows themselves lie far apart, each on a page of its own). */
#include "base/error.h"
#include "base/slice.h"
#include "store/people/question.h"

#define GAPS_MAX LOOK_MAX          /* ranges where fresh rows may be; rows that are gone leave such ranges, too */
#define PASSED_MAX (20 * LOOK_MAX) /* rows that are passed over in search of fresh ones */
#define NEWEST_MAX COUNT_EXACT_MAX /* newest rows that are looked at when there were more to pass over */

static uint64_t *count_place(struct box_counts *counts, enum state state)
{
    uint64_t *const places[STATE_COUNT] = {
        [STATE_READY] = &counts->ready,     [STATE_IN_FLIGHT] = &counts->in_flight,
        [STATE_DELAYED] = &counts->delayed, [STATE_RETRYING] = &counts->retrying,
        [STATE_HELD] = &counts->held,       [STATE_PARKED] = &counts->parked,
        [STATE_PAUSED] = &counts->paused,   [STATE_DEAD] = &counts->dead,
        [STATE_DONE] = &counts->done,
    };
    ASSERT(state < STATE_COUNT && places[state] != NULL);
    return places[state];
}

static void count_add(struct box_counts *counts, enum state state, int64_t count)
{
    uint64_t *place = count_place(counts, state);
    *place = (uint64_t)min64((int64_t)*place + count, COUNT_EXACT_MAX + 1);
}

static void oldest_add(struct box_counts *counts, int64_t since_us)
{
    if (since_us != 0 && (counts->oldest_us == 0 || since_us < counts->oldest_us))
        counts->oldest_us = since_us;
}

/* ---- Fresh rows where they have no index of their own: between the others ------------------------ */

struct count_walk {
    struct question *q;
    struct box_counts *counts;
    size_t left; /* rows that may still be looked at */
};

/* Without pauses all fresh rows are ready or in flight: then a few are enough.  Rows of a paused endpoint may stand
 * behind all others. */
static bool walk_is_over(const struct count_walk *w)
{
    return w->q->s.paused_count == 0 && w->counts->ready > COUNT_EXACT_MAX;
}

static void walk_row(const struct count_walk *w, const struct rows *rows)
{
    const struct pr_message m = {
        .attempts = (int)row_number(rows, 1),
        .destination = row_text(rows, 2),
        .created_us = row_time(rows, 3),
    };
    enum state state =
        listing_context_state(&w->q->s, w->counts->name, (uint64_t)row_number(rows, 0), &m, m.destination);
    if (state != STATE_IN_FLIGHT) /* messages in flight are counted by the receipts */
        count_add(w->counts, state, 1);
    if (state == STATE_READY)
        oldest_add(w->counts, message_ready_since(&m));
}

static int walk_rows(struct count_walk *w, enum sql_statement statement, const struct value *values, size_t count)
{
    struct rows rows;
    int rc = sql_run(w->q->sql, statement, w->counts->name, values, count, &rows);
    while (rc == PR_OK && !walk_is_over(w) && (rc = rows_step(&rows)) > 0) {
        rc = PR_OK;
        if (w->left == 0) {
            w->counts->partial = true;
            break;
        }
        w->left--;
        walk_row(w, &rows);
    }
    rows_end(&rows);
    return rc;
}

static int walk_gap(struct count_walk *w, int64_t after, int64_t before)
{
    return walk_rows(w, SQL_fresh_gap, VALUES(V_INT(after), V_INT(before), V_INT(w->left + 1)));
}

/* Behind very many rows that are not fresh: the rows just sent are among the newest. */
static int walk_newest(struct count_walk *w, int64_t after)
{
    w->counts->partial = true;
    return walk_rows(w, SQL_fresh_newest, VALUES(V_INT(after), V_INT(NEWEST_MAX)));
}

static int fresh_walk(struct question *q, struct box_counts *counts)
{
    struct count_walk w = { .q = q, .counts = counts, .left = LOOK_MAX };
    int64_t after = 0, next = 0;
    size_t gaps = 0;
    struct rows back;
    if (statement_is_empty(SQL_fresh_between, q->sql->ops->dialect))
        return PR_OK; /* SQL_counts has counted them */
    int rc = sql_run(q->sql, SQL_fresh_between, counts->name, VALUES(V_INT(PASSED_MAX + 1)), &back);
    for (size_t passed = 0; rc == PR_OK && next != INT64_MAX && !walk_is_over(&w) && w.left > 0;
         passed++, after = next) {
        rc = rows_step(&back);
        if (rc < 0)
            break;
        next = rc > 0 ? row_number(&back, 0) : INT64_MAX;
        if (passed == PASSED_MAX || gaps == GAPS_MAX) {
            rc = walk_newest(&w, after);
            break;
        }
        gaps += next > after + 1;
        rc = next > after + 1 ? walk_gap(&w, after, next) : PR_OK;
    }
    rows_end(&back);
    return rc < 0 ? rc : PR_OK;
}

/* ---- All others ---------------------------------------------------------------------------------- */

enum { SORT_FRESH = 1, SORT_DUE, SORT_AWAITS, SORT_COUNT }; /* as in SQL_counts */

/* Rows that are not fresh lie far apart where they must be read at all. */
static int64_t due_look(const struct question *q)
{
    return q->s.paused_count > 0 ? COUNT_EXACT_MAX : LOOK_MAX;
}

/* A row of counts: name, count, since, and, for rows that were looked at, their sort. */
static void count_take(struct box_counts *counts, const struct rows *rows, int64_t looked[SORT_COUNT])
{
    const pr_slice name = row_text(rows, 0);
    const int64_t count = row_number(rows, 1), sort = row_number(rows, 3);
    if (sort != 0)
        looked[sort] += count;
    if (slice_eq_cstr(name, "stored")) {
        counts->stored = (uint64_t)count;
        return;
    }
    if (slice_eq_cstr(name, "oldest") || slice_eq_cstr(name, "ready"))
        oldest_add(counts, row_time(rows, 2));
    if (slice_eq_cstr(name, "oldest"))
        return;
    enum state state = state_parse(name);
    if (state != STATE_IN_FLIGHT || sort == 0) /* messages in flight are counted by the receipts */
        count_add(counts, state, count);
}

static int count_box(struct question *q, struct box_counts *counts)
{
    const struct listing_context *s = &q->s;
    const bool paused = s->paused_count > 0;
    const int64_t most[SORT_COUNT] = {
        [SORT_FRESH] = paused ? LOOK_MAX : INT64_MAX, [SORT_DUE] = due_look(q), [SORT_AWAITS] = LOOK_MAX / 2
    };
    int64_t looked[SORT_COUNT] = { 0 };
    struct rows rows;
    int rc = sql_run(q->sql, paused ? SQL_counts_paused : SQL_counts, counts->name,
                     VALUES(V_TIME(s->now_us), V_INT(LOOK_MAX / 2 + 1),
                            V_INT(paused ? LOOK_MAX + 1 : COUNT_EXACT_MAX + 1 + s->hand_out_count),
                            V_TEXTS(s->paused, s->paused_count), V_INT(due_look(q) + 1), V_TIME(s->mono_us),
                            V_TEXT(q->sql->boot)),
                     &rows);
    while (rc == PR_OK && (rc = rows_step(&rows)) > 0) {
        count_take(counts, &rows, looked);
        rc = PR_OK;
    }
    rows_end(&rows);
    for (int i = SORT_FRESH; i < SORT_COUNT; i++)
        counts->partial |= looked[i] > most[i];
    return rc == PR_OK ? fresh_walk(q, counts) : rc;
}

int question_boxes(struct question *q)
{
    struct query_reply *reply = q->reply;
    int rc = PR_OK;
    reply->boxes = arena_alloc_array(q->arena, q->s.box_count, sizeof(*reply->boxes));
    if (reply->boxes == NULL)
        return question_no_memory(q);
    for (size_t i = 0; i < q->s.box_count && rc == PR_OK; i++) {
        struct box_counts *counts = &reply->boxes[reply->box_count++];
        counts->name = q->s.boxes[i];
        counts->table = q->s.tables[i];
        rc = q->query->brief ? PR_OK : count_box(q, counts);
    }
    return rc;
}

int question_rows(struct question *q)
{
    int64_t count = 0;
    int rc = sql_number(q->sql, SQL_rows, q->query->filter.box, VALUES(V_INT(question_limit(q) + 1)), &count);
    q->reply->total = (uint64_t)count;
    return rc < 0 ? rc : PR_OK;
}
