"""PgQ (postgresql-15-pgq3), with the words of sender.mjs and worker.mjs: pgq.py send|work URL ...

It acknowledges whole batches, and its ticker makes them: every 100 ms here, where its own daemon would make one a second at
least, so that its latency is its best and not that of a pause.
"""
import json
import os
import signal
import sys
import threading
import time

import psycopg2

QUEUE, CONSUMER = "bench", "bench"
TICK_S = 0.1


def connect(url):
    connection = psycopg2.connect(url)
    connection.autocommit = True
    return connection


def setup(url):
    with connect(url).cursor() as c:
        c.execute("CREATE EXTENSION IF NOT EXISTS pgq")
        c.execute("SELECT pgq.create_queue(%s), pgq.register_consumer(%s, %s)", (QUEUE, QUEUE, CONSUMER))
        c.execute("SELECT pgq.set_queue_config(%s, 'ticker_max_lag', '50 milliseconds')", (QUEUE,))


def tick(cursor):
    cursor.execute("SELECT pgq.ticker(%s)", (QUEUE,))


def fill(url, count, size):
    with connect(url).cursor() as c:
        c.execute("SELECT count(pgq.insert_event(%s, 'bench', %s)) FROM generate_series(1, %s)",
                  (QUEUE, json.dumps({"fill": "x" * size}), count))
        time.sleep(TICK_S)
        tick(c)


def paced(url, count, per_second, size):
    times = {}
    with connect(url).cursor() as c:
        start = time.monotonic()
        for n in range(count):
            time.sleep(max(0.0, start + n / per_second - time.monotonic()))
            c.execute("SELECT pgq.insert_event(%s, 'bench', %s)", (QUEUE, json.dumps({"n": n, "fill": "x" * size})))
            times[n] = time.monotonic()
    return {"times": times}


def flow(url, clients, seconds, size):
    sent = [0] * clients
    payload = json.dumps({"fill": "x" * size})
    until = time.monotonic() + seconds

    def client(i):
        with connect(url).cursor() as c:
            while time.monotonic() < until:
                c.execute("SELECT pgq.insert_event(%s, 'bench', %s)", (QUEUE, payload))
                sent[i] += 1

    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return {"sent": sum(sent), "seconds": seconds}


def ticker(url):
    with connect(url).cursor() as c:
        while True:
            tick(c)
            time.sleep(TICK_S)


def work(url, expected):
    times, handled = {}, 0

    def stop(*_):
        print(json.dumps({"handled": handled, "times": times}), flush=True)
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    threading.Thread(target=ticker, args=(url,), daemon=True).start()
    cursor = connect(url).cursor()
    print("ready", flush=True)
    while True:
        cursor.execute("SELECT pgq.next_batch(%s, %s)", (QUEUE, CONSUMER))
        batch = cursor.fetchone()[0]
        if batch is None:
            time.sleep(0.005)
            continue
        cursor.execute("SELECT ev_data FROM pgq.get_batch_events(%s)", (batch,))
        for (data,) in cursor:
            message = json.loads(data)
            if "n" in message:
                times.setdefault(message["n"], time.monotonic())
            handled += 1
            if handled == expected:
                print(f"done {time.monotonic()}", flush=True)
        cursor.execute("SELECT pgq.finish_batch(%s)", (batch,))


def main():
    side, url, *rest = sys.argv[1:]
    if side == "work":
        work(url, int(rest[0]))
    what, numbers = rest[0], [int(n) for n in rest[1:]]
    answer = {"setup": setup, "fill": fill, "paced": paced, "flow": flow}[what](url, *numbers)
    if answer is not None:
        print(json.dumps(answer))


main()
