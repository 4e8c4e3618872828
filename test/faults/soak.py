#!/usr/bin/env python3
"""Mixed traffic and random faults on both stores for a long time, and what it cost: memory, descriptors, disk, lag.

Usage: soak.py POSTRIDER [MINUTES [sqlite|postgres]], 10 of them without.  Half of the time is for each store, one after the
other, PostgreSQL where it is installed; or all of it for one.  Prints a table and fails when a promise was broken or something
grew that must not.  SOAK_SEED chooses what happens.
"""
import os
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
try:
    import psycopg2  # noqa: F401
except ImportError:  # another Python than the system's, which has it
    if os.environ.get("HISTORY_AGAIN") is None and os.path.exists("/usr/bin/python3"):
        os.environ["HISTORY_AGAIN"] = "1"
        os.execv("/usr/bin/python3", ["/usr/bin/python3"] + sys.argv)

from judge import Judge
from place import LOST, Postgres, Sqlite
from trouble import break_things, operate
from world import World

CLUSTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../postgres/cluster.sh")
SAMPLE_SECONDS = 5
ROWS = 10  # of the table
RSS_GROWTH, RSS_SPARE_KIB = 1.5, 16 << 10  # the last third against the first
DESCRIPTORS_GROWTH, DESCRIPTORS_SPARE = 1.5, 64  # connections to receivers come and go with the load
BOXES_GROWTH, BOXES_SPARE = 4, 64 << 20  # bytes, where a table is not the whole file
KEEP = "30s"  # delivered messages: long enough to be seen, short enough to be purged


def process_size(pid):
    """(KiB in memory, descriptors), or None: it is gone."""
    try:
        with open("/proc/%d/status" % pid, encoding="ascii") as file:
            rss = next((int(line.split()[1]) for line in file if line.startswith("VmRSS:")), 0)
        return rss, len(os.listdir("/proc/%d/fd" % pid))
    except OSError:
        return None


class Sampler:
    def __init__(self, world):
        self.world, self.begin, self.rows, self.seen = world, time.time(), [], 0

    def lags(self):
        """Seconds from commit to the answer, of what nobody parked or refused, since the last look."""
        arrivals = self.world.receiver.arrivals[self.seen:]
        self.seen += len(arrivals)
        return [a.at - self.world.committed[a.id] for a in arrivals if a.kind in ("ok", "split.ok") and
                a.id in self.world.committed]

    def sample(self):
        sizes = [size for size in (process_size(d.pid) for d in self.world.alive()) if size]
        try:
            disk, boxes, dead = self.world.place.sizes()
        except LOST:
            return  # the server is away
        lags = sorted(self.lags()) or [0]
        self.rows.append({"at": time.time() - self.begin, "rss": max((s[0] for s in sizes), default=0),
                          "fds": max((s[1] for s in sizes), default=0), "disk": disk, "boxes": boxes, "dead rows": dead,
                          "waiting": self.world.waiting(), "lag p50": lags[len(lags) // 2], "lag p99": lags[len(lags) * 99 // 100],
                          "sent": self.seen})

    def run(self):
        while not self.world.stop.wait(SAMPLE_SECONDS):
            self.sample()

    def table(self):
        print("%7s %9s %5s %10s %10s %9s %8s %9s %9s %9s" % ("s", "RSS KiB", "fds", "disk KiB", "boxes KiB", "dead rows", "waiting",
                                                             "lag p50 s", "lag p99 s", "requests"))
        for part in range(ROWS):
            rows = self.rows[len(self.rows) * part // ROWS:len(self.rows) * (part + 1) // ROWS]
            if rows:
                print("%7.0f %9d %5d %10d %10d %9d %8d %9.3f %9.3f %9d" % (
                    rows[-1]["at"], max(r["rss"] for r in rows), max(r["fds"] for r in rows), rows[-1]["disk"] >> 10,
                    rows[-1]["boxes"] >> 10, rows[-1]["dead rows"], rows[-1]["waiting"],
                    statistics.median(r["lag p50"] for r in rows), max(r["lag p99"] for r in rows), rows[-1]["sent"]))

    def growth(self):
        """What must not grow, in words."""
        third = len(self.rows) // 3
        if third < 2:
            return []
        first, last = self.rows[:third], self.rows[-third:]

        def typical(rows, what):
            return statistics.median(r[what] for r in rows)
        wrong = []
        if typical(last, "rss") > RSS_GROWTH * typical(first, "rss") + RSS_SPARE_KIB:
            wrong.append("memory grew from %d to %d KiB" % (typical(first, "rss"), typical(last, "rss")))
        if typical(last, "fds") > DESCRIPTORS_GROWTH * typical(first, "fds") + DESCRIPTORS_SPARE:
            wrong.append("descriptors grew from %d to %d" % (typical(first, "fds"), typical(last, "fds")))
        if isinstance(self.world.place, Postgres) and typical(last, "boxes") > BOXES_GROWTH * typical(first, "boxes") + BOXES_SPARE:
            wrong.append("the boxes grew from %d to %d bytes" % (typical(first, "boxes"), typical(last, "boxes")))
        return wrong


def soak(program, place, seconds, seed):
    """True: all is well."""
    world = World(program, place, seed, KEEP)
    sampler = Sampler(world)
    try:
        world.begin(daemons=3 if place is Postgres else 2)
        world.thread(break_things, world, (1, 6))
        world.thread(operate, world, seed)
        world.thread(sampler.run)
        world.stop.wait(seconds)
        world.end_traffic()
        if not world.alive():
            world.start_daemon()
        world.drain()
        sampler.sample()
        world.stop_daemons()
        judge = Judge(world)
        wrong = judge.judge() + sampler.growth()
        print("\n%s, %d s, SOAK_SEED=%d" % (place.name, seconds, seed))
        sampler.table()
        for pair in judge.summary():
            print("%-40s %10s" % pair)
        print("%-40s %10s" % ("broken promises", len(wrong)))
        for text in wrong:
            print("BROKEN " + text)
        sys.stdout.flush()
        return not wrong
    finally:
        world.close()


def soak_postgres(program, minutes, seed):
    if Postgres.missing():
        print("PostgreSQL was left out: " + Postgres.missing())
        return True
    code = subprocess.run([CLUSTER, sys.executable, sys.argv[0], program, str(minutes), "postgres"],
                          env=dict(os.environ, SOAK_SEED=str(seed))).returncode
    return code in (0, 77)  # 77: it is not installed


def main():
    program, minutes = os.path.abspath(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 10
    seed, only = int(os.environ.get("SOAK_SEED") or time.time()), sys.argv[3] if len(sys.argv) > 3 else ""
    if only == "postgres" and os.environ.get("POSTRIDER_TEST_PG"):  # on a server of its own
        return 0 if soak(program, Postgres, minutes * 60, seed) else 1
    share = minutes if only else minutes / 2
    good = only == "postgres" or soak(program, Sqlite, share * 60, seed)
    good = (only == "sqlite" or soak_postgres(program, share, seed)) and good
    print("soak: %s" % ("all promises were kept" if good else "BROKEN"))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
