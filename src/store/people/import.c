#include "store/people/import.h"

#include "base/slice.h"
#include "core/columns.h"
#include "core/mark.h"

static bool box_is_known(const struct listing_context *s, pr_slice name)
{
    for (size_t i = 0; i < s->box_count; i++)
        if (slice_eq(s->boxes[i], name))
            return true;
    return false;
}

static int import_letter(struct sql *sql, const struct listed *l, bool write, int *ret_answer)
{
    const struct pr_message *m = &l->m;
    const struct value values[] = {
        V_ID(m->id),
        V_TEXT(m->destination),
        V_INT(m->seq),
        V_TEXT_OR_NULL(m->stream),
        V_TEXT(m->type),
        V_TEXT_OR_NULL(m->headers),
        V_BOOL(m->event),
        V_TIME(m->created_us),
        V_TIME(m->due_us),
        V_TIME(m->expires_us),
        V_INT(m->attempts),
        V_TEXT(l->endpoint),
        V_INT(l->cause),
        V_INT(l->limit),
        V_TEXT(l->rule),
        V_TEXT(l->fingerprint),
        V_TEXT_OR_NULL(l->note),
        V_TIME(l->died_us),
        pr_id_is_zero(l->edited_as) ? V_NULL : V_ID(l->edited_as),
#define X(column, ...) V_TEXT_OR_NULL(m->column),
        SENDER_TEXTS(X)
#undef X
#define V_FATE_INT V_INT
#define V_FATE_TEXT V_TEXT_OR_NULL
#define V_FATE_JSON V_TEXT_OR_NULL
#define V_FATE_TIME V_TIME
#define V_FATE_BOOL V_BOOL
#define X(kind, column, member) V_FATE_##kind(m->member),
            FATE_COLUMNS(X)
#undef X
                V_PAYLOAD(m->payload),
    };
    int64_t one;
    int rc =
        sql_number(sql, write ? SQL_import : SQL_import_look, l->box, values, write ? ARRAY_LENGTH(values) : 2, &one);
    *ret_answer = rc == PR_OK ? PR_OK : PR_DUPLICATE;
    return rc < 0 ? rc : PR_OK;
}

/* Removes its mark, where the order insists (`again`); otherwise *ret_answer says that it was handled. */
static int import_mark(struct marks *marks, const struct listed *l, const struct admin *admin,
                       struct admin_reply *reply, int *ret_answer)
{
    const pr_slice handler = mark_handler(l->m.destination, l->endpoint);
    int64_t at_us;
    if (admin->again)
        return admin->dry_run ? PR_OK : marks_drop(marks, l->box, l->m.id, handler);
    int rc = marks_find(marks, l->box, l->m.id, handler, &at_us);
    if (rc != PR_OK || at_us == 0)
        return rc;
    *ret_answer = PR_STALE;
    reply->handled++;
    reply->handled_us = reply->handled_us == 0 ? at_us : reply->handled_us;
    return PR_OK;
}

int import_letters(struct sql *sql, const struct listing_context *s, struct marks *marks, const struct admin *admin,
                   struct admin_reply *reply, bool *ret_in_streams)
{
    int rc = PR_OK;
    *ret_in_streams = false;
    for (size_t i = 0; i < admin->letter_count && rc == PR_OK; i++) {
        const struct listed *l = &admin->letters[i];
        bool known = box_is_known(s, l->box);
        int answer = known ? PR_OK : PR_UNKNOWN;
        if (known)
            rc = import_mark(marks, l, admin, reply, &answer);
        if (rc == PR_OK && answer == PR_OK)
            rc = import_letter(sql, l, !admin->dry_run, &answer);
        reply->matched++;
        reply->changed += answer == PR_OK;
        reply->refused += answer != PR_OK;
        *ret_in_streams |= answer == PR_OK && l->m.stream.size > 0;
        if (admin->answers != NULL)
            admin->answers[i] = answer;
    }
    return rc;
}
