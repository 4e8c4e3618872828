/* effect.c - effects of verdicts (core/effect.h): guards first; then, after the verdicts, the effects. */
#include <inttypes.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "store/sqlite/message.h"
#include "store/sqlite/sqlite.h"

#define NO_BOX ((pr_slice){ NULL, 0 })
#define ANSWERS_BYTES_MAX (1u << 20)

static int effect_do(struct sqlite_cycle *run, const char *sql, const struct value *values, size_t count,
                     int *ret_changed)
{
    return conn_do(run->conn, sql, NO_BOX, values, count, ret_changed, run->reterr);
}

/* ---- Guards -------------------------------------------------------------------------------- */

int guard_read(struct sqlite_cycle *run, const struct effect *e, int64_t *ret)
{
    int rc = PR_UNKNOWN;
    *ret = 0;
    if (effect_guards_stream(e))
        rc = conn_int(run->conn, "SELECT version FROM postrider_event_stream WHERE stream = ?1", NO_BOX,
                      VALUES(V_TEXT(e->message->stream)), ret, run->reterr);
    else if (e->kind == EFFECT_HISTORY)
        rc = conn_int(
            run->conn,
            "SELECT first + count FROM postrider_flow_history WHERE execution = ?1 ORDER BY first DESC LIMIT 1", NO_BOX,
            VALUES(V_TEXT(e->key)), ret, run->reterr);
    else
        rc = conn_int(run->conn, "SELECT 1 FROM postrider_seen WHERE box = ?1 AND id = ?2 AND handler = ?3", NO_BOX,
                      VALUES(V_TEXT(e->box), V_ID(e->id), V_TEXT(e->key)), ret, run->reterr);
    return rc < 0 ? rc : PR_OK;
}

/* Is an event with this id in the stream? */
static int event_is_known(struct sqlite_cycle *run, const struct effect *e, bool *ret)
{
    int64_t one;
    *ret = false;
    if (!effect_guards_stream(e))
        return PR_OK;
    struct id_forms forms; /* ids here are texts in lower case (028_events.sql) */
    id_forms_init(&forms, e->message->id);
    int rc = conn_int(run->conn, "SELECT 1 FROM postrider_event WHERE stream = ?1 AND id = ?2", NO_BOX,
                      VALUES(V_TEXT(e->message->stream), V_ID_LOWER(forms)), &one, run->reterr);
    *ret = rc == PR_OK;
    return rc < 0 ? rc : PR_OK;
}

int guards_compare(struct sqlite_cycle *run)
{
    const struct cycle *c = run->cycle;
    struct effect_guards *g = &run->guards;
    int rc = effect_guards_init(g, c->effects, c->effect_count, c->verdict_count, &run->session->arena);
    if (rc != PR_OK)
        return error_set(run->reterr, rc, "out of memory for %zu effects", c->effect_count);
    for (size_t i = 0; i < c->effect_count && g->any; i++) {
        int64_t found = 0;
        bool known;
        if (g->first[i] == SIZE_MAX || g->answers[i] != PR_OK)
            continue;
        if (c->effects[i].kind == EFFECT_FLOW) {
            rc = flow_guard_answer(run, &c->effects[i], &g->answers[i]);
            if (rc != PR_OK)
                return rc;
            continue;
        }
        rc = event_is_known(run, &c->effects[i], &known);
        if (rc == PR_OK && !known && g->first[i] == i)
            rc = guard_read(run, &c->effects[i], &found);
        if (rc != PR_OK)
            return rc;
        g->answers[i] = known ? PR_DUPLICATE : g->first[i] == i ? effect_guard_answer(&c->effects[i], found) : PR_OK;
    }
    effect_guards_settle(g, c->effects, c->effect_count);
    return PR_OK;
}

/* ---- Applying ------------------------------------------------------------------------------- */

static int append_event(struct sqlite_cycle *run, const struct effect *e)
{
    const struct pr_message *m = e->message;
    struct id_forms forms;
    id_forms_init(&forms, m->id);
    int rc = effect_do(run,
                       "INSERT INTO postrider_event_stream (stream, version) VALUES (?1, 1)"
                       " ON CONFLICT (stream) DO UPDATE SET version = version + 1",
                       VALUES(V_TEXT(m->stream)), NULL);
    if (rc == PR_OK)
        rc = effect_do(
            run,
            "INSERT INTO postrider_event (stream, version, id, type, content_type, headers, payload, created_at)"
            " SELECT stream, version, ?2, ?3, ?4, ?5, ?6, ?7 FROM postrider_event_stream WHERE stream = ?1",
            VALUES(V_TEXT(m->stream), V_ID_LOWER(forms), V_TEXT(m->type), V_TEXT_OR_NULL(m->content_type),
                   V_TEXT_OR_NULL(m->headers), V_BLOB(m->payload), V_INT(run->now_us)),
            NULL);
    return rc;
}

static int append_history(struct sqlite_cycle *run, const struct effect *e)
{
    return effect_do(
        run,
        "INSERT INTO postrider_flow_history (execution, first, count, events) VALUES (?1, coalesce((SELECT"
        " first + count FROM postrider_flow_history WHERE execution = ?1 ORDER BY first DESC LIMIT 1), 0), ?2, ?3)",
        VALUES(V_TEXT(e->key), V_INT(e->count), V_TEXT(e->value)), NULL);
}

static int set_state(struct sqlite_cycle *run, const struct effect *e)
{
    if (e->value.data == NULL)
        return effect_do(run, "DELETE FROM postrider_flow_state WHERE flow = ?1 AND key = ?2",
                         VALUES(V_TEXT(e->key), V_TEXT(e->name)), NULL);
    return effect_do(run,
                     "INSERT INTO postrider_flow_state (flow, key, value) VALUES (?1, ?2, ?3)"
                     " ON CONFLICT (flow, key) DO UPDATE SET value = ?3",
                     VALUES(V_TEXT(e->key), V_TEXT(e->name), V_BLOB(e->value)), NULL);
}

static int delete_rows(struct sqlite_cycle *run, const struct effect *e)
{
    int changed = 0;
    struct id_forms forms;
    id_forms_init(&forms, e->id);
    int rc = conn_do(run->conn, "DELETE FROM \"{box}\" WHERE id IN (?1, ?2, ?3)", e->box,
                     VALUES(V_ID(e->id), V_ID_LOWER(forms), V_ID_UPPER(forms)), &changed, run->reterr);
    return rc != PR_OK ? rc : changed > 0 ? PR_OK : PR_UNKNOWN;
}

/* The answer, or a fault. */
static int effect_apply(struct sqlite_cycle *run, const struct effect *e)
{
    bool in_box = e->kind == EFFECT_MESSAGE || e->kind == EFFECT_DELETE;
    if (in_box && !name_is_valid(e->box))
        return error_set(run->reterr, PR_EINVAL, "\"%.*s\" is not a valid box name", SLICE_ARGS(e->box));
    switch (e->kind) {
    case EFFECT_MESSAGE: return message_insert(run->conn, e->box, e->message, run->now_us, run->reterr);
    case EFFECT_EVENT: return append_event(run, e);
    case EFFECT_HISTORY: return append_history(run, e);
    case EFFECT_STATE: return set_state(run, e);
    case EFFECT_DELETE: return delete_rows(run, e);
    case EFFECT_SEEN: return mark_insert(run->conn, e, run->now_us, run->reterr);
    case EFFECT_FLOW: return flow_put(run, e);
    case EFFECT_EXECUTION: return execution_insert(run, e);
    case EFFECT_MAIL: return mail_change(run, e);
    case EFFECT_KINDS: break;
    }
    return error_set(run->reterr, PR_EINVAL, "unknown kind of effect %d", (int)e->kind);
}

/* A CHECK, a trigger or an index of the application refuses it: it would be refused again each time. */
static int effect_refused(struct sqlite_cycle *run, const struct effect *e)
{
    return error_set(run->reterr, PR_EINVAL, "box %.*s refuses what its handler or route stores there: %s",
                     SLICE_ARGS(e->box.size > 0 ? e->box : run->session->box), sqlite3_errmsg(run->conn->db));
}

/* {"cycle":12,"3":17,...}: the refused verdicts, for the case that this cycle is asked again. */
static int answers_write(struct sqlite_cycle *run)
{
    const struct cycle *c = run->cycle;
    struct buf text;
    buf_init(&text, ANSWERS_BYTES_MAX);
    buf_addf(&text, "{\"cycle\":%" PRIu64, c->number);
    for (size_t i = 0; i < c->verdict_count; i++)
        if (run->guards.verdicts[i] != PR_OK)
            buf_addf(&text, ",\"%zu\":%d", i, run->guards.verdicts[i]);
    buf_add_char(&text, '}');
    int rc = buf_failed(&text);
    if (rc == PR_OK)
        rc = effect_do(run, "UPDATE postrider_instance SET answers = ?2 WHERE id = ?1",
                       VALUES(V_ID(c->instance), V_TEXT(buf_slice(&text))), NULL);
    buf_fini(&text);
    return rc;
}

/* Of a cycle that is asked again, what was not written was applied. */
static bool any_refused(const struct sqlite_cycle *run)
{
    bool any = false;
    for (size_t i = 0; i < run->cycle->verdict_count; i++)
        any |= run->guards.verdicts[i] != PR_OK;
    return any;
}

int effects_apply(struct sqlite_cycle *run)
{
    const struct cycle *c = run->cycle;
    struct cycle_reply *reply = &run->session->reply;
    reply->effect_answers = arena_alloc_array(&run->session->arena, c->effect_count, sizeof(int));
    if (reply->effect_answers == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for %zu effects", c->effect_count);
    for (size_t i = 0; i < c->effect_count; i++) {
        const struct effect *e = &c->effects[i];
        bool applied = e->verdict == EFFECT_ALWAYS || reply->answers[e->verdict] == PR_OK;
        int answer = applied ? run->guards.answers[i] : PR_UNKNOWN;
        if (applied && answer == PR_OK)
            answer = effect_apply(run, e);
        if (answer < 0)
            return (sqlite3_errcode(run->conn->db) & 0xff) == SQLITE_CONSTRAINT ? effect_refused(run, e) : answer;
        reply->effect_answers[i] = answer;
    }
    return any_refused(run) ? answers_write(run) : PR_OK;
}

int answers_read(struct sqlite_cycle *run)
{
    const struct cycle *c = run->cycle;
    struct cycle_reply *reply = &run->session->reply;
    sqlite3_stmt *s;
    reply->answers = arena_alloc_array(&run->session->arena, c->verdict_count, sizeof(int)); /* zero is PR_OK */
    if (reply->answers == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for a reply");
    int rc = conn_bind(run->conn,
                       "SELECT CAST(j.key AS INTEGER), j.value FROM postrider_instance i, json_each(i.answers) j"
                       " WHERE i.id = ?1 AND json_extract(i.answers, '$.cycle') = ?2 AND j.key <> 'cycle'",
                       NO_BOX, VALUES(V_ID(c->instance), V_INT(c->number)), &s, run->reterr);
    while (rc >= 0 && (rc = conn_step(run->conn, s, run->reterr)) > 0)
        if ((size_t)sqlite3_column_int64(s, 0) < c->verdict_count)
            reply->answers[sqlite3_column_int64(s, 0)] = sqlite3_column_int(s, 1);
    return rc;
}
