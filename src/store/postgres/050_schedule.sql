-- As in 044_schedule.sql, with events; and orders for a schedule that exists.  Each is a wish, too: 051_scheduler_box.sql makes a
-- whole one of it.  The right to execute schedule() is the right to all of them.
DROP FUNCTION IF EXISTS "{schema}".schedule(text, text, text, jsonb, text, text, text, text, text, jsonb, boolean, text);
CREATE OR REPLACE FUNCTION "{schema}".schedule(name text, cron text, type text, payload jsonb DEFAULT NULL,
    zone text DEFAULT NULL, missed text DEFAULT NULL, stream text DEFAULT NULL, destination text DEFAULT NULL,
    box text DEFAULT NULL, headers jsonb DEFAULT NULL, paused boolean DEFAULT NULL, grace text DEFAULT NULL,
    event boolean DEFAULT NULL)
RETURNS void
LANGUAGE sql
AS $$
    SELECT "{schema}".send(type => 'postrider.schedule', stream => schedule.name, destination => 'schedule:', payload =>
        pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(
            'cron', schedule.cron, 'zone', schedule.zone, 'missed', schedule.missed, 'grace', schedule.grace,
            'paused', schedule.paused, 'box', schedule.box, 'type', schedule.type, 'stream', schedule.stream,
            'destination', schedule.destination, 'event', schedule.event))
        || CASE WHEN schedule.headers IS NULL THEN '{}' ELSE pg_catalog.jsonb_build_object('headers', schedule.headers) END
        || CASE WHEN schedule.payload IS NULL THEN '{}' ELSE pg_catalog.jsonb_build_object('payload', schedule.payload) END)
$$;
REVOKE ALL ON FUNCTION "{schema}".schedule(text, text, text, jsonb, text, text, text, text, text, jsonb, boolean, text, boolean)
    FROM PUBLIC;

CREATE OR REPLACE FUNCTION "{schema}".run_schedule(name text)
RETURNS void
LANGUAGE sql
AS $$
    SELECT "{schema}".send(type => 'postrider.schedule', stream => run_schedule.name, destination => 'schedule:',
        payload => '{"run":true}'::pg_catalog.jsonb)
$$;
REVOKE ALL ON FUNCTION "{schema}".run_schedule(text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION "{schema}".pause_schedule(name text)
RETURNS void
LANGUAGE sql
AS $$
    SELECT "{schema}".send(type => 'postrider.schedule', stream => pause_schedule.name, destination => 'schedule:',
        payload => '{"pause":true}'::pg_catalog.jsonb)
$$;
REVOKE ALL ON FUNCTION "{schema}".pause_schedule(text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION "{schema}".resume_schedule(name text)
RETURNS void
LANGUAGE sql
AS $$
    SELECT "{schema}".send(type => 'postrider.schedule', stream => resume_schedule.name, destination => 'schedule:',
        payload => '{"resume":true}'::pg_catalog.jsonb)
$$;
REVOKE ALL ON FUNCTION "{schema}".resume_schedule(text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION "{schema}".reschedule(name text, due timestamptz)
RETURNS void
LANGUAGE sql
AS $$
    SELECT "{schema}".send(type => 'postrider.schedule', stream => reschedule.name, destination => 'schedule:',
        payload => pg_catalog.jsonb_build_object('due',
            pg_catalog.to_char(reschedule.due AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')))
$$;
REVOKE ALL ON FUNCTION "{schema}".reschedule(text, timestamptz) FROM PUBLIC;

-- The id of the row of a schedule: schedule_id() in core/schedule.c.
CREATE OR REPLACE FUNCTION "{schema}".schedule_row_id(name text)
RETURNS uuid
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT encode(set_byte(set_byte(substr(h.hash, 1, 16), 6, (get_byte(h.hash, 6) & 15) | 128), 8,
        (get_byte(h.hash, 8) & 63) | 128), 'hex')::uuid
    FROM (SELECT sha256(convert_to('postrider:schedule' || E'\n' || name, 'UTF8')) AS hash) h
$$;

-- A member of what a schedule says, for the view; NULL: it has none, or is no JSON.
CREATE OR REPLACE FUNCTION "{schema}".schedule_member(payload text, member text)
RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN payload::json ->> member;
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END
$$;
