-- Dead letters by when they died, and by what they died of in the order of rows.
CREATE INDEX postrider_dead_letter_died ON postrider_dead_letter (died_at);
CREATE INDEX postrider_dead_letter_print ON postrider_dead_letter (fingerprint);
-- Groups are counted in the index alone, also those of one reason.
DROP INDEX postrider_dead_letter_group;
CREATE INDEX postrider_dead_letter_group ON postrider_dead_letter (fingerprint, died_at, box, cause, failure_reason);

-- Warnings that messages were raised about: once for all instances.
CREATE TABLE postrider_raised_warning (
    name     TEXT PRIMARY KEY,
    began_at INTEGER NOT NULL,
    seen_at  INTEGER NOT NULL
) WITHOUT ROWID;
