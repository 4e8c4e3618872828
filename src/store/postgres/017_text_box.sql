-- payload text, payload_bytes bytea; see 016_text.sql.
ALTER TABLE "{schema}"."{box}" RENAME COLUMN payload TO payload_bytes;
ALTER TABLE "{schema}"."{box}" ADD COLUMN payload text;

-- What is refused, and why: check_message() in 016_text.sql.
CREATE TRIGGER "{box}_check" BEFORE INSERT OR UPDATE OF type, headers, payload, payload_bytes ON "{schema}"."{box}"
    FOR EACH ROW EXECUTE FUNCTION "{schema}".check_message();

-- All instances are buried (018_send.sql): what they had in flight counts as an attempt, as in lease.c.
UPDATE "{schema}"."{box}" b SET attempts = b.attempts + 1 WHERE b.ctid = ANY (ARRAY(SELECT r.ctid FROM
    (SELECT DISTINCT u.handle, u.number FROM "{schema}".claim c, unnest(c.rows, c.numbers) AS u(handle, number)
      WHERE c.box = '{box}') e
    CROSS JOIN LATERAL (SELECT b.ctid FROM "{schema}"."{box}" b WHERE b.lane = (e.handle & 63)::smallint
        AND b.seq = e.handle >> 6 AND b.row_id IS NULL AND b.due_at IS NULL AND b.held_by IS NULL
        AND b.attempts = e.number - 1 OFFSET 0) r));
UPDATE "{schema}"."{box}" b SET attempts = b.attempts + 1 WHERE b.ctid = ANY (ARRAY(SELECT r.ctid FROM
    (SELECT DISTINCT u.handle, u.number FROM "{schema}".claim c, unnest(c.rows, c.numbers) AS u(handle, number)
      WHERE c.box = '{box}') e
    CROSS JOIN LATERAL (SELECT b.ctid FROM "{schema}"."{box}" b WHERE b.lane = (e.handle & 63)::smallint
        AND coalesce(b.row_id, b.seq) = e.handle >> 6 AND (b.due_at IS NOT NULL OR b.held_by IS NOT NULL)
        AND b.attempts = e.number - 1 OFFSET 0) r));

-- A transaction that has rung cannot be prepared for two-phase commit.  Where that can be asked for nobody rings, and
-- relays look.
CREATE OR REPLACE TRIGGER "{box}_wake" AFTER INSERT ON "{schema}"."{box}"
    FOR EACH STATEMENT WHEN (current_setting('max_prepared_transactions') = '0'
        AND NOT pg_try_advisory_xact_lock_shared(hashtextextended('postrider {schema}.{box}', 0)))
    EXECUTE FUNCTION "{schema}".wake('{schema}.{box}');
