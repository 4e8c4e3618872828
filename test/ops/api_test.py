#!/usr/bin/env python3
"""The API of a real daemon, over real HTTP, on either store.

Usage: api_test.py POSTRIDER sqlite [WORD], or cluster.sh api_test.py POSTRIDER postgres [WORD]: only the tests whose
name contains WORD.  The output is TAP.
"""
import base64
import contextlib
import http.client
import json
import os
import re
import shutil
import socket
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
UNKNOWN_ID = "0190163d-8694-739b-aea5-966c26f8ad91"
OPERATOR, VIEWER = "operator-token-0123456789abcdef", "viewer-token-0123456789abcdef00"

CONFIG = """
store: "%s"
limits: {payload: 64KiB}
boxes: {outbox: {keep: 1h}, ledger: {}}
endpoints:
  good: {url: "null:"}
  bad: {url: "http://user:hidden-password@127.0.0.1:%d/", allow_networks: [127.0.0.0/8], retry: [1h, 1h], breaker: off, concurrency: 4}
  dead: {url: "http://127.0.0.1:%d/", allow_networks: [127.0.0.0/8], breaker: off,
         rules: [{name: at once, when: {class: [transient, permanent, unknown]}, then: dead_letter}]}
  shaky: {url: "exec:/bin/sh -c 'test -e up'", breaker: {after: 1, open: 50ms, cap: 50ms}}
routes: [{type: "a.*", to: good}]
http: {listen: %s%s}
"""
TESTS = []
CLOSED = []


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


def closed_port():
    """Nobody listens there, and nobody else can get it while we live."""
    s = socket.socket()
    CLOSED.append(s)
    s.bind(("127.0.0.1", 0))
    return s.getsockname()[1]


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("anything", timeout=DEADLINE_SECONDS)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(DEADLINE_SECONDS)
        self.sock.connect(self.path)


class Daemon:
    count = 0

    def __init__(self, listen="'127.0.0.1:0'", more=""):
        Daemon.count += 1
        self.schema = "api_%d_%d" % (os.getpid(), Daemon.count)
        self.path = tempfile.mkdtemp(prefix="postrider-api-")
        store = "sqlite:t.db" if KIND == "sqlite" else "postgres:///postgres?host=%s&user=postgres&schema=%s" % (FOLDER, self.schema)
        self.listen = listen.replace("HERE", self.path)
        port = closed_port()
        with open(os.path.join(self.path, "c.yaml"), "w", encoding="utf-8") as f:
            f.write(CONFIG % (store, port, port, self.listen, more))
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("POSTRIDER_")}
        self.run("init", "-c", "c.yaml")
        self.log = open(os.path.join(self.path, "log"), "w", encoding="utf-8")
        self.process = subprocess.Popen([PROGRAM, "run", "-c", "c.yaml"], cwd=self.path, stdout=subprocess.PIPE, stderr=self.log,
                                        env=self.env)
        self.port = 0
        if "unix" not in self.listen:
            self.port = int(self.process.stdout.readline().split()[1])
        wait_for("ready", self.is_ready)

    def is_ready(self):
        assert self.process.poll() is None, open(os.path.join(self.path, "log"), encoding="utf-8").read()
        try:
            return self.ask("GET", "/health/ready")[0] == 200
        except OSError:
            return False

    def run(self, *args, code=0):
        done = subprocess.run([PROGRAM, *args], cwd=self.path, capture_output=True, env=self.env, timeout=DEADLINE_SECONDS)
        assert done.returncode == code, (args, done.returncode, done.stderr)
        return done.stdout.decode()

    def sql(self, text):
        """{HEX(x)}, {MICROSECONDS(x)}, {NEVER} and {ID x} stand for what the store calls them; postrider_ is a schema in PostgreSQL."""
        for pattern, sqlite, postgres in ((r"\{HEX\((\w+)\)\}", r"hex(\1)", r"upper(encode(\1, 'hex'))"),
                                          (r"\{MICROSECONDS\((\w+)\)\}", r"\1", r"(extract(epoch FROM \1) * 1000000)::bigint"),
                                          (r"\{NEVER\}", "9e18", "'infinity'"),
                                          (r"\{ID ([-0-9a-f]+)\}", lambda m: "x'%s'" % m[1].replace("-", ""), r"'\1'")):
            text = re.sub(pattern, sqlite if KIND == "sqlite" else postgres, text)
        if KIND == "sqlite":
            with contextlib.closing(sqlite3.connect(os.path.join(self.path, "t.db"), timeout=30)) as db:
                rows = db.execute(text).fetchall()
                db.commit()
                return rows
        done = subprocess.run(["psql", "-X", "-q", "-A", "-t", "-F", "|", "-v", "ON_ERROR_STOP=1", "-h", FOLDER, "-U", "postgres", "-c",
                               "SET search_path = %s" % self.schema, "-c", text.replace("postrider_", ""), "postgres"], capture_output=True, text=True,
                              timeout=DEADLINE_SECONDS)
        assert done.returncode == 0, (text, done.stderr)
        return [tuple(int(x) if x.isdigit() else x for x in line.split("|")) for line in done.stdout.splitlines()]

    def connection(self):
        if "unix" in self.listen:
            return UnixConnection(self.listen.strip("'").removeprefix("unix:"))
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_SECONDS)

    def raw(self, method, path, body=None, headers=None):
        c = self.connection()
        try:
            c.request(method, path, body=body, headers=headers or {})
            r = c.getresponse()
            return r.status, r.read(), dict((k.lower(), v) for k, v in r.getheaders())
        finally:
            c.close()

    def ask(self, method, path, body=None, token=None, **headers):
        """(status, JSON): a change gets what changes need."""
        if token:
            headers["Authorization"] = "Bearer " + token
        if method != "GET":
            headers = {"X-Postrider": "1", "Content-Type": "application/json", **headers}
            body = json.dumps(body) if body is not None else None
        status, text, _ = self.raw(method, path, body, headers)
        return status, json.loads(text)

    def ok(self, method, path, body=None, status=200, **kwargs):
        got, answer = self.ask(method, path, body, **kwargs)
        assert got == status, (method, path, got, answer)
        return answer

    def fails(self, status, code, method, path, body=None, **kwargs):
        got, answer = self.ask(method, path, body, **kwargs)
        assert (got, answer["error"]["code"]) == (status, code), (method, path, got, answer)
        assert set(answer["error"]) == {"code", "message", "hint"} and answer["error"]["message"]
        return answer["error"]

    def send(self, **message):
        return self.ok("POST", "/v1/messages", message, status=202)["messages"][0]["id"]

    def state(self, id):
        status, answer = self.ask("GET", "/v1/messages/" + id)
        return answer["deliveries"][0]["message"]["state"] if status == 200 else None

    def wait_state(self, id, state):
        wait_for("%s is %s" % (id, state), lambda: self.state(id) == state)

    def metrics(self):
        status, text, headers = self.raw("GET", "/metrics")
        assert status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4")
        return text.decode()

    def gauge(self, name, **labels):
        for line in self.metrics().splitlines():
            match = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if match and match[1] == name and dict(re.findall(r'(\w+)="([^"]*)"', match[2] or "")) == labels:
                return float(match[3])
        return None

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


def event_lines(connection, path, headers=None):
    connection.request("GET", path, headers=headers or {})
    response = connection.getresponse()
    assert response.status == 200 and response.getheader("Content-Type") == "text/event-stream", response.status
    assert response.readline() == b": listening\n"
    return response


def next_event(response, *ids):
    """(event, data) of the next one that is not only a comment, about these messages: other tests leave some behind."""
    event, end = {}, time.monotonic() + DEADLINE_SECONDS
    while True:
        assert time.monotonic() < end, "no such event within %d s" % DEADLINE_SECONDS  # comments come all the time
        line = response.readline().decode().rstrip("\n")
        if line.startswith(":"):
            continue
        if not line and "data" in event:
            data = json.loads(event["data"])
            if data.get("id") in ids:
                return event["event"], data
            event = {}
        if line:
            key, value = line.split(": ", 1)
            event[key] = value


# ---- Sending ----

@test
def plain_json_is_stored_and_delivered(d):  # B2
    id = d.send(type="a.one", payload={"x": [1, None]}, stream="s", headers={"k": "v"}, correlation_id="c")
    d.wait_state(id, "done")
    m = d.ok("GET", "/v1/messages/" + id)["deliveries"][0]
    assert m["message"]["payload"] == '{"x":[1,null]}' and m["message"]["headers"] == {"k": "v"} and m["next"]["at"] is None
    again = d.ok("POST", "/v1/messages", {"type": "a.one", "id": id}, status=202)["messages"][0]
    assert again["id"] == id
    raw = d.send(type="b.raw", destination="bad", payload_base64=base64.b64encode(b"\xff\x00").decode(), content_type="x/y")
    assert d.sql("SELECT {HEX(%s)} FROM outbox WHERE id = {ID %s}" % ("payload" if KIND == "sqlite" else "payload_bytes", raw)) == [("FF00",)]
    later = d.send(type="a.late", due_at="1h", payload_text="plain", content_type="text/plain")
    wait_for("delayed", lambda: d.state(later) == "delayed")
    known = d.ok("GET", "/v1/messages/" + later)["deliveries"][0]
    assert known["next"]["at"] and "its sender scheduled it for" in known["now"], known  # B200
    assert {"command": "postrider retry " + later, "what": "try it now, with counters reset"} in known["commands"], known["commands"]
    assert [{k: v for k, v in json.loads(line).items() if k in ("commands", "waits_for")} for line in d.run("why", later, "--json", "-c", "c.yaml").splitlines()] == [
        {k: known[k] for k in ("waits_for", "commands")}]
    twice = d.ok("POST", "/v1/messages", {"type": "a.again", "id": later}, status=202)["messages"]  # B2
    assert twice == [{"id": later, "duplicate": True}] and d.ok("GET", "/v1/messages/" + later)["deliveries"][0]["message"]["type"] == "a.late"
    assert d.send(type="x", payload=1) and d.ok("POST", "/v1/messages?box=ledger", {"type": "x", "destination": "good"}, status=202)


@test
def cloudevents_come_binary_structured_and_in_batches(d):
    binary = {"ce-specversion": "1.0", "ce-id": "order 7", "ce-type": "a.ce", "ce-source": "/shop", "ce-subject": "%C3%A4",
              "ce-partitionkey": "s7", "ce-color": "red", "Content-Type": "text/plain", "traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01"}
    status, text, _ = d.raw("POST", "/v1/messages", b"hello", binary)
    assert status == 202, text
    id = json.loads(text)["messages"][0]["id"]
    d.wait_state(id, "done")
    m = d.ok("GET", "/v1/messages/" + id)["deliveries"][0]["message"]
    assert (m["payload"], m["content_type"], m["subject"], m["stream"], m["source"]) == ("hello", "text/plain", "ä", "s7", "/shop"), m
    assert m["headers"] == {"color": "red", "ce-id": "order 7"}
    status, text, _ = d.raw("POST", "/v1/messages", b"hello", binary)  # the same event is the same message
    assert json.loads(text)["messages"][0]["id"] == id

    event = {"specversion": "1.0", "id": UNKNOWN_ID, "type": "a.ce", "source": "/shop", "data": {"n": 1}, "level": 3}
    status, text, _ = d.raw("POST", "/v1/messages", json.dumps(event), {"Content-Type": "application/cloudevents+json; charset=utf-8"})
    assert status == 202 and json.loads(text)["messages"][0]["id"] == UNKNOWN_ID, text
    d.wait_state(UNKNOWN_ID, "done")
    m = d.ok("GET", "/v1/messages/" + UNKNOWN_ID)["deliveries"][0]["message"]
    assert m["payload"] == '{"n":1}' and m["headers"] == {"level": "3"}
    batch = [dict(event, id="b%d" % i, data_base64=base64.b64encode(b"\xfe").decode()) for i in range(3)]
    for one in batch:
        del one["data"]
    kind = {"Content-Type": "application/cloudevents-batch+json"}
    status, text, _ = d.raw("POST", "/v1/messages", json.dumps(batch), kind)
    assert status == 202 and len({m["id"] for m in json.loads(text)["messages"]}) == 3, text

    stored = "SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM postrider_done)"
    before = d.sql(stored)
    for wrong in ("[]", "{}", json.dumps([dict(event, id="fresh"), dict(event, specversion="0.3")]), json.dumps([dict(event, id="q"), 5]),
                  json.dumps([{k: v for k, v in event.items() if k != "source"}])):
        status, text, _ = d.raw("POST", "/v1/messages", wrong, kind)
        assert status == 400 and json.loads(text)["error"]["code"] == "invalid", (wrong, status, text)
    assert d.sql(stored) == before  # all or none


@test
def a_box_that_nobody_uses_has_a_name_and_is_not_counted(d):
    assert [b["name"] for b in d.ok("GET", "/v1/boxes")["boxes"]] == ["ledger", "outbox"]
    assert [b["name"] for b in d.ok("GET", "/v1/status")["boxes"]] == ["ledger", "outbox"]
    assert d.ok("GET", "/v1/boxes?names=1")["boxes"] == [{"name": n} for n in ("activities", "inbox", "ledger", "outbox", "turns")]


@test
def bad_input_is_refused_with_a_reason(d):
    d.fails(404, "unknown_box", "POST", "/v1/messages?box=nowhere", {"type": "x"})
    for path in "/v1/messages", "/v1/streams", "/v1/dead", "/v1/dead/groups", "/v1/dead/export":
        d.fails(404, "unknown_box", "GET", path + "?box=nowhere")
    for path in "/v1/messages/park", "/v1/dead/discard", "/v1/dead/replay":
        d.fails(404, "unknown_box", "POST", path, {"filter": {"box": "nowhere"}})
    for path in ("/v1/messages", "/v1/messages/" + UNKNOWN_ID, "/v1/status", "/v1/boxes", "/v1/feed", "/v1/replays",
                 "/health", "/metrics"):
        d.fails(400, "invalid", "GET", path + "?boxx=outbox")
    d.fails(422, "unknown_endpoint", "POST", "/v1/messages", {"type": "x", "destination": "nowhere"})
    for body in ({}, {"type": ""}, {"type": "x", "colour": "red"}, {"type": "x", "payload": 1, "payload_text": "1"}, [1], {"type": 5},
                 {"type": "x", "id": "no"}, {"type": "x", "due_at": "soon"}, {"type": "x", "payload_base64": "!"}, {"type": "x", "headers": "h"}):
        d.fails(400, "invalid", "POST", "/v1/messages", body)
    big = {"X-Postrider": "1", "Content-Type": "application/json"}
    status, text, _ = d.raw("POST", "/v1/messages", json.dumps({"type": "x", "payload": "y" * 70000}), big)
    assert status == 413, (status, text)  # over limits.payload
    c = d.connection()
    c.putrequest("POST", "/v1/messages")
    for name, value in {**big, "Content-Length": "99999999"}.items():
        c.putheader(name, value)
    c.endheaders()
    assert c.getresponse().status == 413  # before a byte of it came
    c.close()
    deep = lambda n: b'{"type":"a.deep","payload":' + b"[" * n + b"]" * n + b"}"
    assert d.raw("POST", "/v1/messages", deep(99), big)[0] == 202
    assert d.raw("POST", "/v1/messages", deep(2000), big)[0] == 400  # each level would take stack
    assert d.raw("POST", "/v1/dead/%s/edit" % UNKNOWN_ID, b'{"payload":' + b"[" * 2000 + b"]" * 2000 + b"}", big)[0] == 400
    for text in (b"{", b"\xff", b'{"type":"x","type":"y"}', b'{"a":' * 5000):
        assert d.raw("POST", "/v1/messages", text, big)[0] == 400, text[:20]
    assert d.raw("POST", "/v1/messages", b"x", {"X-Postrider": "1", "Content-Type": "text/plain"})[0] == 415
    assert d.raw("POST", "/v1/dead/replay", b"{}", {"X-Postrider": "1"})[0] == 415
    status, _, headers = d.raw("DELETE", "/v1/messages")
    assert status == 405 and headers["allow"] == "GET, HEAD, POST"
    assert d.raw("PUT", "/health/live")[0] == 405 and d.raw("GET", "/")[0] == 404 and d.raw("GET", "/v1/messages/")[0] == 404
    d.fails(400, "invalid", "GET", "/v1/messages/no-id")
    d.fails(404, "not_found", "GET", "/v1/messages/" + UNKNOWN_ID[:-1] + "0")
    for query in ("state=odd", "reason=odd", "limit=0", "limit=1001", "after=x", "since=soon", "colour=red", "box=%00", "box=%zz", "box=a&box=b",
                  "after=1", "&".join("a%d=1" % i for i in range(40))):
        d.fails(400, "invalid", "GET", "/v1/messages?" + query)
    for body in ({}, {"filter": {}}, {"ids": []}, {"ids": ["x"]}, {"ids": [UNKNOWN_ID], "filter": {"box": "a"}}, {"filter": {"colour": "x"}},
                 {"ids": UNKNOWN_ID}, {"colour": 1}, {"ids": [UNKNOWN_ID], "dry_run": "yes"}):
        d.fails(400, "invalid", "POST", "/v1/dead/replay", body)
    d.fails(400, "invalid", "POST", "/v1/streams/release", {})
    d.fails(400, "invalid", "POST", "/v1/endpoints/good/pause", {"for": "soon"})
    assert d.raw("GET", "/" + "x" * 9000)[0] in (404, 414)
    d.is_ready()


# ---- Security ----

@test
def browsers_cannot_forge_changes(d):
    change = {"Content-Type": "application/json"}
    status, text, _ = d.raw("POST", "/v1/endpoints/good/pause", "{}", change)
    assert status == 403 and json.loads(text)["error"]["code"] == "header_missing"
    assert d.raw("POST", "/v1/messages", '{"type":"x"}', change)[0] == 403
    assert d.raw("POST", "/v1/messages", '{"type":"x"}', {"X-Postrider": "0", **change})[0] == 403
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost:x", "[::1"):
        assert d.raw("GET", "/v1/status", None, {"Host": host})[0] in (400, 403), host
        assert d.raw("GET", "/nothing", None, {"Host": host})[0] in (400, 403), host
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:80", "192.0.2.1"):
        assert d.raw("GET", "/v1/instances", None, {"Host": host})[0] == 200, host
    for first, second in (("localhost", "evil.example"), ("evil.example", "localhost")):
        with socket.create_connection(("127.0.0.1", d.port), DEADLINE_SECONDS) as s:
            s.sendall(("GET /v1/status HTTP/1.1\r\nHost: %s\r\nHost: %s\r\n\r\n" % (first, second)).encode())
            assert s.recv(12)[9:] in (b"400", b"403")
    _, _, headers = d.raw("GET", "/v1/status")
    assert headers["content-security-policy"] == "default-src 'self'" and headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers and headers["cache-control"] == "no-store"
    assert d.raw("OPTIONS", "/v1/messages")[0] == 405


@test
def pages_of_other_origins_may_not_even_look(d):  # B206
    for path in ("/v1/status", "/v1/dead", "/metrics", "/health/ready"):
        for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "http://evil.example"}, {"Origin": "null"},
                        {"Origin": "http://127.0.0.1:1"}):
            status, text, _ = d.raw("GET", path, None, headers)
            assert (status, json.loads(text)["error"]["code"]) == (403, "cross_site"), (path, headers, text)
        for headers in ({}, {"Sec-Fetch-Site": "none"}, {"Sec-Fetch-Site": "same-origin"}, {"Origin": "http://127.0.0.1:%d" % d.port}):
            assert d.raw("GET", path, None, headers)[0] == 200, (path, headers)
    assert "event=http_without_token" in open(os.path.join(d.path, "log"), encoding="utf-8").read()


def talk(d, text):
    """The status that these bytes are answered with; None: closed without a word."""
    with socket.create_connection(("127.0.0.1", d.port), DEADLINE_SECONDS) as s:
        s.sendall(text.encode("latin-1"))
        got = b""
        while b"\r\n\r\n" not in got:
            piece = s.recv(65536)
            if not piece:
                break
            got += piece
        return int(got[9:12]) if got else None


@test
def what_two_readers_could_take_differently_is_refused(d):  # B206
    host = "Host: localhost\r\n"
    for status, text in ((200, "GET /health/live HTTP/1.1\r\n" + host + "\r\n"), (200, "GET /health/live HTTP/1.0\r\n\r\n"),
                         (400, "GET /health/live HTTP/1.1\r\n\r\n"),  # no Host
                         (400, "GET /health/live HTTP/1.1\r\n" + host + host + "\r\n"),
                         (400, "GET /health/live HTTP/1.1\n" + host + "\r\n"),  # a line feed alone
                         (400, "GET /health/live HTTP/1.1\r\nHost: localhost\n\r\n"), (400, "GET /health/live HTTP/1.1\r\n" + host + "\n"),
                         (400, "GET /health/live HTTP/1.1\r\nHost: local\rhost\r\n\r\n"),
                         (400, "GET /health/live HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx"),
                         (400, "GET /health/live HTTP/1.1\r\n" + host + "Content-Length: 1, 1\r\n\r\nx"),
                         (400, "GET /health/live HTTP/1.1\r\n" + host + "Content-Length: +1\r\n\r\nx"),
                         (400, "GET /health/live HTTP/1.1\r\n" + host + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
                         (400, "GET /health/live HTTP/1.1\r\n" + host + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
                         (501, "GET /health/live HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
                         (400, "GET /health/live HTTP/1.1\r\n" + host + " folded: x\r\n\r\n"), (400, "GET  /health/live HTTP/1.1\r\n" + host + "\r\n"),
                         (400, "GET http://localhost/health/live HTTP/1.1\r\n" + host + "\r\n"), (505, "GET /health/live HTTP/2.0\r\n" + host + "\r\n"),
                         (431, "GET /health/live HTTP/1.1\r\n" + host + "x: y\r\n" * 64 + "\r\n"),
                         (431, "GET /health/live HTTP/1.1\r\n" + host + "x: " + "y" * 17000 + "\r\n\r\n"),
                         (400, "GET /v1/messages?" + "&".join("a%d=1" % i for i in range(500)) + " HTTP/1.1\r\n" + host + "\r\n"),
                         (414, "GET /" + "x" * 9000 + " HTTP/1.1\r\n" + host + "\r\n")):
        assert talk(d, text) == status, (status, talk(d, text), text[:200])
    # What stands behind a request is not another one.
    with socket.create_connection(("127.0.0.1", d.port), DEADLINE_SECONDS) as s:
        s.sendall(("GET /health/live HTTP/1.1\r\n" + host + "\r\nGET /health/live HTTP/1.1\r\n" + host + "\r\n").encode())
        got = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := s.recv(65536):
                got += piece
        assert got.count(b"HTTP/1.1 200") == 1, got
    status, _, headers = d.raw("POST", "/v1/messages", iter([b'{"type":', b'"a.chunked"}']), {"X-Postrider": "1", "Content-Type": "application/json"})
    assert status == 202 and headers["connection"].lower() == "close"


@test
def slow_clients_hold_nobody_up():  # B206
    """300 that never finish their head, 60 that never finish a body: probes and people still get their answers."""
    with open_daemon() as d:
        begin = time.monotonic()
        with contextlib.ExitStack() as stack:
            def slow(text):
                s = stack.enter_context(socket.create_connection(("127.0.0.1", d.port), DEADLINE_SECONDS))
                s.sendall(text.encode())
                return s
            for i in range(300):
                slow("GET /v1/status HTTP/1.1\r\nHost: local")
                if i % 50 == 49:
                    assert d.raw("GET", "/health/live")[0] == d.raw("GET", "/health/ready")[0] == d.raw("GET", "/v1/status")[0] == 200
            body = "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nX-Postrider: 1\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{"
            late = [slow(body) for _ in range(60)]
            for path in ("/health/live", "/health/ready", "/metrics"):
                assert d.raw("GET", path)[0] == 200, path
            assert time.monotonic() - begin < 10
            # Those beyond their address's places are told so; the others end with their time.
            assert late[-1].recv(12) == b"HTTP/1.1 503"
            late[0].settimeout(4)  # a byte from time to time does not help
            ended = False
            while not ended and time.monotonic() - begin < 45:
                try:
                    ended = late[0].recv(1) == b""
                except TimeoutError:
                    late[0].sendall(b" ")
                except OSError:
                    ended = True
            assert ended and late[1].recv(1) == b""
        assert d.ok("GET", "/v1/status")["health"] == "ok"


@test
def who_is_refused_holds_no_place_for_as_long_as_a_large_body_takes():  # B206
    """A stranger announces a body of 2 GB, and sends a byte from time to time."""
    heads = ("POST /v1/messages", "POST /nowhere", "GET /v1/status")
    with open_daemon(more=", token: " + OPERATOR) as d, contextlib.ExitStack() as stack:
        open_ones = [stack.enter_context(socket.create_connection(("127.0.0.1", d.port), 1)) for _ in heads]
        for s, head in zip(open_ones, heads):
            s.sendall((head + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000000000\r\n\r\n").encode())
        assert [s.recv(12) for s in open_ones] == [b"HTTP/1.1 401", b"HTTP/1.1 404", b"HTTP/1.1 401"]
        slow = stack.enter_context(socket.create_connection(("127.0.0.1", d.port), 1))  # one that nobody knows the end of
        slow.sendall(b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        open_ones.append(slow)
        end = time.monotonic() + 20
        while open_ones and time.monotonic() < end:
            for s in list(open_ones):
                try:
                    if s.recv(4096) == b"":
                        open_ones.remove(s)
                    continue
                except TimeoutError:
                    pass
                except OSError:
                    open_ones.remove(s)
                    continue
                with contextlib.suppress(OSError):
                    s.sendall(b"1\r\n \r\n" if s is slow else b" ")
        assert not open_ones


@test
def a_pattern_of_many_stars_is_refused(d):  # B206
    for size in (17, 2000):
        for path in ("/v1/dead", "/v1/dead/groups", "/v1/messages", "/v1/dead/export"):
            assert "at most 255 bytes and 16 stars" in d.fails(400, "invalid", "GET", path + "?type=" + "*a" * size)["message"]
        d.fails(400, "invalid", "POST", "/v1/messages/park", {"filter": {"type": "*a" * size}})
    assert d.process.poll() is None and d.ok("GET", "/v1/dead?type=" + "*a" * 16)["messages"] == []


@test
def tokens_have_roles():
    """B204: secrets are in no output."""
    with open_daemon(more=", token: %s, viewer_token: %s, hosts: [relay.example]" % (OPERATOR, VIEWER)) as d:
        assert d.ask("GET", "/health/ready") == (200, {"status": "ok"})
        d.fails(401, "token_missing", "GET", "/v1/status")
        assert d.raw("GET", "/v1/status")[2]["www-authenticate"] == "Bearer"
        for wrong in ("x", OPERATOR[:-1], OPERATOR + "x", VIEWER[:-1] + "1", ""):
            d.fails(401, "token_wrong", "GET", "/v1/status", token=wrong or " ")
        for path in ("/metrics", "/openapi.json", "/v1/messages", "/v1/feed"):
            assert d.raw("GET", path)[0] == 401, path
        assert d.ok("GET", "/v1/status", token=VIEWER)["health"] == "ok"
        assert d.raw("GET", "/v1/status", None, {"Host": "relay.example", "Authorization": "bearer " + VIEWER})[0] == 200
        d.fails(403, "viewer", "POST", "/v1/messages", {"type": "a.x"}, token=VIEWER)
        d.ok("POST", "/v1/messages", {"type": "a.x"}, status=202, token=OPERATOR)
        shown = d.run("config", "show", "-c", "c.yaml") + json.dumps(d.ok("GET", "/v1/endpoints", token=VIEWER))
        shown += json.dumps(d.ok("GET", "/v1/status", token=VIEWER)) + d.raw("GET", "/metrics", None, {"Authorization": "Bearer " + VIEWER})[1].decode()
        shown += open(os.path.join(d.path, "log"), encoding="utf-8").read()
        for secret in (OPERATOR, VIEWER, "hidden-password"):
            assert secret not in shown, secret
        # A reload changes the tokens without closing the port.
        config = os.path.join(d.path, "c.yaml")
        text = open(config, encoding="utf-8").read().replace(VIEWER, "other-viewer-0123456789")
        open(config, "w", encoding="utf-8").write(text)
        d.process.send_signal(1)
        wait_for("the new token", lambda: d.ask("GET", "/v1/instances", token="other-viewer-0123456789")[0] == 200)
        d.fails(401, "token_wrong", "GET", "/v1/status", token=VIEWER)


@test
def every_path_asks_whose_request_it_is():  # B206
    with open_daemon(more=", token: %s, viewer_token: %s" % (OPERATOR, VIEWER)) as d:
        for route in ROUTES.replace("\n", "|").split("|"):
            method, path = route.split()
            path = path.replace("{id}", UNKNOWN_ID).replace("{name}", "good")
            changes, probes = method != "GET", path.startswith("/health/")
            body = b"{}" if method == "POST" else None
            own = {"Content-Type": "application/json"}
            full = {**own, "X-Postrider": "1"}

            def code(headers):
                status, text, _ = d.raw(method, path, body, headers)
                return status, json.loads(text)["error"]["code"] if status > 399 else None
            if probes:
                assert code(full)[0] == 200, path
            else:
                assert code(full) == (401, "token_missing"), path
                assert code({**full, "Authorization": "Bearer " + VIEWER[:-1]}) == (401, "token_wrong"), path
                assert code({**full, "Authorization": "Basic " + OPERATOR}) == (401, "token_wrong"), path
            if changes:
                assert code({**full, "Authorization": "Bearer " + VIEWER}) == (403, "viewer"), path
                assert code({**own, "Authorization": "Bearer " + OPERATOR}) == (403, "header_missing"), path
            known = {**full, "Authorization": "Bearer " + OPERATOR}
            assert code({**known, "Sec-Fetch-Site": "cross-site"}) == (403, "cross_site"), path
            assert code({**known, "Sec-Fetch-Site": "same-site"}) == (403, "cross_site"), path
            assert code({**known, "Origin": "http://127.0.0.1:1"}) == (403, "cross_site"), path
            assert code({**known, "Host": "evil.example"}) == (403, "bad_host"), path


@test
def it_listens_for_others_only_with_a_token():
    with tempfile.TemporaryDirectory(prefix="postrider-api-") as path:
        def refused(text):
            with open(os.path.join(path, "c.yaml"), "w", encoding="utf-8") as f:
                f.write("http: {%s}\n" % text)
            done = subprocess.run([PROGRAM, "config", "check", "-c", "c.yaml"], cwd=path, capture_output=True, timeout=DEADLINE_SECONDS)
            return done.stderr.decode() if done.returncode == 3 else ""
        assert "other addresses need http.token" in refused("listen: '0.0.0.0:0'")
        assert "other addresses need http.token" in refused("listen: '[::]:0'")
        assert "16 characters" in refused("listen: '0.0.0.0:0', token: short")
        assert "must differ" in refused("listen: '0.0.0.0:0', token: %s, viewer_token: %s" % (VIEWER, VIEWER))
        assert refused("listen: '0.0.0.0:0', token: %s" % OPERATOR) == ""


@test
def events_are_read_by_stream_and_in_one_order(d):  # B95, B96
    for n in range(3):
        d.send(type="order.placed", stream="event-%d" % (n % 2), event=True, payload_text="e%d" % n, headers={"n": n}, destination="good")
    d.send(type="order.placed", stream="event-0", payload_text="no event", destination="good")
    one = d.ok("GET", "/v1/events?stream=event-0")
    assert [(e["version"], e["payload"], e["headers"]) for e in one["events"]] == [(1, "e0", {"n": 0}), (2, "e2", {"n": 2})], one
    assert one["next"] == 2 and not one["more"]
    assert d.ok("GET", "/v1/events?stream=event-0&after=2") == {"events": [], "more": False, "next": 2}
    page = d.ok("GET", "/v1/events?limit=2")
    places = [e["place"] for e in page["events"]]
    assert places == [1, 2] and page["more"] and page["next"] == 2, page
    rest = d.ok("GET", "/v1/events?after=2")
    assert [(e["stream"], e["version"], e["place"]) for e in rest["events"]] == [("event-0", 2, 3)], rest
    d.sql("INSERT INTO outbox (type, stream, event, payload, destination) VALUES ('plain', 'event-0', %s, 'by hand', 'good')"
          % ("1" if KIND == "sqlite" else "true"))
    assert d.ok("GET", "/v1/events?after=3")["events"][0]["payload"] == "by hand"
    d.fails(400, "invalid", "POST", "/v1/messages", {"type": "t", "event": True})


@test
def events_are_appended_with_an_expected_version(d):  # B95, B2
    event = {"type": "order.paid", "stream": "expect-1", "payload": {"n": 1}, "destination": "good"}
    first = d.ok("POST", "/v1/events", dict(event, expected_version=0), status=202)
    assert first["version"] == 1 and not first["duplicate"] and first["messages"][0]["version"] == 1, first
    status, answer = d.ask("POST", "/v1/events", dict(event, expected_version=0))
    error = answer["error"]
    assert (status, error["code"], error["expected_version"], error["version"]) == (409, "version_conflict", 0, 1), answer
    again = d.ok("POST", "/v1/events", dict(event, expected_version=0, id=first["id"]), status=202)
    assert again["duplicate"] and again["version"] == 1, again
    assert d.ask("POST", "/v1/messages", dict(event, event=True, expected_version=7))[0] == 409
    assert d.ok("POST", "/v1/messages", dict(event, event=True, expected_version=1), status=202)["version"] == 2
    assert "version" not in d.ok("POST", "/v1/messages", event, status=202)
    d.fails(400, "invalid", "POST", "/v1/messages", dict(event, expected_version=1))
    d.fails(400, "invalid", "POST", "/v1/events", dict(event, expected_version="1"))
    assert [e["version"] for e in d.ok("GET", "/v1/events?stream=expect-1&from=2")["events"]] == [2]
    d.fails(400, "invalid", "GET", "/v1/events?from=2")
    d.fails(400, "invalid", "GET", "/v1/events?stream=a&from=0")


@test
def who_waits_for_events_gets_them_when_they_are_stored(d):
    last = d.ok("GET", "/v1/events?limit=1000")["next"]
    began = time.monotonic()
    assert d.ok("GET", "/v1/events?after=%d&wait=300ms" % last)["events"] == [] and time.monotonic() - began >= 0.3
    later = threading.Timer(0.2, lambda: d.send(type="t", stream="wait-1", event=True, destination="good"))
    later.start()
    page = d.ok("GET", "/v1/events?after=%d&wait=20s" % last)
    later.join()
    assert [(e["stream"], e["version"]) for e in page["events"]] == [("wait-1", 1)] and page["next"] == last + 1, page
    d.fails(400, "invalid", "GET", "/v1/events?wait=soon")
    for wrong in "x", "-1", "outbox:1":
        assert "a place" in d.ask("GET", "/v1/events?after=" + wrong)[1]["error"]["message"]


@test
def a_subscription_is_pulled_by_one_worker_at_a_time_with_a_fence(d):
    for n in range(3):
        d.send(type="t", stream="pull-1", event=True, destination="good")
    end = d.ok("GET", "/v1/events?limit=1000")["next"]
    path = "/v1/subscriptions/pulled"
    d.fails(404, "not_found", "POST", path + "/acknowledge", {"fence": 1, "position": 1})
    d.fails(400, "invalid", "POST", path + "/claim", {"worker": "", "max": 2})
    one = d.ok("POST", path + "/claim", {"worker": "one", "max": 2})
    assert [e["place"] for e in one["events"]] == [1, 2] and one["held_by"] is None and one["position"] == 0, one
    two = d.ok("POST", path + "/claim", {"worker": "two"})
    assert two["events"] == [] and two["held_by"] == "one" and two["fence"] is None, two  # the fence is for who has it
    moved = d.ok("POST", path + "/acknowledge", {"fence": one["fence"], "position": 2})
    assert (moved["result"], moved["position"]) == ("ok", 2), moved
    assert d.ok("POST", path + "/acknowledge", {"fence": one["fence"], "position": 2}) == moved  # who had no answer says it again
    assert d.ok("POST", path + "/acknowledge", {"fence": one["fence"], "position": 1})["result"] == "stale"  # forwards only
    more = d.ok("POST", path + "/claim", {"worker": "one", "fence": one["fence"], "max": 1, "lease": "100ms"})
    assert [e["place"] for e in more["events"]] == [3] and more["fence"] == one["fence"], more
    two = d.ok("POST", path + "/claim", {"worker": "two", "wait": "20s", "max": 1})
    assert [e["place"] for e in two["events"]] == [3] and two["fence"] > one["fence"], two
    late = d.ok("POST", path + "/acknowledge", {"fence": one["fence"], "position": 3})
    assert (late["result"], late["position"], late["fence"]) == ("stale", 2, None), late
    d.fails(400, "invalid", "POST", path + "/acknowledge", {"fence": two["fence"], "position": end + 1})
    assert d.ok("POST", path + "/acknowledge", {"fence": two["fence"], "position": end})["result"] == "ok"
    listed = [s for s in d.ok("GET", "/v1/subscriptions")["subscriptions"] if s["name"] == "pulled"]
    assert (listed[0]["position"], listed[0]["lag"], listed[0]["held_by"]) == (end, 0, "two"), listed
    assert d.ok("POST", path + "/reset", {"position": 1, "why": "again"})["changed"] == 1
    assert d.ok("POST", path + "/acknowledge", {"fence": two["fence"], "position": end})["result"] == "stale"
    assert b'postrider_subscription_lag_events{subscription="pulled"}' in d.raw("GET", "/metrics")[1]
    three = d.ok("POST", path + "/claim", {"worker": "three", "max": 1})
    assert three["events"][0]["place"] == 2, three
    assert d.ok("POST", path + "/release", {"fence": three["fence"]})["result"] == "ok"
    assert "pulled" in d.run("events", "subscriptions", "-c", "c.yaml")
    d.run("events", "subscriptions", "reset", "pulled", "--after", "0", "-c", "c.yaml")
    assert json.loads(d.run("events", "subscriptions", "--json", "-c", "c.yaml").splitlines()[0])["position"] == 0
    d.run("events", "subscriptions", "reset", "pulled", "-c", "c.yaml", code=2)
    d.run("events", "subscriptions", "remove", "nobody", "-c", "c.yaml", code=4)
    assert d.ok("POST", path + "/remove", {})["changed"] == 1
    d.fails(404, "not_found", "POST", path + "/remove", {})
    done = [a["action"] for a in d.ok("GET", "/v1/audit?limit=10")["audit"] if a["changed"] == 1]
    assert done[:3] == ["subscription_remove", "subscription_reset", "subscription_reset"], done


@test
def a_snapshot_of_a_stream_is_kept(d):
    for n in range(2):
        d.send(type="t", stream="snap/1", event=True, destination="good")
    d.fails(404, "not_found", "GET", "/v1/snapshots?stream=snap%2F1")
    assert d.ok("POST", "/v1/snapshots", {"stream": "snap/1", "version": 2, "payload": {"total": 5}})["saved"]
    assert not d.ok("POST", "/v1/snapshots", {"stream": "snap/1", "version": 1, "payload_text": "old"})["saved"]
    assert d.ok("GET", "/v1/snapshots?stream=snap%2F1") == {"stream": "snap/1", "version": 2, "payload": '{"total":5}'}
    assert d.ok("POST", "/v1/snapshots", {"stream": "snap/1", "version": 2, "payload_base64": "/w=="})["saved"]
    assert d.ok("GET", "/v1/snapshots?stream=snap%2F1")["payload_base64"] == "/w=="
    d.fails(400, "invalid", "POST", "/v1/snapshots", {"stream": "snap/1", "version": 9, "payload_text": "x"})
    d.fails(400, "invalid", "POST", "/v1/snapshots", {"stream": "snap/1", "version": 1})
    d.fails(400, "invalid", "GET", "/v1/snapshots")


@test
def a_socket_file_serves_too():
    with open_daemon("'unix:HERE/api.sock'") as d:
        sock = os.path.join(d.path, "api.sock")
        assert os.stat(sock).st_mode & 0o777 == 0o600
        assert d.ok("GET", "/v1/status")["health"] == "ok"
        listener = d.connection()
        response = event_lines(listener, "/v1/feed")
        begin = time.monotonic()
    assert not os.path.exists(sock)
    assert time.monotonic() - begin < DEADLINE_SECONDS / 2  # who listens holds no stop up
    with contextlib.suppress(http.client.IncompleteRead):
        assert response.read().strip() == b""
    listener.close()


# ---- Seeing and repairing ----

@test
def lists_have_filters_and_pages(d):
    ids = [d.send(type="page.%d" % (i % 2), destination="bad", stream="p%d" % i) for i in range(5)]
    wait_for("failed", lambda: len(d.ok("GET", "/v1/messages?type=page.*&state=retrying")["messages"]) == 5)
    assert len(d.ok("GET", "/v1/messages?type=page.1&box=outbox")["messages"]) == 2
    page = d.ok("GET", "/v1/messages?box=outbox&type=page.*&limit=2")
    seen = [m["id"] for m in page["messages"]]
    while page["more"]:
        page = d.ok("GET", "/v1/messages?box=outbox&type=page.*&limit=2&after=%d" % page["next"])
        seen += [m["id"] for m in page["messages"]]
    assert seen == ids
    by_command = [json.loads(line) for line in d.run("list", "--type", "page.*", "--json", "-c", "c.yaml").splitlines()]
    assert by_command == d.ok("GET", "/v1/messages?type=page.*")["messages"]  # B201
    assert d.ok("GET", "/v1/messages?reason=transport_unavailable&stream=p1")["messages"][0]["id"] == ids[1]
    ids += [d.ok("POST", "/v1/messages?box=ledger", {"type": "page.2", "destination": "bad"}, status=202)["messages"][0]["id"] for _ in range(3)]
    for limit in (1, 2, 3, 4, 8):  # all boxes: a page may end in one, and the others still come
        seen, page = [], {"next": "inbox:0", "more": True}
        while page["more"]:
            page = d.ok("GET", "/v1/messages?type=page.*&limit=%d&after=%s" % (limit, page["next"]))
            seen += [m["id"] for m in page["messages"]]
        assert sorted(seen) == sorted(ids), (limit, seen, ids)
    first = [json.loads(line) for line in d.run("list", "--type", "page.*", "--limit", "4", "--json", "-c", "c.yaml").splitlines()]
    rest = d.run("list", "--type", "page.*", "--json", "--after", "%s:%d" % (first[-1]["box"], first[-1]["row"]), "-c", "c.yaml").splitlines()
    assert sorted(m["id"] for m in first + [json.loads(line) for line in rest]) == sorted(ids)
    d.fails(400, "invalid", "GET", "/v1/messages?box=outbox&after=ledger:1")
    d.fails(400, "invalid", "GET", "/v1/dead?after=ledger:1")
    d.fails(400, "invalid", "POST", "/v1/messages/park", {"filter": {"type": "page.*", "after": "ledger:1"}})


@test
def filters_know_where_the_routes_lead(d):  # B82, B201
    id = d.send(type="a.later", due_at="1h")
    found = d.ok("GET", "/v1/messages?endpoint=good&type=a.later")["messages"]
    assert [(m["id"], m["endpoint"]) for m in found] == [(id, "good")], found
    assert d.ok("GET", "/v1/messages?endpoint=bad&type=a.later")["messages"] == []
    d.ok("POST", "/v1/endpoints/good/pause", {})
    d.send(type="a.paused")
    places = {"status": lambda: {b["name"]: b for b in d.ok("GET", "/v1/status")["boxes"]}["outbox"],
              "boxes": lambda: {b["name"]: b for b in d.ok("GET", "/v1/boxes")["boxes"]}["outbox"],
              "metrics": lambda: {s: d.gauge("postrider_messages", box="outbox", state=s) for s in ("ready", "paused")},
              "top": lambda: {b["name"]: b for b in json.loads(d.run("top", "--json", "-c", "c.yaml"))["boxes"]}["outbox"]}
    for place, counts in places.items():
        wait_for("paused in " + place, lambda: (counts()["ready"], counts()["paused"]) == (0, 1))
    d.ok("POST", "/v1/endpoints/good/resume", {})
    assert d.ok("POST", "/v1/messages/%s/discard" % id)["changed"] == 1


@test
def people_change_messages(d):
    id = d.send(type="change", destination="bad", stream="c")
    d.wait_state(id, "retrying")
    held = d.send(type="change", destination="bad", stream="c")
    d.wait_state(held, "held")
    assert [s["head"] for s in d.ok("GET", "/v1/streams?blocked=1&stream=c")["streams"]] == [id]
    assert [s["head"] for s in d.ok("GET", "/v1/streams?blocked=true&stream=c")["streams"]] == [id]
    d.fails(400, "invalid", "GET", "/v1/streams?blocked=maybe")
    assert d.ok("POST", "/v1/messages/%s/park" % id, {"dry_run": True})["changed"] == 1 and d.state(id) == "retrying"
    answer = d.ok("POST", "/v1/messages/%s/park" % id, {"why": "wait for Monday"}, **{"X-Postrider-User": "ann"})
    assert (answer["action"], answer["changed"], answer["dry_run"]) == ("park", 1, False), answer
    assert d.state(id) == "parked" and d.ok("GET", "/v1/messages/" + id)["deliveries"][0]["message"]["due_at"] is None
    entry = d.ok("GET", "/v1/audit?limit=1")["audit"][0]
    assert (entry["who"], entry["action"], entry["why"], entry["changed"]) == ("ann (http)", "park", "wait for Monday", 1)  # B202
    attempts = d.sql("SELECT failed FROM postrider_endpoint_overview WHERE name = 'bad'")[0][0]
    d.ok("POST", "/v1/messages/%s/retry" % id)
    wait_for("tried again", lambda: d.sql("SELECT failed FROM postrider_endpoint_overview WHERE name = 'bad'")[0][0] > attempts)
    wait_for("held again or retrying", lambda: d.state(held) in ("held", "retrying"))
    if d.state(held) == "held":
        assert d.ok("POST", "/v1/messages/%s/release" % held)["changed"] == 1
    d.ok("POST", "/v1/streams/release", {"stream": "c"})
    assert d.ok("POST", "/v1/messages/%s/discard" % held)["changed"] == 1
    d.fails(404, "not_found", "POST", "/v1/messages/%s/discard" % held)


@test
def one_part_of_a_message_to_several_is_chosen_by_its_endpoint(d):  # B83
    id = d.send(type="parts", destination="good", due_at="1h")
    d.ok("POST", "/v1/messages", {"type": "parts", "id": id, "destination": "dead", "due_at": "1h"}, status=202)
    at = "/v1/messages/%s/" % id

    def states():
        return {m["message"]["destination"]: m["message"]["state"] for m in d.ok("GET", "/v1/messages/" + id)["deliveries"]}

    assert d.ok("POST", at + "park", {"endpoint": "good", "dry_run": True})["changed"] == 1
    assert d.ok("POST", at + "park", {"endpoint": "good"})["changed"] == 1
    assert states() == {"good": "parked", "dead": "delayed"}, states()
    error = d.fails(404, "not_found", "POST", at + "retry", {"endpoint": "nowhere"})
    assert error["message"].endswith(id + " to nowhere"), error
    for action in "retry", "release", "park", "discard", "dead":
        error = d.fails(400, "invalid", "POST", at + action, {"endpoint": "", "why": "w"})  # it would mean all
        assert error["message"].startswith("endpoint: "), error
        assert d.ok("POST", at + action, {"endpoint": "dead", "dry_run": True, "why": "w"})["matched"] == 1
    assert d.ok("POST", at + "dead", {"endpoint": "dead", "why": "w"})["changed"] == 1
    assert states() == {"good": "parked", "dead": "dead"}, states()
    assert d.ok("POST", at + "dead", {"why": "w"})["changed"] == 1
    assert d.ok("POST", "/v1/dead/%s/note" % id, {"text": "only here", "endpoint": "dead"})["changed"] == 1
    notes = {m["endpoint"]: m["note"] for m in d.ok("GET", "/v1/dead?type=parts")["messages"]}
    assert "only here" in notes["dead"] and "only here" not in notes["good"], notes
    d.fails(400, "invalid", "POST", "/v1/dead/%s/note" % id, {"text": "x", "endpoint": ""})
    d.fails(400, "invalid", "POST", "/v1/dead/%s/edit" % id, {"payload": 1, "endpoint": ""})
    d.fails(404, "not_found", "POST", "/v1/dead/%s/note" % id, {"text": "x", "endpoint": "nowhere"})
    paths = d.ok("GET", "/openapi.json")["paths"]
    for path in [p for p in paths if p.startswith("/v1/messages/{id}/")] + ["/v1/dead/{id}/note"]:
        schema = paths[path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert schema["properties"]["endpoint"] == {"type": "string"}, path
    assert d.ok("POST", "/v1/dead/discard", {"ids": [id]})["changed"] == 2


@test
def faults_name_the_member_as_it_was_written(d):
    for body, said in (({"due_at": "zz"}, 'due_at: "zz" is not a time'), ({"expires_at": "zz"}, 'expires_at: "zz" is not a time'),
                       ({"due_at": 5}, "due_at: must be a string"), ({"headers": 5}, "headers: must be an object"),
                       ({"id": "zz"}, "id: must be a UUID"), ({"type": 5}, "type: must be a string")):
        error = d.fails(400, "invalid", "POST", "/v1/messages", dict({"type": "x"}, **body))
        assert error["message"].startswith(said), (body, error)
    for value in 5, "text", None, True, {}, []:
        error = d.fails(400, "invalid", "POST", "/v1/messages", {"type": "x", "zzz": value})
        assert error["message"].startswith("zzz: unknown field"), (value, error)


@test
def dead_letters_are_grouped_edited_and_replayed(d):
    ids = [d.send(type="die", destination="dead", payload={"n": i}) for i in range(4)]
    wait_for("dead", lambda: len(d.ok("GET", "/v1/dead?type=die")["messages"]) == 4)
    group = next(g for g in d.ok("GET", "/v1/dead/groups?endpoint=dead")["groups"] if g["type"] == "die")
    assert group["count"] == 4 and group["reason"] == "transport_unavailable" and group["sample"] in ids
    letters = d.ok("GET", "/v1/dead/export?type=die")["letters"]  # what failed by itself is as good as what people made dead
    assert len(d.ok("POST", "/v1/dead/import", {"letters": letters})["duplicates"]) == 4
    error = d.fails(400, "invalid", "GET", "/v1/dead?fingerprint=zz")
    assert error["message"].startswith("fingerprint: \"zz\"") and "16 hex digits" in error["message"], error
    d.fails(400, "invalid", "POST", "/v1/dead/replay", {"filter": {"fingerprint": "0" * 15 + "G"}})
    step = d.ok("POST", "/v1/dead/replay", {"filter": {"type": "die", "limit": 2}, "dry_run": True})
    rest = {"type": "die", "limit": 100, "after": step["next"], "newest_row": step["newest_row"]}
    assert d.ok("POST", "/v1/dead/replay", {"filter": rest, "dry_run": True})["changed"] == 2
    rest["newest_row"] = step["next"] + 1
    assert d.ok("POST", "/v1/dead/replay", {"filter": rest, "dry_run": True})["changed"] == 1
    filter = {"fingerprint": group["fingerprint"]}
    assert d.ok("POST", "/v1/dead/replay", {"filter": filter, "dry_run": True})["changed"] == 4
    edited = d.ok("POST", "/v1/dead/%s/edit" % ids[0], {"payload": {"n": "mended"}, "destination": "good", "why": "typo"})
    d.wait_state(edited["made"], "done")
    assert d.ok("GET", "/v1/messages/" + edited["made"])["deliveries"][0]["message"]["payload"] == '{"n":"mended"}'
    d.fails(409, "refused", "POST", "/v1/dead/%s/edit" % ids[0], {"destination": "good"})
    d.ok("POST", "/v1/messages", {"type": "die.too", "id": ids[3], "destination": "good", "due_at": "1h"}, status=202)
    assert d.ok("POST", "/v1/messages/%s/dead" % ids[3], {"why": "w"})["changed"] == 1
    error = d.fails(409, "ambiguous", "POST", "/v1/dead/%s/edit" % ids[3], {"payload": 1})
    assert "good" in error["hint"] and "dead" in error["hint"], error
    d.fails(400, "invalid", "POST", "/v1/dead/discard", {"ids": [ids[3]], "filter": {"endpoint": "good", "type": "die.too"}})
    assert d.ok("POST", "/v1/dead/%s/edit" % ids[3], {"payload": 1, "endpoint": "good"})["changed"] == 1
    assert d.ok("POST", "/v1/dead/discard", {"ids": [ids[3]], "filter": {"endpoint": "good"}})["changed"] == 1
    d.fails(422, "unknown_endpoint", "POST", "/v1/dead/%s/edit" % ids[1], {"destination": "nowhere"})
    for wrong in ({}, {"payload": 1, "payload_text": "1"}, {"payload_base64": "!"}):
        d.fails(400, "invalid", "POST", "/v1/dead/%s/edit" % ids[1], wrong)
    d.fails(413, "too_large", "POST", "/v1/dead/%s/edit" % ids[1], {"payload_text": "y" * 70000})  # it would only die again
    raw = d.ok("POST", "/v1/dead/%s/edit" % ids[2], {"payload_base64": "/wA=", "destination": "good"})["made"]
    assert d.ok("GET", "/v1/messages/" + raw)["deliveries"][0]["message"]["payload_base64"] == "/wA="
    died = d.ok("GET", "/v1/messages/" + ids[1])["deliveries"][0]["message"]["died_at"]
    assert d.ok("POST", "/v1/dead/replay", {"ids": [ids[1]]})["changed"] == 1
    wait_for("dead again", lambda: d.ok("GET", "/v1/messages/" + ids[1])["deliveries"][0]["message"].get("died_at") not in (None, died))
    d.fails(404, "not_found", "POST", "/v1/dead/replay", {"ids": [UNKNOWN_ID[:-1] + "0"]})
    assert d.ok("POST", "/v1/dead/discard", {"filter": {"type": "die"}})["changed"] == 4
    assert d.ok("GET", "/v1/dead?type=die")["messages"] == []


def make_dead(d, type, count, **message):
    """Dead letters of an endpoint that would take them."""
    ids = [d.send(type=type, destination="good", due_at="1h", **message) for _ in range(count)]
    for id in ids:
        assert d.ok("POST", "/v1/messages/%s/dead" % id, {"why": "by hand", "reason": "rejected"})["changed"] == 1  # B88
    return ids


@test
def a_letter_is_edited_and_noted_by_its_row(d):
    make_dead(d, "by.row", 1)
    row = d.ok("GET", "/v1/dead?type=by.row")["messages"][0]["row"]
    at = "/v1/dead/row-%d" % row
    assert d.ok("POST", at + "/note", {"text": "asked them"})["changed"] == 1
    assert "asked them" in d.ok("GET", "/v1/dead?row=%d" % row)["messages"][0]["note"]
    d.wait_state(d.ok("POST", at + "/edit", {"payload": "mended"})["made"], "done")
    d.fails(409, "refused", "POST", at + "/edit", {"payload": "again"})
    for verb, body in (("note", {"text": "t"}), ("edit", {"payload": 1})):
        d.fails(404, "not_found", "POST", "/v1/dead/row-999999/" + verb, body)
        for wrong in ("row-", "row-0", "row-x", "row-99999999999999999999"):
            d.fails(400, "invalid", "POST", "/v1/dead/%s/%s" % (wrong, verb), body)
    d.fails(400, "invalid", "POST", "/v1/messages/row-1/retry", {})
    assert d.ok("POST", "/v1/dead/discard", {"filter": {"type": "by.row"}})["changed"] == 1


@test
def a_replay_with_a_rate_goes_on_behind_the_answer(d):  # B83
    ids = make_dead(d, "slow", 9)
    old = make_dead(d, "slow", 1)[0]  # what was corrected stays, and is not counted
    d.wait_state(d.ok("POST", "/v1/dead/%s/edit" % old, {"payload": 2})["made"], "done")
    wish = {"filter": {"type": "slow"}, "rate": "2/s", "why": "mended"}
    assert d.ok("POST", "/v1/dead/replay", dict(wish, dry_run=True))["changed"] == 9
    replay = d.ok("POST", "/v1/dead/replay", wish, status=202, **{"X-Postrider-User": "ann"})
    assert (replay["total"], replay["total_exact"], replay["rate"], replay["by"], replay["why"]) == (9, True, 2, "ann (http)", "mended"), replay
    at = "/v1/replays/" + replay["id"]
    wait_for("the first step", lambda: d.ok("GET", at)["replayed"] >= 2)
    assert d.ok("GET", at)["state"] == "running" and d.ok("GET", at)["ended_at"] is None
    stopped = d.ok("POST", at + "/stop")
    assert stopped["state"] == "stopped" and stopped["ended_at"], stopped
    d.fails(409, "refused", "POST", at + "/stop")
    assert len(d.ok("GET", "/v1/dead?type=slow")["messages"]) == 10 - d.ok("GET", at)["replayed"]  # the others stay where they are
    assert d.ok("POST", at + "/resume")["state"] == "running"
    done = wait_for("the end", lambda: (lambda r: r if r["state"] == "done" else None)(d.ok("GET", at)))
    assert (done["replayed"], done["refused"], done["error"]) == (9, 0, None) and done["ended_at"], done
    for id in ids:
        d.wait_state(id, "done")
    steps = [e for e in d.ok("GET", "/v1/audit?limit=20")["audit"] if e["action"] == "dead_replay" and e["target"].get("type") == "slow"]
    assert sum(e["changed"] for e in steps) == 9 and len(steps) > 2 and {e["who"] for e in steps} == {"ann (http)"}  # B202
    d.fails(409, "refused", "POST", at + "/resume")
    assert d.ok("GET", "/v1/replays")["replays"][0]["id"] == replay["id"]
    d.fails(404, "not_found", "GET", "/v1/replays/" + UNKNOWN_ID)
    for wrong in ({"canary": 0}, {"rate": "soon"}, {"rate": 0}, {"rate": -1}, {"canary": "x"}, {"canary": 5000}, {"canary": 1, "canary_wait": "x"},
                  {"rate": 1, "filter": {"type": "slow", "limit": 5}}, {"rate": 1, "ids": [UNKNOWN_ID], "filter": None}):
        body = {k: v for k, v in {"filter": {"type": "slow"}, **wrong}.items() if v is not None}
        d.fails(400, "invalid", "POST", "/v1/dead/replay", body)


@test
def a_canary_goes_first_and_the_others_only_when_it_arrived(d):  # B83
    for _ in range(3):
        d.send(type="canary", destination="dead")
    wait_for("dead", lambda: d.ok("GET", "/v1/dead?type=canary")["total"] == 3)
    wish = {"filter": {"type": "canary"}, "canary": 1}
    replay = d.ok("POST", "/v1/dead/replay", wish, status=202)
    at = "/v1/replays/" + replay["id"]
    failed = wait_for("the canary fails", lambda: (lambda r: r if r["state"] == "failed" else None)(d.ok("GET", at)))
    assert failed["replayed"] == 1 and "failed again" in failed["error"], failed
    assert d.ok("GET", "/v1/dead?type=canary")["total"] == 3  # it died again, the others were left alone
    for replayed in (2, 3, 3):  # the others fail, too, and then none is left: it is not done while they are dead
        d.ok("POST", at + "/resume")
        failed = wait_for("it fails", lambda: (lambda r: r if r["ended_at"] else None)(d.ok("GET", at)))
        assert (failed["state"], failed["replayed"]) == ("failed", replayed) and "failed again" in failed["error"], failed
    assert "no other dead letter is left" in failed["error"], failed
    d.ok("POST", "/v1/dead/discard", {"filter": {"type": "canary"}})
    ids = make_dead(d, "canary", 3)
    at = "/v1/replays/" + d.ok("POST", "/v1/dead/replay", dict(wish, rate=1000), status=202)["id"]
    wait_for("all", lambda: d.ok("GET", at)["state"] == "done")
    assert d.ok("GET", at)["replayed"] == 3
    for id in ids:
        d.wait_state(id, "done")


@test
def many_are_changed_by_filter_and_counted(d):
    ids = [d.send(type="many", destination="bad") for _ in range(4)]
    wait_for("failed", lambda: len(d.ok("GET", "/v1/messages?type=many&state=retrying")["messages"]) == 4)
    assert d.ok("POST", "/v1/messages/park", {"filter": {"type": "many"}, "dry_run": True})["changed"] == 4
    assert d.ok("POST", "/v1/messages/park", {"ids": ids[:2], "why": "later"})["changed"] == 2
    assert d.ok("POST", "/v1/messages/retry", {"filter": {"type": "many", "state": "parked"}})["changed"] == 2
    assert d.ok("POST", "/v1/messages/release", {"filter": {"type": "many", "state": "retrying"}})["changed"] == 0  # nobody is before them
    assert d.ok("POST", "/v1/messages/discard", {"filter": {"type": "many"}})["changed"] == 4
    d.fails(400, "invalid", "POST", "/v1/messages/discard", {"filter": {}})


@test
def dead_letters_are_made_noted_and_carried(d):  # B81, B82, B88
    ids = make_dead(d, "carry", 3, payload_base64=base64.b64encode(b"\xff\x00").decode(), stream="carry")
    d.fails(400, "invalid", "POST", "/v1/messages/%s/dead" % ids[0], {})
    d.fails(400, "invalid", "POST", "/v1/messages/%s/dead" % ids[0], {"why": "x", "reason": "odd"})
    d.fails(404, "not_found", "POST", "/v1/messages/%s/dead" % ids[0], {"why": "x"})
    d.ok("POST", "/v1/dead/%s/note" % ids[0], {"text": "asked the customer"})
    d.fails(404, "not_found", "POST", "/v1/dead/%s/note" % UNKNOWN_ID, {"text": "x"})
    page = d.ok("GET", "/v1/dead?type=carry&limit=2")
    assert (page["total"], page["total_exact"], page["more"]) == (3, True, True), page
    assert "asked the customer" in page["messages"][0]["note"] and "by hand" in page["messages"][0]["note"]
    assert "total" not in d.ok("GET", "/v1/dead?type=carry&limit=2&after=%d" % page["next"])
    letters = d.ok("GET", "/v1/dead/export?type=carry")["letters"]
    assert [m["id"] for m in letters] == ids and letters[0]["payload_base64"] == base64.b64encode(b"\xff\x00").decode()
    answer = d.ok("POST", "/v1/dead/import", {"letters": letters})
    assert (answer["stored"], answer["duplicates"]) == (0, ids), answer
    d.ok("POST", "/v1/dead/discard", {"ids": ids})
    for wrong in ({}, {"letters": []}, {"letters": [{}]}, {"letters": [1]}, {"letters": letters + [{}]}):
        d.fails(400, "invalid", "POST", "/v1/dead/import", wrong)
    error = d.fails(400, "invalid", "POST", "/v1/dead/import", {"letters": letters[:1] + [dict(letters[1], reason=77)]})
    assert "entry 2 reason:" in error["message"] and d.ok("GET", "/v1/dead?type=carry")["total"] == 0, error
    answer = d.ok("POST", "/v1/dead/import", {"letters": letters + [dict(letters[0], id=UNKNOWN_ID[:-1] + "7", box="nowhere")]})
    assert (answer["stored"], answer["duplicates"], answer["unknown_box"]) == (3, [], [UNKNOWN_ID[:-1] + "7"]), answer
    assert d.ok("GET", "/v1/audit?limit=1")["audit"][0]["target"]["ids"][:3] == ids  # B202
    assert d.ok("GET", "/v1/dead/export?type=carry")["letters"] == letters
    assert d.run("dead", "export", "--type", "carry", "-c", "c.yaml").splitlines() == [
        json.dumps(m, separators=(",", ":"), ensure_ascii=False) for m in letters]
    d.ok("POST", "/v1/dead/discard", {"filter": {"type": "carry"}})


@test
def every_change_leaves_one_line_in_the_record(d):  # B202
    """With who did it, what, and to how many."""
    ids = [d.send(type="rec", destination="good", due_at="1h", stream="rec") for _ in range(12)]
    make_dead(d, "rec.slow", 6)
    d.ok("POST", "/v1/dead/replay", {"filter": {"type": "rec.slow"}, "rate": 1}, status=202)
    replay = "/v1/replays/" + d.ok("GET", "/v1/replays")["replays"][0]["id"]
    one = "/v1/messages/%s/"
    table = [
        ("POST /v1/replays/{id}/stop", replay + "/stop", {}, "replay_stop", 1),
        ("POST /v1/replays/{id}/resume", replay + "/resume", {}, "replay_resume", 1),
        ("POST /v1/messages/{id}/park", one % ids[0] + "park", {}, "park", 1),
        ("POST /v1/messages/{id}/retry", one % ids[1] + "retry", {}, "retry", 1),
        ("POST /v1/messages/{id}/discard", one % ids[2] + "discard", {}, "discard", 1),
        ("POST /v1/messages/{id}/release", one % ids[3] + "release", {}, "release", 1),
        ("POST /v1/messages/park", "/v1/messages/park", {"ids": ids[4:6]}, "park", 2),
        ("POST /v1/messages/retry", "/v1/messages/retry", {"ids": ids[4:6]}, "retry", 2),
        ("POST /v1/messages/release", "/v1/messages/release", {"ids": ids[6:7]}, "release", 1),
        ("POST /v1/messages/discard", "/v1/messages/discard", {"ids": ids[6:8]}, "discard", None),
        ("POST /v1/messages/{id}/dead", one % ids[8] + "dead", {}, "dead_add", 1),
        ("POST /v1/dead/{id}/note", "/v1/dead/%s/note" % ids[8], {"text": "so"}, "dead_note", 1),
        ("POST /v1/dead/{id}/edit", "/v1/dead/%s/edit" % ids[8], {"payload": 1}, "dead_edit", 1),
        ("POST /v1/dead/discard", "/v1/dead/discard", {"ids": [ids[8]]}, "dead_discard", 1),
        ("POST /v1/dead/import", "/v1/dead/import", None, "dead_import", 1),
        ("POST /v1/dead/replay", "/v1/dead/replay", {"ids": [ids[9]], "filter": {"endpoint": "good"}}, "dead_replay", 1),
        ("POST /v1/streams/release", "/v1/streams/release", {"stream": "rec"}, "release", None),
        ("POST /v1/endpoints/{name}/pause", "/v1/endpoints/bad/pause", {}, "pause", 1),
        ("POST /v1/endpoints/{name}/resume", "/v1/endpoints/bad/resume", {}, "resume", 1),
        ("POST /v1/endpoints/{name}/test", "/v1/endpoints/good/test", {}, "endpoint_test", 1),
        ("POST /v1/subscriptions/{name}/reset", "/v1/subscriptions/rec/reset", {"position": 0}, "subscription_reset", 1),
        ("POST /v1/subscriptions/{name}/remove", "/v1/subscriptions/rec/remove", {}, "subscription_remove", 1),
        ("POST /v1/messages/{id}/reschedule", one % ids[10] + "reschedule", {"to": "2h"}, "reschedule", 1),
        ("POST /v1/messages/reschedule", "/v1/messages/reschedule", {"ids": ids[10:12], "to": "2h"}, "reschedule", 2),
        ("POST /v1/schedules", "/v1/schedules", {"name": "rec", "cron": "@yearly", "type": "rec"}, "schedule_add", 1),
        ("POST /v1/schedules/{name}/run", "/v1/schedules/rec/run", {}, "schedule_run", 1),
        ("POST /v1/schedules/{name}/pause", "/v1/schedules/rec/pause", {}, "park", 1),
        ("POST /v1/schedules/{name}/resume", "/v1/schedules/rec/resume", {}, "reschedule", 1),
        ("POST /v1/schedules/{name}/reschedule", "/v1/schedules/rec/reschedule", {"to": "1h"}, "reschedule", 1),
        ("POST /v1/schedules/{name}/cancel", "/v1/schedules/rec/cancel", {}, "discard", 1),
    ]
    d.ok("POST", "/v1/subscriptions/rec/claim", {"worker": "w"})
    made = {r for r in ROUTES.replace("\n", "|").split("|") if r.startswith("POST")}
    work = ("POST /v1/claims", "POST /v1/snapshots") + tuple("POST /v1/subscriptions/{name}/" + w for w in ("claim", "acknowledge", "release"))
    made = {route for route in made if not route.startswith(work)}  # the work itself, which the story tells
    made = {route for route in made if not route.startswith("POST /v1/flows")}  # see test/flow/people
    assert made == {route for route, *_ in table} | {"POST /v1/messages", "POST /v1/events", "POST /v1/requests"}, made  # a message is its own record
    mine = lambda: [e for e in d.ok("GET", "/v1/audit?limit=100")["audit"] if e["who"] == "rec (http)"]
    for count, (_, path, body, action, changed) in enumerate(table, 1):
        if body is None:
            d.ok("POST", one % ids[9] + "dead", {"why": "w"})
            body = {"letters": d.ok("GET", "/v1/dead/export?type=rec")["letters"]}
            d.ok("POST", "/v1/dead/discard", {"ids": [ids[9]]})
        body = body if action == "dead_note" else dict(body, why="so")
        status, answer = d.ask("POST", path, body, **{"X-Postrider-User": "rec"})
        assert status in (200, 202), (path, status, answer)
        lines = mine()
        assert len(lines) == count, (path, lines)
        line = lines[0]
        assert (line["action"], line["why"]) == (action, "so") and changed in (None, line["changed"]), (path, line)
        assert line["target"] and line["matched"] >= line["changed"], (path, line)
    d.ok("POST", replay + "/stop")
    for path in "/v1/messages/discard", "/v1/dead/discard":
        d.ok("POST", path, {"filter": {"type": "rec*"}})


@test
def streams_come_in_pages(d):
    for i in range(5):
        d.send(type="s", destination="bad", stream="pages-%d" % i)
    wait_for("failed", lambda: len(d.ok("GET", "/v1/messages?type=s&state=retrying")["messages"]) == 5)
    page, seen = d.ok("GET", "/v1/streams?limit=2"), []
    while True:
        seen += [s["stream"] for s in page["streams"]]
        if not page["next"]:
            break
        page = d.ok("GET", "/v1/streams?limit=2&after=" + page["next"])
    assert len(seen) == len(set(seen)) and {"pages-%d" % i for i in range(5)} <= set(seen), seen
    by_command = [json.loads(line) for line in d.run("streams", "--limit", "2", "--json", "-c", "c.yaml").splitlines()]
    rest = d.run("streams", "--after", by_command[-1]["after"], "--json", "-c", "c.yaml").splitlines()
    assert [s["stream"] for s in by_command] + [json.loads(line)["stream"] for line in rest] == seen
    d.fails(400, "invalid", "GET", "/v1/streams?after=x")
    d.run("streams", "--after", "x", "-c", "c.yaml", code=2)
    d.ok("POST", "/v1/messages/discard", {"filter": {"type": "s"}})


@test
def endpoints_say_how_fast_they_are(d):
    rate = lambda: next(e for e in d.ok("GET", "/v1/endpoints")["endpoints"] if e["name"] == "good")["rates"]
    rate()  # the next one is since this one, or one before
    d.wait_state(d.send(type="a.rate"), "done")
    wait_for("it is counted", lambda: (rate() or {"sent_per_second": 0})["sent_per_second"] > 0)
    assert rate()["over_seconds"] > 0 and rate()["failed_per_second"] == 0
    look = subprocess.Popen([PROGRAM, "endpoints", "--for", "300ms", "--json", "-c", "c.yaml"], cwd=d.path, stdout=subprocess.PIPE, env=d.env)
    said = {e["name"]: e for e in map(json.loads, look.communicate(timeout=DEADLINE_SECONDS)[0].splitlines())}
    assert said["good"]["rates"]["over_seconds"] >= 0.3, said["good"]
    assert json.loads(d.run("endpoints", "--json", "-c", "c.yaml").splitlines()[0])["rates"] is None
    assert "SENT/S" in d.run("endpoints", "--for", "1ms", "-c", "c.yaml")


@test
def endpoints_are_paused_resumed_and_tested(d):
    assert {e["name"] for e in d.ok("GET", "/v1/endpoints")["endpoints"]} == {"good", "bad", "dead", "shaky"}
    d.ok("POST", "/v1/endpoints/good/pause", {"for": "1h", "why": "deploy"})
    good = next(e for e in d.ok("GET", "/v1/endpoints")["endpoints"] if e["name"] == "good")
    assert (good["state"], good["why"], good["transport"]) == ("paused", "deploy", "null") and "url" not in good
    wait_for("the gauge", lambda: d.gauge("postrider_endpoint_state", endpoint="good", state="paused") == 1)
    assert any(c["name"] == "paused" for c in d.ok("GET", "/v1/status")["checks"])
    id = d.ok("POST", "/v1/endpoints/good/test", status=202)["id"]
    wait_for("it waits", lambda: d.state(id) == "paused")
    d.ok("POST", "/v1/endpoints/good/resume")
    d.wait_state(id, "done")
    d.fails(404, "not_found", "POST", "/v1/endpoints/nowhere/pause")
    d.fails(404, "not_found", "POST", "/v1/endpoints/nowhere/test")


@test
def events_tell_what_happens(d):
    with contextlib.closing(d.connection()) as all_of_it, contextlib.closing(d.connection()) as some:
        response = event_lines(all_of_it, "/v1/feed")
        deaths = event_lines(some, "/v1/feed?kind=dead,changed&endpoint=dead")
        id = d.send(type="a.e")
        kind, data = next_event(response, id)
        assert (kind, data["id"], data["box"], data["endpoint"]) == ("sent", id, "outbox", "good"), (kind, data)
        bad = d.send(type="e", destination="bad")
        kind, data = next_event(response, id, bad)
        assert (kind, data["id"], data["reason"]) == ("failed", bad, "transport_unavailable") and data["next_at"], (kind, data)
        dead = d.send(type="e", destination="dead")
        assert next_event(response, id, bad, dead)[0] == "dead"
        kind, data = next_event(deaths, id, bad, dead)
        assert (kind, data["id"], data["rule"]) == ("dead", dead, "at once"), data
        d.ok("POST", "/v1/messages/%s/discard" % bad)
        kind, data = next_event(response, id, bad, dead)
        assert (kind, data["id"]) == ("changed", bad) and data["what"].startswith("discard: 1")
    for wrong in ("kind=odd", "colour=1"):
        d.fails(400, "invalid", "GET", "/v1/feed?" + wrong)


@test
def events_tell_when_a_breaker_opens_and_when_it_closes(d):
    with contextlib.closing(d.connection()) as c:
        response = event_lines(c, "/v1/feed?kind=endpoint&endpoint=shaky")
        id = d.send(type="e", destination="shaky")
        for what in ("open", "closed"):
            kind, data = next_event(response, None)
            assert (kind, data["endpoint"], data["breaker"]) == ("endpoint", "shaky", what), (kind, data)
            open(os.path.join(d.path, "up"), "w", encoding="utf-8").close()
        d.wait_state(id, "done")


@test
def a_slow_listener_is_dropped_and_holds_nobody_up(d):
    with contextlib.closing(socket.socket()) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(DEADLINE_SECONDS)
        s.connect(("127.0.0.1", d.port))
        s.sendall(b"GET /v1/feed HTTP/1.1\r\nHost: localhost\r\n\r\n")
        got = s.recv(300)
        assert got.startswith(b"HTTP/1.1 200"), got
        event = {"specversion": "1.0", "type": "a.flood", "source": "x"}
        for i in range(6):
            batch = [dict(event, id="%d-%d" % (i, k)) for k in range(1000)]
            status, text, _ = d.raw("POST", "/v1/messages", json.dumps(batch), {"Content-Type": "application/cloudevents-batch+json"})
            assert status == 202, text
        wait_for("all are sent", lambda: d.sql("SELECT count(*) FROM postrider_done WHERE type = 'a.flood'")[0][0] == 6000)
        rest = b""
        while True:
            piece = s.recv(65536)
            rest = (rest + piece)[-400:]
            if not piece or rest.endswith(b"0\r\n\r\n"):
                break
        assert b": dropped:" in rest, rest


# ---- Metrics ----

def check_format(text):
    """What promtool check metrics looks at: every family has HELP and TYPE once and before its samples, together."""
    families, current, seen = {}, None, set()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current = line.split(" ", 3)[2]
            assert current not in families and line.split(" ", 3)[3].endswith("."), line
            families[current] = None
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current and kind in ("counter", "gauge", "histogram"), line
            assert name.endswith("_total") == (kind == "counter"), line
            families[name] = kind
        else:
            match = re.fullmatch(r'([a-z_]+)(\{([a-z_]+="[^"\\]*",?)+\})? -?[0-9.e+-]+', line)
            assert match, line
            base = match[1]
            if families[current] == "histogram":
                base = re.sub("_(bucket|sum|count)$", "", base)
            assert base == current and line.rsplit(" ", 1)[0] not in seen, line
            seen.add(line.rsplit(" ", 1)[0])
    assert text.endswith("\n")
    return families


@test
def metrics_agree_with_each_other_and_with_sql(d):  # B201, I17
    for i in range(3):
        d.send(type="a.m")
    d.send(type="m", destination="dead")
    d.send(type="m", destination="bad", stream="m")
    d.send(type="m", destination="bad", due_at="1h")
    wait_for("settled", lambda: d.sql("SELECT count(*) FROM outbox WHERE due_at IS NULL AND held_by IS NULL")[0][0] == 0)
    for text in ("ready", "in-flight", "delayed", "retrying", "held", "parked", "paused", "dead", "done"):
        count = {"dead": "SELECT count(*) FROM postrider_dead_letter WHERE box = 'outbox'", "done": "SELECT count(*) FROM postrider_done WHERE box = 'outbox'"}.get(
            text, "SELECT count(*) FROM postrider_messages WHERE box = 'outbox' AND state = '%s'" % text)
        wait_for(text, lambda: d.gauge("postrider_messages", box="outbox", state=text) == d.sql(count)[0][0])
    for name, sent, failed in d.sql("SELECT name, sent, failed FROM postrider_endpoint_overview WHERE name <> ''"):
        wait_for(name, lambda: (d.gauge("postrider_sends_total", endpoint=name, outcome="ok"),
                                d.gauge("postrider_sends_total", endpoint=name, outcome="failed")) == (sent, failed))
        wait_for("durations", lambda: d.gauge("postrider_send_duration_seconds_count", endpoint=name) >= sent + failed)
        wait_for("reasons", lambda: (d.gauge("postrider_failures_total", endpoint=name, reason="transport_unavailable") or 0) == failed)
    dead = d.sql("SELECT count(*) FROM postrider_dead_letter WHERE box = 'outbox' AND failure_reason = 1")[0][0]
    wait_for("dead letters", lambda: (d.gauge("postrider_dead_letters", box="outbox", reason="transport_unavailable") or 0) == dead)
    once = d.sql("SELECT count(*) FROM outbox WHERE failures = 1")[0][0]
    assert once > 0
    wait_for("failed once", lambda: d.gauge("postrider_messages_failed", box="outbox", failures="1") == once)
    due = d.sql("SELECT min({MICROSECONDS(due_at)}), max({MICROSECONDS(due_at)}) FROM outbox WHERE failures > 0 AND due_at < {NEVER}")[0]
    assert abs(d.gauge("postrider_next_retry_timestamp_seconds", box="outbox") - due[0] / 1e6) < 0.01
    assert abs(d.gauge("postrider_last_retry_timestamp_seconds", box="outbox") - due[1] / 1e6) < 0.01
    assert d.gauge("postrider_store_up") == 1
    wait_for("new counts", lambda: d.gauge("postrider_counts_age_seconds") < 10)
    assert d.gauge("postrider_commit_to_send_seconds_count", box="outbox") > 0
    assert d.gauge("postrider_lanes_owned", box="outbox") == 64
    wait_for("ends", lambda: sum(d.gauge("postrider_messages_ended_total", box=b, end="sent") for b in ("outbox", "ledger")) ==
             d.sql("SELECT sum(sent) FROM postrider_endpoint_overview")[0][0])
    text = d.metrics()
    check_format(text)


# ---- Health ----

@test
def health_is_about_the_store_and_warnings_have_advice(d):
    assert d.ask("GET", "/health/live") == (200, {"status": "ok"}) and d.ask("GET", "/health/ready")[0] == 200
    for i in range(12):  # a broken endpoint makes nothing unready, but people are told
        d.send(type="w", destination="dead")
    wait_for("deaths", lambda: any(c["name"] == "dying" for c in d.ok("GET", "/v1/status")["checks"]))
    status = d.ok("GET", "/v1/status")
    code, ready = d.ask("GET", "/health/ready")
    assert status["health"] == "warn" and code == 200 and ready["status"] == "warn" and "attempts all failed" in ready["why"], ready
    assert any(c["name"] == "failing" and "postrider endpoints test" in c["advice"] for c in status["checks"]), status["checks"]
    wait_for("the gauge", lambda: d.gauge("postrider_endpoint_failed_in_row", endpoint="dead") >= 12)
    wait_for("the same from the command", lambda: [dict(b, oldest_age_seconds=0) for b in json.loads(d.run("status", "--json", "-c", "c.yaml"))["boxes"]] ==
             [dict(b, oldest_age_seconds=0) for b in d.ok("GET", "/v1/status")["boxes"]])
    # Handed out again and again without an outcome.
    id = d.send(type="w", destination="good", due_at="2h")
    d.sql("UPDATE outbox SET attempts = 4 WHERE id = {ID %s}" % id)
    assert d.ok("GET", "/health")["status"] == "warn"
    assert any(c["name"] == "poison" and "park" in c["advice"] for c in d.ok("GET", "/v1/status")["checks"])
    wait_for("the gauge", lambda: d.gauge("postrider_poison_candidates", box="outbox") == 1)
    version = int(d.sql("SELECT value FROM postrider_meta WHERE key = 'schema_version'")[0][0])
    d.sql("UPDATE postrider_meta SET value = '%d' WHERE key = 'schema_version'" % (version + 1000))
    status, answer = d.ask("GET", "/health/ready")
    assert status == 503 and answer["status"] == "error" and answer["why"], answer
    assert d.ask("GET", "/health/live")[0] == 200
    d.sql("UPDATE postrider_meta SET value = '%d' WHERE key = 'schema_version'" % version)
    assert d.ask("GET", "/health/ready")[0] == 200


# ---- The document ----

ROUTES = """POST /v1/messages|GET /v1/messages|GET /v1/messages/{id}|POST /v1/messages/{id}/retry|POST /v1/messages/{id}/release
POST /v1/messages/{id}/park|POST /v1/messages/{id}/discard|GET /v1/dead|GET /v1/dead/groups|POST /v1/dead/replay|POST /v1/dead/discard
POST /v1/dead/{id}/edit|GET /v1/endpoints|POST /v1/endpoints/{name}/pause|POST /v1/endpoints/{name}/resume|POST /v1/endpoints/{name}/test
POST /v1/claims|POST /v1/claims/complete|POST /v1/claims/fail|POST /v1/claims/abandon|POST /v1/claims/release
POST /v1/claims/renew|GET /v1/streams|POST /v1/streams/release|GET /v1/boxes|GET /v1/instances|GET /v1/status|GET /v1/audit|GET /v1/events|POST /v1/events|GET /v1/subscriptions|POST /v1/subscriptions/{name}/claim|POST /v1/subscriptions/{name}/acknowledge|POST /v1/subscriptions/{name}/release
POST /v1/subscriptions/{name}/reset|POST /v1/subscriptions/{name}/remove|GET /v1/snapshots|POST /v1/snapshots|GET /v1/feed|GET /metrics|GET /health|GET /health/live
GET /health/ready|GET /openapi.json|POST /v1/messages/retry|POST /v1/messages/release|POST /v1/messages/park|POST /v1/messages/discard
POST /v1/messages/{id}/dead|POST /v1/dead/{id}/note|GET /v1/dead/export|POST /v1/dead/import|GET /v1/replays|GET /v1/replays/{id}
POST /v1/replays/{id}/stop|POST /v1/replays/{id}/resume|POST /v1/messages/reschedule|POST /v1/messages/{id}/reschedule
GET /v1/requests/{id}|POST /v1/requests|GET /v1/schedules|GET /v1/schedules/{name}|POST /v1/schedules|POST /v1/schedules/{name}/run|POST /v1/schedules/{name}/pause
POST /v1/schedules/{name}/resume|POST /v1/schedules/{name}/cancel|POST /v1/schedules/{name}/reschedule
POST /v1/flows|GET /v1/flows|POST /v1/flows/prune|GET /v1/flows/{id}|DELETE /v1/flows/{id}|GET /v1/flows/{id}/history
GET /v1/flows/{id}/executions|POST /v1/flows/{id}/raise|POST /v1/flows/{id}/send|POST /v1/flows/{id}/cancel
POST /v1/flows/{id}/retry|GET /v1/flows/{id}/wait"""


def compare(schema, answer, where, optional):
    """Every member is described, and every described one is there, unless it is optional."""
    if schema["type"] == "array":
        for item in answer:
            compare(schema["items"], item, where + "[]", optional)
    elif schema["type"] == "object":
        assert set(answer) - optional == set(schema["properties"]) - optional, (where, sorted(answer))
        for key, value in answer.items():
            compare(schema["properties"][key], value, where + "." + key, optional)
    else:
        types = {"string": str, "integer": int, "boolean": bool}
        assert type(answer) is types[schema["type"]] or (answer is None and schema.get("nullable")), (where, answer)


@test
def a_request_waits_for_its_reply(d):  # B214
    status, answer = d.ask("POST", "/v1/requests", {"type": "ask", "destination": "good", "payload": 1, "wait": "50ms"})
    assert status == 202 and answer["state"] == "waiting" and answer["reply"] is None, answer
    at = "/v1/requests/" + answer["id"]
    d.wait_state(answer["id"], "done")
    assert d.ok("GET", at + "?wait=50ms")["state"] == "waiting"
    d.send(type="answer", payload={"n": 5}, headers={"postrider-reply": answer["id"]})
    got = d.ok("GET", at + "?wait=20s")
    assert got["state"] == "replied" and got["reply"]["type"] == "answer", got
    assert json.loads(got["reply"]["payload"]) == {"n": 5} and got["reply"]["correlation_id"] == answer["id"], got
    d.ok("POST", "/v1/endpoints/good/pause", {})  # what was sent again would wait here
    again = d.ok("POST", "/v1/requests", {"type": "ask", "destination": "good", "payload": 1, "id": answer["id"], "wait": "20s"})
    assert again["state"] == "replied" and again["reply"]["id"] == got["reply"]["id"], again
    assert not d.ok("GET", "/v1/messages?type=ask")["messages"]
    d.ok("POST", "/v1/endpoints/good/resume", {})
    d.fails(404, "not_found", "GET", "/v1/requests/0190163d-8694-739b-aea5-0000000000aa")
    d.fails(422, "unknown_endpoint", "POST", "/v1/requests", {"type": "ask", "destination": "nobody"})
    d.fails(404, "unknown_box", "POST", "/v1/requests", {"type": "ask", "box": "nowhere"})
    d.fails(400, "invalid", "POST", "/v1/requests", {"payload": 1})


def memory_kib(d, name):
    with open("/proc/%d/status" % d.process.pid, encoding="utf-8") as f:
        return int(re.search(name + r":\s+(\d+)", f.read()).group(1))


@test
def who_waits_for_a_reply_takes_no_memory_with_each_look():  # B206
    with open_daemon() as d:
        def all_wait(wait):
            waits = [threading.Thread(target=d.ok, args=("GET", "/v1/requests/%s?wait=%s" % (id, wait))) for id in ids]
            for each in waits:
                each.start()
            for each in waits:
                each.join()
        d.ok("POST", "/v1/endpoints/good/pause", {})
        ids = [d.ok("POST", "/v1/requests", {"type": "ask", "destination": "good", "payload_text": "x" * 60000}, status=202)["id"]
               for _ in range(20)]
        all_wait("50ms")
        before = memory_kib(d, "VmHWM")
        all_wait("6s")  # about 28 looks each
        sanitized = memory_kib(d, "VmSize") > 1 << 30  # what is freed stays there for a while
        assert sanitized or memory_kib(d, "VmHWM") - before < 12000, (before, memory_kib(d, "VmHWM"))


@test
def the_openapi_document_says_what_the_server_does(d):
    document = d.ok("GET", "/openapi.json")
    buried = d.send(type="buried", destination="dead")
    d.wait_state(buried, "dead")
    schema = document["paths"]["/v1/dead/groups"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    groups = d.ok("GET", "/v1/dead/groups")
    assert groups["groups"]
    compare(schema, groups, "groups", {"looked_at"})
    described = {"%s %s" % (m.upper(), p) for p, methods in document["paths"].items() for m in methods}
    assert described == set(ROUTES.replace("\n", "|").split("|")), described
    id = d.send(type="doc", destination="bad")
    d.wait_state(id, "retrying")
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            url = path.replace("{id}", id).replace("{name}", "good")
            names = [p["name"] for p in operation["parameters"] if p["in"] == "query"]
            assert ("{" in path) == any(p["in"] == "path" for p in operation["parameters"])
            tries = [(url, None)] + [(url + "?%s=~" % n, None) for n in names] + [(url + "?nonsense=1", None)]
            if path.endswith("/wait"):  # it would, for a flow that does not come
                tries[0] = (url + "?timeout=0s", None)
            if "requestBody" in operation:
                schema = operation["requestBody"]["content"]["application/json"].get("schema", {"properties": {"type": {}}})
                tries += [(url, {}), (url, {"nonsense": 1}), (url, {k: "x" for k in schema["properties"]})]
            for address, body in tries:
                headers = {"X-Postrider": "1", "Content-Type": "application/json"} if method != "get" else {}
                c = d.connection()
                c.request(method.upper(), address, json.dumps(body) if body is not None else None, headers)
                r = c.getresponse()
                answer = operation["responses"].get(str(r.status))
                assert answer, (method, address, body, r.status, r.read())
                assert r.getheader("Content-Type").split(";")[0] in answer["content"], (address, r.getheader("Content-Type"))
                c.close()
            assert d.raw("PATCH", url)[0] == 405, url


# ---- The machinery ----

@contextlib.contextmanager
def open_daemon(listen="'127.0.0.1:0'", more=""):
    d = Daemon(listen, more)
    try:
        yield d
    except BaseException:
        d.process.kill()
        d.process.wait()
        d.process.stdout.close()
        sys.stdout.write("".join("# " + line for line in open(os.path.join(d.path, "log"), encoding="utf-8").readlines()[-5:]))
        shutil.rmtree(d.path)
        raise
    d.stop()


def run_one(function, shared):
    if function.__code__.co_argcount == 0:
        function()
    else:
        function(shared)


def main():
    tests = [t for t in TESTS if len(sys.argv) < 4 or sys.argv[3] in t.__name__]
    failed = 0
    print("1..%d" % len(tests), flush=True)
    with open_daemon() as shared:
        for number, function in enumerate(tests, 1):
            begin = time.monotonic()
            try:
                run_one(function, shared)
                print("ok %d - %s # %.2f s" % (number, function.__name__, time.monotonic() - begin), flush=True)
            except Exception:
                failed += 1
                print("not ok %d - %s" % (number, function.__name__))
                print("".join("# " + line + "\n" for line in traceback.format_exc().splitlines()), flush=True)
    sys.exit(1 if failed else 0)


main()
