-- due_at = NULL on a row that had a time means now, and not "new": new rows are found by their places, and this one's was
-- passed long ago.  The relay itself never does that.
CREATE TRIGGER "postrider_{box}_repair" AFTER UPDATE OF due_at ON "{box}"
    WHEN OLD.due_at IS NOT NULL AND NEW.due_at IS NULL
BEGIN
    UPDATE "{box}" SET due_at = {now_ms} * 1000 WHERE row_id = NEW.row_id;
END;
