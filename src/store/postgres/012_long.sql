-- A row that breaks the limits becomes a dead letter as it is, and an index takes no more than 2,704 bytes of it.
DROP INDEX "{schema}".dead_letter_stream;
CREATE INDEX dead_letter_stream ON "{schema}".dead_letter (left(stream, 255), row_id) WHERE stream IS NOT NULL;
