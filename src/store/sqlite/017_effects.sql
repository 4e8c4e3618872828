-- What effects of verdicts leave behind (core/effect.h).

-- Events of streams, in their order from 1 on; and how many each stream has.
CREATE TABLE postrider_event_stream (
    stream  TEXT PRIMARY KEY,
    version INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE postrider_event (
    stream       TEXT NOT NULL,
    version      INTEGER NOT NULL,
    id           BLOB NOT NULL,
    type         TEXT NOT NULL,
    content_type TEXT,
    headers      TEXT,
    payload      BLOB,
    created_at   INTEGER NOT NULL,
    PRIMARY KEY (stream, version)
) WITHOUT ROWID;
CREATE UNIQUE INDEX postrider_event_id ON postrider_event (stream, id);

-- What happened in an execution of a flow: one row for each turn, with `count` events behind the first `first` ones.
CREATE TABLE postrider_flow_history (
    execution TEXT NOT NULL,
    first     INTEGER NOT NULL,
    count     INTEGER NOT NULL,
    events    TEXT NOT NULL,
    PRIMARY KEY (execution, first)
) WITHOUT ROWID;
CREATE TABLE postrider_flow_state (
    flow  TEXT NOT NULL,
    key   TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (flow, key)
) WITHOUT ROWID;

-- Who has handled what: the key decides.
CREATE TABLE postrider_seen (
    box     TEXT NOT NULL,
    id      BLOB NOT NULL,
    handler TEXT NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (box, id, handler)
) WITHOUT ROWID;
CREATE INDEX postrider_seen_at ON postrider_seen (at);

-- Which verdicts of the latest cycle were refused, {"cycle":number,"index":answer,...}, for when it is asked again.
ALTER TABLE postrider_instance ADD COLUMN answers TEXT;
