-- Named readers of all events: how far each has come, and who has it.  The fence is raised whenever another instance gets it, and
-- when a person moves it.
CREATE TABLE postrider_subscription (
    name         TEXT PRIMARY KEY,
    position     INTEGER NOT NULL,
    fence        INTEGER NOT NULL,
    holder       TEXT,
    leased_until INTEGER
) WITHOUT ROWID;

-- What somebody made of the first `version` events of a stream.
CREATE TABLE postrider_snapshot (
    stream   TEXT PRIMARY KEY,
    version  INTEGER NOT NULL,
    saved_at INTEGER NOT NULL,
    data     BLOB NOT NULL
) WITHOUT ROWID;
