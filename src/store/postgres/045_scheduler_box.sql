-- Who can send is not who can make, replace and cancel schedules: a row for one needs the right to execute schedule(), or to update
-- the box.  It is the right of whoever is logged in, or has taken a role by SET ROLE: functions such as send() run with
-- their owner's.
CREATE OR REPLACE FUNCTION "{schema}".check_scheduler() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    caller pg_catalog.name := coalesce(nullif(pg_catalog.current_setting('role'), 'none'), session_user);
BEGIN
    IF TG_TABLE_SCHEMA <> '{schema}' THEN
        RAISE EXCEPTION 'this function is only for tables of Postrider' USING ERRCODE = '42501';
    END IF;
    IF NOT pg_catalog.has_table_privilege(caller, TG_RELID, 'UPDATE') AND NOT pg_catalog.has_function_privilege(caller,
           '"{schema}".schedule(text, text, text, jsonb, text, text, text, text, text, jsonb, boolean, text)', 'EXECUTE') THEN
        RAISE EXCEPTION 'role "%" cannot make or cancel schedules: GRANT EXECUTE ON FUNCTION "{schema}".schedule TO "%"', caller, caller
            USING ERRCODE = '42501';
    END IF;
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION "{schema}".check_scheduler() FROM PUBLIC;
CREATE OR REPLACE TRIGGER "{box}_scheduler" AFTER INSERT ON "{schema}"."{box}"
    FOR EACH ROW WHEN (NEW.destination = 'schedule:') EXECUTE FUNCTION "{schema}".check_scheduler();
