-- What operators ask of a million dead letters: by fingerprint (groups), by endpoint, by stream.
CREATE INDEX dead_letter_group ON "{schema}".dead_letter (fingerprint, died_at, box);
CREATE INDEX dead_letter_endpoint ON "{schema}".dead_letter (endpoint, row_id);
CREATE INDEX dead_letter_stream ON "{schema}".dead_letter (stream, row_id) WHERE stream IS NOT NULL;

-- The id of the corrected message that took its place; NULL: none did.
ALTER TABLE "{schema}".dead_letter ADD COLUMN edited_as uuid;
