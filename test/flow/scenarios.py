#!/usr/bin/env python3
"""Every scenario of test/flow/scenarios.txt is shown by a test that exists, does not apply for a reason, or is open.

    scenarios.py ROOT         check the list against the tests below ROOT, and say how many are open
    scenarios.py --self-test  plant mistakes, and find them
"""
import os
import re
import sys

COUNT = 792
LINE = re.compile(r"([a-z0-9_/]+/[a-z0-9_]+): (open|does not apply: \S.*|[a-z0-9_]+)$")
TEST = re.compile(r"^(?:(?:[A-Z]+_)?TEST|SENTENCE)\((\w+)|^\s*def (test_\w+)|^@test.*\n(?:@.*\n)*def (\w+)", re.MULTILINE)


def find_tests(root):
    names = set()
    for place in ("test", "sim"):
        for directory, _, files in os.walk(os.path.join(root, place)):
            for name in files:
                if name.endswith((".c", ".h", ".py")):
                    with open(os.path.join(directory, name), encoding="utf-8", errors="replace") as file:
                        names.update(part for match in TEST.finditer(file.read()) for part in match.groups() if part)
    return names


def check(text, tests, count):
    """(problems, how many are open, how many do not apply)"""
    problems, seen, still_open, not_ours = [], set(), 0, 0
    for at, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        match = LINE.match(line)
        if match is None:
            problems.append("line %d: write GROUP/NAME: TEST, does not apply: REASON, or open" % at)
            continue
        scenario, shown_by = match.groups()
        if scenario in seen:
            problems.append("line %d: %s is there twice" % (at, scenario))
        seen.add(scenario)
        if shown_by == "open":
            still_open += 1
        elif shown_by.startswith("does not apply: "):
            not_ours += 1
        elif shown_by not in tests:
            problems.append("line %d: there is no test %s" % (at, shown_by))
    if len(seen) != count:
        problems.append("there are %d scenarios, not %d" % (len(seen), count))
    return problems, still_open, not_ours


def self_test():
    good = "# words\n\na/b: open\na/c: does not apply: why\na/d: a_test\n"
    cases = [(good, 0), (good.replace("a_test", "another"), 1), (good.replace("a/d", "a/b"), 2), (good + "a/e: open\n", 1),
             (good.replace(": why", ":"), 2), (good.replace("a/b: open", "open"), 2)]
    for text, count in cases:
        problems, _, _ = check(text, {"a_test"}, 3)
        if len(problems) != count:
            sys.exit("self test: %r gave %r" % (text, problems))
    if find_tests(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")) == set():
        sys.exit("self test: no tests were found")
    print("self test: %d cases" % len(cases))


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(os.path.join(sys.argv[1], "test", "flow", "scenarios.txt"), encoding="utf-8") as file:
        problems, still_open, not_ours = check(file.read(), find_tests(sys.argv[1]), COUNT)
    print("\n".join(problems + ["%d scenarios: %d shown, %d do not apply, %d open, %d problems"
                                % (COUNT, COUNT - still_open - not_ours, not_ours, still_open, len(problems))]))
    if problems:
        sys.exit(1)


if __name__ == "__main__":
    main()
