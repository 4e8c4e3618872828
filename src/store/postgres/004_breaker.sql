-- Breakers that are not closed, beside the instance whose they are: they go with it.
-- type '': of the whole endpoint.  From `until` on a probe may go.
CREATE TABLE "{schema}".breaker (
    instance       uuid NOT NULL,
    endpoint       text COLLATE "C" NOT NULL,
    type           text COLLATE "C" NOT NULL,
    since          timestamptz NOT NULL,
    until          timestamptz NOT NULL,
    probes         integer NOT NULL, -- that failed since it opened
    failure_reason smallint NOT NULL,
    code           text,
    error          text,
    PRIMARY KEY (instance, endpoint, type)
);

-- The latest failure, also one that counts for no message; it comes with the tallies.
ALTER TABLE "{schema}".endpoint
    ADD COLUMN last_failed_at timestamptz,
    ADD COLUMN last_reason    smallint NOT NULL DEFAULT 0,
    ADD COLUMN last_code      text,
    ADD COLUMN last_error     text;
ALTER TABLE "{schema}".tally
    ADD COLUMN failed_at timestamptz,
    ADD COLUMN reason    smallint,
    ADD COLUMN code      text,
    ADD COLUMN error     text;
