#include "store/postgres/import.h"

#define IS_NEW                                                                                                         \
    " WHERE NOT EXISTS (SELECT FROM {schema}.dead_letter d WHERE d.id = $1 AND d.destination = $2"                     \
    " AND d.box = {box_name}) AND NOT EXISTS (SELECT FROM {box} b WHERE b.id = $1 AND b.destination = $2)"

/* The lane is computed as in a box. */
static const char IMPORT[] =
    "INSERT INTO {schema}.dead_letter (box, xid, lane, id, destination, seq, stream, type, source, subject, "
    "content_type,"
    " headers, correlation_id, causation_id, traceparent, tracestate, event, created_at, due_at, expires_at, "
    "status,"
    " attempts, failures, failure_reason, code, error, failed_at, story, held_by, released, endpoint, cause, "
    "limit_reached,"
    " rule, fingerprint, note, died_at, edited_as, payload)"
    " SELECT {box_name}, pg_current_xact_id(),"
    " (CASE WHEN $4 <> '' THEN hashtext($4) ELSE uuid_hash($1) END & 63)::smallint,"
    " $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, "
    "$21::smallint, $22, $23, $24,"
    " $25, $26, $27, $28, $29::smallint, $30, $31, $32, $33, $34, $35, $36" IS_NEW " RETURNING 0::bigint";

static const char LOOK[] = "SELECT 0::bigint" IS_NEW;

static void arg_json(struct args *args, pr_slice json)
{
    arg_text_or_null(args, json);
    args->types[args->count - 1] = OID_JSON;
}

static void args_of_message(struct args *args, const struct pr_message *m)
{
    arg_i64(args, m->seq);
    arg_text_or_null(args, m->stream);
    arg_text(args, m->type);
    arg_text_or_null(args, m->source);
    arg_text_or_null(args, m->subject);
    arg_text_or_null(args, m->content_type);
    arg_json(args, m->headers);
    arg_text_or_null(args, m->correlation_id);
    arg_text_or_null(args, m->causation_id);
    arg_text_or_null(args, m->traceparent);
    arg_text_or_null(args, m->tracestate);
    arg_bool(args, m->event);
    arg_time(args, m->created_us);
    arg_time(args, m->due_us);
    arg_time(args, m->expires_us);
    arg_i32(args, m->status);
    arg_i32(args, m->attempts);
    arg_i32(args, m->failures);
    arg_i32(args, m->reason);
    arg_text_or_null(args, m->code);
    arg_text_or_null(args, m->error);
    arg_time(args, m->failed_us);
    arg_json(args, m->story);
    arg_text_or_null(args, m->held_by);
    arg_bool(args, m->released);
}

int pg_import_letter(struct link *link, const struct listed *l, bool write, int *ret_answer, struct pr_error *reterr)
{
    struct args args = { .count = 0 };
    PGresult *r;
    size_t mark = link->result_count;

    arg_id(&args, l->m.id);
    arg_text(&args, l->m.destination);
    if (write) {
        args_of_message(&args, &l->m);
        arg_text(&args, l->endpoint);
        arg_i32(&args, l->cause);
        arg_i32(&args, l->limit);
        arg_text(&args, l->rule);
        arg_text(&args, l->fingerprint);
        arg_text_or_null(&args, l->note);
        arg_time(&args, l->died_us);
        if (pr_id_is_zero(l->edited_as))
            arg_null(&args, OID_UUID);
        else
            arg_id(&args, l->edited_as);
        arg_bytes(&args, l->m.payload);
    }
    int rc = link_do(link, write ? IMPORT : LOOK, l->box, &args, &r, reterr);
    if (rc == PR_OK)
        *ret_answer = PQntuples(r) > 0 ? PR_OK : PR_DUPLICATE;
    link_forget_after(link, mark);
    return rc;
}
