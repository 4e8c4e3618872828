#!/usr/bin/env python3
"""timeline.py RESULTS.jsonl PICTURE.svg: the results of ./dev bench timeline as a picture."""
import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True
from plots import FAINT, OTHERS, OURS, ROW, bar, number, picture, text  # noqa: E402

TITLE = "The way of one message, in milliseconds since its INSERT began"
LABEL, WIDTH, WORDS = 300, 420, 120
# Until which hop, and whose time it is.  What is read and announced in one cycle has no hop in between.
STEPS = [
    ("committed", "INSERT and COMMIT, until they return", OTHERS),
    ("woken", "until the relay begins a cycle", OURS),
    ("read", "read, commit", OURS),
    ("announced", "receipt, commit", OURS),
    ("handled", "until the handler is called", OURS),
    ("judged", "the handler, until a cycle has its result", OURS),
    ("ended", "verdict, commit", OURS),
]
SAME_MS = 0.02  # medians of two hops that are one
STORES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}


def steps_of(store, results):
    """(label, begin, end, color) of each, by the medians."""
    at = {hop: results.get(f"timeline_{store}_{hop}_p50", 0) for hop, _, _ in STEPS}
    steps, begin = [], 0
    for hop, label, color in STEPS:
        if hop == "read" and at["announced"] - at["read"] < SAME_MS:
            continue
        if hop == "announced" and at["announced"] - at["read"] < SAME_MS:
            label = "read and receipt, commit"
        steps.append((label, begin, max(begin, at[hop]), color))
        begin = max(begin, at[hop])
    return steps


def main():
    lines = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    machine = next(line["machine"] for line in lines if "machine" in line)
    results = {line["name"]: line["value"] for line in lines if "name" in line}
    stores = [store for store in STORES if f"timeline_{store}_ended_p50" in results]
    most = max(results[f"timeline_{store}_ended_p50"] for store in stores)
    parts, y = [], 34
    for store in stores:
        version = machine["sqlite"] if store == "sqlite" else machine["postgresql"].split(" ")[0]
        handled = results[f"timeline_{store}_handled_p50"] - results[f"timeline_{store}_committed_p50"]
        parts.append(text(8, y + 15, f"{STORES[store]} {version}: {number(handled)} ms from the return of the COMMIT to the handler",
                          bold=True))
        y += ROW
        for label, begin, end, color in steps_of(store, results):
            words = f"{number(end - begin)}, at {number(end)}"
            parts.append(bar(y, LABEL, label, WIDTH * begin / most, WIDTH * (end - begin) / most, words, color))
            y += ROW
        y += ROW // 2
    caption = [f"Medians of {machine['messages']} messages, 100 a second; grey: the sender's time, blue: the relay's. {machine['date']}, "
               f"{machine['command']}.",
               f"{machine['processor']}, {machine['cores']} cores, Linux {machine['kernel']}, load {machine['load']:.1f} at the start."]
    for line in caption:
        parts.append(text(8, y + 12, line, color=FAINT))
        y += 20
    Path(sys.argv[2]).write_text(picture(TITLE, LABEL + WIDTH + WORDS, y + 8, parts), encoding="utf-8")


main()
