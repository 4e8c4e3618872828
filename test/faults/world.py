"""A world in which everything breaks: relays that are killed, senders, receivers, an operator, a store.

One number decides what happens (not when: the processes are real).  The receiver and the senders write down what they saw;
judge.py compares it with the store when all is over.
"""
import collections
import hashlib
import http.server
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import traceback
import uuid

from place import LOST

DEADLINE_SECONDS = 120
LEASE_SECONDS = 3
MAX_ATTEMPTS = 20
WAITING_MAX = 300  # senders wait while there are more
ENDPOINTS = ("a", "b", "c")
# type: how often, which endpoints in the outbox.  What happens to each is said by Receiver.answer().
TYPES = {"ok": (50, "a"), "flaky": (8, "a"), "doomed": (3, "a"), "drop": (3, "a"), "park": (2, "a"), "split.ok": (10, "abc"),
         "split.flaky": (4, "abc"), "op.x": (10, "a"), "op.y": (5, "a")}
CONFIG = """store: "%s"
lease: %ds
boxes: {outbox: {keep: %s}, ledger: {kind: outbox, keep: %s}}
endpoints:
  a: {url: "%s/a", allow_networks: [127.0.0.0/8], max_attempts: %d, retry: [50ms, 100ms, 200ms, 1s], breaker: off}
  b: {url: "%s/b", allow_networks: [127.0.0.0/8], max_attempts: %d, retry: [20ms, 20ms, 100ms, 1s], breaker: {after: 10, open: 50ms, cap: 200ms}}
  c: {url: "%s/c", allow_networks: [127.0.0.0/8], max_attempts: %d, retry: [1ms, 10ms, 100ms, 1s], breaker: off, ordering: strict}
routes:
  - {box: outbox, type: "split.*", to: [a, b, c]}
  - {box: outbox, to: a}
  - {box: ledger, to: b}
rules:
  - {when: {code: "422"}, then: dead_letter}
  - {when: {code: "418"}, then: discard}
  - {when: {code: "409"}, then: park}
"""

Message = collections.namedtuple("Message", "id box destination stream digest type")
# relay: the number of the one that sent it.  number: of the arrival.
Arrival = collections.namedtuple("Arrival", "at endpoint id digest status kind relay number")


def until(what, condition, seconds=DEADLINE_SECONDS):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "never: " + what
        time.sleep(0.02)


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


class Receiver:
    """All endpoints: what comes is written down with the answer that it got."""

    def __init__(self):
        self.arrivals, self.seen, self.lock = [], set(), threading.Lock()
        self.unread = set()  # numbers of arrivals whose sender had hung up before it had the answer
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                _, relay, endpoint = self.path.split("/")
                arrival = receiver.take(int(relay), endpoint, self.headers["ce-id"], self.headers["ce-type"], body)
                try:
                    self.send_response(arrival.status)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    hung_up = self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
                except BlockingIOError:
                    hung_up = False
                except OSError:
                    hung_up = self.close_connection = True
                if hung_up:
                    receiver.unread.add(arrival.number)

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            # Few: under load connections wait until the kernel tries again, for 1, 3, 7, 15 seconds.  So requests time out, and some
            # arrive when their sender is dead.
            request_queue_size = 5

            def handle_error(self, request, client_address):
                """Who was killed hangs up."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def answer(self, kind, first):
        if kind.endswith("flaky"):
            return 503 if first else 200
        return {"doomed": 422, "drop": 418, "park": 409 if first else 200}.get(kind, 200)

    def take(self, relay, endpoint, id, kind, body):
        with self.lock:
            status = self.answer(kind, (endpoint, id) not in self.seen)
            self.seen.add((endpoint, id))
            self.arrivals.append(Arrival(time.time(), endpoint, id, digest(body), status, kind, relay, len(self.arrivals)))
            return self.arrivals[-1]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class World:
    def __init__(self, program, place, seed, keep="1h"):
        self.program, self.seed, self.dice = program, seed, random.Random(seed)
        self.path = tempfile.mkdtemp(prefix="postrider-world-")
        self.place = place(self.path)
        self.receiver = Receiver()
        url = self.receiver.url + "/${RELAY:-0}"  # so that the receiver knows who sends
        self.config = CONFIG % ((self.place.url, LEASE_SECONDS, keep, keep) + (url, MAX_ATTEMPTS) * 3)
        self.keep = keep
        self.daemons, self.started = [], 0
        self.events, self.hurts = [], []  # (time, what), and for those that befall one relay (time, what, its number)
        self.problems = []
        self.stop = threading.Event()
        self.threads = []
        self.committed, self.rolled_back = {}, set()  # id: time
        self.orders, self.diary = collections.Counter(), []  # the diary: (time, order)

    # ---- Processes ----

    def run(self, *args, seconds=60):
        return subprocess.run([self.program, *args, "-c", self.path + "/config.yaml"], cwd=self.path, capture_output=True,
                              text=True, timeout=seconds)

    def note(self, what):
        self.events.append((time.time(), what))

    def hurt(self, relay, what):
        self.hurts.append((time.time(), what, relay.number))

    def start_daemon(self):
        self.started += 1
        log = open("%s/log-%d" % (self.path, self.started), "w")
        daemon = subprocess.Popen([self.program, "run", "-c", self.path + "/config.yaml"], cwd=self.path, stdout=log, stderr=log,
                                  env=dict(os.environ, RELAY=str(self.started)))
        log.close()
        daemon.number = self.started
        self.daemons.append(daemon)
        return daemon

    def alive(self):
        return [d for d in self.daemons if d.poll() is None]

    def listening(self):
        """Those that hear signals: before that one ends a relay as it ends any program."""
        return [d for d in self.alive() if "event=started" in self.log_of(d)]

    def log_of(self, daemon):
        with open("%s/log-%d" % (self.path, daemon.number), encoding="utf-8", errors="replace") as file:
            return file.read()

    # ---- Senders ----

    def draft(self, dice, number, generation):
        kind = dice.choices(list(TYPES), [t[0] for t in TYPES.values()])[0]
        box = "ledger" if dice.random() < 0.2 and kind in ("ok", "flaky", "doomed") else "outbox"
        stream = "s%d-%d-%d" % (number, generation, dice.randint(0, 9)) if dice.random() < 0.7 else None
        payload = dice.randbytes(dice.randint(0, 200))
        return Message(str(uuid.uuid4()), box, "a" if kind.startswith("op.") else "", None if kind.startswith("op.") else stream,
                       digest(payload), kind), payload

    def transact(self, connection, dice, number, generation):
        place = self.place
        if sum(len(place.do(connection, "SELECT 1 FROM {t:%s} LIMIT %d" % (box, WAITING_MAX))) for box in ("outbox", "ledger")) \
                >= WAITING_MAX:
            time.sleep(0.02)
            return
        drafts = [self.draft(dice, number, generation) for _ in range(dice.randint(1, 4))]
        place.do(connection, "BEGIN" if place.name == "postgres" else "BEGIN IMMEDIATE")
        for message, payload in drafts:
            place.insert(connection, message, payload)
        commit = dice.random() < 0.85
        if not commit:
            self.rolled_back.update(message.id for message, _ in drafts)
        place.do(connection, "COMMIT" if commit else "ROLLBACK")
        at = time.time()
        if commit:
            self.committed.update((message.id, at) for message, _ in drafts)

    def send(self, number):
        """Whether a transaction was committed that had no answer is seen in the table app."""
        dice, generation, connection = random.Random(self.seed * 100 + number), 0, None
        while not self.stop.is_set():
            try:
                connection = connection or self.place.connect()
                self.transact(connection, dice, number, generation)
            except LOST:
                try:
                    if connection is not None:
                        connection.close()
                except LOST:
                    pass
                connection, generation = None, generation + 1  # the old one may commit after the next ones have
                time.sleep(0.05)
        if connection is not None:
            connection.close()

    def thread(self, function, *args):
        def guarded():
            try:
                function(*args)
            except Exception:  # pylint: disable=broad-except
                self.problems.append(traceback.format_exc())
                self.stop.set()
        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        self.threads.append(thread)

    # ---- From the first to the last ----

    def begin(self, daemons=3, senders=3):
        with open(self.path + "/config.yaml", "w", encoding="utf-8") as file:
            file.write(self.config)
        self.place.begin()
        done = self.run("init")
        assert done.returncode == 0, done.stderr
        self.place.make()
        for _ in range(daemons):
            self.start_daemon()
        for number in range(senders):
            self.thread(self.send, number)

    def waiting(self):
        try:
            return sum(self.place.ask("SELECT count(*) FROM {t:%s}" % box)[0][0] for box in ("outbox", "ledger"))
        except LOST:
            return -1

    def end_traffic(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(DEADLINE_SECONDS)
            assert not thread.is_alive(), "somebody does not come to an end"
        assert not self.problems, "\n".join(self.problems)

    def drain(self):
        """What a person would do in the end: nothing is paused or parked any more."""
        for endpoint in ENDPOINTS:
            self.run("resume", endpoint)
        end = time.monotonic() + DEADLINE_SECONDS
        while (left := self.waiting()) != 0:
            assert time.monotonic() < end, "%d are still there\n%s" % (left, self.run("list", "--limit", "5").stdout)
            self.run("retry", "--state", "parked", "--yes", "--why", "the end")
            time.sleep(0.2)

    def stop_daemons(self):
        """I16: all of them end, in time."""
        alive = self.alive()
        end = time.monotonic() + DEADLINE_SECONDS
        while len(self.listening()) < len(self.alive()) and time.monotonic() < end:
            time.sleep(0.05)
        for daemon in alive:
            daemon.terminate()
        for daemon in alive:
            assert daemon.wait(DEADLINE_SECONDS) == 0, (daemon.returncode, self.log_of(daemon)[-2000:])

    def close(self):
        self.stop.set()
        for daemon in self.daemons:
            if daemon.poll() is None:
                daemon.send_signal(signal.SIGCONT)
                daemon.kill()
            daemon.wait()
        self.receiver.close()
        if os.environ.get("WORLD_KEEP") is None:
            shutil.rmtree(self.path)
