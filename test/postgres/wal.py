#!/usr/bin/env python3
"""The server's log as a source: what wakes, what is stored, and what is said where it cannot be.

Usage: PG_SETTINGS="wal_level = logical" cluster.sh wal.py POSTRIDER [WORD].  The output is TAP.
"""
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request

sys.dont_write_bytecode = True
from program import DEADLINE_SECONDS, FOLDER, Place, main, until  # noqa: E402

CONSOLE = "endpoints: {paper: {url: 'console:'}}\nroutes: [{to: paper}]\nboxes: {outbox: {keep: 1h}, ledger: {}}\n"
ROUNDS, QUICK_SECONDS, LATE_SECONDS = 6, 0.5, 20
FREE = 4  # slots and senders of the server, see meson.build
SLOW_POLL = "poll: {min: 60s, max: 60s}\n"


class Session:
    """A psql that stays: starting one for each statement takes longer than all the rest."""

    END = "-- end --"

    def __init__(self):
        self.psql = subprocess.Popen(["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", FOLDER, "-U", "postgres",
                                      "postgres"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, sql):
        self.psql.stdin.write("%s;\nSELECT '%s';\n" % (sql, self.END))
        self.psql.stdin.flush()
        lines = []
        for line in self.psql.stdout:
            if line.strip() == self.END:
                return "\n".join(lines).strip()
            lines.append(line.rstrip("\n"))
        raise AssertionError((sql, lines))

    def close(self):
        self.psql.stdin.close()
        self.psql.stdout.close()
        self.psql.wait()


class Log(Place):
    """A place with a source in its configuration, and a slot that goes with it."""

    session = None

    def psql(self, sql, **kwargs):
        if kwargs:
            return super().psql(sql, **kwargs)
        if self.session is None:
            self.session = Session()
        return self.session.run(sql.replace("{s}", self.schema))

    def restart(self):
        self.session.close()
        self.session = None
        assert subprocess.run(os.environ["POSTRIDER_TEST_PG_RESTART"], shell=True).returncode == 0

    def config(self, source="wal: shop", more=CONSOLE):
        return "%ssources: [{%s}]\n" % (more, source)

    @property
    def slot(self):
        return self.schema + "_postgres"

    def write(self, user="postgres", **kwargs):
        name = os.path.join(self.path, "command.yaml")
        with open(name, "w") as file:
            file.write('store: "%s"\n%s' % (self.url(user), self.config(**kwargs)))
        return name

    def command(self, *args, user="postgres", **kwargs):
        return subprocess.run([self.program(), *args, "-c", self.write(user, **kwargs)], cwd=self.path, capture_output=True,
                              text=True, timeout=DEADLINE_SECONDS)

    @staticmethod
    def program():
        return os.path.abspath(sys.argv[1])

    def init(self, **kwargs):
        done = self.command("init", **kwargs)
        assert done.returncode == 0, done.stderr
        return done

    def refused(self, words, **kwargs):
        done = self.command("init", **kwargs)
        assert done.returncode != 0, done.stdout
        for word in words:
            assert word in done.stderr, (word, done.stderr)

    def check(self, **kwargs):
        """What status says about the log: its state and its text."""
        checks = [c for c in json.loads(self.command("status", "--json", **kwargs).stdout)["checks"] if c["name"] == "wal"]
        return checks[0]["state"], checks[0]["advice"]

    def log(self, daemon):
        with open(daemon.log) as file:
            return file.read()

    def get(self, daemon, path):
        running = re.compile(r"^http (\d+)\n", re.MULTILINE)
        until("the port is told", lambda: running.search(self.log(daemon)))
        port = running.search(self.log(daemon)).group(1)
        with urllib.request.urlopen("http://127.0.0.1:%s%s" % (port, path), timeout=DEADLINE_SECONDS) as answer:
            return answer.read().decode()

    def reads(self, daemon, part="letters=here"):
        until("it reads the log, " + part, lambda: part in self.log(daemon) or daemon.poll() is not None)
        assert daemon.poll() is None, self.log(daemon)

    def begin(self, **kwargs):
        daemon = self.start(self.config(**kwargs))
        self.reads(daemon)
        return daemon

    def start_slow(self, config, box):
        """It looks by itself once a minute only; box is its own."""
        daemon = self.start(SLOW_POLL + config, lease="1h")  # a lease is renewed by a cycle, which looks, too
        until("it works", lambda: self.psql("SELECT count(*) FROM {s}.instance WHERE box = '%s' AND lanes = -1" % box) == "1")
        return daemon

    def emit(self, text, prefix="shop", transactional="true"):
        """Where it is in the log."""
        return self.psql("SELECT pg_logical_emit_message(%s, '%s', $letter$%s$letter$)" % (transactional, prefix, text))

    def printed(self, daemon, word):
        return sum(word in line and not line.startswith("time=") for line in self.log(daemon).splitlines())

    def comes(self, daemon, word, count=1):
        until("%s is delivered" % word, lambda: self.printed(daemon, word) >= count)

    def confirmed(self, place):
        return self.psql("SELECT confirmed_flush_lsn > '%s' FROM pg_replication_slots WHERE slot_name = '%s'"
                         % (place, self.slot)) == "t"

    def stop(self, daemon):
        daemon.terminate()
        assert daemon.wait(DEADLINE_SECONDS) == 0, self.log(daemon)

    def rows(self, table):
        return int(self.psql("SELECT count(*) FROM {s}.%s" % table))

    def close(self):
        for daemon in self.daemons:
            daemon.kill()
            daemon.wait()
        slots = "FROM pg_replication_slots WHERE slot_name LIKE '%s%%'" % self.schema
        until("slots are left", lambda: self.psql("SELECT count(*) %s AND active" % slots) == "0")
        self.psql("SELECT pg_drop_replication_slot(slot_name) " + slots)
        self.psql("SET client_min_messages = warning; DROP PUBLICATION IF EXISTS \"%s\"" % self.slot)
        super().close()
        self.session.close()


def rings(place, daemon, word, send):
    """One after the other: a box that is looked at once a second would take a second for each.  On a busy machine
    so may a bell, but not every time."""
    took = []
    while len(took) < ROUNDS or min(took[1:]) > QUICK_SECONDS:
        begin = time.monotonic()
        send()
        place.comes(daemon, word, len(took) + 1)
        took.append(time.monotonic() - begin)
        assert took[-1] < LATE_SECONDS and sum(took) < DEADLINE_SECONDS, (word, took)


# ---- A server that is not set up for it ----


def test_a_server_without_logical_decoding_is_told_with_the_line_that_changes_it(place):
    place.psql("ALTER SYSTEM SET wal_level = replica")
    place.restart()
    try:
        go_without_logical_decoding(place)
    finally:
        place.psql("ALTER SYSTEM SET wal_level = logical")  # as it was told
        place.restart()
    place.reads(place.daemons[0])  # by itself


def go_without_logical_decoding(place):
    place.refused(["wal_level is replica", "ALTER SYSTEM SET wal_level = logical; then restart the server"])
    doctor = place.command("doctor")
    assert doctor.returncode == 7 and "wal_level is replica" in doctor.stdout, doctor.stdout
    daemon = place.start(place.config() + "http: {listen: '127.0.0.1:0'}\n")
    place.psql("INSERT INTO {s}.outbox (type) VALUES ('polled')")
    place.comes(daemon, "polled")  # it delivers all the same
    until("it says so", lambda: "wal_trouble" in place.log(daemon))
    ready = place.get(daemon, "/health/ready")
    assert '"warn"' in ready and "source shop: " in ready and "wal_level is replica" in ready, ready


def test_a_role_that_may_not_replicate_is_told_which_line_lets_it(place):
    role = place.schema + "_poor"
    place.psql('CREATE ROLE "%s" LOGIN; GRANT CREATE ON DATABASE postgres TO "%s"' % (role, role))
    try:
        place.refused(["must be superuser or replication role", 'ALTER ROLE "%s" REPLICATION' % role], user=role)
        place.psql('ALTER ROLE "%s" REPLICATION' % role)
        place.init(user=role)
        daemon = place.start(place.config(), user=role)
        place.reads(daemon)
        place.emit('{"type":"by.the.poor"}')
        place.comes(daemon, "by.the.poor")
        place.stop(daemon)
        place.psql('DROP PUBLICATION "%s"; ALTER SCHEMA {s} OWNER TO postgres; REASSIGN OWNED BY "%s" TO postgres;'
                   'GRANT USAGE ON SCHEMA {s} TO "%s"; GRANT ALL ON ALL TABLES IN SCHEMA {s} TO "%s"'
                   % (place.slot, role, role, role))
        place.refused(["cannot create the publication", "run postrider init as the owner", "CREATE PUBLICATION"], user=role)
    finally:
        place.psql('REASSIGN OWNED BY "%s" TO postgres; DROP OWNED BY "%s"; DROP ROLE "%s"' % (role, role, role))


def test_a_server_without_a_free_slot_or_sender_is_told_which_setting_to_raise(place):
    place.psql("SELECT pg_create_physical_replication_slot('taken_' || n) FROM generate_series(1, %d) n" % FREE)
    try:
        place.refused(["slots are in use", "ALTER SYSTEM SET max_replication_slots"])
    finally:
        place.psql("SELECT pg_drop_replication_slot('taken_' || n) FROM generate_series(1, %d) n" % FREE)
    senders = [subprocess.Popen(["psql", "-X", "host=%s user=postgres dbname=postgres replication=database" % FOLDER],
                                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) for _ in range(FREE)]
    try:
        until("all senders are taken", lambda: place.psql(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender'") == str(FREE))
        place.refused(["max_wal_senders", "ALTER SYSTEM SET max_wal_senders"])
    finally:
        for sender in senders:
            sender.stdin.close()
            sender.wait()


def test_the_configuration_is_checked(place):
    for source, words in (("wal: 'a:b'", "colon"), ("wal: a, preset: cap", "unknown key"), ("wal: a, box: nobox", "unknown box"),
                          ("table: t, slot: x", "unknown key"), ("wal: a}, {wal: b", "only one wal source")):
        done = place.command("config", "check", source=source)
        assert done.returncode == 3 and words in done.stderr, (source, done.stderr)
    place.refused(["is not a valid slot name"], source="wal: a, slot: 'Big-Name'")


# ---- Letters ----


def test_what_was_emitted_is_delivered_when_its_transaction_commits_and_only_then(place):  # B1
    place.init()
    daemon = place.begin()
    place.psql("""BEGIN; SELECT pg_logical_emit_message(true, 'shop', '{"type":"rolled.back"}'); ROLLBACK;
        BEGIN; SELECT pg_logical_emit_message(true, 'shop', '{"type":"undone"}');
        SAVEPOINT s; SELECT pg_logical_emit_message(true, 'shop', '{"type":"rolled.back"}'); ROLLBACK TO s; COMMIT;
        SELECT pg_logical_emit_message(true, 'other', '{"type":"rolled.back"}');
        SELECT pg_logical_emit_message(true, 'shopping', '{"type":"rolled.back"}');
        SELECT pg_logical_emit_message(true, 'shop:ledger', '{"type":"in.ledger","stream":"s"}')""")
    last = place.emit('{"type":"last.one","payload":{"amount":1.10}}')
    for word in ("undone", "in.ledger", 'last.one - 15 {"amount":1.10}'):
        place.comes(daemon, word)
    until("the slot knows", lambda: place.confirmed(last))
    assert place.printed(daemon, "rolled.back") == 0, place.log(daemon)
    assert place.rows("dead_letter") == 0 and place.rows("wal_place") == 1


def test_a_large_transaction_is_stored_in_pieces_and_whole(place):
    place.init()
    daemon = place.begin(more="endpoints: {gone: {url: 'null:'}}\nroutes: [{to: gone}]\nboxes: {outbox: {keep: 1h}}\n")
    place.psql("SELECT count(pg_logical_emit_message(true, 'shop', json_build_object('type', 'many', 'payload', n)::text))"
               " FROM generate_series(1, 5000) n")
    until("all are there", lambda: place.rows("done") == 5000)
    assert place.psql("SELECT count(DISTINCT id), min(seq) < max(seq) FROM {s}.done") == "5000|t"
    assert place.psql("SELECT count(*) FROM (SELECT payload::int AS n, lag(payload::int)"
                      " OVER (ORDER BY seq) AS before FROM {s}.done) o WHERE before > n") == "0"
    place.stop(daemon)


def test_what_cannot_be_read_is_a_dead_letter_with_its_bytes_and_stops_nobody(place):  # B9
    place.init()
    place.psql("ALTER TABLE {s}.outbox ADD CONSTRAINT picky CHECK (subject IS DISTINCT FROM 'odd')")
    daemon = place.begin()
    place.emit("rubbish")
    place.emit('{"type":"t","steam":"typo"}')
    place.emit('{"type":"t"}', transactional="false")
    place.emit('{"type":"t"}', prefix="shop:nowhere")
    place.emit('{"type":"t","subject":"odd"}')  # the database itself refuses it
    place.psql("SELECT pg_logical_emit_message(true, 'shop', '\\xff00'::bytea)")
    place.psql("SELECT pg_logical_emit_message(true, 'shop', json_build_object('type', 't', 'payload', repeat('x', 2000000))::text)")
    last = place.emit('{"type":"behind.them"}')
    place.comes(daemon, "behind.them")
    until("the slot knows", lambda: place.confirmed(last))
    dead = place.psql("SELECT coalesce(payload, encode(payload_bytes, 'escape')) || ': ' || error FROM {s}.dead_letter WHERE box = 'outbox' AND cause = 5"
                      " AND type = '' ORDER BY id").splitlines()
    expected = ["rubbish: not a JSON object", "steam: unknown key", "outside of its transaction",
                'unknown box "nowhere"', "violates check constraint", "\\377\\000: not ", "payload has 2000000 bytes, the limit is 1048576"]
    assert len(dead) == len(expected), dead
    assert place.psql("SELECT DISTINCT attempts, failures, status, story->0->>'step' FROM {s}.dead_letter WHERE rule = 'undecodable'") == \
        "0|1|32769|dead_letter"
    for text in expected:
        assert any(text in line for line in dead), (text, dead)


def test_a_failing_endpoint_does_not_hold_the_slot(place):
    place.init()
    daemon = place.begin(more="endpoints: {down: {url: 'http://127.0.0.1:9/', allow_networks: [127.0.0.0/8], retry: {base: 60s, blame: always}}}\n"
                              "routes: [{to: down}]\n")
    emitted = place.emit('{"type":"never.arrives"}')
    until("it has failed", lambda: place.psql("SELECT count(*) FROM {s}.outbox WHERE failures > 0 OR attempts > 0") == "1")
    until("the slot goes on", lambda: place.confirmed(emitted))
    # ... and what others write into the log does not pile up, either.
    other = place.psql("CREATE TABLE {s}.others AS SELECT n FROM generate_series(1, 1000) n; SELECT pg_current_wal_lsn()")
    until("a quiet log is confirmed", lambda: place.confirmed(other))
    place.stop(daemon)


# ---- Once ----


def test_what_was_stored_but_not_confirmed_is_not_stored_again(place):
    place.init()
    place.psql("SELECT pg_copy_logical_replication_slot('%s', '%s_before')" % (place.slot, place.slot))
    daemon = place.begin()
    for n in range(3):
        place.emit('{"type":"once","payload":%d}' % n)
    place.comes(daemon, "once", 3)
    until("they are done", lambda: place.rows("done") == 3)
    place.stop(daemon)

    def go_back():
        """As if the confirmation had never reached the server."""
        until("it is left", lambda: place.psql("SELECT active FROM pg_replication_slots WHERE slot_name = '%s'" % place.slot) == "f")
        place.psql("SELECT pg_drop_replication_slot('%s'); SELECT pg_copy_logical_replication_slot('%s_before', '%s')"
                   % (place.slot, place.slot, place.slot))

    go_back()
    daemon = place.begin()
    place.emit('{"type":"behind"}')
    place.comes(daemon, "behind")
    assert place.printed(daemon, "once") == 0, place.log(daemon)
    place.stop(daemon)
    go_back()
    place.psql("DELETE FROM {s}.wal_place")  # without its place it cannot know: they do come again
    daemon = place.begin()
    place.comes(daemon, "once", 3)


def test_killed_and_restarted_again_and_again_it_loses_nothing_and_stores_nothing_twice(place):
    place.init()
    for turn in range(4):
        daemon = place.begin()
        place.psql("SELECT pg_logical_emit_message(true, 'shop', json_build_object('type', 't', 'payload', n)::text)"
                   " FROM generate_series(1, 200) n")
        for n in range(5):
            place.emit('{"type":"small"}')
        if turn == 1:
            place.restart()
            until("it reads again", lambda: place.log(daemon).count("letters=here") >= 2)
        if turn == 3:
            until("all are there", lambda: place.rows("done") + place.rows("outbox") == 820)
        daemon.kill()
        daemon.wait()
    ids = "SELECT id FROM {s}.done UNION ALL SELECT id FROM {s}.outbox"
    assert place.psql("SELECT count(*), count(DISTINCT id) FROM (%s) a" % ids) == "820|820"


# ---- Several instances, and the doorbell ----


def boxes(*names):
    """Their tables have other names (D14)."""
    return "endpoints: {paper: {url: 'console:'}}\nroutes: [{to: paper}]\nboxes: {%s}\n" % ", ".join(
        "%s: {table: shop_%s}" % (n, n) for n in names)


def test_an_insert_wakes_every_instance_at_once_without_polling(place):
    place.init(more=boxes("left", "right"))
    first = place.start_slow(place.config(more=boxes("left")), "left")
    place.reads(first)
    second = place.start_slow(place.config(more=boxes("right")), "right")
    place.reads(second, "letters=elsewhere")
    for daemon, box in ((first, "left"), (second, "right")):
        rings(place, daemon, "insert.bell", lambda: place.psql("INSERT INTO {s}.shop_%s (type) VALUES ('insert.bell')" % box))
        rings(place, daemon, "letter.bell", lambda: place.emit('{"type":"letter.bell"}', prefix="shop:" + box))
    assert place.psql("SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE '{s}%' AND temporary") == "1"

    first.kill()  # it holds the slot: the other one takes over
    first.wait()
    until("it has taken over", lambda: "letters=here" in place.log(second))
    place.emit('{"type":"taken.over"}', prefix="shop:right")
    place.comes(second, "taken.over")
    assert place.psql("SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE '{s}%'") == "1"


def test_the_doorbell_alone_leaves_no_slot_behind(place):
    source = "wal: shop, messages: off"
    place.init(source=source)
    daemon = place.start_slow(place.config(source=source), "outbox")
    place.reads(daemon, "letters=off")
    rings(place, daemon, "rung", lambda: place.psql("INSERT INTO {s}.outbox (type) VALUES ('rung')"))
    place.stop(daemon)
    until("it is gone", lambda: place.psql("SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE '{s}%'") == "0")


# ---- Care for the slot ----


def test_status_warns_before_the_log_piles_up_and_calls_it_an_error_beyond_the_limit(place):
    source = "wal: shop, max_lag: 1MiB"
    place.init(source=source)
    state, text = place.check(source=source)
    assert state == "warn" and "nobody reads" in text, text
    assert "LAG (BYTES)" in place.command("status", source=source).stdout
    place.psql("SELECT pg_logical_emit_message(true, 'x', repeat('x', 1500000))")
    state, text = place.check(source=source)
    assert state == "error" and "over max_lag (1.0 MiB)" in text, text
    for command in ("doctor", "status"):
        assert place.command(command, source=source).returncode == 7
    daemon = place.start(place.config(source=source))
    place.reads(daemon)
    until("the slot is alive", lambda: place.psql(
        "SELECT active FROM pg_replication_slots WHERE slot_name = '%s'" % place.slot) == "t")
    place.stop(daemon)


def test_a_slot_that_is_gone_is_made_anew_and_never_silently(place):
    place.init()
    daemon = place.begin()
    place.emit('{"type":"before"}')
    place.comes(daemon, "before")
    place.stop(daemon)
    until("its connection has ended", lambda: place.psql(
        "SELECT active FROM pg_replication_slots WHERE slot_name = '%s'" % place.slot) == "f")
    place.psql("SELECT pg_drop_replication_slot('%s')" % place.slot)
    place.emit('{"type":"nobody.saw.it"}')
    assert place.check()[0] == "error" and "does not exist" in place.check()[1]
    daemon = place.begin()
    assert "wal_slot_gone" in place.log(daemon), place.log(daemon)
    assert place.check()[0] == "error" and "were not read" in place.check()[1], place.check()
    place.emit('{"type":"afterwards"}')
    place.comes(daemon, "afterwards")
    place.init()  # a person knows
    until("it is fine", lambda: place.check()[0] == "ok")
    place.stop(daemon)


def test_a_slot_whose_log_the_server_has_dropped_is_an_error_and_goes_on_behind_the_gap(place):
    place.init()
    daemon = place.begin()
    place.stop(daemon)
    place.psql("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    try:
        place.psql("SELECT pg_reload_conf()")
        for _ in range(3):
            place.psql("SELECT pg_switch_wal() FROM pg_logical_emit_message(false, 'x', 'x')")
        until("it is lost", lambda: place.psql(
            "CHECKPOINT; SELECT wal_status FROM pg_replication_slots WHERE slot_name = '%s'" % place.slot) == "lost")
        assert place.check()[0] == "error" and "max_slot_wal_keep_size" in place.check()[1], place.check()
    finally:
        place.psql("ALTER SYSTEM RESET max_slot_wal_keep_size")
        place.psql("SELECT pg_reload_conf()")
    daemon = place.begin()
    assert "wal_slot_gone" in place.log(daemon), place.log(daemon)
    place.emit('{"type":"goes.on"}')
    place.comes(daemon, "goes.on")
    place.stop(daemon)


def test_slots_that_nobody_wants_any_more_are_told_and_dropped_by_a_command(place):
    place.init()
    daemon = place.begin()
    refused = place.command("init", "--drop-slot")
    assert refused.returncode != 0 and "stop every postrider run" in refused.stderr, refused.stderr
    place.stop(daemon)
    checks = json.loads(place.ok("status", "--json"))  # without a source in the configuration
    assert any("not in the configuration" in c["advice"] for c in checks["checks"]), checks
    assert checks["slots"][0]["name"] == place.slot and checks["slots"][0]["active"] is False, checks
    place.ok("init", "--drop-slot")
    assert place.psql("SELECT count(*) FROM pg_replication_slots WHERE slot_name = '%s'" % place.slot) == "0"
    assert place.psql("SELECT count(*) FROM pg_publication WHERE pubname = '%s'" % place.slot) == "0"
    assert place.rows("wal_slot") == 0 and place.rows("wal_place") == 0


if __name__ == "__main__":
    sys.exit(main(globals(), Log))
