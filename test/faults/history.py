#!/usr/bin/env python3
"""Everything breaks in random order while three relays (on SQLite: two), three senders and an operator work on one store; then
what was written down is compared with the store (I1 to I9).

Usage: history.py POSTRIDER postgres|sqlite.  The output is TAP.  HISTORY_SEED chooses what happens, HISTORY_SECONDS how long
(20), HISTORY_TIMES with how many seeds, one after the other (1).  Without POSTRIDER_TEST_PG each has a server of its own.
"""
import contextlib
import io
import os
import re
import subprocess
import sys
import time
import traceback

sys.dont_write_bytecode = True
try:
    import psycopg2  # noqa: F401
except ImportError:  # another Python than the system's, which has it
    if os.environ.get("HISTORY_AGAIN") is None and os.path.exists("/usr/bin/python3"):
        os.environ["HISTORY_AGAIN"] = "1"
        os.execv("/usr/bin/python3", ["/usr/bin/python3"] + sys.argv)

from judge import Judge
from place import Postgres, Sqlite
from trouble import break_things, operate
from world import World

PROGRAM = os.path.abspath(sys.argv[1])
PLACE = {"postgres": Postgres, "sqlite": Sqlite}[sys.argv[2]]
CLUSTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../postgres/cluster.sh")
# Who caused a duplicate is judged by the clock, which a machine that does other things, too, makes doubtful: only in full.
STRICT = bool(os.environ.get("HISTORY_STRICT"))
SECONDS = float(os.environ.get("HISTORY_SECONDS", "20"))
TIMES = int(os.environ.get("HISTORY_TIMES", "1"))


def live(world):
    world.begin(daemons=3 if PLACE is Postgres else 2)
    world.thread(break_things, world)
    world.thread(operate, world, world.seed)
    world.stop.wait(SECONDS)
    world.end_traffic()
    if len(world.alive()) == 0:
        world.start_daemon()
    world.drain()
    world.stop_daemons()


def test_nothing_is_lost_whatever_breaks(seed):
    """B1, B15, B17, B22, B23, B26, B27, I1 to I9."""
    world = World(PROGRAM, PLACE, seed)
    try:
        live(world)
        judge = Judge(world)
        broken = judge.judge()
        print("".join("# %s: %s\n" % pair for pair in judge.summary()), end="")
        assert len(judge.app) > SECONDS, "hardly anything happened"
        if not STRICT:
            print("".join("# not judged here: %s\n" % line for line in broken if line.startswith("I9 ")), end="")
            broken = [line for line in broken if not line.startswith("I9 ")]
        assert not broken, "promises are broken\n" + "\n".join(broken)
    except BaseException:
        for daemon in world.daemons[-4:]:
            print("".join("# %s\n" % line for line in world.log_of(daemon).splitlines()[-5:]), end="")
        raise
    finally:
        world.close()


def run_one(seed):
    """Here, or on a server of its own; what it says."""
    if PLACE.missing():
        return "1..0 # SKIP " + PLACE.missing()
    if PLACE is Postgres and not os.environ.get("POSTRIDER_TEST_PG"):
        return subprocess.run([CLUSTER, sys.executable, *sys.argv], env=dict(os.environ, HISTORY_SEED=str(seed), HISTORY_TIMES="1"),
                              stdout=subprocess.PIPE, text=True).stdout
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        print("# HISTORY_SEED=%d HISTORY_SECONDS=%g meson test -C build %s-history" % (seed, SECONDS, PLACE.name))
        try:
            test_nothing_is_lost_whatever_breaks(seed)
            print("ok 1 - nothing_is_lost_whatever_breaks")
        except Exception:  # pylint: disable=broad-except
            print("".join("# %s\n" % line for line in traceback.format_exc().splitlines()), end="")
            print("not ok 1 - nothing_is_lost_whatever_breaks")
    return said.getvalue()


def main():
    seed, failed = int(os.environ.get("HISTORY_SEED") or time.time()), 0
    print("1..%d" % TIMES, flush=True)
    for number in range(1, TIMES + 1):
        said = run_one(seed)
        if said.startswith("1..0 # SKIP"):
            said = "ok 1 - nothing_is_lost_whatever_breaks " + said[5:]
        failed += not any(line.startswith("ok ") for line in said.splitlines())
        for line in said.splitlines():
            print(re.sub(r"^(not ok|ok) 1 ", r"\1 %d " % number, line) if not line.startswith("1..") else "# " + line, flush=True)
        seed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
