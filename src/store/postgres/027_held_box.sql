-- What a row is held for (1 its stream, 2 room at its endpoint), and who parked it (1 the routes, 2 a rule, 3 a person).
-- Both were read out of other columns before: the place of the slash in held_by, and the last line of the story.
{columns}
UPDATE "{schema}"."{box}" SET held_for = CASE WHEN strpos(held_by, '/') = length(held_by) THEN 2 ELSE 1 END
    WHERE held_by IS NOT NULL;
UPDATE "{schema}"."{box}" SET parked_by = CASE
    WHEN failure_reason = 9 AND story -> -1 ->> 'reason' = 'destination_missing' AND story -> -1 ->> 'attempt' = '0' THEN 1
    WHEN story -> -1 ->> 'step' = 'park' AND story -> -1 ->> 'reason' IS NULL AND story -> -1 ->> 'rule' <> 'worker' THEN 3
    ELSE 2 END
    WHERE due_at = 'infinity' AND story IS NOT NULL;

-- Whoever is at work writes neither: everybody joins anew.  What they had in flight counts as an attempt, as in 017_text_box.sql.
UPDATE "{schema}"."{box}" b SET attempts = b.attempts + 1 WHERE b.ctid = ANY (ARRAY(SELECT r.ctid FROM
    (SELECT DISTINCT u.handle, u.number FROM "{schema}".claim c, unnest(c.rows, c.numbers) AS u(handle, number)
      WHERE c.box = '{box}') e
    CROSS JOIN LATERAL (SELECT b.ctid FROM "{schema}"."{box}" b WHERE b.lane = (e.handle & 63)::smallint
        AND coalesce(b.row_id, b.seq) = e.handle >> 6 AND b.attempts = e.number - 1 OFFSET 0) r));
DELETE FROM "{schema}".claim WHERE box = '{box}';
DELETE FROM "{schema}".breaker WHERE instance IN (SELECT id FROM "{schema}".instance WHERE box = '{box}');
DELETE FROM "{schema}".instance WHERE box = '{box}';
