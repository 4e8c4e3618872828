/* load.c - large payloads, which a cycle reads separately from their rows.
 *
 * Each exists twice while it is copied.  sqlite3_blob_read() would avoid that, but reads another column than the given
 * one in tables with a virtual column before it, as boxes have (seen in SQLite 3.40). */
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <string.h>

#include "base/error.h"
#include "store/sqlite/message.h"
#include "store/sqlite/sqlite.h"

/* *ret is unchanged when the row no longer exists. */
static int load_read(struct sqlite_cycle *run, const struct row_name *name, pr_slice *ret)
{
    struct id_forms forms;
    sqlite3_stmt *statement;
    id_forms_init(&forms, name->id);
    int rc = conn_bind(
        run->conn, "SELECT payload FROM \"{box}\" WHERE row_id = ?1 AND id IN (?2, ?3, ?4)", run->session->box,
        VALUES(V_INT(name->row), V_ID(name->id), V_ID_LOWER(forms), V_ID_UPPER(forms)), &statement, run->reterr);
    if (rc == PR_OK)
        rc = conn_step(run->conn, statement, run->reterr);
    if (rc <= 0)
        return rc;
    pr_slice payload = column_slice(statement, 0);
    sqlite3_db_release_memory(sqlite3_db_handle(statement)); /* the pages of this payload in SQLite's cache ... */
#ifdef __GLIBC__
    malloc_trim(0); /* ... are small blocks, which the allocator would keep */
#endif
    char *bytes = malloc(payload.size + 1);
    if (bytes == NULL)
        rc = error_set(run->reterr, PR_ENOMEM, "out of memory for a payload of %zu bytes", payload.size);
    else if (payload.size > 0)
        memcpy(bytes, payload.data, payload.size);
    sqlite3_reset(statement); /* before the next one is read */
    *ret = (pr_slice){ bytes, payload.size };
    return rc < 0 ? rc : PR_OK;
}

int loads_read(struct sqlite_cycle *run)
{
    const struct cycle *c = run->cycle;
    struct cycle_reply *reply = &run->session->reply;
    int rc = PR_OK;

    if (c->load_count == 0)
        return PR_OK;
    reply->loaded = arena_alloc_array(&run->session->arena, c->load_count, sizeof(reply->loaded[0]));
    if (reply->loaded == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for %zu payloads", c->load_count);
    reply->loaded_count = c->load_count;
    for (size_t i = 0; i < c->load_count && rc == PR_OK; i++)
        rc = load_read(run, &c->loads[i], &reply->loaded[i]);
    return rc;
}
