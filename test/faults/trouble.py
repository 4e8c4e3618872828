"""What breaks a world, and who acts in it: faults and operators' orders, drawn by weight from the seed."""
import os
import random
import signal
import sqlite3
import subprocess
import time

from place import LOST
from world import LEASE_SECONDS

# ---- Relays -------------------------------------------------------------------------------------------------------------


def kill(world):
    """With whatever it has in its hands; another one comes in its place."""
    alive = world.alive()
    if alive:
        victim = world.dice.choice(alive)
        world.hurt(victim, "kill")
        victim.kill()
        victim.wait()
    world.start_daemon()


def stop_and_go(world):
    """Shorter than the lease, or longer: then others go on with its lanes, and its verdicts change nothing."""
    alive, seconds = world.alive(), world.dice.choice([0.2, 0.5, 1, LEASE_SECONDS + 1])
    if alive:
        victim = world.dice.choice(alive)
        world.hurt(victim, "stop_and_go")
        os.kill(victim.pid, signal.SIGSTOP)
        world.stop.wait(seconds)
        os.kill(victim.pid, signal.SIGCONT)


def end_and_begin(world):
    """In good order: nothing is delivered twice for that."""
    listening = world.listening()
    if listening:
        victim = world.dice.choice(listening)
        victim.terminate()
        assert victim.wait(60) == 0, world.log_of(victim)[-2000:]
    world.start_daemon()


def reload(world):
    listening = world.listening()
    if listening:
        os.kill(world.dice.choice(listening).pid, signal.SIGHUP)


# ---- PostgreSQL -----------------------------------------------------------------------------------------------------------


def terminate(world):
    """Some connections, in the middle of whatever they do: a commit may have landed or not."""
    world.place.ask("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'postrider'"
                    " AND random() < %.1f" % world.dice.choice([0.3, 1]))


def restart(world):
    world.place.restart()


def fail_over(world):
    world.place.fail_over()


def vacuum_full(world):
    world.place.ask("VACUUM FULL {t:%s}" % world.dice.choice(["outbox", "ledger", "dead_letter", "done"]))


def cluster(world):
    (name,), = world.place.ask("SELECT conname FROM pg_constraint WHERE conrelid = '{t:outbox}'::regclass AND contype IN ('p', 'u')"
                               " ORDER BY contype LIMIT 1")
    world.place.ask('CLUSTER {t:outbox} USING "%s"' % name)


def alter(world):
    """A column of the application's own, in Postrider's table; and what else a migration does to one."""
    column = "app_%d" % world.dice.randint(0, 3)
    world.place.ask(world.dice.choice(["ALTER TABLE {t:outbox} ADD COLUMN IF NOT EXISTS %s text", "ALTER TABLE {t:outbox} DROP COLUMN"
                                       " IF EXISTS %s", "ALTER TABLE {t:outbox} SET (fillfactor = 90) /* %s */"]) % column)


def analyze(world):
    world.place.ask("VACUUM ANALYZE")


# ---- SQLite ---------------------------------------------------------------------------------------------------------------


def lock_file(world):
    """Somebody else writes for a while: a backup, say."""
    connection = world.place.connect()
    try:
        connection.execute("BEGIN IMMEDIATE")
        world.stop.wait(world.dice.choice([0.05, 0.3, 1.5]))
        connection.execute("ROLLBACK")
    finally:
        connection.close()


def long_reader(world):
    """The log cannot be taken into the file meanwhile."""
    connection = world.place.connect()
    try:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM outbox").fetchall()
        world.stop.wait(1)
    finally:
        connection.close()


def vacuum(world):
    world.place.ask("VACUUM")


def checkpoint(world):
    world.place.ask("PRAGMA wal_checkpoint(TRUNCATE)")


FAULTS = {
    "postgres": {kill: 6, stop_and_go: 3, end_and_begin: 2, reload: 2, terminate: 4, restart: 1, fail_over: 1, vacuum_full: 2,
                 cluster: 1, alter: 2, analyze: 1},
    "sqlite": {kill: 6, stop_and_go: 3, end_and_begin: 2, reload: 2, lock_file: 4, long_reader: 2, vacuum: 1, checkpoint: 2},
}


def break_things(world, pause=(0.1, 1.5)):
    """Until it is stopped.  A fault that the place refuses right now (it is away) is none."""
    faults = FAULTS[world.place.name]
    while not world.stop.wait(world.dice.uniform(*pause)):
        fault, = world.dice.choices(list(faults), list(faults.values()))
        world.note(fault.__name__)
        try:
            fault(world)
        except LOST:
            pass


# ---- The operator ---------------------------------------------------------------------------------------------------------


def ids_of(world, dice, *listing):
    listed = world.run(*listing, "--limit", "20", "--json").stdout.splitlines()
    ids = [line.split('"id":"')[1][:36] for line in listed if '"id":"' in line]
    return dice.sample(ids, min(len(ids), 3))


def some_order(world, dice):
    """Only what is called op. may end by a person's hand; whatever else a person does must not change an end."""
    kind = dice.choice(["op.x", "op.y", "op.*"])
    many = ["--type", kind, "--yes", "--why", "chance"]
    endpoint = dice.choice("abc")
    order = dice.choice(["retry", "park", "discard", "dead add", "dead replay", "dead discard", "replay doomed", "pause", "resume",
                         "release", "look", "unpark", "unpark"])
    if order == "unpark":  # or what is parked is all there is, in the end
        return order, ["retry", "--state", "parked", "--yes", "--why", "chance"]
    if order in ("retry", "park", "release", "dead replay", "dead discard"):
        return order, [*order.split(), *many]
    if order == "discard":
        return order, ["discard", *ids_of(world, dice, "list", "--type", kind)] + ["--why", "chance"]
    if order == "dead add":
        return order, ["dead", "add", *ids_of(world, dice, "list", "--type", kind)] + ["--why", "chance"]
    if order == "replay doomed":
        return order, ["dead", "replay", "--type", "doomed", "--yes", "--why", "chance"]
    if order == "pause":
        return order, ["pause", endpoint, "--for", "%dms" % dice.choice([50, 300, 1000]), "--why", "chance"]
    if order == "resume":
        return order, ["resume", endpoint]
    return "look", [dice.choice(["status", "streams", "audit", "instances", "doctor", "endpoints"])]


def operate(world, seed, pause=(0.05, 0.8)):
    """A person who does anything at all.  A store that is away is said so; what is wrong with the order never is the answer."""
    dice = random.Random(seed)
    while not world.stop.wait(dice.uniform(*pause)):
        order, args = some_order(world, dice)
        if order in ("discard", "dead add") and args[-3] in ("discard", "add"):
            continue  # nobody was there
        try:
            done = world.run(*args)
        except subprocess.TimeoutExpired:
            continue  # the server was away for that long
        world.orders[order] += 1
        world.diary.append((time.time(), " ".join(args)))
        assert done.returncode in (0, 1, 4, 5, 6, 7), (args, done.returncode, done.stderr)
