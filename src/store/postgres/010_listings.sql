-- Dead letters by when they died, and by what they died of in the order of rows.
CREATE INDEX dead_letter_died ON "{schema}".dead_letter (died_at, row_id);
CREATE INDEX dead_letter_print ON "{schema}".dead_letter (fingerprint, row_id);
-- Groups are counted in the index alone, also those of one reason.
DROP INDEX "{schema}".dead_letter_group;
CREATE INDEX dead_letter_group ON "{schema}".dead_letter (fingerprint, died_at, box, cause, failure_reason);

-- Warnings that messages were raised about: once for all instances.
CREATE TABLE "{schema}".raised_warning (
    name     text COLLATE "C" PRIMARY KEY,
    began_at timestamptz NOT NULL,
    seen_at  timestamptz NOT NULL
);
