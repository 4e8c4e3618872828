-- send() says so when the id is there already: NOTICE is the only voice that a function has beside its value, and
-- drivers keep it for who wants to know.
CREATE OR REPLACE FUNCTION "{schema}".send(
    type text, payload bytea, stream text DEFAULT NULL, destination text DEFAULT '', headers jsonb DEFAULT NULL,
    due timestamptz DEFAULT NULL, expires timestamptz DEFAULT NULL, id uuid DEFAULT NULL,
    event boolean DEFAULT false, content_type text DEFAULT NULL, box text DEFAULT 'outbox')
RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog
AS $$
DECLARE
    the_id uuid := coalesce(send.id, "{schema}".uuid7());
    stored integer := 0;
BEGIN
    IF coalesce(send.type, '') = '' THEN
        RAISE EXCEPTION 'type is empty: every message needs a type such as order.created' USING ERRCODE = '22023';
    END IF;
    IF NOT EXISTS (SELECT FROM "{schema}".box b WHERE b.name = send.box) THEN
        RAISE EXCEPTION 'there is no box "%"', send.box USING ERRCODE = '22023';
    END IF;
    IF jsonb_typeof(send.headers) <> 'object' THEN
        RAISE EXCEPTION 'headers are not a JSON object such as {"tenant":"7"}' USING ERRCODE = '22023';
    END IF;
    IF send.id IS NULL OR NOT EXISTS (SELECT FROM "{schema}".dead_letter d WHERE d.id = send.id
           AND d.destination = coalesce(send.destination, '') AND d.box = send.box) THEN
        EXECUTE format('INSERT INTO "{schema}".%I (id, type, payload, stream, destination, headers, due_at, expires_at,'
                       ' event, content_type) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)'
                       ' ON CONFLICT (id, destination) DO NOTHING', send.box)
            USING the_id, send.type, send.payload, nullif(send.stream, ''), coalesce(send.destination, ''),
                  send.headers::json, send.due, send.expires, coalesce(send.event, false), send.content_type;
        GET DIAGNOSTICS stored = ROW_COUNT;
    END IF;
    IF stored = 0 THEN
        RAISE NOTICE 'duplicate: message % is stored or dead already, nothing was changed', the_id;
    END IF;
    RETURN the_id;
END
$$;
