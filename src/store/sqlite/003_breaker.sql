-- Breakers that are not closed, beside the instance whose they are: they go with it.
-- type '': of the whole endpoint.  From `until` on a probe may go.
CREATE TABLE postrider_breaker (
    instance       BLOB NOT NULL,
    endpoint       TEXT NOT NULL,
    type           TEXT NOT NULL,
    since          INTEGER NOT NULL,
    until          INTEGER NOT NULL,
    probes         INTEGER NOT NULL, -- that failed since it opened
    failure_reason INTEGER NOT NULL,
    code           TEXT,
    error          TEXT,
    PRIMARY KEY (instance, endpoint, type)
) WITHOUT ROWID;

-- When the lease ends by the wall clock, for the views: SQL does not know the boot clock.
ALTER TABLE postrider_instance ADD COLUMN lease_wall INTEGER NOT NULL DEFAULT 0;

-- The latest failure, also one that counts for no message.
ALTER TABLE postrider_endpoint ADD COLUMN last_failed_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE postrider_endpoint ADD COLUMN last_reason INTEGER NOT NULL DEFAULT 0;
ALTER TABLE postrider_endpoint ADD COLUMN last_code TEXT;
ALTER TABLE postrider_endpoint ADD COLUMN last_error TEXT;
