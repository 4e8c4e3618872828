-- Flows (core/flow_row.h).  Executions are texts, as in the history.  The row is updated with each turn.
CREATE TABLE IF NOT EXISTS "{schema}".flow (
    id               text COLLATE "C" PRIMARY KEY,
    name             text NOT NULL,
    version          text NOT NULL,
    execution        text COLLATE "C" NOT NULL,
    next             bigint NOT NULL,
    state            smallint NOT NULL,
    custom_status    bytea,
    status_number    bigint NOT NULL,
    input            bytea,
    output           bytea,
    error            text,
    parent           text COLLATE "C",
    parent_execution text,
    parent_task      bigint NOT NULL,
    tasks            bigint NOT NULL,
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL
) WITH (fillfactor = 50);
-- Listings, the newest first, of each state; and how many there are.
CREATE INDEX IF NOT EXISTS flow_state_created ON "{schema}".flow (state, created_at, id);
CREATE INDEX IF NOT EXISTS flow_parent ON "{schema}".flow (parent) WHERE parent IS NOT NULL;

-- Executions of a flow before its current one, each as the row was when another one began.
CREATE TABLE IF NOT EXISTS "{schema}".flow_execution (
    flow             text COLLATE "C" NOT NULL,
    execution        text COLLATE "C" NOT NULL,
    name             text NOT NULL,
    version          text NOT NULL,
    next             bigint NOT NULL,
    state            smallint NOT NULL,
    input            bytea,
    output           bytea,
    error            text,
    ended_at         timestamptz NOT NULL,
    PRIMARY KEY (flow, execution)
);

-- What arrived for flows that have not begun.
CREATE TABLE IF NOT EXISTS "{schema}".flow_mail (
    number       bigint GENERATED ALWAYS AS IDENTITY,
    flow         text COLLATE "C" NOT NULL,
    id           text COLLATE "C" NOT NULL,
    type         text NOT NULL,
    content_type text,
    headers      text,
    payload      bytea,
    created_at   timestamptz NOT NULL,
    keep_until   timestamptz,
    PRIMARY KEY (flow, id)
);
CREATE INDEX IF NOT EXISTS flow_mail_until ON "{schema}".flow_mail (keep_until) WHERE keep_until IS NOT NULL;
