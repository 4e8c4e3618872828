/* What fails: by the index of heads, so fresh rows cost nothing. */
#include "store/failing.h"

#include "base/error.h"
#include "store/postgres/listing.h"

static const char ROWS[] =
    "SELECT b.attempts, b.failures, b.due_at FROM {box} b WHERE " MESSAGE_IS_BACK " LIMIT 10001";

static const char DEAD[] =
    "SELECT failure_reason, cause, count(*) FROM (SELECT failure_reason, cause FROM {schema}.dead_letter"
    " WHERE box = {box_name} LIMIT 10000) d GROUP BY failure_reason, cause";

static int failing_box(struct link *link, const struct query *query, struct box_failing *f,
                       struct pr_error *reterr)
{
    PGresult *r;
    int rc = link_do(link, ROWS, f->name, NULL, &r, reterr);
    for (int i = 0; rc == PR_OK && i < PQntuples(r); i++)
        if (!failing_add(f, query, field_int(r, i, 0), field_int(r, i, 1), field_time(r, i, 2)))
            break;
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
        rc = failing_box(link, query, f, reterr);
    }
    return rc;
}
