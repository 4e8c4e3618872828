#!/usr/bin/env python3
"""Is every invariant that the simulator checks in the table of doc/reliability.md, and the other way round?

    check_invariants.py ROOT         compare the numbers in ROOT/sim/*.c with the table
    check_invariants.py --self-test  try it on small texts

A checker raises an invariant by a literal such as "I21".  In the table each number stands once, in order; from
SIM_FIRST on invariants are the simulator's own, so what is in the table there must be raised.
"""
import glob
import os
import re
import sys

RAISED = re.compile(r'"(I[0-9]+)"')
ROW = re.compile(r"^\| (I[0-9]+(?:, I[0-9]+)*) ", re.M)
SIM_FIRST = 24


def number(name):
    return int(name[1:])


def compare(sources, document):
    """The problems."""
    raised = {name for text in sources for name in RAISED.findall(text)}
    listed = [name for row in ROW.findall(document) for name in row.split(", ")]
    problems = ["%s is checked in sim/ and not in the table" % name for name in sorted(raised - set(listed), key=number)]
    problems += ["%s is in the table, and nothing in sim/ checks it" % name for name in listed
                 if number(name) >= SIM_FIRST and name not in raised]
    problems += ["%s stands behind %s: each once, and in order" % (after, before) for before, after in zip(listed, listed[1:])
                 if number(before) >= number(after)]
    if not raised or not listed:
        problems.append("nothing was found: has the form of the table or of the checkers changed?")
    return problems


def self_test():
    table = "| I1 a | b |\n| I7, I8 a | b |\n| I24 a | b |\n"
    cases = [
        ('f("I1"); f("I24");', table, 0),
        ('f("I1"); f("I24"); f("I9");', table, 1),
        ('f("I1");', table, 1),
        ('f("I24");', "| I7 a | b |\n| I24 a | b |\n| I1 a | b |\n", 1),
        ('f("I24");', table + "| I24 a | b |\n", 1),
        ('f("1");', table, 2),
    ]
    for source, document, expected in cases:
        problems = compare([source], document)
        if len(problems) != expected:
            sys.exit("self test: %r gave %r" % (source, problems))
    print("self test: %d cases" % len(cases))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = sys.argv[1]
    problems = compare([read(path) for path in sorted(glob.glob(os.path.join(root, "sim", "*.c")))],
                       read(os.path.join(root, "doc", "reliability.md")))
    print("\n".join(problems + ["%d problems" % len(problems)]))
    if problems:
        sys.exit(1)


if __name__ == "__main__":
    main()
