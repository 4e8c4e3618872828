-- A handler completes a message in the transaction of its application (pr_complete_pg()).  The row is the fence: it must be
-- there as it was handed out.  Applications have no right on it, so this runs with its owner's; not everybody may call
-- it, for it ends messages: postrider init --grants says who needs it.
CREATE OR REPLACE FUNCTION "{schema}".complete(box text, handle bigint, id uuid, attempts integer, bits integer,
    endpoint text, keep bigint, dedupe bigint, alone boolean)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    the_table pg_catalog.text := (SELECT coalesce(b.table_name, b.name) FROM "{schema}".box b WHERE b.name = complete.box);
    ended pg_catalog.int8 := 0;
    the_destination pg_catalog.text; -- of the row: marks have its name where it has one (core/mark.h)
BEGIN
    IF the_table IS NULL THEN
        RAISE EXCEPTION 'there is no box "%": name it under boxes: in the configuration, and run postrider init', complete.box
            USING ERRCODE = '22023';
    END IF;
    IF complete.keep > 0 THEN
        EXECUTE pg_catalog.format(
                'WITH g AS (DELETE FROM "{schema}".%I b WHERE b.id = $1 AND (coalesce(b.row_id, b.seq) << 6 | b.lane) = $2'
                ' AND b.attempts = $3 RETURNING b.*)'
                ' INSERT INTO "{schema}".done (box, attempts, status, endpoint, done_at, keep_until,'
                ' seq, id, stream, type, headers, event, created_at, expires_at, payload, payload_bytes, source, subject,'
                ' content_type, correlation_id, traceparent, tracestate, causation_id, lane, destination, due_at, released,'
                ' failures, failure_reason, failed_at, code, error, story)'
                ' SELECT $4, $3 + 1, g.status | $5, coalesce(nullif($6, ''''), g.destination),'
                ' pg_catalog.clock_timestamp(), pg_catalog.clock_timestamp() + $7 * pg_catalog.interval ''1 microsecond'','
                ' g.seq, g.id, g.stream, g.type, g.headers, g.event, g.created_at, g.expires_at, g.payload, g.payload_bytes,'
                ' g.source, g.subject, g.content_type, g.correlation_id, g.traceparent, g.tracestate, g.causation_id,'
                ' g.lane, g.destination, g.due_at, g.released, g.failures, g.failure_reason, g.failed_at, g.code, g.error,'
                ' g.story FROM g RETURNING destination', the_table)
            INTO the_destination
            USING complete.id, complete.handle, complete.attempts, complete.box, complete.bits, complete.endpoint,
                  least(complete.keep, 8000000000000000000);
    ELSE
        EXECUTE pg_catalog.format(
                'DELETE FROM "{schema}".%I b WHERE b.id = $1 AND (coalesce(b.row_id, b.seq) << 6 | b.lane) = $2'
                ' AND b.attempts = $3 RETURNING b.destination', the_table)
            INTO the_destination
            USING complete.id, complete.handle, complete.attempts;
    END IF;
    GET DIAGNOSTICS ended = ROW_COUNT;
    IF ended = 1 AND complete.dedupe > 0 THEN
        INSERT INTO "{schema}".seen (box, id, handler, at, outcome, alone, until)
            VALUES (complete.box, complete.id, coalesce(nullif(the_destination, ''), complete.endpoint), pg_catalog.now(), 1, complete.alone,
                    pg_catalog.now() + least(complete.dedupe, 8000000000000000000) * pg_catalog.interval '1 microsecond')
            ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN -- another row of this message was handled meanwhile: this one ends as a duplicate when it comes again
            RAISE EXCEPTION 'message % has been handled already', complete.id USING ERRCODE = '40001';
        END IF;
    END IF;
    RETURN ended = 1;
END
$$;
REVOKE EXECUTE ON FUNCTION "{schema}".complete(text, bigint, uuid, integer, integer, text, bigint, bigint, boolean) FROM PUBLIC;
