/* People's orders: find the rows, change them, notify running instances, and record the author in the audit.  Each
 * order is one transaction; the rows of a page are changed after the page was read.
 *
 * A locked row does not stop an order.  If another operator has locked it, the order waits a moment: the other order
 * ends soon, and nothing of this one is skipped.  Rows that stay locked longer are skipped. */
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "core/change.h"
#include "core/ended.h"
#include "core/mark.h"
#include "store/audit.h"
#include "store/order.h"
#include "store/people/flow_order.h"
#include "store/people/import.h"
#include "store/people/listing.h"
#include "store/people/marks.h"
#include "store/people/question.h"

#define ARENA_BYTES 65536
#define TRIES_MAX 5 /* two operators and a busy engine can collide more than once */

/* The subject of a notice to running instances. */
struct notice_target {
    pr_slice box, stream, endpoint;
    uint64_t row; /* a row that they know, or will know; 0: none */
    int64_t seq;
};

/* Rows of a page that are to be changed. */
struct order_page {
    struct change *changes;
    struct notice_target *targets;
    pr_slice *boxes;
    struct ended *ended;       /* for each discarded one: its entry in the ledger */
    struct flow_letter *flows; /* for each row: the messages that its flow gets with the order */
    size_t count, room[5];
    struct arena arena; /* memory for their texts */
};

/* How many rows match a filter before any of them is changed, and where its limit ends. */
struct listed_range {
    bool counting;
    uint64_t rows;
    pr_slice last_box; /* empty: no limit */
    uint64_t last_row;
};

struct order_run {
    struct sql *sql;
    const struct admin *admin;
    struct row_order order;
    struct order_texts texts;
    struct arena arena;
    struct listing_context s;
    struct marks marks;
    bool *found; /* for each id of the filter */
    struct order_page pending;
    struct notice_target *targets; /* NOTICES_EACH_MAX entries */
    size_t target_count;
    bool untellable; /* a notice cannot name the stream, since its name is damaged */
    int64_t *retried;
    pr_slice *retried_boxes;
    size_t retried_count, retried_room[2];
    bool skips;                /* rows stay locked for long: skip them, and count them as busy */
    struct listed_range range; /* rows that match the filter, locked or not, where locked ones are skipped */
    struct admin_reply reply;
};

static bool is_on_dead(const struct order_run *o)
{
    return action_of(o->admin->kind)->on_dead;
}

static int no_memory(struct order_run *o)
{
    return error_set(o->sql->reterr, PR_ENOMEM, "out of memory for what is to be changed");
}

static pr_slice box_known(const struct order_run *o, pr_slice name)
{
    for (size_t i = 0; i < o->s.box_count; i++)
        if (slice_eq(o->s.boxes[i], name))
            return o->s.boxes[i];
    return NO_BOX;
}

/* Runs the statement where this database needs it. */
static int do_if_any(struct order_run *o, enum sql_statement statement)
{
    return statement_is_empty(statement, o->sql->ops->dialect) ? PR_OK : sql_do(o->sql, statement, NO_BOX, NO_VALUES);
}

/* ---- Changing ------------------------------------------------------------------------------------ */

/* Copies the texts that the next order_texts would overwrite. */
static bool change_keep_texts(struct change *c, struct arena *arena)
{
    pr_slice *const texts[] = { &c->story, &c->note, &c->error, &c->endpoint };
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
        if (texts[i]->size > 0) {
            *texts[i] = slice_dup(arena, *texts[i]);
            if (texts[i]->data == NULL)
                return false;
        }
    return true;
}

static bool pending_grow(struct order_page *p)
{
    p->changes = list_room(&p->arena, p->changes, p->count, &p->room[0], sizeof(p->changes[0]));
    p->targets = list_room(&p->arena, p->targets, p->count, &p->room[1], sizeof(p->targets[0]));
    p->boxes = list_room(&p->arena, p->boxes, p->count, &p->room[2], sizeof(p->boxes[0]));
    p->ended = list_room(&p->arena, p->ended, p->count, &p->room[3], sizeof(p->ended[0]));
    p->flows = list_room(&p->arena, p->flows, p->count, &p->room[4], sizeof(p->flows[0]));
    return p->changes != NULL && p->targets != NULL && p->boxes != NULL && p->ended != NULL && p->flows != NULL;
}

/* Prepares the entries in the ledger and the marks, in case the row ends.  false: no memory. */
static bool pending_add_end(struct order_page *p, const struct listed *l, pr_slice box, pr_slice endpoint)
{
    struct ended *e = &p->ended[p->count];
    *e = (struct ended){ .id = l->m.id, .box = box, .as = ENDED_BY_PERSON, .attempt = l->m.attempts };
    /* Of a letter: the endpoint at which it died. */
    e->endpoint = slice_dup(&p->arena, l->endpoint.size > 0 ? l->endpoint : endpoint);
    return e->endpoint.data != NULL;
}

/* Prepares the messages for the flow of an activity that a person ends, or of a letter that is replayed. */
static int pending_add_flow(struct order_run *o, const struct listed *l, pr_slice box)
{
    struct order_page *p = &o->pending;
    struct flow_letter *letter = &p->flows[p->count];
    *letter = (struct flow_letter){ .kind = FLOW_LETTER_PLAIN };
    if (o->admin->kind == ADMIN_DEAD_REPLAY) {
        int rc = flow_order_letter(o->sql, o->admin, box, &l->m, &p->arena, letter);
        if (rc == PR_OK && letter->kind == FLOW_LETTER_RESUMES)
            p->changes[p->count].fate = FATE_GONE;
        return rc;
    }
    int rc = flow_order_result(o->admin, &l->m, &p->arena, &letter->messages[0]);
    letter->count = rc == PR_OK;
    return rc < 0 ? no_memory(o) : PR_OK;
}

static int pending_add(struct order_run *o, const struct listed *l, pr_slice box)
{
    struct order_page *p = &o->pending;
    if (!pending_grow(p))
        return no_memory(o);
    struct change *c = &p->changes[p->count];
    struct notice_target *t = &p->targets[p->count];
    pr_slice endpoint = filter_endpoint_of(&o->admin->filter, box, &l->m);
    if (change_of_order(&o->order, &l->m, l->row, endpoint, o->s.now_us, &o->texts, c) < 0)
        return no_memory(o);
    *t = (struct notice_target){ .box = box, .seq = l->m.seq, .row = is_on_dead(o) ? 0 : l->row };
    t->stream = slice_dup(&p->arena, l->m.stream);
    /* routes may no longer send it to the endpoint where it died */
    t->endpoint = slice_dup(&p->arena, l->m.destination);
    if (!change_keep_texts(c, &p->arena) || t->stream.data == NULL || t->endpoint.data == NULL)
        return no_memory(o);
    if (!pending_add_end(p, l, box, endpoint))
        return no_memory(o);
    int rc = pending_add_flow(o, l, box);
    if (rc != PR_OK)
        return rc;
    p->boxes[p->count++] = box;
    return PR_OK;
}

static bool retried_add(struct order_run *o, const struct notice_target *t)
{
    o->retried = list_room(&o->arena, o->retried, o->retried_count, &o->retried_room[0], sizeof(o->retried[0]));
    o->retried_boxes =
        list_room(&o->arena, o->retried_boxes, o->retried_count, &o->retried_room[1], sizeof(o->retried_boxes[0]));
    if (o->retried == NULL || o->retried_boxes == NULL)
        return false;
    o->retried_boxes[o->retried_count] = t->box;
    o->retried[o->retried_count++] = (int64_t)t->row;
    return true;
}

/* Adds the subject of a notice about a changed row. */
static int target_add(struct order_run *o, const struct change *c, const struct notice_target *t)
{
    o->reply.changed++;
    if (c->fate == FATE_COPIED)
        o->reply.made = o->admin->made;
    if (!is_on_dead(o) && (c->sets & SET_NEW_COUNT) != 0 && !retried_add(o, t))
        return no_memory(o);
    if (o->target_count < NOTICES_EACH_MAX) {
        struct notice_target *kept = &o->targets[o->target_count];
        *kept = *t;
        kept->stream = slice_dup(&o->arena, t->stream);
        kept->endpoint = slice_dup(&o->arena, t->endpoint);
        if (kept->stream.data == NULL || kept->endpoint.data == NULL)
            return no_memory(o);
        o->untellable |= !utf8_valid(t->stream) || memchr(t->stream.data, 0, t->stream.size) != NULL;
    }
    o->target_count++;
    return PR_OK;
}

/* Deleted rows get a mark, where their box has marks; rows that are replayed despite a mark lose it. */
static int pending_mark(struct order_run *o, const int *answers)
{
    struct order_page *p = &o->pending;
    bool again = o->admin->kind == ADMIN_DEAD_REPLAY && o->admin->again;
    int rc = PR_OK;
    for (size_t i = 0; i < p->count && rc == PR_OK; i++) {
        const struct ended *e = &p->ended[i];
        bool ends = p->changes[i].fate == FATE_GONE && o->admin->kind != ADMIN_DEAD_REPLAY;
        if (answers[i] == PR_OK && ends && mark_is_made_for(p->targets[i].endpoint))
            rc = marks_add(&o->marks, e, p->targets[i].endpoint, o->s.now_us);
        else if (answers[i] == PR_OK && again)
            rc = marks_drop(&o->marks, e->box, e->id, mark_handler(p->targets[i].endpoint, e->endpoint));
    }
    return rc;
}

/* Writes deleted rows to the ledger. */
static int pending_note_ends(struct order_run *o, const int *answers)
{
    struct order_page *p = &o->pending;
    size_t count = 0;
    for (size_t i = 0; i < p->count; i++)
        if (answers[i] == PR_OK && p->changes[i].fate == FATE_GONE && o->admin->kind != ADMIN_DEAD_REPLAY)
            p->ended[count++] = p->ended[i];
    return count > 0 ? o->sql->ops->ended(o->sql, p->ended, count, o->admin->by, o->s.now_us, &p->arena) : PR_OK;
}

/* Flows continue when their activities have ended: without a result they would wait forever.  A result that is stored
 * already says the same. */
static int pending_notify_flows(struct order_run *o, const int *answers)
{
    struct order_page *p = &o->pending;
    pr_slice turns = box_known(o, flow_order_turns(o->admin));
    int rc = PR_OK, stored[ARRAY_LENGTH(p->flows->messages)];
    for (size_t i = 0; i < p->count && rc == PR_OK && turns.size > 0; i++)
        if (answers[i] == PR_OK && p->flows[i].count > 0)
            rc = o->sql->ops->insert(o->sql, turns, p->flows[i].messages, p->flows[i].count, o->s.now_us, stored);
    return rc;
}

static void pending_clear(struct order_page *p)
{
    arena_reset(&p->arena);
    p->changes = NULL;
    p->targets = NULL;
    p->boxes = NULL;
    p->ended = NULL;
    p->flows = NULL;
    memset(p->room, 0, sizeof(p->room));
    p->count = 0;
}

/* Changes the rows of the page that was read. */
static int pending_apply(void *arg)
{
    struct order_run *o = arg;
    struct order_page *p = &o->pending;
    struct sql_changes changes = { .boxes = p->boxes,
                                   .dead = is_on_dead(o),
                                   .order = &o->order,
                                   .list = p->changes,
                                   .count = p->count,
                                   .now_us = o->s.now_us,
                                   .arena = &p->arena };
    if (p->count == 0)
        return PR_OK;
    changes.answers = arena_alloc_array(&p->arena, p->count, sizeof(changes.answers[0]));
    changes.rows = arena_alloc_array(&p->arena, p->count, sizeof(changes.rows[0]));
    int rc = changes.answers != NULL && changes.rows != NULL ? o->sql->ops->apply(o->sql, &changes) : no_memory(o);
    for (size_t i = 0; i < p->count && rc == PR_OK; i++) {
        if (changes.answers[i] != PR_OK) { /* the id exists again, or the row changed hands */
            o->reply.refused++;
            continue;
        }
        if (changes.rows[i] != 0)
            p->targets[i].row = changes.rows[i];
        rc = target_add(o, &p->changes[i], &p->targets[i]);
    }
    if (rc == PR_OK)
        rc = pending_mark(o, changes.answers);
    if (rc == PR_OK)
        rc = pending_note_ends(o, changes.answers);
    if (rc == PR_OK)
        rc = pending_notify_flows(o, changes.answers);
    pending_clear(p);
    return rc;
}

/* What the order would do: only a replay depends on other rows. */
static int target_try(struct order_run *o, const struct listed *l, pr_slice box)
{
    struct flow_letter letter = { .kind = FLOW_LETTER_PLAIN };
    int64_t one;
    int rc = PR_OK;
    if (o->admin->kind == ADMIN_DEAD_REPLAY)
        rc = flow_order_letter(o->sql, o->admin, box, &l->m, &o->pending.arena, &letter);
    if (rc == PR_OK && o->admin->kind == ADMIN_DEAD_REPLAY && letter.kind == FLOW_LETTER_PLAIN)
        rc = sql_number(o->sql, SQL_order_can_replay, box, VALUES(V_INT(l->row)), &one);
    o->reply.changed += rc == PR_OK;
    o->reply.refused += rc == PR_UNKNOWN;
    return rc < 0 ? rc : PR_OK;
}

/* ---- Finding -------------------------------------------------------------------------------------- */

static void note_id(struct order_run *o, pr_id id)
{
    for (size_t i = 0; i < o->admin->filter.id_count; i++)
        o->found[i] |= pr_id_equal(o->admin->filter.ids[i], id);
}

/* The row after the last one that the limit allows ends the range. */
static int range_count(struct listed_range *range, uint64_t limit, pr_slice box, uint64_t row)
{
    if (limit > 0 && range->rows == limit)
        return LISTING_STOP;
    range->rows++;
    range->last_box = limit > 0 ? box : NO_BOX;
    range->last_row = row;
    return PR_OK;
}

/* Has its flow continued without it?  Then it is refused. */
static int target_is_late(struct order_run *o, const struct listed *l, pr_slice box, bool *ret)
{
    struct flow_letter letter;
    int rc = flow_order_letter(o->sql, o->admin, box, &l->m, &o->pending.arena, &letter);
    *ret = rc == PR_OK && letter.kind == FLOW_LETTER_LATE;
    o->reply.refused += *ret;
    o->reply.handled += *ret;
    return rc;
}

/* Has its handler ended another row of this message?  Then it is refused. */
static int target_is_handled(struct order_run *o, const struct listed *l, pr_slice box, bool *ret)
{
    int64_t at_us;
    int rc = marks_find(&o->marks, box, l->m.id, mark_handler(l->m.destination, l->endpoint), &at_us);
    *ret = at_us != 0;
    o->reply.refused += *ret;
    o->reply.handled += *ret;
    if (*ret && o->reply.handled_us == 0)
        o->reply.handled_us = at_us;
    return rc;
}

static int target_found(void *arg, const struct listed *l, struct pr_error *reterr)
{
    struct order_run *o = arg;
    const struct admin *a = o->admin;
    pr_slice box = box_known(o, l->box);
    enum order_takes takes = order_takes(a, &l->m, l->edited_as);
    if (box.size == 0 || takes == ORDER_SKIPS)
        return PR_OK; /* a dead letter of a box that no longer exists stays where it is */
    if (o->range.counting)
        return range_count(&o->range, a->filter.limit, box, l->row);
    note_id(o, l->m.id);
    bool beyond = slice_eq(box, o->range.last_box) && l->row > o->range.last_row;
    if (beyond || (a->filter.limit > 0 && o->reply.matched == a->filter.limit)) {
        o->reply.more = true;
        return LISTING_STOP;
    }
    o->reply.matched++;
    o->reply.last_row = l->row;
    o->reply.refused += takes == ORDER_REFUSES;
    int rc = order_check_matched(a, o->reply.matched, reterr);
    if (rc != PR_OK || takes == ORDER_REFUSES)
        return rc;
    bool handled = false;
    if (a->kind == ADMIN_DEAD_REPLAY && !a->again)
        rc = target_is_handled(o, l, box, &handled);
    if (rc == PR_OK && !handled && a->kind == ADMIN_DEAD_REPLAY && !a->again)
        rc = target_is_late(o, l, box, &handled);
    if (rc != PR_OK || handled)
        return rc;
    return a->dry_run ? target_try(o, l, box) : pending_add(o, l, box);
}

/* Does the id exist, though it was not found? */
static int look_for_id(struct order_run *o, size_t i, pr_slice box, bool *ret_there)
{
    enum sql_statement look = is_on_dead(o) ? SQL_order_look_letter : SQL_order_look_box;
    int64_t one;
    *ret_there = false;
    if (statement_is_empty(look, o->sql->ops->dialect))
        return PR_OK;
    int rc = sql_number(o->sql, look, box, VALUES(V_ID(o->admin->filter.ids[i])), &one);
    *ret_there = rc == PR_OK;
    return rc < 0 ? rc : PR_OK;
}

/* Ids that were not found: they do not exist, or another transaction has locked them. */
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
        .table = is_on_dead(o) ? LISTING_DEAD : LISTING_BOX,
        .box = f->box,
        .filter = f,
        .lock = lock,
        .followers = order_is_by_stream(o->admin),
        .found = target_found,
        .page_end = pending_apply,
        .arg = o,
    };
    if (listing.table == LISTING_DEAD)
        return listing_run(o->sql, &o->s, &listing, NULL);
    int rc = PR_OK;
    for (size_t i = 0; i < o->s.box_count && rc == PR_OK && !o->reply.more; i++) {
        if (f->box.size > 0 && !slice_eq(f->box, o->s.boxes[i]))
            continue;
        listing.box = o->s.boxes[i];
        rc = listing_run(o->sql, &o->s, &listing, NULL);
        if (!o->range.counting && slice_eq(listing.box, o->range.last_box))
            break;
    }
    return rc;
}

/* Ids show which ones are missing; for a filter the matches are counted before. */
static int targets_run(struct order_run *o)
{
    bool by_id = order_is_by_id(o->admin), dry = o->admin->dry_run;
    int rc = PR_OK;
    o->range = (struct listed_range){ .counting = o->skips && !by_id && !dry };
    if (o->range.counting)
        rc = targets_list(o, LISTING_LOCK_NONE);
    o->range.counting = false;
    if (rc == PR_OK && !by_id && !o->skips && !dry)
        rc = do_if_any(o, SQL_order_lock_wait);
    if (rc == PR_OK)
        rc = targets_list(o, dry ? LISTING_LOCK_NONE : by_id || o->skips ? LISTING_LOCK_SKIP : LISTING_LOCK_WAIT);
    uint64_t busy = o->range.rows > o->reply.matched ? o->range.rows - o->reply.matched : 0;
    o->reply.busy += busy;
    o->reply.matched += busy;
    o->reply.refused += busy;
    return rc == PR_OK ? ids_missing(o) : rc;
}

/* ---- Notices --------------------------------------------------------------------------------------- */

static int notices_add(struct order_run *o, enum notice_kind kind, const struct notice_target *targets, size_t count)
{
    int64_t *numbers = arena_alloc_array(&o->arena, 2 * count, sizeof(numbers[0]));
    pr_slice *texts = arena_alloc_array(&o->arena, 3 * count, sizeof(texts[0]));
    if (numbers == NULL || texts == NULL)
        return no_memory(o);
    for (size_t i = 0; i < count; i++) {
        numbers[i] = (int64_t)targets[i].row;
        numbers[count + i] = targets[i].seq;
        texts[i] = targets[i].box;
        texts[count + i] = targets[i].stream;
        texts[2 * count + i] = targets[i].endpoint;
    }
    return sql_do(o->sql, SQL_order_notices, NO_BOX,
                  VALUES(V_INT(kind), V_TEXTS(texts, count), V_INTS(numbers, count), V_INTS(numbers + count, count),
                         V_TEXTS(texts + count, count), V_TEXTS(texts + 2 * count, count), V_INT(o->sql->mono_us)));
}

static int notices_reload(struct order_run *o)
{
    const struct notice_target everything = { .box = o->admin->filter.box };
    int rc = do_if_any(o, SQL_order_notices_lock);
    return rc == PR_OK ? notices_add(o, NOTICE_RELOAD, &everything, 1) : rc;
}

/* Numbers must be committed in their order: one order at a time from here to the end. */
static int notices_write(struct order_run *o)
{
    if (!order_notices_each(o->admin, o->target_count) || o->untellable)
        return notices_reload(o);
    int rc = do_if_any(o, SQL_order_notices_lock);
    /* Edited and sent elsewhere, so its old stream goes on without it. */
    if (rc == PR_OK && o->admin->kind == ADMIN_DEAD_EDIT && o->admin->edit->destination != NULL) {
        struct notice_target gone = o->targets[0];
        gone.row = 0;
        rc = notices_add(o, NOTICE_GONE, &gone, 1);
    }
    return rc == PR_OK ? notices_add(o, action_of(o->admin->kind)->notice, o->targets, o->target_count) : rc;
}

static int audit_write(struct order_run *o)
{
    const struct admin *a = o->admin;
    struct buf target;
    buf_init(&target, AUDIT_BYTES_MAX);
    audit_write_target(&target, a);
    int rc = sql_do(o->sql, SQL_order_audit, NO_BOX,
                    VALUES(V_TIME(o->s.now_us), V_TEXT(a->by), V_TEXT(slice_from(admin_name(a->kind))),
                           V_TEXT(buf_slice(&target)), V_TEXT(a->why), V_INT(o->reply.matched), V_INT(o->reply.changed),
                           V_INT(o->reply.refused)));
    buf_fini(&target);
    return rc;
}

/* ---- Orders ---------------------------------------------------------------------------------------- */

/* Earlier hand-outs count no more.  At the end of the transaction, since a cycle locks rows before receipts, too. */
static int receipts_forget(struct order_run *o)
{
    int rc = PR_OK;
    for (size_t i = 0, end; i < o->retried_count && rc == PR_OK; i = end) {
        for (end = i + 1; end < o->retried_count && slice_eq(o->retried_boxes[end], o->retried_boxes[i]); end++)
            ;
        rc = sql_do(o->sql, SQL_order_forget, o->retried_boxes[i], VALUES(V_INTS(o->retried + i, end - i)));
    }
    return rc;
}

static int order_rows(struct order_run *o)
{
    int64_t newest = 0;
    int rc = is_on_dead(o) ? sql_number(o->sql, SQL_order_newest, NO_BOX, NO_VALUES, &newest) : PR_OK;
    o->reply.newest_row = (uint64_t)newest;
    if (rc == PR_OK)
        rc = targets_run(o);
    if (rc == PR_OK)
        rc = receipts_forget(o);
    return rc == PR_OK && o->target_count > 0 && !order_is_silent(o->admin) ? notices_write(o) : rc;
}

/* Imported letters: strict streams wait behind them from now on. */
static int order_import(struct order_run *o)
{
    bool in_streams;
    int rc = import_letters(o->sql, &o->s, &o->marks, o->admin, &o->reply, &in_streams);
    return rc == PR_OK && !o->admin->dry_run && in_streams ? notices_reload(o) : rc;
}

static int order_endpoint(struct order_run *o)
{
    const struct admin *a = o->admin;
    bool pauses = a->kind == ADMIN_PAUSE;
    struct rows rows;
    int64_t current_us = 0;
    int rc = sql_run(o->sql, SQL_order_endpoint, NO_BOX, VALUES(V_TEXT(a->filter.endpoint)), &rows);
    if (rc == PR_OK)
        rc = rows_step(&rows);
    if (rc > 0)
        current_us = row_time(&rows, 0);
    rows_end(&rows);
    if (rc < 0)
        return rc;
    int64_t until_us = order_pause_us(a, current_us, o->s.now_us);
    o->reply.matched = rc > 0 || pauses;
    o->reply.missing = !o->reply.matched;
    o->reply.changed = until_us >= 0;
    if (a->dry_run || until_us < 0)
        return PR_OK;
    rc = sql_do(o->sql, SQL_order_pause, NO_BOX,
                VALUES(V_TEXT(a->filter.endpoint), V_TIME(until_us), V_TEXT_OR_NULL(pauses ? a->by : NO_BOX),
                       V_TEXT_OR_NULL(pauses ? a->why : NO_BOX)));
    o->targets[o->target_count++] = (struct notice_target){ .endpoint = a->filter.endpoint };
    return rc == PR_OK ? notices_write(o) : rc;
}

static int order_inside(struct order_run *o)
{
    const struct admin *a = o->admin;
    int rc = listing_context_read(o->sql, &o->arena, &o->s);
    if (rc == PR_OK)
        rc = marks_init(&o->marks, o->sql, &o->s, &o->arena);
    if (rc == PR_OK && a->outcome != NULL)
        o->reply = *a->outcome; /* it was done elsewhere */
    else if (rc == PR_OK)
        rc = action_of(a->kind)->notice == NOTICE_ENDPOINT ? order_endpoint(o)
             : a->subscription.size > 0                    ? order_subscription(o->sql, a, &o->reply)
             : a->kind == ADMIN_DEAD_IMPORT                ? order_import(o)
             : a->flow != NULL                             ? flow_order_run(o->sql, a, &o->arena, &o->reply)
                                                           : order_rows(o);
    bool by_person = !a->from_source && a->verdict == NULL; /* a rule is none */
    if (rc == PR_OK && !a->dry_run && by_person)
        rc = audit_write(o);
    return rc == PR_OK && !a->dry_run ? sql_commit(o->sql) : rc;
}

/* *ret_again: it failed, and may be tried again. */
static int order_try(const struct store *store, const struct admin *admin, bool skips, struct sql *sql,
                     struct admin_reply *ret_reply, bool *ret_again)
{
    struct order_run o = { .sql = sql, .admin = admin, .order = order_of_admin(admin), .skips = skips };
    *ret_again = false;
    int rc = sql_begin(sql, store, admin->dry_run ? SQL_REHEARSE : SQL_WRITE);
    if (rc != PR_OK)
        return rc;
    arena_init(&o.arena, ARENA_BYTES);
    arena_init(&o.pending.arena, ARENA_BYTES);
    order_texts_init(&o.texts);
    o.targets = arena_alloc_array(&o.arena, NOTICES_EACH_MAX, sizeof(o.targets[0]));
    o.found = arena_alloc_array(&o.arena, admin->filter.id_count, sizeof(o.found[0]));
    rc = o.targets != NULL && o.found != NULL ? order_inside(&o) : no_memory(&o);
    *ret_again = rc < 0 && rc != PR_EUNCERTAIN && sql->ops->may_retry(sql);
    sql_end(sql);
    order_texts_fini(&o.texts);
    arena_fini(&o.pending.arena);
    arena_fini(&o.arena);
    *ret_reply = o.reply;
    return rc;
}

int people_admin(const struct store *store, const struct admin *admin, struct admin_reply *ret_reply,
                 struct pr_error *reterr)
{
    struct sql sql = { .reterr = reterr };
    struct admin_reply reply;
    bool again = true, skips = false;
    int rc = PR_OK;
    for (int i = 0; i < TRIES_MAX && again; i++) {
        rc = order_try(store, admin, skips, &sql, &reply, &again);
        if (rc == PR_EBUSY && sql.ops->locks_rows && !skips)
            skips = again = true;
    }
    if (rc == PR_OK)
        *ret_reply = reply;
    return rc;
}
