#!/usr/bin/env python3
"""Six payloads of 50 MB: how much memory does the daemon need?

Usage: large_test.py POSTRIDER sqlite, or cluster.sh large_test.py POSTRIDER postgres.  The output is TAP.
"""
import http.server
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

PROGRAM = os.path.abspath(sys.argv[1])
KIND = sys.argv[2]
COUNT, SIZE, PAYLOAD_MIB = 6, 50_000_000, 60
ALLOWED_KIB = (64 + 64) * 1024  # limits.in_flight_bytes has its default, and the daemon itself needs something
DEADLINE_SECONDS = 200


class Receiver(http.server.BaseHTTPRequestHandler):
    got = []

    def do_POST(self):
        size = left = int(self.headers["Content-Length"])
        while left > 0:
            left -= len(self.rfile.read(min(1 << 20, left)))
        Receiver.got.append(size)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args):
        pass


def store(name):
    if KIND == "sqlite":
        return "sqlite:large.db"
    return "postgres:///postgres?host=%s&user=postgres&schema=large_%d_%s" % (os.environ["POSTRIDER_TEST_PG_FOLDER"], os.getpid(), name)


def run(path, *args):
    return subprocess.run([PROGRAM, *args], cwd=path, check=True, stdout=subprocess.PIPE, text=True, timeout=DEADLINE_SECONDS).stdout


def peak_kib(path, name, endpoint):
    """What the daemon needed at most, until all have arrived."""
    with open(os.path.join(path, "postrider.yaml"), "w") as file:
        file.write('store: "%s"\nlimits: {payload: %dMiB}\nendpoints:\n  sink: {%s, timeout: 60s}\n' % (store(name), PAYLOAD_MIB, endpoint))
    with open(os.path.join(path, "payload"), "wb") as file:
        file.write(os.urandom(SIZE))
    run(path, "init")
    for _ in range(COUNT):
        run(path, "send", "--type", "t", "--to", "sink", "--file", "payload")
    with open(os.path.join(path, "log"), "w") as log:
        daemon = subprocess.Popen([PROGRAM, "run"], cwd=path, stdout=subprocess.DEVNULL, stderr=log)
    try:
        end = time.monotonic() + DEADLINE_SECONDS
        while run(path, "list", "--json") != "":
            assert time.monotonic() < end and daemon.poll() is None, open(os.path.join(path, "log")).read()
            time.sleep(0.05)
        with open("/proc/%d/status" % daemon.pid) as file:
            return int(re.search(r"VmHWM:\s+(\d+) kB", file.read()).group(1))
    finally:
        daemon.terminate()
        daemon.wait(DEADLINE_SECONDS)


def has_all(path):
    """Six lines, each with the payload in base64."""
    with open(os.path.join(path, "out.jsonl"), "rb") as file:
        return [len(line) // (SIZE * 4 // 3) for line in file] == [1] * COUNT


def main():
    print("1..3")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    all_good = True
    for i, (name, endpoint, arrived) in enumerate((
            ("hook", 'url: "http://127.0.0.1:%d/", allow_networks: [127.0.0.0/8], concurrency: 4' % server.server_port,
             lambda path: Receiver.got == [SIZE] * COUNT),
            ("file", 'url: "file:out.jsonl"', has_all),
            ("null", 'url: "null:"', lambda path: True)), 1):
        path = tempfile.mkdtemp(prefix="postrider-large-")
        try:
            peak = peak_kib(path, name, endpoint)
            good = peak <= ALLOWED_KIB and arrived(path)
            print("# %s: %d KiB, allowed are %d" % (name, peak, ALLOWED_KIB))
            print("%s %d - six_large_payloads_to_%s_need_the_window_and_little_more" % ("ok" if good else "not ok", i, name), flush=True)
            all_good &= good
        finally:
            shutil.rmtree(path)
    return 0 if all_good else 1


if __name__ == "__main__":
    sys.exit(main())
