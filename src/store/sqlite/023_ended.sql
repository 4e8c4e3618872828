-- The ledger of what has ended: when, where, by whom and at which attempt messages were delivered (1), discarded by a rule or
-- a handler (2), expired (3) or discarded by a person, who then stands in the place of the instance (4).  One row for all that
-- ended in one cycle in the same way: ids are 16 bytes each, one behind the other.  bucket is the minute (since 1970) in which
-- they were made, which a UUIDv7 says itself; -1: they do not say.  What is older than the setting ended: is removed.
CREATE TABLE postrider_ended (
    number   INTEGER PRIMARY KEY,
    bucket   INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    box      TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    instance TEXT NOT NULL,
    outcome  INTEGER NOT NULL,
    attempt  INTEGER NOT NULL,
    ids      BLOB NOT NULL
);
CREATE INDEX postrider_ended_bucket ON postrider_ended (bucket);
CREATE INDEX postrider_ended_at ON postrider_ended (at);
