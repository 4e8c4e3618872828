#!/usr/bin/env python3
"""The judge is judged first: a calm world is innocent, and each crime that is committed on paper in it is found.

Usage: judge_test.py POSTRIDER.  The output is TAP.
"""
import os
import sys
import traceback

sys.dont_write_bytecode = True
from judge import Judge
from place import Sqlite
from world import World, until


def arrivals(world):
    return world.receiver.arrivals


def of_type(world, kind, answered=200):
    """The first arrival of such a message."""
    ids = {id for id, in world.place.ask("SELECT id FROM app WHERE type = ? AND box = 'outbox'", kind)}
    return next(a for a in arrivals(world) if a.id in ids and a.status == answered)


def forget(world, arrival):
    arrivals(world)[:] = [a for a in arrivals(world) if (a.id, a.endpoint) != (arrival.id, arrival.endpoint)]


def swap_first(world):
    """Of two in one stream the second came first."""
    first = {}
    for _, id, stream in world.place.ask("SELECT number, id, stream FROM app WHERE stream IS NOT NULL AND type = 'ok' AND box = 'outbox'"):
        mine = next(a for a in arrivals(world) if a.id == id)
        if stream in first:
            arrivals(world).remove(mine)
            arrivals(world).insert(0, mine._replace(at=first[stream].at - 1))
            return
        first[stream] = mine


def in_store(sql):
    return lambda world: world.place.ask(sql)


CRIMES = [
    ("I1 committed and not delivered", lambda w: forget(w, of_type(w, "ok"))),
    ("I1 committed and not delivered", lambda w: forget(w, next(a for a in arrivals(w) if a.endpoint == "c"))),
    ("I1 it always fails and is not dead", in_store("DELETE FROM postrider_dead_letter")),
    ("I1 the rule that discards it was not asked", lambda w: forget(w, of_type(w, "drop", 418))),
    ("I1 the sender was told", lambda w: w.committed.update({"somebody": 0})),
    ("are gone, and people discarded", in_store("DELETE FROM postrider_done WHERE row_id = (SELECT min(row_id) FROM postrider_done"
                                                " WHERE type LIKE 'op.%')")),
    ("I1 still waiting", in_store("INSERT INTO outbox (type, payload) VALUES ('ok', 'x')")),
    ("I2 never committed", lambda w: arrivals(w).append(of_type(w, "ok")._replace(id="nobody"))),
    ("I2 never committed, or never meant", lambda w: arrivals(w).append(of_type(w, "ok")._replace(endpoint="c"))),
    ("I2 rolled back", lambda w: w.rolled_back.add(of_type(w, "ok").id)),
    ("I3 first handed out before", swap_first),
    ("I5 kept 0 times", in_store("DELETE FROM postrider_done WHERE row_id = (SELECT min(row_id) FROM postrider_done WHERE type = 'ok')")),
    ("I7 a dead letter is not", in_store("UPDATE postrider_dead_letter SET payload = x'00ff00'")),
    ("I8 not what was sent", lambda w: arrivals(w).append(of_type(w, "ok")._replace(digest="0"))),
    ("I9 delivered twice", lambda w: arrivals(w).append(of_type(w, "ok")._replace(at=4e9))),
]


def live():
    world = World(os.path.abspath(sys.argv[1]), Sqlite, 7)
    world.begin(daemons=1, senders=2)
    until("there are enough", lambda: world.stop.is_set() or len(world.committed) > 400)
    world.end_traffic()
    world.drain()
    world.stop_daemons()
    return world


def judge_crime(world, promise, commit):
    """It is found, and nothing else is changed for the next one."""
    before = (list(arrivals(world)), dict(world.committed), set(world.rolled_back))
    with open(world.place.file, "rb") as file:
        store = file.read()
    commit(world)
    broken = Judge(world).judge()
    arrivals(world)[:], world.committed, world.rolled_back = before
    for end in ("-wal", "-shm"):
        if os.path.exists(world.place.file + end):
            os.unlink(world.place.file + end)
    with open(world.place.file, "wb") as file:
        file.write(store)
    assert any(promise in text for text in broken), (promise, broken)


def main():
    print("1..%d" % (len(CRIMES) + 1), flush=True)
    world, failed = live(), 0
    try:
        world.place.ask("PRAGMA wal_checkpoint(TRUNCATE)")
        judge = Judge(world)
        broken = judge.judge()
        innocent = not broken and not any(what.startswith("duplicates") for what in judge.counts)
        print("%s 1 - a calm world is innocent" % ("ok" if innocent else "not ok"))
        print("".join("# %s\n" % text for text in broken), end="")
        failed += not innocent
        for number, (promise, commit) in enumerate(CRIMES, 2):
            try:
                judge_crime(world, promise, commit)
                print("ok %d - %s is found" % (number, promise), flush=True)
            except Exception:  # pylint: disable=broad-except
                failed += 1
                print("not ok %d - %s is found" % (number, promise))
                print("".join("# %s\n" % line for line in traceback.format_exc().splitlines()), end="", flush=True)
    finally:
        world.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
