-- One box.  Files named *_box are run once for each box, with '{box}' (its name), "{box}" and {table}
-- (its table), {now_ms} and {bytes} replaced ({bytes} is the blob of all 256 bytes: SQLite 3.40 cannot unhex).
--
-- row_id is the row, seq its place: they differ for rows that were split by the routes or
-- replayed.  due_at NULL is fresh.  A plain INSERT of type and payload is enough.

CREATE TABLE "{box}" (
    row_id         INTEGER PRIMARY KEY AUTOINCREMENT,
    id             BLOB NOT NULL DEFAULT (CAST(
                       substr({bytes}, 1 + ({now_ms} >> 40 & 255), 1) ||
                       substr({bytes}, 1 + ({now_ms} >> 32 & 255), 1) ||
                       substr({bytes}, 1 + ({now_ms} >> 24 & 255), 1) ||
                       substr({bytes}, 1 + ({now_ms} >> 16 & 255), 1) ||
                       substr({bytes}, 1 + ({now_ms} >> 8 & 255), 1) ||
                       substr({bytes}, 1 + ({now_ms} & 255), 1) ||
                       substr({bytes}, 113 + (random() & 15), 1) || randomblob(1) ||
                       substr({bytes}, 129 + (random() & 63), 1) || randomblob(7) AS BLOB)),
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
    created_at     INTEGER NOT NULL DEFAULT ({now_ms} * 1000),
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

-- Senders of fresh rows pay for none of these.
CREATE INDEX "postrider_{box}_due" ON "{box}" (due_at, seq) WHERE due_at IS NOT NULL AND held_by IS NULL;
CREATE INDEX "postrider_{box}_held" ON "{box}" (held_by, seq) WHERE held_by IS NOT NULL;
-- message_blocks_stream(), or parked.
CREATE INDEX "postrider_{box}_heads" ON "{box}" (row_id)
    WHERE due_at IS NOT NULL AND (due_at = 9223372036854775807 OR (released = 0 AND
          ((status & 32768) <> 0 OR attempts > 0 OR due_at <= created_at)));

INSERT INTO postrider_box (name) VALUES ('{box}');
