#!/usr/bin/env python3
"""Everything breaks in random order while three relays (on SQLite: two), three senders and an operator work on one store; then
what was written down is compared with the store (I1 to I9).

Usage: history.py POSTRIDER postgres|sqlite.  The output is TAP.  HISTORY_SEED chooses what happens, HISTORY_SECONDS how long
(20), HISTORY_TIMES with how many seeds, one after the other (1).
"""
import os
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
        assert not broken, "promises are broken\n" + "\n".join(broken)
        world.place.end()
    except BaseException:
        for daemon in world.daemons[-4:]:
            print("".join("# %s\n" % line for line in world.log_of(daemon).splitlines()[-5:]), end="")
        raise
    finally:
        world.close()


def main():
    if PLACE.missing():
        print("1..0 # SKIP " + PLACE.missing())
        return 0
    seed, failed = int(os.environ.get("HISTORY_SEED") or time.time()), 0
    print("1..%d" % TIMES)
    for number in range(1, TIMES + 1):
        print("# HISTORY_SEED=%d HISTORY_SECONDS=%g meson test -C build %s-history" % (seed, SECONDS, sys.argv[2]), flush=True)
        try:
            test_nothing_is_lost_whatever_breaks(seed)
            print("ok %d - nothing_is_lost_whatever_breaks" % number, flush=True)
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print("not ok %d - nothing_is_lost_whatever_breaks" % number)
            print("".join("# %s\n" % line for line in traceback.format_exc().splitlines()), end="", flush=True)
        seed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
