/* What people SELECT from. */
#include "base/buf.h"
#include "store/people/held_key.h"
#include "store/sqlite/message.h"
#include "store/sqlite/migrate.h"
#include "store/sqlite/sqlite.h"

/* clang-format off */
#define NOW_US "CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) * 1000"
#define ID_TEXT_OF(id)                                                                                                 \
    "CASE WHEN typeof(" id ") = 'blob' THEN lower(substr(hex(" id "), 1, 8) || '-' || substr(hex(" id "), 9, 4)"       \
    " || '-' || substr(hex(" id "), 13, 4) || '-' || substr(hex(" id "), 17, 4) || '-' || substr(hex(" id "), 21))"    \
    " ELSE " id " END"
#define ID_TEXT ID_TEXT_OF("b.id")

static const char IN_FLIGHT[] =
    "CREATE VIEW postrider_in_flight AS SELECT c.box, CAST(e.key AS INTEGER) AS row_id, e.value AS number,"
    " i.name AS instance, c.at FROM postrider_claim c JOIN postrider_instance i ON i.id = c.instance, "
    "json_each(c.entries) e;";

/* Breakers that are not closed, of live instances with lanes. */
#define TIME_TEXT(column)                                                                                              \
    "CASE WHEN " column " < 9223372036854775807 THEN strftime('%Y-%m-%dT%H:%M:%fZ', " column " / 1e6, 'unixepoch') "   \
    "END"
static const char OPEN[] =
    "CREATE VIEW postrider_open_breaker AS SELECT b.endpoint, b.type, i.box, i.name AS instance,"
    " CASE WHEN b.until > " NOW_US
    " THEN 'open' ELSE 'half-open' END AS state, " TIME_TEXT("b.since") " AS since, " TIME_TEXT(
        "b.until") " AS until, b.probes, b.failure_reason, b.code, b.error"
                   " FROM postrider_breaker b JOIN postrider_instance i ON i.id = b.instance "
                   "WHERE i.lanes > 0 AND i.lease_wall > " NOW_US ";";

#define MESSAGE_TIMES                                                                                                  \
    " " TIME_TEXT("b.created_at") " AS created_at, " TIME_TEXT("b.due_at") " AS due_at, " TIME_TEXT(                   \
        "b.expires_at") " AS expires_at,"
#define MESSAGE_FAILED_AT " " TIME_TEXT("nullif(b.failed_at, 0)") " AS failed_at,"

/* Same as state_of_row(), considering receipts and pauses.  A ready or retrying row may wait for an endpoint that
 * fails: see endpoint_state. */
static const char MESSAGES[] =
    "SELECT '{box}' AS box, b.row_id, b.seq, " ID_TEXT " AS id,"
    " CASE WHEN (b.row_id, b.attempts + 1) IN (SELECT row_id, number FROM postrider_in_flight WHERE box = '{box}') "
    "THEN "
    "'in-flight'"
    " WHEN b.due_at = 9223372036854775807 THEN 'parked'"
    " WHEN b.held_by IS NOT NULL AND coalesce(b.held_for, 1) <> 2 THEN 'held'"
    " WHEN b.due_at > " NOW_US " AND (b.status & 32768) = 0 AND b.attempts = 0 THEN 'delayed'"
    " WHEN b.destination IN (SELECT name FROM postrider_endpoint WHERE paused_until > " NOW_US ") THEN 'paused'"
    " WHEN b.due_at > " NOW_US " THEN 'retrying'"
    " ELSE 'ready' END AS state,"
    " b.type, b.stream, b.destination, b.correlation_id," MESSAGE_TIMES
    " b.status | iif(b.event, 2, 0) AS status, b.attempts, b.failures, b.failure_reason, b.code, "
    "b.error," MESSAGE_FAILED_AT
    " b.held_by, b.headers, b.story, coalesce(length(CAST(b.payload AS BLOB)), 0) AS payload_size,"
    " (SELECT max(o.state) FROM postrider_open_breaker o WHERE o.endpoint = b.destination AND o.box = '{box}'"
    " AND o.type IN ('', b.type)) AS endpoint_state,"
    " CASE WHEN b.due_at = 9223372036854775807 THEN CASE b.parked_by WHEN 1 THEN 'route' WHEN 2 THEN 'rule' WHEN 3 THEN"
    " 'person' END END AS parked_by"
    " FROM \"{box}\" b";

/* Same as streams --blocked: each stream that is held back, and behind what.  The view knows neither which endpoints
 * are strict (rows held without a failed head before them wait for the first parked or dead one) nor the routes (rows
 * that were parked or made dead before they had an endpoint may belong to any).  Of several heads the other columns are
 * of the one with the lowest rank.  The endpoint is taken from the key (held_endpoint()): the row of a routed message
 * has none. */
#define NEVER "9223372036854775807"
#define OF_HEAD(column, of_dead) " CASE WHEN d.row_id IS NULL THEN h." column " ELSE " of_dead " END AS " column ","
static const char BLOCKED[] =
    "SELECT '{box}' AS box, h.stream, CASE WHEN d.row_id IS NULL THEN h.id ELSE " ID_TEXT_OF("d.id") " END AS head,"
    OF_HEAD("seq", "d.seq") OF_HEAD("failure_reason", "coalesce(nullif(d.failure_reason, 0), d.cause)")
    OF_HEAD("error", "d.error") " CASE WHEN d.row_id IS NULL THEN " TIME_TEXT("h.due_at") " END AS due_at,"
    " h.held - (d.row_id IS NULL AND h.held_by IS h.key) AS held, h.endpoint,"
    " CASE WHEN d.row_id IS NOT NULL THEN 'dead' WHEN h.due_at = " NEVER " THEN 'parked' ELSE 'failed' END AS head_state"
    " FROM (SELECT k.key, k.endpoint, k.stream, k.held, k.first, r.id, r.seq, r.failure_reason, r.error, r.due_at,"
    " r.held_by, min(r.rank) FROM (SELECT held_by AS key, " SQLITE_HELD_ENDPOINT("held_by") " AS endpoint,"
    " max(stream) AS stream, count(*) AS held, min(seq) AS first FROM \"{box}\""
    " WHERE held_by IS NOT NULL AND coalesce(held_for, 1) <> 2 GROUP BY held_by) k"
    " LEFT JOIN (SELECT stream, CASE destination WHEN '' THEN (SELECT json_extract(value, '$.endpoint') FROM"
    " json_each(story) WHERE json_extract(value, '$.endpoint') <> '' ORDER BY key DESC LIMIT 1) ELSE destination END"
    " AS endpoint, " ID_TEXT_OF("id") " AS id, seq, failure_reason, error, due_at, held_by,"
    " (due_at = " NEVER ") << 62 | seq AS rank FROM \"{box}\" WHERE " MESSAGE_IS_HEAD " AND stream <> '') r"
    " ON r.stream = k.stream AND coalesce(r.endpoint, k.endpoint) = k.endpoint GROUP BY k.key) h"
    " LEFT JOIN postrider_dead_letter d ON d.row_id = CASE WHEN h.id IS NULL OR h.due_at = " NEVER " THEN (SELECT"
    " x.row_id FROM postrider_dead_letter x WHERE x.stream = h.stream AND x.box = '{box}' AND x.endpoint IN (h.endpoint, '')"
    " AND x.seq < min(h.first, coalesce(h.seq, h.first)) AND x.edited_as IS NULL ORDER BY x.seq LIMIT 1) END"
    " WHERE d.row_id IS NOT NULL OR (h.id IS NOT NULL AND (h.held > 1 OR h.held_by IS NOT h.key))";

static const char ENDPOINTS[] =
    "CREATE VIEW postrider_endpoint_overview AS SELECT name, CASE WHEN paused_until > " NOW_US " THEN 'paused'"
    " ELSE coalesce((SELECT max(o.state) FROM postrider_open_breaker o WHERE o.endpoint = e.name), 'ok') END AS "
    "state,"
    " CASE WHEN paused_until > " NOW_US " AND paused_until < 9223372036854775807"
    " THEN strftime('%Y-%m-%dT%H:%M:%fZ', paused_until / 1e6, 'unixepoch') END AS paused_until,"
    " paused_by, paused_why, sent, failed, failed_in_row, dead, discarded, expired, duplicates,"
    " (SELECT count(*) FROM postrider_dead_letter d WHERE d.endpoint = e.name) AS dead_letters,"
    " CASE WHEN last_failed_at > 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', last_failed_at / 1e6, 'unixepoch') END"
    " AS last_failed_at, last_reason, last_code, last_error,"
    " (SELECT min(o.since) FROM postrider_open_breaker o WHERE o.endpoint = e.name) AS open_since,"
    " (SELECT min(o.until) FROM postrider_open_breaker o WHERE o.endpoint = e.name) AS next_probe FROM "
    "postrider_endpoint e;";

static const char AUDIT[] = "CREATE VIEW postrider_audit_log AS SELECT number, " TIME_TEXT(
    "at") " AS at, who, action, target, why, matched, changed,"
          " refused FROM postrider_audit;";

/* Schedules that can be decoded (others become dead letters); a wish that its owner has not seen yet is new. */
static const char SCHEDULES[] =
    "SELECT '{box}' AS box, b.stream AS name, json_extract(b.spec, '$.cron') AS cron,"
    " coalesce(json_extract(b.spec, '$.zone'), 'UTC') AS zone, coalesce(json_extract(b.spec, '$.missed'), 'once') AS "
    "missed, " TIME_TEXT(
        "b.due_at") " AS next_at,"
                    " CASE WHEN b.due_at = " NEVER " THEN 'paused' WHEN (b.status & 32768) <> 0 THEN 'failing'"
                    " WHEN b.due_at IS NULL THEN 'new' ELSE 'active' END AS state,"
                    " CASE WHEN (b.status & 32768) <> 0 THEN b.error END AS error"
                    " FROM (SELECT stream, due_at, status, error,"
                    " CASE WHEN json_valid(CAST(payload AS TEXT)) THEN CAST(payload AS TEXT) ELSE '{}' END AS spec"
                    " FROM \"{box}\" WHERE destination = 'schedule:') b WHERE json_extract(b.spec, '$.cron') IS NOT "
                    "NULL";
/* clang-format on */

static void view_add(struct buf *b, const char *name, const char *select, const struct names *names)
{
    buf_addf(b, "CREATE VIEW %s AS ", name);
    for (size_t i = 0; i < names->count; i++) {
        buf_add_cstr(b, i > 0 ? " UNION ALL " : "");
        script_expand(b, select, names_get(names, i));
    }
    buf_add_char(b, ';');
}

void views_write(struct buf *b, const struct names *names)
{
    buf_add_cstr(b, "DROP VIEW IF EXISTS postrider_messages; DROP VIEW IF EXISTS postrider_blocked_streams;"
                          "DROP VIEW IF EXISTS postrider_endpoint_overview; DROP VIEW IF EXISTS postrider_in_flight;"
                          "DROP VIEW IF EXISTS postrider_open_breaker; DROP VIEW IF EXISTS postrider_audit_log;"
                          "DROP VIEW IF EXISTS postrider_schedules;");
    buf_add_cstr(b, IN_FLIGHT);
    buf_add_cstr(b, OPEN);
    buf_add_cstr(b, ENDPOINTS);
    buf_add_cstr(b, AUDIT);
    view_add(b, "postrider_messages", MESSAGES, names);
    view_add(b, "postrider_blocked_streams", BLOCKED, names);
    view_add(b, "postrider_schedules", SCHEDULES, names);
}
