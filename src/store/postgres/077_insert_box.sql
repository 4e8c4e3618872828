-- What each INSERT pays for.  A server reads conditions of triggers and generated columns anew in every statement, and keeps what a
-- function says: so its lane, and the bell of 017_text_box.sql, are the business of the function that looks at each row anyway.
-- They cost a sender of single messages a third of what the box costs beside a table without anything.
--
-- The name begins with ~ so that no trigger of the application comes behind this one and changes the stream.  Both triggers run ALWAYS: rows
-- that logical replication applies have no lane of their own, since a column of theirs may be missing at the publisher.
ALTER TABLE "{schema}"."{box}" ALTER COLUMN lane DROP EXPRESSION IF EXISTS;
DROP TRIGGER IF EXISTS "{box}_wake" ON "{schema}"."{box}";
CREATE OR REPLACE TRIGGER "~{box}_check" BEFORE INSERT ON "{schema}"."{box}"
    FOR EACH ROW EXECUTE FUNCTION "{schema}".check_message('postrider {schema}.{box}');
CREATE OR REPLACE TRIGGER "{box}_check" BEFORE UPDATE OF id, stream, lane, type, headers, payload, payload_bytes ON "{schema}"."{box}"
    FOR EACH ROW EXECUTE FUNCTION "{schema}".check_message();
ALTER TABLE "{schema}"."{box}" ENABLE ALWAYS TRIGGER "~{box}_check", ENABLE ALWAYS TRIGGER "{box}_check";

-- As in 062_check_box.sql, and first: the lane, as lane_of() computes it; and rings for those who sleep, or shares their lock until
-- the sender has committed, so that nobody falls asleep meanwhile without looking again.  Nobody waits for it.  A transaction that
-- has rung cannot be prepared for two-phase commit: where that can be asked for nobody rings, and relays look.
--
-- A value in headers that is an object or an array can be sent as no header: such a message failed at every endpoint.  Only headers with
-- more brackets than the first are looked through.
CREATE OR REPLACE FUNCTION "{schema}".check_message() RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    rung pg_catalog.text; -- an assignment is an expression, PERFORM a whole query for each of many rows
BEGIN
    NEW.lane := (CASE WHEN NEW.stream OPERATOR(pg_catalog.<>) '' THEN pg_catalog.hashtext(NEW.stream)
                      ELSE pg_catalog.uuid_hash(NEW.id) END OPERATOR(pg_catalog.&) 63)::pg_catalog.int2;
    IF TG_OP = 'INSERT' AND pg_catalog.current_setting('max_prepared_transactions') = '0'
       AND NOT pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended(TG_ARGV[0], 0)) THEN
        rung := pg_catalog.pg_notify('postrider', pg_catalog.substr(TG_ARGV[0], 11)); -- without "postrider "
    END IF;
    IF (NEW.payload IS NULL OR (NEW.payload_bytes IS NULL AND pg_catalog.left(NEW.payload, 2) <> E'\\x'
                                AND pg_catalog.current_setting('bytea_output') <> 'escape'))
       AND NEW.type <> ''
       AND (NEW.headers IS NULL OR (pg_catalog.json_typeof(NEW.headers) = 'object'
                                    AND pg_catalog.strpos(NEW.headers::pg_catalog.text, '[') = 0
                                    AND pg_catalog.strpos(pg_catalog.substr(NEW.headers::pg_catalog.text, 2), '{') = 0))
       AND (NEW.due_at IS NULL OR NEW.due_at BETWEEN '2000-01-01 00:00+00' AND '2299-12-31 23:59:59.999999+00')
       AND (NEW.expires_at IS NULL OR NEW.expires_at BETWEEN '2000-01-01 00:00+00' AND '2299-12-31 23:59:59.999999+00')
       AND NEW.created_at BETWEEN '2000-01-01 00:00+00' AND '2299-12-31 23:59:59.999999+00' THEN
        RETURN NEW;
    END IF;
    DECLARE
        about pg_catalog.text := 'payload';
        says pg_catalog.text;
    BEGIN
        IF pg_catalog.current_setting('session_replication_role') = 'replica' THEN
            RETURN NEW; -- another server has judged, and replication must not stand still
        ELSIF pg_catalog.left(NEW.payload, 2) = E'\\x' THEN
            says := 'payload is text and must not begin with \x: put bytes into payload_bytes';
        ELSIF NEW.payload IS NOT NULL AND NEW.payload_bytes IS NOT NULL THEN
            about := 'payload_bytes';
            says := 'a message has payload or payload_bytes, not both';
        ELSIF pg_catalog.current_setting('bytea_output') = 'escape' AND NEW.payload ~ '^([^\\]|\\\\)*\\[0-3][0-7][0-7]' THEN
            says := 'payload is text and must not hold bytes as bytea_output = escape prints them: put bytes into payload_bytes';
        ELSIF (TG_NARGS = 0 OR TG_OP = 'INSERT') AND NEW.xid <> pg_catalog.pg_current_xact_id() THEN
            RETURN NEW; -- stored by another transaction, also on another server: handed out, told and ended as it is (B9)
        ELSIF NEW.type = '' THEN
            about := 'type';
            says := 'type is empty: every message needs a type such as order.created';
        ELSIF pg_catalog.json_typeof(NEW.headers) <> 'object' THEN
            about := 'headers';
            says := 'headers are not a JSON object such as {"tenant":"7"}';
        ELSIF EXISTS (SELECT FROM pg_catalog.json_each(NEW.headers) h WHERE pg_catalog.json_typeof(h.value) IN ('object', 'array')) THEN
            about := 'headers';
            says := 'headers must not hold objects or arrays: each value is a string, a number, true, false or null';
        ELSIF NEW.due_at <> 'infinity' AND NEW.due_at NOT BETWEEN '2000-01-01 00:00+00' AND '2299-12-31 23:59:59.999999+00' THEN
            about := 'due_at';
            says := 'due_at must be a time of the years 2000 to 2299 (to_timestamp() takes seconds: milliseconds / 1000.0), or NULL: at once';
        ELSIF NEW.expires_at <> 'infinity' AND NEW.expires_at NOT BETWEEN '2000-01-01 00:00+00' AND '2299-12-31 23:59:59.999999+00' THEN
            about := 'expires_at';
            says := 'expires_at must be a time of the years 2000 to 2299 (to_timestamp() takes seconds: milliseconds / 1000.0), or NULL: never';
        ELSIF NEW.created_at <> pg_catalog.now()
              AND NEW.created_at NOT BETWEEN '2000-01-01 00:00+00' AND '2299-12-31 23:59:59.999999+00' THEN
            about := 'created_at';
            says := 'created_at must be a time of the years 2000 to 2299 (to_timestamp() takes seconds: milliseconds / 1000.0), or left out: now';
        ELSE
            RETURN NEW;
        END IF;
        RAISE EXCEPTION '%', says
            USING ERRCODE = 'check_violation', COLUMN = about, TABLE = TG_TABLE_NAME, SCHEMA = TG_TABLE_SCHEMA;
    END;
END
$$;
