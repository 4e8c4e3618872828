-- Schemas that tests use again, since making one takes longer than most tests: cluster.sh puts these functions into its servers.
-- A test leaves its schema as init made it, by emptied(); or with other tables, and then nobody uses it again.
CREATE SCHEMA test_schemas;
CREATE TABLE test_schemas.kept (schema text PRIMARY KEY, shape text); -- what was in its tables is in SCHEMA_clean

-- Changes with each change to a table, view, function, trigger or right, and not with a TRUNCATE.
CREATE FUNCTION test_schemas.shape(schema text) RETURNS text LANGUAGE sql AS $$
    WITH n AS MATERIALIZED (SELECT oid, nspowner, nspacl FROM pg_namespace WHERE nspname = schema),
        c AS MATERIALIZED (SELECT c.oid, c.relname, c.relkind, c.relowner, c.relacl, c.reloptions, c.relrowsecurity
            FROM pg_class c, n WHERE c.relnamespace = n.oid)
    SELECT concat_ws('; ', n.oid, n.nspowner, n.nspacl,
        (SELECT md5(string_agg(c::text, ' ' ORDER BY oid)) FROM c),
        (SELECT md5(string_agg(s::text, ' ' ORDER BY s.seqrelid)) FROM pg_sequence s, c WHERE s.seqrelid = c.oid),
        (SELECT count(*) || ' ' || sum(a.xmin::text::bigint) FROM pg_attribute a, c WHERE a.attrelid = c.oid),
        (SELECT count(*) || ' ' || sum(d.xmin::text::bigint) FROM pg_attrdef d, c WHERE d.adrelid = c.oid),
        (SELECT count(*) || ' ' || sum(t.xmin::text::bigint) FROM pg_trigger t, c WHERE t.tgrelid = c.oid),
        (SELECT count(*) || ' ' || sum(r.xmin::text::bigint) FROM pg_rewrite r, c WHERE r.ev_class = c.oid),
        (SELECT count(*) || ' ' || sum(k.xmin::text::bigint) FROM pg_constraint k WHERE k.connamespace = n.oid),
        (SELECT count(*) || ' ' || sum(p.xmin::text::bigint) FROM pg_proc p WHERE p.pronamespace = n.oid))
    FROM n
$$;

-- Tables that are not as TRUNCATE leaves them, whether there is a row in them or not.
CREATE FUNCTION test_schemas.used(schema text) RETURNS SETOF name LANGUAGE sql AS $$
    SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = schema AND c.relkind = 'r' AND pg_relation_size(c.oid) > 0
$$;

-- To be called when init has made the schema.
CREATE FUNCTION test_schemas.keep(schema text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    t name;
BEGIN
    EXECUTE format('CREATE SCHEMA %I', schema || '_clean');
    FOR t IN SELECT test_schemas.used(schema) LOOP
        EXECUTE format('CREATE TABLE %I.%I AS TABLE %I.%I', schema || '_clean', t, schema, t);
    END LOOP;
    INSERT INTO test_schemas.kept VALUES (schema, test_schemas.shape(schema));
END $$;

-- As it was when it was kept; false: somebody has altered it.  Fails when somebody still holds a table.
CREATE FUNCTION test_schemas.emptied(schema text) RETURNS boolean LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
    t name;
    truncated text;
BEGIN
    IF test_schemas.shape(schema) IS DISTINCT FROM (SELECT k.shape FROM test_schemas.kept k WHERE k.schema = emptied.schema) THEN
        RETURN false;
    END IF;
    SELECT string_agg(format('%I.%I', schema, u), ', ') INTO truncated FROM test_schemas.used(schema) u;
    EXECUTE 'TRUNCATE ' || truncated || ' CASCADE'; -- there is one: the version
    FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = schema || '_clean' LOOP
        EXECUTE format('INSERT INTO %I.%I OVERRIDING SYSTEM VALUE TABLE %I.%I', schema, t, schema || '_clean', t);
    END LOOP;
    FOR t IN SELECT sequencename FROM pg_sequences WHERE schemaname = schema AND last_value IS NOT NULL LOOP
        EXECUTE format('ALTER SEQUENCE %I.%I RESTART', schema, t);
    END LOOP;
    RETURN true;
END $$;

-- Waits until nobody else is there: the server may still be at work for a process that was killed.
CREATE FUNCTION test_schemas.alone() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..1000 LOOP
        PERFORM pg_stat_clear_snapshot();
        IF NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()) THEN
            RETURN true;
        END IF;
        PERFORM pg_sleep(0.002);
    END LOOP;
    RETURN false;
END $$;
