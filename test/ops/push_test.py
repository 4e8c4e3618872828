#!/usr/bin/env python3
"""A subscription that is pushed: events become requests to a webhook, in the order of all events, whatever dies.

Usage: push_test.py POSTRIDER sqlite|postgres [WORD].  The output is TAP."""
import contextlib
import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

PROGRAM, KIND = os.path.abspath(sys.argv[1]), sys.argv[2]
FOLDER = os.environ.get("POSTRIDER_TEST_PG_FOLDER", "")
DEADLINE_SECONDS = 60

CONFIG = """
store: "%s"
lease: 2s
endpoints:
  hook: {url: "http://127.0.0.1:%d/", allow_networks: [127.0.0.0/8], ordering: strict, retry: [50ms, 50ms, 50ms, 50ms, 50ms]}
  sink: {url: "null:"}
sources: [{events: billing, to: hook, types: "order.*", poll: 50ms}]
"""


class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        with self.server.lock:
            fails = self.server.failures > 0
            self.server.headers = self.headers
            self.server.failures -= fails
            if not fails:
                self.server.seen.append((int(self.headers["postriderplace"]), self.headers["ce-subject"], int(self.headers["postriderversion"]),
                                         self.headers["ce-type"], self.headers["ce-id"], body))
        self.send_response(503 if fails else 204)
        self.end_headers()

    def log_message(self, *_):
        pass


TESTS = []


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


class Place:
    count = 0

    def __init__(self):
        Place.count += 1
        self.path = tempfile.mkdtemp(prefix="postrider-push-")
        store = "sqlite:t.db" if KIND == "sqlite" else "postgres:///postgres?host=%s&user=postgres&schema=push_%d_%d" % (FOLDER, os.getpid(), Place.count)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
        self.server.lock, self.server.seen, self.server.failures = threading.Lock(), [], 0
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        with open(os.path.join(self.path, "c.yaml"), "w", encoding="utf-8") as f:
            f.write(CONFIG % (store, self.server.server_address[1]))
        self.run("init", "-c", "c.yaml")
        self.daemons = []

    def run(self, *args, code=0):
        done = subprocess.run([PROGRAM, *args], cwd=self.path, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
        assert done.returncode == code, (args, done.returncode, done.stderr)
        return done.stdout + done.stderr

    def start(self):
        with open(os.path.join(self.path, "log"), "a", encoding="utf-8") as log:
            self.daemons.append(subprocess.Popen([PROGRAM, "run", "-c", "c.yaml"], cwd=self.path, stdout=log, stderr=log))
        return self.daemons[-1]

    def append(self, count, type="order.placed"):
        for n in range(count):
            self.run("send", "-c", "c.yaml", "--type", type, "--stream", "order-%d" % (n % 2), "--event", "--to", "sink", "--data", str(n))

    def subscription(self):
        lines = self.run("events", "subscriptions", "--json", "-c", "c.yaml").splitlines()
        return json.loads(lines[0]) if lines else None

    def log(self):
        with open(os.path.join(self.path, "log"), encoding="utf-8") as log:
            return log.read()

    def close(self):
        for daemon in self.daemons:
            if daemon.poll() is None:
                daemon.kill()
                daemon.wait()
        self.server.shutdown()
        self.server.server_close()
        shutil.rmtree(self.path, ignore_errors=True)


def in_order(seen, places):
    """Each of them, in their order; what comes again does so at once, with the same id."""
    firsts = list(dict.fromkeys(s[0] for s in seen))
    assert firsts == places, (firsts, places)
    assert len({s[4] for s in seen}) == len(places), seen


@test
def events_arrive_in_their_order_and_once(place):  # B95
    place.append(5)
    place.append(1, type="other.type")  # is not for this one, and holds up nobody
    place.append(2)
    daemon = place.start()
    seen = wait_for("seven events", lambda: len(place.server.seen) >= 7 and list(place.server.seen))
    assert [s[0] for s in seen] == [1, 2, 3, 4, 5, 7, 8], seen
    assert [(s[1], s[2], s[3], s[5]) for s in seen[:3]] == [("order-0", 1, "order.placed", "0"), ("order-1", 1, "order.placed", "1"),
                                                           ("order-0", 2, "order.placed", "2")], seen
    assert wait_for("its position", lambda: place.subscription()["lag"] == 0)
    assert place.subscription()["held_by"].split("/")[0], place.subscription()
    place.run("events", "subscriptions", "reset", "billing", "--after", "4", "-c", "c.yaml")
    again = wait_for("what was taken back", lambda: len(place.server.seen) >= 10 and list(place.server.seen))
    assert [s[0] for s in again[7:]] == [5, 7, 8] and again[7][4] == again[4][4], again
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(DEADLINE_SECONDS) == 0
    assert place.subscription()["held_by"] is None, place.subscription()  # it was handed over


@test
def a_sender_cannot_say_where_its_event_stands(place):  # B206
    place.run("send", "-c", "c.yaml", "--type", "order.placed", "--stream", "order-0", "--event", "--to", "sink", "--data", "0",
              "--header", "postriderplace=99", "--header", "tenant=7", "--header", "postriderversion=98")
    place.start()
    seen = wait_for("the event", lambda: list(place.server.seen))
    assert seen[0][:3] == (1, "order-0", 1) and place.server.headers.get_all("postriderplace") == ["1"], seen
    assert place.server.headers.get_all("postriderversion") == ["1"] and place.server.headers.get_all("tenant") == ["7"], seen


@test
def a_receiver_that_fails_gets_the_others_later_and_in_order(place):  # B60
    place.server.failures = 3
    place.append(6)
    place.start()
    seen = wait_for("six events", lambda: len(place.server.seen) >= 6 and list(place.server.seen))
    in_order(seen, [1, 2, 3, 4, 5, 6])


@test
def events_wait_while_their_box_is_full(place):
    with open(os.path.join(place.path, "c.yaml"), "a", encoding="utf-8") as config:
        config.write("batch: 1\nlimits: {waiting: 2}\n")
    place.append(6)
    place.run("pause", "hook", "-c", "c.yaml")
    place.start()
    lag = lambda: (place.subscription() or {}).get("lag")
    wait_for("two are in the box", lambda: lag() == 4)
    time.sleep(0.5)
    assert lag() == 4 and "event=source_held" in place.log(), place.subscription()
    place.run("resume", "hook", "-c", "c.yaml")
    seen = wait_for("all of them", lambda: len(place.server.seen) >= 6 and list(place.server.seen))
    in_order(seen, [1, 2, 3, 4, 5, 6])


@test
def a_daemon_that_is_killed_loses_nothing_and_another_goes_on(place):  # B1
    place.append(3)
    first = place.start()
    wait_for("some events", lambda: len(place.server.seen) >= 1)
    second = place.start() if KIND == "postgres" else None  # two at once: one of them has the subscription
    place.append(5)
    first.kill()
    first.wait()
    if second is None:
        place.start()
    place.append(4)
    seen = wait_for("twelve events", lambda: len({s[0] for s in place.server.seen}) >= 12 and list(place.server.seen))
    in_order(seen, list(range(1, 13)))


@test
def a_wrong_source_of_events_says_what_is_wrong(place):  # B203
    with open(os.path.join(place.path, "c.yaml"), encoding="utf-8") as f:
        right = f.read()
    for wrong, text in (("{events: billing, to: nowhere}", 'sources[0].to: unknown endpoint "nowhere"'), ("{events: billing}", "to is missing"),
                        ("{events: 'a b', to: hook}", "is not a name"), ("{events: billing, to: hook, slot: x}", "sources[0].slot: unknown key"),
                        ("{events: billing, to: hook}, {events: billing, to: sink}", "sources[1].events: billing is listed twice")):
        with open(os.path.join(place.path, "wrong.yaml"), "w", encoding="utf-8") as f:
            f.write(right.split("sources:")[0] + "sources: [%s]\n" % wrong)
        said = place.run("config", "check", "wrong.yaml", code=3)
        assert text in said, said


def main():
    tests = [t for t in TESTS if len(sys.argv) < 4 or sys.argv[3] in t.__name__]
    failed = 0
    print("1..%d" % len(tests), flush=True)
    for number, function in enumerate(tests, 1):
        with contextlib.closing(Place()) as place:
            try:
                function(place)
                print("ok %d - %s" % (number, function.__name__), flush=True)
            except Exception:
                failed += 1
                print("not ok %d - %s" % (number, function.__name__))
                print("".join("# " + line + "\n" for line in traceback.format_exc().splitlines()))
                log = os.path.join(place.path, "log")
                print("".join("# " + line for line in (open(log, encoding="utf-8").readlines()[-20:] if os.path.exists(log) else [])), flush=True)
    sys.exit(1 if failed else 0)


main()
