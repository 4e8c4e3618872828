/* What goes with verdicts: receipts, tallies, and messages that handlers send. */
#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "store/postgres/postgres.h"

#define EFFECT_BATCHES_MAX 64 /* statements on their way; a statement holds all that follow each other in one box */

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

/* The columns of tally in their order; when it failed is the store's now, where there is a reason. */
static const char TALLY_INSERT[] =
    "INSERT INTO {schema}.tally (endpoint, sent, failed, dead, discarded, expired, failed_at, reason, code, error)"
    " SELECT v.endpoint, v.sent, v.failed, v.dead, v.discarded, v.expired,"
    " CASE WHEN v.reason IS NOT NULL THEN " NOW(
        "$10") " END, v.reason, v.code, v.error"
               " FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9)"
               " AS v(endpoint, sent, failed, dead, discarded, expired, reason, code, error)";

static void add_tallies(struct cycle_run *run)
{
    static const enum oid types[] = { OID_TEXT, OID_INT8, OID_INT8, OID_INT8, OID_INT8,
                                      OID_INT8, OID_INT2, OID_TEXT, OID_TEXT };
    const struct cycle *c = run->cycle;
    struct array *a = run->session->arrays;
    struct args args = { .count = 0 };
    if (c->tally_count == 0)
        return;
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
        array_begin(&a[i], types[i]);
    for (size_t i = 0; i < c->tally_count; i++) {
        const struct tally *t = &c->tallies[i];
        const int64_t counts[] = { t->sent, t->failed, t->dead, t->discarded, t->expired };
        array_text(&a[0], t->endpoint);
        for (int k = 0; k < 5; k++)
            array_i64(&a[1 + k], counts[k]);
        if (t->reason != 0)
            array_i16(&a[6], t->reason);
        else
            array_null(&a[6]);
        array_text_or_null(&a[7], t->code);
        array_text_or_null(&a[8], t->error);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
        arg_array(&args, &a[i]);
    arg_time(&args, pg_store_wall_us(run->session->store));
    link_add(run->link, TALLY_INSERT, NO_BOX, &args, NULL);
}

/* Of two pauses the later end wins; everybody is told. */
static void add_pauses(struct cycle_run *run)
{
    const struct cycle *c = run->cycle;
    if (c->pause_count > 0) /* notices are committed in the order of their numbers */
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
    if (!has_effects(run))
        add_claim(run, NULL);
    add_closed(run);
    add_tallies(run);
    add_pauses(run);
    pg_breakers_add(run);
    pg_evidence_add(run);
    pg_purge_add(run);
}

/* ---- Messages ---------------------------------------------------------------------------------- */

static bool effect_holds(const struct cycle_run *run, const struct effect *effect)
{
    return effect->verdict == EFFECT_ALWAYS || run->session->reply.answers[effect->verdict] == PR_OK;
}

/* Is it a box?  Its name goes into a statement. */
static int boxes_check(struct cycle_run *run)
{
    const struct cycle *c = run->cycle;
    struct array *names = &run->session->arrays[0];
    struct args args = { .count = 0 };
    PGresult *missing;
    array_begin(names, OID_TEXT);
    for (size_t i = 0; i < c->effect_count; i++)
        if (i == 0 || !slice_eq(c->effects[i].box, c->effects[i - 1].box))
            array_text(names, c->effects[i].box);
    arg_array(&args, names);
    int rc = link_do(run->link,
                     "SELECT v.name FROM unnest($1) AS v(name)"
                     " WHERE NOT EXISTS (SELECT FROM {schema}.box b WHERE b.name = v.name)",
                     NO_BOX, &args, &missing, run->reterr);
    if (rc == PR_OK && PQntuples(missing) > 0)
        rc = error_set(run->reterr, PR_ENOTFOUND, "there is no box \"%.*s\" for a message of a handler",
                       SLICE_ARGS(field_slice(missing, 0, 0)));
    return rc;
}

/* Those from *at on that go to one box. */
static void add_effects(struct cycle_run *run, size_t *at)
{
    const struct cycle *c = run->cycle;
    struct batch *batch = &run->session->batch;
    pr_slice box = c->effects[*at].box;
    struct args args;
    batch_begin(batch, run->link->pg);
    for (; *at < c->effect_count && slice_eq(c->effects[*at].box, box); ++*at)
        if (effect_holds(run, &c->effects[*at]))
            batch_add(batch, c->effects[*at].message);
    if (batch->arrays[0].count == 0)
        return;
    batch_args(batch, pg_store_wall_us(run->session->store), &args);
    link_add(run->link, PG_MESSAGE_INSERT, box, &args, NULL);
}

int pg_effects_store(struct cycle_run *run)
{
    if (!has_effects(run))
        return PR_OK;
    int rc = boxes_check(run);
    size_t at = 0;
    while (rc == PR_OK && at < run->cycle->effect_count) {
        for (int i = 0; i < EFFECT_BATCHES_MAX && at < run->cycle->effect_count; i++)
            add_effects(run, &at);
        rc = link_run(run->link, run->reterr);
    }
    if (rc != PR_OK)
        return rc;
    if (run->comes_back) {
        pg_snapshot_add(run);
        /* The claim is in a transaction of its own inside ours, behind the snapshot: so its xid is
         * above those of all who had one then (see fresh.c). */
        link_add(run->link, "SAVEPOINT postrider", NO_BOX, NULL, NULL);
    }
    add_claim(run, run->comes_back ? &run->mark : NULL);
    return link_run(run->link, run->reterr);
}
