-- As in 040_schedule.sql, with a grace time: how late a time can be before it counts as missed.  The right to execute it is the
-- right to make, replace and cancel schedules, however that is done: see 045_scheduler_box.sql.
DROP FUNCTION IF EXISTS "{schema}".schedule(text, text, text, jsonb, text, text, text, text, text, jsonb, boolean);
CREATE OR REPLACE FUNCTION "{schema}".schedule(name text, cron text, type text, payload jsonb DEFAULT NULL,
    zone text DEFAULT NULL, missed text DEFAULT NULL, stream text DEFAULT NULL, destination text DEFAULT NULL,
    box text DEFAULT NULL, headers jsonb DEFAULT NULL, paused boolean DEFAULT NULL, grace text DEFAULT NULL)
RETURNS void
LANGUAGE sql
AS $$
    SELECT "{schema}".send(type => 'postrider.schedule', stream => schedule.name, destination => 'schedule:', payload =>
        pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(
            'cron', schedule.cron, 'zone', schedule.zone, 'missed', schedule.missed, 'grace', schedule.grace,
            'paused', schedule.paused, 'box', schedule.box, 'type', schedule.type, 'stream', schedule.stream,
            'destination', schedule.destination))
        || CASE WHEN schedule.headers IS NULL THEN '{}' ELSE pg_catalog.jsonb_build_object('headers', schedule.headers) END
        || CASE WHEN schedule.payload IS NULL THEN '{}' ELSE pg_catalog.jsonb_build_object('payload', schedule.payload) END)
$$;
REVOKE ALL ON FUNCTION "{schema}".schedule(text, text, text, jsonb, text, text, text, text, text, jsonb, boolean, text) FROM PUBLIC;
