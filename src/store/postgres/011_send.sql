-- send() takes every column of a sender, and says when an id is a duplicate (B2).  These functions are new ones: their
-- grants are given again by `postrider init --grants`.

DROP FUNCTION IF EXISTS "{schema}".send(text, text, text, text, jsonb, timestamptz, timestamptz, uuid, boolean, text, text);
DROP FUNCTION IF EXISTS "{schema}".send(text, jsonb, text, text, jsonb, timestamptz, timestamptz, uuid, boolean, text, text);
DROP FUNCTION IF EXISTS "{schema}".send(text, bytea, text, text, jsonb, timestamptz, timestamptz, uuid, boolean, text, text);

CREATE OR REPLACE FUNCTION "{schema}".send(
    type text, payload bytea, stream text DEFAULT NULL, destination text DEFAULT '', headers jsonb DEFAULT NULL,
    due timestamptz DEFAULT NULL, expires timestamptz DEFAULT NULL, id uuid DEFAULT NULL,
    event boolean DEFAULT false, content_type text DEFAULT NULL, box text DEFAULT 'outbox',
    source text DEFAULT NULL, subject text DEFAULT NULL, correlation_id text DEFAULT NULL, causation_id text DEFAULT NULL,
    traceparent text DEFAULT NULL, tracestate text DEFAULT NULL)
RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog
AS $$
DECLARE
    the_id uuid := coalesce(send.id, "{schema}".uuid7());
    stored bigint := 0;
BEGIN
    IF coalesce(send.type, '') = '' THEN
        RAISE EXCEPTION 'type is empty: every message needs a type such as order.created' USING ERRCODE = '22023';
    END IF;
    IF NOT EXISTS (SELECT FROM "{schema}".box b WHERE b.name = send.box) THEN
        RAISE EXCEPTION 'there is no box "%": name it under boxes: in the configuration, and run postrider init', send.box
            USING ERRCODE = '22023';
    END IF;
    IF jsonb_typeof(send.headers) <> 'object' THEN
        RAISE EXCEPTION 'headers are not a JSON object such as {"tenant":"7"}' USING ERRCODE = '22023';
    END IF;
    IF send.id IS NULL OR NOT EXISTS (SELECT FROM "{schema}".dead_letter d WHERE d.id = send.id
           AND d.destination = coalesce(send.destination, '') AND d.box = send.box) THEN
        EXECUTE format('INSERT INTO "{schema}".%I (id, type, payload, stream, destination, headers, due_at, expires_at,'
                       ' event, content_type, source, subject, correlation_id, causation_id, traceparent, tracestate)'
                       ' VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)'
                       ' ON CONFLICT (id, destination) DO NOTHING', send.box)
            USING the_id, send.type, send.payload, nullif(send.stream, ''), coalesce(send.destination, ''),
                  send.headers::json, send.due, send.expires, coalesce(send.event, false), send.content_type, send.source,
                  send.subject, send.correlation_id, send.causation_id, send.traceparent, send.tracestate;
        GET DIAGNOSTICS stored = ROW_COUNT;
    END IF;
    IF stored = 0 THEN
        RAISE NOTICE 'duplicate: % is stored already; nothing changed', the_id;
    END IF;
    RETURN the_id;
END
$$;

CREATE OR REPLACE FUNCTION "{schema}".send(
    type text, payload text, stream text DEFAULT NULL, destination text DEFAULT '', headers jsonb DEFAULT NULL,
    due timestamptz DEFAULT NULL, expires timestamptz DEFAULT NULL, id uuid DEFAULT NULL,
    event boolean DEFAULT false, content_type text DEFAULT NULL, box text DEFAULT 'outbox',
    source text DEFAULT NULL, subject text DEFAULT NULL, correlation_id text DEFAULT NULL, causation_id text DEFAULT NULL,
    traceparent text DEFAULT NULL, tracestate text DEFAULT NULL)
RETURNS uuid
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog
AS $$
    SELECT "{schema}".send(type, convert_to(payload, 'UTF8'), stream, destination, headers, due, expires, id, event,
                           content_type, box, source, subject, correlation_id, causation_id,
                           traceparent, tracestate)
$$;

CREATE OR REPLACE FUNCTION "{schema}".send(
    type text, payload jsonb, stream text DEFAULT NULL, destination text DEFAULT '', headers jsonb DEFAULT NULL,
    due timestamptz DEFAULT NULL, expires timestamptz DEFAULT NULL, id uuid DEFAULT NULL,
    event boolean DEFAULT false, content_type text DEFAULT NULL, box text DEFAULT 'outbox',
    source text DEFAULT NULL, subject text DEFAULT NULL, correlation_id text DEFAULT NULL, causation_id text DEFAULT NULL,
    traceparent text DEFAULT NULL, tracestate text DEFAULT NULL)
RETURNS uuid
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog
AS $$
    SELECT "{schema}".send(type, convert_to(payload::text, 'UTF8'), stream, destination, headers, due, expires, id, event,
                           coalesce(content_type, 'application/json'), box, source, subject, correlation_id, causation_id,
                           traceparent, tracestate)
$$;

REVOKE ALL ON FUNCTION "{schema}".send(text, bytea, text, text, jsonb, timestamptz, timestamptz, uuid, boolean, text, text,
    text, text, text, text, text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{schema}".send(text, text, text, text, jsonb, timestamptz, timestamptz, uuid, boolean, text, text,
    text, text, text, text, text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION "{schema}".send(text, jsonb, text, text, jsonb, timestamptz, timestamptz, uuid, boolean, text, text,
    text, text, text, text, text, text) FROM PUBLIC;
