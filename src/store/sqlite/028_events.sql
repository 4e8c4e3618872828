-- The event store: messages with event = 1 get the next version of their stream, in their sender's transaction, however they
-- were inserted; see 029_events_box.sql.  Effects of verdicts append by themselves (effect.c).

-- All events in one order that never changes.  There is one writer at a time, so places are drawn in the order of commits.
CREATE TABLE postrider_event_order (
    place   INTEGER PRIMARY KEY,
    stream  TEXT NOT NULL,
    version INTEGER NOT NULL
);
INSERT INTO postrider_event_order (stream, version)
    SELECT stream, version FROM postrider_event
    ORDER BY max(created_at) OVER (PARTITION BY stream ORDER BY version), stream, version;

-- Senders give ids as blobs and as texts; here all are texts in small letters, so that each is found.
UPDATE postrider_event SET id = iif(id >= x'', lower(substr(hex(id), 1, 8) || '-' || substr(hex(id), 9, 4) || '-' || substr(hex(id), 13, 4) || '-' ||
               substr(hex(id), 17, 4) || '-' || substr(hex(id), 21)), lower(id)) WHERE id >= x'';
CREATE TRIGGER postrider_event_place AFTER INSERT ON postrider_event
BEGIN
    INSERT INTO postrider_event_order (stream, version) VALUES (NEW.stream, NEW.version);
END;
