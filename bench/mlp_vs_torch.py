#!/usr/bin/env python3
"""The same MLP training steps in Mantissa and in PyTorch, in turns, in the same minutes.

    bench/mlp_vs_torch.py BUILD/mlp_bench [--blocks 15] [--threads 2]

Both sides start from the same weights, see the same batches in the same order, and their losses must agree, so
neither can skip work. Turns go A B B A; the headline is the median of the paired ratios with its spread.
Needs PyTorch (pip install torch); nothing else in the project does.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("worker")
parser.add_argument("--blocks", type=int, default=15)
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--threads", type=int, default=2)
args = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = os.environ["MANTISSA_NUM_THREADS"] = str(args.threads)

import warnings  # noqa: E402

warnings.filterwarnings("ignore")
import torch  # noqa: E402

torch.set_num_threads(args.threads)
torch.set_flush_denormal(True)
torch.manual_seed(1)
BATCH, BATCHES = 128, 32

net = torch.nn.Sequential()
for name, (i, o) in {"fc1": (784, 256), "fc2": (256, 128), "fc3": (128, 10)}.items():
    net.add_module(name, torch.nn.Linear(i, o))
    if name != "fc3":
        net.add_module(name + "_relu", torch.nn.ReLU())
# Learnable data, so that losses fall and differ from step to step: a random linear teacher.
images = torch.randn(BATCHES, BATCH, 784)
labels = (images @ torch.randn(784, 10)).argmax(2)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
loss_fn = torch.nn.CrossEntropyLoss()
position = 0


def torch_run(steps):
    global position
    losses = []
    begin = time.perf_counter()
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_fn(net(images[position]), labels[position])
        position = (position + 1) % BATCHES
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    seconds = time.perf_counter() - begin
    return seconds, [x.item() for x in losses]


def dump(path, tensor):
    with open(path, "wb") as f:
        f.write(bytes(tensor.detach().contiguous().untyped_storage()))


with tempfile.TemporaryDirectory() as folder:
    for name, p in net.named_parameters():
        dump(os.path.join(folder, name), p)
    dump(os.path.join(folder, "images"), images)
    dump(os.path.join(folder, "labels"), labels)
    worker = subprocess.Popen([args.worker, "--worker", folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if worker.stdout.readline().strip() != "ready":
        sys.exit("the worker did not start")

    def mantissa_run(steps):
        worker.stdin.write(f"run {steps}\n")
        worker.stdin.flush()
        numbers = [float(x) for x in worker.stdout.readline().split()]
        return numbers[0], numbers[1:]

    # The same work: the first losses agree to the last bits. (Later they drift apart: where a gradient is almost 0,
    # Adam's quotient turns a difference in rounding into a whole step.)
    a, b = mantissa_run(20)[1], torch_run(20)[1]
    worst = max(abs(x - y) / abs(y) for x, y in zip(a, b))
    print(f"first 20 losses: {b[0]:.4f} .. {b[-1]:.4f}, largest relative difference {worst:.1e}")
    if worst > 1e-6:
        sys.exit("the losses differ: not the same work")
    pairs = []
    for block in range(args.blocks + 1):
        sides = [mantissa_run, torch_run] if block % 2 == 0 else [torch_run, mantissa_run]
        first, second = sides[0](args.steps)[0], sides[1](args.steps)[0]
        m, t = (first, second) if block % 2 == 0 else (second, first)
        if block > 0:  # the first block warms up
            pairs.append((m * 1000 / args.steps, t * 1000 / args.steps))
    worker.stdin.close()
    worker.wait()

ratios = sorted(t / m for m, t in pairs)
print(f"PyTorch {torch.__version__}, {args.threads} threads, {len(pairs)} blocks of {args.steps} steps, ms per step (median):")
print(f"  Mantissa {statistics.median(m for m, _ in pairs):.3f}   PyTorch {statistics.median(t for _, t in pairs):.3f}")
print(f"  Mantissa is {statistics.median(ratios):.2f}x as fast (lowest {ratios[0]:.2f}, highest {ratios[-1]:.2f})")
