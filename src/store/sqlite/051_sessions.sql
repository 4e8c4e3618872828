-- Sessions of activities, and the program (holder: a start of one) that does their activities.  Those that nobody used for a week go.
CREATE TABLE postrider_flow_session (
    session    TEXT PRIMARY KEY,
    holder     TEXT NOT NULL,
    instance   TEXT NOT NULL, -- its name
    since      INTEGER NOT NULL,
    moved_from TEXT NOT NULL, -- the instance before it; '': there was none
    used_at    INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX postrider_flow_session_used ON postrider_flow_session (used_at);
