/* When a message of a type was delivered to an endpoint last, by any instance. */
#include "base/error.h"
#include "base/util.h"
#include "store/postgres/postgres.h"

static void take_pairs(struct cycle_run *run, const struct evidence *list, size_t count)
{
    struct array *a = run->session->arrays;
    array_begin(&a[0], OID_TEXT);
    array_begin(&a[1], OID_TEXT);
    for (size_t i = 0; i < count; i++) {
        array_text(&a[0], list[i].endpoint);
        array_text(&a[1], list[i].type);
    }
}

/* In a fixed order, so that two instances do not wait for each other. */
void pg_evidence_add(struct cycle_run *run)
{
    struct args args = { .count = 0 };
    if (run->cycle->delivered_count == 0)
        return;
    take_pairs(run, run->cycle->delivered, run->cycle->delivered_count);
    arg_time(&args, pg_store_wall_us(run->session->store));
    arg_array(&args, &run->session->arrays[0]);
    arg_array(&args, &run->session->arrays[1]);
    link_add(run->link,
             "INSERT INTO {schema}.evidence (endpoint, type, delivered_at)"
             " SELECT v.endpoint, v.type, " NOW(
                 "$1") " FROM unnest($2, $3) AS v(endpoint, type) ORDER BY 1, 2"
                       " ON CONFLICT (endpoint, type) DO UPDATE SET delivered_at = excluded.delivered_at",
             NO_BOX, &args, NULL);
}

void pg_evidence_ask(struct cycle_run *run, PGresult **ret)
{
    struct args args = { .count = 0 };
    take_pairs(run, run->cycle->evidence, run->cycle->evidence_count);
    arg_array(&args, &run->session->arrays[0]);
    arg_array(&args, &run->session->arrays[1]);
    link_add(run->link,
             "SELECT v.n, e.delivered_at FROM unnest($1, $2) WITH ORDINALITY AS v(endpoint, type, n)"
             " JOIN {schema}.evidence e ON e.endpoint = v.endpoint AND e.type = v.type",
             NO_BOX, &args, ret);
}

int pg_evidence_take(struct cycle_run *run, const PGresult *result)
{
    size_t count = run->cycle->evidence_count;
    int64_t *answers = arena_alloc_array(&run->session->arena, count, sizeof(*answers));
    if (answers == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for evidence");
    for (size_t i = 0; i < count; i++)
        answers[i] = 0;
    for (int i = 0; i < PQntuples(result); i++)
        answers[field_i64(result, i, 0) - 1] = field_time(result, i, 1);
    run->session->reply.evidence = answers;
    return PR_OK;
}
