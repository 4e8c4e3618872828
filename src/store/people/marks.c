#include "store/people/marks.h"

#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "core/ended.h"
#include "core/mark.h"
#include "store/people/listing.h"
#include "store/people/question.h"
#include "store/people/ranking.h"

int marks_init(struct marks *m, struct sql *sql, const struct listing_context *s, struct arena *arena)
{
    *m = (struct marks){ .sql = sql, .s = s };
    m->dedupe_us = arena_alloc_array(arena, s->box_count, sizeof(m->dedupe_us[0]));
    if (m->dedupe_us == NULL)
        return error_set(sql->reterr, PR_ENOMEM, "out of memory for %zu boxes", s->box_count);
    for (size_t i = 0; i < s->box_count; i++)
        m->dedupe_us[i] = -1;
    return PR_OK;
}

/* How long the box keeps marks; 0: it has none.  Each box is read once. */
static int marks_time(struct marks *m, pr_slice box, int64_t *ret)
{
    int rc = PR_OK;
    *ret = 0;
    for (size_t i = 0; i < m->s->box_count; i++) {
        if (!slice_eq(m->s->boxes[i], box))
            continue;
        if (m->dedupe_us[i] < 0)
            rc = sql_number(m->sql, SQL_mark_time, NO_BOX, VALUES(V_TEXT(box)), &m->dedupe_us[i]);
        *ret = rc == PR_OK ? m->dedupe_us[i] : 0;
        return rc < 0 ? rc : PR_OK;
    }
    return PR_OK;
}

int marks_find(struct marks *m, pr_slice box, pr_id id, pr_slice handler, int64_t *ret_at_us)
{
    struct rows rows = { .statement = NULL };
    *ret_at_us = 0;
    int rc = sql_run(m->sql, SQL_mark_find, NO_BOX, VALUES(V_TEXT(box), V_ID(id), V_TEXT(handler)), &rows);
    if (rc == PR_OK)
        rc = rows_step(&rows);
    if (rc > 0)
        *ret_at_us = row_time(&rows, 0);
    rows_end(&rows);
    return rc < 0 ? rc : PR_OK;
}

int marks_add(struct marks *m, const struct ended *e, pr_slice destination, int64_t now_us)
{
    int64_t keep_us;
    int rc = marks_time(m, e->box, &keep_us);
    if (rc != PR_OK || keep_us == 0 || pr_id_is_zero(e->id))
        return rc;
    return sql_do(m->sql, SQL_mark_add, NO_BOX,
                  VALUES(V_TEXT(e->box), V_ID(e->id), V_TEXT(mark_handler(destination, e->endpoint)), V_TIME(now_us),
                         V_INT(e->as), V_BOOL(destination.size == 0), V_TIME(time_add(now_us, keep_us))));
}

int marks_drop(struct marks *m, pr_slice box, pr_id id, pr_slice handler)
{
    return sql_do(m->sql, SQL_mark_drop, NO_BOX, VALUES(V_TEXT(box), V_ID(id), V_TEXT(handler)));
}

/* ---- Questions ----------------------------------------------------------------------------------------- */

static int marks_of_box(struct question *q, pr_slice box, size_t *capacity)
{
    struct query_reply *reply = q->reply;
    struct rows rows;
    int rc = sql_run(q->sql, SQL_mark_of_id, NO_BOX, VALUES(V_TEXT(box), V_ID(q->query->filter.ids[0])), &rows);
    while (rc == PR_OK && (rc = rows_step(&rows)) > 0) {
        reply->marks = list_room(q->arena, reply->marks, reply->mark_count, capacity, sizeof(reply->marks[0]));
        if (reply->marks == NULL) {
            rc = question_no_memory(q);
            break;
        }
        reply->marks[reply->mark_count++] = (struct mark_info){
            .box = slice_dup(q->arena, box),
            .handler = question_text(q, &rows, 0),
            .at_us = row_time(&rows, 1),
            .outcome = (int)row_number(&rows, 2),
        };
        rc = PR_OK;
    }
    rows_end(&rows);
    return rc;
}

static int again_of_box(struct question *q, pr_slice box, size_t *capacity)
{
    struct query_reply *reply = q->reply;
    struct rows rows;
    int rc = sql_run(q->sql, SQL_again_of_id, NO_BOX, VALUES(V_TEXT(box), V_ID(q->query->filter.ids[0])), &rows);
    while (rc == PR_OK && (rc = rows_step(&rows)) > 0) {
        reply->again = list_room(q->arena, reply->again, reply->again_count, capacity, sizeof(reply->again[0]));
        if (reply->again == NULL) {
            rc = question_no_memory(q);
            break;
        }
        reply->again[reply->again_count++] = (struct again_info){
            .box = slice_dup(q->arena, box),
            .destination = question_text(q, &rows, 0),
            .times = (uint64_t)row_number(&rows, 1),
            .at_us = row_time(&rows, 2),
        };
        rc = PR_OK;
    }
    rows_end(&rows);
    return rc;
}

int question_marks(struct question *q)
{
    struct query_reply *reply = q->reply;
    size_t capacity = 0, again_capacity = 0;
    int rc = PR_OK;
    for (size_t i = 0; i < q->s.box_count && rc == PR_OK; i++) {
        rc = marks_of_box(q, q->s.boxes[i], &capacity);
        if (rc == PR_OK)
            rc = again_of_box(q, q->s.boxes[i], &again_capacity);
    }
    if (rc != PR_OK || reply->listed_count > 0 || reply->mark_count == 0)
        return rc;
    reply->listed = arena_alloc_array(q->arena, reply->mark_count, sizeof(reply->listed[0]));
    if (reply->listed == NULL)
        return question_no_memory(q);
    for (; reply->listed_count < reply->mark_count; reply->listed_count++)
        reply->listed[reply->listed_count] = listed_marked(&reply->marks[reply->listed_count], q->query->filter.ids[0]);
    return PR_OK;
}
