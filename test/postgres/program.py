#!/usr/bin/env python3
"""The program on PostgreSQL, from the outside: roles, senders in other languages, several instances, a restored dump.

Usage: cluster.sh program.py POSTRIDER.  The output is TAP.  EXAMPLES is the folder of the examples, EXAMPLE_PG the
one in C, NPM_FOLDER a place where npm may install what the one in JavaScript needs.
"""
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

from breaker_story import breaker_story

PROGRAM = os.path.abspath(sys.argv[1])
SERVER = os.environ.get("POSTRIDER_TEST_PG", "")
FOLDER = os.environ.get("POSTRIDER_TEST_PG_FOLDER", "")
DEADLINE_SECONDS = 60


class Skip(Exception):
    """The test cannot run here; why."""


class Place:
    """A schema and a directory of its own."""

    numbers = itertools.count(1)

    def __init__(self):
        self.schema = "place_%d_%d" % (os.getpid(), next(Place.numbers))
        self.path = tempfile.mkdtemp(prefix="postrider-pg-program-")
        self.daemons = []

    def url(self, user="postgres"):
        return "postgres:///postgres?host=%s&user=%s&schema=%s" % (FOLDER, user, self.schema)

    def run(self, *args, user="postgres"):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("POSTRIDER_")}
        return subprocess.run([PROGRAM, *args, "--store", self.url(user)], cwd=self.path, capture_output=True, text=True,
                              env=environment, timeout=DEADLINE_SECONDS)

    def ok(self, *args, **kwargs):
        done = self.run(*args, **kwargs)
        assert done.returncode == 0, "%s: code %d: %s" % (args, done.returncode, done.stderr)
        return done.stdout

    def psql(self, sql, user="postgres", fails=None, says=""):
        done = subprocess.run(["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", FOLDER, "-U", user, "postgres"],
                              input=sql.replace("{s}", self.schema), capture_output=True, text=True,
                              timeout=DEADLINE_SECONDS)
        if fails is not None:
            assert done.returncode != 0 and fails in done.stderr, (sql, done.stdout, done.stderr)
            return ""
        assert done.returncode == 0 and says in done.stderr, (sql, done.stderr)
        return done.stdout.strip()

    def start(self, config, user="postgres", failpoint="", lease="10s"):
        """lease: a short one where somebody else is to take over; it is lost when the machine is busy for so long."""
        name = os.path.join(self.path, "postrider-%d.yaml" % len(self.daemons))
        with open(name, "w") as file:
            file.write('store: "%s"\nlease: %s\n%s' % (self.url(user), lease, config))
        log = open(name + ".log", "w")
        daemon = subprocess.Popen([PROGRAM, "run", "-c", name], cwd=self.path, stdout=log, stderr=log,
                                  env=dict(os.environ, POSTRIDER_FAILPOINT=failpoint))
        daemon.log = name + ".log"
        self.daemons.append(daemon)
        return daemon

    def close(self):
        for daemon in self.daemons:
            if daemon.poll() is None:
                daemon.send_signal(signal.SIGCONT)
                daemon.kill()
            daemon.wait()
        shutil.rmtree(self.path)  # the schema goes with the server


def until(what, condition):
    end = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < end, "never: " + what
        time.sleep(0.05)


def stop(daemon):
    daemon.terminate()
    assert daemon.wait(DEADLINE_SECONDS) == 0, open(daemon.log).read()


def test_an_open_breaker_is_seen_from_outside(place):  # B72, B73, B200
    place.ok("init")
    breaker_story(place.ok, place.start, place.psql, over="lease_end = now()")


NULL = "endpoints: {nowhere: {url: 'null:'}}\nroutes: [{to: nowhere}]\n"


def test_init_makes_the_tables_and_runs_twice(place):
    out = place.ok("init")
    assert "PostgreSQL" in out and "4 boxes" in out, out
    place.ok("init")
    assert place.psql("SELECT count(*) FROM {s}.box") == "4"


def test_any_language_sends_with_a_plain_insert_or_with_send(place):
    place.ok("init")
    place.psql("""BEGIN;
        INSERT INTO {s}.outbox (type, payload) VALUES ('a', '{"amount":5}');
        INSERT INTO {s}.outbox (type, stream, payload, headers) VALUES ('b', 'account-7', '{}', '{"tenant":"7"}');
        SELECT {s}.send(type => 'c', payload => '{"amount":5}'::jsonb, stream => 'account-7', destination => 'orders');
        SELECT {s}.send('d', 'text');
        SELECT {s}.send(type => 'e', payload => '\\x00ff'::bytea, due => now() + interval '1 hour', event => true, stream => 'account-8',
                        expires => now() + interval '2 hours', headers => '{"a":1}');
        COMMIT;""")
    listed = {m["type"]: m for m in map(json.loads, place.ok("list", "--json").splitlines())}
    assert sorted(listed) == ["a", "b", "c", "d", "e"], listed
    assert listed["a"]["payload"] == '{"amount":5}' and listed["b"]["stream"] == "account-7"
    assert listed["b"]["headers"] == {"tenant": "7"}, listed["b"]
    assert listed["c"]["destination"] == "orders" and listed["e"]["state"] == "delayed"
    assert listed["e"]["payload_base64"] == "AP8=", listed["e"]
    same = "0190163d-8694-739b-aea5-966c26f8ad91"
    for _ in range(2):
        assert place.psql("SELECT {s}.send(type => 'f', payload => 'x', id => '%s')" % same) == same
    assert place.psql("SELECT count(*) FROM {s}.outbox WHERE id = '%s'" % same) == "1"
    place.psql("SELECT {s}.send(type => 'f', payload => 'x', id => '%s')" % same, says="NOTICE:  duplicate: " + same)
    place.psql("""SELECT {s}.send(type => 'g', payload => '{}'::jsonb, source => '/shop', subject => 'order-7', correlation_id => 'c',
        causation_id => 'd', traceparent => '00-a-b-01', tracestate => 'v=1')""")
    assert place.psql("SELECT correlation_id, causation_id, traceparent, tracestate, source, subject FROM {s}.outbox"
                      " WHERE type = 'g'") == "c|d|00-a-b-01|v=1|/shop|order-7"
    place.psql("SELECT {s}.send(type => '', payload => 'x')", fails="type is empty")
    place.psql("SELECT {s}.send(type => 'x', payload => 'x', headers => '[1]')", fails="headers are not a JSON object")
    place.psql("SELECT {s}.send(type => 'x', payload => 'x', box => 'nowhere')", fails="nowhere")
    place.psql("BEGIN; INSERT INTO {s}.outbox (type) VALUES ('gone'); ROLLBACK")
    assert place.psql("SELECT count(*) FROM {s}.messages WHERE type = 'gone'") == "0"


def python_with_psycopg2():
    for python in (sys.executable, "/usr/bin/python3"):
        if os.path.exists(python) and subprocess.run([python, "-c", "import psycopg2"], stderr=subprocess.DEVNULL).returncode == 0:
            return python
    raise Skip("python3-psycopg2 is not installed")


def node_with_pg():
    """The folder from which a script finds the package pg."""
    folder = os.environ["NPM_FOLDER"]
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise Skip("node and npm are not installed")
    if not os.path.isdir(folder + "/node_modules/pg"):
        os.makedirs(folder, exist_ok=True)
        done = subprocess.run(["npm", "install", "--prefix", folder, "--no-audit", "--no-fund", "--silent", "pg@8"],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise Skip("npm cannot install pg here")
    return folder


def run_example(place, command, count):
    """It stores so many messages, in streams of its own order, and its order with them."""
    environment = dict(os.environ, PGHOST=FOLDER, PGUSER="postgres", PGDATABASE="postgres")
    place.psql("DROP SCHEMA IF EXISTS postrider CASCADE; DROP TABLE IF EXISTS orders; SET client_min_messages = warning")
    place.schema = "postrider"
    place.ok("init")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert done.returncode == 0, done.stderr
    listed = [json.loads(line) for line in place.ok("list", "--json").splitlines()]
    assert len(listed) == count, listed
    assert listed[0]["type"] == "order.placed" and listed[0]["stream"] == "order-1", listed
    assert json.loads(listed[0]["payload"]) == {"order": 1, "total": 4200} or \
        json.loads(listed[0]["payload"]) == {"order": "1", "total": 4200}, listed
    assert count == 1 or listed[1]["headers"] == {"tenant": "7"}, listed
    assert place.psql("SELECT count(*) FROM orders") == "1"
    place.psql("DROP TABLE orders")


def test_the_example_for_psql_sends(place):
    run_example(place, ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", os.environ["EXAMPLES"] + "/send.sql"], 2)


def test_the_example_in_python_sends(place):
    run_example(place, [python_with_psycopg2(), os.environ["EXAMPLES"] + "/send.py"], 2)


def test_the_example_in_javascript_sends(place):
    folder = node_with_pg()
    shutil.copy(os.environ["EXAMPLES"] + "/send.mjs", folder)
    run_example(place, ["node", folder + "/send.mjs"], 2)


def test_the_example_in_c_sends(place):
    run_example(place, [os.environ["EXAMPLE_PG"], "postgres:///postgres?host=%s&user=postgres" % FOLDER], 1)


def test_each_role_can_do_its_part_and_no_more(place):
    place.ok("init")
    roles = make_roles(place)
    try:
        app, relay, admin = roles["app"], roles["relay"], roles["admin"]
        place.psql("INSERT INTO {s}.outbox (type, payload) VALUES ('a', 'x')", user=app)
        place.psql("SELECT {s}.send(type => 'b', payload => 'x')", user=app)
        place.ok("send", "--type", "c", "--data", "x", user=app)
        place.psql("SELECT payload FROM {s}.outbox", user=app, fails="permission denied")
        place.psql("DELETE FROM {s}.outbox", user=app, fails="permission denied")
        place.psql("INSERT INTO {s}.outbox (type, attempts) VALUES ('a', 3)", user=app, fails="permission denied")
        place.psql("SELECT * FROM {s}.instance", user=app, fails="permission denied")
        place.psql("INSERT INTO {s}.audit (at) VALUES (now())", user=relay, fails="permission denied")
        place.psql("UPDATE {s}.meta SET value = '9'", user=relay, fails="permission denied")
        listed = [json.loads(line) for line in place.ok("list", "--json", user=admin).splitlines()]
        assert len(listed) == 3, listed
        place.ok("park", listed[0]["id"], user=admin)
        daemon = place.start(NULL, user=relay)
        until("all others are delivered", lambda: place.psql("SELECT count(*) FROM {s}.outbox") == "1")
        place.ok("retry", listed[0]["id"], user=admin)
        until("all is delivered", lambda: place.psql("SELECT count(*) FROM {s}.outbox") == "0")
        assert "permission" not in open(daemon.log).read(), open(daemon.log).read()
        place.psql("DELETE FROM {s}.audit", user=admin, fails="permission denied")
        assert place.psql("SELECT string_agg(action, ' ' ORDER BY number) FROM {s}.audit") == "park retry"
        daemon.terminate()
        assert daemon.wait(DEADLINE_SECONDS) == 0, open(daemon.log).read()
    finally:
        drop_roles(place, roles)


def test_what_a_source_cannot_decode_is_nobodys_order(place):  # B202, B206
    """A relay without an HTTP API has no right to write into the record, and its sources go on without it."""
    place.ok("init")
    roles = make_roles(place)
    try:
        lines = os.path.join(place.path, "in.jsonl")
        with open(lines, "w") as file:
            file.write('{"specversion":"1.0","id":"1"}\n{"no json\n{"specversion":"1.0","id":"2","source":"/s","type":"t"}\n')
        daemon = place.start("sources: [{file: 'file:%s'}]\nendpoints: {none: {url: 'null:'}}\n" % lines, user=roles["relay"])
        until("the good one is there", lambda: place.psql("SELECT count(*) FROM {s}.inbox WHERE type = 't'") == "1")
        assert int(place.psql("SELECT count(*) FROM {s}.dead_letter")) >= 1
        assert place.psql("SELECT count(*) FROM {s}.audit") == "0"
        stop(daemon)
    finally:
        drop_roles(place, roles)


AUDIT_OF_LAST_YEAR = """INSERT INTO {s}.audit (at, who, action, target, why, matched, changed, refused)
    VALUES (now() - interval '400 days', 'ann', 'retry', '{}', '', 1, 1, 0)"""


def test_a_relay_removes_old_lines_of_the_record_if_it_has_the_right_and_delivers_if_not(place):
    place.ok("init")
    with open(os.path.join(place.path, "kept.yaml"), "w") as file:
        file.write("retention: {audit: 365d}\n" + NULL)
    roles = make_roles(place)
    try:
        place.psql(AUDIT_OF_LAST_YEAR)
        first = place.start("retention: {audit: 365d}\n" + NULL, user=roles["relay"])
        until("it says that it may not", lambda: "purge_failed" in open(first.log).read())
        place.psql("INSERT INTO {s}.outbox (type, payload) VALUES ('a', 'x')", user=roles["app"])
        until("it delivers", lambda: place.psql("SELECT count(*) FROM {s}.outbox") == "0")
        assert place.psql("SELECT count(*) FROM {s}.audit") == "1"
        first.terminate()
        assert first.wait(DEADLINE_SECONDS) == 0, open(first.log).read()
        place.psql(place.ok("init", "--grants", "-c", "kept.yaml"))
        second = place.start("retention: {audit: 365d}\n" + NULL, user=roles["relay"])
        until("the line is gone", lambda: place.psql("SELECT count(*) FROM {s}.audit") == "0")
        assert "permission" not in open(second.log).read(), open(second.log).read()
        place.psql("DELETE FROM {s}.audit", user=roles["admin"], fails="permission denied")
        second.terminate()
        assert second.wait(DEADLINE_SECONDS) == 0, open(second.log).read()
    finally:
        drop_roles(place, roles)


def test_a_role_without_any_right_stops_nothing_with_advisory_locks(place):  # B206: everybody can take them
    place.ok("init")
    role = place.schema + "_stranger"
    place.psql('CREATE ROLE "%s" LOGIN' % role)
    with subprocess.Popen(["psql", "-X", "-q", "-A", "-t", "-h", FOLDER, "-U", role, "postgres"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as stranger:
        try:
            for key in "postrider tally %s", 'postrider tally "%s"', "postrider %s.outbox", "postrider %s":
                stranger.stdin.write("SELECT pg_advisory_lock(hashtextextended('%s', 0));\n" % key % place.schema)
            stranger.stdin.write("SELECT 'holds all';\n")
            stranger.stdin.flush()
            until("it has them", lambda: stranger.stdout.readline() == "holds all\n")
            place.start(NULL, lease="2s")
            place.psql("INSERT INTO {s}.outbox (type) SELECT 't' FROM generate_series(1, 3)")
            until("they are delivered", lambda: place.psql("SELECT count(*) FROM {s}.outbox") == "0")
            until("what was counted is in the totals", lambda: place.psql("SELECT sum(sent) FROM {s}.endpoint") == "3")
            assert place.psql("SELECT count(*) FROM {s}.tally") == "0"
        finally:
            stranger.kill()
    place.psql('DROP ROLE "%s"' % role)


def drop_roles(place, roles):
    for role in roles.values():
        place.psql('DROP OWNED BY "%s"; DROP ROLE "%s"' % (role, role))


def make_roles(place, *arguments):
    """Four roles by the script that is printed, which can be run again; who may log in as which."""
    for _ in range(2):
        place.psql(place.ok("init", "--grants", *arguments))
    roles = {name: "%s_%s" % (place.schema, name) for name in ("app", "relay", "admin", "reader")}
    for role in roles.values():
        place.psql('ALTER ROLE "%s" LOGIN' % role)
    return roles


OLD_SEND = """DROP FUNCTION {s}.send(text, json, text, text, jsonb, timestamptz, timestamptz, uuid, boolean, text, text,
                    text, text, text, text, text, text);
    UPDATE {s}.meta SET value = '17' WHERE key = 'schema_version'"""


def test_roles_keep_their_rights_when_the_tables_are_upgraded_or_there_is_a_new_box(place):
    place.ok("init")
    roles = make_roles(place)
    try:
        place.psql('GRANT EXECUTE ON FUNCTION {s}.complete TO "%s"; DROP FUNCTION {s}.complete_append, {s}.complete_set' % roles["reader"])
        place.psql(OLD_SEND)
        place.ok("init")
        assert place.psql("SELECT {s}.complete_set('s', 'n', 'v')", user=roles["reader"]) == "t"  # who may complete may do that, too
        assert place.psql("SELECT {s}.send(type => 'a', payload => '{}'::json) IS NOT NULL", user=roles["app"]) == "t"
        place.psql("SELECT {s}.advance_subscription('v', 1, 0, 1)", user=roles["app"], fails="permission denied")  # B206
        place.psql("SELECT {s}.place_events(1)", user=roles["app"], fails="permission denied")
        place.psql("SELECT {s}.schedule('nightly', '0 0 * * *', 't')", user=roles["app"], fails="permission denied")
        place.psql("SELECT {s}.unschedule('nightly')", user=roles["app"], fails="permission denied")
        place.psql("SELECT {s}.complete_set('s', 'n', 'v')", user=roles["app"], fails="permission denied")
        place.psql("SELECT {s}.complete_append('s', {s}.uuid7(), 't', NULL, NULL, NULL)", user=roles["app"], fails="permission denied")
        with open(os.path.join(place.path, "more.yaml"), "w") as file:
            file.write("boxes: {ledger: {}}\n" + NULL)
        place.ok("init", "-c", "more.yaml")
        assert place.psql("SELECT count(*) FROM {s}.messages", user=roles["admin"]) == "1"
        place.psql("SELECT count(*) FROM {s}.messages", user=roles["app"], fails="permission denied")
    finally:
        drop_roles(place, roles)


def test_a_relay_with_an_http_api_takes_orders_of_people(place):  # B202
    with open(os.path.join(place.path, "http.yaml"), "w") as file:
        file.write("http: {listen: 127.0.0.1:0}\n" + NULL)
    place.ok("init")
    roles = make_roles(place, "-c", "http.yaml")
    try:
        daemon = place.start("http: {listen: 127.0.0.1:0}\n" + NULL, user=roles["relay"])
        running = re.compile(r"^http (\d+)\n", re.MULTILINE)  # it listens earlier, for those who ask for its health
        until("it runs", lambda: running.search(open(daemon.log).read()))
        port = running.search(open(daemon.log).read()).group(1)
        done = subprocess.run(["curl", "-sS", "-H", "Content-Type: application/json", "-H", "X-Postrider: 1", "-d", "{}",
                               "http://127.0.0.1:%s/v1/endpoints/nowhere/pause" % port], capture_output=True, text=True)
        assert place.psql("SELECT action FROM {s}.audit") == "pause", (done.stdout, done.stderr)
        place.psql("DELETE FROM {s}.audit", user=roles["relay"], fails="permission denied")
        stop(daemon)
    finally:
        drop_roles(place, roles)


def test_a_role_that_may_only_read_reads_all_events_in_their_order(place):  # B95
    place.ok("init")
    roles = make_roles(place)
    try:
        place.psql("SELECT {s}.send(type => 't', payload => 'x'::text, stream => 'a', event => true)", user=roles["app"])
        assert place.ok("events", "--json", user=roles["reader"]) == ""  # nobody has given it a place yet
        place.psql("SELECT {s}.place_events(1)", user=roles["reader"], fails="permission denied")  # B206: it would stop all others
        relay = place.start(NULL, user=roles["relay"])
        until("the relay has given it a place", lambda: place.ok("events", "--json", user=roles["reader"]) != "")
        stop(relay)
        events = place.ok("events", "--json", user=roles["reader"])
        assert [json.loads(e)["place"] for e in events.splitlines()] == [1], events
        assert "a" in place.ok("events", "--stream", "a", user=roles["reader"])
        for look in ("status", "--json"), ("top", "--once"), ("list",), ("dead", "groups"), ("endpoints",), ("audit",):
            place.ok(*look, user=roles["reader"])
        place.psql("DELETE FROM {s}.event", user=roles["reader"], fails="permission denied")
        place.psql("INSERT INTO {s}.event_order VALUES (9, 'a', 9)", user=roles["reader"], fails="permission denied")
        place.psql("SELECT {s}.advance_subscription('v', 1, 0, 1)", user=roles["app"], fails="permission denied")
        for role in ("relay", "admin"):
            place.psql("SELECT {s}.send(type => 't', payload => 'x'::text, stream => 'a', event => true)", user=roles["app"])
            assert '"place":' in place.ok("events", "--json", user=roles[role])
        place.ok("send", "--type", "t", "--stream", "a", "--event", "--expect-version", "3", user=roles["admin"])
        assert place.psql("SELECT count(*) FROM {s}.event_order o JOIN {s}.event e USING (stream, version)") == "3"
    finally:
        drop_roles(place, roles)


def test_a_subscription_cannot_be_moved_behind_the_last_event(place):  # B95
    place.ok("init")
    place.psql("SELECT {s}.send(type => 't', payload => 'x'::text, stream => 'a', event => true)")
    place.psql("INSERT INTO {s}.subscription (name, position, fence) VALUES ('v', 0, 7)")
    move = "SELECT {s}.advance_subscription('v', 7, 0, %d)"
    place.psql(move % 1, fails="no event has the place 1; the last one is 0")  # it has none yet
    place.psql("SELECT {s}.place_events(10)")
    place.psql(move % 2, fails="no event has the place 2; the last one is 1")
    assert place.psql(move % 1) == "t" and place.psql(move % 1) == "f"


WISH = """INSERT INTO {s}.outbox (type, stream, destination, payload)
    VALUES ('postrider.schedule', 'nightly', 'schedule:', '{"cancel":true}')"""
REFUSED = 'cannot make or cancel schedules: GRANT EXECUTE ON FUNCTION'
# Nothing is a destination, and nothing equals anything.
TRAP_OPERATORS = """
    CREATE FUNCTION "{t}".yes(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
    CREATE FUNCTION "{t}".no(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT false';
    CREATE OPERATOR "{t}".<> (LEFTARG = text, RIGHTARG = text, FUNCTION = "{t}".yes);
    CREATE OPERATOR "{t}".= (LEFTARG = text, RIGHTARG = text, FUNCTION = "{t}".no);
    SET search_path = "{t}", pg_catalog;"""


def test_who_can_send_cannot_make_replace_or_cancel_schedules(place):  # B206
    place.ok("init")
    roles = make_roles(place)
    try:
        place.psql("SELECT {s}.schedule('nightly', '0 3 * * *', 'report', missed => 'skip', grace => '5m')")
        relay = place.start(NULL, user=roles["relay"])  # its own rights are enough to put it into its place
        until("it is there", lambda: "active" in place.ok("schedules"))
        assert "skip, if more than 5m late" in place.ok("schedules", "show", "nightly")
        place.psql(WISH, user=roles["app"], fails=REFUSED)
        by_send = ("SELECT {s}.send(type => 'postrider.schedule', stream => 'nightly', destination => 'schedule:',"
                   " payload => '{\"cancel\":true}'::json)")
        place.psql(by_send, user=roles["app"], fails=REFUSED)  # although send() has its owner's rights
        place.psql('SET ROLE "%s"; ' % roles["app"] + by_send, fails=REFUSED)
        for call in ("schedule('nightly', '@daily', 't')", "unschedule('nightly')", "run_schedule('nightly')",
                     "pause_schedule('nightly')", "resume_schedule('nightly')", "reschedule('nightly', now())"):
            place.psql("SELECT {s}.%s" % call, user=roles["app"], fails="permission denied")
        place.psql(WISH.replace("cancel", "pause"), user=roles["app"], fails=REFUSED)
        own = place.schema + "_own"
        place.psql('CREATE SCHEMA "%s" AUTHORIZATION "%s"' % (own, roles["app"]))
        place.psql(TRAP_OPERATORS.replace("{t}", own) + WISH, user=roles["app"], fails=REFUSED)
        assert place.psql("SELECT name || ' ' || state FROM {s}.schedules", user=roles["reader"]) == "nightly active"
        assert place.psql("SELECT count(*) FROM {s}.outbox") == "1"
        place.psql("INSERT INTO {s}.outbox (type) VALUES ('t')", user=roles["app"])
        place.ok("schedules", "add", "weekly", "--cron", "@weekly", "--type", "t", user=roles["admin"])
        place.psql('GRANT EXECUTE ON FUNCTION {s}.schedule, {s}.unschedule TO "%s"' % roles["app"])
        place.psql(WISH.replace("cancel", "pause"), user=roles["app"])  # without a right to read what is in the box
        until("it is paused", lambda: place.psql("SELECT state FROM {s}.schedules WHERE name = 'nightly'") == "paused")
        place.psql("SELECT {s}.unschedule('nightly')", user=roles["app"])
        until("it is gone", lambda: "nightly" not in place.ok("schedules") and "weekly" in place.ok("schedules"))
        stop(relay)
    finally:
        drop_roles(place, roles)


FAILING = "endpoints: {broken: {url: 'exec:/bin/false', retry: {base: 50ms, factor: 1, failures: 100}}}\nroutes: [{to: broken}]\n"


def test_a_failed_message_whose_due_time_is_cleared_by_hand_is_still_a_failed_one(place):  # B30, B40, B62
    place.ok("init")
    place.psql("INSERT INTO {s}.outbox (type) VALUES ('t')")
    daemon = place.start(FAILING)
    until("it failed more often than it may be handed out", lambda: int(place.psql("SELECT failures FROM {s}.outbox")) > 6)
    stop(daemon)
    before = int(place.psql("UPDATE {s}.outbox SET due_at = NULL RETURNING failures"))
    daemon = place.start(FAILING)
    until("it goes on", lambda: place.psql("SELECT failures > %d FROM {s}.outbox UNION ALL SELECT true FROM {s}.dead_letter" % before) == "t")
    stop(daemon)
    assert place.psql("SELECT attempts = failures AND json_array_length(story) > 6 FROM {s}.outbox") == "t"


def test_a_relay_goes_on_when_somebody_alters_a_column_under_it(place):
    place.ok("init")
    daemon = place.start(NULL)
    place.psql("INSERT INTO {s}.outbox (type) VALUES ('before')")
    until("it delivers", lambda: place.psql("SELECT count(*) FROM {s}.outbox") == "0")
    place.psql("DROP VIEW {s}.messages, {s}.blocked_streams; ALTER TABLE {s}.outbox ALTER source TYPE varchar(200);"
               "INSERT INTO {s}.outbox (type) VALUES ('after')")
    until("it still delivers", lambda: place.psql("SELECT count(*) FROM {s}.outbox") == "0")
    stop(daemon)
    assert "store_trouble" not in open(daemon.log).read(), open(daemon.log).read()


def test_tables_of_others_are_refused_with_what_to_do(place):
    place.psql("CREATE SCHEMA {s}; CREATE TABLE {s}.outbox (id int)")
    for refuses in ("outbox", "dead_letter"):
        done = place.run("init")
        assert done.returncode == 5 and refuses in done.stderr and "schema=NAME" in done.stderr, done
        place.psql("DROP TABLE {s}.%s; CREATE TABLE {s}.dead_letter (id int)" % refuses)
    place.psql("DROP TABLE {s}.dead_letter")
    place.ok("init")
    place.psql("SET client_min_messages = warning; DROP TABLE {s}.outbox CASCADE; CREATE TABLE {s}.outbox (id int)")
    done = place.run("status")
    assert done.returncode == 5 and "other columns" in done.stderr and "schema=NAME" in done.stderr, done


def hold(sql):
    """A session of somebody else, after it has done that."""
    holder = subprocess.Popen(["psql", "-X", "-q", "-A", "-t", "-h", FOLDER, "-U", "postgres", "postgres"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True, env=dict(os.environ, PGAPPNAME="holder"))
    holder.stdin.write(sql + ";\\echo held\n")
    holder.stdin.flush()
    while holder.stdout.readline() != "held\n":
        assert holder.poll() is None
    return holder


def test_what_keeps_writers_out_is_told_with_what_to_do(place):
    place.ok("init")
    role = place.schema + "_reader"

    def locked(user="postgres"):
        checks = json.loads(place.ok("status", "--json", user=user))["checks"]
        return " ".join(c["advice"] for c in checks if c["name"] == "locked" and c["state"] == "warn")
    assert locked() == ""
    holder = hold("BEGIN; LOCK TABLE %s.outbox IN EXCLUSIVE MODE" % place.schema)
    try:
        until("it is told", lambda: "(holder) has locked %s.outbox (ExclusiveLock)" % place.schema in locked())
        assert "pg_terminate_backend(" in locked() and "has locked" in place.ok("doctor")
    finally:
        holder.communicate("\\q\n", timeout=DEADLINE_SECONDS)
    until("it is over", lambda: locked() == "")
    holder = hold("BEGIN; LOCK TABLE %s.outbox" % place.schema)  # nobody can read either
    try:
        done = place.run("status")
        assert done.returncode == 5 and "(holder) has locked %s.outbox (AccessExclusiveLock)" % place.schema in done.stderr, done
    finally:
        holder.communicate("\\q\n", timeout=DEADLINE_SECONDS)
    place.psql('CREATE ROLE "%s" SUPERUSER LOGIN; ALTER ROLE "%s" SET default_transaction_read_only = on' % (role, role))
    try:
        assert "default_transaction_read_only is on" in locked(user=role)
    finally:
        place.psql('DROP ROLE "%s"' % role)


def test_rows_over_the_limits_become_dead_letters_however_long_they_are(place):  # B9
    place.ok("init")
    daemon = place.start(NULL)
    long = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 200) i)"  # what the server cannot compress
    place.psql("INSERT INTO {s}.outbox (type, stream) VALUES ('long', %s), (%s, 'long'), ('good', 'stream')" % (long, long))
    until("all are settled", lambda: place.psql("SELECT count(*) FROM {s}.outbox") == "0")
    assert place.psql("SELECT count(*) FROM {s}.dead_letter WHERE %s IN (type, stream)" % long) == "2"
    place.psql("INSERT INTO {s}.outbox (type, attempts, failures) VALUES ('damaged', 2147483647, 2147483647), ('good', 0, 0)")
    until("a counter is no way out", lambda: place.psql("SELECT count(*) FROM {s}.outbox") == "0")
    assert place.psql("SELECT count(*) FROM {s}.dead_letter WHERE type = 'damaged'") == "1"
    found = place.ok("dead", "list", "--json", "--stream", place.psql("SELECT " + long))
    assert [json.loads(line)["type"] for line in found.splitlines()] == ["long"], found
    stop(daemon)


def test_three_instances_share_the_work_and_take_over_from_one_that_is_killed(place):
    place.ok("init")
    daemons = [place.start("instance: i%d\n%s" % (i, NULL), lease="2s") for i in range(3)]
    until("lanes are shared", lambda: place.psql(
        "SELECT count(*) FILTER (WHERE bit_count(lanes::bit(64)) BETWEEN 21 AND 22) FROM {s}.instance WHERE box = 'outbox'") == "3")
    place.psql("INSERT INTO {s}.outbox (type, stream) SELECT 't', 's' || i % 500 FROM generate_series(1, 5000) i")
    daemons[0].kill()
    daemons[1].send_signal(signal.SIGSTOP)
    until("the third does it all", lambda: place.psql("SELECT count(*) FROM {s}.outbox") == "0")
    daemons[1].send_signal(signal.SIGCONT)
    until("the stopped one is back", lambda: place.psql(
        "SELECT count(*) FROM {s}.instance WHERE box = 'outbox' AND lanes <> 0") == "2")
    assert place.psql("SELECT sum(sent) >= 5000 FROM {s}.endpoint_overview") == "t"
    assert place.psql("SELECT count(*) FROM {s}.dead_letter") == "0"
    for daemon in daemons[1:]:
        daemon.terminate()
        assert daemon.wait(DEADLINE_SECONDS) == 0, open(daemon.log).read()
    assert place.psql("SELECT count(*) FROM {s}.instance") == "0"
    assert place.psql("SELECT count(*) FROM {s}.claim") == "0"


def test_a_relay_goes_on_by_itself_when_the_server_is_back(place):
    place.ok("init")
    daemon = place.start(NULL)
    until("it works", lambda: place.psql("SELECT count(*) FROM {s}.instance WHERE box = 'outbox'") == "1")
    assert subprocess.run(os.environ["POSTRIDER_TEST_PG_RESTART"], shell=True).returncode == 0
    place.psql("INSERT INTO {s}.outbox (type) SELECT 't' FROM generate_series(1, 100)")
    until("all is delivered", lambda: place.psql("SELECT count(*) FROM {s}.outbox") == "0")
    assert daemon.poll() is None
    daemon.terminate()
    assert daemon.wait(DEADLINE_SECONDS) == 0, open(daemon.log).read()


DOWN = "endpoints: {nowhere: {url: 'http://127.0.0.1:1/', allow_networks: [127.0.0.0/8], retry: [1h]}}\nroutes: [{to: nowhere}]\n"


def test_a_restored_dump_goes_on_where_it_was(place):
    """S5: xids, instances, receipts and leases of another server mean nothing any more."""
    place.ok("init")
    place.psql("INSERT INTO {s}.outbox (type, stream) SELECT 'failing', 'f' || i FROM generate_series(1, 3) i")
    daemon = place.start(DOWN, lease="2s")
    until("they have failed", lambda: place.psql("SELECT count(*) FROM {s}.outbox WHERE failures > 0") == "3")
    daemon.kill()
    daemon.wait()
    # Many transactions later, so that a new server has not come so far.
    place.psql("DO $$ BEGIN FOR i IN 1..20000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$")
    place.psql("INSERT INTO {s}.outbox (type, stream) SELECT 't', 's' || i % 10 FROM generate_series(1, 300) i")
    dump = os.path.join(place.path, "dump.sql")
    bin_folder = os.environ["POSTRIDER_TEST_PG_BIN"]
    assert subprocess.run("%s/pg_dump -h %s -U postgres -n %s postgres" % (bin_folder, FOLDER, place.schema), shell=True,
                          stdout=open(dump, "w")).returncode == 0
    environment = {k: v for k, v in os.environ.items() if not k.startswith("POSTRIDER_TEST_PG")}
    done = subprocess.run([os.path.join(os.path.dirname(os.path.abspath(__file__)), "cluster.sh"), sys.executable, __file__,
                           PROGRAM, "--restored", place.schema, dump], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def restored(schema, dump):
    """On the new server."""
    place = Place()
    place.schema = schema
    try:
        place.psql(open(dump).read())
        assert place.psql("SELECT min(xid::text::bigint) > pg_current_xact_id()::text::bigint FROM {s}.outbox WHERE type = 't'") == "t"
        assert place.psql("SELECT count(*) FROM {s}.instance WHERE box = 'outbox'") == "1"
        place.start(NULL)
        until("all that can be is delivered", lambda: place.psql("SELECT count(*) FROM {s}.outbox") == "3")
        assert place.psql("SELECT sum(sent) FROM {s}.endpoint_overview") == "300"
        place.ok("retry", "--type", "failing", "--yes")
        until("all is delivered", lambda: place.psql("SELECT count(*) FROM {s}.outbox") == "0")
        place.psql("INSERT INTO {s}.outbox (type) VALUES ('new')")
        until("the new one, too", lambda: place.psql("SELECT sum(sent) FROM {s}.endpoint_overview") == "304")
    finally:
        place.close()
    return 0


def run_one(function, make):
    """What went wrong (None: nothing), and why it was not tried."""
    wrong, skipped, place = None, None, make()
    for step in (lambda: function(place), place.close):
        try:
            step()
        except Skip as why:
            skipped = str(why)
        except Exception:
            wrong = (wrong or "") + traceback.format_exc()
    return wrong, skipped


def main(names, make=Place, at_once=1):
    """Run what is called test_ in names, or of that what a word on the command line is in, each in a place of its own."""
    if sys.argv[2:3] == ["--restored"]:
        return restored(*sys.argv[3:])
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    tests = [(name, function) for name, function in sorted(names.items()) if name.startswith("test_") and wanted in name]
    if not FOLDER:
        print("1..0 # SKIP the server is not ours")
        return 0
    print("1..%d" % len(tests))
    failed = 0
    with ThreadPoolExecutor(at_once) as pool:
        results = pool.map(lambda test: run_one(test[1], make), tests)
        for number, ((name, _), (wrong, skipped)) in enumerate(zip(tests, results), 1):
            failed += wrong is not None
            print("%s %d - %s%s" % ("not ok" if wrong else "ok", number, name[5:], " # SKIP " + skipped if skipped else ""))
            for line in (wrong or "").splitlines():
                print("# " + line)
            sys.stdout.flush()
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(globals()))
