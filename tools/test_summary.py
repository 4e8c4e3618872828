#!/usr/bin/env python3
"""Count test points in the testlog.json files of meson.

    test_summary.py build/meson-logs/testlog.json...
    test_summary.py --failed build/meson-logs/testlog.json
    test_summary.py --self-test

--failed prints the names of the programs that failed, for `meson test`.  When such a program was run once more without
others (testlog-alone.json beside testlog.json) and passed, it is called unstable: what it said the first time is printed, since
that is a defect, too, and its points are those of the second run.

A test that speaks TAP counts as its points, any other as one.  What failed is printed with what
it said, and each reason for which points were skipped once.  With CI set, something that is not
installed or not set up is a failure: there everything must run.  The last line is "N passed, N failed", with ", N skipped" when there are any; fails when
something failed or nothing passed.
"""
import collections
import json
import os
import re
import sys

POINT = re.compile(r"^(ok|not ok)\b[^#]*(#\s*(SKIP|TODO)\b)?", re.IGNORECASE)
PLAN = re.compile(r"^1\.\.\d+", re.MULTILINE)
GOOD = ("OK", "EXPECTEDFAIL")
SKIP = re.compile(r"#\s*SKIP\s*(.*)", re.IGNORECASE)
MISSING = re.compile(r"not installed|cannot install|names no server|is not set|^no \w+ command", re.IGNORECASE)
SAID_MAX = 40  # lines of comment on each side of a point that failed


def count_tap(text):
    passed = failed = skipped = 0
    for line in text.splitlines():
        match = POINT.match(line)
        if match is None:
            continue
        if match.group(3):
            skipped += 1
        elif match.group(1).lower() == "ok":
            passed += 1
        else:
            failed += 1
    return passed, failed, skipped


def count_test(test):
    """(passed, failed, skipped) of one entry."""
    result = test["result"]
    text = test.get("stdout") or ""
    if not PLAN.search(text):
        return int(result in GOOD), int(result not in GOOD + ("SKIP",)), int(result == "SKIP")
    passed, failed, skipped = count_tap(text)
    if result not in GOOD + ("SKIP",) and failed == 0:
        failed = 1  # it crashed, ran out of time, or left points out
    return passed, failed, skipped


def skip_reasons(test):
    """Why points of one entry were skipped, one for each."""
    text = test.get("stdout") or ""
    reasons = [match.group(1).strip() or "no reason given" for match in map(SKIP.search, text.splitlines()) if match]
    if not reasons and test["result"] == "SKIP":
        reasons = ["no reason given"]
    return reasons


def print_skips(skips, everything_must_run):
    """Each reason once; returns how many reasons are failures."""
    missing = [why for why in skips if everything_must_run and (MISSING.search(why) or why == "no reason given")]
    for why, count in sorted(skips.items(), key=lambda item: (-item[1], item[0])):
        print("%s: %d times: %s" % ("failed, since it was skipped" if why in missing else "skipped", count, why))
    return len(missing)


def failures(text):
    """The points of a TAP text that failed, each with the comments around it."""
    lines, said = text.splitlines(), []
    for number, line in enumerate(lines):
        if not line.lower().startswith("not ok"):
            continue
        first = last = number
        while first > 0 and lines[first - 1].startswith("#"):
            first -= 1
        while last + 1 < len(lines) and lines[last + 1].startswith("#"):
            last += 1
        said += lines[max(first, number - SAID_MAX):min(last, number + SAID_MAX) + 1]
    return said


def read_log(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return [json.loads(line) for line in file if line.strip()]


def read_alone(path):
    """Those of a log that were run once more, by their names."""
    try:
        return {test["name"]: test for test in read_log(path.removesuffix(".json") + "-alone.json")}
    except OSError:
        return {}


def settle(test, alone):
    """(what counts, is it unstable?): a failed test that passed alone is unstable."""
    again = alone.get(test["name"])
    if count_test(test)[1] > 0 and again is not None and count_test(again)[1] == 0 and again["result"] in GOOD:
        return again, True
    return test, False


def print_failed(path):
    for test in read_log(path):
        if count_test(test)[1] > 0:
            print(test["name"].rsplit(" / ", 1)[-1])
    return 0


def self_test():
    cases = [
        ("OK", "1..3\nok 1 - a\nok 2 - b # SKIP why\n# not ok - comment\nok 3 - c\n", (2, 0, 1)),
        ("FAIL", "1..2\nok 1 - a\nnot ok 2 - b\n", (1, 1, 0)),
        ("ERROR", "1..5\nok 1 - a\n", (1, 1, 0)),
        ("TIMEOUT", "1..5\n", (0, 1, 0)),
        ("OK", "fine\n", (1, 0, 0)),
        ("OK", "", (1, 0, 0)),
        ("SKIP", "", (0, 0, 1)),
        ("FAIL", "ok\n", (0, 1, 0)),
    ]
    for result, stdout, expected in cases:
        got = count_test({"result": result, "stdout": stdout})
        if got != expected:
            sys.exit("self test: %s with %r gave %r" % (result, stdout, got))
    skips = collections.Counter(skip_reasons({"result": "OK", "stdout": "1..2\nok 1 - a # SKIP x is not installed\nok 2 - b # SKIP y\n"}))
    skips.update(skip_reasons({"result": "SKIP", "stdout": "starting\n# SKIP npm cannot install z here\n"}))
    skips.update(skip_reasons({"result": "SKIP", "stdout": ""}))
    if skips != {"x is not installed": 1, "y": 1, "npm cannot install z here": 1, "no reason given": 1}:
        sys.exit("self test: skipped for %r" % skips)
    if (print_skips(skips, True), print_skips(skips, False)) != (3, 0):
        sys.exit("self test: what is missing does not fail where everything must run")
    said = failures("1..2\n# of b\nnot ok 1 - b\n# also of b\nok 2 - c\n# of c\n")
    if said != ["# of b", "not ok 1 - b", "# also of b"]:
        sys.exit("self test: what failed is given as %r" % said)
    failed = {"name": "a", "result": "FAIL", "stdout": "1..1\nnot ok 1 - x\n"}
    passed = {"name": "a", "result": "OK", "stdout": "1..1\nok 1 - x\n"}
    skipped = {"name": "a", "result": "SKIP", "stdout": ""}
    for test, again, unstable in (failed, passed, True), (failed, failed, False), (failed, skipped, False), (passed, failed, False):
        if settle(test, {"a": again}) != (again if unstable else test, unstable):
            sys.exit("self test: %r and then %r is not unstable: %r" % (test, again, unstable))
    print("self test: %d cases" % (len(cases) + 7))
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1:2] == ["--failed"]:
        return print_failed(sys.argv[2])
    total, bad, skips = [0, 0, 0], [], collections.Counter()
    for path in sys.argv[1:]:
        try:
            tests = read_log(path)
        except OSError as error:
            tests = []
            total[1] += 1
            bad.append("no results: %s" % error)
        alone = read_alone(path)
        for test in tests:
            counted, unstable = settle(test, alone)
            counts = count_test(counted)
            total = [a + b for a, b in zip(total, counts)]
            skips.update(skip_reasons(counted))
            if counts[1] > 0 or unstable:
                bad.append("%s: %s (%s, %s)" % ("unstable, it passed alone" if unstable else "failed", test["name"],
                                               test["result"], path.split("/")[0]))
                bad += ["  " + line for line in failures(test.get("stdout") or "")]
    print("\n".join(bad + [""]) if bad else "", end="")
    total[1] += print_skips(skips, bool(os.environ.get("CI")))
    print("%d passed, %d failed" % (total[0], total[1]) + (", %d skipped" % total[2] if total[2] else ""))
    return 1 if total[1] > 0 or total[0] == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
