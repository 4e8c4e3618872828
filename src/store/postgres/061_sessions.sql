-- Sessions of activities, and the program (holder: a start of one) that does their activities.  Those that nobody used for a week go.
CREATE TABLE IF NOT EXISTS "{schema}".flow_session (
    session    text COLLATE "C" PRIMARY KEY,
    holder     text NOT NULL,
    instance   text NOT NULL, -- its name
    since      timestamptz NOT NULL,
    moved_from text NOT NULL, -- the instance before it; '': there was none
    used_at    timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS flow_session_used ON "{schema}".flow_session (used_at);
