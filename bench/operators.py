"""Single operators, by the names that bench/operators.cpp and bench/torch_operators.py know, and how they are timed:
the same turns, gate and statistics as whole workloads have. The sums of the results of both sides must agree.
"""

import random
import time

import proofs
import schedule
import stats

OPERATORS = {
    "add": 1e-6,  # name: how far the sums of both sides may be apart, relative to the sum of absolute values
    "add recorded": 1e-6,
    "ten products and backward": 1e-5,
    "small linear": 1e-5,
    "small linear, autocast": 2e-2,
    "matmul 256": 1e-5,
    "matmul 256, autocast": 2e-2,
    "matmul 1024": 1e-5,
    "matmul 1024, autocast": 2e-2,
    "conv2d": 1e-5,
    "conv2d, autocast": 2e-2,
    "conv2d and backward": 1e-4,
    "conv2d and backward, autocast": 2e-2,
    "batch_norm and backward": 1e-4,
    "layer_norm and backward": 1e-4,
    "softmax and backward": 1e-4,
    "cross_entropy and backward": 1e-4,
    "gelu and backward": 1e-4,
    "attention and backward": 1e-4,
    "LSTM and backward": 1e-4,
    "LSTM and backward, autocast": 2e-2,
    "GRU and backward": 1e-4,
    "GRU and backward, autocast": 2e-2,
    "Adam step": 1e-5,
}


def agree(name, ours, theirs):
    """ours, theirs: {"sum", "absolute"} of the result, in f64."""
    difference = abs(ours["sum"] - theirs["sum"]) / max(theirs["absolute"], 1e-30)
    sizes = abs(ours["absolute"] - theirs["absolute"]) / max(theirs["absolute"], 1e-30)
    if not max(difference, sizes) <= OPERATORS[name]:
        raise proofs.Failed(f"{name}: the results differ by {max(difference, sizes):.1e} of their size")


def measure(name, workers, gate, settings, seed, device="cpu", peers=("eager",)):
    """workers: {"mantissa": Worker, peer: Worker...}. Raises proofs.Failed or protocol.WorkerError. The ratio is against
    the first peer."""
    r, blocks, loads = random.Random(seed), [], []
    checks = {s: w.ask("OPERATOR", 600, name=name, device=device) for s, w in workers.items()}
    for peer in peers:
        agree(name, checks["mantissa"], checks[peer])
    count = 1
    while (slow := max(w.ask("CALLS", 120, count=count)["seconds"] for w in workers.values())) < settings["turn"] / 4:
        count = max(count + 1, min(count * 8, int(count * settings["turn"] / 2 / max(slow, 1e-7))))
    count = max(1, round(count * settings["turn"] / slow))
    for number in range(settings["blocks"] + 1):
        seconds = {}
        for side in schedule.block_order(workers, r):
            time.sleep(0.01)
            gate.begin(workers[side].process.pid)
            answer = workers[side].ask("CALLS", 120, count=count)
            quiet, share, _ = gate.verdict(answer["involuntary"])
            seconds.setdefault(side, []).append([answer["seconds"], quiet])
            loads.append(share)
        if number > 0:
            blocks.append(seconds)
    quiet, busy = stats.chosen(blocks)
    if any(stats.times(quiet, s, count) is None for s in workers):
        quiet, busy = stats.chosen(blocks, least=2)  # a side without a quiet turn: all turns count
    return {"calls": count, "blocks": blocks, "busy": busy, "most_others": max(loads),
            "us": {s: 1e3 * stats.times(quiet, s, count)["median"] for s in workers},
            "least_us": {s: 1e3 * stats.times(quiet, s, count)["min"] for s in workers},
            "ratio": stats.summary(quiet, "mantissa", peers[0], seed) if peers else None}  # fmt: skip
