-- Boxes of flows store neither events nor schedules.  What triggers ask of each row, and what SQLite keeps for the case that one
-- of them refuses it, is a quarter of what storing a message for a flow costs.  (SQL cannot drop a trigger of some boxes only.)
PRAGMA writable_schema = ON;
DELETE FROM sqlite_schema WHERE type = 'trigger' AND name IN ('postrider_{box}_event', 'postrider_{box}_schedule')
    AND '{box}' IN ('turns', 'activities');
PRAGMA writable_schema = RESET;
