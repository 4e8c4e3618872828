-- Events among the messages that wait have not been stored as such: see 033_events.sql.  Who is sending now is waited for, and who
-- sends later finds the trigger.
LOCK TABLE "{schema}"."{box}" IN SHARE ROW EXCLUSIVE MODE;
WITH waiting AS (SELECT DISTINCT ON (b.stream, b.id) b.* FROM "{schema}"."{box}" b
         WHERE b.event AND b.stream <> '' AND NOT EXISTS
             (SELECT FROM "{schema}".event e WHERE e.stream = b.stream AND e.id = b.id) ORDER BY b.stream, b.id, b.seq),
     numbered AS (SELECT w.*, coalesce(s.version, 0) + row_number() OVER (PARTITION BY w.stream ORDER BY w.seq) AS version
         FROM waiting w LEFT JOIN "{schema}".event_stream s ON s.stream = w.stream),
     stored AS (INSERT INTO "{schema}".event (stream, version, id, type, content_type, headers, payload, created_at)
         SELECT stream, version, id, type, content_type, headers, coalesce(payload_bytes, convert_to(payload, 'UTF8')), created_at
         FROM numbered ORDER BY seq)
INSERT INTO "{schema}".event_stream AS s (stream, version) SELECT stream, max(version) FROM numbered GROUP BY stream
    ON CONFLICT (stream) DO UPDATE SET version = excluded.version;

-- Parts of a message and what is replayed have a row_id; they were stored before.
CREATE OR REPLACE TRIGGER "{box}_event" AFTER INSERT ON "{schema}"."{box}"
    FOR EACH ROW WHEN (NEW.event AND NEW.row_id IS NULL) EXECUTE FUNCTION "{schema}".append_event();
