-- The table of a box, when it is not the one of its name (boxes.NAME.table); NULL: it is.  It never changes.
ALTER TABLE "{schema}".box ADD COLUMN IF NOT EXISTS table_name text COLLATE "C";

-- For programs that know a box by its name.  Who may send may ask, without a right on the table of boxes.
CREATE OR REPLACE FUNCTION "{schema}".box_tables(OUT name text, OUT table_name text) RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT b.name, coalesce(b.table_name, b.name) FROM "{schema}".box b
$$;

-- As in 018_send.sql, into the table of the box.
CREATE OR REPLACE FUNCTION "{schema}".send_row(
    type text, payload text, payload_bytes bytea, stream text, destination text, headers jsonb, due timestamptz,
    expires timestamptz, id uuid, event boolean, content_type text, box text, source text, subject text,
    correlation_id text, causation_id text, traceparent text, tracestate text)
RETURNS uuid
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    the_id pg_catalog.uuid := coalesce(send_row.id, "{schema}".uuid7());
    the_table pg_catalog.text := (SELECT coalesce(b.table_name, b.name) FROM "{schema}".box b WHERE b.name = send_row.box);
    stored pg_catalog.int8 := 0;
BEGIN
    IF coalesce(send_row.type, '') = '' THEN
        RAISE EXCEPTION 'type is empty: every message needs a type such as order.created' USING ERRCODE = '22023';
    END IF;
    IF the_table IS NULL THEN
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
                       ' ON CONFLICT (id, destination) DO NOTHING', the_table)
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
