-- As in 045_scheduler_box.sql, whatever arguments schedule() has.
--
-- And an order for a schedule that exists ({"run":true}, {"pause":true}, {"resume":true}, {"due":"..."}) becomes a whole wish: what the
-- schedule says, or its latest wish that nobody has taken up, with the order.  The row is stored anew, for one that is
-- changed would be taken for a repair.  An order that changes nothing leaves no row.
CREATE OR REPLACE FUNCTION "{schema}".check_scheduler() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    caller pg_catalog.name := coalesce(nullif(pg_catalog.current_setting('role'), 'none'), session_user);
    wish pg_catalog.jsonb;
    base pg_catalog.jsonb;
    paused pg_catalog.bool;
    pauses pg_catalog.bool;
    resumes pg_catalog.bool;
BEGIN
    IF TG_TABLE_SCHEMA <> '{schema}' THEN
        RAISE EXCEPTION 'this function is only for tables of Postrider' USING ERRCODE = '42501';
    END IF;
    IF NOT pg_catalog.has_table_privilege(caller, TG_RELID, 'UPDATE') AND NOT EXISTS (SELECT FROM pg_catalog.pg_proc p
           WHERE p.pronamespace = pg_catalog.to_regnamespace('"{schema}"') AND p.proname = 'schedule'
           AND pg_catalog.has_function_privilege(caller, p.oid, 'EXECUTE')) THEN
        RAISE EXCEPTION 'role "%" cannot make or cancel schedules: GRANT EXECUTE ON FUNCTION "{schema}".schedule TO "%"', caller, caller
            USING ERRCODE = '42501';
    END IF;
    IF NEW.due_at IS NOT NULL OR NEW.payload IS NULL OR NEW.payload !~ '"(run|pause|resume|due)"\s*:' THEN
        RETURN NULL;
    END IF;
    BEGIN
        wish := NEW.payload::pg_catalog.jsonb;
    EXCEPTION WHEN data_exception THEN
        RETURN NULL; -- its owner finds what is wrong with it
    END;
    pauses := wish @> '{"pause":true}';
    resumes := wish @> '{"resume":true}';
    IF wish ? 'cron' OR NOT (pauses OR resumes OR wish @> '{"run":true}' OR pg_catalog.jsonb_typeof(wish -> 'due') IS NOT DISTINCT FROM 'string') THEN
        RETURN NULL;
    END IF;
    -- Wishes are fresh rows of its lane, or were just looked at; the schedule itself has its own id.
    EXECUTE pg_catalog.format('SELECT b.payload::pg_catalog.jsonb, coalesce(b.due_at = ''infinity'','
        ' b.payload::pg_catalog.jsonb @> ''{"paused":true}'') FROM ('
        ' SELECT f.id, f.seq, f.due_at, f.payload, f.destination FROM %1$I.%2$I f WHERE f.due_at IS NULL AND f.held_by IS NULL'
        ' AND f.lane = $2 AND f.stream = $1 AND f.destination = ''schedule:'' AND f.seq <> $3'
        ' UNION ALL SELECT f.id, f.seq, f.due_at, f.payload, f.destination FROM %1$I.%2$I f WHERE f.due_at <= now() AND'
        ' f.held_by IS NULL AND f.stream = $1 AND f.destination = ''schedule:'''
        ' UNION ALL SELECT f.id, f.seq, f.due_at, f.payload, f.destination FROM %1$I.%2$I f WHERE'
        ' f.id = %1$I.schedule_row_id($1) AND f.destination = ''schedule:'') b'
        ' WHERE %1$I.schedule_member(b.payload, ''cron'') IS NOT NULL'
        ' ORDER BY b.id = %1$I.schedule_row_id($1), b.seq DESC LIMIT 1', TG_TABLE_SCHEMA, TG_TABLE_NAME)
        INTO base, paused USING NEW.stream, NEW.lane, NEW.seq;
    IF base IS NULL THEN
        RETURN NULL; -- there is none: its owner says so
    END IF;
    EXECUTE pg_catalog.format('DELETE FROM %I.%I WHERE id = $1 AND destination = $2', TG_TABLE_SCHEMA, TG_TABLE_NAME)
        USING NEW.id, NEW.destination;
    IF (pauses AND paused) OR (resumes AND NOT paused) THEN
        RETURN NULL;
    END IF;
    base := base - ARRAY['run', 'pause', 'resume', 'due', 'paused'] || (wish - ARRAY['pause', 'resume'])
        || CASE WHEN pauses OR (paused AND NOT resumes) THEN '{"paused":true}' ELSE '{}' END::pg_catalog.jsonb;
    EXECUTE pg_catalog.format('INSERT INTO %I.%I (id, type, stream, destination, payload) VALUES ($1, $2, $3, $4, $5)',
        TG_TABLE_SCHEMA, TG_TABLE_NAME) USING NEW.id, NEW.type, NEW.stream, NEW.destination, base::pg_catalog.text;
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION "{schema}".check_scheduler() FROM PUBLIC;
