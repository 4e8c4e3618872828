/* The views: all boxes together, so they are made anew when there is another one. */
#include "store/postgres/views.h"

#include "store/postgres/param.h"

static const char DROP[] =
    "DROP VIEW IF EXISTS \"{schema}\".messages; DROP VIEW IF EXISTS \"{schema}\".blocked_streams;"
    "DROP VIEW IF EXISTS \"{schema}\".endpoint_overview; DROP VIEW IF EXISTS \"{schema}\".in_flight;";

static const char IN_FLIGHT[] =
    "CREATE VIEW \"{schema}\".in_flight AS"
    " SELECT c.box, u.handle, u.number, i.name AS instance, c.at FROM \"{schema}\".claim c"
    " JOIN \"{schema}\".instance i ON i.id = c.instance,"
    " unnest(c.rows, c.numbers) AS u(handle, number);";

static const char ENDPOINTS[] =
    "CREATE VIEW \"{schema}\".endpoint_overview AS"
    " SELECT e.name, CASE WHEN e.paused_until > now() THEN 'paused' ELSE 'open' END AS state,"
    " CASE WHEN e.paused_until > now() THEN e.paused_until END AS paused_until, e.paused_by, e.paused_why,"
    " e.sent + coalesce(t.sent, 0) AS sent, e.failed + coalesce(t.failed, 0) AS failed,"
    " e.dead + coalesce(t.dead, 0) AS dead, e.discarded + coalesce(t.discarded, 0) AS discarded,"
    " e.expired + coalesce(t.expired, 0) AS expired,"
    " (SELECT count(*) FROM \"{schema}\".dead_letter d WHERE d.endpoint = e.name) AS dead_letters"
    " FROM (SELECT * FROM \"{schema}\".endpoint UNION ALL SELECT DISTINCT endpoint, NULL::timestamptz, NULL, NULL, 0, 0, 0, 0, 0"
    " FROM \"{schema}\".tally WHERE endpoint NOT IN (SELECT name FROM \"{schema}\".endpoint)) e"
    " LEFT JOIN (SELECT endpoint, sum(sent)::bigint AS sent, sum(failed)::bigint AS failed, sum(dead)::bigint AS dead,"
    " sum(discarded)::bigint AS discarded, sum(expired)::bigint AS expired FROM \"{schema}\".tally GROUP BY endpoint) t"
    " ON t.endpoint = e.name;";

/* As state_of_row(), with receipts and pauses laid over it. */
static const char MESSAGES[] =
    "SELECT '{box}'::text AS box, b.seq, b.id,"
    " CASE WHEN (coalesce(b.row_id, b.seq) << 6 | b.lane, b.attempts + 1) IN"
    " (SELECT handle, number FROM \"{schema}\".in_flight WHERE box = '{box}') THEN 'in-flight'"
    " WHEN b.due_at = 'infinity' THEN 'parked'"
    " WHEN strpos(b.held_by, '/') < length(b.held_by) THEN 'held'"
    " WHEN b.due_at > now() AND (b.status & 32768) = 0 AND b.attempts = 0 THEN 'delayed'"
    " WHEN b.destination IN (SELECT name FROM \"{schema}\".endpoint WHERE paused_until > now()) THEN 'paused'"
    " WHEN b.due_at > now() THEN 'retrying'"
    " ELSE 'ready' END AS state,"
    " b.type, b.stream, b.destination, b.created_at, b.due_at, b.expires_at, b.status, b.attempts, b.failures,"
    " b.failure_reason, b.code, b.error, b.failed_at, b.held_by, b.headers, b.story,"
    " octet_length(b.payload) AS payload_bytes FROM \"{schema}\".\"{box}\" b";

static const char BLOCKED[] =
    "SELECT '{box}'::text AS box, b.stream, b.id AS head, b.seq, b.failure_reason, b.error, b.due_at,"
    " (SELECT count(*) FROM \"{schema}\".\"{box}\" h WHERE h.stream = b.stream AND strpos(h.held_by, '/') < length(h.held_by)) AS held"
    " FROM \"{schema}\".\"{box}\" b WHERE b.due_at IS NOT NULL AND NOT b.released AND (b.status & 32768) <> 0"
    " AND b.stream IS NOT NULL";

static void view_add(struct buf *b, const char *name, const char *select, pr_slice schema, const PGresult *boxes)
{
    buf_add_cstr(b, "CREATE VIEW \"");
    buf_add_slice(b, schema);
    buf_addf(b, "\".%s AS ", name);
    for (int i = 0; i < PQntuples(boxes); i++) {
        buf_add_cstr(b, i > 0 ? " UNION ALL " : "");
        pg_script_expand(b, select, schema, field_slice(boxes, i, 0));
    }
    buf_add_char(b, ';');
}

void pg_views_write(struct buf *b, pr_slice schema, const PGresult *boxes)
{
    const pr_slice no_box = { NULL, 0 };
    pg_script_expand(b, DROP, schema, no_box);
    pg_script_expand(b, IN_FLIGHT, schema, no_box);
    pg_script_expand(b, ENDPOINTS, schema, no_box);
    view_add(b, "messages", MESSAGES, schema, boxes);
    view_add(b, "blocked_streams", BLOCKED, schema, boxes);
}
