#!/usr/bin/env python3
"""report.py RESULTS.jsonl FOLDER: the results of peers.py as FOLDER/peers.md, with a plot (SVG) for each measure."""
import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from plot import LABEL, OTHERS, OURS, ROW, TEXT, WIDTH, bar, heading, number, picture  # noqa: E402

TITLES = {
    "drain": ("Draining a backlog", "messages a second, from the start of the process", True),
    "latency": ("Commit to handler, 100 a second", "milliseconds, half of them are faster", False),
    "flow": ("Eight clients, one message in each transaction", "messages a second that were sent", True),
    "idle": ("Nothing to do", "statements a second", False),
    "held": ("Somebody holds an old snapshot", "rate of the last quarter, as a share of the first", True),
    "stuck": ("100,000 messages behind two failed heads", "messages a second of the others", True),
}
COLUMNS = {
    "drain": [("cpu_us", "processor, µs a message"), ("memory_mb", "memory, MB"), ("messages", "messages")],
    "latency": [("p99", "99 of 100, ms")],
    "flow": [("handled", "handled meanwhile, a second")],
    "stuck": [("cpu_us", "processor, µs a message")],
}


def label(line):
    return line["peer"] if line["setting"] == "default" else f"{line['peer']}, {line['setting']}"


def plot(measure, lines):
    title, unit, _ = TITLES[measure]
    shown = [line for line in lines if line["value"] is not None]
    most = max((line["value"] for line in shown), default=0) or 1
    parts = [heading(f"{title}: {unit}")]
    for i, line in enumerate(shown):
        color = OURS if line["peer"] == "postrider" else OTHERS
        parts.append(bar(34 + ROW * i, label(line), 0, WIDTH * line["value"] / most, number(line["value"]), color))
    return picture(title, LABEL + WIDTH + TEXT, 40 + ROW * len(shown), parts)


def table(measure, lines):
    columns = COLUMNS.get(measure, [])
    out = ["| | " + " | ".join([TITLES[measure][1], *(name for _, name in columns), "all rounds"]) + " |",
           "|---|" + "---|" * (len(columns) + 2)]
    best_first = TITLES[measure][2]
    for line in sorted(lines, key=lambda l: (l["value"] is None, (l["value"] or 0) * (-1 if best_first else 1))):
        if line["value"] is None:
            out.append(f"| {label(line)} | {line['why']} |" + " |" * (len(columns) + 1))
            continue
        cells = [number(line["value"]), *(number(line.get(key)) for key, _ in columns), ", ".join(map(number, line["rounds"]))]
        out.append(f"| {label(line)} | " + " | ".join(cells) + " |")
    return "\n".join(out)


def main():
    source, folder = sys.argv[1], Path(sys.argv[2])
    lines = [json.loads(line) for line in Path(source).read_text(encoding="utf-8").splitlines()]
    machine = next(line["machine"] for line in lines if "machine" in line)
    results = [line for line in lines if "measure" in line]
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    text = [
        "# Postrider beside other queues", "",
        "Made by `bench/peers/report.py` from the results of `./dev bench peers`. Each queue at the settings that its documentation "
        "begins with (its name alone) and at the fastest that it documents (`best`); `bench/peers/` has them, each with its reason. Sender, "
        "worker and server share one machine.", "",
        f"{machine['date']}, commit {machine['commit']}, {machine['cores']} cores, Linux {machine['kernel']}, load {machine['load']:.1f} at the "
        f"start, PostgreSQL {machine['postgresql']}, {machine['redis'].split(' sha')[0]}, {machine['beanstalkd']}, Node {machine['node']}, "
        f"{packages}.", "",
    ]
    for measure in TITLES:
        of_it = [line for line in results if line["measure"] == measure]
        if not of_it:
            continue
        (folder / f"peers-{measure}.svg").write_text(plot(measure, of_it), encoding="utf-8")
        text += [f"## {TITLES[measure][0]}", "", f"![{TITLES[measure][0]}](peers-{measure}.svg)", "", table(measure, of_it), ""]
    (folder / "peers.md").write_text("\n".join(text), encoding="utf-8")


main()
