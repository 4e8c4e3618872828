-- The event store: messages with event = true get the next version of their stream, in their sender's transaction, however they
-- were inserted; see 034_events_box.sql.  Effects of verdicts append by themselves (cycle/effect.c).

-- All events in one order that never changes.  A place is given after the commit, by place_events(), to whoever asks for the
-- order: so whoever has read up to a place will never find an event before it.  Nothing is ever updated or deleted here.
CREATE TABLE IF NOT EXISTS "{schema}".event_order (
    place   bigint PRIMARY KEY,
    stream  text COLLATE "C" NOT NULL,
    version bigint NOT NULL
);

-- Events that have no place yet.  Numbers of one stream rise with its versions: who appends holds the stream's row.
CREATE TABLE IF NOT EXISTS "{schema}".event_new (
    number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream  text COLLATE "C" NOT NULL,
    version bigint NOT NULL
);
INSERT INTO "{schema}".event_new (stream, version)
    SELECT stream, version FROM "{schema}".event
    ORDER BY max(created_at) OVER (PARTITION BY stream ORDER BY version), stream, version;

CREATE OR REPLACE FUNCTION "{schema}".note_event() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO "{schema}".event_new (stream, version) VALUES (NEW.stream, NEW.version);
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION "{schema}".note_event() FROM PUBLIC;
CREATE OR REPLACE TRIGGER event_note AFTER INSERT ON "{schema}".event
    FOR EACH ROW EXECUTE FUNCTION "{schema}".note_event();

-- Gives places to so many events at most, and returns to how many.  One at a time: who comes second finds the rest.
CREATE OR REPLACE FUNCTION "{schema}".place_events(at_most integer) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    placed pg_catalog.int8;
BEGIN
    IF NOT EXISTS (SELECT FROM "{schema}".event_new) THEN
        RETURN 0;
    END IF;
    LOCK TABLE "{schema}".event_order IN EXCLUSIVE MODE;
    WITH these AS (DELETE FROM "{schema}".event_new WHERE number IN
             (SELECT n.number FROM "{schema}".event_new n ORDER BY n.number LIMIT at_most) RETURNING number, stream, version)
    INSERT INTO "{schema}".event_order (place, stream, version)
        SELECT (SELECT coalesce(max(place), 0) FROM "{schema}".event_order) + row_number() OVER (ORDER BY number), stream, version
        FROM these;
    GET DIAGNOSTICS placed = ROW_COUNT;
    RETURN placed;
END
$$;
REVOKE ALL ON FUNCTION "{schema}".place_events(integer) FROM PUBLIC;

-- For a message that is an event.  Its stream's row makes writers of one stream wait for each other instead of failing; a
-- stream that has the id already stays as it is.
CREATE OR REPLACE FUNCTION "{schema}".append_event() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    next pg_catalog.int8;
BEGIN
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
REVOKE ALL ON FUNCTION "{schema}".append_event() FROM PUBLIC;
