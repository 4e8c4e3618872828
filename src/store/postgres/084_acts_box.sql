-- What each INSERT pays for, again (077_insert_box.sql).  A server prepares the conditions of triggers anew in every statement, and the
-- expressions of a function anew in every transaction: how many operators and functions they have costs more than to evaluate them.

-- An event is appended, and an order for a schedule made whole, in the transaction that stores the row.  Two triggers asked each row
-- whether it is one; now check_message() does, and says so in this column, which is the cheapest condition of a trigger.  NULL: it is not.
ALTER TABLE "{schema}"."{box}" ADD COLUMN IF NOT EXISTS acts_when_stored boolean;
DROP TRIGGER IF EXISTS "{box}_event" ON "{schema}"."{box}";
DROP TRIGGER IF EXISTS "{box}_scheduler" ON "{schema}"."{box}";

-- What append_event() of 041_triggers_box.sql and check_scheduler() of 051_scheduler_box.sql did.  Nothing calls those two any more; they
-- stay because the migrations of a new box name them before this one drops their triggers.  Parts of a message and what is replayed
-- have a row_id: their events were stored before.  A sender may set the column, so both conditions are asked again.
CREATE OR REPLACE FUNCTION "{schema}".act_when_stored() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    next pg_catalog.int8;
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
    IF NEW.event AND NEW.row_id IS NULL THEN
        IF coalesce(NEW.stream, '') = '' THEN
            RAISE EXCEPTION 'an event needs a stream: set stream to what it is about, such as order-7, or event to false'
                USING ERRCODE = '22023';
        END IF;
        IF NOT EXISTS (SELECT FROM "{schema}".event e WHERE e.stream = NEW.stream AND e.id = NEW.id) THEN
            INSERT INTO "{schema}".event_stream AS s (stream, version) VALUES (NEW.stream, 1)
                ON CONFLICT (stream) DO UPDATE SET version = s.version + 1 RETURNING s.version INTO next;
            INSERT INTO "{schema}".event (stream, version, id, type, content_type, headers, payload, created_at)
                VALUES (NEW.stream, next, NEW.id, NEW.type, NEW.content_type, NEW.headers,
                        coalesce(NEW.payload_bytes, convert_to(NEW.payload, 'UTF8')), NEW.created_at)
                ON CONFLICT (stream, id) DO NOTHING;
            IF NOT FOUND THEN -- somebody else has sent it while we waited
                UPDATE "{schema}".event_stream SET version = version - 1 WHERE stream = NEW.stream;
            END IF;
        END IF;
    END IF;
    IF NEW.destination <> 'schedule:' THEN
        RETURN NULL;
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
REVOKE ALL ON FUNCTION "{schema}".act_when_stored() FROM PUBLIC;
CREATE OR REPLACE TRIGGER "{box}_acts" AFTER INSERT ON "{schema}"."{box}"
    FOR EACH ROW WHEN (NEW.acts_when_stored) EXECUTE FUNCTION "{schema}".act_when_stored();

-- As in 077_insert_box.sql.  The first condition is that of an ordinary row, with as few functions as possible; the second one lets the
-- other correct rows pass, and what follows says what is wrong.  Headers pass when they have no bracket but the first: one regular
-- expression instead of five functions.  The lock is tried before the setting is read that says whether anybody may be rung up: with
-- two-phase commit nobody holds it, and nobody is rung up.  The operators of `destination` are named with their schema: an operator of the
-- sender's own must not keep a row from act_when_stored(), which looks whether this sender may make schedules.
CREATE OR REPLACE FUNCTION "{schema}".check_message() RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    rung pg_catalog.text; -- an assignment is an expression, PERFORM a whole query for each of many rows
BEGIN
    NEW.lane := (CASE WHEN NEW.stream OPERATOR(pg_catalog.<>) '' THEN pg_catalog.hashtext(NEW.stream)
                      ELSE pg_catalog.uuid_hash(NEW.id) END OPERATOR(pg_catalog.&) 63)::pg_catalog.int2;
    IF NOT pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended(TG_ARGV[0], 0)) THEN -- NULL: an UPDATE does not ring
        IF pg_catalog.current_setting('max_prepared_transactions') = '0' THEN
            rung := pg_catalog.pg_notify('postrider', pg_catalog.substr(TG_ARGV[0], 11)); -- without "postrider "
        END IF;
    END IF;
    IF (NEW.headers IS NULL OR NEW.headers::pg_catalog.text ~ '^\s*\{[^[{]*$')
       AND NEW.due_at IS NULL AND NEW.expires_at IS NULL AND NEW.created_at = CURRENT_TIMESTAMP
       AND NOT NEW.event AND NEW.destination OPERATOR(pg_catalog.<>) 'schedule:' AND NEW.type <> ''
       AND (NEW.payload IS NULL OR (NEW.payload_bytes IS NULL AND NOT pg_catalog.starts_with(NEW.payload, E'\\x')
                                    AND pg_catalog.current_setting('bytea_output') <> 'escape')) THEN
        RETURN NEW;
    END IF;
    NEW.acts_when_stored := (NEW.event AND NEW.row_id IS NULL) OR NEW.destination OPERATOR(pg_catalog.=) 'schedule:';
    IF (NEW.payload IS NULL OR (NEW.payload_bytes IS NULL AND pg_catalog.left(NEW.payload, 2) <> E'\\x'
                                AND pg_catalog.current_setting('bytea_output') <> 'escape'))
       AND NEW.type <> ''
       AND (NEW.headers IS NULL OR NEW.headers::pg_catalog.text ~ '^\s*\{[^[{]*$')
       AND (NEW.due_at IS NULL OR NEW.due_at BETWEEN '2000-01-01 00:00+00' AND '2299-12-31 23:59:59.999999+00')
       AND (NEW.expires_at IS NULL OR NEW.expires_at BETWEEN '2000-01-01 00:00+00' AND '2299-12-31 23:59:59.999999+00')
       AND NEW.created_at BETWEEN '2000-01-01 00:00+00' AND '2299-12-31 23:59:59.999999+00' THEN
        RETURN NEW;
    END IF;
    DECLARE
        about pg_catalog.text := 'payload';
        says pg_catalog.text;
    BEGIN
        IF pg_catalog.current_setting('session_replication_role') = 'replica' THEN
            RETURN NEW; -- another server has judged, and replication must not stand still
        ELSIF pg_catalog.left(NEW.payload, 2) = E'\\x' THEN
            says := 'payload is text and must not begin with \x: put bytes into payload_bytes';
        ELSIF NEW.payload IS NOT NULL AND NEW.payload_bytes IS NOT NULL THEN
            about := 'payload_bytes';
            says := 'a message has payload or payload_bytes, not both';
        ELSIF pg_catalog.current_setting('bytea_output') = 'escape' AND NEW.payload ~ '^([^\\]|\\\\)*\\[0-3][0-7][0-7]' THEN
            says := 'payload is text and must not hold bytes as bytea_output = escape prints them: put bytes into payload_bytes';
        ELSIF (TG_NARGS = 0 OR TG_OP = 'INSERT') AND NEW.xid <> pg_catalog.pg_current_xact_id() THEN
            RETURN NEW; -- stored by another transaction, also on another server: handed out, told and ended as it is (B9)
        ELSIF NEW.type = '' THEN
            about := 'type';
            says := 'type is empty: every message needs a type such as order.created';
        ELSIF pg_catalog.json_typeof(NEW.headers) <> 'object' THEN
            about := 'headers';
            says := 'headers are not a JSON object such as {"tenant":"7"}';
        ELSIF EXISTS (SELECT FROM pg_catalog.json_each(NEW.headers) h WHERE pg_catalog.json_typeof(h.value) IN ('object', 'array')) THEN
            about := 'headers';
            says := 'headers must not hold objects or arrays: each value is a string, a number, true, false or null';
        ELSIF NEW.due_at <> 'infinity' AND NEW.due_at NOT BETWEEN '2000-01-01 00:00+00' AND '2299-12-31 23:59:59.999999+00' THEN
            about := 'due_at';
            says := 'due_at must be a time of the years 2000 to 2299 (to_timestamp() takes seconds: milliseconds / 1000.0), or NULL: at once';
        ELSIF NEW.expires_at <> 'infinity' AND NEW.expires_at NOT BETWEEN '2000-01-01 00:00+00' AND '2299-12-31 23:59:59.999999+00' THEN
            about := 'expires_at';
            says := 'expires_at must be a time of the years 2000 to 2299 (to_timestamp() takes seconds: milliseconds / 1000.0), or NULL: never';
        ELSIF NEW.created_at <> pg_catalog.now()
              AND NEW.created_at NOT BETWEEN '2000-01-01 00:00+00' AND '2299-12-31 23:59:59.999999+00' THEN
            about := 'created_at';
            says := 'created_at must be a time of the years 2000 to 2299 (to_timestamp() takes seconds: milliseconds / 1000.0), or left out: now';
        ELSE
            RETURN NEW;
        END IF;
        RAISE EXCEPTION '%', says
            USING ERRCODE = 'check_violation', COLUMN = about, TABLE = TG_TABLE_NAME, SCHEMA = TG_TABLE_SCHEMA;
    END;
END
$$;
