/* admin.c - people's orders: find what is meant, change it, tell the running instances, and
 * write down who said so.  One transaction each. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "core/ended.h"
#include "store/audit.h"
#include "store/people/import.h"
#include "store/people/listing.h"
#include "store/sqlite/change.h"
#include "store/sqlite/message.h"
#include "store/sqlite/sqlite.h"

#define NO_BOX ((pr_slice){ NULL, 0 })
#define ARENA_BYTES 65536
#define ENDED_AT_ONCE 100     /* of those that are discarded: in the ledger they share rows */
#define NOTICES_EACH_MAX 1000 /* more rows than this are told as "read everything anew" */

/* One row that is meant; read again when its turn comes. */
struct target {
    uint64_t row;
    pr_slice box;
    pr_slice endpoint; /* of a dead letter that is to be discarded: where it died */
    bool refused;
};

struct head {
    pr_slice destination;
    int64_t seq;
};

struct order_run {
    struct sqlite_store *store;
    struct conn *conn;
    const struct admin *admin;
    struct arena arena, scratch;
    struct sql sql; /* on the same connection */
    struct order_texts texts;
    struct surroundings s;
    bool by_stream;     /* RELEASE of a stream: of those behind one of its heads */
    struct head *heads; /* in the arena */
    size_t head_count;
    struct target *targets;
    size_t count, capacity;
    struct ended ended[ENDED_AT_ONCE]; /* discarded, and not in the ledger yet */
    size_t ended_count;
    struct admin_reply reply;
    struct pr_error *reterr;
};

static const struct action *order_action(const struct order_run *o)
{
    return action_of(o->admin->kind);
}

static int no_memory(struct order_run *o)
{
    return error_set(o->reterr, PR_ENOMEM, "no memory for what is to be changed");
}

/* ---- Finding ------------------------------------------------------------------------------ */

/* Is a head of the same stream before it, on the same way?  Where a row without destination goes is not known. */
static bool is_behind_head(const struct order_run *o, const struct pr_message *m)
{
    for (size_t i = 0; i < o->head_count; i++) {
        const struct head *h = &o->heads[i];
        bool same_way =
            h->destination.size == 0 || m->destination.size == 0 || slice_eq(h->destination, m->destination);
        if (same_way && h->seq < m->seq)
            return true;
    }
    return false;
}

/* A release is for followers: by stream those behind a failed head, else whoever is no head. */
static bool is_releasable(const struct order_run *o, const struct listed *l)
{
    bool awaits = message_awaits_endpoint(&l->m);
    if (l->m.held_by.size > 0 && !awaits)
        return true;
    if (o->by_stream)
        return (l->m.due_us == 0 || awaits) && is_behind_head(o, &l->m);
    return message_may_overtake(&l->m);
}

static int target_add(void *arg, const struct listed *l, struct pr_error *reterr)
{
    (void)reterr;
    struct order_run *o = arg;
    const struct filter *f = &o->admin->filter;
    bool edited = !pr_id_is_zero(l->edited_as);
    bool stands = o->admin->kind == ADMIN_RELEASE && !is_releasable(o, l);
    if (stands && f->id_count == 0)
        return PR_OK;
    if (o->admin->kind == ADMIN_DEAD_REPLAY && edited && f->id_count == 0)
        return PR_OK; /* another one went in its place */
    if (f->limit > 0 && o->count == f->limit) {
        o->reply.more = true;
        return 1;
    }
    if (o->count == o->capacity) {
        size_t capacity = o->capacity > 0 ? o->capacity * 2 : 16;
        struct target *targets = realloc(o->targets, capacity * sizeof(*targets));
        if (targets == NULL)
            return no_memory(o);
        o->targets = targets;
        o->capacity = capacity;
    }
    pr_slice box = NO_BOX, died_for = NO_BOX;
    if (o->admin->kind == ADMIN_DEAD_DISCARD && !o->admin->dry_run) {
        died_for = slice_dup(&o->arena, l->endpoint);
        if (died_for.data == NULL)
            return no_memory(o);
    }
    for (size_t i = 0; i < o->s.box_count; i++)
        if (slice_eq(o->s.boxes[i], l->box))
            box = o->s.boxes[i];
    if (box.size > 0) /* a dead letter of a box that is no more stays where it is */
        o->targets[o->count++] = (struct target){
            .row = l->row,
            .box = box,
            .endpoint = died_for,
            .refused = stands || (edited && (o->admin->kind == ADMIN_DEAD_REPLAY || o->admin->kind == ADMIN_DEAD_EDIT)),
        };
    return PR_OK;
}

static int find_in(struct order_run *o, pr_slice box, const pr_id *id)
{
    struct filter filter = o->admin->filter;
    const struct listing listing = { .table = order_action(o)->on_dead ? LISTING_DEAD : LISTING_BOX,
                                     .box = box,
                                     .filter = &filter,
                                     .found = target_add,
                                     .arg = o };
    filter.ids = id;
    filter.id_count = id != NULL;
    return listing_run(&o->sql, &o->s, &listing, NULL);
}

/* RELEASE of a stream: the first failed or parked head of it for each destination. */
static int heads_read(struct order_run *o, pr_slice box)
{
    sqlite3_stmt *s;
    size_t room = 0;
    o->head_count = 0;
    if (!o->by_stream)
        return PR_OK;
    int rc = conn_bind(o->conn,
                       "SELECT destination, min(seq) FROM \"{box}\" INDEXED BY \"postrider_{box}_heads\" WHERE stream ="
                       " ?1 AND " MESSAGE_IS_HEAD " GROUP BY destination",
                       box, VALUES(V_TEXT(o->admin->filter.stream)), &s, o->reterr);
    while (rc >= 0 && (rc = conn_step(o->conn, s, o->reterr)) > 0) {
        if (o->head_count == room) {
            struct head *heads = arena_alloc_array(&o->arena, room = 2 * room + 8, sizeof(heads[0]));
            if (heads != NULL && o->head_count > 0)
                memcpy(heads, o->heads, o->head_count * sizeof(heads[0]));
            o->heads = heads;
        }
        pr_slice destination = slice_dup(&o->arena, column_slice(s, 0));
        if (o->heads == NULL || destination.data == NULL) {
            sqlite3_reset(s);
            return no_memory(o);
        }
        o->heads[o->head_count++] = (struct head){ destination, sqlite3_column_int64(s, 1) };
    }
    return rc;
}

/* In each box, or in the one named; dead letters are in one table. */
static int find_everywhere(struct order_run *o, const pr_id *id)
{
    const struct filter *f = &o->admin->filter;
    if (order_action(o)->on_dead)
        return find_in(o, f->box, id);
    int rc = PR_OK;
    for (size_t i = 0; i < o->s.box_count && rc == PR_OK; i++) {
        if (f->box.size > 0 && !slice_eq(f->box, o->s.boxes[i]))
            continue;
        rc = heads_read(o, o->s.boxes[i]);
        if (rc == PR_OK)
            rc = find_in(o, o->s.boxes[i], id);
    }
    return rc;
}

static int targets_find(struct order_run *o)
{
    const struct filter *f = &o->admin->filter;
    int rc = f->id_count == 0 ? find_everywhere(o, NULL) : PR_OK;
    for (size_t i = 0; i < f->id_count && rc == PR_OK; i++) {
        size_t before = o->count;
        rc = find_everywhere(o, &f->ids[i]);
        o->reply.missing += o->count == before && !o->reply.more;
    }
    o->reply.matched = o->count;
    o->reply.last_row = o->count > 0 ? o->targets[o->count - 1].row : 0;
    if (rc >= PR_OK && o->admin->kind == ADMIN_DEAD_EDIT && o->count > 1)
        return error_set(o->reterr, PR_EINVAL, "that id died on the way to several endpoints: name the endpoint, too");
    return rc < 0 ? rc : PR_OK;
}

/* B2: its id was sent anew. */
static int targets_refuse(struct order_run *o)
{
    for (size_t i = 0; i < o->count; i++) {
        struct target *t = &o->targets[i];
        int64_t there;
        if (o->admin->kind != ADMIN_DEAD_REPLAY || t->refused) {
            o->reply.refused += t->refused;
            continue;
        }
        int rc = conn_int(
            o->conn,
            "SELECT 1 FROM postrider_dead_letter d JOIN \"{box}\" b ON b.id = d.id AND b.destination = d.destination"
            " WHERE d.row_id = ?1",
            t->box, VALUES(V_INT(t->row)), &there, o->reterr);
        if (rc < 0)
            return rc;
        t->refused = rc == PR_OK;
        o->reply.refused += t->refused;
    }
    o->reply.changed = o->count - o->reply.refused;
    return PR_OK;
}

/* ---- Changing ------------------------------------------------------------------------------ */

static int target_read(struct order_run *o, const struct target *t, struct pr_message *ret)
{
    bool dead = order_action(o)->on_dead;
    sqlite3_stmt *statement;
    uint64_t row;
    const char *bad;
    int rc = conn_bind(o->conn,
                       dead ? "SELECT " MESSAGE_COLUMNS ", NULL FROM postrider_dead_letter WHERE row_id = ?1"
                            : "SELECT " MESSAGE_COLUMNS ", NULL FROM \"{box}\" WHERE row_id = ?1",
                       t->box, VALUES(V_INT(t->row)), &statement, o->reterr);
    if (rc != PR_OK)
        return rc;
    rc = conn_step(o->conn, statement, o->reterr);
    ASSERT(rc != 0); /* we found it in this transaction */
    if (rc < 0)
        return rc;
    arena_reset(&o->scratch);
    rc = message_decode(statement, &o->scratch, o->store->payload_max, ret, &row, NULL, &bad, o->reterr);
    sqlite3_reset(statement);
    return rc;
}

/* ---- Telling ------------------------------------------------------------------------------- */

static int notice_write(struct order_run *o, pr_slice box, enum notice_kind kind, uint64_t row, int64_t seq,
                        pr_slice stream, pr_slice endpoint)
{
    return conn_do(o->conn,
                   "INSERT INTO postrider_control (mono_at, box, kind, row, seq, stream, endpoint) VALUES (?1, ?2, ?3, "
                   "?4, ?5, ?6, ?7)",
                   NO_BOX,
                   VALUES(V_INT(store_mono_us(o->store)), V_TEXT(box), V_INT(kind), V_INT(row), V_INT(seq),
                          V_TEXT(stream), V_TEXT(endpoint)),
                   NULL, o->reterr);
}

static int audit_write(struct order_run *o)
{
    struct buf target;
    buf_init(&target, AUDIT_BYTES_MAX);
    audit_write_target(&target, o->admin);
    int rc = conn_do(o->conn,
                     "INSERT INTO postrider_audit (at, who, action, target, why, matched, changed, refused)"
                     " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                     NO_BOX,
                     VALUES(V_INT(o->s.now_us), V_TEXT(o->admin->by), V_TEXT(slice_from(admin_name(o->admin->kind))),
                            V_TEXT(buf_slice(&target)), V_TEXT(o->admin->why), V_INT(o->reply.matched),
                            V_INT(o->reply.changed), V_INT(o->reply.refused)),
                     NULL, o->reterr);
    buf_fini(&target);
    return rc;
}

/* ---- The ledger of what has ended ------------------------------------------------------------ */

static int ended_flush(struct order_run *o)
{
    int rc = o->ended_count > 0
                 ? ended_insert(o->conn, o->ended, o->ended_count, o->admin->by, o->s.now_us, &o->arena, o->reterr)
                 : PR_OK;
    o->ended_count = 0;
    return rc;
}

/* This row, or dead letter, is gone. */
static int ended_add(struct order_run *o, const struct target *t, const struct pr_message *m, pr_slice endpoint)
{
    struct ended *e = &o->ended[o->ended_count];
    bool same = o->ended_count > 0 && slice_eq(e[-1].endpoint, endpoint);
    *e = (struct ended){ .id = m->id, .box = t->box, .as = ENDED_BY_PERSON, .attempt = m->attempts };
    e->endpoint = same ? e[-1].endpoint : slice_dup(&o->arena, endpoint);
    if (e->endpoint.data == NULL && endpoint.size > 0)
        return no_memory(o);
    return ++o->ended_count == ENDED_AT_ONCE ? ended_flush(o) : PR_OK;
}

/* ---- Orders about rows ----------------------------------------------------------------------- */

static int target_run(struct order_run *o, const struct target *t, bool tell)
{
    const struct row_order order = order_of_admin(o->admin);
    const struct changing w = { o->conn, t->box, o->s.now_us, 0, o->reterr };
    struct pr_message m;
    struct change change;
    pr_slice endpoint = t->endpoint;
    uint64_t row = t->row; /* that instances know, or will know; 0: of a dead letter that is gone */
    int rc = target_read(o, t, &m);
    if (rc != PR_OK)
        return rc;
    if (endpoint.size == 0)
        endpoint = filter_endpoint_of(&o->admin->filter, t->box, &m);
    if (change_of_order(&order, &m, t->row, endpoint, o->s.now_us, &o->texts, &change) < 0)
        return no_memory(o);
    rc = order_action(o)->on_dead ? dead_change(&w, &change, &order, &row) : box_change(&w, &change, NULL);
    if (rc == PR_STALE) { /* an equal one went back just now */
        o->reply.refused++;
        o->reply.changed--;
        return PR_OK;
    }
    ASSERT(rc <= PR_OK); /* we found it in this transaction */
    if (rc == PR_OK && change.fate == FATE_GONE)
        rc = ended_add(o, t, &m, endpoint);
    if (rc == PR_OK && change.fate == FATE_COPIED)
        o->reply.made = o->admin->made;
    /* Sent elsewhere, so its old stream goes on without it. */
    bool moved = change.fate == FATE_COPIED && o->admin->edit->destination != NULL;
    if (rc == PR_OK && moved)
        rc = notice_write(o, t->box, NOTICE_GONE, 0, m.seq, m.stream, m.destination);
    if (rc == PR_OK && tell)
        rc = notice_write(o, t->box, order_action(o)->notice, row, m.seq, m.stream, m.destination);
    return rc;
}

static int newest_read(struct order_run *o)
{
    int64_t newest = 0;
    if (!order_action(o)->on_dead)
        return PR_OK;
    int rc = conn_int(o->conn, "SELECT coalesce(max(row_id), 0) FROM postrider_dead_letter", NO_BOX, NULL, 0, &newest,
                      o->reterr);
    o->reply.newest_row = (uint64_t)newest;
    return rc;
}

static int order_rows(struct order_run *o)
{
    int rc = newest_read(o);
    if (rc == PR_OK)
        rc = targets_find(o);
    if (rc == PR_OK)
        rc = targets_refuse(o);
    if (rc != PR_OK || o->admin->dry_run)
        return rc;
    /* Ids, or a single row: each is told.  Else everything is read anew. */
    bool silent = o->admin->kind == ADMIN_DEAD_NOTE;
    bool each = o->count <= 1 || (o->admin->filter.id_count > 0 && o->count <= NOTICES_EACH_MAX);
    for (size_t i = 0; i < o->count && rc == PR_OK; i++)
        if (!o->targets[i].refused)
            rc = target_run(o, &o->targets[i], each && !silent);
    if (rc == PR_OK)
        rc = ended_flush(o);
    if (rc == PR_OK && !each && !silent && o->reply.changed > 0)
        rc = notice_write(o, o->admin->filter.box, NOTICE_RELOAD, 0, 0, NO_BOX, NO_BOX);
    return rc == PR_OK ? audit_write(o) : rc;
}

/* ---- Letters of others ------------------------------------------------------------------------ */

static int order_import(struct order_run *o)
{
    bool in_streams;
    int rc = import_letters(&o->sql, &o->s, o->admin, &o->reply, &in_streams);
    if (rc != PR_OK || o->admin->dry_run)
        return rc;
    if (in_streams) /* strict ones wait behind them from now on */
        rc = notice_write(o, NO_BOX, NOTICE_RELOAD, 0, 0, NO_BOX, NO_BOX);
    return rc == PR_OK ? audit_write(o) : rc;
}

/* ---- Orders about endpoints -------------------------------------------------------------------- */

/* Of two pauses the later end wins; one that is over does not count. */
static int order_endpoint(struct order_run *o)
{
    const struct admin *a = o->admin;
    int64_t now_us = o->s.now_us, current_us = 0;
    int64_t wanted_us = a->until_us != 0 ? a->until_us : PR_NEVER;
    bool pause = a->kind == ADMIN_PAUSE;
    int rc = conn_int(o->conn, "SELECT paused_until FROM postrider_endpoint WHERE name = ?1", NO_BOX,
                      VALUES(V_TEXT(a->filter.endpoint)), &current_us, o->reterr);
    if (rc < 0)
        return rc;
    o->reply.matched = rc == PR_OK || pause;
    o->reply.missing = !o->reply.matched;
    o->reply.changed =
        pause ? wanted_us > now_us && wanted_us > (current_us > now_us ? current_us : 0) : current_us > now_us;
    if (a->dry_run)
        return PR_OK;
    if (o->reply.changed > 0) {
        rc =
            conn_do(o->conn,
                    "INSERT INTO postrider_endpoint (name, paused_until, paused_by, paused_why) VALUES (?1, ?2, ?3, ?4)"
                    " ON CONFLICT (name) DO UPDATE SET paused_until = ?2, paused_by = ?3, paused_why = ?4",
                    NO_BOX,
                    VALUES(V_TEXT(a->filter.endpoint), V_INT(pause ? wanted_us : 0), V_TEXT(pause ? a->by : NO_BOX),
                           V_TEXT(pause ? a->why : NO_BOX)),
                    NULL, o->reterr);
        if (rc == PR_OK)
            rc = notice_write(o, NO_BOX, NOTICE_ENDPOINT, 0, 0, NO_BOX, a->filter.endpoint);
    }
    return rc >= 0 ? audit_write(o) : rc;
}

/* What was done elsewhere. */
static int order_record(struct order_run *o)
{
    o->reply = *o->admin->outcome;
    return audit_write(o);
}

/* ---- The whole ---------------------------------------------------------------------------------- */

static int order_run(struct order_run *o)
{
    bool on_endpoint = o->admin->kind == ADMIN_PAUSE || o->admin->kind == ADMIN_RESUME;
    int rc = conn_begin(o->conn, !o->admin->dry_run, o->reterr);
    if (rc == PR_OK)
        rc = surroundings_read(&o->sql, &o->arena, &o->s);
    if (rc == PR_OK)
        rc = o->admin->outcome != NULL             ? order_record(o)
             : on_endpoint                         ? order_endpoint(o)
             : o->admin->kind == ADMIN_DEAD_IMPORT ? order_import(o)
                                                   : order_rows(o);
    if (rc == PR_OK && !o->admin->dry_run)
        rc = conn_commit(o->conn, o->reterr);
    conn_rollback(o->conn);
    return rc;
}

int sqlite_admin(void *self, const struct admin *admin, struct admin_reply *ret_reply, struct pr_error *reterr)
{
    const struct filter *f = &admin->filter;
    struct order_run o = { .store = self, .admin = admin, .reterr = reterr };
    o.by_stream = admin->kind == ADMIN_RELEASE && f->id_count == 0 && f->stream.size > 0;

    int rc = store_people(o.store, false, &o.conn, reterr);
    if (rc != PR_OK)
        return rc;
    o.sql.reterr = reterr;
    sqlite_sql_use(&o.sql, o.store, o.conn);
    arena_init(&o.arena, ARENA_BYTES);
    arena_init(&o.scratch, ARENA_BYTES);
    order_texts_init(&o.texts);
    conn_lock(o.conn);
    rc = order_run(&o);
    conn_unlock(o.conn);
    if (rc == PR_OK) {
        *ret_reply = o.reply;
        store_wake(o.store);
    }
    free(o.targets);
    order_texts_fini(&o.texts);
    arena_fini(&o.scratch);
    arena_fini(&o.arena);
    return rc;
}
