#!/usr/bin/env python3
"""Writes the tables of README.md and docs/performance.md from the JSON of a run: nothing in them is typed by hand.

bench/report.py RESULT.json              prints the tables
bench/report.py RESULT.json --write      puts them between the markers of the pages, and the plot beside them
"""

import argparse
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench"))

import training  # noqa: E402

BEGIN, END = "<!-- {}: written by bench/report.py -->\n", "<!-- end of {} -->"


def ratio_cell(r):
    return f"**{r['ratio']:.2f}x** [{r['low']:.2f}, {r['high']:.2f}]" if r else ""


def rows(result):
    """(title, precision, ours in ms, PyTorch's best mode, its ms, ratio, why there is none) of each workload."""
    for w in result["workloads"].values():
        for precision, ours in (("f32", "mantissa"), ("bf16", "mantissa-bf16")):
            if ours not in w["sides"]:
                continue
            best = training.best_peer(w, precision)
            ratio = w["ratios"].get(f"{ours} / {best}")
            failed = w["sides"][ours]["failed"] or ("" if ratio else "not measured")
            ms = w["sides"][ours]["ms"]
            yield w["title"], precision, ms and ms["median"], best, best and w["sides"][best]["ms"][
                "median"
            ], ratio, failed, w.get("busy")


def milliseconds(t):
    return "" if t is None else f"{t:.3f}" if t < 10 else f"{t:.1f}"


def results(result):
    lines = [
        "| workload | | Mantissa, ms | PyTorch, ms | its fastest mode | ratio, 95 % interval |",
        "|---|---|---|---|---|---|",
    ]
    busy = False
    for title, precision, ours, best, theirs, ratio, failed, disturbed in rows(result):
        mark = " (busy machine)" if disturbed else ""
        last = f"none: {failed}" if failed else ratio_cell(ratio) + mark
        lines.append(
            f"| {title} | {precision} | {milliseconds(ours)} | {milliseconds(theirs)} | {best or ''} | {last} |"
        )
        busy = busy or disturbed
    return "\n".join(lines) + "\n\n" + source(result) + "\n"


def source(result):
    m = result["meta"]
    text = f"{m['cpu']}, {len(m['cores'])} cores, PyTorch {m.get('torch', '?')}, commit {m['commit'][:10]}{' with changes' if m['changed'] else ''}, {m['date'][:10]}"
    return text + (", a quick run: few samples, no compiled mode." if m["quick"] else ".")


TABLES = {"results": results}
PAGES = {"README.md": ("results",), "docs/performance.md": ("results",)}


def put(text, name, table):
    """Between the markers of `name`; a page without them stays as it is."""
    begin, end = BEGIN.format(name), END.format(name)
    if begin not in text or end not in text:
        return text
    head, rest = text.split(begin, 1)
    return head + begin + table + end + rest.split(end, 1)[1]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("result")
    p.add_argument("--write", action="store_true")
    args = p.parse_args()
    with open(args.result) as f:
        result = json.load(f)
    tables = {name: make(result) for name, make in TABLES.items()}
    if not args.write:
        print("\n".join(tables.values()))
        return
    for page, names in PAGES.items():
        path = os.path.join(ROOT, page)
        with open(path) as f:
            text = old = f.read()
        for name in names:
            text = put(text, name, tables[name])
        if text != old:
            with open(path, "w") as f:
                f.write(text)
            print(f"wrote {page}")


if __name__ == "__main__":
    main()
