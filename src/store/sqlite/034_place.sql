-- Events in the order of their places: what is appended goes to the end of the table, where a table by streams would write to a page of
-- each stream, and the place needs no table of its own.
CREATE TABLE postrider_event_copy (
    place INTEGER PRIMARY KEY, stream, version, id, type, content_type, headers, payload, created_at
);
INSERT INTO postrider_event_copy
    SELECT o.place, e.stream, e.version, e.id, e.type, e.content_type, e.headers, e.payload, e.created_at
    FROM postrider_event_order o JOIN postrider_event e ON e.stream = o.stream AND e.version = o.version ORDER BY o.place;
DROP TABLE postrider_event_order;
DROP TABLE postrider_event;
CREATE TABLE postrider_event (
    place        INTEGER PRIMARY KEY,
    stream       TEXT NOT NULL,
    version      INTEGER NOT NULL,
    id           TEXT NOT NULL,
    type         TEXT NOT NULL,
    content_type TEXT,
    headers      TEXT,
    payload      BLOB,
    created_at   INTEGER NOT NULL
);
INSERT INTO postrider_event SELECT * FROM postrider_event_copy;
DROP TABLE postrider_event_copy;
CREATE UNIQUE INDEX postrider_event_version ON postrider_event (stream, version);
CREATE UNIQUE INDEX postrider_event_id ON postrider_event (stream, id);
