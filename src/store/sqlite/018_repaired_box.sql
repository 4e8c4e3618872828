-- How often somebody changed what rows say, by plain SQL: a relay that has read them before reads them anew (B19).  It never
-- changes these columns itself, so nobody else pays.  A row that goes elsewhere waits behind nothing that it waited behind.
CREATE TABLE IF NOT EXISTS postrider_repaired (
    box   TEXT PRIMARY KEY,
    times INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO postrider_repaired (box, times) VALUES ('{box}', 0);

CREATE TRIGGER "postrider_{box}_repaired" AFTER UPDATE OF payload, destination, stream, type, headers ON "{box}"
    WHEN OLD.payload IS NOT NEW.payload OR OLD.destination IS NOT NEW.destination OR OLD.stream IS NOT NEW.stream
      OR OLD.type IS NOT NEW.type OR OLD.headers IS NOT NEW.headers
BEGIN
    UPDATE postrider_repaired SET times = times + 1 WHERE box = '{box}';
    UPDATE "{box}" SET held_by = NULL WHERE row_id = NEW.row_id AND held_by IS NOT NULL
        AND (OLD.destination IS NOT NEW.destination OR OLD.stream IS NOT NEW.stream OR OLD.type IS NOT NEW.type
             OR OLD.headers IS NOT NEW.headers);
END;
