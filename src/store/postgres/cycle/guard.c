/* Guards of effects (core/effect.h): one statement for each kind locks the rows by their keys and returns their
 * numbers.
 *
 * Rows are locked in the order of their keys, and rows that other transactions hold are skipped: a cycle does not wait
 * for a user's transaction.  A row that does not exist yet is inserted with the effect itself, after the verdicts
 * (effect.c); when another transaction was faster, the cycle starts over and finds it here, and when one is just
 * inserting it, blocked.c does. */
#include "base/error.h"
#include "base/slice.h"
#include "store/postgres/postgres.h"

/* $1: indexes in the cycle, $2 ...: keys.  Returns the index and the number (NULL: locked by another transaction). */
static const char EVENT_GUARDS[] =
    "WITH v AS MATERIALIZED (SELECT * FROM unnest($1, $2) AS v(ord, key)),"
    " locked AS MATERIALIZED (SELECT v.ord, s.version FROM v JOIN {schema}.event_stream s ON s.stream = v.key"
    " ORDER BY s.stream FOR NO KEY UPDATE OF s SKIP LOCKED)"
    " SELECT ord, version FROM locked UNION ALL SELECT v.ord, CASE WHEN EXISTS (SELECT FROM {schema}.event_stream s"
    " WHERE s.stream = v.key) THEN NULL ELSE 0 END FROM v WHERE v.ord NOT IN (SELECT ord FROM locked)";

static const char HISTORY_GUARDS[] =
    "WITH v AS MATERIALIZED (SELECT v.ord, v.key, (SELECT max(h.first) FROM {schema}.flow_history h"
    " WHERE h.execution = v.key) AS first FROM unnest($1, $2) AS v(ord, key)),"
    " locked AS MATERIALIZED (SELECT v.ord, h.first + h.count AS next FROM v JOIN {schema}.flow_history h"
    " ON h.execution = v.key AND h.first = v.first ORDER BY h.execution FOR NO KEY UPDATE OF h SKIP LOCKED)"
    " SELECT ord, next FROM locked UNION ALL SELECT v.ord, CASE WHEN v.first IS NOT NULL THEN NULL ELSE 0 END FROM v"
    " WHERE v.ord NOT IN (SELECT ord FROM locked)";

/* Not EXISTS: planned while there are few marks, it would become a scan of all of them. */
static const char SEEN_GUARDS[] =
    "SELECT v.ord, coalesce((SELECT 1 FROM {schema}.seen s WHERE s.box = v.box AND s.id = v.id AND s.handler = v.key"
    " LIMIT 1), 0)::bigint FROM unnest($1, $2, $3, $4) AS v(ord, key, box, id)";

static const char KNOWN_EVENTS[] = "SELECT v.ord FROM unnest($1, $2, $3) AS v(ord, key, id) JOIN {schema}.event e"
                                   " ON e.stream = v.key AND e.id = v.id";

/* A message that is an event is appended by a trigger (033_events.sql), whatever the number of its stream; but the
 * trigger would wait for a transaction that holds the stream.  (Effects without a verdict are not events.) */
static bool is_plain_event(const struct effect *e)
{
    return e->kind == EFFECT_MESSAGE && e->message->event && !effect_guards_stream(e) && e->verdict != EFFECT_ALWAYS;
}

/* Is it of the kind, or a message with a guard of that kind? */
static bool guard_is(const struct cycle_run *run, size_t i, enum effect_kind kind)
{
    const struct effect *e = &run->cycle->effects[i];
    return run->guards.first[i] != SIZE_MAX && (kind == EFFECT_EVENT ? effect_guards_stream(e) : e->kind == kind);
}

/* Must its number be read?  Later effects of the same guard share the result of the first, except for their ids. */
static bool is_asked(const struct cycle_run *run, size_t i, enum effect_kind kind, bool ids)
{
    if (run->guards.answers[i] != PR_OK)
        return false;
    if (kind == EFFECT_EVENT && !ids && is_plain_event(&run->cycle->effects[i]))
        return true;
    return guard_is(run, i, kind) && (ids || run->guards.first[i] == i);
}

/* The row of a flow guards the history of its execution: a transaction that has the row also has the history, and the
 * key of the history is the second line of defence.  Where that key was violated, the number of the history is read,
 * too. */
static bool is_guarded_by_flow(const struct cycle_run *run, size_t history)
{
    const struct effect *e = run->cycle->effects;
    if (run->session->histories_asked || e[history].expected == EFFECT_ANY)
        return false;
    for (size_t i = history; i-- > 0 && e[i].verdict == e[history].verdict;)
        if (e[i].kind == EFFECT_FLOW)
            return true;
    return false;
}

/* The guards of one kind. */
static void add_kind(struct cycle_run *run, enum effect_kind kind, bool ids, const char *sql, PGresult **ret)
{
    static const enum oid types[] = { OID_INT4, OID_TEXT, OID_TEXT, OID_UUID };
    const struct cycle *c = run->cycle;
    struct array *a = run->session->arrays;
    struct args args = { .count = 0 };
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
        array_begin(&a[i], types[i]);
    for (size_t i = 0; i < c->effect_count; i++) {
        const struct effect *e = &c->effects[i];
        if (!is_asked(run, i, kind, ids))
            continue;
        if (kind == EFFECT_HISTORY && is_guarded_by_flow(run, i)) {
            run->effect_numbers[i] = e->expected;
            continue;
        }
        array_i32(&a[0], (int)i);
        array_text(&a[1], effect_guard_key(e));
        array_text(&a[2], e->box);
        array_id(&a[3], kind == EFFECT_EVENT ? e->message->id : e->id);
    }
    *ret = NULL;
    if (a[0].count == 0)
        return;
    arg_array(&args, &a[0]);
    arg_array(&args, &a[1]);
    if (kind == EFFECT_SEEN)
        arg_array(&args, &a[2]);
    if (kind == EFFECT_SEEN || ids)
        arg_array(&args, &a[3]);
    link_add(run->link, sql, NO_BOX, &args, ret);
}

static void take_numbers(struct cycle_run *run, const PGresult *r)
{
    for (int i = 0; r != NULL && i < PQntuples(r); i++) {
        size_t at = (size_t)field_int(r, i, 0);
        const struct effect *e = &run->cycle->effects[at];
        bool busy = field_is_null(r, i, 1);
        run->effect_numbers[at] = busy ? 0 : field_i64(r, i, 1);
        run->guards.answers[at] = busy                ? ANSWER_BUSY
                                  : is_plain_event(e) ? PR_OK
                                                      : effect_guard_answer(e, run->effect_numbers[at]);
    }
}

static bool has_plain_events(const struct cycle *c)
{
    for (size_t i = 0; i < c->effect_count; i++)
        if (is_plain_event(&c->effects[i]))
            return true;
    return false;
}

/* Compares the stored numbers with the guards. */
static int numbers_ask(struct cycle_run *run, bool joined, PGresult **ret_leaders)
{
    struct effect_guards *g = &run->guards;
    PGresult *events, *histories, *marks, *known, *flows;
    add_kind(run, EFFECT_EVENT, false, EVENT_GUARDS, &events);
    add_kind(run, EFFECT_HISTORY, false, HISTORY_GUARDS, &histories);
    add_kind(run, EFFECT_SEEN, false, SEEN_GUARDS, &marks);
    add_kind(run, EFFECT_EVENT, true, KNOWN_EVENTS, &known);
    add_kind(run, EFFECT_FLOW, false, PG_FLOW_GUARDS, &flows);
    pg_leaders_add(run, joined, ret_leaders);
    int rc = link_run(run->link, run->reterr);
    if (rc != PR_OK)
        return rc;
    take_numbers(run, events);
    take_numbers(run, histories);
    take_numbers(run, marks);
    pg_flow_guards_take(run, flows);
    for (int i = 0; known != NULL && i < PQntuples(known); i++)
        if (g->answers[field_int(known, i, 0)] != ANSWER_BUSY)
            g->answers[field_int(known, i, 0)] = PR_DUPLICATE;
    return PR_OK;
}

int pg_guards_compare(struct cycle_run *run)
{
    const struct cycle *c = run->cycle;
    struct effect_guards *g = &run->guards;
    PGresult *leaders = NULL;
    int rc = effect_guards_init(g, c->effects, c->effect_count, c->verdict_count, &run->session->arena);
    run->effect_numbers = arena_alloc_array(&run->session->arena, c->effect_count, sizeof(run->effect_numbers[0]));
    if (rc != PR_OK || run->effect_numbers == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for %zu effects", c->effect_count);
    bool joined = cycle_has_joined(c);
    g->any = g->any || has_plain_events(c);
    if (g->any || joined)
        rc = numbers_ask(run, joined, &leaders);
    if (rc == PR_OK)
        rc = pg_blocked_find(run);
    if (rc == PR_OK && (g->any || joined))
        effect_guards_settle(g, c->effects, c->effect_count);
    return rc == PR_OK && joined ? pg_leaders_take(run, leaders) : rc;
}
