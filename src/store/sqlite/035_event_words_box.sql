-- As in 033_append_box.sql.  What is neither 0 nor 1 (a text such as 'true') was no event, and nobody was told; and a stream that is given as a
-- blob was another stream than the one of the same text.
DROP TRIGGER "postrider_{box}_event";
CREATE TRIGGER "postrider_{box}_event" AFTER INSERT ON "{box}" WHEN NEW.event <> 0 AND NEW.split_seq IS NULL
BEGIN
    SELECT RAISE(ABORT, 'postrider: event must be 1 (it is an event) or 0 (it is not), not a text') WHERE NEW.event <> 1;
    SELECT RAISE(ABORT, 'postrider: an event needs a stream: set stream to what it is about, such as order-7, or event to 0')
        WHERE coalesce(NEW.stream, '') = '';
    SELECT RAISE(ABORT, 'postrider: the stream of an event must be text: write CAST(... AS TEXT)') WHERE typeof(NEW.stream) <> 'text';
    INSERT INTO postrider_event (stream, version, id, type, content_type, headers, payload, created_at)
        VALUES (NEW.stream, 1 + coalesce((SELECT version FROM postrider_event_stream WHERE stream = NEW.stream), 0),
                iif(NEW.id >= x'', lower(substr(hex(NEW.id), 1, 8) || '-' || substr(hex(NEW.id), 9, 4) || '-' ||
                    substr(hex(NEW.id), 13, 4) || '-' || substr(hex(NEW.id), 17, 4) || '-' || substr(hex(NEW.id), 21)),
                    lower(NEW.id)),
                NEW.type, NEW.content_type, NEW.headers, NEW.payload, NEW.created_at)
        ON CONFLICT (stream, id) DO NOTHING;
    INSERT INTO postrider_event_stream (stream, version) SELECT NEW.stream, 1 WHERE changes() > 0
        ON CONFLICT (stream) DO UPDATE SET version = version + 1;
END;
