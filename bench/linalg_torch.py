"""PyTorch's decompositions beside those of bench/linalg_bench.cpp: a table of milliseconds and ratios.

    python3 bench/linalg_torch.py build/release/linalg_bench f32 32 128 512 1024 2048 1000x8 64x64

Two turns of ours, theirs; the least time of each side counts. As many threads for both as $OMP_NUM_THREADS says, or all.
"""
import re
import subprocess
import sys
import time

import torch

seconds = 0.06


def best_time(run):
    best, end, runs = 1e9, time.perf_counter() + seconds, 0
    while time.perf_counter() < end or runs < 3:
        begin = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begin)
        runs += 1
    return best * 1e3


def ours(program, dtype, size):
    out = subprocess.run([program, dtype, size, str(seconds)], check=True, capture_output=True, text=True).stdout
    return {name: float(ms) for name, ms in re.findall(r"^(\w+): ([\d.]+) ms$", out, re.M)}


def theirs(dtype, size, names):
    torch.manual_seed(1)
    *batch, n = (int(i) for i in size.split("x"))
    options = {"dtype": torch.float64 if dtype == "f64" else torch.float32}
    a, b = torch.randn(*batch, n, n, **options), torch.randn(*batch, n, n, **options)
    positive, symmetric = a @ a.mT + n * torch.eye(n, **options), a + a.mT
    linalg, triangle = torch.linalg, torch.linalg.cholesky(positive)
    calls = {
        "cholesky": lambda: linalg.cholesky(positive), "lu_factor": lambda: linalg.lu_factor(a),
        "solve_triangular": lambda: linalg.solve_triangular(triangle, b, upper=False), "solve": lambda: linalg.solve(a, b),
        "inv": lambda: linalg.inv(a), "qr": lambda: linalg.qr(a), "eigh": lambda: linalg.eigh(symmetric),
        "eigvalsh": lambda: linalg.eigvalsh(symmetric), "svd": lambda: linalg.svd(a, full_matrices=False),
        "svdvals": lambda: linalg.svdvals(a), "pinv": lambda: linalg.pinv(a),
    }
    return {name: best_time(calls[name]) for name in names}


def main():
    program, dtype, sizes = sys.argv[1], sys.argv[2], sys.argv[3:]
    table = {}
    for size in sizes:
        a = ours(program, dtype, size)
        b = theirs(dtype, size, a)
        again, b_again = ours(program, dtype, size), theirs(dtype, size, a)
        for name in a:
            table[name, size] = min(a[name], again[name]), min(b[name], b_again[name])
    print(f"| {dtype} | " + " | ".join(sizes) + " |\n|" + "---|" * (len(sizes) + 1))
    for name in dict.fromkeys(n for n, _ in table):
        cells = [f"{a:.3g}, {b / a:.1f}x" for a, b in (table.get((name, s), (1, 0)) for s in sizes)]
        print(f"| {name} | " + " | ".join(c if (name, s) in table else "" for c, s in zip(cells, sizes)) + " |")


main()
