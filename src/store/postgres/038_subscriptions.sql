-- Named readers of all events: how far each has come, and who has it.  The fence is raised whenever another instance gets it, and
-- when a person moves it.
CREATE TABLE IF NOT EXISTS "{schema}".subscription (
    name         text COLLATE "C" PRIMARY KEY,
    position     bigint NOT NULL,
    fence        bigint NOT NULL,
    holder       text,
    leased_until timestamptz
) WITH (fillfactor = 50);

-- What somebody made of the first `version` events of a stream.
CREATE TABLE IF NOT EXISTS "{schema}".snapshot (
    stream   text COLLATE "C" PRIMARY KEY,
    version  bigint NOT NULL,
    saved_at timestamptz NOT NULL,
    data     bytea NOT NULL
);

-- A projection moves its position in the transaction of its application (pr_subscription_advance_pg()).  False: it is not its any more.
-- Applications have no right on the table, so this runs with its owner's; not everybody may call it: see postrider init --grants.
CREATE OR REPLACE FUNCTION "{schema}".advance_subscription(name text, fence bigint, from_place bigint, to_place bigint)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE "{schema}".subscription s SET position = advance_subscription.to_place
        WHERE s.name = advance_subscription.name AND s.fence = advance_subscription.fence
          AND s.position = advance_subscription.from_place AND advance_subscription.to_place > s.position;
    RETURN FOUND;
END
$$;
REVOKE ALL ON FUNCTION "{schema}".advance_subscription(text, bigint, bigint, bigint) FROM PUBLIC;

-- As in 033_events.sql; but who may read events, and nothing else, gives them their places, too: with the owner's rights, so no name
-- in it may be looked up among the caller's.  And whoever was told a place may rely on it: it is on disk, and with it all that was committed before it, also
-- where senders do not wait for the disk (synchronous_commit = off).
CREATE OR REPLACE FUNCTION "{schema}".place_events(at_most integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    placed pg_catalog.int8;
BEGIN
    IF NOT EXISTS (SELECT FROM "{schema}".event_new) THEN
        RETURN 0;
    END IF;
    IF pg_catalog.current_setting('synchronous_commit') = 'off' THEN
        PERFORM pg_catalog.set_config('synchronous_commit', 'local', true);
    END IF;
    LOCK TABLE "{schema}".event_order IN EXCLUSIVE MODE;
    WITH these AS (DELETE FROM "{schema}".event_new WHERE number IN
             (SELECT n.number FROM "{schema}".event_new n ORDER BY n.number LIMIT at_most) RETURNING number, stream, version)
    INSERT INTO "{schema}".event_order (place, stream, version)
        SELECT (SELECT coalesce(max(place), 0) FROM "{schema}".event_order) + row_number() OVER (ORDER BY number), stream, version
        FROM these;
    GET DIAGNOSTICS placed = ROW_COUNT;
    RETURN placed;
END
$$;
