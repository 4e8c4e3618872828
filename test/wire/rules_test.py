#!/usr/bin/env python3
"""Rules end to end: the program, its configuration, and HTTP receivers that answer as they like.

Usage: rules_test.py POSTRIDER RECEIVER    (cli_test.py must be importable)
"""
import json
import os
import signal
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request

from cli_test import Place, has, wait_for

RECEIVER = sys.argv[2]
TESTS = []


def test(function):
    TESTS.append(function)
    return function


class Skip(Exception):
    pass


class Receiver:
    def __init__(self, *args):
        self.process = subprocess.Popen([RECEIVER, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline())
        self.scheme = "https" if args else "http"

    def records(self, path=None):
        trusting = ssl._create_unverified_context() if self.scheme == "https" else None
        url = f"{self.scheme}://127.0.0.1:{self.port}/records"
        lines = urllib.request.urlopen(url, context=trusting).read().decode().splitlines()
        return [r for r in map(json.loads, lines) if path is None or r["path"] == path]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def configure(p, receiver, endpoints, rules="", more="", name="postrider.yaml"):
    """endpoints: name -> (path or url, options)."""
    text = "store: sqlite:postrider.db\npoll: {min: 1ms, max: 20ms}\n" + more + "endpoints:\n"
    for key, (path, options) in endpoints.items():
        url = path if "://" in path else f"http://127.0.0.1:{receiver.port}{path}"
        text += f"  {key}: {{url: \"{url}\", allow_networks: [127.0.0.0/8]{', ' if options else ''}{options}}}\n"
    p.write(name, text + (f"rules:\n{rules}" if rules else ""))


def begin(p, receiver, endpoints, rules="", more=""):
    configure(p, receiver, endpoints, rules, more)
    p.ok("init")
    return p.start()


def state(p, id):
    found = p.run("show", id, "--json")
    return found.json()[0]["state"] if found.code == 0 else "gone"


def settled(p, id, wanted):
    wait_for(lambda: state(p, id) == wanted, f"{id} {wanted}: {state(p, id)}")
    return p.message(id) if wanted != "gone" else None


def endpoint(p, name):
    return next(e for e in p.ok("endpoints", "list", "--json").json() if e["name"] == name)


RULES = """\
  - {name: for good, when: {class: permanent}, then: dead_letter}
  - {name: for now, when: {class: [transient, unknown]}, then: [{retry_now: 1}, {retry: [50ms]}, park]}
"""


@test
def every_answer_is_a_reason_that_rules_can_match(p, r):  # B70
    closed = socket.socket()  # nobody listens there, and nobody else can get it
    closed.bind(("127.0.0.1", 0))
    nobody = closed.getsockname()[1]
    # path, reason, code, where it ends, how often it was sent
    cases = {
        "ok": ("/status/200", None, None, "gone", 1),
        "bad": ("/status/400", "validation_failure", "400", "dead", 1),
        "denied": ("/status/401", "unauthorized", "401", "dead", 1),
        "missing": ("/status/404", "destination_missing", "404", "dead", 1),
        "timeout": ("/status/408", "timeout_exceeded", "408", "parked", 3),
        "large": ("/status/413", "message_too_large", "413", "dead", 1),
        "broken": ("/status/500", "dependency_failure", "500", "parked", 3),
        "away": ("/status/503", "transport_unavailable", "503", "parked", 3),
        "redirect": ("/redirect", "rejected", "302", "dead", 1),
        "slow": ("/slow/100", None, None, "gone", 1),
        "never": ("/never", "timeout_exceeded", "CURLE_OPERATION_TIMEDOUT", "parked", None),
        "reset": ("/reset", "transport_unavailable", None, "parked", 3),
        "tls": (f"https://127.0.0.1:{r.port}/record", "transport_unavailable", None, "parked", None),
        "refused": (f"http://127.0.0.1:{nobody}/", "transport_unavailable", "CURLE_COULDNT_CONNECT", "parked", None),
    }
    daemon = begin(p, r, {k: (v[0], "breaker: off, timeout: " + ("500ms" if k == "never" else "20s")) for k, v in cases.items()}, RULES)
    ids = {k: p.send("--type", "t", "--to", k, "--data", k) for k in cases}
    for name, (path, reason, code, end, sends) in cases.items():
        m = settled(p, ids[name], end)
        if sends is not None:
            assert len(r.records(path)) == sends, (name, len(r.records(path)))
        if m is None:
            continue
        assert m["reason"] == reason, (name, m)
        assert code is None or m["code"] == code, (name, m)
        rule = "for good" if end == "dead" else "for now"
        steps = [s["step"] for s in m["story"]]
        assert all(s["rule"] == rule for s in m["story"]), m["story"]
        assert steps == (["dead_letter"] if end == "dead" else ["retry_now", "retry", "park"]), (name, steps)
        has(p.ok("why", ids[name]).out, f"[by {rule}]", reason)
    assert 1 <= len(r.records("/never")) <= 3  # of a busy machine the time may be over before it is on the wire
    p.stop(daemon)
    closed.close()


def make_certificates(p):
    """An authority, and what it vouches for: good, old (expired), other (for another name); and alone, self-signed."""
    def run(*args):
        subprocess.run(["openssl", *args], cwd=p.path, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    run("req", "-x509", *key, "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
    run("req", "-x509", *key, "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
        "-keyout", "alone.key", "-out", "alone.pem")
    for name, host, days in (("good", "localhost", "2"), ("old", "localhost", "-1"), ("other", "example.org", "2")):
        p.write(f"{name}.ext", f"subjectAltName=DNS:{host}\n")
        run("req", *key, "-subj", f"/CN={host}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", days, "-extfile", f"{name}.ext",
            "-out", f"{name}.pem")


@test
def certificates_are_verified_and_what_is_wrong_with_them_is_told(p, r):  # B70
    if shutil.which("openssl") is None:
        raise Skip("no openssl command")
    make_certificates(p)
    servers = {name: Receiver("--cert", f"{p.path}/{name}.pem", "--key", f"{p.path}/{name}.key")
               for name in ("alone", "good", "old", "other")}
    try:
        options = "breaker: off, timeout: 20s"
        ca = f", ca: '{p.path}/ca.pem'"
        # server, options, words of the error (None: it arrives)
        cases = {
            "alone": ("alone", "", ["certificate", "name your own authority in the endpoint's ca"]),
            "unknown": ("good", "", ["certificate", "your own authority"]),  # by an authority that the system does not know
            "good": ("good", ca, None),
            "old": ("old", ca, ["certificate", "expired"]),
            "other": ("other", ca, ["certificate", "localhost"]),
        }
        daemon = begin(p, r, {k: (f"https://localhost:{servers[v[0]].port}/record", options + v[1]) for k, v in cases.items()},
                       RULES)
        ids = {k: p.send("--type", "t", "--to", k) for k in cases}
        for name, (server, _, words) in cases.items():
            m = settled(p, ids[name], "gone" if words is None else "parked")
            if words is None:
                continue
            assert m["reason"] == "transport_unavailable" and m["code"] == "CURLE_PEER_FAILED_VERIFICATION", (name, m)
            has(m["error"], *words)
            assert all(s["rule"] == "for now" for s in m["story"]), m  # it is transient: they will renew it
        assert len(servers["good"].records()) == 1  # and nobody else got anything
        assert not servers["alone"].records() and not servers["old"].records() and not servers["other"].records()
        p.stop(daemon)
        configure(p, r, {"a": ("https://localhost/", "ca: nowhere.pem")})
        has(p.fails(3, "run").err, "endpoint a: ca: nowhere.pem cannot be read")
    finally:
        for server in servers.values():
            server.close()


@test
def a_batch_refused_as_a_whole_fails_only_the_guilty_one(p, r):  # B68, B69
    daemon = begin(p, r, {"many": ("/batch", "envelope: batch, batch: {messages: 50}, concurrency: 1, max_payload: 1KiB"),
                          "down": ("/status/503", "envelope: batch, concurrency: 1, breaker: off")}, RULES)
    p.ok("pause", "many")
    p.ok("pause", "down")
    for i in range(40):  # in two streams, and without
        data = json.dumps({"n": i, "x": "x" * 2000 if i == 23 else ""})
        headers = '{"x-behave":"/status/422"}' if i == 17 else None
        p.sql("INSERT INTO outbox (type, destination, stream, payload, headers) VALUES ('t', 'many', ?, ?, ?)",
              (["a", "b", ""][i % 3], data, headers))
    down = [p.send("--type", "t", "--to", "down") for _ in range(3)]
    p.ok("resume", "many")
    p.ok("resume", "down")
    wait_for(lambda: all(m["destination"] == "down" for m in p.ok("list", "--json").json()), "all to have their end")
    dead = {m["reason"]: m for m in p.ok("dead", "list", "--json").json()}
    assert sorted(dead) == ["message_too_large", "validation_failure"], dead
    for m in map(p.message, (m["id"] for m in dead.values())):
        assert m["failures"] == 1 and [s["rule"] for s in m["story"]] == ["for good"], m
    import base64
    arrived = []
    for record in r.records("/batch"):
        assert record["headers"]["content-type"].startswith("application/cloudevents-batch+json"), record
        events = json.loads(base64.b64decode(record["body"]))
        if not any("postriderheaders" in e for e in events):
            arrived += [e["data"]["n"] for e in events]
    assert sorted(arrived) == [i for i in range(40) if i not in (17, 23)], arrived
    for remainder in (0, 1):  # each stream in its order
        own = [n for n in arrived if n % 3 == remainder]
        assert own == sorted(own), own
    assert len(r.records("/batch")) < 40, "they did not go together"
    for id in down:  # an outage is nobody's fault, and is not split
        m = settled(p, id, "parked")
        assert [s["step"] for s in m["story"]] == ["retry_now", "retry", "park"], m
    p.stop(daemon)


@test
def what_happened_is_what_explain_had_said(p, r):  # B71
    daemon = begin(p, r, {"away": ("/status/503", "breaker: off")}, RULES)
    said = p.ok("policy", "explain", "--endpoint", "away", "--reason", "transport_unavailable", "--json").json()[0]
    assert (said["rule"], said["step"], said["action"], said["delay_seconds"]) == ("for now", 1, "retry_now", 0), said
    m = settled(p, p.send("--type", "t", "--to", "away"), "parked")
    assert [s["step"] for s in m["story"]] == [s["action"] for s in said["schedule"]], (m["story"], said)
    p.stop(daemon)


@test
def retry_after_is_honoured(p, r):  # B74
    daemon = begin(p, r, {"busy": ("/retry-after/2", "breaker: off")}, RULES)
    began = time.monotonic()
    id = p.send("--type", "t", "--to", "busy")
    m = wait_for(lambda: p.message(id)["failures"] >= 1 and p.message(id), "a failure")
    assert m["reason"] == "rate_limited", m
    wait_for(lambda: len(r.records()) >= 2, "a second attempt")
    assert time.monotonic() - began >= 2.0, "it came too early"
    p.stop(daemon)


@test
def gone_disables_the_endpoint_until_a_person_resumes_it(p, r):  # B97
    daemon = begin(p, r, {"gone": ("/status/410", ""), "fine": ("/record", "")})
    ids = [p.send("--type", "t", "--to", "gone") for _ in range(5)]
    wait_for(lambda: endpoint(p, "gone")["state"] == "paused", "paused")
    e = endpoint(p, "gone")
    assert e["until"] is None and e["by"] == "endpoint" and "410" in e["why"], e
    settled(p, p.send("--type", "t", "--to", "fine"), "gone")
    for id in ids:
        assert settled(p, id, "paused")["failures"] == 0
    sends = len(r.records("/status/410"))
    assert sends <= 5
    p.stop(daemon)
    configure(p, r, {"gone": ("/record", ""), "fine": ("/record", "")})
    daemon = p.start()  # it survives the restart, with another url, too
    settled(p, p.send("--type", "t", "--to", "fine"), "gone")
    assert state(p, ids[0]) == "paused"
    has(p.ok("resume", "gone").out, "resumed")
    for id in ids:
        settled(p, id, "gone")
    assert len(r.records("/status/410")) == sends
    p.stop(daemon)


@test
def what_a_rule_parked_waits_for_a_person_also_over_a_restart(p, r):  # B18
    endpoints = {"a": ("/status/404", "breaker: off"), "b": ("/record", "")}
    daemon = begin(p, r, endpoints, "  - {name: aside, when: {reason: destination_missing}, then: park}\n")
    id, lost = p.send("--type", "t", "--to", "a"), p.send("--type", "t")
    settled(p, id, "parked")
    settled(p, lost, "parked")
    p.stop(daemon)
    configure(p, r, endpoints, "", "routes: [{to: b}]\n")
    daemon = p.start()
    settled(p, lost, "gone")  # it had no route, and has one now
    m = p.message(id)
    assert m["state"] == "parked" and m["attempts"] == 1 and len(m["story"]) == 1, m
    has(p.ok("why", id).out, "nothing happens until you retry or discard it", "Nothing happens by itself")
    checks = {c["name"]: c["advice"] for c in p.ok("status", "--json").json()[0]["checks"]}
    assert "does not know the destination" in checks["destination"], checks
    p.ok("retry", id)
    wait_for(lambda: len(p.message(id)["story"]) > 2, "tried again")
    p.stop(daemon)


@test
def a_person_pauses_and_resumes_while_it_runs(p, r):  # B63
    daemon = begin(p, r, {"a": ("/record", ""), "b": ("/record", "")})
    settled(p, p.send("--type", "t", "--to", "a"), "gone")
    has(p.ok("pause", "a", "--why", "they migrate").out, "paused until resumed")
    settled(p, p.send("--type", "t", "--to", "b"), "gone")  # by now it has heard of it
    ids = [p.send("--type", "t", "--to", "a") for _ in range(3)]
    settled(p, p.send("--type", "t", "--to", "b"), "gone")
    assert all(p.message(id)["attempts"] == 0 and state(p, id) == "paused" for id in ids)
    has(p.ok("pause", "a", "--for", "1m").out, "it is already paused for longer")
    assert p.ok("resume", "a", "--json").json()[0]["changed"] == 1
    for id in ids:
        settled(p, id, "gone")
    p.stop(daemon)


@test
def a_rule_pauses_raises_and_moves_in_one_go(p, r):  # B63, B64
    rules = """\
  - name: says no
    when: {code: "403"}
    then: [{retry_now: 1}, {dead_letter: {to: morgue}, pause: 1h, raise: {type: alarm, to: alerts, payload: '{"of":"{id}","code":"{code}"}'}}]
"""
    daemon = begin(p, r, {"door": ("/status/403", "breaker: off"), "morgue": ("/morgue", ""), "alerts": ("/alerts", "")}, rules)
    id = p.send("--type", "order", "--to", "door", "--data", "body", "--header", "k=v")
    wait_for(lambda: r.records("/morgue") and r.records("/alerts"), "both messages")
    dead, alarm = r.records("/morgue")[0], r.records("/alerts")[0]
    h = dead["headers"]
    assert h["postrider-dead-id"] == id and h["postrider-dead-code"] == "403" and h["postrider-dead-rule"] == "says no", h
    assert h["postrider-dead-endpoint"] == "door" and h["postrider-dead-failures"] == "2" and h["k"] == "v", h
    assert h["ce-type"] == "order" and alarm["headers"]["ce-type"] == "alarm", alarm
    import base64
    assert base64.b64decode(alarm["body"]).decode() == '{"of":"%s","code":"403"}' % id
    assert state(p, id) == "gone"
    e = endpoint(p, "door")
    assert e["state"] == "paused" and e["by"] == "rule says no" and e["dead"] == 1 and e["failed"] == 2, e
    out, log = p.stop(daemon)
    has(log, "dead_letter_moved", "paused")


@test
def the_breaker_spares_a_receiver_that_is_away(p, r):  # B72, B73
    daemon = begin(p, r, {"away": ("/status/503", "concurrency: 1, breaker: {after: 3, open: 200ms, cap: 200ms}, retry: [10s, 10s]")})
    ids = [p.send("--type", "t", "--to", "away") for _ in range(30)]
    wait_for(lambda: len(r.records()) >= 6, "the first probes")
    began, before = time.monotonic(), len(r.records())
    wait_for(lambda: len(r.records()) >= before + 5, "five more")
    assert time.monotonic() - began >= 4 * 0.2, "a probe every 200 ms at most"
    assert p.ok("dead", "list", "--json").json() == []
    assert all(p.message(id)["failures"] <= 2 for id in ids)
    p.stop(daemon)


@test
def a_broken_rule_keeps_the_old_configuration(p, r):  # B203
    daemon = begin(p, r, {"a": ("/status/400", "breaker: off")}, RULES)
    settled(p, p.send("--type", "t", "--to", "a"), "dead")
    configure(p, r, {"a": ("/status/400", "breaker: off")}, "  - {name: x, when: {reson: rejected}, then: discard}\n")
    has(p.fails(3, "config", "check").err, "postrider.yaml:6:22: rules[0].when.reson: unknown key; did you mean reason?")
    daemon.send_signal(signal.SIGHUP)
    wait_for(lambda: "reson" in open(os.path.join(p.path, "log")).read(), "a complaint in the log")
    configure(p, r, {"a": ("/status/400", "breaker: off")}, RULES)  # so that commands can read it
    assert settled(p, p.send("--type", "t", "--to", "a"), "dead")["story"][0]["rule"] == "for good"
    configure(p, r, {"a": ("/status/400", "breaker: off")}, "  - {name: calls, then: {call: f}}\n")
    daemon.send_signal(signal.SIGHUP)
    wait_for(lambda: 'rule calls calls \\"f\\", which is not registered' in open(os.path.join(p.path, "log")).read()
             or 'rule calls calls "f", which is not registered' in open(os.path.join(p.path, "log")).read(), "a complaint in the log")
    configure(p, r, {"a": ("/status/400", "breaker: off")}, "  - {name: new, when: {class: permanent}, then: park}\n")
    daemon.send_signal(signal.SIGHUP)
    id = None
    def parked():
        nonlocal id
        id = p.send("--type", "t", "--to", "a")
        wait_for(lambda: state(p, id) in ("dead", "parked"), "judged")
        return state(p, id) == "parked"
    wait_for(parked, "the new rules")
    assert p.message(id)["story"][0]["rule"] == "new"
    p.stop(daemon)


@test
def a_discard_is_counted_and_logged(p, r):  # B66
    daemon = begin(p, r, {"a": ("/status/422", "")}, "  - {name: drop it, when: {code: \"422\"}, then: discard}\n")
    id = p.send("--type", "t", "--to", "a")
    settled(p, id, "gone")
    wait_for(lambda: endpoint(p, "a")["discarded"] == 1, "counted")
    out, log = p.stop(daemon)
    lines = [line for line in log.splitlines() if "discarded" in line]
    assert len(lines) == 1 and id in lines[0] and "validation_failure" in lines[0] and "drop it" in lines[0], lines


@test
def what_is_too_large_is_not_sent_and_its_neighbours_are(p, r):  # B69
    daemon = begin(p, r, {"a": ("/record", "max_payload: 10B")}, RULES)
    ids = [p.send("--type", "t", "--to", "a", "--data", "x" * (100 if i == 2 else 5)) for i in range(5)]
    for i, id in enumerate(ids):
        settled(p, id, "dead" if i == 2 else "gone")
    assert p.message(ids[2])["reason"] == "message_too_large"
    assert len(r.records()) == 4
    p.stop(daemon)


@test
def replay_tells_what_another_policy_would_have_done(p, r):
    daemon = begin(p, r, {"away": ("/status/503", "breaker: off"), "bad": ("/status/400", "breaker: off")}, RULES)
    parked, dead = p.send("--type", "t", "--to", "away"), p.send("--type", "t", "--to", "bad")
    settled(p, parked, "parked")
    settled(p, dead, "dead")
    p.stop(daemon)
    same = p.ok("policy", "replay", "--since", "1h", "--json").json()
    assert len(same) == 4 and not any(x["changed"] for x in same), same
    configure(p, r, {"away": ("/status/503", "breaker: off"), "bad": ("/status/400", "breaker: off")},
              "  - {name: drop, when: {failures: 2}, then: discard}\n", name="new.yaml")
    lines = p.ok("policy", "replay", "--since", "1h", "--json", "-c", "new.yaml").json()
    away = [x for x in lines if x["id"] == parked]
    assert [x["failure"] for x in away] == [1, 2, 3]
    assert [x["happened"]["action"] for x in away] == ["retry_now", "retry", "park"], away
    assert away[0]["would"]["action"] == "retry" and away[0]["would"]["rule"] == "retry", away
    assert away[1]["would"]["action"] == "discard" and away[1]["would"]["rule"] == "drop", away
    assert away[2]["would"] is None, "it would not have failed again"
    has(p.ok("policy", "replay", "--since", "1h", "-c", "new.yaml").out, "4 failures of 2 messages", "1 would not have occurred")
    has(p.ok("policy", "replay", "--until", "1h", "-c", "new.yaml").out, "0 failures")


@test
def replay_also_knows_what_was_delivered_and_kept(p, r):
    daemon = begin(p, r, {"a": ("/flaky/1", "breaker: off")}, RULES, "boxes: {outbox: {keep: 1h}}\n")
    id = p.send("--type", "t", "--to", "a")
    settled(p, id, "done")
    p.stop(daemon)
    lines = p.ok("policy", "replay", "--since", "1h", "--json").json()
    assert [(x["id"], x["failure"], x["happened"]["action"]) for x in lines] == [(id, 1, "retry_now")], lines


@test
def policy_check_finds_what_does_not_work(p, r):  # B61
    configure(p, r, {"a": ("/record", ""), "b": ("/record", "")}, """\
  - {name: one, when: {class: transient}, then: park}
  - {name: two, when: {reason: timeout_exceeded}, then: discard}
  - {name: three, when: {endpoint: nobody}, then: discard}
  - {name: four, when: {reason: rejected}, then: {pause: 1m}}
""")
    found = p.fails(1, "policy", "check", "--json").json()[0]
    assert [(f["rule"], f["kind"], f["line"]) for f in found["findings"]] == [
        ("two", "unreachable", 8), ("three", "never_matches", 9), ("four", "endless", 10)], found
    has(p.fails(1, "policy", "check").out, 'postrider.yaml:8: rule "two" is never reached: rule "one" before it')
    has(p.ok("config", "check").out, "is valid", 'rule "three" can never match')
    daemon = begin(p, r, {"a": ("/record", ""), "b": ("/record", "")}, """\
  - {name: one, when: {class: transient}, then: park}
  - {name: two, when: {reason: timeout_exceeded}, then: discard}
  - {name: four, when: {reason: rejected}, then: {pause: 1m}}
""")
    settled(p, p.send("--type", "t", "--to", "a"), "gone")
    _, log = p.stop(daemon)  # who runs it is warned, too
    warnings = [line for line in log.splitlines() if "rule_warning" in line]
    assert len(warnings) == 2, log
    has(warnings[0], "postrider.yaml:8", "two", "is never reached")
    has(warnings[1], "postrider.yaml:9", "four", "never ends: pause alone puts the message back without counting")
    configure(p, r, {"a": ("/record", "")}, "  - {name: calls, then: {call: f}}\n")
    has(p.fails(3, "run").err, "postrider.yaml:6:32: rules[0].then.call", 'rule calls calls "f", which is not registered')
    configure(p, r, {"a": ("/record", "")}, RULES)
    has(p.ok("policy", "check").out, "2 rules, no problems found")
    has(p.fails(4, "policy", "explain", "--endpoint", "aa").err, 'no endpoint "aa"; did you mean a?')
    has(p.fails(2, "policy", "explain", "--endpoint", "a", "--reason", "timeout").err, "--reason")
    has(p.fails(2, "policy", "explain").err, "--endpoint")
    p.ok("init")
    has(p.fails(4, "pause", "c").err, 'no endpoint "c"')
    p.fails(2, "pause", "a", "--for", "soon")


def main():
    print(f"1..{len(TESTS)}")
    failed = 0
    for number, function in enumerate(TESTS, 1):
        place, receiver = Place(tempfile.mkdtemp(prefix="postrider-wire-")), Receiver()
        try:
            function(place, receiver)
            print(f"ok {number} - {function.__name__}")
        except Skip as why:
            print(f"ok {number} - {function.__name__} # SKIP {why}")
        except Exception:
            failed += 1
            for line in traceback.format_exc().splitlines():
                print(f"# {line}")
            print(f"not ok {number} - {function.__name__}")
        finally:
            place.close()
            receiver.close()
            shutil.rmtree(place.path)
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
