#!/usr/bin/env python3
"""List every text that the program can show: help, errors, log lines, reference, API documentation, and what its functions and
triggers in a database raise.

    messages.py SRC              FILE:LINE: TEXT, one line each, in the order of the files
    messages.py SRC --check      fail on words that the house style does not use: in these texts, in the comments of
                                 SRC, and in what people read beside SRC (documents, headers, clients, examples)
    messages.py --self-test      try both on a small source

A text is a string literal (neighbours joined) with at least two words that is neither SQL, nor the
reason of an assertion, nor a format without words; in SQL, the text of a RAISE, where the latest migration has it.  So a person can read all of them in one go, and
find the place of each.  Beside SRC every line counts; records of decisions (doc/adr) are history.
"""
import os
import re
import sys
import tempfile

TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
BETWEEN = re.compile(r'(?:\s|\\\n|PRI[a-zA-Z0-9]+)*\Z')
SQL = re.compile(r'^\W*(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|WITH|FROM|WHERE|AND|OR|ORDER|GROUP|SET|BEGIN|COMMIT|PRAGMA|'
                 r'LEFT|JOIN|LIMIT|VALUES|RETURNING|ON|LOCK|GRANT|REVOKE|EXISTS|CASE|WHEN|UNION|TRUNCATE|NOTIFY|LISTEN|'
                 r'REPLACE|EXPLAIN|VACUUM|ANALYZE|DECLARE|FETCH|DO|COPY|NOT|IN|AS|OVER|HAVING)\b')
SQL_WORD = re.compile(r"\b(SELECT|FROM|WHERE|AND|OR|NOT|NULL|IS|IN|AS|ON|BY|FOR|UPDATE|SHARE|OF|SKIP|LOCKED|LIMIT|OFFSET|ORDER|GROUP|"
                      r"CASE|WHEN|THEN|ELSE|END|CROSS|JOIN|LATERAL|LEFT|USING|INDEXED|UNION|ALL|DISTINCT|EXISTS|CAST|INTO|INSERT|DELETE|"
                      r"SET|VALUES|RETURNING|MATERIALIZED|SAVEPOINT|RELEASE|ROLLBACK|TO|ADD|COLUMN|IF|OVERRIDING|SYSTEM|VALUE|AT|TIME|"
                      r"ZONE|TRUE|SLOT|START_REPLICATION|LOGICAL|INTEGER|BLOB)\b")
PROSE = re.compile(r"(?<![\w.{$\"'])[a-z]{2,}(?![\w.}(\"'])")
ASSERTION = re.compile(r"\b(ASSERT|_Static_assert)\b[^;{}]*\Z")
WORDS = re.compile(r"[A-Za-z]{2,} +(?:a |[0-9]|[A-Za-z(]{2,})|[A-Za-z]{2,}: [A-Za-z]{2,}")
BESIDE = ["README.md", "ARCHITECTURE.md", "doc", "include", "clients", "examples"]
# What a reader would stumble over, and what to write instead.
STYLE = [
    (re.compile(r"\bwants?\b", re.I), '"needs"'),
    (re.compile(r"\bso (many|much|long)\b", re.I), 'a number: "N", "for this long"'),
    (re.compile(r"\bnot said\b", re.I), '"default"'),
    (re.compile(r"\bwhoever\b", re.I), "name the person or program"),
    (re.compile(r"\b(is|are|was|were) told\b", re.I), '"reports", "is notified"'),
    (re.compile(r"\bdo(es)? not ask back\b", re.I), '"skip the confirmation"'),
    (re.compile(r"\bmended\b", re.I), '"fixed"'),
    (re.compile(r"(?<!\bthere )(?<!\bThere )\bis none\b"), '"is not a ...", "is not valid"'),
    (re.compile(r"(?<!\bthere )\bis no (?!longer\b|more\b|[*`\"])", re.I), '"is not a"'),
    (re.compile(r"\banew\b", re.I), '"again", "restart"'),
    (re.compile(r"\blately\b", re.I), '"recently"'),
    (re.compile(r"\bworks? (the|this|a) box\b", re.I), '"serves"'),
    (re.compile(r"\bfor ever\b", re.I), '"forever"'),
]

# Riddles that the comments do not use any more.
COMMENT_STYLE = [
    (re.compile(r"\b(is|are|was|were|be|been) told\b", re.I), 'name the report: "gets the reason", "is notified"'),
    (re.compile(r"\bwhoever\b", re.I), "name the caller, program or person"),
    (re.compile(r"\banew\b", re.I), '"again", "starts over"'),
    (re.compile(r"\blately\b", re.I), '"recently"'),
    (re.compile(r"\bfor ever\b", re.I), '"forever"'),
    (re.compile(r"\bnobody's\b", re.I), '"free", "has no owner"'),
    (re.compile(r"\bso many\b", re.I), '"this number of"'),
    (re.compile(r"\bmended\b", re.I), '"fixed"'),
    (re.compile(r"\bnot said\b", re.I), '"default", "unknown"'),
]


def literals(text):
    """(line, text) of each run of string literals, but for the reasons of assertions."""
    runs, end = [], None
    for match in TOKEN.finditer(text):
        token = match.group(0)
        if not token.startswith('"'):
            if not token.startswith("/"):
                end = None
            continue
        if ASSERTION.search(text, max(0, match.start() - 500), match.start()):
            end = None
            continue
        if end is not None and BETWEEN.match(re.sub(r"/\*.*?\*/", "", text[end:match.start()], flags=re.S)):
            runs[-1][1] += token[1:-1]
        else:
            runs.append([text.count("\n", 0, match.start()) + 1, token[1:-1]])
        end = match.end()
    return runs


def is_sql(text):
    """It begins as a statement does, or has as many words of SQL as of a sentence."""
    return SQL.match(text) is not None or ("|" not in text and len(SQL_WORD.findall(text)) > len(PROSE.findall(text)))


def is_message(text):
    return WORDS.search(text) is not None and not is_sql(text) and re.search("::[a-z]", text) is None and '#include' not in text


def messages(path):
    with open(path, encoding="utf-8") as file:
        for line, text in literals(file.read()):
            if is_message(text):
                yield line, text.replace("\\n", "\n").replace('\\"', '"').strip("\n")


RAISED = re.compile(r"\bRAISE\s*(?:EXCEPTION|NOTICE|WARNING|\(\s*ABORT\s*,)\s*'((?:[^']|'')*)'")


def raised(paths):
    """(path, line, text) of what is raised; migrations repeat the functions before them: a text is at its last place."""
    last = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            source = file.read()
        for match in RAISED.finditer(source):
            text = match.group(1).replace("''", "'")
            last.pop(text, None)
            last[text] = (path, source.count("\n", 0, match.start()) + 1, text)
    return [entry for entry in last.values() if is_message(entry[2])]


def wrong_words(text):
    return ["%s: write %s" % (found.group(0), better) for rule, better in STYLE for found in [rule.search(text)] if found]


def sources(root, endings):
    if os.path.isfile(root):
        yield root
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in ("adr", "node_modules", "__pycache__"))
        for name in sorted(names):
            if name.endswith(endings):
                yield os.path.join(folder, name)


def prose(path):
    """(line, text) of each line."""
    with open(path, encoding="utf-8") as file:
        return [(at + 1, line.strip()) for at, line in enumerate(file)]


def self_test():
    source = ('f("the first" /* x */\n  " message\\n");\ng("SELECT a FROM b", "%s", "id");\nh("%s wants a name");\n'
              'ASSERT(a == b || "never so");\n_Static_assert(1,\n   "it is so");\nk(" FOR UPDATE OF b", ", v.place IS NULL");\n')
    found = [(line, text) for line, text in literals(source) if is_message(text)]
    if found != [(1, "the first message\\n"), (4, "%s wants a name")]:
        sys.exit("self test: found %r" % found)
    if [wrong_words(text) for _, text in found] != [[], ['wants: write "needs"']]:
        sys.exit("self test: the style is not checked")
    for text, wrong in (("there is no box, and it is no longer full", 0), ("it is no box", 1), ("a time that is none", 1), ("made anew", 1),
                        ("run lately", 1), ("an instance works the box", 1), ("they wait for ever", 1), ("for so long", 1)):
        if len(wrong_words(text)) != wrong:
            sys.exit("self test: %r gave %r" % (text, wrong_words(text)))
    with tempfile.TemporaryDirectory() as folder:
        for name, sql in (("001_a.sql", "RAISE NOTICE 'the name is gone';\nRAISE EXCEPTION '%', x;"),
                          ("002_b.sql", "SELECT 1;\nSELECT RAISE(ABORT, 'the ''old'' name is gone');\nRAISE NOTICE 'the name is gone';")):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(sql)
        found = [(os.path.basename(path), line, text) for path, line, text in raised(sources(folder, (".sql",)))]
        if found != [("002_b.sql", 2, "the 'old' name is gone"), ("002_b.sql", 3, "the name is gone")]:
            sys.exit("self test: raised %r" % found)
    print("self test: 2 messages, 2 of SQL, 8 sentences")
    return 0


def show(path, line, text, wrong):
    for what in wrong:
        print("%s:%d: %s\n    %s" % (path, line, what, text.replace("\n", "\n    ")))


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    check = sys.argv[2:3] == ["--check"]
    count = bad = 0
    found = [(path, line, text) for path in sources(sys.argv[1], (".c", ".h")) for line, text in messages(path)]
    for path, line, text in found + raised(sources(sys.argv[1], (".sql",))):
        count += 1
        wrong = wrong_words(text) if check else []
        bad += bool(wrong)
        if not check:
            print("%s:%d: %s" % (path, line, text.replace("\n", "\n    ")))
        show(path, line, text, wrong)
    for root in BESIDE if check else []:
        for path in sources(os.path.join(os.path.dirname(os.path.abspath(sys.argv[1])), root), (".md", ".h", ".c", ".py", ".mjs", ".ts", ".sql", ".sh", ".yaml")):
            for line, text in prose(path):
                wrong = wrong_words(text)
                bad += bool(wrong)
                show(path, line, text, wrong)
    print("%d messages%s" % (count, ", %d texts with words to replace" % bad if check else ""), file=sys.stderr)
    return 1 if check and bad else 0


if __name__ == "__main__":
    sys.exit(main())
