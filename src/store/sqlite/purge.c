/* purge.c - removing what is too old: notices, kept delivered messages, evidence, dead letters, the audit, the ledger
 * of ended messages, and marks.
 *
 * Small pieces keep cycles short; a full piece is soon followed by another one, also in an idle box (the session wakes
 * itself up for it, wait.c). */
#include "base/error.h"
#include "base/time.h"
#include "base/util.h"
#include "store/sqlite/sqlite.h"

#define NO_BOX ((pr_slice){ NULL, 0 })
#define PURGE_EVERY_US PR_SECONDS(1)
#define PURGE_PIECE 1000 /* rows of each table */
/* ... of the ledger: as many pages as a thousand rows of other tables */
#define ENDED_PIECE 200
#define NOTICE_AGE_US PR_MINUTES(60)             /* an instance that sleeps longer reads everything again */
#define EVIDENCE_KEEP_US (PR_SECONDS(86400) * 7) /* longer than any message is retried */

bool purge_is_due(const struct sqlite_cycle *run)
{
    return run->mono_us >= run->session->purge_next_us;
}

/* Deletes one piece of one table. */
static int piece(struct sqlite_cycle *run, const char *sql, const struct value *values, size_t count)
{
    int changed = 0;
    int rc = conn_do(run->conn, sql, NO_BOX, values, count, &changed, run->reterr);
    run->session->purge_more |= changed >= PURGE_PIECE;
    return rc;
}

/* A notice from the far future was written before the machine was restarted. */
static int purge_notices(struct sqlite_cycle *run)
{
    return piece(run,
                 "DELETE FROM postrider_control WHERE number IN (SELECT number FROM postrider_control"
                 " WHERE mono_at < ?1 OR mono_at > ?2 ORDER BY number LIMIT ?3)",
                 VALUES(V_INT(time_sub(run->mono_us, NOTICE_AGE_US)), V_INT(time_add(run->mono_us, NOTICE_AGE_US)),
                        V_INT(PURGE_PIECE)));
}

static int purge_done(struct sqlite_cycle *run)
{
    return piece(run,
                 "DELETE FROM postrider_done WHERE row_id IN (SELECT row_id FROM postrider_done WHERE keep_until <= ?1"
                 " ORDER BY keep_until LIMIT ?2)",
                 VALUES(V_INT(run->now_us), V_INT(PURGE_PIECE)));
}

static int purge_evidence(struct sqlite_cycle *run)
{
    return piece(
        run,
        "DELETE FROM postrider_evidence WHERE (endpoint, type) IN (SELECT endpoint, type FROM postrider_evidence"
        " WHERE delivered_at < ?1 LIMIT ?2)",
        VALUES(V_INT(time_sub(run->now_us, EVIDENCE_KEEP_US)), V_INT(PURGE_PIECE)));
}

/* Numbers ascend in time: the first ones are the oldest. */
static int purge_audit(struct sqlite_cycle *run)
{
    int64_t keep_us = run->cycle->retention.audit_us;
    if (keep_us == 0)
        return PR_OK;
    return piece(run,
                 "DELETE FROM postrider_audit WHERE number IN (SELECT number FROM postrider_audit ORDER BY number"
                 " LIMIT ?2) AND at < ?1",
                 VALUES(V_INT(time_sub(run->now_us, keep_us)), V_INT(PURGE_PIECE)));
}

/* Its rows are long.  A ledger that was turned off is emptied. */
static int purge_ended(struct sqlite_cycle *run)
{
    int changed = 0;
    int rc = conn_do(run->conn,
                     "DELETE FROM postrider_ended WHERE number IN (SELECT number FROM postrider_ended WHERE at < ?1"
                     " ORDER BY at LIMIT ?2)",
                     NO_BOX, VALUES(V_INT(time_sub(run->now_us, run->cycle->retention.ended_us)), V_INT(ENDED_PIECE)),
                     &changed, run->reterr);
    run->session->purge_more |= changed >= ENDED_PIECE;
    return rc;
}

/* Strict streams wait behind dead letters: a notice reports that these are gone. */
static int purge_dead(struct sqlite_cycle *run)
{
    static const char told[] =
        "INSERT INTO postrider_control (mono_at, box, kind, row, seq, stream, endpoint)"
        " SELECT ?3, box, ?4, 0, seq, stream, destination FROM postrider_dead_letter WHERE stream IS NOT NULL"
        " AND row_id IN (SELECT row_id FROM postrider_dead_letter WHERE died_at < ?1 ORDER BY died_at, row_id LIMIT "
        "?2)";
    static const char gone[] =
        "DELETE FROM postrider_dead_letter WHERE row_id IN"
        " (SELECT row_id FROM postrider_dead_letter WHERE died_at < ?1 ORDER BY died_at, row_id LIMIT ?2)";
    int64_t keep_us = run->cycle->retention.dead_us, before_us = time_sub(run->now_us, keep_us);
    int changed = 0;
    if (keep_us == 0)
        return PR_OK;
    int rc = conn_do(run->conn, told, NO_BOX,
                     VALUES(V_INT(before_us), V_INT(PURGE_PIECE), V_INT(run->mono_us), V_INT(NOTICE_GONE)), NULL,
                     run->reterr);
    if (rc == PR_OK)
        rc = conn_do(run->conn, gone, NO_BOX, VALUES(V_INT(before_us), V_INT(PURGE_PIECE)), &changed, run->reterr);
    if (rc == PR_OK && changed > 0)
        log_emit(run->session->store->log, LOG_INFO, "dead_letters_removed", LOG_INT("count", changed),
                 LOG_TIME("died_before", before_us));
    run->session->purge_more |= changed >= PURGE_PIECE;
    return rc;
}

static int purge_marks(struct sqlite_cycle *run)
{
    bool more = false;
    int rc = marks_forget(run, &more);
    run->session->purge_more |= more;
    return rc;
}

static int purge_mail(struct sqlite_cycle *run)
{
    int changed = 0;
    int rc = mail_forget(run, PURGE_PIECE, &changed);
    run->session->purge_more |= changed >= PURGE_PIECE;
    return rc;
}

int purge_run(struct sqlite_cycle *run)
{
    static int (*const purges[])(struct sqlite_cycle *) = { purge_notices, purge_done,  purge_evidence, purge_audit,
                                                            purge_dead,    purge_ended, purge_marks,    purge_mail };
    struct sqlite_session *session = run->session;
    int rc = PR_OK;
    if (!purge_is_due(run))
        return PR_OK;
    session->purge_more = false;
    for (size_t i = 0; i < ARRAY_LENGTH(purges) && rc == PR_OK; i++)
        rc = purges[i](run);
    session->purge_next_us = time_add(run->mono_us, session->purge_more ? PURGE_AGAIN_US : PURGE_EVERY_US);
    return rc;
}
