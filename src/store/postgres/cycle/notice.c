/* Notices of operators' actions for running instances; and the rows of endpoints. */
#include "base/error.h"
#include "base/slice.h"
#include "store/postgres/postgres.h"
#include "store/postgres/views.h"

#define NOTICES_PER_CYCLE 256

/* ---- Endpoints -------------------------------------------------------------------------------- */

const char PG_ENDPOINTS[] =
    "SELECT n.name, e.paused_until, e.paused_by, e.paused_why,"
    " coalesce(e.sent, 0) + coalesce(t.sent, 0)::bigint, coalesce(e.failed, 0) + coalesce(t.failed, 0)::bigint,"
    " coalesce(e.dead, 0) + coalesce(t.dead, 0)::bigint, coalesce(e.discarded, 0) + coalesce(t.discarded, 0)::bigint,"
    " coalesce(e.expired, 0) + coalesce(t.expired, 0)::bigint,"
    " coalesce(e.duplicates, 0) + coalesce(t.duplicates, 0)::bigint,"
    " coalesce(f.failed_at, e.last_failed_at), CASE WHEN f.failed_at IS NULL THEN e.last_reason ELSE f.reason END,"
    " CASE WHEN f.failed_at IS NULL THEN e.last_code ELSE f.code END,"
    " CASE WHEN f.failed_at IS NULL THEN e.last_error ELSE f.error END,"
    " " PG_FAILED_IN_ROW(
        "{schema}.tally") "::bigint"
                          " FROM (SELECT name FROM {schema}.endpoint UNION SELECT endpoint FROM {schema}.tally) n"
                          " LEFT JOIN {schema}.endpoint e ON e.name = n.name"
                          " LEFT JOIN (SELECT endpoint, sum(sent) AS sent, sum(failed) AS failed, sum(dead) AS dead, "
                          "sum(discarded) AS "
                          "discarded,"
                          " sum(expired) AS expired, sum(duplicates) AS duplicates, max(sent_at) AS sent_at FROM "
                          "{schema}.tally GROUP BY endpoint) t "
                          "ON t.endpoint = n.name"
                          " LEFT JOIN (SELECT DISTINCT ON (endpoint) endpoint, failed_at, reason, code, error FROM "
                          "{schema}.tally"
                          " WHERE failed_at IS NOT NULL ORDER BY endpoint, failed_at DESC) f ON f.endpoint = n.name "
                          "ORDER BY n.name";

int pg_endpoints_take(const PGresult *r, struct arena *arena, struct endpoint_state **ret, size_t *ret_count,
                      struct pr_error *reterr)
{
    int count = PQntuples(r);
    struct endpoint_state *list = arena_alloc_array(arena, (size_t)count, sizeof(list[0]));
    if (list == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for %d endpoints", count);
    for (int i = 0; i < count; i++) {
        list[i] = (struct endpoint_state){
            .name = slice_dup(arena, field_slice(r, i, 0)),
            .paused_until_us = field_time(r, i, 1),
            .by = slice_dup(arena, field_slice(r, i, 2)),
            .why = slice_dup(arena, field_slice(r, i, 3)),
            .sent = (uint64_t)field_i64(r, i, 4),
            .failed = (uint64_t)field_i64(r, i, 5),
            .dead = (uint64_t)field_i64(r, i, 6),
            .discarded = (uint64_t)field_i64(r, i, 7),
            .expired = (uint64_t)field_i64(r, i, 8),
            .duplicates = (uint64_t)field_i64(r, i, 9),
            .last_failed_us = field_time(r, i, 10),
            .last_reason = field_int(r, i, 11),
            .failed_in_row = (uint64_t)field_i64(r, i, 14),
            .last_code = slice_dup(arena, field_slice(r, i, 12)),
            .last_error = slice_dup(arena, field_slice(r, i, 13)),
        };
        if (list[i].name.data == NULL || list[i].by.data == NULL || list[i].why.data == NULL ||
            list[i].last_code.data == NULL || list[i].last_error.data == NULL)
            return error_set(reterr, PR_ENOMEM, "out of memory for %d endpoints", count);
    }
    *ret = list;
    *ret_count = (size_t)count;
    return PR_OK;
}

/* ---- Notices ---------------------------------------------------------------------------------- */

/* With the store's clocks, and at least one row: if there are no notices, its number is NULL. */
void pg_notices_add(struct cycle_run *run)
{
    struct args args = { .count = 0 };
    arg_time(&args, pg_store_wall_us(run->session->store));
    arg_time(&args, pg_store_mono_us(run->session->store));
    arg_text(&args, run->session->box);
    if (run->cycle->notice_after == 0) {
        link_add(run->link,
                 "SELECT " NOW("$1") ", " NOW("$2") ", pg_postmaster_start_time(), " REPAIRED(
                     "$3") ", coalesce(max(number), 1)"
                           " FROM {schema}.control",
                 NO_BOX, &args, &run->control);
        return;
    }
    arg_i64(&args, run->cycle->notice_after);
    arg_i32(&args, NOTICES_PER_CYCLE);
    link_add(run->link,
             "SELECT t.*, c.* FROM (SELECT " NOW("$1") ", " NOW("$2") ", pg_postmaster_start_time(), " REPAIRED(
                 "$3") ") t LEFT JOIN LATERAL"
                       " (SELECT number, kind, \"row\", seq, stream, endpoint FROM {schema}.control"
                       " WHERE number > $4 AND box IN ('', $3) ORDER BY number LIMIT $5) c ON true",
             NO_BOX, &args, &run->control);
}

void pg_clock_take(struct cycle_run *run)
{
    run->now_us = field_time(run->control, 0, 0);
    run->mono_us = field_time(run->control, 0, 1);
    run->server_start = field_time(run->control, 0, 2);
    run->session->reply.now_us = run->now_us;
}

#define COLUMN_REPAIRED 3
#define COLUMN_NUMBER 4

int pg_notices_take(struct cycle_run *run)
{
    struct cycle_reply *reply = &run->session->reply;
    const PGresult *r = run->control;
    int count = field_is_null(r, 0, COLUMN_NUMBER) ? 0 : PQntuples(r);

    reply->endpoints_known = run->cycle->epoch == 0 || run->cycle->pause_count > 0; /* includes pauses of this cycle */
    reply->notice_last = run->cycle->notice_after;
    if (run->cycle->notice_after == 0) {
        reply->notice_last = field_i64(r, 0, COLUMN_NUMBER);
        return pg_repairs_take(run, field_i64(r, 0, COLUMN_REPAIRED));
    }
    reply->notices = arena_alloc_array(&run->session->arena, (size_t)count + 1, sizeof(reply->notices[0]));
    if (reply->notices == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for %d notices", count);
    /* An instance that got only a part of them might send a message that was discarded meanwhile. */
    if (count == NOTICES_PER_CYCLE) {
        reply->notice_last = field_i64(r, count - 1, COLUMN_NUMBER);
        reply->notices[reply->notice_count++] = (struct notice){ .number = reply->notice_last, .kind = NOTICE_RELOAD };
        reply->endpoints_known = true;
        return pg_repairs_take(run, field_i64(r, 0, COLUMN_REPAIRED));
    }
    for (int i = 0; i < count; i++) {
        struct notice *n = &reply->notices[reply->notice_count++];
        *n = (struct notice){
            .number = field_i64(r, i, COLUMN_NUMBER),
            .kind = (enum notice_kind)field_int(r, i, COLUMN_NUMBER + 1),
            .row = (uint64_t)field_i64(r, i, COLUMN_NUMBER + 2),
            .seq = field_i64(r, i, COLUMN_NUMBER + 3),
            .stream = field_slice(r, i, COLUMN_NUMBER + 4),
            .endpoint = field_slice(r, i, COLUMN_NUMBER + 5),
        };
        reply->notice_last = n->number;
        reply->endpoints_known |= n->kind == NOTICE_ENDPOINT;
    }
    return pg_repairs_take(run, field_i64(r, 0, COLUMN_REPAIRED));
}
