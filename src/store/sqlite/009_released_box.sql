-- What failed is counted also when it was released: then it fails on its own, and nobody waits behind it.
DROP INDEX "postrider_{box}_heads";
CREATE INDEX "postrider_{box}_heads" ON "{box}" (row_id, due_at, attempts, failures, failure_reason, destination, stream)
    WHERE due_at IS NOT NULL AND (due_at = 9223372036854775807 OR (status & 32768) <> 0 OR attempts > 0);
