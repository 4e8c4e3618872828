/* Each answer is bounded, however many rows there are: groups step from fingerprint to fingerprint
 * through an index and count each to COUNT_EXACT_MAX; streams come from the index of heads and from
 * the distinct keys of held rows. */
#include "store/sqlite/overview.h"

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
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
#define IN_PRINT " FROM postrider_dead_letter INDEXED BY postrider_dead_letter_group WHERE fingerprint = ?1"
#define IN_TIME IN_PRINT " AND died_at >= ?2 AND died_at < ?3 AND (?4 = '' OR box = ?4)"
/* Of the latest so many: the index has reasons, but not in their order; it has no texts. */
#define OF_REASON "(?5 = 0 OR cause = ?5 OR failure_reason = ?5)"
#define IN_REASON(columns) " FROM (SELECT " columns IN_TIME " ORDER BY died_at DESC LIMIT ?6) WHERE " OF_REASON
#define IN_TEXT(columns) IN_REASON(columns ", error") " AND (?7 = '' OR instr(error, ?7) > 0)"

/* How a group is read: its latest letter, how many there are, and when the first of them died (NULL: count tells it, too).
 * Each knows the first so many of the values of group_step(). */
struct group_sql {
    const char *latest, *count, *first;
    size_t values, count_values;
};
/* When it died is found in the index; only then is the letter itself read. */
#define LATEST(at)                                                                                                     \
    "SELECT " LETTER IN_PRINT " AND died_at = (SELECT died_at" at                                                      \
    " ORDER BY died_at DESC LIMIT 1) AND (?4 = '' OR box = ?4)"
#define LETTER "box, endpoint, type, error, cause, failure_reason, id, died_at"
#define COUNT(in_group) "SELECT count(*) FROM (SELECT 1" in_group " LIMIT 10001)"
#define COUNT_LOOKED(in_group) "SELECT count(*), min(died_at)" in_group
#define FIRST "SELECT died_at" IN_TIME " ORDER BY died_at LIMIT 1"
#define WHY_COLUMNS "died_at, cause, failure_reason"

static const struct group_sql by_time = { LATEST(IN_TIME) " LIMIT 1", COUNT(IN_TIME), FIRST, 4, 4 };
static const struct group_sql by_print = { LATEST(IN_TIME) " LIMIT 1", COUNT(IN_PRINT), FIRST, 4, 1 };
static const struct group_sql by_reason = { LATEST(IN_REASON(WHY_COLUMNS)) " AND " OF_REASON " LIMIT 1",
                                            COUNT_LOOKED(IN_REASON(WHY_COLUMNS)), NULL, 6, 6 };
static const struct group_sql by_text = { "SELECT " LETTER IN_TEXT(
                                              WHY_COLUMNS ", box, endpoint, type, id") " ORDER BY died_at DESC LIMIT 1",
                                          COUNT_LOOKED(IN_TEXT(WHY_COLUMNS)), NULL, 7, 7 };

static const struct group_sql *group_sql_of(const struct filter *f)
{
    if (f->error.size > 0)
        return &by_text;
    if (f->reason != 0)
        return &by_reason;
    return f->since_us != 0 || f->until_us != 0 || f->box.size > 0 ? &by_time : &by_print;
}

/* Its first row.  Outcome PR_UNKNOWN: there is none. */
static int group_step(const struct overview *o, const char *sql, size_t values, pr_slice print, int64_t look,
                      sqlite3_stmt **ret)
{
    const struct filter *f = &o->query->filter;
    const struct value all[] = { V_TEXT(print),   V_INT(f->since_us), V_INT(f->until_us != 0 ? f->until_us : INT64_MAX),
                                 V_TEXT(f->box),  V_INT(f->reason),   V_INT(look),
                                 V_TEXT(f->error) };
    ASSERT(values <= ARRAY_LENGTH(all));
    int rc = conn_bind(o->conn, sql, NO_BOX, all, values, ret, o->reterr);
    if (rc == PR_OK)
        rc = conn_step(o->conn, *ret, o->reterr);
    return rc > 0 ? PR_OK : rc < 0 ? rc : PR_UNKNOWN;
}

static int group_int(const struct overview *o, const char *sql, size_t values, pr_slice print, int64_t look,
                     int64_t *ret)
{
    sqlite3_stmt *statement;
    int rc = group_step(o, sql, values, print, look, &statement);
    if (rc != PR_OK)
        return rc < 0 ? rc : PR_OK;
    *ret = sqlite3_column_int64(statement, 0);
    sqlite3_reset(statement);
    return PR_OK;
}

static int look_for_reason(const struct overview *o, int64_t *ret)
{
    int64_t groups = 1;
    int rc = PR_OK;
    if (o->query->filter.fingerprint.size == 0)
        rc = conn_int(
            o->conn,
            "WITH RECURSIVE k(print) AS (SELECT '' UNION ALL SELECT (SELECT fingerprint FROM postrider_dead_letter"
            " INDEXED BY postrider_dead_letter_group WHERE fingerprint > k.print ORDER BY fingerprint LIMIT 1)"
            " FROM k WHERE k.print IS NOT NULL LIMIT ?1) SELECT count(nullif(print, '')) FROM k",
            NO_BOX, VALUES(V_INT(GROUPS_LOOKED_MAX + 1)), &groups, o->reterr);
    *ret = groups_look_of_reason(groups);
    return rc;
}

/* How many of a group are looked at; 0: the index says it all. */
static int look_read(const struct overview *o, int64_t *ret)
{
    const struct filter *f = &o->query->filter;
    *ret = 0;
    if (f->error.size == 0 && f->reason != 0)
        return look_for_reason(o, ret);
    if (f->error.size == 0)
        return PR_OK;
    int rc = conn_int(o->conn, "SELECT count(*) FROM (SELECT 1 FROM postrider_dead_letter LIMIT ?1)", NO_BOX,
                      VALUES(V_INT(LOOK_MAX + 1)), ret, o->reterr);
    *ret = *ret > LOOK_MAX && f->fingerprint.size == 0 ? GROUP_LOOK_MAX : LOOK_MAX;
    return rc;
}

/* Its latest dead letter.  Outcome PR_UNKNOWN: the filter finds none. */
static int group_read(const struct overview *o, const struct group_sql *sql, pr_slice print, int64_t look,
                      struct dead_group *g)
{
    const struct filter *f = &o->query->filter;
    sqlite3_stmt *statement;
    int rc = group_step(o, sql->latest, sql->values, print, look, &statement);
    if (rc != PR_OK)
        return rc;
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
    if (g->fingerprint.data == NULL || g->box.data == NULL || g->endpoint.data == NULL || g->type.data == NULL ||
        g->error.data == NULL)
        return no_memory(o);
    /* These are in the fingerprint, so one says it for all. */
    bool fits = (f->type.size == 0 || slice_glob(f->type, g->type)) &&
                (f->endpoint.size == 0 || slice_eq(f->endpoint, g->endpoint));
    return fits ? PR_OK : PR_UNKNOWN;
}

static int group_count(const struct overview *o, const struct group_sql *sql, int64_t look, struct dead_group *g)
{
    sqlite3_stmt *statement;
    int64_t all = 0;
    int rc = group_step(o, sql->count, sql->count_values, g->fingerprint, look, &statement);
    if (rc != PR_OK)
        return rc;
    g->count = (uint64_t)min64(sqlite3_column_int64(statement, 0), COUNT_EXACT_MAX + 1);
    if (sql->first == NULL)
        g->first_us = sqlite3_column_int64(statement, 1);
    sqlite3_reset(statement);
    if (sql->first != NULL)
        return group_int(o, sql->first, sql->values, g->fingerprint, look, &g->first_us);
    rc = group_int(o, "SELECT count(*) FROM (SELECT 1" IN_TIME " LIMIT ?6 + 1)", 6, g->fingerprint, look, &all);
    g->partial = all > look;
    return rc;
}

/* Are there more of this group than are looked at?  Then what the filter wants can be among the older ones. */
static int group_is_cut(const struct overview *o, const struct group_sql *sql, pr_slice print, int64_t look)
{
    int64_t all = 0;
    if (sql->first != NULL || o->reply->cut)
        return PR_OK;
    int rc = group_int(o, "SELECT count(*) FROM (SELECT 1" IN_TIME " LIMIT ?6 + 1)", 6, print, look, &all);
    o->reply->cut = all > look;
    o->reply->looked = (uint64_t)look;
    return rc;
}

/* The first fingerprint after this one (or, inclusive, at it), in the arena.  Outcome PR_UNKNOWN: none. */
static int print_next(const struct overview *o, pr_slice after, bool inclusive, pr_slice *ret)
{
    sqlite3_stmt *statement;
    int rc =
        conn_bind(o->conn,
                  inclusive ? "SELECT fingerprint FROM postrider_dead_letter INDEXED BY postrider_dead_letter_group"
                              " WHERE fingerprint >= ?1 ORDER BY fingerprint LIMIT 1"
                            : "SELECT fingerprint FROM postrider_dead_letter INDEXED BY postrider_dead_letter_group"
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

static int letters_of_stream(const void *arg, const struct filter *filter, letter_found found, void *found_arg,
                             uint64_t *ret_cut)
{
    const struct overview *o = arg;
    const struct listing listing = {
        .table = LISTING_DEAD, .box = filter->box, .filter = filter, .by_stream = true, .found = found, .arg = found_arg
    };
    return listing_run(o->conn, o->s, &listing, ret_cut, o->reterr);
}

int overview_groups(const struct overview *o)
{
    if (o->query->filter.stream.size > 0)
        return groups_of_stream(o->query, o->reply, o->arena, letters_of_stream, o);
    struct query_reply *reply = o->reply;
    pr_slice wanted = o->query->filter.fingerprint, print = wanted;
    const struct group_sql *sql = group_sql_of(&o->query->filter);
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
        rc = group_read(o, sql, print, look, g);
        if (rc == PR_OK) {
            rc = group_count(o, sql, look, g);
            reply->group_count++;
        }
        if (rc >= PR_OK) {
            int cut = group_is_cut(o, sql, print, look);
            rc = cut < 0 ? cut : rc;
        }
        if (rc >= PR_OK)
            rc = wanted.size > 0 ? PR_UNKNOWN : print_next(o, print, false, &print);
    }
    groups_rank(o->query, reply);
    return rc < 0 ? rc : PR_OK;
}

/* ---- Streams -------------------------------------------------------------------------------- */

/* Nothing of the heads: keys alone say which streams are held back, unless the one that is held can be the head itself. */
static bool is_brief(const struct overview *o)
{
    return o->query->brief && o->query->blocked;
}

static int head_take(const struct overview *o, struct stream_list *streams, pr_slice box, sqlite3_stmt *statement,
                     struct arena *scratch)
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
    return streams_add_head(streams, &head, &m) == PR_OK ? PR_OK : no_memory(o);
}

static int heads_read(const struct overview *o, struct stream_list *streams, pr_slice box)
{
    struct arena scratch;
    sqlite3_stmt *statement;
    size_t rows = 0;
    int rc = conn_bind(
        o->conn,
        "SELECT " MESSAGE_COLUMNS ", NULL FROM \"{box}\" INDEXED BY \"postrider_{box}_heads\" WHERE " MESSAGE_IS_HEAD
        " AND stream <> '' AND (?1 = '' OR stream = ?1) ORDER BY row_id LIMIT ?2",
        box, VALUES(V_TEXT(o->query->filter.stream), V_INT(STREAMS_LOOKED_MAX + 1)), &statement, o->reterr);
    if (rc != PR_OK)
        return rc;
    arena_init(&scratch, SCRATCH_BYTES);
    while ((rc = conn_step(o->conn, statement, o->reterr)) > 0) {
        if (rows++ == STREAMS_LOOKED_MAX) {
            o->reply->more = true;
            break;
        }
        rc = head_take(o, streams, box, statement, &scratch);
        if (rc != PR_OK)
            break;
    }
    sqlite3_reset(statement);
    arena_fini(&scratch);
    return rc < 0 ? rc : PR_OK;
}

/* What is held by this key: how many, and the first one's place.  Outcome PR_UNKNOWN: nothing. */
static int held_count(const struct overview *o, pr_slice box, pr_slice key, uint64_t *ret_count, int64_t *ret_seq)
{
    int64_t count = 0;
    int rc = conn_int(o->conn, "SELECT count(*) FROM (SELECT 1 FROM \"{box}\" WHERE held_by = ?1 LIMIT 10001)", box,
                      VALUES(V_TEXT(key)), &count, o->reterr);
    *ret_count = (uint64_t)count;
    if (rc == PR_OK)
        rc = conn_int(o->conn, "SELECT seq FROM \"{box}\" WHERE held_by = ?1 ORDER BY seq LIMIT 1", box,
                      VALUES(V_TEXT(key)), ret_seq, o->reterr);
    return rc;
}

/* Columns from MESSAGE_COLUMN_COUNT on: the part's number, its cause, when it died, its endpoint. */
static const char DEAD_HEADS[] =
    "SELECT " MESSAGE_COLUMNS
    ", NULL, cause, died_at, endpoint FROM postrider_dead_letter WHERE stream = ?1 AND box = ?2"
    " AND endpoint IN (?3, '') AND seq < ?4 AND edited_as IS NULL ORDER BY seq";

/* The first that they wait for, in the scratch arena.  Outcome PR_UNKNOWN: none; the head was delivered just now, and they go
 * on by themselves. */
static int dead_head_find(const struct overview *o, const struct stream_list *streams, const struct stream_info *held,
                          sqlite3_stmt *statement, struct arena *scratch, struct pr_message *ret)
{
    uint64_t row;
    const char *bad;
    int rc;
    while ((rc = conn_step(o->conn, statement, o->reterr)) > 0) {
        arena_reset(scratch);
        rc = message_decode(statement, scratch, o->s->payload_max, ret, &row, &bad, o->reterr);
        if (rc != PR_OK ||
            stream_waits_for_letter(streams, held, column_slice(statement, MESSAGE_COLUMN_COUNT + 2), ret))
            return rc;
    }
    return rc < 0 ? rc : PR_UNKNOWN;
}

/* Strict streams wait behind a dead letter: before the head that is in the box, where there is one. */
static int dead_head_read(const struct overview *o, struct stream_list *streams, const struct stream_info *stream,
                          struct stream_info *in_box, int64_t before_seq)
{
    if (in_box != NULL)
        before_seq = min64(before_seq, in_box->head_seq);
    struct arena scratch;
    struct pr_message m;
    sqlite3_stmt *statement;
    int rc = conn_bind(o->conn, DEAD_HEADS, NO_BOX,
                       VALUES(V_TEXT(stream->stream), V_TEXT(stream->box), V_TEXT(stream->endpoint), V_INT(before_seq)),
                       &statement, o->reterr);
    if (rc != PR_OK)
        return rc;
    arena_init(&scratch, SCRATCH_BYTES);
    rc = dead_head_find(o, streams, stream, statement, &scratch, &m);
    if (rc == PR_OK) {
        struct stream_info head = stream_of_row(stream->box, &m, STATE_DEAD, o->s->now_us);
        head.endpoint = stream->endpoint;
        head.waiting = stream->waiting;
        head.since_us = sqlite3_column_int64(statement, MESSAGE_COLUMN_COUNT + 1);
        head.due_us = PR_NEVER;
        if (head.reason == PR_REASON_NONE)
            head.reason = sqlite3_column_int(statement, MESSAGE_COLUMN_COUNT);
        rc = streams_put(streams, in_box, &head) == PR_OK ? PR_OK : no_memory(o);
    }
    sqlite3_reset(statement);
    arena_fini(&scratch);
    return rc < 0 ? rc : PR_OK;
}

/* What is held by the key is a single row that came back: its seq; else 0. */
static int alone_read(const struct overview *o, pr_slice box, pr_slice key, int64_t *ret_seq)
{
    *ret_seq = 0;
    return conn_int(o->conn,
                    "SELECT iif(count(*) = 1 AND max(head), max(seq), 0) FROM (SELECT " MESSAGE_IS_HEAD
                    " AS head, seq FROM \"{box}\" WHERE held_by = ?1 LIMIT 2)",
                    box, VALUES(V_TEXT(key)), ret_seq, o->reterr);
}

/* heads: read when they are needed first. */
static int key_take_brief(const struct overview *o, struct stream_list *streams, struct stream_list *heads,
                          pr_slice key, struct stream_info *stream)
{
    int64_t seq;
    int rc = alone_read(o, stream->box, key, &seq);
    if (rc == PR_OK && seq != 0 && heads->known == 0) {
        rc = heads_read(o, heads, stream->box);
        streams_settle(heads);
    }
    if (rc != PR_OK)
        return rc;
    struct stream_info *head = NULL;
    if (seq != 0 && streams_find(heads, stream, &head) != PR_OK)
        return no_memory(o);
    stream->waiting = 1; /* at least */
    if (!stream_is_alone(head))
        return streams_add(streams, stream) != NULL ? PR_OK : no_memory(o);
    return stream_may_wait_for_dead(heads, head) ? dead_head_read(o, streams, stream, NULL, seq) : PR_OK;
}

static int key_take(const struct overview *o, struct stream_list *streams, struct stream_list *heads, pr_slice box,
                    pr_slice key, size_t *dead_heads)
{
    struct stream_info stream = { .box = box };
    int64_t first_seq = 0;
    if (!stream_key_split(key, &stream.endpoint, &stream.stream) || !stream_is_asked(streams->filter, &stream))
        return PR_OK;
    if (is_brief(o))
        return key_take_brief(o, streams, heads, key, &stream);
    int rc = held_count(o, box, key, &stream.waiting, &first_seq);
    struct stream_info *head = NULL;
    if (rc == PR_OK && streams_find(streams, &stream, &head) != PR_OK)
        return no_memory(o);
    if (head != NULL)
        stream_set_waiting(head, stream.waiting);
    if (rc != PR_OK || !stream_may_wait_for_dead(streams, head))
        return rc < 0 ? rc : PR_OK;
    if ((*dead_heads)++ < DEAD_HEADS_MAX)
        rc = dead_head_read(o, streams, &stream, head, first_seq);
    else
        o->reply->more = true;
    return rc < 0 ? rc : PR_OK;
}

static int key_next(const struct overview *o, pr_slice box, pr_slice after, pr_slice *ret)
{
    sqlite3_stmt *statement;
    int rc = conn_bind(o->conn, "SELECT held_by FROM \"{box}\" WHERE held_by > ?1 ORDER BY held_by LIMIT 1", box,
                       VALUES(V_TEXT(after)), &statement, o->reterr);
    if (rc == PR_OK)
        rc = conn_step(o->conn, statement, o->reterr);
    if (rc <= 0)
        return rc < 0 ? rc : PR_UNKNOWN;
    *ret = keep(o, statement, 0);
    sqlite3_reset(statement);
    return ret->data != NULL ? PR_OK : no_memory(o);
}

/* The one key of a stream on the way to an endpoint, where both are asked for. */
static int key_read(const struct overview *o, struct stream_list *streams, struct stream_list *heads, pr_slice box)
{
    const struct stream_info asked = { .endpoint = streams->filter->endpoint, .stream = streams->filter->stream };
    pr_slice key = stream_key(o->arena, &asked);
    int64_t held;
    size_t dead_heads = 0;
    if (key.data == NULL)
        return no_memory(o);
    int rc = conn_int(o->conn, "SELECT 1 FROM \"{box}\" WHERE held_by = ?1 LIMIT 1", box, VALUES(V_TEXT(key)), &held,
                      o->reterr);
    if (rc == PR_OK)
        rc = key_take(o, streams, heads, box, key, &dead_heads);
    return rc < 0 ? rc : PR_OK;
}

static int keys_read(const struct overview *o, struct stream_list *streams, pr_slice box)
{
    struct stream_list heads = { .arena = o->arena, .filter = streams->filter };
    pr_slice key = NO_BOX;
    size_t dead_heads = 0;
    int rc = PR_OK;
    if (stream_is_one(streams->filter))
        return key_read(o, streams, &heads, box);
    for (size_t looked = 0; (rc = key_next(o, box, key, &key)) == PR_OK; looked++) {
        if (looked == STREAMS_LOOKED_MAX) {
            o->reply->more = true;
            return PR_OK;
        }
        rc = key_take(o, streams, &heads, box, key, &dead_heads);
        if (rc != PR_OK)
            return rc;
    }
    return rc < 0 ? rc : PR_OK;
}

int overview_streams(const struct overview *o)
{
    struct stream_list streams = { .arena = o->arena, .filter = &o->query->filter };
    pr_slice wanted = o->query->filter.box;
    int rc = PR_OK;
    for (size_t i = 0; i < o->s->box_count && rc == PR_OK && !is_brief(o); i++)
        if (wanted.size == 0 || slice_eq(wanted, o->s->boxes[i]))
            rc = heads_read(o, &streams, o->s->boxes[i]);
    streams_settle(&streams);
    for (size_t i = 0; i < o->s->box_count && rc == PR_OK; i++)
        if (wanted.size == 0 || slice_eq(wanted, o->s->boxes[i]))
            rc = keys_read(o, &streams, o->s->boxes[i]);
    if (rc == PR_OK && streams_rank(&streams, o->query, o->reply) != PR_OK)
        rc = no_memory(o);
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
                       "SELECT number, at, who, action, target, why, matched, changed, refused FROM postrider_audit"
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
