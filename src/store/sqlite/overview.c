/* Each answer is bounded, however many rows there are: groups step from fingerprint to fingerprint
 * through an index and count each to COUNT_EXACT_MAX; streams come from the index of heads and from
 * the distinct keys of held rows. */
#include "store/sqlite/overview.h"

#include "base/error.h"
#include "base/slice.h"
#include "core/id.h"
#include "core/story.h"
#include "store/audit.h"
#include "store/ranking.h"
#include "store/sqlite/message.h"

#define NO_BOX ((pr_slice){ NULL, 0 })
#define SCRATCH_BYTES 65536

static int no_memory(const struct overview *o)
{
    return error_set(o->reterr, PR_ENOMEM, "no memory for the answer");
}

static pr_slice keep(const struct overview *o, sqlite3_stmt *statement, int column)
{
    return slice_dup(o->arena, column_slice(statement, column));
}

/* ---- Groups --------------------------------------------------------------------------------- */

/* What the index has: it is not left. */
#define IN_GROUP                                                                                               \
    " FROM dead_letter INDEXED BY dead_letter_group WHERE fingerprint = ?1 AND died_at >= ?2 AND died_at < ?3" \
    " AND (?4 = '' OR box = ?4) AND (?5 = 0 OR cause = ?5 OR failure_reason = ?5)"
/* And what it has not, of the latest so many. */
#define IN_GROUP_TEXT(columns)                                                                                 \
    " FROM (SELECT stream, error, " columns IN_GROUP " ORDER BY died_at DESC LIMIT ?8)"                        \
    " WHERE (?6 = '' OR stream = ?6) AND (?7 = '' OR instr(error, ?7) > 0)"
#define GROUP_COLUMNS "box, endpoint, type, error, cause, failure_reason, id, died_at"
#define GROUP_KEYS(f, print)                                                                                   \
    V_TEXT(print), V_INT((f)->since_us), V_INT((f)->until_us != 0 ? (f)->until_us : INT64_MAX),                \
        V_TEXT((f)->box), V_INT((f)->reason)
#define GROUP_TEXTS(f) V_TEXT((f)->stream), V_TEXT((f)->error)

/* The first row of the index alone (look 0), or with the texts. */
static int group_bind(const struct overview *o, const char *by_index, const char *by_text, pr_slice print,
                      int64_t look, sqlite3_stmt **ret)
{
    const struct filter *f = &o->query->filter;
    return look > 0 ? conn_bind(o->conn, by_text, NO_BOX,
                                VALUES(GROUP_KEYS(f, print), GROUP_TEXTS(f), V_INT(look)), ret, o->reterr)
                    : conn_bind(o->conn, by_index, NO_BOX, VALUES(GROUP_KEYS(f, print)), ret, o->reterr);
}

static int group_int(const struct overview *o, const char *by_index, const char *by_text, pr_slice print,
                     int64_t look, int64_t *ret)
{
    sqlite3_stmt *statement;
    int rc = group_bind(o, by_index, by_text, print, look, &statement);
    if (rc == PR_OK)
        rc = conn_step(o->conn, statement, o->reterr);
    if (rc <= 0)
        return rc;
    *ret = sqlite3_column_int64(statement, 0);
    sqlite3_reset(statement);
    return PR_OK;
}

/* How many of a group are looked at; 0: the index says it all. */
static int look_read(const struct overview *o, int64_t *ret)
{
    const struct filter *f = &o->query->filter;
    *ret = 0;
    if (f->stream.size == 0 && f->error.size == 0)
        return PR_OK;
    int rc = conn_int(o->conn, "SELECT count(*) FROM (SELECT 1 FROM dead_letter LIMIT ?1)", NO_BOX,
                      VALUES(V_INT(LOOK_MAX + 1)), ret, o->reterr);
    *ret = *ret > LOOK_MAX ? GROUP_LOOK_MAX : LOOK_MAX;
    return rc;
}

/* Its latest dead letter.  Outcome PR_UNKNOWN: the filter finds none. */
static int group_read(const struct overview *o, pr_slice print, int64_t look, struct dead_group *g)
{
    const struct filter *f = &o->query->filter;
    sqlite3_stmt *statement;
    int rc = group_bind(
        o, "SELECT " GROUP_COLUMNS IN_GROUP " ORDER BY died_at DESC LIMIT 1",
        "SELECT " GROUP_COLUMNS IN_GROUP_TEXT(
            "box, endpoint, type, cause, failure_reason, id, died_at") " ORDER BY died_at DESC LIMIT 1",
        print, look, &statement);
    if (rc == PR_OK)
        rc = conn_step(o->conn, statement, o->reterr);
    if (rc <= 0)
        return rc < 0 ? rc : PR_UNKNOWN;
    *g = (struct dead_group){
        .fingerprint = slice_dup(o->arena, print),
        .box = keep(o, statement, 0),
        .endpoint = keep(o, statement, 1),
        .type = keep(o, statement, 2),
        .error = keep(o, statement, 3),
        .cause = sqlite3_column_int(statement, 4),
        .reason = sqlite3_column_int(statement, 5),
        .last_us = sqlite3_column_int64(statement, 7),
    };
    bool readable = id_from_stored(column_slice(statement, 6), &g->sample) == PR_OK;
    if (!readable)
        g->sample = (pr_id){ { 0 } };
    sqlite3_reset(statement);
    if (g->fingerprint.data == NULL || g->box.data == NULL || g->endpoint.data == NULL ||
        g->type.data == NULL || g->error.data == NULL)
        return no_memory(o);
    /* These are in the fingerprint, so one says it for all. */
    bool fits = (f->type.size == 0 || slice_glob(f->type, g->type)) &&
                (f->endpoint.size == 0 || slice_eq(f->endpoint, g->endpoint));
    return fits ? PR_OK : PR_UNKNOWN;
}

static int group_count(const struct overview *o, int64_t look, struct dead_group *g)
{
    int64_t count = 0, all = 0;
    int rc = group_int(o, "SELECT died_at" IN_GROUP " ORDER BY died_at LIMIT 1",
                       "SELECT died_at" IN_GROUP_TEXT("died_at") " ORDER BY died_at LIMIT 1", g->fingerprint,
                       look, &g->first_us);
    if (rc == PR_OK)
        rc = group_int(o, "SELECT count(*) FROM (SELECT 1" IN_GROUP " LIMIT 10001)",
                       "SELECT count(*) FROM (SELECT 1" IN_GROUP_TEXT("died_at") " LIMIT 10001)",
                       g->fingerprint, look, &count);
    if (rc == PR_OK && look > 0)
        rc = group_int(o, "SELECT count(*) FROM (SELECT 1" IN_GROUP " LIMIT 10001)", NULL, g->fingerprint, 0,
                       &all);
    g->count = (uint64_t)count;
    g->partial = all > look;
    return rc;
}

/* The first fingerprint after this one (or, inclusive, at it), in the arena.  Outcome PR_UNKNOWN: none. */
static int print_next(const struct overview *o, pr_slice after, bool inclusive, pr_slice *ret)
{
    sqlite3_stmt *statement;
    int rc = conn_bind(o->conn,
                       inclusive ? "SELECT fingerprint FROM dead_letter INDEXED BY dead_letter_group"
                                   " WHERE fingerprint >= ?1 ORDER BY fingerprint LIMIT 1"
                                 : "SELECT fingerprint FROM dead_letter INDEXED BY dead_letter_group"
                                   " WHERE fingerprint > ?1 ORDER BY fingerprint LIMIT 1",
                       NO_BOX, VALUES(V_TEXT(after)), &statement, o->reterr);
    if (rc == PR_OK)
        rc = conn_step(o->conn, statement, o->reterr);
    if (rc <= 0)
        return rc < 0 ? rc : PR_UNKNOWN;
    *ret = keep(o, statement, 0);
    sqlite3_reset(statement);
    return ret->data != NULL ? PR_OK : no_memory(o);
}

int overview_groups(const struct overview *o)
{
    struct query_reply *reply = o->reply;
    pr_slice wanted = o->query->filter.fingerprint, print = wanted;
    int64_t look;
    int rc = look_read(o, &look);
    if (rc == PR_OK && wanted.size == 0)
        rc = print_next(o, print, true, &print);

    reply->groups = arena_alloc_array(o->arena, GROUPS_LOOKED_MAX, sizeof(reply->groups[0]));
    if (reply->groups == NULL)
        return no_memory(o);
    for (size_t looked = 0; rc == PR_OK; looked++) {
        if (looked == GROUPS_LOOKED_MAX) {
            reply->more = true;
            break;
        }
        struct dead_group *g = &reply->groups[reply->group_count];
        rc = group_read(o, print, look, g);
        if (rc == PR_OK) {
            rc = group_count(o, look, g);
            reply->group_count++;
        }
        if (rc >= PR_OK)
            rc = wanted.size > 0 ? PR_UNKNOWN : print_next(o, print, false, &print);
    }
    groups_rank(o->query, reply);
    return rc < 0 ? rc : PR_OK;
}

/* ---- Streams -------------------------------------------------------------------------------- */

static int head_take(const struct overview *o, struct stream_list *streams, pr_slice box,
                     sqlite3_stmt *statement, struct arena *scratch)
{
    struct pr_message m;
    uint64_t row;
    const char *bad;
    arena_reset(scratch);
    int rc = message_decode(statement, scratch, o->s->payload_max, &m, &row, &bad, o->reterr);
    if (rc != PR_OK)
        return rc;
    struct stream_info head =
        stream_of_row(box, &m, surroundings_state(o->s, box, row, &m, m.destination), o->s->now_us);
    return !stream_is_asked(&o->query->filter, &head) || streams_add(streams, &head) != NULL ? PR_OK
                                                                                             : no_memory(o);
}

/* What the index of heads says of it: a row is read only where its story alone names the endpoint. */
static int head_take_brief(const struct overview *o, struct stream_list *streams, pr_slice box,
                           sqlite3_stmt *statement)
{
    pr_slice destination = column_slice(statement, 1);
    struct stream_info head = {
        .box = box,
        .stream = column_slice(statement, 0),
        .endpoint = destination.size > 0 ? destination : story_endpoint(column_slice(statement, 2)),
        .head_seq = sqlite3_column_int64(statement, 3),
    };
    return !stream_is_asked(&o->query->filter, &head) || streams_add(streams, &head) != NULL ? PR_OK
                                                                                             : no_memory(o);
}

#define HEADS_IN_BOX                                                                                           \
    " FROM \"{box}\" INDEXED BY \"{box}_heads\" WHERE " MESSAGE_IS_HEAD                                        \
    " AND stream <> '' AND (?1 = '' OR stream = ?1) ORDER BY row_id LIMIT ?2"

static int heads_read(const struct overview *o, struct stream_list *streams, pr_slice box)
{
    struct arena scratch;
    sqlite3_stmt *statement;
    size_t rows = 0;
    int rc = conn_bind(
        o->conn,
        o->query->brief
            ? "SELECT stream, destination, CASE destination WHEN '' THEN story END, row_id" HEADS_IN_BOX
            : "SELECT " MESSAGE_COLUMNS ", NULL" HEADS_IN_BOX,
        box, VALUES(V_TEXT(o->query->filter.stream), V_INT(STREAMS_LOOKED_MAX + 1)), &statement, o->reterr);
    if (rc != PR_OK)
        return rc;
    arena_init(&scratch, SCRATCH_BYTES);
    while ((rc = conn_step(o->conn, statement, o->reterr)) > 0) {
        if (rows++ == STREAMS_LOOKED_MAX) {
            o->reply->more = true;
            break;
        }
        rc = o->query->brief ? head_take_brief(o, streams, box, statement)
                             : head_take(o, streams, box, statement, &scratch);
        if (rc != PR_OK)
            break;
    }
    sqlite3_reset(statement);
    arena_fini(&scratch);
    return rc < 0 ? rc : PR_OK;
}

/* What is held by this key: how many, and the first one's place.  Outcome PR_UNKNOWN: nothing. */
static int held_count(const struct overview *o, pr_slice box, pr_slice key, uint64_t *ret_count,
                      int64_t *ret_seq)
{
    int64_t count = 0;
    int rc = conn_int(o->conn, "SELECT count(*) FROM (SELECT 1 FROM \"{box}\" WHERE held_by = ?1 LIMIT 10001)",
                      box, VALUES(V_TEXT(key)), &count, o->reterr);
    *ret_count = (uint64_t)count;
    if (rc == PR_OK)
        rc = conn_int(o->conn, "SELECT seq FROM \"{box}\" WHERE held_by = ?1 ORDER BY seq LIMIT 1", box,
                      VALUES(V_TEXT(key)), ret_seq, o->reterr);
    return rc;
}

/* Its head is not in the box: strict streams wait behind a dead letter. */
static int dead_head_read(const struct overview *o, struct stream_list *streams,
                          const struct stream_info *stream, int64_t before_seq)
{
    struct arena scratch;
    sqlite3_stmt *statement;
    int rc = conn_bind(
        o->conn,
        "SELECT " MESSAGE_COLUMNS ", NULL, cause, died_at FROM dead_letter WHERE stream = ?1 AND box = ?2"
        " AND endpoint = ?3 AND seq < ?4 AND edited_as IS NULL ORDER BY seq LIMIT 1",
        NO_BOX,
        VALUES(V_TEXT(stream->stream), V_TEXT(stream->box), V_TEXT(stream->endpoint), V_INT(before_seq)),
        &statement, o->reterr);
    if (rc == PR_OK)
        rc = conn_step(o->conn, statement, o->reterr);
    if (rc <= 0) /* none: the head was delivered just now, and they go on by themselves */
        return rc;
    struct pr_message m;
    uint64_t row;
    const char *bad;
    arena_init(&scratch, SCRATCH_BYTES);
    rc = message_decode(statement, &scratch, o->s->payload_max, &m, &row, &bad, o->reterr);
    if (rc == PR_OK) {
        struct stream_info head = stream_of_row(stream->box, &m, STATE_DEAD, o->s->now_us);
        head.endpoint = stream->endpoint;
        head.waiting = stream->waiting;
        head.since_us = sqlite3_column_int64(statement, MESSAGE_COLUMN_COUNT + 1);
        head.due_us = PR_NEVER;
        if (head.reason == PR_REASON_NONE)
            head.reason = sqlite3_column_int(statement, MESSAGE_COLUMN_COUNT);
        rc = streams_add(streams, &head) != NULL ? PR_OK : no_memory(o);
    }
    sqlite3_reset(statement);
    arena_fini(&scratch);
    return rc;
}

static int key_take(const struct overview *o, struct stream_list *streams, pr_slice box, pr_slice key,
                    size_t *dead_heads)
{
    struct stream_info stream = { .box = box };
    int64_t first_seq = 0;
    if (!stream_key_split(key, &stream.endpoint, &stream.stream) ||
        !stream_is_asked(&o->query->filter, &stream))
        return PR_OK;
    int rc = held_count(o, box, key, &stream.waiting, &first_seq);
    struct stream_info *head = rc == PR_OK ? streams_find(streams, box, stream.endpoint, stream.stream) : NULL;
    if (head != NULL)
        head->waiting = stream.waiting;
    else if (rc == PR_OK && (*dead_heads)++ < DEAD_HEADS_MAX)
        rc = dead_head_read(o, streams, &stream, first_seq);
    else if (rc == PR_OK)
        o->reply->more = true;
    return rc < 0 ? rc : PR_OK;
}

static int key_next(const struct overview *o, pr_slice box, pr_slice after, pr_slice *ret)
{
    sqlite3_stmt *statement;
    int rc = conn_bind(o->conn, "SELECT held_by FROM \"{box}\" WHERE held_by > ?1 ORDER BY held_by LIMIT 1",
                       box, VALUES(V_TEXT(after)), &statement, o->reterr);
    if (rc == PR_OK)
        rc = conn_step(o->conn, statement, o->reterr);
    if (rc <= 0)
        return rc < 0 ? rc : PR_UNKNOWN;
    *ret = keep(o, statement, 0);
    sqlite3_reset(statement);
    return ret->data != NULL ? PR_OK : no_memory(o);
}

static int keys_read(const struct overview *o, struct stream_list *streams, pr_slice box)
{
    pr_slice key = NO_BOX;
    size_t dead_heads = 0;
    int rc = PR_OK;
    for (size_t looked = 0; (rc = key_next(o, box, key, &key)) == PR_OK; looked++) {
        if (looked == STREAMS_LOOKED_MAX) {
            o->reply->more = true;
            return PR_OK;
        }
        rc = key_take(o, streams, box, key, &dead_heads);
        if (rc != PR_OK)
            return rc;
    }
    return rc < 0 ? rc : PR_OK;
}

int overview_streams(const struct overview *o)
{
    struct stream_list streams = { .arena = o->arena };
    pr_slice wanted = o->query->filter.box;
    int rc = PR_OK;
    for (size_t i = 0; i < o->s->box_count && rc == PR_OK; i++)
        if (wanted.size == 0 || slice_eq(wanted, o->s->boxes[i]))
            rc = heads_read(o, &streams, o->s->boxes[i]);
    streams_settle(&streams);
    for (size_t i = 0; i < o->s->box_count && rc == PR_OK; i++)
        if (wanted.size == 0 || slice_eq(wanted, o->s->boxes[i]))
            rc = keys_read(o, &streams, o->s->boxes[i]);
    streams_rank(&streams, o->query, o->reply);
    return rc;
}

/* ---- Audit ---------------------------------------------------------------------------------- */

int overview_audit(const struct overview *o)
{
    const struct filter *f = &o->query->filter;
    struct query_reply *reply = o->reply;
    size_t limit = f->limit > 0 ? f->limit : 100;
    sqlite3_stmt *statement;
    int rc = conn_bind(o->conn,
                       "SELECT number, at, who, action, target, why, matched, changed, refused FROM audit"
                       " WHERE number < ?1 AND at >= ?2 AND at < ?3 ORDER BY number DESC LIMIT ?4",
                       NO_BOX,
                       VALUES(V_INT(f->after != 0 ? f->after : INT64_MAX), V_INT(f->since_us),
                              V_INT(f->until_us != 0 ? f->until_us : INT64_MAX), V_INT(limit + 1)),
                       &statement, o->reterr);
    if (rc != PR_OK)
        return rc;
    size_t capacity = 0;
    while ((rc = conn_step(o->conn, statement, o->reterr)) > 0) {
        if (reply->audit_count == limit) {
            reply->more = true;
            break;
        }
        struct audit_entry *e = audit_room(o->arena, reply, &capacity);
        if (e == NULL) {
            rc = no_memory(o);
            break;
        }
        *e = (struct audit_entry){
            .number = (uint64_t)sqlite3_column_int64(statement, 0),
            .at_us = sqlite3_column_int64(statement, 1),
            .who = keep(o, statement, 2),
            .action = keep(o, statement, 3),
            .target = keep(o, statement, 4),
            .why = keep(o, statement, 5),
            .matched = (uint64_t)sqlite3_column_int64(statement, 6),
            .changed = (uint64_t)sqlite3_column_int64(statement, 7),
            .refused = (uint64_t)sqlite3_column_int64(statement, 8),
        };
        if (e->who.data == NULL || e->action.data == NULL || e->target.data == NULL || e->why.data == NULL) {
            rc = no_memory(o);
            break;
        }
        reply->audit_count++;
    }
    sqlite3_reset(statement);
    return rc < 0 ? rc : PR_OK;
}
