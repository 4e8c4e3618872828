/* Completing a message on the caller's connection; see send.h.  The row is deleted, and events and values are stored,
 * by functions of the schema's owner (035_complete.sql, 046_complete_effects.sql); messages that the handler sends are
 * stored with the application's own rights. */
#include <stdio.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "store/postgres/link/link.h"
#include "store/postgres/send.h"

#define COMPLETE_ARENA_BYTES 4096

static int transaction_check(const PGconn *pg, const char *advice, struct pr_error *reterr)
{
    if (PQstatus(pg) != CONNECTION_OK)
        return error_set(reterr, PR_EBUSY, "the connection is lost: reconnect and try again");
    if (PQpipelineStatus(pg) != PQ_PIPELINE_OFF || PQtransactionStatus(pg) != PQTRANS_INTRANS)
        return error_set(reterr, PR_EINVAL, "no transaction is open, or a statement is running: %s", advice);
    return PR_OK;
}

/* Calls a function that returns a boolean.  Outcome PR_STALE: it returned false. */
static int ask_truth(PGconn *pg, const char *sql, const struct args *a, struct pr_error *reterr)
{
    char state[SQL_STATE_SIZE];
    int rc;
    PGresult *result = PQexecParams(pg, sql, a->count, a->types, a->values, a->lengths, a->formats, 1);
    if (PQresultStatus(result) == PGRES_TUPLES_OK)
        rc = PQntuples(result) == 1 && field_bool(result, 0, 0) ? PR_OK : PR_STALE;
    else if (PQstatus(pg) == CONNECTION_OK)
        rc = fault_of_result(result, NULL, state, reterr);
    else
        rc = error_set(reterr, PR_EBUSY, "the connection was lost: reconnect and try again");
    PQclear(result);
    return rc;
}

/* The fence.  Outcome PR_STALE. */
static int end_row(PGconn *pg, pr_slice schema, const struct completion *c, struct pr_error *reterr)
{
    char sql[128];
    struct args args = { .count = 0 };
    snprintf(sql, sizeof(sql), "SELECT \"%.*s\".complete($1, $2, $3, $4, $5, $6, $7, $8, $9)", SLICE_ARGS(schema));
    arg_text(&args, c->box);
    arg_i64(&args, (int64_t)c->row);
    arg_id(&args, c->id);
    arg_i32(&args, c->number - 1);
    arg_i32(&args, c->bits | PR_STATUS_HANDLED);
    arg_text(&args, c->endpoint);
    arg_i64(&args, c->keep_us);
    arg_i64(&args, c->dedupe_us);
    arg_bool(&args, c->destination.size == 0);
    return ask_truth(pg, sql, &args, reterr);
}

/* ---- Effects ------------------------------------------------------------------------------------ */

/* A completion on its way. */
struct completion_run {
    PGconn *pg;
    pr_slice schema;
    struct effect *effects;
    size_t count;
    struct effect_guards guards;
    struct pr_error *reterr;
};

/* Does the event's stream have the expected number of events, and not this one?  Of several events of one stream the
 * first one's number counts, as in a cycle. */
static int expectation_check(struct completion_run *e, size_t i)
{
    const struct effect *effect = &e->effects[i];
    bool compares = effect->kind == EFFECT_MESSAGE || effect->expected != EFFECT_ANY;
    if (!effect_guards_stream(effect) || !compares)
        return PR_OK;
    struct pr_message m = *effect->message;
    m.expects_version = e->guards.first[i] == i;
    m.expected_version = effect->kind == EFFECT_MESSAGE ? m.expected_version : effect->expected;
    int rc = pg_expect_version(e->pg, e->schema, &m, e->reterr);
    e->guards.answers[i] = rc;
    return rc == PR_DUPLICATE ? PR_OK : rc;
}

static int send_message(struct completion_run *e, const struct effect *effect)
{
    char box[2 * BOX_NAME_MAX + 2];
    struct pr_message m = *effect->message;
    m.expects_version = false; /* checked above */
    snprintf(box, sizeof(box), "%.*s.%.*s", SLICE_ARGS(e->schema), SLICE_ARGS(effect->box));
    return pg_send_many(e->pg, slice_from(box), &m, 1, NULL, e->reterr);
}

static int append_event(struct completion_run *e, const struct effect *effect)
{
    const struct pr_message *m = effect->message;
    char sql[BOX_NAME_MAX + 64];
    struct args args = { .count = 0 };
    snprintf(sql, sizeof(sql), "SELECT \"%.*s\".complete_append($1, $2, $3, $4, $5::json, $6)", SLICE_ARGS(e->schema));
    arg_text(&args, m->stream);
    arg_id(&args, m->id);
    arg_text(&args, m->type);
    arg_text_or_null(&args, m->content_type);
    arg_text_or_null(&args, m->headers);
    arg_bytes(&args, m->payload);
    int rc = ask_truth(e->pg, sql, &args, e->reterr);
    return rc == PR_STALE ? PR_OK : rc; /* the stream has it already */
}

static int set_value(struct completion_run *e, const struct effect *effect)
{
    char sql[BOX_NAME_MAX + 64];
    struct args args = { .count = 0 };
    snprintf(sql, sizeof(sql), "SELECT \"%.*s\".complete_set($1, $2, $3)", SLICE_ARGS(e->schema));
    arg_text(&args, effect->key);
    arg_text(&args, effect->name);
    arg_bytes_or_null(&args, effect->value);
    return ask_truth(e->pg, sql, &args, e->reterr);
}

static int store_effect(struct completion_run *e, const struct effect *effect)
{
    switch (effect->kind) {
    case EFFECT_MESSAGE: return send_message(e, effect);
    case EFFECT_EVENT: return append_event(e, effect);
    case EFFECT_STATE: return set_value(e, effect);
    default: return error_set(e->reterr, PR_EUNSUPPORTED, "a handler has no effects of kind %d", (int)effect->kind);
    }
}

/* In the order of a cycle: messages, events, values. */
static int effects_store(struct completion_run *e)
{
    static const enum effect_kind kinds[] = { EFFECT_MESSAGE, EFFECT_EVENT, EFFECT_STATE };
    int rc = PR_OK;
    for (size_t k = 0; k < ARRAY_LENGTH(kinds); k++)
        for (size_t i = 0; i < e->count && rc == PR_OK; i++)
            if (e->effects[i].kind == kinds[k] && e->guards.answers[i] == PR_OK)
                rc = store_effect(e, &e->effects[i]);
    return rc;
}

static int complete_inside(struct completion_run *e, const struct completion *c, struct arena *arena)
{
    int rc = completion_effects(c, arena, &e->effects, &e->count);
    if (rc == PR_OK)
        rc = effect_guards_init(&e->guards, e->effects, e->count, 1, arena);
    if (rc != PR_OK)
        return error_set(e->reterr, rc, "out of memory for the effects of a handler");
    for (size_t i = 0; i < e->count && rc == PR_OK; i++)
        rc = expectation_check(e, i);
    if (rc == PR_OK)
        rc = end_row(e->pg, e->schema, c, e->reterr);
    return rc == PR_OK ? effects_store(e) : rc;
}

int pg_complete(struct pg_conn *pg, pr_slice schema, const struct completion *c, struct pr_error *reterr)
{
    struct completion_run e = { .pg = pg, .schema = schema, .reterr = reterr };
    struct arena arena;
    int rc = transaction_check(pg, "BEGIN, write what belongs to the message, complete it, COMMIT", reterr);
    if (rc != PR_OK)
        return rc;
    arena_init(&arena, COMPLETE_ARENA_BYTES);
    rc = complete_inside(&e, c, &arena);
    arena_fini(&arena);
    if (rc < 0 && PQstatus(pg) != CONNECTION_OK)
        rc = error_set(reterr, PR_EBUSY, "the connection was lost: reconnect, and return PR_EBUSY");
    return rc;
}

int pg_advance(struct pg_conn *pg, pr_slice schema, pr_slice name, uint64_t fence, int64_t from, int64_t to,
               struct pr_error *reterr)
{
    char sql[BOX_NAME_MAX + 64];
    struct args args = { .count = 0 };
    int rc = transaction_check(pg, "BEGIN, write what follows from the events, advance, COMMIT", reterr);
    if (rc != PR_OK)
        return rc;
    snprintf(sql, sizeof(sql), "SELECT \"%.*s\".advance_subscription($1, $2, $3, $4)", SLICE_ARGS(schema));
    arg_text(&args, name);
    arg_i64(&args, (int64_t)fence);
    arg_i64(&args, from);
    arg_i64(&args, to);
    return ask_truth(pg, sql, &args, reterr);
}
