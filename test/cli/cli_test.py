#!/usr/bin/env python3
"""The program from the outside: each command on a real SQLite file, its output, its exit code.

Usage: cli_test.py POSTRIDER [WORD]    only the tests whose name contains WORD (^WORD: all others).  The output is TAP.
"""
import base64
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import traceback
import urllib.request

from breaker_story import Hook, breaker_story

PROGRAM = os.path.abspath(sys.argv[1])
DEADLINE_SECONDS = 60
UNKNOWN_ID = "0190163d-8694-739b-aea5-966c26f8ad91"


class Result:
    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout.decode(), done.stderr.decode()

    def json(self):
        return [json.loads(line) for line in self.out.splitlines()]


class Place:
    """A directory of its own, and the program run in it."""

    def __init__(self, path):
        self.path, self.daemons = path, []

    def run(self, *args, stdin=b"", env=None):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("POSTRIDER_")}
        environment.update(env or {})
        return Result(subprocess.run([PROGRAM, *args], cwd=self.path, input=stdin, capture_output=True,
                                     env=environment, timeout=DEADLINE_SECONDS))

    def ok(self, *args, **kwargs):
        result = self.run(*args, **kwargs)
        assert result.code == 0, f"{args}: code {result.code}: {result.err}"
        return result

    def fails(self, code, *args, **kwargs):
        result = self.run(*args, **kwargs)
        assert result.code == code, f"{args}: code {result.code}, not {code}: {result.out}{result.err}"
        return result

    def write(self, name, text):
        with open(os.path.join(self.path, name), "w" if isinstance(text, str) else "wb") as f:
            f.write(text)

    def sql(self, *statement, changes=1):
        db = sqlite3.connect(os.path.join(self.path, "postrider.db"), timeout=DEADLINE_SECONDS)
        changed = db.execute(*statement).rowcount
        db.commit()
        db.close()
        assert changed == changes, statement

    def terminal(self, *args, answer=b"", when=lambda seen: True, rows=24, columns=80, env=None):
        """Run it on a terminal; answer is typed when what was seen is right for it.  Code and what was seen."""
        pid, fd = pty.fork()
        if pid == 0:
            os.chdir(self.path)
            os.environ["TERM"] = "xterm"
            os.environ.pop("NO_COLOR", None)
            os.environ.update(env or {})
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execv(PROGRAM, [PROGRAM, *args])
        seen, start, typed = b"", time.monotonic(), False
        while time.monotonic() < start + DEADLINE_SECONDS:
            if not typed and when(seen.decode("utf-8", "ignore")):
                os.write(fd, answer)
                typed = True
            if select.select([fd], [], [], 0.05)[0]:
                try:
                    piece = os.read(fd, 65536)
                except OSError:
                    break
                if not piece:
                    break
                seen += piece
        status = os.waitpid(pid, 0)[1]
        os.close(fd)
        return os.waitstatus_to_exitcode(status), seen.decode()

    def send(self, *args):
        return self.ok("send", *args).out.strip()

    def message(self, id):
        found = self.ok("show", id, "--json").json()
        assert len(found) == 1, found
        return found[0]

    def start(self, *args):
        daemon = subprocess.Popen([PROGRAM, "run", *args], cwd=self.path, stdout=subprocess.PIPE,
                                  stderr=open(os.path.join(self.path, "log"), "wb"))
        self.daemons.append(daemon)
        return daemon

    def stop(self, daemon):
        daemon.send_signal(signal.SIGTERM)
        out = daemon.communicate(timeout=DEADLINE_SECONDS)[0].decode()
        log = open(os.path.join(self.path, "log")).read()
        assert daemon.returncode == 0, f"run ended with {daemon.returncode}: {log}"
        return out, log

    def close(self):
        for daemon in self.daemons:
            if daemon.poll() is None:
                daemon.kill()
                daemon.communicate()


def wait_for(condition, what):
    until = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < until:
        result = condition()
        if result:
            return result
        time.sleep(0.02)  # between two looks; the condition decides
    raise AssertionError(f"in {DEADLINE_SECONDS} s: not {what}")


def has(text, *parts):
    for part in parts:
        assert part in text, f"no {part!r} in:\n{text}"


TESTS = []


def test(function):
    TESTS.append(function)
    return function


# ---- Help, typos, usage ----

@test
def help_of_every_command_starts_with_examples(p):
    words = p.ok("--help").out
    has(words, "Examples:", "Exit codes: 0 done")
    names = [line[2:].split("  ")[0].split(" [")[0].split(" ID")[0].split(" ENDPOINT")[0].strip()
             for line in words.split("Commands:\n")[1].split("\n\nEvery")[0].splitlines()]
    assert len(names) >= 23, names
    for name in ["init", "run", "send", "status", "list", "show", "why", "retry", "release", "park", "discard", "dead list",
                 "dead show", "dead replay", "dead discard", "dead add", "demo", "bench", "doctor", "config check",
                 "config show", "config init", "config reference", "endpoints list", "endpoints test", "pause", "resume", "policy check",
                 "policy explain", "policy replay"]:
        assert name in names, (name, names)
        text = p.ok(*name.split(), "--help").out
        assert text.startswith("Examples:\n  "), text
        has(text, f"postrider {name}", "--config FILE", "--store URL", "--json", "--help")
        assert p.ok("help", *name.split()).out == text
        assert max(len(line) for line in text.splitlines()) < 140
    for name in ("events", "schedules", "endpoints"):  # a command by itself, and the first word of others
        lines = [line for line in words.splitlines() if line.startswith(f"  {name} ")]
        assert len(lines) > 2, lines
        has(p.ok(name, "--help").out, "\nCommands:\n" + "\n".join(lines))
    for name in ("dead", "config", "policy"):
        text = p.ok(name, "--help").out
        assert text.startswith("Examples:\n  ") and p.ok("help", name).out == text, text
        has(text, *[f"  {full} " for full in names if full.startswith(name + " ")])


@test
def list_says_how_long_a_delayed_message_waits_in_two_units(p):  # two hours less a moment are not "1h"
    p.ok("init")
    p.send("--type", "reminder", "--due", "2h")
    assert re.search(r"in 1h 59m|in 2h", p.ok("list").out), p.ok("list").out


@test
def no_events_are_said_in_words(p):
    p.ok("init")
    has(p.ok("events").err, "no event is stored yet: add --event and --stream")
    p.ok("send", "--type", "order.placed", "--stream", "order-7", "--event")
    has(p.ok("events", "--stream", "order-8").err, 'stream "order-8" has no events')
    has(p.ok("events", "--after", "1").err, "no events after 1")
    for wrong in "-1", "x", "outbox:1":
        has(p.fails(2, "events", "list", "--after=" + wrong).err, "is not a place")


@test
def why_of_a_dead_letter_without_a_type_suggests_only_what_helps(p):
    p.write("postrider.yaml", "sources:\n  - {file: \"file:in.jsonl\"}\nroutes:\n  - {box: inbox, to: out}\nendpoints:\n  out: {url: console}\n")
    p.write("in.jsonl", "no json\n")
    p.ok("init")
    daemon = p.start()
    dead = wait_for(lambda: p.ok("dead", "list", "--json").json(), "dead")
    words = p.ok("why", dead[0]["id"]).out
    has(words, ": no type, was in inbox", "postrider dead edit %s --type TYPE" % dead[0]["id"], "postrider dead discard ")
    assert "dead replay" not in words, words
    has(p.fails(2, "dead", "edit", dead[0]["id"]).err, "--type")
    made = p.ok("dead", "edit", dead[0]["id"], "--type", "line.read").out.strip()
    wait_for(lambda: "delivered" in p.ok("why", made).out, "delivered")
    assert "dead edit" not in p.ok("why", dead[0]["id"]).out
    p.stop(daemon)


@test
def the_argument_that_is_missing_is_named(p):
    has(p.fails(2, "flow", "start").err, "missing argument NAME\n")
    has(p.fails(2, "flow", "raise").err, "missing argument ID\n")
    has(p.fails(2, "flow", "raise", "order-7").err, "missing argument EVENT\n")
    has(p.fails(2, "dead", "note").err, "missing argument TEXT\n")
    has(p.fails(2, "why").err, "missing argument ID\n")


@test
def a_typo_gets_a_suggestion(p):
    has(p.fails(2, "stauts").err, 'unknown command "stauts"; did you mean status?')
    has(p.fails(2, "dead", "lits").err, 'unknown command "dead lits"; did you mean dead list?')
    has(p.fails(2, "daed", "list").err, "did you mean dead")
    has(p.fails(2, "replay", "x").err, 'unknown command "replay"; did you mean:\n  postrider dead replay [ID...]\n',
        "  postrider policy replay\n")
    has(p.fails(2, "list", "--stat", "ready").err, "unknown option --stat; did you mean --state?")
    has(p.fails(2, "list", "--jsno").err, "unknown option --jsno; did you mean --json?")
    has(p.fails(2, "endpoints", "tset", "x").err, 'unknown command "endpoints tset"; did you mean endpoints test?')
    # There is no store here: what is wrong with the command line is said first.
    has(p.fails(2, "list", "--state", "redy").err, '--state: unknown value "redy"; did you mean ready?')
    has(p.fails(2, "list", "--reason", "timeout").err, '--reason: unknown value "timeout"; use one of', "timeout_exceeded")
    has(p.fails(2, "dead", "replay", "--reason", "rejectd", "--yes").err, "did you mean rejected?")
    p.ok("init")
    has(p.fails(4, "send", "--type", "x", "--box", "outbx").err, 'unknown box "outbx"; did you mean outbox?')
    has(p.fails(4, "retry", "--box", "outbx", "--yes").err, "did you mean outbox?")
    p.write("c.yaml", "endpoints: {billing: {url: console}}\n")
    has(p.fails(4, "pause", "biling", "-c", "c.yaml").err, 'no endpoint "biling"; did you mean billing?')
    has(p.fails(4, "pause", "xyzzy", "-c", "c.yaml").err, "postrider endpoints lists all of them")


@test
def usage_faults_are_code_2(p):
    p.ok("init")
    p.fails(2)
    p.fails(2, "xyzzy")
    p.fails(2, "dead")
    p.fails(2, "show")
    p.fails(2, "show", "not-an-id")
    p.fails(2, "show", UNKNOWN_ID, UNKNOWN_ID)
    p.fails(2, "send", "--data", "x")
    p.fails(2, "send", "--type")
    p.fails(2, "send", "--type", "a", "--type", "b")
    p.fails(2, "send", "--type", "a", "--data", "x", "--file", "y")
    p.fails(2, "send", "--type", "a", "--header", "x")
    has(p.fails(2, "send", "--type", "a", "--header", "two words=x").err, "a name consists of letters")
    has(p.fails(2, "send", "--type", "a", "--header", "x=\udcff").err, "--header x: the value is not UTF-8")
    has(p.fails(2, "send", "--type", "a", "--header", "k=1", "--header", "K=2").err, "--header K was given twice")
    p.fails(2, "send", "--type", "a", "--due", "soon")
    p.fails(2, "send", "--type", "a", "--id", "7")
    p.fails(2, "send", "--type", "", "--data", "x")
    p.fails(2, "list", "--json=yes")
    p.fails(2, "list", "--since", "yesterday")
    p.fails(2, "list", "--limit", "-1")
    p.fails(2, "list", "--after", "5")
    p.fails(2, "list", "--after", "outbox:")
    p.fails(2, "list", "--after", "outbox:5", "--box", "inbox")
    p.fails(2, "park", "--type", "a", "--after", "outbox:5")
    p.fails(2, "retry")
    p.fails(2, "dead", "add", UNKNOWN_ID)
    p.fails(2, "status", "--store", "nonsense")
    p.fails(2, "status", "--store", "sqlite:postrider.db?busy=long")
    p.fails(3, "status", env={"POSTRIDER_STORE": "sqlite:postrider.db?busy=long"})
    p.fails(2, "bench", "--count", "none")
    assert p.run("send", "--data", "x").out == "", "words are not data"


@test
def version_is_told(p):
    assert re.match(r"postrider \d+\.\d+\.\d+\n$", p.ok("--version").out)


# ---- Store and config ----

@test
def without_tables_there_is_advice_and_code_5(p):
    for command in (["list"], ["status"], ["send", "--type", "x"], ["why", UNKNOWN_ID], ["retry", UNKNOWN_ID]):
        has(p.fails(5, *command).err, "postrider init")
    assert not os.path.exists(os.path.join(p.path, "postrider.db")), "asking must not make the file"
    status = p.fails(5, "status", "--json").json()[0]
    assert status["health"] == "error" and status["checks"][0]["state"] == "error"


@test
def what_is_no_database_is_code_5(p):
    p.write("postrider.db", "this is no database, it only looks like a file\n" * 100)
    assert p.fails(5, "list").err.startswith("postrider: ")
    p.fails(5, "init")
    p.fails(7, "doctor")


@test
def init_is_safe_to_run_twice(p):
    has(p.ok("init").out, "postrider.db is ready: schema")
    id = p.send("--type", "a")
    p.ok("init")
    assert p.message(id)["state"] == "ready"
    has(p.fails(1, "init", "--grants").err, "SQLite has no roles")


@test
def a_schema_from_the_future_is_refused(p):
    p.ok("init")
    p.sql("UPDATE postrider_meta SET value = '9999' WHERE key LIKE 'schema%'")
    for command in (["list"], ["init"], ["send", "--type", "x"]):
        has(p.fails(5, *command).err, "9999", "upgrade Postrider")


@test
def config_faults_are_code_3_with_file_line_and_column(p):  # B203
    p.write("postrider.yaml", "endpoints:\n  a:\n    url: 'null:'\n    timeuot: 5s\n")
    for command in (["config", "check"], ["run"], ["list"], ["send", "--type", "x"], ["doctor"]):
        has(p.fails(3, *command).err,
            "postrider.yaml:4:5: endpoints.a.timeuot: unknown key; did you mean timeout?")
    has(p.fails(3, "config", "check", "none.yaml").err, "none.yaml: No such file or directory")
    has(p.fails(3, "list", "-c", "none.yaml").err, "none.yaml: No such file or directory")
    os.unlink(os.path.join(p.path, "postrider.yaml"))
    has(p.fails(3, "run").err, "no configuration")


@test
def config_init_writes_what_config_check_accepts(p):
    has(p.ok("config", "init").out, "postrider.yaml")
    has(p.ok("config", "check").out, "postrider.yaml is valid: 1 endpoint, 1 route, 4 boxes")
    has(p.fails(1, "config", "init").err, "--force")
    assert os.stat(os.path.join(p.path, "postrider.yaml")).st_mode & 0o777 == 0o600  # B204
    p.ok("config", "init", "--force")
    assert p.ok("config", "init", "-").out == open(os.path.join(p.path, "postrider.yaml")).read()
    assert p.ok("config", "check", "--json").json()[0]["ok"] is True


@test
def endpoints_test_sends_one_message_past_the_store(p):
    p.write("c.yaml", """
store: sqlite:nowhere/box.db
endpoints:
  audit: {url: 'file:audit.jsonl'}
  no: {url: "exec:sh -c 'echo not today >&2; exit 75'"}
  slow: {url: exec:sleep 60, timeout: 100ms}
  ours: {url: 'handler:x'}
""")
    has(p.ok("endpoints", "test", "audit", "-c", "c.yaml").out, "audit accepted the test message", "(type postrider.test)")
    with open(os.path.join(p.path, "audit.jsonl")) as f:
        event = json.loads(f.read())
    assert event["type"] == "postrider.test" and json.loads(event["postriderheaders"]) == {"postrider-test": "true"}
    has(p.fails(1, "endpoints", "test", "no", "-c", "c.yaml").out,
        "no did not accept the test message: dependency_failure (75): the program reported 75 (temporary failure): not today")
    told = p.fails(1, "endpoints", "test", "slow", "--json", "-c", "c.yaml").json()[0]
    assert told["outcome"] == "unknown" and told["reason"] == "timeout_exceeded" and told["class"] == "transient"
    assert told["took_ms"] >= 100 and told["endpoint"] == "slow"
    has(p.ok("endpoints", "test", "audit", "-c", "c.yaml").err, "nowhere/box.db", "not in the audit log")
    has(p.fails(4, "endpoints", "test", "audt", "-c", "c.yaml").err, "did you mean audit?")
    has(p.fails(1, "endpoints", "test", "ours", "-c", "c.yaml").err, "a function of another program")
    p.fails(2, "endpoints", "test", "-c", "c.yaml")


@test
def a_reader_who_has_seen_enough_is_no_failure(p):
    whole = p.ok("config", "reference").out
    assert len(whole) > 8192  # more than is kept back until the end
    out, into = os.pipe()
    os.close(out)
    done = subprocess.run([PROGRAM, "config", "reference"], stdout=into, stderr=subprocess.PIPE, timeout=DEADLINE_SECONDS)
    os.close(into)
    assert (done.returncode, done.stderr) == (0, b""), done
    with open("/dev/full", "wb") as full:
        done = subprocess.run([PROGRAM, "config", "reference"], stdout=full, stderr=subprocess.PIPE, timeout=DEADLINE_SECONDS)
    assert done.returncode == 1 and done.stderr == b"postrider: cannot write the output: No space left on device\n", done

    out, into = os.pipe()  # one that is full at once, and does not block
    room = fcntl.fcntl(into, fcntl.F_SETPIPE_SZ if hasattr(fcntl, "F_SETPIPE_SZ") else 1031, 4096)
    os.set_blocking(into, False)
    writer = subprocess.Popen([PROGRAM, "config", "reference"], stdout=into, stderr=subprocess.PIPE)
    os.close(into)
    wait_for(lambda: struct.unpack("i", fcntl.ioctl(out, termios.FIONREAD, b"\0" * 4))[0] == room, "full")
    with open(out, "rb") as reader:
        assert reader.read().decode() == whole
    assert (writer.wait(DEADLINE_SECONDS), writer.stderr.read()) == (0, b"")
    writer.stderr.close()


@test
def config_show_has_no_secrets_and_says_where_values_come_from(p):  # B204
    p.write("key", "hunter2\n")
    p.write("c.yaml", "endpoints:\n  hook: {url: 'https://u:${file:key}@h.example/x'}\n")
    shown = p.ok("config", "show", "c.yaml", env={"POSTRIDER_LIMITS__PAYLOAD": "2MiB"}).out
    assert "hunter2" not in shown
    has(shown, "url: https://***@h.example/x", "payload: 2MiB", "# POSTRIDER_LIMITS__PAYLOAD", "# default", "# line 2")
    has(p.ok("config", "show", "-c", "c.yaml", "--store", "sqlite:z.db").out, "store: sqlite:z.db", "# --store")
    data = p.ok("config", "show", "c.yaml", "--json").json()[0]
    assert data["endpoints"]["hook"]["url"] == "https://***@h.example/x" and data["batch"] == 1000, data
    assert data["limits"]["payload"] == "1MiB" and data["boxes"]["outbox"] == {"kind": "outbox", "table": "", "keep": "0s", "dedupe": "none"}, data
    assert data["boxes"]["inbox"]["kind"] == "inbox", data


@test
def a_password_on_the_command_line_is_refused(p):  # B204
    for url in ("postgres://ann:hunter2@127.0.0.1:1/shop", "postgres://127.0.0.1:1/shop?password=hunter2"):
        err = p.fails(2, "list", "--store", url).err
        has(err, "--store", "POSTRIDER_STORE", "${file:", "PGPASSFILE")
        assert "hunter2" not in err, err
        assert "hunter2" not in p.fails(5, "list", env={"POSTRIDER_STORE": url}).err
    for wrong in ("postgres://ann:hunter2%@127.0.0.1:1/shop", "postgres://ann:a@hunter2@127.0.0.1:1/shop"):
        assert "hunter2" not in p.fails(3, "list", env={"POSTRIDER_STORE": wrong}).err


@test
def secrets_that_everybody_can_read_are_told_and_programs_do_not_get_them(p):  # B204, B206
    p.write("key", "hunter2\n")
    os.chmod(os.path.join(p.path, "key"), 0o644)
    p.write("c.yaml", "instance: ${SECRET_NAME}\nendpoints:\n  a: {url: \"exec:sh -c 'env > env.txt'\"}\n  b: {url: 'https://u:${file:key}@h.example/'}\n")
    env = {"SECRET_NAME": "hunter3", "OTHER_NAME": "seen", "PGPASSWORD": "hunter4"}
    has(p.ok("config", "check", "c.yaml", env=env).err, "key; run chmod 0600")
    os.chmod(os.path.join(p.path, "key"), 0o600)
    assert "chmod" not in p.ok("config", "check", "c.yaml", env=env).err
    p.ok("endpoints", "test", "a", "-c", "c.yaml", env=env)
    seen = open(os.path.join(p.path, "env.txt")).read()
    assert "OTHER_NAME=seen" in seen and "hunter" not in seen, seen


@test
def standard_descriptors_that_are_closed_become_dev_null(p):  # B206
    p.ok("init")
    before = open(os.path.join(p.path, "postrider.db"), "rb").read()[:16]
    subprocess.run(["bash", "-c", 'exec "$0" send --type x <&- >&- 2>&-', PROGRAM], cwd=p.path, timeout=DEADLINE_SECONDS, check=True)
    assert open(os.path.join(p.path, "postrider.db"), "rb").read()[:16] == before == b"SQLite format 3\0"
    assert len(p.ok("list", "--json").json()) == 1
    assert all(os.stat(os.path.join(p.path, f)).st_mode & 0o007 == 0 for f in os.listdir(p.path) if f.endswith(".lock"))


@test
def flag_is_stronger_than_environment_than_file(p):
    p.write("postrider.yaml", "store: sqlite:file.db\n")
    p.ok("init")
    p.ok("init", env={"POSTRIDER_STORE": "sqlite:env.db"})
    p.ok("init", "--store", "sqlite:flag.db", env={"POSTRIDER_STORE": "sqlite:env.db"})
    assert {"file.db", "env.db", "flag.db"} <= set(os.listdir(p.path))


@test
def a_box_cannot_have_the_name_of_another_table(p):
    for name in ("messages", "Dead_Letter", "sqlite_x", "in_flight"):
        p.write("postrider.yaml", f"boxes:\n  {name}: {{}}\n")
        has(p.fails(3, "config", "check").err, "postrider.yaml:2:3: boxes:", name, "not a name that Postrider uses")


@test
def a_box_has_another_table_where_the_application_has_its_name(p):  # D14
    db = sqlite3.connect(os.path.join(p.path, "postrider.db"), isolation_level=None, timeout=DEADLINE_SECONDS)
    db.execute("CREATE TABLE outbox (mine TEXT)")
    p.write("postrider.yaml", DAEMON_CONFIG)
    has(p.fails(5, "init").err,
        'postrider.db already has a table "outbox" that Postrider did not create; name another with boxes.outbox.table')
    for wrong in ("postrider_x", "a b", "inbox", "messages"):
        p.write("postrider.yaml", DAEMON_CONFIG + f"boxes: {{outbox: {{table: '{wrong}'}}}}\n")
        has(p.fails(3, "config", "check").err, "boxes.outbox.table", wrong)
    with_table = DAEMON_CONFIG + "boxes: {outbox: {table: shop_outbox}, audit_trail: {table: Shop_Audit}}\n"
    p.write("postrider.yaml", with_table)
    p.ok("init")
    has(p.ok("config", "show").out, "shop_outbox")
    p.write("postrider.yaml", with_table.replace("shop_outbox", "other"))
    for code, command in (5, "init"), (3, "run"):
        has(p.fails(code, command).err, 'boxes.outbox.table is "other"', '"shop_outbox"', "set it back")
    os.unlink(os.path.join(p.path, "postrider.yaml"))  # the name of the box is all that a command needs

    id = p.send("--type", "order.created", "--data", "by-command")
    p.send("--type", "audited", "--box", "audit_trail")
    db.execute("INSERT INTO shop_outbox (type, payload) VALUES ('order.created', 'by-insert')")
    assert [m["box"] for m in p.ok("list", "--json").json()] == ["audit_trail", "outbox", "outbox"]
    p.ok("dead", "add", id, "--why", "moved")
    letters = p.ok("dead", "export").out
    p.ok("dead", "discard", id)
    p.write("letters", letters)
    p.ok("dead", "import", "letters")
    p.ok("dead", "replay", id)
    has(p.ok("why", id).out, "ready")
    assert db.execute("SELECT count(*) FROM postrider_messages WHERE box = 'outbox'").fetchone() == (2,)
    p.ok("doctor")

    p.write("postrider.yaml", with_table)
    daemon = p.start()
    wait_for(lambda: db.execute("SELECT count(*) FROM shop_outbox").fetchone() == (0,), "delivered")
    db.execute("INSERT INTO shop_outbox (type, destination) VALUES ('repaired', 'slow')")  # B19
    wait_for(lambda: [m for m in p.ok("list", "--json", "--state", "retrying").json()], "it has failed")
    db.execute("UPDATE shop_outbox SET payload = 'by-hand', due_at = NULL, destination = 'screen'")
    wait_for(lambda: db.execute("SELECT count(*) FROM shop_outbox").fetchone() == (0,), "taken up")
    out, log = p.stop(daemon)
    has(out, "by-command", "by-insert", "by-hand")
    assert db.execute("SELECT count(*) FROM outbox").fetchone() == (0,)


# ---- Sending ----

@test
def send_prints_the_id_and_list_shows_it(p):
    p.ok("init")
    id = p.send("--type", "order.created", "--stream", "o-1", "--to", "billing", "--data", '{"a":1}', "--header", "k=v",
                "--header", 'q="', "--source", "shop", "--subject", "s", "--content-type", "application/json")
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", id), id
    listed = p.ok("list", "--json").json()
    assert len(listed) == 1
    m = listed[0]
    for key in ("id box seq state type stream destination source subject content_type headers payload created_at due_at "
                "expires_at status attempts failures reason code error story").split():
        assert key in m, key
    assert m["id"] == id and m["box"] == "outbox" and m["state"] == "ready" and m["type"] == "order.created"
    assert m["stream"] == "o-1" and m["destination"] == "billing" and m["payload"] == '{"a":1}'
    assert m["headers"] == {"k": "v", "q": '"'} and m["source"] == "shop" and m["subject"] == "s"
    assert m["content_type"] == "application/json" and m["status"] == 1 and m["attempts"] == 0 and m["story"] == []
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", m["created_at"]), m["created_at"]
    has(p.ok("list").out, id, "ready", "order.created", "o-1", "billing")
    has(p.ok("show", id).out, id, '{"a":1}')
    assert p.ok("send", "--type", "x", "--json").json()[0]["duplicate"] is False


@test
def every_byte_can_be_sent(p):  # B4
    p.ok("init")
    data = bytes(range(256))
    p.write("data", data)
    a = p.send("--type", "bytes", "--file", "data")
    b = p.ok("send", "--type", "bytes", "-", stdin=data).out.strip()
    for id in (a, b):
        m = p.message(id)
        assert "payload" not in m and base64.b64decode(m["payload_base64"]) == data
    assert "\x1b" not in p.ok("show", a).out
    assert p.message(p.send("--type", "none"))["payload"] == ""


@test
def what_others_wrote_cannot_steer_the_terminal(p):
    p.ok("init")
    id = UNKNOWN_ID  # by a plain INSERT: `send` refuses such a type
    p.sql("INSERT INTO outbox (id, type, stream, payload) VALUES (?, ?, ?, ?)",
          (id, "a\x1b[31mb", "x\x07y", b"\x1b]0;title\x07 text"))
    for command in (["list"], ["show", id], ["why", id]):
        out = p.ok(*command).out
        assert "\x1b" not in out and "\x07" not in out, command


@test
def commands_that_are_suggested_are_safe_to_paste(p):  # B206
    p.ok("init")
    for n, name in enumerate(("$(touch pwned)", "it's `touch pwned`", "; touch pwned #", "--yes", "a\u202eb\n$(touch pwned)", "x\x9b31m")):
        id = UNKNOWN_ID[:-1] + str(n)
        p.sql("INSERT INTO outbox (id, type, stream, destination, headers, payload) VALUES (?, ?, ?, ?, ?, 'x')",
              (id, "t" + name, "s" + name, name, '{"h": "\u202e\x9b"}'))
        p.ok("pause", "--", name)
        found = p.ok("why", id, "--json").json()[0]["commands"]
        resume = [c["command"] for c in found if c["command"].startswith("postrider resume")]
        assert len(resume) == 1, found
        for text in (p.ok("why", id).out, p.ok("status").out, p.ok("list", "--json").out, p.ok("doctor", "--json").out):
            assert not set(text) & {"\x9b", "\u202e", "\x1b"}, text
        assert resume[0] in p.ok("status").out or "\n" in name or "\x9b" in name
        done = subprocess.run(["bash", "-c", resume[0].replace("postrider", PROGRAM, 1)], cwd=p.path, capture_output=True, timeout=DEADLINE_SECONDS)
        assert done.returncode == 0, (resume, done.stderr)
        assert not any(e["name"] == name and e["state"] == "paused" for e in p.ok("endpoints", "list", "--json").json())
    assert "pwned" not in os.listdir(p.path)


def words_of(command):
    """The arguments that a shell makes of a command, if it runs nothing else."""
    done = subprocess.run(["bash", "-c", "postrider() { printf '%s\\0' \"$@\"; }\n" + command], capture_output=True, timeout=DEADLINE_SECONDS)
    assert done.returncode == 0 and not done.stderr, (command, done)
    return done.stdout.decode().split("\0")[:-1]


@test
def names_in_commands_of_why_and_of_the_api_are_one_word_each(p):  # B206
    """Of a message that has two parts, commands name the destination; those about a schedule name its stream."""
    hostile = ("$(touch pwned)", "it's `touch pwned` \"$(touch pwned)\"", "; touch pwned #", "--yes", "a\n$(touch pwned)")
    p.write("postrider.yaml", "store: sqlite:postrider.db\nhttp: {listen: '127.0.0.1:0'}\nboxes: {inbox: {}}\n")
    p.ok("init")
    ids = {}
    for n, name in enumerate(hostile):
        parts, schedule = UNKNOWN_ID[:-2] + "1%d" % n, UNKNOWN_ID[:-2] + "2%d" % n
        for destination in (name, "other"):
            p.sql("INSERT INTO inbox (id, type, stream, destination, due_at) VALUES (?, 't', ?, ?, 9223372036854775807)", (parts, name, destination))
        p.sql("INSERT INTO inbox (id, type, stream, destination, payload, due_at) VALUES (?, 'schedule', ?, 'schedule:', '{}', 9223372036854775807)",
              (schedule, name))
        ids[parts], ids[schedule] = name, name
    daemon = p.start()
    os.set_blocking(daemon.stdout.fileno(), True)
    port = int(daemon.stdout.readline().split()[1])
    for id, name in ids.items():
        page = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/messages/{id}", timeout=DEADLINE_SECONDS))
        answers = p.ok("why", id, "--json").json() + page["deliveries"]
        found = [c["command"] for answer in answers for c in answer["commands"]]
        named = [words for words in map(words_of, found) if name in words]
        assert len(found) >= 8 and (len(named) >= 4 if id[-2] == "1" else len(named) == len(found)), (name, found)
    assert "pwned" not in os.listdir(p.path) and "pwned" not in os.listdir(".")
    p.stop(daemon)


@test
def the_same_id_again_is_a_duplicate(p):  # B2
    p.ok("init")
    p.send("--type", "a", "--id", UNKNOWN_ID, "--data", "first")
    again = p.ok("send", "--type", "a", "--id", UNKNOWN_ID, "--data", "second")
    assert again.out.strip() == UNKNOWN_ID
    has(again.err, "duplicate")
    assert p.ok("send", "--type", "a", "--id", UNKNOWN_ID, "--json").json()[0]["duplicate"] is True
    assert p.message(UNKNOWN_ID)["payload"] == "first"


@test
def bad_input_changes_nothing_and_says_what_to_do(p):
    p.ok("init")
    p.write("c.yaml", "limits: {payload: 100B}\nendpoints: {orders: {url: 'null:'}}\n")
    p.write("big", "x" * 101)
    has(p.fails(1, "send", "-c", "c.yaml", "--type", "a", "--file", "big").err, "larger than 100 bytes", "limits.payload")
    p.fails(1, "send", "-c", "c.yaml", "--type", "a", "--data", "x" * 101)
    p.fails(1, "send", "-c", "c.yaml", "--type", "a", "-", stdin=b"x" * 101)
    has(p.fails(1, "send", "--type", "a", "--file", "missing").err, "cannot read missing: No such file or directory")
    has(p.fails(1, "send", "--type", "a", "--file", ".").err, "cannot read .: Is a directory")
    has(p.fails(4, "send", "-c", "c.yaml", "--type", "a", "--to", "ordres").err, 'no endpoint "ordres"; did you mean orders?')
    has(p.fails(1, "send", "--type", "t" * 300).err, "the limit is 255")
    assert p.ok("list", "--json").out == ""
    p.ok("send", "-c", "c.yaml", "--type", "a", "--data", "x" * 100, "--to", "orders")


@test
def what_is_no_box_takes_no_message(p):
    p.ok("init")
    for name in ("nobox", "dead_letter", "done", "meta", "messages"):
        sent = p.fails(4, "send", "--type", "x", "--box", name, "--data", "1")
        has(sent.err, f'unknown box "{name}"', "under boxes:")
        assert sent.out == "" and "duplicate" not in sent.err


@test
def a_delayed_message_is_delayed(p):
    p.ok("init")
    id = p.send("--type", "later", "--due", "5m", "--expires", "1h")
    m = p.message(id)
    assert m["state"] == "delayed" and m["due_at"] > m["created_at"] and m["expires_at"] > m["due_at"]
    has(p.ok("why", id).out, "its sender scheduled it for", "What happened", "What comes next", f"postrider retry {id}")


@test
def filters_find_what_they_say(p):
    p.ok("init")
    a = p.send("--type", "order.created", "--stream", "s1", "--to", "x")
    b = p.send("--type", "order.paid", "--stream", "s2", "--to", "y")
    c = p.send("--type", "invoice", "--due", "1h")
    d = p.send("--type", "order.in", "--box", "inbox")

    def ids(*filters):
        return [m["id"] for m in p.ok("list", "--json", *filters).json()]

    assert set(ids()) == {a, b, c, d}
    assert set(ids("--type", "order.*", "--box", "outbox")) == {a, b}
    assert ids("--stream", "s2") == [b]
    assert ids("--endpoint", "x") == [a]
    assert ids("--state", "delayed") == [c]
    assert ids("--box", "inbox") == [d]
    assert ids("--since", "1h", "--type", "invoice") == [c]
    assert ids("--until", "1h") == []
    assert ids("--reason", "timeout_exceeded") == []
    first = p.ok("list", "--json", "--box", "outbox", "--limit", "2").json()
    assert [m["id"] for m in first] == [a, b]
    assert ids("--box", "outbox", "--after", str(first[-1]["row"])) == [c]
    has(p.ok("list", "--limit", "1", "--box", "outbox").err, "more exist")
    assert ids("--after", "inbox:%d" % p.ok("list", "--json", "--box", "inbox").json()[0]["row"]) == [a, b, c]


# ---- Changing ----

@test
def park_retry_discard_by_id(p):
    p.ok("init")
    id = p.send("--type", "a", "--stream", "s")
    assert p.ok("park", id, "--why", "to see").out == "1 parked\n"
    assert p.message(id)["state"] == "parked" and p.message(id)["due_at"] is None
    has(p.ok("why", id).out, "It is parked: nothing happens until you retry or discard it.", f"postrider retry {id}")
    p.sql("UPDATE outbox SET created_at = created_at - 7200000000")
    words = p.ok("why", id).out
    assert re.search(r"parked for [\d.]+m?s\.\n", words), words  # since it was parked, not since it was stored
    assert p.ok("retry", id).out == "1 retried\n"
    assert p.message(id)["state"] == "ready"
    reply = p.ok("discard", id, "--json").json()[0]
    assert reply["changed"] == 1 and reply["missing"] == 0 and reply["dry_run"] is False
    p.fails(4, "show", id)
    for command in (("list",), ("dead", "list"), ("dead", "groups"), ("streams",), ("dead", "discard", "--yes"), ("retry", "--yes")):
        has(p.fails(4, *command, "--box", "outbux").err, 'unknown box "outbux"; did you mean outbox?')


@test
def ids_that_are_nowhere_are_code_4_and_some_of_them_code_6(p):
    p.ok("init")
    id = p.send("--type", "a")
    for command in ("retry", "park", "discard", "release"):
        p.fails(4, command, UNKNOWN_ID)
    for command in (["dead", "replay"], ["dead", "discard"], ["dead", "add", "--why", "x"]):
        p.fails(4, *command, UNKNOWN_ID)
    p.fails(4, "show", UNKNOWN_ID)
    p.fails(4, "why", UNKNOWN_ID)
    both = p.fails(6, "park", id, UNKNOWN_ID)
    assert both.out == "1 parked\n"
    has(both.err, "1 of the ids was not found")


@test
def filters_want_yes_or_a_terminal(p):
    p.ok("init")
    ids = [p.send("--type", "test.a") for _ in range(3)] + [p.send("--type", "real")]
    has(p.fails(2, "discard", "--type", "test.*").err, "--dry-run", "--yes")
    assert p.ok("discard", "--type", "test.*", "--dry-run").out == "3 would be discarded\n"
    assert len(p.ok("list", "--json").json()) == 4
    assert p.ok("discard", "--type", "test.*", "--yes").out == "3 discarded\n"
    assert [m["id"] for m in p.ok("list", "--json").json()] == ids[3:]
    assert p.ok("discard", "--type", "test.*", "--yes").out == "0 discarded\n"
    p.fails(2, "discard", ids[3], "--type", "real", "--yes")


@test
def a_person_at_a_terminal_is_asked(p):
    p.ok("init")
    id = p.send("--type", "test.a")
    asked = lambda seen: "[y/N]" in seen
    code, seen = p.terminal("discard", "--type", "test.*", answer=b"n\n", when=asked)
    assert code == 1, seen
    has(seen, "Discard 1 message? [y/N]", "nothing was changed")
    assert p.message(id)["state"] == "ready"
    code, seen = p.terminal("discard", "--type", "test.*", answer=b"y\n", when=asked)
    assert code == 0, seen
    has(seen, "1 discarded")
    p.fails(4, "show", id)


@test
def colours_are_for_terminals_only(p):
    p.ok("init")
    p.ok("park", p.send("--type", "a"))
    assert "\x1b[" not in p.ok("list").out
    assert "\x1b[33m" in p.terminal("list")[1]
    assert "\x1b[" not in p.terminal("list", env={"NO_COLOR": "1"})[1]


@test
def a_person_can_make_a_message_dead_and_replay_it(p):  # B88
    p.ok("init")
    id = p.send("--type", "a", "--stream", "s", "--data", "body", "--due", "1h")
    has(p.ok("show", id).out, "\ndue ")
    assert p.ok("dead", "add", id, "--why", "wrong amount").out == "1 dead\n"
    dead = p.ok("dead", "list", "--json").json()
    assert [m["id"] for m in dead] == [id] and dead[0]["state"] == "dead" and dead[0]["payload"] == "body"
    assert dead[0]["cause"] == "rejected"
    assert [m["id"] for m in p.ok("dead", "list", "--error", "wrong", "--json").json()] == [id]
    has(p.ok("dead", "list").out, id)
    has(p.ok("dead", "groups").out, "wrong amount")
    shown = p.ok("dead", "show", id)
    has(shown.out, "wrong amount")
    assert not re.search(r"^due\b", shown.out, re.M), shown.out  # nothing is
    words = p.ok("why", id).out
    has(words, "It died", "wrong amount", f"postrider dead replay {id}")
    status = p.ok("status", "--json").json()[0]
    assert status["health"] == "warn" and [c for c in status["checks"] if c["name"] == "dead" and c["state"] == "warn"]
    assert p.ok("dead", "replay", "--type", "a", "--dry-run").out == "1 would be replayed\n"
    assert p.ok("dead", "replay", id).out == "1 replayed\n"
    assert p.message(id)["state"] == "ready"
    has(p.fails(4, "dead", "show", id).err, "is not dead: it is ready")
    p.ok("dead", "add", id, "--why", "again")
    assert p.ok("dead", "discard", id).out == "1 discarded\n"
    p.fails(4, "show", id)


# ---- Status, doctor ----

@test
def a_box_that_nobody_uses_is_shown_only_when_something_is_in_it(p):
    def boxes():
        return [b["name"] for b in p.ok("status", "--json").json()[0]["boxes"]]

    p.ok("init")
    assert boxes() == ["outbox"]
    assert "inbox" not in p.ok("status").out
    p.write("used.yaml", "store: sqlite:postrider.db\nendpoints: {e: {url: 'null:'}}\nroutes: [{box: inbox, to: e}]\n")
    assert len(p.ok("status", "--json", "-c", "used.yaml").json()[0]["boxes"]) == 2
    p.send("--type", "a", "--box", "inbox")
    status = p.ok("status", "--json").json()[0]
    assert [b["name"] for b in status["boxes"]] == ["inbox", "outbox"], status
    has([c["advice"] for c in status["checks"] if c["name"] == "instance"][0], "does not use", "box: inbox")


@test
def flows_that_wait_without_their_program_are_said_to(p):
    p.ok("init")
    p.ok("flow", "start", "checkout", "order-7")
    advice = [c["advice"] for c in p.ok("status", "--json").json()[0]["checks"] if c["name"] == "instance"][0]
    has(advice, "turns", "start the one that registers them")
    assert "route" not in advice, advice
    has(p.fails(1, "flow", "wait", "order-7", "--for", "0s").err, "has not started", "postrider why order-7")
    has(p.fails(4, "flow", "wait", "order-8", "--for", "0s").err, "unknown flow")


@test
def status_is_right_without_a_daemon(p):
    p.ok("init")
    status = p.ok("status", "--json").json()[0]
    assert status["health"] == "ok" and status["instances"] == [] and status["endpoints"] == []
    assert [b["name"] for b in status["boxes"]] == ["outbox"], status
    p.send("--type", "a")
    p.send("--type", "b", "--due", "1h")
    status = p.ok("status", "--json").json()[0]
    box = [b for b in status["boxes"] if b["name"] == "outbox"][0]
    for key in "name ready in_flight delayed retrying held parked dead oldest_age_seconds".split():
        assert key in box, key
    assert box["ready"] == 1 and box["delayed"] == 1
    assert status["health"] == "warn"
    assert [c for c in status["checks"] if c["name"] == "instance" and "postrider run" in c["advice"]]
    has(p.ok("status").out, "health: warn", "2 messages wait in outbox but no instance is running", "BOX", "outbox")


@test
def status_has_no_endpoint_without_a_name(p):  # B201
    p.write("postrider.yaml", "endpoints: {idle: {url: console}}\n")
    p.ok("init")
    p.send("--type", "a")
    p.sql("INSERT INTO postrider_endpoint (name, dead) VALUES ('', 1)")  # what dies before it has an endpoint is counted so
    assert [e["name"] for e in p.ok("status", "--json").json()[0]["endpoints"]] == ["idle"]


@test
def a_source_of_http_says_where_it_listens(p):
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    p.write("postrider.yaml", "boxes: {inbox: {}}\nsources: [{http: 'http://127.0.0.1:%d/hooks/orders', box: inbox}]\n" % port)
    p.ok("init")
    daemon = p.start()
    line = "event=source_listens source=http:hooks/orders box=inbox address=127.0.0.1:%d path=/hooks/orders" % port
    wait_for(lambda: line in open(os.path.join(p.path, "log")).read(), line)
    p.stop(daemon)


@test
def status_has_every_endpoint_and_what_is_on_its_way(p):  # B201
    p.write("postrider.yaml", "stop_timeout: 0s\nendpoints:\n  slow: {url: 'exec:/bin/sleep 30'}\n  idle: {url: console}\n"
                              "routes: [{to: slow}]\n")
    p.ok("init")
    p.send("--type", "a")
    endpoints = {e["name"]: e for e in p.ok("status", "--json").json()[0]["endpoints"]}
    assert set(endpoints) == {"slow", "idle"}, endpoints
    for key in "name state until why sent failed in_flight".split():
        assert key in endpoints["idle"], key
    daemon = p.start()
    wait_for(lambda: [e for e in p.ok("status", "--json").json()[0]["endpoints"] if e["name"] == "slow" and e["in_flight"] == 1],
             "on its way to slow, which a route chose")
    p.stop(daemon)


@test
def doctor_looks_at_everything(p):
    p.ok("init")
    checks = {c["name"]: c for c in p.ok("doctor", "--json").json()[0]["checks"]}
    assert {"version", "config", "file", "disk", "store", "schema", "instances"} <= set(checks), checks
    has(p.ok("doctor").out, "SQLite", "schema")
    assert os.stat(os.path.join(p.path, "postrider.db")).st_mode & 0o007 == 0  # payloads are not for everybody
    os.chmod(os.path.join(p.path, "postrider.db"), 0o666)
    has(p.ok("doctor").out, "can be read and changed by every user")


@test
def a_lock_that_another_program_keeps_is_told(p):
    p.ok("init")
    db = sqlite3.connect(os.path.join(p.path, "postrider.db"), isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    status = p.ok("status", "--json").json()[0]
    assert status["health"] == "warn" and [c for c in status["checks"] if c["name"] == "locked" and "fuser" in c["advice"]], status
    has(p.ok("doctor").out, "another connection has held the write lock")
    db.execute("ROLLBACK")
    assert p.ok("status", "--json").json()[0]["health"] == "ok"


@test
def a_full_disk_is_told_with_what_became_of_the_message(p):
    p.ok("init")
    said = p.fails(5, "send", "--type", "t", env={"LD_PRELOAD": os.environ["FULL_DISK"], "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0"}).err
    has(said, "Disk full: this message was not stored. Free some space and send it again; stored messages are safe.")
    assert p.ok("list", "--json").json() == []
    p.send("--type", "t")


@test
def who_runs_it_as_root_is_warned(p):
    p.write("postrider.yaml", DAEMON_CONFIG)
    p.ok("init")
    log = p.stop(wait_for_start(p))[1]
    assert ("event=running_as_root" in log) == (os.geteuid() == 0), log
    if os.geteuid() == 0:
        has(log, "use a dedicated user")


# ---- With the daemon ----


def wait_for_start(p):
    daemon = p.start()
    wait_for(lambda: p.ok("instances", "--json").json(), "somebody delivers")
    return daemon


DAEMON_CONFIG = """
store: sqlite:postrider.db
poll: {min: 1ms, max: 20ms}
endpoints:
  screen: {url: "console:"}
  down:
    url: http://127.0.0.1:1/hook
    allow_networks: [127.0.0.0/8]
    retry: {base: 20ms, factor: 1, failures: 3, jitter: 0}
    breaker: off
  slow:
    url: http://127.0.0.1:1/hook
    allow_networks: [127.0.0.0/8]
    retry: {base: 1h, cap: 1h, failures: 3}
    breaker: off
routes:
  - {type: "order.*", to: screen}
http: {listen: "127.0.0.1:0"}
"""


@test
def run_delivers_and_stops_in_order(p):
    p.write("postrider.yaml", DAEMON_CONFIG)
    has(p.fails(5, "run").err, "postrider init")
    p.ok("init")
    id = p.send("--type", "order.created", "--data", "hello-from-the-test")
    daemon = p.start()
    wait_for(lambda: p.run("show", id).code == 4, "delivered")
    status = wait_for(lambda: next((s for s in p.ok("status", "--json").json()
                                    if {i["box"] for i in s["instances"]} == {"outbox"}), None), "in the box that is used")
    assert status["health"] == "ok", status
    screen = [e for e in status["endpoints"] if e["name"] == "screen"]
    wait_for(lambda: [e for e in p.ok("status", "--json").json()[0]["endpoints"] if e["name"] == "screen" and e["sent"] == 1],
             "counted")
    assert len(screen) <= 1
    out, log = p.stop(daemon)
    has(out, "hello-from-the-test")
    assert re.search(r"^http \d+$", out, re.M), out
    assert p.ok("status", "--json").json()[0]["instances"] == []


@test
def retries_that_are_used_up_are_not_called_poison(p):
    p.write("postrider.yaml", DAEMON_CONFIG)
    p.ok("init")
    tried = p.send("--type", "t", "--to", "down")
    kills = p.send("--type", "t", "--to", "down")
    p.sql("UPDATE outbox SET attempts = 99 WHERE row_id = 2")  # handed out, and nobody ever said what became of it
    daemon = wait_for_start(p)
    wait_for(lambda: len(p.ok("dead", "list", "--json").json()) == 2, "both are dead")
    shown = [re.search(r"^cause +(.*)$", p.ok("dead", "show", id).out, re.M).group(1) for id in (tried, kills)]
    assert shown == ["retries used up", "poison_message"], shown
    p.stop(daemon)


@test
def what_is_over_the_limit_says_both_sizes_and_the_rules_are_asked(p):
    p.write("postrider.yaml", DAEMON_CONFIG + """
limits: {payload: 1KiB}
rules: [{name: large, when: {reason: message_too_large}, then: park}]
""")
    p.ok("init")
    id = p.send("--type", "t", "--to", "screen")
    p.sql("UPDATE outbox SET payload = zeroblob(3000)")  # an application's INSERT knows no limit
    daemon = wait_for_start(p)
    wait_for(lambda: p.message(id)["state"] == "parked", "parked by the rule")
    message = p.message(id)
    assert message["reason"] == "message_too_large", message
    has(message["error"], "the payload has 3000 bytes, limits.payload is 1024")
    p.stop(daemon)


@test
def what_died_before_it_was_routed_has_a_line_in_status(p):
    p.write("postrider.yaml", DAEMON_CONFIG)
    p.ok("init")
    p.send("--type", "nowhere")
    db = sqlite3.connect(os.path.join(p.path, "postrider.db"), timeout=DEADLINE_SECONDS)
    db.execute("PRAGMA ignore_check_constraints = on")
    db.execute("UPDATE outbox SET headers = 'no JSON'")
    db.commit()
    db.close()
    daemon = wait_for_start(p)
    line, = wait_for(lambda: [line for line in p.ok("status").out.splitlines() if "(not routed)" in line], "it is told")
    assert line.split()[2:6] == ["-", "0", "1", "1"], line
    p.stop(daemon)


@test
def a_breaker_that_opens_is_raised(p):
    p.write("postrider.yaml", DAEMON_CONFIG.replace("breaker: off", "breaker: {after: 1}", 1) +
            "watch: {every: 100ms, raise: {type: postrider.warning, to: screen}}\n")
    p.ok("init")
    for _ in range(3):
        p.send("--type", "t", "--to", "down")
    daemon = wait_for_start(p)
    wait_for(lambda: any(e["name"] == "screen" and e["sent"] > 0 for e in p.ok("endpoints", "--json").json()), "it is raised")
    out = p.stop(daemon)[0]
    raised = [json.loads(line) for line in re.findall(r"(\{.*\"check\".*\})", out)]
    assert [("breaker", "down")] == [(w["check"], w["about"]) for w in raised if w["check"] == "breaker"], out


@test
def policy_check_says_what_run_would_refuse(p):  # B65, B203
    p.write("postrider.yaml", DAEMON_CONFIG + "\nrules: [{name: asks, when: {reason: rejected}, then: [{call: decide}, dead_letter]}]\n")
    has(p.ok("policy", "check").out, 'rule "asks" calls decide()', "postrider run refuses it")
    found, = p.ok("policy", "check", "--json").json()[0]["findings"]
    assert found["kind"] == "call" and found["line"] > 1, found
    p.ok("init")
    has(p.fails(3, "run").err, "which is not registered")


@test
def why_asks_the_rules_and_the_routes(p):  # B200, B71
    p.write("postrider.yaml", DAEMON_CONFIG.replace("routes:\n", "routes:\n  - {type: \"bill.*\", to: slow}\n") + """
rules:
  - name: patient
    when: {reason: transport_unavailable}
    then: [{retry: [1h, 1h, 1h, 1h]}, {dead_letter: {}, pause: 5m}]
""")
    p.ok("init")
    ruled = p.send("--type", "x", "--to", "slow")
    daemon = p.start()
    wait_for(lambda: p.message(ruled)["state"] == "retrying", "retrying")
    has(p.ok("why", ruled).out, "It failed 1 time; at the 5th failure of this kind rule patient decides: dead letter; pause the endpoint")
    p.ok("pause", "slow", "--why", "they migrate")
    routed = p.send("--type", "bill.sent")
    assert p.message(routed)["state"] == "paused"
    has(p.ok("list").out, "paused", "slow")
    outbox = next(b for b in p.ok("status", "--json").json()[0]["boxes"] if b["name"] == "outbox")
    assert (outbox["ready"], outbox["paused"], outbox["oldest_age_seconds"]) == (0, 2, 0), outbox  # B201: as the list says
    has(p.ok("why", routed).out, "for slow, paused", "It waits because its endpoint slow is paused", "they migrate", "postrider resume slow")
    p.sql("INSERT INTO outbox (type, payload) WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 10001)"
          " SELECT 'bill.sent', '' FROM c", changes=10001)  # more than are counted one by one
    outbox = next(b for b in p.ok("status", "--json").json()[0]["boxes"] if b["name"] == "outbox")
    assert (outbox["ready"], outbox["paused"], outbox["counts_exact"], outbox["oldest_age_seconds"]) == (0, 10001, False, 0), outbox
    p.ok("discard", "--type", "bill.sent", "--yes")
    p.ok("resume", "slow")
    p.stop(daemon)


@test
def a_hand_out_that_died_with_its_instance_is_told(p):  # B47
    p.write("postrider.yaml", """
store: sqlite:postrider.db
instance: worker-7
endpoints:
  one: {url: "exec:sh -c 'while [ -e postrider.yaml ]; do sleep 0.02; done'", retry: [1h]}  # nobody ends them
""")
    p.ok("init")
    id = p.send("--type", "first", "--to", "one")
    for number in (1, 2):
        daemon = p.start()
        wait_for(lambda: (m := p.message(id))["state"] == "in-flight" and m["attempts"] == number - 1, "in flight")
        daemon.kill()
        daemon.wait()
    p.write("postrider.yaml", "store: sqlite:postrider.db\nendpoints: {one: {url: 'null:'}}\n")
    p.ok("pause", "one")
    daemon = p.start()
    wait_for(lambda: p.message(id)["attempts"] == 2, "buried")
    story = p.message(id)["story"]
    assert [(line["attempt"], line["endpoint"], line["instance"], line["step"]) for line in story] == [
        (1, "one", "worker-7", "lost"), (2, "one", "worker-7", "lost")], story
    assert story[0]["at"] < story[1]["at"]
    p.ok("dead", "add", id, "--why", "it kills")
    has(p.ok("why", id).out, "attempt 1 to one by worker-7 had no outcome (a crash, a kill)", "attempt 2 to one by worker-7")
    has(p.ok("dead", "show", id).out, "attempt 1 by worker-7, started 20", "attempt 2 by worker-7")
    letters = p.ok("dead", "export").out
    p.ok("dead", "discard", id)
    p.write("letters", letters)
    p.ok("dead", "import", "letters")
    p.stop(daemon)


@test
def why_says_what_a_ready_message_waits_for(p):  # B200
    p.write("postrider.yaml", """
store: sqlite:postrider.db
endpoints:
  one: {url: "exec:sh -c 'until [ -e go ] || [ ! -e postrider.yaml ]; do sleep 0.02; done'", concurrency: 1}
  rated: {url: 'null:', rate: 1/h}
""")
    p.ok("init")
    daemon = p.start()
    first = p.send("--type", "first", "--stream", "s", "--to", "one")
    wait_for(lambda: p.message(first)["state"] == "in-flight", "in flight")
    second, third = (p.send("--type", "next", "--stream", "s", "--to", "one") for _ in range(2))
    other = p.send("--type", "other", "--to", "one")
    words = p.ok("why", second).out
    has(words, f"{first} (first) is before it in stream s and is being sent right now by instance", f"postrider why {first}",
        "1 message is on its way to endpoint one, whose concurrency is 1", "It continues, in order, when that message has ended")
    assert p.ok("why", third, "--json").json()[0]["waits_for"] == first
    words = p.ok("why", other).out
    has(words, "It waits for a free slot", "A larger concurrency of endpoint one")
    assert "stands before" not in words
    p.send("--type", "t", "--to", "rated")
    wait_for(lambda: sum(e["sent"] for e in p.ok("endpoints", "--json").json()) == 1, "the first of the hour")
    late, behind = (p.send("--type", "t", "--stream", "z", "--to", "rated") for _ in range(2))
    has(p.ok("why", late).out, "Endpoint rated has a rate limit of 1 per 1h", "A larger rate of endpoint rated")
    assert [p.ok("why", id, "--json").json()[0]["waits_for"] for id in (late, behind)] == [None, late]  # never what comes later
    p.sql("UPDATE outbox SET created_at = created_at - 3600000000 WHERE type = 'next'", changes=2)
    age = next(c["advice"] for c in p.ok("status", "--json").json()[0]["checks"] if c["name"] == "age")
    command = age.split(": postrider ")[1].split()
    assert [m["id"] for m in p.ok(*command, "--json").json()] == [second], age  # not the one that is on its way
    p.write("go", "")
    wait_for(lambda: sum(e["sent"] for e in p.ok("endpoints", "--json").json()) == 5, "all of one")
    daemon.kill()
    daemon.communicate()
    p.sql("UPDATE postrider_instance SET lease_end = 0, lease_wall = 0")  # it is there until another one takes its place
    has(p.ok("why", late).out, "no instance delivers from this box")


@test
def why_tells_what_happened_and_what_comes_next(p):  # B18 B200
    p.write("postrider.yaml", DAEMON_CONFIG)
    p.ok("init")
    dead = p.send("--type", "doomed", "--to", "down")
    head = p.send("--type", "first", "--stream", "s", "--to", "slow")
    daemon = p.start()
    wait_for(lambda: p.message(dead)["state"] == "dead", "dead")
    wait_for(lambda: p.message(head)["state"] == "retrying", "retrying")
    follower = p.send("--type", "second", "--stream", "s", "--to", "slow")
    nowhere = p.send("--type", "lost")
    wait_for(lambda: p.message(follower)["state"] == "held", "held")
    wait_for(lambda: p.message(nowhere)["state"] == "parked", "parked")

    m = p.message(dead)
    assert m["failures"] == 3 and m["cause"] == "poison_message" and m["reason"] == "transport_unavailable", m
    assert len(m["story"]) == 3
    words = p.ok("why", dead).out
    has(words, "It died", "it failed 3 times; the limit is 3", "Decided by retry", "attempt 1 to down failed: transport_unavailable",
        "attempt 3 to down failed", f"postrider dead replay {dead}")
    words = p.ok("why", head).out
    has(words, "It waits for its 2nd attempt, in ", "attempt 1 to slow failed", "after 1h", "Attempt 2 to slow, in ",
        "endpoint slow makes it a dead letter at the 3rd failure", f"postrider retry {head}")
    words = p.ok("why", follower).out
    has(words, f"It is held behind {head} (first), the message before it in stream s, which is retrying: its next attempt is in",
        f"postrider release {follower}")
    held, = p.ok("why", follower, "--json").json()
    retrying, = p.ok("why", head, "--json").json()
    assert held["waits_for"] == head and head in held["now"] and held["next"]["at"] == retrying["next"]["at"] is not None, held
    assert f"postrider release {follower}" in [c["command"] for c in held["commands"]], held["commands"]
    assert {"command": f"postrider retry {head}", "what": "try it now, with counters reset"} in retrying["commands"], retrying["commands"]
    assert "Attempt 2" in retrying["next"]["what"] and retrying["waits_for"] is None, retrying
    gone, = p.ok("why", dead, "--json").json()
    assert gone["next"]["what"].startswith("Nothing happens by itself") and gone["next"]["at"] is None, gone
    has(p.ok("why", nowhere).out, "it names no endpoint, and no route matches", " not sent: destination_missing")
    p.write("more.yaml", DAEMON_CONFIG.replace("routes:\n", "routes:\n  - {type: lost, to: slow}\n"))  # which nobody has read yet
    has(p.ok("list", "--state", "parked", "-c", "more.yaml").out, "a route matches now: it continues when postrider run")
    has(p.ok("why", nowhere, "-c", "more.yaml").out, "no route matched it, but one does now")
    status = p.ok("status", "--json").json()[0]
    assert status["health"] == "warn" and [c for c in status["checks"] if c["name"] == "destination"], status  # B18

    # Operators are heard by the running daemon.
    assert p.ok("release", "s").out == "1 released\n"
    wait_for(lambda: p.message(follower)["state"] == "retrying", "overtaken and failed itself")
    assert p.ok("discard", head, follower, nowhere).out == "3 discarded\n"
    assert p.ok("dead", "replay", dead).out == "1 replayed\n"
    wait_for(lambda: p.message(dead)["state"] == "dead", "dead again")
    p.stop(daemon)


@test
def why_names_the_one_that_really_holds_it(p):  # B200, B53
    p.write("postrider.yaml", DAEMON_CONFIG.replace("endpoints:\n", "endpoints:\n  strict: {url: 'http://127.0.0.1:9/', "
                                                    "allow_networks: [127.0.0.0/8], retry: [1ms], ordering: strict}\n"))
    p.ok("init")
    ids = [p.send("--type", "t", "--stream", "s", "--to", "slow") for _ in range(3)]
    p.ok("park", ids[0])  # fifo: does not hold the others
    strict = [p.send("--type", "t", "--stream", "z", "--to", "strict") for _ in range(2)]
    late = p.send("--type", "t", "--due", "1h", "--expires", "1m")
    daemon = p.start()
    wait_for(lambda: p.message(ids[2])["state"] == "held" and p.message(ids[1])["state"] == "retrying", "held")
    wait_for(lambda: p.message(strict[0])["state"] == "dead" and p.message(strict[1])["state"] == "held", "held by a dead one")
    has(p.ok("why", ids[2]).out, f"held behind {ids[1]}", "when the message before it is delivered, dead or discarded")
    has(p.ok("why", strict[1]).out, f"held behind {strict[0]}", "which is dead", "Nothing happens by itself",
        f"postrider dead replay {strict[0]}, or postrider dead discard {strict[0]}")
    has(p.ok("why", late).out, "It expires before it is due")
    p.stop(daemon)
    has(p.ok("why", ids[1]).out, "start postrider run")
    p.ok("park", ids[1])  # nobody runs who could tell the next
    free, = p.ok("why", ids[2], "--json").json()
    has(free["now"], f"It is held in stream s, but the message before it, {ids[0]} (t), is parked")  # the first such
    assert free["next"]["what"] == "It continues, in order, as soon as an instance delivers from this box: start postrider run.", free
    assert free["waits_for"] is None, free
    daemon = p.start()
    wait_for(lambda: p.message(ids[2])["failures"] == 1, "gone on, as it was told")
    p.stop(daemon)


@test
def what_why_advises_is_for_the_part_that_it_speaks_of(p):  # B200, B17
    p.write("postrider.yaml", """
store: sqlite:postrider.db
poll: {min: 1ms, max: 20ms}
endpoints:
  b: {url: 'http://127.0.0.1:9/', allow_networks: [127.0.0.0/8], retry: {base: 1h, cap: 1h}, breaker: off}
  c: {url: 'http://127.0.0.1:9/', allow_networks: [127.0.0.0/8], retry: {base: 1h, cap: 1h}, breaker: off, ordering: strict}
routes: [{type: two, to: [b, c]}]
""")
    p.ok("init")

    def advice():
        return {part["message"]["endpoint"]: [c["command"] for c in part["commands"]] for part in p.ok("why", id, "--json").json()}

    def state():
        return {m["endpoint"]: m["state"] for m in p.ok("show", id, "--json").json()}

    first = id = p.send("--type", "two", "--stream", "s")
    daemon = p.start()
    wait_for(lambda: state() == {"b": "retrying", "c": "retrying"}, "both failed")
    for name, commands in advice().items():
        assert commands == [f"postrider retry {id} --endpoint {name}", f"postrider park {id} --endpoint {name}",
                            f"postrider discard {id} --endpoint {name}",
                            f"postrider dead add {id} --endpoint {name} --why 'TEXT'"], commands
    id = p.send("--type", "two", "--stream", "s")
    wait_for(lambda: state() == {"b": "held", "c": "held"}, "both held")
    assert f"postrider release {id} --endpoint b" in advice()["b"], advice()
    assert p.ok("release", id, "--endpoint", "b").out == "1 released\n"
    wait_for(lambda: state() == {"b": "retrying", "c": "held"}, "only one part was released")
    p.ok("park", first)
    has(p.ok("why", id).out, f"postrider retry {first} --endpoint c, or postrider discard {first} --endpoint c.")
    p.stop(daemon)
    assert p.ok("park", id, "--endpoint", "c").out == p.ok("park", id, "--endpoint", "b").out == "1 parked\n"
    assert p.ok("retry", id, "--endpoint", "b").out == "1 retried\n" and state()["c"] == "parked"
    assert p.ok("dead", "add", id, "--endpoint", "b", "--why", "w").out == "1 dead\n"
    assert f"postrider discard {id}" in advice()["c"], "one part is in the box"
    assert p.ok("discard", first, "--endpoint", "c").out == "1 discarded\n"


@test
def a_breaker_that_opens_is_in_the_log(p):
    """With the reason, and with the type when it is the breaker of one."""
    p.write("postrider.yaml", "endpoints:\n  down: {url: 'http://127.0.0.1:9/', allow_networks: [127.0.0.0/8]}\n"
            "  typed: {url: 'exec:/bin/sh -c \"exit 75\"', breaker: {per: type}}\n")
    p.ok("init")
    for _ in range(8):
        p.send("--type", "t", "--to", "down")
        p.send("--type", "bill", "--to", "typed")
    daemon = p.start()

    def opened(endpoint):
        return [line for line in open(os.path.join(p.path, "log")) if "event=breaker_opened box=outbox endpoint=" + endpoint in line]
    wait_for(lambda: opened("down") and opened("typed"), "breakers")
    p.stop(daemon)
    has(opened("down")[0], "reason=transport_unavailable", "error=", "its messages wait")
    has(opened("typed")[0], "type=bill", "reason=dependency_failure", "messages of this type wait")


@test
def attempts_are_in_the_log_and_many_are_folded(p):
    p.write("postrider.yaml", "store: sqlite:postrider.db\nlog: {level: debug}\nendpoints:\n"
            "  hook: {url: 'exec:/bin/sh -c \"test -e up\"', retry: {base: 1h, cap: 1h, failures: 9}, breaker: off, ordering: none}\n")
    p.ok("init")
    id = p.send("--type", "t", "--to", "hook")
    daemon = p.start()

    def lines(event):
        return [line for line in open(os.path.join(p.path, "log")) if " event=" + event + " " in line]
    wait_for(lambda: lines("attempt_failed"), "told")
    has(lines("attempt_failed")[0], "level=info", "id=" + id, "endpoint=hook", "reason=handler_exception", "attempt=1", "retry_seconds=3600")
    for i in range(60):
        p.sql("INSERT INTO outbox (type, destination) VALUES ('t', 'hook')")
    wait_for(lambda: p.ok("status", "--json").json()[0]["boxes"][0]["retrying"] == 61 or
             [b for b in p.ok("status", "--json").json()[0]["boxes"] if b["retrying"] == 61], "all failed")
    p.write("up", "")
    good = p.send("--type", "t", "--to", "hook")
    wait_for(lambda: lines("delivered"), "delivered")
    has(lines("delivered")[0], "level=debug", "id=" + good)
    p.stop(daemon)
    folded = sum(int(re.search(r"failed=(\d+)", line).group(1)) for line in lines("attempts_not_logged"))
    assert len(lines("attempt_failed")) + folded <= 61 and len(lines("attempt_failed")) >= 1


@test
def an_endpoint_whose_latest_attempts_all_failed_is_told(p):
    """Until a message gets through; and an endpoint that failed once is fine."""
    def ready(out):
        port = re.search(r"^http (\d+)$", out.decode(), re.M).group(1)
        return json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=DEADLINE_SECONDS))

    p.write("postrider.yaml", "store: sqlite:postrider.db\nendpoints:\n"
            "  hook: {url: 'exec:/bin/sh -c \"test -e up\"', retry: {base: 20ms, factor: 1, failures: 1000}, breaker: off}\n"
            "http: {listen: '127.0.0.1:0'}\n")
    p.ok("init")
    id = p.send("--type", "t", "--to", "hook")
    daemon = p.start()
    os.set_blocking(daemon.stdout.fileno(), True)
    line = daemon.stdout.readline()

    def failing():
        status = p.ok("status", "--json").json()[0]
        return [c for c in status["checks"] if c["name"] == "failing"] and status
    status = wait_for(failing, "told")
    assert status["health"] == "warn" and status["endpoints"][0]["failed_in_row"] >= 3, status
    has(p.ok("status").out, "attempts all failed", "postrider endpoints test hook", "failing")
    warned = ready(line)
    assert warned["status"] == "warn" and "hook" in warned["why"], warned
    p.write("up", "")
    wait_for(lambda: p.run("show", id).code == 4, "delivered")
    wait_for(lambda: not failing() and p.ok("status", "--json").json()[0]["health"] == "ok", "well")
    assert ready(line)["status"] == "ok"
    p.stop(daemon)


@test
def a_daemon_that_stands_by_says_so(p):  # B24
    p.write("postrider.yaml", "store: sqlite:postrider.db\nendpoints:\n  out: {url: 'console:'}\nroutes: [{to: out}]\n"
            "http: {listen: '127.0.0.1:0'}\n")
    p.ok("init")
    first = p.start()
    wait_for(lambda: [i for i in p.ok("instances", "--json").json() if i["lanes"] == 64], "works")
    second = p.start()  # its log replaces the first one's
    line = second.stdout.readline().decode()

    def log():
        return open(os.path.join(p.path, "log")).read()
    wait_for(lambda: "event=standing_by" in log(), "told")
    health = json.load(urllib.request.urlopen("http://127.0.0.1:%s/health/ready" % line.split()[1], timeout=DEADLINE_SECONDS))
    assert health["status"] == "ok" and "standing by" in health["why"], health
    has(p.ok("instances").out, "standby")
    has(p.ok("status").out, "standby")
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=DEADLINE_SECONDS)
    wait_for(lambda: "event=took_over" in log(), "took over")
    p.stop(second)


@test
def an_open_breaker_is_seen_from_outside(p):  # B72, B73, B200
    def start(config):
        p.write("postrider.yaml", "store: sqlite:postrider.db\npoll: {min: 1ms, max: 20ms}\n" + config)
        return p.start()

    def sql(text):
        db = sqlite3.connect(os.path.join(p.path, "postrider.db"), timeout=DEADLINE_SECONDS)
        rows = db.execute(re.sub(r"\{s\}\.(?!outbox|inbox)", "postrider_", text).replace("{s}.", "")).fetchall()
        db.commit()
        db.close()
        return "\n".join("|".join("" if v is None else str(v) for v in row) for row in rows)

    p.ok("init")
    breaker_story(lambda *args: p.ok(*args).out, start, sql, over="lease_end = 0, lease_wall = 0")


@test
def why_finds_the_open_endpoint_of_a_route(p):  # B200
    hook = Hook()
    try:
        p.write("postrider.yaml", "store: sqlite:postrider.db\npoll: {min: 1ms, max: 20ms}\n" + hook.config("open: 60s")
                + "routes: [{type: 'order.*', to: hook}]\n")
        p.ok("init")
        id = p.send("--type", "order.made", "--data", "x")
        p.send("--type", "order.paid", "--data", "x")
        p.send("--type", "order.sent", "--data", "x")
        daemon = p.start()
        wait_for(lambda: p.message(id)["endpoint_state"] == "open", "open")
        has(p.ok("why", id).out, "because endpoint hook is failing")
        p.stop(daemon)
        assert p.message(id)["endpoint_state"] is None
    finally:
        hook.close()


@test
def long_words_do_not_tear_the_table(p):
    p.ok("init")
    p.send("--type", "t", "--stream", "s" * 255, "--data", "1")
    has(p.ok("list").out, " " + "s" * 63 + "\u2026 ")
    assert p.ok("list", "--json").json()[0]["stream"] == "s" * 255


@test
def reload_with_a_wrong_config_keeps_the_old_one(p):  # B203
    p.write("postrider.yaml", DAEMON_CONFIG)
    p.ok("init")
    daemon = p.start()
    wait_for(lambda: p.ok("status", "--json").json()[0]["instances"], "running")

    def log():
        return open(os.path.join(p.path, "log")).read()

    p.write("postrider.yaml", DAEMON_CONFIG + "lesae: 5s\n")
    daemon.send_signal(signal.SIGHUP)
    wait_for(lambda: "reload_failed" in log(), "refused")
    has(log(), "lesae: unknown key; did you mean lease?")
    p.write("postrider.yaml", DAEMON_CONFIG.replace("order.*", "parcel.*"))
    id = p.ok("send", "--type", "order.x", "-c", "/dev/null", "--store", "sqlite:postrider.db").out.strip()
    wait_for(lambda: p.run("show", id).code == 4, "delivered by the old one")
    daemon.send_signal(signal.SIGHUP)
    wait_for(lambda: "event=reloaded" in log(), "reloaded")
    id = p.send("--type", "parcel.x")
    wait_for(lambda: p.run("show", id).code == 4, "delivered by the new one")
    p.stop(daemon)


class Slow:
    """A server that takes requests and answers when it is told to."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.taken = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection = self.listener.accept()[0]
                self.first = connection.recv(65536).decode()
                self.taken.append(connection)

    def answer(self):
        for connection in self.taken:
            connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    def close(self):
        self.listener.close()
        for connection in self.taken:
            connection.close()


@test
def webhooks_have_a_method_headers_and_a_proxy(p):
    proxy = Slow()
    try:
        p.write("postrider.yaml", "store: sqlite:postrider.db\nendpoints:\n  hook: {url: 'http://nobody.invalid/hook', method: PUT,"
                f" proxy: 'http://127.0.0.1:{proxy.port}', headers: {{x-api-key: '${{KEY}}'}}, allow_networks: [127.0.0.0/8]}}\n")
        p.ok("init", env={"KEY": "secret-1"})
        shown = p.ok("config", "show", env={"KEY": "secret-1"}).out
        assert "secret-1" not in shown and "x-api-key" in shown, shown
        os.environ["KEY"] = "secret-1"
        p.send("--type", "t", "--to", "hook", "--data", "{}")
        daemon = p.start()
        wait_for(lambda: proxy.taken, "asked")
        has(proxy.first, "PUT http://nobody.invalid/hook HTTP/1.1", "x-api-key: secret-1")
        proxy.answer()
        wait_for(lambda: p.ok("status", "--json").json()[0]["endpoints"][0]["sent"] == 1, "delivered")
        p.stop(daemon)
    finally:
        os.environ.pop("KEY", None)
        proxy.close()


@test
def paths_in_a_file_are_relative_to_it(p):
    os.mkdir(os.path.join(p.path, "etc"))
    p.write("etc/c.yaml", "store: sqlite:here.db\nendpoints:\n  out: {url: 'file:out.jsonl'}\nroutes: [{to: out}]\n")
    p.ok("init", "-c", "etc/c.yaml")
    assert os.path.exists(os.path.join(p.path, "etc", "here.db")) and not os.path.exists(os.path.join(p.path, "here.db"))
    p.ok("send", "--type", "t", "--data", "x", "-c", "etc/c.yaml")
    daemon = p.start("-c", "etc/c.yaml")
    wait_for(lambda: os.path.exists(os.path.join(p.path, "etc", "out.jsonl")), "written")
    name = p.ok("instances", "--json", "-c", "etc/c.yaml").json()[0]["name"]
    assert name == socket.gethostname(), name
    p.stop(daemon)
    p.ok("init", "-c", "etc/c.yaml", "--store", "sqlite:flag.db")  # a flag is relative to where one is
    assert os.path.exists(os.path.join(p.path, "flag.db"))


@test
def a_slow_request_does_not_stop_reloads_or_signals(p):  # B203
    slow = Slow()

    def config(more, top=""):
        p.write("postrider.yaml", "store: sqlite:postrider.db\npoll: {min: 1ms, max: 20ms}\n" + top +
                f"endpoints:\n  slow: {{url: 'http://127.0.0.1:{slow.port}/', allow_networks: [127.0.0.0/8], timeout: 1h}}\n"
                "  good: {url: 'exec:/bin/true'" + more + "}\nroutes: [{type: s, to: slow}, {type: g, to: good}]\n")

    def log():
        return open(os.path.join(p.path, "log")).read()

    try:
        patient = "stop_timeout: 10m\n"  # a reload that stopped anything would not end in time
        config("", top=patient)
        p.ok("init")
        daemon = p.start()
        first = p.send("--type", "s")
        wait_for(lambda: len(slow.taken) == 1, "under way")
        with socket.create_server(("127.0.0.1", 0)) as free:
            door = f"{{http: 'http://127.0.0.1:{free.getsockname()[1]}/in', box: outbox%s}}"
        lines = "{file: 'file:in.jsonl', box: outbox}"
        loud = patient + "log: {level: debug}\n"
        changes = [
                (", timeout: 9s}\n  more: {url: 'exec:/bin/true'", patient),
                ("", patient + "rules: [{when: {reason: timeout_exceeded}, then: [dead_letter]}]\n"),  # `more` has gone again
                ("", patient + "batch: 7\n"),
                ("", patient + "retention: {dead: 30d}\n"),
                ("", loud),
                ("", loud + "schedules: {tick: {cron: '* * * * *', type: g}}\n"),
                ("", loud + "limits: {waiting: 7}\n"),  # `tick` is cancelled
                ("", loud + f"sources: [{lines}]\n"),
                ("", loud + f"sources: [{door % ''}, {lines}]\n"),
                ("", loud + f"batch: 5\nsources: [{lines}]\n"),  # `door` has gone, and `lines` has begun anew
                ("", loud + f"sources: [{lines}, {door % ', token: other'}]\n"),
                ("", loud + f"limits: {{waiting: 1}}\nsources: [{lines}, {door % ', token: other'}]\n"),  # `first` is one
                ("", loud + f"limits: {{waiting: 8}}\nsources: [{lines}, {door % ', token: other'}]\n"),
                ("", loud),
        ]
        for n, change in enumerate(changes, 1):
            config(*change)
            daemon.send_signal(signal.SIGHUP)
            wait_for(lambda n=n: log().count("event=reloaded") == n, "reloaded at once")
            good = p.send("--type", "g")
            wait_for(lambda good=good: p.run("show", good).code == 4, "delivered meanwhile")
            wait_for(lambda: len(p.ok("schedules", "--json").json()) == ("schedules" in change[1]), "the schedules are those of the file")
            if "sources" in change[1] and lines in change[1]:
                ours = f"00000000-0000-7000-8000-{n:012d}"
                with open(os.path.join(p.path, "in.jsonl"), "a") as file:
                    file.write(json.dumps({"id": ours, "type": "g"}) + "\n")
                expected = "event=source_held source=file:in.jsonl" if "waiting: 1}" in change[1] else f"id={ours}"
                wait_for(lambda expected=expected: expected in log(), "read and delivered, or not for now")
        has(log(), "event=delivered")  # the level of the log is another
        assert log().count("event=source_listens") == 2 and log().count("event=started ") == 1, log()
        slow.answer()
        wait_for(lambda: p.run("show", first).code == 4, "what was under way has arrived")
        assert len(slow.taken) == 1
        p.send("--type", "s")
        wait_for(lambda: len(slow.taken) == 2 or len(slow.taken[0].recv(65536)) > 0, "the next one is under way")
        config("", top=patient + "lease: 31s\n")  # takes a stop, which waits for what is under way
        daemon.send_signal(signal.SIGHUP)
        wait_for(lambda: log().count("event=reloading") == len(changes) + 1, "reloads")
        daemon.send_signal(signal.SIGTERM)
        wait_for(lambda: "event=stopping" in log(), "heard during the reload")
        daemon.send_signal(signal.SIGTERM)
        daemon.communicate(timeout=DEADLINE_SECONDS)
        assert daemon.returncode == 1, daemon.returncode
        has(log(), "stopped at once")

        config("", top="stop_timeout: 1s\n")
        taken = len(slow.taken)
        daemon = p.start()
        wait_for(lambda: len(slow.taken) > taken, "what was under way is again")
        config("", top="stop_timeout: 1s\nlease: 31s\n")
        daemon.send_signal(signal.SIGHUP)
        wait_for(lambda: "event=reloaded" in log(), "given up after stop_timeout")
        daemon.send_signal(signal.SIGTERM)  # ends in about a second, though the request has an hour
        daemon.communicate(timeout=DEADLINE_SECONDS)
        assert daemon.returncode == 0, (daemon.returncode, log())
    finally:
        slow.close()


@test
def bench_measures(p):
    lines = p.ok("bench", "--count", "2000", "--json", env={"POSTRIDER_STORE": "sqlite:real.db"}).json()
    assert [line["bench"] for line in lines] == ["send", "deliver"]
    assert all(line["messages"] == 2000 and line["per_second"] > 0 for line in lines)
    assert os.listdir(p.path) == [], "it never touches a real store"


@test
def demo_without_a_terminal_tells_what_happened(p):
    result = p.ok("demo", env={"POSTRIDER_STORE": "sqlite:real.db"})
    assert not os.path.exists(os.path.join(p.path, "real.db")), "it never touches a real store"
    has(result.out, "What happened in 20 seconds", "lost          0", "the invoice names no customer",
        "killed the process each time it was sent")
    dead = p.ok("dead", "list", "--store", "sqlite:postrider-demo.db", "--json").json()
    assert len(dead) == 2, dead
    for m in dead:
        has(p.ok("why", m["id"], "--store", "sqlite:postrider-demo.db").out, "It died")
    has(p.fails(1, "demo", "--store", "sqlite:postrider-demo.db").err, "already exists")


@test
def demo_on_a_terminal_is_a_picture_that_fits(p):
    def frames(seen):
        return [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", f).replace("\r", "") for f in seen.split("\x1b[H")[1:-1]]

    words = ("DELIVERED", "FAILED, AND WHY", "DEAD", "orders", "billing", "reports", "held")
    code, seen = p.terminal("demo", answer=b"\x03",
                            when=lambda seen: len(frames(seen)) >= 15 and all(word in frames(seen)[-1] for word in words))
    assert code == 0, seen
    for frame in frames(seen):
        lines = frame.split("\n")
        assert len(lines) <= 24 and max(len(line) for line in lines) <= 80, frame
    has(frames(seen)[-1], *words)
    assert "\x1b[?1049h" in seen and seen.rindex("\x1b[?1049l") > seen.rindex("\x1b[?1049h"), "the screen is given back"
    has(seen[seen.rindex("\x1b[?1049l"):], "What happened in", "lost          0")


def main():
    word = sys.argv[2] if len(sys.argv) > 2 else ""
    chosen = [t for t in TESTS if (word[1:] not in t.__name__ if word.startswith("^") else word in t.__name__)]
    print(f"1..{len(chosen)}")
    failed = 0
    for number, function in enumerate(chosen, 1):
        place = Place(tempfile.mkdtemp(prefix="postrider-cli-"))
        try:
            function(place)
            print(f"ok {number} - {function.__name__}")
        except Exception:
            failed += 1
            for line in traceback.format_exc().splitlines():
                print(f"# {line}")
            print(f"not ok {number} - {function.__name__}")
        finally:
            place.close()
            shutil.rmtree(place.path)
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
