/* Subscriptions: named readers of all events, whose positions are stored here.  And snapshots of streams.
 *
 * Each step is one transaction: the row is read and locked, then changed.  The fence ensures that an instance which has
 * lost the subscription moves nothing; leases only decide when another instance may take it over. */
#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "store/people/question.h"
#include "store/people/subscription.h"

/* The row that the statement found; its texts are in the arena. */
static bool subscription_of(const struct rows *rows, struct arena *arena, struct subscription_info *ret)
{
    *ret = (struct subscription_info){
        .name = slice_dup(arena, row_text(rows, 0)),
        .position = (uint64_t)row_number(rows, 1),
        .fence = (uint64_t)row_number(rows, 2),
        .holder = slice_dup(arena, row_text(rows, 3)),
        .until_us = row_time(rows, 4),
    };
    return ret->name.data != NULL && ret->holder.data != NULL;
}

static int no_memory(const struct sql *sql)
{
    return error_set(sql->reterr, PR_ENOMEM, "out of memory for a subscription");
}

/* Reads and locks its row.  Outcome PR_UNKNOWN. */
static int find(struct sql *sql, pr_slice name, struct arena *arena, struct subscription_info *ret)
{
    struct rows rows;
    int64_t last = 0;
    int rc = sql_run(sql, SQL_subscription, NO_BOX, VALUES(V_TEXT(name)), &rows);
    if (rc == PR_OK)
        rc = rows_step(&rows);
    if (rc > 0)
        rc = subscription_of(&rows, arena, ret) ? PR_OK : no_memory(sql);
    else if (rc == 0)
        rc = PR_UNKNOWN;
    rows_end(&rows);
    if (rc == PR_OK)
        rc = sql_number(sql, SQL_events_last, NO_BOX, NO_VALUES, &last);
    ret->last = (uint64_t)last;
    return rc;
}

static int set(struct sql *sql, const struct subscription_info *s)
{
    return sql_do(
        sql, SQL_subscription_set, NO_BOX,
        VALUES(V_TEXT(s->name), V_INT(s->position), V_INT(s->fence), V_TEXT_OR_NULL(s->holder), V_TIME(s->until_us)));
}

/* ---- Steps ---------------------------------------------------------------------------------- */

int subscription_place_check(uint64_t place, uint64_t last, struct pr_error *reterr)
{
    return place <= last ? PR_OK
                         : error_set(reterr, PR_EINVAL, "no event has the place %llu; the last one is %llu",
                                     (unsigned long long)place, (unsigned long long)last);
}

/* A caller that got no answer asks again, and finds the step done. */
static bool is_repeated(const struct subscription_call *c, const struct subscription_info *s)
{
    return s->fence == c->fence && c->to == s->position && c->from == SUBSCRIPTION_ANYWHERE && c->message_count == 0;
}

int subscription_change(const struct subscription_call *c, int64_t now_us, struct subscription_info *s)
{
    bool is_holder = s->holder.size > 0 && s->fence == c->fence && slice_eq(s->holder, c->holder);
    switch (c->step) {
    case SUBSCRIPTION_CLAIM:
        if (!is_holder && s->until_us > now_us)
            return PR_STALE;
        s->fence += !is_holder;
        s->holder = c->holder;
        s->until_us = time_add(now_us, c->lease_us);
        return PR_OK;
    case SUBSCRIPTION_ADVANCE:
        if (is_repeated(c, s))
            return PR_OK;
        if (s->fence != c->fence || c->to <= s->position ||
            (c->from != SUBSCRIPTION_ANYWHERE && s->position != c->from))
            return PR_STALE;
        s->position = c->to;
        s->until_us = s->holder.size > 0 && c->lease_us > 0 ? time_add(now_us, c->lease_us) : s->until_us;
        return PR_OK;
    case SUBSCRIPTION_RELEASE:
        if (s->fence != c->fence)
            return PR_STALE;
        s->holder = (pr_slice){ "", 0 };
        s->until_us = 0;
        return PR_OK;
    }
    return PR_STALE;
}

/* Duplicates are not reported. */
static int store_messages(struct sql *sql, const struct subscription_call *c, int64_t now_us, struct arena *arena)
{
    if (c->message_count == 0)
        return PR_OK;
    int *answers = arena_alloc_array(arena, c->message_count, sizeof(answers[0]));
    return answers != NULL ? sql->ops->insert(sql, c->box, c->messages, c->message_count, now_us, answers)
                           : no_memory(sql);
}

static int step_inside(struct sql *sql, const struct subscription_call *c, struct arena *arena,
                       struct subscription_info *ret)
{
    int64_t now_us = 0;
    int rc = sql_now(sql, &now_us);
    if (rc == PR_OK && c->step == SUBSCRIPTION_CLAIM)
        rc = sql_do(sql, SQL_subscription_make, NO_BOX, VALUES(V_TEXT(c->name), V_INT(now_us)));
    if (rc == PR_OK)
        rc = find(sql, c->name, arena, ret);
    if (rc == PR_OK && c->step == SUBSCRIPTION_ADVANCE)
        rc = subscription_place_check(c->to, ret->last, sql->reterr);
    if (rc == PR_OK)
        rc = subscription_change(c, now_us, ret);
    if (rc == PR_OK)
        rc = store_messages(sql, c, now_us, arena);
    if (rc == PR_OK)
        rc = set(sql, ret);
    return rc;
}

int people_subscription(const struct store *store, const struct subscription_call *call, struct arena *arena,
                        struct subscription_info *ret, struct pr_error *reterr)
{
    struct sql sql = { .reterr = reterr };
    int rc = sql_begin(&sql, store, SQL_WRITE);
    if (rc != PR_OK)
        return rc;
    rc = step_inside(&sql, call, arena, ret);
    if (rc == PR_OK)
        rc = sql_commit(&sql);
    sql_end(&sql);
    return rc;
}

int order_subscription(struct sql *sql, const struct admin *a, struct admin_reply *reply)
{
    struct subscription_info s;
    struct arena arena;
    arena_init(&arena, 1024);
    int rc = find(sql, a->subscription, &arena, &s);
    reply->matched = reply->changed = rc == PR_OK;
    reply->missing = rc == PR_UNKNOWN;
    if (rc == PR_OK && a->kind == ADMIN_SUBSCRIPTION_RESET)
        rc = subscription_place_check(a->position, s.last, sql->reterr);
    if (rc == PR_OK && !a->dry_run && a->kind == ADMIN_SUBSCRIPTION_REMOVE) {
        rc = sql_do(sql, SQL_subscription_remove, NO_BOX, VALUES(V_TEXT(a->subscription)));
    } else if (rc == PR_OK && !a->dry_run) {
        s.position = a->position;
        s.fence++;
        s.holder = (pr_slice){ NULL, 0 };
        s.until_us = 0;
        rc = set(sql, &s);
    }
    arena_fini(&arena);
    return rc == PR_UNKNOWN ? PR_OK : rc;
}

int question_subscriptions(struct question *q)
{
    struct query_reply *reply = q->reply;
    size_t capacity = 0;
    struct rows rows;
    int64_t last = 0;
    int rc = sql_number(q->sql, SQL_events_last, NO_BOX, NO_VALUES, &last);
    if (rc != PR_OK)
        return rc;
    rc = sql_run(q->sql, SQL_subscriptions, NO_BOX, NO_VALUES, &rows);
    while (rc == PR_OK && (rc = rows_step(&rows)) > 0) {
        reply->subscriptions = list_room(q->arena, reply->subscriptions, reply->subscription_count, &capacity,
                                         sizeof(reply->subscriptions[0]));
        if (reply->subscriptions == NULL)
            return question_no_memory(q);
        struct subscription_info *s = &reply->subscriptions[reply->subscription_count++];
        rc = subscription_of(&rows, q->arena, s) ? PR_OK : question_no_memory(q);
        s->last = (uint64_t)last;
        s->lag = s->last - s->position;
        if (s->until_us <= q->s.now_us) { /* the holder's lease is over */
            s->holder = (pr_slice){ "", 0 };
            s->until_us = 0;
        }
    }
    rows_end(&rows);
    return rc < 0 ? rc : PR_OK;
}

/* ---- Snapshots ------------------------------------------------------------------------------- */

int people_snapshot_save(const struct store *store, pr_slice stream, int64_t version, pr_slice data,
                         struct pr_error *reterr)
{
    struct sql sql = { .reterr = reterr };
    int64_t now_us = 0, saved, last = 0;
    int rc = sql_begin(&sql, store, SQL_WRITE);
    if (rc != PR_OK)
        return rc;
    rc = sql_now(&sql, &now_us);
    if (rc == PR_OK)
        rc = sql_number(&sql, SQL_events_last_of_stream, NO_BOX, VALUES(V_TEXT(stream)), &last);
    if (rc == PR_OK && version > last)
        rc = error_set(reterr, PR_EINVAL,
                       "stream \"%.*s\" has %lld events, so it cannot have a snapshot of version %lld",
                       SLICE_ARGS(stream), (long long)last, (long long)version);
    if (rc == PR_OK)
        rc = sql_number(&sql, SQL_snapshot_save, NO_BOX,
                        VALUES(V_TEXT(stream), V_INT(version), V_TIME(now_us), V_BLOB(data)), &saved);
    if (rc == PR_OK)
        rc = sql_commit(&sql);
    sql_end(&sql);
    return rc == PR_UNKNOWN ? PR_STALE : rc;
}

int people_snapshot_load(const struct store *store, pr_slice stream, struct arena *arena, int64_t *ret_version,
                         pr_slice *ret_data, struct pr_error *reterr)
{
    struct sql sql = { .reterr = reterr };
    struct rows rows;
    int rc = sql_begin(&sql, store, SQL_LOOK);
    if (rc != PR_OK)
        return rc;
    rc = sql_run(&sql, SQL_snapshot_load, NO_BOX, VALUES(V_TEXT(stream)), &rows);
    if (rc == PR_OK)
        rc = rows_step(&rows);
    if (rc > 0) {
        *ret_version = row_number(&rows, 0);
        *ret_data = slice_dup(arena, row_text(&rows, 1));
        rc = ret_data->data != NULL ? PR_OK : no_memory(&sql);
    } else if (rc == 0) {
        rc = PR_UNKNOWN;
    }
    rows_end(&rows);
    sql_end(&sql);
    return rc;
}
