-- Whoever changes by plain SQL what rows say leaves one line for the transaction: a relay that has read them before reads them
-- anew (B19).  A line of its own, since a notice in control would make everybody wait who writes one, until the transaction
-- has ended; the relay that finds the line makes a notice of it (cycle/repaired.c).
CREATE TABLE IF NOT EXISTS "{schema}".repaired (
    box text COLLATE "C" NOT NULL,
    xid xid8 NOT NULL,
    PRIMARY KEY (box, xid)
);

-- Whoever may change a row may leave the line; its box is the trigger's argument (older triggers have none: their tables have the
-- names of their boxes).  A row that goes elsewhere waits behind nothing that it waited behind.
CREATE OR REPLACE FUNCTION "{schema}".note_repair() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_TABLE_SCHEMA = '{schema}' THEN
        INSERT INTO "{schema}".repaired (box, xid)
            VALUES (coalesce(TG_ARGV[0], TG_TABLE_NAME), pg_catalog.pg_current_xact_id())
            ON CONFLICT DO NOTHING;
    END IF;
    IF OLD.destination <> NEW.destination OR OLD.stream IS DISTINCT FROM NEW.stream OR OLD.type <> NEW.type
       OR OLD.headers::pg_catalog.text IS DISTINCT FROM NEW.headers::pg_catalog.text THEN
        NEW.held_by := NULL;
    END IF;
    RETURN NEW;
END
$$;

-- The relay never changes these columns, so nobody else pays.  No others: the type of a column that a trigger names cannot be
-- altered.
CREATE OR REPLACE TRIGGER "{box}_repaired"
    BEFORE UPDATE OF payload, payload_bytes, destination, stream, type, headers ON "{schema}"."{box}"
    FOR EACH ROW WHEN (OLD.payload IS DISTINCT FROM NEW.payload OR OLD.payload_bytes IS DISTINCT FROM NEW.payload_bytes
        OR OLD.destination IS DISTINCT FROM NEW.destination OR OLD.stream IS DISTINCT FROM NEW.stream
        OR OLD.type IS DISTINCT FROM NEW.type OR OLD.headers::text IS DISTINCT FROM NEW.headers::text)
    EXECUTE FUNCTION "{schema}".note_repair('{box}');
