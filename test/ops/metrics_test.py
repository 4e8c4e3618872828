#!/usr/bin/env python3
"""What /metrics says and what SQL says is the same; and what is shipped for Prometheus and Grafana fits.

Usage: metrics_test.py POSTRIDER sqlite|postgres    The output is TAP.  CONTRIB names the folder of what is shipped.
"""
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
import time
import traceback

PROGRAM, STORE = os.path.abspath(sys.argv[1]), sys.argv[2]
CONTRIB = os.environ.get("CONTRIB", "contrib")
HERE = os.path.dirname(os.path.abspath(__file__))
DEADLINE_SECONDS = 60
STATES = ("ready", "in-flight", "delayed", "retrying", "held", "parked", "paused", "dead", "done")
# Every one that people were promised.
NAMES = """messages_stored_total sends_total messages_ended_total messages_waiting messages_scheduled oldest_message_age_seconds
in_flight blocked_streams dead_letters failures_total poison_total commit_to_send_seconds send_duration_seconds endpoint_state
lanes_owned lease_lost_total verdicts_stale_total cycle_seconds store_up inbox_duplicates_total build_info messages
messages_failed poison_candidates next_retry_timestamp_seconds last_retry_timestamp_seconds counts_age_seconds
source_up source_messages_total endpoint_failed_in_row standby""".split()

CONFIG = """
store: "%s"
boxes: {outbox: {keep: 1h}}
endpoints:
  good: {url: "null:"}
  paused: {url: "null:"}
  bad: {url: "http://127.0.0.1:%d/", allow_networks: [127.0.0.0/8], retry: [1h, 2h], breaker: off, ordering: fifo}
  dead: {url: "http://127.0.0.1:%d/", allow_networks: [127.0.0.0/8], breaker: off,
         rules: [{when: {class: [transient, permanent, unknown]}, then: dead_letter}]}
watch: {every: 100ms, deaths: 3, calm: 1h, raise: {type: postrider.warning, to: good}}
http: {listen: "127.0.0.1:0"}
log: {level: error}
"""


def wait_for(what, condition):
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError("not within %d s: %s" % (DEADLINE_SECONDS, what))


class Daemon:
    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="postrider-metrics-")
        url = os.environ.get("POSTRIDER_TEST_PG") if STORE == "postgres" else "sqlite:" + os.path.join(self.path, "t.db")
        self.closed = socket.socket()  # nobody listens there, and nobody else can get it
        self.closed.bind(("127.0.0.1", 0))
        port = self.closed.getsockname()[1]
        with open(os.path.join(self.path, "c.yaml"), "w", encoding="utf-8") as f:
            f.write(CONFIG % (url, port, port))
        self.run("init")
        if STORE == "sqlite":
            self.db = sqlite3.connect(os.path.join(self.path, "t.db"), timeout=30, isolation_level=None)
        self.run("pause", "paused")
        self.start()

    def start(self):
        self.process = subprocess.Popen([PROGRAM, "run", "-c", "c.yaml"], cwd=self.path, stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline().split()[1])

    def stop(self):
        self.process.terminate()
        assert self.process.wait(DEADLINE_SECONDS) == 0
        self.process.stdout.close()

    def run(self, *args):
        done = subprocess.run([PROGRAM, *args, "-c", "c.yaml"], cwd=self.path, capture_output=True, timeout=DEADLINE_SECONDS)
        assert done.returncode == 0, (args, done.returncode, done.stderr)
        return done.stdout.decode()

    def sql(self, text):
        """Rows; from PostgreSQL all values are texts, and postrider_ is the schema."""
        if STORE == "sqlite":
            return self.db.execute(text).fetchall()
        done = subprocess.run(["psql", "-qAtX", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-c", "SET search_path = postrider", "-c", text.replace("postrider_", ""),
                               os.environ["POSTRIDER_TEST_PG"]], capture_output=True, timeout=DEADLINE_SECONDS)
        assert done.returncode == 0, (text, done.stderr)
        return [line.split("\t") for line in done.stdout.decode().splitlines()]

    def number(self, text):
        return float(self.sql(text)[0][0] or 0)

    def send(self, **message):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_SECONDS)
        c.request("POST", "/v1/messages", json.dumps(message), {"X-Postrider": "1", "Content-Type": "application/json"})
        r = c.getresponse()
        answer = r.read()
        assert r.status == 202, answer
        c.close()

    def metrics(self):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_SECONDS)
        c.request("GET", "/metrics")
        r = c.getresponse()
        assert r.status == 200
        text = r.read().decode()
        c.close()
        return text

    def gauges(self):
        """{(name, labels): value}"""
        found = {}
        for line in self.metrics().splitlines():
            match = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if match:
                found[match[1], tuple(sorted(re.findall(r'(\w+)="([^"]*)"', match[2] or "")))] = float(match[3])
        return found


def at(gauges, name, **labels):
    return gauges.get(("postrider_" + name, tuple(sorted(labels.items()))), 0.0)


def seconds(column):
    return "extract(epoch FROM %s)" % column if STORE == "postgres" else "%s / 1e6" % column


def stored(d):
    if STORE == "postgres":
        return d.number("SELECT last_value FROM outbox_seq_seq")
    return d.number("SELECT seq FROM sqlite_sequence WHERE name = 'outbox'")


def expected(d):
    """What SQL says, by the names and labels of the gauges."""
    never = "'infinity'" if STORE == "postgres" else "9223372036854775807"
    found = {}
    for state in STATES:
        table = {"dead": "postrider_dead_letter WHERE", "done": "postrider_done WHERE"}.get(state, "postrider_messages WHERE state = '%s' AND" % state)
        found["messages", ("box", "outbox"), ("state", state)] = d.number("SELECT count(*) FROM %s box = 'outbox'" % table)
    waiting = ("ready", "held", "paused")
    found["messages_waiting", ("box", "outbox")] = sum(found["messages", ("box", "outbox"), ("state", s)] for s in waiting)
    found["messages_scheduled", ("box", "outbox")] = sum(found["messages", ("box", "outbox"), ("state", s)] for s in ("delayed", "retrying"))
    found["messages_stored_total", ("box", "outbox")] = stored(d)
    found["blocked_streams", ("box", "outbox")] = d.number("SELECT count(*) FROM postrider_blocked_streams WHERE box = 'outbox' AND held > 0")
    found["dead_letters", ("box", "outbox"), ("reason", "transport_unavailable")] = d.number(
        "SELECT count(*) FROM postrider_dead_letter WHERE box = 'outbox' AND failure_reason = 1")
    for failures in (1, 2):
        found["messages_failed", ("box", "outbox"), ("failures", str(failures))] = d.number(
            "SELECT count(*) FROM outbox WHERE failures = %d" % failures)
    found["poison_candidates", ("box", "outbox")] = d.number("SELECT count(*) FROM outbox WHERE attempts - failures >= 4")
    for name, which in (("next", "min"), ("last", "max")):
        found[name + "_retry_timestamp_seconds", ("box", "outbox")] = d.number(
            "SELECT %s FROM outbox WHERE attempts > 0 AND due_at < %s" % (seconds(which + "(due_at)"), never))
    for name in ("good", "bad", "dead", "paused"):
        row = d.sql("SELECT sent, failed FROM postrider_endpoint_overview WHERE name = '%s'" % name)
        for outcome, value in zip(("ok", "failed"), row[0] if row else (0, 0)):
            found["sends_total", ("endpoint", name), ("outcome", outcome)] = float(value)
        found["endpoint_state", ("endpoint", name), ("state", "paused")] = float(name == "paused")
    return found


def differences(d):
    """Counts are up to two seconds old: whoever calls waits until they agree."""
    gauges, wrong = d.gauges(), {}
    for (name, *labels), value in expected(d).items():
        told = at(gauges, name, **dict(labels))
        if abs(told - value) > 0.01:
            wrong[name, tuple(labels)] = (told, value)
    return wrong


def metrics_agree_with_sql(d):  # B201, I17
    for i in range(7):
        d.send(type="a", destination="good")
    for i in range(4):
        d.send(type="p", destination="paused")
        d.send(type="d", destination="dead")
        d.send(type="l", destination="good", due_at="1h")
    for i in range(3):
        d.send(type="b", destination="bad", stream="s%d" % (i % 2))
    wait_for("settled", lambda: d.number("SELECT count(*) FROM postrider_dead_letter") == 4 and
             d.number("SELECT count(*) FROM outbox WHERE failures > 0") == 2 and
             d.number("SELECT count(*) FROM outbox WHERE held_by IS NOT NULL") == 1)
    d.sql("UPDATE outbox SET attempts = attempts + 4 WHERE type = 'l'")
    last = {}

    def agree():
        last["wrong"] = differences(d)
        return not last["wrong"]
    try:
        wait_for("agreement", agree)
    except AssertionError:
        raise AssertionError(last["wrong"])
    values = expected(d)
    assert values["messages", ("box", "outbox"), ("state", "paused")] == 4 and values["messages", ("box", "outbox"), ("state", "held")] == 1
    assert values["blocked_streams", ("box", "outbox")] == 1 and values["messages_stored_total", ("box", "outbox")] >= 18


def every_metric_is_there(d):
    families = set(re.findall(r"^# TYPE postrider_(\w+) ", d.metrics(), re.M))
    assert not set(NAMES) - families, set(NAMES) - families


def labels_are_escaped(d):
    """What stands in the store may be anybody's: an endpoint of an earlier configuration, say."""
    name = 'a "quote", a \\ and\na line'
    text = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    d.sql("INSERT INTO postrider_endpoint (name) VALUES ('%s')" % name)
    try:
        wait_for("its line", lambda: 'postrider_endpoint_failed_in_row{endpoint="%s"} 0\n' % text in d.metrics())
    finally:
        d.sql("DELETE FROM postrider_endpoint WHERE name = '%s'" % name)
    wait_for("it is gone", lambda: text not in d.metrics())


def promtool(*args, text=None):
    done = subprocess.run(["promtool", *args], input=text, capture_output=True, timeout=DEADLINE_SECONDS)
    assert done.returncode == 0 and not (text and done.stderr), (args, done.stdout, done.stderr)


def promtool_finds_no_fault(d):
    promtool("check", "metrics", text=d.metrics().encode())
    promtool("check", "rules", os.path.join(CONTRIB, "prometheus", "postrider.rules.yml"))
    shutil.copy(os.path.join(HERE, "alerts.yml"), d.path)
    shutil.copy(os.path.join(CONTRIB, "prometheus", "postrider.rules.yml"), d.path)
    promtool("test", "rules", os.path.join(d.path, "alerts.yml"))


def the_dashboard_asks_for_what_is_there(d):
    families = dict(re.findall(r"^# TYPE (\w+) (\w+)", d.metrics(), re.M))
    names = {n + s for n, kind in families.items() for s in (("_bucket", "_sum", "_count") if kind == "histogram" else ("",))}
    with open(os.path.join(CONTRIB, "grafana", "postrider.json"), encoding="utf-8") as f:
        queries = [t["expr"] for p in json.load(f)["panels"] for t in p["targets"]]
    assert len(queries) >= 10
    for query in queries:
        asked = set(re.findall(r"\bpostrider_\w+", query))
        assert asked and not asked - names, query


def a_warning_is_raised_once(d):
    """Four died, four were handed out too often, one endpoint only fails: a message about each, for all looks and over a restart."""
    def raised():
        text = "payload" if STORE == "postgres" else "CAST(payload AS TEXT)"
        return [json.loads(r[0]) for r in d.sql("SELECT %s FROM postrider_done WHERE type = 'postrider.warning' ORDER BY row_id" % text)]
    wait_for("both", lambda: {(w["check"], w["about"]) for w in raised()} ==
             {("dying", "store"), ("poison", "outbox"), ("failing", "dead")})

    def looks():
        return d.sql("SELECT name, seen_at FROM postrider_raised_warning ORDER BY name")
    for restart in (False, True):
        if restart:  # and from now on the looks are further apart than a warning may be away
            d.stop()
            path = os.path.join(d.path, "c.yaml")
            with open(path, encoding="utf-8") as f:
                text = f.read().replace("every: 100ms", "every: 3s").replace("calm: 1h", "calm: 1s")
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            d.start()
        for _ in range(2):
            before = looks()
            wait_for("another look", lambda: all(now[1] > old[1] for now, old in zip(looks(), before)))
        assert len(raised()) == 3 and len(looks()) == 3, raised()
    assert all("postrider" in w["advice"] and w["at"] and w["instance"] for w in raised())
    assert [r[0] for r in d.sql("SELECT headers FROM postrider_done WHERE type = 'postrider.warning'")] and \
        all("postrider-raised" in str(r[0]) for r in d.sql("SELECT headers FROM postrider_done WHERE type = 'postrider.warning'"))


def main():
    tests = [metrics_agree_with_sql, every_metric_is_there, labels_are_escaped, promtool_finds_no_fault, the_dashboard_asks_for_what_is_there,
             a_warning_is_raised_once]
    print("1..%d" % len(tests), flush=True)
    d, failed = Daemon(), 0
    try:
        for number, function in enumerate(tests, 1):
            if function == promtool_finds_no_fault and not shutil.which("promtool"):
                print("ok %d - %s # SKIP promtool is not installed" % (number, function.__name__), flush=True)
                continue
            try:
                function(d)
                print("ok %d - %s" % (number, function.__name__), flush=True)
            except Exception:
                failed += 1
                print("not ok %d - %s" % (number, function.__name__))
                print("".join("# " + line + "\n" for line in traceback.format_exc().splitlines()), flush=True)
        d.stop()
    finally:
        if d.process.poll() is None:
            d.process.kill()
            d.process.wait()
        shutil.rmtree(d.path)
    sys.exit(1 if failed else 0)


main()
