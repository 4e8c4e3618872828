#!/usr/bin/env python3
"""Send a message in your own transaction on PostgreSQL: the order and its message are stored
together, or neither is.

    apt install python3-psycopg2
    postrider init --store postgres:///shop
    python3 send.py "dbname=shop"
"""
import json
import sys

import psycopg2

connection = psycopg2.connect(sys.argv[1] if len(sys.argv) > 1 else "")

with connection, connection.cursor() as cursor:  # COMMIT at its end, ROLLBACK after an exception
    cursor.execute("CREATE TABLE IF NOT EXISTS orders (id bigserial PRIMARY KEY, total int)")
    cursor.execute("INSERT INTO orders (total) VALUES (4200) RETURNING id")
    order = cursor.fetchone()[0]

    # A plain INSERT: everything that is not named has a default.
    cursor.execute("INSERT INTO postrider.outbox (type, stream, payload) VALUES (%s, %s, %s)",
                   ("order.placed", "order-%d" % order, json.dumps({"order": order, "total": 4200})))

    # Or the function, which also tells the id.
    cursor.execute("SELECT postrider.send(type => %s, payload => %s::jsonb, stream => %s, headers => %s::jsonb)",
                   ("order.invoiced", json.dumps({"order": order}), "order-%d" % order, json.dumps({"tenant": "7"})))
    print("stored", cursor.fetchone()[0])

connection.close()
