-- As in 038_subscriptions.sql; but no further than the last event that has a place: what came later would be skipped.
CREATE OR REPLACE FUNCTION "{schema}".advance_subscription(name text, fence bigint, from_place bigint, to_place bigint)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    last_place pg_catalog.int8;
BEGIN
    SELECT coalesce(max(o.place), 0) INTO last_place FROM "{schema}".event_order o;
    IF advance_subscription.to_place > last_place THEN
        RAISE EXCEPTION 'no event has the place %; the last one is %', advance_subscription.to_place, last_place
            USING ERRCODE = '22023';
    END IF;
    UPDATE "{schema}".subscription s SET position = advance_subscription.to_place
        WHERE s.name = advance_subscription.name AND s.fence = advance_subscription.fence
          AND s.position = advance_subscription.from_place AND advance_subscription.to_place > s.position;
    RETURN FOUND;
END
$$;
