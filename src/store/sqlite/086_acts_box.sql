-- What each INSERT pays for.  Figures in doc/performance.md.
--
-- SQLite makes room for the whole body of a trigger before it evaluates the condition.  So a box has two short triggers, which pass
-- the few rows that are events, or orders for schedules, on to a view; what happens with them is in triggers of the view.  Two, because
-- a trigger does not run inside itself: what an application's own trigger stores because of an order can still be an event.
DROP TRIGGER IF EXISTS "postrider_{box}_event";
DROP TRIGGER IF EXISTS "postrider_{box}_schedule";
DROP VIEW IF EXISTS "postrider_{box}_acts"; -- whoever drops a table keeps its view
CREATE VIEW "postrider_{box}_acts" AS SELECT NULL AS act, NULL AS row_id, NULL AS id, NULL AS destination, NULL AS stream,
    NULL AS type, NULL AS content_type, NULL AS headers, NULL AS event, NULL AS created_at, NULL AS payload WHERE 0;
CREATE TRIGGER "postrider_{box}_event" AFTER INSERT ON "{box}" WHEN NEW.event <> 0 AND NEW.split_seq IS NULL
BEGIN
    INSERT INTO "postrider_{box}_acts" VALUES ('event', NEW.row_id, NEW.id, NEW.destination, NEW.stream, NEW.type, NEW.content_type,
        NEW.headers, NEW.event, NEW.created_at, NEW.payload);
END;
CREATE TRIGGER "postrider_{box}_schedule" AFTER INSERT ON "{box}" WHEN NEW.destination = 'schedule:' AND NEW.due_at IS NULL
BEGIN
    INSERT INTO "postrider_{box}_acts" VALUES ('schedule', NEW.row_id, NEW.id, NEW.destination, NEW.stream, NEW.type, NEW.content_type,
        NEW.headers, NEW.event, NEW.created_at, NEW.payload);
END;

-- As in 035_event_words_box.sql.
CREATE TRIGGER "postrider_{box}_acts_event" INSTEAD OF INSERT ON "postrider_{box}_acts" WHEN NEW.act = 'event'
BEGIN
    SELECT RAISE(ABORT, 'postrider: event must be 1 (it is an event) or 0 (it is not), not a text') WHERE NEW.event <> 1;
    SELECT RAISE(ABORT, 'postrider: an event needs a stream: set stream to what it is about, such as order-7, or event to 0')
        WHERE coalesce(NEW.stream, '') = '';
    SELECT RAISE(ABORT, 'postrider: the stream of an event must be text: write CAST(... AS TEXT)') WHERE typeof(NEW.stream) <> 'text';
    INSERT INTO postrider_event (stream, version, id, type, content_type, headers, payload, created_at)
        VALUES (NEW.stream, 1 + coalesce((SELECT version FROM postrider_event_stream WHERE stream = NEW.stream), 0),
                iif(NEW.id >= x'', lower(substr(hex(NEW.id), 1, 8) || '-' || substr(hex(NEW.id), 9, 4) || '-' ||
                    substr(hex(NEW.id), 13, 4) || '-' || substr(hex(NEW.id), 17, 4) || '-' || substr(hex(NEW.id), 21)),
                    lower(NEW.id)),
                NEW.type, NEW.content_type, NEW.headers, NEW.payload, NEW.created_at)
        ON CONFLICT (stream, id) DO NOTHING;
    INSERT INTO postrider_event_stream (stream, version) SELECT NEW.stream, 1 WHERE changes() > 0
        ON CONFLICT (stream) DO UPDATE SET version = version + 1;
END;

-- As in 045_schedule_box.sql.
CREATE TRIGGER "postrider_{box}_acts_schedule" INSTEAD OF INSERT ON "postrider_{box}_acts"
    WHEN NEW.act = 'schedule' AND iif(json_valid(CAST(NEW.payload AS TEXT)),
        json_extract(CAST(NEW.payload AS TEXT), '$.cron') IS NULL AND
        'true' IN (json_type(CAST(NEW.payload AS TEXT), '$.run'), json_type(CAST(NEW.payload AS TEXT), '$.pause'),
            json_type(CAST(NEW.payload AS TEXT), '$.resume'),
            iif(json_type(CAST(NEW.payload AS TEXT), '$.due') = 'text', 'true', NULL)), 0)
BEGIN
    DELETE FROM "{box}" WHERE row_id = NEW.row_id AND EXISTS (SELECT 1 FROM "{box}" b WHERE b.destination = 'schedule:' AND
        b.stream = NEW.stream AND b.row_id <> NEW.row_id AND iif(json_valid(CAST(b.payload AS TEXT)),
        json_extract(CAST(b.payload AS TEXT), '$.cron') IS NOT NULL, 0));
    INSERT INTO "{box}" (id, type, stream, destination, payload)
        SELECT NEW.id, NEW.type, NEW.stream, NEW.destination,
            json_patch(CASE WHEN o.run THEN json_set(o.spec, '$.run', json('true'))
                            WHEN o.due IS NOT NULL THEN json_set(o.spec, '$.due', o.due) ELSE o.spec END,
                iif(o.pause OR (o.paused AND NOT o.resume), '{"paused":true}', '{}'))
        FROM (SELECT json_remove(CAST(b.payload AS TEXT), '$.run', '$.due', '$.paused') AS spec,
                b.due_at IS 9223372036854775807 OR
                    (b.due_at IS NULL AND coalesce(json_extract(CAST(b.payload AS TEXT), '$.paused'), 0)) AS paused,
                json_type(CAST(NEW.payload AS TEXT), '$.pause') IS 'true' AS pause,
                json_type(CAST(NEW.payload AS TEXT), '$.resume') IS 'true' AS resume,
                json_type(CAST(NEW.payload AS TEXT), '$.run') IS 'true' AS run,
                json_extract(CAST(NEW.payload AS TEXT), '$.due') AS due
            FROM "{box}" b WHERE b.destination = 'schedule:' AND b.stream = NEW.stream AND b.row_id <> NEW.row_id AND
                iif(json_valid(CAST(b.payload AS TEXT)), json_extract(CAST(b.payload AS TEXT), '$.cron') IS NOT NULL, 0)
            ORDER BY b.due_at IS NULL DESC, b.row_id DESC LIMIT 1) o
        WHERE NOT (o.pause AND o.paused) AND NOT (o.resume AND NOT o.paused);
END;

-- Boxes of flows store neither events nor schedules, and have none of these.  (SQL cannot leave something out for some boxes.)
PRAGMA writable_schema = ON;
DELETE FROM sqlite_schema WHERE '{box}' IN ('turns', 'activities') AND
    ('postrider_{box}_acts' IN (name, tbl_name) OR name IN ('postrider_{box}_event', 'postrider_{box}_schedule'));
PRAGMA writable_schema = RESET;

-- The texts of the table are changed in place: 012_checks_box.sql says how and why.
--
-- Each piece of the expression that makes an id costs 0.1 us, so there are as few as possible.  julianday() without an argument is now,
-- with the same value throughout a statement.  A number with all bits but its last eight set is negative, and substr() counts negative
-- places from the end of the list.  The three bytes with version (7) and variant (2) are one of 64 pieces: 62 bits of an id are random.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = substr(sql, 1, instr(sql, 'DEFAULT (CAST(') - 1) || replace(replace(replace('DEFAULT (CAST(
                       substr($bytes, $now_ms >> 40 | -256, 1) || substr($bytes, $now_ms >> 32 | -256, 1) ||
                       substr($bytes, $now_ms >> 24 | -256, 1) || substr($bytes, $now_ms >> 16 | -256, 1) ||
                       substr($bytes, $now_ms >> 8 | -256, 1) || substr($bytes, $now_ms | -256, 1) ||
                       substr($marks, (random() & 63) * 3 + 1, 3) || randomblob(7) AS BLOB))',
        '$bytes', quote({bytes})), '$now_ms', 'julianday() * 86400000 - 210866759999999.5'), '$marks',
        'x''7000807101817202827303837404847505857606867707877808887909897a0a8a7b0b8b7c0c8c7d0d8d7e0e8e7f0f8f70109071119172129273139374149475' ||
        '15957616967717977818987919997a1a9a7b1b9b7c1c9c7d1d9d7e1e9e7f1f9f7020a07121a17222a27323a37424a47525a57626a67727a77828a87929a97a2a' ||
        'aa7b2bab7c2cac7d2dad7e2eae7f2faf7030b07131b17232b27333b37434b47535b57636b67737b77838b87939b97a3aba7b3bbb7c3cbc7d3dbd7e3ebe7f3fbf' ||
        '''') || substr(sql, instr(sql, ' AS BLOB))') + 10)
    WHERE type = 'table' AND name = '{table}' AND sql LIKE '%DEFAULT (CAST(%randomblob(1)%AS BLOB))%';
UPDATE sqlite_schema SET sql = replace(sql, 'CAST((julianday(''now'') - 2440587.5) * 86400000 + 0.5 AS INTEGER) * 1000)',
    'CAST(julianday() * 86400000 - 210866759999999.5 AS INTEGER) * 1000)')
    WHERE type = 'table' AND name = '{table}';
PRAGMA writable_schema = RESET;
