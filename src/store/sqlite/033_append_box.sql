-- As in 029_events_box.sql, at half the cost: the next version is the one of the stream's row, and the id is looked for once, by the index
-- that makes it unique.  An ON CONFLICT of its own is not overruled by that of the sender (INSERT OR REPLACE).
DROP TRIGGER "postrider_{box}_event";
CREATE TRIGGER "postrider_{box}_event" AFTER INSERT ON "{box}" WHEN NEW.event AND NEW.split_seq IS NULL
BEGIN
    SELECT RAISE(ABORT, 'postrider: an event needs a stream: set stream to what it is about, such as order-7, or event to 0')
        WHERE coalesce(NEW.stream, '') = '';
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
