/* Listings of messages and dead letters, one message by its id, and the number of dead letters that match a filter. */
#include "base/error.h"
#include "base/slice.h"
#include "store/people/listing.h"
#include "store/people/question.h"
#include "store/people/ranking.h"

struct collecting {
    struct question *q;
    size_t capacity;
};

static int listed_add(void *arg, const struct listed *found, struct pr_error *reterr)
{
    struct collecting *c = arg;
    struct question *q = c->q;
    struct query_reply *reply = q->reply;
    (void)reterr;
    if (reply->listed_count == question_limit(q)) {
        reply_is_full(reply);
        return LISTING_STOP;
    }
    reply->listed = list_room(q->arena, reply->listed, reply->listed_count, &c->capacity, sizeof(reply->listed[0]));
    char *block = arena_alloc(q->arena, message_bytes(&found->m));
    if (reply->listed == NULL || block == NULL)
        return question_no_memory(q);
    struct listed *l = &reply->listed[reply->listed_count++];
    *l = *found;
    message_copy(&found->m, block, &l->m);
    pr_slice *const slices[] = { &l->box, &l->endpoint, &l->rule, &l->fingerprint, &l->note, &l->instance };
    for (size_t i = 0; i < ARRAY_LENGTH(slices); i++) {
        *slices[i] = slice_dup(q->arena, *slices[i]);
        q->lacks_memory |= slices[i]->data == NULL;
    }
    return PR_OK;
}

static int list_table(struct collecting *c, enum listing_table table, pr_slice box, const struct filter *filter)
{
    struct question *q = c->q;
    const struct listing listing = {
        .table = table,
        .box = box,
        .filter = filter,
        .with_payload = !q->query->brief,
        .wanted = question_limit(q) - q->reply->listed_count + 1,
        .found = listed_add,
        .arg = c,
    };
    uint64_t cut = 0;
    if (q->reply->more) /* the next page begins here */
        return PR_OK;
    int rc = listing_run(q->sql, &q->s, &listing, &cut);
    reply_is_cut(q->reply, box, cut);
    return rc;
}

static int list_boxes(struct collecting *c, const struct filter *filter)
{
    const struct listing_context *s = &c->q->s;
    struct filter here;
    int rc = PR_OK;
    for (size_t i = 0; i < s->box_count && rc == PR_OK; i++)
        if (filter_of_box(filter, s->boxes[i], &here))
            rc = list_table(c, LISTING_BOX, s->boxes[i], &here);
    return rc;
}

int question_messages(struct question *q)
{
    const struct filter *f = &q->query->filter;
    struct collecting c = { .q = q };
    int rc = question_breakers(q);
    if (rc != PR_OK)
        return rc;
    if (f->state == STATE_DEAD)
        return list_table(&c, LISTING_DEAD, f->box, f);
    return f->state == STATE_DONE ? list_table(&c, LISTING_DONE, f->box, f) : list_boxes(&c, f);
}

int question_dead(struct question *q)
{
    struct collecting c = { .q = q };
    return list_table(&c, LISTING_DEAD, q->query->filter.box, &q->query->filter);
}

int question_id(struct question *q)
{
    const struct filter *asked = &q->query->filter;
    const struct filter filter = { .state = -1, .ids = asked->ids, .id_count = 1, .routing = asked->routing };
    struct collecting c = { .q = q };
    int rc = question_breakers(q);
    if (rc == PR_OK)
        rc = list_boxes(&c, &filter);
    if (rc == PR_OK)
        rc = list_table(&c, LISTING_DEAD, NO_BOX, &filter);
    if (rc == PR_OK)
        rc = list_table(&c, LISTING_DONE, NO_BOX, &filter);
    if (rc == PR_OK && q->query->ended)
        rc = question_ended(q, c.capacity);
    return rc == PR_OK && q->query->ended ? question_marks(q) : rc;
}

static int count_one_more(void *arg, const struct listed *found, struct pr_error *reterr)
{
    const struct question *q = arg;
    (void)reterr;
    q->reply->total += !q->query->replayable || pr_id_is_zero(found->edited_as);
    return q->reply->total > COUNT_EXACT_MAX;
}

int question_dead_count(struct question *q)
{
    const struct filter *f = &q->query->filter;
    int64_t count = 0;
    if (filter_is_time(f) && !q->query->replayable) { /* watchdogs ask this, and the index is sufficient */
        int rc = sql_number(q->sql, SQL_dead_count, NO_BOX,
                            VALUES(V_TIME(max64(f->since_us, 1)), V_TIME(f->until_us != 0 ? f->until_us : PR_NEVER),
                                   V_INT(COUNT_EXACT_MAX + 1)),
                            &count);
        q->reply->total = (uint64_t)count;
        return rc;
    }
    const struct listing listing = {
        .table = LISTING_DEAD, .box = f->box, .filter = f, .found = count_one_more, .arg = q
    };
    return listing_run(q->sql, &q->s, &listing, NULL);
}
