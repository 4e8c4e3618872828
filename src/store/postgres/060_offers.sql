-- What an instance can do for flows (core/offer.h), for the others.
ALTER TABLE "{schema}".instance ADD COLUMN IF NOT EXISTS offer text NOT NULL DEFAULT '';
-- Lanes that are nobody's, and whose they are to be if that instance lives: "LANE:EPOCH,..."  It changes only under a lock of the row.
ALTER TABLE "{schema}".box ADD COLUMN IF NOT EXISTS passed text NOT NULL DEFAULT '';
