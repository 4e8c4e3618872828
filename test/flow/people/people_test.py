#!/usr/bin/env python3
"""Flows as people see them: `postrider flow`, `postrider why` and /v1/flows, against a real program that has flows.

Usage: people_test.py POSTRIDER HOST sqlite [WORD], or cluster.sh people_test.py POSTRIDER HOST postgres [WORD]: only the
tests whose name contains WORD.  The output is TAP.
"""
import json
import os
import subprocess
import sys
import threading
import time
import urllib.parse

from place import (CLIENTS, DEADLINE_SECONDS, EXIT_FAILED, EXIT_NOT_FOUND, EXIT_SOME_FAILED, EXIT_USAGE, OPERATOR, PROGRAM, VIEWER,
                   UnixConnection, main, test, wait_for)

# ---- The command ----


@test
def start_wait_and_show(p):
    """B112: start is idempotent by id; wait prints the output; an end is shown."""
    assert p.run("flow", "start", "greet", "g-1", "--data", "Ann") == "g-1\n"
    assert p.run("flow", "wait", "g-1", "--for", "30s") == "hello, Ann\n"
    assert "duplicate" in p.words("flow", "start", "greet", "g-1", "--data", "Bob")
    shown = p.show("g-1")
    assert (shown["state"], shown["name"], shown["version"], shown["output"], shown["input"]) == ("completed", "greet", "1", "hello, Ann", "Ann")
    assert shown["waits_for"] == [] and shown["error"] is None and "completed" in shown["now"], shown
    made = p.run("flow", "start", "greet", "--data", "Cy").strip()
    assert p.json("flow", "wait", made)[0]["output"] == "hello, Cy"


@test
def restart_begins_anew(p):
    p.run("flow", "start", "greet", "r-1", "--data", "Ann")
    p.run("flow", "wait", "r-1")
    before = p.show("r-1")["execution"]
    assert "restarted" in p.run("flow", "retry", "r-1", "--restart", "--why", "again")
    after = p.wait_shown("r-1", lambda s: s["execution"] != before and s["state"] == "completed")
    assert after["output"] == "hello, Ann"
    entry = p.json("audit", "--limit", "1")[0]
    assert (entry["action"], entry["target"]["flows"], entry["why"]) == ("flow_restart", ["r-1"], "again"), entry
    p.run("flow", "start", "greet", "r-1", "--data", "Bob", "--restart")
    p.wait_shown("r-1", lambda s: s["output"] == "hello, Bob")
    p.run("flow", "retry", "r-1", "--restart", "--version", "9", "--why", "newer")
    p.wait_shown("r-1", lambda s: "does not know flow greet version 9" in s["now"])
    p.run("flow", "start", "patient", "r-2")
    p.wait_waiting("r-2")
    assert "running" in p.words("flow", "retry", "r-2", "--restart", code=EXIT_FAILED)


@test
def a_flow_that_failed_is_resumed_from_before_its_failure(p):
    """B146: by flow retry, and by its dead letter; what it had done is not done again."""
    def kinds(id):
        return [json.loads(line)["kind"] for line in p.run("flow", "export", id).splitlines()]

    def fail(id, flow="careful"):
        p.run("flow", "start", flow, id, "--data", "Ann")
        return p.wait_shown(id, lambda s: s["state"] == "failed")

    def make_dead(id):
        wait = p.wait_shown(id, lambda s: s["waits_for"] and s["waits_for"][0].get("failures"))["waits_for"][0]
        p.run("dead", "add", wait["message"], "--why", "no bank")
        p.wait_shown(id, lambda s: s["state"] == "failed")
        return wait["message"]

    before = fail("resumed-1")
    assert "postrider flow retry resumed-1" in p.run("why", "resumed-1")
    p.run("flow", "start", "stubborn", "resumed-2", "--data", "5")
    letter = make_dead("resumed-2")
    p.run("flow", "start", "stubborn", "resumed-3", "--data", "6")
    late = make_dead("resumed-3")
    p.run("flow", "start", "greet", "resumed-3", "--data", "Bob", "--restart")  # it went on without it
    p.wait_shown("resumed-3", lambda s: s["output"] == "hello, Bob")
    with open(os.path.join(p.path, "up"), "w", encoding="utf-8"):
        try:
            assert p.json("flow", "retry", "resumed-1", "--dry-run")[0]["resumed"] is True
            assert "resumed" in p.run("flow", "retry", "resumed-1", "--why", "the bank is up")
            after = p.wait_shown("resumed-1", lambda s: s["state"] == "completed")
            assert after["execution"] != before["execution"] and after["output"] == "hello, Ann", after
            assert kinds("resumed-1") == ["started", "activity", "result", "activity", "result", "completed"], kinds("resumed-1")
            entry = [e for e in p.json("audit", "--limit", "20") if e["action"] == "flow_resume"]
            assert entry and entry[0]["target"]["flows"] == ["resumed-1"] and entry[0]["why"] == "the bank is up", entry
            assert "did not fail" in p.words("flow", "retry", "resumed-1", code=EXIT_FAILED)
            p.fails(409, "ended", "POST", "/v1/flows/resumed-1/retry", {})
            assert "1 replayed" in p.run("dead", "replay", letter)
            assert p.wait_shown("resumed-2", lambda s: s["state"] == "completed")["output"] == "5"
            assert p.json("dead", "list", "--box", "activities") and letter not in p.run("dead", "list", "--box", "activities", "--json")
            said = p.words("dead", "replay", late, code=EXIT_FAILED)
            assert "its flow continued or ended without it" in said and "--again" in said, said
            p.fails(409, "handled", "POST", "/v1/dead/replay", {"ids": [late]})
            assert p.show("resumed-3")["output"] == "hello, Bob"
            first = fail("resumed-4", "failing")["execution"]  # by its code: the same code fails again
            p.run("flow", "retry", "resumed-4")
            p.wait_shown("resumed-4", lambda s: s["state"] == "failed" and s["execution"] != first)
        finally:
            os.unlink(os.path.join(p.path, "up"))


@test
def why_of_a_flow_that_waits_for_an_event(p):
    """B200: what it waits for, since when, and what will wake it; custom status and values are shown."""
    p.run("flow", "start", "patient", "order 7", "--data", "x")
    shown = p.wait_waiting("order 7")
    assert (shown["custom_status"], shown["status_number"], shown["values"]) == ("waiting", 1, {"input": "x"}), shown
    wait = shown["waits_for"][0]
    assert (wait["kind"], wait["name"], wait["task"]) == ("event", "go", 1) and wait["since"].endswith("Z"), wait
    words = p.run("why", "order 7")
    assert "flow patient, running" in words and "event go, for" in words and "postrider flow raise 'order 7' go" in words, words
    assert p.run("flow", "raise", "order 7", "go", "--data", "now") == "raised go\n"
    assert p.run("flow", "wait", "order 7") == "now\n"
    assert p.show("order 7")["custom_status"] == "gone"


@test
def an_event_that_nobody_reads_is_announced(p):
    assert "has not begun" in p.words("flow", "raise", "later-1", "go")
    p.run("flow", "start", "patient", "ended-1", "--data", "x")
    p.wait_waiting("ended-1")
    assert p.words("flow", "raise", "ended-1", "go", "--data", "now") == ""
    p.run("flow", "wait", "ended-1")
    assert "has already ended" in p.words("flow", "raise", "ended-1", "go")


@test
def why_of_a_timer_and_a_child(p):
    p.run("flow", "start", "sleepy", "s-1")
    wait = p.wait_waiting("s-1")["waits_for"][0]
    assert wait["kind"] == "timer" and "fires in" in wait["what"] and wait["due_at"] > wait["since"], wait
    p.run("flow", "start", "parent", "p-1", "--data", "the-child")
    wait = p.wait_waiting("p-1")["waits_for"][0]
    assert (wait["kind"], wait["flow"], wait["name"]) == ("child", "the-child", "patient") and "postrider why the-child" in wait["what"], wait
    p.wait_waiting("the-child")
    assert [f["id"] for f in p.json("flow", "list", "--parent", "p-1")] == ["the-child"]
    p.run("flow", "raise", "the-child", "go", "--data", "done")
    assert p.run("flow", "wait", "p-1") == "done\n"


@test
def why_of_an_activity_that_retries(p):
    """B106: how often it failed, with what, and when it is tried again; retry hastens it."""
    p.run("flow", "start", "stubborn", "t-1", "--data", "5")
    shown = p.wait_shown("t-1", lambda s: s["waits_for"] and s["waits_for"][0].get("state") == "retrying")
    wait = shown["waits_for"][0]
    assert (wait["kind"], wait["name"], wait["failures"]) == ("activity", "flaky", 1), wait
    assert "it is tried again in" in wait["what"] and "the bank does not answer" in wait["what"], wait
    words = p.run("why", wait["message"])
    assert "activity flaky#1 of flow t-1" in words and "Its session till-1 is at " in words, words  # B114
    open(os.path.join(p.path, "up"), "w").close()
    assert p.json("flow", "retry", "t-1", "--dry-run")[0] == {"action": "flow retry", "resumed": False, "replayed": 0, "hastened": 1, "dry_run": True}
    assert p.json("flow", "retry", "t-1")[0]["hastened"] == 1
    assert p.run("flow", "wait", "t-1") == "5\n"
    os.unlink(os.path.join(p.path, "up"))


@test
def why_of_an_activity_whose_tag_nobody_offers(p):
    """B113"""
    p.run("flow", "start", "tagged", "tag-1")
    shown = p.wait_shown("tag-1", lambda s: s["waits_for"] and s["waits_for"][0].get("last_error"))
    wait = shown["waits_for"][0]
    assert wait["tag"] == "gpu" and "gpu" in wait["what"] and "offer" in wait["what"], wait


@test
def a_flow_hears_of_an_activity_that_a_person_ends(p):
    """B145: by id, by a filter, as a dead letter, and over HTTP."""
    def waiting(id):
        p.run("flow", "start", "tagged", id)
        return p.wait_waiting(id)["waits_for"][0]["message"]

    def end(*order):  # until nobody holds the row: it is handed back now and then, as long as nobody offers the tag
        wait_for(" ".join(order), lambda: p.command(*order).returncode == 0)

    def failed(id):
        p.words("flow", "wait", id, code=EXIT_FAILED)
        shown = p.show(id)
        assert shown["state"] == "failed" and shown["error"]["category"] == "application", shown
        return shown["error"]["message"]

    end("discard", waiting("gone-1"), "--why", "wrong card")
    said = failed("gone-1")
    assert " was discarded by " in said and said.endswith(": wrong card"), said
    end("dead", "add", waiting("gone-2"), "--why", "broken")
    said = failed("gone-2")
    assert " was made a dead letter by " in said and said.endswith(": broken"), said
    path = "/v1/messages/%s/discard" % waiting("gone-3")
    wait_for(path, lambda: p.raw("POST", path, {"why": "over HTTP"})[0] == 200)
    assert failed("gone-3").endswith(": over HTTP")
    waiting("gone-4")
    waiting("gone-5")
    end("discard", "--box", "activities", "--yes", "--why", "all of them")
    for id in ("gone-4", "gone-5"):
        assert failed(id).endswith(": all of them")


@test
def why_of_what_nobody_runs(p):
    """B110: a start whose flow no instance knows says so."""
    p.run("flow", "start", "nobody", "n-1")
    shown = p.wait_shown("n-1", lambda s: s["pending"] == 1 and "know" in s["now"])
    assert shown["state"] is None and "has not started" in shown["now"] and "nobody" in shown["now"], shown
    assert "not started" in p.run("why", "n-1")
    begun, end = p.words("flow", "wait", "n-1", "--for", "50ms", code=EXIT_FAILED).splitlines()
    assert begun.endswith('flow "n-1" has not started yet; waiting until it ends') and "has not started; postrider why" in end
    p.run("flow", "cancel", "n-1")
    begun, end = p.words("flow", "wait", "typo", "--for", "50ms", code=EXIT_NOT_FOUND).splitlines()
    assert begun.endswith('there is no flow "typo" yet; waiting until somebody starts it and it ends') and "unknown flow" in end


@test
def a_failed_flow_says_why(p):
    p.run("flow", "start", "failing", "f-1", "--data", "Ann")
    assert "no such customer: Ann" in p.words("flow", "wait", "f-1", code=EXIT_FAILED)
    shown = p.show("f-1")
    assert shown["state"] == "failed" and shown["error"]["category"] == "application", shown
    assert shown["error"]["message"] == "no such customer: Ann" and "no such customer: Ann" in shown["now"]
    assert any("--restart" in c["command"] for c in shown["commands"])
    assert "f-1" in [f["id"] for f in p.json("flow", "list", "failing", "--state", "failed")]


@test
def mail_is_read_in_order(p):
    p.run("flow", "start", "reader", "m-1")
    for letter in ("a", "b", "end"):
        p.run("flow", "send", "m-1", "letters", "--data", letter)
    assert p.run("flow", "wait", "m-1") == "2 letters\n"


@test
def an_event_before_its_flow_is_kept(p):
    """B102"""
    p.run("flow", "raise", "early-1", "go", "--data", "kept")
    p.run("flow", "start", "patient", "early-1")
    assert p.run("flow", "wait", "early-1") == "kept\n"


@test
def events_with_an_id_are_raised_once(p):
    p.run("flow", "start", "reader", "once-1", "--due", "1h")
    id = "0190163d-8694-739b-aea5-966c26f8ad91"
    assert p.json("flow", "send", "once-1", "letters", "--data", "a", "--id", id)[0]["message"] == id
    assert "is not a UUID" in p.words("flow", "send", "once-1", "letters", "--id", "x", code=EXIT_USAGE)


@test
def cancel_is_on_record(p):
    """B111, B202"""
    p.run("flow", "start", "patient", "c-1")
    p.wait_waiting("c-1")
    assert p.run("flow", "cancel", "c-1", "--why", "changed my mind") == "c-1: cancellation requested\n"
    assert "was cancelled" in p.words("flow", "wait", "c-1", code=EXIT_FAILED)
    entry = p.json("audit", "--limit", "1")[0]
    assert (entry["action"], entry["target"]["flows"], entry["why"]) == ("flow_cancel", ["c-1"], "changed my mind"), entry
    assert "already ended" in p.words("flow", "cancel", "c-1", code=EXIT_FAILED)
    assert "unknown flow" in p.words("flow", "cancel", "nobody-1", code=EXIT_NOT_FOUND)
    p.run("flow", "start", "patient", "c-2")
    p.wait_waiting("c-2")
    assert p.json("flow", "cancel", "c-2", "c-1", "nobody-1", code=EXIT_SOME_FAILED)[0] == {
        "action": "flow cancel", "matched": 2, "changed": 1, "refused": 1, "missing": 1}


@test
def histories_of_executions(p):
    """B104, B127: older executions stay readable until they are pruned; B134."""
    p.run("flow", "start", "rounds", "h-1", "--data", "3")
    assert p.run("flow", "wait", "h-1") == "round and round\n"
    events = p.json("flow", "history", "h-1")
    assert [(e["number"], e["kind"]) for e in events] == [(1, "started"), (2, "timer"), (3, "fired"), (4, "completed")], events
    executions = p.ok("GET", "/v1/flows/h-1/executions")["flows"]
    assert [e["state"] for e in executions] == ["completed", "continued", "continued"], executions
    first = executions[-1]["execution"]
    assert [e["kind"] for e in p.json("flow", "history", "h-1", first)] == ["started", "timer", "fired", "continued"]
    assert "started rounds" in p.run("flow", "history", "h-1")
    raw = [json.loads(line) for line in p.run("flow", "export", "h-1").splitlines()]
    assert [e["n"] for e in raw] == [1, 2, 3, 4]
    assert p.run("flow", "prune", "h-1", "--keep", "1", "--dry-run") == "1 execution would be deleted\n"
    assert p.run("flow", "prune", "h-1", "--keep", "1") == "1 execution deleted\n"
    p.words("flow", "history", "h-1", first, code=EXIT_NOT_FOUND)
    assert "--keep" in p.words("flow", "prune", "h-1", code=EXIT_USAGE)
    assert p.json("flow", "history", "h-1") == events
    assert "unknown flow" in p.words("flow", "history", "nobody", code=EXIT_NOT_FOUND)


@test
def executions_of_a_single_turn_are_listed(p):
    """B104, B127, B133: also the very first one; and they go with their flow."""
    p.run("flow", "start", "hasty", "h-2", "--data", "3")
    assert p.run("flow", "wait", "h-2") == "there already\n"
    executions = p.ok("GET", "/v1/flows/h-2/executions")["flows"]
    assert [e["state"] for e in executions] == ["completed", "continued", "continued"], executions
    first = executions[-1]["execution"]
    assert [e["kind"] for e in p.json("flow", "history", "h-2", first)] == ["started", "continued"]
    assert p.run("flow", "prune", "h-2", "--keep", "0") == "2 executions deleted\n"
    p.words("flow", "history", "h-2", first, code=EXIT_NOT_FOUND)


@test
def delete_needs_an_end_or_force(p):
    """B133"""
    p.run("flow", "start", "patient", "d-1")
    p.wait_waiting("d-1")
    assert "still running" in p.words("flow", "delete", "d-1", code=EXIT_FAILED)
    assert p.run("flow", "delete", "d-1", "--force", "--why", "a test") == "1 flow deleted\n"
    assert "unknown flow" in p.words("flow", "show", "d-1", code=EXIT_NOT_FOUND)
    assert "not found" in p.words("flow", "delete", "d-1", code=EXIT_NOT_FOUND)
    assert p.json("audit", "--limit", "2")[1]["action"] == "flow_delete"
    p.run("flow", "start", "patient", "d-1")  # whoever ran it before knows it no more
    p.wait_waiting("d-1")


def ledger(p, id, *orders):
    """Tells a ledger what to do to its values; what they are when it has done it."""
    for order in orders:
        p.ok("POST", "/v1/flows/%s/send" % id, {"name": "do", "data": order}, status=202)
    return p.wait_shown(id, lambda s: s["pending"] == 0 and (s["waits_for"] or s["state"] != "running"))["values"]


@test
def values_are_seen_from_outside(p):
    """B109: set, overwritten, cleared and all cleared; those of one flow are nobody else's; they stay when it fails."""
    for id in ("kv-1", "kv-2"):
        p.ok("POST", "/v1/flows", {"name": "ledger", "id": id}, status=201)
    assert ledger(p, "kv-1") == {}
    assert ledger(p, "kv-1", "+a=1", "+b=2", "+c=") == {"a": "1", "b": "2", "c": ""}
    assert ledger(p, "kv-1", "+a=3", "-b", "-nothing") == {"a": "3", "c": ""}
    assert ledger(p, "kv-2", "+a=other") == {"a": "other"}
    assert ledger(p, "kv-1", "--") == {} and ledger(p, "kv-2") == {"a": "other"}
    assert ledger(p, "kv-1", "+a=4", "+\u00e4/ \"=5", "+large=" + "x" * 65536)["large"] == "x" * 65536
    assert ledger(p, "kv-1", "-large") == {"a": "4", "\u00e4/ \"": "5"}
    assert ledger(p, "kv-1", "fail") == {"a": "4", "\u00e4/ \"": "5"} and p.show("kv-1")["state"] == "failed"


@test
def values_outlive_executions_and_pruning_but_not_the_flow(p):
    """B104, B133, B134"""
    p.ok("POST", "/v1/flows", {"name": "ledger", "id": "kv-3"}, status=201)
    assert ledger(p, "kv-3", "+a=1", "+b=2") == {"a": "1", "b": "2"}
    first = p.show("kv-3")["execution"]
    ledger(p, "kv-3", "next")
    wait_for("the next execution", lambda: p.show("kv-3")["execution"] != first)
    assert ledger(p, "kv-3", "+a=3", "-b", "+c=4") == {"a": "3", "c": "4"}
    assert p.run("flow", "prune", "kv-3", "--keep", "0") == "1 execution deleted\n"
    assert ledger(p, "kv-3") == {"a": "3", "c": "4"}
    p.run("flow", "delete", "kv-3", "--force")
    p.words("flow", "show", "kv-3", code=EXIT_NOT_FOUND)
    p.ok("POST", "/v1/flows", {"name": "ledger", "id": "kv-3"}, status=201)  # the same id again: nothing is left of before
    shown = p.wait_waiting("kv-3")
    assert shown["values"] == {} and shown["events"] == 2 and shown["execution"] != first, shown
    assert p.run("flow", "prune", "kv-3", "--keep", "0") == "0 executions deleted\n"


@test
def a_parent_is_deleted_with_its_children(p):
    """B133: also what waits for them; others are not touched."""
    p.run("flow", "start", "parent", "tree-1", "--data", "tree-child")
    p.wait_waiting("tree-1")
    p.wait_waiting("tree-child")
    p.run("flow", "start", "patient", "tree-2")
    p.wait_waiting("tree-2")
    assert p.show("tree-child")["parent"] == "tree-1"
    assert p.json("flow", "delete", "tree-1", "--force", "--dry-run")[0]["changed"] == 2
    assert p.show("tree-child")["state"] == "running"
    assert p.json("flow", "delete", "tree-1", "nobody", "tree-2", "--force", code=EXIT_SOME_FAILED)[0]["changed"] == 3
    for id in ("tree-1", "tree-child", "tree-2"):
        p.words("flow", "show", id, code=EXIT_NOT_FOUND)
    p.run("flow", "raise", "tree-child", "go")  # for nobody: it is kept, and harmless
    p.run("flow", "start", "greet", "after-1", "--data", "x")
    assert p.run("flow", "wait", "after-1") == "hello, x\n"


@test
def states_from_the_start_to_the_end(p):
    """B112: unknown, running, completed; each flow has its own."""
    p.words("flow", "show", "life-1", code=EXIT_NOT_FOUND)
    p.run("flow", "start", "patient", "life-1")
    p.run("flow", "start", "patient", "life-2")
    assert p.wait_waiting("life-1")["state"] == p.wait_waiting("life-2")["state"] == "running"
    p.run("flow", "raise", "life-1", "go")
    p.run("flow", "wait", "life-1")
    assert (p.show("life-1")["state"], p.show("life-2")["state"]) == ("completed", "running")
    p.run("flow", "start", "sleepy", "life-3")
    shown = p.wait_waiting("life-3")
    assert (shown["custom_status"], shown["status_number"]) == (None, 0)


@test
def lists_go_on_page_by_page(p):
    for i in range(3):
        p.run("flow", "start", "greet", "page-%d" % i, "--data", "x")
        p.run("flow", "wait", "page-%d" % i)
    ids = [f["id"] for f in p.json("flow", "list", "greet", "--limit", "2")]
    assert ids == ["page-2", "page-1"], ids
    position = p.words("flow", "list", "greet", "--limit", "2").split("--after ")[1].strip()
    assert p.json("flow", "list", "greet", "--limit", "1", "--after", position)[0]["id"] == "page-0"
    assert "did you mean failed" in p.words("flow", "list", "--state", "faild", code=EXIT_USAGE)
    assert "page position" in p.words("flow", "list", "--after", "x", code=EXIT_USAGE)
    table = p.run("flow", "list", "--state", "completed")
    assert table.startswith("ID") and "hello, x" in table


@test
def wait_ends_with_its_time(p):
    p.run("flow", "start", "patient", "w-1")
    p.wait_waiting("w-1")
    begin = time.monotonic()
    assert "still running" in p.words("flow", "wait", "w-1", "--for", "300ms", code=EXIT_FAILED)
    assert time.monotonic() - begin >= 0.3
    assert "unknown flow" in p.words("flow", "wait", "nobody", "--for", "10ms", code=EXIT_NOT_FOUND)


@test
def status_counts_flows(p):
    p.run("flow", "start", "patient", "status-1")
    p.wait_waiting("status-1")
    flows = p.json("status")[0]["flows"]
    assert flows["running"] >= 1 and set(flows) == {"running", "completed", "failed", "cancelled"}, flows
    assert "FLOWS" in p.run("status")


@test
def a_flow_that_nobody_knows_is_a_warning_that_says_what_to_do(p):  # B205
    def warnings():
        return [c["advice"] for c in p.json("status")[0]["checks"] if c["name"] == "unknown"]

    def clear():
        for left in p.json("list", "--box", "turns", "--state", "retrying"):
            p.command("discard", left["id"])  # refused while it is out
        return not warnings()

    wait_for("what other tests left is gone", clear)
    p.run("flow", "start", "patient", "known-1")
    p.wait_waiting("known-1")
    assert warnings() == []
    p.run("flow", "start", "pateint", "typo 1")
    told, = wait_for("a warning", warnings)
    assert "this instance does not know flow pateint" in told and "postrider why 'typo 1'" in told, told
    assert p.json("status")[0]["health"] == "warn"
    assert "not valid UTF-8" in p.words("flow", "start", b"gr\xffet", "typo 2", code=EXIT_USAGE)
    start, = p.json("list", "--box", "turns", "--stream", "typo 1")
    assert "postrider discard %s  forget its start" % start["id"] in p.run("why", "typo 1")
    p.run("discard", start["id"])
    assert warnings() == [] and "unknown flow" in p.words("flow", "show", "typo 1", code=EXIT_NOT_FOUND)


@test
def what_is_in_another_box_tells_flows_nothing(p):  # B206: whoever may send could forge events and results otherwise
    p.run("flow", "start", "patient", "safe-1")
    p.wait_waiting("safe-1")
    for destination in "flow:turns", "flow:activities":
        p.fails(422, "unknown_endpoint", "POST", "/v1/messages", {"type": "event", "stream": "safe-1", "destination": destination})
        p.insert("outbox", type="event", stream="safe-1", destination=destination, headers='{"name":"go"}', payload="forged")
    parked = wait_for("both are parked", lambda: (lambda l: l if len(l) == 2 else None)(p.json("list", "--box", "outbox", "--state", "parked")))
    assert [m["reason"] for m in parked] == ["destination_missing"] * 2, parked
    assert p.show("safe-1")["state"] == "running"


@test
def check_tells_which_flows_new_code_would_break(p):
    """B160, B168: before it is deployed, with what was expected and found; a flow, all that run, or a file."""
    same, changed = os.environ["FLOWS_SAME"], os.environ["FLOWS_CHANGED"]
    p.run("flow", "start", "patient", "check-1", "--data", "x")
    p.wait_waiting("check-1")
    p.run("flow", "start", "greet", "check-2", "--data", "x")
    p.run("flow", "wait", "check-2")
    assert p.run("flow", "check", same, "check-1", "check-2") == "2 fit, 0 would diverge, 0 would wait for their version, 0 damaged\n"
    told = p.run("flow", "check", changed, "check-1", code=EXIT_SOME_FAILED)
    first, counts = told.splitlines()  # once, not in other words again
    assert first == 'check-1 (patient 1) would diverge at event 2: the history has wait go, the code did activity say with input "x"', told
    assert counts.startswith("0 fit, 1 would diverge"), told
    one, = p.json("flow", "check", changed, "check-1", code=EXIT_SOME_FAILED)
    assert (one["outcome"], one["id"], one["event"]) == ("diverges", "check-1", 2) and one["expected"] and one["found"], one
    p.run("flow", "start", "sleepy", "check-3")
    p.wait_waiting("check-3")
    all = {c["id"]: c["outcome"] for c in p.json("flow", "check", changed, code=EXIT_SOME_FAILED)}
    assert all["check-1"] == "diverges" and all["check-3"] == "lacks" and "check-2" not in all, all
    with open(os.path.join(p.path, "h.jsonl"), "w", encoding="utf-8") as f:
        f.write(p.run("flow", "export", "check-1"))
    assert "1 fit" in p.run("flow", "check", same, "--file", "h.jsonl")
    assert "would diverge" in p.run("flow", "check", changed, "--file", "h.jsonl", code=EXIT_SOME_FAILED)
    with open(os.path.join(p.path, "h.jsonl"), "a", encoding="utf-8") as f:
        f.write('{"n":9}\n')
    assert "damaged" in p.run("flow", "check", same, "--file", "h.jsonl", code=EXIT_SOME_FAILED)
    assert "unknown flow" in p.words("flow", "check", same, "nobody", code=EXIT_NOT_FOUND)
    assert "cannot load" in p.words("flow", "check", "nothing.so", code=EXIT_FAILED)


# ---- The API ----


@test
def http_start_and_wait(p):
    started = p.ok("POST", "/v1/flows", {"name": "greet", "id": "http/1", "input": "Ann"}, status=201)
    assert started["id"] == "http/1" and started["duplicate"] is False
    path = "/v1/flows/" + urllib.parse.quote("http/1", safe="")
    ended = p.ok("GET", path + "/wait?timeout=30s")
    assert (ended["state"], ended["output"], ended["timeout"]) == ("completed", "hello, Ann", False), ended
    again = p.ok("POST", "/v1/flows", {"name": "greet", "id": "http/1"})
    assert again["duplicate"] is True and again["execution"] == ended["execution"]
    shown = p.ok("GET", path, token=VIEWER)
    assert shown["state"] == "completed" and shown["waits_for"] == []
    events = p.ok("GET", path + "/history")["events"]
    assert [e["kind"] for e in events] == ["started", "activity", "result", "completed"], events
    assert events[1]["name"] == "say" and events[1]["data"] == "Ann" and events[1]["at"].endswith("Z")
    p.ok("POST", "/v1/flows", {"name": "greet", "id": "http-2", "input": {"a": 1}}, status=201)
    assert p.ok("GET", "/v1/flows/http-2/wait")["output"] == 'hello, {"a":1}'
    p.ok("POST", "/v1/flows", {"name": "greet", "id": "http-3", "input_base64": "/w=="}, status=201)
    assert p.ok("GET", "/v1/flows/http-3/wait")["output_base64"]


@test
def http_wait_is_told_at_once(p):
    """B112: who waits hears of the end when it happens, not at a later look; and of changes of the custom status."""
    p.ok("POST", "/v1/flows", {"name": "patient", "id": "long-1"}, status=201)
    p.wait_waiting("long-1")
    answers = []
    waiter = threading.Thread(target=lambda: answers.append((p.ok("GET", "/v1/flows/long-1/wait?timeout=30s"), time.monotonic())))
    waiter.start()
    time.sleep(2)  # by now it is looked at every half second, unless it is told
    p.ok("POST", "/v1/flows/long-1/raise", {"name": "go", "data": {"x": 1}}, status=202)
    waiter.join(DEADLINE_SECONDS)
    assert answers[0][0]["output"] == '{"x":1}', answers
    seen = p.ok("GET", "/v1/flows/long-1/wait?timeout=10s&after_number=1")
    assert (seen["custom_status"], seen["status_number"]) == ("gone", 2)
    p.ok("POST", "/v1/flows", {"name": "patient", "id": "long-2"}, status=201)
    assert p.ok("GET", "/v1/flows/long-2/wait?timeout=20s&after_number=0")["custom_status"] == "waiting"
    for more in "", "&after_number=1":  # that status it has
        assert p.ok("GET", "/v1/flows/long-2/wait?timeout=100ms" + more)["timeout"] is True
    p.fails(404, "not_found", "GET", "/v1/flows/nobody/wait?timeout=10ms")
    p.fails(400, "invalid", "GET", "/v1/flows/long-2/wait?timeout=1h")
    p.fails(400, "invalid", "GET", "/v1/flows/long-2/wait?after_number=x")


@test
def http_orders_and_roles(p):
    p.ok("POST", "/v1/flows", {"name": "reader", "id": "o-1"}, status=201)
    assert p.raw("POST", "/v1/flows/o-1/send", {"name": "letters"}, token=VIEWER)[0] == 403
    p.ok("POST", "/v1/flows/o-1/send", {"name": "letters", "data": "a"}, status=202)
    p.wait_waiting("o-1")
    p.fails(409, "running", "DELETE", "/v1/flows/o-1")
    p.fails(409, "running", "POST", "/v1/flows/o-1/retry", {"restart": True})
    assert p.raw("DELETE", "/v1/flows/o-1", token=VIEWER)[0] == 403
    assert p.raw("DELETE", "/v1/flows/o-1", headers={"X-Postrider": "0"})[0] == 403
    p.ok("POST", "/v1/flows/o-1/cancel", {"why": "a test"}, status=202)
    assert p.ok("GET", "/v1/flows/o-1/wait")["state"] == "cancelled"
    p.fails(409, "ended", "POST", "/v1/flows/o-1/cancel", {})
    p.fails(409, "ended", "POST", "/v1/flows/o-1/retry", {})
    p.ok("POST", "/v1/flows/o-1/retry", {"restart": True}, status=202)
    wait_for("o-1 runs again", lambda: p.ok("GET", "/v1/flows/o-1")["state"] == "running")
    assert p.ok("DELETE", "/v1/flows/o-1?force=1&why=over")["changed"] == 1
    p.fails(404, "not_found", "GET", "/v1/flows/o-1")
    p.fails(404, "not_found", "POST", "/v1/flows/o-1/cancel", {})
    p.fails(404, "not_found", "DELETE", "/v1/flows/o-1")
    actions = [e["action"] for e in p.ok("GET", "/v1/audit?limit=10")["audit"]]
    assert {"flow_cancel", "flow_restart", "flow_delete"} <= set(actions), actions
    status, _, headers = p.raw("POST", "/v1/flows/o-1")
    assert status == 405 and headers["allow"] == "GET, HEAD, DELETE", (status, headers)


@test
def http_lists_and_prunes(p):
    for i in range(3):
        p.ok("POST", "/v1/flows", {"name": "rounds", "id": "l-%d" % i, "input": "3"}, status=201)
        p.ok("GET", "/v1/flows/l-%d/wait" % i)
    page = p.ok("GET", "/v1/flows?name=rounds&limit=2&since=5m")
    assert [f["id"] for f in page["flows"]] == ["l-2", "l-1"] and page["more"] and page["states"]["completed"] >= 3, page
    rest = p.ok("GET", "/v1/flows?name=rounds&limit=1&after=" + urllib.parse.quote(page["next"]))
    assert [f["id"] for f in rest["flows"]] == ["l-0"], rest
    p.fails(400, "invalid", "GET", "/v1/flows?state=odd")
    p.fails(400, "invalid", "GET", "/v1/flows?after=odd")
    assert p.ok("POST", "/v1/flows/prune", {"id": "l-0", "keep": 0})["changed"] == 2
    assert p.ok("POST", "/v1/flows/prune", {"id": "l-1", "before": "1h"})["changed"] == 0
    p.fails(400, "invalid", "POST", "/v1/flows/prune", {"id": "l-0"})
    p.fails(400, "invalid", "POST", "/v1/flows/prune", {"keep": -1})


@test
def http_says_what_is_wrong(p):
    assert "name is missing" in p.fails(400, "invalid", "POST", "/v1/flows", {"id": "x"})
    p.fails(400, "invalid", "POST", "/v1/flows", {"name": ""})
    p.fails(400, "invalid", "POST", "/v1/flows", {"name": "greet", "id": "x" * 300})
    p.fails(400, "invalid", "POST", "/v1/flows", {"name": "greet", "version": 3})
    p.fails(400, "invalid", "POST", "/v1/flows", {"name": "greet", "input": "a", "input_base64": "YQ=="})
    p.fails(400, "invalid", "POST", "/v1/flows", {"name": "greet", "input_base64": "?"})
    p.fails(400, "invalid", "POST", "/v1/flows", {"name": "greet", "due_at": "soon"})
    p.fails(400, "invalid", "POST", "/v1/flows/x/raise", {"name": "go", "message": "x"})
    p.fails(400, "invalid", "GET", "/v1/flows/x/history?execution=x")
    p.fails(404, "not_found", "GET", "/v1/flows/x/history")
    p.fails(404, "not_found", "GET", "/v1/flows/x/executions")
    p.fails(404, "not_found", "POST", "/v1/flows/x/retry", {})


@test
def openapi_has_the_routes(p):
    paths = p.ok("GET", "/openapi.json")["paths"]
    assert set(paths["/v1/flows/{id}"]) == {"get", "delete"} and set(paths["/v1/flows"]) == {"get", "post"}
    body = paths["/v1/flows"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["name"] and body["properties"]["version"] == {"type": "string"}, body
    for path in ("history", "executions", "raise", "send", "cancel", "retry", "wait"):
        assert "/v1/flows/{id}/" + path in paths, path


@test
def metrics_count_flows(p):
    c = UnixConnection(os.path.join(p.path, "s"))
    c.request("GET", "/metrics", headers={"Authorization": "Bearer " + VIEWER})
    text = c.getresponse().read().decode()
    c.close()
    assert 'postrider_flows{state="completed"}' in text, [line for line in text.splitlines() if "flow" in line]


# ---- Clients of other languages ----

PYTHON = """
import sys
sys.path.insert(0, sys.argv[1])
import postrider
flows = postrider.Flows(sys.argv[2], token=sys.argv[3])
assert flows.start("greet", "Ann", id="py/1") == "py/1"
assert flows.wait("py/1", timeout=60).output == b"hello, Ann"
assert flows.start("greet", "Bob", id="py/1") == "py/1" and flows.get("py/1").output == b"hello, Ann"
made = flows.start("patient", {"a": 1})
status = flows.wait_status(made, timeout=60)
assert (status.custom_status, status.status_number, status.ended) == ("waiting", 1, False), status
try:
    flows.wait(made, timeout=0.1)
    raise AssertionError("it has not ended")
except TimeoutError:
    pass
flows.raise_event(made, "go", {"b": 2})
assert flows.wait(made, timeout=60).json() == {"b": 2}
assert [e["kind"] for e in flows.history(made)][:2] == ["started", "wait"]
letters = flows.start("reader")
flows.send(letters, "letters", b"\\xff")
flows.send(letters, "letters", "end")
assert flows.wait(letters, timeout=60).output == b"1 letters"
try:
    flows.wait(flows.start("failing", "x"), timeout=60)
    raise AssertionError("it fails")
except postrider.FlowFailed as failed:
    assert failed.flow.error["message"] == "no such customer: x", failed.flow
flows.delete(made)
try:
    flows.get(made)
    raise AssertionError("it is gone")
except KeyError:
    pass
flows.wait_status(flows.start("patient", id="py-2"), timeout=60)
flows.cancel("py-2", "a test")
flows._wait_for("py-2", -1, 60)
assert flows.get("py-2").state == "cancelled"
print("done")
"""
NODE = """
import assert from "node:assert";
const [, , client, url, token] = process.argv;
const { Flows, FlowFailed } = await import(client);
const flows = new Flows(url, { token });
assert.equal(await flows.start("greet", "Ann", { id: "js/1" }), "js/1");
assert.equal((await flows.wait("js/1", { timeout: 60 })).output.toString(), "hello, Ann");
const made = await flows.start("patient", { a: 1 });
assert.equal((await flows.waitStatus(made, 0, { timeout: 60 })).customStatus, "waiting");
await assert.rejects(flows.wait(made, { timeout: 0.1 }), /still running/);
await flows.raise(made, "go", { b: 2 });
assert.deepEqual((await flows.wait(made, { timeout: 60 })).json(), { b: 2 });
assert.equal((await flows.history(made))[0].kind, "started");
const letters = await flows.start("reader");
await flows.send(letters, "letters", Buffer.from([255]));
await flows.send(letters, "letters", "end");
assert.equal((await flows.wait(letters, { timeout: 60 })).output.toString(), "1 letters");
await assert.rejects(flows.start("failing", "x").then((id) => flows.wait(id)), (e) => e instanceof FlowFailed && e.flow.error.message === "no such customer: x");
await flows.delete(made);
await assert.rejects(flows.get(made), (e) => e.code === "not_found");
console.log("done");
"""


def with_daemon(p, command):
    """Another process serves the API: the flows run elsewhere."""
    with open(os.path.join(p.path, "c.yaml"), encoding="utf-8") as f:
        text = f.read().replace("unix:%s/s" % p.path, "127.0.0.1:0")
    with open(os.path.join(p.path, "d.yaml"), "w", encoding="utf-8") as f:
        f.write(text)
    daemon = subprocess.Popen([PROGRAM, "run", "-c", "d.yaml"], cwd=p.path, stdout=subprocess.PIPE, stderr=p.log, env=p.env)
    try:
        url = "http://127.0.0.1:%d" % int(daemon.stdout.readline().split()[1])
        done = subprocess.run(command(url), cwd=p.path, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
        assert (done.returncode, done.stdout) == (0, "done\n"), (done.stdout, done.stderr)
    finally:
        daemon.terminate()
        daemon.wait(DEADLINE_SECONDS)
        daemon.stdout.close()


@test
def the_python_client_starts_tells_and_waits(p):
    with_daemon(p, lambda url: [sys.executable, "-c", PYTHON, os.path.join(CLIENTS, "python"), url, OPERATOR])


@test
def the_node_client_starts_tells_and_waits(p):
    script = os.path.join(p.path, "flows.mjs")
    with open(script, "w", encoding="utf-8") as f:
        f.write(NODE)
    with_daemon(p, lambda url: ["node", script, os.path.join(CLIENTS, "node", "postrider.mjs"), url, OPERATOR])


main()
