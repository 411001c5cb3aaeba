#!/usr/bin/env python3
"""The report of scripts/gpu.sh, from what its stages left: report.txt and report.json.

    scripts/gpu_report.py FOLDER      BUILD/report of scripts/gpu.sh; needs the standard library alone

Read are machine.txt (lines "name: value"), order.txt (stages in their order), stages/NAME (result, seconds), the logs
NAME.log and what the benchmark wrote, NAME.json. What must be shown on a GPU is one line each: what was measured, or
"not measured".
"""

import json
import os
import re
import sys

NONE = "not measured"
CIFAR_ROWS = 50_000  # of an epoch


class Folder:
    def __init__(self, path):
        self.path = path

    def text(self, name):
        try:
            with open(os.path.join(self.path, name), errors="replace") as f:
                return f.read()
        except OSError:
            return ""

    def result(self, stage):
        """passed, failed ..., or "" where the stage has not run to its end."""
        found = self.text(f"stages/{stage}").partition("\n")[0]
        return found if found.startswith(("passed", "failed", "timed out")) else ""

    def workload(self, stage, name):
        try:
            return json.loads(self.text(f"{stage}.json"))["workloads"].get(name)
        except (ValueError, KeyError):
            return None


def verdict(folder, stages):
    """None where one of the stages has not run."""
    results = [folder.result(s) for s in stages]
    if not all(results):
        return None
    bad = [f"{s}: {r}" for s, r in zip(stages, results) if r != "passed"]
    return "; ".join(bad) or "passed"


def registry(folder):
    log = folder.text("gpu_registry_test.log")
    found = re.findall(r"^operators on cuda: (\d+) of (\d+)", log, re.M)
    parts = len(re.findall(r"^== part \d+ of \d+ ==$", log, re.M))
    result = folder.result("gpu_registry_test")
    if not result or not found:
        return result or None
    lost = f", of {parts - len(found)} of {parts} parts nothing is known" if parts > len(found) else ""
    return f"{result}, {sum(int(a) for a, _ in found)} of {sum(int(b) for _, b in found)} operators{lost}"


def sanitizers(folder):
    parts = []
    for tool in ("memcheck", "racecheck", "initcheck", "synccheck"):
        log = folder.text(f"sanitizer_{tool}.log")
        summaries = re.findall(r"(?:ERROR SUMMARY|RACECHECK SUMMARY): (\d+)", log)
        if folder.result(f"sanitizer_{tool}"):
            parts.append(f"{tool} {summaries[-1] if summaries else folder.result(f'sanitizer_{tool}')}")
    return ", ".join(parts) or None


def sides(workload):
    """Median milliseconds of each side that failed no proof."""
    return {s: v["ms"]["median"] for s, v in workload["sides"].items() if v["ms"] and not v["failed"]}


def best(times, names):
    found = [(times[n], n) for n in times if n in names]
    return min(found) if found else None


def failure(side):
    """The proof that a side failed, and how fast it was until then."""
    ms = side["ms"]
    return f"{side['failed']}" + (f" ({ms['median']:.4f} ms a step until then)" if ms else "")


OURS = ("mantissa-graph-bf16", "mantissa-bf16")
COMPILED = ("compile-amp", "cudagraph-amp", "compile-cudagraph-amp")


def training(folder, name, what):
    """what(workload, our ms) -> text about ourselves."""
    w = folder.workload(f"bench_{name}", name)
    if not w:
        return None
    times = sides(w)
    mine = best(times, OURS)
    if not mine:
        return "no proven time: " + "; ".join(f"{s}: {failure(w['sides'][s])}" for s in OURS if s in w["sides"])
    parts = []
    for label, names in (("eager AMP", ("amp", "amp-nhwc")), ("best compiled", COMPILED)):
        peer = best(times, names)
        ratio = peer and w["ratios"].get(f"{mine[1]} / {peer[1]}")
        parts.append(f"{label} {ratio['ratio']:.2f}x ({peer[1]})" if ratio else f"{label} {NONE}")
    busy = ", on a busy machine" if w.get("busy") else ""
    unproven = f", NOT PROVEN ({w['unproven']})" if "unproven" in w else ""
    return f"{' / '.join(parts)}; {mine[1]} {what(w, mine[0])}{busy}{unproven}"


def milliseconds(_, ms):
    return f"{ms:.4f} ms a step"


def epoch(w, ms):
    return f"{ms * CIFAR_ROWS / w['items_per_step'] / 1e3:.2f} s an epoch ({ms:.2f} ms a step)"


def tokens(w, ms):
    return f"{w['items_per_step'] / ms:.0f}k tokens/s"


def products(folder):
    line = r"gemm (\S+) +(\d+)  best own kernel .* against best cuBLASLt plan .*: ([\d.]+x \[[\d., ]+\])"
    found = re.findall(line, folder.text("bench_kernels.log"))
    return ", ".join(f"{d} {n}: {r}" for d, n, r in found) or None


def shares(folder):
    """Of copy bandwidth, per cent."""
    names = "layer norm backward|softmax|softmax backward|cross entropy|cross entropy backward|Adam"
    wanted = rf"^((?:{names}) (?:f32|f16|bf16)) .*?([\d.]+) % of copy"
    return ", ".join(f"{n} {s} %" for n, s in re.findall(wanted, folder.text("bench_kernels.log"), re.M)) or None


def host(folder):
    found = re.search(r"host time, add, recorded +([\d.]+) us", folder.text("bench_kernels.log"))
    return f"{found[1]} us" if found else None


def memory(folder):
    w = folder.workload("bench_gpt2", "gpt2")
    found = (w or {}).get("memory", {})
    theirs = found.get("amp", {}).get("reserved")
    if not theirs:
        return None
    ours = [(s, found[s]["reserved"]) for s in OURS if s in found]
    ours = [f"{s} {bytes / theirs:.2f}x ({bytes / 1e9:.2f} GB)" for s, bytes in ours]
    return ", ".join(ours) + f" of {theirs / 1e9:.2f} GB" if ours else None


# what, must, aim, how it is found. Rows without a function are shown elsewhere: they need no GPU.
ROWS = (
    ("registry operators with CUDA kernels passing under the shim", "100 %", "", None),
    ("shim under ASan and TSan", "0 reports", "", None),
    ("kernels with spills", "0 unlisted", "", lambda f: verdict(f, ["resources"])),
    ("CI from a clean clone on two cores", "60 min", "35 min", None),
    ("registry, CPU against CUDA, on a GPU", "100 %", "", registry),
    ("sanitizer reports on a GPU", "0", "", sanitizers),
    ("captured steps bitwise the eager ones on a GPU", "yes", "", lambda f: verdict(f, ["gpu_capture_test"])),
    ("MNIST MLP batch 128", "10x / 1.2x", "15x / 2x", lambda f: training(f, "mlp128", milliseconds)),
    ("MNIST CNN batch 128", "5x / 1.3x", "8x / 2x", lambda f: training(f, "cnn", milliseconds)),
    ("CIFAR ResNet-18 epoch, batch 512", "2x / 1.25x", "3x / 1.8x", lambda f: training(f, "resnet512", epoch)),
    ("GPT-2 124M, bf16, T=1024", "1.8x / 1.1x", "2.3x / 1.3x, 650k tokens/s", lambda f: training(f, "gpt2", tokens)),
    ("products: own kernel against cuBLASLt's best plan", "0.95x", "1.03x", products),
    ("share of copy bandwidth", "80 %", "90 %", shares),
    ("host time of a recorded eager operator", "4 us", "2.5 us", host),
    ("peak reserved memory, GPT-2 124M, against eager AMP", "0.6x", "0.4x", memory),
)


def table(folder):
    rows = []
    for what, must, aim, find in ROWS:
        try:
            found = find(folder) if find else None
        except Exception as e:  # a log that ends in the middle costs its own row
            found = f"{NONE}: {type(e).__name__}: {e}"
        rows.append({"what": what, "must": must, "aim": aim, "measured": found or NONE})
    return rows


def stages(folder):
    for name in folder.text("order.txt").split():
        lines = folder.text(f"stages/{name}").splitlines()
        if len(lines) >= 2:
            yield {"name": name, "result": lines[0], "seconds": int(lines[1])}


def excerpt(folder, name):
    """The lines of a log that say how fast something is, or how much was tested."""
    telling = re.compile(r"^operators on cuda|test cases|assertions|^ *[a-zA-Z].*\b\d.*(us|ms|/s|GB|MB|x)\b")
    return [line for line in folder.text(f"{name}.log").splitlines() if telling.search(line)][-200:]


def write(path, text):
    with open(path + ".new", "w") as f:
        f.write(text)
    os.replace(path + ".new", path)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Folder(sys.argv[1])
    machine = dict(line.split(": ", 1) for line in folder.text("machine.txt").splitlines() if ": " in line)
    done, rows = list(stages(folder)), table(folder)
    write(os.path.join(sys.argv[1], "report.json"), json.dumps(dict(machine, stages=done, table=rows), indent=1) + "\n")
    lines = [f"{name + ':':<20} {value}" for name, value in machine.items()] + [""]
    lines += [f"{s['name']:<28} {s['result']:<24} {s['seconds']:>5} s" for s in done] + [""]
    for r in rows:
        aim = f", aim {r['aim']}" if r["aim"] else ""
        lines.append(f"{r['what'] + ' (must ' + r['must'] + aim + '):':<90} {r['measured']}")
    for s in done:
        if s["name"] == "gpu_registry_test" or s["name"].startswith("bench_"):
            lines += ["", f"-- {s['name']}", *excerpt(folder, s["name"])]
    write(os.path.join(sys.argv[1], "report.txt"), "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
