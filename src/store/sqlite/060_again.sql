-- Messages of boxes with dedupe that arrived again and were not stored, counted; in the place of postrider_seen.again_at, which knew
-- only of those that had been handled by then.
CREATE TABLE postrider_again (
    box TEXT NOT NULL,
    id BLOB NOT NULL,
    destination TEXT NOT NULL,
    times INTEGER NOT NULL,
    at INTEGER NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (box, id, destination)
) WITHOUT ROWID;
CREATE INDEX postrider_again_until ON postrider_again (box, until);
INSERT INTO postrider_again (box, id, destination, times, at, until)
    SELECT box, id, CASE WHEN alone THEN '' ELSE handler END, 1, again_at, coalesce(until, again_at) FROM postrider_seen
    WHERE again_at IS NOT NULL;
-- (The column stays: SQLite drops none while a view of the application names a table that is gone.)
