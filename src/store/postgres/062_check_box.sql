-- A file for boxes, since a trigger of theirs is new; what stood in 016_text.sql is here whole.  An ordinary row leaves with the first
-- question, so that a sender pays no more than for the four of before.
--
-- New: times in other units.  Milliseconds that are given to to_timestamp() are a year that nobody lives to see, and the message
-- waited for it.  A created_at that is the server's own clock is right, whatever that says.  New, too: bytes that were printed by
-- bytea_output = escape, as far as they can be told: JSON never has a single backslash before a digit.
CREATE OR REPLACE FUNCTION "{schema}".check_message() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF (NEW.payload IS NULL OR (NEW.payload_bytes IS NULL AND pg_catalog.left(NEW.payload, 2) <> E'\\x'
                                AND pg_catalog.current_setting('bytea_output') <> 'escape'))
       AND NEW.type <> '' AND (NEW.headers IS NULL OR pg_catalog.json_typeof(NEW.headers) = 'object')
       AND (NEW.due_at IS NULL OR NEW.due_at BETWEEN '2000-01-01 00:00+00' AND '2299-12-31 23:59:59.999999+00')
       AND (NEW.expires_at IS NULL OR NEW.expires_at BETWEEN '2000-01-01 00:00+00' AND '2299-12-31 23:59:59.999999+00')
       AND NEW.created_at BETWEEN '2000-01-01 00:00+00' AND '2299-12-31 23:59:59.999999+00' THEN
        RETURN NEW;
    END IF;
    DECLARE
        about pg_catalog.text := 'payload';
        says pg_catalog.text;
    BEGIN
        IF pg_catalog.left(NEW.payload, 2) = E'\\x' THEN
            says := 'payload is text and must not begin with \x: put bytes into payload_bytes';
        ELSIF NEW.payload IS NOT NULL AND NEW.payload_bytes IS NOT NULL THEN
            about := 'payload_bytes';
            says := 'a message has payload or payload_bytes, not both';
        ELSIF pg_catalog.current_setting('bytea_output') = 'escape' AND NEW.payload ~ '^([^\\]|\\\\)*\\[0-3][0-7][0-7]' THEN
            says := 'payload is text and must not hold bytes as bytea_output = escape prints them: put bytes into payload_bytes';
        ELSIF TG_NARGS = 0 AND NEW.xid <> pg_catalog.pg_current_xact_id() THEN
            RETURN NEW; -- stored by another transaction, also on another server: handed out, told and ended as it is (B9)
        ELSIF NEW.type = '' THEN
            about := 'type';
            says := 'type is empty: every message needs a type such as order.created';
        ELSIF pg_catalog.json_typeof(NEW.headers) <> 'object' THEN
            about := 'headers';
            says := 'headers are not a JSON object such as {"tenant":"7"}';
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

-- What a person writes who repairs a row.  Any time in the past means now, so only later ones are asked about; and a relay, whose
-- retries are never so late, does not come to call the function.
CREATE OR REPLACE TRIGGER "{box}_times" BEFORE UPDATE OF due_at, expires_at, created_at ON "{schema}"."{box}"
    FOR EACH ROW WHEN ((NEW.due_at > '2299-12-31 23:59:59.999999+00' AND NEW.due_at < 'infinity' AND NEW.due_at IS DISTINCT FROM OLD.due_at)
        OR (NEW.expires_at IS DISTINCT FROM OLD.expires_at AND NEW.expires_at <> 'infinity'
            AND NEW.expires_at NOT BETWEEN '2000-01-01 00:00+00' AND '2299-12-31 23:59:59.999999+00')
        OR (NEW.created_at IS DISTINCT FROM OLD.created_at
            AND NEW.created_at NOT BETWEEN '2000-01-01 00:00+00' AND '2299-12-31 23:59:59.999999+00'))
    EXECUTE FUNCTION "{schema}".check_message('times');
