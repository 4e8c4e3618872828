/* The views: each covers all boxes, so they are dropped and created again when a box is added. */
#include "store/postgres/views.h"

#include "store/people/held_key.h"
#include "store/postgres/message.h"

static const char DROP[] =
    "DROP VIEW IF EXISTS \"{schema}\".messages; DROP VIEW IF EXISTS \"{schema}\".blocked_streams;"
    "DROP VIEW IF EXISTS \"{schema}\".endpoint_overview; DROP VIEW IF EXISTS \"{schema}\".in_flight;"
    "DROP VIEW IF EXISTS \"{schema}\".open_breaker; DROP VIEW IF EXISTS \"{schema}\".audit_log;"
    "DROP VIEW IF EXISTS \"{schema}\".schedules;";

static const char AUDIT[] =
    "CREATE VIEW \"{schema}\".audit_log AS SELECT number, at, who, action, target, why, matched, changed, refused"
    " FROM \"{schema}\".audit;";

static const char IN_FLIGHT[] = "CREATE VIEW \"{schema}\".in_flight AS"
                                " SELECT c.box, u.handle, u.number, i.name AS instance, c.at FROM \"{schema}\".claim c"
                                " JOIN \"{schema}\".instance i ON i.id = c.instance,"
                                " unnest(c.rows, c.numbers) AS u(handle, number);";

/* Breakers that are not closed, of live instances with lanes. */
static const char OPEN[] =
    "CREATE VIEW \"{schema}\".open_breaker AS SELECT b.endpoint, b.type, i.box, i.name AS instance, i.lanes,"
    " CASE WHEN b.until > now() THEN 'open' ELSE 'half-open' END AS state, b.since, b.until, b.probes,"
    " b.failure_reason, b.code, b.error FROM \"{schema}\".breaker b JOIN \"{schema}\".instance i ON i.id = b.instance"
    " WHERE i.lanes <> 0 AND i.lease_end > now();";

static const char ENDPOINTS[] =
    "CREATE VIEW \"{schema}\".endpoint_overview AS"
    " SELECT n.name, CASE WHEN e.paused_until > now() THEN 'paused' ELSE coalesce(o.state, 'ok') END AS state,"
    " CASE WHEN e.paused_until > now() THEN e.paused_until END AS paused_until, e.paused_by, e.paused_why,"
    " coalesce(e.sent, 0) + coalesce(t.sent, 0) AS sent, coalesce(e.failed, 0) + coalesce(t.failed, 0) AS failed,"
    " " PG_FAILED_IN_ROW(
        "\"{schema}\".tally") "::bigint AS failed_in_row,"
                              " coalesce(e.dead, 0) + coalesce(t.dead, 0) AS dead, coalesce(e.discarded, 0) + "
                              "coalesce(t.discarded, 0) AS "
                              "discarded,"
                              " coalesce(e.expired, 0) + coalesce(t.expired, 0) AS expired,"
                              " coalesce(e.duplicates, 0) + coalesce(t.duplicates, 0) AS duplicates,"
                              " (SELECT count(*) FROM \"{schema}\".dead_letter d WHERE d.endpoint = n.name) AS "
                              "dead_letters,"
                              " coalesce(f.failed_at, e.last_failed_at) AS last_failed_at,"
                              " CASE WHEN f.failed_at IS NULL THEN e.last_reason ELSE f.reason END AS last_reason,"
                              " CASE WHEN f.failed_at IS NULL THEN e.last_code ELSE f.code END AS last_code,"
                              " CASE WHEN f.failed_at IS NULL THEN e.last_error ELSE f.error END AS last_error,"
                              " o.since AS open_since, o.until AS next_probe"
                              " FROM (SELECT name FROM \"{schema}\".endpoint UNION SELECT endpoint FROM "
                              "\"{schema}\".tally) n"
                              " LEFT JOIN \"{schema}\".endpoint e ON e.name = n.name"
                              " LEFT JOIN (SELECT endpoint, sum(sent)::bigint AS sent, sum(failed)::bigint AS failed, "
                              "sum(dead)::bigint AS dead,"
                              " sum(discarded)::bigint AS discarded, sum(expired)::bigint AS expired, "
                              "sum(duplicates)::bigint AS "
                              "duplicates,"
                              " max(sent_at) AS sent_at FROM \"{schema}\".tally GROUP BY endpoint) t"
                              " ON t.endpoint = n.name"
                              " LEFT JOIN (SELECT DISTINCT ON (endpoint) endpoint, failed_at, reason, code, error FROM "
                              "\"{schema}\".tally"
                              " WHERE failed_at IS NOT NULL ORDER BY endpoint, failed_at DESC) f ON f.endpoint = n.name"
                              " LEFT JOIN (SELECT endpoint, max(state) AS state, min(since) AS since, min(until) AS "
                              "until"
                              " FROM \"{schema}\".open_breaker GROUP BY endpoint) o ON o.endpoint = n.name;";

/* Same as state_of_row(), considering receipts and pauses.  A ready or retrying row may wait for an endpoint that
 * fails: see endpoint_state. */
static const char MESSAGES[] =
    "SELECT '{box}'::text AS box, coalesce(b.row_id, b.seq) AS row_id, b.seq, b.id,"
    " CASE WHEN (coalesce(b.row_id, b.seq) << 6 | b.lane, b.attempts) IN"
    " (SELECT handle, number - 1 FROM \"{schema}\".in_flight WHERE box = '{box}') THEN 'in-flight'"
    " WHEN b.due_at = 'infinity' THEN 'parked'"
    " WHEN b.held_by IS NOT NULL AND coalesce(b.held_for, 1) <> 2 THEN 'held'"
    " WHEN b.due_at > now() AND (b.status & 32768) = 0 AND b.attempts = 0 THEN 'delayed'"
    " WHEN b.destination IN (SELECT name FROM \"{schema}\".endpoint WHERE paused_until > now()) THEN 'paused'"
    " WHEN b.due_at > now() THEN 'retrying'"
    " ELSE 'ready' END AS state,"
    " b.type, b.stream, b.destination, b.correlation_id, b.created_at,"
    " CASE WHEN b.due_at < 'infinity' THEN b.due_at END AS due_at, b.expires_at,"
    " b.status | CASE WHEN b.event THEN 2 ELSE 0 END AS status, b.attempts, b.failures,"
    " b.failure_reason, b.code, b.error, b.failed_at, b.held_by, b.headers, b.story,"
    " coalesce(" MESSAGE_SIZE ", 0) AS payload_size,"
    " (SELECT max(o.state) FROM \"{schema}\".open_breaker o WHERE o.endpoint = b.destination AND o.box = '{box}'"
    " AND o.type IN ('', b.type) AND (o.lanes >> b.lane) & 1 = 1) AS endpoint_state,"
    " CASE WHEN b.due_at = 'infinity' THEN (ARRAY['route', 'rule', 'person'])[b.parked_by] END AS parked_by FROM "
    "\"{schema}\".\"{box}\" b";

/* Same as streams --blocked: each stream that is held back, and behind what.  The view knows neither which endpoints
 * are strict (rows held without a failed head before them wait for the first parked or dead one) nor the routes (rows
 * that were parked or made dead before they had an endpoint may belong to any).  The endpoint is taken from the key
 * (held_endpoint()): the row of a routed message has none. */
static const char BLOCKED[] =
    "SELECT '{box}'::text AS box, h.stream, CASE WHEN d.id IS NULL THEN h.id ELSE d.id END AS head,"
    " CASE WHEN d.id IS NULL THEN h.seq ELSE d.seq END AS seq,"
    " CASE WHEN d.id IS NULL THEN h.failure_reason ELSE coalesce(nullif(d.failure_reason, 0), d.cause) END AS "
    "failure_reason,"
    " CASE WHEN d.id IS NULL THEN h.error ELSE d.error END AS error,"
    " CASE WHEN d.id IS NULL AND h.due_at < 'infinity' THEN h.due_at END AS due_at,"
    " h.held - CASE WHEN d.id IS NULL AND h.held_by = h.key THEN 1 ELSE 0 END AS held, h.endpoint,"
    " CASE WHEN d.id IS NOT NULL THEN 'dead' WHEN h.due_at = 'infinity' THEN 'parked' ELSE 'failed' END AS head_state"
    " FROM (SELECT DISTINCT ON (k.key) k.key, k.endpoint, k.stream, k.held, k.first, r.id, r.seq, r.failure_reason, "
    "r.error,"
    " r.due_at, r.held_by FROM (SELECT b.held_by AS key, " POSTGRES_HELD_ENDPOINT(
        "b.held_by") " AS endpoint,"
                     " max(b.stream) AS stream, count(*) AS held, min(b.seq) AS first"
                     " FROM \"{schema}\".\"{box}\" b WHERE b.held_by IS NOT NULL AND coalesce(b.held_for, 1) <> 2 "
                     "GROUP BY b.held_by) k"
                     " LEFT JOIN (SELECT b.*, CASE b.destination WHEN '' THEN"
                     " jsonb_path_query_array(b.story::jsonb, '$[*].endpoint') ->> -1 ELSE b.destination END AS "
                     "endpoint"
                     " FROM \"{schema}\".\"{box}\" b WHERE " MESSAGE_IS_HEAD " AND b.stream <> '') r"
                     " ON r.stream = k.stream AND coalesce(r.endpoint, k.endpoint) = k.endpoint"
                     " ORDER BY k.key, r.due_at = 'infinity', r.seq) h"
                     " LEFT JOIN LATERAL (SELECT d.id, d.seq, d.failure_reason, d.cause, d.error FROM "
                     "\"{schema}\".dead_letter d"
                     " WHERE (h.id IS NULL OR h.due_at = 'infinity') AND left(d.stream, 255) = left(h.stream, 255)"
                     " AND d.stream = h.stream AND d.box = '{box}' AND d.endpoint IN (h.endpoint, '') AND d.seq < "
                     "least(h.first, h.seq)"
                     " AND d.edited_as IS NULL ORDER BY d.seq LIMIT 1) d ON true"
                     " WHERE d.id IS NOT NULL OR (h.id IS NOT NULL AND (h.held > 1 OR h.held_by IS DISTINCT FROM "
                     "h.key))";

/* Schedules that can be decoded (others become dead letters); a wish that its owner has not seen yet is new. */
static const char SCHEDULES[] =
    "SELECT '{box}'::text AS box, b.stream AS name, m.cron, coalesce(m.zone, 'UTC') AS zone,"
    " coalesce(m.missed, 'once') AS missed, CASE WHEN b.due_at < 'infinity' AND b.id = own.id THEN b.due_at END AS "
    "next_at,"
    " CASE WHEN b.due_at = 'infinity' THEN 'paused' WHEN (b.status & 32768) <> 0 THEN 'failing'"
    " WHEN b.due_at IS NULL OR b.id <> own.id THEN 'new' ELSE 'active' END AS state,"
    " CASE WHEN (b.status & 32768) <> 0 THEN b.error END AS error"
    " FROM \"{schema}\".\"{box}\" b, LATERAL (SELECT \"{schema}\".schedule_member(b.payload, 'cron') AS cron,"
    " \"{schema}\".schedule_member(b.payload, 'zone') AS zone,"
    " \"{schema}\".schedule_member(b.payload, 'missed') AS missed) m,"
    " LATERAL (SELECT \"{schema}\".schedule_row_id(b.stream) AS id) own"
    " WHERE b.destination = 'schedule:' AND m.cron IS NOT NULL";

static void view_add(struct buf *b, const char *name, const char *select, pr_slice schema, const PGresult *boxes)
{
    buf_add_cstr(b, "CREATE VIEW \"");
    buf_add_slice(b, schema);
    buf_addf(b, "\".%s AS ", name);
    for (int i = 0; i < PQntuples(boxes); i++) {
        buf_add_cstr(b, i > 0 ? " UNION ALL " : "");
        pg_script_expand(b, select, schema, (struct pg_box){ field_slice(boxes, i, 0), field_slice(boxes, i, 1) });
    }
    buf_add_char(b, ';');
}

void pg_views_write(struct buf *b, pr_slice schema, const PGresult *boxes)
{
    const struct pg_box no_box = { { NULL, 0 }, { NULL, 0 } };
    pg_script_expand(b, DROP, schema, no_box);
    pg_script_expand(b, IN_FLIGHT, schema, no_box);
    pg_script_expand(b, OPEN, schema, no_box);
    pg_script_expand(b, ENDPOINTS, schema, no_box);
    pg_script_expand(b, AUDIT, schema, no_box);
    view_add(b, "messages", MESSAGES, schema, boxes);
    view_add(b, "blocked_streams", BLOCKED, schema, boxes);
    view_add(b, "schedules", SCHEDULES, schema, boxes);
}
