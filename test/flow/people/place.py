"""What the tests of flows as people see them share: a store and a program with flows beside it, and the TAP of the tests.

The arguments are POSTRIDER HOST sqlite|postgres [WORD]; WORD: only tests whose name contains it."""
import http.client
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.parse

PROGRAM, HOST, KIND = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]
FOLDER = os.environ.get("POSTRIDER_TEST_PG_FOLDER", "")
CLIENTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "clients")
DEADLINE_SECONDS = 60
OPERATOR, VIEWER = "operator-token-0123456789abcdef", "viewer-token-0123456789abcdef00"
EXIT_FAILED, EXIT_USAGE, EXIT_NOT_FOUND, EXIT_SOME_FAILED = 1, 2, 4, 6
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


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=DEADLINE_SECONDS)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(DEADLINE_SECONDS)
        self.sock.connect(self.path)


class Place:
    """A store, and the program with flows that works it. more: of the configuration."""

    def __init__(self, more=""):
        self.path = tempfile.mkdtemp(prefix="flow-people-")
        store = ("sqlite:t.db" if KIND == "sqlite" else
                 "postgres:///postgres?host=%s&user=postgres&schema=people_%d" % (FOLDER, os.getpid()))
        with open(os.path.join(self.path, "c.yaml"), "w", encoding="utf-8") as f:
            f.write('store: "%s"\nhttp: {listen: "unix:%s/s", token: %s, viewer_token: %s}\n%s' % (store, self.path, OPERATOR, VIEWER, more))
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("POSTRIDER_")}
        self.run("init")
        self.log = open(os.path.join(self.path, "log"), "w", encoding="utf-8")
        self.process = subprocess.Popen([HOST, "c.yaml"], cwd=self.path, stdout=subprocess.PIPE, stderr=self.log, env=self.env)
        assert self.process.stdout.readline() == b"ready\n", open(os.path.join(self.path, "log"), encoding="utf-8").read()

    def command(self, *args):
        return subprocess.run([PROGRAM, *args, "-c", "c.yaml"], cwd=self.path, capture_output=True, text=True, env=self.env,
                              timeout=DEADLINE_SECONDS)

    def run(self, *args, code=0):
        done = self.command(*args)
        assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def words(self, *args, code=0):
        """What it says on stderr."""
        done = self.command(*args)
        assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
        return done.stderr

    def json(self, *args, code=0):
        return [json.loads(line) for line in self.run(*args, "--json", code=code).splitlines()]

    def insert(self, box, **columns):
        """A row by plain SQL, as an application writes it."""
        text = "INSERT INTO %s (%s) VALUES (%s)" % (box, ", ".join(columns), ", ".join("'%s'" % v for v in columns.values()))
        if KIND == "sqlite":
            with sqlite3.connect(os.path.join(self.path, "t.db"), timeout=DEADLINE_SECONDS) as db:
                db.execute(text)
        else:
            subprocess.run(["psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-h", FOLDER, "-U", "postgres", "postgres"], check=True, text=True,
                           input="SET search_path TO people_%d; %s" % (os.getpid(), text))

    def show(self, id):
        return self.json("flow", "show", id)[0]

    def wait_shown(self, id, condition):
        def look():
            done = self.command("flow", "show", id, "--json")
            shown = json.loads(done.stdout) if done.returncode == 0 else None
            return shown if shown and condition(shown) else None
        return wait_for("flow %s as wanted" % id, look)

    def wait_waiting(self, id):
        return self.wait_shown(id, lambda s: s["waits_for"] and s["pending"] == 0)

    def raw(self, method, path, body=None, token=OPERATOR, headers=None):
        c = UnixConnection(os.path.join(self.path, "s"))
        try:
            h = {"Authorization": "Bearer " + token, **(headers or {})}
            if method != "GET":
                h = {"X-Postrider": "1", "Content-Type": "application/json", **h}
            c.request(method, path, body=json.dumps(body) if body is not None else None, headers=h)
            r = c.getresponse()
            return r.status, json.loads(r.read()), dict((k.lower(), v) for k, v in r.getheaders())
        finally:
            c.close()

    def ok(self, method, path, body=None, status=200, **kwargs):
        got, answer, _ = self.raw(method, path, body, **kwargs)
        assert got == status, (method, path, got, answer)
        return answer

    def fails(self, status, code, method, path, body=None, **kwargs):
        got, answer, _ = self.raw(method, path, body, **kwargs)
        assert (got, answer.get("error", {}).get("code")) == (status, code), (method, path, got, answer)
        return answer["error"]["message"]

    def stop(self):
        self.process.terminate()
        try:
            code = self.process.wait(DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self.log.close()
            self.process.stdout.close()
        assert code == 0, (code, open(os.path.join(self.path, "log"), encoding="utf-8").read())
        shutil.rmtree(self.path)


def main(place=Place):
    tests = [t for t in TESTS if len(sys.argv) < 5 or sys.argv[4] in t.__name__]
    failed = 0
    print("1..%d" % len(tests), flush=True)
    place = place()
    try:
        for number, function in enumerate(tests, 1):
            begin = time.monotonic()
            try:
                function(place)
                print("ok %d - %s # %.2f s" % (number, function.__name__, time.monotonic() - begin), flush=True)
            except Exception:
                failed += 1
                print("not ok %d - %s" % (number, function.__name__))
                print("".join("# " + line + "\n" for line in traceback.format_exc().splitlines()), flush=True)
    finally:
        place.stop()
    sys.exit(1 if failed else 0)
