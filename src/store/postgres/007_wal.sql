-- The server's log as a source.  wal_slot: slots that were made here, also when the configuration
-- knows them no more.  lost_after: a slot was gone, and what was emitted between this place and
-- begins_at was not seen; a person who runs postrider init says that it is known.
CREATE TABLE "{schema}".wal_slot (
    slot        text COLLATE "C" PRIMARY KEY,
    publication text NOT NULL,
    made_at     timestamptz NOT NULL DEFAULT now(),
    begins_at   pg_lsn NOT NULL,
    lost_after  pg_lsn
);

-- How far letters are stored: inserted in the transaction that stores them, and the one before is
-- deleted by its key.  Places of another server (a restored dump) mean nothing here: hence system.
CREATE TABLE "{schema}".wal_place (
    slot   text COLLATE "C" NOT NULL,
    system bigint NOT NULL,
    place  pg_lsn NOT NULL,
    PRIMARY KEY (slot, system, place)
);
