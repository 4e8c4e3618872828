#!/usr/bin/env python3
"""Activities that are not C functions: pushed to an HTTP endpoint, or claimed by workers of any language.

Usage: activities_test.py POSTRIDER HOST sqlite [WORD], or cluster.sh activities_test.py POSTRIDER HOST postgres [WORD]: only the
tests whose name contains WORD.  The output is TAP.
"""
import http.server
import json
import os
import subprocess
import sys
import threading

from place import CLIENTS, DEADLINE_SECONDS, OPERATOR, Place, UnixConnection, main, test, wait_for

sys.path.append(os.path.join(CLIENTS, "python"))
import postrider

EXAMPLES = os.path.join(CLIENTS, "..", "examples")


class Hook(http.server.BaseHTTPRequestHandler):
    """Does activities that are pushed: the name says how."""
    lock, seen = threading.Lock(), []

    def do_POST(self):
        body, name = self.rfile.read(int(self.headers["Content-Length"])), self.headers["ce-type"]
        with Hook.lock:
            Hook.seen.append((name, self.headers["ce-id"], body))
            count = sum(1 for n, _, b in Hook.seen if (n, b) == (name, body))
        if name == "push.lost":
            self.close_connection = True  # as if it had been killed
            self.connection.close()
        elif name == "push.flaky" and count < 3:
            self.answer(500, b"not yet")
        elif name == "push.declined":
            self.answer(422, b"no such card")
        elif name == "push.json":
            self.answer(500, json.dumps({"category": "application", "message": "in JSON", "retryable": False}).encode())
        elif name == "push.hang":
            threading.Event().wait(20)
            self.answer(200, b"too late")
        elif name == "push.long":
            self.answer(200, b"x" * (2 << 20))
        else:
            self.answer(200, b"pushed " + body)

    def answer(self, status, body):
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            pass

    def log_message(self, *_):
        pass


def place():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return Place("""
lease: 9s
limits: {payload: 1MiB}
endpoints:
  workers: {url: "pull:", timeout: 10s, max_attempts: 3}
  hook: {url: "http://127.0.0.1:%d/", allow_networks: [127.0.0.0/8], max_attempts: 3}
routes:
  - {box: activities, type: "pi.*", to: workers}
  - {box: activities, type: "py.*", to: workers}
  - {box: activities, type: "card.*", to: workers}
  - {box: activities, type: "push.*", to: hook}
  - {box: activities, type: "push.*", header: {tag: eu}, to: hook}
""" % server.server_address[1])


def start(p, id, name, data="", tag="", tries=0, timeout_ms=0):
    p.run("flow", "start", "ask", id, "--data", "%s|%s|%d|%d|%s" % (name, tag, tries, timeout_ms, data))


def end(p, id):
    return p.wait_shown(id, lambda s: s["state"] in ("completed", "failed", "cancelled"))


def claim(p, **wish):
    c = UnixConnection(os.path.join(p.path, "s"))
    c.connect()
    kept = c.sock.dup()  # closed before the server has closed it, it may be taken for one that never got the answer
    try:
        headers = {"Authorization": "Bearer " + OPERATOR, "X-Postrider": "1", "Content-Type": "application/json"}
        c.request("POST", "/v1/claims", body=json.dumps({"box": "activities", "wait": "5s", **wish}), headers=headers)
        answer = c.getresponse()
        body = json.loads(answer.read())
        assert answer.status == 200, body
        assert kept.recv(1) == b""
    finally:
        kept.close()
        c.close()
    return body["claims"][0] if body["claims"] else None


def claim_one(p, **wish):
    return wait_for("a claim", lambda: claim(p, **wish))


def say(p, verb, one, **more):
    """Whether the end of a claim was recorded."""
    return p.ok("POST", "/v1/claims/" + verb, {"claims": [{"token": one["token"], **more}]})["results"][0]["result"]


def ends(p, verb, one, **more):
    got = say(p, verb, one, **more)
    assert got == "ok", (verb, one, got)


# ---- Pushed ----


@test
def a_pushed_activity_answers_with_its_output(p):  # B100
    start(p, "push-1", "push.plain", "a b")
    assert end(p, "push-1")["output"] == "pushed a b"


@test
def a_pushed_activity_is_tried_again_by_its_own_policy(p):  # B106
    start(p, "push-2", "push.flaky", "x", tries=3)
    assert end(p, "push-2")["output"] == "pushed x"
    ids = {i for n, i, _ in Hook.seen if n == "push.flaky"}
    assert len(ids) == 1, ids  # what makes an idempotency key
    start(p, "push-3", "push.flaky", "y", tries=2)
    error = end(p, "push-3")["error"]
    assert (error["category"], error["message"]) == ("application", "not yet"), error


@test
def what_a_pushed_activity_refuses_reaches_its_flow_at_once(p):  # B165
    start(p, "push-4", "push.declined", tries=100)
    error = end(p, "push-4")["error"]
    assert (error["category"], error["message"]) == ("application", "no such card"), error
    start(p, "push-5", "push.json", tries=100)
    assert end(p, "push-5")["error"]["message"] == "in JSON"


@test
def a_pushed_activity_has_the_time_of_its_policy(p):  # B106
    start(p, "push-6", "push.hang", timeout_ms=300)
    error = end(p, "push-6")["error"]
    assert error["category"] == "application" and "timed out" in error["message"].lower(), error


@test
def an_activity_that_kills_its_endpoint_is_poison(p):  # B140, B145, B146
    start(p, "push-7", "push.lost", tries=100)
    error = end(p, "push-7")["error"]
    assert (error["category"], error["count"], error["limit"]) == ("poison", 4, 3), error
    assert error["message"].startswith("poison: activity push.lost#1 exceeded 4 attempts (max 3)"), error
    assert sum(1 for n, _, _ in Hook.seen if n == "push.lost") == 3
    dead = [d for d in p.json("dead", "list", "--box", "activities") if d["type"] == "push.lost"]
    assert len(dead) == 1, dead


@test
def an_answer_that_is_too_long_is_a_failure(p):
    start(p, "push-8", "push.long", tries=5)
    assert "more than 1048576 bytes" in end(p, "push-8")["error"]["message"]


@test
def a_pushed_activity_with_a_tag_goes_only_where_the_route_names_it(p):  # B113
    start(p, "push-9", "push.plain", "z", tag="eu")
    assert end(p, "push-9")["output"] == "pushed z"
    start(p, "push-10", "push.plain", "q", tag="us")
    p.wait_shown("push-10", lambda s: any(w["tag"] == "us" and w.get("last_error") for w in s["waits_for"]))
    assert not any(b == b"q" for _, _, b in Hook.seen)
    p.run("flow", "cancel", "push-10")


# ---- Claimed ----


@test
def a_claimed_activity_is_completed_with_its_output(p):  # B100
    start(p, "pull-1", "pi.plain", "in")
    one = claim_one(p)
    m = one["message"]
    assert (m["type"], m["payload"], m["headers"]["flow"], m["headers"]["task"]) == ("pi.plain", "in", "pull-1", 1), m
    ends(p, "complete", one, output="out")
    assert end(p, "pull-1")["output"] == "out"
    start(p, "pull-2", "pi.plain")
    ends(p, "complete", claim_one(p), output_base64="/w==")
    assert end(p, "pull-2")["output_base64"] == "/w=="
    start(p, "pull-3", "pi.plain")
    ends(p, "complete", claim_one(p))
    assert end(p, "pull-3")["state"] == "completed"


@test
def a_claimed_activity_that_failed_is_tried_again_by_its_own_policy(p):  # B106
    start(p, "pull-4", "pi.plain", tries=2)
    ends(p, "fail", claim_one(p), error="once")
    again = claim_one(p)
    assert again["attempt"] == 2, again
    ends(p, "fail", again, error="twice")
    assert end(p, "pull-4")["error"]["message"] == "twice"
    start(p, "pull-5", "pi.plain", tries=100)
    ends(p, "fail", claim_one(p), error="never", retryable=False)
    assert end(p, "pull-5")["error"]["message"] == "never"


@test
def a_claim_that_is_abandoned_counts_until_it_is_poison(p):  # B140, B142
    start(p, "pull-6", "pi.plain", tries=100)
    for _ in range(3):
        ends(p, "abandon", claim_one(p))
    error = end(p, "pull-6")["error"]
    assert (error["category"], error["count"], error["limit"]) == ("poison", 4, 3), error


@test
def a_release_counts_nothing(p):  # B149
    start(p, "pull-7", "pi.plain")
    for _ in range(6):
        ends(p, "release", claim_one(p))
    ends(p, "complete", claim_one(p), output="at last")
    assert end(p, "pull-7")["output"] == "at last"


@test
def a_claim_gets_only_what_it_offers(p):  # B113
    start(p, "pull-8", "pi.plain", tag="gpu")
    assert claim(p, wait="1s") is None
    assert claim(p, wait="1s", tags=["cpu"]) is None
    one = claim_one(p, tags=["cpu", "gpu"])
    assert one["message"]["headers"]["tag"] == "gpu"
    ends(p, "abandon", one)
    assert claim(p, wait="1s", tags=["cpu"]) is None  # it still needs what it needed
    one = claim_one(p, tags=["gpu"])
    assert one["message"]["headers"]["tag"] == "gpu" and one["attempt"] == 2, one
    ends(p, "complete", one, output="rendered")
    assert end(p, "pull-8")["output"] == "rendered"
    start(p, "pull-9", "pi.plain")
    ends(p, "complete", claim_one(p, tags=["gpu"]), output="plain")  # what needs nothing goes to all
    assert end(p, "pull-9")["output"] == "plain"


@test
def an_activity_that_nobody_claims_in_time_fails(p):  # B106
    p.run("flow", "start", "soon", "pull-11", "--data", "pi.plain")
    error = end(p, "pull-11")["error"]
    assert "was not started in time" in error["message"], error


@test
def a_claim_of_a_cancelled_activity_is_stale_at_its_next_renewal(p):  # B129
    start(p, "pull-10", "pi.plain")
    one = claim_one(p)
    p.run("flow", "cancel", "pull-10")
    wait_for("stale", lambda: p.ok("POST", "/v1/claims/renew", {"claims": [{"token": one["token"]}]})["results"][0]["result"] == "stale")
    assert say(p, "complete", one, output="late") == "stale"
    assert end(p, "pull-10")["state"] == "cancelled"


@test
def bad_ends_of_claims_are_refused_with_their_place(p):
    token = "0" * 16 + "-" + "0" * 16 + "-1"
    for verb, more, words in (("fail", {"output": "x"}, "output: only with complete"),
                              ("complete", {"output": "x", "output_base64": "eA=="}, "not both"),
                              ("complete", {"output_base64": "?"}, "not valid base64"),
                              ("complete", {"output": 5}, "wrong type"),
                              ("fail", {"retryable": "no"}, "wrong type")):
        assert words in p.fails(400, "invalid", "POST", "/v1/claims/" + verb, {"claims": [{"token": token, **more}]})
    assert "tags" in p.fails(400, "invalid", "POST", "/v1/claims", {"box": "activities", "tags": [1]})
    assert "tags" in p.fails(400, "invalid", "POST", "/v1/claims", {"box": "activities", "tags": "gpu"})


# ---- C functions beside them ----


@test
def what_no_route_takes_is_done_by_c_functions(p):
    p.run("flow", "start", "greet", "c-1", "--data", "Ann")
    assert end(p, "c-1")["output"] == "hello, Ann"


# ---- Clients ----


def with_daemon(p, work):
    """The host listens at a unix socket: a daemon that only serves TCP cannot claim, so a relay of bytes does."""
    import socket

    listener = socket.create_server(("127.0.0.1", 0))

    def pump(a, b):
        try:
            while data := a.recv(65536):
                b.sendall(data)
        except OSError:
            pass
        finally:
            for s in (a, b):
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def serve():
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(os.path.join(p.path, "s"))
            for pair in ((client, server), (server, client)):
                threading.Thread(target=pump, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        work("http://127.0.0.1:%d" % listener.getsockname()[1])
    finally:
        listener.close()


@test
def the_python_worker_does_activities(p):
    def work(url):
        worker = postrider.ActivityWorker(url, token=OPERATOR, tags=["gpu"], threads=2, wait=2)
        cancelled, begun = threading.Event(), threading.Event()

        @worker.activity("py.add")
        def add(activity):
            assert (activity.flow, activity.number, activity.tag) == ("py-1", 1, "gpu"), activity
            return {"sum": sum(activity.json())}

        @worker.activity("py.twice")
        def twice(activity):
            if activity.attempt == 1:
                raise postrider.ActivityFailed("again")
            return activity.payload + b"\xff"

        @worker.activity("py.raise")
        def bug(activity):
            raise KeyError("boom")

        @worker.activity("py.final")
        def final(activity):
            raise postrider.ActivityFailed("no use", retryable=False)

        @worker.activity("py.slow")
        def slow(activity):
            begun.set()
            wait_for("cancelled", activity.is_cancelled)
            cancelled.set()

        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()
        start(p, "py-1", "py.add", "[1,2]", tag="gpu")
        start(p, "py-2", "py.twice", "x", tries=2)
        start(p, "py-3", "py.raise")
        start(p, "py-4", "py.final", tries=50)
        start(p, "py-5", "py.slow", timeout_ms=600)
        assert end(p, "py-1")["output"] == '{"sum":3}'
        assert end(p, "py-2")["output_base64"] == "eP8="
        assert end(p, "py-3")["error"]["message"] == "KeyError: 'boom'"
        assert end(p, "py-4")["error"]["message"] == "no use"
        assert begun.wait(DEADLINE_SECONDS)
        p.run("flow", "cancel", "py-5")
        assert cancelled.wait(DEADLINE_SECONDS)
        worker.stop()
        thread.join(DEADLINE_SECONDS)
        assert not thread.is_alive()
    with_daemon(p, work)


def run_example(p, url, command, id):
    env = dict(p.env, POSTRIDER_TOKEN=OPERATOR)
    worker = subprocess.Popen([*command, url], env=env, stderr=p.log)
    try:
        start(p, id + "-1", "card.charge", '{"order":7,"total":42}')
        assert json.loads(end(p, id + "-1")["output"]) == {"receipt": "r-7", "total": 42}
        start(p, id + "-2", "card.charge", '{"order":8,"total":4200}', tries=50)
        assert end(p, id + "-2")["error"]["message"] == "the card is declined"
    finally:
        worker.terminate()
        worker.wait(DEADLINE_SECONDS)


@test
def the_example_in_python_works(p):
    with_daemon(p, lambda url: run_example(p, url, [sys.executable, os.path.join(EXAMPLES, "flow_activity.py")], "ex-py"))


@test
def the_example_for_node_works(p):
    with_daemon(p, lambda url: run_example(p, url, ["node", os.path.join(EXAMPLES, "flow_activity.mjs")], "ex-js"))


NODE = """
import assert from "node:assert";
const [, , client, url, token] = process.argv;
const { ActivityFailed, ActivityWorker } = await import(client);
const worker = new ActivityWorker(url, { token, tags: ["gpu"], wait: 2 });
let left = 3;
const done = () => { if (--left === 0) setTimeout(() => worker.stop(), 100); };
worker.activity("py.js.add", (a) => { assert.equal(a.tag, "gpu"); done(); return { sum: a.json()[0] + a.json()[1] }; });
worker.activity("py.js.twice", (a) => {
  if (a.attempt === 1) throw new ActivityFailed("again");
  done();
  return Buffer.concat([a.payload, Buffer.from([255])]);
});
worker.activity("py.js.slow", (a) => new Promise((resolve) => { a.signal.addEventListener("abort", () => { done(); resolve(); }); }));
await worker.run();
console.log("done");
"""


@test
def the_node_worker_does_activities(p):
    script = os.path.join(p.path, "activities.mjs")
    with open(script, "w", encoding="utf-8") as f:
        f.write(NODE)

    def work(url):
        worker = subprocess.Popen(["node", script, os.path.join(CLIENTS, "node", "postrider.mjs"), url, OPERATOR],
                                  stdout=subprocess.PIPE, stderr=p.log, text=True)
        start(p, "js-1", "py.js.add", "[1,2]", tag="gpu")
        start(p, "js-2", "py.js.twice", "x", tries=2)
        assert end(p, "js-1")["output"] == '{"sum":3}'
        assert end(p, "js-2")["output_base64"] == "eP8="
        start(p, "js-3", "py.js.slow", timeout_ms=6000)
        p.wait_shown("js-3", lambda s: any(w.get("state") == "in-flight" for w in s["waits_for"]))
        p.run("flow", "cancel", "js-3")
        assert worker.communicate(timeout=DEADLINE_SECONDS)[0] == "done\n"
    with_daemon(p, work)


main(place)
