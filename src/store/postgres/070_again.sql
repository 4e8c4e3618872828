-- Messages of boxes with dedupe that arrived again and were not stored, counted; in the place of seen.again_at, which knew only of
-- those that had been handled by then.  There is no key: whoever finds the entry of a message locked makes another one, so that
-- nobody waits for somebody's open transaction.  Readers add them up.
CREATE TABLE IF NOT EXISTS "{schema}".again (
    box text NOT NULL,
    id uuid NOT NULL,
    destination text NOT NULL,
    times bigint NOT NULL,
    at timestamptz NOT NULL,
    until timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS again_id ON "{schema}".again (id);
CREATE INDEX IF NOT EXISTS again_until ON "{schema}".again (box, until);
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = '"{schema}".seen'::regclass AND attname = 'again_at' AND NOT attisdropped) THEN
        INSERT INTO "{schema}".again (box, id, destination, times, at, until)
            SELECT box, id, CASE WHEN alone THEN '' ELSE handler END, 1, again_at, coalesce(until, again_at) FROM "{schema}".seen
            WHERE again_at IS NOT NULL;
        ALTER TABLE "{schema}".seen DROP COLUMN again_at;
    END IF;
END
$$;

-- Above READ COMMITTED an entry that somebody changed meanwhile would end the sender's transaction: another one is made.
CREATE OR REPLACE FUNCTION "{schema}".note_again(box text, id uuid, destination text, dedupe_us bigint)
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    keep_until timestamptz := pg_catalog.now() + note_again.dedupe_us * interval '1 microsecond';
BEGIN
    IF current_setting('transaction_isolation') = 'read committed' THEN
        UPDATE "{schema}".again a SET times = a.times + 1, at = pg_catalog.now(), until = keep_until
            WHERE a.ctid = (SELECT o.ctid FROM "{schema}".again o WHERE o.id = note_again.id AND o.box = note_again.box
                AND o.destination = note_again.destination LIMIT 1 FOR UPDATE SKIP LOCKED);
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    INSERT INTO "{schema}".again (box, id, destination, times, at, until)
        VALUES (note_again.box, note_again.id, note_again.destination, 1, pg_catalog.now(), keep_until);
END
$$;
REVOKE ALL ON FUNCTION "{schema}".note_again(text, uuid, text, bigint) FROM PUBLIC;

-- As in 063_send.sql; in a box with dedupe duplicates are counted.
CREATE OR REPLACE FUNCTION "{schema}".send_row(
    type text, payload text, payload_bytes bytea, stream text, destination text, headers jsonb, due timestamptz,
    expires timestamptz, id uuid, event boolean, content_type text, box text, source text, subject text,
    correlation_id text, causation_id text, traceparent text, tracestate text)
RETURNS uuid
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    the_id pg_catalog.uuid := coalesce(send_row.id, "{schema}".uuid7());
    caller pg_catalog.name := coalesce(nullif(pg_catalog.current_setting('role'), 'none'), session_user);
    the_table pg_catalog.text;
    the_dedupe pg_catalog.int8;
    handled boolean := false;
    stored pg_catalog.int8 := 0;
BEGIN
    SELECT coalesce(b.table_name, b.name), b.dedupe_us INTO the_table, the_dedupe FROM "{schema}".box b
        WHERE b.name = send_row.box;
    IF coalesce(send_row.type, '') = '' THEN
        RAISE EXCEPTION 'type is empty: every message needs a type such as order.created' USING ERRCODE = '22023';
    END IF;
    IF the_table IS NULL THEN
        RAISE EXCEPTION 'there is no box "%": name it under boxes: in the configuration, and run postrider init', send_row.box
            USING ERRCODE = '22023';
    END IF;
    IF (send_row.box = 'activities' OR (send_row.box = 'turns' AND send_row.type <> 'start'))
       AND NOT pg_catalog.has_any_column_privilege(caller, pg_catalog.format('"{schema}".%I', the_table), 'INSERT') THEN
        RAISE EXCEPTION 'role "%" cannot send into the box "%", which is for flows: start one with flow_start()', caller, send_row.box
            USING ERRCODE = '42501';
    END IF;
    IF pg_catalog.jsonb_typeof(send_row.headers) <> 'object' THEN
        RAISE EXCEPTION 'headers are not a JSON object such as {"tenant":"7"}' USING ERRCODE = '22023';
    END IF;
    IF send_row.id IS NOT NULL AND the_dedupe OPERATOR(pg_catalog.>) 0 THEN
        handled := EXISTS (SELECT FROM "{schema}".seen s WHERE s.box = send_row.box AND s.id = send_row.id
            AND (s.handler = coalesce(send_row.destination, '') OR (s.alone AND coalesce(send_row.destination, '') = '')));
    END IF;
    IF send_row.id IS NULL OR (NOT handled AND NOT EXISTS (SELECT FROM "{schema}".dead_letter d WHERE d.id = send_row.id
           AND d.destination = coalesce(send_row.destination, '') AND d.box = send_row.box)) THEN
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
        IF the_dedupe OPERATOR(pg_catalog.>) 0 THEN
            PERFORM "{schema}".note_again(send_row.box, the_id, coalesce(send_row.destination, ''), the_dedupe);
        END IF;
        RAISE NOTICE 'duplicate: % is stored already; nothing changed', the_id;
    END IF;
    RETURN the_id;
END
$$;
