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


def only_proven(result):
    """What broke off before its proofs has no times and no ratios here."""
    for w in result.get("workloads", {}).values():
        if "unproven" in w:
            w["ratios"] = {}
            for side in w["sides"].values():
                side.update(ms=None, failed=side["failed"] or f"not proven ({w['unproven']})")
    return result


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


def number(t):
    return "" if t is None else f"{t:.3f}" if t < 10 else f"{t:.1f}" if t < 1000 else f"{t:.0f}"


def results(result):
    lines = [
        "| workload | | Mantissa, ms | PyTorch, ms | its fastest mode | ratio, 95 % interval |",
        "|---|---|---|---|---|---|",
    ]
    busy = False
    for title, precision, ours, best, theirs, ratio, failed, disturbed in rows(result):
        mark = " (busy machine)" if disturbed else ""
        last = f"none: {failed}" if failed else ratio_cell(ratio) + mark
        lines.append(f"| {title} | {precision} | {number(ours)} | {number(theirs)} | {best or ''} | {last} |")
        busy = busy or disturbed
    return "\n".join(lines) + "\n\n" + source(result) + "\n"


def source(result):
    m = result["meta"]
    changed = " with changes" if m["changed"] else ""
    text = f"{m['cpu']}, {len(m['cores'])} cores, PyTorch {m.get('torch', '?')}"
    text += f", commit {m['commit'][:10]}{changed}, {m['date'][:10]}"
    return text + (", a quick run: few samples, no compiled mode." if m["quick"] else ".")


def table(head, rows):
    return (
        "\n".join(
            ["| " + " | ".join(head) + " |", "|---" * len(head) + "|", *("| " + " | ".join(r) + " |" for r in rows)]
        )
        + "\n"
    )


def modes(result):
    """The ratios to each mode of PyTorch in the same precision, and of mixed precision to our own f32."""
    columns = {
        "eager": ("eager", "amp"),
        "channels-last": ("eager-nhwc", "amp-nhwc"),
        "compiled": ("compile", "compile-amp"),
        "captured graph": ("cudagraph", "cudagraph-amp"),
        "Mantissa f32": ("", "mantissa"),
    }
    used = {t: p for t, p in columns.items() if any(n in w["sides"] for w in result["workloads"].values() for n in p)}
    lines = []
    for w in result["workloads"].values():
        for i, ours in enumerate(("mantissa", "mantissa-bf16")):
            if ours in w["sides"] and not w["sides"][ours]["failed"]:
                cells = [plain(w["ratios"].get(f"{ours} / {pair[i]}")) for pair in used.values()]
                lines.append([w["title"], training.precision_of(ours), *cells])
    text = table(["times as fast as", "", *used], lines)
    sides = [(n, s) for w in result["workloads"].values() for n, s in w["sides"].items() if s.get("first_step")]
    compiled = [s["first_step"] for n, s in sides if n.startswith("compile")]
    own = [s["first_step"] for n, s in sides if training.ours(n)]
    if compiled and own:
        text += (
            f"\nThe first step took PyTorch's compiled modes {number(min(compiled))} to {number(max(compiled))} s "
        )
        text += f"(less where its cache was filled), Mantissa {number(min(own))} to {number(max(own))} s.\n"
    left = [
        f"{n} {number(1e3 * t)} ms ({w['title']})"
        for w in result["workloads"].values()
        for n, t in w.get("left_out", {}).items()
    ]
    if left:
        text += (
            "\nOver twice as slow as another mode in the first steps, and given no turns: " + ", ".join(left) + ".\n"
        )
    return text


def plain(r):
    return f"{r['ratio']:.2f}x" if r else ""


def proof_table(result):
    lines = []
    for w in result["workloads"].values():
        for side, s in w["sides"].items():
            if training.ours(side) and s["proofs"]:
                p = s["proofs"]
                lines.append(
                    [
                        w["title"],
                        training.precision_of(side),
                        s["failed"] or "; ".join(p[k] for k in ("2", "3", "4", "6", "7 end") if k in p),
                    ]
                )
    return table(["workload", "", "what was proven (2, 3, 4, 6, 7)"], lines)


def memory_table(result):
    lines = []
    for w in result["workloads"].values():
        for ours, theirs in (("mantissa", "eager"), ("mantissa-bf16", "amp")):
            m, t = w.get("memory", {}).get(ours), w.get("memory", {}).get(theirs)
            if m and t:
                beyond, peak = ([f"{x[k] / 1e6:.0f}" for x in (m, t)] for k in ("beyond", "peak"))
                ratio, first = f"{m['beyond'] / t['beyond']:.2f}x", [f"{x['to_first_step']:.2f}" for x in (m, t)]
                lines.append([w["title"], training.precision_of(ours), *beyond, ratio, *peak, *first])
    head = [
        "workload",
        "",
        "Mantissa, MB",
        "PyTorch, MB",
        "ratio",
        "whole process, MB",
        "PyTorch's",
        "first step after, s",
        "PyTorch's",
    ]
    return table(head, lines) + "\n" + source(result) + "\n" if lines else ""


def operator_table(result):
    lines = []
    for name, r in result.get("operators", {}).items():
        lines.append([name, number(r["us"]["mantissa"]), number(r["us"]["eager"]), ratio_cell(r["ratio"])])
    if not lines:
        return ""
    head = ["operator", "Mantissa, us", "eager PyTorch, us", "ratio, 95 % interval"]
    return f"{table(head, lines)}\n{source(result)}\n"


def size_table(result):
    s = result.get("sizes")
    if not s:
        return ""
    lines = [
        ["library", "libmantissa.so", f"{s['library'] / 1e6:.1f} MB"],
        ["a program that links it", "mantissa_bench", f"{s['program'] / 1e6:.1f} MB"],
        ["PyTorch's libraries", "libtorch_cpu and what it needs", f"{s['torch'] / 1e6:.1f} MB"],
    ]
    if "compile_seconds" in result:
        lines.append(["time to compile a model", "the program of README.md", f"{result['compile_seconds']:.2f} s"])
    return table(["stripped", "", ""], lines)


def plot(result, path):
    """Bars of the ratio to PyTorch's fastest mode with their intervals. False without matplotlib."""
    try:
        import matplotlib

        matplotlib.use("svg")
        import matplotlib.pyplot as plt
    except ImportError:
        return False
    matplotlib.rcParams.update({"svg.hashsalt": "mantissa", "svg.fonttype": "none", "font.size": 9})
    found = [r for r in rows(result) if r[5]]
    figure, axes = plt.subplots(figsize=(8, 0.33 * len(found) + 1))
    for i, (title, precision, _, best, _, ratio, _, _) in enumerate(found):
        color = "#3b6ea5" if precision == "f32" else "#c9772b"
        spread = [[ratio["ratio"] - ratio["low"]], [ratio["high"] - ratio["ratio"]]]
        axes.barh(i, ratio["ratio"], xerr=spread, color=color, error_kw={"elinewidth": 1, "capsize": 2})
        axes.text(ratio["high"] + 0.05, i, f"{ratio['ratio']:.2f}x  ({best})", va="center", fontsize=8)
    axes.set_yticks(range(len(found)), [f"{r[0]}, {r[1]}" for r in found])
    axes.invert_yaxis()
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlim(0, max([r[5]["high"] for r in found] + [1]) * 1.25)
    axes.set_xlabel("times as fast as PyTorch's fastest mode, 95 % interval")
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    return True


TABLES = {
    "results": results,
    "modes": modes,
    "operators": operator_table,
    "memory": memory_table,
    "sizes": size_table,
    "proofs": proof_table,
}
# The part of a result that a table is made of; else its workloads.
PARTS = {"operators": "operators", "sizes": "sizes", "memory": "memory"}
PAGES = {"README.md": ("results",), "docs/performance.md": tuple(TABLES)}


def put(text, name, table):
    """Between the markers of `name`; a page without them stays as it is."""
    begin, end = BEGIN.format(name), END.format(name)
    if begin not in text or end not in text:
        return text
    head, rest = text.split(begin, 1)
    return head + begin + table + end + rest.split(end, 1)[1]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("result", nargs="+", help="what several hold, as of --parts operators, is taken from the last")
    p.add_argument("--write", action="store_true")
    args = p.parse_args()
    results = []
    for path in args.result:
        with open(path) as f:
            results.append(only_proven(json.load(f)))

    def has(result, part):
        if part == "memory":  # measured with the workloads, or not
            return any(w.get("memory") for w in result.get("workloads", {}).values())
        return result.get(part)

    def last_with(part):
        return next((r for r in reversed(results) if has(r, part)), results[0])

    tables = {name: make(last_with(PARTS.get(name, "workloads"))) for name, make in TABLES.items()}
    if not args.write:
        print("\n".join(tables.values()))
        return
    if not plot(last_with("workloads"), os.path.join(ROOT, "docs/performance.svg")):
        print("no plot: matplotlib is missing (bench/requirements.txt)", file=sys.stderr)
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
