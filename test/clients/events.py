"""events.py URL: what clients_test.py expects of a client that reads and appends events, with Python."""
import http.server
import itertools
import sys
import threading

import postrider

events = postrider.Events(sys.argv[1], wait=1, page=2)
message = postrider.Message("order.paid", {"n": 1}, stream="order/1", headers={"h": "1"})
assert events.append(message, expected_version=0) == 1
try:
    events.append(message, expected_version=0)
    raise SystemExit("this was to be a conflict")
except postrider.VersionConflict as conflict:
    assert (conflict.expected, conflict.version) == (0, 1), conflict
assert events.append(message, expected_version=1) == 2
assert events.append(postrider.Message("order.sent", b"\x00\xff", stream="order/1")) == 3
assert [(e.version, e.type) for e in events.read("order/1")] == [(1, "order.paid"), (2, "order.paid"), (3, "order.sent")]
assert [(e.version, e.payload) for e in events.read("order/1", 3)] == [(3, b"\x00\xff")]
first = next(events.read("order/1"))
assert first.json() == {"n": 1} and first.headers == {"h": "1"} and first.place == 0, first
assert [e.place for e in events.read_all()] == [1, 2, 3]

threading.Timer(0.3, lambda: events.append(message)).start()
assert [e.place for e in itertools.islice(events.tail(after=2), 2)] == [3, 4]  # the last one comes while it waits

assert events.snapshot("order/1") is None
assert events.save_snapshot("order/1", 2, {"total": 5}) and not events.save_snapshot("order/1", 1, b"old")
assert events.snapshot("order/1") == (2, b'{"total":5}')

stop, seen = threading.Event(), []


def project(batch):
    seen.extend(e.place for e in batch)
    if len(seen) == 4:
        stop.set()


events.project("view", project, batch=3, stop=stop)
assert seen == [1, 2, 3, 4], seen

try:
    events.project("broken", lambda batch: 1 / 0)
    raise SystemExit("what the handler raises was to come out")
except ZeroDivisionError:
    pass


class Away(http.server.BaseHTTPRequestHandler):
    """A daemon that goes away before its first answer."""
    asked = 0

    def do_GET(self):
        Away.asked += 1
        if Away.asked == 1:
            return  # the connection ends without an answer
        answer = b'{"events":[{"place":7,"stream":"s","version":1,"id":"x","type":"t","payload":"1","created_at":""}],"next":7,"more":false}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Away)
threading.Thread(target=server.serve_forever, daemon=True).start()
assert next(postrider.Events("http://127.0.0.1:%d" % server.server_port).tail(after=6)).place == 7 and Away.asked == 2
