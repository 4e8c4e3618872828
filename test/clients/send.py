"""send.py KIND PLACE: what clients_test.py expects of a client, sent with Python.  KIND: sqlite, psycopg2, psycopg, sqlalchemy-sqlite
or sqlalchemy-psycopg2."""
import functools
import os
import sys
from datetime import datetime, timedelta

import postrider

kind, place = sys.argv[1:]


def connect():
    if kind == "sqlite":
        import sqlite3
        return sqlite3.connect(place, timeout=30)
    if kind == "psycopg2":
        import psycopg2
        return psycopg2.connect(place)
    if kind == "psycopg":
        import psycopg
        return psycopg.connect(place)
    import sqlalchemy
    import sqlalchemy.orm
    url = "sqlite:///" + place if kind == "sqlalchemy-sqlite" else "postgresql+psycopg2://?" + place.replace(" ", "&")
    return sqlalchemy.orm.Session(sqlalchemy.create_engine(url))


connection = connect()
send = functools.partial(postrider.send, connection, schema=os.environ["SCHEMA"])
send("order.created", {"n": 1, "text": "ü \\ \" \n"}, box="inbox", stream="s", headers={"k": "v"},
     correlation_id="c", expires=timedelta(hours=1))
send(postrider.Message("order.text", "plain text", box="inbox", stream="s"))
send("order.bytes", b"\x00\xff", box="inbox", stream="s")
send("order.later", {"n": 4}, box="inbox", due=timedelta(days=1))
connection.commit()
send("order.never", {}, box="inbox", stream="s")
connection.rollback()

# Events that expect a version: the first, the same again, the next, and one that comes too late.
one = postrider.Message("order.counted", {}, box="ledger", stream="counted", event=True, expected_version=0, id=postrider.uuid7())
send(one)
send(one)
send(postrider.Message("order.counted", {}, box="ledger", stream="counted", event=True, expected_version=1))
connection.commit()
try:
    send(postrider.Message("order.counted", {}, box="ledger", stream="counted", event=True, expected_version=1))
    raise SystemExit("this was to be a conflict")
except postrider.VersionConflict as conflict:
    assert (conflict.expected, conflict.version) == (1, 2), conflict
except Exception as error:
    assert "PR409" in (getattr(error, "pgcode", ""), getattr(error, "sqlstate", "")), error
connection.rollback()

for wrong in ({"table": 'x"; DROP'} if "sqlite" in kind else {"schema": "a b"}, {"due": datetime.now()}):
    try:
        postrider.send(connection, "x", **wrong)
    except ValueError:
        continue
    raise SystemExit("this was to be refused")
connection.close()
