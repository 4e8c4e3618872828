"""An outage as people see it from other processes, on whatever store: told by breaker_story()."""
import http.server
import json
import threading
import time

DEADLINE_SECONDS = 60


class Hook:
    """A receiver that is down until it is up.  Messages of type "good" always arrive."""

    def __init__(self):
        hook = self
        self.up, self.arrived = False, []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                kind = self.headers.get("ce-type")
                good = hook.up or kind == "good"
                if good:
                    hook.arrived.append(kind)
                self.send_response(200 if good else 503)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    def config(self, breaker):
        url = "http://127.0.0.1:%d" % self.server.server_port
        return ("endpoints:\n"
                "  hook: {url: '%s/', allow_networks: [127.0.0.0/8], breaker: {after: 1, %s, per: endpoint}}\n"
                "  typed: {url: '%s/', allow_networks: [127.0.0.0/8], breaker: {after: 1, %s, per: type}}\n"
                % (url, breaker, url, breaker))

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def until(what, condition):
    end = time.monotonic() + DEADLINE_SECONDS
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < end, "never: " + what
        time.sleep(0.02)


def breaker_story(ok, start, sql, over):
    """ok(*args): run a command, its output.  start(config): a daemon.  sql(text): rows; {s}. is the schema.
    over: what SQL sets in an instance whose lease is over."""

    def status():
        return json.loads(ok("status", "--json"))

    def endpoint(name):
        return next((e for e in status()["endpoints"] if e["name"] == name), {"state": "ok", "breakers": []})

    def contains(text, *parts):
        for part in parts:
            assert part in text, "no %r in:\n%s" % (part, text)

    def open_for_long():
        daemon = start(hook.config("open: 1h, cap: 1h"))
        until("both are open", lambda: endpoint("hook")["state"] == endpoint("typed")["state"] == "open")
        return daemon

    hook = Hook()
    try:
        ids = [ok("send", "--type", "bad", "--to", "hook", "--data", "x").strip() for _ in range(5)]
        typed = [ok("send", "--type", "bad", "--to", "typed", "--data", "x").strip() for _ in range(4)]
        ok("send", "--type", "good", "--to", "typed", "--data", "x")
        daemon = open_for_long()
        until("another type goes on", lambda: "good" in hook.arrived)

        # status, endpoints list, doctor
        now = status()
        check = [c for c in now["checks"] if c["name"] == "breaker" and "hook: failing" in c["advice"]]
        assert now["health"] == "warn" and check and check[0]["state"] == "warn", now
        contains(check[0]["advice"], "transport_unavailable (503)", "failing, not sending until", "postrider pause hook")
        contains(ok("status"), "health: warn", "failing, probe in", "transport_unavailable (503)")
        contains(ok("doctor"), "hook: failing", "typed: failing")
        e = endpoint("hook")
        assert e["until"] > e["breakers"][0]["since"] and e["breakers"][0]["failed_probes"] == 0, e
        assert e["last_failure"]["reason"] == "transport_unavailable" and e["last_failure"]["code"] == "503", e
        listed = {e["name"]: e for e in map(json.loads, ok("endpoints", "list", "--json").splitlines())}
        assert listed["hook"]["state"] == "open" and listed["typed"]["state"] == "open", listed
        assert listed["typed"]["why"].startswith("for type bad: transport_unavailable"), listed["typed"]
        contains(ok("endpoints", "list"), "failing, probe in")

        # list, show, why
        until("nothing is out any more", lambda: "in-flight" not in ok("list"))
        messages = [json.loads(line) for line in ok("list", "--json").splitlines()]
        assert sorted(m["id"] for m in messages) == sorted(ids + typed), messages
        for m in messages:
            assert m["state"] == "ready" and m["endpoint_state"] == "open" and m["failures"] == 0, m
        contains(ok("list"), "endpoint failing: transport_unavailable (503)")
        waiting = next(m["id"] for m in messages if m["destination"] == "hook")
        contains(ok("show", waiting), "waits for", "endpoint hook, which is failing", "next probe")
        contains(ok("why", waiting), "It waits because endpoint hook is failing", "transport_unavailable (503)",
                 "A probe to hook, in ", "no attempt and no failure is counted", "postrider pause hook")
        why = json.loads(ok("why", waiting, "--json"))
        assert why["breaker"]["state"] == "open" and why["next"]["at"] == why["breaker"]["until"], why
        contains(ok("why", typed[0]), "for messages of type bad")

        # SQL
        assert sql("SELECT state FROM {s}.endpoint_overview WHERE name = 'hook'") == "open"
        assert sql("SELECT DISTINCT endpoint_state FROM {s}.messages WHERE destination = 'hook'") == "open"
        assert sql("SELECT endpoint, type FROM {s}.open_breaker ORDER BY endpoint") == "hook|\ntyped|bad"

        # A pause is stronger, and ends as it began.
        ok("pause", "hook", "--why", "by hand")
        assert endpoint("hook")["state"] == "paused" and endpoint("hook")["why"] == "by hand"
        ok("resume", "hook")
        assert endpoint("hook")["state"] == "open"

        # Killed: when its lease is over nobody has an open breaker, though the rows are still there.
        daemon.kill()
        daemon.wait()
        sql("UPDATE {s}.instance SET " + over)
        assert endpoint("hook")["state"] == "ok"
        assert sql("SELECT count(*) FROM {s}.breaker") == "2"
        assert sql("SELECT count(*) FROM {s}.open_breaker") == "0"
        assert json.loads(ok("show", waiting, "--json"))["endpoint_state"] is None
        contains(ok("why", waiting), "no instance delivers from this box")
        assert endpoint("hook")["last_failure"]["code"] == "503"

        # Started again: its own breakers; probes fail, then all is well.
        daemon = start(hook.config("open: 50ms, cap: 50ms"))
        until("a probe failed", lambda: any(b["failed_probes"] > 0 for b in endpoint("hook")["breakers"]))
        assert endpoint("hook")["state"] in ("open", "half-open")
        hook.up = True
        until("all arrived", lambda: len(hook.arrived) >= 10)
        until("closed", lambda: [endpoint(n)["state"] for n in ("hook", "typed")] == ["ok", "ok"])
        assert not [c for c in status()["checks"] if c["name"] == "breaker"], status()
        assert sql("SELECT count(*) FROM {s}.breaker") == "0"
        assert sql("SELECT count(*) FROM {s}.dead_letter") == "0"
        daemon.terminate()
        assert daemon.wait(DEADLINE_SECONDS) == 0
    finally:
        hook.close()
