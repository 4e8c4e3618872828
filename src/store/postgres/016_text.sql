-- A payload is text, or bytes: payload and payload_bytes, at most one of them (doc/adr/0051).  What was stored until now is
-- bytes; the column is renamed, and no row is touched.  Boxes follow in 017_text_box.sql.

ALTER TABLE "{schema}".dead_letter RENAME COLUMN payload TO payload_bytes;
ALTER TABLE "{schema}".dead_letter ADD COLUMN payload text;
ALTER TABLE "{schema}".done RENAME COLUMN payload TO payload_bytes;
ALTER TABLE "{schema}".done ADD COLUMN payload text;

-- A program that knows only the old column would read every text as bytes and all bytes as nothing.  It cannot
-- join again: it does not say which tables it knows.  (018_send.sql ends those that are at work.)
ALTER TABLE "{schema}".instance ADD COLUMN schema_version integer;
ALTER TABLE "{schema}".instance ADD CONSTRAINT "this postrider is older than its tables: upgrade it"
    CHECK (schema_version IS NOT NULL) NOT VALID;

-- What a sender must be told.  A trigger and not a CHECK: a server reads each CHECK anew in every statement, which costs an
-- INSERT of one row a few times as much; and these are sentences.
--
-- PostgreSQL prints bytes that are assigned to a text: an application that binds bytes to payload would send the print.
-- An empty type and headers that are no object are refused of new rows only: what was stored by another transaction, also on
-- another server, is handed out, told and ended like any row that cannot be read (B9).
CREATE FUNCTION "{schema}".check_message() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF pg_catalog.left(NEW.payload, 2) = E'\\x' THEN
        RAISE EXCEPTION 'payload is text and must not begin with \x: put bytes into payload_bytes'
            USING ERRCODE = 'check_violation', COLUMN = 'payload', TABLE = TG_TABLE_NAME, SCHEMA = TG_TABLE_SCHEMA;
    END IF;
    IF NEW.payload IS NOT NULL AND NEW.payload_bytes IS NOT NULL THEN
        RAISE EXCEPTION 'a message has payload or payload_bytes, not both'
            USING ERRCODE = 'check_violation', COLUMN = 'payload_bytes', TABLE = TG_TABLE_NAME, SCHEMA = TG_TABLE_SCHEMA;
    END IF;
    IF NEW.type = '' AND NEW.xid = pg_catalog.pg_current_xact_id() THEN
        RAISE EXCEPTION 'type is empty: every message needs a type such as order.created'
            USING ERRCODE = 'check_violation', COLUMN = 'type', TABLE = TG_TABLE_NAME, SCHEMA = TG_TABLE_SCHEMA;
    END IF;
    IF NEW.headers IS NOT NULL AND pg_catalog.json_typeof(NEW.headers) <> 'object'
       AND NEW.xid = pg_catalog.pg_current_xact_id() THEN
        RAISE EXCEPTION 'headers are not a JSON object such as {"tenant":"7"}'
            USING ERRCODE = 'check_violation', COLUMN = 'headers', TABLE = TG_TABLE_NAME, SCHEMA = TG_TABLE_SCHEMA;
    END IF;
    RETURN NEW;
END
$$;
