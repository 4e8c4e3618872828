-- What a handler appends and sets in the transaction in which it completes its message (pr_complete_pg()); see
-- 035_complete.sql.  Whoever may call complete() needs these two, and nobody else does.

-- An event at the end of its stream, whose writers wait for each other.  False: the stream has this id already.
CREATE OR REPLACE FUNCTION "{schema}".complete_append(stream text, id uuid, type text, content_type text, headers json, payload bytea)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF "{schema}".expect_version(complete_append.stream, complete_append.id) IS NULL THEN
        RETURN false;
    END IF;
    UPDATE "{schema}".event_stream s SET version = s.version OPERATOR(pg_catalog.+) 1 WHERE s.stream = complete_append.stream;
    INSERT INTO "{schema}".event (stream, version, id, type, content_type, headers, payload, created_at)
        SELECT s.stream, s.version, complete_append.id, complete_append.type, complete_append.content_type,
               complete_append.headers, complete_append.payload, pg_catalog.now()
        FROM "{schema}".event_stream s WHERE s.stream = complete_append.stream;
    RETURN true;
END
$$;
REVOKE EXECUTE ON FUNCTION "{schema}".complete_append(text, uuid, text, text, json, bytea) FROM PUBLIC;

-- A value by its name in a scope; NULL: it is removed.
CREATE OR REPLACE FUNCTION "{schema}".complete_set(scope text, name text, value bytea) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF complete_set.value IS NULL THEN
        DELETE FROM "{schema}".flow_state s WHERE s.flow = complete_set.scope AND s.key = complete_set.name;
    ELSE
        INSERT INTO "{schema}".flow_state (flow, key, value) VALUES (complete_set.scope, complete_set.name, complete_set.value)
            ON CONFLICT ON CONSTRAINT flow_state_pkey DO UPDATE SET value = excluded.value;
    END IF;
    RETURN true;
END
$$;
REVOKE EXECUTE ON FUNCTION "{schema}".complete_set(text, text, bytea) FROM PUBLIC;

-- Who may complete could do so before there were these two.
DO $$
DECLARE
    who pg_catalog.text;
BEGIN
    FOR who IN SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::pg_catalog.regrole::text END
        FROM pg_catalog.pg_proc p, pg_catalog.aclexplode(p.proacl) a
        WHERE p.pronamespace = '"{schema}"'::pg_catalog.regnamespace AND p.proname = 'complete' AND a.grantee <> p.proowner
    LOOP
        EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION "{schema}".complete_append, "{schema}".complete_set TO %s', who);
    END LOOP;
END
$$;
