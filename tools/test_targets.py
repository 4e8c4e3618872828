#!/usr/bin/env python3
"""Print what ninja has to build in a folder whose tests of one suite run in another build.

    test_targets.py DIR SUITE    all that is built by default in DIR, without what only tests of SUITE need
    test_targets.py --self-test

Each of the builds of ./dev test leaves out tests that the other one runs, and need not compile and link their programs.  Together
they build everything: what no test needs, or only one of the suite full, is built in both.
"""
import json
import os
import sys


def wanted(targets, tests, suite):
    """The files of those targets.  A static library that is not installed is built when a program needs it."""
    elsewhere, here = set(), set()
    for test in tests:
        suites = {name.rsplit(":", 1)[-1] for name in test["suite"]}
        if suite in suites:
            elsewhere.update(test["depends"])
        elif "full" not in suites:
            here.update(test["depends"])
    return [name for target in targets if target["build_by_default"] and (target["id"] in here or target["id"] not in elsewhere)
            and not (target["type"] == "static library" and not target["installed"]) for name in target["filename"]]


def self_test():
    def target(name, kind="executable", **more):
        return {"id": name, "type": kind, "filename": [name], "build_by_default": True, "installed": False, **more}

    def test(suite, *depends):
        return {"suite": ["postrider:" + suite, "postrider:server"], "depends": list(depends)}

    targets = [target("here"), target("there"), target("both"), target("also-full"), target("full"), target("program"),
               target("part", "static library"), target("library", "static library", installed=True),
               target("never", build_by_default=False)]
    tests = [test("fast", "here", "both"), test("once", "there", "both", "also-full"), test("full", "also-full", "full")]
    got = wanted(targets, tests, "once")
    if got != ["here", "both", "full", "program", "library"]:
        sys.exit("self test: %r is to be built" % got)
    print("self test: %d targets" % len(targets))
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    folder, suite = sys.argv[1:]
    read = {}
    for name in "targets", "tests":
        with open(os.path.join(folder, "meson-info", "intro-%s.json" % name), encoding="utf-8") as file:
            read[name] = json.load(file)
    root = os.path.abspath(folder)
    print("\n".join(os.path.relpath(name, root) for name in wanted(read["targets"], read["tests"], suite)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
