#!/usr/bin/env python3
"""The live view on a real pseudo terminal: on a SQLite store, and over the API of a running daemon.

Usage: top_test.py POSTRIDER [WORD]    only the tests whose name contains WORD.  The output is TAP.
"""
import contextlib
import ctypes
import fcntl
import json
import os
import pty
import random
import re
import resource
import select
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import traceback
import unicodedata

PROGRAM = os.path.abspath(sys.argv[1])
DEADLINE_SECONDS = 60
TOKEN = "operator-token-0123456789abcdef"
MANY = 300  # blocked streams: more than a page
CONFIG = """
store: sqlite:t.db
lease: 2s
endpoints:
  good: {url: "null:"}
  billing: {url: "http://127.0.0.1:%d/", allow_networks: [127.0.0.0/8], retry: [1h, 1h], breaker: off}
routes: [{type: routed, to: billing}]
http: {listen: "127.0.0.1:%d", token: "${file:token}"}
"""
TESTS = []
CLOSED = []


def test(function):
    TESTS.append(function)
    return function


def closed_port():
    """Nobody listens there, and nobody else can get it while we live."""
    s = socket.socket()
    CLOSED.append(s)
    s.bind(("127.0.0.1", 0))
    return s.getsockname()[1]


def free_port():
    """To listen at again and again: below those that the system gives to whoever asks for any."""
    while True:
        port = random.randrange(10000, 30000)
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(("127.0.0.1", port))
            return port


def until(what, condition):
    end = time.monotonic() + DEADLINE_SECONDS
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, "not in time: " + what
        time.sleep(0.02)


class Place:
    """A folder with a store, a configuration, and a daemon when it is wanted."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="postrider-top-")
        self.port = free_port()
        self.url = "http://127.0.0.1:%d" % self.port
        self.daemon = None
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("POSTRIDER_") and k not in ("NO_COLOR", "COLUMNS")}
        self.env.update(TERM="xterm", TZ="UTC")
        self.write("token", TOKEN + "\n")
        self.write("postrider.yaml", CONFIG % (closed_port(), self.port))
        self.run("init")

    def write(self, name, text):
        with open(os.path.join(self.path, name), "w", encoding="utf-8") as file:
            file.write(text)

    def run(self, *args, code=0, cwd=None):
        done = subprocess.run([PROGRAM, *args], cwd=cwd or self.path, capture_output=True, text=True, env=self.env,
                              stdin=subprocess.DEVNULL, timeout=DEADLINE_SECONDS)
        assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr if code else done.stdout

    def json(self, *args):
        return [json.loads(line) for line in self.run(*args, "--json").splitlines()]

    def sql(self, *texts):
        with sqlite3.connect(os.path.join(self.path, "t.db"), timeout=DEADLINE_SECONDS) as db:
            for text in texts:
                db.execute(text)

    def start(self):
        log = open(os.path.join(self.path, "log"), "a", encoding="utf-8")
        self.daemon = subprocess.Popen([PROGRAM, "run"], cwd=self.path, stdout=log, stderr=log, env=self.env)
        until("somebody delivers", lambda: any(i["lanes"] > 0 for i in self.json("instances")))

    def stop(self):
        if self.daemon is not None:
            self.daemon.send_signal(signal.SIGCONT)
            self.daemon.send_signal(signal.SIGTERM)
            try:
                self.daemon.wait(DEADLINE_SECONDS)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()
            self.daemon = None

    def trouble(self):
        """Two blocked streams, and three dead letters that died of the same."""
        for stream, count in (("order-7", 3), ("order-9", 2)):
            for _ in range(count):
                self.run("send", "--type", "order.created", "--stream", stream, "--to", "billing", "--data", "{}")
        ids = [self.run("send", "--type", "invoice", "--to", "good", "--data", "5", "--due", "1h").strip() for _ in range(3)]
        self.run("dead", "add", *ids, "--why", "no such customer")
        self.start()
        until("both are blocked", lambda: len(self.json("streams", "--blocked")) == 2)

    def state(self, endpoint):
        return next(e["state"] for e in self.json("endpoints") if e["name"] == endpoint)

    def audit(self):
        return [(a["action"], a["who"], a["changed"]) for a in self.json("audit")]

    def close(self):
        self.stop()
        shutil.rmtree(self.path, ignore_errors=True)


class Terminal:
    """As much of one as the program needs, so that what is seen can be read."""

    def __init__(self, place, *args, rows=24, columns=80, cwd=None, color=True):
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.alternate, self.cursor_shown, self.colors = False, True, 0
        self.rest = b""
        env = dict(place.env) if color else dict(place.env, NO_COLOR="1")
        self.process = subprocess.Popen([PROGRAM, "top", "--every", "100ms", *args], cwd=cwd or place.path, env=env,
                                        stdin=self.slave, stdout=self.slave, stderr=self.slave, start_new_session=True,
                                        preexec_fn=self.take_terminal)

    def take_terminal(self):
        fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.cells = [[" "] * columns for _ in range(rows)]
        self.at = [0, 0]
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def sequence(self, parameters, final):
        numbers = [int(n) for n in re.findall(r"\d+", parameters)]
        if final == "H":
            self.at = [numbers[0] - 1, numbers[1] - 1] if numbers else [0, 0]
        elif final == "J":
            self.cells = [[" "] * self.columns for _ in range(self.rows)]
        elif final == "K":
            self.cells[self.at[0]][self.at[1]:] = [" "] * (self.columns - self.at[1])
        elif final == "m":
            self.colors += any(30 <= n < 38 for n in numbers)
        elif parameters == "?1049":
            self.alternate = final == "h"
        elif parameters == "?25":
            self.cursor_shown = final == "h"

    def put(self, character):
        row, column = self.at
        if row < self.rows and column < self.columns:
            self.cells[row][column] = character
        self.at[1] += 2 if unicodedata.east_asian_width(character) in "WF" else 1

    def feed(self, data):
        text = (self.rest + data).decode("utf-8", "ignore")
        self.rest = b""
        while text:
            found = re.match(r"\x1b\[([?0-9;]*)([A-Za-z])", text)
            if found:
                self.sequence(*found.groups())
                text = text[found.end():]
            elif text[0] == "\x1b" and len(text) < 12:
                self.rest = text.encode()
                return
            else:
                assert text[0] >= " " or text[0] in "\r\n", repr(text[:40])
                if text[0] >= " ":
                    self.put(text[0])
                text = text[1:]

    def read(self, seconds=0.05):
        """What has come; False: nothing did."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        while data and (data[-1] & 0x80) and select.select([self.master], [], [], 0.2)[0]:
            data += os.read(self.master, 65536)  # a character in two pieces
        self.feed(data)
        return True

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.cells)

    def sees(self, pattern):
        end = time.monotonic() + DEADLINE_SECONDS
        while not re.search(pattern, self.text()):
            assert time.monotonic() < end, "%r is not on the screen:\n%s" % (pattern, self.text())
            if not self.read() and self.process.poll() is not None and not self.read():
                raise AssertionError("it ended with %s:\n%s" % (self.process.returncode, self.text()))

    def sees_no(self, pattern):
        until("no " + pattern, lambda: (self.read(), not re.search(pattern, self.text()))[1])

    def keys(self, text):
        os.write(self.master, text.encode())

    def ends(self, code):
        end = time.monotonic() + DEADLINE_SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < end, self.text()
            self.read()
        while self.read(0):
            pass
        assert self.process.returncode == code, (self.process.returncode, self.text())
        assert not self.alternate and self.cursor_shown, "the terminal is not as it was"
        assert termios.tcgetattr(self.slave) == self.before, "the terminal's settings are not as they were"

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


def repair_with_keys(place, t, who):
    """Everything that keys can do, seen on the screen and in the store."""  # B202
    t.sees(r"BLOCKED STREAMS 2")
    t.sees(r">billing +active")
    t.sees(r"2 streams are blocked, 3 messages wait")
    assert t.alternate and not t.cursor_shown
    assert termios.tcgetattr(t.slave) != t.before

    t.keys("p")
    t.sees(r"Pause billing until resumed\?  y / n")
    t.keys("n")
    t.sees("nothing was changed")
    assert place.state("billing") == "ok"
    t.keys("py")
    t.sees("billing is paused until resumed")
    t.sees(r">billing +paused until resumed")
    assert place.state("billing") == "paused"
    t.keys("ry")
    t.sees("billing is resumed")
    t.sees(r">billing +active")
    assert place.state("billing") == "ok"
    assert place.audit()[:2] == [("resume", who, 1), ("pause", who, 1)], place.audit()

    t.keys("\r")
    t.sees("Endpoint billing")
    t.sees(r"The latest failure was .* ago: transport_unavailable")
    t.keys("\x1b")
    t.sees("BLOCKED STREAMS")
    t.keys("\t\t\x1b[B")  # the second stream
    t.sees(">order-9")
    t.keys("\r")
    t.sees(r"order\.created, stream order-9")
    t.sees("What happened")
    t.sees(r"attempt 1 to billing failed: transport_unavailable")
    t.keys("ty")
    t.sees("1 retried")
    t.keys("q")
    t.sees("BLOCKED STREAMS")
    assert place.audit()[0] == ("retry", who, 1), place.audit()

    t.keys("\x1b[Z")
    t.sees(r">good +invoice +3")
    t.keys("\r")
    t.sees(r"Group [0-9a-f]{16}: 3 dead letters")
    t.keys("qt")
    t.sees(r"Replay 3 dead letters of this group")
    t.keys("y")
    t.sees("3 replayed")
    t.sees("FAILING GROUPS 0")
    assert place.audit()[0] == ("dead_replay", who, 3), place.audit()
    assert place.json("dead", "list") == []


@test
def keys_on_a_store(place):
    place.trouble()
    t = Terminal(place, "--by", "ann")
    try:
        repair_with_keys(place, t, "ann")
        assert t.colors > 0
        t.keys("/order-7\r")
        t.sees("BLOCKED STREAMS 1")
        t.keys("\x1b")
        t.sees("BLOCKED STREAMS 2")
        t.keys("?")
        t.sees("previous row, next row")
        t.keys("\x1b")
        t.resize(12, 50)
        t.sees(r"(?m)^ postrider top  sqlite:t.db +\d\d:\d\d:\d\d$")
        assert len(t.text().split("\n")[0]) == 49, t.text()
        t.keys("q")
        t.ends(0)
    finally:
        t.close()


@test
def what_is_opened_is_explained_with_the_routes(place):
    """The head of a stream that a route sends to a paused endpoint."""  # B200, B202
    for _ in range(2):
        place.run("send", "--type", "routed", "--stream", "order-7", "--data", "{}")
    place.start()
    until("it is blocked", lambda: len(place.json("streams", "--blocked")) == 1)
    place.run("pause", "billing")
    t = Terminal(place)
    try:
        t.sees(r"BLOCKED STREAMS 1")
        t.keys("\t\t")
        t.sees(">order-7")
        t.keys("\r")
        t.sees("It waits because its endpoint billing is paused")
        t.keys("qq")
        t.ends(0)
    finally:
        t.close()


@test
def keys_over_the_api_of_a_daemon_that_comes_and_goes(place):
    place.trouble()
    t = Terminal(place, "--url", place.url, "--by", "ann")
    try:
        t.sees(re.escape(place.url))
        repair_with_keys(place, t, "ann (http)")
        place.stop()
        t.sees(r"no answer, retrying: http://127")
        assert "order-7" in t.text()  # what was known is still there
        place.start()
        t.sees_no("trying again")
        t.sees("BLOCKED STREAMS 2")
        place.daemon.send_signal(signal.SIGSTOP)  # it hangs: keys do not
        t.keys("?")
        t.sees("previous row, next row")
        t.keys("\x1b")
        t.sees("BLOCKED STREAMS 2")
        place.daemon.send_signal(signal.SIGCONT)
        t.process.send_signal(signal.SIGTERM)
        t.ends(0)
    finally:
        t.close()


@test
def quitting_does_not_wait_for_a_daemon_that_hangs(place):
    place.start()
    t = Terminal(place, "--url", place.url)
    try:
        t.sees("ENDPOINTS 2")
        place.daemon.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        t.keys("q")
        t.ends(0)
        assert time.monotonic() - began < 10, "as long as an answer may take"
    finally:
        t.close()


@test
def an_order_that_waits_stays_as_it_was_confirmed(place):
    place.start()
    t = Terminal(place, "--url", place.url)
    try:
        t.sees(">billing")
        place.daemon.send_signal(signal.SIGSTOP)
        t.sees(r"no answer for \d+ s, still waiting")
        t.keys("pyjp")
        t.sees(r"Pause good until resumed\?")
        place.daemon.send_signal(signal.SIGCONT)
        t.sees(r" billing +paused")
        t.keys("n")
        t.sees(">good +active")
        assert (place.state("billing"), place.state("good")) == ("paused", "ok")
    finally:
        t.close()


@test
def a_crash_gives_the_terminal_back(place):
    t = Terminal(place, color=False)
    try:
        t.sees("All is well: 2 endpoints are active, nothing waits")
        assert t.colors == 0, "NO_COLOR"
        t.process.send_signal(signal.SIGABRT)
        t.ends(-signal.SIGABRT)
    finally:
        t.close()
    t = Terminal(place)
    try:
        t.sees("All is well")
        pid = t.process.pid
        thread = next(int(i) for i in os.listdir("/proc/%d/task" % pid) if int(i) != pid)  # the one that asks
        assert ctypes.CDLL(None).tgkill(pid, thread, signal.SIGSEGV) == 0
        t.ends(-signal.SIGSEGV)
    finally:
        t.close()


@test
def without_a_terminal_it_prints_one_picture(place):
    place.sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
              "INSERT INTO outbox (type, stream, destination, payload) SELECT 't', 's' || i, 'billing', 'x' FROM n" % MANY,
              "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
              "INSERT INTO outbox (type, stream, destination, payload) SELECT 't', 's' || i, 'billing', 'x' FROM n" % MANY)
    place.start()
    until("all are blocked", lambda: len(place.json("streams", "--blocked", "--limit", "1000")) == MANY)
    shown = place.run("top", "--every", "100ms")
    assert "\x1b" not in shown and "q quit" not in shown, shown
    assert "200+ streams are blocked" in shown and "BLOCKED STREAMS 200+" in shown, shown
    assert max(len(line) for line in shown.splitlines()) <= 100, shown
    for where in ([], ["--url", place.url]):  # B201
        view = json.loads(place.run("top", "--every", "100ms", "--json", *where))
        assert len(view["streams"]) == 200 and view["sent_per_second"] == 0 and view["backlog"] == 2 * MANY, view
        assert [e["name"] for e in view["endpoints"]] == ["billing", "good"], view["endpoints"]


@test
def an_answer_without_end_is_refused(place):  # B206: whoever is at that address takes no memory
    with socket.create_server(("127.0.0.1", 0)) as server:
        def answer():
            connection = server.accept()[0]
            connection.recv(65536)
            try:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"a\":\"")
                while True:
                    connection.sendall(b"x" * 1000000)
            except OSError:
                connection.close()
        thread = threading.Thread(target=answer)
        thread.start()
        said = place.run("top", "--url", "http://127.0.0.1:%d" % server.getsockname()[1], "--token-file", "token", code=5)
        thread.join()
    assert "the answer is too large; check that the URL is Postrider's API" in said, said


@test
def mistakes_are_told_before_the_terminal_changes(place):
    elsewhere = tempfile.mkdtemp(prefix="postrider-top-")
    try:
        said = place.run("top", "--url", place.url, code=5)
        assert "nobody listens there; start postrider run" in said and "retrying" not in said and "ms:" not in said, said
        assert "cannot be combined" in place.run("top", "--url", place.url, "--store", "sqlite:t.db", code=2)
        assert "is not a duration" in place.run("top", "--every", "1ms", code=2)
        assert "is not a valid address" in place.run("top", "--url", "ftp://x", code=2)
        assert "is not a valid address" in place.run("top", "--url", "http://127.0.0.1:99999", code=2, cwd=elsewhere)
        with socket.create_server(("127.0.0.1", 0)) as other:  # it ends each connection without a word
            threading.Thread(target=lambda: other.accept()[0].close(), daemon=True).start()
            said = place.run("top", "--url", "http://127.0.0.1:%d" % other.getsockname()[1], code=5)
        assert "check that the URL is Postrider's API" in said, said
        for other in ("192.0.2.1:1", "127.0.0.1.example:1", "[2001:db8::1]:1"):  # a token is configured
            assert "use https" in place.run("top", "--url", "http://" + other, code=2)
        assert "needs --url" in place.run("top", "--token-file", "token", code=2)
        place.start()
        assert "needs a token" in place.run("top", "--url", place.url, code=2, cwd=elsewhere)
        token = os.path.join(place.path, "token")
        assert "ENDPOINTS 2" in place.run("top", "--url", place.url + "/", "--token-file", token, "--every", "100ms", cwd=elsewhere)
        for text in (place.run("top", "--every", "100ms", "--url", place.url), place.run("top", "--help")):
            assert TOKEN not in text  # B204
    finally:
        shutil.rmtree(elsewhere)


def main():
    chosen = [f for f in TESTS if len(sys.argv) < 3 or sys.argv[2] in f.__name__]
    failed = 0
    print("1..%d" % len(chosen))
    for i, function in enumerate(chosen, 1):
        place = Place()
        try:
            function(place)
            print("ok %d - %s" % (i, function.__name__))
        except Exception:  # the others are run all the same
            failed += 1
            print("not ok %d - %s" % (i, function.__name__))
            for line in traceback.format_exc().splitlines():
                print("# " + line)
        finally:
            place.close()
        sys.stdout.flush()
    sys.exit(1 if failed else 0)


main()
