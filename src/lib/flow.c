#include "lib/flow.h"

#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "flow/flow_id.h"
#include "flow/turn_message.h"
#include "lib/lib.h"

#define MESSAGE_BLOCK 1024

static int no_memory(struct pr_error *reterr)
{
    return error_set(reterr, PR_ENOMEM, "out of memory for a message to a flow");
}

static int check_name(const char *what, pr_slice name, struct pr_error *reterr)
{
    if (name.size == 0)
        return error_set(reterr, PR_EINVAL, "%s is empty", what);
    if (name.size > PR_NAME_MAX)
        return error_set(reterr, PR_ETOOBIG, "%s has %zu bytes, at most %d are allowed", what, name.size, PR_NAME_MAX);
    if (!utf8_valid(name))
        return error_set(reterr, PR_EINVAL, "%s is not valid UTF-8", what);
    return PR_OK;
}

static int make_start(const struct pr_flow_start *start, bool commits_alone, struct arena *arena,
                      struct pr_message *ret, struct pr_error *reterr)
{
    struct turn_message m = { .kind = TURN_START,
                              .flow = slice_from(start->id),
                              .name = slice_from(start->name),
                              .version = slice_from(start->version),
                              .restart = start->restart,
                              .data = start->input,
                              .due_us = start->due_us };
    char made[PR_ID_TEXT_SIZE];
    pr_id id;

    if (start->id == NULL) {
        pr_id_new(&id);
        pr_id_format(id, made);
        m.flow = slice_dup(arena, slice_from(made));
        m.unheard_of = commits_alone && !start->restart;
    }
    int rc = check_name("the name of the flow", m.name, reterr);
    if (rc == PR_OK)
        rc = check_name("the id of the flow", m.flow, reterr);
    if (rc != PR_OK)
        return rc;
    pr_id_new(&id);
    if (!start->restart) /* two starts collide; but a restart must not collide with the start that it replaces */
        id = flow_start_id(m.flow);
    if (m.flow.data == NULL || turn_message_make(&m, id, arena, ret) != PR_OK)
        return no_memory(reterr);
    ret->due_us = start->due_us;
    return lib_message(ret, ret, reterr);
}

int lib_flow_tell(const struct pr_flow_tell *tell, struct arena *arena, struct pr_message *ret, struct pr_error *reterr)
{
    static const enum turn_message_kind kinds[] = { TURN_EVENT, TURN_MAIL, TURN_CANCEL };
    bool named = tell->kind == PR_FLOW_EVENT || tell->kind == PR_FLOW_MAIL;
    pr_id id = tell->message;

    if (!named && tell->kind != PR_FLOW_CANCEL)
        return error_set(reterr, PR_EINVAL, "unknown kind of flow message %d", (int)tell->kind);
    struct turn_message m = {
        .kind = kinds[tell->kind], .flow = slice_from(tell->id), .name = slice_from(tell->name), .data = tell->data
    };
    int rc = check_name("the id of the flow", m.flow, reterr);
    if (rc == PR_OK && named)
        rc = check_name(tell->kind == PR_FLOW_EVENT ? "the name of the event" : "the name of the mailbox", m.name,
                        reterr);
    if (rc != PR_OK)
        return rc;
    if (pr_id_is_zero(id))
        pr_id_new(&id);
    if (turn_message_make(&m, id, arena, ret) != PR_OK)
        return no_memory(reterr);
    return lib_message(ret, ret, reterr);
}

int lib_flow_start_by(lib_flow_store *store, void *where, const char *box, const struct pr_flow_start *start,
                      bool commits_alone, char *ret_id, struct pr_error *reterr)
{
    struct pr_message message;
    struct arena arena;

    if (start == NULL)
        return lib_missing("start", reterr);
    arena_init(&arena, MESSAGE_BLOCK);
    int rc = make_start(start, commits_alone, &arena, &message, reterr);
    if (rc == PR_OK)
        rc = store(where, box != NULL ? box : LIB_TURNS_DEFAULT, &message, reterr);
    if (rc >= 0 && ret_id != NULL) {
        memcpy(ret_id, message.stream.data, message.stream.size);
        ret_id[message.stream.size] = '\0';
    }
    arena_fini(&arena);
    return rc;
}

int lib_flow_tell_by(lib_flow_store *store, void *where, const char *box, const struct pr_flow_tell *tell,
                     struct pr_error *reterr)
{
    struct pr_message message;
    struct arena arena;

    if (tell == NULL)
        return lib_missing("tell", reterr);
    arena_init(&arena, MESSAGE_BLOCK);
    int rc = lib_flow_tell(tell, &arena, &message, reterr);
    if (rc == PR_OK)
        rc = store(where, box != NULL ? box : LIB_TURNS_DEFAULT, &message, reterr);
    arena_fini(&arena);
    return rc;
}

/* ---- In the caller's transaction ------------------------------------------------------------------ */

static int store_sqlite(void *db, const char *box, const struct pr_message *message, struct pr_error *reterr)
{
    return pr_send_sqlite_box(db, box, message, NULL, reterr);
}

PR_API int pr_flow_start_sqlite(struct sqlite3 *db, const char *box, const struct pr_flow_start *start,
                                char ret_id[PR_FLOW_ID_SIZE], struct pr_error *reterr)
{
    return lib_flow_start_by(store_sqlite, db, box, start, false, ret_id, reterr);
}

PR_API int pr_flow_tell_sqlite(struct sqlite3 *db, const char *box, const struct pr_flow_tell *tell,
                               struct pr_error *reterr)
{
    return lib_flow_tell_by(store_sqlite, db, box, tell, reterr);
}

/* Without libpq pr_send_pg_box() reports it. */
static int store_pg(void *conn, const char *box, const struct pr_message *message, struct pr_error *reterr)
{
    return pr_send_pg_box(conn, box, message, NULL, reterr);
}

PR_API int pr_flow_start_pg(struct pg_conn *conn, const char *box, const struct pr_flow_start *start,
                            char ret_id[PR_FLOW_ID_SIZE], struct pr_error *reterr)
{
    return lib_flow_start_by(store_pg, conn, box, start, false, ret_id, reterr);
}

PR_API int pr_flow_tell_pg(struct pg_conn *conn, const char *box, const struct pr_flow_tell *tell,
                           struct pr_error *reterr)
{
    return lib_flow_tell_by(store_pg, conn, box, tell, reterr);
}
