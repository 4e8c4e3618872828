-- The event store: messages with event = 1 get the next version of their stream, in their sender's transaction, however they
-- were inserted; see 029_events_box.sql.  Effects of verdicts append by themselves (effect.c).

-- All events in one order that never changes.  There is one writer at a time, so places are drawn in the order of commits.
CREATE TABLE postrider_event_order (
    place   INTEGER PRIMARY KEY,
    stream  TEXT NOT NULL,
    version INTEGER NOT NULL
);
INSERT INTO postrider_event_order (stream, version)
    SELECT stream, version FROM postrider_event ORDER BY created_at, stream, version;
CREATE TRIGGER postrider_event_place AFTER INSERT ON postrider_event
BEGIN
    INSERT INTO postrider_event_order (stream, version) VALUES (NEW.stream, NEW.version);
END;
