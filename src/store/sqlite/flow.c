/* flow.c - what turns of flows store (core/flow_row.h): their rows, executions before the current ones, mail; and which
 * handed-out rows have been deleted. */
#include "base/error.h"
#include "base/time.h"
#include "core/id.h"
#include "store/sqlite/message.h"
#include "store/sqlite/sqlite.h"

#define NO_BOX ((pr_slice){ NULL, 0 })

int flow_guard_answer(struct sqlite_cycle *run, const struct effect *e, int *ret_answer)
{
    struct flow_row found = { .state = 0 };
    sqlite3_stmt *statement;
    int rc = conn_bind(run->conn, "SELECT execution, next, state FROM postrider_flow WHERE id = ?1", NO_BOX,
                       VALUES(V_TEXT(e->flow->id)), &statement, run->reterr);
    if (rc == PR_OK)
        rc = conn_step(run->conn, statement, run->reterr);
    if (rc < 0)
        return rc;
    bool is_there = rc > 0;
    if (is_there) {
        (void)id_from_stored(column_slice(statement, 0), &found.execution); /* a damaged id equals no other */
        found.next = sqlite3_column_int64(statement, 1);
        found.state = sqlite3_column_int(statement, 2);
    }
    sqlite3_reset(statement);
    *ret_answer = effect_flow_answer(e, is_there ? &found : NULL);
    return PR_OK;
}

static const char KEEP_FORMER[] =
    "INSERT INTO postrider_flow_execution (flow, execution, name, version, next, state, input, output, error, ended_at)"
    " SELECT id, execution, name, version, next, iif(state = ?3, ?4, state), input, output, error, ?5"
    " FROM postrider_flow WHERE id = ?1 AND execution <> ?2";

static const char PUT_FLOW[] = "INSERT INTO postrider_flow (id, name, version, execution, next, state, custom_status, "
                               "status_number, input, output,"
                               " error, parent, parent_execution, parent_task, tasks, created_at, updated_at)"
                               " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?16)"
                               " ON CONFLICT (id) DO UPDATE SET name = ?2, version = ?3, execution = ?4, next = ?5, "
                               "state = ?6, custom_status = ?7,"
                               " status_number = ?8, input = ?9, output = ?10, error = ?11, parent = ?12, "
                               "parent_execution = ?13, parent_task = ?14,"
                               " tasks = ?15, created_at = iif(?17, ?16, created_at), updated_at = ?16";

static struct value blob_or_null(pr_slice bytes)
{
    return bytes.size > 0 ? V_BLOB(bytes) : V_NULL;
}

int flow_put(struct sqlite_cycle *run, const struct effect *e)
{
    const struct flow_row *f = e->flow;
    struct id_forms execution, parent;
    bool begins = pr_id_is_zero(e->id) && !f->restarts;
    id_forms_init(&execution, f->execution);
    id_forms_init(&parent, f->parent_execution);
    int rc = begins || pr_id_equal(e->id, f->execution)
                 ? PR_OK
                 : conn_do(run->conn, KEEP_FORMER, NO_BOX,
                           VALUES(V_TEXT(f->id), V_ID_LOWER(execution), V_INT(FLOW_RUNNING), V_INT(FLOW_CONTINUED),
                                  V_INT(run->now_us)),
                           NULL, run->reterr);
    if (rc != PR_OK)
        return rc;
    return conn_do(run->conn, PUT_FLOW, NO_BOX,
                   VALUES(V_TEXT(f->id), V_TEXT(f->name), V_TEXT(f->version), V_ID_LOWER(execution), V_INT(f->next),
                          V_INT(f->state), blob_or_null(f->custom_status), V_INT(f->status_number),
                          blob_or_null(f->input), blob_or_null(f->output), V_TEXT_OR_NULL(f->error),
                          V_TEXT_OR_NULL(f->parent), f->parent.size > 0 ? V_ID_LOWER(parent) : V_NULL,
                          V_INT(f->parent_task), V_INT(f->tasks), V_INT(run->now_us), V_INT(f->restarts)),
                   NULL, run->reterr);
}

int execution_insert(struct sqlite_cycle *run, const struct effect *e)
{
    const struct flow_row *f = e->flow;
    struct id_forms execution;
    id_forms_init(&execution, f->execution);
    return conn_do(run->conn,
                   "INSERT INTO postrider_flow_execution (flow, execution, name, version, next, state, input, output,"
                   " error, ended_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                   NO_BOX,
                   VALUES(V_TEXT(f->id), V_ID_LOWER(execution), V_TEXT(f->name), V_TEXT(f->version), V_INT(f->next),
                          V_INT(f->state), blob_or_null(f->input), blob_or_null(f->output), V_TEXT_OR_NULL(f->error),
                          V_INT(run->now_us)),
                   NULL, run->reterr);
}

int mail_change(struct sqlite_cycle *run, const struct effect *e)
{
    const struct pr_message *m = e->message;
    int changed = 0;
    if (m == NULL) {
        int rc = conn_do(run->conn, "DELETE FROM postrider_flow_mail WHERE flow = ?1", NO_BOX, VALUES(V_TEXT(e->key)),
                         &changed, run->reterr);
        return rc != PR_OK ? rc : changed > 0 ? PR_OK : PR_UNKNOWN;
    }
    struct id_forms id;
    id_forms_init(&id, m->id);
    int rc = conn_do(run->conn,
                     "INSERT INTO postrider_flow_mail (flow, id, type, content_type, headers, payload, created_at,"
                     " keep_until) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (flow, id) DO NOTHING",
                     NO_BOX,
                     VALUES(V_TEXT(e->key), V_ID_LOWER(id), V_TEXT(m->type), V_TEXT_OR_NULL(m->content_type),
                            V_TEXT_OR_NULL(m->headers), blob_or_null(m->payload), V_INT(run->now_us),
                            e->keep_us > 0 ? V_INT(time_add(run->now_us, e->keep_us)) : V_NULL),
                     &changed, run->reterr);
    return rc != PR_OK ? rc : changed > 0 ? PR_OK : PR_DUPLICATE;
}

int mail_forget(struct sqlite_cycle *run, size_t piece, int *ret_changed)
{
    return conn_do(run->conn,
                   "DELETE FROM postrider_flow_mail WHERE number IN (SELECT number FROM postrider_flow_mail"
                   " WHERE keep_until <= ?1 ORDER BY keep_until LIMIT ?2)",
                   NO_BOX, VALUES(V_INT(run->now_us), V_INT(piece)), ret_changed, run->reterr);
}

int gone_read(struct sqlite_cycle *run)
{
    const struct cycle *c = run->cycle;
    int rc = PR_OK;
    if (c->alive_count == 0)
        return PR_OK;
    bool *gone = arena_alloc_array(&run->session->arena, c->alive_count, sizeof(gone[0]));
    if (gone == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for %zu rows", c->alive_count);
    for (size_t i = 0; i < c->alive_count && rc >= PR_OK; i++) {
        struct id_forms forms;
        int64_t one;
        id_forms_init(&forms, c->alive[i].id);
        rc = conn_int(run->conn, "SELECT 1 FROM \"{box}\" WHERE row_id = ?1 AND id IN (?2, ?3, ?4)", run->session->box,
                      VALUES(V_INT(c->alive[i].row), V_ID(c->alive[i].id), V_ID_LOWER(forms), V_ID_UPPER(forms)), &one,
                      run->reterr);
        gone[i] = rc != PR_OK;
    }
    run->session->reply.gone = gone;
    return rc < 0 ? rc : PR_OK;
}
