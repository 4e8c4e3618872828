-- How many attempts failed since an endpoint's latest delivery: the rows of tally whose failure came after the latest
-- delivery of them all, or, when none of them has one, also what the endpoint had before.
ALTER TABLE "{schema}".endpoint ADD COLUMN IF NOT EXISTS failed_in_row bigint NOT NULL DEFAULT 0;
ALTER TABLE "{schema}".tally ADD COLUMN IF NOT EXISTS sent_at timestamptz;
