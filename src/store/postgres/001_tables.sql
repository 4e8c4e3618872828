-- What all boxes of a schema share.  {schema} is replaced.

CREATE TABLE "{schema}".meta (
    key   text PRIMARY KEY,
    value text NOT NULL
);
INSERT INTO "{schema}".meta VALUES ('schema_version', '0');

CREATE TABLE "{schema}".box (
    name text COLLATE "C" PRIMARY KEY
);

-- UUIDv7: 48 bits of milliseconds, then randomness.
CREATE FUNCTION "{schema}".uuid7() RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
    SELECT pg_catalog.encode(pg_catalog.set_bit(pg_catalog.set_bit(overlay(pg_catalog.uuid_send(pg_catalog.gen_random_uuid())
               PLACING substring(pg_catalog.int8send((extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::pg_catalog.int8) FROM 3)
               FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::pg_catalog.uuid
$$;

-- Engines at work.  lanes: a bit for each lane that is owned; it changes only under a lock of
-- the box's row.  lease_end is by the server's clock.
CREATE SEQUENCE "{schema}".epoch;
CREATE TABLE "{schema}".instance (
    id         uuid PRIMARY KEY,
    box        text COLLATE "C" NOT NULL,
    name       text NOT NULL,
    version    text NOT NULL,
    epoch      bigint NOT NULL,
    lanes      bigint NOT NULL,
    lease_end  timestamptz NOT NULL,
    started_at timestamptz NOT NULL
);

CREATE VIEW "{schema}".lane AS
    SELECT i.box, n::smallint AS lane, i.id AS owner, i.name, i.epoch
      FROM "{schema}".instance i, generate_series(0, 63) n
     WHERE (i.lanes >> n) & 1 = 1;

-- Receipts, and the key that makes a cycle happen once.  rows: what was started, as row
-- handles (place * 64 + lane); numbers: their hand-out numbers.
CREATE TABLE "{schema}".claim (
    instance uuid NOT NULL,
    cycle    bigint NOT NULL,
    box      text COLLATE "C" NOT NULL,
    at       timestamptz NOT NULL,
    rows     bigint[] NOT NULL,
    numbers  integer[] NOT NULL,
    PRIMARY KEY (instance, cycle)
);

CREATE TABLE "{schema}".endpoint (
    name         text COLLATE "C" PRIMARY KEY,
    paused_until timestamptz,
    paused_by    text,
    paused_why   text,
    sent         bigint NOT NULL DEFAULT 0,
    failed       bigint NOT NULL DEFAULT 0,
    dead         bigint NOT NULL DEFAULT 0,
    discarded    bigint NOT NULL DEFAULT 0,
    expired      bigint NOT NULL DEFAULT 0
);

-- What is to be added to the counts above: only inserted by cycles, so that no two instances
-- wait for each other, and folded into them now and then.
CREATE TABLE "{schema}".tally (
    endpoint  text COLLATE "C" NOT NULL,
    sent      bigint NOT NULL,
    failed    bigint NOT NULL,
    dead      bigint NOT NULL,
    discarded bigint NOT NULL,
    expired   bigint NOT NULL
);

-- Operators' notices to running instances.  box '': for all.  Written under a lock, so that
-- numbers are committed in their order; they begin at 2, so that 1 has seen nothing.
CREATE TABLE "{schema}".control (
    number   bigint GENERATED ALWAYS AS IDENTITY (START 2) PRIMARY KEY,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    box      text COLLATE "C" NOT NULL,
    kind     integer NOT NULL,
    "row"    bigint NOT NULL,
    seq      bigint NOT NULL,
    stream   text,
    endpoint text
);

CREATE TABLE "{schema}".audit (
    number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL,
    who     text NOT NULL,
    action  text NOT NULL,
    target  json NOT NULL,
    why     text NOT NULL,
    matched bigint NOT NULL,
    changed bigint NOT NULL,
    refused bigint NOT NULL
);

CREATE TABLE "{schema}".dead_letter (
    row_id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    box            text COLLATE "C" NOT NULL,
    xid            xid8 NOT NULL,
    seq            bigint NOT NULL,
    lane           smallint NOT NULL,
    id             uuid NOT NULL,
    destination    text COLLATE "C" NOT NULL,
    stream         text COLLATE "C",
    type           text COLLATE "C" NOT NULL,
    source         text,
    subject        text,
    content_type   text,
    headers        json,
    correlation_id text,
    causation_id   text,
    traceparent    text,
    tracestate     text,
    event          boolean NOT NULL,
    created_at     timestamptz NOT NULL,
    due_at         timestamptz,
    expires_at     timestamptz,
    status         integer NOT NULL,
    attempts       integer NOT NULL,
    failures       integer NOT NULL,
    failure_reason smallint NOT NULL,
    code           text,
    error          text,
    failed_at      timestamptz,
    story          json,
    held_by        text,
    released       boolean NOT NULL,
    endpoint       text COLLATE "C" NOT NULL,
    cause          smallint NOT NULL,
    limit_reached  integer NOT NULL,
    rule           text NOT NULL,
    fingerprint    text COLLATE "C" NOT NULL,
    note           text,
    died_at        timestamptz NOT NULL,
    payload        bytea
);
CREATE INDEX dead_letter_id ON "{schema}".dead_letter (id, destination);
CREATE INDEX dead_letter_box ON "{schema}".dead_letter (box, row_id);

-- Delivered messages of boxes that keep them.
CREATE TABLE "{schema}".done (
    row_id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    box            text COLLATE "C" NOT NULL,
    seq            bigint NOT NULL,
    lane           smallint NOT NULL,
    id             uuid NOT NULL,
    destination    text COLLATE "C" NOT NULL,
    stream         text COLLATE "C",
    type           text COLLATE "C" NOT NULL,
    source         text,
    subject        text,
    content_type   text,
    headers        json,
    correlation_id text,
    causation_id   text,
    traceparent    text,
    tracestate     text,
    event          boolean NOT NULL,
    created_at     timestamptz NOT NULL,
    due_at         timestamptz,
    expires_at     timestamptz,
    status         integer NOT NULL,
    attempts       integer NOT NULL,
    failures       integer NOT NULL,
    failure_reason smallint NOT NULL,
    code           text,
    error          text,
    failed_at      timestamptz,
    story          json,
    held_by        text,
    released       boolean NOT NULL,
    endpoint       text COLLATE "C" NOT NULL,
    done_at        timestamptz NOT NULL,
    keep_until     timestamptz NOT NULL,
    payload        bytea
);
CREATE INDEX done_id ON "{schema}".done (id, destination);
CREATE INDEX done_box ON "{schema}".done (box, row_id);
CREATE INDEX done_keep ON "{schema}".done (keep_until);
