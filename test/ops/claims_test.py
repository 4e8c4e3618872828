#!/usr/bin/env python3
"""Workers that claim messages from a real daemon over HTTP, on either store.

Usage: claims_test.py POSTRIDER sqlite [WORD], or cluster.sh claims_test.py POSTRIDER postgres [WORD].  The output is TAP.
"""
import contextlib
import http.client
import json
import os
import re
import select
import shutil
import signal
import socket
import struct
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
boxes: {inbox: {}, ledger: {}, two: {kind: inbox}}
endpoints:
  worker: {url: "pull:", timeout: %s, retry: [100ms, 100ms], max_attempts: %d}
  left: {url: "pull:"}
  right: {url: "pull:"}
routes: [{box: inbox, to: worker}, {box: two, to: [left, right]}]
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


class Daemon:
    count = 0

    def __init__(self, timeout="30s", max_attempts=5):
        Daemon.count += 1
        self.path = tempfile.mkdtemp(prefix="postrider-claims-")
        store = "sqlite:t.db" if KIND == "sqlite" else (
            "postgres:///postgres?host=%s&user=postgres&schema=claims_%d_%d" % (FOLDER, os.getpid(), Daemon.count))
        self.write(CONFIG % (store, timeout, max_attempts))
        self.run("init", "-c", "c.yaml")
        self.start()

    def write(self, config):
        self.config = config
        with open(os.path.join(self.path, "c.yaml"), "w", encoding="utf-8") as f:
            f.write(config)

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

    def run(self, *args):
        done = subprocess.run([PROGRAM, *args], cwd=self.path, capture_output=True, timeout=DEADLINE_SECONDS)
        assert done.returncode == 0, (args, done.returncode, done.stderr)
        return done.stdout.decode()

    def ask(self, method, path, body=None, content="application/json"):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_SECONDS)
        with contextlib.closing(c):
            c.request(method, path, body=None if body is None else json.dumps(body),
                      headers={"X-Postrider": "1", "Content-Type": content})
            r = c.getresponse()
            return r.status, json.loads(r.read())

    def ask_text(self, path, body):
        """The answer as it is written."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_SECONDS)
        with contextlib.closing(c):
            c.request("POST", path, json.dumps(body), {"X-Postrider": "1", "Content-Type": "application/json"})
            return c.getresponse().read().decode()

    def send(self, box="inbox", **fields):
        payload = {} if any(name.startswith("payload_") for name in fields) else {"payload": {"n": 1}}
        status, answer = self.ask("POST", "/v1/messages?box=" + box, {"type": "order.created", **payload, **fields})
        assert status == 202, answer
        return answer["messages"][0]["id"]

    def claim(self, **wish):
        status, answer = self.ask("POST", "/v1/claims", wish)
        assert status == 200, answer
        return answer["claims"]

    def claim_later(self):
        """A connection on which somebody waits for a message."""
        waits = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_SECONDS)
        waits.request("POST", "/v1/claims", json.dumps({"wait": "50s"}), {"X-Postrider": "1", "Content-Type": "application/json"})
        return waits

    def claim_one(self, **wish):
        got = self.claim(**{"wait": "30s", **wish})
        assert len(got) == 1, got
        return got[0]

    def end(self, verb, *claims, **extra):
        """What became of the verdicts on these claims, or tokens."""
        claims = [{"token": c["token"], **extra} if "message" in c else c for c in claims]
        status, answer = self.ask("POST", "/v1/claims/" + verb, {"claims": claims})
        assert status == 200, answer
        return [r["result"] for r in answer["results"]]

    def box(self, name="inbox"):
        boxes = self.ask("GET", "/v1/boxes")[1]["boxes"]
        return next((b for b in boxes if b["name"] == name), {})

    def message(self, ident):
        return self.ask("GET", "/v1/messages/" + ident)[1]["deliveries"][0]["message"]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(DEADLINE_SECONDS)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(DEADLINE_SECONDS)
        self.process.stdout.close()
        self.log.close()
        shutil.rmtree(self.path, ignore_errors=True)


def check_written(pattern, text):
    """The text is this, but for the ID, TIME, TOKEN or NUMBER, which differ each time."""
    words = {"ID": "[0-9a-f-]{36}", "TIME": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", "TOKEN": "[0-9a-f-]+", "NUMBER": r"\d+"}
    regex = re.sub("<([A-Z]+)>", lambda m: words[m.group(1)], re.escape(pattern))
    assert re.fullmatch(regex + "\n", text), text


@test
def claims_and_their_results_are_written_as_they_always_were(d):  # B98
    d.send(stream="s", payload={"a": 1})
    text = d.ask_text("/v1/claims", {"endpoint": "worker"})
    check_written('{"claims":[{"token":"<TOKEN>","attempt":1,"expires_at":"<TIME>","message":{"id":"<ID>","box":"inbox","seq":<NUMBER>,'
                  '"row":<NUMBER>,"state":"in-flight","type":"order.created","stream":"s","destination":null,"endpoint":"worker","source":null,"subject":null,'
                  '"content_type":null,"correlation_id":null,"traceparent":null,"tracestate":null,"causation_id":null,"created_at":"<TIME>",'
                  '"due_at":null,"expires_at":null,"status":1,"attempts":1,"failures":0,"reason":null,"code":null,"error":null,"failed_at":null,'
                  '"held_by":null,"held_for":null,"parked_by":null,"headers":{},"payload":"{\\"a\\":1}"}}]}', text)
    claims = [{"token": json.loads(text)["claims"][0]["token"]}, {"token": ""}]
    check_written('{"results":[{"token":"<TOKEN>","result":"ok","expires_at":"<TIME>"},{"token":"","result":"unknown"}]}',
                  d.ask_text("/v1/claims/renew", {"claims": claims}))
    effects = [{"box": "ledger", "type": "e", "stream": "w", "event": True, "expected_version": 7}]
    check_written('{"results":[{"token":"<TOKEN>","result":"conflict","error":"stream \\"w\\" is at version 0, not 7: read it again before you retry"}]}',
                  d.ask_text("/v1/claims/complete", {"claims": [dict(claims[0], effects=effects)]}))
    assert d.end("complete", d.claim_one()) == ["ok"]


@test
def a_worker_that_fails_the_head_can_hand_its_followers_on_in_the_same_call(d):  # B55
    first, second = d.send(stream="s"), d.send(stream="s")
    claim = d.claim_one()
    assert claim["message"]["id"] == first
    status, answer = d.ask("POST", "/v1/claims/fail", {"claims": [{"token": claim["token"], "release_followers": "yes"}]})
    assert status == 400 and "release_followers" in answer["error"]["message"], answer
    assert d.end("fail", claim, reason="dependency_failure", retry_after="1h", release_followers=True) == ["ok"]
    claim = d.claim_one()
    assert claim["message"]["id"] == second, claim
    assert d.end("complete", claim) == ["ok"]
    assert d.message(first)["failures"] == 1
    assert d.ask("POST", "/v1/messages/%s/discard" % first, {})[0] == 200


@test
def a_worker_that_asks_for_types_gets_those_and_no_others(d):  # B98
    events = [{"specversion": "1.0", "source": "test", "id": "invoice-%d" % i, "type": "invoice.sent",
               **({"partitionkey": "i-%d" % i} if i % 2 else {})} for i in range(3000)]
    for first in range(0, 3000, 500):
        assert d.ask("POST", "/v1/messages?box=inbox", events[first:first + 500], "application/cloudevents-batch+json")[0] == 202
    orders = [d.send(type="order.created"), d.send(type="order.paid")]
    got = []
    while len(got) < 2:  # behind a backlog that it does not ask for
        claims = d.claim(types=["order.*"], max=10, wait="30s")
        assert claims, got
        got += [c["message"]["id"] for c in claims]
        assert d.end("complete", *claims) == ["ok"] * len(claims)
    assert sorted(got) == sorted(orders), got
    assert d.claim(types=["order.*"]) == [] and d.claim(types=["nobody.sends.this"]) == []
    waits = threading.Thread(target=lambda: d.claim(types=["invoice.never"], wait="5s"))  # others wait, too
    waits.start()
    left = 3000
    while left > 0:
        claims = d.claim(types=["receipt.*", "invoice.*"], max=1000, wait="30s")
        assert claims and all(c["message"]["type"] == "invoice.sent" and c["attempt"] == 1 for c in claims), claims[:1]
        assert d.end("complete", *claims) == ["ok"] * len(claims)
        left -= len(claims)
    waits.join()
    assert d.box()["ready"] == 0


@test
def types_that_cannot_be_asked_for_are_refused_and_say_why(d):
    for types, word in [([], "empty"), (["order.*", 7], "pattern"), ([""], "pattern"), (["a\nb"], "pattern"), (["*a" * 17], "stars"),
                        (["%d" % i + "x" * 250 for i in range(20)], "4096 bytes"), ("order.*", "types")]:
        status, answer = d.ask("POST", "/v1/claims", {"types": types})
        assert status == 400 and word in answer["error"]["message"], (types, answer)
    waiting = [threading.Thread(target=lambda i=i: d.claim(types=["kind%d.*" % i], wait="5s")) for i in range(8)]
    for one in waiting:
        one.start()
    time.sleep(1)  # one that asks too early would be one of the eight itself
    status, answer = d.ask("POST", "/v1/claims", {"types": ["one.more"]})
    assert status == 400 and "8 different lists of types" in answer["error"]["message"], answer
    for one in waiting:
        one.join()
    assert d.claim(types=["one.more"]) == []  # nobody asks for the others any more


@test
def a_claimed_message_is_whole_and_completes_once(d):  # B98, B4
    body = "é\u202e\u0001 \\ \" \U0001f600"
    ident = d.send(payload_text=body, stream="s", headers={"k": "v"}, correlation_id="c")
    c = d.claim_one()
    m = c["message"]
    assert (m["id"], m["payload"], m["stream"], m["headers"], m["correlation_id"]) == (ident, body, "s", {"k": "v"}, "c"), m
    assert c["attempt"] == 1 and m["endpoint"] == "worker" and m["box"] == "inbox", c
    assert m["row"] > 0 and m["row"] == d.message(ident)["row"], m
    why = d.run("why", ident, "-c", "c.yaml")
    assert "A worker has claimed it from instance" in why and "comes back after 30s" in why and "being sent" not in why, why
    assert d.end("complete", c, {"token": "0-0-0"}, {"token": "nonsense"}) == ["ok", "unknown", "unknown"]
    assert d.end("complete", c) == ["stale"] and d.end("fail", c) == ["stale"] and d.end("renew", c, {"token": "nonsense"}) == ["stale", "unknown"]
    assert d.box()["ready"] == 0 and d.claim() == []


@test
def bytes_that_are_no_text_arrive_as_base64(d):  # B4
    d.send(payload_base64="/wD+")
    c = d.claim_one()
    assert c["message"]["payload_base64"] == "/wD+" and d.end("complete", c) == ["ok"], c


@test
def what_a_worker_sends_is_stored_with_its_completion(d):  # B93
    ident = d.send(correlation_id="c-7")
    c = d.claim_one()
    effects = [{"box": "ledger", "type": "order.billed", "stream": "x", "payload": {"ok": True}}, {"box": "ledger", "type": "b"}]
    assert d.end("complete", c, effects=effects) == ["ok"]
    sent = d.ask("GET", "/v1/messages?box=ledger")[1]["messages"]
    assert sorted(m["type"] for m in sent) == ["b", "order.billed"], sent
    assert all(m["causation_id"] == ident and m["correlation_id"] == "c-7" for m in sent), sent


@test
def an_event_that_expects_another_version_is_a_conflict_and_nothing_is_stored(d):  # B95
    d.send("ledger", type="c.first", stream="s", event=True)
    ident = d.send()
    c = d.claim_one()
    effects = [{"box": "ledger", "type": "c.second", "stream": "s", "event": True, "expected_version": 7}, {"box": "ledger", "type": "c.other"}]
    status, answer = d.ask("POST", "/v1/claims/complete", {"claims": [{"token": c["token"], "effects": effects}]})
    assert status == 200 and answer["results"][0]["result"] == "conflict", answer
    assert answer["results"][0]["error"] == 'stream "s" is at version 1, not 7: read it again before you retry', answer
    assert [m["type"] for m in d.ask("GET", "/v1/messages?box=ledger&type=c.*")[1]["messages"]] == ["c.first"]
    assert len(d.ask("GET", "/v1/events?stream=s")[1]["events"]) == 1
    c = d.claim_one()  # it comes again, and nothing was counted
    assert c["message"]["id"] == ident and c["attempt"] == 1, c
    assert 'stream "s" is not at version 7' in d.message(ident)["error"], d.message(ident)
    effects[0]["expected_version"] = 1
    assert d.end("complete", c, effects=effects) == ["ok"]
    assert [e["type"] for e in d.ask("GET", "/v1/events?stream=s")[1]["events"]] == ["c.first", "c.second"]


@test
def a_failure_follows_the_endpoints_retries(d):  # B98
    ident = d.send()
    for failures in (1, 2):
        c = d.claim_one()
        assert d.end("fail", c, reason="validation_failure", error="no such customer", code="E7") == ["ok"]
        m = wait_for("failed", lambda: d.message(ident) if d.message(ident)["failures"] == failures else None)
        assert (m["reason"], m["error"], m["code"]) == ("validation_failure", "no such customer", "E7"), m
    assert d.end("fail", d.claim_one(), reason="validation_failure") == ["ok"]
    wait_for("dead", lambda: d.message(ident)["state"] == "dead")


@test
def retry_after_is_respected(d):  # B74
    d.send()
    begun = time.monotonic()
    assert d.end("fail", d.claim_one(), reason="dependency_failure", retry_after="2s") == ["ok"]
    c = d.claim_one()
    # Two seconds by the store's clock, which may differ from this one by some milliseconds.
    assert time.monotonic() - begun >= 1.9 and c["attempt"] == 2, c
    assert d.end("complete", c) == ["ok"]


@test
def abandoned_counts_and_released_does_not(d):  # B44
    ident = d.send()
    assert d.end("release", d.claim_one()) == ["ok"]
    c = d.claim_one()
    assert c["attempt"] == 1 and c["message"]["id"] == ident, c
    assert d.end("abandon", c, error="out of patience") == ["ok"]
    c = d.claim_one()
    assert c["attempt"] == 2 and c["message"]["failures"] == 0, c
    assert d.end("complete", c) == ["ok"]


@test
def a_claim_that_nobody_ends_comes_again_and_is_poison_at_last():  # B40, B98
    with contextlib.closing(Daemon(timeout="300ms", max_attempts=2)) as d:
        ident = d.send()
        first = d.claim_one()
        second = d.claim_one()
        assert (first["attempt"], second["attempt"]) == (1, 2), (first, second)
        assert d.end("renew", first) == ["stale"] and d.end("complete", first) == ["stale"]
        assert d.claim(wait="2s") == []  # whoever asks next finds it dead
        m = wait_for("dead", lambda: d.message(ident) if d.message(ident)["state"] == "dead" else None)
        assert m["cause"] == "poison_message" and m["failures"] == 0, m


@test
def a_renewed_claim_stays_whose_it_is():  # B98
    with contextlib.closing(Daemon(timeout="1s")) as d:
        d.send()
        c = d.claim_one()
        until = time.monotonic() + 2.5
        while time.monotonic() < until:
            assert d.end("renew", c) == ["ok"]
        assert d.end("complete", c) == ["ok"]


@test
def who_waits_gets_a_message_when_it_comes(d):
    got = []
    waiter = threading.Thread(target=lambda: got.extend(d.claim(wait="30s")))
    waiter.start()
    wait_for("room for it", lambda: waiter.is_alive())
    begun = time.monotonic()
    ident = d.send()
    waiter.join(DEADLINE_SECONDS)
    assert [c["message"]["id"] for c in got] == [ident] and time.monotonic() - begun < 20, got
    assert d.end("complete", *got) == ["ok"]


def claim_all(d, idents):
    """All of them are there for us, before a claim of somebody else could expire, and nobody has tried one."""
    end = time.monotonic() + 20
    while idents and time.monotonic() < end:
        for c in d.claim(wait="1s", max=12):
            idents.remove(c["message"]["id"])
            assert c["attempt"] == 1 and d.end("complete", c) == ["ok"], c["attempt"]
    assert not idents, len(idents)


@test
def who_has_gone_gets_nothing(d):
    gone = http.client.HTTPConnection("127.0.0.1", d.port, timeout=DEADLINE_SECONDS)
    gone.request("POST", "/v1/claims", json.dumps({"wait": "50s"}), {"X-Postrider": "1", "Content-Type": "application/json"})
    time.sleep(0.2)  # it waits there; if it does not yet, that is fine, too
    gone.close()
    claim_all(d, {d.send() for _ in range(8)})  # it would have one of them before anybody else asks


@test
def what_cannot_be_sent_to_who_asked_goes_back_at_once(d):  # B98
    idents = {d.send(payload_text="x" * 900000) for _ in range(12)}
    gone = socket.socket()
    gone.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    gone.connect(("127.0.0.1", d.port))
    body = json.dumps({"wait": "20s", "max": 12})
    gone.sendall(("POST /v1/claims HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nX-Postrider: 1\r\nContent-Type: application/json\r\n"
                  "Content-Length: %d\r\n\r\n%s" % (d.port, len(body), body)).encode())
    gone.recv(1)  # the answer has begun, and is larger than all buffers between us
    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    gone.close()
    claim_all(d, idents)


@test
def few_wait_at_once_and_others_have_a_place():
    with contextlib.closing(Daemon()) as d:
        d.send()
        c = d.claim_one()
        waiting = [d.claim_later() for _ in range(24)]

        def refused():
            """The answer of one more.  It has a place itself for a moment, so another one may have been refused for it: that one asks again."""
            for i, w in enumerate(waiting):
                if select.select([w.sock], [], [], 0)[0]:
                    w.close()
                    waiting[i] = d.claim_later()
            answer = d.ask("POST", "/v1/claims", {})
            return answer if answer[0] == 503 else None

        refused = wait_for("no more may wait", refused)
        assert refused[1]["error"]["code"] == "too_many" and "24 requests from this address" in refused[1]["error"]["message"], refused
        assert d.end("complete", c) == ["ok"] and d.is_ready()
        for w in waiting:
            w.close()
        wait_for("who has gone makes room", lambda: d.ask("POST", "/v1/claims", {})[0] == 200)


@test
def nothing_is_handed_out_that_nobody_asked_for(d):  # B44
    idents = [d.send() for _ in range(5)]
    c = d.claim_one(max=1)
    wait_for("one is out", lambda: d.box()["in_flight"] == 1 and d.box()["ready"] == 4)
    assert d.message(idents[-1])["attempts"] == 0
    rest = []
    while len(rest) < 4:
        rest += d.claim(max=10, wait="30s")
    assert d.end("complete", c, *rest) == ["ok"] * 5


@test
def many_workers_share_the_work_and_each_message_is_one_workers(d):  # B98, B50
    count, handled, lock = 400, [], threading.Lock()
    for i in range(count):
        d.send(stream="s%d" % (i % 40), payload={"n": i})

    def work():
        while True:
            claims = d.claim(max=20, wait="1s")
            if not claims:
                return
            with lock:
                handled.extend((c["message"]["stream"], json.loads(c["message"]["payload"])["n"]) for c in claims)
            assert set(d.end("complete", *claims)) == {"ok"}

    workers = [threading.Thread(target=work) for _ in range(8)]
    for w in workers:
        w.start()
    for w in workers:
        w.join(DEADLINE_SECONDS)
    assert sorted(n for _, n in handled) == list(range(count)), len(handled)
    for stream in {s for s, _ in handled}:
        numbers = [n for s, n in handled if s == stream]
        assert numbers == sorted(numbers), (stream, numbers)


@test
def two_handlers_of_one_message_end_it_each_for_itself(d):  # B92
    ident = d.send(box="two")
    status, answer = d.ask("POST", "/v1/claims", {"box": "two"})
    assert status == 400 and "left" in answer["error"]["message"] and "right" in answer["error"]["message"], answer
    left, right = d.claim_one(box="two", endpoint="left"), d.claim_one(box="two", endpoint="right")
    assert left["message"]["id"] == right["message"]["id"] == ident
    assert d.end("complete", left) == ["ok"] and d.end("fail", right, reason="handler_exception") == ["ok"]
    assert d.end("complete", d.claim_one(box="two", endpoint="right")) == ["ok"]
    assert d.claim(box="two", endpoint="left") == []


@test
def a_paused_endpoint_gives_nothing_and_what_is_claimed_may_finish(d):  # B63
    first = (d.send(), d.claim_one())[1]
    assert d.ask("POST", "/v1/endpoints/worker/pause", {})[0] == 200
    d.send()
    assert d.claim(wait="1s") == [] and d.end("complete", first) == ["ok"]
    assert d.ask("POST", "/v1/endpoints/worker/resume", {})[0] == 200
    c = d.claim_one()
    assert c["attempt"] == 1 and d.end("complete", c) == ["ok"]


@test
def a_reload_does_not_wait_for_those_who_wait():
    with contextlib.closing(Daemon()) as d:
        got = []
        waiter = threading.Thread(target=lambda: got.extend(d.claim(wait="50s")))
        waiter.start()
        d.write(d.config.replace("retry: [100ms, 100ms]", "retry: [200ms]"))
        d.process.send_signal(signal.SIGHUP)
        wait_for("reloaded", lambda: "event=reloaded" in open(os.path.join(d.path, "log"), encoding="utf-8").read())
        assert waiter.is_alive()
        d.send()
        waiter.join(DEADLINE_SECONDS)
        assert len(got) == 1 and d.end("complete", *got) == ["ok"], got


@test
def a_stop_ends_in_time_and_what_was_claimed_comes_again():  # B14, B22
    with contextlib.closing(Daemon()) as d:
        ident = d.send()
        old = d.claim_one()
        begun = time.monotonic()
        d.stop()
        assert time.monotonic() - begun < 20
        d.start()
        c = d.claim_one()
        assert c["message"]["id"] == ident and c["attempt"] == 2, c
        assert d.end("complete", old, c) == ["unknown", "ok"]


@test
def what_was_claimed_from_a_killed_daemon_comes_again():  # B22, B98
    with contextlib.closing(Daemon()) as d:
        ident = d.send()
        old = d.claim_one()
        d.process.kill()
        d.process.wait(DEADLINE_SECONDS)
        d.start()
        c = d.claim_one()
        assert c["message"]["id"] == ident and c["attempt"] == 2, c
        assert d.end("complete", old) == ["unknown"] and d.end("complete", c) == ["ok"]


@test
def who_asks_a_daemon_that_is_stopping_hears_that_it_does_not_run():
    with contextlib.closing(Daemon()) as d:
        d.process.send_signal(signal.SIGTERM)
        d.process.wait(DEADLINE_SECONDS)
        d.write(d.config.replace("stop_timeout: 2s", "stop_timeout: 30s").replace(
            "boxes: {", "boxes: {outbox: {}, ").replace("routes: [", "routes: [{box: outbox, to: slow}, ").replace(
            "endpoints:", "endpoints:\n  slow: {url: 'exec:sleep 2'}"))
        d.start()
        d.send(box="outbox")
        wait_for("a delivery that keeps the daemon from ending", lambda: d.box("outbox").get("in_flight") == 1)
        d.process.send_signal(signal.SIGTERM)
        seen = set()
        with contextlib.suppress(OSError, http.client.HTTPException):
            while d.process.poll() is None:
                status, answer = d.ask("POST", "/v1/claims", {})
                seen.add((status, answer.get("error", {}).get("code")))
        assert (503, "not_running") in seen and seen <= {(200, None), (503, "not_running")}, seen
        d.process.wait(DEADLINE_SECONDS)


@test
def wrong_requests_are_refused_and_change_nothing(d):
    c = (d.send(), d.claim_one())[1]
    token = c["token"]
    for path, body, word in (("", {"max": 0}, "max"), ("", {"max": 1001}, "max"), ("", {"wait": "2h"}, "wait"), ("", {"wait": 3}, "wait"),
                             ("", {"colour": "red"}, "colour"), ("/renew", {"colour": "red"}, "known are claims, for"), ("/complete", {}, "claims"), ("/complete", {"claims": []}, "claims"),
                             ("/complete", {"claims": [{}]}, "token"), ("/complete", {"claims": [{"token": 5}]}, "token"),
                             ("/complete", {"claims": [{"token": token}, {"token": token, "x": "y"}]}, "x"),
                             ("/complete", {"claims": [{"token": token, "effects": [{"payload": 1}]}]}, "type"),
                             ("/complete", {"claims": [{"token": token, "effects": ["text"]}]}, "object"),
                             ("/complete", {"claims": [{"token": token, "effects": [{"box": "nowhere", "type": "x"}]}]}, "nowhere"),
                             ("/complete", {"claims": [{"token": token, "effects": [{"box": 5, "type": "x"}]}]}, "box"),
                             ("/complete", {"claims": [{"token": token}], "": "x"}, 'unknown member ""'),
                             ("/fail", {"claims": [{"token": token, "reason": "boredom"}]}, "boredom"),
                             ("/fail", {"claims": [{"token": token, "retry_after": "soon"}]}, "retry_after"),
                             ("/fail", {"claims": [{"token": token, "effects": []}]}, "effects")):
        status, answer = d.ask("POST", "/v1/claims" + path, body)
        assert status in (400, 422) and word in answer["error"]["message"], (path, body, status, answer)
    for body in ({"box": "nowhere"}, {"endpoint": "nobody"}, {"box": "ledger"}):
        status, answer = d.ask("POST", "/v1/claims", body)
        assert status == 404, (body, answer)
    tag, secret, number = token.split("-")
    for wrong in (" " + token, token.upper(), "0x" + token, "%s-%s-%s" % ("0" * 16, secret, number), "%s-%s-%s" % (tag, "0" * 16, number),
                  "%s-%s-%x" % (tag, secret, int(number, 16) + 1), token + "0", token + "-", "", "%s-%s" % (tag, secret)):
        result = d.ask("POST", "/v1/claims/complete", {"claims": [{"token": wrong}]})[1]["results"][0]["result"]
        assert result in ("stale", "unknown"), (wrong, result)
    assert d.end("complete", c) == ["ok"]


def run_one(function, shared):
    if function.__code__.co_argcount == 0:
        function()
    else:
        function(shared)


def main():
    tests = [t for t in TESTS if len(sys.argv) < 4 or sys.argv[3] in t.__name__]
    failed = 0
    print("1..%d" % len(tests), flush=True)
    with contextlib.closing(Daemon()) as shared:
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
