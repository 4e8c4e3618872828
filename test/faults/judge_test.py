#!/usr/bin/env python3
"""The judge is judged first: a calm world is innocent, each crime that is committed on paper in it is found, and what has a
cause is none.

Usage: judge_test.py POSTRIDER.  The output is TAP.
"""
import datetime
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


def again(world, **what):
    """It came once more, eight seconds later."""
    first = of_type(world, "ok")
    arrivals(world).append(first._replace(**{"at": first.at + 8, "number": -1, **what}))
    return first


def hurt_before(world, again, relay, seconds=1):
    world.hurts.append((again.at + seconds, "kill", relay))


def log_before(world, again, text):
    """The relay wrote this meanwhile, and said nothing else of it."""
    at = datetime.datetime.fromtimestamp(again.at + 1, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    with open(log_file(world), "a", encoding="utf-8") as log:
        log.write("time=%s level=info %s\n" % (at, text))


def log_file(world):
    return "%s/log-%d" % (world.path, world.daemons[0].number)


def damage(world):
    """The pages of an index belong to nobody."""
    connection = world.place.connect()
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("DELETE FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL AND tbl_name = 'postrider_done'")
    connection.close()


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
    ("the store is damaged", damage),
    ("I9 delivered twice", again),
    ("I9 delivered twice", lambda w: hurt_before(w, again(w), 99)),  # another relay
    ("I9 delivered twice", lambda w: log_before(w, again(w), "event=box_taken box=ledger from_dead_instance=true")),
    ("I9 delivered twice", lambda w: log_before(w, again(w), "event=box_taken box=outbox from_dead_instance=false")),
]

# What explains a second time.
EXCUSES = [
    ("kill", lambda w: hurt_before(w, again(w), 1)),
    ("kill", lambda w: hurt_before(w, again(w, relay=99), 1)),
    # Nobody accepted the connection of one that was killed, and then somebody did.
    ("kill", lambda w: hurt_before(w, again(w, relay=99), 1, seconds=-25)),
    ("timeout_exceeded", lambda w: log_before(w, again(w), "event=attempt_failed box=outbox endpoint=a reason=timeout_exceeded")),
    # Ten lines a second are written about failed attempts: this one was not among them.
    ("answer_unread", lambda w: w.receiver.unread.add(again(w).number)),
    # Who had the lease before writes that it lost it when it can run again, and that is too late.
    ("box_taken", lambda w: log_before(w, again(w), "event=box_taken box=outbox from_dead_instance=true")),
]


def live():
    world = World(os.path.abspath(sys.argv[1]), Sqlite, 7)
    world.begin(daemons=1, senders=2)
    until("there are enough", lambda: world.stop.is_set() or len(world.committed) > 400)
    world.end_traffic()
    world.drain()
    world.stop_daemons()
    return world


def judge_deed(world, commit):
    """What the judge says; nothing is changed for the next one."""
    receiver = world.receiver
    before = (list(arrivals(world)), dict(world.committed), set(world.rolled_back), set(receiver.unread), list(world.hurts))
    files = {}
    for name in (world.place.file, log_file(world)):
        with open(name, "rb") as file:
            files[name] = file.read()
    commit(world)
    judge = Judge(world)
    judge.judge()
    arrivals(world)[:], world.committed, world.rolled_back, receiver.unread, world.hurts = before
    for end in ("-wal", "-shm"):
        if os.path.exists(world.place.file + end):
            os.unlink(world.place.file + end)
    for name, content in files.items():
        with open(name, "wb") as file:
            file.write(content)
    return judge


def judge_crime(world, promise, commit):
    broken = judge_deed(world, commit).broken
    assert any(promise in text for text in broken), (promise, broken)


def judge_excuse(world, cause, commit):
    judge = judge_deed(world, commit)
    assert not judge.broken and judge.counts["duplicates: " + cause] == 1, (cause, judge.counts, judge.broken)


def main():
    cases = [("%s is found" % promise, judge_crime, promise, commit) for promise, commit in CRIMES]
    cases += [("twice after %s is innocent" % cause, judge_excuse, cause, commit) for cause, commit in EXCUSES]
    print("1..%d" % (len(cases) + 1), flush=True)
    world, failed = live(), 0
    try:
        world.place.ask("PRAGMA wal_checkpoint(TRUNCATE)")
        judge = Judge(world)
        broken = judge.judge()
        innocent = not broken and not any(what.startswith("duplicates") for what in judge.counts)
        print("%s 1 - a calm world is innocent" % ("ok" if innocent else "not ok"))
        print("".join("# %s\n" % text for text in broken), end="")
        failed += not innocent
        for number, (name, check, what, commit) in enumerate(cases, 2):
            try:
                check(world, what, commit)
                print("ok %d - %s" % (number, name), flush=True)
            except Exception:  # pylint: disable=broad-except
                failed += 1
                print("not ok %d - %s" % (number, name))
                print("".join("# %s\n" % line for line in traceback.format_exc().splitlines()), end="", flush=True)
    finally:
        world.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
