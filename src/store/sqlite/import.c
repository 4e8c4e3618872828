#include "store/sqlite/import.h"

#include "store/sqlite/message.h"

#define TIME_OR_NULL(us) ((us) != 0 ? V_INT(us) : V_NULL)

static int is_there(struct conn *conn, const struct listed *l, const struct id_forms *forms, bool *ret,
                    struct pr_error *reterr)
{
    int64_t one;
    int rc = conn_int(conn,
                      "SELECT 1 FROM postrider_dead_letter INDEXED BY postrider_dead_letter_id WHERE id IN (?1, ?2, "
                      "?3) AND destination = ?4 AND box = '{box}'"
                      " UNION ALL SELECT 1 FROM \"{box}\" WHERE id IN (?1, ?2, ?3) AND destination = ?4 LIMIT 1",
                      l->box, VALUES(V_ID(forms->id), V_ID_LOWER(*forms), V_ID_UPPER(*forms), V_TEXT(l->m.destination)),
                      &one, reterr);
    *ret = rc == PR_OK;
    return rc < 0 ? rc : PR_OK;
}

int import_letter(struct conn *conn, const struct listed *l, bool write, int *ret_answer, struct pr_error *reterr)
{
    const struct pr_message *m = &l->m;
    struct id_forms forms;
    bool there = false;

    id_forms_init(&forms, m->id);
    int rc = is_there(conn, l, &forms, &there, reterr);
    if (rc != PR_OK)
        return rc;
    *ret_answer = there ? PR_DUPLICATE : PR_OK;
    if (there || !write)
        return PR_OK;
    return conn_do(
        conn,
        "INSERT INTO postrider_dead_letter (box, id, destination, seq, stream, type, source, subject, "
        "content_type, headers,"
        " correlation_id, causation_id, traceparent, tracestate, event, created_at, due_at, "
        "expires_at, status, attempts,"
        " failures, failure_reason, code, error, failed_at, story, held_by, released, endpoint, "
        "cause, limit_reached,"
        " rule, fingerprint, note, died_at, edited_as, payload) VALUES ('{box}', ?1, ?2, ?3, ?4, "
        "?5, ?6, ?7, ?8, ?9, ?10,"
        " ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, "
        "?29, ?30, ?31, ?32,"
        " ?33, ?34, ?35, ?36)",
        l->box,
        VALUES(V_ID(m->id), V_TEXT(m->destination), V_INT(m->seq), V_TEXT_OR_NULL(m->stream), V_TEXT(m->type),
               V_TEXT_OR_NULL(m->source), V_TEXT_OR_NULL(m->subject), V_TEXT_OR_NULL(m->content_type),
               V_TEXT_OR_NULL(m->headers), V_TEXT_OR_NULL(m->correlation_id), V_TEXT_OR_NULL(m->causation_id),
               V_TEXT_OR_NULL(m->traceparent), V_TEXT_OR_NULL(m->tracestate), V_INT(m->event), V_INT(m->created_us),
               TIME_OR_NULL(m->due_us), TIME_OR_NULL(m->expires_us), V_INT(m->status), V_INT(m->attempts),
               V_INT(m->failures), V_INT(m->reason), V_TEXT_OR_NULL(m->code), V_TEXT_OR_NULL(m->error),
               TIME_OR_NULL(m->failed_us), V_TEXT_OR_NULL(m->story), V_TEXT_OR_NULL(m->held_by), V_INT(m->released),
               V_TEXT(l->endpoint), V_INT(l->cause), V_INT(l->limit), V_TEXT(l->rule), V_TEXT(l->fingerprint),
               V_TEXT_OR_NULL(l->note), V_INT(l->died_us), pr_id_is_zero(l->edited_as) ? V_NULL : V_ID(l->edited_as),
               V_BLOB(m->payload)),
        NULL, reterr);
}
