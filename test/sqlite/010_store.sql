-- A store as version 10 left it (sqlite3 .dump): a message, a dead letter and one behind it, a pause; three boxes.
BEGIN TRANSACTION;
CREATE TABLE audit (
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
INSERT INTO "audit" VALUES(1,1794845062118266,'ann@host','dead_add','{"ids":["01a1e51a-3317-73ea-a24a-36a769425940"]}','it is old',1,1,0);
INSERT INTO "audit" VALUES(2,1794845062332080,'ann@host','pause','{"endpoint":"gone"}','maintenance',1,1,0);
CREATE TABLE box (
    name TEXT PRIMARY KEY
) WITHOUT ROWID;
INSERT INTO "box" VALUES('inbox');
INSERT INTO "box" VALUES('ledger');
INSERT INTO "box" VALUES('outbox');
CREATE TABLE breaker (
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
CREATE TABLE claim (
    instance BLOB NOT NULL,
    cycle    INTEGER NOT NULL,
    box      TEXT NOT NULL,
    at       INTEGER NOT NULL,
    entries  TEXT NOT NULL,
    PRIMARY KEY (instance, cycle)
) WITHOUT ROWID;
CREATE TABLE control (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    mono_at  INTEGER NOT NULL,
    box      TEXT NOT NULL,
    kind     INTEGER NOT NULL,
    row      INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    stream   TEXT,
    endpoint TEXT
);
INSERT INTO "control" VALUES(2,854219278,'outbox',2,2,2,'s','gone');
INSERT INTO "control" VALUES(3,854432283,'',3,0,0,'','gone');
CREATE TABLE dead_letter (
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
, edited_as BLOB);
INSERT INTO "dead_letter" VALUES(1,'outbox',X'01A1E51A331773EAA24A36A769425940','gone',2,'s','dies',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1794845061911677,NULL,NULL,32769,0,0,0,NULL,'it is old',NULL,'[{"at":"2026-11-16T16:04:22.118266Z","attempt":0,"endpoint":"gone","error":"it is old","rule":"ann@host","step":"dead_letter"}]',NULL,0,'gone',10,0,'ann@host','85627e1bf14df841','ann@host: it is old',1794845062118266,X'79',NULL);
CREATE TABLE done (
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
CREATE TABLE endpoint (
    name         TEXT PRIMARY KEY,
    paused_until INTEGER NOT NULL DEFAULT 0,
    paused_by    TEXT,
    paused_why   TEXT,
    sent         INTEGER NOT NULL DEFAULT 0,
    failed       INTEGER NOT NULL DEFAULT 0,
    dead         INTEGER NOT NULL DEFAULT 0,
    discarded    INTEGER NOT NULL DEFAULT 0,
    expired      INTEGER NOT NULL DEFAULT 0
, last_failed_at INTEGER NOT NULL DEFAULT 0, last_reason INTEGER NOT NULL DEFAULT 0, last_code TEXT, last_error TEXT) WITHOUT ROWID;
INSERT INTO "endpoint" VALUES('gone',9223372036854775807,'ann@host','maintenance',0,0,0,0,0,0,0,NULL,NULL);
CREATE TABLE "inbox" (
    row_id         INTEGER PRIMARY KEY AUTOINCREMENT,
    id             BLOB NOT NULL DEFAULT (CAST(
                       substr(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 1 + (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) >> 40 & 255), 1) ||
                       substr(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 1 + (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) >> 32 & 255), 1) ||
                       substr(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 1 + (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) >> 24 & 255), 1) ||
                       substr(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 1 + (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) >> 16 & 255), 1) ||
                       substr(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 1 + (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) >> 8 & 255), 1) ||
                       substr(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 1 + (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) & 255), 1) ||
                       substr(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 113 + (random() & 15), 1) || randomblob(1) ||
                       substr(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 129 + (random() & 63), 1) || randomblob(7) AS BLOB)),
    destination    TEXT NOT NULL DEFAULT '',
    due_at         INTEGER CHECK (due_at IS NULL OR (typeof(due_at) = 'integer' AND due_at > 0)),
    held_by        TEXT,
    split_seq      INTEGER,
    seq            INTEGER GENERATED ALWAYS AS (coalesce(split_seq, row_id)) VIRTUAL,
    stream         TEXT,
    type           TEXT NOT NULL,
    source         TEXT,
    subject        TEXT,
    content_type   TEXT,
    headers        TEXT,
    correlation_id TEXT,
    causation_id   TEXT,
    traceparent    TEXT,
    tracestate     TEXT,
    event          INTEGER NOT NULL DEFAULT 0,
    created_at     INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) * 1000),
    expires_at     INTEGER,
    status         INTEGER NOT NULL DEFAULT 1,
    attempts       INTEGER NOT NULL DEFAULT 0,
    failures       INTEGER NOT NULL DEFAULT 0,
    failure_reason INTEGER NOT NULL DEFAULT 0,
    released       INTEGER NOT NULL DEFAULT 0,
    code           TEXT,
    error          TEXT,
    failed_at      INTEGER,
    story          TEXT,
    payload        BLOB,
    UNIQUE (id, destination)
);
CREATE TABLE instance (
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
, lease_wall INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE TABLE "ledger" (
    row_id         INTEGER PRIMARY KEY AUTOINCREMENT,
    id             BLOB NOT NULL DEFAULT (CAST(
                       substr(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 1 + (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) >> 40 & 255), 1) ||
                       substr(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 1 + (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) >> 32 & 255), 1) ||
                       substr(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 1 + (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) >> 24 & 255), 1) ||
                       substr(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 1 + (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) >> 16 & 255), 1) ||
                       substr(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 1 + (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) >> 8 & 255), 1) ||
                       substr(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 1 + (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) & 255), 1) ||
                       substr(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 113 + (random() & 15), 1) || randomblob(1) ||
                       substr(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 129 + (random() & 63), 1) || randomblob(7) AS BLOB)),
    destination    TEXT NOT NULL DEFAULT '',
    due_at         INTEGER CHECK (due_at IS NULL OR (typeof(due_at) = 'integer' AND due_at > 0)),
    held_by        TEXT,
    split_seq      INTEGER,
    seq            INTEGER GENERATED ALWAYS AS (coalesce(split_seq, row_id)) VIRTUAL,
    stream         TEXT,
    type           TEXT NOT NULL,
    source         TEXT,
    subject        TEXT,
    content_type   TEXT,
    headers        TEXT,
    correlation_id TEXT,
    causation_id   TEXT,
    traceparent    TEXT,
    tracestate     TEXT,
    event          INTEGER NOT NULL DEFAULT 0,
    created_at     INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) * 1000),
    expires_at     INTEGER,
    status         INTEGER NOT NULL DEFAULT 1,
    attempts       INTEGER NOT NULL DEFAULT 0,
    failures       INTEGER NOT NULL DEFAULT 0,
    failure_reason INTEGER NOT NULL DEFAULT 0,
    released       INTEGER NOT NULL DEFAULT 0,
    code           TEXT,
    error          TEXT,
    failed_at      INTEGER,
    story          TEXT,
    payload        BLOB,
    UNIQUE (id, destination)
);
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value ANY
) WITHOUT ROWID;
INSERT INTO "meta" VALUES('epoch',0);
INSERT INTO "meta" VALUES('schema_version',10);
CREATE TABLE "outbox" (
    row_id         INTEGER PRIMARY KEY AUTOINCREMENT,
    id             BLOB NOT NULL DEFAULT (CAST(
                       substr(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 1 + (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) >> 40 & 255), 1) ||
                       substr(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 1 + (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) >> 32 & 255), 1) ||
                       substr(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 1 + (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) >> 24 & 255), 1) ||
                       substr(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 1 + (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) >> 16 & 255), 1) ||
                       substr(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 1 + (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) >> 8 & 255), 1) ||
                       substr(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 1 + (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) & 255), 1) ||
                       substr(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 113 + (random() & 15), 1) || randomblob(1) ||
                       substr(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 129 + (random() & 63), 1) || randomblob(7) AS BLOB)),
    destination    TEXT NOT NULL DEFAULT '',
    due_at         INTEGER CHECK (due_at IS NULL OR (typeof(due_at) = 'integer' AND due_at > 0)),
    held_by        TEXT,
    split_seq      INTEGER,
    seq            INTEGER GENERATED ALWAYS AS (coalesce(split_seq, row_id)) VIRTUAL,
    stream         TEXT,
    type           TEXT NOT NULL,
    source         TEXT,
    subject        TEXT,
    content_type   TEXT,
    headers        TEXT,
    correlation_id TEXT,
    causation_id   TEXT,
    traceparent    TEXT,
    tracestate     TEXT,
    event          INTEGER NOT NULL DEFAULT 0,
    created_at     INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) * 1000),
    expires_at     INTEGER,
    status         INTEGER NOT NULL DEFAULT 1,
    attempts       INTEGER NOT NULL DEFAULT 0,
    failures       INTEGER NOT NULL DEFAULT 0,
    failure_reason INTEGER NOT NULL DEFAULT 0,
    released       INTEGER NOT NULL DEFAULT 0,
    code           TEXT,
    error          TEXT,
    failed_at      INTEGER,
    story          TEXT,
    payload        BLOB,
    UNIQUE (id, destination)
);
INSERT INTO "outbox" VALUES(1,X'01A1E51A327F7301AAC7DEFACEDDFB17','',NULL,NULL,NULL,NULL,'kept',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1794845061759176,NULL,1,0,0,0,0,NULL,NULL,NULL,NULL,X'78');
INSERT INTO "outbox" VALUES(3,X'01A1E51A345D71DDB5EC48ED13F0A7D1','gone',NULL,'gone/s',NULL,'s','behind',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1794845062237528,NULL,1,0,0,0,0,NULL,NULL,NULL,NULL,X'7A');
CREATE TABLE raised_warning (
    name     TEXT PRIMARY KEY,
    began_at INTEGER NOT NULL,
    seen_at  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX dead_letter_id ON dead_letter (id, destination);
CREATE INDEX dead_letter_box ON dead_letter (box);
CREATE INDEX done_id ON done (id, destination);
CREATE INDEX done_box ON done (box);
CREATE INDEX done_keep ON done (keep_until);
CREATE INDEX dead_letter_endpoint ON dead_letter (endpoint);
CREATE INDEX dead_letter_stream ON dead_letter (stream) WHERE stream IS NOT NULL;
CREATE INDEX dead_letter_died ON dead_letter (died_at);
CREATE INDEX dead_letter_print ON dead_letter (fingerprint);
CREATE INDEX dead_letter_group ON dead_letter (fingerprint, died_at, box, cause, failure_reason);
CREATE INDEX "outbox_held" ON "outbox" (held_by, seq) WHERE held_by IS NOT NULL;
CREATE INDEX "outbox_back" ON "outbox" (row_id) WHERE due_at IS NOT NULL OR held_by IS NOT NULL;
CREATE INDEX "outbox_due" ON "outbox" (due_at, seq, row_id, status, attempts, destination, created_at)
    WHERE due_at IS NOT NULL AND held_by IS NULL;
CREATE INDEX "outbox_heads" ON "outbox" (row_id, due_at, attempts, failures, failure_reason, destination, stream)
    WHERE due_at IS NOT NULL AND (due_at = 9223372036854775807 OR (status & 32768) <> 0 OR attempts > 0);
CREATE INDEX "inbox_held" ON "inbox" (held_by, seq) WHERE held_by IS NOT NULL;
CREATE INDEX "inbox_back" ON "inbox" (row_id) WHERE due_at IS NOT NULL OR held_by IS NOT NULL;
CREATE INDEX "inbox_due" ON "inbox" (due_at, seq, row_id, status, attempts, destination, created_at)
    WHERE due_at IS NOT NULL AND held_by IS NULL;
CREATE INDEX "inbox_heads" ON "inbox" (row_id, due_at, attempts, failures, failure_reason, destination, stream)
    WHERE due_at IS NOT NULL AND (due_at = 9223372036854775807 OR (status & 32768) <> 0 OR attempts > 0);
CREATE INDEX "ledger_held" ON "ledger" (held_by, seq) WHERE held_by IS NOT NULL;
CREATE INDEX "ledger_back" ON "ledger" (row_id) WHERE due_at IS NOT NULL OR held_by IS NOT NULL;
CREATE INDEX "ledger_due" ON "ledger" (due_at, seq, row_id, status, attempts, destination, created_at)
    WHERE due_at IS NOT NULL AND held_by IS NULL;
CREATE INDEX "ledger_heads" ON "ledger" (row_id, due_at, attempts, failures, failure_reason, destination, stream)
    WHERE due_at IS NOT NULL AND (due_at = 9223372036854775807 OR (status & 32768) <> 0 OR attempts > 0);
CREATE VIEW in_flight AS SELECT c.box, CAST(e.key AS INTEGER) AS row_id, e.value AS number, i.name AS instance, c.at FROM claim c JOIN instance i ON i.id = c.instance, json_each(c.entries) e;
CREATE VIEW open_breaker AS SELECT b.endpoint, b.type, i.box, i.name AS instance, CASE WHEN b.until > CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) * 1000 THEN 'open' ELSE 'half-open' END AS state, CASE WHEN b.since < 9223372036854775807 THEN strftime('%Y-%m-%dT%H:%M:%fZ', b.since / 1e6, 'unixepoch') END AS since, CASE WHEN b.until < 9223372036854775807 THEN strftime('%Y-%m-%dT%H:%M:%fZ', b.until / 1e6, 'unixepoch') END AS until, b.probes, b.failure_reason, b.code, b.error FROM breaker b JOIN instance i ON i.id = b.instance WHERE i.lanes > 0 AND i.lease_wall > CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) * 1000;
CREATE VIEW endpoint_overview AS SELECT name, CASE WHEN paused_until > CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) * 1000 THEN 'paused' ELSE coalesce((SELECT max(o.state) FROM open_breaker o WHERE o.endpoint = endpoint.name), 'ok') END AS state, CASE WHEN paused_until > CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) * 1000 AND paused_until < 9223372036854775807 THEN strftime('%Y-%m-%dT%H:%M:%fZ', paused_until / 1e6, 'unixepoch') END AS paused_until, paused_by, paused_why, sent, failed, dead, discarded, expired, (SELECT count(*) FROM dead_letter d WHERE d.endpoint = endpoint.name) AS dead_letters, CASE WHEN last_failed_at > 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', last_failed_at / 1e6, 'unixepoch') END AS last_failed_at, last_reason, last_code, last_error, (SELECT min(o.since) FROM open_breaker o WHERE o.endpoint = endpoint.name) AS open_since, (SELECT min(o.until) FROM open_breaker o WHERE o.endpoint = endpoint.name) AS next_probe FROM endpoint;
CREATE VIEW audit_log AS SELECT number, CASE WHEN at < 9223372036854775807 THEN strftime('%Y-%m-%dT%H:%M:%fZ', at / 1e6, 'unixepoch') END AS at, who, action, target, why, matched, changed, refused FROM audit;
CREATE VIEW messages AS SELECT 'outbox' AS box, b.row_id, b.seq, CASE WHEN typeof(b.id) = 'blob' THEN lower(substr(hex(b.id), 1, 8) || '-' || substr(hex(b.id), 9, 4) || '-' || substr(hex(b.id), 13, 4) || '-' || substr(hex(b.id), 17, 4) || '-' || substr(hex(b.id), 21)) ELSE b.id END AS id, CASE WHEN (b.row_id, b.attempts + 1) IN (SELECT row_id, number FROM in_flight WHERE box = 'outbox') THEN 'in-flight' WHEN b.due_at = 9223372036854775807 THEN 'parked' WHEN instr(b.held_by, '/') < length(b.held_by) THEN 'held' WHEN b.due_at > CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) * 1000 AND (b.status & 32768) = 0 AND b.attempts = 0 THEN 'delayed' WHEN b.destination IN (SELECT name FROM endpoint WHERE paused_until > CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) * 1000) THEN 'paused' WHEN b.due_at > CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) * 1000 THEN 'retrying' ELSE 'ready' END AS state, b.type, b.stream, b.destination, strftime('%Y-%m-%dT%H:%M:%fZ', b.created_at / 1e6, 'unixepoch') AS created_at, CASE WHEN b.due_at < 9223372036854775807 THEN strftime('%Y-%m-%dT%H:%M:%fZ', b.due_at / 1e6, 'unixepoch') END AS due_at, b.status, b.attempts, b.failures, b.failure_reason, b.code, b.error, b.held_by, length(b.payload) AS payload_bytes, (SELECT max(o.state) FROM open_breaker o WHERE o.endpoint = b.destination AND o.box = 'outbox' AND o.type IN ('', b.type)) AS endpoint_state FROM "outbox" b UNION ALL SELECT 'inbox' AS box, b.row_id, b.seq, CASE WHEN typeof(b.id) = 'blob' THEN lower(substr(hex(b.id), 1, 8) || '-' || substr(hex(b.id), 9, 4) || '-' || substr(hex(b.id), 13, 4) || '-' || substr(hex(b.id), 17, 4) || '-' || substr(hex(b.id), 21)) ELSE b.id END AS id, CASE WHEN (b.row_id, b.attempts + 1) IN (SELECT row_id, number FROM in_flight WHERE box = 'inbox') THEN 'in-flight' WHEN b.due_at = 9223372036854775807 THEN 'parked' WHEN instr(b.held_by, '/') < length(b.held_by) THEN 'held' WHEN b.due_at > CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) * 1000 AND (b.status & 32768) = 0 AND b.attempts = 0 THEN 'delayed' WHEN b.destination IN (SELECT name FROM endpoint WHERE paused_until > CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) * 1000) THEN 'paused' WHEN b.due_at > CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) * 1000 THEN 'retrying' ELSE 'ready' END AS state, b.type, b.stream, b.destination, strftime('%Y-%m-%dT%H:%M:%fZ', b.created_at / 1e6, 'unixepoch') AS created_at, CASE WHEN b.due_at < 9223372036854775807 THEN strftime('%Y-%m-%dT%H:%M:%fZ', b.due_at / 1e6, 'unixepoch') END AS due_at, b.status, b.attempts, b.failures, b.failure_reason, b.code, b.error, b.held_by, length(b.payload) AS payload_bytes, (SELECT max(o.state) FROM open_breaker o WHERE o.endpoint = b.destination AND o.box = 'inbox' AND o.type IN ('', b.type)) AS endpoint_state FROM "inbox" b UNION ALL SELECT 'ledger' AS box, b.row_id, b.seq, CASE WHEN typeof(b.id) = 'blob' THEN lower(substr(hex(b.id), 1, 8) || '-' || substr(hex(b.id), 9, 4) || '-' || substr(hex(b.id), 13, 4) || '-' || substr(hex(b.id), 17, 4) || '-' || substr(hex(b.id), 21)) ELSE b.id END AS id, CASE WHEN (b.row_id, b.attempts + 1) IN (SELECT row_id, number FROM in_flight WHERE box = 'ledger') THEN 'in-flight' WHEN b.due_at = 9223372036854775807 THEN 'parked' WHEN instr(b.held_by, '/') < length(b.held_by) THEN 'held' WHEN b.due_at > CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) * 1000 AND (b.status & 32768) = 0 AND b.attempts = 0 THEN 'delayed' WHEN b.destination IN (SELECT name FROM endpoint WHERE paused_until > CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) * 1000) THEN 'paused' WHEN b.due_at > CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) * 1000 THEN 'retrying' ELSE 'ready' END AS state, b.type, b.stream, b.destination, strftime('%Y-%m-%dT%H:%M:%fZ', b.created_at / 1e6, 'unixepoch') AS created_at, CASE WHEN b.due_at < 9223372036854775807 THEN strftime('%Y-%m-%dT%H:%M:%fZ', b.due_at / 1e6, 'unixepoch') END AS due_at, b.status, b.attempts, b.failures, b.failure_reason, b.code, b.error, b.held_by, length(b.payload) AS payload_bytes, (SELECT max(o.state) FROM open_breaker o WHERE o.endpoint = b.destination AND o.box = 'ledger' AND o.type IN ('', b.type)) AS endpoint_state FROM "ledger" b;
CREATE VIEW blocked_streams AS SELECT 'outbox' AS box, h.stream, CASE WHEN d.row_id IS NULL THEN h.id ELSE CASE WHEN typeof(d.id) = 'blob' THEN lower(substr(hex(d.id), 1, 8) || '-' || substr(hex(d.id), 9, 4) || '-' || substr(hex(d.id), 13, 4) || '-' || substr(hex(d.id), 17, 4) || '-' || substr(hex(d.id), 21)) ELSE d.id END END AS head, CASE WHEN d.row_id IS NULL THEN h.seq ELSE d.seq END AS seq, CASE WHEN d.row_id IS NULL THEN h.failure_reason ELSE coalesce(nullif(d.failure_reason, 0), d.cause) END AS failure_reason, CASE WHEN d.row_id IS NULL THEN h.error ELSE d.error END AS error, CASE WHEN d.row_id IS NULL THEN CASE WHEN h.due_at < 9223372036854775807 THEN strftime('%Y-%m-%dT%H:%M:%fZ', h.due_at / 1e6, 'unixepoch') END END AS due_at, h.held - (d.row_id IS NULL AND h.held_by IS h.key) AS held, h.endpoint, CASE WHEN d.row_id IS NOT NULL THEN 'dead' WHEN h.due_at = 9223372036854775807 THEN 'parked' ELSE 'failed' END AS head_state FROM (SELECT k.key, k.endpoint, k.stream, k.held, k.first, r.id, r.seq, r.failure_reason, r.error, r.due_at, r.held_by, min(r.rank) FROM (SELECT held_by AS key, substr(held_by, 1, instr(held_by, '/') - 1) AS endpoint, substr(held_by, instr(held_by, '/') + 1) AS stream, count(*) AS held, min(seq) AS first FROM "outbox" WHERE instr(held_by, '/') < length(held_by) GROUP BY held_by) k LEFT JOIN (SELECT stream, CASE destination WHEN '' THEN (SELECT json_extract(value, '$.endpoint') FROM json_each(story) WHERE json_extract(value, '$.endpoint') <> '' ORDER BY key DESC LIMIT 1) ELSE destination END AS endpoint, CASE WHEN typeof(id) = 'blob' THEN lower(substr(hex(id), 1, 8) || '-' || substr(hex(id), 9, 4) || '-' || substr(hex(id), 13, 4) || '-' || substr(hex(id), 17, 4) || '-' || substr(hex(id), 21)) ELSE id END AS id, seq, failure_reason, error, due_at, held_by, (due_at = 9223372036854775807) << 62 | seq AS rank FROM "outbox" WHERE due_at IS NOT NULL AND (due_at = 9223372036854775807 OR (status & 32768) <> 0 OR attempts > 0) AND (due_at = 9223372036854775807 OR released = 0) AND stream <> '') r ON r.stream = k.stream AND coalesce(r.endpoint, k.endpoint) = k.endpoint GROUP BY k.key) h LEFT JOIN dead_letter d ON d.row_id = CASE WHEN h.id IS NULL OR h.due_at = 9223372036854775807 THEN (SELECT x.row_id FROM dead_letter x WHERE x.stream = h.stream AND x.box = 'outbox' AND x.endpoint IN (h.endpoint, '') AND x.seq < min(h.first, coalesce(h.seq, h.first)) AND x.edited_as IS NULL ORDER BY x.seq LIMIT 1) END WHERE d.row_id IS NOT NULL OR (h.id IS NOT NULL AND (h.held > 1 OR h.held_by IS NOT h.key)) UNION ALL SELECT 'inbox' AS box, h.stream, CASE WHEN d.row_id IS NULL THEN h.id ELSE CASE WHEN typeof(d.id) = 'blob' THEN lower(substr(hex(d.id), 1, 8) || '-' || substr(hex(d.id), 9, 4) || '-' || substr(hex(d.id), 13, 4) || '-' || substr(hex(d.id), 17, 4) || '-' || substr(hex(d.id), 21)) ELSE d.id END END AS head, CASE WHEN d.row_id IS NULL THEN h.seq ELSE d.seq END AS seq, CASE WHEN d.row_id IS NULL THEN h.failure_reason ELSE coalesce(nullif(d.failure_reason, 0), d.cause) END AS failure_reason, CASE WHEN d.row_id IS NULL THEN h.error ELSE d.error END AS error, CASE WHEN d.row_id IS NULL THEN CASE WHEN h.due_at < 9223372036854775807 THEN strftime('%Y-%m-%dT%H:%M:%fZ', h.due_at / 1e6, 'unixepoch') END END AS due_at, h.held - (d.row_id IS NULL AND h.held_by IS h.key) AS held, h.endpoint, CASE WHEN d.row_id IS NOT NULL THEN 'dead' WHEN h.due_at = 9223372036854775807 THEN 'parked' ELSE 'failed' END AS head_state FROM (SELECT k.key, k.endpoint, k.stream, k.held, k.first, r.id, r.seq, r.failure_reason, r.error, r.due_at, r.held_by, min(r.rank) FROM (SELECT held_by AS key, substr(held_by, 1, instr(held_by, '/') - 1) AS endpoint, substr(held_by, instr(held_by, '/') + 1) AS stream, count(*) AS held, min(seq) AS first FROM "inbox" WHERE instr(held_by, '/') < length(held_by) GROUP BY held_by) k LEFT JOIN (SELECT stream, CASE destination WHEN '' THEN (SELECT json_extract(value, '$.endpoint') FROM json_each(story) WHERE json_extract(value, '$.endpoint') <> '' ORDER BY key DESC LIMIT 1) ELSE destination END AS endpoint, CASE WHEN typeof(id) = 'blob' THEN lower(substr(hex(id), 1, 8) || '-' || substr(hex(id), 9, 4) || '-' || substr(hex(id), 13, 4) || '-' || substr(hex(id), 17, 4) || '-' || substr(hex(id), 21)) ELSE id END AS id, seq, failure_reason, error, due_at, held_by, (due_at = 9223372036854775807) << 62 | seq AS rank FROM "inbox" WHERE due_at IS NOT NULL AND (due_at = 9223372036854775807 OR (status & 32768) <> 0 OR attempts > 0) AND (due_at = 9223372036854775807 OR released = 0) AND stream <> '') r ON r.stream = k.stream AND coalesce(r.endpoint, k.endpoint) = k.endpoint GROUP BY k.key) h LEFT JOIN dead_letter d ON d.row_id = CASE WHEN h.id IS NULL OR h.due_at = 9223372036854775807 THEN (SELECT x.row_id FROM dead_letter x WHERE x.stream = h.stream AND x.box = 'inbox' AND x.endpoint IN (h.endpoint, '') AND x.seq < min(h.first, coalesce(h.seq, h.first)) AND x.edited_as IS NULL ORDER BY x.seq LIMIT 1) END WHERE d.row_id IS NOT NULL OR (h.id IS NOT NULL AND (h.held > 1 OR h.held_by IS NOT h.key)) UNION ALL SELECT 'ledger' AS box, h.stream, CASE WHEN d.row_id IS NULL THEN h.id ELSE CASE WHEN typeof(d.id) = 'blob' THEN lower(substr(hex(d.id), 1, 8) || '-' || substr(hex(d.id), 9, 4) || '-' || substr(hex(d.id), 13, 4) || '-' || substr(hex(d.id), 17, 4) || '-' || substr(hex(d.id), 21)) ELSE d.id END END AS head, CASE WHEN d.row_id IS NULL THEN h.seq ELSE d.seq END AS seq, CASE WHEN d.row_id IS NULL THEN h.failure_reason ELSE coalesce(nullif(d.failure_reason, 0), d.cause) END AS failure_reason, CASE WHEN d.row_id IS NULL THEN h.error ELSE d.error END AS error, CASE WHEN d.row_id IS NULL THEN CASE WHEN h.due_at < 9223372036854775807 THEN strftime('%Y-%m-%dT%H:%M:%fZ', h.due_at / 1e6, 'unixepoch') END END AS due_at, h.held - (d.row_id IS NULL AND h.held_by IS h.key) AS held, h.endpoint, CASE WHEN d.row_id IS NOT NULL THEN 'dead' WHEN h.due_at = 9223372036854775807 THEN 'parked' ELSE 'failed' END AS head_state FROM (SELECT k.key, k.endpoint, k.stream, k.held, k.first, r.id, r.seq, r.failure_reason, r.error, r.due_at, r.held_by, min(r.rank) FROM (SELECT held_by AS key, substr(held_by, 1, instr(held_by, '/') - 1) AS endpoint, substr(held_by, instr(held_by, '/') + 1) AS stream, count(*) AS held, min(seq) AS first FROM "ledger" WHERE instr(held_by, '/') < length(held_by) GROUP BY held_by) k LEFT JOIN (SELECT stream, CASE destination WHEN '' THEN (SELECT json_extract(value, '$.endpoint') FROM json_each(story) WHERE json_extract(value, '$.endpoint') <> '' ORDER BY key DESC LIMIT 1) ELSE destination END AS endpoint, CASE WHEN typeof(id) = 'blob' THEN lower(substr(hex(id), 1, 8) || '-' || substr(hex(id), 9, 4) || '-' || substr(hex(id), 13, 4) || '-' || substr(hex(id), 17, 4) || '-' || substr(hex(id), 21)) ELSE id END AS id, seq, failure_reason, error, due_at, held_by, (due_at = 9223372036854775807) << 62 | seq AS rank FROM "ledger" WHERE due_at IS NOT NULL AND (due_at = 9223372036854775807 OR (status & 32768) <> 0 OR attempts > 0) AND (due_at = 9223372036854775807 OR released = 0) AND stream <> '') r ON r.stream = k.stream AND coalesce(r.endpoint, k.endpoint) = k.endpoint GROUP BY k.key) h LEFT JOIN dead_letter d ON d.row_id = CASE WHEN h.id IS NULL OR h.due_at = 9223372036854775807 THEN (SELECT x.row_id FROM dead_letter x WHERE x.stream = h.stream AND x.box = 'ledger' AND x.endpoint IN (h.endpoint, '') AND x.seq < min(h.first, coalesce(h.seq, h.first)) AND x.edited_as IS NULL ORDER BY x.seq LIMIT 1) END WHERE d.row_id IS NOT NULL OR (h.id IS NOT NULL AND (h.held > 1 OR h.held_by IS NOT h.key));
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('control',3);
INSERT INTO "sqlite_sequence" VALUES('outbox',3);
INSERT INTO "sqlite_sequence" VALUES('dead_letter',1);
INSERT INTO "sqlite_sequence" VALUES('audit',2);
COMMIT;
