/* People's orders: find what is meant, change it, tell the running instances, and write down who
 * said so.  One transaction each; rows are changed as they are found, many in one round trip. */
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/ended.h"
#include "store/audit.h"
#include "store/people/import.h"
#include "store/people/listing.h"
#include "store/postgres/postgres.h"
#include "store/postgres/cycle/change.h"

#define ARENA_BYTES 65536
#define NOTICES_EACH_MAX 1000 /* more rows than this are told as "read everything anew" */
#define AT_ONCE 40            /* statements on their way */
#define LOCK_WAIT_MAX "2s"    /* for rows that another operator holds */
#define TRIES_MAX 5           /* two operators and a busy engine can run into each other more than once */

/* One row on its way, and what is told of it. */
struct told {
    PGresult *result; /* of a statement of its own: no row in it, and it was refused */
    pr_slice box, stream, endpoint;
    uint64_t row;
    int64_t seq;
};

/* How many rows a filter finds before any of them is changed, and where its limit ends. */
struct listed_range {
    bool counting;
    uint64_t rows;
    pr_slice last_box; /* empty: without a limit */
    uint64_t last_row;
};

struct order_run {
    struct postgres_store *store;
    struct link *link;
    const struct admin *admin;
    struct row_order order;
    struct order_texts texts;
    struct arena arena;
    struct sql sql; /* on the same connection */
    struct surroundings s;
    bool *found; /* of each id of the filter */
    struct told on_way[AT_ONCE];
    struct change changes[AT_ONCE]; /* of rows of a box: those on their way */
    struct ended ended[AT_ONCE];    /* what the ledger says of each when it is discarded */
    size_t on_way_count;
    struct arena on_way_arena; /* their texts */
    struct array arrays[CHANGE_ARRAYS];
    struct told *told; /* NOTICES_EACH_MAX of them */
    size_t told_count;
    struct array retried_boxes, retried_rows;
    bool skips;                /* somebody holds rows for long: pass over them, and count them as busy */
    struct listed_range range; /* what a filter finds, held or not, where rows are skipped */
    struct admin_reply reply;
    struct pr_error *reterr;
};

static const struct action *order_action(const struct order_run *o)
{
    return action_of(o->admin->kind);
}

static void arg_json(struct args *args, pr_slice json)
{
    arg_text_or_null(args, json);
    args->types[args->count - 1] = OID_JSON;
}

static int no_memory(struct order_run *o)
{
    return error_set(o->reterr, PR_ENOMEM, "no memory for what is to be changed");
}

/* ---- Changing ------------------------------------------------------------------------------------ */

/* Back to its place: a new row with the old seq; B2: not when its id was sent anew.  With a new id ($4) it is a corrected
 * copy, and the original stays and says so. */
/* clang-format off */
static const char BACK_ROW[] =
    "WITH made AS (INSERT INTO {box} (xid, row_id, due_at, status, failure_reason, code, error, failed_at, story, seq, id,"
    " causation_id, released, destination, headers, payload, payload_bytes, stream, type, event, created_at,"
    " expires_at" SENDER_TEXTS_COPIED(COLUMN_NAME) ") OVERRIDING SYSTEM VALUE"
    " SELECT d.xid, nextval('{box_seq}'), $2, d.status | 32768, d.failure_reason, d.code, d.error, d.failed_at,"
    " coalesce($3::json, d.story), d.seq, coalesce($4, d.id), CASE WHEN $4 IS NULL THEN d.causation_id ELSE d.id::text END,"
    " d.released AND $4 IS NULL, CASE WHEN $5 THEN $6 ELSE d.destination END,"
    " CASE WHEN $7 THEN $8::json ELSE d.headers END, CASE WHEN $9 THEN $10 ELSE d.payload END,"
    " CASE WHEN $9 THEN $11 ELSE d.payload_bytes END, d.stream, d.type, d.event, d.created_at,"
    " d.expires_at" SENDER_TEXTS_COPIED(COLUMN_OF_D)
    " FROM {schema}.dead_letter d WHERE d.row_id = $1 AND d.edited_as IS NULL" UNLESS_IN_BOX " RETURNING row_id, lane),"
    " gone AS (DELETE FROM {schema}.dead_letter d USING made WHERE d.row_id = $1 AND $4 IS NULL),"
    " marked AS (UPDATE {schema}.dead_letter d SET edited_as = $4 FROM made WHERE d.row_id = $1 AND $4 IS NOT NULL)"
    " SELECT row_id << 6 | lane FROM made";
/* clang-format on */
static const char CAN_EDIT[] =
    "SELECT 0::bigint FROM {schema}.dead_letter d WHERE d.row_id = $1 AND d.edited_as IS NULL";

static const char NOTE_ROW[] = "UPDATE {schema}.dead_letter d SET note = right(CASE WHEN d.note <> '' THEN d.note || "
                               "chr(10) ELSE '' END || $2, $3),"
                               " story = $4::json WHERE d.row_id = $1 RETURNING 0::bigint";

static const char CAN_REPLAY[] =
    "SELECT 0::bigint FROM {schema}.dead_letter d WHERE d.row_id = $1 AND d.edited_as IS NULL AND NOT EXISTS"
    " (SELECT FROM {box} b WHERE b.id = d.id AND b.destination = d.destination)";

/* How a change takes a dead letter. */
static void add_back(struct order_run *o, const struct change *c, pr_slice box, PGresult **ret)
{
    static const pr_slice none;
    static const struct dead_edit as_it_was;
    bool copied = c->fate == FATE_COPIED;
    const struct dead_edit *e = copied ? o->order.edit : &as_it_was;
    struct args args = { .count = 0 };
    arg_i64(&args, (int64_t)c->row);
    arg_time(&args, o->s.now_us);
    arg_json(&args, c->story);
    if (copied)
        arg_id(&args, o->order.made);
    else
        arg_null(&args, OID_UUID);
    arg_bool(&args, e->destination != NULL);
    arg_text(&args, e->destination != NULL ? *e->destination : none);
    arg_bool(&args, e->headers != NULL);
    arg_json(&args, e->headers != NULL ? *e->headers : none);
    arg_bool(&args, e->payload != NULL);
    arg_payload(&args, e->payload != NULL ? *e->payload : none, o->link->pg);
    link_add(o->link, BACK_ROW, box, &args, ret);
}

static void add_dead_change(struct order_run *o, const struct change *c, pr_slice box, PGresult **ret)
{
    struct args args = { .count = 0 };
    arg_i64(&args, (int64_t)c->row);
    switch (c->fate) {
    case FATE_GONE:
        link_add(o->link, "DELETE FROM {schema}.dead_letter WHERE row_id = $1 RETURNING 0::bigint", NO_BOX, &args, ret);
        break;
    case FATE_STAYS:
        arg_text(&args, c->note);
        arg_i32(&args, NOTE_KEPT_MAX);
        arg_json(&args, c->story);
        link_add(o->link, NOTE_ROW, NO_BOX, &args, ret);
        break;
    default: add_back(o, c, box, ret); break;
    }
}

/* The texts that the next order_texts would overwrite. */
static bool change_keep_texts(struct order_run *o, struct change *c)
{
    pr_slice *const texts[] = { &c->story, &c->note, &c->error, &c->endpoint };
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
        if (texts[i]->size > 0) {
            *texts[i] = slice_dup(&o->on_way_arena, *texts[i]);
            if (texts[i]->data == NULL)
                return false;
        }
    return true;
}

/* Rows of one box that are on their way. */
static int changes_run(struct order_run *o, int answers[AT_ONCE])
{
    struct pg_changes changes = {
        .link = o->link,
        .box = o->on_way[0].box,
        .list = o->changes,
        .count = o->on_way_count,
        .lanes = LANES_ALL,
        .wall_us = o->s.now_us,
        .arena = &o->on_way_arena,
        .arrays = o->arrays,
    };
    int rc = pg_changes_apply(&changes, o->reterr);
    if (rc == PR_OK)
        memcpy(answers, changes.answers, o->on_way_count * sizeof(answers[0]));
    return rc;
}

static void told_add(struct order_run *o, const struct told *t)
{
    o->reply.changed++;
    if (o->admin->kind == ADMIN_RETRY) {
        array_text(&o->retried_boxes, t->box);
        array_i64(&o->retried_rows, (int64_t)t->row);
    }
    if (o->admin->kind == ADMIN_DEAD_EDIT)
        o->reply.made = o->admin->made;
    if (o->told_count < NOTICES_EACH_MAX)
        o->told[o->told_count] = *t;
    o->told_count++;
}

/* Does it end messages? */
static bool discards(const struct order_run *o)
{
    return !o->admin->dry_run && (o->admin->kind == ADMIN_DISCARD || o->admin->kind == ADMIN_DEAD_DISCARD);
}

/* The ledger of what has ended; the next batch takes it along. */
static int ended_put(struct order_run *o, const struct ended *list, size_t count)
{
    if (count > 0 && pg_ended_insert(o->link, list, count, o->admin->by, o->s.now_us, o->arrays, &o->on_way_arena) < 0)
        return no_memory(o);
    return PR_OK;
}

/* The answers to what is on its way. */
static int changes_take(struct order_run *o)
{
    size_t mark = o->link->result_count;
    bool by_change = !order_action(o)->on_dead && !o->admin->dry_run;
    int answers[AT_ONCE];
    struct ended ended[AT_ONCE];
    size_t ended_count = 0;
    int rc = by_change ? changes_run(o, answers) : link_run(o->link, o->reterr);
    for (size_t i = 0; i < o->on_way_count && rc == PR_OK; i++) {
        struct told *t = &o->on_way[i];
        bool done = by_change ? answers[i] == PR_OK : PQntuples(t->result) > 0;
        if (!done) {
            o->reply.refused++;
            continue;
        }
        if (o->admin->kind == ADMIN_DEAD_REPLAY || o->admin->kind == ADMIN_DEAD_EDIT)
            t->row = (uint64_t)field_i64(t->result, 0, 0);
        if (discards(o))
            ended[ended_count++] = o->ended[i];
        told_add(o, t);
    }
    if (rc == PR_OK)
        rc = ended_put(o, ended, ended_count);
    link_forget_after(o->link, mark);
    arena_reset(&o->on_way_arena);
    o->on_way_count = 0;
    return rc;
}

/* ---- Finding -------------------------------------------------------------------------------------- */

static pr_slice box_known(const struct order_run *o, pr_slice name)
{
    for (size_t i = 0; i < o->s.box_count; i++)
        if (slice_eq(o->s.boxes[i], name))
            return o->s.boxes[i];
    return NO_BOX;
}

static void note_id(struct order_run *o, pr_id id)
{
    for (size_t i = 0; i < o->admin->filter.id_count; i++)
        o->found[i] |= pr_id_equal(o->admin->filter.ids[i], id);
}

static void add_dry(struct order_run *o, uint64_t row, pr_slice box, PGresult **ret)
{
    struct args args = { .count = 0 };
    arg_i64(&args, (int64_t)row);
    if (o->admin->kind == ADMIN_DEAD_REPLAY)
        link_add(o->link, CAN_REPLAY, box, &args, ret);
    else if (o->admin->kind == ADMIN_DEAD_EDIT)
        link_add(o->link, CAN_EDIT, box, &args, ret);
    else
        link_add(o->link, "SELECT $1", NO_BOX, &args, ret);
}

/* false: no memory. */
static bool target_note_end(struct order_run *o, const struct listed *l, pr_slice box, pr_slice endpoint,
                            struct ended *ret)
{
    *ret = (struct ended){ .id = l->m.id, .box = box, .as = ENDED_BY_PERSON, .attempt = l->m.attempts };
    ret->endpoint = slice_dup(&o->on_way_arena, l->endpoint.size > 0 ? l->endpoint : endpoint);
    return ret->endpoint.data != NULL;
}

static int target_put(struct order_run *o, const struct listed *l, pr_slice box)
{
    struct told *t = &o->on_way[o->on_way_count];
    struct ended *ended = &o->ended[o->on_way_count];
    struct change *c = &o->changes[o->on_way_count++];
    pr_slice endpoint = filter_endpoint_of(&o->admin->filter, box, &l->m);
    *t = (struct told){ .box = box, .seq = l->m.seq };
    t->row = o->admin->kind == ADMIN_DEAD_DISCARD ? 0 : l->row;
    t->stream = slice_dup(&o->arena, l->m.stream);
    t->endpoint = slice_dup(&o->arena, l->m.destination); /* where it died the routes may send it no more */
    if (t->stream.data == NULL || t->endpoint.data == NULL)
        return no_memory(o);
    if (discards(o) && !target_note_end(o, l, box, endpoint, ended))
        return no_memory(o);
    if (o->admin->dry_run) {
        add_dry(o, l->row, box, &t->result);
        return PR_OK;
    }
    if (change_of_order(&o->order, &l->m, l->row, endpoint, o->s.now_us, &o->texts, c) < 0)
        return no_memory(o);
    if (order_action(o)->on_dead)
        add_dead_change(o, c, box, &t->result);
    else if (!change_keep_texts(o, c))
        return no_memory(o);
    return PR_OK;
}

static bool is_by_stream(const struct order_run *o)
{
    return o->admin->kind == ADMIN_RELEASE && o->admin->filter.id_count == 0 && o->admin->filter.stream.size > 0;
}

/* The row after the last one that the limit allows ends the range. */
static int range_count(struct listed_range *range, uint64_t limit, pr_slice box, uint64_t row)
{
    if (limit > 0 && range->rows == limit)
        return 1;
    range->rows++;
    range->last_box = limit > 0 ? box : NO_BOX;
    range->last_row = row;
    return PR_OK;
}

static int target_found(void *arg, const struct listed *l, struct pr_error *reterr)
{
    (void)reterr;
    struct order_run *o = arg;
    pr_slice box = box_known(o, l->box);
    if (box.size == 0)
        return PR_OK; /* a dead letter of a box that is no more stays where it is */
    if (o->admin->kind == ADMIN_DEAD_REPLAY && o->admin->filter.id_count == 0 && !pr_id_is_zero(l->edited_as))
        return PR_OK; /* another one went in its place */
    bool stands = o->admin->kind == ADMIN_RELEASE && !is_by_stream(o) && !message_may_overtake(&l->m);
    if (stands && o->admin->filter.id_count == 0)
        return PR_OK; /* it is who stands in the way */
    if (o->range.counting)
        return range_count(&o->range, o->admin->filter.limit, box, l->row);
    note_id(o, l->m.id);
    bool beyond = slice_eq(box, o->range.last_box) && l->row > o->range.last_row;
    if (beyond || (o->admin->filter.limit > 0 && o->reply.matched == o->admin->filter.limit)) {
        o->reply.more = true;
        return 1;
    }
    o->reply.matched++;
    o->reply.last_row = l->row;
    o->reply.refused += stands;
    if (stands)
        return PR_OK;
    if (o->admin->kind == ADMIN_DEAD_EDIT && o->reply.matched > 1)
        return error_set(o->reterr, PR_EINVAL, "that id died on the way to several endpoints: name the endpoint, too");
    int rc = target_put(o, l, box);
    return rc == PR_OK && o->on_way_count == AT_ONCE ? changes_take(o) : rc;
}

/* The next page's results come after these, and are forgotten with the page. */
static int page_ended(void *arg)
{
    struct order_run *o = arg;
    return o->on_way_count > 0 ? changes_take(o) : PR_OK;
}

static int look_for_id(struct order_run *o, size_t i, pr_slice box, bool *ret_there)
{
    PGresult *r = NULL;
    struct args args = { .count = 0 };
    bool dead = order_action(o)->on_dead;
    arg_id(&args, o->admin->filter.ids[i]);
    int rc = link_do(o->link,
                     dead ? "SELECT FROM {schema}.dead_letter WHERE id = $1 LIMIT 1"
                          : "SELECT FROM {box} WHERE id = $1 LIMIT 1",
                     dead ? NO_BOX : box, &args, &r, o->reterr);
    *ret_there = rc == PR_OK && PQntuples(r) > 0;
    return rc;
}

/* Ids that were not found: they are nowhere, or somebody else holds them. */
static int ids_missing(struct order_run *o)
{
    const struct filter *f = &o->admin->filter;
    bool by_id_alone = f->endpoint.size == 0 && f->type.size == 0 && f->stream.size == 0 && f->error.size == 0 &&
                       f->correlation_id.size == 0 && f->state < 0;
    for (size_t i = 0; i < f->id_count; i++) {
        bool there = false;
        if (o->found[i])
            continue;
        for (size_t k = 0; k < o->s.box_count && by_id_alone && !there; k++) {
            int rc =
                f->box.size == 0 || slice_eq(f->box, o->s.boxes[k]) ? look_for_id(o, i, o->s.boxes[k], &there) : PR_OK;
            if (rc != PR_OK)
                return rc;
        }
        o->reply.missing += !there;
        o->reply.busy += there;
        o->reply.matched += there;
        o->reply.refused += there;
    }
    return PR_OK;
}

static int targets_list(struct order_run *o, enum listing_lock lock)
{
    const struct filter *f = &o->admin->filter;
    struct listing listing = {
        .table = order_action(o)->on_dead ? LISTING_DEAD : LISTING_BOX,
        .filter = f,
        .lock = lock,
        .followers = is_by_stream(o),
        .found = target_found,
        .page_end = page_ended,
        .arg = o,
    };
    int rc = PR_OK;
    if (listing.table == LISTING_DEAD) {
        listing.box = f->box;
        rc = listing_run(&o->sql, &o->s, &listing, NULL);
    }
    for (size_t i = 0; listing.table == LISTING_BOX && i < o->s.box_count && rc == PR_OK && !o->reply.more; i++) {
        if (f->box.size > 0 && !slice_eq(f->box, o->s.boxes[i]))
            continue;
        listing.box = o->s.boxes[i];
        rc = listing_run(&o->sql, &o->s, &listing, NULL);
        if (!o->range.counting && slice_eq(listing.box, o->range.last_box))
            break;
    }
    return rc;
}

/* A row that somebody holds does not stop an order.  Another operator is waited for a moment: his order ends soon, and
 * nothing of this one is left undone.  Who holds rows for longer is passed over.  Ids say themselves what is missing; of
 * a filter it is counted before. */
static int targets_run(struct order_run *o)
{
    bool by_id = o->admin->filter.id_count > 0, dry = o->admin->dry_run;
    int rc = PR_OK;
    o->range = (struct listed_range){ .counting = o->skips && !by_id && !dry };
    if (o->range.counting)
        rc = targets_list(o, LISTING_LOCK_NONE);
    o->range.counting = false;
    if (rc == PR_OK && !by_id && !o->skips && !dry)
        link_add(o->link, "SET LOCAL lock_timeout = '" LOCK_WAIT_MAX "'", NO_BOX, NULL, NULL);
    if (rc == PR_OK)
        rc = targets_list(o, dry ? LISTING_LOCK_NONE : by_id || o->skips ? LISTING_LOCK_SKIP : LISTING_LOCK_WAIT);
    uint64_t busy = o->range.rows > o->reply.matched ? o->range.rows - o->reply.matched : 0;
    o->reply.busy += busy;
    o->reply.matched += busy;
    o->reply.refused += busy;
    return rc == PR_OK ? ids_missing(o) : rc;
}

/* ---- Telling --------------------------------------------------------------------------------------- */

static void add_notice(struct order_run *o, pr_slice box, enum notice_kind kind, const struct told *t)
{
    struct args args = { .count = 0 };
    arg_text(&args, box);
    arg_i32(&args, (int)kind);
    arg_i64(&args, (int64_t)t->row);
    arg_i64(&args, t->seq);
    arg_text_or_null(&args, t->stream);
    arg_text_or_null(&args, t->endpoint);
    link_add(o->link,
             "INSERT INTO {schema}.control (box, kind, \"row\", seq, stream, endpoint) VALUES ($1, $2, $3, $4, $5, $6)",
             NO_BOX, &args, NULL);
}

/* Numbers are committed in their order: one at a time from here to the end. */
static int notices_write(struct order_run *o)
{
    static const struct told nothing;
    link_add(o->link, "LOCK TABLE {schema}.control IN EXCLUSIVE MODE", NO_BOX, NULL, NULL);
    /* Ids, or a single row: each is told.  Else everything is read anew. */
    bool each = o->told_count <= 1 || (o->admin->filter.id_count > 0 && o->told_count <= NOTICES_EACH_MAX);
    if (!each)
        add_notice(o, o->admin->filter.box, NOTICE_RELOAD, &nothing);
    /* Edited and sent elsewhere, so its old stream goes on without it. */
    if (o->admin->kind == ADMIN_DEAD_EDIT && o->admin->edit->destination != NULL) {
        struct told gone = o->told[0];
        gone.row = 0;
        add_notice(o, gone.box, NOTICE_GONE, &gone);
    }
    for (size_t i = 0; each && i < o->told_count; i++) {
        add_notice(o, o->told[i].box, order_action(o)->notice, &o->told[i]);
        if ((i + 1) % AT_ONCE == 0) {
            int rc = link_run(o->link, o->reterr);
            if (rc != PR_OK)
                return rc;
        }
    }
    return link_run(o->link, o->reterr);
}

static int audit_write(struct order_run *o)
{
    struct buf target;
    struct args args = { .count = 0 };
    buf_init(&target, AUDIT_BYTES_MAX);
    audit_write_target(&target, o->admin);
    arg_time(&args, o->s.now_us);
    arg_text(&args, o->admin->by);
    arg_text(&args, slice_from(admin_name(o->admin->kind)));
    arg_text(&args, buf_slice(&target));
    arg_text(&args, o->admin->why);
    arg_i64(&args, (int64_t)o->reply.matched);
    arg_i64(&args, (int64_t)o->reply.changed);
    arg_i64(&args, (int64_t)o->reply.refused);
    int rc = link_do(o->link,
                     "INSERT INTO {schema}.audit (at, who, action, target, why, matched, changed, refused)"
                     " VALUES ($1, $2, $3, $4::json, $5, $6, $7, $8)",
                     NO_BOX, &args, NULL, o->reterr);
    buf_fini(&target);
    return rc;
}

/* ---- Orders ---------------------------------------------------------------------------------------- */

/* Their hand-outs of before count no more.  At the end, since a cycle locks rows before receipts, too. */
static int receipts_forget(struct order_run *o)
{
    struct args args = { .count = 0 };
    arg_array(&args, &o->retried_boxes);
    arg_array(&args, &o->retried_rows);
    link_add(
        o->link,
        "UPDATE {schema}.claim c SET rows = ARRAY(SELECT CASE WHEN (c.box, u.row) IN (SELECT * FROM unnest($1, $2))"
        " THEN 0 ELSE u.row END FROM unnest(c.rows) WITH ORDINALITY AS u(row, place) ORDER BY u.place)"
        " WHERE EXISTS (SELECT FROM unnest($1, $2) AS f(box, row) WHERE f.box = c.box AND f.row = ANY (c.rows))",
        NO_BOX, &args, NULL);
    return link_run(o->link, o->reterr);
}

static int newest_read(struct order_run *o)
{
    PGresult *r;
    if (!order_action(o)->on_dead)
        return PR_OK;
    int rc = link_do(o->link, "SELECT coalesce(max(row_id), 0) FROM {schema}.dead_letter", NO_BOX, NULL, &r, o->reterr);
    if (rc == PR_OK)
        o->reply.newest_row = (uint64_t)field_i64(r, 0, 0);
    return rc;
}

static int order_rows(struct order_run *o)
{
    array_init(&o->retried_boxes);
    array_init(&o->retried_rows);
    array_begin(&o->retried_boxes, OID_TEXT);
    array_begin(&o->retried_rows, OID_INT8);
    int rc = newest_read(o);
    if (rc == PR_OK)
        rc = targets_run(o);
    if (rc == PR_OK && !o->admin->dry_run && o->retried_rows.count > 0)
        rc = receipts_forget(o);
    array_fini(&o->retried_boxes);
    array_fini(&o->retried_rows);
    if (rc == PR_OK && !o->admin->dry_run && o->told_count > 0 && o->admin->kind != ADMIN_DEAD_NOTE)
        rc = notices_write(o);
    return rc;
}

/* Letters of others. */
static int order_import(struct order_run *o)
{
    bool in_streams;
    int rc = import_letters(&o->sql, &o->s, o->admin, &o->reply, &in_streams);
    if (rc != PR_OK || o->admin->dry_run || !in_streams)
        return rc;
    o->told_count = 2; /* strict ones wait behind them from now on: everything is read anew */
    return notices_write(o);
}

/* Of two pauses the later end wins; one that is over does not count. */
static int order_endpoint(struct order_run *o)
{
    const struct admin *a = o->admin;
    PGresult *r;
    struct args args = { .count = 0 };
    bool pause = a->kind == ADMIN_PAUSE;
    int64_t now_us = o->s.now_us, wanted_us = a->until_us != 0 ? a->until_us : PR_NEVER;
    arg_text(&args, a->filter.endpoint);
    int rc = link_do(o->link, "SELECT paused_until FROM {schema}.endpoint WHERE name = $1 FOR UPDATE", NO_BOX, &args,
                     &r, o->reterr);
    if (rc == PR_OK && PQntuples(r) == 0)
        rc = link_do(o->link, "SELECT DISTINCT NULL::timestamptz FROM {schema}.tally WHERE endpoint = $1", NO_BOX,
                     &args, &r, o->reterr);
    if (rc != PR_OK)
        return rc;
    int64_t current_us = PQntuples(r) > 0 ? field_time(r, 0, 0) : 0;
    o->reply.matched = PQntuples(r) > 0 || pause;
    o->reply.missing = !o->reply.matched;
    o->reply.changed =
        pause ? wanted_us > now_us && wanted_us > (current_us > now_us ? current_us : 0) : current_us > now_us;
    if (a->dry_run || o->reply.changed == 0)
        return PR_OK;
    arg_time(&args, pause ? wanted_us : 0);
    arg_text_or_null(&args, pause ? a->by : NO_BOX);
    arg_text_or_null(&args, pause ? a->why : NO_BOX);
    rc = link_do(o->link,
                 "INSERT INTO {schema}.endpoint (name, paused_until, paused_by, paused_why) VALUES ($1, $2, $3, $4)"
                 " ON CONFLICT (name) DO UPDATE SET paused_until = $2, paused_by = $3, paused_why = $4",
                 NO_BOX, &args, NULL, o->reterr);
    o->told[0] = (struct told){ .endpoint = a->filter.endpoint };
    o->told_count = 1;
    return rc == PR_OK ? notices_write(o) : rc;
}

static int order_inside(struct order_run *o)
{
    bool on_endpoint = order_action(o)->notice == NOTICE_ENDPOINT;
    link_add_begin(o->link);
    int rc = surroundings_read(&o->sql, &o->arena, &o->s);
    if (rc == PR_OK && o->admin->outcome != NULL)
        o->reply = *o->admin->outcome; /* it was done elsewhere */
    else if (rc == PR_OK)
        rc = on_endpoint ? order_endpoint(o) : o->admin->kind == ADMIN_DEAD_IMPORT ? order_import(o) : order_rows(o);
    if (rc == PR_OK && !o->admin->dry_run)
        rc = audit_write(o);
    if (rc == PR_OK) {
        link_add_commit(o->link);
        rc = link_run(o->link, o->reterr);
    }
    if (rc != PR_OK && link_is_uncertain(o->link))
        rc = error_set(o->reterr, PR_EUNCERTAIN,
                       "the connection was lost during the commit: check whether the change was made");
    return rc;
}

static int order_run(struct order_run *o)
{
    arena_init(&o->arena, ARENA_BYTES);
    arena_init(&o->on_way_arena, ARENA_BYTES);
    order_texts_init(&o->texts);
    for (size_t i = 0; i < CHANGE_ARRAYS; i++)
        array_init(&o->arrays[i]);
    o->order = order_of_admin(o->admin);
    o->reply = (struct admin_reply){ 0 };
    o->on_way_count = o->told_count = 0;
    o->told = arena_alloc_array(&o->arena, NOTICES_EACH_MAX, sizeof(o->told[0]));
    o->found = arena_alloc_array(&o->arena, o->admin->filter.id_count, sizeof(o->found[0]));
    int rc = o->told != NULL && o->found != NULL ? link_ensure(o->link, o->reterr) : no_memory(o);
    if (rc == PR_OK)
        rc = order_inside(o);
    link_rollback(o->link);
    link_forget(o->link);
    for (size_t i = 0; i < CHANGE_ARRAYS; i++)
        array_fini(&o->arrays[i]);
    order_texts_fini(&o->texts);
    arena_fini(&o->on_way_arena);
    arena_fini(&o->arena);
    return rc;
}

int pg_admin(void *self, const struct admin *admin, struct admin_reply *ret_reply, struct pr_error *reterr)
{
    struct postgres_store *store = self;
    struct order_run o = { .store = store, .link = store->people, .admin = admin, .reterr = reterr };

    pthread_mutex_lock(&store->people_lock);
    o.sql.reterr = reterr;
    pg_sql_use(&o.sql, store, o.link);
    int rc = order_run(&o);
    for (int i = 1; i < TRIES_MAX && rc < 0 && rc != PR_EUNCERTAIN; i++) {
        bool held = rc == PR_EBUSY && !o.skips;
        if (!held && !link_should_retry(o.link) && link_is_up(o.link))
            break;
        o.skips = o.skips || held;
        rc = order_run(&o);
    }
    pthread_mutex_unlock(&store->people_lock);
    if (rc != PR_OK)
        return rc;
    *ret_reply = o.reply;
    pg_store_wake(store);
    return PR_OK;
}
