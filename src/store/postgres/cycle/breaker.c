/* Breakers that are not closed, stored with the instance that reported them.
 *
 * They are written in the first batch of a cycle, fenced by the lock on the instance's row like everything else
 * there. */
#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "store/postgres/postgres.h"

/* ---- Written by a cycle ---------------------------------------------------------------------------- */

static const char OPEN[] =
    "INSERT INTO {schema}.breaker (instance, endpoint, type, since, until, probes, failure_reason, code, error)"
    " SELECT $1, v.endpoint, v.type, n.t - v.age * interval '1 microsecond',"
    " CASE WHEN v.wait = 9223372036854775807 THEN 'infinity' ELSE n.t + least(v.wait, 8000000000000000000)"
    " * interval '1 microsecond' END, v.probes, v.reason, v.code, v.error"
    " FROM (SELECT " NOW(
        "$2") " AS t) n,"
              " unnest($3, $4, $5, $6, $7, $8, $9, $10) AS v(endpoint, type, age, wait, probes, reason, code, error)"
              " ON CONFLICT (instance, endpoint, type) DO UPDATE SET since = excluded.since, until = excluded.until,"
              " probes = excluded.probes, failure_reason = excluded.failure_reason, code = excluded.code, error = "
              "excluded.error";

static void add_open(struct cycle_run *run)
{
    static const enum oid types[] = { OID_TEXT, OID_TEXT, OID_INT8, OID_INT8, OID_INT4, OID_INT2, OID_TEXT, OID_TEXT };
    struct array *a = run->session->arrays;
    struct args args = { .count = 0 };
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
        array_begin(&a[i], types[i]);
    for (size_t i = 0; i < run->cycle->breaker_count; i++) {
        const struct breaker_change *c = &run->cycle->breakers[i];
        if (!c->open)
            continue;
        array_text(&a[0], c->endpoint);
        array_text(&a[1], c->type);
        array_i64(&a[2], c->age_us);
        array_i64(&a[3], c->for_us);
        array_i32(&a[4], c->probes);
        array_i16(&a[5], c->reason);
        array_text_or_null(&a[6], c->code);
        array_text_or_null(&a[7], c->error);
    }
    if (a[0].count == 0)
        return;
    arg_id(&args, run->cycle->instance);
    arg_time(&args, pg_store_wall_us(run->session->store));
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
        arg_array(&args, &a[i]);
    link_add(run->link, OPEN, NO_BOX, &args, NULL);
}

static void add_closed(struct cycle_run *run)
{
    struct array *a = run->session->arrays;
    struct args args = { .count = 0 };
    array_begin(&a[0], OID_TEXT);
    array_begin(&a[1], OID_TEXT);
    for (size_t i = 0; i < run->cycle->breaker_count; i++) {
        const struct breaker_change *c = &run->cycle->breakers[i];
        if (c->open)
            continue;
        array_text(&a[0], c->endpoint);
        array_text(&a[1], c->type);
    }
    if (a[0].count == 0)
        return;
    arg_id(&args, run->cycle->instance);
    arg_array(&args, &a[0]);
    arg_array(&args, &a[1]);
    link_add(run->link,
             "DELETE FROM {schema}.breaker b USING unnest($2, $3) AS v(endpoint, type)"
             " WHERE b.instance = $1 AND b.endpoint = v.endpoint AND b.type = v.type",
             NO_BOX, &args, NULL);
}

void pg_breakers_add(struct cycle_run *run)
{
    if (run->cycle->breaker_count == 0)
        return;
    add_open(run);
    add_closed(run);
}

void pg_breakers_add_forget(struct cycle_run *run, pr_id instance)
{
    struct args args = { .count = 0 };
    arg_id(&args, instance);
    link_add(run->link, "DELETE FROM {schema}.breaker WHERE instance = $1", NO_BOX, &args, NULL);
}
