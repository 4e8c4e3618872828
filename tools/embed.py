#!/usr/bin/env python3
"""Turn numbered SQL files into a C array.

    embed.py NAME in.sql... -o out.c

writes

    const struct migration NAME[] = { { 1, "0001_first", "CREATE ..." }, ... };
    const size_t NAME_count = ...;

The number is what a file's name begins with.  Numbers must be different and are sorted.
struct migration and the declarations of both names come from a header of the user, given
by --include; without it the struct is defined in the C file itself.
"""
import argparse
import os
import re
import sys

STRUCT = """struct migration {
    int number;
    const char *name;
    const char *sql;
};
"""


def c_string(text):
    """One literal per line, so that the compiler's messages and diffs stay readable."""
    lines = []
    for line in text.splitlines(keepends=True):
        out = ""
        for byte in line.encode():
            char = chr(byte)
            if char in '"\\?':
                out += "\\" + char
            elif char == "\n":
                out += "\\n"
            elif 32 <= byte < 127:
                out += char
            else:
                out += "\\%03o" % byte
        lines.append('      "%s"' % out)
    return "\n".join(lines) or '      ""'


def read_migration(path):
    name = os.path.splitext(os.path.basename(path))[0]
    match = re.match(r"0*(\d+)", name)
    if match is None:
        sys.exit("embed: %s: the file's name must begin with a number" % path)
    with open(path, encoding="utf-8") as file:
        return int(match.group(1)), name, file.read()


def main():
    parser = argparse.ArgumentParser(description="Turn numbered SQL files into a C array.")
    parser.add_argument("name")
    parser.add_argument("files", nargs="+")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--include", help='for example "store/sqlite/migrate.h"')
    args = parser.parse_args()

    migrations = sorted(read_migration(path) for path in args.files)
    numbers = [number for number, _, _ in migrations]
    if len(set(numbers)) != len(numbers):
        sys.exit("embed: two files have the same number")

    with open(args.output, "w", encoding="utf-8") as out:
        out.write("/* Made by tools/embed.py from %s. */\n" % ", ".join(
            os.path.basename(path) for path in args.files))
        out.write("#include <stddef.h>\n\n")
        out.write('#include "%s"\n\n' % args.include if args.include else STRUCT + "\n")
        if not args.include:
            out.write("extern const struct migration %s[];\n" % args.name)
            out.write("extern const size_t %s_count;\n\n" % args.name)
        out.write("const struct migration %s[] = {\n" % args.name)
        for number, name, sql in migrations:
            out.write('    { %d, "%s",\n%s },\n' % (number, name, c_string(sql)))
        out.write("};\nconst size_t %s_count = %d;\n" % (args.name, len(migrations)))


if __name__ == "__main__":
    main()
