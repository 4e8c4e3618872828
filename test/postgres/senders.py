#!/usr/bin/env python3
"""What senders on PostgreSQL may do, and what reaches a receiver: drivers, encodings, transactions, an upgrade, rights.

Usage: cluster.sh senders.py POSTRIDER [WORD].  The output is TAP.  NPM_FOLDER is a place where npm may install pg,
MIGRATIONS the folder of the scripts that make the tables.
"""
import glob
import http.server
import json
import os
import re
import subprocess
import sys
import threading

sys.dont_write_bytecode = True
from program import DEADLINE_SECONDS, FOLDER, Place, main, node_with_pg, python_with_psycopg2, until  # noqa: E402

ALL_BYTES = bytes(range(256))
JSON_TEXT = '{"path":"C:\\\\temp","quote":"\\"","line":"\\n","escaped":"\\u00fc","plain":"\u00fc\u20ac\U0001f600"}'
NAMES_THE_OTHER = "put bytes into payload_bytes"
NOT_BOTH = "a message has payload or payload_bytes, not both"


class Receiver:
    """Bodies by the type of their message."""

    def __init__(self):
        self.got = {}

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(handler):
                body = handler.rfile.read(int(handler.headers["Content-Length"]))
                self.got[handler.headers["ce-type"]] = self.got.get(handler.headers["ce-type"], []) + [body]
                handler.send_response(204)
                handler.end_headers()

            def log_message(handler, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Hall(Place):
    """A place with a receiver; in a database of its own if a test needs another encoding."""

    database = "postgres"

    def __init__(self):
        super().__init__()
        self.receiver = Receiver()

    def url(self, user="postgres"):
        return super().url(user).replace("///postgres?", "///%s?" % self.database)

    def psql(self, sql, user="postgres", fails=None, encoding="UTF8"):
        done = subprocess.run(["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", FOLDER, "-U", user, self.database],
                              input=sql.replace("{s}", self.schema).encode(), capture_output=True, timeout=DEADLINE_SECONDS,
                              env=dict(os.environ, PGCLIENTENCODING=encoding))
        out, errors = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        if fails is not None:
            assert done.returncode != 0 and fails in errors, (sql, out, errors)
            return errors
        assert done.returncode == 0, (sql, errors)
        return out.strip()

    def use_database(self, encoding):
        name = "%s_%s" % (self.schema, encoding.lower())
        self.psql("CREATE DATABASE %s TEMPLATE template0 ENCODING '%s' LC_COLLATE 'C' LC_CTYPE 'C'" % (name, encoding))
        self.database = name

    def relay(self, more="", **kwargs):
        return self.start("endpoints: {hook: {url: 'http://127.0.0.1:%d/', allow_networks: [127.0.0.0/8]}}\n"
                          "routes: [{to: hook}]\n%s" % (self.receiver.server.server_port, more), **kwargs)

    def arrived(self, *types):
        until("%s arrived" % (types,), lambda: all(t in self.receiver.got for t in types))
        return [self.receiver.got[t][0] for t in types]

    def close(self):
        super().close()
        self.receiver.close()
        if self.database != "postgres":
            name, self.database = self.database, "postgres"
            self.psql("DROP DATABASE %s WITH (FORCE)" % name)


# ---- Drivers --------------------------------------------------------------------------------------


PSYCOPG2 = """
import json, sys
import psycopg2, psycopg2.extras
schema, text = sys.argv[1], sys.argv[2]
connection = psycopg2.connect("")
connection.autocommit = True
cursor = connection.cursor()
every = bytes(range(256))
value = {"a": "C:\\\\temp"}
cases = {
    "text": ("payload", "%s", [text]),
    "wrapped": ("payload", "%s", [psycopg2.extras.Json(value)]),
    "jsonb": ("payload", "%s::jsonb", [text]),
    "json": ("payload", "%s::json", [text]),
    "bytes": ("payload_bytes", "%s", [every]),
    "none": ("payload_bytes", "%s", [b""]),
    "wrong": ("payload", "%s", [every]),
    "wrong_empty": ("payload", "%s", [b""]),
    "wrong_ascii": ("payload", "%s", [b"abc"]),
    "printed": ("payload", "%s", ["\\\\x4142"]),
    "both": ("payload, payload_bytes", "%s, %s", ["a", b"b"]),
}
said = {}
for name, (columns, marks, values) in cases.items():
    try:
        cursor.execute("INSERT INTO %s.outbox (type, %s) VALUES (%%s, %s)" % (schema, columns, marks), [name] + values)
    except psycopg2.Error as error:
        said[name] = str(error)
for name, cast, given in (("send_text", "text", text), ("send_json", "json", text), ("send_jsonb", "jsonb", text),
                          ("send_bytes", "bytea", every), ("send_plain", None, text)):
    cursor.execute("SELECT %s.send(type => %%s, payload => %%s%s)" % (schema, "::" + cast if cast else ""), [name, given])
print(json.dumps(said))
"""

NODE = """
import pg from 'pg';
const [schema, text] = process.argv.slice(2);
const client = new pg.Client({ host: process.env.PGHOST, user: 'postgres', database: 'postgres' });
await client.connect();
const every = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
const cases = {
    text: ['payload', [text]],
    object: ['payload', [{ a: 'C:\\\\temp' }]],
    jsonb: ['payload', [text], '::jsonb'],
    utf8_buffer: ['payload', [Buffer.from(text)]],
    bytes: ['payload_bytes', [every]],
    wrong_cast: ['payload', [every], '::bytea'],
    wrong: ['payload', [every]],
    both: ['payload, payload_bytes', ['a', Buffer.from('b')]],
};
const said = {};
for (const [name, [columns, values, cast]] of Object.entries(cases)) {
    const marks = values.map((_, i) => `$${i + 2}${cast ?? ''}`).join(', ');
    try {
        await client.query(`INSERT INTO ${schema}.outbox (type, ${columns}) VALUES ($1, ${marks})`, [name, ...values]);
    } catch (error) {
        said[name] = error.message;
    }
}
await client.query(`SELECT ${schema}.send(type => 'send_text', payload => $1::text)`, [text]);
await client.query(`SELECT ${schema}.send(type => 'send_jsonb', payload => $1::jsonb)`, [text]);
await client.query(`SELECT ${schema}.send(type => 'send_bytes', payload => $1::bytea)`, [every]);
console.log(JSON.stringify(said));
await client.end();
"""


def drive(place, command):
    done = subprocess.run([*command, place.schema, JSON_TEXT], capture_output=True, text=True, timeout=DEADLINE_SECONDS,
                          env=dict(os.environ, PGHOST=FOLDER, PGUSER="postgres", PGDATABASE="postgres"))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_arrived(place, expected):
    place.relay()
    for name, body in zip(expected, place.arrived(*expected)):
        assert body == expected[name], (name, body)
    until("all are delivered", lambda: place.psql("SELECT count(*) FROM {s}.outbox") == "0")
    assert sorted(place.receiver.got) == sorted(expected), place.receiver.got


def as_jsonb(place):
    """As PostgreSQL prints it."""
    return place.psql("SELECT $x$%s$x$::jsonb::text" % JSON_TEXT).encode()


def test_each_payload_of_psycopg2_arrives_as_it_was_sent_or_the_other_column_is_named(place):  # B4
    place.ok("init")
    script = os.path.join(place.path, "sender.py")
    with open(script, "w") as file:
        file.write(PSYCOPG2)
    said = drive(place, [python_with_psycopg2(), script])
    assert sorted(said) == ["both", "printed", "wrong", "wrong_ascii", "wrong_empty"], said
    for name in ("wrong", "wrong_ascii", "wrong_empty", "printed"):
        assert NAMES_THE_OTHER in said[name], said[name]
    assert NOT_BOTH in said["both"], said
    text = JSON_TEXT.encode()
    check_arrived(place, {
        "text": text, "wrapped": b'{"a": "C:\\\\temp"}', "jsonb": as_jsonb(place), "json": text, "bytes": ALL_BYTES, "none": b"",
        "send_text": text, "send_json": text, "send_jsonb": as_jsonb(place), "send_bytes": ALL_BYTES, "send_plain": text})


def test_each_payload_of_node_pg_arrives_as_it_was_sent_or_is_refused(place):  # B4
    folder = node_with_pg()
    place.ok("init")
    script = os.path.join(folder, "sender.mjs")
    with open(script, "w") as file:
        file.write(NODE)
    said = drive(place, ["node", script])
    assert sorted(said) == ["both", "wrong", "wrong_cast"], said
    assert NAMES_THE_OTHER in said["wrong_cast"] and NOT_BOTH in said["both"], said
    assert "invalid byte sequence" in said["wrong"], said  # the server takes it for text, before any table is asked
    text = JSON_TEXT.encode()
    check_arrived(place, {
        "text": text, "object": b'{"a":"C:\\\\temp"}', "jsonb": as_jsonb(place), "utf8_buffer": text, "bytes": ALL_BYTES,
        "send_text": text, "send_jsonb": as_jsonb(place), "send_bytes": ALL_BYTES})


def test_what_is_no_message_is_refused_with_a_name_that_says_why(place):
    place.ok("init")
    insert = "INSERT INTO {s}.outbox (type, headers) VALUES (%s)"
    place.psql(insert % "'', NULL", fails="type is empty: every message needs a type such as order.created")
    for headers in ("[1]", '"a"', "7", "null"):
        place.psql(insert % ("'a', '%s'" % headers), fails='headers are not a JSON object such as {"tenant":"7"}')
    for headers in ('{"a":{}}', '{"a":1,"b" : [1]}', '{"a":"{", "b":[[]]}'):
        place.psql(insert % ("'a', '%s'" % headers), fails="headers must not hold objects or arrays: each value is a string, a number")
        place.psql("SELECT {s}.send('a', 'x'::text, headers => '%s')" % headers, fails="headers must not hold objects or arrays")
    place.psql(insert % "'a', '{}'")
    place.psql(insert % """'a', '{"a":"{\\":{[","b":-1.5,"c":true,"d":null}'""")
    place.psql(insert % "'a', NULL")


TIMES = "must be a time of the years 2000 to 2299 (to_timestamp() takes seconds: milliseconds / 1000.0)"


def test_times_in_other_units_are_refused_and_those_of_the_relay_pass(place):  # D13, B19
    place.ok("init")
    said = {"due_at": ", or NULL: at once", "expires_at": ", or NULL: never", "created_at": ", or left out: now"}
    for column, otherwise in said.items():
        for value in ("to_timestamp(1794989385000)", "to_timestamp(1794989385 / 1000)", "'-infinity'", "'2300-01-01 00:00+00'"):
            place.psql("INSERT INTO {s}.outbox (type, %s) VALUES ('t', %s)" % (column, value), fails=column + " " + TIMES + otherwise)
        place.psql("INSERT INTO {s}.outbox (type, %s) VALUES ('t', '2299-12-31 23:59:59.999999+00'), ('t', '2000-01-01 00:00+00')" % column)
    place.psql("INSERT INTO {s}.outbox (type, created_at) VALUES ('t', 'infinity')", fails="created_at " + TIMES)
    place.psql("INSERT INTO {s}.outbox (type, due_at, expires_at) VALUES ('t', 'infinity', 'infinity')")
    place.psql("SELECT {s}.send(type => 't', payload => 'x'::text, due => to_timestamp(1794989385000))", fails="due_at " + TIMES)
    place.psql("SELECT {s}.flow_start('n', 'f', '', NULL, to_timestamp(1794989385000))", fails="due_at " + TIMES)
    place.psql("TRUNCATE {s}.outbox; INSERT INTO {s}.outbox (type, due_at) VALUES ('mended', 'infinity')")
    for column in said:
        place.psql("UPDATE {s}.outbox SET %s = to_timestamp(1794989385000)" % column, fails=column + " " + TIMES)
    place.psql("UPDATE {s}.outbox SET expires_at = to_timestamp(1794989385 / 1000)", fails="expires_at " + TIMES)
    # A row of before the checks can be changed and sent.
    place.psql("""SET session_replication_role = replica; INSERT INTO {s}.outbox (type, due_at, expires_at, headers)
        VALUES ('before', to_timestamp(1794989385000), to_timestamp(1794989385000), '{}')""")
    place.psql("""UPDATE {s}.outbox SET headers = '{"a":"b"}', due_at = due_at WHERE type = 'before'""")
    place.psql("UPDATE {s}.outbox SET due_at = to_timestamp(1)")
    place.relay()
    place.arrived("mended", "before")


def test_bytes_that_were_printed_with_escapes_are_refused_and_texts_are_not(place):  # B4, D13
    place.ok("init")
    escape = "SET bytea_output = escape; "
    insert = "INSERT INTO {s}.outbox (type, payload) VALUES ('%s', %s)"
    for value in ("41ff42", "0041", "7b5c7d01", "5c5cff"):
        place.psql(escape + insert % ("wrong", "'\\x%s'::bytea" % value), fails=NAMES_THE_OTHER)
    place.psql(insert % ("wrong", "'\\x0041'::bytea"), fails=NAMES_THE_OTHER)
    texts = {"path": r'{"a":"C:\\377\\001","b":"\u00fc\n"}', "plain": "plain", "short": "\\01", "nine": "\\400 \\189"}
    for name, text in texts.items():
        place.psql(escape + insert % (name, "'%s'" % text))
    place.psql(insert % ("hex", "'A\\377B'"))
    # What we store ourselves, also where the role has that setting.
    place.psql("ALTER DATABASE postgres SET bytea_output = escape")
    try:
        name = os.path.join(place.path, "payload")
        with open(name, "wb") as file:
            file.write(b"A\\377B")
        place.ok("send", "--type", "sent", "--file", name)
        check_arrived(place, dict({k: v.encode() for k, v in texts.items()}, hex=b"A\\377B", sent=b"A\\377B"))
    finally:
        place.psql("ALTER DATABASE postgres RESET bytea_output")


# ---- Bytes that come from us ------------------------------------------------------------------------


ODD = [b"", b"plain", JSON_TEXT.encode(), b"\\x4142", b"\\x", b"a\0b", ALL_BYTES, b"\xff", "\u00e9".encode("latin-1")]


def test_what_the_program_stores_is_text_where_it_can_be_and_bytes_where_it_must_be(place):  # B4, B81, B84
    place.ok("init")
    for number, payload in enumerate(ODD):
        name = os.path.join(place.path, "payload-%d" % number)
        with open(name, "wb") as file:
            file.write(payload)
        place.ok("send", "--type", "odd-%d" % number, "--file", name)
    assert place.psql("SELECT string_agg(CASE WHEN payload IS NULL THEN 'b' ELSE 't' END, '' ORDER BY type) FROM {s}.outbox") == "tttbbbbbb"
    assert place.psql("SELECT payload FROM {s}.outbox WHERE type = 'odd-2'") == JSON_TEXT
    sizes = place.psql("SELECT string_agg(payload_size::text, ' ' ORDER BY type) FROM {s}.messages")
    assert sizes == " ".join(str(len(payload)) for payload in ODD), sizes
    # Into the dead letters and out of the program, back into another store, edited and replayed.
    place.ok("dead", "add", *place.psql("SELECT id FROM {s}.outbox").split(), "--why", "a test")
    letters = os.path.join(place.path, "letters")
    with open(letters, "w") as file:
        file.write(place.ok("dead", "export"))
    place.psql("DELETE FROM {s}.dead_letter")
    place.ok("dead", "import", letters)
    assert place.psql("SELECT string_agg(CASE WHEN payload IS NULL THEN 'b' ELSE 't' END, '' ORDER BY type) FROM {s}.dead_letter") == "tttbbbbbb"
    place.ok("dead", "replay", "--type", "*", "--yes")
    daemon = place.relay("boxes: {outbox: {keep: 1h}}\n")
    types = ["odd-%d" % number for number in range(len(ODD))]
    assert place.arrived(*types) == ODD
    until("all are delivered", lambda: place.psql("SELECT count(*) FROM {s}.done") == str(len(ODD)))
    assert place.psql("SELECT string_agg(CASE WHEN payload IS NULL THEN 'b' ELSE 't' END, '' ORDER BY type) FROM {s}.done") == "tttbbbbbb"
    daemon.terminate()
    daemon.wait(DEADLINE_SECONDS)


# ---- Encodings ----------------------------------------------------------------------------------------


def test_a_row_that_is_no_utf8_costs_only_itself_in_a_database_of_bytes(place):  # B9
    place.use_database("SQL_ASCII")
    place.ok("init")
    place.psql("INSERT INTO {s}.outbox (type, payload) VALUES ('before', 'gr\u00fc\u00df')", encoding="SQL_ASCII")
    place.psql("INSERT INTO {s}.outbox (type, payload) VALUES ('bad', E'gr\\374')", encoding="SQL_ASCII")
    place.psql("INSERT INTO {s}.outbox (type, payload, stream) VALUES ('bad', 'x', E'gr\\374')", encoding="SQL_ASCII")
    place.psql("INSERT INTO {s}.outbox (type, payload_bytes, stream) VALUES ('bytes', E'\\\\xfc', 'gr\u00fc\u00df')", encoding="SQL_ASCII")
    place.relay()
    assert place.arrived("before", "bytes") == ["gr\u00fc\u00df".encode(), b"\xfc"]
    until("the others are dead", lambda: place.psql("SELECT count(*) FROM {s}.dead_letter") == "2")
    assert "bad" not in place.receiver.got
    place.ok("dead", "list")
    errors = place.psql("SELECT error FROM {s}.dead_letter ORDER BY seq")
    assert "payload_bytes" in errors.splitlines()[0] and "UTF-8" in errors.splitlines()[1], errors


# ---- Transactions ---------------------------------------------------------------------------------------


def test_a_sender_may_prepare_its_transaction_while_a_relay_sleeps(place):  # B29
    place.ok("init")
    place.relay()
    place.psql("INSERT INTO {s}.outbox (type) VALUES ('first')")
    place.arrived("first")
    # Who sleeps has this lock.
    sleeper = subprocess.Popen(["psql", "-X", "-q", "-A", "-t", "-h", FOLDER, "-U", "postgres", "postgres"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    sleeper.stdin.write("SELECT 'asleep' || pg_advisory_lock(hashtextextended('postrider %s.outbox', 0));\n" % place.schema)
    sleeper.stdin.flush()
    assert sleeper.stdout.readline().strip() == "asleep"
    place.psql("BEGIN; INSERT INTO {s}.outbox (type) VALUES ('prepared'); PREPARE TRANSACTION '{s}_one'")
    place.psql("BEGIN; INSERT INTO {s}.outbox (type) VALUES ('undone'); PREPARE TRANSACTION '{s}_two'")
    place.psql("INSERT INTO {s}.outbox (type) VALUES ('behind')")
    place.arrived("behind")
    place.psql("ROLLBACK PREPARED '{s}_two'")
    place.psql("COMMIT PREPARED '{s}_one'")
    place.arrived("prepared")
    place.psql("INSERT INTO {s}.outbox (type) VALUES ('last')")
    place.arrived("last")
    assert "undone" not in place.receiver.got
    sleeper.stdin.close()
    sleeper.wait()
    sleeper.stdout.close()


def test_what_the_readme_sends_first_arrives(place):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "README.md"), encoding="utf-8") as file:
        block, = [b for b in re.findall(r"```sql\n(.*?)```", file.read(), flags=re.S) if "postrider.send(" in b]
    assert "INSERT INTO postrider.outbox" in block
    place.ok("init")
    place.relay()
    place.psql(block.replace("postrider.", "{s}.").replace("order.created", "first", 1).replace("order.created", "second", 1))
    assert place.arrived("first", "second") == [b'{"total":42}', b'{"total":42}']


def test_savepoints_copies_and_any_isolation_level_are_fine(place):  # B29
    place.ok("init")
    place.relay()
    place.psql("""BEGIN; SAVEPOINT a; INSERT INTO {s}.outbox (type) VALUES ('undone'); ROLLBACK TO a;
        SAVEPOINT b; INSERT INTO {s}.outbox (type) VALUES ('inner'); RELEASE b; INSERT INTO {s}.outbox (type) VALUES ('outer'); COMMIT""")
    place.psql("COPY {s}.outbox (type, payload) FROM stdin;\ncopied\t{\"a\":\"C:\\\\\\\\temp\"}\n\\.\n")
    place.psql("COPY {s}.outbox (type, payload) FROM stdin;\nprinted\t\\\\x41\n\\.\n", fails=NAMES_THE_OTHER)
    for level in ("SERIALIZABLE", "REPEATABLE READ"):
        place.psql("BEGIN ISOLATION LEVEL %s; INSERT INTO {s}.outbox (type) VALUES ('%s'); COMMIT" % (level, level[:4]))
    copied = place.arrived("inner", "outer", "SERI", "REPE", "copied")[4]
    assert copied == b'{"a":"C:\\\\temp"}', copied
    until("all are delivered", lambda: place.psql("SELECT count(*) FROM {s}.outbox") == "0")
    assert "undone" not in place.receiver.got


# ---- Upgrades -------------------------------------------------------------------------------------------


def make_tables_of(place, version):
    """As a program of that version would have."""
    files = [(int(os.path.basename(path)[:3]), path) for path in sorted(glob.glob(os.environ["MIGRATIONS"] + "/0*.sql"))]
    files = [path for number, path in files if number <= version]
    place.psql("CREATE SCHEMA {s}")
    for box in (None, "outbox", "inbox"):
        for path in files:
            if path.endswith("_box.sql") == (box is not None):
                place.psql("SET search_path = pg_catalog;" + open(path).read().replace("{schema}", place.schema).replace("{box}", box or ""))
    place.psql("UPDATE {s}.meta SET value = '%d' WHERE key = 'schema_version'" % version)


OLD_ROWS = """
    INSERT INTO {s}.outbox (id, type, payload) VALUES ('00000000-0000-7000-8000-000000000001', 'waiting', '\\x00ff'),
        ('00000000-0000-7000-8000-000000000002', 'in.flight', convert_to('{"a":1}', 'UTF8')),
        ('00000000-0000-7000-8000-000000000003', 'empty', NULL);
    INSERT INTO {s}.outbox (type, headers, payload) VALUES ('damaged', '[1]', 'x');
    INSERT INTO {s}.outbox (type, payload, due_at, status, attempts, failures, failure_reason)
        VALUES ('failed', 'y', now(), 32769, 1, 1, 2);
    INSERT INTO {s}.dead_letter (box, xid, seq, lane, id, destination, type, event, created_at, status, attempts, failures,
        failure_reason, released, endpoint, cause, limit_reached, rule, fingerprint, died_at, payload)
        VALUES ('outbox', '3', 1, 1, '00000000-0000-7000-8000-000000000004', '', 'dead', false, now(), 32769, 1, 1, 2, false, '', 2, 0,
                '', 'f', now(), '\\xfe00');
    INSERT INTO {s}.done (box, seq, lane, id, destination, type, event, created_at, status, attempts, failures, failure_reason,
        released, endpoint, done_at, keep_until, payload)
        VALUES ('outbox', 1, 1, '00000000-0000-7000-8000-000000000005', '', 'kept', false, now(), 1, 1, 0, 0, false, 'hook', now(),
                now() + interval '1 day', 'kept text');
    INSERT INTO {s}.instance (id, box, name, version, epoch, lanes, lease_end, started_at)
        VALUES ('00000000-0000-7000-8000-00000000000a', 'outbox', 'old', '0.1', nextval('{s}.epoch'), -1, now() + interval '1 hour', now());
    INSERT INTO {s}.claim (instance, cycle, box, at, rows, numbers)
        SELECT '00000000-0000-7000-8000-00000000000a', 1, 'outbox', now(), array_agg(seq << 6 | lane), array_agg(attempts + 1)
          FROM {s}.outbox WHERE type IN ('in.flight', 'damaged', 'failed')"""

OLD_JOIN = """INSERT INTO {s}.instance (id, box, name, version, epoch, lanes, lease_end, started_at, lease_us)
    VALUES ('00000000-0000-7000-8000-00000000000a', 'outbox', 'old', '0.1', nextval('{s}.epoch'), 0, now(), now(), 1)"""


def test_a_store_of_the_schema_before_goes_on_with_all_its_bytes_and_without_its_relays(place):  # B4, B22
    make_tables_of(place, 15)
    place.psql(OLD_ROWS)
    place.ok("init")
    assert place.psql("SELECT (SELECT count(*) FROM {s}.instance), (SELECT count(*) FROM {s}.claim)") == "0|0"
    assert place.psql("SELECT string_agg(type, ' ' ORDER BY type) FROM {s}.outbox WHERE attempts = 1") == "damaged in.flight"
    assert place.psql("SELECT attempts FROM {s}.outbox WHERE type = 'failed'") == "2"
    place.psql(OLD_JOIN, fails="this postrider is older than its tables: upgrade it")
    # A library of before, which knows one column, and a sender that it has taught to encode.
    place.psql("INSERT INTO {s}.outbox (type, payload) VALUES ('old', convert_to('{}', 'UTF8'))", fails=NAMES_THE_OTHER)
    place.relay("boxes: {outbox: {keep: 1h}}\n")
    assert place.arrived("waiting", "in.flight", "empty", "failed") == [b"\0\xff", b'{"a":1}', b"", b"y"]
    until("the damaged one is dead", lambda: place.psql("SELECT count(*) FROM {s}.dead_letter WHERE type = 'damaged'") == "1")
    place.ok("dead", "replay", "--type", "dead", "--yes")
    assert place.arrived("dead") == [b"\xfe\0"]
    done = json.loads(place.ok("show", "00000000-0000-7000-8000-000000000005", "--json").splitlines()[0])
    assert done["payload"] == "kept text", done


def test_a_relay_does_not_join_tables_that_are_newer_than_it_is(place):
    place.ok("init")
    daemon = place.relay(lease="2s")
    place.psql("INSERT INTO {s}.outbox (type) VALUES ('first')")
    place.arrived("first")
    place.psql("""BEGIN; LOCK TABLE {s}.instance; UPDATE {s}.meta SET value = '999' WHERE key = 'schema_version';
        DELETE FROM {s}.claim; DELETE FROM {s}.instance; INSERT INTO {s}.outbox (type) VALUES ('second'); COMMIT""")
    until("it says so", lambda: "the schema has version 999" in open(daemon.log).read())
    assert place.psql("SELECT count(*) FROM {s}.instance") == "0" and "second" not in place.receiver.got


# ---- Rights ---------------------------------------------------------------------------------------------


TRAP = """
    CREATE FUNCTION pg_temp.trap() RETURNS boolean LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'trapped %', current_user; END $$;
    CREATE FUNCTION pg_temp.make_traps() RETURNS void LANGUAGE plpgsql AS $$
    DECLARE n text;
    BEGIN
        FOR n IN SELECT typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype = 'b' AND typname !~ '^_' AND typname <> 'box' LOOP
            EXECUTE format('CREATE DOMAIN pg_temp.%I AS pg_catalog.text CHECK (pg_temp.trap())', n);
        END LOOP;
        FOR n IN SELECT unnest(ARRAY['uuid7', 'send', 'send_row', 'format', 'coalesce', 'nullif', 'jsonb_typeof', 'encode', 'set_bit',
                'uuid_send', 'gen_random_uuid', 'int8send', 'clock_timestamp', 'extract', 'now', 'pg_current_xact_id', 'left',
                'json_typeof', 'hashtext', 'uuid_hash', 'current_setting', 'hashtextextended', 'pg_notify', 'nextval', 'convert_to', 'append_event', 'note_event', 'expect_version', 'may_append', 'set_config', 'max', 'row_number']) LOOP
            EXECUTE format('CREATE FUNCTION pg_temp.%I() RETURNS boolean LANGUAGE sql AS ''SELECT pg_temp.trap()''', n);
            EXECUTE format('CREATE FUNCTION pg_temp.%I(pg_catalog.text) RETURNS boolean LANGUAGE sql AS ''SELECT pg_temp.trap()''', n);
            EXECUTE format('CREATE FUNCTION pg_temp.%I(pg_catalog.jsonb) RETURNS boolean LANGUAGE sql AS ''SELECT pg_temp.trap()''', n);
        END LOOP;
        FOR n IN SELECT unnest(ARRAY['box', 'outbox', 'event', 'event_new', 'event_stream', 'event_order', 'subscription', 'dead_letter', 'meta', 'pg_type', 'pg_proc', 'pg_class']) LOOP
            EXECUTE format('CREATE TABLE pg_temp.%I (name pg_catalog.text, id pg_catalog.int4)', n);
        END LOOP;
    END $$;
    SELECT pg_temp.make_traps();
    SET search_path = pg_temp, pg_catalog;"""


def test_the_traps_of_these_tests_are_traps(place):
    """Who names pg_catalog alone has pg_temp before it: types of the caller count, and run with the owner's rights."""
    place.ok("init")
    role = place.schema + "_sender"
    place.psql('CREATE ROLE "%s"; GRANT USAGE ON SCHEMA {s} TO "%s"' % (role, role))
    try:
        place.psql("""CREATE FUNCTION {s}.open() RETURNS pg_catalog.text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog
            AS $$ BEGIN RETURN '{}'::json; END $$; GRANT EXECUTE ON FUNCTION {s}.open TO "%s" """ % role)
        place.psql('SET ROLE "%s"; ' % role + TRAP + "SELECT {s}.open()", fails="trapped postgres")
        place.psql("ALTER FUNCTION {s}.open SET search_path = pg_catalog, pg_temp")
        assert place.psql('SET ROLE "%s"; ' % role + TRAP + "SELECT {s}.open()").endswith("{}")
    finally:
        place.psql('DROP OWNED BY "%s"; DROP ROLE "%s"' % (role, role))


def test_a_sender_gets_no_rights_by_types_and_functions_of_its_own(place):  # B206
    place.ok("init")
    role = place.schema + "_sender"
    place.psql('CREATE ROLE "%s" LOGIN; GRANT USAGE ON SCHEMA {s} TO "%s"; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {s} TO "%s"' % ((role,) * 3))
    try:
        definers = place.psql("SELECT count(*), count(*) FILTER (WHERE proconfig = ARRAY['search_path=pg_catalog, pg_temp']), min(proname::text)"
                              " FROM pg_proc WHERE prosecdef AND pronamespace = '{s}'::regnamespace")
        assert definers == "21|21|act_when_stored", definers
        assert "outbox" in place.psql(TRAP + "SELECT {s}.box_tables()", user=role)
        for number, payload in enumerate(("pg_catalog.text 'a'", "pg_catalog.bytea 'a'", "pg_catalog.json '{}'", "pg_catalog.jsonb '{}'")):
            place.psql(TRAP + """SELECT {s}.send(type => 't%d', payload => %s, headers => pg_catalog.jsonb '{"a":1}', stream => 's',
                event => true, destination => 'd', id => '00000000-0000-7000-8000-00000000000%d')""" % (number, payload, number), user=role)
            place.psql(TRAP + "SELECT {s}.send('u%d', %s)" % (number, payload), user=role)
            place.psql(TRAP + "SELECT {s}.send(type => 'v', payload => %s, stream => 'w', expected_version => %d)" % (payload, number), user=role)
        assert place.psql("SELECT count(*) FROM {s}.outbox WHERE type <> 'v'") == "8"
        assert place.psql("SELECT max(version), count(*) FROM {s}.event WHERE stream = 's'") == "4|4"
        assert place.psql("SELECT max(version), count(*) FROM {s}.event WHERE stream = 'w'") == "4|4"
        place.psql("DELETE FROM {s}.outbox WHERE type = 'v'")
        assert place.psql(TRAP + "SELECT {s}.place_events(100)", user=role).endswith("8")
        assert place.psql(TRAP + "SELECT {s}.advance_subscription('none', 1, 0, 1)", user=role).endswith("f")
        place.psql(TRAP + "SELECT {s}.advance_subscription('none', 1, 0, 9)", user=role, fails="the last one is 8")
        assert place.psql(TRAP + "SELECT {s}.flow_start('n', 'f', 'i', '1', pg_catalog.now())", user=role).endswith("f")
        assert place.psql("SELECT stream, type FROM {s}.turns") == "f|start"
        for type, keep in (("u0", 0), ("u1", 3600000000)):
            handle, id = place.psql("SELECT coalesce(row_id, seq) << 6 | lane, id FROM {s}.outbox WHERE type = '%s'" % type).split("|")
            ended = TRAP + "SELECT {s}.complete('outbox', %s, '%s', 0, 4, 'e', %d, %d, true)" % (handle, id, keep, keep)
            assert place.psql(ended, user=role).endswith("t") and place.psql(ended, user=role).endswith("f")
        append = TRAP + """SELECT {s}.complete_append('x', '00000000-0000-7000-8000-000000000001', 't', 'text/plain',
            pg_catalog.json '{"a":1}', pg_catalog.bytea 'a')"""
        assert place.psql(append, user=role).endswith("t") and place.psql(append, user=role).endswith("f")
        assert place.psql("SELECT version, type FROM {s}.event WHERE stream = 'x'") == "1|t"
        for value, kept in (("pg_catalog.bytea 'a'", "1"), ("pg_catalog.bytea 'b'", "1"), ("NULL", "0")):
            assert place.psql(TRAP + "SELECT {s}.complete_set('s', 'n', %s)" % value, user=role).endswith("t")
            assert place.psql("SELECT count(*) FROM {s}.flow_state") == kept
        assert place.psql("SELECT count(*) FROM {s}.outbox") == "6"
        assert place.psql("SELECT type, attempts, status, endpoint FROM {s}.done") == "u1|1|5|e"
        assert place.psql("SELECT count(*) FROM {s}.seen WHERE handler = 'e' AND alone AND until > now()") == "1"
        place.psql("INSERT INTO {s}.outbox (type) VALUES ('t')", user=role, fails="permission denied")
    finally:
        place.psql('DROP OWNED BY "%s"; DROP ROLE "%s"' % (role, role))


def test_send_with_an_expected_version(place):  # B95, B2
    place.ok("init")
    send = "SELECT {s}.send(type => 't', payload => 'x'::text, stream => 'a', expected_version => %s, id => '00000000-0000-7000-8000-00000000000%d')"
    place.psql(send % ("1", 1), fails='stream "a" is at version 0, not 1: read it again before you retry')
    assert place.psql(send % ("0", 1)).endswith("1")
    assert place.psql(send % ("0", 1)).endswith("1")  # the same again is a duplicate and no conflict
    place.psql(send % ("0", 2), fails='stream "a" is at version 1, not 0')
    assert place.psql("SELECT {s}.send('t', 'x'::text, 1, 'a') IS NOT NULL") == "t"
    assert place.psql("SELECT {s}.send('t', 'x', 'a') IS NOT NULL, {s}.send('t', '{}'::jsonb) IS NOT NULL") == "t|t"  # these expect nothing
    assert place.psql("SELECT {s}.send(type => 't', payload => 'x'::text, stream => 'a', expected_version => NULL) IS NOT NULL") == "t"
    assert place.psql("SELECT string_agg(version::text, ' ' ORDER BY version), count(*) FROM {s}.event") == "1 2 3|3"
    place.psql("SELECT {s}.send(type => 't', payload => 'x'::text, expected_version => 0)", fails="only for events with a stream")
    place.psql("SELECT {s}.send(type => 't', payload => 'x'::text, stream => 'a', event => false, expected_version => 0)", fails="only for events")
    assert place.psql("BEGIN; " + send % ("3", 4) + "; ROLLBACK; SELECT version FROM {s}.event_stream").endswith("3")


def test_send_counts_what_it_does_not_store_where_the_box_has_dedupe(place):  # B66, B90
    place.ok("init")
    send = "SELECT {s}.send(type => 't', payload => 'x'::text, id => '00000000-0000-7000-8000-000000000001')"
    again = "SELECT count(*), sum(times), count(*) FILTER (WHERE until > at) FROM {s}.again WHERE box = 'outbox' AND destination = ''"
    place.psql(send + "; " + send)
    assert place.psql(again) == "0||0"
    place.psql("UPDATE {s}.box SET dedupe_us = 3600000000")
    place.psql(send)
    place.psql(send)
    assert place.psql(again) == "1|2|1"
    place.psql("BEGIN ISOLATION LEVEL SERIALIZABLE; " + send + "; COMMIT")  # makes an entry of its own
    assert place.psql(again) == "2|3|2"
    place.psql("DELETE FROM {s}.outbox; INSERT INTO {s}.seen (box, id, handler, at, alone) VALUES"
               " ('outbox', '00000000-0000-7000-8000-000000000001', 'e', now(), true)")
    place.psql(send)
    assert place.psql(again) == "2|4|2" and place.psql("SELECT count(*) FROM {s}.outbox") == "0"


def test_only_events_and_rows_for_schedules_act_when_they_are_stored(place):  # B206
    """The column is set by a trigger: whoever writes it makes nothing of an ordinary row, and keeps nothing from an event."""
    place.ok("init")
    place.psql("""INSERT INTO {s}.outbox (type, stream, event, destination, acts_when_stored) VALUES ('plain', 's', false, 'd', true),
        ('plain', 's', false, 'd', NULL), ('said', 's', true, 'd', false)""")
    place.psql("""INSERT INTO {s}.outbox (type, stream, event, destination, headers, due_at, acts_when_stored)
        VALUES ('headed', 's', false, 'd', '{"a":[]}'::text::json, NULL, true)""", fails="headers must not hold objects or arrays")
    place.psql("""INSERT INTO {s}.outbox (type, stream, event, destination, headers, due_at, acts_when_stored) VALUES
        ('headed', 's', false, 'd', '{"a":"["}', NULL, true), ('late', 's', false, 'd', NULL, now() + interval '1 day', true)""")
    assert place.psql("SELECT type, version FROM {s}.event") == "said|1"
    assert place.psql("SELECT count(*), count(*) FILTER (WHERE lane = (SELECT lane FROM {s}.outbox LIMIT 1)) FROM {s}.outbox") == "5|5"
    assert place.psql("BEGIN; INSERT INTO {s}.outbox (type, event, stream) VALUES ('t', true, 's') ON CONFLICT (id, destination) DO NOTHING;"
                      "INSERT INTO {s}.outbox (id, destination, type, event, stream) SELECT id, destination, type, true, 'other' FROM {s}.outbox"
                      " ON CONFLICT (id, destination) DO NOTHING; COMMIT; SELECT count(*) FROM {s}.event WHERE stream = 'other'").endswith("0")


def test_functions_of_triggers_give_no_rights_to_tables_of_others(place):  # B206
    """A type whose casts are a sender's own, in a table of the sender's own, under a trigger that runs with the owner's rights."""
    place.ok("init")
    role = place.schema + "_sender"
    place.psql('CREATE ROLE "%s" LOGIN; GRANT USAGE ON SCHEMA {s} TO "%s"; CREATE SCHEMA "%s" AUTHORIZATION "%s"' % ((role,) * 4))
    try:
        functions = place.psql("SELECT proname FROM pg_proc WHERE prosecdef AND prorettype = 'trigger'::regtype AND pronamespace = '{s}'::regnamespace"
                               " ORDER BY 1").split()
        assert functions == ["act_when_stored", "append_event", "check_scheduler", "note_event", "note_repair"], functions
        place.psql("""SET search_path = "%s"; CREATE TYPE t AS (a int);
            CREATE FUNCTION trap(t) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trapped %%', current_user; END $$;
            CREATE FUNCTION trap_json(t) RETURNS json LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trapped %%', current_user; END $$;
            CREATE CAST (t AS text) WITH FUNCTION trap(t) AS IMPLICIT; CREATE CAST (t AS json) WITH FUNCTION trap_json(t) AS IMPLICIT;
            CREATE TABLE outbox (destination t, stream t, type t, headers t, held_by text, id uuid, event boolean, payload text, payload_bytes bytea,
                content_type t, created_at timestamptz, version t)""" % role, user=role)
        make = 'CREATE TRIGGER a BEFORE INSERT OR UPDATE ON "%s".outbox FOR EACH ROW EXECUTE FUNCTION {s}.%s(\'outbox\')'
        for name in functions:
            place.psql(make % (role, name), user=role, fails="permission denied")
        place.psql('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {s} TO "%s"' % role)  # as init --grants prints it
        for name in functions:
            place.psql(make % (role, name), user=role)
            change = "INSERT INTO \"%s\".outbox (destination, stream, type, headers) VALUES (ROW(1), ROW(1), ROW(1), ROW(1))" % role
            if name == "note_repair":
                place.psql('ALTER TABLE "%s".outbox DISABLE TRIGGER a; %s; ALTER TABLE "%s".outbox ENABLE TRIGGER a' % (role, change, role), user=role)
                change = 'UPDATE "%s".outbox SET headers = ROW(2), destination = ROW(2)' % role
            place.psql(change, user=role, fails="only for tables of Postrider")
            place.psql('DROP TRIGGER a ON "%s".outbox' % role, user=role)
    finally:
        place.psql('SET client_min_messages = warning; DROP SCHEMA "%s" CASCADE; DROP OWNED BY "%s"; DROP ROLE "%s"' % ((role,) * 3))


def test_an_operator_gets_no_rights_by_types_of_its_own_when_it_repairs_rows(place):  # B206
    place.ok("init")
    role = place.schema + "_operator"
    place.psql('CREATE ROLE "%s" LOGIN; GRANT USAGE ON SCHEMA {s} TO "%s"; GRANT SELECT, INSERT, UPDATE ON {s}.outbox TO "%s"' % ((role,) * 3))
    try:
        place.psql(TRAP + "INSERT INTO {s}.outbox (type, stream, event, headers) VALUES ('t', 's', true, '{}')", user=role)
        place.psql(TRAP + """UPDATE {s}.outbox SET destination = 'd', payload = 'p', headers = '{"a":1}', stream = 'r', type = 'u'""", user=role)
        assert place.psql("SELECT count(*) FROM {s}.repaired WHERE box = 'outbox'") == "1"
        assert place.psql("SELECT version FROM {s}.event WHERE stream = 's'") == "1"
    finally:
        place.psql('DROP OWNED BY "%s"; DROP ROLE "%s"' % (role, role))


def test_who_orders_schedules_gets_no_rights_by_types_of_its_own(place):  # B206
    place.ok("init")
    role = place.schema + "_planner"
    place.psql('CREATE ROLE "%s" LOGIN; GRANT USAGE ON SCHEMA {s} TO "%s"; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {s} TO "%s";'
               ' GRANT INSERT ON {s}.outbox TO "%s"' % ((role,) * 4))
    try:
        place.psql("SELECT {s}.schedule('nightly', '0 3 * * *', 'report')")
        for order in ('{"pause":true}', '{"resume":true}', '{"run":true}', '{"due":"2030-01-01T00:00:00Z"}'):
            place.psql(TRAP + """INSERT INTO {s}.outbox (type, stream, destination, payload)
                VALUES ('postrider.schedule', 'nightly', 'schedule:', '%s')""" % order, user=role)
        for call in ("pause_schedule('nightly')", "resume_schedule('nightly')", "run_schedule('nightly')",
                     "reschedule('nightly', pg_catalog.now())", "schedule('weekly', '@weekly', 't')", "unschedule('weekly')"):
            place.psql(TRAP + "SELECT {s}." + call, user=role)
        assert place.psql("SELECT count(*) FROM {s}.outbox WHERE payload LIKE '%\"cron\"%'") != "0"
    finally:
        place.psql('DROP OWNED BY "%s"; DROP ROLE "%s"' % (role, role))


def test_who_may_only_send_can_start_flows_and_cannot_tell_them_anything(place):  # B206
    """Turns say what became of activities, and activities are code that runs: neither is written by INSERT nor by send()."""
    place.ok("init")
    role = place.schema + "_app"
    try:
        place.psql('CREATE ROLE "%s" LOGIN; GRANT USAGE ON SCHEMA {s} TO "%s"' % (role, role))
        place.psql('GRANT INSERT (type, payload), SELECT (id) ON {s}.turns, {s}.activities TO "%s"' % role)  # of an earlier script
        place.psql(place.ok("init", "--grants"))
        for box in ("turns", "activities"):
            place.psql("INSERT INTO {s}.%s (type, payload) VALUES ('activity_done', '{}')" % box, user=role, fails="permission denied")
            for payload in ("'{}'::text", "'{}'::jsonb", "'{}'::bytea"):
                place.psql("SELECT {s}.send(type => 'activity_done', payload => %s, stream => 'f', box => '%s')" % (payload, box), user=role,
                           fails='cannot send into the box "%s", which is for flows' % box)
        place.psql("SELECT {s}.send(type => 'start', payload => 'x'::text, stream => 'f', box => 'activities')", user=role, fails="for flows")
        place.psql("SELECT {s}.flow_start('checkout', 'f', '{}')", user=role)
        place.psql("SELECT {s}.send('t', 'x'::text); INSERT INTO {s}.outbox (type) VALUES ('t'); INSERT INTO {s}.inbox (type) VALUES ('t')", user=role)
        assert place.psql("SELECT count(*) FROM {s}.turns") == "1" and place.psql("SELECT count(*) FROM {s}.activities") == "0"
        # Whose login role was given the right, and the owner, can.
        place.psql('GRANT INSERT (type, stream, payload), SELECT (id) ON {s}.turns TO "%s"' % role)
        for user in (role, "postgres"):
            place.psql("SELECT {s}.send(type => 'event', payload => 'x'::text, stream => 'f', box => 'turns')", user=user)
    finally:
        place.psql('DROP OWNED BY "%s"; DROP ROLE "%s"' % (role, role))
        for name in ("relay", "admin", "reader"):
            place.psql('DROP OWNED BY "%s_%s"; DROP ROLE "%s_%s"' % ((place.schema, name) * 2))


def test_who_may_only_send_cannot_complete_also_after_an_upgrade(place):  # B206
    place.ok("init")
    role = place.schema + "_sender"
    place.psql('CREATE ROLE "%s" LOGIN; CREATE ROLE "%s_handler" LOGIN' % (role, role))
    try:
        place.psql('GRANT USAGE ON SCHEMA {s} TO "%s", "%s_handler"; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {s} TO "%s", "%s_handler";'
                   ' REVOKE EXECUTE ON FUNCTION {s}.complete FROM "%s"' % ((role,) * 5))
        for _ in range(2):
            place.psql("SELECT {s}.complete('outbox', 1, '00000000-0000-7000-8000-000000000000', 0, 4, '', 0, 0, true)", user=role, fails="permission denied")
            assert place.psql("SELECT {s}.complete('outbox', 1, '00000000-0000-7000-8000-000000000000', 0, 4, '', 0, 0, true)", user=role + "_handler") == "f"
            place.psql("UPDATE {s}.meta SET value = '34' WHERE key = 'schema_version'")
            place.ok("init")
            place.psql("SELECT {s}.send('t', 'x'::text)", user=role)
    finally:
        place.psql('DROP OWNED BY "%s", "%s_handler"; DROP ROLE "%s", "%s_handler"' % ((role,) * 4))


if __name__ == "__main__":
    sys.exit(main(globals(), Hall))
