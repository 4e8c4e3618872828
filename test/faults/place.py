"""Where the messages of a world lie: a PostgreSQL server with a standby of its own, or a SQLite file.

A place says what its senders, its judge and those who break things need: connections, plain SQL, sizes.  In SQL {t:NAME} is
one of Postrider's tables, {a:NAME} one of the application's.
"""
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import threading
import time
import uuid

try:
    import psycopg2
    LOST = (psycopg2.Error, sqlite3.Error, OSError)
except ImportError:
    psycopg2 = None
    LOST = (sqlite3.Error, OSError)

FOLDER = os.environ.get("POSTRIDER_TEST_PG_FOLDER", "")


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
                server.close()
                continue
            self.wires |= {client, server}
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self.copy, args=(source, target), daemon=True).start()

    def copy(self, source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        for wire in (source, target):
            try:
                wire.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.wires.discard(source)
        source.close()

    def move(self, folder):
        """To another server; who is connected is cut off."""
        self.folder = folder
        for wire in list(self.wires):
            try:
                wire.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Postgres:
    """Everything goes through one port, which is what stays when the standby takes over.  The two servers, in `data` and
    `standby`, change parts each time."""

    name = "postgres"
    now = "clock_timestamp()"

    def __init__(self, path):
        self.path = path
        self.schema = "history_%d" % os.getpid()
        self.proxy = Proxy(FOLDER)
        self.url = "postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable&schema=%s" % (self.proxy.port, self.schema)
        self.primary, self.standby = "data", "standby"

    @staticmethod
    def missing():
        if os.environ.get("POSTRIDER_TEST_PG") and not FOLDER:
            return "the server is not ours to break"
        return "python3-psycopg2 is not installed" if not psycopg2 else None

    def folder(self, server):
        """Of its socket, and not in its data: that is copied."""
        return FOLDER if server == "data" else FOLDER + "/second"

    # ---- SQL ----

    def connect(self):
        connection = psycopg2.connect(host="127.0.0.1", port=self.proxy.port, user="postgres", dbname="postgres",
                                      sslmode="disable", connect_timeout=5)
        connection.autocommit = True
        return connection

    def words(self, sql):
        return re.sub(r"\{([ta]):(\w+)\}", r"%s.\2" % self.schema, sql)

    def do(self, connection, sql, *args):
        with connection.cursor() as cursor:
            cursor.execute(self.words(sql).replace("?", "%s"), args or None)
            return cursor.fetchall() if cursor.description else []

    def ask(self, sql, *args):
        connection = self.connect()
        try:
            return self.do(connection, sql, *args)
        finally:
            connection.close()

    # ---- Messages ----

    def make(self):
        self.ask("CREATE TABLE {a:app} (number bigserial PRIMARY KEY, id uuid, box text, stream text, digest text, type text)")
        # Who owns which lanes, each time that it changes: it does so under a lock, so in this order.
        self.ask("""CREATE TABLE {a:owners} (number bigserial PRIMARY KEY, instance uuid, box text, lanes bigint);
            CREATE FUNCTION {a:note}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
              IF TG_OP = 'DELETE' THEN INSERT INTO {a:owners} (instance, box, lanes) VALUES (OLD.id, OLD.box, 0);
              ELSIF TG_OP = 'INSERT' OR OLD.lanes <> NEW.lanes THEN
                INSERT INTO {a:owners} (instance, box, lanes) VALUES (NEW.id, NEW.box, NEW.lanes); END IF;
              RETURN NULL; END $$;
            CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON {t:instance} FOR EACH ROW EXECUTE FUNCTION {a:note}()""")

    def insert(self, connection, message, payload):
        self.do(connection, "INSERT INTO {a:app} (id, box, stream, digest, type) VALUES (?, ?, ?, ?, ?)", message.id, message.box,
                message.stream, message.digest, message.type)
        self.do(connection, "INSERT INTO {t:%s} (id, destination, stream, type, payload_bytes) VALUES (?, ?, ?, ?, ?)" % message.box,
                message.id, message.destination, message.stream, message.type, payload)

    def payloads(self, table, columns):
        return [(*row[:-1], bytes(row[-1])) for row in
                self.ask("SELECT %s, coalesce(payload_bytes, convert_to(payload, 'UTF8'), '') FROM {t:%s}" % (columns, table))]

    @staticmethod
    def id(value):
        return str(value)

    def owners(self):
        return self.ask("SELECT instance, box, lanes FROM {a:owners} ORDER BY number")

    # ---- Sizes ----

    def sizes(self):
        """(bytes on disk, bytes of the boxes, dead rows in them)"""
        (whole, boxes, dead), = self.ask(
            "SELECT (SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c WHERE relnamespace = '%s'::regnamespace AND relkind = 'r'),"
            " pg_total_relation_size('{t:outbox}') + pg_total_relation_size('{t:ledger}'), (SELECT sum(n_dead_tup) FROM"
            " pg_stat_user_tables WHERE schemaname = '%s' AND relname IN ('outbox', 'ledger'))" % (self.schema, self.schema))
        return int(whole or 0), int(boxes or 0), int(dead or 0)

    # ---- The servers ----

    def damage(self):
        return []

    def begin(self):
        os.mkdir(self.folder("standby"), 0o777)
        os.chmod(self.folder("standby"), 0o777)  # the server is somebody else
        self.make_standby()

    def make_standby(self):
        """What is committed from now on is on both."""
        source, target = self.folder(self.primary), FOLDER + "/" + self.standby
        for name in os.listdir(target) if os.path.isdir(target) else ():  # not itself: it is the server's
            gone = os.path.join(target, name)
            shutil.rmtree(gone) if os.path.isdir(gone) else os.unlink(gone)
        tool("pg_basebackup -h %s -U postgres -D %s -R -c fast --no-sync" % (source, target))
        tool("pg_ctl -D %s -w -o '-c unix_socket_directories=%s' -l %s.log start" % (target, self.folder(self.standby), target))
        tool("psql -h %s -U postgres -c \"ALTER SYSTEM SET synchronous_standby_names = '*'\" -c 'SELECT pg_reload_conf()'" % source)
        self.wait_for_standby()

    def wait_for_standby(self):
        """What was committed while it was made is there, too.  A failover that comes at once would lose it."""
        self.wait_until("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
        (place,), = self.ask("SELECT pg_current_wal_insert_lsn()::text")
        self.wait_until("SELECT 1 FROM pg_stat_replication WHERE flush_lsn >= '%s'" % place)

    def wait_until(self, question):
        end = time.monotonic() + 60
        while not self.ask(question):
            assert time.monotonic() < end, "never: " + question
            time.sleep(0.02)

    def restart(self):
        where = FOLDER + "/" + self.primary
        tool("pg_ctl -D %s -w -m immediate -o '-c unix_socket_directories=%s' -l %s.log restart"
             % (where, self.folder(self.primary), where))

    def fail_over(self):
        tool("pg_ctl -D %s/%s -w -m immediate stop" % (FOLDER, self.primary))
        tool("psql -h %s -U postgres -c \"ALTER SYSTEM SET synchronous_standby_names = ''\"" % self.folder(self.standby))
        tool("pg_ctl -D %s/%s -w promote" % (FOLDER, self.standby))
        self.primary, self.standby = self.standby, self.primary
        self.proxy.move(self.folder(self.primary))
        tool("psql -h %s -U postgres -c 'SELECT pg_reload_conf()'" % self.folder(self.primary))
        self.make_standby()


class Sqlite:
    """One file, two relays: one works, the other takes over."""

    name = "sqlite"
    now = "unixepoch('subsec')"

    def __init__(self, path):
        self.file = path + "/store.db"
        self.url = "sqlite:" + self.file

    @staticmethod
    def missing():
        return None

    def connect(self):
        connection = sqlite3.connect(self.file, timeout=30, isolation_level=None)
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    def words(self, sql):
        sql = re.sub(r"\{t:(outbox|ledger)\}", r'"\1"', sql)
        return re.sub(r"\{a:(\w+)\}", r"\1", re.sub(r"\{t:(\w+)\}", r"postrider_\1", sql))

    def do(self, connection, sql, *args):
        return connection.execute(self.words(sql), args).fetchall()

    def ask(self, sql, *args):
        connection = self.connect()
        try:
            return self.do(connection, sql, *args)
        finally:
            connection.close()

    def make(self):
        self.ask("CREATE TABLE {a:app} (number INTEGER PRIMARY KEY, id TEXT, box TEXT, stream TEXT, digest TEXT, type TEXT)")

    def insert(self, connection, message, payload):
        self.do(connection, "INSERT INTO {a:app} (id, box, stream, digest, type) VALUES (?, ?, ?, ?, ?)", message.id, message.box,
                message.stream, message.digest, message.type)
        self.do(connection, "INSERT INTO {t:%s} (id, destination, stream, type, payload) VALUES (?, ?, ?, ?, ?)" % message.box,
                uuid.UUID(message.id).bytes, message.destination, message.stream, message.type, payload)

    def payloads(self, table, columns):
        return [(*row[:-1], row[-1] if isinstance(row[-1], bytes) else (row[-1] or "").encode())
                for row in self.ask("SELECT %s, payload FROM {t:%s}" % (columns, table))]

    @staticmethod
    def id(value):
        return str(uuid.UUID(bytes=value)) if isinstance(value, bytes) else value

    def owners(self):
        return []

    def sizes(self):
        whole = sum(os.path.getsize(self.file + end) for end in ("", "-wal", "-shm") if os.path.exists(self.file + end))
        (pages,), (size,) = self.ask("PRAGMA page_count")[0], self.ask("PRAGMA page_size")[0]
        return whole, pages * size, self.ask("PRAGMA freelist_count")[0][0]

    def damage(self):
        """What is wrong with the file, in words: a commit that was lost would bring messages back."""
        return [text for text, in self.ask("PRAGMA integrity_check") if text != "ok"]

    def begin(self):
        pass
