-- Flows (core/flow_row.h).  Executions are texts, as in the history.
CREATE TABLE postrider_flow (
    id               TEXT PRIMARY KEY,
    name             TEXT NOT NULL,
    version          TEXT NOT NULL,
    execution        TEXT NOT NULL,
    next             INTEGER NOT NULL,
    state            INTEGER NOT NULL,
    custom_status    BLOB,
    status_number    INTEGER NOT NULL,
    input            BLOB,
    output           BLOB,
    error            TEXT,
    parent           TEXT,
    parent_execution TEXT,
    parent_task      INTEGER NOT NULL,
    tasks            INTEGER NOT NULL,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL
);
-- Listings, the newest first, of each state; and how many there are.
CREATE INDEX postrider_flow_state_created ON postrider_flow (state, created_at, id);
CREATE INDEX postrider_flow_parent ON postrider_flow (parent) WHERE parent IS NOT NULL;

-- Executions of a flow before its current one, each as the row was when another one began.
CREATE TABLE postrider_flow_execution (
    flow             TEXT NOT NULL,
    execution        TEXT NOT NULL,
    name             TEXT NOT NULL,
    version          TEXT NOT NULL,
    next             INTEGER NOT NULL,
    state            INTEGER NOT NULL,
    input            BLOB,
    output           BLOB,
    error            TEXT,
    ended_at         INTEGER NOT NULL,
    PRIMARY KEY (flow, execution)
) WITHOUT ROWID;

-- What arrived for flows that have not begun.
CREATE TABLE postrider_flow_mail (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    flow         TEXT NOT NULL,
    id           TEXT NOT NULL,
    type         TEXT NOT NULL,
    content_type TEXT,
    headers      TEXT,
    payload      BLOB,
    created_at   INTEGER NOT NULL,
    keep_until   INTEGER
);
CREATE UNIQUE INDEX postrider_flow_mail_id ON postrider_flow_mail (flow, id);
CREATE INDEX postrider_flow_mail_until ON postrider_flow_mail (keep_until) WHERE keep_until IS NOT NULL;
