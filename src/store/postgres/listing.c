/* The rows that a filter finds; see listing.h.  SQL finds most of them, in pages by row, and
 * what SQL cannot say (globs, states, fingerprints) is judged here. */
#include "store/postgres/listing.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/fingerprint.h"

#define SQL_MAX (1u << 18) /* a filter is in it once for each lane */
#define PAGE_ROWS 500

/* ---- Surroundings ------------------------------------------------------------------------------ */

static int flight_compare(const void *a, const void *b)
{
    const struct flight *x = a, *y = b;
    int                  order = slice_cmp(x->box, y->box);
    return order != 0 ? order : x->row < y->row ? -1 : x->row > y->row;
}

static int no_memory(struct pr_error *reterr)
{
    return error_set(reterr, PR_ENOMEM, "no memory for the answer");
}

static int take_flights(const PGresult *r, struct arena *arena, struct surroundings *ret, struct pr_error *reterr)
{
    ret->flight_count = (size_t)PQntuples(r);
    ret->flights = arena_alloc_array(arena, ret->flight_count, sizeof(ret->flights[0]));
    if (ret->flights == NULL)
        return no_memory(reterr);
    for (int i = 0; i < PQntuples(r); i++) {
        ret->flights[i] = (struct flight){
            .box = slice_dup(arena, field_slice(r, i, 0)),
            .instance = slice_dup(arena, field_slice(r, i, 1)),
            .instance_id = field_id(r, i, 2),
            .row = (uint64_t)field_i64(r, i, 3),
            .number = field_int(r, i, 4),
        };
        if (ret->flights[i].box.data == NULL || ret->flights[i].instance.data == NULL)
            return no_memory(reterr);
    }
    if (ret->flight_count > 0)
        qsort(ret->flights, ret->flight_count, sizeof(ret->flights[0]), flight_compare);
    return PR_OK;
}

static int take_names(const PGresult *r, struct arena *arena, pr_slice **ret, size_t *ret_count, struct pr_error *reterr)
{
    *ret_count = (size_t)PQntuples(r);
    *ret = arena_alloc_array(arena, *ret_count, sizeof(pr_slice));
    if (*ret == NULL)
        return no_memory(reterr);
    for (int i = 0; i < PQntuples(r); i++) {
        (*ret)[i] = slice_dup(arena, field_slice(r, i, 0));
        if ((*ret)[i].data == NULL)
            return no_memory(reterr);
    }
    return PR_OK;
}

int pg_surroundings_read(struct postgres_store *store, struct link *link, struct arena *arena, struct surroundings *ret,
                         struct pr_error *reterr)
{
    PGresult   *clock, *flights, *paused, *boxes;
    struct args args = { .count = 0 };
    arg_time(&args, pg_store_wall_us(store));
    arg_time(&args, pg_store_mono_us(store));
    *ret = (struct surroundings){ .payload_max = store->payload_max };
    link_add(link, "SELECT " NOW("$1") ", " NOW("$2"), NO_BOX, &args, &clock);
    link_add(link,
             "SELECT c.box, i.name, i.id, u.handle, max(u.number) FROM {schema}.claim c"
             " JOIN {schema}.instance i ON i.id = c.instance, unnest(c.rows, c.numbers) AS u(handle, number)"
             " GROUP BY c.box, i.name, i.id, u.handle",
             NO_BOX, NULL, &flights);
    args.count = 1;
    link_add(link, "SELECT name FROM {schema}.endpoint WHERE paused_until > " NOW("$1"), NO_BOX, &args, &paused);
    link_add(link, "SELECT name FROM {schema}.box ORDER BY name", NO_BOX, NULL, &boxes);
    int rc = link_run(link, reterr);
    if (rc != PR_OK)
        return rc;
    ret->now_us = field_time(clock, 0, 0);
    ret->mono_us = field_time(clock, 0, 1);
    rc = take_flights(flights, arena, ret, reterr);
    if (rc == PR_OK)
        rc = take_names(paused, arena, &ret->paused, &ret->paused_count, reterr);
    if (rc == PR_OK)
        rc = take_names(boxes, arena, &ret->boxes, &ret->box_count, reterr);
    return rc;
}

const struct flight *pg_surroundings_flight(const struct surroundings *s, pr_slice box, uint64_t row, int attempts)
{
    const struct flight key = { .box = box, .row = row };
    const struct flight *f = s->flight_count > 0
                                 ? bsearch(&key, s->flights, s->flight_count, sizeof(key), flight_compare)
                                 : NULL;
    return f != NULL && f->number > attempts ? f : NULL; /* else it was judged meanwhile */
}

static bool is_paused(const struct surroundings *s, pr_slice endpoint)
{
    for (size_t i = 0; i < s->paused_count; i++)
        if (slice_eq(s->paused[i], endpoint))
            return true;
    return false;
}

enum state pg_surroundings_state(const struct surroundings *s, pr_slice box, uint64_t row,
                                 const struct pr_message *m, pr_slice endpoint)
{
    if (pg_surroundings_flight(s, box, row, m->attempts) != NULL)
        return STATE_IN_FLIGHT;
    enum state state = state_of_row(m, s->now_us);
    bool       may_wait = state == STATE_READY || state == STATE_RETRYING;
    return may_wait && is_paused(s, endpoint) ? STATE_PAUSED : state;
}

/* ---- A filter as SQL ---------------------------------------------------------------------------- */

struct sql {
    struct buf  text;
    struct args args;
};

/* " AND condition", with the number of its parameter for each $. */
static void sql_and(struct sql *sql, const char *condition)
{
    buf_add_cstr(&sql->text, " AND ");
    for (const char *at = condition; *at != '\0'; at++) {
        buf_add_char(&sql->text, *at);
        if (*at == '$')
            buf_addf(&sql->text, "%d", sql->args.count);
    }
}

static void sql_text(struct sql *sql, const char *condition, pr_slice value)
{
    if (value.size == 0)
        return;
    arg_text(&sql->args, value);
    sql_and(sql, condition);
}

static void sql_time(struct sql *sql, const char *condition, int64_t us)
{
    if (us == 0)
        return;
    arg_time(&sql->args, us);
    sql_and(sql, condition);
}

static void sql_reason(struct sql *sql, const char *condition, int reason)
{
    if (reason == 0)
        return;
    arg_i32(&sql->args, reason);
    sql_and(sql, condition);
}

static void filter_state(struct sql *sql, const struct filter *f, const struct surroundings *s)
{
    switch (f->state) {
    case STATE_PARKED:
        sql_and(sql, "b.due_at = 'infinity'");
        break;
    case STATE_HELD:
        sql_and(sql, "strpos(b.held_by, '/') < length(b.held_by)");
        break;
    case STATE_DELAYED:
    case STATE_RETRYING:
        sql_time(sql, "b.held_by IS NULL AND b.due_at > $", s->now_us);
        break;
    default:
        break; /* found among all */
    }
}

/* By stream a release means the followers: what is held, and what has not been met yet behind a
 * failed or parked head of the same way.  Where a row without destination goes is not known. */
static const char FOLLOWERS[] =
    " AND (strpos(b.held_by, '/') < length(b.held_by) OR ((b.due_at IS NULL OR b.held_by IS NOT NULL) AND EXISTS (SELECT FROM %1$s h WHERE h.stream = b.stream"
    " AND h.seq < b.seq AND (h.destination = '' OR b.destination = '' OR h.destination = b.destination)"
    " AND h.due_at IS NOT NULL AND (h.due_at = 'infinity' OR (NOT h.released AND"
    " ((h.status & 32768) <> 0 OR h.attempts > 0))))))";

static void sql_filter(struct sql *sql, const struct listing *l, const struct surroundings *s, struct array *ids,
                       const char *table)
{
    const struct filter *f = l->filter;
    if (f->id_count > 0) {
        array_begin(ids, OID_UUID);
        for (size_t i = 0; i < f->id_count; i++)
            array_id(ids, f->ids[i]);
        arg_array(&sql->args, ids);
        sql_and(sql, "b.id = ANY ($)");
    }
    if (f->row != 0) {
        arg_i64(&sql->args, (int64_t)f->row);
        sql_and(sql, "b.row_id = $");
    }
    sql_text(sql, "b.stream = $", f->stream);
    sql_text(sql, "position($ IN b.error) > 0", f->error);
    if (l->table == LISTING_BOX) {
        sql_text(sql, f->routing != NULL ? "b.destination IN ($, '')" : "b.destination = $", f->endpoint);
        sql_reason(sql, "b.failure_reason = $", f->reason);
        sql_time(sql, "b.created_at >= $", f->since_us);
        sql_time(sql, "b.created_at < $", f->until_us);
        filter_state(sql, f, s);
        if (l->followers)
            buf_addf(&sql->text, FOLLOWERS, table);
        return;
    }
    sql_text(sql, "b.box = $", l->box);
    sql_text(sql, "b.endpoint = $", f->endpoint);
    if (l->table == LISTING_DONE) {
        sql_time(sql, "b.keep_until > $", s->now_us);
        sql_reason(sql, "b.failure_reason = $", f->reason);
        sql_time(sql, "b.done_at >= $", f->since_us);
        sql_time(sql, "b.done_at < $", f->until_us);
        return;
    }
    sql_reason(sql, "(b.cause = $ OR b.failure_reason = $)", f->reason);
    sql_text(sql, "b.fingerprint = $", f->fingerprint);
    sql_time(sql, "b.died_at >= $", f->since_us);
    sql_time(sql, "b.died_at < $", f->until_us);
}

/* Rows of a box in the order of their places, without sorting it: fresh ones lane by lane, and all
 * others, each through its own index; the server merges them and stops when there are enough (it
 * does so only because each has its own order and limit). */
static bool may_be_fresh(const struct filter *f)
{
    return f->state != STATE_PARKED && f->state != STATE_HELD && f->state != STATE_DELAYED && f->state != STATE_RETRYING;
}

static void sql_places(struct buf *text, const struct filter *f, const char *table, pr_slice conditions)
{
    buf_addf(text,
             " JOIN (SELECT k.id, k.destination FROM ((SELECT b.id, b.destination, coalesce(b.row_id, b.seq) AS place"
             " FROM %s b WHERE (b.due_at IS NOT NULL OR b.held_by IS NOT NULL) AND coalesce(b.row_id, b.seq) > $1::bigint%.*s"
             " ORDER BY coalesce(b.row_id, b.seq) LIMIT %d)",
             table, SLICE_ARGS(conditions), PAGE_ROWS);
    for (unsigned lane = 0; lane < LANE_COUNT && may_be_fresh(f); lane++)
        if (f->stream.size == 0 || lane == lane_of(f->stream, (pr_id){ { 0 } }))
            buf_addf(text,
                     " UNION ALL (SELECT b.id, b.destination, b.seq FROM %s b WHERE b.lane = %u::smallint"
                     " AND b.due_at IS NULL AND b.held_by IS NULL AND b.seq > $1::bigint%.*s ORDER BY b.seq LIMIT %d)",
                     table, lane, SLICE_ARGS(conditions), PAGE_ROWS);
    buf_addf(text, ") k ORDER BY k.place LIMIT %d) p ON b.id = p.id AND b.destination = p.destination", PAGE_ROWS);
}

/* Columns: row, the message, box, endpoint, cause, limit, rule, fingerprint, note, when it ended, edited_as. */
static void sql_select(struct buf *text, const struct listing *l, const char *table)
{
    bool in_box = l->table == LISTING_BOX;
    buf_addf(text, "SELECT %s, %s", in_box ? HANDLE : "b.row_id",
             l->with_payload ? MESSAGE_COLUMNS(MESSAGE_PAYLOAD("$2::bigint")) : MESSAGE_COLUMNS(MESSAGE_NO_PAYLOAD));
    if (l->table == LISTING_DEAD)
        buf_add_cstr(text, ", b.box, b.endpoint, b.cause, b.limit_reached, b.rule, b.fingerprint, b.note, b.died_at, b.edited_as");
    else if (l->table == LISTING_DONE)
        buf_add_cstr(text, ", b.box, b.endpoint, 0, 0, '', '', '', b.done_at, NULL::uuid");
    else
        buf_addf(text, ", '%.*s', b.destination, 0, 0, '', '', '', NULL::timestamptz, NULL::uuid", SLICE_ARGS(l->box));
    buf_addf(text, " FROM %s b", table);
}

/* ---- Rows --------------------------------------------------------------------------------------- */

/* Does the rest of the filter fit, that SQL cannot say? */
static bool is_wanted(const struct listing *listing, const struct listed *l)
{
    const struct filter *f = listing->filter;
    char                 print[FINGERPRINT_SIZE];
    if (f->type.size > 0 && !slice_glob(f->type, l->m.type))
        return false;
    if (f->state >= 0 && (enum state)f->state != l->state)
        return false;
    if (listing->table == LISTING_BOX && !filter_fits_endpoint(f, &l->m))
        return false;
    if (f->fingerprint.size == 0 || listing->table == LISTING_DEAD)
        return true;
    if (listing->table == LISTING_DONE || l->m.reason == PR_REASON_NONE)
        return false;
    fingerprint(filter_endpoint_of(f, &l->m), l->m.type, l->m.reason, l->m.error, print);
    return slice_eq_cstr(f->fingerprint, print);
}

static void listed_decode(const PGresult *r, int i, const struct surroundings *s, const struct listing *listing,
                          struct listed *l)
{
    const int first = 1 + MESSAGE_COLUMN_COUNT;
    *l = (struct listed){ .state = listing->table == LISTING_DEAD ? STATE_DEAD : STATE_DONE };
    l->row = (uint64_t)field_i64(r, i, 0);
    pg_message_decode(r, i, 1, s->payload_max, &l->m, &l->lane, &l->bad);
    l->box = field_slice(r, i, first);
    l->endpoint = field_slice(r, i, first + 1);
    l->cause = field_int(r, i, first + 2);
    l->limit = field_int(r, i, first + 3);
    l->rule = field_slice(r, i, first + 4);
    l->fingerprint = field_slice(r, i, first + 5);
    l->note = field_slice(r, i, first + 6);
    l->died_us = field_time(r, i, first + 7);
    if (!field_is_null(r, i, first + 8))
        l->edited_as = field_id(r, i, first + 8);
    if (listing->table == LISTING_BOX) {
        const struct flight *f = pg_surroundings_flight(s, l->box, l->row, l->m.attempts);
        l->state = pg_surroundings_state(s, l->box, l->row, &l->m, filter_endpoint_of(listing->filter, &l->m));
        l->instance = f != NULL ? f->instance : NO_BOX;
    }
}

/* The statement for one page.  Its filter stands in it several times, with the same arguments: first
 * of all the place behind which it begins, and the limit of payloads. */
static int page_write(struct buf *text, const struct sql *filter, const struct listing *l, const char *table, bool locks)
{
    bool        in_box = l->table == LISTING_BOX;
    const char *place = in_box ? "coalesce(b.row_id, b.seq)" : "b.row_id";
    pr_slice    conditions = { filter->text.data, filter->text.size };
    sql_select(text, l, table);
    if (in_box && l->filter->id_count == 0)
        sql_places(text, l->filter, table, conditions);
    buf_addf(text, " WHERE $2::bigint IS NOT NULL AND %s > $1::bigint%.*s ORDER BY %s LIMIT %d%s", place,
             SLICE_ARGS(conditions), place, PAGE_ROWS, locks ? " FOR UPDATE OF b" : "");
    return buf_failed(text) == PR_OK ? buf_failed(&filter->text) : buf_failed(text);
}

static int page_read(struct link *link, const struct surroundings *s, const struct listing *l, const char *table,
                     int64_t after, bool locks, struct array *ids, PGresult **ret, struct pr_error *reterr)
{
    struct sql filter = { .args.count = 0 };
    struct buf text;
    buf_init(&text, SQL_MAX);
    buf_init(&filter.text, SQL_MAX);
    arg_i64(&filter.args, after);
    arg_i64(&filter.args, (int64_t)min_size(s->payload_max, INT64_MAX));
    sql_filter(&filter, l, s, ids, table);
    int rc = page_write(&text, &filter, l, table, locks) == PR_OK ? PR_OK : no_memory(reterr);
    if (rc == PR_OK) {
        link_add_text(link, text.data, &filter.args, ret);
        rc = link_run(link, reterr);
    }
    buf_fini(&text);
    buf_fini(&filter.text);
    return rc;
}

/* A page with less than there is room for is the last one; but not when it had to wait for its locks: what another
 * transaction took meanwhile is missing in it, and may be all of it.  So look once more, without waiting. */
static int page_is_last(struct link *link, const struct surroundings *s, const struct listing *l, const char *table,
                        int64_t after, struct array *ids, bool *ret, struct pr_error *reterr)
{
    PGresult *r = NULL;
    *ret = true;
    if (!l->locks)
        return PR_OK;
    int rc = page_read(link, s, l, table, after, false, ids, &r, reterr);
    *ret = rc == PR_OK && PQntuples(r) == 0;
    return rc;
}

/* One page after *after; outcome 1: there are no more, or it was told to stop. */
static int page_run(struct link *link, const struct surroundings *s, const struct listing *l, const char *table,
                    int64_t *after, struct array *ids, struct pr_error *reterr)
{
    PGresult  *r = NULL;
    size_t     mark = link->result_count;
    int        rc = page_read(link, s, l, table, *after, l->locks, ids, &r, reterr);
    for (int i = 0; rc == PR_OK && i < PQntuples(r); i++) {
        struct listed listed;
        listed_decode(r, i, s, l, &listed);
        *after = (int64_t)(l->table == LISTING_BOX ? listed.row >> HANDLE_LANE_BITS : listed.row);
        if (is_wanted(l, &listed))
            rc = l->found(l->arg, &listed, reterr);
    }
    bool is_last = rc == PR_OK && PQntuples(r) < PAGE_ROWS;
    if (rc >= PR_OK && l->page_end != NULL) {
        int ended = l->page_end(l->arg);
        rc = ended < 0 ? ended : rc;
    }
    if (rc == PR_OK && is_last)
        rc = page_is_last(link, s, l, table, *after, ids, &is_last, reterr);
    if (rc == PR_OK && is_last)
        rc = 1;
    link_forget_after(link, mark);
    return rc;
}

int pg_listing_run(struct link *link, const struct surroundings *s, const struct listing *l, struct pr_error *reterr)
{
    char         table[2 * BOX_NAME_MAX + 8];
    struct array ids;
    int64_t      after = (int64_t)(l->table == LISTING_BOX ? l->filter->after >> HANDLE_LANE_BITS : l->filter->after);
    const char  *names[] = { [LISTING_DEAD] = "dead_letter", [LISTING_DONE] = "done" };
    snprintf(table, sizeof(table), "\"%s\".\"%.*s\"", link->place->schema,
             l->table == LISTING_BOX ? (int)l->box.size : BOX_NAME_MAX, l->table == LISTING_BOX ? l->box.data : names[l->table]);
    array_init(&ids);
    int rc = PR_OK;
    while (rc == PR_OK)
        rc = page_run(link, s, l, table, &after, &ids, reterr);
    array_fini(&ids);
    return rc < 0 ? rc : PR_OK;
}
