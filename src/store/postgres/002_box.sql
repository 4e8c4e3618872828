-- One box.  Files named *_box are run once for each box, with {schema} and {box} replaced: behind a double quote by
-- its table, elsewhere by its name.
--
-- xid stands before seq: defaults are drawn in the order of columns, and whoever has a seq
-- must have its xid by then (invariant S1 of the scan).  A row is named by place * 64 + lane,
-- where its place is row_id, or seq when there is none: row_id is set only for rows that were
-- split by the routes or replayed, which share a seq.  due_at NULL is fresh.

CREATE TABLE "{schema}"."{box}" (
    xid            xid8 NOT NULL DEFAULT pg_current_xact_id(),
    seq            bigint GENERATED ALWAYS AS IDENTITY (CACHE 1),
    id             uuid NOT NULL DEFAULT "{schema}".uuid7(),
    row_id         bigint,
    created_at     timestamptz NOT NULL DEFAULT now(),
    due_at         timestamptz,
    expires_at     timestamptz,
    failed_at      timestamptz,
    status         integer NOT NULL DEFAULT 1,
    attempts       integer NOT NULL DEFAULT 0,
    failures       integer NOT NULL DEFAULT 0,
    lane           smallint NOT NULL GENERATED ALWAYS AS
                       ((CASE WHEN stream <> '' THEN hashtext(stream) ELSE uuid_hash(id) END & 63)::smallint) STORED,
    failure_reason smallint NOT NULL DEFAULT 0,
    event          boolean NOT NULL DEFAULT false,
    released       boolean NOT NULL DEFAULT false,
    destination    text COLLATE "C" NOT NULL DEFAULT '',
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
    code           text,
    error          text,
    held_by        text COLLATE "C",
    story          json,
    payload        bytea,
    PRIMARY KEY (id, destination)
);

-- Senders pay for the key and for this one.
CREATE INDEX "{box}_fresh" ON "{schema}"."{box}" (lane, seq) WHERE due_at IS NULL AND held_by IS NULL;

-- Senders of fresh rows pay for none of these: what waits for its time, what waits behind a
-- head, what blocks a stream or is parked (message_blocks_stream()), and all of these by place.
CREATE INDEX "{box}_due" ON "{schema}"."{box}" (due_at, seq, (coalesce(row_id, seq)))
    WHERE due_at IS NOT NULL AND held_by IS NULL;
CREATE INDEX "{box}_held" ON "{schema}"."{box}" (held_by, seq, (coalesce(row_id, seq))) WHERE held_by IS NOT NULL;
CREATE INDEX "{box}_heads" ON "{schema}"."{box}" ((coalesce(row_id, seq)))
    WHERE due_at IS NOT NULL AND (due_at = 'infinity' OR
          (NOT released AND ((status & 32768) <> 0 OR attempts > 0 OR due_at <= created_at)));
CREATE INDEX "{box}_back" ON "{schema}"."{box}" ((coalesce(row_id, seq)))
    WHERE due_at IS NOT NULL OR held_by IS NOT NULL;

INSERT INTO "{schema}".box (name) VALUES ('{box}');
