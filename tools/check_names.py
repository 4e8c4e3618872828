#!/usr/bin/env python3
"""One word, one meaning: no two structs, unions or enums of src/ have one name, not even in different files.

    check_names.py SRC          check the definitions below SRC
    check_names.py --self-test  plant doubles in a temporary tree, and find them

Two things of one name are no error to the compiler, but to a reader who searches for the name, and to a debugger.
"""
import os
import re
import sys
import tempfile

COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
DEFINITION = re.compile(r"\b(struct|union|enum)\s+(\w+)\s*\{")


def definitions(path):
    """(kind and name, line) of each."""
    with open(path, encoding="utf-8", errors="replace") as file:
        text = COMMENT.sub(lambda match: "\n" * match.group(0).count("\n"), file.read())
    for match in DEFINITION.finditer(text):
        yield "%s %s" % match.groups(), text.count("\n", 0, match.start()) + 1


def check_tree(src):
    """(definitions seen, problems)"""
    places = {}
    for directory, directories, names in os.walk(src):
        directories.sort()
        for name in sorted(names):
            if name.endswith((".c", ".h")):
                path = os.path.join(directory, name)
                for what, line in definitions(path):
                    places.setdefault(what, []).append("%s:%d" % (path, line))
    problems = ["%s: %s is defined at %s, too: call one of them what it is" % (at[1], what, at[0])
                for what, at in sorted(places.items()) if len(at) > 1]
    return len(places), problems


def self_test():
    cases = [
        ({"a/x.c": "struct one { int a; };", "b/y.c": "struct two { int a; };"}, 0),
        ({"a/x.c": "struct one { int a; };", "b/y.h": "struct one {\n int b;\n};"}, 1),
        ({"a/x.c": "static struct one\n{ int a; } all[] = { 0 };", "b/y.c": "    struct one { int b; };"}, 1),
        ({"a/x.c": "struct one { int a; };", "b/y.c": "struct one;\nstruct one f(struct one *a);\n/* struct one { */"}, 0),
        ({"a/x.c": "enum one { A };", "b/y.c": "enum one { B };"}, 1),
        ({"a/x.c": "enum one { A };", "b/y.c": "struct one { int a; };"}, 0),
        ({"a/x.c": "struct one { int a; };", "b/y.txt": "struct one { int a; };"}, 0),
    ]
    for files, expected in cases:
        with tempfile.TemporaryDirectory() as src:
            for path, text in files.items():
                full = os.path.join(src, path)
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w", encoding="utf-8") as file:
                    file.write(text + "\n")
            count, problems = check_tree(src)
            if count == 0 or len(problems) != expected:
                sys.exit("self test: %r gave %r" % (files, problems))
    print("self test: %d cases" % len(cases))


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    count, problems = check_tree(sys.argv[1])
    print("\n".join(problems + ["%d definitions, %d problems" % (count, len(problems))]))
    if problems or count == 0:
        sys.exit(1)


if __name__ == "__main__":
    main()
