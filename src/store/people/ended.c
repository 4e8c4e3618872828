/* What the ledger knows about an id: who ended it, where and when (core/ended.h).
 *
 * The bucket of the id is read in pieces, the newest entry first.  Ids that contain no time share one bucket, which may
 * be long: the search is bounded in time, and the reply says how far it went.  The database only compares bytes; that a
 * match is an id, and not parts of two, is checked here. */
#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "core/ended.h"
#include "store/people/listing.h"
#include "store/people/question.h"
#include "store/people/ranking.h"

#define PIECE 200 /* entries: at most some megabytes of ids, and as many milliseconds */

struct looking {
    struct question *q;
    pr_id id;
    size_t capacity;
    int64_t before;  /* entries with lower numbers come next */
    int64_t from_us; /* when the last entry that was looked at was written */
    size_t looked;
};

static int entry_found(struct looking *l, const struct rows *rows)
{
    struct question *q = l->q;
    struct query_reply *reply = q->reply;
    const struct ended ended = { .id = l->id,
                                 .box = question_text(q, rows, 2),
                                 .endpoint = question_text(q, rows, 3),
                                 .as = (enum ended_as)row_number(rows, 5),
                                 .attempt = (int)row_number(rows, 6) };
    reply->listed = list_room(q->arena, reply->listed, reply->listed_count, &l->capacity, sizeof(reply->listed[0]));
    if (reply->listed == NULL)
        return question_no_memory(q);
    reply->listed[reply->listed_count++] = listed_ended(&ended, row_time(rows, 1), question_text(q, rows, 4));
    return PR_OK;
}

/* The next piece; *ret_count: number of its rows. */
static int look_at_piece(struct looking *l, size_t piece, size_t *ret_count)
{
    struct rows rows;
    int rc = sql_run(l->q->sql, SQL_ended, NO_BOX,
                     VALUES(V_INT(ended_bucket(l->id)), V_INT(l->before),
                            V_BLOB(PR_BYTES((const char *)l->id.bytes, 16)), V_INT(piece)),
                     &rows);
    *ret_count = 0;
    while (rc == PR_OK && (rc = rows_step(&rows)) > 0) {
        (*ret_count)++;
        l->before = row_number(&rows, 0);
        l->from_us = row_time(&rows, 1);
        rc = ended_holds(row_text(&rows, 7), l->id) ? entry_found(l, &rows) : PR_OK;
    }
    rows_end(&rows);
    l->looked += *ret_count;
    return rc;
}

int question_ended(struct question *q, size_t capacity)
{
    const struct filter *f = &q->query->filter;
    const size_t look_max = f->look_max > 0 ? f->look_max : SIZE_MAX;
    const int64_t end_us = time_add(clock_mono_us(clock_system()), ENDED_LOOK_US);
    struct looking l = { .q = q, .id = f->ids[0], .capacity = capacity, .before = INT64_MAX };
    size_t piece, count;
    int rc;
    do {
        piece = min_size(PIECE, look_max - l.looked);
        rc = look_at_piece(&l, piece, &count);
    } while (rc == PR_OK && count == piece && l.looked < look_max && clock_mono_us(clock_system()) < end_us);
    if (rc == PR_OK && count == piece)
        q->reply->ended_from_us = l.from_us;
    return rc;
}
