/* The cycle of an idle box: it renews the lease, and checks whether anything has happened.
 *
 * One statement does both, in a transaction of its own.  As long as it finds everything as the latest cycle left it,
 * there is nothing to read: neither rows nor notices, and no lanes to move.  Otherwise a full cycle follows. */
#include "base/error.h"
#include "store/postgres/postgres.h"

static const char RENEW_AND_LOOK[] = "WITH own AS (UPDATE {schema}.instance SET lease_end = " NOW(
    "$10") " + $8 * interval '1 microsecond', lease_us = $8 WHERE id = $5 AND epoch = $6 AND lanes = $7 RETURNING 1)"
           " SELECT " PG_LOOK ", EXISTS (SELECT FROM own), " NOW("$9") ", " NOW(
               "$10") ", pg_postmaster_start_time(), (SELECT b.due_at FROM {box} b WHERE b.due_at < 'infinity'"
                      " AND b.held_by IS NULL AND ($7 >> b.lane) & 1 = 1 ORDER BY b.due_at LIMIT 1)";

enum { COLUMN_OWN = PG_LOOK_COLUMNS, COLUMN_NOW, COLUMN_MONO, COLUMN_START, COLUMN_DUE };

/* Does it read nothing but new and due rows? */
static bool reads_only_news(const struct cycle *c)
{
    return c->restart_lanes == 0 && c->reread.rows == 0 && c->heads.rows == 0 && c->held_keys.rows == 0 &&
           c->held_count == 0 && c->mark_count == 0 && c->alive_count == 0 && c->load_count == 0 &&
           c->evidence_count == 0;
}

bool pg_idle_fits(const struct cycle_run *run)
{
    const struct pg_session *session = run->session;
    const struct cycle *c = run->cycle;
    return session->calm && c->force_write && reads_only_news(c) && !run->link->pooled && !session->fresh_reported &&
           session->scanned_by == run->link->generation && session->reply_link == run->link->generation &&
           c->notice_after != 0 && c->notice_after == session->seen_notice && !pg_sweep_is_due(session);
}

static void add_renewal(struct cycle_run *run, PGresult **ret)
{
    const struct cycle *c = run->cycle;
    struct args args = { .count = 0 };
    pg_look_args(run->session, &args);
    arg_id(&args, c->instance);
    arg_i64(&args, run->epoch);
    arg_i64(&args, (int64_t)run->lanes);
    arg_i64(&args, c->lease_us);
    arg_time(&args, pg_store_wall_us(run->session->store));
    arg_time(&args, pg_store_mono_us(run->session->store));
    link_add(run->link, RENEW_AND_LOOK, run->session->box, &args, ret);
}

static bool is_as_it_was(struct cycle_run *run, const PGresult *r)
{
    const struct pg_session *session = run->session;
    return field_bool(r, 0, COLUMN_OWN) && !pg_look_finds(session, r) && run->server_start == session->server_start &&
           (field_is_null(r, 0, COLUMN_DUE) || field_time(r, 0, COLUMN_DUE) > run->now_us);
}

int pg_idle_run(struct cycle_run *run)
{
    struct cycle_reply *reply = &run->session->reply;
    PGresult *r = NULL;
    add_renewal(run, &r);
    if (run->session->watched_count > 0)
        pg_lease_add_others(run);
    int rc = link_run(run->link, run->reterr);
    if (rc != PR_OK)
        return rc;
    run->now_us = field_time(r, 0, COLUMN_NOW);
    run->mono_us = field_time(r, 0, COLUMN_MONO);
    run->server_start = field_time(r, 0, COLUMN_START);
    run->lease_left_us = run->cycle->lease_us;
    if (run->others != NULL)
        rc = pg_lease_take_others(run);
    if (rc != PR_OK || !is_as_it_was(run, r) || pg_lease_moves_lanes(run))
        return rc == PR_OK ? CYCLE_ANEW : rc;
    reply->now_us = run->now_us;
    reply->notice_last = run->cycle->notice_after;
    reply->fresh_end = reply->due_end = true;
    reply->next_due_us = field_is_null(r, 0, COLUMN_DUE) ? PR_NEVER : field_time(r, 0, COLUMN_DUE);
    rc = pg_lease_tell(run);
    if (rc == PR_OK)
        pg_wait_remember(run);
    return rc;
}
