-- Parts of a message that goes to several endpoints wait for theirs: held by its key, without a due time.
-- So only what failed, or was handed out, is in the way of others.
DROP INDEX "{schema}"."{box}_heads";
UPDATE "{schema}"."{box}" SET held_by = destination || '/', due_at = NULL
    WHERE row_id IS NOT NULL AND due_at <= created_at AND held_by IS NULL AND NOT released AND attempts = 0
      AND (status & 32768) = 0 AND destination <> '';
CREATE INDEX "{box}_heads" ON "{schema}"."{box}" ((coalesce(row_id, seq)))
    WHERE due_at IS NOT NULL AND (due_at = 'infinity' OR
          (NOT released AND ((status & 32768) <> 0 OR attempts > 0)));
