-- Rings for those who sleep; see 006_wake_box.sql.
CREATE OR REPLACE FUNCTION "{schema}".wake() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM pg_catalog.pg_notify('postrider', TG_ARGV[0]);
    RETURN NULL;
END
$$;

-- How long the lease was when it began: others count it by their own clocks.
ALTER TABLE "{schema}".instance ADD COLUMN IF NOT EXISTS lease_us bigint NOT NULL DEFAULT 15000000;
