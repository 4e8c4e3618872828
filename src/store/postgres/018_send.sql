-- Whoever is at work knows the old column (016_text.sql): everybody joins anew.
DELETE FROM "{schema}".claim;
DELETE FROM "{schema}".breaker;
DELETE FROM "{schema}".instance;

-- The operators, too, are those of the catalog, whoever sends.
CREATE OR REPLACE FUNCTION "{schema}".uuid7() RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
    SELECT pg_catalog.encode(pg_catalog.set_bit(pg_catalog.set_bit(overlay(pg_catalog.uuid_send(pg_catalog.gen_random_uuid())
               PLACING substring(pg_catalog.int8send((extract(epoch FROM pg_catalog.clock_timestamp())
                   OPERATOR(pg_catalog.*) 1000)::pg_catalog.int8) FROM 3)
               FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::pg_catalog.uuid
$$;

-- What the functions below have in common.  It runs with its caller's rights: theirs are the owner's.
CREATE OR REPLACE FUNCTION "{schema}".send_row(
    type text, payload text, payload_bytes bytea, stream text, destination text, headers jsonb, due timestamptz,
    expires timestamptz, id uuid, event boolean, content_type text, box text, source text, subject text,
    correlation_id text, causation_id text, traceparent text, tracestate text)
RETURNS uuid
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    the_id pg_catalog.uuid := coalesce(send_row.id, "{schema}".uuid7());
    stored pg_catalog.int8 := 0;
BEGIN
    IF coalesce(send_row.type, '') = '' THEN
        RAISE EXCEPTION 'type is empty: every message needs a type such as order.created' USING ERRCODE = '22023';
    END IF;
    IF NOT EXISTS (SELECT FROM "{schema}".box b WHERE b.name = send_row.box) THEN
        RAISE EXCEPTION 'there is no box "%": name it under boxes: in the configuration, and run postrider init', send_row.box
            USING ERRCODE = '22023';
    END IF;
    IF pg_catalog.jsonb_typeof(send_row.headers) <> 'object' THEN
        RAISE EXCEPTION 'headers are not a JSON object such as {"tenant":"7"}' USING ERRCODE = '22023';
    END IF;
    IF send_row.id IS NULL OR NOT EXISTS (SELECT FROM "{schema}".dead_letter d WHERE d.id = send_row.id
           AND d.destination = coalesce(send_row.destination, '') AND d.box = send_row.box) THEN
        EXECUTE pg_catalog.format('INSERT INTO "{schema}".%I (id, type, payload, payload_bytes, stream, destination, headers,'
                       ' due_at, expires_at, event, content_type, source, subject, correlation_id, causation_id,'
                       ' traceparent, tracestate)'
                       ' VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)'
                       ' ON CONFLICT (id, destination) DO NOTHING', send_row.box)
            USING the_id, send_row.type, send_row.payload, send_row.payload_bytes, nullif(send_row.stream, ''),
                  coalesce(send_row.destination, ''), send_row.headers::pg_catalog.json, send_row.due, send_row.expires,
                  coalesce(send_row.event, false), send_row.content_type, send_row.source, send_row.subject,
                  send_row.correlation_id, send_row.causation_id, send_row.traceparent, send_row.tracestate;
        GET DIAGNOSTICS stored = ROW_COUNT;
    END IF;
    IF stored = 0 THEN
        RAISE NOTICE 'duplicate: % is stored already; nothing changed', the_id;
    END IF;
    RETURN the_id;
END
$$;
REVOKE ALL ON FUNCTION "{schema}".send_row(text, text, bytea, text, text, jsonb, timestamptz, timestamptz, uuid, boolean, text,
    text, text, text, text, text, text, text) FROM PUBLIC;

-- Sending from any language.  They run with the owner's rights, so that whoever may EXECUTE them needs no right on the
-- tables; so no name in them may be looked up among the caller's (pg_temp is last, types and functions say where they are).

CREATE OR REPLACE FUNCTION "{schema}".send(
    type text, payload text, stream text DEFAULT NULL, destination text DEFAULT '', headers jsonb DEFAULT NULL,
    due timestamptz DEFAULT NULL, expires timestamptz DEFAULT NULL, id uuid DEFAULT NULL,
    event boolean DEFAULT false, content_type text DEFAULT NULL, box text DEFAULT 'outbox',
    source text DEFAULT NULL, subject text DEFAULT NULL, correlation_id text DEFAULT NULL, causation_id text DEFAULT NULL,
    traceparent text DEFAULT NULL, tracestate text DEFAULT NULL)
RETURNS uuid
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT "{schema}".send_row(type, payload, NULL, stream, destination, headers, due, expires, id, event,
                               content_type, box, source, subject, correlation_id, causation_id,
                               traceparent, tracestate)
$$;
REVOKE ALL ON FUNCTION "{schema}".send(text, text, text, text, jsonb, timestamptz, timestamptz, uuid, boolean, text, text,
    text, text, text, text, text, text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION "{schema}".send(
    type text, payload bytea, stream text DEFAULT NULL, destination text DEFAULT '', headers jsonb DEFAULT NULL,
    due timestamptz DEFAULT NULL, expires timestamptz DEFAULT NULL, id uuid DEFAULT NULL,
    event boolean DEFAULT false, content_type text DEFAULT NULL, box text DEFAULT 'outbox',
    source text DEFAULT NULL, subject text DEFAULT NULL, correlation_id text DEFAULT NULL, causation_id text DEFAULT NULL,
    traceparent text DEFAULT NULL, tracestate text DEFAULT NULL)
RETURNS uuid
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT "{schema}".send_row(type, NULL, payload, stream, destination, headers, due, expires, id, event,
                               content_type, box, source, subject, correlation_id, causation_id,
                               traceparent, tracestate)
$$;
REVOKE ALL ON FUNCTION "{schema}".send(text, bytea, text, text, jsonb, timestamptz, timestamptz, uuid, boolean, text, text,
    text, text, text, text, text, text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION "{schema}".send(
    type text, payload json, stream text DEFAULT NULL, destination text DEFAULT '', headers jsonb DEFAULT NULL,
    due timestamptz DEFAULT NULL, expires timestamptz DEFAULT NULL, id uuid DEFAULT NULL,
    event boolean DEFAULT false, content_type text DEFAULT NULL, box text DEFAULT 'outbox',
    source text DEFAULT NULL, subject text DEFAULT NULL, correlation_id text DEFAULT NULL, causation_id text DEFAULT NULL,
    traceparent text DEFAULT NULL, tracestate text DEFAULT NULL)
RETURNS uuid
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT "{schema}".send_row(type, payload::pg_catalog.text, NULL, stream, destination, headers, due, expires, id, event,
                               coalesce(content_type, 'application/json'), box, source, subject, correlation_id, causation_id,
                               traceparent, tracestate)
$$;
REVOKE ALL ON FUNCTION "{schema}".send(text, json, text, text, jsonb, timestamptz, timestamptz, uuid, boolean, text, text,
    text, text, text, text, text, text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION "{schema}".send(
    type text, payload jsonb, stream text DEFAULT NULL, destination text DEFAULT '', headers jsonb DEFAULT NULL,
    due timestamptz DEFAULT NULL, expires timestamptz DEFAULT NULL, id uuid DEFAULT NULL,
    event boolean DEFAULT false, content_type text DEFAULT NULL, box text DEFAULT 'outbox',
    source text DEFAULT NULL, subject text DEFAULT NULL, correlation_id text DEFAULT NULL, causation_id text DEFAULT NULL,
    traceparent text DEFAULT NULL, tracestate text DEFAULT NULL)
RETURNS uuid
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT "{schema}".send_row(type, payload::pg_catalog.text, NULL, stream, destination, headers, due, expires, id, event,
                               coalesce(content_type, 'application/json'), box, source, subject, correlation_id, causation_id,
                               traceparent, tracestate)
$$;
REVOKE ALL ON FUNCTION "{schema}".send(text, jsonb, text, text, jsonb, timestamptz, timestamptz, uuid, boolean, text, text,
    text, text, text, text, text, text) FROM PUBLIC;
