#!/usr/bin/env python3
"""Schedules and delayed messages with real daemons: the configuration, the commands, the API and SQL.

Usage: schedules_test.py POSTRIDER sqlite [WORD], or cluster.sh schedules_test.py POSTRIDER postgres [WORD].  The output is TAP.
"""
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
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
endpoints:
  out: {url: "file:out.jsonl"}
routes:
  - {to: out}
http: {listen: "127.0.0.1:0"}
%s
"""
NIGHTLY = """
schedules:
  nightly: {cron: "0 3 * * *", zone: Europe/Berlin, type: report.build, payload: '{"a":1}'}
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


class Place:
    """A store and the daemons on it; each has a configuration of its own."""
    count = 0

    def __init__(self):
        Place.count += 1
        self.path = tempfile.mkdtemp(prefix="postrider-schedules-")
        self.schema = "schedules_%d_%d" % (os.getpid(), Place.count)
        self.store = "sqlite:t.db" if KIND == "sqlite" else "postgres:///postgres?host=%s&user=postgres&schema=%s" % (
            FOLDER, self.schema)
        self.daemons = []
        self.config("c", "")
        self.run("init", "-c", "c.yaml")

    def config(self, name, more):
        with open(os.path.join(self.path, name + ".yaml"), "w", encoding="utf-8") as f:
            f.write(CONFIG % (self.store, more))

    def start(self, *names, **environment):
        """All of them at once; the one daemon, or a list of them."""
        daemons = []
        for name in names or ("c",):
            with open(os.path.join(self.path, name + ".log"), "a", encoding="utf-8") as log:
                process = subprocess.Popen([PROGRAM, "run", "-c", name + ".yaml"], cwd=self.path, stdout=subprocess.PIPE, stderr=log,
                                           env={**os.environ, **environment})
            daemons.append({"process": process})
        self.daemons += daemons
        for daemon in daemons:
            daemon["port"] = int(daemon["process"].stdout.readline().split()[1])
        return daemons[0] if len(daemons) == 1 else daemons

    def stop(self, daemon):
        daemon["process"].send_signal(signal.SIGTERM)
        daemon["process"].wait(DEADLINE_SECONDS)

    def log(self, name="c"):
        with open(os.path.join(self.path, name + ".log"), encoding="utf-8") as f:
            return f.read()

    def run(self, *args, code=0):
        done = subprocess.run([PROGRAM, *args], cwd=self.path, capture_output=True, timeout=DEADLINE_SECONDS)
        assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
        return done.stdout.decode() + done.stderr.decode()

    def command(self, *args, code=0):
        return self.run(*args, "-c", "c.yaml", code=code)

    def ask(self, daemon, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", daemon["port"], timeout=DEADLINE_SECONDS)
        with contextlib.closing(c):
            c.request(method, path, body=None if body is None else json.dumps(body),
                      headers={"X-Postrider": "1", "Content-Type": "application/json"})
            r = c.getresponse()
            return r.status, json.loads(r.read().decode())

    def schedules(self):
        return {s["name"]: s for s in map(json.loads, self.command("schedules", "--json").splitlines())}

    def got(self, schedule=None):
        """What the endpoint has, of one schedule."""
        try:
            with open(os.path.join(self.path, "out.jsonl"), encoding="utf-8") as f:
                events = [json.loads(line) for line in f]
        except FileNotFoundError:
            return []
        return [e for e in events if schedule is None or '"postrider-schedule":"%s"' % schedule in e.get("postriderheaders", "")]

    @contextlib.contextmanager
    def transaction(self):
        """A function that executes SQL; the transaction is rolled back unless it is committed by it."""
        if KIND == "sqlite":
            with contextlib.closing(sqlite3.connect(os.path.join(self.path, "t.db"), timeout=DEADLINE_SECONDS, isolation_level=None)) as db:
                db.execute("BEGIN IMMEDIATE")
                yield db.execute
            return
        process = subprocess.Popen(["psql", "-h", FOLDER, "-U", "postgres", "-d", "postgres", "-qAt", "-v", "ON_ERROR_STOP=1"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def execute(sql):
            process.stdin.write(sql + ";\n\\echo done\n")
            process.stdin.flush()
            while (line := process.stdout.readline()) != "done\n":
                assert line, "psql has ended"

        execute("SET search_path = %s; BEGIN" % self.schema)
        yield execute
        process.stdin.close()
        process.wait(DEADLINE_SECONDS)
        process.stdout.close()

    def schedule_sql(self, name, cron):
        if KIND == "sqlite":
            return ("INSERT INTO outbox (type, stream, destination, payload) VALUES ('postrider.schedule', '%s', 'schedule:', "
                    "'{\"cron\":\"%s\",\"type\":\"by.sql\",\"payload\":{\"n\":null}}')" % (name, cron))
        return "SELECT schedule('%s', '%s', 'by.sql', payload => '{\"n\":null}')" % (name, cron)

    def close(self):
        for daemon in self.daemons:
            if daemon["process"].poll() is None:
                daemon["process"].kill()
                daemon["process"].wait(DEADLINE_SECONDS)
            daemon["process"].stdout.close()
        shutil.rmtree(self.path)


# ---- Times ----

@test
def a_time_of_a_schedule_is_sent_once_over_two_instances(p):  # B99
    p.config("c", NIGHTLY)
    one, two = p.start(), p.start()
    wait_for("the schedule", lambda: p.schedules().get("nightly", {}).get("state") == "active")
    s = p.schedules()["nightly"]
    assert s["origin"] == "config" and s["next_at"] == s["next"][0] and len(s["next"]) == 5, s
    assert s["next_at"][11:19] in ("01:00:00", "02:00:00"), s  # three o'clock in Berlin
    p.command("schedules", "reschedule", "nightly", "--due", "1s")
    wait_for("its message", lambda: len(p.got("nightly")) == 1)
    event = p.got("nightly")[0]
    assert event["type"] == "report.build" and event["data"] == {"a": 1}, event
    assert p.schedules()["nightly"]["next_at"] == s["next_at"]
    p.command("schedules", "reschedule", "nightly", "--due", "1s")
    wait_for("the next one", lambda: len(p.got("nightly")) == 2)
    p.stop(one)
    p.stop(two)
    assert len(p.got("nightly")) == 2 and len({e["id"] for e in p.got("nightly")}) == 2, p.got()


@test
def many_schedules_of_each_minute_are_sent_once_by_those_who_share_them(p):  # B99
    names = ["m%02d" % i for i in range(20)]
    p.config("c", "schedules:\n" + "".join("  %s: {cron: '* * * * *', type: tick}\n" % n for n in names))
    daemons = [p.start(), p.start()]
    wait_for("a minute", lambda: all(p.got(n) for n in names))
    time.sleep(2)
    for daemon in daemons:
        p.stop(daemon)
    for name in names:
        dues = [json.loads(e["postriderheaders"])["postrider-due"] for e in p.got(name)]
        assert len(set(dues)) == len(dues) and all(d[16:] == ":00.000000Z" for d in dues), (name, dues)


@test
def times_that_were_missed_are_made_up_for_as_the_schedule_says(p):  # B210
    for missed in ("once", "skip", "all"):
        p.command("schedules", "add", missed, "--cron", "* * * * *", "--type", "tick", "--missed", missed)
    with p.transaction() as execute:  # the relay was down for ten minutes, and a little longer
        if KIND == "sqlite":
            now = int(time.time() // 60 * 60 - 600) * 1000000
            execute("UPDATE outbox SET due_at = %d" % now)
        else:
            execute("UPDATE outbox SET due_at = date_trunc('minute', now()) - interval '10 minutes'")
        execute("COMMIT")
    p.start()
    wait_for("all of them", lambda: len(p.got("all")) >= 11)
    assert 1 <= len(p.got("once")) <= 3 and len(p.got("skip")) <= 3, (p.got("once"), p.got("skip"))
    assert len(p.got("all")) <= 13, p.got("all")
    wait_for("a line in the log", lambda: "schedule_missed" in p.log() and "missed and get" in p.log())


# ---- Configurations ----

@test
def of_two_configurations_the_later_start_counts_and_what_it_does_not_have_is_cancelled(p):  # B212
    p.config("old", "schedules:\n  a: {cron: '0 1 * * *', type: t}\n  b: {cron: '0 2 * * *', type: t}\n")
    p.config("new", "schedules:\n  a: {cron: '0 5 * * *', type: t}\n")
    p.command("schedules", "add", "byhand", "--cron", "@daily", "--type", "t", "--missed", "skip:5m")
    assert json.loads(p.command("schedules", "show", "byhand", "--json"))["grace"] == "5m"
    assert "skip, if more than 5m late" in p.command("schedules", "show", "byhand")
    p.start("old")
    wait_for("the old ones", lambda: set(p.schedules()) == {"a", "b", "byhand"})
    p.command("schedules", "pause", "a")
    new = p.start("new")
    wait_for("the new ones", lambda: set(p.schedules()) == {"a", "byhand"} and p.schedules()["a"]["cron"] == "0 5 * * *")
    assert p.schedules()["a"]["state"] == "paused", p.schedules()
    assert "schedule_changed" in p.log("new") and "schedule_cancelled" in p.log("new"), p.log("new")
    p.stop(new)
    p.start("old")  # a later start, whatever it has
    wait_for("the old ones again", lambda: set(p.schedules()) == {"a", "b", "byhand"} and p.schedules()["a"]["cron"] == "0 1 * * *")


@test
def of_two_that_start_at_once_one_configuration_counts_and_not_a_mixture(p):  # B212
    sets = {"a": {"x": "0 1 * * *", "only-a": "0 3 * * *"}, "b": {"x": "0 2 * * *", "only-b": "0 3 * * *"}}
    for name, crons in sets.items():
        p.config(name, "schedules:\n" + "".join("  %s: {cron: '%s', type: t}\n" % item for item in crons.items()))
    logs = {"a": 0, "b": 0}
    for _ in range(5):
        daemons = p.start("a", "b")
        told = {name: wait_for("%s has looked" % name, lambda n=name: re.findall(r"schedules?_(?:added|changed|kept)", p.log(n)[logs[n]:]))
                for name in sets}
        wait_for("all wishes", lambda: all(s["state"] == "active" for s in p.schedules().values()))
        crons = {s["name"]: s["cron"] for s in p.schedules().values()}
        assert crons in sets.values(), (crons, told)
        loser, winner = ("b", "a") if crons == sets["a"] else ("a", "b")
        assert "schedules_kept" in p.log(loser)[logs[loser]:] or "schedule_cancelled" in p.log(winner)[logs[winner]:], p.log("a") + p.log("b")
        for daemon in daemons:
            p.stop(daemon)
        for name in crons:
            p.command("schedules", "cancel", name)
        logs = {name: len(p.log(name)) for name in sets}


@test
def a_wrong_schedule_in_a_configuration_is_named_to_the_key(p):  # B203
    for text, told in (("{cron: '61 * * * *', type: t}", "schedules.x.cron: cron \"61 * * * *\": minute"),
                       ("{cron: '@daily', type: t, zone: Mars/Olympus}", "schedules.x.zone: unknown time zone"),
                       ("{cron: '@daily'}", "type is missing"),
                       ("{cron: '@daily', type: t, to: nobody}", "schedules.x.to: unknown endpoint"),
                       ("{cron: '@daily', type: t, event: on}", "schedules.x.event: an event needs a stream"),
                       ("{cron: '@daily', type: t, crom: 5}", "unknown key; did you mean cron?")):
        p.config("bad", "schedules:\n  x: %s\n" % text)
        answer = p.run("config", "check", "-c", "bad.yaml", code=3)
        assert told in answer and "bad.yaml:" in answer, answer


@test
def a_schedule_of_a_configuration_sends_events(p):  # B95
    p.config("c", "schedules:\n  daily: {cron: '@daily', type: t, event: on, stream: s}\n")
    d = p.start()
    wait_for("the schedule", lambda: p.schedules().get("daily", {}).get("state") == "active")
    p.command("schedules", "run", "daily")
    events = wait_for("its event", lambda: p.ask(d, "GET", "/v1/events?stream=s")[1]["events"])
    assert events[0]["type"] == "t" and events[0]["version"] == 1, events


@test
def who_cancels_a_schedule_of_the_configuration_hears_that_it_comes_back(p):  # B213
    p.config("c", "schedules:\n  a: {cron: '@daily', type: t}\n  b: {cron: '@daily', type: t}\n")
    d = p.start()
    p.command("schedules", "add", "byhand", "--cron", "@daily", "--type", "t")
    wait_for("the schedules", lambda: [s["state"] for s in p.schedules().values()] == ["active"] * 3)
    assert "comes back at the next start" in p.command("schedules", "cancel", "a")
    assert "comes back at the next start" in p.ask(d, "POST", "/v1/schedules/b/cancel", {})[1]["hint"]
    assert "comes back" not in p.command("schedules", "cancel", "byhand")
    p.stop(d)
    p.start()
    wait_for("what comes back", lambda: set(p.schedules()) == {"a", "b"})


# ---- People ----

@test
def schedules_are_worked_with_over_http(p):  # B201 B213
    d = p.start()
    assert p.ask(d, "GET", "/v1/schedules") == (200, {"schedules": []})
    status, answer = p.ask(d, "POST", "/v1/schedules", {"name": "n", "cron": "0 3 * * *", "type": "t", "payload": [1], "zone": "UTC"})
    assert status == 202 and answer == {"name": "n", "replaces": False}, answer
    status, s = p.ask(d, "GET", "/v1/schedules/n")
    assert status == 200 and s["state"] == "active" and s["payload"] == "[1]" and s["next_at"].endswith("T03:00:00.000000Z"), s
    status, answer = p.ask(d, "POST", "/v1/schedules/n/run", {})
    assert status == 202, answer
    wait_for("its message", lambda: [e["id"] for e in p.got("n")] == [answer["id"]])
    assert p.ask(d, "POST", "/v1/schedules/n/pause", {"why": "x"})[1]["state"] == "paused"
    assert p.ask(d, "POST", "/v1/schedules/n/resume", {})[1]["state"] == "active"
    assert p.ask(d, "POST", "/v1/schedules/n/reschedule", {"to": "1h"})[1]["next_at"] != s["next_at"]
    for to, told in (("900d", "pause it"), ("2020-01-01T00:00:00Z", "schedules run")):
        status, answer = p.ask(d, "POST", "/v1/schedules/n/reschedule", {"to": to})
        assert status == 400 and told in answer["error"]["message"], answer
    p.ask(d, "POST", "/v1/schedules/n/pause", {})
    status, answer = p.ask(d, "POST", "/v1/schedules/n/reschedule", {"to": "1h"})
    assert status == 400 and "resume it first" in answer["error"]["message"], answer
    assert p.ask(d, "POST", "/v1/schedules/n/resume", {})[1]["state"] == "active"
    status, answer = p.ask(d, "POST", "/v1/schedules", {"name": "n", "cron": "@hourly", "type": "t2", "event": True, "stream": "n"})
    assert status == 202 and answer["replaces"], answer
    wait_for("the change", lambda: p.ask(d, "GET", "/v1/schedules/n")[1]["cron"] == "@hourly")
    assert not s["event"] and p.ask(d, "GET", "/v1/schedules/n")[1]["event"]
    assert len(p.ask(d, "GET", "/v1/schedules")[1]["schedules"]) == 1
    assert p.ask(d, "POST", "/v1/schedules/n/cancel", {}) == (200, {"name": "n", "cancelled": True})
    for path in ("run", "pause", "resume", "cancel"):
        assert p.ask(d, "POST", "/v1/schedules/n/" + path, {})[0] == 404
    assert p.ask(d, "GET", "/v1/schedules/n")[0] == 404
    actions = [json.loads(line)["action"] for line in p.command("audit", "--json").splitlines()]
    assert {"schedule_add", "schedule_run", "park", "reschedule", "discard"} <= set(actions), actions


@test
def what_is_wrong_with_a_schedule_is_told_over_http_and_by_the_command(p):  # B203
    d = p.start()
    for more, told in (({"cron": "* 25 * * *"}, "hour"), ({"zone": "Mars/Olympus"}, "Mars/Olympus"), ({"missed": "never"}, "missed"),
                       ({"name": "a b"}, "name"), ({"payload_base64": "!"}, "payload_base64")):
        status, answer = p.ask(d, "POST", "/v1/schedules", {"name": "n", "cron": "@daily", "type": "t", **more})
        assert status in (400, 422) and told in answer["error"]["message"], (status, answer)
    assert "cron is missing" in p.ask(d, "POST", "/v1/schedules", {"name": "n", "type": "t"})[1]["error"]["message"]
    assert p.ask(d, "POST", "/v1/schedules", {"name": "n", "cron": "@daily", "type": "t", "destination": "no"})[0] == 404
    assert "minute" in p.command("schedules", "add", "n", "--cron", "60 * * * *", "--type", "t", code=2)
    assert "--event needs --stream" in p.command("schedules", "add", "n", "--cron", "@daily", "--type", "t", "--event", code=2)
    for wrong in "once:", "skip:x", "all:1ms", "never:5m", ":5m":
        assert "--missed" in p.command("schedules", "add", "n", "--cron", "@daily", "--type", "t", "--missed", wrong, code=2)
    assert "unknown time zone" in p.command("schedules", "add", "n", "--cron", "@daily", "--zone", "Mars/Olympus", "--type", "t", code=2)
    assert p.schedules() == {}


@test
def why_explains_a_schedule(p):  # B200
    p.command("schedules", "add", "n", "--cron", "0 3 * * *", "--type", "t")
    ident = p.schedules()["n"]["id"]
    told = p.command("why", ident)
    assert 'It is the schedule n: it sends t at the times of "0 3 * * *" (UTC)' in told, told
    assert "It sends its message in" in told and "start postrider run" in told and "postrider schedules pause n" in told, told
    p.command("schedules", "pause", "n", "--why", "they move")
    told = p.command("why", ident)
    assert "It is paused" in told and "they move" in told and "postrider schedules resume n" in told, told


@test
def a_delayed_message_is_found_moved_and_cancelled(p):  # B213
    d = p.start()
    first, second = (p.command("send", "--type", "later", "--due", "1h").strip() for _ in range(2))
    listed = [json.loads(line)["id"] for line in p.command("list", "--state", "delayed", "--json").splitlines()]
    assert set(listed) == {first, second}, listed
    assert "1 rescheduled" in p.command("reschedule", first, "--due", "1s")
    wait_for("it", lambda: [e["id"] for e in p.got()] == [first])
    assert "reschedule needs --due" in p.command("reschedule", second, code=2)
    status, answer = p.ask(d, "POST", "/v1/messages/%s/reschedule" % second, {"to": "2h"})
    assert status == 200 and answer["changed"] == 1, answer
    assert p.ask(d, "POST", "/v1/messages/%s/reschedule" % second, {"to": "soon"})[0] == 400
    assert "rescheduled" in p.command("why", second)
    assert p.ask(d, "POST", "/v1/messages/%s/discard" % second, {})[0] == 200
    assert [e["id"] for e in p.got()] == [first]


@test
def a_schedule_whose_zone_is_not_known_here_is_a_warning_and_goes_on_where_it_is(p):  # B211
    p.command("schedules", "add", "n", "--cron", "0 3 * * *", "--zone", "Europe/Berlin", "--type", "t")
    with p.transaction() as execute:  # a zone that only somebody else has
        quote = "CAST(payload AS TEXT)" if KIND == "sqlite" else "payload"
        execute("UPDATE outbox SET payload = replace(%s, 'Europe/Berlin', 'Europe/Atlantis')" % quote)
        execute("COMMIT")
    d = p.start()
    p.command("reschedule", p.schedules()["n"]["id"], "--due", "1s")
    wait_for("the failure", lambda: p.schedules()["n"]["state"] == "failing")
    assert "Europe/Atlantis" in p.schedules()["n"]["error"], p.schedules()
    checks = wait_for("the check", lambda: [c for c in p.ask(d, "GET", "/v1/status")[1]["checks"] if c["name"] == "schedule"])
    assert "schedule n cannot run" in checks[0]["advice"] and "Europe/Atlantis" in checks[0]["advice"], checks
    assert p.got("n") == []
    with p.transaction() as execute:
        execute("UPDATE outbox SET payload = replace(%s, 'Europe/Atlantis', 'Europe/Berlin')" % quote)
        execute("COMMIT")
    p.command("retry", p.schedules()["n"]["id"])
    wait_for("its message", lambda: len(p.got("n")) == 1)


# ---- SQL ----

@test
def a_schedule_by_sql_is_there_when_its_transaction_commits_and_not_before(p):  # B99
    p.start()
    with p.transaction() as execute:
        execute(p.schedule_sql("rolled", "@daily"))
        execute("ROLLBACK")
    with p.transaction() as execute:
        execute(p.schedule_sql("late", "0 3 * * *"))
        if KIND == "postgres":
            with p.transaction() as other:
                other(p.schedule_sql("early", "@daily"))
                other("COMMIT")
            wait_for("the one that committed first", lambda: "early" in p.schedules())
        assert "late" not in p.schedules()
        execute("COMMIT")
    wait_for("it", lambda: p.schedules().get("late", {}).get("state") == "active")
    assert "rolled" not in p.schedules()
    assert json.loads(p.schedules()["late"]["payload"]) == {"n": None}
    with p.transaction() as execute:  # again: it is changed
        execute(p.schedule_sql("late", "0 4 * * *"))
        execute("COMMIT")
    wait_for("the change", lambda: p.schedules()["late"]["cron"] == "0 4 * * *" and p.schedules()["late"]["state"] == "active")
    with p.transaction() as execute:
        execute("SELECT unschedule('late')" if KIND == "postgres" else
                "INSERT INTO outbox (type, stream, destination, payload) VALUES ('x', 'late', 'schedule:', '{\"cancel\":true}')")
        execute("COMMIT")
    wait_for("its end", lambda: "late" not in p.schedules())


@test
def a_schedule_is_seen_run_paused_resumed_and_moved_by_sql(p):  # B213
    def do(order):
        with p.transaction() as execute:
            if KIND == "postgres" and order in functions:
                execute("SELECT " + functions[order])
            else:
                execute("INSERT INTO outbox (type, stream, destination, payload) VALUES ('x', 'n', 'schedule:', '%s')" % order)
            execute("COMMIT")

    def view():
        sql = "SELECT name, cron, zone, missed, next_at IS NOT NULL, state FROM %s"
        if KIND == "sqlite":
            with contextlib.closing(sqlite3.connect(os.path.join(p.path, "t.db"))) as db:
                return [tuple(map(str, row)) for row in db.execute(sql % "postrider_schedules").fetchall()]
        out = subprocess.run(["psql", "-h", FOLDER, "-U", "postgres", "-d", "postgres", "-qAt", "-c", sql % (p.schema + ".schedules")],
                             capture_output=True, text=True, check=True).stdout
        return [tuple("1" if v == "t" else "0" if v == "f" else v for v in line.split("|")) for line in out.splitlines()]

    later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
    functions = {'{"run":true}': "run_schedule('n')", '{"pause":true}': "pause_schedule('n')", '{"resume":true}': "resume_schedule('n')",
                 '{"due":"%s"}' % later: "reschedule('n', '%s')" % later}
    p.start()
    with p.transaction() as execute:  # both in one transaction: the order is for what was just wished for
        execute(p.schedule_sql("n", "0 3 * * *"))
        for order in "pause", "run", "resume", "pause":
            execute("INSERT INTO outbox (type, stream, destination, payload) VALUES ('x', 'n', 'schedule:', '{\"%s\":true}')" % order)
        execute("COMMIT")
    wait_for("it", lambda: view() == [("n", "0 3 * * *", "UTC", "once", "0", "paused")])
    wait_for("its message", lambda: len(p.got("n")) == 1)
    do('{"pause":true}')  # it is already
    assert p.got("n")[0]["type"] == "by.sql" and p.got("n")[0]["data"] == {"n": None}, p.got()
    assert view() == [("n", "0 3 * * *", "UTC", "once", "0", "paused")], view()
    do('{"resume":true}')
    wait_for("the end of the pause", lambda: view() == [("n", "0 3 * * *", "UTC", "once", "1", "active")])
    regular = p.schedules()["n"]["next_at"]
    do('{"due":"%s"}' % later)
    wait_for("the other time", lambda: p.schedules()["n"]["next_at"] == later.replace("Z", ".000000Z"))
    do('{"resume":true}')  # it is not paused: the time stays
    do('{"run":true}')
    wait_for("another message", lambda: len(p.got("n")) == 2)
    assert p.schedules()["n"]["next_at"] == later.replace("Z", ".000000Z") != regular, p.schedules()
    do('{"due":"%s"}' % time.strftime("%Y-%m-%dT%H:%M:%SZ"))  # at once
    wait_for("its message", lambda: len(p.got("n")) == 3)
    wait_for("the time after that", lambda: p.schedules()["n"]["next_at"] == regular)
    for wrong, told in (('{"due":"2020-01-01T00:00:00Z"}', "cannot be in the past"), ('{"due":"2290-01-01T00:00:00Z"}', "at most one period"),
                        ('{"run":1}', "run: must be true"), ('{"pause":false}', "pause: must be true"), ('{"due":"soon"}', "due: must be a time")):
        do(wrong)
        wait_for(told, lambda t=told: t in p.command("dead", "list", "--json"))
    p.command("schedules", "cancel", "n")
    do('{"pause":true}')
    wait_for("what nobody can pause", lambda: "there is no schedule" in p.command("dead", "list", "--json"))
    assert view() == [], view()


@test
def a_wrong_schedule_by_sql_is_a_dead_letter_that_says_why(p):  # B203
    p.start()
    with p.transaction() as execute:
        execute(p.schedule_sql("bad", "61 * * * *"))
        execute("COMMIT")
    wait_for("it", lambda: p.schedules().get("bad", {}).get("state") == "dead")
    assert "minute" in p.schedules()["bad"]["error"]
    assert "minute" in p.command("dead", "list", "--json")
    p.command("schedules", "cancel", "bad")
    assert p.schedules() == {}


@test
def a_schedule_for_a_box_that_does_not_exist_ends_nothing_but_itself(p):  # B206
    daemon = p.start()
    with p.transaction() as execute:
        execute("INSERT INTO outbox (type, stream, destination, payload) VALUES ('postrider.schedule', 'lost', 'schedule:', "
                "'{\"cron\":\"* * * * *\",\"type\":\"x\",\"box\":\"nosuch\"}')")
        execute("COMMIT")
    wait_for("it", lambda: p.schedules().get("lost", {}).get("state") == "dead")
    assert 'unknown box "nosuch"' in p.schedules()["lost"]["error"]
    assert daemon["process"].poll() is None


def main():
    wanted = [t for t in TESTS if len(sys.argv) < 4 or sys.argv[3] in t.__name__]
    print("1..%d" % len(wanted))
    failed = 0
    for number, function in enumerate(wanted, 1):
        place, ok = Place(), False
        try:
            function(place)
            ok = True
        except Exception:
            for line in traceback.format_exc().splitlines():
                print("# " + line)
            for name in sorted(os.listdir(place.path)):
                if name.endswith(".log"):
                    for line in place.log(name[:-4]).splitlines()[-20:]:
                        print("# %s: %s" % (name, line))
        finally:
            place.close()
        failed += not ok
        print("%s %d - %s" % ("ok" if ok else "not ok", number, function.__name__), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
