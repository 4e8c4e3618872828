/* What fails: by the index of heads, so fresh rows cost nothing. */
#include "store/failing.h"

#include "base/error.h"
#include "store/postgres/listing.h"

static const char ROWS[] = "SELECT b.attempts, b.failures, b.due_at FROM {box} b WHERE " MESSAGE_IS_BACK " LIMIT 10001";

/* Only what is due is held, and the index of heads does not say what is.  So of what is due the index of due rows tells. */
static const char DUE[] = "SELECT min(d.due_at), max(d.due_at) FROM (SELECT b.due_at, b.status, b.attempts FROM {box} "
                          "b WHERE b.due_at IS NOT NULL"
                          " AND b.held_by IS NULL AND b.due_at <= $1 ORDER BY b.due_at LIMIT 10000) d"
                          " WHERE (d.status & 32768) <> 0 OR d.attempts > 0";

static const char DEAD[] =
    "SELECT failure_reason, cause, count(*) FROM (SELECT failure_reason, cause FROM {schema}.dead_letter"
    " WHERE box = {box_name} LIMIT 10000) d GROUP BY failure_reason, cause";

static int failing_box(struct link *link, const struct query *query, int64_t now_us, struct box_failing *f,
                       struct pr_error *reterr)
{
    struct args args = { .count = 0 };
    PGresult *r;
    arg_time(&args, now_us);
    int rc = link_do(link, ROWS, f->name, NULL, &r, reterr);
    for (int i = 0; rc == PR_OK && i < PQntuples(r); i++) {
        if (!failing_add(f, query, field_int(r, i, 0), field_int(r, i, 1)))
            break;
        if (field_time(r, i, 2) > now_us)
            failing_add_due(f, field_time(r, i, 2));
    }
    if (rc == PR_OK)
        rc = link_do(link, DUE, f->name, &args, &r, reterr);
    for (int i = 0; rc == PR_OK && i < 2; i++)
        failing_add_due(f, field_time(r, 0, i));
    if (rc == PR_OK)
        rc = link_do(link, DEAD, f->name, NULL, &r, reterr);
    for (int i = 0; rc == PR_OK && i < PQntuples(r); i++)
        failing_add_dead(f, field_int(r, i, 0), field_int(r, i, 1), (uint64_t)field_i64(r, i, 2));
    return rc;
}

int pg_failing(struct link *link, const struct surroundings *s, const struct query *query, struct arena *arena,
               struct query_reply *reply, struct pr_error *reterr)
{
    int rc = PR_OK;
    reply->failing = arena_alloc_array(arena, s->box_count, sizeof(*reply->failing));
    if (reply->failing == NULL)
        return error_set(reterr, PR_ENOMEM, "no memory for the answer");
    for (size_t i = 0; i < s->box_count && rc == PR_OK; i++) {
        struct box_failing *f = &reply->failing[reply->failing_count++];
        f->name = s->boxes[i];
        rc = failing_box(link, query, s->now_us, f, reterr);
    }
    return rc;
}
