-- An order for a schedule that exists ({"run":true}, {"pause":true}, {"resume":true}, {"due":"..."}) becomes a whole wish
-- (core/schedule.h): what the schedule says, or its latest wish that nobody has taken up, with the order.  The row is stored anew,
-- for one that is changed would be taken for a repair.  An order that changes nothing leaves no row; one for a schedule that does
-- not exist stays as it is, and its owner says so.
DROP TRIGGER IF EXISTS "postrider_{box}_schedule";
CREATE TRIGGER "postrider_{box}_schedule" AFTER INSERT ON "{box}"
    WHEN NEW.destination = 'schedule:' AND NEW.due_at IS NULL AND iif(json_valid(CAST(NEW.payload AS TEXT)),
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
