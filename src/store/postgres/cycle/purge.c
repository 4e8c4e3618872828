/* Removing what is too old: notices, kept delivered messages, evidence, dead letters, the audit, the ledger of ended
 * messages, and marks; and folding tallies into totals.
 *
 * In transactions of their own, some seconds apart, while the session waits, so that no message is delayed; if the
 * session never waits, before a cycle, which does not fail with them.  Small pieces; a full piece is soon followed by
 * another one, also in an idle box (the session wakes itself up for it, wait.c). */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/util.h"
#include "core/mark.h"
#include "store/postgres/postgres.h"

#define PURGE_EVERY_US PR_SECONDS(10)
#define PURGE_IDLE_US PR_SECONDS(60)  /* pause after a piece that found nothing, when nobody has written since */
#define PURGE_LATE_US PR_SECONDS(5)   /* how long a due piece waits for an idle session */
#define PURGE_FAILED_US PR_MINUTES(5) /* pause after a failure */
#define PURGE_PIECE 1000              /* rows of each table */
#define ENDED_PIECE 200               /* ... of the ledger */
#define LOCK_NOT_FREE "55P03"

/* ---- Statements ----------------------------------------------------------------------------------- */

/* The last one returns the current position. */
static const char PURGE_CONTROL[] =
    "DELETE FROM {schema}.control WHERE number IN (SELECT number FROM {schema}.control"
    " WHERE at < clock_timestamp() - interval '1 hour' AND number < (SELECT max(number) FROM {schema}.control)"
    " ORDER BY number LIMIT $2 FOR UPDATE SKIP LOCKED)";

static const char PURGE_DONE[] = "DELETE FROM {schema}.done WHERE row_id IN"
                                 " (SELECT row_id FROM {schema}.done WHERE keep_until <= " NOW(
                                     "$1") " ORDER BY keep_until LIMIT $2 FOR UPDATE SKIP LOCKED)";

static const char PURGE_MAIL[] = "DELETE FROM {schema}.flow_mail WHERE (flow, id) IN"
                                 " (SELECT flow, id FROM {schema}.flow_mail WHERE keep_until <= " NOW(
                                     "$1") " ORDER BY keep_until LIMIT $2 FOR UPDATE SKIP LOCKED)";

/* Longer than any message is retried. */
static const char PURGE_EVIDENCE[] =
    "DELETE FROM {schema}.evidence WHERE (endpoint, type) IN (SELECT endpoint, type FROM {schema}.evidence"
    " WHERE delivered_at < " NOW("$1") " - interval '7 days' LIMIT $2 FOR UPDATE SKIP LOCKED)";

/* Its rows are long: as many bytes as a thousand rows of other tables.  A ledger that was turned off is emptied. */
static const char PURGE_ENDED[] =
    "DELETE FROM {schema}.ended WHERE ctid = ANY (ARRAY(SELECT ctid FROM {schema}.ended WHERE at < " NOW(
        "$1") " - $3 * interval '1 microsecond' ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED))";

/* Numbers ascend in time: the first ones are the oldest.  A role that may delete need not have the right to update: no
 * locks. */
static const char PURGE_AUDIT[] =
    "DELETE FROM {schema}.audit WHERE number IN (SELECT number FROM {schema}.audit ORDER BY number LIMIT $2)"
    " AND at < " NOW("$1") " - $3 * interval '1 microsecond'";

#define PURGE_OVER(table, needed_too)                                                                                  \
    "WITH over AS MATERIALIZED (SELECT s.ctid, coalesce((SELECT true FROM {box} b WHERE b.id = s.id LIMIT 1), (SELECT" \
    " true FROM {schema}.dead_letter d WHERE d.id = s.id AND d.box = s.box LIMIT 1), " needed_too "false) AS needed"   \
    " FROM {schema}." table " s WHERE s.box = {box_name} AND s.until <= " NOW(                                         \
        "$1") " ORDER BY s.until LIMIT $2 FOR UPDATE SKIP LOCKED),"                                                    \
              " later AS (UPDATE {schema}." table                                                                      \
              " SET until = " NOW("$1") " + $3 * interval '1 microsecond'"                                             \
                                        " WHERE ctid = ANY (ARRAY(SELECT ctid FROM over WHERE needed))),"              \
                                        " gone AS (DELETE FROM {schema}." table                                        \
                                        " WHERE ctid = ANY (ARRAY(SELECT ctid FROM over WHERE NOT needed)))"           \
                                        " SELECT count(*), EXISTS (SELECT FROM {schema}." table                        \
                                        " WHERE box = {box_name}) FROM over"

/* Marks, and then messages that arrived again. */
static const char *const purges_of_marks[] = {
    PURGE_OVER("seen", ""),
    PURGE_OVER("again", "(SELECT true FROM {schema}.seen m WHERE m.id = s.id AND m.box = s.box LIMIT 1), "),
};

#define DEAD_IS_OVER "died_at < " NOW("$1") " - $2 * interval '1 microsecond'"
static const char DEAD_ARE_OVER[] = "SELECT FROM {schema}.dead_letter WHERE " DEAD_IS_OVER " LIMIT 1";

/* Strict streams wait behind dead letters: a notice reports that these are gone. */
static const char PURGE_DEAD[] =
    "WITH gone AS (DELETE FROM {schema}.dead_letter WHERE row_id IN (SELECT row_id FROM {schema}.dead_letter"
    " WHERE " DEAD_IS_OVER " ORDER BY died_at LIMIT $3 FOR UPDATE SKIP LOCKED)"
    " RETURNING box, seq, stream, destination),"
    " told AS (INSERT INTO {schema}.control (box, kind, \"row\", seq, stream, endpoint)"
    " SELECT box, $4, 0, seq, stream, destination FROM gone WHERE stream IS NOT NULL)"
    " SELECT count(*) FROM gone";

/* One instance folds at a time; others leave it to that one.  The lock is on a row, since everybody who can connect can
 * take and keep any advisory lock.  Of failures the latest is kept. */
static const char FOLD_TALLIES[] =
    "WITH t AS (DELETE FROM {schema}.tally"
    " WHERE (SELECT true FROM {schema}.box WHERE name = 'outbox' FOR NO KEY UPDATE SKIP LOCKED) RETURNING *),"
    " f AS (SELECT DISTINCT ON (endpoint) endpoint, failed_at, reason, code, error FROM t WHERE failed_at IS NOT NULL"
    " ORDER BY endpoint, failed_at DESC),"
    " s AS (SELECT endpoint, sum(sent) AS sent, sum(failed) AS failed, sum(dead) AS dead, sum(discarded) AS discarded,"
    " sum(expired) AS expired, sum(duplicates) AS duplicates, max(sent_at) AS sent_at FROM t GROUP BY endpoint),"
    " r AS (SELECT s.endpoint, greatest(0, coalesce(sum(t.failed), 0)) AS failed FROM s LEFT JOIN t"
    " ON t.endpoint = s.endpoint AND t.sent <= 0 AND (s.sent_at IS NULL OR t.failed_at > s.sent_at) GROUP BY "
    "s.endpoint)"
    " INSERT INTO {schema}.endpoint AS e (name, sent, failed, dead, discarded, expired, duplicates,"
    " last_failed_at, last_reason, last_code, last_error, failed_in_row)"
    " SELECT s.endpoint, s.sent, s.failed, s.dead, s.discarded, s.expired, s.duplicates, f.failed_at, "
    "coalesce(f.reason, 0), f.code, "
    "f.error, r.failed + CASE WHEN s.sent_at IS NULL THEN coalesce((SELECT o.failed_in_row FROM {schema}.endpoint o"
    " WHERE o.name = s.endpoint), 0) ELSE 0 END"
    " FROM s JOIN r ON r.endpoint = s.endpoint LEFT JOIN f ON f.endpoint = s.endpoint"
    " ON CONFLICT (name) DO UPDATE SET sent = e.sent + excluded.sent, failed = e.failed + excluded.failed,"
    " dead = e.dead + excluded.dead, discarded = e.discarded + excluded.discarded, expired = e.expired + "
    "excluded.expired, duplicates = e.duplicates + excluded.duplicates, failed_in_row = excluded.failed_in_row,"
    " (last_failed_at, last_reason, last_code, last_error) ="
    " (SELECT excluded.last_failed_at, excluded.last_reason, excluded.last_code, excluded.last_error"
    " WHERE excluded.last_failed_at IS NOT NULL"
    " UNION ALL SELECT e.last_failed_at, e.last_reason, e.last_code, e.last_error LIMIT 1)";

/* ---- Pieces ----------------------------------------------------------------------------------------- */

static int transaction_run(struct link *link, struct pr_error *reterr)
{
    link_add_commit(link);
    int rc = link_run(link, reterr);
    if (rc != PR_OK)
        link_rollback(link);
    return rc;
}

/* `count` rows were removed; a full piece means that there may be more. */
static void note_removed(struct pg_session *session, int64_t count, int piece)
{
    session->purge_found |= count > 0;
    session->purge_more |= count >= piece;
}

static int64_t removed(PGresult *result)
{
    return strtoll(PQcmdTuples(result), NULL, 10);
}

/* Without BEGIN and COMMIT: a batch is a transaction. */
static int batch_run(struct link *link, struct pr_error *reterr)
{
    int rc = link_run(link, reterr);
    if (rc != PR_OK)
        link_rollback(link);
    return rc;
}

static int purge_usual(struct pg_session *session, struct pr_error *reterr)
{
    static const char *const statements[] = { PURGE_CONTROL, PURGE_DONE, PURGE_EVIDENCE, PURGE_MAIL };
    PGresult *deleted[ARRAY_LENGTH(statements)] = { NULL }, *folded = NULL;
    struct args args = { .count = 0 };
    arg_time(&args, pg_store_wall_us(session->store));
    arg_i32(&args, PURGE_PIECE);
    for (size_t i = 0; i < ARRAY_LENGTH(statements); i++)
        link_add(session->link, statements[i], NO_BOX, &args, &deleted[i]);
    link_add(session->link, FOLD_TALLIES, NO_BOX, NULL, &folded);
    int rc = batch_run(session->link, reterr);
    for (size_t i = 0; i < ARRAY_LENGTH(statements) && rc == PR_OK; i++)
        note_removed(session, removed(deleted[i]), PURGE_PIECE);
    session->purge_found |= rc == PR_OK && removed(folded) > 0;
    return rc;
}

/* One statement with its own retention time. */
static int purge_older(struct pg_session *session, const char *sql, int piece, int64_t keep_us, struct pr_error *reterr)
{
    PGresult *deleted = NULL;
    struct args args = { .count = 0 };
    arg_time(&args, pg_store_wall_us(session->store));
    arg_i32(&args, piece);
    arg_i64(&args, keep_us);
    link_add(session->link, sql, NO_BOX, &args, &deleted);
    int rc = batch_run(session->link, reterr);
    if (rc == PR_OK)
        note_removed(session, removed(deleted), piece);
    return rc;
}

static int purge_audit(struct pg_session *session, struct pr_error *reterr)
{
    int64_t keep_us = session->retention.audit_us;
    return keep_us != 0 ? purge_older(session, PURGE_AUDIT, PURGE_PIECE, keep_us, reterr) : PR_OK;
}

static int purge_ended(struct pg_session *session, struct pr_error *reterr)
{
    return purge_older(session, PURGE_ENDED, ENDED_PIECE, session->retention.ended_us, reterr);
}

/* In pieces of this box: a mark whose id is in the box, or among its dead letters, is looked at again later
 * (core/mark.h). */
static int purge_marks(struct pg_session *session, struct pr_error *reterr)
{
    PGresult *counts[ARRAY_LENGTH(purges_of_marks)] = { NULL };
    struct args args = { .count = 0 };
    if (session->dedupe_us == 0 && !session->marks_left)
        return PR_OK;
    arg_time(&args, pg_store_wall_us(session->store));
    arg_i32(&args, PURGE_PIECE);
    arg_i64(&args, mark_look_again_us(session->dedupe_us));
    for (size_t k = 0; k < ARRAY_LENGTH(purges_of_marks); k++)
        link_add(session->link, purges_of_marks[k], session->box, &args, &counts[k]);
    int rc = batch_run(session->link, reterr);
    if (rc != PR_OK)
        return rc;
    session->marks_left = false;
    for (size_t k = 0; k < ARRAY_LENGTH(purges_of_marks); k++) {
        note_removed(session, field_i64(counts[k], 0, 0), PURGE_PIECE);
        session->marks_left |= field_bool(counts[k], 0, 1);
    }
    return PR_OK;
}

/* Notices must be committed in the order of their numbers.  While another transaction writes one, this one does not
 * wait, but tries again later. */
static int dead_delete(struct pg_session *session, struct args *args, struct pr_error *reterr)
{
    PGresult *count = NULL;
    arg_i32(args, PURGE_PIECE);
    arg_i32(args, NOTICE_GONE);
    link_add_begin(session->link);
    link_add(session->link, "LOCK TABLE {schema}.control IN EXCLUSIVE MODE NOWAIT", NO_BOX, NULL, NULL);
    link_add(session->link, PURGE_DEAD, NO_BOX, args, &count);
    int rc = transaction_run(session->link, reterr);
    if (rc != PR_OK)
        return rc;
    note_removed(session, field_i64(count, 0, 0), PURGE_PIECE);
    log_emit(session->store->log, LOG_INFO, "dead_letters_removed", LOG_INT("count", field_i64(count, 0, 0)));
    return PR_OK;
}

static int purge_dead(struct pg_session *session, struct pr_error *reterr)
{
    PGresult *over = NULL;
    struct args args = { .count = 0 };
    if (session->retention.dead_us == 0)
        return PR_OK;
    arg_time(&args, pg_store_wall_us(session->store));
    arg_i64(&args, session->retention.dead_us);
    int rc = link_do(session->link, DEAD_ARE_OVER, NO_BOX, &args, &over, reterr);
    return rc == PR_OK && PQntuples(over) > 0 ? dead_delete(session, &args, reterr) : rc;
}

/* ---- The whole -------------------------------------------------------------------------------------- */

static int64_t mono_us(const struct postgres_store *store)
{
    return clock_mono_us(store->clock != NULL ? store->clock : clock_system());
}

static void purge_now(struct pg_session *session)
{
    static int (*const purges[])(struct pg_session *, struct pr_error *) = { purge_usual, purge_audit, purge_dead,
                                                                             purge_ended, purge_marks };
    struct pr_error error;
    int64_t now_us = mono_us(session->store), again_us = PURGE_EVERY_US;
    bool wrote = session->purge_wrote;
    size_t mark = session->link->result_count; /* earlier results belong to a reply */
    pg_prefetch_drop(session);
    session->purge_more = session->purge_found = session->purge_wrote = false;
    for (size_t i = 0; i < ARRAY_LENGTH(purges) && link_is_up(session->link); i++) {
        if (purges[i](session, &error) == PR_OK || strcmp(session->link->state, LOCK_NOT_FREE) == 0)
            continue;
        log_emit(session->store->log, LOG_WARN, "purge_failed", LOG_SLICE("box", session->box),
                 LOG_STR("error", error.text));
        again_us = PURGE_FAILED_US;
    }
    session->purge_rests = !wrote && !session->purge_found && again_us < PURGE_IDLE_US;
    if (session->purge_rests)
        again_us = PURGE_IDLE_US;
    session->purge_at_us = time_add(now_us, session->purge_more ? PURGE_AGAIN_US : again_us);
    link_forget_after(session->link, mark);
}

/* Only after the join it is known whether the tables fit this program, and what to keep. */
static bool is_due(const struct pg_session *session, int64_t late_us)
{
    return session->epoch != 0 && mono_us(session->store) >= time_add(session->purge_at_us, late_us);
}

void pg_purge_while_waiting(struct pg_session *session)
{
    if (is_due(session, 0) && link_is_up(session->link))
        purge_now(session);
}

/* There will be something to remove. */
static void note_written(struct pg_session *session)
{
    session->purge_wrote = true;
    if (session->purge_rests)
        session->purge_at_us = min64(session->purge_at_us, time_add(mono_us(session->store), PURGE_EVERY_US));
    session->purge_rests = false;
}

void pg_purge_before_cycle(struct pg_session *session, const struct cycle *cycle)
{
    session->retention = cycle->retention;
    session->dedupe_us = cycle->dedupe_us;
    if (pg_cycle_changes(cycle))
        note_written(session);
    if (cycle->epoch != 0 && is_due(session, session->purge_more ? 0 : PURGE_LATE_US))
        purge_now(session);
}
