#!/usr/bin/env python3
"""List every text that the program can show: help, errors, log lines, reference, API documentation.

    messages.py SRC              FILE:LINE: TEXT, one line each, in the order of the files
    messages.py SRC --check      fail on words that the house style does not use
    messages.py --self-test      try both on a small source

A text is a string literal (neighbours joined) with at least two words that is neither SQL nor a
format without words.  So a person can read all of them in one go, and find the place of each.
"""
import os
import re
import sys

TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
BETWEEN = re.compile(r'(?:\s|\\\n|PRI[a-zA-Z0-9]+)*\Z')
SQL = re.compile(r'^\W*(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|WITH|FROM|WHERE|AND|OR|ORDER|GROUP|SET|BEGIN|COMMIT|PRAGMA|'
                 r'LEFT|JOIN|LIMIT|VALUES|RETURNING|ON|LOCK|GRANT|REVOKE|EXISTS|CASE|WHEN|UNION|TRUNCATE|NOTIFY|LISTEN|'
                 r'REPLACE|EXPLAIN|VACUUM|ANALYZE|DECLARE|FETCH|DO|COPY|NOT|IN|AS|OVER|HAVING)\b')
WORDS = re.compile(r"[A-Za-z]{2,} +(?:a |[0-9]|[A-Za-z(]{2,})|[A-Za-z]{2,}: [A-Za-z]{2,}")
# What a reader would stumble over, and what to write instead.
STYLE = [
    (re.compile(r"\bwants?\b", re.I), '"needs"'),
    (re.compile(r"\bso (many|much|long)\b", re.I), 'a number: "N", "for this long"'),
    (re.compile(r"\bnot said\b", re.I), '"default"'),
    (re.compile(r"\bwhoever\b", re.I), "name the person or program"),
    (re.compile(r"\b(is|are|was|were) told\b", re.I), '"reports", "is notified"'),
    (re.compile(r"\bdo(es)? not ask back\b", re.I), '"skip the confirmation"'),
    (re.compile(r"\bmended\b", re.I), '"fixed"'),
]


def literals(text):
    """(line, text) of each run of string literals."""
    runs, end = [], None
    for match in TOKEN.finditer(text):
        token = match.group(0)
        if not token.startswith('"'):
            if not token.startswith("/"):
                end = None
            continue
        if end is not None and BETWEEN.match(re.sub(r"/\*.*?\*/", "", text[end:match.start()], flags=re.S)):
            runs[-1][1] += token[1:-1]
        else:
            runs.append([text.count("\n", 0, match.start()) + 1, token[1:-1]])
        end = match.end()
    return runs


def is_message(text):
    return WORDS.search(text) is not None and SQL.match(text) is None and re.search("::[a-z]", text) is None and '#include' not in text


def messages(path):
    with open(path, encoding="utf-8") as file:
        for line, text in literals(file.read()):
            if is_message(text):
                yield line, text.replace("\\n", "\n").replace('\\"', '"').strip("\n")


def wrong_words(text):
    return ["%s: write %s" % (found.group(0), better) for rule, better in STYLE for found in [rule.search(text)] if found]


def sources(root):
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            if name.endswith((".c", ".h")):
                yield os.path.join(folder, name)


def self_test():
    source = 'f("the first" /* x */\n  " message\\n");\ng("SELECT a FROM b", "%s", "id");\nh("%s wants a name");\n'
    found = [(line, text) for line, text in literals(source) if is_message(text)]
    if found != [(1, "the first message\\n"), (4, "%s wants a name")]:
        sys.exit("self test: found %r" % found)
    if [wrong_words(text) for _, text in found] != [[], ['wants: write "needs"']]:
        sys.exit("self test: the style is not checked")
    print("self test: 2 messages")
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    check = "--check" in sys.argv[2:]
    count = bad = 0
    for path in sources(sys.argv[1]):
        for line, text in messages(path):
            count += 1
            wrong = wrong_words(text)
            bad += bool(wrong)
            if not check:
                print("%s:%d: %s" % (path, line, text.replace("\n", "\n    ")))
            for what in wrong if check else []:
                print("%s:%d: %s\n    %s" % (path, line, what, text.replace("\n", "\n    ")))
    print("%d messages%s" % (count, ", %d with words to replace" % bad if check else ""), file=sys.stderr)
    return 1 if check and bad else 0


if __name__ == "__main__":
    sys.exit(main())
