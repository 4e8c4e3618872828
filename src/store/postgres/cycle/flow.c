/* What turns of flows store (core/flow_row.h): their rows, executions before the current ones, mail; and which
 * handed-out rows have been deleted.
 *
 * The row of a flow is the guard of its turn.  All rows of a cycle are locked in the order of their ids, and rows that
 * other transactions hold are skipped, as with other guards (guard.c). */
#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/id.h"
#include "store/postgres/message.h"
#include "store/postgres/postgres.h"

#define KEEP_MAX_US INT64_C(8000000000000000000) /* time for keeping mail: fits into an interval */

/* Returns place, execution (NULL: no such flow), next, state (NULL: locked by another transaction).  Each through the
 * key: given the choice, the server goes through all flows in the order of their ids. */
const char PG_FLOW_GUARDS[] =
    "WITH v AS MATERIALIZED (SELECT * FROM unnest($1, $2) AS v(ord, id)),"
    " locked AS MATERIALIZED (SELECT v.ord, f.execution, f.next, f.state FROM (SELECT * FROM v ORDER BY id) v"
    " CROSS JOIN LATERAL (SELECT f.execution, f.next, f.state FROM {schema}.flow f WHERE f.id = v.id OFFSET 0"
    " FOR NO KEY UPDATE SKIP LOCKED) f)"
    " SELECT ord, execution, next, state FROM locked UNION ALL SELECT v.ord, (SELECT f.execution FROM {schema}.flow f"
    " WHERE f.id = v.id), 0, NULL FROM v WHERE v.ord NOT IN (SELECT ord FROM locked)";

/* When another execution begins, the previous state of the row is kept. */
const char PG_FLOW_ROWS[] =
    "WITH v AS MATERIALIZED (SELECT * FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, "
    "$17,"
    " $18, $19) AS v(ord, id, name, version, execution, next, state, custom_status, status_number, input, output, "
    "error,"
    " parent, parent_execution, parent_task, tasks, born, restarts)),"
    " former AS (INSERT INTO {schema}.flow_execution (flow, execution, name, version, next, state, input, output, "
    "error,"
    " ended_at) SELECT f.id, f.execution, f.name, f.version, f.next, CASE f.state WHEN 1 THEN 5 ELSE f.state END, "
    "f.input,"
    " f.output, f.error, coalesce($1, now()) FROM v JOIN {schema}.flow f ON f.id = v.id AND f.id = ANY ($3) WHERE NOT "
    "v.born"
    " AND f.execution <> v.execution),"
    " raised AS (UPDATE {schema}.flow f SET name = v.name, version = v.version, execution = v.execution, next = v.next,"
    " state = v.state, custom_status = v.custom_status, status_number = v.status_number, input = v.input,"
    " output = v.output, error = v.error, parent = v.parent, parent_execution = v.parent_execution,"
    " parent_task = v.parent_task, tasks = v.tasks, updated_at = coalesce($1, now()),"
    " created_at = CASE WHEN v.restarts THEN coalesce($1, now()) ELSE f.created_at END"
    " FROM v WHERE f.id = v.id AND f.id = ANY ($3) AND NOT v.born RETURNING v.ord),"
    " born AS (INSERT INTO {schema}.flow (id, name, version, execution, next, state, custom_status, status_number, "
    "input,"
    " output, error, parent, parent_execution, parent_task, tasks, created_at, updated_at) SELECT id, name, version,"
    " execution, next, state, custom_status, status_number, input, output, error, parent, parent_execution, "
    "parent_task,"
    " tasks, coalesce($1, now()), coalesce($1, now()) FROM v WHERE v.born ORDER BY v.id ON CONFLICT (id) DO NOTHING"
    " RETURNING id)"
    " SELECT ord FROM raised UNION ALL SELECT v.ord FROM v JOIN born b ON b.id = v.id";
_Static_assert(FLOW_RUNNING == 1 && FLOW_CONTINUED == 5, "PG_FLOW_ROWS");

const char PG_EXECUTION_ROWS[] =
    "WITH v AS MATERIALIZED (SELECT * FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
    " AS v(ord, flow, execution, name, version, next, state, input, output, error)),"
    " made AS (INSERT INTO {schema}.flow_execution (flow, execution, name, version, next, state, input, output, error,"
    " ended_at) SELECT flow, execution, name, version, next, state, input, output, error, coalesce($1, now()) FROM v)"
    " SELECT ord FROM v";

void pg_flow_guards_take(struct cycle_run *run, const PGresult *r)
{
    for (int i = 0; r != NULL && i < PQntuples(r); i++) {
        size_t at = (size_t)field_int(r, i, 0);
        const struct effect *e = &run->cycle->effects[at];
        struct flow_row found = { .next = field_i64(r, i, 2) };
        bool is_there = !field_is_null(r, i, 1), busy = is_there && field_is_null(r, i, 3);
        if (is_there)
            (void)id_from_stored(field_slice(r, i, 1), &found.execution); /* a damaged id equals no other */
        found.state = busy ? 0 : field_int(r, i, 3);
        run->effect_numbers[at] = is_there;
        run->guards.answers[at] = busy ? ANSWER_BUSY : effect_flow_answer(e, is_there ? &found : NULL);
    }
}

static void put_execution(struct array *a, pr_id id)
{
    char text[PR_ID_TEXT_SIZE];
    pr_id_format(id, text);
    array_text(a, slice_from(text));
}

static void put_bytes(struct array *a, pr_slice bytes)
{
    if (bytes.size > 0)
        array_bytes(a, bytes);
    else
        array_null(a);
}

void pg_flow_put(struct cycle_run *run, struct array *a, size_t i)
{
    const struct flow_row *f = run->cycle->effects[i].flow;
    array_text(&a[1], f->id);
    array_text(&a[2], f->name);
    array_text(&a[3], f->version);
    put_execution(&a[4], f->execution);
    array_i64(&a[5], f->next);
    array_i16(&a[6], f->state);
    put_bytes(&a[7], f->custom_status);
    array_i64(&a[8], f->status_number);
    put_bytes(&a[9], f->input);
    put_bytes(&a[10], f->output);
    array_text_or_null(&a[11], f->error);
    array_text_or_null(&a[12], f->parent);
    if (f->parent.size > 0)
        put_execution(&a[13], f->parent_execution);
    else
        array_null(&a[13]);
    array_i64(&a[14], f->parent_task);
    array_i64(&a[15], f->tasks);
    array_bool(&a[16], run->effect_numbers[i] == 0);
    array_bool(&a[17], f->restarts);
}

void pg_execution_put(struct array *a, const struct flow_row *f)
{
    array_text(&a[1], f->id);
    put_execution(&a[2], f->execution);
    array_text(&a[3], f->name);
    array_text(&a[4], f->version);
    array_i64(&a[5], f->next);
    array_i16(&a[6], f->state);
    put_bytes(&a[7], f->input);
    put_bytes(&a[8], f->output);
    array_text_or_null(&a[9], f->error);
}

/* ---- Verdicts that are joined to others ----------------------------------------------------------- */

/* Rows of verdicts that others are joined to must exist and be locked before anything is written: returns those that
 * are (0), and those that other transactions hold (1). */
static const char LEADERS[] =
    "WITH v AS MATERIALIZED (SELECT * FROM unnest($1, $2, $3) AS v(ord, id, handle)),"
    " locked AS MATERIALIZED (SELECT v.ord FROM v JOIN {box} b ON b.id = v.id AND " HANDLE " = v.handle"
    " ORDER BY b.id FOR UPDATE OF b SKIP LOCKED)"
    " SELECT ord, 0 FROM locked UNION ALL SELECT v.ord, 1 FROM v WHERE v.ord NOT IN (SELECT ord FROM locked)"
    " AND EXISTS (SELECT FROM {box} b WHERE b.id = v.id AND " HANDLE " = v.handle)";

static bool is_leader(const struct cycle *c, size_t i)
{
    return !c->verdicts[i].joined && i + 1 < c->verdict_count && c->verdicts[i + 1].joined;
}

void pg_leaders_add(struct cycle_run *run, bool joined, PGresult **ret)
{
    const struct cycle *c = run->cycle;
    struct array *a = run->session->arrays;
    struct args args = { .count = 0 };
    *ret = NULL;
    if (!joined)
        return;
    array_begin(&a[0], OID_INT4);
    array_begin(&a[1], OID_UUID);
    array_begin(&a[2], OID_INT8);
    for (size_t i = 0; i < c->verdict_count; i++) {
        if (!is_leader(c, i))
            continue;
        array_i32(&a[0], (int)i);
        array_id(&a[1], c->verdicts[i].id);
        array_i64(&a[2], (int64_t)c->verdicts[i].row);
    }
    for (size_t i = 0; i < 3; i++)
        arg_array(&args, &a[i]);
    link_add(run->link, LEADERS, run->session->box, &args, ret);
    run->guards.any = true; /* refused verdicts are noted for the case that the cycle is asked again */
}

int pg_leaders_take(struct cycle_run *run, const PGresult *r)
{
    const struct cycle *c = run->cycle;
    int *answers = run->guards.verdicts, leader = PR_OK;
    bool *found = arena_alloc_array(&run->session->arena, c->verdict_count, sizeof(found[0]));
    if (found == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for %zu verdicts", c->verdict_count);
    for (int i = 0; i < PQntuples(r); i++) {
        size_t at = (size_t)field_int(r, i, 0);
        found[at] = true;
        if (field_int(r, i, 1) != 0 && answers[at] == PR_OK)
            answers[at] = ANSWER_BUSY;
    }
    for (size_t i = 0; i < c->verdict_count; i++) {
        if (!c->verdicts[i].joined)
            leader = answers[i] != PR_OK ? answers[i] : is_leader(c, i) && !found[i] ? PR_UNKNOWN : PR_OK;
        else if (joined_answer(leader) != PR_OK)
            answers[i] = joined_answer(leader);
    }
    return PR_OK;
}

/* ---- Mail ------------------------------------------------------------------------------------------ */

static const char MAIL_ROWS[] =
    "WITH v AS MATERIALIZED (SELECT * FROM unnest($2, $3, $4, $5, $6, $7, $8, $9)"
    " AS v(ord, flow, id, type, content_type, headers, payload, keep)),"
    " made AS (INSERT INTO {schema}.flow_mail (flow, id, type, content_type, headers, payload, created_at, keep_until)"
    " SELECT flow, id, type, content_type, headers, payload, coalesce($1, now()), coalesce($1, now()) + keep * interval"
    " '1 microsecond' FROM v ORDER BY ord ON CONFLICT (flow, id) DO NOTHING RETURNING flow, id)"
    " SELECT v.ord FROM v JOIN made m ON m.flow = v.flow AND m.id = v.id";

static const char MAIL_GONE[] =
    "WITH gone AS (DELETE FROM {schema}.flow_mail m WHERE m.flow = ANY ($1) RETURNING m.flow)"
    " SELECT v.ord FROM unnest($2, $1) AS v(ord, flow) WHERE v.flow IN (SELECT flow FROM gone)";

static void mail_add(struct cycle_run *run, PGresult **ret)
{
    static const enum oid types[] = { OID_INT4, OID_TEXT, OID_TEXT, OID_TEXT, OID_TEXT, OID_TEXT, OID_BYTEA, OID_INT8 };
    const struct cycle *c = run->cycle;
    struct array *a = run->session->arrays;
    struct args args = { .count = 0 };
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
        array_begin(&a[i], types[i]);
    for (size_t i = 0; i < c->effect_count; i++) {
        const struct effect *e = &c->effects[i];
        const struct pr_message *m = e->message;
        if (e->kind != EFFECT_MAIL || m == NULL || !pg_effect_holds(run, i))
            continue;
        run->session->reply.effect_answers[i] = PR_DUPLICATE; /* until it is made */
        array_i32(&a[0], (int)i);
        array_text(&a[1], e->key);
        put_execution(&a[2], m->id);
        array_text(&a[3], m->type);
        array_text_or_null(&a[4], m->content_type);
        array_text_or_null(&a[5], m->headers);
        put_bytes(&a[6], m->payload);
        if (e->keep_us > 0)
            array_i64(&a[7], min64(e->keep_us, KEEP_MAX_US));
        else
            array_null(&a[7]);
    }
    if (a[0].count == 0)
        return;
    arg_time(&args, pg_store_wall_us(run->session->store));
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
        arg_array(&args, &a[i]);
    link_add(run->link, MAIL_ROWS, NO_BOX, &args, ret);
}

static void mail_remove(struct cycle_run *run, PGresult **ret)
{
    const struct cycle *c = run->cycle;
    struct array *a = run->session->arrays;
    struct args args = { .count = 0 };
    array_begin(&a[0], OID_TEXT);
    array_begin(&a[1], OID_INT4);
    for (size_t i = 0; i < c->effect_count; i++) {
        const struct effect *e = &c->effects[i];
        if (e->kind != EFFECT_MAIL || e->message != NULL || !pg_effect_holds(run, i))
            continue;
        run->session->reply.effect_answers[i] = PR_UNKNOWN; /* until some was found */
        array_text(&a[0], e->key);
        array_i32(&a[1], (int)i);
    }
    if (a[0].count == 0)
        return;
    arg_array(&args, &a[0]);
    arg_array(&args, &a[1]);
    link_add(run->link, MAIL_GONE, NO_BOX, &args, ret);
}

void pg_mail_change(struct cycle_run *run, PGresult *ret[2])
{
    ret[0] = ret[1] = NULL;
    mail_add(run, &ret[0]);
    mail_remove(run, &ret[1]);
}

void pg_mail_take(struct cycle_run *run, PGresult *const results[2])
{
    for (size_t k = 0; k < 2; k++)
        for (int i = 0; results[k] != NULL && i < PQntuples(results[k]); i++)
            run->session->reply.effect_answers[field_int(results[k], i, 0)] = PR_OK;
}

/* ---- Rows that are out ------------------------------------------------------------------------------- */

void pg_gone_ask(struct cycle_run *run, PGresult **ret)
{
    const struct cycle *c = run->cycle;
    struct array *a = run->session->arrays;
    struct args args = { .count = 0 };
    array_begin(&a[0], OID_UUID);
    array_begin(&a[1], OID_INT8);
    for (size_t i = 0; i < c->alive_count; i++) {
        array_id(&a[0], c->alive[i].id);
        array_i64(&a[1], (int64_t)c->alive[i].row);
    }
    arg_array(&args, &a[0]);
    arg_array(&args, &a[1]);
    link_add(run->link,
             "SELECT v.n FROM unnest($1, $2) WITH ORDINALITY AS v(id, handle, n) WHERE (SELECT true FROM {box} b"
             " WHERE b.id = v.id AND " HANDLE " = v.handle LIMIT 1) IS NULL",
             run->session->box, &args, ret);
}

int pg_gone_take(struct cycle_run *run, const PGresult *result)
{
    bool *gone = arena_alloc_array(&run->session->arena, run->cycle->alive_count, sizeof(gone[0]));
    if (gone == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for %zu rows", run->cycle->alive_count);
    for (int i = 0; i < PQntuples(result); i++)
        gone[field_i64(result, i, 0) - 1] = true;
    run->session->reply.gone = gone;
    return PR_OK;
}
