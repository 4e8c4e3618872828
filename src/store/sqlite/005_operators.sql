-- What operators ask of a million dead letters: by fingerprint (groups), by endpoint, by stream.
CREATE INDEX dead_letter_group ON dead_letter (fingerprint, died_at, box);
CREATE INDEX dead_letter_endpoint ON dead_letter (endpoint);
CREATE INDEX dead_letter_stream ON dead_letter (stream) WHERE stream IS NOT NULL;

-- The id of the corrected message that took its place; NULL: none did.
ALTER TABLE dead_letter ADD COLUMN edited_as BLOB;
