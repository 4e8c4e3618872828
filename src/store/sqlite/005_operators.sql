-- What operators ask of a million dead letters: by fingerprint (groups), by endpoint, by stream.
CREATE INDEX postrider_dead_letter_group ON postrider_dead_letter (fingerprint, died_at, box);
CREATE INDEX postrider_dead_letter_endpoint ON postrider_dead_letter (endpoint);
CREATE INDEX postrider_dead_letter_stream ON postrider_dead_letter (stream) WHERE stream IS NOT NULL;

-- The id of the corrected message that took its place; NULL: none did.
ALTER TABLE postrider_dead_letter ADD COLUMN edited_as BLOB;
