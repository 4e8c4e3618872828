#!/usr/bin/env python3
"""Three instances and three senders on PostgreSQL while everything around them breaks; then a program that
knows nothing of the engine reads what they wrote down, and judges (I1 to I9).

Usage: cluster.sh history.py POSTRIDER FAULTS_PROGRAM FAULTS_CHECKER.  The output is TAP.

All connections go through one TCP proxy, which is what stays when a standby takes over.  See
test/faults/program.h for the lines of the history.
"""
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import uuid

try:
    import psycopg2
except ImportError:  # another Python than the system's, which has it
    if os.environ.get("HISTORY_AGAIN") is None and os.path.exists("/usr/bin/python3"):
        os.environ["HISTORY_AGAIN"] = "1"
        os.execv("/usr/bin/python3", ["/usr/bin/python3"] + sys.argv)
    print("1..0 # SKIP python3-psycopg2 is not installed")
    sys.exit(0)

PROGRAM, WORKER, CHECKER = (os.path.abspath(path) for path in sys.argv[1:4])
FOLDER = os.environ.get("POSTRIDER_TEST_PG_FOLDER", "")
DEADLINE_SECONDS = 90
LEASE = "3s"
MAX_ATTEMPTS = 5
WAITING_MAX = 300  # senders wait while there are more


def until(what, condition):
    end = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < end, "never: " + what
        time.sleep(0.02)


def tool(command):
    done = subprocess.run("%s/%s" % (os.environ["POSTRIDER_TEST_PG_BIN"], command), shell=True, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, (command, done.stderr)


class Proxy:
    """A TCP port whose other side is the socket of whichever server is the primary."""

    def __init__(self, folder):
        self.folder = folder
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.wires = set()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self.folder + "/.s.PGSQL.5432")
            except OSError:
                client.close()
                continue
            self.wires |= {client, server}
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self.copy, args=(source, target), daemon=True).start()

    def copy(self, source, target):
        try:
            while True:
                data = source.recv(65536)
                if not data:
                    break
                target.sendall(data)
        except OSError:
            pass
        for wire in (source, target):
            try:
                wire.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def move(self, folder):
        """To another server; who is connected is cut off."""
        self.folder = folder
        for wire in list(self.wires):
            try:
                wire.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Log:
    """One write for each line, as program.h has it."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def add(self, text):
        os.write(self.fd, (text + "\n").encode())


def digest(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001b3) & 0xffffffffffffffff
    return "%016x" % value


class World:
    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="postrider-history-")
        self.schema = "history_%d" % os.getpid()
        self.proxy = Proxy(FOLDER)
        self.url = "postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable&schema=%s" % (self.proxy.port, self.schema)
        self.deaths = Log(self.path + "/deaths")
        self.log = Log(self.path + "/producer")
        self.workers = []
        self.stop = threading.Event()
        self.committed = 0
        self.problems = []

    def connect(self):
        connection = psycopg2.connect(host="127.0.0.1", port=self.proxy.port, user="postgres", dbname="postgres",
                                      sslmode="disable", connect_timeout=5)
        connection.autocommit = True
        return connection

    def query(self, sql, *args):
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql.replace("{s}", self.schema), args or None)
                return cursor.fetchall() if cursor.description else None
        finally:
            connection.close()

    def number(self, sql):
        try:
            return self.query(sql)[0][0]
        except psycopg2.Error:
            return -1  # the server is away

    def make(self):
        done = subprocess.run([PROGRAM, "init", "--store", self.url], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        self.query("CREATE TABLE {s}.app (number bigserial PRIMARY KEY, id text, stream text, digest text, type text)")
        # Who owns which lanes, each time that it changes: it does so under a lock, so in this order.
        self.query("""CREATE TABLE {s}.owners (number bigserial PRIMARY KEY, instance uuid, box text, lanes bigint);
            CREATE FUNCTION {s}.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
              IF TG_OP = 'DELETE' THEN INSERT INTO {s}.owners (instance, box, lanes) VALUES (OLD.id, OLD.box, 0);
              ELSIF TG_OP = 'INSERT' OR OLD.lanes <> NEW.lanes THEN
                INSERT INTO {s}.owners (instance, box, lanes) VALUES (NEW.id, NEW.box, NEW.lanes); END IF;
              RETURN NULL; END $$;
            CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON {s}.instance FOR EACH ROW EXECUTE FUNCTION {s}.note()""")

    def work(self, fail_point=None):
        folder = "%s/worker-%d" % (self.path, len(self.workers))
        os.mkdir(folder)
        os.symlink("../history", folder + "/history")
        with open(folder + "/config.yaml", "w") as file:
            file.write('store: "%s"\nlease: %s\nendpoints: {all: {url: "handler:*", breaker: off, max_attempts: %d,'
                       " retry: [50ms, 100ms]}}\nroutes: [{to: all}]\nboxes: {outbox: {keep: 1h}}\n"
                       % (self.url, LEASE, MAX_ATTEMPTS))
        environment = dict(os.environ, POSTRIDER_FAILPOINT=fail_point) if fail_point else None
        worker = subprocess.Popen([WORKER, "work", folder], env=environment)
        worker.folder = folder
        self.workers.append(worker)
        return worker

    def produce(self, number):
        dice = random.Random(number)
        connection = None
        try:
            while not self.stop.is_set():
                try:
                    connection = connection or self.connect()
                    self.transact(connection, number, dice)
                except psycopg2.Error:  # whether it was committed is seen in the table app
                    connection = None
                    time.sleep(0.05)
        except Exception:
            self.problems.append(traceback.format_exc())

    def transact(self, connection, number, dice):
        drafts = []
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM (SELECT FROM %s.outbox LIMIT %d) o" % (self.schema, WAITING_MAX))
            if cursor.fetchone()[0] >= WAITING_MAX:
                time.sleep(0.01)
                return
            cursor.execute("BEGIN")
            for _ in range(dice.randint(1, 4)):
                payload = dice.randbytes(dice.randint(0, 100))
                stream = "p%d-%d" % (number, dice.randint(0, 9)) if dice.random() < 0.8 else None
                draft = (str(uuid.uuid4()), stream or "-", digest(payload),
                         dice.choices(["ok", "flaky", "doomed"], [17, 2, 1])[0])
                drafts.append(draft[0])
                self.log.add("T %s %s %s %s %d" % (*draft, os.getpid()))
                cursor.execute("INSERT INTO %s.app (id, stream, digest, type) VALUES (%%s, %%s, %%s, %%s)" % self.schema, draft)
                cursor.execute("INSERT INTO %s.outbox (id, stream, type, payload_bytes) VALUES (%%s, %%s, %%s, %%s)" % self.schema,
                               (draft[0], stream, draft[3], payload))
            end = "ROLLBACK" if dice.random() < 0.2 else "COMMIT"
            cursor.execute(end)
        for draft in drafts:
            self.log.add("%s %s" % (end[0], draft))
        self.committed += len(drafts) if end == "COMMIT" else 0

    def more(self, count):
        """So many messages go by."""
        wanted = self.committed + count
        until("%d more messages" % count, lambda: self.problems or self.committed >= wanted)

    def wait_for_death(self, worker):
        assert worker.wait(DEADLINE_SECONDS) == -signal.SIGKILL
        self.deaths.add("K %d" % worker.pid)

    def export(self):
        """What the checker looks at beside the history, as plain tables."""
        store = sqlite3.connect(self.path + "/store.db")
        for table, columns, sql in (
                ("outbox", "id BLOB", "SELECT id FROM {s}.outbox"),
                ("postrider_dead_letter", "id BLOB, seq, stream, type, attempts, failures, cause, payload BLOB",
                 "SELECT id, seq, stream, type, attempts, failures, cause, payload_bytes FROM {s}.dead_letter"),
                ("postrider_done", "id BLOB, payload BLOB", "SELECT id, payload_bytes FROM {s}.done"),
                ("postrider_endpoint", "sent", "SELECT sent FROM {s}.endpoint_overview"),
                ("app", "number INTEGER PRIMARY KEY, id, stream, digest, type", "SELECT number, id, stream, digest, type FROM {s}.app")):
            store.execute("CREATE TABLE %s (%s)" % (table, columns))
            rows = [[self.plain(column, value) for column, value in zip(columns.split(", "), row)] for row in self.query(sql)]
            store.executemany("INSERT INTO %s VALUES (%s)" % (table, ", ".join("?" * (columns.count(",") + 1))), rows)
        store.commit()
        store.close()

    @staticmethod
    def plain(column, value):
        if column == "id BLOB":
            return uuid.UUID(value).bytes
        if isinstance(value, memoryview):
            return bytes(value)
        return int(value) if column == "sent" else value

    def judge(self):
        for worker in self.workers:  # who lost its lease may have been overtaken
            with open(worker.folder + "/log") as log:
                if "lease_lost" in log.read() and worker.pid not in self.dead():
                    self.deaths.add("K %d" % worker.pid)
        self.export()
        done = subprocess.run([CHECKER, self.path, str(MAX_ATTEMPTS)], capture_output=True, text=True)
        print("# " + done.stdout.strip().replace("\n", "\n# "))
        assert done.returncode == 0, "a promise is broken"

    def dead(self):
        with open(self.path + "/deaths") as file:
            return [int(line.split()[1]) for line in file]

    def judge_owners(self):
        """I6: no lane has two owners."""
        owned, changes = {}, 0
        for instance, box, lanes in self.query("SELECT instance, box, lanes FROM {s}.owners ORDER BY number"):
            lanes &= 0xffffffffffffffff
            for (other, other_box), theirs in owned.items():
                assert other == instance or other_box != box or lanes & theirs == 0, "I6: a lane has two owners"
            owned[(instance, box)] = lanes
            changes += 1
        assert changes > 10, changes

    def close(self):
        self.stop.set()
        for worker in self.workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGCONT)
                worker.kill()
            worker.wait()
        shutil.rmtree(self.path)


def make_standby():
    tool("pg_basebackup -h %s -U postgres -D %s/standby -R -c fast --no-sync" % (FOLDER, FOLDER))
    tool("pg_ctl -D %s/standby -w -o '-c unix_socket_directories=%s/standby' -l %s/standby.log start" % (FOLDER, FOLDER, FOLDER))
    tool("psql -h %s -U postgres -c \"ALTER SYSTEM SET synchronous_standby_names = '*'\" -c 'SELECT pg_reload_conf()'" % FOLDER)


def fail_over(world):
    tool("pg_ctl -D %s/data -w -m immediate stop" % FOLDER)
    tool("psql -h %s/standby -U postgres -c \"ALTER SYSTEM SET synchronous_standby_names = ''\"" % FOLDER)
    tool("pg_ctl -D %s/standby -w promote" % FOLDER)
    world.proxy.move(FOLDER + "/standby")


def drain(world):
    until("all is delivered or dead", lambda: world.number("SELECT count(*) FROM {s}.outbox") == 0)
    for worker in world.workers:
        if worker.poll() is None:
            worker.terminate()
            assert worker.wait(DEADLINE_SECONDS) == 0, open(worker.folder + "/log").read()


def test_nothing_is_lost_whatever_breaks(world):
    """B1, B22, B23, B26, B27, I1 to I9."""
    make_standby()
    world.make()
    workers = [world.work("handler.after:40"), world.work(), world.work()]  # the first dies with messages in its hands
    senders = [threading.Thread(target=world.produce, args=(i,), daemon=True) for i in range(3)]
    for sender in senders:
        sender.start()
    world.more(200)
    world.wait_for_death(workers[0])
    os.kill(workers[1].pid, signal.SIGSTOP)
    world.deaths.add("K %d" % workers[1].pid)  # longer than its lease: others go on with its lanes
    world.work()
    until("the stopped one is buried", lambda: world.number(
        "SELECT count(*) FROM {s}.instance WHERE box = 'outbox' AND lease_end < now()") == 0 and world.number(
        "SELECT count(*) FROM {s}.instance WHERE box = 'outbox'") == 2)
    os.kill(workers[1].pid, signal.SIGCONT)
    world.more(100)
    world.number("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'postrider'")
    world.more(100)
    assert subprocess.run(os.environ["POSTRIDER_TEST_PG_RESTART"], shell=True).returncode == 0
    world.more(100)
    fail_over(world)
    world.more(100)
    world.stop.set()
    for sender in senders:
        sender.join(DEADLINE_SECONDS)
    assert not world.problems, world.problems
    drain(world)
    world.judge()
    world.judge_owners()


def main():
    if not FOLDER:
        print("1..0 # SKIP the server is not ours to break")
        return 0
    print("1..1")
    world = World()
    try:
        test_nothing_is_lost_whatever_breaks(world)
        print("ok 1 - nothing_is_lost_whatever_breaks")
        return 0
    except Exception:
        print("not ok 1 - nothing_is_lost_whatever_breaks")
        for line in traceback.format_exc().splitlines():
            print("# " + line)
        for worker in world.workers:
            print("# " + "\n# ".join(open(worker.folder + "/log").read().splitlines()[-5:]))
        return 1
    finally:
        world.close()


sys.exit(main())
