-- What failed is counted also when it was released: then it fails on its own, and nobody waits behind it.
DROP INDEX "{schema}"."{box}_heads";
CREATE INDEX "{box}_heads" ON "{schema}"."{box}" ((coalesce(row_id, seq))) INCLUDE (due_at, attempts, failures)
    WHERE due_at IS NOT NULL AND (due_at = 'infinity' OR (status & 32768) <> 0 OR attempts > 0);
-- The planner knows how an index of an expression lies only when it was told.
ANALYZE "{schema}"."{box}";
