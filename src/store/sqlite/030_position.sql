-- How far sources have read whose positions are ours to keep (files); each moves in the transaction of the rows before it.
CREATE TABLE postrider_source_position (
    source   TEXT PRIMARY KEY,
    position TEXT NOT NULL,
    moved_at INTEGER NOT NULL
) WITHOUT ROWID;
