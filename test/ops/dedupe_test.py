#!/usr/bin/env python3
"""What arrives twice is handled once: a real daemon, messages over HTTP and by INSERT, and a webhook that counts.

Usage: dedupe_test.py POSTRIDER sqlite [WORD], or cluster.sh dedupe_test.py POSTRIDER postgres [WORD].  The output is TAP.
"""
import contextlib
import http.client
import http.server
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import uuid

PROGRAM = os.path.abspath(sys.argv[1])
KIND = sys.argv[2]
FOLDER = os.environ.get("POSTRIDER_TEST_PG_FOLDER", "")
DEADLINE_SECONDS = 60
TESTS = []

CONFIG = """
store: "%s"
lease: 2s
stop_timeout: 2s
boxes: {inbox: {}, outbox: {}, ledger: {dedupe: 1h}}
endpoints:
  billing: {url: "http://127.0.0.1:%d/billing", allow_networks: [127.0.0.0/8], retry: [100ms]}
  mail: {url: "http://127.0.0.1:%d/mail", allow_networks: [127.0.0.0/8]}
routes:
  - {box: inbox, to: billing}
  - {box: ledger, to: [billing, mail]}
  - {to: billing}
http: {listen: "127.0.0.1:0"}
"""


def test(function):
    TESTS.append(function)
    return function


def wait_for(what, condition):
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError("not within %d s: %s" % (DEADLINE_SECONDS, what))


class Receiver:
    """Counts what comes, by its path and id; refuses ids that it was told to."""

    def __init__(self):
        self.lock, self.got, self.refuses = threading.Lock(), [], set()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                ident = self.headers["ce-id"]
                with receiver.lock:
                    receiver.got.append((self.path[1:], ident))
                    refused = ident in receiver.refuses
                self.send_response(422 if refused else 204)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def count(self, ident, path="billing"):
        with self.lock:
            return self.got.count((path, ident))

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Daemon:
    count = 0

    def __init__(self, receiver):
        Daemon.count += 1
        self.path = tempfile.mkdtemp(prefix="postrider-dedupe-")
        self.schema = "dedupe_%d_%d" % (os.getpid(), Daemon.count)
        store = "sqlite:t.db" if KIND == "sqlite" else "postgres:///postgres?host=%s&user=postgres&schema=%s" % (FOLDER, self.schema)
        with open(os.path.join(self.path, "c.yaml"), "w", encoding="utf-8") as f:
            f.write(CONFIG % (store, receiver.port, receiver.port))
        self.run("init", "-c", "c.yaml")
        self.start()

    def start(self):
        self.log = open(os.path.join(self.path, "log"), "a", encoding="utf-8")
        self.process = subprocess.Popen([PROGRAM, "run", "-c", "c.yaml"], cwd=self.path, stdout=subprocess.PIPE, stderr=self.log)
        self.port = int(self.process.stdout.readline().split()[1])
        wait_for("ready", self.is_ready)

    def is_ready(self):
        assert self.process.poll() is None, open(os.path.join(self.path, "log"), encoding="utf-8").read()
        try:
            return self.ask("GET", "/health/ready")[0] == 200
        except OSError:
            return False

    def run(self, *args, code=0):
        done = subprocess.run([PROGRAM, *args], cwd=self.path, capture_output=True, timeout=DEADLINE_SECONDS)
        assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
        return done.stdout.decode() + done.stderr.decode()

    def ask(self, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_SECONDS)
        with contextlib.closing(c):
            c.request(method, path, body=None if body is None else json.dumps(body),
                      headers={"X-Postrider": "1", "Content-Type": "application/json"})
            r = c.getresponse()
            text = r.read().decode()
            return r.status, json.loads(text) if text.startswith("{") else text

    def send(self, box="inbox", **fields):
        """The id, and whether it was a duplicate."""
        status, answer = self.ask("POST", "/v1/messages?box=" + box, {"type": "order.created", "payload": 1, **fields})
        assert status == 202, answer
        return answer["messages"][0]["id"], answer["messages"][0].get("duplicate", False)

    def insert(self, box, ident, destination, stream=None):
        """A plain INSERT, past everything that looks."""
        if KIND == "sqlite":
            with contextlib.closing(sqlite3.connect(os.path.join(self.path, "t.db"), timeout=DEADLINE_SECONDS)) as db, db:
                db.execute("INSERT INTO %s (id, type, destination, stream) VALUES (?, 't', ?, ?)" % box,
                           (uuid.UUID(ident).bytes, destination, stream))
            return
        sql = "INSERT INTO %s.%s (id, type, destination, stream) VALUES ('%s', 't', '%s', %s)" % (
            self.schema, box, ident, destination, "NULL" if stream is None else "'%s'" % stream)
        self.psql(sql)

    def psql(self, sql):
        return subprocess.run(["psql", "-h", FOLDER, "-U", "postgres", "-d", "postgres", "-qAtc", sql], check=True,
                              capture_output=True, timeout=DEADLINE_SECONDS)

    def sql(self, text):
        if KIND != "sqlite":
            return self.psql(text.replace("postrider_", self.schema + ".")).stdout.decode()
        with contextlib.closing(sqlite3.connect(os.path.join(self.path, "t.db"), timeout=DEADLINE_SECONDS)) as db, db:
            return db.execute(text).fetchall()

    def mark_away(self, ident):
        self.sql("UPDATE postrider_seen SET handler = 'away' WHERE handler = 'billing'")
        return ident

    def mark_back(self, ident):
        self.sql("UPDATE postrider_seen SET handler = 'billing' WHERE handler = 'away'")

    def waiting(self, box):
        boxes = self.ask("GET", "/v1/boxes")[1]["boxes"]
        counts = next(b for b in boxes if b["name"] == box)
        return sum(counts[k] for k in ("ready", "in_flight", "delayed", "retrying", "held", "parked", "paused"))

    def gauge(self, start):
        lines = [l for l in self.ask("GET", "/metrics")[1].splitlines() if l.startswith(start)]
        return sum(float(l.rsplit(" ", 1)[1]) for l in lines)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(DEADLINE_SECONDS)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(DEADLINE_SECONDS)
        self.process.stdout.close()
        self.log.close()
        shutil.rmtree(self.path)


# ---- What arrives ----

@test
def what_was_handled_and_is_posted_again_is_not_handled_again_also_after_a_restart(d, r):  # B90
    ident, duplicate = d.send()
    assert not duplicate
    wait_for("its delivery", lambda: r.count(ident) == 1 and d.waiting("inbox") == 0)
    assert d.send(id=ident) == (ident, True)
    assert d.send(id=ident, destination="billing") == (ident, True)
    d.stop()
    d.start()
    assert d.send(id=ident) == (ident, True)
    other = d.send()[0]
    wait_for("another one's delivery", lambda: r.count(other) == 1)
    assert r.count(ident) == 1, r.got
    assert d.gauge("postrider_inbox_duplicates_total") == 1  # of this process
    why = d.run("why", ident, "-c", "c.yaml")
    assert "It was handled by billing" in why and "arrived again" in why, why
    told = [json.loads(line) for line in d.run("why", ident, "--json", "-c", "c.yaml").splitlines()]
    marks = [m for t in told for m in t.get("handled", [])]
    assert [(m["handler"], m["outcome"]) for m in marks] == [("billing", "delivered")], told
    assert {(a["destination"], a["times"]) for t in told for a in t["again"]} == {(None, 2), ("billing", 1)}, told


@test
def what_arrives_again_while_it_waits_or_is_dead_is_known_also_when_it_was_handled(d, r):  # B90, B66
    ident = str(uuid.uuid4())
    r.refuses.add(ident)
    assert d.send(id=ident, destination="billing", due_at="2099-01-01T00:00:00Z") == (ident, False)
    assert d.send(id=ident, destination="billing") == (ident, True)  # it waits for its time
    assert "It arrived again for billing" in d.run("why", ident, "-c", "c.yaml")
    d.run("retry", ident, "-c", "c.yaml")
    wait_for("its death", lambda: next(b for b in d.ask("GET", "/v1/boxes")[1]["boxes"] if b["name"] == "inbox")["dead"] == 1)
    assert d.send(id=ident, destination="billing") == (ident, True)
    assert "It arrived again for billing 2 times, the last time" in d.run("why", ident, "-c", "c.yaml")
    told = d.ask("GET", "/v1/messages/" + ident)[1]["deliveries"][0]["again"]
    assert [(a["box"], a["destination"], a["times"]) for a in told] == [("inbox", "billing", 2)] and told[0]["last_at"], told
    r.refuses.clear()
    assert "1 replayed" in d.run("dead", "replay", ident, "-c", "c.yaml")
    wait_for("its end", lambda: d.waiting("inbox") == 0)
    assert d.gauge("postrider_inbox_duplicates_total") == 2
    why = d.run("why", ident, "-c", "c.yaml")
    assert "It was handled by billing" in why and "again for billing 2 times" in why, why


@test
def rows_of_one_message_that_nobody_looked_at_are_handled_once(d, r):  # B90
    ident = str(uuid.uuid4())
    d.insert("inbox", ident, "", "a")
    d.insert("inbox", ident, "billing", "b")  # another row, in another stream, for the same handler
    wait_for("both ends", lambda: r.count(ident) > 0 and d.waiting("inbox") == 0)
    d.insert("inbox", ident, "billing")
    wait_for("its end", lambda: d.waiting("inbox") == 0)
    assert r.count(ident) == 1, r.got
    assert d.gauge('postrider_messages_ended_total{box="inbox",end="duplicate"}') == 2
    endpoint = next(e for e in d.ask("GET", "/v1/endpoints")[1]["endpoints"] if e["name"] == "billing")
    assert endpoint["duplicates"] == 2, endpoint
    assert "A duplicate to billing ended" in d.run("why", ident, "-c", "c.yaml")


@test
def each_handler_of_a_message_handles_it_once(d, r):  # B92
    ident = d.send("ledger")[0]
    wait_for("both deliveries", lambda: r.count(ident) == 1 and r.count(ident, "mail") == 1 and d.waiting("ledger") == 0)
    assert d.send("ledger", id=ident) == (ident, False)  # the routes decide who handles it ...
    assert d.send("ledger", id=ident, destination="mail") == (ident, True)
    wait_for("its end", lambda: d.waiting("ledger") == 0)
    assert r.count(ident) == 1 and r.count(ident, "mail") == 1, r.got  # ... and each of them has


@test
def each_part_of_a_message_for_several_handlers_that_comes_again_is_counted(d, r):  # B66, B92
    ident = str(uuid.uuid4())
    for endpoint in ("billing", "mail"):
        d.run("pause", endpoint, "-c", "c.yaml")
    d.send("ledger", id=ident)
    wait_for("its parts", lambda: len(d.ask("GET", "/v1/messages/" + ident)[1]["deliveries"]) == 2)
    d.send("ledger", id=ident)  # both parts wait
    ended = 'postrider_messages_ended_total{box="ledger",end="duplicate"}'
    wait_for("two duplicates", lambda: d.gauge(ended) == 2)
    d.run("resume", "billing", "-c", "c.yaml")
    wait_for("billing's end", lambda: r.count(ident) == 1 and d.waiting("ledger") == 1)
    d.send("ledger", id=ident)  # one is done, and the other one waits
    wait_for("two more", lambda: d.gauge(ended) == 4)
    d.run("resume", "mail", "-c", "c.yaml")
    wait_for("mail's end", lambda: r.count(ident, "mail") == 1 and d.waiting("ledger") == 0)
    counts = {e["name"]: e["duplicates"] for e in d.ask("GET", "/v1/endpoints")[1]["endpoints"]}
    assert counts == {"billing": 2, "mail": 2} and r.count(ident) == 1, counts
    why = d.run("why", ident, "-c", "c.yaml")
    assert "A duplicate to billing ended" in why and "A duplicate to mail ended" in why, why


@test
def a_box_without_dedupe_delivers_what_comes_again(d, r):
    ident = d.send("outbox")[0]
    wait_for("its delivery", lambda: r.count(ident) == 1 and d.waiting("outbox") == 0)
    assert d.send("outbox", id=ident) == (ident, False)
    wait_for("its second delivery", lambda: r.count(ident) == 2)


# ---- People ----

@test
def a_dead_letter_of_a_message_that_was_handled_is_replayed_only_with_again(d, r):  # B90
    ident = str(uuid.uuid4())
    r.refuses.add(ident)
    assert d.send(id=ident, destination="billing") == (ident, False)
    wait_for("its death", lambda: d.ask("GET", "/v1/boxes")[1]["boxes"] and next(
        b for b in d.ask("GET", "/v1/boxes")[1]["boxes"] if b["name"] == "inbox")["dead"] == 1)
    before = r.count(ident)
    d.insert("inbox", ident, "")  # it has a dead letter: a duplicate
    wait_for("its end", lambda: d.waiting("inbox") == 0)
    assert r.count(ident) == before, r.got
    exported = d.run("dead", "export", "-c", "c.yaml")
    with open(os.path.join(d.path, "dead.jsonl"), "w", encoding="utf-8") as f:
        f.write("".join(line + "\n" for line in exported.splitlines() if line.startswith("{")))
    r.refuses.clear()
    assert "1 replayed" in d.run("dead", "replay", ident, "-c", "c.yaml")
    wait_for("its delivery", lambda: r.count(ident) == before + 1 and d.waiting("inbox") == 0)

    told = d.run("dead", "import", "dead.jsonl", "-c", "c.yaml")
    assert "was handled meanwhile" in told and "--again" in told, told
    mark = d.mark_away(ident)  # as if it had been handled by a row that nobody knows of while it was dead
    d.run("dead", "import", "dead.jsonl", "-c", "c.yaml")
    d.mark_back(mark)
    told = d.run("dead", "replay", ident, "-c", "c.yaml", code=1)
    assert "its message was handled at 20" in told and "--again" in told, told
    status, answer = d.ask("POST", "/v1/dead/replay", {"ids": [ident]})
    assert status == 409 and answer["error"]["code"] == "handled", answer
    status, answer = d.ask("POST", "/v1/dead/replay", {"filter": {"endpoint": "billing"}, "dry_run": True})
    assert answer["handled"] == 1 and answer["changed"] == 0, answer
    assert "1 replayed" in d.run("dead", "replay", ident, "--again", "-c", "c.yaml")
    wait_for("its second delivery", lambda: r.count(ident) == before + 2 and d.waiting("inbox") == 0)

    letters = [json.loads(line) for line in exported.splitlines() if line.startswith("{")]
    status, answer = d.ask("POST", "/v1/dead/import", {"letters": letters})
    assert status == 200 and answer["stored"] == 0, answer
    status, answer = d.ask("POST", "/v1/dead/import", {"letters": letters, "again": True})
    assert status == 200 and answer["stored"] == 1, answer
    d.run("dead", "discard", ident, "--yes", "-c", "c.yaml")
    mark = d.mark_away(ident)
    d.run("dead", "import", "dead.jsonl", "-c", "c.yaml")
    d.mark_back(mark)
    assert d.ask("POST", "/v1/dead/replay", {"ids": [ident]})[0] == 409
    status, answer = d.ask("POST", "/v1/dead/replay", {"ids": [ident], "again": True})
    assert status == 200 and answer["changed"] == 1, answer
    wait_for("its third delivery", lambda: r.count(ident) == before + 3 and d.waiting("inbox") == 0)


def main():
    wanted = [t for t in TESTS if len(sys.argv) < 4 or sys.argv[3] in t.__name__]
    print("1..%d" % len(wanted))
    failed = 0
    for number, function in enumerate(wanted, 1):
        receiver, daemon, ok = Receiver(), None, False
        try:
            daemon = Daemon(receiver)
            function(daemon, receiver)
            ok = True
        except Exception:
            for line in traceback.format_exc().splitlines():
                print("# " + line)
            if daemon is not None:
                with open(os.path.join(daemon.path, "log"), encoding="utf-8") as f:
                    for line in f.read().splitlines()[-20:]:
                        print("# log: " + line)
        finally:
            if daemon is not None:
                daemon.close()
            receiver.close()
        failed += not ok
        print("%s %d - %s" % ("ok" if ok else "not ok", number, function.__name__), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
