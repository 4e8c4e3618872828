/* The rows that a filter finds; see listing.h.
 *
 * Each page takes two statements.  The first looks at so many rows in the order of their places, each sort of rows
 * through its own index, and tells the keys of those that fit and how far it looked: so a filter that fits nothing
 * costs no more than any other.  The second reads the rows.  What SQL cannot say (globs, states, fingerprints) is
 * judged here. */
#include "store/postgres/listing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/fingerprint.h"

#define SQL_MAX (1u << 18)
#define PAGE_ROWS 500        /* found in one page, with their payloads */
#define PAGE_LOOK LOOK_MAX   /* looked at in one page ... */
#define PAGE_LOOK_FIRST 2000 /* ... and in the first: mostly it finds enough */

/* ---- Surroundings ------------------------------------------------------------------------------ */

static int flight_compare(const void *a, const void *b)
{
    const struct flight *x = a, *y = b;
    int order = slice_cmp(x->box, y->box);
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

static int take_names(const PGresult *r, struct arena *arena, pr_slice **ret, size_t *ret_count,
                      struct pr_error *reterr)
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
    PGresult *clock, *flights, *paused, *boxes;
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
    const struct flight *f =
        s->flight_count > 0 ? bsearch(&key, s->flights, s->flight_count, sizeof(key), flight_compare) : NULL;
    return f != NULL && f->number > attempts ? f : NULL; /* else it was judged meanwhile */
}

static bool is_paused(const struct surroundings *s, pr_slice endpoint)
{
    for (size_t i = 0; i < s->paused_count; i++)
        if (slice_eq(s->paused[i], endpoint))
            return true;
    return false;
}

enum state pg_surroundings_state(const struct surroundings *s, pr_slice box, uint64_t row, const struct pr_message *m,
                                 pr_slice endpoint)
{
    if (pg_surroundings_flight(s, box, row, m->attempts) != NULL)
        return STATE_IN_FLIGHT;
    enum state state = state_of_row(m, s->now_us);
    bool may_wait = state == STATE_READY || state == STATE_RETRYING;
    return may_wait && is_paused(s, endpoint) ? STATE_PAUSED : state;
}

/* ---- A filter as SQL ---------------------------------------------------------------------------- */

struct sql {
    struct buf text;
    struct args args;
    struct array ids, handles;
    char like[2 * PR_TYPE_MAX + 1]; /* the glob of types, as SQL says it */
    int handles_arg;                /* the number of its parameter */
    char key[64];                   /* " AND condition": what the index that is walked through says */
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

/* A star means the same to both; what else a glob can say is judged where the row was read. */
static void sql_type(struct sql *sql, pr_slice glob)
{
    size_t size = 0;
    if (glob.size == 0 || glob.size > PR_TYPE_MAX || memchr(glob.data, '?', glob.size) != NULL)
        return;
    for (size_t i = 0; i < glob.size; i++) {
        if (strchr("\\%_", glob.data[i]) != NULL)
            sql->like[size++] = '\\';
        sql->like[size++] = glob.data[i] == '*' ? '%' : glob.data[i];
    }
    sql_text(sql, "b.type LIKE $", PR_BYTES(sql->like, size));
}

static void filter_state(struct sql *sql, const struct filter *f, const struct surroundings *s)
{
    switch (f->state) {
    case STATE_PARKED: sql_and(sql, "b.due_at = 'infinity'"); break;
    case STATE_HELD: sql_and(sql, "strpos(b.held_by, '/') < length(b.held_by)"); break;
    case STATE_DELAYED:
    case STATE_RETRYING: sql_time(sql, "b.held_by IS NULL AND b.due_at > $", s->now_us); break;
    default: break; /* found among all */
    }
}

/* By stream a release means the followers: what is held, and what has not been met yet behind a
 * failed or parked head of the same way.  Where a row without destination goes is not known. */
static const char FOLLOWERS[] =
    " AND (strpos(b.held_by, '/') < length(b.held_by) OR ((b.due_at IS NULL OR b.held_by IS NOT NULL) AND EXISTS "
    "(SELECT FROM %1$s h WHERE h.stream = b.stream"
    " AND h.seq < b.seq AND (h.destination = '' OR b.destination = '' OR h.destination = b.destination)"
    " AND h.due_at IS NOT NULL AND (h.due_at = 'infinity' OR (NOT h.released AND"
    " ((h.status & 32768) <> 0 OR h.attempts > 0))))))";

/* The one that finds the fewest rows. */
static void sql_key(struct sql *sql, const struct listing *l)
{
    const struct filter *f = l->filter;
    const struct {
        const char *before, *behind; /* the number of the value; as the index has it */
        pr_slice value;
    } keys[] = { { "left(b.stream, 255) = left($", ", 255)", l->by_stream ? f->stream : NO_BOX },
                 { "b.fingerprint = $", "", l->table == LISTING_DEAD ? f->fingerprint : NO_BOX },
                 { "left(b.stream, 255) = left($", ", 255)", l->table == LISTING_DEAD ? f->stream : NO_BOX },
                 { "b.endpoint = $", "", l->table == LISTING_DEAD ? f->endpoint : NO_BOX },
                 { "b.box = $", "", l->table != LISTING_BOX ? l->box : NO_BOX } };
    for (size_t i = 0; i < ARRAY_LENGTH(keys); i++)
        if (keys[i].value.size > 0) {
            arg_text(&sql->args, keys[i].value);
            snprintf(sql->key, sizeof(sql->key), " AND %s%d%s", keys[i].before, sql->args.count, keys[i].behind);
            return;
        }
}

static void sql_filter(struct sql *sql, const struct listing *l, const struct surroundings *s, const char *table)
{
    const struct filter *f = l->filter;
    if (f->id_count > 0) {
        array_begin(&sql->ids, OID_UUID);
        for (size_t i = 0; i < f->id_count; i++)
            array_id(&sql->ids, f->ids[i]);
        arg_array(&sql->args, &sql->ids);
        sql_and(sql, "b.id = ANY ($)");
        snprintf(sql->key, sizeof(sql->key), " AND b.id = ANY ($%d)", sql->args.count);
    } else {
        sql_key(sql, l);
    }
    if (f->row != 0) {
        arg_i64(&sql->args, (int64_t)f->row);
        sql_and(sql, "b.row_id = $");
    }
    sql_text(sql, "b.stream = $", f->stream);
    sql_type(sql, f->type);
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
    if (f->newest_row != 0) {
        arg_i64(&sql->args, (int64_t)f->newest_row);
        sql_and(sql, "b.row_id <= $");
    }
    sql_time(sql, "b.died_at >= $", f->since_us);
    sql_time(sql, "b.died_at < $", f->until_us);
}

/* ---- Where to look ------------------------------------------------------------------------------ */

/* What a filter asks of a row. */
#define BOX_LOOKED(place)                                                                                              \
    "SELECT b.id, b.destination, b.stream, b.type, b.error, b.failure_reason, b.created_at, b.due_at, b.held_by, "     \
    "b.seq, b.row_id,"                                                                                                 \
    " " place " AS place"
#define PLACE "coalesce(b.row_id, b.seq)"
#define DEAD_LOOKED                                                                                                    \
    "SELECT b.id, b.box, b.endpoint, b.stream, b.type, b.error, b.failure_reason, b.cause, b.fingerprint, b.died_at,"  \
    " b.row_id, b.row_id AS place"
#define DONE_LOOKED                                                                                                    \
    "SELECT b.id, b.box, b.endpoint, b.stream, b.type, b.error, b.failure_reason, b.done_at, b.keep_until, b.row_id, " \
    "b.row_id AS place"
#define NOT_FRESH "(b.due_at IS NOT NULL OR b.held_by IS NOT NULL)"

static bool may_be_fresh(const struct filter *f)
{
    return f->state != STATE_PARKED && f->state != STATE_HELD && f->state != STATE_DELAYED &&
           f->state != STATE_RETRYING && f->reason == 0 && f->error.size == 0 && f->fingerprint.size == 0;
}

/* Rows of a box in the order of their places, without sorting it: fresh ones lane by lane, and all
 * others, each through its own index; the server merges them and stops when there are enough (it
 * does so only because each has its own order and limit). */
static void look_in_lanes(struct buf *text, const struct filter *f, const char *table, size_t look)
{
    if (f->state == STATE_PARKED) { /* these stand together in the index of what is due */
        buf_addf(
            text,
            "(" BOX_LOOKED(
                PLACE) " FROM (SELECT " PLACE " AS at FROM %s b WHERE b.due_at = 'infinity' AND b.held_by IS NULL"
                       " AND " PLACE
                       " > $1::bigint ORDER BY 1 LIMIT %zu) p CROSS JOIN LATERAL (SELECT * FROM %s b WHERE " NOT_FRESH
                       " AND " PLACE " = p.at OFFSET 0) b ORDER BY " PLACE " LIMIT %zu)",
            table, look, table, look);
        return;
    }
    buf_addf(text,
             "(" BOX_LOOKED(PLACE) " FROM %s b WHERE " NOT_FRESH " AND " PLACE " > $1::bigint ORDER BY " PLACE
                                   " LIMIT %zu)",
             table, look);
    for (unsigned lane = 0; lane < LANE_COUNT && may_be_fresh(f); lane++)
        if (f->stream.size == 0 || lane == lane_of(f->stream, (pr_id){ { 0 } }))
            buf_addf(text,
                     " UNION ALL (" BOX_LOOKED(
                         "b.seq") " FROM %s b WHERE b.lane = %u::smallint AND b.due_at IS NULL"
                                  " AND b.held_by IS NULL AND b.seq > $1::bigint ORDER BY b.seq LIMIT %zu)",
                     table, lane, look);
}

/* What is on a receipt, where it can be. */
static void look_at_flights(struct buf *text, int handles_arg, const char *table)
{
    buf_addf(text,
             BOX_LOOKED(
                 "b.seq") " FROM unnest($%d::bigint[]) h JOIN %s b ON b.lane = (h & 63)::smallint AND b.seq = h >> 6"
                          " WHERE b.due_at IS NULL AND b.held_by IS NULL AND b.seq > $1::bigint UNION ALL " BOX_LOOKED(
                              PLACE) " FROM unnest($%d::bigint[]) h JOIN %s b ON " PLACE " = h >> 6 WHERE " NOT_FRESH
                                     " AND " PLACE " > $1::bigint",
             handles_arg, table, handles_arg, table);
}

static void sql_looked(struct buf *text, const struct sql *sql, const struct listing *l, const char *table, size_t look)
{
    if (l->table == LISTING_BOX && l->filter->id_count > 0)
        buf_addf(text, BOX_LOOKED(PLACE) " FROM %s b WHERE " PLACE " > $1::bigint%s", table, sql->key);
    else if (l->table == LISTING_BOX && sql->handles_arg > 0)
        look_at_flights(text, sql->handles_arg, table);
    else if (l->table == LISTING_BOX)
        look_in_lanes(text, l->filter, table, look);
    else
        buf_addf(text, "%s FROM %s b WHERE b.row_id > $1::bigint%s",
                 l->table == LISTING_DEAD ? DEAD_LOOKED : DONE_LOOKED, table, sql->key);
}

/* The keys of those that fit, and how far it looked: last and looked come also where nothing fits. */
static void sql_find(struct buf *text, const struct sql *sql, const struct listing *l, const char *table, size_t look)
{
    pr_slice conditions = { sql->text.data, sql->text.size };
    const char *destination = l->table == LISTING_BOX ? "b.destination" : "''";
    buf_addf(text,
             "WITH k AS MATERIALIZED (SELECT b.place, CASE WHEN true%.*s THEN b.id END AS id, %s AS destination FROM "
             "(SELECT * FROM (",
             SLICE_ARGS(conditions), destination);
    sql_looked(text, sql, l, table, look);
    buf_addf(text,
             ") b ORDER BY b.place LIMIT %zu) b) SELECT e.last, e.looked, f.place, f.id, f.destination"
             " FROM (SELECT max(place) AS last, count(*) AS looked FROM k) e LEFT JOIN (SELECT * FROM k"
             " WHERE id IS NOT NULL ORDER BY place LIMIT $3::bigint) f ON true WHERE $2::bigint IS NOT NULL ORDER BY "
             "f.place",
             look);
}

/* Columns: row, the message, box, endpoint, cause, limit, rule, fingerprint, note, when it ended, edited_as. */
static void sql_select(struct buf *text, const struct listing *l, const char *table)
{
    bool in_box = l->table == LISTING_BOX;
    buf_addf(text, "SELECT %s, %s", in_box ? HANDLE : "b.row_id",
             l->with_payload ? MESSAGE_COLUMNS(MESSAGE_PAYLOAD("$2::bigint")) : MESSAGE_COLUMNS(MESSAGE_NO_PAYLOAD));
    if (l->table == LISTING_DEAD)
        buf_add_cstr(
            text,
            ", b.box, b.endpoint, b.cause, b.limit_reached, b.rule, b.fingerprint, b.note, b.died_at, b.edited_as");
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
    char print[FINGERPRINT_SIZE];
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

/* ---- Pages -------------------------------------------------------------------------------------- */

struct page {
    struct sql sql;
    struct array keys, destinations; /* of what was found */
    int64_t after;                   /* look behind this place; then: where it looked last */
    size_t look, rows;               /* so many at most; then: how many it looked at and found */
    bool is_last;
};

/* Its filter stands in both statements, with the same arguments: first of all the place behind which it begins,
 * the limit of payloads, and how many are wanted. */
static void page_begin(struct page *page, const struct listing *l, const struct surroundings *s, const char *table)
{
    struct sql *sql = &page->sql;
    sql->args.count = sql->handles_arg = 0;
    sql->key[0] = '\0';
    buf_reset(&sql->text);
    arg_i64(&sql->args, page->after);
    arg_i64(&sql->args, (int64_t)min_size(s->payload_max, INT64_MAX));
    arg_i64(&sql->args, (int64_t)page->rows);
    if (l->table == LISTING_BOX && l->filter->state == STATE_IN_FLIGHT) {
        array_begin(&sql->handles, OID_INT8);
        for (size_t i = 0; i < s->flight_count; i++)
            if (slice_eq(s->flights[i].box, l->box))
                array_i64(&sql->handles, (int64_t)s->flights[i].row);
        arg_array(&sql->args, &sql->handles);
        sql->handles_arg = sql->args.count;
    }
    sql_filter(sql, l, s, table);
}

static int text_run(struct link *link, struct buf *text, const struct sql *sql, PGresult **ret, struct pr_error *reterr)
{
    if (buf_failed(text) != PR_OK || buf_failed(&sql->text) != PR_OK)
        return no_memory(reterr);
    link_add_text(link, text->data, &sql->args, ret);
    return link_run(link, reterr);
}

static int page_find(struct link *link, struct page *page, const struct listing *l, const char *table,
                     struct pr_error *reterr)
{
    struct buf text;
    PGresult *r = NULL;
    size_t rows = 0, looked = 0;
    buf_init(&text, SQL_MAX);
    sql_find(&text, &page->sql, l, table, page->look);
    int rc = text_run(link, &text, &page->sql, &r, reterr);
    buf_fini(&text);
    if (rc != PR_OK)
        return rc;
    array_begin(&page->keys, l->table == LISTING_BOX ? OID_UUID : OID_INT8);
    array_begin(&page->destinations, OID_TEXT);
    for (int i = 0; i < PQntuples(r); i++) {
        looked = (size_t)field_i64(r, i, 1);
        if (field_is_null(r, i, 2))
            break;
        if (l->table == LISTING_BOX) {
            array_id(&page->keys, field_id(r, i, 3));
            array_text(&page->destinations, field_slice(r, i, 4));
        } else {
            array_i64(&page->keys, field_i64(r, i, 2));
        }
        rows++;
    }
    /* Where more fit than were asked for, the next page begins behind the last of them. */
    bool full = rows == page->rows;
    page->is_last = !full && looked < page->look;
    if (looked > 0)
        page->after = field_i64(r, full ? PQntuples(r) - 1 : 0, full ? 2 : 0);
    page->look = looked;
    page->rows = rows;
    return PR_OK;
}

static int page_read(struct link *link, struct page *page, const struct listing *l, const char *table, PGresult **ret,
                     struct pr_error *reterr)
{
    bool in_box = l->table == LISTING_BOX;
    const char *place = in_box ? "coalesce(b.row_id, b.seq)" : "b.row_id";
    struct buf text;
    buf_init(&text, SQL_MAX);
    sql_select(&text, l, table);
    arg_array(&page->sql.args, &page->keys);
    buf_addf(&text, " JOIN unnest($%d", page->sql.args.count);
    if (in_box) {
        arg_array(&page->sql.args, &page->destinations);
        buf_addf(&text, "::uuid[], $%d::text[]) AS p(id, destination) ON b.id = p.id AND b.destination = p.destination",
                 page->sql.args.count);
    } else {
        buf_add_cstr(&text, "::bigint[]) AS p(row_id) ON b.row_id = p.row_id");
    }
    buf_addf(&text,
             " WHERE $1::bigint IS NOT NULL AND $2::bigint IS NOT NULL AND $3::bigint IS NOT NULL%.*s ORDER BY %s%s",
             (int)page->sql.text.size, page->sql.text.data, place, l->locks ? " FOR UPDATE OF b" : "");
    int rc = text_run(link, &text, &page->sql, ret, reterr);
    buf_fini(&text);
    return rc;
}

/* One page after *after; outcome 1: it was told to stop. */
static int page_run(struct link *link, const struct surroundings *s, const struct listing *l, const char *table,
                    struct page *page, struct pr_error *reterr)
{
    PGresult *r = NULL;
    size_t mark = link->result_count;
    page_begin(page, l, s, table);
    int rc = page_find(link, page, l, table, reterr);
    if (rc == PR_OK && page->rows > 0)
        rc = page_read(link, page, l, table, &r, reterr);
    for (int i = 0; rc == PR_OK && r != NULL && i < PQntuples(r); i++) {
        struct listed listed;
        listed_decode(r, i, s, l, &listed);
        if (is_wanted(l, &listed))
            rc = l->found(l->arg, &listed, reterr);
    }
    if (rc >= PR_OK && l->page_end != NULL) {
        int ended = l->page_end(l->arg);
        rc = ended < 0 ? ended : rc;
    }
    link_forget_after(link, mark);
    return rc;
}

/* Who died since then has no lower row than this.  Outcome PR_UNKNOWN: nobody died.  (Asked for the lowest row alone,
 * the server would walk through all rows until one fits.) */
static int first_since(struct link *link, const struct listing *l, int64_t *after, struct pr_error *reterr)
{
    PGresult *r;
    struct args args = { .count = 0 };
    if (l->table != LISTING_DEAD || l->filter->since_us == 0)
        return PR_OK;
    arg_time(&args, l->filter->since_us);
    int rc = link_do(
        link, "SELECT min(d.row_id) FROM (SELECT row_id FROM {schema}.dead_letter WHERE died_at >= $1 OFFSET 0) d",
        NO_BOX, &args, &r, reterr);
    if (rc != PR_OK)
        return rc;
    if (field_is_null(r, 0, 0))
        return PR_UNKNOWN;
    *after = max64(*after, field_i64(r, 0, 0) - 1);
    return PR_OK;
}

static int pages_run(struct link *link, const struct surroundings *s, const struct listing *l, struct page *page,
                     uint64_t *ret_cut, struct pr_error *reterr)
{
    char table[2 * BOX_NAME_MAX + 8];
    const char *names[] = { [LISTING_DEAD] = "dead_letter", [LISTING_DONE] = "done" };
    size_t looked = 0, look_max = l->filter->look_max > 0 && l->filter->id_count == 0 ? l->filter->look_max : SIZE_MAX;
    if (l->table == LISTING_BOX && l->filter->stream.size > 0)
        look_max /= 4; /* rows of one lane, and each lies on another page */
    int rc = first_since(link, l, &page->after, reterr);
    snprintf(table, sizeof(table), "\"%s\".\"%.*s\"", link->conninfo->schema,
             l->table == LISTING_BOX ? (int)l->box.size : BOX_NAME_MAX,
             l->table == LISTING_BOX ? l->box.data : names[l->table]);
    while (rc == PR_OK && !page->is_last && looked < look_max) {
        page->look = l->by_stream ? PAGE_ROWS : looked == 0 ? PAGE_LOOK_FIRST : PAGE_LOOK;
        page->look = min_size(page->look, look_max - looked);
        page->rows = l->wanted > 0 ? min_size(l->wanted, PAGE_ROWS) : PAGE_ROWS;
        rc = page_run(link, s, l, table, page, reterr);
        looked += page->look;
    }
    if (rc == PR_OK && !page->is_last && ret_cut != NULL)
        *ret_cut = (uint64_t)page->after << (l->table == LISTING_BOX ? HANDLE_LANE_BITS : 0);
    return rc < 0 ? rc : PR_OK;
}

int pg_listing_run(struct link *link, const struct surroundings *s, const struct listing *l, uint64_t *ret_cut,
                   struct pr_error *reterr)
{
    struct page page = { .after = (int64_t)(l->table == LISTING_BOX ? l->filter->after >> HANDLE_LANE_BITS
                                                                    : l->filter->after) };
    if (l->filter->row > 0 && (uint64_t)page.after < l->filter->row - 1)
        page.after = (int64_t)(l->filter->row - 1);
    struct array *const arrays[] = { &page.sql.ids, &page.sql.handles, &page.keys, &page.destinations };
    if (ret_cut != NULL)
        *ret_cut = 0;
    buf_init(&page.sql.text, SQL_MAX);
    for (size_t i = 0; i < ARRAY_LENGTH(arrays); i++)
        array_init(arrays[i]);
    int rc = pages_run(link, s, l, &page, ret_cut, reterr);
    for (size_t i = 0; i < ARRAY_LENGTH(arrays); i++)
        array_fini(arrays[i]);
    buf_fini(&page.sql.text);
    return rc;
}
