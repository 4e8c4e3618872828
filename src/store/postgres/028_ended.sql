-- The ledger of what has ended: when, where, by whom and at which attempt messages were delivered (1), discarded by a rule or
-- a handler (2), expired (3) or discarded by a person, who then stands in the place of the instance (4).  One row for all that
-- ended in one cycle in the same way: ids are 16 bytes each, one behind the other.  bucket is the minute (since 1970) in which
-- they were made, which a UUIDv7 says itself; -1: they do not say.  What is older than the setting ended: is removed.
CREATE TABLE IF NOT EXISTS "{schema}".ended (
    number   bigint GENERATED ALWAYS AS IDENTITY,
    bucket   bigint NOT NULL,
    at       timestamptz NOT NULL,
    box      text COLLATE "C" NOT NULL,
    endpoint text COLLATE "C" NOT NULL,
    instance text NOT NULL,
    outcome  smallint NOT NULL,
    attempt  integer NOT NULL,
    ids      bytea NOT NULL
);
-- Ids do not compress: that would only be tried.
ALTER TABLE "{schema}".ended ALTER COLUMN ids SET STORAGE EXTERNAL;
CREATE INDEX IF NOT EXISTS ended_bucket ON "{schema}".ended (bucket, number);
CREATE INDEX IF NOT EXISTS ended_at ON "{schema}".ended (at);
