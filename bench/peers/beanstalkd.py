"""beanstalkd with its log synced after each write (-f 0), with the words of sender.mjs and worker.mjs: beanstalkd.py send|work SOCKET ...

A queue outside the database, as BullMQ: a sender's data and its job are two commits.
"""
import json
import os
import signal
import socket
import sys
import threading
import time


class Connection:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def ask(self, command, body=b""):
        self.socket.sendall(command + b"\r\n" + body)
        return self.file.readline().split()

    def put(self, data):
        body = json.dumps(data).encode()
        answer = self.ask(b"put 0 0 60 %d" % len(body), body + b"\r\n")
        if answer[0] != b"INSERTED":
            raise RuntimeError(answer)

    def reserve(self):
        word, job, size = self.ask(b"reserve")
        if word != b"RESERVED":
            raise RuntimeError(word)
        data = self.file.read(int(size) + 2)[:-2]
        return job, json.loads(data)


def fill(path, count, size):
    connection = Connection(path)
    for _ in range(count):
        connection.put({"fill": "x" * size})


def paced(path, count, per_second, size):
    times, connection = {}, Connection(path)
    start = time.monotonic()
    for n in range(count):
        time.sleep(max(0.0, start + n / per_second - time.monotonic()))
        connection.put({"n": n, "fill": "x" * size})
        times[n] = time.monotonic()
    return {"times": times}


def flow(path, clients, seconds, size):
    sent = [0] * clients
    until = time.monotonic() + seconds

    def client(i):
        connection = Connection(path)
        while time.monotonic() < until:
            connection.put({"fill": "x" * size})
            sent[i] += 1

    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return {"sent": sum(sent), "seconds": seconds}


def work(path, expected):
    times, handled, connection = {}, 0, Connection(path)

    def stop(*_):
        print(json.dumps({"handled": handled, "times": times}), flush=True)
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    print("ready", flush=True)
    while True:
        job, message = connection.reserve()
        if "n" in message:
            times.setdefault(message["n"], time.monotonic())
        connection.ask(b"delete " + job)
        handled += 1
        if handled == expected:
            print(f"done {time.monotonic()}", flush=True)


def main():
    side, path, *rest = sys.argv[1:]
    if side == "work":
        work(path, int(rest[0]))
    what, numbers = rest[0], [int(n) for n in rest[1:]]
    if what == "setup":
        return
    answer = {"fill": fill, "paced": paced, "flow": flow}[what](path, *numbers)
    if answer is not None:
        print(json.dumps(answer))


main()
