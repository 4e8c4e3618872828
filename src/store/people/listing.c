/* The rows that match a filter; see listing.h.
 *
 * Each page takes two statements.  The first looks at a bounded number of rows in their order, through the index that
 * finds the fewest, and returns the keys of those that match, or how far it looked: so a filter that matches nothing
 * costs no more than any other.  The second reads the rows.  What SQL cannot express (globs, states, fingerprints) is
 * decided here.
 *
 * The statements are composed of the parts called listing_... in statement_list.h: a part with a ? has one value,
 * however often it occurs. */
#include "store/people/listing.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "core/fingerprint.h"
#include "core/lane.h"

#define SQL_MAX (1u << 18)
#define PAGE_ROWS 500        /* rows found in one page, with their payloads */
#define PAGE_LOOK LOOK_MAX   /* rows looked at in one page ... */
#define PAGE_LOOK_FIRST 2000 /* ... and in the first page, which is mostly enough */
#define PAGE_VALUES 32
#define PAGE_ARENA_BYTES 16384

struct page {
    struct sql *sql;
    const struct listing_context *s;
    const struct listing *l;
    struct buf looked, conditions, text; /* where rows are looked at; " AND ..."; a composed statement */
    struct value values[PAGE_VALUES];    /* the first ones are VALUE_AFTER and so on */
    size_t value_count;
    struct arena arena;
    int64_t *hand_outs;

    uint64_t after;    /* in: look behind this row; out: the last row looked at */
    size_t look, rows; /* in: bounds; out: number of rows looked at and found */
    bool is_last;
    int64_t keys[PAGE_ROWS]; /* of the rows found; a database uses the keys that it has an index for */
    pr_id ids[PAGE_ROWS];
    pr_slice destinations[PAGE_ROWS];
};

enum { VALUE_AFTER, VALUE_PAYLOAD_MAX, VALUE_WANTED, VALUES_FIXED };

static int no_memory(struct page *p)
{
    return error_set(p->sql->reterr, PR_ENOMEM, "out of memory for the answer");
}

/* ---- Texts ------------------------------------------------------------------------------------ */

static pr_slice part_text(const struct page *p, enum sql_statement part)
{
    return slice_from(statement_text(part, p->sql->ops->dialect));
}

/* Appends a part, with the number of the latest value for each ? in it. */
static void part_add(struct page *p, struct buf *b, enum sql_statement part)
{
    static const pr_slice look = { "{look}", 6 };
    for (pr_slice text = part_text(p, part); text.size > 0;) {
        size_t used = 1;
        if (slice_starts_with(text, look)) {
            used = look.size;
            buf_addf(b, "%zu", p->look);
        } else {
            buf_add_char(b, text.data[0]);
        }
        bool is_own = text.data[0] == '?' && (text.size == 1 || text.data[1] < '0' || text.data[1] > '9');
        if (is_own)
            buf_addf(b, "%zu", p->value_count);
        text = (pr_slice){ text.data + used, text.size - used };
    }
}

static void part_with(struct page *p, struct buf *b, enum sql_statement part, struct value value)
{
    ASSERT(p->value_count < PAGE_VALUES);
    p->values[p->value_count++] = value;
    part_add(p, b, part);
}

static void if_text(struct page *p, enum sql_statement part, pr_slice text)
{
    if (text.size > 0)
        part_with(p, &p->conditions, part, V_TEXT(text));
}

static void if_time(struct page *p, enum sql_statement part, int64_t us)
{
    if (us != 0)
        part_with(p, &p->conditions, part, V_TIME(us));
}

static void if_number(struct page *p, enum sql_statement part, int64_t number)
{
    if (number != 0)
        part_with(p, &p->conditions, part, V_INT(number));
}

struct hole {
    const char *name;
    pr_slice text;
};

/* Fills the holes of the template into p->text; the port replaces what else stands in braces. */
static void text_fill(struct page *p, pr_slice template, const struct hole *holes, size_t count)
{
    buf_reset(&p->text);
    while (template.size > 0) {
        const char *end = template.data[0] == '{' ? memchr(template.data, '}', template.size) : NULL;
        size_t i = 0, used = end != NULL ? (size_t)(end - template.data) + 1 : 1;
        while (end != NULL && i < count && !slice_eq_cstr((pr_slice){ template.data + 1, used - 2 }, holes[i].name))
            i++;
        if (end != NULL && i < count) {
            buf_add_slice(&p->text, holes[i].text);
        } else {
            used = 1;
            buf_add_char(&p->text, template.data[0]);
        }
        template = (pr_slice){ template.data + used, template.size - used };
    }
}

/* ---- Conditions ------------------------------------------------------------------------------- */

/* Routes may send a message without a destination to a paused endpoint, too. */
static void if_paused(struct page *p)
{
    const struct listing_context *s = p->s;
    enum sql_statement part =
        p->l->filter->routing != NULL ? SQL_listing_if_destinations_or_none : SQL_listing_if_destinations;
    part_with(p, &p->conditions, part, V_TEXTS(s->paused, s->paused_count));
}

static void if_state(struct page *p, int state)
{
    switch (state) {
    case STATE_PARKED: part_add(p, &p->conditions, SQL_listing_if_parked); break;
    case STATE_HELD: part_add(p, &p->conditions, SQL_listing_if_held); break;
    case STATE_DELAYED:
    case STATE_RETRYING: if_time(p, SQL_listing_if_waits, p->s->now_us); break;
    case STATE_PAUSED: if_paused(p); break;
    default: break; /* found among all rows */
    }
}

static void conditions_of_box(struct page *p, const struct filter *f)
{
    if_text(p, f->routing != NULL ? SQL_listing_if_destination_or_none : SQL_listing_if_destination, f->endpoint);
    if_number(p, SQL_listing_if_reason, f->reason);
    if_time(p, SQL_listing_if_created_since, f->since_us);
    if_time(p, SQL_listing_if_created_until, f->until_us);
    if_state(p, f->state);
    if (p->l->followers)
        part_with(p, &p->conditions, SQL_listing_if_follower, V_TEXT(f->stream));
}

static void conditions_of_done(struct page *p, const struct filter *f)
{
    if_time(p, SQL_listing_if_kept, p->s->now_us);
    if_number(p, SQL_listing_if_reason, f->reason);
    if_time(p, SQL_listing_if_done_since, f->since_us);
    if_time(p, SQL_listing_if_done_until, f->until_us);
}

static void conditions_of_dead(struct page *p, const struct filter *f)
{
    if_number(p, SQL_listing_if_cause_or_reason, f->reason);
    if_text(p, SQL_listing_if_fingerprint, f->fingerprint);
    if_number(p, SQL_listing_if_not_newer, (int64_t)f->newest_row);
    if_time(p, SQL_listing_if_died_since, f->since_us);
    if_time(p, SQL_listing_if_died_until, f->until_us);
}

/* A lone star means the same everywhere; other globs are decided after the row was read. */
static bool glob_is_plain(pr_slice glob)
{
    return glob.size > 0 && memchr(glob.data, '?', glob.size) == NULL && memchr(glob.data, '[', glob.size) == NULL;
}

static void conditions_make(struct page *p)
{
    const struct filter *f = p->l->filter;
    if (f->id_count > 0)
        part_with(p, &p->conditions, SQL_listing_if_ids, V_IDS(f->ids, f->id_count));
    if_number(p, SQL_listing_if_row, (int64_t)f->row);
    if_text(p, SQL_listing_if_stream, f->stream);
    if (glob_is_plain(f->type))
        if_text(p, SQL_listing_if_type, f->type);
    if_text(p, p->l->table == LISTING_DEAD ? SQL_listing_if_error_or_note : SQL_listing_if_error, f->error);
    if_text(p, SQL_listing_if_correlation, f->correlation_id);
    if (p->l->table == LISTING_BOX) {
        conditions_of_box(p, f);
        return;
    }
    if_text(p, SQL_listing_if_box, p->l->box);
    if_text(p, SQL_listing_if_endpoint, f->endpoint);
    if (p->l->table == LISTING_DONE)
        conditions_of_done(p, f);
    else
        conditions_of_dead(p, f);
}

/* ---- Where to look ---------------------------------------------------------------------------- */

static bool may_be_fresh(const struct filter *f)
{
    return !f->not_fresh && f->state != STATE_PARKED && f->state != STATE_HELD && f->state != STATE_DELAYED &&
           f->state != STATE_RETRYING && f->reason == 0 && f->error.size == 0 && f->fingerprint.size == 0;
}

/* Rows on a receipt, where the filter's state allows only those. */
static int look_at_handed_out(struct page *p)
{
    size_t count = 0;
    p->hand_outs = arena_alloc_array(&p->arena, p->s->hand_out_count, sizeof(p->hand_outs[0]));
    if (p->hand_outs == NULL)
        return no_memory(p);
    for (size_t i = 0; i < p->s->hand_out_count; i++)
        if (slice_eq(p->s->hand_outs[i].box, p->l->box))
            p->hand_outs[count++] = (int64_t)p->s->hand_outs[i].row;
    part_with(p, &p->looked, SQL_listing_look_handed_out, V_INTS(p->hand_outs, count));
    return PR_OK;
}

/* Where fresh rows have an index for each lane, the server merges the lanes. */
static void look_in_lanes(struct page *p)
{
    const pr_slice stream = p->l->filter->stream, text = part_text(p, SQL_listing_look_lane);
    for (unsigned lane = 0; lane < LANE_COUNT && text.size > 0; lane++) {
        char number[16], look[24];
        const struct hole holes[] = {
            { "lane", PR_BYTES(number, (size_t)snprintf(number, sizeof(number), "%u", lane)) },
            { "look", PR_BYTES(look, (size_t)snprintf(look, sizeof(look), "%zu", p->look)) }
        };
        if (stream.size > 0 && lane != lane_of(stream, (pr_id){ { 0 } }))
            continue;
        text_fill(p, text, holes, ARRAY_LENGTH(holes));
        buf_add_slice(&p->looked, buf_slice(&p->text));
    }
}

static int look_in_box(struct page *p)
{
    const struct filter *f = p->l->filter;
    if (f->id_count > 0)
        part_with(p, &p->looked, SQL_listing_look_box_ids, V_IDS(f->ids, f->id_count));
    else if (f->state == STATE_IN_FLIGHT)
        return look_at_handed_out(p);
    else if (f->state == STATE_PARKED)
        part_add(p, &p->looked, SQL_listing_look_parked);
    else
        part_add(p, &p->looked, may_be_fresh(f) ? SQL_listing_look_all : SQL_listing_look_back);
    if (f->id_count == 0 && may_be_fresh(f))
        look_in_lanes(p);
    return PR_OK;
}

/* Through the key that finds the fewest rows. */
static void look_in_dead(struct page *p)
{
    const struct filter *f = p->l->filter;
    const struct {
        enum sql_statement part;
        pr_slice value;
    } keys[] = { { SQL_listing_look_dead_stream, p->l->by_stream ? f->stream : NO_BOX },
                 { SQL_listing_look_dead_print, f->fingerprint },
                 { SQL_listing_look_dead_stream, f->stream },
                 { SQL_listing_look_dead_endpoint, f->endpoint },
                 { SQL_listing_look_dead_box, p->l->box } };
    size_t i = 0;
    while (i < ARRAY_LENGTH(keys) && keys[i].value.size == 0)
        i++;
    if (f->id_count > 0)
        part_with(p, &p->looked, SQL_listing_look_dead_ids, V_IDS(f->ids, f->id_count));
    else if (i < ARRAY_LENGTH(keys))
        part_with(p, &p->looked, keys[i].part, V_TEXT(keys[i].value));
    else
        part_add(p, &p->looked, SQL_listing_look_dead);
}

static void look_in_done(struct page *p)
{
    const struct filter *f = p->l->filter;
    if (f->id_count > 0)
        part_with(p, &p->looked, SQL_listing_look_done_ids, V_IDS(f->ids, f->id_count));
    else if (p->l->box.size > 0)
        part_with(p, &p->looked, SQL_listing_look_done_box, V_TEXT(p->l->box));
    else
        part_add(p, &p->looked, SQL_listing_look_done);
}

static int page_begin(struct page *p)
{
    arena_reset(&p->arena);
    buf_reset(&p->looked);
    buf_reset(&p->conditions);
    if (filter_is_empty(p->l->filter) && p->l->table != LISTING_DONE)
        p->look = min_size(p->look, p->rows); /* all of them match */
    p->values[VALUE_AFTER] = V_INT(p->after);
    p->values[VALUE_PAYLOAD_MAX] = V_INT(min_size(p->sql->payload_max, INT64_MAX));
    p->values[VALUE_WANTED] = V_INT(p->rows);
    p->value_count = VALUES_FIXED;
    conditions_make(p);
    if (p->l->table == LISTING_BOX)
        return look_in_box(p);
    if (p->l->table == LISTING_DEAD)
        look_in_dead(p);
    else
        look_in_done(p);
    return PR_OK;
}

/* ---- Statements ------------------------------------------------------------------------------- */

static const struct {
    enum sql_statement name, columns, row, order;
} tables[] = {
    [LISTING_BOX] = { SQL_listing_table_box, SQL_listing_columns_box, SQL_listing_row_box, SQL_listing_order_box },
    [LISTING_DEAD] = { SQL_listing_table_dead, SQL_listing_columns_dead, SQL_listing_row_letter,
                       SQL_listing_order_letter },
    [LISTING_DONE] = { SQL_listing_table_done, SQL_listing_columns_done, SQL_listing_row_letter,
                       SQL_listing_order_letter },
};

static int text_run(struct page *p, enum sql_statement template, struct rows *ret)
{
    char look[24];
    const enum listing_table table = p->l->table;
    const struct hole holes[] = {
        { "look", PR_BYTES(look, (size_t)snprintf(look, sizeof(look), "%zu", p->look)) },
        { "looked", buf_slice(&p->looked) },
        { "conditions", buf_slice(&p->conditions) },
        { "table", part_text(p, tables[table].name) },
        { "row", part_text(p, tables[table].row) },
        { "columns", part_text(p, tables[table].columns) },
        { "order", part_text(p, tables[table].order) },
        { "message", p->l->with_payload ? PR_STR("{message}") : PR_STR("{message_brief}") },
        { "lock", p->l->lock == LISTING_LOCK_WAIT   ? part_text(p, SQL_listing_lock_wait)
                  : p->l->lock == LISTING_LOCK_SKIP ? part_text(p, SQL_listing_lock_skip)
                                                    : NO_BOX },
    };
    *ret = (struct rows){ .sql = p->sql };
    text_fill(p, part_text(p, template), holes, ARRAY_LENGTH(holes));
    if (buf_failed(&p->looked) != PR_OK || buf_failed(&p->conditions) != PR_OK || buf_failed(&p->text) != PR_OK)
        return no_memory(p);
    return sql_run_text(p->sql, p->text.data, p->l->box, p->values, p->value_count, ret);
}

/* Finds the keys of matching rows; where they are fewer than requested, how far it looked. */
static int page_find(struct page *p)
{
    const size_t wanted = p->rows;
    size_t looked = 0;
    struct rows rows;
    p->rows = 0;
    int rc = text_run(p, SQL_listing_find, &rows);
    while (rc == PR_OK && p->rows < wanted && (rc = rows_step(&rows)) > 0) {
        rc = PR_OK;
        if (row_is_null(&rows, 0)) {
            looked = (size_t)row_number(&rows, 4);
            p->is_last = looked < p->look;
            if (looked > 0)
                p->after = (uint64_t)row_number(&rows, 3);
            break;
        }
        p->keys[p->rows] = row_number(&rows, 0);
        p->ids[p->rows] = row_id(&rows, 1);
        p->destinations[p->rows] = slice_dup(&p->arena, row_text(&rows, 2));
        if (p->destinations[p->rows++].data == NULL)
            rc = no_memory(p);
    }
    rows_end(&rows);
    if (rc == PR_OK && p->rows == wanted) /* the next page begins behind the last of them */
        p->after = (uint64_t)p->keys[p->rows - 1];
    p->look = max_size(looked, p->rows);
    return rc;
}

/* Reads the rows by their keys: ?1 to ?3 and the conditions are the same as before. */
static int page_read(struct page *p, struct rows *ret)
{
    const size_t before = p->value_count;
    ASSERT(before + 3 <= PAGE_VALUES);
    enum sql_statement part = p->l->table == LISTING_BOX ? SQL_listing_of_box : SQL_listing_of_letters;
    buf_reset(&p->looked);
    p->values[p->value_count++] = V_INTS(p->keys, p->rows);
    part_add(p, &p->looked, part);
    if (p->l->table == LISTING_BOX) {
        part_with(p, &p->looked, SQL_listing_of_box_ids, V_IDS(p->ids, p->rows));
        part_with(p, &p->looked, SQL_listing_of_box_destinations, V_TEXTS(p->destinations, p->rows));
    }
    int rc = text_run(p, SQL_listing_read, ret);
    p->value_count = before;
    return rc;
}

/* ---- Rows ------------------------------------------------------------------------------------- */

/* Does the row match the parts of the filter that SQL cannot express? */
static bool is_wanted(const struct listing *listing, const struct listed *l)
{
    const struct filter *f = listing->filter;
    char print[FINGERPRINT_SIZE];
    if (f->type.size > 0 && !slice_glob(f->type, l->m.type))
        return false;
    if (f->state >= 0 && (enum state)f->state != l->state)
        return false;
    if (listing->table == LISTING_BOX && !filter_fits_endpoint(f, l->box, &l->m))
        return false;
    if (f->fingerprint.size == 0 || listing->table == LISTING_DEAD)
        return true;
    if (listing->table == LISTING_DONE || l->m.reason == PR_REASON_NONE)
        return false;
    fingerprint(filter_endpoint_of(f, l->box, &l->m), l->m.type, l->m.reason, l->m.error, print);
    return slice_eq_cstr(f->fingerprint, print);
}

static int listed_read(const struct page *p, struct rows *rows, struct listed *l)
{
    const int first = rows_after_message(rows);
    *l = (struct listed){ .state = p->l->table == LISTING_DEAD ? STATE_DEAD : STATE_DONE };
    int rc = row_message(rows, &l->m, &l->lane, &l->bad);
    if (rc != PR_OK)
        return rc;
    l->row = (uint64_t)row_number(rows, first);
    l->box = row_text(rows, first + 1);
    l->endpoint = row_text(rows, first + 2);
    l->cause = (int)row_number(rows, first + 3);
    l->limit = (int)row_number(rows, first + 4);
    l->rule = row_text(rows, first + 5);
    l->fingerprint = row_text(rows, first + 6);
    l->note = row_text(rows, first + 7);
    l->died_us = row_time(rows, first + 8);
    l->edited_as = row_id(rows, first + 9);
    if (p->l->table == LISTING_BOX) {
        const struct hand_out *f = listing_context_hand_out(p->s, l->box, l->row, l->m.attempts);
        l->state = listing_context_state(p->s, l->box, l->row, &l->m, filter_endpoint_of(p->l->filter, l->box, &l->m));
        l->instance = f != NULL ? f->instance : NO_BOX;
    }
    return PR_OK;
}

/* ---- Pages ------------------------------------------------------------------------------------ */

/* One page; outcome LISTING_STOP: found() has enough. */
static int page_run(struct page *p)
{
    struct rows rows = { .sql = p->sql };
    struct listed listed;
    int rc = page_begin(p);
    if (rc == PR_OK)
        rc = page_find(p);
    if (rc == PR_OK && p->rows > 0)
        rc = page_read(p, &rows);
    while (rc == PR_OK && rows.statement != NULL && (rc = rows_step(&rows)) > 0) {
        rc = listed_read(p, &rows, &listed);
        if (rc == PR_OK && is_wanted(p->l, &listed))
            rc = p->l->found(p->l->arg, &listed, p->sql->reterr);
        if (rc != PR_OK)
            break;
    }
    rows_end(&rows);
    if (rc >= PR_OK && p->l->page_end != NULL) {
        int ended = p->l->page_end(p->l->arg);
        rc = ended < 0 ? ended : rc;
    }
    return rc;
}

/* Letters that died since then have no lower row than this.  Outcome PR_UNKNOWN: there are none. */
static int first_since(struct page *p)
{
    int64_t first = 0;
    if (p->l->table != LISTING_DEAD || p->l->filter->since_us == 0)
        return PR_OK;
    int rc = sql_number(p->sql, SQL_dead_first_since, NO_BOX, VALUES(V_TIME(p->l->filter->since_us)), &first);
    if (rc == PR_OK && first == 0)
        return PR_UNKNOWN;
    if (rc == PR_OK && (uint64_t)first - 1 > p->after)
        p->after = (uint64_t)first - 1;
    return rc;
}

static int pages_run(struct page *p, uint64_t *ret_cut)
{
    const struct filter *f = p->l->filter;
    size_t looked = 0, look_max = f->look_max > 0 && f->id_count == 0 ? f->look_max : SIZE_MAX;
    size_t rows = p->l->wanted > 0 ? min_size(p->l->wanted, PAGE_ROWS) : PAGE_ROWS;
    if (p->l->table == LISTING_BOX && f->stream.size > 0 && p->sql->ops->finds_by_lane)
        look_max /= 4; /* the rows of one lane each lie on another page of the table */
    int rc = first_since(p);
    for (bool enough = true; rc == PR_OK && !p->is_last && looked < look_max;) {
        /* As long as pages are full there is no need to look further. */
        p->look = p->l->by_stream ? PAGE_ROWS : enough ? PAGE_LOOK_FIRST : PAGE_LOOK;
        p->look = min_size(p->look, look_max - looked);
        p->rows = rows;
        rc = page_run(p);
        looked += p->look;
        enough = p->rows == rows;
        rows = min_size(2 * rows, PAGE_ROWS); /* few of the rows that were found matched */
    }
    if (rc == PR_OK && !p->is_last && ret_cut != NULL)
        *ret_cut = p->after;
    return rc < 0 ? rc : PR_OK;
}

int listing_run(struct sql *sql, const struct listing_context *s, const struct listing *l, uint64_t *ret_cut)
{
    struct page page = { .sql = sql, .s = s, .l = l, .after = l->filter->after };
    if (l->filter->row > 0 && page.after < l->filter->row - 1)
        page.after = l->filter->row - 1;
    if (ret_cut != NULL)
        *ret_cut = 0;
    buf_init(&page.looked, SQL_MAX);
    buf_init(&page.conditions, SQL_MAX);
    buf_init(&page.text, SQL_MAX);
    arena_init(&page.arena, PAGE_ARENA_BYTES);
    int rc = pages_run(&page, ret_cut);
    arena_fini(&page.arena);
    buf_fini(&page.text);
    buf_fini(&page.conditions);
    buf_fini(&page.looked);
    return rc;
}
