/* Each answer is bounded, however many rows there are: groups step from fingerprint to fingerprint
 * through an index and count each to COUNT_EXACT_MAX; streams come from the index of heads and from
 * the distinct keys of held rows. */
#include "store/postgres/overview.h"

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/story.h"
#include "store/audit.h"
#include "store/ranking.h"

#define LIMIT_DEFAULT 100

static int no_memory(const struct overview *o)
{
    return error_set(o->reterr, PR_ENOMEM, "no memory for the answer");
}

static pr_slice keep(const struct overview *o, const PGresult *r, int row, int column)
{
    return slice_dup(o->arena, field_slice(r, row, column));
}

/* ---- Groups --------------------------------------------------------------------------------------- */

/* What the index has: it is not left. */
#define IN_PRINT " FROM {schema}.dead_letter d WHERE d.fingerprint = k.print"
#define IN_TIME IN_PRINT " AND d.died_at >= $1 AND d.died_at < $2 AND ($3 = '' OR d.box = $3)"
/* Of the latest so many ($9): the index has reasons, but not in their order; it has no texts. */
#define OF_REASON "(d.cause = $5 OR d.failure_reason = $5)"
#define OF_LATEST(columns, condition)                                                                                  \
    " FROM (SELECT " columns IN_TIME " ORDER BY d.died_at DESC LIMIT $9) d WHERE " condition
#define IN_REASON OF_LATEST("d.died_at, d.cause, d.failure_reason", OF_REASON)
#define IN_TEXT OF_LATEST("*", "($5 = 0 OR " OF_REASON ") AND ($6 = '' OR position($6 IN d.error) > 0)")

/* A step through the index for each fingerprint, $7: this one only; $8: at most so many.  Endpoint and type are in the
 * fingerprint, so one letter says them for all.  Those that are counted can be all of the print: fewer columns, less time. */
#define PRINTS(print)                                                                                                  \
    "WITH RECURSIVE k(print) AS ("                                                                                     \
    "(SELECT d.fingerprint FROM {schema}.dead_letter d WHERE " print " = '' OR d.fingerprint = " print                 \
    " ORDER BY d.fingerprint LIMIT 1)"                                                                                 \
    " UNION ALL SELECT (SELECT d.fingerprint FROM {schema}.dead_letter d WHERE d.fingerprint > k.print"                \
    " AND " print " = '' ORDER BY d.fingerprint LIMIT 1) FROM k WHERE k.print IS NOT NULL)"
#define GROUPS(in_group, counted, latest, looked)                                                                      \
    PRINTS("$7")                                                                                                       \
    " SELECT k.print, l.box, l.endpoint, l.type, l.error, l.cause, l.failure_reason, l.id, l.died_at,"                 \
    " (SELECT d.died_at" in_group " ORDER BY d.died_at LIMIT 1),"                                                      \
    " (SELECT count(*) FROM (SELECT" counted " LIMIT 10001) c), " looked                                               \
    " FROM (SELECT print FROM k WHERE print IS NOT NULL LIMIT $8) k CROSS JOIN LATERAL " latest                        \
    " l WHERE ($4 = '' OR l.endpoint = $4)"

/* When it died is found in the index; only then is the letter itself read. */
#define LATEST(in_group, row)                                                                                          \
    "(SELECT d.died_at AS at" in_group " ORDER BY d.died_at DESC LIMIT 1) m CROSS JOIN LATERAL (SELECT d.*" row        \
    " AND d.died_at = m.at LIMIT 1)"
#define LOOKED "(SELECT count(*) FROM (SELECT" IN_TIME " LIMIT $9 + 1) c)"
static const char BY_PRINT[] = GROUPS(IN_TIME, IN_PRINT, LATEST(IN_TIME, IN_TIME), "0::bigint");
static const char BY_TIME[] = GROUPS(IN_TIME, IN_TIME, LATEST(IN_TIME, IN_TIME), "0::bigint");
static const char BY_REASON[] = GROUPS(IN_REASON, IN_REASON, LATEST(IN_REASON, IN_TIME " AND " OF_REASON), LOOKED);
static const char BY_TEXT[] =
    GROUPS(IN_TEXT, IN_TEXT, "(SELECT d.*" IN_TEXT " ORDER BY d.died_at DESC LIMIT 1)", LOOKED);

static int look_for_reason(const struct overview *o, int64_t *ret)
{
    struct args args = { .count = 0 };
    PGresult *r;
    arg_text(&args, o->query->filter.fingerprint);
    arg_i64(&args, GROUPS_LOOKED_MAX);
    int rc = link_do(o->link, PRINTS("$1") " SELECT count(*) FROM (SELECT FROM k WHERE print IS NOT NULL LIMIT $2) k",
                     NO_BOX, &args, &r, o->reterr);
    if (rc == PR_OK)
        *ret = groups_look_of_reason(field_i64(r, 0, 0));
    return rc;
}

/* How many of a group are looked at; 0: the index says it all. */
static int look_read(const struct overview *o, int64_t *ret)
{
    const struct filter *f = &o->query->filter;
    PGresult *r;
    struct args args = { .count = 0 };
    *ret = 0;
    if (f->error.size == 0 && f->reason != 0)
        return look_for_reason(o, ret);
    if (f->error.size == 0)
        return PR_OK;
    arg_i64(&args, LOOK_MAX + 1);
    int rc = link_do(o->link, "SELECT count(*) FROM (SELECT FROM {schema}.dead_letter LIMIT $1) d", NO_BOX, &args, &r,
                     o->reterr);
    if (rc == PR_OK)
        *ret = field_i64(r, 0, 0) > LOOK_MAX && f->fingerprint.size == 0 ? GROUP_LOOK_MAX : LOOK_MAX;
    return rc;
}

/* Is there a group with more than are looked at, also one of which none was found?  What the filter wants can be among
 * its older ones. */
static const char IS_CUT[] =
    PRINTS("$4") " SELECT EXISTS (SELECT FROM (SELECT print FROM k WHERE print IS NOT NULL LIMIT $5) k"
                 " CROSS JOIN LATERAL (SELECT" IN_TIME " OFFSET $6 LIMIT 1) d)";

static int cut_read(const struct overview *o, int64_t look)
{
    const struct filter *f = &o->query->filter;
    struct args args = { .count = 0 };
    PGresult *r;
    arg_time(&args, max64(f->since_us, 1));
    arg_time(&args, f->until_us != 0 ? f->until_us : PR_NEVER);
    arg_text(&args, f->box);
    arg_text(&args, f->fingerprint);
    arg_i64(&args, GROUPS_LOOKED_MAX);
    arg_i64(&args, look);
    int rc = link_do(o->link, IS_CUT, NO_BOX, &args, &r, o->reterr);
    if (rc == PR_OK) {
        o->reply->cut = field_bool(r, 0, 0);
        o->reply->looked = (uint64_t)look;
    }
    return rc;
}

static const char *groups_sql(const struct filter *f)
{
    if (f->error.size > 0)
        return BY_TEXT;
    if (f->reason != 0)
        return BY_REASON;
    return f->since_us != 0 || f->until_us != 0 || f->box.size > 0 ? BY_TIME : BY_PRINT;
}

static int group_take(const struct overview *o, const PGresult *r, int i, int64_t look)
{
    const struct filter *f = &o->query->filter;
    struct dead_group *g = &o->reply->groups[o->reply->group_count];
    /* The type is in the fingerprint, so one says it for all. */
    if (f->type.size > 0 && !slice_glob(f->type, field_slice(r, i, 3)))
        return PR_OK;
    *g = (struct dead_group){
        .fingerprint = keep(o, r, i, 0),
        .box = keep(o, r, i, 1),
        .endpoint = keep(o, r, i, 2),
        .type = keep(o, r, i, 3),
        .error = keep(o, r, i, 4),
        .cause = field_int(r, i, 5),
        .reason = field_int(r, i, 6),
        .sample = field_id(r, i, 7),
        .last_us = field_time(r, i, 8),
        .first_us = field_time(r, i, 9),
        .count = (uint64_t)field_i64(r, i, 10),
        .partial = field_i64(r, i, 11) > look,
    };
    o->reply->group_count++;
    return g->fingerprint.data != NULL && g->box.data != NULL && g->endpoint.data != NULL && g->type.data != NULL &&
                   g->error.data != NULL
               ? PR_OK
               : no_memory(o);
}

static int letters_of_stream(const void *arg, const struct filter *filter, letter_found found, void *found_arg,
                             uint64_t *ret_cut)
{
    const struct overview *o = arg;
    const struct listing listing = {
        .table = LISTING_DEAD, .box = filter->box, .filter = filter, .by_stream = true, .found = found, .arg = found_arg
    };
    return pg_listing_run(o->link, o->s, &listing, ret_cut, o->reterr);
}

int pg_overview_groups(const struct overview *o)
{
    if (o->query->filter.stream.size > 0)
        return groups_of_stream(o->query, o->reply, o->arena, letters_of_stream, o);
    const struct filter *f = &o->query->filter;
    struct args args = { .count = 0 };
    PGresult *r;

    arg_time(&args, max64(f->since_us, 1));
    arg_time(&args, f->until_us != 0 ? f->until_us : PR_NEVER);
    arg_text(&args, f->box);
    arg_text(&args, f->endpoint);
    arg_i32(&args, f->reason);
    arg_text(&args, f->error);
    arg_text(&args, f->fingerprint);
    arg_i64(&args, GROUPS_LOOKED_MAX + 1);
    int64_t look;
    int rc = look_read(o, &look);
    if (rc == PR_OK && look > 0)
        rc = cut_read(o, look);
    if (rc != PR_OK)
        return rc;
    arg_i64(&args, look);
    rc = link_do(o->link, groups_sql(f), NO_BOX, &args, &r, o->reterr);
    if (rc != PR_OK)
        return rc;
    o->reply->more = PQntuples(r) > GROUPS_LOOKED_MAX;
    int count = o->reply->more ? GROUPS_LOOKED_MAX : PQntuples(r);
    o->reply->groups = arena_alloc_array(o->arena, (size_t)count, sizeof(o->reply->groups[0]));
    if (o->reply->groups == NULL)
        return no_memory(o);
    for (int i = 0; i < count && rc == PR_OK; i++)
        rc = group_take(o, r, i, look);
    groups_rank(o->query, o->reply);
    return rc;
}

/* ---- Streams -------------------------------------------------------------------------------------- */

/* Nothing of the heads: keys alone say which streams are held back, unless the one that is held can be the head itself. */
static bool is_brief(const struct overview *o)
{
    return o->query->brief && o->query->blocked;
}

/* As much of heads as their rank wants, and as the routes want of those that do not say their endpoint; of those that are on
 * the page the rest is read then: see heads_tell(). */
#define UNLESS_NAMED(column) "CASE b.destination WHEN '' THEN b." column " END"
#define HEADS(filter)                                                                                                  \
    "SELECT coalesce(b.row_id, b.seq), b.seq, b.stream, b.destination,"                                                \
    " CASE WHEN b.destination = '' OR b.due_at = 'infinity' THEN b.story END,"                                         \
    " coalesce(b.failed_at, b.created_at), b.due_at = 'infinity', strpos(b.held_by, '/') < length(b.held_by),"         \
    " " UNLESS_NAMED("type") ", " UNLESS_NAMED("source") ", " UNLESS_NAMED(                                            \
        "headers") " FROM {box} b WHERE " MESSAGE_IS_HEAD filter " ORDER BY coalesce(b.row_id, b.seq) LIMIT $1"
static const char HEADS_ALL[] = HEADS(" AND b.stream <> ''");
static const char HEADS_OF_STREAM[] = HEADS(" AND b.stream = $2");

static int heads_read(const struct overview *o, struct stream_list *streams, pr_slice box)
{
    const pr_slice stream = o->query->filter.stream;
    struct args args = { .count = 0 };
    PGresult *r;
    size_t mark = o->link->result_count;
    arg_i64(&args, STREAMS_LOOKED_MAX + 1);
    if (stream.size > 0)
        arg_text(&args, stream);
    int rc = link_do(o->link, stream.size > 0 ? HEADS_OF_STREAM : HEADS_ALL, box, &args, &r, o->reterr);
    for (int i = 0; rc == PR_OK && i < PQntuples(r); i++) {
        const struct pr_message m = {
            .stream = field_slice(r, i, 2),
            .destination = field_slice(r, i, 3),
            .story = field_slice(r, i, 4),
            .type = field_slice(r, i, 8),
            .source = field_slice(r, i, 9),
            .headers = field_slice(r, i, 10),
        };
        const struct stream_info head = {
            .box = box,
            .stream = m.stream,
            .endpoint = m.destination.size > 0 ? m.destination : story_endpoint(m.story),
            .head_row = (uint64_t)field_i64(r, i, 0),
            .head_seq = field_i64(r, i, 1),
            .since_us = stream_since(field_time(r, i, 5), 0, field_bool(r, i, 6) ? PR_NEVER : 0, m.story),
            .due_us = field_bool(r, i, 6) ? PR_NEVER : 0,
            .head_held = !PQgetisnull(r, i, 7) && field_bool(r, i, 7),
        };
        if (i == STREAMS_LOOKED_MAX)
            o->reply->more = true;
        else if (streams_add_head(streams, &head, &m) != PR_OK)
            rc = no_memory(o);
    }
    link_forget_after(o->link, mark);
    return rc;
}

static const char TELL[] = "SELECT p.number, " HANDLE ", " MESSAGE_COLUMNS(
    MESSAGE_NO_PAYLOAD) " FROM unnest($1::bigint[]) WITH ORDINALITY AS p(place, number) CROSS JOIN LATERAL"
                        " (SELECT * FROM {box} b WHERE " MESSAGE_IS_HEAD
                        " AND coalesce(b.row_id, b.seq) = p.place OFFSET 0) b";

static int head_tell(const struct overview *o, const PGresult *r, int i, struct stream_info *told)
{
    struct pr_message m;
    unsigned lane;
    const char *bad;
    pg_message_decode(r, i, 2, o->s->payload_max, &m, &lane, &bad);
    enum state state = pg_surroundings_state(o->s, told->box, (uint64_t)field_i64(r, i, 1), &m, m.destination);
    struct stream_info head = stream_of_row(told->box, &m, state, o->s->now_us);
    head.stream = told->stream;
    head.endpoint = told->endpoint;
    head.code = slice_dup(o->arena, head.code);
    head.error = slice_dup(o->arena, head.error);
    head.waiting = told->waiting;
    *told = head;
    return head.code.data != NULL && head.error.data != NULL ? PR_OK : no_memory(o);
}

/* The heads of this box that are on the page.  Those that were not found have gone meanwhile: their head_row stays. */
static int heads_tell(const struct overview *o, pr_slice box, struct array *places, struct stream_info **told)
{
    struct args args = { .count = 0 };
    PGresult *r;
    size_t count = 0;
    array_begin(places, OID_INT8);
    for (size_t i = 0; i < o->reply->stream_count; i++) {
        struct stream_info *head = &o->reply->streams[i];
        if (head->head_row == 0 || !slice_eq(head->box, box))
            continue;
        array_i64(places, (int64_t)head->head_row);
        told[count++] = head;
    }
    if (count == 0)
        return PR_OK;
    arg_array(&args, places);
    int rc = link_do(o->link, TELL, box, &args, &r, o->reterr);
    for (int i = 0; rc == PR_OK && i < PQntuples(r); i++)
        rc = head_tell(o, r, i, told[field_i64(r, i, 0) - 1]);
    return rc;
}

static int page_tell(const struct overview *o)
{
    struct query_reply *reply = o->reply;
    struct array places;
    size_t kept = 0;
    struct stream_info **told = arena_alloc_array(o->arena, reply->stream_count, sizeof(*told));
    int rc = told != NULL ? PR_OK : no_memory(o);
    array_init(&places);
    for (size_t i = 0; i < o->s->box_count && rc == PR_OK; i++)
        rc = heads_tell(o, o->s->boxes[i], &places, told);
    array_fini(&places);
    for (size_t i = 0; i < reply->stream_count && rc == PR_OK; i++)
        if (reply->streams[i].head_row == 0)
            reply->streams[kept++] = reply->streams[i];
    reply->stream_count = kept;
    return rc;
}

/* What is held by each key: how many, and the place of the first.  Where not much is held, it is read from one end to
 * the other: a step through the index for each key costs more than five rows. */
#define KEYS_ROWS 60000
static const char KEYS[] =
    "SELECT h.held_by, count(*), min(h.seq) FROM (SELECT b.held_by, b.seq FROM {box} b WHERE b.held_by > ''"
    " ORDER BY b.held_by LIMIT $2) h GROUP BY h.held_by ORDER BY h.held_by LIMIT $1";
#define OF_KEY                                                                                                         \
    " SELECT k.key, (SELECT count(*) FROM (SELECT FROM {box} b WHERE b.held_by = k.key LIMIT 10001) c),"               \
    " (SELECT b.seq FROM {box} b WHERE b.held_by = k.key ORDER BY b.seq LIMIT 1) FROM "
/* The same, key by key, from this one on. */
static const char KEYS_FROM[] =
    "WITH RECURSIVE k(key) AS ((SELECT b.held_by FROM {box} b WHERE b.held_by >= $2 ORDER BY b.held_by LIMIT 1)"
    " UNION ALL SELECT (SELECT b.held_by FROM {box} b WHERE b.held_by > k.key ORDER BY b.held_by LIMIT 1)"
    " FROM k WHERE k.key IS NOT NULL)" OF_KEY "(SELECT key FROM k WHERE key IS NOT NULL LIMIT $1) k";
/* The same of this key. */
static const char KEY[] = OF_KEY "(SELECT b.held_by AS key FROM {box} b WHERE b.held_by = $1 LIMIT 1) k";

/* Strict streams wait behind a dead letter: before the head that is in the box, where there is one. */
static const char DEAD_HEAD[] = "SELECT b.row_id, " MESSAGE_COLUMNS(
    MESSAGE_NO_PAYLOAD) ", b.cause, b.died_at, b.endpoint FROM {schema}.dead_letter b"
                        " WHERE left(b.stream, 255) = left($1, 255) AND b.stream = $1 AND b.box = $2 AND "
                        "b.endpoint IN ($3, '') AND b.seq < $4 AND (b.seq, b.row_id) > ($5, $6) AND b.edited_as IS NULL"
                        " ORDER BY b.seq, b.row_id LIMIT $7";

/* Mostly the first is it.  Of those without an endpoint the routes may say that they go elsewhere: then more are read at
 * once, since the server sorts the letters of the stream for each page. */
#define DEAD_PAGE 500
#define DEAD_PAGE_MAX (16 * DEAD_PAGE)

struct dead_page {
    PGresult *r;
    int64_t before_seq, seq, row; /* between these places */
    int64_t rows;                 /* at most */
    int found;                    /* the first that they wait for, in m; -1: none of the page */
    struct pr_message m;
};

static int dead_page_read(const struct overview *o, const struct stream_list *streams, const struct stream_info *held,
                          struct dead_page *page)
{
    struct args args = { .count = 0 };
    unsigned lane;
    const char *bad;
    arg_text(&args, held->stream);
    arg_text(&args, held->box);
    arg_text(&args, held->endpoint);
    arg_i64(&args, page->before_seq);
    arg_i64(&args, page->seq);
    arg_i64(&args, page->row);
    arg_i64(&args, page->rows);
    int rc = link_do(o->link, DEAD_HEAD, NO_BOX, &args, &page->r, o->reterr);
    page->found = -1;
    for (int i = 0; rc == PR_OK && page->found < 0 && i < PQntuples(page->r); i++) {
        pg_message_decode(page->r, i, 1, o->s->payload_max, &page->m, &lane, &bad);
        page->seq = page->m.seq;
        page->row = field_i64(page->r, i, 0);
        if (stream_waits_for_letter(streams, held, field_slice(page->r, i, 1 + MESSAGE_COLUMN_COUNT + 2), &page->m))
            page->found = i;
    }
    return rc;
}

static int dead_head_put(const struct overview *o, struct stream_list *streams, const struct stream_info *held,
                         struct stream_info *in_box, const struct dead_page *page)
{
    const int behind = 1 + MESSAGE_COLUMN_COUNT;
    struct stream_info head = stream_of_row(held->box, &page->m, STATE_DEAD, o->s->now_us);
    head.endpoint = held->endpoint;
    head.waiting = held->waiting;
    head.since_us = field_time(page->r, page->found, behind + 1);
    head.due_us = PR_NEVER;
    if (head.reason == PR_REASON_NONE)
        head.reason = field_int(page->r, page->found, behind);
    return streams_put(streams, in_box, &head) == PR_OK ? PR_OK : no_memory(o);
}

/* looks: how many such questions were asked.  No letter: the head was delivered just now, and they go on by themselves. */
static int dead_head_read(const struct overview *o, struct stream_list *streams, const struct stream_info *held,
                          struct stream_info *in_box, int64_t before_seq, size_t *looks)
{
    struct dead_page page = { .before_seq = before_seq, .seq = INT64_MIN, .rows = 1, .found = -1 };
    size_t mark = o->link->result_count;
    bool is_last = false;
    int rc = PR_OK;
    if (in_box != NULL)
        page.before_seq = min64(before_seq, in_box->head_seq);
    while (rc == PR_OK && page.found < 0 && !is_last) {
        if ((*looks)++ >= DEAD_HEADS_MAX) {
            o->reply->more = true;
            break;
        }
        rc = dead_page_read(o, streams, held, &page);
        is_last = rc != PR_OK || PQntuples(page.r) < page.rows;
        if (rc == PR_OK && page.found >= 0)
            rc = dead_head_put(o, streams, held, in_box, &page);
        page.rows = min64(max64(2 * page.rows, DEAD_PAGE), DEAD_PAGE_MAX);
        link_forget_after(o->link, mark);
    }
    return rc;
}

struct keys {
    struct stream_list *streams, heads; /* heads: read when they are needed first, where the question is brief */
    pr_slice box;
    size_t taken, looks;
};

/* Of keys that hold a single row, those whose row came back; in the same order. */
static const char ALONE[] =
    "SELECT p.key FROM unnest($1::text[]) WITH ORDINALITY AS p(key, number) CROSS JOIN LATERAL"
    " (SELECT * FROM {box} b WHERE b.held_by = p.key LIMIT 1) b WHERE " MESSAGE_IS_HEAD " ORDER BY p.number";

static int alone_read(const struct overview *o, const struct keys *k, const PGresult *r, int count, PGresult **ret)
{
    struct args args = { .count = 0 };
    struct array keys;
    int rc = PR_OK;
    *ret = NULL;
    array_init(&keys);
    array_begin(&keys, OID_TEXT);
    for (int i = 0; i < count; i++)
        if (field_i64(r, i, 1) == 1)
            array_text(&keys, field_slice(r, i, 0));
    arg_array(&args, &keys);
    if (keys.count > 0)
        rc = link_do(o->link, ALONE, k->box, &args, ret, o->reterr);
    array_fini(&keys);
    return rc;
}

/* A single row is held, and it came back at this place. */
static int key_take_alone(const struct overview *o, struct keys *k, const struct stream_info *stream, int64_t seq)
{
    int rc = PR_OK;
    if (k->heads.known == 0) {
        rc = heads_read(o, &k->heads, k->box);
        streams_settle(&k->heads);
    }
    struct stream_info *head = NULL;
    if (rc == PR_OK && streams_find(&k->heads, stream, &head) != PR_OK)
        rc = no_memory(o);
    if (rc != PR_OK)
        return rc;
    if (!stream_is_alone(head))
        return streams_add(k->streams, stream) != NULL ? PR_OK : no_memory(o);
    return stream_may_wait_for_dead(&k->heads, head) ? dead_head_read(o, k->streams, stream, NULL, seq, &k->looks)
                                                     : PR_OK;
}

static int key_take(const struct overview *o, struct keys *k, const PGresult *r, int i, bool alone)
{
    struct stream_info stream = { .box = k->box, .waiting = (uint64_t)min64(field_i64(r, i, 1), COUNT_EXACT_MAX + 1) };
    if (!stream_key_split(field_slice(r, i, 0), &stream.endpoint, &stream.stream) ||
        !stream_is_asked(k->streams->filter, &stream))
        return PR_OK;
    if (alone)
        return key_take_alone(o, k, &stream, field_i64(r, i, 2));
    if (is_brief(o))
        return streams_add(k->streams, &stream) != NULL ? PR_OK : no_memory(o);
    struct stream_info *head;
    if (streams_find(k->streams, &stream, &head) != PR_OK)
        return no_memory(o);
    if (head != NULL)
        stream_set_waiting(head, stream.waiting);
    if (!stream_may_wait_for_dead(k->streams, head))
        return PR_OK;
    return dead_head_read(o, k->streams, &stream, head, field_i64(r, i, 2), &k->looks);
}

static int keys_take(const struct overview *o, struct keys *k, const PGresult *r, int count)
{
    PGresult *alone = NULL;
    int next = 0;
    int rc = is_brief(o) ? alone_read(o, k, r, count, &alone) : PR_OK;
    for (int i = 0; i < count && rc == PR_OK; i++) {
        bool is_alone =
            alone != NULL && next < PQntuples(alone) && slice_eq(field_slice(alone, next, 0), field_slice(r, i, 0));
        next += is_alone;
        if (k->taken++ == STREAMS_LOOKED_MAX) {
            o->reply->more = true;
            break;
        }
        rc = key_take(o, k, r, i, is_alone);
    }
    return rc;
}

/* The one key of a stream on the way to an endpoint, where both are asked for. */
static int key_read(const struct overview *o, struct keys *k)
{
    const struct filter *f = k->streams->filter;
    pr_slice key = stream_key(o->arena, &(struct stream_info){ .endpoint = f->endpoint, .stream = f->stream });
    struct args args = { .count = 0 };
    PGresult *r;
    if (key.data == NULL)
        return no_memory(o);
    arg_text(&args, key);
    int rc = link_do(o->link, KEY, k->box, &args, &r, o->reterr);
    return rc == PR_OK ? keys_take(o, k, r, PQntuples(r)) : rc;
}

static int keys_read(const struct overview *o, struct stream_list *streams, pr_slice box)
{
    struct keys k = { .streams = streams, .heads = { .arena = o->arena, .filter = streams->filter }, .box = box };
    struct args args = { .count = 0 }, from = { .count = 0 };
    PGresult *r;
    int64_t rows = 0;
    if (stream_is_one(streams->filter))
        return key_read(o, &k);
    arg_i64(&args, STREAMS_LOOKED_MAX + 1);
    arg_i64(&args, KEYS_ROWS);
    int rc = link_do(o->link, KEYS, box, &args, &r, o->reterr);
    if (rc != PR_OK)
        return rc;
    int count = PQntuples(r);
    for (int i = 0; i < count; i++)
        rows += field_i64(r, i, 1);
    if (rows < KEYS_ROWS)
        return keys_take(o, &k, r, count);
    rc = keys_take(o, &k, r, count - 1); /* of the last one there may be more */
    arg_i64(&from, STREAMS_LOOKED_MAX + 1 - (int64_t)k.taken);
    arg_text(&from, field_slice(r, count - 1, 0));
    if (rc == PR_OK)
        rc = link_do(o->link, KEYS_FROM, box, &from, &r, o->reterr);
    return rc == PR_OK ? keys_take(o, &k, r, PQntuples(r)) : rc;
}

int pg_overview_streams(const struct overview *o)
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
    return rc == PR_OK ? page_tell(o) : rc;
}

/* ---- Audit ---------------------------------------------------------------------------------------- */

static int entry_take(const struct overview *o, const PGresult *r, int i, struct audit_entry *e)
{
    *e = (struct audit_entry){
        .number = (uint64_t)field_i64(r, i, 0),
        .at_us = field_time(r, i, 1),
        .who = keep(o, r, i, 2),
        .action = keep(o, r, i, 3),
        .target = keep(o, r, i, 4),
        .why = keep(o, r, i, 5),
        .matched = (uint64_t)field_i64(r, i, 6),
        .changed = (uint64_t)field_i64(r, i, 7),
        .refused = (uint64_t)field_i64(r, i, 8),
    };
    return e->who.data != NULL && e->action.data != NULL && e->target.data != NULL && e->why.data != NULL
               ? PR_OK
               : no_memory(o);
}

int pg_overview_audit(const struct overview *o)
{
    const struct filter *f = &o->query->filter;
    size_t limit = f->limit > 0 ? f->limit : LIMIT_DEFAULT, capacity = 0;
    struct args args = { .count = 0 };
    PGresult *r;
    arg_i64(&args, f->after != 0 ? (int64_t)f->after : INT64_MAX);
    arg_time(&args, max64(f->since_us, 1));
    arg_time(&args, f->until_us != 0 ? f->until_us : PR_NEVER);
    arg_i64(&args, (int64_t)limit + 1);
    int rc = link_do(o->link,
                     "SELECT number, at, who, action, target, why, matched, changed, refused FROM {schema}.audit"
                     " WHERE number < $1 AND at >= $2 AND at < $3 ORDER BY number DESC LIMIT $4",
                     NO_BOX, &args, &r, o->reterr);
    for (int i = 0; rc == PR_OK && i < PQntuples(r); i++) {
        if (o->reply->audit_count == limit) {
            o->reply->more = true;
            break;
        }
        struct audit_entry *e = audit_room(o->arena, o->reply, &capacity);
        rc = e != NULL ? entry_take(o, r, i, e) : no_memory(o);
        o->reply->audit_count += rc == PR_OK;
    }
    return rc;
}
