/* What verdicts change: one statement for each sort of verdict, whatever their number.
 *
 * Verdicts are applied in their order, which matters only among those of one message.  So they
 * go out in waves: the first verdict of each id in the first wave, the second in the second.
 * Usually there is one wave, and it travels with the rest of the first batch.
 *
 * A row is found by its id, through the key, and by its handle among those of that id.  Those that
 * are deleted, nearly all, are looked for where they were seen (ctid_cache.c): that spares the walk
 * through the key.  When one is not there any more, the cycle begins anew with keys. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "base/util.h"
#include "store/postgres/postgres.h"

enum group {
    GROUP_STRIKE,
    GROUP_DELETE,
    GROUP_DISCARD,
    GROUP_KEEP,
    GROUP_DEAD,
    GROUP_UPDATE,
    GROUP_SPLIT,
    GROUP_PROBE,
    GROUP_COUNT
};

struct plan {
    struct cycle_run *run;
    unsigned *waves; /* of each verdict */
    unsigned wave_count;
    size_t *split_first; /* of each verdict: its first place in split_rows */
    PGresult *results[GROUP_COUNT];
    size_t struck; /* rows that must be where they were seen */
};

#define SAME_ROW "b.id = v.id AND " HANDLE " = v.handle"
#define FAILURES(t) "least(" t ".failures, 1000000000)" /* COUNTER_MAX: one damaged number must not stop the cycle */

/* ---- Which statement ------------------------------------------------------------------------- */

static bool is_owned(const struct plan *plan, const struct verdict *v)
{
    return (plan->run->lanes & lane_bit((unsigned)(v->row & (LANE_COUNT - 1)))) != 0;
}

static enum group delete_group(const struct plan *plan, const struct verdict *v)
{
    struct tid ignored;
    return pg_ctid_cache_find(&plan->run->session->ctid_cache, (int64_t)v->row, &ignored) ? GROUP_STRIKE : GROUP_DELETE;
}

static enum group group_of(const struct plan *plan, const struct verdict *v)
{
    if (!is_owned(plan, v))
        return GROUP_PROBE;
    switch (v->kind) {
    case VERDICT_RETURN: return GROUP_PROBE;
    case VERDICT_COMPLETE: return plan->run->cycle->keep_us > 0 ? GROUP_KEEP : delete_group(plan, v);
    case VERDICT_DISCARD: return v->number != 0 ? GROUP_DISCARD : delete_group(plan, v);
    case VERDICT_EXPIRE: return delete_group(plan, v);
    case VERDICT_DEAD_LETTER: return GROUP_DEAD;
    case VERDICT_SPLIT: return GROUP_SPLIT;
    default: return GROUP_UPDATE;
    }
}

/* The n-th verdict of an id is of wave n: a table of the latest one of each id. */
static int plan_waves(struct plan *plan)
{
    const struct cycle *c = plan->run->cycle;
    size_t room = 16;
    while (room < 2 * c->verdict_count)
        room *= 2;
    uint32_t *latest = arena_alloc_array(&plan->run->session->arena, room, sizeof(latest[0]));
    if (latest == NULL)
        return PR_ENOMEM;
    for (size_t i = 0; i < c->verdict_count; i++) {
        size_t at = hash_bytes(0, c->verdicts[i].id.bytes, sizeof(pr_id)) & (room - 1);
        while (latest[at] != 0 && !pr_id_equal(c->verdicts[latest[at] - 1].id, c->verdicts[i].id))
            at = (at + 1) & (room - 1);
        plan->waves[i] = latest[at] != 0 ? plan->waves[latest[at] - 1] + 1 : 0;
        plan->wave_count = plan->waves[i] + 1 > plan->wave_count ? plan->waves[i] + 1 : plan->wave_count;
        latest[at] = (uint32_t)i + 1;
    }
    return PR_OK;
}

static int plan_make(struct plan *plan)
{
    const struct cycle *c = plan->run->cycle;
    struct arena *arena = &plan->run->session->arena;
    struct cycle_reply *reply = &plan->run->session->reply;
    size_t destinations = 0;
    plan->waves = arena_alloc_array(arena, c->verdict_count, sizeof(plan->waves[0]));
    plan->split_first = arena_alloc_array(arena, c->verdict_count, sizeof(plan->split_first[0]));
    reply->answers = arena_alloc_array(arena, c->verdict_count, sizeof(reply->answers[0]));
    if (plan->waves == NULL || plan->split_first == NULL || reply->answers == NULL)
        return PR_ENOMEM;
    for (size_t i = 0; i < c->verdict_count; i++) {
        reply->answers[i] = PR_UNKNOWN;
        plan->split_first[i] = destinations;
        destinations += c->verdicts[i].kind == VERDICT_SPLIT ? c->verdicts[i].destination_count : 0;
    }
    reply->split_rows = arena_alloc_array(arena, destinations, sizeof(reply->split_rows[0]));
    return reply->split_rows != NULL ? plan_waves(plan) : PR_ENOMEM;
}

/* ---- The statements -------------------------------------------------------------------------- */

/* Nothing is returned but their number: it is all of them, or the cycle begins anew.  IS TRUE keeps
 * the list from becoming a join: it is to be a hash table that the rows are compared with. */
static const char STRIKE_ROWS[] =
    "DELETE FROM {box} b WHERE b.ctid = ANY ($1)"
    " AND ((" HANDLE ", b.id) IN (SELECT v.handle, v.id FROM unnest($2, $3) AS v(handle, id))) IS TRUE";

/* The same in a batch that also commits: when one of them is not there, or our own row says something else than
 * we think, this fails, and with it all that is behind it. */
static const char STRIKE_OR_STOP[] =
    "WITH gone AS (DELETE FROM {box} b WHERE b.ctid = ANY ($1)"
    " AND ((" HANDLE ", b.id) IN (SELECT v.handle, v.id FROM unnest($2, $3) AS v(handle, id))) IS TRUE RETURNING 1)"
    " SELECT CASE WHEN count(*) = $4 AND EXISTS"
    " (SELECT FROM {schema}.instance i WHERE i.id = $5 AND i.epoch = $6 AND i.lanes = $7) THEN 1"
    " ELSE ('postrider begins this cycle anew: rows found ' || count(*))::int END FROM gone";

static const char DELETE_ROWS[] = "DELETE FROM {box} b USING unnest($1, $2, $3) AS v(ord, handle, id)"
                                  " WHERE " SAME_ROW " RETURNING v.ord";

static const char DISCARD_ROWS[] =
    "WITH v AS MATERIALIZED (SELECT * FROM unnest($1, $2, $3, $4) AS v(ord, handle, id, number)),"
    " found AS MATERIALIZED (SELECT v.ord FROM v JOIN {box} b ON " SAME_ROW "),"
    " gone AS (DELETE FROM {box} b USING v WHERE " SAME_ROW " AND b.attempts = v.number - 1 RETURNING v.ord)"
    " SELECT f.ord, g.ord FROM found f LEFT JOIN gone g ON g.ord = f.ord";

static const char PROBE_ROWS[] = "SELECT v.ord FROM unnest($1, $2, $3) AS v(ord, handle, id) JOIN {box} b ON " SAME_ROW;

static const char KEEP_ROWS[] =
    "WITH gone AS (DELETE FROM {box} b USING unnest($1, $2, $3, $4, $5, $6, $7)"
    " AS v(ord, handle, id, number, bits, story, endpoint) WHERE " SAME_ROW
    " RETURNING v.ord, v.number, v.bits, v.story AS new_story, v.endpoint, b.*),"
    " kept AS (INSERT INTO {schema}.done (box, " MESSAGE_MOVED(
        "") ", status, attempts, failures, failure_reason, code,"
            " error, failed_at, story, held_by, endpoint, done_at, keep_until)"
            " SELECT {box_name}, " MESSAGE_MOVED(
                "g.") ", g.status | g.bits, coalesce(g.number, g.attempts), g.failures,"
                      " g.failure_reason, g.code, g.error, g.failed_at, coalesce(g.new_story, g.story), g.held_by,"
                      " coalesce(g.endpoint, g.destination), " NOW("$8") ", " NOW(
                          "$8") " + $9::bigint * interval '1 microsecond'"
                                " FROM gone g)"
                                " SELECT ord FROM gone";

static const char DEAD_ROWS[] =
    "WITH found AS MATERIALIZED (SELECT v.ord FROM unnest($1, $2, $3) AS v(ord, handle, id) JOIN {box} b ON " SAME_ROW
    "),"
    " gone AS (DELETE FROM {box} b USING unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"
    " AS v(ord, handle, id, number, bits, story, endpoint, reason, code, error, cause, counted, rule, limit_reached,"
    " fingerprint) WHERE " SAME_ROW " AND (v.number IS NULL OR b.attempts = v.number - 1)"
    " RETURNING v.ord, v.number, v.bits, v.story AS new_story, v.endpoint, v.reason, v.code AS new_code,"
    " v.error AS new_error, v.cause, v.counted, v.rule, v.limit_reached, v.fingerprint, b.*),"
    " dead AS (INSERT INTO {schema}.dead_letter (box, xid, " MESSAGE_MOVED(
        "") ", status, attempts, failures,"
            " failure_reason, code, error, failed_at, story, endpoint, cause, limit_reached, rule, fingerprint, "
            "died_at)"
            " SELECT {box_name}, g.xid, " MESSAGE_MOVED(
                "g.") ", g.status | g.bits | 32768, coalesce(g.number, g.attempts),"
                      " " FAILURES("g") " + g.counted::int, coalesce(g.reason, g.failure_reason),"
                                        " CASE WHEN g.reason IS NULL THEN g.code ELSE g.new_code END,"
                                        " CASE WHEN g.reason IS NULL THEN g.error ELSE g.new_error END,"
                                        " CASE WHEN g.counted THEN " NOW(
                                            "$16") " ELSE g.failed_at END, coalesce(g.new_story, g.story),"
                                                   " coalesce(g.endpoint, g.destination), g.cause, g.limit_reached, "
                                                   "g.rule, g.fingerprint, " NOW(
                                                       "$16") " FROM gone g)"
                                                              " SELECT f.ord, g.ord FROM found f LEFT JOIN gone g ON "
                                                              "g.ord = f.ord";

_Static_assert(PR_REASON_DESTINATION_MISSING == 9, "the statement below says so, too");
/* What is NULL stays as it is.  found: it is there; done: it was changed, else it is stale. */
static const char UPDATE_ROWS[] =
    "WITH v AS MATERIALIZED (SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"
    " AS v(ord, handle, id, expected, attempts, failed, bits, reason, code, error, delay, held_by, released, story,"
    " handed_out)),"
    " found AS MATERIALIZED (SELECT v.ord FROM v JOIN {box} b ON " SAME_ROW "),"
    " done AS (UPDATE {box} b SET status = b.status | v.bits, attempts = coalesce(v.attempts, b.attempts),"
    " failures = " FAILURES(
        "b") " + v.failed::int, failure_reason = coalesce(v.reason, b.failure_reason),"
             " code = CASE WHEN v.reason IS NULL THEN b.code ELSE v.code END,"
             " error = CASE WHEN v.reason IS NULL THEN b.error ELSE v.error END,"
             " failed_at = CASE WHEN v.reason IS NULL THEN b.failed_at ELSE " NOW(
                 "$16") " END,"
                        " due_at = CASE WHEN v.delay IS NULL OR (b.due_at = 'infinity' AND v.handed_out) THEN b.due_at "
                        "WHEN v.delay = 9223372036854775807 THEN 'infinity'"
                        " ELSE " NOW(
                            "$16") " + least(v.delay, 8000000000000000000) * interval '1 microsecond' END,"
                                   " held_by = v.held_by, released = b.released OR v.released, story = "
                                   "coalesce(v.story, b.story)"
                                   " FROM v WHERE " SAME_ROW " AND (v.expected IS NULL OR b.attempts = v.expected)"
                                   " AND NOT (v.held_by IS NOT NULL AND (b.released OR b.due_at IS NOT DISTINCT FROM "
                                   "'infinity'))"
                                   " AND NOT (v.delay IS NOT DISTINCT FROM 9223372036854775807 AND NOT v.handed_out"
                                   " AND b.due_at IS NOT DISTINCT FROM 'infinity')"
                                   /* verdict_unparks(), and message_awaits_route() */
                                   " AND NOT (v.delay < 9223372036854775807 AND NOT v.handed_out AND NOT v.released "
                                   "AND v.reason IS NULL"
                                   " AND b.due_at IS NOT DISTINCT FROM 'infinity' AND (b.failure_reason = 9"
                                   " AND b.story -> -1 ->> 'reason' = 'destination_missing' AND b.story -> -1 ->> "
                                   "'attempt' = '0') IS NOT TRUE)"
                                   " RETURNING v.ord)"
                                   " SELECT f.ord, d.ord FROM found f LEFT JOIN done d ON d.ord = f.ord";

/* A part that is there already, in the box or dead, is left alone.  Parts have the place of the
 * whole and a row_id of their own. */
static const char SPLIT_ROWS[] =
    "WITH v AS MATERIALIZED (SELECT * FROM unnest($1, $2, $3, $4, $5, $6)"
    " AS v(ord, handle, id, part, destination, holder)),"
    " gone AS (DELETE FROM {box} b USING (SELECT DISTINCT ord, handle, id FROM v) v WHERE " SAME_ROW
    " RETURNING v.ord, b.*),"
    " parts AS MATERIALIZED (SELECT g.*, v.part, v.destination AS new_destination,"
    " coalesce(v.holder, v.destination || '/') AS holder,"
    " nextval('{box_seq}') AS place FROM gone g JOIN v ON v.ord = g.ord WHERE NOT EXISTS"
    " (SELECT FROM {schema}.dead_letter d WHERE d.id = v.id AND d.destination = v.destination AND d.box = {box_name})),"
    " made AS (INSERT INTO {box} (xid, row_id, destination, held_by, status, story, released, " MESSAGE_BACK(
        "") ")"
            " OVERRIDING SYSTEM VALUE SELECT p.xid, p.place, p.new_destination, p.holder, p.status,"
            " p.story, p.released, " MESSAGE_BACK("p.") " FROM parts p ORDER BY p.part"
                                                        " ON CONFLICT (id, destination) DO NOTHING RETURNING row_id)"
                                                        " SELECT g.ord, NULL::int, NULL::bigint FROM gone g"
                                                        " UNION ALL SELECT p.ord, p.part, m.row_id << 6 | p.lane FROM "
                                                        "made m JOIN parts p ON p.place = m.row_id";

/* ---- Their parameters -------------------------------------------------------------------------- */

#define STRIKE_COLUMNS 3

static const enum oid types[GROUP_COUNT][16] = {
    [GROUP_STRIKE] = { OID_TID, OID_INT8, OID_UUID },
    [GROUP_DELETE] = { OID_INT4, OID_INT8, OID_UUID },
    [GROUP_DISCARD] = { OID_INT4, OID_INT8, OID_UUID, OID_INT4 },
    [GROUP_PROBE] = { OID_INT4, OID_INT8, OID_UUID },
    [GROUP_KEEP] = { OID_INT4, OID_INT8, OID_UUID, OID_INT4, OID_INT4, OID_JSON, OID_TEXT },
    [GROUP_DEAD] = { OID_INT4, OID_INT8, OID_UUID, OID_INT4, OID_INT4, OID_JSON, OID_TEXT, OID_INT2, OID_TEXT, OID_TEXT,
                     OID_INT2, OID_BOOL, OID_TEXT, OID_INT4, OID_TEXT },
    [GROUP_UPDATE] = { OID_INT4, OID_INT8, OID_UUID, OID_INT4, OID_INT4, OID_BOOL, OID_INT4, OID_INT2, OID_TEXT,
                       OID_TEXT, OID_INT8, OID_TEXT, OID_BOOL, OID_JSON, OID_BOOL },
    [GROUP_SPLIT] = { OID_INT4, OID_INT8, OID_UUID, OID_INT4, OID_TEXT, OID_TEXT },
};

static const char *const statements[GROUP_COUNT] = {
    [GROUP_STRIKE] = STRIKE_ROWS, [GROUP_DELETE] = DELETE_ROWS, [GROUP_DISCARD] = DISCARD_ROWS,
    [GROUP_KEEP] = KEEP_ROWS,     [GROUP_DEAD] = DEAD_ROWS,     [GROUP_UPDATE] = UPDATE_ROWS,
    [GROUP_SPLIT] = SPLIT_ROWS,   [GROUP_PROBE] = PROBE_ROWS,
};

static void i32_or_null(struct array *a, bool is, int value)
{
    if (is)
        array_i32(a, value);
    else
        array_null(a);
}

static void put_key(struct array *a, size_t ord, const struct verdict *v)
{
    array_i32(&a[0], (int)ord);
    array_i64(&a[1], (int64_t)v->row);
    array_id(&a[2], v->id);
}

static void put_end(struct array *a, const struct verdict *v)
{
    i32_or_null(&a[3], v->number != 0, v->number);
    array_i32(&a[4], v->bits);
    array_text_or_null(&a[5], v->story);
    array_text_or_null(&a[6], v->endpoint);
}

static void put_dead(struct array *a, const struct verdict *v)
{
    put_end(a, v);
    if (v->reason != 0)
        array_i16(&a[7], v->reason);
    else
        array_null(&a[7]);
    array_text_or_null(&a[8], v->code);
    array_text_or_null(&a[9], v->error);
    array_i16(&a[10], v->cause);
    array_bool(&a[11], v->counted);
    array_text(&a[12], v->rule);
    array_i32(&a[13], v->limit);
    array_text(&a[14], slice_from(v->fingerprint));
}

static void put_update(struct array *a, const struct verdict *v)
{
    bool fails = v->kind == VERDICT_FAIL || v->kind == VERDICT_POSTPONE || (v->kind == VERDICT_PARK && v->reason != 0);
    bool compares = v->number != 0 && verdict_compares(v->kind);
    bool counts = compares && v->kind != VERDICT_POSTPONE;
    int bits = (v->kind == VERDICT_RELEASE ? 0 : v->bits) | (fails ? PR_STATUS_FAILED : 0);

    i32_or_null(&a[3], compares, v->number - 1);
    i32_or_null(&a[4], counts, v->number);
    array_bool(&a[5], fails && counts);
    array_i32(&a[6], bits);
    if (fails)
        array_i16(&a[7], v->reason != 0 ? v->reason : PR_REASON_UNKNOWN);
    else
        array_null(&a[7]);
    array_text_or_null(&a[8], v->code);
    array_text_or_null(&a[9], v->error);
    if (v->kind == VERDICT_HOLD)
        array_null(&a[10]);
    else
        array_i64(&a[10], v->kind == VERDICT_PARK ? PR_NEVER : v->kind == VERDICT_RELEASE ? 0 : v->delay_us);
    array_text_or_null(&a[11], v->kind == VERDICT_HOLD ? v->held_by : NO_BOX);
    array_bool(&a[12], v->kind == VERDICT_RELEASE);
    array_text_or_null(&a[13], v->story);
    array_bool(&a[14], v->number != 0);
}

static void put_split(const struct plan *plan, struct array *a, size_t ord, const struct verdict *v)
{
    for (size_t i = 0; i < v->destination_count; i++) {
        put_key(a, ord, v);
        array_i32(&a[3], (int)(plan->split_first[ord] + i));
        array_text(&a[4], v->destinations[i]);
        array_text_or_null(&a[5], v->holders != NULL ? v->holders[i] : NO_BOX);
    }
}

static void put_delete_by_ctid(struct plan *plan, struct array *a, const struct verdict *v)
{
    struct tid tid;
    ASSERT(pg_ctid_cache_find(&plan->run->session->ctid_cache, (int64_t)v->row, &tid));
    array_tid(&a[0], tid);
    array_i64(&a[1], (int64_t)v->row);
    array_id(&a[2], v->id);
    plan->struck++;
}

static void put_verdict(struct plan *plan, enum group group, size_t ord)
{
    struct array *a = plan->run->session->arrays;
    const struct verdict *v = &plan->run->cycle->verdicts[ord];
    if (group == GROUP_STRIKE) {
        put_delete_by_ctid(plan, a, v);
        return;
    }
    if (group == GROUP_SPLIT) {
        put_split(plan, a, ord, v);
        return;
    }
    put_key(a, ord, v);
    if (group == GROUP_KEEP)
        put_end(a, v);
    else if (group == GROUP_DISCARD)
        array_i32(&a[3], v->number);
    else if (group == GROUP_DEAD)
        put_dead(a, v);
    else if (group == GROUP_UPDATE)
        put_update(a, v);
}

/* ---- Waves -------------------------------------------------------------------------------------- */

static void add_group(struct plan *plan, enum group group, unsigned wave)
{
    struct pg_session *session = plan->run->session;
    const struct cycle *c = plan->run->cycle;
    struct args args = { .count = 0 };
    size_t columns = 0;

    plan->results[group] = NULL;
    for (; columns < ARRAY_LENGTH(types[group]) && types[group][columns] != 0; columns++)
        array_begin(&session->arrays[columns], types[group][columns]);
    for (size_t i = 0; i < c->verdict_count; i++)
        if (plan->waves[i] == wave && group_of(plan, &c->verdicts[i]) == group)
            put_verdict(plan, group, i);
    if (session->arrays[0].count == 0)
        return;
    for (size_t i = 0; i < columns; i++)
        arg_array(&args, &session->arrays[i]);
    if (group == GROUP_KEEP || group == GROUP_DEAD || group == GROUP_UPDATE)
        arg_time(&args, pg_store_wall_us(session->store));
    if (group == GROUP_KEEP)
        arg_i64(&args, min64(c->keep_us, INT64_C(8000000000000000000)));
    link_add(plan->run->link, statements[group], session->box, &args, &plan->results[group]);
}

static void take_group(struct plan *plan, enum group group)
{
    const PGresult *r = plan->results[group];
    struct cycle_reply *reply = &plan->run->session->reply;
    for (int i = 0; r != NULL && i < PQntuples(r); i++) {
        size_t ord = (size_t)field_int(r, i, 0);
        const struct verdict *v = &plan->run->cycle->verdicts[ord];
        if (group == GROUP_PROBE)
            reply->answers[ord] = is_owned(plan, v) ? PR_OK : PR_STALE;
        else if (group == GROUP_UPDATE || group == GROUP_DEAD || group == GROUP_DISCARD)
            reply->answers[ord] = field_is_null(r, i, 1) ? PR_STALE : PR_OK;
        else
            reply->answers[ord] = PR_OK;
        if (group == GROUP_SPLIT && !field_is_null(r, i, 1))
            reply->split_rows[field_int(r, i, 1)] = (uint64_t)field_i64(r, i, 2);
    }
}

/* Outcome 1: one of them was not where it was seen. */
static int take_struck(struct plan *plan, unsigned wave)
{
    const struct cycle *c = plan->run->cycle;
    if (plan->results[GROUP_STRIKE] == NULL)
        return PR_OK;
    if (strtoull(PQcmdTuples(plan->results[GROUP_STRIKE]), NULL, 10) != plan->struck) {
        pg_ctid_cache_forget(&plan->run->session->ctid_cache);
        return 1;
    }
    for (size_t i = 0; i < c->verdict_count; i++)
        if (plan->waves[i] == wave && group_of(plan, &c->verdicts[i]) == GROUP_STRIKE)
            plan->run->session->reply.answers[i] = PR_OK;
    return PR_OK;
}

int pg_verdicts_apply(struct cycle_run *run)
{
    struct plan plan = { .run = run };
    int rc = plan_make(&plan);
    if (rc != PR_OK)
        return error_set(run->reterr, rc, "no memory for %zu verdicts", run->cycle->verdict_count);
    for (unsigned wave = 0; wave == 0 || (wave < plan.wave_count && rc == PR_OK); wave++) {
        plan.struck = 0;
        for (int group = 0; group < GROUP_COUNT; group++)
            add_group(&plan, (enum group)group, wave);
        rc = link_run(run->link, run->reterr);
        for (int group = GROUP_STRIKE + 1; group < GROUP_COUNT && rc == PR_OK; group++)
            take_group(&plan, (enum group)group);
        if (rc == PR_OK)
            rc = take_struck(&plan, wave);
    }
    return rc;
}

/* ---- In one batch with the commit --------------------------------------------------------------- */

bool pg_verdicts_fit_one_batch(struct cycle_run *run)
{
    const struct plan plan = { .run = run };
    for (size_t i = 0; i < run->cycle->verdict_count; i++)
        if (group_of(&plan, &run->cycle->verdicts[i]) != GROUP_STRIKE)
            return false;
    return true;
}

/* One that is named twice is missing the second time, so there are no waves. */
int pg_verdicts_add_one_batch(struct cycle_run *run)
{
    struct plan plan = { .run = run };
    const struct cycle *c = run->cycle;
    struct array *a = run->session->arrays;
    struct args args = { .count = 0 };
    int *answers = arena_alloc_array(&run->session->arena, c->verdict_count, sizeof(answers[0]));
    if (answers == NULL)
        return error_set(run->reterr, PR_ENOMEM, "no memory for %zu verdicts", c->verdict_count);
    for (size_t i = 0; i < STRIKE_COLUMNS; i++)
        array_begin(&a[i], types[GROUP_STRIKE][i]);
    for (size_t i = 0; i < c->verdict_count; i++) {
        put_delete_by_ctid(&plan, a, &c->verdicts[i]);
        answers[i] = PR_OK; /* or there will be no reply */
    }
    for (size_t i = 0; i < STRIKE_COLUMNS; i++)
        arg_array(&args, &a[i]);
    arg_i64(&args, (int64_t)plan.struck);
    arg_id(&args, c->instance);
    arg_i64(&args, run->epoch);
    arg_i64(&args, (int64_t)run->lanes);
    link_add(run->link, STRIKE_OR_STOP, run->session->box, &args, NULL);
    run->session->reply.answers = answers;
    return PR_OK;
}
