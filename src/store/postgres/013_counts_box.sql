-- What is not fresh is counted in its indexes alone: the rows lie far apart among the fresh ones, each on a page of its
-- own.  Fresh rows are in neither, and one that failed moves in both anyway.  No texts: an index takes no long ones.
DROP INDEX "{schema}"."{box}_due";
CREATE INDEX "{box}_due" ON "{schema}"."{box}" (due_at, seq, (coalesce(row_id, seq)))
    INCLUDE (row_id, lane, status, attempts, created_at) WHERE due_at IS NOT NULL AND held_by IS NULL;
DROP INDEX "{schema}"."{box}_heads";
CREATE INDEX "{box}_heads" ON "{schema}"."{box}" ((coalesce(row_id, seq))) INCLUDE (due_at, attempts, failures)
    WHERE due_at IS NOT NULL AND (due_at = 'infinity' OR
          (NOT released AND ((status & 32768) <> 0 OR attempts > 0)));
-- The planner knows how an index of an expression lies only when it was told.
ANALYZE "{schema}"."{box}";
