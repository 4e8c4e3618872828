-- As in 012_checks_box.sql, which says how and why.  A blob in one of these columns is another name than the text of the same bytes:
-- its message waited in a stream of its own, or for an endpoint that nobody has, and became a dead letter.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, 'CONSTRAINT "postrider: type must not be empty',
    'CONSTRAINT "postrider: type, stream and destination must be text, write CAST(... AS TEXT) of a blob"
        CHECK (type < x'''' AND destination < x'''' AND stream < x''''),
    CONSTRAINT "postrider: type must not be empty')
    WHERE type = 'table' AND name = '{table}' AND instr(sql, 'CONSTRAINT "postrider: type, stream') = 0;
PRAGMA writable_schema = RESET;
