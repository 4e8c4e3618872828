/* evidence.c - when a message of a type was delivered to an endpoint last, by any instance. */
#include "base/error.h"
#include "base/time.h"
#include "base/util.h"
#include "store/sqlite/sqlite.h"

#define NO_BOX ((pr_slice){ NULL, 0 })

int evidence_write(struct sqlite_cycle *run)
{
    int rc = PR_OK;
    for (size_t i = 0; i < run->cycle->delivered_count && rc == PR_OK; i++) {
        const struct evidence *e = &run->cycle->delivered[i];
        rc = conn_do(run->conn,
                     "INSERT INTO postrider_evidence (endpoint, type, delivered_at) VALUES (?1, ?2, ?3)"
                     " ON CONFLICT (endpoint, type) DO UPDATE SET delivered_at = excluded.delivered_at",
                     NO_BOX, VALUES(V_TEXT(e->endpoint), V_TEXT(e->type), V_INT(run->now_us)), NULL, run->reterr);
    }
    return rc;
}

int evidence_read(struct sqlite_cycle *run)
{
    const struct cycle *c = run->cycle;
    int64_t *answers = arena_alloc_array(&run->session->arena, c->evidence_count, sizeof(*answers));
    int rc = PR_OK;

    if (answers == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for evidence");
    for (size_t i = 0; i < c->evidence_count && rc == PR_OK; i++) {
        answers[i] = 0;
        rc =
            conn_int(run->conn, "SELECT delivered_at FROM postrider_evidence WHERE endpoint = ?1 AND type = ?2", NO_BOX,
                     VALUES(V_TEXT(c->evidence[i].endpoint), V_TEXT(c->evidence[i].type)), &answers[i], run->reterr);
        rc = rc == PR_UNKNOWN ? PR_OK : rc;
    }
    run->session->reply.evidence = answers;
    return rc;
}
