-- What effects of verdicts leave behind (core/effect.h).

-- Events of streams, in their order from 1 on; and how many each stream has.  Its row is updated with each event.
CREATE TABLE IF NOT EXISTS "{schema}".event_stream (
    stream  text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS "{schema}".event (
    stream       text COLLATE "C" NOT NULL,
    version      bigint NOT NULL,
    id           uuid NOT NULL,
    type         text NOT NULL,
    content_type text,
    headers      json,
    payload      bytea,
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (stream, version)
);
CREATE UNIQUE INDEX IF NOT EXISTS event_id ON "{schema}".event (stream, id);

-- What happened in an execution of a flow: one row for each turn, with `count` events behind the first `first` ones.
CREATE TABLE IF NOT EXISTS "{schema}".flow_history (
    execution text COLLATE "C" NOT NULL,
    first     bigint NOT NULL,
    count     bigint NOT NULL,
    events    text NOT NULL,
    PRIMARY KEY (execution, first)
);
CREATE TABLE IF NOT EXISTS "{schema}".flow_state (
    flow  text COLLATE "C" NOT NULL,
    key   text COLLATE "C" NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (flow, key)
);

-- Who has handled what: the key decides.
CREATE TABLE IF NOT EXISTS "{schema}".seen (
    box     text COLLATE "C" NOT NULL,
    id      uuid NOT NULL,
    handler text COLLATE "C" NOT NULL,
    at      timestamptz NOT NULL,
    PRIMARY KEY (box, id, handler)
);
CREATE INDEX IF NOT EXISTS seen_at ON "{schema}".seen (at);

-- Verdicts of the cycle that were not applied since a guard of their effects did not hold, or since somebody held their
-- row: for when the cycle is asked again.
ALTER TABLE "{schema}".claim ADD COLUMN IF NOT EXISTS refused int[], ADD COLUMN IF NOT EXISTS busy int[];
