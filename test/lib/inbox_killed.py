"""The example of an inbox is killed at random while it works: in the end every message's own writes are there exactly once.

usage: inbox_killed.py EXAMPLE POSTRIDER"""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid

EXAMPLE, POSTRIDER = sys.argv[1:3]
MESSAGES, KILLS_MIN, DEADLINE_S = 600, 8, 120


def main():
    seed = int(os.environ.get("SEED", time.time()))
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="postrider-test-") as folder:
        path = os.path.join(folder, "bank.db")
        subprocess.run([POSTRIDER, "init", "--store", "sqlite:" + path], check=True, stdout=subprocess.DEVNULL)
        db = sqlite3.connect(path, timeout=20, isolation_level=None)
        sent = {}
        db.execute("BEGIN IMMEDIATE")
        for i in range(MESSAGES):
            id, amount = str(uuid.UUID(int=rng.getrandbits(128), version=4)), rng.randrange(-50, 100)
            sent[id] = amount
            db.execute("INSERT INTO inbox (id, type, stream, payload) VALUES (?, 'payment.received', ?, ?)",
                       (id, "account-%d" % (i % 7), str(amount)))
        db.execute("COMMIT")

        def left():
            return db.execute("SELECT count(*) FROM inbox").fetchone()[0]

        kills, deadline = 0, time.monotonic() + DEADLINE_S
        while left() > 0:
            assert time.monotonic() < deadline, "seed %d: %d messages are left after %d s" % (seed, left(), DEADLINE_S)
            child = subprocess.Popen([EXAMPLE, path, "--serve"], stdout=subprocess.DEVNULL)
            before = left()
            # Some work is done, and then it dies at any moment of it.
            goal = before - rng.randrange(1, 1 + MESSAGES // KILLS_MIN)
            while left() > max(goal, 0) and time.monotonic() < deadline:
                time.sleep(rng.random() * 0.01)
            child.send_signal(signal.SIGKILL)
            child.wait()
            kills += 1
        booked = db.execute("SELECT id, amount FROM payment").fetchall()
        assert len(booked) == MESSAGES and dict(booked) == sent, "seed %d: %d payments, %d of them different ones" % (
            seed, len(booked), len(dict(booked)))
        total = db.execute("SELECT sum(balance) FROM account").fetchone()[0]
        assert total == sum(sent.values()), "seed %d: the accounts have %d, not %d" % (seed, total, sum(sent.values()))
        assert db.execute("SELECT count(*) FROM postrider_dead_letter").fetchone()[0] == 0, "seed %d: dead letters" % seed
        assert kills >= KILLS_MIN, kills
        print("%d messages, killed %d times, seed %d" % (MESSAGES, kills, seed))


main()
