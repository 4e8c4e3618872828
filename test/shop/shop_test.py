#!/usr/bin/env python3
"""The shop of examples/shop, with a real RabbitMQ and PostgreSQL; everything of ours is killed at random, and so
are both servers.  In the end every order is billed exactly once.

Usage: cluster.sh shop_test.py POSTRIDER EXAMPLE ORDERS KILLS CRASHES (of servers, in turns), with NPM_FOLDER and maybe SEED."""
import fcntl
import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request

POSTRIDER, EXAMPLE = (os.path.abspath(a) for a in sys.argv[1:3])
ORDERS, KILLS, CRASHES = (int(a) for a in (sys.argv[3:] + ["0"])[:3])
SERVER = os.environ["POSTRIDER_TEST_PG_FOLDER"]
NPM = os.environ["NPM_FOLDER"]
RABBITMQ = "/usr/lib/rabbitmq/bin/rabbitmq-server"
DEADLINE_SECONDS = 240
SEED = int(os.environ.get("SEED", time.time()))


def skip(why):
    print("# SKIP " + why)
    sys.exit(77)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(what, condition, seconds=DEADLINE_SECONDS):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "seed %d: not within %d s: %s" % (SEED, seconds, what)
        time.sleep(0.02)


def is_open(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


class Process:
    """One of ours: started again whenever it is killed."""

    def __init__(self, shop, name, command):
        self.shop, self.name, self.command, self.child, self.kills = shop, name, command, None, 0
        self.start()

    def start(self):
        log = open(os.path.join(self.shop.folder, self.name + ".log"), "ab")
        self.child = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *self.command], cwd=self.shop.folder, env=self.shop.env,
                                      stdout=log, stderr=log)
        log.close()

    def has_ended(self):
        return self.child.poll() is not None

    def kill(self):
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()
        self.kills += 1
        self.start()

    def end(self):
        self.child.kill()
        self.child.wait()


class Shop:
    queues = ("orders",)

    def __init__(self, folder):
        self.folder, self.servers, self.all = folder, [], []
        self.broker_port, self.listen = free_port(), free_port()
        self.database = "postgres:///shop?host=%s&user=postgres" % SERVER
        self.env = dict(os.environ, DATABASE=self.database, BROKER="amqp://127.0.0.1:%d" % self.broker_port, CLAIM="1s", LEASE="2s",
                        BILLING_STORE="sqlite:%s/billing.db" % folder, BILLING_LISTEN="127.0.0.1:%d" % self.listen, NPM_FOLDER=NPM,
                        PGHOST=SERVER, PGUSER="postgres")

    def start_rabbitmq(self):
        names, node = free_port(), free_port()
        self.write("plugins", "[].\n")
        self.write("definitions.json", json.dumps({
            "users": [{"name": "guest", "password": "guest", "tags": "administrator"}], "vhosts": [{"name": "/"}],
            "permissions": [{"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
            "queues": [{"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}} for name in self.queues]}))
        self.write("rabbitmq.conf", "listeners.tcp.1 = 127.0.0.1:%d\nlog.file = false\nlog.console = true\nload_definitions = %s/definitions.json\n"
                   % (self.broker_port, self.folder))
        env = dict(os.environ, HOME=self.folder, RABBITMQ_MNESIA_BASE=self.folder + "/data", RABBITMQ_LOG_BASE=self.folder + "/logs",
                   RABBITMQ_PID_FILE=self.folder + "/pid", RABBITMQ_ENABLED_PLUGINS_FILE=self.folder + "/plugins",
                   RABBITMQ_CONFIG_FILE=self.folder + "/rabbitmq.conf", RABBITMQ_NODENAME="shop-%d@localhost" % node,
                   RABBITMQ_DIST_PORT=str(node), RABBITMQ_ALLOW_INPUT="1", ERL_EPMD_PORT=str(names),
                   RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-noinput +sbwt none +S 1:1")
        self.server(["epmd", "-address", "127.0.0.1", "-port", str(names)], env)
        wait_for("epmd", lambda: is_open(names))
        self.broker_env = env
        self.broker = self.server([RABBITMQ], env)

    def crash_rabbitmq(self):
        self.broker.kill()
        self.broker.wait()
        self.servers.remove(self.broker)
        self.broker = self.server([RABBITMQ], self.broker_env)

    def crash_postgresql(self):
        subprocess.run(os.environ["POSTRIDER_TEST_PG_RESTART"], shell=True, check=True)

    def server(self, command, env):
        log = open(os.path.join(self.folder, os.path.basename(command[0]) + ".log"), "ab")
        self.servers.append(subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], cwd=self.folder, env=env, stdout=log, stderr=log,
                                             stdin=subprocess.DEVNULL))
        log.close()
        return self.servers[-1]

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as f:
            f.write(text)

    def run(self, *command, **more):
        done = subprocess.run(command, env=self.env, cwd=self.folder, capture_output=True, text=True, **more)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def sql(self, text):
        return self.run("psql", "-qAtX", "-d", "shop", "-c", text).strip()

    def begin(self):
        self.run("psql", "-qX", "-d", "postgres", "-c", "CREATE DATABASE shop")
        for name in ("orders", "billing"):
            self.run(POSTRIDER, "init", "-c", os.path.join(EXAMPLE, name + ".yaml"))
        self.run("psql", "-qX", "-d", "shop", "-v", "ON_ERROR_STOP=1", "-f", os.path.join(EXAMPLE, "orders.sql"))
        wait_for("RabbitMQ", lambda: is_open(self.broker_port))
        url = "http://127.0.0.1:%d" % self.listen
        self.orders = Process(self, "orders", ["node", os.path.join(EXAMPLE, "orders.mjs"), str(ORDERS), str(4000 // ORDERS)])
        self.all = [self.orders] + [
            Process(self, name, command) for name, command in (
                ("sender", [POSTRIDER, "run", "-c", os.path.join(EXAMPLE, "orders.yaml")]),
                ("receiver", [POSTRIDER, "run", "-c", os.path.join(EXAMPLE, "billing.yaml")]),
                ("worker", [sys.executable, os.path.join(EXAMPLE, "billing.py"), url, os.path.join(self.folder, "bills.db")]))]

    def bills(self):
        try:
            with sqlite3.connect("file:%s/bills.db?mode=ro" % self.folder, uri=True, timeout=20) as db:
                return db.execute("SELECT shop_order, total FROM bill ORDER BY 1").fetchall()
        except sqlite3.OperationalError:
            return []  # nobody has billed anything yet

    def revenue(self):
        with sqlite3.connect("file:%s/bills.db?mode=ro" % self.folder, uri=True, timeout=20) as db:
            return db.execute("SELECT total FROM revenue").fetchall()

    def placed(self):
        return [tuple(int(n) for n in line.split("|")) for line in self.sql("SELECT id, total FROM orders ORDER BY 1").split()]

    def end(self):
        for p in self.all:
            p.end()
        for s in reversed(self.servers):
            s.kill()
            s.wait()


def install_pg():
    if shutil.which("npm") is None or shutil.which("node") is None:
        skip("Node and npm are not installed")
    os.makedirs(NPM, exist_ok=True)
    with open(os.path.join(NPM, ".lock"), "w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not os.path.isdir(os.path.join(NPM, "node_modules", "pg")) and subprocess.run(
                ["npm", "install", "--prefix", NPM, "--no-audit", "--no-fund", "--silent", "pg@8"], capture_output=True).returncode != 0:
            skip("npm cannot install pg here")


def work_and_kill(shop, rng):
    """Something of it dies at any moment, until all orders are billed and enough has died."""
    end, kills = time.monotonic() + DEADLINE_SECONDS, 0
    crashes = {at: (shop.crash_rabbitmq, shop.crash_postgresql)[i % 2] for i, at in enumerate(rng.sample(range(KILLS), CRASHES))}
    while True:
        assert time.monotonic() < end, "seed %d: %d of %d orders are billed" % (SEED, len(shop.bills()), ORDERS)
        time.sleep(rng.random() * 0.4)
        for p in shop.all:
            if p.has_ended() and (p is not shop.orders or p.child.returncode != 0):
                p.start()
        is_done = shop.orders.has_ended() and shop.orders.child.returncode == 0 and len(shop.bills()) >= ORDERS
        if is_done and kills >= KILLS:
            return kills
        if kills < KILLS or not is_done:
            victim = rng.choice([p for p in shop.all if not p.has_ended()])
            if kills < KILLS:
                victim.kill()
                crashes.get(kills, lambda: None)()
                kills += 1


def check(shop):
    time.sleep(1.5)  # longer than a claim: what would be billed again is billed again now
    placed, bills = shop.placed(), shop.bills()
    assert [p[0] for p in placed] == list(range(1, ORDERS + 1)), "seed %d: %d orders" % (SEED, len(placed))
    assert bills == placed, "seed %d: %d bills for %d orders" % (SEED, len(bills), len(placed))
    assert shop.revenue() == [(sum(total for _, total in placed),)], "seed %d: %s" % (SEED, shop.revenue())
    with urllib.request.urlopen("http://127.0.0.1:%d/v1/dead" % shop.listen, timeout=30) as answer:
        assert json.loads(answer.read())["messages"] == [], "seed %d: dead letters" % SEED
    assert shop.sql("SELECT count(*) FROM postrider.dead_letter") == "0", "seed %d: dead letters" % SEED


def main():
    if not os.access(RABBITMQ, os.X_OK):
        skip("RabbitMQ is not installed")
    install_pg()
    folder = tempfile.mkdtemp(prefix="postrider-shop-")
    shop = Shop(folder)
    begun = time.monotonic()
    try:
        shop.start_rabbitmq()
        shop.begin()
        kills = work_and_kill(shop, random.Random(SEED))
        wait_for("the API", lambda: is_open(shop.listen))
        check(shop)
        print("%d orders, %d kills (%s), %d crashes of servers, %.1f s, seed %d" % (
            ORDERS, kills, ", ".join("%s %d" % (p.name, p.kills) for p in shop.all), CRASHES, time.monotonic() - begun, SEED))
    except BaseException:
        for name in ("orders", "sender", "receiver", "worker"):
            path = os.path.join(folder, name + ".log")
            if os.path.exists(path):
                with open(path, errors="replace", encoding="utf-8") as f:
                    sys.stderr.write("---- %s\n%s\n" % (name, f.read()[-2000:]))
        raise
    finally:
        shop.end()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
