/* breaker.c - breakers that are not closed, kept beside the instance that told of them. */
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "store/sqlite/sqlite.h"

#define NO_BOX ((pr_slice){ NULL, 0 })

/* ---- Told by a cycle ------------------------------------------------------------------ */

static int breaker_open(struct cycle_run *run, const struct breaker_change *c)
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

static int breaker_close(struct cycle_run *run, const struct breaker_change *c)
{
    return conn_do(run->conn, "DELETE FROM postrider_breaker WHERE instance = ?1 AND endpoint = ?2 AND type = ?3",
                   NO_BOX, VALUES(V_ID(run->cycle->instance), V_TEXT(c->endpoint), V_TEXT(c->type)), NULL, run->reterr);
}

int breakers_set(struct cycle_run *run)
{
    int rc = PR_OK;
    for (size_t i = 0; i < run->cycle->breaker_count && rc == PR_OK; i++) {
        const struct breaker_change *c = &run->cycle->breakers[i];
        rc = c->open ? breaker_open(run, c) : breaker_close(run, c);
    }
    return rc;
}

int breakers_forget(struct cycle_run *run, pr_id instance)
{
    return conn_do(run->conn, "DELETE FROM postrider_breaker WHERE instance = ?1", NO_BOX, VALUES(V_ID(instance)), NULL,
                   run->reterr);
}

/* ---- For people ------------------------------------------------------------------------- */

/* Who has no lanes sends nothing, and nobody waits for it. */
#define ALIVE                                                                                                          \
    " FROM postrider_breaker b JOIN postrider_instance i ON i.id = b.instance"                                         \
    " WHERE i.lanes > 0 AND i.boot_id = ?1 AND i.lease_end > ?2"

static int breaker_take(sqlite3_stmt *s, struct arena *arena, struct breaker_info *ret, struct pr_error *reterr)
{
    pr_slice *const texts[] = { &ret->endpoint, &ret->type, &ret->box, &ret->instance, &ret->code, &ret->error };
    pr_slice id = column_slice(s, 6);

    *ret = (struct breaker_info){
        .lanes = LANES_ALL,
        .since_us = sqlite3_column_int64(s, 7),
        .until_us = sqlite3_column_int64(s, 8),
        .probes = sqlite3_column_int(s, 9),
        .reason = sqlite3_column_int(s, 10),
    };
    memcpy(ret->instance_id.bytes, id.data, min_size(id.size, sizeof(ret->instance_id.bytes)));
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        *texts[i] = slice_dup(arena, column_slice(s, (int)i));
        if (texts[i]->data == NULL)
            return error_set(reterr, PR_ENOMEM, "no memory for breakers");
    }
    return PR_OK;
}

int breakers_read(struct sqlite_store *store, struct conn *conn, struct arena *arena, struct query_reply *reply,
                  struct pr_error *reterr)
{
    const struct value alive[] = { V_TEXT(slice_from(store->boot_id)), V_INT(store_mono_us(store)) };
    int64_t room;
    sqlite3_stmt *statement;
    int rc = conn_int(conn, "SELECT count(*)" ALIVE, NO_BOX, alive, 2, &room, reterr);
    if (rc != PR_OK)
        return rc;
    reply->breakers = arena_alloc_array(arena, (size_t)room, sizeof(*reply->breakers));
    if (reply->breakers == NULL)
        return error_set(reterr, PR_ENOMEM, "no memory for %lld breakers", (long long)room);
    rc = conn_bind(conn,
                   "SELECT b.endpoint, b.type, i.box, i.name, b.code, b.error, i.id, b.since, b.until, b.probes,"
                   " b.failure_reason" ALIVE " ORDER BY b.endpoint, b.type, i.box",
                   NO_BOX, alive, 2, &statement, reterr);
    if (rc != PR_OK)
        return rc;
    while ((rc = conn_step(conn, statement, reterr)) > 0 && reply->breaker_count < (size_t)room) {
        rc = breaker_take(statement, arena, &reply->breakers[reply->breaker_count++], reterr);
        if (rc != PR_OK)
            break;
    }
    sqlite3_reset(statement);
    return rc < 0 ? rc : PR_OK;
}
