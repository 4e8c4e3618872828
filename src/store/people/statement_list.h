/* statement_list.h - every statement of people's side: its name, and its text for each database.  Included by files
 * that define STATEMENT(): statements.h for the names, statements.c for the texts.
 *
 * How a database is best queried (its indexes, its joins) differs in the texts; the columns must be the same. */

/* clang-format off */

/* ---- What is known beside the rows ------------------------------------------------------------------------------------ */

/* kind, name, instance or table, row, number, now, mono.  Kinds: 0 the clocks, 1 a box, 2 a paused endpoint, 3 a row on a receipt.
 * ?1, ?2: the clocks; ?3: the boot. */
STATEMENT(listing_context,
    SQLITE("SELECT 0, '', '', 0, 0, ?1, ?2"
           " UNION ALL SELECT 1, name, coalesce(table_name, name), 0, 0, 0, 0 FROM {prefix}box"
           " UNION ALL SELECT 2, name, '', 0, 0, 0, 0 FROM {prefix}endpoint WHERE paused_until > ?1"
           " UNION ALL SELECT 3, c.box, i.name, CAST(e.key AS INTEGER), max(e.value), 0, 0"
           " FROM {prefix}claim c JOIN {prefix}instance i ON i.id = c.instance, json_each(c.entries) e"
           " WHERE i.boot_id = ?3 AND i.lease_end > ?2 GROUP BY c.box, i.id, e.key ORDER BY 1, 2"),
    POSTGRES("SELECT 0, '' COLLATE \"C\", '', 0::bigint, 0, coalesce(?1, now()), coalesce(?2, now())"
             " UNION ALL SELECT 1, name, coalesce(table_name, name), 0, 0, NULL, NULL FROM {prefix}box"
             " UNION ALL SELECT 2, name, '', 0, 0, NULL, NULL FROM {prefix}endpoint WHERE paused_until > coalesce(?1, now())"
             " UNION ALL SELECT 3, c.box, i.name, u.handle, max(u.number), NULL, NULL"
             " FROM {prefix}claim c JOIN {prefix}instance i ON i.id = c.instance, unnest(c.rows, c.numbers) AS u(handle, number)"
             " GROUP BY c.box, i.id, i.name, u.handle ORDER BY 1, 2"))

/* ---- Overviews ---------------------------------------------------------------------------------------------------------- */

/* ?1: numbers before it; ?2, ?3: since and until; ?4: limit. */
STATEMENT(audit,
    BOTH("SELECT number, at, who, action, target, why, matched, changed, refused FROM {prefix}audit"
         " WHERE number < ?1 AND at >= ?2 AND at < ?3 ORDER BY number DESC LIMIT ?4"))

/* place, stream, version, id, type, content_type, headers, payload, created_at.  ?1: after this version; ?2: limit; ?3:
 * the stream. */
/* PostgreSQL sends all rows of a result, so the statement itself stops behind the first row that exceeds ?4 bytes; this
 * row shows that there are more. */
#define BYTES_OF_EVENT "coalesce(octet_length(e.payload), 0) + coalesce(octet_length(e.headers::text), 0)"
STATEMENT(events_of_stream,
    SQLITE("SELECT 0, stream, version, id, type, content_type, headers, payload, created_at FROM {prefix}event"
           " WHERE stream = ?3 AND version > ?1 ORDER BY version LIMIT ?2"),
    POSTGRES("SELECT 0, stream, version, id, type, content_type, headers, payload, created_at FROM"
             " (SELECT *, sum(" BYTES_OF_EVENT ") OVER (ORDER BY version ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING)"
             " AS before FROM (SELECT * FROM {prefix}event WHERE stream = ?3 AND version > ?1 ORDER BY version LIMIT ?2) e) e"
             " WHERE coalesce(before, 0) < ?4 ORDER BY version"))

/* The event with an id.  ?1: the stream; ?2: the id as text, in lower case. */
STATEMENT(event_of_id,
    SQLITE("SELECT 0, stream, version, id, type, content_type, headers, payload, created_at FROM {prefix}event"
           " WHERE stream = ?1 AND id = ?2"),
    POSTGRES("SELECT 0, stream, version, id, type, content_type, headers, payload, created_at FROM {prefix}event"
             " WHERE stream = ?1 AND id = ?2::text::uuid"))

/* The same for all streams.  ?1: after this place; ?3: bytes. */
STATEMENT(events,
    SQLITE("SELECT place, stream, version, id, type, content_type, headers, payload, created_at FROM {prefix}event"
           " WHERE place > ?1 ORDER BY place LIMIT ?2"),
    POSTGRES("SELECT place, stream, version, id, type, content_type, headers, payload, created_at FROM"
             " (SELECT *, sum(" BYTES_OF_EVENT ") OVER (ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING)"
             " AS before FROM (SELECT o.place, e.* FROM {prefix}event_order o JOIN {prefix}event e"
             " ON e.stream = o.stream AND e.version = o.version WHERE o.place > ?1 ORDER BY o.place LIMIT ?2) e) e"
             " WHERE coalesce(before, 0) < ?3 ORDER BY place"))
#undef BYTES_OF_EVENT

/* The last place; the last version of ?1. */
STATEMENT(events_last,
    SQLITE("SELECT coalesce(max(place), 0) FROM {prefix}event"),
    POSTGRES("SELECT coalesce(max(place), 0) FROM {prefix}event_order"))
STATEMENT(events_last_of_stream,
    BOTH("SELECT coalesce(max(version), 0) FROM {prefix}event_stream WHERE stream = ?1"))

/* May this role assign places?  A role that may only read finds those that others have assigned. */
STATEMENT(events_may_place,
    SQLITE(""),
    POSTGRES("SELECT has_function_privilege('{prefix}place_events(integer)', 'EXECUTE')"))
/* Events committed since get their places; ?1: limit. */
STATEMENT(events_place,
    SQLITE(""),
    POSTGRES("SELECT {prefix}place_events(?1::integer)"))

/* name, position, fence, holder, end of the lease.  ?1: its name, or NULL: all. */
#define SUBSCRIPTION "SELECT name, position, fence, holder, leased_until FROM {prefix}subscription"
STATEMENT(subscriptions,
    BOTH(SUBSCRIPTION " ORDER BY name"))
STATEMENT(subscription,
    SQLITE(SUBSCRIPTION " WHERE name = ?1"),
    POSTGRES(SUBSCRIPTION " WHERE name = ?1 FOR UPDATE"))
/* ?2: the fence: higher than any fence of a removed subscription with this name. */
STATEMENT(subscription_make,
    BOTH("INSERT INTO {prefix}subscription (name, position, fence) VALUES (?1, 0, ?2) ON CONFLICT (name) DO NOTHING"))
/* ?1: the name; ?2: the position; ?3: the fence; ?4: the holder; ?5: the end of its lease. */
STATEMENT(subscription_set,
    BOTH("UPDATE {prefix}subscription SET position = ?2, fence = ?3, holder = ?4, leased_until = ?5 WHERE name = ?1"))
STATEMENT(subscription_remove,
    BOTH("DELETE FROM {prefix}subscription WHERE name = ?1"))
#undef SUBSCRIPTION

/* ?1: the stream; ?2: the version; ?3: the time; ?4: the data. */
STATEMENT(snapshot_save,
    BOTH("INSERT INTO {prefix}snapshot AS s (stream, version, saved_at, data) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (stream)"
         " DO UPDATE SET version = excluded.version, saved_at = excluded.saved_at, data = excluded.data"
         " WHERE s.version <= excluded.version RETURNING version"))
STATEMENT(snapshot_load,
    BOTH("SELECT version, data FROM {prefix}snapshot WHERE stream = ?1"))

/* ?1: the session. */
STATEMENT(session_look,
    BOTH("SELECT holder, instance, since, moved_from FROM {prefix}flow_session WHERE session = ?1"))
/* ?1: the session; ?2: the holder; ?3: its instance; ?4: the time. */
STATEMENT(session_hold,
    BOTH("INSERT INTO {prefix}flow_session AS s (session, holder, instance, since, moved_from, used_at)"
         " VALUES (?1, ?2, ?3, ?4, '', ?4) ON CONFLICT (session) DO UPDATE SET holder = excluded.holder,"
         " instance = excluded.instance, used_at = excluded.used_at,"
         " since = CASE WHEN s.holder = excluded.holder THEN s.since ELSE excluded.since END,"
         " moved_from = CASE WHEN s.holder = excluded.holder THEN s.moved_from ELSE s.instance END"))
/* ?1: the time since when nobody has used them; ?2: limit. */
STATEMENT(session_purge,
    BOTH("DELETE FROM {prefix}flow_session WHERE session IN (SELECT session FROM {prefix}flow_session WHERE used_at < ?1 LIMIT ?2)"))

/* Of a flow: id, or the kind of the row, and FLOW_COLUMNS; see flows.c. */
#define FLOW_COLUMNS                                                                                                          \
    "name, version, execution, next, state, custom_status, status_number, input, output, error, parent, parent_execution,"  \
    " parent_task, tasks, created_at, updated_at"

/* ?1: its id. */
STATEMENT(flow_row, BOTH("SELECT 0, " FLOW_COLUMNS " FROM {prefix}flow WHERE id = ?1"))

/* The flow, the turns of an execution (?2; '': of the current one), its key-values and its mail. */
STATEMENT(flow,
    BOTH("SELECT 0, " FLOW_COLUMNS " FROM {prefix}flow WHERE id = ?1"
         " UNION ALL SELECT 1, '', '', '', h.first, 0, NULL, h.count, NULL, NULL, h.events, NULL, NULL, 0, 0, NULL, NULL"
         " FROM {prefix}flow_history h WHERE h.execution = coalesce(nullif(?2, ''), (SELECT f.execution FROM {prefix}flow f"
         " WHERE f.id = ?1))"
         " UNION ALL SELECT 2, s.key, '', '', 0, 0, NULL, 0, s.value, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL"
         " FROM {prefix}flow_state s WHERE s.flow = ?1"
         " UNION ALL SELECT 3, m.type, m.content_type, m.id, m.number, 0, NULL, 0, m.payload, NULL, m.headers, NULL, NULL, 0, 0,"
         " m.created_at, NULL FROM {prefix}flow_mail m WHERE m.flow = ?1 ORDER BY 1, 5"))

/* ?1: the flow; ?2: limit.  The current execution, then those before it, the latest first. */
STATEMENT(flow_executions,
    BOTH("SELECT 0, " FLOW_COLUMNS " FROM {prefix}flow WHERE id = ?1"
         " UNION ALL SELECT 1, e.name, e.version, e.execution, e.next, e.state, NULL, 0, e.input, e.output, e.error, NULL, NULL,"
         " 0, 0, NULL, e.ended_at FROM {prefix}flow_execution e WHERE e.flow = ?1 ORDER BY 1, 4 DESC LIMIT ?2"))

/* ?1: the state; ?2, ?3: created before this one; ?4, ?5: since and until; ?6: name; ?7: version; ?8: limit; ?9: the
 * parent. */
#define FLOWS_THAT_FIT                                                                                                        \
    " AND (created_at, id) < (?2, ?3) AND created_at >= ?4 AND created_at < ?5 AND (?6 = '' OR name = ?6)"                   \
    " AND (?7 = '' OR version = ?7) ORDER BY created_at DESC, id DESC LIMIT ?8"
STATEMENT(flows_of_state,
    BOTH("SELECT id, " FLOW_COLUMNS " FROM {prefix}flow WHERE state = ?1" FLOWS_THAT_FIT))
STATEMENT(flows_of_parent,
    BOTH("SELECT id, " FLOW_COLUMNS " FROM {prefix}flow WHERE parent = ?9 AND (?1 = 0 OR state = ?1)" FLOWS_THAT_FIT))

/* Number of flows in each state; ?1: limit. */
#define FLOWS_IN_STATE(state) "(SELECT count(*) FROM (SELECT 1 FROM {prefix}flow WHERE state = " #state " LIMIT ?1) c)"
STATEMENT(flow_counts,
    BOTH("SELECT " FLOWS_IN_STATE(1) ", " FLOWS_IN_STATE(2) ", " FLOWS_IN_STATE(3) ", " FLOWS_IN_STATE(4)))

/* ?1: the boot; a lease from another boot is over. */
STATEMENT(instances,
    SQLITE("SELECT id, box, name, version, epoch, iif(lanes > 0, -1, 0), iif(boot_id = ?1, lease_end, 0), started_at,"
           " sources FROM {prefix}instance ORDER BY box, epoch"),
    POSTGRES("SELECT id, box, name, version, epoch, lanes, lease_end, started_at, sources FROM {prefix}instance ORDER BY box, epoch"))
/* ?1: the name of instances, ?2: the errors of their sources. */
STATEMENT(instance_sources,
    BOTH("UPDATE {prefix}instance SET sources = ?2 WHERE name = ?1 AND coalesce(sources, '') <> coalesce(?2, '')"))

/* Rows on receipts, each found through its index; f(handle, number). */
#define HAND_OUTS_OF_BOX                                                                                                       \
    "f CROSS JOIN LATERAL (SELECT b.attempts FROM {box} b WHERE b.lane = (f.handle & 63)::smallint AND b.seq = f.handle >> 6" \
    " AND b.due_at IS NULL AND b.held_by IS NULL UNION ALL SELECT b.attempts FROM {box} b"                                   \
    " WHERE coalesce(b.row_id, b.seq) = f.handle >> 6 AND (b.due_at IS NOT NULL OR b.held_by IS NOT NULL)) r"                \
    " WHERE f.number > r.attempts"

/* ?1: the instance; in its box. */
STATEMENT(instance_in_flight,
    SQLITE("SELECT count(*) FROM (SELECT CAST(e.key AS INTEGER) AS handle, max(e.value) AS number FROM {prefix}claim c,"
           " json_each(c.entries) e WHERE c.instance = ?1 GROUP BY e.key) f CROSS JOIN \"{box}\" b"
           " WHERE b.row_id = f.handle AND b.attempts < f.number"),
    POSTGRES("SELECT count(*) FROM (SELECT u.handle, max(u.number) AS number FROM {prefix}claim c,"
             " unnest(c.rows, c.numbers) AS u(handle, number) WHERE c.instance = ?1 GROUP BY u.handle) " HAND_OUTS_OF_BOX))

/* Of instances that serve the box: one without lanes sends nothing, and nobody waits for it.  ?1: the clock of leases;
 * ?2: the boot. */
STATEMENT(breakers,
    SQLITE("SELECT b.endpoint, b.type, i.box, i.name, b.code, b.error, i.id, -1, b.since, b.until, b.probes, b.failure_reason"
           " FROM {prefix}breaker b JOIN {prefix}instance i ON i.id = b.instance"
           " WHERE i.lanes > 0 AND i.boot_id = ?2 AND i.lease_end > ?1 ORDER BY b.endpoint, b.type, i.box"),
    POSTGRES("SELECT b.endpoint, b.type, i.box, i.name, b.code, b.error, i.id, i.lanes, b.since, b.until, b.probes, b.failure_reason"
             " FROM {prefix}breaker b JOIN {prefix}instance i ON i.id = b.instance"
             " WHERE i.lanes <> 0 AND i.lease_end > ?1 ORDER BY b.endpoint, b.type, i.box"))

/* A row that failed, was handed out or is parked, exactly as in the definition of the index of heads; and of those, one
 * that blocks its stream (message_blocks_stream()) or is parked. */
#define SQLITE_IS_BACK "due_at IS NOT NULL AND (due_at = 9223372036854775807 OR (status & 32768) <> 0 OR attempts > 0)"
#define SQLITE_IS_HEAD SQLITE_IS_BACK " AND (due_at = 9223372036854775807 OR released = 0)"
#define POSTGRES_IS_BACK "b.due_at IS NOT NULL AND (b.due_at = 'infinity' OR (b.status & 32768) <> 0 OR b.attempts > 0)"
#define POSTGRES_IS_HEAD POSTGRES_IS_BACK " AND (b.due_at = 'infinity' OR NOT b.released)"

/* ?1: limit. */
STATEMENT(failing_rows,
    SQLITE("SELECT attempts, failures, due_at FROM \"{box}\" INDEXED BY \"{prefix}{box}_heads\" WHERE " SQLITE_IS_BACK
           " ORDER BY row_id LIMIT ?1"),
    POSTGRES("SELECT b.attempts, b.failures, b.due_at FROM {box} b WHERE " POSTGRES_IS_BACK " LIMIT ?1"))

/* ?1: now; ?2: limit. */
STATEMENT(failing_due,
    SQLITE("SELECT min(due_at), max(due_at) FROM (SELECT due_at, status, attempts FROM \"{box}\" INDEXED BY \"{prefix}{box}_due\""
           " WHERE due_at IS NOT NULL AND held_by IS NULL AND due_at <= ?1 ORDER BY due_at LIMIT ?2)"
           " WHERE (status & 32768) <> 0 OR attempts > 0"),
    POSTGRES("SELECT min(d.due_at), max(d.due_at) FROM (SELECT b.due_at, b.status, b.attempts FROM {box} b"
             " WHERE b.due_at IS NOT NULL AND b.held_by IS NULL AND b.due_at <= ?1 ORDER BY b.due_at LIMIT ?2) d"
             " WHERE (d.status & 32768) <> 0 OR d.attempts > 0"))

/* ?1: the box; ?2: limit. */
STATEMENT(failing_dead,
    SQLITE("SELECT failure_reason, cause, count(*) FROM (SELECT failure_reason, cause FROM {prefix}dead_letter"
           " WHERE box = ?1 ORDER BY row_id DESC LIMIT ?2) GROUP BY failure_reason, cause"),
    POSTGRES("SELECT failure_reason, cause, count(*) FROM (SELECT failure_reason, cause FROM {prefix}dead_letter"
             " WHERE box = ?1 LIMIT ?2) d GROUP BY failure_reason, cause"))

/* ---- Listings ------------------------------------------------------------------------------------------------------------
 * Parts of statements, see listing.c.  ?1: rows behind it; ?2: bytes of a payload at most; ?3: how many; ? is the part's own
 * value. */

/* row, id and destination of matching rows, in order; then a row with NULL, the last row looked at and the number of
 * rows looked at. */
STATEMENT(listing_find,
    SQLITE("SELECT place, NULL, NULL, NULL, NULL FROM (SELECT b.row_id AS place FROM ({looked} ORDER BY b.row_id LIMIT {look}) p"
           " CROSS JOIN {table} b WHERE b.row_id = p.place{conditions} LIMIT ?3)"
           " UNION ALL SELECT NULL, NULL, NULL, max(place), count(*) FROM ({looked} ORDER BY b.row_id LIMIT {look})"),
    POSTGRES("WITH k AS MATERIALIZED (SELECT b.place, CASE WHEN true{conditions} THEN b.id END AS id, b.destination"
             " FROM (SELECT * FROM ({looked}) b ORDER BY b.place LIMIT {look}) b)"
             " SELECT {row}, id, destination, NULL::bigint, NULL::bigint FROM"
             " (SELECT * FROM k WHERE id IS NOT NULL ORDER BY place LIMIT ?3) f"
             " UNION ALL SELECT NULL, NULL, NULL, max({row}), count(*) FROM k"))
STATEMENT(listing_row_box, SQLITE("place"), POSTGRES("place << 6"))
STATEMENT(listing_row_letter, BOTH("place"))

/* The rows with these keys. */
STATEMENT(listing_read, BOTH("SELECT {message}, {columns} FROM {table} b{looked}{conditions} ORDER BY {order}{lock}"))
STATEMENT(listing_table_box, SQLITE("\"{box}\""), POSTGRES("{box}"))
STATEMENT(listing_table_dead, BOTH("{prefix}dead_letter"))
STATEMENT(listing_table_done, BOTH("{prefix}done"))
STATEMENT(listing_columns_box,
    SQLITE("b.row_id, '{box}', b.destination, 0, 0, '', '', '', 0, NULL"),
    POSTGRES("coalesce(b.row_id, b.seq) << 6 | b.lane, {box_name}, b.destination, 0, 0, '', '', '', NULL::timestamptz, NULL::uuid"))
STATEMENT(listing_columns_dead,
    BOTH("b.row_id, b.box, b.endpoint, b.cause, b.limit_reached, b.rule, b.fingerprint, b.note, b.died_at, b.edited_as"))
STATEMENT(listing_columns_done,
    SQLITE("b.row_id, b.box, b.endpoint, 0, 0, '', '', '', b.done_at, NULL"),
    POSTGRES("b.row_id, b.box, b.endpoint, 0, 0, '', '', '', b.done_at, NULL::uuid"))
STATEMENT(listing_order_box, SQLITE("b.row_id"), POSTGRES("coalesce(b.row_id, b.seq)"))
STATEMENT(listing_order_letter, BOTH("b.row_id"))
/* SQLite has one writer. */
STATEMENT(listing_lock_wait, SQLITE(""), POSTGRES(" FOR UPDATE OF b"))
STATEMENT(listing_lock_skip, SQLITE(""), POSTGRES(" FOR UPDATE OF b SKIP LOCKED"))
STATEMENT(listing_of_box, SQLITE(" WHERE b.row_id IN (SELECT value FROM json_each(?))"), POSTGRES(""))
STATEMENT(listing_of_box_ids, SQLITE(""), POSTGRES(" JOIN unnest(?::uuid[], "))
STATEMENT(listing_of_box_destinations, SQLITE(""),
    POSTGRES("?::text[]) AS p(id, destination) ON b.id = p.id AND b.destination = p.destination WHERE true"))
STATEMENT(listing_of_letters,
    SQLITE(" WHERE b.row_id IN (SELECT value FROM json_each(?))"),
    POSTGRES(" JOIN unnest(?::bigint[]) AS p(row_id) ON b.row_id = p.row_id WHERE true"))

/* The ids come concatenated; other programs may have stored ids as text. */
#define SQLITE_IDS(ids)                                                                                                         \
    "(WITH RECURSIVE n(at) AS (SELECT 1 UNION ALL SELECT at + 16 FROM n WHERE at + 16 < length(" ids ")),"                         \
    " i(id) AS (SELECT substr(" ids ", at, 16) FROM n), h(hex) AS (SELECT lower(hex(id)) FROM i), t(text) AS (SELECT"              \
    " substr(hex, 1, 8) || '-' || substr(hex, 9, 4) || '-' || substr(hex, 13, 4) || '-' || substr(hex, 17, 4) || '-' ||"     \
    " substr(hex, 21) FROM h) SELECT id FROM i UNION ALL SELECT text FROM t UNION ALL SELECT upper(text) FROM t)"

/* Conditions on a row b. */
STATEMENT(listing_if_ids, SQLITE(" AND b.id IN " SQLITE_IDS("?")), POSTGRES(" AND b.id = ANY (?)"))
STATEMENT(listing_if_row, BOTH(" AND b.row_id = ?"))
STATEMENT(listing_if_stream, BOTH(" AND b.stream = ?"))
STATEMENT(listing_if_type,
    SQLITE(" AND b.type GLOB ?"),
    POSTGRES(" AND b.type LIKE (SELECT replace(replace(replace(replace(?, '\\', '\\\\'), '%', '\\%'), '_', '\\_'), '*', '%'))"))
STATEMENT(listing_if_error, SQLITE(" AND instr(b.error, ?) > 0"), POSTGRES(" AND position(? IN b.error) > 0"))
STATEMENT(listing_if_error_or_note,
    SQLITE(" AND (instr(b.error, ?) > 0 OR instr(b.note, ?) > 0)"),
    POSTGRES(" AND (position(? IN b.error) > 0 OR position(? IN b.note) > 0)"))
STATEMENT(listing_if_correlation, BOTH(" AND b.correlation_id = ?"))
STATEMENT(listing_if_destination, BOTH(" AND b.destination = ?"))
STATEMENT(listing_if_destination_or_none, BOTH(" AND b.destination IN (?, '')"))
STATEMENT(listing_if_destinations,
    SQLITE(" AND b.destination IN (SELECT value FROM json_each(?))"), POSTGRES(" AND b.destination = ANY (?::text[])"))
STATEMENT(listing_if_destinations_or_none,
    SQLITE(" AND (b.destination = '' OR b.destination IN (SELECT value FROM json_each(?)))"),
    POSTGRES(" AND (b.destination = '' OR b.destination = ANY (?::text[]))"))
STATEMENT(listing_if_reason, BOTH(" AND b.failure_reason = ?"))
STATEMENT(listing_if_created_since, BOTH(" AND b.created_at >= ?"))
STATEMENT(listing_if_created_until, BOTH(" AND b.created_at < ?"))
STATEMENT(listing_if_parked, SQLITE(" AND b.due_at = 9223372036854775807"), POSTGRES(" AND b.due_at = 'infinity'"))
STATEMENT(listing_if_held, BOTH(" AND b.held_by IS NOT NULL AND coalesce(b.held_for, 1) <> 2"))
STATEMENT(listing_if_waits, BOTH(" AND b.held_by IS NULL AND b.due_at > ?"))
STATEMENT(listing_if_box, BOTH(" AND b.box = ?"))
STATEMENT(listing_if_endpoint, BOTH(" AND b.endpoint = ?"))
STATEMENT(listing_if_kept, BOTH(" AND b.keep_until > ?"))
STATEMENT(listing_if_done_since, BOTH(" AND b.done_at >= ?"))
STATEMENT(listing_if_done_until, BOTH(" AND b.done_at < ?"))
STATEMENT(listing_if_cause_or_reason, BOTH(" AND (b.cause = ? OR b.failure_reason = ?)"))
STATEMENT(listing_if_fingerprint, BOTH(" AND b.fingerprint = ?"))
STATEMENT(listing_if_not_newer, BOTH(" AND b.row_id <= ?"))
STATEMENT(listing_if_died_since, BOTH(" AND b.died_at >= ?"))
STATEMENT(listing_if_died_until, BOTH(" AND b.died_at < ?"))
/* By stream (?) a release applies to followers: held rows, and unread rows behind a failed or parked head of the same
 * destination.  Where a row without a destination goes is unknown.  SQLite has no index of heads by stream: it finds
 * them once. */
#define IS_HELD_OR_UNMET                                                                                                     \
    " AND ((b.held_by IS NOT NULL AND coalesce(b.held_for, 1) <> 2) OR ((b.due_at IS NULL OR b.held_by IS NOT NULL)"
STATEMENT(listing_if_follower,
    SQLITE(IS_HELD_OR_UNMET
           " AND EXISTS (WITH h AS MATERIALIZED (SELECT destination, min(seq) AS seq FROM \"{box}\""
           " INDEXED BY \"{prefix}{box}_heads\" WHERE stream = ? AND " SQLITE_IS_HEAD " GROUP BY destination)"
           " SELECT 1 FROM h WHERE h.seq < b.seq AND (h.destination = '' OR b.destination = '' OR h.destination = b.destination))))"),
    POSTGRES(IS_HELD_OR_UNMET
             " AND EXISTS (SELECT FROM {box} h WHERE h.stream = ? AND h.seq < b.seq"
             " AND (h.destination = '' OR b.destination = '' OR h.destination = b.destination)"
             " AND h.due_at IS NOT NULL AND (h.due_at = 'infinity' OR (NOT h.released AND"
             " ((h.status & 32768) <> 0 OR h.attempts > 0))))))"))

/* Where to look: rows in their order behind ?1, with the columns that the conditions use.  PostgreSQL finds a row of a
 * box by its place, which is the part of a row's number above its lane. */
#define BOX_LOOKED(place)                                                                                                    \
    "SELECT b.id, b.destination, b.stream, b.type, b.correlation_id, b.error, b.failure_reason, b.created_at, b.due_at,"     \
    " b.held_by, b.held_for, b.seq, b.row_id, " place " AS place"
#define PLACE "coalesce(b.row_id, b.seq)"
#define NOT_FRESH "(b.due_at IS NOT NULL OR b.held_by IS NOT NULL)"
#define LOOK_BACK                                                                                                            \
    "(" BOX_LOOKED(PLACE) " FROM {box} b WHERE " NOT_FRESH " AND " PLACE " > (?1::bigint >> 6) ORDER BY " PLACE " LIMIT {look})"
STATEMENT(listing_look_box_ids,
    SQLITE("SELECT b.row_id AS place FROM \"{box}\" b WHERE b.id IN " SQLITE_IDS("?") " AND +b.row_id > ?1"),
    POSTGRES(BOX_LOOKED(PLACE) " FROM {box} b WHERE " PLACE " > (?1::bigint >> 6) AND b.id = ANY (?)"))
STATEMENT(listing_look_handed_out,
    SQLITE("SELECT b.row_id AS place FROM \"{box}\" b WHERE b.row_id IN (SELECT value FROM json_each(?)) AND b.row_id > ?1"),
    POSTGRES(BOX_LOOKED("b.seq") " FROM unnest(?::bigint[]) h JOIN {box} b ON b.lane = (h & 63)::smallint AND b.seq = h >> 6"
             " WHERE b.due_at IS NULL AND b.held_by IS NULL AND b.seq > (?1::bigint >> 6) UNION ALL " BOX_LOOKED(PLACE)
             " FROM unnest(?::bigint[]) h JOIN {box} b ON " PLACE " = h >> 6 WHERE " NOT_FRESH " AND " PLACE " > (?1::bigint >> 6)"))
/* These are among the heads, and are adjacent in the index of due times. */
STATEMENT(listing_look_parked,
    SQLITE("SELECT b.row_id AS place FROM \"{box}\" b INDEXED BY \"{prefix}{box}_heads\" WHERE " SQLITE_IS_BACK " AND b.row_id > ?1"),
    POSTGRES("(" BOX_LOOKED(PLACE) " FROM (SELECT " PLACE " AS at FROM {box} b WHERE b.due_at = 'infinity' AND b.held_by IS NULL"
             " AND " PLACE " > (?1::bigint >> 6) ORDER BY 1 LIMIT {look}) p CROSS JOIN LATERAL (SELECT * FROM {box} b WHERE " NOT_FRESH
             " AND " PLACE " = p.at OFFSET 0) b ORDER BY " PLACE " LIMIT {look})"))
STATEMENT(listing_look_back,
    SQLITE("SELECT b.row_id AS place FROM \"{box}\" b INDEXED BY \"{prefix}{box}_back\" WHERE " NOT_FRESH " AND b.row_id > ?1"),
    POSTGRES(LOOK_BACK))
/* PostgreSQL: fresh rows lane by lane, and all others, each through its own index; it merges them and stops when there
 * are enough (only because each part has its own order and limit). */
STATEMENT(listing_look_all,
    SQLITE("SELECT b.row_id AS place FROM \"{box}\" b NOT INDEXED WHERE b.row_id > ?1"),
    POSTGRES(LOOK_BACK))
STATEMENT(listing_look_lane,
    SQLITE(""),
    POSTGRES(" UNION ALL (" BOX_LOOKED("b.seq") " FROM {box} b WHERE b.lane = {lane}::smallint AND b.due_at IS NULL"
             " AND b.held_by IS NULL AND b.seq > (?1::bigint >> 6) ORDER BY b.seq LIMIT {look})"))

#define SQLITE_DEAD(index) "SELECT b.row_id AS place FROM {prefix}dead_letter b " index " WHERE b.row_id > ?1"
#define POSTGRES_DEAD                                                                                                        \
    "SELECT b.id, b.destination, b.box, b.endpoint, b.stream, b.type, b.correlation_id, b.error, b.note, b.failure_reason,"  \
    " b.cause, b.fingerprint, b.died_at, b.row_id, b.row_id AS place FROM {prefix}dead_letter b WHERE b.row_id > ?1::bigint"
STATEMENT(listing_look_dead, SQLITE(SQLITE_DEAD("NOT INDEXED")), POSTGRES(POSTGRES_DEAD))
STATEMENT(listing_look_dead_ids,
    SQLITE("SELECT b.row_id AS place FROM {prefix}dead_letter b WHERE b.id IN " SQLITE_IDS("?") " AND +b.row_id > ?1"),
    POSTGRES(POSTGRES_DEAD " AND b.id = ANY (?)"))
STATEMENT(listing_look_dead_stream,
    SQLITE(SQLITE_DEAD("INDEXED BY {prefix}dead_letter_stream") " AND b.stream = ?"),
    POSTGRES(POSTGRES_DEAD " AND left(b.stream, 255) = left(?, 255)"))
STATEMENT(listing_look_dead_print,
    SQLITE(SQLITE_DEAD("INDEXED BY {prefix}dead_letter_print") " AND b.fingerprint = ?"),
    POSTGRES(POSTGRES_DEAD " AND b.fingerprint = ?"))
STATEMENT(listing_look_dead_endpoint,
    SQLITE(SQLITE_DEAD("INDEXED BY {prefix}dead_letter_endpoint") " AND b.endpoint = ?"),
    POSTGRES(POSTGRES_DEAD " AND b.endpoint = ?"))
STATEMENT(listing_look_dead_box,
    SQLITE(SQLITE_DEAD("INDEXED BY {prefix}dead_letter_box") " AND b.box = ?"),
    POSTGRES(POSTGRES_DEAD " AND b.box = ?"))

#define POSTGRES_DONE                                                                                                        \
    "SELECT b.id, b.destination, b.box, b.endpoint, b.stream, b.type, b.correlation_id, b.error, b.failure_reason,"          \
    " b.done_at, b.keep_until, b.row_id, b.row_id AS place FROM {prefix}done b WHERE b.row_id > ?1::bigint"
STATEMENT(listing_look_done,
    SQLITE("SELECT b.row_id AS place FROM {prefix}done b NOT INDEXED WHERE b.row_id > ?1"), POSTGRES(POSTGRES_DONE))
STATEMENT(listing_look_done_ids,
    SQLITE("SELECT b.row_id AS place FROM {prefix}done b WHERE b.id IN " SQLITE_IDS("?") " AND +b.row_id > ?1"),
    POSTGRES(POSTGRES_DONE " AND b.id = ANY (?)"))
STATEMENT(listing_look_done_box,
    SQLITE("SELECT b.row_id AS place FROM {prefix}done b INDEXED BY {prefix}done_box WHERE b.row_id > ?1 AND b.box = ?"),
    POSTGRES(POSTGRES_DONE " AND b.box = ?"))

/* ---- The ledger of what has ended ---------------------------------------------------------------------------------------- */

/* ?1: the bucket; ?2: numbers before it; ?3: an id; ?4: how many.  ids: NULL where ?3 is not in them. */
STATEMENT(ended,
    SQLITE("SELECT number, at, box, endpoint, instance, outcome, attempt, iif(instr(ids, ?3) > 0, ids, NULL) FROM {prefix}ended"
           " INDEXED BY {prefix}ended_bucket WHERE bucket = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?4"),
    POSTGRES("SELECT number, at, box, endpoint, instance, outcome, attempt, CASE WHEN position(?3 IN ids) > 0 THEN ids END"
             " FROM {prefix}ended WHERE bucket = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?4"))

/* ---- Dead letters -------------------------------------------------------------------------------------------------------- */

/* ?1: since.  Asked for the lowest row alone, PostgreSQL would walk through all rows until one matches. */
STATEMENT(dead_first_since,
    SQLITE("SELECT min(row_id) FROM {prefix}dead_letter INDEXED BY {prefix}dead_letter_died WHERE died_at >= ?1"),
    POSTGRES("SELECT min(d.row_id) FROM (SELECT row_id FROM {prefix}dead_letter WHERE died_at >= ?1 OFFSET 0) d"))

/* ?1, ?2: since and until; ?3: limit. */
STATEMENT(dead_count,
    SQLITE("SELECT count(*) FROM (SELECT 1 FROM {prefix}dead_letter INDEXED BY {prefix}dead_letter_died"
           " WHERE died_at >= ?1 AND died_at < ?2 LIMIT ?3)"),
    POSTGRES("SELECT count(*) FROM (SELECT FROM {prefix}dead_letter WHERE died_at >= ?1 AND died_at < ?2 ORDER BY died_at LIMIT ?3) d"))

/* ---- Groups of dead letters ----------------------------------------------------------------------------------------------
 * ?1, ?2: from when to when; ?3: box; ?4: endpoint; ?5: reason; ?6: text; ?7: this fingerprint alone; ?8: fingerprints at most;
 * ?9: how many of each are looked at.
 * print, box, endpoint, type, error, cause, reason, id and died_at of the latest, when the first died, how many, how many there
 * are to be looked at. */

/* A step through the index for each fingerprint.  Conditions on columns of the index are counted there, without reading
 * rows.  Of the latest ?9 letters the index has the reasons, but not in their order; it has no texts. */
#define OF_REASON "(?5 = 0 OR cause = ?5 OR failure_reason = ?5)"
#define SQLITE_PRINT "SELECT fingerprint FROM {prefix}dead_letter INDEXED BY {prefix}dead_letter_group WHERE fingerprint "
#define SQLITE_PRINTS                                                                                                        \
    "WITH RECURSIVE k(print) AS (SELECT (" SQLITE_PRINT ">= ?7 ORDER BY fingerprint LIMIT 1) UNION ALL"                      \
    " SELECT (" SQLITE_PRINT "> k.print ORDER BY fingerprint LIMIT 1) FROM k WHERE k.print IS NOT NULL AND ?7 = '' LIMIT ?8)"
#define SQLITE_ASKED " FROM k WHERE k.print IS NOT NULL AND (?7 = '' OR k.print = ?7)"
#define SQLITE_IN_PRINT " FROM {prefix}dead_letter INDEXED BY {prefix}dead_letter_group WHERE fingerprint = k.print"
#define SQLITE_IN_TIME SQLITE_IN_PRINT " AND died_at >= ?1 AND died_at < ?2 AND (?3 = '' OR box = ?3)"
#define SQLITE_IN_REASON                                                                                                     \
    " FROM (SELECT row_id, died_at, cause, failure_reason" SQLITE_IN_TIME " ORDER BY died_at DESC LIMIT ?9) WHERE " OF_REASON
#define SQLITE_IN_TEXT                                                                                                       \
    " FROM (SELECT row_id, died_at, cause, failure_reason, error" SQLITE_IN_TIME " ORDER BY died_at DESC LIMIT ?9) WHERE "   \
    OF_REASON " AND instr(error, ?6) > 0"
#define SQLITE_LOOKED "(SELECT count(*) FROM (SELECT 1" SQLITE_IN_TIME " LIMIT ?9 + 1))"
#define SQLITE_GROUPS(in_group, counted, looked)                                                                             \
    SQLITE_PRINTS " SELECT g.print, l.box, l.endpoint, l.type, l.error, l.cause, l.failure_reason, l.id, l.died_at,"         \
    " g.first, g.count, g.looked FROM (SELECT k.print, (SELECT row_id" in_group " ORDER BY died_at DESC LIMIT 1) AS latest," \
    " (SELECT died_at" in_group " ORDER BY died_at LIMIT 1) AS first,"                                                       \
    " (SELECT count(*) FROM (SELECT 1" counted " LIMIT 10001)) AS count, " looked " AS looked" SQLITE_ASKED ") g"            \
    " CROSS JOIN {prefix}dead_letter l WHERE l.row_id = g.latest AND (?4 = '' OR l.endpoint = ?4)"

#define POSTGRES_PRINTS                                                                                                      \
    "WITH RECURSIVE k(print) AS ("                                                                                           \
    "(SELECT d.fingerprint FROM {prefix}dead_letter d WHERE ?7 = '' OR d.fingerprint = ?7 ORDER BY d.fingerprint LIMIT 1)"   \
    " UNION ALL SELECT (SELECT d.fingerprint FROM {prefix}dead_letter d WHERE d.fingerprint > k.print"                       \
    " AND ?7 = '' ORDER BY d.fingerprint LIMIT 1) FROM k WHERE k.print IS NOT NULL)"
#define POSTGRES_ASKED " FROM (SELECT print FROM k WHERE print IS NOT NULL LIMIT ?8) k"
#define POSTGRES_IN_PRINT " FROM {prefix}dead_letter d WHERE d.fingerprint = k.print"
#define POSTGRES_IN_TIME POSTGRES_IN_PRINT " AND d.died_at >= ?1 AND d.died_at < ?2 AND (?3 = '' OR d.box = ?3)"
#define POSTGRES_OF_LATEST(columns) " FROM (SELECT " columns POSTGRES_IN_TIME " ORDER BY d.died_at DESC LIMIT ?9) d WHERE " OF_REASON
#define POSTGRES_IN_REASON POSTGRES_OF_LATEST("d.died_at, d.cause, d.failure_reason")
#define POSTGRES_IN_TEXT POSTGRES_OF_LATEST("*") " AND position(?6 IN d.error) > 0"
#define POSTGRES_LOOKED "(SELECT count(*) FROM (SELECT" POSTGRES_IN_TIME " LIMIT ?9 + 1) c)"
/* When it died is found in the index; only then is the letter itself read. */
#define POSTGRES_LATEST(in_group, row)                                                                                       \
    "(SELECT d.died_at AS at" in_group " ORDER BY d.died_at DESC LIMIT 1) m"                                                 \
    " CROSS JOIN LATERAL (SELECT d.*" row " AND d.died_at = m.at LIMIT 1)"
#define POSTGRES_GROUPS(in_group, counted, latest, looked)                                                                   \
    POSTGRES_PRINTS " SELECT k.print, l.box, l.endpoint, l.type, l.error, l.cause, l.failure_reason, l.id, l.died_at,"       \
    " (SELECT d.died_at" in_group " ORDER BY d.died_at LIMIT 1),"                                                            \
    " (SELECT count(*) FROM (SELECT" counted " LIMIT 10001) c), " looked POSTGRES_ASKED                                      \
    " CROSS JOIN LATERAL " latest " l WHERE ?4 = '' OR l.endpoint = ?4"

STATEMENT(groups,
    SQLITE(SQLITE_GROUPS(SQLITE_IN_TIME, SQLITE_IN_PRINT, "0")),
    POSTGRES(POSTGRES_GROUPS(POSTGRES_IN_TIME, POSTGRES_IN_PRINT, POSTGRES_LATEST(POSTGRES_IN_TIME, POSTGRES_IN_TIME), "0::bigint")))
STATEMENT(groups_by_time,
    SQLITE(SQLITE_GROUPS(SQLITE_IN_TIME, SQLITE_IN_TIME, "0")),
    POSTGRES(POSTGRES_GROUPS(POSTGRES_IN_TIME, POSTGRES_IN_TIME, POSTGRES_LATEST(POSTGRES_IN_TIME, POSTGRES_IN_TIME), "0::bigint")))
STATEMENT(groups_by_reason,
    SQLITE(SQLITE_GROUPS(SQLITE_IN_REASON, SQLITE_IN_REASON, SQLITE_LOOKED)),
    POSTGRES(POSTGRES_GROUPS(POSTGRES_IN_REASON, POSTGRES_IN_REASON,
                             POSTGRES_LATEST(POSTGRES_IN_REASON, POSTGRES_IN_TIME " AND " OF_REASON), POSTGRES_LOOKED)))
STATEMENT(groups_by_text,
    SQLITE(SQLITE_GROUPS(SQLITE_IN_TEXT, SQLITE_IN_TEXT, SQLITE_LOOKED)),
    POSTGRES(POSTGRES_GROUPS(POSTGRES_IN_TEXT, POSTGRES_IN_TEXT, "(SELECT d.*" POSTGRES_IN_TEXT " ORDER BY d.died_at DESC LIMIT 1)",
                             POSTGRES_LOOKED)))
/* Is there a group with more letters than are looked at? */
STATEMENT(groups_cut,
    SQLITE(SQLITE_PRINTS " SELECT EXISTS (SELECT 1" SQLITE_ASKED " AND (SELECT 1" SQLITE_IN_TIME " LIMIT 1 OFFSET ?9))"),
    POSTGRES(POSTGRES_PRINTS " SELECT EXISTS (SELECT" POSTGRES_ASKED " CROSS JOIN LATERAL (SELECT" POSTGRES_IN_TIME " OFFSET ?9 LIMIT 1) d)"))
STATEMENT(groups_number,
    SQLITE(SQLITE_PRINTS " SELECT count(*)" SQLITE_ASKED),
    POSTGRES(POSTGRES_PRINTS " SELECT count(*)" POSTGRES_ASKED))
/* ?1: limit. */
STATEMENT(dead_any,
    SQLITE("SELECT count(*) FROM (SELECT 1 FROM {prefix}dead_letter LIMIT ?1)"),
    POSTGRES("SELECT count(*) FROM (SELECT FROM {prefix}dead_letter LIMIT ?1) d"))

/* ---- Counts --------------------------------------------------------------------------------------------------------------
 * As state_of_row(), with receipts and pauses laid over it; each sort of rows by its own index.  ?1: now; ?2, ?3, ?5: how many of
 * a sort are looked at; ?4: paused endpoints; ?6: the clock of leases; ?7: the boot.
 * state, count, since when the oldest is ready, sort (of rows that were looked at, see counts.c). */

/* The index of held rows has the key that a row waits under (held_by, see held_endpoint()), but not the column that
 * says what for (held_for): looking at each row would cost more than all the rest.  But all rows of a key are held for
 * the same reason, and an endpoint's own key comes before the keys of its streams.  So one row of the first key of each
 * endpoint is looked at: `own` are the keys of rows that wait for room at their endpoint.  Only the step from one
 * endpoint to the next parses a key ('0' follows '/'; see doc/adr/0091). */
#define SQLITE_OWN                                                                                                           \
    "ways(key) AS (SELECT (SELECT held_by FROM \"{box}\" WHERE held_by > '' ORDER BY held_by LIMIT 1) UNION ALL"             \
    " SELECT (SELECT held_by FROM \"{box}\" WHERE held_by >= " SQLITE_ABOVE_ENDPOINT("w.key") " ORDER BY held_by LIMIT 1)"    \
    " FROM ways w WHERE w.key IS NOT NULL),"                                                                                 \
    " own(key) AS MATERIALIZED (SELECT w.key FROM ways w"                                                                    \
    " WHERE (SELECT b.held_for FROM \"{box}\" b WHERE b.held_by = w.key LIMIT 1) = 2)"
#define POSTGRES_OWN                                                                                                         \
    "ways(key) AS ((SELECT b.held_by FROM {box} b WHERE b.held_by > '' ORDER BY b.held_by LIMIT 1) UNION ALL"                \
    " SELECT (SELECT b.held_by FROM {box} b WHERE b.held_by >= " POSTGRES_ABOVE_ENDPOINT("w.key")                            \
    " ORDER BY b.held_by LIMIT 1) FROM ways w WHERE w.key IS NOT NULL),"                                                     \
    " own(key) AS MATERIALIZED (SELECT w.key FROM ways w"                                                                    \
    " WHERE (SELECT b.held_for FROM {box} b WHERE b.held_by = w.key LIMIT 1) = 2)"

#define SQLITE_COUNTS                                                                                                        \
    "WITH RECURSIVE " SQLITE_OWN ","                                                                                          \
    " f(handle, number) AS MATERIALIZED (SELECT CAST(e.key AS INTEGER), max(e.value) FROM {prefix}claim c"                   \
    " JOIN {prefix}instance i ON i.id = c.instance, json_each(c.entries) e"                                                  \
    " WHERE c.box = '{box}' AND i.boot_id = ?7 AND i.lease_end > ?6 GROUP BY 1),"                                            \
    " rows AS (SELECT * FROM (SELECT 2 AS sort, row_id AS handle, due_at, status, attempts, destination, created_at"         \
    " FROM \"{box}\" INDEXED BY \"{prefix}{box}_due\" WHERE held_by IS NULL AND due_at < 9223372036854775807"                \
    " ORDER BY due_at LIMIT ?5)"                                                                                             \
    " UNION ALL SELECT * FROM (SELECT 3, b.row_id, b.due_at, b.status, b.attempts, b.destination, b.created_at"              \
    " FROM own w CROSS JOIN \"{box}\" b ON b.held_by = w.key LIMIT ?2)),"                                                   \
    " states AS (SELECT r.sort, CASE WHEN f.number > r.attempts THEN 'in-flight'"                                            \
    " WHEN r.due_at = 9223372036854775807 THEN 'parked'"                                                                     \
    " WHEN r.due_at > ?1 AND (r.status & 32768) = 0 AND r.attempts = 0 THEN 'delayed'"                                       \
    " WHEN r.destination IN (SELECT value FROM json_each(?4)) THEN 'paused' WHEN r.due_at > ?1 THEN 'retrying'"              \
    " ELSE 'ready' END AS state, max(r.created_at, coalesce(r.due_at, 0)) AS since"                                          \
    " FROM rows r LEFT JOIN f ON f.handle = r.handle)"                                                                       \
    " SELECT state, count(*), min(since), sort FROM states GROUP BY sort, state"                                             \
    " UNION ALL SELECT 'in-flight', count(*), 0, 0 FROM f CROSS JOIN \"{box}\" b WHERE b.row_id = f.handle AND b.attempts < f.number" \
    /* These are counted in their index alone. */                                                                            \
    " UNION ALL SELECT 'parked', count(*), 0, 0 FROM (SELECT 1 FROM \"{box}\" INDEXED BY \"{prefix}{box}_due\""              \
    " WHERE held_by IS NULL AND due_at = 9223372036854775807 LIMIT 10001)"                                                   \
    " UNION ALL SELECT 'held', count(*), 0, 0 FROM (SELECT 1 FROM \"{box}\" INDEXED BY \"{prefix}{box}_held\""               \
    " WHERE held_by IS NOT NULL AND held_by NOT IN (SELECT key FROM own) LIMIT 10001)"                                       \
    " UNION ALL SELECT 'stored', coalesce(max(seq), 0), 0, 0 FROM sqlite_sequence WHERE name = '{table}'"                    \
    " UNION ALL SELECT 'dead', count(*), 0, 0 FROM (SELECT 1 FROM {prefix}dead_letter WHERE box = '{box}' LIMIT 10001)"      \
    " UNION ALL SELECT 'done', count(*), 0, 0 FROM (SELECT 1 FROM {prefix}done WHERE box = '{box}' AND keep_until > ?1 LIMIT 10001)"

#define COUNTED(sort, destination, from)                                                                                     \
    "(SELECT " sort " AS sort, coalesce(b.row_id, b.seq) << 6 | b.lane AS handle, b.due_at, b.status,"                       \
    " b.attempts, " destination " AS destination, b.created_at FROM " from ")"
/* When nothing is paused, this index is sufficient, and no row is read. */
#define DUE_BY_INDEX COUNTED("2", "''", "{box} b WHERE b.due_at < 'infinity' AND b.held_by IS NULL ORDER BY b.due_at LIMIT ?5")
#define DUE_BY_ROW COUNTED("2", "b.destination", "{box} b WHERE b.due_at < 'infinity' AND b.held_by IS NULL LIMIT ?5")
#define POSTGRES_COUNTS(due)                                                                                                 \
    "WITH RECURSIVE " POSTGRES_OWN ","                                                                                        \
    " f AS (SELECT u.handle, max(u.number) AS number FROM {prefix}claim c JOIN {prefix}instance i ON i.id = c.instance,"     \
    " unnest(c.rows, c.numbers) AS u(handle, number) WHERE c.box = {box_name} GROUP BY u.handle),"                           \
    " rows AS (" COUNTED("1", "b.destination", "{box} b WHERE b.due_at IS NULL AND b.held_by IS NULL LIMIT ?3")      \
    " UNION ALL " due " UNION ALL "                                                                                          \
    COUNTED("3", "b.destination", "own w CROSS JOIN LATERAL (SELECT * FROM {box} b WHERE b.held_by = w.key LIMIT ?2) b LIMIT ?2") ")," \
    " states AS (SELECT r.sort, CASE WHEN f.number > r.attempts THEN 'in-flight' WHEN r.due_at = 'infinity' THEN 'parked'"   \
    " WHEN r.due_at > ?1 AND (r.status & 32768) = 0 AND r.attempts = 0 THEN 'delayed'"                                       \
    " WHEN r.destination = ANY (?4::text[]) THEN 'paused' WHEN r.due_at > ?1 THEN 'retrying' ELSE 'ready' END AS state,"     \
    " greatest(r.created_at, r.due_at) AS since FROM rows r LEFT JOIN f ON f.handle = r.handle)"                             \
    " SELECT state, count(*), min(since), sort FROM states GROUP BY sort, state"                                             \
    " UNION ALL SELECT 'in-flight', (SELECT count(*) FROM " HAND_OUTS_OF_BOX "), NULL, NULL"                                   \
    /* These are counted in their index alone: its pages are adjacent, and rows lie far apart. */                           \
    " UNION ALL SELECT 'parked', (SELECT count(*) FROM (SELECT FROM {box} b WHERE b.due_at = 'infinity' AND b.held_by IS NULL" \
    " LIMIT 10001) p), NULL, NULL"                                                                                           \
    " UNION ALL SELECT 'held', (SELECT count(*) FROM (SELECT FROM {box} b WHERE b.held_by IS NOT NULL"                       \
    " AND b.held_by NOT IN (SELECT key FROM own) LIMIT 10001) h), NULL, NULL"                                                \
    " UNION ALL SELECT 'stored', CASE WHEN is_called THEN last_value ELSE 0 END, NULL, NULL FROM {box_seq}"                  \
    /* Fresh rows are in order of age in each lane; those in flight are at its beginning. */                         \
    " UNION ALL SELECT 'oldest', 0, min(o.created_at), NULL FROM generate_series(0, 63) lane CROSS JOIN LATERAL (SELECT b.created_at FROM" \
    " (SELECT b.created_at, b.destination, b.row_id, b.seq, b.lane FROM {box} b WHERE b.lane = lane.lane::smallint"          \
    " AND b.due_at IS NULL AND b.held_by IS NULL ORDER BY b.seq LIMIT 200) b"                                                \
    " LEFT JOIN f ON f.handle = coalesce(b.row_id, b.seq) << 6 | b.lane WHERE f.handle IS NULL AND b.destination <> ALL (?4::text[]) LIMIT 1) o" \
    " UNION ALL SELECT 'dead', (SELECT count(*) FROM (SELECT FROM {prefix}dead_letter WHERE box = {box_name} LIMIT 10001) d), NULL, NULL" \
    " UNION ALL SELECT 'done', (SELECT count(*) FROM (SELECT FROM {prefix}done WHERE box = {box_name} AND keep_until > ?1"   \
    " LIMIT 10001) d), NULL, NULL"

STATEMENT(counts, SQLITE(SQLITE_COUNTS), POSTGRES(POSTGRES_COUNTS(DUE_BY_INDEX)))
STATEMENT(counts_paused, SQLITE(SQLITE_COUNTS), POSTGRES(POSTGRES_COUNTS(DUE_BY_ROW)))

/* SQLite has no index of fresh rows: it would slow down senders.  Fresh rows lie in the ranges between the others,
 * whose index shows these ranges.  Empty text: not needed.  ?1: limit. */
STATEMENT(fresh_between,
    SQLITE("SELECT row_id FROM \"{box}\" INDEXED BY \"{prefix}{box}_back\" WHERE due_at IS NOT NULL OR held_by IS NOT NULL"
           " ORDER BY row_id LIMIT ?1"),
    POSTGRES(""))
#define FRESH_COLUMNS "row_id, attempts, destination, created_at"
/* ?1, ?2: between these rows; ?3: limit. */
STATEMENT(fresh_gap,
    SQLITE("SELECT " FRESH_COLUMNS " FROM \"{box}\" WHERE row_id > ?1 AND row_id < ?2 AND due_at IS NULL AND held_by IS NULL"
           " ORDER BY row_id LIMIT ?3"),
    POSTGRES(""))
/* ?1: after this row; ?2: number of rows looked at. */
STATEMENT(fresh_newest,
    SQLITE("SELECT " FRESH_COLUMNS " FROM (SELECT * FROM \"{box}\" WHERE row_id > ?1 ORDER BY row_id DESC LIMIT ?2)"
           " WHERE due_at IS NULL AND held_by IS NULL"),
    POSTGRES(""))

/* ?1: limit. */
STATEMENT(rows,
    SQLITE("SELECT count(*) FROM (SELECT 1 FROM \"{box}\" LIMIT ?1)"),
    POSTGRES("SELECT count(*) FROM (SELECT FROM {box} LIMIT ?1) r"))

/* ---- Streams -------------------------------------------------------------------------------------------------------------- */

/* place, seq, stream, destination, story, since, parked, held in its stream, type, source, headers: only the columns
 * that ranking needs, and those that routes need for heads without an endpoint.  ?1: limit; ?2: of this stream. */
#define SQLITE_HEADS(filter)                                                                                                 \
    "SELECT row_id, seq, stream, destination, iif(destination = '' OR due_at = 9223372036854775807, story, NULL),"           \
    " coalesce(failed_at, created_at), due_at = 9223372036854775807, held_by IS NOT NULL AND coalesce(held_for, 1) <> 2,"                 \
    " iif(destination = '', type, NULL), iif(destination = '', source, NULL), iif(destination = '', headers, NULL)"          \
    " FROM \"{box}\" INDEXED BY \"{prefix}{box}_heads\" WHERE " SQLITE_IS_HEAD filter " ORDER BY row_id LIMIT ?1"
#define UNLESS_NAMED(column) "CASE b.destination WHEN '' THEN b." column " END"
#define POSTGRES_HEADS(filter)                                                                                               \
    "SELECT coalesce(b.row_id, b.seq), b.seq, b.stream, b.destination,"                                                      \
    " CASE WHEN b.destination = '' OR b.due_at = 'infinity' THEN b.story END,"                                               \
    " coalesce(b.failed_at, b.created_at), b.due_at = 'infinity', b.held_by IS NOT NULL AND coalesce(b.held_for, 1) <> 2,"               \
    " " UNLESS_NAMED("type") ", " UNLESS_NAMED("source") ", " UNLESS_NAMED("headers")                                        \
    " FROM {box} b WHERE " POSTGRES_IS_HEAD filter " ORDER BY coalesce(b.row_id, b.seq) LIMIT ?1"
STATEMENT(heads, SQLITE(SQLITE_HEADS(" AND stream <> ''")), POSTGRES(POSTGRES_HEADS(" AND b.stream <> ''")))
STATEMENT(heads_of_stream, SQLITE(SQLITE_HEADS(" AND stream = ?2")), POSTGRES(POSTGRES_HEADS(" AND b.stream = ?2")))

/* The heads at these places (?1): the message, its place, its row. */
STATEMENT(heads_whole,
    SQLITE("SELECT {message_brief}, row_id, row_id FROM \"{box}\" WHERE " SQLITE_IS_HEAD
           " AND row_id IN (SELECT value FROM json_each(?1))"),
    POSTGRES("SELECT {message_brief}, p.place, coalesce(b.row_id, b.seq) << 6 | b.lane FROM (SELECT DISTINCT unnest(?1::bigint[]) AS place) p"
             " CROSS JOIN LATERAL (SELECT * FROM {box} b WHERE " POSTGRES_IS_HEAD
             " AND coalesce(b.row_id, b.seq) = p.place OFFSET 0) b"))

/* Held rows by key: the key, how many, the place of the first, what for.  ?1: limit of keys; ?2: limit of rows. */
STATEMENT(held_keys,
    SQLITE("WITH RECURSIVE " SQLITE_OWN " SELECT held_by, count(*), min(seq), iif(held_by IN (SELECT key FROM own), 2, 1)"
           " FROM (SELECT held_by, seq FROM \"{box}\" WHERE held_by > '' ORDER BY held_by LIMIT ?2) GROUP BY held_by ORDER BY held_by"
           " LIMIT ?1"),
    POSTGRES("WITH RECURSIVE " POSTGRES_OWN " SELECT h.held_by, count(*), min(h.seq), CASE WHEN h.held_by IN (SELECT key FROM own)"
             " THEN 2 ELSE 1 END FROM (SELECT b.held_by, b.seq FROM {box} b WHERE b.held_by > ''"
             " ORDER BY b.held_by LIMIT ?2) h GROUP BY h.held_by ORDER BY h.held_by LIMIT ?1"))
#define SQLITE_OF_KEY(held_for)                                                                                              \
    " SELECT k.key, (SELECT count(*) FROM (SELECT 1 FROM \"{box}\" WHERE held_by = k.key LIMIT 10001)),"                     \
    " (SELECT seq FROM \"{box}\" WHERE held_by = k.key ORDER BY seq LIMIT 1), " held_for " FROM "
#define POSTGRES_OF_KEY(held_for)                                                                                            \
    " SELECT k.key, (SELECT count(*) FROM (SELECT FROM {box} b WHERE b.held_by = k.key LIMIT 10001) c),"                     \
    " (SELECT b.seq FROM {box} b WHERE b.held_by = k.key ORDER BY b.seq LIMIT 1), " held_for " FROM "
/* The same, key by key, from this key (?2) on. */
STATEMENT(held_keys_from,
    SQLITE("WITH RECURSIVE " SQLITE_OWN ", k(key) AS (SELECT (SELECT held_by FROM \"{box}\" WHERE held_by >= ?2 ORDER BY held_by LIMIT 1)"
           " UNION ALL SELECT (SELECT held_by FROM \"{box}\" WHERE held_by > k.key ORDER BY held_by LIMIT 1)"
           " FROM k WHERE k.key IS NOT NULL LIMIT ?1)" SQLITE_OF_KEY("iif(k.key IN (SELECT key FROM own), 2, 1)") "k WHERE k.key IS NOT NULL"),
    POSTGRES("WITH RECURSIVE " POSTGRES_OWN ", k(key) AS ((SELECT b.held_by FROM {box} b WHERE b.held_by >= ?2 ORDER BY b.held_by LIMIT 1)"
             " UNION ALL SELECT (SELECT b.held_by FROM {box} b WHERE b.held_by > k.key ORDER BY b.held_by LIMIT 1)"
             " FROM k WHERE k.key IS NOT NULL)" POSTGRES_OF_KEY("CASE WHEN k.key IN (SELECT key FROM own) THEN 2 ELSE 1 END")
             "(SELECT key FROM k WHERE key IS NOT NULL LIMIT ?1) k"))
/* The same for one key (?1). */
STATEMENT(held_key,
    SQLITE(SQLITE_OF_KEY("k.held_for") "(SELECT held_by AS key, coalesce(held_for, 1) AS held_for FROM \"{box}\" WHERE held_by = ?1 LIMIT 1) k"),
    POSTGRES(POSTGRES_OF_KEY("k.held_for")
             "(SELECT b.held_by AS key, coalesce(b.held_for, 1) AS held_for FROM {box} b WHERE b.held_by = ?1 LIMIT 1) k"))
/* Of keys with a single held row (?1), those whose row came back, in the same order. */
STATEMENT(held_alone,
    SQLITE("SELECT p.value FROM json_each(?1) p WHERE EXISTS (SELECT 1 FROM \"{box}\" WHERE held_by = p.value AND " SQLITE_IS_HEAD ")"
           " ORDER BY p.key"),
    POSTGRES("SELECT p.key FROM unnest(?1::text[]) WITH ORDINALITY AS p(key, number) CROSS JOIN LATERAL"
             " (SELECT * FROM {box} b WHERE b.held_by = p.key LIMIT 1) b WHERE " POSTGRES_IS_HEAD " ORDER BY p.number"))

/* Dead letters that a stream (?1) of a box (?2) may wait behind, for this endpoint (?3), before a place (?4): the
 * message, row, cause, when it died, endpoint; after (?5, ?6); ?7: limit. */
STATEMENT(dead_heads,
    SQLITE("SELECT {message_brief}, row_id, cause, died_at, endpoint FROM {prefix}dead_letter WHERE stream = ?1 AND box = ?2"
           " AND endpoint IN (?3, '') AND seq < ?4 AND (seq, row_id) > (?5, ?6) AND edited_as IS NULL ORDER BY seq, row_id LIMIT ?7"),
    POSTGRES("SELECT {message_brief}, b.row_id, b.cause, b.died_at, b.endpoint FROM {prefix}dead_letter b"
             " WHERE left(b.stream, 255) = left(?1, 255) AND b.stream = ?1 AND b.box = ?2"
             " AND b.endpoint IN (?3, '') AND b.seq < ?4 AND (b.seq, b.row_id) > (?5, ?6) AND b.edited_as IS NULL"
             " ORDER BY b.seq, b.row_id LIMIT ?7"))

/* ---- What is written --------------------------------------------------------------------------------------------------------- */

STATEMENT(clock, SQLITE("SELECT ?1"), POSTGRES("SELECT coalesce(?1, now())"))

/* ?1: the source. */
STATEMENT(position, BOTH("SELECT position FROM {prefix}source_position WHERE source = ?1"))
/* ?1: the source; ?2: from; ?3: to; ?4: now.  Returns a row if the position was `from`. */
STATEMENT(position_move,
    BOTH("UPDATE {prefix}source_position SET position = ?3, moved_at = ?4 WHERE source = ?1 AND position = ?2 RETURNING 1"))
STATEMENT(position_new,
    BOTH("INSERT INTO {prefix}source_position (source, position, moved_at) VALUES (?1, ?2, ?3) ON CONFLICT (source) DO NOTHING RETURNING 1"))

STATEMENT(warnings_forget, BOTH("DELETE FROM {prefix}raised_warning WHERE seen_at < ?1"))
/* ?1: its name; ?2: now.  Returns a row if the warning existed; the second one, if it did not. */
STATEMENT(warning_seen, BOTH("UPDATE {prefix}raised_warning SET seen_at = ?2 WHERE name = ?1 RETURNING 1"))
STATEMENT(warning_new,
    BOTH("INSERT INTO {prefix}raised_warning (name, began_at, seen_at) VALUES (?1, ?2, ?2) ON CONFLICT (name) DO NOTHING RETURNING 1"))

/* An imported dead letter: its id (?1), destination (?2), and so on.  Returns a row if it is new. */
#define IMPORTED                                                                                                             \
    "id, destination, seq, stream, type, headers, event, created_at, due_at, expires_at, attempts, endpoint, cause,"          \
    " limit_reached, rule, fingerprint, note, died_at, edited_as" SENDER_TEXTS(COLUMN_NAME) FATE_COLUMNS(FATE_NAME) ", payload"
#define SQLITE_IS_NEW                                                                                                        \
    " WHERE NOT EXISTS (SELECT 1 FROM {prefix}dead_letter INDEXED BY {prefix}dead_letter_id WHERE id IN " SQLITE_IDS("?1")    \
    " AND destination = ?2 AND box = '{box}') AND NOT EXISTS (SELECT 1 FROM \"{box}\" WHERE id IN " SQLITE_IDS("?1")         \
    " AND destination = ?2)"
/* Filters by the box in a form that no index has: before the first ANALYZE the planner would otherwise read all letters
 * of the box for each. */
#define POSTGRES_IS_NEW                                                                                                      \
    " WHERE NOT EXISTS (SELECT FROM {prefix}dead_letter d WHERE d.id = ?1 AND d.destination = ?2"                            \
    " AND d.box || '' = {box_name}) AND NOT EXISTS (SELECT FROM {box} b WHERE b.id = ?1 AND b.destination = ?2)"
STATEMENT(import,
    SQLITE("INSERT INTO {prefix}dead_letter (box, " IMPORTED ") SELECT '{box}', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,"
           " ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19" SENDER_TEXTS(COLUMN_NEXT) FATE_COLUMNS(FATE_NEXT) ", {?}"
           SQLITE_IS_NEW " RETURNING 1"),
    /* The lane is computed as in a box, and a payload is two values. */
    POSTGRES("INSERT INTO {prefix}dead_letter (box, xid, lane, " IMPORTED ", payload_bytes) SELECT {box_name}, pg_current_xact_id(),"
             " (CASE WHEN ?4 <> '' THEN hashtext(?4) ELSE uuid_hash(?1) END & 63)::smallint,"
             " ?1, ?2, ?3, ?4, ?5, ?6::json, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19::uuid"
             SENDER_TEXTS(COLUMN_NEXT) FATE_COLUMNS(FATE_NEXT_CAST) ", {?}, {?}" POSTGRES_IS_NEW " RETURNING 1"))
STATEMENT(import_look, SQLITE("SELECT 1" SQLITE_IS_NEW), POSTGRES("SELECT 1" POSTGRES_IS_NEW))

/* ---- Orders -------------------------------------------------------------------------------------------------------------- */

STATEMENT(order_newest, BOTH("SELECT coalesce(max(row_id), 0) FROM {prefix}dead_letter"))
/* For rows that another operator has locked.  SQLite has one writer, who has waited before. */
STATEMENT(order_lock_wait, SQLITE(""), POSTGRES("SET LOCAL lock_timeout = '2s'"))
/* ?1: an id that was not found.  SQLite has no row locks, so the id does not exist. */
STATEMENT(order_look_box, SQLITE(""), POSTGRES("SELECT 1 FROM {box} WHERE id = ?1 LIMIT 1"))
STATEMENT(order_look_letter, SQLITE(""), POSTGRES("SELECT 1 FROM {prefix}dead_letter WHERE id = ?1 LIMIT 1"))
/* ?1: a dead letter.  B2: not if its id was sent again. */
#define CAN_REPLAY(box)                                                                                                      \
    "SELECT 1 FROM {prefix}dead_letter d WHERE d.row_id = ?1 AND NOT EXISTS"                                                 \
    " (SELECT 1 FROM " box " b WHERE b.id = d.id AND b.destination = d.destination)"
STATEMENT(order_can_replay, SQLITE(CAN_REPLAY("\"{box}\"")), POSTGRES(CAN_REPLAY("{box}")))

/* ---- Marks (core/mark.h).  ?1: the box, ?2: the id, ?3: the handler. ---- */

STATEMENT(mark_time, BOTH("SELECT dedupe_us FROM {prefix}box WHERE name = ?1"))
STATEMENT(mark_find, BOTH("SELECT at FROM {prefix}seen WHERE box = ?1 AND id = ?2 AND handler = ?3"))
STATEMENT(mark_of_id, BOTH("SELECT handler, at, outcome FROM {prefix}seen WHERE box = ?1 AND id = ?2 ORDER BY at, handler"))
STATEMENT(again_of_id,
    BOTH("SELECT destination, CAST(sum(times) AS bigint), max(at) FROM {prefix}again WHERE box = ?1 AND id = ?2"
         " GROUP BY destination ORDER BY destination"))
STATEMENT(mark_add,
    BOTH("INSERT INTO {prefix}seen (box, id, handler, at, outcome, alone, until) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
         " ON CONFLICT (box, id, handler) DO NOTHING"))
STATEMENT(mark_drop, BOTH("DELETE FROM {prefix}seen WHERE box = ?1 AND id = ?2 AND handler = ?3"))

/* ?1: rows of the box. */
STATEMENT(order_forget,
    SQLITE("UPDATE {prefix}claim SET entries = (SELECT json_group_object(e.key, e.value) FROM json_each({prefix}claim.entries) e"
           " WHERE CAST(e.key AS INTEGER) NOT IN (SELECT value FROM json_each(?1))) WHERE box = '{box}' AND EXISTS (SELECT 1 FROM"
           " json_each({prefix}claim.entries) e WHERE CAST(e.key AS INTEGER) IN (SELECT value FROM json_each(?1)))"),
    POSTGRES("UPDATE {prefix}claim c SET rows = ARRAY(SELECT CASE WHEN u.row = ANY (?1) THEN 0 ELSE u.row END"
             " FROM unnest(c.rows) WITH ORDINALITY AS u(row, place) ORDER BY u.place)"
             " WHERE c.box = {box_name} AND c.rows && ?1::bigint[]"))

/* Numbers must be committed in their order. */
STATEMENT(order_notices_lock, SQLITE(""), POSTGRES("LOCK TABLE {prefix}control IN EXCLUSIVE MODE"))
/* ?1: the kind; for each: ?2 box, ?3 row, ?4 seq, ?5 stream, ?6 endpoint; ?7: the clock of leases. */
STATEMENT(order_notices,
    SQLITE("INSERT INTO {prefix}control (mono_at, box, kind, row, seq, stream, endpoint) SELECT ?7, b.value, ?1, r.value, s.value,"
           " t.value, e.value FROM json_each(?2) b JOIN json_each(?3) r ON r.key = b.key JOIN json_each(?4) s ON s.key = b.key"
           " JOIN json_each(?5) t ON t.key = b.key JOIN json_each(?6) e ON e.key = b.key ORDER BY b.key"),
    POSTGRES("INSERT INTO {prefix}control (box, kind, \"row\", seq, stream, endpoint) SELECT u.box, ?1, u.row, u.seq,"
             " nullif(u.stream, ''), nullif(u.endpoint, '') FROM unnest(?2::text[], ?3::bigint[], ?4::bigint[], ?5::text[], ?6::text[])"
             " WITH ORDINALITY AS u(box, row, seq, stream, endpoint, place) ORDER BY u.place"))

/* Locks the row of a flow (?1) until the end of the transaction; execution, tasks, state.  No row: it is locked by
 * another transaction, or does not exist. */
STATEMENT(flow_lock,
    SQLITE("SELECT execution, tasks, state FROM {prefix}flow WHERE id = ?1"),
    POSTGRES("SELECT execution, tasks, state FROM {prefix}flow WHERE id = ?1 FOR UPDATE SKIP LOCKED"))
STATEMENT(flow_is_there, BOTH("SELECT 1 FROM {prefix}flow WHERE id = ?1"))
STATEMENT(flow_children, BOTH("SELECT id FROM {prefix}flow WHERE parent = ?1 ORDER BY id"))

/* Locked rows are about to end.  ?1: ids. */
STATEMENT(flow_delete_tasks,
    SQLITE("DELETE FROM \"{box}\" WHERE id IN (WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n"
           " WHERE 16 * (i + 1) < length(?1)) SELECT substr(?1, 16 * i + 1, 16) FROM n)"),
    POSTGRES("DELETE FROM {box} b USING (SELECT d.ctid AS place FROM {box} d WHERE d.id = ANY (?1) ORDER BY d.id FOR UPDATE SKIP LOCKED) f"
             " WHERE b.ctid = f.place"))
/* ?1: ids of tasks; ?2: their flow: starts of its children, except detached ones. */
STATEMENT(flow_delete_starts,
    SQLITE("DELETE FROM \"{box}\" WHERE id IN (WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n"
           " WHERE 16 * (i + 1) < length(?1)) SELECT substr(?1, 16 * i + 1, 16) FROM n)"
           " AND CASE WHEN json_valid(headers) THEN json_extract(headers, '$.parent') = ?2 END"),
    POSTGRES("DELETE FROM {box} b USING (SELECT d.ctid AS place FROM {box} d WHERE d.id = ANY (?1)"
             " AND d.headers::jsonb ->> 'parent' = ?2 ORDER BY d.id FOR UPDATE SKIP LOCKED) f WHERE b.ctid = f.place"))
/* ?1: the flow. */
STATEMENT(flow_delete_messages,
    SQLITE("DELETE FROM \"{box}\" WHERE stream = ?1"),
    POSTGRES("DELETE FROM {box} b USING (SELECT d.ctid AS place FROM {box} d WHERE d.lane = (hashtext(?1) & 63)::smallint"
             " AND d.stream = ?1 ORDER BY d.id FOR UPDATE SKIP LOCKED) f WHERE b.ctid = f.place"))
STATEMENT(flow_delete_history,
    BOTH("DELETE FROM {prefix}flow_history WHERE execution IN (SELECT execution FROM {prefix}flow WHERE id = ?1"
         " UNION ALL SELECT execution FROM {prefix}flow_execution WHERE flow = ?1)"))
STATEMENT(flow_delete_executions, BOTH("DELETE FROM {prefix}flow_execution WHERE flow = ?1"))
STATEMENT(flow_delete_values, BOTH("DELETE FROM {prefix}flow_state WHERE flow = ?1"))
STATEMENT(flow_delete_mail, BOTH("DELETE FROM {prefix}flow_mail WHERE flow = ?1"))
STATEMENT(flow_delete_row, BOTH("DELETE FROM {prefix}flow WHERE id = ?1"))

/* Executions before the current ones, of a flow (?1; '': of all), without the latest ?2 of each that ended at ?3 or
 * later; ?4: limit. */
STATEMENT(flow_prune_find,
    BOTH("SELECT e.execution FROM (SELECT execution, ended_at, row_number() OVER (PARTITION BY flow ORDER BY execution DESC) AS n"
         " FROM {prefix}flow_execution WHERE ?1 = '' OR flow = ?1) e WHERE e.n > ?2 OR e.ended_at < ?3 LIMIT ?4"))
STATEMENT(flow_prune_history,
    SQLITE("DELETE FROM {prefix}flow_history WHERE execution IN (SELECT value FROM json_each(?1))"),
    POSTGRES("DELETE FROM {prefix}flow_history WHERE execution = ANY (?1)"))
STATEMENT(flow_prune_executions,
    SQLITE("DELETE FROM {prefix}flow_execution WHERE execution IN (SELECT value FROM json_each(?1))"),
    POSTGRES("DELETE FROM {prefix}flow_execution WHERE execution = ANY (?1)"))

#define AUDIT_COLUMNS "INSERT INTO {prefix}audit (at, who, action, target, why, matched, changed, refused) VALUES"
STATEMENT(order_audit,
    SQLITE(AUDIT_COLUMNS " (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"),
    POSTGRES(AUDIT_COLUMNS " (?1, ?2, ?3, ?4::json, ?5, ?6, ?7, ?8)"))

/* ?1: its name.  The end of its pause, if it is known. */
STATEMENT(order_endpoint,
    SQLITE("SELECT paused_until FROM {prefix}endpoint WHERE name = ?1"),
    POSTGRES("WITH e AS (SELECT paused_until FROM {prefix}endpoint WHERE name = ?1 FOR UPDATE) SELECT paused_until FROM e"
             " UNION ALL (SELECT NULL FROM {prefix}tally WHERE endpoint = ?1 AND NOT EXISTS (SELECT FROM e) LIMIT 1)"))
STATEMENT(order_pause,
    SQLITE("INSERT INTO {prefix}endpoint (name, paused_until, paused_by, paused_why) VALUES (?1, coalesce(?2, 0), ?3, ?4)"
           " ON CONFLICT (name) DO UPDATE SET paused_until = coalesce(?2, 0), paused_by = ?3, paused_why = ?4"),
    POSTGRES("INSERT INTO {prefix}endpoint (name, paused_until, paused_by, paused_why) VALUES (?1, ?2, ?3, ?4)"
             " ON CONFLICT (name) DO UPDATE SET paused_until = ?2, paused_by = ?3, paused_why = ?4"))

/* Files that include this one use other names. */
#undef IS_HELD_OR_UNMET
#undef CAN_REPLAY
#undef AUDIT_COLUMNS
#undef FLOW_COLUMNS
#undef FLOWS_THAT_FIT
#undef FLOWS_IN_STATE
#undef HAND_OUTS_OF_BOX
#undef SQLITE_IS_BACK
#undef SQLITE_IS_HEAD
#undef POSTGRES_IS_BACK
#undef POSTGRES_IS_HEAD
#undef SQLITE_IDS
#undef BOX_LOOKED
#undef PLACE
#undef NOT_FRESH
#undef LOOK_BACK
#undef SQLITE_DEAD
#undef POSTGRES_DEAD
#undef POSTGRES_DONE
#undef OF_REASON
#undef SQLITE_PRINT
#undef SQLITE_PRINTS
#undef SQLITE_ASKED
#undef SQLITE_IN_PRINT
#undef SQLITE_IN_TIME
#undef SQLITE_IN_REASON
#undef SQLITE_IN_TEXT
#undef SQLITE_LOOKED
#undef SQLITE_GROUPS
#undef POSTGRES_PRINTS
#undef POSTGRES_ASKED
#undef POSTGRES_IN_PRINT
#undef POSTGRES_IN_TIME
#undef POSTGRES_OF_LATEST
#undef POSTGRES_IN_REASON
#undef POSTGRES_IN_TEXT
#undef POSTGRES_LOOKED
#undef POSTGRES_LATEST
#undef POSTGRES_GROUPS
#undef SQLITE_OWN
#undef POSTGRES_OWN
#undef SQLITE_COUNTS
#undef COUNTED
#undef DUE_BY_INDEX
#undef DUE_BY_ROW
#undef POSTGRES_COUNTS
#undef FRESH_COLUMNS
#undef SQLITE_HEADS
#undef UNLESS_NAMED
#undef POSTGRES_HEADS
#undef SQLITE_OF_KEY
#undef POSTGRES_OF_KEY
#undef IMPORTED
#undef SQLITE_IS_NEW
#undef POSTGRES_IS_NEW
/* clang-format on */
