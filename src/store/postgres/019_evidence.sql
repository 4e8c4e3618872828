-- When a message of a type was delivered to an endpoint last: a message that goes on failing is blamed for it only when
-- others of its type get through.  Each instance writes a pair once a minute at most; type '': of types beyond what an
-- instance remembers.  What is older than a week is removed.
CREATE TABLE IF NOT EXISTS "{schema}".evidence (
    endpoint     text COLLATE "C" NOT NULL,
    type         text COLLATE "C" NOT NULL,
    delivered_at timestamptz NOT NULL,
    PRIMARY KEY (endpoint, type)
);
