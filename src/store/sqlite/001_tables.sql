-- What all boxes of a store share.  Times are Unix microseconds unless a column says otherwise.

CREATE TABLE postrider_meta (
    key   TEXT PRIMARY KEY,
    value ANY
) WITHOUT ROWID;
INSERT INTO postrider_meta VALUES ('schema_version', 0), ('epoch', 0);

CREATE TABLE postrider_box (
    name TEXT PRIMARY KEY
) WITHOUT ROWID;

-- Engines at work.  lease_end is by the machine's boot clock, so it holds within one boot_id.
-- locked: the owner also holds the lock file, so a free lock file says that it is dead.
CREATE TABLE postrider_instance (
    id         BLOB PRIMARY KEY,
    box        TEXT NOT NULL,
    name       TEXT NOT NULL,
    version    TEXT NOT NULL,
    epoch      INTEGER NOT NULL,
    cycle      INTEGER NOT NULL, -- the latest that was written
    lanes      INTEGER NOT NULL, -- 64: it works the box, 0: it stands by
    locked     INTEGER NOT NULL,
    lease_end  INTEGER NOT NULL,
    boot_id    TEXT NOT NULL,
    started_at INTEGER NOT NULL
) WITHOUT ROWID;

-- Receipts: what was started by a cycle, {"row": hand-out number, ...}.
CREATE TABLE postrider_claim (
    instance BLOB NOT NULL,
    cycle    INTEGER NOT NULL,
    box      TEXT NOT NULL,
    at       INTEGER NOT NULL,
    entries  TEXT NOT NULL,
    PRIMARY KEY (instance, cycle)
) WITHOUT ROWID;

CREATE TABLE postrider_endpoint (
    name         TEXT PRIMARY KEY,
    paused_until INTEGER NOT NULL DEFAULT 0,
    paused_by    TEXT,
    paused_why   TEXT,
    sent         INTEGER NOT NULL DEFAULT 0,
    failed       INTEGER NOT NULL DEFAULT 0,
    dead         INTEGER NOT NULL DEFAULT 0,
    discarded    INTEGER NOT NULL DEFAULT 0,
    expired      INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- Operators' notices to running instances.  box '': for all.  mono_at: boot clock.
CREATE TABLE postrider_control (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    mono_at  INTEGER NOT NULL,
    box      TEXT NOT NULL,
    kind     INTEGER NOT NULL,
    row      INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    stream   TEXT,
    endpoint TEXT
);
-- Numbers begin at 2, so that 1 can be a cursor that has seen nothing.
INSERT INTO postrider_control (mono_at, box, kind, row, seq) VALUES (0, '', 0, 0, 0);
DELETE FROM postrider_control;

CREATE TABLE postrider_audit (
    number  INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    who     TEXT NOT NULL,
    action  TEXT NOT NULL,
    target  TEXT NOT NULL, -- the filter, or the id when there was one
    why     TEXT NOT NULL,
    matched INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    refused INTEGER NOT NULL
);

CREATE TABLE postrider_dead_letter (
    row_id         INTEGER PRIMARY KEY AUTOINCREMENT,
    box            TEXT NOT NULL,
    id, -- as it was, damaged or not
    destination    TEXT NOT NULL,
    seq            INTEGER NOT NULL,
    stream         TEXT,
    type           TEXT,
    source         TEXT,
    subject        TEXT,
    content_type   TEXT,
    headers        TEXT,
    correlation_id TEXT,
    causation_id   TEXT,
    traceparent    TEXT,
    tracestate     TEXT,
    event          INTEGER,
    created_at     INTEGER,
    due_at         INTEGER,
    expires_at     INTEGER,
    status         INTEGER NOT NULL,
    attempts       INTEGER NOT NULL,
    failures       INTEGER NOT NULL,
    failure_reason INTEGER NOT NULL,
    code           TEXT,
    error          TEXT,
    failed_at      INTEGER,
    story          TEXT,
    held_by        TEXT,
    released       INTEGER NOT NULL,
    endpoint       TEXT NOT NULL,
    cause          INTEGER NOT NULL,
    limit_reached  INTEGER NOT NULL,
    rule           TEXT NOT NULL,
    fingerprint    TEXT NOT NULL,
    note           TEXT,
    died_at        INTEGER NOT NULL,
    payload
);
CREATE INDEX postrider_dead_letter_id ON postrider_dead_letter (id, destination);
CREATE INDEX postrider_dead_letter_box ON postrider_dead_letter (box);

-- Delivered messages of boxes that keep them.
CREATE TABLE postrider_done (
    row_id         INTEGER PRIMARY KEY AUTOINCREMENT,
    box            TEXT NOT NULL,
    id,
    destination    TEXT NOT NULL,
    seq            INTEGER NOT NULL,
    stream         TEXT,
    type           TEXT,
    source         TEXT,
    subject        TEXT,
    content_type   TEXT,
    headers        TEXT,
    correlation_id TEXT,
    causation_id   TEXT,
    traceparent    TEXT,
    tracestate     TEXT,
    event          INTEGER,
    created_at     INTEGER,
    due_at         INTEGER,
    expires_at     INTEGER,
    status         INTEGER NOT NULL,
    attempts       INTEGER NOT NULL,
    failures       INTEGER NOT NULL,
    failure_reason INTEGER NOT NULL,
    code           TEXT,
    error          TEXT,
    failed_at      INTEGER,
    story          TEXT,
    held_by        TEXT,
    released       INTEGER NOT NULL,
    endpoint       TEXT NOT NULL,
    done_at        INTEGER NOT NULL,
    keep_until     INTEGER NOT NULL,
    payload
);
CREATE INDEX postrider_done_id ON postrider_done (id, destination);
CREATE INDEX postrider_done_box ON postrider_done (box);
CREATE INDEX postrider_done_keep ON postrider_done (keep_until);
