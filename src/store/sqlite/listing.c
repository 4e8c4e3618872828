#include "store/sqlite/listing.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/fingerprint.h"
#include "core/id.h"
#include "store/sqlite/message.h"

#define NO_BOX ((pr_slice){ NULL, 0 })
#define SQL_MAX 16384
#define CONDITIONS_MAX 32
#define SCRATCH_BYTES 65536

/* ---- Surroundings ---------------------------------------------------------------------- */

static int names_read(struct conn *conn, const char *count_sql, const char *sql, int64_t now_us, struct arena *arena,
                      pr_slice **ret, size_t *ret_count, struct pr_error *reterr)
{
    int64_t room;
    sqlite3_stmt *statement;
    int rc = conn_int(conn, count_sql, NO_BOX, NULL, 0, &room, reterr);
    if (rc != PR_OK)
        return rc;
    *ret_count = 0;
    *ret = arena_alloc_array(arena, (size_t)room, sizeof(**ret));
    if (*ret == NULL)
        return error_set(reterr, PR_ENOMEM, "no memory for names");
    rc = conn_bind(conn, sql, NO_BOX, VALUES(V_INT(now_us), V_INT(room)), &statement, reterr);
    if (rc != PR_OK)
        return rc;
    while ((rc = conn_step(conn, statement, reterr)) > 0) {
        pr_slice name = slice_dup(arena, column_slice(statement, 0));
        if (name.data == NULL) {
            sqlite3_reset(statement);
            return error_set(reterr, PR_ENOMEM, "no memory for names");
        }
        (*ret)[(*ret_count)++] = name;
    }
    return rc;
}

static int flight_compare(const void *a, const void *b)
{
    const struct flight *x = a, *y = b;
    int order = slice_cmp(x->box, y->box);
    if (order != 0)
        return order;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* Receipts are JSON objects: json_each() takes them apart. */
#define FLIGHTS                                                                                                        \
    " FROM postrider_claim c JOIN postrider_instance i ON i.id = c.instance, json_each(c.entries) e"                   \
    " WHERE i.boot_id = ?1 AND i.lease_end > ?2"

static int flights_read(struct sqlite_store *store, struct conn *conn, struct arena *arena, struct surroundings *ret,
                        struct pr_error *reterr)
{
    const struct value alive[] = { V_TEXT(slice_from(store->boot_id)), V_INT(store_mono_us(store)) };
    int64_t room;
    sqlite3_stmt *statement;
    int rc = conn_int(conn, "SELECT count(*)" FLIGHTS, NO_BOX, alive, 2, &room, reterr);
    if (rc != PR_OK)
        return rc;
    ret->flights = arena_alloc_array(arena, (size_t)room, sizeof(*ret->flights));
    if (ret->flights == NULL)
        return error_set(reterr, PR_ENOMEM, "no memory for %lld receipts", (long long)room);
    rc = conn_bind(conn, "SELECT c.box, i.name, i.id, CAST(e.key AS INTEGER), e.value" FLIGHTS, NO_BOX, alive, 2,
                   &statement, reterr);
    if (rc != PR_OK)
        return rc;
    while ((rc = conn_step(conn, statement, reterr)) > 0 && ret->flight_count < (size_t)room) {
        struct flight *f = &ret->flights[ret->flight_count++];
        pr_slice id = column_slice(statement, 2);
        f->box = slice_dup(arena, column_slice(statement, 0));
        f->instance = slice_dup(arena, column_slice(statement, 1));
        memcpy(f->instance_id.bytes, id.data, min_size(id.size, sizeof(f->instance_id.bytes)));
        f->row = (uint64_t)sqlite3_column_int64(statement, 3);
        f->number = sqlite3_column_int(statement, 4);
        if (f->box.data == NULL || f->instance.data == NULL) {
            rc = error_set(reterr, PR_ENOMEM, "no memory for receipts");
            break;
        }
    }
    sqlite3_reset(statement);
    qsort(ret->flights, ret->flight_count, sizeof(*ret->flights), flight_compare);
    return rc < 0 ? rc : PR_OK;
}

int surroundings_read(struct sqlite_store *store, struct conn *conn, struct arena *arena, struct surroundings *ret,
                      struct pr_error *reterr)
{
    *ret = (struct surroundings){ .now_us = store_wall_us(store), .payload_max = store->payload_max };
    int rc = flights_read(store, conn, arena, ret, reterr);
    if (rc == PR_OK)
        rc = names_read(conn, "SELECT count(*) FROM postrider_endpoint",
                        "SELECT name FROM postrider_endpoint WHERE paused_until > ?1 ORDER BY name LIMIT ?2",
                        ret->now_us, arena, &ret->paused, &ret->paused_count, reterr);
    if (rc == PR_OK)
        rc = names_read(conn, "SELECT count(*) FROM postrider_box",
                        "SELECT name FROM postrider_box WHERE ?1 IS NOT NULL ORDER BY name LIMIT ?2", ret->now_us,
                        arena, &ret->boxes, &ret->box_count, reterr);
    return rc;
}

const struct flight *surroundings_flight(const struct surroundings *s, pr_slice box, uint64_t row, int attempts)
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

enum state surroundings_state(const struct surroundings *s, pr_slice box, uint64_t row, const struct pr_message *m,
                              pr_slice endpoint)
{
    if (surroundings_flight(s, box, row, m->attempts) != NULL)
        return STATE_IN_FLIGHT;
    enum state state = state_of_row(m, s->now_us);
    bool may_wait = state == STATE_READY || state == STATE_RETRYING;
    return may_wait && is_paused(s, endpoint) ? STATE_PAUSED : state;
}

/* ---- A filter as SQL ---------------------------------------------------------------------- */

struct sql {
    struct buf text;
    struct value values[CONDITIONS_MAX];
    size_t count;
};

/* " AND condition", with its one or two values. */
static void sql_and(struct sql *sql, const char *condition, struct value value)
{
    ASSERT(sql->count < CONDITIONS_MAX);
    buf_addf(&sql->text, " AND %s", condition);
    sql->values[sql->count++] = value;
}

static void sql_more(struct sql *sql, struct value value)
{
    ASSERT(sql->count < CONDITIONS_MAX);
    sql->values[sql->count++] = value;
}

static void filter_state(struct sql *sql, const struct filter *f, int64_t now_us)
{
    switch (f->state) {
    case STATE_PARKED: sql_and(sql, "due_at = ?", V_INT(PR_NEVER)); break;
    case STATE_HELD: buf_add_cstr(&sql->text, " AND instr(held_by, '/') < length(held_by)"); break;
    case STATE_DELAYED:
    case STATE_RETRYING: sql_and(sql, "due_at IS NOT NULL AND held_by IS NULL AND due_at > ?", V_INT(now_us)); break;
    case STATE_IN_FLIGHT:
        buf_add_cstr(&sql->text,
                     " AND row_id IN (SELECT CAST(e.key AS INTEGER) FROM postrider_claim c, json_each(c.entries) e)");
        break;
    default: break; /* found among all */
    }
}

static void filter_time(struct sql *sql, const struct filter *f, const char *column)
{
    if (f->since_us != 0) {
        buf_addf(&sql->text, " AND %s >= ?", column);
        sql_more(sql, V_INT(f->since_us));
    }
    if (f->until_us != 0) {
        buf_addf(&sql->text, " AND %s < ?", column);
        sql_more(sql, V_INT(f->until_us));
    }
}

static void filter_common(struct sql *sql, const struct filter *f, const struct id_forms *forms)
{
    if (forms != NULL) {
        sql_and(sql, "id IN (?, ?, ?)", V_ID(forms->id));
        sql_more(sql, V_ID_LOWER(*forms));
        sql_more(sql, V_ID_UPPER(*forms));
    }
    if (f->row != 0)
        sql_and(sql, "row_id = ?", V_INT(f->row));
    if (f->stream.size > 0)
        sql_and(sql, "stream = ?", V_TEXT(f->stream));
    if (f->error.size > 0)
        sql_and(sql, "instr(error, ?) > 0", V_TEXT(f->error));
    /* A star means the same to both; what else a glob can say is judged where the row was read. */
    if (f->type.size > 0 && memchr(f->type.data, '?', f->type.size) == NULL &&
        memchr(f->type.data, '[', f->type.size) == NULL)
        sql_and(sql, "type GLOB ?", V_TEXT(f->type));
}

static void filter_box(struct sql *sql, const struct filter *f, int64_t now_us)
{
    if (f->endpoint.size > 0)
        sql_and(sql, f->routing != NULL ? "destination IN (?, '')" : "destination = ?", V_TEXT(f->endpoint));
    if (f->reason != 0)
        sql_and(sql, "failure_reason = ?", V_INT(f->reason));
    filter_time(sql, f, "created_at");
    filter_state(sql, f, now_us);
}

static void filter_after_life(struct sql *sql, const struct filter *f, enum listing_table table, pr_slice box,
                              int64_t now_us)
{
    if (box.size > 0)
        sql_and(sql, "box = ?", V_TEXT(box));
    if (f->endpoint.size > 0)
        sql_and(sql, "endpoint = ?", V_TEXT(f->endpoint));
    if (table == LISTING_DONE) {
        sql_and(sql, "keep_until > ?", V_INT(now_us));
        if (f->reason != 0)
            sql_and(sql, "failure_reason = ?", V_INT(f->reason));
        filter_time(sql, f, "done_at");
        return;
    }
    if (f->reason != 0) {
        sql_and(sql, "(cause = ? OR failure_reason = ?)", V_INT(f->reason));
        sql_more(sql, V_INT(f->reason));
    }
    if (f->fingerprint.size > 0)
        sql_and(sql, "fingerprint = ?", V_TEXT(f->fingerprint));
    if (f->newest_row != 0)
        sql_and(sql, "row_id <= ?", V_INT((int64_t)f->newest_row));
    filter_time(sql, f, "died_at");
}

/* ---- Where to look ------------------------------------------------------------------------ */

/* Only what is not fresh has these. */
static bool is_never_fresh(const struct filter *f)
{
    return f->reason != 0 || f->error.size > 0 || f->fingerprint.size > 0 || f->state == STATE_PARKED ||
           f->state == STATE_HELD || f->state == STATE_DELAYED || f->state == STATE_RETRYING;
}

/* These are among the heads, and the index of heads says which of them are parked, and why. */
static bool is_parked(const struct listing *l)
{
    return l->table == LISTING_BOX && l->id == NULL && l->filter->state == STATE_PARKED;
}

#define PARKED_ROWS " \"%.*s\" INDEXED BY \"postrider_%.*s_heads\" WHERE " MESSAGE_IS_BACK

/* " FROM table index WHERE what the index says and row_id > after", in the order of rows. */
static void sql_rows(struct sql *sql, const struct listing *l, uint64_t after)
{
    const struct filter *f = l->filter;
    const struct {
        const char *index, *condition;
        pr_slice value;
    } keys[] = { { "stream", "stream = ?", l->by_stream ? f->stream : NO_BOX },
                 { "print", "fingerprint = ?", f->fingerprint },
                 { "stream", "stream = ?", f->stream },
                 { "endpoint", "endpoint = ?", f->endpoint },
                 { "box", "box = ?", l->box } };
    if (is_parked(l))
        buf_addf(&sql->text, " FROM" PARKED_ROWS, SLICE_ARGS(l->box), SLICE_ARGS(l->box));
    else if (l->table == LISTING_BOX && is_never_fresh(f))
        buf_addf(&sql->text,
                 " FROM \"%.*s\" INDEXED BY \"postrider_%.*s_back\" WHERE (due_at IS NOT NULL OR held_by IS NOT NULL)",
                 SLICE_ARGS(l->box), SLICE_ARGS(l->box));
    else if (l->table == LISTING_BOX)
        buf_addf(&sql->text, " FROM \"%.*s\" NOT INDEXED WHERE 1", SLICE_ARGS(l->box));
    else if (l->table == LISTING_DONE && l->box.size > 0) {
        buf_add_cstr(&sql->text, " FROM postrider_done INDEXED BY postrider_done_box WHERE box = ?");
        sql_more(sql, V_TEXT(l->box));
    } else if (l->table == LISTING_DONE)
        buf_add_cstr(&sql->text, " FROM postrider_done NOT INDEXED WHERE 1");
    else {
        size_t i = 0;
        while (i < ARRAY_LENGTH(keys) && keys[i].value.size == 0)
            i++;
        if (i < ARRAY_LENGTH(keys)) {
            buf_addf(&sql->text, " FROM postrider_dead_letter INDEXED BY postrider_dead_letter_%s WHERE %s",
                     keys[i].index, keys[i].condition);
            sql_more(sql, V_TEXT(keys[i].value));
        } else
            buf_add_cstr(&sql->text, " FROM postrider_dead_letter NOT INDEXED WHERE 1");
    }
    sql_and(sql, "row_id > ?", V_INT(after));
    buf_add_cstr(&sql->text, " ORDER BY row_id");
}

/* What is asked for by id or by receipt is found at once; and who wants all gets all. */
static bool is_bounded(const struct listing *l)
{
    return l->filter->look_max > 0 && l->id == NULL && l->filter->state != STATE_IN_FLIGHT;
}

/* Columns behind the message: box, endpoint, cause, limit, rule, fingerprint, note, when it ended, edited_as.  A bounded
 * look takes its rows in their order from the one that was found next: nothing sorts them. */
static void sql_select(struct sql *sql, const struct listing *l, uint64_t after)
{
    const char *tables[] = { [LISTING_DEAD] = "postrider_dead_letter", [LISTING_DONE] = "postrider_done" };
    pr_slice table = l->table == LISTING_BOX ? l->box : slice_from(tables[l->table]);
    buf_addf(&sql->text, "SELECT " MESSAGE_COLUMNS ", %s, ", l->with_payload ? "payload" : "NULL");
    if (l->table == LISTING_DEAD)
        buf_add_cstr(&sql->text, "box, endpoint, cause, limit_reached, rule, fingerprint, note, died_at, edited_as");
    else if (l->table == LISTING_DONE)
        buf_add_cstr(&sql->text, "box, endpoint, 0, 0, NULL, NULL, NULL, done_at, NULL");
    else
        buf_addf(&sql->text, "'%.*s', destination, 0, 0, NULL, NULL, NULL, 0, NULL", SLICE_ARGS(l->box));
    if (is_bounded(l)) {
        buf_add_cstr(&sql->text, " FROM (SELECT row_id AS looked_at");
        sql_rows(sql, l, after);
        buf_addf(&sql->text, " LIMIT ?) CROSS JOIN \"%.*s\" WHERE row_id = looked_at", SLICE_ARGS(table));
        sql_more(sql, V_INT(l->filter->look_max));
    } else {
        if (is_parked(l))
            buf_addf(&sql->text, " FROM" PARKED_ROWS, SLICE_ARGS(table), SLICE_ARGS(table));
        else
            buf_addf(&sql->text, " FROM \"%.*s\" WHERE 1", SLICE_ARGS(table));
        sql_and(sql, "row_id > ?", V_INT(after));
    }
}

static int sql_bind(struct conn *conn, struct sql *sql, sqlite3_stmt **ret, struct pr_error *reterr)
{
    int rc = buf_failed(&sql->text);
    if (rc != PR_OK)
        return error_set(reterr, rc, "no memory for a question");
    return conn_bind_made(conn, sql->text.data, sql->values, sql->count, ret, reterr);
}

/* ---- Rows -------------------------------------------------------------------------------- */

/* Does the rest of the filter fit, that SQL cannot say? */
static bool is_wanted(const struct filter *f, enum listing_table table, const struct listed *l)
{
    char print[FINGERPRINT_SIZE];
    if (f->type.size > 0 && !slice_glob(f->type, l->m.type))
        return false;
    if (f->state >= 0 && (enum state)f->state != l->state)
        return false;
    if (table == LISTING_BOX && !filter_fits_endpoint(f, &l->m))
        return false;
    if (f->fingerprint.size == 0 || table == LISTING_DEAD)
        return true;
    if (table == LISTING_DONE)
        return false;
    fingerprint(filter_endpoint_of(f, &l->m), l->m.type, l->m.reason, l->m.error, print);
    return l->m.reason != PR_REASON_NONE && slice_eq_cstr(f->fingerprint, print);
}

static int listed_decode(sqlite3_stmt *statement, const struct surroundings *s, enum listing_table table,
                         const struct filter *filter, struct arena *scratch, struct listed *l, struct pr_error *reterr)
{
    const int first = MESSAGE_COLUMN_COUNT;
    *l = (struct listed){ .state = table == LISTING_DEAD ? STATE_DEAD : STATE_DONE };
    int rc = message_decode(statement, scratch, s->payload_max, &l->m, &l->row, &l->bad, reterr);
    if (rc != PR_OK)
        return rc;
    l->box = column_slice(statement, first);
    l->endpoint = column_slice(statement, first + 1);
    l->cause = sqlite3_column_int(statement, first + 2);
    l->limit = sqlite3_column_int(statement, first + 3);
    l->rule = column_slice(statement, first + 4);
    l->fingerprint = column_slice(statement, first + 5);
    l->note = column_slice(statement, first + 6);
    l->died_us = sqlite3_column_int64(statement, first + 7);
    if (sqlite3_column_type(statement, first + 8) != SQLITE_NULL &&
        id_from_stored(column_slice(statement, first + 8), &l->edited_as) != PR_OK)
        l->edited_as = (pr_id){ { 0 } };
    if (table == LISTING_BOX) {
        const struct flight *f = surroundings_flight(s, l->box, l->row, l->m.attempts);
        l->state = surroundings_state(s, l->box, l->row, &l->m, filter_endpoint_of(filter, &l->m));
        l->instance = f != NULL ? f->instance : NO_BOX;
    }
    return PR_OK;
}

static int listing_walk(struct conn *conn, sqlite3_stmt *statement, const struct surroundings *s,
                        const struct listing *l, struct pr_error *reterr)
{
    struct arena scratch;
    struct listed listed;
    int rc;

    arena_init(&scratch, SCRATCH_BYTES);
    while ((rc = conn_step(conn, statement, reterr)) > 0) {
        arena_reset(&scratch);
        rc = listed_decode(statement, s, l->table, l->filter, &scratch, &listed, reterr);
        if (rc == PR_OK && is_wanted(l->filter, l->table, &listed))
            rc = l->found(l->arg, &listed, reterr);
        if (rc != PR_OK)
            break;
    }
    arena_fini(&scratch);
    return rc;
}

/* Who died since then has no lower row than this; outcome PR_UNKNOWN: nobody died. */
static int first_since(struct conn *conn, const struct listing *l, uint64_t *after, struct pr_error *reterr)
{
    int64_t first = 0;
    if (l->table != LISTING_DEAD || l->filter->since_us == 0)
        return PR_OK;
    int rc = conn_int(conn,
                      "SELECT coalesce(min(row_id), 0) FROM postrider_dead_letter INDEXED BY "
                      "postrider_dead_letter_died WHERE died_at >= ?1",
                      NO_BOX, VALUES(V_INT(l->filter->since_us)), &first, reterr);
    if (rc == PR_OK && first > 0 && (uint64_t)first - 1 > *after)
        *after = (uint64_t)first - 1;
    return rc == PR_OK && first == 0 ? PR_UNKNOWN : rc;
}

/* The last of the rows that were looked at; 0: there were no more. */
static int last_looked(struct conn *conn, const struct listing *l, uint64_t after, uint64_t *ret,
                       struct pr_error *reterr)
{
    struct sql sql = { .count = 0 };
    sqlite3_stmt *statement = NULL;
    buf_init(&sql.text, SQL_MAX);
    buf_add_cstr(&sql.text, "SELECT row_id");
    sql_rows(&sql, l, after);
    buf_add_cstr(&sql.text, " LIMIT 1 OFFSET ?");
    sql_more(&sql, V_INT(l->filter->look_max - 1));
    int rc = sql_bind(conn, &sql, &statement, reterr);
    if (rc == PR_OK)
        rc = conn_step(conn, statement, reterr);
    *ret = rc > 0 ? (uint64_t)sqlite3_column_int64(statement, 0) : 0;
    sqlite3_reset(statement);
    buf_fini(&sql.text);
    return rc < 0 ? rc : PR_OK;
}

int listing_run(struct conn *conn, const struct surroundings *s, const struct listing *l, uint64_t *ret_cut,
                struct pr_error *reterr)
{
    struct sql sql = { .count = 0 };
    struct id_forms forms;
    sqlite3_stmt *statement = NULL;
    uint64_t after = l->filter->after;
    int rc = first_since(conn, l, &after, reterr);

    if (l->filter->row > 0 && after < l->filter->row - 1)
        after = l->filter->row - 1;
    if (ret_cut != NULL)
        *ret_cut = 0;
    if (rc != PR_OK)
        return rc < 0 ? rc : PR_OK;
    if (l->id != NULL)
        id_forms_init(&forms, *l->id);
    buf_init(&sql.text, SQL_MAX);
    sql_select(&sql, l, after);
    filter_common(&sql, l->filter, l->id != NULL ? &forms : NULL);
    if (l->table == LISTING_BOX)
        filter_box(&sql, l->filter, s->now_us);
    else
        filter_after_life(&sql, l->filter, l->table, l->box, s->now_us);
    if (!is_bounded(l))
        buf_add_cstr(&sql.text, " ORDER BY row_id");

    rc = sql_bind(conn, &sql, &statement, reterr);
    if (rc == PR_OK)
        rc = listing_walk(conn, statement, s, l, reterr);
    sqlite3_reset(statement);
    buf_fini(&sql.text);
    if (rc == PR_OK && is_bounded(l) && ret_cut != NULL)
        rc = last_looked(conn, l, after, ret_cut, reterr);
    return rc;
}
