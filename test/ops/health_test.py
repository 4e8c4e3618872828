#!/usr/bin/env python3
"""Health is not ok while something is stuck, and says what to do (B205): a real daemon, its status and its health pages.

Usage: health_test.py POSTRIDER sqlite [WORD], or cluster.sh health_test.py POSTRIDER postgres [WORD].  The output is TAP.
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

PROGRAM = os.path.abspath(sys.argv[1])
KIND = sys.argv[2]
FOLDER = os.environ.get("POSTRIDER_TEST_PG_FOLDER", "")
DEADLINE_SECONDS = 60
TESTS = []

CONFIG = """
store: "%s"
lease: 2s
stop_timeout: 2s
poll: {min: 1ms, max: 20ms}
endpoints:
  hook: {url: "http://127.0.0.1:%d/", allow_networks: [127.0.0.0/8], ordering: strict, breaker: off, retry: {base: 50ms, cap: 50ms}}
routes: [{to: hook}]
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
        time.sleep(0.05)
    raise AssertionError("not within %d s: %s" % (DEADLINE_SECONDS, what))


class Receiver:
    """Answers with the status that it was told to."""

    def __init__(self):
        self.status, self.got = 204, []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                receiver.got.append(self.headers["ce-type"])
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Place:
    count = 0

    def __init__(self, config):
        Place.count += 1
        self.path = tempfile.mkdtemp(prefix="postrider-health-")
        self.schema = "health_%d_%d" % (os.getpid(), Place.count)
        self.process = None
        store = "sqlite:t.db" if KIND == "sqlite" else "postgres:///postgres?host=%s&user=postgres&schema=%s" % (FOLDER, self.schema)
        with open(os.path.join(self.path, "c.yaml"), "w", encoding="utf-8") as f:
            f.write(config % store)
        self.run("init")

    def start(self):
        log = open(os.path.join(self.path, "log"), "a", encoding="utf-8")
        self.process = subprocess.Popen([PROGRAM, "run", "-c", "c.yaml"], cwd=self.path, stdout=subprocess.PIPE, stderr=log)
        self.port = int(self.process.stdout.readline().split()[1])
        wait_for("ready", lambda: self.ready()[0] == 200)

    def page(self, path):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_SECONDS)
        with contextlib.closing(c):
            c.request("GET", path)
            return json.loads(c.getresponse().read())

    def ready(self):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_SECONDS)
        with contextlib.closing(c), contextlib.suppress(OSError):
            c.request("GET", "/health/ready")
            r = c.getresponse()
            return r.status, r.read().decode()
        return 0, ""

    def post(self, path, body):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_SECONDS)
        with contextlib.closing(c):
            c.request("POST", path, json.dumps(body), {"Content-Type": "application/json", "X-Postrider": "1"})
            r = c.getresponse()
            answer = r.read()
            assert r.status == 200, answer
            return json.loads(answer)

    def command(self, *args):
        return subprocess.run([PROGRAM, *args, "-c", "c.yaml"], cwd=self.path, capture_output=True, timeout=DEADLINE_SECONDS)

    def run(self, *args, code=0):
        done = self.command(*args)
        assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
        return done.stdout.decode()

    def send(self, type_, stream=""):
        return self.run("send", "--type", type_, "--data", "{}", *(["--stream", stream] if stream else [])).strip()

    def status(self):
        return json.loads(self.run("status", "--json"))

    def health(self):
        return self.status()["health"]

    def advice(self, name):
        """Of a check that warns; health is then a warning, too."""
        status = self.status()
        found = [c["advice"] for c in status["checks"] if c["name"] == name and c["state"] == "warn"]
        assert not found or status["health"] == "warn", status
        return " ".join(found)

    @contextlib.contextmanager
    def locked(self):
        """Somebody else keeps writers out."""
        if KIND == "sqlite":
            db = sqlite3.connect(os.path.join(self.path, "t.db"), isolation_level=None, timeout=DEADLINE_SECONDS)
            with contextlib.closing(db):
                db.execute("BEGIN IMMEDIATE")
                yield
                db.execute("ROLLBACK")
            return
        holder = subprocess.Popen(["psql", "-XqAt", "-h", FOLDER, "-U", "postgres", "postgres"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        holder.stdin.write("BEGIN; LOCK TABLE %s.outbox IN EXCLUSIVE MODE;\\echo held\n" % self.schema)
        holder.stdin.flush()
        assert holder.stdout.readline() == "held\n"
        try:
            yield
        finally:
            holder.communicate("\\q\n", timeout=DEADLINE_SECONDS)

    def psql(self, sql):
        subprocess.run(["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-h", FOLDER, "-U", "postgres", "-d", "postgres", "-c", sql],
                       check=True, capture_output=True, timeout=DEADLINE_SECONDS)

    def stop(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(DEADLINE_SECONDS)
            self.process.stdout.close()
            self.process = None

    def close(self):
        self.stop()
        shutil.rmtree(self.path)


@contextlib.contextmanager
def stage():
    receiver = Receiver()
    place = Place(CONFIG % ("%s", receiver.port))
    try:
        place.start()
        assert place.health() == "ok", place.status()
        yield place, receiver
    except AssertionError:
        with contextlib.suppress(OSError):
            print(open(os.path.join(place.path, "log"), encoding="utf-8").read(), file=sys.stderr)
        raise
    finally:
        place.close()
        receiver.close()


@test
def an_endpoint_whose_latest_attempts_all_failed():  # B205
    with stage() as (place, receiver):
        receiver.status = 503
        place.send("a")
        advice = wait_for("told", lambda: place.advice("failing"))
        assert "hook" in advice and "postrider endpoints test hook" in advice, advice
        code, page = place.ready()
        assert code == 200 and "warn" in page and "hook" in page and "postrider endpoints" in page, (code, page)
        receiver.status = 204
        wait_for("over", lambda: place.health() == "ok")
        assert "warn" not in place.ready()[1]


@test
def an_endpoint_that_refuses_what_messages_say_is_not_blamed():  # B205
    with stage() as (place, receiver):
        receiver.status = 422
        for _ in range(3):
            place.send("a")
        advice = wait_for("told", lambda: place.advice("failing"))
        assert "postrider why ID" in advice and "postrider dead list --endpoint hook" in advice, advice
        assert "is up" not in advice and "endpoints test" not in advice, advice


@test
def a_stream_behind_a_parked_head():  # B205
    with stage() as (place, receiver):
        receiver.status = 503
        head = place.send("head", "orders 7")
        place.send("follower", "orders 7")
        wait_for("parked", lambda: place.command("park", head, "--yes").returncode == 0)  # refused while it is out
        receiver.status = 204
        advice = wait_for("told", lambda: place.advice("blocked"))
        assert '1 message waits in stream "orders 7" of endpoint hook' in advice and "is parked" in advice, advice
        assert all("postrider %s %s" % (word, head) in advice for word in ("why", "retry", "discard")), advice
        assert "follower" not in receiver.got
        place.run("retry", head, "--yes")
        wait_for("over", lambda: place.health() == "ok")
        assert receiver.got[-2:] == ["head", "follower"], receiver.got


@test
def a_stream_behind_a_dead_head():  # B205
    with stage() as (place, receiver):
        receiver.status = 422
        head = place.send("head", "orders 7")
        place.send("follower", "orders 7")
        advice = wait_for("told", lambda: place.advice("blocked"))
        assert '1 message waits in stream "orders 7" of endpoint hook' in advice and "the dead letter " + head in advice, advice
        assert all("postrider %s %s" % (word, head) in advice for word in ("why", "dead replay", "dead discard")), advice
        receiver.status = 204
        place.run("dead", "discard", head, "--yes")
        wait_for("over", lambda: place.health() == "ok")
        assert receiver.got[-1] == "follower", receiver.got


@test
def a_subscription_that_nobody_moves():  # B205
    with contextlib.closing(Place(CONFIG.replace("%d", "1") + "watch: {stuck: 1s}\n")) as p:
        p.start()
        claim = p.post("/v1/subscriptions/view/claim", {"worker": "w1", "lease": "1s"})
        assert claim["held_by"] is None and "nobody" not in p.advice("subscription"), claim
        p.run("send", "--type", "counted", "--stream", "s", "--data", "{}", "--event")
        advice = wait_for("a warning", lambda: p.advice("subscription"))
        assert "1 event waits" in advice and "postrider events subscriptions remove view" in advice, advice
        shown = p.run("status").splitlines()
        assert ["view", "0", "1", "nobody"] in [line.split() for line in shown], shown
        assert [(s["name"], s["lag"]) for s in p.status()["subscriptions"]] == [("view", 1)]
        claim = p.post("/v1/subscriptions/view/claim", {"worker": "w2", "lease": "600s"})
        assert p.advice("subscription") == ""  # it is held: a single look cannot tell that it stands still
        p.post("/v1/subscriptions/view/acknowledge", {"fence": claim["fence"], "position": claim["events"][0]["place"]})
        assert p.advice("subscription") == "" and p.status()["subscriptions"][0]["lag"] == 0


@test
def a_store_that_cannot_be_written():  # B205
    with stage() as (place, receiver):
        with place.locked():
            advice = wait_for("told", lambda: place.advice("locked"))
            assert "nothing can be stored or delivered" in advice, advice
            assert ("fuser" if KIND == "sqlite" else "pg_terminate_backend(") in advice, advice
        wait_for("over", lambda: place.health() == "ok")


@test
def sources_whose_brokers_do_not_answer():  # B205
    """Each of them: the pages of the daemon know at once, and `postrider status` by what the daemon writes into the store."""
    place = Place('store: "%s"\nlease: 2s\nendpoints: {e: {url: "null:"}}\nroutes: [{box: inbox, to: e}]\nhttp: {listen: "127.0.0.1:0"}\n'
                  'sources:\n  - {redis: "redis://127.0.0.1:1/0?stream=s&group=g"}\n  - {mqtt: "mqtt://127.0.0.1:1/t?client=c"}\n')
    try:
        place.start()

        def told():
            page = place.page("/health")
            return page["status"] == "warn" and [c["advice"] for c in page["checks"] if c["name"] == "source"]

        advice = wait_for("both are told", lambda: len(told() or []) == 2 and told())
        for name, words in zip(("redis:s", "mqtt:t"), advice):
            assert name in words and "check that the broker runs" in words and "credentials" in words, advice
        wait_for("the store knows", lambda: place.advice("source") == " ".join(advice))
        assert told() == advice  # each once
        config = os.path.join(place.path, "c.yaml")
        with open(config, encoding="utf-8") as f:
            text = f.read()
        with open(config, "w", encoding="utf-8") as f:
            f.write(text[:text.index("  - {mqtt")])
        place.process.send_signal(signal.SIGHUP)
        wait_for("one has gone", lambda: place.advice("source") == advice[0])
        place.stop()
        assert place.advice("source") == ""  # nobody reads, which is said elsewhere
    finally:
        place.close()


@test
def an_adopted_table_that_does_not_move():  # B205
    if KIND == "sqlite":
        return  # there are none
    config = ('store: "%s"\nlease: 2s\nendpoints: {e: {url: "null:"}}\nroutes: [{to: e}]\nhttp: {listen: "127.0.0.1:0"}\n'
              'sources: [{table: TABLE, preset: debezium}]\n')
    place = Place(config.replace("TABLE", "health_adopted.outboxevent"))
    try:
        place.psql("CREATE SCHEMA health_adopted; CREATE TABLE health_adopted.outboxevent (id uuid PRIMARY KEY, aggregatetype text NOT NULL,"
                   " aggregateid text NOT NULL, type text NOT NULL, payload jsonb)")
        place.psql("INSERT INTO health_adopted.outboxevent VALUES (gen_random_uuid(), 'order', '7', 'created', '{}')")
        status = place.status()  # nobody runs
        text = " ".join(c["advice"] for c in status["checks"] if c["state"] == "warn")
        assert status["health"] == "warn" and "health_adopted.outboxevent" in text and "postrider run" in text, status
        place.start()
        wait_for("over", lambda: place.health() == "ok")
    finally:
        place.close()
        place.psql("DROP SCHEMA health_adopted CASCADE")


def main():
    word = sys.argv[3] if len(sys.argv) > 3 else ""
    tests = [t for t in TESTS if word in t.__name__]
    print("1..%d" % len(tests))
    failed = 0
    for number, function in enumerate(tests, 1):
        try:
            function()
            print("ok %d - %s" % (number, function.__name__), flush=True)
        except Exception:
            failed += 1
            for line in traceback.format_exc().splitlines():
                print("# " + line)
            print("not ok %d - %s" % (number, function.__name__), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
