#!/usr/bin/env python3
"""report.py RESULTS.jsonl... [--pictures FOLDER] [--into PAGE]: the results of peers.py as Markdown on stdout, and a plot (SVG) for each measure.

With --into PAGE the Markdown takes the place of what stands between the two comments of that page that name this program, and the
pictures go beside it.  Of several files the later ones replace what the earlier ones have of the same measure.
"""
import argparse
import json
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from plots import bars, number  # noqa: E402

# measure: title, what the value is, is more better?, what Postrider aims at in which columns, columns beside it
MEASURES = {
    "drain": ("Draining a backlog", "messages a second, from the start of the process", True, {"value": 160_000},
              [("cpu_us", "processor, µs a message"), ("memory_mb", "memory, MB"), ("messages", "messages")]),
    "latency": ("Commit to handler, 100 a second", "milliseconds, half of them are faster", False, {"value": 0.6, "p99": 2},
                [("p99", "99 of 100, ms")]),
    "flow": ("Eight clients, one message in each transaction", "messages a second that were sent", True, {},
             [("handled", "handled meanwhile, a second")]),
    "idle": ("Nothing to do", "statements a second", False, {"value": 1}, []),
    "held": ("Somebody holds an old snapshot", "rate of the last quarter, as a share of the first", True, {},
             [("first", "sent in the first, a second"), ("last", "in the last"), ("kept", "handled, as a share of what was sent")]),
    "stuck": ("100,000 messages behind two failed heads", "messages a second of the others", True, {},
              [("cpu_us", "processor, µs a message")]),
}
KEEPS_UP = 0.9  # of what is sent is handled meanwhile
PLACE = re.compile(r"(<!-- peers: made by bench/peers/report.py -->\n).*?(<!-- /peers -->)", re.S)


def label(line):
    return line["peer"] if line["setting"] == "default" else f"{line['peer']} ({line['setting']})"


def handled_share(line):
    """Of what was sent meanwhile; None: nothing was."""
    return {"flow": (line.get("handled") or 0) / (line["value"] or 1), "held": line.get("kept") or 0}.get(line["measure"])


def falls_behind(line):
    """Its senders are faster than its worker: the backlog grows."""
    share = handled_share(line)
    return share is not None and share < KEEPS_UP


def ranked(measure, lines):
    """The best first; what has no value, and why, at the end."""
    sign = -1 if MEASURES[measure][2] else 1
    return sorted(lines, key=lambda line: (line["value"] is None, sign * (line["value"] or 0)))


def beside(line):
    if line["value"] is None:
        return line["why"]
    return number(line["value"]) + (f", falls behind: handles {handled_share(line):.0%}" if falls_behind(line) else "")


def plot(measure, lines):
    title, unit = MEASURES[measure][:2]
    return bars(f"{title}: {unit}", [(label(l), l["value"], beside(l), l["peer"] == "postrider") for l in ranked(measure, lines)])


def cells(line, columns):
    if line["value"] is None:
        return [line["why"], *("" for _ in columns), ""]
    return [number(line["value"]), *(number(line.get(key)) for key, _ in columns), ", ".join(map(number, line["rounds"]))]


def table(measure, lines):
    columns = MEASURES[measure][4]
    head = ["", MEASURES[measure][1], *(name for _, name in columns), "all rounds"]
    rows = [[label(line), *cells(line, columns)] for line in ranked(measure, lines)]
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in rows)])


def verdict(measure, lines):
    """What Postrider does not reach: its own goal, and those that are better and keep up."""
    _, unit, more, goals, columns = MEASURES[measure]
    ours = next((line for line in lines if line["peer"] == "postrider" and line["value"] is not None), None)
    if ours is None:
        return "Postrider was not measured."
    said = []
    for key, bound in goals.items():
        reached = ours[key] >= bound if more else ours[key] <= bound
        name = dict(columns).get(key, unit)
        said.append(f"Postrider's goal, {number(bound)} ({name}), is {'reached' if reached else 'not reached'}: {number(ours[key])}.")
    better = [l for l in ranked(measure, lines) if l["value"] is not None and l["peer"] != "postrider" and not falls_behind(l)
              and (l["value"] > ours["value"] if more else l["value"] < ours["value"])]
    said.append("Better than Postrider: " + ", ".join(label(line) for line in better) + "." if better else "None is better than Postrider.")
    behind = [label(line) for line in lines if line["value"] is not None and falls_behind(line)]
    if behind:
        said.append("Senders faster than the worker, so that the backlog grows: " + ", ".join(behind) + ".")
    return " ".join(said)


def about(machine, measures):
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    return (f"{', '.join(measures)}: {machine['date']}, commit {machine['commit']}, {machine['cores']} cores, Linux {machine['kernel']}, load "
            f"{machine['load']:.1f} at the start, PostgreSQL {machine['postgresql'].split(' ')[0]}, "
            f"{(machine['redis'] or 'no Redis').split(' sha')[0]}, {machine['beanstalkd'] or 'no beanstalkd'}, Node {machine['node']}, {packages}. "
            f"`./dev bench peers {machine['arguments']}`" + (f" ({machine['note']})" if machine.get("note") else "") + ".")


def read(sources):
    """Of each measure its machine and its lines, from the last file that has it."""
    found = {}
    for source in sources:
        lines = [json.loads(line) for line in Path(source).read_text(encoding="utf-8").splitlines()]
        machine = next((line["machine"] for line in lines if "machine" in line), None)
        if machine is None:
            sys.exit(f"report.py: {source} has no results of peers.py: it does not tell the machine")
        for measure in {line["measure"] for line in lines if "measure" in line}:
            found[measure] = (machine, [with_quarters(line) for line in lines if line.get("measure") == measure])
    return found


def with_quarters(line):
    return {**line, "first": line["rates"][0], "last": line["rates"][-1]} if line.get("rates") else line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+")
    parser.add_argument("--pictures", type=Path, help="a folder for the plots (default: of the page, or this one)")
    parser.add_argument("--into", type=Path, help="the page that the Markdown is written into")
    arguments = parser.parse_args()
    folder = arguments.pictures or (arguments.into.parent if arguments.into else Path())
    results, said = read(arguments.results), []
    for machine in {id(m): m for m, _ in results.values()}.values():
        said += [about(machine, [measure for measure in MEASURES if measure in results and results[measure][0] is machine]), ""]
    for measure, (title, *_) in MEASURES.items():
        said += [f"### {title}", ""]
        if measure not in results:
            said += ["Not measured in this run.", ""]
            continue
        lines = results[measure][1]
        (folder / f"peers-{measure}.svg").write_text(plot(measure, lines), encoding="utf-8")
        said += [f"![{title}](peers-{measure}.svg)", "", table(measure, lines), "", verdict(measure, lines), ""]
    if arguments.into is None:
        print("\n".join(said))
        return
    page = arguments.into.read_text(encoding="utf-8")
    if not PLACE.search(page):
        sys.exit(f"report.py: {arguments.into} has no place for it: <!-- peers: made by bench/peers/report.py --> ... <!-- /peers -->")
    filled = PLACE.sub(lambda m: m.group(1) + "\n" + "\n".join(said) + "\n" + m.group(2), page)
    arguments.into.write_text(filled, encoding="utf-8")


main()
