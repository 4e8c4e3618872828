#!/usr/bin/env python3
"""B77 from the outside: one endpoint refuses every connection and has no breaker, thousands of messages wait for it, and what is
stored for another endpoint goes out at once: while the backlog is read for the first time, and while its messages come due again.

Usage: storm_test.py POSTRIDER sqlite [MESSAGES], or cluster.sh storm_test.py POSTRIDER postgres [MESSAGES].  The output is TAP.
"""
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

PROGRAM = os.path.abspath(sys.argv[1])
KIND = sys.argv[2]
WHOLE = len(sys.argv) > 3
MESSAGES = int(sys.argv[3]) if WHOLE else 60000
FOLDER = os.environ.get("POSTRIDER_TEST_PG_FOLDER", "")
SCHEMA = "storm_%d" % os.getpid()
ROUNDS, ROUND_SECONDS = 15, 0.5
FIRST_SECONDS, LATER_SECONDS = 4.0, 2.0  # where other tests run beside it; a quiet machine needs one, and a fifth of one
DEADLINE_SECONDS = 120

# The short version has more batches than the whole one, so that a commit for each of them would show.
CONFIG = """
store: "%s"
lease: 60s
%s
endpoints:
  bad: {url: "http://127.0.0.1:%d/", allow_networks: [127.0.0.0/8], breaker: off}
  good: {url: "console:"}
routes: [{type: bad, to: bad}, {type: good, to: good}]
"""
SHORT = "batch: 100\nlimits: {in_flight: 1000}"


class Place:
    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="postrider-storm-")
        with socket.socket() as s:  # nobody listens there afterwards
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        store = "sqlite:t.db" if KIND == "sqlite" else "postgres:///postgres?host=%s&user=postgres&schema=%s" % (FOLDER, SCHEMA)
        with open(os.path.join(self.path, "c.yaml"), "w", encoding="utf-8") as f:
            f.write(CONFIG % (store, "" if WHOLE else SHORT, port))
        self.arrived = []
        subprocess.run([PROGRAM, "init", "-c", "c.yaml"], cwd=self.path, check=True, capture_output=True, timeout=DEADLINE_SECONDS)
        self.db = None
        if KIND == "sqlite":
            self.db = sqlite3.connect(os.path.join(self.path, "t.db"), timeout=DEADLINE_SECONDS, isolation_level=None)

    def sql(self, text):
        if self.db is not None:
            self.db.execute(text)
            return
        subprocess.run(["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-h", FOLDER, "-U", "postgres", "-d", "postgres", "-c",
                        "SET client_min_messages = warning; SET search_path = %s; %s" % (SCHEMA, text)], check=True,
                       capture_output=True, timeout=DEADLINE_SECONDS)

    def fill(self):
        numbers = ("(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT i FROM n)"
                   if KIND == "sqlite" else "generate_series(1, %d)") % MESSAGES
        self.sql("INSERT INTO outbox (type) SELECT 'bad' FROM %s" % numbers)

    def start(self):
        self.daemon = subprocess.Popen([PROGRAM, "run", "-c", "c.yaml"], cwd=self.path, stdout=subprocess.PIPE,
                                       stderr=open(os.path.join(self.path, "log"), "wb"))
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for _ in self.daemon.stdout:
            self.arrived.append(time.monotonic())

    def one(self):
        """How long a message takes from its commit to its endpoint."""
        count = len(self.arrived)
        self.sql("INSERT INTO outbox (type) VALUES ('good')")
        stored = time.monotonic()
        while len(self.arrived) == count:
            assert time.monotonic() - stored < DEADLINE_SECONDS, "it never arrives"
            time.sleep(0.002)
        return max(self.arrived[count] - stored, 0.0)

    def close(self):
        self.daemon.terminate()
        self.daemon.wait(DEADLINE_SECONDS)
        if self.db is not None:
            self.db.close()
        else:
            self.sql("DROP SCHEMA %s CASCADE" % SCHEMA)
        shutil.rmtree(self.path)


def test_a_healthy_message_goes_out_behind_a_failing_backlog(place):  # B77
    """While that is read for the first time."""
    first = place.one()
    print("# %d messages fail: the first healthy one took %.2f s" % (MESSAGES, first))
    assert first < FIRST_SECONDS, first


def test_healthy_messages_go_out_beside_a_failing_backlog(place):  # B77
    """While its messages come due again; their moments are spread over what the relay does."""
    later = []
    for _ in range(ROUNDS):
        time.sleep(ROUND_SECONDS)
        later.append(place.one())
    print("# healthy ones took at most %.2f s" % max(later))
    assert max(later) < LATER_SECONDS, later


TESTS = [test_a_healthy_message_goes_out_behind_a_failing_backlog, test_healthy_messages_go_out_beside_a_failing_backlog]


def main():
    place = Place()
    failed = 0
    place.fill()
    place.start()
    print("1..%d" % len(TESTS))
    try:
        for number, function in enumerate(TESTS, 1):
            try:
                function(place)
                print("ok %d - %s" % (number, function.__name__), flush=True)
            except AssertionError as error:
                failed += 1
                print("# %s\nnot ok %d - %s" % (error, number, function.__name__), flush=True)
    finally:
        place.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
