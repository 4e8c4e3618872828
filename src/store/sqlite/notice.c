/* notice.c - notices of operators' actions for running instances; and the rows of endpoints. */
#include "base/error.h"
#include "base/slice.h"
#include "store/sqlite/sqlite.h"

#define NOTICES_PER_CYCLE 1000

static int slice_keep(struct arena *arena, pr_slice s, pr_slice *ret, struct pr_error *reterr)
{
    *ret = slice_dup(arena, s);
    return ret->data != NULL ? PR_OK : error_set(reterr, PR_ENOMEM, "out of memory for a reply");
}

/* ---- Endpoints ---------------------------------------------------------------------- */

static int endpoint_take(sqlite3_stmt *s, struct arena *arena, struct endpoint_state *ret, struct pr_error *reterr)
{
    *ret = (struct endpoint_state){
        .paused_until_us = sqlite3_column_int64(s, 1),
        .sent = (uint64_t)sqlite3_column_int64(s, 4),
        .failed = (uint64_t)sqlite3_column_int64(s, 5),
        .dead = (uint64_t)sqlite3_column_int64(s, 6),
        .discarded = (uint64_t)sqlite3_column_int64(s, 7),
        .expired = (uint64_t)sqlite3_column_int64(s, 8),
        .last_failed_us = sqlite3_column_int64(s, 9),
        .last_reason = sqlite3_column_int(s, 10),
        .failed_in_row = (uint64_t)sqlite3_column_int64(s, 13),
        .duplicates = (uint64_t)sqlite3_column_int64(s, 14),
    };
    int rc = slice_keep(arena, column_slice(s, 0), &ret->name, reterr);
    if (rc == PR_OK)
        rc = slice_keep(arena, column_slice(s, 2), &ret->by, reterr);
    if (rc == PR_OK)
        rc = slice_keep(arena, column_slice(s, 3), &ret->why, reterr);
    if (rc == PR_OK)
        rc = slice_keep(arena, column_slice(s, 11), &ret->last_code, reterr);
    if (rc == PR_OK)
        rc = slice_keep(arena, column_slice(s, 12), &ret->last_error, reterr);
    return rc;
}

int endpoints_read(struct conn *conn, struct arena *arena, struct endpoint_state **ret, size_t *ret_count,
                   struct pr_error *reterr)
{
    const pr_slice no_box = { NULL, 0 };
    int64_t room;
    sqlite3_stmt *statement;
    int rc = conn_int(conn, "SELECT count(*) FROM postrider_endpoint", no_box, NULL, 0, &room, reterr);
    if (rc != PR_OK)
        return rc;
    struct endpoint_state *list = arena_alloc_array(arena, (size_t)room, sizeof(*list));
    if (list == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for %lld endpoints", (long long)room);
    rc = conn_bind(conn,
                   "SELECT name, paused_until, paused_by, paused_why, sent, failed, dead, discarded, expired,"
                   " last_failed_at, last_reason, last_code, last_error, failed_in_row, duplicates FROM"
                   " postrider_endpoint"
                   " ORDER BY name LIMIT ?1",
                   no_box, VALUES(V_INT(room)), &statement, reterr);
    if (rc != PR_OK)
        return rc;
    size_t count = 0;
    while ((rc = conn_step(conn, statement, reterr)) > 0) {
        int fault = endpoint_take(statement, arena, &list[count++], reterr);
        if (fault != PR_OK) {
            sqlite3_reset(statement);
            return fault;
        }
    }
    if (rc == PR_OK) {
        *ret = list;
        *ret_count = count;
    }
    return rc;
}

/* Of two pauses the later end applies; an expired one does not count.  PR_UNKNOWN: nothing changed. */
static int pause_set(struct sqlite_cycle *run, const struct pause *p)
{
    const pr_slice no_box = { NULL, 0 };
    int64_t until_us = p->for_us == PR_NEVER ? PR_NEVER : time_add(run->now_us, p->for_us);
    int64_t current_us = 0;
    int rc = conn_int(run->conn, "SELECT paused_until FROM postrider_endpoint WHERE name = ?1", no_box,
                      VALUES(V_TEXT(p->endpoint)), &current_us, run->reterr);

    if (rc < 0)
        return rc;
    if (until_us <= run->now_us || until_us <= current_us)
        return PR_UNKNOWN;
    rc =
        conn_do(run->conn,
                "INSERT INTO postrider_endpoint (name, paused_until, paused_by, paused_why) VALUES (?1, ?2, ?3, ?4)"
                " ON CONFLICT (name) DO UPDATE SET paused_until = ?2, paused_by = ?3, paused_why = ?4",
                no_box, VALUES(V_TEXT(p->endpoint), V_INT(until_us), V_TEXT(p->by), V_TEXT(p->why)), NULL, run->reterr);
    if (rc < 0)
        return rc;
    return conn_do(
        run->conn,
        "INSERT INTO postrider_control (mono_at, box, kind, row, seq, endpoint) VALUES (?1, '', ?2, 0, 0, ?3)", no_box,
        VALUES(V_INT(run->mono_us), V_INT(NOTICE_ENDPOINT), V_TEXT(p->endpoint)), NULL, run->reterr);
}

int pauses_set(struct sqlite_cycle *run)
{
    int rc = PR_OK;

    for (size_t i = 0; i < run->cycle->pause_count && rc >= 0; i++)
        rc = pause_set(run, &run->cycle->pauses[i]);
    return rc < 0 ? rc : PR_OK;
}

/* ---- Notices -------------------------------------------------------------------------- */

static int notice_take(struct sqlite_cycle *run, sqlite3_stmt *s, struct notice *ret)
{
    struct arena *arena = &run->session->arena;
    *ret = (struct notice){
        .number = sqlite3_column_int64(s, 0),
        .kind = (enum notice_kind)sqlite3_column_int(s, 1),
        .row = (uint64_t)sqlite3_column_int64(s, 2),
        .seq = sqlite3_column_int64(s, 3),
    };
    int rc = slice_keep(arena, column_slice(s, 4), &ret->stream, run->reterr);
    return rc == PR_OK ? slice_keep(arena, column_slice(s, 5), &ret->endpoint, run->reterr) : rc;
}

static int notices_take(struct sqlite_cycle *run, bool *ret_endpoints)
{
    struct cycle_reply *reply = &run->session->reply;
    sqlite3_stmt *statement;
    int rc = conn_bind(run->conn,
                       "SELECT number, kind, row, seq, stream, endpoint FROM postrider_control WHERE number > ?1"
                       " AND box IN ('', '{box}') ORDER BY number LIMIT ?2",
                       run->session->box, VALUES(V_INT(run->cycle->notice_after), V_INT(NOTICES_PER_CYCLE)), &statement,
                       run->reterr);
    if (rc != PR_OK)
        return rc;
    while ((rc = conn_step(run->conn, statement, run->reterr)) > 0) {
        if (reply->notices == NULL)
            reply->notices = arena_alloc_array(&run->session->arena, NOTICES_PER_CYCLE, sizeof(*reply->notices));
        struct notice *notice = reply->notices != NULL ? &reply->notices[reply->notice_count++] : NULL;
        int fault = notice != NULL ? notice_take(run, statement, notice)
                                   : error_set(run->reterr, PR_ENOMEM, "out of memory for notices");
        if (fault != PR_OK) {
            sqlite3_reset(statement);
            return fault;
        }
        *ret_endpoints |= notice->kind == NOTICE_ENDPOINT;
        reply->notice_last = notice->number;
    }
    return rc;
}

static int notice_last(struct sqlite_cycle *run, int64_t *ret)
{
    return conn_int(run->conn, "SELECT seq FROM sqlite_sequence WHERE name = 'postrider_control'", run->session->box,
                    NULL, 0, ret, run->reterr);
}

/* Numbers run without gaps: when the next number is missing, its notice was purged while this instance slept.  Then it
 * has to read everything again; also when there are too many, since an instance that got only a part of them might send
 * a message that was discarded meanwhile. */
static int notices_missed(struct sqlite_cycle *run, bool *ret_missed)
{
    struct cycle_reply *reply = &run->session->reply;
    int64_t oldest = 1, last = 0;
    int rc = conn_int(run->conn,
                      "SELECT coalesce((SELECT min(number) FROM postrider_control),"
                      " (SELECT seq + 1 FROM sqlite_sequence WHERE name = 'postrider_control'), 1)",
                      run->session->box, NULL, 0, &oldest, run->reterr);
    if (rc >= 0)
        rc = notice_last(run, &last);
    *ret_missed =
        rc >= 0 && (oldest > run->cycle->notice_after + 1 || last - run->cycle->notice_after > NOTICES_PER_CYCLE);
    if (!*ret_missed)
        return rc;
    reply->notices = arena_alloc_array(&run->session->arena, 1, sizeof(*reply->notices));
    if (reply->notices == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for notices");
    reply->notices[0] = (struct notice){ .kind = NOTICE_RELOAD };
    reply->notice_count = 1;
    return rc;
}

/* Rows that were changed by hand.  If the reply that reported them was lost, the next one reports them again. */
static int repairs_read(struct sqlite_cycle *run, bool joins)
{
    const struct sqlite_session *session = run->session;
    struct cycle_reply *reply = &run->session->reply;
    int rc = conn_int(run->conn, "SELECT times FROM postrider_repaired WHERE box = '{box}'", session->box, NULL, 0,
                      &run->repaired, run->reterr);
    bool known = run->repaired == session->repaired && run->cycle->number != session->repaired_cycle;
    if (rc < 0 || joins || known)
        return rc;
    struct notice *notices = arena_alloc_array(&run->session->arena, reply->notice_count + 1, sizeof(*notices));
    if (notices == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for notices");
    if (reply->notice_count > 0)
        memcpy(notices, reply->notices, reply->notice_count * sizeof(*notices));
    notices[reply->notice_count++] = (struct notice){ .number = reply->notice_last, .kind = NOTICE_REPAIRED };
    reply->notices = notices;
    log_emit(session->store->log, LOG_INFO, "rows_repaired", LOG_SLICE("box", session->box));
    return PR_OK;
}

int notices_read(struct sqlite_cycle *run, bool joined)
{
    struct cycle_reply *reply = &run->session->reply;
    bool joins = joined || run->cycle->epoch == 0; /* or the answer to a join was lost */
    bool missed = false, endpoints = joins;
    int rc = PR_OK;

    reply->notice_last = run->cycle->notice_after;
    if (!joins) /* and not "after 0", which would return every notice of the store */
        rc = notices_missed(run, &missed);
    if (rc >= 0 && (joins || missed))
        rc = notice_last(run, &reply->notice_last);
    else if (rc >= 0)
        rc = notices_take(run, &endpoints);
    if (rc >= 0 && missed) {
        reply->notices[0].number = reply->notice_last;
        endpoints = true;
    }
    if (rc >= 0)
        rc = repairs_read(run, joins);
    if (rc < 0 || !endpoints)
        return rc < 0 ? rc : PR_OK;
    reply->endpoints_known = true;
    return endpoints_read(run->conn, &run->session->arena, &reply->endpoints, &reply->endpoint_count, run->reterr);
}
