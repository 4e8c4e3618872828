/* breaker.c - breakers that are not closed, stored with the instance that reported them. */
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "store/sqlite/sqlite.h"

#define NO_BOX ((pr_slice){ NULL, 0 })

/* ---- Written by a cycle ------------------------------------------------------------------ */

static int breaker_open(struct sqlite_cycle *run, const struct breaker_change *c)
{
    int64_t until_us = c->for_us == PR_NEVER ? PR_NEVER : time_add(run->now_us, c->for_us);
    return conn_do(run->conn,
                   "INSERT OR REPLACE INTO postrider_breaker"
                   " (instance, endpoint, type, since, until, probes, failure_reason, code, error)"
                   " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                   NO_BOX,
                   VALUES(V_ID(run->cycle->instance), V_TEXT(c->endpoint), V_TEXT(c->type),
                          V_INT(time_sub(run->now_us, c->age_us)), V_INT(until_us), V_INT(c->probes), V_INT(c->reason),
                          V_TEXT_OR_NULL(c->code), V_TEXT_OR_NULL(c->error)),
                   NULL, run->reterr);
}

static int breaker_close(struct sqlite_cycle *run, const struct breaker_change *c)
{
    return conn_do(run->conn, "DELETE FROM postrider_breaker WHERE instance = ?1 AND endpoint = ?2 AND type = ?3",
                   NO_BOX, VALUES(V_ID(run->cycle->instance), V_TEXT(c->endpoint), V_TEXT(c->type)), NULL, run->reterr);
}

int breakers_set(struct sqlite_cycle *run)
{
    int rc = PR_OK;
    for (size_t i = 0; i < run->cycle->breaker_count && rc == PR_OK; i++) {
        const struct breaker_change *c = &run->cycle->breakers[i];
        rc = c->open ? breaker_open(run, c) : breaker_close(run, c);
    }
    return rc;
}

int breakers_forget(struct sqlite_cycle *run, pr_id instance)
{
    return conn_do(run->conn, "DELETE FROM postrider_breaker WHERE instance = ?1", NO_BOX, VALUES(V_ID(instance)), NULL,
                   run->reterr);
}
