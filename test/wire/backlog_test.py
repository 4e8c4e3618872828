#!/usr/bin/env python3
"""B16 from the outside: every message goes to two endpoints, one of them is paused, and the program's memory
must not follow what waits for it; nor after a restart, nor while it catches up.

Usage: backlog_test.py POSTRIDER [MESSAGES]    (cli_test.py must be importable)
"""
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback

from cli_test import PROGRAM, Place

MESSAGES = int(sys.argv[2]) if len(sys.argv) > 2 else 12000
WARM, WARM_BYTES = 3000, 8000  # first the page cache of 16 MiB is filled: it is not what is measured
DEADLINE_SECONDS = 60 + MESSAGES // 200
KIB_PER_ROW_MAX = 0.1  # of what waits; it was 0.4 when each was remembered
KIB_SPARE = 1024       # what an allocator keeps
KIB_ANEW = 6 * 1024   # of a process that has just begun: the first, large ones are read again, and passed over

CONFIG = """
store: sqlite:postrider.db?synchronous=normal
poll: {min: 1ms, max: 20ms}
limits: {in_flight: 500}
endpoints:
  open: {url: "console:"}
  shut: {url: "console:"}
routes:
  - {to: [open, shut]}
"""


class Run:
    """The program, and the most memory that it had."""

    def __init__(self, place):
        self.most = 0
        self.process = subprocess.Popen([PROGRAM, "run"], cwd=place.path, stdout=subprocess.DEVNULL,
                                        stderr=open(os.path.join(place.path, "log"), "wb"))
        place.daemons.append(self.process)

    def memory(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            now = next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))
        self.most = max(self.most, now)
        return now

    def until(self, condition, what):
        end = time.monotonic() + DEADLINE_SECONDS
        while not condition():
            assert self.process.poll() is None, "it has ended"
            assert time.monotonic() < end, f"in {DEADLINE_SECONDS} s: not {what}"
            self.memory()
            time.sleep(0.05)  # between two looks; the condition decides
        return self.memory()

    def stop(self):
        self.process.terminate()
        assert self.process.wait(timeout=60) == 0


def ask(p, statement, *values):
    db = sqlite3.connect(os.path.join(p.path, "postrider.db"), timeout=DEADLINE_SECONDS)
    rows = db.execute(statement, values).fetchall()
    db.commit()
    db.close()
    return rows


def send(p, first, count, size=100):
    """Three of four with a stream: few messages in each, many streams."""
    ask(p, "WITH RECURSIVE n(i) AS (SELECT ? UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
          " INSERT INTO outbox (type, stream, payload) SELECT 't', iif(i % 4 = 0, NULL, 's' || i / 8), zeroblob(?) FROM n",
        first, first + count - 1, size)


def left(p, destinations):
    marks = ", ".join("?" * len(destinations))
    return ask(p, f"SELECT count(*) FROM (SELECT 1 FROM outbox WHERE destination IN ({marks}) LIMIT 1)", *destinations)[0][0]


def test_memory_does_not_follow_what_waits_for_one_of_several_endpoints(p):  # B16
    p.write("postrider.yaml", CONFIG)
    p.ok("init")
    p.ok("pause", "shut")
    run = Run(p)
    send(p, 0, WARM, WARM_BYTES)
    before = run.until(lambda: not left(p, ["", "open"]), "the first are delivered to the open one")
    send(p, WARM, MESSAGES)
    after = run.until(lambda: not left(p, ["", "open"]), "all are delivered to the open one")
    limit = before + KIB_SPARE + MESSAGES * KIB_PER_ROW_MAX
    print(f"# {before} KiB with {WARM} waiting, {after} KiB with {WARM + MESSAGES}, at most {run.most}", flush=True)
    assert run.most < limit, f"{run.most} KiB, not under {limit}"
    run.stop()

    run = Run(p)
    send(p, 0, 10)
    run.until(lambda: not left(p, ["", "open"]), "after a restart it goes on")
    assert run.most < limit + KIB_ANEW, f"after a restart: {run.most} KiB, not under {limit + KIB_ANEW}"
    p.ok("resume", "shut")
    run.until(lambda: not left(p, ["", "open", "shut"]), "all are delivered")
    print(f"# at most {run.most} KiB after a restart", flush=True)
    assert run.most < limit + KIB_ANEW, f"while it catches up: {run.most} KiB, not under {limit + KIB_ANEW}"
    run.stop()


def main():
    place = Place(tempfile.mkdtemp(prefix="postrider-backlog-"))
    function = test_memory_does_not_follow_what_waits_for_one_of_several_endpoints
    print("1..1", flush=True)
    try:
        function(place)
        print(f"ok 1 - {function.__name__[5:]}")
        return 0
    except Exception:
        for line in traceback.format_exc().splitlines():
            print(f"# {line}")
        print(f"not ok 1 - {function.__name__[5:]}")
        return 1
    finally:
        place.close()
        shutil.rmtree(place.path)


if __name__ == "__main__":
    sys.exit(main())
