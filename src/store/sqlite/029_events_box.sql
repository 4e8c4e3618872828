-- Events among the messages that wait have not been stored as such: see 028_events.sql.
INSERT INTO postrider_event (stream, version, id, type, content_type, headers, payload, created_at)
    SELECT b.stream, coalesce(s.version, 0) + row_number() OVER (PARTITION BY b.stream ORDER BY b.row_id), b.text_id, b.type,
           b.content_type, b.headers, b.payload, b.created_at
    FROM (SELECT *, iif(id >= x'', lower(substr(hex(id), 1, 8) || '-' || substr(hex(id), 9, 4) || '-' || substr(hex(id), 13, 4) || '-' ||
              substr(hex(id), 17, 4) || '-' || substr(hex(id), 21)), lower(id)) AS text_id FROM "{box}" WHERE event AND stream <> '') b
        LEFT JOIN postrider_event_stream s ON s.stream = b.stream
    WHERE NOT EXISTS (SELECT 1 FROM postrider_event e WHERE e.stream = b.stream AND e.id = b.text_id)
      AND NOT EXISTS (SELECT 1 FROM "{box}" o WHERE o.id = b.id AND o.row_id < b.row_id)
    ORDER BY b.row_id;
INSERT INTO postrider_event_stream (stream, version) SELECT stream, max(version) FROM postrider_event WHERE true GROUP BY stream
    ON CONFLICT (stream) DO UPDATE SET version = excluded.version;

-- Parts of a message and what is replayed have a split_seq; they were stored before.
CREATE TRIGGER "postrider_{box}_event" AFTER INSERT ON "{box}" WHEN NEW.event AND NEW.split_seq IS NULL
BEGIN
    SELECT RAISE(ABORT, 'postrider: an event needs a stream: set stream to what it is about, such as order-7, or event to 0')
        WHERE coalesce(NEW.stream, '') = '';
    INSERT INTO postrider_event (stream, version, id, type, content_type, headers, payload, created_at)
        SELECT NEW.stream, 1 + coalesce((SELECT max(version) FROM postrider_event WHERE stream = NEW.stream), 0), n.id, NEW.type,
               NEW.content_type, NEW.headers, NEW.payload, NEW.created_at
        FROM (SELECT iif(NEW.id >= x'', lower(substr(hex(NEW.id), 1, 8) || '-' || substr(hex(NEW.id), 9, 4) || '-' ||
                  substr(hex(NEW.id), 13, 4) || '-' || substr(hex(NEW.id), 17, 4) || '-' || substr(hex(NEW.id), 21)),
                  lower(NEW.id)) AS id) n
        WHERE NOT EXISTS (SELECT 1 FROM postrider_event e WHERE e.stream = NEW.stream AND e.id = n.id);
    INSERT INTO postrider_event_stream (stream, version)
        SELECT stream, max(version) FROM postrider_event WHERE stream = NEW.stream GROUP BY stream
        ON CONFLICT (stream) DO UPDATE SET version = excluded.version;
END;
