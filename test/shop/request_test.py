#!/usr/bin/env python3
"""Requests through a real RabbitMQ to a service with a store of its own, and their replies back: one asks on PostgreSQL, the other one
answers on SQLite, and both relays are killed meanwhile.  Each request gets the reply to it, and only one.

Usage: cluster.sh request_test.py POSTRIDER EXAMPLE REQUESTS KILLS, with NPM_FOLDER and maybe SEED."""
import concurrent.futures
import os
import random
import shutil
import sys
import tempfile
import threading
import time

import shop_test
from shop_test import DEADLINE_SECONDS, KILLS, ORDERS as REQUESTS, POSTRIDER, SEED, Process, is_open, wait_for

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../clients/python"))
import postrider  # noqa: E402

ASKING = """store: "${DATABASE}"
lease: 2s
sources:
  - {amqp: "${BROKER}/?queue=answers"}
endpoints:
  prices: {url: "${BROKER}/?key=questions", retry: {delays: [100ms, 1s]}}
routes:
  - {type: "price.ask", to: prices}
http: {listen: "127.0.0.1:%d"}
"""
ANSWERING = """store: "${BILLING_STORE}"
lease: 2s
sources:
  - {amqp: "${BROKER}/?queue=questions"}
endpoints:
  handler: {url: "pull:", timeout: 2s}
  back: {url: "${BROKER}/?key=answers", retry: {delays: [100ms, 1s]}}
routes:
  - {box: inbox, type: "price.ask", to: handler}
http: {listen: "${BILLING_LISTEN}"}
"""


class Services(shop_test.Shop):
    queues = ("questions", "answers")

    def begin(self):
        self.port = shop_test.free_port()
        self.write("asking.yaml", ASKING % self.port)
        self.write("answering.yaml", ANSWERING)
        self.run("psql", "-qX", "-d", "postgres", "-c", "CREATE DATABASE shop")
        for name in ("asking", "answering"):
            self.run(POSTRIDER, "init", "-c", name + ".yaml")
        wait_for("RabbitMQ", lambda: is_open(self.broker_port))
        self.all = [Process(self, name, [POSTRIDER, "run", "-c", name + ".yaml"]) for name in ("asking", "answering")]
        for port in (self.port, self.listen):
            wait_for("both run", lambda: is_open(port))


def answer(services, stops):
    """The service that answers: a worker that claims questions."""
    worker = postrider.Worker("http://127.0.0.1:%d" % services.listen, wait=1)

    @worker.handle("price.ask")
    def price(message):
        return [message.reply("price", {"amount": 2 * message.json()["item"]})]

    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    stops.wait()
    worker.stop()
    thread.join(DEADLINE_SECONDS)


def test_requests_through_a_broker_get_their_replies(services):  # B214
    requests, rng, stops = postrider.Requests("http://127.0.0.1:%d" % services.port), random.Random(SEED), threading.Event()
    worker = threading.Thread(target=answer, args=(services, stops), daemon=True)
    worker.start()

    def ask(item):
        return requests.request(postrider.Message("price.ask", {"item": item}), deadline=DEADLINE_SECONDS, reply_to="back").json()
    with concurrent.futures.ThreadPoolExecutor(REQUESTS) as pool:
        replies = [pool.submit(ask, item) for item in range(REQUESTS)]
        for _ in range(KILLS):
            time.sleep(rng.random() * 0.5)
            rng.choice(services.all).kill()
        assert [r.result()["amount"] for r in replies] == [2 * item for item in range(REQUESTS)]
    stops.set()
    worker.join(DEADLINE_SECONDS)


def check(services):
    """A reply that came twice is stored once, and nothing else is left."""
    count = "SELECT count(*), count(DISTINCT correlation_id) FROM postrider.inbox"
    wait_for("what came twice is gone", lambda: services.sql(count) == "%d|%d" % (REQUESTS, REQUESTS))
    assert services.sql("SELECT count(*) FROM postrider.inbox WHERE destination <> 'reply:'") == "0"
    assert services.sql("SELECT count(*) FROM postrider.dead_letter") == "0"


def main():
    if not os.access(shop_test.RABBITMQ, os.X_OK):
        shop_test.skip("RabbitMQ is not installed")
    folder = tempfile.mkdtemp(prefix="postrider-request-")
    services = Services(folder)
    try:
        services.start_rabbitmq()
        services.begin()
        test_requests_through_a_broker_get_their_replies(services)
        check(services)
        print("%d requests, %d kills, seed %d" % (REQUESTS, KILLS, SEED))
    except BaseException:
        for name in ("asking", "answering"):
            path = os.path.join(folder, name + ".log")
            if os.path.exists(path):
                with open(path, errors="replace", encoding="utf-8") as f:
                    sys.stderr.write("---- %s\n%s\n" % (name, f.read()[-2000:]))
        raise
    finally:
        services.end()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
