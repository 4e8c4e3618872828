-- Optimistic concurrency of events.

-- How many events the stream has; who asks holds the stream's row from then on, so that it stays so until his transaction ends.
-- NULL: the stream has this id already.  A stream without events gets a row that says 0.
CREATE OR REPLACE FUNCTION "{schema}".expect_version(stream text, id uuid) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    found_version pg_catalog.int8;
BEGIN
    IF EXISTS (SELECT FROM "{schema}".event e WHERE e.stream = expect_version.stream AND e.id = expect_version.id) THEN
        RETURN NULL;
    END IF;
    INSERT INTO "{schema}".event_stream (stream, version) VALUES (expect_version.stream, 0) ON CONFLICT DO NOTHING;
    SELECT s.version INTO found_version FROM "{schema}".event_stream s WHERE s.stream = expect_version.stream FOR NO KEY UPDATE;
    IF EXISTS (SELECT FROM "{schema}".event e WHERE e.stream = expect_version.stream AND e.id = expect_version.id) THEN
        RETURN NULL; -- somebody else has sent it while we waited
    END IF;
    RETURN found_version;
END
$$;
REVOKE ALL ON FUNCTION "{schema}".expect_version(text, uuid) FROM PUBLIC;

-- May send() append it?  False: it is stored already.  It runs with its caller's rights: theirs are the owner's.
CREATE OR REPLACE FUNCTION "{schema}".may_append(stream text, id uuid, event boolean, expected bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    found_version pg_catalog.int8;
BEGIN
    IF may_append.expected IS NULL THEN
        RETURN true;
    END IF;
    IF may_append.expected < 0 OR may_append.event IS NOT TRUE OR coalesce(may_append.stream, '') = '' THEN
        RAISE EXCEPTION 'expected_version is only for events with a stream, and at least 0: 0 means that the stream is new'
            USING ERRCODE = '22023';
    END IF;
    found_version := "{schema}".expect_version(may_append.stream, may_append.id);
    IF found_version IS NULL THEN
        RAISE NOTICE 'duplicate: % is stored already; nothing changed', may_append.id;
        RETURN false;
    END IF;
    IF found_version <> may_append.expected THEN
        RAISE EXCEPTION 'stream "%" is at version %, not %: read it again before you retry', may_append.stream, found_version,
            may_append.expected USING ERRCODE = 'PR409';
    END IF;
    RETURN true;
END
$$;
REVOKE ALL ON FUNCTION "{schema}".may_append(text, uuid, boolean, bigint) FROM PUBLIC;

-- send() of an event that expects a version: functions of their own beside those of 018_send.sql, for a new argument of these would
-- take away the rights that people have granted on them.

CREATE OR REPLACE FUNCTION "{schema}".send(
    type text, payload text, expected_version bigint, stream text DEFAULT NULL, destination text DEFAULT '', headers jsonb DEFAULT NULL,
    due timestamptz DEFAULT NULL, expires timestamptz DEFAULT NULL, id uuid DEFAULT NULL,
    event boolean DEFAULT true, content_type text DEFAULT NULL, box text DEFAULT 'outbox',
    source text DEFAULT NULL, subject text DEFAULT NULL, correlation_id text DEFAULT NULL, causation_id text DEFAULT NULL,
    traceparent text DEFAULT NULL, tracestate text DEFAULT NULL)
RETURNS uuid
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN "{schema}".may_append(stream, id, event, expected_version)
           THEN "{schema}".send_row(type, payload, NULL, stream, destination, headers, due, expires, id, event,
                               content_type, box, source, subject, correlation_id, causation_id,
                               traceparent, tracestate)
           ELSE id END
$$;
REVOKE ALL ON FUNCTION "{schema}".send(text, text, bigint, text, text, jsonb, timestamptz, timestamptz, uuid, boolean, text, text,
    text, text, text, text, text, text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION "{schema}".send(
    type text, payload bytea, expected_version bigint, stream text DEFAULT NULL, destination text DEFAULT '', headers jsonb DEFAULT NULL,
    due timestamptz DEFAULT NULL, expires timestamptz DEFAULT NULL, id uuid DEFAULT NULL,
    event boolean DEFAULT true, content_type text DEFAULT NULL, box text DEFAULT 'outbox',
    source text DEFAULT NULL, subject text DEFAULT NULL, correlation_id text DEFAULT NULL, causation_id text DEFAULT NULL,
    traceparent text DEFAULT NULL, tracestate text DEFAULT NULL)
RETURNS uuid
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN "{schema}".may_append(stream, id, event, expected_version)
           THEN "{schema}".send_row(type, NULL, payload, stream, destination, headers, due, expires, id, event,
                               content_type, box, source, subject, correlation_id, causation_id,
                               traceparent, tracestate)
           ELSE id END
$$;
REVOKE ALL ON FUNCTION "{schema}".send(text, bytea, bigint, text, text, jsonb, timestamptz, timestamptz, uuid, boolean, text, text,
    text, text, text, text, text, text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION "{schema}".send(
    type text, payload json, expected_version bigint, stream text DEFAULT NULL, destination text DEFAULT '', headers jsonb DEFAULT NULL,
    due timestamptz DEFAULT NULL, expires timestamptz DEFAULT NULL, id uuid DEFAULT NULL,
    event boolean DEFAULT true, content_type text DEFAULT NULL, box text DEFAULT 'outbox',
    source text DEFAULT NULL, subject text DEFAULT NULL, correlation_id text DEFAULT NULL, causation_id text DEFAULT NULL,
    traceparent text DEFAULT NULL, tracestate text DEFAULT NULL)
RETURNS uuid
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN "{schema}".may_append(stream, id, event, expected_version)
           THEN "{schema}".send_row(type, payload::pg_catalog.text, NULL, stream, destination, headers, due, expires, id, event,
                               coalesce(content_type, 'application/json'), box, source, subject, correlation_id, causation_id,
                               traceparent, tracestate)
           ELSE id END
$$;
REVOKE ALL ON FUNCTION "{schema}".send(text, json, bigint, text, text, jsonb, timestamptz, timestamptz, uuid, boolean, text, text,
    text, text, text, text, text, text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION "{schema}".send(
    type text, payload jsonb, expected_version bigint, stream text DEFAULT NULL, destination text DEFAULT '', headers jsonb DEFAULT NULL,
    due timestamptz DEFAULT NULL, expires timestamptz DEFAULT NULL, id uuid DEFAULT NULL,
    event boolean DEFAULT true, content_type text DEFAULT NULL, box text DEFAULT 'outbox',
    source text DEFAULT NULL, subject text DEFAULT NULL, correlation_id text DEFAULT NULL, causation_id text DEFAULT NULL,
    traceparent text DEFAULT NULL, tracestate text DEFAULT NULL)
RETURNS uuid
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN "{schema}".may_append(stream, id, event, expected_version)
           THEN "{schema}".send_row(type, payload::pg_catalog.text, NULL, stream, destination, headers, due, expires, id, event,
                               coalesce(content_type, 'application/json'), box, source, subject, correlation_id, causation_id,
                               traceparent, tracestate)
           ELSE id END
$$;
REVOKE ALL ON FUNCTION "{schema}".send(text, jsonb, bigint, text, text, jsonb, timestamptz, timestamptz, uuid, boolean, text, text,
    text, text, text, text, text, text) FROM PUBLIC;
