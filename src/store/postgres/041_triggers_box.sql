-- A file for boxes, since the one that made note_repair() is, too: whoever runs last decides.
-- Functions of triggers run with the owner's rights, and whoever may execute one can put it on a table of their own, with columns
-- whose types bring casts of their own: these would run with the same rights.  So each says first that the table must be one of
-- ours, and is nobody's to execute: a trigger needs that right only when it is made.
CREATE OR REPLACE FUNCTION "{schema}".note_repair() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_TABLE_SCHEMA <> '{schema}' THEN
        RAISE EXCEPTION 'this function is only for tables of Postrider' USING ERRCODE = '42501';
    END IF;
    INSERT INTO "{schema}".repaired (box, xid)
        VALUES (coalesce(TG_ARGV[0], TG_TABLE_NAME), pg_catalog.pg_current_xact_id())
        ON CONFLICT DO NOTHING;
    IF OLD.destination <> NEW.destination OR OLD.stream IS DISTINCT FROM NEW.stream OR OLD.type <> NEW.type
       OR OLD.headers::pg_catalog.text IS DISTINCT FROM NEW.headers::pg_catalog.text THEN
        NEW.held_by := NULL;
    END IF;
    RETURN NEW;
END
$$;
REVOKE ALL ON FUNCTION "{schema}".note_repair() FROM PUBLIC;

CREATE OR REPLACE FUNCTION "{schema}".note_event() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_TABLE_SCHEMA <> '{schema}' THEN
        RAISE EXCEPTION 'this function is only for tables of Postrider' USING ERRCODE = '42501';
    END IF;
    INSERT INTO "{schema}".event_new (stream, version) VALUES (NEW.stream, NEW.version);
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION "{schema}".append_event() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    next pg_catalog.int8;
BEGIN
    IF TG_TABLE_SCHEMA <> '{schema}' THEN
        RAISE EXCEPTION 'this function is only for tables of Postrider' USING ERRCODE = '42501';
    END IF;
    IF coalesce(NEW.stream, '') = '' THEN
        RAISE EXCEPTION 'an event needs a stream: set stream to what it is about, such as order-7, or event to false'
            USING ERRCODE = '22023';
    END IF;
    IF EXISTS (SELECT FROM "{schema}".event e WHERE e.stream = NEW.stream AND e.id = NEW.id) THEN
        RETURN NULL;
    END IF;
    INSERT INTO "{schema}".event_stream AS s (stream, version) VALUES (NEW.stream, 1)
        ON CONFLICT (stream) DO UPDATE SET version = s.version + 1 RETURNING s.version INTO next;
    INSERT INTO "{schema}".event (stream, version, id, type, content_type, headers, payload, created_at)
        VALUES (NEW.stream, next, NEW.id, NEW.type, NEW.content_type, NEW.headers,
                coalesce(NEW.payload_bytes, convert_to(NEW.payload, 'UTF8')), NEW.created_at)
        ON CONFLICT (stream, id) DO NOTHING;
    IF NOT FOUND THEN -- somebody else has sent it while we waited
        UPDATE "{schema}".event_stream SET version = version - 1 WHERE stream = NEW.stream;
    END IF;
    RETURN NULL;
END
$$;
