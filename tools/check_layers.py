#!/usr/bin/env python3
"""Each directory of src/ may include only itself and the directories above it in LAYERS.

    check_layers.py SRC          check the #include "dir/file.h" lines below SRC
    check_layers.py --self-test  plant violations in a temporary tree, and find them
"""
import os
import re
import sys
import tempfile

# Directories in one entry are siblings: they do not know each other.
LAYERS = [
    ["base"],
    ["core"],
    ["policy"],
    ["flow"],
    ["engine"],
    ["store", "transport"],
    ["source"],
    ["runtime"],
    ["ops"],
    ["lib"],
    ["cli"],
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)


def check_include(layer, included):
    """None, or what is wrong with it."""
    target = included.split("/")[0]
    if target not in RANK or ".." in included.split("/"):
        return 'write it as "layer/file.h"'
    if target == layer or RANK[target] < RANK[layer]:
        return None
    return "%s must not know %s" % (layer, target)


def check_file(path, layer):
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    problems = []
    for match in INCLUDE.finditer(text):
        problem = check_include(layer, match.group(1))
        if problem is not None:
            line = text.count("\n", 0, match.start()) + 1
            problems.append('%s:%d: "%s": %s' % (path, line, match.group(1), problem))
    return problems


def check_tree(src):
    """(files looked at, problems)"""
    count, problems = 0, []
    for directory, directories, names in os.walk(src):
        directories.sort()
        layer = os.path.relpath(directory, src).split(os.sep)[0]
        for name in sorted(names):
            if not name.endswith((".c", ".h")):
                continue
            count += 1
            path = os.path.join(directory, name)
            if layer in RANK:
                problems += check_file(path, layer)
            else:
                problems.append("%s: %s is no layer; add it to LAYERS" % (path, layer))
    return count, problems


def self_test():
    cases = [
        ("base/a.c", '#include "base/b.h"', True),
        ("base/a.c", "#include <postrider.h>", True),
        ("base/a.c", '#include "core/b.h"', False),
        ("core/a.h", '#include "base/b.h"', True),
        ("core/a.h", '  #  include "engine/b.h"', False),
        ("store/a.c", '#include "engine/b.h"', True),
        ("store/a.c", '#include "transport/b.h"', False),
        ("transport/a.c", '#include "store/b.h"', False),
        ("store/sqlite/a.c", '#include "store/sqlite/b.h"', True),
        ("store/sqlite/a.c", '#include "runtime/b.h"', False),
        ("store/sqlite/a.c", '#include "b.h"', False),
        ("base/a.c", '#include "base/../core/b.h"', False),
        ("lib/a.c", '#include "cli/b.h"', False),
        ("cli/a.c", '#include "base/b.h"\n#include "lib/b.h"', True),
        ("cli/a.c", '#include "base/b.h"\n#include "nowhere/b.h"', False),
        ("nowhere/a.c", "", False),
    ]
    for path, text, good in cases:
        with tempfile.TemporaryDirectory() as src:
            full = os.path.join(src, path)
            os.makedirs(os.path.dirname(full))
            with open(full, "w", encoding="utf-8") as file:
                file.write("/* planted */\n" + text + "\n")
            count, problems = check_tree(src)
            if count != 1 or (not problems) != good:
                sys.exit("self test: %s with %r gave %r" % (path, text, problems))
    print("self test: %d cases" % len(cases))


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    count, problems = check_tree(sys.argv[1])
    print("\n".join(problems + ["%d files, %d problems" % (count, len(problems))]))
    if problems or count == 0:
        sys.exit(1)


if __name__ == "__main__":
    main()
