#!/usr/bin/env python3
"""Inference of Mantissa and PyTorch in turns: networks in evaluation, and linear layers with few rows.

    bench/inference.py --worker build/release/mantissa_bench [--only WORD...] [--modes eager eager-nhwc compile]
                       [--out FILE] [--blocks 8] [--turn 0.04]

Prints one line each and, with --out, writes a table for docs/experiments.md. The protocol is that of single operators
(bench/operators.py): both sides compute the same result from weights drawn by a formula, turns are A B B A, and the
ratio is the median of pairs, against the fastest mode of PyTorch.
"""

import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import gate  # noqa: E402
import operators  # noqa: E402
import protocol  # noqa: E402
import stats  # noqa: E402

CASES = [
    *(f"{m} {n}" for m in ("mlp", "lenet", "cnn", "resnet18") for n in (1, 32)),
    "gpt 1 1",
    "gpt 128 1",
    "vit 1",
    "vit 32",
    "linear 1024 1024 1",
    "linear 4096 4096 1",
    "linear 4096 4096 4",
    "linear 4096 4096 16",
    "linear 1024 1024 32",
    "linear 4096 4096 32",
    "linear 784 256 32",
    "linear 784 256 16",
]
TOLERANCE = {"f32": 1e-3, "bf16": 5e-2}  # of the sums of the results, relative to their size


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--worker", required=True)
    p.add_argument("--only", nargs="+", default=[], help="cases whose name begins so, such as 'resnet18 1 f32'")
    p.add_argument("--modes", nargs="*", default=["eager", "eager-nhwc", "compile"])
    p.add_argument("--blocks", type=int, default=8)
    p.add_argument("--turn", type=float, default=0.04)
    p.add_argument("--out", default="")
    args = p.parse_args()
    cores = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, cores)
    environment = dict(os.environ, OMP_NUM_THREADS=str(len(cores)), MANTISSA_NUM_THREADS=str(len(cores)))
    cache = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    environment.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(cache, "mantissa/inductor"))
    command = [sys.executable, os.path.join(HERE, "torch_worker.py"), "--threads", str(len(cores)), "--mode"]
    live = {"mantissa": protocol.Worker("mantissa", [os.path.abspath(args.worker)], environment=environment)}
    for mode in args.modes:
        live[mode] = protocol.Worker(mode, [*command, mode], environment=environment, timeout=120)
    for worker in live.values():
        worker.wait_ready()
    load, rows = gate.Gate(cores=os.cpu_count()), []
    for case in CASES:
        for precision in ("f32", "bf16"):
            name = f"{case} {precision}"
            if args.only and not any(name.startswith(o) for o in args.only):
                continue
            rows.append(measure(name, live, load, args, TOLERANCE[precision]))
            print(rows[-1], flush=True)
    for worker in live.values():
        worker.quit()
    if args.out:
        with open(args.out, "w") as f:
            f.write("| | | Mantissa, us | PyTorch, us | its fastest mode | ratio, 95 % interval |\n")
            f.write("|---|---|---|---|---|---|\n")
            f.write("\n".join(rows) + "\n")


def measure(name, live, load, args, tolerance):
    pictures = name.split()[0] in ("lenet", "cnn", "resnet18", "vit")
    workers = {s: w for s, w in live.items() if pictures or s != "eager-nhwc"}
    operators.OPERATORS[f"infer {name}"] = tolerance
    settings = {"turn": args.turn, "blocks": args.blocks}
    case, precision = name.rsplit(" ", 1)
    r = operators.measure(f"infer {name}", workers, load, settings, 1, peers=[s for s in workers if s != "mantissa"])
    ours = r["us"]["mantissa"]
    if len(workers) == 1:
        return f"| {case} | {precision} | {ours:.1f} | least {r['least_us']['mantissa']:.1f} | | |"
    peer = min((s for s in workers if s != "mantissa"), key=lambda s: r["us"][s])
    every, _ = stats.chosen(r["blocks"], least=2)
    ratio = stats.summary(stats.chosen(r["blocks"])[0], "mantissa", peer, 1) or stats.summary(every, "mantissa", peer, 1)
    interval = f"**{ratio['ratio']:.2f}x** [{ratio['low']:.2f}, {ratio['high']:.2f}]"
    busy = " (busy machine)" if r["busy"] else ""
    return f"| {case} | {precision} | {ours:.1f} | {r['us'][peer]:.1f} | {peer} | {interval}{busy} |"


if __name__ == "__main__":
    main()
