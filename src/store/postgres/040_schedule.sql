-- A schedule by SQL: a wish for it, in the transaction of the caller, which a running relay takes up (doc/schedules.md).  It
-- needs no more than the right to send.  What is wrong with the times is found there: then it is a dead letter that says so.
CREATE OR REPLACE FUNCTION "{schema}".schedule(name text, cron text, type text, payload jsonb DEFAULT NULL,
    zone text DEFAULT NULL, missed text DEFAULT NULL, stream text DEFAULT NULL, destination text DEFAULT NULL,
    box text DEFAULT NULL, headers jsonb DEFAULT NULL, paused boolean DEFAULT NULL)
RETURNS void
LANGUAGE sql
AS $$
    SELECT "{schema}".send(type => 'postrider.schedule', stream => schedule.name, destination => 'schedule:', payload =>
        pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(
            'cron', schedule.cron, 'zone', schedule.zone, 'missed', schedule.missed, 'paused', schedule.paused,
            'box', schedule.box, 'type', schedule.type, 'stream', schedule.stream, 'destination', schedule.destination))
        || CASE WHEN schedule.headers IS NULL THEN '{}' ELSE pg_catalog.jsonb_build_object('headers', schedule.headers) END
        || CASE WHEN schedule.payload IS NULL THEN '{}' ELSE pg_catalog.jsonb_build_object('payload', schedule.payload) END)
$$;
REVOKE ALL ON FUNCTION "{schema}".schedule(text, text, text, jsonb, text, text, text, text, text, jsonb, boolean) FROM PUBLIC;

CREATE OR REPLACE FUNCTION "{schema}".unschedule(name text)
RETURNS void
LANGUAGE sql
AS $$
    SELECT "{schema}".send(type => 'postrider.schedule', stream => unschedule.name, destination => 'schedule:',
        payload => '{"cancel":true}'::pg_catalog.jsonb)
$$;
REVOKE ALL ON FUNCTION "{schema}".unschedule(text) FROM PUBLIC;
