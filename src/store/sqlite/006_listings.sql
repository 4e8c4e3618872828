-- Dead letters by when they died, and by what they died of in the order of rows.
CREATE INDEX dead_letter_died ON dead_letter (died_at);
CREATE INDEX dead_letter_print ON dead_letter (fingerprint);
-- Groups are counted in the index alone, also those of one reason.
DROP INDEX dead_letter_group;
CREATE INDEX dead_letter_group ON dead_letter (fingerprint, died_at, box, cause, failure_reason);

-- Warnings that messages were raised about: once for all instances.
CREATE TABLE raised_warning (
    name     TEXT PRIMARY KEY,
    began_at INTEGER NOT NULL,
    seen_at  INTEGER NOT NULL
) WITHOUT ROWID;
