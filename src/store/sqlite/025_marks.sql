-- Marks (core/mark.h): how it ended, until when the mark is kept (NULL: for ever), whether its message had no other handler,
-- and when the message arrived again.
ALTER TABLE postrider_seen ADD COLUMN outcome INTEGER NOT NULL DEFAULT 1;
ALTER TABLE postrider_seen ADD COLUMN alone INTEGER NOT NULL DEFAULT 0;
ALTER TABLE postrider_seen ADD COLUMN until INTEGER;
ALTER TABLE postrider_seen ADD COLUMN again_at INTEGER;
DROP INDEX postrider_seen_at;
CREATE INDEX postrider_seen_until ON postrider_seen (box, until) WHERE until IS NOT NULL;

-- How long its marks are kept (boxes.NAME.dedupe, in microseconds); 0: it has none.  Who joins last says so.
ALTER TABLE postrider_box ADD COLUMN dedupe_us INTEGER NOT NULL DEFAULT 0;

ALTER TABLE postrider_endpoint ADD COLUMN duplicates INTEGER NOT NULL DEFAULT 0;
