-- What a row is held for (1 its stream, 2 room at its endpoint), and who parked it (1 the routes, 2 a rule, 3 a person).
-- Both were read out of other columns before: the place of the slash in held_by, and the last line of the story.
{columns}
UPDATE "{box}" SET held_for = iif(instr(held_by, '/') = length(held_by), 2, 1) WHERE held_by IS NOT NULL;
UPDATE "{box}" SET parked_by = CASE
    WHEN failure_reason = 9 AND json_extract(story, '$[#-1].reason') = 'destination_missing'
        AND json_extract(story, '$[#-1].attempt') = 0 THEN 1
    WHEN json_extract(story, '$[#-1].step') = 'park' AND json_extract(story, '$[#-1].reason') IS NULL
        AND json_extract(story, '$[#-1].rule') <> 'worker' THEN 3
    ELSE 2 END
    WHERE due_at = 9223372036854775807 AND json_valid(story);
