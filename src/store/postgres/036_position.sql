-- How far sources have read whose positions are ours to keep (files); each moves in the transaction of the rows before it.
CREATE TABLE IF NOT EXISTS "{schema}".source_position (
    source   text COLLATE "C" PRIMARY KEY,
    position text COLLATE "C" NOT NULL,
    moved_at timestamptz NOT NULL
) WITH (fillfactor = 50);
