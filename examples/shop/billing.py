"""billing.py URL DATABASE: the billing service.  It claims orders from Postrider and writes a bill for each.

A worker that dies after its commit gets the same message again: its id is in the transaction of the bill, and says so."""
import os
import sqlite3
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../clients/python"))
import postrider  # noqa: E402

URL, DATABASE = sys.argv[1:3]
local = threading.local()


def database():
    if not hasattr(local, "db"):
        local.db = sqlite3.connect(DATABASE, timeout=60, isolation_level=None)
        local.db.execute("PRAGMA journal_mode = WAL")
        local.db.execute("CREATE TABLE IF NOT EXISTS handled (message TEXT PRIMARY KEY)")
        local.db.execute("CREATE TABLE IF NOT EXISTS bill (shop_order INTEGER, total INTEGER)")
        local.db.execute("CREATE TABLE IF NOT EXISTS revenue (total INTEGER)")
    return local.db


worker = postrider.Worker(URL, threads=2, wait=5)


@worker.handle("order.placed")
def bill(message):
    order, db = message.json(), database()
    db.execute("BEGIN IMMEDIATE")
    try:
        is_new = db.execute("INSERT INTO handled VALUES (?) ON CONFLICT DO NOTHING", (message.id,)).rowcount == 1
        if is_new:
            db.execute("INSERT INTO bill VALUES (?, ?)", (order["order"], order["total"]))
            if db.execute("UPDATE revenue SET total = total + ?", (order["total"],)).rowcount == 0:
                db.execute("INSERT INTO revenue VALUES (?)", (order["total"],))
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


worker.run()
