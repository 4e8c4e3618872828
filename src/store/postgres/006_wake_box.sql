-- Whoever sleeps holds this lock, and then, and only then, senders NOTIFY.  Else they share it until
-- they have committed, and nobody falls asleep meanwhile without looking again.  Nobody waits for it.
CREATE OR REPLACE TRIGGER "{box}_wake" AFTER INSERT ON "{schema}"."{box}"
    FOR EACH STATEMENT WHEN (NOT pg_try_advisory_xact_lock_shared(hashtextextended('postrider {schema}.{box}', 0)))
    EXECUTE FUNCTION "{schema}".wake('{schema}.{box}');
