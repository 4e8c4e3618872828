-- A flow begins if and only if the caller's transaction commits: SELECT postrider.flow_start('checkout', 'order-7', '{"total":12}').
-- The id of the message is that of the flow, as the library computes it, so that two starts of one flow meet.
CREATE OR REPLACE FUNCTION "{schema}".flow_start(
    name text, id text DEFAULT NULL, input text DEFAULT '', version text DEFAULT NULL, due timestamptz DEFAULT NULL,
    box text DEFAULT 'turns')
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    flow pg_catalog.text := coalesce(flow_start.id, "{schema}".uuid7()::pg_catalog.text);
    hash pg_catalog.bytea := pg_catalog.sha256(pg_catalog.convert_to('start' || E'\n' || flow, 'UTF8'));
    headers pg_catalog.jsonb := pg_catalog.jsonb_build_object('name', flow_start.name);
BEGIN
    IF coalesce(flow_start.name, '') = '' OR pg_catalog.octet_length(flow_start.name) > 255 THEN
        RAISE EXCEPTION 'the name of the flow has 1 to 255 bytes' USING ERRCODE = '22023';
    END IF;
    IF flow = '' OR pg_catalog.octet_length(flow) > 255 THEN
        RAISE EXCEPTION 'the id of the flow has 1 to 255 bytes' USING ERRCODE = '22023';
    END IF;
    IF coalesce(flow_start.version, '') <> '' THEN
        headers := headers || pg_catalog.jsonb_build_object('version', flow_start.version);
    END IF;
    hash := pg_catalog.set_byte(hash, 6, (pg_catalog.get_byte(hash, 6) & 15) | 128);
    hash := pg_catalog.set_byte(hash, 8, (pg_catalog.get_byte(hash, 8) & 63) | 128);
    PERFORM "{schema}".send_row('start', flow_start.input, NULL, flow, '', headers, flow_start.due, NULL,
        pg_catalog.encode(pg_catalog.substr(hash, 1, 16), 'hex')::pg_catalog.uuid, false, NULL, flow_start.box, NULL, NULL, NULL,
        NULL, NULL, NULL);
    RETURN flow;
END
$$;
REVOKE ALL ON FUNCTION "{schema}".flow_start(text, text, text, text, timestamptz, text) FROM PUBLIC;
