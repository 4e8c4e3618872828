-- due_at = NULL on a row that had a time means now, and not "new": new rows are found by their places, and this one's was
-- passed long ago.  The relay itself never does that.
CREATE OR REPLACE FUNCTION "{schema}".due_now() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    NEW.due_at := pg_catalog.now();
    RETURN NEW;
END
$$;
CREATE OR REPLACE TRIGGER "{box}_repair" BEFORE UPDATE OF due_at ON "{schema}"."{box}"
    FOR EACH ROW WHEN (OLD.due_at IS NOT NULL AND NEW.due_at IS NULL)
    EXECUTE FUNCTION "{schema}".due_now();
