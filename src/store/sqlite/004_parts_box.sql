-- Parts of a message that goes to several endpoints wait for theirs: held by its key, without a due time.
-- So only what failed, or was handed out, is in the way of others.
DROP INDEX "postrider_{box}_heads";
UPDATE "{box}" SET held_by = destination || '/', due_at = NULL
    WHERE split_seq IS NOT NULL AND due_at <= created_at AND held_by IS NULL AND released = 0 AND attempts = 0
      AND (status & 32768) = 0 AND destination <> '';
CREATE INDEX "postrider_{box}_heads" ON "{box}" (row_id)
    WHERE due_at IS NOT NULL AND (due_at = 9223372036854775807 OR (released = 0 AND
          ((status & 32768) <> 0 OR attempts > 0)));
