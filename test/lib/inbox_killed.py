"""The example of an inbox is killed at random while it works, and messages that it has handled come again: in the end every
message's own writes are there exactly once.

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


def run_twice(folder):
    """The three payments that the example delivers itself have fixed ids."""
    path = os.path.join(folder, "twice.db")
    subprocess.run([POSTRIDER, "init", "--store", "sqlite:" + path], check=True, stdout=subprocess.DEVNULL)
    told = [subprocess.run([EXAMPLE, path], check=True, capture_output=True, text=True, timeout=DEADLINE_S).stdout for _ in range(2)]
    assert told == ["alice has 70\nbob has 7\n"] * 2, told


def main():
    seed = int(os.environ.get("SEED", time.time()))
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="postrider-test-") as folder:
        run_twice(folder)
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

        def handled():
            return {row[0] for row in db.execute("SELECT id FROM payment")} if tables_exist() else set()

        def tables_exist():
            return db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'payment'").fetchone()[0] > 0

        def bring_again(ids):
            """Plain INSERTs, which nobody looks at; of what is still there they are refused."""
            for id in ids:
                db.execute("INSERT OR IGNORE INTO inbox (id, type, stream, payload) VALUES (?, 'payment.received', ?, ?)",
                           (id, "account-%d" % rng.randrange(7), str(sent[id])))

        again = 0
        kills, deadline = 0, time.monotonic() + DEADLINE_S
        while left() > 0:
            assert time.monotonic() < deadline, "seed %d: %d messages are left after %d s" % (seed, left(), DEADLINE_S)
            child = subprocess.Popen([EXAMPLE, path, "--serve"], stdout=subprocess.DEVNULL)
            before = left()
            # Some work is done, and then it dies at any moment of it.
            goal = before - rng.randrange(1, 1 + MESSAGES // KILLS_MIN)
            while left() > max(goal, 0) and time.monotonic() < deadline:
                time.sleep(rng.random() * 0.01)
                if rng.random() < 0.05:
                    bring_again(rng.sample(sorted(sent), 3))  # handled, or being handled, or not yet
            child.send_signal(signal.SIGKILL)
            child.wait()
            kills += 1
            if kills <= KILLS_MIN:
                ids = rng.sample(sorted(handled()), min(5, len(handled())))
                bring_again(ids)
                again += len(ids)
        booked = db.execute("SELECT id, amount FROM payment").fetchall()
        assert len(booked) == MESSAGES and dict(booked) == sent, "seed %d: %d payments, %d of them different ones" % (
            seed, len(booked), len(dict(booked)))
        total = db.execute("SELECT sum(balance) FROM account").fetchone()[0]
        assert total == sum(sent.values()), "seed %d: the accounts have %d, not %d" % (seed, total, sum(sent.values()))
        assert db.execute("SELECT count(*) FROM postrider_dead_letter").fetchone()[0] == 0, "seed %d: dead letters" % seed
        assert kills >= KILLS_MIN, kills
        assert again >= KILLS_MIN, again
        print("%d messages, killed %d times, %d of them came again after they were handled, seed %d" % (MESSAGES, kills, again, seed))


main()
