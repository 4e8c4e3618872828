-- Send messages in your own transaction on PostgreSQL, from psql:
--
--     postrider init --store postgres:///shop
--     psql shop -f send.sql
BEGIN;

CREATE TABLE IF NOT EXISTS orders (id bigserial PRIMARY KEY, total int);
INSERT INTO orders (total) VALUES (4200);

-- A plain INSERT: everything that is not named has a default.
INSERT INTO postrider.outbox (type, stream, payload)
SELECT 'order.placed', 'order-' || id, json_build_object('order', id, 'total', total)
  FROM orders ORDER BY id DESC LIMIT 1;

-- Or the function, with what is needed: in an hour, unless it is too late by then.
SELECT postrider.send(type => 'order.reminded', payload => '{"order":1}'::jsonb, stream => 'order-1',
                      headers => '{"tenant":"7"}', due => now() + interval '1 hour', expires => now() + interval '1 day');

COMMIT;
