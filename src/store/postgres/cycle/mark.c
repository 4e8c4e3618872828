/* Marks (core/mark.h): how long a box keeps them, and which rows that are about to be handed out have one, or a dead
 * letter; and messages that arrive again.  Marks are made as effects (effect.c), and everything is purged in
 * purge.c. */
#include "base/error.h"
#include "store/postgres/postgres.h"

int pg_marks_tell_time(struct cycle_run *run)
{
    struct args args = { .count = 0 };
    if (run->cycle->dedupe_us == DEDUPE_OF_BOX)
        return PR_OK;
    arg_text(&args, run->session->box);
    arg_i64(&args, run->cycle->dedupe_us);
    return link_do(run->link, "UPDATE {schema}.box SET dedupe_us = $2 WHERE name = $1 AND dedupe_us <> $2", NO_BOX,
                   &args, NULL, run->reterr);
}

int pg_marks_ask_time(struct cycle_run *run)
{
    struct args args = { .count = 0 };
    PGresult *result;
    if (run->cycle->epoch != 0 || run->cycle->dedupe_us != DEDUPE_OF_BOX)
        return PR_OK;
    arg_text(&args, run->session->box);
    int rc =
        link_do(run->link, "SELECT dedupe_us FROM {schema}.box WHERE name = $1", NO_BOX, &args, &result, run->reterr);
    if (rc == PR_OK && PQntuples(result) > 0)
        run->session->reply.dedupe_us = field_i64(result, 0, 0);
    return rc;
}

/* Row by row, through the keys: see SEEN_GUARDS. */
void pg_marks_ask(struct cycle_run *run, PGresult **ret)
{
    const struct cycle *c = run->cycle;
    struct array *a = run->session->arrays;
    struct args args = { .count = 0 };
    array_begin(&a[0], OID_UUID);
    array_begin(&a[1], OID_TEXT);
    for (size_t i = 0; i < c->mark_count; i++) {
        array_id(&a[0], c->marks[i].id);
        array_text(&a[1], c->marks[i].handler);
    }
    arg_array(&args, &a[0]);
    arg_array(&args, &a[1]);
    link_add(
        run->link,
        "SELECT v.n FROM unnest($1, $2) WITH ORDINALITY AS v(id, handler, n) WHERE coalesce((SELECT true FROM"
        " {schema}.seen s WHERE s.box = {box_name} AND s.id = v.id AND s.handler = v.handler LIMIT 1), (SELECT true"
        " FROM {schema}.dead_letter d WHERE d.id = v.id AND d.box = {box_name} AND coalesce(nullif(d.destination, ''), "
        "d.endpoint) = v.handler LIMIT 1))",
        run->session->box, &args, ret);
}

int pg_marks_take(struct cycle_run *run, const PGresult *result)
{
    bool *marked = arena_alloc_array(&run->session->arena, run->cycle->mark_count, sizeof(marked[0]));
    if (marked == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for %zu marks", run->cycle->mark_count);
    for (int i = 0; i < PQntuples(result); i++)
        marked[field_i64(result, i, 0) - 1] = true;
    run->session->reply.marked = marked;
    return PR_OK;
}

/* One entry for each message; an entry that another transaction holds is skipped, and another one made
 * (070_again.sql). */
static const char NOTE_AGAIN[] = "WITH b AS (SELECT " NOW("$1") " AS t, " NOW(
    "$1") " + dedupe_us * interval '1 microsecond' AS until FROM {schema}.box WHERE name = {box_name} AND dedupe_us > "
          "0),"
          " v AS MATERIALIZED (SELECT id, destination, count(*) AS times FROM unnest($2, $3) AS v(id, destination)"
          " GROUP BY id, destination),"
          " held AS MATERIALIZED (SELECT a.ctid, v.* FROM v JOIN {schema}.again a ON a.id = v.id AND a.destination ="
          " v.destination AND a.box = {box_name} FOR UPDATE OF a SKIP LOCKED),"
          " told AS (UPDATE {schema}.again a SET times = a.times + o.times, at = b.t, until = b.until FROM (SELECT"
          " DISTINCT ON (id, destination) * FROM held) o, b WHERE a.ctid = o.ctid RETURNING a.id, a.destination)"
          " INSERT INTO {schema}.again (box, id, destination, times, at, until) SELECT {box_name}, v.id,"
          " v.destination, v.times, b.t, b.until FROM v, b WHERE NOT EXISTS (SELECT FROM told t WHERE t.id = v.id"
          " AND t.destination = v.destination)";

void pg_marks_note_again(struct link *link, const struct sending *request, int64_t wall_us)
{
    struct array ids, destinations;
    struct args args = { .count = 0 };
    struct pr_error ignored; /* it is only information for people */
    array_init(&ids);
    array_init(&destinations);
    array_begin(&ids, OID_UUID);
    array_begin(&destinations, OID_TEXT);
    for (size_t i = 0; request->answers != NULL && i < request->count; i++) {
        if (request->answers[i] != PR_DUPLICATE)
            continue;
        array_id(&ids, request->messages[i].id);
        array_text(&destinations, request->messages[i].destination);
    }
    arg_time(&args, wall_us);
    arg_array(&args, &ids);
    arg_array(&args, &destinations);
    if (ids.count > 0 && link_do(link, NOTE_AGAIN, request->box, &args, NULL, &ignored) != PR_OK)
        link_rollback(link);
    array_fini(&ids);
    array_fini(&destinations);
}
