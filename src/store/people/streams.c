/* Streams in trouble.  The work is bounded, however many there are: heads come from their index, and the rows behind
 * them from the keys of held rows. */
#include "base/slice.h"
#include "core/story.h"
#include "store/people/question.h"
#include "store/people/ranking.h"

/* With fewer held rows than this, all are read in order: a step through the index for each key costs more than reading
 * five rows. */
#define KEYS_ROWS 60000

/* Without the heads: keys alone say which streams are held back, unless the held row can be the head itself. */
static bool is_brief(const struct question *q)
{
    return q->query->brief && q->query->blocked;
}

/* ---- Heads in their boxes ------------------------------------------------------------------------ */

static int head_take(struct question *q, struct stream_list *streams, pr_slice box, const struct rows *rows)
{
    const struct pr_message m = {
        .stream = row_text(rows, 2),
        .destination = row_text(rows, 3),
        .story = row_text(rows, 4),
        .type = row_text(rows, 8),
        .source = row_text(rows, 9),
        .headers = row_text(rows, 10),
    };
    const int64_t due_us = row_number(rows, 6) != 0 ? PR_NEVER : 0;
    const struct stream_info head = {
        .box = box,
        .stream = m.stream,
        .endpoint = m.destination.size > 0 ? m.destination : story_endpoint(m.story),
        .head_row = (uint64_t)row_number(rows, 0),
        .head_seq = row_number(rows, 1),
        .since_us = stream_since(row_time(rows, 5), 0, due_us, m.story),
        .due_us = due_us,
        .head_held = row_number(rows, 7) != 0,
    };
    return streams_add_head(streams, &head, &m) == PR_OK ? PR_OK : question_no_memory(q);
}

static int heads_read(struct question *q, struct stream_list *streams, pr_slice box)
{
    const pr_slice stream = q->query->filter.stream;
    struct rows rows;
    int rc = sql_run(q->sql, stream.size > 0 ? SQL_heads_of_stream : SQL_heads, box,
                     VALUES(V_INT(STREAMS_LOOKED_MAX + 1), V_TEXT(stream)), &rows);
    for (size_t looked = 0; rc == PR_OK && (rc = rows_step(&rows)) > 0; looked++) {
        if (looked == STREAMS_LOOKED_MAX) {
            q->reply->more = true;
            break;
        }
        rc = head_take(q, streams, box, &rows);
    }
    rows_end(&rows);
    return rc < 0 ? rc : PR_OK;
}

/* Reads the rest of a head on the page, which may occur several times, once for each endpoint. */
static int head_read_rest(struct question *q, struct rows *rows, pr_slice box)
{
    struct pr_message m;
    unsigned lane;
    const char *bad;
    int rc = row_message(rows, &m, &lane, &bad);
    if (rc != PR_OK)
        return rc;
    const uint64_t place = (uint64_t)row_number(rows, rows_after_message(rows));
    const uint64_t row = (uint64_t)row_number(rows, rows_after_message(rows) + 1);
    const enum state state = listing_context_state(&q->s, box, row, &m, m.destination);
    for (size_t i = 0; i < q->reply->stream_count; i++) {
        struct stream_info *shown = &q->reply->streams[i];
        if (shown->head_row != place || !slice_eq(shown->box, box))
            continue;
        struct stream_info head = stream_of_row(shown->box, &m, state, q->s.now_us);
        head.stream = shown->stream;
        head.endpoint = shown->endpoint;
        head.code = slice_dup(q->arena, head.code);
        head.error = slice_dup(q->arena, head.error);
        head.waiting = shown->waiting;
        q->lacks_memory |= head.code.data == NULL || head.error.data == NULL;
        *shown = head;
    }
    return PR_OK;
}

static int heads_tell(struct question *q, pr_slice box, int64_t *places)
{
    struct rows rows;
    size_t count = 0;
    for (size_t i = 0; i < q->reply->stream_count; i++)
        if (q->reply->streams[i].head_row != 0 && slice_eq(q->reply->streams[i].box, box))
            places[count++] = (int64_t)q->reply->streams[i].head_row;
    if (count == 0)
        return PR_OK;
    int rc = sql_run(q->sql, SQL_heads_whole, box, VALUES(V_INTS(places, count)), &rows);
    while (rc == PR_OK && (rc = rows_step(&rows)) > 0)
        rc = head_read_rest(q, &rows, box);
    rows_end(&rows);
    return rc;
}

/* Heads that are no longer found have gone meanwhile: their head_row stays set. */
static int page_read_rest(struct question *q)
{
    struct query_reply *reply = q->reply;
    size_t kept = 0;
    int64_t *places = arena_alloc_array(q->arena, reply->stream_count, sizeof(*places));
    int rc = places != NULL ? PR_OK : question_no_memory(q);
    for (size_t i = 0; i < q->s.box_count && rc == PR_OK; i++)
        rc = heads_tell(q, q->s.boxes[i], places);
    for (size_t i = 0; i < reply->stream_count && rc == PR_OK; i++)
        if (reply->streams[i].head_row == 0)
            reply->streams[kept++] = reply->streams[i];
    reply->stream_count = kept;
    return rc;
}

/* ---- Heads among the dead letters ---------------------------------------------------------------- */

/* Mostly the first letter is the head.  Letters without an endpoint may be routed elsewhere: then more are read at
 * once, since the server sorts the letters of the stream for each page. */
#define DEAD_PAGE 500
#define DEAD_PAGE_MAX (16 * DEAD_PAGE)

struct keys {
    struct stream_list *streams, heads; /* heads: read when they are first needed, if the question is brief */
    pr_slice box;
    size_t taken, looks;
};

struct dead_page {
    int64_t before_seq, seq, row; /* between these places */
    int64_t rows;                 /* at most */
    bool is_last;
};

static int dead_head_put(struct question *q, struct keys *k, const struct stream_info *held, struct stream_info *in_box,
                         const struct rows *rows, const struct pr_message *m)
{
    const int behind = rows_after_message(rows);
    struct stream_info head = stream_of_row(held->box, m, STATE_DEAD, q->s.now_us);
    head.endpoint = held->endpoint;
    head.waiting = held->waiting;
    head.since_us = row_time(rows, behind + 2);
    head.due_us = PR_NEVER;
    if (head.reason == PR_REASON_NONE)
        head.reason = (int)row_number(rows, behind + 1);
    return streams_put(k->streams, in_box, &head) == PR_OK ? PR_OK : question_no_memory(q);
}

enum { HEAD_FOUND = 1 };

/* Outcome HEAD_FOUND: the first letter that the rows wait for is found, and has become the head. */
static int dead_page_read(struct question *q, struct keys *k, const struct stream_info *held,
                          struct stream_info *in_box, struct dead_page *page)
{
    struct pr_message m;
    struct rows rows;
    unsigned lane;
    const char *bad;
    int64_t count = 0;
    int rc = sql_run(q->sql, SQL_dead_heads, NO_BOX,
                     VALUES(V_TEXT(held->stream), V_TEXT(held->box), V_TEXT(held->endpoint), V_INT(page->before_seq),
                            V_INT(page->seq), V_INT(page->row), V_INT(page->rows)),
                     &rows);
    while (rc == PR_OK && (rc = rows_step(&rows)) > 0) {
        count++;
        rc = row_message(&rows, &m, &lane, &bad);
        if (rc != PR_OK)
            break;
        page->seq = m.seq;
        page->row = row_number(&rows, rows_after_message(&rows));
        if (stream_waits_for_letter(k->streams, held, row_text(&rows, rows_after_message(&rows) + 3), &m)) {
            rc = dead_head_put(q, k, held, in_box, &rows, &m);
            rc = rc == PR_OK ? HEAD_FOUND : rc;
        }
    }
    rows_end(&rows);
    page->is_last = count < page->rows;
    return rc;
}

/* Strict streams wait behind a dead letter before the head that is in the box, if there is one.  No letter: the head
 * was delivered just now, and the rows will go on. */
static int dead_head_read(struct question *q, struct keys *k, const struct stream_info *held,
                          struct stream_info *in_box, int64_t before_seq)
{
    struct dead_page page = { .before_seq = before_seq, .seq = INT64_MIN, .rows = 1 };
    int rc = PR_OK;
    if (in_box != NULL)
        page.before_seq = min64(before_seq, in_box->head_seq);
    while (rc == PR_OK && !page.is_last) {
        if (k->looks++ >= DEAD_HEADS_MAX) {
            q->reply->more = true;
            break;
        }
        rc = dead_page_read(q, k, held, in_box, &page);
        page.rows = min64(max64(2 * page.rows, DEAD_PAGE), DEAD_PAGE_MAX);
    }
    return rc < 0 ? rc : PR_OK;
}

/* ---- What is held -------------------------------------------------------------------------------- */

struct held_key {
    pr_slice key;
    int64_t count, first_seq;
    int held_for; /* enum pr_held_for, the same for all its rows */
    bool alone;   /* a single row, and it came back */
};

struct key_list {
    struct held_key *list;
    size_t count, capacity;
};

static int keys_fetch(struct question *q, enum sql_statement statement, pr_slice box, const struct value *values,
                      size_t count, struct key_list *ret)
{
    struct rows rows;
    *ret = (struct key_list){ .list = NULL };
    int rc = sql_run(q->sql, statement, box, values, count, &rows);
    while (rc == PR_OK && (rc = rows_step(&rows)) > 0) {
        ret->list = list_room(q->arena, ret->list, ret->count, &ret->capacity, sizeof(ret->list[0]));
        if (ret->list == NULL) {
            rc = question_no_memory(q);
            break;
        }
        ret->list[ret->count++] = (struct held_key){ .key = question_text(q, &rows, 0),
                                                     .count = row_number(&rows, 1),
                                                     .first_seq = row_number(&rows, 2),
                                                     .held_for = (int)row_number(&rows, 3) };
        rc = PR_OK;
    }
    rows_end(&rows);
    return rc == PR_OK && q->lacks_memory ? question_no_memory(q) : rc;
}

/* Marks the keys with a single held row that came back. */
static int alone_read(struct question *q, pr_slice box, struct key_list *keys)
{
    pr_slice *singles = arena_alloc_array(q->arena, keys->count, sizeof(*singles));
    struct rows rows;
    size_t count = 0, next = 0;
    if (singles == NULL)
        return question_no_memory(q);
    for (size_t i = 0; i < keys->count; i++)
        if (keys->list[i].count == 1)
            singles[count++] = keys->list[i].key;
    if (count == 0)
        return PR_OK;
    int rc = sql_run(q->sql, SQL_held_alone, box, VALUES(V_TEXTS(singles, count)), &rows);
    while (rc == PR_OK && (rc = rows_step(&rows)) > 0) {
        while (next < keys->count && !slice_eq(keys->list[next].key, row_text(&rows, 0)))
            next++;
        if (next < keys->count)
            keys->list[next].alone = true;
        rc = PR_OK;
    }
    rows_end(&rows);
    return rc;
}

static int key_take_alone(struct question *q, struct keys *k, const struct stream_info *stream, int64_t seq)
{
    int rc = PR_OK;
    if (k->heads.known == 0) {
        rc = heads_read(q, &k->heads, k->box);
        streams_settle(&k->heads);
    }
    struct stream_info *head = NULL;
    if (rc == PR_OK && streams_find(&k->heads, stream, &head) != PR_OK)
        rc = question_no_memory(q);
    if (rc != PR_OK)
        return rc;
    if (!stream_is_alone(head))
        return streams_add(k->streams, stream) != NULL ? PR_OK : question_no_memory(q);
    return stream_may_wait_for_dead(&k->heads, head) ? dead_head_read(q, k, stream, NULL, seq) : PR_OK;
}

static int key_take(struct question *q, struct keys *k, const struct held_key *key)
{
    struct stream_info stream = { .box = k->box, .waiting = (uint64_t)min64(key->count, COUNT_EXACT_MAX + 1) };
    if (key->held_for == PR_HELD_FOR_ENDPOINT)
        return PR_OK;
    stream_key_split(key->key, &stream.endpoint, &stream.stream);
    if (!stream_is_asked(k->streams->filter, &stream))
        return PR_OK;
    if (key->alone)
        return key_take_alone(q, k, &stream, key->first_seq);
    if (is_brief(q))
        return streams_add(k->streams, &stream) != NULL ? PR_OK : question_no_memory(q);
    struct stream_info *head;
    if (streams_find(k->streams, &stream, &head) != PR_OK)
        return question_no_memory(q);
    if (head != NULL)
        stream_set_waiting(head, stream.waiting);
    return stream_may_wait_for_dead(k->streams, head) ? dead_head_read(q, k, &stream, head, key->first_seq) : PR_OK;
}

static int keys_take(struct question *q, struct keys *k, struct key_list *keys)
{
    int rc = is_brief(q) ? alone_read(q, k->box, keys) : PR_OK;
    for (size_t i = 0; i < keys->count && rc == PR_OK; i++) {
        if (k->taken++ == STREAMS_LOOKED_MAX) {
            q->reply->more = true;
            break;
        }
        rc = key_take(q, k, &keys->list[i]);
    }
    return rc;
}

/* The key of a stream at an endpoint, where the filter has both. */
static int key_read(struct question *q, struct keys *k)
{
    const struct filter *f = k->streams->filter;
    pr_slice key = stream_key(q->arena, &(struct stream_info){ .endpoint = f->endpoint, .stream = f->stream });
    struct key_list keys;
    if (key.data == NULL)
        return question_no_memory(q);
    int rc = keys_fetch(q, SQL_held_key, k->box, VALUES(V_TEXT(key)), &keys);
    return rc == PR_OK ? keys_take(q, k, &keys) : rc;
}

static int keys_read(struct question *q, struct stream_list *streams, pr_slice box)
{
    struct keys k = { .streams = streams, .heads = { .arena = q->arena, .filter = streams->filter }, .box = box };
    struct key_list keys;
    int64_t rows = 0;
    if (stream_is_one(streams->filter))
        return key_read(q, &k);
    int rc = keys_fetch(q, SQL_held_keys, box, VALUES(V_INT(STREAMS_LOOKED_MAX + 1), V_INT(KEYS_ROWS)), &keys);
    for (size_t i = 0; rc == PR_OK && i < keys.count; i++)
        rows += keys.list[i].count;
    if (rc != PR_OK || rows < KEYS_ROWS)
        return rc == PR_OK ? keys_take(q, &k, &keys) : rc;
    const pr_slice last = keys.list[--keys.count].key; /* its rows may be incomplete */
    rc = keys_take(q, &k, &keys);
    if (rc == PR_OK)
        rc = keys_fetch(q, SQL_held_keys_from, box, VALUES(V_INT(STREAMS_LOOKED_MAX + 1 - k.taken), V_TEXT(last)),
                        &keys);
    return rc == PR_OK ? keys_take(q, &k, &keys) : rc;
}

int question_streams(struct question *q)
{
    struct stream_list streams = { .arena = q->arena, .filter = &q->query->filter };
    pr_slice wanted = q->query->filter.box;
    int rc = PR_OK;
    for (size_t i = 0; i < q->s.box_count && rc == PR_OK && !is_brief(q); i++)
        if (wanted.size == 0 || slice_eq(wanted, q->s.boxes[i]))
            rc = heads_read(q, &streams, q->s.boxes[i]);
    streams_settle(&streams);
    for (size_t i = 0; i < q->s.box_count && rc == PR_OK; i++)
        if (wanted.size == 0 || slice_eq(wanted, q->s.boxes[i]))
            rc = keys_read(q, &streams, q->s.boxes[i]);
    if (rc == PR_OK && streams_rank(&streams, q->query, q->reply) != PR_OK)
        rc = question_no_memory(q);
    return rc == PR_OK ? page_read_rest(q) : rc;
}
