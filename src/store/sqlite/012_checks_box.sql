-- What a sender got wrong is refused where it is written, with a text that says what to write instead; the name of a
-- constraint is what SQLite says when it fails.  Compared with '' or x'': numbers are less than text, and text is less
-- than blobs, which costs less than typeof().
--
-- The text of the table is changed in place, as SQLite's documentation of ALTER TABLE describes it for what does not
-- change how rows are stored: nothing is copied, rows that are there are not judged, and triggers that an application
-- has on its box stay.  Our own connections do not ask these checks (conn.c): what is in a box already can be moved.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(replace(replace(sql,
    ' CHECK (due_at IS NULL OR (typeof(due_at) = ''integer'' AND due_at > 0))', ''),
    'created_at     INTEGER NOT NULL DEFAULT (CAST((julianday(''now'') - 2440587.5) * 86400000 + 0.5 AS INTEGER) * 1000)',
    'created_at     INTEGER NOT NULL DEFAULT (max(946684800000000, CAST((julianday(''now'') - 2440587.5) * 86400000 + 0.5 AS INTEGER) * 1000))'),
    'UNIQUE (id, destination)', 'UNIQUE (id, destination),
    CONSTRAINT "postrider: due_at must be Unix microseconds of the years 2000 to 2299 (seconds * 1000000, milliseconds * 1000), or NULL: at once"
        CHECK (due_at IS NULL OR due_at BETWEEN 946684800000000 AND 10413791999999999 OR due_at = 9223372036854775807),
    CONSTRAINT "postrider: expires_at must be Unix microseconds of the years 2000 to 2299 (seconds * 1000000, milliseconds * 1000), or NULL: never"
        CHECK (expires_at IS NULL OR expires_at BETWEEN 946684800000000 AND 10413791999999999 OR expires_at = 9223372036854775807),
    CONSTRAINT "postrider: created_at must be Unix microseconds of the years 2000 to 2299 (seconds * 1000000, milliseconds * 1000), or left out: now"
        CHECK (created_at BETWEEN 946684800000000 AND 10413791999999999),
    CONSTRAINT "postrider: type must not be empty, write one such as order.created"
        CHECK (type <> ''''),
    CONSTRAINT "postrider: headers must be the text of a JSON object such as {""tenant"":""7""}, or NULL"
        CHECK (headers IS NULL OR headers = '''' OR (json_valid(headers) AND ltrim(headers, char(9, 10, 13, 32)) GLOB ''{*'')),
    CONSTRAINT "postrider: id must be a UUID, as a blob of 16 bytes or text of 36 characters, or left out: one is made"
        CHECK ((length(id) = 16 AND id >= x'''') OR id GLOB ''[0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F]-[0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F]-[0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F]-[0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F]-[0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F]''),
    CONSTRAINT "postrider: payload must be text or a blob, write CAST(... AS TEXT) of a number"
        CHECK (payload IS NULL OR payload >= '''')')
    WHERE type = 'table' AND name = '{table}' AND instr(sql, 'CONSTRAINT "postrider: ') = 0;
PRAGMA writable_schema = RESET;
