/* What goes with verdicts: receipts, tallies, and effects such as messages that handlers send. */
#include <stdlib.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "store/postgres/postgres.h"

#define KEEP_MAX_US INT64_C(8000000000000000000) /* time for keeping marks: fits into an interval */
#define EFFECT_COLUMNS_MAX 20
#define EFFECT_BATCHES_MAX 64 /* statements in one batch; a statement has all consecutive effects into one box */

/* ---- Receipts and tallies ---------------------------------------------------------------------- */

static const char CLAIM_INSERT[] =
    "INSERT INTO {schema}.claim (instance, cycle, box, at, rows, numbers) VALUES ($1, $2, $3, " NOW(
        "$4") ", $5, $6)"
              " RETURNING xmin::text::bigint";

static void add_claim(struct cycle_run *run, PGresult **ret)
{
    const struct cycle *c = run->cycle;
    struct array *a = run->session->arrays;
    struct args args = { .count = 0 };
    array_begin(&a[0], OID_INT8);
    array_begin(&a[1], OID_INT4);
    for (size_t i = 0; i < c->receipt_count; i++) {
        array_i64(&a[0], (int64_t)c->receipt[i].row);
        array_i32(&a[1], c->receipt[i].number);
    }
    arg_id(&args, c->instance);
    arg_i64(&args, (int64_t)c->number);
    arg_text(&args, run->session->box);
    arg_time(&args, pg_store_wall_us(run->session->store));
    arg_array(&args, &a[0]);
    arg_array(&args, &a[1]);
    link_add(run->link, CLAIM_INSERT, NO_BOX, &args, ret);
    run->claimed = true;
}

static void add_closed(struct cycle_run *run)
{
    const struct cycle *c = run->cycle;
    struct array *closed = &run->session->arrays[0];
    struct args args = { .count = 0 };
    array_begin(closed, OID_INT8);
    for (size_t i = 0; i < c->closed_count; i++)
        array_i64(closed, (int64_t)c->closed[i]);
    if (run->session->idle_claim != 0 && pr_id_equal(run->session->instance, c->instance))
        array_i64(closed, (int64_t)run->session->idle_claim);
    if (closed->count == 0)
        return;
    arg_id(&args, c->instance);
    arg_array(&args, closed);
    link_add(run->link, "DELETE FROM {schema}.claim WHERE instance = $1 AND cycle = ANY ($2)", NO_BOX, &args, NULL);
}

/* The columns of tally in order; the time of a failure is the store's now, if there is a reason. */
static const char TALLY_INSERT[] = "INSERT INTO {schema}.tally (endpoint, sent, failed, dead, discarded, expired, "
                                   "duplicates, failed_at, reason, code, "
                                   "error, sent_at)"
                                   " SELECT v.endpoint, v.sent, v.failed, v.dead, v.discarded, v.expired, v.duplicates,"
                                   " CASE WHEN v.reason IS NOT NULL THEN " NOW(
                                       "$11") " END, v.reason, v.code, v.error, CASE WHEN v.sent > 0 "
                                              "THEN " NOW("$11") " END"
                                                                 " FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
                                                                 " AS v(endpoint, sent, failed, dead, discarded, "
                                                                 "expired, duplicates, reason, code, error)";

void pg_tallies_add(struct cycle_run *run, const struct tally *tallies, size_t count)
{
    static const enum oid types[] = { OID_TEXT, OID_INT8, OID_INT8, OID_INT8, OID_INT8,
                                      OID_INT8, OID_INT8, OID_INT2, OID_TEXT, OID_TEXT };
    struct array *a = run->session->arrays;
    struct args args = { .count = 0 };
    if (count == 0)
        return;
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
        array_begin(&a[i], types[i]);
    for (size_t i = 0; i < count; i++) {
        const struct tally *t = &tallies[i];
        const int64_t counts[] = { t->sent, t->failed, t->dead, t->discarded, t->expired, t->duplicates };
        array_text(&a[0], t->endpoint);
        for (size_t k = 0; k < ARRAY_LENGTH(counts); k++)
            array_i64(&a[1 + k], counts[k]);
        if (t->reason != 0)
            array_i16(&a[7], t->reason);
        else
            array_null(&a[7]);
        array_text_or_null(&a[8], t->code);
        array_text_or_null(&a[9], t->error);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
        arg_array(&args, &a[i]);
    arg_time(&args, pg_store_wall_us(run->session->store));
    link_add(run->link, TALLY_INSERT, NO_BOX, &args, NULL);
}

/* Of two pauses the later end applies; all instances get a notice. */
static void add_pauses(struct cycle_run *run)
{
    const struct cycle *c = run->cycle;
    if (c->pause_count > 0) /* notices must be committed in the order of their numbers */
        link_add(run->link, "LOCK TABLE {schema}.control IN EXCLUSIVE MODE", NO_BOX, NULL, NULL);
    for (size_t i = 0; i < c->pause_count; i++) {
        const struct pause *p = &c->pauses[i];
        struct args args = { .count = 0 };
        arg_text(&args, p->endpoint);
        arg_i64(&args, p->for_us);
        arg_text_or_null(&args, p->by);
        arg_text_or_null(&args, p->why);
        arg_time(&args, pg_store_wall_us(run->session->store));
        arg_i32(&args, NOTICE_ENDPOINT);
        link_add(run->link,
                 "WITH u AS (SELECT CASE WHEN $2 = 9223372036854775807 THEN 'infinity' ELSE " NOW(
                     "$5") " + least($2, 8000000000000000000) * interval '1 microsecond' END AS t),"
                           " p AS (INSERT INTO {schema}.endpoint AS e (name, paused_until, paused_by, paused_why)"
                           " SELECT $1, u.t, $3, $4 FROM u WHERE $2 > 0 ON CONFLICT (name) DO UPDATE SET paused_until "
                           "= excluded.paused_until,"
                           " paused_by = excluded.paused_by, paused_why = excluded.paused_why"
                           " WHERE coalesce(e.paused_until, '-infinity') < excluded.paused_until RETURNING e.name)"
                           " INSERT INTO {schema}.control (box, kind, \"row\", seq, endpoint) SELECT '', $6, 0, 0, "
                           "name FROM p",
                 NO_BOX, &args, NULL);
    }
}

static bool has_effects(const struct cycle_run *run)
{
    return run->cycle->effect_count > 0;
}

void pg_receipts_add(struct cycle_run *run)
{
    if (!has_effects(run) || run->one_batch) /* otherwise they come after the effects */
        add_claim(run, NULL);
    add_closed(run);
    pg_tallies_add(run, run->cycle->tallies, run->cycle->tally_count);
    add_pauses(run);
    pg_breakers_add(run);
    pg_evidence_add(run);
}

/* ---- Effects ----------------------------------------------------------------------------------- */

/* Is the effect to be applied? */
bool pg_effect_holds(const struct cycle_run *run, size_t i)
{
    if (run->tried != NULL)
        return run->tried[i];
    const struct effect *e = &run->cycle->effects[i];
    bool applied = e->verdict == EFFECT_ALWAYS || run->session->reply.answers[e->verdict] == PR_OK;
    return applied && run->guards.answers[i] == PR_OK;
}

static bool is_in_box(const struct effect *e)
{
    return e->kind == EFFECT_MESSAGE || e->kind == EFFECT_DELETE;
}

/* Is this a box that the connection does not know?  It may be newer than the connection. */
static bool is_unknown_box(const struct cycle_run *run, size_t i)
{
    const struct effect *e = &run->cycle->effects[i];
    bool known = run->link->knows_boxes && link_table(run->link, e->box).size > 0;
    return is_in_box(e) && !known && (i == 0 || !slice_eq(e->box, e[-1].box));
}

/* Are these boxes?  Their names become part of statements. */
static int boxes_check(struct cycle_run *run)
{
    const struct cycle *c = run->cycle;
    struct array *names = &run->session->arrays[0];
    struct args args = { .count = 0 };
    PGresult *missing;
    array_begin(names, OID_TEXT);
    for (size_t i = 0; i < c->effect_count; i++)
        if (is_unknown_box(run, i))
            array_text(names, c->effects[i].box);
    if (names->count == 0)
        return PR_OK;
    arg_array(&args, names);
    int rc = link_do(run->link,
                     "SELECT v.name FROM unnest($1) AS v(name)"
                     " WHERE NOT EXISTS (SELECT FROM {schema}.box b WHERE b.name = v.name)",
                     NO_BOX, &args, &missing, run->reterr);
    if (rc == PR_OK && PQntuples(missing) > 0)
        rc = error_set(run->reterr, PR_ENOTFOUND, "unknown box \"%.*s\" for a message of a handler",
                       SLICE_ARGS(field_slice(missing, 0, 0)));
    return rc;
}

/* Effects on their way in one statement: of one kind, and of one box where that matters. */
struct effect_run {
    PGresult *result; /* PQcmdTuples, or a row with the index of each that was made */
    size_t from, count;
    enum effect_kind kind;
    size_t asked; /* rows that should be made */
};

/* Messages from `from` on that go to one box. */
static void add_messages(struct cycle_run *run, struct effect_run *s)
{
    const struct cycle *c = run->cycle;
    struct batch *batch = &run->session->batch;
    struct args args;
    batch_begin(batch, run->link->pg);
    for (size_t i = s->from; i < s->from + s->count; i++)
        if (c->effects[i].kind == EFFECT_MESSAGE && pg_effect_holds(run, i))
            batch_add(batch, c->effects[i].message);
    if (batch->arrays[0].count == 0)
        return;
    batch_args(batch, pg_store_wall_us(run->session->store), &args);
    link_add(run->link, PG_MESSAGE_INSERT, c->effects[s->from].box, &args, &s->result);
}

/* Locked rows are about to end and are skipped: their late result is harmless. */
static const char DELETE_ROWS[] =
    "WITH v AS MATERIALIZED (SELECT * FROM unnest($1, $2) AS v(ord, id)),"
    " free AS MATERIALIZED (SELECT v.ord, b.id, b.destination FROM v JOIN {box} b ON b.id = v.id ORDER BY b.id"
    " FOR UPDATE OF b SKIP LOCKED),"
    " gone AS (DELETE FROM {box} b USING free f WHERE b.id = f.id AND b.destination = f.destination RETURNING f.ord)"
    " SELECT DISTINCT ord FROM gone";

/* Each event's version is counted from its stream's row, which its guard has locked or which is inserted here: messages
 * that are events may have come before it in this cycle. */
static const char EVENT_ROWS[] =
    "WITH v AS MATERIALIZED (SELECT * FROM unnest($2, $3, $4, $5, $6, $7, $8)"
    " AS v(ord, id, stream, type, content_type, headers, payload)),"
    " last AS MATERIALIZED (SELECT v.stream, count(*) AS more, coalesce(max(s.version), 0) AS before FROM v"
    " LEFT JOIN {schema}.event_stream s ON s.stream = v.stream GROUP BY v.stream ORDER BY v.stream),"
    " raised AS (UPDATE {schema}.event_stream s SET version = l.before + l.more FROM last l WHERE s.stream = l.stream"
    " RETURNING s.stream),"
    " born AS (INSERT INTO {schema}.event_stream (stream, version) SELECT l.stream, l.more FROM last l WHERE "
    "l.before = 0 AND NOT EXISTS (SELECT FROM raised r WHERE r.stream = l.stream)"
    " ORDER BY l.stream ON CONFLICT (stream) DO NOTHING RETURNING stream),"
    " mine AS (SELECT stream FROM raised UNION ALL SELECT stream FROM born),"
    " made AS (INSERT INTO {schema}.event (stream, version, id, type, content_type, headers, payload, created_at)"
    " SELECT v.stream, l.before + row_number() OVER (PARTITION BY v.stream ORDER BY v.ord), v.id, v.type,"
    " v.content_type, v.headers, v.payload, coalesce($1, now()) FROM v JOIN last l ON l.stream = v.stream"
    " WHERE v.stream IN (SELECT stream FROM mine))"
    " SELECT v.ord FROM v WHERE v.stream IN (SELECT stream FROM mine)";

static const char HISTORY_ROWS[] =
    "WITH v AS MATERIALIZED (SELECT * FROM unnest($1, $2, $3, $4, $5) AS v(ord, execution, first, count, events)),"
    " made AS (INSERT INTO {schema}.flow_history (execution, first, count, events) SELECT execution, first, count, "
    "events"
    " FROM v ORDER BY execution, first ON CONFLICT (execution, first) DO NOTHING RETURNING execution, first)"
    " SELECT v.ord FROM v JOIN made m ON m.execution = v.execution AND m.first = v.first";

/* The number of rows shows whether all were made: a join with the requested ones takes a hundred milliseconds for a
 * thousand. */
#define SEEN_INSERT                                                                                                    \
    "INSERT INTO {schema}.seen (box, id, handler, at, outcome, alone, until) SELECT box, id, handler,"                 \
    " coalesce($1, now()), outcome, alone, coalesce($1, now()) + keep * interval '1 microsecond'"                      \
    " FROM unnest($2, $3, $4, $5, $6, $7) AS v(id, box, handler, outcome, alone, keep)"                                \
    " ORDER BY box, id, handler"
static const char SEEN_ROWS[] = SEEN_INSERT " ON CONFLICT (box, id, handler) DO NOTHING";
/* In one batch with the commit: an existing mark ends the batch, and the cycle is tried again with all queries. */
static const char SEEN_OR_STOP[] = SEEN_INSERT;

/* Of one key the last value counts. */
static const char STATE_ROWS[] =
    "WITH v AS MATERIALIZED (SELECT DISTINCT ON (flow, key) * FROM unnest($1, $2, $3, $4) AS v(ord, flow, key, value)"
    " ORDER BY flow, key, ord DESC),"
    " gone AS (DELETE FROM {schema}.flow_state s USING v WHERE s.flow = v.flow AND s.key = v.key AND v.value IS NULL)"
    " INSERT INTO {schema}.flow_state (flow, key, value) SELECT flow, key, value FROM v WHERE value IS NOT NULL"
    " ON CONFLICT (flow, key) DO UPDATE SET value = excluded.value";

/* Entries of its history before this effect. */
static int64_t number_of(const struct cycle_run *run, size_t at)
{
    size_t first = run->guards.first[at];
    int64_t number = run->effect_numbers[first];
    for (size_t i = first; i < at; i++)
        if (run->guards.first[i] == first && pg_effect_holds(run, i))
            number += run->cycle->effects[i].count;
    return number;
}

static void put_event(struct cycle_run *run, struct array *a, size_t i)
{
    const struct pr_message *m = run->cycle->effects[i].message;
    array_id(&a[1], m->id);
    array_text(&a[2], m->stream);
    array_text(&a[3], m->type);
    array_text_or_null(&a[4], m->content_type);
    array_text_or_null(&a[5], m->headers);
    array_bytes(&a[6], m->payload);
}

static void put_effect(struct cycle_run *run, struct array *a, size_t i)
{
    const struct effect *e = &run->cycle->effects[i];
    if (e->kind != EFFECT_SEEN)
        array_i32(&a[0], (int)i);
    switch (e->kind) {
    case EFFECT_EVENT: put_event(run, a, i); break;
    case EFFECT_HISTORY:
        array_text(&a[1], e->key);
        array_i64(&a[2], number_of(run, i));
        array_i64(&a[3], e->count);
        array_text(&a[4], e->value);
        break;
    case EFFECT_STATE:
        array_text(&a[1], e->key);
        array_text(&a[2], e->name);
        if (e->value.data != NULL)
            array_bytes(&a[3], e->value);
        else
            array_null(&a[3]);
        break;
    case EFFECT_SEEN:
        array_id(&a[0], e->id);
        array_text(&a[1], e->box);
        array_text(&a[2], e->key);
        array_i16(&a[3], e->outcome);
        array_bool(&a[4], e->alone);
        if (e->keep_us > 0)
            array_i64(&a[5], min64(e->keep_us, KEEP_MAX_US));
        else
            array_null(&a[5]);
        break;
    case EFFECT_FLOW: pg_flow_put(run, a, i); break;
    case EFFECT_EXECUTION: pg_execution_put(a, e->flow); break;
    default: array_id(&a[1], e->id); break;
    }
}

static void add_rows(struct cycle_run *run, struct effect_run *s)
{
    static const struct {
        const char *sql;
        bool has_time; /* as $1 */
        enum oid types[EFFECT_COLUMNS_MAX];
    } kinds[EFFECT_KINDS] = {
        [EFFECT_EVENT] = { EVENT_ROWS,
                           true,
                           { OID_INT4, OID_UUID, OID_TEXT, OID_TEXT, OID_TEXT, OID_JSON, OID_BYTEA } },
        [EFFECT_HISTORY] = { HISTORY_ROWS, false, { OID_INT4, OID_TEXT, OID_INT8, OID_INT8, OID_TEXT } },
        [EFFECT_STATE] = { STATE_ROWS, false, { OID_INT4, OID_TEXT, OID_TEXT, OID_BYTEA } },
        [EFFECT_DELETE] = { DELETE_ROWS, false, { OID_INT4, OID_UUID } },
        [EFFECT_FLOW] = { PG_FLOW_ROWS, true, { PG_FLOW_TYPES } },
        [EFFECT_EXECUTION] = { PG_EXECUTION_ROWS, true, { PG_EXECUTION_TYPES } },
        [EFFECT_SEEN] = { SEEN_ROWS, true, { OID_UUID, OID_TEXT, OID_TEXT, OID_INT2, OID_BOOL, OID_INT8 } },
    };
    struct array *a = run->session->arrays;
    struct args args = { .count = 0 };
    size_t columns = 0;
    for (; kinds[s->kind].types[columns] != 0; columns++)
        array_begin(&a[columns], kinds[s->kind].types[columns]);
    for (size_t i = s->from; i < s->from + s->count; i++)
        if (run->cycle->effects[i].kind == s->kind && pg_effect_holds(run, i))
            put_effect(run, a, i);
    if (a[0].count == 0)
        return;
    s->asked = a[0].count;
    if (kinds[s->kind].has_time)
        arg_time(&args, pg_store_wall_us(run->session->store));
    for (size_t i = 0; i < columns; i++)
        arg_array(&args, &a[i]);
    link_add(run->link, kinds[s->kind].sql, s->kind == EFFECT_DELETE ? run->cycle->effects[s->from].box : NO_BOX, &args,
             &s->result);
}

void pg_effects_add_tried(struct cycle_run *run, size_t first)
{
    struct effect_run all = { .from = first,
                              .count = run->cycle->effect_count - first,
                              .kind = run->cycle->effects[first].kind };
    if (all.kind == EFFECT_MESSAGE)
        add_messages(run, &all);
    else
        add_rows(run, &all);
}

/* Consecutive effects from `from` on into one box.  What goes into no box and lies between them is stored by its kind:
 * of many turns of flows all messages are one statement. */
static size_t run_length(const struct cycle *c, size_t from)
{
    size_t end = from + 1;
    while (end < c->effect_count &&
           (!is_in_box(&c->effects[end]) || (c->effects[end].kind == c->effects[from].kind &&
                                             slice_eq(c->effects[end].box, c->effects[from].box))))
        end++;
    return end - from;
}

/* Outcome CYCLE_ANEW: a row that should be inserted exists meanwhile. */
static int take_sent(struct cycle_run *run, const struct effect_run *s)
{
    int *answers = run->session->reply.effect_answers;
    if (s->result == NULL)
        return PR_OK;
    if (s->kind == EFFECT_SEEN)
        return strtoull(PQcmdTuples(s->result), NULL, 10) == s->asked ? PR_OK : CYCLE_ANEW;
    bool told = s->kind != EFFECT_STATE && s->kind != EFFECT_MESSAGE;
    for (size_t i = s->from; told && i < s->from + s->count; i++)
        if (run->cycle->effects[i].kind == s->kind && pg_effect_holds(run, i))
            answers[i] = PR_UNKNOWN;
    for (int i = 0; told && i < PQntuples(s->result); i++)
        answers[field_int(s->result, i, 0)] = PR_OK;
    for (size_t i = s->from; told && s->kind != EFFECT_DELETE && i < s->from + s->count; i++)
        if (run->cycle->effects[i].kind == s->kind && pg_effect_holds(run, i) && answers[i] == PR_UNKNOWN) {
            run->session->histories_asked = s->kind == EFFECT_HISTORY;
            return CYCLE_ANEW;
        }
    return PR_OK;
}

static int sendings_take(struct cycle_run *run, const struct effect_run *list, size_t count)
{
    int rc = PR_OK;
    for (size_t i = 0; i < count && rc == PR_OK; i++)
        rc = take_sent(run, &list[i]);
    return rc;
}

static int sendings_run(struct cycle_run *run, const struct effect_run *list, size_t count)
{
    int rc = link_run(run->link, run->reterr);
    return rc == PR_OK ? sendings_take(run, list, count) : rc;
}

/* Is it a message that expects a version of its stream? */
static bool is_expecting(const struct cycle_run *run, size_t i)
{
    return run->cycle->effects[i].kind == EFFECT_MESSAGE && run->guards.first[i] == i && pg_effect_holds(run, i);
}

static bool any_expects(const struct cycle_run *run)
{
    for (size_t i = 0; i < run->cycle->effect_count; i++)
        if (is_expecting(run, i))
            return true;
    return false;
}

/* Messages that expect a stream without events: another transaction may have begun the stream since the guard was
 * compared. */
static const char EXPECTED_OTHERS[] =
    "SELECT 1 FROM unnest($1, $2, $3) AS v(stream, id, expected) JOIN {schema}.event e ON e.stream = v.stream"
    " AND e.id = v.id WHERE e.version <> v.expected + 1 LIMIT 1";

/* Outcome CYCLE_ANEW: the guard will then find it. */
static int expected_check(struct cycle_run *run)
{
    const struct cycle *c = run->cycle;
    struct array *a = run->session->arrays;
    struct args args = { .count = 0 };
    PGresult *others;
    array_begin(&a[0], OID_TEXT);
    array_begin(&a[1], OID_UUID);
    array_begin(&a[2], OID_INT8);
    for (size_t i = 0; i < c->effect_count; i++) {
        const struct pr_message *m = c->effects[i].message;
        if (!is_expecting(run, i))
            continue;
        array_text(&a[0], m->stream);
        array_id(&a[1], m->id);
        array_i64(&a[2], m->expected_version);
    }
    for (size_t i = 0; i < 3; i++)
        arg_array(&args, &a[i]);
    int rc = link_do(run->link, EXPECTED_OTHERS, NO_BOX, &args, &others, run->reterr);
    return rc != PR_OK ? rc : PQntuples(others) == 0 ? PR_OK : CYCLE_ANEW;
}

/* In order where they go into boxes; the others by kind. */
static int sendings_make(struct cycle_run *run)
{
    static const enum effect_kind kinds[] = { EFFECT_FLOW,    EFFECT_EXECUTION, EFFECT_EVENT,
                                              EFFECT_HISTORY, EFFECT_SEEN,      EFFECT_STATE };
    const struct cycle *c = run->cycle;
    struct effect_run list[EFFECT_BATCHES_MAX];
    size_t count = 0;
    int rc = PR_OK;
    for (size_t at = 0; at < c->effect_count && rc == PR_OK; at += list[count - 1].count) {
        if (count == EFFECT_BATCHES_MAX) {
            rc = sendings_run(run, list, count);
            count = 0;
        }
        list[count++] = (struct effect_run){ .from = at, .count = run_length(c, at), .kind = c->effects[at].kind };
        if (c->effects[at].kind == EFFECT_MESSAGE)
            add_messages(run, &list[count - 1]);
        else if (c->effects[at].kind == EFFECT_DELETE)
            add_rows(run, &list[count - 1]);
    }
    if (rc == PR_OK && any_expects(run)) {
        rc = sendings_run(run, list, count);
        count = 0;
        rc = rc == PR_OK ? expected_check(run) : rc;
    }
    PGresult *mail[2];
    pg_mail_change(run, mail);
    struct effect_run rest[ARRAY_LENGTH(kinds)];
    for (size_t i = 0; i < ARRAY_LENGTH(kinds) && rc == PR_OK; i++) {
        rest[i] = (struct effect_run){ .count = c->effect_count, .kind = kinds[i] };
        add_rows(run, &rest[i]);
    }
    rc = rc == PR_OK ? sendings_run(run, list, count) : rc;
    rc = rc == PR_OK ? sendings_take(run, rest, ARRAY_LENGTH(kinds)) : rc;
    if (rc == PR_OK)
        pg_mail_take(run, mail);
    return rc;
}

/* The answers for verdicts that are not applied; and PR_OK for the others. */
static int answers_make(struct cycle_run *run)
{
    const struct cycle *c = run->cycle;
    int *answers = arena_alloc_array(&run->session->arena, c->effect_count, sizeof(answers[0]));
    if (answers == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for %zu effects", c->effect_count);
    for (size_t i = 0; i < c->effect_count; i++) {
        const struct effect *e = &c->effects[i];
        bool applied = e->verdict == EFFECT_ALWAYS || run->session->reply.answers[e->verdict] == PR_OK;
        answers[i] = applied ? run->guards.answers[i] : PR_UNKNOWN;
    }
    run->session->reply.effect_answers = answers;
    return PR_OK;
}

/* An effect that another open transaction blocks must not wait for its end (blocked.c). */
static void add_timeout(struct cycle_run *run)
{
    run->session->stores_effects = true;
    link_add(run->link, "SET LOCAL lock_timeout = '100ms'", NO_BOX, NULL, NULL);
}

bool pg_effects_fit_one_batch(const struct cycle *c)
{
    for (size_t i = 0; i < c->effect_count; i++)
        if (c->effects[i].kind != EFFECT_SEEN || c->effects[i].verdict == EFFECT_ALWAYS)
            return false;
    return true;
}

int pg_effects_add_one_batch(struct cycle_run *run)
{
    static const enum oid types[] = { OID_UUID, OID_TEXT, OID_TEXT, OID_INT2, OID_BOOL, OID_INT8 };
    const struct cycle *c = run->cycle;
    struct array *a = run->session->arrays;
    struct args args = { .count = 0 };
    if (c->effect_count == 0)
        return PR_OK;
    int *answers = arena_alloc_array(&run->session->arena, c->effect_count, sizeof(answers[0]));
    if (answers == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for %zu effects", c->effect_count);
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
        array_begin(&a[i], types[i]);
    for (size_t i = 0; i < c->effect_count; i++) {
        answers[i] = PR_OK; /* otherwise there is no reply */
        put_effect(run, a, i);
    }
    arg_time(&args, pg_store_wall_us(run->session->store));
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
        arg_array(&args, &a[i]);
    add_timeout(run);
    link_add(run->link, SEEN_OR_STOP, NO_BOX, &args, NULL);
    run->session->reply.effect_answers = answers;
    return PR_OK;
}

int pg_effects_store(struct cycle_run *run)
{
    if (!has_effects(run))
        return PR_OK;
    int rc = boxes_check(run);
    if (rc == PR_OK)
        rc = answers_make(run);
    if (rc == PR_OK) {
        add_timeout(run);
        rc = sendings_make(run);
    }
    if (rc != PR_OK)
        return rc;
    if (run->comes_back) {
        pg_snapshot_add(run);
        /* The claim is written in a subtransaction, after the snapshot: so its xid is above those of all transactions
         * that had one then (see fresh.c). */
        link_add(run->link, "SAVEPOINT postrider", NO_BOX, NULL, NULL);
    }
    add_claim(run, run->comes_back ? &run->mark : NULL);
    return run->comes_back ? link_run(run->link, run->reterr) : PR_OK; /* otherwise it is sent with the commit */
}

/* ---- When a cycle is asked again --------------------------------------------------------------- */

/* Answers that the claim row keeps, each in a column of its own. */
static const int noted[] = { ANSWER_REFUSED, ANSWER_BUSY, ANSWER_HANDLED };

int pg_answers_note(struct cycle_run *run)
{
    const struct cycle *c = run->cycle;
    struct array *a = run->session->arrays;
    struct args args = { .count = 0 };
    size_t count = 0;
    for (size_t k = 0; k < ARRAY_LENGTH(noted); k++) {
        array_begin(&a[k], OID_INT4);
        for (size_t i = 0; i < c->verdict_count; i++)
            if (run->session->reply.answers[i] == noted[k])
                array_i32(&a[k], (int)i);
        count += a[k].count;
    }
    if (count == 0)
        return PR_OK;
    arg_id(&args, c->instance);
    arg_i64(&args, (int64_t)c->number);
    for (size_t k = 0; k < ARRAY_LENGTH(noted); k++)
        arg_array(&args, &a[k]);
    link_add(run->link,
             "UPDATE {schema}.claim SET refused = $3, busy = $4, handled = $5 WHERE instance = $1 AND cycle = $2",
             NO_BOX, &args, NULL);
    return link_run(run->link, run->reterr);
}

int pg_answers_read(struct cycle_run *run)
{
    const struct cycle *c = run->cycle;
    struct args args = { .count = 0 };
    PGresult *r = NULL;
    int *answers = arena_alloc_array(&run->session->arena, c->verdict_count, sizeof(answers[0])); /* zero is PR_OK */
    if (answers == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for a reply");
    arg_id(&args, c->instance);
    arg_i64(&args, (int64_t)c->number);
    int rc = link_do(run->link,
                     "SELECT v.ord, v.n FROM {schema}.claim c, LATERAL (SELECT unnest(c.refused) AS ord, 0 AS n"
                     " UNION ALL SELECT unnest(c.busy), 1 UNION ALL SELECT unnest(c.handled), 2) v"
                     " WHERE c.instance = $1 AND c.cycle = $2",
                     NO_BOX, &args, &r, run->reterr);
    for (int i = 0; rc == PR_OK && i < PQntuples(r); i++)
        if ((size_t)field_int(r, i, 0) < c->verdict_count)
            answers[field_int(r, i, 0)] = noted[field_int(r, i, 1)];
    run->session->reply.answers = answers;
    return rc;
}
