-- A file for boxes, since the table of repairs is made by one.
-- Who sleeps looks rarely, and is rung up for all that it would look for: new messages by the trigger of each box (017_text_box.sql),
-- and by these notices of operators, rows that were repaired by plain SQL, and instances that come, go, or move lanes.  A box
-- without a name: all of them.  Nobody rings where transactions can be prepared; there relays look.
CREATE OR REPLACE FUNCTION "{schema}".ring() RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    told record := NEW;
BEGIN
    IF TG_OP = 'DELETE' THEN
        told := OLD;
    END IF;
    PERFORM pg_catalog.pg_notify('postrider', '{schema}.' || told.box);
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION "{schema}".ring() FROM PUBLIC;

CREATE OR REPLACE TRIGGER control_ring AFTER INSERT ON "{schema}".control
    FOR EACH ROW WHEN (current_setting('max_prepared_transactions') = '0') EXECUTE FUNCTION "{schema}".ring();
CREATE OR REPLACE TRIGGER repaired_ring AFTER INSERT ON "{schema}".repaired
    FOR EACH ROW WHEN (current_setting('max_prepared_transactions') = '0') EXECUTE FUNCTION "{schema}".ring();
CREATE OR REPLACE TRIGGER instance_ring AFTER INSERT OR DELETE ON "{schema}".instance
    FOR EACH ROW WHEN (current_setting('max_prepared_transactions') = '0') EXECUTE FUNCTION "{schema}".ring();
CREATE OR REPLACE TRIGGER instance_lanes_ring AFTER UPDATE OF lanes ON "{schema}".instance
    FOR EACH ROW WHEN (OLD.lanes <> NEW.lanes AND current_setting('max_prepared_transactions') = '0')
    EXECUTE FUNCTION "{schema}".ring();
