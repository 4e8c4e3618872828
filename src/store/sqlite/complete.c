/* complete.c - completing a message on the caller's connection: the statements of a cycle with this one verdict, inside
 * a savepoint, so that a fault leaves the caller's transaction unchanged. */
#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "core/mark.h"
#include "store/sqlite/send.h"
#include "store/sqlite/sqlite.h"

#define COMPLETE_ARENA_BYTES 4096

/* A cycle of one verdict; the effects are in the arena. */
static int cycle_make(const struct completion *c, struct verdict *verdict, struct arena *arena, struct cycle *ret)
{
    struct effect *effects;
    size_t count;
    int rc = completion_effects(c, arena, &effects, &count);
    if (rc != PR_OK)
        return rc;
    if (mark_of_verdict(verdict, c->box, c->destination, c->dedupe_us, &effects[count]))
        effects[count++].verdict = 0;
    *ret = (struct cycle){ .box = c->box,
                           .verdicts = verdict,
                           .verdict_count = 1,
                           .effects = effects,
                           .effect_count = count,
                           .keep_us = c->keep_us };
    return PR_OK;
}

/* Names the first stream that had another number of events than expected. */
static int conflict_describe(struct sqlite_cycle *run)
{
    for (size_t i = 0; i < run->cycle->effect_count; i++) {
        const struct effect *e = &run->cycle->effects[i];
        int64_t found;
        if (!effect_guards_stream(e) || run->guards.answers[i] != PR_STALE)
            continue;
        int rc = guard_read(run, e, &found);
        return rc != PR_OK ? rc : effect_version_conflict(e, found, run->reterr);
    }
    return PR_STALE;
}

static int complete_inside(struct conn *conn, const struct completion *c, struct sqlite_session *session,
                           struct pr_error *reterr)
{
    struct verdict verdict = { .kind = VERDICT_COMPLETE,
                               .row = c->row,
                               .id = c->id,
                               .number = c->number,
                               .attempts = c->number - 1,
                               .bits = c->bits | PR_STATUS_HANDLED,
                               .endpoint = c->endpoint,
                               .fenced = true };
    struct cycle cycle;
    if (cycle_make(c, &verdict, &session->arena, &cycle) != PR_OK)
        return error_set(reterr, PR_ENOMEM, "out of memory for the effects of a handler");
    struct sqlite_cycle run = { .session = session,
                                .cycle = &cycle,
                                .conn = conn,
                                .now_us = max64(clock_wall_us(clock_system()), TIME_MIN_US),
                                .reterr = reterr };
    int rc = verdicts_apply(&run);
    if (rc != PR_OK)
        return rc;
    if (session->reply.answers[0] == ANSWER_REFUSED)
        return conflict_describe(&run);
    return session->reply.answers[0] == PR_OK ? PR_OK : PR_STALE;
}

int sqlite_complete(sqlite3 *db, const struct completion *c, struct pr_error *reterr)
{
    const char *path = sqlite3_db_filename(db, "main");
    const struct sqlite_location location = {
        .path = (char *)(uintptr_t)(path != NULL && path[0] != '\0' ? path : ":memory:")
    };
    struct sqlite_session session = { .box = c->box };
    struct conn conn;
    struct pr_error ignored;

    if (sqlite3_get_autocommit(db))
        return error_set(
            reterr, PR_EINVAL,
            "no transaction is open: BEGIN IMMEDIATE, write what belongs to the message, complete it, COMMIT");
    conn_borrow(&conn, db, &location);
    arena_init(&session.arena, COMPLETE_ARENA_BYTES);
    int rc = conn_script(&conn, "SAVEPOINT postrider_complete", reterr);
    if (rc == PR_OK) {
        rc = complete_inside(&conn, c, &session, reterr);
        conn_give_back(&conn); /* an active statement would prevent the rollback */
        conn_borrow(&conn, db, &location);
        int undone = rc == PR_OK ? PR_OK : conn_script(&conn, "ROLLBACK TO postrider_complete", &ignored);
        (void)undone; /* SQLite may have rolled back the whole transaction itself */
        int released = conn_script(&conn, "RELEASE postrider_complete", rc == PR_OK ? reterr : &ignored);
        rc = rc == PR_OK ? released : rc;
    }
    conn_give_back(&conn);
    arena_fini(&session.arena);
    return rc;
}
