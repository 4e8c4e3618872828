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


def peak_kib(path, port):
    url = ("sqlite:large.db" if KIND == "sqlite" else
           "postgres:///postgres?host=%s&user=postgres&schema=large_%d" % (os.environ["POSTRIDER_TEST_PG_FOLDER"], os.getpid()))
    with open(os.path.join(path, "postrider.yaml"), "w") as file:
        file.write('store: "%s"\nlimits: {payload: %dMiB}\nendpoints:\n'
                   '  hook: {url: "http://127.0.0.1:%d/", allow_networks: [127.0.0.0/8], concurrency: 4, timeout: 60s}\n' % (url, PAYLOAD_MIB, port))
    with open(os.path.join(path, "payload"), "wb") as file:
        file.write(os.urandom(SIZE))
    subprocess.run([PROGRAM, "init"], cwd=path, check=True, stdout=subprocess.DEVNULL, timeout=DEADLINE_SECONDS)
    for _ in range(COUNT):
        subprocess.run([PROGRAM, "send", "--type", "t", "--to", "hook", "--file", "payload"], cwd=path, check=True, stdout=subprocess.DEVNULL,
                       timeout=DEADLINE_SECONDS)
    with open(os.path.join(path, "log"), "w") as log:
        daemon = subprocess.Popen([PROGRAM, "run"], cwd=path, stdout=subprocess.DEVNULL, stderr=log)
    try:
        end = time.monotonic() + DEADLINE_SECONDS
        while len(Receiver.got) < COUNT:
            assert time.monotonic() < end and daemon.poll() is None, open(os.path.join(path, "log")).read()
            time.sleep(0.05)
        with open("/proc/%d/status" % daemon.pid) as file:
            return int(re.search(r"VmHWM:\s+(\d+) kB", file.read()).group(1))
    finally:
        daemon.terminate()
        daemon.wait(DEADLINE_SECONDS)


def main():
    print("1..1")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    path = tempfile.mkdtemp(prefix="postrider-large-")
    try:
        peak = peak_kib(path, server.server_port)
        good = peak <= ALLOWED_KIB and set(Receiver.got) == {SIZE}
        print("# %d KiB, allowed are %d" % (peak, ALLOWED_KIB))
        print("%s 1 - six_large_payloads_need_the_window_and_little_more" % ("ok" if good else "not ok"))
        return 0 if good else 1
    finally:
        shutil.rmtree(path)


if __name__ == "__main__":
    sys.exit(main())
