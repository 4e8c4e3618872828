-- What is not fresh is counted in its indexes alone: the rows lie far apart among the fresh ones, each on a page of its
-- own.  row_id stands before the rest, so that the order of what is due stays that of (due_at, seq, row_id).  Fresh rows
-- are in neither, and one that failed moves in both anyway.
DROP INDEX "postrider_{box}_due";
CREATE INDEX "postrider_{box}_due" ON "{box}" (due_at, seq, row_id, status, attempts, destination, created_at)
    WHERE due_at IS NOT NULL AND held_by IS NULL;
DROP INDEX "postrider_{box}_heads";
CREATE INDEX "postrider_{box}_heads" ON "{box}" (row_id, due_at, attempts, failures, failure_reason, destination, stream)
    WHERE due_at IS NOT NULL AND (due_at = 9223372036854775807 OR (released = 0 AND
          ((status & 32768) <> 0 OR attempts > 0)));
