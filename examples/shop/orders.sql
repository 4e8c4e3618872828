-- The orders service's own table.
CREATE TABLE orders (
    id    bigint PRIMARY KEY,
    total bigint NOT NULL CHECK (total > 0)
);

-- An order, and the message about it, in the caller's transaction.  Without Postrider's schema (postrider init) there is no send().
CREATE FUNCTION place_order(the_id bigint, the_total bigint) RETURNS uuid LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO orders VALUES (the_id, the_total);
    RETURN postrider.send(type => 'order.placed', stream => 'order-' || the_id, source => '/shop/orders',
                          payload => json_build_object('order', the_id, 'total', the_total)::text);
END $$;
