/* ended.c - writing to the ledger of ended messages (core/ended.h), for cycles and people's orders. */
#include "core/ended.h"

#include "base/error.h"
#include "store/sqlite/sqlite.h"

#define NO_BOX ((pr_slice){ NULL, 0 })

int ended_insert(struct conn *conn, const struct ended *list, size_t count, pr_slice by, int64_t now_us,
                 struct arena *arena, struct pr_error *reterr)
{
    size_t entry_count = 0;
    const struct ended_entry *entries = ended_group(list, count, arena, &entry_count);
    int rc =
        entries != NULL ? PR_OK : error_set(reterr, PR_ENOMEM, "out of memory for the ledger of %zu messages", count);
    for (size_t i = 0; i < entry_count && rc == PR_OK; i++) {
        const struct ended_entry *e = &entries[i];
        rc = conn_do(conn,
                     "INSERT INTO postrider_ended (bucket, at, box, endpoint, instance, outcome, attempt, ids)"
                     " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                     NO_BOX,
                     VALUES(V_INT(e->bucket), V_INT(now_us), V_TEXT(e->box), V_TEXT(e->endpoint), V_TEXT(by),
                            V_INT(e->as), V_INT(e->attempt), V_BLOB(e->ids)),
                     NULL, reterr);
    }
    return rc;
}

int ended_write(struct sqlite_cycle *run)
{
    const struct cycle *c = run->cycle;
    struct arena *arena = &run->session->arena;
    size_t count;
    if (c->retention.ended_us == 0 || c->verdict_count == 0)
        return PR_OK;
    const struct ended *list =
        ended_of_cycle(c, run->session->reply.answers, run->session->reply.split_rows, arena, &count);
    if (list == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for %zu verdicts", c->verdict_count);
    return count > 0 ? ended_insert(run->conn, list, count, c->name, run->now_us, arena, run->reterr) : PR_OK;
}
