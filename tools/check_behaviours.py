#!/usr/bin/env python3
"""Tests carry the numbers of what they hold as tags (B12); test/behaviours.txt says what the numbers mean and who holds
them.  A tag stands on the line where the test begins, in the comment directly above it, or is the first words of its
docstring: a number somewhere in a file, or on a function that is no test, shows nothing.  In C a test is TEST(name) and its
kin, in Python def test_name or a def below @test.

    check_behaviours.py ROOT         compare the list with the sources below ROOT
    check_behaviours.py --self-test  plant mistakes in a temporary tree, and find them

Each listed number is carried by a test of each file that the list names for it, and no source names a number that is not
listed.
"""
import os
import re
import sys
import tempfile

LIST = os.path.join("test", "behaviours.txt")
PLACES = ("test", "sim", "src")  # where numbers are named; only tests hold them
SUFFIXES = (".c", ".h", ".py", ".sh")
NUMBER = re.compile(r"\bB(\d{1,3})\b")
TEST = re.compile(r"(?:(?:[A-Z]+_)?TEST|SENTENCE)\(\w|def test_\w")
DECORATOR = re.compile(r"@test\b")
DOCSTRING = re.compile(r"\s+\"\"\"")
ENTRY = re.compile(r"B(\d{1,3}) +(\S.*\.)$")


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def read_list(path):
    """({number: [files]}, problems)"""
    held, problems, last = {}, [], 0
    for at, line in enumerate(read(path).splitlines(), 1):
        entry = ENTRY.match(line)
        if entry is not None:
            number = int(entry.group(1))
            if number <= last:
                problems.append("%s:%d: B%d stands behind B%d" % (path, at, number, last))
            last = number
            held[number] = []
        elif line.startswith(" ") and held:
            held[last] += line.split()
        elif line and not line.startswith("#"):
            problems.append("%s:%d: write a number and a sentence, and below it the files" % (path, at))
    return held, problems


def find_names(root):
    """{file: {number: line}}"""
    names = {}
    for place in PLACES:
        for directory, directories, files in os.walk(os.path.join(root, place)):
            directories.sort()
            for name in sorted(files):
                path = os.path.join(directory, name)
                if name.endswith(SUFFIXES):
                    text = read(path)
                    names[os.path.relpath(path, root)] = {
                        int(m.group(1)): text.count("\n", 0, m.start()) + 1 for m in NUMBER.finditer(text)}
    return names


def is_test(lines, at):
    return bool(TEST.match(lines[at]) or (at > 0 and DECORATOR.match(lines[at - 1]) and lines[at].startswith("def ")))


def comment_above(lines, at):
    """The lines of the comment that ends directly above."""
    first = at - 1 if at > 0 and DECORATOR.match(lines[at - 1]) else at
    while first > 0 and lines[first - 1].startswith(("/*", " *", "#")):
        first -= 1
        if lines[first].startswith("/*"):
            break
    return lines[first:at]


def find_tags(path):
    """The numbers that tests of the file carry."""
    tags, lines = set(), read(path).splitlines()
    for at in range(len(lines)):
        if not is_test(lines, at):
            continue
        below = lines[at + 1:at + 2]
        texts = comment_above(lines, at) + [lines[at]] + [line for line in below if DOCSTRING.match(line)]
        tags.update(int(m.group(1)) for line in texts for m in NUMBER.finditer(line))
    return tags


def check(root):
    """(numbers listed, problems)"""
    held, problems = read_list(os.path.join(root, LIST))
    names = find_names(root)
    for number, files in held.items():
        if not files:
            problems.append("%s: nobody holds B%d" % (LIST, number))
        for file in files:
            path = os.path.join(root, "test", file)
            if not os.path.exists(path) or number not in find_tags(path):
                problems.append("%s: no test of test/%s carries B%d" % (LIST, file, number))
    for file, numbers in names.items():
        for number, line in numbers.items():
            if number not in held:
                problems.append("%s:%d: B%d is not in %s" % (file, line, number, LIST))
    return len(held), problems


GOOD = {LIST: "# Words\nB1   One.\n     a/x.c\nB12  Two.\n     a/x.c b/y.py\n",
        "test/a/x.c": "/* Of which\n * it is (B1). */\nTEST(one) /* B12 */\n", "test/b/y.py": "@test\ndef two():  # B12\n",
        "src/z.c": "/* (B1) 0xB99 AB7 */\n"}
MISTAKES = [
    ("src/z.c", "/* B3 */\n", "src/z.c:1: B3 is not in"),
    ("test/b/y.py", "\n# B204\n# B12\n", "test/b/y.py:2: B204 is not in"),
    ("test/b/y.py", "def two():\n", "test/b/y.py carries B12"),
    ("test/b/y.py", "def two():  # B12\n", "test/b/y.py carries B12"),
    ("test/b/y.py", "def helper():  # B12\n\n\n@test\ndef two():\n", "test/b/y.py carries B12"),
    ("test/a/x.c", "static void one(void) /* B1, B12 */\n", "test/a/x.c carries B1"),
    ("test/a/x.c", "/* B1 */\n\nTEST(one) /* B12 */\n", "test/a/x.c carries B1"),
    ("test/a/x.c", "TEST(one) /* B12 */\n{\n    CHECK(1); /* B1 */\n}\n", "test/a/x.c carries B1"),
    ("test/a/x.c", "TEST(one) /* B12 */\n", "test/a/x.c carries B1"),
    (LIST, "B1   One.\nB12  Two.\n     b/y.py\n", "nobody holds B1"),
    (LIST, "B1   One.\n     a/x.c\nB12  Two.\n     b/gone.c\n", "test/b/gone.c carries B12"),
    (LIST, "B12  Two.\n     b/y.py\nB1   One.\n     a/x.c\n", "B1 stands behind B12"),
    (LIST, "B1   One.\n     a/x.c\nB1   One.\n     a/x.c\nB12  Two.\n     a/x.c\n", "B1 stands behind B1"),
    (LIST, "B1   One\n     a/x.c\nB12  Two.\n     b/y.py\n", "behaviours.txt:1: write a number and a sentence"),
]


def self_test():
    def problems_of(tree):
        with tempfile.TemporaryDirectory(prefix="behaviours-") as root:
            for path, text in tree.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            return check(root)[1]

    assert problems_of(GOOD) == [], problems_of(GOOD)
    for path, text, expected in MISTAKES:
        found = problems_of(dict(GOOD, **{path: text}))
        assert any(expected in problem for problem in found), (path, text, found)
    print("%d mistakes were found" % len(MISTAKES))


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    count, problems = check(sys.argv[1])
    for problem in problems:
        print(problem, file=sys.stderr)
    print("%d numbers, %d problems" % (count, len(problems)))
    return 1 if problems or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
